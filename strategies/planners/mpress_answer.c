/* The answer: the best attempt, what else fits, and sentences. */
#include <inttypes.h>
#include <math.h>

#include "sim/base/check.h"
#include "sim/base/strbuf.h"
#include "sim/base/units.h"
#include "sim/ir/timeline.h"
#include "strategies/planners/mpress_attempts.h"

/* "8-1-1", and how a layer's activations leave: -c computed again, -h to the host, -d to other devices. */
static enum status label(const struct mpress_search *search, const struct plan *plan, struct planner_choice *choice,
                         struct error *error)
{
    static const char *const suffix[] = { [MOVE_TO_HOST] = "-h", [MOVE_TO_DEVICES] = "-d", [MOVE_TO_RECOMPUTE] = "-c" };
    struct arena *arena = &search->answer->arena;
    choice->layer_count = (uint32_t)search->request->scenario->model.layers;
    choice->layers = arena_array(arena, const char *, choice->layer_count);
    for (uint32_t i = 0; choice->layers != NULL && i < choice->layer_count; i++) {
        const struct tensor_move *move = plan_moves_find(plan, MOVE_ACTIVATION, (int64_t)i + 1);
        choice->layers[i] =
            arena_printf(arena, "%" PRId64 "-1-1%s", plan->pipeline, move != NULL ? suffix[move->target] : "");
        if (choice->layers[i] == NULL) {
            return error_set(error, STATUS_NO_MEMORY, "out of memory planning");
        }
    }
    return choice->layers == NULL ? error_set(error, STATUS_NO_MEMORY, "out of memory planning") : STATUS_OK;
}

/* The plan with the allocator's model, in whose absence it was emulated: the step and the live bytes are the same. `*reserved_bytes`: by the allocator, on the device that has most. */
static enum status simulate(const struct mpress_search *search, const struct mpress_attempt *attempt,
                            struct planner_choice *choice, double *reserved_bytes, struct error *error)
{
    const struct scenario *scenario = search->request->scenario;
    struct schedule schedule = { 0 };
    struct timeline timeline = { 0 };
    enum status status =
        oracle_simulate(scenario, &scenario->software, &choice->plan, NULL, &schedule, &timeline, error);
    if (status == STATUS_OK) {
        oracle_figures(&schedule, &timeline, &choice->simulated);
        *reserved_bytes = 0;
        for (uint32_t i = 0; i < schedule.space_count; i++) {
            bool device = schedule.spaces[i].kind == SPACE_DEVICE;
            *reserved_bytes = fmax(*reserved_bytes, device ? (double)timeline.spaces[i].peak_reserved_bytes : 0);
        }
        CHECK(choice->simulated.peak_bytes == attempt->view.result.peak_bytes &&
              !(fabs(choice->simulated.step_time_s - attempt->view.result.step_time_s) > 0));
    }
    timeline_free(&timeline);
    schedule_free(&schedule);
    return status;
}

static enum status fill_choice(const struct mpress_search *search, const struct mpress_attempt *attempt,
                               struct planner_choice *choice, double *reserved_bytes, struct error *error)
{
    const struct mpress_case *c = &search->c;
    struct arena *arena = &search->answer->arena;
    const struct oracle_result *result = &attempt->view.result;
    *choice = (struct planner_choice){ .has_plan = true,
                                       .global_batch = c->base.global_batch,
                                       .pipeline = c->stages,
                                       .step_time_s = result->step_time_s,
                                       .samples_per_s = result->samples_per_s,
                                       .peak_bytes = (double)result->peak_bytes,
                                       .is_simulated = true };
    TRY(mpress_choices_plan(c, &attempt->choices, &choice->plan, arena, error));
    TRY(simulate(search, attempt, choice, reserved_bytes, error));
    TRY(mpress_words(c, &attempt->choices, &attempt->view, &choice->plan, arena, error));
    choice->stages = arena_array(arena, struct planner_stage, c->stages);
    if (choice->stages == NULL) {
        return error_set(error, STATUS_NO_MEMORY, "out of memory planning");
    }
    choice->stage_count = c->stages;
    for (uint32_t i = 0; i < c->positions; i++) {
        struct planner_stage *stage = &choice->stages[c->layers[i].stage];
        stage->layers += mpress_is_block(c, i);
        stage->time_s += 2 * c->pass_s[c->layers[i].stage];
    }
    for (uint32_t s = 0; s < c->stages; s++) {
        choice->stages[s].memory_bytes = attempt->view.peak_bytes[s];
        choice->stages[s].leftover_bytes = c->budget_bytes - attempt->view.peak_bytes[s];
    }
    planner_balance(choice);
    return label(search, &choice->plan, choice, error);
}

/* ": activations of 2 layers to the host" for each way that something of the stage leaves; nothing where all stays. */
static void append_away(const struct mpress_case *c, const struct mpress_attempt *best, uint32_t stage,
                        struct strbuf *out)
{
    static const char *const tensors[MOVE_TENSOR_COUNT] = { [MOVE_ACTIVATION] = "activations",
                                                            [MOVE_OPTIMIZER] = "optimizer states",
                                                            [MOVE_VERSION] = "older weight versions" };
    static const char *const targets[MOVE_TARGET_COUNT] = { [MOVE_TO_HOST] = "to the host",
                                                            [MOVE_TO_DEVICES] = "to other devices",
                                                            [MOVE_TO_CPU] = "to the host and updated there",
                                                            [MOVE_TO_RECOMPUTE] = "recomputed" };
    uint32_t counts[MOVE_TENSOR_COUNT][MOVE_TARGET_COUNT + 1] = { { 0 } };
    for (uint32_t i = 0; i < c->positions; i++) {
        for (int what = 0; what < MOVE_TENSOR_COUNT && c->layers[i].stage == stage; what++) {
            counts[what][best->choices.of[i].target[what]]++;
        }
    }
    for (int what = 0; what < MOVE_TENSOR_COUNT; what++) {
        for (int to = 0; to < MOVE_TARGET_COUNT; to++) {
            uint32_t count = counts[what][to];
            if (count > 0) {
                strbuf_printf(out, "%s %s of %u layer%s %s", out->length == 0 ? ":" : ",", tensors[what], count,
                              count == 1 ? "" : "s", targets[to]);
            }
        }
    }
}

/* "; it holds tensors of stage 0, stage 3": those whose stripes lie on the stage's device. */
static void append_guests(const struct mpress_case *c, const struct plan *plan, uint32_t stage, struct strbuf *out)
{
    bool any = false;
    for (uint32_t owner = 0; owner < c->stages; owner++) {
        if (mpress_holds(c, plan, stage, owner)) {
            strbuf_printf(out, "%s stage %u", any ? "," : "; it holds tensors of", owner);
            any = true;
        }
    }
}

static enum status explain_stage(const struct mpress_search *search, const struct mpress_attempt *best, uint32_t stage,
                                 struct planner_result *result, struct error *error)
{
    const struct mpress_case *c = &search->c;
    struct strbuf text = { 0 };
    append_away(c, best, stage, &text);
    append_guests(c, &result->best.plan, stage, &text);
    enum status status = text.failed
                             ? error_set(error, STATUS_NO_MEMORY, "out of memory planning")
                             : planner_reason(search->answer, result, error,
                                              "stage %u on gpu %" PRId64 ": %.4g GiB with all resident, %.4g now%s",
                                              stage, best->choices.place[stage], c->unsaved.peak_bytes[stage] / GIB,
                                              best->view.peak_bytes[stage] / GIB, text.text != NULL ? text.text : "");
    strbuf_free(&text);
    return status;
}

/* The budget is kept by live bytes; what PyTorch's allocator holds beside them is said. */
static enum status explain_reserved(const struct mpress_search *search, double live_bytes, double reserved_bytes,
                                    struct planner_result *result, struct error *error)
{
    double budget = search->c.budget_bytes, beyond = reserved_bytes - budget;
    if (!(reserved_bytes > 0)) {
        return STATUS_OK; /* the software has no model of an allocator */
    }
    if (beyond <= 0) {
        return planner_reason(search->answer, result, error,
                              "GiB are live bytes: %.4g at most; with what its caching allocator holds unused a device "
                              "reserves up to %.4g of %.4g GiB",
                              live_bytes / GIB, reserved_bytes / GIB, budget / GIB);
    }
    return planner_reason(
        search->answer, result, error,
        "GiB are live bytes, %.4g at most, and the budget is held by them alone: with what its caching "
        "allocator holds unused a device reserves up to %.4g GiB, %.4g more than the budget of %.4g; "
        "where that counts, plan with a budget of %.4g GiB or less",
        live_bytes / GIB, reserved_bytes / GIB, beyond / GIB, budget / GIB, (budget - beyond) / GIB);
}

static enum status explain(const struct mpress_search *search, const struct mpress_attempt *best, double reserved_bytes,
                           struct planner_result *result, struct error *error)
{
    TRY(planner_reason(search->answer, result, error, "taken: %s; without memory limits the step would take %.6g s",
                       best->name, search->c.unsaved.result.step_time_s));
    TRY(explain_reserved(search, (double)best->view.result.peak_bytes, reserved_bytes, result, error));
    for (uint32_t i = 0; i < search->count; i++) {
        const struct mpress_attempt *other = &search->attempts[i];
        if (other == best) {
            continue;
        }
        if (mpress_fits(&other->view)) {
            TRY(planner_reason(search->answer, result, error, "tried: %s: %.6g s", other->name,
                               other->view.result.step_time_s));
        } else {
            TRY(planner_reason(search->answer, result, error,
                               "tried: %s: %.4g GiB too much, all devices and hosts together", other->name,
                               other->view.over_bytes / GIB));
        }
    }
    for (uint32_t s = 0; s < search->c.stages; s++) {
        TRY(explain_stage(search, best, s, result, error));
    }
    uint32_t per_node = search->request->scenario->cluster.gpus_per_node;
    bool any = false;
    for (uint32_t i = 0; i < search->c.stages * search->c.stages; i++) {
        any = any || search->c.links[i] > 0;
    }
    for (uint32_t s = 0; any && s + 1 < search->c.stages; s++) {
        uint32_t a = (uint32_t)best->choices.place[s], b = (uint32_t)best->choices.place[s + 1];
        if (a / per_node == b / per_node && search->c.links[a * search->c.stages + b] == 0) {
            TRY(planner_reason(search->answer, result, error,
                               "stages %u and %u (gpus %u and %u) have no direct link: what they exchange crosses PCIe",
                               s, s + 1, a, b));
        }
    }
    return STATUS_OK;
}

/* Others that fit, best first; equal ones once. */
static enum status fill_others(const struct mpress_search *search, const struct mpress_attempt *best,
                               struct planner_result *result, struct error *error)
{
    result->runners_up = arena_array(&search->answer->arena, struct planner_choice, MPRESS_ATTEMPTS_MAX);
    if (result->runners_up == NULL) {
        return error_set(error, STATUS_NO_MEMORY, "out of memory planning");
    }
    double last_s = best->view.result.step_time_s;
    while (result->runner_up_count < search->request->top) {
        const struct mpress_attempt *next = NULL;
        for (uint32_t i = 0; i < search->count; i++) {
            const struct mpress_attempt *other = &search->attempts[i];
            if (other->view.result.step_time_s > last_s && mpress_fits(&other->view) &&
                (next == NULL || mpress_better(&other->view, &next->view))) {
                next = other;
            }
        }
        if (next == NULL) {
            break;
        }
        last_s = next->view.result.step_time_s;
        double reserved_bytes;
        TRY(fill_choice(search, next, &result->runners_up[result->runner_up_count++], &reserved_bytes, error));
    }
    return STATUS_OK;
}

static enum status fill_none(const struct mpress_search *search, const struct mpress_attempt *best,
                             struct planner_result *result, struct error *error)
{
    double most = 0;
    uint32_t fullest = 0;
    if (search->answer->interrupted) {
        return planner_reason_stopped(search->answer, result, error);
    }
    CHECK(best != NULL);
    for (uint32_t s = 0; s < search->c.stages; s++) {
        if (best->view.peak_bytes[s] > most) {
            most = best->view.peak_bytes[s];
            fullest = s;
        }
    }
    uint32_t hopeless = mpress_hopeless_stage(&search->c, false);
    if (hopeless == search->c.stages) {
        TRY(mpress_smallest_budget(search, most, &result->smallest_budget_bytes, error));
    } else if (best->view.result.host_fits) {
        result->smallest_budget_bytes = planner_enough_gib(most) * GIB;
    }
    double enough_gib = planner_enough_gib(result->smallest_budget_bytes);
    if (search->answer->interrupted) {
        return planner_reason_stopped(search->answer, result, error);
    }
    if (!(enough_gib > 0)) {
        return planner_reason(search->answer, result, error,
                              "what the devices cannot hold does not fit into host memory either: more host memory, "
                              "more GPUs or a smaller model would do");
    }
    if (hopeless < search->c.stages) {
        return planner_reason(search->answer, result, error,
                              "weights, gradients, the runtime and what else never leaves take %.4g GiB on stage %u; "
                              "with all else away stage %u takes %.4g GiB, and with %.6g GiB a device it fits",
                              search->c.floor_bytes[hopeless] / GIB, hopeless, fullest, most / GIB, enough_gib);
    }
    return planner_reason(search->answer, result, error,
                          "the best found (%s) still takes %.4g GiB on stage %u, of which weights and gradients never "
                          "leave; with %.6g GiB a device a plan is found (searched)",
                          best->name, most / GIB, fullest, enough_gib);
}

enum status mpress_fill_result(const struct mpress_search *search, struct planner_result *result, struct error *error)
{
    const struct mpress_attempt *best = mpress_best_attempt(search, CLASS_COUNT);
    if (best == NULL || !mpress_fits(&best->view)) {
        return fill_none(search, best, result, error);
    }
    result->found = true;
    double reserved_bytes;
    TRY(fill_choice(search, best, &result->best, &reserved_bytes, error));
    TRY(fill_others(search, best, result, error));
    return explain(search, best, reserved_bytes, result, error);
}
