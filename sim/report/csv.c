#include "sim/report/csv.h"

#include <string.h>

#include "sim/base/json_write.h"
#include "sim/base/units.h"
#include "sim/report/link_kind.h"
#include "traces/number_text.h"

void csv_text(struct strbuf *out, const char *text)
{
    if (strpbrk(text, ",\"\n\r") == NULL) {
        strbuf_append(out, text);
        return;
    }
    strbuf_char(out, '"');
    for (; *text != '\0'; text++) {
        if (*text == '"') {
            strbuf_char(out, '"');
        }
        strbuf_char(out, *text);
    }
    strbuf_char(out, '"');
}

static void put_real(struct strbuf *out, double value)
{
    char text[32];
    strbuf_append(out, text_real(value, text, sizeof text));
}

static void put_tag(struct strbuf *out, uint16_t tag)
{
    strbuf_char(out, ',');
    if (tag != OP_TAG_NONE) {
        put_unsigned(out, tag);
    }
}

static void put_gate(struct strbuf *out, int64_t time_ps)
{
    strbuf_char(out, ',');
    if (time_ps != TIME_NEVER_PS) {
        put_time_us(out, time_ps);
    }
}

void csv_ops(const struct result_input *input, struct strbuf *out)
{
    const struct schedule *s = input->schedule;
    strbuf_append(out, "op,rank,rank_name,queue,opcode,phase,micro_batch,chunk,layer,issued_us,ready_us,matched_us,"
                       "start_us,end_us,alone_us\n");
    for (uint32_t i = 0; i < s->op_count; i++) {
        const struct sched_op *op = &s->ops[i];
        const struct op_times *t = &input->timeline->ops[i];
        uint32_t rank = sched_op_rank(s, op);
        put_unsigned(out, i);
        strbuf_char(out, ',');
        put_unsigned(out, rank);
        strbuf_char(out, ',');
        csv_text(out, sched_label(s, s->ranks[rank].label));
        strbuf_char(out, ',');
        csv_text(out, sched_label(s, s->queues[op->queue].label));
        strbuf_char(out, ',');
        strbuf_append(out, opcode_word((enum opcode)op->opcode));
        strbuf_char(out, ',');
        strbuf_append(out, op_phase_word((enum op_phase)op->phase));
        put_tag(out, op->micro_batch);
        put_tag(out, op->chunk);
        put_tag(out, op->layer);
        put_gate(out, t->issued_ps);
        put_gate(out, t->ready_ps);
        put_gate(out, t->matched_ps);
        put_gate(out, t->start_ps);
        put_gate(out, t->end_ps);
        put_gate(out, t->alone_ps);
        strbuf_char(out, '\n');
    }
}

void csv_memory(const struct result_input *input, const struct memory_series *series, uint32_t series_count,
                struct strbuf *out)
{
    const struct schedule *s = input->schedule;
    strbuf_append(out, "space,kind,time_us,total_bytes");
    for (uint32_t c = 0; c < BUFFER_CLASS_COUNT; c++) {
        strbuf_printf(out, ",%s_bytes", buffer_class_word((enum buffer_class)c));
    }
    strbuf_char(out, '\n');
    for (uint32_t k = 0; k < series_count; k++) {
        const struct sched_space *space = &s->spaces[series[k].space];
        for (uint32_t i = 0; i < series[k].count; i++) {
            const uint64_t *bytes = &series[k].bytes[(size_t)i * BUFFER_CLASS_COUNT];
            uint64_t total = 0;
            for (uint32_t c = 0; c < BUFFER_CLASS_COUNT; c++) {
                total += bytes[c];
            }
            csv_text(out, sched_label(s, space->label));
            strbuf_char(out, ',');
            strbuf_append(out, space_kind_word((enum space_kind)space->kind));
            put_gate(out, series[k].times_ps[i]);
            strbuf_char(out, ',');
            put_unsigned(out, total);
            for (uint32_t c = 0; c < BUFFER_CLASS_COUNT; c++) {
                strbuf_char(out, ',');
                put_unsigned(out, bytes[c]);
            }
            strbuf_char(out, '\n');
        }
    }
}

void csv_links(const struct result *result, const struct result_input *input, struct strbuf *out)
{
    strbuf_append(out, "link,bytes,busy_fraction,mean_use_fraction,capacity_bytes_per_s");
    for (uint32_t c = 0; c < TIME_CLASS_COUNT; c++) {
        strbuf_printf(out, ",%s_bytes", time_class_word((enum time_class)c));
    }
    strbuf_char(out, '\n');
    for (uint32_t i = 0; i < result->link_count; i++) {
        const struct link_traffic *link = &result->links[i];
        double capacity = input->cluster->resources[link->resource].capacity;
        char name[96];
        csv_text(out, cluster_resource_name(input->cluster, link->resource, name, sizeof name));
        strbuf_char(out, ',');
        put_real(out, link->bytes);
        strbuf_char(out, ',');
        put_real(out, link->busy_fraction);
        strbuf_char(out, ',');
        put_real(out, result->step_time_s > 0 ? link->bytes / (capacity * result->step_time_s) : 0);
        strbuf_char(out, ',');
        put_real(out, capacity);
        for (uint32_t c = 0; c < TIME_CLASS_COUNT; c++) {
            strbuf_char(out, ',');
            put_real(out, link->class_bytes[c]);
        }
        strbuf_char(out, '\n');
    }
}

void csv_traffic(const struct result_input *input, const struct link_series *series, uint32_t series_count,
                 struct strbuf *out)
{
    strbuf_append(out, "link,kind,links_alike,capacity_bytes_per_s,time_us,bytes_per_s\n");
    for (uint32_t k = 0; k < series_count; k++) {
        const uint32_t resource = series[k].resource;
        char name[96];
        (void)cluster_resource_name(input->cluster, resource, name, sizeof name);
        for (uint32_t i = 0; i < series[k].count; i++) {
            csv_text(out, name);
            strbuf_printf(out, ",%s,", link_kind_word(input->cluster, resource));
            put_unsigned(out, series[k].alike);
            strbuf_char(out, ',');
            put_real(out, input->cluster->resources[resource].capacity);
            put_gate(out, series[k].times_ps[i]);
            strbuf_char(out, ',');
            put_real(out, series[k].bytes_per_s[i]);
            strbuf_char(out, '\n');
        }
    }
}

void csv_stages(const struct result *result, const struct result_input *input, struct strbuf *out)
{
    const struct schedule *s = input->schedule;
    strbuf_append(out, "rank,rank_name,stage,equal_devices,step_s");
    for (uint32_t c = 0; c < TIME_CLASS_COUNT; c++) {
        strbuf_printf(out, ",%s_exposed_s", time_class_word((enum time_class)c));
    }
    for (uint32_t c = 0; c < TIME_CLASS_COUNT; c++) {
        strbuf_printf(out, ",%s_busy_s", time_class_word((enum time_class)c));
    }
    strbuf_append(out, ",peak_bytes,peak_reserved_bytes,capacity_bytes\n");
    for (uint32_t i = 0; i < result->stage_count; i++) {
        const struct stage_times *times = &result->stages[i];
        const struct sched_rank *rank = &s->ranks[times->rank];
        put_unsigned(out, times->rank);
        strbuf_char(out, ',');
        csv_text(out, sched_label(s, rank->label));
        strbuf_char(out, ',');
        if (rank->stage != SCHED_NONE) {
            put_unsigned(out, rank->stage);
        }
        strbuf_char(out, ',');
        put_unsigned(out, rank->device_count);
        strbuf_char(out, ',');
        put_real(out, result->step_time_s);
        for (uint32_t c = 0; c < 2 * TIME_CLASS_COUNT; c++) {
            strbuf_char(out, ',');
            put_real(out, c < TIME_CLASS_COUNT ? times->exposed_s[c] : times->busy_s[c - TIME_CLASS_COUNT]);
        }
        uint32_t space = 0;
        while (space < s->space_count &&
               (s->spaces[space].kind != SPACE_DEVICE || s->spaces[space].location != s->devices[rank->first_device])) {
            space++;
        }
        if (space < s->space_count) {
            const uint64_t bytes[] = { input->timeline->spaces[space].peak_bytes,
                                       input->timeline->spaces[space].peak_reserved_bytes,
                                       s->spaces[space].capacity_bytes };
            for (uint32_t k = 0; k < 3; k++) {
                strbuf_char(out, ',');
                put_unsigned(out, bytes[k]);
            }
        } else {
            strbuf_append(out, ",,,");
        }
        strbuf_char(out, '\n');
    }
}
