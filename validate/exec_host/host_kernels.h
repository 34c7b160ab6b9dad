/* What a compute op runs: one function for every class of kernel. */
#ifndef MEMWALL_EXEC_HOST_KERNELS_H
#define MEMWALL_EXEC_HOST_KERNELS_H

#include "sim/ir/kernel.h"
#include "validate/exec_host/host_meeting.h"
#include "validate/exec_host/host_operands.h"

/* The most floats that the kernel takes from the operands' parts at a time. */
void host_kernel_wants(const struct kernel *kernel, double *inputs, double *outputs);
/* Whether it can be run; if not, why. */
bool host_kernel_is_possible(const struct kernel *kernel, char *why, size_t why_size);
/* All launches of the record; `scratch`: HOST_ATTENTION_SCRATCH_FLOATS. False when cancelled. */
bool host_kernel_run(const struct kernel *kernel, struct host_operands *operands, float *scratch,
                     const struct host_cancel *cancel);

#endif
