#include "sim/buy/break_even.h"

#include <math.h>

double cost_at(const struct cost_ways *ways, double x)
{
    double least = INFINITY;
    for (uint32_t i = 0; i < ways->count; i++) {
        least = fmin(least, ways->lines[i].fixed + ways->lines[i].slope * x);
    }
    return least;
}

bool break_even(const struct cost_ways *first, const struct cost_ways *other, double now, double least, double most,
                double *x)
{
    bool found = false;
    for (uint32_t i = 0; i < first->count; i++) {
        for (uint32_t k = 0; k < other->count; k++) {
            const struct cost_line *a = &first->lines[i], *b = &other->lines[k];
            double at = (b->fixed - a->fixed) / (a->slope - b->slope);
            if (!isfinite(at) || at < least || at > most || (found && fabs(at - now) >= fabs(*x - now))) {
                continue;
            }
            /* These two lines cross here: do the candidates, and does the other win from here on? */
            double same = cost_at(first, at), step = 1e-6 * fmax(fabs(at), 1e-6), away = at < now ? -step : step;
            bool is_theirs = fabs(a->fixed + a->slope * at - same) <= 1e-9 * fabs(same) &&
                             fabs(cost_at(other, at) - same) <= 1e-9 * fabs(same);
            if (is_theirs && cost_at(other, at + away) < cost_at(first, at + away)) {
                *x = at;
                found = true;
            }
        }
    }
    return found;
}
