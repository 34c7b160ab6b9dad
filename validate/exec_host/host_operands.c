#include "validate/exec_host/host_operands.h"

#include <string.h>

#include "sim/base/check.h"

enum { LINE_FLOATS = 16, DRAWN_FLOATS = 5000 /* then again from the front */ };

/* Room beyond one kernel's operands, so that the next finds others: more than the last-level cache of one core's share on today's servers. */
static const uint64_t COLD_FLOATS_MAX = (UINT64_C(128) << 20) / sizeof(float);

static uint64_t round_up(uint64_t count)
{
    return (count + LINE_FLOATS - 1) / LINE_FLOATS * LINE_FLOATS;
}

uint64_t host_operands_count(uint64_t most, uint64_t least)
{
    uint64_t count = most + (3 * most < COLD_FLOATS_MAX ? 3 * most : COLD_FLOATS_MAX);
    return round_up(count < least ? least : count) + LINE_FLOATS;
}

enum status host_operands_init(struct host_operands *operands, uint64_t input_count, uint64_t output_count,
                               struct error *error)
{
    *operands = (struct host_operands){ .input_count = round_up(input_count), .output_count = round_up(output_count) };
    uint64_t bytes = (operands->input_count + operands->output_count) * sizeof(float);
    TRY(host_region_map(&operands->region, bytes, "operands of kernels", error));
    operands->inputs = (float *)(void *)operands->region.data;
    operands->outputs = operands->inputs + operands->input_count;
    uint64_t count = operands->input_count, drawn = count < DRAWN_FLOATS ? count : DRAWN_FLOATS;
    for (uint64_t i = 0; i < drawn; i++) {
        uint32_t scrambled = (uint32_t)i * 2654435761u >> 28; /* Knuth's multiplicative hash: 0 to 15 */
        operands->inputs[i] = ((float)scrambled - 7.5f) * 0.015625f;
    }
    for (uint64_t i = drawn; i < count; i += drawn) {
        memcpy(operands->inputs + i, operands->inputs, (count - i < drawn ? count - i : drawn) * sizeof(float));
    }
    for (uint64_t i = 0; i < operands->output_count; i += 1024) {
        operands->outputs[i] = 0; /* touched: no page fault in a kernel */
    }
    return STATUS_OK;
}

void host_operands_free(struct host_operands *operands)
{
    host_region_unmap(&operands->region);
}

static uint64_t take(uint64_t *at, uint64_t all, uint64_t count)
{
    CHECK(count <= all);
    uint64_t start = *at + count > all ? 0 : *at;
    *at = start + round_up(count);
    *at = *at < all ? *at : 0;
    return start;
}

const float *host_operands_input(struct host_operands *operands, uint64_t count)
{
    return operands->inputs + take(&operands->input_at, operands->input_count, count);
}

float *host_operands_output(struct host_operands *operands, uint64_t count)
{
    return operands->outputs + take(&operands->output_at, operands->output_count, count);
}
