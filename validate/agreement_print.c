/* Agreement as text, JSON and CSV. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "sim/base/json_write.h"
#include "sim/base/units.h"
#include "sim/report/text_table.h"
#include "validate/agreement.h"

static const char *time_text(double seconds, char *buffer, size_t size)
{
    return text_time_ps(ps_nearest_s(seconds), buffer, size);
}

/* ---- text ---- */

/* Whether the error is more than what repeating the measurement would change. */
static void verdict(const struct agreement *a, struct strbuf *out)
{
    double noise = 100 * a->noise;
    strbuf_printf(out, "  step error   %+.2f %%: ", 100 * a->signed_step_error);
    if (strcmp(a->executor, "sim") == 0) {
        strbuf_append(out, "computed both times, there is no noise\n");
    } else if (isnan(a->noise)) {
        strbuf_append(out, "one step was measured, so how much of this is noise is unknown (--steps 9 tells)\n");
    } else if (a->step_error > a->noise) {
        strbuf_printf(out, "more than noise, the median of %u steps is known to +-%.2f %%\n", a->step_count, noise);
    } else {
        strbuf_printf(out, "no more than noise, the median of %u steps is known to +-%.2f %%\n", a->step_count, noise);
    }
}

static void memory_verdict(const struct agreement *a, struct strbuf *out)
{
    uint32_t differing = 0, racing = 0, impossible = agreement_impossible(a);
    for (uint32_t i = 0; i < a->space_count; i++) {
        const struct agreement_space *one = &a->spaces[i];
        differing += one->simulated_peak_bytes != one->measured_peak_bytes;
        racing += one->least_peak_bytes != one->most_peak_bytes;
    }
    if (a->memory_equal) {
        strbuf_printf(out, "  memory       equal to the byte: the peak of every space (%u)", a->space_count);
    } else {
        strbuf_printf(out, "  memory       DIFFERS: the peaks of %u of %u spaces", differing, a->space_count);
    }
    if (!a->ranges_known) {
        strbuf_append(out, "\n\n");
    } else if (impossible > 0) {
        strbuf_printf(out, "; no timing of this schedule gives %u of the measured ones: a fault\n\n", impossible);
    } else if (racing > 0) {
        strbuf_printf(out, "; what ends first decides %u of them, within the range below\n\n", racing);
    } else {
        strbuf_append(out, "; no timing can change one\n\n");
    }
}

static void headline(const struct agreement *a, const struct schedule *s, struct strbuf *out)
{
    char hash[HASH_TEXT_BYTES], t[4][32];
    strbuf_printf(out, "Simulated against measured: schedule %s of %u ops, %s executor%s\n\n",
                  hash_text(&a->schedule_hash, hash), s->op_count, a->executor,
                  a->emulated ? " (emulated: ranks share GPUs)" : "");
    strbuf_printf(out, "  step time    simulated %s, measured %s", time_text(a->simulated_step_s, t[0], sizeof t[0]),
                  time_text(a->median_step_s, t[1], sizeof t[1]));
    if (a->step_count > 1) {
        strbuf_printf(out, " (median of %u: %s to %s)", a->step_count, time_text(a->min_step_s, t[2], sizeof t[2]),
                      time_text(a->max_step_s, t[3], sizeof t[3]));
    }
    strbuf_char(out, '\n');
    if (a->training_steps > 1) {
        strbuf_printf(out,
                      "  counted      of %u training steps in the schedule the settled one, the last but one: step and "
                      "ops; peaks "
                      "are of all\n",
                      a->training_steps);
    }
    verdict(a, out);
    strbuf_printf(out, "  ops          median error %.1f %%, nine in ten below %.1f %% (of their time, at least %s)\n",
                  100 * a->all.median_error, 100 * a->all.p90_error, time_text(a->floor_s, t[0], sizeof t[0]));
    memory_verdict(a, out);
}

static void group_row(struct text_table *table, const char *name, const struct agreement_group *group)
{
    char t[2][32];
    text_table_cell(table, "%s", name);
    text_table_cell(table, "%u", group->ops);
    text_table_cell(table, "%s", time_text(group->simulated_s, t[0], sizeof t[0]));
    text_table_cell(table, "%s", time_text(group->measured_s, t[1], sizeof t[1]));
    text_table_cell(table, "%+.1f %%", 100 * group->bias);
    text_table_cell(table, "%.1f %%", 100 * group->median_error);
    text_table_cell(table, "%.1f %%", 100 * group->p90_error);
}

static void groups(const struct agreement *a, struct strbuf *out)
{
    static const char *const heads[] = { "", "ops", "simulated", "measured", "bias", "median error", "90 % below" };
    struct text_table table = { .column_count = 7, .right = 0x7eu };
    for (uint32_t i = 0; i < 7; i++) {
        text_table_cell(&table, "%s", heads[i]);
    }
    for (uint32_t i = 0; i < OPCODE_COUNT; i++) {
        if (a->by_opcode[i].ops > 0) {
            group_row(&table, opcode_word((enum opcode)i), &a->by_opcode[i]);
        }
    }
    for (uint32_t i = 0; i < PHASE_COUNT; i++) {
        if (a->by_phase[i].ops > 0) {
            char name[48];
            snprintf(name, sizeof name, "  %s", op_phase_word((enum op_phase)i));
            group_row(&table, name, &a->by_phase[i]);
        }
    }
    group_row(&table, "all", &a->all);
    strbuf_append(out, "By kind of op, then by what it is for (times are sums over all ranks)\n");
    text_table_print(&table, 2, true, out);
    text_table_free(&table);
    strbuf_char(out, '\n');
}

static void worst(const struct agreement *a, const struct schedule *s, struct strbuf *out)
{
    if (a->worst_count == 0) {
        return;
    }
    struct text_table table = { .column_count = 5, .right = 0xfu };
    static const char *const heads[] = { "error", "simulated", "measured", "op", "" };
    for (uint32_t i = 0; i < 5; i++) {
        text_table_cell(&table, "%s", heads[i]);
    }
    for (uint32_t i = 0; i < a->worst_count; i++) {
        const struct agreement_op *one = &a->worst[i];
        char t[2][32], text[160];
        text_table_cell(&table, "%.1f %%", 100 * one->error);
        text_table_cell(&table, "%s", time_text(one->simulated_s, t[0], sizeof t[0]));
        text_table_cell(&table, "%s", time_text(one->measured_s, t[1], sizeof t[1]));
        text_table_cell(&table, "%u", one->op);
        text_table_cell(&table, "%s", sched_op_text(s, one->op, text, sizeof text));
    }
    strbuf_append(out, "The worst ops\n");
    text_table_print(&table, 2, true, out);
    text_table_free(&table);
    strbuf_char(out, '\n');
}

static void range_cell(struct text_table *table, const struct agreement *a, const struct agreement_space *one)
{
    char text[32];
    if (!a->ranges_known) {
        text_table_cell(table, "not known");
    } else if (one->least_peak_bytes == one->most_peak_bytes) {
        text_table_cell(table, "%s", text_bytes((double)one->least_peak_bytes, text, sizeof text));
    } else {
        text_table_cell(table, "%llu to %llu B", (unsigned long long)one->least_peak_bytes,
                        (unsigned long long)one->most_peak_bytes);
    }
}

/* Spaces that differ in full bytes; the others as people read them. */
static void memory(const struct agreement *a, const struct schedule *s, struct strbuf *out)
{
    struct text_table table = { .column_count = 6, .right = 0x3eu };
    static const char *const heads[] = { "", "simulated", "measured", "in any run", "reserved sim.", "reserved meas." };
    for (uint32_t i = 0; i < 6; i++) {
        text_table_cell(&table, "%s", heads[i]);
    }
    for (uint32_t i = 0; i < a->space_count; i++) {
        const struct agreement_space *one = &a->spaces[i];
        const uint64_t bytes[] = { one->simulated_peak_bytes, one->measured_peak_bytes, one->simulated_reserved_bytes,
                                   one->measured_reserved_bytes };
        if ((bytes[0] | bytes[1]) == 0) {
            continue;
        }
        text_table_cell(&table, "%s%s", sched_label(s, s->spaces[i].label), bytes[0] != bytes[1] ? "  DIFFERS" : "");
        for (uint32_t k = 0; k < 4; k++) {
            char text[32];
            if (k < 2 && bytes[0] != bytes[1]) {
                text_table_cell(&table, "%llu B", (unsigned long long)bytes[k]);
            } else {
                text_table_cell(&table, "%s", text_bytes((double)bytes[k], text, sizeof text));
            }
            if (k == 1) {
                range_cell(&table, a, one);
            }
        }
    }
    strbuf_append(out, "Memory at its peak (live; and held by the allocator)\n");
    text_table_print(&table, 2, true, out);
    text_table_free(&table);
}

void agreement_print(const struct agreement *a, const struct schedule *schedule, const char *notes, struct strbuf *out)
{
    headline(a, schedule, out);
    if (notes[0] != '\0') {
        strbuf_printf(out, "%s%s\n", notes, notes[strlen(notes) - 1] == '\n' ? "" : "\n");
    }
    groups(a, out);
    worst(a, schedule, out);
    memory(a, schedule, out);
}

/* ---- JSON ---- */

static void print_group(struct json_writer *w, const char *key, const char *name, const struct agreement_group *group)
{
    jw_object(w, NULL);
    jw_string(w, key, name);
    jw_uint(w, "ops", group->ops);
    jw_real(w, "simulated_s", group->simulated_s);
    jw_real(w, "measured_s", group->measured_s);
    jw_real(w, "bias", group->bias);
    jw_real(w, "median_error", group->median_error);
    jw_real(w, "p90_error", group->p90_error);
    jw_end(w);
}

static void print_step(struct json_writer *w, const struct agreement *a)
{
    jw_real(w, "simulated_step_s", a->simulated_step_s);
    jw_object(w, "measured_step_s");
    jw_real(w, "median", a->median_step_s);
    jw_real(w, "min", a->min_step_s);
    jw_real(w, "max", a->max_step_s);
    jw_array(w, "steps");
    for (uint32_t i = 0; i < a->step_count; i++) {
        jw_real(w, NULL, a->steps_s[i]);
    }
    jw_end(w);
    jw_end(w);
    jw_real(w, "step_error", a->step_error);
    jw_real(w, "signed_step_error", a->signed_step_error);
    jw_real(w, "spread", a->spread);
    if (isnan(a->noise)) {
        jw_null(w, "noise");
        jw_null(w, "exceeds_noise");
    } else {
        jw_real(w, "noise", a->noise);
        jw_bool(w, "exceeds_noise", a->step_error > a->noise);
    }
}

static void print_ops(struct json_writer *w, const struct agreement *a, const struct schedule *s)
{
    jw_object(w, "op_error");
    jw_real(w, "median", a->all.median_error);
    jw_real(w, "p90", a->all.p90_error);
    jw_real(w, "bias", a->all.bias);
    jw_uint(w, "ops", a->all.ops);
    jw_real(w, "floor_s", a->floor_s);
    jw_end(w);
    jw_array(w, "by_opcode");
    for (uint32_t i = 0; i < OPCODE_COUNT; i++) {
        if (a->by_opcode[i].ops > 0) {
            print_group(w, "opcode", opcode_word((enum opcode)i), &a->by_opcode[i]);
        }
    }
    jw_end(w);
    jw_array(w, "by_phase");
    for (uint32_t i = 0; i < PHASE_COUNT; i++) {
        if (a->by_phase[i].ops > 0) {
            print_group(w, "phase", op_phase_word((enum op_phase)i), &a->by_phase[i]);
        }
    }
    jw_end(w);
    jw_array(w, "worst");
    for (uint32_t i = 0; i < a->worst_count; i++) {
        char text[160];
        jw_object(w, NULL);
        jw_uint(w, "op", a->worst[i].op);
        jw_string(w, "what", sched_op_text(s, a->worst[i].op, text, sizeof text));
        jw_real(w, "simulated_s", a->worst[i].simulated_s);
        jw_real(w, "measured_s", a->worst[i].measured_s);
        jw_real(w, "error", a->worst[i].error);
        jw_end(w);
    }
    jw_end(w);
}

void agreement_print_json(const struct agreement *a, const struct schedule *s, const char *notes, struct strbuf *out)
{
    struct json_writer w = { .out = out };
    char hash[HASH_TEXT_BYTES];
    jw_object(&w, NULL);
    jw_string(&w, "schema", "memwall.validation/1");
    jw_string(&w, "schedule_hash", hash_text(&a->schedule_hash, hash));
    jw_string(&w, "executor", a->executor);
    jw_bool(&w, "emulated", a->emulated);
    jw_bool(&w, "fits", true);
    jw_int(&w, "training_steps", a->training_steps);
    print_step(&w, a);
    print_ops(&w, a, s);
    jw_bool(&w, "memory_equal", a->memory_equal);
    if (a->ranges_known) {
        jw_bool(&w, "memory_possible", agreement_impossible(a) == 0);
    } else {
        jw_null(&w, "memory_possible");
    }
    jw_array(&w, "spaces");
    for (uint32_t i = 0; i < a->space_count; i++) {
        const struct agreement_space *one = &a->spaces[i];
        jw_object(&w, NULL);
        jw_string(&w, "name", sched_label(s, s->spaces[i].label));
        jw_string(&w, "space", space_kind_word((enum space_kind)s->spaces[i].kind));
        jw_uint(&w, "simulated_peak_bytes", one->simulated_peak_bytes);
        jw_uint(&w, "measured_peak_bytes", one->measured_peak_bytes);
        jw_uint(&w, "simulated_peak_reserved_bytes", one->simulated_reserved_bytes);
        jw_uint(&w, "measured_peak_reserved_bytes", one->measured_reserved_bytes);
        if (a->ranges_known) {
            jw_uint(&w, "least_peak_bytes", one->least_peak_bytes);
            jw_uint(&w, "most_peak_bytes", one->most_peak_bytes);
        }
        jw_end(&w);
    }
    jw_end(&w);
    jw_string(&w, "notes", notes);
    jw_end(&w);
    strbuf_char(out, '\n');
}

/* ---- CSV ---- */

void agreement_print_csv(const struct agreement *a, const struct schedule *s, struct strbuf *out)
{
    strbuf_append(out, "op,rank,queue,opcode,phase,simulated_us,measured_us,error,counted\n");
    for (uint32_t i = 0; i < a->op_count; i++) {
        const struct sched_op *op = &s->ops[i];
        char t[3][32];
        strbuf_printf(
            out, "%u,%u,%u,%s,%s,%s,%s,%s,%d\n", i, sched_op_rank(s, op), op->queue,
            opcode_word((enum opcode)op->opcode), op_phase_word((enum op_phase)op->phase),
            text_real(1e6 * a->op_simulated_s[i], t[0], sizeof t[0]),
            text_real(1e6 * a->op_measured_s[i], t[1], sizeof t[1]),
            text_real(agreement_error(a->op_simulated_s[i], a->op_measured_s[i], a->floor_s), t[2], sizeof t[2]),
            (int)a->op_inside[i]);
    }
}
