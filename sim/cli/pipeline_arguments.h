/* The flags of `memwall pipeline`, and the orders that they ask for. What is wrong is said on stderr. */
#ifndef MEMWALL_CLI_PIPELINE_ARGUMENTS_H
#define MEMWALL_CLI_PIPELINE_ARGUMENTS_H

#include "sim/cli/pipeline_text.h"

/* Texts as given, NULL: not given. The arrays are read from them once, for all orders. */
struct pipeline_arguments {
    const char *order, *compare, *stages, *micro_batches, *forward, *backward, *weight, *hop, *virtual_stages,
        *parameters, *svg, *recompute, *keep_last, *file, *limit, *placement, *replicas, *sharing;
    uint32_t chunks;          /* of --virtual; 0: not given */
    uint32_t *replica_counts; /* of --replicas */
    double *stage_times[4];   /* of --forward, --backward, --weight-grad, --limit when they list stages; else NULL */
};

/* Whether the flags go together, and none is missing. */
bool pipeline_arguments_agree(const struct pipeline_arguments *a);
/* The request of the order of that name, of `auto`, or of the schedule file. `run` comes zeroed; the caller frees its table, also after false. */
bool pipeline_read_order(struct pipeline_arguments *a, const char *name, struct pipeline_run *run);
void pipeline_arguments_free(struct pipeline_arguments *a);

#endif
