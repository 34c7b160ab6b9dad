/* Loading machines: by name, path or inline, over a chain of bases. */
#include "hw_models/machine.h"

#include <stdio.h>
#include <string.h>

#include "hw_models/embedded.h"
#include "hw_models/machine_read.h"
#include "sim/base/check.h"
#include "sim/base/schema.h"
#include "sim/base/units.h"

enum { BASE_DEPTH_MAX = 4 };
#define MACHINE_FILE_BYTES_MAX ((size_t)4 << 20)
#define MACHINE_SCHEMA         "memwall.machine/1"

static enum status load_named(struct machine *machine, const char *name, int depth, struct error *error);

uint32_t machine_library_count(void)
{
    return embedded_machine_count;
}

const char *machine_library_name(uint32_t index)
{
    CHECK(index < embedded_machine_count);
    return embedded_machines[index].name;
}

const char *machine_library_text(uint32_t index, size_t *length)
{
    CHECK(index < embedded_machine_count);
    *length = embedded_machines[index].length;
    return (const char *)embedded_machines[index].text;
}

enum status machine_out_of_memory(struct error *error)
{
    return error_set(error, STATUS_NO_MEMORY, "out of memory while reading a machine");
}

enum status machine_text(struct machine *machine, const char *text, const char **copy, struct error *error)
{
    *copy = arena_text(&machine->arena, text);
    return *copy == NULL ? machine_out_of_memory(error) : STATUS_OK;
}

/* "nics", "nvmes", "nic_Gbps", "dram_GiB", "gpu_memory_GiB": short ways to change a base. */
static enum status read_shortcuts(struct machine *machine, const struct json *root, struct error *error)
{
    static const struct {
        const char *key;
        enum machine_part_kind kind;
    } COUNTS[] = { { "nics", PART_NIC }, { "nvmes", PART_NVME } };
    for (size_t i = 0; i < sizeof COUNTS / sizeof COUNTS[0]; i++) {
        uint32_t total = 0;
        int64_t keep;
        for (uint32_t k = 0; k < machine->part_count; k++) {
            const struct machine_part *part = &machine->parts[k];
            total += part->kind == COUNTS[i].kind && (part->kind != PART_NIC || part->compute_fabric);
        }
        TRY(json_int_or(root, COUNTS[i].key, 0, (int64_t)total, (int64_t)total, &keep, error));
        if (keep < (int64_t)total) {
            TRY(machine_thin_parts(machine, COUNTS[i].kind, (uint32_t)keep, error));
        }
    }
    double value;
    TRY(json_real_or(root, "nic_Gbps", 1e-3, 1e5, 0.0, &value, error));
    for (uint32_t k = 0; value > 0.0 && k < machine->part_count; k++) {
        if (machine->parts[k].kind == PART_NIC && machine->parts[k].compute_fabric) {
            machine->parts[k].line_bytes_per_s = value * 1e9 / 8.0;
        }
    }
    TRY(json_real_or(root, "dram_GiB", 1e-3, 1e7, 0.0, &value, error));
    uint32_t drams = machine_part_kind_count(machine, PART_DRAM);
    if (value > 0.0 && drams > 0) {
        for (uint32_t k = 0; k < machine->part_count; k++) {
            if (machine->parts[k].kind == PART_DRAM) {
                machine->parts[k].capacity_bytes = value * GIB / drams;
            }
        }
        machine->dram_bytes = value * GIB;
    }
    TRY(json_real_or(root, "gpu_memory_GiB", 1e-3, 1e6, 0.0, &value, error));
    if (value > 0.0) {
        machine->gpu.usable_bytes *= value * GIB / machine->gpu.memory_bytes;
        machine->gpu.memory_bytes = value * GIB;
    }
    return STATUS_OK;
}

static const char *const SHORTCUT_KEYS[] = { "nics", "nvmes", "nic_Gbps", "dram_GiB", "gpu_memory_GiB" };

static enum status check_keys(const struct json *root, bool partial, struct error *error)
{
    static const char *const KEYS[] = { "schema",
                                        "name",
                                        "base",
                                        "title",
                                        "year",
                                        "gpu_count",
                                        "gpu",
                                        "host",
                                        "latency",
                                        "memory_overhead",
                                        "nccl",
                                        "network",
                                        "price",
                                        "power",
                                        "parts",
                                        "links",
                                        "collectives",
                                        "kernel_model",
                                        "measured",
                                        "notes",
                                        "provenance",
                                        "nics",
                                        "nvmes",
                                        "nic_Gbps",
                                        "dram_GiB",
                                        "gpu_memory_GiB",
                                        "standard_errors",
                                        "residuals" };
    TRY(schema_check(root, MACHINE_SCHEMA, false, error)); /* first: a file of another kind has other keys */
    TRY(json_known_keys(root, KEYS, sizeof KEYS / sizeof KEYS[0], error));
    for (size_t i = 0; !partial && i < sizeof SHORTCUT_KEYS / sizeof SHORTCUT_KEYS[0]; i++) {
        if (json_has(root, SHORTCUT_KEYS[i])) {
            return json_error(root, error, "\"%s\" changes a base machine; this one has no \"base\"", SHORTCUT_KEYS[i]);
        }
    }
    return partial ? STATUS_OK : machine_need_fields(root, error);
}

static enum status read_base(struct machine *machine, const struct json *root, int depth, bool *partial,
                             struct error *error)
{
    const char *base;
    *partial = json_has(root, "base");
    if (!*partial) {
        return STATUS_OK;
    }
    TRY(json_string(root, "base", &base, error));
    if (depth >= BASE_DEPTH_MAX) {
        return json_error(root, error, "more than %d bases on top of each other (does a machine name itself?)",
                          BASE_DEPTH_MAX);
    }
    struct error inner = { 0 };
    enum status status = load_named(machine, base, depth + 1, &inner);
    if (status != STATUS_OK && inner.path[0] == '\0') { /* the name itself is at fault */
        struct json at;
        TRY(json_any(root, "base", &at, error));
        return json_error(&at, error, "%s%s%s", inner.file, inner.file[0] != '\0' ? ": " : "", inner.message);
    }
    if (status != STATUS_OK && error != NULL) {
        *error = inner;
    }
    return status;
}

static enum status read_name(struct machine *machine, const struct json *root, bool partial, struct error *error)
{
    const char *name = machine->name;
    if (!partial || json_has(root, "name")) {
        TRY(schema_name(root, NULL, MACHINE_NAME_BYTES - 1, &name, error));
    } else if (strchr(name, '*') == NULL && strlen(name) + 2 < MACHINE_NAME_BYTES) {
        size_t length = strlen(name); /* a changed machine without a name of its own */
        snprintf(machine->name + length, sizeof machine->name - length, "*");
        return STATUS_OK;
    }
    if (name == NULL || name[0] == '\0') {
        return json_error(root, error, "\"name\" must have 1 to %d bytes", MACHINE_NAME_BYTES - 1);
    }
    if (name != machine->name) {
        memcpy(machine->name, name, strlen(name) + 1);
    }
    return STATUS_OK;
}

static enum status read_gpu_count(struct machine *machine, const struct json *root, bool partial, struct error *error)
{
    uint32_t found = machine_part_kind_count(machine, PART_GPU);
    int64_t said;
    if (partial) {
        TRY(json_int_or(root, "gpu_count", 1, MACHINE_PARTS_MAX, (int64_t)found, &said, error));
    } else {
        TRY(json_int(root, "gpu_count", 1, MACHINE_PARTS_MAX, &said, error));
    }
    if (said != (int64_t)found || found == 0) {
        return json_error(root, error, "gpu_count is %lld, but \"parts\" has %u of kind \"gpu\"", (long long)said,
                          found);
    }
    machine->gpu_count = found;
    return STATUS_OK;
}

static enum status read_machine(struct machine *machine, const struct json *root, int depth, struct error *error)
{
    bool partial;
    TRY(check_keys(root, json_has(root, "base"), error));
    TRY(read_base(machine, root, depth, &partial, error));
    if (partial) {
        char *origin = arena_printf(&machine->arena, "changed from %s in %s", machine->name, json_file(root));
        if (origin == NULL) {
            return machine_out_of_memory(error);
        }
        TRY(machine_note_overrides(machine, root, origin, error));
        machine_forget_standard_errors(machine, root);
    }
    TRY(read_name(machine, root, partial, error));
    TRY(machine_read_fields(machine, root, partial, error));
    TRY(machine_read_topology(machine, root, partial, error));
    TRY(read_gpu_count(machine, root, partial, error));
    if (partial) {
        TRY(read_shortcuts(machine, root, error));
    }
    TRY(machine_check_topology(machine, root, error));
    if (partial && (json_has(root, "links") || json_has(root, "nccl")) && !json_has(root, "collectives")) {
        machine->curve_count = 0; /* measured on other links: collectives follow from the new ones */
    }
    TRY(machine_read_curves(machine, root, partial, error));
    TRY(machine_read_kernel_model(machine, root, partial, error));
    TRY(machine_read_measured(root, error));
    return machine_read_sources(machine, root, error);
}

static const struct embedded_library LIBRARY = { .files = embedded_machines,
                                                 .count = &embedded_machine_count,
                                                 .folder = "machines",
                                                 .noun = "machine",
                                                 .bytes_max = MACHINE_FILE_BYTES_MAX };

static enum status load_named(struct machine *machine, const char *name, int depth, struct error *error)
{
    struct json_document *document = NULL;
    struct json root;
    TRY(embedded_open(&LIBRARY, name, &document, error));
    json_root(document, &root);
    enum status status = read_machine(machine, &root, depth, error);
    json_free(document);
    return status;
}

enum status machine_open(struct json_document **document, const char *name_or_path, struct error *error)
{
    return embedded_open(&LIBRARY, name_or_path, document, error);
}

enum status machine_load(struct machine *machine, const char *name_or_path, struct error *error)
{
    *machine = (struct machine){ 0 };
    enum status status = load_named(machine, name_or_path, 0, error);
    if (status != STATUS_OK) {
        machine_free(machine);
    }
    return status;
}

enum status machine_from_json(struct machine *machine, const struct json *value, struct error *error)
{
    *machine = (struct machine){ 0 };
    enum status status;
    if (json_type(value) == JSON_STRING) {
        struct error inner = { 0 };
        const char *name;
        TRY(json_as_string(value, &name, error));
        status = load_named(machine, name, 0, &inner);
        status = embedded_answer(value, status, &inner, error); /* say where the name stands */
    } else {
        status = read_machine(machine, value, 0, error);
    }
    if (status != STATUS_OK) {
        machine_free(machine);
    }
    return status;
}

void machine_free(struct machine *machine)
{
    arena_free(&machine->arena);
    *machine = (struct machine){ 0 };
}

double machine_communicator_bytes(const struct machine *machine)
{
    return machine->nccl_channels * (machine->nccl_channel_receive_bytes + machine->nccl_channel_send_bytes);
}
