#include "sim/core/maxmin.h"

#include <math.h>

#include "sim/base/check.h"
#include "sim/core/maxmin_internal.h"

enum status maxmin_init(struct maxmin *solver, struct arena *arena, const struct maxmin_limits *limits,
                        struct error *error)
{
    *solver = (struct maxmin){ .limits = *limits, .free_variable = MAXMIN_NONE, .free_element = MAXMIN_NONE };
    CHECK(limits->resources < MAXMIN_NONE && limits->variables < MAXMIN_NONE && limits->uses < MAXMIN_NONE);
    solver->resources = arena_array(arena, struct maxmin_resource, limits->resources);
    solver->variables = arena_array(arena, struct maxmin_variable, limits->variables);
    solver->elements = arena_array(arena, struct maxmin_element, limits->uses);
    size_t blocks = (size_t)limits->resources / MAXMIN_BLOCK + 1;
    solver->levels = arena_array(arena, double, blocks *MAXMIN_BLOCK);
    solver->block_minima = arena_array(arena, double, blocks);
    solver->is_stale = arena_array(arena, bool, blocks);
    solver->component_variables = arena_array(arena, uint32_t, (size_t)limits->variables + 1);
    solver->component_resources = arena_array(arena, uint32_t, limits->resources);
    solver->members = arena_array(arena, uint32_t, limits->uses);
    solver->fresh = arena_array(arena, uint32_t, limits->variables);
    solver->dirty = arena_array(arena, uint32_t, limits->resources);
    solver->changed = arena_array(arena, uint32_t, limits->variables);
    bool complete = solver->resources != NULL && solver->variables != NULL && solver->elements != NULL &&
                    solver->levels != NULL && solver->block_minima != NULL && solver->is_stale != NULL &&
                    solver->component_variables != NULL && solver->component_resources != NULL &&
                    solver->members != NULL && solver->fresh != NULL && solver->dirty != NULL &&
                    solver->changed != NULL;
    return complete
               ? STATUS_OK
               : error_set(error, STATUS_NO_MEMORY, "out of memory: a solver of %u resources, %u variables, %u uses",
                           limits->resources, limits->variables, limits->uses);
}

uint32_t maxmin_add_resource(struct maxmin *solver, double capacity)
{
    CHECK(solver->resource_count < solver->limits.resources);
    CHECK(capacity >= 0.0 && isfinite(capacity));
    solver->resources[solver->resource_count] = (struct maxmin_resource){ .capacity = capacity, .head = MAXMIN_NONE };
    return solver->resource_count++;
}

static void mark_dirty(struct maxmin *solver, uint32_t resource)
{
    if (!solver->resources[resource].is_dirty) {
        solver->resources[resource].is_dirty = true;
        solver->dirty[solver->dirty_count++] = resource;
    }
}

void maxmin_set_capacity(struct maxmin *solver, uint32_t resource, double capacity)
{
    CHECK(resource < solver->resource_count && capacity >= 0.0 && isfinite(capacity));
    struct maxmin_resource *r = &solver->resources[resource];
    r->capacity = capacity;
    /* Nobody was held back by it, and nobody will be: nothing changes. */
    if (r->is_full || r->used > capacity) {
        mark_dirty(solver, resource);
    }
}

double maxmin_used(const struct maxmin *solver, uint32_t resource)
{
    CHECK(resource < solver->resource_count);
    double used = solver->resources[resource].used;
    return used > 0.0 ? used : 0.0;
}

bool maxmin_has_room(const struct maxmin *solver, uint32_t use_count)
{
    return solver->variable_count < solver->limits.variables &&
           use_count <= solver->limits.uses - solver->element_count;
}

static uint32_t new_variable(struct maxmin *solver)
{
    uint32_t variable = solver->free_variable;
    if (variable == MAXMIN_NONE) {
        variable = solver->variable_end++;
    } else {
        solver->free_variable = solver->variables[variable].head;
    }
    solver->variable_count++;
    return variable;
}

static uint32_t new_element(struct maxmin *solver)
{
    uint32_t element = solver->free_element;
    if (element == MAXMIN_NONE) {
        element = solver->element_end++;
    } else {
        solver->free_element = solver->elements[element].next_of_variable;
    }
    solver->element_count++;
    return element;
}

/* Into the list of those that the next solve settles. */
static void list_fresh(struct maxmin *solver, uint32_t variable)
{
    if (!solver->variables[variable].is_listed) {
        solver->variables[variable].is_listed = true;
        solver->fresh[solver->fresh_count++] = variable;
    }
}

uint32_t maxmin_add(struct maxmin *solver, double weight, double cap, const struct maxmin_use *uses, uint32_t use_count)
{
    CHECK(maxmin_has_room(solver, use_count));
    CHECK(weight > 0.0 && isfinite(weight) && cap >= 0.0 && (use_count > 0 || isfinite(cap)));
    uint32_t variable = new_variable(solver), *link = &solver->variables[variable].head;
    struct maxmin_variable *v = &solver->variables[variable];
    bool is_listed = v->is_listed; /* a removed forerunner may still stand in the list */
    *v = (struct maxmin_variable){ .weight = weight,
                                   .cap = cap,
                                   .cap_level = cap / weight,
                                   .bottleneck = MAXMIN_NONE,
                                   .is_live = true,
                                   .is_new = true,
                                   .is_listed = is_listed };
    for (uint32_t i = 0; i < use_count; i++) {
        CHECK(uses[i].resource < solver->resource_count);
        CHECK(uses[i].coefficient > 0.0 && isfinite(uses[i].coefficient));
        struct maxmin_resource *r = &solver->resources[uses[i].resource];
        if (r->head != MAXMIN_NONE && solver->elements[r->head].variable == variable) {
            /* Named twice. This variable's elements are the newest, so its other one on this resource is at the
             * head. */
            solver->elements[r->head].coefficient += uses[i].coefficient;
            continue;
        }
        uint32_t element = new_element(solver);
        solver->elements[element] = (struct maxmin_element){ .coefficient = uses[i].coefficient,
                                                             .resource = uses[i].resource,
                                                             .variable = variable,
                                                             .next = r->head,
                                                             .previous = MAXMIN_NONE };
        if (r->head != MAXMIN_NONE) {
            solver->elements[r->head].previous = element;
        }
        r->head = element;
        r->count++;
        *link = element;
        link = &solver->elements[element].next_of_variable;
    }
    *link = MAXMIN_NONE;
    list_fresh(solver, variable);
    return variable;
}

void maxmin_remove(struct maxmin *solver, uint32_t variable)
{
    CHECK(variable < solver->variable_end && solver->variables[variable].is_live);
    struct maxmin_variable *v = &solver->variables[variable];
    for (uint32_t at = v->head; at != MAXMIN_NONE;) {
        struct maxmin_element *e = &solver->elements[at];
        struct maxmin_resource *r = &solver->resources[e->resource];
        *(e->previous == MAXMIN_NONE ? &r->head : &solver->elements[e->previous].next) = e->next;
        if (e->next != MAXMIN_NONE) {
            solver->elements[e->next].previous = e->previous;
        }
        r->count--;
        r->used -= e->coefficient * v->rate;
        if (r->count == 0) {
            r->used = 0.0;
            r->is_full = false;
        } else if (r->is_full) {
            mark_dirty(solver, e->resource); /* what it leaves is wanted */
        }
        uint32_t next = e->next_of_variable;
        e->next_of_variable = solver->free_element;
        solver->free_element = at;
        solver->element_count--;
        at = next;
    }
    v->is_live = false;
    v->is_new = false;
    v->head = solver->free_variable;
    solver->free_variable = variable;
    solver->variable_count--;
}

void maxmin_set_cap(struct maxmin *solver, uint32_t variable, double cap)
{
    CHECK(variable < solver->variable_end && solver->variables[variable].is_live && cap >= 0.0);
    struct maxmin_variable *v = &solver->variables[variable];
    CHECK(v->head != MAXMIN_NONE || isfinite(cap));
    bool held_by_cap = v->bottleneck == MAXMIN_NONE;
    v->cap = cap;
    v->cap_level = cap / v->weight;
    if (v->is_new || (!held_by_cap && cap >= v->rate)) {
        return;
    }
    if (v->head == MAXMIN_NONE) {
        list_fresh(solver, variable);
    }
    for (uint32_t at = v->head; at != MAXMIN_NONE; at = solver->elements[at].next_of_variable) {
        mark_dirty(solver, solver->elements[at].resource);
    }
}

static void use(struct maxmin *solver, const struct maxmin_variable *v)
{
    for (uint32_t at = v->head; at != MAXMIN_NONE; at = solver->elements[at].next_of_variable) {
        solver->resources[solver->elements[at].resource].used += solver->elements[at].coefficient * v->rate;
    }
}

/* A new variable that runs at its cap without filling anything: nobody else can notice. */
static bool settle_at_cap(struct maxmin *solver, uint32_t variable)
{
    struct maxmin_variable *v = &solver->variables[variable];
    for (uint32_t at = v->head; at != MAXMIN_NONE; at = solver->elements[at].next_of_variable) {
        const struct maxmin_element *e = &solver->elements[at];
        const struct maxmin_resource *r = &solver->resources[e->resource];
        if (!(r->used + e->coefficient * v->cap <= r->capacity)) {
            return false;
        }
    }
    maxmin_settle(solver, variable, v->cap, MAXMIN_NONE);
    use(solver, v);
    return true;
}

/* A new variable that is alone on all its resources. */
static bool settle_alone(struct maxmin *solver, uint32_t variable)
{
    struct maxmin_variable *v = &solver->variables[variable];
    double rate = v->cap;
    uint32_t bottleneck = MAXMIN_NONE;
    for (uint32_t at = v->head; at != MAXMIN_NONE; at = solver->elements[at].next_of_variable) {
        const struct maxmin_element *e = &solver->elements[at];
        const struct maxmin_resource *r = &solver->resources[e->resource];
        if (r->count > 1) {
            return false;
        }
        if (r->capacity < rate * e->coefficient) {
            rate = r->capacity / e->coefficient;
            bottleneck = e->resource;
        }
    }
    maxmin_settle(solver, variable, rate, bottleneck);
    use(solver, v);
    if (bottleneck != MAXMIN_NONE) {
        solver->resources[bottleneck].is_full = true;
    }
    return true;
}

uint32_t maxmin_solve(struct maxmin *solver)
{
    solver->changed_count = 0;
    solver->epoch++;
    if (solver->epoch == 0) { /* the stamps of 2^32 solves ago would pass for today's */
        for (uint32_t i = 0; i < solver->variable_end; i++) {
            solver->variables[i].epoch = solver->variables[i].changed_epoch = 0;
        }
        for (uint32_t i = 0; i < solver->resource_count; i++) {
            solver->resources[i].epoch = 0;
        }
        solver->epoch = 1;
    }
    for (uint32_t i = 0; i < solver->fresh_count; i++) {
        uint32_t variable = solver->fresh[i];
        struct maxmin_variable *v = &solver->variables[variable];
        v->is_listed = false;
        if (!v->is_live) {
            continue;
        }
        if (v->head == MAXMIN_NONE) {
            maxmin_settle(solver, variable, v->cap, MAXMIN_NONE);
        } else if (v->is_new && !settle_at_cap(solver, variable) && !settle_alone(solver, variable)) {
            for (uint32_t at = v->head; at != MAXMIN_NONE; at = solver->elements[at].next_of_variable) {
                mark_dirty(solver, solver->elements[at].resource);
            }
        }
    }
    solver->fresh_count = 0;
    for (uint32_t i = 0; i < solver->dirty_count; i++) {
        uint32_t resource = solver->dirty[i];
        solver->resources[resource].is_dirty = false;
        if (solver->resources[resource].epoch != solver->epoch && solver->resources[resource].count > 0) {
            maxmin_solve_component(solver, resource);
        }
    }
    solver->dirty_count = 0;
    return solver->changed_count;
}

double maxmin_rate(const struct maxmin *solver, uint32_t variable)
{
    CHECK(variable < solver->variable_end && solver->variables[variable].is_live);
    return solver->variables[variable].rate;
}

uint32_t maxmin_bottleneck(const struct maxmin *solver, uint32_t variable)
{
    CHECK(variable < solver->variable_end && solver->variables[variable].is_live);
    return solver->variables[variable].bottleneck;
}
