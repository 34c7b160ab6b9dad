/* Stations: crowds on one resource, in virtual time.
 *
 * Singles of a resource r have r as their only use to be solved for, so that nothing but r and their caps can hold them back. While all users of r are singles and
 * the level stays below every cap / weight,
 *
 *     rate_v = weight_v * level,    level = capacity_r / sum over v of (coefficient_v * weight_v)
 *
 * is the max-min allocation, and psq computes the ends: in units of r, with weights coefficient_v * weight_v. Everything else that singles use (sides) has r as its
 * root and no other users, so its use is the level times a sum. */
#include <math.h>

#include "sim/base/check.h"
#include "sim/base/units.h"
#include "sim/engine/fluid_internal.h"

/* Levels within this of a cap count as at the cap, where the solver is exact to the picosecond. */
static const double CAP_MARGIN = 1 - 1e-9;

uint32_t fluid_station_count(const struct fluid_sizes *sizes)
{
    uint32_t crowds = sizes->slot_count / FLUID_CROWD;
    crowds = crowds < sizes->resource_count ? crowds : sizes->resource_count;
    return crowds < FLUID_STATIONS_MAX ? crowds : FLUID_STATIONS_MAX;
}

enum status fluid_stations_init(struct fluid *fluid, struct arena *arena, const uint32_t *roots, struct error *error)
{
    fluid->stations = arena_array(arena, struct fluid_station, fluid->station_count);
    fluid->touched = arena_array(arena, uint32_t, fluid->resource_count);
    if (fluid->stations == NULL || fluid->touched == NULL) {
        return error_set(error, STATUS_NO_MEMORY, "no memory for %u resources", fluid->resource_count);
    }
    for (uint32_t i = 0; i < fluid->station_count; i++) {
        fluid->stations[i].resource = MAXMIN_NONE;
        TRY(psq_init(&fluid->stations[i].queue, arena, fluid->slot_count, 0, INFINITY, error));
    }
    for (uint32_t r = 0; r < fluid->resource_count; r++) {
        struct fluid_resource *resource = &fluid->resources[r];
        resource->first_single = resource->station = resource->next_side = MAXMIN_NONE;
        resource->ratio_min = INFINITY;
    }
    for (uint32_t r = 0; r < fluid->resource_count; r++) {
        if (roots[r] != r) {
            fluid->resources[r].next_side = fluid->resources[roots[r]].next_side;
            fluid->resources[roots[r]].next_side = r;
        }
    }
    return STATUS_OK;
}

void fluid_touch(struct fluid *fluid, uint32_t resource)
{
    if (!fluid->resources[resource].is_listed) {
        fluid->resources[resource].is_listed = true;
        fluid->touched[fluid->touched_count++] = resource;
    }
}

static double ratio_of(const struct fluid_slot *at)
{
    return at->cap / at->weight;
}

void fluid_single_joins(struct fluid *fluid, uint32_t slot)
{
    struct fluid_slot *at = &fluid->slots[slot];
    struct fluid_resource *own = &fluid->resources[at->uses[0].resource];
    at->last = MAXMIN_NONE;
    at->next = own->first_single;
    if (at->next != MAXMIN_NONE) {
        fluid->slots[at->next].last = slot;
    }
    own->first_single = slot;
    own->singles++;
    if (ratio_of(at) <= own->ratio_min) {
        own->ratio_min = ratio_of(at);
        own->is_ratio_stale = false;
    }
    for (uint32_t i = 0; i < at->use_count; i++) {
        fluid->resources[at->uses[i].resource].level_use += at->uses[i].coefficient * at->weight;
    }
}

void fluid_single_leaves(struct fluid *fluid, uint32_t slot)
{
    const struct fluid_slot *at = &fluid->slots[slot];
    struct fluid_resource *own = &fluid->resources[at->uses[0].resource];
    if (at->last == MAXMIN_NONE) {
        own->first_single = at->next;
    } else {
        fluid->slots[at->last].next = at->next;
    }
    if (at->next != MAXMIN_NONE) {
        fluid->slots[at->next].last = at->last;
    }
    own->is_ratio_stale = own->is_ratio_stale || ratio_of(at) <= own->ratio_min;
    if (--own->singles == 0) {
        own->ratio_min = INFINITY;
        own->is_ratio_stale = false;
    }
    for (uint32_t i = 0; i < at->use_count; i++) {
        struct fluid_resource *resource = &fluid->resources[at->uses[i].resource];
        resource->level_use -= at->uses[i].coefficient * at->weight;
        if (resource->users == 1 ||
            resource->singles == 0) { /* sums start afresh, so that their rounding does not add up for ever */
            resource->level_use = 0;
        }
    }
}

static void find_ratio(struct fluid *fluid, struct fluid_resource *own)
{
    own->ratio_min = INFINITY;
    own->is_ratio_stale = false;
    own->checks = 0;
    for (uint32_t s = own->first_single; s != MAXMIN_NONE; s = fluid->slots[s].next) {
        own->ratio_min = fmin(own->ratio_min, ratio_of(&fluid->slots[s]));
    }
}

/* Whether nobody is at its cap when all share. A stale minimum is found again before a station closes for it; before one opens only every so often, so that a crowd
 * at its caps, which costs the solver O(1) a change, does not cost O(n) here. */
static bool all_below_caps(struct fluid *fluid, struct fluid_resource *own)
{
    double level = own->capacity / own->level_use;
    if (own->is_ratio_stale && !(level < own->ratio_min * CAP_MARGIN) &&
        (own->station != MAXMIN_NONE || ++own->checks > own->singles / FLUID_CROWD)) {
        find_ratio(fluid, own);
    }
    return level < own->ratio_min * CAP_MARGIN;
}

static void set_use(struct fluid *fluid, uint32_t resource, double level)
{
    for (uint32_t r = resource; r != MAXMIN_NONE; r = fluid->resources[r].next_side) {
        struct fluid_resource *at = &fluid->resources[r];
        at->use = at->users == 0 ? 0 : level * at->level_use;
        at->peak_use = at->peak_use < at->use ? at->use : at->peak_use;
    }
}

static double level_of(const struct fluid_station *station)
{
    return station->queue.slope * (double)PS_PER_S;
}

/* Everybody into the queue. */
static uint32_t open_station(struct fluid *fluid, uint32_t resource, uint32_t index, int64_t now_ps, uint32_t count)
{
    struct fluid_station *station = &fluid->stations[index];
    struct fluid_resource *own = &fluid->resources[resource];
    psq_set_capacity(&station->queue, now_ps, own->capacity);
    station->resource = resource;
    own->station = index;
    for (uint32_t s = own->first_single; s != MAXMIN_NONE; s = fluid->slots[s].next) {
        struct fluid_slot *at = &fluid->slots[s];
        double left_s = fluid_left_s(at, now_ps), coefficient = at->uses[0].coefficient;
        maxmin_remove(&fluid->solver, at->variable);
        at->variable = MAXMIN_NONE;
        at->rate = 0;
        psq_add(&station->queue, now_ps, s, coefficient * left_s, coefficient * at->weight);
        fluid->changes[count++] = (struct fluid_change){ s, 0, TIME_NEVER_PS };
    }
    return count;
}

/* Everybody back to the solver, with what is left. */
static void close_station(struct fluid *fluid, uint32_t resource, int64_t now_ps)
{
    struct fluid_resource *own = &fluid->resources[resource];
    struct fluid_station *station = &fluid->stations[own->station];
    for (uint32_t s = own->first_single; s != MAXMIN_NONE; s = fluid->slots[s].next) {
        struct fluid_slot *at = &fluid->slots[s];
        double left = psq_remove(&station->queue, now_ps, s) / at->uses[0].coefficient;
        at->left_ps = left * (double)PS_PER_S / at->cap;
        at->since_ps = now_ps;
        fluid_to_solver(fluid, s);
    }
    set_use(fluid, resource, 0); /* each comes back with its rate */
    station->resource = MAXMIN_NONE;
    own->station = MAXMIN_NONE;
}

static uint32_t unused_station(const struct fluid *fluid)
{
    for (uint32_t i = 0; i < fluid->station_count; i++) {
        if (fluid->stations[i].resource == MAXMIN_NONE) {
            return i;
        }
    }
    return MAXMIN_NONE;
}

/* Close what is no longer all singles below their caps, then open what has become so: closing makes room. */
uint32_t fluid_stations_settle(struct fluid *fluid, int64_t now_ps, uint32_t count)
{
    for (uint32_t i = 0; i < fluid->touched_count; i++) {
        struct fluid_resource *own = &fluid->resources[fluid->touched[i]];
        uint32_t index = own->station;
        if (index != MAXMIN_NONE && (own->singles != own->users || own->users == 0 || !all_below_caps(fluid, own))) {
            close_station(fluid, fluid->touched[i], now_ps);
            fluid->changes[count++] = (struct fluid_change){ fluid->slot_count + index, 0, TIME_NEVER_PS };
        }
    }
    for (uint32_t i = 0; i < fluid->touched_count; i++) {
        struct fluid_resource *own = &fluid->resources[fluid->touched[i]];
        own->is_listed = false;
        if (own->station == MAXMIN_NONE && own->singles >= FLUID_CROWD && own->singles == own->users &&
            all_below_caps(fluid, own)) {
            uint32_t index = unused_station(fluid);
            if (index != MAXMIN_NONE) {
                count = open_station(fluid, fluid->touched[i], index, now_ps, count);
            }
        }
        if (own->station != MAXMIN_NONE) {
            const struct fluid_station *station = &fluid->stations[own->station];
            set_use(fluid, fluid->touched[i], level_of(station));
            fluid->changes[count++] =
                (struct fluid_change){ fluid->slot_count + own->station, 0, psq_next_ps(&station->queue) };
        }
    }
    fluid->touched_count = 0;
    return count;
}

uint32_t fluid_station_first(const struct fluid *fluid, uint32_t station)
{
    uint32_t resource = fluid->stations[station].resource;
    return resource == MAXMIN_NONE ? MAXMIN_NONE : fluid->resources[resource].first_single;
}

uint32_t fluid_station_next(const struct fluid *fluid, uint32_t slot)
{
    return fluid->slots[slot].next;
}

double fluid_station_rate(const struct fluid *fluid, uint32_t station, uint32_t slot)
{
    return fluid->slots[slot].weight * level_of(&fluid->stations[station]);
}
