/* The kit's activation hand-over (lower_activation_take, _give): a policy of this test alone swaps every saved activation to host memory after its forward and fetches it before its backward. Device
 * memory falls, every byte goes down and comes up once, and verifier and audit pass. */
#include "sim/exec.h"
#include "sim/plan/plan_order.h"
#include "sim/plan/policy.h"
#include "sim/plan/scenario.h"
#include "strategies/policies/activation_kit.h"
#include "strategies/registry.h"
#include "tests/test.h"

enum { SWAPPED_MAX = 4096 };

/* Where an activation went: by layer of the rank and micro-batch. */
struct swapped {
    uint32_t host, op;
};

static struct swapped *slot_of(struct lowering *lowering, const struct lower_pass *pass)
{
    void **state = lower_policy_state(lowering);
    if (*state == NULL) {
        *state = arena_array(lower_arena(lowering), struct swapped, SWAPPED_MAX);
    }
    uint32_t micro_batches = (uint32_t)lower_input(lowering)->plan->micro_batches;
    return (struct swapped *)*state + (size_t)pass->layer->index * micro_batches + pass->micro_batch;
}

static void swap_out(struct lowering *lowering, const struct lower_pass *pass)
{
    if (pass->kind != LOWER_FORWARD || pass->layer->kind != LAYER_TRANSFORMER) {
        return;
    }
    double bytes = (double)lower_activation_bytes(lowering, pass->layer);
    uint32_t device = lower_activation_take(lowering, pass->layer, pass->micro_batch);
    uint32_t host = lower_buffer(lowering, SPACE_PINNED, bytes, BUFFER_ACTIVATION, 0, "swapped out");
    uint32_t op = lower_copy_to_host(lowering, bytes, false, lower_last_compute(lowering), host, device);
    lower_next_depends(
        lowering,
        op); /* the next layer waits: compute here is faster than PCIe, and nothing else would bound what is on its way */
    *slot_of(lowering, pass) = (struct swapped){ host, op };
}

static void swap_in(struct lowering *lowering, const struct lower_pass *pass)
{
    if (pass->kind != LOWER_BACKWARD || pass->layer->kind != LAYER_TRANSFORMER) {
        return;
    }
    struct swapped *slot = slot_of(lowering, pass);
    double bytes = (double)lower_activation_bytes(lowering, pass->layer);
    uint32_t device = lower_buffer(lowering, SPACE_DEVICE, bytes, BUFFER_ACTIVATION, 0, "swapped in");
    uint32_t op = lower_copy_to_device(lowering, bytes, false, slot->op, device, slot->host);
    builder_depends(lower_builder(lowering), lower_last_compute(lowering)); /* not before it is needed */
    lower_next_depends(lowering, op);
    lower_activation_give(lowering, pass->layer, pass->micro_batch, device);
}

static const struct memory_policy policy_swap = {
    .abi = MEMORY_POLICY_ABI,
    .name = "test-swap",
    .summary = "every activation to the host and back",
    .paper = "",
    .before_pass = swap_in,
    .after_pass = swap_out,
};

/* What the activation kit takes the way to the host for, by stage. */
static struct {
    double down_bytes_per_s[8], up_bytes_per_s[8];
} rates;

static void note_rates(struct lowering *lowering)
{
    const struct activation_rank *rank = activation_begin(lowering);
    if (rank != NULL) {
        rates.down_bytes_per_s[lower_stage(lowering)] = rank->down_bytes_per_s;
        rates.up_bytes_per_s[lower_stage(lowering)] = rank->up_bytes_per_s;
    }
}

static const struct memory_policy policy_rates = {
    .abi = MEMORY_POLICY_ABI,
    .name = "test-rates",
    .summary = "nothing moves",
    .paper = "",
    .begin_rank = note_rates,
};

struct outcome {
    double step_s;
    uint64_t device_activation_bytes, host_peak_bytes;
    double down_bytes, up_bytes;
};

static const char SMALL[] =
    "{\"schema\":\"memwall.scenario/1\",\"name\":\"kit\",\"machine\":\"toy-2gpu\",\"gpus\":1,"
    "\"software\":\"ideal\",\"model\":{\"family\":\"gpt\",\"layers\":6,\"hidden\":512,\"heads\":8,"
    "\"ffn\":2048,\"vocab\":1000,\"max_sequence\":512},\"training\":{\"micro_batch\":2,"
    "\"global_batch\":6,\"precision\":\"fp16\"}}";

static bool run(const char *text, const struct memory_policy *policy, struct outcome *out)
{
    struct error error = { 0 };
    struct json_document *document = NULL;
    struct json root;
    struct scenario scenario;
    struct schedule schedule = { 0 };
    struct timeline timeline = { 0 };
    *out = (struct outcome){ 0 };
    enum status status = json_parse(&document, text, strlen(text), "kit.json", &error);
    EXPECT(status == STATUS_OK);
    json_root(document, &root);
    status = scenario_from_json(&scenario, &root, &error);
    json_free(document);
    EXPECT_TEXT(error.message, "");
    const struct lower_request request = {
        .model = &scenario.model,
        .cluster = &scenario.cluster,
        .software = &scenario.software,
        .plan = &scenario.plan,
        .order = plan_order(&scenario.plan, &error),
        .policy = policy,
    };
    status = lower_schedule(&request, &schedule, &error);
    EXPECT_TEXT(error.message, "");
    const struct exec_options options = { .cluster = &scenario.cluster, .software = &scenario.software, .audit = true };
    status = status == STATUS_OK ? exec_sim.run(&schedule, &options, &timeline, &error) : status;
    EXPECT_TEXT(error.message, "");
    bool done = status == STATUS_OK && timeline.outcome == TIMELINE_DONE;
    for (uint32_t i = 0; done && i < schedule.space_count; i++) {
        const struct space_use *use = &timeline.spaces[i];
        if (schedule.spaces[i].kind == SPACE_DEVICE) {
            out->device_activation_bytes = use->at_peak_bytes[BUFFER_ACTIVATION];
        } else {
            out->host_peak_bytes = use->peak_bytes;
        }
    }
    for (uint32_t i = 0; done && i < schedule.op_count; i++) {
        const struct sched_op *op = &schedule.ops[i];
        out->down_bytes += op->opcode == OP_COPY_D2H ? schedule.works[op->work].bytes : 0;
        out->up_bytes += op->opcode == OP_COPY_H2D ? schedule.works[op->work].bytes : 0;
    }
    out->step_s = done ? (double)timeline.end_ps * 1e-12 : 0;
    timeline_free(&timeline);
    schedule_free(&schedule);
    scenario_free(&scenario);
    return done;
}

static void test_swap(void)
{
    struct outcome resident, swapped;
    if (!run(SMALL, registry_policy("resident", NULL), &resident) || !run(SMALL, &policy_swap, &swapped)) {
        TEST_FAIL_("a run did not end");
        return;
    }
    printf("activations on the device at its peak: %llu resident, %llu swapped\n",
           (unsigned long long)resident.device_activation_bytes, (unsigned long long)swapped.device_activation_bytes);
    EXPECT(swapped.device_activation_bytes < resident.device_activation_bytes);
    EXPECT(swapped.host_peak_bytes > 0);
    EXPECT(swapped.down_bytes > 0);
    EXPECT_REAL(swapped.up_bytes, swapped.down_bytes, 0);
    EXPECT_REAL(resident.down_bytes, 0, 0);
    EXPECT(swapped.step_s > resident.step_s); /* 10 GB/s of PCIe cannot hide it on this machine */
}

/* Every GPU's copies go to the socket that it hangs on, whichever that is: on this machine all ways there are alike, and between the sockets only 16 of 25.5 GB/s pass. */
static void test_rates_to_the_host(void)
{
    struct outcome outcome;
    static const char text[] = "{\"machine\":\"box-8x-rtx3090\",\"gpus\":8,\"software\":\"ideal\",\"model\":{"
                               "\"family\":\"gpt\",\"layers\":8,\"hidden\":512,"
                               "\"heads\":8,\"ffn\":2048,\"vocab\":1000,\"max_sequence\":512},\"training\":{\"micro_"
                               "batch\":1,\"global_batch\":8},"
                               "\"parallel\":{\"pipeline\":8}}";
    EXPECT(run(text, &policy_rates, &outcome));
    for (int stage = 0; stage < 8; stage++) {
        EXPECT(rates.down_bytes_per_s[stage] > 0);
        EXPECT_REAL(rates.down_bytes_per_s[stage], rates.down_bytes_per_s[0], 0);
        EXPECT_REAL(rates.up_bytes_per_s[stage], rates.up_bytes_per_s[0], 0);
    }
}

TEST_MAIN(TEST(test_swap), TEST(test_rates_to_the_host))
