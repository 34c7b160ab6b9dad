#include "strategies/policies/mpress_striping.h"

#include <stdbool.h>

#include "sim/base/check.h"

/* The peer, of those not yet full and with a link, that the rising level fills first; `count` when there is none. */
static uint32_t first_to_fill(const struct mpress_peer *peers, uint32_t count, const bool *is_full)
{
    uint32_t first = count;
    for (uint32_t j = 0; j < count; j++) {
        if (peers[j].links == 0 || is_full[j]) {
            continue;
        }
        if (first == count || peers[j].spare_bytes * peers[first].links < peers[first].spare_bytes * peers[j].links) {
            first = j;
        }
    }
    return first;
}

struct mpress_stripes mpress_stripe(double bytes, const struct mpress_peer *peers, uint32_t count, double *share_bytes)
{
    CHECK(count <= MPRESS_PEERS_MAX && bytes >= 0);
    bool is_full[MPRESS_PEERS_MAX] = { false };
    struct mpress_stripes stripes = { 0 };
    double left = bytes;
    uint64_t links = 0;
    for (uint32_t j = 0; j < count; j++) {
        CHECK(peers[j].spare_bytes >= 0);
        share_bytes[j] = 0;
        links += peers[j].links;
    }
    while (left > 0) {
        const uint32_t first = first_to_fill(peers, count, is_full);
        if (first == count) {
            break; /* all are full */
        }
        const double level = left / (double)links, full = peers[first].spare_bytes / peers[first].links;
        if (level <= full) {
            for (uint32_t j = 0; j < count; j++) {
                if (!is_full[j]) {
                    share_bytes[j] = level * peers[j].links;
                }
            }
            stripes.bytes_per_link = level;
            stripes.placed_bytes = bytes;
            return stripes;
        }
        is_full[first] = true;
        share_bytes[first] = peers[first].spare_bytes;
        left -= peers[first].spare_bytes;
        links -= peers[first].links;
        stripes.bytes_per_link = full; /* peers fill in rising order of it */
        stripes.placed_bytes += peers[first].spare_bytes;
    }
    if (left <= 0) {
        stripes.placed_bytes = bytes;
    }
    return stripes;
}
