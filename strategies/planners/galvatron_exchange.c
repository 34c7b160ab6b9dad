/* Plans between Galvatron's files and ours; machines from its measured bandwidths. */
#include "strategies/planners/galvatron_exchange.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "sim/base/check.h"
#include "sim/base/json_write.h"
#include "sim/base/units.h"
#include "sim/plan/plan_layers.h"
#include "strategies/planners/galvatron_planner_internal.h"

static enum status no_memory(struct error *error)
{
    return error_set(error, STATUS_NO_MEMORY, "out of memory taking over a plan of Galvatron");
}

/* ---- theirs to ours ---- */

static bool has_key(const struct galvatron_plan_file *file, const char *word)
{
    for (uint32_t i = 0; i < file->key_count; i++) {
        if (strcmp(galvatron_plan_key_word(file->keys[i]), word) == 0) {
            return true;
        }
    }
    return false;
}

static enum status check_ulysses(const struct galvatron_plan_file *file, struct error *error)
{
    for (uint32_t i = 0; file->ulysses != NULL && i < file->layer_count; i++) {
        if (file->ulysses[i] && file->layers[i].tensor > 1) {
            return error_set(error, STATUS_UNSUPPORTED,
                             "layer %" PRIu32 " has Ulysses sequence parallelism of degree %" PRIu32
                             " (use_sp), which is not modelled; a plan without use_sp works",
                             i, file->layers[i].tensor);
        }
    }
    return file->vocab_ulysses && file->vocab_tensor > 1
               ? error_set(error, STATUS_UNSUPPORTED,
                           "embedding and head have Ulysses sequence parallelism (vsp), which is not "
                           "modelled; a plan with vsp 0 works")
               : STATUS_OK;
}

/* "vtp" and "embed_sdp". */
static void set_ends(const struct galvatron_plan_file *file, int64_t plain_zero, struct plan *plan)
{
    CHECK(file->pipeline > 0 && file->vocab_tensor > 0);
    int64_t tensor = file->vocab_tensor, data = file->gpus / file->pipeline / file->vocab_tensor;
    struct plan_layer end = { .tensor = tensor,
                              .data = data,
                              .zero_stage = data == 1             ? 0
                                            : file->embed_sharded ? 3
                                                                  : plain_zero };
    plan->embedding = plan->head = end;
}

enum status galvatron_import_plan(const struct scenario *scenario, const struct galvatron_plan_file *file,
                                  struct plan *plan, struct arena *arena, struct error *error)
{
    char why[256] = "";
    bool possible;
    CHECK(file->gpus == scenario->cluster.gpus);
    int64_t plain_zero = strcmp(file->default_data, "zero3") == 0   ? 3
                         : strcmp(file->default_data, "zero2") == 0 ? 2
                                                                    : 0;
    struct galvatron_plan found = { .batch = file->global_batch,
                                    .pipeline = file->pipeline,
                                    .micro_batches = file->chunks,
                                    .layer_count = file->layer_count,
                                    .layers = file->layers,
                                    .one_f_one_b = file->one_f_one_b };
    TRY(check_ulysses(file, error));
    found.stages = arena_array(arena, struct galvatron_stage, file->pipeline);
    if (found.stages == NULL) {
        return no_memory(error);
    }
    for (uint32_t i = 0; i < file->pipeline; i++) {
        found.stages[i].layers = file->division[i];
    }
    TRY(galvatron_to_plan(scenario, &found, plain_zero, plan, &possible, why, sizeof why, arena, error));
    if (!possible) {
        return error_set(error, STATUS_BAD_INPUT, "the plan cannot be taken over: %s", why);
    }
    if (has_key(file, "vtp") || has_key(file, "embed_sdp")) {
        set_ends(file, plain_zero, plan);
    }
    return plan_check(plan, &scenario->model, error);
}

/* ---- ours to theirs ---- */

static enum status check_words(const struct plan *plan, struct error *error)
{
    bool one_f_one_b = strcmp(plan->order, "1f1b") == 0, gpipe = strcmp(plan->order, "gpipe") == 0;
    bool any_order = plan->pipeline == 1 && plan->own_table == NULL; /* all of them are 1F1B then, but for one's own */
    const char *what = plan->context > 1                         ? "context parallelism"
                       : plan->expert > 1                        ? "expert parallelism"
                       : plan->virtual_stages > 1                ? "several chunks on a device"
                       : strcmp(plan->policy, "resident") != 0   ? "memory policies"
                       : !any_order && !one_f_one_b && !gpipe    ? "pipeline orders other than gpipe and 1f1b"
                       : plan->stage_replicas != NULL            ? "stages with replicas of their own"
                       : plan->stage_places != NULL              ? "stages that are not in the order of their devices"
                       : plan->gradient_barrier != BARRIER_AFTER ? "gradient barriers"
                                                                 : NULL;
    return what == NULL ? STATUS_OK
                        : error_set(error, STATUS_UNSUPPORTED, "Galvatron's plan files have no word for %s", what);
}

/* All layers that are not sharded have one stage of ZeRO, 0 or 2. */
static enum status default_zero(const struct plan *plan, const struct model *model, int64_t *zero, struct error *error)
{
    *zero = -1;
    for (int64_t i = 0; i < model->layers; i++) {
        struct plan_layer layer = plan_layer_of(plan, model, LAYER_TRANSFORMER, i);
        if (layer.data == 1 || layer.zero_stage == 3) {
            continue;
        }
        if (layer.zero_stage == 1 || (*zero >= 0 && *zero != layer.zero_stage)) {
            return error_set(error, STATUS_UNSUPPORTED,
                             "layer %" PRId64 " is ZeRO-%" PRId64
                             "; Galvatron has ZeRO-3 for each layer, and 0 or 2 for all the others together",
                             i, layer.zero_stage);
        }
        *zero = layer.zero_stage;
    }
    *zero = *zero < 0 ? 0 : *zero;
    return STATUS_OK;
}

static enum status export_layers(const struct scenario *scenario, const struct plan *plan,
                                 struct galvatron_plan_file *file, struct error *error)
{
    for (uint32_t i = 0; i < file->layer_count; i++) {
        struct plan_layer layer = plan_layer_of(plan, &scenario->model, LAYER_TRANSFORMER, i);
        bool both = layer.tensor > 1 && layer.data > 1;
        if (plan->recompute[i] == RECOMPUTE_SELECTIVE) {
            return error_set(error, STATUS_UNSUPPORTED,
                             "layer %" PRIu32 " is recomputed selectively; Galvatron recomputes a layer whole or not",
                             i);
        }
        file->tensor_consecutive[i] = !both || !layer.data_consecutive;
        file->layers[i] = (struct galvatron_strategy){ .pipeline = file->pipeline,
                                                       .tensor = (uint32_t)layer.tensor,
                                                       .data = (uint32_t)layer.data,
                                                       .tensor_consecutive = file->tensor_consecutive[i],
                                                       .sharded = layer.data > 1 && layer.zero_stage == 3,
                                                       .recompute = plan->recompute[i] == RECOMPUTE_FULL };
    }
    return STATUS_OK;
}

/* Where our plan doesn't say how the ends are split and they come out differently, their file doesn't either. */
static void leave_ends_out(struct galvatron_plan_file *file)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < file->key_count; i++) {
        const char *word = galvatron_plan_key_word(file->keys[i]);
        if (strcmp(word, "vtp") != 0 && strcmp(word, "vsp") != 0 && strcmp(word, "embed_sdp") != 0) {
            file->keys[kept++] = file->keys[i];
        }
    }
    file->key_count = kept;
}

static enum status export_ends(const struct scenario *scenario, const struct plan *plan, int64_t zero,
                               struct galvatron_plan_file *file, struct error *error)
{
    struct plan_layer embedding = plan_layer_of(plan, &scenario->model, LAYER_EMBEDDING, 0);
    struct plan_layer head = plan_layer_of(plan, &scenario->model, LAYER_HEAD, 0);
    bool sharded[2] = { embedding.data > 1 && embedding.zero_stage == 3, head.data > 1 && head.zero_stage == 3 };
    bool alike = embedding.tensor == head.tensor && sharded[0] == sharded[1];
    alike = alike && !embedding.data_consecutive && !head.data_consecutive; /* theirs are tensor groups of neighbours */
    alike = alike && (embedding.data == 1 || sharded[0] || embedding.zero_stage == zero);
    if (!alike && plan->embedding.tensor == 0 && plan->head.tensor == 0) {
        leave_ends_out(file);
        return STATUS_OK;
    }
    if (!alike) {
        return error_set(error, STATUS_UNSUPPORTED,
                         "embedding and head are tensor %" PRId64 ", ZeRO-%" PRId64 " and tensor %" PRId64
                         ", ZeRO-%" PRId64 "; Galvatron has one degree (vtp) of neighbouring ranks for both, and "
                         "ZeRO-3 (embed_sdp) or what the layers have; "
                         "parallel.embedding and parallel.head can say the same of both",
                         embedding.tensor, embedding.zero_stage, head.tensor, head.zero_stage);
    }
    file->vocab_tensor = (uint32_t)embedding.tensor;
    file->embed_sharded = sharded[0];
    return STATUS_OK;
}

enum status galvatron_export_plan(const struct scenario *scenario, const struct plan *plan,
                                  struct galvatron_plan_file *file, struct arena *arena, struct error *error)
{
    int64_t zero;
    TRY(galvatron_check_gpus(scenario->cluster.gpus, error));
    TRY(check_words(plan, error));
    TRY(default_zero(plan, &scenario->model, &zero, error));
    *file = (struct galvatron_plan_file){ .gpus = scenario->cluster.gpus,
                                          .pipeline = (uint32_t)plan->pipeline,
                                          .layer_count = (uint32_t)scenario->model.layers,
                                          .global_batch = (uint32_t)plan->global_batch,
                                          .chunks = (uint32_t)plan->micro_batches,
                                          .one_f_one_b = strcmp(plan->order, "gpipe") != 0,
                                          .default_data = zero == 2 ? "zero2" : "ddp" };
    file->layers = arena_array(arena, struct galvatron_strategy, file->layer_count);
    file->tensor_consecutive = arena_array(arena, bool, file->layer_count);
    file->division = arena_array(arena, uint32_t, file->pipeline);
    if (file->layers == NULL || file->tensor_consecutive == NULL || file->division == NULL) {
        return no_memory(error);
    }
    for (uint32_t i = 0; i < file->pipeline; i++) {
        file->division[i] = (uint32_t)plan->stage_layers[i];
    }
    galvatron_plan_file_all_keys(file);
    TRY(export_layers(scenario, plan, file, error));
    return export_ends(scenario, plan, zero, file, error);
}

/* ---- machines ---- */

/* One curve of a group: "allreduce_size_#_#MB_time", or a bandwidth without a size. */
struct points {
    double bytes[64], gbps[64];
    uint32_t count;
};

/* Without a message size: our rule, see the header. */
static const double SIZELESS_FROM = 16 * MIB, SIZELESS_TO = 256 * MIB;

static void add_point(struct points *points, double bytes, double gbps)
{
    uint32_t at = points->count;
    for (; at > 0 && points->bytes[at - 1] > bytes; at--) {
        points->bytes[at] = points->bytes[at - 1];
        points->gbps[at] = points->gbps[at - 1];
    }
    points->bytes[at] = bytes;
    points->gbps[at] = gbps;
    points->count++;
}

/* The curve of groups of `size`: a table where there is one. */
static void collect(const struct galvatron_file *files, uint32_t count, bool reduce, uint32_t size,
                    struct points *points)
{
    double sizeless = 0;
    points->count = 0;
    for (uint32_t f = 0; f < count; f++) {
        for (uint32_t i = 0; i < files[f].entry_count; i++) {
            const struct galvatron_entry *entry = &files[f].entries[i];
            bool table = strcmp(entry->pattern, reduce ? "allreduce_size_#_#MB_time" : "all2all_size_#_#MB_time") == 0;
            if (table && entry->numbers[0] == size && entry->numbers[1] > 0 && points->count < 64) {
                double bytes = entry->numbers[1] * MIB, n = size;
                add_point(points, bytes, bytes * (reduce ? 2 : 1) * (n - 1) / n / (entry->value * 1e6));
            } else if (reduce && strcmp(entry->pattern, "allreduce_size_#_consec_#") == 0 &&
                       entry->numbers[0] == size && entry->numbers[1] == 1) {
                sizeless = entry->value;
            } else if (reduce && strcmp(entry->pattern, "allreduce_size_#") == 0 && entry->numbers[0] == size) {
                sizeless = entry->value;
            } else if (reduce && strcmp(entry->pattern, "#_#_#") == 0 && entry->numbers[0] == 1 &&
                       entry->numbers[1] == size && entry->numbers[2] == 1) {
                sizeless = MIB / (entry->value * 1e6); /* ms per MiB of bus volume */
            }
        }
    }
    if (points->count == 0 && sizeless > 0) {
        add_point(points, SIZELESS_FROM, sizeless);
        add_point(points, SIZELESS_TO, sizeless);
    }
}

static void print_curve(struct json_writer *w, const char *kind, uint32_t size, uint32_t nodes,
                        const struct points *points)
{
    jw_object(w, NULL);
    jw_string(w, "kind", kind);
    jw_uint(w, "ranks", size);
    if (nodes > 1) {
        jw_uint(w, "nodes", nodes);
    }
    jw_array(w, "bytes_GBps");
    for (uint32_t i = 0; i < points->count; i++) {
        jw_array(w, NULL);
        jw_real(w, NULL, points->bytes[i]);
        jw_real(w, NULL, points->gbps[i]);
        jw_end(w);
    }
    jw_end(w);
    jw_string(w, "source", "Galvatron's profile, taken over by memwall import");
    jw_end(w);
}

enum status galvatron_machine_from_files(const struct galvatron_file *files, uint32_t count, const struct machine *base,
                                         struct strbuf *out, struct error *error)
{
    struct json_writer w = { .out = out };
    uint32_t curves = 0, per_node = base->gpu_count;
    jw_object(&w, NULL);
    jw_string(&w, "schema", "memwall.machine/1");
    jw_string(&w, "name", "from-galvatron");
    jw_string(&w, "title", "Collectives measured by Galvatron's profiler, the rest as the base");
    jw_string(&w, "base", base->name);
    jw_array(&w, "collectives");
    for (uint32_t size = 2; size <= GALVATRON_GPUS_MAX; size *= 2) {
        for (int reduce = 1; reduce >= 0; reduce--) {
            struct points points;
            collect(files, count, reduce == 1, size, &points);
            if (points.count > 0) {
                print_curve(&w, reduce == 1 ? "all_reduce" : "all_to_all", size, (size + per_node - 1) / per_node,
                            &points);
                curves++;
            }
        }
    }
    jw_end(&w);
    jw_end(&w);
    return curves > 0 ? STATUS_OK
                      : error_set(error, STATUS_BAD_INPUT,
                                  "the files have no all-reduce of consecutive groups (allreduce_size_N_consec_1, or a "
                                  "table allreduce_size_N_SMB_time): nothing to make a machine of");
}
