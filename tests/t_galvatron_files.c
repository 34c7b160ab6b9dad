/* Galvatron's files: every file of the data folder round trip, what they say against figures of facts/galvatron-bmw.md, and what is refused. */
#include "strategies/planners/galvatron_files.h"

#include <glob.h>

#include "sim/base/file.h"
#include "tests/test.h"

static unsigned files_seen;

static bool same_bytes(const char *text, size_t length, const char *wanted)
{
    return length == strlen(wanted) && memcmp(text, wanted, length) == 0;
}

/* Equal documents but for the spelling of numbers (0.500 against 0.5): both through the same printer. */
static void expect_same_values(const char *a, size_t a_length, const char *b, size_t b_length, const char *path)
{
    struct json_document *first = NULL, *second = NULL;
    struct json root;
    struct strbuf one = { 0 }, two = { 0 };
    struct error error = { 0 };
    EXPECT(json_parse(&first, a, a_length, path, &error) == STATUS_OK);
    EXPECT(json_parse(&second, b, b_length, "written", &error) == STATUS_OK);
    if (first != NULL && second != NULL) {
        json_root(first, &root);
        json_print(&root, &one);
        json_root(second, &root);
        json_print(&root, &two);
        EXPECT_TEXT(two.text, one.text);
    }
    json_free(first);
    json_free(second);
    strbuf_free(&one);
    strbuf_free(&two);
}

static uint32_t gpus_of(const char *path)
{
    return strstr(path, "16gpus") != NULL || strstr(path, "2nodes") != NULL ? 16
           : strstr(path, "4gpus") != NULL                                  ? 4
                                                                            : 8;
}

static void round_trip(const char *path)
{
    struct arena arena = { 0 };
    struct error error = { 0 };
    struct strbuf out = { 0 };
    char *text = NULL, message[2048];
    size_t length = 0;
    bool is_plan = strstr(path, "galvatron_config") != NULL;
    struct galvatron_file file;
    struct galvatron_plan_file plan;
    EXPECT(file_read(path, 1 << 24, &text, &length, &error) == STATUS_OK);
    enum status status = is_plan ? galvatron_plan_file_load(&plan, path, gpus_of(path), 0, &arena, &error)
                                 : galvatron_file_load(&file, path, &arena, &error);
    if (status != STATUS_OK) {
        TEST_FAIL_("%s", error_text(&error, message, sizeof message));
    } else if (is_plan) {
        galvatron_plan_file_write(&plan, &out);
        if (!same_bytes(text, length, out.text)) {
            TEST_FAIL_("%s: not byte for byte: %s", path, out.text);
        }
    } else {
        galvatron_file_write(&file, &out);
        expect_same_values(text, length, out.text, out.length, path);
    }
    files_seen++;
    free(text);
    strbuf_free(&out);
    arena_free(&arena);
}

static const char *data_folder(void)
{
    const char *shared = getenv("MEMWALL_SHARED");
    return shared != NULL ? shared : "../shared";
}

static void test_all_files(void)
{
    static const char *const masks[] = {
        "galvatron1/*_config.json",          "galvatron1/*_config_*.json",        "galvatron1/env__*.json",
        "galvatron2/hardware/*.json",        "galvatron2/model_profiles/*.json",  "galvatron2/searched_plans/*.json",
        "paddle-galvatron/*bandwidth*.json", "paddle-galvatron/*profiling*.json", "paddle-galvatron/overlap*.json"
    };
    for (uint32_t i = 0; i < sizeof masks / sizeof masks[0]; i++) {
        char mask[1024];
        glob_t found = { 0 };
        snprintf(mask, sizeof mask, "%s/data/galvatron/%s", data_folder(), masks[i]);
        int failed = glob(mask, 0, NULL, &found);
        EXPECT(failed == 0);
        for (size_t k = 0; failed == 0 && k < found.gl_pathc; k++) {
            round_trip(found.gl_pathv[k]);
        }
        globfree(&found);
    }
    printf("%u files\n", files_seen);
    EXPECT(files_seen > 100);
}

/* facts C.6: 8 x RTX TITAN, and 2 x 8 of 2023. */
static void test_hardware(void)
{
    struct arena arena = { 0 };
    struct error error = { 0 };
    struct galvatron_file file;
    struct galvatron_hardware_profile read = { .gpus = 8 }, table = { 0 };
    char path[1024];
    snprintf(path, sizeof path, "%s/data/galvatron/galvatron1/env__allreduce_bandwidth_8_gpus.json", data_folder());
    EXPECT(galvatron_file_load(&file, path, &arena, &error) == STATUS_OK);
    EXPECT(galvatron_hardware_add(&file, &read, &error) == STATUS_OK);
    galvatron_table_titan(&table);
    for (uint32_t pipeline = 1; pipeline <= 4; pipeline *= 2) {
        for (uint32_t size = 2; size <= 8 / pipeline; size *= 2) {
            for (int flag = 0; flag < 2; flag++) {
                EXPECT_REAL(galvatron_all_reduce_ms(&read, pipeline, size, flag == 1),
                            galvatron_all_reduce_ms(&table, pipeline, size, flag == 1), 0);
            }
        }
    }
    snprintf(path, sizeof path,
             "%s/data/galvatron/galvatron2/hardware/hw__p2p_bandwidth_2nodes_8gpus_per_node__"
             "2023-11-30_698e09a1.json",
             data_folder());
    EXPECT(galvatron_file_load(&file, path, &arena, &error) == STATUS_OK);
    EXPECT(galvatron_hardware_add(&file, &read, &error) == STATUS_BAD_INPUT); /* of 16 devices */
    EXPECT_PART(error.message, "16 devices");
    read = (struct galvatron_hardware_profile){ .gpus = 16 };
    EXPECT(galvatron_hardware_add(&file, &read, &error) == STATUS_OK);
    EXPECT_REAL(1 / read.p2p[1], 7.65998, 1e-12);
    EXPECT_REAL(1 / read.p2p[4], 8.13177, 1e-12);
    arena_free(&arena);
}

static void refuse(const char *text, const char *part)
{
    struct json_document *document = NULL;
    struct json root;
    struct arena arena = { 0 };
    struct error error = { 0 };
    struct galvatron_file file;
    struct galvatron_plan_file plan;
    EXPECT(json_parse(&document, text, strlen(text), "test.json", &error) == STATUS_OK);
    if (document != NULL) {
        json_root(document, &root);
        enum status status = strstr(text, "pp_deg\"") != NULL
                                 ? galvatron_plan_file_read(&plan, &root, 8, 4, &arena, &error)
                                 : galvatron_file_read(&file, &root, &arena, &error);
        EXPECT_INT(status, STATUS_BAD_INPUT);
        EXPECT_PART(error.message, part);
    }
    json_free(document);
    arena_free(&arena);
}

static void test_refusals(void)
{
    refuse("{}", "object of measurements");
    refuse("{\"bandwidth\": 3}", "no key");
    refuse("{\"allreduce_size_8_consec_1\": 154e9}", "unit");
    refuse("{\"allreduce_size_08_consec_1\": 154}", "no key");
    refuse("{\"allreduce_size_8_consec_1\": 154, \"pp_sizes_2\": 1}", "Known");
    refuse("{\"1_1_8\": {\"layernum[1]_bsz8_rank0_ms\": 5, \"layernum[1]_bsz8_rank0_act\": 5}}", "_act_peak");
    refuse("{\"1_1_8\": {}}", "missing");
    refuse("{\"layertype_0\": {\"parameter_size\": \"48 MB\"}}", "expected a number");
#define HEAD "{\"pp_deg\": 2, \"global_bsz\": 8, \"chunks\": 2, "
    refuse(HEAD "\"tp_sizes_enc\": \"1,1,1,1\"}", "dp_types_enc");
    refuse(HEAD "\"tp_sizes_enc\": \"1,1,1,1\", \"dp_types_enc\": \"0,0,0\"}", "1 layers are missing");
    refuse(HEAD "\"tp_sizes_enc\": \"1,1,1\", \"dp_types_enc\": \"0,0,0\"}", "another model");
    refuse(HEAD "\"tp_sizes_enc\": \"1,8,1,1\", \"dp_types_enc\": \"0,0,0,0\"}", "devices of a stage");
    refuse(HEAD "\"tp_sizes_enc\": \"1,1,1,1\", \"dp_types_enc\": \"0,0,2,0\"}", "0 to 1");
    refuse(HEAD "\"tp_sizes_enc\": \"1,1,1,1\", \"dp_types_enc\": \"0,0,0,0\", \"pp_division\": \"2,3\"}", "5 layers");
    refuse(HEAD "\"tp_sizes_enc\": \"1,1,1,1\", \"dp_types_enc\": \"0,0,0,0\", \"vtpp\": 1}", "vtp");
    refuse("{\"pp_deg\": 3, \"global_bsz\": 8, \"chunks\": 1, \"tp_sizes_enc\": \"1,1,1,1\", \"dp_types_enc\": "
           "\"0,0,0,0\"}",
           "do not divide");
}

int main(int argc, char **argv)
{
    char path[1024];
    (void)argc;
    (void)argv;
    test_refusals();
    snprintf(path, sizeof path, "%s/data/galvatron/galvatron2", data_folder());
    if (!file_exists(path) && test_failures == 0) {
        printf("skipped: no %s\n", path);
        return 77;
    }
    test_all_files();
    test_hardware();
    printf("%s: %u failures\n", test_failures == 0 ? "ok" : "FAIL", test_failures);
    return test_failures != 0;
}
