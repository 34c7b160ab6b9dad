/* Our model graph and machine against what Galvatron's profilers measured (shared data galvatron2/model_profiles; facts/galvatron-bmw.md E): forward times of a layer, and memory triples. The GPUs are not recorded;
 * bandwidths and budgets say A100. Times: every row is the difference of two numbers of layers at one batch; one machine is calibrated on every other row and judged on the rest. */
#include <glob.h>

#include "sim/base/file.h"
#include "sim/base/units.h"
#include "strategies/planners/galvatron_files.h"
#include "strategies/planners/oracle_pieces.h"
#include "galvatron_golden.h"

#define GPT(h, heads, ffn, sequence)                                                                                   \
    "{\"family\":\"gpt\",\"layers\":2,\"hidden\":" #h ",\"heads\":" #heads ",\"ffn\":" #ffn                            \
    ",\"vocab\":50257,\"max_sequence\":" #sequence "}"
#define LLAMA                                                                                                          \
    "{\"family\":\"llama\",\"layers\":2,\"hidden\":4096,\"heads\":32,\"ffn\":11008,\"vocab\":32000,\"max_sequence\":"  \
    "65536}"

#define BERT(h, heads, ffn)                                                                                            \
    "{\"family\":\"bert\",\"layers\":2,\"hidden\":" #h ",\"heads\":" #heads ",\"ffn\":" #ffn                           \
    ",\"vocab\":30522,\"max_sequence\":4096}"
#define VIT(h, heads, ffn)                                                                                             \
    "{\"family\":\"vit\",\"layers\":2,\"hidden\":" #h ",\"heads\":" #heads ",\"ffn\":" #ffn                            \
    ",\"image_size\":224,\"patch_size\":16}"

#define FLASH "\"megatron-flash\""
#define UNFUSED                                                                                                        \
    "{\"base\":\"megatron\",\"kernels\":{\"fused_softmax_max\":16384}}" /* as Megatron has it since 2023 (recalled) */

/* `software`: flash attention where the activations of its memory profile say so (34 bytes a value against 34 + 5 a s / h). */
struct profile {
    const char *file, *model, *software;
    uint32_t sequence; /* where the keys have none; or the only one taken */
};
static const struct profile TIMES[] = {
    { "gpt_fa__computation_profiling_bf16_hidden1600_head32_seqlen1024__2024-05-30_f711e97b", GPT(1600, 32, 6400, 1024),
      FLASH, 1024 },
    { "gpt_fa__computation_profiling_bf16_hidden2560_head32_seqlen2048__2024-05-30_f711e97b",
      GPT(2560, 32, 10240, 2048), FLASH, 2048 },
    { "gpt_fa__computation_profiling_bf16_hidden4096_head32_seqlen2048__2024-05-30_f711e97b",
      GPT(4096, 32, 16384, 2048), FLASH, 2048 },
    { "gpt_fa__computation_profiling_bf16_hidden4096_head32_seqlen2048__2024-09-19_071fd694",
      GPT(4096, 32, 16384, 2048), FLASH, 2048 },
    { "gpt_hf__computation_profiling_bf16_hidden4096_head32_seqlen2048__2024-09-11_2f670c25",
      GPT(4096, 32, 16384, 2048), FLASH, 2048 },
    { "gpt_hf__computation_profiling_bf16_hidden4096_head32__2024-12-11_9cf77a59", GPT(4096, 32, 16384, 65536), FLASH,
      0 },
    { "llama_fa__computation_profiling_bf16_hidden4096_head32_seqlen2048__2024-05-30_95460f62", LLAMA, FLASH, 2048 },
    { "baichuan__computation_profiling_bf16_hidden4096_head32_seqlen2048__2023-11-30_698e09a1", LLAMA, FLASH, 2048 },
    { "gpt__computation_profiling_bf16_llama2-7b_all__2026-04-10_5c104c6a", LLAMA, FLASH, 0 },
    { "llama_hf__computation_profiling_bf16_llama-7b_all__2025-10-15_81bb0033", LLAMA, FLASH, 0 },
    { "bert_hf__computation_profiling_bf16_hidden768_head12__2025-02-11_15cbc126", BERT(768, 12, 3072), UNFUSED, 0 },
    { "bert_hf__computation_profiling_bf16_hidden1024_head16__2025-02-11_15cbc126", BERT(1024, 16, 4096), UNFUSED, 0 },
    { "vit_hf__computation_profiling_bf16_hidden1280_head16__2025-03-24_7ee4925f", VIT(1280, 16, 5120), UNFUSED, 197 },
    { "vit_hf__computation_profiling_bf16_hidden2560_head32__2025-03-24_7ee4925f", VIT(2560, 32, 10240), UNFUSED, 197 },
};

enum { ROWS_MAX = 256 };
struct row {
    const struct profile *profile;
    uint32_t batch, sequence;
    double measured_s, predicted_s; /* of one layer */
};
static struct row rows[ROWS_MAX];
static uint32_t row_count;

static void add_row(const struct profile *profile, const struct galvatron_entry *less,
                    const struct galvatron_entry *more)
{
    uint32_t sequence = more->number_count > 3 ? more->numbers[3] : profile->sequence;
    if (profile->sequence > 0 && sequence != profile->sequence) {
        return;
    }
    struct row *row = &rows[row_count++];
    EXPECT(row_count < ROWS_MAX);
    row->profile = profile;
    row->batch = more->numbers[2];
    row->sequence = sequence;
    row->measured_s = (more->value - less->value) / (more->numbers[1] - less->numbers[1]) * 1e-3;
}

static void read_rows(const struct profile *profile)
{
    struct arena arena = { 0 };
    struct galvatron_file file;
    struct error error = { 0 };
    char name[256];
    (void)snprintf(name, sizeof name, "galvatron2/model_profiles/%s.json", profile->file);
    if (galvatron_file_load(&file, golden_path(name), &arena, &error) != STATUS_OK) {
        TEST_FAIL_("%s", error.message);
        exit(1);
    }
    for (uint32_t i = 0; i < file.entry_count; i++) {
        const struct galvatron_entry *more = &file.entries[i];
        if (strncmp(more->pattern, "layernum@", strlen("layernum@")) != 0 || more->numbers[0] != 1) {
            continue;
        }
        const struct galvatron_entry *least = NULL;
        bool is_most = true;
        for (uint32_t k = 0; k < file.entry_count; k++) {
            const struct galvatron_entry *other = &file.entries[k];
            bool same =
                other->pattern == more->pattern && other->numbers[0] == 1 &&
                other->number_count == more->number_count &&
                memcmp(other->numbers + 2, more->numbers + 2, (more->number_count - 2) * sizeof *other->numbers) == 0;
            is_most = is_most && !(same && other->numbers[1] > more->numbers[1]);
            least =
                same && other->numbers[1] < more->numbers[1] && (least == NULL || other->numbers[1] < least->numbers[1])
                    ? other
                    : least;
        }
        if (is_most && least != NULL) {
            add_row(profile, least, more);
        }
    }
    arena_free(&arena);
}

/* ---- forward times ---- */

/* What calibration may change: factors on the machine's rates and on what a layer's forward costs the host. The last is the most of a small layer: FSDP's hooks and an eager framework. */
enum { BY_GEMM, BY_MEMORY, BY_ATTENTION, BY_HOST, FACTORS };
static const char *const FACTOR_WORDS[FACTORS] = { "kernel_model.gemm.bf16.sm_efficiency",
                                                   "kernel_model.class_efficiency",
                                                   "kernel_model.attention_forward_efficiency",
                                                   "host time of a layer" };

static void scale(struct machine_gpu *gpu, const double *factors)
{
    gpu->gemm[DTYPE_BF16].values[GEMM_SM_EFFICIENCY] *= factors[BY_GEMM];
    gpu->attention_forward_efficiency *= factors[BY_ATTENTION];
    for (int c = 0; c < KERNEL_CLASS_COUNT; c++) {
        gpu->class_efficiency[c] *= factors[BY_MEMORY];
    }
}

/* One scenario for each sequence length of a profile, loaded once: the rows of it are predicted again and again. */
static void predict_row(struct row *row, const double *factors)
{
    static struct scenario scenario;
    static const struct profile *loaded;
    static uint32_t loaded_sequence;
    struct pieces *pieces;
    struct error error = { 0 };
    if (loaded != row->profile || loaded_sequence != row->sequence) {
        char text[1024];
        (void)snprintf(text, sizeof text,
                       "{\"model\":%s,\"machine\":\"dgx-a100-40gb\",\"gpus\":1,\"software\":%s,\"training\":{"
                       "\"sequence_length\":%u,\"global_batch\":1,\"precision\":\"bf16\"}}",
                       row->profile->model, row->profile->software, row->sequence);
        if (loaded != NULL) {
            scenario_free(&scenario);
        }
        if (scenario_parse(&scenario, text, "profile", NULL, 0, &error) != STATUS_OK) {
            TEST_FAIL_("%s", error.message);
            exit(1);
        }
        loaded = row->profile;
        loaded_sequence = row->sequence;
    }
    struct machine_gpu kept = scenario.machine.gpu;
    const struct piece_layers *layers;
    scale(&scenario.machine.gpu, factors);
    EXPECT_INT(pieces_open(&pieces, &scenario, &error), STATUS_OK);
    EXPECT_INT(pieces_layers(pieces, 1, false, row->batch, &layers, &error), STATUS_OK);
    const struct piece_layer *layer = &layers->of[LAYER_TRANSFORMER];
    /* FSDP in mixed precision makes the layer's bf16 weights of its fp32 ones in every forward pass. */
    double cast = pieces_stream_s(pieces, KERNEL_ELEMENTWISE, 4 * layer->parameters, 2 * layer->parameters, 1);
    row->predicted_s = fmax(layer->forward_s + cast, layer->forward_host_s * factors[BY_HOST]);
    pieces_close(pieces);
    scenario.machine.gpu = kept;
}

/* Mean of |predicted / measured - 1| over the rows of one half (0 calibrated, 1 judged), or of all (2). */
static double mean_error(const double *factors, uint32_t half, bool predict, double *worst)
{
    double sum = 0, count = 0, most = 0;
    for (uint32_t i = 0; i < row_count; i++) {
        if (half < 2 && i % 2 != half) {
            continue;
        }
        if (predict) {
            predict_row(&rows[i], factors);
        }
        double off = fabs(rows[i].predicted_s / rows[i].measured_s - 1);
        sum += off;
        most = fmax(most, off);
        count++;
    }
    if (worst != NULL) {
        *worst = most;
    }
    return sum / count;
}

/* No class of kernels may beat its memory (the shipped machine's best class reaches 0.95 of it). */
static const double MEMORY_FACTOR_MAX = 1 / 0.95;

/* Coordinate descent, steps from 20 % down to 1 %. */
static void calibrate(double *factors)
{
    double best = mean_error(factors, 0, true, NULL);
    for (double step = 1.2; step > 1.005; step = sqrt(step)) {
        for (bool better = true; better;) {
            better = false;
            for (int f = 0; f < FACTORS; f++) {
                for (int up = 0; up < 2; up++) {
                    double kept = factors[f];
                    factors[f] = up ? kept * step : kept / step;
                    factors[BY_MEMORY] = fmin(factors[BY_MEMORY], MEMORY_FACTOR_MAX);
                    double off = mean_error(factors, 0, true, NULL);
                    if (off < best * (1 - 1e-9)) {
                        best = off;
                        better = true;
                    } else {
                        factors[f] = kept;
                    }
                }
            }
        }
    }
}

static void print_by_profile(void)
{
    for (size_t p = 0; p < sizeof TIMES / sizeof *TIMES; p++) {
        double sum = 0, bias = 0, worst = 0;
        uint32_t count = 0;
        for (uint32_t i = 1; i < row_count; i += 2) {
            double off = rows[i].predicted_s / rows[i].measured_s - 1;
            if (rows[i].profile == &TIMES[p]) {
                sum += fabs(off);
                bias += off;
                worst = fabs(off) > fabs(worst) ? off : worst;
                count++;
            }
        }
        if (count > 0) {
            printf("  %-88s %2u rows  mean error %5.2f %%  bias %+6.2f %%  worst %+6.2f %%\n", TIMES[p].file, count,
                   100 * sum / count, 100 * bias / count, 100 * worst);
        }
    }
}

static void test_times(void)
{
    double factors[FACTORS] = { 1, 1, 1, 1 }, worst;
    fclose(golden_open(
        "galvatron2/model_profiles/vit_hf__computation_profiling_bf16_hidden2560_head32__2025-03-24_7ee4925f.json"));
    for (size_t i = 0; i < sizeof TIMES / sizeof *TIMES; i++) {
        read_rows(&TIMES[i]);
    }
    double shipped = mean_error(factors, 2, true, &worst);
    printf("  %u layers, the shipped dgx-a100-40gb: mean error %.2f %%, worst %.2f %%\n", row_count, 100 * shipped,
           100 * worst);
    calibrate(factors);
    double fitted = mean_error(factors, 0, true, NULL), judged = mean_error(factors, 1, true, &worst);
    for (int f = 0; f < FACTORS; f++) {
        printf("    %-48s x %.3f\n", FACTOR_WORDS[f], factors[f]);
    }
    print_by_profile();
    printf("  layer forward times (galvatron2)      %u rows kept back  mean error %.2f %%, worst %.2f %%  allowed 10.0 "
           "%%; "
           "calibrated on the others (%.2f %%)\n",
           row_count / 2, 100 * judged, 100 * worst, 100 * fitted);
    EXPECT(judged <= 0.10);
}

TEST_MAIN(TEST(test_times))
