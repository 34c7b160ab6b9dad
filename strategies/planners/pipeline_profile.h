/* The profile of a chain of layers: what the planners `pipedream` and `dapple` search over.
 *
 * Times and activations are of one batch as it was measured (the file says which), on one device; a planner divides them. From a small JSON file,
 *
 *     { "schema": "memwall.profile/1", "name": "VGG16",
 *       "layers": [ { "name": "conv1", "forward_s": 0.0223, "backward_s": 0.0246, "activation_bytes": 1644167168, "parameter_bytes": 7168 }, ... ] }
 *
 * or from a scenario's own model graph and machine. */
#ifndef MEMWALL_STRATEGIES_PLANNERS_PIPELINE_PROFILE_H
#define MEMWALL_STRATEGIES_PLANNERS_PIPELINE_PROFILE_H

#include <stdint.h>

#include "sim/base/arena.h"
#include "sim/base/json.h"
#include "strategies/planners/oracle_pieces.h"

enum { PIPELINE_LAYERS_MAX = 1024, PIPELINE_WORKERS_MAX = 4096 };

struct profile_layer {
    const char *name;
    double forward_s, backward_s;
    double activation_bytes; /* its output: what a cut after it sends, and what its backward needs */
    double saved_bytes;      /* what lives from forward to backward; a file without it: activation_bytes */
    double parameter_bytes;
};

/* Arrays and texts belong to the arena given to its maker. */
struct pipeline_profile {
    const char *name;
    struct profile_layer *layers;
    uint32_t count; /* >= 1 */
};

/* STATUS_BAD_INPUT with file and path: unknown keys, missing or negative figures, no layer, a chain without any time. */
enum status pipeline_profile_read(struct pipeline_profile *profile, const struct json *root, struct arena *arena,
                                  struct error *error);
enum status pipeline_profile_load(struct pipeline_profile *profile, const char *file, struct arena *arena,
                                  struct error *error);
/* The transformer layers of the scenario, one micro-batch on one device of its tensor degree; the embedding counts with the first layer, the head with the last. Bytes of parameters are
 * those that are reduced over replicas. `recompute`: the mode of each layer; NULL: nothing is recomputed. */
enum status pipeline_profile_of_scenario(struct pipeline_profile *profile, const struct scenario *scenario,
                                         const uint8_t *recompute, struct pieces *pieces, struct arena *arena,
                                         struct error *error);

/* Sums over layers first .. first + count - 1. */
struct profile_sum {
    double compute_s, activation_bytes, saved_bytes, parameter_bytes;
};
struct profile_sum pipeline_profile_sum(const struct pipeline_profile *profile, uint32_t first, uint32_t count);

/* A partition: stages in chain order. */
struct pipeline_stage {
    uint32_t first, count, replicas;
};
struct pipeline_split {
    struct pipeline_stage *stages; /* [stage_count] */
    uint32_t stage_count;
};

#endif
