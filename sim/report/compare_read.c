/* A result document, as far as it is compared. */
#include <math.h>
#include <string.h>

#include "sim/base/check.h"
#include "sim/base/schema.h"
#include "sim/report/compare.h"

/* Beyond anything a step can be; keeps sums and ratios finite. */
#define FIGURE_MAX 1e30
/* What unlimited memory reads as: 2^64 - 1 as a double. */
#define UNLIMITED_BYTES 1.8e19

enum { GPUS_MAX = 1 << 30 };

static const char *const RATE_KEYS[] = {
#define X(name, key, unit, text) key,
    RATE_TABLE(X)
#undef X
};

static enum status read_head(struct compare_side *side, const struct json *root, struct error *error)
{
    int64_t gpus;
    TRY(schema_check(root, "memwall.result/1", true, error));
    TRY(json_string_or(root, "name", "", &side->name, error));
    TRY(json_string_or(root, "machine", NULL, &side->machine, error));
    TRY(json_string_or(root, "plan", NULL, &side->plan, error));
    TRY(json_string_or(root, "executor", "sim", &side->executor, error));
    TRY(json_string_or(root, "schedule_hash", "", &side->schedule_hash, error));
    TRY(json_bool(root, "fits", &side->fits, error));
    TRY(json_string_or(root, "reason", NULL, &side->reason, error));
    TRY(json_int_or(root, "gpus", 1, GPUS_MAX, 1, &gpus, error));
    side->gpus = (double)gpus;
    return STATUS_OK;
}

/* A rate of 0 is one that could not be told. */
static enum status read_rates(struct compare_side *side, const struct json *root, struct error *error)
{
    struct json at;
    for (uint32_t i = 0; i < RATE_COUNT; i++) {
        if (i == RATE_STEP_TIME) {
            TRY(json_any(root, RATE_KEYS[i], &at, error)); /* null where a policy refused, but there */
        }
        TRY(json_real_or(root, RATE_KEYS[i], 0, FIGURE_MAX, 0, &side->rates[i], error));
        side->rates[i] = side->rates[i] > 0 ? side->rates[i] : NAN;
    }
    side->complete = side->rates[RATE_STEP_TIME] > 0;
    return STATUS_OK;
}

static double fullness(const struct compared_space *space)
{
    return space->capacity_bytes > 0 ? space->peak_bytes / space->capacity_bytes : 0;
}

static enum status read_space(struct compare_side *side, const struct json *at, struct error *error)
{
    static const char *const kinds[] = {
#define X(name, word) word,
        SPACE_KIND_TABLE(X)
#undef X
    };
    size_t kind;
    struct json classes;
    struct compared_space space = { .present = true };
    TRY(json_word(at, "space", kinds, SPACE_KIND_COUNT, &kind, error));
    TRY(json_string_or(at, "name", "", &space.name, error));
    TRY(json_real(at, "capacity_bytes", 0, FIGURE_MAX, &space.capacity_bytes, error));
    TRY(json_real(at, "peak_bytes", 0, FIGURE_MAX, &space.peak_bytes, error));
    TRY(json_real_or(at, "peak_reserved_bytes", 0, FIGURE_MAX, 0, &space.peak_reserved_bytes, error));
    space.capacity_bytes = space.capacity_bytes < UNLIMITED_BYTES ? space.capacity_bytes : NAN;
    TRY(json_object_optional(at, "at_peak", &classes, error));
    for (uint32_t c = 0; c < BUFFER_CLASS_COUNT; c++) {
        TRY(json_real_or(&classes, buffer_class_word((enum buffer_class)c), 0, FIGURE_MAX, 0, &space.by_class[c],
                         error));
    }
    struct compared_space *known = &side->spaces[kind];
    double share = fullness(&space), best = fullness(known);
    if (!known->present || share > best || (!(share < best) && space.peak_bytes > known->peak_bytes)) {
        *known = space;
    }
    return STATUS_OK;
}

static enum status read_times(struct compare_side *side, const struct json *list, struct error *error)
{
    struct json at, exposed;
    size_t count = json_count(list);
    for (size_t i = 0; i < count; i++) {
        json_item(list, i, &at);
        TRY(json_object(&at, "exposed", &exposed, error));
        for (uint32_t c = 0; c < TIME_CLASS_COUNT; c++) {
            const char *word = time_class_word((enum time_class)c);
            double busy_s, exposed_s;
            TRY(json_real_or(&at, word, 0, FIGURE_MAX, 0, &busy_s, error));
            TRY(json_real_or(&exposed, word, 0, FIGURE_MAX, 0, &exposed_s, error));
            side->exposed_s[c] += exposed_s / (double)count;
            side->hidden_s[c] += busy_s > exposed_s ? (busy_s - exposed_s) / (double)count : 0;
        }
    }
    return STATUS_OK;
}

/* Kinds that are not known, and results that do not say, are other links. */
static uint32_t links_kind(const char *word)
{
    for (uint32_t k = 0; k < LINK_KIND_COUNT; k++) {
        if (strcmp(word, machine_link_word((enum machine_link_kind)k)) == 0) {
            return k;
        }
    }
    return strcmp(word, "dram") == 0 ? LINKS_DRAM : strcmp(word, "storage") == 0 ? LINKS_STORAGE : LINKS_OTHER;
}

static enum status read_traffic(struct compare_side *side, const struct json *list, struct error *error)
{
    struct json at;
    for (size_t i = 0; i < json_count(list); i++) {
        const char *word;
        double bytes, use;
        json_item(list, i, &at);
        TRY(json_string_or(&at, "kind", "other", &word, error));
        TRY(json_real(&at, "bytes", 0, FIGURE_MAX, &bytes, error));
        TRY(json_real_or(&at, "mean_use_fraction", 0, FIGURE_MAX, 0, &use, error));
        uint32_t kind = links_kind(word);
        side->traffic_bytes[kind] += bytes;
        side->link_use[kind] = fmax(side->link_use[kind], use);
    }
    return STATUS_OK;
}

static enum status read_bounds(struct compare_side *side, const struct json *list, struct error *error)
{
    struct json at;
    for (size_t i = 0; i < json_count(list) && i < COMPARED_BOUNDS; i++) {
        json_item(list, i, &at);
        TRY(json_string(&at, "what", &side->bounds[i].what, error));
        TRY(json_real(&at, "share", 0, FIGURE_MAX, &side->bounds[i].share, error));
        side->bound_count++;
    }
    return STATUS_OK;
}

enum status compare_read(struct compare_side *side, const struct json *result, struct error *error)
{
    struct json list, at;
    *side = (struct compare_side){ 0 };
    TRY(read_head(side, result, error));
    TRY(read_rates(side, result, error));
    TRY(json_array(result, "devices", &list, error));
    for (size_t i = 0; i < json_count(&list); i++) {
        json_item(&list, i, &at);
        TRY(read_space(side, &at, error));
    }
    TRY(json_array_optional(result, "time_breakdown", &list, error));
    if (list.node != NULL) {
        TRY(read_times(side, &list, error));
    }
    TRY(json_array_optional(result, "traffic", &list, error));
    if (list.node != NULL) {
        TRY(read_traffic(side, &list, error));
    }
    TRY(json_array_optional(result, "bounds", &list, error));
    return list.node != NULL ? read_bounds(side, &list, error) : STATUS_OK;
}
