/* Why points of a sweep do not fit or fail: rows whose reasons read the same in their first line, numbers apart, are counted together. */
#ifndef MEMWALL_SWEEP_SWEEP_REASONS_H
#define MEMWALL_SWEEP_SWEEP_REASONS_H

#include "sim/base/arena.h"
#include "sim/sweep/sweep_database.h"

enum { SWEEP_REASONS_MAX = 200 };

struct sweep_reason {
    const char *status, *text, *kind; /* of the first such row; text: its first line; in the arena */
    int64_t count, point;             /* first */
    uint64_t pattern;
};

struct sweep_reasons {
    struct sweep_reason items[SWEEP_REASONS_MAX]; /* by count, falling */
    uint32_t count;
    int64_t others; /* rows whose reasons are beyond SWEEP_REASONS_MAX */
};

/* Of the rows of the database's version of one sweep. */
enum status sweep_reasons_read(struct sweep_reasons *reasons, struct sweep_database *database, int64_t sweep,
                               struct arena *arena, struct error *error);

#endif
