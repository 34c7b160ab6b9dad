/* Lowering: checks, shared preparation, one rank after the other. And the kit's plain accessors. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "sim/base/check.h"
#include "sim/plan/lower_internal.h"
#include "sim/plan/plan_order.h"
#include "sim/plan/plan_replicas.h"
#include "strategies/registry.h"

/* ---- the kit ---- */

const struct lower_request *lower_input(const struct lowering *l)
{
    return l->request;
}

struct builder *lower_builder(struct lowering *l)
{
    return l->builder;
}

struct arena *lower_arena(struct lowering *l)
{
    return &l->arena;
}

void **lower_policy_state(struct lowering *l)
{
    return &l->policy_state;
}

double lower_policy_parameter(const struct lowering *l, uint32_t index)
{
    CHECK(index < l->request->policy->parameter_count);
    return l->request->plan->policy_parameters.value[index];
}

uint32_t lower_stage(const struct lowering *l)
{
    return l->rank->stage;
}

struct order_request lower_order_request(const struct lowering *l)
{
    return l->order_request;
}

uint32_t lower_device(const struct lowering *l)
{
    return l->rank->device;
}

uint32_t lower_data_size(const struct lowering *l)
{
    return lowering_replicas(l, l->rank->stage);
}

uint32_t lower_data_index(const struct lowering *l)
{
    return l->fold ? 0 : l->rank->d * l->context + l->rank->c;
}

const struct lower_layer *lower_layers(const struct lowering *l, uint32_t *count)
{
    *count = l->rank->layer_count;
    return l->rank->layers;
}

void lower_fail(struct lowering *l, enum status status, const char *format, ...)
{
    if (l->status != STATUS_OK) {
        return;
    }
    char message[ERROR_MESSAGE_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    l->status = error_set(l->error, status, "%s", message);
}

void lower_fact(struct lowering *l, const struct policy_fact *fact)
{
    struct policy_facts *facts = l->request->facts;
    for (uint32_t i = 0; facts != NULL && i < facts->count; i++) {
        if (strcmp(facts->items[i].name, fact->name) == 0) {
            return;
        }
    }
    if (facts != NULL && facts->count < POLICY_FACTS_MAX) {
        facts->items[facts->count++] = *fact;
    }
}

void lower_lack(struct lowering *l, enum space_kind kind, double needed_bytes, double has_bytes, const char *what)
{
    struct policy_facts *facts = l->request->facts;
    if (facts != NULL && !facts->lack.present) {
        facts->lack =
            (struct policy_lack){ .present = true, .kind = kind, .needed_bytes = needed_bytes, .has_bytes = has_bytes };
        snprintf(facts->lack.what, sizeof facts->lack.what, "%s", what);
    }
}

void lower_would_do(struct lowering *l, const char *format, ...)
{
    struct policy_facts *facts = l->request->facts;
    if (facts != NULL && facts->would_do[0] == '\0') {
        va_list arguments;
        va_start(arguments, format);
        vsnprintf(facts->would_do, sizeof facts->would_do, format, arguments);
        va_end(arguments);
    }
}

static uint32_t copy(struct lowering *l, enum opcode opcode, enum queue_class queue_class, double bytes, bool pageable,
                     uint32_t after_op, uint32_t acquire, uint32_t release)
{
    uint32_t queue = lower_queue(l, queue_class);
    uint32_t op = lowering_op(l, opcode, queue, builder_work_transfer(l->builder, bytes, pageable), PHASE_OFFLOAD);
    builder_depends(l->builder, after_op);
    if (acquire != SCHED_NONE) {
        builder_acquire(l->builder, acquire);
    }
    if (release != SCHED_NONE) {
        builder_release(l->builder, release);
    }
    return op;
}

uint32_t lower_copy_to_host(struct lowering *l, double bytes, bool pageable, uint32_t after_op, uint32_t acquire,
                            uint32_t release)
{
    return copy(l, OP_COPY_D2H, QUEUE_D2H, bytes, pageable, after_op, acquire, release);
}

uint32_t lower_copy_to_device(struct lowering *l, double bytes, bool pageable, uint32_t after_op, uint32_t acquire,
                              uint32_t release)
{
    return copy(l, OP_COPY_H2D, QUEUE_H2D, bytes, pageable, after_op, acquire, release);
}

/* ---- device-to-device swap ---- */

static uint32_t peer_copy(struct lowering *l, bool out, uint32_t stage, double bytes, uint32_t after_op)
{
    uint32_t queue = lowering_lane(l, out ? LANE_SWAP_OUT : LANE_SWAP_IN, stage);
    uint32_t op = lowering_op(l, OP_COPY_P2P, queue, builder_work_transfer(l->builder, bytes, false), PHASE_OFFLOAD);
    builder_depends(l->builder, after_op);
    return op;
}

uint32_t lower_copy_to_peer(struct lowering *l, uint32_t stage, double bytes, uint32_t after_op, uint32_t own,
                            uint32_t peer)
{
    uint32_t op = peer_copy(l, true, stage, bytes, after_op);
    builder_read(l->builder, own);
    builder_write(l->builder, peer);
    return op;
}

uint32_t lower_copy_from_peer(struct lowering *l, uint32_t stage, double bytes, uint32_t after_op, uint32_t own,
                              uint32_t peer)
{
    uint32_t op = peer_copy(l, false, stage, bytes, after_op);
    builder_read(l->builder, peer);
    builder_write(l->builder, own);
    return op;
}

uint32_t lower_peer_join(struct lowering *l, bool out, uint32_t after_op)
{
    uint32_t queue = lowering_lane(l, out ? LANE_SWAP_OUT : LANE_SWAP_IN, l->rank->stage);
    uint32_t op = lowering_op(l, OP_MARK, queue, SCHED_NONE, PHASE_OFFLOAD);
    builder_depends(l->builder, after_op);
    return op;
}

uint32_t lower_host_optimizer(struct lowering *l, double parameters, uint32_t after_op)
{
    uint32_t queue = lower_queue(l, QUEUE_HOST);
    uint32_t op =
        lowering_op(l, OP_HOST_OPTIMIZER, queue, builder_work_host_optimizer(l->builder, parameters), PHASE_OPTIMIZER);
    builder_depends(l->builder, after_op);
    return op;
}

uint32_t lowering_model_stage(const struct lowering *l, uint32_t stage, uint32_t chunk)
{
    uint32_t v = order_virtual_stage(l->request->order, &l->order_request, stage, chunk);
    return order_model_stage(l->request->order, &l->order_request, v);
}

bool lowering_is_first(const struct lowering *l, uint32_t virtual_stage)
{
    return order_model_stage(l->request->order, &l->order_request, virtual_stage) == 0;
}

bool lowering_is_last(const struct lowering *l, uint32_t virtual_stage)
{
    return order_model_stage(l->request->order, &l->order_request, virtual_stage) + 1 == l->model_stages;
}

/* ---- preparation ---- */

static bool policy_is_passive(const struct memory_policy *policy)
{
    return policy->begin_rank == NULL && policy->place == NULL && policy->before_pass == NULL &&
           policy->after_pass == NULL && policy->gradient_ready == NULL && policy->optimizer == NULL &&
           !policy->owns_model_data;
}

/* What orders with several copies or versions of the weights cannot be combined with. */
static enum status check_order(const struct lower_request *request, struct error *error)
{
    const struct pipeline_order *order = request->order;
    const struct plan *plan = request->plan;
    if (!order->asynchronous && order->model_replicas <= 1) {
        return STATUS_OK;
    }
    const char *keeps =
        order->asynchronous ? "updates the weights while micro-batches are in flight" : "keeps two copies of the model";
    if (!policy_is_passive(request->policy) && !(order->asynchronous && request->policy->streams)) {
        return error_at(error, STATUS_BAD_INPUT, NULL, "$.memory_policy",
                        "policy \"%s\" moves tensors by the step, but pipeline_order \"%s\" %s: use \"resident\"%s, or "
                        "an order with a flush and one copy, like \"1f1b\"",
                        request->policy->name, order->name, keeps,
                        order->asynchronous ? ", one that moves pass by pass, like \"mpress\" or \"capuchin\"" : "");
    }
    int64_t zero_max = order->asynchronous ? 0 : 1;
    if (plan->zero_stage > zero_max) {
        return error_at(error, STATUS_BAD_INPUT, NULL, "$.parallel.zero_stage",
                        "zero_stage is %lld: pipeline_order \"%s\" %s, so allowed is %s", (long long)plan->zero_stage,
                        order->name, keeps, zero_max == 0 ? "0" : "0 or 1");
    }
    if (plan_is_mixed(plan, request->model)) {
        return error_at(error, STATUS_BAD_INPUT, NULL, "$.parallel.layers",
                        "layers are split differently, but pipeline_order \"%s\" %s: split all layers alike, or use an "
                        "order with a flush and one copy, like \"1f1b\"",
                        order->name, keeps);
    }
    return STATUS_OK;
}

/* What other barriers than the usual one cannot be combined with. */
static enum status check_barrier(const struct lower_request *request, struct error *error)
{
    const struct plan *plan = request->plan;
    const char *barrier = gradient_barrier_word(plan->gradient_barrier);
    if (plan->gradient_barrier == BARRIER_AFTER) {
        return STATUS_OK;
    }
    if (request->order->asynchronous) {
        return error_at(
            error, STATUS_BAD_INPUT, NULL, "$.parallel.gradient_barrier",
            "\"%s\": pipeline_order \"%s\" updates each stage by itself and has no barrier; leave the key out", barrier,
            request->order->name);
    }
    if (plan->zero_stage > 1 || plan_is_mixed(plan, request->model)) {
        return error_at(
            error, STATUS_BAD_INPUT, NULL, "$.parallel.gradient_barrier",
            "\"%s\" needs gradients that are reduced once a step, in all layers alike: allowed are zero_stage 0 "
            "and 1, without \"layers\"",
            barrier);
    }
    if (!policy_is_passive(request->policy)) {
        return error_at(
            error, STATUS_BAD_INPUT, NULL, "$.parallel.gradient_barrier",
            "\"%s\" does not go with memory policy \"%s\", which updates or moves gradients its own way: use "
            "\"after\" or the policy \"resident\"",
            barrier, request->policy->name);
    }
    return STATUS_OK;
}

static enum status check_request(const struct lower_request *request, struct error *error)
{
    const struct plan *plan = request->plan;
    int64_t gpus = plan_gpus(plan);
    TRY(plan_replicas_check(plan, error)); /* a plan made by hand may come unchecked */
    TRY(plan_replicas_check_gpus(plan, (int64_t)request->cluster->gpus, error));
    if (gpus != (int64_t)request->cluster->gpus) {
        return error_at(
            error, STATUS_BAD_INPUT, NULL, "$.parallel",
            "tensor %lld x context %lld x pipeline %lld x data %lld = %lld GPUs, but the cluster has %u in use",
            (long long)plan->tensor, (long long)plan->context, (long long)plan->pipeline, (long long)plan->data,
            (long long)gpus, request->cluster->gpus);
    }
    TRY(check_order(request, error));
    TRY(check_barrier(request, error));
    if (request->policy->check != NULL) {
        TRY(request->policy->check(request, error));
    }
    return lowering_check_layer_drop(request, error);
}

static uint32_t *ids(struct lowering *l, size_t count)
{
    uint32_t *array = arena_array(&l->arena, uint32_t, count);
    for (size_t i = 0; array != NULL && i < count; i++) {
        array[i] = SCHED_NONE;
    }
    if (array == NULL) {
        lower_fail(l, STATUS_NO_MEMORY, "out of memory while lowering");
    }
    return array;
}

/* Stages that update for themselves settle within two steps: the slowest cycle of a stage rules from the second on. */
enum { SETTLING_STEPS = 2 };

/* What is never flushed (plan_order_steps), or whose stages do not wait for each other, is simulated from its beginning: steps that fill it, one to be measured, and one behind it (timeline_step). */
static enum status count_steps(struct lowering *l)
{
    const struct order_request *request = &l->order_request;
    uint32_t a_step = request->micro_batches;
    l->steps = plan_order_steps(l->request->order, l->request->plan);
    if (l->request->order->asynchronous) {
        if ((uint64_t)l->steps * a_step > ORDER_MICRO_BATCHES_MAX) {
            return error_at(l->error, STATUS_BAD_INPUT, NULL, "$.training.global_batch",
                            "%u micro-batches a step: a step of an asynchronous order is simulated within %u steps, "
                            "which have at most %d together; the nearest is %u",
                            a_step, l->steps, ORDER_MICRO_BATCHES_MAX, ORDER_MICRO_BATCHES_MAX / l->steps);
        }
        l->order_request.micro_batches = l->steps * a_step;
    }
    if (l->request->plan->gradient_barrier == BARRIER_NONE && l->stages > 1) {
        l->steps = SETTLING_STEPS + 2;
        if ((uint64_t)l->steps * a_step > ORDER_MICRO_BATCHES_MAX) {
            return error_at(l->error, STATUS_BAD_INPUT, NULL, "$.training.global_batch",
                            "%u micro-batches a step: with gradient_barrier \"none\" allowed are %d", a_step,
                            ORDER_MICRO_BATCHES_MAX / (SETTLING_STEPS + 2));
        }
    }
    l->micro_batches = l->steps * a_step;
    return STATUS_OK;
}

/* Where stages have replicas of their own: their GPUs; for all: how many pieces a message has. */
static enum status place_stages(struct lowering *l)
{
    const uint32_t *replicas = l->request->plan->stage_replicas;
    uint32_t most = 0;
    l->transfer_pieces = l->fold ? 1 : l->stage_devices;
    if (!l->unequal) {
        return STATUS_OK;
    }
    l->stage_gpus = arena_array(&l->arena, uint32_t, l->stages + 1);
    if (l->stage_gpus == NULL) {
        lower_fail(l, STATUS_NO_MEMORY, "out of memory while lowering");
        return l->status;
    }
    for (uint32_t s = 0; s < l->stages; s++) {
        l->stage_gpus[s + 1] = l->stage_gpus[s] + replicas[s] * l->tensor;
        most = replicas[s] > most ? replicas[s] : most;
    }
    l->transfer_pieces = (l->request->plan->replica_sharing == SHARING_CUT ? 2 * most : 1) * l->tensor;
    return STATUS_OK;
}

static enum status prepare(struct lowering *l)
{
    const struct lower_request *request = l->request;
    const struct plan *plan = request->plan;
    l->stages = (uint32_t)plan->pipeline;
    l->virtual_stages = (uint32_t)plan->virtual_stages;
    l->tensor = (uint32_t)plan->tensor;
    l->data = (uint32_t)plan->data;
    l->context = (uint32_t)plan->context;
    l->replicas = l->data * l->context;
    l->stage_devices = l->replicas * l->tensor;
    l->scatters = request->software->scatter_gather_pipeline && !plan->sequence_parallel;
    l->unequal = plan->stage_replicas != NULL;
    l->fold = plan->fold && !l->unequal;
    l->order_request = plan_order_request(plan);
    TRY(order_check(request->order, &l->order_request, l->error));
    TRY(count_steps(l));
    l->copies = order_copies(request->order);
    l->model_stages = order_model_stages(request->order, &l->order_request);
    l->tied_apart = request->model->tied_head && order_ends_apart(request->order, &l->order_request);
    TRY(lowering_layouts(l));
    TRY(place_stages(l));
    size_t transfers = (size_t)l->transfer_pieces * l->stages * l->virtual_stages * l->micro_batches;
    l->forward_matches = ids(l, transfers);
    l->backward_matches = ids(l, transfers);
    l->pair_groups = ids(l, (size_t)l->stages * l->stages);
    l->stage_orders = arena_array(&l->arena, struct stage_order, l->stages);
    if (l->stage_orders == NULL) {
        lower_fail(l, STATUS_NO_MEMORY, "out of memory while lowering");
    }
    l->device_spaces = ids(l, request->cluster->gpus);
    for (uint32_t kind = 0; kind < SPACE_KIND_COUNT; kind++) {
        l->host_spaces[kind] = ids(l, request->cluster->nodes);
    }
    return l->status;
}

static enum status build_ranks(struct lowering *l)
{
    for (uint32_t stage = 0; stage < l->stages; stage++) {
        uint32_t instances = l->fold ? 1 : lowering_replicas(l, stage) * l->tensor;
        for (uint32_t i = 0; i < instances; i++) {
            uint32_t replica = i / l->tensor;
            TRY(lowering_open_rank(l, stage, replica / l->context, replica % l->context, i % l->tensor));
            if (l->request->policy->begin_rank != NULL) {
                l->request->policy->begin_rank(l);
            }
            TRY(l->status);
            TRY(lowering_walk(l));
        }
    }
    return STATUS_OK;
}

/* What the step computes, for throughput and utilisation. */
static void describe_step(const struct lower_request *request, struct schedule *schedule)
{
    const struct plan *plan = request->plan;
    schedule->samples = (double)plan->global_batch;
    schedule->tokens = (double)plan->global_batch * (double)model_sample_tokens(request->model, plan->sequence_length);
    schedule->model_flops = model_step_flops(request->model, (double)plan->global_batch, (double)plan->sequence_length);
    if (plan->layer_drop > 0) {
        schedule->model_flops -= lowering_skipped_flops(request);
    }
    schedule->gpu_count = request->cluster->gpus;
}

/* Order and policy, where the request leaves them to the plan. */
static enum status look_up(struct lower_request *request, struct error *error)
{
    struct error inner = { 0 };
    request->order = request->order != NULL ? request->order : plan_order(request->plan, &inner);
    if (request->order != NULL && request->policy == NULL) {
        request->policy = registry_policy(request->plan->policy, &inner);
    }
    return request->order != NULL && request->policy != NULL ? STATUS_OK
                                                             : error_set(error, STATUS_NOT_FOUND, "%s", inner.message);
}

enum status lower_schedule(const struct lower_request *asked, struct schedule *schedule, struct error *error)
{
    struct lower_request named = *asked;
    const struct lower_request *request = &named;
    TRY(look_up(&named, error));
    TRY(check_request(request, error));
    struct lowering l = { .request = request, .error = error, .builder = builder_new() };
    enum status status =
        l.builder == NULL ? error_set(error, STATUS_NO_MEMORY, "out of memory while lowering") : STATUS_OK;
    if (status == STATUS_OK) {
        status = prepare(&l);
    }
    if (status == STATUS_OK) {
        status = build_ranks(&l);
    }
    if (status == STATUS_OK) {
        status = builder_finish(l.builder, schedule, error);
        if (status == STATUS_OK) {
            describe_step(request, schedule);
        }
    } else {
        builder_free(l.builder);
    }
    arena_free(&l.arena);
    return status;
}
