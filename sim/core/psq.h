/* Processor sharing in virtual time: many flows on one resource that is alone in its component.
 *
 * Every flow gets rate = weight * level, level = min(capacity / sum of weights, level_max). Virtual time V rises at
 * `level`; a flow of work w that comes at V ends when V reaches its tag V + w / weight, whatever comes and goes
 * between. So a change costs O(log n), not O(n), and a change of capacity only alters the slope of V. (Zhang 1990,
 * "VirtualClock"; Demers, Keshav, Shenker 1989, fair queueing.)
 *
 * Time is int64 picoseconds, not going back from call to call; work in any unit (bytes, flops), capacity in that
 * unit per second. Flows are slots below slot_count, chosen by the caller. A flow ends at the first whole picosecond
 * at which its work is done, up to rounding: some 2^-52 of the work per weight done since the resource was last
 * idle, which does not add up over changes (V and the weights are summed in twice double precision). Nothing is
 * allocated after init.
 *
 *     psq_add(&queue, now_ps, slot, bytes, 1.0);
 *     due_ps = psq_next_ps(&queue);                       // put an event there; again after each change
 *     while (psq_take(&queue, now_ps, &slot)) ...         // those that have ended by now */
#ifndef MEMWALL_CORE_PSQ_H
#define MEMWALL_CORE_PSQ_H

#include <stdbool.h>
#include <stdint.h>

#include "sim/base/units.h"
#include "sim/core/heap4.h"

/* A sum of very many terms: high + low. */
struct psq_sum {
    double high, low;
};

struct psq {
    struct heap4 heap; /* by finish tag: the bits of a non-negative double order like the double */
    double *weights;   /* of each slot */
    double capacity;   /* units per second */
    double level_max;  /* units per second per weight; INFINITY: none */
    struct psq_sum weight_sum;
    struct psq_sum virtual_units; /* V at last_ps: work per weight since the resource was last idle */
    double slope;                 /* dV/dt in units per picosecond; 0 when idle or the capacity is 0 */
    int64_t last_ps;
};

/* capacity >= 0, finite; level_max > 0, INFINITY for none. STATUS_NO_MEMORY. */
enum status psq_init(struct psq *queue, struct arena *arena, uint32_t slot_count, double capacity, double level_max,
                     struct error *error);
void psq_set_capacity(struct psq *queue, int64_t now_ps, double capacity);

/* `slot` must be absent. work >= 0 and finite, weight > 0 and finite. */
void psq_add(struct psq *queue, int64_t now_ps, uint32_t slot, double work, double weight);
/* Take a flow out before its end; returns the work left, >= 0. */
double psq_remove(struct psq *queue, int64_t now_ps, uint32_t slot);
bool psq_has(const struct psq *queue, uint32_t slot);
uint32_t psq_count(const struct psq *queue);
/* The present rate of a flow, and the work it will have left at now_ps if nothing changes. */
double psq_rate(const struct psq *queue, uint32_t slot);
double psq_left(const struct psq *queue, int64_t now_ps, uint32_t slot);

/* The instant at which the next flow ends if nothing changes; TIME_NEVER_PS when none does. */
int64_t psq_next_ps(const struct psq *queue);
/* Take a flow that has ended by now_ps, in order of their ends, first come first out among equals; false when there
 * is none. now_ps must not be beyond psq_next_ps: flows end one event at a time, for the level changes with each. */
bool psq_take(struct psq *queue, int64_t now_ps, uint32_t *slot);

#endif
