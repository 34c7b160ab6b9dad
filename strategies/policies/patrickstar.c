/* The policy `patrickstar`: parameters, gradients and optimizer states in chunks that move between a device and its host as a warm-up iteration has taught (Fang et al., "PatrickStar: Parallel Training of Pre-trained
 * Models via Chunk-based Dynamic Memory Management", TPDS 2023; repository Tencent/PatrickStar v0.4.6).
 *
 * Gradient accumulation. The authors have none: a gradient overwrites its fp16 parameter, so a second micro-batch would find no parameters (their issue 293). `gradients` = chunks is our rule for
 * it, in the manner of their later refactoring (304): own chunks' gradients are a fifth list, written by a step's first backward and added to by the later ones, in place of the fp16 chunk in
 * reductions, freed after Adam. 16 bytes a parameter instead of 14. Chunks are gathered and gradients reduced once a micro-batch: every volume but Adam's goes with their number.
 *
 * The step that is emitted is a steady one: the warm-up iteration and as many more as it takes until the placement of chunks repeats are walked without time (patrickstar_walk.h). Chunks are sharded over all data-parallel ranks. */
#include <stdio.h>

#include "strategies/policies/patrickstar.h"
#include "strategies/policies/policies.h"

#define X(name, word) word,
static const char *const EVICTIONS[] = { CHUNK_EVICTION_TABLE(X) NULL };
#undef X
static const char *const PRESETS[] = { "paper", "code", NULL };
static const char *const RULES[] = { "prefer", "require", NULL };
static const char *const WARMUPS[] = { "complete", "without_adam", NULL };
static const char *const GRADIENTS[] = { "auto", "reuse", "chunks", NULL };
static const char *const SEARCHES[] = { "rounded", "patrickstar", "gemini", NULL };

#define BOOL(at, key, value, text)                                                                                     \
    [at] = { .name = key, .type = PARAMETER_BOOL, .unit = "", .fallback = value, .help = text }
#define WORD(at, key, value, list, text)                                                                               \
    [at] = { .name = key, .type = PARAMETER_WORD, .unit = "", .fallback = value, .words = list, .help = text }
#define REAL(at, key, low, high, value, text)                                                                          \
    [at] = { .name = key,                                                                                              \
             .type = PARAMETER_REAL,                                                                                   \
             .unit = "",                                                                                               \
             .minimum = low,                                                                                           \
             .maximum = high,                                                                                          \
             .fallback = value,                                                                                        \
             .help = text }
#define INT(at, key, high, value, of, text)                                                                            \
    [at] = { .name = key, .type = PARAMETER_INT, .unit = of, .maximum = high, .fallback = value, .help = text }

static const struct parameter PARAMETERS[PS_PARAMETER_COUNT] = {
    WORD(PS_PRESET, "preset", CHUNK_CODE, PRESETS,
         "where paper and code differ: code uploads fp32 parameters after Adam on the host (paper: fp16), reserves "
         "p x p chunks in the backward without memory saving (paper: p), gathers chunks of a recomputed layer once "
         "more"),
    INT(PS_CHUNK_ELEMENTS, "chunk_elements", 0x1p40, 0, "elements",
        "size of a chunk; 64 Mi = 67108864; 0: chunk_search finds it"),
    WORD(PS_CHUNK_SEARCH, "chunk_search", SEARCH_ROUNDED, SEARCHES,
         "rounded: 1024 to 64 Mi, smallest footprint in page-locked blocks as pinned_rounding has them; patrickstar: "
         "312 to 64 Mi in steps of 32, "
         "smallest footprint that its rule accepts; gemini: least waste upwards of the largest tensor and 32 Mi"),
    WORD(PS_CHUNK_RULE, "chunk_rule", RULE_PREFER, RULES,
         "chunk_search's rule for all chunks (14 bytes an element of them against the host and the warm-up share of "
         "GPUs) is that of a script which leaves the choice to its user, and 18B on 8 V100 breaks it with any size. "
         "prefer: sizes that pass come first, the step itself decides; require: without one it does not fit"),
    WORD(PS_GRADIENTS, "gradients", GRADIENTS_AUTO, GRADIENTS,
         "reuse: over the fp16 parameters, one micro-batch (the authors'); chunks: in fp16 chunks of their own, which "
         "micro-batches add to (ours: 16 bytes a parameter, not 14); auto: reuse for one micro-batch, chunks for more"),
    WORD(PS_EVICTION, "eviction", EVICT_NEXT_USE, EVICTIONS,
         "which chunk leaves a full place: next-use (the authors'), lru, fifo, lfu, random, lookahead"),
    INT(PS_LOOKAHEAD, "lookahead", 1e6, 8, "passes", "how far eviction \"lookahead\" sees"),
    INT(PS_SEED, "seed", 0x1p40, 1, "", "of eviction \"random\""),
    REAL(PS_GPU_RATIO, "gpu_ratio", 0.05, 1, 0.9, "share of a GPU's memory for chunks and non-model data together"),
    REAL(PS_CPU_RATIO, "cpu_ratio", 0.05, 1, 0.9, "share of a server's memory, divided among its ranks"),
    REAL(PS_WARMUP_RATIO, "warmup_ratio", 0.01, 1, CHUNK_WARMUP_RATIO,
         "share of that which chunks may take on a GPU in the warm-up iteration"),
    WORD(PS_WARMUP, "warmup", WARMUP_COMPLETE, WARMUPS,
         "what the warm-up iteration recorded: complete; without_adam: its gradients overflowed, Adam was skipped, and "
         "eviction next-use or lookahead never learns when optimizer states are needed (the authors' issue 247)"),
    BOOL(PS_STATIC_PARTITION, "static_partition", 0, "keep the warm-up share in every iteration (the paper's SP)"),
    BOOL(PS_DEVICE_ADAM, "device_adam", 1,
         "update as many chunks on the GPU as the margin allows; false: all on the host (the paper's OSC)"),
    BOOL(PS_EMBEDDING_ON_CPU, "embedding_on_cpu", 1,
         "keep embedding tables in host memory, in fp32 and on every rank; their gradients' sum over ranks (gloo) is "
         "not priced"),
    BOOL(PS_MEMORY_SAVING, "memory_saving_communication", 1,
         "fetch chunks one by one by broadcast; false: all-gather groups of one chunk per rank"),
    BOOL(PS_MEMORY_CACHE, "memory_cache", 1,
         "reuse freed payloads; false: each new one on the GPU (of another rank's chunk, of a gradient) is cleared "
         "first. What the driver takes to allocate it is not priced; on the host PyTorch keeps page-locked blocks, so "
         "that a settled step locks none"),
    BOOL(PS_PINNED_ROUNDING, "pinned_rounding", 1,
         "chunks on the host take the next power of two of bytes of its share, as torch page-locks them from 1.11 on; "
         "the authors' runs of 2021 did not"),
    BOOL(PS_ACTIVATION_OFFLOAD, "activation_offload", 0,
         "saved activations of blocks wait for their backward on the host"),
    BOOL(PS_ASYNCHRONOUS, "asynchronous_copies", 0,
         "chunks move beside the pass before (preset paper: in Adam too); false: the host waits for every move"),
    INT(PS_PREFETCH, "prefetch", 1000, 0, "passes",
        "bring own chunks up, and gather those of others, that many passes ahead where what leaves is needed later; 0: "
        "never, as the authors; built without folding, gathers are not prefetched: ranks might not agree on their "
        "order"),
    BOOL(PS_NVME, "nvme", 0,
         "optimizer states of as many chunks as GPU and host cannot hold lie on the server's drives (the authors' "
         "branch)"),
};

static enum status refuse(struct error *error, const char *path, const char *what, const char *instead)
{
    return error_at(error, STATUS_UNSUPPORTED, NULL, path, "memory policy \"patrickstar\" %s: %s", what, instead);
}

static enum status check(const struct lower_request *request, struct error *error)
{
    const struct plan *plan = request->plan;
    char instead[192];
    int64_t gpus = plan->tensor * plan->context * plan->pipeline * plan->data;
    int64_t whole = plan->micro_batch * plan->micro_batches, one = plan->micro_batch * plan->data;
    if (plan->tensor > 1 || plan->context > 1 || plan->pipeline > 1 || plan->virtual_stages > 1) {
        snprintf(instead, sizeof instead, "set %s to 1 and parallel.data to %lld",
                 plan->tensor > 1     ? "parallel.tensor"
                 : plan->context > 1  ? "parallel.context"
                 : plan->pipeline > 1 ? "parallel.pipeline"
                                      : "parallel.virtual_stages",
                 (long long)gpus);
        return refuse(error, "$.parallel",
                      "shards the whole model's chunks over data-parallel ranks and has no other parallelism", instead);
    }
    if (plan->zero_stage == 1 || plan->zero_stage == 2) {
        return refuse(error, "$.parallel.zero_stage", "shards parameters, gradients and optimizer states together",
                      "set parallel.zero_stage to 0 or 3 (the same here)");
    }
    if (plan->micro_batches > 1 && plan->policy_parameters.value[PS_GRADIENTS] == (double)GRADIENTS_REUSE) {
        snprintf(instead, sizeof instead,
                 "set memory_policy.gradients to chunks, training.micro_batch to %lld, or training.global_batch to "
                 "%lld",
                 (long long)whole, (long long)one);
        return refuse(
            error, "$.training",
            "writes gradients over the fp16 parameters, so the parameters of a second micro-batch would be gone",
            instead);
    }
    if (plan->layer_drop > 0) {
        return refuse(error, "$.training.layer_drop",
                      "gives chunks their budgets and their next uses by the moments that one warm-up iteration has "
                      "recorded, whichever the eviction, and with layer_drop other layers run every time",
                      "take memory_policy zero3-offload with parallel.zero_stage 3, or set training.layer_drop to 0");
    }
    if (request->order->splits_backward) {
        return refuse(error, "$.parallel.pipeline_order", "overwrites a layer's parameters with its whole gradient",
                      "set parallel.pipeline_order to 1f1b or gpipe");
    }
    if (dtype_bytes(plan->precision) != 2) {
        return refuse(error, "$.training.precision", "keeps 16-bit parameters in its chunks",
                      "set training.precision to fp16 or bf16");
    }
    if (plan->policy_parameters.value[PS_NVME] > 0.5 && request->cluster->drives == 0) {
        return refuse(error, "$.memory_policy.nvme", "finds no drive in this machine",
                      "set memory_policy.nvme to false, or give the machine a part of kind nvme");
    }
    return STATUS_OK;
}

static void begin_rank(struct lowering *lowering)
{
    if (!ps_prepare(lowering)) {
        return;
    }
    struct ps_state *state = ps_state(lowering);
    state->chain = state->last_up = state->last_down = state->last_data = state->prefetched_down = SCHED_NONE;
    for (uint32_t i = 0; i < 2; i++) {
        state->pass_end[i] = state->adam_end[i] = SCHED_NONE;
    }
    ps_tell(lowering);
    ps_start_buffers(lowering);
    ps_start_drive(lowering);
    ps_start_beside(lowering);
}

static void before_pass(struct lowering *lowering, const struct lower_pass *pass)
{
    struct ps_state *state = ps_state(lowering);
    if (state->pass == state->walk.pass_count - state->layer_count) { /* the last micro-batch turns */
        ps_read_ahead(lowering);
    }
    ps_emit_actions(lowering, false);
    ps_wait_for_chunks(lowering, pass);
    ps_before_beside(lowering, pass);
}

static void after_pass(struct lowering *lowering, const struct lower_pass *pass)
{
    struct ps_state *state = ps_state(lowering);
    ps_after_beside(lowering, pass);
    ps_remember_use(lowering, pass);
    ps_emit_actions(lowering, true);
    state->pass_end[1] = state->pass_end[0];
    state->pass_end[0] = lower_last_compute(lowering);
    state->pass++;
}

static uint32_t optimizer(struct lowering *lowering, uint32_t after_op)
{
    return ps_update_embedding(lowering, ps_emit_adam(lowering, after_op));
}

const struct memory_policy policy_patrickstar = {
    .abi = MEMORY_POLICY_ABI,
    .name = "patrickstar",
    .summary = "parameters, gradients, optimizer states in chunks that move between GPU and host by their next use",
    .paper = "PatrickStar, Fang et al., TPDS 2023",
    .parameters = PARAMETERS,
    .parameter_count = PS_PARAMETER_COUNT,
    .check = check,
    .begin_rank = begin_rank,
    .before_pass = before_pass,
    .after_pass = after_pass,
    .optimizer = optimizer,
    .owns_model_data = true,
};
