#include "sim/engine/fluid_internal.h"

#include "sim/base/check.h"
#include "sim/base/units.h"

/* A whole that its parts fill exactly must not look overfull by their rounding. */
static const double ROUNDING_ROOM = 1 + 1e-12;

enum status fluid_init(struct fluid *fluid, struct arena *arena, const struct fluid_sizes *sizes, struct error *error)
{
    uint32_t slots = sizes->slot_count, resources = sizes->resource_count;
    *fluid = (struct fluid){
        .slots = arena_array(arena, struct fluid_slot, slots),
        .resources = arena_array(arena, struct fluid_resource, resources),
        .variable_slots = arena_array(arena, uint32_t, slots),
        .slot_count = slots,
        .resource_count = resources,
        .station_count = fluid_station_count(sizes),
    };
    /* Every slot once, as changed or as gone into a station, and every station twice: closed and opened again. */
    fluid->changes = arena_array(arena, struct fluid_change, (size_t)slots + 2 * (size_t)fluid->station_count);
    if (fluid->changes == NULL || fluid->slots == NULL || fluid->resources == NULL || fluid->variable_slots == NULL) {
        return error_set(error, STATUS_NO_MEMORY, "no memory for %u activities on %u resources", slots, resources);
    }
    uint64_t uses = 0;
    for (uint32_t s = 0; s < slots; s++) {
        uses += sizes->slot_uses[s];
    }
    if (uses >= UINT32_MAX) {
        return error_set(error, STATUS_LIMIT,
                         "activities that may run together use %llu resources, fewer than 2^32 are possible",
                         (unsigned long long)uses);
    }
    struct maxmin_limits limits = { .resources = resources, .variables = slots, .uses = (uint32_t)uses };
    TRY(maxmin_init(&fluid->solver, arena, &limits, error));
    for (uint32_t r = 0; r < resources; r++) {
        fluid->resources[r].capacity = sizes->capacities[r] * ROUNDING_ROOM;
        fluid->resources[r].first_watcher = MAXMIN_NONE;
        maxmin_add_resource(&fluid->solver, fluid->resources[r].capacity);
    }
    return fluid_stations_init(fluid, arena, sizes->roots, error);
}

static double cap_now(const struct fluid *fluid, const struct fluid_slot *slot)
{
    if (slot->beside_rate < slot->cap && fluid->resources[slot->uses[0].resource].residents != 0) {
        return slot->beside_rate;
    }
    return slot->cap;
}

/* Kernels on these SMs speed up or slow down: the first collective came, or the last one went. */
static void tell_watchers(struct fluid *fluid, const struct fluid_resource *resource)
{
    for (uint32_t s = resource->first_watcher; s != MAXMIN_NONE; s = fluid->slots[s].next) {
        maxmin_set_cap(&fluid->solver, fluid->slots[s].variable, cap_now(fluid, &fluid->slots[s]));
    }
}

static void watch(struct fluid *fluid, uint32_t slot)
{
    struct fluid_resource *resource = &fluid->resources[fluid->slots[slot].uses[0].resource];
    fluid->slots[slot].last = MAXMIN_NONE;
    fluid->slots[slot].next = resource->first_watcher;
    if (resource->first_watcher != MAXMIN_NONE) {
        fluid->slots[resource->first_watcher].last = slot;
    }
    resource->first_watcher = slot;
}

static void watch_no_more(struct fluid *fluid, uint32_t slot)
{
    const struct fluid_slot *watcher = &fluid->slots[slot];
    if (watcher->last != MAXMIN_NONE) {
        fluid->slots[watcher->last].next = watcher->next;
    } else {
        fluid->resources[watcher->uses[0].resource].first_watcher = watcher->next;
    }
    if (watcher->next != MAXMIN_NONE) {
        fluid->slots[watcher->next].last = watcher->last;
    }
}

void fluid_to_solver(struct fluid *fluid, uint32_t slot)
{
    struct fluid_slot *at = &fluid->slots[slot];
    at->variable = maxmin_add(&fluid->solver, at->weight, cap_now(fluid, at), at->uses, at->solved_count);
    fluid->variable_slots[at->variable] = slot;
}

void fluid_start(struct fluid *fluid, uint32_t slot, const struct fluid_activity *activity, int64_t now_ps)
{
    CHECK(slot < fluid->slot_count && activity->work_ps > 0 && activity->span_ps >= activity->work_ps);
    CHECK(activity->solved_count >= 1 && activity->solved_count >= activity->resident_count);
    struct fluid_slot *at = &fluid->slots[slot];
    *at = (struct fluid_slot){
        .uses = activity->uses,
        .left_ps = (double)activity->span_ps,
        .cap = activity->work_ps == activity->span_ps ? 1.0 : (double)activity->work_ps / (double)activity->span_ps,
        .work_s = activity->work_s,
        .beside_rate = activity->beside_rate,
        .weight = activity->weight,
        .since_ps = now_ps,
        .use_count = activity->use_count,
        .solved_count = activity->solved_count,
        .resident_count = activity->resident_count,
        .variable = MAXMIN_NONE,
        .is_single = activity->solved_count == 1 && activity->resident_count == 0 && activity->beside_rate >= 1,
    };
    for (uint32_t i = 0; i < at->use_count; i++) {
        struct fluid_resource *resource = &fluid->resources[at->uses[i].resource];
        if (resource->users++ == 0) {
            resource->busy_since_ps = now_ps;
        }
        if (i < at->resident_count && resource->residents++ == 0) {
            tell_watchers(fluid, resource);
        }
        if (i < at->solved_count && (resource->station != MAXMIN_NONE || resource->users >= FLUID_CROWD)) {
            fluid_touch(fluid, at->uses[i].resource);
        }
    }
    if (at->beside_rate < 1) {
        watch(fluid, slot);
    }
    const struct fluid_resource *own = &fluid->resources[at->uses[0].resource];
    if (at->is_single) {
        fluid_single_joins(fluid, slot);
    }
    if (at->is_single && own->station != MAXMIN_NONE) {
        psq_add(&fluid->stations[own->station].queue, now_ps, slot, at->uses[0].coefficient * fluid_left_s(at, now_ps),
                at->uses[0].coefficient * at->weight);
    } else {
        fluid_to_solver(fluid, slot);
    }
    fluid->dirty = true;
}

/* It has moved what it had to. */
static void leave_resources(struct fluid *fluid, uint32_t slot, int64_t now_ps)
{
    struct fluid_slot *at = &fluid->slots[slot];
    if (at->is_single) {
        fluid_single_leaves(fluid, slot);
    }
    for (uint32_t i = 0; i < at->use_count; i++) {
        struct fluid_resource *resource = &fluid->resources[at->uses[i].resource];
        resource->amount += at->uses[i].coefficient * at->work_s;
        resource->use -= at->uses[i].coefficient * at->rate;
        if (--resource->users == 0) {
            resource->busy_ps += now_ps - resource->busy_since_ps;
            resource->use = 0;
        }
        if (i < at->resident_count && --resource->residents == 0) {
            tell_watchers(fluid, resource);
        }
        if (i < at->solved_count && (resource->station != MAXMIN_NONE || resource->users >= FLUID_CROWD)) {
            fluid_touch(fluid, at->uses[i].resource);
        }
    }
    fluid->dirty = true;
}

void fluid_end(struct fluid *fluid, uint32_t slot, int64_t now_ps)
{
    struct fluid_slot *at = &fluid->slots[slot];
    maxmin_remove(&fluid->solver, at->variable);
    if (at->beside_rate < 1) {
        watch_no_more(fluid, slot);
    }
    leave_resources(fluid, slot, now_ps);
}

bool fluid_take(struct fluid *fluid, uint32_t station, int64_t now_ps, uint32_t *slot)
{
    CHECK(station < fluid->station_count && fluid->stations[station].resource != MAXMIN_NONE);
    fluid_touch(fluid,
                fluid->stations[station].resource); /* its event is spent: the next settle tells when the next is due */
    fluid->dirty = true;
    if (!psq_take(&fluid->stations[station].queue, now_ps, slot)) {
        return false;
    }
    leave_resources(fluid, *slot, now_ps);
    return true;
}

/* Whole picoseconds, rounded up; x >= 0. (ceil and fmax are calls without -ffast-math.) */
static int64_t ceil_ps(double x)
{
    int64_t whole = (int64_t)x;
    return whole + ((double)whole < x);
}

double fluid_left_s(const struct fluid_slot *at, int64_t now_ps)
{
    double left_ps = at->left_ps - (double)(now_ps - at->since_ps) * (at->rate / at->cap);
    return left_ps > 0 ? left_ps * at->cap / (double)PS_PER_S : 0;
}

/* Give the activity its new rate; returns when it ends at that. */
static int64_t change_rate(struct fluid_slot *at, double rate, int64_t now_ps)
{
    CHECK(rate > 0);
    if (now_ps > at->since_ps) {
        double left = at->left_ps - (double)(now_ps - at->since_ps) * (at->rate / at->cap);
        at->left_ps = left > 0 ? left : 0;
        at->since_ps = now_ps;
    }
    at->rate = rate;
    /* At the cap work passes as time does, to the last picosecond. */
    return now_ps + ceil_ps(rate >= at->cap ? at->left_ps : at->left_ps / (rate / at->cap));
}

static void note_peaks(struct fluid *fluid, const struct fluid_slot *at)
{
    for (uint32_t i = 0; i < at->use_count; i++) {
        struct fluid_resource *resource = &fluid->resources[at->uses[i].resource];
        resource->peak_use = resource->peak_use < resource->use ? resource->use : resource->peak_use;
    }
}

uint32_t fluid_settle(struct fluid *fluid, int64_t now_ps)
{
    if (!fluid->dirty) {
        return 0;
    }
    fluid->dirty = false;
    uint32_t first = fluid->touched_count == 0 ? 0 : fluid_stations_settle(fluid, now_ps, 0);
    uint32_t solved = maxmin_solve(&fluid->solver), count = first + solved;
    for (uint32_t c = first; c < count; c++) {
        uint32_t variable = fluid->solver.changed[c - first], slot = fluid->variable_slots[variable];
        struct fluid_slot *at = &fluid->slots[slot];
        double rate = maxmin_rate(&fluid->solver, variable), more = rate - at->rate;
        fluid->changes[c] = (struct fluid_change){ slot, rate, change_rate(at, rate, now_ps) };
        for (uint32_t i = 0; i < at->use_count; i++) {
            fluid->resources[at->uses[i].resource].use += at->uses[i].coefficient * more;
        }
    }
    for (uint32_t c = first; c < count; c++) { /* only now is every use that of the new instant */
        note_peaks(fluid, &fluid->slots[fluid->changes[c].slot]);
    }
    return count;
}

struct resource_traffic fluid_traffic(const struct fluid *fluid, uint32_t resource, int64_t now_ps)
{
    CHECK(resource < fluid->resource_count);
    const struct fluid_resource *at = &fluid->resources[resource];
    return (struct resource_traffic){
        .amount = at->amount,
        .busy_s = s_from_ps(at->busy_ps + (at->users == 0 ? 0 : now_ps - at->busy_since_ps)),
        .peak_use = at->peak_use,
    };
}
