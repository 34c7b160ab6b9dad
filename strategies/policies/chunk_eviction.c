#include "strategies/policies/chunk_eviction.h"

#include "sim/base/check.h"

enum status chunk_moments_build(struct chunk_moments *moments, uint32_t chunk_count, uint32_t moment_count,
                                const struct chunk_access *accesses, uint32_t access_count, struct arena *arena,
                                struct error *error)
{
    *moments = (struct chunk_moments){ .chunk_count = chunk_count, .moment_count = moment_count };
    for (uint32_t place = 0; place < PLACE_COUNT; place++) {
        uint32_t *first = arena_array(arena, uint32_t, (size_t)chunk_count + 1);
        uint32_t *fill = arena_array(arena, uint32_t, chunk_count);
        uint32_t *list = arena_array(arena, uint32_t, access_count);
        if (first == NULL || fill == NULL || list == NULL) {
            return error_set(error, STATUS_NO_MEMORY, "out of memory for the moments of %u chunks", chunk_count);
        }
        for (uint32_t i = 0; i < access_count; i++) {
            CHECK(accesses[i].chunk < chunk_count && accesses[i].moment < moment_count);
            CHECK(i == 0 || accesses[i].moment >= accesses[i - 1].moment);
            first[accesses[i].chunk + 1] += (uint32_t)accesses[i].place == place;
        }
        for (uint32_t i = 0; i < chunk_count; i++) {
            first[i + 1] += first[i];
        }
        for (uint32_t i = 0; i < access_count; i++) {
            if ((uint32_t)accesses[i].place == place) {
                list[first[accesses[i].chunk] + fill[accesses[i].chunk]++] = accesses[i].moment;
            }
        }
        moments->first[place] = first;
        moments->moments[place] = list;
    }
    return STATUS_OK;
}

uint64_t chunk_next_use(const struct chunk_moments *moments, uint32_t chunk, enum chunk_place place, uint32_t now)
{
    const uint32_t *list = moments->moments[place];
    uint32_t low = moments->first[place][chunk], end = moments->first[place][chunk + 1], high = end;
    if (low == end) {
        return 2 * (uint64_t)moments->moment_count;
    }
    uint32_t begin = low;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (list[middle] > now) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return low < end ? list[low] : (uint64_t)moments->moment_count + list[begin];
}

static uint64_t scramble(uint64_t x)
{
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

struct chunk_key chunk_eviction_key(const struct chunk_evictor *evictor, uint32_t chunk, enum chunk_place place,
                                    uint32_t now, uint64_t clock, const struct chunk_history *history)
{
    struct chunk_key key = { 0, 0 };
    uint64_t unused = clock - history->last_access;
    switch (evictor->policy) {
    case EVICT_NEXT_USE:
        key.first = evictor->moments == NULL ? 0 : chunk_next_use(evictor->moments, chunk, place, now);
        return key;
    case EVICT_LOOKAHEAD:
        if (evictor->moments != NULL) {
            uint64_t next = chunk_next_use(evictor->moments, chunk, place, now);
            bool seen = next <= (uint64_t)now + evictor->lookahead;
            key.first = seen ? next : UINT64_MAX;
            key.second = seen ? 0 : unused;
        }
        return key;
    case EVICT_LRU: key.first = unused; return key;
    case EVICT_FIFO: key.first = clock - history->arrival; return key;
    case EVICT_LFU:
        key.first = UINT64_MAX - history->accesses;
        key.second = unused;
        return key;
    case EVICT_RANDOM: key.first = scramble(scramble(evictor->seed + evictor->draws) + chunk); return key;
    case CHUNK_EVICTION_COUNT: break;
    }
    check_failed("an eviction policy", __FILE__, __LINE__);
    return key;
}

bool chunk_key_before(struct chunk_key a, uint32_t a_chunk, struct chunk_key b, uint32_t b_chunk)
{
    if (a.first != b.first) {
        return a.first > b.first;
    }
    return a.second != b.second ? a.second > b.second : a_chunk < b_chunk;
}
