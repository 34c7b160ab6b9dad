/* Who talks to whom: device numbers, groups with their sister instances, matches. */
#include "sim/base/check.h"
#include "sim/plan/lower_internal.h"

uint32_t lowering_stage_gpu(const struct lowering *l, uint32_t stage)
{
    if (l->unequal) {
        return l->stage_gpus[stage];
    }
    const int64_t *places = l->request->plan->stage_places;
    return (places != NULL ? (uint32_t)places[stage] : stage) * l->stage_devices;
}

uint32_t lowering_gpu(const struct lowering *l, uint32_t stage, uint32_t d, uint32_t c, uint32_t t)
{
    return lowering_stage_gpu(l, stage) + (d * l->context + c) * l->tensor + t;
}

uint32_t lowering_replicas(const struct lowering *l, uint32_t stage)
{
    return l->unequal ? l->request->plan->stage_replicas[stage] : l->replicas;
}

/* The kinds of groups; the member index runs over the coordinates that vary inside the group, the instance index over the others. */
enum group_kind { GROUP_TENSOR, GROUP_DATA, GROUP_MODEL, GROUP_WORLD, GROUP_PAIR, GROUP_ENDS };

struct group_shape {
    enum group_kind kind;
    uint32_t stage,
        peer_stage; /* pair, ends: from, to; data: where the other copy of the model has these layers, or `stage` */
    const struct layout *layout; /* tensor, data */
    uint32_t member_count, instance_count;
};

static struct group_shape group_shape(const struct lowering *l, enum group_kind kind, uint32_t stage,
                                      uint32_t peer_stage, const struct layout *layout)
{
    struct group_shape shape = { .kind = kind, .stage = stage, .peer_stage = peer_stage, .layout = layout };
    switch (kind) {
    case GROUP_TENSOR:
        shape.member_count = layout->tensor;
        shape.instance_count = layout->replicas;
        break;
    case GROUP_DATA:
        shape.member_count = layout->replicas * l->copies;
        shape.instance_count = layout->tensor;
        break;
    case GROUP_MODEL:
        shape.member_count = l->stages * l->tensor;
        shape.instance_count = l->replicas;
        break;
    case GROUP_WORLD:
        shape.member_count = l->request->cluster->gpus;
        shape.instance_count = 1;
        break;
    case GROUP_PAIR:
        shape.member_count = 2;
        shape.instance_count = l->stage_devices;
        break;
    case GROUP_ENDS: /* all replicas of two stages */
        shape.member_count = lowering_replicas(l, stage) + lowering_replicas(l, peer_stage);
        shape.instance_count = l->tensor;
        break;
    }
    return shape;
}

uint32_t lowering_rank_in_stage(const struct lowering *l, const struct rank_state *rank)
{
    return (rank->d * l->context + rank->c) * l->tensor + rank->t;
}

static uint32_t layout_gpu(const struct lowering *l, uint32_t stage, const struct layout *layout, uint32_t replica,
                           uint32_t t)
{
    return lowering_stage_gpu(l, stage) + (uint32_t)plan_layer_rank(&layout->split, replica, t);
}

static uint32_t group_member(const struct lowering *l, const struct group_shape *shape, uint32_t instance,
                             uint32_t member)
{
    switch (shape->kind) {
    case GROUP_TENSOR: return layout_gpu(l, shape->stage, shape->layout, instance, member);
    case GROUP_DATA: {
        /* both stages list the group alike: the lower one first */
        uint32_t replicas = shape->layout->replicas;
        bool lower = (member < replicas) == (shape->stage < shape->peer_stage);
        return layout_gpu(l, lower ? shape->stage : shape->peer_stage, shape->layout, member % replicas, instance);
    }
    case GROUP_MODEL:
        return lowering_gpu(l, member / l->tensor, instance / l->context, instance % l->context, member % l->tensor);
    case GROUP_WORLD: return member;
    case GROUP_PAIR: return lowering_stage_gpu(l, member == 0 ? shape->stage : shape->peer_stage) + instance;
    case GROUP_ENDS: {
        uint32_t first = lowering_replicas(l, shape->stage);
        return member < first ? lowering_gpu(l, shape->stage, member, 0, instance)
                              : lowering_gpu(l, shape->peer_stage, member - first, 0, instance);
    }
    }
    return 0;
}

/* The instance that the open rank belongs to. */
static uint32_t own_instance(const struct lowering *l, const struct group_shape *shape, const struct rank_state *rank)
{
    uint32_t index = lowering_rank_in_stage(l, rank);
    switch (shape->kind) {
    case GROUP_TENSOR: return (uint32_t)plan_layer_data_index(&shape->layout->split, index);
    case GROUP_DATA: return (uint32_t)plan_layer_tensor_index(&shape->layout->split, index);
    case GROUP_MODEL: return rank->d * l->context + rank->c;
    case GROUP_WORLD: return 0;
    case GROUP_PAIR: return index;
    case GROUP_ENDS: return rank->t;
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

/* Ranks that gather (or, under sequence parallelism, exchange) between two layouts. A gather's members stand in one tensor-parallel group of `to` and keep different pieces: the n-th rank of
 * every key makes the n-th group. */
struct move_groups {
    const struct plan_layer *from, *to;
    bool exchange;
    uint32_t size, group_of_own;
    uint32_t *key_counts, *filled; /* ranks seen of a key; members so far of a group */
    uint32_t *group_of, *members;  /* by rank; by group */
};

/* Numbers the groups in the order of their lowest ranks: the representative is in group 0. */
static void assign_groups(struct move_groups *m, uint32_t ranks)
{
    const int64_t kept = plan_move_between(m->from, m->to).kept;
    uint32_t *number_of = m->key_counts + ranks; /* by block of ranks that share groups, and place in it */
    uint32_t groups = 0;
    for (uint32_t r = 0; r < ranks; r++) {
        int64_t slot = m->exchange
                           ? plan_exchange_key(m->from, m->to, r)
                           : plan_layer_data_index(m->to, r) * kept + m->key_counts[plan_move_key(m->from, m->to, r)]++;
        if (number_of[slot] == SCHED_NONE) {
            number_of[slot] = groups++;
        }
        uint32_t group = number_of[slot];
        m->group_of[r] = group;
        m->members[(size_t)group * m->size + m->filled[group]++] = r;
    }
}

static uint32_t make_move_group(struct lowering *l, const struct rank_state *rank, uint32_t from, uint32_t to)
{
    uint32_t ranks = l->stage_devices;
    struct move_groups m = { .from = &l->layouts[from].split,
                             .to = &l->layouts[to].split,
                             .exchange = l->request->plan->sequence_parallel };
    m.size = (uint32_t)(m.exchange ? plan_exchange_size(m.from, m.to) : plan_move_between(m.from, m.to).gathered);
    if (m.size == 1) {
        return SCHED_NONE;
    }
    uint32_t *numbers = arena_array(&l->arena, uint32_t, (size_t)ranks * 5);
    if (numbers == NULL) {
        lower_fail(l, STATUS_NO_MEMORY, "out of memory for groups");
        return SCHED_NONE;
    }
    m.key_counts = numbers; /* zero, as the arena gives it; the ranks' numbers behind it: */
    for (uint32_t i = ranks; i < 2 * ranks; i++) {
        numbers[i] = SCHED_NONE;
    }
    m.filled = numbers + (size_t)2 * ranks;
    m.group_of = numbers + (size_t)3 * ranks;
    m.members = numbers + (size_t)4 * ranks;
    assign_groups(&m, ranks);
    for (uint32_t i = 0; i < ranks; i++) {
        m.members[i] += lowering_stage_gpu(l, rank->stage);
    }
    const char *label = m.exchange ? "exchange" : "redistribution";
    return l->fold ? builder_group(l->builder, m.members, m.size, ranks / m.size, label)
                   : builder_group(l->builder, m.members + (size_t)m.group_of[lowering_rank_in_stage(l, rank)] * m.size,
                                   m.size, 1, label);
}

/* The groups of all moves that end on this rank: from either neighbour of each of its layers. */
static void move_groups(struct lowering *l, struct rank_state *rank)
{
    uint32_t last = (uint32_t)l->request->model->layers + 1;
    for (uint32_t i = 0; l->mixed && i < rank->layer_count && l->status == STATUS_OK; i++) {
        uint32_t at = lowering_position(l, &rank->layers[i]), own = rank->layers[i].layout;
        for (uint32_t side = 0; side < 2; side++) {
            if (at == (side == 0 ? 0 : last)) {
                continue;
            }
            uint32_t from = l->layout_at[side == 0 ? at - 1 : at + 1];
            uint32_t *group = &rank->groups.moves[(size_t)from * l->layout_count + own];
            if (*group == SCHED_NONE && !lowering_stays(l, from, own)) {
                *group = make_move_group(l, rank, from, own);
            }
        }
    }
}

/* The stage that holds the other copy of the layers of `stage`. */
static uint32_t twin_stage(const struct lowering *l, uint32_t stage)
{
    const struct pipeline_order *order = l->request->order;
    uint32_t twin = stage;
    for (uint32_t chunk = 0; l->copies > 1 && chunk < l->virtual_stages; chunk++) {
        uint32_t v = order_virtual_stage(order, &l->order_request, stage, chunk), other, at;
        order_holder(order, &l->order_request, (v + l->model_stages) % (2 * l->model_stages), &other, &at);
        CHECK(chunk == 0 || other == twin); /* orders of two copies mirror whole stages */
        twin = other;
    }
    return twin;
}

static void layout_groups(struct lowering *l, struct rank_state *rank)
{
    for (uint32_t i = 0; i < l->layout_count; i++) {
        const struct layout *layout = &l->layouts[i];
        struct rank_layout *own = &rank->layouts[i];
        own->tensor = own->data = own->root_gather = SCHED_NONE;
        own->tensor_present = l->fold ? 1 : layout->tensor;
        own->data_present = (l->fold ? 1 : layout->replicas) * l->copies;
        if (own->used && layout->tensor > 1) {
            struct group_shape shape = group_shape(l, GROUP_TENSOR, rank->stage, 0, layout);
            own->tensor = make_group(l, &shape, rank, "tensor");
        }
        if (own->used && layout->replicas * l->copies > 1) {
            struct group_shape shape = group_shape(l, GROUP_DATA, rank->stage, twin_stage(l, rank->stage), layout);
            own->data = make_group(l, &shape, rank, "data");
        }
    }
}

enum status lowering_groups(struct lowering *l, struct rank_state *rank)
{
    struct rank_groups *groups = &rank->groups;
    size_t pairs = l->mixed ? (size_t)l->layout_count * l->layout_count : 0;
    *groups = (struct rank_groups){ .model = SCHED_NONE,
                                    .embedding = SCHED_NONE,
                                    .model_present = l->stages,
                                    .moves = arena_array(&l->arena, uint32_t, pairs) };
    if (pairs > 0 && groups->moves == NULL) {
        lower_fail(l, STATUS_NO_MEMORY, "out of memory for groups");
        return l->status;
    }
    for (size_t i = 0; i < pairs; i++) {
        groups->moves[i] = SCHED_NONE;
    }
    layout_groups(l, rank);
    struct group_shape shape;
    bool world = l->mixed || l->unequal;
    if (world || l->tensor * l->stages > 1) {
        shape = group_shape(l, world ? GROUP_WORLD : GROUP_MODEL, 0, 0, NULL);
        if (shape.member_count > 1) { /* one GPU may have layers of different ZeRO stages too */
            groups->model = make_group(l, &shape, rank, "model");
            groups->model_present = l->fold ? l->stages : shape.member_count;
        }
    }
    uint32_t first, last, chunk;
    order_holder(l->request->order, &l->order_request, 0, &first, &chunk);
    order_holder(l->request->order, &l->order_request, l->model_stages - 1, &last, &chunk);
    if (l->tied_apart && (rank->stage == first || rank->stage == last)) {
        shape = group_shape(l, l->unequal ? GROUP_ENDS : GROUP_PAIR, first, last, NULL);
        groups->embedding_present = shape.member_count;
        groups->embedding = make_group(l, &shape, rank, "embedding");
    }
    move_groups(l, rank);
    return l->status;
}

uint32_t lowering_pair_group(struct lowering *l, uint32_t from_stage, uint32_t to_stage)
{
    uint32_t *group = &l->pair_groups[(size_t)from_stage * l->stages + to_stage];
    if (*group == SCHED_NONE) {
        struct group_shape shape = group_shape(l, GROUP_PAIR, from_stage, to_stage, NULL);
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
