#include "strategies/policies/chunk_layout.h"

#include <inttypes.h>

#include "sim/base/check.h"

static enum status no_memory(struct error *error)
{
    return error_set(error, STATUS_NO_MEMORY, "out of memory for a chunk layout");
}

/* Chunks that next-fit opens, at most: never more than units. */
static enum status place(struct chunk_layout *layout, const struct chunk_units *units, bool embedding_outside,
                         struct error *error)
{
    for (uint32_t i = 0; i < units->count; i++) {
        const struct chunk_unit *unit = &units->items[i];
        uint64_t elements = chunk_unit_elements(unit);
        layout->unit_chunk[i] = CHUNK_NONE;
        if (unit->embedding && embedding_outside) {
            layout->outside += elements;
            continue;
        }
        if (elements > layout->capacity) {
            uint64_t mebi = (elements + CHUNK_MEBI - 1) / CHUNK_MEBI;
            return error_set(error, STATUS_BAD_INPUT,
                             "a chunk of %" PRIu64 " elements (%.6g Mi) cannot hold the module %s of %" PRIu64
                             " elements: the smallest that would is %" PRIu64 " (%" PRIu64 " Mi)%s",
                             layout->capacity, (double)layout->capacity / (double)CHUNK_MEBI, unit->name, elements,
                             mebi * CHUNK_MEBI, mebi, unit->embedding ? ", or embedding_on_cpu" : "");
        }
        uint64_t *last = layout->chunk_count == 0 ? NULL : &layout->filled[layout->chunk_count - 1];
        if (last == NULL || elements > layout->capacity - *last) {
            last = &layout->filled[layout->chunk_count++];
        }
        layout->unit_chunk[i] = layout->chunk_count - 1;
        layout->unit_offset[i] = *last;
        *last += elements;
    }
    return STATUS_OK;
}

enum status chunk_layout_build(struct chunk_layout *layout, const struct chunk_units *units, uint64_t capacity,
                               uint32_t ranks, bool embedding_outside, struct arena *arena, struct error *error)
{
    *layout = (struct chunk_layout){ .capacity = capacity, .ranks = ranks };
    layout->filled = arena_array(arena, uint64_t, (size_t)units->count + ranks);
    layout->unit_chunk = arena_array(arena, uint32_t, units->count);
    layout->unit_offset = arena_array(arena, uint64_t, units->count);
    if (layout->filled == NULL || layout->unit_chunk == NULL || layout->unit_offset == NULL) {
        return no_memory(error);
    }
    TRY(place(layout, units, embedding_outside, error));
    layout->padded_count = (layout->chunk_count + ranks - 1) / ranks * ranks;
    return STATUS_OK;
}

uint32_t chunk_layout_owned(const struct chunk_layout *layout, uint32_t rank)
{
    return layout->chunk_count / layout->ranks + (rank < layout->chunk_count % layout->ranks);
}

double chunk_layout_utilisation(const struct chunk_layout *layout)
{
    double sum = 0;
    for (uint32_t i = 0; i < layout->chunk_count; i++) {
        sum += (double)layout->filled[i] / (double)layout->capacity;
    }
    return layout->chunk_count == 0 ? 0 : sum / layout->chunk_count;
}

double chunk_layout_bytes(const struct chunk_layout *layout)
{
    return (double)layout->capacity * (2.0 * layout->padded_count + 12.0 * layout->chunk_count);
}

double chunk_layout_gradient_bytes(const struct chunk_layout *layout)
{
    return 2.0 * (double)layout->capacity * layout->chunk_count;
}
