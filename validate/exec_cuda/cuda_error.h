/* Errors of the CUDA runtime, cuBLAS and NCCL as statuses: "cudaMemcpyAsync: an illegal memory access was encountered (cudaErrorIllegalAddress)".
 *
 *     CUDA_TRY(cudaMalloc, (&memory, bytes), error);      // returns STATUS_EXECUTION from the calling function */
#ifndef MEMWALL_EXEC_CUDA_CUDA_ERROR_H
#define MEMWALL_EXEC_CUDA_CUDA_ERROR_H

#include <cublas_v2.h>
#include <cuda_runtime_api.h>

#include "sim/base/check.h"

/* STATUS_OK when there is no error, else STATUS_EXECUTION. */
enum status cuda_status(cudaError_t result, const char *call, struct error *error);
enum status cublas_status(cublasStatus_t result, const char *call, struct error *error);

#define CUDA_STATUS(function, arguments, error) cuda_status(function arguments, #function, (error))
#define CUDA_TRY(function, arguments, error)    TRY(CUDA_STATUS(function, arguments, error))
#define CUBLAS_TRY(function, arguments, error)  TRY(cublas_status(function arguments, #function, (error)))

#endif
