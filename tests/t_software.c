/* Software models: the library loads, carries its sources, and its bytes per parameter are the published ones; overrides; bad input. */
#include "hw_models/software.h"

#include "sim/base/units.h"
#include "tests/test.h"

static enum status load_text(struct software *software, const char *text, struct error *error)
{
    struct json_document *document;
    struct json root;
    enum status status = json_parse(&document, text, strlen(text), "test.json", error);
    if (status != STATUS_OK) {
        return status;
    }
    json_root(document, &root);
    status = software_from_json(software, &root, error);
    json_free(document);
    return status;
}

static bool load(struct software *software, const char *name)
{
    struct error error = { 0 };
    char text[2048];
    if (software_load(software, name, &error) != STATUS_OK) {
        TEST_FAIL_("%s: %s", name, error_text(&error, text, sizeof text));
        return false;
    }
    return true;
}

static const char *const LIBRARY[] = {
    "deepspeed",      "galvatron",     "ideal",      "megatron",           "megatron-core",
    "megatron-flash", "pytorch-eager", "torchtitan", "torchtitan-compile", "torchtitan-compile-2025"
};

static void test_library(void)
{
    EXPECT_INT(software_library_count(), sizeof LIBRARY / sizeof LIBRARY[0]);
    for (uint32_t i = 0; i < software_library_count(); i++) {
        struct software software;
        EXPECT_TEXT(software_library_name(i), LIBRARY[i]);
        if (!load(&software, software_library_name(i))) {
            continue;
        }
        EXPECT_TEXT(software.name, LIBRARY[i]);
        for (uint32_t k = 0; k < software_field_count(); k++) {
            struct software_field_value value;
            char field[128];
            software_field_get(&software, k, &value);
            snprintf(field, sizeof field, "%s.%s", value.section, value.key);
            bool says_nothing = strcmp(value.section, "storage") == 0 && value.value <= 0;
            if (!says_nothing && software_source_of(&software, field) == NULL) {
                TEST_FAIL_("%s: no source for %s", software.name, field);
            }
        }
    }
}

/* 18 with fp32 gradients, 16 with fp16 ones (DeepSpeed memory.rst), 16 for FSDP2 with fp32 shards. */
static void test_bytes_per_parameter(void)
{
    struct software software;
    if (load(&software, "megatron")) {
        EXPECT_REAL(software_state_bytes(&software), 18.0, 0.0);
        EXPECT_INT(software.gradient_dtype, DTYPE_FP32);
        EXPECT(software.fused_kernels && !software.flash_attention);
        EXPECT_INT(software.vocab_multiple, 128);
        EXPECT_INT(software.allocator, ALLOCATOR_CACHING);
    }
    if (load(&software, "deepspeed")) {
        EXPECT_REAL(software_state_bytes(&software), 16.0, 0.0);
        EXPECT_REAL(software.bucket_bytes, 5e8 * 2, 0.0);
    }
    if (load(&software, "torchtitan")) {
        EXPECT_REAL(software_state_bytes(&software), 16.0, 0.0);
        EXPECT_REAL(software.gathered_bytes, 2.0, 0.0);
        EXPECT(software.flash_attention && !software.fused_kernels);
    }
    if (load(&software, "ideal")) {
        EXPECT_REAL(software_state_bytes(&software), 16.0, 0.0);
        EXPECT_REAL(software.launch_host_s + software.pass_host_s + software.step_host_s + software.context_bytes, 0.0,
                    0.0);
        EXPECT(software.overlap_tensor_parallel && software.overlap_pipeline && !software.runtime_memory);
    }
}

static void test_override(void)
{
    struct software software;
    struct error error = { 0 };
    EXPECT_INT(load_text(&software,
                         "{\"base\":\"megatron\",\"kernels\":{\"flash_attention\":true},\"host\":{\"launch_us\":4}}",
                         &error),
               STATUS_OK);
    EXPECT_TEXT(software.name, "megatron*");
    EXPECT(software.flash_attention && software.fused_kernels);
    EXPECT_REAL(software.launch_host_s, 4e-6, 1e-12);
    EXPECT_PART(software_source_of(&software, "host.launch_us")->source, "changed from megatron in test.json");
    EXPECT_PART(software_source_of(&software, "bytes_per_parameter.master")->source, "Megatron");
    EXPECT_INT(load_text(&software, "\"ideal\"", &error), STATUS_OK);
    EXPECT_TEXT(software.name, "ideal");
}

#define CHANGE(text) "{\"base\":\"megatron\"," text "}"
static const struct {
    const char *text, *part;
} BAD[] = {
    { "3", "expected a software stack (an object), found a number" },
    { "{}", "name" },
    { "\"megatrom\"", "did you mean \"megatron\"" },
    { "\"what\"", "no software model is called \"what\"" },
    { "{\"schema\":\"memwall.machine/1\"}", "expected a software stack (\"memwall.software/1\")" },
    { CHANGE("\"hosts\":{}"), "did you mean \"host\"" },
    { CHANGE("\"host\":{\"launch_ms\":1}"), "did you mean \"launch_us\"" },
    { CHANGE("\"host\":{\"launch_us\":-1}"), "$.host.launch_us" },
    { CHANGE("\"host\":{\"launch_us\":1e300}"), "$.host.launch_us" },
    { CHANGE("\"host\":{\"graphs\":1}"), "$.host.graphs" },
    { CHANGE("\"host\":{\"launch_ahead\":0.5}"), "$.host.launch_ahead" },
    { CHANGE("\"numbers\":{\"gradient_dtype\":\"fp64\"}"), "fp64" },
    { CHANGE("\"storage\":{\"queue_depth\":8}"), "storage.queue_depth 8 needs storage.block_KiB" },
    { CHANGE("\"numbers\":{\"gradient_dtype\":\"fp16\"}"),
      "bytes_per_parameter.gradient is 4, but numbers.gradient_dtype fp16 has 2" },
    { CHANGE("\"bytes_per_parameter\":{\"weight\":0}"), "must be above 0" },
    { CHANGE("\"bytes_per_parameter\":{\"moments\":65}"), "$.bytes_per_parameter.moments" },
    { CHANGE("\"memory\":{\"allocator\":\"buddy\"}"), "buddy" },
    { CHANGE("\"kernels\":{\"optimizer_launches\":0}"), "optimizer_launches must be at least 1" },
    { CHANGE("\"kernels\":null,\"memory\":7"), "$.memory" },
    { CHANGE("\"provenance\":[{\"source\":\"x\",\"fields\":[3]}]"), "$.provenance[0].fields[0]" },
    { CHANGE("\"name\":\"\""), "\"name\" must have 1 to 63 bytes" },
    { "{\"name\":\"x\",\"title\":\"y\"}", "host" },
};

static void test_bad_input(void)
{
    for (size_t i = 0; i < sizeof BAD / sizeof BAD[0]; i++) {
        struct software software;
        struct error error = { 0 };
        char text[4096];
        enum status status = load_text(&software, BAD[i].text, &error);
        error_text(&error, text, sizeof text);
        if (status != STATUS_BAD_INPUT && status != STATUS_NOT_FOUND) {
            TEST_FAIL_("accepted or wrong status %d: %s", (int)status, BAD[i].text);
        }
        if (strstr(text, BAD[i].part) == NULL) {
            TEST_FAIL_("%s\n    says \"%s\"\n    expected it to contain \"%s\"", BAD[i].text, text, BAD[i].part);
        }
    }
}

/* The expected greatest of n exponential delays is their mean times H(n); one's own mean is not waited for. */
static void test_collective_wait(void)
{
    struct software software = { .collective_host_s = 15e-6, .collective_jitter_s = 24e-6 };
    EXPECT_REAL(software_collective_wait_s(&software, 1), 0, 0);
    EXPECT_REAL(software_collective_wait_s(&software, 2), 12e-6, 1e-12);
    EXPECT_REAL(software_collective_wait_s(&software, 4), 24e-6 * (1.0 / 2 + 1.0 / 3 + 1.0 / 4), 1e-12);
    EXPECT_REAL(software_collective_host_s(&software, 2), 27e-6, 1e-12);
    double harmonic = 0;
    for (uint32_t n = 2; n <= 4096; n++) {
        harmonic += 1.0 / n;
        EXPECT_REAL(software_collective_wait_s(&software, n), 24e-6 * harmonic, 1e-4);
    }
    struct software ideal;
    struct error error = { 0 };
    EXPECT_INT(software_load(&ideal, "ideal", &error), STATUS_OK);
    EXPECT_REAL(software_collective_wait_s(&ideal, 4096), 0, 0);
}

TEST_MAIN(TEST(test_library), TEST(test_bytes_per_parameter), TEST(test_override), TEST(test_bad_input),
          TEST(test_collective_wait))
