/* The database of sweeps: one SQLite file, written by one process at a time (others wait), read by any. `memwall sweep --schema` prints its documentation, sweep_database_schema().
 *
 * Write-ahead log; what one transaction holds is there whole or not at all, whenever the process is killed. Tables are ordered by their keys, so the same rows are the same dump whoever wrote them
 * in whatever order. Rows of other versions of memwall stay and are not looked at. */
#ifndef MEMWALL_SWEEP_SWEEP_DATABASE_H
#define MEMWALL_SWEEP_SWEEP_DATABASE_H

#include <stdbool.h>
#include <stdint.h>

#include "sim/base/hash.h"
#include "sim/base/strbuf.h"
#include "sim/sweep/sweep.h"
#include "sim/sweep/sweep_row.h"

struct sweep_database;

/* SQL with comments: every table, column, view. */
void sweep_database_schema(struct strbuf *out);

/* The program's version and a digest of all sources and data that decide results, as "0.1.0+0123456789ab": rows of one are not those of another. */
extern const char sweep_results_version[];

/* Opens or makes `file` (NULL: in memory only) for rows of `version`. STATUS_BAD_INPUT when the file is something else, of another format or damaged. */
enum status sweep_database_open(struct sweep_database **database, const char *file, const char *version,
                                struct error *error);
/* An existing file, for reading alone. */
enum status sweep_database_open_to_read(struct sweep_database **database, const char *file, const char *version,
                                        struct error *error);
void sweep_database_close(struct sweep_database *database);

/* The number of this sweep in the file: the same for the same name, base, axes and conditions. Makes its view. */
enum status sweep_database_enter(struct sweep_database *database, const struct sweep *sweep, int64_t *id,
                                 struct error *error);

/* Transactions: begin does nothing when one is open. */
enum status sweep_database_begin(struct sweep_database *database, struct error *error);
enum status sweep_database_commit(struct sweep_database *database, struct error *error);

/* A finished row of this version: its status and its figure `best` (NaN when NULL). */
enum status sweep_database_find(struct sweep_database *database, const char *hash, enum sweep_figure best, bool *found,
                                enum sweep_status *status, double *figure, struct error *error);
enum status sweep_database_put_row(struct sweep_database *database, const char *hash, const char *scenario,
                                   const struct sweep_row *row, struct error *error);
enum status sweep_database_put_point(struct sweep_database *database, int64_t sweep, uint64_t point, const char *hash,
                                     const char *axes, struct error *error);

/* Reading back (sweep_query.h). */
struct sqlite3;
struct sqlite3 *sweep_database_handle(struct sweep_database *database);
const char *sweep_database_version(const struct sweep_database *database);

#endif
