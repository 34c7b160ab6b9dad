#include "sim/report/html/step_result.h"

#include <math.h>
#include <string.h>

#include "sim/base/check.h"
#include "sim/base/schema.h"

/* Beyond anything a step can be; keeps sums and ratios finite. */
#define FIGURE_MAX 1e30
/* What unlimited memory reads as: 2^64 - 1 as a double. */
#define UNLIMITED_BYTES 1.8e19

enum { LINKS_KEPT = 200 };

/* A number that may be absent or null: NAN then. */
static enum status read_figure(const struct json *object, const char *key, double *value, struct error *error)
{
    TRY(json_real_or(object, key, -FIGURE_MAX, FIGURE_MAX, FIGURE_MAX, value, error));
    *value = *value < FIGURE_MAX ? *value : NAN;
    return STATUS_OK;
}

typedef enum status read_item(void *item, const struct json *at, struct step_result *result, struct error *error);

/* A list that may be absent, its items of `bytes` each. */
static enum status read_list(struct step_result *result, const struct json *object, const char *key, size_t bytes,
                             read_item *read, void **items, uint32_t *count, struct error *error)
{
    struct json list, at;
    TRY(json_array_optional(object, key, &list, error));
    size_t found = list.node != NULL ? json_count(&list) : 0;
    char *made = arena_alloc(&result->arena, found, bytes);
    if (found > 0 && made == NULL) {
        return error_set(error, STATUS_NO_MEMORY, "out of memory for the result");
    }
    for (size_t i = 0; i < found; i++) {
        json_item(&list, i, &at);
        if (json_type(&at) != JSON_OBJECT) {
            return json_error(&at, error, "expected an object, found %s", json_type_word(json_type(&at)));
        }
        TRY(read(made + i * bytes, &at, result, error));
    }
    *items = made;
    *count = (uint32_t)found;
    return STATUS_OK;
}

static enum status read_classes(const struct json *at, double *values, struct error *error)
{
    for (uint32_t c = 0; c < TIME_CLASS_COUNT; c++) {
        TRY(json_real_or(at, time_class_word((enum time_class)c), 0, FIGURE_MAX, 0, &values[c], error));
    }
    return STATUS_OK;
}

static enum status read_space(void *item, const struct json *at, struct step_result *result, struct error *error)
{
    struct step_space *space = item;
    struct json classes;
    (void)result;
    TRY(json_string(at, "name", &space->name, error));
    TRY(json_string(at, "space", &space->kind, error));
    TRY(json_string_or(at, "peak_op", NULL, &space->peak_op, error));
    TRY(json_real_or(at, "equal_devices", 1, FIGURE_MAX, 1, &space->equal_devices, error));
    TRY(json_real(at, "capacity_bytes", 0, FIGURE_MAX, &space->capacity, error));
    TRY(json_real(at, "peak_bytes", 0, FIGURE_MAX, &space->peak, error));
    TRY(json_real_or(at, "peak_reserved_bytes", 0, FIGURE_MAX, 0, &space->reserved, error));
    TRY(json_real_or(at, "peak_time_s", 0, FIGURE_MAX, 0, &space->peak_time_s, error));
    space->capacity = space->capacity < UNLIMITED_BYTES ? space->capacity : NAN;
    TRY(json_object_optional(at, "at_peak", &classes, error));
    for (uint32_t c = 0; c < BUFFER_CLASS_COUNT; c++) {
        TRY(json_real_or(&classes, buffer_class_word((enum buffer_class)c), 0, FIGURE_MAX, 0, &space->at_peak[c],
                         error));
    }
    return STATUS_OK;
}

static enum status read_stage(void *item, const struct json *at, struct step_result *result, struct error *error)
{
    struct step_stage *stage = item;
    struct json exposed;
    (void)result;
    TRY(json_string(at, "rank", &stage->rank, error));
    TRY(json_object(at, "exposed", &exposed, error));
    TRY(read_classes(&exposed, stage->exposed_s, error));
    return read_classes(at, stage->busy_s, error);
}

static enum status read_link(void *item, const struct json *at, struct step_result *result, struct error *error)
{
    struct step_link *link = item;
    struct json classes;
    (void)result;
    TRY(json_string(at, "link", &link->name, error));
    TRY(json_string_or(at, "kind", "", &link->kind, error));
    TRY(json_real(at, "bytes", 0, FIGURE_MAX, &link->bytes, error));
    TRY(json_real_or(at, "busy_fraction", 0, FIGURE_MAX, 0, &link->busy_fraction, error));
    TRY(json_real_or(at, "mean_use_fraction", 0, FIGURE_MAX, 0, &link->use_fraction, error));
    TRY(json_real_or(at, "capacity_bytes_per_s", 0, FIGURE_MAX, 0, &link->bytes_per_s, error));
    TRY(json_object_optional(at, "by_class", &classes, error));
    link->alike = 1;
    return read_classes(&classes, link->class_bytes, error);
}

static enum status read_bound(void *item, const struct json *at, struct step_result *result, struct error *error)
{
    struct step_bound *bound = item;
    (void)result;
    TRY(json_string(at, "what", &bound->what, error));
    TRY(json_real(at, "share", 0, FIGURE_MAX, &bound->share, error));
    return json_string_or(at, "advice", "", &bound->advice, error);
}

static enum status read_sensitivity(void *item, const struct json *at, struct step_result *result, struct error *error)
{
    struct step_sensitivity *s = item;
    (void)result;
    TRY(json_string(at, "resource", &s->resource, error));
    TRY(json_bool_or(at, "present", true, &s->present, error));
    TRY(json_bool_or(at, "fits", true, &s->fits, error));
    TRY(json_string_or(at, "reason", NULL, &s->reason, error));
    TRY(json_real_or(at, "factor", 0, FIGURE_MAX, 2, &s->factor, error));
    TRY(read_figure(at, "step_time_s", &s->step_time_s, error));
    TRY(read_figure(at, "change", &s->change, error));
    return read_figure(at, "elasticity", &s->elasticity, error);
}

static enum status read_pressure(void *item, const struct json *at, struct step_result *result, struct error *error)
{
    struct step_pressure *p = item;
    (void)result;
    TRY(json_string(at, "name", &p->name, error));
    TRY(json_string_or(at, "largest_class", "", &p->largest_class, error));
    TRY(json_real_or(at, "next_10_percent_batch_bytes", 0, FIGURE_MAX, 0, &p->next_bytes, error));
    TRY(json_bool_or(at, "next_10_percent_batch_fits", true, &p->next_fits, error));
    return read_figure(at, "batch_factor_that_fills", &p->batch_factor, error);
}

/* {"cause": ..., "time_s", "share"}: the first member says what it is of. */
static enum status read_share(void *item, const struct json *at, struct step_result *result, struct error *error)
{
    static const char *const keys[] = { "cause", "link", "rank", "op" };
    struct step_share *share = item;
    (void)result;
    for (size_t i = 0; i < sizeof keys / sizeof keys[0] && share->what == NULL; i++) {
        TRY(json_string_or(at, keys[i], NULL, &share->what, error));
    }
    if (share->what == NULL) {
        return json_error(at, error, "expected a cause, link, rank or op");
    }
    TRY(json_real(at, "time_s", 0, FIGURE_MAX, &share->time_s, error));
    return json_real(at, "share", 0, FIGURE_MAX, &share->share, error);
}

static enum status read_path(struct step_result *r, const struct json *root, struct error *error)
{
    static const char *const keys[] = { "causes", "began_by", "stages", "top_ops" };
    struct step_shares *lists[] = { &r->causes, &r->began_by, &r->path_stages, &r->top_ops };
    struct json path;
    TRY(json_object_optional(root, "critical_path", &path, error));
    for (size_t i = 0; i < 4 && path.node != NULL; i++) {
        void *items = NULL;
        TRY(read_list(r, &path, keys[i], sizeof(struct step_share), read_share, &items, &lists[i]->count, error));
        lists[i]->items = items;
    }
    return STATUS_OK;
}

/* --- the document */

static enum status read_head(struct step_result *r, const struct json *root, struct error *error)
{
    TRY(schema_check(root, "memwall.result/1", true, error));
    TRY(json_string_or(root, "name", "", &r->name, error));
    TRY(json_string_or(root, "executor", "sim", &r->executor, error));
    TRY(json_string_or(root, "machine", "", &r->machine, error));
    TRY(json_string_or(root, "plan", "", &r->plan, error));
    TRY(json_string_or(root, "schedule_hash", "", &r->schedule_hash, error));
    TRY(json_bool_or(root, "emulated", false, &r->emulated, error));
    TRY(json_bool(root, "fits", &r->fits, error));
    return json_string_or(root, "reason", NULL, &r->reason, error);
}

static enum status read_figures(struct step_result *r, const struct json *root, struct error *error)
{
    struct json measured, at;
    TRY(json_any(root, "step_time_s", &at, error)); /* null where a policy refused, but there */
    TRY(json_real_or(root, "step_time_s", 0, FIGURE_MAX, 0, &r->step_time_s, error));
    r->step_time_s = r->step_time_s > 0 ? r->step_time_s : NAN;
    TRY(read_figure(root, "samples_per_s", &r->samples_per_s, error));
    TRY(read_figure(root, "tokens_per_s", &r->tokens_per_s, error));
    TRY(read_figure(root, "tokens_per_s_per_gpu", &r->tokens_per_s_per_gpu, error));
    TRY(read_figure(root, "model_tflops_per_gpu", &r->model_tflops, error));
    TRY(read_figure(root, "hardware_tflops_per_gpu", &r->hardware_tflops, error));
    TRY(read_figure(root, "mfu", &r->mfu, error));
    TRY(read_figure(root, "hfu", &r->hfu, error));
    TRY(json_real_or(root, "gpus", 1, FIGURE_MAX, 1, &r->gpus, error));
    TRY(json_real_or(root, "ops", 0, FIGURE_MAX, 0, &r->ops, error));
    TRY(json_object_optional(root, "measured_step_s", &measured, error));
    TRY(read_figure(&measured, "min", &r->measured_min_s, error));
    TRY(read_figure(&measured, "max", &r->measured_max_s, error));
    return read_figure(&measured, "steps", &r->measured_steps, error);
}

/* Of links of a kind that move as many bytes, within a thousandth, the first stays and counts the others; beyond LINKS_KEPT different ones (they come by bytes, falling) none stays. */
static void fold_links(struct step_result *r)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < r->link_count; i++) {
        const struct step_link *link = &r->links[i];
        uint32_t k = 0;
        while (k < kept && !(strcmp(r->links[k].kind, link->kind) == 0 &&
                             fabs(r->links[k].bytes - link->bytes) <= 1e-3 * r->links[k].bytes)) {
            k++;
        }
        if (k < kept) {
            r->links[k].alike++;
        } else if (kept == LINKS_KEPT) {
            r->link_others++;
        } else {
            r->links[kept++] = *link;
        }
    }
    r->link_count = kept;
}

static enum status read_lists(struct step_result *r, const struct json *root, struct error *error)
{
    const struct {
        const char *key;
        size_t bytes;
        read_item *read;
        void **items;
        uint32_t *count;
    } lists[] = {
        { "devices", sizeof(struct step_space), read_space, (void **)&r->spaces, &r->space_count },
        { "time_breakdown", sizeof(struct step_stage), read_stage, (void **)&r->stages, &r->stage_count },
        { "traffic", sizeof(struct step_link), read_link, (void **)&r->links, &r->link_count },
        { "bounds", sizeof(struct step_bound), read_bound, (void **)&r->bounds, &r->bound_count },
        { "sensitivity", sizeof(struct step_sensitivity), read_sensitivity, (void **)&r->sensitivities,
          &r->sensitivity_count },
        { "memory_pressure", sizeof(struct step_pressure), read_pressure, (void **)&r->pressures, &r->pressure_count },
    };
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
        TRY(read_list(r, root, lists[i].key, lists[i].bytes, lists[i].read, lists[i].items, lists[i].count, error));
    }
    fold_links(r);
    return STATUS_OK;
}

enum status step_result_read(struct step_result *result, const struct json *root, struct error *error)
{
    enum status status;
    *result = (struct step_result){ 0 };
    TRY_OR_FAIL(read_head(result, root, error));
    TRY_OR_FAIL(read_figures(result, root, error));
    TRY_OR_FAIL(read_lists(result, root, error));
    TRY_OR_FAIL(read_path(result, root, error));
    TRY_OR_FAIL(step_facts_read(&result->money, root, "money", &result->arena, error));
    TRY_OR_FAIL(step_facts_read(&result->failures, root, "failures", &result->arena, error));
    TRY_OR_FAIL(step_facts_read(&result->uncertainty, root, "uncertainty", &result->arena, error));
    return STATUS_OK;
fail:
    step_result_free(result);
    return status;
}

void step_result_free(struct step_result *result)
{
    arena_free(&result->arena);
    *result = (struct step_result){ 0 };
}

const struct step_space *step_result_fullest(const struct step_result *result, const char *kind)
{
    const struct step_space *fullest = NULL;
    double most = -1;
    for (uint32_t i = 0; i < result->space_count; i++) {
        const struct step_space *space = &result->spaces[i];
        double share = space->capacity > 0 ? space->peak / space->capacity : 0;
        if ((kind == NULL || strcmp(kind, space->kind) == 0) && space->peak > 0 &&
            (share > most || (!(share < most) && fullest != NULL && space->peak > fullest->peak))) {
            fullest = space;
            most = share;
        }
    }
    return fullest;
}
