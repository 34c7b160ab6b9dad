#include "sim/sweep/sweep_query.h"

#include <ctype.h>
#include <inttypes.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>

#include "sim/base/array.h"
#include "sim/base/check.h"
#include "sim/base/json.h"
#include "sim/sweep/sweep_rows.h"

enum { PARETO_MAX = 8, SOURCE_BYTES = 48 };

struct reader {
    struct sweep_database *database;
    sqlite3 *sqlite;
    const struct sweep_query *query;
    char source[SOURCE_BYTES]; /* "sweep_1" or "results" */
    uint64_t asked;            /* a bit a figure that --by or --pareto names */
    struct strbuf *notes;
    struct error *error;
};

static enum status fail(const struct reader *r, const char *flag)
{
    return error_at(r->error, STATUS_BAD_INPUT, flag, NULL, "%s", sqlite3_errmsg(r->sqlite));
}

/* Whether `word` stands in `text`, capitals aside, and not within another word or quotes of its own. */
static bool names_word(const char *text, const char *word)
{
    size_t length = strlen(word);
    for (const char *at = text; *at != '\0'; at++) {
        bool begins = at == text || !(isalnum((unsigned char)at[-1]) || strchr("_\"'", at[-1]) != NULL);
        if (begins && sqlite3_strnicmp(at, word, (int)length) == 0 && !isalnum((unsigned char)at[length]) &&
            at[length] != '_') {
            return true;
        }
    }
    return false;
}

/* Axes may be called as words of SQL ("order"): said when --where, which is not understood, has one. */
static enum status fail_where(const struct reader *r)
{
    char why[256], sql[128];
    sqlite3_stmt *statement = NULL;
    snprintf(why, sizeof why, "%s", sqlite3_errmsg(r->sqlite));
    snprintf(sql, sizeof sql, "SELECT name FROM pragma_table_info('%s')", r->source);
    enum status status = error_at(r->error, STATUS_BAD_INPUT, "--where", NULL, "%s", why);
    if (sqlite3_prepare_v2(r->sqlite, sql, -1, &statement, NULL) == SQLITE_OK) {
        while (sqlite3_step(statement) == SQLITE_ROW) {
            const char *column = (const char *)sqlite3_column_text(statement, 0);
            if (sqlite3_keyword_check(column, (int)strlen(column)) != 0 && names_word(r->query->where, column)) {
                status = error_at(r->error, STATUS_BAD_INPUT, "--where", NULL,
                                  "%s; %s is a word of SQL too: write \"%s\" in double quotes", why, column, column);
            }
        }
    }
    (void)sqlite3_finalize(statement);
    return status;
}

/* One statement that only reads, with the version as its first parameter. */
static enum status prepare(const struct reader *r, const char *sql, const char *flag, sqlite3_stmt **statement)
{
    const char *rest = "";
    if (sqlite3_prepare_v2(r->sqlite, sql, -1, statement, &rest) != SQLITE_OK) {
        return strcmp(flag, "--where") == 0 ? fail_where(r) : fail(r, flag);
    }
    if (*statement == NULL || rest[strspn(rest, " \t\r\n;")] != '\0' || !sqlite3_stmt_readonly(*statement)) {
        (void)sqlite3_finalize(*statement);
        *statement = NULL;
        return error_at(r->error, STATUS_BAD_INPUT, flag, NULL, "expected one SQL expression");
    }
    (void)sqlite3_bind_text(*statement, 1, sweep_database_version(r->database), -1, SQLITE_STATIC);
    return STATUS_OK;
}

/* --where on its own: what is an expression only between our parentheses, as "1) OR (1", or waits for a value, is none. */
static enum status check_where(const struct reader *r)
{
    struct strbuf sql = { 0 };
    sqlite3_stmt *statement = NULL;
    if (r->query->where == NULL) {
        return STATUS_OK;
    }
    strbuf_printf(&sql, "SELECT 1 FROM %s WHERE %s\n", r->source, r->query->where);
    enum status status = sql.failed ? error_set(r->error, STATUS_NO_MEMORY, "out of memory")
                                    : prepare(r, sql.text, "--where", &statement);
    if (status == STATUS_OK && sqlite3_bind_parameter_count(statement) > 0) {
        status = error_at(r->error, STATUS_BAD_INPUT, "--where", NULL,
                          "\"%s\" has no value here: write the value itself, texts in ' '",
                          sqlite3_bind_parameter_name(statement, 1) != NULL ? sqlite3_bind_parameter_name(statement, 1)
                                                                            : "?");
    }
    (void)sqlite3_finalize(statement);
    strbuf_free(&sql);
    return status;
}

static enum status read_integer(const struct reader *r, const char *sql, int64_t *value)
{
    sqlite3_stmt *statement = NULL;
    TRY(prepare(r, sql, "--db", &statement));
    *value = sqlite3_step(statement) == SQLITE_ROW ? sqlite3_column_int64(statement, 0) : 0;
    (void)sqlite3_finalize(statement);
    return STATUS_OK;
}

static enum status find_source(struct reader *r)
{
    int64_t sweep = r->query->sweep, count, others;
    char sql[160];
    TRY(read_integer(r, "SELECT count(*) FROM sweeps WHERE ?1 = ?1", &count));
    if (sweep == 0 && count == 1) {
        TRY(read_integer(r, "SELECT id FROM sweeps WHERE ?1 = ?1", &sweep));
    }
    snprintf(r->source, sizeof r->source, "results");
    if (sweep != 0) {
        int64_t found;
        snprintf(sql, sizeof sql,
                 "SELECT count(*) FROM sqlite_master WHERE type = 'view' AND name = 'sweep_%" PRId64 "' AND ?1 = ?1",
                 sweep);
        TRY(read_integer(r, sql, &found));
        if (found == 0) {
            return error_at(r->error, STATUS_BAD_INPUT, "--sweep", NULL,
                            "there is no sweep %" PRId64 " in this database; it holds %" PRId64
                            " (SELECT id, name FROM sweeps)",
                            sweep, count);
        }
        snprintf(r->source, sizeof r->source, "sweep_%" PRId64, sweep);
    } else if (count > 1) {
        strbuf_printf(
            r->notes,
            "the database holds %" PRId64 " sweeps: all their results, without axes; --sweep ID chooses one\n", count);
    }
    TRY(read_integer(r, "SELECT count(*) FROM results WHERE version <> ?1", &others));
    if (others > 0) {
        strbuf_printf(r->notes,
                      "%" PRId64 " rows of other versions of memwall (or other --plugin files) are not looked at\n",
                      others);
    }
    return STATUS_OK;
}

static enum status find_figure(struct reader *r, const char *flag, const char *name, enum sweep_figure *figure)
{
    const char *known[SWEEP_FIGURE_COUNT];
    const char *wanted = strcmp(name, "cost") == 0 ? "cost_usd_per_trillion_tokens" : name;
    for (int i = 0; i < SWEEP_FIGURE_COUNT; i++) {
        known[i] = sweep_figures[i].name;
        if (strcmp(wanted, known[i]) == 0) {
            *figure = (enum sweep_figure)i;
            if (sweep_figures[i].better == 0) {
                return error_at(r->error, STATUS_BAD_INPUT, flag, NULL, "%s is neither better high nor low", known[i]);
            }
            r->asked |= UINT64_C(1) << i;
            return STATUS_OK;
        }
    }
    const char *near = nearest_word(wanted, known, SWEEP_FIGURE_COUNT);
    return error_at(r->error, STATUS_BAD_INPUT, flag, NULL,
                    "there is no figure \"%.64s\"%s%s%s (memwall sweep --schema lists them)", name,
                    near != NULL ? "; did you mean \"" : "", near != NULL ? near : "", near != NULL ? "\"?" : "");
}

static void append_where(const struct reader *r, struct strbuf *sql)
{
    strbuf_printf(sql, " FROM %s WHERE version = ?1", r->source);
    if (r->query->where != NULL) {
        strbuf_printf(sql, " AND (%s\n)", r->query->where);
    }
}

/* --- the Pareto front */

struct candidate {
    char hash[HASH_TEXT_BYTES];
    double costs[PARETO_MAX]; /* less is better */
};

struct front {
    enum sweep_figure figures[PARETO_MAX];
    uint32_t figure_count;
    struct {
        struct candidate *items;
        size_t count, capacity;
    } all, kept;
};

static enum status read_figures(struct reader *r, struct front *front)
{
    char text[256];
    if (snprintf(text, sizeof text, "%s", r->query->pareto) >= (int)sizeof text) {
        return error_at(r->error, STATUS_BAD_INPUT, "--pareto", NULL, "the list is too long");
    }
    char *rest = NULL;
    for (char *name = strtok_r(text, ", ", &rest); name != NULL; name = strtok_r(NULL, ", ", &rest)) {
        enum sweep_figure figure;
        int64_t count;
        char sql[200];
        TRY(find_figure(r, "--pareto", name, &figure));
        snprintf(sql, sizeof sql, "SELECT count(%s) FROM %s WHERE version = ?1", sweep_figures[figure].name, r->source);
        TRY(read_integer(r, sql, &count));
        if (count == 0) {
            strbuf_printf(r->notes, "--pareto: no row has %s: it is left out\n", sweep_figures[figure].name);
            continue;
        }
        if (front->figure_count == PARETO_MAX) {
            return error_at(r->error, STATUS_BAD_INPUT, "--pareto", NULL, "at most %d figures", PARETO_MAX);
        }
        front->figures[front->figure_count++] = figure;
    }
    return front->figure_count > 0
               ? STATUS_OK
               : error_at(r->error, STATUS_BAD_INPUT, "--pareto", NULL, "no figure is left to compare by");
}

static bool beats(const struct candidate *a, const struct candidate *b, uint32_t count)
{
    bool less = false;
    for (uint32_t i = 0; i < count; i++) {
        if (a->costs[i] > b->costs[i]) {
            return false;
        }
        less = less || a->costs[i] < b->costs[i];
    }
    return less;
}

static enum status read_candidates(struct reader *r, struct front *front)
{
    struct strbuf sql = { 0 };
    sqlite3_stmt *statement = NULL;
    strbuf_append(&sql, "SELECT DISTINCT hash");
    for (uint32_t i = 0; i < front->figure_count; i++) {
        const struct sweep_figure_info *info = &sweep_figures[front->figures[i]];
        strbuf_printf(&sql, ", %s%s", info->better > 0 ? "-" : "", info->name);
    }
    append_where(r, &sql);
    strbuf_append(&sql, " AND status = 'done'");
    for (uint32_t i = 0; i < front->figure_count; i++) {
        strbuf_printf(&sql, " AND %s IS NOT NULL", sweep_figures[front->figures[i]].name);
    }
    strbuf_append(&sql, " ORDER BY 2, hash");
    enum status status = sql.failed ? error_set(r->error, STATUS_NO_MEMORY, "out of memory")
                                    : prepare(r, sql.text, "--where", &statement);
    strbuf_free(&sql);
    TRY(status);
    int code;
    while ((code = sqlite3_step(statement)) == SQLITE_ROW && status == STATUS_OK) {
        struct candidate candidate;
        const char *hash = (const char *)sqlite3_column_text(statement, 0);
        snprintf(candidate.hash, sizeof candidate.hash, "%s", hash != NULL ? hash : "");
        for (uint32_t i = 0; i < front->figure_count; i++) {
            candidate.costs[i] = sqlite3_column_double(statement, (int)i + 1);
        }
        status = array_reserve(&front->all, 1, r->error);
        if (status == STATUS_OK) {
            front->all.items[front->all.count++] = candidate;
        }
    }
    (void)sqlite3_finalize(statement);
    return status == STATUS_OK && code != SQLITE_DONE ? fail(r, "--where") : status;
}

/* Rising in the first figure: a row can be beaten by earlier ones, and by equals in the first figure that follow. */
static enum status keep_front(struct reader *r, struct front *front)
{
    for (size_t i = 0; i < front->all.count; i++) {
        const struct candidate *candidate = &front->all.items[i];
        bool beaten = false;
        for (size_t k = front->kept.count; k-- > 0 && !beaten;) {
            beaten = beats(&front->kept.items[k], candidate, front->figure_count);
        }
        for (size_t k = i + 1; k < front->all.count && !beaten && front->all.items[k].costs[0] == candidate->costs[0];
             k++) {
            beaten = beats(&front->all.items[k], candidate, front->figure_count);
        }
        if (!beaten) {
            TRY(array_reserve(&front->kept, 1, r->error));
            front->kept.items[front->kept.count++] = *candidate;
        }
    }
    return STATUS_OK;
}

/* Leaves the front's hashes in the temporary table pareto. */
static enum status store_front(struct reader *r, const struct front *front)
{
    sqlite3_stmt *insert = NULL;
    if (sqlite3_exec(r->sqlite, "DROP TABLE IF EXISTS temp.pareto; CREATE TEMP TABLE pareto(hash TEXT PRIMARY KEY)",
                     NULL, NULL, NULL) != SQLITE_OK ||
        sqlite3_prepare_v2(r->sqlite, "INSERT OR IGNORE INTO temp.pareto VALUES(?1)", -1, &insert, NULL) != SQLITE_OK) {
        return fail(r, "--pareto");
    }
    for (size_t i = 0; i < front->kept.count; i++) {
        (void)sqlite3_bind_text(insert, 1, front->kept.items[i].hash, -1, SQLITE_STATIC);
        (void)sqlite3_step(insert);
        (void)sqlite3_reset(insert);
    }
    (void)sqlite3_finalize(insert);
    return STATUS_OK;
}

static enum status find_front(struct reader *r)
{
    struct front front = { 0 };
    enum status status = read_figures(r, &front);
    if (status == STATUS_OK) {
        status = read_candidates(r, &front);
    }
    if (status == STATUS_OK) {
        status = keep_front(r, &front);
    }
    if (status == STATUS_OK) {
        status = store_front(r, &front);
    }
    array_free(&front.all);
    array_free(&front.kept);
    return status;
}

enum status sweep_query_print(struct sweep_database *database, const struct sweep_query *query, struct strbuf *out,
                              uint64_t *rows, struct strbuf *notes, struct error *error)
{
    struct reader r = {
        .database = database, .sqlite = sweep_database_handle(database), .query = query, .notes = notes, .error = error
    };
    struct strbuf sql = { 0 };
    enum sweep_figure by = FIGURE_tokens_per_s;
    sqlite3_stmt *statement = NULL;
    TRY(find_source(&r));
    TRY(check_where(&r));
    if (query->by != NULL) {
        TRY(find_figure(&r, "--by", query->by, &by));
    }
    if (query->pareto != NULL) {
        TRY(find_front(&r));
    }
    strbuf_append(&sql, "SELECT *");
    append_where(&r, &sql);
    if (query->pareto != NULL) {
        strbuf_append(&sql, " AND hash IN (SELECT hash FROM temp.pareto)");
    }
    bool ranked = query->top > 0 || query->by != NULL || query->pareto != NULL;
    if (ranked) {
        strbuf_printf(&sql, " AND status = 'done' ORDER BY %s %s NULLS LAST, ", sweep_figures[by].name,
                      sweep_figures[by].better > 0 ? "DESC" : "ASC");
    } else {
        strbuf_append(&sql, " ORDER BY ");
    }
    strbuf_append(&sql, strcmp(r.source, "results") == 0 ? "hash" : "point");
    if (query->top > 0) {
        strbuf_printf(&sql, " LIMIT %" PRIu64, query->top);
    }
    enum status status = sql.failed ? error_set(error, STATUS_NO_MEMORY, "out of memory")
                                    : prepare(&r, sql.text, query->where != NULL ? "--where" : "--db", &statement);
    strbuf_free(&sql);
    if (status == STATUS_OK) {
        if (sweep_rows_print(statement, query->format, r.asked, out, rows) != SQLITE_DONE) {
            status = fail(&r, query->where != NULL ? "--where" : "--db");
        } else if (out->failed) {
            status = error_set(error, STATUS_NO_MEMORY, "out of memory");
        }
        (void)sqlite3_finalize(statement);
    }
    return status;
}
