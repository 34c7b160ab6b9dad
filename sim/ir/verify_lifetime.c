/* Buffers along the partial order: every use behind the start of the acquisition, every release behind the end of every use.
 *
 * Within a rank the rows of verify_order.c answer "has a ended when b starts" at once, as far as the reason lies in the rank. Reasons that go through another rank (a
 * send there, a receive back) are searched for, backwards, among the ops between the two; such searches share a budget linear in the schedule. */
#include "sim/base/check.h"
#include "sim/ir/verify_internal.h"

static bool together(const struct schedule *s, uint32_t a, uint32_t b)
{
    return a == b || (s->ops[a].match != SCHED_NONE && s->ops[a].match == s->ops[b].match);
}

/* `a` has ended when `b` starts, for a reason within their rank. */
static bool before_within(const struct verifier *v, uint32_t a, uint32_t b)
{
    const struct schedule *s = v->s;
    uint32_t qa = s->ops[a].queue, qb = s->ops[b].queue;
    if (qa == qb) {
        return a < b;
    }
    return s->queues[qa].rank == s->queues[qb].rank && v->rows.items[v->row_of[b] + v->local_queue[qa]] > a;
}

static enum status prepare_search(struct verifier *v)
{
    const struct schedule *s = v->s;
    TRY(verify_list_matches(v));
    v->stamps = verify_array(v, uint32_t, s->op_count);
    v->stack = verify_array(v, uint32_t, s->op_count);
    v->previous_in_queue = verify_array(v, uint32_t, s->op_count);
    if (v->stamps == NULL || v->stack == NULL || v->previous_in_queue == NULL) {
        return STATUS_NO_MEMORY;
    }
    for (uint32_t i = 0; i < s->queue_count; i++) {
        uint32_t previous = SCHED_NONE;
        for (uint32_t op = v->queue_first[i]; op != SCHED_NONE; op = v->next_in_queue[op]) {
            v->previous_in_queue[op] = previous;
            previous = op;
        }
    }
    v->steps_left = UINT64_C(64) * ((uint64_t)s->op_count + s->dependency_count) + 1000000;
    return STATUS_OK;
}

static void visit(struct verifier *v, uint32_t op, uint32_t after, uint32_t *depth)
{
    if (op != SCHED_NONE && v->stamps[op] != v->stamp && v->state[op] >= v->state[after]) {
        v->stamps[op] = v->stamp;
        v->stack[(*depth)++] = op;
    }
}

/* Push the causes of `op`: what must have ended when it starts. */
static void visit_causes(struct verifier *v, uint32_t op, uint32_t after, uint32_t *depth, uint64_t *steps)
{
    const struct schedule *s = v->s;
    const struct sched_op *o = &s->ops[op];
    visit(v, v->previous_in_queue[op], after, depth);
    for (uint32_t i = 0; i < o->dependency_count; i++) {
        visit(v, s->dependencies[o->first_dependency + i], after, depth);
    }
    if (v->fence != NULL) {
        visit(v, v->fence[op], after, depth);
    }
    *steps += 1 + o->dependency_count;
}

/* As before_within, through other ranks. */
static enum status before_across(struct verifier *v, uint32_t a, uint32_t b, bool *yes)
{
    const struct schedule *s = v->s;
    uint32_t depth = 0;
    *yes = false;
    if (v->state[a] >= v->state[b]) {
        return STATUS_OK;
    }
    if (v->stamps == NULL) {
        TRY(prepare_search(v));
    }
    v->stamp++;
    v->stamps[b] = v->stamp;
    v->stack[depth++] = b;
    while (depth > 0) {
        uint32_t op = v->stack[--depth], match = s->ops[op].match;
        if (op != b && (together(s, a, op) || before_within(v, a, op))) {
            *yes = true;
            return STATUS_OK;
        }
        uint64_t steps = 0;
        if (match == SCHED_NONE) {
            visit_causes(v, op, a, &depth, &steps);
        } else {
            for (uint32_t i = v->match_start[match]; i < v->match_start[match + 1]; i++) {
                uint32_t partner = v->match_ops[i];
                if (partner != op && before_within(v, a, partner)) {
                    *yes = true;
                    return STATUS_OK;
                }
                if (partner == op || v->stamps[partner] != v->stamp) {
                    v->stamps[partner] = v->stamp;
                    visit_causes(v, partner, a, &depth, &steps);
                }
            }
        }
        if (steps >= v->steps_left) {
            char name_a[OP_NAME_BYTES], name_b[OP_NAME_BYTES];
            return error_set(v->error, STATUS_LIMIT,
                             "%s must end before %s, but only through too many ops of other ranks: add a dependency",
                             verify_op_name(v, a, name_a), verify_op_name(v, b, name_b));
        }
        v->steps_left -= steps;
    }
    return STATUS_OK;
}

static enum status before(struct verifier *v, uint32_t a, uint32_t b, bool *yes)
{
    *yes = together(v->s, a, b) || before_within(v, a, b);
    return *yes ? STATUS_OK : before_across(v, a, b, yes);
}

static enum status complain(struct verifier *v, uint32_t op, uint32_t buffer, uint32_t other, const char *verb,
                            const char *rule)
{
    char name[OP_NAME_BYTES], other_name[OP_NAME_BYTES];
    return error_set(v->error, STATUS_BAD_SCHEDULE, "%s: %s buffer %u \"%s\", but %s %s", verify_op_name(v, op, name),
                     verb, buffer, sched_label(v->s, v->s->buffers[buffer].label), rule,
                     verify_op_name(v, other, other_name));
}

static enum status check_use(struct verifier *v, uint32_t op, uint32_t buffer, const char *verb)
{
    struct buffer_life life = v->lives[buffer];
    bool yes;
    if (life.acquirer != SCHED_NONE && life.acquirer != op) {
        TRY(before(v, life.acquirer, op, &yes));
        if (!yes) {
            return complain(v, op, buffer, life.acquirer, verb, "nothing makes it wait for its acquisition by");
        }
    }
    if (life.releaser != SCHED_NONE && life.releaser != op) {
        TRY(before(v, op, life.releaser, &yes));
        if (!yes) {
            return complain(v, op, buffer, life.releaser, verb, "nothing makes its release wait: it is released by");
        }
    }
    return STATUS_OK;
}

enum status verify_lifetimes(struct verifier *v)
{
    const struct schedule *s = v->s;
    for (uint32_t i = 0; i < s->op_count; i++) {
        const struct sched_op *op = &s->ops[i];
        const uint32_t *operands = s->operands + op->first_operand;
        uint32_t acquires = op->acquire_count, releases = acquires + op->release_count;
        uint32_t reads = releases + op->read_count, writes = reads + op->write_count;
        for (uint32_t j = 0; j < writes; j++) {
            TRY(check_use(v, i, operands[j],
                          j < acquires   ? "acquires"
                          : j < releases ? "releases"
                          : j < reads    ? "reads"
                                         : "writes"));
        }
    }
    return STATUS_OK;
}
