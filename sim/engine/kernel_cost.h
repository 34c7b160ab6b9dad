/* How long one kernel takes alone on one GPU: launch floor + max(arithmetic, memory) by kernel class (DESIGN.md section 4, point 4).
 *
 * Matrix products follow a tile-and-wave model whose constants (hw_models/kernel_constants.h) are fitted per GPU generation and dtype to
 * measured shapes by validate/fit/fit_gemm.c; tests/accuracy/a_kernels.c prints and holds their errors. With output tiles of a x b, K cut
 * into s parts, W = s * batch * ceil'(m/a) * ceil'(n/b) / SMs waves, where ceil' is a continuous ceiling:
 *
 *     one wave   = 2 a b (k/s) / (rate of an SM) * loss(a, b) + tile_s + output_exposed * a b SMs * output bytes / HBM rate
 *     sustained  = (W + wave_share * (ceil'(W) - W), at least 1) * one wave + (s > 1 ? split_s : 0), the least over tiles and cuts,
 *                  plus input_exposed * input bytes / HBM rate, times tn_factor or nt_factor
 *     arithmetic = (sustained^p + (2 batch m n k / (chip_share * peak))^p)^(1/p), with chip_share 0: sustained
 *                  The rate of an SM is such that whole waves of the largest tile reach sm_efficiency * peak under that limit: without one, sm_efficiency * peak / SMs
 *     memory     = bytes / HBM rate, where the inputs count at least wave_traffic * what the waves read: tiles of 256 x 256, each on two SMs, go down the columns of the output, so a
 *                  wave of T of them covers min(T, m/256) rows and the rest of T in columns, and reads their strips of K
 *     alone      = floor_s + (arithmetic^p + memory^p)^(1/p) with p = sharpness
 *
 * Shape, flops and bytes are those of the whole record; further launches only repeat the floor. The arithmetic of products and attention
 * follows from shape and flags, not from `flops`. Everything is continuous in m, n, k and batch, deterministic, and positive.
 *
 * A fused attention is its executed matrix products (of causal ones the half, and attention_tile / 2 columns for each row) at the machine's attention efficiency plus a
 * tail: so many times its longest block, while other SMs run dry. Every other class is a floor for each launch, then bytes over the bandwidth its class achieves. Times are seconds on
 * the device; what the host pays to launch is the software model's. */
#ifndef MEMWALL_ENGINE_KERNEL_COST_H
#define MEMWALL_ENGINE_KERNEL_COST_H

#include <stdbool.h>

#include "hw_models/kernel_constants.h"
#include "hw_models/machine.h"
#include "sim/ir/kernel.h"

struct kernel_cost {
    double alone_s;     /* all of the record's launches, without their launch cost on the host; > 0 */
    double flop_s;      /* the arithmetic part of alone_s, were memory free */
    double memory_s;    /* the memory part, were arithmetic free */
    double floor_s;     /* the fixed part: launches * shortest kernel */
    double hbm_bytes;   /* moved over alone_s: the demand on HBM is hbm_bytes / alone_s */
    double sm_fraction; /* SMs that hold a block, of all; in (0, 1] */
    double tiles;       /* thread blocks of one launch, >= 1: waves beside a collective that takes SMs away */
};

/* Whether no dtype of `gpu` has constants, so that the plain ones hold. */
bool kernel_cost_is_plain(const struct machine_gpu *gpu);

/* Seconds of load since the board rested (idle for a second or more) at which a measurement began and ended; 0 <= from_s < to_s. */
struct kernel_load {
    double from_s, to_s;
};

/* `kernel` must have launches >= 1, a shape of at least one everywhere (products, attention) and finite, non-negative flops and bytes. A dtype
 * without constants borrows those of the nearest dtype of the same GPU that has some; a dtype without a peak borrows that too.
 * Where no dtype has any, plain constants hold for every GPU: estimated, the middle of the calibrated ones (FALLBACK in kernel_cost.c).
 *
 * The rate is what the board sustains, for a training step follows another. */
void kernel_cost(const struct machine_gpu *gpu, const struct kernel *kernel, struct kernel_cost *cost);

/* The same measured on a board that came from rest: for boost_s of load its clock is not yet limited by power, and the main loop runs at `boost` times the sustained rate.
 * Micro-benchmarks last about as long; calibration (validate/fit/fit_gemm.c) takes the boost out of them. Other kernels than products: as kernel_cost. */
void kernel_cost_from_rest(const struct machine_gpu *gpu, const struct kernel *kernel, struct kernel_load load,
                           struct kernel_cost *cost);

#endif
