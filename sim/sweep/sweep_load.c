/* Loading a sweep file: base, axes, links, conditions; then everything is counted. */
#include <ctype.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "sim/base/check.h"
#include "sim/base/file.h"
#include "sim/plan/scenario.h"
#include "sim/sweep/sweep.h"
#include "sim/sweep/sweep_load.h"
#include "sim/sweep/sweep_scenario.h"

#define SWEEP_BYTES_MAX ((size_t)16 << 20)

enum { NAME_BYTES_MAX = 48 };

static enum status no_memory(struct error *error)
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
        (void)no_memory(error);
        return STATUS_NO_MEMORY;
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

/* --- names in expressions */

struct names {
    struct sweep *sweep;
    const struct json *base;
};

static bool find_axis(const struct sweep *sweep, const char *name, uint32_t *index)
{
    for (uint32_t i = 0; i < sweep->axis_count; i++) {
        if (strcmp(sweep->axes[i].name, name) == 0 ||
            (sweep->axes[i].path != NULL && strcmp(sweep->axes[i].path, name) == 0)) {
            *index = i;
            return true;
        }
    }
    return false;
}

/* A key of the base by its dotted path; 0: none. */
static bool find_in_base(const struct json *at, const char *path, struct json *found)
{
    const char *dot = strchr(path, '.');
    char key[128];
    snprintf(key, sizeof key, "%.*s", dot != NULL ? (int)(dot - path) : (int)strlen(path), path);
    struct json child;
    if (json_type(at) != JSON_OBJECT || json_any_optional(at, key, &child, NULL) != STATUS_OK || child.node == NULL) {
        return false;
    }
    if (dot == NULL) {
        *found = child;
        return true;
    }
    return find_in_base(&child, dot + 1, found);
}

static enum status unknown_name(const struct sweep *sweep, const char *name, struct error *error)
{
    const char *known[SWEEP_AXES_MAX];
    for (uint32_t i = 0; i < sweep->axis_count; i++) {
        known[i] = sweep->axes[i].name;
    }
    const char *near = nearest_word(name, known, sweep->axis_count);
    return error_set(error, STATUS_BAD_INPUT, "\"%.64s\" is neither an axis nor a key of the base scenario%s%s%s", name,
                     near != NULL ? "; did you mean \"" : "", near != NULL ? near : "", near != NULL ? "\"?" : "");
}

static enum status find_name(void *context, const char *name, uint32_t *index, struct error *error)
{
    struct names *names = context;
    struct sweep *sweep = names->sweep;
    if (find_axis(sweep, name, index)) {
        return STATUS_OK;
    }
    for (uint32_t i = 0; i < sweep->constant_count; i++) {
        if (strcmp(sweep->constant_names[i], name) == 0) {
            *index = SWEEP_AXES_MAX + i;
            return STATUS_OK;
        }
    }
    struct json at;
    if (!find_in_base(names->base, name, &at)) {
        return unknown_name(sweep, name, error);
    }
    if (json_type(&at) == JSON_ARRAY || json_type(&at) == JSON_OBJECT) {
        return error_set(error, STATUS_BAD_INPUT, "\"%.64s\" is %s in the base scenario: an expression wants one value",
                         name, json_type_word(json_type(&at)));
    }
    if (sweep->constant_count == SWEEP_CONSTANTS_MAX) {
        return error_set(error, STATUS_LIMIT, "more than %d keys of the base", SWEEP_CONSTANTS_MAX);
    }
    *index = SWEEP_AXES_MAX + sweep->constant_count;
    TRY(sweep_value_from_json(&at, &sweep->arena, &sweep->constants[sweep->constant_count], error));
    sweep->constant_names[sweep->constant_count] = arena_text(&sweep->arena, name);
    return sweep->constant_names[sweep->constant_count++] != NULL ? STATUS_OK : no_memory(error);
}

static enum status parse_expression(struct names *names, const struct json *at, struct expression *expression,
                                    struct error *error)
{
    const char *text;
    struct error own = { 0 };
    TRY(json_as_string(at, &text, error));
    enum status status = expression_parse(expression, text, find_name, names, &own);
    return status == STATUS_OK || status == STATUS_NO_MEMORY ? status : json_error(at, error, "%s", own.message);
}

/* --- axes */

static enum status check_name(const struct sweep *sweep, const struct json *at, const char *name, struct error *error)
{
    size_t length = strlen(name);
    bool word = length > 0 && (isalpha((unsigned char)name[0]) || name[0] == '_');
    for (size_t i = 0; i < length; i++) {
        word = word && (isalnum((unsigned char)name[i]) || name[i] == '_');
    }
    if (!word || length > NAME_BYTES_MAX) {
        return json_error(at, error,
                          "an axis's name is made of letters, digits and _, at most %d of them; \"%.64s\" is not: give "
                          "it a \"name\"",
                          NAME_BYTES_MAX, name);
    }
    static const char *const words[] = { "and", "or", "not", "in", "true", "false", "null" };
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (strcasecmp(words[i], name) == 0) {
            return json_error(at, error, "\"%s\" is a word of expressions: give the axis another \"name\"", name);
        }
    }
    for (uint32_t i = 0; i < sweep->axis_count; i++) {
        if (strcasecmp(sweep->axes[i].name, name) == 0) {
            return json_error(at, error, "two axes are called \"%.64s\": give one of them another \"name\"", name);
        }
    }
    return STATUS_OK;
}

/* One path must not be set twice. */
static enum status check_path(const struct sweep *sweep, const struct json *at, const char *path, struct error *error)
{
    for (uint32_t i = 0; i < sweep->axis_count; i++) {
        if (sweep->axes[i].path != NULL && strcmp(sweep->axes[i].path, path) == 0) {
            return json_error(at, error, "two axes set \"%.100s\"", path);
        }
    }
    return STATUS_OK;
}

static enum status read_axis(struct sweep *sweep, const struct json *at, struct error *error)
{
    static const char *const keys[] = { "name", "path", "values", "range", "log_range", "expression" };
    struct sweep_axis *axis = &sweep->axes[sweep->axis_count];
    const char *path, *name;
    if (json_type(at) != JSON_OBJECT) {
        return json_error(at, error, "an axis is an object, found %s", json_type_word(json_type(at)));
    }
    TRY(json_known_keys(at, keys, sizeof keys / sizeof keys[0], error));
    TRY(json_string_or(at, "path", NULL, &path, error));
    const char *dot = path != NULL ? strrchr(path, '.') : NULL;
    TRY(json_string_or(at, "name", dot != NULL ? dot + 1 : path, &name, error));
    if (name == NULL) {
        return json_error(at, error, "an axis needs a \"path\" in the scenario, or a \"name\" for expressions");
    }
    if (sweep->axis_count == SWEEP_AXES_MAX) {
        return json_error(at, error, "at most %d axes are allowed", SWEEP_AXES_MAX);
    }
    TRY(check_name(sweep, at, name, error));
    if (path != NULL) {
        TRY(check_path(sweep, at, path, error));
    }
    *axis = (struct sweep_axis){ .name = arena_text(&sweep->arena, name),
                                 .path = path != NULL ? arena_text(&sweep->arena, path) : NULL };
    if (axis->name == NULL || (path != NULL && axis->path == NULL)) {
        return no_memory(error);
    }
    sweep->axis_count++;
    return STATUS_OK;
}

/* An axis with values, in group `group`. */
static enum status read_values(struct sweep *sweep, const struct json *at, uint32_t group, struct error *error)
{
    struct sweep_axis *axis = &sweep->axes[sweep->axis_count - 1];
    uint32_t count = 0;
    TRY(sweep_axis_values(at, &sweep->arena, &axis->values, &count, error));
    axis->group = axis->depth = group;
    if (group == sweep->group_count) {
        sweep->group_sizes[sweep->group_count++] = count;
    } else if (sweep->group_sizes[group] != count) {
        return json_error(at, error, "zipped axes have equally many values: this one has %u, the first %u", count,
                          sweep->group_sizes[group]);
    }
    return axis->path != NULL ? sweep_path_check(at, axis->path, axis->values, count, error) : STATUS_OK;
}

static enum status read_zip(struct sweep *sweep, const struct json *at, struct error *error)
{
    static const char *const keys[] = { "zip" };
    struct json zip, item;
    TRY(json_known_keys(at, keys, 1, error));
    TRY(json_array(at, "zip", &zip, error));
    uint32_t group = sweep->group_count;
    if (json_count(&zip) == 0) {
        return json_error(&zip, error, "no axes to zip");
    }
    for (size_t i = 0; i < json_count(&zip); i++) {
        json_item(&zip, i, &item);
        TRY(read_axis(sweep, &item, error));
        if (json_has(&item, "expression")) {
            return json_error(&item, error, "a linked value goes with every axis: put it beside the zip, not into it");
        }
        TRY(read_values(sweep, &item, group, error));
    }
    return STATUS_OK;
}

/* Axes first, their expressions when all names are known. */
static enum status read_axes(struct sweep *sweep, const struct json *root, struct json_document *base_document,
                             struct error *error)
{
    struct json axes, item, at, base;
    uint32_t of_item[SWEEP_AXES_MAX];
    TRY(json_array(root, "axes", &axes, error));
    size_t count = json_count(&axes);
    if (count == 0) {
        return json_error(&axes, error, "no axes: then memwall run is the command");
    }
    if (count > SWEEP_AXES_MAX) {
        return json_error(&axes, error, "%zu axes: at most %d are allowed", count, SWEEP_AXES_MAX);
    }
    for (size_t i = 0; i < count; i++) {
        json_item(&axes, i, &item);
        of_item[i] = sweep->axis_count;
        if (json_type(&item) == JSON_OBJECT && json_has(&item, "zip")) {
            TRY(read_zip(sweep, &item, error));
            continue;
        }
        TRY(read_axis(sweep, &item, error));
        if (json_has(&item, "expression")) {
            sweep->axes[of_item[i]].linked = true;
        } else {
            TRY(read_values(sweep, &item, sweep->group_count, error));
        }
    }
    json_root(base_document, &base);
    struct names names = { .sweep = sweep, .base = &base };
    for (size_t i = 0; i < count; i++) {
        struct sweep_axis *axis = &sweep->axes[of_item[i]];
        json_item(&axes, i, &item);
        if (json_has(&item, "zip") || !axis->linked) {
            continue;
        }
        if (json_has(&item, "values") || json_has(&item, "range") || json_has(&item, "log_range")) {
            return json_error(&item, error, "an axis has values or an expression, not both");
        }
        TRY(json_any(&item, "expression", &at, error));
        TRY(parse_expression(&names, &at, &axis->expression, error));
        if (axis->path != NULL) {
            TRY(sweep_path_check(&item, axis->path, NULL, 0, error));
        }
    }
    return sweep->group_count > 0 ? STATUS_OK : json_error(&axes, error, "no axis has values: all are linked");
}

static enum status read_conditions(struct sweep *sweep, const struct json *root, struct json_document *base_document,
                                   struct error *error)
{
    struct json conditions, item, base;
    TRY(json_array_optional(root, "conditions", &conditions, error));
    size_t count = conditions.node != NULL ? json_count(&conditions) : 0;
    if (count > SWEEP_CONDITIONS_MAX) {
        return json_error(&conditions, error, "%zu conditions: at most %d are allowed", count, SWEEP_CONDITIONS_MAX);
    }
    json_root(base_document, &base);
    struct names names = { .sweep = sweep, .base = &base };
    for (size_t i = 0; i < count; i++) {
        json_item(&conditions, i, &item);
        TRY(parse_expression(&names, &item, &sweep->conditions[i].expression, error));
        sweep->condition_count++;
    }
    return STATUS_OK;
}

/* --- links and depths */

/* Whether all names are known, and at which depth. */
static bool depth_of(const struct sweep *sweep, const struct expression *e, const bool *known, uint32_t *depth)
{
    *depth = 0;
    for (uint32_t i = 0; i < e->name_count; i++) {
        uint32_t name = e->names[i];
        if (name >= SWEEP_AXES_MAX) {
            continue;
        }
        if (!known[name]) {
            return false;
        }
        *depth = sweep->axes[name].depth > *depth ? sweep->axes[name].depth : *depth;
    }
    return true;
}

static enum status order_links(struct sweep *sweep, const struct json *root, struct error *error)
{
    bool known[SWEEP_AXES_MAX] = { false }, any = true;
    for (uint32_t i = 0; i < sweep->axis_count; i++) {
        known[i] = !sweep->axes[i].linked;
    }
    while (any) {
        any = false;
        for (uint32_t i = 0; i < sweep->axis_count; i++) {
            if (!known[i] && depth_of(sweep, &sweep->axes[i].expression, known, &sweep->axes[i].depth)) {
                known[i] = any = true;
                sweep->linked[sweep->linked_count++] = i;
            }
        }
    }
    char cycle[256] = "";
    for (uint32_t i = 0; i < sweep->axis_count; i++) {
        size_t length = strlen(cycle);
        if (!known[i]) {
            snprintf(cycle + length, sizeof cycle - length, "%s%s = %.60s", length > 0 ? ", " : "", sweep->axes[i].name,
                     sweep->axes[i].expression.source);
        }
    }
    if (cycle[0] != '\0') {
        struct json axes;
        TRY(json_array(root, "axes", &axes, error));
        return json_error(&axes, error, "linked values need each other in a circle: %s", cycle);
    }
    for (uint32_t i = 0; i < sweep->condition_count; i++) {
        (void)depth_of(sweep, &sweep->conditions[i].expression, known, &sweep->conditions[i].depth);
    }
    return STATUS_OK;
}

static enum status count_points(struct sweep *sweep, const struct json *root, struct error *error)
{
    double product = 1;
    char sizes[256] = "";
    for (uint32_t i = 0; i < sweep->group_count; i++) {
        size_t length = strlen(sizes);
        product *= sweep->group_sizes[i];
        snprintf(sizes + length, sizeof sizes - length, "%s%u", i > 0 ? " x " : "", sweep->group_sizes[i]);
    }
    if (product > (double)SWEEP_COMBINATIONS_MAX) {
        return json_error(root, error,
                          "%s = %.0f combinations: at most %" PRIu64
                          " are allowed. Link or zip axes that depend on each other, or split the sweep (parts can "
                          "share a database)",
                          sizes, product, SWEEP_COMBINATIONS_MAX);
    }
    sweep->combinations = (uint64_t)product;
    struct sweep_walk walk;
    uint64_t refused[SWEEP_CONDITIONS_MAX] = { 0 };
    bool found = true;
    sweep_walk_start(&walk, sweep);
    walk.refused = refused;
    for (;;) {
        struct error own = { 0 };
        if (sweep_walk_next(&walk, &found, &own) != STATUS_OK) {
            return json_error(root, error, "%s", own.message);
        }
        if (!found) {
            break;
        }
        sweep->points++;
    }
    uint32_t worst = 0;
    for (uint32_t i = 0; i < sweep->condition_count; i++) {
        sweep->conditions[i].refused = refused[i];
        worst = refused[i] > refused[worst] ? i : worst;
    }
    if (sweep->points > 0) {
        return STATUS_OK;
    }
    struct json conditions, item;
    TRY(json_array(root, "conditions", &conditions, error));
    json_item(&conditions, worst, &item);
    return json_error(&item, error,
                      "none of %" PRIu64
                      " combinations meets all %u conditions; \"%.200s\" refuses most of what the others let through",
                      sweep->combinations, sweep->condition_count, sweep->conditions[worst].expression.source);
}

/* Whether `where` ("$.recompute") is what should have held the item of an axis ("recompute.3"). */
static bool is_about_item(const struct sweep *sweep, const char *where)
{
    for (uint32_t i = 0; i < sweep->axis_count; i++) {
        const char *path = sweep->axes[i].path, *dot = path != NULL ? strrchr(path, '.') : NULL;
        if (dot != NULL && isdigit((unsigned char)dot[1]) && strlen(where) == (size_t)(dot - path) + 2 &&
            strncmp(where + 2, path, (size_t)(dot - path)) == 0) {
            return true;
        }
    }
    return false;
}

/* The first point, made and loaded: values that can stand nowhere, and keys below "machine", "model", ... that these do not have, are the sweep's fault. */
static enum status try_first(struct sweep *sweep, const struct json *root, struct error *error)
{
    struct sweep_walk walk;
    struct strbuf text = { 0 };
    struct scenario scenario;
    struct error own = { 0 };
    bool found;
    sweep_walk_start(&walk, sweep);
    TRY(sweep_walk_next(&walk, &found, error));
    enum status status = sweep_scenario_text(&walk, &text, &own);
    if (status == STATUS_OK && scenario_parse(&scenario, text.text, sweep->name, NULL, 0, &own) == STATUS_OK) {
        scenario_free(&scenario);
    } else if (status == STATUS_OK &&
               (strncmp(own.message, "unknown key", 11) == 0 || is_about_item(sweep, own.path))) {
        status = STATUS_BAD_INPUT; /* other errors may be this point's alone */
    }
    strbuf_free(&text);
    return status == STATUS_OK ? status : json_error(root, error, "%.200s: %s", own.path, own.message);
}

/* --- the whole */

static enum status read_sweep(struct sweep *sweep, const struct json *root, struct error *error)
{
    static const char *const keys[] = { "schema", "name", "base", "axes", "conditions" };
    const char *file = json_file(root), *slash = strrchr(file, '/'), *schema, *name;
    if (json_type(root) != JSON_OBJECT) {
        return json_error(root, error, "a sweep is an object, found %s", json_type_word(json_type(root)));
    }
    TRY(json_string_or(root, "schema", "memwall.sweep/1", &schema, error));
    if (strcmp(schema, "memwall.sweep/1") != 0) { /* first: a file of another kind has other keys */
        return json_error(root, error, "unknown schema \"%.64s\": allowed is \"memwall.sweep/1\"", schema);
    }
    TRY(json_known_keys(root, keys, sizeof keys / sizeof keys[0], error));
    TRY(json_string(root, "schema", &schema, error)); /* it has to say so */
    TRY(json_string_or(root, "name", slash != NULL ? slash + 1 : file, &name, error));
    sweep->name = arena_text(&sweep->arena, name);
    if (sweep->name == NULL) {
        return no_memory(error);
    }
    TRY(load_base(sweep, root, error));
    struct json_document *base;
    TRY(json_parse(&base, sweep->base, strlen(sweep->base), "base", error));
    enum status status = read_axes(sweep, root, base, error);
    if (status == STATUS_OK) {
        status = read_conditions(sweep, root, base, error);
    }
    json_free(base);
    TRY(status);
    TRY(order_links(sweep, root, error));
    TRY(count_points(sweep, root, error));
    return try_first(sweep, root, error);
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
