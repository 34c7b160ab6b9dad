/* The solve proper: one connected component, by progressive filling.
 *
 * The level of a resource is what its unfixed variables would reach if it alone held them back: (capacity - used by
 * the fixed) / (sum of coefficient * weight of the unfixed). Take the lowest. Unfixed variables on it whose cap lies
 * below that level are fixed at their caps, which lets the level rise; when there are none, all of them are fixed at
 * the level. Fixing a variable at most at the lowest level only raises the levels of its other resources.
 *
 * The levels lie in one array in the order in which the component's resources were found, in blocks whose minima are
 * remembered; a block's minimum is found again only after one of its levels was changed. A heap is better on paper,
 * but its unpredictable branches cost more here than scans without any. */
#include <math.h>

#include "sim/base/check.h"
#include "sim/core/maxmin_internal.h"

/* weight is summed up anew when subtraction has eaten six of its bits. */
#define WEIGHT_LOSS 0x1p-6

static double smaller(double a, double b)
{
    return a < b ? a : b;
}

/* A resource of the component, found for the first time. */
static void enter(struct maxmin *solver, struct maxmin_resource *r, uint32_t resource)
{
    r->epoch = solver->epoch;
    r->local = solver->component_resource_count;
    r->weight = 0.0;
    r->used = 0.0;
    r->cap_level_min = INFINITY;
    r->unfixed = r->count;
    r->member_count = r->count;
    r->is_full = false;
    solver->component_resources[solver->component_resource_count++] = resource;
}

/* Breadth first; sums up weights and lists the members of each resource on the way. */
static void collect(struct maxmin *solver, uint32_t start)
{
    uint32_t epoch = solver->epoch, end = 0, member_end = 0, *found = solver->component_variables;
    const struct maxmin_element *elements = solver->elements;
    solver->component_resource_count = 0;
    enter(solver, &solver->resources[start], start);
    for (uint32_t i = 0; i < solver->component_resource_count; i++) {
        struct maxmin_resource *here = &solver->resources[solver->component_resources[i]];
        uint32_t first = end;
        here->members = member_end;
        for (uint32_t at = here->head; at != MAXMIN_NONE; at = elements[at].next) {
            struct maxmin_variable *v = &solver->variables[elements[at].variable];
            solver->members[member_end++] = elements[at].variable;
            found[end] = elements[at].variable; /* without a branch: nobody can predict which are new */
            end += v->epoch != epoch;
            v->epoch = epoch;
        }
        for (uint32_t k = first; k < end; k++) {
            struct maxmin_variable *v = &solver->variables[found[k]];
            v->is_fixed = false;
            for (uint32_t at = v->head; at != MAXMIN_NONE; at = elements[at].next_of_variable) {
                struct maxmin_resource *r = &solver->resources[elements[at].resource];
                if (r->epoch != epoch) {
                    enter(solver, r, elements[at].resource);
                }
                r->weight += elements[at].coefficient * v->weight;
                r->cap_level_min = smaller(r->cap_level_min, v->cap_level);
            }
        }
    }
    solver->component_variable_count = end;
}

static void sum_weight_anew(const struct maxmin *solver, struct maxmin_resource *r)
{
    r->weight = 0.0;
    for (uint32_t at = r->head; at != MAXMIN_NONE; at = solver->elements[at].next) {
        const struct maxmin_variable *v = &solver->variables[solver->elements[at].variable];
        if (!v->is_fixed) {
            r->weight += solver->elements[at].coefficient * v->weight;
        }
    }
    r->weight_floor = r->weight * WEIGHT_LOSS;
}

/* After a change of used, weight or unfixed. */
static inline void set_level(struct maxmin *solver, const struct maxmin_resource *r)
{
    double left = r->capacity - r->used;
    double level = left > 0.0 ? left / r->weight : 0.0;
    solver->levels[r->local] = r->unfixed > 0 ? level : INFINITY;
    solver->is_stale[r->local / MAXMIN_BLOCK] = true;
}

static void fix(struct maxmin *solver, uint32_t variable, double rate, uint32_t bottleneck)
{
    struct maxmin_variable *v = &solver->variables[variable];
    v->is_fixed = true;
    for (uint32_t at = v->head; at != MAXMIN_NONE; at = solver->elements[at].next_of_variable) {
        const struct maxmin_element *e = &solver->elements[at];
        struct maxmin_resource *r = &solver->resources[e->resource];
        r->used += e->coefficient * rate;
        r->weight -= e->coefficient * v->weight;
        r->unfixed--;
        if (r->weight < r->weight_floor && r->unfixed > 0) {
            sum_weight_anew(solver, r);
        }
        set_level(solver, r);
    }
    maxmin_settle(solver, variable, rate, bottleneck);
}

/* The lowest level and whose it is (the first found among equals); false when all variables are fixed. */
static bool lowest(struct maxmin *solver, double *level, uint32_t *resource)
{
    uint32_t blocks = (solver->component_resource_count + MAXMIN_BLOCK - 1) / MAXMIN_BLOCK, block = 0;
    double least = INFINITY;
    for (uint32_t b = 0; b < blocks; b++) {
        if (solver->is_stale[b]) {
            const double *l = &solver->levels[(size_t)b * MAXMIN_BLOCK];
            double m0 = l[0], m1 = l[1], m2 = l[2], m3 = l[3]; /* four chains side by side */
            for (unsigned i = 4; i < MAXMIN_BLOCK; i += 4) {
                m0 = smaller(m0, l[i]);
                m1 = smaller(m1, l[i + 1]);
                m2 = smaller(m2, l[i + 2]);
                m3 = smaller(m3, l[i + 3]);
            }
            solver->block_minima[b] = smaller(smaller(m0, m1), smaller(m2, m3));
            solver->is_stale[b] = false;
        }
        bool better = solver->block_minima[b] < least;
        block = better ? b : block;
        least = better ? solver->block_minima[b] : least;
    }
    if (isinf(least)) {
        return false;
    }
    uint32_t local = block * MAXMIN_BLOCK;
    while (solver->levels[local] > least) {
        local++;
    }
    *level = least;
    *resource = solver->component_resources[local];
    return true;
}

/* Fix the unfixed variables of a resource whose cap level is at most `level` at their caps, the others, if `all`, at
 * the level. */
static void fix_on(struct maxmin *solver, uint32_t resource, double level, bool all)
{
    struct maxmin_resource *r = &solver->resources[resource];
    double cap_level_min = INFINITY;
    uint32_t *unfixed = &solver->members[r->members], count = 0;
    for (uint32_t i = 0; i < r->member_count; i++) { /* again without a branch */
        uint32_t variable = unfixed[i];
        unfixed[count] = variable;
        count += !solver->variables[variable].is_fixed;
    }
    r->member_count = count;
    r->is_full = all;
    for (uint32_t i = 0; i < count; i++) {
        const struct maxmin_variable *v = &solver->variables[unfixed[i]];
        if (v->cap_level <= level) {
            fix(solver, unfixed[i], v->cap, MAXMIN_NONE);
        } else if (all) {
            fix(solver, unfixed[i], smaller(v->weight * level, v->cap), resource);
        } else {
            cap_level_min = smaller(cap_level_min, v->cap_level);
        }
    }
    r->cap_level_min = cap_level_min;
}

void maxmin_solve_component(struct maxmin *solver, uint32_t start)
{
    collect(solver, start);
    solver->solved_components++;
    solver->solved_variables += solver->component_variable_count;
    uint32_t count = solver->component_resource_count;
    for (uint32_t i = 0; i < count; i++) {
        struct maxmin_resource *r = &solver->resources[solver->component_resources[i]];
        r->weight_floor = r->weight * WEIGHT_LOSS;
        set_level(solver, r);
    }
    for (uint32_t i = count; i % MAXMIN_BLOCK != 0; i++) {
        solver->levels[i] = INFINITY;
    }
    double last_level = 0.0, level;
    uint32_t resource;
    while (lowest(solver, &level, &resource)) {
        /* Symmetric resources get exactly one level, whatever the order in which their sums were rounded. */
        if (level <= last_level * (1.0 + MAXMIN_NOISE)) {
            level = last_level;
        }
        bool caps_first = solver->resources[resource].cap_level_min <= level;
        if (!caps_first) {
            last_level = level;
        }
        fix_on(solver, resource, level, !caps_first);
    }
}
