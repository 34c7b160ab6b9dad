/* Ops that move bytes without changing them: copies, sends and receives, storage. Copies of pinned and of pageable memory are the same memcpy here. */
#include <math.h>

#include "sim/base/check.h"
#include "validate/exec_host/host_run.h"

static uint64_t payload_of(const struct host_run *run, uint32_t op)
{
    return (uint64_t)ceil(run->schedule->works[run->schedule->ops[op].work].bytes);
}

static struct host_queue *queue_of(struct host_run *run, uint32_t op)
{
    return &run->queues[run->schedule->ops[op].queue];
}

/* The op's source or target in memory, or what stands for it: never what `other` names, so that nothing is copied onto itself. */
static struct host_view memory_side(struct host_run *run, uint32_t op, enum host_side side,
                                    const struct host_view *other)
{
    struct host_queue *queue = queue_of(run, op);
    struct host_view view = host_view_of(run, op, side, false);
    if (view.bytes == 0 || (other != NULL && host_views_share(&view, other))) {
        view = host_slab_view(queue, side == HOST_SOURCE ? &queue->slab_in : &queue->slab_out);
    }
    return view;
}

static struct host_view file_side(struct host_run *run, uint32_t op, enum host_side side, struct host_storage **file)
{
    struct host_queue *queue = queue_of(run, op);
    struct host_view view = host_view_of(run, op, side, true);
    *file = &run->files[run->schedule->space_count];
    if (view.bytes == 0) {
        const struct host_span place = { (uint8_t *)(uintptr_t)queue->file_offset, queue->needs.file_bytes,
                                         SCHED_NONE };
        return host_slab_view(queue, &place);
    }
    uint32_t space = run->schedule->buffers[view.spans[0].buffer].space;
    *file = &run->files[space];
    for (uint32_t i = 1; i < view.count; i++) { /* one file at a time: what lies elsewhere is left out */
        if (run->schedule->buffers[view.spans[i].buffer].space != space) {
            view.bytes -= view.spans[i].bytes;
            view.spans[i--] = view.spans[--view.count];
        }
    }
    return view;
}

static enum status open_op(struct host_run *run, uint32_t op, struct error *error)
{
    bool shared;
    queue_of(run, op)->spans_used = 0;
    if (!run->options->check) {
        return STATUS_OK;
    }
    if (!host_check_claim(&run->check, &op, 1, &shared)) {
        return host_cancelled(error);
    }
    return host_check_open(&run->check, op, error);
}

static enum status close_op(struct host_run *run, uint32_t op, struct error *error)
{
    if (run->options->check) {
        TRY(host_check_close(&run->check, op, error));
        host_check_unclaim(&run->check, &op, 1);
    }
    return STATUS_OK;
}

enum status host_transfer(struct host_run *run, uint32_t op, struct error *error)
{
    uint64_t bytes = payload_of(run, op);
    TRY(open_op(run, op, error));
    struct host_view to = memory_side(run, op, HOST_TARGET, NULL), from = memory_side(run, op, HOST_SOURCE, &to);
    if (!host_view_copy(&to, &from, bytes, &run->cancel)) {
        return host_cancelled(error);
    }
    if (run->options->check) {
        TRY(host_check_moved(&run->check, &to, NULL, &from, bytes, error));
    }
    return close_op(run, op, error);
}

static enum status receive(struct host_run *run, uint32_t op, const struct host_view *from, bool shared,
                           struct error *error)
{
    uint64_t bytes = payload_of(run, op);
    struct host_view to = memory_side(run, op, HOST_TARGET, NULL), own;
    if (shared || host_views_share(from, &to)) {
        own = host_slab_view(queue_of(run, op), &queue_of(run, op)->slab_in);
        from = &own;
    }
    if (!host_view_copy(&to, from, bytes, &run->cancel)) {
        return host_cancelled(error);
    }
    return run->options->check ? host_check_moved(&run->check, &to, NULL, from, bytes, error) : STATUS_OK;
}

/* The receiver's thread copies while the sender's sleeps. */
enum status host_pair(struct host_run *run, uint32_t op, struct error *error)
{
    struct host_match *match = &run->matches[run->schedule->ops[op].match];
    uint32_t slot = run->op_slots[op];
    bool sends = slot == match->first_slot, checks = run->options->check;
    queue_of(run, op)->spans_used = 0;
    if (sends) {
        run->members[slot].in = memory_side(run, op, HOST_SOURCE, NULL);
        if (checks && !host_check_claim(&run->check, run->match_ops + match->first_slot, 2, &match->shared)) {
            return host_cancelled(error);
        }
        if (checks) {
            TRY(host_check_open(&run->check, op, error));
        }
    }
    if (!host_meet(&match->meeting, &run->cancel)) {
        return host_cancelled(error);
    }
    if (!sends) {
        if (checks) {
            TRY(host_check_open(&run->check, op, error));
        }
        TRY(receive(run, op, &run->members[match->first_slot].in, checks && match->shared, error));
        if (checks) {
            TRY(host_check_close(&run->check, op, error));
        }
    }
    if (!host_meet(&match->meeting, &run->cancel)) {
        return host_cancelled(error);
    }
    if (sends && checks) {
        TRY(host_check_close(&run->check, op, error));
        host_check_unclaim(&run->check, run->match_ops + match->first_slot, 2);
    }
    return STATUS_OK;
}

enum status host_storage_op(struct host_run *run, uint32_t op, struct error *error)
{
    bool writes = run->schedule->ops[op].opcode == OP_STORAGE_WRITE;
    struct host_storage *storage;
    TRY(open_op(run, op, error));
    struct host_view memory = memory_side(run, op, writes ? HOST_SOURCE : HOST_TARGET, NULL);
    struct host_view file = file_side(run, op, writes ? HOST_TARGET : HOST_SOURCE, &storage);
    const struct host_storage_move move = { .storage = storage,
                                            .memory = &memory,
                                            .file = &file,
                                            .bytes = payload_of(run, op),
                                            .writes = writes,
                                            .staging = queue_of(run, op)->staging.data,
                                            .cancel = &run->cancel };
    TRY(host_storage_run(&move, error));
    bool is_patterned = writes || file.spans[0].buffer != SCHED_NONE; /* the scratch file holds what was written last */
    if (run->options->check && is_patterned) {
        TRY(host_check_moved(&run->check, writes ? &file : &memory, writes ? storage : NULL, writes ? &memory : &file,
                             move.bytes, error));
    }
    return close_op(run, op, error);
}
