/* Explaining plans whose layers are split differently: the splits, what each holds, and what moves between them. */
#include <inttypes.h>

#include "sim/base/check.h"
#include "sim/model/variant.h"
#include "sim/report/explain_internal.h"

static int64_t last_position(const struct explainer *e)
{
    return e->from->scenario->model.layers + 1;
}

static enum layer_kind kind_at(const struct explainer *e, int64_t position)
{
    return plan_position_kind(&e->from->scenario->model, position);
}

static enum status build_graph(struct explainer *e, struct explain_split *split, enum layer_kind kind,
                               struct error *error)
{
    const struct scenario *scenario = e->from->scenario;
    struct layer_shape shape = plan_layer_shape(&scenario->plan, &scenario->model, &scenario->software, &split->split,
                                                e->order->splits_backward);
    shape.variant = split->variant;
    if (split->built[kind]) {
        return STATUS_OK;
    }
    split->built[kind] = true;
    return layer_graph_build(&split->graphs[kind], &scenario->model, kind, &shape, &e->to->arena, error);
}

/* Of the layer at a position, or next to an end. */
static uint32_t variant_at(const struct explainer *e, int64_t position)
{
    const struct model *model = &e->from->scenario->model;
    int64_t layer = position == 0 ? 0 : position - 1;
    return model_layer_variant(model, layer < model->layers ? layer : model->layers - 1);
}

enum status explain_build_graphs(struct explainer *e, struct error *error)
{
    const struct scenario *scenario = e->from->scenario;
    int64_t last = last_position(e);
    e->mixed = plan_is_mixed(&scenario->plan, &scenario->model) || scenario->plan.stage_replicas != NULL ||
               !model_is_uniform(&scenario->model);
    e->splits = arena_array(&e->to->arena, struct explain_split, e->mixed ? (size_t)last + 1 : 1);
    e->split_at = arena_array(&e->to->arena, uint32_t, (size_t)last + 1);
    if (e->splits == NULL || e->split_at == NULL) {
        return error_set(error, STATUS_NO_MEMORY, "out of memory for the explanation");
    }
    for (int64_t i = 0; i <= last; i++) {
        struct plan_layer split = plan_layer_at(&scenario->plan, &scenario->model, i);
        uint32_t at = 0, variant = variant_at(e, i);
        while (at < e->split_count &&
               (e->splits[at].variant != variant || !plan_layer_equal(&e->splits[at].split, &split))) {
            at++;
        }
        e->split_count += at == e->split_count ? 1 : 0;
        e->splits[at].split = split;
        e->splits[at].variant = variant;
        e->split_at[i] = at;
        TRY(build_graph(e, &e->splits[at], kind_at(e, i), error));
    }
    e->graphs[LAYER_EMBEDDING] = *explain_graph(e, 0);
    e->graphs[LAYER_TRANSFORMER] = *explain_graph(e, 1);
    e->graphs[LAYER_HEAD] = *explain_graph(e, last);
    return STATUS_OK;
}

const struct layer_graph *explain_graph(const struct explainer *e, int64_t position)
{
    return &e->splits[e->split_at[position]].graphs[kind_at(e, position)];
}

const struct plan_layer *explain_split_at(const struct explainer *e, int64_t position)
{
    return &e->splits[e->split_at[position]].split;
}

/* What the step from a position to the next one costs. */
static const char *move_text(struct explainer *e, int64_t position)
{
    if (position == last_position(e)) {
        return "-";
    }
    const struct plan_layer *a = explain_split_at(e, position), *b = explain_split_at(e, position + 1);
    if (a->tensor == b->tensor && a->data_consecutive == b->data_consecutive) {
        return "nothing";
    }
    if (e->from->scenario->plan.sequence_parallel) {
        return explain_text(e, "all-to-all of %" PRId64 ", both ways", plan_exchange_size(a, b));
    }
    struct plan_move there = plan_move_between(a, b), back = plan_move_between(b, a);
    const char *forward =
        there.gathered > 1 ? explain_text(e, "%sall-gather of %" PRId64, there.sliced ? "slice, " : "", there.gathered)
                           : "slice";
    const char *backward =
        back.gathered > 1 ? explain_text(e, "%sall-gather of %" PRId64, back.sliced ? "slice, " : "", back.gathered)
                          : "slice";
    return explain_text(e, "forward %s; backward %s", forward, backward);
}

static const char *layers_text(struct explainer *e, int64_t first, int64_t last)
{
    const struct model *model = &e->from->scenario->model;
    const char *numbers =
        first == last ? explain_text(e, "%" PRId64, first) : explain_text(e, "%" PRId64 "-%" PRId64, first, last);
    return model_is_uniform(model)
               ? numbers
               : explain_text(e, "%s %s", numbers, model_variant_word(model, model_layer_variant(model, first)));
}

void explain_splits(struct explainer *e)
{
    static const char *const columns[] = {
        "layers",           "tensor",       "data",        "ZeRO",   "consecutive",        "samples a GPU",
        "parameters a GPU", "saved none B", "selective B", "full B", "to the next layers", NULL
    };
    const struct plan *plan = &e->from->scenario->plan;
    if (!e->mixed) {
        return;
    }
    bool deals = plan->stage_replicas != NULL && plan->replica_sharing == SHARING_DEAL;
    explain_value(e, "samples of a stage's micro-batch", (double)(plan->micro_batch * plan->data), NULL,
                  deals ? "micro-batch x data; dealt whole to the replicas of a stage in turns"
                        : "micro-batch x data; a layer of data degree d has 1/d of them on a GPU",
                  explain_text(e, "%" PRId64 " x %" PRId64, plan->micro_batch, plan->data), NULL);
    explain_table(e, "How the layers are split (what moves between them: sim/plan/plan_layers.h)", columns);
    int64_t last = last_position(e);
    for (int64_t i = 0, end; i <= last; i = end + 1) {
        for (end = i; end + 1 < last && i > 0 && i < last && e->split_at[end + 1] == e->split_at[i];) {
            end++;
        }
        const struct plan_layer *split = explain_split_at(e, i);
        const struct layer_graph *graph = explain_graph(e, i);
        explain_cell_text(e, i == 0 ? "embedding" : i == last ? "head" : layers_text(e, i - 1, end - 1));
        explain_cell_number(e, (double)split->tensor);
        explain_cell_number(e, (double)split->data);
        explain_cell_number(e, (double)split->zero_stage);
        explain_cell_text(e, split->data_consecutive ? "data" : "tensor");
        explain_cell_number(e, (double)plan_layer_samples(plan, split));
        explain_cell_number(e, graph->parameters);
        explain_cell_number(e, graph->saved_bytes_none);
        explain_cell_number(e, graph->saved_bytes_selective);
        explain_cell_number(e, graph->saved_bytes_full);
        explain_cell_text(e, move_text(e, end));
    }
}
