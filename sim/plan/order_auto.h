/* A scheduler for pipelines whose stages differ or whose memory is short, so that nobody is limited to hand-made orders: it plays the pipeline forward in time, on each free stage choosing among what
 * could run now, under several rules of preference, and keeps the best result.
 *
 * Rules of play (ours): a backward that can run does; a forward runs if the stage may keep one more activation; a weight part fills what would be idle, runs early when memory is full, and waits when a
 * backward is about to arrive. Besides these the hand-made orders 1f1b, zb-h1 and zb-h2 are candidates where their memory allows, so the result is never slower than they. */
#ifndef MEMWALL_PLAN_ORDER_AUTO_H
#define MEMWALL_PLAN_ORDER_AUTO_H

#include "sim/plan/order_table.h"

#define ORDER_AUTO_PASSES_MAX (1 << 20) /* stages * micro_batches */

struct order_auto_request {
    uint32_t stages, micro_batches;
    /* [stages], > 0, any unit. `weight` NULL: `backward` is whole, and activations are freed by it. */
    const double *forward, *backward, *weight;
    double hop;           /* >= 0: between neighbouring stages */
    const double *limits; /* [stages]: most activations a stage may keep, >= 1; NULL: as many as there are */
};

struct order_auto_result {
    double makespan, lower_bound; /* in the request's unit: no order can beat the bound */
    const char *rule;             /* which candidate won */
};

/* The caller frees `table` (order_table_free). STATUS_BAD_INPUT: a limit below 1, times that are not positive; STATUS_LIMIT. O(rules * passes * log stages). */
enum status order_auto(const struct order_auto_request *request, struct order_table *table,
                       struct order_auto_result *result, struct error *error);

/* What no order can beat: each stage's own work, after the shortest way to it and before the shortest way back; and one micro-batch's round trip. */
double order_lower_bound(const struct order_auto_request *request);

#endif
