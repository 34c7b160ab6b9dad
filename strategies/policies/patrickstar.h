/* The policy `patrickstar`, shared by its files only: parameters, the state of a rank, and who emits what.
 *
 *   patrickstar.c         parameters, refusals, the hooks
 *   patrickstar_prepare.c layout, passes and budgets of a rank; runs the walk (patrickstar_walk.h)
 *   patrickstar_emit.c    the walk's actions as copies, collectives and updates
 *   patrickstar_drive.c   optimizer states that a drive holds
 *   patrickstar_facts.c   what `explain` says of layout, budgets and margin
 *   patrickstar_beside.c  what is not in chunks: module gradients, embedding on the CPU, activations on the host */
#ifndef MEMWALL_STRATEGIES_PATRICKSTAR_H
#define MEMWALL_STRATEGIES_PATRICKSTAR_H

#include "sim/plan/policy.h"
#include "strategies/policies/chunk_search.h"
#include "strategies/policies/patrickstar_walk.h"

/* Indices into the policy's parameter table. */
enum patrickstar_parameter {
    PS_PRESET,
    PS_CHUNK_ELEMENTS,
    PS_CHUNK_SEARCH,
    PS_CHUNK_RULE,
    PS_GRADIENTS,
    PS_EVICTION,
    PS_LOOKAHEAD,
    PS_SEED,
    PS_GPU_RATIO,
    PS_CPU_RATIO,
    PS_WARMUP_RATIO,
    PS_WARMUP,
    PS_STATIC_PARTITION,
    PS_DEVICE_ADAM,
    PS_EMBEDDING_ON_CPU,
    PS_MEMORY_SAVING,
    PS_MEMORY_CACHE,
    PS_PINNED_ROUNDING,
    PS_ACTIVATION_OFFLOAD,
    PS_ASYNCHRONOUS,
    PS_PREFETCH,
    PS_NVME,
    PS_PARAMETER_COUNT
};

/* Words of PS_CHUNK_SEARCH. */
enum patrickstar_search { SEARCH_ROUNDED, SEARCH_PATRICKSTAR, SEARCH_GEMINI };

/* Words of PS_CHUNK_RULE. */
enum patrickstar_rule { RULE_PREFER, RULE_REQUIRE };

/* Words of PS_WARMUP. */
enum patrickstar_warmup { WARMUP_COMPLETE, WARMUP_WITHOUT_ADAM };

/* Words of PS_GRADIENTS. */
enum patrickstar_gradients { GRADIENTS_AUTO, GRADIENTS_REUSE, GRADIENTS_CHUNKS };

/* A chunk's payload as the schedule knows it. */
struct ps_slot {
    uint32_t buffer;      /* where it is now; SCHED_NONE: nowhere */
    uint32_t filled_by;   /* the copy that filled it in this step, or SCHED_NONE */
    uint32_t gathered_by; /* the collective that filled it, or SCHED_NONE */
    uint32_t last_use;    /* the op that used it last in this step, or SCHED_NONE */
    uint32_t last_action; /* its last change of place in the step, or SCHED_NONE */
};

/* Optimizer states of one chunk that a drive holds: on their way to Adam and back. */
struct ps_stored {
    uint32_t staging, read, write; /* pinned buffer, ops; SCHED_NONE until emitted */
};

/* Of the rank that is open. */
struct ps_state {
    struct chunk_units units;
    struct chunk_layout layout;
    struct walk_input walk;
    struct walk_result plan;
    struct ps_slot *slots;
    uint32_t next_action;
    uint32_t pass;                          /* moment of the pass that is being emitted */
    uint32_t chain;                         /* synchronous copies follow one another: the latest, or SCHED_NONE */
    uint32_t last_up, last_down, last_data; /* the latest op of each kind, or SCHED_NONE */
    uint32_t prefetched_down;               /* the latest that made room for a prefetched chunk */
    uint32_t pass_end[2];                   /* last compute op of the latest passes, newest first */
    uint32_t adam_end[2];                   /* the same of host updates */
    uint32_t gradient;                      /* the running module's, outside chunks */
    uint32_t embedding, embedding_gradient; /* embedding on the CPU: host buffers */
    uint32_t head_table;      /* embedding on the CPU: the tied word table's copy for the head, or SCHED_NONE */
    struct ps_stored *stored; /* [walk.stored], in the order of their updates */
    uint32_t stored_count;    /* updated so far */
    uint32_t read_queue, write_queue;
    uint32_t *offloaded, *offload_op; /* [layers]: the host copy of a saved activation */
    uint32_t layer_count;
};

static inline struct ps_state *ps_state(struct lowering *lowering)
{
    return *(struct ps_state **)lower_policy_state(lowering);
}

/* Do gradients have chunks of their own? With several micro-batches they must. */
static inline bool ps_gradient_chunks(const struct lowering *lowering)
{
    enum patrickstar_gradients how = (enum patrickstar_gradients)lower_policy_parameter(lowering, PS_GRADIENTS);
    return how == GRADIENTS_CHUNKS || (how == GRADIENTS_AUTO && lower_input(lowering)->plan->micro_batches > 1);
}

static inline bool ps_on(const struct lowering *lowering, enum patrickstar_parameter parameter)
{
    return lower_policy_parameter(lowering, parameter) > 0.5;
}

/* patrickstar_prepare.c. Fills the state; false after lower_fail. */
bool ps_prepare(struct lowering *lowering);

/* patrickstar_emit.c */
void ps_start_buffers(struct lowering *lowering);
/* Emits the actions of the running pass that stand before (or after) it. */
void ps_emit_actions(struct lowering *lowering, bool after);
/* The pass's compute waits for what fills its chunks. */
void ps_wait_for_chunks(struct lowering *lowering, const struct lower_pass *pass);
/* The pass that ended used its chunks last. */
void ps_remember_use(struct lowering *lowering, const struct lower_pass *pass);
/* Adam's actions, and what restores the layout. Returns the last op. */
uint32_t ps_emit_adam(struct lowering *lowering, uint32_t after_op);

/* Adam on the host over an fp16 chunk, once `states` (an op or SCHED_NONE) has ended: the gradient comes down if its chunk is on the device, new parameters go up. Returns the last op. */
uint32_t ps_host_update(struct lowering *lowering, const struct walk_action *action, uint32_t states, uint32_t after);

/* patrickstar_facts.c */
void ps_tell(struct lowering *lowering);

/* patrickstar_drive.c */
void ps_start_drive(struct lowering *lowering);
/* The first states are read while the backward runs. */
void ps_read_ahead(struct lowering *lowering);
uint32_t ps_stored_update(struct lowering *lowering, const struct walk_action *action, uint32_t after);
/* Host bytes of the states that are on their way at a time. */
double ps_staging_bytes(const struct walk_input *walk);

/* patrickstar_beside.c */
void ps_start_beside(struct lowering *lowering);
void ps_before_beside(struct lowering *lowering, const struct lower_pass *pass);
void ps_after_beside(struct lowering *lowering, const struct lower_pass *pass);
/* Bytes of host memory per rank that are not chunks. */
double ps_host_beside_bytes(const struct lowering *lowering, const struct ps_state *state);
/* Bytes of the largest module's gradient in a layer. */
double ps_module_gradient_bytes(const struct ps_state *state, uint32_t layer);
/* Embedding on the CPU: bytes of the copy of a tied word table that the head's passes need; 0: none. */
double ps_head_table_bytes(const struct lowering *lowering, const struct ps_state *state);
/* Adam over the embedding on the CPU; `after_op` without one. */
uint32_t ps_update_embedding(struct lowering *lowering, uint32_t after_op);

#endif
