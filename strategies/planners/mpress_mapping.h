/* Device mapping: which stage on which device, so that stages with too much sit beside devices with room
 * (our rule after MPress's idea, HPCA 2023).
 *
 * For a mapping, stages in falling order of what they have over (the lower stage first among equals) reserve room on the devices with a direct link, striped as in mpress_striping.h. Mappings
 * are compared by, in this order: bytes left unserved; the worst stage's copy; the sum of copies (both in bytes a link: over the link's rate they are times); most links
 * between consecutive stages. Each figure is rounded to whole bytes first, so that mappings alike by symmetry tie whatever order their sums ran in. Of equals the first in dictionary order wins.
 *
 * Exhaustive to MPRESS_EXHAUSTIVE_MAX devices (40,320 mappings). Beyond it, exchanges of two stages from the identity on while they help: no promise of the best. Where every
 * pair of devices has the same number of links (NVSwitch) all mappings are equal and the identity is returned at once. */
#ifndef MEMWALL_STRATEGIES_PLANNERS_MPRESS_MAPPING_H
#define MEMWALL_STRATEGIES_PLANNERS_MPRESS_MAPPING_H

#include <stdbool.h>
#include <stdint.h>

#include "strategies/policies/mpress_striping.h"

enum { MPRESS_DEVICES_MAX = MPRESS_PEERS_MAX, MPRESS_EXHAUSTIVE_MAX = 8 };

/* Everything is borrowed. A machine with more devices than stages: the rest are stages with nothing over and all to spare. */
struct mpress_mapping_case {
    uint32_t devices;          /* 1 .. MPRESS_DEVICES_MAX; as many stages */
    const uint32_t *links;     /* [devices * devices]: direct links from row to column; the diagonal is not read */
    const double *over_bytes;  /* [devices]: peak of the stage beyond its device's memory, >= 0 */
    const double *spare_bytes; /* [devices]: room that the stage leaves, >= 0 */
};

struct mpress_mapping_key {
    uint64_t unserved_bytes;
    uint64_t worst_bytes_per_link, sum_bytes_per_link;
    uint64_t consecutive_links;
};

struct mpress_mapping {
    uint32_t device_of_stage[MPRESS_DEVICES_MAX];
    struct mpress_mapping_key key;
    uint64_t examined; /* mappings */
    uint64_t equals;   /* of these as good in the first three figures, the chosen one included */
    bool is_best;      /* nothing better exists */
};

/* The key of one mapping; `device_of_stage` is a permutation. */
struct mpress_mapping_key mpress_mapping_rate(const struct mpress_mapping_case *input, const uint32_t *device_of_stage);
struct mpress_mapping mpress_mapping_search(const struct mpress_mapping_case *input);

#endif
