/* Piecewise curves through measured points: y over x, straight between neighbours on linear or on doubly logarithmic
 * paper.
 *
 * Points have strictly rising x; the y may do what they like, but curve_inverse needs them to rise or fall strictly.
 * Outside the points a curve either holds its end's value or goes on with the slope of its end's segment (on its own
 * paper: a power law on log-log paper). A curve of one point is constant. Finding the segment is O(log n).
 *
 *     TRY(curve_make(&busbw, &arena, bytes, bytes_per_s, 12, CURVE_LOG_LOG, CURVE_EXTEND, CURVE_HOLD, error));
 *     rate = curve_at(&busbw, 3e6); */
#ifndef MEMWALL_CORE_CURVE_H
#define MEMWALL_CORE_CURVE_H

#include <stdbool.h>
#include <stddef.h>

#include "sim/base/arena.h"
#include "sim/base/status.h"

enum curve_scale { CURVE_LINEAR, CURVE_LOG_LOG };
enum curve_end { CURVE_HOLD, CURVE_EXTEND };

struct curve {
    const double *x, *y; /* of the paper: logarithms for CURVE_LOG_LOG */
    size_t count;
    enum curve_scale scale;
    enum curve_end below, above;
};

/* Copies the points into `arena`. STATUS_BAD_INPUT names the first point (from 0) that is not finite, not above its
 * forerunner in x, or, for CURVE_LOG_LOG, not positive; STATUS_NO_MEMORY. */
enum status curve_make(struct curve *curve, struct arena *arena, const double *x, const double *y, size_t count,
                       enum curve_scale scale, enum curve_end below, enum curve_end above, struct error *error);

/* y at x. On log-log paper x must be positive. */
double curve_at(const struct curve *curve, double x);

/* +1 when y rises strictly from point to point, -1 when it falls strictly, else 0. A single point is 0. */
int curve_direction(const struct curve *curve);

/* The x at which the curve has this y; false when it is not strictly monotone, or y is beyond an end that holds (or
 * not positive on log-log paper). The end's own y is reached. */
bool curve_inverse(const struct curve *curve, double y, double *x);

#endif
