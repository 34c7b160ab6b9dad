/* How each layer is split over the devices of its stage, and what moves where neighbours are split differently.
 *
 * A stage has G = tensor * data devices, ranks 0 to G - 1, and its micro-batch has M = micro_batch * data samples. A layer with degrees (t, d), t * d = G, has M / d samples on
 * each device. Consecutive tensor partners: rank = dp * t + tp; consecutive data partners: rank = tp * d + dp.
 *
 * Our rule for what is between two layers. Every rank stands for 1/G of the micro-batch (a piece), and the partners of one tensor-parallel group hold the pieces of all of them. From layout A to
 * layout B a rank has t_A pieces (those of its partners in A), needs t_B, and keeps the u that both have:
 *
 *     u = gcd(t_A, t_B)   when both are consecutive alike
 *     u = t_c / d_s       when one is consecutive (tensor c) and the other strided (data s) and d_s divides t_c, else 1
 *
 * If u < t_A it copies the u pieces out (a local slice, one elementwise kernel); if u < t_B an all-gather over t_B / u ranks that keep different pieces makes its block of M / d_B samples, of which
 * the part (t_B - u) / t_B arrives over links. The gradient goes back by the same rule from B to A: where the forward slices the backward gathers. Nothing is summed: inside a tensor-parallel
 * group activations and their gradients are whole on every rank. Galvatron's cost model (Galvatron-BMW, TKDE 2024) charges (t_B - 1) / t_B where t_B > t_A or the order differs: never less than ours.
 * Samples cannot be cut here: M must be a multiple of G / u.
 *
 * Under sequence parallelism a rank holds one piece's worth of elements on both sides, cut differently: one all-to-all over the ranks that either layout connects.
 *
 * Between stages the sender slices and the receiver gathers. Context parallelism is not modelled. */
#ifndef MEMWALL_PLAN_PLAN_LAYERS_H
#define MEMWALL_PLAN_PLAN_LAYERS_H

#include "hw_models/software.h"
#include "sim/base/json_write.h"
#include "sim/model/layer.h"
#include "sim/plan/plan.h"

/* How a layer is split: kind, and for transformer layers the index in the model. */
struct plan_layer plan_layer_of(const struct plan *plan, const struct model *model, enum layer_kind kind,
                                int64_t index);
/* Layers in model order with both ends: position 0 is the embedding, 1 to model.layers the transformer layers, model.layers + 1 the head. */
struct plan_layer plan_layer_at(const struct plan *plan, const struct model *model, int64_t position);
enum layer_kind plan_position_kind(const struct model *model, int64_t position);
int64_t plan_position_of(const struct model *model, enum layer_kind kind, int64_t index);
/* Whether any layer is split otherwise than tensor, data, zero_stage say (by strided tensor groups too). */
bool plan_is_mixed(const struct plan *plan, const struct model *model);
/* What layer_graph_build is asked for such a layer on this software. `splits_backward`: of the order. */
struct layer_shape plan_layer_shape(const struct plan *plan, const struct model *model, const struct software *software,
                                    const struct plan_layer *split, bool splits_backward);
/* Samples that a device has of a micro-batch that it runs, in a layer split so. */
int64_t plan_layer_samples(const struct plan *plan, const struct plan_layer *split);
/* "tensor 2 x data 4, ZeRO 3, data consecutive" in `text` of PLAN_LAYER_TEXT_BYTES. */
enum { PLAN_LAYER_TEXT_BYTES = 96 };
const char *plan_layer_text(const struct plan_layer *layer, char *text);
bool plan_layer_equal(const struct plan_layer *a, const struct plan_layer *b);

/* Where rank r of a stage stands in a layout, and the rank that stands there. */
int64_t plan_layer_tensor_index(const struct plan_layer *layer, int64_t rank);
int64_t plan_layer_data_index(const struct plan_layer *layer, int64_t rank);
int64_t plan_layer_rank(const struct plan_layer *layer, int64_t data_index, int64_t tensor_index);

/* From layout `from` to layout `to` of the same devices: u, and the ranks of the gather t_B / u. Both equal the tensor degree and 1 where nothing moves. */
struct plan_move {
    int64_t kept;     /* pieces that a rank has before and after: u */
    int64_t gathered; /* ranks of the all-gather; 1: none */
    bool sliced;      /* less than all it has is kept */
};
struct plan_move plan_move_between(const struct plan_layer *from, const struct plan_layer *to);
/* Ranks with equal keys keep the same pieces (kept of them a key); see plan_move. */
int64_t plan_move_key(const struct plan_layer *from, const struct plan_layer *to, int64_t rank);
/* Sequence parallelism: how many ranks exchange, and which exchange with each other (equal keys). 1: nothing moves. */
int64_t plan_exchange_size(const struct plan_layer *from, const struct plan_layer *to);
int64_t plan_exchange_key(const struct plan_layer *from, const struct plan_layer *to, int64_t rank);

/* What plan_check says of layers (degrees, batch, sequence, moves, tied ends, policy). `layer_path`: of one layer's keys. */
enum status plan_layers_check(const struct plan *plan, const struct model *model, struct error *error);
enum status plan_layer_check(const struct plan *plan, const struct model *model, const struct plan_layer *layer,
                             const char *what, const char *path, struct error *error);
/* Where all layers have the plan's own tensor and data degrees, consecutive, and one ZeRO stage: that becomes the plan's, and layers NULL. */
void plan_layers_simplify(struct plan *plan, const struct model *model);
/* The keys "layers", "embedding" and "head" of the open object "parallel", where the plan has them. */
void plan_layers_print(const struct plan *plan, const struct model *model, struct json_writer *w);
/* Reads them, and the recomputation that "layers" may say; plan_read has filled everything else. `recompute_listed`: the document lists recompute for every layer. */
enum status plan_layers_read(struct plan *plan, const struct model *model, const struct json *root,
                             bool recompute_listed, struct arena *arena, struct error *error);
enum status plan_recompute_mode(const struct json *at, uint8_t *mode, struct error *error);

#endif
