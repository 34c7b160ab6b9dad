/* Orders that are there already, as drafts of the scheduler: registered ones, and what it has made itself. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/check.h"
#include "sim/plan/order_auto_internal.h"

/* ---- as soon as possible ---- */

static void wake(struct auto_play *p, uint32_t stage, uint32_t *count)
{
    if (!p->listed[stage]) {
        p->listed[stage] = true;
        p->awake[(*count)++] = stage;
    }
}

double auto_time_draft(struct auto_play *p)
{
    const struct order_table *draft = p->draft;
    uint32_t awake = 0;
    double end = 0;
    auto_play_reset(p);
    memset(p->cursors, 0, p->r->stages * sizeof *p->cursors);
    for (uint32_t s = 0; s < p->r->stages; s++) {
        wake(p, s, &awake);
    }
    while (awake > 0) {
        uint32_t stage = p->awake[--awake];
        const struct auto_stage *state = &p->stages[stage];
        p->listed[stage] = false;
        for (; p->cursors[stage] < draft->counts[stage]; p->cursors[stage]++) {
            struct order_step step = draft->steps[stage][p->cursors[stage]];
            if (isinf(auto_earliest(p, stage, step, state->free_at))) {
                break;
            }
            if (step.kind == STEP_FORWARD && state->held == state->room) {
                end = (double)INFINITY; /* of no use; the list still empties */
            }
            uint32_t receiver = auto_run_step(p, stage, step);
            end = fmax(end, state->free_at);
            if (receiver != stage) {
                wake(p, receiver, &awake);
            }
        }
    }
    for (uint32_t s = 0; s < p->r->stages; s++) {
        end = p->cursors[s] < draft->counts[s] ? (double)INFINITY : end;
    }
    return end;
}

/* ---- registered orders ---- */

/* Whether the order lives on this pipeline's virtual stages, one copy of the model, flushed every step. */
static bool suits(const struct auto_play *p, const struct pipeline_order *order, const struct order_request *request)
{
    struct error unused = { 0 };
    if (order->asynchronous || order_copies(order) > 1 || order_check(order, request, &unused) != STATUS_OK) {
        return false;
    }
    for (uint32_t s = 0; s < request->stages; s++) {
        for (uint32_t c = 0; c < request->virtual_stages; c++) {
            if (order_virtual_stage(order, request, s, c) != auto_virtual_stage(p, s, c)) {
                return false;
            }
        }
    }
    return true;
}

/* Its steps with the passes of this pipeline. */
static void adapt(struct auto_play *p, const struct pipeline_order *order, uint32_t stage,
                  const struct order_step *steps, uint32_t count)
{
    struct order_step *draft = p->draft->steps[stage];
    uint32_t written = 0;
    for (uint32_t i = 0; i < count; i++) {
        struct order_step step = steps[i];
        if (step.kind == STEP_BACKWARD_WEIGHT && p->kinds == 2) {
            continue;
        }
        draft[written++] = step;
        if (step.kind == STEP_BACKWARD && p->kinds == 3 && !order->splits_backward) {
            step.kind = STEP_BACKWARD_WEIGHT;
            draft[written++] = step;
        }
    }
    p->draft->counts[stage] = written;
}

enum status auto_given_order(struct auto_play *p, const struct pipeline_order *order, bool *usable, struct error *error)
{
    struct order_request request = { .stages = p->r->stages,
                                     .micro_batches = p->r->micro_batches,
                                     .virtual_stages = p->r->virtual_stages };
    parameters_defaults(order->parameters, order->parameter_count, &request.parameters);
    *usable = suits(p, order, &request);
    if (!*usable) {
        return STATUS_OK;
    }
    struct order_step *steps = calloc(order_step_count(order, &request), sizeof *steps);
    if (steps == NULL) {
        return error_set(error, STATUS_NO_MEMORY, "no memory for the steps of a stage");
    }
    enum status status = STATUS_OK;
    for (uint32_t s = 0; s < request.stages && status == STATUS_OK; s++) {
        uint32_t count = 0;
        status = order_steps(order, &request, s, steps, &count, error);
        if (status == STATUS_OK) {
            adapt(p, order, s, steps, count);
        }
    }
    free(steps);
    if (status == STATUS_OK) {
        struct error unused = { 0 };
        *usable = order_table_check_transfers(p->draft, order->name, &unused) == STATUS_OK;
    }
    return status;
}
