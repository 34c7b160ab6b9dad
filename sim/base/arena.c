#include "sim/base/arena.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ALIGNMENT = 16, FIRST_BLOCK_BYTES = 4096, SHARED_BLOCK_BYTES = 1 << 20 };

/* The header is 16 bytes, so that what follows is aligned as malloc aligned the block. */
struct arena_block {
    struct arena_block *next; /* older */
    size_t capacity_bytes;    /* after the header */
};
_Static_assert(sizeof(struct arena_block) % ALIGNMENT == 0, "the payload keeps malloc's alignment");

/* calloc clears large blocks by taking fresh pages, which cost nothing until they are touched. */
static struct arena_block *new_block(size_t capacity_bytes)
{
    struct arena_block *block = calloc(1, sizeof *block + capacity_bytes);
    if (block != NULL) {
        block->capacity_bytes = capacity_bytes;
    }
    return block;
}

/* A block for one large allocation goes behind the block that is being filled, which is filled further. Shared blocks grow meanwhile, up to a size at which
 * a call of malloc no longer counts. */
static void *alloc_alone(struct arena *arena, size_t bytes, size_t shared_bytes)
{
    struct arena_block *block = new_block(bytes);
    if (block == NULL) {
        return NULL;
    }
    if (arena->blocks == NULL) {
        arena->blocks = block;
        arena->used_bytes = bytes;
    } else {
        block->next = arena->blocks->next;
        arena->blocks->next = block;
    }
    arena->next_block_bytes = shared_bytes < SHARED_BLOCK_BYTES ? 2 * shared_bytes : shared_bytes;
    arena->total_bytes += bytes;
    return block + 1;
}

void *arena_alloc(struct arena *arena, size_t count, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes) || bytes > SIZE_MAX / 4) {
        return NULL;
    }
    if (arena->fail_after != 0 && --arena->fail_after == 0) {
        return NULL;
    }
    bytes = bytes == 0 ? ALIGNMENT : (bytes + ALIGNMENT - 1) & ~(size_t)(ALIGNMENT - 1);
    if (arena->blocks == NULL || bytes > arena->blocks->capacity_bytes - arena->used_bytes) {
        size_t capacity = arena->next_block_bytes == 0 ? FIRST_BLOCK_BYTES : arena->next_block_bytes;
        if (bytes > capacity / 2) {
            return alloc_alone(arena, bytes, capacity);
        }
        struct arena_block *block = new_block(capacity);
        if (block == NULL) {
            return NULL;
        }
        block->next = arena->blocks;
        arena->blocks = block;
        arena->used_bytes = 0;
        arena->next_block_bytes = capacity > SIZE_MAX / 4 ? capacity : 2 * capacity;
    }
    void *memory = (char *)(arena->blocks + 1) + arena->used_bytes;
    arena->used_bytes += bytes;
    arena->total_bytes += bytes;
    return memory;
}

char *arena_text_n(struct arena *arena, const char *text, size_t length)
{
    char *copy = length == SIZE_MAX ? NULL : arena_alloc(arena, length + 1, 1);
    if (copy != NULL && length != 0) {
        memcpy(copy, text, length);
    }
    return copy;
}

char *arena_text(struct arena *arena, const char *text)
{
    return arena_text_n(arena, text, strlen(text));
}

char *arena_printf(struct arena *arena, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    char *text = length < 0 ? NULL : arena_alloc(arena, (size_t)length + 1, 1);
    if (text != NULL) {
        va_start(arguments, format);
        (void)vsnprintf(text, (size_t)length + 1, format, arguments);
        va_end(arguments);
    }
    return text;
}

void arena_free(struct arena *arena)
{
    for (struct arena_block *block = arena->blocks; block != NULL;) {
        struct arena_block *next = block->next;
        free(block);
        block = next;
    }
    *arena = (struct arena){ 0 };
}
