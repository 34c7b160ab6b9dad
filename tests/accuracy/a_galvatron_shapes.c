/* Our graphs of T5 and Swin layers against what Galvatron's profilers measured of them (shared data galvatron2/model_profiles and galvatron1; facts/galvatron-bmw.md E). Shown, not judged: one machine is not recorded
 * (A100s, by bandwidths and budgets), and of what the code did only what the numbers say is known. A layer of a kind is the difference of two runs that differ by layers of that kind.
 *
 *   state    16 bytes a parameter over 8 devices (ZeRO-3 in mixed precision); act: what a forward pass adds to the memory of a device
 *   forward  of version 1 in fp32 on its titan-rtx-8-galvatron, ms a sample at 8 samples (its batch is not recorded); those of version 2 are with the other models' (a_galvatron_profiles)
 *
 * Galvatron's T5 keeps the input of its activation (16 MiB more a layer than ReLU needs: taken as GELU) and has flash attention (no s x s tensors); its Swin is Hugging Face's. */
#include "galvatron_profiles.h"

struct sum {
    double off, bias, worst;
    uint32_t count;
};

static void add(struct sum *sum, const char *what, double measured, double predicted, const char *unit)
{
    double off = predicted / measured - 1;
    printf("  %-44s measured %9.3f %s, predicted %9.3f (%+.1f %%)\n", what, measured, unit, predicted, 100 * off);
    EXPECT(isfinite(off) && measured > 0);
    sum->off += fabs(off);
    sum->bias += off;
    sum->worst = fabs(off) > fabs(sum->worst) ? off : sum->worst;
    sum->count++;
}

static void print_sum(const char *what, const struct sum *sum)
{
    profile_summary(what, sum->count, sum->off / sum->count, sum->bias / sum->count, sum->worst, 0);
}

static void open_scenario(struct scenario *scenario, const char *model, const char *machine, const char *software,
                          const char *precision)
{
    char text[1024];
    struct error error = { 0 };
    (void)snprintf(text, sizeof text,
                   "{\"model\":\"%s\",\"machine\":\"%s\",\"gpus\":8,\"software\":%s,\"training\":{\"global_batch\":8,"
                   "\"precision\":\"%s\"}}",
                   model, machine, software, precision);
    if (scenario_parse(scenario, text, "profile", NULL, 0, &error) != STATUS_OK) {
        TEST_FAIL_("%s", error.message);
        exit(1);
    }
}

static const struct kind T5_MEMORY[] = { { "encoder", "1,1", "2,1", T5_ENCODER, 1 },
                                         { "decoder", "1,1", "1,2", T5_DECODER, 1 } };
static const struct kind SWIN_MEMORY[] = { { "stage 0", "1,1,1,1", "2,1,1,1", 0, 1 },
                                           { "stage 1", "1,1,1,1", "1,2,1,1", 2, 1 },
                                           { "stage 2", "1,1,1,1", "1,1,2,1", 4, 1 },
                                           { "stage 3", "1,1,1,1", "1,1,1,2", 6, 1 } };

static const struct piece_layer *block(struct pieces *pieces, int64_t tensor, bool split, int64_t batch,
                                       uint32_t variant)
{
    const struct piece_layers *layers;
    struct error error = { 0 };
    EXPECT_INT(pieces_layers(pieces, tensor, split, batch, &layers, &error), STATUS_OK);
    return &layers->blocks[variant];
}

static void show_memory(const struct profile *profile, const char *suffix, bool split, const struct kind *kinds,
                        size_t kind_count, const char *sequences, const char *title)
{
    struct scenario scenario;
    struct json root, group;
    struct pieces *pieces;
    struct error error = { 0 };
    struct sum states = { 0 }, acts = { 0 };
    char line[96];
    struct json_document *document = profile_document(profile_path(profile, line, sizeof line), &root);
    profile_scenario(&scenario, profile, profile->sequence);
    EXPECT_INT(pieces_open(&pieces, &scenario, &error), STATUS_OK);
    for (int tensor = 1; tensor <= 8; tensor *= 2) {
        char key[32], rest[64], what[64];
        (void)snprintf(key, sizeof key, "1_%d_%d%s", tensor, 8 / tensor, suffix);
        EXPECT_INT(json_object(&root, key, &group, &error), STATUS_OK);
        for (size_t k = 0; k < kind_count; k++) {
            const struct piece_layer *layer = block(pieces, tensor, split && tensor > 1, tensor, kinds[k].variant);
            (void)snprintf(what, sizeof what, "%s %s state of a layer", key, kinds[k].name);
            (void)snprintf(rest, sizeof rest, "_bsz8_seq[%s]_rank0_ms", sequences);
            add(&states, what, kind_difference(&group, &kinds[k], rest), 16 * layer->parameters * tensor / 8 / MIB,
                "MiB");
            (void)snprintf(what, sizeof what, "%s %s activations of a layer", key, kinds[k].name);
            (void)snprintf(rest, sizeof rest, "_bsz8_seq[%s]_rank0_act", sequences);
            add(&acts, what, kind_difference(&group, &kinds[k], rest), layer->saved_bytes[RECOMPUTE_NONE] / MIB, "MiB");
        }
    }
    (void)snprintf(line, sizeof line, "%s, states of a layer", title);
    print_sum(line, &states);
    (void)snprintf(line, sizeof line, "%s, activations of a layer", title);
    print_sum(line, &acts);
    pieces_close(pieces);
    scenario_free(&scenario);
    json_free(document);
}

static const struct profile T5_MEMORY_FILE = { "T5__memory_profiling_bf16_t5-3B__2025-01-17_e8efe417", T5_3B, &T5_2025,
                                               512 };
static const struct profile SWIN_MEMORY_FILE = { "swin__memory_profiling_bf16_swin-huge__2025-02-14_793477d3",
                                                 SWIN_HUGE, &BERT_VIT, 3136 };

static void test_memory(void)
{
    show_memory(&T5_MEMORY_FILE, "_sp", true, T5_MEMORY, 2, "512,512", "T5-3B (Galvatron 2)");
    show_memory(&SWIN_MEMORY_FILE, "", false, SWIN_MEMORY, 4, "3136,784,196,49", "Swin-Huge (Galvatron 2)");
}

/* Version 1: constants for each kind of layer. */
static void test_first_version(void)
{
    static const struct {
        const char *file, *group, *model, *keys[4];
        uint32_t variants[4];
    } files[] = {
        { "galvatron1/t5__forward_profiling_config.json",
          "fwd_time_hidden_1024",
          "t5-large-32",
          { "encoder", "decoder" },
          { T5_ENCODER, T5_DECODER } },
        { "galvatron1/swin__forward_profiling_config.json",
          "fwd_time_embed_dim_320",
          "swin-huge-32",
          { "layer_type_0", "layer_type_1", "layer_type_2", "layer_type_3" },
          { 0, 2, 4, 6 } },
    };
    struct sum sum = { 0 };
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        struct scenario scenario;
        struct pieces *pieces;
        struct json root, group;
        struct error error = { 0 };
        struct json_document *document = profile_document(files[i].file, &root);
        EXPECT_INT(json_object(&root, files[i].group, &group, &error), STATUS_OK);
        open_scenario(&scenario, files[i].model, "titan-rtx-8-galvatron", UNFUSED, "fp32");
        EXPECT_INT(pieces_open(&pieces, &scenario, &error), STATUS_OK);
        for (size_t k = 0; k < 4 && files[i].keys[k] != NULL; k++) {
            const struct piece_layer *layer = block(pieces, 1, false, 8, files[i].variants[k]);
            char what[64];
            (void)snprintf(what, sizeof what, "%s %s, ms a sample", files[i].model, files[i].keys[k]);
            add(&sum, what, profile_value(&group, files[i].keys[k]),
                1e3 * fmax(layer->forward_s, layer->forward_host_s) / 8, "ms");
        }
        pieces_close(pieces);
        scenario_free(&scenario);
        json_free(document);
    }
    print_sum("T5 and Swin of Galvatron 1, layer forward times", &sum);
}

TEST_MAIN(TEST(test_memory), TEST(test_first_version))
