/* The policy optimizer-on-host against resident: which bytes leave the device, what crosses PCIe, what the step cannot be shorter than. Every schedule is verified, every timeline
 * audited (tests/report_run.h). */
#include "sim/plan/lower.h"
#include "strategies/orders/orders.h"
#include "strategies/policies/policies.h"
#include "tests/report_run.h"

/* One plan of a small model on a machine of eight GPUs; parameters of the policy as JSON members. */
struct plan_case {
    const char *machine;
    int nodes, tensor, pipeline, data, zero, accumulation;
    const char *software, *fold, *parameters;
};

static bool run_case(struct report_run *run, const struct plan_case *plan, const char *policy, const char *parameters)
{
    char text[2048];
    memset(run, 0, sizeof *run);
    snprintf(text, sizeof text,
             "{\"schema\": \"memwall.scenario/1\", \"machine\": \"%s\", \"nodes\": %d, \"gpus\": %d,"
             " \"model\": {\"family\": \"gpt\", \"layers\": 4, \"hidden\": 512, \"heads\": 8, \"ffn\": 2048,"
             " \"vocab\": 1024, \"max_sequence\": 256}, \"software\": \"%s\","
             " \"training\": {\"micro_batch\": 1, \"global_batch\": %d},"
             " \"parallel\": {\"tensor\": %d, \"pipeline\": %d, \"data\": %d, \"zero_stage\": %d},"
             " \"memory_policy\": {\"name\": \"%s\"%s}, \"fold\": %s}",
             plan->machine, plan->nodes, plan->tensor * plan->pipeline * plan->data, plan->software,
             plan->data * plan->accumulation, plan->tensor, plan->pipeline, plan->data, plan->zero, policy, parameters,
             plan->fold);
    bool ran = report_run(run, text);
    if (!ran) {
        printf("  %s\n", text);
        return false;
    }
    EXPECT_INT(run->timeline.outcome, TIMELINE_DONE);
    return true;
}

/* Bytes of all GPUs in use that live all step long, by class. Equal devices are built once: a device space stands for those of its rank. */
static double state_bytes(const struct report_run *run, bool on_device, enum buffer_class buffer_class)
{
    const struct schedule *s = &run->schedule;
    double bytes = 0;
    for (uint32_t b = 0; b < s->buffer_count; b++) {
        const struct sched_buffer *buffer = &s->buffers[b];
        const struct sched_space *space = &s->spaces[buffer->space];
        if (buffer->buffer_class != buffer_class || !(buffer->flags & BUFFER_LIVE_AT_START) ||
            (space->kind == SPACE_DEVICE) != on_device) {
            continue;
        }
        EXPECT(buffer->flags & BUFFER_LIVE_AT_END);
        double devices = buffer->copies;
        for (uint32_t r = 0; on_device && r < s->rank_count; r++) {
            if (s->devices[s->ranks[r].first_device] == space->location) {
                devices = s->ranks[r].device_count;
            }
        }
        bytes += (double)buffer->bytes * devices;
    }
    return bytes;
}

/* What ops of this opcode move or update, over all GPUs, and how many there are on a rank. */
static double total_of(const struct report_run *run, enum opcode opcode, uint32_t *count)
{
    const struct schedule *s = &run->schedule;
    double total = 0;
    *count = 0;
    for (uint32_t i = 0; i < s->op_count; i++) {
        if (s->ops[i].opcode == opcode) {
            const struct sched_work *work = &s->works[s->ops[i].work];
            total += (work->bytes + work->parameters) * s->ranks[sched_op_rank(s, &s->ops[i])].device_count;
            ++*count;
        }
    }
    return total;
}

/* Servers whose host memory the schedule shows. */
static uint32_t pinned_spaces(const struct schedule *s)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < s->space_count; i++) {
        count += s->spaces[i].kind == SPACE_PINNED;
    }
    return count;
}

static int64_t last_end(const struct report_run *run, uint32_t rank, enum opcode opcode, uint8_t phase)
{
    const struct schedule *s = &run->schedule;
    int64_t end = 0;
    for (uint32_t i = 0; i < s->op_count; i++) {
        if (sched_op_rank(s, &s->ops[i]) == rank && s->ops[i].opcode == opcode && s->ops[i].phase == phase) {
            end = run->timeline.ops[i].end_ps > end ? run->timeline.ops[i].end_ps : end;
        }
    }
    return end;
}

/* A layer's update follows its gradient, its weights follow the update; under ZeRO 1 and 2 they are gathered at the end. */
static void expect_causes(const struct report_run *run, const struct plan_case *plan, bool overlap)
{
    const struct schedule *s = &run->schedule;
    const struct op_times *times = run->timeline.ops;
    for (uint32_t r = 0; r < s->rank_count; r++) {
        uint32_t down[64] = { 0 }, update[64] = { 0 }, up[64] = { 0 }, counts[3] = { 0 };
        for (uint32_t i = s->ranks[r].first_op; i < s->ranks[r].first_op + s->ranks[r].op_count; i++) {
            switch (s->ops[i].opcode) {
            case OP_COPY_D2H: down[counts[0]++ % 64] = i; break;
            case OP_HOST_OPTIMIZER: update[counts[1]++ % 64] = i; break;
            case OP_COPY_H2D: up[counts[2]++ % 64] = i; break;
            default: break;
            }
        }
        EXPECT(counts[0] > 0 && counts[0] <= 64 && counts[1] == counts[0] && counts[2] == counts[0]);
        for (uint32_t i = 0; i < counts[0] && i < 64; i++) { /* all three in one order */
            EXPECT(times[update[i]].start_ps >= times[down[i]].end_ps);
            EXPECT(times[up[i]].start_ps >= times[update[i]].end_ps);
            EXPECT(overlap || times[update[i]].start_ps >= last_end(run, r, OP_COMPUTE, PHASE_BACKWARD));
            EXPECT(overlap || times[update[i]].start_ps >= last_end(run, r, OP_COMPUTE, PHASE_OPTIMIZER));
        }
        if (plan->pipeline > 1) { /* the tied embedding's gradient goes last, summed with its copy on the other stage */
            EXPECT(times[down[counts[0] - 1]].start_ps >= last_end(run, r, OP_ALL_REDUCE, PHASE_DATA_COMM));
            EXPECT(last_end(run, r, OP_ALL_REDUCE, PHASE_DATA_COMM) > 0);
        }
        if (plan->data > 1 && (plan->zero == 1 || plan->zero == 2)) {
            EXPECT(last_end(run, r, OP_ALL_GATHER, PHASE_DATA_COMM) > times[up[counts[2] - 1]].end_ps);
        }
    }
}

static void expect_case(const struct plan_case *plan, bool overlap)
{
    static struct report_run resident, offload;
    if (!run_case(&resident, plan, "resident", "") ||
        !run_case(&offload, plan, "optimizer-on-host", plan->parameters)) {
        return;
    }
    const struct software *software = &offload.scenario.software;
    double optimizer = state_bytes(&resident, true, BUFFER_OPTIMIZER);
    double owned = optimizer / (software->master_bytes + software->moments_bytes);
    double master = software->master_bytes > 0 ? 0 : owned * software->weight_bytes;
    double last_byte = 1e-6; /* a device's bytes are whole, shares of parameters need not be */
    EXPECT(optimizer > 0);
    EXPECT_REAL(state_bytes(&offload, true, BUFFER_OPTIMIZER), 0, 0);
    /* A folded rank that spans servers shows the host memory of one of them. */
    EXPECT_REAL(state_bytes(&offload, false, BUFFER_OPTIMIZER) * plan->nodes / pinned_spaces(&offload.schedule),
                optimizer + master, master > 0 ? last_byte : 0);
    EXPECT_REAL(state_bytes(&offload, true, BUFFER_WEIGHT), state_bytes(&resident, true, BUFFER_WEIGHT), 0);
    /* Resident shards may be made by the reduction; those that go to the host stay all step long. */
    bool made = lower_makes_gradients(software, &policy_resident, &order_1f1b, (uint32_t)plan->zero, plan->data);
    EXPECT(!made || state_bytes(&resident, true, BUFFER_GRADIENT) == 0);
    EXPECT_REAL(state_bytes(&offload, true, BUFFER_GRADIENT),
                made ? owned * software->gradient_bytes : state_bytes(&resident, true, BUFFER_GRADIENT),
                made ? last_byte : 0);

    uint32_t down, update, up;
    EXPECT_REAL(total_of(&offload, OP_COPY_D2H, &down), owned * software->gradient_bytes, last_byte);
    EXPECT_REAL(total_of(&offload, OP_COPY_H2D, &up), owned * software->weight_bytes, last_byte);
    EXPECT_REAL(total_of(&offload, OP_HOST_OPTIMIZER, &update), owned, last_byte);
    expect_causes(&offload, plan, overlap);

    const struct cluster *cluster = &offload.scenario.cluster;
    double cores = 0;
    for (uint32_t socket = 0; socket < cluster->sockets; socket++) {
        cores += cluster->resources[cluster_cores(cluster, 0, socket)].capacity;
    }
    double adam_s = owned / plan->nodes / (cores * offload.scenario.machine.cpu_adam_parameters_per_s_core);
    EXPECT(offload.result.step_time_s >= adam_s);
    report_run_free(&resident);
    report_run_free(&offload);
}

static void test_grid(void)
{
    static const struct plan_case cases[] = {
        { "dgx-a100-40gb", 1, 1, 1, 1, 0, 1, "megatron", "true", "" },
        { "dgx-a100-40gb", 1, 1, 1, 1, 0, 4, "megatron", "true", ", \"pinned\": false" },
        { "dgx-a100-40gb", 1, 1, 1, 4, 0, 2, "megatron", "true", "" },
        { "dgx-a100-40gb", 1, 1, 1, 4, 1, 2, "megatron", "true", "" },
        { "dgx-a100-40gb", 1, 1, 1, 4, 1, 2, "deepspeed", "false", "" },
        { "dgx-a100-40gb", 1, 1, 1, 8, 2, 1, "deepspeed", "true", "" },
        { "dgx-a100-40gb", 1, 1, 1, 8, 2, 3, "deepspeed", "false", ", \"pinned\": false" },
        { "dgx-a100-40gb", 1, 1, 1, 8, 3, 2, "deepspeed", "true", "" },
        { "dgx-a100-40gb", 1, 1, 1, 8, 3, 1, "torchtitan", "false", "" },
        { "dgx-a100-40gb", 1, 2, 2, 2, 0, 4, "megatron", "true", "" },
        { "dgx-a100-40gb", 1, 2, 2, 2, 1, 4, "megatron", "false", "" },
        { "dgx-a100-40gb", 2, 4, 2, 2, 1, 2, "megatron", "true", "" },
        { "dgx-a100-40gb", 2, 4, 2, 2, 1, 2, "megatron", "false", "" },
        { "dgx-a100-40gb", 2, 1, 1, 16, 1, 1, "megatron", "true", "" },
        { "dgx-a100-40gb", 2, 1, 1, 16, 1, 1, "megatron", "false", "" },
        { "box-8x-rtx3090", 1, 1, 2, 4, 0, 3, "pytorch-eager", "true", "" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char parameters[64];
        struct plan_case plan = cases[i];
        unsigned before = test_failures;
        snprintf(parameters, sizeof parameters, ", \"overlap\": false%s", plan.parameters);
        expect_case(&plan, true); /* the default */
        plan.parameters = parameters;
        expect_case(&plan, false);
        if (test_failures != before) {
            printf("  in case %zu\n", i);
        }
    }
}

/* One GPU, figures from the model alone: the link carries what the policy says, host memory holds what it says, and its own formula bounds the step. */
static void test_one_gpu(void)
{
    const struct plan_case plan = { "toy-2gpu", 1, 1, 1, 1, 0, 2, "deepspeed", "true", "" };
    static struct report_run run;
    if (!run_case(&run, &plan, "optimizer-on-host", ", \"overlap\": false")) {
        return;
    }
    const struct cluster *cluster = &run.scenario.cluster;
    double parameters = (double)model_parameters(&run.scenario.model);
    struct route route;
    EXPECT_REAL(state_bytes(&run, false, BUFFER_OPTIMIZER), 12 * parameters, 0);
    const struct endpoint gpu = { ENDPOINT_GPU, 0 }, host = { ENDPOINT_HOST, 0 };
    EXPECT_INT(cluster_route(cluster, gpu, host, false, &route, NULL), STATUS_OK);
    for (uint32_t i = 0; i < route.use_count; i++) {
        if (cluster->resources[route.uses[i].resource].kind == RESOURCE_LINK) {
            EXPECT_REAL(run.timeline.resources[route.uses[i].resource].amount, 2 * parameters, 1e-6);
        }
    }
    for (uint32_t i = 0; i < run.schedule.space_count; i++) {
        if (run.schedule.spaces[i].kind == SPACE_PINNED) {
            /* 16-bit gradients, each in its own place: page-locked memory is not made anew each step */
            EXPECT_REAL((double)run.timeline.spaces[i].peak_bytes, (12 + 2) * parameters, 0);
        }
    }
    report_run_free(&run);
}

/* Pageable states leave the page-locked memory to the staging buffers. */
static void test_pageable(void)
{
    const struct plan_case plan = { "toy-2gpu", 1, 1, 1, 1, 0, 1, "deepspeed", "true", "" };
    static struct report_run run;
    if (!run_case(&run, &plan, "optimizer-on-host", ", \"pinned\": false")) {
        return;
    }
    double parameters = (double)model_parameters(&run.scenario.model);
    const struct schedule *s = &run.schedule;
    for (uint32_t i = 0; i < s->space_count; i++) {
        const struct space_use *use = &run.timeline.spaces[i];
        if (s->spaces[i].kind == SPACE_PINNED) {
            EXPECT_INT(use->at_peak_bytes[BUFFER_OPTIMIZER], 0);
            EXPECT_REAL((double)use->peak_bytes, 2 * parameters, 0);
        } else if (s->spaces[i].kind == SPACE_HOST) {
            EXPECT_REAL((double)use->at_peak_bytes[BUFFER_OPTIMIZER], 12 * parameters, 0);
        }
    }
    report_run_free(&run);
}

static uint64_t pinned_reserved(const struct report_run *run)
{
    for (uint32_t i = 0; i < run->schedule.space_count; i++) {
        if (run->schedule.spaces[i].kind == SPACE_PINNED) {
            EXPECT(run->timeline.spaces[i].peak_reserved_bytes >= run->timeline.spaces[i].peak_bytes);
            return run->timeline.spaces[i].peak_reserved_bytes;
        }
    }
    TEST_FAIL_("no pinned memory");
    return 0;
}

/* Every rank is a process with page-locked blocks of its own, built once or apart. */
static void test_reserved(void)
{
    const struct plan_case folded = { "dgx-a100-40gb", 1, 1, 1, 8, 1, 1, "deepspeed", "true", "" };
    struct plan_case apart = folded;
    apart.fold = "false";
    static struct report_run once, all;
    if (run_case(&once, &folded, "optimizer-on-host", "") && run_case(&all, &apart, "optimizer-on-host", "")) {
        EXPECT_INT(pinned_reserved(&all), pinned_reserved(&once));
    }
    report_run_free(&once);
    report_run_free(&all);
}

/* Overlap hides updates behind the backward pass. What the host holds is the same, whatever comes first. */
static void test_overlap(void)
{
    const struct plan_case plan = { "toy-2gpu", 1, 1, 1, 1, 0, 1, "deepspeed", "true", "" };
    static struct report_run early, late;
    if (run_case(&early, &plan, "optimizer-on-host", "") &&
        run_case(&late, &plan, "optimizer-on-host", ", \"overlap\": false")) {
        EXPECT(early.timeline.end_ps < late.timeline.end_ps);
        for (uint32_t i = 0; i < early.schedule.space_count; i++) {
            if (early.schedule.spaces[i].kind == SPACE_PINNED) {
                EXPECT_INT(early.timeline.spaces[i].peak_bytes, late.timeline.spaces[i].peak_bytes);
            }
        }
    }
    report_run_free(&early);
    report_run_free(&late);
}

TEST_MAIN(TEST(test_grid), TEST(test_one_gpu), TEST(test_pageable), TEST(test_reserved), TEST(test_overlap))
