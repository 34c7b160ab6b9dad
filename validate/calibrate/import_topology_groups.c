/* From relations between devices to sockets, PCIe switches and the NICs of the compute fabric (rules: import_topology_build.c). */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "validate/calibrate/import_topology_build.h"

static uint32_t root_of(uint32_t *parent, uint32_t i)
{
    while (parent[i] != i) {
        parent[i] = parent[parent[i]];
        i = parent[i];
    }
    return i;
}

static void unite(uint32_t *parent, uint32_t i, uint32_t j)
{
    uint32_t a = root_of(parent, i), b = root_of(parent, j);
    if (a < b) {
        parent[b] = a;
    } else {
        parent[a] = b;
    }
}

static void group(const struct topology_builder *b, uint32_t *parent, uint8_t from, uint8_t to)
{
    for (uint32_t i = 0; i < b->count; i++) {
        parent[i] = i;
    }
    for (uint32_t i = 0; i < b->count; i++) {
        for (uint32_t j = i + 1; j < b->count; j++) {
            if (topology_way(b, i, j) >= from && topology_way(b, i, j) <= to) {
                unite(parent, i, j);
            }
        }
    }
}

/* "0-23,48-71": CPUs and ranges. */
static bool cpu_list(const char *text, uint32_t *cpus, uint32_t *ranges)
{
    *cpus = *ranges = 0;
    while (*text != '\0') {
        char *end;
        if (!isdigit((unsigned char)*text)) {
            return false;
        }
        unsigned long first = strtoul(text, &end, 10), last = first;
        if (*end == '-' && isdigit((unsigned char)end[1])) {
            last = strtoul(end + 1, &end, 10);
        }
        if ((*end != ',' && *end != '\0') || last < first || last > 65535) {
            return false;
        }
        *cpus += (uint32_t)(last - first + 1);
        (*ranges)++;
        text = *end == ',' ? end + 1 : end;
    }
    return *cpus > 0 && *cpus <= 8192;
}

/* Two ranges of equal length are the two threads of each core. 0: not said, as by a list without a range: nvidia-smi prints six CPUs of interleaved ones ("0,2,4,6,8,10"),
 * and a job may see no more than its own. */
static uint32_t cores_of(const char *text)
{
    uint32_t cpus, ranges;
    if (!cpu_list(text, &cpus, &ranges) || strchr(text, '-') == NULL) {
        return 0;
    }
    uint32_t cores = ranges % 2 == 0 ? cpus / 2 : cpus;
    return cores < 1 ? 1 : cores > 4096 ? 4096 : cores;
}

static bool placeless(const struct topology_device *device)
{
    return device->cpus[0] == '\0' && device->numa[0] == '\0';
}

/* Whether two GPUs are near one socket, by their affinities. A list of nodes is no socket, nor is none at all: they count alone where NVLinks hide the way over PCIe. */
static bool same_place(const struct topology_builder *b, uint32_t i, uint32_t j)
{
    const struct topology_device *one = &b->topology->devices[i], *other = &b->topology->devices[j];
    bool hidden = topology_way(b, i, j) > TOPOLOGY_NV, same_cpus = strcmp(one->cpus, other->cpus) == 0;
    if (one->numa[0] != '\0' && other->numa[0] != '\0') {
        bool node = strspn(one->numa, "0123456789") == strlen(one->numa);
        return strcmp(one->numa, other->numa) == 0 && (node || (hidden && same_cpus));
    }
    return placeless(one) ? hidden && placeless(other) : same_cpus && one->cpus[0] != '\0';
}

static void find_sockets(struct topology_builder *b)
{
    uint32_t *parent = b->scratch, *number = b->scratch + b->count, lost = 0;
    group(b, parent, TOPOLOGY_NODE, TOPOLOGY_PIX);
    for (uint32_t i = 0; i < b->gpus; i++) {
        for (uint32_t j = i + 1; j < b->gpus; j++) {
            if (same_place(b, i, j)) {
                unite(parent, i, j);
            }
        }
        lost += placeless(&b->topology->devices[i]);
    }
    if (lost > 1) {
        import_note(b->source, "%u GPUs have no CPU or NUMA affinity: those that NVLinks join are put on one socket",
                    lost);
    }
    for (uint32_t i = 0; i < b->count; i++) {
        number[i] = TOPOLOGY_NONE;
    }
    for (uint32_t i = 0; i < b->count; i++) { /* GPUs come first and have the lowest roots */
        uint32_t root = root_of(parent, i);
        if (i < b->gpus && number[root] == TOPOLOGY_NONE) {
            number[root] = b->sockets++;
        }
        if (number[root] == TOPOLOGY_NONE) {
            import_note(b->source, "%s is near no GPU: put on the first socket", b->topology->devices[i].name);
        }
        b->socket[i] = number[root] == TOPOLOGY_NONE ? 0 : number[root];
        uint32_t cores = cores_of(b->topology->devices[i].cpus);
        b->cores[b->socket[i]] = i < b->gpus && cores > b->cores[b->socket[i]] ? cores : b->cores[b->socket[i]];
    }
}

static uint32_t group_size(const struct topology_builder *b, uint32_t *parent, uint32_t root)
{
    uint32_t size = 0;
    for (uint32_t i = 0; i < b->count; i++) {
        size += root_of(parent, i) == root;
    }
    return size;
}

static uint32_t add_switch(struct topology_builder *b, uint32_t socket, uint32_t parent)
{
    b->switch_socket[b->switches] = socket;
    b->parent[b->switches] = parent;
    return b->switches++;
}

static void find_switches(struct topology_builder *b)
{
    uint32_t *outer = b->scratch, *inner = b->scratch + b->count;
    group(b, outer, TOPOLOGY_PXB, TOPOLOGY_PIX);
    group(b, inner, TOPOLOGY_PIX, TOPOLOGY_PIX);
    for (uint32_t i = 0; i < b->count; i++) {
        b->upper[i] = b->lower[i] = TOPOLOGY_NONE;
    }
    for (uint32_t i = 0; i < b->count; i++) {
        uint32_t root = root_of(outer, i), bridge = root_of(inner, i);
        uint32_t size = group_size(b, outer, root), bridge_size = group_size(b, inner, bridge);
        if (size < 2) {
            continue;
        }
        b->upper[i] = root == i ? add_switch(b, b->socket[i], TOPOLOGY_NONE) : b->upper[root];
        if (bridge_size >= 2 && bridge_size < size) {
            b->lower[i] = bridge == i ? add_switch(b, b->socket[i], b->upper[i]) : b->lower[bridge];
        }
    }
}

static void find_compute_nics(struct topology_builder *b)
{
    bool any = false;
    for (uint32_t n = b->gpus; n < b->count; n++) {
        for (uint32_t g = 0; g < b->gpus; g++) {
            b->compute[n] =
                b->compute[n] || topology_way(b, n, g) == TOPOLOGY_PIX || topology_way(b, n, g) == TOPOLOGY_PXB;
        }
        any = any || b->compute[n];
    }
    for (uint32_t n = b->gpus; n < b->count; n++) {
        if (any && !b->compute[n]) {
            import_note(b->source, "%s shares no PCIe switch with a GPU: taken as a storage NIC",
                        b->topology->devices[n].name);
        }
        b->compute[n] = b->compute[n] || !any;
    }
}

void topology_find_groups(struct topology_builder *b)
{
    find_sockets(b);
    find_switches(b);
    find_compute_nics(b);
}
