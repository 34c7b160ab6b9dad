/* Fluid activities: who runs, how fast, and when each ends if nothing changes.
 *
 * An activity has work left, in picoseconds at rate 1, and takes coefficient * rate of each of its resources. Rates are weighted max-min fair with caps
 * (sim/core/maxmin): solved once an instant, for the components that changed. Ends are whole picoseconds, rounded up; an activity that runs at its cap all the
 * time ends exactly work / cap after its start, when that was given as a whole number (span_ps).
 *
 * A collective that holds SMs lowers the cap of kernels on the same GPU to their `beside_rate` (hardware.md E.6).
 *
 * Slots are numbered by the caller (one per queue of the schedule): at most one activity each. */
#ifndef MEMWALL_ENGINE_FLUID_H
#define MEMWALL_ENGINE_FLUID_H

#include <stdbool.h>
#include <stdint.h>

#include "sim/base/arena.h"
#include "sim/core/maxmin.h"
#include "sim/ir/timeline.h"

struct fluid_activity {
    const struct maxmin_use *uses; /* kept until the end; coefficients at rate 1 */
    uint32_t use_count;
    uint32_t resident_count; /* the first so many uses are SMs that it holds */
    double weight;
    double beside_rate; /* cap while somebody is resident on the resource of uses[0]; 1 or more: does not care */
    int64_t work_ps;    /* at rate 1; > 0 */
    double work_s;      /* the same in seconds */
    int64_t span_ps;    /* its duration when nobody disturbs; >= work_ps: its cap is work / span */
};

struct fluid_change {
    uint32_t slot;
    double rate; /* fraction of rate 1 */
    int64_t end_ps;
};

struct fluid_slot;
struct fluid_resource;

struct fluid {
    struct fluid_change *changes; /* of the last fluid_settle */
    /* -- private -- */
    struct maxmin solver;
    struct fluid_slot *slots;
    struct fluid_resource *resources;
    uint32_t *variable_slots; /* by solver variable */
    uint32_t slot_count, resource_count;
    bool dirty;
};

/* `slot_uses[slot]` is the largest use_count that will ever run in the slot. All storage is taken from `arena` here. */
enum status fluid_init(struct fluid *fluid, struct arena *arena, const double *capacities, uint32_t resource_count,
                       const uint32_t *slot_uses, uint32_t slot_count, struct error *error);
void fluid_start(struct fluid *fluid, uint32_t slot, const struct fluid_activity *activity, int64_t now_ps);
/* The activity in `slot` has done its work. */
void fluid_end(struct fluid *fluid, uint32_t slot, int64_t now_ps);
/* The instant is over: bring rates up to date. The number of fluid->changes: slots whose rate is new (those started among them), valid until the next
 * call. */
uint32_t fluid_settle(struct fluid *fluid, int64_t now_ps);

/* Amount, busy time and peak of a resource up to now. Amounts count activities that have ended. */
struct resource_traffic fluid_traffic(const struct fluid *fluid, uint32_t resource, int64_t now_ps);

#endif
