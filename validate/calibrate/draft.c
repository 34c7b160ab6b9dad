/* Drafts of machine files: the body is a JSON document; what is known about it (provenance.h) is beside it and joins it when it is printed. */
#include "validate/calibrate/draft.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hw_models/machine.h"
#include "sim/base/check.h"
#include "sim/base/file.h"
#include "sim/base/json.h"
#include "sim/base/json_write.h"
#include "sim/base/printable.h"
#include "validate/calibrate/draft_path.h"
#include "validate/calibrate/draft_print.h"
#include "validate/calibrate/provenance.h"

enum { BASES_MAX = 6 };

struct draft {
    char name[MACHINE_NAME_BYTES];
    struct json_document *document;
    struct json_document *bases[BASES_MAX]; /* of a {"base": ...} document, nearest first */
    uint32_t base_count;
    struct provenance provenance;
    enum status status; /* the first that went wrong */
    struct error error;
};

/* -- sticky errors -- */

__attribute__((format(printf, 4, 5))) static void spoil(struct draft *draft, enum status status, const char *path,
                                                        const char *format, ...)
{
    char message[ERROR_MESSAGE_BYTES];
    va_list arguments;
    if (draft->status != STATUS_OK) {
        return;
    }
    va_start(arguments, format);
    (void)vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    draft->status = error_at(&draft->error, status, draft->name, path, "%s", message);
}

static void spoil_memory(struct draft *draft)
{
    spoil(draft, STATUS_NO_MEMORY, NULL, "out of memory while drafting a machine");
}

/* What is said of a field; memory is all that can go wrong. */
static void say(struct draft *draft, enum status status)
{
    if (status != STATUS_OK) {
        spoil_memory(draft);
    }
}

/* -- what is set -- */

bool draft_has(const struct draft *draft, const char *path)
{
    double value;
    bool found = false;
    (void)draft_look_up(draft->document, path, &found, &value);
    for (uint32_t i = 0; !found && i < draft->base_count; i++) {
        (void)draft_look_up(draft->bases[i], path, &found, &value);
    }
    return found;
}

double draft_get(const struct draft *draft, const char *path, double otherwise)
{
    double value;
    bool found;
    if (draft_look_up(draft->document, path, &found, &value)) {
        return value;
    }
    for (uint32_t i = 0; !found && i < draft->base_count; i++) {
        if (draft_look_up(draft->bases[i], path, &found, &value)) {
            return value;
        }
    }
    return otherwise;
}

/* The name that provenance uses for a path: parts and links by kind, not by number. */
static void provenance_name(const struct draft *draft, const char *path, char name[DRAFT_PATH_BYTES])
{
    char section[DRAFT_KEY_BYTES], index[DRAFT_KEY_BYTES];
    const char *rest = draft_next_key(path, section), *after = rest == NULL ? NULL : draft_next_key(rest, index);
    struct json root, array, item;
    const char *kind;
    (void)snprintf(name, DRAFT_PATH_BYTES, "%s", path);
    if (after == NULL || !draft_is_index(index) || (strcmp(section, "links") != 0 && strcmp(section, "parts") != 0)) {
        return;
    }
    json_root(draft->document, &root);
    if (json_array(&root, section, &array, NULL) == STATUS_OK && draft_item_of(&array, index, &item) &&
        json_type(&item) == JSON_OBJECT && json_string(&item, "kind", &kind, NULL) == STATUS_OK) {
        (void)snprintf(name, DRAFT_PATH_BYTES, "%s.%s%s%s", section, kind, *after != '\0' ? "." : "", after);
    }
}

/* -- starting -- */

/* The bases that a document stands on, for draft_get and draft_has. */
static enum status open_bases(struct draft *draft, struct error *error)
{
    struct json_document *document = draft->document;
    for (;;) {
        struct json root;
        const char *base;
        json_root(document, &root);
        if (!json_has(&root, "base")) {
            return STATUS_OK;
        }
        TRY(json_string(&root, "base", &base, error));
        CHECK(draft->base_count < BASES_MAX); /* the machine loader allows fewer */
        TRY(machine_open(&draft->bases[draft->base_count], base, error));
        document = draft->bases[draft->base_count++];
    }
}

static enum status start_from(struct draft *draft, const char *base, struct error *error)
{
    struct machine machine;
    struct json root;
    TRY(machine_open(&draft->document, base, error));
    json_root(draft->document, &root);
    TRY(machine_from_json(&machine, &root, error));
    machine_free(&machine);
    TRY(provenance_read(&draft->provenance, &root, error));
    return open_bases(draft, error);
}

static void set_value(struct draft *draft, const char *path, const char *json);

enum status draft_check_name(const char *name, struct error *error)
{
    size_t length = strlen(name);
    if (length == 0 || length >= MACHINE_NAME_BYTES) {
        return error_set(error, STATUS_BAD_INPUT, "a machine's name must have 1 to %d bytes, found %zu",
                         MACHINE_NAME_BYTES - 1, length);
    }
    for (size_t at = 0; at < length;) {
        const unsigned char *byte = (const unsigned char *)name + at;
        unsigned bytes = *byte < 0x80 ? 1 : utf8_bytes(name, length, at);
        bool control = *byte < 0x20 || is_control(name + at); /* tab and line ends, too */
        if (bytes == 0 || control) {
            return error_set(error, STATUS_BAD_INPUT,
                             "a machine's name must be UTF-8 text without control characters; its byte %zu is 0x%02x%s",
                             at + 1, *byte, bytes == 0 ? ", which is no UTF-8" : ", of a control character");
        }
        at += bytes;
    }
    return STATUS_OK;
}

enum status draft_new(struct draft **draft, const char *name, const char *base, struct error *error)
{
    static const char EMPTY[] = "{\"schema\": \"memwall.machine/1\"}";
    struct strbuf text = { 0 };
    *draft = NULL;
    TRY(draft_check_name(name, error));
    struct draft *made = calloc(1, sizeof *made);
    if (made == NULL) {
        return error_set(error, STATUS_NO_MEMORY, "out of memory while drafting a machine");
    }
    memcpy(made->name, name, strlen(name) + 1);
    enum status status =
        base == NULL ? json_parse(&made->document, EMPTY, strlen(EMPTY), name, error) : start_from(made, base, error);
    if (status == STATUS_OK) {
        strbuf_json_string(&text, name);
        if (text.failed) {
            spoil_memory(made);
        } else {
            set_value(made, "name", text.text);
        }
        strbuf_free(&text);
        status = made->status;
        if (status != STATUS_OK && error != NULL) {
            *error = made->error;
        }
    }
    if (status != STATUS_OK) {
        draft_free(made);
        return status;
    }
    *draft = made;
    return STATUS_OK;
}

void draft_free(struct draft *draft)
{
    if (draft == NULL) {
        return;
    }
    provenance_free(&draft->provenance);
    for (uint32_t i = 0; i < draft->base_count; i++) {
        json_free(draft->bases[i]);
    }
    json_free(draft->document);
    free(draft);
}

/* -- setting -- */

static void set_exactly(struct draft *draft, const char *path, const char *json)
{
    struct error error = { 0 };
    enum status status = json_set(draft->document, path, json, &error);
    if (status != STATUS_OK) {
        spoil(draft, status, path, "%s", error.message);
    }
}

/* Set a value; "links.pcie.GBps" and "parts.nic.Gbps" set it in every entry of that kind. */
static void set_value(struct draft *draft, const char *path, const char *json)
{
    char section[DRAFT_KEY_BYTES], kind[DRAFT_KEY_BYTES], exact[DRAFT_PATH_BYTES];
    const char *rest = draft_next_key(path, section), *key = rest == NULL ? NULL : draft_next_key(rest, kind);
    bool by_kind = key != NULL && *key != '\0' && !draft_is_index(kind) &&
                   (strcmp(section, "links") == 0 || strcmp(section, "parts") == 0);
    if (draft->status != STATUS_OK || !by_kind) {
        if (draft->status == STATUS_OK) {
            set_exactly(draft, path, json);
        }
        return;
    }
    size_t count = 1, set = 0;
    for (size_t i = 0; i < count; i++) {
        struct json root, array, item;
        const char *word = "";
        json_root(draft->document, &root);
        if (json_array(&root, section, &array, NULL) != STATUS_OK) {
            break;
        }
        count = json_count(&array);
        if (i < count) {
            json_item(&array, i, &item);
            if (json_type(&item) == JSON_OBJECT && json_string_or(&item, "kind", "", &word, NULL) == STATUS_OK &&
                strcmp(word, kind) == 0) {
                (void)snprintf(exact, sizeof exact, "%s.%zu.%s", section, i, key);
                set_exactly(draft, exact, json);
                set++;
            }
        }
    }
    if (set == 0) {
        spoil(draft, STATUS_BAD_INPUT, path, "the draft's \"%s\" has no entry of kind \"%s\"%s", section, kind,
              draft->base_count > 0 ? " (what is the base's must first be set as a whole)" : "");
    }
}

/* The shortest of the numbers that say as much as `value` with this standard error: three digits of the error, at least six of the value. */
static double rounded(double value, double standard_error)
{
    char text[40];
    if (!(standard_error > 0.0) || value == 0.0) {
        return value;
    }
    double digits = floor(log10(fabs(value))) - floor(log10(standard_error)) + 2.0;
    int precision = digits < 5.0 ? 5 : digits > 16.0 ? 16 : (int)digits;
    (void)snprintf(text, sizeof text, "%.*e", precision, value);
    return strtod(text, NULL);
}

void draft_number(struct draft *draft, const char *path, double value, double standard_error, const char *source,
                  bool estimated)
{
    char text[32], name[DRAFT_PATH_BYTES];
    if (!isfinite(value) || !isfinite(standard_error) || standard_error < 0.0) {
        spoil(draft, STATUS_BAD_INPUT, path,
              "%g with a standard error of %g: a constant needs a finite value, and an "
              "error of at least 0 (0: not known)",
              value, standard_error);
        return;
    }
    set_value(draft, path, text_real(rounded(value, standard_error), text, sizeof text));
    provenance_name(draft, path, name);
    say(draft, provenance_source(&draft->provenance, name, source, estimated, false));
    say(draft, provenance_standard_error(&draft->provenance, path, standard_error, false));
}

void draft_text(struct draft *draft, const char *path, const char *value, const char *source)
{
    struct strbuf text = { 0 };
    strbuf_json_string(&text, value);
    draft_json(draft, path, text.failed ? "" : text.text, source, false);
    strbuf_free(&text);
}

void draft_flag(struct draft *draft, const char *path, bool value, const char *source)
{
    draft_json(draft, path, value ? "true" : "false", source, false);
}

void draft_source(struct draft *draft, const char *path, const char *source, bool estimated)
{
    say(draft, provenance_source(&draft->provenance, path, source, estimated, false));
}

void draft_json(struct draft *draft, const char *path, const char *json, const char *source, bool estimated)
{
    char name[DRAFT_PATH_BYTES];
    if (json[strspn(json, " \t\r\n")] == '\0') {
        spoil(draft, STATUS_BAD_INPUT, path, "no value");
        return;
    }
    set_value(draft, path, json);
    provenance_name(draft, path, name);
    say(draft, provenance_source(&draft->provenance, name, source, estimated, true));
    say(draft, provenance_standard_error(&draft->provenance, path, 0.0, true));
}

static bool is_curve(const struct json *at, const char *kind, uint32_t ranks, uint32_t nodes)
{
    const char *word;
    int64_t said_ranks, said_nodes;
    return json_type(at) == JSON_OBJECT && json_string_or(at, "kind", "", &word, NULL) == STATUS_OK &&
           json_int_or(at, "ranks", 0, UINT32_MAX, 0, &said_ranks, NULL) == STATUS_OK &&
           json_int_or(at, "nodes", 0, UINT32_MAX, 1, &said_nodes, NULL) == STATUS_OK && strcmp(word, kind) == 0 &&
           said_ranks == ranks && said_nodes == nodes;
}

static void curve_json(const char *kind, uint32_t ranks, uint32_t nodes, const double *bytes, const double *bus_GBps,
                       uint32_t count, const char *source, struct strbuf *out)
{
    struct json_writer w = { .out = out, .compact = true };
    char rate[40];
    jw_object(&w, NULL);
    jw_string(&w, "kind", kind);
    jw_uint(&w, "ranks", ranks);
    if (nodes != 1) {
        jw_uint(&w, "nodes", nodes);
    }
    if (source != NULL && source[0] != '\0') {
        jw_string(&w, "source", source);
    }
    jw_array(&w, "bytes_GBps");
    for (uint32_t i = 0; i < count; i++) {
        jw_array(&w, NULL);
        jw_real(&w, NULL, bytes[i]);
        (void)snprintf(rate, sizeof rate, "%.6g", bus_GBps[i]); /* measured: no more digits than that mean anything */
        jw_real(&w, NULL, strtod(rate, NULL));
        jw_end(&w);
    }
    jw_end(&w);
    jw_end(&w);
}

void draft_curve(struct draft *draft, const char *kind, uint32_t ranks, uint32_t nodes, const double *bytes,
                 const double *bus_GBps, uint32_t count, const char *source)
{
    struct strbuf text = { 0 };
    struct json root, array, item;
    bool placed = false;
    for (uint32_t i = 0; i < count; i++) {
        if (!isfinite(bytes[i]) || !isfinite(bus_GBps[i])) {
            spoil(draft, STATUS_BAD_INPUT, "collectives", "%s of %u ranks on %u nodes: point %u is [%g, %g]", kind,
                  ranks, nodes, i, bytes[i], bus_GBps[i]);
            return;
        }
    }
    json_root(draft->document, &root);
    bool has = json_array_optional(&root, "collectives", &array, NULL) == STATUS_OK && array.node != NULL;
    strbuf_char(&text, '[');
    for (size_t i = 0; has && i < json_count(&array); i++) {
        json_item(&array, i, &item);
        strbuf_append(&text, i > 0 ? "," : "");
        if (!placed && is_curve(&item, kind, ranks, nodes)) {
            curve_json(kind, ranks, nodes, bytes, bus_GBps, count, source, &text);
            placed = true;
        } else {
            json_print(&item, &text);
        }
    }
    if (!placed) {
        strbuf_append(&text, text.length > 1 ? "," : "");
        curve_json(kind, ranks, nodes, bytes, bus_GBps, count, source, &text);
    }
    strbuf_char(&text, ']');
    if (text.failed) {
        spoil_memory(draft);
    } else {
        set_value(draft, "collectives", text.text);
    }
    strbuf_free(&text);
}

void draft_residual(struct draft *draft, const char *what, const char *source, uint32_t points, uint32_t left_out,
                    double mean_error, double worst_error, double left_out_mean_error)
{
    if (!(isfinite(mean_error) && mean_error >= 0.0 && isfinite(worst_error) && worst_error >= 0.0) ||
        isinf(left_out_mean_error) || left_out_mean_error < 0.0) {
        spoil(draft, STATUS_BAD_INPUT, "residuals", "%s: errors of %g (mean), %g (worst), %g (left out)", what,
              mean_error, worst_error, left_out_mean_error);
        return;
    }
    const struct provenance_residual line = { .points = points,
                                              .left_out = left_out,
                                              .mean_error = mean_error,
                                              .worst_error = worst_error,
                                              .left_out_mean_error = left_out_mean_error };
    say(draft, provenance_residual(&draft->provenance, what, source == NULL ? "" : source, &line));
}

/* -- the file -- */

static void print_member(const struct json *root, const char *key, struct json_writer *w)
{
    struct json child;
    struct strbuf text = { 0 };
    if (json_any(root, key, &child, NULL) != STATUS_OK) {
        return;
    }
    json_print(&child, &text);
    if (text.failed) {
        w->out->failed = true;
    } else {
        jw_raw(w, key, text.text);
    }
    strbuf_free(&text);
}

/* The whole file without line breaks: known keys in the order of the library's files, then the others, then the lists. */
static void print_compact(const struct draft *draft, struct strbuf *out)
{
    static const char *const FIRST[] = { "schema",    "name",        "title",       "base",    "year",
                                         "gpu_count", "gpu",         "host",        "latency", "memory_overhead",
                                         "nccl",      "network",     "price",       "power",   "parts",
                                         "links",     "collectives", "kernel_model" };
    static const char *const LISTS[] = { "standard_errors", "residuals", "provenance" };
    enum { FIRST_COUNT = sizeof FIRST / sizeof FIRST[0], LIST_COUNT = sizeof LISTS / sizeof LISTS[0] };
    struct json_writer w = { .out = out, .compact = true };
    struct json root, child;
    json_root(draft->document, &root);
    jw_object(&w, NULL);
    for (int i = 0; i < FIRST_COUNT; i++) {
        print_member(&root, FIRST[i], &w);
    }
    for (size_t i = 0; i < json_count(&root); i++) {
        const char *key;
        bool other = true;
        json_member(&root, i, &key, &child);
        for (int k = 0; k < FIRST_COUNT; k++) {
            other = other && strcmp(key, FIRST[k]) != 0;
        }
        for (int k = 0; k < LIST_COUNT; k++) {
            other = other && strcmp(key, LISTS[k]) != 0;
        }
        if (other) {
            print_member(&root, key, &w);
        }
    }
    provenance_print(&draft->provenance, &w);
    jw_end(&w);
}

enum status draft_print(const struct draft *draft, struct strbuf *out, struct error *error)
{
    if (draft->status != STATUS_OK) {
        if (error != NULL) {
            *error = draft->error;
        }
        return draft->status;
    }
    struct strbuf compact = { 0 };
    struct json_document *document = NULL;
    struct json root;
    enum status status = STATUS_OK;
    print_compact(draft, &compact);
    if (compact.failed) {
        status = error_set(error, STATUS_NO_MEMORY, "out of memory printing a machine");
        goto fail;
    }
    TRY_OR_FAIL(json_parse(&document, compact.text, compact.length, draft->name, error));
    json_root(document, &root);
    draft_print_json(&root, out);
    if (out->failed) {
        status = error_set(error, STATUS_NO_MEMORY, "out of memory printing a machine");
    }
fail:
    json_free(document);
    strbuf_free(&compact);
    return status;
}

enum status draft_write(const struct draft *draft, const char *path, struct error *error)
{
    struct strbuf text = { 0 };
    struct json_document *document = NULL;
    struct json root;
    struct machine machine;
    struct error why = { 0 };
    enum status status;
    TRY_OR_FAIL(draft_print(draft, &text, error));
    TRY_OR_FAIL(json_parse(&document, text.text, text.length, path, error));
    json_root(document, &root);
    status = machine_from_json(&machine, &root, &why);
    if (status != STATUS_OK) { /* no file for its lines to be looked up in */
        status = error_at(error, status, path, NULL, "is not written, for it would be no machine: %s: %s", why.path,
                          why.message);
        goto fail;
    }
    machine_free(&machine);
    TRY_OR_FAIL(file_write(path, text.text, text.length, error));
fail:
    json_free(document);
    strbuf_free(&text);
    return status;
}
