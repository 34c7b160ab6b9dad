/* What was read of nvbandwidth's text (import_nvbandwidth.c, which says how) on its way to points (import_nvbandwidth_points.c). Private to the importer. */
#ifndef MEMWALL_VALIDATE_IMPORT_NVBANDWIDTH_H
#define MEMWALL_VALIDATE_IMPORT_NVBANDWIDTH_H

#include "validate/calibrate/import_text.h"

/* The tests that tell something, by the start of their names. */
#define NVBANDWIDTH_ROLE_TABLE(X)                                                                                      \
    X(NVB_H2D, "host_to_device_memcpy")                                                                                \
    X(NVB_D2H, "device_to_host_memcpy")                                                                                \
    X(NVB_H2D_BOTH, "host_to_device_bidirectional_memcpy")                                                             \
    X(NVB_D2H_BOTH, "device_to_host_bidirectional_memcpy")                                                             \
    X(NVB_ALL_H2D, "host_to_all_memcpy")                                                                               \
    X(NVB_ALL_D2H, "all_to_host_memcpy")                                                                               \
    X(NVB_ALL_H2D_BOTH, "host_to_all_bidirectional_memcpy")                                                            \
    X(NVB_ALL_D2H_BOTH, "all_to_host_bidirectional_memcpy")                                                            \
    X(NVB_PEER_READ, "device_to_device_memcpy_read")                                                                   \
    X(NVB_PEER_WRITE, "device_to_device_memcpy_write")

enum nvbandwidth_role {
#define X(name, word) name,
    NVBANDWIDTH_ROLE_TABLE(X)
#undef X
        NVB_COUNT
};
enum {
    NVB_ENGINE_CE,
    NVB_ENGINE_SM,
    NVB_ENGINE_COUNT,
    NVB_TEST_BYTES = 96,
    NVB_UNUSED_BYTES = 512,
    NVB_VERSION_BYTES = 16
};

struct nvbandwidth_matrix {
    uint32_t rows, columns, line;
    double *values; /* GB/s; NAN: not measured */
};

struct nvbandwidth {
    struct import_source *source;
    double bytes;
    bool said; /* the bytes, by version or command line */
    char version[NVB_VERSION_BYTES];
    char test[NVB_TEST_BYTES]; /* "": not said yet */
    uint32_t test_line;
    bool test_done;
    struct nvbandwidth_matrix slots[NVB_COUNT][NVB_ENGINE_COUNT];
    struct nvbandwidth_matrix loose; /* read before its test was named: the SUM line names it */
    double loose_sum;                /* of the last matrix; NAN: none since the test began */
    char unused[NVB_UNUSED_BYTES];
    uint32_t taken;
};

const char *nvbandwidth_word(enum nvbandwidth_role role);
void nvbandwidth_matrix_free(struct nvbandwidth_matrix *matrix);
/* Turns what was gathered into points; the next run starts empty. */
enum status nvbandwidth_flush(struct nvbandwidth *parser, struct error *error);

#endif
