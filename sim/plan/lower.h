/* Lowering: plan -> schedule; and the kit with which memory policies take part in it.
 *
 *     struct lower_request request = { .model = ..., .cluster = ..., .software = ..., .plan = ... };
 *     TRY(lower_schedule(&request, &schedule, error));
 *
 * Ranks. GPU number = ((stage * data + d) * context + c) * tensor + t: tensor-parallel neighbours are nearest, as in Megatron (Narayanan et al. 2021, section 3). With
 * plan->fold one rank a stage is built and stands for all (d, c, t). Where layers are split differently (plan->layers) each has its own groups over the devices of the stage, and
 * what moves between neighbours is in sim/plan/plan_layers.h; it counts as tensor-parallel communication, the copies of slices as forward and backward.
 *
 * A pass of a layer becomes: [gather of its weights (ZeRO-3)], compute ops and tensor-parallel collectives in order, [gradient bucket]. How finely is plan->detail:
 * `op` one op a kernel; `layer` one op a run of kernels between collectives; `stage` one op a chunk's pass, where nothing outside can see inside. */
#ifndef MEMWALL_PLAN_LOWER_H
#define MEMWALL_PLAN_LOWER_H

#include "hw_models/cluster.h"
#include "hw_models/software.h"
#include "sim/ir/builder.h"
#include "sim/model/layer.h"
#include "sim/model/model.h"
#include "sim/plan/order.h"
#include "sim/plan/plan.h"
#include "sim/plan/policy_facts.h"

struct memory_policy;
struct lowering;

/* Everything is borrowed for the call. */
struct lower_request {
    const struct model *model;
    const struct cluster *cluster;
    const struct software *software;
    const struct plan *plan;
    const struct pipeline_order *order; /* NULL: the one that the plan names */
    const struct memory_policy *policy; /* NULL: the one that the plan names */
    struct policy_facts *facts;         /* for explain: what the policy tells; NULL: nobody asks */
};

/* The caller frees the schedule. Refuses (STATUS_BAD_INPUT) what order, policy or degrees do not allow; STATUS_NOT_FOUND: the plan names an order or a policy that there is not. Does not
 * verify. */
enum status lower_schedule(const struct lower_request *request, struct schedule *schedule, struct error *error);

/* Whether shards of gradients are made by the reduction and gone after the update (software.memory.gradients_as_made): where such a layer has one, or is a unit of its own (flat_units). Else they stay all step long: orders without a flush
 * update while later micro-batches run, and a policy may place them. */
bool lower_makes_gradients(const struct software *software, const struct memory_policy *policy,
                           const struct pipeline_order *order, uint32_t zero_stage, double replicas);

/* One layer as a rank holds it. Byte counts are of this device, after tensor parallelism and ZeRO. */
struct lower_layer {
    enum layer_kind kind;
    uint32_t index;       /* on this rank, in model order of its chunks */
    uint32_t model_index; /* transformer layers from 0; SCHED_NONE for embedding and head */
    uint32_t chunk;
    const struct layer_graph *graph;
    enum recompute_mode recompute;
    uint32_t layout; /* which of the plan's different splits; 0 where all layers are split alike */
    uint32_t tensor, replicas,
        zero_stage;    /* of this layer: tensor-parallel and data-parallel group sizes, ZeRO stage */
    double parameters; /* held in compute precision while the layer runs (whole layer, after TP) */
    /* That this device updates: parameters / data-parallel size when ZeRO shards the optimizer. Bytes of each are the software's (weight_bytes, gradient_bytes, ...). */
    double owned_parameters;
    uint64_t weight_bytes, gradient_bytes, optimizer_bytes; /* persistent */
    uint64_t gathered_bytes;                                /* ZeRO-3: the whole weights while gathered; else 0 */
    uint32_t weight, gradient, optimizer;                   /* persistent buffers */
    enum gradient_life { GRADIENT_STAYS, GRADIENT_TO_COME, GRADIENT_MADE } gradient_life; /* lower_makes_gradients */
};

enum lower_pass_kind { LOWER_FORWARD, LOWER_BACKWARD, LOWER_BACKWARD_WEIGHT };
enum { LOWER_PASS_KINDS = LOWER_BACKWARD_WEIGHT + 1 };

struct lower_pass {
    const struct lower_layer *layer;
    enum lower_pass_kind kind;
    uint32_t micro_batch;
    bool last_micro_batch; /* of this kind of pass on this rank and chunk */
    bool skipped;          /* does not run (memory_policy.skips_layers) */
};

/* ---- the kit: what policies may ask and emit. All speak of the rank that is open. ---- */

const struct lower_request *lower_input(const struct lowering *lowering);
struct builder *lower_builder(struct lowering *lowering); /* for ops that the kit does not have */
struct arena *lower_arena(struct lowering *lowering);     /* lives until lower_schedule returns */
/* One pointer for the policy, NULL at first. There is one for the whole schedule: ranks are built one after the other, so a policy sets it anew in begin_rank. */
void **lower_policy_state(struct lowering *lowering);
/* The value of the policy's index-th parameter: bool 0 or 1, word its index. */
double lower_policy_parameter(const struct lowering *lowering, uint32_t index);
/* Record an error: lowering stops at the next chance. */
void lower_fail(struct lowering *lowering, enum status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* For `explain`: kept where request->facts asks for it, and no fact of that name is there. */
void lower_fact(struct lowering *lowering, const struct policy_fact *fact);
/* Beside a lower_fail with STATUS_DOES_NOT_FIT; the first counts. */
void lower_lack(struct lowering *lowering, enum space_kind kind, double needed_bytes, double has_bytes,
                const char *what);

/* Beside a lower_lack: a set of the scenario ("memory_policy.cpu_ratio=0.45") with which the policy would not refuse; the first counts. */
void lower_would_do(struct lowering *lowering, const char *format, ...) __attribute__((format(printf, 2, 3)));

uint32_t lower_stage(const struct lowering *lowering);
/* What the pipeline order is asked for over all that the schedule holds. An asynchronous order is one stream: its micro-batches are those of all steps, numbered through. */
struct order_request lower_order_request(const struct lowering *lowering);
uint32_t lower_device(const struct lowering *lowering); /* the rank's GPU number, or that of its representative */
uint32_t lower_data_size(
    const struct lowering *lowering); /* data * context of the plan (policies see no plan whose layers differ) */
uint32_t lower_data_index(const struct lowering *lowering); /* the rank's place in that group; 0 when folded */
const struct lower_layer *lower_layers(const struct lowering *lowering, uint32_t *count);
/* The rank's queue of a class (created at first use) and its space of a kind: its device, or the host (pinned part, storage) of its server. */
uint32_t lower_queue(struct lowering *lowering, enum queue_class queue_class);
uint32_t lower_space(struct lowering *lowering, enum space_kind kind);
/* Page-locked blocks of this rank's server are of the bytes asked for; else an allocator model rounds them to powers of two (sim/engine/reserved.h). For a policy whose option says so, or that
 * charges the rounding of flat blocks itself. */
void lower_exact_blocks(struct lowering *lowering);
/* A new buffer of this rank; `copies` in host spaces is set so that folded devices of the same server count. `flags`: BUFFER_LIVE_*. */
uint32_t lower_buffer(struct lowering *lowering, enum space_kind kind, double bytes, enum buffer_class buffer_class,
                      uint8_t flags, const char *label);

/* The latest op on the compute queue, or SCHED_NONE. */
uint32_t lower_last_compute(const struct lowering *lowering);
/* The next compute op waits for `op` / acquires `buffer`. */
void lower_next_depends(struct lowering *lowering, uint32_t op);
void lower_next_acquires(struct lowering *lowering, uint32_t buffer);

/* What follows emits one op and returns it; it starts after `after_op` has ended (SCHED_NONE: when its queue is free). builder_depends, builder_acquire, builder_release of
 * lower_builder add to it before the next one is emitted. The host thread issues it where it is emitted and does not wait for it. */

/* Copies between the rank's device and its host (pinned unless `pageable`) on the queue of their direction. `acquire`: buffer taken when the copy starts, `release`: freed when it ends
 * (SCHED_NONE: none). A staging buffer is one of lower_buffer without flags: acquired by the copy that fills it, released by the op that empties it. */
uint32_t lower_copy_to_host(struct lowering *lowering, double bytes, bool pageable, uint32_t after_op, uint32_t acquire,
                            uint32_t release);
uint32_t lower_copy_to_device(struct lowering *lowering, double bytes, bool pageable, uint32_t after_op,
                              uint32_t acquire, uint32_t release);
/* Device-to-device swap: memory of another stage's device (the one with this rank's place in its stage), and one-sided copies between it and the rank's own, each peer and direction on a queue of its
 * own. A join waits for several of them (builder_depends) and takes no time: what comes in needs its device buffer before its first stripe, and what goes out keeps it until after its last. */
uint32_t lower_peer_buffer(struct lowering *lowering, uint32_t stage, double bytes, enum buffer_class buffer_class,
                           uint8_t flags, const char *label);
uint32_t lower_copy_to_peer(struct lowering *lowering, uint32_t stage, double bytes, uint32_t after_op, uint32_t own,
                            uint32_t peer);
uint32_t lower_copy_from_peer(struct lowering *lowering, uint32_t stage, double bytes, uint32_t after_op, uint32_t own,
                              uint32_t peer);
uint32_t lower_peer_join(struct lowering *lowering, bool out, uint32_t after_op);
/* Adam over `parameters` of this device on its share of the cores of its socket: all devices there share them equally. */
uint32_t lower_host_optimizer(struct lowering *lowering, double parameters, uint32_t after_op);
/* Fused Adam on the device over all owned parameters. */
uint32_t lower_device_optimizer(struct lowering *lowering, uint32_t after_op);
/* One elementwise kernel (a cast, a clearing) on the compute queue. */
uint32_t lower_device_stream(struct lowering *lowering, double bytes_read, double bytes_written, enum op_phase phase,
                             uint32_t after_op);
/* A collective of the data-parallel group on its own queue; nothing on the compute queue waits for it. `bytes` as in sched_work. There must be more than one rank (lower_data_size). */
uint32_t lower_data_collective(struct lowering *lowering, enum opcode opcode, double bytes, uint32_t after_op);
/* Device bytes of the short-lived tensors of a layer's forward or backward (with its recomputation), at most, beside what it saves. */
double lower_pass_bytes(const struct lowering *lowering, const struct lower_layer *layer, enum lower_pass_kind kind);

/* The activation of (layer, micro-batch) is held in a buffer that its backward releases. `take` hands that duty to the policy between forward and backward (returns the buffer); `give` names the
 * buffer that the backward will release (possibly a new one). To the host and back, without prefetch:
 *
 *     after_pass, LOWER_FORWARD:    own = lower_activation_take(l, layer, m), host = lower_buffer(l, SPACE_PINNED, bytes, BUFFER_ACTIVATION, 0, "saved, on the host");
 *                                   down = lower_copy_to_host(l, bytes, false, lower_last_compute(l), host, own);
 *     before_pass, LOWER_BACKWARD:  back = lower_buffer(l, SPACE_DEVICE, bytes, BUFFER_ACTIVATION, 0, "saved, back on the device");
 *                                   up = lower_copy_to_device(l, bytes, false, down, back, host);
 *                                   lower_activation_give(l, layer, m, back), lower_next_depends(l, up);
 *
 * where host and down are kept for each (layer->index, m) from the one to the other, and layers of which lower_activation_bytes is 0 are left alone. */
uint32_t lower_activation_take(struct lowering *lowering, const struct lower_layer *layer, uint32_t micro_batch);
void lower_activation_give(struct lowering *lowering, const struct lower_layer *layer, uint32_t micro_batch,
                           uint32_t buffer);
uint64_t lower_activation_bytes(const struct lowering *lowering, const struct lower_layer *layer);

/* ---- for policies that move weights and gradients of ZeRO ranks (lower_offload.c) ---- */

/* The latest op on the data-parallel queue (gather, reduction), or SCHED_NONE. */
uint32_t lower_last_data_op(const struct lowering *lowering);
/* An OP_MARK on the data-parallel queue (there must be one: data > 1): what is emitted there later, the next gather above all, waits for `after_op`. */
uint32_t lower_data_mark(struct lowering *lowering, uint32_t after_op);
/* Fused Adam on the device over `parameters` of the owned ones, whose states and gradients lie there. */
uint32_t lower_device_optimizer_of(struct lowering *lowering, double parameters, uint32_t after_op);

#endif
