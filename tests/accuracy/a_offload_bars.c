/* Bars of DeepSpeed's posts that print no batch, beside the best of a sweep of batches. Judged: the mean error of the rates, and what a bar proves whatever the batch was: that it ran (fits), and that
 * some batch gives its factor.
 *
 * ZeRO-3 Offload post, one DGX-2 of 16 V100 (facts C.7, offload.csv zoff_16_*): shapes from ZeRO-Offload's table of configurations, batches of the scripts (4, 8, 16 a replica), the model parallelism that is
 * fastest (the table's, which is recalled, does not hold 40B). Settings as in a_offload_logs.c; tensor ranks divide what is saved between them (sequence_parallel), for the post's scripts have
 * --partition-activations (DeepSpeedExamples, Megatron-LM-v1.1.5-ZeRO3/examples/ds_pretrain_gpt2-zero2.sh, -zero3.sh); host memory of a parameter without the temporaries of today's Adam, which 70B
 * would not have room for. Of 512 V100 only 1T has a shape that others print (SC21, table 1: 128 layers of 25600), which need not be theirs; 400B and 2T have none and are left out (200B:
 * a_offload_limits.c).
 *
 * ZeRO-Offload++ post, Twin-Flow (zoffpp_*): ZeRO-3 with states on the host, updated there all (ratio 1) or as little as the GPUs' memory allows. The ratio of the bars is not printed either: the best that fits.
 * The factor falls as the batch grows, so the bar asks that the batches of the sweep enclose it: a host that is too fast reaches it with none. */
#include "tests/accuracy/accuracy.h"
#include "tests/csv.h"

enum { SWEEP = 3, TWIN_SWEEP = 5, DEGREES = 5 };
static const int BATCHES[SWEEP] = { 4, 8, 16 }, TWIN_BATCHES[TWIN_SWEEP] = { 1, 2, 4, 8, 16 };
static const int TENSORS[DEGREES] = { 1, 2, 4, 8, 16 };
static const double V100_TFLOPS = 125; /* peak in fp16 */
static const double MEAN_LIMIT = 0.25;

struct bar {
    const char *id;
    int gpus, layers, hidden, heads, stage;
};

static const struct bar BARS[] = {
    { "zoff_16_2_10B", 16, 50, 4096, 32, 2 },       { "zoff_16_2_13B", 16, 65, 4096, 32, 2 },
    { "zoff_16_2_20B", 16, 25, 8192, 32, 2 },       { "zoff_16_2_40B", 16, 50, 8192, 32, 2 },
    { "zoff_16_2_70B", 16, 69, 9216, 32, 2 },       { "zoff_16_3_10B", 16, 50, 4096, 32, 3 },
    { "zoff_16_3_13B", 16, 65, 4096, 32, 3 },       { "zoff_16_3_20B", 16, 25, 8192, 32, 3 },
    { "zoff_16_3_40B", 16, 50, 8192, 32, 3 },       { "zoff_16_3_70B", 16, 69, 9216, 32, 3 },
    { "z3off_512_1000B", 512, 128, 25600, 160, 3 },
};
enum { BAR_COUNT = sizeof BARS / sizeof BARS[0] };

static bool measured_value(const struct csv *csv, const char *id, double *value)
{
    for (size_t row = 0; row < csv->rows; row++) {
        if (strcmp(csv_text(csv, row, "id"), id) == 0) {
            *value = csv_number(csv, row, "value");
            return true;
        }
    }
    printf("no row %s in offload.csv\n", id);
    return false;
}

/* Executed TFLOP/s of a GPU; 0: it does not fit. */
static double bar_tflops(const struct bar *bar, int tensor, int batch)
{
    static const char *const POLICIES[] = {
        [2] =
            "{\"name\":\"zero-offload\",\"upload\":\"tiled\",\"uploaded_bytes\":4,\"overlap_gradients\":false,"
            "\"bucket_elements\":50000000,\"checkpoints_on_host\":true,\"round_pinned\":\"none\",\"scratch_bytes\":0}",
        [3] = "{\"name\":\"zero3-offload\",\"max_reuse_distance\":100000000,\"sub_group_elements\":400000000,"
              "\"bucket_elements\":90000000,\"pinned_states\":true,\"checkpoints_on_host\":true,"
              "\"round_pinned\":\"none\"}",
    };
    char text[1280];
    struct error refused = { 0 };
    snprintf(text, sizeof text,
             "{\"model\":{\"family\":\"gpt\",\"layers\":%d,\"hidden\":%d,\"heads\":%d,\"ffn\":%d,\"vocab\":50257,"
             "\"max_sequence\":1024},\"machine\":\"dgx2-v100\",\"nodes\":%d,\"gpus\":%d,\"recompute\":\"full\","
             "\"software\":{\"base\":\"deepspeed\",\"kernels\":{\"fused\":false}},\"training\":{\"sequence_length\":"
             "1024,\"precision\":\"fp16\",\"micro_batch\":%d,\"global_batch\":%d},\"parallel\":{\"zero_stage\":%d,"
             "\"tensor\":%d,\"sequence_parallel\":%s,\"data\":%d},\"memory_policy\":%s}",
             bar->layers, bar->hidden, bar->heads, 4 * bar->hidden, bar->gpus / 16, bar->gpus, batch,
             batch * bar->gpus / tensor, bar->stage, tensor, tensor > 1 ? "true" : "false", bar->gpus / tensor,
             POLICIES[bar->stage]);
    struct simulated got = simulate_or_complain(text, NULL, NULL, &refused);
    return got.ran && got.step_s > 0 ? got.hfu * V100_TFLOPS : 0;
}

static int bars(const struct csv *csv)
{
    struct errors errors = { .name = "TFLOP/s of a GPU, 16 and 512 V100 (DeepSpeed)" };
    int failures = 0;
    for (int i = 0; i < BAR_COUNT; i++) {
        double measured, best = 0;
        int batch = 0, tensor = 0;
        if (!measured_value(csv, BARS[i].id, &measured)) {
            return 1;
        }
        for (int k = 0; k < SWEEP * DEGREES; k++) {
            double tflops = bar_tflops(&BARS[i], TENSORS[k / SWEEP], BATCHES[k % SWEEP]);
            batch = tflops > best ? BATCHES[k % SWEEP] : batch;
            tensor = tflops > best ? TENSORS[k / SWEEP] : tensor;
            best = fmax(best, tflops);
        }
        failures += !(best > 0);
        double error = best > 0 ? errors_add(&errors, best, measured) : -1;
        printf("  %-16s measured %5.1f TFLOP/s, simulated %5.1f (%+.0f %%) with batch %d, tensor %d  %s\n", BARS[i].id,
               measured, best, 100 * error, batch, tensor, best > 0 ? "it fits, as measured" : "DOES NOT FIT, it ran");
    }
    failures += errors_print(&errors, MEAN_LIMIT);
    return failures;
}

/* ---- Twin-Flow ---- */

static const struct twin {
    const char *id, *machine;
    int layers, hidden, heads;
} TWINS[] = {
    { "zoffpp_a100", "dgx-a100-40gb", 40, 5120, 40 },
    { "zoffpp_h100", "dgx-h100", 48, 7168, 56 },
};

/* Seconds a step; 0: it does not fit. */
static double twin_s(const struct twin *twin, int batch, double ratio)
{
    char text[1024];
    struct error refused = { 0 };
    snprintf(text, sizeof text,
             "{\"model\":{\"family\":\"gpt\",\"layers\":%d,\"hidden\":%d,\"heads\":%d,\"ffn\":%d,\"vocab\":50272,"
             "\"max_sequence\":2048},\"machine\":\"%s\",\"recompute\":\"full\",\"software\":\"deepspeed\","
             "\"training\":{\"sequence_length\":2048,\"precision\":\"fp16\",\"micro_batch\":%d,\"global_batch\":%d},"
             "\"parallel\":{\"zero_stage\":3,\"data\":8},\"memory_policy\":{\"name\":\"zero3-offload\","
             "\"parameters_on\":\"device\",\"cpu_ratio\":%g}}",
             twin->layers, twin->hidden, twin->heads, 4 * twin->hidden, twin->machine, batch, 8 * batch, ratio);
    return simulate_or_complain(text, NULL, NULL, &refused).step_s;
}

static int twin_flow(const struct csv *csv)
{
    static const double RATIOS[] = { 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1, 0 };
    int failures = 0;
    for (size_t i = 0; i < sizeof TWINS / sizeof TWINS[0]; i++) {
        double measured;
        if (!measured_value(csv, TWINS[i].id, &measured)) {
            return 1;
        }
        double least = INFINITY, most = 0;
        printf("  %-16s measured x%.2f; simulated", TWINS[i].id, measured);
        for (int k = 0; k < TWIN_SWEEP; k++) {
            double all_s = twin_s(&TWINS[i], TWIN_BATCHES[k], 1), best_s = all_s, best = 1;
            for (size_t r = 0; all_s > 0 && r < sizeof RATIOS / sizeof RATIOS[0]; r++) {
                double step_s = twin_s(&TWINS[i], TWIN_BATCHES[k], RATIOS[r]);
                best = step_s > 0 && step_s < best_s ? RATIOS[r] : best;
                best_s = step_s > 0 && step_s < best_s ? step_s : best_s;
            }
            if (all_s > 0) {
                least = fmin(least, all_s / best_s);
                most = fmax(most, all_s / best_s);
                printf(" x%.2f (batch %d, ratio %.1f)", all_s / best_s, TWIN_BATCHES[k], best);
            }
        }
        bool enclosed = least <= measured && measured <= most;
        failures += !enclosed;
        printf("  enclosed: %s\n", enclosed ? "ok" : "WRONG");
    }
    return failures;
}

int main(void)
{
    struct csv csv;
    if (!csv_load(&csv, measured_folder(), "offload.csv")) {
        printf("no offload.csv in %s/data/measured\n", measured_folder());
        return 77;
    }
    int failures = bars(&csv);
    failures += twin_flow(&csv);
    csv_free(&csv);
    return failures > 0 ? 1 : 0;
}
