/* The Galvatron search: pipeline degree, stage boundaries, a strategy for every layer, micro-batches and global batch, so that samples per second are most (Galvatron-BMW, TKDE 2024).
 *
 * For each batch and pipeline degree: a partition into stages (even, greedy, or the bi-objective search of galvatron_balance.c), a dynamic programme for each stage (galvatron_dp.h), the pipeline formula.
 * Times and memories come from a struct galvatron_source; nothing here knows models or machines.
 *
 *     struct galvatron_request request;
 *     galvatron_request_init(&request, &source, GALVATRON_VARIANT_V1);   // rules of a variant
 *     request.budget_mib = 8 * 1024;
 *     struct galvatron_result result;
 *     TRY(galvatron_search(&request, &result, &error));
 *     if (result.found) ... result.best.samples_per_s ...
 *     galvatron_result_free(&result);
 *
 * That nothing fits is a result (found false, smallest_budget_mib), not an error. Deterministic; one thread. */
#ifndef MEMWALL_STRATEGIES_PLANNERS_GALVATRON_SEARCH_H
#define MEMWALL_STRATEGIES_PLANNERS_GALVATRON_SEARCH_H

#include <stdbool.h>
#include <stdint.h>

#include "sim/base/arena.h"
#include "sim/base/status.h"
#include "strategies/planners/galvatron_cost.h"
#include "strategies/planners/galvatron_space.h"

/* Named as the papers compare them. */
#define GALVATRON_VARIANT_TABLE(X)                                                                                     \
    X(GALVATRON_VARIANT_V1, "galvatron", "no recomputation, GPipe, memory-greedy or even stages")                      \
    X(GALVATRON_VARIANT_BASE, "galvatron-base", "galvatron with recomputation")                                        \
    X(GALVATRON_VARIANT_BIOBJ, "1f1b-biobj", "1F1B and balanced stages, no recomputation")                             \
    X(GALVATRON_VARIANT_BMW, "galvatron-bmw", "recomputation, 1F1B, balanced stages; never worse than the others")
enum galvatron_variant {
#define X(name, word, summary) name,
    GALVATRON_VARIANT_TABLE(X)
#undef X
        GALVATRON_VARIANT_COUNT
};

enum galvatron_partition_rule {
    GALVATRON_PARTITION_EVEN,        /* floor(L/P), the rest to the last (B.6) */
    GALVATRON_PARTITION_V1,          /* even for one kind of layer, else v1's greedy memory balance */
    GALVATRON_PARTITION_G2,          /* even for one kind of layer, else G2's greedy memory balance */
    GALVATRON_PARTITION_BIOBJECTIVE, /* between memory and time balance (B.5; the exact rule is ours) */
};

enum galvatron_micro_search {
    GALVATRON_MICRO_OF_SOURCE, /* source->micro_batches */
    GALVATRON_MICRO_DIVISORS,  /* every divisor m of the batch with m >= P (head) */
    GALVATRON_MICRO_ALL, /* every divisor: where kernels are too small for the device, idle stages cost less than small micro-batches */
};

struct galvatron_progress {
    double batch;
    uint32_t pipeline;
    uint64_t searches; /* dynamic programmes so far */
    double share;      /* of the estimated work, 0 .. 1; 0: not known */
    double best_samples_per_s;
};

struct galvatron_request {
    const struct galvatron_source *source;
    enum galvatron_space space;
    enum galvatron_order order;
    enum galvatron_partition_rule partition;
    enum galvatron_micro_search micro;
    bool recompute, one_f_one_b;
    bool include_variants; /* also search every other space and variant and keep the best of all: galvatron-bmw */
    bool zero2;            /* plain data parallelism is ZeRO-2 (A.1): galvatron_setting's */
    bool either_zero;      /* search the full space both ways, each as a variant of its own */
    /* Keep the best of every variant and degree too, for who judges them by other means (a simulation): none is then cut short by what another one has found. */
    bool candidates;
    uint32_t tensor_max, pipeline_max;           /* 0: no limit */
    double budget_mib;                           /* of a device, context included */
    bool reserve;                                /* budgets above 20 GiB lose a fifth to the caching allocator (C.1) */
    uint32_t batch_first, batch_step, batch_max; /* samples; max 0: until nothing fits */
    bool whole_batches;                          /* skip batches that the devices of a stage do not divide (G2) */
    /* Now and then, from the calling thread; false stops, the answer is the best so far. NULL: nobody listens. */
    bool (*progress)(void *context, const struct galvatron_progress *progress);
    void *progress_context;
};

struct galvatron_stage {
    uint32_t layers;
    double compute_s, full_s; /* C and T: one micro-batch; for form v1 the stage's share of the step */
    double memory_mib;        /* charged: ceil of every layer plus ceil of the rest */
    double leftover_mib;      /* of the budget */
};

struct galvatron_plan {
    double batch, step_s, samples_per_s;
    uint32_t pipeline, micro_batches, layer_count;
    struct galvatron_stage *stages;    /* [pipeline] */
    struct galvatron_strategy *layers; /* [layer_count] */
    double alpha_t, alpha_m;           /* 1 - max/sum over stages of time and memory; best 1 - 1/P (B.5) */
    bool one_f_one_b, zero2;
    const char *found_by; /* variant or space whose search it was */
};

/* A plan, and the memory-balanced anchor that its balancing started from: the same batch, degree and micro-batches. Bi-objective partitions that fit before they were balanced only. */
struct galvatron_candidate {
    struct galvatron_plan plan;
    bool has_unbalanced;
    struct galvatron_plan unbalanced;
};

struct galvatron_result {
    bool found, interrupted;
    struct galvatron_plan best;
    struct galvatron_plan *runners_up; /* the best of every other pipeline degree, best first */
    uint32_t runner_up_count;
    bool has_unbalanced;
    struct galvatron_plan unbalanced;       /* of best */
    struct galvatron_candidate *candidates; /* request.candidates: fastest first, best among them */
    uint32_t candidate_count;
    double held_to_mib;         /* the budget, less what request.reserve takes of it */
    double largest_batch;       /* the largest that fits */
    double smallest_budget_mib; /* of the first batch, when nothing fits */
    bool nothing_tried;         /* no batch could be split in any way of the space: that is no question of memory */
    uint64_t searches,
        skipped; /* dynamic programmes run; (batch, degree) pairs skipped since their unlimited optimum could not win */
    struct arena arena; /* owns all of the above */
};

/* Rules of a variant; the full space, first batch and step 8, no limit, no reserve. */
void galvatron_request_init(struct galvatron_request *request, const struct galvatron_source *source,
                            enum galvatron_variant variant);
/* Of a request's searches the one that a plan's found_by names. */
void galvatron_request_only(struct galvatron_request *request, const char *found_by);
/* On error the result is empty. STATUS_BAD_INPUT: devices not a power of two, degrees beyond them, no budget, no layers, steps of 0. */
enum status galvatron_search(const struct galvatron_request *request, struct galvatron_result *result,
                             struct error *error);
void galvatron_result_free(struct galvatron_result *result);
const char *galvatron_variant_name(enum galvatron_variant variant);
enum status galvatron_variant_find(const char *name, enum galvatron_variant *variant, struct error *error);
/* "1-2*-4 x16 1-2*-4f x16": runs of equal layers, across stage boundaries. malloc'ed, NULL when memory is out. */
char *galvatron_plan_text(const struct galvatron_plan *plan);

#endif
