/* Fuzz the scenario loader: valid scenarios mutated byte by byte and value by value. Whatever loads must be whole: its plan passes plan_check, prints and reads back to the same
 * text, its degrees multiply to the GPUs, its stages hold the model, its pipeline order can be built. Nothing may crash (run under ASan and UBSan), and a refusal says something. */
#include "sim/plan/order.h"
#include "sim/plan/plan_order.h"
#include "sim/plan/scenario.h"
#include "strategies/registry.h"
#include "tests/fuzz/fuzz.h"

static const char *const seeds[] = {
    "{\"model\":\"gpt2\",\"machine\":\"toy-2gpu\",\"training\":{\"global_batch\":2},\"parallel\":{\"pipeline\":2,"
    "\"pipeline_order\":{\"name\":\"steps\","
    "\"stages\":[\"F0 F1 B0 W0 B1 W1\",\"F0 B0 F1 B1 W0 W1\"]},\"gradient_barrier\":\"none\"}}",
    "{\"model\":\"gpt2\",\"machine\":\"toy-2gpu\",\"training\":{\"global_batch\":4},\"parallel\":{\"pipeline\":2,"
    "\"pipeline_order\":{\"name\":\"auto\","
    "\"forward\":[1,2],\"backward\":2,\"weight_gradient\":[1,1],\"limits\":3,\"hop\":0.5}}}",
    "{\"model\":\"gpt2\",\"machine\":\"toy-2gpu\",\"training\":{\"global_batch\":4},\"parallel\":{\"pipeline\":2,"
    "\"pipeline_order\":\"chimera\"}}",
    ("{\"schema\":\"memwall.scenario/"
     "1\",\"name\":\"n\",\"model\":\"gpt3-175b\",\"machine\":\"dgx-a100-80gb\",\"nodes\":8,\"gpus\":64,"
     "\"software\":\"megatron\",\"training\":{\"sequence_length\":2048,\"micro_batch\":1,\"global_batch\":64,"
     "\"precision\":\"fp16\","
     "\"optimizer\":\"adam\"},\"parallel\":{\"tensor\":8,\"sequence_parallel\":true,\"context\":1,\"expert\":1,"
     "\"pipeline\":8,"
     "\"pipeline_order\":\"interleaved\",\"virtual_stages\":3,\"data\":1,\"zero_stage\":0},\"recompute\":\"selective\","
     "\"memory_policy\":{\"name\":\"resident\"}}"),
    ("{\"model\":\"gpt2\",\"machine\":\"toy-2gpu\",\"nodes\":3,\"gpus\":6,\"parallel\":{\"pipeline\":3,\"pipeline_"
     "order\":"
     "{\"name\":\"gpipe\",\"backward_order\":\"fifo\"}},\"plan\":{\"stage_layers\":[3,5,4]},\"detail\":\"op\",\"fold\":"
     "false}"),
    ("{\"model\":{\"family\":\"gpt\",\"layers\":4,\"hidden\":64,\"heads\":4,\"ffn\":256,\"vocab\":1000,\"max_"
     "sequence\":"
     "128},"
     "\"machine\":{\"base\":\"toy-2gpu\"},\"software\":{\"base\":\"ideal\"},\"recompute\":[\"none\",\"full\","
     "\"selective\",\"none\"],"
     "\"parallel\":{\"tensor\":2,\"zero_stage\":1,\"pipeline_order\":{\"name\":\"1f1b\",\"in_flight_max\":2}}}"),
    ("{\"model\":\"llama-3-8b\",\"machine\":\"dgx-a100-80gb\",\"training\":{\"precision\":\"bf16\",\"global_batch\":16}"
     ","
     "\"parallel\":{\"tensor\":4,\"data\":2,\"zero_stage\":3}}"),
    ("{\"model\":\"llama-3-8b\",\"machine\":\"dgx-a100-80gb\",\"training\":{\"global_batch\":64,\"micro_batch\":2},"
     "\"parallel\":{\"layers\":[{\"layers\":12,\"tensor\":2,\"zero_stage\":3,\"recompute\":\"full\"},{\"layers\":20,"
     "\"data\":2,\"consecutive\":\"data\"}],\"embedding\":{\"tensor\":1},\"head\":{\"data\":8,\"zero_stage\":1}}}"),
    ("{\"model\":\"gpt2\",\"machine\":\"dgx1-v100-32gb\",\"gpus\":4,\"parallel\":{\"pipeline\":4},"
     "\"memory_policy\":\"mpress\",\"plan\":{\"stage_places\":[3,1,2,0],\"moves\":[{\"tensor\":\"activation\","
     "\"layers\":[0,1],\"to\":\"devices\",\"stripes\":[{\"stage\":2,\"share\":0.25},{\"stage\":3}],\"lag\":3,"
     "\"lead\":4,\"when\":\"w\",\"over\":\"o\",\"why\":\"y\"},{\"tensor\":\"activation\",\"layers\":[2,2],\"to\":"
     "\"recompute\"},{\"tensor\":\"optimizer\",\"layers\":\"head\",\"to\":\"cpu\"}]}}"),
};
enum { SEED_COUNT = sizeof seeds / sizeof seeds[0], TEXT_MAX = 4096, STEPS_MAX = 1 << 16 };

static const char *const tokens[] = {
    "0",
    "-1",
    "1",
    "2",
    "3",
    "4",
    "6",
    "8",
    "12",
    "16",
    "64",
    "1e300",
    "0.5",
    "65535",
    "1048576",
    "9223372036854775808",
    "null",
    "true",
    "false",
    "\"\"",
    "{}",
    "[]",
    "[1,2]",
    "\"full\"",
    "\"gpt2\"",
    "\"toy-2gpu\"",
    "\"gpipe\"",
    "\"1f1b\"",
    "\"fp8\"",
    "\"vit-huge\"",
    "\"dapple-pb\"",
    "\"interleaved\"",
};

/* Replace text[at .. end) by `token`, if it fits. */
static void splice(char *text, size_t at, size_t end, const char *token)
{
    size_t length = strlen(text), token_length = strlen(token);
    if (at + token_length + (length - end) + 1 <= TEXT_MAX) {
        memmove(text + at + token_length, text + end, length - end + 1);
        memcpy(text + at, token, token_length);
    }
}

/* Replace the value after a random colon by a random token. */
static void mutate_value(char *text, uint64_t *random)
{
    size_t colons = 0, at = 0;
    for (size_t i = 0; text[i] != '\0'; i++) {
        colons += text[i] == ':';
    }
    if (colons == 0) {
        return;
    }
    for (size_t pick = test_below(random, colons);; at++) {
        if (text[at] == ':' && pick-- == 0) {
            break;
        }
    }
    size_t end = at + 1 + strcspn(text + at + 1, ",}");
    splice(text, at + 1, end, tokens[test_below(random, sizeof tokens / sizeof tokens[0])]);
}

static void mutate_bytes(char *text, uint64_t *random)
{
    size_t length = strlen(text);
    if (length < 2) {
        return;
    }
    size_t at = test_below(random, length), other = test_below(random, length);
    switch (test_below(random, 4)) {
    case 0: text[at] = (char)(1 + test_below(random, 255)); break;
    case 1: splice(text, at, at + 1, ""); break;
    case 2: text[at] = text[other]; break;
    default: text[at] = '\0'; break;
    }
}

static void check_orders(const struct scenario *scenario)
{
    static struct order_step steps[STEPS_MAX];
    const struct plan *plan = &scenario->plan;
    struct error error = { 0 };
    const struct pipeline_order *order = plan_order(plan, &error);
    const struct order_request request = plan_order_request(plan);
    EXPECT(order != NULL);
    if (order == NULL || order_step_count(order, &request) > STEPS_MAX) {
        return;
    }
    EXPECT_INT(order_check(order, &request, &error), STATUS_OK);
    for (uint32_t s = 0; s < request.stages; s += 1 + request.stages / 8) {
        uint32_t count;
        EXPECT_INT(order_steps(order, &request, s, steps, &count, &error), STATUS_OK);
    }
}

static void check_plan(const struct scenario *scenario)
{
    const struct plan *plan = &scenario->plan;
    struct arena arena = { 0 };
    struct plan again;
    struct error error = { 0 };
    struct strbuf first = { 0 }, second = { 0 };
    struct json_document *document = NULL;
    struct json root;
    int64_t layers = 0;
    EXPECT_INT(plan_check(plan, &scenario->model, &error), STATUS_OK);
    EXPECT_INT(plan->tensor * plan->context * plan->pipeline * plan->data, scenario->cluster.gpus);
    EXPECT_INT(plan->micro_batches * plan->data * plan->micro_batch, plan->global_batch);
    for (int64_t i = 0; i < plan_model_stages(plan); i++) {
        layers += plan->stage_layers[i];
    }
    EXPECT_INT(layers, scenario->model.layers);
    plan_print_json(plan, &scenario->model, &first);
    EXPECT_INT(json_parse(&document, first.text, first.length, "plan", &error), STATUS_OK);
    json_root(document, &root);
    EXPECT_INT(plan_from_json(&again, &scenario->model, &root, &arena, &error), STATUS_OK);
    plan_print_json(&again, &scenario->model, &second);
    EXPECT_TEXT(second.text, first.text);
    json_free(document);
    strbuf_free(&first);
    strbuf_free(&second);
    arena_free(&arena);
}

static unsigned loaded;

static void round_of(uint64_t seed)
{
    static char text[TEXT_MAX];
    static struct scenario scenario;
    struct json_document *document = NULL;
    struct error error = { 0 };
    uint64_t random = seed;
    snprintf(text, sizeof text, "%s", seeds[test_below(&random, SEED_COUNT)]);
    for (uint64_t n = test_below(&random, 4); n > 0; n--) {
        if (test_below(&random, 4) > 0) {
            mutate_value(text, &random);
        } else {
            mutate_bytes(text, &random);
        }
    }
    enum status status = json_parse(&document, text, strlen(text), "fuzz.json", &error);
    if (status == STATUS_OK) {
        struct json root;
        json_root(document, &root);
        status = scenario_from_json(&scenario, &root, &error);
    }
    json_free(document);
    if (status == STATUS_OK) {
        loaded++;
        check_plan(&scenario);
        check_orders(&scenario);
        scenario_free(&scenario);
    } else {
        EXPECT(error.message[0] != '\0' && error.status == status);
    }
    if (test_failures != 0) {
        printf("%s\n", text);
    }
}

int main(int argc, char **argv)
{
    int result = fuzz_run(round_of, argc, argv);
    printf("%u scenarios loaded\n", loaded);
    return result;
}
