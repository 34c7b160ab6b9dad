/* Link counts of DGX-1 V100 (hybrid cube mesh), for tests of MPress's mapping: facts/mpress-hippie-pipelines.md A.6, from two public `nvidia-smi topo -m` dumps. */
#ifndef MEMWALL_TESTS_MPRESS_MACHINES_H
#define MEMWALL_TESTS_MPRESS_MACHINES_H

#include <stdint.h>

static const uint32_t DGX1_LINKS[8 * 8] = {
    0, 1, 1, 2, 2, 0, 0, 0, /* */
    1, 0, 2, 1, 0, 2, 0, 0, /* */
    1, 2, 0, 2, 0, 0, 1, 0, /* */
    2, 1, 2, 0, 0, 0, 0, 1, /* */
    2, 0, 0, 0, 0, 1, 1, 2, /* */
    0, 2, 0, 0, 1, 0, 2, 1, /* */
    0, 0, 1, 0, 1, 2, 0, 2, /* */
    0, 0, 0, 1, 2, 1, 2, 0, /* */
};

#endif
