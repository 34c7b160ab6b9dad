/* Drafts of machine files: what is set is what a loader reads, with its source and standard error; layout; bases; errors that stick; nothing half written. */
#include "validate/calibrate/draft.h"

#include <unistd.h>

#include "hw_models/machine.h"
#include "sim/base/file.h"
#include "tests/test.h"

static const char *const TOPOLOGY_PARTS = "[{\"id\":\"cpu0\",\"kind\":\"cpu_socket\",\"cores\":2},"
                                          "{\"id\":\"dram0\",\"kind\":\"host_dram\",\"capacity_GiB\":8},"
                                          "{\"id\":\"gpu[0-3]\",\"kind\":\"gpu\"}]";
static const char *const TOPOLOGY_LINKS = "[{\"kind\":\"ddr\",\"a\":\"cpu0\",\"b\":\"dram0\",\"GBps\":20},"
                                          "{\"kind\":\"pcie\",\"a\":\"cpu0\",\"b\":\"gpu[0-3]\",\"GBps\":5}]";

static struct draft *start(const char *base)
{
    struct draft *draft = NULL;
    struct error error = { 0 };
    char text[2048];
    if (draft_new(&draft, "mine", base, &error) != STATUS_OK) {
        TEST_FAIL_("%s", error_text(&error, text, sizeof text));
    }
    return draft;
}

/* A whole machine from nothing, as a calibration of this computer writes it. */
static struct draft *whole(void)
{
    static const char *const ZEROS[] = { "latency.kernel_launch_us", "latency.kernel_gap_us", "nccl.latency_us",
                                         "nccl.sms" };
    struct draft *draft = start(NULL);
    if (draft == NULL) {
        return NULL;
    }
    draft_json(draft, "parts", TOPOLOGY_PARTS, "hwloc", false);
    draft_json(draft, "links", TOPOLOGY_LINKS, "hwloc", false);
    draft_number(draft, "gpu_count", 4, 0, "counted", false);
    draft_text(draft, "title", "a test's \"computer\"", NULL);
    draft_text(draft, "gpu.model", "thread", "a test");
    draft_text(draft, "gpu.architecture", "host", "a test");
    draft_flag(draft, "gpu.on_host", true, "a test");
    draft_number(draft, "gpu.sm_count", 1, 0, "a test", false);
    draft_number(draft, "gpu.clock_MHz", 2000, 0, "a test", true);
    draft_number(draft, "gpu.l2_MB", 1, 0, "a test", true);
    draft_number(draft, "gpu.memory_GiB", 2.000000001, 0, "a test", false);
    draft_number(draft, "gpu.hbm_peak_GBps", 20, 0, "a test", false);
    draft_number(draft, "gpu.hbm_GBps", 12.345678901234, 0.0123456, "stream", false);
    draft_number(draft, "gpu.peak_TFLOPS.fp32", 0.1, 0, "a test", false);
    draft_number(draft, "host.pageable_GBps", 5, 0, "a test", false);
    draft_number(draft, "host.adam_Gparameters_per_s_core", 0.2, 0.01, "adam", false);
    for (size_t i = 0; i < sizeof ZEROS / sizeof ZEROS[0]; i++) {
        draft_number(draft, ZEROS[i], 0, 0, "a test", false);
    }
    draft_number(draft, "nccl.bus_GBps", 4, 0, "a test", false);
    draft_number(draft, "nccl.channels", 1, 0, "a test", false);
    draft_json(draft, "kernel_model", "{}", "a test", false);
    draft_number(draft, "kernel_model.attention_forward_efficiency", 0.5, 0.02, "fit", false);
    return draft;
}

static bool load_draft(const struct draft *draft, struct machine *machine)
{
    struct error error = { 0 };
    struct strbuf text = { 0 };
    struct json_document *document = NULL;
    struct json root;
    char message[2048];
    enum status status = draft_print(draft, &text, &error);
    if (status == STATUS_OK) {
        status = json_parse(&document, text.text, text.length, "draft.json", &error);
    }
    if (status == STATUS_OK) {
        json_root(document, &root);
        status = machine_from_json(machine, &root, &error);
    }
    if (status != STATUS_OK) {
        TEST_FAIL_("%s", error_text(&error, message, sizeof message));
    }
    json_free(document);
    strbuf_free(&text);
    return status == STATUS_OK;
}

/* Every number arrives in the loaded machine, with source and standard error; rounding to three digits of the standard error
 * changes a value by half of the last of them, 5e-3 of the error at most. */
static void test_from_nothing(void)
{
    struct machine machine;
    struct draft *draft = whole();
    static const double BYTES[] = { 1024, 1048576, 1e9 }, RATES[] = { 0.5, 3.14159265358979, 4 };
    if (draft == NULL) {
        return;
    }
    draft_curve(draft, "all_reduce", 2, 1, BYTES, RATES, 3, "rings");
    draft_residual(draft, "all_reduce 2 ranks", "rings", 12, 3, 0.0123456, 0.05, 0.02);
    draft_residual(draft, "gemm fp32", "sgemm", 9, 0, 0.01, 0.03, NAN);
    if (load_draft(draft, &machine)) {
        EXPECT_TEXT(machine.name, "mine");
        EXPECT_TEXT(machine.title, "a test's \"computer\"");
        EXPECT(machine.gpu.on_host);
        EXPECT_INT(machine.gpu_count, 4);
        EXPECT_REAL(machine.gpu.memory_bytes, 2.000000001 * 1073741824.0, 0.0);
        EXPECT(fabs(machine.gpu.hbm_bytes_per_s / 1e9 - 12.345678901234) <= 5e-3 * 0.0123456);
        EXPECT_REAL(machine_standard_error_of(&machine, "gpu.hbm_GBps"), 0.0123, 0.0);
        EXPECT_REAL(machine_standard_error_of(&machine, "kernel_model.attention_forward_efficiency"), 0.02, 0.0);
        EXPECT_REAL(machine_standard_error_of(&machine, "gpu.sm_count"), 0.0, 0.0);
        EXPECT_TEXT(machine_source_of(&machine, "gpu.hbm_GBps")->source, "stream");
        EXPECT(machine_source_of(&machine, "gpu.clock_MHz")->estimated);
        EXPECT(!machine_source_of(&machine, "gpu.hbm_GBps")->estimated);
        EXPECT_TEXT(machine_source_of(&machine, "links.pcie.GBps")->source, "hwloc");
        EXPECT(machine_source_of(&machine, "title") == NULL);
        const struct machine_collective_curve *curve = machine_curve(&machine, COLLECTIVE_ALL_REDUCE, 2, 1);
        EXPECT(curve != NULL && strcmp(curve->source, "rings") == 0);
        EXPECT_REAL(curve == NULL ? 0.0 : curve_at(&curve->curve, 1048576), 3.14159e9, 1e-12);
        EXPECT_INT(machine.residual_count, 2);
        if (machine.residual_count == 2) {
            EXPECT_TEXT(machine.residuals[0].what, "all_reduce 2 ranks");
            EXPECT_INT(machine.residuals[0].points, 12);
            EXPECT_INT(machine.residuals[0].left_out, 3);
            EXPECT_REAL(machine.residuals[0].mean_error, 0.0123456, 5e-4); /* four digits */
            EXPECT_REAL(machine.residuals[0].left_out_mean_error, 0.02, 0.0);
            EXPECT(isnan(machine.residuals[1].left_out_mean_error));
        }
        machine_free(&machine);
    }
    draft_free(draft);
}

static void test_get_and_has(void)
{
    struct draft *draft = whole();
    if (draft == NULL) {
        return;
    }
    EXPECT_REAL(draft_get(draft, "gpu.sm_count", -1), 1, 0.0);
    EXPECT_REAL(draft_get(draft, "links.pcie.GBps", -1), 5, 0.0);
    EXPECT_REAL(draft_get(draft, "links.0.GBps", -1), 20, 0.0);
    EXPECT_REAL(draft_get(draft, "gpu.model", -1), -1, 0.0); /* a text */
    EXPECT_REAL(draft_get(draft, "gpu.usable_MiB", -1), -1, 0.0);
    EXPECT(draft_has(draft, "gpu.model") && draft_has(draft, "parts") && draft_has(draft, "gpu.on_host"));
    EXPECT(!draft_has(draft, "gpu.usable_MiB") && !draft_has(draft, "links.7") && !draft_has(draft, "gpu..model"));
    EXPECT(!draft_has(draft, "gpu.model.x") && !draft_has(draft, "links.nvlink.GBps"));
    draft_free(draft);
}

/* By kind: all of them; by number: one. Setting a list forgets what was known of its old items. */
static void test_links(void)
{
    struct machine machine;
    struct draft *draft = whole();
    if (draft == NULL) {
        return;
    }
    draft_json(draft, "links",
               "[{\"kind\":\"ddr\",\"a\":\"cpu0\",\"b\":\"dram0\",\"GBps\":20},"
               "{\"kind\":\"pcie\",\"a\":\"cpu0\",\"b\":\"gpu[0-1]\",\"GBps\":5},"
               "{\"kind\":\"pcie\",\"a\":\"cpu0\",\"b\":\"gpu[2-3]\",\"GBps\":5}]",
               "hwloc", false);
    draft_number(draft, "links.pcie.GBps", 6.5, 0.1, "copies", false);
    draft_number(draft, "links.2.back_GBps", 4.5, 0.2, "copies back", false);
    draft_number(draft, "links.ddr.GBps", 21, 0, "triad", false);
    if (load_draft(draft, &machine)) {
        for (uint32_t i = 0; i < machine.link_count; i++) {
            const struct machine_link *link = &machine.links[i];
            EXPECT_REAL(link->bytes_per_s, link->kind == LINK_DDR ? 21e9 : 6.5e9, 0.0);
            EXPECT_REAL(link->back_bytes_per_s,
                        link->kind == LINK_DDR              ? 21e9
                        : machine.parts[link->b].index >= 2 ? 4.5e9
                                                            : 6.5e9,
                        0.0);
        }
        EXPECT_REAL(machine_standard_error_of(&machine, "links.pcie.GBps"), 0.1, 0.0);
        EXPECT_REAL(machine_standard_error_of(&machine, "links.2.back_GBps"), 0.2, 0.0);
        EXPECT_TEXT(machine_source_of(&machine, "links.pcie.GBps")->source, "copies");
        EXPECT_TEXT(machine_source_of(&machine, "links.pcie.back_GBps")->source, "copies back");
        EXPECT_TEXT(machine_source_of(&machine, "links.ddr.GBps")->source, "triad");
        machine_free(&machine);
    }
    draft_json(draft, "links", TOPOLOGY_LINKS, "lstopo", true);
    if (load_draft(draft, &machine)) {
        EXPECT_REAL(machine_standard_error_of(&machine, "links.pcie.GBps"), 0.0, 0.0);
        EXPECT_TEXT(machine_source_of(&machine, "links.pcie.GBps")->source, "lstopo");
        machine_free(&machine);
    }
    draft_free(draft);
}

/* A library machine whole: printed unchanged it loads to the same; changed, only the change differs. */
static void test_from_library(void)
{
    for (uint32_t i = 0; i < machine_library_count(); i++) {
        struct machine before, after;
        struct draft *draft = start(machine_library_name(i));
        if (draft == NULL || machine_load(&before, machine_library_name(i), NULL) != STATUS_OK) {
            draft_free(draft);
            continue;
        }
        if (load_draft(draft, &after)) {
            EXPECT_TEXT(after.name, "mine");
            EXPECT_TEXT(after.title, before.title);
            EXPECT_INT(after.link_count, before.link_count);
            EXPECT_INT(after.curve_count, before.curve_count);
            EXPECT(memcmp(after.gpu.peak_flops, before.gpu.peak_flops, sizeof after.gpu.peak_flops) == 0);
            EXPECT(memcmp(after.gpu.gemm, before.gpu.gemm, sizeof after.gpu.gemm) == 0);
            for (uint32_t k = 0; k < machine_field_count(); k++) {
                struct machine_field_value a, b;
                machine_field_get(&before, k, &a);
                machine_field_get(&after, k, &b);
                EXPECT_REAL(b.value, a.value, 0.0);
                char path[128];
                snprintf(path, sizeof path, "%s.%s", a.section, a.key);
                const struct machine_source *was = machine_source_of(&before, path),
                                            *is = machine_source_of(&after, path);
                EXPECT((was == NULL) == (is == NULL));
                EXPECT(was == NULL || is == NULL || was->estimated == is->estimated);
                bool of_file = is != NULL && strstr(is->source, "changed from ") != NULL; /* names the file */
                EXPECT(was == NULL || is == NULL || of_file || strcmp(was->source, is->source) == 0);
            }
            machine_free(&after);
        }
        machine_free(&before);
        draft_free(draft);
    }
}

static void test_change_of_library(void)
{
    struct machine machine;
    struct draft *draft = start("dgx-a100-80gb");
    static const double BYTES[] = { 1e6, 1e9 }, RATES[] = { 10, 200 };
    if (draft == NULL) {
        return;
    }
    uint32_t curves = 0;
    if (load_draft(draft, &machine)) {
        curves = machine.curve_count;
        machine_free(&machine);
    }
    draft_number(draft, "gpu.hbm_GBps", 1750, 5, "babelstream", false);
    draft_curve(draft, "all_reduce", 8, 1, BYTES, RATES, 2, "mine"); /* replaces */
    draft_curve(draft, "broadcast", 3, 1, BYTES, RATES, 2, "mine");  /* adds */
    if (load_draft(draft, &machine)) {
        EXPECT_REAL(machine.gpu.hbm_bytes_per_s, 1750e9, 0.0);
        EXPECT_TEXT(machine_source_of(&machine, "gpu.hbm_GBps")->source, "babelstream");
        EXPECT_INT(machine.curve_count, curves + 1);
        EXPECT_REAL(curve_at(&machine_curve(&machine, COLLECTIVE_ALL_REDUCE, 8, 1)->curve, 1e9), 200e9, 1e-12);
        EXPECT_REAL(curve_at(&machine_curve(&machine, COLLECTIVE_BROADCAST, 3, 1)->curve, 1e6), 10e9, 1e-12);
        machine_free(&machine);
    }
    draft_free(draft);
}

/* A machine that changes another stands on it: what it does not say is looked up there. */
static void test_on_a_base(void)
{
    struct machine machine;
    struct draft *draft = start("a100-80gb-hdr800");
    if (draft == NULL) {
        return;
    }
    EXPECT_REAL(draft_get(draft, "gpu.sm_count", -1), 108, 0.0);
    EXPECT(draft_has(draft, "collectives") && draft_has(draft, "nics"));
    draft_number(draft, "gpu.hbm_GBps", 1750, 5, "babelstream", false);
    if (load_draft(draft, &machine)) {
        EXPECT_REAL(machine.gpu.hbm_bytes_per_s, 1750e9, 0.0);
        EXPECT_REAL(machine_standard_error_of(&machine, "gpu.hbm_GBps"), 5, 0.0);
        EXPECT_INT(machine.gpu.sm_count, 108);
        EXPECT_INT(machine_part_kind_count(&machine, PART_NIC), 5);
        machine_free(&machine);
    }
    draft_number(draft, "links.pcie.GBps", 20, 0, "copies", false);
    struct error error = { 0 };
    struct strbuf text = { 0 };
    EXPECT_INT(draft_print(draft, &text, &error), STATUS_BAD_INPUT);
    EXPECT_PART(error.message, "no entry of kind \"pcie\"");
    strbuf_free(&text);
    draft_free(draft);
}

/* A file of a calibration improved by another: its lists come along; refitted sets replace their old residuals. */
static void test_again(void)
{
    char path[] = "/tmp/t_draft_XXXXXX.json";
    int file = mkstemps(path, 5);
    struct error error = { 0 };
    struct machine machine;
    struct draft *draft = whole();
    EXPECT(file >= 0);
    if (draft == NULL || file < 0) {
        return;
    }
    close(file);
    draft_residual(draft, "copy h2d", "first", 5, 0, 0.1, 0.2, NAN);
    draft_residual(draft, "copy d2h", "first", 5, 0, 0.1, 0.2, NAN);
    EXPECT_INT(draft_write(draft, path, &error), STATUS_OK);
    draft_free(draft);
    draft = start(path);
    if (draft != NULL) {
        draft_residual(draft, "copy h2d", "second", 6, 0, 0.1, 0.2, NAN);
        draft_residual(draft, "copy h2d", "third", 7, 0, 0.1, 0.2, NAN);
        draft_residual(draft, "copy h2d", "third", 8, 0, 0.1, 0.2, NAN);
        draft_number(draft, "host.adam_Gparameters_per_s_core", 0.25, 0, "adam again", false);
        if (load_draft(draft, &machine)) {
            EXPECT_REAL(machine_standard_error_of(&machine, "gpu.hbm_GBps"), 0.0123, 0.0);
            EXPECT_REAL(machine_standard_error_of(&machine, "host.adam_Gparameters_per_s_core"), 0.0, 0.0);
            EXPECT_TEXT(machine_source_of(&machine, "host.adam_Gparameters_per_s_core")->source, "adam again");
            EXPECT_TEXT(machine_source_of(&machine, "host.pageable_GBps")->source, "a test");
            EXPECT_INT(machine.residual_count, 3);
            if (machine.residual_count == 3) {
                EXPECT_TEXT(machine.residuals[0].what, "copy d2h");
                EXPECT_TEXT(machine.residuals[1].source, "second");
                EXPECT_INT(machine.residuals[2].points, 8);
            }
            machine_free(&machine);
        }
        draft_free(draft);
    }
    unlink(path);
}

/* Lines hold 120 columns but for long texts; printing what was read is the same text. */
static void test_layout(void)
{
    struct draft *draft = whole(), *again = NULL;
    struct strbuf text = { 0 }, second = { 0 };
    char path[] = "/tmp/t_draft_XXXXXX.json";
    int file = mkstemps(path, 5);
    if (draft == NULL || file < 0) {
        TEST_FAIL_("no draft or no file");
        return;
    }
    close(file);
    EXPECT_INT(draft_print(draft, &text, NULL), STATUS_OK);
    EXPECT_PART(text.text, "\n  \"schema\": \"memwall.machine/1\",\n  \"name\": \"mine\",\n  \"title\": ");
    EXPECT_PART(text.text, "\n    { \"id\": \"cpu0\", \"kind\": \"cpu_socket\", \"cores\": 2 },\n");
    EXPECT_PART(text.text, "\n  \"nccl\": { \"latency_us\": 0, \"sms\": 0, \"bus_GBps\": 4, \"channels\": 1 },\n");
    EXPECT_PART(text.text, "\"hbm_GBps\": 12.3457,");
    for (const char *at = text.text; *at != '\0';) {
        size_t length = strcspn(at, "\n");
        EXPECT(length <= 120 && (length == 0 || at[length - 1] != ' '));
        at += length + (at[length] == '\n');
    }
    EXPECT_INT(draft_write(draft, path, NULL), STATUS_OK);
    EXPECT_INT(draft_new(&again, "mine", path, NULL), STATUS_OK);
    if (again != NULL) {
        EXPECT_INT(draft_print(again, &second, NULL), STATUS_OK);
        EXPECT_TEXT(second.text, text.text);
    }
    unlink(path);
    draft_free(again);
    draft_free(draft);
    strbuf_free(&text);
    strbuf_free(&second);
}

/* The first mistake is the one that is told, and no file appears. */
static void test_errors(void)
{
    static const double BYTES[] = { 2e6, 1e6 }, RATES[] = { 1, NAN }, SAME[] = { 1, 1 };
    struct {
        const char *what, *part;
    } const cases[] = {
        { "not a number", "needs a finite value" },
        { "negative error", "an error of at least 0" },
        { "path", "separated by dots" },
        { "through a number", "is not an object" },
        { "json", "not valid JSON" },
        { "curve", "point 1 is" },
        { "residual", "errors of" },
        { "value", "gpu.hbm_GBps" },
        { "falling curve", "bytes must rise" },
        { "nothing", "no value" },
        { "kind of link", "no entry of kind \"nvlink\"" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *path = "/tmp/t_draft_never.json";
        struct error error = { 0 };
        char text[4096];
        struct draft *draft = whole();
        if (draft == NULL) {
            return;
        }
        switch (i) {
        case 0: draft_number(draft, "gpu.hbm_GBps", NAN, 0, "x", false); break;
        case 1: draft_number(draft, "gpu.hbm_GBps", 1, -1, "x", false); break;
        case 2: draft_number(draft, "gpu..hbm_GBps", 1, 0, "x", false); break;
        case 3: draft_number(draft, "gpu.hbm_GBps.more", 1, 0, "x", false); break;
        case 4: draft_json(draft, "links", "[1,", "x", false); break;
        case 5: draft_curve(draft, "all_reduce", 2, 1, BYTES, RATES, 2, "x"); break;
        case 6: draft_residual(draft, "x", "x", 1, 0, -0.1, 0.1, NAN); break;
        case 7: draft_number(draft, "gpu.hbm_GBps", -5, 0, "x", false); break; /* the loader's own */
        case 8: draft_curve(draft, "all_reduce", 2, 1, BYTES, SAME, 2, "x"); break;
        case 9: draft_json(draft, "links", " ", "x", false); break;
        default: draft_number(draft, "links.nvlink.GBps", 1, 0, "x", false); break;
        }
        if (i < 7) {
            draft_number(draft, "also.wrong", INFINITY, 0, "x", false);
        }
        unlink(path);
        EXPECT(draft_write(draft, path, &error) != STATUS_OK);
        EXPECT_PART(error_text(&error, text, sizeof text), cases[i].part);
        if (i == 7) {
            EXPECT_PART(text, "is not written");
        }
        EXPECT(!file_exists(path));
        draft_free(draft);
    }
}

static void test_names(void)
{
    static const struct {
        const char *name, *part; /* NULL: allowed */
    } cases[] = {
        { "here", NULL },
        { "Rechner \xc3\xa4 \xf0\x9f\x98\x80 \xc2\xa0", NULL },
        { "", "1 to 63 bytes, found 0" },
        { "0123456789012345678901234567890123456789012345678901234567890123", "found 64" },
        { "a\tb", "byte 2 is 0x09, of a control character" },
        { "a\rb", "byte 2 is 0x0d, of a control character" },
        { "a\x7f", "byte 2 is 0x7f" },
        { "ab\xc2\x9f", "byte 3 is 0xc2, of a control character" },
        { "\xc3", "byte 1 is 0xc3, which is no UTF-8" },
        { "a\xed\xa0\x80", "byte 2 is 0xed, which is no UTF-8" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct error error = { 0 };
        EXPECT_INT(draft_check_name(cases[i].name, &error), cases[i].part == NULL ? STATUS_OK : STATUS_BAD_INPUT);
        EXPECT_PART(error.message, cases[i].part == NULL ? "" : cases[i].part);
    }
}

static void test_no_start(void)
{
    struct draft *draft;
    struct error error = { 0 };
    EXPECT_INT(draft_new(&draft, "x", "dgx-a100-80g", &error), STATUS_NOT_FOUND);
    EXPECT_PART(error.message, "did you mean \"dgx-a100-80gb\"");
    EXPECT(draft == NULL);
    EXPECT_INT(draft_new(&draft, "a\n", NULL, &error), STATUS_BAD_INPUT);
    EXPECT_INT(draft_new(&draft, "x", "tests/bad_input/machine_schema.json", &error), STATUS_BAD_INPUT);
    EXPECT(draft == NULL);
    draft_free(NULL);
}

TEST_MAIN(TEST(test_from_nothing), TEST(test_get_and_has), TEST(test_links), TEST(test_from_library),
          TEST(test_change_of_library), TEST(test_on_a_base), TEST(test_again), TEST(test_layout), TEST(test_errors),
          TEST(test_names), TEST(test_no_start))
