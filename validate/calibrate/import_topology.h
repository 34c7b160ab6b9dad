/* The table of `nvidia-smi topo -m`, read; and the machine that it describes. */
#ifndef MEMWALL_VALIDATE_IMPORT_TOPOLOGY_H
#define MEMWALL_VALIDATE_IMPORT_TOPOLOGY_H

#include "validate/calibrate/import_text.h"

enum { TOPOLOGY_DEVICES_MAX = 256, TOPOLOGY_NAME_BYTES = 24, TOPOLOGY_AFFINITY_BYTES = 128, TOPOLOGY_NVLINKS_MAX = 64 };

/* How two devices reach each other; NVLinks are TOPOLOGY_NV + their count. */
enum {
    TOPOLOGY_SELF, /* X */
    TOPOLOGY_SYS,  /* over the link between sockets (SOC in old drivers) */
    TOPOLOGY_NODE, /* over host bridges of one NUMA node */
    TOPOLOGY_PHB,  /* over one host bridge */
    TOPOLOGY_PXB,  /* over several PCIe switches */
    TOPOLOGY_PIX,  /* over one PCIe switch (PSB: on one board) */
    TOPOLOGY_NV
};

struct topology_device {
    char name[TOPOLOGY_NAME_BYTES], cpus[TOPOLOGY_AFFINITY_BYTES], numa[TOPOLOGY_AFFINITY_BYTES]; /* "": not said */
};

struct topology {
    uint32_t count, gpus; /* GPUs come first */
    uint32_t affinities;  /* columns behind the devices: CPU Affinity, NUMA Affinity, GPU NUMA ID */
    struct topology_device *devices;
    uint8_t *ways; /* [count * count] */
    char gpu_name[96];
};

/* parts, links and gpu_count of the draft; rates from `source->points` where they tell them, else of the generation, estimated. */
enum status topology_build(struct import_source *source, const struct topology *topology, struct error *error);

#endif
