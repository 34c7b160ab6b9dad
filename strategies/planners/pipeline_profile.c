/* Profiles of chains: from a file, from a scenario. */
#include "strategies/planners/pipeline_profile.h"

#include <string.h>

#include "sim/base/check.h"
#include "sim/base/schema.h"

static enum status no_memory(struct error *error)
{
    return error_set(error, STATUS_NO_MEMORY, "out of memory for a profile");
}

static enum status read_layer(struct profile_layer *layer, const struct json *at, struct arena *arena,
                              struct error *error)
{
    static const char *const KEYS[] = { "name",        "forward_s",      "backward_s", "activation_bytes",
                                        "saved_bytes", "parameter_bytes" };
    static const double SECONDS_MAX = 1e6, BYTES_MAX = 0x1p53;
    const char *name;
    TRY(json_known_keys(at, KEYS, sizeof KEYS / sizeof KEYS[0], error));
    TRY(json_string_or(at, "name", "", &name, error));
    TRY(json_real(at, "forward_s", 0, SECONDS_MAX, &layer->forward_s, error));
    TRY(json_real(at, "backward_s", 0, SECONDS_MAX, &layer->backward_s, error));
    TRY(json_real(at, "activation_bytes", 0, BYTES_MAX, &layer->activation_bytes, error));
    TRY(json_real_or(at, "saved_bytes", 0, BYTES_MAX, layer->activation_bytes, &layer->saved_bytes, error));
    TRY(json_real(at, "parameter_bytes", 0, BYTES_MAX, &layer->parameter_bytes, error));
    layer->name = arena_text(arena, name);
    return layer->name == NULL ? no_memory(error) : STATUS_OK;
}

enum status pipeline_profile_read(struct pipeline_profile *profile, const struct json *root, struct arena *arena,
                                  struct error *error)
{
    static const char *const KEYS[] = { "schema", "name", "layers" };
    const char *name;
    struct json layers;
    TRY(schema_check(root, "memwall.profile/1", true, error));
    TRY(json_known_keys(root, KEYS, sizeof KEYS / sizeof KEYS[0], error));
    TRY(json_string_or(root, "name", "", &name, error));
    TRY(json_array(root, "layers", &layers, error));
    size_t count = json_count(&layers);
    if (count < 1 || count > PIPELINE_LAYERS_MAX) {
        return json_error(&layers, error, "%zu layers; allowed are 1 to %d", count, PIPELINE_LAYERS_MAX);
    }
    *profile = (struct pipeline_profile){ .name = arena_text(arena, name),
                                          .layers = arena_array(arena, struct profile_layer, count),
                                          .count = (uint32_t)count };
    if (profile->name == NULL || profile->layers == NULL) {
        return no_memory(error);
    }
    for (size_t i = 0; i < count; i++) {
        struct json item;
        json_item(&layers, i, &item);
        TRY(read_layer(&profile->layers[i], &item, arena, error));
    }
    if (!(pipeline_profile_sum(profile, 0, profile->count).compute_s > 0)) {
        return json_error(&layers, error, "all times are 0; at least one layer must take time");
    }
    return STATUS_OK;
}

enum status pipeline_profile_load(struct pipeline_profile *profile, const char *file, struct arena *arena,
                                  struct error *error)
{
    struct json_document *document = NULL;
    struct json root;
    enum status status = json_load(&document, file, JSON_BYTES_MAX, error);
    if (status == STATUS_OK) {
        json_root(document, &root);
        status = pipeline_profile_read(profile, &root, arena, error);
    }
    json_free(document);
    return status;
}

static void add_end(struct profile_layer *layer, const struct piece_layer *end, double reduce_bytes)
{
    layer->forward_s += end->forward_s;
    layer->backward_s += end->backward_s;
    layer->saved_bytes += end->saved_bytes[RECOMPUTE_NONE];
    layer->parameter_bytes += end->parameters * reduce_bytes;
}

enum status pipeline_profile_of_scenario(struct pipeline_profile *profile, const struct scenario *scenario,
                                         const uint8_t *recompute, struct pieces *pieces, struct arena *arena,
                                         struct error *error)
{
    const struct plan *plan = &scenario->plan;
    const struct piece_layers *layers;
    double reduce = scenario->software.reduce_bytes;
    TRY(pieces_layers(pieces, plan->tensor, plan->sequence_parallel, plan->micro_batch, &layers, error));
    uint32_t count = (uint32_t)scenario->model.layers;
    *profile = (struct pipeline_profile){ .name = scenario->name,
                                          .layers = arena_array(arena, struct profile_layer, count),
                                          .count = count };
    if (profile->layers == NULL) {
        return no_memory(error);
    }
    for (uint32_t i = 0; i < count; i++) {
        const struct piece_layer *block = &layers->blocks[model_layer_variant(&scenario->model, i)];
        enum recompute_mode mode = recompute != NULL ? (enum recompute_mode)recompute[i] : RECOMPUTE_NONE;
        profile->layers[i] = (struct profile_layer){ .name = "",
                                                     .forward_s = block->forward_s,
                                                     .backward_s = block->backward_s + block->recompute_s[mode],
                                                     .activation_bytes = block->boundary_bytes,
                                                     .saved_bytes = block->saved_bytes[mode],
                                                     .parameter_bytes = block->parameters * reduce };
    }
    add_end(&profile->layers[0], &layers->embedding, reduce);
    add_end(&profile->layers[count - 1], &layers->head, reduce);
    return STATUS_OK;
}

struct profile_sum pipeline_profile_sum(const struct pipeline_profile *profile, uint32_t first, uint32_t count)
{
    struct profile_sum sum = { 0 };
    for (uint32_t i = first; i < first + count; i++) {
        const struct profile_layer *layer = &profile->layers[i];
        sum.compute_s += layer->forward_s + layer->backward_s;
        sum.activation_bytes += layer->activation_bytes;
        sum.saved_bytes += layer->saved_bytes;
        sum.parameter_bytes += layer->parameter_bytes;
    }
    return sum;
}
