/* Layers under Galvatron's strategies, by our own costs. */
#include "strategies/planners/galvatron_planner_costs.h"

#include <math.h>

#include "sim/base/check.h"
#include "strategies/planners/planner.h"

struct piece_group layer_tensor_group(const struct galvatron_strategy *s)
{
    uint32_t tensor = s->tensor, data = s->data;
    return s->tensor_consecutive || data == 1
               ? (struct piece_group){ .count = tensor, .stride = 1, .instance_count = data, .instance_stride = tensor }
               : (struct piece_group){ .count = tensor, .stride = data, .instance_count = data, .instance_stride = 1 };
}

struct piece_group layer_data_group(const struct galvatron_strategy *s)
{
    uint32_t tensor = s->tensor, data = s->data;
    return s->tensor_consecutive || tensor == 1
               ? (struct piece_group){ .count = data, .stride = tensor, .instance_count = tensor, .instance_stride = 1 }
               : (struct piece_group){ .count = data, .stride = 1, .instance_count = tensor, .instance_stride = data };
}

/* How far data parallelism is sharded: 0, 2 (gradients and optimizer), 3 (weights too). */
static int sharding(const struct galvatron_strategy *strategy, bool zero2)
{
    return strategy->data == 1 ? 0 : strategy->sharded ? 3 : zero2 ? 2 : 0;
}

static void size_cost(const struct software *software, const struct piece_layer *layer,
                      const struct galvatron_strategy *strategy, int zero, bool repeats, struct layer_cost *cost)
{
    enum recompute_mode mode = repeats ? RECOMPUTE_FULL : RECOMPUTE_NONE;
    double share = 1.0 / strategy->data, rest = software_state_bytes(software) - software->weight_bytes;
    cost->state_bytes =
        layer->parameters * (software->weight_bytes * (zero >= 3 ? share : 1) + rest * (zero >= 2 ? share : 1));
    cost->held_bytes = layer->saved_bytes[mode];
    double gathered = zero >= 3 ? layer->parameters * software->gathered_bytes : 0;
    double gradient = zero >= 2 ? layer->parameters * software->gradient_bytes : 0;
    cost->scratch_bytes =
        fmax(layer->forward_scratch_bytes[mode] + gathered, layer->backward_scratch_bytes[mode] + gathered + gradient);
}

/* What replicas say to each other: adds to the passes, fills reduce_s and spread_s. */
static enum status add_replicas(struct pieces *pieces, const struct scenario *scenario, const struct piece_group *data,
                                double parameters, int zero, struct layer_cost *cost, struct error *error)
{
    const struct software *software = &scenario->software;
    double forward = cost->forward_s, backward = cost->backward_s, bytes = parameters * software->reduce_bytes;
    double gather = 0, scatter;
    if (zero == 0) {
        return pieces_buckets(pieces, COLLECTIVE_ALL_REDUCE, data, bytes, software->bucket_bytes, &cost->reduce_s,
                              error);
    }
    TRY(pieces_buckets(pieces, COLLECTIVE_REDUCE_SCATTER, data, bytes, software->bucket_bytes, &scatter, error));
    if (zero < 3) {
        TRY(pieces_collective(pieces, COLLECTIVE_ALL_GATHER, data, parameters * dtype_bytes(scenario->plan.precision),
                              &cost->spread_s, error));
    } else {
        TRY(pieces_collective(pieces, COLLECTIVE_ALL_GATHER, data, parameters * software->gathered_bytes, &gather,
                              error));
    }
    bool ahead = software->overlap_parameter_gather || zero < 3, beside = software->overlap_gradient_reduce;
    cost->forward_s = ahead ? fmax(forward, gather) : forward + gather;
    cost->backward_s = ahead && beside ? fmax(backward, gather + scatter)
                       : ahead         ? fmax(backward, gather) + scatter
                                       : backward + gather + scatter;
    return STATUS_OK;
}

enum status layer_cost_of(struct pieces *pieces, const struct scenario *scenario, enum layer_kind kind,
                          uint32_t variant, const struct galvatron_strategy *strategy, bool zero2, int64_t micro_batch,
                          struct layer_cost *cost, struct error *error)
{
    const struct piece_group tensor = layer_tensor_group(strategy), data = layer_data_group(strategy);
    const struct piece_layers *layers;
    TRY(pieces_layers_in(pieces, &tensor, scenario->plan.sequence_parallel, micro_batch, &layers, error));
    const struct piece_layer *layer = piece_layer_of(layers, kind, variant);
    bool repeats = strategy->recompute && kind == LAYER_TRANSFORMER;
    int zero = sharding(strategy, zero2);
    double forward = fmax(layer->forward_s, layer->forward_host_s);
    double backward = fmax(layer->backward_s + (repeats ? layer->recompute_s[RECOMPUTE_FULL] : 0),
                           layer->backward_host_s + (repeats ? layer->recompute_host_s[RECOMPUTE_FULL] : 0));
    *cost = (struct layer_cost){ .forward_s = forward, .backward_s = backward };
    TRY(add_replicas(pieces, scenario, &data, layer->parameters, zero, cost, error));
    size_cost(&scenario->software, layer, strategy, zero, repeats, cost);
    return STATUS_OK;
}

double layer_input_bytes(const struct scenario *scenario, int64_t layer, int64_t micro_batch)
{
    const struct model_crossing into = model_crossing_into(&scenario->model, layer, scenario->plan.sequence_length);
    return (double)micro_batch * (double)into.tokens * (double)into.width * dtype_bytes(scenario->plan.precision);
}

enum status layer_change_s(struct pieces *pieces, const struct scenario *scenario, int64_t layer,
                           const struct galvatron_strategy *from, const struct galvatron_strategy *to,
                           int64_t micro_batch, double *time_s, struct error *error)
{
    bool turned = to->tensor == from->tensor && to->tensor > 1 && to->data > 1 &&
                  to->tensor_consecutive != from->tensor_consecutive;
    *time_s = 0;
    if (to->tensor <= from->tensor && !turned) {
        return STATUS_OK;
    }
    const struct piece_group group = layer_tensor_group(to);
    double bytes = layer_input_bytes(scenario, layer, micro_batch);
    return pieces_collective(pieces, COLLECTIVE_ALL_GATHER, &group, bytes, time_s, error);
}

double layer_runtime_bytes(const struct scenario *scenario, const struct galvatron_strategy *strategy, bool pipeline)
{
    return planner_device_bytes(scenario, strategy->tensor > 1, strategy->data > 1, pipeline);
}
