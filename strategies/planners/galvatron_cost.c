/* The presets v1, g2 and head: facts/galvatron-bmw.md B.4, B.7, C.1 - C.5. */
#include "strategies/planners/galvatron_cost.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/check.h"
#include "sim/base/units.h"

static const double CONTEXT_MIB = 1024;      /* the framework's device context (C.1) */
static const double SHARD_BIAS = 0.003;      /* share of model states that SDP never sheds, g2 (C.1) */
static const double V1_SHARD_BIAS_8 = 0.025; /* the same in v1's scripts for 8 devices */
/* The public code times a model of 24 layers and divides. So do we: plans of equal speed are told apart by rounding, and the golden files by plans. */
static const double DUMMY_LAYERS = 24;

static const char *const PRESET_NAMES[] = {
#define X(name, word) word,
    GALVATRON_PRESET_TABLE(X)
#undef X
};

const char *galvatron_preset_name(enum galvatron_preset_kind kind)
{
    CHECK(kind < GALVATRON_PRESET_COUNT);
    return PRESET_NAMES[kind];
}

/* Milliseconds of a layer, taken apart. */
struct layer_ms {
    double forward, backward, tensor; /* tensor: its all-reduces */
    double overlapped;                /* backward pass and gradient reduction beside each other */
    double after, rest;               /* what is left then: backward pass, or reduction */
    double part;                      /* of the backward pass that overlaps */
    double gather;                    /* of sharded parameters, not overlapped */
    double extra;
};

/* Gradient reduction of `volume` MiB beside `part` ms of backward pass, both slowed down by `kappa` (C.2). */
static void overlap_ms(double volume, double coefficient, double part, double kappa, struct layer_ms *ms)
{
    double slow = coefficient * kappa, slow_reduce = volume * slow, slow_part = part * kappa;
    ms->part = part;
    if (slow_reduce > slow_part) {
        ms->overlapped = slow_part;
        ms->rest = (volume - slow_part / slow) * coefficient;
    } else if (slow_reduce < slow_part) {
        ms->overlapped = slow_reduce;
        ms->after = part - slow_reduce / kappa;
        ms->rest = 0;
    } else {
        ms->overlapped = slow_part;
        ms->rest = 0;
    }
}

/* Share of the backward pass beside which gradients are reduced (C.2). */
static double overlap_share(const struct galvatron_preset *preset, const struct galvatron_layer_profile *layer,
                            const struct galvatron_strategy *s)
{
    if (s->tensor == 1 || preset->kind == GALVATRON_HEAD) {
        return 1;
    }
    bool narrow = 2 * s->tensor < s->tensor * s->data;
    return !narrow ? 0.5 : layer->decoder && preset->kind == GALVATRON_V1 ? 2.0 / 3.0 : 1;
}

/* Of DUMMY_LAYERS layers together, `samples` of one device group at a time. */
static struct layer_ms layer_ms(const struct galvatron_preset *preset, const struct galvatron_layer_profile *layer,
                                const struct galvatron_strategy *s, double samples)
{
    const struct galvatron_hardware_profile *hardware = preset->hardware;
    bool ordered = s->tensor > 1 && s->data > 1;
    double value_bytes = preset->model->mixed ? 2 : 4, tensor = s->tensor, data = s->data;
    struct layer_ms ms = { 0 };
    ms.forward = layer->forward_ms * samples / tensor * DUMMY_LAYERS;
    ms.backward = 2 * ms.forward;
    if (s->recompute) {
        ms.backward += preset->recompute_forward * ms.forward;
    }
    if (s->tensor > 1) {
        double all_reduces = (layer->decoder ? 6 : 4) * (s->recompute ? 1.5 : 1);
        double message_mib = samples * layer->sequence * layer->hidden * all_reduces * value_bytes / 1024 / 1024;
        ms.tensor = 2 * (tensor - 1) / tensor * message_mib * DUMMY_LAYERS *
                    galvatron_all_reduce_ms(hardware, s->pipeline, s->tensor, !ordered || s->tensor_consecutive);
    }
    ms.part = ms.overlapped = overlap_share(preset, layer, s) * ms.backward;
    if (s->data > 1) {
        double coefficient =
            galvatron_all_reduce_ms(hardware, s->pipeline, s->data, !ordered || !s->tensor_consecutive);
        double volume = 2 * (data - 1) / data * (layer->parameter_mib / tensor) * DUMMY_LAYERS * (value_bytes / 4);
        overlap_ms(volume, coefficient, ms.part, hardware->overlap, &ms);
        ms.gather = s->sharded ? volume * 0.5 * coefficient : 0;
        ms.extra = layer->extra_ms * DUMMY_LAYERS;
    }
    return ms;
}

/* Micro-batches of v1, a function of a device's local batch b, fractions allowed (B.4). */
static double v1_micro_batches(const struct galvatron_preset *preset, const struct galvatron_strategy *s, double batch)
{
    double b = batch / s->data;
    if (preset->hardware->gpus != 8 || preset->model->micro_rule == GALVATRON_MICRO_SIZE) {
        return fmax(1, ceil(floor(b / s->tensor) / preset->micro_size));
    }
    switch (preset->model->micro_rule) {
    case GALVATRON_MICRO_SIZE: break;
    case GALVATRON_MICRO_BERT:
        if (s->tensor * s->pipeline == 8 && (s->pipeline == 2 || s->pipeline == 4)) {
            return b / 4;
        }
        return b < 6 ? b / 2 : b / 8 + 2;
    case GALVATRON_MICRO_VIT: return b == 8 ? 1 : 2;
    case GALVATRON_MICRO_T5: return b == 2 ? 1 : s->pipeline == 8 ? 3 : 2;
    case GALVATRON_MICRO_SWIN: return b <= 8 ? 1 : b < 32 ? 2 : b <= 96 ? 3 : 4;
    }
    return 1;
}

/* One pass of the layers with `rest` ms of gradient reduction left over, in the public code's order of addition. */
static double whole_ms(const struct layer_ms *ms, double rest)
{
    return ms->forward + ms->overlapped + ms->after + rest + (ms->backward - ms->part) + ms->tensor + ms->extra;
}

/* v1's share of a layer in the step (C.4 form 1): computation shrinks by the pipeline's parallelism, communication doesn't. */
static double v1_layer_s(const struct galvatron_preset *preset, const struct galvatron_layer_profile *layer,
                         const struct galvatron_strategy *s, double batch)
{
    struct layer_ms ms = layer_ms(preset, layer, s, batch / s->data);
    double computation = ms.forward + ms.backward + ms.tensor, pipeline = s->pipeline;
    /* The leftover of one stage only is charged, where tensor parallelism and sharding are off. */
    bool once = s->tensor == 1 && !s->sharded;
    double rest = once ? ms.rest / pipeline : ms.rest;
    double all = whole_ms(&ms, rest), result = all;
    if (s->pipeline > 1) {
        double m = v1_micro_batches(preset, s, batch);
        result = computation * (pipeline + m - 1) / (pipeline * m) + (all - computation);
    }
    return (result + ms.gather) * (preset->time_factor / 1000) / DUMMY_LAYERS;
}

/* Model states left on a device, as a share of 4 x parameters (C.1). */
static double state_share(const struct galvatron_preset *preset, const struct galvatron_strategy *s,
                          uint32_t micro_batches)
{
    double x = 1.0 / s->data + preset->sharded_bias;
    if (preset->kind == GALVATRON_V1) {
        return s->sharded ? x : 1;
    }
    if ((!s->sharded && !preset->zero2) || s->data == 1) {
        return 1;
    }
    bool mixed = preset->model->mixed, several = micro_batches > 1;
    if (s->sharded) {
        if (!several) {
            return x;
        }
        return !preset->async_reduce ? x * 5 / 4 : mixed ? 7.0 / 8 * x + 1.0 / 8 : 3.0 / 4 * x + 1.0 / 4;
    }
    if (several && preset->async_reduce) {
        return mixed ? 6.0 / 8 * x + 2.0 / 8 : 2.0 / 4 * x + 2.0 / 4;
    }
    double once = mixed ? 7.0 / 8 * x + 1.0 / 8 : 3.0 / 4 * x + 1.0 / 4;
    return several && mixed ? once * 5 / 4 : once;
}

/* v1's own formula has the micro-batches inside a layer's cost. */
static bool is_v1_whole(const struct galvatron_preset *preset)
{
    return preset->kind == GALVATRON_V1 && preset->form == GALVATRON_FORM_V1;
}

double galvatron_share_s(double compute_s, double full_s, const struct galvatron_setting *setting)
{
    double stages = setting->pipeline;
    return compute_s * (stages + setting->micro_batches - 1) / stages + (full_s - compute_s);
}

static void preset_layer(const void *context, uint32_t kind, const struct galvatron_strategy *s,
                         const struct galvatron_setting *setting, struct galvatron_layer_cost *cost)
{
    const struct galvatron_preset *preset = context;
    const struct galvatron_layer_profile *layer = &preset->model->kinds[kind];
    double local = setting->batch / s->data, activation = layer->activation_mib[galvatron_log2(s->tensor)];
    if (s->recompute) {
        activation = layer->recompute_mib;
    }
    cost->state_mib = 4 * layer->parameter_mib / s->tensor * state_share(preset, s, setting->micro_batches);
    cost->activation_mib = activation > 0 ? activation * local : INFINITY;
    if (is_v1_whole(preset)) {
        cost->search_s = cost->compute_s = cost->full_s = v1_layer_s(preset, layer, s, setting->batch);
        return;
    }
    double m = setting->micro_batches, samples = local / m;
    struct layer_ms ms = layer_ms(preset, layer, s, samples);
    double p2p_ms = 0, seconds = preset->time_factor / 1000;
    if (s->pipeline > 1 && preset->kind != GALVATRON_V1) {
        double bytes = samples * layer->sequence * layer->hidden * (preset->model->mixed ? 2 : 4);
        p2p_ms = (double)s->pipeline / galvatron_model_layers(preset->model) * 2 * bytes / MIB * DUMMY_LAYERS *
                 preset->hardware->p2p[galvatron_log2(s->pipeline)];
    }
    cost->compute_s = (ms.forward + ms.backward + ms.tensor + ms.gather + p2p_ms) * seconds / DUMMY_LAYERS;
    cost->full_s = (whole_ms(&ms, ms.rest) + ms.gather + p2p_ms) * seconds / DUMMY_LAYERS;
    cost->search_s = cost->full_s + (m - 1) * cost->compute_s;
}

/* Does the layout of activations change between the two (C.3)? */
static bool layout_changes(const struct galvatron_preset *preset, const struct galvatron_strategy *from,
                           const struct galvatron_strategy *to)
{
    if (preset->kind == GALVATRON_HEAD) {
        return to->tensor != from->tensor;
    }
    bool flags_differ = from->tensor_consecutive != to->tensor_consecutive;
    return to->tensor > from->tensor || (to->tensor == from->tensor && flags_differ) ||
           (to->tensor * to->data == 8 && from->tensor == 4 && to->tensor == 2 && flags_differ);
}

static void preset_change(const void *context, uint32_t kind, const struct galvatron_strategy *from,
                          const struct galvatron_strategy *to, const struct galvatron_setting *setting,
                          struct galvatron_change *change)
{
    const struct galvatron_preset *preset = context;
    const struct galvatron_layer_profile *layer = &preset->model->kinds[kind];
    *change = (struct galvatron_change){ 0 };
    if (layout_changes(preset, from, to)) {
        bool head = preset->kind == GALVATRON_HEAD;
        const struct galvatron_strategy *s = head && from->tensor > to->tensor ? from : to;
        bool ordered = s->tensor > 1 && s->data > 1;
        double samples = setting->batch / setting->micro_batches / s->data, share = (s->tensor - 1.0) / s->tensor;
        double k = s->tensor == 1 ? 0
                                  : galvatron_all_reduce_ms(preset->hardware, s->pipeline, s->tensor,
                                                            !ordered || s->tensor_consecutive);
        double bytes = samples * layer->sequence * layer->hidden * (preset->model->mixed ? 2 : 4);
        change->micro_s =
            head ? share * bytes * k * preset->head_change_factor : share * preset->change_mib * samples * k * 1e-3;
    }
    change->search_s = change->micro_s * setting->micro_batches;
    bool same = from->tensor == to->tensor && from->tensor_consecutive == to->tensor_consecutive;
    bool sheds_shards = from->sharded && !to->sharded && from->recompute == to->recompute;
    bool enters = !from->recompute && to->recompute && from->sharded == to->sharded;
    if (same && (sheds_shards || (enters && preset->kind != GALVATRON_V1))) {
        change->search_s += preset->change_bias_s;
    }
}

double galvatron_live_share(const struct galvatron_setting *setting, uint32_t stage)
{
    if (!setting->one_f_one_b || setting->micro_batches <= 1) {
        return 1;
    }
    /* Micro-batches are contiguous pieces of ceil(n / m) of a device's n samples, the last one smaller (B.4, B.7). */
    double samples = setting->batch * setting->pipeline / setting->gpus;
    uint32_t live =
        setting->pipeline - stage < setting->micro_batches ? setting->pipeline - stage : setting->micro_batches;
    double piece =
        samples == floor(samples) ? ceil(samples / setting->micro_batches) : samples / setting->micro_batches;
    return fmin(1, live * piece / samples);
}

static double preset_other_mib(const void *context, uint32_t stage, const struct galvatron_strategy *first,
                               const struct galvatron_setting *setting)
{
    const struct galvatron_preset *preset = context;
    const struct galvatron_model_profile *model = preset->model;
    double samples = setting->batch / (first->tensor * first->data);
    if (preset->kind == GALVATRON_V1) {
        bool pays = stage == 0 || model->kind_count == 1;
        return pays ? model->other.state_mib + model->other.activation_mib * samples + CONTEXT_MIB : 0;
    }
    const struct galvatron_other_profile none = { 0 }, *other = setting->pipeline == 1           ? &model->other
                                                                : stage == 0                     ? &model->first
                                                                : stage == setting->pipeline - 1 ? &model->last
                                                                                                 : &none;
    double live = galvatron_live_share(setting, stage), peak = 0;
    if (setting->recompute && preset->recompute_peak) {
        /* As coded, by the live share of the last stage for all (B.7). */
        double local = setting->batch / first->data * galvatron_live_share(setting, setting->pipeline - 1);
        peak = floor(model->kinds[0].activation_mib[0] * local / first->tensor);
    }
    return other->state_mib * state_share(preset, first, setting->micro_batches) +
           other->activation_mib * samples * live + CONTEXT_MIB + peak;
}

static uint32_t preset_micro_batches(const void *context, double batch, uint32_t pipeline)
{
    const struct galvatron_preset *preset = context;
    double samples = floor(batch * pipeline / preset->hardware->gpus);
    if (is_v1_whole(preset) || pipeline == 1) {
        return 1;
    }
    if (samples < 1) {
        return 0;
    }
    double m = fmin(fmin(preset->micro_max, fmax(1, ceil(samples / preset->micro_size))), samples);
    return (uint32_t)ceil(samples / ceil(samples / m));
}

static double preset_other_s(const void *context, uint32_t stage, const struct galvatron_setting *setting)
{
    const struct galvatron_preset *preset = context;
    double ms = preset->model->other_forward_ms * 3 * setting->batch * setting->pipeline / setting->gpus /
                setting->micro_batches;
    if (setting->pipeline > 1) {
        ms *= stage == 0 || stage == setting->pipeline - 1 ? 0.5 : 0;
    }
    return ms * 1e-3;
}

enum status galvatron_preset_init(struct galvatron_preset *preset, enum galvatron_preset_kind kind,
                                  const struct galvatron_model_profile *model,
                                  const struct galvatron_hardware_profile *hardware, struct error *error)
{
    *preset = (struct galvatron_preset){ .kind = kind, .model = model, .hardware = hardware };
    TRY(galvatron_check_profiles(model, hardware, error));
    bool v1 = kind == GALVATRON_V1, g2 = kind == GALVATRON_G2;
    preset->form = v1 ? GALVATRON_FORM_V1 : g2 ? GALVATRON_FORM_G2 : GALVATRON_FORM_HEAD;
    preset->zero2 = !v1;
    preset->async_reduce = g2;
    preset->recompute_forward = g2 ? 0.5 : 1;
    preset->time_factor = v1 ? 1.1 : 1;
    preset->sharded_bias = v1 && hardware->gpus <= 8 ? V1_SHARD_BIAS_8 : SHARD_BIAS;
    preset->change_bias_s = v1 ? 1e-4 : g2 ? 1e-3 : 0;
    preset->change_mib = 2;
    preset->head_change_factor = 1e-7;
    preset->recompute_peak = !v1;
    preset->micro_size = 4;
    preset->micro_max = 8;
    uint32_t layers = galvatron_model_layers(model), at = 0;
    preset->kinds = malloc(layers * sizeof *preset->kinds);
    if (preset->kinds == NULL) {
        return error_set(error, STATUS_NO_MEMORY, "no memory for %u layers", layers);
    }
    for (uint32_t k = 0; k < model->kind_count; k++) {
        for (uint32_t i = 0; i < model->kinds[k].count; i++) {
            preset->kinds[at++] = k;
        }
    }
    return STATUS_OK;
}

void galvatron_preset_free(struct galvatron_preset *preset)
{
    free(preset->kinds);
    preset->kinds = NULL;
}

void galvatron_preset_source(const struct galvatron_preset *preset, struct galvatron_source *source)
{
    *source = (struct galvatron_source){
        .name = galvatron_preset_name(preset->kind),
        .context = preset,
        .gpus = preset->hardware->gpus,
        .layer_count = galvatron_model_layers(preset->model),
        .kind_count = preset->model->kind_count,
        .kinds = preset->kinds,
        .form = preset->form,
        .shares = is_v1_whole(preset),
        .layer = preset_layer,
        .change = preset_change,
        .other_mib = preset_other_mib,
        .micro_batches = preset_micro_batches,
        .other_s = preset->kind == GALVATRON_HEAD ? preset_other_s : NULL,
    };
}

/* What is left of gradient reduction when the last micro-batch's backward pass has come through stages 0..i (C.4 form 2). */
static double reduction_tail(const double *compute_s, const double *full_s, uint32_t stages)
{
    double tail = 0, before = 0;
    for (uint32_t i = 0; i < stages; i++) {
        before += compute_s[i];
        tail = fmax(tail, full_s[i] - before);
    }
    return tail;
}

static double head_pipeline_s(const double *compute_s, uint32_t stages, uint32_t micro_batches)
{
    double m = micro_batches, sum = 0, q = fmin(stages - 1.0, m - 1);
    for (uint32_t i = 0; i < stages; i++) {
        sum += compute_s[i];
    }
    double others = sum - compute_s[0], first = compute_s[0];
    double chain =
        fmax(q * first / 3, others / 3) + fmax(2 * q * first / 3, 2 * others / 3) + first * fmax(0, m + 1 - stages);
    return fmax(sum + (m - 1) * compute_s[stages - 1], chain);
}

double galvatron_pipeline_s(enum galvatron_form form, const double *compute_s, const double *full_s, uint32_t stages,
                            uint32_t micro_batches)
{
    double m = micro_batches, slowest = 0, full = 0;
    for (uint32_t i = 0; i < stages; i++) {
        slowest = fmax(slowest, compute_s[i]);
        full += full_s[i];
    }
    switch (form) {
    case GALVATRON_FORM_V1: return full;
    case GALVATRON_FORM_G2: return (m - 1 + stages) * slowest + reduction_tail(compute_s, full_s, stages);
    case GALVATRON_FORM_SYNC: return full + (m - 1) * slowest;
    case GALVATRON_FORM_HEAD:
        return head_pipeline_s(compute_s, stages, micro_batches) + reduction_tail(compute_s, full_s, stages);
    case GALVATRON_FORM_COUNT: break;
    }
    return INFINITY;
}
