/* Our graphs of T5 and Swin layers against what Galvatron's profilers measured of them (shared data galvatron2/model_profiles and galvatron1; facts/galvatron-bmw.md E). Shown, not judged: one machine is not recorded
 * (A100s, by bandwidths and budgets), and of what the code did only what the numbers say is known. A layer of a kind is the difference of two runs that differ by layers of that kind.
 *
 *   state    16 bytes a parameter over 8 devices (ZeRO-3 in mixed precision); act: what a forward pass adds to the memory of a device
 *   forward  on the shipped dgx-a100-40gb, with the cast of FSDP; of version 1 in fp32 on its titan-rtx-8-galvatron, ms a sample at 8 samples (its batch is not recorded)
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

static struct json_document *open_profile(const char *name, struct json *root)
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

static double value(const struct json *at, const char *key)
{
    double number = NAN;
    struct error error = { 0 };
    if (json_real(at, key, -1e9, 1e9, &number, &error) != STATUS_OK) {
        TEST_FAIL_("%s: %s", key, error.message);
    }
    return number;
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

/* meta_configs/T5__t5-3B: 24 + 24 layers of width 1024, 32 heads of 128, 16384 between. */
static void make_3b(struct model *m)
{
    m->layers = 48;
    m->decoder_layers = 24;
    m->heads = m->kv_heads = 32;
    m->head_size = 128;
    m->ffn = 16384;
    m->activation = MODEL_GELU;
}

/* A kind of layer in a file: how its name in the keys differs from the runs with the fewest layers, and which variant it is. */
struct kind {
    const char *name, *less, *more;
    uint32_t variant;
    int more_layers;
};
static const struct kind T5_KINDS[] = { { "encoder", "2,2", "4,2", T5_ENCODER, 2 },
                                        { "decoder", "2,2", "2,4", T5_DECODER, 2 } };
static const struct kind T5_MEMORY[] = { { "encoder", "1,1", "2,1", T5_ENCODER, 1 },
                                         { "decoder", "1,1", "1,2", T5_DECODER, 1 } };
static const struct kind SWIN_KINDS[] = { { "stage 0", "12,12,12,12", "24,12,12,12", 0, 12 },
                                          { "stage 1", "12,12,12,12", "12,24,12,12", 2, 12 },
                                          { "stage 2", "12,12,12,12", "12,12,24,12", 4, 12 },
                                          { "stage 3", "12,12,12,12", "12,12,12,24", 6, 12 } };
static const struct kind SWIN_MEMORY[] = { { "stage 0", "1,1,1,1", "2,1,1,1", 0, 1 },
                                           { "stage 1", "1,1,1,1", "1,2,1,1", 2, 1 },
                                           { "stage 2", "1,1,1,1", "1,1,2,1", 4, 1 },
                                           { "stage 3", "1,1,1,1", "1,1,1,2", 6, 1 } };

static double difference(const struct json *at, const struct kind *kind, const char *rest)
{
    char key[128];
    (void)snprintf(key, sizeof key, "layernum[%s]%s", kind->more, rest);
    double more = value(at, key);
    (void)snprintf(key, sizeof key, "layernum[%s]%s", kind->less, rest);
    return (more - value(at, key)) / kind->more_layers;
}

static const struct piece_layer *block(struct pieces *pieces, int64_t tensor, bool split, int64_t batch,
                                       uint32_t variant)
{
    const struct piece_layers *layers;
    struct error error = { 0 };
    EXPECT_INT(pieces_layers(pieces, tensor, split, batch, &layers, &error), STATUS_OK);
    return &layers->blocks[variant];
}

static void show_times(const char *file, struct scenario *scenario, const struct kind *kinds, size_t kind_count,
                       int64_t first_batch, int64_t last_batch, const char *sequences, const char *title)
{
    struct json root;
    struct pieces *pieces;
    struct error error = { 0 };
    struct sum sum = { 0 };
    struct json_document *document = open_profile(file, &root);
    EXPECT_INT(pieces_open(&pieces, scenario, &error), STATUS_OK);
    for (size_t k = 0; k < kind_count; k++) {
        for (int64_t batch = first_batch; batch <= last_batch; batch++) {
            char rest[64], what[64];
            (void)snprintf(rest, sizeof rest, "_bsz%d_seq[%s]", (int)batch, sequences);
            (void)snprintf(what, sizeof what, "%s forward, batch %d", kinds[k].name, (int)batch);
            const struct piece_layer *layer = block(pieces, 1, false, batch, kinds[k].variant);
            double cast = pieces_stream_s(pieces, KERNEL_ELEMENTWISE, 4 * layer->parameters, 2 * layer->parameters, 1);
            add(&sum, what, difference(&root, &kinds[k], rest),
                1e3 * fmax(layer->forward_s + cast, layer->forward_host_s), "ms");
        }
    }
    print_sum(title, &sum);
    pieces_close(pieces);
    json_free(document);
}

static void show_memory(const char *file, const char *suffix, bool split, struct scenario *scenario,
                        const struct kind *kinds, size_t kind_count, const char *sequences, const char *title)
{
    struct json root, group;
    struct pieces *pieces;
    struct error error = { 0 };
    struct sum states = { 0 }, acts = { 0 };
    char line[96];
    struct json_document *document = open_profile(file, &root);
    EXPECT_INT(pieces_open(&pieces, scenario, &error), STATUS_OK);
    for (int tensor = 1; tensor <= 8; tensor *= 2) {
        char key[32], rest[64], what[64];
        (void)snprintf(key, sizeof key, "1_%d_%d%s", tensor, 8 / tensor, suffix);
        EXPECT_INT(json_object(&root, key, &group, &error), STATUS_OK);
        for (size_t k = 0; k < kind_count; k++) {
            const struct piece_layer *layer = block(pieces, tensor, split && tensor > 1, tensor, kinds[k].variant);
            (void)snprintf(what, sizeof what, "%s %s state of a layer", key, kinds[k].name);
            (void)snprintf(rest, sizeof rest, "_bsz8_seq[%s]_rank0_ms", sequences);
            add(&states, what, difference(&group, &kinds[k], rest), 16 * layer->parameters * tensor / 8 / MIB, "MiB");
            (void)snprintf(what, sizeof what, "%s %s activations of a layer", key, kinds[k].name);
            (void)snprintf(rest, sizeof rest, "_bsz8_seq[%s]_rank0_act", sequences);
            add(&acts, what, difference(&group, &kinds[k], rest), layer->saved_bytes[RECOMPUTE_NONE] / MIB, "MiB");
        }
    }
    (void)snprintf(line, sizeof line, "%s, states of a layer", title);
    print_sum(line, &states);
    (void)snprintf(line, sizeof line, "%s, activations of a layer", title);
    print_sum(line, &acts);
    pieces_close(pieces);
    json_free(document);
}

static void test_t5(void)
{
    struct scenario scenario;
    open_scenario(&scenario, "t5-large-48", "dgx-a100-40gb", "\"megatron-flash\"", "bf16");
    make_3b(&scenario.model);
    show_memory("galvatron2/model_profiles/T5__memory_profiling_bf16_t5-3B__2025-01-17_e8efe417.json", "_sp", true,
                &scenario, T5_MEMORY, 2, "512,512", "T5-3B (Galvatron 2)");
    show_times("galvatron2/model_profiles/T5__computation_profiling_bf16_t5-3B__2025-01-17_e8efe417.json", &scenario,
               T5_KINDS, 2, 1, 8, "512,512", "T5-3B (Galvatron 2), layer forward times");
    scenario_free(&scenario);
}

static void test_swin(void)
{
    struct scenario scenario;
    open_scenario(&scenario, "swin-huge-48", "dgx-a100-40gb", UNFUSED, "bf16");
    show_memory("galvatron2/model_profiles/swin__memory_profiling_bf16_swin-huge__2025-02-14_793477d3.json", "", false,
                &scenario, SWIN_MEMORY, 4, "3136,784,196,49", "Swin-Huge (Galvatron 2)");
    show_times("galvatron2/model_profiles/swin__computation_profiling_bf16_swin-huge__2025-02-14_793477d3.json",
               &scenario, SWIN_KINDS, 4, 12, 12, "3136,784,196,49", "Swin-Huge (Galvatron 2), layer forward times");
    scenario_free(&scenario);
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
        struct json_document *document = open_profile(files[i].file, &root);
        EXPECT_INT(json_object(&root, files[i].group, &group, &error), STATUS_OK);
        open_scenario(&scenario, files[i].model, "titan-rtx-8-galvatron", UNFUSED, "fp32");
        EXPECT_INT(pieces_open(&pieces, &scenario, &error), STATUS_OK);
        for (size_t k = 0; k < 4 && files[i].keys[k] != NULL; k++) {
            const struct piece_layer *layer = block(pieces, 1, false, 8, files[i].variants[k]);
            char what[64];
            (void)snprintf(what, sizeof what, "%s %s, ms a sample", files[i].model, files[i].keys[k]);
            add(&sum, what, value(&group, files[i].keys[k]), 1e3 * fmax(layer->forward_s, layer->forward_host_s) / 8,
                "ms");
        }
        pieces_close(pieces);
        scenario_free(&scenario);
        json_free(document);
    }
    print_sum("T5 and Swin of Galvatron 1, layer forward times", &sum);
}

TEST_MAIN(TEST(test_t5), TEST(test_swin), TEST(test_first_version))
