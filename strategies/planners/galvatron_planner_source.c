/* The source `memwall` for Galvatron's search. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/check.h"
#include "sim/base/units.h"
#include "strategies/planners/galvatron_planner_costs.h"

/* More than any device: what cannot be. */
static const double IMPOSSIBLE_MIB = 1e12;

/* The functions of a source are pure but for what they remember. */
static struct memwall_source *source_of(const void *context)
{
    return *(struct memwall_source *const *)context;
}

static void note(struct memwall_source *memwall, enum status status, const struct error *error)
{
    if (status != STATUS_OK && memwall->status == STATUS_OK) {
        memwall->status = status;
        memwall->error = *error;
    }
}

/* Samples of a micro-batch on one replica; 0: not whole. */
static int64_t own_samples(const struct galvatron_setting *setting, uint32_t data)
{
    double samples = setting->batch / ((double)setting->micro_batches * data);
    int64_t whole = (int64_t)(samples + 0.5);
    return whole >= 1 && fabs(samples - (double)whole) < 1e-9 * samples ? whole : 0;
}

static bool possible(const struct memwall_source *memwall, const struct galvatron_strategy *strategy,
                     const struct galvatron_setting *setting)
{
    return memwall->status == STATUS_OK && own_samples(setting, strategy->data) > 0 &&
           piece_tensor_divides(&memwall->scenario->model, strategy->tensor);
}

static void layer(const void *context, uint32_t kind, const struct galvatron_strategy *strategy,
                  const struct galvatron_setting *setting, struct galvatron_layer_cost *cost)
{
    struct memwall_source *memwall = source_of(context);
    const struct software *software = &memwall->scenario->software;
    struct layer_cost one = { 0 };
    struct error error;
    double m = setting->micro_batches;
    *cost = (struct galvatron_layer_cost){ .state_mib = IMPOSSIBLE_MIB };
    if (!possible(memwall, strategy, setting)) {
        return;
    }
    note(memwall,
         layer_cost_of(memwall->pieces, memwall->scenario, LAYER_TRANSFORMER, kind, strategy, setting->zero2,
                       own_samples(setting, strategy->data), &one, &error),
         &error);
    double exposed = software->overlap_gradient_reduce ? fmax(0, one.reduce_s - one.backward_s) : one.reduce_s;
    cost->state_mib = one.state_bytes / MIB;
    cost->activation_mib = one.held_bytes * m / MIB;
    cost->compute_s = one.forward_s + one.backward_s;
    cost->full_s = cost->compute_s + exposed + one.spread_s;
    cost->search_s = cost->full_s + (m - 1) * cost->compute_s; /* its part of the step where its stage is the slowest */
}

static void change(const void *context, uint32_t kind, const struct galvatron_strategy *from,
                   const struct galvatron_strategy *to, const struct galvatron_setting *setting,
                   struct galvatron_change *answer)
{
    struct memwall_source *memwall = source_of(context);
    struct error error;
    double time_s = 0;
    *answer = (struct galvatron_change){ 0, 0 };
    if (!possible(memwall, to, setting)) {
        return;
    }
    note(memwall,
         layer_change_s(memwall->pieces, memwall->scenario, model_variant_first(&memwall->scenario->model, kind), from,
                        to, own_samples(setting, to->data), &time_s, &error),
         &error);
    answer->micro_s = 2 * time_s; /* forward and backward */
    answer->search_s = answer->micro_s * setting->micro_batches;
}

/* The most that short-lived tensors of a layer, and its input, may take on a stage: of the layers that it may hold when each stage holds one. */
static void most_of_stage(struct memwall_source *memwall, uint32_t stage, const struct galvatron_strategy *first,
                          const struct galvatron_setting *setting, int64_t samples, double *scratch, double *boundary)
{
    const struct scenario *scenario = memwall->scenario;
    int64_t last = scenario->model.layers - setting->pipeline + stage;
    struct error error;
    *scratch = *boundary = 0;
    for (int64_t layer = stage; layer <= last; layer++) {
        *boundary = fmax(*boundary, layer_input_bytes(scenario, layer, samples));
        if (layer > stage && memwall->kinds[layer] == memwall->kinds[layer - 1]) {
            continue;
        }
        for (int again = 0; again <= (setting->recompute ? 1 : 0);
             again++) { /* with what is rebuilt before its backward pass */
            struct galvatron_strategy strategy = *first;
            struct layer_cost block = { 0 };
            strategy.recompute = again ? true : first->recompute;
            note(memwall,
                 layer_cost_of(memwall->pieces, scenario, LAYER_TRANSFORMER, memwall->kinds[layer], &strategy,
                               setting->zero2, samples, &block, &error),
                 &error);
            *scratch = fmax(*scratch, block.scratch_bytes);
        }
    }
}

/* Runtime, embedding and head with what they hold, short-lived tensors, boundary buffers. */
static double other_mib(const void *context, uint32_t stage, const struct galvatron_strategy *first,
                        const struct galvatron_setting *setting)
{
    struct memwall_source *memwall = source_of(context);
    const struct scenario *scenario = memwall->scenario;
    struct error error;
    if (!possible(memwall, first, setting)) {
        return IMPOSSIBLE_MIB;
    }
    int64_t samples = own_samples(setting, first->data);
    struct layer_cost end = { 0 };
    bool is_first = stage == 0, is_last = stage == setting->pipeline - 1;
    double bytes = layer_runtime_bytes(scenario, first, setting->pipeline > 1), scratch, boundary;
    most_of_stage(memwall, stage, first, setting, samples, &scratch, &boundary);
    if (is_first) {
        note(memwall,
             layer_cost_of(memwall->pieces, scenario, LAYER_EMBEDDING, 0, first, setting->zero2, samples, &end, &error),
             &error);
        double live = galvatron_live_share(setting, 0) * setting->micro_batches;
        bytes += end.state_bytes + end.held_bytes * live;
    }
    if (is_last) {
        note(memwall,
             layer_cost_of(memwall->pieces, scenario, LAYER_HEAD, 0, first, setting->zero2, samples, &end, &error),
             &error);
        double live = setting->one_f_one_b ? 1 : setting->micro_batches;
        bytes += end.state_bytes + end.held_bytes * live;
        scratch = fmax(end.scratch_bytes, scratch - end.held_bytes);
        if (setting->pipeline > 1 && scenario->model.tied_head) { /* its own copy of the table */
            bytes += (double)scenario->model.vocab * (double)scenario->model.hidden / first->tensor *
                     software_state_bytes(&scenario->software);
        }
    }
    return (bytes + scratch + (setting->pipeline > 1 ? 2 * boundary : 0)) / MIB;
}

/* As if the stage's devices took the samples in equal parts. */
static double other_s(const void *context, uint32_t stage, const struct galvatron_setting *setting)
{
    struct memwall_source *memwall = source_of(context);
    const struct galvatron_strategy alone = { .pipeline = setting->pipeline,
                                              .tensor = 1,
                                              .data = setting->gpus / setting->pipeline,
                                              .tensor_consecutive = true };
    struct layer_cost end = { 0 };
    struct error error;
    double time_s = 0;
    if (!possible(memwall, &alone, setting)) {
        return 0;
    }
    int64_t samples = own_samples(setting, alone.data);
    if (stage == 0) {
        note(memwall,
             layer_cost_of(memwall->pieces, memwall->scenario, LAYER_EMBEDDING, 0, &alone, setting->zero2, samples,
                           &end, &error),
             &error);
        time_s += end.forward_s + end.backward_s;
    }
    if (stage == setting->pipeline - 1) {
        note(memwall,
             layer_cost_of(memwall->pieces, memwall->scenario, LAYER_HEAD, 0, &alone, setting->zero2, samples, &end,
                           &error),
             &error);
        time_s += end.forward_s + end.backward_s;
    }
    return time_s;
}

/* Only for searches that do not try every divisor: as many as keep every device busy with one sample, at most four for each stage. */
static uint32_t micro_batches(const void *context, double batch, uint32_t pipeline)
{
    const struct memwall_source *memwall = source_of(context);
    uint32_t devices = memwall->scenario->cluster.gpus / pipeline, most = pipeline > 1 ? 4 * pipeline : 1;
    uint32_t whole = (uint32_t)batch / devices;
    for (uint32_t m = most < whole ? most : whole; m > 0; m--) {
        if (whole % m == 0) {
            return m;
        }
    }
    return 0;
}

enum status memwall_source_open(struct memwall_source *memwall, const struct scenario *scenario,
                                struct galvatron_source *source, struct error *error)
{
    *memwall = (struct memwall_source){ .scenario = scenario };
    TRY(pieces_open(&memwall->pieces, scenario, error));
    memwall->kinds = calloc((size_t)scenario->model.layers, sizeof *memwall->kinds);
    memwall->self = memwall;
    if (memwall->kinds == NULL) {
        memwall_source_close(memwall);
        return error_set(error, STATUS_NO_MEMORY, "out of memory for a cost model");
    }
    for (int64_t layer = 0; layer < scenario->model.layers; layer++) {
        memwall->kinds[layer] = model_layer_variant(&scenario->model, layer);
    }
    *source = (struct galvatron_source){ .name = "memwall",
                                         .context = &memwall->self,
                                         .gpus = scenario->cluster.gpus,
                                         .layer_count = (uint32_t)scenario->model.layers,
                                         .kind_count = model_variant_count(&scenario->model),
                                         .kinds = memwall->kinds,
                                         .form = GALVATRON_FORM_G2,
                                         .layer = layer,
                                         .change = change,
                                         .other_mib = other_mib,
                                         .micro_batches = micro_batches,
                                         .other_s = other_s };
    return STATUS_OK;
}

void memwall_source_close(struct memwall_source *memwall)
{
    pieces_close(memwall->pieces);
    free(memwall->kinds);
    *memwall = (struct memwall_source){ 0 };
}
