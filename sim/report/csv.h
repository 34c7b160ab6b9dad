/* The tables that `--out DIR` writes for spreadsheets: one header row that names each column with its unit, then one row a thing. RFC 4180 quoting.
 *
 *   ops.csv     one row an op: what it is, when it passed each gate (microseconds with picoseconds as fractions; empty: it never did)
 *   memory.csv  one row a change: bytes live in a space from this moment on, in all and by class
 *   links.csv   one row a link with traffic: bytes of the step in all and by cause
 *   traffic.csv one row a change: the rate on a link from this moment on. Of links of one kind that move as many bytes only one stands there, and says how many they are (link_series.h)
 *   stages.csv  one row a rank: seconds of the step by cause, exposed and busy, and peak bytes of its device */
#ifndef MEMWALL_REPORT_CSV_H
#define MEMWALL_REPORT_CSV_H

#include "sim/report/link_series.h"
#include "sim/report/result.h"

/* Bytes live in one space by class: a step function. Arrays belong to the arena it was made in. */
struct memory_series {
    uint32_t space;
    int64_t *times_ps; /* [count], rising */
    uint64_t *bytes;   /* [count * BUFFER_CLASS_COUNT]: from times_ps[i] on */
    uint32_t count;
};

/* One cell: in quotes where it needs them. */
void csv_text(struct strbuf *out, const char *text);
void csv_ops(const struct result_input *input, struct strbuf *out);
void csv_memory(const struct result_input *input, const struct memory_series *series, uint32_t series_count,
                struct strbuf *out);
void csv_links(const struct result *result, const struct result_input *input, struct strbuf *out);
void csv_traffic(const struct result_input *input, const struct link_series *series, uint32_t series_count,
                 struct strbuf *out);
void csv_stages(const struct result *result, const struct result_input *input, struct strbuf *out);

#endif
