/* Explaining bytes: parameters, states, activations, peaks. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "sim/base/units.h"
#include "sim/model/variant.h"
#include "sim/plan/lower.h"
#include "sim/plan/plan_replicas.h"
#include "sim/plan/policy.h"
#include "sim/report/explain_internal.h"
#include "strategies/registry.h"

typedef long long wide; /* for printing */

/* How many layers of each shape there are, and what one has. */
static void shapes_of_layers(struct explainer *e)
{
    static const char *const columns[] = { "shape", "layers", "parameters of one", NULL };
    const struct model *m = &e->from->scenario->model;
    if (model_is_uniform(m)) {
        return;
    }
    explain_table(e, "Shapes of layers (sim/model/variant.h)", columns);
    for (uint32_t variant = 0; variant < model_variant_count(m); variant++) {
        int64_t count = 0, any = 0;
        for (int64_t layer = 0; layer < m->layers; layer++) {
            if (model_layer_variant(m, layer) == variant) {
                count++;
                any = layer;
            }
        }
        if (count > 0) {
            explain_cell_text(e, model_variant_word(m, variant));
            explain_cell_number(e, (double)count);
            explain_cell_number(e, (double)model_layer_parameters_at(m, any));
        }
    }
}

void explain_model(struct explainer *e)
{
    const struct model *m = &e->from->scenario->model;
    wide h = m->hidden, q = m->heads * m->head_size, kv = 2 * m->kv_heads * m->head_size, f = m->ffn;
    wide first = m->activation == MODEL_SWIGLU ? 2 * f : f, norm = h * (m->norm_bias ? 2 : 1);
    wide attention = h * (q + kv) + (m->qkv_bias ? q + kv : 0) + q * h + (m->projection_bias ? h : 0);
    wide ffn = h * first + f * h + (m->ffn_bias ? first + h : 0);
    explain_section(e, "model", "Model and parameters", NULL);
    explain_word(e, "model",
                 explain_text(e, "%s (%s): %lld layers, hidden %lld, heads %lld, ffn %lld, vocabulary %lld", m->name,
                              model_family_word(m->family), (wide)m->layers, h, (wide)m->heads, f, (wide)m->vocab),
                 m->source);
    explain_value(
        e, "attention of a layer", (double)attention, "parameters",
        "h (q + kv) + q h + biases, q = heads x head size, kv = 2 x kv heads x head size",
        explain_text(e, "%lld x (%lld + %lld) + %lld x %lld + %lld", h, q, kv, q, h, attention - h * (q + kv) - q * h),
        NULL);
    explain_value(e, "feed-forward of a layer", (double)ffn, "parameters",
                  m->activation == MODEL_SWIGLU ? "h x 2 ffn (gate and up) + ffn h + biases" : "h ffn + ffn h + biases",
                  explain_text(e, "%lld x %lld + %lld x %lld + %lld", h, first, f, h, ffn - h * first - f * h), NULL);
    explain_value(e, "norms of a layer", (double)(2 * norm), "parameters", "2 x (weight + bias where it has one)",
                  explain_text(e, "2 x %lld", norm), NULL);
    wide layer = model_layer_parameters(m), besides = layer - attention - ffn - 2 * norm;
    explain_value(e, model_is_uniform(m) ? "one layer" : "first layer", (double)layer, "parameters",
                  besides > 0 ? "attention + feed-forward + norms + relative biases"
                              : "attention + feed-forward + norms",
                  besides > 0 ? explain_text(e, "%lld + %lld + %lld + %lld", attention, ffn, 2 * norm, besides)
                              : explain_text(e, "%lld + %lld + %lld", attention, ffn, 2 * norm),
                  NULL);
    explain_value(e, "embeddings", (double)model_embedding_parameters(m), "parameters",
                  m->family == MODEL_VIT    ? "patch projection + class token + positions"
                  : m->family == MODEL_SWIN ? "patch projection + its norm"
                  : m->family == MODEL_T5   ? "vocabulary x h + a relative bias a bucket (32), head and stack"
                                            : "(vocabulary + positions + segments) x h + its norm where it has one",
                  explain_text(e, "vocabulary %lld, position rows %lld, segment types %lld, h %lld", (wide)m->vocab,
                               (wide)m->position_rows, (wide)m->segment_types, h),
                  NULL);
    explain_value(e, "head", (double)model_head_parameters(m), "parameters",
                  m->tied_head ? "final norm and what is not shared: the output projection is the embedding"
                               : "final norm + output projection",
                  NULL, NULL);
    wide ends = model_embedding_parameters(m) + model_head_parameters(m), whole = model_parameters(m);
    explain_value(e, "whole model", (double)whole, "parameters",
                  model_is_uniform(m) ? "layers x one layer + embeddings + head" : "layers + embeddings + head",
                  model_is_uniform(m)
                      ? explain_text(e, "%lld x %lld + %lld + %lld", (wide)m->layers, layer,
                                     (wide)model_embedding_parameters(m), (wide)model_head_parameters(m))
                      : explain_text(e, "%lld + %lld + %lld", whole - ends, (wide)model_embedding_parameters(m),
                                     (wide)model_head_parameters(m)),
                  NULL);
    shapes_of_layers(e);
    if (m->published_parameters > 0) {
        explain_value(e, "as published", m->published_parameters, "parameters", NULL, NULL, m->source);
    }
}

static void explain_gpus(struct explainer *e)
{
    const struct plan *p = &e->from->scenario->plan;
    bool own = p->stage_replicas != NULL;
    explain_value(e, "GPUs", (double)plan_gpus(p), NULL,
                  own ? "tensor x the replicas of all stages" : "tensor x context x pipeline x data",
                  own ? explain_text(e, "%lld x %lld", (wide)p->tensor, (wide)(plan_gpus(p) / p->tensor))
                      : explain_text(e, "%lld x %lld x %lld x %lld", (wide)p->tensor, (wide)p->context,
                                     (wide)p->pipeline, (wide)p->data),
                  NULL);
    explain_value(e, own ? "micro-batches" : "micro-batches of a replica", (double)p->micro_batches, NULL,
                  "global batch / (data x micro-batch)",
                  explain_text(e, "%lld / (%lld x %lld)", (wide)p->global_batch, (wide)p->data, (wide)p->micro_batch),
                  NULL);
    for (int64_t s = 0; own && s < p->pipeline; s++) {
        explain_value(e, explain_text(e, "replicas of stage %lld", (wide)s), (double)plan_stage_data(p, s), NULL,
                      p->replica_sharing == SHARING_DEAL ? "micro-batch i runs on replica i mod r"
                                                         : "each micro-batch is cut over them",
                      NULL,
                      p->replica_sharing == SHARING_DEAL ? "Narayanan et al., PipeDream, SOSP 2019"
                                                         : "Fan et al., DAPPLE, PPoPP 2021");
    }
}

void explain_plan(struct explainer *e)
{
    const struct scenario *s = e->from->scenario;
    const struct plan *p = &s->plan;
    explain_section(e, "plan", "How the step is divided", NULL);
    explain_gpus(e);
    int64_t decoder = s->model.decoder_sequence, sample = model_sample_tokens(&s->model, p->sequence_length);
    explain_value(e, "tokens of a step", (double)(p->global_batch * sample), NULL,
                  decoder > 0 ? "global batch x (sequence length + the decoder's)" : "global batch x sequence length",
                  decoder > 0 ? explain_text(e, "%lld x (%lld + %lld)", (wide)p->global_batch, (wide)p->sequence_length,
                                             (wide)decoder)
                              : explain_text(e, "%lld x %lld", (wide)p->global_batch, (wide)p->sequence_length),
                  NULL);
    explain_word(e, "pipeline order",
                 explain_text(e, "%s, %lld virtual stages a device: %s", e->order->name, (wide)p->virtual_stages,
                              e->order->summary),
                 e->order->paper);
    explain_parameters(e, "Parameters of the pipeline order", e->order->parameters, e->order->parameter_count,
                       &p->order_parameters);
    explain_value(e, "copies of the model", order_copies(e->order), NULL,
                  "what the order needs; all hold the same weights and sum their gradients", NULL, e->order->paper);
    static const char *const barriers[BARRIER_COUNT] = {
        [BARRIER_BEFORE] = "before: no stage reduces gradients until the backwards of all have ended",
        [BARRIER_AFTER] = "after: each stage reduces when its own backwards have ended, all wait for the norm of all",
        [BARRIER_NONE] = "none: each stage reduces, updates and goes on by itself",
    };
    explain_word(e, "gradient barrier",
                 e->order->asynchronous ? "none: the order updates each stage by itself"
                                        : barriers[p->gradient_barrier],
                 "the three forms of hidden reduction (our rules for the idea of Hippie, Ye et al., ICPP 2021)");
    explain_word(e, "precision", dtype_word(p->precision), NULL);
    explain_value(e, "ZeRO stage", (double)p->zero_stage, NULL,
                  "1: optimizer states divided over data parallel ranks, 2: gradients too, 3: weights too", NULL,
                  e->mixed ? "where the table does not say otherwise" : NULL);
    explain_splits(e);
}

/* ---- states ---- */

/* What a stage holds, from plan and layer graphs. */
struct stage_contents {
    uint32_t layers;   /* transformer */
    uint32_t versions; /* of the weights */
    bool embedding, head;
    /* On one device, after tensor parallelism. Bytes: as their ZeRO stages divide them. */
    double parameters, weight_bytes, gradient_bytes, optimizer_bytes;
    double made_bytes; /* of gradient_bytes, those that are there from the reduction to the update only */
};

/* A layer's share, `parameters` of it on one device before ZeRO. */
static void add_layer(const struct explainer *e, struct stage_contents *c, int64_t position, double parameters)
{
    const struct software *sw = &e->from->scenario->software;
    const struct plan_layer *split = explain_split_at(e, position);
    double replicas = (double)(split->data * e->from->scenario->plan.context * order_copies(e->order));
    c->parameters += parameters;
    c->weight_bytes += parameters * sw->weight_bytes / (split->zero_stage >= 3 ? replicas : 1);
    double gradient = parameters * sw->gradient_bytes / (split->zero_stage >= 2 ? replicas : 1);
    const struct memory_policy *policy = registry_policy(e->from->scenario->plan.policy, NULL);
    c->gradient_bytes += gradient;
    c->made_bytes += lower_makes_gradients(sw, policy, e->order, (uint32_t)split->zero_stage, replicas) ? gradient : 0;
    c->optimizer_bytes += parameters * (sw->master_bytes + sw->moments_bytes) / (split->zero_stage >= 1 ? replicas : 1);
}

static uint32_t model_stage(const struct explainer *e, uint32_t stage, uint32_t chunk)
{
    uint32_t v = order_virtual_stage(e->order, &e->order_request, stage, chunk);
    return order_model_stage(e->order, &e->order_request, v);
}

static bool is_last_stage(const struct explainer *e, uint32_t model_stage)
{
    return model_stage + 1 == order_model_stages(e->order, &e->order_request);
}

static struct stage_contents stage_contents(const struct explainer *e, uint32_t stage)
{
    const struct plan *plan = &e->from->scenario->plan;
    struct stage_contents c = { 0 };
    for (uint32_t chunk = 0; chunk < e->order_request.virtual_stages; chunk++) {
        uint32_t v = model_stage(e, stage, chunk);
        int64_t first = 1;
        for (uint32_t before = 0; before < v; before++) {
            first += plan->stage_layers[before];
        }
        for (int64_t i = first; i < first + plan->stage_layers[v]; i++) {
            add_layer(e, &c, i, explain_graph(e, i)->parameters);
        }
        c.layers += (uint32_t)plan->stage_layers[v];
        c.embedding = c.embedding || v == 0;
        c.head = c.head || is_last_stage(e, v);
    }
    int64_t last = e->from->scenario->model.layers + 1;
    if (c.embedding) {
        add_layer(e, &c, 0, e->graphs[LAYER_EMBEDDING].parameters);
    }
    if (c.head) {
        /* A device without the embedding keeps its own copy of a tied table. */
        const struct layer_graph *head = &e->graphs[LAYER_HEAD];
        bool apart = order_ends_apart(e->order, &e->order_request);
        add_layer(e, &c, last, head->parameters + (apart ? head->tied_parameters : 0));
    }
    c.versions = order_weight_versions(e->order, &e->order_request, stage);
    c.weight_bytes *= c.versions;
    return c;
}

/* Bytes that live all step long on the device of a rank, by class. */
static double lasting_bytes(const struct schedule *s, const struct sched_rank *rank, enum buffer_class buffer_class)
{
    double sum = 0;
    for (uint32_t i = 0; i < s->buffer_count; i++) {
        const struct sched_buffer *b = &s->buffers[i];
        const struct sched_space *space = &s->spaces[b->space];
        if (b->buffer_class == buffer_class && (b->flags & BUFFER_LIVE_AT_START) != 0 && space->kind == SPACE_DEVICE &&
            space->location == s->devices[rank->first_device]) {
            sum += (double)b->bytes * b->copies;
        }
    }
    return sum;
}

void explain_states(struct explainer *e)
{
    const struct scenario *scenario = e->from->scenario;
    const struct software *sw = &scenario->software;
    const struct plan *plan = &scenario->plan;
    const struct schedule *s = e->from->input->schedule;
    double replicas = (double)(plan->data * plan->context);
    const struct software_source *source = software_source_of(sw, "bytes_per_parameter");
    explain_section(e, "states", "Parameters, gradients and optimizer states",
                    "Bytes of one device. \"sum\" leaves out gradients that are there from their reduction to the "
                    "update only (software.memory.gradients_as_made). \"in the schedule\" sums the buffers that live "
                    "all step long there; a memory policy may have put some elsewhere.");
    explain_value(
        e, "bytes per parameter", software_state_bytes(sw), "bytes", "weight + gradient + master + moments",
        explain_text(e, "%g + %g + %g + %g", sw->weight_bytes, sw->gradient_bytes, sw->master_bytes, sw->moments_bytes),
        source != NULL ? source->source : NULL);
    if (e->mixed) {
        explain_word(e, "divided by the replicas", "of each layer as the plan's table of splits says",
                     "ZeRO: Rajbhandari et al. 2020");
    } else {
        explain_value(e, "data-parallel replicas", replicas, NULL, "data x context", NULL, NULL);
        explain_value(e, "divided by the replicas", (double)plan->zero_stage, "ZeRO stage",
                      plan->zero_stage == 0   ? "nothing"
                      : plan->zero_stage == 1 ? "optimizer states"
                      : plan->zero_stage == 2 ? "optimizer states and gradients"
                                              : "optimizer states, gradients and weights",
                      NULL, "ZeRO: Rajbhandari et al. 2020");
    }
    static const char *const columns[] = { "rank",        "layers", "parameters a GPU",  "weight B", "gradient B",
                                           "optimizer B", "sum B",  "in the schedule B", "formula",  NULL };
    explain_table(e, "By stage", columns);
    for (uint32_t r = 0; r < s->rank_count; r++) {
        if (s->ranks[r].stage == SCHED_NONE || (r > 0 && s->ranks[r - 1].stage == s->ranks[r].stage)) {
            continue;
        }
        struct stage_contents c = stage_contents(e, s->ranks[r].stage);
        double lasting = lasting_bytes(s, &s->ranks[r], BUFFER_WEIGHT) +
                         lasting_bytes(s, &s->ranks[r], BUFFER_GRADIENT) +
                         lasting_bytes(s, &s->ranks[r], BUFFER_OPTIMIZER);
        explain_cell_text(e, sched_label(s, s->ranks[r].label));
        explain_cell_number(e, c.layers);
        explain_cell_number(e, c.parameters);
        explain_cell_number(e, c.weight_bytes);
        explain_cell_number(e, c.gradient_bytes);
        explain_cell_number(e, c.optimizer_bytes);
        explain_cell_number(e, c.weight_bytes + c.gradient_bytes - c.made_bytes + c.optimizer_bytes);
        explain_cell_number(e, lasting);
        const char *layers = e->mixed
                                 ? explain_text(e, "%u layers as split", c.layers)
                                 : explain_text(e, "%u x %.10g", c.layers, e->graphs[LAYER_TRANSFORMER].parameters);
        explain_cell_text(
            e, explain_text(e, "%s%s%s%s", layers, c.embedding ? " + embedding" : "", c.head ? " + head" : "",
                            c.versions > 1 ? explain_text(e, "; weights x %u versions", c.versions) : ""));
    }
}

/* ---- activations ---- */

static double saved_bytes(const struct layer_graph *graph, enum recompute_mode mode)
{
    switch (mode) {
    case RECOMPUTE_NONE: return graph->saved_bytes_none;
    case RECOMPUTE_SELECTIVE: return graph->saved_bytes_selective;
    case RECOMPUTE_FULL: return graph->saved_bytes_full;
    case RECOMPUTE_MODE_COUNT: break;
    }
    return 0;
}

/* Saved bytes of one micro-batch in one chunk of a stage. */
static double chunk_saved_bytes(const struct explainer *e, uint32_t stage, uint32_t chunk)
{
    const struct plan *plan = &e->from->scenario->plan;
    uint32_t v = model_stage(e, stage, chunk);
    int64_t first = 0;
    for (uint32_t before = 0; before < v; before++) {
        first += plan->stage_layers[before];
    }
    double bytes = v == 0 ? e->graphs[LAYER_EMBEDDING].saved_bytes_none : 0;
    bytes += is_last_stage(e, v) ? e->graphs[LAYER_HEAD].saved_bytes_none : 0;
    for (int64_t i = first; i < first + plan->stage_layers[v]; i++) {
        bytes += saved_bytes(explain_graph(e, i + 1), (enum recompute_mode)plan->recompute[i]);
    }
    return bytes;
}

/* The most bytes and (micro-batch, chunk) pairs between forward and last backward part, walking the order. */
static void in_flight(struct explainer *e, uint32_t stage, double *most_bytes, uint32_t *most_pairs)
{
    uint32_t count = 0, pairs = 0;
    double bytes = 0;
    *most_bytes = 0;
    *most_pairs = 0;
    struct order_step *steps =
        arena_array(&e->to->arena, struct order_step, order_step_count(e->order, &e->order_request));
    if (steps == NULL || order_steps(e->order, &e->order_request, stage, steps, &count, NULL) != STATUS_OK) {
        e->to->failed = e->to->failed || steps == NULL;
        return;
    }
    enum step_kind last = e->order->splits_backward ? STEP_BACKWARD_WEIGHT : STEP_BACKWARD;
    for (uint32_t i = 0; i < count; i++) {
        double of_chunk = chunk_saved_bytes(e, stage, steps[i].chunk);
        if (steps[i].kind == STEP_FORWARD) {
            bytes += of_chunk;
            pairs++;
        } else if (steps[i].kind == last) {
            bytes -= of_chunk;
            pairs--;
        }
        *most_bytes = bytes > *most_bytes ? bytes : *most_bytes;
        *most_pairs = pairs > *most_pairs ? pairs : *most_pairs;
    }
}

static const struct space_use *device_use(const struct explainer *e, uint32_t rank, uint64_t *capacity)
{
    const struct schedule *s = e->from->input->schedule;
    for (uint32_t i = 0; i < s->space_count; i++) {
        if (s->spaces[i].kind == SPACE_DEVICE && s->spaces[i].location == s->devices[s->ranks[rank].first_device]) {
            *capacity = s->spaces[i].capacity_bytes;
            return &e->from->input->timeline->spaces[i];
        }
    }
    return NULL;
}

/* Korthikanti et al. 2022, equations 1, 2, 4 and 6: fp16 GPT layers with dropout and unfused attention. */
static void closed_form(struct explainer *e)
{
    const struct scenario *scenario = e->from->scenario;
    const struct model *m = &scenario->model;
    const struct plan *p = &scenario->plan;
    if (m->family != MODEL_GPT || scenario->software.flash_attention || !scenario->software.fused_kernels ||
        scenario->software.selective_ops || m->ffn != 4 * m->hidden || m->kv_heads != m->heads ||
        dtype_bytes(p->precision) != 2 || m->dropout <= 0 || m->attention_dropout <= 0) {
        return;
    }
    int64_t samples = plan_layer_samples(p, explain_split_at(e, 1));
    double s = (double)p->sequence_length, b = (double)samples, h = (double)m->hidden, a = (double)m->heads;
    double t = (double)explain_split_at(e, 1)->tensor, sbh = s * b * h, core = 5 * a * s / h;
    bool sp = p->sequence_parallel && t > 1;
    const char *numbers = explain_text(e, "s %g, b %g, h %g, a %g, t %g", s, b, h, a, t);
    const char *source = "Korthikanti et al. 2022 (arXiv 2205.05198), equations 1 to 6";
    explain_value(e, "closed form, no recomputation", sp ? sbh / t * (34 + core) : sbh * (10 + 24 / t + core / t),
                  "bytes", sp ? "sbh/t (34 + 5as/h)" : "sbh (10 + 24/t + 5as/(ht))", numbers, source);
    explain_value(e, "closed form, selective", sp ? sbh / t * 34 : sbh * (10 + 24 / t), "bytes",
                  sp ? "34 sbh/t" : "sbh (10 + 24/t)", numbers, source);
}

void explain_activations(struct explainer *e)
{
    const struct layer_graph *graph = &e->graphs[LAYER_TRANSFORMER];
    const struct schedule *s = e->from->input->schedule;
    explain_section(e, "activations", "Activations",
                    e->mixed ? "Tensors saved in forward for backward, of the first layer and one micro-batch on one "
                               "device; the plan's table has the other layers."
                             : "Tensors saved in forward for backward, of one layer and micro-batch on one device.");
    explain_value(e, "saved without recomputation", graph->saved_bytes_none, "bytes", "sum of the tensors below", NULL,
                  NULL);
    explain_value(e, "saved with selective recomputation", graph->saved_bytes_selective, "bytes",
                  "without those marked as recomputed", NULL, NULL);
    explain_value(e, "saved with full recomputation", graph->saved_bytes_full, "bytes", "the layer's input", NULL,
                  NULL);
    closed_form(e);
    explain_value(e, "boundary sent to the next stage", graph->boundary_bytes, "bytes", NULL, NULL, NULL);
    static const char *const tensors[] = { "tensor", "bytes", "kept under", NULL };
    explain_table(e, "Saved tensors of one transformer layer", tensors);
    for (uint32_t i = 0; i < graph->saved_count; i++) {
        const struct saved_tensor *t = &graph->saved[i];
        explain_cell_text(e, t->name);
        explain_cell_number(e, t->bytes);
        explain_cell_text(e, t->is_input         ? "none, selective, full (the layer's input)"
                             : t->selective_only ? "selective"
                             : t->attention_core ? "none (recomputed by selective and full)"
                                                 : "none, selective");
    }
    static const char *const columns[] = {
        "rank", "most in flight", "activations B", "at the simulated peak B", "simulated / formula", NULL
    };
    explain_table(e, "By stage: in flight = (micro-batch, chunk) pairs between forward and backward in the order",
                  columns);
    for (uint32_t r = 0; r < s->rank_count; r++) {
        if (s->ranks[r].stage == SCHED_NONE || (r > 0 && s->ranks[r - 1].stage == s->ranks[r].stage)) {
            continue;
        }
        double bytes;
        uint32_t pairs;
        uint64_t capacity;
        in_flight(e, s->ranks[r].stage, &bytes, &pairs);
        const struct space_use *use = device_use(e, r, &capacity);
        double simulated = use != NULL ? (double)use->at_peak_bytes[BUFFER_ACTIVATION] : 0;
        explain_cell_text(e, sched_label(s, s->ranks[r].label));
        explain_cell_number(e, pairs);
        explain_cell_number(e, bytes);
        explain_cell_number(e, simulated);
        explain_cell_number(e, bytes > 0 ? simulated / bytes : 0);
    }
}

/* ---- peaks ---- */

void explain_memory(struct explainer *e)
{
    const struct schedule *s = e->from->input->schedule;
    const struct machine *m = &e->from->scenario->machine;
    const struct software *sw = &e->from->scenario->software;
    explain_section(e, "memory", "Memory at its peak, as simulated (GiB)",
                    "live: what the schedule has acquired; reserved: what the allocator model holds for it.");
    if (sw->runtime_memory) {
        const struct machine_source *source = machine_source_of(m, "memory_overhead.context_MiB");
        explain_value(e, "context and BLAS workspace", m->context_bytes + m->blas_workspace_bytes, "bytes",
                      "context + workspace", explain_text(e, "%.0f + %.0f", m->context_bytes, m->blas_workspace_bytes),
                      source != NULL ? source->source : NULL);
    }
    if (sw->nccl_buffers) {
        const struct machine_source *source = machine_source_of(m, "memory_overhead.nccl_channel_receive_MiB");
        explain_value(e, "one NCCL communicator", machine_communicator_bytes(m), "bytes", "channels x (receive + send)",
                      explain_text(e, "%u x (%.0f + %.0f)", m->nccl_channels, m->nccl_channel_receive_bytes,
                                   m->nccl_channel_send_bytes),
                      source != NULL ? source->source : NULL);
    }
    explain_value(e, "usable memory of a GPU", m->gpu.usable_bytes, "bytes", NULL, NULL,
                  machine_source_of(m, "gpu.usable_MiB") != NULL ? machine_source_of(m, "gpu.usable_MiB")->source
                                                                 : NULL);
    static const char *const columns[] = { "space",
                                           "live",
                                           "reserved",
                                           "capacity",
#define X(name, word, help) word,
                                           BUFFER_CLASS_TABLE(X)
#undef X
                                               "when s",
                                           "which op",
                                           NULL };
    explain_table(e, "By memory space", columns);
    for (uint32_t i = 0; i < s->space_count; i++) {
        const struct space_use *use = &e->from->input->timeline->spaces[i];
        if (use->peak_bytes == 0) {
            continue;
        }
        explain_cell_text(e, sched_label(s, s->spaces[i].label));
        explain_cell_number(e, (double)use->peak_bytes / GIB);
        explain_cell_number(e, (double)use->peak_reserved_bytes / GIB);
        explain_cell_number(e, (double)s->spaces[i].capacity_bytes / GIB);
        for (uint32_t c = 0; c < BUFFER_CLASS_COUNT; c++) {
            explain_cell_number(e, (double)use->at_peak_bytes[c] / GIB);
        }
        explain_cell_number(e, s_from_ps(use->peak_time_ps));
        char text[160];
        explain_cell_text(e, use->peak_op != SCHED_NONE
                                 ? explain_text(e, "%s", sched_op_text(s, use->peak_op, text, sizeof text))
                                 : "at the start");
    }
}
