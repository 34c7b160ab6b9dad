/* What would do: the nearest changes of a scenario that does not fit with which it runs. Each is simulated as `memwall run` would (sim/report/fit_trial.h); nothing is guessed.
 *
 * Searched level by level, and the first level on which anything fits is the answer, the fastest first:
 *   1. one change, the step's samples kept: a setting of the memory policy, buckets, the ZeRO stage, more recomputation, a smaller micro-batch (more of them); what the policy itself said would do
 *   2. fewer samples a step
 *   3. several of these changes: all at once, then each taken back as far as the others allow; or the first of the next policies that does, of those that keep less on the device (resident,
 *      optimizer-on-host, zero-offload, zero3-offload, zero-infinity)
 *   4. the first of these policies with several changes
 *   5. more GPUs of the machine, or more servers of it; then with several changes; then with another policy too
 * Settings go from mild to strong (half, quarter, ...), and the mildest that fits counts (sim/report/remedy_ladder.h). A model split otherwise is a planner's to find.
 *
 *     const struct remedy_request request = { .load = load, .context = job, .said = facts.would_do };
 *     TRY(remedies_find(&request, &remedies, error));
 *     ... remedies.items[0].sets: "training.micro_batch=4", "training.global_batch=32" ... */
#ifndef MEMWALL_REPORT_REMEDY_H
#define MEMWALL_REPORT_REMEDY_H

#include "sim/base/json_write.h"
#include "sim/base/strbuf.h"
#include "sim/plan/scenario.h"

enum { REMEDY_SETS_MAX = 48, REMEDY_SET_BYTES = 64, REMEDIES_MAX = 3 };

/* Sets of a scenario ("parallel.zero_stage=3"), in order. */
struct remedy_sets {
    char items[REMEDY_SETS_MAX][REMEDY_SET_BYTES];
    uint32_t count;
};

struct remedy {
    struct remedy_sets sets;
    double step_time_s, samples_per_s;
};

struct remedies {
    struct remedy items[REMEDIES_MAX];
    uint32_t count;  /* 0: nothing tried would do */
    uint32_t tried;  /* changes simulated or refused */
    bool has_looked; /* the search has been made */
    bool stopped;    /* before its end: it would have taken too long */
};

/* Makes the zeroed scenario anew with `sets` on top. Errors of input are a change that cannot be made; on error nothing stays allocated. */
typedef enum status remedy_load(void *context, struct scenario *scenario, const char *const *sets, uint32_t set_count,
                                struct error *error);

struct remedy_request {
    remedy_load *load;
    void *context;
    const char *said; /* a set that the policy said would do (policy_facts.would_do), or "" */
};

/* Errors: memory, faults of the simulator. */
enum status remedies_find(const struct remedy_request *request, struct remedies *remedies, struct error *error);

/* Lines to paste, fastest first; the keys "would_do" and "would_do_tried" of an open object. Nothing where nothing was searched. */
void remedies_text(const struct remedies *remedies, struct strbuf *out);
void remedies_json(const struct remedies *remedies, struct json_writer *w);

#endif
