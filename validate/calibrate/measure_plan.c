/* What a calibration measures, the most telling first. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/array.h"
#include "sim/base/check.h"
#include "validate/calibrate/measure_internal.h"

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

/* Budgets from which on a level is measured: threads of a host are slower than GPUs, and are started for each schedule. */
static double level_seconds(const struct measure_options *options, enum measure_level level)
{
    switch (level) {
    case LEVEL_CORE: return 0;
    case LEVEL_MORE: return options->on_host ? 120 : 30;
    case LEVEL_ALL: return options->on_host ? 600 : 180;
    case MEASURE_LEVELS: break;
    }
    check_failed("a level", __FILE__, __LINE__);
}

static bool same_point(const struct point *a, const struct point *b)
{
    struct point copy = *a;
    const struct points one = { &copy, 1, 1 };
    return points_find(&one, b) != NULL;
}

enum status want(struct wanted_list *list, enum measure_level level, const struct point *point, struct error *error)
{
    for (size_t i = 0; i < list->count; i++) {
        if (same_point(&list->items[i].point, point)) {
            list->items[i].level = level < list->items[i].level ? level : list->items[i].level;
            return STATUS_OK;
        }
    }
    TRY(array_reserve(list, 1, error));
    list->items[list->count++] = (struct wanted){ *point, level };
    return STATUS_OK;
}

/* ---- copies ---- */

/* Sizes of transfers and when they count. The first five make a curve, the others fill it. */
static const struct {
    double bytes;
    enum measure_level level;
} SIZES[] = { { 0x1p24, LEVEL_CORE }, { 0x1p20, LEVEL_CORE }, { 0x1p26, LEVEL_CORE }, { 0x1p12, LEVEL_CORE },
              { 0x1p16, LEVEL_CORE }, { 0x1p18, LEVEL_MORE }, { 0x1p22, LEVEL_MORE }, { 0x1p14, LEVEL_MORE },
              { 0x1p28, LEVEL_MORE }, { 0x1p10, LEVEL_ALL },  { 0x1p25, LEVEL_ALL },  { 0x1p23, LEVEL_ALL } };

static enum measure_level later(enum measure_level level, bool is_later)
{
    return is_later && level < LEVEL_ALL ? (enum measure_level)(level + 1) : level;
}

static bool fits(const struct measure_options *options, const struct point *p)
{
    double each = p->bytes * (p->way == COPY_BOTH ? 2 : 1);
    return each <= (double)options->device_bytes / 2 && each * p->at_once <= (double)options->host_bytes / 2;
}

static enum status want_copy(const struct measure_options *options, struct wanted_list *list, enum measure_level level,
                             const struct point *point, struct error *error)
{
    return fits(options, point) ? want(list, level, point, error) : STATUS_OK;
}

static enum status want_host_copies(const struct measure_options *options, struct wanted_list *list,
                                    struct error *error)
{
    static const enum copy_way WAYS[] = { COPY_H2D, COPY_D2H, COPY_BOTH };
    for (size_t i = 0; i < COUNT(SIZES); i++) {
        for (size_t w = 0; w < COUNT(WAYS); w++) {
            struct point p = { .kind = POINT_COPY, .way = WAYS[w], .at_once = 1, .bytes = SIZES[i].bytes };
            TRY(want_copy(options, list, later(SIZES[i].level, p.way == COPY_BOTH && i > 2), &p, error));
            p.pageable = true;
            TRY(want_copy(options, list, later(SIZES[i].level, i > 1), &p, error));
            p.pageable = false;
            /* Several devices: 2, 4, 8 and all of them. */
            for (p.at_once = 2; p.at_once <= options->devices; p.at_once *= 2) {
                bool few = p.at_once == 2 || 2 * p.at_once > options->devices;
                TRY(want_copy(options, list, later(i < 2 ? SIZES[i].level : LEVEL_MORE, !few), &p, error));
            }
        }
    }
    for (uint32_t device = 1; device < options->devices && !options->on_host; device++) { /* other ways to the host */
        for (size_t w = 0; w < COUNT(WAYS); w++) {
            const struct point p = { .kind = POINT_COPY, .way = WAYS[w], .to = device, .at_once = 1, .bytes = 0x1p24 };
            TRY(want_copy(options, list, w < 2 ? LEVEL_MORE : LEVEL_ALL, &p, error));
        }
    }
    return STATUS_OK;
}

static enum status want_peer_copies(const struct measure_options *options, struct wanted_list *list,
                                    struct error *error)
{
    for (size_t i = 0; i < COUNT(SIZES) && options->devices > 1; i++) {
        const struct point p = {
            .kind = POINT_COPY, .way = COPY_PEER, .from = 0, .to = 1, .at_once = 1, .bytes = SIZES[i].bytes
        };
        TRY(want_copy(options, list, SIZES[i].level, &p, error));
    }
    uint32_t devices = options->devices > 1 ? options->devices : 1;
    for (uint32_t pair = 1; pair < devices * devices && !options->on_host; pair++) {
        const struct point p = { .kind = POINT_COPY,
                                 .way = COPY_PEER,
                                 .from = pair / devices,
                                 .to = pair % devices,
                                 .at_once = 1,
                                 .bytes = 0x1p24 };
        if (p.from != p.to) {
            TRY(want_copy(options, list, p.from < p.to ? LEVEL_MORE : LEVEL_ALL, &p, error));
        }
    }
    return STATUS_OK;
}

/* ---- collectives ---- */

/* How telling a group of so many ranks is: all devices and pairs first, powers of two next. */
static enum measure_level group_level(uint32_t ranks, uint32_t devices)
{
    if (ranks == devices || ranks == 2) {
        return LEVEL_CORE;
    }
    return (ranks & (ranks - 1)) == 0 ? LEVEL_MORE : LEVEL_ALL;
}

static enum status want_collectives(const struct measure_options *options, struct wanted_list *list,
                                    struct error *error)
{
    for (size_t i = 0; i < COUNT(SIZES); i++) {
        for (uint32_t ranks = options->devices; ranks >= 2; ranks--) {
            for (int kind = 0; kind < COLLECTIVE_KIND_COUNT; kind++) {
                const struct point p = { .kind = POINT_COLLECTIVE,
                                         .collective = (enum collective_kind)kind,
                                         .ranks = ranks,
                                         .nodes = 1,
                                         .bytes = SIZES[i].bytes };
                enum measure_level level = group_level(ranks, options->devices);
                bool main_kind = kind == COLLECTIVE_ALL_REDUCE || kind == COLLECTIVE_SEND_RECV;
                level = level > SIZES[i].level ? level : SIZES[i].level;
                if (!main_kind && i > 1 && level == LEVEL_CORE) {
                    level = LEVEL_MORE;
                }
                /* In and out of every rank, and a staging buffer. */
                bool fits_memory = 3 * p.bytes <= (double)options->device_bytes / 2;
                if (fits_memory && (kind != COLLECTIVE_SEND_RECV || ranks == 2)) {
                    TRY(want(list, level, &p, error));
                }
            }
        }
    }
    return STATUS_OK;
}

/* ---- host, storage, costs of issuing ---- */

static enum status want_optimizers(const struct measure_options *options, struct wanted_list *list, struct error *error)
{
    static const double PARAMETERS[] = { 1e6, 1e7, 1e5, 3e6, 3e5, 3e7 };
    uint32_t cores = options->cores > 0 ? options->cores : 1;
    uint32_t most = cores < options->devices ? cores : options->devices;
    for (size_t i = 0; i < COUNT(PARAMETERS); i++) {
        for (uint32_t at_once = 1; at_once <= most; at_once *= 2) {
            const struct point p = { .kind = POINT_HOST_OPTIMIZER, .parameters = PARAMETERS[i], .at_once = at_once };
            if (32 * p.parameters * at_once <= (double)options->host_bytes / 2) {
                TRY(want(list, i < 3 ? LEVEL_CORE : i < 5 ? LEVEL_MORE : LEVEL_ALL, &p, error));
            }
        }
    }
    return STATUS_OK;
}

static enum status want_storage(const struct measure_options *options, struct wanted_list *list, struct error *error)
{
    for (size_t i = 0; i < COUNT(SIZES) && options->storage; i++) {
        for (int way = COPY_WRITE; way >= COPY_READ; way--) {
            const struct point p = { .kind = POINT_STORAGE, .way = (enum copy_way)way, .bytes = SIZES[i].bytes };
            if (p.bytes <= (double)options->host_bytes / 4) {
                TRY(want(list, SIZES[i].level, &p, error));
            }
        }
    }
    return STATUS_OK;
}

static enum status want_costs(const struct measure_options *options, struct wanted_list *list, struct error *error)
{
    static const double FRESH[] = { 0x1p20, 0x1p23, 0x1p25 };
    for (int issue = 0; issue < ISSUE_COUNT; issue++) {
        const struct point p = { .kind = POINT_ISSUE, .issue = (enum issue_what)issue };
        TRY(want(list, LEVEL_CORE, &p, error));
    }
    for (size_t i = 0; i < COUNT(FRESH); i++) {
        const struct point p = { .kind = POINT_ALLOCATION, .bytes = FRESH[i] };
        if (p.bytes <= (double)options->device_bytes / 4) {
            TRY(want(list, LEVEL_CORE, &p, error));
        }
    }
    return STATUS_OK;
}

static enum status want_all(const struct measure_options *options, struct wanted_list *list, struct error *error)
{
    TRY(want_costs(options, list, error));
    TRY(want_kernels(options, list, error));
    TRY(want_host_copies(options, list, error));
    TRY(want_peer_copies(options, list, error));
    TRY(want_collectives(options, list, error));
    TRY(want_optimizers(options, list, error));
    return want_storage(options, list, error);
}

enum status measure_plan(const struct measure_options *options, struct points *plan, struct error *error)
{
    struct wanted_list list = { 0 };
    CHECK(options->devices >= 1);
    enum status status = want_all(options, &list, error);
    for (int level = 0; level < MEASURE_LEVELS && status == STATUS_OK; level++) {
        for (size_t i = 0; i < list.count && status == STATUS_OK; i++) {
            bool in_time = options->seconds >= level_seconds(options, list.items[i].level);
            if (list.items[i].level == (enum measure_level)level && in_time) {
                status = points_want(plan, &list.items[i].point, error);
            }
        }
    }
    array_free(&list);
    return status;
}
