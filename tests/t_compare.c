/* Two results side by side: hand-made ones whose figures are reckoned here, and simulated ones. */
#include "sim/report/compare.h"
#include "sim/report/link_kind.h"
#include "tests/report_run.h"

/* Two stages on three GPUs' worth of devices; the second is the fuller, the first has the higher peak. */
#define DEVICES_A                                                                                                      \
    "{\"name\":\"gpu 0\",\"space\":\"device\",\"capacity_bytes\":400,\"peak_bytes\":200,\"peak_reserved_bytes\":220,"  \
    "\"at_peak\":{\"weight\":150,\"activation\":50}},"                                                                 \
    "{\"name\":\"gpu 1\",\"space\":\"device\",\"capacity_bytes\":100,\"peak_bytes\":80,\"peak_reserved_bytes\":90,"    \
    "\"at_peak\":{\"weight\":60,\"activation\":20}},"                                                                  \
    "{\"name\":\"host\",\"space\":\"host\",\"capacity_bytes\":18446744073709551615,\"peak_bytes\":0}"
#define DEVICES_B                                                                                                      \
    "{\"name\":\"gpu 0\",\"space\":\"device\",\"capacity_bytes\":100,\"peak_bytes\":40,\"peak_reserved_bytes\":45,"    \
    "\"at_peak\":{\"weight\":30,\"optimizer\":10}},"                                                                   \
    "{\"name\":\"host\",\"space\":\"host\",\"capacity_bytes\":18446744073709551615,\"peak_bytes\":64}"

#define RESULT_A                                                                                                       \
    "{\"schema\":\"memwall.result/1\",\"name\":\"first\",\"executor\":\"sim\",\"schedule_hash\":\"aa\",\"gpus\":2,"    \
    "\"fits\":true,\"step_time_s\":2,\"samples_per_s\":8,\"tokens_per_s\":800,\"tokens_per_s_per_gpu\":400,"           \
    "\"model_tflops_per_gpu\":50,\"hardware_tflops_per_gpu\":60,\"mfu\":0.25,\"hfu\":null,\"devices\":[" DEVICES_A     \
    "],\"time_breakdown\":[{\"compute\":1,\"offload\":3,\"exposed\":{\"compute\":1,\"offload\":0.5}},"                 \
    "{\"compute\":2,\"exposed\":{\"compute\":2}}],"                                                                    \
    "\"traffic\":[{\"kind\":\"pcie\",\"bytes\":10,\"mean_use_fraction\":0.5},"                                         \
    "{\"kind\":\"pcie\",\"bytes\":30,\"mean_use_fraction\":0.25},{\"bytes\":7},{\"kind\":\"warp\",\"bytes\":1}],"      \
    "\"bounds\":[{\"what\":\"compute of stage 0\",\"share\":0.75},{\"what\":\"copies\",\"share\":0.125}]}"
#define RESULT_B                                                                                                       \
    "{\"schema\":\"memwall.result/1\",\"name\":\"second\",\"executor\":\"host\",\"schedule_hash\":\"bb\",\"gpus\":4,"  \
    "\"fits\":true,\"step_time_s\":4,\"samples_per_s\":16,\"tokens_per_s\":1600,\"tokens_per_s_per_gpu\":400,"         \
    "\"model_tflops_per_gpu\":50,\"hardware_tflops_per_gpu\":90,\"mfu\":0.5,\"hfu\":0.75,\"devices\":[" DEVICES_B      \
    "],\"time_breakdown\":[{\"compute\":3,\"exposed\":{\"compute\":3}}],"                                              \
    "\"traffic\":[{\"kind\":\"pcie\",\"bytes\":80,\"mean_use_fraction\":0.125},{\"kind\":\"network\",\"bytes\":5}],"   \
    "\"bounds\":[]}"
#define STUCK                                                                                                          \
    "{\"schema\":\"memwall.result/1\",\"name\":\"stuck\",\"fits\":false,\"reason\":\"too much\\nmore\","               \
    "\"step_time_s\":0,\"devices\":[{\"space\":\"device\",\"capacity_bytes\":100,\"peak_bytes\":100}]}"

struct documents {
    struct json_document *a, *b;
    struct json root_a, root_b;
    struct comparison both;
};

static void open_one(struct json_document **document, struct json *root, struct compare_side *side, const char *text)
{
    struct error error = { 0 };
    EXPECT_INT(json_parse(document, text, strlen(text), "result.json", &error), STATUS_OK);
    json_root(*document, root);
    if (compare_read(side, root, &error) != STATUS_OK) {
        TEST_FAIL_("%s", error.message);
    }
}

static void open_both(struct documents *d, const char *a, const char *b)
{
    open_one(&d->a, &d->root_a, &d->both.a, a);
    open_one(&d->b, &d->root_b, &d->both.b, b);
}

static void close_both(struct documents *d)
{
    json_free(d->a);
    json_free(d->b);
}

/* A figure by its path "outer.inner.key". */
struct wanted {
    const char *path;
    struct compared_figure found;
    uint32_t count;
};

static void look(void *context, const struct compared_figure *figure)
{
    struct wanted *wanted = context;
    char path[160];
    snprintf(path, sizeof path, "%s%s%s%s%s", figure->outer != NULL ? figure->outer : "",
             figure->outer != NULL ? "." : "", figure->inner != NULL ? figure->inner : "",
             figure->inner != NULL ? "." : "", figure->key);
    if (strcmp(path, wanted->path) == 0) {
        wanted->found = *figure;
        wanted->count++;
    }
}

static void expect_figure(const struct comparison *both, const char *path, double a, double b)
{
    struct wanted wanted = { .path = path };
    compare_visit(both, look, &wanted);
    if (wanted.count != 1) {
        TEST_FAIL_("%s appears %u times", path, wanted.count);
        return;
    }
    if ((isnan(a) != isnan(wanted.found.a)) || (isnan(b) != isnan(wanted.found.b)) ||
        (!isnan(a) && fabs(a - wanted.found.a) > 1e-12 * a) || (!isnan(b) && fabs(b - wanted.found.b) > 1e-12 * b)) {
        TEST_FAIL_("%s: found %g and %g, expected %g and %g", path, wanted.found.a, wanted.found.b, a, b);
    }
}

static void expect_absent(const struct comparison *both, const char *path)
{
    struct wanted wanted = { .path = path };
    compare_visit(both, look, &wanted);
    if (wanted.count != 0) {
        TEST_FAIL_("%s appears", path);
    }
}

static void test_figures(void)
{
    struct documents d;
    open_both(&d, RESULT_A, RESULT_B);
    expect_figure(&d.both, "step_time_s", 2, 4);
    expect_figure(&d.both, "gpus", 2, 4);
    expect_figure(&d.both, "mfu", 0.25, 0.5);
    expect_figure(&d.both, "hfu", NAN, 0.75);
    /* the fullest: 80 of 100, not 200 of 400 */
    expect_figure(&d.both, "memory.device.peak_bytes", 80, 40);
    expect_figure(&d.both, "memory.device.weight", 60, 30);
    expect_figure(&d.both, "memory.device.optimizer", 0, 10);
    expect_figure(&d.both, "memory.host.peak_bytes", 0, 64);
    expect_absent(&d.both, "memory.host.capacity_bytes"); /* unlimited */
    expect_absent(&d.both, "memory.pinned.peak_bytes");
    expect_absent(&d.both, "memory.device.runtime");
    /* means of the ranks */
    expect_figure(&d.both, "time_breakdown.exposed.compute", 1.5, 3);
    expect_figure(&d.both, "time_breakdown.exposed.offload", 0.25, 0);
    expect_figure(&d.both, "time_breakdown.hidden.offload", 1.25, 0);
    expect_absent(&d.both, "time_breakdown.hidden.compute");
    expect_figure(&d.both, "traffic.pcie", 40, 80);
    expect_figure(&d.both, "traffic.network", 0, 5);
    expect_figure(&d.both, "traffic.other", 8, 0); /* a kind that nobody knows, and none */
    expect_figure(&d.both, "link_use.pcie", 0.5, 0.125);
    close_both(&d);
}

static void test_words(void)
{
    struct documents d;
    struct strbuf statement = { 0 }, notes = { 0 }, text = { 0 };
    open_both(&d, RESULT_A, RESULT_B);
    compare_statement(&d.both, &statement);
    EXPECT_TEXT(statement.text,
                "B on 4 GPUs is 2.00 times as fast as A on 2 (1.00 times a GPU) and takes 0.50 of its memory "
                "(fullest device: 40 B, A 80 B).");
    compare_notes(&d.both, &notes);
    EXPECT_TEXT(notes.text, "A is of the executor sim, B of host.\n"
                            "A step of A holds 16 samples, one of B 64: compare rates, not step times.\n");
    compare_text(&d.both, &text);
    EXPECT_PART(text.text, "What binds A\n  75.0 %  compute of stage 0\n  12.5 %  copies\n");
    EXPECT(strstr(text.text, "What binds B") == NULL);
    for (const char *line = text.text; *line != '\0'; line += strcspn(line, "\n") + 1) {
        EXPECT(strcspn(line, "\n") <= 110);
    }
    strbuf_free(&statement);
    strbuf_free(&notes);
    strbuf_free(&text);
    close_both(&d);
}

static void test_what_does_not_fit(void)
{
    struct documents d;
    struct strbuf out = { 0 };
    open_both(&d, RESULT_A, STUCK);
    compare_statement(&d.both, &out);
    EXPECT_TEXT(out.text, "A fits, B does not.");
    expect_figure(&d.both, "step_time_s", 2, NAN);
    expect_figure(&d.both, "memory.device.peak_bytes", 80, 100);
    expect_figure(&d.both, "time_breakdown.exposed.compute", 1.5, NAN);
    strbuf_free(&out);
    out = (struct strbuf){ 0 };
    compare_text(&d.both, &out);
    EXPECT_PART(out.text, "stuck: 1 GPU, sim executor, DOES NOT FIT\n  B: too much\n");
    strbuf_free(&out);
    close_both(&d);
    out = (struct strbuf){ 0 };
    open_both(&d, STUCK, STUCK);
    compare_statement(&d.both, &out);
    EXPECT_TEXT(out.text, "Neither A nor B fits.");
    strbuf_free(&out);
    close_both(&d);
}

static double ratio_at(struct json_document *document, const char *outer, const char *inner, const char *key)
{
    struct json at[4];
    double value = NAN;
    struct error error = { 0 };
    json_root(document, &at[0]);
    enum status status = json_object(&at[0], "ratio", &at[1], &error);
    struct json *last = &at[1];
    if (status == STATUS_OK && outer != NULL) {
        status = json_object(last, outer, &at[2], &error);
        last = &at[2];
    }
    if (status == STATUS_OK && inner != NULL) {
        status = json_object(last, inner, &at[3], &error);
        last = &at[3];
    }
    if (status == STATUS_OK) {
        status = json_real_or(last, key, 0, 1e9, NAN, &value, &error);
    }
    if (status != STATUS_OK) {
        TEST_FAIL_("%s", error.message);
    }
    return value;
}

static void test_json(void)
{
    struct documents d;
    struct strbuf out = { 0 };
    struct json_document *document = NULL;
    struct json root, a;
    struct error error = { 0 };
    const char *name;
    open_both(&d, RESULT_A, RESULT_B);
    compare_json(&d.both, &d.root_a, &d.root_b, &out);
    EXPECT_INT(json_parse(&document, out.text, out.length, "compare", &error), STATUS_OK);
    EXPECT_REAL(ratio_at(document, NULL, NULL, "step_time_s"), 2, 0.0);
    EXPECT_REAL(ratio_at(document, "memory", "device", "peak_bytes"), 0.5, 0.0);
    EXPECT(isnan(ratio_at(document, "memory", "device", "optimizer"))); /* of nothing: null */
    EXPECT(isnan(ratio_at(document, NULL, NULL, "hfu")));
    EXPECT_REAL(ratio_at(document, "time_breakdown", "exposed", "compute"), 2, 1e-15);
    EXPECT_REAL(ratio_at(document, "time_breakdown", "exposed", "offload"), 0, 0.0);
    EXPECT_REAL(ratio_at(document, "traffic", NULL, "pcie"), 2, 0.0);
    EXPECT_REAL(ratio_at(document, "link_use", NULL, "pcie"), 0.25, 0.0);
    /* both results are there, and read again give the same */
    json_root(document, &root);
    EXPECT_INT(json_object(&root, "a", &a, &error), STATUS_OK);
    EXPECT_INT(json_string(&a, "name", &name, &error), STATUS_OK);
    EXPECT_TEXT(name, "first");
    struct comparison again = d.both;
    EXPECT_INT(compare_read(&again.b, &a, &error), STATUS_OK);
    EXPECT_REAL(again.b.traffic_bytes[LINK_PCIE], 40, 0.0);
    json_free(document);
    strbuf_free(&out);
    close_both(&d);
}

static void test_bad_results(void)
{
    static const struct {
        const char *text, *part;
    } bad[] = {
        { "[]", "expected a result (an object)" },
        { "{}", "schema" },
        { "{\"schema\":\"memwall.result/2\"}", "this one reads \"memwall.result/1\"" },
        { "{\"schema\":\"memwall.result/1\"}", "fits" },
        { "{\"schema\":\"memwall.result/1\",\"fits\":1}", "fits" },
        { "{\"schema\":\"memwall.result/1\",\"fits\":true}", "step_time_s" },
        { "{\"schema\":\"memwall.result/1\",\"fits\":true,\"step_time_s\":-1}", "" },
        { "{\"schema\":\"memwall.result/1\",\"fits\":true,\"step_time_s\":1}", "devices" },
        { "{\"schema\":\"memwall.result/1\",\"fits\":true,\"step_time_s\":1,\"devices\":[5]}", "" },
        { "{\"schema\":\"memwall.result/1\",\"fits\":true,\"step_time_s\":1,\"devices\":[{\"space\":\"shed\"}]}",
          "device" },
        { "{\"schema\":\"memwall.result/1\",\"fits\":true,\"step_time_s\":1,\"devices\":[],\"time_breakdown\":[{}]}",
          "exposed" },
        { "{\"schema\":\"memwall.result/1\",\"fits\":true,\"step_time_s\":1,\"devices\":[],\"traffic\":[{}]}",
          "bytes" },
        { "{\"schema\":\"memwall.result/1\",\"fits\":true,\"step_time_s\":1,\"devices\":[],\"bounds\":[7]}", "" },
        { "{\"schema\":\"memwall.result/1\",\"fits\":true,\"step_time_s\":1,\"devices\":[],\"gpus\":0}", "1" },
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct json_document *document;
        struct json root;
        struct compare_side side;
        struct error error = { 0 };
        EXPECT_INT(json_parse(&document, bad[i].text, strlen(bad[i].text), "r.json", &error), STATUS_OK);
        json_root(document, &root);
        if (compare_read(&side, &root, &error) != STATUS_BAD_INPUT) {
            TEST_FAIL_("not refused: %s", bad[i].text);
        }
        char text[2048];
        EXPECT_PART(error_text(&error, text, sizeof text), bad[i].part);
        EXPECT_TEXT(error.file, "r.json");
        json_free(document);
    }
}

/* ---- simulated ---- */

#define SMALL                                                                                                          \
    "{\"model\":\"gpt2\",\"machine\":\"%s\",\"gpus\":4,\"training\":{\"global_batch\":8},\"memory_policy\":\"%s\"}"

static char *simulated(const char *machine, const char *policy)
{
    struct report_run *run = calloc(1, sizeof *run);
    char text[512];
    struct strbuf out = { 0 };
    snprintf(text, sizeof text, SMALL, machine, policy);
    if (report_run(run, text)) {
        result_print_json(&run->result, &run->input, &out);
    }
    report_run_free(run);
    free(run);
    return out.text;
}

static void expect_one(void *context, const struct compared_figure *figure)
{
    double ratio = compare_ratio(figure);
    (*(uint32_t *)context)++;
    if (!(ratio == 1)) { // NOLINT(clang-diagnostic-float-equal)
        TEST_FAIL_("%s is %g of itself", figure->key, ratio);
    }
}

static void test_with_itself(void)
{
    struct documents d;
    struct strbuf out = { 0 };
    uint32_t count = 0;
    char *text = simulated("dgx-a100-40gb", "resident");
    open_both(&d, text, text);
    compare_visit(&d.both, expect_one, &count);
    EXPECT(count > 15);
    compare_statement(&d.both, &out);
    EXPECT_PART(out.text, "B is as fast as A and takes as much memory");
    strbuf_free(&out);
    out = (struct strbuf){ 0 };
    compare_notes(&d.both, &out);
    EXPECT_TEXT(out.text, "Both run the same schedule.\n");
    strbuf_free(&out);
    double exposed = 0;
    for (uint32_t c = 0; c < TIME_CLASS_COUNT; c++) {
        exposed += d.both.a.exposed_s[c];
    }
    EXPECT_REAL(exposed, d.both.a.rates[RATE_STEP_TIME], 1e-9); /* the states of a rank make up the step */
    close_both(&d);
    free(text);
}

/* Master weights and moments leave the device and turn up on the host; copies turn up on PCIe. */
static void test_offload(void)
{
    struct documents d;
    char *a = simulated("dgx-a100-40gb", "resident"), *b = simulated("dgx-a100-40gb", "optimizer-on-host");
    open_both(&d, a, b);
    const struct compare_side *in = &d.both.a, *out = &d.both.b;
    EXPECT(in->spaces[SPACE_DEVICE].by_class[BUFFER_OPTIMIZER] > 0);
    EXPECT_REAL(out->spaces[SPACE_DEVICE].by_class[BUFFER_OPTIMIZER], 0, 0.0);
    EXPECT(out->spaces[SPACE_HOST].by_class[BUFFER_OPTIMIZER] > 0);
    EXPECT_REAL(in->traffic_bytes[LINK_PCIE], 0, 0.0);
    EXPECT(out->traffic_bytes[LINK_PCIE] > 0 && out->traffic_bytes[LINKS_DRAM] > 0);
    EXPECT(in->traffic_bytes[LINK_NVLINK] > 0);
    EXPECT_REAL(in->traffic_bytes[LINKS_OTHER] + out->traffic_bytes[LINKS_OTHER], 0, 0.0);
    EXPECT(out->rates[RATE_STEP_TIME] > in->rates[RATE_STEP_TIME]);
    close_both(&d);
    free(a);
    free(b);
}

/* Every link of every machine of the library has a kind, and ends agree with it. */
static void test_link_kinds(void)
{
    for (uint32_t i = 0; i < machine_library_count(); i++) {
        struct machine machine;
        struct cluster cluster;
        struct error error = { 0 };
        uint32_t links = 0;
        EXPECT_INT(machine_load(&machine, machine_library_name(i), &error), STATUS_OK);
        EXPECT_INT(
            cluster_build(&cluster, &machine, machine_part_kind_count(&machine, PART_NIC) > 0 ? 2 : 1, 0, &error),
            STATUS_OK);
        for (uint32_t r = 0; r < cluster.resource_count; r++) {
            const struct resource *resource = &cluster.resources[r];
            const char *kind = link_kind_word(&cluster, r);
            bool link = resource->kind == RESOURCE_LINK || resource->kind == RESOURCE_FABRIC;
            links += link;
            if (link && strcmp(kind, "other") == 0) {
                TEST_FAIL_("%s: %s is no known kind", machine.name, resource->name);
            }
            if (resource->kind == RESOURCE_SM || resource->kind == RESOURCE_HBM) {
                EXPECT_TEXT(kind, "other");
            } else if (resource->kind == RESOURCE_NIC) {
                EXPECT_TEXT(kind, "network");
            } else if (link && strstr(resource->name, "plx") != NULL) {
                EXPECT_TEXT(kind, "pcie");
            }
        }
        EXPECT(links > 0);
        cluster_free(&cluster);
        machine_free(&machine);
    }
}

TEST_MAIN(TEST(test_figures), TEST(test_words), TEST(test_what_does_not_fit), TEST(test_json), TEST(test_bad_results),
          TEST(test_with_itself), TEST(test_offload), TEST(test_link_kinds))
