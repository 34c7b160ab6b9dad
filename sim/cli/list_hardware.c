/* memwall list machines, software: what stands in the library's files, number by number with its source. */
#include <stdio.h>
#include <string.h>

#include "hw_models/machine.h"
#include "hw_models/software.h"
#include "sim/base/check.h"
#include "sim/base/units.h"
#include "sim/cli/list_topics.h"

/* ---- machines ---- */

static void links_json(struct json_writer *w, const struct machine *m)
{
    jw_array(w, "links");
    for (uint32_t i = 0; i < m->link_count; i++) {
        const struct machine_link *link = &m->links[i];
        jw_object(w, NULL);
        jw_string(w, "kind", machine_link_word(link->kind));
        jw_string(w, "a", m->parts[link->a].id);
        jw_string(w, "b", m->parts[link->b].id);
        jw_uint(w, "lanes", link->lanes);
        jw_real(w, "bytes_per_s", link->bytes_per_s);
        jw_real(w, "back_bytes_per_s", link->back_bytes_per_s);
        jw_real(w, "both_bytes_per_s", link->both_bytes_per_s);
        jw_real(w, "peak_bytes_per_s", link->peak_bytes_per_s);
        jw_real(w, "latency_s", link->latency_s);
        jw_end(w);
    }
    jw_end(w);
}

static void curves_json(struct json_writer *w, const struct machine *m)
{
    jw_array(w, "collective_curves");
    for (uint32_t i = 0; i < m->curve_count; i++) {
        jw_object(w, NULL);
        jw_string(w, "collective", collective_word(m->curves[i].kind));
        jw_uint(w, "ranks", m->curves[i].ranks);
        jw_uint(w, "nodes", m->curves[i].nodes);
        jw_string(w, "source", m->curves[i].source);
        jw_end(w);
    }
    jw_end(w);
}

static void section_end(struct json_writer *w, const char *open)
{
    if (open[0] != '\0') {
        jw_end(w);
    }
}

/* A scalar of a file, in the object of its section: `open` is the section being written ("": none). */
static void section_field(struct json_writer *w, const char **open, const char *section, const char *key,
                          const char *text, double value)
{
    if (strcmp(*open, section) != 0) {
        section_end(w, *open);
        jw_object(w, section);
        *open = section;
    }
    if (text != NULL) {
        jw_string(w, key, text);
    } else {
        jw_real(w, key, value);
    }
}

/* The scalars as the machine's file names them, grouped by section. */
static void machine_fields_json(struct json_writer *w, const struct machine *m)
{
    const char *open = "";
    for (uint32_t i = 0; i < machine_field_count(); i++) {
        struct machine_field_value field;
        machine_field_get(m, i, &field);
        if (field.section[0] == '\0' || strchr(field.section, '.') != NULL) {
            continue; /* title, year, peaks: already there */
        }
        section_field(w, &open, field.section, field.key, field.text, field.value);
    }
    section_end(w, open);
}

/* Of calibrated machines: how sure its constants are, and how well they say what was measured. */
static void fit_json(struct json_writer *w, const struct machine *m)
{
    jw_object(w, "standard_errors");
    for (uint32_t i = 0; i < m->standard_error_count; i++) {
        jw_real(w, m->standard_errors[i].field, m->standard_errors[i].value);
    }
    jw_end(w);
    jw_array(w, "residuals");
    for (uint32_t i = 0; i < m->residual_count; i++) {
        machine_residual_print(&m->residuals[i], w);
    }
    jw_end(w);
}

static double peak(const struct machine *m, enum dtype dtype)
{
    return m->gpu.peak_flops[dtype];
}

static void machine_json(struct json_writer *w, const struct machine *m)
{
    jw_object(w, NULL);
    jw_string(w, "name", m->name);
    jw_string(w, "title", m->title);
    jw_uint(w, "year", m->year);
    jw_uint(w, "gpu_count", m->gpu_count);
    jw_real(w, "gpu_memory_bytes", m->gpu.memory_bytes);
    jw_real(w, "gpu_usable_bytes", m->gpu.usable_bytes);
    jw_real(w, "hbm_bytes_per_s", m->gpu.hbm_bytes_per_s);
    jw_object(w, "peak_flops");
    for (uint32_t d = 0; d < DTYPE_COUNT; d++) {
        if (m->gpu.peak_flops[d] > 0) {
            jw_real(w, dtype_word((enum dtype)d), m->gpu.peak_flops[d]);
        }
    }
    jw_end(w);
    jw_real(w, "host_memory_bytes", m->dram_bytes);
    machine_fields_json(w, m);
    jw_object(w, "part_counts");
    for (uint32_t k = 0; k < PART_KIND_COUNT; k++) {
        jw_uint(w, machine_part_word((enum machine_part_kind)k), machine_part_kind_count(m, (enum machine_part_kind)k));
    }
    jw_end(w);
    links_json(w, m);
    curves_json(w, m);
    jw_array(w, "sources");
    for (uint32_t i = 0; i < m->source_count; i++) {
        jw_object(w, NULL);
        jw_string(w, "field", m->sources[i].field);
        jw_string(w, "source", m->sources[i].source);
        jw_bool(w, "estimated", m->sources[i].estimated);
        jw_end(w);
    }
    jw_end(w);
    fit_json(w, m);
    jw_end(w);
}

/* The fastest direct way out of a GPU that is not PCIe, or PCIe when there is no other. */
static void gpu_link(const struct machine *m, char *text, size_t size)
{
    const struct machine_link *best = NULL;
    double rate[LINK_KIND_COUNT] = { 0 };
    uint32_t gpu = machine_part_at(m, PART_GPU, 0);
    for (uint32_t i = 0; i < m->link_count; i++) {
        const struct machine_link *link = &m->links[i];
        if (link->a == gpu || link->b == gpu) {
            rate[link->kind] += link->bytes_per_s;
            best = best == NULL || best->kind == LINK_PCIE ? link : best;
        }
    }
    if (best == NULL) {
        snprintf(text, size, "-");
    } else {
        snprintf(text, size, "%s %.0f", machine_link_word(best->kind), rate[best->kind] / 1e9);
    }
}

static void money(struct text_table *table, double value, const char *format_unit)
{
    if (value > 0) {
        text_table_cell(table, format_unit[0] == 'h' ? "%.2f" : "%.0f", value);
    } else {
        text_table_cell(table, "-");
    }
}

enum status list_machines(struct lister *l)
{
    static const char *const names[] = { "name",      "GPUs",          "GPU memory GiB", "bf16/fp16 TFLOP/s",
                                         "HBM GB/s",  "GPU link GB/s", "NIC Gbit/s",     "USD",
                                         "USD/GPU/h", "title" };
    if (l->table != NULL) {
        list_head(l->table, 10, 0x1deu, names);
        l->table->last_width = 60;
    }
    for (uint32_t i = 0; i < machine_library_count(); i++) {
        struct machine m;
        TRY(machine_load(&m, machine_library_name(i), l->error));
        if (l->json != NULL) {
            machine_json(l->json, &m);
        } else {
            char link[64];
            double nic = 0;
            for (uint32_t p = 0; p < m.part_count; p++) {
                nic += m.parts[p].kind == PART_NIC && m.parts[p].compute_fabric ? m.parts[p].line_bytes_per_s : 0;
            }
            gpu_link(&m, link, sizeof link);
            text_table_cell(l->table, "%s", m.name);
            text_table_cell(l->table, "%u", m.gpu_count);
            text_table_cell(l->table, "%.0f", m.gpu.memory_bytes / GIB);
            text_table_cell(l->table, "%.0f",
                            (peak(&m, DTYPE_BF16) > 0 ? peak(&m, DTYPE_BF16) : peak(&m, DTYPE_FP16)) / 1e12);
            text_table_cell(l->table, "%.0f", m.gpu.hbm_bytes_per_s / 1e9);
            text_table_cell(l->table, "%s", link);
            money(l->table, nic * 8 / 1e9, "number");
            money(l->table, m.price_usd, "number");
            money(l->table, m.usd_per_gpu_hour, "hour");
            text_table_cell(l->table, "%s", m.title);
        }
        machine_free(&m);
    }
    return STATUS_OK;
}

/* ---- software ---- */

static void software_json(struct json_writer *w, const struct software *s)
{
    const char *open = "";
    jw_object(w, NULL);
    jw_string(w, "name", s->name);
    jw_string(w, "title", s->title);
    jw_real(w, "state_bytes_per_parameter", software_state_bytes(s));
    for (uint32_t i = 0; i < software_field_count(); i++) {
        struct software_field_value field;
        software_field_get(s, i, &field);
        if (field.section[0] == '\0') {
            continue;
        }
        section_field(w, &open, field.section, field.key, field.text, field.value);
    }
    section_end(w, open);
    jw_array(w, "sources");
    for (uint32_t i = 0; i < s->source_count; i++) {
        jw_object(w, NULL);
        jw_string(w, "field", s->sources[i].field);
        jw_string(w, "source", s->sources[i].source);
        jw_bool(w, "estimated", s->sources[i].estimated);
        jw_end(w);
    }
    jw_end(w);
    jw_end(w);
}

enum status list_software(struct lister *l)
{
    static const char *const names[] = { "name",        "launch us", "per pass us", "fused", "flash attention",
                                         "B/parameter", "allocator", "title" };
    if (l->table != NULL) {
        list_head(l->table, 8, 0x26u, names);
        l->table->last_width = 72;
    }
    for (uint32_t i = 0; i < software_library_count(); i++) {
        struct software s;
        TRY(software_load(&s, software_library_name(i), l->error));
        if (l->json != NULL) {
            software_json(l->json, &s);
            continue;
        }
        text_table_cell(l->table, "%s", s.name);
        text_table_cell(l->table, "%.3g", s.launch_host_s * 1e6);
        text_table_cell(l->table, "%.3g", s.pass_host_s * 1e6);
        text_table_cell(l->table, "%s", s.fused_kernels ? "yes" : "no");
        text_table_cell(l->table, "%s", s.flash_attention ? "yes" : "no");
        text_table_cell(l->table, "%.3g", software_state_bytes(&s));
        text_table_cell(l->table, "%s", software_allocator_word(s.allocator));
        text_table_cell(l->table, "%s", s.title);
    }
    return STATUS_OK;
}
