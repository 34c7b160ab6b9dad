#include "sim/engine/fluid.h"

#include "sim/base/check.h"
#include "sim/base/units.h"

struct fluid_slot {
    const struct maxmin_use *uses;
    double left_ps; /* at the cap's rate, as of since_ps */
    double rate, cap;
    double work_s, beside_rate;
    int64_t since_ps;
    uint32_t use_count, resident_count;
    uint32_t variable;
    uint32_t next_watcher, last_watcher; /* of the same SMs; slot, or MAXMIN_NONE */
};

struct fluid_resource {
    double amount, use, peak_use;
    int64_t busy_since_ps, busy_ps;
    uint32_t users;
    uint32_t residents;     /* activities that hold these SMs */
    uint32_t first_watcher; /* activities whose cap depends on that */
};

/* A whole that its parts fill exactly must not look overfull by their rounding. */
static const double ROUNDING_ROOM = 1 + 1e-12;

enum status fluid_init(struct fluid *fluid, struct arena *arena, const double *capacities, uint32_t resource_count,
                       const uint32_t *slot_uses, uint32_t slot_count, struct error *error)
{
    *fluid = (struct fluid){
        .changes = arena_array(arena, struct fluid_change, slot_count),
        .slots = arena_array(arena, struct fluid_slot, slot_count),
        .resources = arena_array(arena, struct fluid_resource, resource_count),
        .variable_slots = arena_array(arena, uint32_t, slot_count),
        .slot_count = slot_count,
        .resource_count = resource_count,
    };
    if (fluid->changes == NULL || fluid->slots == NULL || fluid->resources == NULL || fluid->variable_slots == NULL) {
        return error_set(error, STATUS_NO_MEMORY, "no memory for %u activities on %u resources", slot_count,
                         resource_count);
    }
    uint64_t uses = 0;
    for (uint32_t s = 0; s < slot_count; s++) {
        uses += slot_uses[s];
    }
    if (uses >= UINT32_MAX) {
        return error_set(error, STATUS_LIMIT,
                         "activities that may run together use %llu resources, fewer than 2^32 are possible",
                         (unsigned long long)uses);
    }
    struct maxmin_limits limits = { .resources = resource_count, .variables = slot_count, .uses = (uint32_t)uses };
    TRY(maxmin_init(&fluid->solver, arena, &limits, error));
    for (uint32_t r = 0; r < resource_count; r++) {
        maxmin_add_resource(&fluid->solver, capacities[r] * ROUNDING_ROOM);
        fluid->resources[r].first_watcher = MAXMIN_NONE;
    }
    return STATUS_OK;
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
    for (uint32_t s = resource->first_watcher; s != MAXMIN_NONE; s = fluid->slots[s].next_watcher) {
        maxmin_set_cap(&fluid->solver, fluid->slots[s].variable, cap_now(fluid, &fluid->slots[s]));
    }
}

static void watch(struct fluid *fluid, uint32_t slot)
{
    struct fluid_resource *resource = &fluid->resources[fluid->slots[slot].uses[0].resource];
    fluid->slots[slot].last_watcher = MAXMIN_NONE;
    fluid->slots[slot].next_watcher = resource->first_watcher;
    if (resource->first_watcher != MAXMIN_NONE) {
        fluid->slots[resource->first_watcher].last_watcher = slot;
    }
    resource->first_watcher = slot;
}

static void watch_no_more(struct fluid *fluid, uint32_t slot)
{
    const struct fluid_slot *watcher = &fluid->slots[slot];
    if (watcher->last_watcher != MAXMIN_NONE) {
        fluid->slots[watcher->last_watcher].next_watcher = watcher->next_watcher;
    } else {
        fluid->resources[watcher->uses[0].resource].first_watcher = watcher->next_watcher;
    }
    if (watcher->next_watcher != MAXMIN_NONE) {
        fluid->slots[watcher->next_watcher].last_watcher = watcher->last_watcher;
    }
}

void fluid_start(struct fluid *fluid, uint32_t slot, const struct fluid_activity *activity, int64_t now_ps)
{
    CHECK(slot < fluid->slot_count && activity->work_ps > 0 && activity->span_ps >= activity->work_ps);
    struct fluid_slot *at = &fluid->slots[slot];
    *at = (struct fluid_slot){
        .uses = activity->uses,
        .left_ps = (double)activity->span_ps,
        .cap = activity->work_ps == activity->span_ps ? 1.0 : (double)activity->work_ps / (double)activity->span_ps,
        .work_s = activity->work_s,
        .beside_rate = activity->beside_rate,
        .since_ps = now_ps,
        .use_count = activity->use_count,
        .resident_count = activity->resident_count,
    };
    for (uint32_t i = 0; i < at->use_count; i++) {
        struct fluid_resource *resource = &fluid->resources[at->uses[i].resource];
        if (resource->users++ == 0) {
            resource->busy_since_ps = now_ps;
        }
        if (i < at->resident_count && resource->residents++ == 0) {
            tell_watchers(fluid, resource);
        }
    }
    at->variable = maxmin_add(&fluid->solver, activity->weight, cap_now(fluid, at), at->uses, at->use_count);
    fluid->variable_slots[at->variable] = slot;
    if (at->beside_rate < 1) {
        watch(fluid, slot);
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
    }
    fluid->dirty = true;
}

/* Whole picoseconds, rounded up; x >= 0. (ceil and fmax are calls without -ffast-math.) */
static int64_t ceil_ps(double x)
{
    int64_t whole = (int64_t)x;
    return whole + ((double)whole < x);
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
    uint32_t count = maxmin_solve(&fluid->solver);
    for (uint32_t c = 0; c < count; c++) {
        uint32_t slot = fluid->variable_slots[fluid->solver.changed[c]];
        struct fluid_slot *at = &fluid->slots[slot];
        double rate = maxmin_rate(&fluid->solver, fluid->solver.changed[c]), more = rate - at->rate;
        fluid->changes[c] = (struct fluid_change){ slot, rate, change_rate(at, rate, now_ps) };
        for (uint32_t i = 0; i < at->use_count; i++) {
            fluid->resources[at->uses[i].resource].use += at->uses[i].coefficient * more;
        }
    }
    for (uint32_t c = 0; c < count; c++) { /* only now is every use that of the new instant */
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
