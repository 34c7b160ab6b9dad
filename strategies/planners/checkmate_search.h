/* The cheapest recomputation that fits, exactly: Checkmate's idea (Jain et al., MLSys 2020) for what a memwall plan can say, a mode for each layer of a chain.
 *
 * Checkmate lets any value be computed again at any stage. Here a layer keeps everything, or what its mode keeps (at least its input), and repeats the rest once, just before its backward. So,
 * with k micro-batches in flight, x[l][mode] in {0, 1}, one mode a layer:
 *
 *     minimise   sum x[l][mode] again_s[l][mode]
 *     such that  for every layer l:   k * sum over j of saved[j][its mode]  +  (all of l: saved[l][none] - saved[l][its mode])  <=  budget
 *
 * an integer programme of GLPK up to CHECKMATE_EXACT_MAX layers and some thousand nodes of its tree; beyond, the best of what it found and its linear relaxation, rounded: every layer to the mode that keeps least among those the relaxation uses, then
 * one after the other back to a cheaper mode while it still fits. The square-root schedules that recompute whole segments are not among these plans. */
#ifndef MEMWALL_STRATEGIES_PLANNERS_CHECKMATE_SEARCH_H
#define MEMWALL_STRATEGIES_PLANNERS_CHECKMATE_SEARCH_H

#include <stdbool.h>

#include "sim/base/status.h"
#include "strategies/planners/hippie_recompute.h"

enum { CHECKMATE_EXACT_MAX = 32 };

struct checkmate_answer {
    bool found;     /* false: even the least does not fit */
    bool exact;     /* the integer programme was solved */
    double again_s; /* a micro-batch */
    double peak_bytes;
};

/* modes[count] are set when found. GLPK keeps an environment a thread: calls from several threads do not meet. */
enum status checkmate_search(const struct hippie_layer *layers, uint32_t count, uint32_t in_flight, double budget_bytes,
                             uint8_t *modes, struct checkmate_answer *answer, struct error *error);
/* The left side of the constraint at its largest. */
double checkmate_peak(const struct hippie_layer *layers, uint32_t count, uint32_t in_flight, const uint8_t *modes);

#endif
