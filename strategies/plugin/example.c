/* A plug-in, whole: a pipeline order, a memory policy and a planner in a shared object.
 *
 *     cc -std=c17 -shared -fPIC $(pkg-config --cflags memwall) example.c -o example.so
 *     memwall run S.json --plugin ./example.so --set parallel.pipeline_order=eager-1f1b --set memory_policy=late-host-adam
 *     memwall plan S.json --plugin ./example.so --planner zero-ladder --budget-gib 8,16 */
#include <memwall.h>

/* Eager 1F1B (Zhuang et al., On Optimizing the Communication of Model Parallelism, MLSys 2023, section 4): stage s runs 2 (p - s) - 1 forwards before its first backward, where 1F1B runs p - s, so
 * that a boundary's transfer has a micro-batch's time to hide in. */
static uint32_t eager_build(const struct order_request *request, uint32_t stage, struct order_step *steps)
{
    uint32_t m = request->micro_batches, ahead = 2 * (request->stages - stage) - 1, count = 0;
    for (uint32_t i = 0; i < m && i < ahead; i++) {
        steps[count++] = (struct order_step){ STEP_FORWARD, 0, i };
    }
    for (uint32_t i = 0; i < m; i++) {
        steps[count++] = (struct order_step){ STEP_BACKWARD, 0, i };
        if (i + ahead < m) {
            steps[count++] = (struct order_step){ STEP_FORWARD, 0, i + ahead };
        }
    }
    return count;
}

static const struct pipeline_order eager_1f1b = {
    .abi = PIPELINE_ORDER_ABI,
    .name = "eager-1f1b",
    .summary = "1F1B with twice the forwards ahead: transfers hide, more activations stay",
    .paper = "Zhuang et al., MLSys 2023",
    .virtual_stages = 1,
    .model_replicas = 1,
    .build = eager_build,
};

/* Optimizer states in pinned host memory; once all gradients are final they go down layer by layer, the host's cores update, and the new weights come up. */
static enum space_kind late_place(struct lowering *lowering, const struct lower_layer *layer,
                                  enum buffer_class buffer_class)
{
    (void)lowering;
    (void)layer;
    return buffer_class == BUFFER_OPTIMIZER ? SPACE_PINNED : SPACE_DEVICE;
}

static uint32_t late_optimizer(struct lowering *lowering, uint32_t after_op)
{
    const struct software *software = lower_input(lowering)->software;
    struct builder *builder = lower_builder(lowering);
    uint32_t count, last = after_op;
    const struct lower_layer *layers = lower_layers(lowering, &count);
    for (uint32_t i = 0; i < count; i++) {
        double owned = layers[i].owned_parameters;
        if (owned <= 0) {
            continue;
        }
        uint32_t gradients = lower_buffer(lowering, SPACE_PINNED, owned * software->gradient_bytes,
                                          BUFFER_COMMUNICATION, 0, "gradients down");
        uint32_t weights =
            lower_buffer(lowering, SPACE_PINNED, owned * software->weight_bytes, BUFFER_COMMUNICATION, 0, "weights up");
        uint32_t down =
            lower_copy_to_host(lowering, owned * software->gradient_bytes, false, after_op, gradients, SCHED_NONE);
        uint32_t update = lower_host_optimizer(lowering, owned, down);
        builder_acquire(builder, weights);
        builder_release(builder, gradients);
        last = lower_copy_to_device(lowering, owned * software->weight_bytes, false, update, SCHED_NONE, weights);
    }
    return last;
}

static const struct memory_policy late_host_adam = {
    .abi = MEMORY_POLICY_ABI,
    .name = "late-host-adam",
    .summary = "optimizer states in host memory, Adam on the host's cores after the last backward, layer by layer",
    .paper = "",
    .place = late_place,
    .optimizer = late_optimizer,
};

/* ZeRO (Rajbhandari et al., SC 2020) as a ladder: the scenario's own split with nothing sharded, optimizer states, gradients, weights. All rungs are simulated, and the fastest that fits is the answer. */
enum { RUNGS = 4 };

static enum status ladder_choose(const struct planner_request *request, const struct plan *rungs,
                                 const struct oracle_result *simulated, struct planner_answer *answer,
                                 struct planner_result *result, struct error *error)
{
    const double gib = 1024.0 * 1024 * 1024;
    const struct model *model = &request->scenario->model;
    int best = -1, least = -1;
    for (int zero = 0; zero < RUNGS; zero++) {
        const struct oracle_result *one = &simulated[zero];
        if (one->verdict == ORACLE_RAN && (least < 0 || one->peak_bytes < simulated[least].peak_bytes)) {
            least = zero;
        }
        if (oracle_fits(one, result->budget_bytes) && (best < 0 || one->step_time_s < simulated[best].step_time_s)) {
            best = zero;
        }
    }
    if (best < 0) {
        result->smallest_budget_bytes = least < 0 ? 0 : (double)simulated[least].peak_bytes;
        return planner_reason(answer, result, error, "no ZeRO stage fits %.6g GiB%s%s", result->budget_bytes / gib,
                              least < 0 ? ": " : "", least < 0 ? simulated[0].reason : "");
    }
    const struct oracle_result *one = &simulated[best];
    struct planner_choice *choice = &result->best;
    result->found = true;
    *choice = (struct planner_choice){ .has_plan = true,
                                       .global_batch = rungs[best].global_batch,
                                       .pipeline = rungs[best].pipeline,
                                       .step_time_s = one->step_time_s,
                                       .samples_per_s = one->samples_per_s,
                                       .peak_bytes = (double)one->peak_bytes,
                                       .is_simulated = true,
                                       .simulated = *one };
    for (int zero = 0; zero < RUNGS; zero++) {
        if (zero != best && simulated[zero].verdict == ORACLE_RAN) {
            enum status status = planner_reason(answer, result, error, "ZeRO-%d would take %.6g s and %.4g GiB", zero,
                                                simulated[zero].step_time_s, (double)simulated[zero].peak_bytes / gib);
            if (status != STATUS_OK) {
                return status;
            }
        }
    }
    enum status status = planner_copy_plan(&choice->plan, &rungs[best], model, &answer->arena, error);
    return status != STATUS_OK ? status : planner_label_layers(choice, model, &answer->arena, error);
}

static enum status ladder_search(const struct planner_request *request, struct planner_answer *answer,
                                 struct error *error)
{
    struct plan rungs[RUNGS];
    const struct plan *asked[RUNGS];
    struct oracle_result simulated[RUNGS];
    struct oracle *oracle;
    for (int zero = 0; zero < RUNGS; zero++) {
        rungs[zero] = request->scenario->plan;
        rungs[zero].zero_stage = zero;
        asked[zero] = &rungs[zero];
    }
    enum status status = oracle_open(&oracle, request->scenario, request->threads, error);
    if (status != STATUS_OK) {
        return status;
    }
    status = oracle_ask(oracle, asked, RUNGS, simulated, NULL, NULL, error);
    answer->cost_model = "the event simulation";
    answer->configurations = answer->screened = RUNGS;
    answer->simulated = oracle_simulations(oracle);
    oracle_close(oracle);
    for (uint32_t i = 0; i < answer->result_count && status == STATUS_OK; i++) {
        status = ladder_choose(request, rungs, simulated, answer, &answer->results[i], error);
    }
    return status;
}

static const struct planner zero_ladder = {
    .abi = PLANNER_ABI,
    .name = "zero-ladder",
    .summary = "the scenario's own split under every ZeRO stage; the fastest that fits",
    .paper = "Rajbhandari et al., SC 2020",
    .search = ladder_search,
};

static const struct pipeline_order *const orders[] = { &eager_1f1b };
static const struct memory_policy *const policies[] = { &late_host_adam };
static const struct planner *const planners[] = { &zero_ladder };
const struct memwall_plugin memwall_plugin = {
    .abi = MEMWALL_PLUGIN_ABI,
    .headers = MEMWALL_HEADERS,
    .orders = orders,
    .order_count = 1,
    .policies = policies,
    .policy_count = 1,
    .planners = planners,
    .planner_count = 1,
};
