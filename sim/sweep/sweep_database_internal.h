/* What the files of the sweep database share. */
#ifndef MEMWALL_SWEEP_SWEEP_DATABASE_INTERNAL_H
#define MEMWALL_SWEEP_SWEEP_DATABASE_INTERNAL_H

#include <sqlite3.h>

#include "sim/sweep/sweep_database.h"

enum statement { STATEMENT_FIND, STATEMENT_PUT_ROW, STATEMENT_PUT_POINT, STATEMENT_COUNT };

struct sweep_database {
    sqlite3 *sqlite;
    sqlite3_stmt *statements[STATEMENT_COUNT];
    bool in_transaction;
    char file[256], version[64];
};

/* What SQLite complains of, with the file's name. */
enum status database_fail(const struct sweep_database *database, enum status status, struct error *error);
/* Statements without an answer; a damaged file is told from one that cannot be written. */
enum status database_run(struct sweep_database *database, const char *sql, struct error *error);
/* NULL where the text is NULL or empty; the text must live until the statement has run. */
void database_bind(sqlite3_stmt *statement, int index, const char *text);

#endif
