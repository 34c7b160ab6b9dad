/* Forward times of a layer as Galvatron's profilers measured them, against our model graph and machine (galvatron_profiles.h says which files and what ran). The GPUs are not recorded; bandwidths and
 * budgets say A100. Every row is the difference of two numbers of layers at one batch; one machine is calibrated on every other row, in the order of the table, and judged on the rest.
 *
 * A disturbance only adds time: a total that is not below those of more layers, or of a larger batch, in its file was disturbed and is left out, whatever we predict. Rows from one file that
 * another repeats count once. */
#include "galvatron_profiles.h"

/* Oldest first. */
static const struct profile TIMES[] = {
    { "baichuan__computation_profiling_bf16_hidden4096_head32_seqlen2048__2023-11-30_698e09a1", LLAMA(64000), &LLAMA_FA,
      2048 },
    { "gpt_fa__computation_profiling_bf16_hidden1600_head32_seqlen1024__2024-05-30_f711e97b", GPT(1600, 6400), &GPT_FA,
      1024 },
    { "gpt_fa__computation_profiling_bf16_hidden2560_head32_seqlen2048__2024-05-30_f711e97b", GPT(2560, 10240), &GPT_FA,
      2048 },
    { "gpt_fa__computation_profiling_bf16_hidden4096_head32_seqlen2048__2024-05-30_f711e97b", GPT(4096, 16384), &GPT_FA,
      2048 },
    { "llama_fa__computation_profiling_bf16_hidden4096_head32_seqlen2048__2024-05-30_95460f62", LLAMA(32000), &LLAMA_FA,
      2048 },
    { "gpt_hf__computation_profiling_bf16_hidden4096_head32_seqlen2048__2024-08-09_284bc213", GPT(4096, 16384),
      &GPT_2024, 2048 },
    { "gpt_hf__computation_profiling_bf16_hidden4096_head32_seqlen2048__2024-09-02_208a61f8", GPT(4096, 16384),
      &GPT_2024, 2048 },
    { "gpt_hf__computation_profiling_bf16_hidden4096_head32_seqlen2048__2024-09-11_2f670c25", GPT(4096, 16384),
      &GPT_2024, 2048 },
    { "gpt_fa__computation_profiling_bf16_hidden4096_head32_seqlen2048__2024-09-19_071fd694", GPT(4096, 16384),
      &FA_2024, 2048 },
    { "llama_hf__computation_profiling_bf16_hidden4096_head32_seqlen2048__2024-09-19_071fd694", LLAMA(32000),
      &LLAMA_2024, 2048 },
    { "llama_fa__computation_profiling_bf16_hidden4096_head32_seqlen2048__2024-10-08_16882d23", LLAMA(32000), &FA_2024,
      2048 },
    { "llama_hf__computation_profiling_bf16_hidden4096_head32_seqlen2048__2024-10-08_16882d23", LLAMA(32000),
      &LLAMA_2024, 2048 },
    { "gpt_hf__computation_profiling_bf16_hidden4096_head32__2024-12-11_9cf77a59", GPT(4096, 16384), &GPT_2024, 0 },
    { "bert_hf__computation_profiling_bf16_hidden768_head12__2025-02-11_15cbc126", BERT(768, 12, 3072), &BERT_VIT, 0 },
    { "bert_hf__computation_profiling_bf16_hidden1024_head16__2025-02-11_15cbc126", BERT(1024, 16, 4096), &BERT_VIT,
      0 },
    { "vit_hf__computation_profiling_bf16_hidden1280_head16__2025-03-24_7ee4925f", VIT(1280, 16, 5120), &BERT_VIT,
      197 },
    { "vit_hf__computation_profiling_bf16_hidden2560_head32__2025-03-24_7ee4925f", VIT(2560, 32, 10240), &BERT_VIT,
      197 },
    { "llama_hf__computation_profiling_bf16_llama-7b_all__2025-10-10_99a0f185", LLAMA(32000), &FROM_2025,
      0 }, /* 1d27a7a3 has the same numbers under 4096, which would be more than an A100's peak */
    { "llama_hf__computation_profiling_bf16_llama-7b_all__2025-10-15_81bb0033", LLAMA(32000), &FROM_2025, 0 },
    { "gpt__computation_profiling_bf16_llama2-7b_all__2026-04-10_5c104c6a", LLAMA(32000), &FROM_2025, 0 },
};
enum { TIME_FILES = sizeof TIMES / sizeof *TIMES };

/* Layers of several shapes: a kind of layer is the difference of two runs. */
static const struct kind T5_KINDS[] = { { "encoder", "2,2", "4,2", T5_ENCODER, 2 },
                                        { "decoder", "2,2", "2,4", T5_DECODER, 2 } };
static const struct kind SWIN_KINDS[] = { { "stage 0", "12,12,12,12", "24,12,12,12", 0, 12 },
                                          { "stage 1", "12,12,12,12", "12,24,12,12", 2, 12 },
                                          { "stage 2", "12,12,12,12", "12,12,24,12", 4, 12 },
                                          { "stage 3", "12,12,12,12", "12,12,12,24", 6, 12 } };
static const struct shapes {
    struct profile profile;
    const struct kind *kinds;
    uint32_t kind_count, first_batch, last_batch;
    const char *sequences;
} SHAPES[] = {
    { { "T5__computation_profiling_bf16_t5-3B__2025-01-17_e8efe417", T5_3B, &T5_2025, 512 },
      T5_KINDS,
      2,
      1,
      8,
      "512,512" },
    { { "swin__computation_profiling_bf16_swin-huge__2025-02-14_793477d3", SWIN_HUGE, &BERT_VIT, 3136 },
      SWIN_KINDS,
      4,
      12,
      12,
      "3136,784,196,49" },
};
enum { SHAPE_FILES = sizeof SHAPES / sizeof *SHAPES };

enum { ROWS_MAX = 256 };
struct row {
    const struct profile *profile;
    uint32_t batch, sequence, variant;
    double measured_s, predicted_s; /* of one layer */
};
static struct row rows[ROWS_MAX];
static uint32_t row_count;

/* Same batch and sequence, of one pipeline of layers. */
static bool is_total(const struct galvatron_entry *entry)
{
    return strncmp(entry->pattern, "layernum@", strlen("layernum@")) == 0 && entry->numbers[0] == 1;
}

static uint32_t sequence_of(const struct galvatron_entry *entry)
{
    return entry->number_count > 3 ? entry->numbers[3] : 0;
}

static bool was_disturbed(const struct galvatron_file *file, const struct galvatron_entry *total)
{
    for (uint32_t i = 0; i < file->entry_count; i++) {
        const struct galvatron_entry *other = &file->entries[i];
        if (!is_total(other) || sequence_of(other) != sequence_of(total)) {
            continue;
        }
        bool more_layers = other->numbers[1] > total->numbers[1] && other->numbers[2] == total->numbers[2];
        bool more_samples = other->numbers[1] == total->numbers[1] && other->numbers[2] > total->numbers[2];
        if ((more_layers || more_samples) && other->value <= total->value) {
            return true;
        }
    }
    return false;
}

static void add_row(const struct profile *profile, const struct galvatron_entry *less,
                    const struct galvatron_entry *more)
{
    uint32_t sequence = sequence_of(more) > 0 ? sequence_of(more) : profile->sequence;
    double measured_s = (more->value - less->value) / (more->numbers[1] - less->numbers[1]) * 1e-3;
    bool known = profile->sequence > 0 && sequence != profile->sequence;
    for (uint32_t i = 0; i < row_count; i++) {
        known = known || rows[i].measured_s == measured_s;
    }
    if (known) {
        return;
    }
    EXPECT(row_count < ROWS_MAX);
    rows[row_count++] =
        (struct row){ .profile = profile, .batch = more->numbers[2], .sequence = sequence, .measured_s = measured_s };
}

/* For every batch and sequence the least and the most layers. */
static void read_rows(const struct profile *profile)
{
    struct arena arena = { 0 };
    struct galvatron_file file;
    profile_load(&file, profile, &arena);
    for (uint32_t i = 0; i < file.entry_count; i++) {
        const struct galvatron_entry *more = &file.entries[i];
        if (!is_total(more)) {
            continue;
        }
        if (was_disturbed(&file, more)) {
            printf("  disturbed: %s, %u layers, batch %u, %.1f ms\n", profile->file, more->numbers[1], more->numbers[2],
                   more->value);
            continue;
        }
        const struct galvatron_entry *least = NULL;
        bool is_most = true;
        for (uint32_t k = 0; k < file.entry_count; k++) {
            const struct galvatron_entry *other = &file.entries[k];
            if (!is_total(other) || sequence_of(other) != sequence_of(more) || other->numbers[2] != more->numbers[2] ||
                was_disturbed(&file, other)) {
                continue;
            }
            is_most = is_most && other->numbers[1] <= more->numbers[1];
            bool less = other->numbers[1] < more->numbers[1];
            least = less && (least == NULL || other->numbers[1] < least->numbers[1]) ? other : least;
        }
        if (is_most && least != NULL) {
            add_row(profile, least, more);
        }
    }
    arena_free(&arena);
}

static void read_shapes(const struct shapes *shapes)
{
    struct json root;
    char name[256];
    struct json_document *document = profile_document(profile_path(&shapes->profile, name, sizeof name), &root);
    for (uint32_t k = 0; k < shapes->kind_count; k++) {
        for (uint32_t batch = shapes->first_batch; batch <= shapes->last_batch; batch++) {
            char rest[64];
            (void)snprintf(rest, sizeof rest, "_bsz%u_seq[%s]", batch, shapes->sequences);
            EXPECT(row_count < ROWS_MAX);
            rows[row_count++] = (struct row){ .profile = &shapes->profile,
                                              .batch = batch,
                                              .sequence = shapes->profile.sequence,
                                              .variant = shapes->kinds[k].variant,
                                              .measured_s = kind_difference(&root, &shapes->kinds[k], rest) * 1e-3 };
        }
    }
    json_free(document);
}

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
    CHECK(row->profile != NULL);
    static struct scenario scenario;
    static const struct profile *loaded;
    static uint32_t loaded_sequence;
    struct pieces *pieces;
    struct error error = { 0 };
    if (loaded != row->profile || loaded_sequence != row->sequence) {
        if (loaded != NULL) {
            scenario_free(&scenario);
        }
        profile_scenario(&scenario, row->profile, row->sequence);
        loaded = row->profile;
        loaded_sequence = row->sequence;
    }
    struct machine_gpu kept = scenario.machine.gpu;
    const struct piece_layers *layers;
    scale(&scenario.machine.gpu, factors);
    EXPECT_INT(pieces_open(&pieces, &scenario, &error), STATUS_OK);
    EXPECT_INT(pieces_layers(pieces, 1, false, row->batch, &layers, &error), STATUS_OK);
    const struct piece_layer *layer = &layers->blocks[row->variant];
    /* FSDP in mixed precision makes the layer's bf16 weights of its fp32 ones in every forward pass. */
    double cast = pieces_stream_s(pieces, KERNEL_ELEMENTWISE, 4 * layer->parameters, 2 * layer->parameters, 1);
    row->predicted_s = fmax(layer->forward_s + cast, layer->forward_host_s * factors[BY_HOST]);
    pieces_close(pieces);
    scenario.machine.gpu = kept;
}

/* Mean of |predicted / measured - 1| over every other row (half 0 or 1), or all (2). */
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

/* Coordinate descent, steps from 20 % down. */
static void calibrate(double *factors, uint32_t half)
{
    double best = mean_error(factors, half, true, NULL);
    double step = 1.2;
    for (int round = 0; round < 6; round++, step = sqrt(step)) { /* down to 0.6 % */
        for (bool better = true; better;) {
            better = false;
            for (int f = 0; f < FACTORS; f++) {
                for (int up = 0; up < 2; up++) {
                    double kept = factors[f];
                    factors[f] = up ? kept * step : kept / step;
                    factors[BY_MEMORY] = fmin(factors[BY_MEMORY], MEMORY_FACTOR_MAX);
                    double off = mean_error(factors, half, true, NULL);
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

/* The rows of a half by profile; the mean error. */
static double print_by_profile(uint32_t half, const char *what)
{
    double sums = 0, biases = 0, most = 0;
    uint32_t all = 0;
    for (size_t p = 0; p < TIME_FILES + SHAPE_FILES; p++) {
        const struct profile *profile = p < TIME_FILES ? &TIMES[p] : &SHAPES[p - TIME_FILES].profile;
        double sum = 0, bias = 0, worst = 0;
        uint32_t count = 0;
        for (uint32_t i = half; i < row_count; i += 2) {
            double off = rows[i].predicted_s / rows[i].measured_s - 1;
            if (rows[i].profile == profile) {
                sum += fabs(off);
                bias += off;
                worst = fabs(off) > fabs(worst) ? off : worst;
                count++;
            }
        }
        if (count > 0) {
            printf("  %-88s %2u rows  off %5.2f %%  bias %+6.2f %%  worst %+6.2f %%\n", profile->file, count,
                   100 * sum / count, 100 * bias / count, 100 * worst);
        }
        sums += sum;
        biases += bias;
        most = fmax(most, fabs(worst));
        all += count;
    }
    profile_summary(what, all, sums / all, biases / all, most, 0.10);
    return sums / all;
}

/* Calibrates on one half, judges the other. */
static void judge(uint32_t half, const char *what)
{
    double factors[FACTORS] = { 1, 1, 1, 1 };
    calibrate(factors, 1 - half);
    for (int f = 0; f < FACTORS; f++) {
        printf("    %-48s x %.3f\n", FACTOR_WORDS[f], factors[f]);
    }
    printf("  calibrated rows %.2f %% off\n", 100 * mean_error(factors, 1 - half, true, NULL));
    (void)mean_error(factors, half, true, NULL); /* predicts them */
    EXPECT(print_by_profile(half, what) <= 0.10);
}

static void test_times(void)
{
    const double shipped[FACTORS] = { 1, 1, 1, 1 };
    double worst;
    fclose(golden_open(
        "galvatron2/model_profiles/vit_hf__computation_profiling_bf16_hidden2560_head32__2025-03-24_7ee4925f.json"));
    for (size_t i = 0; i < TIME_FILES; i++) {
        read_rows(&TIMES[i]);
    }
    for (size_t i = 0; i < SHAPE_FILES; i++) {
        read_shapes(&SHAPES[i]);
    }
    EXPECT(row_count >= 191);
    double off = mean_error(shipped, 2, true, &worst);
    printf("  %u layers, the shipped dgx-a100-40gb is %.2f %% off, worst %.2f %%\n", row_count, 100 * off, 100 * worst);
    judge(1, "layer forward times kept back (Galvatron's profiles)");
    judge(0, "  the other half, with the first as calibration");
}

TEST_MAIN(TEST(test_times))
