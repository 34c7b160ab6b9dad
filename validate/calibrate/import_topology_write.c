/* A topology as a machine file's parts and links. What the table does not say (rates, cores, memory) stands there as estimated, with its reason. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/json_write.h"
#include "validate/calibrate/import_topology_build.h"

enum { SOCKET_CORES = 32 };
/* Of the A100 machine: 165 GB/s and 1024 GiB for 64 cores. */
static const double DRAM_GBPS_PER_CORE = 165.0 / 64, DRAM_GIB_PER_CORE = 16;

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

static void group_source(struct json_writer *w, const struct topology_builder *b, const char *what, bool estimated)
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

static uint32_t socket_cores(const struct topology_builder *b, uint32_t socket)
{
    return b->cores[socket] > 0 ? b->cores[socket] : SOCKET_CORES;
}

/* The last of the sockets after `first` that have as many cores. */
static uint32_t alike_sockets(const struct topology_builder *b, uint32_t first)
{
    uint32_t last = first;
    while (last + 1 < b->sockets && b->cores[last + 1] == b->cores[first]) {
        last++;
    }
    return last;
}

static void write_host_parts(struct json_writer *w, const struct topology_builder *b)
{
    for (uint32_t s = 0, last; s < b->sockets; s = last + 1) {
        last = alike_sockets(b, s);
        open_part(w, "cpu", s, last, "cpu_socket");
        jw_uint(w, "cores", socket_cores(b, s));
        group_source(w, b, b->cores[s] > 0 ? "CPU Affinity of nvidia-smi topo -m" : "no whole CPU Affinity: a guess",
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

static void write_parts(struct json_writer *w, const struct topology_builder *b)
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

static void write_host_links(struct json_writer *w, const struct topology_builder *b)
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

static void write_pcie_links(struct json_writer *w, const struct topology_builder *b)
{
    jw_object(w, NULL);
    jw_string(w, "kind", "pcie");
    jw_array(w, "pairs");
    for (uint32_t s = 0; s < b->switches; s++) {
        if (b->parent[s] == TOPOLOGY_NONE) {
            pair(w, "cpu", b->switch_socket[s], "plx", s);
        } else {
            pair(w, "plx", b->parent[s], "plx", s);
        }
    }
    for (uint32_t d = 0; d < b->count; d++) {
        uint32_t above = b->lower[d] != TOPOLOGY_NONE ? b->lower[d] : b->upper[d];
        const char *kind = d < b->gpus ? "gpu" : "nic";
        uint32_t index = d < b->gpus ? d : d - b->gpus;
        pair(w, above != TOPOLOGY_NONE ? "plx" : "cpu", above != TOPOLOGY_NONE ? above : b->socket[d], kind, index);
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

static void nvlink_rates(struct json_writer *w, const struct topology_builder *b, uint32_t links)
{
    double rate = topology_measured(b, COPY_PEER, links);
    jw_uint(w, "lanes", links);
    link_rates(w, rate > 0 ? rate : links * b->generation->nvlink, rate > 0 ? rate : links * b->generation->nvlink, 0,
               links * b->generation->nvlink_peak, b->switch_links > 0 ? 1.0 : 1.9);
    group_source(w, b, rate > 0 ? "peer copies imported before" : "NVLink rate of this generation", rate <= 0);
}

static void write_nvlinks(struct json_writer *w, const struct topology_builder *b)
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
                if (topology_way(b, i, j) != TOPOLOGY_NV + links) {
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

enum status topology_write(const struct topology_builder *b, struct error *error)
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
