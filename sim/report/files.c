#include "sim/report/files.h"

#include <stdio.h>
#include <string.h>

#include "plots/plot.h"
#include "sim/base/check.h"
#include "sim/base/file.h"
#include "sim/base/units.h"
#include "sim/engine/cost_table.h"
#include "sim/report/csv.h"
#include "sim/report/link_series.h"
#include "traces/perfetto.h"

enum { TRACE_LINKS_MAX = 24, PATH_BYTES = 4096 };

/* ---- rank filter ---- */

/* A number at *text, which moves past it; false when there is none or it is absurdly long. */
static bool take_number(const char **text, uint32_t *value)
{
    const char *at = *text;
    *value = 0;
    while (*at >= '0' && *at <= '9' && at - *text < 9) {
        *value = *value * 10 + (uint32_t)(*at++ - '0');
    }
    bool ok = at != *text && (*at < '0' || *at > '9');
    *text = at;
    return ok;
}

enum status files_rank_filter(const char *text, uint32_t rank_count, bool *wanted, struct error *error)
{
    memset(wanted, 0, rank_count * sizeof *wanted);
    const char *at = text;
    for (;;) {
        uint32_t first, last;
        bool ok = take_number(&at, &first);
        last = first;
        if (ok && *at == '-') {
            at++;
            ok = take_number(&at, &last);
        }
        if (!ok || (*at != ',' && *at != '\0')) {
            return error_set(error, STATUS_BAD_INPUT,
                             "trace ranks \"%.200s\": expected numbers and ranges such as \"0,2-4\"", text);
        }
        if (last < first) {
            return error_set(error, STATUS_BAD_INPUT, "trace ranks \"%.200s\": the range %u-%u runs backwards", text,
                             first, last);
        }
        if (last >= rank_count) {
            return error_set(error, STATUS_BAD_INPUT,
                             "trace ranks \"%.200s\": there is no rank %u; the schedule has ranks 0 to %u", text, last,
                             rank_count - 1);
        }
        for (uint32_t r = first; r <= last; r++) {
            wanted[r] = true;
        }
        if (*at == '\0') {
            return STATUS_OK;
        }
        at++;
    }
}

/* ---- what the files share ---- */

struct output {
    const struct result *result;
    const struct result_input *input;
    const struct files_options *options;
    struct arena arena;
    struct memory_series *memory; /* spaces that ever hold something */
    uint32_t memory_count;
    struct link_series *links;
    uint32_t link_count;
    bool *ranks; /* NULL: all */
};

static enum status no_memory(struct error *error)
{
    return error_set(error, STATUS_NO_MEMORY, "out of memory for the files of %s", "--out");
}

static enum status collect_memory(struct output *output, struct error *error)
{
    const struct schedule *s = output->input->schedule;
    output->memory = arena_array(&output->arena, struct memory_series, s->space_count);
    if (output->memory == NULL) {
        return no_memory(error);
    }
    for (uint32_t i = 0; i < s->space_count; i++) {
        if (output->input->timeline->spaces[i].peak_bytes == 0) {
            continue;
        }
        struct memory_series *series = &output->memory[output->memory_count++];
        series->space = i;
        TRY(timeline_memory_by_class(s, output->input->timeline, i, &output->arena, &series->times_ps, &series->bytes,
                                     &series->count, error));
    }
    return STATUS_OK;
}

static enum status collect_links(struct output *output, struct error *error)
{
    uint32_t chosen[TRACE_LINKS_MAX];
    uint32_t count = link_series_choose(output->result, output->input, TRACE_LINKS_MAX, chosen);
    if (count == 0) {
        return STATUS_OK;
    }
    output->links = arena_array(&output->arena, struct link_series, count);
    if (output->links == NULL) {
        return no_memory(error);
    }
    output->link_count = count;
    return link_series_compute(output->result, output->input, chosen, count, &output->arena, output->links, error);
}

/* ---- counters of the trace ---- */

static uint32_t rank_of_space(const struct schedule *s, uint32_t space)
{
    for (uint32_t r = 0; s->spaces[space].kind == SPACE_DEVICE && r < s->rank_count; r++) {
        if (s->devices[s->ranks[r].first_device] == s->spaces[space].location) {
            return r;
        }
    }
    return SCHED_NONE;
}

static enum status memory_counter(struct output *output, const struct memory_series *series, const char *const *classes,
                                  struct trace_counter *counter, struct error *error)
{
    const struct schedule *s = output->input->schedule;
    size_t count = (size_t)series->count * BUFFER_CLASS_COUNT;
    double *values = arena_array(&output->arena, double, count);
    char *name = arena_printf(&output->arena, "memory of %s (GiB)", sched_label(s, s->spaces[series->space].label));
    if (values == NULL || name == NULL) {
        return no_memory(error);
    }
    for (size_t i = 0; i < count; i++) {
        values[i] = (double)series->bytes[i] / GIB;
    }
    *counter = (struct trace_counter){
        .rank = rank_of_space(s, series->space),
        .name = name,
        .series = classes,
        .times_ps = series->times_ps,
        .values = values,
        .count = series->count,
        .series_count = BUFFER_CLASS_COUNT,
    };
    return STATUS_OK;
}

static enum status link_counter(struct output *output, const struct link_series *series, const char *const *unit,
                                struct trace_counter *counter, struct error *error)
{
    char link[96];
    double *values = arena_array(&output->arena, double, series->count);
    char *name = arena_printf(&output->arena, "link %s",
                              cluster_resource_name(output->input->cluster, series->resource, link, sizeof link));
    if (values == NULL || name == NULL) {
        return no_memory(error);
    }
    for (uint32_t i = 0; i < series->count; i++) {
        values[i] = series->bytes_per_s[i] / 1e9;
    }
    *counter = (struct trace_counter){
        .rank = SCHED_NONE,
        .name = name,
        .series = unit,
        .times_ps = series->times_ps,
        .values = values,
        .count = series->count,
        .series_count = 1,
    };
    return STATUS_OK;
}

/* How long the collectives merged into each op run alone; NULL for what was not simulated. */
static enum status merged_times(struct output *output, const int64_t **merged_ps, struct error *error)
{
    const struct result_input *input = output->input;
    struct cost_table table = { 0 };
    *merged_ps = NULL;
    if (input->timeline->resources == NULL) {
        return STATUS_OK;
    }
    int64_t *times_ps = arena_array(&output->arena, int64_t, input->schedule->op_count);
    if (times_ps == NULL) {
        return no_memory(error);
    }
    TRY(cost_table_build(&table, input->schedule, input->cluster, input->software, error));
    for (uint32_t i = 0; i < input->schedule->op_count; i++) {
        times_ps[i] = table.costs[table.op_costs[i]].collective_ps;
    }
    cost_table_free(&table);
    *merged_ps = times_ps;
    return STATUS_OK;
}

static enum status write_trace(struct output *output, const char *path, struct error *error)
{
    static const char *const unit[] = { "GB/s" };
    const char *classes[BUFFER_CLASS_COUNT];
    for (uint32_t c = 0; c < BUFFER_CLASS_COUNT; c++) {
        classes[c] = buffer_class_word((enum buffer_class)c);
    }
    struct trace_counter *counters =
        arena_array(&output->arena, struct trace_counter, (size_t)output->memory_count + output->link_count);
    if (counters == NULL) {
        return no_memory(error);
    }
    uint32_t count = 0;
    for (uint32_t i = 0; i < output->memory_count; i++) {
        TRY(memory_counter(output, &output->memory[i], classes, &counters[count++], error));
    }
    for (uint32_t i = 0; i < output->link_count; i++) {
        TRY(link_counter(output, &output->links[i], unit, &counters[count++], error));
    }
    const int64_t *merged_ps;
    TRY(merged_times(output, &merged_ps, error));
    const struct perfetto_input trace = {
        .schedule = output->input->schedule,
        .timeline = output->input->timeline,
        .merged_ps = merged_ps,
        .rank_wanted = output->ranks,
        .counters = counters,
        .counter_count = count,
    };
    return perfetto_write(path, &trace, error);
}

/* ---- the files ---- */

static const char *path_of(const struct output *output, const char *name, char path[PATH_BYTES])
{
    snprintf(path, PATH_BYTES, "%s/%s", output->options->folder, name);
    return path;
}

/* Writes and empties `text`. */
static enum status write_text(const struct output *output, const char *name, struct strbuf *text, struct error *error)
{
    char path[PATH_BYTES];
    enum status status =
        text->failed ? no_memory(error) : file_write(path_of(output, name, path), text->text, text->length, error);
    strbuf_free(text);
    *text = (struct strbuf){ 0 };
    return status;
}

static enum status write_tables(struct output *output, struct error *error)
{
    const struct files_options *options = output->options;
    struct strbuf out = { 0 };
    if (options->result_json != NULL) {
        strbuf_append(&out, options->result_json);
    } else {
        result_print_json(output->result, output->input, &out);
    }
    TRY(write_text(output, "result.json", &out, error));
    if (options->run_json != NULL) {
        strbuf_append(&out, options->run_json);
        TRY(write_text(output, "run.json", &out, error));
    }
    if (options->explain_json != NULL) {
        strbuf_append(&out, options->explain_json);
        TRY(write_text(output, "explain.json", &out, error));
    }
    csv_ops(output->input, &out);
    TRY(write_text(output, "ops.csv", &out, error));
    csv_memory(output->input, output->memory, output->memory_count, &out);
    TRY(write_text(output, "memory.csv", &out, error));
    csv_links(output->result, output->input, &out);
    TRY(write_text(output, "links.csv", &out, error));
    csv_traffic(output->input, output->links, output->link_count, &out);
    TRY(write_text(output, "traffic.csv", &out, error));
    csv_stages(output->result, output->input, &out);
    return write_text(output, "stages.csv", &out, error);
}

enum status files_write(const struct result *result, const struct result_input *input,
                        const struct files_options *options, struct error *error)
{
    struct output output = { .result = result, .input = input, .options = options };
    struct plots plots;
    enum status status = STATUS_OK;
    char path[PATH_BYTES];
    if (options->note != NULL && options->note_bytes > 0) {
        options->note[0] = '\0';
    }
    if (strlen(options->folder) + 64 > PATH_BYTES) {
        return error_set(error, STATUS_IO, "the folder's name is longer than %d characters", PATH_BYTES - 64);
    }
    if (options->ranks != NULL) {
        output.ranks = arena_array(&output.arena, bool, input->schedule->rank_count);
        if (output.ranks == NULL) {
            return no_memory(error);
        }
        TRY_OR_FAIL(files_rank_filter(options->ranks, input->schedule->rank_count, output.ranks, error));
    }
    TRY_OR_FAIL(folder_make(options->folder, error));
    TRY_OR_FAIL(collect_memory(&output, error));
    TRY_OR_FAIL(collect_links(&output, error));
    const struct plot_input plot = {
        .result = result,
        .input = input,
        .memory = output.memory,
        .memory_count = output.memory_count,
        .links = output.links,
        .link_count = output.link_count,
        .folder = options->folder,
        .note = options->note,
        .note_bytes = options->note_bytes,
    };
    TRY_OR_FAIL(plots_start(&plots, &plot, error)); /* gnuplot draws while the tables are written */
    status = write_tables(&output, error);
    if (status == STATUS_OK) {
        status = write_trace(&output, path_of(&output, "trace.json.gz", path), error);
    }
    plots_finish(&plots);
fail:
    arena_free(&output.arena);
    return status;
}

enum status files_trace(const char *path, const struct result_input *input, struct error *error)
{
    struct output output = { .input = input };
    enum status status = collect_memory(&output, error);
    if (status == STATUS_OK) {
        status = write_trace(&output, path, error);
    }
    arena_free(&output.arena);
    return status;
}

enum status files_series(const struct result *result, const struct result_input *input, struct strbuf *ops,
                         struct strbuf *memory, struct strbuf *traffic, struct error *error)
{
    struct output output = { .result = result, .input = input };
    enum status status = collect_memory(&output, error);
    if (status == STATUS_OK) {
        status = collect_links(&output, error);
    }
    if (status == STATUS_OK) {
        csv_ops(input, ops);
        csv_memory(input, output.memory, output.memory_count, memory);
        csv_traffic(input, output.links, output.link_count, traffic);
        status = ops->failed || memory->failed || traffic->failed ? no_memory(error) : STATUS_OK;
    }
    arena_free(&output.arena);
    return status;
}
