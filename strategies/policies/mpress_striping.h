/* Striping: one tensor leaves a device over several direct links at once, each peer lending what memory it has to spare
 * (our reading of MPress's device-to-device swap, HPCA 2023; the rule is ours).
 *
 * Peer j has n_j direct links of equal rate and f_j spare bytes. The copy ends when the busiest link ends, so the best split fills
 * all links evenly and leaves a peer aside once it is full:
 *
 *     x_j = min(f_j, t n_j)   with the smallest t such that  sum x_j = bytes
 *
 * t is bytes a link; the time of the copy is t over the rate of one link (this file knows no time). 1.2 GB over (1, 1, 2, 2) links: t = 0.2 GB, at 25 GB/s
 * 8.0 ms. Peers without a direct link lend nothing: a way through PCIe would decide the end of the copy. Nothing is allocated; O(peers^2). */
#ifndef MEMWALL_STRATEGIES_POLICIES_MPRESS_STRIPING_H
#define MEMWALL_STRATEGIES_POLICIES_MPRESS_STRIPING_H

#include <stdint.h>

enum { MPRESS_PEERS_MAX = 64 };

struct mpress_peer {
    uint32_t links;     /* direct links to it, in the direction of the copy */
    double spare_bytes; /* >= 0 */
};

struct mpress_stripes {
    double placed_bytes;   /* of those asked; less when the peers together have not enough to spare */
    double bytes_per_link; /* t: what the busiest link carries */
};

/* Splits `bytes` (>= 0) over `count` peers (0 .. MPRESS_PEERS_MAX) into `share_bytes` [count]. When they cannot hold all of it every peer is filled, and t is what that takes. */
struct mpress_stripes mpress_stripe(double bytes, const struct mpress_peer *peers, uint32_t count, double *share_bytes);

#endif
