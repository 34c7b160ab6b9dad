/* Measured figures of ZeRO-Offload beside simulated ones: CPU Adam where the host is known (facts C.5), and DeepSpeed's tutorial log of a 10B GPT-2 on one V100 of a DGX-2 (facts C.6).
 * Printed; asserted is what holds, with the misses named. Page-locked blocks are not rounded: PyTorch before 1.11 (pytorch issue 95823). */
#include "tests/zero_run.h"

static bool run_text(struct report_run *run, const char *text)
{
    memset(run, 0, sizeof *run);
    bool ran = report_run(run, text);
    if (!ran) {
        printf("  %s\n", text);
    }
    return ran;
}

/* ---- CPU Adam ---- */

/* Seconds of Adam for 1e9 parameters on all cores of a machine, each of its GPUs' processes with its share of them: the tables' Adam ran alone. */
static double adam_s(const char *machine, int gpus)
{
    static struct report_run run;
    char text[512];
    double parameters = 0, busy_s = 0;
    snprintf(text, sizeof text,
             "{\"machine\": \"%s\", \"gpus\": %d, \"software\": \"deepspeed\", \"model\": \"gpt2-xl\","
             " \"training\": {\"micro_batch\": 1, \"global_batch\": %d}, \"parallel\": {\"zero_stage\": 2},"
             " \"recompute\": \"full\", \"memory_policy\": {\"name\": \"zero-offload\", \"preset\": \"paper\"}}",
             machine, gpus, gpus);
    if (run_text(&run, text)) {
        for (uint32_t i = 0; i < run.schedule.op_count; i++) {
            if (run.schedule.ops[i].opcode == OP_HOST_OPTIMIZER) {
                parameters += run.schedule.works[run.schedule.ops[i].work].parameters;
                busy_s += (double)run.timeline.ops[i].alone_ps * 1e-12;
            }
        }
    }
    report_run_free(&run);
    return parameters > 0 ? busy_s * 1e9 / (parameters * gpus) : 0;
}

static void test_adam(void)
{
    /* ZeRO-Offload's table (recalled, not read in a source) and the SuperOffload post's figure. The table's seconds a parameter go up and down by a third, so no rate is within 15 % of all its rows: 1 asks
     * for at most 0.253 s a 1e9, 8 for at least 0.256. */
    static const struct {
        const char *machine;
        int gpus;
        uint32_t count;
        double billions[5], seconds[5];
    } hosts[] = {
        { "dgx2-v100", 16, 5, { 1, 2, 4, 8, 10 }, { 0.22, 0.51, 1.03, 2.41, 2.57 } },
        { "gh200-1gpu", 1, 4, { 1, 2, 4, 8 }, { 0.098, 0.198, 0.393, 0.769 } },
    };
    printf("CPU Adam: machine, 1e9 parameters, measured s, simulated s, error\n");
    for (size_t h = 0; h < sizeof hosts / sizeof hosts[0]; h++) {
        double each_s = adam_s(hosts[h].machine, hosts[h].gpus), sum = 0;
        for (uint32_t i = 0; i < hosts[h].count; i++) {
            double simulated = each_s * hosts[h].billions[i], error = simulated / hosts[h].seconds[i] - 1;
            printf("  %-12s %4.0f  %6.3f  %6.3f  %+5.1f %%\n", hosts[h].machine, hosts[h].billions[i],
                   hosts[h].seconds[i], simulated, 100 * error);
            sum += fabs(error);
        }
        printf("  %-12s mean error %.1f %%\n", hosts[h].machine, 100 * sum / hosts[h].count);
        EXPECT(sum / hosts[h].count <= 0.15);
    }
}

/* ---- the tutorial's log ---- */

struct phases {
    double forward, backward, gradients, step, iteration;
};

/* The tutorial's script and configuration (DeepSpeedExamples, Megatron-LM/scripts/ds_zero-offload_10B_*): 50 layers of 4096, 32 heads, batch 10; buckets of 5e7, no overlap_comm,
 * cpu_checkpointing; a model without fused kernels (mpu/transformer.py); gradients down and weights up as fp32, in tiles of 2^30 parameters, as DeepSpeed's code of 2020 (csrc/includes/cpu_adam.h before
 * it had adamw_mode; later tiles are of 2^27). */
static bool tutorial(struct phases *out)
{
    static struct report_run run;
    static const char text[] =
        "{\"machine\": \"dgx2-v100\", \"gpus\": 1,"
        " \"software\": {\"base\": \"deepspeed\", \"kernels\": {\"fused\": false}},"
        " \"model\": {\"family\": \"gpt\", \"layers\": 50, \"hidden\": 4096, \"heads\": 32, \"ffn\": 16384,"
        " \"vocab\": 50257, \"max_sequence\": 1024}, \"training\": {\"micro_batch\": 10, \"global_batch\": 10},"
        " \"recompute\": \"full\", \"memory_policy\": {\"name\": \"zero-offload\", \"upload\": \"tiled\","
        " \"tile_elements\": 1073741824, \"uploaded_bytes\": 4, \"overlap_gradients\": false,"
        " \"bucket_elements\": 50000000, \"checkpoints_on_host\": true, \"round_pinned\": \"none\"}}";
    if (!run_text(&run, text)) {
        return false;
    }
    EXPECT_INT(run.timeline.outcome, TIMELINE_DONE); /* 10B fit one V100-32GB, as claimed */
    double forward = zero_end_s(&run, zero_last(&run, OP_COMPUTE, PHASE_FORWARD));
    double backward = fmax(zero_end_s(&run, zero_last(&run, OP_COPY_D2H, PHASE_OFFLOAD)),
                           zero_end_s(&run, zero_last(&run, OP_COMPUTE, PHASE_BACKWARD)));
    double clipped = 0;
    for (uint32_t i = 0; i < run.schedule.op_count && clipped <= 0; i++) {
        clipped = run.schedule.ops[i].opcode == OP_HOST_OPTIMIZER ? zero_end_s(&run, i) : 0;
    }
    out->forward = forward;
    out->backward = backward - forward;
    out->gradients = clipped - backward;
    out->step = run.result.step_time_s - clipped;
    out->iteration = run.result.step_time_s;
    report_run_free(&run);
    return true;
}

static void print_phase(const char *name, double least, double most, double simulated)
{
    double middle = (least + most) / 2;
    printf("  %-12s %6.2f to %5.2f   %6.2f (%+4.0f %%)\n", name, least, most, simulated,
           100 * (simulated / middle - 1));
}

static void test_tutorial(void)
{
    struct phases got;
    if (!tutorial(&got)) {
        return;
    }
    printf("10.3B on one V100-32GB: phase, log s, simulated\n");
    print_phase("forward", 6.08, 6.38, got.forward);
    print_phase("backward", 11.77, 12.64, got.backward);
    print_phase("gradients", 1.11, 1.16, got.gradients);
    print_phase("step", 6.22, 6.48, got.step);
    print_phase("iteration", 25.68, 26.76, got.iteration);
    /* Wanted is the iteration. In the forward 4.2 GB of activations are saved into newly allocated host memory, whose pages the kernel makes at their first touch: 1.3 s of it at the rate that
     * host.first_touch_GBps takes from another Volta machine, and the 1.1 s that are still missing may be DGX-2's slower faults. In the gradients' phase PyTorch multiplies all fp32 gradients by one number in place
     * (grad.data.mul_, DeepSpeed PR 313): 8 bytes a parameter, 72 GB/s in the log. Here that runs at Adam's rate on the cores of the GPU's socket (54 GB/s, +36 %); bound by nothing but the DRAM of that socket
     * (100 GB/s) it would be 28 % too fast, and no source says what PyTorch's threads on two sockets get of memory page-locked on one: shown, not asserted. */
    EXPECT_REAL(got.forward, (6.08 + 6.38) / 2, 0.2);
    EXPECT_REAL(got.iteration, (25.68 + 26.76) / 2, 0.2);
    EXPECT_REAL(got.backward, (11.77 + 12.64) / 2, 0.2);
    EXPECT_REAL(got.step, (6.22 + 6.48) / 2, 0.2);
}

/* ---- the largest model of a ladder ---- */

/* The index in `ladder` of the largest model that fits; -1: none. `why`: what the next one lacks. */
static int largest(int gpus, const char *const *ladder, int count, char *why, size_t size)
{
    static struct report_run run;
    int best = -1;
    for (int i = 0; i < count; i++) {
        char text[512];
        snprintf(
            text, sizeof text,
            "{\"machine\": \"yard-v100\", \"gpus\": %d, \"software\": \"deepspeed\", \"model\": \"%s\","
            " \"training\": {\"micro_batch\": 8}, \"recompute\": \"full\", \"parallel\": {\"zero_stage\": 2},"
            " \"memory_policy\": {\"name\": \"zero-offload\", \"initialise_bytes\": 6, \"round_pinned\": \"none\"}}",
            gpus, ladder[i]);
        bool fits = run_text(&run, text) && run.timeline.outcome == TIMELINE_DONE;
        snprintf(why, size, "%s", run.result.outcome.length > 0 ? run.result.outcome.text : "");
        report_run_free(&run);
        if (!fits) {
            break;
        }
        best = i;
    }
    return best;
}

/* DeepSpeed on 8 V100-32GB with 240 GB of host memory (facts B.3): eight GPUs hold less than two or four, because every rank builds the model first (E.6). */
static void test_largest(void)
{
    static const char *const ladder[] = { "gpt2_1b", "gpt2_2b", "gpt2_4b", "gpt3_6b", "gpt3_8b", "gpt3_10b" };
    static const struct {
        int gpus, measured;
    } cells[] = { { 1, 2 }, { 2, 3 }, { 4, 3 }, { 8, 2 } };
    char why[4][2048];
    int found[4], near = 0;
    printf("largest model of DeepSpeed on YARD: GPUs, measured, simulated\n");
    for (int i = 0; i < 4; i++) {
        found[i] = largest(cells[i].gpus, ladder, 6, why[i], sizeof why[i]);
        near += abs(found[i] - cells[i].measured) <= 1;
        printf("  %d  %-8s  %s\n", cells[i].gpus, ladder[cells[i].measured], found[i] >= 0 ? ladder[found[i]] : "none");
    }
    EXPECT(near >= 3);
    EXPECT(found[3] < found[2]);
    EXPECT_PART(why[3], "live at the start");
    EXPECT_PART(why[3], "host memory");
}

TEST_MAIN(TEST(test_adam), TEST(test_tutorial), TEST(test_largest))
