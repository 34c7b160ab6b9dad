#include "sim/report/html/step_traffic.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/array.h"
#include "sim/base/check.h"
#include "sim/base/units.h"
#include "sim/report/html/csv_read.h"

#define TIME_MOST_US 1e12
#define RATE_MOST    1e18

enum { ALIKE_MOST = 1 << 30 };

struct traffic_reader {
    struct csv_reader csv;
    uint32_t link, kind, alike, capacity, time, rate;
    struct {
        int64_t *items;
        size_t count, capacity;
    } times;
    struct {
        double *items;
        size_t count, capacity;
    } rates;
    struct {
        struct traffic_link *items;
        size_t count, capacity;
    } links;
};

static enum status find_columns(struct traffic_reader *r, struct error *error)
{
    TRY(csv_read_column(&r->csv, "link", &r->link, error));
    TRY(csv_read_column(&r->csv, "kind", &r->kind, error));
    TRY(csv_read_column(&r->csv, "links_alike", &r->alike, error));
    TRY(csv_read_column(&r->csv, "capacity_bytes_per_s", &r->capacity, error));
    TRY(csv_read_column(&r->csv, "time_us", &r->time, error));
    return csv_read_column(&r->csv, "bytes_per_s", &r->rate, error);
}

static enum status read_moment(struct traffic_reader *r, struct error *error)
{
    double time_us, rate, alike, capacity;
    const char *name = r->csv.cells[r->link];
    TRY(csv_read_number(&r->csv, r->time, TIME_MOST_US, -1, &time_us, error));
    TRY(csv_read_number(&r->csv, r->rate, RATE_MOST, -1, &rate, error));
    int64_t time_ps = llround(time_us * (double)PS_PER_US);
    struct traffic_link *link = r->links.count > 0 ? &r->links.items[r->links.count - 1] : NULL;
    if (link == NULL || strcmp(link->name, name) != 0) {
        TRY(csv_read_number(&r->csv, r->alike, ALIKE_MOST, -1, &alike, error));
        TRY(csv_read_number(&r->csv, r->capacity, RATE_MOST, -1, &capacity, error));
        TRY(array_reserve(&r->links, 1, error));
        link = &r->links.items[r->links.count++];
        *link = (struct traffic_link){ .name = name,
                                       .kind = r->csv.cells[r->kind],
                                       .capacity_bytes_per_s = capacity,
                                       .series.alike = (uint32_t)alike };
    } else if (time_ps <= r->times.items[r->times.count - 1]) {
        return error_at(error, STATUS_BAD_INPUT, r->csv.file, NULL, "line %u: times of %.80s do not rise", r->csv.line,
                        name);
    }
    TRY(array_reserve(&r->times, 1, error));
    TRY(array_reserve(&r->rates, 1, error));
    r->times.items[r->times.count++] = time_ps;
    r->rates.items[r->rates.count++] = rate;
    link->series.count++;
    return STATUS_OK;
}

enum status step_traffic_read(struct step_traffic *traffic, char *text, const char *file, struct error *error)
{
    struct traffic_reader r = { 0 };
    bool found = false;
    enum status status;
    size_t at = 0;
    *traffic = (struct step_traffic){ 0 };
    TRY(csv_read_header(&r.csv, text, file, error));
    TRY(find_columns(&r, error));
    TRY_OR_FAIL(csv_read_row(&r.csv, &found, error));
    while (found) {
        TRY_OR_FAIL(read_moment(&r, error));
        TRY_OR_FAIL(csv_read_row(&r.csv, &found, error));
    }
    for (size_t i = 0; i < r.links.count; i++) {
        struct link_series *series = &r.links.items[i].series;
        series->times_ps = r.times.items + at;
        series->bytes_per_s = r.rates.items + at;
        at += series->count;
    }
    *traffic = (struct step_traffic){ .links = r.links.items,
                                      .link_count = (uint32_t)r.links.count,
                                      .times_ps = r.times.items,
                                      .bytes_per_s = r.rates.items };
    return STATUS_OK;
fail:
    array_free(&r.times);
    array_free(&r.rates);
    array_free(&r.links);
    return status;
}

void step_traffic_free(struct step_traffic *traffic)
{
    free(traffic->links);
    free(traffic->times_ps);
    free(traffic->bytes_per_s);
    *traffic = (struct step_traffic){ 0 };
}
