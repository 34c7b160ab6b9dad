/* A bare pipeline in abstract time units: an order, and nothing else. It teaches, and it is where closed forms are tested (`memwall pipeline`).
 *
 * The request becomes a real schedule: one rank a stage, or one a replica where micro-batches are dealt (order_request.replicas): a row (device number = row, stage after stage), OP_DELAY for each pass, one activation buffer from the start of a forward to
 * the end of its backward (of its weight part when the order splits), and a send/recv pair of fixed duration for each hop between stages. Any executor may run it.
 *
 * Times are a device's whole share of one micro-batch; its chunks divide them equally. An activation unit is a device's whole share too: the buffer of a
 * chunk has 1 byte, so a share has as many bytes as a micro-batch passes chunks on a device. Spaces are unlimited.
 *
 * Hops are asynchronous over an unlimited link: what one stage sends to another goes through p2p queues of its own on both sides (lanes), as many as hops can be under way at once,
 * so that a hop delays nothing but the pass that needs it. (The queues of a rank are limited, so very long hops between very short passes are refused.)
 *
 *     struct bare_pipeline_request request = { .order = order, .order_request = {...}, .forward = 1, .backward = 2 };
 *     TRY(bare_pipeline_schedule(&request, &schedule, error));
 *     TRY(exec_sim.run(&schedule, &options, &timeline, error));
 *     TRY(bare_pipeline_measure(&request, &schedule, &timeline, &result, error));
 *     printf("%g\n", result.makespan);
 *     bare_pipeline_result_free(&result); */
#ifndef MEMWALL_PLAN_BARE_PIPELINE_H
#define MEMWALL_PLAN_BARE_PIPELINE_H

#include <stdbool.h>
#include <stdint.h>

#include "sim/base/arena.h"
#include "sim/base/strbuf.h"
#include "sim/ir/schedule.h"
#include "sim/ir/timeline.h"
#include "sim/plan/bare_pipeline_bound.h"
#include "sim/plan/order.h"

/* One abstract unit in picoseconds. 720720 = lcm(1 .. 16): thousandths of a unit divided by up to 16 chunks are whole picoseconds. */
#define BARE_UNIT_PS  (720720 * (int64_t)1000)
#define BARE_TIME_MAX 1e6 /* of one pass or hop, in units */
/* What is not 0 is at least this: 72072 ps, so that rounding to the clock stays below 1e-5 of a pass (of one chunk). */
#define BARE_TIME_MIN 1e-4

enum bare_recompute {
    BARE_KEEP,            /* nothing is recomputed */
    BARE_RECOMPUTE_LAZY,  /* begins when the gradient has arrived, as Megatron does */
    BARE_RECOMPUTE_EAGER, /* may run while the stage waits for the gradient */
};

struct bare_pipeline_request {
    const struct pipeline_order *order;
    struct order_request order_request;
    double forward;  /* > 0 */
    double backward; /* > 0: whole backward, or its input part when has_weight_gradient */
    bool has_weight_gradient;
    double
        weight_gradient; /* >= 0. An order that splits without it halves `backward`; one that does not split adds it to `backward` */
    double hop; /* >= 0: latency between neighbouring stages */
    /* [stages] each, in place of the times above; NULL: all stages alike. Borrowed. */
    const double *stage_forward, *stage_backward, *stage_weight;
    /* Replicas among which a stage cuts each micro-batch [stages]: one row stands for all of them, and its times are divided by them. NULL: nothing is cut. Borrowed. */
    const uint32_t *cut_replicas;
    /* Before each backward the forward is repeated, in the stage's forward time: activations are then boundary inputs, and peaks count those. */
    enum bare_recompute recompute;
    bool last_stage_keeps; /* no recomputation on the last stage */
};

struct bare_stage { /* of a row */
    uint32_t stage, replica;
    double peak_activations; /* in whole shares */
    uint32_t weight_versions;
    double work, first_start, last_end; /* in units */
    const char *order;                  /* "F0 F1 B0 ..."; chunks as "F0.2": micro-batch.virtual stage */
};

struct bare_pipeline_result {
    double makespan;
    struct bare_pipeline_bound bound; /* what no order of these passes can beat: at most the makespan */
    double span_bubble;               /* max over rows of last end - first start - work */
    struct bare_stage *stages;        /* rows, stage after stage */
    uint32_t stage_count;             /* rows: with dealt replicas more than stages */
    struct arena arena;               /* owns stages and their texts */
};

/* Checks the request and builds its schedule (the caller frees it). STATUS_BAD_INPUT, STATUS_LIMIT say what is allowed. */
enum status bare_pipeline_schedule(const struct bare_pipeline_request *request, struct schedule *schedule,
                                   struct error *error);
/* What a timeline of that schedule says. STATUS_DEADLOCK when it did not end; STATUS_BAD_TIMELINE when it beats the bound that holds for every order. */
enum status bare_pipeline_measure(const struct bare_pipeline_request *request, const struct schedule *schedule,
                                  const struct timeline *timeline, struct bare_pipeline_result *result,
                                  struct error *error);
/* "2", or "0.3" for a replica that takes turns, in `text`. */
enum { BARE_ROW_TEXT_BYTES = 24 };
const char *bare_pipeline_row_text(const struct bare_pipeline_result *result, uint32_t row,
                                   char text[BARE_ROW_TEXT_BYTES]);
/* How replicas share micro-batches: "; each cut over replicas 4,2,1", "; dealt to replicas 4,2,1"; nothing where no stage has any. */
void bare_pipeline_replicas_words(const struct bare_pipeline_request *request, struct strbuf *out);
void bare_pipeline_result_free(struct bare_pipeline_result *result);
/* {"makespan", "lower_bound": {"makespan", "stage", "before", "work", "after"}, "over_lower_bound", "span_bubble", "stages": [{"peak_activations", "weight_versions", "order"}]}, with dealt replicas an object a row, with "stage" and "replica" before these. */
void bare_pipeline_print_json(const struct bare_pipeline_result *result, struct strbuf *out);

#endif
