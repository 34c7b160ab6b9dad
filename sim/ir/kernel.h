/* A kernel as data: what one launch computes and moves, without saying how long it takes.
 *
 * Model graphs list kernels, schedules refer to them, cost models time them, executors run them. Shapes are those of the device that
 * runs the kernel (after tensor parallelism). FLOPs count a multiply-add as two. Bytes are unique operand bytes: what must cross HBM once
 * when caches hold the rest. */
#ifndef MEMWALL_IR_KERNEL_H
#define MEMWALL_IR_KERNEL_H

#include <stdint.h>

/* name, word, bytes per element */
#define DTYPE_TABLE(X)                                                                                                 \
    X(DTYPE_FP32, "fp32", 4)                                                                                           \
    X(DTYPE_TF32, "tf32", 4)                                                                                           \
    X(DTYPE_FP16, "fp16", 2)                                                                                           \
    X(DTYPE_BF16, "bf16", 2)                                                                                           \
    X(DTYPE_FP8, "fp8", 1)

enum dtype {
#define X(name, word, bytes) name,
    DTYPE_TABLE(X)
#undef X
        DTYPE_COUNT
};

const char *dtype_word(enum dtype dtype);
uint32_t dtype_bytes(enum dtype dtype);

/* name, word, what it is */
#define KERNEL_CLASS_TABLE(X)                                                                                          \
    X(KERNEL_GEMM, "gemm", "batch x [m,k]x[k,n] matrix products (batch > 1: batched)")                                 \
    X(KERNEL_ATTENTION_FORWARD, "attention_forward",                                                                   \
      "fused attention: batch, m = query, n = key length, k = head size")                                              \
    X(KERNEL_ATTENTION_BACKWARD, "attention_backward", "its gradient, recomputing scores on chip")                     \
    X(KERNEL_ELEMENTWISE, "elementwise", "add, bias, activation, dropout, copy, cast, scale")                          \
    X(KERNEL_NORM, "norm", "layer or RMS norm and its gradient: row reductions")                                       \
    X(KERNEL_SOFTMAX, "softmax", "masked softmax, cross entropy: row reductions with exponentials")                    \
    X(KERNEL_GATHER, "gather", "embedding look-up and its scatter-add gradient")                                       \
    X(KERNEL_OPTIMIZER, "optimizer", "fused multi-tensor optimizer step, gradient norm, unscale")                      \
    X(KERNEL_REDUCE, "reduce", "sum of buffers: the arithmetic of a collective done by hand")

enum kernel_class {
#define X(name, word, help) name,
    KERNEL_CLASS_TABLE(X)
#undef X
        KERNEL_CLASS_COUNT
};

const char *kernel_class_word(enum kernel_class kernel_class);

/* GEMM operand layouts as BLAS names them: which of A and B is transposed; the fit may tell them apart. */
enum gemm_layout { GEMM_NN, GEMM_TN, GEMM_NT };

/* How a framework computes the cross entropy over the vocabulary, which decides what of it lives at once. W: the logits in fp32, N: in the training dtype.
 *   own       Megatron's where kernels are fused or the vocabulary is split, else PyTorch's
 *   eager     PyTorch: cast (W), log-softmax (W, kept for backward); backward two more W, then N
 *   in_place  Megatron-LM of 2022: one W, exponentiated in place, kept; backward in place, then N
 *   jit       Megatron-core's cross_entropy_loss_fusion: a second W beside it in the forward
 *   half      Megatron-LM's over the N logits as they are (Galvatron without --entropy_in_fp32): a shifted copy N, exponentiated in place, kept; backward in place
 *   half_copied  the same with one more N beside it in the forward (Galvatron from 2025 on: the caller holds the logits in another order)
 *   compiled  torch.compile over the loss: N kept, no W at all; backward N */
#define LOSS_TABLE(X)                                                                                                  \
    X(LOSS_OWN, "own")                                                                                                 \
    X(LOSS_EAGER, "eager")                                                                                             \
    X(LOSS_IN_PLACE, "in_place")                                                                                       \
    X(LOSS_JIT, "jit")                                                                                                 \
    X(LOSS_HALF, "half")                                                                                               \
    X(LOSS_HALF_COPIED, "half_copied")                                                                                 \
    X(LOSS_COMPILED, "compiled")

enum loss_kind {
#define X(name, word) name,
    LOSS_TABLE(X)
#undef X
        LOSS_COUNT
};

enum { KERNEL_FLAG_CAUSAL = 1, KERNEL_FLAG_ACCUMULATE = 2 /* output += (read and written) */ };

struct kernel {
    uint8_t kernel_class;    /* enum kernel_class */
    uint8_t dtype;           /* enum dtype: of the inputs */
    uint8_t layout;          /* enum gemm_layout, GEMM only */
    uint8_t flags;           /* KERNEL_FLAG_* */
    uint32_t launches;       /* kernel launches this record stands for (an unfused op is several), >= 1 */
    uint64_t batch, m, n, k; /* see the class; 1 when not used */
    double flops;
    double bytes_read, bytes_written;
};

/* A kernel of which its traffic alone counts: fp32, no shape. `launches` 0 counts as 1. */
struct kernel kernel_of_traffic(enum kernel_class kernel_class, double bytes_read, double bytes_written,
                                uint32_t launches);

#endif
