/* Reports: breakdowns that add up, traffic by class, series, CSV, files, explanations. */
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sim/base/file.h"
#include "sim/base/units.h"
#include "sim/report/breakdown.h"
#include "sim/report/csv.h"
#include "sim/report/explain.h"
#include "sim/report/files.h"
#include "sim/report/link_series.h"
#include "sim/report/text_table.h"
#include "tests/report_run.h"

#define SMALL "\"model\": \"gpt2\", \"machine\": \"dgx-a100-80gb\", \"software\": \"megatron\""

/* Plain pipeline and data parallelism with ZeRO; tensor parallelism with chunks; sharded weights; shards of gradients that the reduction makes; one lone GPU. */
static const char *const SCENARIOS[] = {
    "{" SMALL ", \"gpus\": 4, \"training\": {\"micro_batch\": 2, \"global_batch\": 16}, \"recompute\": \"full\","
    " \"parallel\": {\"pipeline\": 2, \"data\": 2, \"zero_stage\": 1}}",
    "{" SMALL
    ", \"gpus\": 8, \"training\": {\"global_batch\": 8}, \"recompute\": \"selective\", \"parallel\": {\"tensor\": 4, "
    "\"sequence_parallel\": true, \"pipeline\": 2, \"pipeline_order\": \"interleaved\", \"virtual_stages\": 2}}",
    "{" SMALL ", \"gpus\": 4, \"training\": {\"global_batch\": 8}, \"parallel\": {\"data\": 4, \"zero_stage\": 3}}",
    "{\"model\": \"gpt2\", \"machine\": \"dgx-a100-80gb\", \"software\": {\"base\": \"megatron\", \"memory\": {"
    "\"gradients_as_made\": true}}, \"gpus\": 2, \"training\": {\"global_batch\": 4}, \"parallel\": {\"data\": 2, "
    "\"zero_stage\": 3}}",
    "{" SMALL ", \"gpus\": 1, \"training\": {\"global_batch\": 2}}",
};
enum { SCENARIO_COUNT = sizeof SCENARIOS / sizeof SCENARIOS[0] };

/* States fit one GPU, the activations of 32 sequences do not. */
static const char UNFIT[] = "{\"model\": \"gpt3-1.7b\", \"machine\": \"dgx-a100-80gb\", \"gpus\": 1, "
                            "\"training\": {\"micro_batch\": 32, \"global_batch\": 32}}";

/* A sum of k terms of rounded doubles is off by at most k ulp of the whole; picoseconds become seconds with one rounding each. */
static double sum_tolerance(const struct report_run *run)
{
    return (double)run->schedule.op_count * 2.3e-16;
}

static void test_exposed_times_sum_to_the_step(void)
{
    for (uint32_t k = 0; k < SCENARIO_COUNT; k++) {
        struct report_run *run = calloc(1, sizeof *run);
        if (report_run(run, SCENARIOS[k])) {
            EXPECT_INT(run->result.stage_count, run->schedule.rank_count);
            for (uint32_t i = 0; i < run->result.stage_count; i++) {
                const struct stage_times *times = &run->result.stages[i];
                double sum = 0;
                for (uint32_t c = 0; c < TIME_CLASS_COUNT; c++) {
                    sum += times->exposed_s[c];
                    EXPECT(times->exposed_s[c] >= 0);
                    EXPECT(times->busy_s[c] >= times->exposed_s[c] - sum_tolerance(run) * run->result.step_time_s);
                }
                EXPECT_REAL(sum, run->result.step_time_s, sum_tolerance(run));
                EXPECT(times->exposed_s[TIME_COMPUTE] > 0);
            }
        }
        report_run_free(run);
        free(run);
    }
}

/* Passes of two servers' stages that contention stretches: collectives merged into them are stretched alike, and never exposed for longer than busy. The allocator
 * of neither holds less than what is live. */
static void test_stretched_passes(void)
{
    static const char *const texts[] = {
        "{\"model\": \"gpt3-1.7b\", \"machine\": \"dgx-a100-80gb\", \"nodes\": 2, \"software\": \"torchtitan\","
        " \"training\": {\"global_batch\": 8}, \"parallel\": {\"tensor\": 8, \"pipeline\": 2}}",
        "{\"model\": \"gpt2\", \"machine\": \"toy-2gpu\", \"software\": \"ideal\","
        " \"training\": {\"global_batch\": 4}, \"parallel\": {\"pipeline\": 2}}",
    };
    for (uint32_t k = 0; k < sizeof texts / sizeof texts[0]; k++) {
        struct report_run *run = calloc(1, sizeof *run);
        if (report_run(run, texts[k])) {
            for (uint32_t i = 0; i < run->result.stage_count; i++) {
                const struct stage_times *times = &run->result.stages[i];
                EXPECT(k > 0 || times->exposed_s[TIME_TENSOR_COMM] > 0);
                EXPECT(times->busy_s[TIME_TENSOR_COMM] >=
                       times->exposed_s[TIME_TENSOR_COMM] - sum_tolerance(run) * run->result.step_time_s);
            }
            for (uint32_t i = 0; i < run->schedule.space_count; i++) {
                EXPECT(run->timeline.spaces[i].peak_reserved_bytes >= run->timeline.spaces[i].peak_bytes);
            }
        }
        report_run_free(run);
        free(run);
    }
}

static void test_recomputation_is_told_apart(void)
{
    struct report_run *run = calloc(1, sizeof *run);
    if (report_run(run, SCENARIOS[0])) {
        EXPECT(run->result.stages[0].exposed_s[TIME_RECOMPUTE] > 0);
        EXPECT(run->result.hfu > run->result.mfu);
        EXPECT(run->result.mfu > 0 && run->result.hfu < 1);
    }
    report_run_free(run);
    free(run);
}

static void test_executed_words(void)
{
    EXPECT_PART(result_executed_words(1, 1.3, true), "with recomputation");
    EXPECT_PART(result_executed_words(1, 1.0001, false), "padding of the vocabulary");
    EXPECT_PART(result_executed_words(1, 0.9, true), "masked half");
    EXPECT_PART(result_executed_words(1, 1, false), "as the model's FLOPs count them");
}

static void test_traffic_by_class_sums_to_bytes(void)
{
    for (uint32_t k = 0; k < SCENARIO_COUNT; k++) {
        struct report_run *run = calloc(1, sizeof *run);
        if (report_run(run, SCENARIOS[k])) {
            EXPECT(k == SCENARIO_COUNT - 1 || run->result.link_count > 0);
            for (uint32_t i = 0; i < run->result.link_count; i++) {
                const struct link_traffic *link = &run->result.links[i];
                double sum = 0;
                for (uint32_t c = 0; c < TIME_CLASS_COUNT; c++) {
                    sum += link->class_bytes[c];
                }
                /* The engine integrates rates in pieces of whole picoseconds: a relative error of a rounding a piece. */
                EXPECT_REAL(sum, link->bytes, 1e-9);
                EXPECT(i == 0 || link->bytes <= run->result.links[i - 1].bytes);
                EXPECT(link->busy_fraction >= 0 && link->busy_fraction <= 1 + 1e-9);
                /* Nothing moves faster than its link. */
                double capacity = run->scenario.cluster.resources[link->resource].capacity;
                EXPECT(link->bytes <= capacity * link->busy_fraction * run->result.step_time_s * (1 + 1e-9));
            }
        }
        report_run_free(run);
        free(run);
    }
}

static const struct explain_section *section_of(const struct explanation *explanation, const char *id)
{
    for (size_t i = 0; i < explanation->sections.count; i++) {
        if (strcmp(explanation->sections.items[i].id, id) == 0) {
            return &explanation->sections.items[i];
        }
    }
    TEST_FAIL_("no section \"%s\"", id);
    return NULL;
}

/* Tensor-parallel collectives merged into passes keep their links for their own time, not the pass's. */
static void test_merged_collectives_leave_links_idle(void)
{
    struct report_run *run = calloc(2, sizeof *run);
    char text[2][512];
    for (int k = 0; k < 2; k++) {
        snprintf(text[k], sizeof text[k],
                 "{" SMALL ", \"gpus\": 4, \"detail\": \"%s\", \"training\": {\"micro_batch\": 8, \"global_batch\": 8},"
                 " \"parallel\": {\"tensor\": 4}}",
                 k == 0 ? "layer" : "op");
    }
    if (report_run(&run[0], text[0]) && report_run(&run[1], text[1])) {
        EXPECT(run[0].result.link_count > 0 && run[1].result.link_count > 0);
        /* An op of its own holds no link while it waits out its latency; inside a pass the latency counts, and late
         * launches stretch the pass. */
        double merged = run[0].result.links[0].busy_fraction, apart = run[1].result.links[0].busy_fraction;
        EXPECT(merged >= apart);
        EXPECT_REAL(merged, run[0].result.stages[0].busy_s[TIME_TENSOR_COMM] / run[0].result.step_time_s, 0.03);
    }
    report_run_free(&run[0]);
    report_run_free(&run[1]);
    free(run);
}

/* The summary of a run: at most 110 columns, the headline in capitals once, a warning where only the allocator's blocks do not fit. */
static void test_summary(void)
{
    struct report_run *run = calloc(1, sizeof *run);
    for (uint32_t k = 0; k <= SCENARIO_COUNT; k++) {
        struct strbuf out = { 0 };
        if (report_run(run, k < SCENARIO_COUNT ? SCENARIOS[k] : UNFIT)) {
            result_print_summary(&run->result, &run->input, &out);
            EXPECT(!out.failed && out.text != NULL && strstr(out.text, "WARNING") == NULL);
            for (const char *line = out.text; *line != '\0'; line += strcspn(line, "\n") + 1) {
                EXPECT(strcspn(line, "\n") <= 110);
            }
            EXPECT_INT(strstr(out.text, "DOES NOT FIT: ") != NULL, k == SCENARIO_COUNT);
            EXPECT(strstr(out.text, "does not fit") == NULL);
            strbuf_free(&out);
            out = (struct strbuf){ 0 };
            if (k < SCENARIO_COUNT) {
                for (uint32_t i = 0; i < run->schedule.space_count; i++) {
                    run->timeline.spaces[i].peak_reserved_bytes = run->schedule.spaces[i].capacity_bytes + 1;
                }
                result_print_summary(&run->result, &run->input, &out);
                EXPECT_PART(out.text,
                            "WARNING: fragmentation of gpu 0: the allocator model would hold 79.2 GiB of 79.2 GiB");
            }
        }
        strbuf_free(&out);
        report_run_free(run);
        memset(run, 0, sizeof *run);
    }
    free(run);
}

/* A pinned space is part of a host space, not one more like it; Adam on the host is told as such. */
static void test_optimizer_on_host(void)
{
    struct report_run *run = calloc(1, sizeof *run);
    struct explanation x = { 0 };
    struct error error = { 0 };
    if (report_run(run, "{" SMALL ", \"gpus\": 1, \"training\": {\"global_batch\": 2}, \"memory_policy\": "
                        "{\"name\": \"optimizer-on-host\", \"overlap\": false}}")) {
        struct strbuf out = { 0 };
        result_print_summary(&run->result, &run->input, &out);
        EXPECT_PART(out.text, "\n  host memory of server 0 ");
        EXPECT_PART(out.text, "\n  pinned memory of server 0 ");
        EXPECT_PART(out.text, "Adam on the host");
        EXPECT(strstr(out.text, "ZeRO") == NULL);
        strbuf_free(&out);
        const struct explain_input input = { .scenario = &run->scenario, .result = &run->result, .input = &run->input };
        EXPECT_INT(explain_scenario(&x, &input, &error), STATUS_OK);
        const struct explain_section *policy = section_of(&x, "policy"), *adam = section_of(&x, "host_optimizer");
        EXPECT(policy != NULL && policy->tables.count == 2 && adam != NULL && adam->tables.count == 1);
        if (policy != NULL && policy->tables.count == 2 && adam != NULL && adam->tables.count == 1) {
            const struct explain_cell *overlap = &policy->tables.items[0].cells.items[4];
            EXPECT_TEXT(overlap[0].text, "overlap");
            EXPECT_TEXT(overlap[1].text, "false");
            EXPECT_TEXT(overlap[2].text, "true");
            const struct explain_cell *row = adam->tables.items[0].cells.items;
            EXPECT_REAL(row[2].value, (double)model_parameters(&run->scenario.model),
                        0.01); /* the vocabulary is padded */
            EXPECT_REAL(row[3].value, 28 * row[2].value, 1e-12);
            /* The formula against what the engine found. */
            double rate = row[5].value < row[6].value ? row[5].value : row[6].value;
            EXPECT_REAL(row[8].value, row[2].value / (rate * 1e9), 1e-6);
            const struct explain_cell *down = policy->tables.items[1].cells.items;
            EXPECT_REAL(down[4].value, row[2].value * run->scenario.software.gradient_bytes, 1e-12);
        }
        explanation_free(&x);
    }
    report_run_free(run);
    free(run);
}

/* GPipe of two stages and one micro-batch, forward, backward and hop of one unit each:
 *   stage 0  F [0,1]  waits [1,4] for stage 1, hop [4,5], B [5,6]
 *   stage 1  waits [0,1], hop [1,2], F [2,3], B [3,4], its own hop [4,5], waits [5,6] for the end */
static void test_causes_of_a_bare_pipeline(void)
{
    struct schedule schedule = { 0 };
    struct timeline timeline = { 0 };
    if (bare_run(2, 1, &schedule, &timeline)) {
        const double unit_s = s_from_ps(BARE_UNIT_PS);
        static const double compute[] = { 2, 2 }, comm[] = { 1, 2 }, bubble[] = { 3, 2 };
        EXPECT_INT(timeline.end_ps, 6 * BARE_UNIT_PS);
        for (uint32_t r = 0; r < 2; r++) {
            struct stage_times times;
            const struct step_window window = timeline_step(&schedule, &timeline);
            breakdown_rank(&times, &schedule, &timeline, NULL, &window, r);
            EXPECT_REAL(times.exposed_s[TIME_COMPUTE], compute[r] * unit_s, 1e-12);
            EXPECT_REAL(times.exposed_s[TIME_PIPELINE_COMM], comm[r] * unit_s, 1e-12);
            EXPECT_REAL(times.exposed_s[TIME_BUBBLE], bubble[r] * unit_s, 1e-12);
            EXPECT_REAL(times.exposed_s[TIME_HOST_ISSUE], 0, 0);
        }
    }
    timeline_free(&timeline);
    schedule_free(&schedule);
}

static void test_link_series_hold_the_bytes(void)
{
    struct report_run *run = calloc(1, sizeof *run);
    struct arena arena = { 0 };
    struct error error = { 0 };
    if (report_run(run, SCENARIOS[1])) {
        uint32_t chosen[8];
        struct link_series series[8];
        uint32_t count = link_series_choose(&run->result, &run->input, 8, chosen);
        EXPECT(count > 0);
        EXPECT_INT(link_series_compute(&run->result, &run->input, chosen, count, &arena, series, &error), STATUS_OK);
        for (uint32_t l = 0; l < count; l++) {
            double bytes = 0;
            for (uint32_t i = 0; i < series[l].count; i++) {
                int64_t to = i + 1 < series[l].count ? series[l].times_ps[i + 1] : run->timeline.end_ps;
                bytes += series[l].bytes_per_s[i] * s_from_ps(to - series[l].times_ps[i]);
            }
            EXPECT(series[l].alike >= 1);
            EXPECT_REAL(bytes, run->result.links[chosen[l]].bytes, 1e-6);
        }
    }
    arena_free(&arena);
    report_run_free(run);
    free(run);
}

static void test_result_json(void)
{
    static const char *const keys[] = { "schema",
                                        "fits",
                                        "step_time_s",
                                        "samples_per_s",
                                        "tokens_per_s",
                                        "tokens_per_s_per_gpu",
                                        "model_tflops_per_gpu",
                                        "hardware_tflops_per_gpu",
                                        "mfu",
                                        "hfu",
                                        "schedule_hash",
                                        "devices",
                                        "time_breakdown",
                                        "traffic",
                                        "bounds" };
    struct report_run *run = calloc(1, sizeof *run);
    struct strbuf out = { 0 };
    struct error error = { 0 };
    struct json_document *document = NULL;
    if (report_run(run, SCENARIOS[0])) {
        struct json root, devices, device, at_peak;
        double step = 0;
        result_print_json(&run->result, &run->input, &out);
        EXPECT_INT(json_parse(&document, out.text, out.length, "result", &error), STATUS_OK);
        json_root(document, &root);
        for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
            EXPECT(json_has(&root, keys[i]));
        }
        EXPECT_INT(json_real(&root, "step_time_s", 0, 1e9, &step, &error), STATUS_OK);
        EXPECT_REAL(step, run->result.step_time_s, 0);
        EXPECT_INT(json_array(&root, "devices", &devices, &error), STATUS_OK);
        EXPECT_INT(json_count(&devices), 2);
        for (size_t i = 0; i < json_count(&devices); i++) {
            int64_t peak = 0, sum = 0;
            json_item(&devices, i, &device);
            EXPECT_INT(json_int(&device, "peak_bytes", 1, INT64_C(1) << 50, &peak, &error), STATUS_OK);
            EXPECT_INT(json_object(&device, "at_peak", &at_peak, &error), STATUS_OK);
            for (uint32_t c = 0; c < BUFFER_CLASS_COUNT; c++) {
                int64_t bytes = 0;
                EXPECT_INT(
                    json_int(&at_peak, buffer_class_word((enum buffer_class)c), 0, INT64_C(1) << 50, &bytes, &error),
                    STATUS_OK);
                sum += bytes;
            }
            EXPECT_INT(sum, peak);
        }
    }
    json_free(document);
    strbuf_free(&out);
    report_run_free(run);
    free(run);
}

static uint32_t lines(const char *text)
{
    uint32_t count = 0;
    for (; text != NULL && *text != '\0'; text++) {
        count += *text == '\n';
    }
    return count;
}

static uint32_t columns(const char *text)
{
    uint32_t count = 1;
    for (; *text != '\0' && *text != '\n'; text++) {
        count += *text == ',';
    }
    return count;
}

/* Every line as many columns as the head: no label of these scenarios needs quoting. */
static void expect_table(const struct strbuf *out, uint32_t rows)
{
    EXPECT(out->text != NULL && !out->failed);
    EXPECT_INT(lines(out->text), rows + 1);
    uint32_t wanted = columns(out->text);
    for (const char *at = out->text; at != NULL && *at != '\0';) {
        EXPECT_INT(columns(at), wanted);
        at = strchr(at, '\n');
        at = at != NULL ? at + 1 : NULL;
    }
}

static void test_csv(void)
{
    struct report_run *run = calloc(1, sizeof *run);
    struct strbuf out = { 0 };
    if (report_run(run, SCENARIOS[0])) {
        csv_ops(&run->input, &out);
        expect_table(&out, run->schedule.op_count);
        EXPECT_PART(out.text, "start_us,end_us");
        strbuf_free(&out);
        out = (struct strbuf){ 0 };
        csv_links(&run->result, &run->input, &out);
        expect_table(&out, run->result.link_count);
        strbuf_free(&out);
        out = (struct strbuf){ 0 };
        csv_stages(&run->result, &run->input, &out);
        expect_table(&out, run->result.stage_count);
        EXPECT_PART(out.text, "bubble_exposed_s");
    }
    strbuf_free(&out);
    report_run_free(run);
    free(run);
}

static void expect_filter(const char *text, const char *wanted)
{
    bool ranks[8];
    struct error error = { 0 };
    EXPECT_INT(files_rank_filter(text, 8, ranks, &error), STATUS_OK);
    for (uint32_t i = 0; i < 8; i++) {
        EXPECT_INT(ranks[i], wanted[i] == '1');
    }
}

static void expect_bad_filter(const char *text, const char *part)
{
    bool ranks[8];
    struct error error = { 0 };
    EXPECT_INT(files_rank_filter(text, 8, ranks, &error), STATUS_BAD_INPUT);
    EXPECT_PART(error.message, part);
}

static void test_rank_filter(void)
{
    expect_filter("0", "10000000");
    expect_filter("0,2-4", "10111000");
    expect_filter("7,0-7", "11111111");
    expect_bad_filter("", "expected numbers");
    expect_bad_filter("1,", "expected numbers");
    expect_bad_filter("1;2", "expected numbers");
    expect_bad_filter("-1", "expected numbers");
    expect_bad_filter("99999999999999999999", "expected numbers");
    expect_bad_filter("0,8", "ranks 0 to 7");
    expect_bad_filter("4-2", "backwards");
}

static long file_bytes(const char *folder, const char *name)
{
    char path[512];
    struct stat about;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return stat(path, &about) == 0 ? (long)about.st_size : -1;
}

static void expect_files(const struct report_run *run, const char *folder, const char *const *names, size_t count)
{
    char note[256] = "unset";
    struct error error = { 0 };
    const struct files_options options = { .folder = folder, .ranks = "0", .note = note, .note_bytes = sizeof note };
    EXPECT_INT(files_write(&run->result, &run->input, &options, &error), STATUS_OK);
    for (size_t i = 0; i < count; i++) {
        if (file_bytes(folder, names[i]) <= 0) {
            TEST_FAIL_("%s/%s is missing or empty", folder, names[i]);
        }
    }
    /* Pictures need gnuplot; without it there is a note. */
    bool drawn = file_bytes(folder, "timeline.svg") > 0 && file_bytes(folder, "timeline.png") > 0;
    EXPECT(drawn != (note[0] != '\0'));
    EXPECT(file_bytes(folder, "timeline.svg") < 1 << 20);
    EXPECT(file_bytes(folder, "memory.svg") < 1 << 20);
    EXPECT_INT(file_bytes(folder, "timeline.svg.tmp"), -1);
    EXPECT_INT(file_bytes(folder, "trace.json.gz.tmp"), -1);
}

static void remove_folder(const char *folder)
{
    char command[600];
    snprintf(command, sizeof command, "rm -r '%s'", folder);
    EXPECT_INT(system(command), 0);
}

static void test_files(void)
{
    static const char *const fits[] = { "result.json",    "trace.json.gz",     "ops.csv",           "memory.csv",
                                        "links.csv",      "stages.csv",        "plots/timeline.gp", "plots/memory.dat",
                                        "plots/links.gp", "plots/breakdown.gp" };
    static const char *const not [] = { "result.json", "trace.json.gz", "ops.csv", "memory.csv", "plots/timeline.gp" };
    char folder[] = "/tmp/memwall-report-XXXXXX", inside[64];
    struct report_run *run = calloc(2, sizeof *run);
    struct error error = { 0 };
    if (mkdtemp(folder) == NULL) {
        TEST_FAIL_("no temporary folder");
    } else if (report_run(&run[0], SCENARIOS[1]) && report_run(&run[1], UNFIT)) {
        snprintf(inside, sizeof inside, "%s/a/b", folder);
        expect_files(&run[0], inside, fits, sizeof fits / sizeof fits[0]);
        EXPECT(!run[1].result.fits);
        EXPECT_PART(run[1].result.outcome.text, "does not fit");
        snprintf(inside, sizeof inside, "%s/unfit", folder);
        expect_files(&run[1], inside, not, sizeof not / sizeof not [0]);
        /* A bad filter is found before anything is written. */
        snprintf(inside, sizeof inside, "%s/never", folder);
        const struct files_options options = { .folder = inside, .ranks = "2-1" };
        EXPECT_INT(files_write(&run[0].result, &run[0].input, &options, &error), STATUS_BAD_INPUT);
        EXPECT_INT(file_bytes(folder, "never"), -1);
    }
    remove_folder(folder);
    report_run_free(&run[0]);
    report_run_free(&run[1]);
    free(run);
}

static double term_of(const struct explanation *explanation, const char *id, const char *name)
{
    const struct explain_section *section = section_of(explanation, id);
    for (size_t i = 0; section != NULL && i < section->terms.count; i++) {
        if (strcmp(section->terms.items[i].name, name) == 0) {
            return section->terms.items[i].value.value;
        }
    }
    TEST_FAIL_("no term \"%s\" in section \"%s\"", name, id);
    return 0;
}

static void expect_explanation(const struct report_run *run)
{
    struct explanation x = { 0 };
    struct error error = { 0 };
    struct strbuf out = { 0 };
    struct json_document *document = NULL;
    const struct explain_input input = { .scenario = &run->scenario, .result = &run->result, .input = &run->input };
    EXPECT_INT(explain_scenario(&x, &input, &error), STATUS_OK);
    const struct model *model = &run->scenario.model;
    EXPECT_REAL(term_of(&x, "model", "whole model"), (double)model_parameters(model), 0);
    /* Its parts are worked out apart from model_layer_parameters. */
    EXPECT_REAL(term_of(&x, "model", "attention of a layer") + term_of(&x, "model", "feed-forward of a layer") +
                    term_of(&x, "model", "norms of a layer"),
                (double)model_layer_parameters(model), 0);
    const struct explain_table *states = &section_of(&x, "states")->tables.items[0];
    for (size_t row = 0; row < states->cells.count; row += states->column_count) {
        /* Formula against buffers of the schedule, each of which is rounded up to a byte. */
        EXPECT_REAL(states->cells.items[row + 7].value, states->cells.items[row + 6].value, 1e-6);
    }
    explanation_print_text(&x, &out);
    EXPECT(!out.failed);
    EXPECT_PART(out.text, "== Kernels ==");
    EXPECT_INT(strstr(out.text, "causal attention") != NULL, model->causal && run->scenario.software.flash_attention);
    strbuf_free(&out);
    out = (struct strbuf){ 0 };
    explanation_print_json(&x, &out);
    EXPECT_INT(json_parse(&document, out.text, out.length, "explain", &error), STATUS_OK);
    json_free(document);
    strbuf_free(&out);
    explanation_free(&x);
}

static void test_explain(void)
{
    for (uint32_t k = 0; k <= SCENARIO_COUNT; k++) {
        struct report_run *run = calloc(1, sizeof *run);
        if (report_run(run, k < SCENARIO_COUNT ? SCENARIOS[k] : UNFIT)) {
            expect_explanation(run);
        }
        report_run_free(run);
        free(run);
    }
}

static void test_text_table(void)
{
    struct text_table table = { .column_count = 3, .right = 1u << 1, .last_width = 12 };
    struct strbuf out = { 0 };
    static const char *const cells[] = { "name",       "bytes", "what",          "a", "12", "one two three four",
                                         "long\nname", "3",     "\033x\xc2\x9by" };
    for (size_t i = 0; i < sizeof cells / sizeof cells[0]; i++) {
        text_table_cell(&table, "%s", cells[i]);
    }
    text_table_print(&table, 1, true, &out);
    EXPECT_TEXT(out.text, " name       bytes  what\n"
                          " ---------  -----  ------------\n"
                          " a             12  one two\n"
                          "                   three four\n"
                          " long name      3  x y\n");
    text_table_free(&table);
    strbuf_free(&out);
}

/* What a real executor returns: gates and memory, no resources. Figures that need the inside of the simulation are left out and said to be. */
static void test_measured_timelines(void)
{
    struct report_run *run = calloc(1, sizeof *run);
    char folder[] = "/tmp/memwall-measured-XXXXXX", path[128];
    struct error error = { 0 };
    struct strbuf json = { 0 }, summary = { 0 };
    char note[256] = "";
    EXPECT(mkdtemp(folder) != NULL);
    if (report_run(run, SCENARIOS[0])) {
        const double steps_s[] = { 3, 1, 2, 4 };
        const struct measured_steps measured = measured_steps(steps_s, 4);
        EXPECT_REAL(measured.median_s, 2, 0); /* the lower one */
        EXPECT_REAL(measured.min_s, 1, 0);
        EXPECT_REAL(measured.max_s, 4, 0);
        run->timeline.resources = NULL;
        run->timeline.resource_count = 0;
        run->timeline.rates = NULL;
        run->timeline.rate_count = 0;
        snprintf(run->timeline.executor, sizeof run->timeline.executor, "host");
        run->input.measured = &measured;
        run->input.is_elsewhere = true;
        result_free(&run->result);
        EXPECT_INT(result_compute(&run->result, &run->input, &error), STATUS_OK);
        EXPECT(run->result.fits && run->result.mfu <= 0 && run->result.hfu <= 0);
        EXPECT(run->result.model_tflops_per_gpu > 0);
        EXPECT_INT(run->result.link_count, 0);
        for (uint32_t i = 0; i < run->result.stage_count; i++) {
            double sum = 0;
            for (uint32_t c = 0; c < TIME_CLASS_COUNT; c++) {
                sum += run->result.stages[i].exposed_s[c];
            }
            EXPECT_REAL(sum, run->result.step_time_s, sum_tolerance(run));
        }
        result_print_json(&run->result, &run->input, &json);
        result_print_summary(&run->result, &run->input, &summary);
        EXPECT_PART(json.text, "\"median\": 2,");
        EXPECT_PART(json.text, "\"mfu\": null");
        EXPECT_PART(json.text, "\"traffic\": []");
        EXPECT_PART(json.text, "\"traffic_absent\": ");
        EXPECT_PART(summary.text, "(median of 4 measured steps: 1.00 s to 4.00 s)");
        EXPECT_PART(summary.text, "Measured on this computer, not on dgx-a100-80gb");
        const struct files_options options = { .folder = folder, .note = note, .note_bytes = sizeof note };
        EXPECT_INT(files_write(&run->result, &run->input, &options, &error), STATUS_OK);
        snprintf(path, sizeof path, "%s/trace.json.gz", folder);
        EXPECT(file_exists(path));
        snprintf(path, sizeof path, "%s/timeline.svg", folder);
        EXPECT(file_exists(path) || strstr(note, "gnuplot") != NULL);
        snprintf(path, sizeof path, "%s/alone.json.gz", folder);
        EXPECT_INT(files_trace(path, &run->input, &error), STATUS_OK);
        EXPECT(file_exists(path));
    }
    strbuf_free(&json);
    strbuf_free(&summary);
    report_run_free(run);
    free(run);
    char command[160];
    snprintf(command, sizeof command, "rm -r %s", folder);
    EXPECT_INT(system(command), 0);
}

TEST_MAIN(TEST(test_measured_timelines), TEST(test_exposed_times_sum_to_the_step),
          TEST(test_recomputation_is_told_apart), TEST(test_executed_words), TEST(test_stretched_passes),
          TEST(test_traffic_by_class_sums_to_bytes), TEST(test_causes_of_a_bare_pipeline),
          TEST(test_link_series_hold_the_bytes), TEST(test_result_json), TEST(test_csv), TEST(test_rank_filter),
          TEST(test_files), TEST(test_explain), TEST(test_text_table), TEST(test_merged_collectives_leave_links_idle),
          TEST(test_summary), TEST(test_optimizer_on_host))
