#include "sim/plan/order_auto.h"

#include <math.h>
#include <string.h>

#include "sim/base/check.h"

/* How to prefer, beyond what all rules share. */
struct rule {
    const char *name;
    double patience; /* a weight part waits when a backward arrives within so much of its time */
    int32_t ahead;   /* forwards before the first backward: at most stages - s + ahead; INT32_MAX: no bound */
    bool weight_before_forward; /* once the stage has begun backwards */
};

static const struct rule RULES[] = {
    { "forwards first", 0, INT32_MAX, false },
    { "forwards first, patient", 1, INT32_MAX, false },
    { "weights first", 0, INT32_MAX, true },
    { "weights first, patient", 0.5, INT32_MAX, true },
    { "1f1b's depth", 0, 0, false },
    { "1f1b's depth, patient", 1, 0, false },
    { "1f1b's depth, weights first", 0.5, 0, true },
    { "one deeper", 0.5, 1, false },
    { "one deeper, weights first", 0.5, 1, true },
    { "two deeper", 0.5, 2, false },
    { "two deeper, weights first", 0.5, 2, true },
};
enum { RULE_COUNT = sizeof RULES / sizeof RULES[0] };

struct stage_state {
    double free_at, first_start;
    uint32_t next[STEP_KIND_COUNT];
    uint32_t held;
};

/* What a stage would do next, and when. */
struct choice {
    double at;
    uint32_t kind;
};

struct play {
    const struct order_auto_request *r;
    const struct rule *rule;
    struct stage_state *stages;
    double *arrivals[2]; /* [stages * micro_batches]: when the input of F, of B is there; INFINITY: not yet known */
    struct order_step **steps;
    uint32_t *counts;
    uint32_t leaves;        /* a power of two, at least 2 and `stages` */
    struct choice *choices; /* [leaves] */
    uint32_t *first; /* [2 * leaves]: tree over them, its root at 1: the stage below each node that begins first */
};

static double time_of(const struct order_auto_request *r, uint32_t stage, uint32_t kind)
{
    return kind == STEP_FORWARD ? r->forward[stage] : kind == STEP_BACKWARD ? r->backward[stage] : r->weight[stage];
}

static uint32_t kinds(const struct order_auto_request *r)
{
    return r->weight == NULL ? 2 : 3;
}

static uint32_t limit_of(const struct order_auto_request *r, uint32_t stage)
{
    double limit = r->limits == NULL ? r->micro_batches : floor(r->limits[stage] + 1e-9);
    return limit < r->micro_batches ? (uint32_t)limit : r->micro_batches;
}

/* ---- bounds ---- */

double order_lower_bound(const struct order_auto_request *r)
{
    double down = 0, back = 0, bound = 0;
    for (uint32_t s = r->stages; s-- > 0;) { /* from stage s to the end of the model and back to it */
        down += r->forward[s] + (s + 1 < r->stages ? r->hop : 0);
        back += r->backward[s] + (s + 1 < r->stages ? r->hop : 0);
    }
    bound = down + back + (r->weight != NULL ? r->weight[0] : 0);
    double before = 0, after = 0;
    for (uint32_t s = 0; s < r->stages; s++) {
        double weight = r->weight != NULL ? r->weight[s] : 0;
        double work = r->micro_batches * (r->forward[s] + r->backward[s] + weight);
        /* its last input gradient still goes back to stage 0, unless it ends with weight parts: one of the two */
        double tail = after > 0 ? fmax(0, after - r->micro_batches * weight) : 0;
        bound = fmax(bound, before + work + tail);
        before += r->forward[s] + r->hop;
        after += r->backward[s] + r->hop;
    }
    return bound;
}

/* ---- playing ---- */

static void run_step(struct play *p, uint32_t stage, uint32_t kind, double at)
{
    const struct order_auto_request *r = p->r;
    struct stage_state *state = &p->stages[stage];
    uint32_t micro_batch = state->next[kind]++;
    double end = at + time_of(r, stage, kind);
    p->steps[stage][p->counts[stage]++] = (struct order_step){ .kind = (uint8_t)kind, .micro_batch = micro_batch };
    state->free_at = end;
    state->held += kind == STEP_FORWARD;
    state->held -= kind == kinds(r) - 1;
    if (kind == STEP_FORWARD) {
        bool last = stage + 1 == r->stages;
        size_t next = (size_t)(last ? stage : stage + 1) * r->micro_batches + micro_batch;
        p->arrivals[last ? STEP_BACKWARD : STEP_FORWARD][next] = end + (last ? 0 : r->hop);
    } else if (kind == STEP_BACKWARD && stage > 0) {
        p->arrivals[STEP_BACKWARD][(size_t)(stage - 1) * r->micro_batches + micro_batch] = end + r->hop;
    }
}

static double arrival(const struct play *p, uint32_t stage, uint32_t kind)
{
    uint32_t micro_batch = p->stages[stage].next[kind];
    return micro_batch < p->r->micro_batches ? p->arrivals[kind][(size_t)stage * p->r->micro_batches + micro_batch]
                                             : (double)INFINITY;
}

static bool may_forward(const struct play *p, uint32_t stage)
{
    const struct stage_state *state = &p->stages[stage];
    int64_t ahead = p->rule->ahead == INT32_MAX ? INT32_MAX : (int64_t)p->r->stages - stage + p->rule->ahead;
    return state->held < limit_of(p->r, stage) &&
           (int64_t)state->next[STEP_FORWARD] - state->next[STEP_BACKWARD] < ahead;
}

/* What the stage would do, and when at the earliest; INFINITY: it waits for others. */
static double choose(const struct play *p, uint32_t stage, uint32_t *kind)
{
    const struct stage_state *state = &p->stages[stage];
    double now = state->free_at, backward = fmax(now, arrival(p, stage, STEP_BACKWARD));
    double forward = may_forward(p, stage) ? fmax(now, arrival(p, stage, STEP_FORWARD)) : (double)INFINITY;
    bool weight = kinds(p->r) == 3 && state->next[STEP_BACKWARD_WEIGHT] < state->next[STEP_BACKWARD];
    bool full = state->held >= limit_of(p->r, stage);
    *kind = backward <= forward ? STEP_BACKWARD : STEP_FORWARD;
    double first = fmin(backward, forward);
    if (weight) {
        double time = p->r->weight[stage];
        bool idle = first > now && first - now >= (1 - p->rule->patience) * time;
        bool early = p->rule->weight_before_forward && *kind == STEP_FORWARD;
        bool frees = full && backward > now && state->next[STEP_FORWARD] < p->r->micro_batches;
        if (idle || early || frees || isinf(first)) {
            *kind = STEP_BACKWARD_WEIGHT;
            return now;
        }
    }
    return first;
}

/* The stage below the node that begins first; of equals the last. */
static void settle(struct play *p, uint32_t node)
{
    uint32_t left = p->first[2 * node], right = p->first[2 * node + 1];
    p->first[node] = p->choices[left].at < p->choices[right].at ? left : right;
}

static void consider(struct play *p, uint32_t stage)
{
    struct choice *own = &p->choices[stage];
    own->kind = 0;
    own->at = p->counts[stage] < kinds(p->r) * p->r->micro_batches ? choose(p, stage, &own->kind) : (double)INFINITY;
}

static void consider_again(struct play *p, uint32_t stage)
{
    consider(p, stage);
    for (uint32_t node = (p->leaves + stage) / 2; node > 0; node /= 2) {
        settle(p, node);
    }
}

static void consider_all(struct play *p)
{
    for (uint32_t leaf = 0; leaf < p->leaves; leaf++) {
        p->first[p->leaves + leaf] = leaf;
        p->choices[leaf].at = (double)INFINITY; /* those behind the last stage never begin */
    }
    for (uint32_t s = 0; s < p->r->stages; s++) {
        consider(p, s);
    }
    for (uint32_t node = p->leaves - 1; node > 0; node--) {
        settle(p, node);
    }
}

/* Always the stage whose next step begins first: what it knows by then is all there is to know. A step changes what its own stage and the two beside it would do. */
static void play(struct play *p)
{
    const struct order_auto_request *r = p->r;
    size_t cells = (size_t)r->stages * r->micro_batches;
    for (size_t i = 0; i < cells; i++) {
        p->arrivals[STEP_FORWARD][i] = i < r->micro_batches ? 0 : (double)INFINITY;
        p->arrivals[STEP_BACKWARD][i] = (double)INFINITY;
    }
    memset(p->stages, 0, r->stages * sizeof *p->stages);
    memset(p->counts, 0, r->stages * sizeof *p->counts);
    consider_all(p);
    for (size_t step = 0; step < cells * kinds(r); step++) {
        uint32_t stage = p->first[1];
        struct choice best = p->choices[stage];
        CHECK(!isinf(best.at));
        run_step(p, stage, best.kind, best.at);
        for (uint32_t s = stage > 0 ? stage - 1 : 0; s <= stage + 1 && s < r->stages; s++) {
            consider_again(p, s);
        }
    }
}

/* ---- hand-made candidates ---- */

struct hand {
    const char *name;
    bool split;
    uint32_t (*warm_up)(uint32_t stages, uint32_t stage);
    uint32_t weights_late; /* weight parts begin after so many backwards, times the stage */
};

static uint32_t warm_up_1(uint32_t stages, uint32_t stage)
{
    return stages - stage;
}

static uint32_t warm_up_2(uint32_t stages, uint32_t stage)
{
    return 2 * (stages - stage) - 1;
}

static const struct hand HANDS[] = {
    { "1f1b", false, warm_up_1, 0 },
    { "zb-h1", true, warm_up_1, 1 },
    { "zb-h2", true, warm_up_2, 2 },
};
enum { HAND_COUNT = sizeof HANDS / sizeof HANDS[0] };

/* Play the fixed order; returns false when it keeps more than allowed. 1f1b with split backwards runs each weight part at once. */
static bool play_hand(struct play *p, const struct hand *hand)
{
    const struct order_auto_request *r = p->r;
    uint32_t m = r->micro_batches;
    for (uint32_t s = 0; s < r->stages; s++) {
        uint32_t forward = 0, weight = 0, count = 0, held = 0, warm_up = hand->warm_up(r->stages, s);
        struct order_step *steps = p->steps[s];
        for (; forward < warm_up && forward < m; forward++) {
            steps[count++] = (struct order_step){ STEP_FORWARD, 0, forward };
        }
        for (uint32_t b = 0; b < m; b++) {
            held = forward - weight > held ? forward - weight : held;
            steps[count++] = (struct order_step){ STEP_BACKWARD, 0, b };
            if (kinds(r) == 2) {
                weight++;
            } else if (!hand->split || b >= hand->weights_late * s) {
                steps[count++] = (struct order_step){ STEP_BACKWARD_WEIGHT, 0, weight++ };
            }
            if (forward < m) {
                steps[count++] = (struct order_step){ STEP_FORWARD, 0, forward++ };
            }
        }
        for (; kinds(r) == 3 && weight < m; weight++) {
            steps[count++] = (struct order_step){ STEP_BACKWARD_WEIGHT, 0, weight };
        }
        p->counts[s] = count;
        if (held > limit_of(r, s)) {
            return false;
        }
    }
    return true;
}

/* Times of a fixed order: as soon as possible. */
static double time_order(struct play *p)
{
    const struct order_auto_request *r = p->r;
    size_t cells = (size_t)r->stages * r->micro_batches;
    double end = 0;
    for (size_t i = 0; i < cells; i++) {
        p->arrivals[STEP_FORWARD][i] = i < r->micro_batches ? 0 : (double)INFINITY;
        p->arrivals[STEP_BACKWARD][i] = (double)INFINITY;
    }
    memset(p->stages, 0, r->stages * sizeof *p->stages);
    for (bool moved = true; moved;) {
        moved = false;
        for (uint32_t s = 0; s < r->stages; s++) {
            struct stage_state *state = &p->stages[s];
            for (uint32_t at = state->next[0] + state->next[1] + state->next[2]; at < p->counts[s]; at++) {
                uint32_t kind = p->steps[s][at].kind, count = p->counts[s];
                double input = kind == STEP_BACKWARD_WEIGHT ? 0 : arrival(p, s, kind);
                if (isinf(input)) {
                    break;
                }
                p->counts[s] = at; /* run_step writes the step where it stands */
                run_step(p, s, kind, fmax(state->free_at, input));
                p->counts[s] = count;
                moved = true;
            }
            end = fmax(end, state->free_at);
        }
    }
    return end;
}

static double end_of(const struct play *p)
{
    double end = 0;
    for (uint32_t s = 0; s < p->r->stages; s++) {
        end = fmax(end, p->stages[s].free_at);
    }
    return end;
}

/* ---- the best of all ---- */

static enum status check_request(const struct order_auto_request *r, struct error *error)
{
    static const char *const WHAT[STEP_KIND_COUNT] = { "forward", "backward", "weight gradient" };
    if ((uint64_t)r->stages * r->micro_batches > ORDER_AUTO_PASSES_MAX) {
        return error_set(error, STATUS_LIMIT,
                         "%u stages x %u micro-batches: the scheduler takes up to %d passes, so %d micro-batches here; "
                         "a registered order takes more",
                         r->stages, r->micro_batches, ORDER_AUTO_PASSES_MAX, ORDER_AUTO_PASSES_MAX / (int)r->stages);
    }
    for (uint32_t s = 0; s < r->stages; s++) {
        for (uint32_t kind = 0; kind < kinds(r); kind++) {
            double time = time_of(r, s, kind);
            if (!(time > 0) || isinf(time)) {
                return error_set(error, STATUS_BAD_INPUT,
                                 "stage %u: a %s that takes %g: the scheduler needs times above 0", s, WHAT[kind],
                                 time);
            }
        }
        if (r->limits != NULL && !(r->limits[s] >= 1)) {
            return error_set(error, STATUS_BAD_INPUT, "stage %u may keep %g activations: it needs at least 1", s,
                             r->limits[s]);
        }
    }
    return STATUS_OK;
}

static enum status allocate(struct order_table *t, struct play *p, struct error *error)
{
    const struct order_auto_request *r = p->r;
    size_t cells = (size_t)r->stages * r->micro_batches;
    t->steps = arena_array(&t->arena, struct order_step *, r->stages);
    t->counts = arena_array(&t->arena, uint32_t, r->stages);
    t->placement = arena_array(&t->arena, uint32_t, r->stages);
    p->steps = arena_array(&t->arena, struct order_step *, r->stages);
    p->counts = arena_array(&t->arena, uint32_t, r->stages);
    p->stages = arena_array(&t->arena, struct stage_state, r->stages);
    p->arrivals[0] = arena_array(&t->arena, double, cells);
    p->arrivals[1] = arena_array(&t->arena, double, cells);
    for (p->leaves = 2; p->leaves < r->stages;) {
        p->leaves *= 2;
    }
    p->choices = arena_array(&t->arena, struct choice, p->leaves);
    p->first = arena_array(&t->arena, uint32_t, 2 * (size_t)p->leaves);
    bool good = t->steps != NULL && t->counts != NULL && t->placement != NULL && p->steps != NULL &&
                p->counts != NULL && p->stages != NULL && p->arrivals[0] != NULL && p->arrivals[1] != NULL &&
                p->choices != NULL && p->first != NULL;
    for (uint32_t s = 0; good && s < r->stages; s++) {
        t->placement[s] = s;
        t->steps[s] = arena_array(&t->arena, struct order_step, (size_t)r->micro_batches * kinds(r));
        p->steps[s] = arena_array(&t->arena, struct order_step, (size_t)r->micro_batches * kinds(r));
        good = t->steps[s] != NULL && p->steps[s] != NULL;
    }
    return good ? STATUS_OK : error_set(error, STATUS_NO_MEMORY, "no memory to schedule %u stages", r->stages);
}

/* Keep the play's order if it ends sooner. */
static void keep_best(struct order_table *t, const struct play *p, double end, const char *rule,
                      struct order_auto_result *result)
{
    if (end >= result->makespan) {
        return;
    }
    result->makespan = end;
    result->rule = rule;
    for (uint32_t s = 0; s < p->r->stages; s++) {
        t->counts[s] = p->counts[s];
        memcpy(t->steps[s], p->steps[s], p->counts[s] * sizeof *t->steps[s]);
    }
}

enum status order_auto(const struct order_auto_request *request, struct order_table *table,
                       struct order_auto_result *result, struct error *error)
{
    struct play p = { .r = request };
    *table = (struct order_table){ .stages = request->stages,
                                   .micro_batches = request->micro_batches,
                                   .virtual_stages = 1,
                                   .splits_backward = request->weight != NULL };
    *result = (struct order_auto_result){ .makespan = (double)INFINITY, .lower_bound = 0, .rule = "" };
    TRY(check_request(request, error));
    enum status status = allocate(table, &p, error);
    if (status != STATUS_OK) {
        order_table_free(table);
        return status;
    }
    for (int i = 0; i < HAND_COUNT; i++) {
        if ((request->weight != NULL || !HANDS[i].split) && play_hand(&p, &HANDS[i])) {
            keep_best(table, &p, time_order(&p), HANDS[i].name, result);
        }
    }
    for (int i = 0; i < RULE_COUNT; i++) {
        p.rule = &RULES[i];
        play(&p);
        keep_best(table, &p, end_of(&p), RULES[i].name, result);
    }
    result->lower_bound = order_lower_bound(request);
    return STATUS_OK;
}
