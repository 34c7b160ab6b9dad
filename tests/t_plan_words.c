/* plan_words: a plan in one sentence. */
#include <stdio.h>

#include "sim/plan/plan_words.h"
#include "sim/plan/scenario.h"
#include "tests/test.h"

static void says_with(const char *set, const char *parallel, const char *more, const char *expected)
{
    char text[1024];
    snprintf(text, sizeof text,
             "{ \"schema\": \"memwall.scenario/1\", \"model\": { \"family\": \"gpt\", \"layers\": 24, \"hidden\": 256, "
             "\"heads\": 8, \"vocab\": 1024, \"max_sequence\": 128 }, \"machine\": \"dgx-a100-80gb\", \"gpus\": 8, "
             "\"training\": { \"global_batch\": 32 }, \"parallel\": { %s }%s }",
             parallel, more);
    struct scenario scenario;
    struct error error = { 0 };
    struct strbuf words = { 0 };
    EXPECT_INT(scenario_parse(&scenario, text, "s.json", &set, set != NULL ? 1 : 0, &error), STATUS_OK);
    plan_words(&scenario.plan, &scenario.model, &words);
    EXPECT_TEXT(words.text, expected);
    strbuf_free(&words);
    scenario_free(&scenario);
}

static void says(const char *parallel, const char *more, const char *expected)
{
    says_with(NULL, parallel, more, expected);
}

static void degrees(void)
{
    says(
        "\"tensor\": 2, \"pipeline\": 2, \"pipeline_order\": \"interleaved\", \"virtual_stages\": 3, \"zero_stage\": 1",
        "",
        "inline, fp16, 32 samples a step: tensor 2, pipeline 2 x 3 chunks (interleaved), data 2 (ZeRO-1); 16 "
        "micro-batches of 1 in each replica; memory policy resident");
    says("\"tensor\": 8, \"sequence_parallel\": true", ", \"recompute\": \"full\"",
         "inline, fp16, 32 samples a step: tensor 8 (sequence parallel); 32 micro-batches of 1; recompute full; memory "
         "policy resident");
    says("\"data\": 8", ", \"memory_policy\": \"zero-offload\"",
         "inline, fp16, 32 samples a step: data 8; 4 micro-batches of 1 in each replica; memory policy zero-offload");
    says_with("training.layer_drop=0.25", "\"data\": 8", "",
              "inline, fp16, 32 samples a step: data 8; 4 micro-batches of 1 in each replica; 25 % of layers dropped; "
              "memory policy resident");
}

static void layers_that_differ(void)
{
    says("\"tensor\": 2, \"data\": 4, \"layers\": [{ \"layers\": 20, \"recompute\": \"selective\" }, { \"layers\": 4, "
         "\"tensor\": 8, \"recompute\": \"full\" }]",
         "",
         "inline, fp16, 32 samples a step: tensor 2, data 4, 4 of 24 layers otherwise; 8 micro-batches of 1 in each "
         "replica; recompute selective in 20 of 24 layers, full in 4 of 24 layers; memory policy resident");
    says("\"tensor\": 2, \"data\": 4, \"layers\": [{ \"layers\": 24, \"consecutive\": \"data\" }]", "",
         "inline, fp16, 32 samples a step: tensor 2, data 4, 24 of 24 layers otherwise; 8 micro-batches of 1 in each "
         "replica; memory policy resident");
    says("\"tensor\": 2, \"data\": 4, \"head\": { \"tensor\": 4, \"data\": 2 }, \"embedding\": { \"tensor\": 4, "
         "\"data\": 2 }",
         "",
         "inline, fp16, 32 samples a step: tensor 2, data 4, embedding or head otherwise; 8 micro-batches of 1 in each "
         "replica; memory policy resident");
}

static void replicas(void)
{
    says("\"pipeline\": 3, \"stage_replicas\": [4, 2, 2], \"pipeline_order\": \"pipedream\"",
         ", \"plan\": { \"stage_layers\": [8, 8, 8] }",
         "inline, fp16, 32 samples a step: pipeline 3 of 4, 2, 2 replicas, micro-batches dealt (pipedream); 32 "
         "micro-batches of 1; memory policy resident");
    says("\"stage_replicas\": [4, 2, 2], \"replica_sharing\": \"deal\", \"zero_stage\": 1",
         ", \"plan\": { \"stage_layers\": [8, 8, 8] }",
         "inline, fp16, 32 samples a step: pipeline 3 of 4, 2, 2 replicas (ZeRO-1), micro-batches dealt (1f1b); 32 "
         "micro-batches of 1; memory policy resident");
    says("\"stage_replicas\": [8], \"replica_sharing\": \"deal\"", "",
         "inline, fp16, 32 samples a step: 8 replicas, micro-batches dealt; 32 micro-batches of 1; memory policy "
         "resident");
}

TEST_MAIN(TEST(degrees), TEST(layers_that_differ), TEST(replicas))
