/* One run of nccl-tests as read so far, and what becomes of it. Internal to import_nccl*.c. */
#ifndef MEMWALL_VALIDATE_IMPORT_NCCL_H
#define MEMWALL_VALIDATE_IMPORT_NCCL_H

#include "validate/calibrate/import_text.h"

enum {
    NCCL_HOSTS_MAX = 4096,
    NCCL_RANKS_MAX = 65536,
    NCCL_HOST_BYTES = 64,
    NCCL_WORD_BYTES = 16,
    NCCL_GROUP_WORDS = 4
};

struct nccl_program {
    const char *squeezed, *name;
    bool known;
    enum collective_kind kind;
};

struct nccl_row {
    double bytes, seconds, algbw, busbw, in_place_busbw; /* in place: < 0 when not printed */
    uint32_t line;
    char type[NCCL_WORD_BYTES], op[NCCL_WORD_BYTES];
    double rounding; /* relative: half of the last digit that the time was printed with */
    bool timed, wrong;
};

struct nccl_run {
    const struct nccl_program *program;
    uint32_t line, ranks, hosts, in_header; /* in_header: nThread x nGpus */
    char (*host_names)[NCCL_HOST_BYTES];
    uint8_t *seen; /* by rank */
    struct nccl_row *rows;
    uint32_t count, capacity;
    uint32_t header_line, extras, groups; /* words between type and time; times in a row */
    bool milliseconds, wrong_is_count, old_columns;
    double average; /* < 0: not printed */
};

struct nccl_parser {
    struct import_source *source;
    const struct nccl_program *pending; /* named by a command line that belongs to the run that follows */
    struct nccl_run run;
    uint32_t runs;
};

/* "./build/all_reduce_perf", "all_gather_perf_mpi", "broadcast_test"; NULL: no test's name. */
const struct nccl_program *nccl_program_of_word(struct import_word word);
void nccl_run_clear(struct nccl_run *run);
/* Check the run that was read, add its points, and clear it for the next. */
enum status nccl_run_finish(struct nccl_parser *parser, struct error *error);

#endif
