/* From a rank's layers to the walk over its step: modules, chunk size, passes with their non-model data, budgets. */
#include <math.h>
#include <stdio.h>

#include "strategies/policies/patrickstar.h"

static bool failed(struct lowering *lowering, enum status status, const struct error *error)
{
    const char *instead = "";
    if (status == STATUS_DOES_NOT_FIT) {
        instead = ps_on(lowering, PS_NVME) || lower_input(lowering)->cluster->drives == 0
                      ? "; more GPUs or servers, or a smaller training.micro_batch would help"
                      : "; more GPUs or servers, memory_policy.nvme, or a smaller training.micro_batch would help";
    }
    if (status != STATUS_OK) {
        lower_fail(lowering, status, "%s%s", error->message, instead);
    }
    return status != STATUS_OK;
}

/* GPUs in use on a server: the ranks that share its memory. */
static uint32_t local_ranks(const struct cluster *cluster)
{
    return cluster->gpus < cluster->gpus_per_node ? cluster->gpus : cluster->gpus_per_node;
}

static struct chunk_budget budget_of(const struct lowering *lowering, uint64_t capacity)
{
    const struct cluster *cluster = lower_input(lowering)->cluster;
    const struct machine *machine = cluster->machine;
    return (struct chunk_budget){
        .gpu_bytes = machine->gpu.usable_bytes * lower_policy_parameter(lowering, PS_GPU_RATIO),
        .cpu_bytes = machine->dram_bytes * lower_policy_parameter(lowering, PS_CPU_RATIO) / local_ranks(cluster),
        .warmup_ratio = lower_policy_parameter(lowering, PS_WARMUP_RATIO),
        .chunk_elements = (double)capacity,
        .ranks = lower_data_size(lowering),
        .local_ranks = local_ranks(cluster),
        .memory_saving = ps_on(lowering, PS_MEMORY_SAVING),
        .static_partition = ps_on(lowering, PS_STATIC_PARTITION),
        .gradient_chunks = ps_gradient_chunks(lowering),
        .preset = (enum chunk_preset)lower_policy_parameter(lowering, PS_PRESET),
    };
}

/* What chunk_search's rule compares. */
static void refuse_by_rule(struct lowering *lowering, const struct chunk_choice *choice)
{
    const struct cluster *cluster = lower_input(lowering)->cluster;
    uint32_t servers = (cluster->gpus + cluster->gpus_per_node - 1) / cluster->gpus_per_node;
    double gpus = cluster->gpus * cluster->machine->gpu.usable_bytes * lower_policy_parameter(lowering, PS_GPU_RATIO) *
                  lower_policy_parameter(lowering, PS_WARMUP_RATIO);
    double hosts = servers * cluster->machine->dram_bytes * lower_policy_parameter(lowering, PS_CPU_RATIO);
    lower_lack(lowering, SPACE_HOST, choice->bytes, gpus + hosts, "host and warm-up share of GPUs for chunks");
}

/* The chunk size: as given, or searched. */
static bool choose_capacity(struct lowering *lowering, struct ps_state *state, uint64_t *capacity)
{
    const struct cluster *cluster = lower_input(lowering)->cluster;
    struct error error = { 0 };
    struct chunk_choice choice;
    bool outside = ps_on(lowering, PS_EMBEDDING_ON_CPU);
    enum status status;
    *capacity = (uint64_t)lower_policy_parameter(lowering, PS_CHUNK_ELEMENTS);
    if (*capacity > 0) {
        return true;
    }
    enum patrickstar_search how = (enum patrickstar_search)lower_policy_parameter(lowering, PS_CHUNK_SEARCH);
    if (how == SEARCH_GEMINI) {
        /* Lightning's defaults: from 32 Mi over 64 Mi in steps of the hidden size */
        status = chunk_search_gemini(&state->units, outside, 32 * CHUNK_MEBI, 64 * CHUNK_MEBI,
                                     (uint64_t)lower_input(lowering)->model->hidden, &choice, &error);
        const struct chunk_unit *largest = chunk_units_largest(&state->units, outside);
        uint64_t least = largest == NULL ? 1 : chunk_unit_elements(largest); /* its tensors are placed together here */
        choice.capacity = choice.capacity < least ? least : choice.capacity;
    } else {
        const struct chunk_machine machine = {
            .gpu_bytes = cluster->machine->gpu.usable_bytes,
            .cpu_bytes = cluster->machine->dram_bytes,
            .gpu_count = cluster->gpus,
            .server_count = (cluster->gpus + cluster->gpus_per_node - 1) / cluster->gpus_per_node,
            .gpu_ratio = lower_policy_parameter(lowering, PS_GPU_RATIO),
            .cpu_ratio = lower_policy_parameter(lowering, PS_CPU_RATIO),
            .warmup_ratio = lower_policy_parameter(lowering, PS_WARMUP_RATIO),
            .gradient_chunks = ps_gradient_chunks(lowering),
            .exact_blocks = !ps_on(lowering, PS_PINNED_ROUNDING),
        };
        status = (how == SEARCH_ROUNDED ? chunk_search_rounded : chunk_search_patrickstar)(
            &state->units, lower_data_size(lowering), outside, &machine, lower_arena(lowering), &choice, &error);
    }
    *capacity = choice.capacity;
    bool required = (enum patrickstar_rule)lower_policy_parameter(lowering, PS_CHUNK_RULE) == RULE_REQUIRE;
    if (status == STATUS_OK && !choice.feasible && required &&
        !ps_on(lowering, PS_NVME)) { /* a rule for memory alone */
        refuse_by_rule(lowering, &choice);
        status = error_set(
            &error, STATUS_DOES_NOT_FIT,
            "no chunk size passes PatrickStar's own rule: chunks of %.4g GB in all, against the warm-up share "
            "of %u GPUs and memory_policy.cpu_ratio of the host; to try one all the same (%llu elements) set "
            "memory_policy.chunk_rule to prefer",
            choice.bytes * 1e-9, cluster->gpus, (unsigned long long)choice.capacity);
    }
    return !failed(lowering, status, &error);
}

/* The rule of eval_chunk_size.py as its comment has it: warm-up's share of a GPU holds two chunks. */
static bool holds_two_chunks(struct lowering *lowering, const struct chunk_budget *budget, uint64_t capacity)
{
    double share = budget->gpu_bytes * budget->warmup_ratio, two = 4.0 * (double)capacity;
    if (share >= two) {
        return true;
    }
    lower_lack(lowering, SPACE_DEVICE, two, share, "warm-up share of a GPU for chunks");
    lower_fail(lowering, STATUS_DOES_NOT_FIT,
               "during warm-up chunks may take %.4g GB of a GPU (gpu_ratio x warmup_ratio of %.4g GB), and two fp16 "
               "chunks of %.6g Mi elements need %.4g GB: lower memory_policy.chunk_elements to %.0f or raise "
               "memory_policy.warmup_ratio to %.3g",
               share * 1e-9, budget->gpu_bytes * 1e-9, (double)capacity / (double)CHUNK_MEBI, two * 1e-9,
               floor(share / 4), ceil(1000 * two / budget->gpu_bytes) / 1000);
    return false;
}

/* Saved activations live on the device from a layer's forward to its backward, unless they are offloaded. */
static double held_bytes(const struct lowering *lowering, const struct lower_layer *layer)
{
    bool gone = layer->kind == LAYER_TRANSFORMER && ps_on(lowering, PS_ACTIVATION_OFFLOAD);
    return gone ? 0 : (double)lower_activation_bytes(lowering, layer);
}

static struct walk_pass pass_of(const struct lowering *lowering, const struct ps_state *state,
                                const struct lower_layer *layer, bool backward, double held_before)
{
    struct walk_pass pass = { .layer = layer->index, .backward = backward };
    pass.recomputes = backward && layer->recompute == RECOMPUTE_FULL;
    pass.nonmodel_bytes = held_before + (double)lower_activation_bytes(lowering, layer) +
                          lower_pass_bytes(lowering, layer, backward ? LOWER_BACKWARD : LOWER_FORWARD);
    pass.nonmodel_bytes += backward ? ps_module_gradient_bytes(state, layer->index) : 0;
    pass.nonmodel_bytes += layer->kind == LAYER_HEAD ? ps_head_table_bytes(lowering, state) : 0;
    return pass;
}

/* One micro-batch at a time: what lies outside chunks (embedding, module gradients) is kept once. */
static bool one_in_flight(struct lowering *lowering)
{
    const struct lower_request *request = lower_input(lowering);
    const struct order_request order = lower_order_request(lowering);
    struct order_step *steps =
        arena_array(lower_arena(lowering), struct order_step, order_step_count(request->order, &order));
    if (steps == NULL) {
        lower_fail(lowering, STATUS_NO_MEMORY, "out of memory for the passes of a rank");
        return false;
    }
    uint32_t count = request->order->build(&order, lower_stage(lowering), steps);
    for (uint32_t i = 0; i < count; i++) {
        if (steps[i].kind != (i % 2 == 0 ? STEP_FORWARD : STEP_BACKWARD) || steps[i].micro_batch != i / 2) {
            lower_fail(lowering, STATUS_UNSUPPORTED,
                       "memory policy \"patrickstar\" takes one micro-batch forward and straight back, and order "
                       "\"%s\" has several on their way: set parallel.pipeline_order to 1f1b",
                       request->order->name);
            return false;
        }
    }
    return true;
}

/* Each micro-batch goes forward and straight back. */
static struct walk_pass *list_passes(struct lowering *lowering, const struct ps_state *state, uint32_t *count)
{
    uint32_t layers = state->layer_count, micro_batches = (uint32_t)lower_input(lowering)->plan->micro_batches;
    const struct lower_layer *layer = lower_layers(lowering, &(uint32_t){ 0 });
    struct walk_pass *passes = arena_array(lower_arena(lowering), struct walk_pass, 2 * (size_t)layers * micro_batches);
    double held = 0;
    *count = 2 * layers * micro_batches;
    for (uint32_t i = 0; passes != NULL && i < layers; i++) {
        passes[i] = pass_of(lowering, state, &layer[i], false, held);
        passes[2 * layers - 1 - i] = pass_of(lowering, state, &layer[i], true, held);
        held += held_bytes(lowering, &layer[i]);
    }
    for (uint32_t i = 2 * layers; passes != NULL && i < *count; i++) {
        passes[i] = passes[i - 2 * layers];
    }
    if (passes == NULL) {
        lower_fail(lowering, STATUS_NO_MEMORY, "out of memory for the passes of a rank");
    }
    return passes;
}

static uint32_t word_table(const struct lowering *lowering, const struct ps_state *state)
{
    const struct model *model = lower_input(lowering)->model;
    bool outside = ps_on(lowering, PS_EMBEDDING_ON_CPU);
    return model->tied_head && model_has_logits(model) && !outside && state->units.count > 0 ? 0 : CHUNK_NONE;
}

static bool allocate(struct lowering *lowering, struct ps_state *state)
{
    uint32_t layers = state->layer_count;
    state->slots = arena_array(lower_arena(lowering), struct ps_slot, state->plan.slot_count);
    state->offloaded = arena_array(lower_arena(lowering), uint32_t, layers);
    state->offload_op = arena_array(lower_arena(lowering), uint32_t, layers);
    if (state->slots == NULL || state->offloaded == NULL || state->offload_op == NULL) {
        lower_fail(lowering, STATUS_NO_MEMORY, "out of memory for %u chunks", state->plan.slot_count);
        return false;
    }
    for (uint32_t s = 0; s < state->plan.slot_count; s++) {
        state->slots[s] = (struct ps_slot){ SCHED_NONE, SCHED_NONE, SCHED_NONE, SCHED_NONE, SCHED_NONE };
    }
    for (uint32_t a = 0; a < state->plan.action_count; a++) {
        const struct walk_action *action = &state->plan.actions[a];
        if (action->kind <= WALK_FREE) {
            state->slots[action->slot].last_action = a;
        }
    }
    return true;
}

/* The walk, with the fewest chunks' states on drives that let it end. */
static enum status walk_with_drives(struct lowering *lowering, struct ps_state *state, struct error *error)
{
    struct arena *arena = lower_arena(lowering);
    struct walk_input *walk = &state->walk;
    enum status status = walk_run(walk, &state->plan, arena, error);
    if (status != STATUS_DOES_NOT_FIT || !ps_on(lowering, PS_NVME)) {
        return status;
    }
    uint32_t low = 1, high = chunk_layout_owned(&state->layout, walk->rank);
    walk->budget.cpu_bytes -= ps_staging_bytes(walk);
    while (low < high) {
        walk->stored = low + (high - low) / 2;
        status = walk_run(walk, &state->plan, arena, error);
        if (status == STATUS_OK) {
            high = walk->stored;
        } else if (status == STATUS_DOES_NOT_FIT) {
            low = walk->stored + 1;
        } else {
            return status;
        }
    }
    walk->stored = low;
    return walk_run(walk, &state->plan, arena, error);
}

static bool ends_with(struct lowering *lowering, struct walk_input walk, double host_bytes)
{
    struct walk_result result;
    struct error unused = { 0 };
    walk.budget.cpu_bytes = host_bytes;
    return walk_run(&walk, &result, lower_arena(lowering), &unused) == STATUS_OK;
}

/* The least host memory for a rank's chunks with which the walk ends, to a thousandth; 0: not even 64 times what there is. */
static double enough_host_bytes(struct lowering *lowering, const struct ps_state *state)
{
    enum { DOUBLINGS = 6, HALVINGS = 10 };
    double low = state->walk.budget.cpu_bytes, high = 2 * low;
    int i = 1;
    for (; i < DOUBLINGS && !ends_with(lowering, state->walk, high); i++) {
        low = high;
        high *= 2;
    }
    if (i == DOUBLINGS && !ends_with(lowering, state->walk, high)) {
        return 0;
    }
    for (i = 0; i < HALVINGS; i++) {
        double middle = (low + high) / 2;
        *(ends_with(lowering, state->walk, middle) ? &high : &low) = middle;
    }
    return high;
}

/* Adds to the message what would do: a larger share of the host, or a larger host. */
static void say_enough(struct lowering *lowering, const struct ps_state *state, struct error *error)
{
    const struct cluster *cluster = lower_input(lowering)->cluster;
    double server = enough_host_bytes(lowering, state) * local_ranks(cluster), dram = cluster->machine->dram_bytes;
    double ratio = ceil(server / dram * 100) / 100; /* as it is said */
    char lacks[sizeof error->message];
    snprintf(lacks, sizeof lacks, "%s", error->message);
    if (server > 0 && ratio <= 1) {
        error_set(error, STATUS_DOES_NOT_FIT, "%s; memory_policy.cpu_ratio %.2f would do", lacks, ratio);
        lower_would_do(lowering, "memory_policy.cpu_ratio=%.2f", ratio);
    } else if (server > 0) {
        error_set(error, STATUS_DOES_NOT_FIT, "%s; servers of %.0f GB would do", lacks,
                  ceil(server * 1e-9 / lower_policy_parameter(lowering, PS_CPU_RATIO)));
    }
}

bool ps_prepare(struct lowering *lowering)
{
    const struct lower_request *request = lower_input(lowering);
    struct arena *arena = lower_arena(lowering);
    struct ps_state *state = arena_array(arena, struct ps_state, 1);
    struct error error = { 0 };
    uint64_t capacity = 0;
    *lower_policy_state(lowering) = state;
    if (state == NULL) {
        lower_fail(lowering, STATUS_NO_MEMORY, "out of memory for a rank's chunks");
        return false;
    }
    lower_layers(lowering, &state->layer_count);
    if (!one_in_flight(lowering)) {
        return false;
    }
    int64_t rows = model_padded_vocab(request->model, 1, request->software->vocab_multiple);
    if (failed(lowering, chunk_units_of_model(&state->units, request->model, rows, arena, &error), &error) ||
        !choose_capacity(lowering, state, &capacity)) {
        return false;
    }
    bool outside = ps_on(lowering, PS_EMBEDDING_ON_CPU);
    struct walk_input *walk = &state->walk;
    walk->budget = budget_of(lowering, capacity);
    if (failed(lowering,
               chunk_layout_build(&state->layout, &state->units, capacity, walk->budget.ranks, outside, arena, &error),
               &error) ||
        !holds_two_chunks(lowering, &walk->budget, capacity)) {
        return false;
    }
    walk->units = &state->units;
    walk->layout = &state->layout;
    walk->rank = lower_data_index(lowering);
    walk->budget.max_host_bytes = ps_host_beside_bytes(lowering, state);
    walk->eviction = (enum chunk_eviction)lower_policy_parameter(lowering, PS_EVICTION);
    walk->lookahead = (uint32_t)lower_policy_parameter(lowering, PS_LOOKAHEAD);
    walk->seed = (uint64_t)lower_policy_parameter(lowering, PS_SEED);
    walk->prefetch = (uint32_t)lower_policy_parameter(lowering, PS_PREFETCH);
    walk->prefetch_gathers = request->plan->fold; /* ranks built apart might not agree on an order of gathers */
    walk->gradient_chunks = walk->budget.gradient_chunks;
    walk->warmup_without_adam =
        (enum patrickstar_warmup)lower_policy_parameter(lowering, PS_WARMUP) == WARMUP_WITHOUT_ADAM;
    walk->device_adam = ps_on(lowering, PS_DEVICE_ADAM);
    walk->rounds_pinned = ps_on(lowering, PS_PINNED_ROUNDING);
    if (!walk->rounds_pinned) {
        lower_exact_blocks(lowering);
    }
    walk->tied_unit = word_table(lowering, state);
    walk->passes = list_passes(lowering, state, &walk->pass_count);
    enum status status = walk->passes != NULL ? walk_with_drives(lowering, state, &error) : STATUS_NO_MEMORY;
    if (status == STATUS_DOES_NOT_FIT && !ps_on(lowering, PS_NVME)) {
        say_enough(lowering, state, &error);
    }
    if (status == STATUS_DOES_NOT_FIT && state->plan.lack.present) {
        bool host = (enum chunk_place)state->plan.lack.place == PLACE_HOST;
        lower_lack(lowering, host ? SPACE_HOST : SPACE_DEVICE, state->plan.lack.needed_bytes,
                   state->plan.lack.budget_bytes, host ? "host memory for a rank's chunks" : "GPU memory for chunks");
    }
    return walk->passes != NULL && !failed(lowering, status, &error) && allocate(lowering, state);
}
