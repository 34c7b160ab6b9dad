/* State behind a struct fluid: shared by fluid.c (activities, rates by the solver) and fluid_station.c (crowds in virtual time). */
#ifndef MEMWALL_ENGINE_FLUID_INTERNAL_H
#define MEMWALL_ENGINE_FLUID_INTERNAL_H

#include "sim/core/psq.h"
#include "sim/engine/fluid.h"

struct fluid_slot {
    const struct maxmin_use *uses;
    double left_ps; /* at the cap's rate, as of since_ps; not kept up in a station */
    double rate, cap;
    double work_s, beside_rate, weight;
    int64_t since_ps;
    uint32_t use_count, solved_count, resident_count;
    uint32_t variable;   /* of the solver; MAXMIN_NONE: in its resource's station */
    bool is_single;      /* has one use to be solved for, and a cap of its own that does not change */
    uint32_t next, last; /* watchers of the same SMs, or singles of the same resource; slot, or MAXMIN_NONE */
};

struct fluid_resource {
    double capacity;
    double amount, use, peak_use;
    int64_t busy_since_ps, busy_ps;
    uint32_t users;
    uint32_t residents;     /* activities that hold these SMs */
    uint32_t first_watcher; /* activities whose cap depends on that */
    /* a crowd */
    double level_use;      /* sum over singles of coefficient * weight: use = level * this */
    double ratio_min;      /* no single reaches its cap below this level */
    uint32_t singles;      /* users that are single here (of a side: whose root is the resource of uses[0]) */
    uint32_t first_single; /* not for sides */
    uint32_t station;      /* MAXMIN_NONE: none */
    uint32_t next_side;    /* resources of the same root; MAXMIN_NONE: the last */
    bool is_listed;        /* in fluid.touched */
    bool is_ratio_stale;   /* ratio_min may be too low: the one that had it has gone */
    uint32_t checks;       /* times that a stale ratio_min was good enough for a no */
};

struct fluid_station {
    struct psq queue;  /* in units of the resource; slots are the fluid's */
    uint32_t resource; /* MAXMIN_NONE: not in use */
    bool is_touched;   /* its level or its next end may be new */
};

/* Work left, at rate 1, in seconds: while the solver rates it. */
double fluid_left_s(const struct fluid_slot *at, int64_t now_ps);
/* Into the solver with what is left. */
void fluid_to_solver(struct fluid *fluid, uint32_t slot);

enum status fluid_stations_init(struct fluid *fluid, struct arena *arena, const uint32_t *roots, struct error *error);
/* A single activity comes or goes: its place in the list, its share of the sums. */
void fluid_single_joins(struct fluid *fluid, uint32_t slot);
void fluid_single_leaves(struct fluid *fluid, uint32_t slot);
/* The users of a resource have changed: look at it in the next fluid_stations_settle. */
void fluid_touch(struct fluid *fluid, uint32_t resource);
/* Open and close stations; what that and their levels change is appended to fluid->changes from `count` on. Returns the new count. Before the solver is asked. */
uint32_t fluid_stations_settle(struct fluid *fluid, int64_t now_ps, uint32_t count);

#endif
