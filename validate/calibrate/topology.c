/* Reading hwloc's tree. */
#include "validate/calibrate/topology.h"

#include <hwloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/check.h"
#include "sim/base/units.h"
#include "validate/calibrate/topology_nvml.h"

enum { PCI_DISPLAY = 0x03, PCI_VENDOR_NVIDIA = 0x10de, PCI_BRIDGES_MAX = 32 };

/* ---- sockets ---- */

/* Names as firmware pads them: without the spaces at the end. */
static void copy_text(char *to, size_t size, const char *from)
{
    (void)snprintf(to, size, "%s", from != NULL ? from : "");
    for (size_t length = strlen(to); length > 0 && to[length - 1] == ' '; length--) {
        to[length - 1] = '\0';
    }
}

static double memory_in(hwloc_topology_t tree, hwloc_obj_t package)
{
    double bytes = 0;
    for (hwloc_obj_t node = NULL; (node = hwloc_get_next_obj_by_type(tree, HWLOC_OBJ_NUMANODE, node)) != NULL;) {
        if (package == NULL || hwloc_bitmap_intersects(node->cpuset, package->cpuset)) {
            bytes += (double)node->attr->numanode.local_memory;
        }
    }
    return bytes;
}

static uint32_t count_in(hwloc_topology_t tree, hwloc_obj_t package, hwloc_obj_type_t type)
{
    int count = package != NULL ? hwloc_get_nbobjs_inside_cpuset_by_type(tree, package->cpuset, type)
                                : hwloc_get_nbobjs_by_type(tree, type);
    return count > 0 ? (uint32_t)count : 0;
}

static double last_level_cache(hwloc_topology_t tree)
{
    static const hwloc_obj_type_t CACHES[] = { HWLOC_OBJ_L3CACHE, HWLOC_OBJ_L2CACHE };
    for (int i = 0; i < 2; i++) {
        hwloc_obj_t cache = hwloc_get_next_obj_by_type(tree, CACHES[i], NULL);
        if (cache != NULL) {
            return (double)cache->attr->cache.size;
        }
    }
    return 0;
}

static enum status read_sockets(struct topology *t, hwloc_topology_t tree, struct error *error)
{
    uint32_t packages = count_in(tree, NULL, HWLOC_OBJ_PACKAGE);
    if (packages > TOPOLOGY_SOCKETS_MAX) {
        return error_set(error, STATUS_LIMIT, "this computer has %u sockets; at most %d are read", packages,
                         TOPOLOGY_SOCKETS_MAX);
    }
    hwloc_obj_t package = NULL;
    t->socket_count = packages > 0 ? packages : 1;
    double total = memory_in(tree, NULL), placed = 0;
    for (uint32_t i = 0; i < t->socket_count; i++) {
        package = hwloc_get_next_obj_by_type(tree, HWLOC_OBJ_PACKAGE, package);
        uint32_t cores = count_in(tree, package, HWLOC_OBJ_CORE);
        cores = cores > 0 ? cores : count_in(tree, package, HWLOC_OBJ_PU);
        double bytes = t->socket_count == 1 ? total : memory_in(tree, package);
        t->sockets[i] = (struct topology_socket){ cores > 0 ? cores : 1, bytes };
        placed += bytes;
    }
    for (uint32_t i = 0; i < t->socket_count && placed > total * 1.001; i++) { /* one node that several sockets share */
        t->sockets[i].dram_bytes = total / t->socket_count;
    }
    package = hwloc_get_next_obj_by_type(tree, HWLOC_OBJ_PACKAGE, NULL);
    const char *model = package != NULL ? hwloc_obj_get_info_by_name(package, "CPUModel") : NULL;
    if (model == NULL) {
        model = hwloc_obj_get_info_by_name(hwloc_get_root_obj(tree), "CPUModel");
    }
    copy_text(t->cpu, sizeof t->cpu, model);
    t->cache_bytes = last_level_cache(tree);
    return STATUS_OK;
}

/* ---- PCIe ---- */

static uint32_t bus_id_of(const struct hwloc_pcidev_attr_s *pci)
{
    return (uint32_t)pci->domain << 16 | (uint32_t)pci->bus << 8 | (uint32_t)(pci->dev & 0x1f) << 3 |
           (uint32_t)(pci->func & 7);
}

/* The switches met so far, by the bus id of their upstream port. */
struct switches {
    uint32_t ports[TOPOLOGY_DEVICES_MAX];
    uint32_t count;
};

/* Between a device and its root port stand two ports of each switch; the one below the root port names the switch. */
static uint32_t switch_of(struct switches *switches, hwloc_obj_t device)
{
    uint32_t bridges[PCI_BRIDGES_MAX], count = 0;
    for (hwloc_obj_t at = device->parent; at != NULL && count < PCI_BRIDGES_MAX; at = at->parent) {
        if (at->type == HWLOC_OBJ_BRIDGE && at->attr->bridge.upstream_type == HWLOC_OBJ_BRIDGE_PCI) {
            bridges[count++] = bus_id_of(&at->attr->bridge.upstream.pci);
        }
    }
    if (count < 3) {
        return TOPOLOGY_NONE;
    }
    uint32_t port = bridges[count - 2];
    for (uint32_t i = 0; i < switches->count; i++) {
        if (switches->ports[i] == port) {
            return i;
        }
    }
    if (switches->count == TOPOLOGY_DEVICES_MAX) {
        return TOPOLOGY_NONE;
    }
    switches->ports[switches->count] = port;
    return switches->count++;
}

static uint32_t socket_of(hwloc_topology_t tree, hwloc_obj_t device)
{
    hwloc_obj_t near = hwloc_get_non_io_ancestor_obj(tree, device), package = NULL;
    for (uint32_t i = 0; near != NULL && near->cpuset != NULL; i++) {
        package = hwloc_get_next_obj_by_type(tree, HWLOC_OBJ_PACKAGE, package);
        if (package == NULL) {
            break;
        }
        if (hwloc_bitmap_isincluded(near->cpuset, package->cpuset)) {
            return i;
        }
    }
    return 0;
}

static struct topology_place place_of(hwloc_topology_t tree, struct switches *switches, hwloc_obj_t device)
{
    return (struct topology_place){ .bus_id = bus_id_of(&device->attr->pcidev),
                                    .socket = socket_of(tree, device),
                                    .pcie_switch = switch_of(switches, device),
                                    .link_bytes_per_s = 1e9 * (double)device->attr->pcidev.linkspeed };
}

/* A number in a file of /sys; 0: none. */
static double number_in(const char *folder, const char *name, const char *file)
{
    char path[768], text[64] = "";
    (void)snprintf(path, sizeof path, "%s/%.64s/%s", folder, name, file);
    FILE *stream = fopen(path, "r");
    if (stream == NULL) {
        return 0;
    }
    bool read = fgets(text, sizeof text, stream) != NULL;
    (void)fclose(stream);
    double value = read ? strtod(text, NULL) : 0;
    return value > 0 ? value : 0;
}

static bool is_above(hwloc_obj_t pci, hwloc_obj_t device)
{
    for (hwloc_obj_t at = device->parent; at != NULL; at = at->parent) {
        if (at == pci) {
            return true;
        }
    }
    return false;
}

static void add_nic(struct topology *t, const struct topology_place *place, hwloc_obj_t os, bool here)
{
    if (t->nic_count == TOPOLOGY_DEVICES_MAX) {
        return;
    }
    struct topology_nic *nic = &t->nics[t->nic_count++];
    *nic = (struct topology_nic){ .place = *place };
    copy_text(nic->name, sizeof nic->name, os->name);
    bool fabric = os->attr->osdev.type == HWLOC_OBJ_OSDEV_OPENFABRICS;
    double Gbps = 0;
    if (here) { /* "200 Gb/sec (4X HDR)"; Ethernet says Mb/s */
        Gbps = fabric ? number_in("/sys/class/infiniband", nic->name, "ports/1/rate")
                      : number_in("/sys/class/net", nic->name, "speed") / 1000;
    }
    nic->line_bytes_per_s = Gbps > 0 ? Gbps * 1e9 / 8 : place->link_bytes_per_s;
}

static void add_drive(struct topology *t, const struct topology_place *place, hwloc_obj_t os)
{
    const char *size = hwloc_obj_get_info_by_name(os, "Size"); /* KiB */
    if (t->drive_count == TOPOLOGY_DEVICES_MAX || strncmp(os->name, "nvme", 4) != 0) {
        return;
    }
    struct topology_drive *drive = &t->drives[t->drive_count++];
    *drive = (struct topology_drive){ .place = *place };
    copy_text(drive->name, sizeof drive->name, os->name);
    drive->capacity_bytes = size != NULL ? 1024 * strtod(size, NULL) : 0;
}

/* What the operating system calls the device: an HCA counts as such, not as the network interface that it is too. */
static void read_os_devices(struct topology *t, hwloc_topology_t tree, hwloc_obj_t pci,
                            const struct topology_place *place, bool here)
{
    hwloc_obj_t nic = NULL;
    for (hwloc_obj_t os = NULL; (os = hwloc_get_next_osdev(tree, os)) != NULL;) {
        if (!is_above(pci, os)) {
            continue;
        }
        if (os->attr->osdev.type == HWLOC_OBJ_OSDEV_BLOCK) {
            add_drive(t, place, os);
        } else if (os->attr->osdev.type == HWLOC_OBJ_OSDEV_OPENFABRICS ||
                   (os->attr->osdev.type == HWLOC_OBJ_OSDEV_NETWORK && nic == NULL)) {
            nic = os;
        }
    }
    if (nic != NULL) {
        add_nic(t, place, nic, here);
    }
}

static void read_pci(struct topology *t, hwloc_topology_t tree, bool here)
{
    struct switches switches = { .count = 0 };
    for (hwloc_obj_t pci = NULL; (pci = hwloc_get_next_pcidev(tree, pci)) != NULL;) {
        const struct hwloc_pcidev_attr_s *attributes = &pci->attr->pcidev;
        struct topology_place place = place_of(tree, &switches, pci);
        if (attributes->class_id >> 8 == PCI_DISPLAY && attributes->vendor_id == PCI_VENDOR_NVIDIA) {
            if (t->gpu_count < TOPOLOGY_GPUS_MAX) {
                struct topology_gpu *gpu = &t->gpus[t->gpu_count++];
                *gpu = (struct topology_gpu){ .place = place };
                copy_text(gpu->name, sizeof gpu->name, hwloc_obj_get_info_by_name(pci, "PCIDevice"));
            }
        } else {
            read_os_devices(t, tree, pci, &place, here);
        }
    }
    t->switch_count = switches.count;
}

/* ---- this computer ---- */

/* The limit of the control group that this process is in, of either version; 0: none. */
static double group_limit(void)
{
    char line[512];
    double limit = 0;
    FILE *groups = fopen("/proc/self/cgroup", "r");
    while (groups != NULL && fgets(line, sizeof line, groups) != NULL) { /* "4:memory:/path" or "0::/path" */
        line[strcspn(line, "\n")] = '\0';
        char *controller = strchr(line, ':'), *path = controller != NULL ? strchr(controller + 1, ':') : NULL;
        if (path == NULL) {
            continue;
        }
        *path++ = '\0';
        bool old = strcmp(controller + 1, "memory") == 0;
        if (old || controller[1] == '\0') {
            char folder[600];
            (void)snprintf(folder, sizeof folder, "/sys/fs/cgroup%s%s", old ? "/memory" : "", path);
            double found = number_in(folder, ".", old ? "memory.limit_in_bytes" : "memory.max");
            limit = found > 0 && (limit <= 0 || found < limit) ? found : limit;
        }
    }
    if (groups != NULL) {
        (void)fclose(groups);
    }
    return limit;
}

/* A container's limit: memory beyond it is not there. */
static void heed_limit(struct topology *t)
{
    double limit = group_limit(), total = 0;
    for (uint32_t i = 0; i < t->socket_count; i++) {
        total += t->sockets[i].dram_bytes;
    }
    for (uint32_t i = 0; i < t->socket_count && limit > 0 && limit < total; i++) {
        t->sockets[i].dram_bytes *= limit / total;
    }
}

static enum status load_tree(hwloc_topology_t tree, const char *description, struct error *error)
{
    /* The kernel's own list of PCIe devices is enough; libpciaccess (component pci) leaks, the others start drivers. Absent components are no failure. */
    static const char *const UNWANTED[] = { "pci", "cuda", "nvml", "opencl", "rsmi", "levelzero", "gl" };
    int failed = hwloc_topology_set_io_types_filter(tree, HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
    for (size_t i = 0; i < sizeof UNWANTED / sizeof UNWANTED[0]; i++) {
        (void)hwloc_topology_set_components(tree, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, UNWANTED[i]);
    }
    if (description != NULL && description[0] == '<') {
        failed |= hwloc_topology_set_xmlbuffer(tree, description, (int)strlen(description) + 1);
    } else if (description != NULL) {
        failed |= hwloc_topology_set_synthetic(tree, description);
    }
    if (failed != 0 || hwloc_topology_load(tree) != 0) {
        return error_set(error, STATUS_EXECUTION, "hwloc cannot read the topology%s",
                         description != NULL ? " described" : " of this computer");
    }
    return STATUS_OK;
}

enum status topology_find(struct topology *topology, const char *description, struct error *error)
{
    hwloc_topology_t tree;
    *topology = (struct topology){ 0 };
    if (hwloc_topology_init(&tree) != 0) {
        return error_set(error, STATUS_NO_MEMORY, "out of memory: hwloc");
    }
    bool here = description == NULL;
    enum status status = load_tree(tree, description, error);
    if (status == STATUS_OK) {
        status = read_sockets(topology, tree, error);
    }
    if (status == STATUS_OK) {
        read_pci(topology, tree, here);
    }
    hwloc_topology_destroy(tree);
    if (status == STATUS_OK && here) {
        topology->clock_hz = 1e3 * number_in("/sys/devices/system/cpu", "cpu0", "cpufreq/cpuinfo_max_freq");
        heed_limit(topology);
        topology_find_nvml(topology);
    }
    return status;
}

void topology_print(const struct topology *t, struct strbuf *out)
{
    char text[32];
    for (uint32_t i = 0; i < t->socket_count; i++) {
        strbuf_printf(out, "socket %u: %s, %u cores, %s of memory\n", i, t->cpu[0] != '\0' ? t->cpu : "CPU",
                      t->sockets[i].cores, text_bytes(t->sockets[i].dram_bytes, text, sizeof text));
    }
    for (uint32_t i = 0; i < t->gpu_count; i++) {
        const struct topology_gpu *gpu = &t->gpus[i];
        uint32_t links = gpu->nvlinks_to_switch;
        for (uint32_t k = 0; k < t->gpu_count; k++) {
            links += gpu->nvlinks_to[k];
        }
        strbuf_printf(out, "GPU %u: %s on socket %u, %s, %u NVLinks\n", i, gpu->name, gpu->place.socket,
                      gpu->memory_bytes > 0 ? text_bytes(gpu->memory_bytes, text, sizeof text) : "memory not known",
                      links);
    }
    for (uint32_t i = 0; i < t->nic_count; i++) {
        strbuf_printf(out, "NIC %s on socket %u: %s\n", t->nics[i].name, t->nics[i].place.socket,
                      t->nics[i].line_bytes_per_s > 0 ? text_bytes_per_s(t->nics[i].line_bytes_per_s, text, sizeof text)
                                                      : "speed not known");
    }
    for (uint32_t i = 0; i < t->drive_count; i++) {
        strbuf_printf(out, "drive %s on socket %u: %s\n", t->drives[i].name, t->drives[i].place.socket,
                      text_bytes(t->drives[i].capacity_bytes, text, sizeof text));
    }
}
