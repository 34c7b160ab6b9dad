/* Attention as fused kernels do it: tiles of the score matrix that never leave the cache (FlashAttention, Dao et al. 2022, algorithms 1 and 4).
 *
 * One head: queries [m,k], keys and values [n,k], row-major. scores = scale * q k^T; causal: query i sees keys j <= i + n - m (bottom right aligned), and tiles that no query
 * sees are skipped. Forward: 2 products a tile; backward: 5 (scores again, gradient of probabilities, of values, of queries, of keys). */
#ifndef MEMWALL_EXEC_HOST_ATTENTION_H
#define MEMWALL_EXEC_HOST_ATTENTION_H

#include <stdint.h>

#include "sim/ir/kernel.h"
#include "validate/exec_host/host_meeting.h"
#include "validate/exec_host/host_operands.h"

enum { HOST_ATTENTION_TILE = 128, HOST_ATTENTION_SCRATCH_FLOATS = 2 * HOST_ATTENTION_TILE * HOST_ATTENTION_TILE };

struct host_attention {
    uint64_t m, n, k;
    float scale;
    bool causal;
    float *scratch; /* [HOST_ATTENTION_SCRATCH_FLOATS] */
};

struct host_attention_inputs {
    const float *q, *k, *v;
    const float *out, *out_gradient, *log_sums; /* backward: results of the forward, and the gradient of `out` */
};

/* out [m,k]; log_sums [m]: log of the row's sum of exponentials. A row that sees no key is 0 with log_sum 0. False when cancelled. */
bool host_attention_forward(const struct host_attention *attention, const struct host_attention_inputs *inputs,
                            float *out, float *log_sums, const struct host_cancel *cancel);
/* Gradients of q [m,k], k and v [n,k]; all written. */
bool host_attention_backward(const struct host_attention *attention, const struct host_attention_inputs *inputs,
                             float *q_gradient, float *k_gradient, float *v_gradient, const struct host_cancel *cancel);

/* A kernel record of either class: `batch` heads, each of its own operands. Further launches are not told apart: the work is in tiles anyway. */
bool host_attention_kernel(const struct kernel *kernel, struct host_operands *operands, float *scratch,
                           const struct host_cancel *cancel);

#endif
