/* The critical path as JSON and as text. */
#include "sim/base/check.h"
#include "sim/base/units.h"
#include "sim/report/critical_path.h"
#include "sim/report/text_table.h"

const char *path_cause_word(uint32_t cause)
{
    CHECK(cause < PATH_CAUSE_COUNT);
    if (cause < PATH_FIRST_OPCODE) {
        return op_phase_word((enum op_phase)cause);
    }
    switch (cause) {
    case PATH_HOST_ISSUE: return "host_issue";
    case PATH_MEMORY_WAIT: return "memory_wait";
    case PATH_CONTENTION: return "contention";
    case PATH_UNEXPLAINED: return "unexplained";
    default: return opcode_word((enum opcode)(cause - PATH_FIRST_OPCODE));
    }
}

static const char *cause_help(uint32_t cause)
{
    static const char *const phases[PHASE_COUNT] = {
        [PHASE_FORWARD] = "forward kernels",
        [PHASE_BACKWARD] = "backward kernels",
        [PHASE_WEIGHT] = "weight-gradient kernels",
        [PHASE_RECOMPUTE] = "kernels that repeat forward work",
        [PHASE_TENSOR_COMM] = "tensor-parallel collectives inside passes, not hidden",
        [PHASE_PIPELINE_COMM] = "kernels for sends and receives",
        [PHASE_DATA_COMM] = "kernels for gradient reduction and weight gathers",
        [PHASE_OFFLOAD] = "kernels for copies",
        [PHASE_OPTIMIZER] = "gradient norm and parameter update",
        [PHASE_OTHER] = "other kernels",
    };
    if (cause < PATH_FIRST_OPCODE) {
        return phases[cause];
    }
    switch (cause) {
    case PATH_HOST_ISSUE: return "the host's launches";
    case PATH_MEMORY_WAIT: return "waiting for memory to be freed";
    case PATH_CONTENTION: return "sharing links, SMs, memory, cores with others";
    case PATH_UNEXPLAINED: return "no cause found";
    default: return opcode_summary((enum opcode)(cause - PATH_FIRST_OPCODE));
    }
}

const char *path_link_word(enum path_link link)
{
    static const char *const words[] = {
#define X(name, word, help) word,
        PATH_LINK_TABLE(X)
#undef X
    };
    return words[link];
}

static const char *link_help(enum path_link link)
{
    static const char *const texts[] = {
#define X(name, word, help) help,
        PATH_LINK_TABLE(X)
#undef X
    };
    return texts[link];
}

static double share_of(int64_t part_ps, int64_t all_ps)
{
    return all_ps > 0 ? (double)part_ps / (double)all_ps : 0;
}

/* Indices of the nonzero values, descending, equal ones in order. */
static uint32_t sorted_nonzero(const int64_t *values, uint32_t count, uint32_t *order)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t at = kept;
        if (values[i] == 0) {
            continue;
        }
        for (; at > 0 && values[order[at - 1]] < values[i]; at--) {
            order[at] = order[at - 1];
        }
        order[at] = i;
        kept++;
    }
    return kept;
}

static void json_time(struct json_writer *w, const char *key, const char *word, int64_t time_ps, int64_t all_ps)
{
    jw_object(w, NULL);
    jw_string(w, key, word);
    jw_real(w, "time_s", s_from_ps(time_ps));
    jw_real(w, "share", share_of(time_ps, all_ps));
    jw_end(w);
}

void critical_path_json(const struct critical_path *path, const struct result_input *input, struct json_writer *w)
{
    const struct schedule *s = input->schedule;
    uint32_t order[PATH_CAUSE_COUNT];
    char text[160];
    jw_object(w, "critical_path");
    jw_int(w, "length_ps", path->length_ps);
    jw_real(w, "length_s", s_from_ps(path->length_ps));
    jw_uint(w, "spans", path->span_count);
    jw_array(w, "causes");
    uint32_t count = sorted_nonzero(path->cause_ps, PATH_CAUSE_COUNT, order);
    for (uint32_t i = 0; i < count; i++) {
        json_time(w, "cause", path_cause_word(order[i]), path->cause_ps[order[i]], path->length_ps);
    }
    jw_end(w);
    jw_array(w, "began_by");
    count = sorted_nonzero(path->link_ps, PATH_LINK_COUNT, order);
    for (uint32_t i = 0; i < count; i++) {
        json_time(w, "link", path_link_word((enum path_link)order[i]), path->link_ps[order[i]], path->length_ps);
    }
    jw_end(w);
    jw_array(w, "stages");
    for (uint32_t i = 0; i < path->rank_count; i++) {
        json_time(w, "rank", sched_label(s, s->ranks[i].label), path->rank_ps[i], path->length_ps);
    }
    jw_end(w);
    jw_array(w, "top_ops");
    for (uint32_t i = 0; i < path->top_count; i++) {
        json_time(w, "op", sched_op_text(s, path->top[i].op, text, sizeof text), path->top[i].time_ps, path->length_ps);
    }
    jw_end(w);
    jw_end(w);
}

static void text_row(struct text_table *table, const char *word, int64_t time_ps, int64_t all_ps, const char *help)
{
    char time[32];
    text_table_cell(table, "%s", word);
    text_table_cell(table, "%s", text_time_ps(time_ps, time, sizeof time));
    text_table_cell(table, "%.1f %%", 100 * share_of(time_ps, all_ps));
    text_table_cell(table, "%s", help);
}

void critical_path_text(const struct critical_path *path, const struct result_input *input, struct strbuf *out)
{
    enum { RANKS_SHOWN = 64 };
    const struct schedule *s = input->schedule;
    struct text_table causes = { .column_count = 4, .right = 6, .last_width = 50 }, links = causes, ranks = causes,
                      ops = causes;
    uint32_t order[PATH_CAUSE_COUNT];
    char text[160], time[32];
    uint32_t count = sorted_nonzero(path->cause_ps, PATH_CAUSE_COUNT, order);
    for (uint32_t i = 0; i < count; i++) {
        text_row(&causes, path_cause_word(order[i]), path->cause_ps[order[i]], path->length_ps, cause_help(order[i]));
    }
    uint32_t steps = timeline_step(s, input->timeline).steps;
    strbuf_printf(out, "\nCritical path: %s in %u spans, one cause at every instant",
                  text_time_ps(path->length_ps, time, sizeof time), path->span_count);
    if (steps > 1) {
        strbuf_printf(out, ", of the settled step, %u of %u", steps - 1, steps);
    }
    strbuf_char(out, '\n');
    text_table_print(&causes, 2, false, out);
    count = sorted_nonzero(path->link_ps, PATH_LINK_COUNT, order);
    strbuf_append(out, "What let the ops on it begin\n");
    for (uint32_t i = 0; i < count; i++) {
        text_row(&links, path_link_word((enum path_link)order[i]), path->link_ps[order[i]], path->length_ps,
                 link_help((enum path_link)order[i]));
    }
    text_table_print(&links, 2, false, out);
    strbuf_append(out, "Stages it runs through\n");
    for (uint32_t i = 0; i < path->rank_count && i < RANKS_SHOWN; i++) {
        text_row(&ranks, sched_label(s, s->ranks[i].label), path->rank_ps[i], path->length_ps, "");
    }
    text_table_print(&ranks, 2, false, out);
    strbuf_append(out, "Ops with most time on it\n");
    for (uint32_t i = 0; i < path->top_count; i++) {
        text_row(&ops, sched_op_text(s, path->top[i].op, text, sizeof text), path->top[i].time_ps, path->length_ps, "");
    }
    text_table_print(&ops, 2, false, out);
    out->failed = out->failed || causes.failed || links.failed || ranks.failed || ops.failed;
    text_table_free(&causes);
    text_table_free(&links);
    text_table_free(&ranks);
    text_table_free(&ops);
}
