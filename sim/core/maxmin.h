/* Weighted max-min fair sharing with caps: the rates of activities (variables) that use several resources at once.
 *
 *   rate_v = min(cap_v, weight_v * level_v),    sum over v of coefficient_vr * rate_v <= capacity_r
 *
 * where level_v is the largest possible: no variable's level can rise without lowering that of one whose level is
 * not higher. Progressive filling: all levels rise together; a variable stops at its cap, or when one of its
 * resources is full. (Bertsekas and Gallager, Data Networks, 6.5.2, with weights, caps and coefficients.)
 *
 * Variables come and go, capacities and caps change; maxmin_solve then re-solves only what these changes can reach,
 * the connected components of the resources touched, and tells whose rates changed. Call it once an instant, after
 * all changes. What fits without crowding anybody (a capped variable that leaves its resources below capacity, going
 * or coming; a variable alone on its resources) costs O(its resources). Otherwise about O(elements + resources^2 /
 * 16) of the component, more when many different caps bind on one resource.
 *
 * All storage is taken from the arena at init; nothing is allocated afterwards. Results depend on the order of calls
 * only in their last bits, and not on anything else. Relative error of a rate about 1e-12 (differences below that
 * are not reported as changes).
 *
 *     struct maxmin_use uses[] = { { link, 1.0 }, { dram, 3.0 } };       // three bytes of DRAM traffic per byte moved
 *     uint32_t copy = maxmin_add(&solver, 1.0, 25e9, uses, 2);
 *     count = maxmin_solve(&solver);                                      // solver.changed[0 .. count - 1]
 *     rate = maxmin_rate(&solver, copy); */
#ifndef MEMWALL_CORE_MAXMIN_H
#define MEMWALL_CORE_MAXMIN_H

#include <stdbool.h>
#include <stdint.h>

#include "sim/base/arena.h"
#include "sim/base/status.h"

#define MAXMIN_NONE UINT32_MAX

struct maxmin_use {
    uint32_t resource;
    double coefficient; /* > 0: units of the resource's capacity per unit of rate */
};

/* How much there can be at one time; `uses` counts those of all variables together. */
struct maxmin_limits {
    uint32_t resources, variables, uses;
};

struct maxmin_element; /* one use, linked into its resource's list */
struct maxmin_resource;
struct maxmin_variable;

struct maxmin {
    /* -- read by callers -- */
    uint32_t *changed; /* variables whose rate the last solve changed, in the order found */
    uint32_t resource_count, variable_count;
    uint64_t solved_components, solved_variables; /* counters, for reports and tests */
    /* -- private -- */
    struct maxmin_limits limits;
    struct maxmin_resource *resources;
    struct maxmin_variable *variables;
    struct maxmin_element *elements;
    double *levels, *block_minima; /* of the component being solved */
    bool *is_stale;                /* of each block: its minimum is to be found again */
    uint32_t *component_variables, *component_resources, *members, *fresh, *dirty;
    uint32_t component_variable_count, component_resource_count, changed_count, fresh_count, dirty_count;
    uint32_t variable_end, element_end; /* those beyond were never used */
    uint32_t free_variable, free_element, element_count;
    uint32_t epoch; /* of the last solve: stamps what it has visited */
};

enum status maxmin_init(struct maxmin *solver, struct arena *arena, const struct maxmin_limits *limits,
                        struct error *error);

/* A new resource; 0, 1, 2 ... in order. capacity >= 0 and finite. Resources stay. */
uint32_t maxmin_add_resource(struct maxmin *solver, double capacity);
void maxmin_set_capacity(struct maxmin *solver, uint32_t resource, double capacity);
/* What the variables use of it now, up to rounding. */
double maxmin_used(const struct maxmin *solver, uint32_t resource);

/* A new variable, with rate 0 until the next solve. weight > 0; cap >= 0, INFINITY for none (then it must use
 * something). The uses are copied. A resource may be named twice: the coefficients add up. Ids of removed variables
 * are used again, the last one first. Asserts when a limit is exceeded: size them from counts. */
uint32_t maxmin_add(struct maxmin *solver, double weight, double cap, const struct maxmin_use *uses,
                    uint32_t use_count);
/* Whether maxmin_add would exceed a limit. */
bool maxmin_has_room(const struct maxmin *solver, uint32_t use_count);
void maxmin_remove(struct maxmin *solver, uint32_t variable);
void maxmin_set_cap(struct maxmin *solver, uint32_t variable, double cap);

/* Bring all rates up to date; the number of variables in solver->changed (valid until the next solve). A variable
 * added since the last solve is always among them; a removed one never. */
uint32_t maxmin_solve(struct maxmin *solver);
/* As of the last solve. */
double maxmin_rate(const struct maxmin *solver, uint32_t variable);
/* The full resource that holds the variable back, or MAXMIN_NONE when its cap does. As of the last solve. */
uint32_t maxmin_bottleneck(const struct maxmin *solver, uint32_t variable);

#endif
