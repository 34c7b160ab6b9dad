/* From relations between devices to a topology graph.
 *   sockets       devices nearer than SYS to each other, or with the same NUMA node (else the same CPUs), are one cpu_socket. A server that is split into more NUMA
 *                 nodes than sockets gets one part for each node that has a GPU: what they share beyond that the table does not say
 *   PCIe switches devices nearer than a host bridge (PIX, PXB) hang below one switch with one link to the socket; groups within it that share a single bridge (PIX)
 *                 get a switch of their own below it
 *   NVLink        all pairs with one count, more links than a GPU of any generation has: an NVSwitch; else one link for each pair
 *   NICs          those that are behind a switch with a GPU carry the compute fabric when there are any, the others are storage NICs
 * The table has no rates. They are those of shipped machine files of the generation (by the GPU's name, by measured copies, else by the number of NVLinks), and
 * are marked estimated; copies that were imported before replace them. */
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/check.h"
#include "sim/base/json_write.h"
#include "validate/calibrate/import_topology.h"

enum { GENERATIONS = 4, NONE = UINT32_MAX, GPU_LINKS_MAX = 18, SOCKET_CORES = 32 };

/* Rates of one generation of servers, GB/s, as in hw_models/machines (sources there): dgx1-v100-32gb, dgx-a100-80gb, dgx-h100, dgx-b200. */
static const struct generation {
    const char *name;
    double pcie, pcie_back, pcie_both, pcie_peak;
    double nvlink,
        nvlink_peak; /* a link and direction: copy engines reach 48.3/2 (V100), 276/12 (A100), 375/18 (H100: 371-377), 770/18 (GB200) */
    double nic_Gbps, socket;
} GENERATION[GENERATIONS] = {
    { "Volta, PCIe 3", 12.2, 12.9, 21.5, 15.75, 24.2, 25, 100, 20 },
    { "Ampere, PCIe 4", 26.0, 25.5, 37, 31.5, 23, 25, 200, 70 },
    { "Hopper, PCIe 5", 55.4, 55.1, 85, 63, 20.8, 25, 400, 70 },
    { "Blackwell, PCIe 5", 55.4, 55.1, 85, 63, 42.8, 50, 400, 70 },
};
/* Of the A100 machine: 165 GB/s and 1024 GiB for 64 cores. */
static const double DRAM_GBPS_PER_CORE = 165.0 / 64, DRAM_GIB_PER_CORE = 16;

struct builder {
    struct import_source *source;
    const struct topology *topology;
    uint32_t count, gpus;
    const struct generation *generation;
    double pcie, pcie_back, pcie_both; /* GB/s */
    bool pcie_measured;
    uint32_t *socket; /* of each device */
    uint32_t *upper;  /* its outer switch, or NONE */
    uint32_t *lower;  /* its switch below that, or NONE */
    uint32_t *parent; /* of switches: the outer switch, or NONE */
    uint32_t *switch_socket;
    uint32_t *scratch;
    uint32_t sockets, switches;
    uint32_t *cores;       /* of each socket */
    bool *compute;         /* of each NIC, by device */
    uint32_t switch_links; /* NVLinks of a GPU to an NVSwitch; 0: none */
};

static uint8_t way(const struct builder *b, uint32_t i, uint32_t j)
{
    return b->topology->ways[(size_t)i * b->count + j];
}

/* ---- groups ---- */

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

static void group(const struct builder *b, uint32_t *parent, uint8_t from, uint8_t to)
{
    for (uint32_t i = 0; i < b->count; i++) {
        parent[i] = i;
    }
    for (uint32_t i = 0; i < b->count; i++) {
        for (uint32_t j = i + 1; j < b->count; j++) {
            if (way(b, i, j) >= from && way(b, i, j) <= to) {
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

/* Two ranges of equal length are the two threads of each core. */
static uint32_t cores_of(const char *text)
{
    uint32_t cpus, ranges;
    if (!cpu_list(text, &cpus, &ranges)) {
        return 0;
    }
    uint32_t cores = ranges % 2 == 0 ? cpus / 2 : cpus;
    return cores < 1 ? 1 : cores > 4096 ? 4096 : cores;
}

static bool same_place(const struct topology_device *a, const struct topology_device *b)
{
    bool numa = a->numa[0] != '\0' && b->numa[0] != '\0';
    if (numa) { /* a list of nodes says nothing */
        return strcmp(a->numa, b->numa) == 0 && strspn(a->numa, "0123456789") == strlen(a->numa);
    }
    return a->cpus[0] != '\0' && strcmp(a->cpus, b->cpus) == 0;
}

static void find_sockets(struct builder *b)
{
    uint32_t *parent = b->scratch, *number = b->scratch + b->count;
    group(b, parent, TOPOLOGY_NODE, TOPOLOGY_PIX);
    for (uint32_t i = 0; i < b->gpus; i++) {
        for (uint32_t j = i + 1; j < b->gpus; j++) {
            if (same_place(&b->topology->devices[i], &b->topology->devices[j])) {
                unite(parent, i, j);
            }
        }
    }
    for (uint32_t i = 0; i < b->count; i++) {
        number[i] = NONE;
    }
    for (uint32_t i = 0; i < b->count; i++) { /* GPUs come first and have the lowest roots */
        uint32_t root = root_of(parent, i);
        if (i < b->gpus && number[root] == NONE) {
            number[root] = b->sockets++;
        }
        if (number[root] == NONE) {
            import_note(b->source, "%s is near no GPU: put on the first socket", b->topology->devices[i].name);
        }
        b->socket[i] = number[root] == NONE ? 0 : number[root];
        uint32_t cores = cores_of(b->topology->devices[i].cpus);
        b->cores[b->socket[i]] = i < b->gpus && cores > b->cores[b->socket[i]] ? cores : b->cores[b->socket[i]];
    }
}

static uint32_t group_size(const struct builder *b, uint32_t *parent, uint32_t root)
{
    uint32_t size = 0;
    for (uint32_t i = 0; i < b->count; i++) {
        size += root_of(parent, i) == root;
    }
    return size;
}

static uint32_t add_switch(struct builder *b, uint32_t socket, uint32_t parent)
{
    b->switch_socket[b->switches] = socket;
    b->parent[b->switches] = parent;
    return b->switches++;
}

static void find_switches(struct builder *b)
{
    uint32_t *outer = b->scratch, *inner = b->scratch + b->count;
    group(b, outer, TOPOLOGY_PXB, TOPOLOGY_PIX);
    group(b, inner, TOPOLOGY_PIX, TOPOLOGY_PIX);
    for (uint32_t i = 0; i < b->count; i++) {
        b->upper[i] = b->lower[i] = NONE;
    }
    for (uint32_t i = 0; i < b->count; i++) {
        uint32_t root = root_of(outer, i), bridge = root_of(inner, i);
        uint32_t size = group_size(b, outer, root), bridge_size = group_size(b, inner, bridge);
        if (size < 2) {
            continue;
        }
        b->upper[i] = root == i ? add_switch(b, b->socket[i], NONE) : b->upper[root];
        if (bridge_size >= 2 && bridge_size < size) {
            b->lower[i] = bridge == i ? add_switch(b, b->socket[i], b->upper[i]) : b->lower[bridge];
        }
    }
}

static void find_compute_nics(struct builder *b)
{
    bool any = false;
    for (uint32_t n = b->gpus; n < b->count; n++) {
        for (uint32_t g = 0; g < b->gpus; g++) {
            b->compute[n] = b->compute[n] || way(b, n, g) == TOPOLOGY_PIX || way(b, n, g) == TOPOLOGY_PXB;
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

/* ---- NVLink and generation ---- */

/* NVLinks of the GPU with the most, when its pairs' counts are added up. */
static uint32_t links_of_gpus(const struct builder *b, bool *uniform)
{
    uint32_t most = 0;
    *uniform = b->gpus >= 2;
    for (uint32_t i = 0; i < b->gpus; i++) {
        uint32_t links = 0;
        for (uint32_t j = 0; j < b->gpus; j++) {
            uint32_t count = way(b, i, j) > TOPOLOGY_NV ? (uint32_t)way(b, i, j) - TOPOLOGY_NV : 0;
            links += count;
            *uniform = *uniform && (i == j || (count > 0 && way(b, i, j) == way(b, 0, 1)));
        }
        most = links > most ? links : most;
    }
    return most;
}

/* The best rate, GB/s, of imported copies of the largest size, each alone; 0: none. Peer copies: of pairs with so many NVLinks. */
static double measured(const struct builder *b, enum copy_way kind, uint32_t lanes)
{
    const struct points *points = b->source->points;
    double best = 0, bytes = 0;
    for (uint32_t i = 0; i < points->count; i++) {
        const struct point *p = &points->items[i];
        if (p->kind != POINT_COPY || p->way != kind || p->at_once != 1 || p->pageable || p->in_doubt ||
            p->bytes < bytes || p->to >= b->gpus) {
            continue;
        }
        if (kind == COPY_PEER && (p->from >= b->gpus || way(b, p->from, p->to) != TOPOLOGY_NV + lanes)) {
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

static void find_generation(struct builder *b, uint32_t links)
{
    static const char *const volta[] = { "V100", "P100", "T4", "TITAN", "RTX 20", "RTX 8000", NULL };
    static const char *const ampere[] = { "A100",   "A800",  "A10",    "A30", "A40", "A16",
                                          "RTX 30", "RTX A", "RTX 40", "L4",  NULL };
    static const char *const hopper[] = { "H100", "H200", "H800", "H20", "GH200", NULL };
    static const char *const blackwell[] = { "B200", "B300", "B100", "RTX 50", "RTX PRO", NULL };
    const char *name = b->topology->gpu_name;
    double down = measured(b, COPY_H2D, 0), up = measured(b, COPY_D2H, 0), both = measured(b, COPY_BOTH, 0);
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

/* ---- JSON ---- */

/* Products of rounded figures, without the last bits' noise. */
static double tidy(double value)
{
    return round(value * 1e4) / 1e4;
}

static void link_rates(struct json_writer *w, double rate, double back, double both, double peak, double latency_us)
{
    rate = tidy(rate);
    back = tidy(back);
    jw_real(w, "GBps", rate);
    if (back != rate) {
        jw_real(w, "back_GBps", back);
    }
    jw_real(w, "peak_GBps", fmax(tidy(peak), fmax(rate, back)));
    if (both > 0) {
        jw_real(w, "both_GBps", fmin(fmax(tidy(both), fmax(rate, back)), rate + back));
    }
    jw_real(w, "latency_us", latency_us);
}

static void group_source(struct json_writer *w, const struct builder *b, const char *what, bool estimated)
{
    char text[192];
    (void)snprintf(text, sizeof text, "%s (%s)", what, b->source->name);
    jw_string(w, "source", text);
    if (estimated) {
        jw_bool(w, "estimated", true);
    }
}

/* {"id": "gpu[0-7]", "kind": "gpu" ... left open */
static void open_part(struct json_writer *w, const char *prefix, uint32_t first, uint32_t last, const char *kind)
{
    char id[64];
    if (first == last) {
        (void)snprintf(id, sizeof id, "%s%u", prefix, first);
    } else {
        (void)snprintf(id, sizeof id, "%s[%u-%u]", prefix, first, last);
    }
    jw_object(w, NULL);
    jw_string(w, "id", id);
    jw_string(w, "kind", kind);
}

static uint32_t socket_cores(const struct builder *b, uint32_t socket)
{
    return b->cores[socket] > 0 ? b->cores[socket] : SOCKET_CORES;
}

/* The last of the sockets after `first` that have as many cores. */
static uint32_t alike_sockets(const struct builder *b, uint32_t first)
{
    uint32_t last = first;
    while (last + 1 < b->sockets && b->cores[last + 1] == b->cores[first]) {
        last++;
    }
    return last;
}

static void write_host_parts(struct json_writer *w, const struct builder *b)
{
    for (uint32_t s = 0, last; s < b->sockets; s = last + 1) {
        last = alike_sockets(b, s);
        open_part(w, "cpu", s, last, "cpu_socket");
        jw_uint(w, "cores", socket_cores(b, s));
        group_source(w, b, b->cores[s] > 0 ? "CPU Affinity of nvidia-smi topo -m" : "no CPU Affinity: a guess",
                     b->cores[s] == 0);
        jw_end(w);
    }
    for (uint32_t s = 0, last; s < b->sockets; s = last + 1) {
        last = alike_sockets(b, s);
        open_part(w, "dram", s, last, "host_dram");
        jw_real(w, "capacity_GiB", DRAM_GIB_PER_CORE * socket_cores(b, s));
        group_source(w, b, "16 GiB a core, a guess", true);
        jw_end(w);
    }
    if (b->switches > 0) {
        open_part(w, "plx", 0, b->switches - 1, "pcie_switch");
        jw_end(w);
    }
}

static void write_parts(struct json_writer *w, const struct builder *b)
{
    jw_array(w, NULL);
    write_host_parts(w, b);
    open_part(w, "gpu", 0, b->gpus - 1, "gpu");
    jw_end(w);
    for (uint32_t n = b->gpus, last; n < b->count; n = last + 1) {
        for (last = n; last + 1 < b->count && b->compute[last + 1] == b->compute[n];) {
            last++;
        }
        open_part(w, "nic", n - b->gpus, last - b->gpus, "nic");
        jw_real(w, "Gbps", b->generation->nic_Gbps);
        if (!b->compute[n]) {
            jw_bool(w, "compute", false);
        }
        group_source(w, b, "line rate usual with this generation of GPUs", true);
        jw_end(w);
    }
    if (b->switch_links > 0) {
        uint32_t chips = b->switch_links == 6 ? 12 : b->switch_links == 12 ? 6 : b->switch_links == 18 ? 4 : 1;
        jw_object(w, NULL);
        jw_string(w, "id", "nvswitch");
        jw_string(w, "kind", "nvswitch");
        jw_uint(w, "chips", chips);
        jw_end(w);
    }
    jw_end(w);
}

static void pair(struct json_writer *w, const char *a, uint32_t i, const char *b, uint32_t j)
{
    char text[64];
    (void)snprintf(text, sizeof text, "%s%u-%s%u", a, i, b, j);
    jw_string(w, NULL, text);
}

static void write_host_links(struct json_writer *w, const struct builder *b)
{
    for (uint32_t s = 0, last; s < b->sockets; s = last + 1) {
        double rate = DRAM_GBPS_PER_CORE * socket_cores(b, s);
        last = alike_sockets(b, s);
        jw_object(w, NULL);
        jw_string(w, "kind", "ddr");
        jw_array(w, "pairs");
        for (uint32_t each = s; each <= last; each++) {
            pair(w, "cpu", each, "dram", each);
        }
        jw_end(w);
        link_rates(w, rate, rate, 0, rate / 0.8, 0.1); /* facts E.4: 80 % of peak achieved */
        group_source(w, b, "2.6 GB/s a core as dgx-a100-80gb, a guess", true);
        jw_end(w);
    }
    if (b->sockets < 2) {
        return;
    }
    jw_object(w, NULL);
    jw_string(w, "kind", "socket");
    jw_array(w, "pairs");
    for (uint32_t s = 0; s < b->sockets; s++) {
        for (uint32_t t = s + 1; t < b->sockets; t++) {
            pair(w, "cpu", s, "cpu", t);
        }
    }
    jw_end(w);
    link_rates(w, b->generation->socket, b->generation->socket, 0, b->generation->socket, 0.3);
    group_source(w, b, "as machine files of this generation", true);
    jw_end(w);
}

static void write_pcie_links(struct json_writer *w, const struct builder *b)
{
    jw_object(w, NULL);
    jw_string(w, "kind", "pcie");
    jw_array(w, "pairs");
    for (uint32_t s = 0; s < b->switches; s++) {
        if (b->parent[s] == NONE) {
            pair(w, "cpu", b->switch_socket[s], "plx", s);
        } else {
            pair(w, "plx", b->parent[s], "plx", s);
        }
    }
    for (uint32_t d = 0; d < b->count; d++) {
        uint32_t above = b->lower[d] != NONE ? b->lower[d] : b->upper[d];
        const char *kind = d < b->gpus ? "gpu" : "nic";
        uint32_t index = d < b->gpus ? d : d - b->gpus;
        pair(w, above != NONE ? "plx" : "cpu", above != NONE ? above : b->socket[d], kind, index);
    }
    jw_end(w);
    jw_uint(w, "lanes", 16);
    link_rates(w, b->pcie, b->pcie_back, b->pcie_both, b->generation->pcie_peak, 0.7);
    group_source(w, b,
                 b->pcie_measured
                     ? "copies imported before topology; latency and lanes as machine files of this generation"
                     : "PCIe x16 as machine files of this generation",
                 !b->pcie_measured);
    jw_end(w);
}

static void nvlink_rates(struct json_writer *w, const struct builder *b, uint32_t links)
{
    double rate = measured(b, COPY_PEER, links);
    jw_uint(w, "lanes", links);
    link_rates(w, rate > 0 ? rate : links * b->generation->nvlink, rate > 0 ? rate : links * b->generation->nvlink, 0,
               links * b->generation->nvlink_peak, b->switch_links > 0 ? 1.0 : 1.9);
    group_source(w, b, rate > 0 ? "peer copies imported before" : "NVLink rate of this generation", rate <= 0);
}

static void write_nvlinks(struct json_writer *w, const struct builder *b)
{
    if (b->switch_links > 0) {
        char id[64];
        (void)snprintf(id, sizeof id, "gpu[0-%u]", b->gpus - 1);
        jw_object(w, NULL);
        jw_string(w, "kind", "nvlink");
        jw_string(w, "a", id);
        jw_string(w, "b", "nvswitch");
        nvlink_rates(w, b, b->switch_links);
        jw_end(w);
        return;
    }
    for (uint32_t links = 1; links <= TOPOLOGY_NVLINKS_MAX; links++) {
        bool open = false;
        for (uint32_t i = 0; i < b->gpus; i++) {
            for (uint32_t j = i + 1; j < b->gpus; j++) {
                if (way(b, i, j) != TOPOLOGY_NV + links) {
                    continue;
                }
                if (!open) {
                    jw_object(w, NULL);
                    jw_string(w, "kind", "nvlink");
                    jw_array(w, "pairs");
                    open = true;
                }
                pair(w, "gpu", i, "gpu", j);
            }
        }
        if (open) {
            jw_end(w);
            nvlink_rates(w, b, links);
            jw_end(w);
        }
    }
}

static enum status write_draft(const struct builder *b, struct error *error)
{
    struct strbuf parts = { 0 }, links = { 0 };
    struct json_writer w = { .out = &parts, .compact = true }, v = { .out = &links, .compact = true };
    char text[160];
    (void)snprintf(text, sizeof text, "nvidia-smi topo -m (%s)", b->source->name);
    write_parts(&w, b);
    jw_array(&v, NULL);
    write_host_links(&v, b);
    write_pcie_links(&v, b);
    write_nvlinks(&v, b);
    jw_end(&v);
    if (parts.failed || links.failed) {
        strbuf_free(&parts);
        strbuf_free(&links);
        return error_set(error, STATUS_NO_MEMORY, "out of memory: a topology of %u devices", b->count);
    }
    if (draft_has(b->source->draft, "parts")) {
        import_note(b->source, "the parts and links that the machine had are replaced");
    }
    if (draft_has(b->source->draft, "collectives") && draft_get(b->source->draft, "gpu_count", 0) != b->gpus) {
        draft_json(b->source->draft, "collectives", "[]", text, false);
        import_note(b->source, "the collective curves that it had are dropped: they were of another number of GPUs");
    }
    draft_json(b->source->draft, "parts", parts.text, text, false);
    draft_json(b->source->draft, "links", links.text, text, false);
    draft_number(b->source->draft, "gpu_count", b->gpus, 0, text, false);
    strbuf_free(&parts);
    strbuf_free(&links);
    return STATUS_OK;
}

static void build(struct builder *b)
{
    bool uniform;
    uint32_t links = links_of_gpus(b, &uniform);
    find_sockets(b);
    find_switches(b);
    find_compute_nics(b);
    if (uniform && links > GPU_LINKS_MAX) {
        b->switch_links = (uint32_t)way(b, 0, 1) - TOPOLOGY_NV;
    }
    find_generation(b, b->switch_links > 0 ? b->switch_links : links);
}

enum status topology_build(struct import_source *source, const struct topology *topology, struct error *error)
{
    uint32_t n = topology->count;
    struct builder b = { .source = source, .topology = topology, .count = n, .gpus = topology->gpus };
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
    TRY_OR_FAIL(write_draft(&b, error));
    import_note(source, "%u GPUs, %u NICs, %u sockets (or NUMA nodes with GPUs), %u PCIe switches, %s", b.gpus,
                n - b.gpus, b.sockets, b.switches, b.switch_links > 0 ? "an NVSwitch" : "no NVSwitch");
fail:
    free(numbers);
    free(b.compute);
    return status;
}
