/* One trial of a search: a scenario taken all the way to whether it fits, and what it takes. The oracle behind `memwall fit` and the accuracy tables.
 *
 * The schedule runs first with memory to spare. Where no space is then fuller than it is large, nothing ever waited for memory: the step fits as it ran. Else it runs again with the machine's
 * memory: it may fit by waiting, else the first run says what it would need. */
#ifndef MEMWALL_REPORT_FIT_TRIAL_H
#define MEMWALL_REPORT_FIT_TRIAL_H

#include "sim/base/json_write.h"
#include "sim/ir/schedule.h"
#include "sim/core/fit_search.h"
#include "sim/plan/policy_facts.h"
#include "sim/plan/scenario.h"

/* A space at its peak. */
struct fit_space {
    bool present;
    enum space_kind kind;
    char name[64];           /* as results call it: "gpu 0", "host memory of node 0" */
    uint64_t capacity_bytes; /* UINT64_MAX: unlimited */
    uint64_t peak_bytes;
    uint64_t peak_reserved_bytes; /* by the allocator model */
    uint64_t by_class[BUFFER_CLASS_COUNT];
};

struct fit_trial {
    uint32_t candidate; /* the searcher's number for it; 0 after fit_trial_run */
    char name[256];     /* of the model */
    int64_t parameters, micro_batch, global_batch;
    uint32_t gpus;
    char machine[256], policy[64];
    uint32_t ops; /* of its schedule; 0: there was none */
    enum fit_verdict verdict;
    bool simulated; /* the figures below hold; of what does not fit: with memory to spare */
    double step_time_s, samples_per_s, tokens_per_s, tokens_per_s_per_gpu, model_tflops_per_gpu, mfu;
    struct fit_space fullest[SPACE_KIND_COUNT]; /* of each kind the one that is used most of its capacity */
    /* What is too small, when it does not fit: the space that lacks the largest share; pinned memory only where its host does not lack. Where a policy refused before there was a schedule,
     * what it counted (by_class is then empty); absent where it did not say. */
    struct fit_space full;
    uint64_t needed_bytes;            /* of `full`: its peak, or its reserved peak where that is what does not fit */
    char reason[ERROR_MESSAGE_BYTES]; /* of what does not fit or is refused */
};

/* Tries the scenario of `file` after `sets` ("model=gpt2"; scenario_load). `reserved`: what the allocator model holds must fit too, fragmentation and rounded pinned blocks included,
 * not only what is live. What is wrong with the scenario itself gives FIT_REFUSED with the reason, what a policy or the run says cannot fit FIT_TOO_BIG; other errors (memory,
 * input/output, faults of the program) are returned. */
enum status fit_trial_run(struct fit_trial *trial, const char *file, const char *const *sets, uint32_t set_count,
                          bool reserved, struct error *error);

/* The same of whatever `load` makes of the zeroed scenario. Its errors are taken as said above; it leaves nothing to free with them. */
typedef enum status fit_trial_load(void *context, struct scenario *scenario, struct error *error);
enum status fit_trial_run_loaded(struct fit_trial *trial, fit_trial_load *load, void *context, bool reserved,
                                 struct error *error);

/* `full` and needed_bytes from what a policy counted when it refused; nothing where it did not say. */
void fit_trial_take_lack(struct fit_trial *trial, const struct policy_lack *lack);

/* As an object of `tried` in "memwall.fit/1"; a space at its peak, null when there is none. */
void fit_trial_json(struct json_writer *w, const char *key, const struct fit_trial *trial);
/* What is too small as the object "full", or null. */
void fit_full_json(struct json_writer *w, const struct fit_trial *trial);
void fit_space_json(struct json_writer *w, const char *key, const struct fit_space *space);

#endif
