/* Profiles of Galvatron's files for the presets. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "sim/base/check.h"
#include "strategies/planners/galvatron_exchange.h"
#include "strategies/planners/galvatron_planner_internal.h"

/* ---- times ---- */

/* How the pattern's numbers read: batch and sequence, 0 where it has none. */
static void batch_and_sequence(const struct galvatron_entry *entry, uint32_t after, uint32_t *batch, uint32_t *sequence)
{
    *batch = strstr(entry->pattern, "_bsz#") != NULL && after < entry->number_count ? entry->numbers[after] : 0;
    after += *batch > 0;
    *sequence = strstr(entry->pattern, "_seq#") != NULL && after < entry->number_count ? entry->numbers[after] : 0;
}

static bool of_layer_kind(const struct galvatron_entry *entry)
{
    return entry->unit != NULL && strncmp(entry->pattern, "layertype_#", strlen("layertype_#")) == 0;
}

/* ms of a layer and sample at the largest batch of this sequence length; 0: none. A plain "layertype_0" has no length and is taken where nothing else is. */
static double layer_ms(const struct galvatron_file *file, uint32_t kind, uint32_t sequence)
{
    double plain = 0, best = 0;
    uint32_t best_batch = 0, batch, length;
    for (uint32_t i = 0; i < file->entry_count; i++) {
        const struct galvatron_entry *entry = &file->entries[i];
        if (!of_layer_kind(entry) || entry->numbers[0] != kind) {
            continue;
        }
        batch_and_sequence(entry, 1, &batch, &length);
        if (batch == 0) {
            plain = entry->value;
        } else if ((length == 0 || length == sequence) && batch > best_batch) {
            best_batch = batch;
            best = entry->value;
        }
    }
    return best_batch > 0 ? best : plain;
}

/* From two numbers of layers of one batch and length: their difference / layers / batch, at the largest such batch. */
static double difference_ms(const struct galvatron_file *file, uint32_t sequence)
{
    double best = 0;
    uint32_t best_batch = 0, batch, length, other_batch, other_length;
    for (uint32_t i = 0; i < file->entry_count; i++) {
        const struct galvatron_entry *more = &file->entries[i];
        if (strncmp(more->pattern, "layernum@", strlen("layernum@")) != 0 || more->numbers[0] != 1) {
            continue;
        }
        batch_and_sequence(more, 2, &batch, &length);
        for (uint32_t k = 0; k < file->entry_count && (length == 0 || length == sequence); k++) {
            const struct galvatron_entry *less = &file->entries[k];
            if (less->pattern != more->pattern || less->numbers[0] != 1 || less->numbers[1] >= more->numbers[1]) {
                continue;
            }
            batch_and_sequence(less, 2, &other_batch, &other_length);
            if (other_batch == batch && other_length == length && batch > best_batch) {
                best_batch = batch;
                best = (more->value - less->value) / (more->numbers[1] - less->numbers[1]) / batch;
            }
        }
    }
    return best;
}

/* The first version: by hidden size, layers by kind. */
static double hidden_ms(const struct galvatron_file *file, uint32_t hidden)
{
    for (uint32_t i = 0; i + 1 < file->entry_count; i++) {
        const struct galvatron_entry *entry = &file->entries[i];
        if (entry->unit == NULL && entry->number_count == 1 && entry->numbers[0] == hidden) {
            return file->entries[i + 1].value;
        }
        if (strcmp(entry->pattern, "fwd_time_hidden_#") == 0 && entry->unit != NULL && entry->numbers[0] == hidden) {
            return entry->value;
        }
    }
    return 0;
}

static enum status add_times(const struct galvatron_file *file, const struct scenario *scenario,
                             struct galvatron_model_profile *model, struct error *error)
{
    uint32_t sequence = (uint32_t)scenario->plan.sequence_length, hidden = (uint32_t)scenario->model.hidden;
    if (layer_ms(file, 1, sequence) > 0) {
        return error_set(error, STATUS_UNSUPPORTED,
                         "the profile has several kinds of layers; one kind is searched with profiles");
    }
    double ms = layer_ms(file, 0, sequence);
    ms = ms > 0 ? ms : difference_ms(file, sequence);
    ms = ms > 0 ? ms : hidden_ms(file, hidden);
    if (!(ms > 0)) {
        return error_set(
            error, STATUS_BAD_INPUT,
            "the time of a layer is missing: neither layertype_0 (ms a layer and sample) at sequence length "
            "%" PRIu32 ", nor two layernum[...] of one batch, nor fwd_time_hidden_%" PRIu32,
            sequence, hidden);
    }
    model->kinds[0].forward_ms = ms;
    return STATUS_OK;
}

/* ---- memory ---- */

/* Pattern and, for groups by sequence length, that length: the group's place; entry_count where it isn't. */
static uint32_t find_group(const struct galvatron_file *file, uint32_t first, uint32_t depth, const char *pattern,
                           uint32_t number)
{
    for (uint32_t i = first; i < file->entry_count && file->entries[i].depth >= depth; i++) {
        const struct galvatron_entry *entry = &file->entries[i];
        if (entry->unit == NULL && entry->depth == depth && strcmp(entry->pattern, pattern) == 0 &&
            (entry->number_count == 0 || entry->numbers[0] == number)) {
            return i;
        }
    }
    return file->entry_count;
}

/* Into the group of this sequence length where the file has one for each. */
static uint32_t inner(const struct galvatron_file *file, uint32_t group, uint32_t sequence, uint32_t *depth)
{
    *depth = file->entries[group].depth + 1;
    uint32_t at = find_group(file, group + 1, *depth, "#", sequence);
    *depth += at < file->entry_count;
    return at < file->entry_count ? at : group;
}

static enum status add_layer(const struct galvatron_file *file, const struct scenario *scenario, uint32_t group,
                             struct galvatron_layer_profile *layer, struct error *error)
{
    uint32_t depth, sequence = (uint32_t)scenario->plan.sequence_length;
    uint32_t at = inner(file, group, sequence, &depth);
    uint32_t activation = find_group(file, at + 1, depth, "tp_activation_per_bsz_dict", 0);
    double parameters = galvatron_file_value(file, at + 1, depth, "parameter_size", NULL, 0);
    if (activation == file->entry_count || isnan(parameters)) {
        return error_set(error, STATUS_BAD_INPUT, "layertype_0 has no %s at sequence length %" PRIu32 " (MiB)",
                         isnan(parameters) ? "parameter_size" : "tp_activation_per_bsz_dict", sequence);
    }
    layer->parameter_mib = parameters;
    for (uint32_t k = 0; k < GALVATRON_DEGREES; k++) {
        uint32_t degree = 1u << k;
        double mib = galvatron_file_value(file, activation + 1, depth + 1, "#", &degree, 1);
        layer->activation_mib[k] = isnan(mib) ? 0 : mib;
    }
    if (!(layer->activation_mib[0] > 0)) {
        return error_set(
            error, STATUS_BAD_INPUT,
            "tp_activation_per_bsz_dict of layertype_0 has no \"1\": the activation of a sample, unsplit, MiB");
    }
    double again = galvatron_file_value(file, activation + 1, depth + 1, "checkpoint", NULL, 0);
    layer->recompute_mib = isnan(again) ? 0 : again;
    return STATUS_OK;
}

static enum status add_other(const struct galvatron_file *file, const char *name, uint32_t sequence,
                             struct galvatron_other_profile *other, struct error *error)
{
    static const char *const parts[] = { "model_states", "activation" };
    double *values[] = { &other->state_mib, &other->activation_mib };
    char with_sp[64];
    const uint32_t one = 1;
    uint32_t depth, group = find_group(file, 0, 0, name, 0);
    snprintf(with_sp, sizeof with_sp, "%s_sp", name);
    group = group < file->entry_count ? group : find_group(file, 0, 0, with_sp, 0);
    if (group == file->entry_count) {
        return error_set(error, STATUS_BAD_INPUT, "%s is missing: embedding and head, MiB", name);
    }
    uint32_t at = inner(file, group, sequence, &depth);
    for (int i = 0; i < 2; i++) {
        double value = galvatron_file_value(file, at + 1, depth, parts[i], NULL, 0);
        uint32_t degrees = find_group(file, at + 1, depth, parts[i], 0);
        if (isnan(value) && degrees < file->entry_count) {
            value = galvatron_file_value(file, degrees + 1, depth + 1, "#", &one, 1);
        }
        if (isnan(value)) {
            return error_set(error, STATUS_BAD_INPUT, "%s has no %s at sequence length %" PRIu32 " (MiB)", name,
                             parts[i], sequence);
        }
        *values[i] = value;
    }
    return STATUS_OK;
}

static enum status add_memory(const struct galvatron_file *file, const struct scenario *scenario,
                              struct galvatron_model_profile *model, struct error *error)
{
    uint32_t sequence = (uint32_t)scenario->plan.sequence_length, group = find_group(file, 0, 0, "layertype_#", 0);
    group = group < file->entry_count ? group : find_group(file, 0, 0, "layertype_#_sp", 0);
    if (group == file->entry_count) {
        return error_set(
            error, STATUS_BAD_INPUT,
            "layertype_0 is missing: the file has raw triples (layernum[...]_ms, _act, _act_peak) only, and "
            "Galvatron's processing of them is wanted");
    }
    TRY(add_layer(file, scenario, group, &model->kinds[0], error));
    TRY(add_other(file, "other_memory_pp_off", sequence, &model->other, error));
    TRY(add_other(file, "other_memory_pp_on_first", sequence, &model->first, error));
    return add_other(file, "other_memory_pp_on_last", sequence, &model->last, error);
}

enum status galvatron_model_add(const struct galvatron_file *file, const struct scenario *scenario,
                                struct galvatron_model_profile *model, struct error *error)
{
    CHECK(file->kind != GALVATRON_FILE_HARDWARE);
    return file->kind == GALVATRON_FILE_COMPUTATION ? add_times(file, scenario, model, error)
                                                    : add_memory(file, scenario, model, error);
}

/* Measured or ours, each as a whole: what is missing beside a measured part is for galvatron_check_profiles to tell. */
static void forget(struct galvatron_model_profile *model, struct galvatron_hardware_profile *hardware, bool of_hardware)
{
    if (of_hardware) {
        struct galvatron_hardware_profile empty = { .gpus = hardware->gpus };
        memcpy(empty.name, hardware->name, sizeof empty.name);
        *hardware = empty;
        return;
    }
    struct galvatron_layer_profile *layer = &model->kinds[0];
    layer->parameter_mib = layer->recompute_mib = layer->forward_ms = 0;
    memset(layer->activation_mib, 0, sizeof layer->activation_mib);
    model->other = model->first = model->last = (struct galvatron_other_profile){ 0, 0 };
    model->other_forward_ms = 0;
}

enum status galvatron_profiles_load(const char *const *paths, uint32_t count, const struct scenario *scenario,
                                    struct galvatron_model_profile *model, struct galvatron_hardware_profile *hardware,
                                    struct error *error)
{
    bool seen[2] = { false, false };
    for (uint32_t i = 0; i < count; i++) {
        struct arena arena = { 0 };
        struct galvatron_file file;
        enum status status = galvatron_file_load(&file, paths[i], &arena, error);
        if (status == STATUS_OK) {
            bool of_hardware = file.kind == GALVATRON_FILE_HARDWARE;
            if (!seen[of_hardware]) {
                forget(model, hardware, of_hardware);
                seen[of_hardware] = true;
            }
            status = of_hardware ? galvatron_hardware_add(&file, hardware, error)
                                 : galvatron_model_add(&file, scenario, model, error);
            if (status != STATUS_OK && error != NULL && error->file[0] == '\0') {
                snprintf(error->file, sizeof error->file, "%.*s", (int)sizeof error->file - 1, paths[i]);
            }
        }
        arena_free(&arena);
        TRY(status);
    }
    return STATUS_OK;
}
