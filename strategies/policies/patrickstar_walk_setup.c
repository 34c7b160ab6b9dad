/* Slots, and a walk before its first pass. */
#include <math.h>

#include "sim/base/array.h"
#include "sim/base/check.h"
#include "strategies/policies/patrickstar_walk_internal.h"

/* ---- slots ---- */

uint32_t walk_slot(const struct chunk_layout *layout, enum walk_list list, uint32_t chunk)
{
    uint32_t own = chunk / layout->ranks;
    switch (list) {
    case WALK_FP16: return 2 * chunk;
    case WALK_FP32: return 2 * chunk + 1;
    case WALK_MOMENTUM: return 2 * layout->padded_count + 2 * own;
    case WALK_VARIANCE: return 2 * layout->padded_count + 2 * own + 1;
    case WALK_GRADIENT: return 2 * layout->padded_count + 2 * (layout->padded_count / layout->ranks) + own;
    }
    check_failed("a chunk list", __FILE__, __LINE__);
    return 0;
}

enum walk_list walk_slot_list(const struct chunk_layout *layout, uint32_t rank, uint32_t slot, uint32_t *chunk)
{
    uint32_t parameters = 2 * layout->padded_count, moments = 2 * (layout->padded_count / layout->ranks);
    if (slot >= parameters + moments) {
        *chunk = (slot - parameters - moments) * layout->ranks + rank;
        return WALK_GRADIENT;
    }
    if (slot < parameters) {
        *chunk = slot / 2;
        return slot % 2 == 0 ? WALK_FP16 : WALK_FP32;
    }
    *chunk = (slot - parameters) / 2 * layout->ranks + rank;
    return slot % 2 == 0 ? WALK_MOMENTUM : WALK_VARIANCE;
}

double walk_slot_bytes(const struct chunk_layout *layout, uint32_t slot)
{
    uint32_t chunk;
    enum walk_list list = walk_slot_list(layout, 0, slot, &chunk);
    return (list == WALK_FP16 || list == WALK_GRADIENT ? 2.0 : 4.0) * (double)layout->capacity;
}

double walk_host_bytes(const struct walk_input *input, double bytes)
{
    return input->rounds_pinned ? exp2(ceil(log2(bytes))) : bytes;
}

const char *walk_list_word(enum walk_list list)
{
    static const char *const words[] = { "fp16", "fp32", "momentum", "variance", "gradient" };
    CHECK((unsigned)list < sizeof words / sizeof words[0]);
    return words[list];
}

/* ---- units, chunks, places ---- */

uint32_t walk_unit_count(const struct walk *w, uint32_t layer)
{
    bool tied = layer + 1 == w->layers && w->input->tied_unit != CHUNK_NONE;
    return w->layer_unit[layer + 1] - w->layer_unit[layer] + tied;
}

uint32_t walk_unit(const struct walk *w, uint32_t layer, uint32_t i)
{
    uint32_t own = w->layer_unit[layer + 1] - w->layer_unit[layer];
    return i < own ? w->layer_unit[layer] + i : w->input->tied_unit;
}

uint32_t walk_own_chunk(const struct walk *w, uint32_t unit)
{
    uint32_t chunk = w->layout->unit_chunk[unit];
    if (chunk == CHUNK_NONE || walk_is_local(w, chunk)) {
        return chunk;
    }
    return w->input->budget.memory_saving ? CHUNK_NONE : chunk / w->ranks * w->ranks + w->rank;
}

uint32_t walk_gradient_slot(const struct walk_input *input, uint32_t chunk)
{
    bool has = input->gradient_chunks && chunk < input->layout->chunk_count &&
               chunk_owner(input->layout, chunk) == input->rank;
    return has ? walk_slot(input->layout, WALK_GRADIENT, chunk) : CHUNK_NONE;
}

enum chunk_place walk_adam_place(const struct walk *w, uint32_t number)
{
    return w->input->device_adam && (double)number < w->margin ? PLACE_DEVICE : PLACE_HOST;
}

/* ---- preparation ---- */

/* First units of chunks and layers. */
static enum status index_units(struct walk *w, struct arena *arena)
{
    const struct chunk_units *units = w->units;
    w->layers = 0;
    for (uint32_t u = 0; u < units->count; u++) {
        w->layers = units->items[u].layer + 1 > w->layers ? units->items[u].layer + 1 : w->layers;
    }
    for (uint32_t k = 0; k < w->input->pass_count; k++) {
        uint32_t layer = w->input->passes[k].layer;
        w->layers = layer + 1 > w->layers ? layer + 1 : w->layers;
    }
    w->layer_unit = arena_array(arena, uint32_t, (size_t)w->layers + 1);
    w->chunk_unit = arena_array(arena, uint32_t, w->layout->padded_count);
    w->unit_state = arena_array(arena, uint8_t, units->count);
    w->fetched = arena_array(arena, uint8_t, w->layout->padded_count);
    if (w->layer_unit == NULL || w->chunk_unit == NULL || w->unit_state == NULL || w->fetched == NULL) {
        return error_set(w->error, STATUS_NO_MEMORY, "out of memory for a walk over %u modules", units->count);
    }
    for (uint32_t c = 0; c < w->layout->padded_count; c++) {
        w->chunk_unit[c] = units->count;
    }
    for (uint32_t u = units->count; u-- > 0;) {
        if (w->layout->unit_chunk[u] != CHUNK_NONE) {
            w->chunk_unit[w->layout->unit_chunk[u]] = u;
        }
    }
    for (uint32_t u = 0, layer = 0; layer <= w->layers; layer++) {
        while (u < units->count && units->items[u].layer < layer) {
            u++;
        }
        w->layer_unit[layer] = u;
    }
    return STATUS_OK;
}

/* All own chunks start on the host, as the model's construction leaves them, or on the device if the host is full; optimizer states come with the first Adam. */
static enum status place_chunks(struct walk *w, struct arena *arena)
{
    uint32_t owned = w->layout->padded_count / w->ranks;
    uint32_t lists = w->input->gradient_chunks ? 3 : 2; /* beside the parameters */
    TRY(chunk_residency_init(&w->residency, 2 * w->layout->padded_count + lists * owned, arena, w->error));
    struct chunk_residency *r = &w->residency;
    r->budget[PLACE_HOST] = w->input->budget.cpu_bytes;
    r->budget[PLACE_DEVICE] = w->input->budget.gpu_bytes;
    for (uint32_t s = 0; s < r->chunk_count; s++) {
        double bytes = walk_slot_bytes(w->layout, s);
        r->chunks[s].payload_bytes = r->chunks[s].bytes[PLACE_DEVICE] = bytes;
        r->chunks[s].bytes[PLACE_HOST] = walk_host_bytes(w->input, bytes);
        r->chunks[s].tensors.counts[TENSOR_FREE] = 1;
    }
    for (uint32_t c = 0; c < w->layout->padded_count; c++) {
        walk_fp16(w, c)->tensors.counts[TENSOR_FREE] = walk_is_dummy(w, c); /* a dummy holds one empty tensor */
    }
    for (uint32_t u = 0; u < w->units->count; u++) {
        if (w->layout->unit_chunk[u] != CHUNK_NONE) {
            walk_fp16(w, w->layout->unit_chunk[u])->tensors.counts[TENSOR_FREE]++;
        }
    }
    for (uint32_t c = w->rank; c < w->layout->padded_count; c += w->ranks) {
        TRY(chunk_access_at(r, walk_slot_fp16(c), PLACE_HOST, w->error));
        walk_move_chunk(w, c, STATE_FILL);
        walk_move_chunk(w, c, STATE_FILLED);
        if (!walk_is_dummy(w, c) && !walk_is_stored(w, c)) {
            uint32_t slot = walk_slot(w->layout, WALK_FP32, c);
            TRY(chunk_access_at(r, slot, PLACE_HOST, w->error));
            chunk_tensors_all(&r->chunks[slot].tensors, STATE_FILL);
            chunk_tensors_all(&r->chunks[slot].tensors, STATE_FILLED);
        }
    }
    return STATUS_OK;
}

/* What warm-up will record: accesses do not depend on where chunks are. */
static enum status record_moments(struct walk *w, struct arena *arena)
{
    struct {
        struct chunk_access *items;
        size_t count, capacity;
    } list = { 0 };
    enum status status = STATUS_OK;
    uint32_t passes = w->input->pass_count, number = 0;
    for (uint32_t k = 0; k < passes && status == STATUS_OK; k++) {
        uint32_t layer = w->input->passes[k].layer;
        for (uint32_t i = 0; i < walk_unit_count(w, layer) && status == STATUS_OK; i++) {
            uint32_t unit = walk_unit(w, layer, i), chunk = w->layout->unit_chunk[unit], own = walk_own_chunk(w, unit);
            status = array_reserve(&list, 3, w->error);
            if (status == STATUS_OK && chunk != CHUNK_NONE) {
                list.items[list.count++] = (struct chunk_access){ walk_slot_fp16(chunk), k, PLACE_DEVICE };
                if (own != CHUNK_NONE && own != chunk) {
                    list.items[list.count++] = (struct chunk_access){ walk_slot_fp16(own), k, PLACE_DEVICE };
                }
                uint32_t gradient = walk_gradient_slot(w->input, chunk);
                if (gradient != CHUNK_NONE && w->input->passes[k].backward) {
                    list.items[list.count++] = (struct chunk_access){ gradient, k, PLACE_DEVICE };
                }
            }
        }
    }
    bool adam = !w->input->warmup_without_adam;
    for (uint32_t c = w->rank; adam && c < w->layout->chunk_count && status == STATUS_OK; c += w->ranks) {
        enum chunk_place place = walk_adam_place(w, ++number);
        status = array_reserve(&list, 3, w->error);
        for (uint32_t i = WALK_FP32; i <= WALK_VARIANCE && status == STATUS_OK && !walk_is_stored(w, c); i++) {
            list.items[list.count++] =
                (struct chunk_access){ walk_slot(w->layout, (enum walk_list)i, c), passes, place };
        }
    }
    if (status == STATUS_OK) {
        status = chunk_moments_build(&w->moments, w->residency.chunk_count, passes + adam, list.items,
                                     (uint32_t)list.count, arena, w->error);
    }
    array_free(&list);
    return status;
}

enum status walk_prepare(struct walk *w, struct arena *arena)
{
    TRY(index_units(w, arena));
    TRY(place_chunks(w, arena));
    return record_moments(w, arena);
}
