/* Our model graph and machine against what Galvatron's profilers measured (shared data galvatron2/model_profiles; facts/galvatron-bmw.md E): forward times of a layer, and memory triples. The GPUs are not recorded;
 * bandwidths and budgets say A100. Times: every row is the difference of two numbers of layers at one batch; one machine is calibrated on every other row and judged on the rest.
 *
 * Not all files are judged; those that are were chosen by hand. The others of the same kind are shown beside them (..._SHOWN): times that in part contradict the judged ones of the same layer (another
 * GPU, or a busy one: some differences are negative), memory that the rules below do not explain. Left out: files with the numbers of one that is here, of four GPUs, of a part of a layer, of one number
 * of layers, experts, which have no graph, and T5 and Swin (a_galvatron_shapes.c). */
#include "sim/base/check.h"
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

#define FLASH   "\"megatron-flash\""
#define UNFUSED "{\"base\":\"pytorch-eager\",\"kernels\":{\"flash_attention\":false}}" /* Hugging Face's BERT and ViT */

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

static const struct profile TIMES_SHOWN[] = {
    { "gpt_hf__computation_profiling_bf16_hidden4096_head32_seqlen2048__2024-08-09_284bc213",
      GPT(4096, 32, 16384, 2048), FLASH, 2048 },
    { "gpt_hf__computation_profiling_bf16_hidden4096_head32_seqlen2048__2024-09-02_208a61f8",
      GPT(4096, 32, 16384, 2048), FLASH, 2048 },
    { "llama_fa__computation_profiling_bf16_hidden4096_head32_seqlen2048__2024-10-08_16882d23", LLAMA, FLASH, 2048 },
    { "llama_hf__computation_profiling_bf16_hidden4096_head32_seqlen2048__2024-09-19_071fd694", LLAMA, FLASH, 2048 },
    { "llama_hf__computation_profiling_bf16_hidden4096_head32_seqlen2048__2024-10-08_16882d23", LLAMA, FLASH, 2048 },
    { "llama_hf__computation_profiling_bf16_llama-7b_all__2025-10-10_1d27a7a3", LLAMA, FLASH, 0 },
    { "llama_hf__computation_profiling_bf16_llama-7b_all__2025-10-10_99a0f185", LLAMA, FLASH, 0 },
};
enum { TIME_FILES = sizeof TIMES / sizeof *TIMES, TIME_FILES_SHOWN = sizeof TIMES_SHOWN / sizeof *TIMES_SHOWN };

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

/* A line of the README's table (tests/accuracy/table.sh). */
static void print_summary(const char *what, uint32_t count, double mean, double bias, double worst, double allowed)
{
    printf("%-54s %4u rows  mean error %5.2f %%  bias %+6.2f %%  worst %6.2f %%  ", what, count, 100 * mean, 100 * bias,
           100 * fabs(worst));
    if (allowed > 0) {
        printf("allowed %4.1f %%  %s\n", 100 * allowed, mean <= allowed ? "ok" : "TOO FAR OFF");
    } else {
        printf("shown, not judged\n");
    }
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
    CHECK(row->profile != NULL);
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
    const struct piece_layer *layer = &layers->blocks[0];
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

/* Coordinate descent, steps from 20 % down. */
static void calibrate(double *factors)
{
    double best = mean_error(factors, 0, true, NULL);
    double step = 1.2;
    for (int round = 0; round < 6; round++, step = sqrt(step)) { /* down to 0.6 % */
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

/* Every `step`-th row from `first` on, by profile; the mean error. */
static double print_by_profile(const struct profile *profiles, size_t profile_count, uint32_t first, uint32_t step,
                               const char *what, double allowed)
{
    double sums = 0, biases = 0, most = 0;
    uint32_t all = 0;
    for (size_t p = 0; p < profile_count; p++) {
        double sum = 0, bias = 0, worst = 0;
        uint32_t count = 0;
        for (uint32_t i = first; i < row_count; i += step) {
            double off = rows[i].predicted_s / rows[i].measured_s - 1;
            if (rows[i].profile == &profiles[p]) {
                sum += fabs(off);
                bias += off;
                worst = fabs(off) > fabs(worst) ? off : worst;
                count++;
            }
        }
        if (count > 0) {
            printf("  %-88s %2u rows  off %5.2f %%  bias %+6.2f %%  worst %+6.2f %%\n", profiles[p].file, count,
                   100 * sum / count, 100 * bias / count, 100 * worst);
        }
        sums += sum;
        biases += bias;
        most = fmax(most, fabs(worst));
        all += count;
    }
    print_summary(what, all, sums / all, biases / all, most, allowed);
    return sums / all;
}

static void test_times(void)
{
    double factors[FACTORS] = { 1, 1, 1, 1 }, worst;
    fclose(golden_open(
        "galvatron2/model_profiles/vit_hf__computation_profiling_bf16_hidden2560_head32__2025-03-24_7ee4925f.json"));
    for (size_t i = 0; i < TIME_FILES; i++) {
        read_rows(&TIMES[i]);
    }
    double shipped = mean_error(factors, 2, true, &worst);
    printf("  %u layers, the shipped dgx-a100-40gb is %.2f %% off, worst %.2f %%\n", row_count, 100 * shipped,
           100 * worst);
    calibrate(factors);
    for (int f = 0; f < FACTORS; f++) {
        printf("    %-48s x %.3f\n", FACTOR_WORDS[f], factors[f]);
    }
    printf("  calibrated rows %.2f %% off\n", 100 * mean_error(factors, 0, true, NULL));
    (void)mean_error(factors, 1, true, NULL); /* predicts them */
    EXPECT(print_by_profile(TIMES, TIME_FILES, 1, 2, "layer forward times kept back (Galvatron's profiles)", 0.10) <=
           0.10);
    uint32_t first = row_count;
    for (size_t i = 0; i < TIME_FILES_SHOWN; i++) {
        read_rows(&TIMES_SHOWN[i]);
    }
    for (uint32_t i = first; i < row_count; i++) {
        predict_row(&rows[i], factors);
    }
    (void)print_by_profile(TIMES_SHOWN, TIME_FILES_SHOWN, first, 1, "layer forward times of the other files", 0);
}

/* ---- memory triples ---- */

/* "ms" is what is allocated after a backward pass, "act" what a forward pass adds to what was there before it (gradients of the step before are gone), "act_peak" the most of a backward pass above
 * "ms". All layers, the embedding and the head are sharded (FSDP, ZeRO-3) over the devices that share them; embedding and head are not split over tensor groups ("vtp" rows are). From our graph:
 *
 *   ms    16 bytes a parameter over the 8 devices (fp32 weights, gradients, moments), and two cuBLAS workspaces (of two streams); sequence parallelism keeps Megatron's gather buffer,
 *         a replica's b s h values of 2 bytes
 *   act   what is saved for backward; the logits as 16-bit values: their fp32 copy belongs to the loss
 *   peak  when a sharded unit's gradients are reduced they are there whole, as computed and in fp32 (2 + 4 bytes a parameter), those of layers beside their gathered weights (2 more); of the
 *         gradients in "ms" those of units still to come are not there yet; 16-bit logits are gone by then (the code of 2025 on, whose rows are the sequence-parallel ones, keeps them). The most over the units, backwards; of a layer also with its own tensors before it is done. */
struct triple {
    const struct profile *profile;
    uint32_t tensor, layers, batch, sequence;
    bool recompute, sequence_parallel, vocab_split;
    double measured[3], predicted[3]; /* MiB: ms, act, act_peak */
};
static const char *const PARTS[3] = { "_ms", "_act", "_act_peak" };

static const struct profile MEMORIES[] = {
    { "gpt_fa__memory_profiling_bf16_hidden1600_head32_seqlen1024__2024-05-30_f711e97b", GPT(1600, 32, 6400, 1024),
      FLASH, 1024 },
    { "gpt_fa__memory_profiling_bf16_hidden2560_head32_seqlen2048__2024-05-30_f711e97b", GPT(2560, 32, 10240, 2048),
      FLASH, 2048 },
    { "gpt_fa__memory_profiling_bf16_hidden4096_head32_seqlen2048__2024-05-30_f711e97b", GPT(4096, 32, 16384, 2048),
      FLASH, 2048 },
    { "llama_fa__memory_profiling_bf16_hidden4096_head32_seqlen2048__2024-05-30_95460f62", LLAMA, FLASH, 2048 },
    { "gpt__memory_profiling_bf16_llama2-7b_all__2026-04-10_5c104c6a", LLAMA, FLASH,
      4096 }, /* its keys say 2048, but a recomputed layer keeps 32 MiB a sample, which is 4096 x 4096 x 2 bytes; the file of 2025-10-10 has the same numbers under 4096 */
};
static const struct profile MEMORIES_SHOWN[] = {
    { "gpt_hf__memory_profiling_bf16_hidden4096_head32_seqlen2048__2024-09-19_071fd694", GPT(4096, 32, 16384, 2048),
      FLASH, 2048 },
    { "gpt_hf__memory_profiling_bf16_hidden4096_head32_seqlen2048__2024-08-09_284bc213", GPT(4096, 32, 16384, 2048),
      FLASH, 2048 },
    { "llama_hf__memory_profiling_bf16_hidden4096_head32_seqlen2048__2024-10-08_16882d23", LLAMA, FLASH, 2048 },
    { "llama_hf__memory_profiling_bf16_hidden4096_head32_seqlen2048__2024-10-22_03d9e687", LLAMA, FLASH, 2048 },
    { "gpt_hf__memory_profiling_bf16_hidden4096_head32__2024-12-11_9cf77a59", GPT(4096, 32, 16384, 65536), FLASH, 0 },
    { "bert_hf__memory_profiling_bf16_hidden768_head12__2025-02-11_15cbc126", BERT(768, 12, 3072), UNFUSED, 0 },
    { "bert_hf__memory_profiling_bf16_hidden1024_head16__2025-02-11_15cbc126", BERT(1024, 16, 4096), UNFUSED, 0 },
    { "baichuan__memory_profiling_bf16_hidden4096_head32_seqlen2048__2023-11-30_698e09a1", LLAMA, FLASH, 2048 },
};
enum {
    MEMORY_FILES = sizeof MEMORIES / sizeof *MEMORIES,
    MEMORY_FILES_SHOWN = sizeof MEMORIES_SHOWN / sizeof *MEMORIES_SHOWN
};
enum { TRIPLES_MAX = 512, DEVICES = 8 };
static struct triple triples[TRIPLES_MAX];
static uint32_t triple_count;

static void read_triples(const struct profile *profile)
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
    const struct galvatron_entry *group = NULL;
    for (uint32_t i = 0; i < file.entry_count; i++) {
        const struct galvatron_entry *entry = &file.entries[i];
        group = entry->depth == 0 ? entry : group;
        size_t length = strlen(entry->pattern);
        bool first = entry->depth == 1 && length > 3 && strcmp(entry->pattern + length - 3, "_ms") == 0 &&
                     entry->numbers[entry->number_count - 1] == 0; /* rank 0 */
        if (!first || group == NULL || strncmp(group->pattern, "#_#_#", 5) != 0 || group->numbers[0] != 1) {
            continue;
        }
        EXPECT(triple_count < TRIPLES_MAX);
        struct triple *triple = &triples[triple_count++];
        *triple = (struct triple){ .profile = profile,
                                   .tensor = group->numbers[1],
                                   .layers = entry->numbers[1],
                                   .batch = entry->numbers[2],
                                   .sequence = profile->sequence > 0 ? profile->sequence : entry->numbers[3],
                                   .recompute = strstr(group->pattern, "_c") != NULL,
                                   .sequence_parallel = strstr(group->pattern, "_sp") != NULL,
                                   .vocab_split = strstr(group->pattern, "_vtp") != NULL };
        for (uint32_t k = 0; k < 3; k++) {
            EXPECT(strstr(file.entries[i + k].pattern, PARTS[k]) != NULL);
            triple->measured[k] = file.entries[i + k].value;
        }
    }
    arena_free(&arena);
}

struct units {
    double layer, embedding, head; /* parameters of a device's whole unit */
    double layer_saved, layer_rebuilt,
        layer_scratch; /* bytes of its samples: kept, with what recomputation rebuilds, short-lived */
    double embedding_saved, head_saved, logits; /* logits: gone before the head's gradients are reduced */
};

static void peak_of(const struct triple *triple, const struct units *u, double *peak)
{
    double ways = (double)DEVICES / triple->tensor, end_ways = triple->vocab_split ? ways : DEVICES;
    double n = triple->layers, act = n * u->layer_saved + u->embedding_saved + u->head_saved;
    double of_layer = 4 * u->layer / ways, of_embedding = 4 * u->embedding / end_ways, of_head = 4 * u->head / end_ways;
    *peak = act - u->logits + 6 * u->head - (n * of_layer + of_embedding + of_head);
    for (uint32_t layer = triple->layers; layer > 0; layer--) {
        double below = layer - 1.0, absent = layer * of_layer + of_embedding,
               kept = below * u->layer_saved + u->embedding_saved;
        *peak = fmax(*peak, kept + 8 * u->layer - absent);
        *peak = fmax(*peak, kept + u->layer_rebuilt + u->layer_scratch + 2 * u->layer - absent);
    }
    *peak = fmax(*peak, 6 * u->embedding - of_embedding);
}

static void predict_triple(struct triple *triple)
{
    char text[1024];
    struct scenario scenario;
    struct pieces *pieces;
    struct error error = { 0 };
    const struct piece_layers *layers, *ends;
    (void)snprintf(text, sizeof text,
                   "{\"model\":%s,\"machine\":\"dgx-a100-40gb\",\"software\":%s,\"training\":{\"sequence_length\":%u,"
                   "\"global_batch\":8,\"precision\":\"bf16\"}}",
                   triple->profile->model, triple->profile->software, triple->sequence);
    if (scenario_parse(&scenario, text, "profile", NULL, 0, &error) != STATUS_OK) {
        TEST_FAIL_("%s", error.message);
        exit(1);
    }
    uint32_t end_tensor = triple->vocab_split ? triple->tensor : 1;
    uint32_t samples = triple->batch * triple->tensor / DEVICES, end_samples = triple->batch * end_tensor / DEVICES;
    EXPECT_INT(pieces_open(&pieces, &scenario, &error), STATUS_OK);
    EXPECT_INT(pieces_layers(pieces, triple->tensor, triple->sequence_parallel, samples, &layers, &error), STATUS_OK);
    const struct piece_layer layer = layers->blocks[0];
    EXPECT_INT(pieces_layers(pieces, end_tensor, triple->sequence_parallel, end_samples, &ends, &error), STATUS_OK);
    const struct piece_layer *embedding = &ends->embedding, *head = &ends->head;
    double vocab = (double)scenario.model.vocab / end_tensor, values = vocab * end_samples * triple->sequence;
    double hidden = (double)scenario.model.hidden;
    /* Galvatron's LLaMA has the norm before the head as a module of its own, split like the layers: its input is of more samples than the head's (sequence parallelism splits it all the same). */
    bool norm_apart = scenario.model.family == MODEL_LLAMA && !triple->sequence_parallel;
    double apart = norm_apart ? (double)(samples - end_samples) * triple->sequence : 0;
    enum recompute_mode mode = triple->recompute ? RECOMPUTE_FULL : RECOMPUTE_NONE;
    const struct units u = { .layer = layer.parameters,
                             .embedding = embedding->parameters,
                             .head = head->parameters + head->tied_parameters,
                             .layer_saved = layer.saved_bytes[mode],
                             .layer_rebuilt = layer.saved_bytes[RECOMPUTE_NONE],
                             .layer_scratch = layer.backward_scratch_bytes[RECOMPUTE_NONE],
                             .embedding_saved = embedding->saved_bytes[RECOMPUTE_NONE],
                             .head_saved =
                                 head->saved_bytes[RECOMPUTE_NONE] - 4 * values + 2 * values + 2.0 * apart * hidden,
                             .logits = triple->sequence_parallel ? 0 : 2 * values };
    double parameters = triple->layers * u.layer * triple->tensor + (u.embedding + u.head) * end_tensor;
    double buffer = triple->sequence_parallel && triple->tensor > 1
                        ? 2.0 * samples * triple->sequence * (double)scenario.model.hidden
                        : 0;
    triple->predicted[0] = 16 * parameters / DEVICES + 2 * scenario.machine.blas_workspace_bytes + buffer;
    triple->predicted[1] = triple->layers * u.layer_saved + u.embedding_saved + u.head_saved;
    peak_of(triple, &u, &triple->predicted[2]);
    for (int k = 0; k < 3; k++) {
        triple->predicted[k] /= MIB;
    }
    pieces_close(pieces);
    scenario_free(&scenario);
}

/* Triples of some files, all printed; the mean error. */
static double print_triples(const struct profile *profiles, size_t profile_count, const char *what, double allowed)
{
    static const char *const whats[3] = { "  model states after backward", "  activations after forward",
                                          "  peak of backward" };
    double sums[3] = { 0, 0, 0 }, biases[3] = { 0, 0, 0 }, worst[3] = { 0, 0, 0 }, mean = 0, bias = 0, most = 0;
    uint32_t first = triple_count;
    for (size_t i = 0; i < profile_count; i++) {
        read_triples(&profiles[i]);
    }
    for (uint32_t i = first; i < triple_count; i++) {
        struct triple *t = &triples[i];
        predict_triple(t);
        printf("  %-28.28s tp%u L%u%s%s%s ", t->profile->file, t->tensor, t->layers, t->recompute ? " c" : "",
               t->sequence_parallel ? " sp" : "", t->vocab_split ? " vtp" : "");
        for (int k = 0; k < 3; k++) {
            double off = t->predicted[k] / t->measured[k] - 1;
            sums[k] += fabs(off);
            biases[k] += off;
            worst[k] = fabs(off) > fabs(worst[k]) ? off : worst[k];
            printf("  %s %.1f, predicted %.1f (%+.1f %%)", PARTS[k] + 1, t->measured[k], t->predicted[k], 100 * off);
        }
        printf("\n");
    }
    uint32_t count = triple_count - first;
    for (int k = 0; k < 3; k++) {
        print_summary(whats[k], count, sums[k] / count, biases[k] / count, worst[k], 0);
        mean += sums[k] / (3 * count);
        bias += biases[k] / (3 * count);
        most = fmax(most, fabs(worst[k]));
    }
    print_summary(what, 3 * count, mean, bias, most, allowed);
    return mean;
}

static void test_memory(void)
{
    EXPECT(print_triples(MEMORIES, MEMORY_FILES, "memory triples (Galvatron's profiles)", 0.05) <= 0.05);
    EXPECT(triple_count >= 80);
    (void)print_triples(MEMORIES_SHOWN, MEMORY_FILES_SHOWN, "memory triples of the other files", 0);
}

TEST_MAIN(TEST(test_memory), TEST(test_times))
