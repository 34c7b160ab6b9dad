/* Whether steps given one by one can run, and what to move where they wait for themselves. */
#include <stdio.h>
#include <string.h>

#include "sim/base/check.h"
#include "sim/plan/order_table_internal.h"

struct runner {
    const struct order_table *t;
    uint32_t *done;    /* [virtual stages * micro-batches]: kinds that have run: 0, F, F and B */
    uint32_t *next;    /* [stages] */
    uint32_t *holders; /* [virtual stages] */
    uint32_t *awake;   /* [stages]: those whose turn it may be, awake_count of them */
    bool *listed;      /* [stages]: whether it stands there */
    uint32_t awake_count;
    struct order_step *changed; /* [most steps of a stage]: a mend being tried */
    const char *file;
    struct error *error;
};

/* What the step waits for on another stage; false: nothing, it may run. */
static bool waits_for(const struct runner *r, uint32_t stage, const struct order_step *step, uint32_t *virtual_stage)
{
    const struct order_table *t = r->t;
    uint32_t v = t->placement[stage * t->virtual_stages + step->chunk], last = t->stages * t->virtual_stages - 1;
    if (step->kind == STEP_FORWARD && v > 0) {
        *virtual_stage = v - 1;
        return r->done[(size_t)(v - 1) * t->micro_batches + step->micro_batch] == 0;
    }
    if (step->kind == STEP_BACKWARD && v < last) {
        *virtual_stage = v + 1;
        return r->done[(size_t)(v + 1) * t->micro_batches + step->micro_batch] < 2;
    }
    return false;
}

/* Put a stage whose turn it may be on the list; at most once. */
static void wake(struct runner *r, uint32_t stage)
{
    if (!r->listed[stage]) {
        r->listed[stage] = true;
        r->awake[r->awake_count++] = stage;
    }
}

/* Runs the stage until it waits, and wakes those that waited for what it did. */
static void run_stage(struct runner *r, uint32_t stage)
{
    const struct order_table *t = r->t;
    uint32_t last = t->stages * t->virtual_stages - 1, v;
    while (r->next[stage] < t->counts[stage] && !waits_for(r, stage, &t->steps[stage][r->next[stage]], &v)) {
        const struct order_step *step = &t->steps[stage][r->next[stage]++];
        uint32_t own = t->placement[stage * t->virtual_stages + step->chunk];
        if (step->kind == STEP_BACKWARD_WEIGHT) {
            continue;
        }
        r->done[(size_t)own * t->micro_batches + step->micro_batch] = step->kind + 1u;
        if (step->kind == STEP_FORWARD && own < last) {
            wake(r, r->holders[own + 1]);
        } else if (step->kind == STEP_BACKWARD && own > 0) {
            wake(r, r->holders[own - 1]);
        }
    }
}

/* Runs all that can run, O(steps). Returns a stage that is stuck, or `stages`: all have ended. */
static uint32_t play(struct runner *r)
{
    const struct order_table *t = r->t;
    memset(r->done, 0, (size_t)t->stages * t->virtual_stages * t->micro_batches * sizeof *r->done);
    memset(r->next, 0, t->stages * sizeof *r->next);
    for (uint32_t s = t->stages; s-- > 0;) {
        wake(r, s);
    }
    while (r->awake_count > 0) {
        uint32_t stage = r->awake[--r->awake_count];
        r->listed[stage] = false;
        run_stage(r, stage);
    }
    for (uint32_t s = 0; s < t->stages; s++) {
        if (r->next[s] < t->counts[s]) {
            return s;
        }
    }
    return t->stages;
}

static uint32_t position_of(const struct runner *r, uint32_t kind, uint32_t micro_batch, uint32_t virtual_stage)
{
    const struct order_table *t = r->t;
    uint32_t stage = r->holders[virtual_stage];
    for (uint32_t i = 0; i < t->counts[stage]; i++) {
        const struct order_step *step = &t->steps[stage][i];
        if (step->kind == kind && step->micro_batch == micro_batch &&
            t->placement[stage * t->virtual_stages + step->chunk] == virtual_stage) {
            return i;
        }
    }
    check_failed("every step is there", __FILE__, __LINE__);
}

/* ---- mending ---- */

/* One wait of the circle: `waiter` stands at its step and wants one of `stage`, at position `wanted`, which is behind the one where that stage is stuck. */
struct jam {
    uint32_t waiter, waits_at;
    uint32_t stage, stuck, wanted;
};

static struct jam jam_of(const struct runner *r, uint32_t waiter)
{
    const struct order_step *step = &r->t->steps[waiter][r->next[waiter]];
    uint32_t v = 0;
    waits_for(r, waiter, step, &v);
    uint32_t stage = r->holders[v];
    return (struct jam){ .waiter = waiter,
                         .waits_at = r->next[waiter],
                         .stage = stage,
                         .stuck = r->next[stage],
                         .wanted = position_of(r, step->kind, step->micro_batch, v) };
}

/* How far a micro-batch is when the step has what it needs of others: forwards up the virtual stages, backwards down, a weight gradient with its backward. */
static uint32_t depth_of(const struct order_table *t, uint32_t stage, const struct order_step *step)
{
    uint32_t v = t->placement[stage * t->virtual_stages + step->chunk], all = t->stages * t->virtual_stages;
    return step->kind == STEP_FORWARD ? v : 2 * all - 1 - v;
}

/* Whether `step` cannot come before `other`, of the same stage, whatever the other stages do. */
static bool needs(const struct order_table *t, uint32_t stage, const struct order_step *step,
                  const struct order_step *other)
{
    uint32_t mine = depth_of(t, stage, step), its = depth_of(t, stage, other);
    return step->micro_batch == other->micro_batch && other->kind != STEP_BACKWARD_WEIGHT &&
           (its < mine || (its == mine && step->kind == STEP_BACKWARD_WEIGHT));
}

/* Ways out, the shortest first. One that puts a step before what it needs is none. */
enum mend {
    MEND_FRONT,  /* what is wanted goes in front of the one that is stuck */
    MEND_BEHIND, /* the one that is stuck goes behind what is wanted */
    MEND_ALL,    /* what is wanted goes in front with what it needs itself */
    MEND_COUNT
};

/* Writes the stage's steps as the mend makes them. */
static bool apply(const struct order_table *t, const struct jam *jam, enum mend mend, struct order_step *changed)
{
    const struct order_step *steps = t->steps[jam->stage], *stuck = &steps[jam->stuck], *wanted = &steps[jam->wanted];
    uint32_t count = jam->stuck, before = 0;
    memcpy(changed, steps, t->counts[jam->stage] * sizeof *changed);
    for (uint32_t i = jam->stuck; i < jam->wanted; i++) {
        before += needs(t, jam->stage, wanted, &steps[i]);
        if (mend == MEND_BEHIND && i > jam->stuck && needs(t, jam->stage, &steps[i], stuck)) {
            return false;
        }
    }
    if ((mend == MEND_FRONT) != (before == 0) && mend != MEND_BEHIND) {
        return false;
    }
    if (mend == MEND_BEHIND) {
        memmove(changed + jam->stuck, changed + jam->stuck + 1, (jam->wanted - jam->stuck) * sizeof *changed);
        changed[jam->wanted] = *stuck;
        return !needs(t, jam->stage, wanted, stuck);
    }
    for (int others = 0; others < 2; others++) {
        for (uint32_t i = jam->stuck; i <= jam->wanted; i++) {
            bool moves = i == jam->wanted || needs(t, jam->stage, wanted, &steps[i]);
            if (moves == (others == 0)) {
                changed[count++] = steps[i];
            }
        }
    }
    return !needs(t, jam->stage, wanted, stuck);
}

/* Whether the pipeline runs with the mend. */
static bool helps(struct runner *r, const struct jam *jam, enum mend mend)
{
    const struct order_table *t = r->t;
    if (!apply(t, jam, mend, r->changed)) {
        return false;
    }
    struct order_step *steps = t->steps[jam->stage];
    t->steps[jam->stage] = r->changed;
    bool runs = play(r) == t->stages;
    t->steps[jam->stage] = steps;
    return runs;
}

static void put_step(const struct order_table *t, uint32_t stage, uint32_t position, char text[ORDER_WORD_BYTES])
{
    const struct order_step *step = &t->steps[stage][position];
    order_table_word(t, step->kind, step->micro_batch, t->placement[stage * t->virtual_stages + step->chunk], text);
}

static void put_mend(const struct order_table *t, const struct jam *jam, enum mend mend, char *text, size_t size)
{
    char stuck[ORDER_WORD_BYTES], wanted[ORDER_WORD_BYTES];
    put_step(t, jam->stage, jam->stuck, stuck);
    put_step(t, jam->stage, jam->wanted, wanted);
    switch (mend) {
    case MEND_FRONT:
        snprintf(text, size, "move %s of stage %u in front of position %u", wanted, jam->stage, jam->stuck + 1);
        return;
    case MEND_BEHIND:
        snprintf(text, size, "move %s of stage %u behind position %u", stuck, jam->stage, jam->wanted + 1);
        return;
    case MEND_ALL:
        snprintf(text, size, "move %s of stage %u, with what stands between that it needs, in front of position %u",
                 wanted, jam->stage, jam->stuck + 1);
        return;
    case MEND_COUNT: break;
    }
    check_failed("a mend", __FILE__, __LINE__);
}

static enum status tell(const struct runner *r, const struct jam *jam, const char *mend)
{
    const struct order_table *t = r->t;
    char first[ORDER_WORD_BYTES], wanted[ORDER_WORD_BYTES], stuck[ORDER_WORD_BYTES], path[64];
    put_step(t, jam->waiter, jam->waits_at, first);
    put_step(t, jam->stage, jam->wanted, wanted);
    put_step(t, jam->stage, jam->stuck, stuck);
    snprintf(path, sizeof path, "stage %u, position %u", jam->stage, jam->stuck + 1);
    if (jam->waiter == jam->stage) {
        return error_at(r->error, STATUS_BAD_INPUT, r->file, path,
                        "the stage waits for itself: %s waits for %s, which stands behind it at position %u: %s", first,
                        wanted, jam->wanted + 1, mend);
    }
    return error_at(
        r->error, STATUS_BAD_INPUT, r->file, path,
        "the pipeline waits for itself: stage %u, position %u (%s) waits for %s, which stands here at position "
        "%u, behind %s that waits in turn: %s",
        jam->waiter, jam->waits_at + 1, first, wanted, jam->wanted + 1, stuck, mend);
}

enum { JAMS_MAX = 16 };

/* Whether what is wanted goes in front where micro-batches run one after the other. */
static bool sorts(const struct order_table *t, const struct jam *jam)
{
    const struct order_step *steps = t->steps[jam->stage], *stuck = &steps[jam->stuck], *wanted = &steps[jam->wanted];
    return wanted->micro_batch != stuck->micro_batch ? wanted->micro_batch < stuck->micro_batch
                                                     : depth_of(t, jam->stage, wanted) < depth_of(t, jam->stage, stuck);
}

/* Stages are stuck: follow the waits from one until a stage comes again. Of the waits of that circle (the first JAMS_MAX) the one is told that one move undoes, so that the pipeline runs. When none is
 * enough, a first move: one that sorts, or moves could undo each other. There is one: what is wanted always comes before what waits for it, so not all of a circle can be behind what is stuck. */
static enum status tell_deadlock(struct runner *r, uint32_t stage)
{
    const struct order_table *t = r->t;
    struct jam jams[JAMS_MAX];
    uint32_t count = 0;
    char text[160];
    for (uint32_t i = 0; i < t->stages; i++) { /* after so many waits we are inside the circle */
        stage = jam_of(r, stage).stage;
    }
    for (uint32_t from = stage; count < JAMS_MAX && (count == 0 || stage != from); count++) {
        jams[count] = jam_of(r, stage);
        stage = jams[count].stage;
    }
    struct jam last = jams[0];
    for (uint32_t i = 0; i < t->stages && !sorts(t, &last); i++) {
        last = jam_of(r, last.stage);
    }
    for (enum mend mend = MEND_FRONT; mend < MEND_COUNT; mend++) {
        for (uint32_t i = 0; i < count; i++) {
            if (helps(r, &jams[i], mend)) {
                put_mend(t, &jams[i], mend, text, sizeof text);
                return tell(r, &jams[i], text);
            }
        }
    }
    enum mend mend = apply(t, &last, MEND_FRONT, r->changed) ? MEND_FRONT : MEND_ALL;
    put_mend(t, &last, mend, text, sizeof text);
    strncat(text, " (not the only circle)", sizeof text - strlen(text) - 1);
    return tell(r, &last, text);
}

enum status order_table_check(const struct order_table *table, const char *file, struct error *error)
{
    struct arena arena = { 0 };
    uint32_t all = table->stages * table->virtual_stages, most = 0;
    for (uint32_t s = 0; s < table->stages; s++) {
        most = table->counts[s] > most ? table->counts[s] : most;
    }
    struct runner r = { .t = table,
                        .done = arena_array(&arena, uint32_t, (size_t)all * table->micro_batches),
                        .next = arena_array(&arena, uint32_t, table->stages),
                        .holders = arena_array(&arena, uint32_t, all),
                        .awake = arena_array(&arena, uint32_t, table->stages),
                        .listed = arena_array(&arena, bool, table->stages),
                        .changed = arena_array(&arena, struct order_step, most),
                        .file = file,
                        .error = error };
    enum status status = STATUS_OK;
    if (r.done != NULL && r.next != NULL && r.holders != NULL && r.changed != NULL && r.awake != NULL &&
        r.listed != NULL) {
        for (uint32_t i = 0; i < all; i++) {
            r.holders[table->placement[i]] = i / table->virtual_stages;
        }
        uint32_t stuck = play(&r);
        status = stuck < table->stages ? tell_deadlock(&r, stuck) : STATUS_OK;
    } else {
        status = error_set(error, STATUS_NO_MEMORY, "no memory to check a schedule of %u stages", table->stages);
    }
    arena_free(&arena);
    return status;
}
