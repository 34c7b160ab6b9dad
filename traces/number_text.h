/* Fast decimal text for files with a hundred thousand records: traces and CSV. Exact, and equal to what printf would print. */
#ifndef MEMWALL_TRACES_NUMBER_TEXT_H
#define MEMWALL_TRACES_NUMBER_TEXT_H

#include <stdint.h>

#include "sim/base/strbuf.h"
#include "sim/base/units.h"

enum { NUMBER_TEXT_BYTES = 24 };

static inline void put_unsigned(struct strbuf *out, uint64_t value)
{
    char text[NUMBER_TEXT_BYTES];
    size_t at = sizeof text;
    do {
        text[--at] = (char)('0' + value % 10);
        value /= 10;
    } while (value != 0);
    strbuf_append_n(out, text + at, sizeof text - at);
}

/* value / 10^6 with six digits: picoseconds as microseconds. Negative values cannot occur. */
static inline void put_millionths(struct strbuf *out, uint64_t value)
{
    char text[NUMBER_TEXT_BYTES + 2];
    size_t at = sizeof text;
    for (int i = 0; i < 6; i++) {
        text[--at] = (char)('0' + value % 10);
        value /= 10;
    }
    text[--at] = '.';
    do {
        text[--at] = (char)('0' + value % 10);
        value /= 10;
    } while (value != 0);
    strbuf_append_n(out, text + at, sizeof text - at);
}

static inline void put_time_us(struct strbuf *out, int64_t time_ps)
{
    put_millionths(out, time_ps > 0 ? (uint64_t)time_ps : 0);
}

#endif
