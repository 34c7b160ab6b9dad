/* Inside sim/model only: the builder that the three kinds of layers write their lists with.
 *
 * It numbers ops, sums bytes and FLOPs, and keeps a small table of lifetimes: live_open() before the op that
 * produces a tensor, live_close() after the last op that reads it (closed at once: alive only while its producer
 * runs). From it
 * come transient_bytes and the peaks. All sizes are double: exact up to 2^53, far above any tensor. */
#ifndef MEMWALL_MODEL_LAYER_BUILD_H
#define MEMWALL_MODEL_LAYER_BUILD_H

#include "sim/model/layer.h"

enum { LAYER_OPS_MAX = 160, LAYER_SAVED_MAX = 64, LAYER_LIVES_MAX = 160, LAYER_CHANGES_MAX = 64 };

/* A tensor's life, in op numbers, both ends included. */
struct layer_live {
    double bytes;
    uint32_t first, last;
    bool saved;        /* kept for the backward pass: counts only when a forward saves nothing */
    bool dropped;      /* ... but not by selective recomputation */
    bool gradient;     /* of a weight, before it is added to its buffer: see layer_change */
    double kept_bytes; /* of `bytes`, the part that selective recomputation keeps in a saved tensor of its own */
};

/* backward_flow_bytes: what is there from op `from` of the backward on, a gradient (more than 0), or no longer, a saved tensor. */
struct layer_change {
    double bytes;
    uint32_t from;
};

/* What attends to what: `batch` independent spans, each of `queries` rows and `keys` columns a head. Whole sequences; swin: windows; the second attention of t5's decoder: keys of the
 * other stack. */
struct layer_span {
    int64_t batch, queries, keys;
    int64_t key_tokens; /* tokens that keys and values are made of */
    bool causal;
    double bias_bytes; /* of a learned bias [heads, queries, keys] on the scores; 0: none */
};

struct layer_builder {
    struct layer_graph *graph;
    const struct model *model;
    const struct layer_shape *shape;
    enum layer_pass pass;
    bool core;           /* ops added now belong to the attention core */
    bool keep_next;      /* selective_ops: the next forward op's output is kept, so it is not repeated */
    unsigned gemm_count; /* forward projection GEMMs so far, for selective_ops */
    struct layer_live lives[LAYER_LIVES_MAX];
    uint32_t live_count;
    struct layer_change changes[LAYER_CHANGES_MAX];
    uint32_t change_count;
    uint32_t residual; /* the second half's residual input, alive until its addition */
    /* Geometry of this device. */
    double element, gradient;         /* bytes of an activation or weight, of a summed gradient */
    int64_t batch, sequence, tokens;  /* tokens = batch * sequence */
    int64_t rows;                     /* of the sequence-parallel region: tokens / t, else tokens */
    int64_t hidden, query, key, ffn;  /* widths here: query = heads/t * head size, key = kv heads here * head size */
    int64_t heads, vocab;             /* here */
    struct layer_span span;           /* of the attention being written */
    uint32_t output;                  /* forward: the block's output where more of the layer follows (build_tail) */
    bool parallel, sequence_parallel; /* t > 1; t > 1 and SP */
};

/* rows x columns; bytes of the activation rows of the sequence-parallel region; bytes of all rows. */
double layer_area(int64_t rows, int64_t columns);
double layer_rows_bytes(const struct layer_builder *b);
double layer_tokens_bytes(const struct layer_builder *b);
/* The whole input of a column-parallel GEMM, gathered under sequence parallelism: its lifetime, or LIVE_NONE where it lies in the modules' buffer. */
uint32_t gathered_input(struct layer_builder *b);
void use_module_buffer(struct layer_builder *b, double bytes); /* nothing where there is none */

/* An unused lifetime: live_close accepts it. */
#define LIVE_NONE UINT32_MAX

uint32_t live_open(struct layer_builder *b, double bytes);
void live_close(struct layer_builder *b, uint32_t live);

/* A tensor kept for the backward pass; returns its lifetime in the forward pass (close it after its last forward
 * use). `core`: dropped by Korthikanti's selective
 * recomputation; under selective_ops all but `op_kept` ones are dropped. */
uint32_t save_tensor(struct layer_builder *b, const char *name, double bytes, bool core, bool op_kept);
/* selective_ops: the output of the next op (its lifetime is open) is kept in a saved tensor of its own and not repeated. No gradient needs the `last` one of
 * the block: an eager cache keeps it all the same, a compiler sees that it is dead. */
void keep_output(struct layer_builder *b, const char *name, double bytes, bool last);
void save_input(struct layer_builder *b, const char *name, double bytes);
/* Backward: no later op reads the saved tensors of that name (there may be none). The latest op made the gradient of so many weights. */
void saved_gone(struct layer_builder *b, const char *name);
void gradient_made(struct layer_builder *b, double elements);

/* batch x [m,k]x[k,n]: reads both, writes the product, in the activation dtype. */
void op_gemm(struct layer_builder *b, const char *name, enum gemm_layout layout, int64_t batch, int64_t m, int64_t n,
             int64_t k);
/* A forward projection GEMM (a weight's): as op_gemm in TN, counted for selective_ops. */
void op_projection(struct layer_builder *b, const char *name, int64_t m, int64_t n, int64_t k);
/* The same of the block's last one: no gradient needs its product. */
void op_last_projection(struct layer_builder *b, const char *name, int64_t m, int64_t n, int64_t k);
/* A weight gradient [m,k]x[k,n], NT: summed into the gradient buffer by the GEMM itself (fused_kernels) or written
 * apart and added by one more kernel. */
void op_weight_gemm(struct layer_builder *b, const char *name, int64_t m, int64_t n, int64_t k);
/* `launches` kernels over rows x columns that read and write so many bytes together. */
void op_stream(struct layer_builder *b, const char *name, enum kernel_class kernel_class, uint32_t launches,
               int64_t rows, int64_t columns, double bytes_read, double bytes_written);
void op_attention(struct layer_builder *b, bool backward);
void op_collective(struct layer_builder *b, const char *name, enum layer_collective collective, double bytes,
                   bool overlappable);
/* The norm kernels of this model over `rows`: forward, and backward with the gradients of its weights. */
void op_norm(struct layer_builder *b, const char *name, int64_t rows);
void op_norm_backward(struct layer_builder *b, const char *name, int64_t rows);
/* Column sums for a bias gradient. */
void op_bias_gradient(struct layer_builder *b, const char *name, int64_t rows, int64_t columns);
/* Small parameters' gradients added to their buffers, one launch each. */
void op_vector_gradients(struct layer_builder *b, const char *name, uint32_t launches, double elements);

/* The backward of a column-parallel GEMM y = x w with x [tokens, in] and w [in, sum of parts]: (all-gather of x
 * beside) dgrad, all-reduce or reduce-scatter of dx beside
 * wgrad. Parts are GEMMs of their own (q, k and v; gate and up). Closes `gradient` (of y); returns the open
 * lifetime of dx, of this rank's rows. */
struct column_names {
    const char *input_gather, *input_gradient, *reduce, *weight_gradient;
};
uint32_t column_backward(struct layer_builder *b, const struct column_names *names, int64_t in, const int64_t *parts,
                         unsigned part_count, uint32_t gradient);

/* The backward of a row-parallel GEMM y = x w with x [tokens, in here] and w [in, out]: (all-gather of dy,) dgrad,
 * wgrad. Closes `gradient` (of y, this rank's rows); returns the open
 * lifetime of dx [tokens, in]. */
struct row_names {
    const char *gather, *input_gradient, *weight_gradient;
};
uint32_t row_backward(struct layer_builder *b, const struct row_names *names, int64_t in, int64_t out,
                      uint32_t gradient);

/* layer_core.c. From the lifetimes of queries, keys, values, which it closes, to that of the context; backward from the context's gradient, which it closes, to those of the three. */
uint32_t core_forward(struct layer_builder *b, const uint32_t qkv[3]);
uint32_t core_backward(struct layer_builder *b, uint32_t context);
/* Keys and values repeated to the query heads before unfused or eager attention. */
bool core_repeats_keys(const struct layer_builder *b);

/* Parts of a half (layer_transformer.c): a norm in front, which saves its output; the whole input of a column-parallel GEMM; the sum behind a row-parallel one; bias, dropout and residual
 * addition (`joins`); and back. */
uint32_t half_norm(struct layer_builder *b, const char *name, const char *output);
void half_norm_copies(struct layer_builder *b); /* that eager RMSNorm keeps besides */
uint32_t half_gather(struct layer_builder *b, const char *name);
uint32_t half_reduce(struct layer_builder *b, const char *name, uint32_t partial, bool last);
void half_residual(struct layer_builder *b, const char *name, const char *mask, bool bias, bool joins);
uint32_t half_residual_backward(struct layer_builder *b, const char *dropout, const char *bias_name, bool bias);
uint32_t half_norm_backward(struct layer_builder *b, const char *name, uint32_t inner, uint32_t outer);

/* layer_variants.c: what t5 and swin add to a block (sim/model/variant.h); nothing for others. */
void layer_set_tokens(struct layer_builder *b, int64_t sequence); /* the sequence that ops speak of from now on */
int64_t layer_rows(const struct layer_builder *b,
                   int64_t tokens); /* of that many, those of this rank outside the GEMMs */
bool layer_is_decoder(const struct layer_builder *b);
bool layer_ends_encoder(const struct layer_builder *b);
bool layer_has_tail(const struct layer_builder *b); /* norm of the encoder's output, or merging of patches */
void cross_forward(struct layer_builder *b);
/* From the gradient of the half's output, which it closes, to that of its input. */
uint32_t cross_backward(struct layer_builder *b, uint32_t output);
void tail_forward(struct layer_builder *b);
uint32_t tail_backward(struct layer_builder *b);
void windows_forward(struct layer_builder *b);
void windows_backward(struct layer_builder *b);
/* Elements and tensors of the small parameters that they add, held alike by all ranks of the tensor-parallel group; and all that they add, on this device. */
struct layer_extra {
    uint32_t vectors;
    double vector_elements, replicated, parameters;
};
struct layer_extra layer_extra(const struct layer_builder *b);

/* layer_loss.c: logits of the head's input, which it closes, and their loss; from there to the gradient of that input. */
void logits_forward(struct layer_builder *b, uint32_t input);
uint32_t logits_backward(struct layer_builder *b);

/* The three kinds. */
void build_embedding(struct layer_builder *b);
void build_transformer(struct layer_builder *b);
void build_head(struct layer_builder *b);

#endif
