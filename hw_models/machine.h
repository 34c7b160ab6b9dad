/* A machine as a file says it: one server (or rack) model with its GPUs, host, topology graph, measured curves and constants.
 *
 * Files are hw_models/machines/NAME.json, schema "memwall.machine/1" (format: hw_models/machines/README.md); every number carries its source in the
 * file's `provenance`. A scenario may name a library machine, a path, or give an inline object; {"base": "dgx-a100-80gb", ...changes} changes a machine.
 * Loading checks types, ranges, ids, links, that every GPU reaches a CPU, and the counts that the file states.
 * Bandwidths are bytes/s, one direction, *effective* (achieved) unless the name says peak.
 *
 *     struct machine machine;
 *     TRY(machine_load(&machine, "dgx-a100-80gb", error));
 *     ... machine.gpu.usable_bytes, machine.links[i].bytes_per_s ...
 *     machine_free(&machine); */
#ifndef MEMWALL_HW_MODELS_MACHINE_H
#define MEMWALL_HW_MODELS_MACHINE_H

#include <stdbool.h>
#include <stdint.h>

#include "hw_models/kernel_constants.h"
#include "sim/base/arena.h"
#include "sim/base/json.h"
#include "sim/base/json_write.h"
#include "sim/core/curve.h"
#include "sim/ir/kernel.h"

enum { MACHINE_NAME_BYTES = 64, MACHINE_PARTS_MAX = 4096, MACHINE_LINKS_MAX = 32768, MACHINE_POINTS_MAX = 256 };

/* Topology graph nodes of one server. */
#define MACHINE_PART_TABLE(X)                                                                                          \
    X(PART_CPU, "cpu_socket")                                                                                          \
    X(PART_DRAM, "host_dram")                                                                                          \
    X(PART_PCIE_SWITCH, "pcie_switch")                                                                                 \
    X(PART_GPU, "gpu")                                                                                                 \
    X(PART_NIC, "nic")                                                                                                 \
    X(PART_NVME, "nvme")                                                                                               \
    X(PART_NVSWITCH, "nvswitch")

enum machine_part_kind {
#define X(name, word) name,
    MACHINE_PART_TABLE(X)
#undef X
        PART_KIND_COUNT
};

struct machine_part {
    enum machine_part_kind kind;
    const char *id;        /* "gpu3" */
    uint32_t index;        /* among its kind, in file order */
    uint32_t cores;        /* cpu */
    uint32_t chips;        /* nvswitch: one part stands for this many switch chips of one crossbar */
    double capacity_bytes; /* dram, nvme */
    double read_bytes_per_s, write_bytes_per_s; /* nvme; dram: one shared half-duplex rate, in both */
    double line_bytes_per_s;                    /* nic: one direction */
    bool compute_fabric;                        /* nic: used by collectives (false: storage NIC) */
};

#define MACHINE_LINK_TABLE(X)                                                                                          \
    X(LINK_PCIE, "pcie")                                                                                               \
    X(LINK_NVLINK, "nvlink")                                                                                           \
    X(LINK_XGMI, "xgmi")                                                                                               \
    X(LINK_DDR, "ddr")                                                                                                 \
    X(LINK_SOCKET, "socket")                                                                                           \
    X(LINK_C2C, "c2c")                                                                                                 \
    X(LINK_NETWORK, "network") /* made by the cluster, refused in files */

enum machine_link_kind {
#define X(name, word) name,
    MACHINE_LINK_TABLE(X)
#undef X
        LINK_KIND_COUNT
};

/* Files list links from the host outwards (CPU to switch to GPU), so that a -> b is the way of a host-to-device copy. */
struct machine_link {
    enum machine_link_kind kind;
    uint32_t a, b;           /* part indices (into machine.parts) */
    uint32_t lanes;          /* parallel links bundled (NVLink count, PCIe width) */
    double bytes_per_s;      /* a -> b, all lanes, effective for copy engines */
    double back_bytes_per_s; /* b -> a; most links: the same */
    double peak_bytes_per_s; /* per direction */
    double both_bytes_per_s; /* sum of both directions when both are busy: up to bytes + back; half duplex: one */
    double latency_s;
};

/* One measured collective curve: bus bandwidth (nccl-tests definition) against message bytes (total, as nccl-tests counts). Below its points a
 * curve goes on with its first slope (users bound the time by machine.collective_latency_s), above them it stays. */
#define COLLECTIVE_TABLE(X)                                                                                            \
    X(COLLECTIVE_ALL_REDUCE, "all_reduce")                                                                             \
    X(COLLECTIVE_ALL_GATHER, "all_gather")                                                                             \
    X(COLLECTIVE_REDUCE_SCATTER, "reduce_scatter")                                                                     \
    X(COLLECTIVE_BROADCAST, "broadcast")                                                                               \
    X(COLLECTIVE_ALL_TO_ALL, "all_to_all")                                                                             \
    X(COLLECTIVE_SEND_RECV, "send_recv")

enum collective_kind {
#define X(name, word) name,
    COLLECTIVE_TABLE(X)
#undef X
        COLLECTIVE_KIND_COUNT
};

/* At most one curve per (kind, ranks, nodes). */
struct machine_collective_curve {
    enum collective_kind kind;
    uint32_t ranks;
    uint32_t nodes;     /* servers spanned */
    struct curve curve; /* bytes -> bus bytes/s, log-log */
    const char *source;
};

/* Constants of the kernel cost model for one dtype of this GPU generation: kernel_constants.h names them, sim/engine/kernel_cost.h has the formulas. */
enum { KERNEL_CONSTANTS_MAX = 16 };
struct machine_gemm_constants {
    bool present;                        /* the file gives them for this dtype */
    double peak_flops;                   /* dense peak of the data sheet */
    double values[KERNEL_CONSTANTS_MAX]; /* by enum gemm_constant */
};

struct machine_gpu {
    const char *model, *architecture;
    uint32_t sm_count;
    double clock_hz, l2_bytes;
    double memory_bytes;                          /* physical */
    double usable_bytes;                          /* what a process can allocate before its own context */
    double hbm_peak_bytes_per_s, hbm_bytes_per_s; /* achieved (triad) */
    double peak_flops[DTYPE_COUNT];               /* 0: not supported */
    struct machine_gemm_constants gemm[DTYPE_COUNT];
    double attention_forward_efficiency, attention_backward_efficiency; /* of peak, large shapes, head size 128 */
    double attention_forward_tail, attention_backward_tail;             /* idle end, in longest blocks of 128 queries */
    double attention_tile; /* rows and columns that a causal kernel computes whole along the diagonal; 0: none are */
    double class_efficiency[KERNEL_CLASS_COUNT]; /* achieved fraction of hbm_bytes_per_s; 1 where not memory bound */
    double kernel_floor_s;                       /* shortest kernel on the device */
    double launch_gap_s;                         /* device gap between dependent kernels in one stream */
    uint32_t copy_engines;
    bool pcie_peer;   /* GPUs copy to each other over PCIe switches and roots; false: through host memory */
    bool on_host;     /* the "GPUs" are threads of the host: they run on its cores, their memory is its DRAM */
    double price_usd; /* 0: unknown */
};

struct machine {
    char name[MACHINE_NAME_BYTES];
    const char *title;
    uint32_t year;
    uint32_t gpu_count;
    struct machine_gpu gpu;
    struct machine_part *parts;
    uint32_t part_count;
    struct machine_link *links;
    uint32_t link_count;
    struct machine_collective_curve *curves;
    uint32_t curve_count;
    /* collectives where no curve exists, and small-message behaviour */
    double nvlink_collective_bytes_per_s; /* per GPU and direction: bus limit of rings inside the server, any link */
    double collective_latency_s;          /* smallest collective of all GPUs of the server */
    double network_latency_s;             /* one message between nodes */
    double network_efficiency;            /* of NIC line rate that NCCL reaches */
    uint32_t collective_sms;              /* SMs a running collective occupies */
    bool in_switch_reduction;             /* NVLS */
    /* host */
    const char *cpu;
    double dram_bytes;           /* whole server */
    double pageable_bytes_per_s; /* copy through pageable memory */
    /* The kernel makes and clears the pages of a new block at their first touch: 1 GiB in 0.3266 s on a GV100 workstation of 2019 (rapidsai/dask-cuda pull 98), where a copy from the GPU into such a
     * block ran at 2 GB/s, and at 10.8 GB/s once its pages were there. */
    double first_touch_bytes_per_s;        /* 0: takes no time */
    double cpu_adam_parameters_per_s_core; /* compute bound, per core */
    double cores_together; /* share of its rate alone that a core keeps when all of its socket are busy; 1: all of it */
    double memcpy_call_s, kernel_launch_host_s, graph_launch_s, event_sync_s;
    /* memory overheads */
    double context_bytes, nccl_first_bytes, nccl_channel_receive_bytes, nccl_channel_send_bytes, blas_workspace_bytes;
    uint32_t nccl_channels;
    /* money and power; 0: unknown */
    double price_usd, usd_per_gpu_hour, power_w, gpu_power_w;
    uint32_t price_year, usd_per_gpu_hour_year; /* when that price held */
    struct
        machine_source { /* provenance: which field or group of fields ("gpu.memory_GiB", "gpu", "links.pcie.latency_us"), from where, how sure */
        const char *field, *source;
        bool estimated; /* recalled or derived by analogy, not read in a source */
    } * sources;
    uint32_t source_count;
    /* of fitted constants: the field's path, its absolute standard error in the field's unit */
    struct machine_standard_error {
        const char *field;
        double value;
    } * standard_errors;
    uint32_t standard_error_count;
    /* how well the fitted constants say what was measured: one line for each set of points; relative errors */
    struct machine_residual {
        const char *what, *source;
        uint32_t points, left_out; /* fitted to; kept apart to judge by */
        double mean_error, worst_error;
        double left_out_mean_error; /* NAN: none left out */
    } * residuals;
    uint32_t residual_count;
    struct arena arena; /* owns all of the above */
};

/* A library machine by name, a path (with '/' or ending in ".json"), or a JSON value of a scenario (an object, or a string as for machine_load). On error
 * nothing stays allocated. The struct may be moved; free it with machine_free. */
enum status machine_load(struct machine *machine, const char *name_or_path, struct error *error);
enum status machine_from_json(struct machine *machine, const struct json *value, struct error *error);
void machine_free(struct machine *machine);
/* The file behind a name or path, unchecked. The caller frees the document. */
enum status machine_open(struct json_document **document, const char *name_or_path, struct error *error);

/* The library, in a fixed order (by name). The text of a library file, for people and for tests. */
uint32_t machine_library_count(void);
const char *machine_library_name(uint32_t index);
const char *machine_library_text(uint32_t index, size_t *length);

/* NCCL's buffers of one communicator: channels x (receive + send) per peer in the ring (NCCL's buffer sizes: 10 MiB and 2 MiB a channel and peer). */
double machine_communicator_bytes(const struct machine *machine);

/* The provenance that covers a field by its JSON path without "$." ("gpu.clock_MHz"; parts and links by kind: "links.pcie.GBps"): the longest matching prefix,
 * the last one where equal (a later override). NULL: nothing said. */
const struct machine_source *machine_source_of(const struct machine *machine, const char *field);
/* The standard error of a field by its path as the file gives it ("gpu.hbm_GBps", "links.pcie.GBps"), in the field's unit; 0: not known. */
double machine_standard_error_of(const struct machine *machine, const char *field);
/* A line of residuals as an object of an open array, as files and answers give it; without a source (NULL) it has no such member. */
void machine_residual_print(const struct machine_residual *line, struct json_writer *w);
/* The curve of this kind, ranks and nodes, or NULL. */
const struct machine_collective_curve *machine_curve(const struct machine *machine, enum collective_kind kind,
                                                     uint32_t ranks, uint32_t nodes);
/* The index of the part with this id, or UINT32_MAX; the part_index-th part of a kind likewise. */
uint32_t machine_part_find(const struct machine *machine, const char *id);
uint32_t machine_part_at(const struct machine *machine, enum machine_part_kind kind, uint32_t index);
uint32_t machine_part_kind_count(const struct machine *machine, enum machine_part_kind kind);

/* The scalars of a machine as a file names them, for `memwall explain` and `memwall list`: path ("gpu.memory_GiB"), value in the unit of its name. Text values have
 * `text` set. index < machine_field_count(). */
struct machine_field_value {
    const char *section, *key; /* section "" at the top */
    double value;
    const char *text;
};
uint32_t machine_field_count(void);
void machine_field_get(const struct machine *machine, uint32_t index, struct machine_field_value *value);
/* Adds `by`, in the unit of its name, to the real number at this path ("latency.kernel_gap_us"), cut to the range that a file may give. False: there is none. */
bool machine_field_shift(struct machine *machine, const char *path, double by);

const char *collective_word(enum collective_kind kind);
const char *machine_part_word(enum machine_part_kind kind);
const char *machine_link_word(enum machine_link_kind kind);

#endif
