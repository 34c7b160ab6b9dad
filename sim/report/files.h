/* What `--out DIR` writes: result.json, a Perfetto trace, CSV files, plots. Each file appears whole or not at all; the folder is made when absent. */
#ifndef MEMWALL_REPORT_FILES_H
#define MEMWALL_REPORT_FILES_H

#include "sim/report/result.h"

struct files_options {
    const char *folder;
    const char *ranks; /* "0,2-4": only these ranks in the trace; NULL: all */
    /* result.json, with the studies that belong to it; run.json (who made it, how) and explain.json, for reports: sim/report/html/step_source.h. NULL: the result alone; no such file. */
    const char *result_json, *run_json, *explain_json;
    /* Gets what a person should know and is no error ("gnuplot is not installed: ..."), "" when there is nothing. NULL: dropped. */
    char *note;
    size_t note_bytes;
};

/* result.json, run.json, explain.json, trace.json.gz, ops.csv, memory.csv, links.csv, traffic.csv, stages.csv, plots/. Plots need gnuplot: without it data and scripts are written and a note says so.
 * Also for steps that do not fit, up to the moment where they stop. Errors: a bad rank filter (before anything is written), files that cannot be written. */
enum status files_write(const struct result *result, const struct result_input *input,
                        const struct files_options *options, struct error *error);

/* The trace alone, with memory but without links, to `path` (.json.gz). Also of a measured timeline. */
enum status files_trace(const char *path, const struct result_input *input, struct error *error);

/* ops.csv, memory.csv and traffic.csv as texts. */
enum status files_series(const struct result *result, const struct result_input *input, struct strbuf *ops,
                         struct strbuf *memory, struct strbuf *traffic, struct error *error);

/* Read a rank filter into wanted[rank_count]: numbers and ranges from 0, comma-separated. STATUS_BAD_INPUT says what is allowed. */
enum status files_rank_filter(const char *text, uint32_t rank_count, bool *wanted, struct error *error);

#endif
