/* Machines made by hand for tests of clusters and collectives: the topology facts that the check values of hardware.md rest on, independent of the machine files. */
#ifndef MEMWALL_TESTS_CLUSTER_MACHINES_H
#define MEMWALL_TESTS_CLUSTER_MACHINES_H

#include <stdio.h>
#include <string.h>

#include "hw_models/machine.h"

enum { HAND_PARTS_MAX = 160, HAND_LINKS_MAX = 400, HAND_ID_BYTES = 16 };

struct hand_machine {
    struct machine machine;
    struct machine_part parts[HAND_PARTS_MAX];
    struct machine_link links[HAND_LINKS_MAX];
    char ids[HAND_PARTS_MAX][HAND_ID_BYTES];
};

static uint32_t hand_part(struct hand_machine *made, enum machine_part_kind kind)
{
    static const char *const PREFIXES[PART_KIND_COUNT] = { "cpu", "dram", "plx", "gpu", "nic", "nvme", "nvs" };
    uint32_t at = made->machine.part_count++, index = 0;
    for (uint32_t i = 0; i < at; i++) {
        index += made->parts[i].kind == kind;
    }
    snprintf(made->ids[at], HAND_ID_BYTES, "%s%u", PREFIXES[kind], index);
    made->parts[at] = (struct machine_part){ .kind = kind, .id = made->ids[at], .index = index };
    made->machine.parts = made->parts;
    made->machine.links = made->links;
    made->machine.gpu_count += kind == PART_GPU;
    return at;
}

static struct machine_link *hand_link(struct hand_machine *made, enum machine_link_kind kind, uint32_t a, uint32_t b,
                                      double rate, double both, uint32_t lanes)
{
    struct machine_link *link = &made->links[made->machine.link_count++];
    *link = (struct machine_link){ .kind = kind,
                                   .a = a,
                                   .b = b,
                                   .lanes = lanes,
                                   .bytes_per_s = rate,
                                   .back_bytes_per_s = rate,
                                   .both_bytes_per_s = both,
                                   .latency_s = 0.7e-6 };
    return link;
}

/* Two sockets with memory; returns cpu0, cpu1 is two further on. */
static uint32_t hand_host(struct hand_machine *made, const char *name, double dram, double socket_rate)
{
    memset(made, 0, sizeof *made);
    snprintf(made->machine.name, sizeof made->machine.name, "%s", name);
    made->machine.gpu.hbm_bytes_per_s = 1700e9;
    made->machine.gpu.sm_count = 108;
    made->machine.gpu.architecture = "Ampere";
    made->machine.pageable_bytes_per_s = 9e9;
    made->machine.collective_sms = 24;
    made->machine.nccl_channels = 24;
    made->machine.collective_latency_s = 45e-6;
    made->machine.network_latency_s = 5e-6;
    made->machine.network_efficiency = 0.93;
    for (int socket = 0; socket < 2; socket++) {
        uint32_t cpu = hand_part(made, PART_CPU), memory = hand_part(made, PART_DRAM);
        made->parts[cpu].cores = 64;
        made->parts[memory].read_bytes_per_s = dram;
        hand_link(made, LINK_DDR, memory, cpu, dram, dram, 1);
    }
    hand_link(made, LINK_SOCKET, 0, 2, socket_rate, 0, 1);
    return 0;
}

static inline void hand_nic(struct hand_machine *made, uint32_t parent, double line, double link_rate)
{
    uint32_t nic = hand_part(made, PART_NIC);
    made->parts[nic].line_bytes_per_s = line;
    made->parts[nic].compute_fabric = true;
    hand_link(made, LINK_PCIE, parent, nic, link_rate, 0, 16);
}

static inline void hand_drive(struct hand_machine *made, uint32_t parent, double read, double write)
{
    uint32_t drive = hand_part(made, PART_NVME);
    made->parts[drive].read_bytes_per_s = read;
    made->parts[drive].write_bytes_per_s = write;
    hand_link(made, LINK_PCIE, parent, drive, 6.38e9, 0, 4);
}

/* Four switches of two GPUs, two NICs, two drives; NVSwitch 276 GB/s a GPU [hardware.md B.3, C.1, C.2]. */
static inline void hand_dgx_a100(struct hand_machine *made)
{
    uint32_t gpus[8];
    hand_host(made, "hand-dgx-a100", 165e9, 70e9);
    made->machine.nvlink_collective_bytes_per_s = 235e9;
    for (uint32_t s = 0; s < 4; s++) {
        uint32_t plx = hand_part(made, PART_PCIE_SWITCH);
        hand_link(made, LINK_PCIE, s < 2 ? 0 : 2, plx, 25.5e9, 37e9, 16);
        for (uint32_t g = 0; g < 2; g++) {
            gpus[2 * s + g] = hand_part(made, PART_GPU);
            hand_link(made, LINK_PCIE, plx, gpus[2 * s + g], 25.5e9, 37e9, 16);
        }
        for (int n = 0; n < 2; n++) {
            hand_nic(made, plx, 25e9, 25.5e9);
            hand_drive(made, plx, 6.5e9, 3.5e9);
        }
    }
    uint32_t fabric = hand_part(made, PART_NVSWITCH);
    for (uint32_t g = 0; g < 8; g++) {
        hand_link(made, LINK_NVLINK, gpus[g], fabric, 276e9, 0, 12);
    }
}

/* One GPU and one 400 Gb/s NIC to each switch, four to a socket [B.4]. */
static inline void hand_dgx_h100(struct hand_machine *made)
{
    uint32_t gpus[8];
    hand_host(made, "hand-dgx-h100", 245e9, 60e9);
    made->machine.nvlink_collective_bytes_per_s = 368e9;
    made->machine.gpu.architecture = "Hopper";
    made->machine.gpu.sm_count = 132;
    made->machine.gpu.hbm_bytes_per_s = 2970e9;
    made->machine.in_switch_reduction = true;
    made->machine.collective_latency_s = 25e-6;
    for (uint32_t g = 0; g < 8; g++) {
        uint32_t plx = hand_part(made, PART_PCIE_SWITCH);
        hand_link(made, LINK_PCIE, g < 4 ? 0 : 2, plx, 55e9, 85e9, 16);
        gpus[g] = hand_part(made, PART_GPU);
        hand_link(made, LINK_PCIE, plx, gpus[g], 55e9, 85e9, 16);
        hand_nic(made, plx, 50e9, 55e9);
    }
    uint32_t fabric = hand_part(made, PART_NVSWITCH);
    for (uint32_t g = 0; g < 8; g++) {
        hand_link(made, LINK_NVLINK, gpus[g], fabric, 374e9, 0, 18);
    }
}

/* The NVLink matrix of hardware.md B.1; four switches of two GPUs and a NIC. */
static inline void hand_dgx1(struct hand_machine *made)
{
    static const uint8_t TWO[8][2] = { { 0, 3 }, { 0, 4 }, { 1, 2 }, { 1, 5 }, { 2, 3 }, { 4, 7 }, { 5, 6 }, { 6, 7 } };
    static const uint8_t ONE[8][2] = { { 0, 1 }, { 0, 2 }, { 1, 3 }, { 2, 6 }, { 3, 7 }, { 4, 5 }, { 4, 6 }, { 5, 7 } };
    uint32_t gpus[8];
    hand_host(made, "hand-dgx1", 58e9, 20e9);
    made->machine.nvlink_collective_bytes_per_s = 134.4e9;
    made->machine.gpu.architecture = "Volta";
    made->machine.gpu.hbm_bytes_per_s = 830e9;
    made->machine.collective_latency_s = 40e-6;
    for (uint32_t s = 0; s < 4; s++) {
        uint32_t plx = hand_part(made, PART_PCIE_SWITCH);
        hand_link(made, LINK_PCIE, s < 2 ? 0 : 2, plx, 12.2e9, 21.5e9, 16);
        for (uint32_t g = 0; g < 2; g++) {
            gpus[2 * s + g] = hand_part(made, PART_GPU);
            hand_link(made, LINK_PCIE, plx, gpus[2 * s + g], 12.2e9, 21.5e9, 16);
        }
        hand_nic(made, plx, 12.5e9, 12.2e9);
    }
    for (int i = 0; i < 8; i++) {
        hand_link(made, LINK_NVLINK, gpus[TWO[i][0]], gpus[TWO[i][1]], 48e9, 0, 2);
        hand_link(made, LINK_NVLINK, gpus[ONE[i][0]], gpus[ONE[i][1]], 24e9, 0, 1);
    }
}

/* Four root ports, under each two switches of two GPUs and a NIC [B.2]. */
static inline void hand_dgx2(struct hand_machine *made)
{
    uint32_t gpus[16], count = 0;
    hand_host(made, "hand-dgx2", 100e9, 40e9);
    made->machine.nvlink_collective_bytes_per_s = 120e9;
    made->machine.gpu.architecture = "Volta";
    for (uint32_t r = 0; r < 4; r++) {
        uint32_t root = hand_part(made, PART_PCIE_SWITCH);
        hand_link(made, LINK_PCIE, r < 2 ? 0 : 2, root, 12.2e9, 21.5e9, 16);
        for (uint32_t s = 0; s < 2; s++) {
            uint32_t plx = hand_part(made, PART_PCIE_SWITCH);
            hand_link(made, LINK_PCIE, root, plx, 12.2e9, 21.5e9, 16);
            hand_nic(made, plx, 12.5e9, 12.2e9);
            for (uint32_t g = 0; g < 2; g++) {
                gpus[count] = hand_part(made, PART_GPU);
                hand_link(made, LINK_PCIE, plx, gpus[count++], 12.2e9, 21.5e9, 16);
            }
        }
    }
    uint32_t fabric = hand_part(made, PART_NVSWITCH);
    for (uint32_t g = 0; g < 16; g++) {
        hand_link(made, LINK_NVLINK, gpus[g], fabric, 138e9, 0, 6);
    }
}

/* Eight GPUs on the sockets' own root ports, no NVLink [B.6]. */
static inline void hand_pcie_box(struct hand_machine *made)
{
    hand_host(made, "hand-pcie-box", 165e9, 16e9);
    for (uint32_t g = 0; g < 8; g++) {
        uint32_t gpu = hand_part(made, PART_GPU);
        hand_link(made, LINK_PCIE, g < 4 ? 0 : 2, gpu, 25.5e9, 37e9, 16);
    }
    hand_nic(made, 0, 12.5e9, 12.2e9);
}

#endif
