/* Operands for kernels: memory that each kernel finds cold, as in training.
 *
 * A compute queue owns a slab in two parts. Inputs are written once, with small exact numbers, and only read afterwards; outputs are only written (or added to), never an
 * input of anything, so that no number grows over the steps. Each kernel takes the next stretch of either part, round and round; the parts are larger than the
 * caches. They are memory of the executor's own, outside the schedule's spaces. */
#ifndef MEMWALL_EXEC_HOST_OPERANDS_H
#define MEMWALL_EXEC_HOST_OPERANDS_H

#include "validate/exec_host/host_memory.h"

struct host_operands {
    struct host_region region;
    float *inputs, *outputs;
    uint64_t input_count, output_count; /* floats in each part */
    uint64_t input_at, output_at;
    float sink; /* results of kernels that write nothing */
};

/* Floats of the slab for kernels that want at most so many inputs and outputs at once; at least `least` each. */
uint64_t host_operands_count(uint64_t most, uint64_t least);
/* Parts of input_count and output_count floats. On the thread that will use them (first touch). */
enum status host_operands_init(struct host_operands *operands, uint64_t input_count, uint64_t output_count,
                               struct error *error);
void host_operands_free(struct host_operands *operands);

/* `count` floats in one piece, aligned to 64 bytes; count must not exceed the part. */
const float *host_operands_input(struct host_operands *operands, uint64_t count);
float *host_operands_output(struct host_operands *operands, uint64_t count);

#endif
