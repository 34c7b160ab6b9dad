/* A profile without a profiler. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "sim/base/check.h"
#include "sim/base/units.h"
#include "strategies/planners/galvatron_planner_internal.h"

/* Slowdown of a backward pass and the reduction beside it, as measured on A100s (facts/galvatron-bmw.md C.6: commit 3318a0b of Hetu-Galvatron). */
static const double OVERLAP_SLOWDOWN = 1.14598;
static const double MESSAGE_MIB = 64;
/* A profiler measures with enough samples that launches do not decide. */
enum { PROFILE_SAMPLES = 8 };

static enum status layer_profile(struct pieces *pieces, const struct scenario *scenario, uint32_t variant,
                                 uint32_t count, struct galvatron_layer_profile *layer, struct error *error)
{
    const struct model *model = &scenario->model;
    const struct piece_layers *layers;
    int64_t samples = PROFILE_SAMPLES;
    const struct model_crossing into =
        model_crossing_into(model, model_variant_first(model, variant), scenario->plan.sequence_length);
    snprintf(layer->name, sizeof layer->name, "%s", model_variant_word(model, variant));
    layer->count = count;
    layer->decoder = model->family == MODEL_T5 && variant >= T5_DECODER_FIRST;
    layer->sequence = (uint32_t)(layer->decoder              ? model->decoder_sequence
                                 : model->family == MODEL_T5 ? scenario->plan.sequence_length
                                                             : into.tokens);
    layer->hidden = (uint32_t)into.width;
    for (uint32_t log = 0; log < GALVATRON_DEGREES && (1u << log) <= scenario->cluster.gpus; log++) {
        int64_t tensor = 1 << log;
        if (!piece_tensor_divides(model, tensor)) {
            break;
        }
        TRY(pieces_layers(pieces, tensor, scenario->plan.sequence_parallel, samples, &layers, error));
        const struct piece_layer *of = &layers->blocks[variant];
        layer->activation_mib[log] = of->saved_bytes[RECOMPUTE_NONE] / (double)samples / MIB;
        if (log == 0) {
            layer->parameter_mib = of->parameters * 4 / MIB;
            layer->recompute_mib = of->saved_bytes[RECOMPUTE_FULL] / (double)samples / MIB;
            layer->forward_ms = fmax(of->forward_s, of->forward_host_s) / (double)samples * 1e3;
        }
    }
    return STATUS_OK;
}

static void add_end(const struct scenario *scenario, const struct piece_layer *end,
                    struct galvatron_other_profile *other, bool tied)
{
    double parameters = end->parameters + (tied ? end->tied_parameters : 0), samples = PROFILE_SAMPLES;
    other->state_mib += parameters * software_state_bytes(&scenario->software) / MIB;
    other->activation_mib +=
        (end->saved_bytes[RECOMPUTE_NONE] + end->backward_scratch_bytes[RECOMPUTE_NONE]) / samples / MIB;
}

static enum status model_profile(struct pieces *pieces, const struct scenario *scenario,
                                 struct galvatron_model_profile *profile, struct error *error)
{
    const struct piece_layers *layers;
    double samples = PROFILE_SAMPLES;
    snprintf(profile->name, sizeof profile->name, "%.*s", (int)sizeof profile->name - 1, scenario->model.name);
    profile->mixed = dtype_bytes(scenario->plan.precision) == 2;
    profile->micro_rule = GALVATRON_MICRO_SIZE;
    for (uint32_t variant = 0; variant < model_variant_count(&scenario->model); variant++) {
        uint32_t count = 0;
        for (int64_t i = 0; i < scenario->model.layers; i++) {
            count += model_layer_variant(&scenario->model, i) == variant;
        }
        if (count > 0) {
            struct galvatron_layer_profile *kind = &profile->kinds[profile->kind_count++];
            TRY(layer_profile(pieces, scenario, variant, count, kind, error));
        }
    }
    TRY(pieces_layers(pieces, 1, false, PROFILE_SAMPLES, &layers, error));
    const struct piece_layer *embedding = &layers->embedding, *head = &layers->head;
    add_end(scenario, embedding, &profile->other, false);
    add_end(scenario, head, &profile->other, false);
    add_end(scenario, embedding, &profile->first, false);
    add_end(scenario, head, &profile->last, true);
    profile->other_forward_ms =
        (fmax(embedding->forward_s, embedding->forward_host_s) + fmax(head->forward_s, head->forward_host_s)) /
        samples * 1e3;
    return STATUS_OK;
}

/* ms per MiB of bus volume of an all-reduce. */
static enum status coefficient(struct pieces *pieces, const struct galvatron_strategy *strategy, double *ms,
                               struct error *error)
{
    const struct piece_group group = layer_tensor_group(strategy);
    double bus = 2 * (group.count - 1.0) / group.count * MESSAGE_MIB, time_s;
    TRY(pieces_collective(pieces, COLLECTIVE_ALL_REDUCE, &group, MESSAGE_MIB * MIB, &time_s, error));
    *ms = time_s * 1e3 / bus;
    return STATUS_OK;
}

static enum status hardware_profile(struct pieces *pieces, const struct scenario *scenario,
                                    struct galvatron_hardware_profile *hardware, struct error *error)
{
    uint32_t gpus = scenario->cluster.gpus;
    snprintf(hardware->name, sizeof hardware->name, "%.*s", (int)sizeof hardware->name - 1, scenario->machine.name);
    hardware->gpus = gpus;
    hardware->overlap = OVERLAP_SLOWDOWN;
    for (uint32_t p = 0; (1u << p) <= gpus; p++) {
        uint32_t stage = gpus >> p;
        for (uint32_t size = 1; (1u << size) <= stage; size++) {
            struct galvatron_strategy strategy = {
                .pipeline = 1u << p, .tensor = 1u << size, .data = stage >> size, .tensor_consecutive = true
            };
            TRY(coefficient(pieces, &strategy, &hardware->all_reduce[p][size][1], error));
            strategy.tensor_consecutive = false;
            TRY(coefficient(pieces, &strategy, &hardware->all_reduce[p][size][0], error));
        }
        if (p > 0) {
            const struct piece_group pair = piece_pair(&scenario->cluster, 1, stage);
            double time_s;
            TRY(pieces_collective(pieces, COLLECTIVE_SEND_RECV, &pair, MESSAGE_MIB * MIB, &time_s, error));
            hardware->p2p[p] = time_s * 1e3 / MESSAGE_MIB;
        }
    }
    return STATUS_OK;
}

enum status galvatron_profile_of_scenario(const struct scenario *scenario, struct galvatron_model_profile *model,
                                          struct galvatron_hardware_profile *hardware, struct error *error)
{
    struct pieces *pieces;
    *model = (struct galvatron_model_profile){ 0 };
    *hardware = (struct galvatron_hardware_profile){ 0 };
    TRY(galvatron_check_gpus(scenario->cluster.gpus, error));
    TRY(pieces_open(&pieces, scenario, error));
    enum status status = model_profile(pieces, scenario, model, error);
    if (status == STATUS_OK) {
        status = hardware_profile(pieces, scenario, hardware, error);
    }
    pieces_close(pieces);
    return status;
}
