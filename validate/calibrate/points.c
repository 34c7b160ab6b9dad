/* A set of points: checked when added, found by what they measure, named for people. */
#include "validate/calibrate/points.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/check.h"
#include "sim/base/units.h"
#include "sim/ir/schedule.h"

/* Beyond these nothing was measured. */
static const double SECONDS_MAX = 1e6, AMOUNT_MAX = (double)SCHED_INTEGER_MAX, FLOPS_MAX = 1e24;
enum { NUMBER_MAX = 1 << 20 /* devices, ranks, nodes, at once */, POINTS_MAX = 1 << 24 };

const char *point_kind_word(enum point_kind kind)
{
    static const char *const words[] = {
#define X(name, word, help) word,
        POINT_TABLE(X)
#undef X
    };
    CHECK((unsigned)kind < POINT_KIND_COUNT);
    return words[kind];
}

const char *copy_way_word(enum copy_way way)
{
    static const char *const words[] = {
#define X(name, word) word,
        COPY_WAY_TABLE(X)
#undef X
    };
    CHECK((unsigned)way < COPY_WAY_COUNT);
    return words[way];
}

const char *issue_word(enum issue_what issue)
{
    static const char *const words[] = {
#define X(name, word) word,
        ISSUE_TABLE(X)
#undef X
    };
    CHECK((unsigned)issue < ISSUE_COUNT);
    return words[issue];
}

/* ---- checks ---- */

static enum status refuse(struct error *error, const char *key, const char *wanted, double found)
{
    return error_set(error, STATUS_BAD_INPUT, "a point's \"%s\" must be %s, found %g", key, wanted, found);
}

static bool within(double value, double least, double most)
{
    return value >= least && value <= most; /* false for NaN */
}

static enum status check_kernel(const struct kernel *k, struct error *error)
{
    const struct {
        const char *key;
        double value, least, most;
    } ranges[] = {
        { "class", k->kernel_class, 0, KERNEL_CLASS_COUNT - 1 },
        { "dtype", k->dtype, 0, DTYPE_COUNT - 1 },
        { "layout", k->layout, 0, k->kernel_class == KERNEL_GEMM ? GEMM_NT : 0 },
        { "flags", k->flags, 0, KERNEL_FLAG_CAUSAL | KERNEL_FLAG_ACCUMULATE },
        { "launches", k->launches, 1, UINT32_MAX },
        { "batch", (double)k->batch, 1, AMOUNT_MAX },
        { "m", (double)k->m, 1, AMOUNT_MAX },
        { "n", (double)k->n, 1, AMOUNT_MAX },
        { "k", (double)k->k, 1, AMOUNT_MAX },
        { "flops", k->flops, 0, FLOPS_MAX },
        { "bytes_read", k->bytes_read, 0, AMOUNT_MAX },
        { "bytes_written", k->bytes_written, 0, AMOUNT_MAX },
    };
    for (size_t i = 0; i < sizeof ranges / sizeof ranges[0]; i++) {
        if (!within(ranges[i].value, ranges[i].least, ranges[i].most)) {
            char wanted[64];
            (void)snprintf(wanted, sizeof wanted, "from %.17g to %.17g", ranges[i].least, ranges[i].most);
            return refuse(error, ranges[i].key, wanted, ranges[i].value);
        }
    }
    return STATUS_OK;
}

static enum status check_load(const struct point *p, struct error *error)
{
    if (!within(p->load_from_s, 0, SECONDS_MAX)) {
        return refuse(error, "load_from_s", "from 0 to 1e6", p->load_from_s);
    }
    bool unknown = p->load_from_s <= 0 && fabs(p->load_to_s) <= 0;
    return unknown || (p->load_to_s > p->load_from_s && p->load_to_s <= SECONDS_MAX)
               ? STATUS_OK
               : refuse(error, "load_to_s", "above load_from_s and at most 1e6", p->load_to_s);
}

static enum status check_copy(const struct point *p, struct error *error)
{
    if (p->way >= COPY_READ) {
        return error_set(error, STATUS_BAD_INPUT, "a copy is h2d, d2h, both or peer; reads and writes are \"storage\"");
    }
    if (p->from >= NUMBER_MAX || p->to >= NUMBER_MAX) {
        return refuse(error, p->from >= NUMBER_MAX ? "from" : "to", "a device number below 2^20",
                      p->from >= NUMBER_MAX ? p->from : p->to);
    }
    if (p->way == COPY_PEER && p->from == p->to) {
        return refuse(error, "to", "another device than \"from\"", p->to);
    }
    return STATUS_OK;
}

static enum status check_collective(const struct point *p, struct error *error)
{
    if ((unsigned)p->collective >= COLLECTIVE_KIND_COUNT) {
        return refuse(error, "collective", "one of the collectives", p->collective);
    }
    if (!within(p->ranks, 2, NUMBER_MAX)) {
        return refuse(error, "ranks", "from 2 to 2^20", p->ranks);
    }
    if (!within(p->nodes, 1, p->ranks)) {
        return refuse(error, "nodes", "from 1 to \"ranks\"", p->nodes);
    }
    if (p->collective == COLLECTIVE_SEND_RECV && p->ranks != 2) {
        return refuse(error, "ranks", "2 for send_recv", p->ranks);
    }
    return STATUS_OK;
}

static bool has_bytes(enum point_kind kind)
{
    return kind == POINT_COPY || kind == POINT_COLLECTIVE || kind == POINT_STORAGE || kind == POINT_ALLOCATION;
}

static bool has_at_once(enum point_kind kind)
{
    return kind == POINT_KERNEL || kind == POINT_COPY || kind == POINT_HOST_OPTIMIZER;
}

static enum status check_kind(const struct point *p, struct error *error)
{
    switch (p->kind) {
    case POINT_KERNEL: TRY(check_kernel(&p->kernel, error)); return check_load(p, error);
    case POINT_COPY: return check_copy(p, error);
    case POINT_COLLECTIVE: return check_collective(p, error);
    case POINT_HOST_OPTIMIZER:
        return within(p->parameters, 1, AMOUNT_MAX) ? STATUS_OK
                                                    : refuse(error, "parameters", "from 1 to 2^53 - 1", p->parameters);
    case POINT_STORAGE:
        return p->way == COPY_READ || p->way == COPY_WRITE
                   ? STATUS_OK
                   : error_set(error, STATUS_BAD_INPUT, "storage has ways read and write");
    case POINT_ISSUE:
        return (unsigned)p->issue < ISSUE_COUNT ? STATUS_OK
                                                : refuse(error, "issue", "one of op, wake, kernel, copy", p->issue);
    case POINT_ALLOCATION: return STATUS_OK;
    case POINT_KIND_COUNT: break;
    }
    return error_set(error, STATUS_BAD_INPUT, "a point of no known kind");
}

static enum status check_point(const struct point *p, struct error *error)
{
    TRY(check_kind(p, error));
    if (has_bytes(p->kind) && !within(p->bytes, 1, AMOUNT_MAX)) {
        return refuse(error, "bytes", "from 1 to 2^53 - 1", p->bytes);
    }
    if (has_at_once(p->kind) && !within(p->at_once, 1, NUMBER_MAX)) {
        return refuse(error, "at_once", "from 1 to 2^20", p->at_once);
    }
    if (!within(p->spread_s, 0, SECONDS_MAX)) {
        return refuse(error, "spread_s", "from 0 to 1e6", p->spread_s);
    }
    if (memchr(p->source, '\0', sizeof p->source) == NULL) {
        return error_set(error, STATUS_BAD_INPUT, "a point's \"source\" must be shorter than %d bytes",
                         POINT_SOURCE_BYTES);
    }
    return STATUS_OK;
}

/* ---- the set ---- */

static enum status append(struct points *points, const struct point *point, struct error *error)
{
    if (points->count == points->capacity) {
        if (points->count >= POINTS_MAX) {
            return error_set(error, STATUS_LIMIT, "more than %d points", POINTS_MAX);
        }
        uint32_t capacity = points->capacity == 0 ? 64 : 2 * points->capacity;
        struct point *grown = realloc(points->items, capacity * sizeof *grown);
        if (grown == NULL) {
            return error_set(error, STATUS_NO_MEMORY, "out of memory: %u points", capacity);
        }
        points->items = grown;
        points->capacity = capacity;
    }
    points->items[points->count++] = *point;
    return STATUS_OK;
}

enum status points_add(struct points *points, const struct point *point, struct error *error)
{
    TRY(check_point(point, error));
    if (!(point->seconds > 0 && point->seconds <= SECONDS_MAX)) {
        return refuse(error, "seconds", "above 0 and at most 1e6", point->seconds);
    }
    return append(points, point, error);
}

enum status points_want(struct points *plan, const struct point *point, struct error *error)
{
    TRY(check_point(point, error));
    struct point wanted = *point;
    wanted.seconds = wanted.spread_s = 0;
    wanted.repeats = 0;
    return append(plan, &wanted, error);
}

void points_free(struct points *points)
{
    free(points->items);
    *points = (struct points){ 0 };
}

static bool same_kernel(const struct kernel *a, const struct kernel *b)
{
    return a->kernel_class == b->kernel_class && a->dtype == b->dtype && a->layout == b->layout &&
           a->flags == b->flags && a->launches == b->launches && a->batch == b->batch && a->m == b->m && a->n == b->n &&
           a->k == b->k && a->flops == b->flops && a->bytes_read == b->bytes_read &&
           a->bytes_written == b->bytes_written;
}

static bool same(const struct point *a, const struct point *b)
{
    if (a->kind != b->kind || (has_bytes(a->kind) && a->bytes != b->bytes) ||
        (has_at_once(a->kind) && a->at_once != b->at_once)) {
        return false;
    }
    switch (a->kind) {
    case POINT_KERNEL: return same_kernel(&a->kernel, &b->kernel);
    case POINT_COPY:
        return a->way == b->way && a->pageable == b->pageable && a->to == b->to &&
               (a->way != COPY_PEER || a->from == b->from);
    case POINT_COLLECTIVE: return a->collective == b->collective && a->ranks == b->ranks && a->nodes == b->nodes;
    case POINT_HOST_OPTIMIZER: return a->parameters == b->parameters;
    case POINT_STORAGE: return a->way == b->way;
    case POINT_ISSUE: return a->issue == b->issue;
    case POINT_ALLOCATION: return true;
    case POINT_KIND_COUNT: break;
    }
    check_failed("a point's kind", __FILE__, __LINE__);
}

const struct point *points_find(const struct points *points, const struct point *like)
{
    for (uint32_t i = 0; i < points->count; i++) {
        if (same(&points->items[i], like)) {
            return &points->items[i];
        }
    }
    return NULL;
}

/* ---- for people ---- */

static void kernel_text(const struct kernel *k, char *buffer, size_t size)
{
    static const char *const layouts[] = { "NN", "TN", "NT" };
    const char *class_word = kernel_class_word((enum kernel_class)k->kernel_class),
               *dtype = dtype_word((enum dtype)k->dtype);
    char batch[32] = "";
    if (k->batch > 1) {
        (void)snprintf(batch, sizeof batch, "%llu of ", (unsigned long long)k->batch);
    }
    if (k->kernel_class == KERNEL_GEMM) {
        (void)snprintf(buffer, size, "gemm %s %s%llux%llux%llu %s%s", dtype, batch, (unsigned long long)k->m,
                       (unsigned long long)k->n, (unsigned long long)k->k, layouts[k->layout],
                       k->flags & KERNEL_FLAG_ACCUMULATE ? " accumulating" : "");
    } else if (k->kernel_class == KERNEL_ATTENTION_FORWARD || k->kernel_class == KERNEL_ATTENTION_BACKWARD) {
        (void)snprintf(buffer, size, "%s %s %s%llux%llu, head size %llu%s", class_word, dtype, batch,
                       (unsigned long long)k->m, (unsigned long long)k->n, (unsigned long long)k->k,
                       k->flags & KERNEL_FLAG_CAUSAL ? ", causal" : "");
    } else {
        char bytes[32];
        (void)snprintf(buffer, size, "%s %s %llux%llu, %s moved", class_word, dtype, (unsigned long long)k->m,
                       (unsigned long long)k->n, text_bytes(k->bytes_read + k->bytes_written, bytes, sizeof bytes));
    }
}

static void copy_text(const struct point *p, char *buffer, size_t size)
{
    char bytes[32], where[48];
    text_bytes(p->bytes, bytes, sizeof bytes);
    if (p->way == COPY_PEER) {
        (void)snprintf(where, sizeof where, "device %u to %u", p->from, p->to);
    } else {
        (void)snprintf(where, sizeof where, "device %u", p->to);
    }
    (void)snprintf(buffer, size, "copy %s%s %s, %s", copy_way_word(p->way), p->pageable ? " pageable" : "", bytes,
                   where);
}

const char *point_text(const struct point *p, char *buffer, size_t size)
{
    char bytes[32] = "";
    if (has_bytes(p->kind)) {
        text_bytes(p->bytes, bytes, sizeof bytes);
    }
    switch (p->kind) {
    case POINT_KERNEL: kernel_text(&p->kernel, buffer, size); break;
    case POINT_COPY: copy_text(p, buffer, size); break;
    case POINT_COLLECTIVE:
        (void)snprintf(buffer, size, "%s %s, %u ranks%s", collective_word(p->collective), bytes, p->ranks,
                       p->nodes > 1 ? " on several nodes" : "");
        break;
    case POINT_HOST_OPTIMIZER: (void)snprintf(buffer, size, "host optimizer, %.4g parameters", p->parameters); break;
    case POINT_STORAGE: (void)snprintf(buffer, size, "storage %s %s", copy_way_word(p->way), bytes); break;
    case POINT_ISSUE: (void)snprintf(buffer, size, "issue of one %s", issue_word(p->issue)); break;
    case POINT_ALLOCATION: (void)snprintf(buffer, size, "first touch of %s", bytes); break;
    case POINT_KIND_COUNT: (void)snprintf(buffer, size, "a point of no kind"); break;
    }
    size_t used = strlen(buffer);
    if (has_at_once(p->kind) && p->at_once > 1 && used + 1 < size) {
        (void)snprintf(buffer + used, size - used, ", %u at once", p->at_once);
    }
    return buffer;
}
