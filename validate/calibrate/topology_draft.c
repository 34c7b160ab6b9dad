/* Parts and links of drafts, from a topology. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "hw_models/machine.h"
#include "sim/base/check.h"
#include "sim/base/json_write.h"
#include "sim/base/units.h"
#include "validate/exec_host/host_attention.h"
#include "validate/calibrate/topology.h"

static const char FOUND[] = "found on this computer (hwloc, NVML)";
static const char GUESS[] = "a first guess, not measured";

/* Guesses, for what no fit replaces: orders of magnitude of present servers. */
static const double GUESS_DRAM_GBPS = 20, GUESS_COPY_GBPS = 5, GUESS_SOCKET_GBPS = 20, GUESS_DRIVE_GBPS = 1,
                    GUESS_ADAM_G = 0.05, GUESS_COLLECTIVE_US = 20, GUESS_COPY_US = 1, GUESS_CLOCK_MHZ = 2000;
/* Of the peak that copies reach: PCIe of four generations and NVLink, shipped machine files. */
static const double PCIE_SHARE = 0.82, NVLINK_SHARE = 0.92;
static const double PCIE_LANE_BYTES_PER_S = 1.969e9; /* generation 4, where nothing is known */

static const double MEMORY_SHARE = 0.9; /* of DRAM, for devices: the rest is the system's and the program's */

struct lists {
    struct strbuf parts_text, links_text;
    struct json_writer parts, links;
};

static void lists_begin(struct lists *lists)
{
    *lists = (struct lists){ 0 };
    lists->parts = (struct json_writer){ .out = &lists->parts_text, .compact = true };
    lists->links = (struct json_writer){ .out = &lists->links_text, .compact = true };
    jw_array(&lists->parts, NULL);
    jw_array(&lists->links, NULL);
}

/* Into the draft. */
static enum status lists_end(struct lists *lists, struct draft *draft, struct error *error)
{
    jw_end(&lists->parts);
    jw_end(&lists->links);
    bool failed = lists->parts_text.failed || lists->links_text.failed;
    if (!failed) {
        draft_json(draft, "parts", lists->parts_text.text, FOUND, false);
        draft_json(draft, "links", lists->links_text.text, GUESS, true);
    }
    strbuf_free(&lists->parts_text);
    strbuf_free(&lists->links_text);
    return failed ? error_set(error, STATUS_NO_MEMORY, "out of memory: a machine's parts") : STATUS_OK;
}

__attribute__((format(printf, 3, 4))) static void begin_part(struct lists *lists, enum machine_part_kind kind,
                                                             const char *format, ...)
{
    char id[48];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(id, sizeof id, format, arguments);
    va_end(arguments);
    jw_object(&lists->parts, NULL);
    jw_string(&lists->parts, "id", id);
    jw_string(&lists->parts, "kind", machine_part_word(kind));
}

static void begin_link(struct lists *lists, enum machine_link_kind kind, const char *a, const char *b, double GBps)
{
    jw_object(&lists->links, NULL);
    jw_string(&lists->links, "kind", machine_link_word(kind));
    jw_string(&lists->links, "a", a);
    jw_string(&lists->links, "b", b);
    jw_real(&lists->links, "GBps", GBps);
}

/* Sockets with their memory, joined in a chain. */
static void add_host(struct lists *lists, const struct topology *t)
{
    char cpu[24], other[24];
    for (uint32_t i = 0; i < t->socket_count; i++) {
        begin_part(lists, PART_CPU, "cpu%u", i);
        jw_uint(&lists->parts, "cores", t->sockets[i].cores);
        jw_end(&lists->parts);
    }
    for (uint32_t i = 0; i < t->socket_count; i++) {
        begin_part(lists, PART_DRAM, "dram%u", i);
        jw_real(&lists->parts, "capacity_GiB", fmax(1e-3, floor(t->sockets[i].dram_bytes / MIB) / 1024));
        jw_end(&lists->parts);
        (void)snprintf(cpu, sizeof cpu, "cpu%u", i);
        (void)snprintf(other, sizeof other, "dram%u", i);
        begin_link(lists, LINK_DDR, cpu, other, GUESS_DRAM_GBPS);
        jw_end(&lists->links);
    }
    for (uint32_t i = 0; i + 1 < t->socket_count; i++) {
        (void)snprintf(cpu, sizeof cpu, "cpu%u", i);
        (void)snprintf(other, sizeof other, "cpu%u", i + 1);
        begin_link(lists, LINK_SOCKET, cpu, other, GUESS_SOCKET_GBPS);
        jw_end(&lists->links);
    }
}

/* ---- devices that are threads ---- */

static uint32_t socket_of_device(const struct topology *t, uint32_t device, uint32_t devices)
{
    return (uint32_t)((uint64_t)device * t->socket_count / devices);
}

/* Bytes of each device: all have the same, so the fullest socket decides. */
static double device_bytes(const struct topology *t, uint32_t devices)
{
    double least = INFINITY;
    for (uint32_t s = 0; s < t->socket_count; s++) {
        uint32_t here = 0;
        for (uint32_t d = 0; d < devices; d++) {
            here += socket_of_device(t, d, devices) == s;
        }
        if (here > 0) {
            least = fmin(least, MEMORY_SHARE * t->sockets[s].dram_bytes / here);
        }
    }
    return floor(least / MIB) * MIB;
}

static void add_threads(struct lists *lists, const struct topology *t, uint32_t devices)
{
    for (uint32_t d = 0; d < devices; d++) {
        begin_part(lists, PART_GPU, "gpu%u", d);
        jw_end(&lists->parts);
    }
    for (uint32_t s = 0; s < t->socket_count; s++) { /* one entry a socket: entries are what a fit sets */
        uint32_t first = devices, last = 0;
        char cpu[24], group[48];
        for (uint32_t d = 0; d < devices; d++) {
            if (socket_of_device(t, d, devices) == s) {
                first = d < first ? d : first;
                last = d;
            }
        }
        if (first == devices) {
            continue;
        }
        (void)snprintf(cpu, sizeof cpu, "cpu%u", s);
        (void)snprintf(group, sizeof group, first == last ? "gpu%u" : "gpu[%u-%u]", first, last);
        begin_link(lists, LINK_PCIE, cpu, group, GUESS_COPY_GBPS);
        jw_real(&lists->links, "latency_us", GUESS_COPY_US);
        jw_end(&lists->links);
    }
}

static void add_storage(struct lists *lists, double bytes)
{
    begin_part(lists, PART_NVME, "nvme0");
    jw_real(&lists->parts, "capacity_GB", fmax(1e-3, floor(bytes / 1e6) / 1e3));
    jw_real(&lists->parts, "read_GBps", GUESS_DRIVE_GBPS);
    jw_real(&lists->parts, "write_GBps", GUESS_DRIVE_GBPS);
    jw_end(&lists->parts);
    begin_link(lists, LINK_PCIE, "cpu0", "nvme0", 1000 * GUESS_DRIVE_GBPS); /* never what binds */
    jw_real(&lists->links, "latency_us", GUESS_COPY_US);
    jw_end(&lists->links);
}

static void set_host_numbers(const struct topology *t, uint32_t devices, struct draft *draft)
{
    char title[256];
    double GiB = device_bytes(t, devices) / GIB;
    const char *cpu = t->cpu[0] != '\0' ? t->cpu : "CPU";
    (void)snprintf(title, sizeof title, "%u devices that are threads of a computer: %u socket%s of %s", devices,
                   t->socket_count, t->socket_count > 1 ? "s" : "", cpu);
    draft_text(draft, "title", title, NULL);
    draft_number(draft, "gpu_count", devices, 0, NULL, false);
    draft_text(draft, "gpu.model", cpu, FOUND);
    draft_text(draft, "gpu.architecture", "cpu", FOUND);
    draft_flag(draft, "gpu.on_host", true, "devices are threads of the host");
    draft_number(draft, "gpu.sm_count", 1, 0, "a thread", false);
    draft_number(draft, "gpu.clock_MHz", t->clock_hz > 0 ? t->clock_hz / 1e6 : GUESS_CLOCK_MHZ, 0,
                 t->clock_hz > 0 ? FOUND : GUESS, t->clock_hz <= 0);
    draft_number(draft, "gpu.l2_MB", t->cache_bytes / 1e6, 0, t->cache_bytes > 0 ? FOUND : GUESS, t->cache_bytes <= 0);
    draft_number(draft, "gpu.memory_GiB", GiB, 0, "nine tenths of the sockets' memory, shared equally", false);
    draft_number(draft, "gpu.usable_MiB", GiB * 1024, 0, "nine tenths of the sockets' memory, shared equally", false);
    draft_number(draft, "gpu.copy_engines", 2, 0, "a thread for each direction", false);
    draft_text(draft, "host.cpu", cpu, FOUND);
    draft_number(draft, "host.pageable_GBps", GUESS_COPY_GBPS, 0, GUESS, true);
    draft_number(draft, "host.adam_Gparameters_per_s_core", GUESS_ADAM_G, 0, GUESS, true);
    draft_number(draft, "host.cores_together", 1, 0, GUESS, true);
}

/* Threads have no context, no communicator buffers, no launches on a device. */
static void set_host_absences(struct draft *draft)
{
    static const char NONE[] = "threads have none";
    static const char *const ZERO[] = { "memory_overhead.context_MiB",
                                        "memory_overhead.nccl_first_MiB",
                                        "memory_overhead.nccl_channel_receive_MiB",
                                        "memory_overhead.nccl_channel_send_MiB",
                                        "memory_overhead.blas_workspace_MiB",
                                        "latency.kernel_launch_us",
                                        "latency.kernel_gap_us",
                                        "latency.kernel_floor_us",
                                        "latency.memcpy_call_us",
                                        "latency.graph_launch_us",
                                        "latency.event_sync_us" };
    for (size_t i = 0; i < sizeof ZERO / sizeof ZERO[0]; i++) {
        draft_number(draft, ZERO[i], 0, 0, NONE, false);
    }
    static const char *const LEFT[] = { "gpu.pcie_peer",        "gpu.peak_TFLOPS.fp8",      "gpu.peak_TFLOPS.tf32",
                                        "network.efficiency",   "nccl.in_switch_reduction", "network.latency_us",
                                        "host.first_touch_GBps" };
    for (size_t i = 0; i < sizeof LEFT / sizeof LEFT[0]; i++) {
        draft_source(draft, LEFT[i], "threads have none: the loader's default", true);
    }
    draft_json(draft, "kernel_model", "{\"gemm\":{}}", NULL, false); /* for the fits */
    draft_number(draft, "kernel_model.attention_tile", HOST_ATTENTION_TILE, 0, "tile of the host executor's kernel",
                 false);
    draft_number(draft, "nccl.bus_GBps", GUESS_COPY_GBPS, 0, GUESS, true);
    draft_number(draft, "nccl.latency_us", GUESS_COLLECTIVE_US, 0, GUESS, true);
    draft_number(draft, "nccl.sms", 1, 0, "a thread", false);
    draft_number(draft, "nccl.channels", 1, 0, "a thread", false);
}

enum status topology_draft_host(const struct topology *t, uint32_t devices, double storage_bytes, struct draft *draft,
                                struct error *error)
{
    CHECK(devices >= 1 && devices < MACHINE_PARTS_MAX / 2);
    if (!(device_bytes(t, devices) >= MIB)) {
        return error_set(error, STATUS_BAD_INPUT,
                         "%u devices would have less than 1 MiB of this computer's memory each: give fewer --devices",
                         devices);
    }
    struct lists lists;
    lists_begin(&lists);
    add_host(&lists, t);
    add_threads(&lists, t, devices);
    if (storage_bytes > 0) {
        add_storage(&lists, storage_bytes);
    }
    TRY(lists_end(&lists, draft, error));
    set_host_numbers(t, devices, draft);
    set_host_absences(draft);
    return STATUS_OK;
}

/* ---- GPUs ---- */

/* "A100-SXM4-80GB" and "A100 SXM4 80GB" are the same. */
static bool same_model(const char *a, const char *b)
{
    for (;; a++, b++) {
        char x = *a == '-' || *a == '_' ? ' ' : *a, y = *b == '-' || *b == '_' ? ' ' : *b;
        x = x >= 'A' && x <= 'Z' ? (char)(x - 'A' + 'a') : x;
        y = y >= 'A' && y <= 'Z' ? (char)(y - 'A' + 'a') : y;
        if (x != y) {
            return false;
        }
        if (x == '\0') {
            return true;
        }
    }
}

const char *topology_library_machine(const struct topology *t)
{
    const char *best = NULL;
    for (uint32_t i = 0; i < machine_library_count() && t->gpu_count > 0; i++) {
        struct machine machine;
        if (machine_load(&machine, machine_library_name(i), NULL) != STATUS_OK) {
            continue;
        }
        bool same = same_model(machine.gpu.model, t->gpus[0].name), as_many = machine.gpu_count == t->gpu_count;
        if (same && (best == NULL || as_many)) {
            best = machine_library_name(i);
        }
        machine_free(&machine);
        if (same && as_many) {
            break;
        }
    }
    return best;
}

/* hwloc gives floats of GB/s: to the 10 MB/s they mean. */
static double pcie_peak(const struct topology_place *place)
{
    double peak = place->link_bytes_per_s > 0 ? place->link_bytes_per_s : 16 * PCIE_LANE_BYTES_PER_S;
    return round(peak / 1e7) * 1e7;
}

static double guess_GBps(double peak, double share)
{
    return round(share * peak / 1e7) / 100;
}

static void add_pcie(struct lists *lists, const char *a, const char *b, double peak)
{
    begin_link(lists, LINK_PCIE, a, b, guess_GBps(peak, PCIE_SHARE));
    jw_real(&lists->links, "peak_GBps", peak / 1e9);
    jw_real(&lists->links, "latency_us", GUESS_COPY_US);
    jw_end(&lists->links);
}

static void add_place(struct lists *lists, const struct topology_place *place, const char *id)
{
    char above[24];
    if (place->pcie_switch != TOPOLOGY_NONE) {
        (void)snprintf(above, sizeof above, "plx%u", place->pcie_switch);
    } else {
        (void)snprintf(above, sizeof above, "cpu%u", place->socket);
    }
    add_pcie(lists, above, id, pcie_peak(place));
}

/* A switch is a part when one of the devices told hangs on it; its uplink is as wide as the widest of them. */
static void add_switches(struct lists *lists, const struct topology *t, uint32_t devices)
{
    for (uint32_t s = 0; s < t->switch_count; s++) {
        const struct topology_place *under = NULL;
        double peak = 0;
        for (uint32_t i = 0; i < devices + t->nic_count + t->drive_count; i++) {
            const struct topology_place *place = i < devices ? &t->gpus[i].place
                                                 : i < devices + t->nic_count
                                                     ? &t->nics[i - devices].place
                                                     : &t->drives[i - devices - t->nic_count].place;
            if (place->pcie_switch == s) {
                under = place;
                peak = fmax(peak, pcie_peak(place));
            }
        }
        if (under != NULL) {
            char id[24], cpu[24];
            (void)snprintf(id, sizeof id, "plx%u", s);
            (void)snprintf(cpu, sizeof cpu, "cpu%u", under->socket);
            begin_part(lists, PART_PCIE_SWITCH, "%s", id);
            jw_end(&lists->parts);
            add_pcie(lists, cpu, id, peak);
        }
    }
}

static void add_nvlink(struct lists *lists, const char *a, const char *b, uint32_t lanes, double lane_bytes_per_s)
{
    double peak = lanes * lane_bytes_per_s / 1e9;
    begin_link(lists, LINK_NVLINK, a, b, NVLINK_SHARE * peak);
    jw_uint(&lists->links, "lanes", lanes);
    jw_real(&lists->links, "peak_GBps", peak);
    jw_real(&lists->links, "latency_us", GUESS_COPY_US);
    jw_end(&lists->links);
}

static void add_gpus(struct lists *lists, const struct topology *t, uint32_t devices)
{
    char id[24], other[24];
    bool has_switch = false;
    for (uint32_t i = 0; i < devices; i++) {
        (void)snprintf(id, sizeof id, "gpu%u", i);
        begin_part(lists, PART_GPU, "%s", id);
        jw_end(&lists->parts);
        add_place(lists, &t->gpus[i].place, id);
        has_switch = has_switch || t->gpus[i].nvlinks_to_switch > 0;
    }
    if (has_switch) {
        begin_part(lists, PART_NVSWITCH, "nvswitch");
        jw_end(&lists->parts);
    }
    for (uint32_t i = 0; i < devices; i++) {
        const struct topology_gpu *gpu = &t->gpus[i];
        double lane = gpu->nvlink_bytes_per_s > 0 ? gpu->nvlink_bytes_per_s : 25e9;
        (void)snprintf(id, sizeof id, "gpu%u", i);
        if (gpu->nvlinks_to_switch > 0) {
            add_nvlink(lists, id, "nvswitch", gpu->nvlinks_to_switch, lane);
        }
        for (uint32_t k = i + 1; k < devices; k++) {
            if (gpu->nvlinks_to[k] > 0) {
                (void)snprintf(other, sizeof other, "gpu%u", k);
                add_nvlink(lists, id, other, gpu->nvlinks_to[k], lane);
            }
        }
    }
}

static void add_others(struct lists *lists, const struct topology *t)
{
    char id[24];
    for (uint32_t i = 0, count = 0; i < t->nic_count; i++) {
        if (t->nics[i].line_bytes_per_s > 0) {
            (void)snprintf(id, sizeof id, "nic%u", count++);
            begin_part(lists, PART_NIC, "%s", id);
            jw_real(&lists->parts, "Gbps", round(t->nics[i].line_bytes_per_s * 8 / 1e7) / 100);
            jw_end(&lists->parts);
            add_place(lists, &t->nics[i].place, id);
        }
    }
    for (uint32_t i = 0, count = 0; i < t->drive_count; i++) {
        if (t->drives[i].capacity_bytes > 0) {
            double rate = guess_GBps(pcie_peak(&t->drives[i].place), PCIE_SHARE);
            (void)snprintf(id, sizeof id, "nvme%u", count++);
            begin_part(lists, PART_NVME, "%s", id);
            jw_real(&lists->parts, "capacity_GB", floor(t->drives[i].capacity_bytes / 1e6) / 1e3);
            jw_real(&lists->parts, "read_GBps", rate);
            jw_real(&lists->parts, "write_GBps", rate);
            jw_end(&lists->parts);
            add_place(lists, &t->drives[i].place, id);
        }
    }
}

enum status topology_draft_gpus(const struct topology *t, uint32_t devices, struct draft *draft, struct error *error)
{
    if (devices == 0 || devices > t->gpu_count) {
        return error_set(error, STATUS_BAD_INPUT, "%u devices wanted; this computer has %u GPUs", devices,
                         t->gpu_count);
    }
    struct lists lists;
    lists_begin(&lists);
    add_host(&lists, t);
    add_switches(&lists, t, devices);
    add_gpus(&lists, t, devices);
    add_others(&lists, t);
    TRY(lists_end(&lists, draft, error));
    char title[256];
    const char *cpu = t->cpu[0] != '\0' ? t->cpu : "CPU";
    (void)snprintf(title, sizeof title, "%u x %.80s, %u socket%s of %.80s", devices, t->gpus[0].name, t->socket_count,
                   t->socket_count > 1 ? "s" : "", cpu);
    draft_text(draft, "title", title, NULL);
    draft_number(draft, "gpu_count", devices, 0, NULL, false);
    draft_text(draft, "host.cpu", cpu, FOUND);
    /* What the base says of its server as a whole. */
    draft_json(draft, "collectives", "[]", NULL, false);
    draft_json(draft, "measured", "{}", NULL, false);
    draft_json(draft, "notes", "[]", NULL, false);
    draft_number(draft, "price.system_usd", 0, 0, "not known", false);
    draft_number(draft, "power.system_W", 0, 0, "not known", false);
    if (t->gpus[0].memory_bytes > 0) {
        draft_number(draft, "gpu.usable_MiB", floor(t->gpus[0].memory_bytes / MIB), 0, FOUND, false);
    }
    return STATUS_OK;
}
