#include "sim/base/heap.h"

#include <malloc.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

void heap_prepare(void)
{
    enum { HEAP_BYTES = 256 << 20, HUGE_PAGE_BYTES = 2 << 20 };
    mallopt(M_MMAP_THRESHOLD, HEAP_BYTES);
    mallopt(M_TRIM_THRESHOLD, HEAP_BYTES);
    mallopt(M_TOP_PAD, HEAP_BYTES);
    char *heap = malloc(1);
    if (heap != NULL) {
        uintptr_t first = ((uintptr_t)heap + HUGE_PAGE_BYTES) / HUGE_PAGE_BYTES * HUGE_PAGE_BYTES;
        (void)madvise((void *)first, HEAP_BYTES - 2 * HUGE_PAGE_BYTES, MADV_HUGEPAGE); /* advice: may be refused */
    }
    free(heap);
}
