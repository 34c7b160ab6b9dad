/* Passes, savings and budget of a rank; where savings are over the step. */
#include "strategies/policies/activation_kit.h"

#include <math.h>

#include "sim/base/units.h"
#include "sim/engine/kernel_cost.h"

static double saved_bytes(const struct layer_graph *graph, enum recompute_mode mode)
{
    return mode == RECOMPUTE_NONE        ? graph->saved_bytes_none
           : mode == RECOMPUTE_SELECTIVE ? graph->saved_bytes_selective
                                         : graph->saved_bytes_full;
}

static double kernels_s(const struct lowering *lowering, const struct layer_graph *graph, bool forward, bool core)
{
    const struct machine_gpu *gpu = &lower_input(lowering)->cluster->machine->gpu;
    double seconds = 0;
    for (uint32_t i = 0; i < graph->op_count; i++) {
        const struct layer_op *op = &graph->ops[i];
        if ((i < graph->forward_count) != forward || op->collective != LAYER_NO_COLLECTIVE ||
            (core && !op->attention_core)) {
            continue;
        }
        struct kernel_cost cost;
        kernel_cost(gpu, &op->kernel, &cost);
        seconds += cost.alone_s + op->kernel.launches * gpu->launch_gap_s;
    }
    return seconds;
}

static double pass_s(const struct lowering *lowering, const struct lower_layer *layer, enum recompute_mode mode,
                     enum lower_pass_kind kind)
{
    bool split = lower_input(lowering)->order->splits_backward;
    if (kind == LOWER_FORWARD) {
        return kernels_s(lowering, layer->graph, true, false);
    }
    double seconds = kernels_s(lowering, layer->graph, false, false) / (split ? 2 : 1);
    if (kind == LOWER_BACKWARD && mode != RECOMPUTE_NONE) {
        seconds += kernels_s(lowering, layer->graph, true, mode == RECOMPUTE_SELECTIVE);
    }
    return seconds;
}

/* ---- budget ---- */

enum { COMMUNICATORS_MOST = 3 }; /* tensor, data, pipeline */

static double budget(const struct lowering *lowering, const struct activation_rank *rank)
{
    const struct lower_request *request = lower_input(lowering);
    const struct machine *machine = request->cluster->machine;
    bool has_budget = request->policy->parameter_count > ACTIVATION_BUDGET;
    double asked = has_budget ? lower_policy_parameter(lowering, ACTIVATION_BUDGET) * GIB : 0, scratch = 0;
    double bytes = asked > 0 && asked < machine->gpu.usable_bytes ? asked : machine->gpu.usable_bytes;
    bytes -= software_runtime_bytes(request->software, machine, COMMUNICATORS_MOST);
    const struct order_request order_request = lower_order_request(lowering);
    uint32_t versions = order_weight_versions(request->order, &order_request, lower_stage(lowering));
    for (uint32_t i = 0; i < rank->layer_count; i++) {
        const struct lower_layer *layer = &rank->layers[i];
        struct lower_layer chosen = *layer;
        chosen.recompute = (enum recompute_mode)rank->modes[i];
        bytes -=
            versions * (double)layer->weight_bytes + (double)layer->gradient_bytes + (double)layer->optimizer_bytes;
        scratch = fmax(scratch, fmax(lower_pass_bytes(lowering, &chosen, LOWER_FORWARD),
                                     lower_pass_bytes(lowering, &chosen, LOWER_BACKWARD)));
    }
    /* what is received and sent: one each way */
    double boundary = request->plan->pipeline > 1 ? 4 * rank->layers[0].graph->boundary_bytes : 0;
    return bytes - scratch - boundary;
}

static bool find_rates(struct lowering *lowering, struct activation_rank *rank)
{
    const struct lower_request *request = lower_input(lowering);
    const struct cluster *cluster = request->cluster;
    uint32_t device = lower_device(lowering);
    const struct endpoint gpu = { ENDPOINT_GPU, device };
    const struct endpoint host = cluster_gpu_host(cluster, device);
    struct route down, up;
    struct error error = { 0 };
    enum status status = cluster_route(cluster, gpu, host, false, &down, &error);
    if (status == STATUS_OK) {
        status = cluster_route(cluster, host, gpu, false, &up, &error);
    }
    if (status != STATUS_OK) {
        lower_fail(lowering, status, "%s", error.message);
        return false;
    }
    rank->down_bytes_per_s = down.rate_cap_bytes_per_s;
    rank->up_bytes_per_s = up.rate_cap_bytes_per_s;
    return true;
}

/* ---- passes ---- */

/* [layers] lengths by kind of pass; a layer like the one before it is not costed again. */
static double (*list_lengths(struct lowering *lowering, const struct activation_rank *rank))[LOWER_PASS_KINDS]
{
    double(*lengths)[LOWER_PASS_KINDS] = arena_alloc(lower_arena(lowering), rank->layer_count, sizeof *lengths);
    for (uint32_t i = 0; lengths != NULL && i < rank->layer_count; i++) {
        bool same = i > 0 && rank->layers[i].graph == rank->layers[i - 1].graph && rank->modes[i] == rank->modes[i - 1];
        for (int kind = 0; kind < LOWER_PASS_KINDS; kind++) {
            lengths[i][kind] = same ? lengths[i - 1][kind]
                                    : pass_s(lowering, &rank->layers[i], (enum recompute_mode)rank->modes[i],
                                             (enum lower_pass_kind)kind);
        }
    }
    return lengths;
}

struct activation_saving *activation_saving_of(const struct activation_rank *rank, uint32_t layer, uint32_t micro_batch)
{
    return &rank->savings[(size_t)layer * rank->micro_batches + micro_batch];
}

static void add_pass(struct activation_rank *rank, const double (*lengths)[LOWER_PASS_KINDS], uint32_t layer,
                     uint32_t micro_batch, enum lower_pass_kind kind)
{
    uint32_t at = rank->pass_count++;
    double start = at > 0 ? rank->passes[at - 1].end_s : 0;
    rank->passes[at] = (struct activation_pass){ layer, micro_batch, kind, start, start + lengths[layer][kind] };
    struct activation_saving *saving = activation_saving_of(rank, layer, micro_batch);
    if (kind == LOWER_FORWARD) {
        saving->forward = at;
    } else if (kind == LOWER_BACKWARD) {
        saving->backward = at;
    }
    saving->last = at;
}

static void add_step(struct activation_rank *rank, const double (*lengths)[LOWER_PASS_KINDS],
                     const struct order_step *step)
{
    uint32_t first = 0, count = 0;
    for (uint32_t i = rank->layer_count; i-- > 0;) {
        if (rank->layers[i].chunk == step->chunk) {
            first = i;
            count++;
        }
    }
    for (uint32_t i = 0; i < count; i++) {
        bool forward = step->kind == STEP_FORWARD;
        add_pass(rank, lengths, first + (forward ? i : count - 1 - i), step->micro_batch,
                 forward                       ? LOWER_FORWARD
                 : step->kind == STEP_BACKWARD ? LOWER_BACKWARD
                                               : LOWER_BACKWARD_WEIGHT);
    }
}

static bool list_passes(struct lowering *lowering, struct activation_rank *rank)
{
    const struct pipeline_order *order = lower_input(lowering)->order;
    const struct order_request request = lower_order_request(lowering);
    uint32_t most = order_step_count(order, &request);
    size_t savings = (size_t)rank->layer_count * rank->micro_batches;
    struct order_step *steps = arena_array(lower_arena(lowering), struct order_step, most);
    double(*lengths)[LOWER_PASS_KINDS] = list_lengths(lowering, rank);
    rank->passes = arena_array(lower_arena(lowering), struct activation_pass, 3 * savings);
    rank->live_bytes = arena_array(lower_arena(lowering), double, 3 * savings);
    rank->down_free_s = arena_array(lower_arena(lowering), double, 3 * savings);
    rank->wait_for[0] = arena_array(lower_arena(lowering), uint32_t, 3 * savings);
    rank->wait_for[1] = arena_array(lower_arena(lowering), uint32_t, 3 * savings);
    rank->savings = arena_array(lower_arena(lowering), struct activation_saving, savings);
    if (steps == NULL || lengths == NULL || rank->passes == NULL || rank->savings == NULL || rank->live_bytes == NULL ||
        rank->down_free_s == NULL || rank->wait_for[0] == NULL || rank->wait_for[1] == NULL) {
        lower_fail(lowering, STATUS_NO_MEMORY, "out of memory for the activations of a rank");
        return false;
    }
    for (size_t i = 0; i < 3 * savings; i++) {
        rank->wait_for[0][i] = rank->wait_for[1][i] = SCHED_NONE;
    }
    uint32_t count = order->build(&request, lower_stage(lowering), steps);
    for (uint32_t i = 0; i < count; i++) {
        add_step(rank, (const double(*)[LOWER_PASS_KINDS])lengths, &steps[i]);
    }
    return true;
}

static double input_bytes(const struct layer_graph *graph)
{
    double bytes = 0;
    for (uint32_t i = 0; i < graph->saved_count; i++) {
        bytes += graph->saved[i].is_input ? graph->saved[i].bytes : 0;
    }
    return bytes;
}

/* A chunk's first layer whose input came from another stage: the received buffer holds the input, and stays. */
static double received_bytes(const struct lowering *lowering, const struct lower_layer *layer)
{
    const struct plan *plan = lower_input(lowering)->plan;
    bool first = layer->index == 0 || lower_layers(lowering, &(uint32_t){ 0 })[layer->index - 1].chunk != layer->chunk;
    return first && plan->pipeline > 1 && layer->kind == LAYER_TRANSFORMER ? input_bytes(layer->graph) : 0;
}

bool activation_open(struct lowering *lowering, const uint8_t *modes, struct activation_rank *rank)
{
    *rank = (struct activation_rank){ .micro_batches = lower_order_request(lowering).micro_batches };
    rank->layers = lower_layers(lowering, &rank->layer_count);
    rank->modes = arena_array(lower_arena(lowering), uint8_t, rank->layer_count);
    if (rank->modes == NULL) {
        lower_fail(lowering, STATUS_NO_MEMORY, "out of memory for the activations of a rank");
        return false;
    }
    for (uint32_t i = 0; i < rank->layer_count; i++) {
        rank->modes[i] = modes[i];
    }
    if (!list_passes(lowering, rank) || !find_rates(lowering, rank)) {
        return false;
    }
    for (uint32_t i = 0; i < rank->layer_count; i++) {
        const struct lower_layer *layer = &rank->layers[i];
        for (uint32_t m = 0; m < rank->micro_batches; m++) {
            struct activation_saving *saving = activation_saving_of(rank, i, m);
            saving->layer = i;
            saving->micro_batch = m;
            saving->bytes = ceil(
                fmax(0, saved_bytes(layer->graph, (enum recompute_mode)modes[i]) - received_bytes(lowering, layer)));
            saving->gone_by = SCHED_NONE;
            saving->host = saving->down = saving->up = SCHED_NONE;
        }
    }
    rank->budget_bytes = budget(lowering, rank);
    return true;
}

double activation_recompute_bytes(const struct activation_rank *rank, uint32_t layer)
{
    const struct layer_graph *graph = rank->layers[layer].graph;
    bool can = rank->layers[layer].kind == LAYER_TRANSFORMER && rank->modes[layer] != RECOMPUTE_FULL;
    return can ? saved_bytes(graph, (enum recompute_mode)rank->modes[layer]) - graph->saved_bytes_full : 0;
}

double activation_recompute_s(const struct lowering *lowering, const struct activation_rank *rank, uint32_t layer)
{
    return kernels_s(lowering, rank->layers[layer].graph, true, false);
}

/* ---- over the step ---- */

uint32_t activation_live(struct activation_rank *rank)
{
    double *live = rank->live_bytes, sum = 0;
    uint32_t peak = 0;
    for (uint32_t i = 0; i < rank->pass_count; i++) {
        live[i] = 0;
    }
    for (size_t i = 0; i < (size_t)rank->layer_count * rank->micro_batches; i++) {
        const struct activation_saving *saving = &rank->savings[i];
        live[saving->forward] += saving->bytes;
        if (saving->moves) {
            if (saving->gone + 1 < rank->pass_count) {
                live[saving->gone + 1] -= saving->bytes;
            }
            live[saving->trigger] += saving->bytes;
        }
        if (saving->last + 1 < rank->pass_count) {
            live[saving->last + 1] -= saving->bytes;
        }
    }
    for (uint32_t i = 0; i < rank->pass_count; i++) {
        sum += live[i];
        live[i] = sum;
        peak = live[i] > live[peak] ? i : peak;
    }
    return peak;
}

bool activation_over(struct activation_rank *rank, uint32_t from, uint32_t *pass)
{
    activation_live(rank);
    for (*pass = from; *pass < rank->pass_count; ++*pass) {
        if (rank->live_bytes[*pass] > rank->budget_bytes) {
            return true;
        }
    }
    return false;
}

static bool spans(const struct activation_rank *rank, const struct activation_saving *saving, uint32_t pass)
{
    return !saving->moves && rank->layers[saving->layer].kind == LAYER_TRANSFORMER && saving->bytes > 0 &&
           saving->forward < pass && saving->backward > pass + 1;
}

/* `in_time`: of those that are gone before the pass by estimate; else of all that need not be there. */
static struct activation_saving *choose_victim(const struct activation_rank *rank, uint32_t pass, bool in_time,
                                               bool (*rather)(const struct activation_saving *a,
                                                              const struct activation_saving *b))
{
    struct activation_saving *victim = NULL;
    for (size_t i = 0; i < (size_t)rank->layer_count * rank->micro_batches; i++) {
        struct activation_saving *saving = &rank->savings[i];
        if ((in_time ? activation_frees(rank, saving, pass) : spans(rank, saving, pass)) &&
            (victim == NULL || rather(saving, victim))) {
            victim = saving;
        }
    }
    return victim;
}

void activation_evict(struct activation_rank *rank,
                      bool (*rather)(const struct activation_saving *a, const struct activation_saving *b))
{
    for (uint32_t pass = 0; activation_over(rank, pass, &pass);) {
        struct activation_saving *victim = choose_victim(rank, pass, true, rather);
        if (victim == NULL) {
            victim = choose_victim(rank, pass, false, rather);
            if (victim == NULL) {
                pass++; /* nothing more can go before it: the step will wait for memory, or not fit */
                continue;
            }
            victim->gone_by = pass - 1;
        }
        activation_move(rank, victim);
    }
}

double activation_down_s(const struct activation_rank *rank, const struct activation_saving *saving)
{
    return saving->bytes / rank->down_bytes_per_s;
}

double activation_up_s(const struct activation_rank *rank, const struct activation_saving *saving)
{
    return saving->bytes / rank->up_bytes_per_s;
}

/* The pass during which a copy down ends that begins at `begin_s`, after the saving's forward and before `trigger`. */
static uint32_t pass_of_end(const struct activation_rank *rank, const struct activation_saving *saving, double begin_s)
{
    double end_s = begin_s + activation_down_s(rank, saving);
    uint32_t pass = saving->forward;
    while (pass + 1 < saving->trigger && rank->passes[pass].end_s < end_s) {
        pass++;
    }
    return pass;
}

/* Copies go down one at a time, in the order of the forwards. */
static void queue_down(struct activation_rank *rank)
{
    double free_s = 0;
    for (uint32_t p = 0; p < rank->pass_count; p++) {
        struct activation_saving *saving =
            activation_saving_of(rank, rank->passes[p].layer, rank->passes[p].micro_batch);
        if (rank->passes[p].kind == LOWER_FORWARD && saving->moves) {
            double begin_s = fmax(free_s, rank->passes[p].end_s);
            uint32_t gone = pass_of_end(rank, saving, begin_s);
            saving->gone = saving->gone_by < gone ? saving->gone_by : gone;
            free_s = begin_s + activation_down_s(rank, saving);
        }
        rank->down_free_s[p] = free_s;
    }
}

static uint32_t default_trigger(const struct activation_saving *saving)
{
    return saving->backward > saving->forward + 1 ? saving->backward - 1 : saving->backward;
}

bool activation_frees(const struct activation_rank *rank, const struct activation_saving *saving, uint32_t pass)
{
    if (!spans(rank, saving, pass)) {
        return false;
    }
    struct activation_saving moved = *saving;
    moved.trigger = default_trigger(saving);
    double begin_s = fmax(rank->passes[saving->forward].end_s, rank->down_free_s[saving->forward]);
    return pass_of_end(rank, &moved, begin_s) < pass && moved.trigger > pass;
}

void activation_move(struct activation_rank *rank, struct activation_saving *saving)
{
    saving->moves = true;
    saving->trigger = default_trigger(saving);
    queue_down(rank);
}

void activation_trigger_in_time(struct activation_rank *rank)
{
    double free_s = INFINITY; /* when the copy after it begins */
    for (uint32_t p = rank->pass_count; p-- > 0;) {
        if (rank->passes[p].kind != LOWER_BACKWARD) {
            continue;
        }
        struct activation_saving *saving =
            activation_saving_of(rank, rank->passes[p].layer, rank->passes[p].micro_batch);
        if (!saving->moves) {
            continue;
        }
        double begin_s = fmin(rank->passes[p].start_s, free_s) - activation_up_s(rank, saving);
        saving->trigger = p;
        while (saving->trigger > saving->gone + 1 && rank->passes[saving->trigger].start_s > begin_s) {
            saving->trigger--;
        }
        free_s = begin_s;
    }
}

void activation_trigger_at_once(struct activation_rank *rank)
{
    uint32_t earliest = 0; /* copies come up in the order in which they are needed */
    for (uint32_t p = 0; p < rank->pass_count; p++) {
        struct activation_saving *saving =
            activation_saving_of(rank, rank->passes[p].layer, rank->passes[p].micro_batch);
        if (rank->passes[p].kind != LOWER_BACKWARD || !saving->moves) {
            continue;
        }
        while (saving->trigger > saving->gone + 1 && saving->trigger > earliest &&
               rank->live_bytes[saving->trigger - 1] + saving->bytes <= rank->budget_bytes) {
            saving->trigger--;
            rank->live_bytes[saving->trigger] += saving->bytes;
        }
        earliest = saving->trigger;
    }
}
