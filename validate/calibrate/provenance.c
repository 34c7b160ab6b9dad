#include "validate/calibrate/provenance.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hw_models/machine.h"
#include "sim/base/array.h"
#include "sim/base/check.h"

/* -- the lists -- */

static bool covers(const char *outer, const char *field)
{
    size_t length = strlen(outer);
    return strncmp(field, outer, length) == 0 && (field[length] == '\0' || field[length] == '.');
}

static void drop_source(struct provenance *all, size_t index)
{
    struct provenance_source *entry = &all->sources.items[index];
    free(entry->field);
    free(entry->source);
    memmove(entry, entry + 1, (all->sources.count - index - 1) * sizeof *entry);
    all->sources.count--;
}

static void drop_standard_error(struct provenance *all, size_t index)
{
    struct provenance_error *entry = &all->standard_errors.items[index];
    free(entry->field);
    memmove(entry, entry + 1, (all->standard_errors.count - index - 1) * sizeof *entry);
    all->standard_errors.count--;
}

static void drop_residual(struct provenance *all, size_t index)
{
    struct provenance_residual *entry = &all->residuals.items[index];
    free(entry->what);
    free(entry->source);
    memmove(entry, entry + 1, (all->residuals.count - index - 1) * sizeof *entry);
    all->residuals.count--;
}

enum status provenance_source(struct provenance *all, const char *field, const char *source, bool estimated,
                              bool inside)
{
    for (size_t i = all->sources.count; i-- > 0;) {
        const char *old = all->sources.items[i].field;
        if (inside ? covers(field, old) : strcmp(field, old) == 0) {
            drop_source(all, i);
        }
    }
    if (source == NULL || source[0] == '\0') {
        return STATUS_OK;
    }
    TRY(array_reserve(&all->sources, 1, NULL));
    struct provenance_source entry = { strdup(field), strdup(source), estimated };
    if (entry.field == NULL || entry.source == NULL) {
        free(entry.field);
        free(entry.source);
        return STATUS_NO_MEMORY;
    }
    all->sources.items[all->sources.count++] = entry;
    return STATUS_OK;
}

enum status provenance_standard_error(struct provenance *all, const char *field, double value, bool inside)
{
    for (size_t i = all->standard_errors.count; i-- > 0;) {
        const char *old = all->standard_errors.items[i].field;
        if (inside ? covers(field, old) : strcmp(field, old) == 0) {
            drop_standard_error(all, i);
        }
    }
    if (!(value > 0.0)) {
        return STATUS_OK;
    }
    TRY(array_reserve(&all->standard_errors, 1, NULL));
    struct provenance_error entry = { strdup(field), value };
    if (entry.field == NULL) {
        return STATUS_NO_MEMORY;
    }
    all->standard_errors.items[all->standard_errors.count++] = entry;
    return STATUS_OK;
}

enum status provenance_residual(struct provenance *all, const char *what, const char *source,
                                const struct provenance_residual *line)
{
    for (size_t i = all->residuals.count; i-- > 0 && !line->inherited;) {
        const struct provenance_residual *old = &all->residuals.items[i];
        if (strcmp(old->what, what) == 0 && (old->inherited || strcmp(old->source, source) == 0)) {
            drop_residual(all, i);
        }
    }
    TRY(array_reserve(&all->residuals, 1, NULL));
    struct provenance_residual entry = *line;
    entry.what = strdup(what);
    entry.source = strdup(source);
    if (entry.what == NULL || entry.source == NULL) {
        free(entry.what);
        free(entry.source);
        return STATUS_NO_MEMORY;
    }
    all->residuals.items[all->residuals.count++] = entry;
    return STATUS_OK;
}

void provenance_free(struct provenance *all)
{
    while (all->sources.count > 0) {
        drop_source(all, all->sources.count - 1);
    }
    while (all->standard_errors.count > 0) {
        drop_standard_error(all, all->standard_errors.count - 1);
    }
    while (all->residuals.count > 0) {
        drop_residual(all, all->residuals.count - 1);
    }
    array_free(&all->sources);
    array_free(&all->standard_errors);
    array_free(&all->residuals);
}

/* -- from a file -- */

static enum status no_memory(enum status status, struct error *error)
{
    return status == STATUS_OK ? status : error_set(error, status, "out of memory reading a machine's provenance");
}

static enum status read_sources(struct provenance *all, const struct json *root, struct error *error)
{
    struct json list, at, fields, item;
    const char *source, *field;
    TRY(json_array_optional(root, "provenance", &list, error));
    for (size_t i = 0; list.node != NULL && i < json_count(&list); i++) {
        bool estimated;
        json_item(&list, i, &at);
        TRY(json_string(&at, "source", &source, error));
        TRY(json_bool_or(&at, "estimated", false, &estimated, error));
        TRY(json_array(&at, "fields", &fields, error));
        for (size_t k = 0; k < json_count(&fields); k++) {
            json_item(&fields, k, &item);
            TRY(json_as_string(&item, &field, error));
            TRY(no_memory(provenance_source(all, field, source, estimated, false), error));
        }
    }
    return STATUS_OK;
}

static enum status read_residuals(struct provenance *all, const struct json *root, struct error *error)
{
    struct json list, at;
    const char *source, *what;
    TRY(json_array_optional(root, "residuals", &list, error));
    for (size_t i = 0; list.node != NULL && i < json_count(&list); i++) {
        struct provenance_residual line = { .inherited = true };
        int64_t points, left_out;
        json_item(&list, i, &at);
        TRY(json_string(&at, "what", &what, error));
        TRY(json_string(&at, "source", &source, error));
        TRY(json_int(&at, "points", 0, UINT32_MAX, &points, error));
        TRY(json_int_or(&at, "left_out", 0, UINT32_MAX, 0, &left_out, error));
        TRY(json_real(&at, "mean_error", 0.0, HUGE_VAL, &line.mean_error, error));
        TRY(json_real(&at, "worst_error", 0.0, HUGE_VAL, &line.worst_error, error));
        TRY(json_real_or(&at, "left_out_mean_error", 0.0, HUGE_VAL, NAN, &line.left_out_mean_error, error));
        line.points = (uint32_t)points;
        line.left_out = (uint32_t)left_out;
        TRY(no_memory(provenance_residual(all, what, source, &line), error));
    }
    return STATUS_OK;
}

enum status provenance_read(struct provenance *all, const struct json *root, struct error *error)
{
    struct json list, item;
    const char *field;
    TRY(read_sources(all, root, error));
    TRY(json_object_optional(root, "standard_errors", &list, error));
    for (size_t i = 0; list.node != NULL && i < json_count(&list); i++) {
        double value;
        json_member(&list, i, &field, &item);
        TRY(json_as_real(&item, 0.0, HUGE_VAL, &value, error));
        TRY(no_memory(provenance_standard_error(all, field, value, false), error));
    }
    return read_residuals(all, root, error);
}

/* -- into a file -- */

static void print_standard_errors(const struct provenance *all, struct json_writer *w)
{
    char text[40];
    if (all->standard_errors.count == 0) {
        return;
    }
    jw_object(w, "standard_errors");
    for (size_t i = 0; i < all->standard_errors.count; i++) {
        const struct provenance_error *entry = &all->standard_errors.items[i];
        (void)snprintf(text, sizeof text, "%.3g", entry->value);
        jw_real(w, entry->field, strtod(text, NULL));
    }
    jw_end(w);
}

/* A relative error to the digits that a file keeps; NAN stays. */
static double four_digits(double value)
{
    char text[40];
    if (isnan(value)) {
        return value;
    }
    (void)snprintf(text, sizeof text, "%.4g", value);
    return strtod(text, NULL);
}

static void print_residuals(const struct provenance *all, struct json_writer *w)
{
    if (all->residuals.count == 0) {
        return;
    }
    jw_array(w, "residuals");
    for (size_t i = 0; i < all->residuals.count; i++) {
        const struct provenance_residual *line = &all->residuals.items[i];
        const struct machine_residual residual = { .what = line->what,
                                                   .source = line->source,
                                                   .points = line->points,
                                                   .left_out = line->left_out,
                                                   .mean_error = four_digits(line->mean_error),
                                                   .worst_error = four_digits(line->worst_error),
                                                   .left_out_mean_error = four_digits(line->left_out_mean_error) };
        machine_residual_print(&residual, w);
    }
    jw_end(w);
}

static bool same_origin(const struct provenance_source *a, const struct provenance_source *b)
{
    return a->estimated == b->estimated && strcmp(a->source, b->source) == 0;
}

/* One entry for each source, in the order of their first fields. */
static void print_sources(const struct provenance *all, struct json_writer *w)
{
    const struct provenance_source *items = all->sources.items;
    if (all->sources.count == 0) {
        return;
    }
    jw_array(w, "provenance");
    for (size_t i = 0; i < all->sources.count; i++) {
        bool seen = false;
        for (size_t k = 0; k < i && !seen; k++) {
            seen = same_origin(&items[k], &items[i]);
        }
        if (seen) {
            continue;
        }
        jw_object(w, NULL);
        jw_string(w, "source", items[i].source);
        if (items[i].estimated) {
            jw_bool(w, "estimated", true);
        }
        jw_array(w, "fields");
        for (size_t k = i; k < all->sources.count; k++) {
            if (same_origin(&items[k], &items[i])) {
                jw_string(w, NULL, items[k].field);
            }
        }
        jw_end(w);
        jw_end(w);
    }
    jw_end(w);
}

void provenance_print(const struct provenance *all, struct json_writer *w)
{
    print_standard_errors(all, w);
    print_residuals(all, w);
    print_sources(all, w);
}
