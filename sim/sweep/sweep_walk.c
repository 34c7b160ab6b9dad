/* The points of a sweep, in order: an odometer that gives up a prefix as soon as a condition refuses it. */
#include <stdio.h>
#include <string.h>

#include "sim/base/check.h"
#include "sim/sweep/sweep.h"

void sweep_walk_start(struct sweep_walk *walk, const struct sweep *sweep)
{
    memset(walk, 0, sizeof *walk);
    walk->sweep = sweep;
    memcpy(walk->values + SWEEP_AXES_MAX, sweep->constants, sizeof sweep->constants);
}

/* An expression that cannot be computed: say for which combination. */
static enum status place(const struct sweep_walk *walk, uint32_t depth, enum status status, struct error *error)
{
    if (error == NULL) {
        return status;
    }
    struct strbuf where = { 0 };
    for (uint32_t i = 0; i < walk->sweep->axis_count; i++) {
        const struct sweep_axis *axis = &walk->sweep->axes[i];
        if (!axis->linked && axis->depth <= depth) {
            strbuf_printf(&where, "%s%s = ", where.length > 0 ? ", " : " at ", axis->name);
            expression_value_print(&walk->values[i], &where);
        }
    }
    size_t length = strlen(error->message);
    snprintf(error->message + length, sizeof error->message - length, "%.400s", where.text != NULL ? where.text : "");
    strbuf_free(&where);
    return status;
}

/* What becomes known with the choice at `depth`: values, linked values, conditions. */
static enum status choose(struct sweep_walk *walk, uint32_t depth, bool *holds, struct error *error)
{
    const struct sweep *sweep = walk->sweep;
    for (uint32_t i = 0; i < sweep->axis_count; i++) {
        if (!sweep->axes[i].linked && sweep->axes[i].group == depth) {
            walk->values[i] = sweep->axes[i].values[walk->index[depth]];
        }
    }
    for (uint32_t i = 0; i < sweep->linked_count; i++) {
        const struct sweep_axis *axis = &sweep->axes[sweep->linked[i]];
        if (axis->depth == depth) {
            enum status status =
                expression_evaluate(&axis->expression, walk->values, &walk->values[sweep->linked[i]], error);
            if (status != STATUS_OK) {
                return place(walk, depth, status, error);
            }
        }
    }
    *holds = true;
    for (uint32_t i = 0; i < sweep->condition_count && *holds; i++) {
        if (sweep->conditions[i].depth == depth) {
            enum status status = expression_test(&sweep->conditions[i].expression, walk->values, holds, error);
            if (status != STATUS_OK) {
                return place(walk, depth, status, error);
            }
            if (!*holds && walk->refused != NULL) {
                walk->refused[i]++;
            }
        }
    }
    return STATUS_OK;
}

enum status sweep_walk_next(struct sweep_walk *walk, bool *found, struct error *error)
{
    const struct sweep *sweep = walk->sweep;
    uint32_t last = sweep->group_count - 1, depth = walk->started ? last : 0;
    bool forward = !walk->started; /* index[depth] is a fresh choice, else to be raised first */
    *found = false;
    for (;;) {
        if (!forward) {
            walk->index[depth]++;
        }
        if (walk->index[depth] >= sweep->group_sizes[depth]) {
            if (depth == 0) {
                return STATUS_OK;
            }
            depth--;
            forward = false;
            continue;
        }
        bool holds = false;
        TRY(choose(walk, depth, &holds, error));
        if (holds && depth == last) {
            walk->point += walk->started ? 1 : 0;
            walk->started = true;
            *found = true;
            return STATUS_OK;
        }
        forward = holds;
        if (holds) {
            walk->index[++depth] = 0;
        }
    }
}
