/* Starts, refinements, mapping. Each attempt has its own count of emulations, so answers do not depend on the number of threads. */
#include "strategies/planners/mpress_attempts.h"

#include <math.h>

#include "sim/base/check.h"

/* Emulations of a refinement: of a class of starts, and with device-to-device swap at the end. */
enum { REFINE_CLASS = 80, REFINE_LAST = 160 };

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
    { "host swap, older weight versions too", CLASS_HOST, MPRESS_HOST | MPRESS_STATES | MPRESS_VERSIONS, false },
    { "host swap, older weight versions too, states updated by the host", CLASS_HOST,
      MPRESS_HOST | MPRESS_CPU | MPRESS_VERSIONS, false },
    { "recomputation and host swap, older weight versions too", CLASS_BOTH,
      MPRESS_RECOMPUTE | MPRESS_HOST | MPRESS_STATES | MPRESS_VERSIONS, false },
    { "recomputation and host swap, older weight versions too, states updated by the host", CLASS_BOTH,
      MPRESS_RECOMPUTE | MPRESS_HOST | MPRESS_CPU | MPRESS_VERSIONS, false },
    { "recomputation and host swap, older weight versions too, states stay", CLASS_BOTH,
      MPRESS_RECOMPUTE | MPRESS_HOST | MPRESS_VERSIONS, false },
    { "device and host swap and recomputation, older weight versions too, states stay or go to devices", CLASS_DEVICES,
      MPRESS_DEVICES | MPRESS_RECOMPUTE | MPRESS_HOST | MPRESS_VERSIONS, false },
    { "device swap and recomputation, older weight versions too", CLASS_DEVICES,
      MPRESS_DEVICES | MPRESS_RECOMPUTE | MPRESS_CPU | MPRESS_VERSIONS, false },
    { "device and host swap and recomputation, older weight versions too", CLASS_DEVICES,
      MPRESS_DEVICES | MPRESS_RECOMPUTE | MPRESS_HOST | MPRESS_CPU | MPRESS_VERSIONS, false },
};
static const struct {
    const char *name;
    uint32_t mechanisms;
} CLASSES[CLASS_COUNT] = {
    [CLASS_RECOMPUTE] = { "recomputation, refined", MPRESS_RECOMPUTE },
    [CLASS_HOST] = { "host swap, refined", MPRESS_HOST | MPRESS_STATES | MPRESS_CPU | MPRESS_VERSIONS },
    [CLASS_BOTH] = { "recomputation and host swap, refined",
                     MPRESS_RECOMPUTE | MPRESS_HOST | MPRESS_STATES | MPRESS_CPU | MPRESS_VERSIONS },
    [CLASS_DEVICES] = { "device swap from the start, refined", MPRESS_RECOMPUTE | MPRESS_HOST | MPRESS_STATES |
                                                                   MPRESS_CPU | MPRESS_VERSIONS | MPRESS_DEVICES },
};

static enum status add_attempt(struct mpress_search *search, const char *name, uint32_t mechanisms, uint32_t emulations,
                               const struct mpress_attempt *from, struct error *error)
{
    struct mpress_attempt *attempt = &search->attempts[search->count++];
    const struct mpress_view *view = from != NULL ? &from->view : &search->c.unsaved;
    *attempt = (struct mpress_attempt){
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

static enum status follow(struct mpress_attempt *attempt, struct mpress_crew *crew)
{
    struct mpress_case *c = &attempt->c;
    struct error *error = &attempt->error;
    if (attempt->emulations == 0) {
        return mpress_pick_until_fits(c, &attempt->choices, &attempt->view, attempt->mechanisms, error);
    }
    return mpress_refine(c, &attempt->choices, &attempt->view, attempt->mechanisms, attempt->emulations, crew, error);
}

static void work(void *context, uint32_t index)
{
    struct mpress_search *search = context;
    struct mpress_attempt *attempt = &search->attempts[search->first + index];
    attempt->status = follow(attempt, &search->crew);
    mpress_crew_attempt_ended(&search->crew);
}

static bool idle(void *context, uint32_t done, uint32_t total)
{
    struct mpress_search *search = context;
    const struct planner_request *request = search->request;
    const struct planner_progress progress = { .doing = "emulating", .done = done, .total = total };
    bool goes_on = request->progress == NULL || request->progress(request->progress_context, &progress);
    if (!goes_on) {
        atomic_store(&search->crew.stops, true);
    }
    return goes_on;
}

/* Those added since `first`, side by side; those that an interruption left out are gone again. */
static enum status run_new(struct mpress_search *search, struct error *error)
{
    mpress_crew_begin(&search->crew, search->request->threads, search->count - search->first);
    uint32_t begun =
        oracle_parallel(search->request->threads, search->count - search->first, work, search, idle, search);
    search->answer->interrupted = atomic_load(&search->crew.stops);
    while (search->count > search->first + begun) { /* nothing is known of those that never began */
        arena_free(&search->attempts[--search->count].arena);
    }
    for (uint32_t i = search->first; i < search->count; i++) {
        struct mpress_attempt *attempt = &search->attempts[i];
        if (attempt->status != STATUS_OK) {
            *error = attempt->error;
            return attempt->status;
        }
        search->answer->simulated += attempt->c.emulations;
    }
    search->first = search->count;
    return STATUS_OK;
}

const struct mpress_attempt *mpress_best_attempt(const struct mpress_search *search, enum start_class class)
{
    const struct mpress_attempt *best = NULL;
    for (uint32_t i = 0; i < search->count; i++) {
        const struct mpress_attempt *attempt = &search->attempts[i];
        if ((class == CLASS_COUNT || attempt->class == class) &&
            (best == NULL || mpress_better(&attempt->view, &best->view))) {
            best = attempt;
        }
    }
    return best;
}

/* Activations that must leave a stage, and room that one leaves, once the states that the attempt moves are gone. */
static struct mpress_mapping find_mapping(const struct mpress_search *search, const struct mpress_attempt *attempt)
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
static enum status add_last(struct mpress_search *search, struct error *error)
{
    const struct mpress_attempt *best = mpress_best_attempt(search, CLASS_COUNT);
    TRY(add_attempt(search, "refined with device swap", search->c.allowed, REFINE_LAST, best, error));
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
    TRY(add_attempt(search, "refined with device swap on the device mapping", search->c.allowed, REFINE_LAST, best,
                    error));
    struct mpress_attempt *mapped = &search->attempts[search->count - 1];
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

static enum status begin(struct mpress_attempt *attempt, enum start_class class, bool lends, struct error *error)
{
    attempt->class = class;
    for (uint32_t i = 0; i < attempt->c.positions && lends; i++) {
        attempt->choices.of[i].target[MOVE_OPTIMIZER] =
            attempt->c.layers[i].state_bytes > 0 ? MOVE_TO_CPU : MOVE_TARGET_COUNT;
    }
    return lends ? mpress_emulate(&attempt->c, &attempt->choices, &attempt->view, error) : STATUS_OK;
}

/* A start moves older weight versions only where there are some, and must where nothing fits as long as they stay. */
static bool makes_sense(const struct mpress_case *c, uint32_t mechanisms)
{
    bool any = false;
    for (uint32_t s = 0; s < c->stages; s++) {
        any = any || c->versions[s] > 0;
    }
    return (mechanisms & MPRESS_VERSIONS) != 0 ? any : mpress_hopeless_stage(c, true) == c->stages;
}

enum status mpress_run_starts(struct mpress_search *search, struct error *error)
{
    for (size_t i = 0; i < sizeof STARTS / sizeof STARTS[0]; i++) {
        if (!makes_sense(&search->c, STARTS[i].mechanisms)) {
            continue;
        }
        search->answer->configurations++;
        if ((STARTS[i].mechanisms & ~search->c.allowed) == 0) {
            TRY(add_attempt(search, STARTS[i].name, STARTS[i].mechanisms, 0, NULL, error));
            TRY(begin(&search->attempts[search->count - 1], STARTS[i].class, STARTS[i].lends, error));
        }
    }
    TRY(run_new(search, error));
    const struct mpress_attempt *best = mpress_best_attempt(search, CLASS_COUNT);
    bool enough = search->answer->interrupted || (best != NULL && mpress_fits(&best->view));
    return enough ? STATUS_OK : mpress_run_all_away(search, error);
}

/* What fits into less fits. */
static enum status add_tighter(struct mpress_search *search, struct error *error)
{
    const struct mpress_kept *kept = search->tighter;
    if (kept == NULL) {
        return STATUS_OK;
    }
    TRY(add_attempt(search, kept->name, 0, 0, NULL, error));
    struct mpress_attempt *attempt = &search->attempts[search->count - 1];
    mpress_choices_assign(&attempt->c, &attempt->choices, &kept->choices);
    mpress_view_assign(&attempt->c, &attempt->view, &kept->view);
    search->first = search->count;
    return STATUS_OK;
}

enum status mpress_run_attempts(struct mpress_search *search, struct error *error)
{
    TRY(add_tighter(search, error));
    TRY(mpress_run_starts(search, error));
    if (search->answer->interrupted) {
        return STATUS_OK;
    }
    for (int class = 0; class < CLASS_COUNT; class ++) {
        const struct mpress_attempt *best = mpress_best_attempt(search, (enum start_class) class);
        if (best != NULL && (CLASSES[class].mechanisms & ~search->c.allowed) == 0) {
            TRY(add_attempt(search, CLASSES[class].name, CLASSES[class].mechanisms, REFINE_CLASS, best, error));
        }
    }
    TRY(run_new(search, error));
    if ((search->c.allowed & MPRESS_DEVICES) == 0 || search->answer->interrupted) {
        return STATUS_OK;
    }
    TRY(add_last(search, error));
    return run_new(search, error);
}

/* Activations are computed again where that may be, else swapped; states go to the host's cores, older weight versions to its memory. */
enum status mpress_run_all_away(struct mpress_search *search, struct error *error)
{
    uint32_t allowed = search->c.allowed;
    TRY(add_attempt(search, "everything that moves away from its device", allowed, 0, NULL, error));
    struct mpress_attempt *attempt = &search->attempts[search->count - 1];
    for (uint32_t i = 0; i < attempt->c.positions; i++) {
        uint8_t *target = attempt->choices.of[i].target;
        if (mpress_is_block(&attempt->c, i)) {
            target[MOVE_ACTIVATION] = (allowed & MPRESS_RECOMPUTE) != 0 ? MOVE_TO_RECOMPUTE : MOVE_TO_HOST;
        }
        if ((allowed & MPRESS_CPU) != 0 && attempt->c.layers[i].state_bytes > 0) {
            target[MOVE_OPTIMIZER] = MOVE_TO_CPU;
        }
        if ((allowed & MPRESS_VERSIONS) != 0 && mpress_tensor_bytes(&attempt->c, i, MOVE_VERSION) > 0) {
            target[MOVE_VERSION] = MOVE_TO_HOST;
        }
    }
    TRY(mpress_emulate(&attempt->c, &attempt->choices, &attempt->view, error));
    search->answer->simulated += attempt->c.emulations;
    search->first = search->count;
    return STATUS_OK;
}

void mpress_attempts_free(struct mpress_search *search)
{
    for (uint32_t i = 0; i < search->count; i++) {
        arena_free(&search->attempts[i].arena);
    }
    search->count = search->first = 0;
}

enum status mpress_run_resident(struct mpress_search *search, struct error *error)
{
    TRY(add_tighter(search, error)); /* now and then host cores and other devices make it faster */
    return add_attempt(search, "everything resident", 0, 0, NULL, error);
}
