/* The walk's actions as ops. A payload in one place is one buffer: the op that brings it acquires it, the op that takes it away releases it.
 *
 * Copies are synchronous unless `asynchronous` or prefetched: the host waits for each, it starts when the compute before it has ended, and what follows starts behind it. An asynchronous copy down starts when its
 * chunk's last use has ended, a copy up when what makes room for it is down and no earlier than the pass before: two passes' data and all chunks of the moment fit together (chunk_device_budget). */
#include <stdio.h>

#include "sim/base/check.h"
#include "strategies/policies/patrickstar.h"

static enum buffer_class slot_class(const struct ps_state *state, uint32_t slot)
{
    uint32_t chunk;
    enum walk_list list = walk_slot_list(&state->layout, state->walk.rank, slot, &chunk);
    bool remote = list == WALK_FP16 && chunk_owner(&state->layout, chunk) != state->walk.rank;
    return remote                  ? BUFFER_COMMUNICATION
           : list == WALK_FP16     ? BUFFER_WEIGHT
           : list == WALK_GRADIENT ? BUFFER_GRADIENT
                                   : BUFFER_OPTIMIZER;
}

static uint32_t new_buffer(struct lowering *lowering, uint32_t slot, enum chunk_place place, uint8_t flags)
{
    const struct ps_state *state = ps_state(lowering);
    char label[64];
    uint32_t chunk;
    enum walk_list list = walk_slot_list(&state->layout, state->walk.rank, slot, &chunk);
    bool remote = list == WALK_FP16 && chunk_owner(&state->layout, chunk) != state->walk.rank;
    snprintf(label, sizeof label, "%s%s chunk %u", remote ? "remote " : "", walk_list_word(list), chunk);
    return lower_buffer(lowering, place == PLACE_DEVICE ? SPACE_DEVICE : SPACE_PINNED,
                        walk_slot_bytes(&state->layout, slot), slot_class(state, slot), flags, label);
}

void ps_start_buffers(struct lowering *lowering)
{
    struct ps_state *state = ps_state(lowering);
    for (uint32_t s = 0; s < state->plan.slot_count; s++) {
        enum chunk_place place = (enum chunk_place)state->plan.start_place[s];
        bool stays = state->slots[s].last_action == SCHED_NONE;
        if (place != PLACE_NONE) {
            state->slots[s].buffer =
                new_buffer(lowering, s, place, BUFFER_LIVE_AT_START | (stays ? BUFFER_LIVE_AT_END : 0));
        }
    }
}

static bool waits(const struct lowering *lowering, const struct walk_action *action)
{
    return !ps_on(lowering, PS_ASYNCHRONOUS) && !action->prefetched;
}

/* What every action waits for: in order behind the compute so far. */
static uint32_t begin_after(const struct lowering *lowering, const struct ps_state *state,
                            const struct walk_action *action)
{
    if (waits(lowering, action) || action->after) {
        return state->chain != SCHED_NONE ? state->chain : lower_last_compute(lowering);
    }
    return action->prefetched ? state->pass_end[0] : state->pass_end[1];
}

static void end_copy(struct lowering *lowering, struct ps_state *state, const struct walk_action *action, uint32_t op)
{
    if (waits(lowering, action)) {
        builder_flag(lower_builder(lowering), OP_FLAG_HOST_WAITS);
        state->chain = op;
    }
    state->slots[action->slot].filled_by = op;
    state->slots[action->slot].last_use = op;
}

static uint8_t end_flags(const struct ps_state *state, uint32_t slot, uint32_t action)
{
    return state->slots[slot].last_action == action ? BUFFER_LIVE_AT_END : 0;
}

static void emit_up(struct lowering *lowering, struct ps_state *state, uint32_t index)
{
    const struct walk_action *action = &state->plan.actions[index];
    struct ps_slot *slot = &state->slots[action->slot];
    uint32_t up = new_buffer(lowering, action->slot, PLACE_DEVICE, end_flags(state, action->slot, index));
    uint32_t op = lower_copy_to_device(lowering, walk_slot_bytes(&state->layout, action->slot), false,
                                       begin_after(lowering, state, action), up, slot->buffer);
    builder_depends(lower_builder(lowering),
                    state->last_down); /* which made room, and may have brought this very chunk */
    slot->buffer = up;
    state->last_up = op;
    end_copy(lowering, state, action, op);
}

static void emit_down(struct lowering *lowering, struct ps_state *state, uint32_t index)
{
    const struct walk_action *action = &state->plan.actions[index];
    struct ps_slot *slot = &state->slots[action->slot];
    uint32_t down = new_buffer(lowering, action->slot, PLACE_HOST, end_flags(state, action->slot, index));
    uint32_t op = lower_copy_to_host(lowering, walk_slot_bytes(&state->layout, action->slot), false,
                                     begin_after(lowering, state, action), down, slot->buffer);
    builder_depends(lower_builder(lowering), slot->last_use);
    builder_depends(lower_builder(lowering), slot->filled_by);
    builder_depends(lower_builder(lowering), slot->gathered_by);
    slot->buffer = down;
    state->last_down = op;
    end_copy(lowering, state, action, op);
}

/* Chunks that a gather or reduction speaks of. */
static uint32_t group_size(const struct ps_state *state)
{
    return state->walk.budget.memory_saving ? 1 : state->layout.ranks;
}

/* All-gather of a group, or the broadcast of one chunk. Payloads allocated for it are acquired by it. */
static void emit_gather(struct lowering *lowering, struct ps_state *state, const struct walk_action *action)
{
    struct builder *builder = lower_builder(lowering);
    bool saving = state->walk.budget.memory_saving;
    uint32_t size = group_size(state);
    double bytes = size * walk_slot_bytes(&state->layout, action->slot);
    uint32_t op = lower_data_collective(lowering, saving ? OP_BROADCAST : OP_ALL_GATHER, bytes,
                                        begin_after(lowering, state, action));
    builder_depends(builder, state->last_down); /* which made room */
    for (uint32_t i = 0; i < size; i++) {
        struct ps_slot *slot = &state->slots[action->slot + 2 * i];
        bool remote = chunk_owner(&state->layout, action->slot / 2 + i) != state->walk.rank;
        builder_depends(builder, slot->filled_by);
        bool new = remote && slot->gathered_by == SCHED_NONE && slot->filled_by == SCHED_NONE;
        if (new && slot->buffer != SCHED_NONE) {
            builder_acquire(builder, slot->buffer);
        } else if (slot->buffer != SCHED_NONE) {
            builder_write(builder, slot->buffer);
        }
        slot->gathered_by = op;
        slot->last_use = op;
    }
    state->last_data = op;
    if (waits(lowering, action)) {
        state->chain = op;
    }
}

/* Reduce-scatter of a group's gradients, or the reduction of one chunk's to its owner: a broadcast backwards, over the same links, and priced as one. */
static void emit_reduce(struct lowering *lowering, struct ps_state *state, const struct walk_action *action)
{
    struct builder *builder = lower_builder(lowering);
    bool saving = state->walk.budget.memory_saving;
    uint32_t size = group_size(state);
    double bytes = size * walk_slot_bytes(&state->layout, action->slot);
    uint32_t op =
        lower_data_collective(lowering, saving ? OP_BROADCAST : OP_REDUCE_SCATTER, bytes, lower_last_compute(lowering));
    for (uint32_t i = 0; i < size; i++) {
        uint32_t gradient = walk_gradient_slot(&state->walk, action->slot / 2 + i);
        struct ps_slot *slot = &state->slots[gradient != CHUNK_NONE ? gradient : action->slot + 2 * i];
        builder_depends(builder, slot->filled_by);
        builder_read(builder, slot->buffer);
        slot->last_use = op;
    }
    state->last_data = op;
    lower_next_depends(lowering, op);
}

/* A new payload: of a remote chunk, which the next gather fills and acquires, or of a gradient, which the pass does. Without the memory cache it is cleared first, which acquires it (torch.zeros in
 * core/chunk_data.py allocate_payload; a payload that moves gets a torch.empty). */
static void emit_allocate(struct lowering *lowering, struct ps_state *state, const struct walk_action *action)
{
    uint32_t chunk;
    struct ps_slot *slot = &state->slots[action->slot];
    CHECK(action->on_device);
    slot->buffer = new_buffer(lowering, action->slot, PLACE_DEVICE, 0);
    if (!ps_on(lowering, PS_MEMORY_CACHE)) {
        slot->filled_by = lower_device_stream(lowering, 0, walk_slot_bytes(&state->layout, action->slot), PHASE_OFFLOAD,
                                              begin_after(lowering, state, action));
        builder_acquire(lower_builder(lowering), slot->buffer);
        builder_depends(lower_builder(lowering), state->last_down); /* which made room */
    } else if (walk_slot_list(&state->layout, state->walk.rank, action->slot, &chunk) == WALK_GRADIENT) {
        lower_next_acquires(lowering, slot->buffer);
    }
}

/* A remote payload, or a gradient's, ends with its last use. */
static void emit_free(struct lowering *lowering, struct ps_state *state, const struct walk_action *action)
{
    struct ps_slot *slot = &state->slots[action->slot];
    uint32_t last = action->on_device ? lower_last_compute(lowering) : slot->filled_by;
    last = slot->last_use != SCHED_NONE && (slot->last_use > last || last == SCHED_NONE) ? slot->last_use : last;
    builder_release_at(lower_builder(lowering), last, slot->buffer);
    *slot = (struct ps_slot){ SCHED_NONE, SCHED_NONE, SCHED_NONE, SCHED_NONE, slot->last_action };
}

/* ---- Adam ---- */

/* "chunk 3's gradient for Adam" */
static uint32_t buffer_for_adam(struct lowering *lowering, uint32_t slot, enum space_kind kind, double bytes,
                                const char *what)
{
    char label[64];
    snprintf(label, sizeof label, "chunk %u's %s", slot / 2, what);
    return lower_buffer(lowering, kind, bytes, BUFFER_COMMUNICATION, 0, label);
}

/* The bytes an element that bring the updated parameters up: the repository copies the fp32 master and casts it on the device. */
static double upload_bytes(const struct ps_state *state)
{
    return (state->walk.budget.preset == CHUNK_CODE ? 4.0 : 2.0) * (double)state->layout.capacity;
}

static double filled_elements(const struct ps_state *state, uint32_t slot)
{
    uint32_t chunk;
    walk_slot_list(&state->layout, state->walk.rank, slot, &chunk);
    return (double)state->layout.filled[chunk];
}

static void remember_adam(struct ps_state *state, uint32_t op)
{
    state->adam_end[1] = state->adam_end[0];
    state->adam_end[0] = op;
}

/* One update after the other in one thread (E.12): the authors' copies of gradients and parameters in Adam block it even where chunks move asynchronously (ops/chunk_io_buff.py).
 * Else all behind the last gradient, and two gradients are on their way at a time. */
static bool serial_adam(const struct lowering *lowering)
{
    return !ps_on(lowering, PS_ASYNCHRONOUS) ||
           (enum chunk_preset)lower_policy_parameter(lowering, PS_PRESET) == CHUNK_CODE;
}

/* The place of an fp16 slot's gradient where it is not the parameters'; else NULL. */
static struct ps_slot *gradient_of(struct ps_state *state, uint32_t slot)
{
    uint32_t gradient = walk_gradient_slot(&state->walk, slot / 2);
    return gradient != CHUNK_NONE ? &state->slots[gradient] : NULL;
}

uint32_t ps_host_update(struct lowering *lowering, const struct walk_action *action, uint32_t states, uint32_t after)
{
    struct ps_state *state = ps_state(lowering);
    struct builder *builder = lower_builder(lowering);
    bool serial = serial_adam(lowering);
    double parameters = filled_elements(state, action->slot);
    double chunk = walk_slot_bytes(&state->layout, action->slot);
    uint32_t updated = state->slots[action->slot].buffer;
    uint32_t staging = SCHED_NONE, down = SCHED_NONE, moved = state->last_down, up = SCHED_NONE;
    if (action->gradient_on_device) {
        staging = buffer_for_adam(lowering, action->slot, SPACE_PINNED, chunk, "gradient for Adam");
        down = lower_copy_to_host(lowering, chunk, false, after, staging, SCHED_NONE);
        builder_depends(builder, serial ? SCHED_NONE : state->adam_end[1]);
        builder_flag(builder, serial ? OP_FLAG_HOST_WAITS : 0);
    }
    struct ps_slot *gradient = gradient_of(state, action->slot);
    if (down != SCHED_NONE && gradient != NULL) {
        builder_depends(builder, gradient->filled_by);
        gradient->last_use = down;
    }
    uint32_t update = lower_host_optimizer(lowering, parameters, after);
    if (down == SCHED_NONE && gradient != NULL) {
        builder_depends(builder, gradient->filled_by);
        gradient->last_use = update;
    }
    builder_depends(builder, down);
    builder_depends(builder, states);
    builder_depends(builder, moved); /* its states may just have come down */
    if (staging != SCHED_NONE) {
        builder_release(builder, staging);
    }
    remember_adam(state, update);
    if (!action->on_device) {
        return update;
    }
    bool cast = upload_bytes(state) > chunk;
    uint32_t fp32 = cast ? buffer_for_adam(lowering, action->slot, SPACE_DEVICE, upload_bytes(state),
                                           "fp32 parameters from the host")
                         : SCHED_NONE;
    up = lower_copy_to_device(lowering, upload_bytes(state), false, update, fp32, SCHED_NONE);
    if (!cast) {
        builder_write(builder, updated);
    } else {
        up = lower_device_stream(lowering, upload_bytes(state), chunk, PHASE_OPTIMIZER, up);
        builder_release(builder, fp32);
    }
    return up;
}

/* Adam on the device, in buffers of a chunk's gradient in fp32 and its new fp16 parameters; those of a chunk on the host come and go. */
static uint32_t device_update(struct lowering *lowering, struct ps_state *state, const struct walk_action *action,
                              uint32_t after)
{
    struct builder *builder = lower_builder(lowering);
    double parameters = filled_elements(state, action->slot);
    double chunk = walk_slot_bytes(&state->layout, action->slot);
    uint32_t fp16 = buffer_for_adam(lowering, action->slot, SPACE_DEVICE, chunk, "fp16 parameters from Adam");
    uint32_t fp32 = buffer_for_adam(lowering, action->slot, SPACE_DEVICE, 2 * chunk, "fp32 gradient for Adam");
    struct ps_slot *gradient = gradient_of(state, action->slot);
    bool up = !action->gradient_on_device;
    uint32_t come = up ? lower_copy_to_device(lowering, chunk, false, after, fp16, SCHED_NONE) : after;
    builder_depends(builder, up && gradient != NULL ? gradient->filled_by : SCHED_NONE);
    lower_next_acquires(lowering, up ? SCHED_NONE : fp16);
    lower_next_acquires(lowering, fp32);
    lower_next_depends(lowering, state->last_up); /* its states may just have come */
    uint32_t cast = lower_device_stream(lowering, chunk, 2 * chunk, PHASE_OPTIMIZER, come);
    if (gradient != NULL) {
        gradient->last_use = up ? come : cast;
    }
    uint32_t update = lower_device_optimizer_of(lowering, parameters, SCHED_NONE);
    builder_release(builder, fp32);
    if (action->on_device) {
        builder_release(builder, fp16);
        return update;
    }
    return lower_copy_to_host(lowering, chunk, false, update, SCHED_NONE, fp16);
}

static uint32_t adam_after(const struct lowering *lowering, const struct ps_state *state)
{
    return serial_adam(lowering) ? state->chain : state->pass_end[0];
}

/* ---- in order ---- */

static void emit(struct lowering *lowering, struct ps_state *state, uint32_t index)
{
    const struct walk_action *action = &state->plan.actions[index];
    switch ((enum walk_kind)action->kind) {
    case WALK_UP: emit_up(lowering, state, index); return;
    case WALK_DOWN: emit_down(lowering, state, index); return;
    case WALK_ALLOCATE: emit_allocate(lowering, state, action); return;
    case WALK_FREE: emit_free(lowering, state, action); return;
    case WALK_GATHER: emit_gather(lowering, state, action); return;
    case WALK_REDUCE: emit_reduce(lowering, state, action); return;
    case WALK_ADAM_HOST:
        state->chain = ps_host_update(lowering, action, SCHED_NONE, adam_after(lowering, state));
        return;
    case WALK_ADAM_STORED: state->chain = ps_stored_update(lowering, action, adam_after(lowering, state)); return;
    case WALK_ADAM_DEVICE: state->chain = device_update(lowering, state, action, adam_after(lowering, state)); return;
    }
}

void ps_emit_actions(struct lowering *lowering, bool after)
{
    struct ps_state *state = ps_state(lowering);
    /* The pass needs the room of all that leaves for it, or left in a pass before for a later one. */
    uint32_t down = after ? SCHED_NONE : state->prefetched_down;
    state->chain = SCHED_NONE;
    while (state->next_action < state->plan.action_count) {
        const struct walk_action *action = &state->plan.actions[state->next_action];
        if (action->moment != state->pass || action->after != after) {
            break;
        }
        emit(lowering, state, state->next_action++);
        if (action->kind == WALK_DOWN && action->prefetched) {
            state->prefetched_down = state->last_down;
        } else if (action->kind == WALK_DOWN) {
            down = state->last_down;
        }
    }
    lower_next_depends(lowering, state->chain);
    lower_next_depends(lowering, down);
}

static uint32_t later(uint32_t a, uint32_t b)
{
    return a == SCHED_NONE || (b != SCHED_NONE && b > a) ? b : a;
}

/* The fp16 slots that a layer uses, in order; false at the end. `unit` starts at 0. */
static bool next_slot(const struct ps_state *state, uint32_t layer, uint32_t *unit, uint32_t *slot)
{
    uint32_t count = state->units.count, tied = state->walk.tied_unit;
    for (; *unit <= count; ++*unit) {
        uint32_t chunk = CHUNK_NONE;
        if (*unit < count && state->units.items[*unit].layer == layer) {
            chunk = state->layout.unit_chunk[*unit];
        } else if (*unit == count && tied != CHUNK_NONE && layer + 1 == state->layer_count) {
            chunk = state->layout.unit_chunk[tied]; /* the head's */
        }
        if (chunk != CHUNK_NONE) {
            *slot = walk_slot_fp16(chunk);
            ++*unit;
            return true;
        }
    }
    return false;
}

void ps_wait_for_chunks(struct lowering *lowering, const struct lower_pass *pass)
{
    struct ps_state *state = ps_state(lowering);
    uint32_t filled = SCHED_NONE, gathered = SCHED_NONE, slot, unit = 0;
    while (next_slot(state, pass->layer->index, &unit, &slot)) {
        const struct ps_slot *gradient = pass->kind == LOWER_BACKWARD ? gradient_of(state, slot) : NULL;
        filled = later(filled, state->slots[slot].filled_by);
        filled = later(filled, gradient != NULL ? gradient->filled_by : SCHED_NONE);
        gathered = later(gathered, state->slots[slot].gathered_by);
    }
    lower_next_depends(lowering, filled);
    lower_next_depends(lowering, gathered);
}

void ps_remember_use(struct lowering *lowering, const struct lower_pass *pass)
{
    struct ps_state *state = ps_state(lowering);
    uint32_t slot, unit = 0;
    while (next_slot(state, pass->layer->index, &unit, &slot)) {
        struct ps_slot *gradient = pass->kind == LOWER_BACKWARD ? gradient_of(state, slot) : NULL;
        state->slots[slot].last_use = lower_last_compute(lowering);
        if (gradient != NULL) {
            gradient->last_use = lower_last_compute(lowering);
        }
    }
}

uint32_t ps_emit_adam(struct lowering *lowering, uint32_t after_op)
{
    struct ps_state *state = ps_state(lowering);
    state->chain = later(after_op, state->last_data);
    state->pass_end[0] = state->pass_end[1] = state->chain;
    while (state->next_action < state->plan.action_count) {
        emit(lowering, state, state->next_action++);
    }
    return state->chain;
}
