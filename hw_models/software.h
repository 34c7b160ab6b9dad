/* The software stack's habits: what a framework adds to the arithmetic. Files are hw_models/software/NAME.json, schema "memwall.software/1", with provenance:
 * `ideal` (nothing costs, everything overlaps), `megatron` (2022: fused softmax, no flash attention), `megatron-flash`, `deepspeed`, `pytorch-eager` (DDP under
 * autocast), `torchtitan` (FSDP2) and `torchtitan-compile`. {"base": "megatron", "kernels": {"flash_attention": true}} changes one.
 *
 *     struct software software;
 *     TRY(software_load(&software, "megatron", error));     // plain data: copy it freely, nothing to free */
#ifndef MEMWALL_HW_MODELS_SOFTWARE_H
#define MEMWALL_HW_MODELS_SOFTWARE_H

#include <stdbool.h>
#include <stdint.h>

#include "hw_models/machine.h"
#include "sim/base/json.h"
#include "sim/ir/kernel.h"

#define SOFTWARE_ALLOCATOR_TABLE(X)                                                                                    \
    X(ALLOCATOR_EXACT, "exact")                                                                                        \
    X(ALLOCATOR_BEST_FIT, "best_fit")                                                                                  \
    X(ALLOCATOR_CACHING, "caching")

enum software_allocator {
#define X(name, word) name,
    SOFTWARE_ALLOCATOR_TABLE(X)
#undef X
};

enum { SOFTWARE_SOURCES_MAX = 48 };

/* Which field or group ("host.launch_us", "host") comes from where. */
struct software_source {
    char field[48], source[192];
    bool estimated;
};

struct software {
    char name[64];
    char title[128];
    /* host time */
    double launch_host_s;       /* host time to issue one kernel, framework included */
    double collective_host_s;   /* to issue one collective */
    double collective_jitter_s; /* mean delay of one member at a collective; see software_collective_wait_s */
    double copy_host_s;         /* to issue one asynchronous copy */
    double
        pass_host_s; /* per layer and forward pass, recomputed ones too: module calls, checkpoint's state saving; backward has none */
    double micro_batch_host_s;  /* per micro-batch: data loading, schedule logic */
    double step_host_s;         /* per step: zero_grad, loss logging, scaler synchronisation */
    uint32_t launch_ahead;      /* launches the host may run ahead of the device; 0: unlimited */
    bool pipeline_synchronises; /* host waits after each pipeline send/receive (batch_isend_irecv, then synchronize) */
    bool graphs;                /* launches replayed as graphs: launch_host_s is per graph node */
    /* kernels */
    bool fused_kernels;   /* bias, activation, dropout, masked softmax fused as own or compiled kernels do */
    bool flash_attention; /* attention as one kernel that keeps no scores */
    bool
        fp32_softmax; /* where neither holds: scores are fp32 from the mask to the product with the values (autocast) */
    bool selective_ops; /* selective recomputation keeps chosen outputs (torchtitan), not all but the attention core */
    bool
        qkv_copied; /* attention is handed copies of queries, keys and values: no unrotated ones live on in the product */
    bool
        context_copied; /* fused attention's output is kept twice with more than one sample: batch first, and sequence first for the projection (Megatron's modules) */
    bool gate_apart;    /* SwiGLU as two kernels, its middle kept, where all else is fused */
    bool
        norm_fp32; /* RMSNorm of primitives keeps the normalised rows in fp32, too (megatron.model.rms_norm): 12 bytes a value */
    enum loss_kind loss;         /* how the cross entropy is computed (sim/ir/kernel.h) */
    bool fused_optimizer;        /* one multi-tensor launch per optimizer_launches, not per tensor */
    uint32_t optimizer_launches; /* kernels of one optimizer step; per parameter tensor when not fused */
    /* numbers: what mixed-precision training keeps, in bytes per parameter (before ZeRO divides them):
     *                  weight  gradient  master  moments  sum
     *     megatron        2       4        4        8      18   fp16 weights, fp32 accumulated gradient, fp32 master
     *     deepspeed       2       2        4        8      16
     *     torchtitan      4       4        0        8      16   fp32 sharded weights are the master; layers gathered as bf16 copies */
    enum dtype gradient_dtype; /* of the accumulated gradient */
    double weight_bytes;       /* resident weights */
    double
        gathered_bytes; /* of a gathered (ZeRO-3, FSDP) or cast copy that kernels use; else = weight_bytes. Below weight_bytes and without
                                  ZeRO-3: cast at each forward, kept for the backward (autocast) */
    double gradient_bytes;   /* accumulated gradient: the size of gradient_dtype */
    double reduce_bytes;     /* gradient on the wire in data-parallel reduction */
    double master_bytes;     /* separate fp32 copy; 0: the weights are it */
    double moments_bytes;    /* Adam m and v */
    uint32_t vocab_multiple; /* padding of the vocabulary: multiple of vocab_multiple * TP; 0: only to divide */
    /* communication */
    double bucket_bytes; /* data-parallel gradient bucket; 0: one for all */
    bool
        bucket_copies; /* data parallelism without ZeRO: buckets are a second copy of the gradients, all step long (PyTorch DDP) */
    bool overlap_gradient_reduce;  /* buckets reduced while backward runs */
    bool overlap_parameter_gather; /* ZeRO: gathers prefetched */
    bool overlap_tensor_parallel;  /* backward TP collective beside the weight-gradient GEMM */
    bool overlap_pipeline;         /* sends and receives beside compute */
    bool scatter_gather_pipeline;  /* without sequence parallelism: each tensor rank sends 1/t of a boundary tensor, the
                                      receivers gather it (Narayanan et al. 2021, section 4.1) */
    uint32_t prefetch_layers;      /* ZeRO-3 / FSDP: layers gathered ahead */
    /* ZeRO-3, as FSDP2: a gather arrives in one flat buffer from which a kernel copies the weights out; gradients are copied into one flat buffer of
     * reduce_bytes, which is reduced. */
    bool staged_collectives;
    /* ZeRO-3, as torchtitan sets FSDP2 up: what the next pass would gather again at once stays gathered: embedding and head (one root group) and the last layer,
     * with pipeline stages every layer. Whole gradients of the root group, with pipeline stages of all, are reduced once, after the last backward. */
    bool keeps_gathered;
    /* ZeRO-3 (gradients: and 2), as FSDP1: a layer is a unit with one flat parameter, of which autograd makes gradients of gathered_bytes one by one while saved tensors go; at the end of the unit's
     * backward they are joined into a flat gradient of as many bytes, beside the weights, which go then; the reduction reads the flat one. A unit is never gathered twice at once. In a group of one
     * weights are cast to gathered_bytes for each pass and dropped after it, and the flat gradient is cast to gradient_dtype. */
    bool flat_units;
    bool
        norm_unit; /* flat_units: the norm before the head is a unit of its own: what the head's backward gathers ahead, and nothing to speak of */
    bool
        table_units; /* flat_units: the word table of an embedding is a unit of its own, which the backward of the first layer does not gather ahead, but the other tables */
    /* memory */
    enum software_allocator allocator;
    double context_bytes;   /* added to the machine's own context line */
    double workspace_bytes; /* framework scratch beside the machine's BLAS workspace */
    bool nccl_buffers;      /* charge communicator buffers */
    bool runtime_memory;    /* charge the machine's context and BLAS workspace; false only for `ideal` */
    /* ZeRO-2, 3: a rank's shard of a gradient is made by the reduction and gone after the update (FSDP with zero_grad(set_to_none)); false: shards stay all step, and are cleared in place */
    bool gradients_as_made;
    /* Megatron's global memory buffer: one that stays from step to step, as large as the most of: the inputs that sequence parallelism gathers for a column-parallel product (which else are short-lived),
     * and the addend of unfused attention's scores. `alone`: inputs are copied there in groups of one, too. */
    bool module_buffer, module_buffer_alone;
    /* storage */
    uint32_t
        storage_queue_depth; /* requests to drives that a rank keeps in flight (sim/engine/cost_route.c); 0: as many as it takes */
    double storage_block_bytes; /* of one request */
    struct software_source sources[SOFTWARE_SOURCES_MAX];
    uint32_t source_count;
};

/* A library name, a path (with '/' or ending in ".json"), or a JSON value (object, or a string as before). On error *software is zeroed. */
enum status software_load(struct software *software, const char *name_or_path, struct error *error);
enum status software_from_json(struct software *software, const struct json *value, struct error *error);
uint32_t software_library_count(void);
const char *software_library_name(uint32_t index);
const char *software_library_text(uint32_t index, size_t *length);

/* As machine_source_of: the longest matching prefix, the last where equal. */
const struct software_source *software_source_of(const struct software *software, const char *field);

/* All scalars as a file names them, for `explain` and `list`. `text` is set for words (dtype, allocator), else NULL; booleans are 0 or 1. */
struct software_field_value {
    const char *section, *key;
    double value;
    const char *text;
};
uint32_t software_field_count(void);
void software_field_get(const struct software *software, uint32_t index, struct software_field_value *value);

/* How long a collective of `members` ranks waits for the last of them, beyond the mean: their delays are taken as independent and exponential of mean j =
 * collective_jitter_s, so the last of n is expected at j * H(n), H(n) = 1 + 1/2 + ... + 1/n. Where hosts issue just in time it is host time (the thread
 * cannot get ahead), where they run ahead it is time on the device; the engine charges both, and the longer chain decides. */
double software_collective_wait_s(const struct software *software, uint32_t members);

/* Host time of a collective: to issue it, and the wait. */
double software_collective_host_s(const struct software *software, uint32_t members);

/* What a device holds whatever runs on it: context and workspaces of the framework, and of the machine's libraries where `runtime_memory` says so; and the buffers of so many communicators, where
 * `nccl_buffers` says so. */
double software_runtime_bytes(const struct software *software, const struct machine *machine, uint32_t communicators);
/* weight + gradient + master + moments. */
double software_state_bytes(const struct software *software);
const char *software_allocator_word(enum software_allocator allocator);

#endif
