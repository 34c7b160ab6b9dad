/* Rates of PatrickStar's figures mgpu_scalability (Yard, 8 V100) and one_node_perf_a100 (SuperPod, 8 A100): TFLOP/s of all GPUs of a server, printed beside simulated ones, and whether the
 * systems stand in the same order at every point of a figure.
 *
 * Each figure is the best of several runs. What was swept stands in the authors' scripts, what they ran of DeepSpeed too:
 *   PatrickStar examples/run_benchmark.sh, run_benchmark_large.sh      Yard: batches 8, 16, 32 a GPU; chunks of 32 to 128 Mi
 *   PatrickStar examples/benchmark/run_a100_benchmark_*.sh             SuperPod: batches 4, 8, 16; chunks of 256 to 384 Mi
 *   feifeibear/DeepSpeedZeRO3Benchmark (the first author's)            ZeRO-3 offload of a GPT-2 with 16 heads: host memory not page-locked, max_live_parameters 1e8,
 *                                                                      stage3_prefetch_bucket_size 2.5e7, no fused kernels; the 30B of the figure: 37 layers of 8192
 * PatrickStar's models are BERT classifiers of Hugging Face: eager PyTorch, nothing fused (examples/model_builder.py); DDP runs them under torch.cuda.amp.autocast with fp32 weights
 * (examples/pretrain_demo.py), PatrickStar in fp16 without it. Activations are recomputed everywhere. The figures count 8 N B s FLOP
 * a step. DeepSpeed's batches are not published: the same. Beside given chunks the authors' search is tried. PyTorch of 2021 page-locked blocks
 * without rounding (pytorch issue 95823: from 1.11 on it does). What does not fit counts as an error of 100 %.
 *
 * Measured: SuperPod and PatrickStar on the Yard from offload.csv (printed labels). DeepSpeed on the Yard from the printed speed-ups of an earlier figure with the same points; DDP and model
 * parallelism are read off the figure, to 2 %: shown, not judged (facts/patrickstar-zero-offload.md B.4). Two to eight SuperPod nodes: figure m_node_superpod, read off to 2 %, too (B.6), but judged: nothing else
 * is known of several nodes; batches as on one.
 *
 * DDP on 8 V100 is 28 % slower a GPU than on one. Not the links: the Yard's NVLinks are a DGX-1's (t_published_machines.c), whose eight GPUs together have its best all-reduce (134 GB/s of bus bandwidth:
 * 4.3 GB of fp32 gradients take 54 ms beside a backward of 2 s), and the other systems scale on them as they should. With batch 16 the all-reduce would have to run at 2.8 GB/s to give the 318, with
 * batch 8 at 5.8, with 4 at 12.1. Nor memory: batch 16 takes 27.5 of 31.7 GiB on 2, 4 and 8 alike. */
#include "sim/model/ladder.h"
#include "tests/accuracy/accuracy.h"
#include "tests/csv.h"

/* Where two measured rates differ by less, their order is not known. */
static const double TIE = 0.02;
static const double MEAN_LIMIT = 0.25;
static const double SEQUENCE = 1024;

enum system { DDP, PATRICKSTAR, DEEPSPEED, DEEPSPEED_MP2, DEEPSPEED_MP4, SYSTEM_COUNT };
static const char *const SYSTEM_NAMES[SYSTEM_COUNT] = { "PyTorch DDP", "PatrickStar", "DeepSpeed", "DeepSpeed mp2",
                                                        "DeepSpeed mp4" };

enum { YARD, SUPERPOD, SUPERPODS, SERVER_COUNT };
enum { SWEEP = 3 };
static const struct server {
    const char *name, *machine, *rows; /* rows: prefix of ids in offload.csv, NULL: none there */
    int batches[SWEEP], chunks_mi[SWEEP];
} SERVERS[SERVER_COUNT] = {
    [YARD] = { "yard-v100", "yard-v100", "ps_v100_", { 8, 16, 32 }, { 0, 64, 128 } },
    [SUPERPOD] = { "superpod-a100-40gb", "superpod-a100-40gb", "ps_a100_", { 4, 8, 16 }, { 0, 288, 384 } },
    [SUPERPODS] = { "2 to 8 superpod", "superpod-a100-40gb", NULL, { 4, 8, 16 }, { 0, 288, 384 } },
};
enum { NODE_GPUS = 8 };

/* Not in offload.csv; 0: not in the figure. */
static const struct {
    int server;
    enum system system;
    int gpus;
    double billions[5], tflops[5];
} TYPED_ROWS[] = {
    { YARD, DDP, 1, { 1 }, { 55.3 } },
    { YARD, DDP, 2, { 1 }, { 107.5 } },
    { YARD, DDP, 4, { 1 }, { 205 } },
    { YARD, DDP, 8, { 1 }, { 318 } },
    { YARD, DEEPSPEED, 1, { 1, 2, 4 }, { 42.9, 38.7, 32.9 } },
    { YARD, DEEPSPEED, 2, { 1, 2, 4, 6 }, { 84.0, 82.8, 86.1, 95.6 } },
    { YARD, DEEPSPEED, 4, { 1, 2, 4, 6 }, { 163.3, 170.4, 182.1, 206.5 } },
    { YARD, DEEPSPEED, 8, { 1, 2, 4 }, { 339.7, 349.4, 364.4 } },
    { YARD, DEEPSPEED_MP2, 8, { 1, 2, 4, 6, 8 }, { 260, 258, 271, 324, 324 } },
    { YARD, DEEPSPEED_MP4, 8, { 1, 2, 4, 6, 8 }, { 225, 175, 271, 290, 285 } },
    { SUPERPODS, PATRICKSTAR, 16, { 20, 40, 60 }, { 2880, 2775, 2130 } },
    { SUPERPODS, PATRICKSTAR, 32, { 20, 40, 60, 175 }, { 6090, 6050, 4070, 3530 } },
    { SUPERPODS, PATRICKSTAR, 48, { 20, 40, 60, 175 }, { 8790, 8110, 6320, 5440 } },
    { SUPERPODS, PATRICKSTAR, 64, { 20, 40, 60, 175 }, { 11600, 11890, 11730, 8090 } },
};

struct point {
    int server, gpus;
    enum system system;
    double billions, measured, simulated; /* TFLOP/s of all GPUs */
    int batch, chunk_mi;                  /* of the best */
};
enum { POINTS_MAX = 160 };
struct figure {
    struct point points[POINTS_MAX];
    int count;
};

static bool judged(enum system system)
{
    return system == PATRICKSTAR || system == DEEPSPEED;
}

/* The ladder's model of that size. */
static bool find_model(double billions, struct model *model)
{
    const struct model_ladder *ladder = model_ladder_find("patrickstar-ladder");
    for (uint32_t i = 0; i < ladder->count; i++) {
        const char *digits = strrchr(ladder->models[i], '_') + 1;
        if (fabs(strtod(digits, NULL) - billions) < 0.5) {
            return model_library_find(ladder->models[i], model);
        }
    }
    return false;
}

static int tensor_of(enum system system)
{
    return system == DEEPSPEED_MP2 ? 2 : system == DEEPSPEED_MP4 ? 4 : 1;
}

static void scenario_of(const struct point *point, const struct model *model, int batch, int chunk_mi, char *text,
                        size_t size)
{
    static const char *const EAGER = "{\"base\":\"deepspeed\",\"kernels\":{\"fused\":false}}";
    char policy[256] = "\"resident\"", network[256];
    const char *software = EAGER;
    int tensor = tensor_of(point->system);
    snprintf(network, sizeof network, "\"%s\"", model->name);
    if (point->system == PATRICKSTAR) {
        snprintf(policy, sizeof policy,
                 "{\"name\":\"patrickstar\",\"chunk_search\":\"patrickstar\",\"pinned_rounding\":false,\"chunk_"
                 "elements\":%d}",
                 chunk_mi * 1048576);
    } else if (point->system == DDP) {
        software = "{\"base\":\"pytorch-eager\",\"kernels\":{\"flash_attention\":false}}";
    } else {
        snprintf(
            policy, sizeof policy, "%s",
            "{\"name\":\"zero3-offload\",\"prefetch_elements\":25000000,\"max_live_parameters\":100000000,"
            "\"max_reuse_distance\":100000000,\"pinned_weights\":false,\"pinned_gradients\":false,\"round_pinned\":"
            "\"none\"}");
        snprintf(network, sizeof network,
                 "{\"family\":\"gpt\",\"layers\":%d,\"hidden\":%d,\"heads\":%d,\"ffn\":%d,\"vocab\":50257,"
                 "\"max_sequence\":1024}",
                 (int)model->layers, (int)model->hidden, (int)model->heads, (int)model->ffn);
    }
    snprintf(text, size,
             "{\"model\":%s,\"machine\":\"%s\",\"nodes\":%d,\"gpus\":%d,\"software\":%s,\"recompute\":\"full\","
             "\"training\":{"
             "\"sequence_length\":1024,\"precision\":\"fp16\",\"micro_batch\":%d,\"global_batch\":%d},"
             "\"parallel\":{\"tensor\":%d,\"zero_stage\":%d},\"memory_policy\":%s}",
             network, SERVERS[point->server].machine, (point->gpus + NODE_GPUS - 1) / NODE_GPUS, point->gpus, software,
             batch, batch * point->gpus / tensor, tensor, point->system == PATRICKSTAR || point->system == DDP ? 0 : 3,
             policy);
}

/* The best of the sweep; 0: nothing fits. */
static void simulate_point(struct point *point)
{
    const struct server *server = &SERVERS[point->server];
    struct model model;
    if (!find_model(point->billions, &model)) {
        printf("no model of %gB in the ladder\n", point->billions);
        return;
    }
    for (int i = 0; i < SWEEP * (point->system == PATRICKSTAR ? SWEEP : 1); i++) {
        char text[1536];
        int batch = server->batches[i % SWEEP], chunk_mi = server->chunks_mi[i / SWEEP];
        struct error refused = { 0 };
        scenario_of(point, &model, batch, chunk_mi, text, sizeof text);
        struct simulated got = simulate_or_complain(text, NULL, NULL, &refused);
        double samples = (double)batch * point->gpus / tensor_of(point->system);
        double flop = 8 * (double)model_parameters(&model) * samples * SEQUENCE;
        if (got.ran && got.step_s > 0 && flop / got.step_s * 1e-12 > point->simulated) {
            point->simulated = flop / got.step_s * 1e-12;
            point->batch = batch;
            point->chunk_mi = chunk_mi;
        }
    }
}

static void add_point(struct figure *figure, struct point point)
{
    if (figure->count < POINTS_MAX) {
        figure->points[figure->count++] = point;
    }
}

/* ids are ps_v100_pstar_8_18B: server, system, GPUs, size */
static bool read_rows(struct figure *figure)
{
    struct csv csv;
    if (!csv_load(&csv, measured_folder(), "offload.csv")) {
        return false;
    }
    for (size_t row = 0; row < csv.rows; row++) {
        const char *id = csv_text(&csv, row, "id");
        for (int s = 0; s < SERVER_COUNT; s++) {
            size_t length = SERVERS[s].rows != NULL ? strlen(SERVERS[s].rows) : 0;
            char system[32];
            int gpus;
            double billions;
            if (length > 0 && strncmp(id, SERVERS[s].rows, length) == 0 &&
                sscanf(id + length, "%31[a-z]_%d_%lfB", system, &gpus, &billions) == 3) {
                add_point(figure, (struct point){ .server = s,
                                                  .gpus = gpus,
                                                  .system = system[0] == 'p' ? PATRICKSTAR : DEEPSPEED,
                                                  .billions = billions,
                                                  .measured = csv_number(&csv, row, "value") });
            }
        }
    }
    csv_free(&csv);
    for (size_t i = 0; i < sizeof TYPED_ROWS / sizeof TYPED_ROWS[0]; i++) {
        for (int k = 0; k < 5 && TYPED_ROWS[i].tflops[k] > 0; k++) {
            add_point(figure, (struct point){ .server = TYPED_ROWS[i].server,
                                              .gpus = TYPED_ROWS[i].gpus,
                                              .system = TYPED_ROWS[i].system,
                                              .billions = TYPED_ROWS[i].billions[k],
                                              .measured = TYPED_ROWS[i].tflops[k] });
        }
    }
    return true;
}

static int print_rates(struct figure *figure, int server, enum system system)
{
    char name[96];
    snprintf(name, sizeof name, "TFLOP/s, %s (%s)", SYSTEM_NAMES[system], SERVERS[server].name);
    struct errors errors = { .name = name };
    for (int i = 0; i < figure->count; i++) {
        struct point *point = &figure->points[i];
        if (point->server != server || point->system != system) {
            continue;
        }
        simulate_point(point);
        double error = errors_add(&errors, point->simulated, point->measured);
        char chunk[32] = "";
        if (system == PATRICKSTAR && point->chunk_mi > 0) {
            snprintf(chunk, sizeof chunk, ", chunks of %d Mi", point->chunk_mi);
        }
        printf("  %-18s %-13s %d GPUs %3.0fB  measured %7.1f  simulated %7.1f  %+7.1f %%  %s %d%s\n",
               SERVERS[server].name, SYSTEM_NAMES[system], point->gpus, point->billions, point->measured,
               point->simulated, 100 * error, point->batch > 0 ? "batch" : "does not fit", point->batch, chunk);
    }
    return errors.count == 0 ? 0 : errors_print(&errors, judged(system) ? MEAN_LIMIT : SHOWN_ONLY);
}

/* Pairs of systems at one point of a figure, whose order the measurement tells. */
static int print_ranking(const struct figure *figure, bool labels)
{
    int pairs = 0, right = 0;
    for (int i = 0; i < figure->count; i++) {
        for (int k = i + 1; k < figure->count; k++) {
            const struct point *a = &figure->points[i], *b = &figure->points[k];
            bool same = a->server == b->server && a->gpus == b->gpus && fabs(a->billions - b->billions) < 0.5;
            bool all_labels = judged(a->system) && judged(b->system);
            if (!same || all_labels != labels || fabs(a->measured / b->measured - 1) <= TIE) {
                continue;
            }
            bool alike = (a->measured > b->measured) == (a->simulated > b->simulated);
            pairs++;
            right += alike;
            if (!alike) {
                printf("  order: %s, %d GPUs, %.0fB: %s %.1f and %s %.1f, simulated %.1f and %.1f\n",
                       SERVERS[a->server].name, a->gpus, a->billions, SYSTEM_NAMES[a->system], a->measured,
                       SYSTEM_NAMES[b->system], b->measured, a->simulated, b->simulated);
            }
        }
    }
    printf("order of systems at a point, %-36s %3d of %3d pairs as measured  %s\n",
           labels ? "PatrickStar and DeepSpeed (labels)" : "with DDP, mp2, mp4 (read off)", right, pairs,
           !labels          ? "shown, not judged"
           : right == pairs ? "all wanted  ok"
                            : "all wanted  TOO FEW");
    return labels && right < pairs ? 1 : 0;
}

int main(void)
{
    static struct figure figure;
    if (!read_rows(&figure)) {
        printf("no offload.csv in %s/data/measured\n", measured_folder());
        return 77;
    }
    int failures = 0;
    for (int server = 0; server < SERVER_COUNT; server++) {
        for (int system = 0; system < SYSTEM_COUNT; system++) {
            failures += print_rates(&figure, server, (enum system)system);
        }
    }
    failures += print_ranking(&figure, true);
    failures += print_ranking(&figure, false);
    return failures > 0 ? 1 : 0;
}
