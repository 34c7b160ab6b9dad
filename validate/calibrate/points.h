/* Measured points: what a calibration knows. Micro-benchmarks make them, importers read them from what people paste, fits turn them into constants.
 *
 * A file of points is JSON lines (schema "memwall.points/1" in the first), appended to while measuring: a run that is interrupted keeps what it has, and goes on from there. */
#ifndef MEMWALL_VALIDATE_POINTS_H
#define MEMWALL_VALIDATE_POINTS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "hw_models/machine.h"
#include "sim/base/status.h"
#include "sim/ir/kernel.h"

/* name, word, what one is */
#define POINT_TABLE(X)                                                                                                 \
    X(POINT_KERNEL, "kernel", "one kernel record alone on its device, without the gap to the next")                    \
    X(POINT_COPY, "copy", "copies of equal size, `at_once` of them at the same moment; seconds of the longest")        \
    X(POINT_COLLECTIVE, "collective", "one collective; bytes as nccl-tests counts them")                               \
    X(POINT_HOST_OPTIMIZER, "host_optimizer", "CPU Adam over `parameters`, `at_once` ops at the same moment")          \
    X(POINT_STORAGE, "storage", "one read or write of a drive")                                                        \
    X(POINT_ISSUE, "issue", "what lies between two ops, or the pace of short ones")                                    \
    X(POINT_ALLOCATION, "allocation", "first use of `bytes` of fresh memory")

enum point_kind {
#define X(name, word, help) name,
    POINT_TABLE(X)
#undef X
        POINT_KIND_COUNT
};

#define COPY_WAY_TABLE(X)                                                                                              \
    X(COPY_H2D, "h2d")                                                                                                 \
    X(COPY_D2H, "d2h")                                                                                                 \
    X(COPY_BOTH, "both") /* as many each way as at_once says, at the same moment */                                    \
    X(COPY_PEER, "peer") /* from one device to another */                                                              \
    X(COPY_READ, "read") /* storage */                                                                                 \
    X(COPY_WRITE, "write")

enum copy_way {
#define X(name, word) name,
    COPY_WAY_TABLE(X)
#undef X
        COPY_WAY_COUNT
};

/* What an issue point issued. */
#define ISSUE_TABLE(X)                                                                                                 \
    X(ISSUE_OP, "op")         /* from the end of an op to the start of the next one in its queue */                    \
    X(ISSUE_WAKE, "wake")     /* from the end of an op to the start of one of another queue that waits for it */       \
    X(ISSUE_KERNEL, "kernel") /* from the end of a shortest kernel to that of the next */                              \
    X(ISSUE_COPY, "copy")     /* the same of copies of 4 KiB */

enum issue_what {
#define X(name, word) name,
    ISSUE_TABLE(X)
#undef X
        ISSUE_COUNT
};

enum { POINT_SOURCE_BYTES = 192 };

struct point {
    enum point_kind kind;
    struct kernel kernel; /* kernel */
    enum copy_way way;    /* copy, storage */
    bool pageable;        /* copy */
    uint32_t from, to;    /* copy: device numbers (peer: both; else `to` is the device of the first copy) */
    uint32_t at_once;     /* copy, host optimizer, kernel: how many at the same moment on as many devices; >= 1 */
    enum collective_kind collective;
    uint32_t ranks, nodes; /* collective */
    enum issue_what issue;
    double bytes;      /* of one copy; of a collective; of an allocation */
    double parameters; /* host optimizer */
    double seconds;    /* median; > 0 */
    double load_from_s,
        load_to_s; /* kernel: load since the board rested when timing began and ended (sim/engine/kernel_cost.h); both 0: unknown */
    double spread_s;  /* median absolute deviation of the repeats; 0: unknown */
    uint32_t repeats; /* 0: unknown */
    bool in_doubt;    /* the source marks it so (virtual machine, recalled, derived) */
    char source[POINT_SOURCE_BYTES];
};

struct points {
    struct point *items;
    uint32_t count, capacity;
};

enum status points_add(struct points *points, const struct point *point,
                       struct error *error); /* checks it; copies it */
/* The same for a point that is still to be measured: without time. */
enum status points_want(struct points *plan, const struct point *point, struct error *error);
void points_free(struct points *points);

/* One line of a file of points; points_begin writes the first. Each is flushed. */
enum status points_begin(FILE *file, const char *machine, const char *executor, struct error *error);
enum status points_write(FILE *file, const struct point *point, struct error *error);
/* Append all points of a file. A last line without its end (an interrupted write) is left out and told in *was_cut (may be NULL); anything else that is wrong is an
 * error with its line, and nothing is appended. `machine`, `executor` (64 bytes each, may be NULL): of the first line. */
enum status points_load(struct points *points, const char *path, char *machine, char *executor, bool *was_cut,
                        struct error *error);
/* The point that measures the same as `like` (all but seconds, spread, repeats, source), or NULL. */
const struct point *points_find(const struct points *points, const struct point *like);
/* "gemm fp32 256x512x1024 TN" in `buffer`: how progress, tables and errors call a point. */
const char *point_text(const struct point *point, char *buffer, size_t size);
const char *point_kind_word(enum point_kind kind);
const char *copy_way_word(enum copy_way way);
const char *issue_word(enum issue_what issue);

#endif
