/* Logs and figures of runs that offload, beside simulated steps, each phase shown.
 *
 * PatrickStar: logs in its pull requests 247, 248, 249, 269 and 250 (facts/patrickstar-zero-offload.md B.7) on a SuperPod node; the name of 247's gives all settings, the others' are taken
 * to be the same (256 Mi, the other size that was swept, does not hold a module of 20B). FWD and BWD hold the moves of chunks within them; Adam is what remains of the step. The CPU's rate
 * of Adam in superpod-a100-40gb.json comes from the row of 269: of that row the Adam phase judges nothing.
 *   Host memory: both figures are of the same model, 14 bytes a parameter of which are 286 GB; its 76 chunks, a third empty, are 429. PR 248's 383 GB has no room for blocks of powers of two (542 GB).
 *   PR 269's 715 counts something else too: shown.
 *   The two rows of 40B are of code that moved whole groups of chunks for one, replaced in 250; it is not modelled: shown.
 *   247's percentages add up to 19.16 s, its TFLOP/s to 14.7: which step the phases are of is not known; judged against the 14.7. Its FWD and BWD hold 2.8 s of allocating payloads and
 *   3.9 s of broadcasts, which here take 1.0 in all; its Adam is faster than ours, which has the four ranks share the cores of one socket. The errors cancel.
 *   The two traces of 8B on the Yard (figures GPT3_8B_memory and GPT3_8B_4xV100_access, read off their axes) print neither batch nor chunk: the defaults of examples/run_transformers.sh, 16 and 64 Mi,
 *   which do not hold the word table: it is on the CPU. Shown.
 *
 * DeepSpeed: bars of the ZeRO-3 Offload post for one V100 of a DGX-2 (facts C.7, offload.csv). Batches are not printed with them: of ZeRO-2 those of ZeRO-Offload's table of
 * configurations (recalled: 10 for 10B, 4 for 13B), of ZeRO-3 the best of those in its scripts (DeepSpeedExamples Megatron-LM-v1.1.5-ZeRO3: 4, 8, 16). ZeRO-2 runs as in the tutorial
 * (t_zero_rates.c has its log), ZeRO-3 as ds_zero_stage_3_config_release.json says. Their TFLOP/s are taken for executed ones. Page-locked blocks as in a_offload.c. Left out: 16 GPUs (batches and model parallelism of each
 * bar unknown), 512 GPUs (no shapes). */
#include "tests/accuracy/accuracy.h"
#include "tests/csv.h"

static const double ROW_LIMIT = 0.2, MEAN_LIMIT = 0.25;

/* ---- PatrickStar's logs ---- */

struct phases {
    double forward_s, backward_s, adam_s, step_s;
    double host_GB; /* of host memory at the peak */
};

struct log_row {
    const char *source, *model;
    int gpus, batch;
    bool asynchronous, judged;
    struct phases measured; /* 0: not printed */
};

static const struct log_row LOGS[] = {
    { "PR 269, 20B", "gpt_ds_20b", 1, 16, false, true, { 6.090, 12.072, 12.057, 30.219, 715 } },
    { "PR 248, 20B", "gpt_ds_20b", 1, 16, false, true, { 6.604, 12.723, 11.962, 31.289, 383 } },
    { "PR 249, 20B", "gpt_ds_20b", 1, 16, false, true, { 7.913, 13.261, 11.802, 32.976, 0 } },
    { "PR 269, 20B, asynchronous", "gpt_ds_20b", 1, 16, true, true, { 0, 0, 0, 26.0, 0 } },
    { "PR 248, 20B, asynchronous", "gpt_ds_20b", 1, 16, true, true, { 0, 0, 0, 23.0, 0 } },
    { "PR 249, 20B, asynchronous", "gpt_ds_20b", 1, 16, true, true, { 0, 0, 0, 26.7, 0 } },
    { "issue 247, 20B on 4", "gpt_ds_20b", 4, 8, false, true, { 3.431, 9.725, 0, 14.7, 0 } },
    { "PR 250, 40B on 8, before", "gpt_ds_40b", 8, 8, false, false, { 0, 0, 0, 96.446, 0 } },
    { "issue 239, 40B on 8, before", "gpt_ds_40b", 8, 8, false, false, { 0, 0, 0, 63.653, 0 } },
};

static const struct log_row TRACES[] = {
    { "trace, 8B, Yard", "gpt3_8b", 1, 16, false, false, { 4.7, 12.7, 9.3, 26.5, 0 } },
    { "trace, 8B on 4, Yard", "gpt3_8b", 4, 16, false, false, { 0, 0, 0, 24.3, 0 } },
};

/* The last kernels of the first rank's forward and backward end them. */
static void take_phases(void *context, const struct schedule *s, const struct timeline *timeline)
{
    struct phases *phases = context;
    double forward_s = 0, backward_s = 0;
    for (uint32_t i = 0; i < s->op_count; i++) {
        double end_s = (double)timeline->ops[i].end_ps * 1e-12;
        bool kernels = s->ops[i].opcode == OP_COMPUTE && sched_op_rank(s, &s->ops[i]) == 0;
        if (kernels && s->ops[i].phase == PHASE_FORWARD) {
            forward_s = fmax(forward_s, end_s);
        } else if (kernels && s->ops[i].phase == PHASE_BACKWARD) {
            backward_s = fmax(backward_s, end_s);
        }
    }
    for (uint32_t i = 0; i < s->space_count; i++) {
        double peak_GB = (double)timeline->spaces[i].peak_bytes * 1e-9;
        phases->host_GB = s->spaces[i].kind == SPACE_HOST ? fmax(phases->host_GB, peak_GB) : phases->host_GB;
    }
    phases->forward_s = forward_s;
    phases->backward_s = backward_s - forward_s;
}

static void print_phase(const char *name, double measured_s, double simulated_s)
{
    if (measured_s > 0) {
        printf("  %s %.2f s, simulated %.2f (%+.0f %%)", name, measured_s, simulated_s,
               100 * (simulated_s / measured_s - 1));
    } else {
        printf("  %s simulated %.2f", name, simulated_s);
    }
}

static int patrickstar_log(const struct log_row *row, const char *machine, const char *chunks, struct errors *errors)
{
    char text[1024];
    struct phases got = { 0 };
    snprintf(
        text, sizeof text,
        "{\"model\":\"%s\",\"machine\":\"%s\",\"gpus\":%d,\"recompute\":\"full\","
        "\"software\":{\"base\":\"deepspeed\",\"kernels\":{\"fused\":false}},\"training\":{\"sequence_length\":1024,"
        "\"precision\":\"fp16\",\"micro_batch\":%d,\"global_batch\":%d},\"memory_policy\":{\"name\":\"patrickstar\","
        "%s,\"pinned_rounding\":false,\"asynchronous_copies\":%s}}",
        row->model, machine, row->gpus, row->batch, row->batch * row->gpus, chunks,
        row->asynchronous ? "true" : "false");
    struct simulated run = simulate_and_visit(text, take_phases, &got);
    got.step_s = run.step_s;
    got.adam_s = got.step_s - got.forward_s - got.backward_s;
    double error = got.step_s / row->measured.step_s - 1;
    printf("  %-28s", row->source);
    print_phase("step", row->measured.step_s, got.step_s);
    print_phase("FWD", row->measured.forward_s, got.forward_s);
    print_phase("BWD", row->measured.backward_s, got.backward_s);
    print_phase("Adam", row->measured.adam_s, got.adam_s);
    if (row->measured.host_GB > 0) {
        printf("  host memory %.0f GB, simulated %.0f (%+.0f %%)", row->measured.host_GB, got.host_GB,
               100 * (got.host_GB / row->measured.host_GB - 1));
    }
    bool bad = row->judged && fabs(error) > ROW_LIMIT;
    printf("  %s\n", !row->judged ? "shown, not judged" : bad ? "TOO FAR" : "ok");
    if (row->judged) {
        errors_add(errors, got.step_s, row->measured.step_s);
    }
    return bad;
}

/* ---- DeepSpeed's bars ---- */

enum { SWEEP = 3 };
struct bar {
    const char *id;
    int layers, hidden;
    bool stage_3;
    int batches[SWEEP]; /* 0: no more */
};

static const struct bar BARS[] = {
    { "zoff_1_2_10B", 50, 4096, false, { 10 } },      { "zoff_1_2_13B", 65, 4096, false, { 4 } },
    { "zoff_1_3_10B", 50, 4096, true, { 4, 8, 16 } }, { "zoff_1_3_13B", 65, 4096, true, { 4, 8, 16 } },
    { "zoff_1_3_20B", 25, 8192, true, { 4, 8, 16 } }, { "zoff_1_3_40B", 50, 8192, true, { 4, 8, 16 } },
};
enum { BAR_COUNT = sizeof BARS / sizeof BARS[0] };

static double bar_tflops(const struct bar *bar, int batch)
{
    static const char *const POLICIES[] = {
        "{\"name\":\"zero-offload\",\"upload\":\"tiled\",\"uploaded_bytes\":4,\"overlap_gradients\":false,"
        "\"bucket_elements\":50000000,\"checkpoints_on_host\":true,\"round_pinned\":\"none\"}",
        "{\"name\":\"zero3-offload\",\"max_reuse_distance\":100000000,\"sub_group_elements\":400000000,"
        "\"bucket_elements\":90000000,\"pinned_states\":true,\"round_pinned\":\"none\"}",
    };
    char text[1024];
    struct error refused = { 0 };
    snprintf(
        text, sizeof text,
        "{\"model\":{\"family\":\"gpt\",\"layers\":%d,\"hidden\":%d,\"heads\":32,\"ffn\":%d,\"vocab\":50257,"
        "\"max_sequence\":1024},\"machine\":\"dgx2-v100\",\"gpus\":1,\"recompute\":\"full\",\"software\":{\"base\":"
        "\"deepspeed\",\"kernels\":{\"fused\":false}},\"training\":{\"sequence_length\":1024,\"precision\":\"fp16\","
        "\"micro_batch\":%d,\"global_batch\":%d},\"parallel\":{\"zero_stage\":%d},\"memory_policy\":%s}",
        bar->layers, bar->hidden, 4 * bar->hidden, batch, batch, bar->stage_3 ? 3 : 0, POLICIES[bar->stage_3]);
    struct simulated got = simulate_or_complain(text, NULL, NULL, &refused);
    const double peak_tflops = 125; /* of a V100 in fp16 */
    return got.ran && got.step_s > 0 ? got.hfu * peak_tflops : 0;
}

static int deepspeed_bars(const struct csv *csv)
{
    struct errors errors = { .name = "TFLOP/s, ZeRO-2 and 3 Offload, one V100 (DeepSpeed)" };
    double measured[BAR_COUNT] = { 0 }, simulated[BAR_COUNT] = { 0 };
    for (int i = 0; i < BAR_COUNT; i++) {
        int best = 0;
        for (size_t row = 0; row < csv->rows; row++) {
            bool here = strcmp(csv_text(csv, row, "id"), BARS[i].id) == 0;
            measured[i] = here ? csv_number(csv, row, "value") : measured[i];
        }
        for (int k = 0; k < SWEEP && BARS[i].batches[k] > 0; k++) {
            double tflops = bar_tflops(&BARS[i], BARS[i].batches[k]);
            best = tflops > simulated[i] ? BARS[i].batches[k] : best;
            simulated[i] = fmax(simulated[i], tflops);
        }
        double error = errors_add(&errors, simulated[i], measured[i]);
        printf("  %-14s measured %5.1f TFLOP/s, simulated %5.1f (%+.0f %%) with batch %d\n", BARS[i].id, measured[i],
               simulated[i], 100 * error, best);
    }
    int failures = errors_print(&errors, MEAN_LIMIT);
    for (int i = 0; i < 2; i++) { /* 10B and 13B stand in both */
        bool alike = (measured[i] < measured[i + 2]) == (simulated[i] < simulated[i + 2]);
        printf("order of ZeRO-2 and ZeRO-3 Offload, %s: %s\n", i == 0 ? "10B" : "13B", alike ? "as measured" : "WRONG");
        failures += !alike;
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
    int failures = 0;
    struct errors errors = { .name = "step time, PatrickStar's logs (batch known)" };
    for (size_t i = 0; i < sizeof LOGS / sizeof LOGS[0]; i++) {
        failures += patrickstar_log(&LOGS[i], "superpod-a100-40gb",
                                    "\"chunk_elements\":402653184,\"embedding_on_cpu\":false", &errors);
    }
    for (size_t i = 0; i < sizeof TRACES / sizeof TRACES[0]; i++) {
        failures +=
            patrickstar_log(&TRACES[i], "yard-v100", "\"chunk_elements\":67108864,\"embedding_on_cpu\":true", &errors);
    }
    failures += errors_print(&errors, ROW_LIMIT);
    failures += deepspeed_bars(&csv);
    csv_free(&csv);
    return failures > 0 ? 1 : 0;
}
