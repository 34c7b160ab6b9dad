/* Who talks to whom: device numbers, groups with their sister instances, matches. */
#include "sim/base/check.h"
#include "sim/plan/lower_internal.h"

uint32_t lowering_gpu(const struct lowering *l, uint32_t stage, uint32_t d, uint32_t c, uint32_t t)
{
    return ((stage * l->data + d) * l->context + c) * l->tensor + t;
}

/* The kinds of groups; the member index runs over the coordinates that vary inside the group, the instance index over the others. */
enum group_kind { GROUP_TENSOR, GROUP_DATA, GROUP_MODEL, GROUP_PAIR };

struct group_shape {
    enum group_kind kind;
    uint32_t stage, peer_stage; /* pair: from, to */
    uint32_t member_count, instance_count;
};

static struct group_shape group_shape(const struct lowering *l, enum group_kind kind, uint32_t stage,
                                      uint32_t peer_stage)
{
    struct group_shape shape = { .kind = kind, .stage = stage, .peer_stage = peer_stage };
    switch (kind) {
    case GROUP_TENSOR:
        shape.member_count = l->tensor;
        shape.instance_count = l->replicas;
        break;
    case GROUP_DATA:
        shape.member_count = l->replicas;
        shape.instance_count = l->tensor;
        break;
    case GROUP_MODEL:
        shape.member_count = l->stages * l->tensor;
        shape.instance_count = l->replicas;
        break;
    case GROUP_PAIR:
        shape.member_count = 2;
        shape.instance_count = l->replicas * l->tensor;
        break;
    }
    return shape;
}

static uint32_t group_member(const struct lowering *l, const struct group_shape *shape, uint32_t instance,
                             uint32_t member)
{
    switch (shape->kind) {
    case GROUP_TENSOR: return lowering_gpu(l, shape->stage, instance / l->context, instance % l->context, member);
    case GROUP_DATA: return lowering_gpu(l, shape->stage, member / l->context, member % l->context, instance);
    case GROUP_MODEL:
        return lowering_gpu(l, member / l->tensor, instance / l->context, instance % l->context, member % l->tensor);
    case GROUP_PAIR: {
        uint32_t replica = instance / l->tensor;
        uint32_t stage = member == 0 ? shape->stage : shape->peer_stage;
        return lowering_gpu(l, stage, replica / l->context, replica % l->context, instance % l->tensor);
    }
    }
    return 0;
}

/* The instance that the open rank belongs to. */
static uint32_t own_instance(const struct lowering *l, const struct group_shape *shape, const struct rank_state *rank)
{
    uint32_t replica = rank->d * l->context + rank->c;
    switch (shape->kind) {
    case GROUP_TENSOR:
    case GROUP_MODEL: return replica;
    case GROUP_DATA: return rank->t;
    case GROUP_PAIR: return replica * l->tensor + rank->t;
    }
    return 0;
}

/* Folded: all instances, the representative's (number 0) first. Unfolded: only the rank's own. */
static uint32_t make_group(struct lowering *l, const struct group_shape *shape, const struct rank_state *rank,
                           const char *label)
{
    uint32_t first = l->fold ? 0 : own_instance(l, shape, rank);
    uint32_t count = l->fold ? shape->instance_count : 1;
    uint32_t *members = arena_array(&l->arena, uint32_t, (size_t)count * shape->member_count);
    if (members == NULL) {
        lower_fail(l, STATUS_NO_MEMORY, "out of memory for groups");
        return SCHED_NONE;
    }
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t m = 0; m < shape->member_count; m++) {
            members[(size_t)i * shape->member_count + m] = group_member(l, shape, first + i, m);
        }
    }
    return builder_group(l->builder, members, shape->member_count, count, label);
}

enum status lowering_groups(struct lowering *l, struct rank_state *rank)
{
    struct rank_groups *groups = &rank->groups;
    *groups = (struct rank_groups){ SCHED_NONE, SCHED_NONE, SCHED_NONE, SCHED_NONE, 1, 1, l->stages, 2 };
    struct group_shape shape;
    if (l->tensor > 1) {
        shape = group_shape(l, GROUP_TENSOR, rank->stage, 0);
        groups->tensor = make_group(l, &shape, rank, "tensor");
    }
    if (l->replicas > 1) {
        shape = group_shape(l, GROUP_DATA, rank->stage, 0);
        groups->data = make_group(l, &shape, rank, "data");
    }
    if (l->tensor * l->stages > 1) {
        shape = group_shape(l, GROUP_MODEL, 0, 0);
        groups->model = make_group(l, &shape, rank, "model");
    }
    const struct plan *plan = l->request->plan;
    bool ends = rank->stage == 0 || rank->stage == l->stages - 1;
    if (l->request->model->tied_head && plan->pipeline > 1 && ends) {
        shape = group_shape(l, GROUP_PAIR, 0, l->stages - 1);
        groups->embedding = make_group(l, &shape, rank, "embedding");
    }
    if (!l->fold) {
        groups->tensor_present = l->tensor;
        groups->data_present = l->replicas;
        groups->model_present = l->tensor * l->stages;
    }
    return l->status;
}

uint32_t lowering_pair_group(struct lowering *l, uint32_t from_stage, uint32_t to_stage)
{
    uint32_t *group = &l->pair_groups[(size_t)from_stage * l->stages + to_stage];
    if (*group == SCHED_NONE) {
        struct group_shape shape = group_shape(l, GROUP_PAIR, from_stage, to_stage);
        *group = make_group(l, &shape, l->rank, "pipeline");
    }
    return *group;
}

/* The n-th collective of a group is the same match for all its ranks. */
uint32_t lowering_collective_match(struct lowering *l, uint32_t group, uint32_t present)
{
    if (present == 1) {
        return builder_match(l->builder, group, 1);
    }
    if (group >= l->group_sequence_capacity) {
        uint32_t capacity = 2 * (group + 1);
        uint32_t *grown = arena_array(&l->arena, uint32_t, capacity);
        if (grown == NULL) {
            lower_fail(l, STATUS_NO_MEMORY, "out of memory for matches");
            return 0;
        }
        for (uint32_t i = 0; i < l->group_sequence_capacity; i++) {
            grown[i] = l->group_sequence[i];
        }
        l->group_sequence = grown;
        l->group_sequence_capacity = capacity;
    }
    uint32_t sequence = l->group_sequence[group]++;
    /* open addressing; the table is grown at half load */
    if (2 * (l->shared_match_count + 1) > l->shared_match_capacity) {
        uint32_t capacity = l->shared_match_capacity == 0 ? 1024 : 4 * l->shared_match_capacity;
        struct shared_match *grown = arena_array(&l->arena, struct shared_match, capacity);
        if (grown == NULL) {
            lower_fail(l, STATUS_NO_MEMORY, "out of memory for matches");
            return 0;
        }
        for (uint32_t i = 0; i < capacity; i++) {
            grown[i].match = SCHED_NONE;
        }
        for (uint32_t i = 0; i < l->shared_match_capacity; i++) {
            struct shared_match old = l->shared_matches[i];
            if (old.match == SCHED_NONE) {
                continue;
            }
            uint32_t slot = (old.group * 2654435761u ^ old.sequence * 2246822519u) & (capacity - 1);
            while (grown[slot].match != SCHED_NONE) {
                slot = (slot + 1) & (capacity - 1);
            }
            grown[slot] = old;
        }
        l->shared_matches = grown;
        l->shared_match_capacity = capacity;
    }
    uint32_t mask = l->shared_match_capacity - 1;
    uint32_t slot = (group * 2654435761u ^ sequence * 2246822519u) & mask;
    while (l->shared_matches[slot].match != SCHED_NONE) {
        if (l->shared_matches[slot].group == group && l->shared_matches[slot].sequence == sequence) {
            return l->shared_matches[slot].match;
        }
        slot = (slot + 1) & mask;
    }
    l->shared_matches[slot] = (struct shared_match){ group, sequence, builder_match(l->builder, group, present) };
    l->shared_match_count++;
    return l->shared_matches[slot].match;
}

/* `virtual_stage` is the one that produces: its output goes to virtual_stage + 1 (forward), its input gradient to virtual_stage - 1 (backward). */
uint32_t lowering_transfer_match(struct lowering *l, bool backward, uint32_t virtual_stage, uint32_t micro_batch,
                                 uint32_t from_stage, uint32_t to_stage)
{
    const struct rank_state *rank = l->rank;
    uint32_t instance = l->fold ? 0 : (rank->d * l->context + rank->c) * l->tensor + rank->t;
    uint32_t virtual_count = l->stages * l->virtual_stages;
    uint32_t *matches = backward ? l->backward_matches : l->forward_matches;
    uint32_t *match = &matches[((size_t)instance * virtual_count + virtual_stage) * l->micro_batches + micro_batch];
    if (*match == SCHED_NONE) {
        *match = builder_match(l->builder, lowering_pair_group(l, from_stage, to_stage), 2);
    }
    return *match;
}
