/* A pipeline order as a plug-in: for a stage, the sequence of forwards, backwards (and weight-gradient parts) of micro-batches and chunks.
 *
 * A device holds `virtual_stages` chunks of the model. Virtual stage numbers run 0 .. stages * virtual_stages - 1 along the model; an order says which virtual stage chunk c of stage s is (`placement`).
 * Each micro-batch passes every virtual stage once forward, once backward.
 *
 * Orders with model_replicas = R > 1 (chimera) hold R copies of the model: virtual stages [r * n, (r + 1) * n) with n = stages * virtual_stages / R are copy r, and a micro-batch
 * passes those of its own copy (`replica`) only. order_route says which they are, for every order.
 *
 *     struct order_request request = { .stages = 4, .micro_batches = 8, .virtual_stages = 1 };
 *     TRY(order_check(order, &request, error));
 *     struct order_step *steps = arena_array(&arena, struct order_step, order_step_count(order, &request));
 *     TRY(order_steps(order, &request, stage, steps, &count, error));
 *
 * To add one: one file in strategies/orders/ with a `const struct pipeline_order`, its name in strategies/orders/orders.h and strategies/registry.c, one test. */
#ifndef MEMWALL_PLAN_ORDER_H
#define MEMWALL_PLAN_ORDER_H

#include <stdbool.h>
#include <stdint.h>

#include "sim/base/arena.h"
#include "sim/plan/parameter.h"

enum { PIPELINE_ORDER_ABI = 1 };
/* Micro-batch numbers are 16-bit tags in a schedule, chunk and stage numbers too. */
enum { ORDER_STAGES_MAX = 4096, ORDER_MICRO_BATCHES_MAX = 65534, ORDER_VIRTUAL_STAGES_MAX = 1024 };

enum step_kind {
    STEP_FORWARD,
    STEP_BACKWARD,        /* whole backward, or its input part when the order splits */
    STEP_BACKWARD_WEIGHT, /* only when the order splits */
    STEP_KIND_COUNT
};

struct order_table;

struct order_step {
    uint8_t kind;
    uint16_t chunk; /* 0 .. virtual_stages - 1 */
    uint32_t micro_batch;
};

struct order_request {
    uint32_t stages, micro_batches, virtual_stages;
    struct parameter_values parameters;
    const struct order_table *table; /* of orders given step by step (sim/plan/order_table.h); else NULL */
    /* Replicas of each stage among which its micro-batches are dealt, micro-batch i to replica i mod r (1F1B-RR: Narayanan et al., PipeDream, SOSP 2019) [stages]; NULL: one of each. */
    const uint32_t *replicas;
    uint32_t replica; /* whose steps order_steps builds */
};

struct pipeline_order {
    uint32_t abi;
    const char *name, *summary, *paper;
    const struct parameter *parameters;
    uint32_t parameter_count;
    bool splits_backward;    /* uses STEP_BACKWARD_WEIGHT */
    bool asynchronous;       /* no flush: weights change after every backward */
    bool accumulates;        /* ... or, when asynchronous, after the last backward of each step */
    bool last_stage_keeps;   /* the last stage never recomputes: it goes back at once from what it has just kept */
    uint32_t virtual_stages; /* what it needs; 0: any >= 1 */
    uint32_t model_replicas; /* weight copies per device pair: 1; chimera, dualpipe: 2 */
    bool deals;              /* builds from order_share and order_warm_up, so that replicas can take turns */
    /* Refuse impossible requests with the reason and the nearest one that would do. NULL: none beyond order_check's own. */
    enum status (*check)(const struct order_request *request, struct error *error);
    /* The virtual stage that chunk `chunk` of `stage` is. NULL: chunk * stages + stage. */
    uint32_t (*placement)(const struct order_request *request, uint32_t stage, uint32_t chunk);
    /* The model copy that a micro-batch passes. NULL: 0. */
    uint32_t (*replica)(const struct order_request *request, uint32_t micro_batch);
    /* The steps of a stage, into room for `order_step_count`. Returns the number written. Orders that deal number the micro-batches of one replica 0 .. order_share - 1. */
    uint32_t (*build)(const struct order_request *request, uint32_t stage, struct order_step *steps);
    /* Weight versions that `stage` keeps. NULL: 1. */
    uint32_t (*weight_versions)(const struct order_request *request, uint32_t stage);
};

/* Ranges, the virtual stages the order needs, and the order's own check. STATUS_BAD_INPUT says what would do. */
enum status order_check(const struct pipeline_order *order, const struct order_request *request, struct error *error);
/* Build and verify. `steps` has room for order_step_count; the request has passed order_check. */
enum status order_steps(const struct pipeline_order *order, const struct order_request *request, uint32_t stage,
                        struct order_step *steps, uint32_t *count, struct error *error);

/* Replicas of a stage that take turns (1 where nothing is dealt), the micro-batches that each of them runs, and those that it takes before it goes back for the first time:
 * ceil(replicas of all later stages / its own), as PipeDream's planner and runtime count them; with one replica of each, stages - 1 - s. */
uint32_t order_replicas(const struct order_request *request, uint32_t stage);
uint32_t order_share(const struct order_request *request, uint32_t stage);
uint32_t order_warm_up(const struct order_request *request, uint32_t stage);
/* micro_batches * virtual_stages * (splits ? 3 : 2), divided by the model replicas (rounded up): of all replicas of a stage together. */
uint32_t order_step_count(const struct pipeline_order *order, const struct order_request *request);
uint32_t order_virtual_stage(const struct pipeline_order *order, const struct order_request *request, uint32_t stage,
                             uint32_t chunk);
/* The stage and chunk that hold a virtual stage. */
void order_holder(const struct pipeline_order *order, const struct order_request *request, uint32_t virtual_stage,
                  uint32_t *stage, uint32_t *chunk);
/* The virtual stages that a micro-batch passes: first .. last, in rising order. */
void order_route(const struct pipeline_order *order, const struct order_request *request, uint32_t micro_batch,
                 uint32_t *first, uint32_t *last);
/* Copies of the model, at least 1. */
uint32_t order_copies(const struct pipeline_order *order);
/* Virtual stages of one copy of the model; and which of them a virtual stage is, whatever its copy. */
uint32_t order_model_stages(const struct pipeline_order *order, const struct order_request *request);
uint32_t order_model_stage(const struct pipeline_order *order, const struct order_request *request,
                           uint32_t virtual_stage);
/* Whether no device has both the embedding and the head, of whatever copy: a tied table is then kept at either end. */
bool order_ends_apart(const struct pipeline_order *order, const struct order_request *request);
/* Passes forward of `stage` that have not come back yet (W, where backwards are split), at most; a chunk counts one. The request has passed order_check. */
enum status order_in_flight(const struct pipeline_order *order, const struct order_request *request, uint32_t stage,
                            uint32_t *most, struct error *error);
uint32_t order_weight_versions(const struct pipeline_order *order, const struct order_request *request, uint32_t stage);
/* Check that each (micro-batch, chunk) appears once per kind, F before B before W. Run on every built order, in every build. */
enum status order_verify(const struct pipeline_order *order, const struct order_request *request, uint32_t stage,
                         const struct order_step *steps, uint32_t count, struct error *error);
/* "F3", with several chunks "F3.4" (micro-batch.virtual stage), in `buffer`. */
const char *order_step_text(const struct pipeline_order *order, const struct order_request *request, uint32_t stage,
                            const struct order_step *step, char *buffer, size_t size);

#endif
