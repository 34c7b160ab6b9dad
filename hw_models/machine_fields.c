/* The scalars of a machine file: one table says section, key, place, range and unit; reading, explaining and noting overrides walk it. */
#include "hw_models/machine_read.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "sim/base/check.h"
#include "sim/base/schema.h"
#include "sim/base/units.h"

enum field_type { FIELD_REAL, FIELD_COUNT, FIELD_BOOL, FIELD_TEXT };
enum field_need { NEED, MAY };

struct field {
    const char *section, *key;
    enum field_type type;
    enum field_need need;
    size_t offset;
    double least, most; /* in the unit of the key */
    double scale;       /* unit of the key in the struct's unit */
    double fallback;    /* in the unit of the key, when MAY and absent; texts: "" */
};

#define AT(member) offsetof(struct machine, member)
#define REAL(section, key, member, least, most, scale)                                                                 \
    {                                                                                                                  \
        section, key, FIELD_REAL, NEED, AT(member), least, most, scale, 0.0                                            \
    }
#define REAL_OR(section, key, member, least, most, scale, fallback)                                                    \
    {                                                                                                                  \
        section, key, FIELD_REAL, MAY, AT(member), least, most, scale, fallback                                        \
    }
#define COUNT(section, key, member, least, most)                                                                       \
    {                                                                                                                  \
        section, key, FIELD_COUNT, NEED, AT(member), least, most, 1.0, 0.0                                             \
    }
#define COUNT_OR(section, key, member, least, most, fallback)                                                          \
    {                                                                                                                  \
        section, key, FIELD_COUNT, MAY, AT(member), least, most, 1.0, fallback                                         \
    }
#define BOOL_OR(section, key, member, fallback)                                                                        \
    {                                                                                                                  \
        section, key, FIELD_BOOL, MAY, AT(member), 0.0, 1.0, 1.0, fallback                                             \
    }
#define TEXT(section, key, member)                                                                                     \
    {                                                                                                                  \
        section, key, FIELD_TEXT, NEED, AT(member), 0.0, 0.0, 1.0, 0.0                                                 \
    }
#define TEXT_OR(section, key, member)                                                                                  \
    {                                                                                                                  \
        section, key, FIELD_TEXT, MAY, AT(member), 0.0, 0.0, 1.0, 0.0                                                  \
    }

/* Defaults that have a source: usable memory 0.99 of physical and triad 0.86 of peak are what A100, H100 and H200 show (facts A.1); latencies and
 * communicator sizes are those of facts C.5, C.9. Zero for money and power means unknown. */
static const struct field FIELDS[] = {
    TEXT_OR("", "title", title),
    COUNT_OR("", "year", year, 1990, 2100, 0),
    TEXT("gpu", "model", gpu.model),
    TEXT("gpu", "architecture", gpu.architecture),
    COUNT("gpu", "sm_count", gpu.sm_count, 1, 100000),
    REAL("gpu", "clock_MHz", gpu.clock_hz, 1.0, 1e5, 1e6),
    REAL("gpu", "l2_MB", gpu.l2_bytes, 0.0, 1e5, 1e6),
    REAL("gpu", "memory_GiB", gpu.memory_bytes, 1e-3, 1e6, GIB),
    REAL_OR("gpu", "usable_MiB", gpu.usable_bytes, 1.0, 1e9, MIB, 0.0),
    REAL("gpu", "hbm_peak_GBps", gpu.hbm_peak_bytes_per_s, 1e-3, 1e7, 1e9),
    REAL_OR("gpu", "hbm_GBps", gpu.hbm_bytes_per_s, 1e-3, 1e7, 1e9, 0.0),
    COUNT_OR("gpu", "copy_engines", gpu.copy_engines, 1, 64, 2),
    BOOL_OR("gpu", "pcie_peer", gpu.pcie_peer, 1.0),
    BOOL_OR("gpu", "on_host", gpu.on_host, 0.0),
    TEXT_OR("host", "cpu", cpu),
    REAL("host", "pageable_GBps", pageable_bytes_per_s, 1e-3, 1e5, 1e9),
    REAL_OR("host", "first_touch_GBps", first_touch_bytes_per_s, 1e-3, 1e5, 1e9, 3.29),
    REAL("host", "adam_Gparameters_per_s_core", cpu_adam_parameters_per_s_core, 1e-6, 1e3, 1e9),
    REAL_OR("host", "cores_together", cores_together, 0.1, 1, 1.0, 1.0),
    REAL_OR("latency", "kernel_launch_us", kernel_launch_host_s, 0.0, 1e6, 1e-6, 5.0),
    REAL_OR("latency", "kernel_gap_us", gpu.launch_gap_s, 0.0, 1e6, 1e-6, 1.5),
    REAL_OR("latency", "kernel_floor_us", gpu.kernel_floor_s, 0.0, 1e6, 1e-6, 2.0),
    REAL_OR("latency", "memcpy_call_us", memcpy_call_s, 0.0, 1e6, 1e-6, 6.0),
    REAL_OR("latency", "graph_launch_us", graph_launch_s, 0.0, 1e6, 1e-6, 7.0),
    REAL_OR("latency", "event_sync_us", event_sync_s, 0.0, 1e6, 1e-6, 5.0),
    REAL_OR("memory_overhead", "context_MiB", context_bytes, 0.0, 1e6, MIB, 481.0),
    REAL_OR("memory_overhead", "nccl_first_MiB", nccl_first_bytes, 0.0, 1e6, MIB, 1485.0),
    REAL_OR("memory_overhead", "nccl_channel_receive_MiB", nccl_channel_receive_bytes, 0.0, 1e4, MIB, 10.0),
    REAL_OR("memory_overhead", "nccl_channel_send_MiB", nccl_channel_send_bytes, 0.0, 1e4, MIB, 2.0),
    REAL_OR("memory_overhead", "blas_workspace_MiB", blas_workspace_bytes, 0.0, 1e5, MIB, 8.125),
    REAL("nccl", "bus_GBps", nvlink_collective_bytes_per_s, 1e-3, 1e5, 1e9),
    REAL("nccl", "latency_us", collective_latency_s, 0.0, 1e6, 1e-6),
    COUNT("nccl", "sms", collective_sms, 0, 1000),
    COUNT("nccl", "channels", nccl_channels, 1, 64),
    BOOL_OR("nccl", "in_switch_reduction", in_switch_reduction, 0.0),
    REAL_OR("network", "latency_us", network_latency_s, 0.0, 1e6, 1e-6, 5.0),
    REAL_OR("network", "efficiency", network_efficiency, 0.01, 1.0, 1.0, 0.96),
    REAL_OR("price", "system_usd", price_usd, 0.0, 1e12, 1.0, 0.0),
    COUNT_OR("price", "system_usd_year", price_year, 1990, 2100, 0),
    REAL_OR("price", "gpu_usd", gpu.price_usd, 0.0, 1e9, 1.0, 0.0),
    REAL_OR("price", "usd_per_gpu_hour", usd_per_gpu_hour, 0.0, 1e6, 1.0, 0.0),
    COUNT_OR("price", "usd_per_gpu_hour_year", usd_per_gpu_hour_year, 1990, 2100, 0),
    REAL_OR("power", "system_W", power_w, 0.0, 1e9, 1.0, 0.0),
    REAL_OR("power", "gpu_W", gpu_power_w, 0.0, 1e6, 1.0, 0.0),
};
enum { FIELD_COUNT_ALL = sizeof FIELDS / sizeof FIELDS[0], SECTION_KEYS_MAX = 24 };

static const char *const SECTIONS[] = {
    "gpu", "host", "latency", "memory_overhead", "nccl", "network", "price", "power"
};
enum { SECTION_COUNT = sizeof SECTIONS / sizeof SECTIONS[0] };

static const char *const DTYPE_WORDS[] = {
#define X(name, word, bytes) word,
    DTYPE_TABLE(X)
#undef X
};

static enum status read_field(struct machine *machine, const struct field *field, const struct json *section, bool keep,
                              struct error *error)
{
    void *place = (char *)machine + field->offset;
    bool absent = section->node == NULL || !json_has(section, field->key);
    if (absent && (keep || section->node == NULL)) {
        return STATUS_OK;
    }
    switch (field->type) {
    case FIELD_REAL: {
        double value = field->fallback;
        if (!absent || field->need == NEED) {
            TRY(json_real(section, field->key, field->least, field->most, &value, error));
        }
        *(double *)place = value * field->scale;
        return STATUS_OK;
    }
    case FIELD_COUNT: {
        int64_t value = (int64_t)field->fallback;
        if (!absent || field->need == NEED) {
            TRY(json_int(section, field->key, (int64_t)field->least, (int64_t)field->most, &value, error));
        }
        *(uint32_t *)place = (uint32_t)value;
        return STATUS_OK;
    }
    case FIELD_BOOL: return json_bool_or(section, field->key, field->fallback > 0.5, (bool *)place, error);
    case FIELD_TEXT: {
        const char *text = "";
        if (!absent || field->need == NEED) {
            TRY(json_string(section, field->key, &text, error));
        }
        return machine_text(machine, text, (const char **)place, error);
    }
    }
    CHECK(false);
    return STATUS_OK;
}

/* Fallbacks of optional fields whose whole section is absent. */
static enum status default_field(struct machine *machine, const struct field *field, struct error *error)
{
    void *place = (char *)machine + field->offset;
    switch (field->type) {
    case FIELD_REAL: *(double *)place = field->fallback * field->scale; return STATUS_OK;
    case FIELD_COUNT: *(uint32_t *)place = (uint32_t)field->fallback; return STATUS_OK;
    case FIELD_BOOL: *(bool *)place = field->fallback > 0.5; return STATUS_OK;
    case FIELD_TEXT: return machine_text(machine, "", (const char **)place, error);
    }
    CHECK(false);
    return STATUS_OK;
}

static enum status read_peaks(struct machine *machine, const struct json *gpu, bool partial, struct error *error)
{
    struct json peaks;
    if (partial) {
        TRY(json_object_optional(gpu, "peak_TFLOPS", &peaks, error));
        if (peaks.node == NULL) {
            return STATUS_OK;
        }
    } else {
        TRY(json_object(gpu, "peak_TFLOPS", &peaks, error));
    }
    TRY(json_known_keys(&peaks, DTYPE_WORDS, DTYPE_COUNT, error));
    for (int i = 0; i < DTYPE_COUNT; i++) {
        double tera;
        TRY(json_real_or(&peaks, DTYPE_WORDS[i], 0.0, 1e7, machine->gpu.peak_flops[i] / 1e12, &tera, error));
        machine->gpu.peak_flops[i] = tera * 1e12;
    }
    if (!(machine->gpu.peak_flops[DTYPE_FP32] > 0.0)) {
        return json_error(&peaks, error, "\"fp32\" must be given and above 0: every GPU computes in fp32");
    }
    return STATUS_OK;
}

static enum status known_section_keys(const struct json *section, const char *name, struct error *error)
{
    const char *keys[SECTION_KEYS_MAX];
    size_t count = 0;
    for (int i = 0; i < FIELD_COUNT_ALL; i++) {
        if (strcmp(FIELDS[i].section, name) == 0) {
            CHECK(count + 1 < SECTION_KEYS_MAX);
            keys[count++] = FIELDS[i].key;
        }
    }
    if (strcmp(name, "gpu") == 0) {
        keys[count++] = "peak_TFLOPS";
    }
    return json_known_keys(section, keys, count, error);
}

/* Whether an optional section may be left out altogether: no field in it is needed. */
static bool section_needed(const char *name)
{
    for (int i = 0; i < FIELD_COUNT_ALL; i++) {
        if (FIELDS[i].need == NEED && strcmp(FIELDS[i].section, name) == 0) {
            return true;
        }
    }
    return false;
}

/* Sizes that follow others when not given, and their order. */
static enum status settle_gpu(struct machine *machine, const struct json *root, double old_memory_bytes,
                              struct error *error)
{
    struct machine_gpu *gpu = &machine->gpu;
    struct json section;
    TRY(json_object_optional(root, "gpu", &section, error));
    const struct json *at = section.node == NULL ? root : &section;
    bool has_usable = section.node != NULL && json_has(&section, "usable_MiB");
    if (!has_usable && old_memory_bytes > 0.0) {
        gpu->usable_bytes *= gpu->memory_bytes / old_memory_bytes;
    } else if (!has_usable) {
        gpu->usable_bytes = 0.99 * gpu->memory_bytes;
    }
    if (section.node != NULL && !json_has(&section, "hbm_GBps") && json_has(&section, "hbm_peak_GBps")) {
        gpu->hbm_bytes_per_s = 0.86 * gpu->hbm_peak_bytes_per_s;
    }
    if (gpu->usable_bytes > gpu->memory_bytes) {
        return json_error(at, error, "usable_MiB (%.6g MiB) exceeds memory_GiB (%.6g GiB)", gpu->usable_bytes / MIB,
                          gpu->memory_bytes / GIB);
    }
    if (gpu->hbm_bytes_per_s > gpu->hbm_peak_bytes_per_s) {
        return json_error(at, error, "hbm_GBps (%.6g) exceeds hbm_peak_GBps (%.6g)", gpu->hbm_bytes_per_s / 1e9,
                          gpu->hbm_peak_bytes_per_s / 1e9);
    }
    return STATUS_OK;
}

/* A changed price is not of the year of the one it replaces. */
static enum status settle_price(struct machine *machine, const struct json *root, struct error *error)
{
    struct json section;
    TRY(json_object_optional(root, "price", &section, error));
    if (section.node != NULL && json_has(&section, "system_usd") && !json_has(&section, "system_usd_year")) {
        machine->price_year = 0;
    }
    if (section.node != NULL && json_has(&section, "usd_per_gpu_hour") &&
        !json_has(&section, "usd_per_gpu_hour_year")) {
        machine->usd_per_gpu_hour_year = 0;
    }
    return STATUS_OK;
}

enum status machine_need_fields(const struct json *root, struct error *error)
{
    static const char *const OWN[] = { "name", "gpu_count", "gpu.peak_TFLOPS", "parts", "links" };
    enum { OWN_COUNT = sizeof OWN / sizeof OWN[0], KEY_BYTES = 48 };
    char keys[FIELD_COUNT_ALL][KEY_BYTES];
    const char *paths[OWN_COUNT + FIELD_COUNT_ALL];
    size_t count = 0;
    for (; count < OWN_COUNT; count++) {
        paths[count] = OWN[count];
    }
    for (int i = 0; i < FIELD_COUNT_ALL; i++) {
        if (FIELDS[i].need == NEED) {
            (void)snprintf(keys[i], KEY_BYTES, "%s.%s", FIELDS[i].section, FIELDS[i].key);
            paths[count++] = keys[i];
        }
    }
    return schema_need(root, paths, count, error);
}

enum status machine_read_fields(struct machine *machine, const struct json *root, bool partial, struct error *error)
{
    double old_memory_bytes = partial ? machine->gpu.memory_bytes : 0.0;
    for (int i = 0; i < FIELD_COUNT_ALL; i++) {
        if (FIELDS[i].section[0] == '\0') {
            TRY(read_field(machine, &FIELDS[i], root, partial, error));
        }
    }
    for (int s = 0; s < SECTION_COUNT; s++) {
        struct json section;
        if (partial || !section_needed(SECTIONS[s])) {
            TRY(json_object_optional(root, SECTIONS[s], &section, error));
        } else {
            TRY(json_object(root, SECTIONS[s], &section, error));
        }
        if (section.node != NULL) {
            TRY(known_section_keys(&section, SECTIONS[s], error));
        }
        for (int i = 0; i < FIELD_COUNT_ALL; i++) {
            if (strcmp(FIELDS[i].section, SECTIONS[s]) != 0) {
                continue;
            }
            if (section.node == NULL && !partial) {
                TRY(default_field(machine, &FIELDS[i], error));
            } else {
                TRY(read_field(machine, &FIELDS[i], &section, partial, error));
            }
        }
        if (section.node != NULL && strcmp(SECTIONS[s], "gpu") == 0) {
            TRY(read_peaks(machine, &section, partial, error));
        }
    }
    TRY(settle_price(machine, root, error));
    return settle_gpu(machine, root, old_memory_bytes, error);
}

enum status machine_note_overrides(struct machine *machine, const struct json *root, const char *origin,
                                   struct error *error)
{
    static const char *const SKIPPED[] = { "schema",     "name",     "title",           "base",     "notes",
                                           "provenance", "measured", "standard_errors", "residuals" };
    for (size_t i = 0; i < json_count(root); i++) {
        const char *key;
        struct json child;
        json_member(root, i, &key, &child);
        bool skipped = strncmp(key, "_comment", 8) == 0;
        for (size_t s = 0; s < sizeof SKIPPED / sizeof SKIPPED[0]; s++) {
            skipped = skipped || strcmp(key, SKIPPED[s]) == 0;
        }
        if (skipped) {
            continue;
        }
        if (json_type(&child) == JSON_NULL) { /* what it seems to take away would stay */
            return json_error(&child, error, "null takes nothing away from the base: leave the key out");
        }
        if (json_type(&child) != JSON_OBJECT) {
            TRY(machine_add_source(machine, key, origin, false, error));
            continue;
        }
        for (size_t k = 0; k < json_count(&child); k++) {
            const char *inner;
            struct json value;
            json_member(&child, k, &inner, &value);
            char *path = arena_printf(&machine->arena, "%s.%s", key, inner);
            if (path == NULL) {
                return machine_out_of_memory(error);
            }
            TRY(machine_add_source(machine, path, origin, false, error));
        }
    }
    return STATUS_OK;
}

uint32_t machine_field_count(void)
{
    return FIELD_COUNT_ALL + DTYPE_COUNT;
}

void machine_field_get(const struct machine *machine, uint32_t index, struct machine_field_value *value)
{
    CHECK(index < machine_field_count());
    *value = (struct machine_field_value){ 0 };
    if (index >= FIELD_COUNT_ALL) {
        value->section = "gpu.peak_TFLOPS";
        value->key = DTYPE_WORDS[index - FIELD_COUNT_ALL];
        value->value = machine->gpu.peak_flops[index - FIELD_COUNT_ALL] / 1e12;
        return;
    }
    const struct field *field = &FIELDS[index];
    const void *place = (const char *)machine + field->offset;
    value->section = field->section;
    value->key = field->key;
    switch (field->type) {
    case FIELD_REAL: value->value = *(const double *)place / field->scale; break;
    case FIELD_COUNT: value->value = *(const uint32_t *)place; break;
    case FIELD_BOOL: value->value = *(const bool *)place ? 1.0 : 0.0; break;
    case FIELD_TEXT: value->text = *(const char *const *)place; break;
    }
}

bool machine_field_shift(struct machine *machine, const char *path, double by)
{
    const char *dot = strchr(path, '.');
    size_t length = dot != NULL ? (size_t)(dot - path) : 0;
    for (size_t i = 0; dot != NULL && i < FIELD_COUNT_ALL; i++) {
        const struct field *field = &FIELDS[i];
        if (field->type == FIELD_REAL && strlen(field->section) == length &&
            strncmp(path, field->section, length) == 0 && strcmp(dot + 1, field->key) == 0) {
            double *place = (double *)(void *)((char *)machine + field->offset);
            *place = fmax(field->least * field->scale, fmin(field->most * field->scale, *place + by * field->scale));
            return true;
        }
    }
    return false;
}
