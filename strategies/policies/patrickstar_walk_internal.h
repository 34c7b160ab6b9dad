/* The walk's state, shared by the patrickstar_walk*.c files only.
 *
 *   patrickstar_walk.c        passes, Adam, iterations until the placement repeats
 *   patrickstar_walk_chunks.c chunks: what is written down, states of tensors, access and release
 *   patrickstar_walk_setup.c  slots, first placement, moments */
#ifndef MEMWALL_STRATEGIES_PATRICKSTAR_WALK_INTERNAL_H
#define MEMWALL_STRATEGIES_PATRICKSTAR_WALK_INTERNAL_H

#include "strategies/policies/patrickstar_walk.h"

struct walk {
    const struct walk_input *input;
    const struct chunk_units *units;
    const struct chunk_layout *layout;
    struct chunk_residency residency;
    struct chunk_moments moments;
    struct {
        struct walk_action *items;
        size_t count, capacity;
    } actions;
    uint8_t *unit_state;  /* [units] */
    uint32_t *chunk_unit; /* first unit of a chunk [padded_count]; units.count: none (a dummy) */
    uint32_t *layer_unit; /* first unit of a layer [layers + 1] */
    uint8_t *fetched;     /* memory saving: the owner has sent this chunk [padded_count] */
    uint32_t layers;
    uint32_t ranks, rank;
    bool warmup, after, prefetching;
    double margin, max_nonmodel;
    double peak_bytes[PLACE_COUNT];
    enum status status; /* of the recording, which cannot return one */
    struct error *error;
};

static inline bool walk_is_local(const struct walk *w, uint32_t chunk)
{
    return chunk % w->ranks == w->rank;
}

static inline bool walk_is_dummy(const struct walk *w, uint32_t chunk)
{
    return chunk >= w->layout->chunk_count;
}

/* Do the optimizer states of this own chunk lie on a drive? */
static inline bool walk_is_stored(const struct walk *w, uint32_t chunk)
{
    return chunk / w->ranks + w->input->stored >= chunk_layout_owned(w->layout, w->rank);
}

static inline struct resident_chunk *walk_fp16(struct walk *w, uint32_t chunk)
{
    return &w->residency.chunks[walk_slot_fp16(chunk)];
}

/* patrickstar_walk_setup.c. Units by chunk and layer, own chunks on the host, the moments that warm-up will record. */
enum status walk_prepare(struct walk *w, struct arena *arena);
/* The i-th unit that a layer uses: its own, and for the last layer the tied table. */
uint32_t walk_unit_count(const struct walk *w, uint32_t layer);
uint32_t walk_unit(const struct walk *w, uint32_t layer, uint32_t i);
/* The chunk that this rank itself must bring up for a unit; CHUNK_NONE: none. */
uint32_t walk_own_chunk(const struct walk *w, uint32_t unit);
/* Where the number-th own chunk (from 1) is updated. */
enum chunk_place walk_adam_place(const struct walk *w, uint32_t number);

/* patrickstar_walk_chunks.c */
void walk_record(struct walk *w, enum walk_kind kind, uint32_t slot, bool on_device);
/* chunk_residency.changed: writes each change of place down. */
void walk_place_changed(void *context, uint32_t slot, enum chunk_place from, enum chunk_place to);
/* An event meets one unit's tensors, or every tensor of an fp16 chunk that it applies to. */
void walk_move_unit(struct walk *w, uint32_t unit, enum state_event event);
void walk_move_chunk(struct walk *w, uint32_t chunk, enum state_event event);
/* The unit's chunk on the device, gathered if it must be; then the event. */
enum status walk_access_unit(struct walk *w, uint32_t unit, enum state_event event);
/* Chunks that a pass's layer holds alone come once more (E.5). */
enum status walk_gather_again(struct walk *w, uint32_t layer);
/* After a pass: when all tensors of the chunk (of its group) are in `state`, what is remote is reduced (after backward) and freed. */
enum status walk_release_chunk(struct walk *w, uint32_t chunk, enum tensor_state state);

#endif
