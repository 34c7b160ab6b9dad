/* Names and ranges of the GEMM constants in a machine file's "kernel_model": one table for the loader, the cost model
 * (sim/engine/kernel_cost.h has the formulas) and the fit (validate/fit/fit_gemm.c).
 *
 *     "kernel_model": { "gemm": { "bf16": { "sm_efficiency": 0.8, ... }, ... }, "attention_forward_efficiency": 0.58, ... }
 */
#ifndef MEMWALL_HW_MODELS_KERNEL_CONSTANTS_H
#define MEMWALL_HW_MODELS_KERNEL_CONSTANTS_H

#include <stdbool.h>

/* name, JSON key, least, greatest, meaning */
#define GEMM_CONSTANT_TABLE(X)                                                                                         \
    X(GEMM_SM_EFFICIENCY, "sm_efficiency", 0.05, 1.5, "sustained main-loop rate of full SMs, of the peak")             \
    X(GEMM_BOOST, "boost", 1.0, 4.0, "rate of a board that comes from rest against the sustained one")                 \
    X(GEMM_BOOST_S, "boost_s", 0.0, 10.0, "load since rest after which power limits end the boost, seconds")           \
    X(GEMM_SHARPNESS, "sharpness", 1.0, 64.0, "exponent joining the arithmetic and memory times: 64 is a maximum")     \
    X(GEMM_TILE_LOSS, "tile_loss", 0.0, 4.0, "a tile of 1/r the area of 256x128 takes r^tile_loss longer per flop")    \
    X(GEMM_TILE_S, "tile_s", 0.0, 1e-3, "pipeline fill and drain of one wave of tiles, seconds")                       \
    X(GEMM_OUTPUT_EXPOSED, "output_exposed", 0.0, 4.0, "share of the output traffic that the main loop does not hide") \
    X(GEMM_WAVE_SHARE, "wave_share", 0.0, 1.0, "how much of the idle tail of a last, partial wave is paid")            \
    X(GEMM_SPLIT_S, "split_s", 0.0, 1e-3, "added by cutting K into parts and summing them, seconds")                   \
    X(GEMM_TN_FACTOR, "tn_factor", 0.3, 3.0, "time of TN operands against NN")                                         \
    X(GEMM_NT_FACTOR, "nt_factor", 0.3, 3.0, "time of NT operands against NN")                                         \
    X(GEMM_FLOOR_S, "floor_s", 0.0, 1e-3, "shortest GEMM on the device, seconds")                                      \
    X(GEMM_INPUT_EXPOSED, "input_exposed", 0.0, 64.0, "memory times of the inputs that are added: packing on a host")  \
    X(GEMM_CHIP_SHARE, "chip_share", 0.0, 4.0, "of the peak, the most that the chip as a whole reaches; 0: no limit")  \
    X(GEMM_WAVE_TRAFFIC, "wave_traffic", 0.0, 4.0,                                                                     \
      "of what a wave of tiles multiplies, the share read anew; 0: all once")

enum gemm_constant {
#define X(name, key, least, greatest, meaning) name,
    GEMM_CONSTANT_TABLE(X)
#undef X
        GEMM_CONSTANT_COUNT
};

/* Whether a machine file may leave it out, 0: GPUs read while they multiply, have no limit of their own as a whole, and caches that keep what waves share. */
static inline bool gemm_constant_can_lack(enum gemm_constant constant)
{
    return constant == GEMM_INPUT_EXPOSED || constant == GEMM_CHIP_SHARE || constant == GEMM_WAVE_TRAFFIC;
}

#endif
