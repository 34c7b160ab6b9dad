#include "validate/exec_cuda/cuda_error.h"

enum status cuda_status(cudaError_t result, const char *call, struct error *error)
{
    if (result == cudaSuccess) {
        return STATUS_OK;
    }
    (void)cudaGetLastError(); /* else the next launch would report it again */
    return error_set(error, STATUS_EXECUTION, "%s: %s (%s)", call, cudaGetErrorString(result),
                     cudaGetErrorName(result));
}

enum status cublas_status(cublasStatus_t result, const char *call, struct error *error)
{
    if (result == CUBLAS_STATUS_SUCCESS) {
        return STATUS_OK;
    }
    return error_set(error, STATUS_EXECUTION, "%s: %s (%s)", call, cublasGetStatusString(result),
                     cublasGetStatusName(result));
}
