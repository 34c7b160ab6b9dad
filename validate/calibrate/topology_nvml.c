#include "validate/calibrate/topology_nvml.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

enum { NVLINKS_MAX = 18, NVML_NAME_BYTES = 96 };

/* Of a PCIe lane, by generation: transfers a second times the encoding's share. */
static const double LANE_BYTES_PER_S[] = { 0, 0.25e9, 0.5e9, 0.985e9, 1.969e9, 3.938e9, 7.563e9 };
/* Of an NVLink in one direction, by generation. */
static const double NVLINK_BYTES_PER_S[] = { 0, 20e9, 25e9, 25e9, 25e9, 50e9 };

static uint32_t bus_id_of(const struct nvml_pci *pci)
{
    return pci->domain << 16 | (pci->bus & 0xff) << 8 | (pci->device & 0x1f) << 3;
}

static struct topology_gpu *gpu_at(struct topology *topology, uint32_t bus_id)
{
    for (uint32_t i = 0; i < topology->gpu_count; i++) {
        if (topology->gpus[i].place.bus_id == bus_id) {
            return &topology->gpus[i];
        }
    }
    return NULL;
}

static void ask_device(struct topology_gpu *gpu, const struct nvml *nvml, nvml_device device)
{
    char name[NVML_NAME_BYTES] = "";
    struct nvml_memory memory = { 0 };
    unsigned generation = 0, width = 0;
    if (nvml->name != NULL && nvml->name(device, name, sizeof name) == 0) {
        name[sizeof name - 1] = '\0';
        const char *bare = strncmp(name, "NVIDIA ", 7) == 0 ? name + 7 : name;
        (void)snprintf(gpu->name, sizeof gpu->name, "%s", bare);
    }
    if (nvml->memory != NULL && nvml->memory(device, &memory) == 0) {
        gpu->memory_bytes = (double)memory.total;
    }
    if (nvml->pcie_generation != NULL && nvml->pcie_width != NULL && nvml->pcie_generation(device, &generation) == 0 &&
        nvml->pcie_width(device, &width) == 0 && width <= 32 &&
        generation < sizeof LANE_BYTES_PER_S / sizeof LANE_BYTES_PER_S[0]) {
        gpu->place.link_bytes_per_s = width * LANE_BYTES_PER_S[generation];
    }
}

static void ask_nvlinks(struct topology *topology, struct topology_gpu *gpu, const struct nvml *nvml,
                        nvml_device device)
{
    if (nvml->nvlink_state == NULL || nvml->nvlink_remote == NULL) {
        return;
    }
    for (unsigned link = 0; link < NVLINKS_MAX; link++) {
        unsigned active = 0, version = 0;
        struct nvml_pci remote = { 0 };
        if (nvml->nvlink_state(device, link, &active) != 0 || active == 0 ||
            nvml->nvlink_remote(device, link, &remote) != 0) {
            continue;
        }
        const struct topology_gpu *peer = gpu_at(topology, bus_id_of(&remote));
        if (peer == NULL) {
            gpu->nvlinks_to_switch++;
        } else {
            gpu->nvlinks_to[peer - topology->gpus]++;
        }
        if (nvml->nvlink_version != NULL && nvml->nvlink_version(device, link, &version) == 0 &&
            version < sizeof NVLINK_BYTES_PER_S / sizeof NVLINK_BYTES_PER_S[0]) {
            gpu->nvlink_bytes_per_s = NVLINK_BYTES_PER_S[version];
        }
    }
}

void topology_ask_nvml(struct topology *topology, const struct nvml *nvml)
{
    unsigned count = 0;
    nvml_device devices[TOPOLOGY_GPUS_MAX];
    struct topology_gpu *gpus[TOPOLOGY_GPUS_MAX];
    if (nvml->count == NULL || nvml->handle == NULL || nvml->pci == NULL || nvml->count(&count) != 0) {
        return;
    }
    count = count < TOPOLOGY_GPUS_MAX ? count : TOPOLOGY_GPUS_MAX;
    for (unsigned i = 0; i < count; i++) {
        struct nvml_pci pci = { 0 };
        gpus[i] = NULL;
        if (nvml->handle(i, &devices[i]) != 0 || nvml->pci(devices[i], &pci) != 0) {
            continue;
        }
        gpus[i] = gpu_at(topology, bus_id_of(&pci));
        if (gpus[i] == NULL && topology->gpu_count < TOPOLOGY_GPUS_MAX) {
            gpus[i] = &topology->gpus[topology->gpu_count++];
            *gpus[i] = (struct topology_gpu){ .place = { .bus_id = bus_id_of(&pci), .pcie_switch = TOPOLOGY_NONE } };
        }
        if (gpus[i] != NULL) {
            ask_device(gpus[i], nvml, devices[i]);
            topology->has_nvml = true;
        }
    }
    for (unsigned i = 0; i < count; i++) { /* all are known now: peers can be told from switches */
        if (gpus[i] != NULL) {
            ask_nvlinks(topology, gpus[i], nvml, devices[i]);
        }
    }
}

void topology_find_nvml(struct topology *topology)
{
    void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        return;
    }
    struct nvml nvml = { 0 };
    void *symbol;
    /* POSIX lets object pointers from dlsym stand for functions; ISO C has no cast for it. */
#define X(name, text, parameters)                                                                                      \
    symbol = dlsym(library, text);                                                                                     \
    memcpy(&nvml.name, &symbol, sizeof symbol);
    NVML_TABLE(X)
#undef X
    if (nvml.init != NULL && nvml.init() == 0) {
        topology_ask_nvml(topology, &nvml);
        if (nvml.shutdown != NULL) {
            (void)nvml.shutdown();
        }
    }
    (void)dlclose(library);
}
