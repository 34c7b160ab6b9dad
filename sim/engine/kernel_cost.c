#include "sim/engine/kernel_cost.h"

#include <math.h>
#include <stdbool.h>
#include <stddef.h>

#include "sim/base/check.h"

/* Share of a step over which the continuous ceiling rises: at x = n + 0.125 it has reached n + 1. Our rule [proposal]: an eighth keeps every step of one row below 7 % (t_kernel_cost)
 * and moves nothing but shapes just above a whole number of tiles. */
static const double CEILING_RISE = 0.125;

/* The largest tile of Ampere's and Hopper's cuBLAS kernels. Blackwell pairs SMs for 256 x 256; menus with that and with tiles 96, 160, 192 and 224 wide told B200's
 * products no better (cross-validated inside the fitted rows: 6.6 to 6.7 % against 6.4 to 6.8 %), so one menu serves all. */
static const double GEMM_TILE_AREA = 256.0 * 128.0;

/* Output tiles that cuBLAS kernels are built for, largest first. */
static const struct gemm_tile {
    double m, n;
} GEMM_TILES[] = { { 256, 128 }, { 128, 256 }, { 128, 128 }, { 256, 64 },
                   { 64, 256 },  { 128, 64 },  { 64, 128 },  { 64, 64 } };

static const double GEMM_SPLITS[] = { 1, 2, 3, 4, 6, 8 };

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

static double soft_ceiling(double x)
{
    if (x <= 1) {
        return 1;
    }
    double whole = floor(x);
    double step = fmin(1, (x - whole) / CEILING_RISE);
    return whole + step * step * (3 - 2 * step);
}

/* (a^p + b^p)^(1/p): between the sum (p = 1) and the maximum (p large). */
static double power_sum(double a, double b, double exponent)
{
    double greatest = fmax(a, b), least = fmin(a, b);
    return greatest > 0 ? greatest * pow(1 + pow(least / greatest, exponent), 1 / exponent) : 0;
}

/* Products of a GPU whose machine file gives no constants: estimated, the middle one of the three shipped calibrations for 16-bit products (dgx-a100-80gb, dgx-h100, dgx-b200,
 * each with its source; dgx-b200 as it was fitted without chip_share, which plain constants lack) to two digits, without boost. pipeline fill, tn, nt: the usual values of validate/fit/fit_gemm.c, which those fits did not move. */
static const double FALLBACK[GEMM_CONSTANT_COUNT] = {
    [GEMM_SM_EFFICIENCY] = 0.8,  /* 0.82, 0.80, 0.50 */
    [GEMM_BOOST] = 1,            /* 1, 1.15, 1.43: not known of the board */
    [GEMM_SHARPNESS] = 3,        /* 2.6, 3.1, 3 */
    [GEMM_TILE_LOSS] = 0.18,     /* 0.18, 0.20, 0.13 */
    [GEMM_TILE_S] = 3e-7,        /* 3e-7 in all */
    [GEMM_OUTPUT_EXPOSED] = 0.5, /* 0.50, 0.50, 0.34 */
    [GEMM_WAVE_SHARE] = 0.53,    /* 0.53, 0.9, 0.42 */
    [GEMM_SPLIT_S] = 1.2e-5,     /* 3.4e-5, 1.3e-6, 1.2e-5 */
    [GEMM_TN_FACTOR] = 1,
    [GEMM_NT_FACTOR] = 1,
    [GEMM_FLOOR_S] = 3e-6, /* 2.5e-6, 3.4e-6, 3e-6 */
};

bool kernel_cost_is_plain(const struct machine_gpu *gpu)
{
    for (size_t d = 0; d < DTYPE_COUNT; d++) {
        if (gpu->gemm[d].present) {
            return false;
        }
    }
    return true;
}

/* Constants and peak to use for `dtype`: its own, or borrowed from the nearest dtype that has some. */
static const double *gemm_constants(const struct machine_gpu *gpu, enum dtype dtype, double *peak)
{
    static const enum dtype ORDER[DTYPE_COUNT][4] = {
        [DTYPE_FP32] = { DTYPE_FP32, DTYPE_TF32, DTYPE_FP16, DTYPE_BF16 },
        [DTYPE_TF32] = { DTYPE_TF32, DTYPE_BF16, DTYPE_FP16, DTYPE_FP32 },
        [DTYPE_FP16] = { DTYPE_FP16, DTYPE_BF16, DTYPE_TF32, DTYPE_FP32 },
        [DTYPE_BF16] = { DTYPE_BF16, DTYPE_FP16, DTYPE_TF32, DTYPE_FP32 },
        [DTYPE_FP8] = { DTYPE_FP8, DTYPE_BF16, DTYPE_FP16, DTYPE_TF32 },
    };
    *peak = gpu->peak_flops[dtype];
    const double *constants = FALLBACK;
    for (size_t i = COUNT(ORDER[dtype]); i-- > 0;) {
        enum dtype other = ORDER[dtype][i];
        if (gpu->gemm[other].present) {
            constants = gpu->gemm[other].values;
        }
        if (gpu->peak_flops[dtype] <= 0 && gpu->peak_flops[other] > 0) {
            *peak = gpu->peak_flops[other];
        }
    }
    if (*peak <= 0) {
        *peak = gpu->peak_flops[DTYPE_FP32];
    }
    CHECK(*peak > 0);
    return constants;
}

/* Rate of the main loop against the sustained one, on the mean over `load`. */
static double boost_over(const double *constants, const struct kernel_load *load)
{
    double boosted = (constants[GEMM_BOOST_S] - load->from_s) / (load->to_s - load->from_s);
    return 1 + (constants[GEMM_BOOST] - 1) * fmin(1, fmax(0, boosted));
}

/* What the SMs alone would reach where all of them together, under the chip's limit, reach `share` of the peak: the inverse of power_sum. Shares near the limit and beyond it leave the SMs
 * FREE_OF_LIMIT times the limit. */
static double without_limit(const double *constants, double share)
{
    static const double FREE_OF_LIMIT = 16;
    double limit = constants[GEMM_CHIP_SHARE], p = constants[GEMM_SHARPNESS];
    if (!(limit > 0)) {
        return share;
    }
    double least = pow(FREE_OF_LIMIT, -p), left = pow(limit / share, p) - 1;
    return limit * pow(fmax(left, least), -1 / p);
}

/* Side of the tile that a pair of SMs computes together (Blackwell), in the order that tells what a wave reads. */
static const double WAVE_TILE = 256;

/* Bytes to and from memory. Where m is long, one wave of tiles stands in a single column or two, and the next wave reads all of the rows again. */
static double gemm_bytes(const struct kernel *kernel, double sms, double wave_traffic)
{
    double once = kernel->bytes_read + kernel->bytes_written;
    double down = fmax(1, (double)kernel->m / WAVE_TILE), across = fmax(1, (double)kernel->n / WAVE_TILE);
    double at_once = fmin(fmax(1, sms / 2), down * across), rows = fmin(down, at_once);
    double strip = WAVE_TILE * (double)kernel->k * (double)kernel->batch * dtype_bytes((enum dtype)kernel->dtype);
    double inputs = (double)(kernel->m + kernel->n) / WAVE_TILE * strip;
    double read = down * across / at_once * (rows + at_once / rows) * strip;
    return fmax(once, once + wave_traffic * read - inputs);
}

/* `load` NULL: sustained. */
static void gemm_cost(const struct machine_gpu *gpu, const struct kernel *kernel, const struct kernel_load *load,
                      struct kernel_cost *cost)
{
    double peak;
    const double *c = gemm_constants(gpu, (enum dtype)kernel->dtype, &peak);
    double sms = gpu->sm_count;
    double m = (double)kernel->m, n = (double)kernel->n, k = (double)kernel->k, batch = (double)kernel->batch;
    double layout = kernel->layout == GEMM_TN ? c[GEMM_TN_FACTOR] : kernel->layout == GEMM_NT ? c[GEMM_NT_FACTOR] : 1;
    double traffic = kernel->bytes_written * (kernel->flags & KERNEL_FLAG_ACCUMULATE ? 2 : 1);
    double output_s_per_element = c[GEMM_OUTPUT_EXPOSED] * traffic / (batch * m * n) / gpu->hbm_bytes_per_s;
    double share = c[GEMM_SM_EFFICIENCY] * (load != NULL ? boost_over(c, load) : 1);
    double sm_rate = without_limit(c, share) * peak / sms;
    double best_s = INFINITY, best_tiles = 1;
    for (size_t t = 0; t < COUNT(GEMM_TILES); t++) {
        double area = GEMM_TILES[t].m * GEMM_TILES[t].n;
        double loss = pow(GEMM_TILE_AREA / area, c[GEMM_TILE_LOSS]);
        double grid = batch * soft_ceiling(m / GEMM_TILES[t].m) * soft_ceiling(n / GEMM_TILES[t].n);
        for (size_t s = 0; s < COUNT(GEMM_SPLITS); s++) {
            double tiles = grid * GEMM_SPLITS[s], waves = tiles / sms;
            double wave_s =
                2 * area * k / GEMM_SPLITS[s] / sm_rate * loss + c[GEMM_TILE_S] + output_s_per_element * area * sms;
            double paid = waves <= 1 ? 1 : waves + c[GEMM_WAVE_SHARE] * (soft_ceiling(waves) - waves);
            double total = paid * wave_s + (s > 0 ? c[GEMM_SPLIT_S] : 0);
            if (total < best_s) {
                best_s = total;
                best_tiles = tiles;
            }
        }
    }
    best_s = (best_s + c[GEMM_INPUT_EXPOSED] * kernel->bytes_read / gpu->hbm_bytes_per_s) * layout;
    if (c[GEMM_CHIP_SHARE] > 0) {
        best_s = power_sum(best_s, 2 * batch * m * n * k / (c[GEMM_CHIP_SHARE] * peak), c[GEMM_SHARPNESS]);
    }
    cost->flop_s = best_s;
    cost->hbm_bytes = gemm_bytes(kernel, sms, c[GEMM_WAVE_TRAFFIC]);
    cost->memory_s = cost->hbm_bytes / gpu->hbm_bytes_per_s;
    cost->floor_s = kernel->launches * c[GEMM_FLOOR_S];
    cost->alone_s = cost->floor_s + power_sum(cost->flop_s, cost->memory_s, c[GEMM_SHARPNESS]);
    cost->tiles = best_tiles;
}

/* Query rows of one thread block of a fused attention (FlashAttention-2 and later). */
static const double ATTENTION_ROWS = 128;

/* Machine files give the efficiency at head size 128. Smaller heads do less arithmetic for each exponential: x / (x + 22.5) scaled to 1 at 128
 * gives the 0.87 between head sizes 64 and 128 on A100 (0.575 of the peak, facts/hardware.md C.7, against the 0.66 fitted to
 * simumax_measured_kernel_efficiency.csv). */
static const double ATTENTION_FULL_HEAD = 128, ATTENTION_HALF_HEAD = 22.5;

/* Our rule [proposal]: attention is far from memory-bound at training lengths, so nearly a maximum; no measured row tells it. */
static const double ATTENTION_SHARPNESS = 8;

/* Of a machine file that gives none: estimated, within what the shipped ones have (forward 0.34 H100, 0.59 B200, 0.67 A100; backward 0.29, 0.42, 0.53). */
static const double ATTENTION_PLAIN_FORWARD = 0.55, ATTENTION_PLAIN_BACKWARD = 0.45;

/* Matrix products of head size k over the executed part of the score matrix: 2 forward, 5 backward (one recomputes the scores). */
static void attention_cost(const struct machine_gpu *gpu, const struct kernel *kernel, struct kernel_cost *cost)
{
    double peak;
    (void)gemm_constants(gpu, (enum dtype)kernel->dtype, &peak);
    bool forward = kernel->kernel_class == KERNEL_ATTENTION_FORWARD;
    double efficiency = forward ? gpu->attention_forward_efficiency : gpu->attention_backward_efficiency;
    double tail = forward ? gpu->attention_forward_tail : gpu->attention_backward_tail;
    double m = (double)kernel->m, n = (double)kernel->n, k = (double)kernel->k, batch = (double)kernel->batch;
    double executed = kernel->flags & KERNEL_FLAG_CAUSAL ? (m <= n ? 1 - m / (2 * n) : n / (2 * m)) : 1;
    if (kernel->flags & KERNEL_FLAG_CAUSAL) { /* of the tiles on the diagonal, the half that is masked */
        executed = fmin(1, executed + gpu->attention_tile / (2 * fmax(m, n)));
    }
    double head = fmin(k, ATTENTION_FULL_HEAD);
    double head_factor =
        head / (head + ATTENTION_HALF_HEAD) * (ATTENTION_FULL_HEAD + ATTENTION_HALF_HEAD) / ATTENTION_FULL_HEAD;
    double plain = forward ? ATTENTION_PLAIN_FORWARD : ATTENTION_PLAIN_BACKWARD;
    double rate = (efficiency > 0 ? efficiency : plain) * head_factor * peak;
    double per_row = (forward ? 4 : 10) * n * k;
    double busy_s = batch * m * per_row * executed / rate;
    double longest_s = fmin(m, ATTENTION_ROWS) * per_row / rate * gpu->sm_count;
    cost->tiles = batch * soft_ceiling(m / ATTENTION_ROWS);
    cost->flop_s = fmax(busy_s + tail * longest_s, longest_s);
    cost->memory_s = (kernel->bytes_read + kernel->bytes_written) / gpu->hbm_bytes_per_s;
    cost->floor_s = kernel->launches * gpu->kernel_floor_s;
    cost->alone_s = cost->floor_s + power_sum(cost->flop_s, cost->memory_s, ATTENTION_SHARPNESS);
}

/* Bytes that one thread block of a streaming kernel handles: 256 threads, four 16-byte vectors each. Our rule [proposal]: it only tells how many SMs a small kernel holds. */
static const double STREAM_BLOCK_BYTES = 16384;

/* Share of the bandwidth, of a class that the machine file gives none for: estimated, the middle of the classes of shipped files (0.6 gather to 0.95 elementwise). */
static const double STREAM_PLAIN_EFFICIENCY = 0.8;

static void stream_cost(const struct machine_gpu *gpu, const struct kernel *kernel, struct kernel_cost *cost)
{
    double launches = kernel->launches, bytes = kernel->bytes_read + kernel->bytes_written;
    double efficiency = gpu->class_efficiency[kernel->kernel_class];
    double peak = gpu->peak_flops[DTYPE_FP32];
    cost->flop_s = peak > 0 ? kernel->flops / peak : 0;
    cost->memory_s = bytes / (gpu->hbm_bytes_per_s * (efficiency > 0 ? efficiency : STREAM_PLAIN_EFFICIENCY));
    cost->floor_s = launches * gpu->kernel_floor_s;
    cost->alone_s = cost->floor_s + fmax(cost->flop_s, cost->memory_s);
    cost->tiles = fmax(1, bytes / launches / STREAM_BLOCK_BYTES);
}

static void cost_of(const struct machine_gpu *gpu, const struct kernel *kernel, const struct kernel_load *load,
                    struct kernel_cost *cost)
{
    CHECK(kernel->launches >= 1 && kernel->kernel_class < KERNEL_CLASS_COUNT && kernel->dtype < DTYPE_COUNT);
    CHECK(kernel->flops >= 0 && kernel->bytes_read >= 0 && kernel->bytes_written >= 0);
    CHECK(gpu->hbm_bytes_per_s > 0 && gpu->sm_count > 0);
    cost->hbm_bytes = kernel->bytes_read + kernel->bytes_written;
    switch ((enum kernel_class)kernel->kernel_class) {
    case KERNEL_GEMM: gemm_cost(gpu, kernel, load, cost); break;
    case KERNEL_ATTENTION_FORWARD:
    case KERNEL_ATTENTION_BACKWARD: attention_cost(gpu, kernel, cost); break;
    case KERNEL_ELEMENTWISE:
    case KERNEL_NORM:
    case KERNEL_SOFTMAX:
    case KERNEL_GATHER:
    case KERNEL_OPTIMIZER:
    case KERNEL_REDUCE: stream_cost(gpu, kernel, cost); break;
    case KERNEL_CLASS_COUNT: break;
    }
    cost->sm_fraction = fmin(1, cost->tiles / gpu->sm_count);
    cost->alone_s = fmax(cost->alone_s, 1e-9); /* no work at all still takes its turn */
}

void kernel_cost(const struct machine_gpu *gpu, const struct kernel *kernel, struct kernel_cost *cost)
{
    cost_of(gpu, kernel, NULL, cost);
}

void kernel_cost_from_rest(const struct machine_gpu *gpu, const struct kernel *kernel, struct kernel_load load,
                           struct kernel_cost *cost)
{
    CHECK(load.from_s >= 0 && load.to_s > load.from_s);
    cost_of(gpu, kernel, &load, cost);
}
