/* The closed-form screen: step time and peak memory of a uniform split, without simulating. Thousands a second; the event simulation of the best decides.
 *
 * Everything comes from the model graph (sim/model/layer.h) and the costs of kernels and collectives alone (sim/engine); our formulas, with p stages of v chunks, m micro-batches, R data-parallel
 * replicas, and for stage i of n_i layers:
 *
 *     pass     device = sum of kernels alone + launch gaps + tensor-parallel collectives, one that may run beside the next kernel costs max(both); host = launches * launch + passes + collectives
 *     W_i      = n_i (F + r + B) + its ends (embedding, head); F, r, B = forward, repeated part of the forward, backward of one layer and micro-batch. Where weights are gathered (ZeRO-3)
 *                or gradients scattered (ZeRO-2, 3) every micro-batch, F and r + B are at least the collectives that run beside them (their sum where the software does not overlap)
 *     W_i      is the greater of device and host time; then the transfers that a stage waits for are added: v hops each way a micro-batch, where the software does not overlap them
 *     pipeline = m max_i W_i + (sum_i W_i - max_i W_i) / v + 2 (p - 1) hop
 *     tail     = max_i (reduction of stage i beyond its last backward - what earlier stages still compute): ZeRO-0 all-reduce, ZeRO-1 reduce-scatter, once a step
 *     step     = pipeline + tail + tied embedding's all-reduce + norm and Adam of the largest stage + ZeRO-1, 2: gather of its weights + host time of a step
 *
 *     least_i  = states / ZeRO's shares + runtime + in flight * saved + short-lived tensors of the last layer's backward: all of it lives at one instant, so no schedule needs less
 *                shards of gradients that the reduction makes (software.memory.gradients_as_made) count in it where an earlier micro-batch certainly made them; units of FSDP1 (flat_units): the
 *                greater of a layer's pass with its own gradients, and of their joining at its end
 *     peak_i   = least_i + those shards + gathered weights ahead, gradients waiting to be scattered, boundary buffers
 *
 * `in flight` is counted on the order itself. Not in it: contention between data- and tensor-parallel traffic, waits for the last member of a collective, SMs that collectives take, memory
 * that an allocator loses. */
#ifndef MEMWALL_STRATEGIES_PLANNERS_EXHAUSTIVE_SCREEN_H
#define MEMWALL_STRATEGIES_PLANNERS_EXHAUSTIVE_SCREEN_H

#include <stdbool.h>
#include <stdint.h>

#include "sim/plan/scenario.h"

/* A split that is the same in every layer. Its order is 1f1b, or interleaved for virtual_stages > 1. */
struct screen_point {
    int64_t tensor, pipeline, data, micro_batch, virtual_stages, zero_stage;
    bool sequence_parallel;
    uint8_t recompute; /* enum recompute_mode, of all layers */
};

struct screen_stage {
    double time_s; /* of one micro-batch: W_i */
    double least_bytes, peak_bytes;
};

struct screen_cost {
    double step_time_s;
    double least_bytes; /* of the fullest device: a lower bound */
    double peak_bytes;  /* ... an estimate */
};

/* Holds what has been computed for the points so far: not for several threads at once. The scenario must outlive it. */
struct screen;
enum status screen_open(struct screen **screen, const struct scenario *scenario, struct error *error);
void screen_close(struct screen *screen);

/* The plan of a point under the screen's scenario: its sequence, batch, precision, policy. Arrays in `arena`. Not checked (plan_check does). */
enum status screen_plan(const struct scenario *scenario, const struct screen_point *point, struct plan *plan,
                        struct arena *arena, struct error *error);

/* `stages`: NULL, or [pipeline] to be filled. The point's plan must have passed plan_check. */
enum status screen_cost(struct screen *screen, const struct screen_point *point, struct screen_cost *cost,
                        struct screen_stage *stages, struct error *error);

#endif
