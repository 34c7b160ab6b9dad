#include "strategies/policies/mpress_versions.h"

#include "sim/ir/builder.h"
#include "strategies/policies/mpress_states.h"

/* Of a carrier: where the version is. Of every stale micro-batch: what comes back. */
struct mpress_version {
    uint32_t host, down;    /* buffer and op, to the host */
    uint32_t *peers, *outs; /* [stripes] buffers and ops, to other devices */
    uint32_t back, up;      /* buffer on the device, and the copy that fills it */
    uint32_t *ups;          /* [stripes] */
    uint32_t next;          /* due at the same pass, of a later backward; SCHED_NONE */
};

uint32_t mpress_versions_moving(const struct pipeline_order *order, const struct order_request *request, uint32_t stage)
{
    bool newest = order->asynchronous && !order->accumulates &&
                  order_weight_versions(order, request, request->stages - 1) == 1; /* else forwards take older ones */
    return newest ? order_weight_versions(order, request, stage) - 1 : 0;
}

bool mpress_versions_leave(const struct lowering *lowering, const struct lower_layer *layer)
{
    return plan_moves_find(lower_input(lowering)->plan, MOVE_VERSION, mpress_position(lowering, layer)) != NULL;
}

static struct mpress_version *version_of(const struct mpress_versions *versions, const struct activation_rank *rank,
                                         uint32_t layer, uint32_t micro_batch)
{
    return &versions->of[(size_t)layer * rank->micro_batches + micro_batch];
}

/* ---- who goes with which version ---- */

/* From the passes of the rank's first layer, whose backward is the last before an update. */
static void find_users(struct mpress_versions *versions, const struct activation_rank *rank, uint32_t *taken)
{
    uint32_t updates = 0, before = SCHED_NONE;
    for (uint32_t p = 0; p < rank->pass_count; p++) {
        const struct activation_pass *pass = &rank->passes[p];
        uint32_t m = pass->micro_batch;
        if (pass->layer != 0) {
            continue;
        }
        if (pass->kind == LOWER_FORWARD) {
            taken[m] = updates;
        } else if (pass->kind == LOWER_BACKWARD) {
            versions->stale[m] = updates++ > taken[m];
        }
    }
    for (uint32_t m = rank->micro_batches; m-- > 0; before = m) { /* forwards run in the order of their numbers */
        bool same = before != SCHED_NONE && taken[before] == taken[m];
        versions->carrier[m] = same ? versions->carrier[before] : m;
        uint32_t *last_user = &versions->last_user[versions->carrier[m]];
        *last_user = !same ? SCHED_NONE : *last_user;
        if (versions->stale[m] && *last_user == SCHED_NONE) {
            *last_user = m;
        }
    }
}

/* Each begins to come back `lead` passes before its backward, once it has left. */
static void find_due(struct mpress_versions *versions, const struct activation_rank *rank)
{
    for (uint32_t p = rank->pass_count; p-- > 0;) {
        versions->due[p] = SCHED_NONE;
    }
    for (uint32_t p = rank->pass_count; p-- > 0;) {
        const struct activation_pass *pass = &rank->passes[p];
        const struct tensor_move *move = versions->moves[pass->layer];
        if (pass->kind != LOWER_BACKWARD || move == NULL || !versions->stale[pass->micro_batch]) {
            continue;
        }
        uint32_t left = activation_saving_of(rank, pass->layer, versions->carrier[pass->micro_batch])->forward + 1;
        uint32_t lead = (uint32_t)move->lead, at = p > lead && p - lead > left ? p - lead : left;
        struct mpress_version *version = version_of(versions, rank, pass->layer, pass->micro_batch);
        version->next = versions->due[at];
        versions->due[at] = (uint32_t)(version - versions->of);
    }
}

static bool make_arrays(struct lowering *lowering, struct mpress_versions *versions, const struct activation_rank *rank)
{
    struct arena *arena = lower_arena(lowering);
    size_t count = (size_t)rank->layer_count * rank->micro_batches;
    uint32_t *taken = arena_array(arena, uint32_t, rank->micro_batches);
    versions->carrier = arena_array(arena, uint32_t, rank->micro_batches);
    versions->last_user = arena_array(arena, uint32_t, rank->micro_batches);
    versions->stale = arena_array(arena, bool, rank->micro_batches);
    versions->of = arena_array(arena, struct mpress_version, count);
    versions->due = arena_array(arena, uint32_t, rank->pass_count);
    if (taken == NULL || versions->carrier == NULL || versions->last_user == NULL || versions->stale == NULL ||
        versions->of == NULL || versions->due == NULL) {
        lower_fail(lowering, STATUS_NO_MEMORY, "out of memory for the weight versions of a rank");
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        versions->of[i].back = SCHED_NONE;
    }
    find_users(versions, rank, taken);
    find_due(versions, rank);
    return true;
}

bool mpress_versions_begin(struct lowering *lowering, struct mpress_versions *versions,
                           const struct activation_rank *rank)
{
    bool any = false;
    versions->gone[0] = versions->gone[1] = SCHED_NONE;
    versions->moves = arena_array(lower_arena(lowering), const struct tensor_move *, rank->layer_count);
    if (versions->moves == NULL) {
        lower_fail(lowering, STATUS_NO_MEMORY, "out of memory for the weight versions of a rank");
        return false;
    }
    for (uint32_t i = 0; i < rank->layer_count; i++) {
        const struct tensor_move *move =
            plan_moves_find(lower_input(lowering)->plan, MOVE_VERSION, mpress_position(lowering, &rank->layers[i]));
        bool moves = move != NULL && rank->layers[i].weight_bytes > 0;
        versions->moves[i] = moves ? move : NULL;
        if (moves && !mpress_check_stripes(lowering, move)) {
            return false;
        }
        any = any || moves;
    }
    return !any || make_arrays(lowering, versions, rank);
}

/* ---- copies ---- */

/* Out of the place of the newest, which stays until the update writes over it. */
static void send(struct lowering *lowering, struct mpress_versions *versions, const struct lower_layer *layer,
                 const struct tensor_move *move, struct mpress_version *version)
{
    struct builder *builder = lower_builder(lowering);
    double bytes = (double)layer->weight_bytes;
    uint32_t after = lower_last_compute(lowering), count = move->stripe_count;
    if (count == 0) {
        version->host = lower_buffer(lowering, SPACE_PINNED, bytes, BUFFER_WEIGHT, 0, "older weight version");
        version->down = lower_copy_to_host(lowering, bytes, false, after, version->host, SCHED_NONE);
        builder_read(builder, layer->weight);
        versions->gone[0] = version->down;
        return;
    }
    version->peers = arena_array(lower_arena(lowering), uint32_t, count);
    version->outs = arena_array(lower_arena(lowering), uint32_t, count);
    if (version->peers == NULL || version->outs == NULL) {
        lower_fail(lowering, STATUS_NO_MEMORY, "out of memory for the weight versions of a rank");
        return;
    }
    for (uint32_t i = 0; i < count; i++) {
        uint32_t stage = (uint32_t)move->stripes[i].stage;
        double part = mpress_stripe_bytes(move, bytes, i);
        version->peers[i] =
            lower_peer_buffer(lowering, stage, part, BUFFER_WEIGHT, 0, "older weight version of another stage");
        version->outs[i] = lower_copy_to_peer(lowering, stage, part, after, layer->weight, version->peers[i]);
        builder_acquire(builder, version->peers[i]);
    }
    versions->gone[1] = lower_peer_join(lowering, true, SCHED_NONE);
    for (uint32_t i = 0; i < count; i++) {
        builder_depends(builder, version->outs[i]);
    }
}

/* `last`: nobody needs it after this one, and where it was is free again. */
static void fetch(struct lowering *lowering, const struct lower_layer *layer, const struct tensor_move *move,
                  const struct mpress_version *from, struct mpress_version *version, bool last)
{
    struct builder *builder = lower_builder(lowering);
    double bytes = (double)layer->weight_bytes;
    uint32_t after = lower_last_compute(lowering), count = move->stripe_count;
    version->back = lower_buffer(lowering, SPACE_DEVICE, bytes, BUFFER_WEIGHT, 0, "older weight version, back again");
    if (count == 0) {
        version->up =
            lower_copy_to_device(lowering, bytes, false, from->down, version->back, last ? from->host : SCHED_NONE);
        builder_depends(builder, after);
        if (!last) {
            builder_read(builder, from->host);
        }
        return;
    }
    version->ups = arena_array(lower_arena(lowering), uint32_t, count);
    if (version->ups == NULL || from->peers == NULL) {
        lower_fail(lowering, STATUS_NO_MEMORY, "out of memory for the weight versions of a rank");
        return;
    }
    version->up = lower_peer_join(lowering, false, after);
    builder_acquire(builder, version->back);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t stage = (uint32_t)move->stripes[i].stage;
        double part = mpress_stripe_bytes(move, bytes, i);
        version->ups[i] = lower_copy_from_peer(lowering, stage, part, version->up, version->back, from->peers[i]);
        builder_depends(builder, from->outs[i]);
        if (last) {
            builder_release(builder, from->peers[i]);
        }
    }
}

void mpress_versions_before_pass(struct lowering *lowering, struct mpress_versions *versions,
                                 const struct activation_rank *rank, const struct lower_pass *pass)
{
    if (versions->of == NULL) {
        return;
    }
    for (uint32_t i = versions->due[rank->at]; i != SCHED_NONE; i = versions->of[i].next) {
        uint32_t layer = i / rank->micro_batches, micro_batch = i % rank->micro_batches;
        uint32_t carrier = versions->carrier[micro_batch];
        fetch(lowering, &rank->layers[layer], versions->moves[layer], version_of(versions, rank, layer, carrier),
              &versions->of[i], micro_batch == versions->last_user[carrier]);
    }
    const struct mpress_version *own = version_of(versions, rank, pass->layer->index, pass->micro_batch);
    if (pass->kind == LOWER_BACKWARD && own->back != SCHED_NONE) {
        const struct tensor_move *move = versions->moves[pass->layer->index];
        lower_next_depends(lowering, own->up);
        for (uint32_t i = 0; i < move->stripe_count && own->ups != NULL; i++) {
            lower_next_depends(lowering, own->ups[i]);
        }
    }
}

void mpress_versions_after_pass(struct lowering *lowering, struct mpress_versions *versions,
                                const struct activation_rank *rank, const struct lower_pass *pass)
{
    const struct tensor_move *move = versions->moves[pass->layer->index];
    if (move == NULL) {
        return;
    }
    struct mpress_version *own = version_of(versions, rank, pass->layer->index, pass->micro_batch);
    uint32_t m = pass->micro_batch;
    if (pass->kind == LOWER_FORWARD && versions->carrier[m] == m && versions->last_user[m] != SCHED_NONE) {
        send(lowering, versions, pass->layer, move, own);
    } else if (pass->kind == LOWER_BACKWARD && own->back != SCHED_NONE) {
        builder_release_at(lower_builder(lowering), lower_last_compute(lowering), own->back);
    }
}
