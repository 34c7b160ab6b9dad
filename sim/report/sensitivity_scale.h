/* What-if machines: one resource of a machine made larger or smaller, all else equal.
 *
 * A rate or size that a resource consists of is multiplied by the factor, in both directions of links; latencies stay. What belongs to what:
 *   hbm_size, hbm_bandwidth    of the GPU
 *   matrix                     peak FLOP/s of all precisions (GEMM and attention follow them; efficiencies, tile and launch times stay)
 *   pcie                       links between host and GPUs: PCIe, chip to chip, xGMI to the CPU; switches and their uplinks. On a machine whose devices are threads: their copies
 *   nvlink                     links among GPUs and to NVSwitches
 *   nic                        the line rate, and the PCIe link of the NIC
 *   dram_bandwidth, dram_size  of the host
 *   cores                      of each CPU socket: whole cores, so that the factor reached may differ from the one wanted
 *   nvme                       read and write rate of drives, and their PCIe links
 *   host_issue                 host time of the software to launch kernels, copies, collectives, and its time per pass, micro-batch and step, divided by the factor
 *
 * Collectives. nccl.bus_GBps belongs to nvlink, where there are such links, else to pcie (dram_bandwidth where devices are threads). A measured curve belongs to nic when it spans servers, else
 * as nccl.bus_GBps. It is scaled in bandwidth, not in latency: with y the bus rate at a point and Y the best of the curve, a byte takes 1/Y at the curve's rate and 1/y - 1/Y beside it (latency,
 * protocol). The first is divided by the factor, the second stays:
 *     1/y' = 1/y - (1 - 1/factor)/Y
 * At factor 2 the best point doubles and small messages hardly gain; factor and then 1/factor gives the curve back. */
#ifndef MEMWALL_REPORT_SENSITIVITY_SCALE_H
#define MEMWALL_REPORT_SENSITIVITY_SCALE_H

#include "hw_models/machine.h"
#include "hw_models/software.h"

/* name, JSON word, name for people */
#define SCALED_RESOURCE_TABLE(X)                                                                                       \
    X(SCALE_HBM_SIZE, "hbm_size", "HBM size")                                                                          \
    X(SCALE_HBM_BANDWIDTH, "hbm_bandwidth", "HBM bandwidth")                                                           \
    X(SCALE_MATRIX, "matrix", "matrix throughput")                                                                     \
    X(SCALE_PCIE, "pcie", "PCIe")                                                                                      \
    X(SCALE_NVLINK, "nvlink", "NVLink")                                                                                \
    X(SCALE_NIC, "nic", "NIC")                                                                                         \
    X(SCALE_DRAM_BANDWIDTH, "dram_bandwidth", "host DRAM bandwidth")                                                   \
    X(SCALE_DRAM_SIZE, "dram_size", "host DRAM size")                                                                  \
    X(SCALE_CORES, "cores", "CPU cores")                                                                               \
    X(SCALE_NVME, "nvme", "NVMe")                                                                                      \
    X(SCALE_HOST_ISSUE, "host_issue", "kernel launches of the host")

enum scaled_resource {
#define X(name, word, text) name,
    SCALED_RESOURCE_TABLE(X)
#undef X
        SCALED_RESOURCE_COUNT
};

struct scaled_machine {
    struct machine machine; /* borrows from the original what is not scaled: texts, sources */
    struct software software;
    struct arena arena;
};

/* `scaled` becomes a copy with the factor (> 0) applied; *reached is the factor applied in truth (cores), or 1 where the machine has no such resource. The original must outlive it. Free it with
 * scaled_machine_free; on error nothing stays allocated. */
enum status machine_scale(struct scaled_machine *scaled, const struct machine *machine, const struct software *software,
                          enum scaled_resource resource, double factor, double *reached, struct error *error);
/* An unscaled copy whose numbers may be written to: parts, links, curves are its own. */
enum status machine_copy(struct scaled_machine *copy, const struct machine *machine, const struct software *software,
                         struct error *error);
void scaled_machine_free(struct scaled_machine *scaled);

const char *scaled_resource_word(enum scaled_resource resource); /* "hbm_size" */
const char *scaled_resource_text(enum scaled_resource resource); /* "HBM size" */

#endif
