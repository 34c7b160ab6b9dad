/* Plans between Galvatron's files and ours: random ones there and back, and what either side has no word for. */
#include "sim/plan/plan_layers.h"
#include "strategies/planners/galvatron_exchange.h"
#include "strategies/planners/galvatron_planner_internal.h"
#include "tests/test.h"

enum { LAYERS = 32, GPUS = 8, ROUNDS = 300 };

static void load(struct scenario *scenario, const char *const *sets, uint32_t count)
{
    struct error error = { 0 };
    if (scenario_parse(scenario, "{\"model\":\"bert-huge-32\",\"machine\":\"titan-rtx-8-galvatron\"}", "test", sets,
                       count, &error) != STATUS_OK) {
        TEST_FAIL_("scenario: %s", error.message);
        exit(1);
    }
}

/* Any plan that Galvatron could have found. */
static void generate(uint64_t *seed, struct galvatron_plan *plan, struct galvatron_strategy *layers,
                     struct galvatron_stage *stages)
{
    uint32_t pipeline = 1u << (test_random(seed) % 4), group = GPUS / pipeline, left = LAYERS, degrees = 1;
    *plan = (struct galvatron_plan){ .pipeline = pipeline,
                                     .micro_batches = 1 + (uint32_t)(test_random(seed) % 4),
                                     .layer_count = LAYERS,
                                     .one_f_one_b = pipeline == 1 || test_random(seed) % 2 == 0,
                                     .stages = stages,
                                     .layers = layers };
    plan->batch = group * plan->micro_batches * (1 + (double)(test_random(seed) % 3));
    for (uint32_t d = group; d > 1; d /= 2) {
        degrees++;
    }
    for (uint32_t i = 0; i < pipeline; i++) {
        uint32_t after = pipeline - 1 - i;
        stages[i].layers = after == 0 ? left : 1 + (uint32_t)(test_random(seed) % (left - after));
        left -= stages[i].layers;
    }
    for (uint32_t i = 0; i < LAYERS; i++) {
        uint32_t tensor = 1u << (test_random(seed) % degrees), data = group / tensor;
        bool both = tensor > 1 && data > 1;
        layers[i] = i > 0 && test_random(seed) % 4 != 0
                        ? layers[i - 1]
                        : (struct galvatron_strategy){ .pipeline = pipeline,
                                                       .tensor = tensor,
                                                       .data = data,
                                                       .tensor_consecutive = !both || test_random(seed) % 2 == 0,
                                                       .sharded = data > 1 && test_random(seed) % 2 == 0,
                                                       .recompute = test_random(seed) % 2 == 0 };
    }
}

static bool there_and_back(const struct scenario *scenario, const struct plan *plan, struct plan *again,
                           struct arena *arena, struct error *error)
{
    struct galvatron_plan_file ours, theirs;
    struct strbuf text = { 0 };
    struct json_document *document = NULL;
    struct json root;
    bool fine = galvatron_export_plan(scenario, plan, &ours, arena, error) == STATUS_OK;
    if (fine) {
        galvatron_plan_file_write(&ours, &text);
        fine = json_parse(&document, text.text, text.length, "written", error) == STATUS_OK;
    }
    if (fine) {
        json_root(document, &root);
        fine = galvatron_plan_file_read(&theirs, &root, GPUS, LAYERS, arena, error) == STATUS_OK &&
               galvatron_import_plan(scenario, &theirs, again, arena, error) == STATUS_OK;
    }
    json_free(document);
    strbuf_free(&text);
    return fine;
}

static void test_there_and_back(void)
{
    uint64_t seed = test_seed;
    struct scenario scenario;
    unsigned mixed = 0, refused = 0;
    load(&scenario, NULL, 0);
    for (int round = 0; round < ROUNDS; round++) {
        struct galvatron_strategy layers[LAYERS];
        struct galvatron_stage stages[GPUS];
        struct galvatron_plan found;
        struct plan plan, again;
        struct arena arena = { 0 };
        struct error error = { 0 };
        struct hash mine = { 0 }, theirs = { 0 };
        char why[256];
        bool possible;
        generate(&seed, &found, layers, stages);
        int64_t plain_zero = test_random(&seed) % 2 == 0 ? 0 : 2;
        EXPECT_INT(galvatron_to_plan(&scenario, &found, plain_zero, &plan, &possible, why, sizeof why, &arena, &error),
                   STATUS_OK);
        refused += !possible;
        if (possible && !there_and_back(&scenario, &plan, &again, &arena, &error)) {
            TEST_FAIL_("round %d: %s", round, error.message);
        } else if (possible) {
            EXPECT_INT(plan_hash(&plan, &scenario.model, &mine, &error), STATUS_OK);
            EXPECT_INT(plan_hash(&again, &scenario.model, &theirs, &error), STATUS_OK);
            for (int64_t i = 0; i < LAYERS; i++) {
                struct plan_layer a = plan_layer_of(&plan, &scenario.model, LAYER_TRANSFORMER, i),
                                  b = plan_layer_of(&again, &scenario.model, LAYER_TRANSFORMER, i);
                EXPECT(plan_layer_equal(&a, &b));
                EXPECT_INT(again.recompute[i], plan.recompute[i]);
            }
            for (enum layer_kind kind = LAYER_EMBEDDING; kind <= LAYER_HEAD; kind++) {
                struct plan_layer a = plan_layer_of(&plan, &scenario.model, kind, 0),
                                  b = plan_layer_of(&again, &scenario.model, kind, 0);
                EXPECT(plan_layer_equal(&a, &b));
            }
            EXPECT_INT(again.micro_batches, plan.micro_batches);
            EXPECT_TEXT(again.order, plan.order);
            mixed += plan.layers != NULL;
        }
        arena_free(&arena);
    }
    printf("  %d plans, %u of them with layers split differently; %u cannot be ours\n", ROUNDS, mixed, refused);
    EXPECT(mixed >= ROUNDS / 4);
    EXPECT(refused < ROUNDS / 2);
    scenario_free(&scenario);
}

/* Two stages, six GPUs and two. */
static const char *const UNEVEN[] = { "parallel.stage_replicas=[6,2]", "training.micro_batch=6",
                                      "training.global_batch=24" };
enum { UNEVEN_COUNT = sizeof UNEVEN / sizeof UNEVEN[0] };

static void expect_refused(const char *const *sets, uint32_t count, const char *part)
{
    struct scenario scenario;
    struct galvatron_plan_file file;
    struct arena arena = { 0 };
    struct error error = { 0 };
    load(&scenario, sets, count);
    EXPECT_INT(galvatron_export_plan(&scenario, &scenario.plan, &file, &arena, &error), STATUS_UNSUPPORTED);
    EXPECT_PART(error.message, part);
    arena_free(&arena);
    scenario_free(&scenario);
}

static void test_no_word_for(void)
{
    const char *const selective[] = { "recompute=selective" };
    const char *const zero1[] = { "parallel.zero_stage=1" };
    const char *const chunks[] = { "parallel.pipeline=2", "parallel.pipeline_order=interleaved",
                                   "parallel.virtual_stages=2", "training.global_batch=32" };
    const char *const order[] = { "parallel.pipeline=2", "parallel.pipeline_order=zb-h1", "training.global_batch=32" };
    const char *const policy[] = { "memory_policy=optimizer-on-host" };
    expect_refused(selective, 1, "layer 0 is recomputed selectively");
    expect_refused(zero1, 1, "layer 0 is ZeRO-1");
    expect_refused(chunks, 4, "several chunks on a device");
    expect_refused(order, 3, "pipeline orders other than gpipe and 1f1b");
    expect_refused(policy, 1, "memory policies");
    const char *const places[] = { "parallel.pipeline=2", "plan.stage_places=[1,0]", "training.global_batch=32" };
    const char *const barrier[] = { "parallel.pipeline=2", "parallel.gradient_barrier=before",
                                    "training.global_batch=32" };
    const char *const own[] = { "parallel.pipeline_order={\"name\":\"steps\",\"stages\":[\"F0 F1 B0 B1\"]}",
                                "training.micro_batch=1", "training.global_batch=16" };
    expect_refused(UNEVEN, UNEVEN_COUNT, "stages with replicas of their own");
    expect_refused(places, 3, "stages that are not in the order of their devices");
    expect_refused(barrier, 3, "gradient barriers");
    expect_refused(own, 3, "pipeline orders other than gpipe and 1f1b");
}

/* A plan of theirs brings its own stages: what the scenario says of its own was for others. */
static void expect_own_stages(const char *const *sets, uint32_t count)
{
    struct scenario scenario;
    struct galvatron_strategy layers[LAYERS];
    struct galvatron_stage stages[GPUS];
    struct galvatron_plan found;
    struct plan plan;
    struct arena arena = { 0 };
    struct error error = { 0 };
    uint64_t seed = test_seed;
    char why[256] = "";
    bool possible;
    load(&scenario, sets, count);
    EXPECT(scenario.plan.stage_places != NULL || scenario.plan.stage_replicas != NULL);
    do {
        generate(&seed, &found, layers, stages);
    } while (found.pipeline != GPUS);
    EXPECT_INT(galvatron_to_plan(&scenario, &found, 0, &plan, &possible, why, sizeof why, &arena, &error), STATUS_OK);
    EXPECT_TEXT(why, "");
    EXPECT(possible && plan.stage_places == NULL && plan.stage_replicas == NULL);
    arena_free(&arena);
    scenario_free(&scenario);
}

static void test_stages_of_the_scenario(void)
{
    const char *const places[] = { "parallel.pipeline=2", "plan.stage_places=[1,0]", "training.global_batch=32" };
    expect_own_stages(places, 3);
    expect_own_stages(UNEVEN, UNEVEN_COUNT);
}

TEST_MAIN(TEST(test_there_and_back), TEST(test_no_word_for), TEST(test_stages_of_the_scenario))
