/* What this computer is made of: sockets and memory (hwloc), GPUs, NICs and drives on PCIe (hwloc), what NVML says of GPUs and their NVLinks where it is there; and drafts of
 * machine files made of it: parts and links, with sources, and rates that a fit replaces (marked estimated).
 *
 *     struct topology topology;
 *     TRY(topology_find(&topology, NULL, error));
 *     TRY(topology_draft_host(&topology, 8, 0, draft, error));   // plain data: nothing to free */
#ifndef MEMWALL_VALIDATE_TOPOLOGY_H
#define MEMWALL_VALIDATE_TOPOLOGY_H

#include <stdbool.h>
#include <stdint.h>

#include "sim/base/strbuf.h"
#include "validate/calibrate/draft.h"

enum {
    TOPOLOGY_SOCKETS_MAX = 16,
    TOPOLOGY_GPUS_MAX = 64,
    TOPOLOGY_DEVICES_MAX = 64,
    TOPOLOGY_TEXT_BYTES = 128,
    TOPOLOGY_NONE = 0xffff
};

struct topology_socket {
    uint32_t cores;
    double dram_bytes;
};

/* Where a PCIe device hangs. */
struct topology_place {
    uint32_t bus_id; /* domain << 16 | bus << 8 | device << 3 | function */
    uint32_t socket;
    uint32_t pcie_switch;    /* TOPOLOGY_NONE: straight on the socket */
    double link_bytes_per_s; /* PCIe peak, one direction; 0: not known */
};

struct topology_gpu {
    struct topology_place place;
    char name[TOPOLOGY_TEXT_BYTES]; /* "A100-SXM4-80GB" */
    double memory_bytes;            /* 0: not known; so the others */
    uint32_t nvlinks_to[TOPOLOGY_GPUS_MAX], nvlinks_to_switch;
    double nvlink_bytes_per_s; /* one link, one direction */
};

struct topology_nic {
    struct topology_place place;
    char name[TOPOLOGY_TEXT_BYTES];
    double line_bytes_per_s;
};

struct topology_drive {
    struct topology_place place;
    char name[TOPOLOGY_TEXT_BYTES];
    double capacity_bytes;
};

struct topology {
    char cpu[TOPOLOGY_TEXT_BYTES]; /* its model */
    double clock_hz, cache_bytes;  /* of a socket's CPU; its last-level cache; 0: not known */
    struct topology_socket sockets[TOPOLOGY_SOCKETS_MAX];
    struct topology_gpu gpus[TOPOLOGY_GPUS_MAX];
    struct topology_nic nics[TOPOLOGY_DEVICES_MAX];
    struct topology_drive drives[TOPOLOGY_DEVICES_MAX];
    uint32_t socket_count, gpu_count, nic_count, drive_count, switch_count;
    bool has_nvml;
};

/* Of this computer; or, for tests, of what `description` says: hwloc's XML (begins with '<') or a synthetic description ("pack:2 [numa(memory=64GiB)] core:4 pu:1"). */
enum status topology_find(struct topology *topology, const char *description, struct error *error);
/* One line a part, for people. */
void topology_print(const struct topology *topology, struct strbuf *out);

/* A machine whose `devices` are threads of this computer's sockets, spread evenly. `storage_bytes` > 0: it has a drive of that size. Its rates are first guesses. */
enum status topology_draft_host(const struct topology *topology, uint32_t devices, double storage_bytes,
                                struct draft *draft, struct error *error);
/* The library machine whose GPU this computer has, as many of them if there is one; NULL: none. */
const char *topology_library_machine(const struct topology *topology);
/* The first `devices` GPUs with their links, the NICs and drives near them, as parts and links of a draft that has its GPU's numbers from a base. */
enum status topology_draft_gpus(const struct topology *topology, uint32_t devices, struct draft *draft,
                                struct error *error);

#endif
