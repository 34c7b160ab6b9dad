/* The strategies of one layer in Galvatron's search (Galvatron-BMW, TKDE 2024).
 *
 * A strategy splits a layer over the devices of a pipeline stage: tensor parallelism `tensor` times data parallelism `data`, all powers of two, pipeline * tensor * data = devices.
 * `sharded` is SDP (ZeRO-3); otherwise data parallelism is plain, or ZeRO-2 where the cost preset says so. `recompute` keeps only the layer's input.
 * `tensor_consecutive` says that the ranks of a tensor group are neighbours (else those of a data group are); it is a choice only where both degrees exceed 1, and true elsewhere.
 *
 *     text: "2-1-4f", "1-2*-4" (tensor consecutive), "1-2-4f*" (data consecutive, sharded), "1-1-16f-c" */
#ifndef MEMWALL_STRATEGIES_PLANNERS_GALVATRON_SPACE_H
#define MEMWALL_STRATEGIES_PLANNERS_GALVATRON_SPACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sim/base/status.h"

enum { GALVATRON_GPUS_MAX = 4096, GALVATRON_STRATEGIES_MAX = 128, GALVATRON_STRATEGY_TEXT_BYTES = 32 };

struct galvatron_strategy {
    uint32_t pipeline, tensor, data;
    bool tensor_consecutive, sharded, recompute;
};

/* The order of the two flags within a (pipeline, tensor) pair: ties of the search fall to the earlier strategy (B.2). */
enum galvatron_order {
    GALVATRON_ORDER_V1, /* strided plain, consecutive plain, strided sharded, consecutive sharded */
    GALVATRON_ORDER_G2, /* strided plain, strided sharded, consecutive plain, consecutive sharded */
};

/* Which strategies take part. 3D is the fixed 2-2*-2 of the golden files, scaled: tensor = the largest power of two <= sqrt of a stage's devices, pipeline 2, tensor consecutive, no SDP. */
#define GALVATRON_SPACE_TABLE(X)                                                                                       \
    X(GALVATRON_SPACE_FULL, "full")                                                                                    \
    X(GALVATRON_SPACE_DP, "dp")                                                                                        \
    X(GALVATRON_SPACE_SDP, "sdp")                                                                                      \
    X(GALVATRON_SPACE_TP, "tp")                                                                                        \
    X(GALVATRON_SPACE_PP, "pp")                                                                                        \
    X(GALVATRON_SPACE_3D, "3d")                                                                                        \
    X(GALVATRON_SPACE_DP_TP, "dp+tp")                                                                                  \
    X(GALVATRON_SPACE_DP_PP, "dp+pp")
enum galvatron_space {
#define X(name, word) name,
    GALVATRON_SPACE_TABLE(X)
#undef X
        GALVATRON_SPACE_COUNT
};
const char *galvatron_space_name(enum galvatron_space space);
/* STATUS_NOT_FOUND names the nearest and lists all. */
enum status galvatron_space_find(const char *name, enum galvatron_space *space, struct error *error);

struct galvatron_space_limits {
    uint32_t gpus; /* a power of two, 1 .. GALVATRON_GPUS_MAX */
    enum galvatron_space space;
    enum galvatron_order order;
    bool recompute;                    /* every strategy once more with recomputation, after all plain ones */
    uint32_t tensor_max, pipeline_max; /* 0: no limit */
};

/* The strategies of one pipeline degree, in the order of B.2, into strategies[GALVATRON_STRATEGIES_MAX]; returns how many (0: this degree isn't in the space). */
uint32_t galvatron_strategies(const struct galvatron_space_limits *limits, uint32_t pipeline,
                              struct galvatron_strategy *strategies);

/* How many ordered nestings of distinct dimensions with degrees >= 2 have `group` as their product: the counts of A.3, by enumeration. With `pruned` (third takeaway) DP and SDP never both. */
uint32_t galvatron_count_nestings(uint32_t group, bool pruned);
/* Over all pipeline degrees of `gpus`; recompute doubles it. */
uint32_t galvatron_count_space(uint32_t gpus, bool pruned, bool recompute);

/* STATUS_BAD_INPUT when `gpus` isn't a power of two in range (says which powers are near). */
enum status galvatron_check_gpus(uint32_t gpus, struct error *error);

/* Text of a strategy, as above, in `text` (GALVATRON_STRATEGY_TEXT_BYTES); returns `text`. */
const char *galvatron_strategy_text(const struct galvatron_strategy *strategy, char *text);
/* STATUS_BAD_INPUT: not such a text, or a degree that isn't a power of two. */
enum status galvatron_strategy_parse(const char *text, struct galvatron_strategy *strategy, struct error *error);
bool galvatron_strategy_equal(const struct galvatron_strategy *a, const struct galvatron_strategy *b);
/* The k of 2^k <= value. */
uint32_t galvatron_log2(uint32_t value);

#endif
