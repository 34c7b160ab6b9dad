/* Loading software models: one table of fields, bases, provenance. */
#include "hw_models/software.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "hw_models/embedded.h"
#include "sim/base/check.h"
#include "sim/base/schema.h"
#include "sim/base/units.h"

enum { BASE_DEPTH_MAX = 4, SECTION_KEYS_MAX = 24, HARMONIC_EXACT = 16 };
#define SOFTWARE_FILE_BYTES_MAX ((size_t)1 << 20)
#define SOFTWARE_SCHEMA         "memwall.software/1"

enum field_type { FIELD_REAL, FIELD_COUNT, FIELD_BOOL, FIELD_DTYPE, FIELD_LOSS, FIELD_ALLOCATOR };

struct field {
    const char *section, *key;
    enum field_type type;
    bool optional; /* absent: 0 */
    size_t offset;
    double least, most, scale; /* range in the unit of the key; the struct's value is key * scale */
};

#define AT(member) offsetof(struct software, member)
#define MICROSECONDS(section, key, member)                                                                             \
    {                                                                                                                  \
        section, key, FIELD_REAL, false, AT(member), 0.0, 1e7, 1e-6                                                    \
    }
#define REAL(section, key, member, most, scale)                                                                        \
    {                                                                                                                  \
        section, key, FIELD_REAL, false, AT(member), 0.0, most, scale                                                  \
    }
#define COUNT(section, key, member, most)                                                                              \
    {                                                                                                                  \
        section, key, FIELD_COUNT, false, AT(member), 0.0, most, 1.0                                                   \
    }
#define BOOL(section, key, member)                                                                                     \
    {                                                                                                                  \
        section, key, FIELD_BOOL, false, AT(member), 0.0, 1.0, 1.0                                                     \
    }

static const struct field FIELDS[] = {
    MICROSECONDS("host", "launch_us", launch_host_s),
    MICROSECONDS("host", "collective_us", collective_host_s),
    MICROSECONDS("host", "collective_jitter_us", collective_jitter_s),
    MICROSECONDS("host", "copy_us", copy_host_s),
    MICROSECONDS("host", "pass_us", pass_host_s),
    MICROSECONDS("host", "micro_batch_us", micro_batch_host_s),
    MICROSECONDS("host", "step_us", step_host_s),
    COUNT("host", "launch_ahead", launch_ahead, 1e6),
    BOOL("host", "pipeline_synchronises", pipeline_synchronises),
    BOOL("host", "graphs", graphs),
    BOOL("kernels", "fused", fused_kernels),
    BOOL("kernels", "flash_attention", flash_attention),
    { "kernels", "fp32_softmax", FIELD_BOOL, true, AT(fp32_softmax), 0.0, 1.0, 1.0 },
    BOOL("kernels", "selective_ops", selective_ops),
    BOOL("kernels", "qkv_copied", qkv_copied),
    BOOL("kernels", "context_copied", context_copied),
    BOOL("kernels", "gate_apart", gate_apart),
    BOOL("kernels", "norm_fp32", norm_fp32),
    { "kernels", "loss", FIELD_LOSS, false, AT(loss), 0.0, 0.0, 1.0 },
    BOOL("kernels", "fused_optimizer", fused_optimizer),
    COUNT("kernels", "optimizer_launches", optimizer_launches, 1e6),
    { "numbers", "gradient_dtype", FIELD_DTYPE, false, AT(gradient_dtype), 0.0, 0.0, 1.0 },
    COUNT("numbers", "vocab_multiple", vocab_multiple, 1e6),
    REAL("bytes_per_parameter", "weight", weight_bytes, 16.0, 1.0),
    REAL("bytes_per_parameter", "gathered", gathered_bytes, 16.0, 1.0),
    REAL("bytes_per_parameter", "gradient", gradient_bytes, 16.0, 1.0),
    REAL("bytes_per_parameter", "reduce", reduce_bytes, 16.0, 1.0),
    REAL("bytes_per_parameter", "master", master_bytes, 16.0, 1.0),
    REAL("bytes_per_parameter", "moments", moments_bytes, 64.0, 1.0),
    REAL("communication", "bucket_MB", bucket_bytes, 1e9, 1e6),
    BOOL("communication", "bucket_copies", bucket_copies),
    BOOL("communication", "overlap_gradient_reduce", overlap_gradient_reduce),
    BOOL("communication", "overlap_parameter_gather", overlap_parameter_gather),
    BOOL("communication", "overlap_tensor_parallel", overlap_tensor_parallel),
    BOOL("communication", "overlap_pipeline", overlap_pipeline),
    BOOL("communication", "scatter_gather_pipeline", scatter_gather_pipeline),
    COUNT("communication", "prefetch_layers", prefetch_layers, 1e4),
    BOOL("communication", "staged_collectives", staged_collectives),
    BOOL("communication", "keeps_gathered", keeps_gathered),
    BOOL("communication", "flat_units", flat_units),
    BOOL("communication", "norm_unit", norm_unit),
    BOOL("communication", "table_units", table_units),
    { "memory", "allocator", FIELD_ALLOCATOR, false, AT(allocator), 0.0, 0.0, 1.0 },
    REAL("memory", "context_MiB", context_bytes, 1e7, MIB),
    REAL("memory", "workspace_MiB", workspace_bytes, 1e7, MIB),
    BOOL("memory", "nccl_buffers", nccl_buffers),
    BOOL("memory", "runtime_memory", runtime_memory),
    BOOL("memory", "gradients_as_made", gradients_as_made),
    BOOL("memory", "module_buffer", module_buffer),
    BOOL("memory", "module_buffer_alone", module_buffer_alone),
    { "storage", "queue_depth", FIELD_COUNT, true, AT(storage_queue_depth), 0.0, 1e6, 1.0 },
    { "storage", "block_KiB", FIELD_REAL, true, AT(storage_block_bytes), 1.0, 1e7, 1024.0 },
};
enum { FIELDS_ALL = sizeof FIELDS / sizeof FIELDS[0] };

static const char *const SECTIONS[] = { "host",          "kernels", "numbers", "bytes_per_parameter",
                                        "communication", "memory",  "storage" };
enum { SECTIONS_ALL = sizeof SECTIONS / sizeof SECTIONS[0] };

static const char *const DTYPE_WORDS[] = {
#define X(name, word, bytes) word,
    DTYPE_TABLE(X)
#undef X
};
static const double DTYPE_BYTES[] = {
#define X(name, word, bytes) bytes,
    DTYPE_TABLE(X)
#undef X
};
static const char *const ALLOCATOR_WORDS[] = {
#define X(name, word) word,
    SOFTWARE_ALLOCATOR_TABLE(X)
#undef X
};
static const char *const LOSS_WORDS[] = {
#define X(name, word) word,
    LOSS_TABLE(X)
#undef X
};
enum { ALLOCATORS_ALL = sizeof ALLOCATOR_WORDS / sizeof ALLOCATOR_WORDS[0] };

static enum status load_named(struct software *software, const char *name, int depth, struct error *error);

uint32_t software_library_count(void)
{
    return embedded_software_count;
}

const char *software_library_name(uint32_t index)
{
    CHECK(index < embedded_software_count);
    return embedded_software[index].name;
}

const char *software_library_text(uint32_t index, size_t *length)
{
    CHECK(index < embedded_software_count);
    *length = embedded_software[index].length;
    return (const char *)embedded_software[index].text;
}

const char *software_allocator_word(enum software_allocator allocator)
{
    CHECK((unsigned)allocator < ALLOCATORS_ALL);
    return ALLOCATOR_WORDS[allocator];
}

double software_collective_wait_s(const struct software *software, uint32_t members)
{
    double others = 0; /* H(n) - 1 */
    for (uint32_t i = 2; i <= members && i <= HARMONIC_EXACT; i++) {
        others += 1.0 / i;
    }
    if (members > HARMONIC_EXACT) {
        others += log((members + 0.5) / (HARMONIC_EXACT + 0.5)); /* the sum of the rest, to 1e-4 */
    }
    return software->collective_jitter_s * others;
}

double software_collective_host_s(const struct software *software, uint32_t members)
{
    return software->collective_host_s + software_collective_wait_s(software, members);
}

double software_runtime_bytes(const struct software *software, const struct machine *machine, uint32_t communicators)
{
    double bytes = software->context_bytes + software->workspace_bytes;
    bytes += software->runtime_memory ? machine->context_bytes + machine->blas_workspace_bytes : 0;
    return bytes + (software->nccl_buffers ? communicators * machine_communicator_bytes(machine) : 0);
}

double software_state_bytes(const struct software *software)
{
    return software->weight_bytes + software->gradient_bytes + software->master_bytes + software->moments_bytes;
}

uint32_t software_field_count(void)
{
    return FIELDS_ALL;
}

void software_field_get(const struct software *software, uint32_t index, struct software_field_value *value)
{
    CHECK(index < FIELDS_ALL);
    const struct field *field = &FIELDS[index];
    const void *place = (const char *)software + field->offset;
    *value = (struct software_field_value){ .section = field->section, .key = field->key };
    switch (field->type) {
    case FIELD_REAL: value->value = *(const double *)place / field->scale; break;
    case FIELD_COUNT: value->value = *(const uint32_t *)place; break;
    case FIELD_BOOL: value->value = *(const bool *)place ? 1.0 : 0.0; break;
    case FIELD_DTYPE: value->text = DTYPE_WORDS[*(const enum dtype *)place]; break;
    case FIELD_LOSS: value->text = LOSS_WORDS[*(const enum loss_kind *)place]; break;
    case FIELD_ALLOCATOR: value->text = ALLOCATOR_WORDS[*(const enum software_allocator *)place]; break;
    }
}

const struct software_source *software_source_of(const struct software *software, const char *field)
{
    const struct software_source *best = NULL;
    size_t best_length = 0;
    for (uint32_t i = 0; i < software->source_count; i++) {
        const struct software_source *entry = &software->sources[i];
        size_t length = strlen(entry->field);
        bool covers = strncmp(field, entry->field, length) == 0 && (field[length] == '\0' || field[length] == '.');
        if (covers && (best == NULL || length >= best_length)) {
            best = entry;
            best_length = length;
        }
    }
    return best;
}

static enum status add_source(struct software *software, const struct json *at, const char *field, const char *source,
                              bool estimated, struct error *error)
{
    struct software_source *entry = &software->sources[software->source_count];
    if (software->source_count == SOFTWARE_SOURCES_MAX) {
        return json_error(at, error, "more than %d fields with a source", SOFTWARE_SOURCES_MAX);
    }
    if (strlen(field) >= sizeof entry->field || strlen(source) >= sizeof entry->source) {
        return json_error(at, error, "field names are shorter than %zu bytes, sources than %zu", sizeof entry->field,
                          sizeof entry->source);
    }
    snprintf(entry->field, sizeof entry->field, "%s", field);
    snprintf(entry->source, sizeof entry->source, "%s", source);
    entry->estimated = estimated;
    software->source_count++;
    return STATUS_OK;
}

static enum status read_provenance(struct software *software, const struct json *root, struct error *error)
{
    static const char *const KEYS[] = { "source", "fields", "estimated" };
    struct json array;
    TRY(json_array_optional(root, "provenance", &array, error));
    for (size_t i = 0; array.node != NULL && i < json_count(&array); i++) {
        struct json at, fields;
        const char *source;
        bool estimated;
        json_item(&array, i, &at);
        TRY(json_known_keys(&at, KEYS, 3, error));
        TRY(json_string(&at, "source", &source, error));
        TRY(json_bool_or(&at, "estimated", false, &estimated, error));
        TRY(json_array(&at, "fields", &fields, error));
        for (size_t k = 0; k < json_count(&fields); k++) {
            struct json item;
            const char *field;
            json_item(&fields, k, &item);
            TRY(json_as_string(&item, &field, error));
            TRY(add_source(software, &item, field, source, estimated, error));
        }
    }
    return STATUS_OK;
}

static enum status read_field(struct software *software, const struct field *field, const struct json *section,
                              bool partial, struct error *error)
{
    void *place = (char *)software + field->offset;
    size_t index;
    int64_t whole;
    double value;
    if ((partial || field->optional) && !json_has(section, field->key)) {
        return STATUS_OK;
    }
    switch (field->type) {
    case FIELD_REAL:
        TRY(json_real(section, field->key, field->least, field->most, &value, error));
        *(double *)place = value * field->scale;
        return STATUS_OK;
    case FIELD_COUNT:
        TRY(json_int(section, field->key, (int64_t)field->least, (int64_t)field->most, &whole, error));
        *(uint32_t *)place = (uint32_t)whole;
        return STATUS_OK;
    case FIELD_BOOL: return json_bool(section, field->key, (bool *)place, error);
    case FIELD_DTYPE:
        TRY(json_word(section, field->key, DTYPE_WORDS, DTYPE_COUNT, &index, error));
        *(enum dtype *)place = (enum dtype)index;
        return STATUS_OK;
    case FIELD_LOSS:
        TRY(json_word(section, field->key, LOSS_WORDS, LOSS_COUNT, &index, error));
        *(enum loss_kind *)place = (enum loss_kind)index;
        return STATUS_OK;
    case FIELD_ALLOCATOR:
        TRY(json_word(section, field->key, ALLOCATOR_WORDS, ALLOCATORS_ALL, &index, error));
        *(enum software_allocator *)place = (enum software_allocator)index;
        return STATUS_OK;
    }
    CHECK(false);
    return STATUS_OK;
}

static enum status read_section(struct software *software, const struct json *root, const char *name, bool partial,
                                const char *origin, struct error *error)
{
    const char *keys[SECTION_KEYS_MAX];
    size_t count = 0;
    struct json section;
    if (partial || strcmp(name, "storage") == 0) { /* frameworks that drive no drives say nothing of them */
        TRY(json_object_optional(root, name, &section, error));
        if (section.node == NULL) {
            return STATUS_OK;
        }
    } else {
        TRY(json_object(root, name, &section, error));
    }
    for (int i = 0; i < FIELDS_ALL; i++) {
        if (strcmp(FIELDS[i].section, name) == 0) {
            CHECK(count < SECTION_KEYS_MAX);
            keys[count++] = FIELDS[i].key;
        }
    }
    TRY(json_known_keys(&section, keys, count, error));
    for (int i = 0; i < FIELDS_ALL; i++) {
        if (strcmp(FIELDS[i].section, name) != 0) {
            continue;
        }
        TRY(read_field(software, &FIELDS[i], &section, partial, error));
        if (partial && json_has(&section, FIELDS[i].key)) {
            char path[sizeof software->sources[0].field];
            snprintf(path, sizeof path, "%s.%s", name, FIELDS[i].key);
            TRY(add_source(software, &section, path, origin, false, error));
        }
    }
    return STATUS_OK;
}

static enum status read_text(const struct json *root, const char *key, bool partial, char *place, size_t size,
                             struct error *error)
{
    const char *text;
    if (partial && !json_has(root, key)) {
        return STATUS_OK;
    }
    TRY(json_string(root, key, &text, error));
    if (text[0] == '\0' || strlen(text) >= size) {
        return json_error(root, error, "\"%s\" must have 1 to %zu bytes", key, size - 1);
    }
    memcpy(place, text, strlen(text) + 1);
    return STATUS_OK;
}

static enum status check_numbers(const struct software *software, const struct json *root, struct error *error)
{
    if (software->storage_queue_depth > 0 && !(software->storage_block_bytes > 0)) {
        return json_error(root, error,
                          "storage.queue_depth %u needs storage.block_KiB, the size of a request (1 to 1e7)",
                          software->storage_queue_depth);
    }
    double size = DTYPE_BYTES[software->gradient_dtype];
    if (software->gradient_bytes < size || software->gradient_bytes > size) {
        return json_error(root, error, "bytes_per_parameter.gradient is %.6g, but numbers.gradient_dtype %s has %.6g",
                          software->gradient_bytes, DTYPE_WORDS[software->gradient_dtype], size);
    }
    if (!(software->weight_bytes > 0.0) || !(software->gathered_bytes > 0.0)) {
        return json_error(root, error, "bytes_per_parameter.weight and .gathered must be above 0");
    }
    if (software->flat_units && (software->staged_collectives || software->keeps_gathered)) {
        return json_error(root, error,
                          "communication.flat_units (FSDP1) excludes staged_collectives and keeps_gathered (FSDP2)");
    }
    if ((software->norm_unit || software->table_units) && !software->flat_units) {
        return json_error(root, error, "communication.norm_unit and table_units are of flat_units: set that, too");
    }
    if (software->module_buffer_alone && !software->module_buffer) {
        return json_error(root, error, "memory.module_buffer_alone is of module_buffer: set that, too");
    }
    if (software->fused_optimizer && software->optimizer_launches == 0 && software->runtime_memory) {
        return json_error(root, error, "kernels.optimizer_launches must be at least 1");
    }
    return STATUS_OK;
}

static enum status read_software(struct software *software, const struct json *root, int depth, struct error *error)
{
    static const char *const KEYS[] = { "schema",        "name",   "title",   "base",    "notes",
                                        "provenance",    "host",   "kernels", "numbers", "bytes_per_parameter",
                                        "communication", "memory", "storage" };
    TRY(schema_check(root, SOFTWARE_SCHEMA, false, error));
    TRY(json_known_keys(root, KEYS, sizeof KEYS / sizeof KEYS[0], error));
    const char *base;
    bool partial = json_has(root, "base");
    char origin[sizeof software->sources[0].source] = "";
    if (partial) {
        TRY(json_string(root, "base", &base, error));
        if (depth >= BASE_DEPTH_MAX) {
            return json_error(root, error, "more than %d bases on top of each other (does a model name itself?)",
                              BASE_DEPTH_MAX);
        }
        TRY(load_named(software, base, depth + 1, error));
        snprintf(origin, sizeof origin, "changed from %.60s in %.100s", software->name, json_file(root));
        size_t length = strlen(software->name);
        if (!json_has(root, "name") && length + 2 < sizeof software->name && strchr(software->name, '*') == NULL) {
            snprintf(software->name + length, sizeof software->name - length, "*");
        }
    }
    TRY(read_text(root, "name", partial, software->name, sizeof software->name, error));
    TRY(read_text(root, "title", partial, software->title, sizeof software->title, error));
    for (int i = 0; i < SECTIONS_ALL; i++) {
        TRY(read_section(software, root, SECTIONS[i], partial, origin, error));
    }
    TRY(check_numbers(software, root, error));
    return read_provenance(software, root, error);
}

static const struct embedded_library LIBRARY = { .files = embedded_software,
                                                 .count = &embedded_software_count,
                                                 .folder = "software",
                                                 .noun = "software model",
                                                 .bytes_max = SOFTWARE_FILE_BYTES_MAX };

static enum status load_named(struct software *software, const char *name, int depth, struct error *error)
{
    struct json_document *document = NULL;
    struct json root;
    TRY(embedded_open(&LIBRARY, name, &document, error));
    json_root(document, &root);
    enum status status = read_software(software, &root, depth, error);
    json_free(document);
    return status;
}

enum status software_load(struct software *software, const char *name_or_path, struct error *error)
{
    *software = (struct software){ 0 };
    enum status status = load_named(software, name_or_path, 0, error);
    if (status != STATUS_OK) {
        *software = (struct software){ 0 };
    }
    return status;
}

enum status software_from_json(struct software *software, const struct json *value, struct error *error)
{
    *software = (struct software){ 0 };
    enum status status;
    if (json_type(value) == JSON_STRING) {
        struct error inner = { 0 };
        const char *name;
        TRY(json_as_string(value, &name, error));
        status = load_named(software, name, 0, &inner);
        status = embedded_answer(value, status, &inner, error); /* say where the name stands */
    } else {
        status = read_software(software, value, 0, error);
    }
    if (status != STATUS_OK) {
        *software = (struct software){ 0 };
    }
    return status;
}
