/* The result for a terminal: what a buyer or a student reads first. */
#include <string.h>

#include "sim/base/units.h"
#include "sim/report/host_memory.h"
#include "sim/report/link_series.h"
#include "sim/report/memory_efficiency.h"
#include "sim/report/result.h"
#include "sim/report/text_table.h"

enum { LINKS_SHOWN = 6, BOUNDS_SHOWN = 4, WIDTH = 110 };

/* One line of `text`, broken between words, its continuation further in. */
static void put_line(struct strbuf *out, const char *text, size_t length)
{
    size_t margin = 0, used = 0;
    while (margin < length && text[margin] == ' ') {
        margin++;
    }
    for (size_t at = 0; at < length;) {
        size_t blanks = strspn(text + at, " "), word = blanks + strcspn(text + at + blanks, " \n");
        if (used > margin + 4 && used + word > WIDTH) {
            strbuf_printf(out, "\n%*s", (int)margin + 4, "");
            used = margin + 4;
            at += blanks;
            word -= blanks;
        }
        strbuf_append_n(out, text + at, word);
        used += word;
        at += word;
    }
    strbuf_char(out, '\n');
}

/* The outcome, whose first words are in capitals once, as the headline. */
static void put_outcome(const struct result *result, const struct result_input *input, struct strbuf *out)
{
    bool deadlock = input->timeline->outcome == TIMELINE_DEADLOCK;
    const char *word = deadlock ? "deadlock" : "does not fit", *text = result->outcome.text;
    struct strbuf whole = { 0 };
    strbuf_append(&whole, deadlock ? "DEADLOCK" : "DOES NOT FIT");
    if (text != NULL && strncmp(text, word, strlen(word)) == 0) {
        strbuf_append(&whole, text + strlen(word));
    } else if (text != NULL) {
        strbuf_printf(&whole, ": %s", text);
    }
    for (const char *line = whole.text; line != NULL && *line != '\0';) {
        size_t length = strcspn(line, "\n");
        put_line(out, line, length);
        line += length + (line[length] == '\n');
    }
    strbuf_char(out, '\n');
    out->failed = out->failed || whole.failed;
    strbuf_free(&whole);
}

static void put_memory_efficiency(const struct result_input *input, const struct result *result, struct strbuf *out)
{
    const struct memory_efficiency efficiency =
        memory_efficiency_of(input->schedule, input->timeline, result->samples_per_s);
    char text[32];
    if (efficiency.of_max > 0) {
        strbuf_printf(out, "  memory efficiency  %s samples/s for each GiB that the fullest GPU holds at its peak\n",
                      text_number(efficiency.of_max, 4, text, sizeof text));
    }
}

static void headline(const struct result *result, const struct result_input *input, struct strbuf *out)
{
    char a[32], b[32];
    strbuf_printf(out, "%s\n", result->name);
    strbuf_printf(out, "%u GPU%s of %s, software %s, executor %s%s, a schedule of %u ops\n", input->schedule->gpu_count,
                  input->schedule->gpu_count == 1 ? "" : "s", input->cluster->machine->name, input->software->name,
                  input->timeline->executor, input->timeline->emulated ? " (emulated: ranks share GPUs)" : "",
                  input->schedule->op_count);
    if (input->plan != NULL) {
        put_line(out, input->plan, strlen(input->plan));
    }
    strbuf_char(out, '\n');
    if (!result->fits) {
        put_outcome(result, input, out);
        if (!result->complete) {
            return;
        }
        strbuf_append(out, "  What follows is the same step with memory to spare: what it would need and take.\n\n");
    }
    strbuf_printf(out, "  step time          %s", text_time_ps(ps_nearest_s(result->step_time_s), a, sizeof a));
    if (result->steps > 1) {
        strbuf_printf(out, " (settled: step %u of %u simulated; the rest fill the pipeline and keep it full)",
                      result->steps - 1, result->steps);
    }
    if (input->measured != NULL) {
        char c[32], d[32];
        strbuf_printf(out, " (median of %u measured steps: %s to %s)", input->measured->count,
                      text_time_ps(ps_nearest_s(input->measured->min_s), c, sizeof c),
                      text_time_ps(ps_nearest_s(input->measured->max_s), d, sizeof d));
    }
    strbuf_char(out, '\n');
    char samples[32], tokens[32];
    strbuf_printf(out, "  throughput         %s samples/s, %s tokens/s (%s a GPU)\n",
                  text_number(result->samples_per_s, 4, samples, sizeof samples),
                  text_number(result->tokens_per_s, 4, tokens, sizeof tokens),
                  text_number(result->tokens_per_s_per_gpu, 4, a, sizeof a));
    text_flops_per_s(result->model_tflops_per_gpu * 1e12, a, sizeof a);
    text_flops_per_s(result->hardware_tflops_per_gpu * 1e12, b, sizeof b);
    bool recomputes = false;
    for (uint32_t i = 0; i < result->stage_count; i++) {
        recomputes = recomputes || result->stages[i].busy_s[TIME_RECOMPUTE] > 0;
    }
    const char *executed =
        result_executed_words(result->model_tflops_per_gpu, result->hardware_tflops_per_gpu, recomputes);
    if (input->is_elsewhere) {
        strbuf_printf(out, "  model FLOP rate    %s a GPU\n  executed FLOP rate %s a GPU (%s)\n", a, b, executed);
        put_memory_efficiency(input, result, out);
        strbuf_printf(out, "  Measured on this computer, not on %s: there is no share of a peak to tell.\n\n",
                      input->cluster->machine->name);
    } else {
        strbuf_printf(out, "  model FLOP rate    %s a GPU, MFU %.1f %%\n", a, 100 * result->mfu);
        strbuf_printf(out, "  executed FLOP rate %s a GPU, HFU %.1f %% (%s)\n", b, 100 * result->hfu, executed);
        put_memory_efficiency(input, result, out);
        strbuf_char(out, '\n');
    }
}

/* Lines with a name in front; neighbours with the same figures (ranks that are equal by symmetry) stand once. */
struct rows {
    struct strbuf *out, last;
    const char *name;
    int width;     /* of the names */
    uint32_t kind; /* of the last row: only equal kinds are alike */
    uint32_t alike;
};

static void rows_end(struct rows *rows)
{
    if (rows->alike > 0) {
        strbuf_printf(rows->out, "  %-*s%s", rows->width, rows->name, rows->last.text != NULL ? rows->last.text : "");
        strbuf_char(rows->out, '\n');
        if (rows->alike > 1) {
            strbuf_printf(rows->out, "    and %u like it\n", rows->alike - 1);
        }
    }
    rows->out->failed = rows->out->failed || rows->last.failed;
    strbuf_free(&rows->last);
    rows->last = (struct strbuf){ 0 };
    rows->alike = 0;
}

/* Takes `row` over. */
static void rows_add(struct rows *rows, const char *name, uint32_t kind, struct strbuf *row)
{
    if (rows->alike > 0 && rows->kind == kind && rows->last.text != NULL && row->text != NULL &&
        strcmp(rows->last.text, row->text) == 0) {
        rows->alike++;
        strbuf_free(row);
        return;
    }
    rows_end(rows);
    rows->last = *row;
    rows->name = name;
    rows->kind = kind;
    rows->alike = 1;
}

/* Percent of the step by cause, one line a rank; then what was hidden behind compute. */
static void where_time_goes(const struct result *result, const struct result_input *input, struct strbuf *out)
{
    strbuf_append(out, "Where the step goes (% of the step; communication counts only where it is exposed)\n");
    int width = 10;
    for (uint32_t i = 0; i < result->stage_count; i++) {
        int length = (int)strlen(sched_label(input->schedule, input->schedule->ranks[result->stages[i].rank].label));
        width = length > width ? length : width;
    }
    struct rows rows = { .out = out, .width = width };
    strbuf_printf(out, "  %-*s", width, "");
    static const char *const heads[] = { "compute", "recomp.", "tensor", "pipeline", "data",
                                         "offload", "optim.",  "bubble", "mem.wait", "host" };
    _Static_assert(sizeof heads / sizeof heads[0] == TIME_CLASS_COUNT, "one head a class");
    for (uint32_t c = 0; c < TIME_CLASS_COUNT; c++) {
        strbuf_printf(out, " %8s", heads[c]);
    }
    strbuf_char(out, '\n');
    for (uint32_t i = 0; i < result->stage_count; i++) {
        const struct stage_times *times = &result->stages[i];
        struct strbuf row = { 0 };
        for (uint32_t c = 0; c < TIME_CLASS_COUNT; c++) {
            if (times->exposed_s[c] > 0) {
                strbuf_printf(&row, " %8.1f", 100 * times->exposed_s[c] / result->step_time_s);
            } else {
                strbuf_printf(&row, " %8s", "-");
            }
        }
        rows_add(&rows, sched_label(input->schedule, input->schedule->ranks[times->rank].label), 0, &row);
    }
    rows_end(&rows);
    double hidden[TIME_CLASS_COUNT] = { 0 };
    for (uint32_t i = 0; i < result->stage_count; i++) {
        for (uint32_t c = 0; c < TIME_CLASS_COUNT; c++) {
            hidden[c] += (result->stages[i].busy_s[c] - result->stages[i].exposed_s[c]) / result->stage_count;
        }
    }
    bool any = false;
    for (uint32_t c = TIME_TENSOR_COMM; c <= TIME_OFFLOAD; c++) {
        if (hidden[c] > 0.001 * result->step_time_s) {
            char text[32];
            strbuf_printf(out, "%s %s %s",
                          any ? "," : "  hidden behind other work, a rank:", time_class_word((enum time_class)c),
                          text_time_ps(ps_from_s(hidden[c]), text, sizeof text));
            any = true;
        }
    }
    strbuf_append(out, any ? "\n\n" : "\n");
}

/* Six characters for most of what machines hold. */
static void put_gib(struct strbuf *out, int width, uint64_t bytes)
{
    double gib = (double)bytes / GIB;
    if (bytes == UINT64_MAX) {
        strbuf_printf(out, " %*s", width, "any");
    } else {
        strbuf_printf(out, " %*.*f", width, gib < 999.995 ? 2 : 1, gib);
    }
}

/* Live bytes fit, what the allocator model holds does not: the step may fail where the simulation went through. A space inside one that is warned of says nothing new. */
static void warn_of_fragmentation(const struct result_input *input, struct strbuf *out)
{
    const struct schedule *s = input->schedule;
    const struct space_use *uses = input->timeline->spaces;
    for (uint32_t i = 0; i < s->space_count; i++) {
        const struct sched_space *space = &s->spaces[i];
        uint32_t parent = space->parent;
        char held[32], capacity[32];
        if (uses[i].peak_reserved_bytes <= space->capacity_bytes || uses[i].peak_bytes > space->capacity_bytes ||
            (parent != SCHED_NONE && uses[parent].peak_reserved_bytes > s->spaces[parent].capacity_bytes)) {
            continue;
        }
        strbuf_printf(out, "  WARNING: fragmentation of %s: the allocator model would hold %s of %s\n",
                      sched_label(s, space->label), text_bytes((double)uses[i].peak_reserved_bytes, held, sizeof held),
                      text_bytes((double)space->capacity_bytes, capacity, sizeof capacity));
    }
}

static void memory_rows(const struct result_input *input, struct strbuf *out)
{
    const struct schedule *s = input->schedule;
    static const char *const heads[] = {
        "weight", "grads", "optim.", "activ.", "bound.", "worksp", "comm.", "runtime"
    };
    _Static_assert(sizeof heads / sizeof heads[0] == BUFFER_CLASS_COUNT, "one head a class");
    struct rows rows = { .out = out, .width = 8 };
    for (uint32_t i = 0; i < s->space_count; i++) {
        int length = (int)strlen(sched_label(s, s->spaces[i].label));
        rows.width = input->timeline->spaces[i].peak_bytes > 0 && length > rows.width ? length : rows.width;
    }
    strbuf_printf(out, "  %-*s %6s %8s %8s", rows.width, "", "peak", "reserved", "capacity");
    for (uint32_t c = 0; c < BUFFER_CLASS_COUNT; c++) {
        strbuf_printf(out, " %6s", heads[c]);
    }
    strbuf_char(out, '\n');
    for (uint32_t i = 0; i < s->space_count; i++) {
        const struct space_use *use = &input->timeline->spaces[i];
        if (use->peak_bytes == 0) {
            continue;
        }
        struct strbuf row = { 0 };
        put_gib(&row, 6, use->peak_bytes);
        put_gib(&row, 8, use->peak_reserved_bytes);
        put_gib(&row, 8, s->spaces[i].capacity_bytes);
        for (uint32_t c = 0; c < BUFFER_CLASS_COUNT; c++) {
            if (use->at_peak_bytes[c] > 0) {
                put_gib(&row, 6, use->at_peak_bytes[c]);
            } else {
                strbuf_printf(&row, " %6s", "-");
            }
        }
        rows_add(&rows, sched_label(s, s->spaces[i].label), s->spaces[i].kind, &row);
    }
    rows_end(&rows);
}

static void memory(const struct result *result, const struct result_input *input, struct strbuf *out)
{
    const struct schedule *s = input->schedule;
    bool pinned = false;
    for (uint32_t i = 0; i < s->space_count; i++) {
        pinned = pinned || (s->spaces[i].parent != SCHED_NONE && input->timeline->spaces[i].peak_bytes > 0);
    }
    strbuf_printf(out, "Memory at its peak%s (GiB%s%s)\n", result->complete ? "" : " until it got stuck",
                  pinned ? "; pinned memory lies inside host memory" : "",
                  result->complete ? "" : "; reserved: as the whole step would");
    memory_rows(input, out);
    host_memory_text(result, input, out);
    if (result->complete) {
        warn_of_fragmentation(input, out);
    }
    uint32_t fullest = SCHED_NONE;
    for (uint32_t i = 0; i < s->space_count; i++) {
        if (s->spaces[i].kind == SPACE_DEVICE && input->timeline->spaces[i].peak_bytes > 0 &&
            (fullest == SCHED_NONE ||
             input->timeline->spaces[i].peak_bytes > input->timeline->spaces[fullest].peak_bytes)) {
            fullest = i;
        }
    }
    if (fullest != SCHED_NONE && input->timeline->spaces[fullest].peak_op != SCHED_NONE) {
        char text[160], when[32];
        const struct space_use *use = &input->timeline->spaces[fullest];
        strbuf_printf(out, "  the fullest, %s, peaks at %s: %s\n", sched_label(s, s->spaces[fullest].label),
                      text_time_ps(use->peak_time_ps, when, sizeof when),
                      sched_op_text(s, use->peak_op, text, sizeof text));
    }
    strbuf_char(out, '\n');
}

/* One of each kind that moves as many bytes: the ports of a tensor-parallel group would fill the list. */
static void busiest_links(const struct result *result, const struct result_input *input, struct strbuf *out)
{
    uint32_t chosen[LINKS_SHOWN], count = link_series_choose(result, input, LINKS_SHOWN, chosen);
    if (count == 0) {
        return;
    }
    strbuf_append(out, "Busiest links (bytes of the step, as a share of what the link could have moved)\n");
    for (uint32_t i = 0; i < count; i++) {
        const struct link_traffic *link = &result->links[chosen[i]];
        double capacity = input->cluster->resources[link->resource].capacity;
        uint32_t alike = link_series_alike(result, input, chosen[i]);
        char name[96], bytes[32], rate[32];
        strbuf_printf(out, "  %-26s %10s  %5.1f %% of %s",
                      cluster_resource_name(input->cluster, link->resource, name, sizeof name),
                      text_bytes(link->bytes, bytes, sizeof bytes),
                      100 * link->bytes / (capacity * result->step_time_s),
                      text_bytes_per_s(capacity, rate, sizeof rate));
        if (alike > 1) {
            strbuf_printf(out, "  and %u like it", alike - 1);
        }
        strbuf_char(out, '\n');
    }
    strbuf_char(out, '\n');
}

static void what_binds(const struct result *result, struct strbuf *out)
{
    struct text_table table = { .column_count = 3, .right = 1u, .last_width = WIDTH };
    size_t widest = 0;
    for (uint32_t i = 0; i < result->bound_count && i < BOUNDS_SHOWN; i++) {
        const struct bound *bound = &result->bounds[i];
        text_table_cell(&table, "%.1f %%", 100 * bound->share);
        text_table_cell(&table, "%s", bound->what);
        text_table_cell(&table, "%s", bound->advice);
        widest = strlen(bound->what) > widest ? strlen(bound->what) : widest;
    }
    table.last_width = widest < WIDTH / 2 ? (uint32_t)(WIDTH - 13 - widest) : WIDTH / 2; /* "  100.0 %  what  " */
    strbuf_append(out, "What binds\n");
    text_table_print(&table, 2, false, out);
    text_table_free(&table);
}

void result_print_summary(const struct result *result, const struct result_input *input, struct strbuf *out)
{
    headline(result, input, out);
    if (result->complete) {
        where_time_goes(result, input, out);
    }
    memory(result, input, out);
    if (result->complete) {
        busiest_links(result, input, out);
        what_binds(result, out);
    }
    if (input->remedies != NULL) {
        remedies_text(input->remedies, out);
    }
}
