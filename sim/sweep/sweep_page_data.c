#include "sim/sweep/sweep_page_data.h"

#include <inttypes.h>
#include <math.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/array.h"
#include "sim/base/check.h"
#include "sim/base/json_write.h"
#include "sim/core/quantile.h"
#include "sim/sweep/sweep_query.h"

enum { BEST_ROWS = 15, FRONT_ROWS = 200, SQL_BYTES = 400, VALUE_BYTES = 64 };

struct page_reader {
    struct sweep_database *database;
    sqlite3 *sqlite;
    struct sweep_page_data *data;
    struct error *error;
};

static enum status fail(const struct page_reader *r)
{
    return error_set(r->error, STATUS_BAD_INPUT, "the database cannot be read: %s", sqlite3_errmsg(r->sqlite));
}

/* Parameter 1 is the version. */
static enum status prepare(const struct page_reader *r, const char *sql, sqlite3_stmt **statement)
{
    if (sqlite3_prepare_v2(r->sqlite, sql, -1, statement, NULL) != SQLITE_OK) {
        return fail(r);
    }
    (void)sqlite3_bind_text(*statement, 1, sweep_database_version(r->database), -1, SQLITE_STATIC);
    return STATUS_OK;
}

/* Ends a statement after its last step. */
static enum status finish(const struct page_reader *r, sqlite3_stmt *statement, int code, enum status status)
{
    if (status == STATUS_OK && code != SQLITE_DONE) {
        status = fail(r);
    }
    (void)sqlite3_finalize(statement);
    return status;
}

static const char *column_text(sqlite3_stmt *statement, int column)
{
    const char *text = (const char *)sqlite3_column_text(statement, column);
    return text != NULL ? text : "";
}

static const char *keep(const struct page_reader *r, const char *text)
{
    const char *kept = arena_text(&r->data->arena, text);
    return kept != NULL ? kept : "";
}

/* --- which sweep */

static enum status complain_of_many(const struct page_reader *r, sqlite3_stmt *statement, int64_t wanted)
{
    struct strbuf list = { 0 };
    uint32_t count = 0;
    (void)sqlite3_reset(statement);
    while (sqlite3_step(statement) == SQLITE_ROW && count++ < 8) {
        strbuf_printf(&list, "%s%" PRId64 " (%.60s)", count > 1 ? ", " : "",
                      (int64_t)sqlite3_column_int64(statement, 0), column_text(statement, 1));
    }
    (void)sqlite3_finalize(statement);
    enum status status =
        wanted != 0         ? error_at(r->error, STATUS_BAD_INPUT, "--sweep", NULL,
                                       "there is no sweep %" PRId64 " in this database; it holds %s", wanted,
                               list.text != NULL ? list.text : "none")
        : list.text == NULL ? error_set(r->error, STATUS_BAD_INPUT, "no sweep has written to this database")
                            : error_set(r->error, STATUS_BAD_INPUT,
                                        "the database holds several sweeps: choose with --sweep ID from %s", list.text);
    strbuf_free(&list);
    return status;
}

static enum status find_sweep(struct page_reader *r, int64_t wanted)
{
    struct sweep_page_data *data = r->data;
    sqlite3_stmt *statement = NULL;
    uint32_t found = 0;
    int code;
    struct strbuf definition = { 0 };
    TRY(prepare(r, "SELECT id, name, definition, hash FROM sweeps WHERE ?1 = ?1 ORDER BY id", &statement));
    while ((code = sqlite3_step(statement)) == SQLITE_ROW) {
        if (wanted == 0 || wanted == sqlite3_column_int64(statement, 0)) {
            found++;
            data->sweep = sqlite3_column_int64(statement, 0);
            data->name = keep(r, column_text(statement, 1));
            data->hash = keep(r, column_text(statement, 3));
            definition.length = 0;
            strbuf_append(&definition, column_text(statement, 2));
        }
    }
    if (code == SQLITE_DONE && found != 1) {
        strbuf_free(&definition);
        return complain_of_many(r, statement, wanted);
    }
    enum status status = finish(r, statement, code, STATUS_OK);
    if (status == STATUS_OK) {
        status = json_parse(&data->definition, definition.text != NULL ? definition.text : "", definition.length,
                            "the sweep's definition", r->error);
    }
    strbuf_free(&definition);
    return status;
}

/* --- counts */

static enum status count_rows(struct page_reader *r)
{
    struct sweep_page_data *data = r->data;
    char sql[SQL_BYTES];
    sqlite3_stmt *statement = NULL;
    int code;
    snprintf(sql, sizeof sql, "SELECT status, version = ?1, count(*) FROM sweep_%" PRId64 " GROUP BY 1, 2",
             data->sweep);
    TRY(prepare(r, sql, &statement));
    while ((code = sqlite3_step(statement)) == SQLITE_ROW) {
        int64_t count = sqlite3_column_int64(statement, 2);
        if (sqlite3_column_int(statement, 1) == 0) {
            data->other_versions += count;
            continue;
        }
        data->rows += count;
        for (int i = 0; i < SWEEP_STATUS_COUNT; i++) {
            data->counts[i] +=
                strcmp(column_text(statement, 0), sweep_status_word((enum sweep_status)i)) == 0 ? count : 0;
        }
    }
    TRY(finish(r, statement, code, STATUS_OK));
    if (data->rows == 0) {
        return error_set(r->error, STATUS_BAD_INPUT,
                         data->other_versions > 0
                             ? "all %" PRId64 " rows of this sweep are of other versions of memwall (or other "
                               "--plugin files) than %s: name the plug-ins that it was made with, or run it again"
                             : "this sweep has no rows yet (%" PRId64 " of memwall %s): run it first",
                         data->other_versions, sweep_database_version(r->database));
    }
    return STATUS_OK;
}

static enum status read_points(struct page_reader *r)
{
    char sql[SQL_BYTES];
    sqlite3_stmt *statement = NULL;
    enum status status = STATUS_OK;
    int code;
    snprintf(sql, sizeof sql,
             "SELECT step_time_s, peak_bytes FROM sweep_%" PRId64
             " WHERE version = ?1 AND status = 'done' AND step_time_s > 0 AND peak_bytes > 0 ORDER BY point",
             r->data->sweep);
    TRY(prepare(r, sql, &statement));
    while ((code = sqlite3_step(statement)) == SQLITE_ROW && status == STATUS_OK) {
        const struct sweep_point point = { sqlite3_column_double(statement, 0), sqlite3_column_double(statement, 1) };
        if (!isfinite(point.step_s) || !isfinite(point.peak_bytes)) {
            continue; /* no figure of ours, but any client may have written to the file */
        }
        status = array_reserve(&r->data->points, 1, r->error);
        if (status == STATUS_OK) {
            r->data->points.items[r->data->points.count++] = point;
        }
    }
    return finish(r, statement, code, status);
}

/* --- what the axes do */

/* The view's columns between "point" and "version". */
static enum status find_axes(struct page_reader *r)
{
    struct sweep_page_data *data = r->data;
    char sql[SQL_BYTES];
    sqlite3_stmt *statement = NULL;
    snprintf(sql, sizeof sql, "SELECT * FROM sweep_%" PRId64 " WHERE ?1 = ?1 LIMIT 0", data->sweep);
    TRY(prepare(r, sql, &statement));
    int columns = sqlite3_column_count(statement);
    data->axes = arena_array(&data->arena, struct sweep_axis_effects, (size_t)columns + 1);
    for (int i = 1; data->axes != NULL && i < columns && strcmp(sqlite3_column_name(statement, i), "version") != 0;
         i++) {
        data->axes[data->axis_count++].name = keep(r, sqlite3_column_name(statement, i));
    }
    (void)sqlite3_finalize(statement);
    return data->axes != NULL ? STATUS_OK : error_set(r->error, STATUS_NO_MEMORY, "out of memory for the report");
}

/* The rows of one value, while they come. */
struct gathering {
    struct sweep_effect effect;
    char value[VALUE_BYTES];
    struct {
        double *items;
        size_t count, capacity;
    } figures;
    double log_sum, log_squares; /* of this value */
    double all_sum, all_squares, between;
    int64_t all;
};

static void end_value(const struct page_reader *r, struct sweep_axis_effects *axis, struct gathering *g)
{
    struct sweep_effect *effect = &g->effect;
    size_t done = g->figures.count;
    effect->done = (int64_t)done;
    effect->least = effect->median = effect->best = NAN;
    if (done > 0) {
        quantile_sort(g->figures.items, done);
        effect->least = g->figures.items[0];
        effect->best = g->figures.items[done - 1];
        effect->median = quantile_of(g->figures.items, done, 0.5);
        g->between += g->log_sum * g->log_sum / (double)done;
        g->all_sum += g->log_sum;
        g->all_squares += g->log_squares;
        g->all += effect->done;
    }
    if (axis->effect_count < SWEEP_EFFECTS_MAX) {
        effect->value = keep(r, g->value);
        axis->effects[axis->effect_count++] = *effect;
    }
    axis->values++;
    g->figures.count = 0;
    g->log_sum = g->log_squares = 0;
    g->effect = (struct sweep_effect){ .peak_least = NAN };
}

static enum status add_value(const struct page_reader *r, struct gathering *g, sqlite3_stmt *statement)
{
    g->effect.rows++;
    double figure = sqlite3_column_double(statement, 2), peak = sqlite3_column_double(statement, 3);
    if (sqlite3_column_int(statement, 1) == 0 || !(figure > 0 && isfinite(figure))) {
        return STATUS_OK;
    }
    TRY(array_reserve(&g->figures, 1, r->error));
    g->figures.items[g->figures.count++] = figure;
    g->log_sum += log(figure);
    g->log_squares += log(figure) * log(figure);
    g->effect.peak_least = peak > g->effect.peak_least ? g->effect.peak_least : peak;
    return STATUS_OK;
}

static void value_text(sqlite3_stmt *statement, char text[VALUE_BYTES])
{
    char number[32];
    bool real = sqlite3_column_type(statement, 0) == SQLITE_FLOAT;
    snprintf(text, VALUE_BYTES, "%.60s",
             real ? text_real(sqlite3_column_double(statement, 0), number, sizeof number) : column_text(statement, 0));
}

static enum status read_axis(const struct page_reader *r, struct sweep_axis_effects *axis)
{
    char sql[SQL_BYTES], value[VALUE_BYTES];
    sqlite3_stmt *statement = NULL;
    struct gathering g = { .effect = { .peak_least = NAN } };
    enum status status = STATUS_OK;
    int code;
    snprintf(sql, sizeof sql,
             "SELECT \"%.60s\", status = 'done', tokens_per_s, peak_bytes FROM sweep_%" PRId64
             " WHERE version = ?1 ORDER BY 1",
             axis->name, r->data->sweep);
    TRY(prepare(r, sql, &statement));
    while ((code = sqlite3_step(statement)) == SQLITE_ROW && status == STATUS_OK) {
        value_text(statement, value);
        if (g.effect.rows > 0 && strcmp(value, g.value) != 0) {
            end_value(r, axis, &g);
        }
        snprintf(g.value, sizeof g.value, "%s", value);
        status = add_value(r, &g, statement);
    }
    if (g.effect.rows > 0) {
        end_value(r, axis, &g);
    }
    double mean_part = g.all > 0 ? g.all_sum * g.all_sum / (double)g.all : 0, spread = g.all_squares - mean_part;
    axis->explained = spread > 1e-12 * g.all_squares ? fmin(fmax((g.between - mean_part) / spread, 0), 1) : NAN;
    array_free(&g.figures);
    return finish(r, statement, code, status);
}

/* --- rows as the query prints them */

static enum status read_rows(struct page_reader *r, const char *by, const char *pareto, uint64_t top,
                             struct json_document **document)
{
    const struct sweep_query query = {
        .sweep = r->data->sweep, .by = by, .pareto = pareto, .top = top, .format = SWEEP_JSON
    };
    struct strbuf out = { 0 }, notes = { 0 };
    uint64_t rows;
    enum status status = sweep_query_print(r->database, &query, &out, &rows, &notes, r->error);
    if (status == STATUS_OK) {
        status = json_parse(document, out.text != NULL ? out.text : "[]", out.length, "rows of the sweep", r->error);
    }
    strbuf_free(&out);
    strbuf_free(&notes);
    return status;
}

enum status sweep_page_data_read(struct sweep_page_data *data, struct sweep_database *database, int64_t sweep,
                                 struct error *error)
{
    *data = (struct sweep_page_data){ 0 };
    struct page_reader r = {
        .database = database, .sqlite = sweep_database_handle(database), .data = data, .error = error
    };
    enum status status;
    TRY_OR_FAIL(find_sweep(&r, sweep));
    TRY_OR_FAIL(count_rows(&r));
    TRY_OR_FAIL(sweep_reasons_read(&data->reasons, database, data->sweep, &data->arena, error));
    TRY_OR_FAIL(read_points(&r));
    TRY_OR_FAIL(find_axes(&r));
    for (uint32_t i = 0; i < data->axis_count; i++) {
        TRY_OR_FAIL(read_axis(&r, &data->axes[i]));
    }
    TRY_OR_FAIL(read_rows(&r, NULL, NULL, BEST_ROWS, &data->best));
    TRY_OR_FAIL(read_rows(&r, "peak_bytes", NULL, 1, &data->leanest));
    TRY_OR_FAIL(read_rows(&r, "cost", NULL, 1, &data->cheapest));
    if (data->points.count > 0) {
        TRY_OR_FAIL(read_rows(&r, "step_time_s", "step_time_s,peak_bytes", FRONT_ROWS, &data->front));
    }
    return STATUS_OK;
fail:
    sweep_page_data_free(data);
    return status;
}

void sweep_page_data_free(struct sweep_page_data *data)
{
    json_free(data->definition);
    json_free(data->best);
    json_free(data->front);
    json_free(data->leanest);
    json_free(data->cheapest);
    array_free(&data->points);
    arena_free(&data->arena);
    *data = (struct sweep_page_data){ 0 };
}
