/* Whether the messages between stages can pass: what a bare pipeline does not know, and a schedule has.
 *
 * All messages of one direction from one stage to another go through one queue of sends and one of receives, each in its own stage's order of steps (sim/plan/lower_transfer.c). Where both stages have
 * one order a message passes as soon as it is made, and order_table_check has told the rest. Where they differ the first two that do wait for each other for ever. */
#include <stdio.h>
#include <string.h>

#include "sim/base/check.h"
#include "sim/plan/order_table_internal.h"

struct messages {
    const struct order_table *t;
    uint32_t *holders;  /* [virtual stages] */
    uint32_t *received; /* [stages]: behind the step that took the last message there of those being looked at */
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

/* The next step of `kind` of the receiver that takes a message of `sender`. */
static uint32_t next_received(const struct messages *m, uint32_t sender, uint32_t receiver, uint32_t kind)
{
    const struct order_table *t = m->t;
    for (uint32_t at = m->received[receiver]; at < t->counts[receiver]; at++) {
        const struct order_step *step = &t->steps[receiver][at];
        uint32_t from;
        if (step->kind == kind && neighbour(t, virtual_of(t, receiver, step), kind, false, &from) &&
            m->holders[from] == sender) {
            return at;
        }
    }
    check_failed("what is sent is received", __FILE__, __LINE__); /* every step stands once */
}

static enum status refuse(const struct order_table *t, uint32_t sender, const struct order_step *sent, uint32_t sent_to,
                          uint32_t receiver, uint32_t at, const char *file, struct error *error)
{
    char first[ORDER_WORD_BYTES], wanted[ORDER_WORD_BYTES], path[64];
    const struct order_step *step = &t->steps[receiver][at];
    order_table_word(t, sent->kind, sent->micro_batch, sent_to, first);
    order_table_word(t, step->kind, step->micro_batch, virtual_of(t, receiver, step), wanted);
    (void)snprintf(path, sizeof path, "stage %u, position %u", receiver, at + 1);
    return error_at(error, STATUS_BAD_INPUT, file, path,
                    "the stage takes what %s needs first, but stage %u sends what %s needs before that: messages "
                    "between stages keep their order, and both wait for ever. Run them in the same order on both",
                    wanted, sender, first);
}

/* All that a stage sends in one direction. */
static enum status check_sent(const struct messages *m, uint32_t stage, uint32_t kind, const char *file,
                              struct error *error)
{
    const struct order_table *t = m->t;
    memset(m->received, 0, t->stages * sizeof *m->received);
    for (uint32_t i = 0; i < t->counts[stage]; i++) {
        const struct order_step *step = &t->steps[stage][i];
        uint32_t to;
        if (step->kind != kind || !neighbour(t, virtual_of(t, stage, step), kind, true, &to) ||
            m->holders[to] == stage) {
            continue;
        }
        uint32_t receiver = m->holders[to], at = next_received(m, stage, receiver, kind);
        const struct order_step *taken = &t->steps[receiver][at];
        if (taken->micro_batch != step->micro_batch || virtual_of(t, receiver, taken) != to) {
            return refuse(t, stage, step, to, receiver, at, file, error);
        }
        m->received[receiver] = at + 1;
    }
    return STATUS_OK;
}

enum status order_table_check_transfers(const struct order_table *table, const char *file, struct error *error)
{
    struct arena arena = { 0 };
    uint32_t all = table->stages * table->virtual_stages;
    struct messages m = { .t = table,
                          .holders = arena_array(&arena, uint32_t, all),
                          .received = arena_array(&arena, uint32_t, table->stages) };
    enum status status = STATUS_OK;
    if (m.holders == NULL || m.received == NULL) {
        arena_free(&arena);
        return error_set(error, STATUS_NO_MEMORY, "no memory to check a schedule of %u stages", table->stages);
    }
    for (uint32_t i = 0; i < all; i++) {
        m.holders[table->placement[i]] = i / table->virtual_stages;
    }
    for (uint32_t s = 0; s < table->stages && status == STATUS_OK; s++) {
        status = check_sent(&m, s, STEP_FORWARD, file, error);
        status = status == STATUS_OK ? check_sent(&m, s, STEP_BACKWARD, file, error) : status;
    }
    arena_free(&arena);
    return status;
}
