/* The few functions of NVIDIA's management library that topology asks, looked up at run time: no header or library of NVIDIA's is needed to build. */
#ifndef MEMWALL_VALIDATE_TOPOLOGY_NVML_H
#define MEMWALL_VALIDATE_TOPOLOGY_NVML_H

#include "validate/calibrate/topology.h"

typedef struct nvml_device *nvml_device;

struct nvml_memory {
    unsigned long long total, free, used;
};
struct nvml_pci {
    char bus_id_legacy[16];
    unsigned domain, bus, device, pci_device_id, pci_subsystem_id;
    char bus_id[32];
};

/* name in this table, symbol in libnvidia-ml.so.1, parameters. All return 0 when they succeed. */
#define NVML_TABLE(X)                                                                                                  \
    X(init, "nvmlInit_v2", (void))                                                                                     \
    X(shutdown, "nvmlShutdown", (void))                                                                                \
    X(count, "nvmlDeviceGetCount_v2", (unsigned *))                                                                    \
    X(handle, "nvmlDeviceGetHandleByIndex_v2", (unsigned, nvml_device *))                                              \
    X(name, "nvmlDeviceGetName", (nvml_device, char *, unsigned))                                                      \
    X(memory, "nvmlDeviceGetMemoryInfo", (nvml_device, struct nvml_memory *))                                          \
    X(pci, "nvmlDeviceGetPciInfo_v3", (nvml_device, struct nvml_pci *))                                                \
    X(pcie_generation, "nvmlDeviceGetMaxPcieLinkGeneration", (nvml_device, unsigned *))                                \
    X(pcie_width, "nvmlDeviceGetMaxPcieLinkWidth", (nvml_device, unsigned *))                                          \
    X(nvlink_state, "nvmlDeviceGetNvLinkState", (nvml_device, unsigned, unsigned *))                                   \
    X(nvlink_version, "nvmlDeviceGetNvLinkVersion", (nvml_device, unsigned, unsigned *))                               \
    X(nvlink_remote, "nvmlDeviceGetNvLinkRemotePciInfo_v2", (nvml_device, unsigned, struct nvml_pci *))

struct nvml {
#define X(name, symbol, parameters) int(*name) parameters;
    NVML_TABLE(X)
#undef X
};

/* Joins what NVML says to the GPUs that hwloc found, or makes them its own where hwloc sees none. Missing functions leave their fields as they are. */
void topology_ask_nvml(struct topology *topology, const struct nvml *nvml);
/* Opens the library, asks, closes it. Without the library or a driver nothing changes. */
void topology_find_nvml(struct topology *topology);

#endif
