/* Fuzz the reader of DeepSpeed's configuration: valid files mutated value by value and byte by byte. Nothing may crash (run under ASan and UBSan); a refusal says something; what is read is
 * a scenario that loads, or is refused with words; its batches multiply to the triple. */
#include "sim/plan/deepspeed_config.h"
#include "sim/plan/scenario.h"
#include "tests/fuzz/fuzz.h"

static const char *const seeds[] = {
    "{\"train_batch_size\":64,\"train_micro_batch_size_per_gpu\":4,\"gradient_accumulation_steps\":8,"
    "\"fp16\":{\"enabled\":true,\"loss_scale\":0},\"optimizer\":{\"type\":\"AdamW\",\"params\":{\"lr\":\"auto\"}},"
    "\"zero_optimization\":{\"stage\":2,\"offload_optimizer\":{\"device\":\"cpu\",\"pin_memory\":true},"
    "\"reduce_bucket_size\":500000000,\"overlap_comm\":true,\"cpu_offload\":false}}",
    "{\"train_micro_batch_size_per_gpu\":1,\"bf16\":{\"enabled\":true},\"activation_checkpointing\":{\"profile\":false}"
    ","
    "\"zero_optimization\":{\"stage\":3,\"offload_optimizer\":{\"device\":\"nvme\",\"pipeline_read\":true,\"ratio\":1},"
    "\"offload_param\":{\"device\":\"nvme\",\"buffer_count\":5,\"buffer_size\":100000000},"
    "\"stage3_prefetch_bucket_size\":50000000,\"stage3_param_persistence_threshold\":100000,"
    "\"stage3_max_live_parameters\":1000000000,\"max_reuse_distance\":1000000000,\"sub_group_size\":1000000000}}",
    "{\"train_batch_size\":8,\"zero_optimization\":{\"stage\":1}}",
};
static const char *const tokens[] = {
    "0",   "-1",       "1",       "2",        "3",        "4",        "64",    "0.5",
    "1e9", "1e15",     "1e18",    "1e300",    "null",     "true",     "false", "{}",
    "[]",  "\"auto\"", "\"cpu\"", "\"nvme\"", "\"none\"", "\"Adam\"", "\"\"",  "2147483648",
};
enum { SEED_COUNT = sizeof seeds / sizeof seeds[0], TOKEN_COUNT = sizeof tokens / sizeof tokens[0], TEXT_MAX = 4096 };

static void splice(char *text, size_t at, size_t end, const char *token)
{
    size_t length = strlen(text), token_length = strlen(token);
    if (at + token_length + (length - end) + 1 <= TEXT_MAX) {
        memmove(text + at + token_length, text + end, length - end + 1);
        memcpy(text + at, token, token_length);
    }
}

/* The value after a random colon, or a random byte, becomes something else. */
static void mutate(char *text, uint64_t *random)
{
    size_t length = strlen(text), at = length > 0 ? test_below(random, length) : 0;
    if (length < 2) {
        return;
    }
    if (test_below(random, 4) == 0) {
        text[at] = (char)(1 + test_below(random, 255));
        return;
    }
    while (at < length && text[at] != ':') {
        at++;
    }
    if (at < length) {
        splice(text, at + 1, at + 1 + strcspn(text + at + 1, ",}"), tokens[test_below(random, TOKEN_COUNT)]);
    }
}

static void check_scenario(const struct deepspeed_reading *reading, const struct deepspeed_request *request)
{
    struct scenario scenario;
    struct error error = { 0 };
    if (scenario_parse(&scenario, reading->scenario.text, "made", NULL, 0, &error) != STATUS_OK) {
        EXPECT(error.message[0] != '\0');
        EXPECT(error.path[0] != '\0' && strcmp(error.path, "$") != 0); /* of a key, never of the text */
        return;
    }
    const struct plan *plan = &scenario.plan;
    EXPECT_INT(plan->global_batch, plan->micro_batch * plan->micro_batches * plan->data);
    EXPECT_INT(plan->data, request->gpus);
    scenario_free(&scenario);
}

static void round_of(uint64_t seed)
{
    uint64_t random = seed;
    char text[TEXT_MAX];
    struct error error = { 0 };
    struct json_document *document = NULL;
    struct json root;
    struct deepspeed_reading reading;
    snprintf(text, sizeof text, "%s", seeds[test_below(&random, SEED_COUNT)]);
    for (uint64_t i = test_below(&random, 5); i > 0; i--) {
        mutate(text, &random);
    }
    const struct deepspeed_request request = { "gpt2", "toy-2gpu", 1 + (int64_t)test_below(&random, 2), 1 };
    if (json_parse(&document, text, strlen(text), "fuzz", &error) != STATUS_OK) {
        EXPECT(error.message[0] != '\0');
        return;
    }
    json_root(document, &root);
    if (deepspeed_read(&reading, &root, &request, &error) == STATUS_OK) {
        check_scenario(&reading, &request);
        deepspeed_reading_free(&reading);
    } else {
        EXPECT(error.message[0] != '\0');
        EXPECT(reading.scenario.text == NULL && reading.ignored.items == NULL);
    }
    json_free(document);
    if (test_failures != 0) {
        printf("%s\n", text);
    }
}

int main(int argc, char **argv)
{
    return fuzz_run(round_of, argc, argv);
}
