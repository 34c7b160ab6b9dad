/* Fluid activities: who runs, how fast, and when each ends if nothing changes.
 *
 * An activity has work left, in picoseconds at rate 1, and takes coefficient * rate of each of its resources. Rates are weighted max-min fair with caps
 * (sim/core/maxmin): solved once an instant, for the components that changed. Ends are whole picoseconds, rounded up; an activity that runs at its cap all the
 * time ends exactly work / cap after its start, when that was given as a whole number (span_ps).
 *
 * A collective that holds SMs lowers the cap of kernels on the same GPU to their `beside_rate` (hardware.md E.6).
 *
 * Many activities that can be held back by one resource alone, and by the same one, make a station: while nobody there is at its cap they share in virtual time
 * (sim/core/psq), so that one coming or going costs O(log n) and not O(n). One event stands for all of a station: its next end. A station opens when a crowd of
 * FLUID_CROWD has gathered and closes when somebody comes who uses something else as well, or reaches its cap; what is left is handed over exactly.
 *
 * Slots are numbered by the caller (one per queue of the schedule): at most one activity each. Stations follow: slot_count + station. */
#ifndef MEMWALL_ENGINE_FLUID_H
#define MEMWALL_ENGINE_FLUID_H

#include <stdbool.h>
#include <stdint.h>

#include "sim/base/arena.h"
#include "sim/core/maxmin.h"
#include "sim/ir/timeline.h"

enum { FLUID_CROWD = 8, FLUID_STATIONS_MAX = 16 };

struct fluid_activity {
    const struct maxmin_use *uses; /* kept until the end; coefficients at rate 1 */
    uint32_t use_count;
    uint32_t solved_count;   /* the first so many uses can hold it back; 1 or more */
    uint32_t resident_count; /* the first so many uses are SMs that it holds */
    double weight;
    double beside_rate; /* cap while somebody is resident on the resource of uses[0]; 1 or more: does not care */
    int64_t work_ps;    /* at rate 1; > 0 */
    double work_s;      /* the same in seconds */
    int64_t span_ps;    /* its duration when nobody disturbs; >= work_ps: its cap is work / span */
};

struct fluid_change {
    uint32_t slot;  /* or slot_count + station */
    double rate;    /* fraction of rate 1; of a station: 0 */
    int64_t end_ps; /* TIME_NEVER_PS: no event of its own any more */
};

struct fluid_slot;
struct fluid_resource;
struct fluid_station;

struct fluid {
    struct fluid_change *changes; /* of the last fluid_settle */
    /* -- private -- */
    struct maxmin solver;
    struct fluid_slot *slots;
    struct fluid_resource *resources;
    struct fluid_station *stations;
    uint32_t *variable_slots; /* by solver variable */
    uint32_t *touched;        /* resources to look at for stations */
    uint32_t slot_count, resource_count, station_count, touched_count;
    bool dirty;
};

/* What there is: `roots[r]` is the resource that is full whenever r is (itself: r is solved for); `slot_uses[slot]` the largest solved_count that will ever run in
 * the slot. */
struct fluid_sizes {
    const double *capacities;
    const uint32_t *roots, *slot_uses;
    uint32_t resource_count, slot_count;
};

/* The stations there will be, each an event beyond those of the slots. */
uint32_t fluid_station_count(const struct fluid_sizes *sizes);
/* All storage is taken from `arena` here. */
enum status fluid_init(struct fluid *fluid, struct arena *arena, const struct fluid_sizes *sizes, struct error *error);
void fluid_start(struct fluid *fluid, uint32_t slot, const struct fluid_activity *activity, int64_t now_ps);
/* The activity in `slot` has done its work. */
void fluid_end(struct fluid *fluid, uint32_t slot, int64_t now_ps);
/* Take an activity out of a station that has done its work now; false when there is none (left). */
bool fluid_take(struct fluid *fluid, uint32_t station, int64_t now_ps, uint32_t *slot);
/* The activities of a station, as a list of slots that ends with MAXMIN_NONE, and the rate of each. */
uint32_t fluid_station_first(const struct fluid *fluid, uint32_t station);
uint32_t fluid_station_next(const struct fluid *fluid, uint32_t slot);
double fluid_station_rate(const struct fluid *fluid, uint32_t station, uint32_t slot);
/* The instant is over: bring rates up to date. The number of fluid->changes: slots whose rate is new (those started among them)
 * and stations whose levels are, valid until the next call. */
uint32_t fluid_settle(struct fluid *fluid, int64_t now_ps);

/* Amount, busy time and peak of a resource up to now. Amounts count activities that have ended. */
struct resource_traffic fluid_traffic(const struct fluid *fluid, uint32_t resource, int64_t now_ps);

#endif
