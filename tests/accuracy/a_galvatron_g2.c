/* Preset g2 against golden/galvatron2_release_recomputed_16gpu.csv: two servers of eight A100, profiles of the first Galvatron-2 release (shared data, read only here).
 *
 * Rows: budget, model, batch -> degree, iteration time, samples/s, leftover, plan. 1F1B, ZeRO-2 as plain data parallelism, recomputation allowed, degrees up to 8 (facts/galvatron-bmw.md A.3, D.4). */
#include "sim/base/json.h"
#include "strategies/planners/galvatron_cost.h"
#include "strategies/planners/galvatron_search.h"
#include "galvatron_golden.h"

enum { ROWS = 32 };

static double number(const struct json *at, const char *key)
{
    struct error error = { 0 };
    double value = 0;
    if (json_real(at, key, 0, 1e9, &value, &error) != STATUS_OK) {
        TEST_FAIL_("%s: %s", key, error.message);
    }
    return value;
}

static struct json_document *load(const char *name, struct json *root)
{
    struct error error = { 0 };
    struct json_document *document = NULL;
    if (json_load(&document, golden_path(name), JSON_BYTES_MAX, &error) != STATUS_OK) {
        TEST_FAIL_("%s", error.message);
        exit(1);
    }
    json_root(document, root);
    return document;
}

static const struct {
    const char *name, *memory, *computation;
    uint32_t layers, sequence, hidden;
} MODELS[] = {
    { "gpt-1.5b", "gpt_fa__memory_profiling_bf16_hidden1600_head32_seqlen1024__2024-05-30_f711e97b.json",
      "gpt_fa__computation_profiling_bf16_hidden1600_head32_seqlen1024__2024-05-30_f711e97b.json", 48, 1024, 1600 },
    { "gpt-2.7b", "gpt_fa__memory_profiling_bf16_hidden2560_head32_seqlen2048__2024-05-30_f711e97b.json",
      "gpt_fa__computation_profiling_bf16_hidden2560_head32_seqlen2048__2024-05-30_f711e97b.json", 32, 2048, 2560 },
    { "gpt-6.7b", "gpt_fa__memory_profiling_bf16_hidden4096_head32_seqlen2048__2024-05-30_f711e97b.json",
      "gpt_fa__computation_profiling_bf16_hidden4096_head32_seqlen2048__2024-05-30_f711e97b.json", 32, 2048, 4096 },
    { "llama-7b", "llama_hf__memory_profiling_bf16_hidden4096_head32_seqlen2048__2024-05-30_95460f62.json",
      "llama_hf__computation_profiling_bf16_hidden4096_head32_seqlen2048__2024-05-30_95460f62.json", 32, 2048, 4096 },
    { "baichuan-7b", "baichuan__memory_profiling_bf16_hidden4096_head32_seqlen2048__2023-11-30_698e09a1.json",
      "baichuan__computation_profiling_bf16_hidden4096_head32_seqlen2048__2023-11-30_698e09a1.json", 32, 2048, 4096 },
};

static struct galvatron_other_profile other_of(const struct json *root, const char *key)
{
    struct error error = { 0 };
    struct json other;
    EXPECT_INT(json_object(root, key, &other, &error), STATUS_OK);
    return (struct galvatron_other_profile){ number(&other, "model_states"), number(&other, "activation") };
}

static void read_model(const char *name, struct galvatron_model_profile *model)
{
    static const char *const DEGREES[] = { "1", "2", "4", "8" };
    size_t i = 0;
    while (strcmp(MODELS[i].name, name) != 0) {
        i++;
        EXPECT(i < sizeof MODELS / sizeof *MODELS);
    }
    char path[256];
    struct error error = { 0 };
    struct json root, layer, activation;
    *model = (struct galvatron_model_profile){ .kind_count = 1, .mixed = true };
    struct galvatron_layer_profile *kind = &model->kinds[0];
    kind->count = MODELS[i].layers;
    kind->sequence = MODELS[i].sequence;
    kind->hidden = MODELS[i].hidden;
    (void)snprintf(path, sizeof path, "galvatron2/model_profiles/%s", MODELS[i].computation);
    struct json_document *document = load(path, &root);
    kind->forward_ms = number(&root, "layertype_0");
    json_free(document);
    (void)snprintf(path, sizeof path, "galvatron2/model_profiles/%s", MODELS[i].memory);
    document = load(path, &root);
    EXPECT_INT(json_object(&root, "layertype_0", &layer, &error), STATUS_OK);
    EXPECT_INT(json_object(&layer, "tp_activation_per_bsz_dict", &activation, &error), STATUS_OK);
    kind->parameter_mib = number(&layer, "parameter_size");
    kind->recompute_mib = number(&activation, "checkpoint");
    for (size_t k = 0; k < 4; k++) {
        kind->activation_mib[k] = number(&activation, DEGREES[k]);
    }
    model->other = other_of(&root, "other_memory_pp_off");
    model->first = other_of(&root, "other_memory_pp_on_first");
    model->last = other_of(&root, "other_memory_pp_on_last");
    json_free(document);
}

static void read_hardware(struct galvatron_hardware_profile *hardware)
{
    struct json root;
    *hardware = (struct galvatron_hardware_profile){ .name = "2x8", .gpus = 16 };
    struct json_document *document =
        load("galvatron2/hardware/hw__allreduce_bandwidth_2nodes_8gpus_per_node__2023-11-30_698e09a1.json", &root);
    for (uint32_t k = 1; k <= 4; k++) {
        for (uint32_t flag = k == 4; flag < 2; flag++) {
            char key[64];
            (void)snprintf(key, sizeof key, "allreduce_size_%u_consec_%u", 1u << k, flag);
            hardware->all_reduce[0][k][flag] = 1 / number(&root, key);
        }
    }
    hardware->all_reduce[0][4][0] = hardware->all_reduce[0][4][1];
    json_free(document);
    document = load("galvatron2/hardware/hw__p2p_bandwidth_2nodes_8gpus_per_node__2023-11-30_698e09a1.json", &root);
    for (uint32_t k = 1; k <= 4; k++) {
        char key[64];
        (void)snprintf(key, sizeof key, "pp_size_%u", 1u << k);
        hardware->p2p[k] = 1 / number(&root, key);
    }
    json_free(document);
    document = load("galvatron2/hardware/hw__overlap_coefficient__2023-11-30_698e09a1.json", &root);
    hardware->overlap = number(&root, "overlap_coe");
    json_free(document);
}

static bool plan_agrees(const struct galvatron_source *source, const struct galvatron_plan *plan, const char *text,
                        char **fields, unsigned *tied)
{
    if (strcmp(text, fields[7]) == 0) {
        return true;
    }
    bool equal = golden_is_tied(source, plan, fields[7]);
    *tied += equal;
    printf("    %s %s B=%s: %s, golden %s: %s\n", fields[0], fields[1], fields[2], text, fields[7],
           equal ? "of equal cost" : "of another cost");
    return equal;
}

static void compare_row(char **fields, const struct galvatron_hardware_profile *hardware, unsigned *tied)
{
    struct galvatron_model_profile model;
    struct galvatron_preset preset;
    struct galvatron_source source;
    struct galvatron_request request;
    struct galvatron_result result;
    struct error error = { 0 };
    read_model(fields[1], &model);
    EXPECT_INT(galvatron_preset_init(&preset, GALVATRON_G2, &model, hardware, &error), STATUS_OK);
    galvatron_preset_source(&preset, &source);
    galvatron_request_init(&request, &source, GALVATRON_VARIANT_BASE);
    request.one_f_one_b = true;
    request.partition = GALVATRON_PARTITION_G2;
    request.tensor_max = request.pipeline_max = 8;
    request.budget_mib = atof(fields[0]) * 1024;
    request.reserve = strstr(fields[0], "no reserve") == NULL;
    request.batch_first = request.batch_max = (uint32_t)atoi(fields[2]);
    request.whole_batches = true;
    EXPECT_INT(galvatron_search(&request, &result, &error), STATUS_OK);
    EXPECT(result.found);
    if (result.found) {
        const struct galvatron_plan *plan = &result.best;
        char *text = galvatron_plan_text(plan);
        if (plan->pipeline != (uint32_t)atoi(fields[3]) || !(fabs(plan->step_s / atof(fields[4]) - 1) <= 1e-5) ||
            plan->stages[0].leftover_mib != atof(fields[6]) || !plan_agrees(&source, plan, text, fields, tied)) {
            TEST_FAIL_("%s %s B=%s: golden P=%s %s s left %s %s\n    got P=%u %.6f s left %.0f %s", fields[0],
                       fields[1], fields[2], fields[3], fields[4], fields[6], fields[7], plan->pipeline, plan->step_s,
                       plan->stages[0].leftover_mib, text);
        }
        free(text);
    }
    galvatron_result_free(&result);
    galvatron_preset_free(&preset);
}

static void test_release(void)
{
    FILE *file = golden_open("golden/galvatron2_release_recomputed_16gpu.csv");
    struct galvatron_hardware_profile hardware;
    char line[GOLDEN_LINE_BYTES], *fields[GOLDEN_FIELDS];
    unsigned rows = 0, tied = 0, failures = test_failures;
    read_hardware(&hardware);
    EXPECT(fgets(line, sizeof line, file) != NULL);
    while (fgets(line, sizeof line, file) != NULL) {
        EXPECT_INT(golden_split(line, fields), 8);
        compare_row(fields, &hardware, &tied);
        rows++;
    }
    (void)fclose(file);
    printf("  galvatron2_release_recomputed_16gpu: %u of %u rows agree, %u of them by a plan of equal cost\n",
           rows - (test_failures - failures), rows, tied);
    EXPECT(tied <= 2);
    EXPECT_INT(rows, ROWS);
}

TEST_MAIN(TEST(test_release))
