/* Optimizer states that a drive holds, after the NVMe branch of PatrickStar (design in its issues 229, 242): those of the last own chunks, as many as host and device cannot hold. In Adam they are read, updated on the host and
 * written back, two chunks on their way at a time; the first two are read while the backward runs. The parameters of these chunks stay in memory. */
#include <stdio.h>

#include "strategies/policies/patrickstar.h"

enum { ON_THEIR_WAY = 2 };

/* fp32 parameters, momentum, variance. */
static double states_bytes(const struct chunk_layout *layout)
{
    return 12.0 * (double)layout->capacity;
}

double ps_staging_bytes(const struct walk_input *walk)
{
    return ON_THEIR_WAY * walk_host_bytes(walk, states_bytes(walk->layout));
}

/* The last own chunks, in their order. */
static uint32_t stored_chunk(const struct ps_state *state, uint32_t index)
{
    uint32_t owned = chunk_layout_owned(&state->layout, state->walk.rank);
    return (owned - state->walk.stored + index) * state->layout.ranks + state->walk.rank;
}

void ps_start_drive(struct lowering *lowering)
{
    struct ps_state *state = ps_state(lowering);
    uint32_t count = state->walk.stored;
    if (count == 0) {
        return;
    }
    state->stored = arena_array(lower_arena(lowering), struct ps_stored, count);
    if (state->stored == NULL) {
        lower_fail(lowering, STATUS_NO_MEMORY, "out of memory for the states of %u chunks", count);
        return;
    }
    state->read_queue = builder_queue(lower_builder(lowering), QUEUE_STORAGE, "drive read");
    state->write_queue = builder_queue(lower_builder(lowering), QUEUE_STORAGE, "drive write");
    for (uint32_t i = 0; i < count; i++) {
        char label[64];
        state->stored[i] = (struct ps_stored){ SCHED_NONE, SCHED_NONE, SCHED_NONE };
        snprintf(label, sizeof label, "fp32, momentum, variance chunks %u", stored_chunk(state, i));
        lower_buffer(lowering, SPACE_STORAGE, states_bytes(&state->layout), BUFFER_OPTIMIZER,
                     BUFFER_LIVE_AT_START | BUFFER_LIVE_AT_END, label);
    }
}

static uint32_t transfer(struct lowering *lowering, enum opcode opcode, uint32_t queue, uint32_t after)
{
    struct builder *builder = lower_builder(lowering);
    double bytes = states_bytes(&ps_state(lowering)->layout);
    uint32_t op = builder_op(builder, opcode, queue, builder_work_transfer(builder, bytes, false), PHASE_OFFLOAD);
    builder_depends(builder, after);
    return op;
}

/* Reads the index-th stored states when those two before are written back; does nothing the second time. */
static void read_states(struct lowering *lowering, uint32_t index, uint32_t after)
{
    struct ps_state *state = ps_state(lowering);
    if (index >= state->walk.stored || state->stored[index].read != SCHED_NONE) {
        return;
    }
    struct ps_stored *stored = &state->stored[index];
    char label[64];
    snprintf(label, sizeof label, "chunk %u's optimizer states from the drive", stored_chunk(state, index));
    stored->staging =
        lower_buffer(lowering, SPACE_PINNED, states_bytes(&state->layout), BUFFER_COMMUNICATION, 0, label);
    stored->read = transfer(lowering, OP_STORAGE_READ, state->read_queue, after);
    builder_acquire(lower_builder(lowering), stored->staging);
    builder_depends(lower_builder(lowering),
                    index >= ON_THEIR_WAY ? state->stored[index - ON_THEIR_WAY].write : SCHED_NONE);
}

void ps_read_ahead(struct lowering *lowering)
{
    for (uint32_t i = 0; i < ON_THEIR_WAY; i++) {
        read_states(lowering, i, lower_last_compute(lowering));
    }
}

uint32_t ps_stored_update(struct lowering *lowering, const struct walk_action *action, uint32_t after)
{
    struct ps_state *state = ps_state(lowering);
    uint32_t index = state->stored_count++;
    struct ps_stored *stored = &state->stored[index];
    uint32_t last = ps_host_update(lowering, action, stored->read, after);
    stored->write = transfer(lowering, OP_STORAGE_WRITE, state->write_queue, state->adam_end[0]);
    builder_release(lower_builder(lowering), stored->staging);
    read_states(lowering, index + ON_THEIR_WAY, SCHED_NONE);
    return last;
}
