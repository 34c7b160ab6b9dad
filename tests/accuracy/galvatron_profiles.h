/* What Galvatron's profilers measured (shared data galvatron2/model_profiles; facts/galvatron-bmw.md E): the files, and what the code of their day ran. Shared by a_galvatron_profiles (layer times),
 * a_galvatron_memory (memory triples) and a_galvatron_shapes (memory of T5 and Swin).
 *
 * Every file of a model that we have a graph of is here; experts and the files of a half of a layer are not. Numbers that stand in several files (they were carried along with the
 * repository) are one measurement and count once.
 *
 * What ran is told by the folder and the date of a file, as the imports of that code say (PKU-DAIR/Hetu-Galvatron, AFDWang/Hetu-Galvatron: galvatron/models/<folder>/, core/tensor_parallel/transformer.py):
 *   *_fa, baichuan       flash_attn's modules, [batch, sequence, hidden]; SwiGLU as two kernels; from August 2024 on the tables and the last norm are modules of their own
 *   *_hf of 2024         Megatron's modules over [sequence, batch, hidden]; llama_hf with megatron.model.rms_norm (primitives in fp32), rotation and SwiGLU as primitives
 *   from 2025 on         the same modules, flash_attn's RMSNorm, rotation and SwiGLU fused
 *   bert_hf, vit_hf      Megatron's modules without flash attention, primitives; BERT without pooler and next-sentence classifier
 * The loss of October 22, 2024 in fp32 (--entropy_in_fp32 came then) is told by its activations, not by an import. */
#ifndef MEMWALL_TESTS_GALVATRON_PROFILES_H
#define MEMWALL_TESTS_GALVATRON_PROFILES_H

#include "sim/base/check.h"
#include "sim/base/units.h"
#include "strategies/planners/galvatron_files.h"
#include "strategies/planners/oracle_pieces.h"
#include "galvatron_golden.h"

/* What of it software models say stands in `software` (hw_models/software.h); the rest is of FSDP's units and of what the predictions add for themselves. */
struct profile_code {
    const char *software;
    bool megatron;     /* its modules: [sequence, batch, hidden] */
    bool tables_apart; /* word and position tables are units of their own */
    bool fp32_logits;  /* the loss reads an fp32 copy */
    bool logits_twice; /* the loss makes one more 16-bit copy */
    bool no_prefetch;  /* in pipelines the unit before is not gathered ahead (core/parallel.py of May 2024) */
    double
        norm_apart; /* bytes a value that the norm before the head keeps of samples that the head does not have: it is split like the layers, the head over all devices */
};

/* The logits as they are, or in fp32. flash_attn's modules; Megatron's. */
#define FLASH   "{\"base\":\"megatron-flash\",\"kernels\":{\"loss\":\"half\"}}"
#define MODULES "{\"base\":\"megatron-flash\",\"kernels\":{\"loss\":\"half\",\"qkv_copied\":true,\"gate_apart\":true}}"
#define MEGATRON_2024                                                                                                  \
    "{\"base\":\"megatron-flash\",\"kernels\":{\"loss\":\"half\",\"qkv_copied\":true,\"context_copied\":true},"        \
    "\"memory\":{\"module_buffer\":true,\"module_buffer_alone\":true}}"
#define PRIMITIVES(loss)                                                                                               \
    "{\"base\":\"pytorch-eager\",\"kernels\":{\"loss\":\"" loss "\",\"context_copied\":true,\"norm_fp32\":true},"      \
    "\"memory\":{\"module_buffer\":true,\"module_buffer_alone\":true}}"
/* No autocast, whose scores would be fp32: FSDP casts the weights (MixedPrecision). */
#define UNFUSED                                                                                                        \
    "{\"base\":\"pytorch-eager\",\"kernels\":{\"flash_attention\":false,\"fp32_softmax\":false,\"loss\":\"half\"},"    \
    "\"memory\":{\"module_buffer\":true}}"

static const struct profile_code GPT_FA = { .software = MODULES, .no_prefetch = true };
static const struct profile_code LLAMA_FA = { .software = MODULES, .no_prefetch = true, .norm_apart = 2 };
static const struct profile_code FA_2024 = { .software = MODULES, .tables_apart = true, .norm_apart = 4 };
static const struct profile_code GPT_2024 = { .software = MEGATRON_2024, .megatron = true, .tables_apart = true };
static const struct profile_code LLAMA_2024 = { .software = PRIMITIVES("half"),
                                                .megatron = true,
                                                .tables_apart = true };
static const struct profile_code LLAMA_OCT_2024 = {
    .software = PRIMITIVES("jit"), .megatron = true, .tables_apart = true, .fp32_logits = true
};
static const struct profile_code FROM_2025 = {
    .software = "{\"base\":\"galvatron\"}", .megatron = true, .tables_apart = true, .logits_twice = true
};
static const struct profile_code T5_2025 = { .software = FLASH, .megatron = true };
static const struct profile_code BERT_VIT = { .software = UNFUSED, .megatron = true, .tables_apart = true };

#define GPT(h, ffn)  "\"family\":\"gpt\",\"layers\":2,\"hidden\":" #h ",\"heads\":32,\"ffn\":" #ffn ",\"vocab\":50257"
#define LLAMA(vocab) "\"family\":\"llama\",\"layers\":2,\"hidden\":4096,\"heads\":32,\"ffn\":11008,\"vocab\":" #vocab
#define BERT(h, heads, ffn)                                                                                            \
    "\"family\":\"bert\",\"layers\":2,\"hidden\":" #h ",\"heads\":" #heads ",\"ffn\":" #ffn                            \
    ",\"vocab\":30522,\"pooler\":false,\"classes\":0"
#define VIT(h, heads, ffn)                                                                                             \
    "\"family\":\"vit\",\"layers\":2,\"hidden\":" #h ",\"heads\":" #heads ",\"ffn\":" #ffn                             \
    ",\"image_size\":224,\"patch_size\":16,\"classes\":1000"
/* meta_configs/T5__t5-3B: 24 + 24 layers of width 1024, 32 heads of 128, 16384 between. Galvatron's T5 keeps the input of its activation: GELU. */
#define T5_3B                                                                                                          \
    "\"family\":\"t5\",\"layers\":48,\"hidden\":1024,\"heads\":32,\"head_size\":128,\"ffn\":16384,\"vocab\":32128,"    \
    "\"activation\":\"gelu\""
#define SWIN_HUGE "\"base\":\"swin-huge-48\""

struct profile {
    const char *file, *model;
    const struct profile_code *code;
    uint32_t sequence; /* where the keys have none; or the only one taken */
};

static inline const char *profile_path(const struct profile *profile, char *name, size_t size)
{
    (void)snprintf(name, size, "galvatron2/model_profiles/%s.json", profile->file);
    return name;
}

static inline void profile_load(struct galvatron_file *file, const struct profile *profile, struct arena *arena)
{
    struct error error = { 0 };
    char name[256];
    if (galvatron_file_load(file, golden_path(profile_path(profile, name, sizeof name)), arena, &error) != STATUS_OK) {
        TEST_FAIL_("%s", error.message);
        exit(1);
    }
}

/* Each run was told its sequence length: position tables are as long. With changes as of --set. */
static inline void profile_scenario_with(struct scenario *scenario, const struct profile *profile, uint32_t sequence,
                                         const char *const *sets, uint32_t set_count)
{
    struct error error = { 0 };
    char text[1024], positions[64] = "";
    if (strstr(profile->model, "\"vit\"") == NULL) {
        (void)snprintf(positions, sizeof positions, ",\"max_sequence\":%u", sequence);
    }
    (void)snprintf(text, sizeof text,
                   "{\"model\":{%s%s},\"machine\":\"dgx-a100-40gb\",\"gpus\":8,\"software\":%s,\"training\":{"
                   "\"sequence_length\":%u,\"global_batch\":8,\"precision\":\"bf16\"}}",
                   profile->model, positions, profile->code->software, sequence);
    if (scenario_parse(scenario, text, "profile", sets, set_count, &error) != STATUS_OK) {
        TEST_FAIL_("%s", error.message);
        exit(1);
    }
}

static inline void profile_scenario(struct scenario *scenario, const struct profile *profile, uint32_t sequence)
{
    profile_scenario_with(scenario, profile, sequence, NULL, 0);
}

/* ---- models whose layers have several shapes ---- */

static inline struct json_document *profile_document(const char *name, struct json *root)
{
    struct json_document *document = NULL;
    struct error error = { 0 };
    fclose(golden_open(name)); /* skips without data */
    if (json_load(&document, golden_path(name), JSON_BYTES_MAX, &error) != STATUS_OK) {
        TEST_FAIL_("%s", error.message);
        exit(1);
    }
    json_root(document, root);
    return document;
}

static inline double profile_value(const struct json *at, const char *key)
{
    double number = NAN;
    struct error error = { 0 };
    if (json_real(at, key, -1e9, 1e9, &number, &error) != STATUS_OK) {
        TEST_FAIL_("%s: %s", key, error.message);
    }
    return number;
}

/* A kind of layer in a file: how its name in the keys differs from the runs with the fewest layers, and which variant it is. */
struct kind {
    const char *name, *less, *more;
    uint32_t variant;
    int more_layers;
};
static inline double kind_difference(const struct json *at, const struct kind *kind, const char *rest)
{
    char key[128];
    (void)snprintf(key, sizeof key, "layernum[%s]%s", kind->more, rest);
    double more = profile_value(at, key);
    (void)snprintf(key, sizeof key, "layernum[%s]%s", kind->less, rest);
    return (more - profile_value(at, key)) / kind->more_layers;
}

/* A line of the README's table (tests/accuracy/table.sh). */
static inline void profile_summary(const char *what, uint32_t count, double mean, double bias, double worst,
                                   double allowed)
{
    printf("%-54s %4u rows  mean error %5.2f %%  bias %+6.2f %%  worst %6.2f %%  ", what, count, 100 * mean, 100 * bias,
           100 * fabs(worst));
    if (allowed > 0) {
        printf("allowed %4.1f %%  %s\n", 100 * allowed, mean <= allowed ? "ok" : "TOO FAR OFF");
    } else {
        printf("shown, not judged\n");
    }
}

#endif
