/* Sizes and links of a dispatched run: everything that a step needs is laid out here. */
#include <string.h>

#include "sim/base/check.h"
#include "validate/dispatch/dispatch_internal.h"

enum { QUEUE_THREADS_MAX = 1024 };
#define DEFAULT_PATIENCE_S 60.0
#define PATIENCE_S_MAX     1e6 /* still far below 2^63 ps */

static enum status check_devices(const struct schedule *s, struct error *error)
{
    for (uint32_t r = 0; r < s->rank_count; r++) {
        if (s->ranks[r].device_count != 1) {
            return error_set(error, STATUS_UNSUPPORTED,
                             "rank %u stands for %u devices: a real run needs each device by itself (--no-fold)", r,
                             s->ranks[r].device_count);
        }
    }
    return STATUS_OK;
}

static enum status allocate(struct dispatch *d, struct error *error)
{
    const struct schedule *s = d->schedule;
    struct arena *arena = &d->arena;
    d->nodes = arena_array(arena, struct op_node, (size_t)s->op_count + 1);
    d->successors = arena_array(arena, uint32_t, s->dependency_count);
    d->fences = arena_array(arena, uint32_t, s->op_count);
    d->order = arena_array(arena, uint32_t, s->op_count);
    d->match_ops = arena_array(arena, uint32_t, s->op_count);
    d->match_first = arena_array(arena, uint32_t, (size_t)s->match_count + 1);
    d->match_arrived = arena_array(arena, uint32_t, s->match_count);
    d->match_left = arena_array(arena, uint32_t, s->match_count);
    d->match_runner = arena_array(arena, uint32_t, s->match_count);
    d->queues = arena_array(arena, struct queue_state, s->queue_count);
    d->queue_end_ps = arena_array(arena, int64_t, s->queue_count);
    d->ready = arena_array(arena, uint32_t, s->queue_count);
    d->waiters = arena_array(arena, uint32_t, s->queue_count);
    d->hosts = arena_array(arena, struct host_state, s->rank_count);
    if (d->nodes == NULL || d->successors == NULL || d->fences == NULL || d->order == NULL || d->match_ops == NULL ||
        d->match_first == NULL || d->match_arrived == NULL || d->match_left == NULL || d->match_runner == NULL ||
        d->queues == NULL || d->queue_end_ps == NULL || d->ready == NULL || d->waiters == NULL || d->hosts == NULL) {
        return error_set(error, STATUS_NO_MEMORY, "no memory to run %u ops in %u queues", s->op_count, s->queue_count);
    }
    return STATUS_OK;
}

static void set_up_queues(struct dispatch *d)
{
    const struct schedule *s = d->schedule;
    const struct driver *driver = d->driver;
    for (uint32_t q = 0; q < s->queue_count; q++) {
        struct queue_state *queue = &d->queues[q];
        *queue = (struct queue_state){ .dispatch = d,
                                       .index = q,
                                       .rank = s->queues[q].rank,
                                       .first = SCHED_NONE,
                                       .granted = SCHED_NONE,
                                       .running = SCHED_NONE };
        queue->is_async = driver->is_asynchronous != NULL && driver->is_asynchronous(driver->context, q);
    }
    for (uint32_t q = 0; q < s->queue_count; q++) {
        struct host_state *host = &d->hosts[s->queues[q].rank];
        if (host->queue_end == 0) {
            host->first_queue = q;
        }
        host->queue_end = q + 1;
    }
}

/* Gates, queue order, fences; counts dependents of op i in nodes[i + 1].first_successor. */
static void link_order(struct dispatch *d, uint32_t *last)
{
    const struct schedule *s = d->schedule;
    uint32_t fence_count = 0;
    memset(last, 0xff, s->queue_count * sizeof *last); /* SCHED_NONE */
    for (uint32_t r = 0; r < s->rank_count; r++) {
        struct host_state *host = &d->hosts[r];
        uint32_t fence = SCHED_NONE;
        host->first_op = s->ranks[r].first_op;
        host->op_end = host->first_op + s->ranks[r].op_count;
        host->first_fence = fence_count;
        bool is_local = d->driver->is_local == NULL || d->driver->is_local[r];
        for (uint32_t i = host->first_op; i < host->op_end; i++) {
            const struct sched_op *op = &s->ops[i];
            struct op_node *node = &d->nodes[i];
            struct queue_state *queue = &d->queues[op->queue];
            node->is_local = is_local;
            node->is_async = queue->is_async && op->opcode != OP_MARK;
            node->first_gates = (uint32_t)op->dependency_count + (last[op->queue] != SCHED_NONE);
            node->next = SCHED_NONE;
            node->fence = fence;
            if (last[op->queue] != SCHED_NONE) {
                d->nodes[last[op->queue]].next = i;
            } else if (is_local) {
                queue->first = i;
            }
            last[op->queue] = i;
            queue->has_thread = queue->has_thread || (is_local && op->opcode != OP_MARK);
            d->any_async = d->any_async || (is_local && node->is_async);
            d->local_ops += is_local;
            if (op->flags & (OP_FLAG_HOST_WAITS | OP_FLAG_BUSY_HOST)) {
                fence = d->fences[fence_count++] = i;
            }
            for (uint32_t k = 0; k < op->dependency_count; k++) {
                d->nodes[s->dependencies[op->first_dependency + k] + 1].first_successor++;
            }
        }
        host->fence_end = fence_count;
    }
}

/* Dependencies turned round: running sums, then filled from the back so that each list is in op order. */
static void link_successors(struct dispatch *d)
{
    const struct schedule *s = d->schedule;
    for (uint32_t i = 0; i < s->op_count; i++) {
        d->nodes[i + 1].first_successor += d->nodes[i].first_successor;
    }
    for (uint32_t i = s->op_count; i-- > 0;) {
        const struct sched_op *op = &s->ops[i];
        for (uint32_t k = op->dependency_count; k-- > 0;) {
            uint32_t before = s->dependencies[op->first_dependency + k];
            d->successors[--d->nodes[before + 1].first_successor] = i;
        }
    }
    for (uint32_t i = 0; i < s->op_count; i++) { /* node i + 1 holds the start of the list of op i: shift */
        d->nodes[i].first_successor = d->nodes[i + 1].first_successor;
    }
    d->nodes[s->op_count].first_successor = s->dependency_count;
}

static enum status link_matches(struct dispatch *d, struct error *error)
{
    const struct schedule *s = d->schedule;
    for (uint32_t i = 0; i < s->op_count; i++) {
        if (s->ops[i].match != SCHED_NONE && d->nodes[i].is_local) {
            d->match_first[s->ops[i].match + 1]++;
        }
    }
    for (uint32_t m = 0; m < s->match_count; m++) {
        d->match_first[m + 1] += d->match_first[m];
    }
    for (uint32_t i = 0; i < s->op_count; i++) {
        uint32_t match = s->ops[i].match;
        if (match == SCHED_NONE || !d->nodes[i].is_local) {
            continue;
        }
        uint32_t first = d->match_first[match], at = first + d->match_arrived[match]++;
        d->match_ops[at] = i;
        if (d->nodes[i].is_async != d->nodes[d->match_ops[first]].is_async) {
            return error_set(error, STATUS_UNSUPPORTED,
                             "ops %u and %u of a match stand on an asynchronous and a synchronous queue",
                             d->match_ops[first], i);
        }
    }
    return STATUS_OK;
}

static enum status allocate_async(struct dispatch *d, struct error *error)
{
    if (!d->any_async) {
        return STATUS_OK;
    }
    d->submitted_ps = arena_array(&d->arena, int64_t, d->schedule->op_count);
    d->seen_ps = arena_array(&d->arena, int64_t, d->schedule->op_count);
    return d->submitted_ps != NULL && d->seen_ps != NULL
               ? STATUS_OK
               : error_set(error, STATUS_NO_MEMORY, "no memory to run %u ops", d->schedule->op_count);
}

static enum status count_threads(struct dispatch *d, struct error *error)
{
    for (uint32_t q = 0; q < d->schedule->queue_count; q++) {
        d->thread_count += d->queues[q].has_thread;
    }
    return d->thread_count <= QUEUE_THREADS_MAX
               ? STATUS_OK
               : error_set(error, STATUS_LIMIT,
                           "the schedule has %u queues for this process, each needs a thread; at most %d",
                           d->thread_count, QUEUE_THREADS_MAX);
}

static enum status make_lock(struct dispatch *d, struct error *error)
{
    pthread_mutexattr_t mutex;
    pthread_condattr_t condition;
    if (pthread_mutexattr_init(&mutex) != 0) {
        return error_set(error, STATUS_NO_MEMORY, "no memory for a lock");
    }
    /* Held for a fraction of a microsecond at a time: spinning beats sleeping. */
    (void)pthread_mutexattr_settype(&mutex, PTHREAD_MUTEX_ADAPTIVE_NP);
    int failed = pthread_mutex_init(&d->lock, &mutex);
    (void)pthread_mutexattr_destroy(&mutex);
    if (failed != 0) {
        return error_set(error, STATUS_NO_MEMORY, "no memory for a lock");
    }
    if (pthread_condattr_init(&condition) != 0) {
        (void)pthread_mutex_destroy(&d->lock);
        return error_set(error, STATUS_NO_MEMORY, "no memory for a lock");
    }
    (void)pthread_condattr_setclock(&condition, CLOCK_MONOTONIC);
    failed = pthread_cond_init(&d->changed, &condition);
    (void)pthread_condattr_destroy(&condition);
    if (failed != 0) {
        (void)pthread_mutex_destroy(&d->lock);
        return error_set(error, STATUS_NO_MEMORY, "no memory for a lock");
    }
    d->has_lock = true;
    for (uint32_t q = 0; q < d->schedule->queue_count; q++) {
        (void)sem_init(&d->queues[q].wake, 0,
                       0); /* cannot fail: the value is in range and not shared between processes */
    }
    (void)sem_init(&d->reaper_wake, 0, 0);
    return STATUS_OK;
}

enum status dispatch_setup(struct dispatch *d, struct error *error)
{
    double patience_s = d->options->patience_s > 0 ? d->options->patience_s : DEFAULT_PATIENCE_S;
    d->patience_ps = (int64_t)((patience_s < PATIENCE_S_MAX ? patience_s : PATIENCE_S_MAX) * 1e12);
    d->wakes = SCHED_NONE;
    TRY(check_devices(d->schedule, error));
    TRY(allocate(d, error));
    set_up_queues(d);
    link_order(d, d->ready); /* borrowed */
    link_successors(d);
    TRY(link_matches(d, error));
    TRY(allocate_async(d, error));
    TRY(count_threads(d, error));
    d->hash = schedule_hash(d->schedule);
    return make_lock(d, error);
}

void dispatch_reset(struct dispatch *d)
{
    const struct schedule *s = d->schedule;
    for (uint32_t i = 0; i < s->op_count; i++) {
        struct op_node *node = &d->nodes[i];
        node->gates = node->first_gates;
        node->state = OP_CLOSED;
        node->waited = false;
        d->times[i] = (struct op_times){ TIME_NEVER_PS, TIME_NEVER_PS, TIME_NEVER_PS, TIME_NEVER_PS, TIME_NEVER_PS, 0 };
    }
    for (uint32_t q = 0; q < s->queue_count; q++) {
        struct queue_state *queue = &d->queues[q];
        queue->head = queue->first;
        queue->granted = queue->running = SCHED_NONE;
        queue->ring_count = 0;
    }
    for (uint32_t r = 0; r < s->rank_count; r++) {
        struct host_state *host = &d->hosts[r];
        host->next_fence = host->first_fence;
        host->issued_end = host->next_fence < host->fence_end ? d->fences[host->next_fence] + 1 : host->op_end;
    }
    memset(d->match_arrived, 0, s->match_count * sizeof *d->match_arrived);
    d->ready_first = d->ready_count = d->waiter_count = d->order_count = 0;
    d->active = d->done = d->outstanding = 0;
    d->freed = d->step_over = false;
    d->now_ps = d->progress_ps = 0;
}

void dispatch_teardown(struct dispatch *d)
{
    if (d->has_lock) {
        (void)pthread_cond_destroy(&d->changed);
        (void)pthread_mutex_destroy(&d->lock);
        for (uint32_t q = 0; q < d->schedule->queue_count; q++) {
            (void)sem_destroy(&d->queues[q].wake);
        }
        (void)sem_destroy(&d->reaper_wake);
    }
    arena_free(&d->arena);
}
