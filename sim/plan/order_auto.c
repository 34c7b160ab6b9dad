/* The candidates of the scheduler, and the best of them. Playing is order_auto_play.c, orders that are there already order_auto_given.c. */
#include "sim/plan/order_auto.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "sim/base/check.h"
#include "sim/plan/order_auto_internal.h"
#include "sim/plan/pipeline_bound.h"
#include "strategies/registry.h"

static const struct auto_rule RULES[] = {
    { "forwards first", 0, (double)INFINITY, 0, false },
    { "forwards first, patient", 1, (double)INFINITY, 0, false },
    { "weights first", 0, (double)INFINITY, 0, true },
    { "weights first, patient", 0.5, (double)INFINITY, 0, true },
    { "1f1b's depth", 0, 1, 0, false },
    { "1f1b's depth, patient", 1, 1, 0, false },
    { "1f1b's depth, weights first", 0.5, 1, 0, true },
    { "one deeper", 0.5, 1, 1, false },
    { "one deeper, weights first", 0.5, 1, 1, true },
    { "two deeper", 0.5, 1, 2, false },
    { "two deeper, weights first", 0.5, 1, 2, true },
    { "half deeper", 0.5, 1.5, 0, false },
    { "half deeper, weights first", 0.5, 1.5, 0, true },
    { "twice as deep", 0.5, 2, 0, false },
    { "twice as deep, weights first", 0.5, 2, 0, true },
};
enum { RULE_COUNT = sizeof RULES / sizeof RULES[0] };

/* ---- places ---- */

uint32_t order_auto_holder(const struct order_auto_request *r, uint32_t virtual_stage)
{
    CHECK(r->stages > 0);
    uint32_t chunk = virtual_stage / r->stages, at = virtual_stage % r->stages;
    return r->placement == AUTO_V && chunk % 2 == 1 ? r->stages - 1 - at : at;
}

bool order_auto_placement(const char *name, enum auto_placement *placement)
{
    *placement = strcmp(name, "v") == 0 ? AUTO_V : AUTO_LOOP;
    return *placement == AUTO_V || strcmp(name, "loop") == 0;
}

/* ---- the request ---- */

static enum status check_time(const char *what, uint32_t stage, double time, bool zero_allowed, struct error *error)
{
    if ((time > 0 || (zero_allowed && time >= 0)) && !isinf(time)) {
        return STATUS_OK;
    }
    return error_set(error, STATUS_BAD_INPUT, "stage %u: a %s that takes %g: the scheduler needs times %s 0", stage,
                     what, time, zero_allowed ? "of at least" : "above");
}

static enum status check_request(const struct order_auto_request *r, struct error *error)
{
    uint64_t all = (uint64_t)r->stages * r->virtual_stages;
    CHECK(all > 0);
    if (all * r->micro_batches > ORDER_AUTO_PASSES_MAX) {
        char chunks[32] = "";
        if (r->virtual_stages > 1) {
            snprintf(chunks, sizeof chunks, " x %u chunks", r->virtual_stages);
        }
        return error_set(error, STATUS_LIMIT,
                         "%u stages%s x %u micro-batches: the scheduler takes up to %d passes, so %llu micro-batches "
                         "here; a registered order takes more",
                         r->stages, chunks, r->micro_batches, ORDER_AUTO_PASSES_MAX,
                         (unsigned long long)(ORDER_AUTO_PASSES_MAX / all));
    }
    for (uint32_t v = 0; v < all; v++) {
        uint32_t s = order_auto_holder(r, v);
        TRY(check_time("forward", s, r->forward[v], false, error));
        TRY(check_time("backward", s, r->backward[v], false, error));
        TRY(check_time("weight gradient", s, r->weight != NULL ? r->weight[v] : 0, true, error));
        TRY(check_time("recomputation", s, auto_recompute(r, v), true, error));
    }
    for (uint32_t s = 0; s < r->stages; s++) {
        if (r->limits != NULL && !(r->limits[s] >= 1)) {
            return error_set(error, STATUS_BAD_INPUT, "stage %u may keep %.12g activations: it needs at least 1", s,
                             r->limits[s]);
        }
    }
    return STATUS_OK;
}

/* ---- the best of all ---- */

struct search {
    struct auto_play play;
    struct order_table *best;
    struct order_auto_result *result;
    uint32_t most;   /* that a stage keeps in the best */
    uint32_t *ranks; /* of the passes in the order that is played again */
};

static enum status allocate_table(struct order_table *t, struct arena *arena, const struct auto_play *p,
                                  struct error *error)
{
    size_t all = p->last + 1, steps = (size_t)t->virtual_stages * t->micro_batches * p->kinds;
    t->steps = arena_array(arena, struct order_step *, t->stages);
    t->counts = arena_array(arena, uint32_t, t->stages);
    t->placement = arena_array(arena, uint32_t, all);
    bool good = t->steps != NULL && t->counts != NULL && t->placement != NULL;
    for (uint32_t s = 0; good && s < t->stages; s++) {
        t->steps[s] = arena_array(arena, struct order_step, steps);
        good = t->steps[s] != NULL;
    }
    for (uint32_t v = 0, chunk = 0; good && v < all; v++) {
        chunk += v > 0 && v % p->r->stages == 0;
        t->placement[(size_t)order_auto_holder(p->r, v) * t->virtual_stages + chunk] = v;
    }
    return good ? STATUS_OK : error_set(error, STATUS_NO_MEMORY, "no memory to schedule %u stages", t->stages);
}

static enum status allocate_play(struct auto_play *p, struct arena *arena, struct error *error)
{
    const struct order_auto_request *r = p->r;
    size_t all = p->last + 1, cells = all * r->micro_batches;
    for (p->leaves = 2; p->leaves < r->stages;) {
        p->leaves *= 2;
    }
    p->holders = arena_array(arena, uint32_t, all);
    p->stages = arena_array(arena, struct auto_stage, r->stages);
    p->next = arena_alloc(arena, all, sizeof *p->next);
    p->choices = arena_array(arena, struct auto_choice, p->leaves);
    p->first = arena_array(arena, uint32_t, 2 * (size_t)p->leaves);
    p->cursors = arena_array(arena, uint32_t, r->stages);
    p->awake = arena_array(arena, uint32_t, r->stages);
    p->listed = arena_array(arena, bool, r->stages);
    bool good = p->holders != NULL && p->stages != NULL && p->next != NULL && p->choices != NULL && p->first != NULL &&
                p->cursors != NULL && p->awake != NULL && p->listed != NULL;
    for (int kind = STEP_FORWARD; kind <= STEP_BACKWARD; kind++) {
        p->arrivals[kind] = arena_array(arena, double, cells);
        p->numbers[kind] = arena_array(arena, uint32_t, cells);
        good = good && p->arrivals[kind] != NULL && p->numbers[kind] != NULL;
    }
    for (uint32_t v = 0; good && v < all; v++) {
        p->holders[v] = order_auto_holder(r, v);
    }
    return good ? STATUS_OK : error_set(error, STATUS_NO_MEMORY, "no memory to schedule %u stages", r->stages);
}

/* Room on each stage for what it may keep, but for no more than `most` micro-batches. */
static void make_room(struct auto_play *p, uint32_t most)
{
    const struct order_auto_request *r = p->r;
    double chunks = (double)most * r->virtual_stages;
    for (uint32_t s = 0; s < r->stages; s++) {
        double room = r->limits == NULL ? chunks : floor(r->limits[s] * r->virtual_stages + 1e-9);
        p->stages[s].room = (uint32_t)fmin(room, chunks);
    }
}

/* Keep the draft that has just been played if it ends sooner, or as soon with fewer activations. Returns whether it ends sooner. */
static bool keep_best(struct search *search, double end, const char *rule)
{
    const struct order_table *draft = search->play.draft;
    uint32_t most = 0;
    for (uint32_t s = 0; s < draft->stages; s++) {
        most = search->play.stages[s].most > most ? search->play.stages[s].most : most;
    }
    bool sooner = end < search->result->makespan;
    if (isinf(end) || !(sooner || (end <= search->result->makespan && most < search->most))) {
        return false;
    }
    search->most = most;
    search->result->makespan = end;
    search->result->rule = rule;
    for (uint32_t s = 0; s < draft->stages; s++) {
        search->best->counts[s] = draft->counts[s];
        memcpy(search->best->steps[s], draft->steps[s], draft->counts[s] * sizeof *draft->steps[s]);
    }
    return sooner;
}

/* Plays with the preferences of `table`. */
static double play_again(struct search *search, const struct order_table *table)
{
    struct auto_play *p = &search->play;
    for (uint32_t s = 0; s < table->stages; s++) {
        for (uint32_t i = 0; i < table->counts[s]; i++) {
            const struct order_step *step = &table->steps[s][i];
            search->ranks[auto_pass(p, auto_virtual_stage(p, s, step->chunk), step->kind, step->micro_batch)] = i;
        }
    }
    p->ranks = search->ranks;
    double end = auto_play_greedily(p);
    p->ranks = NULL;
    return end;
}

static enum status try_registered(struct search *search, struct error *error)
{
    uint32_t count;
    const struct pipeline_order *const *orders = registry_orders(&count);
    for (uint32_t i = 0; i < count; i++) {
        bool usable;
        TRY(auto_given_order(&search->play, orders[i], &usable, error));
        if (usable) {
            const char *again = arena_printf(&search->best->arena, "%s, played again", orders[i]->name);
            keep_best(search, auto_time_draft(&search->play), orders[i]->name);
            keep_best(search, play_again(search, search->play.draft), again);
            if (again == NULL) {
                return error_set(error, STATUS_NO_MEMORY, "no memory to schedule %u stages", search->best->stages);
            }
        }
    }
    return STATUS_OK;
}

/* The draft by the rule with micro-batches entering at a pace, which it then need not keep. */
static double play_paced(struct search *search, const struct auto_rule *rule, double pace, uint32_t burst)
{
    struct auto_play *p = &search->play;
    p->rule = rule;
    p->pace = pace;
    p->burst = burst;
    (void)auto_play_greedily(p);
    p->pace = 0;
    p->burst = 0;
    double end = auto_time_draft(p);
    keep_best(search, end, rule->name);
    return end;
}

/* Whether a stage has been full in what has just been played, though not with all that there is. */
static bool is_short_of_memory(const struct auto_play *p)
{
    for (uint32_t s = 0; s < p->r->stages; s++) {
        const struct auto_stage *state = &p->stages[s];
        if (state->most == state->room && state->room < (uint64_t)p->r->micro_batches * p->r->virtual_stages) {
            return true;
        }
    }
    return false;
}

/* Work of the busiest stage for one micro-batch. */
static double busiest(const struct auto_play *p)
{
    double most = 0;
    for (uint32_t s = 0; s < p->r->stages; s++) {
        double work = 0;
        for (uint32_t c = 0; c < p->r->virtual_stages; c++) {
            for (uint32_t kind = 0; kind < p->kinds; kind++) {
                work += auto_time(p->r, auto_virtual_stage(p, s, c), kind);
            }
        }
        most = fmax(most, work);
    }
    return most;
}

/* Where memory is short, stages that fill it at once stand still until the first micro-batches are back: even steps need less. The pace is at least what the busiest stage needs, and with less memory a
 * longer one; a burst at first fills what memory there is beyond that. Looked for one after the other, in steps of a tenth and of a half. */
static void try_paces(struct search *search)
{
    static const struct auto_rule PACED = { "paced", 0, (double)INFINITY, 0, false },
                                  BURST = { "paced after a burst", 0, (double)INFINITY, 0, false },
                                  PATIENT = { "paced, patient", 1, (double)INFINITY, 0, false };
    const struct order_auto_request *r = search->play.r;
    double work = busiest(&search->play), best = (double)INFINITY, best_pace = work;
    uint32_t best_burst = 0;
    for (double pace = work; (r->micro_batches - 1) * pace < search->result->makespan; pace *= 1.1) {
        double end = play_paced(search, &PACED, pace, 0);
        best_pace = end < best ? pace : best_pace;
        best = fmin(best, end);
    }
    double paces[] = { work, best_pace };
    for (int i = best_pace > work ? 0 : 1; i < 2; i++) {
        for (uint32_t burst = 1; burst < r->micro_batches && burst < search->play.stages[0].room;
             burst += (burst + 1) / 2) {
            double end = play_paced(search, &BURST, paces[i], burst);
            if (end < best) {
                best = end;
                best_pace = paces[i];
                best_burst = burst;
            }
        }
    }
    play_paced(search, &PATIENT, best_pace, best_burst);
}

static enum status find_best_in_room(struct search *search, struct error *error)
{
    struct auto_play *p = &search->play;
    TRY(try_registered(search, error));
    bool is_short = false;
    for (int i = 0; i < RULE_COUNT; i++) {
        p->rule = &RULES[i];
        keep_best(search, auto_play_greedily(p), RULES[i].name);
        is_short = is_short || is_short_of_memory(p);
    }
    if (is_short) {
        try_paces(search);
    }
    while (keep_best(search, play_again(search, search->best), search->result->rule)) {
    }
    return STATUS_OK;
}

/* What no order can beat, into `bound`, by whole units: all times together are less than 2^60 of them, and what is cut off makes the bound no higher. */
static enum status find_bound(const struct order_auto_request *r, struct arena *arena, double *bound,
                              struct error *error)
{
    uint32_t all = r->stages * r->virtual_stages;
    struct bound_stage *stages = arena_array(arena, struct bound_stage, all);
    double total = 0;
    if (stages == NULL) {
        return error_set(error, STATUS_NO_MEMORY, "no memory to schedule %u stages", r->stages);
    }
    for (uint32_t v = 0; v < all; v++) {
        total += r->micro_batches * (r->forward[v] + r->backward[v] + auto_recompute(r, v) +
                                     (r->weight != NULL ? r->weight[v] : 0) + 2 * r->hop);
    }
    double scale = 0x1p60 / total;
    for (uint32_t v = 0; v < all; v++) {
        double again = r->recompute_eagerly ? auto_recompute(r, v) : 0;
        stages[v] =
            (struct bound_stage){ .device = order_auto_holder(r, v),
                                  .micro_batches = r->micro_batches,
                                  .forward = (int64_t)(r->forward[v] * scale),
                                  .backward = (int64_t)((r->backward[v] + auto_recompute(r, v) - again) * scale),
                                  .again = (int64_t)(again * scale),
                                  .weight = r->weight != NULL ? (int64_t)(r->weight[v] * scale) : 0 };
    }
    const struct pipeline_bound_request request = { all, all, stages, (int64_t)(r->hop * scale) };
    struct pipeline_bound found = { 0 };
    TRY(pipeline_bound_find(&request, &found, error));
    *bound = (double)found.makespan / scale;
    return STATUS_OK;
}

/* More memory must not make a pipeline slower, and greedy play can, so what less of it gives is found first. */
static enum status find_best(struct search *search, struct arena *arena, struct error *error)
{
    const struct order_auto_request *r = search->play.r;
    double most = 0, bound = 0; /* most: that any stage may keep */
    for (uint32_t s = 0; s < r->stages; s++) {
        most = fmax(most, r->limits == NULL ? r->micro_batches : r->limits[s]);
    }
    uint64_t passes = (uint64_t)r->stages * r->virtual_stages * r->micro_batches;
    if (passes * r->micro_batches <= ORDER_AUTO_SMALL) {
        TRY(find_bound(r, arena, &bound, error));
        for (uint32_t less = 1; less < r->micro_batches && less < most; less++) {
            make_room(&search->play, less);
            TRY(find_best_in_room(search, error));
            if (search->result->makespan <= bound * (1 + 1e-12)) { /* sums of doubles against a sum of whole units */
                return STATUS_OK;
            }
        }
    }
    make_room(&search->play, r->micro_batches);
    return find_best_in_room(search, error);
}

enum status order_auto(const struct order_auto_request *request, struct order_table *table,
                       struct order_auto_result *result, struct error *error)
{
    struct arena arena = { 0 };
    enum status status = STATUS_OK;
    *table = (struct order_table){ .stages = request->stages,
                                   .micro_batches = request->micro_batches,
                                   .virtual_stages = request->virtual_stages,
                                   .splits_backward = request->weight != NULL };
    *result = (struct order_auto_result){ .makespan = (double)INFINITY, .rule = "" };
    TRY(check_request(request, error));
    struct order_table draft = *table;
    struct search search = { .play = { .r = request,
                                       .draft = &draft,
                                       .kinds = request->weight == NULL ? 2 : 3,
                                       .last = request->stages * request->virtual_stages - 1 },
                             .best = table,
                             .result = result };
    struct auto_play *p = &search.play;
    search.ranks = arena_array(&arena, uint32_t, (size_t)(p->last + 1) * request->micro_batches * p->kinds);
    TRY_OR_FAIL(allocate_table(table, &table->arena, p, error));
    TRY_OR_FAIL(allocate_table(&draft, &arena, p, error));
    TRY_OR_FAIL(allocate_play(p, &arena, error));
    TRY_OR_FAIL(search.ranks != NULL
                    ? STATUS_OK
                    : error_set(error, STATUS_NO_MEMORY, "no memory to schedule %u stages", request->stages));
    TRY_OR_FAIL(find_best(&search, &arena, error));
fail:
    arena_free(&arena);
    if (status != STATUS_OK) {
        order_table_free(table);
    }
    return status;
}
