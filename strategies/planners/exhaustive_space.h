/* The space of planner `exhaustive`: every split of a scenario's GPUs and global batch that is the same in all layers, screened by closed forms.
 *
 * tensor x pipeline x data = GPUs; micro-batches that divide a replica's batch; recomputation none, selective, full; chunks a device whose stages divide the layers evenly (interleaved needs
 * a multiple of `pipeline` micro-batches); ZeRO 0 .. 3 where there are replicas; sequence parallelism on and off where tensor > 1. Any number of GPUs: degrees are divisors, not powers of two. */
#ifndef MEMWALL_STRATEGIES_PLANNERS_EXHAUSTIVE_SPACE_H
#define MEMWALL_STRATEGIES_PLANNERS_EXHAUSTIVE_SPACE_H

#include "strategies/planners/exhaustive_screen.h"

/* name, what it allows */
#define EXHAUSTIVE_SPACE_TABLE(X)                                                                                      \
    X(SPACE_FULL, "full")                                                                                              \
    X(SPACE_DP, "dp")                                                                                                  \
    X(SPACE_SDP, "sdp")                                                                                                \
    X(SPACE_TP, "tp")                                                                                                  \
    X(SPACE_PP, "pp")                                                                                                  \
    X(SPACE_3D, "3d")                                                                                                  \
    X(SPACE_DP_TP, "dp+tp")                                                                                            \
    X(SPACE_DP_PP, "dp+pp")

enum exhaustive_space {
#define X(name, word) name,
    EXHAUSTIVE_SPACE_TABLE(X)
#undef X
};

enum space_sequence_parallel { SEQUENCE_PARALLEL_BOTH, SEQUENCE_PARALLEL_ON, SEQUENCE_PARALLEL_OFF };

struct space_request {
    const struct scenario *scenario;
    enum exhaustive_space space;
    enum space_sequence_parallel sequence_parallel;
    int64_t tensor_max, virtual_stages_max, zero_max; /* 0: no limit (tensor, virtual stages) */
    bool uneven;                                      /* stages of layers / pipeline rounded up and down, too */
    uint32_t threads;
};

struct space_candidate {
    struct screen_point point;
    struct screen_cost cost;
};

struct space {
    struct space_candidate
        *items; /* in the order of (tensor, pipeline, micro-batch, sequence parallel, chunks, recompute, ZeRO) */
    size_t count, capacity;
    uint64_t refused; /* splits that divide the GPUs, but that batch, order or model refuse */
    bool interrupted;
};

enum { SPACE_CANDIDATES_MAX = 1 << 23 };

/* STATUS_BAD_INPUT when nothing is left, with the reason. `idle` as oracle_parallel has it, counting (tensor, pipeline) pairs. */
enum status space_build(const struct space_request *request, struct space *space,
                        bool (*idle)(void *context, uint32_t done, uint32_t total), void *idle_context,
                        struct error *error);
void space_free(struct space *space);

#endif
