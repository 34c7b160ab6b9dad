/* A sweep file ("memwall.sweep/1"): a base scenario and axes along which it varies.
 *
 *     { "schema": "memwall.sweep/1", "name": "degrees",
 *       "base": "scenarios/gpt3-175b-1024-a100.json",              a path (from where memwall is run, else beside the sweep file), or an inline scenario
 *       "axes": [
 *         { "path": "parallel.tensor", "values": [2, 4, 8] },       its name is the last word of the path, unless "name" says another
 *         { "path": "parallel.pipeline", "range": { "from": 4, "to": 16, "step": 4 } },             ends included; step 1 unless said
 *         { "path": "training.micro_batch", "log_range": { "from": 1, "to": 8, "factor": 2 } },      or "count": n points; "whole": true rounds
 *         { "zip": [ { "path": "machine", "values": [...] }, { "path": "nodes", "values": [...] } ] },   go together, item by item
 *         { "name": "gpus", "values": [1024] },                     no path: a name for expressions only
 *         { "path": "parallel.data", "expression": "gpus / (tensor * pipeline)" } ],                a linked value
 *       "conditions": [ "tensor * pipeline * data == gpus", "data >= 1" ] }
 *
 * Expressions (expression.h) may name axes, by name or path, and keys of the base scenario that hold one value. The points are the combinations of all axes (the last varies fastest) that meet
 * every condition. What is wrong with the sweep as a whole is refused before anything runs; what is wrong with one point's scenario is that point's result, also where a linked value or a
 * condition cannot be computed there (1 / 0) unless that is so at every point. */
#ifndef MEMWALL_SWEEP_SWEEP_H
#define MEMWALL_SWEEP_SWEEP_H

#include <stdbool.h>
#include <stdint.h>

#include "sim/base/json.h"
#include "sim/sweep/expression.h"

enum {
    SWEEP_AXES_MAX = 32,
    SWEEP_CONDITIONS_MAX = 64,
    SWEEP_CONSTANTS_MAX = 64,
    SWEEP_NAMES_MAX = SWEEP_AXES_MAX + SWEEP_CONSTANTS_MAX,
    SWEEP_VALUES_MAX = 1 << 20
};
/* Combinations before conditions: what can be counted within a few seconds. */
#define SWEEP_COMBINATIONS_MAX ((uint64_t)1 << 24)

struct sweep_axis {
    const char *name; /* a word: letters, digits, _; unlike all others, capitals aside */
    const char *path; /* in the scenario, or NULL */
    bool linked;
    struct expression expression;    /* linked */
    uint32_t group;                  /* not linked: zipped axes share one */
    struct expression_value *values; /* not linked: [count of the group] */
    uint32_t depth;                  /* known once the groups 0 .. depth are chosen */
};

struct sweep_condition {
    struct expression expression;
    uint32_t depth;
    uint64_t refused; /* combinations, or prefixes of them, in sweep_count */
};

struct sweep {
    const char *name;
    char *base; /* canonical text of the base scenario (sweep_scenario.h) */
    struct sweep_axis axes[SWEEP_AXES_MAX];
    uint32_t axis_count, group_count;
    uint32_t group_sizes[SWEEP_AXES_MAX];
    uint32_t linked[SWEEP_AXES_MAX]; /* linked axes, each after those it needs */
    uint32_t linked_count;
    struct sweep_condition conditions[SWEEP_CONDITIONS_MAX];
    uint32_t condition_count;
    /* Keys of the base that expressions name: numbered after the axes' SWEEP_AXES_MAX. */
    const char *constant_names[SWEEP_CONSTANTS_MAX];
    struct expression_value constants[SWEEP_CONSTANTS_MAX];
    uint32_t constant_count;
    uint64_t combinations; /* before conditions */
    uint64_t points;       /* that meet them */
    struct arena arena;
};

/* Loads, checks, counts. On error nothing stays allocated. */
enum status sweep_load(struct sweep *sweep, const char *file, struct error *error);
enum status sweep_parse(struct sweep *sweep, const char *text, const char *file, struct error *error);
void sweep_free(struct sweep *sweep);

/* What cannot be computed at a point. */
struct sweep_fault {
    const struct expression *expression; /* the first of a linked value or a condition; NULL: nothing */
    bool is_condition;
    uint32_t depth;
};

/* A walk over the points in order.
 *
 *     struct sweep_walk walk;
 *     sweep_walk_start(&walk, &sweep);
 *     while (sweep_walk_next(&walk)) ... walk.values[axis] ...
 *
 * A combination with a fault is a point without a scenario, unless a condition that can be computed refuses it: what has no value is VALUE_MISSING, sweep_walk_why says why. */
struct sweep_walk {
    const struct sweep *sweep;
    bool started;
    uint64_t point; /* number of this one, from 0 */
    uint32_t index[SWEEP_AXES_MAX];
    struct expression_value values[SWEEP_NAMES_MAX]; /* borrow from the sweep */
    struct sweep_fault fault;
    uint64_t *refused; /* [condition_count], counted when not NULL */
};
void sweep_walk_start(struct sweep_walk *walk, const struct sweep *sweep);
bool sweep_walk_next(struct sweep_walk *walk);
/* The error of the walk's fault, with the values it was found at. */
enum status sweep_walk_why(const struct sweep_walk *walk, struct error *error);

#endif
