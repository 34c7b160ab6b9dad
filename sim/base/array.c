#include "sim/base/array.h"

#include <stdint.h>
#include <stdlib.h>

enum { FIRST_CAPACITY = 8 };

enum status array_grow(void **items, size_t count, size_t *capacity, size_t extra, size_t item_bytes,
                       struct error *error)
{
    if (extra <= *capacity - count) {
        return STATUS_OK;
    }
    size_t wanted, bytes;
    size_t doubled = *capacity > SIZE_MAX / 2 ? SIZE_MAX : 2 * *capacity;
    if (__builtin_add_overflow(count, extra, &wanted)) {
        return error_set(error, STATUS_NO_MEMORY, "out of memory: %zu more items", extra);
    }
    wanted = wanted < doubled ? doubled : wanted;
    wanted = wanted < FIRST_CAPACITY ? FIRST_CAPACITY : wanted;
    void *grown = __builtin_mul_overflow(wanted, item_bytes, &bytes) ? NULL : realloc(*items, bytes);
    if (grown == NULL) {
        return error_set(error, STATUS_NO_MEMORY, "out of memory: an array of %zu items of %zu bytes", wanted,
                         item_bytes);
    }
    *items = grown;
    *capacity = wanted;
    return STATUS_OK;
}

void array_release(void **items, size_t *count, size_t *capacity)
{
    free(*items);
    *items = NULL;
    *count = 0;
    *capacity = 0;
}
