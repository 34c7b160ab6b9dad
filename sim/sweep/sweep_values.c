/* Values of an axis: a list, a range, a range of equal factors. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "sim/base/check.h"
#include "sim/sweep/sweep.h"
#include "sim/sweep/sweep_load.h"
#include "sim/sweep/sweep_scenario.h"

static enum status make(struct arena *arena, double count, const struct json *at, struct expression_value **values,
                        struct error *error)
{
    if (!(count <= SWEEP_VALUES_MAX)) {
        return json_error(at, error, "%.0f values: an axis has at most %d", count, SWEEP_VALUES_MAX);
    }
    *values = arena_array(arena, struct expression_value, (size_t)count);
    if (*values == NULL) {
        (void)error_set(error, STATUS_NO_MEMORY, "out of memory loading a sweep");
        return STATUS_NO_MEMORY;
    }
    return STATUS_OK;
}

static enum status read_list(const struct json *list, struct arena *arena, struct expression_value **values,
                             uint32_t *count, struct error *error)
{
    struct json item;
    size_t items = json_count(list);
    if (items == 0) {
        return json_error(list, error, "the axis is empty: it needs at least one value");
    }
    TRY(make(arena, (double)items, list, values, error));
    for (size_t i = 0; i < items; i++) {
        json_item(list, i, &item);
        TRY(sweep_value_from_json(&item, arena, &(*values)[i], error));
    }
    *count = (uint32_t)items;
    return STATUS_OK;
}

/* 0.3 for 0.1 + 2 x 0.1, which is 0.30000000000000004: the number that a person would write and ask for later. */
static double as_written(double value)
{
    char text[32];
    if (value == floor(value)) {
        return value;
    }
    snprintf(text, sizeof text, "%.15g", value);
    return strtod(text, NULL);
}

/* from, from + step, ... up to and including `to` (within a millionth of a step). */
static enum status read_range(const struct json *at, struct arena *arena, struct expression_value **values,
                              uint32_t *count, struct error *error)
{
    static const char *const keys[] = { "from", "to", "step" };
    double from, to, step;
    TRY(json_known_keys(at, keys, 3, error));
    TRY(json_real(at, "from", -1e300, 1e300, &from, error));
    TRY(json_real(at, "to", -1e300, 1e300, &to, error));
    TRY(json_real_or(at, "step", -1e300, 1e300, 1, &step, error));
    if (step == 0 || (to - from) / step < 0) {
        return json_error(at, error, "the range is empty: from %g to %g in steps of %g", from, to, step);
    }
    double items = floor((to - from) / step + 1e-6) + 1;
    TRY(make(arena, items, at, values, error));
    *count = (uint32_t)items;
    for (uint32_t i = 0; i < *count; i++) {
        (*values)[i] = (struct expression_value){ .kind = VALUE_NUMBER, .number = as_written(from + i * step) };
    }
    return STATUS_OK;
}

static enum status read_log_range(const struct json *at, struct arena *arena, struct expression_value **values,
                                  uint32_t *count, struct error *error)
{
    static const char *const keys[] = { "from", "to", "factor", "count", "whole" };
    double from, to, factor;
    int64_t wanted;
    bool whole;
    TRY(json_known_keys(at, keys, 5, error));
    TRY(json_real(at, "from", 1e-300, 1e300, &from, error));
    TRY(json_real(at, "to", 1e-300, 1e300, &to, error));
    TRY(json_real_or(at, "factor", 1e-300, 1e300, 0, &factor, error));
    TRY(json_int_or(at, "count", 1, INT64_C(1) << 52, 0, &wanted, error));
    TRY(json_bool_or(at, "whole", false, &whole, error));
    if ((factor != 0) == (wanted != 0)) {
        return json_error(at, error, "a log_range needs either \"factor\" or \"count\"");
    }
    if (factor == 1 || (factor != 0 && log(to / from) / log(factor) < 0) || (wanted == 1 && from != to)) {
        return json_error(at, error, "the range is empty: from %g to %g", from, to);
    }
    double items = factor != 0 ? floor(log(to / from) / log(factor) + 1e-9) + 1 : (double)wanted;
    TRY(make(arena, items, at, values, error));
    double value = from;
    for (uint32_t i = 0; i < (uint32_t)items; i++) {
        if (factor == 0) {
            value = i == 0 ? from : i + 1 == (uint32_t)items ? to : from * pow(to / from, i / (items - 1));
        }
        double taken = whole ? round(value) : as_written(value);
        if (*count == 0 || (*values)[*count - 1].number != taken) {
            (*values)[(*count)++] = (struct expression_value){ .kind = VALUE_NUMBER, .number = taken };
        }
        value *= factor != 0 ? factor : 1;
    }
    return STATUS_OK;
}

enum status sweep_axis_values(const struct json *axis, struct arena *arena, struct expression_value **values,
                              uint32_t *count, struct error *error)
{
    struct json list, range, log_range;
    *count = 0;
    TRY(json_array_optional(axis, "values", &list, error));
    TRY(json_object_optional(axis, "range", &range, error));
    TRY(json_object_optional(axis, "log_range", &log_range, error));
    if ((list.node != NULL) + (range.node != NULL) + (log_range.node != NULL) != 1) {
        return json_error(axis, error, "an axis needs one of \"values\", \"range\", \"log_range\", \"expression\"");
    }
    if (list.node != NULL) {
        return read_list(&list, arena, values, count, error);
    }
    return range.node != NULL ? read_range(&range, arena, values, count, error)
                              : read_log_range(&log_range, arena, values, count, error);
}
