/* ZeRO-Offload and ZeRO-Infinity on V100: how large a model a machine holds, and rates whose shapes and batches their sources do not print (facts/patrickstar-zero-offload.md C.7). All on nodes of DGX-2.
 *
 * Shapes. Largest models: the hidden size of the printed model in ZeRO-Offload's table of configurations, as many layers as fit, batch 1 where no other is told: what is found is a number of layers, so
 * it is compared in parameters, and in steps of that table's sizes (the authors tried no others). ZeRO-Infinity's from 100B on, its batches and model parallelism, and the five layers of the last table:
 * recalled, not read (their parameters come out as the slides name them). 8B: of that table; 200B: 110 layers of 12288, ours.
 * Settings: of one V100 as in a_offload_logs.c, of several as in a_offload_bars.c. Tensor ranks divide what is saved between them (sequence_parallel), as DeepSpeed's partition_activations does.
 *
 * Judged: what ran fits, with one exception below, and the systems' limits stand in the printed order. Rates are shown.
 *   1T on the drives of one DGX-2 without model parallelism does not fit here: weights are fetched, and gradients kept, a layer at a time, 15.7 GB each at hidden 25600, where DeepSpeed fetches one
 *   matrix (5.2 GB) and the paper tiles it. Two GPUs a replica hold it. The same with 5T to 20T on 512 GPUs.
 * Of the last table, the cost of saving activations on the host, next to nothing is predicted where 20 % were measured: here the copies run beside the kernels. */
#include "tests/accuracy/accuracy.h"

static const double V100_TFLOPS = 125; /* peak in fp16 */
static const double SEQUENCE = 1024, VOCABULARY = 50257;
enum { NODE_GPUS = 16, SWEEP = 4 };
static const int BATCHES[SWEEP] = { 4, 8, 16, 32 };

#define PYTORCH "{\"base\":\"pytorch-eager\",\"kernels\":{\"flash_attention\":false}}"
#define UNFUSED "{\"base\":\"deepspeed\",\"kernels\":{\"fused\":false}}"
#define OFFLOAD                                                                                                        \
    "{\"name\":\"zero-offload\",\"upload\":\"tiled\",\"uploaded_bytes\":4,\"overlap_gradients\":false,"                \
    "\"bucket_elements\":50000000,\"checkpoints_on_host\":true,\"round_pinned\":\"none\"}"
#define OFFLOAD_LEAN                                                                                                   \
    "{\"name\":\"zero-offload\",\"upload\":\"tiled\",\"uploaded_bytes\":4,\"overlap_gradients\":false,"                \
    "\"bucket_elements\":50000000,\"checkpoints_on_host\":true,\"round_pinned\":\"none\",\"scratch_bytes\":0}"
#define ON_HOST   "{\"name\":\"zero3-offload\",\"checkpoints_on_host\":true,\"round_pinned\":\"none\"}"
#define ON_DRIVES "{\"name\":\"zero-infinity\",\"checkpoints_on_host\":true,\"round_pinned\":\"none\"}"

struct run {
    const char *software, *policy;
    int layers, hidden, gpus, batch, stage, tensor, pipeline, micro_batches;
};

static struct simulated simulate_run(const struct run *run)
{
    char text[1536];
    struct error refused = { 0 };
    int data = run->gpus / run->tensor / run->pipeline;
    snprintf(text, sizeof text,
             "{\"model\":{\"family\":\"gpt\",\"layers\":%d,\"hidden\":%d,\"heads\":%d,\"ffn\":%d,\"vocab\":%.0f,"
             "\"max_sequence\":%.0f},\"machine\":\"dgx2-v100\",\"nodes\":%d,\"gpus\":%d,\"recompute\":\"full\","
             "\"software\":%s,\"training\":{\"sequence_length\":%.0f,\"precision\":\"fp16\",\"micro_batch\":%d,"
             "\"global_batch\":%d},\"parallel\":{\"zero_stage\":%d,\"tensor\":%d,\"sequence_parallel\":%s,"
             "\"pipeline\":%d,\"data\":%d},\"memory_policy\":%s}",
             run->layers, run->hidden, run->hidden / 128, 4 * run->hidden, VOCABULARY, SEQUENCE,
             (run->gpus + NODE_GPUS - 1) / NODE_GPUS, run->gpus, run->software, SEQUENCE, run->batch,
             run->batch * data * run->micro_batches, run->stage, run->tensor, run->tensor > 1 ? "true" : "false",
             run->pipeline, data, run->policy);
    return simulate_or_complain(text, NULL, NULL, &refused);
}

static bool fits(const struct run *run)
{
    struct simulated got = simulate_run(run);
    return got.ran && got.step_s > 0;
}

static double run_tflops(const struct run *run)
{
    struct simulated got = simulate_run(run);
    return got.ran && got.step_s > 0 ? got.hfu * V100_TFLOPS : 0;
}

static double billions(const struct run *run)
{
    double h = run->hidden;
    return (run->layers * (12 * h * h + 13 * h) + (VOCABULARY + SEQUENCE + 2) * h) * 1e-9;
}

/* ---- largest models ---- */

enum { LAYERS_MOST = 1024 };

/* Billions of parameters of the largest with that hidden size, its layers in `run`; 0: not even one layer a stage fits. Bisection: memory grows with layers. */
static double largest(struct run *run)
{
    int fitting = 0, failing = LAYERS_MOST / run->pipeline;
    while (failing - fitting > 1) {
        int middle = (fitting + failing) / 2;
        run->layers = middle * run->pipeline;
        if (fits(run)) {
            fitting = middle;
        } else {
            failing = middle;
        }
    }
    run->layers = fitting * run->pipeline;
    return fitting > 0 ? billions(run) : 0;
}

/* How many of the sizes that were tried are not larger. */
static int step_of(double parameters_billions)
{
    static const struct run SIZES[] = {
        { .layers = 20, .hidden = 2048 },   { .layers = 40, .hidden = 2048 },   { .layers = 64, .hidden = 2304 },
        { .layers = 53, .hidden = 3072 },   { .layers = 72, .hidden = 3072 },   { .layers = 50, .hidden = 4096 },
        { .layers = 55, .hidden = 4096 },   { .layers = 60, .hidden = 4096 },   { .layers = 65, .hidden = 4096 },
        { .layers = 78, .hidden = 4096 },   { .layers = 25, .hidden = 8192 },   { .layers = 50, .hidden = 8192 },
        { .layers = 75, .hidden = 8192 },   { .layers = 69, .hidden = 9216 },   { .layers = 125, .hidden = 8192 },
        { .layers = 124, .hidden = 18432 }, { .layers = 128, .hidden = 25600 }, { .layers = 174, .hidden = 49152 },
    };
    int step = 0;
    for (size_t i = 0; i < sizeof SIZES / sizeof SIZES[0]; i++) {
        step += billions(&SIZES[i]) <= parameters_billions;
    }
    return step;
}

struct limit {
    const char *name, *source;
    bool judged;
    struct run printed; /* with its layers */
};

static const struct limit LIMITS[] = {
    { "PyTorch DDP, one V100", "abstract", true, { PYTORCH, "\"resident\"", 26, 2048, 1, 1, 0, 1, 1, 1 } },
    { "ZeRO-Offload, one V100", "abstract", true, { UNFUSED, OFFLOAD, 65, 4096, 1, 4, 0, 1, 1, 1 } },
    { "ZeRO-3, one DGX-2", "slides", true, { UNFUSED, "\"resident\"", 25, 8192, 16, 1, 3, 1, 1, 1 } },
    { "3D parallelism, one DGX-2", "slides", true, { UNFUSED, "\"resident\"", 25, 8192, 16, 1, 0, 4, 4, 4 } },
    { "ZeRO-3 Offload, one V100", "post", true, { UNFUSED, ON_HOST, 50, 8192, 1, 1, 3, 1, 1, 1 } },
    { "ZeRO-Offload, tensor 8, DGX-2", "abstract", true, { UNFUSED, OFFLOAD_LEAN, 69, 9216, 16, 8, 2, 8, 1, 1 } },
    { "ZeRO-Infinity, host, DGX-2", "slides", true, { UNFUSED, ON_HOST, 69, 9216, 16, 1, 3, 1, 1, 1 } },
    { "ZeRO-Infinity, drives, DGX-2", "slides", false, { UNFUSED, ON_DRIVES, 128, 25600, 16, 1, 3, 1, 1, 1 } },
    { "the same, tensor 2", "slides", true, { UNFUSED, ON_DRIVES, 128, 25600, 16, 1, 3, 2, 1, 1 } },
    { "Megatron (tensor 16), DGX-2", "recalled", false, { UNFUSED, "\"resident\"", 78, 4096, 16, 1, 0, 16, 1, 1 } },
    { "ZeRO-2, DGX-2", "recalled", false, { UNFUSED, "\"resident\"", 44, 4096, 16, 1, 2, 1, 1, 1 } },
};
enum { LIMIT_COUNT = sizeof LIMITS / sizeof LIMITS[0] };

static int limits(void)
{
    double found[LIMIT_COUNT];
    int failures = 0, exact = 0, judged = 0;
    for (int i = 0; i < LIMIT_COUNT; i++) {
        struct run run = LIMITS[i].printed;
        double printed = billions(&LIMITS[i].printed);
        found[i] = largest(&run);
        int steps = step_of(found[i]) - step_of(printed);
        bool bad = LIMITS[i].judged && found[i] < printed;
        printf("  %-30s %6.1fB (%s)  simulated %7.1fB (%3d layers of %d)  %+3d sizes  %s\n", LIMITS[i].name, printed,
               LIMITS[i].source, found[i], run.layers, run.hidden, steps,
               !LIMITS[i].judged ? "shown, not judged"
               : bad             ? "DOES NOT FIT, it ran"
                                 : "it fits, as measured");
        failures += bad;
        judged += LIMITS[i].judged;
        exact += LIMITS[i].judged && steps == 0;
    }
    int pairs = 0, right = 0;
    for (int i = 0; i < LIMIT_COUNT; i++) {
        for (int k = 0; k < LIMIT_COUNT; k++) {
            bool told = LIMITS[i].judged && LIMITS[k].judged && LIMITS[i].printed.gpus == LIMITS[k].printed.gpus &&
                        billions(&LIMITS[i].printed) < billions(&LIMITS[k].printed);
            pairs += told;
            right += told && found[i] < found[k];
        }
    }
    printf("largest model, V100 (ZeRO-Offload, ZeRO-Infinity)    %2d rows  %2d the printed size  %2d of %2d pairs on "
           "equal GPUs in order  all wanted  %s\n",
           judged, exact, right, pairs, right == pairs ? "ok" : "TOO FEW");
    return failures + (right < pairs);
}

/* ---- rates ---- */

/* The best of the batches and of tensor degrees up to `tensor_most`, in run->batch and tensor; 0: nothing fits. */
static double best_tflops(struct run *run, int tensor_most)
{
    double best = 0;
    struct run tried = *run;
    for (tried.tensor = 1; tried.tensor <= tensor_most; tried.tensor *= 2) {
        for (int k = 0; k < SWEEP; k++) {
            tried.batch = BATCHES[k];
            double tflops = run_tflops(&tried);
            if (tflops > best) {
                best = tflops;
                *run = tried;
            }
        }
    }
    return best;
}

static void show_rate(struct errors *errors, const char *name, double measured, double simulated, const struct run *run)
{
    if (simulated > 0) {
        printf("  %-40s %6.3f, simulated %6.3f (%+.0f %%) with batch %d, tensor %d\n", name, measured, simulated,
               100 * errors_add(errors, simulated, measured), run->batch, run->tensor);
    } else {
        printf("  %-40s %6.3f, does not fit\n", name, measured);
    }
}

static void abstract_rates(void)
{
    struct errors errors = { .name = "TFLOP/s, 1.4B and 10B on one V100 (the abstract)" };
    struct run ddp = { PYTORCH, "\"resident\"", 26, 2048, 1, 0, 0, 1, 1, 1 };
    struct run offload = { UNFUSED, OFFLOAD, 50, 4096, 1, 0, 0, 1, 1, 1 };
    double ddp_tflops = best_tflops(&ddp, 1), tflops = best_tflops(&offload, 1);
    show_rate(&errors, "PyTorch DDP, 1.4B", 30, ddp_tflops, &ddp);
    show_rate(&errors, "ZeRO-Offload, 10B", 40, tflops, &offload);
    errors_print(&errors, SHOWN_ONLY);
}

static void infinity_rates(void)
{
    static const struct {
        const char *name;
        double tflops;
        struct run run;
    } ROWS[] = {
        { "0.5T", 46, { UNFUSED, ON_HOST, 124, 18432, 512, 28, 3, 4, 1, 1 } },
        { "1T", 49, { UNFUSED, ON_HOST, 128, 25600, 512, 20, 3, 4, 1, 1 } },
        { "5T", 44, { UNFUSED, ON_DRIVES, 174, 49152, 512, 12, 3, 4, 1, 1 } },
        { "10T", 43, { UNFUSED, ON_DRIVES, 200, 65536, 512, 8, 3, 4, 1, 1 } },
        { "20T", 37, { UNFUSED, ON_DRIVES, 205, 90112, 512, 10, 3, 8, 1, 1 } },
    };
    struct errors errors = { .name = "TFLOP/s of a GPU, ZeRO-Infinity, 512 V100 (slides)" };
    for (size_t i = 0; i < sizeof ROWS / sizeof ROWS[0]; i++) {
        show_rate(&errors, ROWS[i].name, ROWS[i].tflops, run_tflops(&ROWS[i].run), &ROWS[i].run);
    }
    errors_print(&errors, SHOWN_ONLY);
}

/* Rates of all GPUs: of 200B against 64 GPUs; of 10B, whose scaling the abstract calls near linear, against one. */
static void scaling(void)
{
    static const int GPUS[] = { 64, 128, 256, 512 }, OFFLOAD_GPUS[] = { 1, 4, 16, 32, 64, 128 };
    static const double MEASURED[] = { 1, 2.37, 4.62, 9.07 };
    struct errors errors = { .name = "speed against 64 V100, ZeRO-3 Offload, 200B (post)" };
    double first = 0;
    for (size_t i = 0; i < sizeof GPUS / sizeof GPUS[0]; i++) {
        struct run run = { UNFUSED, ON_HOST, 110, 12288, GPUS[i], 0, 3, 1, 1, 1 };
        double tflops = best_tflops(&run, NODE_GPUS) * GPUS[i];
        char name[64];
        first = i == 0 ? tflops : first;
        snprintf(name, sizeof name, "200B on %d GPUs against 64", GPUS[i]);
        if (i > 0) {
            show_rate(&errors, name, MEASURED[i], first > 0 ? tflops / first : 0, &run);
        }
    }
    errors_print(&errors, SHOWN_ONLY);
    printf("  10B, ZeRO-Offload, TFLOP/s a GPU (measured: near linear, above 30 on 128):");
    for (size_t i = 0; i < sizeof OFFLOAD_GPUS / sizeof OFFLOAD_GPUS[0]; i++) {
        struct run run = { UNFUSED, OFFLOAD_LEAN, 50, 4096, OFFLOAD_GPUS[i], 0, OFFLOAD_GPUS[i] > 1 ? 2 : 0, 1, 1, 1 };
        double tflops = best_tflops(&run, 1);
        printf("  %d GPUs %.1f", OFFLOAD_GPUS[i], tflops);
    }
    printf("\n");
}

/* Step without prefetch and overlap over step with them. */
static void prefetch(void)
{
#define NOTHING_AHEAD                                                                                                  \
    "{\"base\":\"deepspeed\",\"kernels\":{\"fused\":false},\"communication\":{\"overlap_gradient_reduce\":false,"      \
    "\"overlap_parameter_gather\":false}}"
    static const int BATCH[] = { 2, 4, 8, 10, 14, 16 };
    static const double MEASURED[] = { 1.29, 1.19, 1.09, 1.055, 1.01, 1.02 };
    struct errors errors = { .name = "gain of prefetch and overlap, 8B on 64 V100 (slides)" };
    for (size_t i = 0; i < sizeof BATCH / sizeof BATCH[0]; i++) {
        struct run with = {
            UNFUSED, "{\"name\":\"zero3-offload\",\"round_pinned\":\"none\"}", 72, 3072, 64, BATCH[i], 3, 1, 1, 1
        };
        struct run without = with;
        without.software = NOTHING_AHEAD;
        without.policy = "{\"name\":\"zero3-offload\",\"round_pinned\":\"none\",\"prefetch_elements\":0,"
                         "\"overlap_gradients\":false}";
        double with_s = simulate_run(&with).step_s;
        show_rate(&errors, "72 layers of 3072", MEASURED[i], with_s > 0 ? simulate_run(&without).step_s / with_s : 0,
                  &with);
    }
    errors_print(&errors, SHOWN_ONLY);
}

/* Step with saved activations in host memory over step without, 32 GPUs. */
static void saved_on_host(void)
{
    static const int HIDDEN[] = { 2048, 8192, 16384, 32768, 65536 };
    static const double MEASURED[] = { 1.205, 1.22, 1.195, 1.05, 1.02 };
    struct errors errors = { .name = "cost of saved activations on the host (slides)" };
    for (size_t i = 0; i < sizeof HIDDEN / sizeof HIDDEN[0]; i++) {
        struct run with = { UNFUSED, ON_HOST, 5, HIDDEN[i], 32, 4, 3, HIDDEN[i] > 16384 ? 8 : 1, 1, 1 };
        struct run without = with;
        char name[64];
        without.policy = "{\"name\":\"zero3-offload\",\"round_pinned\":\"none\"}";
        double without_s = simulate_run(&without).step_s;
        snprintf(name, sizeof name, "5 layers of %d", HIDDEN[i]);
        show_rate(&errors, name, MEASURED[i], without_s > 0 ? simulate_run(&with).step_s / without_s : 0, &with);
    }
    errors_print(&errors, SHOWN_ONLY);
}

int main(void)
{
    int failures = limits();
    abstract_rates();
    infinity_rates();
    scaling();
    prefetch();
    saved_on_host();
    return failures > 0 ? 1 : 0;
}
