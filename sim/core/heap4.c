#include "sim/core/heap4.h"

#include <stddef.h>

#include "sim/base/check.h"

enum { CACHE_LINE_BYTES = 64, SLOT_COUNT_MAX = 1 << 28 };

_Static_assert(sizeof(struct heap4_key) * 4 == CACHE_LINE_BYTES, "four children share a cache line");

__extension__ typedef unsigned __int128 wide;

/* One comparison without a branch instead of two with. */
static inline wide wide_key(const struct heap4_key *key)
{
    return (wide)key->rank << 64 | key->low;
}

/* The children of i are at 4i - 8 .. 4i - 5: those of the root (3) at 4 .. 7. */
static inline uint32_t first_child(uint32_t i)
{
    return 4 * i - 8;
}

static inline uint32_t parent_of(uint32_t i)
{
    return i / 4 + 2;
}

static inline void put_at(struct heap4 *heap, uint32_t i, struct heap4_key key)
{
    heap->keys[i] = key;
    heap->position[heap4_slot(&key)] = i;
}

/* The index of the least of the children from `child` on, of which `end` is the first that does not exist. */
static inline uint32_t least_child(const struct heap4_key *keys, uint32_t child, uint32_t end)
{
    if (child + 4 <= end) {
        uint32_t a = child + (wide_key(&keys[child + 1]) < wide_key(&keys[child]));
        uint32_t b = child + 2 + (wide_key(&keys[child + 3]) < wide_key(&keys[child + 2]));
        return wide_key(&keys[b]) < wide_key(&keys[a]) ? b : a;
    }
    uint32_t least = child;
    for (uint32_t i = child + 1; i < end; i++) {
        least = wide_key(&keys[i]) < wide_key(&keys[least]) ? i : least;
    }
    return least;
}

static void sift_up(struct heap4 *heap, uint32_t i, struct heap4_key key)
{
    while (i > HEAP4_ROOT) {
        uint32_t parent = parent_of(i);
        if (wide_key(&heap->keys[parent]) < wide_key(&key)) {
            break;
        }
        put_at(heap, i, heap->keys[parent]);
        i = parent;
    }
    put_at(heap, i, key);
}

static void sift_down(struct heap4 *heap, uint32_t i, struct heap4_key key)
{
    struct heap4_key *keys = heap->keys;
    uint32_t end = HEAP4_ROOT + heap->count;
    for (uint32_t child; (child = first_child(i)) < end;) {
        uint32_t next = first_child(child);
        if (next + 16 <= end) {
            /* The next level's four lines are under way while this one is compared: large heaps live outside the
             * near caches. */
            __builtin_prefetch(&keys[next]);
            __builtin_prefetch(&keys[next + 4]);
            __builtin_prefetch(&keys[next + 8]);
            __builtin_prefetch(&keys[next + 12]);
        }
        uint32_t least = least_child(keys, child, end);
        if (wide_key(&key) < wide_key(&keys[least])) {
            break;
        }
        put_at(heap, i, keys[least]);
        i = least;
    }
    put_at(heap, i, key);
}

/* Move the last entry into the hole. */
static void fill_hole(struct heap4 *heap)
{
    heap->hole = false;
    heap->count--;
    if (heap->count > 0) {
        sift_down(heap, HEAP4_ROOT, heap->keys[HEAP4_ROOT + heap->count]);
    }
}

/* The sequence has run out: number the entries anew, in their order. An array in order is a heap. */
static void renumber(struct heap4 *heap)
{
    struct heap4_key *keys = heap->keys + HEAP4_ROOT;
    uint32_t gap = 1;
    while (gap < heap->count / 3) {
        gap = 3 * gap + 1;
    }
    for (; gap > 0; gap /= 3) { /* Shell's sort: in place, once in four thousand million events */
        for (uint32_t i = gap; i < heap->count; i++) {
            struct heap4_key key = keys[i];
            uint32_t at = i;
            for (; at >= gap && wide_key(&key) < wide_key(&keys[at - gap]); at -= gap) {
                keys[at] = keys[at - gap];
            }
            keys[at] = key;
        }
    }
    /* The hole's old entry sorts first, at the root, and its slot may meanwhile be elsewhere: leave that slot's
     * position alone. */
    for (uint32_t i = 0; i < heap->count; i++) {
        keys[i].low = (uint64_t)i << 32 | (uint32_t)keys[i].low;
        if (i > 0 || !heap->hole) {
            heap->position[heap4_slot(&keys[i])] = HEAP4_ROOT + i;
        }
    }
    heap->sequence = heap->count;
}

static inline struct heap4_key new_key(struct heap4 *heap, uint32_t slot, uint64_t rank)
{
    if (heap->sequence == UINT32_MAX) {
        renumber(heap);
    }
    return (struct heap4_key){ .low = (uint64_t)heap->sequence++ << 32 | slot, .rank = rank };
}

enum status heap4_init(struct heap4 *heap, struct arena *arena, uint32_t slot_count, struct error *error)
{
    CHECK(slot_count <= SLOT_COUNT_MAX);
    *heap = (struct heap4){ .slot_count = slot_count };
    char *memory =
        arena_alloc(arena, (size_t)slot_count + HEAP4_ROOT + CACHE_LINE_BYTES / sizeof *heap->keys, sizeof *heap->keys);
    heap->position = arena_array(arena, uint32_t, slot_count);
    if (memory == NULL || heap->position == NULL) {
        return error_set(error, STATUS_NO_MEMORY, "out of memory: a queue of %u slots", slot_count);
    }
    memory += -(uintptr_t)memory % CACHE_LINE_BYTES;
    heap->keys = (struct heap4_key *)(void *)memory;
    for (uint32_t slot = 0; slot < slot_count; slot++) {
        heap->position[slot] = HEAP4_ABSENT;
    }
    return STATUS_OK;
}

void heap4_clear(struct heap4 *heap)
{
    for (uint32_t i = heap->hole; i < heap->count; i++) {
        heap->position[heap4_slot(&heap->keys[HEAP4_ROOT + i])] = HEAP4_ABSENT;
    }
    heap->count = 0;
    heap->sequence = 0;
    heap->hole = false;
}

void heap4_insert(struct heap4 *heap, uint32_t slot, uint64_t rank)
{
    CHECK(slot < heap->slot_count);
    CHECK_DEBUG(heap->position[slot] == HEAP4_ABSENT);
    struct heap4_key key = new_key(heap, slot, rank);
    if (heap->hole) {
        CHECK_DEBUG(rank >= heap->keys[HEAP4_ROOT].rank);
        heap->hole = false;
        sift_down(heap, HEAP4_ROOT, key);
    } else {
        heap->count++;
        sift_up(heap, HEAP4_ROOT + heap->count - 1, key);
    }
}

void heap4_move(struct heap4 *heap, uint32_t slot, uint64_t rank)
{
    struct heap4_key key = new_key(heap, slot, rank);
    uint32_t i = heap->position[slot];
    if (rank < heap->keys[i].rank) {
        sift_up(heap, i, key);
    } else {
        sift_down(heap, i, key);
    }
}

void heap4_remove(struct heap4 *heap, uint32_t slot)
{
    uint32_t i = heap->position[slot];
    CHECK(i != HEAP4_ABSENT);
    heap->position[slot] = HEAP4_ABSENT;
    heap->count--;
    uint32_t end = HEAP4_ROOT + heap->count;
    if (i == end) {
        return;
    }
    struct heap4_key key = heap->keys[end];
    if (i > HEAP4_ROOT && wide_key(&key) < wide_key(&heap->keys[parent_of(i)])) {
        sift_up(heap, i, key);
    } else {
        sift_down(heap, i, key);
    }
}

const struct heap4_key *heap4_top(const struct heap4 *heap)
{
    if (!heap->hole) {
        return heap->count == 0 ? NULL : &heap->keys[HEAP4_ROOT];
    }
    if (heap->count == 1) {
        return NULL;
    }
    return &heap->keys[least_child(heap->keys, first_child(HEAP4_ROOT), HEAP4_ROOT + heap->count)];
}

uint32_t heap4_take(struct heap4 *heap)
{
    if (heap->hole) {
        fill_hole(heap);
    }
    CHECK(heap->count > 0);
    uint32_t slot = heap4_slot(&heap->keys[HEAP4_ROOT]);
    heap->position[slot] = HEAP4_ABSENT;
    heap->hole = true;
    return slot;
}
