/* The result: what a person wants to know of a timeline. Computed once, then printed as JSON ("memwall.result/1"), as a summary, or as CSV.
 *
 * Times of a stage. The compute queue of a rank is, at every instant of the step, in exactly one state; their sum is the step time:
 *   busy with a kernel (compute, recompute, optimizer) or with a collective that holds the queue;
 *   idle, and then the cause is that of the op which comes next: the host has not issued it (host_issue); it waits for a transfer or collective that runs (pipeline_comm, tensor_comm, data_comm,
 *   offload: the *exposed* parts), for partners that are not ready (bubble), or for memory (memory_wait). Where it waits for an op that waits itself (behind others in a queue, or the host
 *   for an op it synchronises with), that op's causes count.
 * The busy times of the other queues are reported beside it; busy - exposed is what was hidden. */
#ifndef MEMWALL_REPORT_RESULT_H
#define MEMWALL_REPORT_RESULT_H

#include <stdbool.h>
#include <stdint.h>

#include "hw_models/cluster.h"
#include "hw_models/software.h"
#include "sim/base/arena.h"
#include "sim/base/strbuf.h"
#include "sim/engine/host_spill.h"
#include "sim/ir/schedule.h"
#include "sim/ir/timeline.h"
#include "sim/report/remedy.h"

/* name, JSON key, what it is */
#define TIME_CLASS_TABLE(X)                                                                                            \
    X(TIME_COMPUTE, "compute", "forward and backward kernels")                                                         \
    X(TIME_RECOMPUTE, "recompute", "kernels that repeat forward work")                                                 \
    X(TIME_TENSOR_COMM, "tensor_comm", "tensor-parallel collectives")                                                  \
    X(TIME_PIPELINE_COMM, "pipeline_comm", "sends and receives between stages")                                        \
    X(TIME_DATA_COMM, "data_comm", "gradient reduction, weight gathers")                                               \
    X(TIME_OFFLOAD, "offload", "copies to and from host memory and storage")                                           \
    X(TIME_OPTIMIZER, "optimizer", "gradient norm and parameter update")                                               \
    X(TIME_BUBBLE, "bubble", "waiting for other stages")                                                               \
    X(TIME_MEMORY_WAIT, "memory_wait", "waiting for memory to be freed")                                               \
    X(TIME_HOST_ISSUE, "host_issue", "waiting for the host to launch")

enum time_class {
#define X(name, key, help) name,
    TIME_CLASS_TABLE(X)
#undef X
        TIME_CLASS_COUNT
};

struct stage_times {
    uint32_t rank;
    double exposed_s[TIME_CLASS_COUNT]; /* sums to the step time */
    double busy_s[TIME_CLASS_COUNT];    /* of all queues: exposed + hidden */
};

struct link_traffic {
    uint32_t resource;
    double bytes;
    /* Of the step, with any use, however little. Collectives merged into passes count with their own time, latency included, not with the pass's. */
    double busy_fraction;
    double class_bytes[TIME_CLASS_COUNT];
};

struct bound {
    char what[96];    /* "tensor-parallel collectives of stage 0" */
    double share;     /* of the step time */
    char advice[160]; /* what would relieve it */
};

enum { BOUNDS_MAX = 8, MEASURED_STEPS_MAX = 1024 };

struct result {
    const char *name; /* of the scenario; borrowed */
    bool fits;
    bool
        complete; /* the step was run to its end; when it does not fit: with memory to spare, so that times and peaks say what it would need */
    uint32_t
        steps; /* in the schedule; of several the last but one is measured (timeline_step) and figures are of one */
    double step_time_s, samples_per_s, tokens_per_s, tokens_per_s_per_gpu;
    double model_tflops_per_gpu, hardware_tflops_per_gpu, mfu,
        hfu; /* against the dense peak of the compute precision; 0 when measured elsewhere */
    struct hash schedule_hash;
    struct stage_times *stages; /* one per rank */
    uint32_t stage_count;
    struct link_traffic *links; /* resources with traffic, by bytes descending; none when measured */
    uint32_t link_count;
    struct bound bounds[BOUNDS_MAX]; /* by share, descending */
    uint32_t bound_count;
    struct host_socket *sockets; /* of all servers, by node and socket (sim/engine/host_spill.h) */
    uint32_t socket_count;
    struct strbuf outcome; /* explanation when it does not fit */
    struct arena arena;
};

/* What distinguishes executed FLOPs from the model's, in a few words: recomputation adds, padding too (numbers.vocab_multiple), causal attention leaves out. */
const char *result_executed_words(double model_tflops, double hardware_tflops, bool recomputes);

/* The steps of an executor that measures. */
struct measured_steps {
    uint32_t count;
    double median_s, min_s, max_s; /* the lower median: the step that the timeline shows */
};
struct measured_steps measured_steps(const double *steps_s, uint32_t count); /* count > 0 */

struct result_input {
    const char *name;
    const struct schedule *schedule;
    const struct timeline *timeline;
    const struct cluster *cluster;
    const struct software *software;
    const struct cost_table *costs; /* what the simulation left (exec_options.costs), or NULL: made anew */
    const char *plan;               /* the plan in words (sim/plan/plan_words.h), or NULL */
    enum dtype precision;
    const char *does_not_fit; /* why the step does not fit, when `timeline` was run with memory to spare; else NULL */
    const struct measured_steps *measured; /* of real executors; else NULL */
    const struct remedies *remedies;       /* what would do where it does not fit, or NULL */
    bool is_elsewhere; /* measured on another computer than the machine described: no rates against its peaks */
};

enum status result_compute(struct result *result, const struct result_input *input, struct error *error);
void result_free(struct result *result);

void result_print_json(const struct result *result, const struct result_input *input, struct strbuf *out);
/* At most 110 columns wide, unless names are longer. */
void result_print_summary(const struct result *result, const struct result_input *input, struct strbuf *out);

const char *time_class_word(enum time_class time_class);

#endif
