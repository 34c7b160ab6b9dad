/* Plans: JSON round trip, defaults, and every refusal of plan_check. */
#include "sim/plan/plan.h"

#include "tests/test.h"

static struct model model_named(const char *name)
{
    struct model model;
    struct error error = { 0 };
    if (model_load(&model, name, &error) != STATUS_OK) {
        printf("%s: %s\n", name, error.message);
        exit(1);
    }
    return model;
}

static enum status parse_plan(const char *text, const struct model *model, struct plan *plan, struct arena *arena,
                              struct error *error)
{
    struct json_document *document = NULL;
    struct json root;
    enum status status = json_parse(&document, text, strlen(text), "plan.json", error);
    if (status == STATUS_OK) {
        json_root(document, &root);
        status = plan_from_json(plan, model, &root, arena, error);
    }
    json_free(document);
    return status;
}

static void expect_round_trip(const char *text, const struct model *model)
{
    struct arena arena = { 0 };
    struct plan plan, again;
    struct error error = { 0 };
    struct strbuf first = { 0 }, second = { 0 };
    if (parse_plan(text, model, &plan, &arena, &error) != STATUS_OK) {
        TEST_FAIL_("%s: %s: %s", text, error.path, error.message);
        arena_free(&arena);
        return;
    }
    plan_print_json(&plan, model, &first);
    EXPECT_INT(parse_plan(first.text, model, &again, &arena, &error), STATUS_OK);
    plan_print_json(&again, model, &second);
    EXPECT_TEXT(second.text, first.text);
    struct hash a, b;
    EXPECT_INT(plan_hash(&plan, model, &a, &error), STATUS_OK);
    EXPECT_INT(plan_hash(&again, model, &b, &error), STATUS_OK);
    EXPECT(memcmp(&a, &b, sizeof a) == 0);
    again.zero_stage = 3;
    EXPECT_INT(plan_hash(&again, model, &b, &error), STATUS_OK);
    EXPECT(memcmp(&a, &b, sizeof a) != 0);
    strbuf_free(&first);
    strbuf_free(&second);
    arena_free(&arena);
}

static void test_round_trip(void)
{
    struct model model = model_named("gpt3-175b");
    expect_round_trip("{\"schema\":\"memwall.plan/1\"}", &model);
    expect_round_trip(
        "{\"schema\":\"memwall.plan/1\",\"parallel\":{\"tensor\":8,\"pipeline\":8,\"pipeline_order\":\"interleaved\","
        "\"virtual_stages\":3,\"sequence_parallel\":true,\"data\":2},\"training\":{\"global_batch\":128},"
        "\"recompute\":\"selective\",\"detail\":\"stage\",\"fold\":false}",
        &model);
    expect_round_trip(
        "{\"schema\":\"memwall.plan/1\",\"parallel\":{\"pipeline\":5,\"pipeline_order\":{\"name\":\"gpipe\","
        "\"backward_order\":\"fifo\"}},\"plan\":{\"stage_layers\":[18,20,20,20,18]}}",
        &model);
    struct model small = model_named("gpt2");
    expect_round_trip(
        "{\"schema\":\"memwall.plan/1\",\"recompute\":[\"none\",\"full\",\"none\",\"selective\",\"none\",\"none\","
        "\"none\",\"none\",\"full\",\"full\",\"none\",\"none\"]}",
        &small);
}

static void test_defaults(void)
{
    struct model model = model_named("gpt2");
    struct arena arena = { 0 };
    struct plan plan;
    struct error error = { 0 };
    EXPECT_INT(
        parse_plan("{\"schema\":\"memwall.plan/1\",\"parallel\":{\"pipeline\":3}}", &model, &plan, &arena, &error),
        STATUS_OK);
    EXPECT_INT(plan.sequence_length, 1024);
    EXPECT_INT(plan.micro_batch, 1);
    EXPECT_INT(plan.global_batch, 3);
    EXPECT_INT(plan.micro_batches, 3);
    EXPECT_INT(plan.precision, DTYPE_FP16);
    EXPECT_INT(plan.tensor, 1);
    EXPECT_INT(plan.data, 1);
    EXPECT_INT(plan.zero_stage, 0);
    EXPECT_INT(plan.virtual_stages, 1);
    EXPECT_TEXT(plan.order, "1f1b");
    EXPECT_TEXT(plan.policy, "resident");
    EXPECT(plan.fold);
    EXPECT_INT(plan.detail, DETAIL_LAYER);
    EXPECT_INT(plan_model_stages(&plan), 3);
    for (int i = 0; i < 3; i++) {
        EXPECT_INT(plan.stage_layers[i], 4);
    }
    for (int i = 0; i < 12; i++) {
        EXPECT_INT(plan.recompute[i], RECOMPUTE_NONE);
    }
    arena_free(&arena);
}

static void test_refusals(void)
{
    static const struct {
        const char *body, *path, *part;
    } cases[] = {
        { "\"parallel\":{\"tensor\":5}", "$.parallel.tensor",
          "tensor 5 does not divide the model's heads (12); the nearest that do are 4 and 6" },
        { "\"parallel\":{\"tensor\":24}", "$.parallel.tensor", "the nearest that does is 12" },
        { "\"parallel\":{\"context\":2}", "$.parallel.context", "allowed is 1" },
        { "\"parallel\":{\"expert\":2}", "$.parallel.expert", "gpt2 has no experts" },
        { "\"parallel\":{\"pipeline\":5}", "$.parallel.pipeline",
          "allowed pipelines here are 1, 2, 3, 4, 6, 12; or say the layers" },
        { "\"parallel\":{\"pipeline\":24}", "$.parallel.pipeline", "a stage without layers is not allowed" },
        { "\"parallel\":{\"pipeline\":2},\"plan\":{\"stage_layers\":[12,0]}", "$.plan.stage_layers[1]",
          "stage 1 has 0 layers" },
        { "\"parallel\":{\"pipeline\":2},\"plan\":{\"stage_layers\":[6,5]}", "$.plan.stage_layers",
          "hold 11 layers together, gpt2 has 12" },
        { "\"parallel\":{\"pipeline\":2},\"plan\":{\"stage_layers\":[12]}", "$.plan.stage_layers",
          "1 stages: pipeline 2 x virtual_stages 1 makes 2" },
        { "\"parallel\":{\"virtual_stages\":2}", "$.parallel.virtual_stages", "pipeline_order \"1f1b\" allows only 1" },
        { "\"parallel\":{\"pipeline\":4,\"pipeline_order\":\"interleaved\"},\"training\":{\"global_batch\":6}",
          "$.parallel.pipeline_order", "the nearest are 4 and 8" },
        { "\"parallel\":{\"pipeline_order\":\"1f2b\"}", "$.parallel.pipeline_order", "did you mean \"1f1b\"?" },
        { "\"parallel\":{\"pipeline_order\":{\"name\":\"gpipe\",\"backward\":1}}", "$.parallel.pipeline_order.backward",
          "" },
        { "\"parallel\":{\"pipeline_order\":3}", "$.parallel.pipeline_order", "expected a name, or an object" },
        { "\"memory_policy\":\"residant\"", "$.memory_policy", "did you mean \"resident\"?" },
        { "\"training\":{\"micro_batch\":4,\"global_batch\":6}", "$.training.global_batch", "the nearest are 4 and 8" },
        { "\"training\":{\"micro_batch\":4,\"global_batch\":2}", "$.training.global_batch", "the smallest is 4" },
        { "\"training\":{\"global_batch\":65535}", "$.training.global_batch", "allowed is 1 to 65534" },
        { "\"training\":{\"sequence_length\":2048}", "$.training.sequence_length",
          "learned positions for at most 1024" },
        { "\"training\":{\"sequence_length\":1023},\"parallel\":{\"tensor\":2,\"sequence_parallel\":true}",
          "$.training.sequence_length", "the nearest below is 1022" },
        { "\"recompute\":\"some\"", "$.recompute", "allowed are none, selective, full" },
        { "\"recompute\":[\"full\"]", "$.recompute", "1 modes for the 12 layers of gpt2" },
        { "\"recompute\":7", "$.recompute", "found a number" },
        { "\"plan\":{\"stages\":[12]}", "$.plan.stages", "stage_layers" },
        { "\"parallel\":{\"zero_stage\":4}", "$.parallel.zero_stage", "from 0 to 3" },
        { "\"detail\":\"fine\"", "$.detail", "layer" },
    };
    struct model model = model_named("gpt2");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct arena arena = { 0 };
        struct plan plan;
        struct error error = { 0 };
        char text[512];
        snprintf(text, sizeof text, "{\"schema\":\"memwall.plan/1\",\n%s}", cases[i].body);
        EXPECT_INT(parse_plan(text, &model, &plan, &arena, &error), STATUS_BAD_INPUT);
        EXPECT_TEXT(error.path, cases[i].path);
        EXPECT_PART(error.message, cases[i].part);
        EXPECT_TEXT(error.file, "plan.json");
        EXPECT_INT(error.line, 2);
        arena_free(&arena);
    }
}

static void test_vit_and_gqa(void)
{
    struct model vit = model_named("vit-huge"), llama = model_named("llama3-70b");
    struct arena arena = { 0 };
    struct plan plan;
    struct error error = { 0 };
    EXPECT_INT(parse_plan("{\"schema\":\"memwall.plan/1\"}", &vit, &plan, &arena, &error), STATUS_OK);
    EXPECT_INT(plan.sequence_length, vit.max_sequence);
    EXPECT_INT(parse_plan("{\"schema\":\"memwall.plan/1\",\"training\":{\"sequence_length\":128}}", &vit, &plan, &arena,
                          &error),
               STATUS_BAD_INPUT);
    EXPECT_PART(error.message, "sequences of exactly 257");
    /* 8 key/value heads: 16 devices hold each twice. */
    EXPECT_INT(
        parse_plan("{\"schema\":\"memwall.plan/1\",\"parallel\":{\"tensor\":16}}", &llama, &plan, &arena, &error),
        STATUS_OK);
    arena_free(&arena);
}

/* The checks stand by themselves for planners, and boundaries may still be open. */
static void test_check_without_stages(void)
{
    struct model model = model_named("gpt2");
    struct arena arena = { 0 };
    struct plan plan;
    struct error error = { 0 };
    EXPECT_INT(parse_plan("{\"schema\":\"memwall.plan/1\"}", &model, &plan, &arena, &error), STATUS_OK);
    plan.stage_layers = NULL;
    plan.pipeline = 5;
    EXPECT_INT(plan_check(&plan, &model, &error), STATUS_OK);
    plan.data = 0;
    EXPECT_INT(plan_check(&plan, &model, &error), STATUS_BAD_INPUT);
    EXPECT_TEXT(error.path, "$.parallel.data");
    plan.data = 1;
    plan.micro_batches = 7;
    EXPECT_INT(plan_check(&plan, &model, &error), STATUS_BAD_INPUT);
    arena_free(&arena);
}

TEST_MAIN(TEST(test_round_trip), TEST(test_defaults), TEST(test_refusals), TEST(test_vit_and_gqa),
          TEST(test_check_without_stages))
