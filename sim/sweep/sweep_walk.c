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

enum status sweep_walk_why(const struct sweep_walk *walk, struct error *error)
{
    const struct sweep_fault *fault = &walk->fault;
    struct expression_value value;
    struct strbuf where = { 0 };
    bool holds;
    CHECK(fault->expression != NULL);
    enum status status = fault->is_condition ? expression_test(fault->expression, walk->values, &holds, error)
                                             : expression_evaluate(fault->expression, walk->values, &value, error);
    for (uint32_t i = 0; i < walk->sweep->axis_count; i++) {
        const struct sweep_axis *axis = &walk->sweep->axes[i];
        if (!axis->linked && axis->depth <= fault->depth) {
            strbuf_printf(&where, "%s%s = ", where.length > 0 ? ", " : " at ", axis->name);
            expression_value_print(&walk->values[i], &where);
        }
    }
    size_t length = strlen(error->message);
    snprintf(error->message + length, sizeof error->message - length, "%.400s", where.text != NULL ? where.text : "");
    strbuf_free(&where);
    return status;
}

static void note_fault(struct sweep_walk *walk, const struct expression *expression, bool is_condition, uint32_t depth)
{
    if (walk->fault.expression == NULL) {
        walk->fault = (struct sweep_fault){ expression, is_condition, depth };
    }
}

/* What becomes known with the choice at `depth`: values, linked values, conditions. Whether no condition refuses it. */
static bool choose(struct sweep_walk *walk, uint32_t depth)
{
    const struct sweep *sweep = walk->sweep;
    if (walk->fault.depth >= depth) {
        walk->fault = (struct sweep_fault){ 0 };
    }
    for (uint32_t i = 0; i < sweep->axis_count; i++) {
        if (!sweep->axes[i].linked && sweep->axes[i].group == depth) {
            walk->values[i] = sweep->axes[i].values[walk->index[depth]];
        }
    }
    for (uint32_t i = 0; i < sweep->linked_count; i++) {
        const struct sweep_axis *axis = &sweep->axes[sweep->linked[i]];
        struct expression_value *value = &walk->values[sweep->linked[i]];
        if (axis->depth == depth && expression_evaluate(&axis->expression, walk->values, value, NULL) != STATUS_OK) {
            *value = (struct expression_value){ .kind = VALUE_MISSING };
            note_fault(walk, &axis->expression, false, depth);
        }
    }
    for (uint32_t i = 0; i < sweep->condition_count; i++) {
        const struct sweep_condition *condition = &sweep->conditions[i];
        bool holds = true;
        if (condition->depth != depth) {
            continue;
        }
        if (expression_test(&condition->expression, walk->values, &holds, NULL) != STATUS_OK) {
            note_fault(walk, &condition->expression, true, depth);
        } else if (!holds) {
            if (walk->refused != NULL) {
                walk->refused[i]++;
            }
            return false;
        }
    }
    return true;
}

bool sweep_walk_next(struct sweep_walk *walk)
{
    const struct sweep *sweep = walk->sweep;
    uint32_t last = sweep->group_count - 1, depth = walk->started ? last : 0;
    bool forward = !walk->started; /* index[depth] is a fresh choice, else to be raised first */
    for (;;) {
        if (!forward) {
            walk->index[depth]++;
        }
        if (walk->index[depth] >= sweep->group_sizes[depth]) {
            if (depth == 0) {
                return false;
            }
            depth--;
            forward = false;
            continue;
        }
        bool holds = choose(walk, depth);
        if (holds && depth == last) {
            walk->point += walk->started ? 1 : 0;
            walk->started = true;
            return true;
        }
        forward = holds;
        if (holds) {
            walk->index[++depth] = 0;
        }
    }
}
