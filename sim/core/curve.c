#include "sim/core/curve.h"

#include <math.h>
#include <stdint.h>

#include "sim/base/check.h"

enum status curve_make(struct curve *curve, struct arena *arena, const double *x, const double *y, size_t count,
                       enum curve_scale scale, enum curve_end below, enum curve_end above, struct error *error)
{
    if (count == 0) {
        return error_set(error, STATUS_BAD_INPUT, "a curve needs at least one point");
    }
    double *points = count > SIZE_MAX / 2 ? NULL : arena_array(arena, double, 2 * count);
    if (points == NULL) {
        return error_set(error, STATUS_NO_MEMORY, "out of memory: a curve of %zu points", count);
    }
    for (size_t i = 0; i < count; i++) {
        if (!isfinite(x[i]) || !isfinite(y[i])) {
            return error_set(error, STATUS_BAD_INPUT, "point %zu of the curve, (%g, %g), is not finite", i, x[i], y[i]);
        }
        if (scale == CURVE_LOG_LOG && !(x[i] > 0.0 && y[i] > 0.0)) {
            return error_set(error, STATUS_BAD_INPUT,
                             "point %zu of the curve, (%g, %g), must be positive for log-log interpolation", i, x[i],
                             y[i]);
        }
        if (i > 0 && !(x[i] > x[i - 1])) {
            return error_set(error, STATUS_BAD_INPUT,
                             "point %zu of the curve, (%g, %g), must have a larger x than the one before it, %g", i,
                             x[i], y[i], x[i - 1]);
        }
        points[i] = scale == CURVE_LOG_LOG ? log(x[i]) : x[i];
        points[count + i] = scale == CURVE_LOG_LOG ? log(y[i]) : y[i];
    }
    *curve = (struct curve){
        .x = points, .y = points + count, .count = count, .scale = scale, .below = below, .above = above
    };
    return STATUS_OK;
}

/* The segment (its left point's index, below count - 1) whose stretch of `axis` holds `value`; the end segments
 * reach on beyond the ends. `rising` is the axis' direction, +1 or -1. */
static size_t segment_of(const double *axis, size_t count, double value, int rising)
{
    size_t low = 0, high = count - 1; /* the segment is in [low, high) */
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (rising > 0 ? axis[middle] <= value : axis[middle] >= value) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return low;
}

/* The straight line through two points, exact at both. */
static double line_at(double x0, double y0, double x1, double y1, double x)
{
    double part = (x - x0) / (x1 - x0);
    return part <= 0.5 ? y0 + part * (y1 - y0) : y1 - (1.0 - part) * (y1 - y0);
}

double curve_at(const struct curve *curve, double x)
{
    bool logs = curve->scale == CURVE_LOG_LOG;
    CHECK(curve->count > 0 && !isnan(x) && (!logs || x > 0.0));
    double at = logs ? log(x) : x, y;
    size_t last = curve->count - 1;
    if (last == 0 || (at <= curve->x[0] && curve->below == CURVE_HOLD)) {
        y = curve->y[0];
    } else if (at >= curve->x[last] && curve->above == CURVE_HOLD) {
        y = curve->y[last];
    } else {
        size_t i = segment_of(curve->x, curve->count, at, 1);
        y = line_at(curve->x[i], curve->y[i], curve->x[i + 1], curve->y[i + 1], at);
    }
    return logs ? exp(y) : y;
}

int curve_direction(const struct curve *curve)
{
    if (curve->count < 2) {
        return 0;
    }
    bool rises = true, falls = true;
    for (size_t i = 1; i < curve->count; i++) {
        rises = rises && curve->y[i] > curve->y[i - 1];
        falls = falls && curve->y[i] < curve->y[i - 1];
    }
    return rises ? 1 : falls ? -1 : 0;
}

bool curve_inverse(const struct curve *curve, double y, double *x)
{
    bool logs = curve->scale == CURVE_LOG_LOG;
    int direction = curve_direction(curve);
    if (direction == 0 || isnan(y) || (logs && !(y > 0.0))) {
        return false;
    }
    double at = logs ? log(y) : y;
    size_t last = curve->count - 1;
    bool before = direction > 0 ? at < curve->y[0] : at > curve->y[0];
    bool behind = direction > 0 ? at > curve->y[last] : at < curve->y[last];
    if ((before && curve->below == CURVE_HOLD) || (behind && curve->above == CURVE_HOLD)) {
        return false;
    }
    size_t i = segment_of(curve->y, curve->count, at, direction);
    double found = line_at(curve->y[i], curve->x[i], curve->y[i + 1], curve->x[i + 1], at);
    *x = logs ? exp(found) : found;
    return true;
}
