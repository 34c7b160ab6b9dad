/* Layers that data-dependent models skip: `training.layer_drop`, the probability with which a micro-batch passes a transformer layer by (LayerDrop, Fan et al., ICLR 2020; DeepSpeed's progressive
 * layer dropping, Zhang and He, NeurIPS 2020). The set of layers that run changes from micro-batch to micro-batch and from step to step: a trace that is recorded once does not hold.
 *
 *     "training": { "layer_drop": 0.2, "layer_drop_seed": 1 }
 *
 * Each transformer layer is drawn for itself; the embedding and the head always run. All data-parallel replicas draw alike, as collectives over ZeRO ranks need it.
 * Times and peaks are those of the layers drawn: a step that drops none needs more memory. Planners' cost models count every layer; what they simulate does not. */
#ifndef MEMWALL_PLAN_LAYER_DROP_H
#define MEMWALL_PLAN_LAYER_DROP_H

#include "sim/base/json_write.h"
#include "sim/plan/plan.h"

/* "layer_drop" and "layer_drop_seed" of the open object `training` (its node may be NULL). */
enum status layer_drop_read(struct plan *plan, const struct json *training, struct error *error);
/* What it does not go with: several stages, layers that differ or are split differently. */
enum status layer_drop_check(const struct plan *plan, const struct model *model, struct error *error);
void layer_drop_print(const struct plan *plan, struct json_writer *w);

/* Does this micro-batch, numbered through all steps, skip the transformer layer? */
bool layer_drop_skips(const struct plan *plan, uint32_t layer, uint32_t micro_batch);

#endif
