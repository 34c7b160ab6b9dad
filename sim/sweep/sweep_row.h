/* One row of a sweep's results: a scenario simulated in full, and every figure of `memwall run --json` that is one value. Plain data without pointers, so that it travels between processes. */
#ifndef MEMWALL_SWEEP_SWEEP_ROW_H
#define MEMWALL_SWEEP_SWEEP_ROW_H

#include <stdbool.h>
#include <stdint.h>

#include "sim/base/hash.h"
#include "sim/base/status.h"

/* column; +1: more is better, -1: less is better, 0: neither; whether a whole number; what it is */
#define SWEEP_FIGURE_TABLE(X)                                                                                          \
    X(step_time_s, -1, false, "seconds of one step (of what does not fit: with memory to spare, as all figures)")      \
    X(samples_per_s, 1, false, "sequences a second, whole cluster")                                                    \
    X(tokens_per_s, 1, false, "tokens a second, whole cluster")                                                        \
    X(tokens_per_s_per_gpu, 1, false, "tokens a second and GPU")                                                       \
    X(model_tflops_per_gpu, 1, false, "TFLOP/s a GPU, without recomputation")                                          \
    X(hardware_tflops_per_gpu, 1, false, "TFLOP/s a GPU, as executed")                                                 \
    X(mfu, 1, false, "model FLOPs over peak, fraction")                                                                \
    X(hfu, 1, false,                                                                                                   \
      "executed FLOPs over peak, fraction; below mfu where causal attention leaves out the half that mfu counts")      \
    X(gpus, -1, true, "GPUs in use")                                                                                   \
    X(nodes, -1, true, "servers")                                                                                      \
    X(global_batch, 0, true, "sequences of a step")                                                                    \
    X(ops, 0, true, "operations of the schedule")                                                                      \
    X(peak_bytes, -1, true, "live bytes at the peak of the fullest device")                                            \
    X(peak_reserved_bytes, -1, true, "bytes its caching allocator would hold (the most of any device)")                \
    X(peak_weight_bytes, 0, true, "of peak_bytes: parameters used by kernels")                                         \
    X(peak_gradient_bytes, 0, true, "of peak_bytes: accumulated gradients")                                            \
    X(peak_optimizer_bytes, 0, true, "of peak_bytes: master weights and moments")                                      \
    X(peak_activation_bytes, 0, true, "of peak_bytes: tensors saved from forward to backward")                         \
    X(peak_boundary_bytes, 0, true, "of peak_bytes: tensors received from or sent to another stage")                   \
    X(peak_workspace_bytes, 0, true, "of peak_bytes: short-lived tensors of a running pass")                           \
    X(peak_communication_bytes, 0, true, "of peak_bytes: gathered parameters, buckets, staging")                       \
    X(peak_runtime_bytes, 0, true, "of peak_bytes: context, communicator buffers, library workspace")                  \
    X(least_peak_bytes, 0, true, "live bytes at the peak of the emptiest device")                                      \
    X(capacity_bytes, 0, true, "usable bytes of a device")                                                             \
    X(host_peak_bytes, -1, true, "live bytes at the peak of the fullest host memory")                                  \
    X(storage_peak_bytes, -1, true, "live bytes at the peak of the fullest storage")                                   \
    X(samples_per_s_per_gib, 1, false, "samples a second for a GiB of the fullest device")                             \
    X(time_compute_s, 0, false, "mean over stages, exposed: forward and backward kernels")                             \
    X(time_recompute_s, -1, false, "same: kernels that repeat forward work")                                           \
    X(time_tensor_comm_s, -1, false, "same: tensor-parallel collectives")                                              \
    X(time_pipeline_comm_s, -1, false, "same: sends and receives between stages")                                      \
    X(time_data_comm_s, -1, false, "same: gradient reduction, weight gathers")                                         \
    X(time_offload_s, -1, false, "same: copies to and from host memory and storage")                                   \
    X(time_optimizer_s, -1, false, "same: gradient norm and parameter update")                                         \
    X(time_bubble_s, -1, false, "same: waiting for other stages")                                                      \
    X(time_memory_wait_s, -1, false, "same: waiting for memory to be freed")                                           \
    X(time_host_issue_s, -1, false, "same: waiting for the host to launch")                                            \
    X(bound_share, 0, false, "share of the step time of what binds most (column bound)")                               \
    X(cost_usd, -1, false, "US dollars of one step at the machine's cloud price; NULL: the machine has none")          \
    X(cost_usd_per_trillion_tokens, -1, false, "the same for 1e12 tokens")

enum sweep_figure {
#define X(name, better, whole, help) FIGURE_##name,
    SWEEP_FIGURE_TABLE(X)
#undef X
        SWEEP_FIGURE_COUNT
};

struct sweep_figure_info {
    const char *name, *help;
    int better;
    bool whole;
};
extern const struct sweep_figure_info sweep_figures[SWEEP_FIGURE_COUNT];

#define SWEEP_STATUS_TABLE(X)                                                                                          \
    X(SWEEP_DONE, "done")                                                                                              \
    X(SWEEP_DOES_NOT_FIT, "does_not_fit")                                                                              \
    X(SWEEP_ERROR, "error")

enum sweep_status {
#define X(name, word) name,
    SWEEP_STATUS_TABLE(X)
#undef X
        SWEEP_STATUS_COUNT
};
const char *sweep_status_word(enum sweep_status status);

enum { SWEEP_REASON_BYTES = 1024, SWEEP_BOUND_BYTES = 96, SWEEP_TRAFFIC_BYTES = 512 };

struct sweep_row {
    enum sweep_status status;
    /* Of SWEEP_ERROR: what kind. Those that say nothing of the scenario (memory of this computer, its files) are tried again when the sweep is resumed: sweep_row_is_final. */
    enum status error;
    bool has[SWEEP_FIGURE_COUNT]; /* else NULL */
    double figures[SWEEP_FIGURE_COUNT];
    char reason[SWEEP_REASON_BYTES];   /* of what does not fit or fails, else "" */
    char bound[SWEEP_BOUND_BYTES];     /* what binds most */
    char traffic[SWEEP_TRAFFIC_BYTES]; /* {"nvlink":bytes,...} by kind of link */
    char schedule_hash[HASH_TEXT_BYTES];
};

/* Simulates the scenario of `text`. Always yields a row: what goes wrong is a row of SWEEP_ERROR. `name` names the text in reasons. */
void sweep_row_compute(struct sweep_row *row, const char *text, const char *name);
bool sweep_row_is_final(const struct sweep_row *row);

#endif
