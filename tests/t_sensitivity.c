/* What-if machines against machine files edited by other means; order, determinism, what must and must not answer. */
#include <sys/wait.h>
#include <unistd.h>

#include "sim/base/file.h"
#include "sim/report/sensitivity.h"
#include "tests/test.h"

#define OFFLOAD "scenarios/gpt2-xl-one-gpu-offload.json"
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

/* The stack "deepspeed" with the host's times divided by the factor: a file to give to software=. */
static void edited_software(double factor, const char *file)
{
    static const char *const times[] = {
        "launch_us", "collective_us", "copy_us", "pass_us", "micro_batch_us", "step_us"
    };
    struct error error = { 0 };
    struct editing e = { .factor = 1 / factor };
    struct strbuf text = { 0 };
    struct json root;
    EXPECT_INT(json_load(&e.document, "hw_models/software/deepspeed.json", JSON_BYTES_MAX, &error), STATUS_OK);
    for (size_t i = 0; i < sizeof times / sizeof times[0]; i++) {
        edit_member(&e, "host", times[i]);
    }
    json_root(e.document, &root);
    json_print(&root, &text);
    EXPECT_INT(file_write(file, text.text, text.length, &error), STATUS_OK);
    strbuf_free(&text);
    json_free(e.document);
}

/* What `memwall run FILE --json FLAGS` prints, in the process of its own that a person would start; NULL after a failure, which is noted. */
static struct json_document *run_binary(const char *file, const char *flags)
{
    const char *binary = getenv("MEMWALL_BINARY");
    struct json_document *document = NULL;
    struct error error = { 0 };
    char command[1024], path[64];
    snprintf(path, sizeof path, "/tmp/memwall-sensitivity-%ld.out", (long)getpid());
    snprintf(command, sizeof command,
             "'%s' run %s --json --quiet --set machine=dgx-a100-80gb --set software=deepspeed %s >%s", binary, file,
             flags, path);
    int code = system(command);
    if ((code != 0 && WEXITSTATUS(code) != 2) || json_load(&document, path, JSON_BYTES_MAX, &error) != STATUS_OK) {
        TEST_FAIL_("%s: exit %d, %s", command, code, error.message);
    }
    unlink(path);
    return document;
}

static double number(const struct json *object, const char *key)
{
    struct error error = { 0 };
    double value = 0;
    if (json_real(object, key, -1e300, 1e300, &value, &error) != STATUS_OK) {
        TEST_FAIL_("%s", error.message);
    }
    return value;
}

/* The step time of the scenario on the library's machine with one resource edited in the file by the factor. */
static double edited_step_s(const char *scenario, const char *resource, double factor)
{
    char path[64], flags[128];
    struct json root;
    bool software = strcmp(resource, "host_issue") == 0;
    snprintf(path, sizeof path, "/tmp/memwall-sensitivity-%ld.json", (long)getpid());
    snprintf(flags, sizeof flags, "--set %s=%s", software ? "software" : "machine", path);
    if (software) {
        edited_software(factor, path);
    } else {
        edited_machine(resource, factor, path);
    }
    struct json_document *document = run_binary(scenario, flags);
    unlink(path);
    if (document == NULL) {
        return 0;
    }
    json_root(document, &root);
    double step_s = number(&root, "step_time_s");
    json_free(document);
    return step_s;
}

/* One row that --sensitivity prints: twice the resource, a little more, and the derivative of the two small steps, each from files edited and run. A row's elasticity is a logarithm of two times
 * that are whole picoseconds, over one of about 0.02: what a picosecond each is worth in it is its tolerance. */
static void check_row(const char *file, const struct json *row, double base_s, bool *moved)
{
    struct error error = { 0 };
    const char *resource = "";
    bool present = false;
    EXPECT_INT(json_string(row, "resource", &resource, &error), STATUS_OK);
    EXPECT_INT(json_bool(row, "present", &present, &error), STATUS_OK);
    if (!present) {
        return;
    }
    double factor = number(row, "factor"), step_s = number(row, "step_time_s");
    double edited_s = edited_step_s(file, resource, factor);
    EXPECT_REAL(step_s, edited_s, 1e-6);
    EXPECT(fabs(number(row, "change") - (edited_s / base_s - 1)) < 1e-6);
    double small = number(row, "small_factor"), more_s = edited_step_s(file, resource, small);
    EXPECT_REAL(number(row, "small_step_time_s"), more_s, 1e-6);
    /* whole cores go down by as many as up; else it is the inverse */
    double less = strcmp(resource, "cores") == 0 ? 2 - small : 1 / small;
    double less_s = edited_step_s(file, resource, less), width = log(small / less);
    double elasticity = log(more_s / less_s) / width, picosecond = 2e-12 / base_s / width;
    EXPECT(fabs(number(row, "elasticity") - elasticity) < 1e-6 + picosecond);
    *moved = *moved || edited_s < base_s || edited_s > base_s;
    printf("%s, %s x %g: %.12g s, edited file %.12g s; elasticity %.6f, of files %.6f\n", file, resource, factor,
           step_s, edited_s, number(row, "elasticity"), elasticity);
}

static const char *const RESOURCES[] = { "hbm_size",       "hbm_bandwidth", "matrix", "pcie", "nvlink",    "nic",
                                         "dram_bandwidth", "dram_size",     "cores",  "nvme", "host_issue" };
enum { RESOURCE_COUNT = sizeof RESOURCES / sizeof RESOURCES[0] };

/* What --sensitivity prints against runs of edited files; which resources moved the step. */
static void against_edited_files(const char *file, bool moved[RESOURCE_COUNT])
{
    struct json_document *document = run_binary(file, "--sensitivity");
    struct json root, rows, row;
    struct error error = { 0 };
    if (document == NULL) {
        return;
    }
    json_root(document, &root);
    EXPECT_INT(json_array(&root, "sensitivity", &rows, &error), STATUS_OK);
    EXPECT_INT(json_count(&rows), RESOURCE_COUNT);
    for (size_t i = 0; i < json_count(&rows); i++) {
        const char *resource = "";
        json_item(&rows, i, &row);
        EXPECT_INT(json_string(&row, "resource", &resource, &error), STATUS_OK);
        for (int r = 0; r < RESOURCE_COUNT; r++) {
            if (strcmp(resource, RESOURCES[r]) == 0) {
                check_row(file, &row, number(&root, "step_time_s"), &moved[r]);
            }
        }
    }
    json_free(document);
}

static void test_edited_files(void)
{
    /* Had nothing moved the step time, agreement would show nothing. Sizes of memory move no step that fits, nor do cores where DRAM binds. */
    static const char *const movers[] = { "hbm_bandwidth", "matrix",         "pcie", "nvlink",
                                          "nic",           "dram_bandwidth", "nvme", "host_issue" };
    bool moved[RESOURCE_COUNT] = { false };
    /* Copies of pageable memory, three bytes of DRAM each, beside what else asks for it: the socket's memory is full. */
    against_edited_files(OFFLOAD " --set memory_policy.name=zero3-offload --set memory_policy.pinned_weights=false"
                                 " --set memory_policy.pinned_gradients=false"
                                 " --set memory_policy.checkpoints_on_host=true --set parallel.zero_stage=3"
                                 " --set recompute=full",
                         moved);
    against_edited_files(OFFLOAD " --set memory_policy.name=zero-infinity --set parallel.zero_stage=3", moved);
    against_edited_files(BIG, moved);
    for (int r = 0; r < RESOURCE_COUNT; r++) {
        for (size_t m = 0; m < sizeof movers / sizeof movers[0]; m++) {
            if (strcmp(movers[m], RESOURCES[r]) == 0 && !moved[r]) {
                TEST_FAIL_("%s moved no step", RESOURCES[r]);
            }
        }
    }
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
    strbuf_free(&a);
    strbuf_free(&b);
    scenario_free(&scenario);
}

TEST_MAIN(TEST(test_curves), TEST(test_edited_files), TEST(test_parts), TEST(test_sorted_and_deterministic))
