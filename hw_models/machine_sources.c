/* Where a machine's numbers come from and how sure they are: provenance, standard errors, residuals. */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hw_models/machine_read.h"
#include "sim/base/check.h"

enum { RESIDUALS_MAX = 1024, STANDARD_ERRORS_MAX = 4096, PATH_BYTES = 256, KEY_BYTES = 128 };

/* An array of the arena that grows by doubling: room for one more. Its capacity is the next power of two, so it is full at each power. NULL: memory is out. */
static void *grown(struct machine *machine, void *items, uint32_t count, size_t item_bytes)
{
    if ((count & (count - 1)) != 0) {
        return items;
    }
    void *larger = arena_alloc(&machine->arena, count == 0 ? 1 : 2 * (size_t)count, item_bytes);
    if (larger != NULL && count > 0) {
        memcpy(larger, items, count * item_bytes);
    }
    return larger;
}

/* -- provenance -- */

enum status machine_add_source(struct machine *machine, const char *field, const char *source, bool estimated,
                               struct error *error)
{
    struct machine_source *items = grown(machine, machine->sources, machine->source_count, sizeof *items);
    if (items == NULL) {
        return machine_out_of_memory(error);
    }
    machine->sources = items;
    struct machine_source *entry = &items[machine->source_count];
    TRY(machine_text(machine, field, &entry->field, error));
    TRY(machine_text(machine, source, &entry->source, error));
    entry->estimated = estimated;
    machine->source_count++;
    return STATUS_OK;
}

static bool covers(const char *outer, const char *field)
{
    size_t length = strlen(outer);
    return strncmp(field, outer, length) == 0 && (field[length] == '\0' || field[length] == '.');
}

const struct machine_source *machine_source_of(const struct machine *machine, const char *field)
{
    const struct machine_source *best = NULL;
    size_t best_length = 0;
    for (uint32_t i = 0; i < machine->source_count; i++) {
        const struct machine_source *entry = &machine->sources[i];
        size_t length = strlen(entry->field);
        if (covers(entry->field, field) && (best == NULL || length >= best_length)) {
            best = entry;
            best_length = length;
        }
    }
    return best;
}

/* "provenance": [{"source": "...", "fields": ["gpu.clock_MHz", ...], "estimated": true}, ...] */
static enum status read_provenance(struct machine *machine, const struct json *root, struct error *error)
{
    static const char *const KEYS[] = { "source", "fields", "estimated" };
    struct json array;
    TRY(json_array_optional(root, "provenance", &array, error));
    for (size_t i = 0; array.node != NULL && i < json_count(&array); i++) {
        struct json at, fields;
        const char *source;
        bool estimated;
        json_item(&array, i, &at);
        TRY(json_known_keys(&at, KEYS, sizeof KEYS / sizeof KEYS[0], error));
        TRY(json_string(&at, "source", &source, error));
        TRY(json_bool_or(&at, "estimated", false, &estimated, error));
        TRY(json_array(&at, "fields", &fields, error));
        for (size_t k = 0; k < json_count(&fields); k++) {
            struct json item;
            const char *field;
            json_item(&fields, k, &item);
            TRY(json_as_string(&item, &field, error));
            TRY(machine_add_source(machine, field, source, estimated, error));
        }
    }
    return STATUS_OK;
}

/* -- standard errors -- */

double machine_standard_error_of(const struct machine *machine, const char *field)
{
    for (uint32_t i = 0; i < machine->standard_error_count; i++) {
        if (strcmp(machine->standard_errors[i].field, field) == 0) {
            return machine->standard_errors[i].value;
        }
    }
    return 0.0;
}

/* Whether a dotted path names a number in this value: keys of objects; of arrays an index, or the "kind" of an item that has such a number. */
static bool names_number(const struct json *at, const char *path)
{
    char key[KEY_BYTES];
    size_t length = strcspn(path, ".");
    if (path[0] == '\0') {
        return json_type(at) == JSON_NUMBER;
    }
    if (length == 0 || length >= sizeof key || (path[length] == '.' && path[length + 1] == '\0')) {
        return false;
    }
    memcpy(key, path, length);
    key[length] = '\0';
    const char *rest = path + length + (path[length] == '.');
    struct json child;
    if (json_type(at) == JSON_OBJECT) {
        return json_any_optional(at, key, &child, NULL) == STATUS_OK && child.node != NULL &&
               names_number(&child, rest);
    }
    bool is_index = strspn(key, "0123456789") == length && length < 7;
    for (size_t i = 0; json_type(at) == JSON_ARRAY && i < json_count(at); i++) {
        const char *kind;
        json_item(at, i, &child);
        bool meant = is_index
                         ? i == strtoul(key, NULL, 10)
                         : json_type(&child) == JSON_OBJECT &&
                               json_string_or(&child, "kind", "", &kind, NULL) == STATUS_OK && strcmp(kind, key) == 0;
        if (meant && names_number(&child, rest)) {
            return true;
        }
    }
    return false;
}

static enum status set_standard_error(struct machine *machine, const char *field, double value, struct error *error)
{
    for (uint32_t i = 0; i < machine->standard_error_count; i++) {
        if (strcmp(machine->standard_errors[i].field, field) == 0) {
            machine->standard_errors[i].value = value;
            return STATUS_OK;
        }
    }
    struct machine_standard_error *items =
        grown(machine, machine->standard_errors, machine->standard_error_count, sizeof *items);
    if (items == NULL) {
        return machine_out_of_memory(error);
    }
    machine->standard_errors = items;
    TRY(machine_text(machine, field, &items[machine->standard_error_count].field, error));
    items[machine->standard_error_count++].value = value;
    return STATUS_OK;
}

/* "standard_errors": {"gpu.hbm_GBps": 1.5, "links.pcie.GBps": 0.1, ...} */
static enum status read_standard_errors(struct machine *machine, const struct json *root, struct error *error)
{
    struct json object;
    TRY(json_object_optional(root, "standard_errors", &object, error));
    if (json_count(&object) > STANDARD_ERRORS_MAX) {
        return json_error(&object, error, "more than %d standard errors", STANDARD_ERRORS_MAX);
    }
    for (size_t i = 0; i < json_count(&object); i++) {
        const char *field;
        struct json child;
        double value;
        json_member(&object, i, &field, &child);
        if (strncmp(field, "_comment", 8) == 0) {
            continue;
        }
        if (strlen(field) >= PATH_BYTES || !names_number(root, field)) {
            return json_error(&child, error,
                              "this file gives no number at \"%.200s\"; a standard error stands by the path of its "
                              "field, like gpu.hbm_GBps or links.pcie.latency_us",
                              field);
        }
        TRY(json_as_real(&child, 0.0, DBL_MAX, &value, error));
        TRY(set_standard_error(machine, field, value, error));
    }
    return STATUS_OK;
}

/* Those of the changed field, and of all that lies in it. */
static void forget(struct machine *machine, const char *changed)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < machine->standard_error_count; i++) {
        if (!covers(changed, machine->standard_errors[i].field)) {
            machine->standard_errors[kept++] = machine->standard_errors[i];
        }
    }
    machine->standard_error_count = kept;
}

/* All leaves of an override, an array as a whole. */
static void forget_changed(struct machine *machine, const struct json *at, const char *path)
{
    for (size_t i = 0; i < json_count(at); i++) {
        const char *key;
        struct json child;
        char inner[PATH_BYTES];
        json_member(at, i, &key, &child);
        (void)snprintf(inner, sizeof inner, "%s%s%s", path, path[0] != '\0' ? "." : "", key);
        if (json_type(&child) == JSON_OBJECT) {
            forget_changed(machine, &child, inner);
        } else {
            forget(machine, inner);
        }
    }
}

void machine_forget_standard_errors(struct machine *machine, const struct json *root)
{
    /* what changes along with a key, by a short way or because it follows */
    static const struct {
        const char *section, *key, *changed;
    } ALONG[] = { { "", "gpu_memory_GiB", "gpu.memory_GiB" }, { "", "gpu_memory_GiB", "gpu.usable_MiB" },
                  { "", "dram_GiB", "parts.host_dram" },      { "", "nic_Gbps", "parts.nic" },
                  { "gpu", "memory_GiB", "gpu.usable_MiB" },  { "gpu", "hbm_peak_GBps", "gpu.hbm_GBps" } };
    if (machine->standard_error_count == 0 || json_type(root) != JSON_OBJECT) {
        return;
    }
    forget_changed(machine, root, "");
    for (size_t i = 0; i < sizeof ALONG / sizeof ALONG[0]; i++) {
        struct json section = *root;
        if (ALONG[i].section[0] != '\0' && json_any_optional(root, ALONG[i].section, &section, NULL) != STATUS_OK) {
            continue;
        }
        if (section.node != NULL && json_type(&section) == JSON_OBJECT && json_has(&section, ALONG[i].key)) {
            forget(machine, ALONG[i].changed);
        }
    }
}

/* -- residuals -- */

static enum status read_residual(struct machine *machine, const struct json *at, struct machine_residual *residual,
                                 struct error *error)
{
    static const char *const KEYS[] = {
        "what", "source", "points", "left_out", "mean_error", "worst_error", "left_out_mean_error"
    };
    int64_t points, left_out;
    TRY(json_known_keys(at, KEYS, sizeof KEYS / sizeof KEYS[0], error));
    TRY(json_string(at, "what", &residual->what, error));
    TRY(json_string(at, "source", &residual->source, error));
    if (residual->what[0] == '\0') {
        return json_error(at, error, "\"what\" is empty; it says what the points measure, like \"gemm fp16\"");
    }
    TRY(machine_text(machine, residual->what, &residual->what, error));
    TRY(machine_text(machine, residual->source, &residual->source, error));
    TRY(json_int(at, "points", 0, UINT32_MAX, &points, error));
    TRY(json_int_or(at, "left_out", 0, UINT32_MAX, 0, &left_out, error));
    residual->points = (uint32_t)points;
    residual->left_out = (uint32_t)left_out;
    TRY(json_real(at, "mean_error", 0.0, 1e6, &residual->mean_error, error));
    TRY(json_real(at, "worst_error", 0.0, 1e6, &residual->worst_error, error));
    TRY(json_real_or(at, "left_out_mean_error", 0.0, 1e6, NAN, &residual->left_out_mean_error, error));
    if (residual->worst_error < residual->mean_error) {
        return json_error(at, error, "worst_error (%g) is below mean_error (%g)", residual->worst_error,
                          residual->mean_error);
    }
    if (left_out == 0 && !isnan(residual->left_out_mean_error)) {
        return json_error(at, error, "left_out_mean_error is %g, but no points were left out",
                          residual->left_out_mean_error);
    }
    return STATUS_OK;
}

/* "residuals": [{"what": "gemm fp16", "source": "...", "points": 40, "left_out": 10, "mean_error": 0.02, "worst_error": 0.09, "left_out_mean_error": 0.03}, ...].
 * A change of a machine replaces lines of the same name. */
static enum status read_residuals(struct machine *machine, const struct json *root, struct error *error)
{
    struct json array, at;
    TRY(json_array_optional(root, "residuals", &array, error));
    if (json_count(&array) > RESIDUALS_MAX) {
        return json_error(&array, error, "more than %d residuals", RESIDUALS_MAX);
    }
    uint32_t inherited = machine->residual_count, kept = 0;
    for (uint32_t k = 0; k < inherited; k++) {
        bool replaced = false;
        for (size_t i = 0; i < json_count(&array) && !replaced; i++) {
            const char *what;
            json_item(&array, i, &at);
            replaced = json_type(&at) == JSON_OBJECT && json_string_or(&at, "what", "", &what, NULL) == STATUS_OK &&
                       strcmp(what, machine->residuals[k].what) == 0;
        }
        if (!replaced) {
            machine->residuals[kept++] = machine->residuals[k];
        }
    }
    size_t count = json_count(&array);
    if (count == 0) {
        return STATUS_OK;
    }
    struct machine_residual *items = arena_array(&machine->arena, struct machine_residual, kept + count);
    if (items == NULL) {
        return machine_out_of_memory(error);
    }
    if (kept > 0) {
        memcpy(items, machine->residuals, kept * sizeof *items);
    }
    machine->residuals = items;
    machine->residual_count = kept;
    for (size_t i = 0; i < count; i++) {
        json_item(&array, i, &at);
        TRY(read_residual(machine, &at, &items[machine->residual_count], error));
        machine->residual_count++;
    }
    return STATUS_OK;
}

void machine_residual_print(const struct machine_residual *line, struct json_writer *w)
{
    jw_object(w, NULL);
    jw_string(w, "what", line->what);
    if (line->source != NULL) {
        jw_string(w, "source", line->source);
    }
    jw_uint(w, "points", line->points);
    jw_uint(w, "left_out", line->left_out);
    jw_real(w, "mean_error", line->mean_error);
    jw_real(w, "worst_error", line->worst_error);
    if (isnan(line->left_out_mean_error)) {
        jw_null(w, "left_out_mean_error");
    } else {
        jw_real(w, "left_out_mean_error", line->left_out_mean_error);
    }
    jw_end(w);
}

enum status machine_read_sources(struct machine *machine, const struct json *root, struct error *error)
{
    TRY(read_provenance(machine, root, error));
    TRY(read_standard_errors(machine, root, error));
    return read_residuals(machine, root, error);
}
