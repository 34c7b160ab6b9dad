/* What allocators would hold beyond what is live: a dry run of every rank's acquires and releases in the order in which its host issues them.
 *
 *   device spaces   the software's allocator model (sim/core/blockalloc): block rounding, segments, splitting, one stream a queue. Buffers of class
 *                   runtime are outside of it and added as they are. When live bytes fit but segments do not (fragmentation), the peak exceeds the capacity.
 *   pinned spaces   blocks kept by the rank for reuse: rounded up to powers of two (PyTorch's pinned allocator from 1.11 on; DESIGN.md section 4, point 8), or, where the schedule says
 *                   `exact`, of the bytes asked for, where a free block also serves what is smaller (before 1.11)
 *   host, storage   what is live, plus what pinned spaces inside hold beyond their live bytes
 *
 * Issue order, not time, decides: frameworks free on the host thread. But no peak is below what was live in time: where ops of several queues overlap, blocks
 * that issue order frees and reuses are still in use (a receive into its buffer beside the pass before it, a copy in flight). So each peak is the greater
 * of the dry run's and the live one: a pure function of schedule, software and live peaks. */
#ifndef MEMWALL_ENGINE_RESERVED_H
#define MEMWALL_ENGINE_RESERVED_H

#include "hw_models/software.h"
#include "sim/ir/timeline.h"

/* Fills peak_reserved_bytes of spaces[space_count], whose peak_bytes must be known. `software` NULL: exact. */
enum status reserved_fill(const struct schedule *schedule, const struct software *software, struct space_use *spaces,
                          struct error *error);

#endif
