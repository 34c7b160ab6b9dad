#include "sim/sweep/sweep_database.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/check.h"
#include "sim/base/file.h"
#include "sim/sweep/sweep_database_internal.h"

enum { APPLICATION_ID = 0x6d77616c /* "mwal" */, FORMAT_VERSION = 2, WAIT_MS = 60000 };

struct sqlite3 *sweep_database_handle(struct sweep_database *database)
{
    return database->sqlite;
}

const char *sweep_database_version(const struct sweep_database *database)
{
    return database->version;
}

static void results_table(struct strbuf *out)
{
    strbuf_append(out, "-- One row a scenario and version of memwall. status: done, does_not_fit (reason says why; the "
                       "figures are those with memory to spare, NULL where the memory policy sees no way at all), "
                       "error (reason; no figures).\n"
                       "CREATE TABLE IF NOT EXISTS results(\n"
                       "  version TEXT NOT NULL, -- of memwall, and a digest of what decides results\n"
                       "  hash TEXT NOT NULL, -- of the scenario and the machine, model and software files it names\n"
                       "  status TEXT NOT NULL CHECK(status IN ('done', 'does_not_fit', 'error')),\n"
                       "  reason TEXT, -- NULL when done\n"
                       "  error_kind TEXT, -- of errors; 'out of memory', 'input/output error' and 'execution failed' "
                       "are tried again\n"
                       "  scenario TEXT NOT NULL, -- memwall run reads it; the base scenario where a point has none of "
                       "its own (error)\n"
                       "  schedule_hash TEXT,\n"
                       "  bound TEXT, -- what binds most\n"
                       "  traffic TEXT, -- JSON: bytes of a step by kind of link\n");
    for (int i = 0; i < SWEEP_FIGURE_COUNT; i++) {
        strbuf_printf(out, "  %s %s, -- %s\n", sweep_figures[i].name, sweep_figures[i].whole ? "INTEGER" : "REAL",
                      sweep_figures[i].help);
    }
    strbuf_append(out, "  PRIMARY KEY(version, hash)) WITHOUT ROWID;\n");
}

void sweep_database_schema(struct strbuf *out)
{
    results_table(out);
    strbuf_append(
        out,
        "-- The sweeps that wrote here. definition: JSON of base, axes and conditions.\n"
        "CREATE TABLE IF NOT EXISTS sweeps(id INTEGER PRIMARY KEY, name TEXT NOT NULL, definition TEXT NOT NULL, hash "
        "TEXT NOT NULL UNIQUE);\n"
        "-- The points of a sweep: which result is theirs, and the axes' values as a JSON object.\n"
        "CREATE TABLE IF NOT EXISTS points(\n"
        "  sweep INTEGER NOT NULL, point INTEGER NOT NULL, version TEXT NOT NULL, hash TEXT NOT NULL, axes TEXT NOT "
        "NULL,\n"
        "  PRIMARY KEY(sweep, version, point)) WITHOUT ROWID;\n"
        "-- And a view a sweep, sweep_ID: point, the axes as columns (axis_NAME where the name is taken), then the "
        "columns of results.\n");
}

enum status database_fail(const struct sweep_database *database, enum status status, struct error *error)
{
    return error_at(error, status, database->file, NULL, "%s",
                    database->sqlite != NULL ? sqlite3_errmsg(database->sqlite) : "out of memory");
}

enum status database_run(struct sweep_database *database, const char *sql, struct error *error)
{
    int code = sqlite3_exec(database->sqlite, sql, NULL, NULL, NULL);
    if (code == SQLITE_OK) {
        return STATUS_OK;
    }
    if (code == SQLITE_NOTADB || code == SQLITE_CORRUPT) {
        return error_at(error, STATUS_BAD_INPUT, database->file, NULL,
                        "is no database, or a damaged one (%s): move it away, or name another with --db",
                        sqlite3_errmsg(database->sqlite));
    }
    return database_fail(database, code == SQLITE_NOMEM ? STATUS_NO_MEMORY : STATUS_IO, error);
}

static enum status read_integer(struct sweep_database *database, const char *sql, int64_t *value, struct error *error)
{
    sqlite3_stmt *statement = NULL;
    TRY(database_run(database, "SELECT count(*) FROM sqlite_master", error)); /* damaged files say so here */
    if (sqlite3_prepare_v2(database->sqlite, sql, -1, &statement, NULL) != SQLITE_OK ||
        sqlite3_step(statement) != SQLITE_ROW) {
        (void)sqlite3_finalize(statement);
        return database_fail(database, STATUS_BAD_INPUT, error);
    }
    *value = sqlite3_column_int64(statement, 0);
    (void)sqlite3_finalize(statement);
    return STATUS_OK;
}

/* A file may be anybody's: figures are numbers, not negative, or absent; and neither so large nor so small that the ratio of two overflows, which charts divide. */
static enum status check_figures(struct sweep_database *database, struct error *error)
{
    struct strbuf sql = { 0 };
    int64_t wrong = 0;
    strbuf_append(&sql, "SELECT count(*) FROM results WHERE 0");
    for (int i = 0; i < SWEEP_FIGURE_COUNT;
         i++) { /* SQLite: texts are above all numbers, and of nothing neither is true */
        strbuf_printf(&sql, " OR NOT (%s = 0 OR %s BETWEEN 1e-100 AND 1e100)", sweep_figures[i].name,
                      sweep_figures[i].name);
    }
    enum status status = sql.failed ? error_set(error, STATUS_NO_MEMORY, "out of memory opening a database")
                                    : read_integer(database, sql.text, &wrong, error);
    strbuf_free(&sql);
    TRY(status);
    return wrong == 0
               ? STATUS_OK
               : error_at(
                     error, STATUS_BAD_INPUT, database->file, NULL,
                     "is damaged: %" PRId64 " rows have figures that no simulation gives (text, negative, "
                     "infinite, next to nothing); delete those rows of the table results, or name another with --db",
                     wrong);
}

struct format {
    int64_t application, version, tables;
};

/* In one transaction: between two of them another process may make the tables. */
static enum status read_format(struct sweep_database *database, struct format *format, struct error *error)
{
    TRY(database_run(database, "BEGIN", error));
    enum status status = read_integer(database, "PRAGMA application_id", &format->application, error);
    if (status == STATUS_OK) {
        status = read_integer(database, "PRAGMA user_version", &format->version, error);
    }
    if (status == STATUS_OK) {
        status = read_integer(database, "SELECT count(*) FROM sqlite_master", &format->tables, error);
    }
    (void)sqlite3_exec(database->sqlite, "ROLLBACK", NULL, NULL, NULL); /* nothing was written */
    return status;
}

/* Ours, empty, or somebody else's. */
static enum status check_format(struct sweep_database *database, bool *empty, struct error *error)
{
    struct format format = { 0 };
    TRY(read_format(database, &format, error));
    *empty = format.tables == 0 && format.application == 0;
    if (*empty) {
        return STATUS_OK;
    }
    if (format.application != APPLICATION_ID) {
        return error_at(error, STATUS_BAD_INPUT, database->file, NULL,
                        "is a database of another program (application id %" PRId64 "): name another with --db",
                        format.application);
    }
    if (format.version != FORMAT_VERSION) {
        return error_at(error, STATUS_BAD_INPUT, database->file, NULL,
                        "is a sweep database of format %" PRId64
                        ", this memwall reads and writes format %d: name another with --db",
                        format.version, FORMAT_VERSION);
    }
    return STATUS_OK;
}

static enum status make_tables(struct sweep_database *database, struct error *error)
{
    struct strbuf sql = { 0 };
    strbuf_append(&sql, "BEGIN IMMEDIATE;\n");
    sweep_database_schema(&sql);
    strbuf_printf(&sql, "PRAGMA application_id = %d; PRAGMA user_version = %d; COMMIT;", APPLICATION_ID,
                  FORMAT_VERSION);
    enum status status =
        sql.failed ? error_set(error, STATUS_NO_MEMORY, "out of memory") : database_run(database, sql.text, error);
    strbuf_free(&sql);
    return status;
}

static enum status prepare(struct sweep_database *database, enum statement which, const char *sql, struct error *error)
{
    return sqlite3_prepare_v3(database->sqlite, sql, -1, SQLITE_PREPARE_PERSISTENT, &database->statements[which],
                              NULL) == SQLITE_OK
               ? STATUS_OK
               : database_fail(database, STATUS_BAD_INPUT, error);
}

static enum status prepare_all(struct sweep_database *database, struct error *error)
{
    struct strbuf sql = { 0 };
    enum { FIXED = 9 };
    strbuf_append(&sql, "INSERT OR REPLACE INTO results(version, hash, status, reason, error_kind, scenario, "
                        "schedule_hash, bound, traffic");
    for (int i = 0; i < SWEEP_FIGURE_COUNT; i++) {
        strbuf_printf(&sql, ", %s", sweep_figures[i].name);
    }
    strbuf_append(&sql, ") VALUES(?");
    for (int i = 1; i < FIXED + SWEEP_FIGURE_COUNT; i++) {
        strbuf_append(&sql, ", ?");
    }
    strbuf_append(&sql, ")");
    enum status status = sql.failed ? error_set(error, STATUS_NO_MEMORY, "out of memory")
                                    : prepare(database, STATEMENT_PUT_ROW, sql.text, error);
    strbuf_free(&sql);
    TRY(status);
    TRY(prepare(database, STATEMENT_PUT_POINT,
                "INSERT OR REPLACE INTO points(sweep, point, version, hash, axes) VALUES(?, ?, ?, ?, ?)", error));
    return prepare(
        database, STATEMENT_FIND,
        "SELECT status, tokens_per_s, step_time_s FROM results WHERE version = ? AND hash = ? AND "
        "(error_kind IS NULL OR error_kind NOT IN ('out of memory', 'input/output error', 'execution failed'))",
        error);
}

/* The change to write-ahead logging does not wait for others as everything else does: two sweeps may begin on a new file together. */
static enum status use_wal(struct sweep_database *database, struct error *error)
{
    enum { PAUSE_MS = 10 };
    for (int waited = 0; waited < WAIT_MS; waited += PAUSE_MS) {
        if (sqlite3_exec(database->sqlite, "PRAGMA journal_mode = WAL", NULL, NULL, NULL) != SQLITE_BUSY) {
            break;
        }
        (void)sqlite3_sleep(PAUSE_MS);
    }
    return database_run(database, "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL", error);
}

static enum status open_file(struct sweep_database **made, const char *file, const char *version, int flags,
                             struct error *error)
{
    struct sweep_database *database = calloc(1, sizeof *database);
    *made = NULL;
    if (database == NULL) {
        return error_set(error, STATUS_NO_MEMORY, "out of memory");
    }
    snprintf(database->file, sizeof database->file, "%s", file != NULL ? file : "memory");
    snprintf(database->version, sizeof database->version, "%s", version);
    enum status status = STATUS_OK;
    bool empty = false;
    if (file != NULL && (file[0] == '\0' || strcmp(file, ":memory:") == 0)) { /* SQLite would forget all at the end */
        status = error_set(error, STATUS_BAD_INPUT, "--db: \"%s\" names no file", file);
    } else if (sqlite3_open_v2(file != NULL ? file : ":memory:", &database->sqlite, flags | SQLITE_OPEN_NOMUTEX,
                               NULL) != SQLITE_OK) {
        status = database_fail(database, STATUS_BAD_INPUT, error);
    } else {
        (void)sqlite3_busy_timeout(database->sqlite, WAIT_MS);
        (void)sqlite3_db_config(database->sqlite, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
        /* "tensr" is a column that is missing, not a text. */
        (void)sqlite3_db_config(database->sqlite, SQLITE_DBCONFIG_DQS_DML, 0, NULL);
        status = check_format(database, &empty, error);
    }
    if (status == STATUS_OK && !empty) {
        status = check_figures(database, error);
    }
    bool writes = (flags & SQLITE_OPEN_READWRITE) != 0;
    if (status == STATUS_OK && writes) {
        status = use_wal(database, error);
    }
    if (status == STATUS_OK && writes) {
        status = make_tables(database, error);
    }
    if (status == STATUS_OK && writes) {
        status = prepare_all(database, error);
    }
    if (status == STATUS_OK && empty && !writes) {
        status = error_at(error, STATUS_BAD_INPUT, file, NULL, "is empty: no sweep has written to it");
    }
    if (status != STATUS_OK) {
        sweep_database_close(database);
        return status;
    }
    *made = database;
    return STATUS_OK;
}

enum status sweep_database_open(struct sweep_database **database, const char *file, const char *version,
                                struct error *error)
{
    return open_file(database, file, version, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, error);
}

enum status sweep_database_open_to_read(struct sweep_database **database, const char *file, const char *version,
                                        struct error *error)
{
    *database = NULL;
    if (file[0] != '\0' && !file_exists(file)) {
        return error_at(error, STATUS_NOT_FOUND, file, NULL, "there is no such database");
    }
    return open_file(database, file, version, SQLITE_OPEN_READONLY, error);
}

void sweep_database_close(struct sweep_database *database)
{
    if (database != NULL) {
        for (int i = 0; i < STATEMENT_COUNT; i++) {
            (void)sqlite3_finalize(database->statements[i]);
        }
        (void)sqlite3_close(database->sqlite);
        free(database);
    }
}

enum status sweep_database_begin(struct sweep_database *database, struct error *error)
{
    if (!database->in_transaction) {
        TRY(database_run(database, "BEGIN IMMEDIATE", error));
        database->in_transaction = true;
    }
    return STATUS_OK;
}

enum status sweep_database_commit(struct sweep_database *database, struct error *error)
{
    if (database->in_transaction) {
        TRY(database_run(database, "COMMIT", error));
        database->in_transaction = false;
    }
    return STATUS_OK;
}

static enum status finish(struct sweep_database *database, enum statement which, struct error *error)
{
    sqlite3_stmt *statement = database->statements[which];
    int code = sqlite3_step(statement);
    enum status status = code == SQLITE_DONE
                             ? STATUS_OK
                             : database_fail(database, code == SQLITE_CORRUPT ? STATUS_BAD_INPUT : STATUS_IO, error);
    (void)sqlite3_reset(statement);
    (void)sqlite3_clear_bindings(statement);
    return status;
}

void database_bind(sqlite3_stmt *statement, int index, const char *text)
{
    if (text != NULL && text[0] != '\0') {
        (void)sqlite3_bind_text(statement, index, text, -1, SQLITE_STATIC);
    }
}

enum status sweep_database_find(struct sweep_database *database, const char *hash, enum sweep_figure best, bool *found,
                                enum sweep_status *status, double *figure, struct error *error)
{
    sqlite3_stmt *statement = database->statements[STATEMENT_FIND];
    database_bind(statement, 1, database->version);
    database_bind(statement, 2, hash);
    int code = sqlite3_step(statement);
    *found = code == SQLITE_ROW;
    *figure = NAN;
    enum status result = *found || code == SQLITE_DONE ? STATUS_OK : database_fail(database, STATUS_IO, error);
    if (*found) {
        const char *word = (const char *)sqlite3_column_text(statement, 0);
        *status = SWEEP_ERROR;
        for (int i = 0; i < SWEEP_STATUS_COUNT; i++) {
            if (word != NULL && strcmp(word, sweep_status_word((enum sweep_status)i)) == 0) {
                *status = (enum sweep_status)i;
            }
        }
        int column = best == FIGURE_step_time_s ? 2 : 1;
        if (sqlite3_column_type(statement, column) != SQLITE_NULL) {
            *figure = sqlite3_column_double(statement, column);
        }
    }
    (void)sqlite3_reset(statement);
    return result;
}

enum status sweep_database_put_row(struct sweep_database *database, const char *hash, const char *scenario,
                                   const struct sweep_row *row, struct error *error)
{
    sqlite3_stmt *statement = database->statements[STATEMENT_PUT_ROW];
    int at = 0;
    database_bind(statement, ++at, database->version);
    database_bind(statement, ++at, hash);
    database_bind(statement, ++at, sweep_status_word(row->status));
    database_bind(statement, ++at, row->reason);
    database_bind(statement, ++at, row->status == SWEEP_ERROR ? status_word(row->error) : NULL);
    database_bind(statement, ++at, scenario);
    database_bind(statement, ++at, row->schedule_hash);
    database_bind(statement, ++at, row->bound);
    database_bind(statement, ++at, row->traffic);
    for (int i = 0; i < SWEEP_FIGURE_COUNT; i++) {
        at++;
        if (row->has[i] && sweep_figures[i].whole) {
            (void)sqlite3_bind_int64(statement, at, (int64_t)row->figures[i]);
        } else if (row->has[i]) {
            (void)sqlite3_bind_double(statement, at, row->figures[i]);
        }
    }
    return finish(database, STATEMENT_PUT_ROW, error);
}

enum status sweep_database_put_point(struct sweep_database *database, int64_t sweep, uint64_t point, const char *hash,
                                     const char *axes, struct error *error)
{
    sqlite3_stmt *statement = database->statements[STATEMENT_PUT_POINT];
    (void)sqlite3_bind_int64(statement, 1, sweep);
    (void)sqlite3_bind_int64(statement, 2, (int64_t)point);
    database_bind(statement, 3, database->version);
    database_bind(statement, 4, hash);
    database_bind(statement, 5, axes);
    return finish(database, STATEMENT_PUT_POINT, error);
}
