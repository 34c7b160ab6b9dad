/* Groups and matches: members, sisters, who meets whom, and in which order.
 *
 * Many ops meet over few groups, so what depends on the pair (group, rank) alone is worked out at the rank's first op with that group and kept until the next rank. */
#include <string.h>

#include "sim/ir/verify_internal.h"

#define BAD(v, ...) error_set((v)->error, STATUS_BAD_SCHEDULE, __VA_ARGS__)

struct group_note {
    uint32_t rank_plus_1; /* whose place and count these are */
    uint32_t place;       /* of the rank's representative among the members, instance-major */
    uint32_t collectives; /* of the group so far in the rank */
    uint32_t ranks;       /* that have a device in the first instance: ops that must meet */
};

struct match_note {
    uint32_t ops;       /* met so far */
    uint32_t first_op;  /* the first of them */
    uint32_t last_rank; /* of the latest */
    uint32_t place,
        ordinal; /* the first op's place in the group, and which of the rank's collectives of the group it is */
};

struct groups {
    struct verifier *v;
    uint32_t devices;              /* the highest number of a device + 1 */
    uint32_t *rank_of;             /* [devices]: + 1; 0: of no rank */
    uint32_t *stamps;              /* [devices] */
    uint32_t *place;               /* [devices]: where the group stamped last lists the device */
    uint32_t stamp, stamped_group; /* the group the stamps are of, + 1 */
    struct group_note *groups;
    struct match_note *matches;
};

static const char *group_label(const struct verifier *v, uint32_t group)
{
    return sched_label(v->s, v->s->groups[group].label);
}

static enum status check_devices(struct groups *g)
{
    const struct schedule *s = g->v->s;
    for (uint32_t r = 0; r < s->rank_count; r++) {
        const struct sched_rank *rank = &s->ranks[r];
        for (uint32_t i = 0; i < rank->device_count; i++) {
            uint32_t device = s->devices[rank->first_device + i];
            if (g->rank_of[device] != 0) {
                return BAD(g->v, "device %u is listed twice: by rank %u and rank %u", device, g->rank_of[device] - 1,
                           r);
            }
            g->rank_of[device] = r + 1;
        }
    }
    return STATUS_OK;
}

static enum status check_members(struct groups *g)
{
    struct verifier *v = g->v;
    const struct schedule *s = v->s;
    uint32_t members = 0;
    uint32_t *seen = verify_array(v, uint32_t, s->rank_count);
    if (seen == NULL) {
        return STATUS_NO_MEMORY;
    }
    for (uint32_t i = 0; i < s->group_count; i++) {
        const struct sched_group *group = &s->groups[i];
        uint64_t total = (uint64_t)group->member_count * group->instance_count;
        if (group->label >= s->text_bytes || total == 0 || group->first_member != members ||
            total > s->group_member_count - members) {
            return BAD(v, "group %u: its members must follow those of the group before, one at least", i);
        }
        g->stamp++;
        for (uint32_t j = 0; j < total; j++) {
            uint32_t device = s->group_members[members + j];
            if (g->stamps[device] == g->stamp) {
                return BAD(v, "group %u \"%s\": device %u is a member twice", i, group_label(v, i), device);
            }
            g->stamps[device] = g->stamp;
            uint32_t rank = g->rank_of[device];
            if (j < group->member_count && rank != 0 && seen[rank - 1] != i + 1) {
                seen[rank - 1] = i + 1;
                g->groups[i].ranks++;
            }
        }
        members += (uint32_t)total;
    }
    return members == s->group_member_count ? STATUS_OK : BAD(v, "group members that no group holds");
}

/* At a rank's first op with a group: all the rank's devices are members; where the representative stands. */
static enum status meet_group(struct groups *g, uint32_t op, uint32_t group, uint32_t rank)
{
    struct verifier *v = g->v;
    const struct schedule *s = v->s;
    const struct sched_group *gr = &s->groups[group];
    const struct sched_rank *r = &s->ranks[rank];
    char name[OP_NAME_BYTES];
    uint32_t total = gr->member_count * gr->instance_count;
    if (g->stamped_group != group + 1) {
        g->stamped_group = group + 1;
        g->stamp++;
        for (uint32_t i = 0; i < total; i++) {
            g->stamps[s->group_members[gr->first_member + i]] = g->stamp;
            g->place[s->group_members[gr->first_member + i]] = i;
        }
    }
    for (uint32_t i = 0; i < r->device_count; i++) {
        uint32_t device = s->devices[r->first_device + i];
        if (g->stamps[device] != g->stamp) {
            return BAD(v, "%s: group %u \"%s\" does not hold device %u of its rank", verify_op_name(v, op, name), group,
                       group_label(v, group), device);
        }
    }
    g->groups[group].rank_plus_1 = rank + 1;
    g->groups[group].place = g->place[s->devices[r->first_device]];
    g->groups[group].collectives = 0;
    return STATUS_OK;
}

static enum status first_of_match(struct groups *g, uint32_t op, struct match_note *m)
{
    struct verifier *v = g->v;
    const struct sched_op *o = &v->s->ops[op];
    uint32_t group = v->s->matches[o->match].group;
    uint32_t wanted = v->s->matches[o->match].op_count;
    char name[OP_NAME_BYTES];
    bool collective = opcode_match((enum opcode)o->opcode) == MATCH_GROUP;
    if (!collective && (v->s->groups[group].member_count != 2 || wanted != 2)) {
        return BAD(v, "%s: match %u must be of two ops over a group of two: sender, receiver",
                   verify_op_name(v, op, name), o->match);
    }
    if (wanted != g->groups[group].ranks) {
        return BAD(v, "%s: match %u wants %u ops, but %u ranks are in the first instance of group %u \"%s\"",
                   verify_op_name(v, op, name), o->match, wanted, g->groups[group].ranks, group, group_label(v, group));
    }
    m->first_op = op;
    m->place = g->groups[group].place;
    m->ordinal = g->groups[group].collectives;
    return STATUS_OK;
}

/* A later op of a match against the first. */
static enum status next_of_match(struct groups *g, uint32_t op, uint32_t rank, const struct match_note *m)
{
    struct verifier *v = g->v;
    const struct schedule *s = v->s;
    const struct sched_op *o = &s->ops[op], *first = &s->ops[m->first_op];
    const struct sched_work *a = &s->works[first->work], *b = &s->works[o->work];
    uint32_t group = s->matches[o->match].group, width = s->groups[group].member_count;
    /* Written for complaints alone: this runs for every op of a match. */
    char name[OP_NAME_BYTES], other[OP_NAME_BYTES];
    bool collective = opcode_match((enum opcode)o->opcode) == MATCH_GROUP;
    bool pair =
        (o->opcode == OP_SEND && first->opcode == OP_RECV) || (o->opcode == OP_RECV && first->opcode == OP_SEND);
    if (m->last_rank == rank) {
        return BAD(v, "%s and %s: two ops of one rank in match %u", verify_op_name(v, m->first_op, other),
                   verify_op_name(v, op, name), o->match);
    }
    if (m->ops >= s->matches[o->match].op_count) {
        return BAD(v, "%s: match %u already has its %u ops", verify_op_name(v, op, name), o->match, m->ops);
    }
    if (collective ? o->opcode != first->opcode : !pair) {
        return BAD(v, "%s meets %s in match %u: %s", verify_op_name(v, op, name), verify_op_name(v, m->first_op, other),
                   o->match, collective ? "a collective is one opcode" : "a send meets a recv");
    }
    /* Equal sizes are equal bits: both come from the same arithmetic or are wrong. */
    if (memcmp(&a->bytes, &b->bytes, sizeof a->bytes) != 0 || a->dtype != b->dtype) {
        return BAD(v, "%s has %.17g bytes %s, its partner %s has %.17g bytes %s", verify_op_name(v, op, name), b->bytes,
                   collective ? dtype_word((enum dtype)b->dtype) : "", verify_op_name(v, m->first_op, other), a->bytes,
                   collective ? dtype_word((enum dtype)a->dtype) : "");
    }
    if (g->groups[group].place / width != m->place / width) {
        return BAD(v, "%s and %s: their ranks' first devices are in different instances of group %u \"%s\"",
                   verify_op_name(v, m->first_op, other), verify_op_name(v, op, name), group, group_label(v, group));
    }
    if (collective && g->groups[group].collectives != m->ordinal) {
        return BAD(v, "%s is number %u of its rank's collectives over group %u \"%s\", its partner %s number %u",
                   verify_op_name(v, op, name), g->groups[group].collectives, group, group_label(v, group),
                   verify_op_name(v, m->first_op, other), m->ordinal);
    }
    return STATUS_OK;
}

static enum status check_match(struct groups *g, uint32_t op, uint32_t rank)
{
    struct verifier *v = g->v;
    const struct schedule *s = v->s;
    const struct sched_op *o = &s->ops[op];
    struct match_note *m = &g->matches[o->match];
    uint32_t group = s->matches[o->match].group;
    char name[OP_NAME_BYTES];
    bool collective = opcode_match((enum opcode)o->opcode) == MATCH_GROUP;
    if (g->groups[group].rank_plus_1 != rank + 1) {
        TRY(meet_group(g, op, group, rank));
    }
    if (collective) {
        g->groups[group].collectives++;
        if (s->works[o->work].kind == WORK_COLLECTIVE && s->works[o->work].group != group) { /* a fixed time has none */
            return BAD(v, "%s: its work is over group %u, its match over group %u", verify_op_name(v, op, name),
                       s->works[o->work].group, group);
        }
    } else if (g->groups[group].place % s->groups[group].member_count != (o->opcode == OP_SEND ? 0 : 1)) {
        return BAD(v, "%s: group %u \"%s\" lists its rank's device in another role; pairs are sender, receiver",
                   verify_op_name(v, op, name), group, group_label(v, group));
    }
    TRY(m->ops == 0 ? first_of_match(g, op, m) : next_of_match(g, op, rank, m));
    m->ops++;
    m->last_rank = rank;
    return STATUS_OK;
}

/* Collectives merged into a kernel sequence meet nobody: all their members are the rank's own devices. */
static enum status check_merged(struct groups *g, uint32_t op, uint32_t rank, uint32_t *checked_for)
{
    struct verifier *v = g->v;
    const struct schedule *s = v->s;
    uint32_t index = s->ops[op].work;
    const struct sched_work *w = &s->works[index];
    char name[OP_NAME_BYTES];
    if (checked_for[index] == rank + 1) {
        return STATUS_OK;
    }
    checked_for[index] = rank + 1;
    for (uint32_t i = 0; i < w->item_count; i++) {
        const struct work_item *item = &s->work_items[w->first_item + i];
        if (item->kind == ITEM_KERNEL) {
            continue;
        }
        const struct sched_group *group = &s->groups[s->works[item->index].group];
        for (uint32_t j = 0; j < group->member_count; j++) {
            if (g->rank_of[s->group_members[group->first_member + j]] != rank + 1) {
                return BAD(v, "%s: it contains a collective over group \"%s\", which has members in other ranks",
                           verify_op_name(v, op, name), sched_label(s, group->label));
            }
        }
    }
    return STATUS_OK;
}

static enum status check_counts(struct groups *g)
{
    struct verifier *v = g->v;
    const struct schedule *s = v->s;
    for (uint32_t i = 0; i < s->match_count; i++) {
        const struct sched_match *match = &s->matches[i];
        if (g->matches[i].ops != match->op_count) {
            return BAD(v, "match %u over group %u \"%s\" wants %u ops, %u name it", i, match->group,
                       group_label(v, match->group), match->op_count, g->matches[i].ops);
        }
    }
    return STATUS_OK;
}

enum status verify_list_matches(struct verifier *v)
{
    const struct schedule *s = v->s;
    if (v->match_ops != NULL) {
        return STATUS_OK;
    }
    uint32_t total = 0;
    v->match_start = verify_array(v, uint32_t, s->match_count + 1);
    v->match_ops = verify_array(v, uint32_t, s->op_count);
    if (v->match_start == NULL || v->match_ops == NULL) {
        return STATUS_NO_MEMORY;
    }
    for (uint32_t i = 0; i < s->match_count; i++) {
        total += s->matches[i].op_count;
        v->match_start[i + 1] = total; /* its end, and while filling its start moves up to there */
    }
    for (uint32_t i = s->op_count; i-- > 0;) {
        uint32_t match = s->ops[i].match;
        if (match != SCHED_NONE) {
            v->match_ops[--v->match_start[match + 1]] = i;
        }
    }
    for (uint32_t i = 0; i < s->match_count; i++) {
        v->match_start[i] = v->match_start[i + 1];
    }
    v->match_start[s->match_count] = total;
    return STATUS_OK;
}

/* Every device number that is listed, limited. */
static enum status count_devices(struct groups *g)
{
    const struct schedule *s = g->v->s;
    uint32_t highest = 0;
    for (uint32_t i = 0; i < s->device_count; i++) {
        highest = s->devices[i] > highest ? s->devices[i] : highest;
    }
    for (uint32_t i = 0; i < s->group_member_count; i++) {
        highest = s->group_members[i] > highest ? s->group_members[i] : highest;
    }
    if (highest >= SCHED_DEVICES_MAX) {
        return BAD(g->v, "a rank or a group lists device %u; numbers end below %d", highest, SCHED_DEVICES_MAX);
    }
    g->devices = highest + 1;
    return STATUS_OK;
}

enum status verify_groups(struct verifier *v)
{
    const struct schedule *s = v->s;
    struct groups g = { .v = v };
    TRY(count_devices(&g));
    g.rank_of = verify_array(v, uint32_t, g.devices);
    g.stamps = verify_array(v, uint32_t, g.devices);
    g.place = verify_array(v, uint32_t, g.devices);
    g.groups = verify_array(v, struct group_note, s->group_count);
    g.matches = verify_array(v, struct match_note, s->match_count);
    uint32_t *checked_for = verify_array(v, uint32_t, s->work_count);
    if (g.rank_of == NULL || g.stamps == NULL || g.place == NULL || g.groups == NULL || g.matches == NULL ||
        checked_for == NULL) {
        return STATUS_NO_MEMORY;
    }
    TRY(check_devices(&g));
    TRY(check_members(&g));
    for (uint32_t i = 0; i < s->match_count; i++) {
        if (s->matches[i].group >= s->group_count || s->matches[i].op_count == 0) {
            return BAD(v, "match %u: its group is out of range, or it wants no op", i);
        }
    }
    for (uint32_t r = 0; r < s->rank_count; r++) {
        uint32_t end = s->ranks[r].first_op + s->ranks[r].op_count;
        for (uint32_t i = s->ranks[r].first_op; i < end; i++) {
            if (s->ops[i].match != SCHED_NONE) {
                TRY(check_match(&g, i, r));
            } else if (s->ops[i].opcode == OP_COMPUTE) {
                TRY(check_merged(&g, i, r, checked_for));
            }
        }
    }
    return check_counts(&g);
}
