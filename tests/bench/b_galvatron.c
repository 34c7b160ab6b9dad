/* Time and memory of the Galvatron search: the searches that must be quick, and how time grows with layers, budget and strategies.
 *
 *   BERT-Huge-32, 8 devices, preset v1, 8/12/16/20 GiB together      <= 0.5 s
 *   96 layers, 64 devices, recomputation, 80 GB, galvatron-bmw        <= 10 s, <= 500 MB */
#include <sys/resource.h>

#include "strategies/planners/galvatron_cost.h"
#include "strategies/planners/galvatron_dp.h"
#include "strategies/planners/galvatron_search.h"
#include "tests/bench/bench.h"

static int failures;

static void expect(const char *what, double value, double limit, const char *unit)
{
    printf("  %-64s %10.3f %s (at most %g)%s\n", what, value, unit, limit, value <= limit ? "" : "  TOO MUCH");
    failures += value > limit;
}

static void must(enum status status, const struct error *error)
{
    if (status != STATUS_OK) {
        printf("%s\n", error->message);
        exit(1);
    }
}

static double peak_mb(void)
{
    struct rusage usage;
    (void)getrusage(RUSAGE_SELF, &usage);
    return (double)usage.ru_maxrss / 1000;
}

static void bench_bert(void)
{
    struct galvatron_model_profile model;
    struct galvatron_hardware_profile hardware;
    struct galvatron_preset preset;
    struct galvatron_source source;
    struct error error = { 0 };
    double samples[BENCH_ROUNDS];
    galvatron_table_titan(&hardware);
    must(galvatron_table_model("bert-huge-32", &model, &error), &error);
    must(galvatron_preset_init(&preset, GALVATRON_V1, &model, &hardware, &error), &error);
    galvatron_preset_source(&preset, &source);
    for (unsigned round = 0; round < BENCH_ROUNDS; round++) {
        double start = bench_now_s();
        for (int gib = 8; gib <= 20; gib += 4) {
            struct galvatron_request request;
            struct galvatron_result result;
            galvatron_request_init(&request, &source, GALVATRON_VARIANT_V1);
            request.budget_mib = gib * 1024;
            must(galvatron_search(&request, &result, &error), &error);
            galvatron_result_free(&result);
        }
        samples[round] = bench_now_s() - start;
    }
    expect("BERT-Huge-32, 8 devices, v1, four budgets", bench_median(samples, BENCH_ROUNDS), 0.5, "s");
    galvatron_preset_free(&preset);
}

/* A GPT of 39 billion parameters: 96 layers of hidden 5760; fp16 memory by 12 h^2 parameters and 34 s h + 5 a s^2 bytes without selective recomputation (activation formula of Megatron, see facts), forward at 40 % of 312 TFLOP/s. */
static void large_model(struct galvatron_model_profile *model, struct galvatron_hardware_profile *hardware)
{
    enum { HIDDEN = 5760, SEQUENCE = 2048, HEADS = 48 };
    *model = (struct galvatron_model_profile){ .name = "gpt-39b", .kind_count = 1, .mixed = true };
    struct galvatron_layer_profile *layer = &model->kinds[0];
    double s = SEQUENCE, h = HIDDEN, a = HEADS, mib = 1048576;
    layer->count = 96;
    layer->sequence = SEQUENCE;
    layer->hidden = HIDDEN;
    layer->parameter_mib = 12 * h * h * 4 / mib;
    layer->recompute_mib = 2 * s * h / mib;
    for (uint32_t k = 0; k <= 6; k++) {
        layer->activation_mib[k] = (10 * s * h + (24 * s * h + 5 * a * s * s) / (1u << k)) / mib;
    }
    layer->forward_ms = (24 * s * h * h + 4 * s * s * h) / (0.4 * 312e12) * 1e3;
    model->other = (struct galvatron_other_profile){ 51200 * h * 16 / mib, 4 * s * 51200 / mib };
    model->first = (struct galvatron_other_profile){ 51200 * h * 16 / mib, 2 * s * h / mib };
    model->last = model->other;
    *hardware = (struct galvatron_hardware_profile){ .name = "8x8", .gpus = 64, .overlap = 1.12555 };
    /* The measured classes of two servers (facts C.6), carried to eight: within a server 155 GB/s, across 44.7, strided groups share the NICs. */
    for (uint32_t k = 1; k <= 6; k++) {
        hardware->all_reduce[0][k][1] = k <= 3 ? 1 / 155.0 : 1 / 44.682;
        hardware->all_reduce[0][k][0] = 1 / (8.13 * (1u << (k < 3 ? k - 1 : 2)) * 0.65);
        hardware->p2p[k] = 1 / 8.0;
    }
}

static bool show_progress(void *context, const struct galvatron_progress *progress)
{
    *(uint64_t *)context = progress->searches;
    return true;
}

static void bench_large(void)
{
    struct galvatron_model_profile model;
    struct galvatron_hardware_profile hardware;
    struct galvatron_preset preset;
    struct galvatron_source source;
    struct galvatron_request request;
    struct galvatron_result result;
    struct error error = { 0 };
    uint64_t searches = 0;
    large_model(&model, &hardware);
    must(galvatron_preset_init(&preset, GALVATRON_G2, &model, &hardware, &error), &error);
    galvatron_preset_source(&preset, &source);
    galvatron_request_init(&request, &source, GALVATRON_VARIANT_BMW);
    request.budget_mib = 80 * 1024;
    request.batch_first = request.batch_step = 64;
    request.progress = show_progress;
    request.progress_context = &searches;
    double start = bench_now_s();
    must(galvatron_search(&request, &result, &error), &error);
    double time_s = bench_now_s() - start;
    if (result.found) {
        char *text = galvatron_plan_text(&result.best);
        printf("  %.3f samples/s, batch %.0f, %u stages, m %u, by %s; %llu dynamic programmes, %llu skipped, largest "
               "batch %.0f\n  %s\n",
               result.best.samples_per_s, result.best.batch, result.best.pipeline, result.best.micro_batches,
               result.best.found_by, (unsigned long long)result.searches, (unsigned long long)result.skipped,
               result.largest_batch, text);
        free(text);
    }
    expect("96 layers, 64 devices, recomputation, 80 GB, galvatron-bmw", time_s, 10, "s");
    expect("peak memory of the process", peak_mb(), 500, "MB");
    galvatron_result_free(&result);
    galvatron_preset_free(&preset);
}

/* Random costs whose strategies trade memory for time, so that none is dominated. */
static double time_dp(uint32_t layers, uint32_t strategies, int64_t budget_mib, bool plain)
{
    enum { STRATEGIES = 64, LAYERS = 256 };
    static uint32_t kinds[LAYERS], mib[STRATEGIES];
    static double cost[STRATEGIES], change[STRATEGIES * STRATEGIES];
    uint8_t choice[LAYERS];
    struct galvatron_dp_answer answer = { .choice = choice };
    struct error error = { 0 };
    double layer_mib = (double)budget_mib / layers;
    for (uint32_t s = 0; s < strategies; s++) {
        double x = (double)s / strategies;
        mib[s] = (uint32_t)(layer_mib * (0.5 + x));
        cost[s] = 0.01 * (2 - x);
        for (uint32_t to = 0; to < strategies; to++) {
            change[s * strategies + to] = s % 3 < to % 3 ? 1e-4 : 0;
        }
    }
    const struct galvatron_dp dp = { layers, 1, strategies, kinds, mib, cost, change, budget_mib };
    double start = bench_now_s();
    must(plain ? galvatron_dp_plain(&dp, &answer, &error) : galvatron_dp(&dp, &answer, &error), &error);
    return bench_now_s() - start;
}

static void bench_growth(void)
{
    printf("  one stage, none of its strategies dominated: ms, and the plain form's\n");
    for (uint32_t layers = 16; layers <= 128; layers *= 2) {
        printf("    layers %4u, 20 strategies, 16384 MiB: %9.2f %9.2f\n", layers,
               1e3 * time_dp(layers, 20, 16384, false), 1e3 * time_dp(layers, 20, 16384, true));
    }
    for (int64_t budget = 8192; budget <= 65536; budget *= 2) {
        printf("    budget %6lld MiB, 32 layers, 20 strategies: %9.2f %9.2f\n", (long long)budget,
               1e3 * time_dp(32, 20, budget, false), 1e3 * time_dp(32, 20, budget, true));
    }
    for (uint32_t strategies = 5; strategies <= 40; strategies *= 2) {
        printf("    strategies %3u, 32 layers, 16384 MiB: %9.2f %9.2f\n", strategies,
               1e3 * time_dp(32, strategies, 16384, false), 1e3 * time_dp(32, strategies, 16384, true));
    }
}

int main(void)
{
    bench_header("galvatron");
    bench_bert();
    bench_large();
    bench_growth();
    return failures > 0;
}
