/* Break-even points of two ways to pay that change with one quantity: where does one become as cheap as the other?
 *
 * A candidate's cost is the least of its ways; each way is a straight line in the quantity x (electricity: USD a kWh; utilisation: x = 1 / share; a price: USD). A rented way does not change with
 * electricity, an owned one does not change with the rent. */
#ifndef MEMWALL_BUY_BREAK_EVEN_H
#define MEMWALL_BUY_BREAK_EVEN_H

#include <stdbool.h>
#include <stdint.h>

/* cost(x) = fixed + slope * x; slope >= 0 */
struct cost_line {
    double fixed, slope;
};

/* The least of its lines; count 0: not known. */
struct cost_ways {
    struct cost_line lines[2];
    uint32_t count;
};
double cost_at(const struct cost_ways *ways, double x);

/* The x in [least, most] nearest to `now` where `other` costs as much as `first`, and beyond which (away from `now`) it costs less. `first` is the cheaper one, or equal, at `now`. False: there is none. */
bool break_even(const struct cost_ways *first, const struct cost_ways *other, double now, double least, double most,
                double *x);

#endif
