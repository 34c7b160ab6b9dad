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
 *         - a layer's backward half way: what it saved less the input of its second product, short-lived tensors (gathered sequences lie in the buffer), both units' weights; of a repeated one,
 *           whose tensors are all held longer, also its output and the gradients of its feed-forward weights
 *         each less the gradients in "ms" that are not there yet: all in the forward pass, those of units still to come in the backward pass.
 *
 * Pipelines run the whole batch as one micro-batch; measured are the outer stages. What the first one sent stays until its backward, and with flash_attn's modules what crossed stages last is still
 * there after the step. The rules of one stage alone had these rows 5.30 % off, unseen; seeing them brought no_prefetch, the buffer left out of short-lived tensors and the second product's input. */
#include "sim/ir/schedule.h"
#include "sim/ir/timeline.h"
#include "strategies/planners/oracle.h"
#include "galvatron_profiles.h"

struct triple {
    const struct profile *profile;
    uint32_t pipeline, devices, tensor, layers, batch, sequence; /* devices, layers: of the stage */
    bool first, last; /* stages: the profiler's ranks are in the outer ones */
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
enum { MEMORY_FILES = sizeof MEMORIES / sizeof *MEMORIES, TRIPLES_MAX = 1024 };
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
        bool opens = entry->depth == 1 && length > 3 && strcmp(entry->pattern + length - 3, "_ms") == 0;
        if (!opens || group == NULL || strncmp(group->pattern, "#_#_#", 5) != 0) {
            continue;
        }
        uint32_t rank = entry->numbers[entry->number_count - 1], pipeline = group->numbers[0];
        if (pipeline == 1 && rank > 0) { /* as rank 0 */
            continue;
        }
        struct triple triple = { .profile = profile,
                                 .pipeline = pipeline,
                                 .first = rank == 0,
                                 .last = rank > 0 || pipeline == 1,
                                 .devices = group->numbers[1] * group->numbers[2],
                                 .tensor = group->numbers[1],
                                 .layers = entry->numbers[1] / pipeline,
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
    double layer_saved, layer_rebuilt, layer_scratch, boundary, ffn_input; /* of the second product */
    double embedding_saved, head_saved, loss_saved, loss_scratch;
};

static double activations(const struct triple *triple, const struct units *u)
{
    double act = triple->layers * u->layer_saved;
    act += triple->first ? u->embedding_saved : 0;
    act += triple->last ? u->head_saved : u->boundary; /* what was sent */
    return act;
}

static double peak_of(const struct triple *triple, const struct units *u)
{
    double ways = (double)triple->devices / triple->tensor, end_ways = triple->vocab_split ? ways : triple->devices;
    double of_layer = 4 * u->layer / ways, of_embedding = triple->first ? 4 * u->embedding / end_ways : 0;
    double act = activations(triple, u), sent = triple->last ? 0 : u->boundary, peak = 0;
    double saved_before = triple->first ? u->embedding_saved : 0;
    if (triple->last) {
        double all = triple->layers * of_layer + of_embedding + 4 * u->head / end_ways;
        peak = fmax(act + u->loss_scratch + 2 * u->head, act - u->loss_saved + 6 * u->head) - all;
    }
    for (uint32_t layer = triple->layers; layer > 0; layer--) {
        double absent = layer * of_layer + of_embedding, kept = (layer - 1.0) * u->layer_saved + saved_before + sent;
        bool gathers = !(triple->profile->code->no_prefetch && triple->pipeline > 1);
        double ahead = gathers ? 2 * (layer > 1 ? u->layer : triple->first ? u->before_first : 0) : 0;
        double held = triple->recompute ? 4 * u->boundary : u->boundary;
        double half_way = u->layer_scratch + (triple->recompute ? u->boundary + 2 * u->ffn : -u->ffn_input);
        peak = fmax(peak, kept + 6 * u->layer + ahead + held - absent);
        peak = fmax(peak, kept + u->layer_rebuilt + half_way + 2 * u->layer + ahead - absent);
    }
    return triple->first ? fmax(peak, sent + 6 * u->word - of_embedding) : peak;
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
    u->loss_saved = (code->fp32_logits ? 4 : 2) * logits;
    u->head_saved = head->saved_bytes[RECOMPUTE_NONE] + apart;
    u->loss_scratch = 2 * logits + (code->fp32_logits ? 4 * logits : 0) + (code->logits_twice ? 2 * logits : 0);
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
    u.layer_rebuilt = layer.saved_bytes[RECOMPUTE_NONE];
    u.layer_saved = triple->recompute ? layer.saved_bytes[RECOMPUTE_FULL] : u.layer_rebuilt;
    u.layer_scratch = layer.backward_scratch_bytes[RECOMPUTE_NONE];
    u.ffn_input = 2.0 * samples * triple->sequence * (double)model->ffn / triple->tensor;
    u.boundary = layer.boundary_bytes;
    double ends = (triple->first ? u.embedding : 0) + (triple->last ? u.head : 0);
    double buffers = 2 * scenario.machine.blas_workspace_bytes + layer.module_buffer_bytes;
    double parameters = triple->layers * u.layer * triple->tensor + ends * end_tensor;
    double exchanged =
        triple->pipeline > 1 && !triple->profile->code->megatron ? u.boundary : 0; /* of the last micro-batch */
    triple->predicted[0] = 16 * parameters / triple->devices + buffers + exchanged;
    triple->predicted[1] = activations(triple, &u);
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

static void add_error(struct sums *sums, int part, double off)
{
    sums->off[part] += fabs(off);
    sums->bias[part] += off;
    sums->worst[part] = fabs(off) > fabs(sums->worst[part]) ? off : sums->worst[part];
}

static void add_triple(struct sums *sums, const struct triple *triple)
{
    for (int k = 0; k < 3; k++) {
        add_error(sums, k, triple->predicted[k] / triple->measured[k] - 1);
    }
    sums->count++;
}

static void print_triple(const struct triple *t)
{
    printf("  %-18.18s %.10s s%u pp%u%s tp%u L%u%s%s%s ", t->profile->file,
           t->profile->file + strlen(t->profile->file) - strlen("2024-05-30_f711e97b"), t->sequence, t->pipeline,
           t->pipeline == 1 ? ""
           : t->first       ? " first"
                            : " last",
           t->tensor, t->layers, t->recompute ? " c" : "", t->sequence_parallel ? " sp" : "",
           t->vocab_split ? " vtp" : "");
    for (int k = 0; k < 3; k++) {
        printf("  %s %.1f, predicted %.1f (%+.1f %%)", PARTS[k] + 1, t->measured[k], t->predicted[k],
               100 * (t->predicted[k] / t->measured[k] - 1));
    }
    printf("\n");
}

/* The line of all three numbers of every row; the mean error. */
static double summarize(const char *what, const struct sums *sums, double allowed)
{
    double mean = 0, bias = 0, worst = 0;
    for (int k = 0; k < 3; k++) {
        mean += sums->off[k] / (3 * sums->count);
        bias += sums->bias[k] / (3 * sums->count);
        worst = fmax(worst, fabs(sums->worst[k]));
    }
    profile_summary(what, 3 * sums->count, mean, bias, worst, allowed);
    return mean;
}

/* The triples of one stage, or those of several; the mean error. */
static double judge(bool pipelined, const char *what)
{
    static const char *const whats[3] = { "  model states after backward", "  activations after forward",
                                          "  peak of forward and backward" };
    struct sums all = { 0 };
    for (size_t i = 0; i < MEMORY_FILES; i++) {
        struct sums of_file = { 0 };
        for (uint32_t k = 0; k < triple_count; k++) {
            if (triples[k].profile == &MEMORIES[i] && (triples[k].pipeline > 1) == pipelined) {
                print_triple(&triples[k]);
                add_triple(&all, &triples[k]);
                add_triple(&of_file, &triples[k]);
            }
        }
        if (of_file.count > 0) {
            printf("  %-88s %2u triples  off %5.2f %% %5.2f %% %5.2f %%\n", MEMORIES[i].file, of_file.count,
                   100 * of_file.off[0] / of_file.count, 100 * of_file.off[1] / of_file.count,
                   100 * of_file.off[2] / of_file.count);
        }
    }
    for (int k = 0; k < 3; k++) {
        profile_summary(whats[k], all.count, all.off[k] / all.count, all.bias[k] / all.count, all.worst[k], 0);
    }
    return summarize(what, &all, 0.05);
}

/* The peak in MiB on the GPU of the first stage, or of the last. */
static double peak_on(const struct schedule *schedule, const struct timeline *timeline, bool first)
{
    uint32_t stage = first ? 0 : UINT32_MAX, device = 0;
    double peak = 0;
    for (uint32_t i = 0; i < schedule->rank_count; i++) {
        const struct sched_rank *rank = &schedule->ranks[i];
        bool is_it = first ? rank->stage == 0 : stage == UINT32_MAX || rank->stage > stage;
        stage = is_it ? rank->stage : stage;
        device = is_it ? schedule->devices[rank->first_device] : device;
    }
    for (uint32_t i = 0; i < schedule->space_count; i++) {
        if (schedule->spaces[i].kind == SPACE_DEVICE && schedule->spaces[i].location == device) {
            peak = (double)timeline->spaces[i].peak_bytes / MIB;
        }
    }
    return peak;
}

/* The peak that the simulator has on the measured device in a step of the same training under ZeRO-3, by the lowering's own rules, in MiB. */
static double simulated_peak(const struct triple *triple)
{
    char gpus[32], pipeline[32], tensor[32], data[32], layers[32], batch[48], micro[48], embedding[80], head[80];
    const struct profile_code *code = triple->profile->code;
    bool gathers = !(code->no_prefetch && triple->pipeline > 1);
    const char *const sets[] = {
        gpus,
        pipeline,
        tensor,
        data,
        layers,
        batch,
        micro,
        embedding,
        head,
        triple->tensor > 1 && triple->sequence_parallel ? "parallel.sequence_parallel=true"
                                                        : "parallel.sequence_parallel=false",
        "model.tied_head=false",
        "parallel.zero_stage=3",
        triple->recompute ? "recompute=full" : "recompute=none",
        "software.bytes_per_parameter.weight=4",
        "software.bytes_per_parameter.gathered=2",
        "software.bytes_per_parameter.gradient=4",
        "software.bytes_per_parameter.reduce=2",
        "software.bytes_per_parameter.master=0",
        "software.bytes_per_parameter.moments=8",
        "software.numbers.gradient_dtype=fp32",
        "software.numbers.vocab_multiple=0",
        "software.communication.bucket_MB=0",
        "software.communication.overlap_parameter_gather=true",
        "software.communication.overlap_gradient_reduce=true",
        gathers ? "software.communication.prefetch_layers=1" : "software.communication.prefetch_layers=0",
        "software.communication.norm_unit=true",
        code->tables_apart ? "software.communication.table_units=true" : "software.communication.table_units=false",
        "software.memory.runtime_memory=false",
        "software.memory.gradients_as_made=true",
        "software.communication.flat_units=true",
        "software.memory.nccl_buffers=false"
    };
    struct scenario scenario;
    struct schedule schedule = { 0 };
    struct timeline timeline = { 0 };
    struct error error = { 0 };
    CHECK(triple->tensor > 0);
    uint32_t ways = triple->devices / triple->tensor;
    (void)snprintf(gpus, sizeof gpus, "gpus=%u", triple->devices * triple->pipeline);
    (void)snprintf(pipeline, sizeof pipeline, "parallel.pipeline=%u", triple->pipeline);
    (void)snprintf(tensor, sizeof tensor, "parallel.tensor=%u", triple->tensor);
    (void)snprintf(data, sizeof data, "parallel.data=%u", ways);
    (void)snprintf(layers, sizeof layers, "model.layers=%u", triple->layers * triple->pipeline);
    (void)snprintf(batch, sizeof batch, "training.global_batch=%u", triple->batch);
    (void)snprintf(micro, sizeof micro, "training.micro_batch=%u", triple->batch / ways);
    (void)snprintf(embedding, sizeof embedding, "parallel.embedding={\"tensor\":%u,\"zero_stage\":3}",
                   triple->vocab_split ? triple->tensor : 1);
    (void)snprintf(head, sizeof head, "parallel.head={\"tensor\":%u,\"zero_stage\":3}",
                   triple->vocab_split ? triple->tensor : 1);
    profile_scenario_with(&scenario, triple->profile, triple->sequence, sets, sizeof sets / sizeof sets[0]);
    enum status status =
        oracle_simulate(&scenario, &scenario.software, &scenario.plan, NULL, &schedule, &timeline, &error);
    if (status != STATUS_OK) {
        TEST_FAIL_("%s", error.message);
        exit(1);
    }
    double peak = peak_on(&schedule, &timeline, triple->first) + 2 * scenario.machine.blas_workspace_bytes / MIB;
    timeline_free(&timeline);
    schedule_free(&schedule);
    scenario_free(&scenario);
    return peak;
}

/* The triples with the simulator's own peak in place of peak_of's, and (shown) its whole peak against "ms" + "act_peak". The stack is FSDP1's (software.communication.flat_units) under the modules of the
 * profile; embedding and head have a table each in these runs, also where the model ties them, and a split of their own. A unit's weights in a group of one are not cast ahead of its backward, and the
 * gradients of an embedding's tables are joined as one. */
static void test_simulated(void)
{
    static const char *const words[2] = { "vit", "bert" }, *const names[2] = { "  of these, ViT's", "  BERT's" };
    struct sums triples_of = { 0 }, whole = { 0 }, family[2] = { 0 };
    for (uint32_t k = 0; k < triple_count; k++) {
        struct triple triple = triples[k];
        double peak = simulated_peak(&triple);
        add_error(&whole, 0, peak / (triple.measured[0] + triple.measured[2]) - 1);
        whole.count++;
        triple.predicted[2] = peak - triple.predicted[0];
        EXPECT(triple.predicted[2] > 0);
        add_triple(&triples_of, &triple);
        for (int i = 0; i < 2; i++) {
            if (strncmp(triple.profile->file, words[i], strlen(words[i])) == 0) {
                add_error(&family[i], 0, peak / (triple.measured[0] + triple.measured[2]) - 1);
                family[i].count++;
            }
        }
    }
    uint32_t count = whole.count;
    EXPECT(count >= 499);
    profile_summary("ZeRO-3 peaks of the simulator, all of a GPU (the same)", count, whole.off[0] / count,
                    whole.bias[0] / count, whole.worst[0], 0);
    for (int i = 0; i < 2; i++) {
        profile_summary(names[i], family[i].count, family[i].off[0] / family[i].count,
                        family[i].bias[0] / family[i].count, family[i].worst[0], 0);
    }
    profile_summary("  its peaks above the model states", count, triples_of.off[2] / count, triples_of.bias[2] / count,
                    triples_of.worst[2], 0);
    EXPECT(summarize("memory triples with the peaks of the simulator", &triples_of, 0.05) <= 0.05);
}

static void test_memory(void)
{
    fclose(golden_open(
        "galvatron2/model_profiles/vit_hf__memory_profiling_bf16_hidden2560_head32__2025-03-24_7ee4925f.json"));
    for (size_t i = 0; i < MEMORY_FILES; i++) {
        read_triples(&MEMORIES[i]);
    }
    for (uint32_t k = 0; k < triple_count; k++) {
        predict_triple(&triples[k]);
    }
    EXPECT(judge(false, "memory triples (Galvatron's profiles)") <= 0.05);
    EXPECT(judge(true, "memory triples of pipeline stages (the same)") <= 0.05);
    EXPECT(triple_count >= 499);
    printf("  %u triples\n", triple_count);
}

TEST_MAIN(TEST(test_memory), TEST(test_simulated))
