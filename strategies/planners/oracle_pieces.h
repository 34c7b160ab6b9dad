/* What the pieces of a step cost alone: the passes of a layer, collectives of regular groups, memory-bound kernels. The material of closed-form cost models (exhaustive_screen.h, galvatron_planner_costs.h).
 *
 * Times come from the model graph (sim/model/layer.h), the kernel and the collective costs (sim/engine); nothing here is simulated. Results are remembered; a `struct pieces` is not for
 * several threads at once. */
#ifndef MEMWALL_STRATEGIES_PLANNERS_ORACLE_PIECES_H
#define MEMWALL_STRATEGIES_PLANNERS_ORACLE_PIECES_H

#include <stdbool.h>
#include <stdint.h>

#include "sim/model/layer.h"
#include "sim/model/variant.h"
#include "sim/plan/scenario.h"

/* One layer of a kind and one micro-batch on one device. Seconds of the device (kernels, launch gaps, tensor-parallel collectives) and of the host that issues them. */
struct piece_layer {
    double forward_s, backward_s, recompute_s[RECOMPUTE_MODE_COUNT]; /* backward: without what is repeated before it */
    double forward_host_s, backward_host_s, recompute_host_s[RECOMPUTE_MODE_COUNT];
    double tensor_comm_s; /* of forward and backward, what no kernel covers */
    double saved_bytes[RECOMPUTE_MODE_COUNT];
    /* short-lived tensors of the forward; of the backward with what is repeated for it */
    double forward_scratch_bytes[RECOMPUTE_MODE_COUNT], backward_scratch_bytes[RECOMPUTE_MODE_COUNT];
    double parameters, tied_parameters;
    double boundary_bytes, module_buffer_bytes;
    double backward_flow_bytes; /* layer.h; for stacks of flat_units */
};

/* Transformer layers by their variant (sim/model/variant.h; model_variant_count of them). */
struct piece_layers {
    struct piece_layer embedding, head, blocks[MODEL_VARIANTS_MAX];
};
const struct piece_layer *piece_layer_of(const struct piece_layers *layers, enum layer_kind kind, uint32_t variant);

/* Member m of instance i is GPU first + i * instance_stride + m * stride. */
struct piece_group {
    uint32_t first, count, stride, instance_count, instance_stride;
};

/* Whether heads and feed-forward divide over a tensor-parallel group. */
bool piece_tensor_divides(const struct model *model, int64_t tensor);

struct pieces;
enum status pieces_open(struct pieces **pieces, const struct scenario *scenario, struct error *error);
void pieces_close(struct pieces *pieces);

/* The layers under a tensor-parallel degree, whose members are neighbours. Valid until pieces_close. STATUS_BAD_INPUT when the degree does not divide. */
enum status pieces_layers(struct pieces *pieces, int64_t tensor, bool sequence_parallel, int64_t micro_batch,
                          const struct piece_layers **layers, struct error *error);
/* The same in a tensor-parallel group that may be spread out. */
enum status pieces_layers_in(struct pieces *pieces, const struct piece_group *tensor, bool sequence_parallel,
                             int64_t micro_batch, const struct piece_layers **layers, struct error *error);
/* A collective alone, its sister instances at work at the same moment. A group of one costs nothing. */
enum status pieces_collective(struct pieces *pieces, enum collective_kind kind, const struct piece_group *group,
                              double bytes, double *time_s, struct error *error);
/* `bytes` in collectives of at most `bucket_bytes` (0: one), one after the other. */
enum status pieces_buckets(struct pieces *pieces, enum collective_kind kind, const struct piece_group *group,
                           double bytes, double bucket_bytes, double *time_s, struct error *error);
/* A kernel bound by memory. */
double pieces_stream_s(const struct pieces *pieces, enum kernel_class kernel_class, double bytes_read,
                       double bytes_written, uint32_t launches);

/* One pipeline stage's tensor group, data-parallel group and the pair towards the next stage (the worst one: across servers when there is one) of a split into tensor x data GPUs a stage. */
struct piece_group piece_tensor_group(const struct cluster *cluster, int64_t tensor);
struct piece_group piece_data_group(int64_t tensor, int64_t data);
struct piece_group piece_pair(const struct cluster *cluster, int64_t tensor, int64_t data);

#endif
