/* How much of the gradient reduction a flushed pipeline hides (the idea of Hippie, Ye et al., ICPP 2021), in closed form.
 *
 * p stages alike, m micro-batches: T = (m + p - 1)(tF + tB). The last backward of stage s ends s tB before T; its next forward begins s tF after stage 0's. AR_s: the reduction of stage s.
 * The time of an iteration under
 *
 *     BARRIER_BEFORE   nobody reduces before all have ended:                          T + max AR_s
 *     BARRIER_AFTER    each reduces at its own end, all wait before the update:       T + max max(0, AR_s - s tB)
 *     BARRIER_NONE     each reduces and updates for itself (steady state):            T + max max(0, AR_s - s (tF + tB))
 *
 * Stage 0 has no slack: its own reduction hides only bucket by bucket in its last backward. With L equal layers, buckets ready every tB / L: exposed = max(AR / L, AR - tB (L - 1) / L). */
#ifndef MEMWALL_STRATEGIES_PLANNERS_HIPPIE_HIDING_H
#define MEMWALL_STRATEGIES_PLANNERS_HIPPIE_HIDING_H

#include "sim/plan/plan.h"

struct hiding {
    uint32_t stages, micro_batches; /* >= 1 */
    double forward_s, backward_s;   /* of a stage and micro-batch */
    const double *reduce_s;         /* [stages] */
};

/* What reductions add to T. */
double hiding_exposed_s(const struct hiding *hiding, enum gradient_barrier barrier);
/* T + that. */
double hiding_iteration_s(const struct hiding *hiding, enum gradient_barrier barrier);
/* Exposed part of stage 0's reduction in `layers` buckets. */
double hiding_bucketed_s(double reduce_s, double backward_s, uint32_t layers);

#endif
