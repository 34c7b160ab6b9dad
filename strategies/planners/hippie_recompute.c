/* Greedy choice of recomputed layers. */
#include "strategies/planners/hippie_recompute.h"

#include <math.h>
#include <string.h>

static double freed_bytes(const struct hippie_layer *layers, uint32_t count, uint32_t in_flight, const uint8_t *modes)
{
    double sum = 0, largest = 0;
    for (uint32_t i = 0; i < count; i++) {
        double less = layers[i].saved_bytes[RECOMPUTE_NONE] - layers[i].saved_bytes[modes[i]];
        sum += less;
        largest = fmax(largest, less);
    }
    return in_flight * sum - largest;
}

/* The step of the most bytes per second. False: none frees anything. */
static bool best_step(const struct hippie_layer *layers, uint32_t count, const uint8_t *modes, uint32_t *at,
                      uint8_t *mode)
{
    double best = 0;
    for (uint32_t i = 0; i < count; i++) {
        for (int to = modes[i] + 1; to < RECOMPUTE_MODE_COUNT; to++) {
            double bytes = layers[i].saved_bytes[modes[i]] - layers[i].saved_bytes[to];
            double seconds = layers[i].again_s[to] - layers[i].again_s[modes[i]];
            double rate = bytes > 0 ? (seconds > 0 ? bytes / seconds : INFINITY) : 0;
            if (rate > best) {
                best = rate;
                *at = i;
                *mode = (uint8_t)to;
            }
        }
    }
    return best > 0;
}

double hippie_choose(const struct hippie_layer *layers, uint32_t count, uint32_t in_flight, double wanted_bytes,
                     uint8_t *modes)
{
    uint32_t at = 0;
    uint8_t mode = RECOMPUTE_NONE;
    memset(modes, RECOMPUTE_NONE, count);
    double freed = 0;
    while (in_flight > 1 && freed < wanted_bytes && best_step(layers, count, modes, &at, &mode)) {
        modes[at] = mode;
        freed = freed_bytes(layers, count, in_flight, modes);
    }
    return freed;
}
