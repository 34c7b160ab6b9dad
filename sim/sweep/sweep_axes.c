/* Axes and conditions of a sweep file, and what the names in their expressions stand for. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "sim/base/check.h"
#include "sim/sweep/sweep_load.h"
#include "sim/sweep/sweep_scenario.h"

enum { NAME_BYTES_MAX = 48 };

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
    return sweep->constant_names[sweep->constant_count++] != NULL ? STATUS_OK : sweep_no_memory(error);
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

/* One path must not be set twice, nor as part of an object that a later axis puts in its place: its values would stand beside results that never had them. */
static enum status check_path(const struct sweep *sweep, const struct json *at, const char *path, struct error *error)
{
    size_t length = strlen(path);
    for (uint32_t i = 0; i < sweep->axis_count; i++) {
        const char *before = sweep->axes[i].path;
        if (before == NULL || strncmp(before, path, length) != 0) {
            continue;
        }
        if (before[length] == '\0') {
            return json_error(at, error, "two axes set \"%.100s\"", path);
        }
        if (before[length] == '.') {
            return json_error(at, error,
                              "\"%.100s\" takes the place of all that it holds, also of \"%.100s\", which an axis "
                              "before it sets: put that axis after this one",
                              path, before);
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
        return sweep_no_memory(error);
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
enum status sweep_read_axes(struct sweep *sweep, const struct json *root, struct json_document *base_document,
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

enum status sweep_read_conditions(struct sweep *sweep, const struct json *root, struct json_document *base_document,
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
