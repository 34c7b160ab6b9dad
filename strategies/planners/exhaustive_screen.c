/* Closed forms of the time of a uniform split. */
#include "strategies/planners/exhaustive_screen.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/array.h"
#include "sim/base/check.h"
#include "sim/plan/plan_order.h"
#include "strategies/planners/exhaustive_screen_internal.h"
#include "strategies/planners/planner.h"
#include "strategies/registry.h"

enum status screen_open(struct screen **screen, const struct scenario *scenario, struct error *error)
{
    *screen = calloc(1, sizeof **screen);
    if (*screen == NULL) {
        return error_set(error, STATUS_NO_MEMORY, "out of memory for a cost model");
    }
    (*screen)->scenario = scenario;
    enum status status = pieces_open(&(*screen)->pieces, scenario, error);
    if (status != STATUS_OK) {
        screen_close(*screen);
        *screen = NULL;
    }
    return status;
}

void screen_close(struct screen *screen)
{
    if (screen != NULL) {
        pieces_close(screen->pieces);
        array_free(&screen->flights);
        array_free(&screen->steps);
        free(screen);
    }
}

enum status screen_plan(const struct scenario *scenario, const struct screen_point *point, struct plan *plan,
                        struct arena *arena, struct error *error)
{
    const struct plan *base = &scenario->plan;
    int64_t stages = point->pipeline * point->virtual_stages;
    *plan = *base;
    plan->tensor = point->tensor;
    plan->pipeline = point->pipeline;
    plan->data = point->data;
    plan->micro_batch = point->micro_batch;
    plan->virtual_stages = point->virtual_stages;
    plan->zero_stage = point->zero_stage;
    plan->sequence_parallel = point->sequence_parallel;
    plan->micro_batches = base->global_batch / (point->data * point->micro_batch);
    const struct pipeline_order *order = registry_order(point->virtual_stages > 1 ? "interleaved" : "1f1b", error);
    if (order == NULL) {
        return STATUS_NOT_FOUND;
    }
    plan_order_use(plan, order);
    plan->stage_layers = arena_array(arena, int64_t, (size_t)stages);
    plan->recompute = arena_array(arena, uint8_t, (size_t)scenario->model.layers);
    if (plan->stage_layers == NULL || plan->recompute == NULL) {
        return error_set(error, STATUS_NO_MEMORY, "out of memory planning");
    }
    for (int64_t i = 0; i < stages; i++) {
        plan->stage_layers[i] = planner_stage_layers(scenario->model.layers, stages, i);
    }
    memset(plan->recompute, point->recompute, (size_t)scenario->model.layers);
    return STATUS_OK;
}

/* ---- a stage ---- */

/* Backward passes of layers, with what is repeated for them. */
static double backward_of(const struct point *p, const struct blocks *blocks)
{
    double sum = 0;
    for (uint32_t v = 0; v < p->variants; v++) {
        const struct piece_layer *layer = &p->layers->blocks[v];
        sum += blocks->of[v] * (layer->recompute_s[p->at->recompute] + layer->backward_s);
    }
    return sum;
}

/* Both passes of a layer, with what of its ZeRO-3 traffic they do not cover. */
static double block_s(const struct software *software, const struct point *p, uint32_t variant)
{
    const struct piece_layer *layer = &p->layers->blocks[variant];
    double forward = layer->forward_s, backward = layer->recompute_s[p->at->recompute] + layer->backward_s;
    double gather = p->gather_s[variant], scatter = p->scatter_s[variant], both = gather + scatter;
    bool overlaps_gather = software->overlap_parameter_gather, overlaps = software->overlap_gradient_reduce;
    forward = overlaps_gather ? fmax(forward, gather) : forward + gather;
    backward = overlaps_gather && overlaps ? fmax(backward, both)
               : overlaps_gather           ? fmax(backward, gather) + scatter
                                           : backward + both;
    return forward + backward;
}

/* Work of one micro-batch on a stage, and transfers that it waits for. */
static double stage_time_s(const struct screen *s, const struct point *p, int64_t stage)
{
    const struct piece_layer *embedding = &p->layers->embedding, *head = &p->layers->head;
    const struct software *software = &s->scenario->software;
    enum recompute_mode mode = (enum recompute_mode)p->at->recompute;
    const struct blocks blocks = screen_stage_blocks(p, stage);
    struct ends ends = screen_stage_ends(p, stage);
    double device = 0, host = 0;
    for (uint32_t v = 0; v < p->variants; v++) {
        const struct piece_layer *layer = &p->layers->blocks[v];
        double own = layer->forward_host_s + layer->recompute_host_s[mode] + layer->backward_host_s;
        double both = block_s(software, p, v);
        /* Unlike layers follow each other, some bound by the host and some not: what one has spare the next does not get. */
        device += blocks.of[v] * (p->variants > 1 ? fmax(both, own) : both);
        host += p->variants > 1 ? 0 : blocks.of[v] * own;
    }
    if (ends.embedding) {
        device += embedding->forward_s + embedding->backward_s;
        host += embedding->forward_host_s + embedding->backward_host_s;
    }
    if (ends.head) {
        device += head->forward_s + head->backward_s;
        host += head->forward_host_s + head->backward_host_s;
    }
    double hops = 0;
    if (!software->overlap_pipeline) {
        hops = (double)(p->at->virtual_stages * 2 - (ends.embedding ? 1 : 0) - (ends.head ? 1 : 0));
    }
    return fmax(device, host + software->micro_batch_host_s) + hops * p->hop_s;
}

/* ---- what is once a step ---- */

/* Reduction of a stage's gradients beyond its own last backward. */
static enum status reduction_s(struct screen *s, const struct point *p, int64_t stage, double *exposed_s,
                               struct error *error)
{
    const struct software *software = &s->scenario->software;
    *exposed_s = 0;
    if (p->data.count < 2 || (p->at->zero_stage >= 2 && !p->gathers_once)) {
        return STATUS_OK; /* in every micro-batch: beside the backward */
    }
    double n = (double)screen_stage_layers(p, stage),
           bytes = screen_stage_parameters(p, stage) * software->reduce_bytes, whole_s;
    enum collective_kind kind = p->at->zero_stage >= 1 ? COLLECTIVE_REDUCE_SCATTER : COLLECTIVE_ALL_REDUCE;
    TRY(pieces_buckets(s->pieces, kind, &p->data, bytes, software->bucket_bytes, &whole_s, error));
    double window = 0;
    if (software->overlap_gradient_reduce && !p->gathers_once) {
        const struct blocks above =
            screen_blocks_in(p, screen_first_layer(p, stage) + 1, screen_stage_layers(p, stage) - 1);
        window = backward_of(p, &above) / (double)p->at->virtual_stages;
    }
    *exposed_s = fmax(whole_s / fmax(1, n), whole_s - window);
    return STATUS_OK;
}

/* Stage i ends its last backward earlier than stage 0, by what the stages before it still have to do. */
static enum status tail_s(struct screen *s, const struct point *p, double *tail, struct error *error)
{
    int64_t last = p->at->pipeline - 1, larger = p->larger_from < last ? p->larger_from : 0;
    const int64_t stages[] = { 0, larger, last };
    int64_t count = p->variants == 1 ? 3 : p->at->pipeline; /* unlike ones: all */
    *tail = 0;
    for (int64_t i = 0; i < count; i++) {
        int64_t stage = p->variants == 1 ? stages[i] : i;
        const struct blocks before =
            screen_blocks_in(p, 0, p->variants == 1 ? stage * p->per_stage : screen_first_layer(p, stage));
        double exposed;
        TRY(reduction_s(s, p, stage, &exposed, error));
        *tail = fmax(*tail, exposed - backward_of(p, &before));
    }
    return STATUS_OK;
}

static enum status end_of_step_s(struct screen *s, const struct point *p, double *end_s, struct error *error)
{
    const struct software *software = &s->scenario->software;
    const struct model *model = &s->scenario->model;
    const struct screen_point *at = p->at;
    double most = fmax(screen_stage_parameters(p, 0), screen_stage_parameters(p, at->pipeline - 1)), gathers = 0;
    for (int64_t stage = 1; p->variants > 1 && stage < at->pipeline - 1; stage++) {
        most = fmax(most, screen_stage_parameters(p, stage));
    }
    double owned = at->zero_stage >= 1 ? most / p->data.count : most;
    double state = owned * (software->master_bytes + software->moments_bytes);
    uint32_t launches = software->optimizer_launches > 0 ? software->optimizer_launches : 1;
    uint32_t adam_launches =
        software->fused_optimizer ? launches : launches * (uint32_t)(screen_stage_layers(p, 0) + 1) * 12;
    double clear = most * (at->zero_stage >= 2 ? 1.0 / p->data.count : 1) * software->gradient_bytes, part;
    *end_s = pieces_stream_s(s->pieces, KERNEL_ELEMENTWISE, 0, clear, 1);
    *end_s += pieces_stream_s(s->pieces, KERNEL_OPTIMIZER, owned * software->gradient_bytes, 0, launches);
    *end_s += fmax(pieces_stream_s(s->pieces, KERNEL_OPTIMIZER, state + owned * software->gradient_bytes,
                                   state + owned * dtype_bytes(s->scenario->plan.precision), adam_launches),
                   adam_launches * software->launch_host_s);
    *end_s += software->step_host_s;
    if (at->zero_stage >= 1 && at->zero_stage < 3) {
        TRY(pieces_collective(s->pieces, COLLECTIVE_ALL_GATHER, &p->data,
                              most * dtype_bytes(s->scenario->plan.precision), &part, error));
        *end_s += part;
    }
    if (model->tied_head && at->pipeline > 1) {
        const struct piece_group ends = { .count = 2,
                                          .stride = (uint32_t)((at->pipeline - 1) * at->tensor * at->data),
                                          .instance_count = (uint32_t)at->tensor,
                                          .instance_stride = 1 };
        double elements = (double)model->hidden / (double)at->tensor *
                          (double)model_padded_vocab(model, at->tensor, software->vocab_multiple);
        TRY(pieces_collective(s->pieces, COLLECTIVE_ALL_REDUCE, &ends, elements * software->gradient_bytes, &part,
                              error));
        *end_s += part;
    }
    if (p->gathers_once) { /* every layer, before its first use */
        for (int64_t stage = 0; stage < (p->variants > 1 ? at->pipeline : 1); stage++) {
            const struct blocks blocks = screen_stage_blocks(p, stage);
            double sum = 0;
            for (uint32_t v = 0; v < p->variants; v++) {
                double bytes = p->layers->blocks[v].parameters * software->gathered_bytes;
                TRY(pieces_collective(s->pieces, COLLECTIVE_ALL_GATHER, &p->data, bytes, &part, error));
                sum += blocks.of[v] * part;
            }
            gathers = fmax(gathers, sum);
        }
        *end_s += gathers;
    }
    return STATUS_OK;
}

/* ---- the whole ---- */

/* From a stage to the next. */
static enum status one_hop_s(struct screen *s, const struct point *p, double bytes, double *time_s, struct error *error)
{
    const struct screen_point *at = p->at;
    double gather = 0;
    const struct piece_group pair = piece_pair(&s->scenario->cluster, at->tensor, at->data);
    bool scatter = s->scenario->software.scatter_gather_pipeline && at->tensor > 1 && !at->sequence_parallel;
    TRY(pieces_collective(s->pieces, COLLECTIVE_SEND_RECV, &pair, scatter ? bytes / (double)at->tensor : bytes, time_s,
                          error));
    if (scatter) {
        const struct piece_group tensor = piece_tensor_group(&s->scenario->cluster, at->tensor);
        TRY(pieces_collective(s->pieces, COLLECTIVE_ALL_GATHER, &tensor, bytes, &gather, error));
    }
    *time_s += gather;
    return STATUS_OK;
}

static enum status hop_s(struct screen *s, struct point *p, struct error *error)
{
    int64_t stages = p->at->pipeline;
    p->boundary_bytes = p->layers->blocks[0].boundary_bytes;
    if (stages == 1 || p->variants == 1) {
        return stages == 1 ? STATUS_OK : one_hop_s(s, p, p->boundary_bytes, &p->hop_s, error);
    }
    p->boundary_bytes = 0;
    for (int64_t stage = 1; stage < stages; stage++) {
        double bytes = p->layers->blocks[model_layer_variant(p->model, screen_first_layer(p, stage))].boundary_bytes,
               hop;
        TRY(one_hop_s(s, p, bytes, &hop, error));
        p->boundary_bytes = fmax(p->boundary_bytes, bytes);
        p->hop_s += hop / (double)(stages - 1);
    }
    return STATUS_OK;
}

static enum status prepare(struct screen *s, const struct screen_point *at, struct point *p, struct error *error)
{
    const struct scenario *scenario = s->scenario;
    const struct software *software = &scenario->software;
    int64_t stages = at->pipeline * at->virtual_stages, remainder = scenario->model.layers % stages;
    *p = (struct point){ .at = at,
                         .model = &scenario->model,
                         .data = piece_data_group(at->tensor, at->data),
                         .variants = model_variant_count(&scenario->model) };
    CHECK((remainder == 0 && p->variants == 1) || at->virtual_stages == 1);
    p->micro_batches = scenario->plan.global_batch / (at->data * at->micro_batch);
    p->per_stage = scenario->model.layers / stages;
    p->larger_from = remainder == 0 ? at->pipeline : at->pipeline - 1 - remainder;
    TRY(pieces_layers(s->pieces, at->tensor, at->sequence_parallel, at->micro_batch, &p->layers, error));
    TRY(hop_s(s, p, error));
    p->gathers_once = software->keeps_gathered && at->pipeline > 1 && at->zero_stage >= 3 && at->data > 1;
    for (uint32_t v = 0; v < p->variants && !p->gathers_once; v++) {
        double parameters = p->layers->blocks[v].parameters;
        if (at->zero_stage >= 3) {
            TRY(pieces_collective(s->pieces, COLLECTIVE_ALL_GATHER, &p->data, parameters * software->gathered_bytes,
                                  &p->gather_s[v], error));
        }
        if (at->zero_stage >= 2) {
            TRY(pieces_buckets(s->pieces, COLLECTIVE_REDUCE_SCATTER, &p->data, parameters * software->reduce_bytes,
                               software->bucket_bytes, &p->scatter_s[v], error));
        }
    }
    return STATUS_OK;
}

/* The stages that differ: first, small ones in the middle, larger ones, last; with how many there are of each. */
static uint32_t list_kinds(const struct point *p, int64_t stages[4], int64_t counts[4])
{
    int64_t last = p->at->pipeline - 1, larger = p->larger_from < last ? last - p->larger_from : 0;
    uint32_t count = 0;
    int64_t small = last - 1 - (p->larger_from == 0 ? larger - 1 : larger); /* neither end */
    stages[count] = 0, counts[count++] = 1;
    if (small > 0) {
        stages[count] = 1, counts[count++] = small;
    }
    if (larger > 0 && p->larger_from > 0) {
        stages[count] = p->larger_from, counts[count++] = larger;
    } else if (larger > 1) {
        stages[count] = 1, counts[count++] = larger - 1;
    }
    if (last > 0) {
        stages[count] = last, counts[count++] = 1;
    }
    return count;
}

enum status screen_cost(struct screen *s, const struct screen_point *at, struct screen_cost *cost,
                        struct screen_stage *stages, struct error *error)
{
    struct point p;
    int64_t kinds[4], counts[4];
    double sum = 0, most = 0, tail, end;
    TRY(prepare(s, at, &p, error));
    *cost = (struct screen_cost){ 0 };
    bool alike = p.variants == 1; /* unlike layers: every stage for itself */
    int64_t kind_count = alike ? list_kinds(&p, kinds, counts) : at->pipeline;
    for (int64_t i = 0; i < kind_count; i++) {
        int64_t stage = alike ? kinds[i] : i;
        double least, peak, time = stage_time_s(s, &p, stage);
        TRY(screen_stage_memory(s, &p, stage, &least, &peak, error));
        sum += time * (double)(alike ? counts[i] : 1);
        most = fmax(most, time);
        cost->least_bytes = fmax(cost->least_bytes, least);
        cost->peak_bytes = fmax(cost->peak_bytes, peak);
    }
    TRY(tail_s(s, &p, &tail, error));
    TRY(end_of_step_s(s, &p, &end, error));
    double fill = (sum - most) / (double)at->virtual_stages + 2 * (double)(at->pipeline - 1) * p.hop_s;
    cost->step_time_s = (double)p.micro_batches * most + fill + tail + end;
    for (int64_t i = 0; stages != NULL && i < at->pipeline; i++) {
        stages[i].time_s = stage_time_s(s, &p, i);
        TRY(screen_stage_memory(s, &p, i, &stages[i].least_bytes, &stages[i].peak_bytes, error));
    }
    return STATUS_OK;
}
