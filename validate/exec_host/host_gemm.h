/* Matrix products through CBLAS, in fp32 whatever the dtype: on a processor half precision is a storage format. */
#ifndef MEMWALL_EXEC_HOST_GEMM_H
#define MEMWALL_EXEC_HOST_GEMM_H

#include <stdint.h>

#include "sim/base/status.h"
#include "sim/ir/kernel.h"
#include "validate/exec_host/host_meeting.h"
#include "validate/exec_host/host_operands.h"

/* Whether so many threads at once can multiply: OpenBLAS tries for ever where it finds no room for a thread's buffer (a limit on address space). STATUS_NO_MEMORY. */
enum status host_gemm_room(uint32_t threads, struct error *error);

/* c [m,n] = factor * a [m,k] * b [k,n] + (accumulate ? c : 0), column-major as BLAS has it. Layout TN: a is stored [k,m]; NT: b is stored [n,k]. `calls`: the
 * columns are divided among so many calls. All sizes at most INT32_MAX. False when cancelled between calls. */
struct host_gemm {
    enum gemm_layout layout;
    uint64_t m, n, k;
    float factor;
    bool accumulate;
    uint64_t calls;
};
bool host_gemm(const struct host_gemm *gemm, const float *a, const float *b, float *c,
               const struct host_cancel *cancel);

/* A kernel record of class GEMM: batch products, each of its own operands, in at least `launches` calls. */
bool host_gemm_kernel(const struct kernel *kernel, struct host_operands *operands, const struct host_cancel *cancel);

#endif
