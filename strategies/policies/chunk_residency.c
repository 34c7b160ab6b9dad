#include "strategies/policies/chunk_residency.h"

#include "sim/base/check.h"

static const char *const PLACE_WORDS[] = { "device", "host", "nowhere" };

enum status chunk_residency_init(struct chunk_residency *residency, uint32_t chunk_count, struct arena *arena,
                                 struct error *error)
{
    *residency = (struct chunk_residency){ .chunk_count = chunk_count };
    residency->chunks = arena_array(arena, struct resident_chunk, chunk_count);
    if (residency->chunks == NULL) {
        return error_set(error, STATUS_NO_MEMORY, "out of memory for %u chunks", chunk_count);
    }
    for (uint32_t i = 0; i < chunk_count; i++) {
        residency->chunks[i].place = PLACE_NONE;
    }
    return STATUS_OK;
}

bool chunk_is_movable(const struct chunk_residency *residency, uint32_t chunk)
{
    const struct resident_chunk *c = &residency->chunks[chunk];
    enum chunk_state state = chunk_state_of(&c->tensors, c->place != PLACE_NONE);
    return state != CHUNK_RELEASED && state != CHUNK_COMPUTE && state != CHUNK_FREE && !c->pinned;
}

static void set_place(struct chunk_residency *r, uint32_t chunk, enum chunk_place to)
{
    struct resident_chunk *c = &r->chunks[chunk];
    enum chunk_place from = (enum chunk_place)c->place;
    if (from != PLACE_NONE) {
        r->used[from] -= c->bytes[from];
    }
    if (to != PLACE_NONE) {
        r->used[to] += c->bytes[to];
        r->moved_bytes[to] += from == PLACE_NONE ? 0 : c->payload_bytes;
        c->history.arrival = r->clock;
    }
    c->place = (uint8_t)to;
    if (r->changed != NULL) {
        r->changed(r->context, chunk, from, to);
    }
}

uint32_t chunk_victim(const struct chunk_residency *r, enum chunk_place place)
{
    uint32_t best = r->chunk_count;
    struct chunk_key best_key = { 0, 0 };
    for (uint32_t i = 0; i < r->chunk_count; i++) {
        if ((enum chunk_place)r->chunks[i].place != place || !chunk_is_movable(r, i)) {
            continue;
        }
        struct chunk_key key = chunk_eviction_key(&r->evictor, i, place, r->now, r->clock, &r->chunks[i].history);
        if (best == r->chunk_count || chunk_key_before(key, i, best_key, best)) {
            best = i;
            best_key = key;
        }
    }
    return best;
}

enum status chunk_make_room(struct chunk_residency *r, enum chunk_place place, double bytes, struct error *error)
{
    enum chunk_place opposite = place == PLACE_DEVICE ? PLACE_HOST : PLACE_DEVICE;
    while (bytes > r->budget[place] - r->used[place]) {
        uint32_t leaving = chunk_victim(r, place);
        if (leaving == r->chunk_count) {
            r->lack = (struct chunk_lack){ true, (uint8_t)place, r->used[place] + bytes, r->budget[place] };
            return error_set(error, STATUS_DOES_NOT_FIT,
                             "%.4g GB of chunks do not fit the %s at moment %u: chunks may take %.4g GB there, %.4g GB "
                             "are taken, and none of them may leave",
                             bytes * 1e-9, PLACE_WORDS[place], r->now, r->budget[place] * 1e-9, r->used[place] * 1e-9);
        }
        double size = r->chunks[leaving].bytes[opposite];
        if (size > r->budget[opposite] - r->used[opposite]) {
            r->lack = (struct chunk_lack){ true, (uint8_t)opposite, r->used[opposite] + size, r->budget[opposite] };
            return error_set(error, STATUS_DOES_NOT_FIT,
                             "host and device together are too small for the chunks: at moment %u a chunk of %.4g GB "
                             "must leave the %s (%.4g of %.4g GB taken), but the %s has %.4g of %.4g GB taken",
                             r->now, size * 1e-9, PLACE_WORDS[place], r->used[place] * 1e-9, r->budget[place] * 1e-9,
                             PLACE_WORDS[opposite], r->used[opposite] * 1e-9, r->budget[opposite] * 1e-9);
        }
        r->evictions++;
        r->evictor.draws++;
        set_place(r, leaving, opposite);
    }
    return STATUS_OK;
}

enum status chunk_access_at(struct chunk_residency *r, uint32_t chunk, enum chunk_place place, struct error *error)
{
    CHECK(chunk < r->chunk_count && place != PLACE_NONE);
    struct resident_chunk *c = &r->chunks[chunk];
    r->clock++;
    if ((enum chunk_place)c->place != place) {
        bool pinned = c->pinned;
        c->pinned = true; /* what comes must not be what makes room */
        enum status status = chunk_make_room(r, place, c->bytes[place], error);
        c->pinned = pinned;
        TRY(status);
        set_place(r, chunk, place);
    }
    c->history.last_access = r->clock;
    c->history.accesses++;
    return STATUS_OK;
}

void chunk_move_to(struct chunk_residency *r, uint32_t chunk, enum chunk_place place)
{
    CHECK(r->chunks[chunk].bytes[place] <= r->budget[place] - r->used[place]);
    set_place(r, chunk, place);
}

void chunk_release_payload(struct chunk_residency *r, uint32_t chunk)
{
    if ((enum chunk_place)r->chunks[chunk].place != PLACE_NONE) {
        set_place(r, chunk, PLACE_NONE);
    }
}
