/* Largest model against PatrickStar's figures mgpu_scalability (Yard) and one_node_perf_a100 (SuperPod): PyTorch's data parallelism, DeepSpeed, PatrickStar on 1, 2, 4 and 8 GPUs.
 * `a_offload rows` prints every trial.
 *
 * What is compared: the largest model of patrickstar-ladder that fits, in steps of that ladder from the one the figure prints. Inputs that the figures do not print: the batch (the
 * authors swept 4, 8 and 16: here the least). Activations are recomputed, as the authors' scripts do. PyTorch of 2020 and 2021 page-locked blocks without rounding (pytorch issue 95823: 1.10 did not,
 * 1.11 does): so in every row here, in a_offload_rates.c, a_offload_logs.c and t_zero_rates.c. DeepSpeed is shown as three:
 *   ZeRO-2   each rank builds the whole model in host memory before it is 16-bit, which zero.Init spares stage 3 alone: why 8 GPUs of the Yard hold less than 4
 *   lean     the same without 10 bytes a parameter of temporaries in Adam, which were measured in 2025: 70B of 2021 on a DGX-2 had no room for them (a_offload_bars.c). The Yard's bars need them, or
 *            something as large, which ZeRO-3, below, would have to have instead
 *   ZeRO-3   as the first author's own script has it (feifeibear/DeepSpeedZeRO3Benchmark): weights, too, in host memory that is not page-locked; zero.Init without remote_device makes them on the
 *            device first, which bounds 1 and 2 A100. What filled elsewhere is not published; they stop where it took 25 to 58 bytes of host memory a parameter, and we count 18 and what a rank takes
 *
 * PatrickStar is shown as two:
 *   as it runs         a chunk size that their search script's rule for all chunks refuses is tried all the same: the script leaves the choice to its user, and 18B on 8 V100 breaks the rule with any size
 *   with the rule      what the script accepts. It bounds 1 to 4 V100 near the printed 12B, but these bars stop there for another reason: those of 1 and 2 GPUs repeat the labels of v0.3.0, whose
 *                      limit was 12B (B.4), and were not tried beyond
 *
 * Judged: 12 of the 20 printed cells within one step, live bytes, ZeRO-2 for DeepSpeed, PatrickStar as it runs. Beside it the same in steps of the sizes that the figures plot: what lies between these
 * (11B and 13B on the Yard, 18B on the SuperPod) the authors did not print, whether it ran or not. */
#include <unistd.h>

#include "sim/model/ladder.h"
#include "sim/report/fit.h"
#include "tests/test.h"

static bool show_rows;

enum { GPU_COUNTS = 4 };
static const int GPUS[GPU_COUNTS] = { 1, 2, 4, 8 };

struct system {
    const char *name, *policy, *software;
    int zero_stage;
    bool judged;
};
enum { CELLS_WANTED = 12 };

enum { DDP, DEEPSPEED_2, DEEPSPEED_2_LEAN, DEEPSPEED_3, PATRICKSTAR, PATRICKSTAR_RULE, SYSTEM_COUNT };
static const struct system SYSTEMS[SYSTEM_COUNT] = {
    [DDP] = { "PyTorch DDP", "\"resident\"", "pytorch-eager", 0, true },
    [DEEPSPEED_2] = { "DeepSpeed, ZeRO-2",
                      "{\"name\":\"zero-offload\",\"initialise_bytes\":6,\"round_pinned\":\"none\"}", "deepspeed", 2,
                      true },
    [DEEPSPEED_2_LEAN] = { "DeepSpeed, lean",
                           "{\"name\":\"zero-offload\",\"initialise_bytes\":6,\"round_pinned\":\"none\","
                           "\"scratch_bytes\":0}",
                           "deepspeed", 2, false },
    [DEEPSPEED_3] = { "DeepSpeed, ZeRO-3",
                      "{\"name\":\"zero3-offload\",\"prefetch_elements\":25000000,\"max_live_parameters\":100000000,"
                      "\"max_reuse_distance\":100000000,\"pinned_weights\":false,\"pinned_gradients\":false,"
                      "\"initialised_on_device\":true,\"round_pinned\":\"none\"}",
                      "deepspeed", 3, false },
    [PATRICKSTAR] = { "PatrickStar",
                      "{\"name\":\"patrickstar\",\"chunk_search\":\"patrickstar\",\"pinned_rounding\":false}",
                      "deepspeed", 0, true },
    [PATRICKSTAR_RULE] = { "PatrickStar, rule",
                           "{\"name\":\"patrickstar\",\"chunk_search\":\"patrickstar\",\"chunk_rule\":\"require\","
                           "\"pinned_rounding\":false}",
                           "deepspeed", 0, false },
};

/* Billions of parameters that the figures print; 0: not printed. Sizes: those of the horizontal axis. */
enum { AXIS_SIZES = 9 };
struct printed {
    const char *machine;
    double axis[AXIS_SIZES];
    double largest[SYSTEM_COUNT][GPU_COUNTS];
};
static const struct printed PRINTED[] = {
    { "yard-v100",
      { 1, 2, 4, 6, 8, 10, 12, 15, 18 },
      { [DDP] = { 1, 1, 1, 1 },
        [DEEPSPEED_2] = { 4, 6, 6, 4 },
        [DEEPSPEED_2_LEAN] = { 4, 6, 6, 4 },
        [DEEPSPEED_3] = { 4, 6, 6, 4 },
        [PATRICKSTAR] = { 12, 12, 12, 18 },
        [PATRICKSTAR_RULE] = { 12, 12, 12, 18 } } },
    { "superpod-a100-40gb",
      { 6, 10, 15, 20, 30, 40, 50, 60, 68 },
      { [DEEPSPEED_2] = { 15, 20, 20, 30 },
        [DEEPSPEED_2_LEAN] = { 15, 20, 20, 30 },
        [DEEPSPEED_3] = { 15, 20, 20, 30 },
        [PATRICKSTAR] = { 50, 50, 60, 68 },
        [PATRICKSTAR_RULE] = { 50, 50, 60, 68 } } },
};

/* The size in a model's name, in billions: "gpt3_18b". */
static double nominal(const char *name)
{
    const char *digits = strrchr(name, '_');
    return digits != NULL ? strtod(digits + 1, NULL) : 0;
}

/* Where a size stands on the ladder: the number of its rung. */
static double place(const struct model_ladder *ladder, double billions)
{
    for (uint32_t i = 0; i < ladder->count; i++) {
        if (fabs(nominal(ladder->models[i]) - billions) < 0.5) {
            return i;
        }
    }
    return -1;
}

/* The largest size of an axis that is not larger: its number from 0; -1: all are. */
static int place_on_axis(const struct printed *machine, double billions)
{
    int place = -1;
    while (place + 1 < AXIS_SIZES && machine->axis[place + 1] <= billions) {
        place++;
    }
    return place;
}

struct tally {
    uint32_t cells, exact, within_one;
    uint32_t axis_exact, axis_within_one; /* in steps of the figure's axis */
};

static void tally_add(struct tally *sum, const struct tally *more)
{
    sum->cells += more->cells;
    sum->exact += more->exact;
    sum->within_one += more->within_one;
    sum->axis_exact += more->axis_exact;
    sum->axis_within_one += more->axis_within_one;
}

static void show_trial(void *context, const struct fit_trial *trial)
{
    (void)context;
    if (show_rows) {
        printf("    %-12s %-12s %8.3f s %8.2f GiB device %8.2f GiB host  %s\n", trial->name,
               fit_verdict_word(trial->verdict), trial->step_time_s,
               (double)trial->fullest[SPACE_DEVICE].peak_bytes / 1073741824.0,
               (double)trial->fullest[SPACE_HOST].peak_bytes / 1073741824.0,
               trial->verdict == FIT_REFUSED ? trial->reason : "");
    }
}

/* What is full on the next one up: "host", "device", or why it was refused. */
static const char *what_is_full(const struct fit_report *report)
{
    const struct fit_trial *next = report->outcome.has_next ? fit_report_trial(report, report->outcome.next) : NULL;
    return next == NULL ? "nothing larger" : next->full.present ? space_kind_word(next->full.kind) : "policy";
}

/* One search of a cell, printed as "gpt3_8b +2.0 host": the largest, its steps from the printed one, what is full on the next. */
static int try_cell(const char *file, const struct printed *machine, uint32_t system, int gpu, bool reserved,
                    struct tally *tally)
{
    const struct model_ladder *ladder = model_ladder_find("patrickstar-ladder");
    char sets[5][256];
    snprintf(sets[0], sizeof sets[0], "machine=%s", machine->machine);
    snprintf(sets[1], sizeof sets[1], "gpus=%d", GPUS[gpu]);
    snprintf(sets[2], sizeof sets[2], "software=%s", SYSTEMS[system].software);
    snprintf(sets[3], sizeof sets[3], "memory_policy=%s", SYSTEMS[system].policy);
    snprintf(sets[4], sizeof sets[4], "parallel.zero_stage=%d", SYSTEMS[system].zero_stage);
    const struct fit_request request = { .file = file,
                                         .sets = (const char *const[]){ sets[0], sets[1], sets[2], sets[3], sets[4] },
                                         .set_count = 5,
                                         .models = ladder->models,
                                         .model_count = ladder->count,
                                         .reserved = reserved,
                                         .tried = show_trial };
    struct fit_report report;
    struct error error = { 0 };
    enum status status = fit_models(&request, &report, &error);
    if (status != STATUS_OK) {
        printf("  cannot be tried: %.160s", error.message);
        /* a scenario that a policy refuses is shown; faults of the program fail */
        return status == STATUS_BAD_INPUT || status == STATUS_UNSUPPORTED || status == STATUS_NOT_FOUND ? 0 : 1;
    }
    const struct fit_trial *best = report.outcome.any ? fit_report_trial(&report, report.outcome.largest) : NULL;
    double largest = best != NULL ? nominal(best->name) : 0, printed = machine->largest[system][gpu];
    double off = (best != NULL ? place(ladder, largest) : -1) - place(ladder, printed);
    int axis_off = place_on_axis(machine, largest) - place_on_axis(machine, printed);
    printf("  %-10s %+4.1f %-14s", best != NULL ? best->name : "none", off, what_is_full(&report));
    tally->cells++;
    tally->exact += fabs(off) < 0.25;
    tally->within_one += fabs(off) < 1.25;
    tally->axis_exact += axis_off == 0;
    tally->axis_within_one += abs(axis_off) <= 1;
    fit_free(&report);
    return 0;
}

/* What is live, and what the allocators hold: [0] and [1]. */
static int try_system(const char *file, uint32_t system, struct tally tallies[2])
{
    int failures = 0;
    for (size_t m = 0; m < sizeof PRINTED / sizeof PRINTED[0]; m++) {
        for (int gpu = 0; gpu < GPU_COUNTS; gpu++) {
            if (PRINTED[m].largest[system][gpu] > 0) {
                printf("  %-18s %-17s %d GPUs %3.0fB ", PRINTED[m].machine, SYSTEMS[system].name, GPUS[gpu],
                       PRINTED[m].largest[system][gpu]);
                failures += try_cell(file, &PRINTED[m], system, gpu, false, &tallies[0]);
                failures += try_cell(file, &PRINTED[m], system, gpu, true, &tallies[1]);
                printf("\n");
            }
        }
    }
    return failures;
}

int main(int argc, char **argv)
{
    show_rows = argc > 1 && strcmp(argv[1], "rows") == 0;
    struct tally tallies[SYSTEM_COUNT][2] = { 0 };
    char file[] = "/tmp/memwall_a_offload_XXXXXX.json";
    int descriptor = mkstemps(file, 5), failures = 0;
    FILE *out = descriptor >= 0 ? fdopen(descriptor, "w") : NULL;
    if (out == NULL) {
        printf("cannot write %s\n", file);
        return 1;
    }
    fputs("{\"recompute\":\"full\",\"training\":{\"micro_batch\":4,\"sequence_length\":1024,\"precision\":\"fp16\"}}",
          out);
    fclose(out);
    printf(
        "largest model: printed; by live bytes; by what the allocators hold. Steps of patrickstar-ladder, and what is "
        "full on the next one up\n");
    for (uint32_t system = 0; system < SYSTEM_COUNT; system++) {
        failures += try_system(file, system, tallies[system]);
    }
    unlink(file);
    struct tally judged = { 0 };
    for (uint32_t i = 0; i < 2 * SYSTEM_COUNT; i++) {
        const struct tally *tally = &tallies[i / 2][i % 2];
        bool counts = SYSTEMS[i / 2].judged && i % 2 == 0;
        printf("largest model, %-18s %-10s %3u cells  %3u exact  %3u within one step  %s\n", SYSTEMS[i / 2].name,
               i % 2 == 0 ? "(live)" : "(reserved)", tally->cells, tally->exact, tally->within_one,
               counts ? "judged together" : "shown, not judged");
        if (counts) {
            tally_add(&judged, tally);
        }
    }
    bool bad = judged.within_one < CELLS_WANTED;
    printf("largest model, all judged                    %3u cells  %3u exact  %3u within one step  %d wanted  %s\n",
           judged.cells, judged.exact, judged.within_one, CELLS_WANTED, bad ? "TOO FEW" : "ok");
    printf(
        "largest model, the same in sizes on the axes %3u cells  %3u exact  %3u within one step  shown, not judged\n",
        judged.cells, judged.axis_exact, judged.axis_within_one);
    return failures > 0 || bad ? 1 : 0;
}
