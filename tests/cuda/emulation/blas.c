/* cuBLAS: products are noted and their operands' bounds checked; nothing is computed. */
#include <stdlib.h>

#include "tests/cuda/emulation/emulation_internal.h"

struct cublasContext {
    cudaStream_t stream;
    int device;
};

void emulation_note_product(const struct emulation_product *product);

cublasStatus_t cublasCreate(cublasHandle_t *handle)
{
    EMULATED(cublasStatus_t);
    *handle = calloc(1, sizeof **handle);
    if (*handle == NULL) {
        return CUBLAS_STATUS_ALLOC_FAILED;
    }
    (*handle)->device = emulation_current_device();
    emulation_lock();
    emulation.left.handles++;
    emulation_unlock();
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasDestroy(cublasHandle_t handle)
{
    emulation_lock();
    emulation.left.handles--;
    emulation_unlock();
    free(handle);
    EMULATED(cublasStatus_t);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetStream(cublasHandle_t handle, cudaStream_t stream)
{
    EMULATED(cublasStatus_t);
    handle->stream = stream;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetWorkspace(cublasHandle_t handle, void *workspace, size_t bytes)
{
    EMULATED(cublasStatus_t);
    return emulation_owns(workspace, bytes, handle->device, "cublasSetWorkspace") ? CUBLAS_STATUS_SUCCESS
                                                                                  : CUBLAS_STATUS_INVALID_VALUE;
}

static uint64_t size_of(cudaDataType_t type)
{
    return type == CUDA_R_32F ? 4 : 2;
}

static void compute(void *argument)
{
    (void)argument; /* it has taken its turn */
}

/* Column-major: op(A) is m x k, op(B) is k x n, C is m x n. Strides of 0: one product. */
static cublasStatus_t product(cublasHandle_t handle, const struct emulation_product *p, const void *a,
                              long long a_stride, const void *b, long long b_stride, const void *c, long long c_stride)
{
    uint64_t a_columns = (uint64_t)(p->transpose_a ? p->m : p->k), b_columns = (uint64_t)(p->transpose_b ? p->k : p->n);
    uint64_t a_rows = (uint64_t)(p->transpose_a ? p->k : p->m), b_rows = (uint64_t)(p->transpose_b ? p->n : p->k);
    uint64_t last = (uint64_t)p->batch - 1, in = size_of((cudaDataType_t)p->input),
             out = size_of((cudaDataType_t)p->output);
    if ((uint64_t)p->lda < a_rows || (uint64_t)p->ldb < b_rows || p->ldc < p->m || p->m < 1 || p->n < 1 || p->k < 1) {
        return (cublasStatus_t)emulation_misuse(CUBLAS_STATUS_INVALID_VALUE,
                                                "product: a leading dimension is too small");
    }
    uint64_t a_extent = last * (uint64_t)a_stride + (uint64_t)p->lda * (a_columns - 1) + a_rows;
    uint64_t b_extent = last * (uint64_t)b_stride + (uint64_t)p->ldb * (b_columns - 1) + b_rows;
    uint64_t c_extent = last * (uint64_t)c_stride + (uint64_t)p->ldc * ((uint64_t)p->n - 1) + (uint64_t)p->m;
    emulation_note_product(p);
    if (!emulation_owns(a, a_extent * in, handle->device, "product: A") ||
        !emulation_owns(b, b_extent * in, handle->device, "product: B") ||
        !emulation_owns(c, c_extent * out, handle->device, "product: C")) {
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    if (emulation_current_device() != handle->device) {
        return (cublasStatus_t)emulation_misuse(CUBLAS_STATUS_EXECUTION_FAILED, "product: another device is current");
    }
    (void)emulation_enqueue(handle->stream, compute, malloc(1));
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasGemmEx(cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb, int m, int n,
                            int k, const void *alpha, const void *a, cudaDataType atype, int lda, const void *b,
                            cudaDataType btype, int ldb, const void *beta, void *c, cudaDataType ctype, int ldc,
                            cublasComputeType_t computetype, cublasGemmAlgo_t algo)
{
    EMULATED(cublasStatus_t);
    (void)alpha;
    (void)algo;
    const struct emulation_product p = {
        transa != CUBLAS_OP_N, transb != CUBLAS_OP_N, m, n, k, lda, ldb, ldc, 1, atype, ctype,
        computetype,           *(const float *)beta
    };
    return atype == btype ? product(handle, &p, a, 0, b, 0, c, 0) : CUBLAS_STATUS_NOT_SUPPORTED;
}

cublasStatus_t cublasGemmStridedBatchedEx(cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb,
                                          int m, int n, int k, const void *alpha, const void *a, cudaDataType atype,
                                          int lda, long long stride_a, const void *b, cudaDataType btype, int ldb,
                                          long long stride_b, const void *beta, void *c, cudaDataType ctype, int ldc,
                                          long long stride_c, int batch, cublasComputeType_t computetype,
                                          cublasGemmAlgo_t algo)
{
    EMULATED(cublasStatus_t);
    (void)alpha;
    (void)algo;
    const struct emulation_product p = {
        transa != CUBLAS_OP_N, transb != CUBLAS_OP_N, m, n, k, lda, ldb, ldc, batch, atype, ctype,
        computetype,           *(const float *)beta
    };
    return atype == btype ? product(handle, &p, a, stride_a, b, stride_b, c, stride_c) : CUBLAS_STATUS_NOT_SUPPORTED;
}

const char *cublasGetStatusName(cublasStatus_t status)
{
    return status == CUBLAS_STATUS_EXECUTION_FAILED ? "CUBLAS_STATUS_EXECUTION_FAILED" : "CUBLAS_STATUS";
}

const char *cublasGetStatusString(cublasStatus_t status)
{
    (void)status;
    return "emulated error";
}
