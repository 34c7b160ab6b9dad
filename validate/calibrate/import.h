/* Importers: points and topology from what people paste. */
#ifndef MEMWALL_VALIDATE_IMPORT_H
#define MEMWALL_VALIDATE_IMPORT_H

#include "validate/calibrate/draft.h"
#include "validate/calibrate/points.h"

/* name, word, what it is */
#define IMPORT_TABLE(X)                                                                                                \
    X(IMPORT_NCCL_TESTS, "nccl-tests", "output of all_reduce_perf and its sisters, old and new columns")               \
    X(IMPORT_NVBANDWIDTH, "nvbandwidth", "nvbandwidth's text matrices")                                                \
    X(IMPORT_BANDWIDTH_TEST, "bandwidthTest", "the CUDA sample's text, plain or csv")                                  \
    X(IMPORT_TOPOLOGY, "topo", "nvidia-smi topo -m")                                                                   \
    X(IMPORT_KERNEL_CSV, "kernel csv", "simumax_measured_kernel_efficiency.csv")                                       \
    X(IMPORT_ALL_REDUCE_CSV, "all-reduce csv", "vtrain_nccl_allreduce_lut.csv")                                        \
    X(IMPORT_LINKS_CSV, "links csv", "links_and_collectives.csv")                                                      \
    X(IMPORT_POINTS, "points", "a file of points that memwall wrote")

enum import_format {
#define X(name, word, help) name,
    IMPORT_TABLE(X)
#undef X
        IMPORT_FORMAT_COUNT
};

struct import_result {
    enum import_format format;
    uint32_t points, skipped; /* rows taken; rows of another machine or not understood, counted */
    struct strbuf notes;      /* for people: what was found, what was passed over and why */
};

/* Reads `path`, finds its format by its content, appends what it says to `points`; topology and names go into `draft` at once. `system`: which rows of a table with
 * several machines ("a100_pcie"; NULL: the only one, else an error that lists them). A file of no known format, or one cut short in a row, is an error with its line. */
enum status import_file(const char *path, const char *system, struct points *points, struct draft *draft,
                        struct import_result *result, struct error *error);
void import_result_free(struct import_result *result);

#endif
