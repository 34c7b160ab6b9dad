/* A view: the bytes of several buffers one after the other, as one long cyclic tape. What an op moves it reads from a view and writes to a view; a payload longer than the
 * view starts again at its front. */
#ifndef MEMWALL_EXEC_HOST_VIEW_H
#define MEMWALL_EXEC_HOST_VIEW_H

#include <stdbool.h>
#include <stdint.h>

#include "validate/exec_host/host_meeting.h"

struct host_span {
    uint8_t *data; /* storage: offset in the file, never followed */
    uint64_t bytes;
    uint32_t buffer; /* of the schedule; SCHED_NONE: memory of the executor */
};

struct host_view {
    struct host_span *spans; /* none is empty */
    uint32_t count;
    uint64_t bytes; /* of all; 0: no view */
};

/* A place in a view that moves forward. */
struct host_cursor {
    const struct host_view *view;
    uint32_t span;
    uint64_t at; /* in the span */
};

/* At byte `offset` modulo the view's bytes. The view must have some. O(spans). */
struct host_cursor host_cursor_at(const struct host_view *view, uint64_t offset);
/* Bytes in one piece from here, at most `want`. */
uint64_t host_cursor_run(const struct host_cursor *cursor, uint64_t want);
static inline uint8_t *host_cursor_data(const struct host_cursor *cursor)
{
    return cursor->view->spans[cursor->span].data + cursor->at;
}
/* At most to the end of the present piece. */
void host_cursor_move(struct host_cursor *cursor, uint64_t bytes);

/* Appends; spans must have room. Empty spans are left out. */
void host_view_add(struct host_view *view, uint8_t *data, uint64_t bytes, uint32_t buffer);

/* `bytes` from the front of `from` to the front of `to`. They share no bytes. False when cancelled on the way (looked at every few MiB). */
bool host_view_copy(const struct host_view *to, const struct host_view *from, uint64_t bytes,
                    const struct host_cancel *cancel);

#endif
