/* One stable 128-bit content hash for schedules, plans and models: same bytes, same hash, on every machine and in
 * every build. Not cryptographic. Feed canonical fields, never raw structs (padding). */
#ifndef MEMWALL_BASE_HASH_H
#define MEMWALL_BASE_HASH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hash {
    uint64_t a, b;
};

enum { HASH_TEXT_BYTES = 33 };

struct hash hash_start(void);
void hash_bytes(struct hash *hash, const void *bytes, size_t count);
void hash_u64(struct hash *hash, uint64_t value);
void hash_double(struct hash *hash, double value);         /* by its bits; -0 is hashed as 0 */
void hash_text_field(struct hash *hash, const char *text); /* length, then bytes */
bool hash_equal(const struct hash *x, const struct hash *y);
/* 32 lower-case hex digits. */
const char *hash_text(const struct hash *hash, char buffer[HASH_TEXT_BYTES]);

#endif
