/* An op's buffers as views. */
#include "sim/base/check.h"
#include "validate/exec_host/host_run.h"

static bool holds(const struct host_view *view, uint32_t buffer)
{
    for (uint32_t i = 0; i < view->count; i++) {
        if (view->spans[i].buffer == buffer) {
            return true;
        }
    }
    return false;
}

struct host_view host_view_of(struct host_run *run, uint32_t index, enum host_side side, bool in_storage)
{
    const struct schedule *s = run->schedule;
    const struct sched_op *op = &s->ops[index];
    struct host_queue *queue = &run->queues[op->queue];
    struct host_view view = { .spans = queue->spans + queue->spans_used };
    const uint32_t *buffers = side == HOST_SOURCE ? sched_reads(s, op) : sched_writes(s, op);
    uint32_t count = side == HOST_SOURCE ? op->read_count : op->write_count;
    if (count == 0) {
        buffers = side == HOST_SOURCE ? sched_releases(s, op) : sched_acquires(s, op);
        count = side == HOST_SOURCE ? op->release_count : op->acquire_count;
    }
    CHECK(queue->spans_used + count <= queue->spans_capacity);
    for (uint32_t i = 0; i < count; i++) {
        const struct sched_buffer *buffer = &s->buffers[buffers[i]];
        if ((s->spaces[buffer->space].kind == SPACE_STORAGE) == in_storage && !holds(&view, buffers[i])) {
            uint8_t *data = wet_pools_address(run->pools, buffers[i]);
            host_view_add(&view, data, data == NULL ? 0 : buffer->bytes, buffers[i]);
        }
    }
    queue->spans_used += view.count;
    return view;
}

struct host_view host_slab_view(struct host_queue *queue, const struct host_span *part)
{
    struct host_view view = { .spans = queue->spans + queue->spans_used++ };
    CHECK(queue->spans_used <= queue->spans_capacity);
    host_view_add(&view, part->data, part->bytes, SCHED_NONE);
    return view;
}

bool host_views_share(const struct host_view *a, const struct host_view *b)
{
    for (uint32_t i = 0; i < a->count; i++) {
        if (a->spans[i].buffer != SCHED_NONE && holds(b, a->spans[i].buffer)) {
            return true;
        }
    }
    return false;
}

bool host_views_equal(const struct host_view *a, const struct host_view *b)
{
    for (uint32_t i = 0; i < a->count && a->count == b->count; i++) {
        if (a->spans[i].buffer == SCHED_NONE || a->spans[i].buffer != b->spans[i].buffer) {
            return false;
        }
    }
    return a->count == b->count && a->count > 0;
}
