/* Step times against measured ones: a100_megatron_steps.csv (288 single-node, 41 multi-node rows) and korthikanti2022.csv. One fixed set of constants per machine
 * and software. `a_steps rows` prints every row. */
#include "tests/accuracy/accuracy.h"
#include "tests/csv.h"

static bool show_rows;

static const char *megatron_scenario(const struct csv *csv, size_t row, char *text, size_t size)
{
    int gpus = (int)csv_number(csv, row, "gpus");
    int nodes = (gpus + 7) / 8;
    snprintf(
        text, size,
        "{\"schema\":\"memwall.scenario/1\",\"name\":\"%s\","
        "\"model\":{\"family\":\"gpt\",\"layers\":%s,\"hidden\":%s,\"heads\":%s,\"ffn\":%d,\"vocab\":%s,\"max_"
        "sequence\":%s},"
        "\"machine\":\"a100-80gb-hdr800\",\"nodes\":%d,\"gpus\":%d,\"software\":\"megatron\","
        "\"training\":{\"sequence_length\":%s,\"micro_batch\":%s,\"global_batch\":%s,\"precision\":\"fp16\","
        "\"optimizer\":\"adam\"},"
        "\"parallel\":{\"tensor\":%s,\"pipeline\":%s,\"data\":%s,\"pipeline_order\":\"1f1b\"},\"recompute\":\"full\"}",
        csv_text(csv, row, "id"), csv_text(csv, row, "layers"), csv_text(csv, row, "hidden"),
        csv_text(csv, row, "heads"), 4 * (int)csv_number(csv, row, "hidden"), csv_text(csv, row, "vocab"),
        csv_text(csv, row, "seq"), nodes, gpus, csv_text(csv, row, "seq"), csv_text(csv, row, "micro_batch"),
        csv_text(csv, row, "global_batch"), csv_text(csv, row, "tp"), csv_text(csv, row, "pp"),
        csv_text(csv, row, "dp"));
    return text;
}

static void megatron_steps(struct errors *single, struct errors *multi)
{
    struct csv csv;
    if (!csv_load(&csv, measured_folder(), "a100_megatron_steps.csv")) {
        return;
    }
    for (size_t row = 0; row < csv.rows; row++) {
        char text[2048];
        struct simulated got = simulate(megatron_scenario(&csv, row, text, sizeof text));
        double measured = csv_number(&csv, row, "iteration_time_ms") / 1e3;
        bool is_single = strcmp(csv_text(&csv, row, "set"), "single") == 0;
        double error = errors_add(is_single ? single : multi, got.ran ? got.step_s : 1e9, measured);
        if (show_rows) {
            printf("%-14s tp %s dp %s pp %s mb %s gb %s L %s h %s  measured %9.2f ms  simulated %9.2f ms  %+6.1f %%  ",
                   csv_text(&csv, row, "id"), csv_text(&csv, row, "tp"), csv_text(&csv, row, "dp"),
                   csv_text(&csv, row, "pp"), csv_text(&csv, row, "micro_batch"), csv_text(&csv, row, "global_batch"),
                   csv_text(&csv, row, "layers"), csv_text(&csv, row, "hidden"), 1e3 * measured, 1e3 * got.step_s,
                   100 * error);
            for (uint32_t c = 0; c < TIME_CLASS_COUNT; c++) {
                printf(" %s %.0f", time_class_word((enum time_class)c), 1e3 * got.exposed_s[c]);
            }
            printf("\n");
        }
    }
    csv_free(&csv);
}

/* The four published steps of Korthikanti et al. 2022, table 5. */
static void korthikanti(struct errors *times)
{
    struct csv csv;
    if (!csv_load(&csv, measured_folder(), "korthikanti2022.csv")) {
        return;
    }
    for (size_t row = 0; row < csv.rows; row++) {
        if (strcmp(csv_text(&csv, row, "metric"), "iteration_time") != 0) {
            continue;
        }
        bool big = csv_number(&csv, row, "pp") > 1;
        bool sequence_parallel = csv_number(&csv, row, "seq_parallel") > 0;
        char text[1024];
        snprintf(
            text, sizeof text,
            "{\"schema\":\"memwall.scenario/"
            "1\",\"name\":\"%s\",\"model\":\"%s\",\"machine\":\"dgx-a100-80gb\",\"nodes\":%d,\"software\":\"megatron\","
            "\"training\":{\"sequence_length\":2048,\"micro_batch\":%s,\"global_batch\":%s,\"precision\":\"fp16\"},"
            "\"parallel\":{\"tensor\":8,\"sequence_parallel\":%s,\"pipeline\":%s,\"data\":1,\"pipeline_order\":\"%s\","
            "\"virtual_stages\":%s},"
            "\"recompute\":\"%s\"}",
            csv_text(&csv, row, "id"), big ? "gpt3-175b" : "megatron-22b", big ? 8 : 1,
            csv_text(&csv, row, "micro_batch"), csv_text(&csv, row, "global_batch"),
            sequence_parallel ? "true" : "false", csv_text(&csv, row, "pp"), big ? "interleaved" : "1f1b",
            big ? csv_text(&csv, row, "interleave") : "1", csv_text(&csv, row, "recompute"));
        struct simulated got = simulate(text);
        double error = errors_add(times, got.ran ? got.step_s : 1e9, csv_number(&csv, row, "value"));
        if (show_rows) {
            printf("%-18s measured %7.3f s  simulated %7.3f s  %+5.1f %%  mfu %.1f hfu %.1f ",
                   csv_text(&csv, row, "id"), csv_number(&csv, row, "value"), got.step_s, 100 * error, 100 * got.mfu,
                   100 * got.hfu);
            for (uint32_t c = 0; c < TIME_CLASS_COUNT; c++) {
                printf(" %s %.0f", time_class_word((enum time_class)c), 1e3 * got.exposed_s[c]);
            }
            printf("\n");
        }
    }
    csv_free(&csv);
}

int main(int argc, char **argv)
{
    show_rows = argc > 1 && strcmp(argv[1], "rows") == 0;
    struct errors single = { .name = "step time, GPT on 1-8 A100 (vTrain data)" };
    struct errors multi = { .name = "step time, GPT on 64-512 A100 (vTrain data)" };
    struct errors published = { .name = "step time, 22B and 175B (Korthikanti et al. 2022)" };
    megatron_steps(&single, &multi);
    korthikanti(&published);
    if (single.count + published.count == 0) {
        printf("skipped: no data\n");
        return 77;
    }
    int bad = errors_print(&single, 0.08);
    bad += errors_print(&multi, 0.10);
    bad += errors_print(&published, 0.04);
    return bad > 0;
}
