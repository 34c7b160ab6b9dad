#include "sim/report/memory_pressure.h"

#include "sim/base/units.h"

static bool grows_with_batch(enum buffer_class buffer_class)
{
    return buffer_class == BUFFER_ACTIVATION || buffer_class == BUFFER_BOUNDARY || buffer_class == BUFFER_WORKSPACE;
}

void memory_pressure_of(const struct result_input *input, uint32_t index, struct memory_pressure *pressure)
{
    const struct schedule *s = input->schedule;
    const struct sched_space *space = &s->spaces[index];
    const struct space_use *use = &input->timeline->spaces[index];
    uint64_t growing = 0;
    *pressure = (struct memory_pressure){
        .space = index, .stage = SCHED_NONE, .peak_bytes = use->peak_bytes, .capacity_bytes = space->capacity_bytes
    };
    for (uint32_t r = 0; r < s->rank_count; r++) {
        if (space->kind == SPACE_DEVICE && s->devices[s->ranks[r].first_device] == space->location) {
            pressure->stage = s->ranks[r].stage;
        }
    }
    for (int c = 0; c < BUFFER_CLASS_COUNT; c++) {
        if (use->at_peak_bytes[c] > pressure->largest_bytes) {
            pressure->largest = (enum buffer_class)c;
            pressure->largest_bytes = use->at_peak_bytes[c];
        }
        growing += grows_with_batch((enum buffer_class)c) ? use->at_peak_bytes[c] : 0;
    }
    pressure->next_bytes = (growing + 9) / 10;
    bool over = pressure->peak_bytes > pressure->capacity_bytes;
    uint64_t free_bytes = over ? 0 : pressure->capacity_bytes - pressure->peak_bytes;
    pressure->next_fits = !over && pressure->next_bytes <= free_bytes;
    if (growing > 0 && pressure->capacity_bytes != UINT64_MAX) {
        double room = over ? -(double)(pressure->peak_bytes - pressure->capacity_bytes) : (double)free_bytes;
        pressure->largest_batch_factor = 1 + room / (double)growing;
        pressure->largest_batch_factor = pressure->largest_batch_factor > 0 ? pressure->largest_batch_factor : 0;
    }
}

bool memory_pressure_tightest(const struct result_input *input, struct memory_pressure *pressure)
{
    double fullest = -1;
    *pressure = (struct memory_pressure){ 0 };
    for (uint32_t i = 0; i < input->schedule->space_count; i++) {
        struct memory_pressure one;
        memory_pressure_of(input, i, &one);
        double fill = one.capacity_bytes == UINT64_MAX || one.capacity_bytes == 0
                          ? 0
                          : (double)one.peak_bytes / (double)one.capacity_bytes;
        if (one.peak_bytes > 0 && fill > fullest) {
            fullest = fill;
            *pressure = one;
        }
    }
    return fullest >= 0;
}

static void print_space(const struct result_input *input, uint32_t index, struct json_writer *w)
{
    const struct schedule *s = input->schedule;
    const struct space_use *use = &input->timeline->spaces[index];
    struct memory_pressure p;
    char text[160];
    memory_pressure_of(input, index, &p);
    jw_object(w, NULL);
    jw_string(w, "name", sched_label(s, s->spaces[index].label));
    if (p.stage == SCHED_NONE) {
        jw_null(w, "stage");
    } else {
        jw_uint(w, "stage", p.stage);
    }
    jw_uint(w, "capacity_bytes", p.capacity_bytes);
    jw_uint(w, "peak_bytes", p.peak_bytes);
    jw_real(w, "peak_time_s", s_from_ps(use->peak_time_ps));
    jw_string(w, "peak_op", use->peak_op == SCHED_NONE ? NULL : sched_op_text(s, use->peak_op, text, sizeof text));
    jw_string(w, "largest_class", buffer_class_word(p.largest));
    jw_uint(w, "largest_class_bytes", p.largest_bytes);
    jw_uint(w, "next_10_percent_batch_bytes", p.next_bytes);
    jw_bool(w, "next_10_percent_batch_fits", p.next_fits);
    if (p.largest_batch_factor > 0) {
        jw_real(w, "batch_factor_that_fills", p.largest_batch_factor);
    }
    jw_end(w);
}

void memory_pressure_json(const struct result_input *input, struct json_writer *w)
{
    jw_array(w, "memory_pressure");
    for (uint32_t i = 0; i < input->schedule->space_count; i++) {
        if (input->schedule->spaces[i].capacity_bytes != UINT64_MAX && input->timeline->spaces[i].peak_bytes > 0) {
            print_space(input, i, w);
        }
    }
    jw_end(w);
}

void memory_pressure_text(const struct result_input *input, struct strbuf *out)
{
    const struct schedule *s = input->schedule;
    struct memory_pressure p;
    char a[32], b[32], c[32], op[160];
    if (!memory_pressure_tightest(input, &p)) {
        return;
    }
    const struct space_use *use = &input->timeline->spaces[p.space];
    strbuf_printf(out, "\nMemory: fullest is %s", sched_label(s, s->spaces[p.space].label));
    if (p.stage != SCHED_NONE) {
        strbuf_printf(out, " (stage %u)", p.stage);
    }
    strbuf_printf(out, ": %s of %s\n", text_bytes((double)p.peak_bytes, a, sizeof a),
                  p.capacity_bytes == UINT64_MAX ? "no limit" : text_bytes((double)p.capacity_bytes, b, sizeof b));
    strbuf_printf(out, "  peak at %s, %s; most of it %s (%s)\n", text_time_ps(use->peak_time_ps, a, sizeof a),
                  use->peak_op == SCHED_NONE ? "from the start" : sched_op_text(s, use->peak_op, op, sizeof op),
                  buffer_class_word(p.largest), text_bytes((double)p.largest_bytes, b, sizeof b));
    if (p.next_bytes == 0) {
        strbuf_append(out, "  a micro-batch 10 % larger needs nothing more there\n");
        return;
    }
    strbuf_printf(out, "  a micro-batch 10 %% larger needs %s more there: %s",
                  text_bytes((double)p.next_bytes, c, sizeof c), p.next_fits ? "fits" : "does not fit");
    if (p.largest_batch_factor > 0) {
        strbuf_printf(out, "; one %.3g times as large would fill it", p.largest_batch_factor);
    }
    strbuf_char(out, '\n');
}
