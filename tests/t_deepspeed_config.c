/* DeepSpeed's configuration as a scenario: what each key becomes, the batch triple, what is refused and with what hint, and that every other key is named. */
#include "sim/plan/deepspeed_config.h"
#include "sim/plan/scenario.h"
#include "tests/test.h"

struct read_config {
    struct deepspeed_reading reading;
    struct scenario scenario;
    struct error error;
    bool is_read;
};

static void read_as(struct read_config *out, const char *config, int64_t gpus, int64_t model_parallel)
{
    struct json_document *document = NULL;
    struct json root;
    const struct deepspeed_request request = { "gpt2-medium", "dgx-a100-40gb", gpus, model_parallel };
    memset(out, 0, sizeof *out);
    if (json_parse(&document, config, strlen(config), "ds_config.json", &out->error) != STATUS_OK) {
        TEST_FAIL_("%s: %s", config, out->error.message);
        return;
    }
    json_root(document, &root);
    out->is_read = deepspeed_read(&out->reading, &root, &request, &out->error) == STATUS_OK;
    json_free(document);
    if (out->is_read && model_parallel == 1) {
        enum status status = scenario_parse(&out->scenario, out->reading.scenario.text, "made", NULL, 0, &out->error);
        EXPECT_TEXT(out->error.message, "");
        EXPECT_INT(status, STATUS_OK);
    }
}

static void finish(struct read_config *out)
{
    if (out->is_read) {
        scenario_free(&out->scenario);
    }
    deepspeed_reading_free(&out->reading);
}

/* The whole file but the keys in question. */
#define CONFIG(more) "{\"train_micro_batch_size_per_gpu\": 2, \"fp16\": {\"enabled\": true}" more "}"
#define ZERO(inside) CONFIG(", \"zero_optimization\": {" inside "}")

static double parameter(const struct read_config *c, const char *name)
{
    struct json_document *document = NULL;
    struct json root, policy, at;
    double value = NAN;
    struct error error = { 0 };
    EXPECT_INT(json_parse(&document, c->reading.scenario.text, c->reading.scenario.length, "made", &error), STATUS_OK);
    json_root(document, &root);
    if (json_object(&root, "memory_policy", &policy, &error) == STATUS_OK &&
        json_any(&policy, name, &at, &error) == STATUS_OK) {
        bool flag;
        if (json_type(&at) == JSON_BOOL && json_as_bool(&at, &flag, &error) == STATUS_OK) {
            value = flag ? 1 : 0;
        } else {
            EXPECT_INT(json_as_real(&at, -1e18, 1e18, &value, &error), STATUS_OK);
        }
    }
    json_free(document);
    return value;
}

static bool ignores(const struct read_config *c, const char *path)
{
    for (size_t i = 0; i < c->reading.ignored.count; i++) {
        if (strcmp(c->reading.ignored.items[i].path, path) == 0) {
            return true;
        }
    }
    return false;
}

/* ---- what keys become ---- */

static void test_plain(void)
{
    struct read_config c;
    read_as(&c, CONFIG(""), 4, 1);
    EXPECT_INT(c.scenario.plan.zero_stage, 0);
    EXPECT_INT(c.scenario.plan.micro_batch, 2);
    EXPECT_INT(c.scenario.plan.global_batch, 8);
    EXPECT_INT(c.scenario.plan.precision, DTYPE_FP16);
    EXPECT_INT(c.scenario.plan.recompute[0], RECOMPUTE_NONE);
    EXPECT_TEXT(c.scenario.plan.policy, "resident");
    EXPECT_TEXT(c.scenario.software.name, "deepspeed*"); /* the library one, changed */
    EXPECT_INT(c.reading.ignored.count, 0);
    finish(&c);
    read_as(
        &c,
        "{\"train_batch_size\": 8, \"bf16\": {\"enabled\": true}, \"activation_checkpointing\": {\"profile\": false}}",
        4, 1);
    EXPECT_INT(c.scenario.plan.precision, DTYPE_BF16);
    EXPECT_INT(c.scenario.plan.recompute[0], RECOMPUTE_FULL);
    EXPECT(ignores(&c, "$.activation_checkpointing.profile"));
    finish(&c);
    read_as(&c, "{\"train_batch_size\": 8}", 4, 1);
    EXPECT_INT(c.scenario.plan.precision, DTYPE_FP32);
    EXPECT_REAL(c.scenario.software.weight_bytes, 4, 0);
    EXPECT_REAL(c.scenario.software.master_bytes, 0, 0);
    finish(&c);
}

static void test_zero(void)
{
    struct read_config c;
    read_as(&c, ZERO("\"stage\": 2, \"reduce_bucket_size\": 200000000, \"overlap_comm\": true"), 4, 1);
    EXPECT_INT(c.scenario.plan.zero_stage, 2);
    EXPECT_TEXT(c.scenario.plan.policy, "resident");
    EXPECT_REAL(c.scenario.software.bucket_bytes, 400e6, 0);
    EXPECT_INT(c.scenario.software.overlap_gradient_reduce, true);
    finish(&c);
    read_as(&c, ZERO("\"stage\": 2"), 4, 1); /* overlap_comm is on by default in stage 3 alone */
    EXPECT_INT(c.scenario.software.overlap_gradient_reduce, false);
    EXPECT_REAL(c.scenario.software.bucket_bytes, 1e9, 0);
    finish(&c);
    read_as(&c, ZERO("\"stage\": 3"), 4, 1);
    EXPECT_INT(c.scenario.software.overlap_gradient_reduce, true);
    EXPECT_TEXT(c.scenario.plan.policy, "resident");
    finish(&c);
}

static void test_offload(void)
{
    struct read_config c;
    read_as(&c,
            ZERO("\"stage\": 2, \"offload_optimizer\": {\"device\": \"cpu\", \"pin_memory\": true},"
                 " \"reduce_bucket_size\": 300000000"),
            4, 1);
    EXPECT_TEXT(c.scenario.plan.policy, "zero-offload");
    EXPECT_REAL(parameter(&c, "bucket_elements"), 3e8, 0);
    EXPECT_REAL(parameter(&c, "pinned_states"), 1, 0);
    EXPECT_REAL(parameter(&c, "overlap_gradients"), 0, 0);
    EXPECT_REAL(parameter(&c, "checkpoints_on_host"), 0, 0);
    finish(&c);
    read_as(
        &c,
        CONFIG(", \"activation_checkpointing\": {\"cpu_checkpointing\": true}, \"zero_optimization\": {\"stage\": 1,"
               " \"offload_optimizer\": {\"device\": \"cpu\"}}"),
        4, 1);
    EXPECT_REAL(parameter(&c, "checkpoints_on_host"), 1, 0);
    EXPECT_INT(c.scenario.plan.zero_stage, 1);
    EXPECT_INT(c.reading.ignored.count, 0);
    finish(&c);
    read_as(&c, ZERO("\"stage\": 2, \"cpu_offload\": true"), 4, 1);
    EXPECT_TEXT(c.scenario.plan.policy, "zero-offload");
    finish(&c);
    read_as(&c, ZERO("\"stage\": 2, \"offload_optimizer\": {\"device\": \"none\"}"), 4, 1);
    EXPECT_TEXT(c.scenario.plan.policy, "resident");
    finish(&c);
    read_as(&c, ZERO("\"stage\": 3, \"offload_optimizer\": {\"device\": \"cpu\", \"ratio\": 0.3}"), 4, 1);
    EXPECT_TEXT(c.scenario.plan.policy, "zero3-offload");
    EXPECT_REAL(parameter(&c, "cpu_ratio"), 0.3, 0);
    finish(&c);
}

static void test_infinity(void)
{
    struct read_config c;
    read_as(&c, ZERO("\"stage\": 3}, \"aio\": {\"queue_depth\": 4, \"thread_count\": 2, \"block_size\": 65536"), 4, 1);
    EXPECT_INT(c.scenario.software.storage_queue_depth, 8);
    EXPECT_REAL(c.scenario.software.storage_block_bytes, 65536, 0);
    EXPECT_INT(c.reading.ignored.count, 0);
    finish(&c);
    read_as(&c, ZERO("\"stage\": 3, \"cpu_offload\": true, \"cpu_offload_params\": true"), 4, 1); /* keys of 2021 */
    EXPECT_TEXT(c.scenario.plan.policy, "zero3-offload");
    EXPECT_PART(c.reading.scenario.text, "\"parameters_on\": \"host\"");
    EXPECT_REAL(parameter(&c, "pinned_weights"), 0, 0);
    EXPECT_INT(c.reading.ignored.count, 0);
    finish(&c);
    read_as(&c, ZERO("\"stage\": 3, \"cpu_offload\": true, \"cpu_offload_use_pin_memory\": true"), 4, 1);
    EXPECT_PART(c.reading.scenario.text, "\"parameters_on\": \"device\"");
    EXPECT_REAL(parameter(&c, "pinned_gradients"), 1, 0);
    finish(&c);
    read_as(&c,
            ZERO("\"stage\": 3, \"offload_optimizer\": {\"device\": \"cpu\"}, \"offload_param\": {\"device\": \"cpu\"},"
                 " \"stage3_prefetch_bucket_size\": 6, \"stage3_param_persistence_threshold\": 7,"
                 " \"stage3_max_live_parameters\": 8, \"max_reuse_distance\": 9, \"sub_group_size\": 10"),
            4, 1);
    EXPECT_TEXT(c.scenario.plan.policy, "zero3-offload");
    EXPECT_REAL(parameter(&c, "pinned_weights"), 0, 0); /* DeepSpeed's default */
    EXPECT_REAL(parameter(&c, "pinned_gradients"), 0, 0);
    EXPECT_REAL(parameter(&c, "prefetch_elements"), 6, 0);
    EXPECT_REAL(parameter(&c, "persistence_threshold"), 7, 0);
    EXPECT_REAL(parameter(&c, "max_live_parameters"), 8, 0);
    EXPECT_REAL(parameter(&c, "max_reuse_distance"), 9, 0);
    EXPECT_REAL(parameter(&c, "sub_group_elements"), 10, 0);
    finish(&c);
    read_as(&c,
            ZERO("\"stage\": 3, \"offload_optimizer\": {\"device\": \"nvme\", \"nvme_path\": \"/x\", \"pipeline_read\":"
                 " true}, \"offload_param\": {\"device\": \"nvme\", \"buffer_count\": 6, \"buffer_size\": 7000,"
                 " \"pin_memory\": true}"),
            4, 1);
    EXPECT_TEXT(c.scenario.plan.policy, "zero-infinity");
    EXPECT_REAL(parameter(&c, "pinned_weights"), 1, 0);
    EXPECT_REAL(parameter(&c, "buffer_count"), 6, 0);
    EXPECT_REAL(parameter(&c, "buffer_elements"), 7000, 0);
    EXPECT_REAL(parameter(&c, "pipeline_read"), 1, 0);
    EXPECT_REAL(parameter(&c, "pipeline_write"), 0, 0);
    EXPECT_INT(c.scenario.software.storage_queue_depth, 8);
    EXPECT_REAL(parameter(&c, "prefetch_elements"), 5e7, 0); /* DeepSpeed's defaults */
    EXPECT_REAL(parameter(&c, "persistence_threshold"), 1e5, 0);
    EXPECT_REAL(parameter(&c, "max_live_parameters"), 1e9, 0);
    EXPECT(ignores(&c, "$.zero_optimization.offload_optimizer.nvme_path"));
    EXPECT_INT(c.reading.ignored.count, 1);
    finish(&c);
}

/* Every key that is not read is named, once, at the highest object that says nothing. */
static void test_ignored(void)
{
    struct read_config c;
    read_as(
        &c,
        CONFIG(
            ", \"_comment\": \"x\", \"steps_per_print\": 10, \"scheduler\": {\"type\": \"WarmupLR\", \"params\": {}},"
            " \"optimizer\": {\"type\": \"AdamW\", \"params\": {\"lr\": \"auto\"}},"
            " \"zero_optimization\": {\"stage\": 1, \"allgather_bucket_size\": \"auto\","
            " \"stage3_prefetch_bucket_size\": \"auto\"}, \"flops_profiler\": {\"enabled\": true}"),
        4, 1);
    EXPECT_INT(c.reading.ignored.count, 6);
    EXPECT(ignores(&c, "$.steps_per_print"));
    EXPECT(ignores(&c, "$.scheduler"));
    EXPECT(ignores(&c, "$.optimizer.params"));
    EXPECT(ignores(&c, "$.zero_optimization.allgather_bucket_size"));
    EXPECT(ignores(&c, "$.zero_optimization.stage3_prefetch_bucket_size")); /* of stage 3 with offload alone */
    EXPECT(ignores(&c, "$.flops_profiler"));
    finish(&c);
}

/* ---- batches ---- */

static void test_batches(void)
{
    static const struct {
        const char *keys;
        int64_t micro, global, steps;
    } cases[] = {
        { "\"train_batch_size\": 64, \"train_micro_batch_size_per_gpu\": 4, \"gradient_accumulation_steps\": 4", 4, 64,
          4 },
        { "\"train_batch_size\": 64, \"train_micro_batch_size_per_gpu\": 4", 4, 64, 4 },
        { "\"train_batch_size\": 64, \"gradient_accumulation_steps\": 2", 8, 64, 2 },
        { "\"train_micro_batch_size_per_gpu\": 4, \"gradient_accumulation_steps\": 3", 4, 48, 3 },
        { "\"train_batch_size\": 64", 16, 64, 1 },
        { "\"train_micro_batch_size_per_gpu\": 5", 5, 20, 1 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[256];
        struct read_config c;
        snprintf(text, sizeof text, "{%s, \"fp16\": {\"enabled\": true}}", cases[i].keys);
        read_as(&c, text, 4, 1);
        EXPECT_INT(c.scenario.plan.micro_batch, cases[i].micro);
        EXPECT_INT(c.scenario.plan.global_batch, cases[i].global);
        EXPECT_INT(c.scenario.plan.micro_batches, cases[i].steps);
        finish(&c);
    }
    struct read_config c; /* eight GPUs in pairs are four data-parallel ranks */
    read_as(&c, "{\"train_batch_size\": 64, \"gradient_accumulation_steps\": 2, \"fp16\": {\"enabled\": true}}", 8, 2);
    EXPECT_PART(c.reading.scenario.text, "\"micro_batch\": 8");
    deepspeed_reading_free(&c.reading);
}

/* ---- refusals ---- */

static void expect_refused(const char *config, const char *path, const char *part)
{
    struct read_config c;
    read_as(&c, config, 4, 1);
    EXPECT(!c.is_read);
    EXPECT_TEXT(c.error.path, path);
    EXPECT_PART(c.error.message, part);
    EXPECT(c.reading.scenario.text == NULL);
    if (c.is_read) {
        printf("  %s\n", config);
        finish(&c);
    }
}

static void test_refused(void)
{
    expect_refused("{}", "$", "train_batch_size or train_micro_batch_size_per_gpu");
    expect_refused("{\"gradient_accumulation_steps\": 2}", "$", "train_batch_size");
    expect_refused(
        "{\"train_batch_size\": 64, \"train_micro_batch_size_per_gpu\": 4, \"gradient_accumulation_steps\": 3}", "$",
        "64 is not train_micro_batch_size_per_gpu 4 x gradient_accumulation_steps 3 x data-parallel GPUs 4 = 48");
    expect_refused("{\"train_batch_size\": 30}", "$", "30 is not");
    expect_refused("{\"train_batch_size\": 2}", "$", "2 is not"); /* less than a sample each */
    expect_refused("{\"train_batch_size\": 0}", "$.train_batch_size", "1");
    expect_refused("{\"train_batch_size\": \"auto\"}", "$.train_batch_size", "write the global batch");
    expect_refused("{\"train_batch_size\": \"many\"}", "$.train_batch_size", "string");
    expect_refused("{\"train_batch_size\": 8, \"fp16\": {\"enabled\": \"auto\"}}", "$.fp16.enabled", "--fp16");
    expect_refused("{\"train_batch_size\": 8, \"fp16\": {\"enabled\": true}, \"bf16\": {\"enabled\": true}}", "$",
                   "both");
    expect_refused(CONFIG(", \"optimizer\": {\"type\": \"Lamb\"}"), "$.optimizer.type", "Adam and AdamW");
    expect_refused(ZERO("\"stage\": 4"), "$.zero_optimization.stage", "3");
    expect_refused(ZERO("\"stage\": 2, \"reduce_bucket_size\": \"auto\""), "$.zero_optimization.reduce_bucket_size",
                   "hidden x hidden");
    expect_refused(ZERO("\"stage\": 0, \"offload_optimizer\": {\"device\": \"cpu\"}"), "$.zero_optimization",
                   "stage 1, 2 or 3");
    expect_refused(ZERO("\"stage\": 2, \"offload_optimizer\": {\"device\": \"nvme\"}"), "$.zero_optimization",
                   "nvme needs stage 3");
    expect_refused(ZERO("\"stage\": 2, \"offload_param\": {\"device\": \"cpu\"}"), "$.zero_optimization",
                   "offload_param needs stage 3");
    expect_refused(ZERO("\"stage\": 3, \"offload_param\": {\"device\": \"cpu\"}"), "$.zero_optimization",
                   "offload_optimizer.device");
    expect_refused(ZERO("\"stage\": 2, \"offload_optimizer\": {\"device\": \"cpu\", \"ratio\": 0.5}"),
                   "$.zero_optimization", "stage 3");
    expect_refused(ZERO("\"stage\": 2, \"offload_optimizer\": {\"device\": \"gpu\"}"),
                   "$.zero_optimization.offload_optimizer.device", "cpu");
    expect_refused("[]", "$", "an object");
}

TEST_MAIN(TEST(test_plain), TEST(test_zero), TEST(test_offload), TEST(test_infinity), TEST(test_ignored),
          TEST(test_batches), TEST(test_refused))
