/* What a stage of a point holds, by closed forms. */
#include <math.h>

#include "sim/base/array.h"
#include "sim/base/check.h"
#include "strategies/planners/exhaustive_screen_internal.h"
#include "strategies/planners/planner.h"
#include "strategies/registry.h"

/* ---- the layers of a stage ---- */

struct ends screen_stage_ends(const struct point *p, int64_t stage)
{
    return (struct ends){ stage == 0, stage == p->at->pipeline - 1 };
}

int64_t screen_stage_layers(const struct point *p, int64_t stage)
{
    bool larger = stage >= p->larger_from && stage < p->at->pipeline - 1;
    return p->per_stage * p->at->virtual_stages + (larger ? 1 : 0);
}

int64_t screen_first_layer(const struct point *p, int64_t stage)
{
    int64_t larger = stage > p->larger_from ? stage - p->larger_from : 0;
    return p->per_stage * stage + larger;
}

struct blocks screen_blocks_in(const struct point *p, int64_t first, int64_t count)
{
    struct blocks blocks = { { 0 } };
    if (p->variants == 1) {
        blocks.of[0] = (double)count;
        return blocks;
    }
    for (int64_t i = first; i < first + count; i++) {
        blocks.of[model_layer_variant(p->model, i)]++;
    }
    return blocks;
}

struct blocks screen_stage_blocks(const struct point *p, int64_t stage)
{
    return screen_blocks_in(p, screen_first_layer(p, stage), screen_stage_layers(p, stage));
}

static const struct piece_layer *last_block(const struct point *p, int64_t stage)
{
    int64_t last = p->variants == 1 ? 0 : screen_first_layer(p, stage) + screen_stage_layers(p, stage) - 1;
    return &p->layers->blocks[model_layer_variant(p->model, last)];
}

/* The most parameters of a layer on the stage. */
static double largest_parameters(const struct point *p, int64_t stage)
{
    const struct blocks blocks = screen_stage_blocks(p, stage);
    double most = 0;
    for (uint32_t v = 0; v < p->variants; v++) {
        most = blocks.of[v] > 0 ? fmax(most, p->layers->blocks[v].parameters) : most;
    }
    return most;
}

double screen_block_parameters(const struct point *p, int64_t stage)
{
    const struct blocks blocks = screen_stage_blocks(p, stage);
    double parameters = 0;
    for (uint32_t v = 0; v < p->variants; v++) {
        parameters += blocks.of[v] * p->layers->blocks[v].parameters;
    }
    return parameters;
}

double screen_stage_parameters(const struct point *p, int64_t stage)
{
    const struct piece_layers *of = p->layers;
    struct ends ends = screen_stage_ends(p, stage);
    double parameters = screen_block_parameters(p, stage);
    parameters += ends.embedding ? of->embedding.parameters : 0;
    parameters += ends.head ? of->head.parameters : 0;
    return parameters + (ends.head && p->at->pipeline > 1 ? of->head.tied_parameters : 0);
}

/* ---- in flight ---- */

static enum status walk_order(struct screen *s, struct in_flight *flight, struct error *error)
{
    const struct pipeline_order *order = registry_order("interleaved", error);
    struct order_request request = { .stages = flight->stages,
                                     .micro_batches = flight->micro_batches,
                                     .virtual_stages = flight->virtual_stages };
    CHECK(order != NULL);
    parameters_defaults(order->parameters, order->parameter_count, &request.parameters);
    s->steps.count = 0;
    TRY(array_reserve(&s->steps, order_step_count(order, &request), error));
    uint32_t count = order->build(&request, flight->stage, s->steps.items);
    struct in_flight now = { 0 };
    for (uint32_t i = 0; i < count; i++) {
        const struct order_step *step = &s->steps.items[i];
        uint32_t change = step->kind == STEP_FORWARD ? 1 : UINT32_MAX; /* wraps: -1 */
        now.pairs += change;
        now.first_chunk += step->chunk == 0 ? change : 0;
        now.last_chunk += step->chunk == flight->virtual_stages - 1 ? change : 0;
        if (now.pairs > flight->pairs) {
            flight->pairs = now.pairs;
            flight->first_chunk = now.first_chunk;
            flight->last_chunk = now.last_chunk;
        }
    }
    return STATUS_OK;
}

static enum status in_flight(struct screen *s, const struct point *point, int64_t stage, struct in_flight *flight,
                             struct error *error)
{
    *flight = (struct in_flight){ .stages = (uint32_t)point->at->pipeline,
                                  .micro_batches = (uint32_t)point->micro_batches,
                                  .virtual_stages = (uint32_t)point->at->virtual_stages,
                                  .stage = (uint32_t)stage };
    if (flight->virtual_stages == 1) { /* 1F1B: what was begun before the first gradient comes back */
        int64_t most = point->at->pipeline - stage;
        most = most < point->micro_batches ? most : point->micro_batches;
        flight->pairs = flight->first_chunk = flight->last_chunk = (uint32_t)most;
        return STATUS_OK;
    }
    for (size_t i = s->flights.count; i-- > 0;) {
        const struct in_flight *known = &s->flights.items[i];
        if (known->stages == flight->stages && known->micro_batches == flight->micro_batches &&
            known->virtual_stages == flight->virtual_stages && known->stage == flight->stage) {
            *flight = *known;
            return STATUS_OK;
        }
    }
    TRY(walk_order(s, flight, error));
    TRY(array_reserve(&s->flights, 1, error));
    s->flights.items[s->flights.count++] = *flight;
    return STATUS_OK;
}

/* ---- memory ---- */

/* Units of FSDP1, also in groups of one (lower.h). */
static bool flat_units(const struct screen *s, const struct point *p)
{
    return s->scenario->software.flat_units && p->at->zero_stage >= 2;
}

/* Weights wider than kernels take are cast for the forward and kept for the backward. */
static bool casts_weights(const struct screen *s, const struct point *p)
{
    const struct software *software = &s->scenario->software;
    return dtype_bytes(s->scenario->plan.precision) < software->weight_bytes &&
           software->gathered_bytes < software->weight_bytes && (p->at->zero_stage < 3 || p->data.count == 1) &&
           (p->at->zero_stage < 3 || !software->flat_units);
}

/* What a micro-batch leaves on the device until its backward: saved tensors, and weights cast for the forward and kept. */
static double block_held(const struct screen *s, const struct point *p, uint32_t variant)
{
    const struct piece_layer *layer = &p->layers->blocks[variant];
    enum recompute_mode mode = (enum recompute_mode)p->at->recompute;
    bool casts = casts_weights(s, p) && mode != RECOMPUTE_FULL;
    return layer->saved_bytes[mode] + (casts ? layer->parameters * s->scenario->software.gathered_bytes : 0);
}

static double head_held(const struct screen *s, const struct point *p)
{
    const struct piece_layer *head = &p->layers->head;
    return head->saved_bytes[RECOMPUTE_NONE] +
           (casts_weights(s, p) ? head->parameters * s->scenario->software.gathered_bytes : 0);
}

/* Bytes of the stage's saved tensors at the instant when they are most. */
static double held_bytes(const struct screen *s, const struct point *p, int64_t stage, const struct in_flight *flight)
{
    const struct blocks blocks = screen_stage_blocks(p, stage);
    struct ends ends = screen_stage_ends(p, stage);
    double bytes = 0;
    for (uint32_t v = 0; v < p->variants; v++) {
        bytes += flight->pairs * (blocks.of[v] / (double)p->at->virtual_stages) * block_held(s, p, v);
    }
    bytes += ends.embedding ? flight->first_chunk * p->layers->embedding.saved_bytes[RECOMPUTE_NONE] : 0;
    return bytes + (ends.head ? flight->last_chunk * head_held(s, p) : 0);
}

/* A layer's backward, beside what the stage holds with what that layer saved: as a whole; or of a unit of FSDP1 the pass, and the joining of its gradients. */
static double backward_bytes(const struct screen *s, const struct point *p, uint32_t variant, double each_parameter)
{
    const struct piece_layer *layer = &p->layers->blocks[variant];
    const struct software *software = &s->scenario->software;
    enum recompute_mode mode = (enum recompute_mode)p->at->recompute;
    if (!flat_units(s, p)) {
        return layer->backward_scratch_bytes[mode] + layer->parameters * each_parameter;
    }
    bool gathers = p->at->zero_stage >= 3 && (p->data.count > 1 || software->gathered_bytes < software->weight_bytes);
    double weights = gathers ? layer->parameters * software->gathered_bytes : 0;
    double again = layer->saved_bytes[RECOMPUTE_NONE] - layer->saved_bytes[mode];
    double joined = 2 * layer->parameters * software->gathered_bytes;
    joined += mode == RECOMPUTE_FULL ? 3 * layer->boundary_bytes : layer->boundary_bytes - block_held(s, p, variant);
    return weights + fmax(again + layer->backward_flow_bytes, joined);
}

/* The highest of the instants that certainly come when most is held: the forward of the last layer, its backward, and behind a head the backward of the layer before. With chunks the forward
 * that fills the stage need not be one of the last chunk, but the backward that follows it is. Unlike layers: the backward of each, when those behind it have let go of theirs.
 * `each_parameter`: bytes that a layer's backward has besides, gathered weights and the whole gradient. */
static double scratch_bytes(const struct screen *s, const struct point *p, int64_t stage, double each_parameter)
{
    const struct piece_layer *head = &p->layers->head, *last = last_block(p, stage);
    enum recompute_mode mode = (enum recompute_mode)p->at->recompute;
    bool ends = screen_stage_ends(p, stage).head;
    double most = last->forward_scratch_bytes[mode], gone = ends ? head_held(s, p) : 0;
    if (ends) {
        most = flat_units(s, p) ? head->backward_flow_bytes : head->backward_scratch_bytes[RECOMPUTE_NONE];
        most = p->at->virtual_stages == 1 ? fmax(most, head->forward_scratch_bytes[RECOMPUTE_NONE]) : most;
    }
    int64_t first = p->variants == 1 ? 0 : screen_first_layer(p, stage);
    for (int64_t i = p->variants == 1 ? 1 : screen_stage_layers(p, stage); i > 0; i--) {
        uint32_t variant = model_layer_variant(p->model, first + i - 1);
        most = fmax(most, backward_bytes(s, p, variant, each_parameter) - gone);
        gone += block_held(s, p, variant);
    }
    return most;
}

/* Shards of gradients that the first reduction makes are not there when the stage is fullest before any: certain are those of blocks that an earlier micro-batch has reduced. */
static double absent_gradients(const struct screen *s, const struct point *p, int64_t stage,
                               const struct in_flight *flight)
{
    const struct software *software = &s->scenario->software;
    bool made = software->gradients_as_made && p->at->zero_stage >= 2 && (p->data.count > 1 || software->flat_units);
    bool again = p->at->virtual_stages == 1 && p->micro_batches > flight->pairs && !p->gathers_once;
    double parameters = screen_stage_parameters(p, stage);
    parameters -= again ? screen_block_parameters(p, stage) : 0;
    return made ? parameters * software->gradient_bytes / p->data.count : 0;
}

enum status screen_stage_memory(struct screen *s, const struct point *p, int64_t stage, double *least, double *peak,
                                struct error *error)
{
    const struct software *software = &s->scenario->software;
    const struct screen_point *at = p->at;
    const struct piece_layer *layer = last_block(p, stage);
    struct in_flight flight;
    TRY(in_flight(s, p, stage, &flight, error));
    double parameters = screen_stage_parameters(p, stage), replicas = p->data.count, share = 1 / replicas;
    int64_t zero = replicas > 1 ? at->zero_stage : 0;
    double states = parameters * (software->weight_bytes * (zero >= 3 ? share : 1) +
                                  software->gradient_bytes * (zero >= 2 ? share : 1) +
                                  (software->master_bytes + software->moments_bytes) * (zero >= 1 ? share : 1));
    if (software->bucket_copies && replicas > 1 && at->zero_stage == 0) {
        states += parameters * software->reduce_bytes;
    }
    double buffer = fmax(layer->module_buffer_bytes, p->layers->head.module_buffer_bytes);
    buffer = screen_stage_ends(p, stage).head ? buffer : layer->module_buffer_bytes;
    double runtime = buffer + planner_device_bytes(s->scenario, at->tensor > 1, replicas > 1, at->pipeline > 1);
    double gradient = fmin(software->gradient_bytes, fmin(software->gathered_bytes, software->reduce_bytes));
    double largest = largest_parameters(p, stage), others = screen_block_parameters(p, stage) - layer->parameters;
    double held = held_bytes(s, p, stage, &flight);
    double each_parameter = (zero >= 2 ? gradient : 0) + (zero >= 3 ? software->gathered_bytes : 0);
    *peak = states + runtime + held + scratch_bytes(s, p, stage, each_parameter);
    *least = fmax(states + runtime, *peak - absent_gradients(s, p, stage, &flight));
    if (zero >= 3) {
        *peak += p->gathers_once ? others * (software->gathered_bytes + gradient)
                                 : largest * software->gathered_bytes * software->prefetch_layers;
        *peak += software->staged_collectives ? largest * software->gathered_bytes : 0;
    }
    if (zero >= 2 && !p->gathers_once) { /* a bucket that fills while the one before is scattered */
        double bucket = software->bucket_bytes > 0 && software->reduce_bytes > 0
                            ? software->bucket_bytes / software->reduce_bytes * software->gradient_bytes
                            : parameters * software->gradient_bytes;
        double chunk = screen_block_parameters(p, stage) / (double)at->virtual_stages;
        *peak += fmin(fmax(bucket, largest * gradient), chunk * software->gradient_bytes);
    }
    *peak += at->pipeline > 1 ? 2 * p->boundary_bytes : 0;
    return STATUS_OK;
}
