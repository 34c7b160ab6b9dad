#include "sim/report/sensitivity.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/check.h"
#include "sim/base/units.h"
#include "sim/report/text_table.h"

enum { TRIALS_PER_RESOURCE = 3, TRIAL_COUNT = 1 + TRIALS_PER_RESOURCE * SCALED_RESOURCE_COUNT };

struct task {
    const struct scenario *scenario;
    struct trial_result results[TRIAL_COUNT];
    double reached[TRIAL_COUNT];
    struct error errors[TRIAL_COUNT];
    enum status statuses[TRIAL_COUNT];
};

/* A hundredth more or less, or a whole core. */
static double small_factor(const struct machine *machine, enum scaled_resource resource, bool more)
{
    double step = 1 + SENSITIVITY_STEP;
    uint32_t cpu = machine_part_at(machine, PART_CPU, 0);
    if (resource == SCALE_CORES && cpu != UINT32_MAX && machine->parts[cpu].cores > 0) {
        double cores = machine->parts[cpu].cores, whole = fmax(1, rint(cores * SENSITIVITY_STEP));
        return (more ? cores + whole : fmax(1, cores - whole)) / cores;
    }
    return more ? step : 1 / step;
}

static void run_one(void *context, uint32_t index)
{
    struct task *task = context;
    const struct scenario *scenario = task->scenario;
    struct scaled_machine scaled;
    struct error *error = &task->errors[index];
    if (index == 0) {
        task->statuses[0] = trial_run(&task->results[0], scenario, &scenario->machine, &scenario->software, error);
        return;
    }
    enum scaled_resource resource = (enum scaled_resource)((index - 1) / TRIALS_PER_RESOURCE);
    uint32_t which = (index - 1) % TRIALS_PER_RESOURCE;
    double factor = which == 0 ? 2 : small_factor(&scenario->machine, resource, which == 1);
    enum status status =
        machine_scale(&scaled, &scenario->machine, &scenario->software, resource, factor, &task->reached[index], error);
    if (status == STATUS_OK) {
        if (task->reached[index] > 1 || task->reached[index] < 1) {
            status = trial_run(&task->results[index], scenario, &scaled.machine, &scaled.software, error);
        }
        scaled_machine_free(&scaled);
    }
    task->statuses[index] = status;
}

static void read_item(struct sensitivity_item *item, const struct task *task, enum scaled_resource resource)
{
    const uint32_t at = 1 + TRIALS_PER_RESOURCE * (uint32_t)resource;
    double base_ps = (double)task->results[0].step_ps;
    *item = (struct sensitivity_item){
        .resource = resource,
        .factor = task->reached[at],
        .doubled = task->results[at],
        .more = task->results[at + 1],
        .less = task->results[at + 2],
        .more_factor = task->reached[at + 1],
        .less_factor = task->reached[at + 2],
    };
    item->present = item->factor > 1;
    if (task->results[0].ran && item->doubled.ran) {
        item->change = (double)item->doubled.step_ps / base_ps - 1;
    }
    if (item->present && item->more.ran) {
        /* one core less than one is none: one-sided */
        double low_ps = item->less.ran ? (double)item->less.step_ps : base_ps;
        double low = item->less.ran ? item->less_factor : 1;
        item->has_elasticity = low_ps > 0;
        item->elasticity =
            item->has_elasticity ? log((double)item->more.step_ps / low_ps) / log(item->more_factor / low) : 0;
    }
}

static int by_worth(const void *a, const void *b)
{
    const struct sensitivity_item *x = a, *y = b;
    bool x_ran = x->present && x->doubled.ran, y_ran = y->present && y->doubled.ran;
    if (x_ran != y_ran) {
        return x_ran ? -1 : 1;
    }
    if (x->present != y->present) {
        return x->present ? -1 : 1;
    }
    if (x->doubled.step_ps != y->doubled.step_ps) {
        return x->doubled.step_ps < y->doubled.step_ps ? -1 : 1;
    }
    return x->resource < y->resource ? -1 : x->resource > y->resource;
}

enum status sensitivity_compute(struct sensitivity *sensitivity, const struct scenario *scenario, uint32_t threads,
                                void (*progress)(void *context, uint32_t done, uint32_t total), void *progress_context,
                                struct error *error)
{
    struct task *task = calloc(1, sizeof *task);
    enum status status = STATUS_OK;
    *sensitivity = (struct sensitivity){ 0 };
    if (task == NULL) {
        return error_set(error, STATUS_NO_MEMORY, "out of memory");
    }
    task->scenario = scenario;
    trials_parallel(threads, TRIAL_COUNT, run_one, task, progress, progress_context);
    for (uint32_t i = 0; i < TRIAL_COUNT && status == STATUS_OK; i++) {
        status = task->statuses[i];
        if (status != STATUS_OK && error != NULL) {
            *error = task->errors[i];
        }
    }
    sensitivity->base = task->results[0];
    for (uint32_t r = 0; r < SCALED_RESOURCE_COUNT; r++) {
        read_item(&sensitivity->items[r], task, (enum scaled_resource)r);
    }
    qsort(sensitivity->items, SCALED_RESOURCE_COUNT, sizeof sensitivity->items[0], by_worth);
    free(task);
    return status;
}

void sensitivity_json(const struct sensitivity *sensitivity, struct json_writer *w)
{
    jw_array(w, "sensitivity");
    for (uint32_t i = 0; i < SCALED_RESOURCE_COUNT; i++) {
        const struct sensitivity_item *item = &sensitivity->items[i];
        jw_object(w, NULL);
        jw_string(w, "resource", scaled_resource_word(item->resource));
        jw_bool(w, "present", item->present);
        if (item->present) {
            jw_real(w, "factor", item->factor);
            jw_bool(w, "fits", item->doubled.fits);
        }
        if (item->present && item->doubled.ran) {
            jw_real(w, "step_time_s", s_from_ps(item->doubled.step_ps));
            jw_real(w, "change", item->change);
        } else if (item->present) {
            jw_null(w, "step_time_s");
            jw_string(w, "reason", item->doubled.reason);
        }
        if (item->has_elasticity) {
            jw_real(w, "elasticity", item->elasticity);
            jw_real(w, "small_factor", item->more_factor);
            jw_real(w, "small_step_time_s", s_from_ps(item->more.step_ps));
        }
        jw_end(w);
    }
    jw_end(w);
}

void sensitivity_text(const struct sensitivity *sensitivity, struct strbuf *out)
{
    struct text_table table = { .column_count = 4, .right = 2 | 4 | 8 };
    char time[32];
    strbuf_append(out, "\nWhat binds: the step re-simulated on changed machines\n");
    text_table_cell(&table, "resource");
    text_table_cell(&table, "change");
    text_table_cell(&table, "step");
    text_table_cell(&table, "elasticity");
    for (uint32_t i = 0; i < SCALED_RESOURCE_COUNT; i++) {
        const struct sensitivity_item *item = &sensitivity->items[i];
        if (!item->present) {
            continue;
        }
        text_table_cell(&table, "%.3gx %s:", item->factor, scaled_resource_text(item->resource));
        if (item->doubled.ran) {
            double percent = 100 * item->change;
            bool none = fabs(percent) < 0.005;
            text_table_cell(&table, "%+.*f %%",
                            fabs(percent) >= 9.95 || none ? 0
                            : fabs(percent) >= 0.095      ? 1
                                                          : 2,
                            none ? 0.0 : percent);
            text_table_cell(&table, "%s%s", text_time_ps(item->doubled.step_ps, time, sizeof time),
                            item->doubled.fits ? "" : " (does not fit)");
        } else {
            text_table_cell(&table, "does not run");
            text_table_cell(&table, "%s", "");
        }
        if (item->has_elasticity) {
            text_table_cell(&table, "%+.3f", fabs(item->elasticity) < 0.0005 ? 0.0 : item->elasticity);
        } else {
            text_table_cell(&table, "%s", "");
        }
    }
    text_table_print(&table, 2, true, out);
    strbuf_append(out, "  elasticity: percent of step time for one percent more of the resource\n");
    for (uint32_t i = 0; i < SCALED_RESOURCE_COUNT; i++) {
        if (!sensitivity->items[i].present) {
            strbuf_printf(out, "  nothing to scale: %s\n", scaled_resource_text(sensitivity->items[i].resource));
        }
    }
    text_table_free(&table);
}
