/* What a sweep's report says, read from its database. */
#ifndef MEMWALL_SWEEP_SWEEP_PAGE_DATA_H
#define MEMWALL_SWEEP_SWEEP_PAGE_DATA_H

#include "sim/base/arena.h"
#include "sim/base/json.h"
#include "sim/sweep/sweep_database.h"
#include "sim/sweep/sweep_reasons.h"

enum { SWEEP_EFFECTS_MAX = 64 };

/* What one value of an axis does to the figure, over all rows that are done. NAN: none is. */
struct sweep_effect {
    const char *value;
    int64_t rows, done;
    double least, median, best, peak_least; /* peak_least: bytes */
};

struct sweep_axis_effects {
    const char *name; /* of the view's column */
    struct sweep_effect effects[SWEEP_EFFECTS_MAX];
    uint32_t effect_count;
    int64_t values; /* different ones, also those beyond SWEEP_EFFECTS_MAX */
    /* Share of the spread of the figure's logarithm that the axis alone explains: variance between its values' means over the whole (eta squared). NAN: no spread. */
    double explained;
};

struct sweep_point {
    double step_s, peak_bytes;
};

struct sweep_page_data {
    int64_t sweep, counts[SWEEP_STATUS_COUNT], rows, other_versions;
    const char *name, *hash;
    struct json_document *definition;
    struct sweep_axis_effects *axes; /* [axis_count], in the sweep's order */
    uint32_t axis_count;
    struct sweep_reasons reasons;
    struct {
        struct sweep_point *items;
        size_t count, capacity;
    } points; /* done */
    /* Rows as sweep_query_print prints them (JSON arrays): the best, the Pareto front of step_time_s and peak_bytes, the one with the least memory, the cheapest. */
    struct json_document *best, *front, *leanest, *cheapest;
    struct arena arena;
};

/* As sweep_page_print. On error nothing stays allocated. */
enum status sweep_page_data_read(struct sweep_page_data *data, struct sweep_database *database, int64_t sweep,
                                 struct error *error);
void sweep_page_data_free(struct sweep_page_data *data);

#endif
