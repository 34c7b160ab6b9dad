/* Running a sweep: every point that the database does not hold yet, on all threads (and ranks), into the database.
 *
 * The calling thread owns the database: it walks the points, hands scenarios out, writes what comes back, a transaction a quarter of a second. Memory does not grow with the number of points.
 * Rows are the same whatever the number of threads and ranks. Scenarios that rank 0 handed to others and that do not come back are computed by rank 0 at the end: a lost rank costs time only. */
#ifndef MEMWALL_SWEEP_SWEEP_RUN_H
#define MEMWALL_SWEEP_SWEEP_RUN_H

#include "sim/sweep/sweep.h"
#include "sim/sweep/sweep_database.h"
#include "sim/sweep/sweep_transport.h"

enum { SWEEP_THREADS_MAX = 1024 };

struct sweep_progress {
    uint64_t total, finished;            /* points; finished: found + computed */
    uint64_t found;                      /* of them were in the database already */
    uint64_t counts[SWEEP_STATUS_COUNT]; /* of the finished */
    bool has_best;
    double best;         /* tokens_per_s, the highest of what fits */
    char best_axes[256]; /* its axes as JSON */
    uint32_t ranks;
    bool interrupted;
};

struct sweep_options {
    uint32_t threads;                        /* of this process */
    const struct sweep_transport *transport; /* NULL: alone */
    uint32_t ranks;
    /* About ten times a second; false: stop, keep what is finished. NULL: none. */
    bool (*listen)(void *context, const struct sweep_progress *progress);
    void *context;
};

/* Rank 0. `id`: what sweep_database_enter gave. */
enum status sweep_run(const struct sweep *sweep, struct sweep_database *database, int64_t id,
                      const struct sweep_options *options, struct sweep_progress *progress, struct error *error);
/* The other ranks: computes what rank 0 sends until it says stop. */
enum status sweep_serve(const struct sweep_transport *transport, uint32_t threads, struct error *error);
/* Rank 0: tells the others to stop and waits a little for their good-byes; whether all came. */
bool sweep_dismiss(const struct sweep_transport *transport, uint32_t ranks);

#endif
