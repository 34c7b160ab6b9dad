/* The planner `mpress`: a pipeline of single devices whose tensors are recomputed, swapped to the host or to other devices until every stage fits (the ideas of MPress, HPCA 2023; of the paper only
 * the abstract could be read, so every rule here is ours: facts/mpress-hippie-pipelines.md A.3 to A.8).
 *
 * 1. Profile: one iteration with everything resident gives peaks, idle intervals and bytes; one with everything recomputed the cost of that.
 * 2. Starts: for each set of mechanisms, picks until it fits (mpress_picks.c), then refinement within the set (mpress_refine.c).
 * 3. Device mapping (mpress_mapping.h) for what the best start leaves over and to spare.
 * 4. Refinement with device-to-device swap, on the mapping and without it. The fastest that fits wins; as the starts with fewer mechanisms are among the candidates, none of them is faster.
 *
 * Starts run side by side; each has its own count of emulations, so answers do not depend on the number of threads. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "sim/base/check.h"
#include "sim/base/units.h"
#include "strategies/planners/mpress_internal.h"
#include "strategies/planners/planners.h"
#include "strategies/registry.h"

enum { P_ALLOW };
enum { ALLOW_ALL, ALLOW_RECOMPUTE, ALLOW_HOST, ALLOW_RECOMPUTE_HOST };
static const char *const ALLOWED[] = { "all", "recompute", "host", "recompute+host", NULL };
static const uint32_t MECHANISMS[] = {
    [ALLOW_ALL] = MPRESS_RECOMPUTE | MPRESS_HOST | MPRESS_STATES | MPRESS_CPU | MPRESS_DEVICES,
    [ALLOW_RECOMPUTE] = MPRESS_RECOMPUTE,
    [ALLOW_HOST] = MPRESS_HOST | MPRESS_STATES | MPRESS_CPU,
    [ALLOW_RECOMPUTE_HOST] = MPRESS_RECOMPUTE | MPRESS_HOST | MPRESS_STATES | MPRESS_CPU,
};
static const struct parameter PARAMETERS[] = {
    [P_ALLOW] = { .name = "allow",
                  .type = PARAMETER_WORD,
                  .unit = "",
                  .words = ALLOWED,
                  .fallback = ALLOW_ALL,
                  .help = "mechanisms it may use; host is swap to host memory, states updated by its cores included" },
};

/* Emulations of a refinement: of a class of starts, and with device-to-device swap at the end. */
enum { REFINE_CLASS = 80, REFINE_LAST = 160, ATTEMPTS_MAX = 24 };

/* The best start of each class is refined: so a search that may use more includes what one that may use less finds. */
enum start_class { CLASS_RECOMPUTE, CLASS_HOST, CLASS_BOTH, CLASS_DEVICES, CLASS_COUNT };
static const struct {
    const char *name;
    enum start_class class;
    uint32_t mechanisms;
    bool lends; /* all states leave at once, so that stages have room to lend */
} STARTS[] = {
    { "recomputation", CLASS_RECOMPUTE, MPRESS_RECOMPUTE, false },
    { "host swap", CLASS_HOST, MPRESS_HOST | MPRESS_STATES, false },
    { "host swap, states updated by the host", CLASS_HOST, MPRESS_HOST | MPRESS_CPU, false },
    { "recomputation, states swapped to the host", CLASS_BOTH, MPRESS_RECOMPUTE | MPRESS_STATES, false },
    { "recomputation, states updated by the host", CLASS_BOTH, MPRESS_RECOMPUTE | MPRESS_CPU, false },
    { "recomputation and host swap", CLASS_BOTH, MPRESS_RECOMPUTE | MPRESS_HOST | MPRESS_STATES, false },
    { "recomputation and host swap, states updated by the host", CLASS_BOTH,
      MPRESS_RECOMPUTE | MPRESS_HOST | MPRESS_CPU, false },
    { "device swap and recomputation", CLASS_DEVICES, MPRESS_DEVICES | MPRESS_RECOMPUTE | MPRESS_CPU, false },
    { "device and host swap and recomputation", CLASS_DEVICES,
      MPRESS_DEVICES | MPRESS_RECOMPUTE | MPRESS_HOST | MPRESS_CPU, false },
    { "all states updated by the host, device swap and recomputation", CLASS_DEVICES,
      MPRESS_DEVICES | MPRESS_RECOMPUTE | MPRESS_CPU, true },
};
static const struct {
    const char *name;
    uint32_t mechanisms;
} CLASSES[CLASS_COUNT] = {
    [CLASS_RECOMPUTE] = { "recomputation, refined", MPRESS_RECOMPUTE },
    [CLASS_HOST] = { "host swap, refined", MPRESS_HOST | MPRESS_STATES | MPRESS_CPU },
    [CLASS_BOTH] = { "recomputation and host swap, refined",
                     MPRESS_RECOMPUTE | MPRESS_HOST | MPRESS_STATES | MPRESS_CPU },
    [CLASS_DEVICES] = { "device swap from the start, refined",
                        MPRESS_RECOMPUTE | MPRESS_HOST | MPRESS_STATES | MPRESS_CPU | MPRESS_DEVICES },
};

/* A way through the search, on its own. */
struct attempt {
    const char *name;
    enum start_class class;
    uint32_t mechanisms, emulations; /* of refinement */
    struct mpress_case c;            /* a copy of the profile's */
    struct arena arena;
    struct mpress_choices choices;
    struct mpress_view view;
    enum status status;
    struct error error;
};

struct search {
    const struct planner_request *request;
    struct planner_answer *answer;
    struct mpress_case c;
    struct attempt attempts[ATTEMPTS_MAX];
    uint32_t count, first; /* those from `first` on are under way */
    uint32_t allowed;
};

/* ---- the case ---- */

static enum status check(const struct scenario *scenario, struct error *error)
{
    const struct pipeline_order *order = registry_order(scenario->plan.order, error);
    int64_t gpus = scenario->cluster.gpus;
    if (order == NULL) {
        return STATUS_NOT_FOUND;
    }
    if (order->asynchronous || order->model_replicas > 1) {
        return error_at(
            error, STATUS_UNSUPPORTED, NULL, "$.parallel.pipeline_order",
            "order \"%s\" keeps several copies or versions of the weights; mpress plans for orders with one "
            "copy and a flush",
            order->name);
    }
    if (gpus > MPRESS_DEVICES_MAX) {
        return error_at(error, STATUS_BAD_INPUT, NULL, "$.gpus",
                        "mpress plans pipelines of single devices: %" PRId64 " GPUs, allowed are up to %d", gpus,
                        MPRESS_DEVICES_MAX);
    }
    if (scenario->model.layers < gpus * scenario->plan.virtual_stages) {
        return error_at(error, STATUS_BAD_INPUT, NULL, "$.gpus",
                        "mpress makes each GPU a stage: %" PRId64 " GPUs of %" PRId64 " chunks, but %s has %" PRId64
                        " transformer layers",
                        gpus, scenario->plan.virtual_stages, scenario->model.name, scenario->model.layers);
    }
    return STATUS_OK;
}

/* Equal stages; what is left over goes to the stages before the last one, which keep the fewest micro-batches beside it. */
static void split(struct plan *plan, int64_t layers)
{
    int64_t stages = plan->pipeline * plan->virtual_stages, more = layers % stages;
    for (int64_t s = 0; s < stages; s++) {
        int64_t from_end = stages - 1 - s;
        plan->stage_layers[s] = layers / stages + (from_end >= 1 && from_end <= more);
    }
}

/* The scenario as a pipeline of single devices. */
static enum status make_base(struct search *search, struct error *error)
{
    const struct scenario *scenario = search->request->scenario;
    const struct plan *given = &scenario->plan;
    struct plan *base = &search->c.base;
    struct arena *arena = &search->answer->arena;
    TRY(planner_copy_plan(base, given, &scenario->model, arena, error));
    int64_t gpus = scenario->cluster.gpus;
    if (given->pipeline != gpus) {
        base->pipeline = gpus;
        base->stage_layers = arena_array(arena, int64_t, (size_t)(gpus * base->virtual_stages));
        if (base->stage_layers == NULL) {
            return error_set(error, STATUS_NO_MEMORY, "out of memory planning");
        }
        split(base, scenario->model.layers);
    }
    base->tensor = base->data = base->context = base->expert = 1;
    base->zero_stage = 0;
    base->sequence_parallel = false;
    base->micro_batches = base->global_batch / base->micro_batch;
    memset(base->recompute, RECOMPUTE_NONE, (size_t)scenario->model.layers);
    snprintf(base->policy, sizeof base->policy, "mpress");
    base->policy_parameters = (struct parameter_values){ { 0 } };
    return plan_check(base, &scenario->model, error);
}

/* ---- attempts ---- */

static enum status add_attempt(struct search *search, const char *name, uint32_t mechanisms, uint32_t emulations,
                               const struct attempt *from, struct error *error)
{
    struct attempt *attempt = &search->attempts[search->count++];
    const struct mpress_view *view = from != NULL ? &from->view : &search->c.unsaved;
    *attempt = (struct attempt){
        .name = name, .class = CLASS_COUNT, .mechanisms = mechanisms, .emulations = emulations, .c = search->c
    };
    attempt->c.arena = &attempt->arena;
    attempt->c.emulations = 0;
    TRY(mpress_choices_new(&attempt->c, &attempt->choices, &attempt->arena, error));
    TRY(mpress_view_new(&attempt->c, &attempt->view, error));
    mpress_view_assign(&attempt->c, &attempt->view, view);
    if (from != NULL) {
        mpress_choices_assign(&attempt->c, &attempt->choices, &from->choices);
    }
    return STATUS_OK;
}

static enum status follow(struct attempt *attempt)
{
    struct mpress_case *c = &attempt->c;
    struct error *error = &attempt->error;
    if (attempt->emulations == 0) {
        return mpress_pick_until_fits(c, &attempt->choices, &attempt->view, attempt->mechanisms, error);
    }
    return mpress_refine(c, &attempt->choices, &attempt->view, attempt->mechanisms, attempt->emulations, error);
}

static void work(void *context, uint32_t index)
{
    struct search *search = context;
    struct attempt *attempt = &search->attempts[search->first + index];
    attempt->status = follow(attempt);
}

static bool idle(void *context, uint32_t done, uint32_t total)
{
    const struct search *search = context;
    const struct planner_progress progress = { "emulating", done, total, 0 };
    return search->request->progress == NULL || search->request->progress(search->request->progress_context, &progress);
}

/* Those added since `first`, side by side. */
static enum status run_attempts(struct search *search, struct error *error)
{
    uint32_t begun =
        oracle_parallel(search->request->threads, search->count - search->first, work, search, idle, search);
    search->answer->interrupted = search->answer->interrupted || begun < search->count - search->first;
    for (uint32_t i = search->first; i < search->count; i++) {
        struct attempt *attempt = &search->attempts[i];
        if (attempt->status != STATUS_OK) {
            *error = attempt->error;
            return attempt->status;
        }
        search->answer->simulated += attempt->c.emulations;
    }
    search->first = search->count;
    return STATUS_OK;
}

/* Of a class, or of all (CLASS_COUNT). NULL: there is none. */
static const struct attempt *best_of(const struct search *search, enum start_class class)
{
    const struct attempt *best = NULL;
    for (uint32_t i = 0; i < search->count; i++) {
        const struct attempt *attempt = &search->attempts[i];
        if ((class == CLASS_COUNT || attempt->class == class) &&
            (best == NULL || mpress_better(&attempt->view, &best->view))) {
            best = attempt;
        }
    }
    return best;
}

/* Activations that must leave a stage, and room that one leaves, once the states that the attempt moves are gone. */
static struct mpress_mapping find_mapping(const struct search *search, const struct attempt *attempt)
{
    const struct mpress_case *c = &search->c;
    double over[MPRESS_DEVICES_MAX], spare[MPRESS_DEVICES_MAX];
    for (uint32_t s = 0; s < c->stages; s++) {
        double bytes = c->unsaved.peak_bytes[s];
        for (uint32_t i = 0; i < c->positions; i++) {
            bool gone = c->layers[i].stage == s && !mpress_stays(&attempt->choices, i, MOVE_OPTIMIZER);
            bytes -= gone ? c->layers[i].state_bytes : 0;
        }
        over[s] = fmax(0, bytes - c->budget_bytes);
        spare[s] = fmax(0, c->budget_bytes - bytes);
    }
    const struct mpress_mapping_case input = {
        .devices = c->stages, .links = c->links, .over_bytes = over, .spare_bytes = spare
    };
    return mpress_mapping_search(&input);
}

/* The best attempt again with all mechanisms: as it stands, and on the mapping. */
static enum status add_last(struct search *search, struct error *error)
{
    const struct attempt *best = best_of(search, CLASS_COUNT);
    TRY(add_attempt(search, "refined with device swap", search->allowed, REFINE_LAST, best, error));
    if (search->request->scenario->cluster.nodes > 1) {
        return STATUS_OK;
    }
    const struct mpress_mapping mapping = find_mapping(search, best);
    bool moves = false;
    for (uint32_t s = 0; s < search->c.stages; s++) {
        moves = moves || mapping.device_of_stage[s] != s;
    }
    if (!moves) {
        return STATUS_OK;
    }
    TRY(add_attempt(search, "refined with device swap on the device mapping", search->allowed, REFINE_LAST, best,
                    error));
    struct attempt *mapped = &search->attempts[search->count - 1];
    for (uint32_t i = 0; i < search->c.positions; i++) { /* its stripes are those of other links */
        for (int what = 0; what < MOVE_TENSOR_COUNT; what++) {
            if (mapped->choices.of[i].target[what] == MOVE_TO_DEVICES) {
                mapped->choices.of[i].target[what] = MOVE_TARGET_COUNT;
                mapped->choices.of[i].stripe_count[what] = 0;
            }
        }
    }
    for (uint32_t s = 0; s < search->c.stages; s++) {
        mapped->choices.place[s] = mapping.device_of_stage[s];
    }
    return mpress_emulate(&mapped->c, &mapped->choices, &mapped->view, error);
}

static enum status begin(struct attempt *attempt, enum start_class class, bool lends, struct error *error)
{
    attempt->class = class;
    for (uint32_t i = 0; i < attempt->c.positions && lends; i++) {
        attempt->choices.of[i].target[MOVE_OPTIMIZER] =
            attempt->c.layers[i].state_bytes > 0 ? MOVE_TO_CPU : MOVE_TARGET_COUNT;
    }
    return lends ? mpress_emulate(&attempt->c, &attempt->choices, &attempt->view, error) : STATUS_OK;
}

static enum status run_search(struct search *search, struct error *error)
{
    for (size_t i = 0; i < sizeof STARTS / sizeof STARTS[0]; i++) {
        search->answer->configurations++;
        if ((STARTS[i].mechanisms & ~search->allowed) == 0) {
            TRY(add_attempt(search, STARTS[i].name, STARTS[i].mechanisms, 0, NULL, error));
            TRY(begin(&search->attempts[search->count - 1], STARTS[i].class, STARTS[i].lends, error));
        }
    }
    TRY(run_attempts(search, error));
    for (int class = 0; class < CLASS_COUNT; class ++) {
        const struct attempt *best = best_of(search, (enum start_class) class);
        if (best != NULL && (CLASSES[class].mechanisms & ~search->allowed) == 0) {
            TRY(add_attempt(search, CLASSES[class].name, CLASSES[class].mechanisms, REFINE_CLASS, best, error));
        }
    }
    TRY(run_attempts(search, error));
    if ((search->allowed & MPRESS_DEVICES) == 0) {
        return STATUS_OK;
    }
    TRY(add_last(search, error));
    return run_attempts(search, error);
}

/* ---- answers ---- */

/* "8-1-1", and how a layer's activations leave: -c computed again, -h to the host, -d to other devices. */
static enum status label(const struct search *search, const struct plan *plan, struct planner_choice *choice,
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

static enum status fill_choice(const struct search *search, const struct attempt *attempt,
                               struct planner_choice *choice, struct error *error)
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
                                       .is_simulated = true,
                                       .simulated = *result };
    TRY(mpress_choices_plan(c, &attempt->choices, &choice->plan, arena, error));
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

static enum status explain_stage(const struct search *search, const struct attempt *best, uint32_t stage,
                                 struct planner_result *result, struct error *error)
{
    const struct mpress_case *c = &search->c;
    uint32_t counts[MOVE_TENSOR_COUNT][MOVE_TARGET_COUNT + 1] = { { 0 } };
    for (uint32_t i = 0; i < c->positions; i++) {
        for (int what = 0; what < MOVE_TENSOR_COUNT && c->layers[i].stage == stage; what++) {
            counts[what][best->choices.of[i].target[what]]++;
        }
    }
    const uint32_t *a = counts[MOVE_ACTIVATION], *o = counts[MOVE_OPTIMIZER];
    return planner_reason(
        search->answer, result, error,
        "stage %u on gpu %" PRId64 ": %.4g GiB with everything resident, %.4g now; activations of %u "
        "layers recomputed, %u to the host, %u to other devices; states of %u to the host, %u updated "
        "there, %u on other devices",
        stage, best->choices.place[stage], c->unsaved.peak_bytes[stage] / GIB, best->view.peak_bytes[stage] / GIB,
        a[MOVE_TO_RECOMPUTE], a[MOVE_TO_HOST], a[MOVE_TO_DEVICES], o[MOVE_TO_HOST], o[MOVE_TO_CPU], o[MOVE_TO_DEVICES]);
}

static enum status explain(const struct search *search, const struct attempt *best, struct planner_result *result,
                           struct error *error)
{
    TRY(planner_reason(search->answer, result, error, "taken: %s; without memory limits the step would take %.6g s",
                       best->name, search->c.unsaved.result.step_time_s));
    for (uint32_t i = 0; i < search->count; i++) {
        const struct attempt *other = &search->attempts[i];
        if (other == best) {
            continue;
        }
        if (mpress_fits(&other->view)) {
            TRY(planner_reason(search->answer, result, error, "%s: %.6g s", other->name,
                               other->view.result.step_time_s));
        } else {
            TRY(planner_reason(search->answer, result, error, "%s: %.4g GiB too much, all devices and hosts together",
                               other->name, other->view.over_bytes / GIB));
        }
    }
    for (uint32_t s = 0; s < search->c.stages; s++) {
        TRY(explain_stage(search, best, s, result, error));
    }
    for (uint32_t s = 0; s + 1 < search->c.stages; s++) {
        uint32_t a = (uint32_t)best->choices.place[s], b = (uint32_t)best->choices.place[s + 1];
        bool any = false;
        for (uint32_t i = 0; i < search->c.stages * search->c.stages; i++) {
            any = any || search->c.links[i] > 0;
        }
        if (any && search->c.links[a * search->c.stages + b] == 0) {
            TRY(planner_reason(search->answer, result, error,
                               "stages %u and %u (gpus %u and %u) have no direct link: what they exchange crosses PCIe",
                               s, s + 1, a, b));
        }
    }
    return STATUS_OK;
}

/* Others that fit, best first; equal ones once. */
static enum status fill_others(const struct search *search, const struct attempt *best, struct planner_result *result,
                               struct error *error)
{
    bool used[ATTEMPTS_MAX] = { false };
    result->runners_up = arena_array(&search->answer->arena, struct planner_choice, ATTEMPTS_MAX);
    if (result->runners_up == NULL) {
        return error_set(error, STATUS_NO_MEMORY, "out of memory planning");
    }
    double last_s = best->view.result.step_time_s;
    while (result->runner_up_count < search->request->top) {
        const struct attempt *next = NULL;
        for (uint32_t i = 0; i < search->count; i++) {
            const struct attempt *other = &search->attempts[i];
            if (!used[i] && other->view.result.step_time_s > last_s && mpress_fits(&other->view) &&
                (next == NULL || mpress_better(&other->view, &next->view))) {
                next = other;
            }
        }
        if (next == NULL) {
            break;
        }
        used[next - search->attempts] = true;
        last_s = next->view.result.step_time_s;
        TRY(fill_choice(search, next, &result->runners_up[result->runner_up_count++], error));
    }
    return STATUS_OK;
}

static enum status fill_none(const struct search *search, const struct attempt *best, struct planner_result *result,
                             struct error *error)
{
    double most = 0;
    uint32_t fullest = 0;
    for (uint32_t s = 0; s < search->c.stages; s++) {
        if (best->view.peak_bytes[s] > most) {
            most = best->view.peak_bytes[s];
            fullest = s;
        }
    }
    if (!best->view.result.host_fits) {
        return planner_reason(search->answer, result, error,
                              "what the devices cannot hold does not fit into host memory either: more host memory, "
                              "more GPUs or a smaller model would do");
    }
    result->smallest_budget_bytes = most;
    return planner_reason(search->answer, result, error,
                          "the best found (%s) still takes %.4g GiB on stage %u, of which weights and gradients never "
                          "leave; with %.4g GiB a device it would fit",
                          best->name, most / GIB, fullest, most / GIB);
}

static enum status answer_budget(struct search *search, struct planner_result *result, struct error *error)
{
    search->c.budget_bytes = result->budget_bytes;
    TRY(mpress_profile(&search->c, error));
    search->answer->simulated += 3;
    if (mpress_fits(&search->c.unsaved)) {
        TRY(add_attempt(search, "everything resident", 0, 0, NULL, error));
    } else {
        TRY(run_search(search, error));
    }
    const struct attempt *best = best_of(search, CLASS_COUNT);
    if (!mpress_fits(&best->view)) {
        return fill_none(search, best, result, error);
    }
    result->found = true;
    TRY(fill_choice(search, best, &result->best, error));
    TRY(fill_others(search, best, result, error));
    return explain(search, best, result, error);
}

static enum status search(const struct planner_request *request, struct planner_answer *answer, struct error *error)
{
    TRY(check(request->scenario, error));
    answer->cost_model = "one emulated iteration: peaks, idle intervals, bytes; every choice is simulated with its "
                         "contention (our rules after MPress's ideas)";
    enum status status = STATUS_OK;
    for (uint32_t i = 0; i < request->budget_count && status == STATUS_OK; i++) {
        struct search search = { .request = request,
                                 .answer = answer,
                                 .allowed = MECHANISMS[(int)request->parameters.value[P_ALLOW]] };
        search.c = (struct mpress_case){ .scenario = request->scenario, .arena = &answer->arena };
        status = make_base(&search, error);
        search.c.stages = (uint32_t)search.c.base.pipeline;
        search.c.micro_batches = (uint32_t)search.c.base.micro_batches;
        search.c.positions = (uint32_t)request->scenario->model.layers + 2;
        if (status == STATUS_OK) {
            status = answer_budget(&search, &answer->results[i], error);
        }
        for (uint32_t k = 0; k < search.count; k++) {
            arena_free(&search.attempts[k].arena);
        }
    }
    return status;
}

const struct planner planner_mpress = {
    .abi = PLANNER_ABI,
    .name = "mpress",
    .summary =
        "a pipeline of single GPUs whose activations and optimizer states are recomputed, swapped to the host or "
        "to other GPUs' memory over several links (our rules for the ideas of its abstract)",
    .paper = "the ideas of MPress, Zhou et al., HPCA 2023",
    .parameters = PARAMETERS,
    .parameter_count = sizeof PARAMETERS / sizeof PARAMETERS[0],
    .search = search,
};
