/* Memory triples that Galvatron's profiler measured, against our model graph (galvatron_profiles.h says which files and what ran).
 *
 * "ms" is what is allocated after a backward pass, "act" what a forward pass adds to what was there before it (gradients of the step before are gone), "act_peak" the most of the pass pair above
 * "ms" (torch.cuda.max_memory_allocated). All layers, the embedding and the head are units of FSDP (ZeRO-3) over the devices that share them; embedding and head are not split over tensor groups
 * ("vtp" rows are). From our graph:
 *
 *   ms    16 bytes a parameter over the devices (fp32 weights, gradients, moments), and two cuBLAS workspaces (of two streams); Megatron's modules keep two buffers: one to gather sequences into
 *         (a replica's b s h values of 2 bytes) and, without flash attention, one of the scores
 *   act   what is saved for backward; the logits as 16-bit values where the loss reads them so. Megatron's modules hand flash attention contiguous copies, so that no unrotated queries and keys
 *         live on and, with more than one sample, its output is kept twice (as it is, and sequence first). Megatron's plain RMSNorm keeps 12 bytes a value
 *   peak  the most of
 *         - the loss: all that is saved, the head's gathered weights, and the short-lived logits
 *         - the end of a unit's backward: its weights (2 bytes a parameter), their gradients one by one (2) and joined into the unit's flat one (2); the weights of the unit before it, gathered
 *           ahead; a layer's incoming gradient, and when it was repeated also its output, input and outgoing gradient, which the checkpoint holds
 *         - a layer's backward half way: what it saved, short-lived tensors, both units' weights; of a repeated one, whose tensors are held longer, also its output and the gradients of its
 *           feed-forward weights
 *         each less the gradients in "ms" that are not there yet: all in the forward pass, those of units still to come in the backward pass. */
#include "galvatron_profiles.h"

struct triple {
    const struct profile *profile;
    uint32_t devices, tensor, layers, batch, sequence;
    bool recompute, sequence_parallel, vocab_split;
    double measured[3], predicted[3]; /* MiB: ms, act, act_peak */
};
static const char *const PARTS[3] = { "_ms", "_act", "_act_peak" };

/* Oldest first: numbers that come again later are not counted again. */
static const struct profile MEMORIES[] = {
    { "baichuan__memory_profiling_bf16_hidden4096_head32_seqlen2048__2023-11-30_698e09a1", LLAMA(64000), &LLAMA_FA,
      2048 }, /* Baichuan-7B: LLaMA with a vocabulary of 64,000 */
    { "gpt_fa__memory_profiling_bf16_hidden1600_head32_seqlen1024__2024-05-30_f711e97b", GPT(1600, 6400), &GPT_FA,
      1024 },
    { "gpt_fa__memory_profiling_bf16_hidden2560_head32_seqlen2048__2024-05-30_f711e97b", GPT(2560, 10240), &GPT_FA,
      2048 },
    { "gpt_fa__memory_profiling_bf16_hidden4096_head32_seqlen2048__2024-05-30_f711e97b", GPT(4096, 16384), &GPT_FA,
      2048 },
    { "llama_fa__memory_profiling_bf16_hidden4096_head32_seqlen2048__2024-05-30_95460f62", LLAMA(32000), &LLAMA_FA,
      2048 },
    { "gpt_hf__memory_profiling_bf16_hidden4096_head32_seqlen2048__2024-08-09_284bc213", GPT(4096, 16384), &GPT_2024,
      2048 },
    { "gpt_fa__memory_profiling_bf16_hidden4096_head32_seqlen2048__2024-09-19_071fd694", GPT(4096, 16384), &FA_2024,
      2048 },
    { "gpt_hf__memory_profiling_bf16_hidden4096_head32_seqlen2048__2024-09-19_071fd694", GPT(4096, 16384), &GPT_2024,
      2048 },
    { "llama_hf__memory_profiling_bf16_hidden4096_head32_seqlen2048__2024-10-08_16882d23", LLAMA(32000), &LLAMA_2024,
      2048 },
    { "llama_fa__memory_profiling_bf16_hidden4096_head32_seqlen2048__2024-10-08_16882d23", LLAMA(32000), &FA_2024,
      2048 },
    { "llama_hf__memory_profiling_bf16_hidden4096_head32_seqlen2048__2024-10-22_03d9e687", LLAMA(32000),
      &LLAMA_OCT_2024, 2048 },
    { "gpt_hf__memory_profiling_bf16_hidden4096_head32__2024-12-11_9cf77a59", GPT(4096, 16384), &GPT_2024, 0 },
    { "bert_hf__memory_profiling_bf16_hidden768_head12__2025-02-11_15cbc126", BERT(768, 12, 3072), &BERT_VIT, 0 },
    { "bert_hf__memory_profiling_bf16_hidden1024_head16__2025-02-11_15cbc126", BERT(1024, 16, 4096), &BERT_VIT, 0 },
    { "vit_hf__memory_profiling_bf16_hidden1280_head16__2025-03-24_7ee4925f", VIT(1280, 16, 5120), &BERT_VIT, 0 },
    { "vit_hf__memory_profiling_bf16_hidden2560_head32__2025-03-24_7ee4925f", VIT(2560, 32, 10240), &BERT_VIT, 0 },
    { "llama_hf__memory_profiling_bf16_llama-7b_all__2025-10-10_99a0f185", LLAMA(32000), &FROM_2025,
      0 }, /* of 4096; later files have the same numbers under 2048, but a recomputed layer keeps 32 MiB a sample, which is 4096 x 4096 x 2 bytes */
    { "gpt__memory_profiling_bf16_llama2-7b_seqlen2048_all__2026-03-30_9b0c9fb2", LLAMA(32000), &FROM_2025, 0 },
};
enum { MEMORY_FILES = sizeof MEMORIES / sizeof *MEMORIES, TRIPLES_MAX = 512 };
static struct triple triples[TRIPLES_MAX];
static uint32_t triple_count;

static bool is_known(const double *measured)
{
    for (uint32_t i = 0; i < triple_count; i++) {
        if (memcmp(triples[i].measured, measured, sizeof triples[i].measured) == 0) {
            return true;
        }
    }
    return false;
}

static void read_triples(const struct profile *profile)
{
    struct arena arena = { 0 };
    struct galvatron_file file;
    profile_load(&file, profile, &arena);
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
        struct triple triple = { .profile = profile,
                                 .devices = group->numbers[1] * group->numbers[2],
                                 .tensor = group->numbers[1],
                                 .layers = entry->numbers[1],
                                 .batch = entry->numbers[2],
                                 .sequence = profile->sequence > 0 ? profile->sequence : entry->numbers[3],
                                 .recompute = strstr(group->pattern, "_c") != NULL,
                                 .sequence_parallel = strstr(group->pattern, "_sp") != NULL,
                                 .vocab_split = strstr(group->pattern, "_vtp") != NULL };
        for (uint32_t k = 0; k < 3; k++) {
            EXPECT(strstr(file.entries[i + k].pattern, PARTS[k]) != NULL);
            triple.measured[k] = file.entries[i + k].value;
        }
        if (!is_known(triple.measured)) {
            EXPECT(triple_count < TRIPLES_MAX);
            triples[triple_count++] = triple;
        }
    }
    arena_free(&arena);
}

struct units {
    double layer, ffn, embedding, word, before_first, head; /* parameters of a device's whole unit; ffn: of a layer's */
    /* bytes of its samples: kept, with what recomputation rebuilds, short-lived; a boundary between layers */
    double layer_saved, layer_rebuilt, layer_scratch, boundary;
    double embedding_saved, head_saved, loss_saved, loss_scratch;
};

static double peak_of(const struct triple *triple, const struct units *u)
{
    double ways = (double)triple->devices / triple->tensor, end_ways = triple->vocab_split ? ways : triple->devices;
    double n = triple->layers, act = n * u->layer_saved + u->embedding_saved + u->head_saved;
    double of_layer = 4 * u->layer / ways, of_embedding = 4 * u->embedding / end_ways, of_head = 4 * u->head / end_ways;
    double all = n * of_layer + of_embedding + of_head;
    double peak = fmax(act + u->loss_scratch + 2 * u->head, act - u->loss_saved + 6 * u->head) - all;
    for (uint32_t layer = triple->layers; layer > 0; layer--) {
        double absent = layer * of_layer + of_embedding, kept = (layer - 1.0) * u->layer_saved + u->embedding_saved;
        double ahead = 2 * (layer > 1 ? u->layer : u->before_first);
        double held = triple->recompute ? 4 * u->boundary : u->boundary;
        peak = fmax(peak, kept + 6 * u->layer + ahead + held - absent);
        double repeated = triple->recompute ? u->boundary + 2 * u->ffn : 0;
        peak = fmax(peak, kept + u->layer_rebuilt + repeated + u->layer_scratch + 2 * u->layer + ahead - absent);
    }
    return fmax(peak, 6 * u->word - of_embedding);
}

/* What the code of the day keeps of a layer beyond our graph's count. */
static double layer_extra(const struct triple *triple, const struct model *model, double samples)
{
    const struct profile_code *code = triple->profile->code;
    double tokens = samples * triple->sequence, values = tokens * (double)model->hidden / triple->tensor, extra = 0;
    bool flash = code != &BERT_VIT, several = samples > 1;
    if (model->family == MODEL_LLAMA) {
        extra += code->gate_apart ? 2 * tokens * (double)model->ffn / triple->tensor : 0;
        extra -= strcmp(code->software, FLASH) == 0 ? 4 * values : 0; /* unrotated queries and keys */
        double rows = triple->sequence_parallel ? values : values * triple->tensor;
        extra += code->plain_norm ? 2 * 4 * rows : 0;
    }
    return extra + (code->megatron && flash && several ? 2 * values : 0);
}

static void predict_ends(const struct triple *triple, const struct scenario *scenario, const struct piece_layers *ends,
                         double samples, double end_samples, struct units *u)
{
    const struct model *model = &scenario->model;
    const struct profile_code *code = triple->profile->code;
    const struct piece_layer *embedding = &ends->embedding, *head = &ends->head;
    uint32_t end_tensor = triple->vocab_split ? triple->tensor : 1;
    double hidden = (double)model->hidden, tokens = end_samples * triple->sequence;
    double logits = (double)model->vocab / end_tensor * tokens;
    u->embedding = embedding->parameters;
    u->word = code->tables_apart && model->vocab > 0 ? (double)model->vocab / end_tensor * hidden : u->embedding;
    u->before_first = u->word < u->embedding ? u->embedding - u->word : u->embedding;
    u->head = head->parameters + head->tied_parameters;
    u->embedding_saved = embedding->saved_bytes[RECOMPUTE_NONE];
    double apart = code->norm_apart * (samples - end_samples) * triple->sequence * hidden;
    double rows = tokens * hidden / (triple->sequence_parallel ? end_tensor : 1);
    u->loss_saved = (code->fp32_logits ? 4 : 2) * logits;
    u->head_saved = head->saved_bytes[RECOMPUTE_NONE] + apart + (code->plain_norm ? 8 * rows : 0);
    u->loss_scratch = 2 * logits + (code->fp32_logits ? 4 * logits : 0) + (code->logits_twice ? 2 * logits : 0);
}

static double buffers(const struct triple *triple, const struct scenario *scenario, double samples)
{
    const struct profile_code *code = triple->profile->code;
    const struct model *model = &scenario->model;
    double tokens = samples * triple->sequence, bytes = 2 * scenario->machine.blas_workspace_bytes;
    if (code->megatron && triple->sequence_parallel && (triple->tensor > 1 || code->buffer_always)) {
        bytes += 2 * tokens * (double)model->hidden;
    }
    if (code == &BERT_VIT) {
        bytes += 2 * tokens * (double)model->heads / triple->tensor * triple->sequence;
    }
    return bytes;
}

static void predict_triple(struct triple *triple)
{
    struct scenario scenario;
    struct pieces *pieces;
    struct error error = { 0 };
    const struct piece_layers *layers;
    profile_scenario(&scenario, triple->profile, triple->sequence);
    const struct model *model = &scenario.model;
    uint32_t end_tensor = triple->vocab_split ? triple->tensor : 1;
    uint32_t samples = triple->batch * triple->tensor / triple->devices,
             end_samples = triple->batch * end_tensor / triple->devices;
    struct units u = { 0 };
    EXPECT_INT(pieces_open(&pieces, &scenario, &error), STATUS_OK);
    EXPECT_INT(pieces_layers(pieces, triple->tensor, triple->sequence_parallel, samples, &layers, &error), STATUS_OK);
    const struct piece_layer layer = layers->blocks[0];
    EXPECT_INT(pieces_layers(pieces, end_tensor, triple->sequence_parallel, end_samples, &layers, &error), STATUS_OK);
    predict_ends(triple, &scenario, layers, samples, end_samples, &u);
    u.layer = layer.parameters;
    u.ffn = (model->activation == MODEL_SWIGLU ? 3.0 : 2.0) * (double)(model->hidden * model->ffn) / triple->tensor;
    u.layer_rebuilt = layer.saved_bytes[RECOMPUTE_NONE] + layer_extra(triple, model, samples);
    u.layer_saved = triple->recompute ? layer.saved_bytes[RECOMPUTE_FULL] : u.layer_rebuilt;
    u.layer_scratch = layer.backward_scratch_bytes[RECOMPUTE_NONE];
    u.boundary = layer.boundary_bytes;
    double parameters = triple->layers * u.layer * triple->tensor + (u.embedding + u.head) * end_tensor;
    triple->predicted[0] = 16 * parameters / triple->devices + buffers(triple, &scenario, samples);
    triple->predicted[1] = triple->layers * u.layer_saved + u.embedding_saved + u.head_saved;
    triple->predicted[2] = peak_of(triple, &u);
    for (int k = 0; k < 3; k++) {
        triple->predicted[k] /= MIB;
    }
    pieces_close(pieces);
    scenario_free(&scenario);
}

struct sums {
    double off[3], bias[3], worst[3];
    uint32_t count;
};

static void add_triple(struct sums *sums, const struct triple *triple)
{
    for (int k = 0; k < 3; k++) {
        double off = triple->predicted[k] / triple->measured[k] - 1;
        sums->off[k] += fabs(off);
        sums->bias[k] += off;
        sums->worst[k] = fabs(off) > fabs(sums->worst[k]) ? off : sums->worst[k];
    }
    sums->count++;
}

static void print_triple(const struct triple *t)
{
    printf("  %-18.18s %.10s s%u tp%u L%u%s%s%s ", t->profile->file,
           t->profile->file + strlen(t->profile->file) - strlen("2024-05-30_f711e97b"), t->sequence, t->tensor,
           t->layers, t->recompute ? " c" : "", t->sequence_parallel ? " sp" : "", t->vocab_split ? " vtp" : "");
    for (int k = 0; k < 3; k++) {
        printf("  %s %.1f, predicted %.1f (%+.1f %%)", PARTS[k] + 1, t->measured[k], t->predicted[k],
               100 * (t->predicted[k] / t->measured[k] - 1));
    }
    printf("\n");
}

static void test_memory(void)
{
    static const char *const whats[3] = { "  model states after backward", "  activations after forward",
                                          "  peak of forward and backward" };
    struct sums all = { 0 };
    fclose(golden_open(
        "galvatron2/model_profiles/vit_hf__memory_profiling_bf16_hidden2560_head32__2025-03-24_7ee4925f.json"));
    for (size_t i = 0; i < MEMORY_FILES; i++) {
        uint32_t first = triple_count;
        struct sums of_file = { 0 };
        read_triples(&MEMORIES[i]);
        for (uint32_t k = first; k < triple_count; k++) {
            predict_triple(&triples[k]);
            print_triple(&triples[k]);
            add_triple(&all, &triples[k]);
            add_triple(&of_file, &triples[k]);
        }
        printf("  %-88s %2u triples  off %5.2f %% %5.2f %% %5.2f %%\n", MEMORIES[i].file, of_file.count,
               100 * of_file.off[0] / of_file.count, 100 * of_file.off[1] / of_file.count,
               100 * of_file.off[2] / of_file.count);
    }
    double mean = 0, bias = 0, worst = 0;
    for (int k = 0; k < 3; k++) {
        profile_summary(whats[k], all.count, all.off[k] / all.count, all.bias[k] / all.count, all.worst[k], 0);
        mean += all.off[k] / (3 * all.count);
        bias += all.bias[k] / (3 * all.count);
        worst = fmax(worst, fabs(all.worst[k]));
    }
    profile_summary("memory triples (Galvatron's profiles)", 3 * all.count, mean, bias, worst, 0.05);
    EXPECT(mean <= 0.05);
    EXPECT(all.count >= 266);
}

TEST_MAIN(TEST(test_memory))
