/* The sweeps of a database: their definitions, and a view for each. */
#include <inttypes.h>
#include <string.h>

#include "sim/base/check.h"
#include "sim/base/json_write.h"
#include "sim/sweep/sweep_database_internal.h"

/* Canonical: base, axes with values, expressions, conditions. */
static void print_definition(const struct sweep *sweep, struct strbuf *out)
{
    strbuf_printf(out, "{\"base\":%s,\"axes\":[", sweep->base);
    for (uint32_t i = 0; i < sweep->axis_count; i++) {
        const struct sweep_axis *axis = &sweep->axes[i];
        strbuf_printf(out, "%s{\"name\":", i > 0 ? "," : "");
        strbuf_json_string(out, axis->name);
        strbuf_append(out, ",\"path\":");
        if (axis->path != NULL) {
            strbuf_json_string(out, axis->path);
        } else {
            strbuf_append(out, "null");
        }
        if (axis->linked) {
            strbuf_append(out, ",\"expression\":");
            strbuf_json_string(out, axis->expression.source);
        } else {
            strbuf_printf(out, ",\"group\":%u,\"values\":[", axis->group);
            for (uint32_t v = 0; v < sweep->group_sizes[axis->group]; v++) {
                strbuf_append(out, v > 0 ? "," : "");
                expression_value_print(&axis->values[v], out);
            }
            strbuf_char(out, ']');
        }
        strbuf_char(out, '}');
    }
    strbuf_append(out, "],\"conditions\":[");
    for (uint32_t i = 0; i < sweep->condition_count; i++) {
        strbuf_append(out, i > 0 ? "," : "");
        strbuf_json_string(out, sweep->conditions[i].expression.source);
    }
    strbuf_append(out, "]}");
}

static bool is_taken(const char *name)
{
    static const char *const fixed[] = { "version",  "hash",          "status", "reason",  "error_kind",
                                         "scenario", "schedule_hash", "bound",  "traffic", "point" };
    for (size_t i = 0; i < sizeof fixed / sizeof fixed[0]; i++) {
        if (sqlite3_stricmp(fixed[i], name) == 0) {
            return true;
        }
    }
    for (int i = 0; i < SWEEP_FIGURE_COUNT; i++) {
        if (sqlite3_stricmp(sweep_figures[i].name, name) == 0) {
            return true;
        }
    }
    return false;
}

static void print_view(const struct sweep *sweep, int64_t id, struct strbuf *out)
{
    strbuf_printf(out, "CREATE VIEW IF NOT EXISTS sweep_%" PRId64 " AS SELECT p.point AS point", id);
    for (uint32_t i = 0; i < sweep->axis_count; i++) {
        const char *name = sweep->axes[i].name; /* letters, digits and _: no quoting needed within quotes */
        strbuf_printf(out, ", json_extract(p.axes, '$.%s') AS \"%s%s\"", name, is_taken(name) ? "axis_" : "", name);
    }
    strbuf_printf(
        out, ", r.* FROM points p JOIN results r ON r.version = p.version AND r.hash = p.hash WHERE p.sweep = %" PRId64,
        id);
}

static enum status insert_sweep(struct sweep_database *database, const struct sweep *sweep, const char *definition,
                                const char *hash, int64_t *id, struct error *error)
{
    sqlite3_stmt *statement = NULL;
    enum status status = STATUS_OK;
    if (sqlite3_prepare_v2(
            database->sqlite,
            "INSERT INTO sweeps(name, definition, hash) VALUES(?1, ?2, ?3) ON CONFLICT(hash) DO UPDATE SET "
            "name = name RETURNING id",
            -1, &statement, NULL) != SQLITE_OK) {
        return database_fail(database, STATUS_BAD_INPUT, error);
    }
    database_bind(statement, 1, sweep->name);
    database_bind(statement, 2, definition);
    database_bind(statement, 3, hash);
    if (sqlite3_step(statement) == SQLITE_ROW) {
        *id = sqlite3_column_int64(statement, 0);
    } else {
        status = database_fail(database, STATUS_IO, error);
    }
    (void)sqlite3_finalize(statement);
    return status;
}

enum status sweep_database_enter(struct sweep_database *database, const struct sweep *sweep, int64_t *id,
                                 struct error *error)
{
    struct strbuf definition = { 0 }, view = { 0 };
    char text[HASH_TEXT_BYTES];
    struct hash hash = hash_start();
    print_definition(sweep, &definition);
    if (definition.failed) {
        strbuf_free(&definition);
        return error_set(error, STATUS_NO_MEMORY, "out of memory");
    }
    hash_text_field(&hash, sweep->name);
    hash_text_field(&hash, definition.text);
    enum status status = sweep_database_begin(database, error);
    if (status == STATUS_OK) {
        status = insert_sweep(database, sweep, definition.text, hash_text(&hash, text), id, error);
    }
    if (status == STATUS_OK) {
        print_view(sweep, *id, &view);
        status = view.failed ? error_set(error, STATUS_NO_MEMORY, "out of memory")
                             : database_run(database, view.text, error);
    }
    if (status == STATUS_OK) {
        status = sweep_database_commit(database, error);
    }
    strbuf_free(&view);
    strbuf_free(&definition);
    return status;
}
