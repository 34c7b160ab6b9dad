/* Published matrix-product rates by shape, typed from their sources: what fit_kernels fits beside the measured tables and a_kernels holds the
 * model to. "Azure" = Azure/AI-benchmarking-guide 8fd0c6e1 result files (cuBLASLt); "XLA" = OpenXLA measured matmul tables (in tensorflow
 * 372d578b; the architecture is inferred from the magnitude); "flop-bench" = xzwgit/gpu-flops-bench 5a32ae9e. Row-major NN, one product, output
 * of the input's type (fp16 or bf16 for fp8). Times are of back-to-back launches, so they hold one launch gap. */
#ifndef MEMWALL_VALIDATE_PUBLISHED_GEMM_POINTS_H
#define MEMWALL_VALIDATE_PUBLISHED_GEMM_POINTS_H

#include "sim/ir/kernel.h"

struct gemm_point {
    const char *system; /* of fit_kernels' table */
    enum dtype dtype;
    uint32_t m, n, k;
    double tflops;
    const char *source;
};

static const struct gemm_point GEMM_POINTS[] = {
    { "a100_sxm", DTYPE_FP16, 1024, 1024, 1024, 119.4, "Azure" },
    { "a100_sxm", DTYPE_FP16, 2048, 2048, 2048, 221.8, "Azure" },
    { "a100_sxm", DTYPE_FP16, 4096, 4096, 4096, 228.0, "Azure" },
    { "a100_sxm", DTYPE_FP16, 8192, 8192, 8192, 253.7, "Azure" },
    { "a100_sxm", DTYPE_FP16, 16384, 16384, 16384, 256.5, "Azure" },
    { "a100_sxm", DTYPE_FP16, 1024, 2145, 1024, 132.8, "Azure" },
    { "a100_sxm", DTYPE_FP16, 6144, 12288, 12288, 250.8, "Azure" },
    { "a100_sxm", DTYPE_FP16, 802816, 192, 768, 157.8, "Azure" },
    { "h100_sxm", DTYPE_BF16, 256, 256, 512, 11.46, "XLA" },
    { "h100_sxm", DTYPE_BF16, 256, 256, 1024, 19.46, "XLA" },
    { "h100_sxm", DTYPE_BF16, 256, 256, 4096, 84.31, "XLA" },
    { "h100_sxm", DTYPE_BF16, 512, 512, 512, 40.72, "XLA" },
    { "h100_sxm", DTYPE_BF16, 512, 512, 2048, 114.72, "XLA" },
    { "h100_sxm", DTYPE_BF16, 1024, 1024, 256, 82.04, "XLA" },
    { "h100_sxm", DTYPE_BF16, 1024, 1024, 512, 145.57, "XLA" },
    { "h100_sxm", DTYPE_BF16, 1024, 1024, 4096, 470.11, "XLA" },
    { "h100_sxm", DTYPE_BF16, 1024, 2048, 1024, 373.35, "XLA" },
    { "h100_sxm", DTYPE_BF16, 1024, 2048, 2048, 524.29, "XLA" },
    { "h100_sxm", DTYPE_BF16, 1024, 2048, 4096, 653.53, "XLA" },
    { "h100_sxm", DTYPE_BF16, 2048, 2048, 1024, 493.9, "XLA" },
    { "h100_sxm", DTYPE_BF16, 2048, 1024, 4096, 653.13, "XLA" },
    { "h100_sxm", DTYPE_BF16, 1024, 4096, 1024, 490.29, "XLA" },
    { "h100_sxm", DTYPE_BF16, 1024, 4096, 2048, 634.22, "XLA" },
    { "h100_sxm", DTYPE_BF16, 1024, 4096, 4096, 738.47, "XLA" },
    { "h100_sxm", DTYPE_BF16, 2048, 4096, 512, 450.4, "XLA" },
    { "h100_sxm", DTYPE_BF16, 2048, 4096, 1024, 594.21, "XLA" },
    { "h100_sxm", DTYPE_BF16, 2048, 4096, 2048, 715.35, "XLA" },
    { "h100_sxm", DTYPE_BF16, 4096, 4096, 512, 543.12, "XLA" },
    { "h100_sxm", DTYPE_BF16, 4096, 4096, 1024, 677.44, "XLA" },
    { "h100_sxm", DTYPE_BF16, 4096, 4096, 2048, 738.74, "XLA" },
    { "h100_sxm", DTYPE_BF16, 4096, 2048, 256, 304.0, "XLA" },
    { "h100_sxm", DTYPE_BF16, 4096, 2048, 4096, 758.43, "XLA" },
    { "h100_sxm", DTYPE_BF16, 4096, 1024, 256, 216.48, "XLA" },
    { "h100_sxm", DTYPE_BF16, 4096, 1024, 1024, 488.06, "XLA" },
    { "h100_sxm", DTYPE_BF16, 4096, 1024, 4096, 738.47, "XLA" },
    { "h100_sxm", DTYPE_BF16, 4096, 512, 256, 142.48, "XLA" },
    { "h100_sxm", DTYPE_BF16, 4096, 512, 1024, 370.77, "XLA" },
    { "h100_sxm", DTYPE_BF16, 4096, 512, 4096, 649.96, "XLA" },
    { "h100_sxm", DTYPE_BF16, 4096, 256, 256, 82.24, "XLA" },
    { "h100_sxm", DTYPE_BF16, 4096, 256, 512, 137.24, "XLA" },
    { "h100_sxm", DTYPE_BF16, 4096, 256, 4096, 376.22, "XLA" },
    { "h100_sxm", DTYPE_BF16, 256, 4096, 4096, 412.03, "XLA" },
    { "h100_sxm", DTYPE_BF16, 512, 4096, 4096, 644.12, "XLA" },
    { "h100_sxm", DTYPE_BF16, 512, 2048, 4096, 430.53, "XLA" },
    { "h100_sxm", DTYPE_BF16, 512, 1024, 4096, 309.61, "XLA" },
    { "h100_sxm", DTYPE_BF16, 512, 2048, 1024, 232.61, "XLA" },
    { "h100_sxm", DTYPE_BF16, 512, 2048, 2048, 342.39, "XLA" },
    { "h100_sxm", DTYPE_BF16, 2048, 256, 4096, 307.49, "XLA" },
    { "h100_sxm", DTYPE_BF16, 2048, 512, 4096, 451.15, "XLA" },
    { "h100_sxm", DTYPE_FP8, 1024, 1024, 1024, 274.1, "Azure" },
    { "h100_sxm", DTYPE_FP8, 2048, 2048, 2048, 1011.3, "Azure" },
    { "h100_sxm", DTYPE_FP8, 4096, 4096, 4096, 1216.9, "Azure" },
    { "h100_sxm", DTYPE_FP8, 8192, 8192, 8192, 1290.1, "Azure" },
    { "h100_sxm", DTYPE_FP8, 16384, 16384, 16384, 1377.3, "Azure" },
    { "h100_sxm", DTYPE_FP8, 32768, 32768, 32768, 1382.2, "Azure" },
    { "h200_sxm", DTYPE_FP8, 1024, 1024, 1024, 290.8, "Azure" },
    { "h200_sxm", DTYPE_FP8, 2048, 2048, 2048, 1013.4, "Azure" },
    { "h200_sxm", DTYPE_FP8, 4096, 4096, 4096, 1249.1, "Azure" },
    { "h200_sxm", DTYPE_FP8, 8192, 8192, 8192, 1300.6, "Azure" },
    { "h200_sxm", DTYPE_FP8, 16384, 16384, 16384, 1366.3, "Azure" },
    { "rtx4090", DTYPE_BF16, 4096, 4096, 4096, 174, "flop-bench" },
    { "rtx4090", DTYPE_BF16, 8192, 8192, 8192, 169, "flop-bench" },
    { "rtx4090", DTYPE_BF16, 16384, 16384, 16384, 169, "flop-bench" },
    { "rtx4090", DTYPE_FP8, 4096, 4096, 4096, 333, "flop-bench" },
    { "rtx4090", DTYPE_FP8, 8192, 8192, 8192, 343, "flop-bench" },
    { "rtx4090", DTYPE_FP8, 16384, 16384, 16384, 345, "flop-bench" },
};

enum { GEMM_POINT_COUNT = sizeof GEMM_POINTS / sizeof GEMM_POINTS[0] };

#endif
