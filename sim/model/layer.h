/* The model graph: what one layer does, as a list of operations for one device, an exact function of batch,
 * sequence, tensor-parallel degree and dtype.
 *
 * A layer's forward list runs in order; its backward list runs in order after it. Collectives of the tensor-
 * parallel group stand in the lists where they happen. The saved
 * tensors say byte for byte what must live from the forward of a layer to its backward (Korthikanti et al. 2022,
 * section 4.1: s b h (34 + 5 a s / h) and its TP, SP
 * and selective variants, masks of dropout counted 1 byte an element, softmax output and dropout output both
 * counted; as there, norm statistics and other tensors of one number a row are left out).
 *
 * FLOPs count matrix products only (GEMM and attention kernels), as every published TFLOP/s figure does: other
 * kernels list bytes. A causal fused attention lists the half that it
 * computes; the unfused one computes the whole square.
 *
 *     struct layer_graph graph;
 *     TRY(layer_graph_build(&graph, &model, LAYER_TRANSFORMER, &shape, &arena, error));
 *     for (i = 0; i < graph.op_count; i++) ... graph.ops[i]
 *
 * Kernel lists follow Megatron-LM of 2022 with its fused kernels (fused_kernels), or PyTorch eager mode with the
 * transformers library's model code (otherwise). */
#ifndef MEMWALL_MODEL_LAYER_H
#define MEMWALL_MODEL_LAYER_H

#include <stdbool.h>
#include <stdint.h>

#include "sim/base/arena.h"
#include "sim/ir/kernel.h"
#include "sim/model/model.h"

/* What a pipeline stage is made of, in model order. */
enum layer_kind {
    LAYER_EMBEDDING,   /* look-up (vocabulary-parallel under TP), position add, dropout; vit: patch projection */
    LAYER_TRANSFORMER, /* one block */
    LAYER_HEAD,        /* final norm, logits GEMM, cross entropy (vocabulary-parallel); classifier */
    LAYER_KIND_COUNT
};

enum layer_pass {
    PASS_FORWARD,
    PASS_BACKWARD_INPUT,  /* gradients of activations (B) */
    PASS_BACKWARD_WEIGHT, /* gradients of weights (W): may be postponed by zero-bubble orders */
    PASS_COUNT
};

/* The tensor-parallel collectives of a layer. Under sequence parallelism the pair is all-gather / reduce-scatter,
 * else all-reduce. */
enum layer_collective { LAYER_NO_COLLECTIVE, LAYER_ALL_REDUCE, LAYER_ALL_GATHER, LAYER_REDUCE_SCATTER };

struct layer_shape {
    int64_t micro_batch, sequence; /* t5: of the encoder */
    uint32_t variant;              /* of a transformer layer, where they have several shapes (sim/model/variant.h) */
    int64_t tensor;         /* TP degree t: divides heads and ffn; divides kv_heads or is a multiple (replicated) */
    bool sequence_parallel; /* without effect when tensor == 1 */
    int64_t context;        /* CP degree: only 1 is modelled so far; others are refused */
    enum dtype dtype;       /* of weights and activations */
    int64_t padded_vocab;   /* >= vocab, divisible by t; not read for models without a vocabulary */
    bool flash_attention;   /* fused attention: no s x s tensors */
    /* bias+GELU, bias+dropout+add, scale+mask+softmax, rotary, SwiGLU as one kernel each; else one launch per
     * primitive as an eager framework makes. */
    bool fused_kernels;
    bool fp32_softmax; /* eager unfused attention under autocast: fp32 from the mask to the next product */
    /* List W ops apart, for zero-bubble orders. Records always carry their pass: this only orders them last. */
    bool separate_backward_weight;
    /* What selective recomputation means. false: Korthikanti's (repeat the attention core; with flash_attention
     * nothing is left to repeat). true: torchtitan's per-op policy (keep the outputs of every second projection
     * GEMM and of fused attention, repeat the rest; projections are separate GEMMs). */
    bool selective_ops;
    /* Habits of a stack's modules (hw_models/software.h kernels.*, memory.module_buffer). */
    bool qkv_copied, context_copied, gate_apart, norm_fp32, module_buffer, module_buffer_alone;
    enum loss_kind loss; /* how the head computes the cross entropy */
    /* Of an element of the gradients that micro-batches are summed into: 4 for Megatron's main_grad; 0: the dtype's. */
    int64_t gradient_bytes;
};

struct layer_op {
    const char *name; /* "qkv_gemm": static or in the arena */
    enum layer_pass pass;
    enum layer_collective collective; /* LAYER_NO_COLLECTIVE: `kernel` counts; else only `collective_bytes` */
    struct kernel kernel;
    /* The whole tensor: what all-reduce reduces, all-gather gathers to, reduce-scatter starts from. */
    double collective_bytes;
    /* This collective runs beside the one op listed next (a dgrad or wgrad GEMM); what follows waits for both. */
    bool overlappable;
    bool attention_core; /* forward ops: repeated by selective recomputation (the attention core; see selective_ops) */
    double transient_bytes; /* short-lived tensors alive while this op runs, its outputs included, saved ones not */
};

struct saved_tensor {
    const char *name;
    double bytes;        /* on this device */
    bool attention_core; /* not kept under selective recomputation */
    bool is_input;       /* the layer's input: the one tensor full recomputation keeps */
    bool selective_only; /* kept only under selective recomputation (selective_ops: outputs of kept GEMMs) */
};

/* The short-lived tensors that make a pass's peak, largest first, the small rest summed into the last one: what an allocator is asked for. */
enum { LAYER_PEAK_PARTS = 6 };
struct layer_peak {
    double bytes[LAYER_PEAK_PARTS];
    uint32_t count;
};

struct layer_graph {
    enum layer_kind kind;
    struct layer_op *ops; /* forward list, then backward list, each in execution order */
    uint32_t op_count, forward_count;
    struct saved_tensor *saved;
    uint32_t saved_count;
    double saved_bytes_none, saved_bytes_selective, saved_bytes_full; /* sums for the three recomputation modes */
    /* Its input where that crosses stages (layer_crossing_bytes; of the embedding: its output): s*b*h on this device,
     * divided by t under SP. */
    double boundary_bytes;
    /* Largest transient_bytes of each pass; backward includes the incoming output gradient. */
    double forward_transient_bytes, backward_transient_bytes;
    struct layer_peak forward_peak, backward_peak; /* their parts, at the op where they are largest */
    /* Peak of a backward pass beside what is saved, where autograd drops each saved tensor behind its last use and weight gradients (of the dtype) come one by one and stay until the pass ends:
     * the most of short-lived tensors + gradients so far - saved ones gone, never below 0. Whole products' gradients count, and tensors of a token that are known to go; what is not known stays. */
    double backward_flow_bytes;
    /* ... of a forward pass that keeps only what selective recomputation keeps: the tensors it drops are short-lived too. */
    double forward_selective_peak_bytes;
    /* Peak of a forward pass that saves nothing (full recomputation's first): every tensor dies after its last use. The
     * layer's input is not counted. */
    double forward_unsaved_peak_bytes;
    double module_buffer_bytes; /* what it takes of the modules' one buffer, which stays (shape.module_buffer) */
    double weight_kept_bytes;   /* output gradients of weight GEMMs: kept, beside saved inputs, when W is postponed */
    double parameters; /* weights on this device (elements); a tied head's table is counted in the embedding only */
    /* LAYER_HEAD: elements of the tied table here: a stage with the head but not the embedding has its own copy. */
    double tied_parameters;
    /* Of `parameters`, those that every rank of the TP group holds alike (norms, row-parallel biases, positions): their
     * gradients are summed over the group under SP. */
    double replicated_parameters;
    double forward_flops, backward_flops; /* of this device's kernels as listed; backward = B + W, nothing recomputed */
};

/* Everything lives in `arena`. STATUS_BAD_INPUT when the degrees do not divide (the message names which). */
enum status layer_graph_build(struct layer_graph *graph, const struct model *model, enum layer_kind kind,
                              const struct layer_shape *shape, struct arena *arena, struct error *error);

/* Bytes of what goes into layer `layer` (model->layers: the head) on this device, and of what of it that layer hands on
 * unread (model_crossing_into). `shape` as for that layer; its variant is not read. */
double layer_crossing_bytes(const struct model *model, const struct layer_shape *shape, int64_t layer);
double layer_passing_bytes(const struct model *model, const struct layer_shape *shape, int64_t layer);

/* Vocabulary padded as Megatron does: to a multiple of 128 * tensor (multiple = 128), or not at all (multiple = 0,
 * then only to a multiple of tensor). */
int64_t model_padded_vocab(const struct model *model, int64_t tensor, int64_t multiple);

const char *layer_kind_word(enum layer_kind kind);
const char *layer_pass_word(enum layer_pass pass);
const char *layer_collective_word(enum layer_collective collective);

#endif
