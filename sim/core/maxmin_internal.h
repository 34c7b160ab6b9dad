/* The inside of struct maxmin: for sim/core/maxmin*.c alone. */
#ifndef MEMWALL_CORE_MAXMIN_INTERNAL_H
#define MEMWALL_CORE_MAXMIN_INTERNAL_H

#include <math.h>

#include "sim/core/maxmin.h"

/* Levels this close count as one, and a rate that would move by less stays: well above rounding noise, well below
 * what anybody measures. */
#define MAXMIN_NOISE 1e-12

/* One use: a knot of the net between variables and resources. */
struct maxmin_element {
    double coefficient;
    uint32_t resource, variable;
    uint32_t next, previous;   /* in the resource's list */
    uint32_t next_of_variable; /* or the next free element */
};

struct maxmin_resource {
    double capacity;
    double used;          /* sum of coefficient * rate; during a solve over the fixed variables only */
    double weight;        /* during a solve: sum of coefficient * weight over the variables not fixed yet */
    double weight_floor;  /* below this, weight has lost too many bits to subtraction and is summed up anew */
    double cap_level_min; /* during a solve: no unfixed variable has a lower cap / weight */
    uint32_t head;        /* of its elements */
    uint32_t count;       /* elements */
    uint32_t unfixed;     /* during a solve: elements of unfixed variables */
    uint32_t epoch;
    uint32_t members, member_count; /* during a solve: its variables, at least the unfixed ones, in solver->members */
    uint32_t local;                 /* during a solve: place in component_resources and levels */
    bool is_full;                   /* some variable is held back by it */
    bool is_dirty;                  /* in the dirty list */
};

struct maxmin_variable {
    double weight, cap;
    double cap_level; /* cap / weight */
    double rate;
    uint32_t head; /* of its elements; of a free one the next free variable */
    uint32_t bottleneck;
    uint32_t epoch;         /* visited */
    uint32_t changed_epoch; /* put into the changed list */
    bool is_live, is_new;   /* new: not settled since maxmin_add */
    bool is_listed;         /* in the fresh list */
    bool is_fixed;          /* during a solve */
};

enum { MAXMIN_BLOCK = 16 }; /* levels with a common remembered minimum */

/* Collect and solve the component of a resource. */
void maxmin_solve_component(struct maxmin *solver, uint32_t resource);
/* Give a variable its new rate and note whether it changed. */
static inline void maxmin_settle(struct maxmin *solver, uint32_t variable, double rate, uint32_t bottleneck)
{
    struct maxmin_variable *v = &solver->variables[variable];
    v->bottleneck = bottleneck;
    if (!v->is_new && fabs(rate - v->rate) <= MAXMIN_NOISE * rate) {
        return;
    }
    v->rate = rate;
    v->is_new = false;
    if (v->changed_epoch != solver->epoch) {
        v->changed_epoch = solver->epoch;
        solver->changed[solver->changed_count++] = variable;
    }
}

#endif
