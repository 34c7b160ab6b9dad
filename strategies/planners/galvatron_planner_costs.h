/* Cost source `memwall` of the Galvatron planners: what a layer under a strategy costs on our own model graph and machine (oracle_pieces.h), in place of profiled constants.
 *
 * A strategy is galvatron-bmw.md A: a stage's tensor x data GPUs, which of the two groups is consecutive, data parallelism sharded (SDP = ZeRO-3) or not, and whether the layer is recomputed.
 * Plain data parallelism is ZeRO-2 where the setting says so: gradients are reduced and scattered beside every backward as SDP's are, weights stay whole.
 * Costs are of one micro-batch of `micro_batch` samples on one replica. Our rules:
 *
 *   forward   kernels + tensor-parallel collectives of the layer; SDP: at least the all-gather of its weights beside them (their sum where the software does not gather ahead)
 *   backward  likewise, with the whole forward before it where the layer is recomputed; SDP: beside it the all-gather again and the reduce-scatter of its gradients
 *   reduce    the all-reduce of the layer's gradients, once a step, alone (0 for SDP and ZeRO-2, whose micro-batches have done it)
 *   spread    ZeRO-2: the all-gather of the new weights, once a step, when all is done
 *   states    weights, gradients, master copies, moments: bytes per parameter of the software; SDP divides all by `data`, ZeRO-2 all but the weights
 *   held      what lives from forward to backward;  scratch: short-lived tensors of a pass at their most, with gathered weights and the gradient before its scatter
 *   change    from the strategy before: where the tensor degree rises, or stays and the consecutive group differs, the layer's input is gathered in the tensor group (C.3's condition) */
#ifndef MEMWALL_STRATEGIES_PLANNERS_GALVATRON_PLANNER_COSTS_H
#define MEMWALL_STRATEGIES_PLANNERS_GALVATRON_PLANNER_COSTS_H

#include "strategies/planners/galvatron_cost.h"
#include "strategies/planners/oracle_pieces.h"

struct layer_cost {
    double forward_s, backward_s, reduce_s, spread_s;
    double state_bytes, held_bytes, scratch_bytes;
};

/* Of a layer of `kind`; `variant` of a transformer layer (sim/model/variant.h). STATUS_BAD_INPUT when the degrees do not divide the model. */
enum status layer_cost_of(struct pieces *pieces, const struct scenario *scenario, enum layer_kind kind,
                          uint32_t variant, const struct galvatron_strategy *strategy, bool zero2, int64_t micro_batch,
                          struct layer_cost *cost, struct error *error);
/* Seconds of the change of layout in front of layer `layer`. */
enum status layer_change_s(struct pieces *pieces, const struct scenario *scenario, int64_t layer,
                           const struct galvatron_strategy *from, const struct galvatron_strategy *to,
                           int64_t micro_batch, double *time_s, struct error *error);
/* Bytes of what goes into layer `layer` (model.layers: the head) on one device. */
double layer_input_bytes(const struct scenario *scenario, int64_t layer, int64_t micro_batch);
/* What a device holds whatever the layers: context, workspaces, communicators of `strategy` in a pipeline or not. */
double layer_runtime_bytes(const struct scenario *scenario, const struct galvatron_strategy *strategy, bool pipeline);

/* The groups of a strategy in stage 0. */
struct piece_group layer_tensor_group(const struct galvatron_strategy *strategy);
struct piece_group layer_data_group(const struct galvatron_strategy *strategy);

/* The source: every layer of the scenario's model on its GPUs, pipelines by form `g2` (C.4): the reduction of a stage hides behind what earlier stages still compute. Its functions take pieces apart that are not for several threads.
 *
 * A device's micro-batch must be whole: a split into micro-batches and replicas that cuts a sample costs more memory than any device has. Embedding and head are charged to the first and
 * last stage under the first strategy of the pipeline degree, and their time as if they were split over all devices of the stage alike. */
struct memwall_source {
    const struct scenario *scenario;
    struct pieces *pieces;
    uint32_t *kinds;             /* [layers]: their variants */
    struct memwall_source *self; /* what the source's context points to: it must stay where it is */
    enum status status;          /* the first failure of a function; costs are then without meaning */
    struct error error;
};
enum status memwall_source_open(struct memwall_source *memwall, const struct scenario *scenario,
                                struct galvatron_source *source, struct error *error);
void memwall_source_close(struct memwall_source *memwall);

#endif
