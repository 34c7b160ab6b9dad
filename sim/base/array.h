/* Growing arrays for code that builds (never for the event loop): a pointer, a count, a capacity.
 *
 *     struct { struct op *items; size_t count, capacity; } ops = { 0 };
 *     TRY(array_reserve(&ops, 1, error));  ops.items[ops.count++] = op;
 *     array_free(&ops);
 *
 * Capacity doubles. The items move when the array grows: keep indices, not pointers. */
#ifndef MEMWALL_BASE_ARRAY_H
#define MEMWALL_BASE_ARRAY_H

#include <stddef.h>

#include "sim/base/status.h"

/* Make room for `extra` more items. STATUS_NO_MEMORY leaves the array as it was. */
#define array_reserve(array, extra, error)                                                                             \
    array_grow((void **)&(array)->items, (array)->count, &(array)->capacity, (extra), sizeof *(array)->items, (error))
#define array_free(array) array_release((void **)&(array)->items, &(array)->count, &(array)->capacity)

enum status array_grow(void **items, size_t count, size_t *capacity, size_t extra, size_t item_bytes,
                       struct error *error);
void array_release(void **items, size_t *count, size_t *capacity);

#endif
