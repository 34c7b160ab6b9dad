/* From relations between devices to a topology graph.
 *   sockets       devices nearer than SYS to each other, or with the same NUMA node (else the same CPUs), are one cpu_socket. A server that is split into more NUMA
 *                 nodes than sockets gets one part for each node that has a GPU: what they share beyond that the table does not say
 *   PCIe switches devices nearer than a host bridge (PIX, PXB) hang below one switch with one link to the socket; groups within it that share a single bridge (PIX)
 *                 get a switch of their own below it
 *   NVLink        all pairs with one count, more links than a GPU of any generation has: an NVSwitch; else one link for each pair
 *   NICs          those that are behind a switch with a GPU carry the compute fabric when there are any, the others are storage NICs
 * The table has no rates. They are those of shipped machine files of the generation (by the GPU's name, by measured copies, else by the number of NVLinks), and
 * are marked estimated; copies that were imported before replace them. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/check.h"
#include "validate/calibrate/import_topology_build.h"

enum { GENERATIONS = 4, GPU_LINKS_MAX = 18 };

/* As in hw_models/machines (sources there): dgx1-v100-32gb, dgx-a100-80gb, dgx-h100, dgx-b200. */
static const struct topology_generation GENERATION[GENERATIONS] = {
    { "Volta, PCIe 3", 12.2, 12.9, 21.5, 15.75, 24.2, 25, 100, 20 },
    { "Ampere, PCIe 4", 26.0, 25.5, 37, 31.5, 23, 25, 200, 70 },
    { "Hopper, PCIe 5", 55.4, 55.1, 85, 63, 20.8, 25, 400, 70 },
    { "Blackwell, PCIe 5", 55.4, 55.1, 85, 63, 42.8, 50, 400, 70 },
};

/* NVLinks of the GPU with the most, when its pairs' counts are added up. */
static uint32_t links_of_gpus(const struct topology_builder *b, bool *uniform)
{
    uint32_t most = 0;
    *uniform = b->gpus >= 2;
    for (uint32_t i = 0; i < b->gpus; i++) {
        uint32_t links = 0;
        for (uint32_t j = 0; j < b->gpus; j++) {
            uint32_t count = topology_way(b, i, j) > TOPOLOGY_NV ? (uint32_t)topology_way(b, i, j) - TOPOLOGY_NV : 0;
            links += count;
            *uniform = *uniform && (i == j || (count > 0 && topology_way(b, i, j) == topology_way(b, 0, 1)));
        }
        most = links > most ? links : most;
    }
    return most;
}

double topology_measured(const struct topology_builder *b, enum copy_way kind, uint32_t lanes)
{
    const struct points *points = b->source->points;
    double best = 0, bytes = 0;
    for (uint32_t i = 0; i < points->count; i++) {
        const struct point *p = &points->items[i];
        if (p->kind != POINT_COPY || p->way != kind || p->at_once != 1 || p->pageable || p->in_doubt ||
            p->bytes < bytes || p->to >= b->gpus) {
            continue;
        }
        if (kind == COPY_PEER && (p->from >= b->gpus || topology_way(b, p->from, p->to) != TOPOLOGY_NV + lanes)) {
            continue;
        }
        double rate = (kind == COPY_BOTH ? 2 : 1) * p->bytes / p->seconds * 1e-9;
        best = p->bytes > bytes ? rate : fmax(best, rate);
        bytes = p->bytes;
    }
    return best;
}

static bool named(const char *name, const char *const *words)
{
    for (; *words != NULL; words++) {
        if (strstr(name, *words) != NULL) {
            return true;
        }
    }
    return false;
}

static void find_generation(struct topology_builder *b, uint32_t links)
{
    static const char *const volta[] = { "V100", "P100", "T4", "TITAN", "RTX 20", "RTX 8000", NULL };
    static const char *const ampere[] = { "A100",   "A800",  "A10",    "A30", "A40", "A16",
                                          "RTX 30", "RTX A", "RTX 40", "L4",  NULL };
    static const char *const hopper[] = { "H100", "H200", "H800", "H20", "GH200", NULL };
    static const char *const blackwell[] = { "B200", "B300", "B100", "RTX 50", "RTX PRO", NULL };
    const char *name = b->topology->gpu_name;
    double down = topology_measured(b, COPY_H2D, 0), up = topology_measured(b, COPY_D2H, 0),
           both = topology_measured(b, COPY_BOTH, 0);
    int g = down > 32 || links > 12 ? 2 : down > 16 || links > 6 || links == 0 ? 1 : 0;
    g = down > 0 && down <= 16 ? 0 : g;
    g = named(name, volta) ? 0 : named(name, ampere) ? 1 : named(name, hopper) ? 2 : named(name, blackwell) ? 3 : g;
    b->generation = &GENERATION[g];
    b->pcie_measured = down > 0 && up > 0;
    b->pcie = b->pcie_measured ? down : b->generation->pcie;
    b->pcie_back = b->pcie_measured ? up : b->generation->pcie_back;
    double sum = b->pcie + b->pcie_back, larger = fmax(b->pcie, b->pcie_back);
    double share = b->generation->pcie_both / (b->generation->pcie + b->generation->pcie_back);
    b->pcie_both = fmin(fmax(both > 0 ? both : share * sum, larger), sum);
    import_note(b->source, "rates are those of %s%s, estimated%s", b->generation->name,
                name[0] != '\0' ? " (by the GPU's name)" : " (a guess: add nvidia-smi -L)",
                b->pcie_measured ? "; PCIe by the copies imported before" : "");
}

static void build(struct topology_builder *b)
{
    bool uniform;
    uint32_t links = links_of_gpus(b, &uniform);
    topology_find_groups(b);
    if (uniform && links > GPU_LINKS_MAX) {
        b->switch_links = (uint32_t)topology_way(b, 0, 1) - TOPOLOGY_NV;
    }
    find_generation(b, b->switch_links > 0 ? b->switch_links : links);
}

enum status topology_build(struct import_source *source, const struct topology *topology, struct error *error)
{
    uint32_t n = topology->count;
    struct topology_builder b = { .source = source, .topology = topology, .count = n, .gpus = topology->gpus };
    if (source->draft == NULL) {
        return import_error(source, 0, error, "a topology needs a machine to go into");
    }
    uint32_t *numbers = calloc((size_t)n * 11, sizeof *numbers);
    b.compute = calloc(n, sizeof *b.compute);
    enum status status = STATUS_OK;
    if (numbers == NULL || b.compute == NULL) {
        status = error_set(error, STATUS_NO_MEMORY, "out of memory: a topology of %u devices", n);
        goto fail;
    }
    b.socket = numbers;
    b.upper = numbers + n;
    b.lower = numbers + (size_t)n * 2;
    b.parent = numbers + (size_t)n * 3;        /* at most 2n switches */
    b.switch_socket = numbers + (size_t)n * 5; /* likewise */
    b.scratch = numbers + (size_t)n * 7;       /* 2n */
    b.cores = numbers + (size_t)n * 9;
    build(&b);
    TRY_OR_FAIL(topology_write(&b, error));
    import_note(source, "%u GPUs, %u NICs, %u sockets (or NUMA nodes with GPUs), %u PCIe switches, %s", b.gpus,
                n - b.gpus, b.sockets, b.switches, b.switch_links > 0 ? "an NVSwitch" : "no NVSwitch");
fail:
    free(numbers);
    free(b.compute);
    return status;
}
