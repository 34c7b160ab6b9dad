/* Building bare pipelines: times and ranks. What goes between ranks is bare_pipeline_links.c, measuring bare_pipeline_measure.c. */
#include <math.h>
#include <stdio.h>

#include "sim/base/check.h"
#include "sim/plan/bare_pipeline_internal.h"

enum { STEPS_MAX = 20 * 1000 * 1000 };

static enum status no_memory(struct error *error)
{
    return error_set(error, STATUS_NO_MEMORY, "out of memory building a bare pipeline");
}

/* Chunks that one micro-batch passes on one device. */
static uint32_t chunks_passed(const struct bare_pipeline_request *request)
{
    return request->order_request.virtual_stages / order_copies(request->order);
}

static enum status check_time(const char *what, double value, bool zero_allowed, struct error *error)
{
    bool zero = zero_allowed && fpclassify(value) == FP_ZERO;
    if (!zero && !(value >= BARE_TIME_MIN && value <= BARE_TIME_MAX)) {
        return error_set(error, STATUS_BAD_INPUT,
                         "%s is %g: allowed is %s%g to %g units; only ratios matter, so scale all times alike", what,
                         value, zero_allowed ? "0, or " : "", BARE_TIME_MIN, BARE_TIME_MAX);
    }
    return STATUS_OK;
}

/* The same of a stage's own time, where stages have their own. */
static enum status check_stage_time(const char *what, const double *stages, uint32_t stage, double value,
                                    bool zero_allowed, struct error *error)
{
    char text[48];
    (void)snprintf(text, sizeof text, "%s of stage %u", what, stage);
    return check_time(stages != NULL ? text : what, value, zero_allowed, error);
}

static double time_of(const double *stages, uint32_t stage, double otherwise)
{
    return stages != NULL ? stages[stage] : otherwise;
}

static bool gives_weight(const struct bare_pipeline_request *request)
{
    return request->has_weight_gradient || request->stage_weight != NULL;
}

/* The three times of a whole share on `stage`, as given: [weight] 0 when none is. */
static void given_times(const struct bare_pipeline_request *request, uint32_t stage, double times[STEP_KIND_COUNT])
{
    times[STEP_FORWARD] = time_of(request->stage_forward, stage, request->forward);
    times[STEP_BACKWARD] = time_of(request->stage_backward, stage, request->backward);
    times[STEP_BACKWARD_WEIGHT] =
        gives_weight(request) ? time_of(request->stage_weight, stage, request->weight_gradient) : 0;
    for (int kind = 0; request->cut_replicas != NULL && kind < STEP_KIND_COUNT; kind++) {
        times[kind] /= request->cut_replicas[stage];
    }
}

bool bare_recomputes(const struct bare_pipeline_request *request, uint32_t stage)
{
    return request->recompute != BARE_KEEP && !((request->last_stage_keeps || request->order->last_stage_keeps) &&
                                                stage == request->order_request.stages - 1);
}

static enum status check_request(const struct bare_pipeline_request *request, struct error *error)
{
    const struct order_request *shape = &request->order_request;
    TRY(order_check(request->order, shape, error));
    TRY(check_time("hop", request->hop, true, error));
    double longest = 0;
    for (uint32_t s = 0; s < shape->stages; s++) {
        double times[STEP_KIND_COUNT];
        given_times(request, s, times);
        TRY(check_stage_time("forward", request->stage_forward, s, times[STEP_FORWARD], false, error));
        TRY(check_stage_time("backward", request->stage_backward, s, times[STEP_BACKWARD], false, error));
        if (gives_weight(request)) {
            TRY(check_stage_time("weight-grad", request->stage_weight, s, times[STEP_BACKWARD_WEIGHT], true, error));
        }
        longest = fmax(longest, 2 * times[STEP_FORWARD] + times[STEP_BACKWARD] + times[STEP_BACKWARD_WEIGHT]);
    }
    uint64_t steps = (uint64_t)order_step_count(request->order, shape) * shape->stages;
    for (uint32_t s = 0, rows = 0; s < shape->stages; s++) {
        rows += order_replicas(shape, s); /* each at most the micro-batches, and few stages overflow */
        if (rows > ORDER_STAGES_MAX) {
            return error_set(error, STATUS_LIMIT, "more than %d replicas of all stages together", ORDER_STAGES_MAX);
        }
    }
    if (steps > STEPS_MAX) {
        return error_set(error, STATUS_LIMIT, "%llu passes on all stages: a bare pipeline may have %d",
                         (unsigned long long)steps, STEPS_MAX);
    }
    /* Even when nothing overlaps, the clock must not run over. */
    double total = (longest + 2 * request->hop) * (double)steps;
    if (total * (double)BARE_UNIT_PS > 0x1p62) {
        return error_set(error, STATUS_LIMIT, "%g units of work and hops: a bare pipeline may have %g", total,
                         0x1p62 / (double)BARE_UNIT_PS);
    }
    return STATUS_OK;
}

void bare_pass_times(const struct bare_pipeline_request *request, uint32_t stage, int64_t ps[STEP_KIND_COUNT])
{
    double chunk_ps = (double)BARE_UNIT_PS / chunks_passed(request), times[STEP_KIND_COUNT];
    given_times(request, stage, times);
    if (!request->order->splits_backward) {
        times[STEP_BACKWARD] += times[STEP_BACKWARD_WEIGHT];
    } else if (!gives_weight(request)) {
        times[STEP_BACKWARD] = times[STEP_BACKWARD_WEIGHT] = times[STEP_BACKWARD] / 2;
    }
    for (int kind = 0; kind < STEP_KIND_COUNT; kind++) {
        ps[kind] = llround(times[kind] * chunk_ps);
    }
}

int64_t bare_hop_ps(const struct bare_pipeline_request *request)
{
    return llround(request->hop * (double)BARE_UNIT_PS);
}

static void set_stage_times(struct bare *bare, uint32_t stage)
{
    bare_pass_times(bare->request, stage, bare->passes[stage].ps);
    for (int kind = 0; kind < STEP_KIND_COUNT; kind++) {
        bare->passes[stage].works[kind] = builder_work_fixed(bare->builder, bare->passes[stage].ps[kind]);
    }
}

static enum status set_times(struct bare *bare, struct error *error)
{
    bare->passes = arena_array(&bare->arena, struct pass_times, bare->shape->stages);
    if (bare->passes == NULL) {
        return no_memory(error);
    }
    bare->hop_ps = bare_hop_ps(bare->request);
    bare->hop_work = builder_work_fixed(bare->builder, bare->hop_ps);
    /* Messages of a link are at least one pass of its sender apart, so this many hops can be under way at once. */
    bare->apart_ps = INT64_MAX;
    for (uint32_t s = 0; s < bare->shape->stages; s++) {
        set_stage_times(bare, s);
        for (int kind = STEP_FORWARD; kind <= STEP_BACKWARD; kind++) {
            int64_t pass_ps = bare->passes[s].ps[kind] > 0 ? bare->passes[s].ps[kind] : 1;
            bare->apart_ps = pass_ps < bare->apart_ps ? pass_ps : bare->apart_ps;
        }
    }
    int64_t lanes = (bare->hop_ps + bare->apart_ps - 1) / bare->apart_ps;
    bare->lanes = lanes < 1 ? 1 : lanes < SCHED_RANK_QUEUES_MAX ? (uint32_t)lanes : SCHED_RANK_QUEUES_MAX;
    return STATUS_OK;
}

static enum status list_rows(struct bare *bare, struct error *error)
{
    bare->first_rows = arena_array(&bare->arena, uint32_t, bare->shape->stages);
    for (uint32_t s = 0; bare->first_rows != NULL && s < bare->shape->stages; s++) {
        bare->first_rows[s] = bare->row_count;
        bare->row_count += order_replicas(bare->shape, s);
    }
    bare->rows = arena_array(&bare->arena, struct row, bare->row_count);
    if (bare->first_rows == NULL || bare->rows == NULL) {
        return no_memory(error);
    }
    for (uint32_t s = 0, row = 0; s < bare->shape->stages; s++) {
        for (uint32_t replica = 0; replica < order_replicas(bare->shape, s); replica++) {
            bare->rows[row++] = (struct row){ s, replica };
        }
    }
    return STATUS_OK;
}

static enum status build_orders(struct bare *bare, struct error *error)
{
    bare->steps = arena_array(&bare->arena, struct order_step *, bare->row_count);
    bare->step_counts = arena_array(&bare->arena, uint32_t, bare->row_count);
    if (bare->steps == NULL || bare->step_counts == NULL) {
        return no_memory(error);
    }
    for (uint32_t row = 0; row < bare->row_count; row++) {
        struct order_request shape = *bare->shape;
        shape.replica = bare->rows[row].replica;
        uint32_t room = order_step_count(bare->order, &shape) / order_replicas(&shape, bare->rows[row].stage);
        bare->steps[row] = arena_array(&bare->arena, struct order_step, room);
        if (bare->steps[row] == NULL) {
            return no_memory(error);
        }
        TRY(order_steps(bare->order, &shape, bare->rows[row].stage, bare->steps[row], &bare->step_counts[row], error));
    }
    return STATUS_OK;
}

static enum status allocate_rank(struct bare *bare, struct error *error)
{
    size_t cells = (size_t)bare->shape->micro_batches * bare->shape->virtual_stages;
    bare->forward_op = arena_array(&bare->arena, uint32_t, cells);
    bare->backward_op = arena_array(&bare->arena, uint32_t, cells);
    bare->activation = arena_array(&bare->arena, uint32_t, cells);
    bare->send_queues = arena_array(&bare->arena, uint32_t, (size_t)bare->link_count * bare->lanes);
    bare->receive_queues = arena_array(&bare->arena, uint32_t, (size_t)bare->link_count * bare->lanes);
    if (bare->forward_op == NULL || bare->backward_op == NULL || bare->activation == NULL ||
        bare->send_queues == NULL || bare->receive_queues == NULL) {
        return no_memory(error);
    }
    return STATUS_OK;
}

static void open_rank(struct bare *bare, uint32_t row)
{
    size_t cells = (size_t)bare->shape->micro_batches * bare->shape->virtual_stages;
    for (size_t i = 0; i < cells; i++) {
        bare->forward_op[i] = bare->backward_op[i] = bare->activation[i] = SCHED_NONE;
    }
    for (uint32_t i = 0; i < bare->link_count; i++) {
        const struct link *link = &bare->links[i];
        char label[64];
        for (uint32_t lane = 0; (link->from == row || link->to == row) && lane < bare_link_lanes(bare, link); lane++) {
            snprintf(label, sizeof label, "%s %u.%u", link->from == row ? "send to" : "receive from",
                     link->from == row ? link->to : link->from, lane);
            uint32_t *queues = link->from == row ? bare->send_queues : bare->receive_queues;
            queues[(size_t)i * bare->lanes + lane] = builder_queue(bare->builder, QUEUE_P2P, label);
        }
    }
}

/* The op that brings the input of `step`: a receive, posted after those of earlier messages of its channel, or SCHED_NONE when the input is on this stage. */
static enum status receive_input(struct bare *bare, uint32_t stage, const struct order_step *step, uint32_t *op,
                                 struct error *error)
{
    *op = SCHED_NONE;
    struct channel *channel = bare_channel_in(bare, stage, step);
    if (channel == NULL) {
        return STATUS_OK;
    }
    uint32_t at = channel->link[step->micro_batch];
    if (at == SCHED_NONE) {
        /* The neighbour is a chunk of this very device: its pass must come earlier in the order, or the order waits for itself. */
        const uint32_t *done = step->kind == STEP_FORWARD ? bare->forward_op : bare->backward_op;
        uint32_t virtual_stage = order_virtual_stage(bare->order, bare->shape, stage, step->chunk);
        uint32_t chunk = bare->held_as[step->kind == STEP_FORWARD ? virtual_stage - 1 : virtual_stage + 1];
        if (done[(size_t)chunk * bare->shape->micro_batches + step->micro_batch] == SCHED_NONE) {
            return error_set(error, STATUS_BAD_SCHEDULE,
                             "order %s, stage %u: chunk %u of micro-batch %u comes before what it needs from chunk %u",
                             bare->order->name, stage, step->chunk, step->micro_batch, chunk);
        }
        return STATUS_OK;
    }
    struct link *link = &bare->links[at];
    struct message *messages = &bare->messages[link->first_message];
    uint32_t wanted = channel->message[step->micro_batch];
    CHECK(wanted != SCHED_NONE);
    for (; link->received <= wanted; link->received++) {
        struct message *message = &messages[link->received];
        uint32_t queue = bare->receive_queues[(size_t)at * bare->lanes + link->received % bare->lanes];
        message->receive_op = builder_op(bare->builder, OP_RECV, queue, bare->hop_work, PHASE_PIPELINE_COMM);
        builder_set_match(bare->builder, message->match);
        builder_tag(bare->builder, message->micro_batch, message->chunk, OP_TAG_NONE);
    }
    *op = messages[wanted].receive_op;
    return STATUS_OK;
}

static void send_output(struct bare *bare, uint32_t stage, const struct order_step *step, uint32_t op)
{
    struct channel *channel = bare_channel_out(bare, stage, step);
    uint32_t at = channel == NULL ? SCHED_NONE : channel->link[step->micro_batch];
    if (at == SCHED_NONE) {
        return;
    }
    const struct link *link = &bare->links[at];
    uint32_t number = channel->message[step->micro_batch];
    uint32_t queue = bare->send_queues[(size_t)at * bare->lanes + number % bare->lanes];
    builder_op(bare->builder, OP_SEND, queue, bare->hop_work, PHASE_PIPELINE_COMM);
    builder_depends(bare->builder, op);
    builder_set_match(bare->builder, bare->messages[link->first_message + number].match);
    builder_tag(bare->builder, (uint16_t)step->micro_batch, step->chunk, OP_TAG_NONE);
}

static enum status build_rank(struct bare *bare, uint32_t row, struct error *error)
{
    static const enum op_phase phases[STEP_KIND_COUNT] = { PHASE_FORWARD, PHASE_BACKWARD, PHASE_WEIGHT };
    struct builder *b = bare->builder;
    enum step_kind last_kind = bare->order->splits_backward ? STEP_BACKWARD_WEIGHT : STEP_BACKWARD;
    char label[48];
    uint32_t stage = bare->rows[row].stage;
    int length = snprintf(label, sizeof label, "stage %u", stage);
    if (order_replicas(bare->shape, stage) > 1) {
        snprintf(label + length, sizeof label - (size_t)length, " replica %u", bare->rows[row].replica);
    }
    uint32_t space = builder_space(b, SPACE_DEVICE, row, UINT64_MAX, SCHED_NONE, label);
    builder_rank(b, &row, 1, stage, label);
    uint32_t compute = builder_queue(b, QUEUE_COMPUTE, "compute");
    open_rank(bare, row);
    uint32_t activation_label = builder_label(b, "activation");
    for (uint32_t i = 0; i < bare->step_counts[row]; i++) {
        const struct order_step *step = &bare->steps[row][i];
        size_t cell = (size_t)step->chunk * bare->shape->micro_batches + step->micro_batch;
        uint32_t input;
        TRY(receive_input(bare, stage, step, &input, error));
        if (step->kind == STEP_BACKWARD && bare_recomputes(bare->request, stage)) {
            builder_op(b, OP_DELAY, compute, bare->passes[stage].works[STEP_FORWARD], PHASE_RECOMPUTE);
            builder_depends(b, bare->request->recompute == BARE_RECOMPUTE_LAZY ? input : SCHED_NONE);
            builder_tag(b, (uint16_t)step->micro_batch, step->chunk, OP_TAG_NONE);
        }
        uint32_t op = builder_op(b, OP_DELAY, compute, bare->passes[stage].works[step->kind], phases[step->kind]);
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
    bare.builder = builder_new();
    if (bare.builder == NULL) {
        return no_memory(error);
    }
    TRY_OR_FAIL(set_times(&bare, error));
    TRY_OR_FAIL(list_rows(&bare, error));
    TRY_OR_FAIL(build_orders(&bare, error));
    TRY_OR_FAIL(bare_build_links(&bare, error));
    TRY_OR_FAIL(bare_build_messages(&bare, error));
    TRY_OR_FAIL(bare_check_lanes(&bare, error));
    TRY_OR_FAIL(allocate_rank(&bare, error));
    for (uint32_t row = 0; row < bare.row_count; row++) {
        TRY_OR_FAIL(build_rank(&bare, row, error));
    }
    status = builder_finish(bare.builder, schedule, error);
    bare.builder = NULL;
fail:
    builder_free(bare.builder);
    arena_free(&bare.arena);
    return status;
}
