#include "sim/sweep/sweep_reasons.h"

#include <inttypes.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/check.h"

/* A reason's words: numbers do not count, nor what follows its first line (who holds what). FNV-1a. */
static uint64_t pattern_of(const char *status, const char *text)
{
    uint64_t hash = 0xcbf29ce484222325u;
    for (const char *part = status; part != NULL; part = part == status ? text : NULL) {
        for (const char *c = part; *c != '\0' && *c != '\n'; c++) {
            bool digit = *c >= '0' && *c <= '9';
            if (!digit || c == part || c[-1] < '0' || c[-1] > '9') {
                hash = (hash ^ (unsigned char)(digit ? '0' : *c)) * 0x100000001b3u;
            }
        }
    }
    return hash;
}

static const char *column_text(sqlite3_stmt *statement, int column)
{
    const char *text = (const char *)sqlite3_column_text(statement, column);
    return text != NULL ? text : "";
}

/* Its first line. */
static const char *keep_line(struct arena *arena, const char *text)
{
    const char *kept = arena_text_n(arena, text, strcspn(text, "\n"));
    return kept != NULL ? kept : "";
}

static void add_reason(struct sweep_reasons *reasons, sqlite3_stmt *statement, struct arena *arena)
{
    const char *status = column_text(statement, 1), *text = column_text(statement, 2);
    uint64_t pattern = pattern_of(status, text);
    for (uint32_t i = 0; i < reasons->count; i++) {
        if (reasons->items[i].pattern == pattern) {
            reasons->items[i].count++;
            return;
        }
    }
    if (reasons->count == SWEEP_REASONS_MAX) {
        reasons->others++;
        return;
    }
    reasons->items[reasons->count++] = (struct sweep_reason){
        .status = keep_line(arena, status),
        .text = keep_line(arena, text),
        .kind = keep_line(arena, column_text(statement, 3)),
        .count = 1,
        .point = sqlite3_column_int64(statement, 0),
        .pattern = pattern,
    };
}

static int by_count(const void *a, const void *b)
{
    const struct sweep_reason *x = a, *y = b;
    return x->count != y->count ? (x->count < y->count ? 1 : -1) : x->point < y->point ? -1 : x->point > y->point;
}

enum status sweep_reasons_read(struct sweep_reasons *reasons, struct sweep_database *database, int64_t sweep,
                               struct arena *arena, struct error *error)
{
    sqlite3 *sqlite = sweep_database_handle(database);
    sqlite3_stmt *statement = NULL;
    char sql[200];
    int code = SQLITE_DONE;
    *reasons = (struct sweep_reasons){ 0 };
    snprintf(sql, sizeof sql,
             "SELECT point, status, reason, error_kind FROM sweep_%" PRId64
             " WHERE version = ?1 AND status <> 'done' ORDER BY point",
             sweep);
    if (sqlite3_prepare_v2(sqlite, sql, -1, &statement, NULL) == SQLITE_OK) {
        (void)sqlite3_bind_text(statement, 1, sweep_database_version(database), -1, SQLITE_STATIC);
        while ((code = sqlite3_step(statement)) == SQLITE_ROW) {
            add_reason(reasons, statement, arena);
        }
    }
    enum status status =
        statement != NULL && code == SQLITE_DONE
            ? STATUS_OK
            : error_set(error, STATUS_BAD_INPUT, "the database cannot be read: %s", sqlite3_errmsg(sqlite));
    (void)sqlite3_finalize(statement);
    qsort(reasons->items, reasons->count, sizeof reasons->items[0], by_count);
    return status;
}
