/* What all pipeline orders share: counts, placement, checks. */
#include "sim/plan/order.h"

#include <stdio.h>
#include <stdlib.h>

#include "sim/base/check.h"

static uint32_t kinds(const struct pipeline_order *order)
{
    return order->splits_backward ? 3 : 2;
}

uint32_t order_copies(const struct pipeline_order *order)
{
    return order->model_replicas == 0 ? 1 : order->model_replicas;
}

uint32_t order_replicas(const struct order_request *request, uint32_t stage)
{
    CHECK(stage < request->stages);
    return request->replicas != NULL ? request->replicas[stage] : 1;
}

uint32_t order_share(const struct order_request *request, uint32_t stage)
{
    return request->micro_batches / order_replicas(request, stage);
}

uint32_t order_warm_up(const struct order_request *request, uint32_t stage)
{
    uint64_t later = 0, own = order_replicas(request, stage);
    for (uint32_t s = stage + 1; s < request->stages; s++) {
        later += order_replicas(request, s);
    }
    return (uint32_t)((later + own - 1) / own);
}

uint32_t order_step_count(const struct pipeline_order *order, const struct order_request *request)
{
    uint64_t count = (uint64_t)request->micro_batches * request->virtual_stages * kinds(order);
    return (uint32_t)((count + order_copies(order) - 1) / order_copies(order));
}

uint32_t order_virtual_stage(const struct pipeline_order *order, const struct order_request *request, uint32_t stage,
                             uint32_t chunk)
{
    CHECK(stage < request->stages && chunk < request->virtual_stages);
    return order->placement != NULL ? order->placement(request, stage, chunk) : chunk * request->stages + stage;
}

void order_holder(const struct pipeline_order *order, const struct order_request *request, uint32_t virtual_stage,
                  uint32_t *stage, uint32_t *chunk)
{
    CHECK(virtual_stage < request->stages * request->virtual_stages);
    if (order->placement == NULL) {
        *stage = virtual_stage % request->stages;
        *chunk = virtual_stage / request->stages;
        return;
    }
    for (uint32_t s = 0; s < request->stages; s++) {
        for (uint32_t c = 0; c < request->virtual_stages; c++) {
            if (order->placement(request, s, c) == virtual_stage) {
                *stage = s;
                *chunk = c;
                return;
            }
        }
    }
    check_failed("a placement that covers every virtual stage", __FILE__, __LINE__);
}

uint32_t order_model_stages(const struct pipeline_order *order, const struct order_request *request)
{
    return request->stages * request->virtual_stages / order_copies(order);
}

uint32_t order_model_stage(const struct pipeline_order *order, const struct order_request *request,
                           uint32_t virtual_stage)
{
    return virtual_stage % order_model_stages(order, request);
}

bool order_ends_apart(const struct pipeline_order *order, const struct order_request *request)
{
    uint32_t length = order_model_stages(order, request), first, last, chunk;
    order_holder(order, request, 0, &first, &chunk);
    for (uint32_t copy = 1; copy <= order_copies(order); copy++) {
        order_holder(order, request, copy * length - 1, &last, &chunk);
        if (last == first) {
            return false;
        }
    }
    return true;
}

void order_route(const struct pipeline_order *order, const struct order_request *request, uint32_t micro_batch,
                 uint32_t *first, uint32_t *last)
{
    uint32_t length = order_model_stages(order, request);
    uint32_t replica = order->replica != NULL ? order->replica(request, micro_batch) : 0;
    *first = replica * length;
    *last = *first + length - 1;
}

enum status order_in_flight(const struct pipeline_order *order, const struct order_request *request, uint32_t stage,
                            uint32_t *most, struct error *error)
{
    const enum step_kind back = order->splits_backward ? STEP_BACKWARD_WEIGHT : STEP_BACKWARD;
    struct order_step *steps = calloc(order_step_count(order, request), sizeof *steps);
    if (steps == NULL) {
        return error_set(error, STATUS_NO_MEMORY, "out of memory for the steps of a stage");
    }
    uint32_t count = order->build(request, stage, steps), now = 0;
    *most = 0;
    for (uint32_t i = 0; i < count; i++) {
        now += steps[i].kind == STEP_FORWARD;
        *most = now > *most ? now : *most;
        now -= steps[i].kind == back;
    }
    free(steps);
    return STATUS_OK;
}

uint32_t order_weight_versions(const struct pipeline_order *order, const struct order_request *request, uint32_t stage)
{
    return order->weight_versions != NULL ? order->weight_versions(request, stage) : 1;
}

const char *order_step_text(const struct pipeline_order *order, const struct order_request *request, uint32_t stage,
                            const struct order_step *step, char *buffer, size_t size)
{
    static const char letters[STEP_KIND_COUNT] = { 'F', 'B', 'W' };
    CHECK(step->kind < STEP_KIND_COUNT);
    if (request->virtual_stages == 1) {
        snprintf(buffer, size, "%c%u", letters[step->kind], step->micro_batch);
    } else {
        snprintf(buffer, size, "%c%u.%u", letters[step->kind], step->micro_batch,
                 order_virtual_stage(order, request, stage, step->chunk));
    }
    return buffer;
}

static enum status check_range(const char *what, uint32_t value, uint32_t max, struct error *error)
{
    if (value < 1 || value > max) {
        return error_set(error, STATUS_BAD_INPUT, "%s is %u: allowed is 1 to %u", what, value, max);
    }
    return STATUS_OK;
}

static enum status check_replicas(const struct pipeline_order *order, const struct order_request *request,
                                  struct error *error)
{
    if (request->replicas == NULL) {
        return STATUS_OK;
    }
    if (!order->deals) {
        return error_set(error, STATUS_BAD_INPUT,
                         "pipeline order %s does not deal micro-batches to replicas of a stage: gpipe, 1f1b, pipedream "
                         "and pipedream-2bw do",
                         order->name);
    }
    for (uint32_t s = 0; s < request->stages; s++) {
        uint32_t replicas = request->replicas[s], m = request->micro_batches;
        CHECK(replicas > 0);
        if (m % replicas != 0) {
            uint32_t below = m - m % replicas, above = below + replicas;
            return error_set(error, STATUS_BAD_INPUT,
                             "%u micro-batches cannot be dealt to the %u replicas of stage %u: each must get as many "
                             "as the others; the nearest number is %u",
                             m, replicas, s, below > 0 && m - below <= above - m ? below : above);
        }
    }
    return STATUS_OK;
}

enum status order_check(const struct pipeline_order *order, const struct order_request *request, struct error *error)
{
    CHECK(order->abi == PIPELINE_ORDER_ABI && order->build != NULL);
    TRY(check_range("the number of pipeline stages", request->stages, ORDER_STAGES_MAX, error));
    TRY(check_range("the number of micro-batches", request->micro_batches, ORDER_MICRO_BATCHES_MAX, error));
    TRY(check_range("the number of virtual stages", request->virtual_stages, ORDER_VIRTUAL_STAGES_MAX, error));
    if (order->virtual_stages != 0 && request->virtual_stages != order->virtual_stages) {
        return error_set(error, STATUS_BAD_INPUT, "virtual_stages is %u: pipeline order %s needs %u",
                         request->virtual_stages, order->name, order->virtual_stages);
    }
    TRY(check_replicas(order, request, error));
    return order->check != NULL ? order->check(request, error) : STATUS_OK;
}

enum status order_verify(const struct pipeline_order *order, const struct order_request *request, uint32_t stage,
                         const struct order_step *steps, uint32_t count, struct error *error)
{
    char text[48];
    uint32_t replicas = order_replicas(request, stage);
    size_t cells = (size_t)order_share(request, stage) * request->virtual_stages;
    uint8_t *done = calloc(cells, 1); /* kinds seen of each (micro-batch, chunk), of those that are dealt to it */
    if (done == NULL) {
        return error_set(error, STATUS_NO_MEMORY, "out of memory verifying a pipeline order");
    }
    enum status status = STATUS_OK;
    for (uint32_t i = 0; i < count && status == STATUS_OK; i++) {
        const struct order_step *step = &steps[i];
        if (step->kind >= kinds(order) || step->micro_batch >= request->micro_batches ||
            step->micro_batch % replicas != request->replica || step->chunk >= request->virtual_stages) {
            status = error_set(error, STATUS_BAD_SCHEDULE,
                               "order %s, stage %u, step %u: kind %u, micro-batch %u, chunk %u is out of range: "
                               "there are kinds 0 to %u, micro-batches 0 to %u, chunks 0 to %u",
                               order->name, stage, i, step->kind, step->micro_batch, step->chunk, kinds(order) - 1u,
                               request->micro_batches - 1, request->virtual_stages - 1);
            break;
        }
        uint8_t *cell = &done[(size_t)(step->micro_batch / replicas) * request->virtual_stages + step->chunk];
        if (*cell != step->kind) {
            status = error_set(error, STATUS_BAD_SCHEDULE, "order %s, stage %u, step %u: %s %s", order->name, stage, i,
                               order_step_text(order, request, stage, step, text, sizeof text),
                               *cell > step->kind ? "appears twice" : "comes before what it needs");
        }
        (*cell)++;
    }
    for (size_t i = 0; i < cells && status == STATUS_OK; i++) {
        uint32_t micro_batch = (uint32_t)(i / request->virtual_stages) * replicas + request->replica,
                 chunk = (uint32_t)(i % request->virtual_stages);
        uint32_t first, last, virtual_stage = order_virtual_stage(order, request, stage, chunk);
        order_route(order, request, micro_batch, &first, &last);
        uint32_t wanted = virtual_stage >= first && virtual_stage <= last ? kinds(order) : 0;
        if (done[i] != wanted) {
            status = error_set(error, STATUS_BAD_SCHEDULE,
                               "order %s, stage %u: micro-batch %u of chunk %u has %u passes, %u are needed",
                               order->name, stage, micro_batch, chunk, done[i], wanted);
        }
    }
    free(done);
    return status;
}

enum status order_steps(const struct pipeline_order *order, const struct order_request *request, uint32_t stage,
                        struct order_step *steps, uint32_t *count, struct error *error)
{
    CHECK(stage < request->stages);
    uint32_t replicas = order_replicas(request, stage), room = order_step_count(order, request) / replicas;
    CHECK(request->replica < replicas);
    *count = order->build(request, stage, steps);
    if (*count > room) {
        return error_set(error, STATUS_BAD_SCHEDULE,
                         "order %s, stage %u: its build says that it wrote %u steps, where there is room for %u "
                         "(order_step_count)",
                         order->name, stage, *count, room);
    }
    for (uint32_t i = 0; i < *count; i++) {
        steps[i].micro_batch = steps[i].micro_batch * replicas + request->replica;
    }
    return order_verify(order, request, stage, steps, *count, error);
}
