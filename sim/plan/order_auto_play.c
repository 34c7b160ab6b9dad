/* Playing a pipeline forward in time: always the stage whose next step begins first, as what it knows by then is all there is to know. */
#include <math.h>
#include <string.h>

#include "sim/base/check.h"
#include "sim/plan/order_auto_internal.h"

/* ---- what all ways of playing share ---- */

uint32_t auto_virtual_stage(const struct auto_play *p, uint32_t stage, uint32_t chunk)
{
    return p->draft->placement[(size_t)stage * p->r->virtual_stages + chunk];
}

size_t auto_pass(const struct auto_play *p, uint32_t virtual_stage, uint32_t kind, uint32_t micro_batch)
{
    return ((size_t)virtual_stage * p->r->micro_batches + micro_batch) * p->kinds + kind;
}

static size_t cell(const struct auto_play *p, uint32_t virtual_stage, uint32_t micro_batch)
{
    return (size_t)virtual_stage * p->r->micro_batches + micro_batch;
}

double auto_recompute(const struct order_auto_request *r, uint32_t virtual_stage)
{
    return r->recompute != NULL ? r->recompute[virtual_stage] : 0;
}

double auto_time(const struct order_auto_request *r, uint32_t virtual_stage, uint32_t kind)
{
    return kind == STEP_FORWARD    ? r->forward[virtual_stage]
           : kind == STEP_BACKWARD ? r->backward[virtual_stage] + auto_recompute(r, virtual_stage)
                                   : r->weight[virtual_stage];
}

void auto_play_reset(struct auto_play *p)
{
    const struct order_auto_request *r = p->r;
    size_t cells = (size_t)(p->last + 1) * r->micro_batches;
    for (size_t i = 0; i < cells; i++) {
        p->arrivals[STEP_FORWARD][i] = p->arrivals[STEP_BACKWARD][i] = (double)INFINITY;
    }
    for (uint32_t i = 0; i < r->micro_batches; i++) {
        p->arrivals[STEP_FORWARD][i] = i > p->burst ? (i - p->burst) * p->pace : 0;
    }
    for (uint32_t s = 0; s < r->stages; s++) {
        p->stages[s] = (struct auto_stage){ .room = p->stages[s].room };
    }
    memset(p->next, 0, (p->last + 1) * sizeof *p->next);
    p->crowded = 0;
}

/* 1: the neighbour is the one behind `stage`, 0: the one before it. With two stages both are the same one. */
static uint32_t side_of(const struct auto_play *p, uint32_t stage, uint32_t neighbour)
{
    return neighbour == (stage + 1) % p->r->stages;
}

/* What the pass makes is the input of `kind` on virtual stage `to`. */
static uint32_t deliver(struct auto_play *p, uint32_t stage, uint32_t kind, uint32_t to, uint32_t micro_batch,
                        double end)
{
    uint32_t receiver = p->holders[to];
    bool own = receiver == stage;
    p->arrivals[kind][cell(p, to, micro_batch)] = end + (own ? 0 : p->r->hop);
    if (!own) {
        p->numbers[kind][cell(p, to, micro_batch)] = p->stages[stage].sent[kind][side_of(p, stage, receiver)]++;
    }
    return receiver;
}

/* The stage that sends the input, or `stage`: it has it itself. */
static uint32_t sender_of(const struct auto_play *p, uint32_t stage, uint32_t virtual_stage, uint32_t kind)
{
    if (kind == STEP_BACKWARD_WEIGHT || virtual_stage == (kind == STEP_FORWARD ? 0 : p->last)) {
        return stage;
    }
    return p->holders[kind == STEP_FORWARD ? virtual_stage - 1 : virtual_stage + 1];
}

/* Whether what has entered the pipeline will fill the stage. */
static void count_crowd(struct auto_play *p, uint32_t stage)
{
    struct auto_stage *state = &p->stages[stage];
    uint64_t due = ((uint64_t)p->next[0][STEP_FORWARD] + 1) * p->r->virtual_stages - state->freed;
    p->crowded -= state->crowded;
    state->crowded = due > state->room;
    p->crowded += state->crowded;
}

double auto_earliest(const struct auto_play *p, uint32_t stage, struct order_step step, double now)
{
    uint32_t v = auto_virtual_stage(p, stage, step.chunk);
    if (step.kind == STEP_BACKWARD_WEIGHT) {
        return now;
    }
    double head_start = step.kind == STEP_BACKWARD && p->r->recompute_eagerly ? auto_recompute(p->r, v) : 0;
    return fmax(now, p->arrivals[step.kind][cell(p, v, step.micro_batch)] - head_start);
}

uint32_t auto_run_step(struct auto_play *p, uint32_t stage, struct order_step step)
{
    struct auto_stage *state = &p->stages[stage];
    uint32_t v = auto_virtual_stage(p, stage, step.chunk), sender = sender_of(p, stage, v, step.kind);
    double end = auto_earliest(p, stage, step, state->free_at) + auto_time(p->r, v, step.kind);
    p->next[v][step.kind]++;
    state->free_at = end;
    state->held += step.kind == STEP_FORWARD;
    state->most = state->held > state->most ? state->held : state->most;
    state->held -= step.kind == p->kinds - 1;
    state->freed += step.kind == p->kinds - 1;
    if (sender != stage) {
        state->taken[step.kind][side_of(p, stage, sender)]++;
    }
    if (step.kind == STEP_FORWARD) {
        bool turns = v == p->last;
        return deliver(p, stage, turns ? STEP_BACKWARD : STEP_FORWARD, turns ? v : v + 1, step.micro_batch, end);
    }
    return step.kind == STEP_BACKWARD && v > 0 ? deliver(p, stage, STEP_BACKWARD, v - 1, step.micro_batch, end) : stage;
}

/* ---- what a stage would do ---- */

static struct order_step next_step(const struct auto_play *p, uint32_t stage, uint32_t chunk, uint32_t kind)
{
    return (struct order_step){ (uint8_t)kind, (uint16_t)chunk, p->next[auto_virtual_stage(p, stage, chunk)][kind] };
}

/* Whether a neighbour has sent it, as the next of its messages. */
static bool is_sent(const struct auto_play *p, uint32_t stage, struct order_step step)
{
    uint32_t v = auto_virtual_stage(p, stage, step.chunk), sender = sender_of(p, stage, v, step.kind);
    size_t at = cell(p, v, step.micro_batch);
    return !isinf(p->arrivals[step.kind][at]) &&
           (sender == stage ||
            p->numbers[step.kind][at] == p->stages[stage].taken[step.kind][side_of(p, stage, sender)]);
}

/* Whether one more forward of `chunk` leaves `room` in which every micro-batch gets through, the oldest first: what it and those behind it keep, and the chunks that it must still pass here. A pass is
 * over with the one of kind `over`. Of micro-batches that are as far, the oldest needs most. O(chunks). */
static bool leaves_room(const struct auto_play *p, uint32_t stage, uint32_t chunk, uint32_t over, uint32_t room)
{
    uint32_t chunks = p->r->virtual_stages, begun = 0, kept = 0;
    for (uint32_t c = 0; c < chunks; c++) {
        const uint32_t *next = p->next[auto_virtual_stage(p, stage, c)];
        uint32_t forward = next[STEP_FORWARD] + (c == chunk);
        begun += forward;
        kept += forward - next[over];
        if (c + 1 < chunks) {
            uint32_t oldest = p->next[auto_virtual_stage(p, stage, c + 1)][STEP_FORWARD] + (c + 1 == chunk);
            if (oldest < forward && begun - (c + 1) * oldest + chunks - 1 - c > room) {
                return false;
            }
        }
    }
    return kept <= room;
}

/* Passes from which the stage waits for its micro-batches to come back, as the rule has it: with equal stages, those of one round trip, and of all chunks. */
static uint32_t rule_room(const struct auto_play *p, uint32_t stage)
{
    uint64_t ways = 0;
    uint32_t chunks = p->r->virtual_stages;
    for (uint32_t c = 0; c < chunks; c++) {
        ways += p->last + 1 - auto_virtual_stage(p, stage, c);
    }
    double room = ceil(p->rule->depth * (double)ways / chunks) + p->rule->ahead;
    return room < chunks ? chunks : (uint32_t)room;
}

static bool has_depth(const struct auto_play *p)
{
    return p->ranks == NULL && !isinf(p->rule->depth);
}

static bool has_memory(const struct auto_play *p, uint32_t stage, uint32_t chunk)
{
    return leaves_room(p, stage, chunk, p->kinds - 1, p->stages[stage].room);
}

/* Whether one more micro-batch may enter: with room for all of it kept on every stage. */
static bool may_enter(const struct auto_play *p, uint32_t virtual_stage)
{
    uint32_t chunks = p->r->virtual_stages, back = 0;
    if (virtual_stage > 0 || p->crowded > 0) {
        return virtual_stage > 0;
    }
    for (uint32_t c = 0; c < chunks; c++) {
        back += p->next[auto_virtual_stage(p, 0, c)][STEP_BACKWARD];
    }
    return !has_depth(p) || (p->next[0][STEP_FORWARD] + 1) * chunks - back <= rule_room(p, 0);
}

static bool may_forward(const struct auto_play *p, uint32_t stage, uint32_t chunk)
{
    if (p->reserves) {
        return may_enter(p, auto_virtual_stage(p, stage, chunk));
    }
    return has_memory(p, stage, chunk) &&
           (!has_depth(p) || leaves_room(p, stage, chunk, STEP_BACKWARD, rule_room(p, stage)));
}

static bool sooner(const struct auto_play *p, uint32_t stage, const struct auto_choice *a, const struct auto_choice *b)
{
    if (a->at < b->at || a->at > b->at) {
        return a->at < b->at;
    }
    if (p->ranks != NULL) {
        uint32_t v = auto_virtual_stage(p, stage, a->step.chunk), w = auto_virtual_stage(p, stage, b->step.chunk);
        return p->ranks[auto_pass(p, v, a->step.kind, a->step.micro_batch)] <
               p->ranks[auto_pass(p, w, b->step.kind, b->step.micro_batch)];
    }
    return a->step.kind != b->step.kind ? a->step.kind == STEP_BACKWARD : a->step.micro_batch < b->step.micro_batch;
}

/* The forward or backward that begins first; at INFINITY: none. */
static struct auto_choice first_pass(const struct auto_play *p, uint32_t stage)
{
    struct auto_choice best = { (double)INFINITY, { 0 } };
    for (uint32_t c = 0; c < p->r->virtual_stages; c++) {
        for (uint32_t kind = STEP_FORWARD; kind <= STEP_BACKWARD; kind++) {
            struct auto_choice choice = { 0, next_step(p, stage, c, kind) };
            if (choice.step.micro_batch < p->r->micro_batches && is_sent(p, stage, choice.step) &&
                (kind == STEP_BACKWARD || may_forward(p, stage, c))) {
                choice.at = auto_earliest(p, stage, choice.step, p->stages[stage].free_at);
                best = sooner(p, stage, &choice, &best) ? choice : best;
            }
        }
    }
    return best;
}

/* The weight part that has waited longest, by micro-batch; of one micro-batch the chunk that went back first. */
static bool oldest_weight(const struct auto_play *p, uint32_t stage, struct order_step *step)
{
    bool found = false;
    for (uint32_t c = p->r->virtual_stages; p->kinds == 3 && c-- > 0;) {
        const uint32_t *next = p->next[auto_virtual_stage(p, stage, c)];
        if (next[STEP_BACKWARD_WEIGHT] < next[STEP_BACKWARD] &&
            (!found || next[STEP_BACKWARD_WEIGHT] < step->micro_batch)) {
            *step = next_step(p, stage, c, STEP_BACKWARD_WEIGHT);
            found = true;
        }
    }
    return found;
}

/* Whether forwards are left, and memory for none of them. */
static bool is_full(const struct auto_play *p, uint32_t stage)
{
    bool left = false;
    for (uint32_t c = 0; c < p->r->virtual_stages; c++) {
        if (p->next[auto_virtual_stage(p, stage, c)][STEP_FORWARD] < p->r->micro_batches) {
            left = true;
            if (has_memory(p, stage, c)) {
                return false;
            }
        }
    }
    return left;
}

static struct auto_choice choose(const struct auto_play *p, uint32_t stage)
{
    double now = p->stages[stage].free_at;
    struct auto_choice first = first_pass(p, stage), weight = { now, { 0 } };
    if (!oldest_weight(p, stage, &weight.step)) {
        return first;
    }
    if (p->ranks != NULL) {
        return sooner(p, stage, &weight, &first) ? weight : first;
    }
    double time = p->r->weight[auto_virtual_stage(p, stage, weight.step.chunk)];
    bool idle = first.at > now && first.at - now >= (1 - p->rule->patience) * time;
    bool early = p->rule->weight_before_forward && first.step.kind == STEP_FORWARD;
    bool frees = first.at > now && is_full(p, stage);
    return idle || early || frees || isinf(first.at) ? weight : first;
}

/* ---- playing ---- */

/* The stage below the node that begins first; of equals the last. */
static void settle(struct auto_play *p, uint32_t node)
{
    uint32_t left = p->first[2 * node], right = p->first[2 * node + 1];
    p->first[node] = p->choices[left].at < p->choices[right].at ? left : right;
}

static void consider_again(struct auto_play *p, uint32_t stage)
{
    p->choices[stage] = choose(p, stage);
    for (uint32_t node = (p->leaves + stage) / 2; node > 0; node /= 2) {
        settle(p, node);
    }
}

static void consider_all(struct auto_play *p)
{
    for (uint32_t leaf = 0; leaf < p->leaves; leaf++) {
        p->first[p->leaves + leaf] = leaf;
        /* those behind the last stage never begin */
        p->choices[leaf] = leaf < p->r->stages ? choose(p, leaf) : (struct auto_choice){ (double)INFINITY, { 0 } };
    }
    for (uint32_t node = p->leaves - 1; node > 0; node--) {
        settle(p, node);
    }
}

/* A step changes what its own stage would do and the one that waits for it; with room reserved, perhaps also whether a micro-batch enters. */
static void consider_around(struct auto_play *p, uint32_t stage, uint32_t receiver, struct order_step step)
{
    bool enters = step.kind == STEP_FORWARD && auto_virtual_stage(p, stage, step.chunk) == 0;
    for (uint32_t s = enters ? 0 : stage; p->reserves && (enters ? s < p->r->stages : s == stage); s++) {
        count_crowd(p, s);
    }
    consider_again(p, stage);
    if (receiver != stage) {
        consider_again(p, receiver);
    }
    if (p->reserves && stage != 0 && receiver != 0) {
        consider_again(p, 0);
    }
}

/* INFINITY: stuck, as the next message of a neighbour is one for which there is no room yet. */
static double play(struct auto_play *p)
{
    size_t passes = (size_t)(p->last + 1) * p->r->micro_batches * p->kinds;
    double end = 0;
    auto_play_reset(p);
    for (uint32_t s = 0; s < p->r->stages; s++) {
        count_crowd(p, s);
    }
    memset(p->draft->counts, 0, p->r->stages * sizeof *p->draft->counts);
    consider_all(p);
    for (size_t i = 0; i < passes; i++) {
        uint32_t stage = p->first[1];
        struct auto_choice best = p->choices[stage];
        if (isinf(best.at)) {
            return (double)INFINITY;
        }
        p->draft->steps[stage][p->draft->counts[stage]++] = best.step;
        uint32_t receiver = auto_run_step(p, stage, best.step);
        end = fmax(end, p->stages[stage].free_at);
        consider_around(p, stage, receiver, best.step);
    }
    return end;
}

double auto_play_greedily(struct auto_play *p)
{
    double end = play(p);
    if (isinf(end)) {
        p->reserves = true;
        end = play(p);
        p->reserves = false;
        CHECK(!isinf(end));
    }
    return end;
}
