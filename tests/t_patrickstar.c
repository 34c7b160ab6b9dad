/* The policy patrickstar end to end: schedules verify, timelines pass their audit (tests/report_run.h), chunks stay within their share, what crosses PCIe is what the options say, refusals name what would work. */
#include "tests/report_run.h"

/* A model of 106 M parameters on GPUs small enough that chunks must leave. `policy`, `more`: members of the policy object, of the scenario. */
struct plan_case {
    const char *machine, *software;
    int gpus, micro_batch;
    const char *recompute, *policy, *more;
};

enum { TEXT_BYTES = 2048 };

static const char *scenario_text(char *text, const struct plan_case *plan)
{
    snprintf(
        text, TEXT_BYTES,
        "{\"schema\": \"memwall.scenario/1\", \"machine\": %s, \"gpus\": %d, \"software\": \"%s\", \"model\":"
        " {\"family\": \"gpt\", \"layers\": 8, \"hidden\": 1024, \"heads\": 16, \"ffn\": 4096, \"vocab\": 5000,"
        " \"max_sequence\": 256}, \"training\": {\"micro_batch\": %d, \"global_batch\": %d, \"precision\": \"fp16\"},"
        " \"parallel\": {\"data\": %d}, \"recompute\": \"%s\","
        " \"memory_policy\": {\"name\": \"patrickstar\", \"chunk_elements\": 5242880%s}%s}",
        plan->machine, plan->gpus, plan->software, plan->micro_batch, plan->micro_batch * plan->gpus, plan->gpus,
        plan->recompute, plan->policy, plan->more);
    return text;
}

static bool run_case(struct report_run *run, const struct plan_case *plan)
{
    char text[TEXT_BYTES];
    memset(run, 0, sizeof *run);
    if (!report_run(run, scenario_text(text, plan))) {
        printf("  %s\n", text);
        return false;
    }
    EXPECT_INT(run->timeline.outcome, TIMELINE_DONE);
    return run->timeline.outcome == TIMELINE_DONE;
}

#define TOY    "{\"base\": \"toy-2gpu\", \"gpu\": {\"memory_GiB\": 1}}"
#define SERVER "{\"base\": \"dgx-a100-40gb\", \"gpu\": {\"memory_GiB\": 3}}"

/* Bytes that copies of an opcode move in and out of buffers whose label ends in "chunk N" (of rank 0). */
static double chunk_bytes_moved(const struct schedule *s, enum opcode opcode)
{
    double sum = 0;
    for (uint32_t i = 0; i < s->ranks[0].op_count; i++) {
        const struct sched_op *op = &s->ops[i];
        bool chunk = false;
        for (uint32_t k = 0; k < op->release_count; k++) {
            chunk = chunk || strstr(sched_label(s, s->buffers[sched_releases(s, op)[k]].label), " chunk ") != NULL;
        }
        if (op->opcode == opcode && chunk) {
            sum += s->works[op->work].bytes;
            EXPECT_REAL(s->works[op->work].bytes, (double)s->buffers[sched_releases(s, op)[0]].bytes, 0);
        }
    }
    return sum;
}

/* Device memory beside the runtime's stays within its share; the step ends with the memory that it began with. */
static void expect_memory(const struct report_run *run, double gpu_ratio)
{
    const struct schedule *s = &run->schedule;
    for (uint32_t i = 0; i < s->space_count; i++) {
        const struct space_use *use = &run->timeline.spaces[i];
        if (s->spaces[i].kind == SPACE_DEVICE) {
            double managed = (double)(use->peak_bytes - use->at_peak_bytes[BUFFER_RUNTIME]);
            EXPECT(managed <= gpu_ratio * run->scenario.machine.gpu.usable_bytes);
            EXPECT(managed > 0.3 * gpu_ratio * run->scenario.machine.gpu.usable_bytes); /* and is used */
        }
        double start = 0, end = 0;
        for (uint32_t b = 0; b < s->buffer_count; b++) {
            double bytes = s->buffers[b].space == i ? (double)s->buffers[b].bytes * s->buffers[b].copies : 0;
            start += s->buffers[b].flags & BUFFER_LIVE_AT_START ? bytes : 0;
            end += s->buffers[b].flags & BUFFER_LIVE_AT_END ? bytes : 0;
        }
        EXPECT_REAL(start, end, 0);
    }
}

static void test_grid(void)
{
    static const char *const policies[] = {
        "",
        ", \"preset\": \"paper\"",
        ", \"eviction\": \"lru\"",
        ", \"eviction\": \"fifo\"",
        ", \"eviction\": \"lfu\"",
        ", \"eviction\": \"random\"",
        ", \"eviction\": \"lookahead\", \"lookahead\": 3",
        ", \"prefetch\": 1",
        ", \"prefetch\": 3",
        ", \"asynchronous_copies\": true",
        ", \"asynchronous_copies\": true, \"prefetch\": 2",
        ", \"embedding_on_cpu\": false",
        ", \"activation_offload\": true",
        ", \"memory_cache\": false",
        ", \"gradients\": \"chunks\"",
        ", \"gradients\": \"chunks\", \"asynchronous_copies\": true, \"prefetch\": 2",
        ", \"device_adam\": false",
        ", \"static_partition\": true",
        ", \"warmup\": \"without_adam\"",
        ", \"memory_saving_communication\": false, \"preset\": \"paper\"",
        ", \"memory_saving_communication\": false, \"preset\": \"paper\", \"asynchronous_copies\": true",
    };
    struct plan_case cases[] = {
        { TOY, "ideal", 1, 1, "full", NULL, "" },
        { TOY, "ideal", 1, 2, "none", NULL, "" },
        { TOY, "ideal", 2, 1, "full", NULL, "" },
        { TOY, "ideal", 2, 1, "full", NULL, ", \"fold\": false, \"detail\": \"layer\"" },
        { SERVER, "deepspeed", 4, 4, "full", NULL, "" },
        { SERVER, "deepspeed", 8, 4, "selective", NULL, ", \"fold\": false" },
    };
    uint32_t moves = 0;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        for (size_t p = 0; p < sizeof policies / sizeof policies[0]; p++) {
            struct report_run run;
            char policy[512];
            unsigned before = test_failures;
            static const double ratios[] = { 0.2, 0.33, 0.16, 0.16, 0.09, 0.2 };
            double ratio = ratios[i];
            snprintf(policy, sizeof policy, ", \"gpu_ratio\": %g, \"warmup_ratio\": 0.3%s", ratio, policies[p]);
            cases[i].policy = policy;
            if (run_case(&run, &cases[i])) {
                expect_memory(&run, ratio);
                double up = chunk_bytes_moved(&run.schedule, OP_COPY_H2D),
                       down = chunk_bytes_moved(&run.schedule, OP_COPY_D2H);
                EXPECT(up <= down);                                            /* a remote chunk may end on the host */
                bool gradients = strstr(policies[p], "\"gradients\"") != NULL; /* may end there, too */
                EXPECT(cases[i].gpus > 1 || gradients || up == down);
                moves += up > 0;
            }
            report_run_free(&run);
            if (test_failures != before) {
                printf("  in case %zu, \"%s\"\n", i, policies[p]);
            }
        }
    }
    printf("%u of %zu runs move chunks\n", moves,
           sizeof cases / sizeof cases[0] * (sizeof policies / sizeof policies[0]));
    EXPECT(moves > 30);
}

/* One option against the default. */
static void compare(int gpus, const char *option, struct report_run *without, struct report_run *with)
{
    char policy[256];
    struct plan_case plan = { TOY, "ideal", gpus, 1, "full", ", \"gpu_ratio\": 0.2, \"warmup_ratio\": 0.3", "" };
    bool ran = run_case(without, &plan);
    snprintf(policy, sizeof policy, "%s%s", plan.policy, option);
    plan.policy = policy;
    EXPECT(ran && run_case(with, &plan));
}

/* Overlap never costs time; what the warm-up knows never moves more than what it ignores. */
static void test_worth(void)
{
    static const char *const faster[] = { ", \"prefetch\": 1", ", \"asynchronous_copies\": true" };
    static const char *const busier[] = { ", \"eviction\": \"lru\"", ", \"eviction\": \"fifo\"",
                                          ", \"eviction\": \"random\"" };
    static struct report_run a, b;
    for (size_t i = 0; i < 4; i++) {
        compare(1 + (int)i / 2, faster[i % 2], &a, &b);
        printf("%zu GPUs, %s: %.4f s, without %.4f s\n", 1 + i / 2, faster[i % 2] + 2, b.result.step_time_s,
               a.result.step_time_s);
        EXPECT(b.result.step_time_s < a.result.step_time_s);
        report_run_free(&a);
        report_run_free(&b);
    }
    for (size_t i = 0; i < 3; i++) {
        compare(1, busier[i], &a, &b);
        EXPECT(chunk_bytes_moved(&b.schedule, OP_COPY_H2D) >= chunk_bytes_moved(&a.schedule, OP_COPY_H2D));
        report_run_free(&a);
        report_run_free(&b);
    }
    compare(1, ", \"preset\": \"paper\"", &a, &b); /* half the upload after Adam on the host */
    EXPECT(b.result.step_time_s < a.result.step_time_s);
    report_run_free(&a);
    report_run_free(&b);
}

/* Kernels that only write, while chunks move: payloads that are cleared; and buffers of other ranks' chunks that come in the step. */
static void count_cleared(const struct schedule *s, uint32_t *cleared, uint32_t *remote)
{
    *cleared = *remote = 0;
    for (uint32_t i = 0; i < s->ranks[0].op_count; i++) {
        const struct sched_op *op = &s->ops[i];
        *cleared += op->opcode == OP_COMPUTE && op->phase == PHASE_OFFLOAD;
        for (uint32_t k = 0; k < op->acquire_count; k++) {
            const struct sched_buffer *buffer = &s->buffers[sched_acquires(s, op)[k]];
            bool device = s->spaces[buffer->space].kind == SPACE_DEVICE;
            *remote += device && op->opcode != OP_COPY_H2D && strstr(sched_label(s, buffer->label), "remote ") != NULL;
        }
    }
}

/* Without the memory cache a payload that is allocated is cleared, one that moves is not: one rank has none of the former. */
static void test_memory_cache(void)
{
    static struct report_run with, without;
    for (int gpus = 1; gpus <= 2; gpus++) {
        uint32_t cleared, remote, none;
        compare(gpus, ", \"memory_cache\": false", &with, &without);
        count_cleared(&with.schedule, &none, &remote);
        EXPECT_INT(none, 0);
        count_cleared(&without.schedule, &cleared, &remote);
        printf("%d GPUs: %u payloads are cleared; %.4f s, with the cache %.4f s\n", gpus, cleared,
               without.result.step_time_s, with.result.step_time_s);
        EXPECT_INT(cleared, remote);
        EXPECT((gpus == 1) == (cleared == 0));
        EXPECT(gpus == 1 ? without.result.step_time_s == with.result.step_time_s
                         : without.result.step_time_s > with.result.step_time_s);
        report_run_free(&with);
        report_run_free(&without);
    }
}

/* Adam of every owned element once, wherever; on the host its traffic is 2 S down and 4 S up a chunk (A.5). */
static void test_adam(void)
{
    const struct plan_case plan = {
        TOY, "ideal", 1, 1, "full", ", \"gpu_ratio\": 0.28, \"warmup_ratio\": 0.3, \"device_adam\": false", ""
    };
    static struct report_run run;
    if (!run_case(&run, &plan)) {
        return;
    }
    const struct schedule *s = &run.schedule;
    double updated = 0, down = 0, up = 0, chunk = 2.0 * 5242880;
    for (uint32_t i = 0; i < s->op_count; i++) {
        const struct sched_op *op = &s->ops[i];
        updated += op->opcode == OP_HOST_OPTIMIZER ? s->works[op->work].parameters : 0;
        for (uint32_t k = 0; k < op->acquire_count; k++) {
            const char *label = sched_label(s, s->buffers[sched_acquires(s, op)[k]].label);
            down += strstr(label, "gradient for Adam") != NULL ? s->works[op->work].bytes / chunk : 0;
            up += strstr(label, "fp32 parameters from the host") != NULL ? s->works[op->work].bytes / (2 * chunk) : 0;
        }
    }
    EXPECT_REAL(updated, (double)model_parameters(&run.scenario.model), 0);
    EXPECT(down > 0 && down == floor(down));
    EXPECT_REAL(up, down, 0);
    report_run_free(&run);
}

/* Ranks built apart do what a folded one does, but for the fill of their chunks and the moments at which these are their own. */
static void test_fold(void)
{
    struct plan_case plan = { SERVER, "deepspeed", 8, 4, "full", ", \"gpu_ratio\": 0.15, \"warmup_ratio\": 0.3", "" };
    static struct report_run once, apart;
    bool ran = run_case(&once, &plan);
    plan.more = ", \"fold\": false";
    if (ran && run_case(&apart, &plan)) {
        printf("folded %.4f s, apart %.4f s\n", once.result.step_time_s, apart.result.step_time_s);
        EXPECT_REAL(apart.result.step_time_s, once.result.step_time_s, 0.1);
    }
    report_run_free(&once);
    report_run_free(&apart);
}

/* Bytes of ops of rank 0 by opcode. */
static double op_bytes(const struct schedule *s, enum opcode opcode)
{
    double sum = 0;
    for (uint32_t i = 0; i < s->ranks[0].op_count; i++) {
        const struct sched_op *op = &s->ops[i];
        sum += op->opcode == opcode && op->work != SCHED_NONE ? s->works[op->work].bytes : 0;
    }
    return sum;
}

/* Gradient accumulation: collectives and kernels once a micro-batch, Adam once a step, in two bytes a parameter more than one micro-batch takes with its gradients over the parameters. */
static void test_accumulation(void)
{
    static const char *const policies[] = { "", ", \"memory_saving_communication\": false, \"preset\": \"paper\"",
                                            ", \"asynchronous_copies\": true, \"prefetch\": 2" };
    for (size_t p = 0; p < sizeof policies / sizeof policies[0]; p++) {
        static struct report_run runs[4]; /* micro-batches 1, 2, 3; [0]: over the parameters */
        char policy[256];
        double gradients[4] = { 0 }, updated[4] = { 0 };
        snprintf(policy, sizeof policy, ", \"gpu_ratio\": 0.3, \"warmup_ratio\": 0.3, \"device_adam\": false%s",
                 policies[p]);
        struct plan_case plan = { TOY, "ideal", 2, 1, "full", policy, "" };
        bool ran = run_case(&runs[0], &plan);
        snprintf(policy + strlen(policy), sizeof policy - strlen(policy), ", \"gradients\": \"chunks\"");
        for (int m = 1; m <= 3; m++) {
            char text[TEXT_BYTES];
            char *batch = strstr(scenario_text(text, &plan), "\"global_batch\": 2,");
            memset(&runs[m], 0, sizeof runs[m]);
            if (batch != NULL) {
                batch[strlen("\"global_batch\": ")] = (char)('0' + 2 * m);
            }
            ran = batch != NULL && report_run(&runs[m], text) && runs[m].timeline.outcome == TIMELINE_DONE && ran;
        }
        EXPECT(ran);
        for (int m = 0; ran && m <= 3; m++) {
            const struct schedule *s = &runs[m].schedule;
            for (uint32_t i = 0; i < s->op_count; i++) {
                updated[m] += s->ops[i].opcode == OP_HOST_OPTIMIZER ? s->works[s->ops[i].work].parameters : 0;
            }
            for (uint32_t b = 0; b < s->buffer_count; b++) {
                const char *label = sched_label(s, s->buffers[b].label);
                gradients[m] += strncmp(label, "gradient chunk", 14) == 0 ? (double)s->buffers[b].bytes : 0;
            }
            expect_memory(&runs[m], 0.3);
            enum opcode gathers = p == 1 ? OP_ALL_GATHER : OP_BROADCAST;
            double times = m > 0 ? m : 1;
            EXPECT_REAL(op_bytes(s, gathers), times * op_bytes(&runs[0].schedule, gathers), 1e-12);
            EXPECT_REAL(op_bytes(s, OP_REDUCE_SCATTER), times * op_bytes(&runs[0].schedule, OP_REDUCE_SCATTER), 1e-12);
            EXPECT_REAL(updated[m], updated[0], 1e-12);
            EXPECT(m == 0 ? gradients[m] == 0
                          : gradients[m] >= 2.0 * 101e6 / 2); /* of this rank; more where they move */
            EXPECT(m < 2 || runs[m].result.step_time_s > runs[m - 1].result.step_time_s);
        }
        for (int m = 0; m <= 3; m++) {
            report_run_free(&runs[m]);
        }
    }
}

/* The status and message of lowering a scenario. */
static enum status lower_text(const char *text, struct error *error)
{
    struct json_document *document = NULL;
    struct json root;
    struct scenario scenario;
    struct schedule schedule = { 0 };
    *error = (struct error){ 0 };
    enum status status = json_parse(&document, text, strlen(text), "test", error);
    if (status != STATUS_OK) {
        return status;
    }
    json_root(document, &root);
    status = scenario_from_json(&scenario, &root, error);
    json_free(document);
    if (status != STATUS_OK) {
        return status;
    }
    const struct lower_request request = {
        .model = &scenario.model,
        .cluster = &scenario.cluster,
        .software = &scenario.software,
        .plan = &scenario.plan,
    };
    status = lower_schedule(&request, &schedule, error);
    schedule_free(&schedule);
    scenario_free(&scenario);
    return status;
}

static void test_refusals(void)
{
    static const struct {
        const char *parallel, *training, *policy, *machine;
        enum status status;
        const char *says;
    } cases[] = {
        { "\"tensor\": 2", "", "", "toy-2gpu", STATUS_UNSUPPORTED, "set parallel.tensor to 1 and parallel.data to 2" },
        { "\"pipeline\": 2", "", "", "toy-2gpu", STATUS_UNSUPPORTED,
          "set parallel.pipeline to 1 and parallel.data to 2" },
        { "\"data\": 2, \"zero_stage\": 2", "", "", "toy-2gpu", STATUS_UNSUPPORTED,
          "set parallel.zero_stage to 0 or 3" },
        { "\"data\": 2", ", \"micro_batch\": 1", ", \"gradients\": \"reuse\"", "toy-2gpu", STATUS_UNSUPPORTED,
          "set memory_policy.gradients to chunks, training.micro_batch to 4, or training.global_batch to 2" },
        { "\"data\": 2, \"pipeline_order\": \"gpipe\"", ", \"micro_batch\": 1", "", "toy-2gpu", STATUS_UNSUPPORTED,
          "set parallel.pipeline_order to 1f1b" },
        { "\"data\": 2", ", \"precision\": \"fp32\"", "", "toy-2gpu", STATUS_UNSUPPORTED, "fp16 or bf16" },
        { "\"data\": 2", "", ", \"chunk_elements\": 1048576", "toy-2gpu", STATUS_BAD_INPUT, "cannot hold the module" },
        { "\"data\": 2", "", ", \"embedding_on_cpu\": false, \"chunk_elements\": 4300000", "toy-2gpu", STATUS_BAD_INPUT,
          "or embedding_on_cpu" },
        { "\"data\": 2", "", ", \"chunk_elements\": 1000000000", "toy-2gpu", STATUS_DOES_NOT_FIT,
          "lower memory_policy.chunk_elements to" },
        { "\"data\": 2", "", ", \"cpu_ratio\": 2", "toy-2gpu", STATUS_BAD_INPUT, "cpu_ratio" },
        { "\"data\": 2", "", ", \"nvme\": true", "dgx1-v100-32gb", STATUS_UNSUPPORTED, "finds no drive" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[TEXT_BYTES], message[TEXT_BYTES];
        struct error error;
        bool given = strstr(cases[i].training, "micro_batch") != NULL;
        snprintf(
            text, sizeof text,
            "{\"schema\": \"memwall.scenario/1\", \"machine\": \"%s\", \"gpus\": 2, \"software\": \"ideal\", "
            "\"model\":"
            " {\"family\": \"gpt\", \"layers\": 8, \"hidden\": 1024, \"heads\": 16, \"ffn\": 4096, \"vocab\": 5000,"
            " \"max_sequence\": 256}, \"training\": {\"global_batch\": 8%s%s}, \"parallel\": {%s},"
            " \"memory_policy\": {\"name\": \"patrickstar\"%s}}",
            cases[i].machine, given ? "" : ", \"micro_batch\": 4", cases[i].training, cases[i].parallel,
            cases[i].policy);
        EXPECT_INT(lower_text(text, &error), cases[i].status);
        EXPECT_PART(error_text(&error, message, sizeof message), cases[i].says);
    }
}

/* A host too small for the states is an outcome with its reason, not a crash: 1.2 G parameters in 5 % of 128 GiB. */
static void test_host_too_small(void)
{
    char text[TEXT_BYTES];
    struct error error;
    const struct plan_case plan = { TOY, "ideal", 1,
                                    1,   "full",  ", \"gpu_ratio\": 0.28, \"warmup_ratio\": 0.3, \"cpu_ratio\": 0.05",
                                    "" };
    EXPECT_INT(lower_text(scenario_text(text, &plan), &error), STATUS_OK);
    char *layers = strstr(text, "\"layers\": 8,");
    if (layers == NULL) {
        TEST_FAIL_("no layers");
        return;
    }
    memcpy(layers, "\"layers\":96,", strlen("\"layers\":96,"));
    EXPECT_INT(lower_text(text, &error), STATUS_DOES_NOT_FIT);
    EXPECT_PART(error.message, "too small");
    const char *enough = strstr(
        error.message, "memory_policy.cpu_ratio "); /* what it says would do does, and a hundredth less does not */
    double ratio = enough != NULL ? strtod(enough + strlen("memory_policy.cpu_ratio "), NULL) : 0;
    EXPECT(ratio > 0.05 && ratio <= 1);
    char *given = strstr(text, "\"cpu_ratio\": 0.05");
    for (int i = 0; i < 2 && given != NULL; i++) {
        char digits[8];
        snprintf(digits, sizeof digits, "%.2f", ratio - 0.01 * i);
        memcpy(given + strlen("\"cpu_ratio\": "), digits, 4);
        EXPECT_INT(lower_text(text, &error), i == 0 ? STATUS_OK : STATUS_DOES_NOT_FIT);
    }
}

/* The same model with its states on drives where memory ends: read and written once, every parameter updated, fewer chunks there than if all were. */
static void test_drive(void)
{
    char text[TEXT_BYTES];
    static struct report_run run;
    const struct plan_case plan = {
        TOY,
        "ideal",
        1,
        1,
        "full",
        ", \"gpu_ratio\": 0.28, \"warmup_ratio\": 0.3, \"cpu_ratio\": 0.05, \"pinned_rounding\": false, \"nvme\": true",
        ""
    };
    scenario_text(text, &plan);
    char *layers = strstr(text, "\"layers\": 8,");
    if (layers == NULL) {
        TEST_FAIL_("no layers");
        return;
    }
    memcpy(layers, "\"layers\":96,", strlen("\"layers\":96,"));
    memset(&run, 0, sizeof run);
    if (!report_run(&run, text)) {
        return;
    }
    EXPECT_INT(run.timeline.outcome, TIMELINE_DONE);
    const struct schedule *s = &run.schedule;
    double read = 0, written = 0, updated = 0, kept = 0, updates = 0, states = 12.0 * 5242880;
    for (uint32_t i = 0; i < s->op_count; i++) {
        if (s->ops[i].work == SCHED_NONE) {
            continue;
        }
        const struct sched_work *work = &s->works[s->ops[i].work];
        read += s->ops[i].opcode == OP_STORAGE_READ ? work->bytes / states : 0;
        written += s->ops[i].opcode == OP_STORAGE_WRITE ? work->bytes / states : 0;
        updated += s->ops[i].opcode == OP_HOST_OPTIMIZER ? work->parameters : 0;
        updates += s->ops[i].opcode == OP_HOST_OPTIMIZER;
    }
    for (uint32_t b = 0; b < s->buffer_count; b++) {
        kept += s->spaces[s->buffers[b].space].kind == SPACE_STORAGE ? (double)s->buffers[b].bytes / states : 0;
    }
    printf("states of %.0f chunks on drives, of %.0f\n", read, updates - 1); /* the last is the embedding */
    EXPECT(read >= 1 && read == floor(read) && read < updates - 1);
    EXPECT_REAL(written, read, 0);
    EXPECT_REAL(kept, read, 0);
    EXPECT_REAL(updated, (double)model_parameters(&run.scenario.model), 0);
    /* What stays in memory fills it: one chunk fewer on drives would not have fitted, and the host's share is nearly used up. */
    for (uint32_t i = 0; i < s->space_count; i++) {
        double share = 0.05 * run.scenario.machine.dram_bytes;
        if (s->spaces[i].kind == SPACE_HOST) {
            EXPECT((double)run.timeline.spaces[i].peak_bytes <= share + 16.0 * 5256 * 1024); /* embedding beside it */
            EXPECT((double)run.timeline.spaces[i].peak_bytes > share - 2 * states);
        }
    }
    report_run_free(&run);
}

/* Random models, machines and options: what is lowered verifies, runs to its end and passes the audit; what is refused says why. */
static void test_random_scenarios(void)
{
    static const char *const families[] = { "gpt", "bert", "llama" };
    static const char *const recomputes[] = { "none", "selective", "full" };
    static const char *const details[] = { "op", "layer", "stage" };
    static const char *const evictions[] = { "next-use", "lru", "fifo", "lfu", "random", "lookahead" };
    uint64_t seed = test_seed;
    uint32_t ran = 0, refused = 0;
    for (int round = 0; round < 150; round++) {
        char text[TEXT_BYTES];
        struct error error;
        int gpus = 1 << test_below(&seed, 4), micro_batch = 1 + (int)test_below(&seed, 4),
            hidden = 128 * (1 + (int)test_below(&seed, 4));
        bool saving = test_below(&seed, 2) != 0;
        snprintf(
            text, sizeof text,
            "{\"schema\": \"memwall.scenario/1\", \"machine\": {\"base\": \"dgx-a100-40gb\", \"gpu\": {\"memory_GiB\": "
            "%d}}, \"gpus\": %d,"
            " \"software\": \"%s\", \"model\": {\"family\": \"%s\", \"layers\": %d, \"hidden\": %d, \"heads\": 8,"
            " \"vocab\": %d, \"max_sequence\": 128}, \"training\": {\"micro_batch\": %d, \"global_batch\": %d},"
            " \"parallel\": {\"data\": %d, \"zero_stage\": %d}, \"recompute\": \"%s\", \"fold\": %s, \"detail\": "
            "\"%s\","
            " \"memory_policy\": {\"name\": \"patrickstar\", \"chunk_elements\": %d, \"gpu_ratio\": %.3f, "
            "\"warmup_ratio\": 0.5,"
            " \"preset\": \"%s\", \"eviction\": \"%s\", \"memory_saving_communication\": %s, \"prefetch\": %d,"
            " \"asynchronous_copies\": %s, \"embedding_on_cpu\": %s, \"activation_offload\": %s, \"memory_cache\": "
            "%s}}",
            1 + (int)test_below(&seed, 2), gpus, test_below(&seed, 2) ? "ideal" : "deepspeed",
            families[test_below(&seed, 3)], 1 + (int)test_below(&seed, 10), hidden, 500 + (int)test_below(&seed, 1500),
            micro_batch, micro_batch * gpus * (1 + (int)test_below(&seed, 3)), gpus, test_below(&seed, 2) ? 3 : 0,
            recomputes[test_below(&seed, 3)], test_below(&seed, 2) ? "true" : "false", details[test_below(&seed, 3)],
            hidden * hidden * (4 + (int)test_below(&seed, 8)) + 8 * hidden, 0.05 + 0.3 * test_unit(&seed),
            test_below(&seed, 2) ? "paper" : "code", evictions[test_below(&seed, 6)], saving ? "true" : "false",
            (int)test_below(&seed, 4), test_below(&seed, 2) ? "true" : "false", test_below(&seed, 2) ? "true" : "false",
            test_below(&seed, 4) ? "false" : "true", test_below(&seed, 2) ? "true" : "false");
        enum status status = lower_text(text, &error);
        unsigned before = test_failures;
        if (status == STATUS_OK) {
            struct report_run run = { 0 };
            EXPECT(report_run(&run, text));
            EXPECT(run.timeline.outcome == TIMELINE_DONE || run.timeline.outcome == TIMELINE_DOES_NOT_FIT);
            ran += run.timeline.outcome == TIMELINE_DONE;
            report_run_free(&run);
        } else {
            EXPECT(status == STATUS_DOES_NOT_FIT || status == STATUS_BAD_INPUT);
            EXPECT(error.message[0] != '\0');
            refused++;
        }
        if (test_failures != before) {
            printf("  %s\n", text);
        }
    }
    printf("%u of 150 run to their end, %u are refused\n", ran, refused);
    EXPECT(ran > 60);
}

/* The largest model of the authors' ladder (B.9) per machine, in its order. */
static int largest(const char *machine, int gpus, const char *rule, const char *const *ladder, int count)
{
    int found = -1;
    for (int i = 0; i < count; i++) {
        char text[TEXT_BYTES];
        struct error error;
        snprintf(
            text, sizeof text,
            "{\"schema\": \"memwall.scenario/1\", \"machine\": \"%s\", \"gpus\": %d, \"software\": \"deepspeed\","
            " \"model\": \"%s\", \"training\": {\"sequence_length\": 1024, \"micro_batch\": 4, \"global_batch\": %d,"
            " \"precision\": \"fp16\"}, \"parallel\": {\"data\": %d}, \"recompute\": \"full\","
            " \"memory_policy\": {\"name\": \"patrickstar\", \"chunk_rule\": \"%s\"}}",
            machine, gpus, ladder[i], 4 * gpus, gpus, rule);
        enum status status = lower_text(text, &error);
        EXPECT(status == STATUS_OK || status == STATUS_DOES_NOT_FIT);
        found = status == STATUS_OK ? i : found;
    }
    return found;
}

/* Table B.3, rows of PatrickStar, micro-batch 4, chunk size as searched. With the rule of the authors' script as a limit: within one step of the ladder, but 18B on 8 V100, which they ran, is beyond it.
 * As a preference: nothing less, and 18B on 8 V100; the rows of 1 and 2 V100 stop at 12B in figures that repeat the labels of an earlier release, whose limit was 12B: no upper bound for these. */
static void test_largest(void)
{
    static const char *const ladder[] = { "gpt3_6b",    "gpt3_8b",    "gpt3_10b",  "gpt3_11b",   "gpt3_12b",
                                          "gpt3_13b",   "gpt3_15b",   "gpt3_18b",  "gpt_ds_20b", "gpt_ds_40b",
                                          "gpt_ds_50b", "gpt_ds_60b", "gpt_ds_68b" };
    enum { LADDER = sizeof ladder / sizeof ladder[0] };
    static const struct {
        const char *machine;
        int gpus;
        const char *published;
    } cells[] = {
        { "yard-v100", 1, "gpt3_12b" },
        { "yard-v100", 2, "gpt3_12b" },
        { "yard-v100", 4, "gpt3_12b" },
        { "yard-v100", 8, "gpt3_18b" },
        { "superpod-a100-40gb", 1, "gpt_ds_50b" },
        { "superpod-a100-40gb", 2, "gpt_ds_50b" },
        { "superpod-a100-40gb", 4, "gpt_ds_60b" },
        { "superpod-a100-40gb", 8, "gpt_ds_68b" },
    };
    for (size_t c = 0; c < sizeof cells / sizeof cells[0]; c++) {
        int found = largest(cells[c].machine, cells[c].gpus, "require", ladder, LADDER), published = -1;
        int preferred = largest(cells[c].machine, cells[c].gpus, "prefer", ladder, LADDER);
        for (int i = 0; i < LADDER; i++) {
            published = strcmp(ladder[i], cells[c].published) == 0 ? i : published;
        }
        printf("%s, %d GPUs: %s, without the rule %s, published %s\n", cells[c].machine, cells[c].gpus,
               found < 0 ? "none" : ladder[found], preferred < 0 ? "none" : ladder[preferred], cells[c].published);
        EXPECT(preferred >= found && preferred >= published - 1);
        EXPECT(c != 3 || (found < published && preferred == published));
        EXPECT(published >= 0 && found >= published - 1 && found <= published + 1);
    }
}

TEST_MAIN(TEST(test_grid), TEST(test_worth), TEST(test_memory_cache), TEST(test_adam), TEST(test_fold),
          TEST(test_accumulation), TEST(test_refusals), TEST(test_host_too_small), TEST(test_drive),
          TEST(test_random_scenarios), TEST(test_largest))
