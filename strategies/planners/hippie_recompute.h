/* Recomputation of chosen layers by freed bytes per second (our rule for what Hippie's abstract calls recomputation of specific layers).
 *
 * A stage with k micro-batches in flight frees k (a - i) bytes by keeping i instead of a bytes of a layer, and repeats f seconds of work a micro-batch. While a layer's backward runs, one
 * micro-batch of it is whole again: the largest a - i of the stage comes back once. Steps (none -> selective -> full, or none -> full) are taken by freed bytes per second, the earliest layer
 * first among equals, until enough is freed. With k = 1 nothing is ever chosen: it would free nothing at the peak. */
#ifndef MEMWALL_STRATEGIES_PLANNERS_HIPPIE_RECOMPUTE_H
#define MEMWALL_STRATEGIES_PLANNERS_HIPPIE_RECOMPUTE_H

#include <stdint.h>

#include "sim/plan/plan.h"

struct hippie_layer {
    double saved_bytes[RECOMPUTE_MODE_COUNT]; /* of one micro-batch */
    double again_s[RECOMPUTE_MODE_COUNT];     /* repeated work of one micro-batch */
};

/* Sets modes[count]. Returns the bytes freed, >= wanted_bytes if that can be. O(count^2). */
double hippie_choose(const struct hippie_layer *layers, uint32_t count, uint32_t in_flight, double wanted_bytes,
                     uint8_t *modes);

#endif
