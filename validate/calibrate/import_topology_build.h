/* A topology graph under construction, between the parts of topology_build (import_topology_build.c, which says how): what belongs together (import_topology_groups.c), then the
 * machine file's parts and links (import_topology_write.c). Private to the importer. */
#ifndef MEMWALL_VALIDATE_IMPORT_TOPOLOGY_BUILD_H
#define MEMWALL_VALIDATE_IMPORT_TOPOLOGY_BUILD_H

#include "validate/calibrate/import_topology.h"

enum { TOPOLOGY_NONE = UINT32_MAX };

/* Rates of one generation of servers, GB/s. */
struct topology_generation {
    const char *name;
    double pcie, pcie_back, pcie_both, pcie_peak;
    double nvlink,
        nvlink_peak; /* a link and direction: copy engines reach 48.3/2 (V100), 276/12 (A100), 375/18 (H100: 371-377), 770/18 (GB200) */
    double nic_Gbps, socket;
};

struct topology_builder {
    struct import_source *source;
    const struct topology *topology;
    uint32_t count, gpus;
    const struct topology_generation *generation;
    double pcie, pcie_back, pcie_both; /* GB/s */
    bool pcie_measured;
    uint32_t *socket; /* of each device */
    uint32_t *upper;  /* its outer switch, or TOPOLOGY_NONE */
    uint32_t *lower;  /* its switch below that, or TOPOLOGY_NONE */
    uint32_t *parent; /* of switches: the outer switch, or TOPOLOGY_NONE */
    uint32_t *switch_socket;
    uint32_t *scratch;
    uint32_t sockets, switches;
    uint32_t *cores;       /* of each socket */
    bool *compute;         /* of each NIC, by device */
    uint32_t switch_links; /* NVLinks of a GPU to an NVSwitch; 0: none */
};

static inline uint8_t topology_way(const struct topology_builder *b, uint32_t i, uint32_t j)
{
    return b->topology->ways[(size_t)i * b->count + j];
}

/* Sockets, PCIe switches, and which NICs carry the compute fabric: fills socket, cores, upper, lower, parent, switch_socket, compute. Says what it had to guess. */
void topology_find_groups(struct topology_builder *b);
/* The best rate, GB/s, of imported copies of the largest size, each alone; 0: none. Peer copies: of pairs with so many NVLinks. */
double topology_measured(const struct topology_builder *b, enum copy_way kind, uint32_t lanes);
/* The whole as "parts", "links" and "gpu_count" of the draft. STATUS_NO_MEMORY. */
enum status topology_write(const struct topology_builder *b, struct error *error);

#endif
