/* Memory-bound kernels: loops that read so many floats and write so many, with the arithmetic of their class.
 *
 * Inputs are `in_count / out_count` streams of out_count floats one after the other, and a remainder; every input float is read, every output float written:
 *   elementwise  out[i] = 1.5 x0[i] + 0.5 + x1[i] + x2[i] + ...
 *   reduce       out[i] = x0[i] + x1[i] + ...
 *   norm         per row: (x0 - mean) / sqrt(variance + 1e-5) + x1 + ...
 *   softmax      per row: exp(x0 - greatest) / sum + x1 + ...; with no more outputs than rows, the rows' losses: log(sum of exp(x))
 *   gather       as reduce, the rows of x0 in scrambled order
 *   optimizer    Adam: streams p, m, v, g of a third of out_count; writes p, m, v
 * Fewer inputs than outputs are read again from the front; no outputs: the sum of squares of the inputs is returned. Rows of `row` floats; the last may be shorter. */
#ifndef MEMWALL_EXEC_HOST_STREAM_H
#define MEMWALL_EXEC_HOST_STREAM_H

#include <stdint.h>

#include "sim/ir/kernel.h"
#include "validate/exec_host/host_meeting.h"
#include "validate/exec_host/host_operands.h"

enum { HOST_STREAM_BLOCK_FLOATS = 1 << 16, HOST_STREAM_ROW_FLOATS_MAX = 1 << 14 };

/* Returns what the class sums up where it writes nothing, else 0. in_count + out_count > 0. */
float host_stream(enum kernel_class kernel_class, const float *in, uint64_t in_count, float *out, uint64_t out_count,
                  uint64_t row);

/* A kernel record of one of these classes: bytes_read and bytes_written (in whole floats) over its launches, in blocks. False when cancelled. */
bool host_stream_kernel(const struct kernel *kernel, struct host_operands *operands, const struct host_cancel *cancel);

#endif
