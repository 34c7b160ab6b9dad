/* Loading a sweep file: its base, then axes and conditions (sweep_axes.c), then what can be said of the whole (sweep_count.c). */
#include "sim/sweep/sweep_load.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "sim/base/check.h"
#include "sim/base/file.h"
#include "sim/base/schema.h"
#include "sim/sweep/sweep_scenario.h"

#define SWEEP_BYTES_MAX ((size_t)16 << 20)

enum { SWEEP_NAME_BYTES_MAX = 255 };

enum status sweep_no_memory(struct error *error)
{
    return error_set(error, STATUS_NO_MEMORY, "out of memory loading a sweep");
}

/* --- the base */

static enum status take_base(struct sweep *sweep, const struct json *value, struct error *error)
{
    struct strbuf text = { 0 };
    sweep_canonical(value, &text);
    sweep->base = text.failed ? NULL : arena_text(&sweep->arena, text.text);
    strbuf_free(&text);
    if (sweep->base == NULL) {
        return sweep_no_memory(error);
    }
    return STATUS_OK;
}

static enum status load_base(struct sweep *sweep, const struct json *root, struct error *error)
{
    struct json at, base;
    const char *path;
    TRY(json_any(root, "base", &at, error));
    if (json_type(&at) == JSON_OBJECT) {
        return take_base(sweep, &at, error);
    }
    if (json_type(&at) != JSON_STRING) {
        return json_error(&at, error, "expected the path of a scenario file or a scenario, found %s",
                          json_type_word(json_type(&at)));
    }
    TRY(json_as_string(&at, &path, error));
    char beside[PATH_MAX];
    const char *file = json_file(root), *slash = strrchr(file, '/');
    if (!file_exists(path) && path[0] != '/' && slash != NULL &&
        snprintf(beside, sizeof beside, "%.*s/%s", (int)(slash - file), file, path) < (int)sizeof beside &&
        file_exists(beside)) {
        path = beside;
    }
    struct json_document *document;
    TRY(json_load(&document, path, SWEEP_BYTES_MAX, error));
    json_root(document, &base);
    enum status status = json_type(&base) == JSON_OBJECT ? take_base(sweep, &base, error)
                                                         : json_error(&base, error, "a scenario is an object, found %s",
                                                                      json_type_word(json_type(&base)));
    json_free(document);
    return status;
}

/* --- the whole */

static enum status read_sweep(struct sweep *sweep, const struct json *root, struct error *error)
{
    static const char *const keys[] = { "schema", "name", "base", "axes", "conditions" };
    static const char *const needed[] = { "base", "axes" };
    const char *file = json_file(root), *slash = strrchr(file, '/'), *name;
    TRY(schema_check(root, "memwall.sweep/1", true, error)); /* first: a file of another kind has other keys */
    TRY(json_known_keys(root, keys, sizeof keys / sizeof keys[0], error));
    TRY(schema_need(root, needed, sizeof needed / sizeof needed[0], error));
    TRY(schema_name(root, slash != NULL ? slash + 1 : file, SWEEP_NAME_BYTES_MAX, &name, error));
    sweep->name = arena_text(&sweep->arena, name);
    if (sweep->name == NULL) {
        return sweep_no_memory(error);
    }
    TRY(load_base(sweep, root, error));
    CHECK(sweep->base != NULL);
    struct json_document *base;
    TRY(json_parse(&base, sweep->base, strlen(sweep->base), "base", error));
    enum status status = sweep_read_axes(sweep, root, base, error);
    if (status == STATUS_OK) {
        status = sweep_read_conditions(sweep, root, base, error);
    }
    json_free(base);
    TRY(status);
    TRY(sweep_order_links(sweep, root, error));
    TRY(sweep_count_points(sweep, root, error));
    return sweep_try_first(sweep, root, error);
}

static enum status from_document(struct sweep *sweep, struct json_document *document, struct error *error)
{
    struct json root;
    json_root(document, &root);
    enum status status = read_sweep(sweep, &root, error);
    if (status != STATUS_OK) {
        sweep_free(sweep);
    }
    json_free(document);
    return status;
}

enum status sweep_load(struct sweep *sweep, const char *file, struct error *error)
{
    struct json_document *document;
    *sweep = (struct sweep){ 0 };
    TRY(json_load(&document, file, SWEEP_BYTES_MAX, error));
    return from_document(sweep, document, error);
}

enum status sweep_parse(struct sweep *sweep, const char *text, const char *file, struct error *error)
{
    struct json_document *document;
    *sweep = (struct sweep){ 0 };
    TRY(json_parse(&document, text, strlen(text), file, error));
    return from_document(sweep, document, error);
}

void sweep_free(struct sweep *sweep)
{
    for (uint32_t i = 0; i < sweep->axis_count; i++) {
        expression_free(&sweep->axes[i].expression);
    }
    for (uint32_t i = 0; i < sweep->condition_count; i++) {
        expression_free(&sweep->conditions[i].expression);
    }
    arena_free(&sweep->arena);
    *sweep = (struct sweep){ 0 };
}
