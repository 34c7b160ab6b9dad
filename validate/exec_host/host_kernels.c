#include "validate/exec_host/host_kernels.h"

#include <math.h>
#include <stdio.h>

#include "sim/base/check.h"
#include "validate/exec_host/host_attention.h"
#include "validate/exec_host/host_gemm.h"
#include "validate/exec_host/host_stream.h"

static bool is_product(const struct kernel *kernel)
{
    return kernel->kernel_class == KERNEL_GEMM || kernel->kernel_class == KERNEL_ATTENTION_FORWARD ||
           kernel->kernel_class == KERNEL_ATTENTION_BACKWARD;
}

/* Each operand is rounded up to whole cache lines, and does not straddle the end of its part. */
static const double MARGIN_FLOATS = 64;

void host_kernel_wants(const struct kernel *kernel, double *inputs, double *outputs)
{
    double m = (double)kernel->m, n = (double)kernel->n, k = (double)kernel->k;
    if (kernel->kernel_class == KERNEL_GEMM) {
        *inputs = m * k + k * n + MARGIN_FLOATS;
        *outputs = m * n + MARGIN_FLOATS;
    } else if (is_product(kernel)) {
        *inputs = 3 * m * k + 2 * n * k + m + MARGIN_FLOATS;
        *outputs = m * k + m + 2 * n * k + MARGIN_FLOATS;
    } else { /* blocks: the longer side is a block, the other at most as long */
        *inputs = fmin(ceil(kernel->bytes_read / sizeof(float)), HOST_STREAM_BLOCK_FLOATS) + MARGIN_FLOATS;
        *outputs = fmin(ceil(kernel->bytes_written / sizeof(float)), HOST_STREAM_BLOCK_FLOATS) + MARGIN_FLOATS;
    }
}

bool host_kernel_is_possible(const struct kernel *kernel, char *why, size_t why_size)
{
    if (!is_product(kernel)) {
        return true;
    }
    if (kernel->m > INT32_MAX || kernel->n > INT32_MAX || kernel->k > INT32_MAX) {
        (void)snprintf(why, why_size, "a product of %llu x %llu x %llu; BLAS takes sizes up to %d",
                       (unsigned long long)kernel->m, (unsigned long long)kernel->n, (unsigned long long)kernel->k,
                       INT32_MAX);
        return false;
    }
    return true;
}

bool host_kernel_run(const struct kernel *kernel, struct host_operands *operands, float *scratch,
                     const struct host_cancel *cancel)
{
    if (is_product(kernel) && (kernel->batch == 0 || kernel->m == 0 || kernel->n == 0 || kernel->k == 0)) {
        return !host_is_cancelled(cancel);
    }
    switch ((enum kernel_class)kernel->kernel_class) {
    case KERNEL_GEMM: return host_gemm_kernel(kernel, operands, cancel);
    case KERNEL_ATTENTION_FORWARD:
    case KERNEL_ATTENTION_BACKWARD: return host_attention_kernel(kernel, operands, scratch, cancel);
    case KERNEL_ELEMENTWISE:
    case KERNEL_NORM:
    case KERNEL_SOFTMAX:
    case KERNEL_GATHER:
    case KERNEL_OPTIMIZER:
    case KERNEL_REDUCE: return host_stream_kernel(kernel, operands, cancel);
    case KERNEL_CLASS_COUNT: break;
    }
    check_failed("every kernel class runs", __FILE__, __LINE__);
}
