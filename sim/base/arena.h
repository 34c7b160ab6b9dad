/* Arena: many allocations of one lifetime, freed together.
 *
 * Memory is zeroed, aligned to 16 bytes, and stays where it is until arena_free. Blocks double in size, so n bytes of
 * small allocations cost O(log n) calls of malloc; what is larger than half of the next block gets a block of its own
 * and leaves the present one to those that follow. An arena whose fields are all zero is valid and empty. Not thread-safe.
 *
 *     struct arena arena = { 0 };
 *     struct layer *layers = arena_array(&arena, struct layer, count);   // NULL when memory is out
 *     ...
 *     arena_free(&arena);
 *
 * Tests may make the n-th allocation fail: arena.fail_after. */
#ifndef MEMWALL_BASE_ARENA_H
#define MEMWALL_BASE_ARENA_H

#include <stddef.h>
#include <stdint.h>

struct arena_block;

struct arena {
    struct arena_block *blocks; /* first the one being filled */
    size_t used_bytes;          /* in the first of them */
    size_t total_bytes;         /* handed out so far */
    size_t next_block_bytes;    /* capacity of the next shared block; 0: the first */
    uint64_t fail_after;        /* 0: never; n: the n-th allocation from now returns NULL (tests) */
};

/* `count * size` zeroed bytes, or NULL when memory is out or the product overflows. count == 0 yields a valid
 * pointer. */
void *arena_alloc(struct arena *arena, size_t count, size_t size);
#define arena_array(arena, type, count) ((type *)arena_alloc((arena), (count), sizeof(type)))

/* A copy of `text` (of `length` bytes plus a terminator), or NULL. */
char *arena_text(struct arena *arena, const char *text);
char *arena_text_n(struct arena *arena, const char *text, size_t length);
/* printf into the arena, or NULL. */
char *arena_printf(struct arena *arena, const char *format, ...) __attribute__((format(printf, 2, 3)));

void arena_free(struct arena *arena);

#endif
