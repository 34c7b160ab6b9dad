/* A result ("memwall.result/1") read back, with the studies that may be in it: what a report says of a step. Texts borrow from the document; NAN: not known.
 *
 *     struct step_result result;
 *     TRY(step_result_read(&result, &root, error));  ...  step_result_free(&result); */
#ifndef MEMWALL_REPORT_HTML_STEP_RESULT_H
#define MEMWALL_REPORT_HTML_STEP_RESULT_H

#include "sim/base/arena.h"
#include "sim/base/json.h"
#include "sim/report/html/step_facts.h"
#include "sim/report/result.h"

struct step_space {
    const char *name, *kind;                            /* "gpu 0", "device" */
    const char *peak_op;                                /* NULL: full from the start */
    double equal_devices, capacity;                     /* NAN: unlimited */
    double peak, reserved, at_peak[BUFFER_CLASS_COUNT]; /* bytes */
    double peak_time_s;
};

struct step_stage {
    const char *rank;
    double exposed_s[TIME_CLASS_COUNT], busy_s[TIME_CLASS_COUNT];
};

/* Links of one kind that move as many bytes stand once. */
struct step_link {
    const char *name, *kind;
    double bytes, busy_fraction, use_fraction, bytes_per_s;
    double class_bytes[TIME_CLASS_COUNT];
    uint32_t alike; /* itself included */
};

struct step_bound {
    const char *what, *advice;
    double share;
};

struct step_sensitivity {
    const char *resource, *reason; /* reason: why the step does not run, or NULL */
    bool present, fits;
    double factor, step_time_s, change, elasticity;
};

struct step_share {
    const char *what;
    double time_s, share;
};
struct step_shares {
    struct step_share *items;
    uint32_t count;
};

struct step_pressure {
    const char *name, *largest_class;
    double next_bytes, batch_factor; /* NAN: nothing grows */
    bool next_fits;
};

struct step_result {
    const char *name, *executor, *schedule_hash, *reason; /* reason: why it does not fit, or NULL */
    const char *machine, *plan;                           /* its name, and the plan in words; "": not said */
    bool emulated, fits;
    double step_time_s; /* NAN: the step did not end */
    double samples_per_s, tokens_per_s, tokens_per_s_per_gpu, model_tflops, hardware_tflops, mfu, hfu;
    double gpus, ops;
    double measured_min_s, measured_max_s, measured_steps; /* NAN: simulated */
    struct step_space *spaces;
    struct step_stage *stages;
    struct step_link *links;
    struct step_bound *bounds;
    struct step_sensitivity *sensitivities;
    struct step_pressure *pressures;
    uint32_t space_count, stage_count, link_count, bound_count, sensitivity_count, pressure_count;
    uint32_t link_others;                                      /* that the list of links leaves out */
    struct step_shares causes, began_by, path_stages, top_ops; /* of the critical path; count 0: not asked for */
    struct step_facts money, failures, uncertainty;
    struct arena arena;
};

/* STATUS_BAD_INPUT names what is wrong and where: no result, one of another format, a member of a wrong type or beyond all bounds. On error nothing stays allocated. */
enum status step_result_read(struct step_result *result, const struct json *root, struct error *error);
void step_result_free(struct step_result *result);

/* The fullest space of a kind (NULL: of any), by share of its capacity, then by bytes; NULL: none holds anything. */
const struct step_space *step_result_fullest(const struct step_result *result, const char *kind);
#endif
