/* Building and measuring bare pipelines. */
#include "sim/plan/bare_pipeline.h"

#include <math.h>
#include <stdio.h>

#include "sim/base/check.h"
#include "sim/base/json_write.h"
#include "sim/ir/builder.h"

enum { FORWARD, BACKWARD, DIRECTION_COUNT };
enum { STEPS_MAX = 20 * 1000 * 1000 };

/* One direction over the boundary between virtual stages `boundary` and `boundary + 1`. Messages go in the sender's order, on both sides. */
struct channel {
    uint32_t *sequence; /* [micro_batches]: place of each micro-batch among the messages; SCHED_NONE: not sent */
    uint32_t *sent;     /* [message_count]: micro-batches in the sender's order */
    uint32_t *match;    /* [message_count] */
    uint32_t message_count;
    bool crosses; /* the two ends are on different stages */
};

struct work_ids {
    uint32_t pass[STEP_KIND_COUNT], hop;
};

struct bare {
    const struct bare_pipeline_request *request;
    const struct pipeline_order *order;
    const struct order_request *shape;
    struct builder *builder;
    struct arena arena;
    uint32_t virtual_count; /* of all stages */
    uint32_t lanes;
    int64_t pass_ps[STEP_KIND_COUNT], hop_ps;
    struct work_ids works;
    struct order_step **steps; /* [stages][step_counts[stage]] */
    uint32_t *step_counts;
    struct channel *channels; /* [virtual_count][DIRECTION_COUNT] by lower boundary */
    /* of the rank being built, by chunk * micro_batches + micro_batch */
    uint32_t *forward_op, *backward_op, *activation;
    /* by (chunk * DIRECTION_COUNT + direction) */
    uint32_t *send_queues, *receive_queues; /* ... * lanes + lane */
    uint32_t *received;                     /* messages taken so far */
    uint32_t *receive_ops;                  /* ... * micro_batches + message */
};

static enum status no_memory(struct error *error)
{
    return error_set(error, STATUS_NO_MEMORY, "out of memory building a bare pipeline");
}

/* Chunks that one micro-batch passes on one device. */
static uint32_t chunks_passed(const struct bare_pipeline_request *request)
{
    uint32_t replicas = request->order->model_replicas == 0 ? 1 : request->order->model_replicas;
    return request->order_request.virtual_stages / replicas;
}

static enum status check_time(const char *what, double value, bool zero_allowed, struct error *error)
{
    if (!(value <= BARE_TIME_MAX) || value < 0 || (!zero_allowed && !(value > 0))) {
        return error_set(error, STATUS_BAD_INPUT, "%s is %g: allowed is %s to %g units", what, value,
                         zero_allowed ? "0" : "more than 0", BARE_TIME_MAX);
    }
    return STATUS_OK;
}

static enum status check_request(const struct bare_pipeline_request *request, struct error *error)
{
    const struct order_request *shape = &request->order_request;
    TRY(order_check(request->order, shape, error));
    TRY(check_time("forward", request->forward, false, error));
    TRY(check_time("backward", request->backward, false, error));
    TRY(check_time("hop", request->hop, true, error));
    if (request->has_weight_gradient) {
        TRY(check_time("weight-grad", request->weight_gradient, true, error));
    }
    uint64_t steps = (uint64_t)order_step_count(request->order, shape) * shape->stages;
    if (steps > STEPS_MAX) {
        return error_set(error, STATUS_LIMIT, "%llu passes on all stages: a bare pipeline may have %d",
                         (unsigned long long)steps, STEPS_MAX);
    }
    /* Even when nothing overlaps, the clock must not run over. */
    double weight = request->has_weight_gradient ? request->weight_gradient : 0;
    double total = (request->forward + request->backward + weight + 2 * request->hop) * (double)steps;
    if (total * (double)BARE_UNIT_PS > 0x1p62) {
        return error_set(error, STATUS_LIMIT, "%g units of work and hops: a bare pipeline may have %g", total,
                         0x1p62 / (double)BARE_UNIT_PS);
    }
    return STATUS_OK;
}

static void set_times(struct bare *bare)
{
    const struct bare_pipeline_request *request = bare->request;
    double chunk_ps = (double)BARE_UNIT_PS / chunks_passed(request);
    double backward = request->backward, weight = request->has_weight_gradient ? request->weight_gradient : 0;
    if (!bare->order->splits_backward) {
        backward += weight;
    } else if (!request->has_weight_gradient) {
        backward = weight = backward / 2;
    }
    bare->pass_ps[STEP_FORWARD] = llround(request->forward * chunk_ps);
    bare->pass_ps[STEP_BACKWARD] = llround(backward * chunk_ps);
    bare->pass_ps[STEP_BACKWARD_WEIGHT] = llround(weight * chunk_ps);
    bare->hop_ps = llround(request->hop * (double)BARE_UNIT_PS);
    /* Messages of a channel are at least one forward or backward apart, so this many hops can be under way at once. */
    int64_t apart_ps = bare->pass_ps[STEP_FORWARD] < bare->pass_ps[STEP_BACKWARD] ? bare->pass_ps[STEP_FORWARD]
                                                                                  : bare->pass_ps[STEP_BACKWARD];
    int64_t lanes = apart_ps > 0 ? (bare->hop_ps + apart_ps - 1) / apart_ps : bare->hop_ps;
    bare->lanes = lanes < 1 ? 1 : lanes < bare->shape->micro_batches ? (uint32_t)lanes : bare->shape->micro_batches;
}

static enum status build_orders(struct bare *bare, struct error *error)
{
    uint32_t room = order_step_count(bare->order, bare->shape);
    bare->steps = arena_array(&bare->arena, struct order_step *, bare->shape->stages);
    bare->step_counts = arena_array(&bare->arena, uint32_t, bare->shape->stages);
    if (bare->steps == NULL || bare->step_counts == NULL) {
        return no_memory(error);
    }
    for (uint32_t s = 0; s < bare->shape->stages; s++) {
        bare->steps[s] = arena_array(&bare->arena, struct order_step, room);
        if (bare->steps[s] == NULL) {
            return no_memory(error);
        }
        TRY(order_steps(bare->order, bare->shape, s, bare->steps[s], &bare->step_counts[s], error));
    }
    return STATUS_OK;
}

static struct channel *channel_of(struct bare *bare, uint32_t boundary, int direction)
{
    CHECK(boundary < bare->virtual_count);
    return &bare->channels[(size_t)boundary * DIRECTION_COUNT + (size_t)direction];
}

/* The channel by which a step sends its result, or NULL at the ends of the model. */
static struct channel *channel_out(struct bare *bare, uint32_t stage, const struct order_step *step)
{
    uint32_t first, last, virtual_stage = order_virtual_stage(bare->order, bare->shape, stage, step->chunk);
    order_route(bare->order, bare->shape, step->micro_batch, &first, &last);
    if (step->kind == STEP_FORWARD && virtual_stage < last) {
        return channel_of(bare, virtual_stage, FORWARD);
    }
    if (step->kind == STEP_BACKWARD && virtual_stage > first) {
        return channel_of(bare, virtual_stage - 1, BACKWARD);
    }
    return NULL;
}

/* The channel by which its input comes, or NULL. */
static struct channel *channel_in(struct bare *bare, uint32_t stage, const struct order_step *step)
{
    uint32_t first, last, virtual_stage = order_virtual_stage(bare->order, bare->shape, stage, step->chunk);
    order_route(bare->order, bare->shape, step->micro_batch, &first, &last);
    if (step->kind == STEP_FORWARD && virtual_stage > first) {
        return channel_of(bare, virtual_stage - 1, FORWARD);
    }
    if (step->kind == STEP_BACKWARD && virtual_stage < last) {
        return channel_of(bare, virtual_stage, BACKWARD);
    }
    return NULL;
}

/* Which stages a boundary joins, and the order of its messages. */
static enum status build_channels(struct bare *bare, struct error *error)
{
    uint32_t m = bare->shape->micro_batches, *holder = arena_array(&bare->arena, uint32_t, bare->virtual_count);
    bare->channels = arena_array(&bare->arena, struct channel, (size_t)bare->virtual_count * DIRECTION_COUNT);
    if (holder == NULL || bare->channels == NULL) {
        return no_memory(error);
    }
    for (uint32_t s = 0; s < bare->shape->stages; s++) {
        for (uint32_t c = 0; c < bare->shape->virtual_stages; c++) {
            holder[order_virtual_stage(bare->order, bare->shape, s, c)] = s;
        }
    }
    for (uint32_t i = 0; i < bare->virtual_count * DIRECTION_COUNT; i++) {
        uint32_t boundary = i / DIRECTION_COUNT;
        struct channel *channel = &bare->channels[i];
        channel->crosses = boundary + 1 < bare->virtual_count && holder[boundary] != holder[boundary + 1];
        channel->sequence = arena_array(&bare->arena, uint32_t, m);
        channel->sent = arena_array(&bare->arena, uint32_t, m);
        channel->match = arena_array(&bare->arena, uint32_t, m);
        if (channel->sequence == NULL || channel->sent == NULL || channel->match == NULL) {
            return no_memory(error);
        }
        for (uint32_t k = 0; k < m; k++) {
            channel->sequence[k] = SCHED_NONE;
        }
    }
    for (uint32_t s = 0; s < bare->shape->stages; s++) {
        for (uint32_t i = 0; i < bare->step_counts[s]; i++) {
            struct channel *channel = channel_out(bare, s, &bare->steps[s][i]);
            if (channel != NULL) {
                channel->sequence[bare->steps[s][i].micro_batch] = channel->message_count;
                channel->sent[channel->message_count++] = bare->steps[s][i].micro_batch;
            }
        }
    }
    for (uint32_t i = 0; i < bare->virtual_count * DIRECTION_COUNT; i++) {
        struct channel *channel = &bare->channels[i];
        if (!channel->crosses || channel->message_count == 0) {
            continue;
        }
        uint32_t boundary = i / DIRECTION_COUNT, back = i % DIRECTION_COUNT;
        uint32_t pair[2] = { holder[boundary + back], holder[boundary + 1 - back] };
        char label[48];
        snprintf(label, sizeof label, "stage %u>%u", pair[0], pair[1]);
        uint32_t group = builder_group(bare->builder, pair, 2, 1, label);
        for (uint32_t k = 0; k < channel->message_count; k++) {
            channel->match[k] = builder_match(bare->builder, group, 2);
        }
    }
    return STATUS_OK;
}

static enum status allocate_rank(struct bare *bare, struct error *error)
{
    size_t m = bare->shape->micro_batches, v = bare->shape->virtual_stages, ends = v * DIRECTION_COUNT;
    bare->forward_op = arena_array(&bare->arena, uint32_t, v * m);
    bare->backward_op = arena_array(&bare->arena, uint32_t, v * m);
    bare->activation = arena_array(&bare->arena, uint32_t, v * m);
    bare->send_queues = arena_array(&bare->arena, uint32_t, ends * bare->lanes);
    bare->receive_queues = arena_array(&bare->arena, uint32_t, ends * bare->lanes);
    bare->received = arena_array(&bare->arena, uint32_t, ends);
    bare->receive_ops = arena_array(&bare->arena, uint32_t, ends * m);
    if (bare->forward_op == NULL || bare->backward_op == NULL || bare->activation == NULL ||
        bare->send_queues == NULL || bare->receive_queues == NULL || bare->received == NULL ||
        bare->receive_ops == NULL) {
        return no_memory(error);
    }
    return STATUS_OK;
}

/* Opens the queues that the steps of this stage need; those of channels that it does not use stay SCHED_NONE. */
static void open_queues(struct bare *bare, uint32_t stage)
{
    static const char *const directions[DIRECTION_COUNT] = { "forward", "backward" };
    struct builder *b = bare->builder;
    size_t m = bare->shape->micro_batches, v = bare->shape->virtual_stages, ends = v * DIRECTION_COUNT;
    for (size_t i = 0; i < ends * bare->lanes; i++) {
        bare->send_queues[i] = bare->receive_queues[i] = SCHED_NONE;
    }
    for (size_t i = 0; i < ends; i++) {
        bare->received[i] = 0;
    }
    for (size_t i = 0; i < v * m; i++) {
        bare->forward_op[i] = bare->backward_op[i] = bare->activation[i] = SCHED_NONE;
    }
    for (uint32_t i = 0; i < bare->step_counts[stage]; i++) {
        const struct order_step *step = &bare->steps[stage][i];
        if (step->kind == STEP_BACKWARD_WEIGHT) {
            continue;
        }
        uint32_t virtual_stage = order_virtual_stage(bare->order, bare->shape, stage, step->chunk);
        size_t end = ((size_t)step->chunk * DIRECTION_COUNT + step->kind) * bare->lanes;
        struct channel *out = channel_out(bare, stage, step), *in = channel_in(bare, stage, step);
        char label[64];
        for (uint32_t lane = 0; lane < bare->lanes; lane++) {
            if (out != NULL && out->crosses && bare->send_queues[end + lane] == SCHED_NONE) {
                snprintf(label, sizeof label, "send %s %u.%u", directions[step->kind], virtual_stage, lane);
                bare->send_queues[end + lane] = builder_queue(b, QUEUE_P2P, label);
            }
            if (in != NULL && in->crosses && bare->receive_queues[end + lane] == SCHED_NONE) {
                snprintf(label, sizeof label, "receive %s %u.%u", directions[step->kind], virtual_stage, lane);
                bare->receive_queues[end + lane] = builder_queue(b, QUEUE_P2P, label);
            }
        }
    }
}

/* The op that brings the input of `step`: a receive, posted after those of earlier messages of its channel, or SCHED_NONE when the input is on this stage. */
static enum status receive_input(struct bare *bare, uint32_t stage, const struct order_step *step, uint32_t *op,
                                 struct error *error)
{
    *op = SCHED_NONE;
    struct channel *channel = channel_in(bare, stage, step);
    if (channel == NULL) {
        return STATUS_OK;
    }
    if (!channel->crosses) {
        /* The neighbour is a chunk of this very device: its pass must come earlier in the order, or the order waits for itself. */
        const uint32_t *done = step->kind == STEP_FORWARD ? bare->forward_op : bare->backward_op;
        uint32_t virtual_stage = order_virtual_stage(bare->order, bare->shape, stage, step->chunk), holder, chunk;
        order_holder(bare->order, bare->shape, step->kind == STEP_FORWARD ? virtual_stage - 1 : virtual_stage + 1,
                     &holder, &chunk);
        if (done[(size_t)chunk * bare->shape->micro_batches + step->micro_batch] == SCHED_NONE) {
            return error_set(error, STATUS_BAD_SCHEDULE,
                             "order %s, stage %u: chunk %u of micro-batch %u comes before what it needs from chunk %u",
                             bare->order->name, stage, step->chunk, step->micro_batch, chunk);
        }
        return STATUS_OK;
    }
    size_t end = (size_t)step->chunk * DIRECTION_COUNT + step->kind;
    uint32_t *ops = &bare->receive_ops[end * bare->shape->micro_batches];
    uint32_t message = channel->sequence[step->micro_batch];
    CHECK(message != SCHED_NONE);
    for (; bare->received[end] <= message; bare->received[end]++) {
        uint32_t k = bare->received[end], queue = bare->receive_queues[end * bare->lanes + k % bare->lanes];
        ops[k] = builder_op(bare->builder, OP_RECV, queue, bare->works.hop, PHASE_PIPELINE_COMM);
        builder_set_match(bare->builder, channel->match[k]);
        builder_tag(bare->builder, (uint16_t)channel->sent[k], step->chunk, OP_TAG_NONE);
    }
    *op = ops[message];
    return STATUS_OK;
}

static void send_output(struct bare *bare, uint32_t stage, const struct order_step *step, uint32_t op)
{
    struct channel *channel = channel_out(bare, stage, step);
    if (channel == NULL || !channel->crosses) {
        return;
    }
    uint32_t message = channel->sequence[step->micro_batch];
    size_t end = (size_t)step->chunk * DIRECTION_COUNT + step->kind;
    uint32_t queue = bare->send_queues[end * bare->lanes + message % bare->lanes];
    builder_op(bare->builder, OP_SEND, queue, bare->works.hop, PHASE_PIPELINE_COMM);
    builder_depends(bare->builder, op);
    builder_set_match(bare->builder, channel->match[message]);
    builder_tag(bare->builder, (uint16_t)step->micro_batch, step->chunk, OP_TAG_NONE);
}

static enum status build_rank(struct bare *bare, uint32_t stage, struct error *error)
{
    static const enum op_phase phases[STEP_KIND_COUNT] = { PHASE_FORWARD, PHASE_BACKWARD, PHASE_WEIGHT };
    struct builder *b = bare->builder;
    enum step_kind last_kind = bare->order->splits_backward ? STEP_BACKWARD_WEIGHT : STEP_BACKWARD;
    char label[32];
    snprintf(label, sizeof label, "stage %u", stage);
    uint32_t space = builder_space(b, SPACE_DEVICE, stage, UINT64_MAX, SCHED_NONE, label);
    builder_rank(b, &stage, 1, stage, label);
    uint32_t compute = builder_queue(b, QUEUE_COMPUTE, "compute");
    open_queues(bare, stage);
    uint32_t activation_label = builder_label(b, "activation");
    for (uint32_t i = 0; i < bare->step_counts[stage]; i++) {
        const struct order_step *step = &bare->steps[stage][i];
        size_t cell = (size_t)step->chunk * bare->shape->micro_batches + step->micro_batch;
        uint32_t input;
        TRY(receive_input(bare, stage, step, &input, error));
        uint32_t op = builder_op(b, OP_DELAY, compute, bare->works.pass[step->kind], phases[step->kind]);
        builder_depends(b, input);
        builder_tag(b, (uint16_t)step->micro_batch, step->chunk, OP_TAG_NONE);
        if (step->kind == STEP_FORWARD) {
            bare->forward_op[cell] = op;
            bare->activation[cell] = builder_buffer(b, space, 1, 1, BUFFER_ACTIVATION, 0, activation_label);
            builder_acquire(b, bare->activation[cell]);
        } else if (step->kind == STEP_BACKWARD) {
            bare->backward_op[cell] = op;
        }
        if (step->kind == last_kind) {
            builder_release(b, bare->activation[cell]);
        }
        send_output(bare, stage, step, op);
    }
    return STATUS_OK;
}

enum status bare_pipeline_schedule(const struct bare_pipeline_request *request, struct schedule *schedule,
                                   struct error *error)
{
    struct bare bare = { .request = request, .order = request->order, .shape = &request->order_request };
    enum status status = STATUS_OK;
    TRY(check_request(request, error));
    bare.virtual_count = bare.shape->stages * bare.shape->virtual_stages;
    set_times(&bare);
    bare.builder = builder_new();
    if (bare.builder == NULL) {
        return no_memory(error);
    }
    for (int kind = 0; kind < STEP_KIND_COUNT; kind++) {
        bare.works.pass[kind] = builder_work_fixed(bare.builder, bare.pass_ps[kind]);
    }
    bare.works.hop = builder_work_fixed(bare.builder, bare.hop_ps);
    TRY_OR_FAIL(build_orders(&bare, error));
    TRY_OR_FAIL(build_channels(&bare, error));
    TRY_OR_FAIL(allocate_rank(&bare, error));
    for (uint32_t s = 0; s < bare.shape->stages; s++) {
        TRY_OR_FAIL(build_rank(&bare, s, error));
    }
    status = builder_finish(bare.builder, schedule, error);
    bare.builder = NULL;
fail:
    builder_free(bare.builder);
    arena_free(&bare.arena);
    return status;
}

/* The order as the schedule has it: the passes of the rank, in issue order. */
static enum status measure_stage(const struct bare_pipeline_request *request, const struct schedule *schedule,
                                 const struct timeline *timeline, uint32_t stage, struct bare_pipeline_result *result,
                                 struct error *error)
{
    const struct sched_rank *rank = &schedule->ranks[stage];
    struct bare_stage *out = &result->stages[stage];
    struct strbuf text = { 0 };
    int64_t first_ps = INT64_MAX, last_ps = 0, work_ps = 0;
    for (uint32_t i = rank->first_op; i < rank->first_op + rank->op_count; i++) {
        const struct sched_op *op = &schedule->ops[i];
        if (op->opcode != OP_DELAY) {
            continue;
        }
        const struct op_times *times = &timeline->ops[i];
        first_ps = times->start_ps < first_ps ? times->start_ps : first_ps;
        last_ps = times->end_ps > last_ps ? times->end_ps : last_ps;
        work_ps += schedule->works[op->work].fixed_ps;
        struct order_step step = { .kind = op->phase == PHASE_FORWARD    ? STEP_FORWARD
                                           : op->phase == PHASE_BACKWARD ? STEP_BACKWARD
                                                                         : STEP_BACKWARD_WEIGHT,
                                   .chunk = op->chunk,
                                   .micro_batch = op->micro_batch };
        char word[48];
        strbuf_append(&text, text.length == 0 ? "" : " ");
        strbuf_append(&text, order_step_text(request->order, &request->order_request, stage, &step, word, sizeof word));
    }
    uint64_t peak_bytes = 0;
    for (uint32_t i = 0; i < schedule->space_count; i++) {
        if (schedule->spaces[i].kind == SPACE_DEVICE && schedule->spaces[i].location == stage) {
            peak_bytes = timeline->spaces[i].peak_bytes;
        }
    }
    out->peak_activations = (double)peak_bytes / chunks_passed(request);
    out->weight_versions = order_weight_versions(request->order, &request->order_request, stage);
    out->work = (double)work_ps / (double)BARE_UNIT_PS;
    out->first_start = (double)first_ps / (double)BARE_UNIT_PS;
    out->last_end = (double)last_ps / (double)BARE_UNIT_PS;
    out->order = text.failed ? NULL : arena_text_n(&result->arena, text.text == NULL ? "" : text.text, text.length);
    double bubble = (double)(last_ps - first_ps - work_ps) / (double)BARE_UNIT_PS;
    result->span_bubble = bubble > result->span_bubble ? bubble : result->span_bubble;
    strbuf_free(&text);
    return out->order == NULL ? no_memory(error) : STATUS_OK;
}

enum status bare_pipeline_measure(const struct bare_pipeline_request *request, const struct schedule *schedule,
                                  const struct timeline *timeline, struct bare_pipeline_result *result,
                                  struct error *error)
{
    CHECK(timeline->op_count == schedule->op_count && schedule->rank_count == request->order_request.stages);
    if (timeline->outcome != TIMELINE_DONE) {
        return error_set(error, STATUS_DEADLOCK, "the pipeline order %s did not run to its end", request->order->name);
    }
    *result = (struct bare_pipeline_result){ .stage_count = schedule->rank_count };
    result->stages = arena_array(&result->arena, struct bare_stage, result->stage_count);
    enum status status = result->stages == NULL ? no_memory(error) : STATUS_OK;
    for (uint32_t s = 0; s < result->stage_count && status == STATUS_OK; s++) {
        status = measure_stage(request, schedule, timeline, s, result, error);
        result->makespan = fmax(result->makespan, result->stages[s].last_end);
    }
    if (status != STATUS_OK) {
        bare_pipeline_result_free(result);
    }
    return status;
}

void bare_pipeline_result_free(struct bare_pipeline_result *result)
{
    arena_free(&result->arena);
    *result = (struct bare_pipeline_result){ 0 };
}

void bare_pipeline_print_json(const struct bare_pipeline_result *result, struct strbuf *out)
{
    struct json_writer w = { .out = out };
    jw_object(&w, NULL);
    jw_real(&w, "makespan", result->makespan);
    jw_real(&w, "span_bubble", result->span_bubble);
    jw_array(&w, "stages");
    for (uint32_t s = 0; s < result->stage_count; s++) {
        jw_object(&w, NULL);
        jw_real(&w, "peak_activations", result->stages[s].peak_activations);
        jw_uint(&w, "weight_versions", result->stages[s].weight_versions);
        jw_string(&w, "order", result->stages[s].order);
        jw_end(&w);
    }
    jw_end(&w);
    jw_end(&w);
}
