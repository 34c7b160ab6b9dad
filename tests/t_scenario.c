/* Scenario files: the keys of DESIGN.md section 6, defaults, --set, notes, and where refusals point. */
#include "sim/plan/scenario.h"

#include <unistd.h>

#include "sim/plan/order.h"
#include "tests/test.h"

static const char GPT3[] = "{ \"schema\": \"memwall.scenario/1\", \"name\": \"GPT-3 175B on eight DGX A100\",\n"
                           "  \"model\": \"gpt3-175b\", \"machine\": \"dgx-a100-80gb\", \"nodes\": 8, \"gpus\": 64, "
                           "\"software\": \"megatron\",\n"
                           "  \"training\": { \"sequence_length\": 2048, \"micro_batch\": 1, \"global_batch\": 64, "
                           "\"precision\": \"fp16\", \"optimizer\": \"adam\" },\n"
                           "  \"parallel\": { \"tensor\": 8, \"sequence_parallel\": true, \"context\": 1, \"expert\": "
                           "1, \"pipeline\": 8, \"pipeline_order\": \"interleaved\",\n"
                           "                \"virtual_stages\": 3, \"data\": 1, \"zero_stage\": 0 },\n"
                           "  \"recompute\": \"selective\",\n"
                           "  \"memory_policy\": { \"name\": \"resident\" } }";

static enum status parse(struct scenario *scenario, const char *text, struct error *error)
{
    struct json_document *document = NULL;
    struct json root;
    enum status status = json_parse(&document, text, strlen(text), "folder/s.json", error);
    if (status == STATUS_OK) {
        json_root(document, &root);
        status = scenario_from_json(scenario, &root, error);
    }
    json_free(document);
    return status;
}

/* What must load; a test that goes on without would read what is not there. */
static void must_parse(struct scenario *scenario, const char *text)
{
    struct error error = { 0 };
    char message[1600];
    if (parse(scenario, text, &error) != STATUS_OK) {
        printf("%s\n%s\n", text, error_text(&error, message, sizeof message));
        exit(1);
    }
}

static void test_design_example(void)
{
    struct scenario scenario;
    must_parse(&scenario, GPT3);
    EXPECT_TEXT(scenario.name, "GPT-3 175B on eight DGX A100");
    EXPECT_TEXT(scenario.model.name, "gpt3-175b");
    EXPECT_TEXT(scenario.software.name, "megatron");
    EXPECT_INT(scenario.cluster.gpus, 64);
    EXPECT_INT(scenario.cluster.nodes, 8);
    EXPECT(scenario.cluster.machine == &scenario.machine);
    const struct plan *plan = &scenario.plan;
    EXPECT_INT(plan->tensor, 8);
    EXPECT_INT(plan->pipeline, 8);
    EXPECT_INT(plan->virtual_stages, 3);
    EXPECT_INT(plan->data, 1);
    EXPECT_INT(plan->micro_batches, 64);
    EXPECT(plan->sequence_parallel);
    EXPECT_TEXT(plan->order, "interleaved");
    EXPECT_TEXT(plan->policy, "resident");
    for (int i = 0; i < 24; i++) {
        EXPECT_INT(plan->stage_layers[i], 4);
    }
    for (int i = 0; i < 96; i++) {
        EXPECT_INT(plan->recompute[i], RECOMPUTE_SELECTIVE);
    }
    EXPECT_TEXT(scenario.notes, "");
    scenario_free(&scenario);
    scenario_free(&scenario); /* twice is fine */
}

static void test_defaults(void)
{
    struct scenario scenario;
    must_parse(&scenario, "{\"model\":\"gpt2\",\"machine\":\"dgx-a100-80gb\"}");
    EXPECT_TEXT(scenario.name, "s.json");
    EXPECT_TEXT(scenario.software.name, "megatron");
    EXPECT_INT(scenario.cluster.gpus, 8);
    EXPECT_INT(scenario.plan.data, 8);
    EXPECT_INT(scenario.plan.tensor, 1);
    EXPECT_INT(scenario.plan.global_batch, 8);
    EXPECT_INT(scenario.plan.sequence_length, 1024);
    scenario_free(&scenario);
    must_parse(&scenario, "{\"model\":\"gpt2\",\"machine\":\"dgx-a100-80gb\",\"nodes\":4,\"gpus\":24,\"parallel\":{"
                          "\"tensor\":2,\"pipeline\":3}}");
    EXPECT_INT(scenario.plan.data, 4);
    EXPECT_PART(scenario.notes, "gpus 24 of 4 nodes: 1 nodes stay idle\n");
    scenario_free(&scenario);
}

static void test_inline_objects(void)
{
    static const char text[] = "{\"model\":{\"family\":\"gpt\",\"layers\":24,\"hidden\":1024,\"heads\":16,\"ffn\":4096,"
                               "\"vocab\":50257,\"max_sequence\":1024},"
                               "\"machine\":{\"base\":\"dgx-a100-80gb\"},\"gpus\":4,\"software\":{\"base\":\"ideal\"},"
                               "\"_comment\":\"any text\"}";
    struct scenario scenario;
    must_parse(&scenario, text);
    EXPECT_INT(scenario.model.layers, 24);
    EXPECT_INT(scenario.plan.data, 4);
    scenario_free(&scenario);
}

static void test_notes(void)
{
    struct scenario scenario;
    must_parse(&scenario,
               "{\"model\":\"gpt2\",\"machine\":\"dgx-a100-80gb\",\"gpus\":4,\"training\":{\"global_batch\":2},"
               "\"parallel\":{\"pipeline\":4,\"sequence_parallel\":true,\"zero_stage\":2}}");
    EXPECT_TEXT(scenario.notes, "parallel.sequence_parallel changes nothing with tensor 1\n"
                                "2 micro-batches do not fill 4 pipeline stages\n"
                                "parallel.zero_stage 2 shards nothing with data 1\n");
    scenario_free(&scenario);
    must_parse(&scenario,
               "{\"model\":\"gpt3-175b\",\"machine\":\"dgx-a100-80gb\",\"nodes\":2,\"parallel\":{\"tensor\":16,"
               "\"pipeline_order\":\"interleaved\"}}");
    EXPECT_PART(scenario.notes, "tensor 16 spans servers of 8 GPUs");
    EXPECT_PART(scenario.notes, "is dapple-pb, not 1f1b");
    scenario_free(&scenario);
}

/* --set through a real file. */
static void test_load_and_set(void)
{
    char file[] = "/tmp/memwall_t_scenario_XXXXXX";
    int handle = mkstemp(file);
    EXPECT(handle >= 0 && write(handle, GPT3, strlen(GPT3)) == (ssize_t)strlen(GPT3) && close(handle) == 0);
    struct scenario scenario;
    struct error error = { 0 };
    static const char *const sets[] = { "parallel.tensor=4", "parallel.data=2", "recompute=full",
                                        "memory_policy.name=resident" };
    if (scenario_load(&scenario, file, sets, 4, &error) != STATUS_OK) {
        printf("%s\n", error.message);
        exit(1);
    }
    EXPECT_INT(scenario.plan.tensor, 4);
    EXPECT_INT(scenario.plan.data, 2);
    EXPECT_INT(scenario.plan.micro_batches, 32);
    EXPECT_INT(scenario.plan.recompute[95], RECOMPUTE_FULL);
    scenario_free(&scenario);

    static const struct {
        const char *set, *part;
    } cases[] = {
        { "parallel.tensor", "expected PATH=VALUE" },
        { "=4", "expected PATH=VALUE" },
        { "parallel.tensro=4", "tensor" },
        { "parallel.tensor=0", "from 1" },
        { "parallel.tensor=4", "data 2 would do" },
        { "parallel.tensor=5", "does not divide the number of gpus, 64" },
        { "model=gpt3-175", "gpt3-175b" },
        { "schema=memwall.scenario/2", "this one reads \"memwall.scenario/1\"" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        EXPECT(scenario_load(&scenario, file, &cases[i].set, 1, &error) != STATUS_OK);
        EXPECT_PART(error.message, cases[i].part);
    }
    unlink(file);
    EXPECT(scenario_load(&scenario, file, NULL, 0, &error) != STATUS_OK);
    EXPECT_TEXT(error.file, file);
}

/* Every listed key exists: each is accepted by a scenario that holds it. */
static void test_keys_are_listed_once(void)
{
    uint32_t count;
    const struct scenario_key *keys = scenario_keys(&count);
    EXPECT(count > 20);
    for (uint32_t i = 0; i < count; i++) {
        EXPECT(keys[i].type[0] != '\0' && keys[i].help[0] != '\0' && keys[i].fallback[0] != '\0');
        for (uint32_t k = 0; k < i; k++) {
            EXPECT(strcmp(keys[i].path, keys[k].path) != 0);
        }
    }
}

static void test_precision_of_the_gpu(void)
{
    struct scenario scenario;
    struct error error = { 0 };
    EXPECT_INT(parse(&scenario,
                     "{\"model\":\"gpt2\",\"machine\":\"dgx-a100-80gb\",\"training\":{\"precision\":\"fp8\"}}", &error),
               STATUS_BAD_INPUT);
    EXPECT_PART(error.message, "does not compute in fp8: allowed are ");
    EXPECT_TEXT(error.path, "$.training.precision");
}

/* Where loaders of parts do not know where their value stands, the scenario says it. */
static void test_places(void)
{
    struct scenario scenario;
    struct error error = { 0 };
    EXPECT(
        parse(&scenario,
              "{\"model\":\"gpt2\",\"machine\":{\"base\":\"toy-2gpu\",\"parts\":[{\"id\":\"cpu0\",\"kind\":\"cpu_"
              "socket\",\"cores\":10},"
              "{\"id\":\"dram0\",\"kind\":\"host_dram\",\"capacity_GiB\":128},{\"id\":\"gpu[0-1]\",\"kind\":\"gpu\"}],"
              "\"links\":[{\"kind\":\"ddr\",\"a\":\"cpu0\",\"b\":\"dram0\",\"GBps\":100},"
              "{\"kind\":\"pcie\",\"a\":\"cpu0\",\"b\":\"gpu[0-1]\",\"lanes\":16,\"GBps\":10}]},\n\n\"nodes\":2}",
              &error) != STATUS_OK);
    EXPECT_TEXT(error.file, "folder/s.json");
    EXPECT_TEXT(error.path, "$.nodes");
    EXPECT_INT(error.line, 3);
    EXPECT_PART(error.message, "no nic on the compute fabric");
    EXPECT(parse(&scenario, "{\"model\":\"gpt2\",\n\"machine\":\"dgx-a100-80gb\",\n\"gpus\":9}", &error) != STATUS_OK);
    EXPECT_TEXT(error.path, "$.gpus");
    EXPECT_PART(error.message, "9 GPUs, but 1 x dgx-a100-80gb hold 8");
    EXPECT(parse(&scenario, "{\"machine\":\"dgx-a100-80gb\"}", &error) != STATUS_OK);
    EXPECT_PART(error.message, "missing key \"model\"");
    EXPECT(parse(&scenario, "{\"model\":\"gpt2\",\"machine\":\"dgx-a100-80gb\",\"modle\":1}", &error) != STATUS_OK);
    EXPECT_PART(error.message, "model");
}

TEST_MAIN(TEST(test_design_example), TEST(test_defaults), TEST(test_inline_objects), TEST(test_notes),
          TEST(test_load_and_set), TEST(test_keys_are_listed_once), TEST(test_precision_of_the_gpu), TEST(test_places))
