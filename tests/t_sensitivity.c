/* What-if machines against machine files edited by other means; order, determinism, what must and must not answer. */
#include <unistd.h>

#include "sim/base/file.h"
#include "sim/report/sensitivity.h"
#include "tests/test.h"

static const char OFFLOAD[] = "scenarios/gpt2-xl-one-gpu-offload.json";
static const char BIG[] = "scenarios/gpt3-175b-dgx-a100.json";

static bool load(struct scenario *scenario, const char *file, const char *const *sets, uint32_t count)
{
    struct error error = { 0 };
    char text[2048];
    if (scenario_load(scenario, file, sets, count, &error) != STATUS_OK) {
        TEST_FAIL_("%s", error_text(&error, text, sizeof text));
        return false;
    }
    return true;
}

/* Multiply the number at a path of a document, when it is there. */
static void multiply(struct json_document *document, const char *path, const struct json *object, const char *key,
                     double factor)
{
    struct error error = { 0 };
    char text[64];
    double value;
    if (json_has(object, key)) {
        EXPECT_INT(json_real(object, key, 0, 1e18, &value, &error), STATUS_OK);
        snprintf(text, sizeof text, "%.17g", value * factor);
        EXPECT_INT(json_set(document, path, text, &error), STATUS_OK);
    }
}

static bool starts(const char *text, const char *start)
{
    return strncmp(text, start, strlen(start)) == 0;
}

/* Which resource a link of the file is, by the ids at its ends: written for the library's files, and independent of sensitivity_scale.c. */
static const char *link_of(const char *a, const char *b)
{
    if (starts(b, "dram")) {
        return "dram_bandwidth";
    }
    if (starts(b, "nic")) {
        return "nic";
    }
    if (starts(b, "nvme")) {
        return "nvme";
    }
    if (starts(a, "gpu")) {
        return "nvlink";
    }
    return starts(a, "cpu") && starts(b, "cpu") ? "" : "pcie";
}

struct editing {
    struct json_document *document;
    const char *resource;
    double factor;
};

static void edit_member(const struct editing *e, const char *section, const char *key)
{
    struct json root, object;
    struct error error = { 0 };
    char path[128];
    json_root(e->document, &root);
    EXPECT_INT(json_object(&root, section, &object, &error), STATUS_OK);
    snprintf(path, sizeof path, "%s.%s", section, key);
    multiply(e->document, path, &object, key, e->factor);
}

static void edit_items(const struct editing *e, const char *array, size_t at, const char *const *keys)
{
    for (; *keys != NULL; keys++) {
        struct json root, list, item;
        struct error error = { 0 };
        char path[128];
        json_root(e->document, &root);
        EXPECT_INT(json_array(&root, array, &list, &error), STATUS_OK);
        json_item(&list, at, &item);
        snprintf(path, sizeof path, "%s.%zu.%s", array, at, *keys);
        multiply(e->document, path, &item, *keys, e->factor);
    }
}

static void edit_curve(const struct editing *e, size_t at)
{
    struct json root, list, item, points, point, value;
    struct error error = { 0 };
    double y[512], best = 0;
    json_root(e->document, &root);
    EXPECT_INT(json_array(&root, "collectives", &list, &error), STATUS_OK);
    json_item(&list, at, &item);
    EXPECT_INT(json_array(&item, "bytes_GBps", &points, &error), STATUS_OK);
    size_t count = json_count(&points);
    for (size_t i = 0; i < count; i++) {
        json_item(&points, i, &point);
        json_item(&point, 1, &value);
        EXPECT_INT(json_as_real(&value, 0, 1e9, &y[i], &error), STATUS_OK);
        best = y[i] > best ? y[i] : best;
    }
    for (size_t i = 0; i < count; i++) {
        char path[128], text[64];
        snprintf(path, sizeof path, "collectives.%zu.bytes_GBps.%zu.1", at, i);
        snprintf(text, sizeof text, "%.17g", 1 / (1 / y[i] - (1 - 1 / e->factor) / best));
        EXPECT_INT(json_set(e->document, path, text, &error), STATUS_OK);
    }
}

static size_t array_count(const struct editing *e, const char *array)
{
    struct json root, list;
    struct error error = { 0 };
    json_root(e->document, &root);
    EXPECT_INT(json_array(&root, array, &list, &error), STATUS_OK);
    return json_count(&list);
}

static const char *item_text(const struct editing *e, const char *array, size_t at, const char *key)
{
    struct json root, list, item;
    struct error error = { 0 };
    const char *text = "";
    json_root(e->document, &root);
    EXPECT_INT(json_array(&root, array, &list, &error), STATUS_OK);
    json_item(&list, at, &item);
    EXPECT_INT(json_string_or(&item, key, "", &text, &error), STATUS_OK);
    return text;
}

static void edit_topology(const struct editing *e)
{
    static const char *const rates[] = { "GBps", "back_GBps", "both_GBps", "peak_GBps", NULL };
    static const char *const nic[] = { "Gbps", NULL }, *const drive[] = { "read_GBps", "write_GBps", NULL };
    static const char *const size[] = { "capacity_GiB", NULL }, *const cores[] = { "cores", NULL };
    for (size_t i = 0; i < array_count(e, "links"); i++) {
        if (strcmp(link_of(item_text(e, "links", i, "a"), item_text(e, "links", i, "b")), e->resource) == 0) {
            edit_items(e, "links", i, rates);
        }
    }
    for (size_t i = 0; i < array_count(e, "parts"); i++) {
        const char *kind = item_text(e, "parts", i, "kind");
        const char *const *keys = strcmp(kind, "nic") == 0 && strcmp(e->resource, "nic") == 0          ? nic
                                  : strcmp(kind, "nvme") == 0 && strcmp(e->resource, "nvme") == 0      ? drive
                                  : starts(kind, "host_dram") && strcmp(e->resource, "dram_size") == 0 ? size
                                  : starts(kind, "cpu") && strcmp(e->resource, "cores") == 0           ? cores
                                                                                                       : NULL;
        if (keys != NULL) {
            edit_items(e, "parts", i, keys);
        }
    }
    if (strcmp(e->resource, "nvlink") == 0) {
        edit_member(e, "nccl", "bus_GBps");
        for (size_t i = 0; i < array_count(e, "collectives"); i++) {
            edit_curve(e, i); /* of the DGX A100: all inside one server */
        }
    }
}

static void edit_gpu(const struct editing *e)
{
    static const char *const precisions[] = { "fp32", "tf32", "fp16", "bf16", NULL };
    if (strcmp(e->resource, "hbm_size") == 0) {
        edit_member(e, "gpu", "memory_GiB");
        edit_member(e, "gpu", "usable_MiB");
    } else if (strcmp(e->resource, "hbm_bandwidth") == 0) {
        edit_member(e, "gpu", "hbm_GBps");
        edit_member(e, "gpu", "hbm_peak_GBps");
    } else if (strcmp(e->resource, "matrix") == 0) {
        for (const char *const *p = precisions; *p != NULL; p++) {
            struct json root, gpu, peaks;
            struct error error = { 0 };
            char path[64];
            json_root(e->document, &root);
            EXPECT_INT(json_object(&root, "gpu", &gpu, &error), STATUS_OK);
            EXPECT_INT(json_object(&gpu, "peak_TFLOPS", &peaks, &error), STATUS_OK);
            snprintf(path, sizeof path, "gpu.peak_TFLOPS.%s", *p);
            multiply(e->document, path, &peaks, *p, e->factor);
        }
    }
}

/* The machine's own file, edited; its path. */
static void edited_machine(const char *resource, double factor, const char *file)
{
    struct error error = { 0 };
    struct editing e = { .resource = resource, .factor = factor };
    struct strbuf text = { 0 };
    struct json root;
    EXPECT_INT(machine_open(&e.document, "dgx-a100-80gb", &error), STATUS_OK);
    edit_gpu(&e);
    edit_topology(&e);
    json_root(e.document, &root);
    json_print(&root, &text);
    EXPECT_INT(file_write(file, text.text, text.length, &error), STATUS_OK);
    strbuf_free(&text);
    json_free(e.document);
}

static int64_t step_of(const struct scenario *scenario)
{
    struct trial_result result;
    struct error error = { 0 };
    EXPECT_INT(trial_run(&result, scenario, &scenario->machine, &scenario->software, &error), STATUS_OK);
    if (!result.ran) {
        TEST_FAIL_("%s", result.reason);
    }
    return result.step_ps;
}

static void against_edited_files(const char *file, double factor, uint32_t *answered)
{
    struct scenario scenario;
    char path[64], set[96];
    struct error error = { 0 };
    snprintf(path, sizeof path, "/tmp/memwall-sensitivity-%ld.json", (long)getpid());
    snprintf(set, sizeof set, "machine=%s", path);
    static const char *const on_a100[] = { "machine=dgx-a100-80gb" };
    const char *const sets[] = { set };
    if (!load(&scenario, file, on_a100, 1)) {
        return;
    }
    int64_t base = step_of(&scenario);
    for (int r = 0; r < SCALE_HOST_ISSUE; r++) { /* the software's times are not in a machine file */
        struct scaled_machine scaled;
        struct scenario other;
        struct trial_result result = { 0 };
        double reached;
        EXPECT_INT(machine_scale(&scaled, &scenario.machine, &scenario.software, (enum scaled_resource)r, factor,
                                 &reached, &error),
                   STATUS_OK);
        EXPECT_INT(trial_run(&result, &scenario, &scaled.machine, &scaled.software, &error), STATUS_OK);
        edited_machine(scaled_resource_word((enum scaled_resource)r), reached, path);
        if (result.ran && load(&other, file, sets, 1)) {
            int64_t edited = step_of(&other);
            printf("%s, %s x %g: %lld ps, edited file %lld ps\n", file, scaled_resource_word((enum scaled_resource)r),
                   reached, (long long)result.step_ps, (long long)edited);
            EXPECT_REAL((double)result.step_ps, (double)edited, 1e-6);
            *answered |= (uint32_t)(result.step_ps != base) << r;
            scenario_free(&other);
        }
        scaled_machine_free(&scaled);
    }
    unlink(path);
    scenario_free(&scenario);
}

static void test_edited_files(void)
{
    uint32_t answered = 0;
    against_edited_files(OFFLOAD, 2, &answered);
    against_edited_files(BIG, 2, &answered);
    against_edited_files(BIG, 1.01, &answered);
    /* Had nothing moved the step time, agreement would show nothing. */
    EXPECT(answered & 1u << SCALE_HBM_BANDWIDTH);
    EXPECT(answered & 1u << SCALE_MATRIX);
    EXPECT(answered & 1u << SCALE_PCIE);
    EXPECT(answered & 1u << SCALE_NVLINK);
    EXPECT(answered & 1u << SCALE_NIC);
    EXPECT(answered & 1u << SCALE_DRAM_BANDWIDTH);
}

/* Curves: exact at the best point, unchanged latency, and back again. */
static void test_curves(void)
{
    struct machine machine;
    struct software software;
    struct scaled_machine twice, back;
    struct error error = { 0 };
    double reached;
    EXPECT_INT(machine_load(&machine, "dgx-a100-80gb", &error), STATUS_OK);
    EXPECT_INT(software_load(&software, "megatron", &error), STATUS_OK);
    EXPECT_INT(machine_scale(&twice, &machine, &software, SCALE_NVLINK, 2, &reached, &error), STATUS_OK);
    EXPECT_INT(machine_scale(&back, &twice.machine, &software, SCALE_NVLINK, 0.5, &reached, &error), STATUS_OK);
    for (uint32_t c = 0; c < machine.curve_count; c++) {
        const struct curve *a = &machine.curves[c].curve, *b = &twice.machine.curves[c].curve;
        double best = 0;
        for (size_t i = 0; i < a->count; i++) {
            best = fmax(best, exp(a->y[i]));
        }
        for (size_t i = 0; i < a->count; i++) {
            double latency = 1 / exp(a->y[i]) - 1 / best;
            EXPECT(fabs(1 / exp(b->y[i]) - 1 / (2 * best) - latency) < 1e-12 / best);
            EXPECT_REAL(exp(back.machine.curves[c].curve.y[i]), exp(a->y[i]), 1e-12);
        }
    }
    EXPECT_REAL(twice.machine.nvlink_collective_bytes_per_s, 2 * machine.nvlink_collective_bytes_per_s, 0);
    scaled_machine_free(&back);
    scaled_machine_free(&twice);
    machine_free(&machine);
}

/* What no step above answers to, by itself; and what the machine does not have. */
static void test_parts(void)
{
    struct machine machine;
    struct software software;
    struct scaled_machine scaled;
    struct error error = { 0 };
    double reached;
    EXPECT_INT(machine_load(&machine, "dgx-a100-80gb", &error), STATUS_OK);
    EXPECT_INT(software_load(&software, "megatron", &error), STATUS_OK);
    uint32_t cpu = machine_part_at(&machine, PART_CPU, 1), drive = machine_part_at(&machine, PART_NVME, 3);
    EXPECT_INT(machine_scale(&scaled, &machine, &software, SCALE_CORES, 1.02, &reached, &error), STATUS_OK);
    EXPECT_INT(scaled.machine.parts[cpu].cores, 65);
    EXPECT_REAL(reached, 65.0 / 64, 0);
    EXPECT_INT(machine.parts[cpu].cores, 64); /* the original stays */
    scaled_machine_free(&scaled);
    EXPECT_INT(machine_scale(&scaled, &machine, &software, SCALE_NVME, 2, &reached, &error), STATUS_OK);
    EXPECT_REAL(scaled.machine.parts[drive].write_bytes_per_s, 2 * machine.parts[drive].write_bytes_per_s, 0);
    scaled_machine_free(&scaled);
    EXPECT_INT(machine_scale(&scaled, &machine, &software, SCALE_DRAM_SIZE, 2, &reached, &error), STATUS_OK);
    EXPECT_REAL(scaled.machine.dram_bytes, 2 * machine.dram_bytes, 0);
    scaled_machine_free(&scaled);
    EXPECT_INT(machine_scale(&scaled, &machine, &software, SCALE_HOST_ISSUE, 2, &reached, &error), STATUS_OK);
    EXPECT_REAL(scaled.software.launch_host_s, software.launch_host_s / 2, 0);
    scaled_machine_free(&scaled);
    machine_free(&machine);
    EXPECT_INT(machine_load(&machine, "box-8x-rtx4090", &error), STATUS_OK);
    EXPECT_INT(machine_scale(&scaled, &machine, &software, SCALE_NVLINK, 2, &reached, &error), STATUS_OK);
    EXPECT_REAL(reached, 1, 0);
    scaled_machine_free(&scaled);
    machine_free(&machine);
}

static void test_sorted_and_deterministic(void)
{
    struct scenario scenario;
    struct sensitivity one, many;
    struct error error = { 0 };
    if (!load(&scenario, OFFLOAD, NULL, 0)) {
        return;
    }
    EXPECT_INT(sensitivity_compute(&one, &scenario, 1, NULL, NULL, &error), STATUS_OK);
    EXPECT_INT(sensitivity_compute(&many, &scenario, 8, NULL, NULL, &error), STATUS_OK);
    struct strbuf a = { 0 }, b = { 0 };
    struct json_writer wa = { .out = &a }, wb = { .out = &b };
    jw_object(&wa, NULL);
    sensitivity_json(&one, &wa);
    jw_end(&wa);
    jw_object(&wb, NULL);
    sensitivity_json(&many, &wb);
    jw_end(&wb);
    EXPECT_TEXT(a.text, b.text);
    for (int i = 0; i + 1 < SCALED_RESOURCE_COUNT; i++) {
        const struct sensitivity_item *x = &one.items[i], *y = &one.items[i + 1];
        EXPECT(!y->present || !x->doubled.ran || !y->doubled.ran || x->change <= y->change);
        EXPECT(!x->has_elasticity || (x->elasticity < 0.05 && x->elasticity > -1.05));
    }
    EXPECT_INT(one.base.step_ps, step_of(&scenario));
    strbuf_free(&a);
    strbuf_free(&b);
    scenario_free(&scenario);
}

TEST_MAIN(TEST(test_curves), TEST(test_edited_files), TEST(test_parts), TEST(test_sorted_and_deterministic))
