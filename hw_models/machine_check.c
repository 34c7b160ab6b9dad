/* What a machine's topology must satisfy, finding parts, and thinning them for overrides such as "nics": 4. */
#include "hw_models/machine_read.h"

#include <stdlib.h>
#include <string.h>

#include "sim/base/check.h"

uint32_t machine_part_find(const struct machine *machine, const char *id)
{
    for (uint32_t i = 0; i < machine->part_count; i++) {
        if (strcmp(machine->parts[i].id, id) == 0) {
            return i;
        }
    }
    return UINT32_MAX;
}

uint32_t machine_part_at(const struct machine *machine, enum machine_part_kind kind, uint32_t index)
{
    for (uint32_t i = 0; i < machine->part_count; i++) {
        if (machine->parts[i].kind == kind && machine->parts[i].index == index) {
            return i;
        }
    }
    return UINT32_MAX;
}

uint32_t machine_part_kind_count(const struct machine *machine, enum machine_part_kind kind)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < machine->part_count; i++) {
        count += machine->parts[i].kind == kind;
    }
    return count;
}

static uint32_t root_of(uint32_t *parent, uint32_t part)
{
    while (parent[part] != part) {
        parent[part] = parent[parent[part]];
        part = parent[part];
    }
    return part;
}

/* Mark in `host` every part that reaches a CPU over links that do not pass through a GPU (a GPU itself may be the end). */
static void mark_host_side(const struct machine *machine, uint32_t *parent, bool *host)
{
    for (uint32_t i = 0; i < machine->part_count; i++) {
        parent[i] = i;
    }
    for (uint32_t i = 0; i < machine->link_count; i++) {
        uint32_t a = machine->links[i].a, b = machine->links[i].b;
        if (machine->parts[a].kind != PART_GPU && machine->parts[b].kind != PART_GPU) {
            parent[root_of(parent, a)] = root_of(parent, b);
        }
    }
    for (uint32_t i = 0; i < machine->part_count; i++) {
        if (machine->parts[i].kind == PART_CPU) {
            host[root_of(parent, i)] = true;
        }
    }
    for (uint32_t i = 0; i < machine->part_count; i++) {
        host[i] = host[root_of(parent, i)];
    }
    for (uint32_t i = 0; i < machine->link_count; i++) {
        uint32_t a = machine->links[i].a, b = machine->links[i].b;
        if (machine->parts[a].kind == PART_GPU && machine->parts[b].kind != PART_GPU && host[b]) {
            host[a] = true;
        } else if (machine->parts[b].kind == PART_GPU && machine->parts[a].kind != PART_GPU && host[a]) {
            host[b] = true;
        }
    }
}

static enum status check_part(const struct machine *machine, const struct json *root, uint32_t index, bool host,
                              uint32_t link_count, uint32_t ddr_count, struct error *error)
{
    const struct machine_part *part = &machine->parts[index];
    switch (part->kind) {
    case PART_GPU:
        if (!host) {
            return json_error(root, error,
                              "gpu \"%s\" reaches no cpu_socket: it needs a pcie, c2c or xgmi link to one, or to a "
                              "pcie_switch that has one",
                              part->id);
        }
        break;
    case PART_DRAM:
        if (ddr_count != 1) {
            return json_error(root, error,
                              "host_dram \"%s\" has %u ddr links; it must have exactly one, to its cpu_socket",
                              part->id, ddr_count);
        }
        break;
    case PART_CPU:
        if (ddr_count != 1) {
            return json_error(root, error, "cpu_socket \"%s\" has %u host_dram; it must have exactly one", part->id,
                              ddr_count);
        }
        break;
    case PART_PCIE_SWITCH:
        if (!host) {
            return json_error(root, error, "pcie_switch \"%s\" reaches no cpu_socket", part->id);
        }
        break;
    case PART_NIC:
    case PART_NVME:
    case PART_NVSWITCH:
        if (link_count == 0) {
            return json_error(root, error, "%s \"%s\" has no link", machine_part_word(part->kind), part->id);
        }
        break;
    case PART_KIND_COUNT: break;
    }
    return STATUS_OK;
}

/* Devices on the host are threads of its sockets: each hangs on one by one pcie link, which says how fast its copies are, and nothing else joins them. */
static enum status check_on_host(const struct machine *machine, const struct json *root, uint32_t *gpu_links,
                                 struct error *error)
{
    for (uint32_t i = 0; i < machine->part_count; i++) {
        enum machine_part_kind kind = machine->parts[i].kind;
        gpu_links[i] = 0;
        if (kind == PART_NIC || kind == PART_NVSWITCH || kind == PART_PCIE_SWITCH) {
            return json_error(root, error,
                              "gpu.on_host is true and \"parts\" has the %s \"%s\": devices that are threads of the "
                              "host have cpu_socket, host_dram, gpu and nvme only",
                              machine_part_word(kind), machine->parts[i].id);
        }
    }
    for (uint32_t i = 0; i < machine->link_count; i++) {
        const struct machine_link *link = &machine->links[i];
        const struct machine_part *a = &machine->parts[link->a], *b = &machine->parts[link->b];
        bool joins_gpu = a->kind == PART_GPU || b->kind == PART_GPU;
        if (joins_gpu && !(link->kind == LINK_PCIE && a->kind == PART_CPU)) {
            return json_error(root, error,
                              "gpu.on_host is true and a %s link joins \"%s\" and \"%s\"; a device on the host has one "
                              "pcie link, from its cpu_socket",
                              machine_link_word(link->kind), a->id, b->id);
        }
        gpu_links[link->b] += joins_gpu;
    }
    for (uint32_t i = 0; i < machine->part_count; i++) {
        if (machine->parts[i].kind == PART_GPU && gpu_links[i] != 1) {
            return json_error(root, error,
                              "gpu.on_host is true and \"%s\" has %u links; a device on the host has one pcie link, "
                              "from its cpu_socket",
                              machine->parts[i].id, gpu_links[i]);
        }
    }
    return STATUS_OK;
}

enum status machine_check_topology(const struct machine *machine, const struct json *root, struct error *error)
{
    size_t count = machine->part_count + 1u;
    uint32_t *counts = calloc(count * 3, sizeof *counts); /* links, ddr links, union-find parents */
    bool *host = calloc(count, sizeof *host);
    enum status status = STATUS_OK;
    if (counts == NULL || host == NULL) {
        status = machine_out_of_memory(error);
        goto fail;
    }
    uint32_t *links = counts, *ddr = counts + count, *parent = counts + 2 * count;
    for (uint32_t i = 0; i < machine->link_count; i++) {
        const struct machine_link *link = &machine->links[i];
        links[link->a]++;
        links[link->b]++;
        ddr[link->a] += link->kind == LINK_DDR;
        ddr[link->b] += link->kind == LINK_DDR;
    }
    mark_host_side(machine, parent, host);
    for (uint32_t i = 0; i < machine->part_count; i++) {
        TRY_OR_FAIL(check_part(machine, root, i, host[i], links[i], ddr[i], error));
    }
    if (machine->gpu.on_host) {
        status = check_on_host(machine, root, links, error);
    }
fail:
    free(counts);
    free(host);
    return status;
}

static bool thinnable(const struct machine_part *part, enum machine_part_kind kind)
{
    return part->kind == kind && (kind != PART_NIC || part->compute_fabric);
}

enum status machine_thin_parts(struct machine *machine, enum machine_part_kind kind, uint32_t keep, struct error *error)
{
    uint32_t total = 0;
    for (uint32_t i = 0; i < machine->part_count; i++) {
        total += thinnable(&machine->parts[i], kind);
    }
    CHECK(keep <= total);
    uint32_t *moved = malloc((machine->part_count + 1u) * sizeof *moved);
    if (moved == NULL) {
        return machine_out_of_memory(error);
    }
    /* The k-th of `total` stays when k * keep / total steps to a new whole number: every total/keep-th, the first included. */
    uint32_t seen = 0, parts = 0, index = 0;
    for (uint32_t i = 0; i < machine->part_count; i++) {
        struct machine_part part = machine->parts[i];
        bool stays = true;
        if (thinnable(&part, kind)) {
            uint64_t before = (uint64_t)seen * keep, width = total;
            stays = keep > 0 && (before + width - 1) / width != (before + keep + width - 1) / width;
            seen++;
        }
        moved[i] = stays ? parts : UINT32_MAX;
        if (stays) {
            part.index = part.kind == kind ? index++ : part.index;
            machine->parts[parts++] = part;
        }
    }
    uint32_t links = 0;
    for (uint32_t i = 0; i < machine->link_count; i++) {
        struct machine_link link = machine->links[i];
        if (moved[link.a] != UINT32_MAX && moved[link.b] != UINT32_MAX) {
            link.a = moved[link.a];
            link.b = moved[link.b];
            machine->links[links++] = link;
        }
    }
    machine->part_count = parts;
    machine->link_count = links;
    free(moved);
    return STATUS_OK;
}
