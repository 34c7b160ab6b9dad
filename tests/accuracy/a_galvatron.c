/* The first Galvatron's search and layer costs against the golden files (shared data, read only here), and the plans its authors shipped.
 *
 *   golden/v1_search_8gpu.csv    256 rows: 8 models x 8 spaces x 4 budgets; throughput to 1e-5, batch, degree, partition, plan and leftovers exactly
 *   golden/v1_layer_costs.csv    44 rows, as printed (MiB to 1e-4, s to 1e-9)
 *   galvatron1/..._8G_full.json, ..._12G_full.json    four plans of the authors, layer by layer
 *
 * Every stage of every best plan is searched once more by the plain dynamic programme (the unrestricted twin): same time, same strategies. */
#include "sim/base/json.h"
#include "strategies/planners/galvatron_cost.h"
#include "strategies/planners/galvatron_internal.h"
#include "galvatron_golden.h"
#include <ctype.h>

static const char *lower(const char *name)
{
    static char text[64];
    size_t i = 0;
    for (; name[i] != '\0' && i + 1 < sizeof text; i++) {
        text[i] = (char)tolower((unsigned char)name[i]);
    }
    text[i] = '\0';
    return text;
}

struct setup {
    struct galvatron_model_profile model;
    struct galvatron_hardware_profile hardware;
    struct galvatron_preset preset;
    struct galvatron_source source;
};

static void setup(struct setup *setup, const char *model)
{
    struct error error = { 0 };
    galvatron_table_titan(&setup->hardware);
    EXPECT_INT(galvatron_table_model(model, &setup->model, &error), STATUS_OK);
    EXPECT_INT(galvatron_preset_init(&setup->preset, GALVATRON_V1, &setup->model, &setup->hardware, &error), STATUS_OK);
    galvatron_preset_source(&setup->preset, &setup->source);
}

static void test_layer_costs(void)
{
    FILE *file = golden_open("golden/v1_layer_costs.csv");
    char line[GOLDEN_LINE_BYTES], *fields[GOLDEN_FIELDS];
    unsigned rows = 0;
    EXPECT(fgets(line, sizeof line, file) != NULL);
    while (fgets(line, sizeof line, file) != NULL) {
        struct setup s;
        struct error error = { 0 };
        struct galvatron_strategy strategy;
        struct galvatron_layer_cost cost;
        EXPECT_INT(golden_split(line, fields), 5);
        setup(&s, lower(fields[0]));
        EXPECT_INT(galvatron_strategy_parse(fields[2], &strategy, &error), STATUS_OK);
        const struct galvatron_setting setting = { 8, strategy.pipeline, atof(fields[1]), 1, false, false, false };
        s.source.layer(s.source.context, 0, &strategy, &setting, &cost);
        double mib = atof(fields[3]), time_s = atof(fields[4]);
        if (!(fabs(cost.state_mib + cost.activation_mib - mib) <= 0.5001e-4) ||
            !(fabs(cost.search_s - time_s) <= 0.5001e-9)) {
            TEST_FAIL_("%s B=%s %s: %.6f MiB %.9f s, golden %.4f %.9f", fields[0], fields[1], fields[2],
                       cost.state_mib + cost.activation_mib, cost.search_s, mib, time_s);
        }
        rows++;
        galvatron_preset_free(&s.preset);
    }
    (void)fclose(file);
    EXPECT_INT(rows, 44);
}

static enum galvatron_space space_of(const char *name)
{
    enum galvatron_space space = GALVATRON_SPACE_FULL;
    struct error error = { 0 };
    EXPECT_INT(galvatron_space_find(strncmp(name, "3D", 2) == 0 ? "3d" : lower(name), &space, &error), STATUS_OK);
    return space;
}

static void join(char *text, size_t size, const struct galvatron_plan *plan, bool leftover)
{
    size_t used = 0;
    text[0] = '\0';
    for (uint32_t i = 0; i < plan->pipeline; i++) {
        double value = leftover ? plan->stages[i].leftover_mib : plan->stages[i].layers;
        used += (size_t)snprintf(text + used, size - used, "%s%.0f", i > 0 ? "," : "", value);
    }
}

/* One row against its search; false when anything differs. */
static bool row_agrees(const struct galvatron_source *source, char **fields, const struct galvatron_result *result,
                       unsigned *tied)
{
    if (strcmp(fields[3], "OOM") == 0 || !result->found) {
        return !result->found && strcmp(fields[3], "OOM") == 0;
    }
    const struct galvatron_plan *plan = &result->best;
    char partition[256], leftover[256], *text = galvatron_plan_text(plan);
    join(partition, sizeof partition, plan, false);
    join(leftover, sizeof leftover, plan, true);
    double speed = atof(fields[3]), largest = atof(fields[10]);
    bool agrees = fabs(plan->samples_per_s / speed - 1) <= 1e-5 && plan->batch == atof(fields[4]) &&
                  plan->pipeline == (uint32_t)atoi(fields[6]) && strcmp(partition, fields[7]) == 0 &&
                  strcmp(leftover, fields[8]) == 0 && result->largest_batch == largest;
    if (agrees && strcmp(text, fields[9]) != 0) {
        agrees = golden_is_tied(source, plan, fields[9]);
        *tied += agrees;
        printf("    %s %s %s GB: %s, golden %s: %s\n", fields[0], fields[1], fields[2], text, fields[9],
               agrees ? "of equal cost" : "of another cost");
    }
    if (!agrees) {
        printf("    got %.6f B=%g P=%u [%s] left [%s] %s, largest %g\n", plan->samples_per_s, plan->batch,
               plan->pipeline, partition, leftover, text, result->largest_batch);
    }
    free(text);
    return agrees;
}

/* The stages of a plan through the plain dynamic programme. */
static void check_twin(const struct galvatron_request *request, const struct galvatron_plan *plan)
{
    const struct galvatron_source *source = request->source;
    struct error error = { 0 };
    struct galvatron_case c = { .setting = { source->gpus, plan->pipeline, plan->batch, 1, false, false, false } };
    const struct galvatron_space_limits limits = { .gpus = source->gpus, .space = request->space };
    c.strategy_count = galvatron_strategies(&limits, plan->pipeline, c.strategies);
    EXPECT_INT(galvatron_case_init(&c, source, (int64_t)request->budget_mib, &error), STATUS_OK);
    uint32_t mib[GALVATRON_KINDS_MAX * GALVATRON_STRATEGIES_MAX];
    for (uint32_t i = 0; i < source->kind_count * c.strategy_count; i++) {
        mib[i] = galvatron_layer_mib(&c.costs[i], 1);
    }
    for (uint32_t i = 0, first = 0; i < plan->pipeline; first += plan->stages[i++].layers) {
        uint8_t choice[GOLDEN_LAYERS];
        struct galvatron_dp_answer answer = { .choice = choice };
        const struct galvatron_dp dp = { plan->stages[i].layers,
                                         source->kind_count,
                                         c.strategy_count,
                                         source->kinds + first,
                                         mib,
                                         c.search_s,
                                         c.change_search_s,
                                         c.budget_mib - (int64_t)ceil(c.stage_other_mib[i]) };
        EXPECT_INT(galvatron_dp_plain(&dp, &answer, &error), STATUS_OK);
        EXPECT_REAL(answer.cost_s, plan->stages[i].full_s, 1e-12);
        for (uint32_t l = 0; l < dp.layer_count; l++) {
            EXPECT(galvatron_strategy_equal(&c.strategies[choice[l]], &plan->layers[first + l]));
        }
    }
    galvatron_case_free(&c);
}

static void test_search(void)
{
    FILE *file = golden_open("golden/v1_search_8gpu.csv");
    char line[GOLDEN_LINE_BYTES], *fields[GOLDEN_FIELDS];
    unsigned rows = 0, agreed = 0, tied = 0;
    EXPECT(fgets(line, sizeof line, file) != NULL);
    while (fgets(line, sizeof line, file) != NULL) {
        struct setup s;
        struct error error = { 0 };
        struct galvatron_request request;
        struct galvatron_result result;
        EXPECT(golden_split(line, fields) >= 4);
        setup(&s, lower(fields[0]));
        galvatron_request_init(&request, &s.source, GALVATRON_VARIANT_V1);
        request.space = space_of(fields[1]);
        request.budget_mib = atof(fields[2]) * 1024;
        EXPECT_INT(galvatron_search(&request, &result, &error), STATUS_OK);
        rows++;
        if (result.found) {
            check_twin(&request, &result.best);
        }
        if (row_agrees(&s.source, fields, &result, &tied)) {
            agreed++;
        } else {
            TEST_FAIL_("%s %s %s GB: golden %s B=%s P=%s [%s] left [%s] %s", fields[0], fields[1], fields[2], fields[3],
                       fields[4], fields[6], fields[7], fields[8], fields[9]);
        }
        galvatron_result_free(&result);
        galvatron_preset_free(&s.preset);
    }
    (void)fclose(file);
    printf("  v1_search_8gpu: %u of %u rows agree, %u of them by a plan of equal cost\n", agreed, rows, tied);
    EXPECT(tied <= 1);
    EXPECT_INT(rows, 256);
}

/* "1,2,..." of a shipped file. */
static uint32_t list_at(const char *list, uint32_t index)
{
    for (; index > 0; index--) {
        list = strchr(list, ',');
        EXPECT(list != NULL);
        list++;
    }
    return (uint32_t)atoi(list);
}

static void compare_shipped(const char *name, const struct galvatron_plan *plan)
{
    struct error error = { 0 };
    struct json_document *document = NULL;
    struct json root;
    const char *tensor = NULL, *flags = NULL, *types = NULL;
    int64_t pipeline = 0, batch = 0;
    EXPECT_INT(json_load(&document, golden_path(name), JSON_BYTES_MAX, &error), STATUS_OK);
    json_root(document, &root);
    EXPECT_INT(json_int(&root, "pp_deg", 1, 8, &pipeline, &error), STATUS_OK);
    EXPECT_INT(json_int(&root, "global_bsz", 1, 1 << 20, &batch, &error), STATUS_OK);
    EXPECT_INT(json_string(&root, "tp_sizes_enc", &tensor, &error), STATUS_OK);
    EXPECT_INT(json_string(&root, "tp_consecutive_flags", &flags, &error), STATUS_OK);
    EXPECT_INT(json_string(&root, "dp_types_enc", &types, &error), STATUS_OK);
    EXPECT_INT(plan->pipeline, pipeline);
    EXPECT_INT((int64_t)plan->batch, batch);
    for (uint32_t l = 0; l < plan->layer_count; l++) {
        EXPECT_INT(plan->layers[l].tensor, list_at(tensor, l));
        EXPECT_INT(plan->layers[l].tensor_consecutive, list_at(flags, l));
        EXPECT_INT(plan->layers[l].sharded, list_at(types, l));
    }
    if (json_has(&root, "pp_division")) {
        const char *division = NULL;
        EXPECT_INT(json_string(&root, "pp_division", &division, &error), STATUS_OK);
        for (uint32_t i = 0; i < plan->pipeline; i++) {
            EXPECT_INT(plan->stages[i].layers, list_at(division, i));
        }
    }
    json_free(document);
}

static void test_shipped(void)
{
    static const struct {
        const char *model, *file;
        double gib;
    } PLANS[] = {
        { "bert-huge-32", "galvatron1/bert__galvatron_config_8gpus_1280hidden_32layers_8G_full.json", 8 },
        { "bert-huge-32", "galvatron1/bert__galvatron_config_8gpus_1280hidden_32layers_12G_full.json", 12 },
        { "swin-huge-32", "galvatron1/swin__galvatron_config_8gpus_320embeddim_2_2_26_2_layers_8G_full.json", 8 },
        { "swin-huge-32", "galvatron1/swin__galvatron_config_8gpus_320embeddim_2_2_26_2_layers_12G_full.json", 12 },
    };
    for (size_t i = 0; i < sizeof PLANS / sizeof *PLANS; i++) {
        struct setup s;
        struct error error = { 0 };
        struct galvatron_request request;
        struct galvatron_result result;
        setup(&s, PLANS[i].model);
        galvatron_request_init(&request, &s.source, GALVATRON_VARIANT_V1);
        request.budget_mib = PLANS[i].gib * 1024;
        EXPECT_INT(galvatron_search(&request, &result, &error), STATUS_OK);
        EXPECT(result.found);
        if (result.found) {
            compare_shipped(PLANS[i].file, &result.best);
        }
        galvatron_result_free(&result);
        galvatron_preset_free(&s.preset);
    }
}

TEST_MAIN(TEST(test_layer_costs), TEST(test_search), TEST(test_shipped))
