/* Where chunks are: a simulation of PatrickStar's chunk list (core/chunk_list.py) in issue order. It moves bytes between a device and its host under two budgets and reports every move.
 *
 * access(chunk, place): no payload: room is made for its size and it is allocated there; on the other place: room is made and it moves; else a hit. Room: victims by the evictor until the
 * freed bytes cover what is missing; each moves to the opposite place and the access fails when the opposite budget has no room for it (STATUS_DOES_NOT_FIT: the host and the device together are too
 * small). Chunks that compute, are pinned, are FREE or have no payload never leave.
 *
 *     struct chunk_residency residency;
 *     TRY(chunk_residency_init(&residency, count, &arena, error));
 *     residency.chunks[i].bytes[place] = ...;   residency.budget[PLACE_DEVICE] = ...;
 *     TRY(chunk_access_at(&residency, chunk, PLACE_DEVICE, error));
 *
 * An access is O(chunks) when it has to make room, else O(1). */
#ifndef MEMWALL_STRATEGIES_CHUNK_RESIDENCY_H
#define MEMWALL_STRATEGIES_CHUNK_RESIDENCY_H

#include "strategies/policies/chunk_eviction.h"
#include "strategies/policies/chunk_states.h"

struct resident_chunk {
    double bytes[PLACE_COUNT]; /* what its payload takes there: a page-locked one may be rounded up */
    double payload_bytes;      /* what moves */
    struct chunk_tensors tensors;
    struct chunk_history history;
    uint8_t place; /* enum chunk_place */
    bool pinned;   /* by a collective */
};

/* Why an access failed: the place that had no room, what would have been there, what may be. */
struct chunk_lack {
    bool present;
    uint8_t place; /* enum chunk_place */
    double needed_bytes, budget_bytes;
};

struct chunk_residency {
    struct resident_chunk *chunks;
    uint32_t chunk_count;
    double budget[PLACE_COUNT], used[PLACE_COUNT];
    struct chunk_evictor evictor;
    uint32_t now; /* moment */
    uint64_t clock;
    double moved_bytes[PLACE_COUNT]; /* by where to */
    uint64_t evictions;
    struct chunk_lack lack; /* after STATUS_DOES_NOT_FIT */
    /* Called for each change of place, in order, after it; NULL: nobody listens. */
    void (*changed)(void *context, uint32_t chunk, enum chunk_place from, enum chunk_place to);
    void *context;
};

/* No chunk has a payload; budgets are 0. Arrays are the arena's. */
enum status chunk_residency_init(struct chunk_residency *residency, uint32_t chunk_count, struct arena *arena,
                                 struct error *error);

enum status chunk_access_at(struct chunk_residency *residency, uint32_t chunk, enum chunk_place place,
                            struct error *error);
/* So that `bytes` more fit `place`. */
enum status chunk_make_room(struct chunk_residency *residency, enum chunk_place place, double bytes,
                            struct error *error);
/* The movable chunk on `place` that leaves first; chunk_count: none may. */
uint32_t chunk_victim(const struct chunk_residency *residency, enum chunk_place place);
/* To where there is room. */
void chunk_move_to(struct chunk_residency *residency, uint32_t chunk, enum chunk_place place);
/* Frees the payload. */
void chunk_release_payload(struct chunk_residency *residency, uint32_t chunk);
/* May it leave its place now? */
bool chunk_is_movable(const struct chunk_residency *residency, uint32_t chunk);

#endif
