#include "validate/exec_host/host_gemm.h"

#include <cblas.h>

#include "sim/base/check.h"
#include "validate/exec_host/host_memory.h"

/* Calls end within about a second, so that a cancelled run does not wait for a large product. */
static const double CALL_FLOPS_MAX = 5e10;
/* Sums into an output that is never cleared: each adds so little that years of steps stay far from overflow. */
static const float ACCUMULATE_FACTOR = 0x1p-10f;

/* OpenBLAS 0.3's BUFFER_SIZE on x86-64 and arm64, at most 128 MiB, and what aligns it. */
static const uint64_t BLAS_BUFFER_BYTES = 136u << 20;

enum status host_gemm_room(uint32_t threads, struct error *error)
{
    struct host_region room;
    TRY(host_region_map(&room, threads * BLAS_BUFFER_BYTES, "the buffers of OpenBLAS (ulimit -v?)", error));
    host_region_unmap(&room);
    return STATUS_OK;
}

bool host_gemm(const struct host_gemm *gemm, const float *a, const float *b, float *c, const struct host_cancel *cancel)
{
    uint64_t m = gemm->m, n = gemm->n, k = gemm->k;
    bool turns_a = gemm->layout == GEMM_TN, turns_b = gemm->layout == GEMM_NT;
    double flops = 2.0 * (double)m * (double)n * (double)k;
    uint64_t calls =
        gemm->calls < 1 + (uint64_t)(flops / CALL_FLOPS_MAX) ? 1 + (uint64_t)(flops / CALL_FLOPS_MAX) : gemm->calls;
    calls = calls < n ? calls : n;
    for (uint64_t call = 0, column = 0; call < calls; call++) {
        uint64_t end = n / calls * (call + 1) + (n % calls < call + 1 ? n % calls : call + 1);
        if (host_is_cancelled(cancel)) {
            return false;
        }
        cblas_sgemm(CblasColMajor, turns_a ? CblasTrans : CblasNoTrans, turns_b ? CblasTrans : CblasNoTrans, (int)m,
                    (int)(end - column), (int)k, gemm->factor, a, (int)(turns_a ? k : m),
                    b + (turns_b ? column : column * k), (int)(turns_b ? n : k), gemm->accumulate ? 1 : 0,
                    c + column * m, (int)m);
        column = end;
    }
    return true;
}

bool host_gemm_kernel(const struct kernel *kernel, struct host_operands *operands, const struct host_cancel *cancel)
{
    const struct host_gemm gemm = {
        .layout = (enum gemm_layout)kernel->layout,
        .m = kernel->m,
        .n = kernel->n,
        .k = kernel->k,
        .accumulate = (kernel->flags & KERNEL_FLAG_ACCUMULATE) != 0,
        .factor = (kernel->flags & KERNEL_FLAG_ACCUMULATE) != 0 ? ACCUMULATE_FACTOR : 1,
        .calls = (kernel->launches + kernel->batch - 1) / kernel->batch,
    };
    for (uint64_t i = 0; i < kernel->batch; i++) {
        const float *a = host_operands_input(operands, kernel->m * kernel->k);
        const float *b = host_operands_input(operands, kernel->k * kernel->n);
        if (!host_gemm(&gemm, a, b, host_operands_output(operands, kernel->m * kernel->n), cancel)) {
            return false;
        }
    }
    return true;
}
