/* Rank 0: hands scenarios out, takes rows in, owns the database. */
#include "sim/sweep/sweep_run.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "sim/base/check.h"
#include "sim/sweep/sweep_message.h"
#include "sim/sweep/sweep_pool.h"
#include "sim/sweep/sweep_scenario.h"

enum { COMMIT_MS = 250, LISTEN_MS = 100, ALONE_WAIT_MS = 50, RANKS_WAIT_MS = 1, FOUND_MAX = 64, AHEAD = 64 };

struct remote {
    uint32_t threads, held; /* tasks that it has */
};

struct run {
    const struct sweep *sweep;
    struct sweep_database *database;
    int64_t id;
    const struct sweep_options *options;
    struct sweep_progress *progress;
    struct sweep_pool pool;
    struct sweep_walk walk;
    bool walked; /* no further points */
    uint64_t next_id;
    struct remote *remotes; /* [ranks] */
    struct strbuf text;
    int64_t committed_ms, listened_ms;
};

static int64_t now_ms(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void count(struct run *run, enum sweep_status status, double best, const char *axes)
{
    struct sweep_progress *progress = run->progress;
    progress->finished++;
    progress->counts[status]++;
    if (status == SWEEP_DONE && !isnan(best) && (!progress->has_best || best > progress->best)) {
        progress->has_best = true;
        progress->best = best;
        snprintf(progress->best_axes, sizeof progress->best_axes, "%s", axes);
    }
}

/* What the walk's point is known by, its scenario in run->text. A point that has none is a row too: `why` then says so (else STATUS_OK), and what it was to be and why it is not make its hash. */
static enum status identify(struct run *run, const char *axes, struct error *why, struct hash *hash,
                            struct error *error)
{
    *why = (struct error){ 0 };
    enum status status = run->walk.fault.expression != NULL ? sweep_walk_why(&run->walk, why)
                                                            : sweep_scenario_text(&run->walk, &run->text, why);
    if (status == STATUS_OK) {
        return sweep_scenario_hash(run->text.text, hash, error);
    }
    if (status == STATUS_NO_MEMORY) {
        return error_set(error, STATUS_NO_MEMORY, "%s", why->message);
    }
    *hash = hash_start();
    hash_text_field(hash, run->sweep->base);
    hash_text_field(hash, axes);
    hash_text_field(hash, why->message);
    return STATUS_OK;
}

static enum status put_unmade(struct run *run, const char *name, const struct error *why, const char *axes,
                              struct error *error)
{
    struct sweep_row row;
    memset(&row, 0, sizeof row);
    row.status = SWEEP_ERROR;
    row.error = why->status;
    snprintf(row.reason, sizeof row.reason, "%s", why->message);
    TRY(sweep_database_begin(run->database, error));
    TRY(sweep_database_put_row(run->database, name, run->sweep->base, &row, error));
    TRY(sweep_database_put_point(run->database, run->id, run->walk.point, name, axes, error));
    count(run, SWEEP_ERROR, NAN, axes);
    return STATUS_OK;
}

/* The point at which the walk stands, with its axes' values: finished already, or into `slot`, which takes `axes` over. */
static enum status take_point(struct run *run, struct strbuf *axes, struct sweep_slot *slot, bool *used,
                              struct error *error)
{
    struct hash hash;
    struct error why;
    bool found = false;
    enum sweep_status was;
    double best = NAN;
    char name[HASH_TEXT_BYTES];
    TRY(identify(run, axes->text, &why, &hash, error));
    TRY(sweep_database_find(run->database, hash_text(&hash, name), FIGURE_tokens_per_s, &found, &was, &best, error));
    if (found) {
        TRY(sweep_database_begin(run->database, error));
        TRY(sweep_database_put_point(run->database, run->id, run->walk.point, name, axes->text, error));
        count(run, was, best, axes->text);
        run->progress->found++;
        return STATUS_OK;
    }
    if (why.status != STATUS_OK) {
        return put_unmade(run, name, &why, axes->text, error);
    }
    slot->text = strdup(run->text.text);
    if (slot->text == NULL) {
        return error_set(error, STATUS_NO_MEMORY, "out of memory");
    }
    slot->axes = axes->text;
    *axes = (struct strbuf){ 0 };
    slot->point = run->walk.point;
    slot->id = ++run->next_id;
    memcpy(slot->hash, name, sizeof slot->hash);
    *used = true;
    return STATUS_OK;
}

/* Fills free slots. Points found in the database are many in a resumed sweep: a few at a time, so that the threads do not wait. */
static enum status refill(struct run *run, struct error *error)
{
    for (uint32_t passed = 0; passed < FOUND_MAX && !run->walked;) {
        (void)pthread_mutex_lock(&run->pool.lock);
        struct sweep_slot *slot = sweep_pool_find(&run->pool, SLOT_FREE);
        (void)pthread_mutex_unlock(&run->pool.lock);
        if (slot == NULL) {
            return STATUS_OK;
        }
        struct strbuf axes = { 0 };
        bool used = false;
        if (!sweep_walk_next(&run->walk)) {
            run->walked = true;
            break;
        }
        sweep_axes_json(&run->walk, &axes);
        enum status status = axes.failed
                                 ? error_set(error, STATUS_NO_MEMORY, "out of memory")
                                 : take_point(run, &axes, slot, &used, error); /* a free slot is this thread's */
        strbuf_free(&axes);
        TRY(status);
        passed += !used;
        if (used) {
            (void)pthread_mutex_lock(&run->pool.lock);
            slot->state = SLOT_WAITING;
            (void)pthread_cond_signal(&run->pool.work);
            (void)pthread_mutex_unlock(&run->pool.lock);
        }
    }
    return STATUS_OK;
}

static void take_message(struct run *run, uint32_t from, const struct message *message)
{
    if (message->kind == MESSAGE_HELLO) {
        run->remotes[from].threads = (uint32_t)message->id;
    }
    if (message->kind != MESSAGE_ROW) {
        return;
    }
    run->remotes[from].held -= run->remotes[from].held > 0;
    (void)pthread_mutex_lock(&run->pool.lock);
    for (uint32_t i = 0; i < run->pool.slot_count; i++) {
        struct sweep_slot *slot = &run->pool.slots[i];
        if (slot->state == SLOT_AWAY && slot->id == message->id) {
            slot->row = message->row;
            slot->state = SLOT_DONE;
        }
    }
    (void)pthread_mutex_unlock(&run->pool.lock);
}

/* The newest waiting task: the oldest are begun here. */
static struct sweep_slot *find_to_send(struct sweep_pool *pool, uint32_t *waiting)
{
    struct sweep_slot *found = NULL;
    *waiting = 0;
    for (uint32_t i = 0; i < pool->slot_count; i++) {
        struct sweep_slot *slot = &pool->slots[i];
        *waiting += slot->state == SLOT_WAITING;
        if (slot->state == SLOT_WAITING && (found == NULL || slot->id > found->id)) {
            found = slot;
        }
    }
    return found;
}

static void send_tasks(struct run *run, uint32_t rank)
{
    struct remote *remote = &run->remotes[rank];
    size_t head = offsetof(struct message, row);
    uint32_t room = (run->walked ? TASKS_AT_THE_END : TASKS_IN_STORE) * remote->threads;
    while (remote->held < room) {
        (void)pthread_mutex_lock(&run->pool.lock);
        uint32_t waiting;
        struct sweep_slot *slot = find_to_send(&run->pool, &waiting);
        size_t length = slot != NULL ? strlen(slot->text) : 0;
        char *bytes = slot != NULL ? calloc(1, head + length) : NULL;
        if (bytes != NULL) {
            const struct message message = { .kind = MESSAGE_TASK, .id = slot->id };
            memcpy(bytes, &message, head);
            memcpy(bytes + head, slot->text, length);
            slot->state = SLOT_AWAY;
            slot->rank = rank;
        }
        (void)pthread_mutex_unlock(&run->pool.lock);
        if (bytes == NULL) {
            return;
        }
        remote->held += run->options->transport->send(rank, bytes, head + length);
        free(bytes);
    }
}

static void talk(struct run *run)
{
    const struct sweep_transport *transport = run->options->transport;
    uint32_t from;
    void *bytes;
    size_t length;
    while (transport->receive(&from, &bytes, &length)) {
        take_message(run, from, bytes);
        free(bytes);
    }
    for (uint32_t rank = 1; rank < run->options->ranks; rank++) {
        send_tasks(run, rank);
    }
}

/* Rows that are done into the database. `open`: slots that are still in use. */
static enum status collect(struct run *run, uint32_t *open, struct error *error)
{
    enum status status = STATUS_OK;
    (void)pthread_mutex_lock(&run->pool.lock);
    for (struct sweep_slot *slot; status == STATUS_OK && (slot = sweep_pool_find(&run->pool, SLOT_DONE)) != NULL;) {
        struct sweep_slot done = *slot;
        *slot = (struct sweep_slot){ .state = SLOT_FREE };
        (void)pthread_mutex_unlock(&run->pool.lock);
        status = sweep_database_begin(run->database, error);
        if (status == STATUS_OK) {
            status = sweep_database_put_row(run->database, done.hash, done.text, &done.row, error);
        }
        if (status == STATUS_OK) {
            status = sweep_database_put_point(run->database, run->id, done.point, done.hash, done.axes, error);
        }
        count(run, done.row.status, done.row.has[FIGURE_tokens_per_s] ? done.row.figures[FIGURE_tokens_per_s] : NAN,
              done.axes);
        sweep_slot_clear(&done);
        (void)pthread_mutex_lock(&run->pool.lock);
    }
    *open = 0;
    for (uint32_t i = 0; i < run->pool.slot_count; i++) {
        *open += run->pool.slots[i].state != SLOT_FREE;
    }
    if (run->walked && !run->pool.is_final) {
        run->pool.is_final = true;
        (void)pthread_cond_broadcast(&run->pool.work);
    }
    (void)pthread_mutex_unlock(&run->pool.lock);
    return status;
}

static enum status work(struct run *run, struct error *error)
{
    for (;;) {
        uint32_t open;
        TRY(refill(run, error));
        if (run->options->transport != NULL) {
            talk(run);
        }
        TRY(collect(run, &open, error));
        int64_t now = now_ms();
        if (now - run->committed_ms >= COMMIT_MS) {
            TRY(sweep_database_commit(run->database, error));
            run->committed_ms = now;
        }
        if (run->options->listen != NULL && now - run->listened_ms >= LISTEN_MS) {
            run->listened_ms = now;
            if (!run->options->listen(run->options->context, run->progress)) {
                run->progress->interrupted = true;
                return STATUS_OK;
            }
        }
        if (run->walked && open == 0) {
            return STATUS_OK;
        }
        bool idle = run->walked || open == run->pool.slot_count;
        if (idle) {
            sweep_pool_wait(&run->pool, run->options->transport != NULL ? RANKS_WAIT_MS : ALONE_WAIT_MS);
        }
    }
}

enum status sweep_run(const struct sweep *sweep, struct sweep_database *database, int64_t id,
                      const struct sweep_options *options, struct sweep_progress *progress, struct error *error)
{
    struct run run = { .sweep = sweep, .database = database, .id = id, .options = options, .progress = progress };
    uint32_t ranks = options->transport != NULL ? options->ranks : 1;
    *progress = (struct sweep_progress){ .total = sweep->points, .ranks = ranks };
    run.remotes = calloc(ranks, sizeof *run.remotes);
    if (run.remotes == NULL) {
        return error_set(error, STATUS_NO_MEMORY, "out of memory");
    }
    /* Slots for what ranks have in store, and for the threads here what they do while a disk takes half a second to write the database: nobody waits for it. */
    enum status status = sweep_pool_open(&run.pool, options->threads,
                                         (TASKS_IN_STORE * ranks + AHEAD) * options->threads, sweep->name, error);
    if (status == STATUS_OK) {
        sweep_walk_start(&run.walk, sweep);
        run.committed_ms = now_ms();
        status = work(&run, error);
        uint32_t open;
        if (status == STATUS_OK && progress->interrupted) {
            status = collect(&run, &open, error);
        }
        if (status == STATUS_OK) {
            status = sweep_database_commit(database, error);
        }
        if (status == STATUS_OK && options->listen != NULL && !progress->interrupted) {
            (void)options->listen(options->context, progress);
        }
        sweep_pool_close(&run.pool);
    }
    strbuf_free(&run.text);
    free(run.remotes);
    return status;
}
