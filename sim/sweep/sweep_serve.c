/* The ranks other than 0, and how rank 0 dismisses them. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "sim/base/check.h"
#include "sim/sweep/sweep_message.h"
#include "sim/sweep/sweep_pool.h"
#include "sim/sweep/sweep_run.h"

enum { POLL_MS = 1, DISMISS_MS = 5000 };

static bool say(const struct sweep_transport *transport, enum message_kind kind, uint64_t id, uint32_t to)
{
    struct message message = { .kind = kind, .id = id };
    return transport->send(to, &message, offsetof(struct message, row));
}

/* Puts a task into a free slot; rank 0 never sends more than there are. */
static void take_task(struct sweep_pool *pool, const struct message *message, size_t length)
{
    size_t head = offsetof(struct message, row);
    (void)pthread_mutex_lock(&pool->lock);
    struct sweep_slot *slot = sweep_pool_find(pool, SLOT_FREE);
    if (slot != NULL && length > head) {
        slot->text = strndup((const char *)message + head, length - head);
        slot->id = message->id;
        slot->state = slot->text != NULL ? SLOT_WAITING : SLOT_FREE;
        (void)pthread_cond_signal(&pool->work);
    }
    (void)pthread_mutex_unlock(&pool->lock);
}

static void send_rows(struct sweep_pool *pool, const struct sweep_transport *transport)
{
    (void)pthread_mutex_lock(&pool->lock);
    for (struct sweep_slot *slot; (slot = sweep_pool_find(pool, SLOT_DONE)) != NULL;) {
        struct message message;
        memset(&message, 0, sizeof message);
        message.kind = MESSAGE_ROW;
        message.id = slot->id;
        message.row = slot->row;
        (void)transport->send(0, &message, sizeof message);
        sweep_slot_clear(slot);
    }
    (void)pthread_mutex_unlock(&pool->lock);
}

enum status sweep_serve(const struct sweep_transport *transport, uint32_t threads, struct error *error)
{
    struct sweep_pool pool;
    bool stop = false;
    TRY(sweep_pool_open(&pool, threads, TASKS_IN_STORE * threads + 2, "scenario", error));
    (void)say(transport, MESSAGE_HELLO, pool.thread_count, 0);
    while (!stop) {
        uint32_t from;
        void *bytes;
        size_t length;
        while (!stop && transport->receive(&from, &bytes, &length)) {
            const struct message *message = bytes;
            stop = message->kind == MESSAGE_STOP;
            if (message->kind == MESSAGE_TASK) {
                take_task(&pool, message, length);
            }
            free(bytes);
        }
        send_rows(&pool, transport);
        if (!stop) {
            sweep_pool_wait(&pool, POLL_MS);
        }
    }
    sweep_pool_close(&pool);
    (void)say(transport, MESSAGE_BYE, 0, 0);
    return STATUS_OK;
}

bool sweep_dismiss(const struct sweep_transport *transport, uint32_t ranks)
{
    uint32_t byes = 0;
    for (uint32_t r = 1; r < ranks; r++) {
        (void)say(transport, MESSAGE_STOP, 0, r);
    }
    for (int waited = 0; waited < DISMISS_MS && byes + 1 < ranks; waited += POLL_MS) {
        uint32_t from;
        void *bytes;
        size_t length;
        while (transport->receive(&from, &bytes, &length)) {
            byes += ((const struct message *)bytes)->kind == MESSAGE_BYE;
            free(bytes);
        }
        const struct timespec pause = { .tv_nsec = POLL_MS * 1000000 };
        (void)nanosleep(&pause, NULL);
    }
    return byes + 1 >= ranks;
}
