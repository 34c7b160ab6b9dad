/* A sweep that has been read, as a whole: the order of its linked values, how many points there are, whether the first can stand. */
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "sim/base/check.h"
#include "sim/plan/scenario.h"
#include "sim/sweep/sweep_load.h"
#include "sim/sweep/sweep_scenario.h"

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

enum status sweep_order_links(struct sweep *sweep, const struct json *root, struct error *error)
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

enum status sweep_count_points(struct sweep *sweep, const struct json *root, struct error *error)
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
    uint64_t faults = 0;
    struct error first_fault = { 0 };
    sweep_walk_start(&walk, sweep);
    walk.refused = refused;
    while (sweep_walk_next(&walk)) {
        sweep->points++;
        if (walk.fault.expression != NULL && faults++ == 0) {
            (void)sweep_walk_why(&walk, &first_fault);
        }
    }
    if (faults > 0 && faults == sweep->points) {
        return json_error(root, error, "no point can be computed: %s", first_fault.message);
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

/* The first point that can be computed, made and loaded: values that can stand nowhere, and keys below "machine", "model", ... that these do not have, are the sweep's fault. */
enum status sweep_try_first(struct sweep *sweep, const struct json *root, struct error *error)
{
    struct sweep_walk walk;
    struct strbuf text = { 0 };
    struct scenario scenario;
    struct error own = { 0 };
    sweep_walk_start(&walk, sweep);
    while (sweep_walk_next(&walk) && walk.fault.expression != NULL) {
    }
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
