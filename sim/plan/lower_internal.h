/* The lowering's own state, shared by the lower_*.c files only. */
#ifndef MEMWALL_PLAN_LOWER_INTERNAL_H
#define MEMWALL_PLAN_LOWER_INTERNAL_H

#include "sim/plan/lower.h"
#include "sim/plan/lower_template.h"
#include "sim/plan/plan_layers.h"
#include "sim/plan/policy.h"

/* A gradient bucket being filled. */
struct bucket {
    double bytes;
    uint32_t layer_count; /* entries of layers, buffers */
    uint32_t after_op;
    bool last_micro_batch;
    uint32_t *layers,
        *buffers; /* layers in the bucket and their full gradients (ZeRO-2, 3) or SCHED_NONE [layers of the rank] */
};

/* What a rank has for the layers of one layout. Groups are SCHED_NONE when of size 1; _present: ranks of the schedule in the group. */
struct rank_layout {
    bool used; /* the rank has such layers; else nothing below is made */
    uint32_t tensor, data, tensor_present, data_present;
    struct pass_template (*templates)[TEMPLATE_COUNT]; /* [LAYER_KIND_COUNT] */
    struct rank_layout
        *alike; /* the first used one of this split, maybe itself: what follows is its, for all of them */
    struct bucket bucket;
    uint32_t root_gather; /* keeps_gathered: weights of embedding and head, gathered once; SCHED_NONE */
};

/* Other groups that a rank takes part in. */
struct rank_groups {
    uint32_t model, embedding, model_present, embedding_present;
    uint32_t *moves; /* [layouts * layouts]: who gathers (or exchanges) between two layouts; SCHED_NONE: nobody */
};

/* A queue towards one peer: pipeline transfers never wait behind those of another peer or direction. */
struct lane {
    uint32_t peer_stage, peer_replica, queue;
    uint8_t kind; /* enum lane_kind */
};
enum lane_kind {
    LANE_SEND_FORWARD,
    LANE_RECV_FORWARD,
    LANE_SEND_BACKWARD,
    LANE_RECV_BACKWARD,
    LANE_SWAP_OUT, /* device-to-device swap; towards the stage itself: what joins its stripes */
    LANE_SWAP_IN
};
enum { LANES_MAX = 192, PIECES_MAX = LANES_MAX, PASS_ENDS = 16, NEXT_DEPENDENCIES_MAX = 64, NEXT_ACQUIRES_MAX = 16 };

/* What lives from the forward of (layer, micro-batch) to its backward. */
struct activation {
    uint32_t buffer;
    uint32_t recomputed; /* split backward: recomputed tensors live until W */
    uint32_t cast;       /* weights cast for these kernels (autocast), or SCHED_NONE */
    uint32_t kept;       /* split backward: output gradients that W needs */
};

struct rank_state {
    uint32_t stage, d, c, t;
    uint32_t device; /* representative */
    uint32_t host_copies;
    struct lower_layer *layers;
    uint32_t layer_count;
    uint32_t *chunk_first_layer, *chunk_layer_count; /* [virtual_stages] */
    uint32_t queues[QUEUE_CLASS_COUNT];
    uint32_t tensor_queue, data_queue;
    uint32_t tied_queue; /* asynchronous orders: sums of tied gradients that nobody waits for; else SCHED_NONE */
    uint32_t spaces[SPACE_KIND_COUNT];
    struct lane lanes[LANES_MAX];
    uint32_t lane_count;
    struct rank_groups groups;
    struct rank_layout *layouts; /* [layout_count] */
    struct rank_layout *first;   /* of its first layer: the only one where all layers are split alike */
    bool replicated, gathers;    /* some layer has replicas; ... of ZeRO 2 or 3 */
    struct work_item *(*merged_items)[TEMPLATE_COUNT]; /* per chunk: whole-chunk passes, made at first use */
    uint32_t (*merged_works)[TEMPLATE_COUNT];
    uint32_t replicas_dealt;        /* of the stage, among which micro-batches are dealt; 1: it runs all of them */
    uint32_t slots;                 /* micro-batches that it runs, of all steps: lowering_slot counts them */
    struct activation *activations; /* [layer_count * slots] */
    uint32_t *boundary_in;          /* received activations [virtual_stages * slots] */
    uint32_t *weight_passes_done;   /* per chunk: backward (or W) passes since its weights were updated */
    uint32_t *weight_passes;        /* per chunk: how many an update has */
    uint32_t updates;               /* so far: asynchronous orders */
    uint32_t last_compute;
    uint32_t last_send;    /* of the present step, to another stage; SCHED_NONE: it sent nothing */
    uint32_t exchanged;    /* the send that the next receive is batched with, or SCHED_NONE */
    uint32_t lone_send;    /* the send that has to be over before the next receive is posted, or SCHED_NONE */
    uint32_t small_tables; /* table_units: gathered for the pass beside the word table, or SCHED_NONE */
    uint32_t ahead_layer, ahead_weights,
        ahead_op;       /* flat_units: the unit gathered ahead of its backward, or SCHED_NONE */
    uint32_t last_data; /* latest op on the data queue */
    uint32_t pass_ends
        [PASS_ENDS]; /* last compute op of the latest layer passes, newest first: how far ZeRO-3 may gather ahead */
    uint32_t next_dependencies[NEXT_DEPENDENCIES_MAX], next_dependency_count;
    uint32_t next_acquires[NEXT_ACQUIRES_MAX], next_acquire_count;
    uint32_t *kept_gather; /* keeps_gathered: per layer, weights that stay gathered, or SCHED_NONE */
    uint32_t gather_stage; /* staged_collectives: the latest gather's flat buffer, freed by the next copy out */
    uint32_t reduce_stage,
        reduce_op;           /* staged_collectives: the latest reduction and its flat buffer, freed before the next */
    uint32_t tied_layer;     /* whose gradient waits for that of the tied copy on another stage, or SCHED_NONE */
    uint32_t *full_gradient; /* per layer: transient full gradient being filled, or SCHED_NONE */
    bool host_must_wait;     /* transfers are under way that the host waits for before it issues more compute */
    uint8_t next_flags;      /* for the next op of any queue */
    uint32_t passing;        /* of the received activation, what the chunk's pass hands on unread; SCHED_NONE */
    uint32_t output;         /* what the pass being emitted will send: acquired by its last layer */
};

struct lowering {
    const struct lower_request *request;
    struct builder *builder;
    struct arena arena;
    struct error *error;
    enum status status;
    struct order_request order_request;
    uint32_t steps;        /* of training in the schedule: 1, or with the fill of a pipeline that is never flushed */
    uint32_t model_stages; /* virtual stages of one copy of the model */
    uint32_t copies;       /* of the model: order->model_replicas */
    bool tied_apart;       /* embedding and head share weights but no device: each end keeps a copy */
    struct layout *layouts;
    uint32_t layout_count;
    uint32_t *layout_at; /* layout by position: embedding, transformer layers, head [model.layers + 2] */
    bool mixed;          /* some layer is split otherwise than the plan's degrees say */
    uint32_t stages, virtual_stages, tensor, data, context; /* degrees */
    uint32_t micro_batches;                                 /* of all steps: they are numbered through */
    uint32_t replicas;                                      /* data * context: the data-parallel group */
    uint32_t stage_devices;                                 /* replicas * tensor */
    bool
        unequal; /* stages have replicas of their own: nothing is folded; replicas and stage_devices are those of no stage */
    uint32_t *stage_gpus; /* unequal: first GPU of each stage [stages + 1] */
    uint32_t
        transfer_pieces; /* that a message between two stages may have, over all pairs of ranks: instances in the matches below */
    double buffer_bytes; /* of all buffers so far */
    bool scatters;       /* pipeline transfers are cut over the tensor-parallel group and gathered there */
    bool fold;
    struct rank_state *rank;                      /* the open one */
    uint32_t *forward_matches, *backward_matches; /* [transfer_pieces * virtual stages * micro_batches] */
    struct stage_order {
        struct order_step *steps; /* [count] */
        uint32_t *positions;      /* of forward and backward steps; NULL until needed */
        uint32_t count;
    } * stage_orders; /* [stages] lower_exchange.c */
    enum { SENDS_UNKNOWN, SENDS_AWAITED, SENDS_LEFT_ALONE } lone_sends;
    uint32_t *pair_groups; /* of the open rank, by (from stage, to stage); SCHED_NONE until made */
    struct shared_match {
        uint32_t group, sequence, match;
    } * shared_matches; /* unfolded: matches met by several ranks */
    uint32_t shared_match_count, shared_match_capacity;
    uint32_t *host_spaces[SPACE_KIND_COUNT], *device_spaces; /* by server, by device; SCHED_NONE until used */
    uint32_t *group_sequence;                                /* collectives so far of the open rank, by group */
    uint32_t group_sequence_capacity;
    void *policy_state;
};

/* lower.c: the stage of the model that a chunk is, and whether a virtual stage is an end of its copy */
uint32_t lowering_model_stage(const struct lowering *l, uint32_t stage, uint32_t chunk);
bool lowering_is_first(const struct lowering *l, uint32_t virtual_stage);
bool lowering_is_last(const struct lowering *l, uint32_t virtual_stage);

/* lower_layout.c: the different splits, and what moves between them */
enum status lowering_layouts(struct lowering *l);
const struct layout *lowering_layout(const struct lowering *l, const struct lower_layer *layer);
struct rank_layout *lowering_rank_layout(const struct lowering *l, const struct lower_layer *layer);
struct rank_layout *lowering_alike(const struct lowering *l, const struct lower_layer *layer); /* its ->alike */
uint32_t lowering_position(const struct lowering *l, const struct lower_layer *layer);
/* The first position of a virtual stage, and the last. */
uint32_t lowering_first_position(const struct lowering *l, uint32_t virtual_stage);
uint32_t lowering_last_position(const struct lowering *l, uint32_t virtual_stage);
/* Whether what one layer makes for the other is where the other takes it. Positions are neighbours. */
bool lowering_stays(const struct lowering *l, uint32_t from_layout, uint32_t to_layout);
/* On this rank: what a layer at `from` made (activation, or gradient when `from` > `to`) becomes what the layer at `to` takes. */
void lowering_redistribute(struct lowering *l, uint32_t from, uint32_t to, uint32_t chunk, uint32_t micro_batch);
/* What a layer at `from` makes for its neighbour at `to`, held as `layout` holds it; and of what arrives for `to`, what is handed on unread. */
double lowering_crossing_bytes(const struct lowering *l, const struct layout *layout, uint32_t from, uint32_t to);
double lowering_passing_bytes(const struct lowering *l, uint32_t to);
/* Across stages: bytes that a device sends of it, and of the buffer that it arrives in; what the sender does before (rank->output holds it), and the receiver after (returns the buffer that
 * then holds it). */
double lowering_arriving_bytes(const struct lowering *l, uint32_t from, uint32_t to);
double lowering_sent_bytes(const struct lowering *l, uint32_t from, uint32_t to);
void lowering_slice_output(struct lowering *l, uint32_t from, uint32_t to, uint32_t chunk, uint32_t micro_batch);
uint32_t lowering_complete(struct lowering *l, uint32_t buffer, uint32_t from, uint32_t to, uint32_t chunk,
                           uint32_t micro_batch);

/* lower_groups.c: who talks to whom */
uint32_t lowering_stage_gpu(const struct lowering *l, uint32_t stage); /* its first; the others follow */
uint32_t lowering_gpu(const struct lowering *l, uint32_t stage, uint32_t d, uint32_t c, uint32_t t);
uint32_t lowering_replicas(const struct lowering *l, uint32_t stage); /* data-parallel ones */
uint32_t lowering_rank_in_stage(const struct lowering *l,
                                const struct rank_state *rank); /* as plan_layers.h counts them */
enum status lowering_groups(struct lowering *l, struct rank_state *rank);
uint32_t lowering_pair_group(struct lowering *l, uint32_t from_stage, uint32_t to_stage);
uint32_t lowering_collective_match(struct lowering *l, uint32_t group, uint32_t present);

/* Which of the open rank's own micro-batches one is: where micro-batches are dealt, each replica has a place for those that it runs and no others. */
static inline size_t lowering_slot(const struct lowering *l, uint32_t micro_batch)
{
    return micro_batch / l->rank->replicas_dealt;
}

/* lower_template.c */
enum status lowering_templates(struct lowering *l, struct rank_state *rank);

/* lower_rank.c: layers and what lives all step long */
enum status lowering_open_rank(struct lowering *l, uint32_t stage, uint32_t d, uint32_t c, uint32_t t);

/* lower_emit.c */
uint32_t lowering_op(struct lowering *l, enum opcode opcode, uint32_t queue, uint32_t work, enum op_phase phase);
uint32_t lowering_compute(struct lowering *l, uint32_t work, enum op_phase phase);
uint32_t lowering_collective(struct lowering *l, enum opcode opcode, uint32_t queue, uint32_t group, uint32_t present,
                             double bytes, enum dtype dtype, enum op_phase phase);
/* The pass of a layer as ops (or one, where nothing can see inside). */
void lowering_emit_template(struct lowering *l, const struct lower_pass *pass, enum template_kind kind);
const struct pass_template *lowering_template(const struct lowering *l, const struct lower_layer *layer,
                                              enum template_kind kind);

/* lower_pass.c */
/* Returns whether it was the last pass before the chunk's weights are updated. */
bool lowering_chunk_pass(struct lowering *l, uint32_t chunk, enum lower_pass_kind kind, uint32_t micro_batch);

/* A buffer for a layer's whole gradient, which the next op acquires, where ZeRO keeps none of it beyond a reduction. */
void lowering_acquire_full_gradient(struct lowering *l, const struct lower_layer *layer);

/* lower_skip.c. Does the policy go with layers that are skipped? */
enum status lowering_check_layer_drop(const struct lower_request *request, struct error *error);
bool lowering_skips(const struct lowering *l, const struct lower_layer *layer, uint32_t micro_batch);
/* The layer of the chunk whose pass of this kind follows, one that is not skipped. There is one. */
const struct lower_layer *lowering_next_layer(const struct lowering *l, const struct lower_pass *pass);
void lowering_skip_pass(struct lowering *l, const struct lower_pass *pass);
/* Of the model's FLOPs of a step, those of the layers that its micro-batches skip. */
double lowering_skipped_flops(const struct lower_request *request);

/* lower_exchange.c: whether what `step` sends and what `next`, the step after it on the open rank, receives are one batch for this rank and for its peer. Never where transfers overlap compute. */
bool lowering_exchanges(struct lowering *l, const struct order_step *step, const struct order_step *next);
/* Whether sends that are no part of an exchange are waited for as well, before the next receive is posted and the next pass begins. */
bool lowering_awaits_sends(struct lowering *l);

/* lower_step.c: the walk along the pipeline order */
enum status lowering_walk(struct lowering *l);

/* lower_transfer.c: what goes from stage to stage. The queue towards the device of this rank's place in another stage, made at first use. */
uint32_t lowering_lane(struct lowering *l, enum lane_kind kind, uint32_t peer_stage);
/* Receive what `producer` (a virtual stage) made; returns the buffer, or SCHED_NONE when it is made on this very rank. */
uint32_t lowering_receive(struct lowering *l, bool backward, uint32_t producer, uint32_t chunk, uint32_t micro_batch);
/* The buffer for what a pass will send to the stage that holds `consumer` (rank->output; SCHED_NONE when it stays here), acquired by the pass's last layer; and the sending, after the pass. */
void lowering_prepare_output(struct lowering *l, bool backward, uint32_t producer, uint32_t consumer);
void lowering_send_output(struct lowering *l, bool backward, uint32_t producer, uint32_t consumer, uint32_t chunk,
                          uint32_t micro_batch);

/* lower_data.c: data parallelism and ZeRO */
uint32_t lowering_gather(struct lowering *l, const struct lower_layer *layer, bool backward);
void lowering_gather_ahead(struct lowering *l, const struct lower_pass *pass, const struct lower_layer *next);
/* The weights of a layer's pass: gathers them when they are not. `*release`: to be released after the pass, or SCHED_NONE. */
void lowering_weights_for_pass(struct lowering *l, const struct lower_pass *pass, uint32_t *release);
bool lowering_casts_weights(const struct lowering *l, const struct lower_layer *layer);
/* software.flat_units: the layer is a unit whose gradients are made one by one and joined at the end of its backward; and the joining, of the pass just emitted. */
bool lowering_is_flat_unit(const struct lowering *l, const struct lower_layer *layer);
void lowering_join_gradients(struct lowering *l, const struct lower_pass *pass);
/* Bytes of a layer's whole gradient until it is reduced (ZeRO-2, 3). */
double lowering_full_gradient_bytes(const struct lowering *l, const struct lower_layer *layer);
bool lowering_reduces_early(const struct lowering *l);
void lowering_finish_data(struct lowering *l); /* end of the step: what is still gathered or waits to be reduced */
void lowering_gradient_done(struct lowering *l, const struct lower_pass *pass, uint32_t after_op);
void lowering_flush_bucket(struct lowering *l, struct bucket *bucket);

/* lower_optimizer.c: both ends of the step */
uint32_t lowering_memory_kernel(struct lowering *l, enum kernel_class kernel_class, double read, double written,
                                uint32_t launches, enum op_phase phase);
void lowering_begin_step(struct lowering *l);
void lowering_end_step(struct lowering *l);
/* Asynchronous orders: the update amid the stream, and the clearing for the next one. */
void lowering_update(struct lowering *l);

#endif
