/* Chunks under the walk: every change is written down, tensors change their states, groups are gathered and released. */
#include "sim/base/array.h"
#include "sim/base/check.h"
#include "strategies/policies/patrickstar_walk_internal.h"

/* ---- writing down ---- */

void walk_record(struct walk *w, enum walk_kind kind, uint32_t slot, bool on_device)
{
    if (w->status != STATUS_OK) {
        return;
    }
    w->status = array_reserve(&w->actions, 1, w->error);
    if (w->status == STATUS_OK) {
        w->actions.items[w->actions.count++] = (struct walk_action){ .kind = (uint8_t)kind,
                                                                     .after = w->after,
                                                                     .prefetched = w->prefetching,
                                                                     .on_device = on_device,
                                                                     .slot = slot,
                                                                     .moment = w->residency.now };
    }
}

void walk_place_changed(void *context, uint32_t slot, enum chunk_place from, enum chunk_place to)
{
    struct walk *w = context;
    for (uint32_t place = 0; place < PLACE_COUNT; place++) {
        double used = w->residency.used[place];
        w->peak_bytes[place] = used > w->peak_bytes[place] ? used : w->peak_bytes[place];
    }
    if (to == PLACE_NONE) {
        walk_record(w, WALK_FREE, slot, from == PLACE_DEVICE);
    } else if (from == PLACE_NONE) {
        walk_record(w, WALK_ALLOCATE, slot, to == PLACE_DEVICE);
    } else {
        walk_record(w, to == PLACE_DEVICE ? WALK_UP : WALK_DOWN, slot, false);
    }
}

/* ---- states of tensors ---- */

void walk_move_unit(struct walk *w, uint32_t unit, enum state_event event)
{
    enum tensor_state old = (enum tensor_state)w->unit_state[unit], next = old;
    struct chunk_tensors *tensors = &w->residency.chunks[walk_slot_fp16(w->layout->unit_chunk[unit])].tensors;
    chunk_tensors_move(tensors, event, old, 1);
    tensor_transition(event, old, &next, NULL);
    w->unit_state[unit] = (uint8_t)next;
}

/* Every tensor of the fp16 chunk that the event applies to. */
void walk_move_chunk(struct walk *w, uint32_t chunk, enum state_event event)
{
    chunk_tensors_all(&w->residency.chunks[walk_slot_fp16(chunk)].tensors, event);
    for (uint32_t u = w->chunk_unit[chunk]; u < w->units->count; u++) {
        uint32_t of = w->layout->unit_chunk[u];
        enum tensor_state next;
        if (of == CHUNK_NONE) {
            continue;
        }
        if (of != chunk) {
            break;
        }
        if (tensor_transition(event, (enum tensor_state)w->unit_state[u], &next, NULL)) {
            w->unit_state[u] = (uint8_t)next;
        }
    }
}

/* ---- access ---- */

static enum status access_fp16(struct walk *w, uint32_t chunk)
{
    return chunk_access_at(&w->residency, walk_slot_fp16(chunk), PLACE_DEVICE, w->error);
}

static void pin_group(struct walk *w, uint32_t first, bool pinned)
{
    for (uint32_t i = 0; i < w->ranks; i++) {
        walk_fp16(w, first + i)->pinned = pinned;
    }
}

/* The whole group on the device: the own chunk moves there, the others are gathered when any of them has no payload. */
static enum status fetch_group(struct walk *w, uint32_t chunk)
{
    uint32_t first = chunk / w->ranks * w->ranks, own = first + w->rank;
    bool released = false;
    enum status status = access_fp16(w, own);
    walk_fp16(w, own)->pinned = true;
    for (uint32_t i = 0; i < w->ranks && status == STATUS_OK; i++) {
        struct resident_chunk *c = walk_fp16(w, first + i);
        if ((enum chunk_place)c->place == PLACE_NONE) {
            released = true;
            status = access_fp16(w, first + i);
            c->pinned = true;
        }
    }
    if (released && status == STATUS_OK) {
        for (uint32_t i = 0; i < w->ranks; i++) {
            walk_move_chunk(w, first + i, STATE_GATHER);
        }
        walk_record(w, WALK_GATHER, walk_slot_fp16(first), true);
    }
    pin_group(w, first, false);
    return status;
}

/* Memory saving: one chunk, sent by its owner at its first access. */
static enum status fetch_chunk(struct walk *w, uint32_t chunk)
{
    bool absent = (enum chunk_place)walk_fp16(w, chunk)->place == PLACE_NONE;
    bool send = walk_is_local(w, chunk) ? !w->fetched[chunk] : absent;
    TRY(access_fp16(w, chunk));
    if (send) {
        walk_move_chunk(w, chunk, STATE_GATHER);
        walk_record(w, WALK_GATHER, walk_slot_fp16(chunk), true);
        w->fetched[chunk] = 1;
    }
    return STATUS_OK;
}

enum status walk_access_unit(struct walk *w, uint32_t unit, enum state_event event)
{
    uint32_t chunk = w->layout->unit_chunk[unit];
    if (chunk == CHUNK_NONE) {
        return STATUS_OK;
    }
    if (w->ranks > 1) {
        TRY(w->input->budget.memory_saving ? fetch_chunk(w, chunk) : fetch_group(w, chunk));
    }
    TRY(access_fp16(w, chunk));
    walk_move_unit(w, unit, event);
    uint32_t gradient = walk_gradient_slot(w->input, chunk);
    if (gradient != CHUNK_NONE && event == STATE_BACKWARD_BEGIN) {
        TRY(chunk_access_at(&w->residency, gradient, PLACE_DEVICE, w->error));
        chunk_tensors_all(&w->residency.chunks[gradient].tensors, STATE_UPDATE_BEGIN);
    }
    return STATUS_OK;
}

/* What of a chunk takes part in a collective of its group: a gather, or the reduction of gradients. */
static uint32_t group_slot(const struct walk *w, uint32_t chunk, bool gradients)
{
    uint32_t gradient = gradients ? walk_gradient_slot(w->input, chunk) : CHUNK_NONE;
    return gradient != CHUNK_NONE ? gradient : walk_slot_fp16(chunk);
}

/* All of these on the device together. */
static enum status access_group(struct walk *w, uint32_t first, uint32_t count, bool gradients)
{
    enum status status = STATUS_OK;
    for (uint32_t i = first; i < first + count && status == STATUS_OK; i++) {
        uint32_t slot = group_slot(w, i, gradients);
        status = chunk_access_at(&w->residency, slot, PLACE_DEVICE, w->error);
        w->residency.chunks[slot].pinned = true;
    }
    for (uint32_t i = first; i < first + count; i++) {
        w->residency.chunks[group_slot(w, i, gradients)].pinned = false;
    }
    return status;
}

/* E.5: the hooks of a repeated forward are those of a forward. A chunk that lies wholly in the layer is then all HOLD_AFTER_FORWARD, is released, and comes again for the backward. */
enum status walk_gather_again(struct walk *w, uint32_t layer)
{
    uint32_t size = w->input->budget.memory_saving ? 1 : w->ranks, previous = CHUNK_NONE;
    uint32_t begin = w->layer_unit[layer], end = w->layer_unit[layer + 1];
    for (uint32_t u = begin; u < end; u++) {
        uint32_t chunk = w->layout->unit_chunk[u];
        if (chunk == CHUNK_NONE || chunk / size == previous) {
            continue;
        }
        previous = chunk / size;
        uint32_t first = previous * size, after = first + size;
        uint32_t last = after < w->layout->chunk_count ? w->chunk_unit[after] : w->units->count;
        if (w->chunk_unit[first] >= begin && last <= end) {
            TRY(access_group(w, first, size, false));
            walk_record(w, WALK_GATHER, walk_slot_fp16(first), true);
        }
    }
    return STATUS_OK;
}

/* ---- release ---- */

/* Dummies hold nothing that could be missing. */
static bool group_all_in(struct walk *w, uint32_t first, uint32_t count, enum tensor_state state)
{
    for (uint32_t i = first; i < first + count; i++) {
        if (!walk_is_dummy(w, i) && !chunk_all_in(&walk_fp16(w, i)->tensors, state)) {
            return false;
        }
    }
    return true;
}

static void free_remote(struct walk *w, uint32_t first, uint32_t count)
{
    for (uint32_t i = first; i < first + count; i++) {
        w->fetched[i] = 0;
        if (!walk_is_local(w, i)) {
            walk_move_chunk(w, i, STATE_RELEASE);
            chunk_release_payload(&w->residency, walk_slot_fp16(i));
        }
    }
}

/* Gradients of the group's chunks go to their owners. */
static enum status reduce(struct walk *w, uint32_t first, uint32_t count)
{
    TRY(access_group(w, first, count, true));
    walk_record(w, WALK_REDUCE, walk_slot_fp16(first), true);
    return STATUS_OK;
}

enum status walk_release_chunk(struct walk *w, uint32_t chunk, enum tensor_state state)
{
    bool saving = w->input->budget.memory_saving;
    uint32_t count = saving ? 1 : w->ranks, first = saving ? chunk : chunk / w->ranks * w->ranks;
    if (w->ranks == 1 || !group_all_in(w, first, count, state)) {
        return STATUS_OK;
    }
    if (saving ? !w->fetched[chunk] : (enum chunk_place)walk_fp16(w, first + (w->rank == 0))->place == PLACE_NONE) {
        return STATUS_OK; /* already done */
    }
    if (state == TENSOR_HOLD_AFTER_BACKWARD) {
        TRY(reduce(w, first, count));
    }
    free_remote(w, first, count);
    return STATUS_OK;
}
