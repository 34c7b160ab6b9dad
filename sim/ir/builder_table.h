/* A hash table of indices into somebody's array: finds an equal record that was added before. For the builder, and for the verifier, which checks that nothing stands twice.
 *
 * Open addressing with the hash's upper half kept beside the index, so that content is compared only when it is almost surely equal. */
#ifndef MEMWALL_IR_BUILDER_TABLE_H
#define MEMWALL_IR_BUILDER_TABLE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

struct builder_table {
    struct builder_slot {
        uint32_t tag, index_plus_1; /* 0: empty */
    } * slots;
    uint32_t capacity, count; /* a power of two */
};

/* Room for one more, so that the next insert cannot fail. */
static inline bool builder_table_reserve(struct builder_table *table)
{
    if (table->count + 1 <= table->capacity / 2) {
        return true;
    }
    uint32_t capacity = table->capacity == 0 ? 64 : 2 * table->capacity;
    struct builder_slot *slots = capacity == 0 ? NULL : calloc(capacity, sizeof *slots);
    if (slots == NULL) {
        return false;
    }
    for (uint32_t i = 0; i < table->capacity; i++) {
        struct builder_slot slot = table->slots[i];
        if (slot.index_plus_1 != 0) {
            uint32_t at = slot.tag & (capacity - 1);
            while (slots[at].index_plus_1 != 0) {
                at = (at + 1) & (capacity - 1);
            }
            slots[at] = slot;
        }
    }
    free(table->slots);
    table->slots = slots;
    table->capacity = capacity;
    return true;
}

/* Walk the candidates for a hash: start with *at = (uint32_t)-1; false: none left, and *at is the empty slot to fill. The table has room. */
static inline bool builder_table_next(const struct builder_table *table, uint64_t hash, uint32_t *at, uint32_t *index)
{
    uint32_t mask = table->capacity - 1, tag = (uint32_t)(hash >> 32);
    for (*at = *at == UINT32_MAX ? tag & mask : (*at + 1) & mask;; *at = (*at + 1) & mask) {
        struct builder_slot slot = table->slots[*at];
        if (slot.index_plus_1 == 0) {
            return false;
        }
        if (slot.tag == tag) {
            *index = slot.index_plus_1 - 1;
            return true;
        }
    }
}

static inline void builder_table_put(struct builder_table *table, uint64_t hash, uint32_t at, uint32_t index)
{
    table->slots[at] = (struct builder_slot){ (uint32_t)(hash >> 32), index + 1 };
    table->count++;
}

#endif
