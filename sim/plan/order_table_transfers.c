/* Whether the messages between stages can pass: what a bare pipeline does not know, and a schedule has. */
#include <stdio.h>
#include <string.h>

#include "sim/base/check.h"
#include "sim/plan/order_table_internal.h"

enum { DIRECTIONS = 2 }; /* of activations and of gradients: STEP_FORWARD, STEP_BACKWARD */

/* A stage has one queue of sends and one of receives in each direction. Both hold their messages in the order of the stage's steps, and a message passes when it heads both. */
struct ends {
    uint32_t sends[DIRECTIONS],
        receives[DIRECTIONS]; /* the step whose message is the queue's head, or the first step behind the last one's */
    uint32_t next;            /* the step to run */
};

struct player {
    const struct order_table *t;
    uint32_t *holders; /* [virtual stages] */
    bool *arrived;     /* [virtual stages * micro-batches * DIRECTIONS]: what the step needs is there */
    struct ends *ends; /* [stages] */
};

static uint32_t virtual_of(const struct order_table *t, uint32_t stage, const struct order_step *step)
{
    return t->placement[stage * t->virtual_stages + step->chunk];
}

/* The virtual stage that gets what the step makes (`after`), or made what it needs; false at the ends of the model. */
static bool neighbour(const struct order_table *t, uint32_t v, uint32_t kind, bool after, uint32_t *other)
{
    bool up = (kind == STEP_FORWARD) == after;
    *other = up ? v + 1 : v - 1;
    return up ? v + 1 < t->stages * t->virtual_stages : v > 0;
}

static bool *arrival(const struct player *p, uint32_t v, const struct order_step *step)
{
    return &p->arrived[((size_t)v * p->t->micro_batches + step->micro_batch) * DIRECTIONS + step->kind];
}

/* From `at` on the first step of `kind` with a message to (`after`) or from another stage. */
static uint32_t head(const struct player *p, uint32_t stage, uint32_t kind, bool after, uint32_t at)
{
    const struct order_table *t = p->t;
    uint32_t other;
    while (at < t->counts[stage] && (t->steps[stage][at].kind != kind ||
                                     !neighbour(t, virtual_of(t, stage, &t->steps[stage][at]), kind, after, &other) ||
                                     p->holders[other] == stage)) {
        at++;
    }
    return at;
}

static bool run_steps(const struct player *p, uint32_t stage)
{
    const struct order_table *t = p->t;
    struct ends *ends = &p->ends[stage];
    uint32_t other, from = ends->next;
    for (; ends->next < t->counts[stage]; ends->next++) {
        const struct order_step *step = &t->steps[stage][ends->next];
        uint32_t v = virtual_of(t, stage, step);
        if (step->kind == STEP_BACKWARD_WEIGHT) {
            continue;
        }
        if (neighbour(t, v, step->kind, false, &other) && !*arrival(p, v, step)) {
            break;
        }
        if (neighbour(t, v, step->kind, true, &other) && p->holders[other] == stage) {
            *arrival(p, other, step) = true; /* stays on the device */
        }
    }
    return ends->next > from;
}

/* The receiver of the head of a queue of sends that has been made; false: none is ready. */
static bool ready(const struct player *p, uint32_t stage, uint32_t kind, uint32_t *receiver, uint32_t *v)
{
    struct ends *ends = &p->ends[stage];
    ends->sends[kind] = head(p, stage, kind, true, ends->sends[kind]);
    if (ends->sends[kind] >= ends->next) {
        return false;
    }
    (void)neighbour(p->t, virtual_of(p->t, stage, &p->t->steps[stage][ends->sends[kind]]), kind, true, v);
    *receiver = p->holders[*v];
    uint32_t *at = &p->ends[*receiver].receives[kind];
    *at = head(p, *receiver, kind, false, *at);
    return true;
}

static bool pass_messages(const struct player *p, uint32_t stage, uint32_t kind)
{
    const struct order_table *t = p->t;
    uint32_t receiver, v;
    bool moved = false;
    while (ready(p, stage, kind, &receiver, &v)) {
        struct ends *to = &p->ends[receiver];
        const struct order_step *sent = &t->steps[stage][p->ends[stage].sends[kind]];
        const struct order_step *wanted = &t->steps[receiver][to->receives[kind]];
        if (wanted->micro_batch != sent->micro_batch || virtual_of(t, receiver, wanted) != v) {
            break;
        }
        *arrival(p, v, sent) = moved = true;
        p->ends[stage].sends[kind]++;
        to->receives[kind]++;
    }
    return moved;
}

/* Nothing moves any more: a message that has been made does not head the queue of who should take it. */
static enum status tell(const struct player *p, const char *file, struct error *error)
{
    const struct order_table *t = p->t;
    char sent[ORDER_WORD_BYTES], wanted[ORDER_WORD_BYTES], path[64];
    for (uint32_t s = 0; s < t->stages; s++) {
        for (uint32_t kind = 0; kind < DIRECTIONS; kind++) {
            uint32_t receiver, v;
            if (!ready(p, s, kind, &receiver, &v)) {
                continue;
            }
            uint32_t at = p->ends[receiver].receives[kind];
            const struct order_step *step = &t->steps[s][p->ends[s].sends[kind]], *first = &t->steps[receiver][at];
            order_table_word(t, kind, step->micro_batch, v, sent);
            order_table_word(t, kind, first->micro_batch, virtual_of(t, receiver, first), wanted);
            (void)snprintf(path, sizeof path, "stage %u, position %u", receiver, at + 1);
            return error_at(
                error, STATUS_BAD_INPUT, file, path,
                "the stage takes what %s needs first, but stage %u sends what %s needs before that: messages "
                "between stages keep their order, and both wait for ever. Run them in the same order on both",
                wanted, s, sent);
        }
    }
    check_failed("a stuck pipeline has a message that does not pass", __FILE__, __LINE__);
}

enum status order_table_check_transfers(const struct order_table *table, const char *file, struct error *error)
{
    struct arena arena = { 0 };
    uint32_t all = table->stages * table->virtual_stages;
    struct player p = { .t = table,
                        .holders = arena_array(&arena, uint32_t, all),
                        .arrived = arena_array(&arena, bool, (size_t)all * table->micro_batches * DIRECTIONS),
                        .ends = arena_array(&arena, struct ends, table->stages) };
    enum status status = STATUS_OK;
    if (p.holders == NULL || p.arrived == NULL || p.ends == NULL) {
        arena_free(&arena);
        return error_set(error, STATUS_NO_MEMORY, "no memory to check a schedule of %u stages", table->stages);
    }
    for (uint32_t i = 0; i < all; i++) {
        p.holders[table->placement[i]] = i / table->virtual_stages;
    }
    for (bool moved = true; moved;) {
        moved = false;
        for (uint32_t s = 0; s < table->stages; s++) {
            moved = run_steps(&p, s) || moved;
            for (uint32_t kind = 0; kind < DIRECTIONS; kind++) {
                moved = pass_messages(&p, s, kind) || moved;
            }
        }
    }
    for (uint32_t s = 0; s < table->stages && status == STATUS_OK; s++) {
        status = p.ends[s].next < table->counts[s] ? tell(&p, file, error) : STATUS_OK;
    }
    arena_free(&arena);
    return status;
}
