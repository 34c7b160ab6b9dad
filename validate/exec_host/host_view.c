#include "validate/exec_host/host_view.h"

#include <string.h>

static const uint64_t PIECE_BYTES = UINT64_C(4) << 20; /* one memcpy; between them the flag is looked at */

struct host_cursor host_cursor_at(const struct host_view *view, uint64_t offset)
{
    struct host_cursor cursor = { .view = view, .at = offset % view->bytes };
    while (cursor.at >= view->spans[cursor.span].bytes) {
        cursor.at -= view->spans[cursor.span++].bytes;
    }
    return cursor;
}

uint64_t host_cursor_run(const struct host_cursor *cursor, uint64_t want)
{
    uint64_t left = cursor->view->spans[cursor->span].bytes - cursor->at;
    return want < left ? want : left;
}

void host_cursor_move(struct host_cursor *cursor, uint64_t bytes)
{
    cursor->at += bytes;
    if (cursor->at == cursor->view->spans[cursor->span].bytes) {
        cursor->at = 0;
        cursor->span = cursor->span + 1 == cursor->view->count ? 0 : cursor->span + 1;
    }
}

void host_view_add(struct host_view *view, uint8_t *data, uint64_t bytes, uint32_t buffer)
{
    if (bytes > 0) {
        view->spans[view->count++] = (struct host_span){ data, bytes, buffer };
        view->bytes += bytes;
    }
}

bool host_view_copy(const struct host_view *to, const struct host_view *from, uint64_t bytes,
                    const struct host_cancel *cancel)
{
    if (bytes == 0) {
        return true;
    }
    struct host_cursor target = host_cursor_at(to, 0), source = host_cursor_at(from, 0);
    while (bytes > 0) {
        uint64_t run = host_cursor_run(&target, host_cursor_run(&source, bytes < PIECE_BYTES ? bytes : PIECE_BYTES));
        if (host_is_cancelled(cancel)) {
            return false;
        }
        memcpy(host_cursor_data(&target), host_cursor_data(&source), run);
        host_cursor_move(&target, run);
        host_cursor_move(&source, run);
        bytes -= run;
    }
    return true;
}
