/* Pipeline transfers that are one batch: a send and the receive posted with it, both waited for before the next pass. That no schedule deadlocks is part of each run (sched_verify,
 * the engine, the audit: tests/lower_run.h). */
#include "tests/lower_run.h"

#define MODEL                                                                                                          \
    "{\"schema\":\"memwall.scenario/1\",\"name\":\"exchange\",\"model\":{\"family\":\"gpt\",\"layers\":24,"            \
    "\"hidden\":256,\"heads\":8,\"ffn\":1024,\"vocab\":1000,\"max_sequence\":128},\"machine\":\"dgx-a100-80gb\","

/* The op of another rank that meets `op`. */
static uint32_t partner(const struct schedule *s, uint32_t op)
{
    for (uint32_t i = 0; i < s->op_count; i++) {
        if (i != op && s->ops[i].match == s->ops[op].match) {
            return i;
        }
    }
    return SCHED_NONE;
}

static uint32_t dependency_of(const struct schedule *s, uint32_t op, enum opcode opcode)
{
    const struct sched_op *o = &s->ops[op];
    for (uint32_t i = 0; i < o->dependency_count; i++) {
        uint32_t cause = s->dependencies[o->first_dependency + i];
        if (s->ops[cause].opcode == opcode) {
            return cause;
        }
    }
    return SCHED_NONE;
}

/* Sends of a rank that its compute queue waits for. */
struct awaited {
    uint32_t exchanges; /* with a receive, and so does the peer */
    uint32_t lone;
};

static bool is_exchange(const struct schedule *s, uint32_t op, uint32_t sent)
{
    uint32_t received = dependency_of(s, op, OP_RECV);
    if (received == SCHED_NONE || dependency_of(s, received, OP_SEND) != SCHED_NONE) {
        return false; /* posted after the send was over */
    }
    uint32_t their_receive = partner(s, sent), their_send = partner(s, received);
    EXPECT_INT(sched_op_rank(s, &s->ops[their_receive]), sched_op_rank(s, &s->ops[their_send]));
    EXPECT_INT(dependency_of(s, sent, OP_COMPUTE), dependency_of(s, received, OP_COMPUTE));
    for (uint32_t k = 0; k < s->op_count; k++) {
        if (dependency_of(s, k, OP_SEND) == their_send && dependency_of(s, k, OP_RECV) == their_receive) {
            return true;
        }
    }
    char text[256];
    TEST_FAIL_("the peer of op %u (%s) does not wait for both", op, sched_op_text(s, op, text, sizeof text));
    return true;
}

static struct awaited awaited(const struct schedule *s, uint32_t rank)
{
    struct awaited count = { 0 };
    uint32_t end = s->ranks[rank].first_op + s->ranks[rank].op_count;
    for (uint32_t i = s->ranks[rank].first_op; i < end; i++) {
        uint32_t sent = dependency_of(s, i, OP_SEND);
        if (sent == SCHED_NONE || s->ops[i].opcode == OP_RECV) {
            continue;
        }
        EXPECT_INT(s->queues[s->ops[i].queue].queue_class, QUEUE_COMPUTE);
        bool exchange = is_exchange(s, i, sent);
        count.exchanges += exchange;
        count.lone += !exchange;
        for (uint32_t k = sent + 1; k < i; k++) { /* a receive between the two is posted when the send is over */
            EXPECT(exchange || s->ops[k].opcode != OP_RECV || dependency_of(s, k, OP_SEND) == sent);
        }
    }
    return count;
}

/* All that a rank sends. */
static uint32_t sends(const struct schedule *s, uint32_t rank)
{
    uint32_t count = 0, end = s->ranks[rank].first_op + s->ranks[rank].op_count;
    for (uint32_t i = s->ranks[rank].first_op; i < end; i++) {
        count += s->ops[i].opcode == OP_SEND;
    }
    return count;
}

/* 1F1B: stage s runs w = min(p - 1 - s, m) forwards first. From then on it sends every activation of the other m - w together with a receive of a gradient
 * (send_forward_recv_backward), and the stage behind it does the mirror image. The other sends are waited for by themselves. */
static void test_1f1b(void)
{
    static const char *const stacks[] = { "megatron", "deepspeed", "ideal" };
    for (int i = 0; i < 3; i++) {
        for (int p = 2; p <= 4; p++) {
            for (int m = 1; m <= 8; m++) {
                struct run run;
                run_format(&run,
                           MODEL "\"gpus\":%d,\"software\":\"%s\",\"training\":{\"global_batch\":%d},"
                                 "\"parallel\":{\"pipeline\":%d}}",
                           p, stacks[i], m, p);
                int wanted[6] = { 0 };
                for (int s = 0; s + 1 < p && i < 2; s++) { /* ideal: transfers run beside compute */
                    int w = p - 1 - s < m ? p - 1 - s : m;
                    wanted[s] += m - w;
                    wanted[s + 1] += m - w;
                }
                for (int s = 0; s < p && run.timed; s++) {
                    struct awaited found = awaited(&run.schedule, (uint32_t)s);
                    EXPECT_INT(found.exchanges, wanted[s]);
                    EXPECT_INT(found.exchanges + found.lone, i < 2 ? sends(&run.schedule, (uint32_t)s) : 0);
                }
                run_free(&run);
            }
        }
    }
}

/* Whatever order: a send is waited for whole, or not at all. Orders with weight passes or several chunks let lone ones go, and those whose stages would wait for each other in a circle. */
static void test_orders(void)
{
    static const struct {
        const char *name;
        int virtual_stages;
        bool batches; /* at least once in the cases below */
        bool lone;    /* all the others are waited for too, else none */
    } orders[] = {
        { "1f1b", 1, true, true },         { "gpipe", 1, false, true },  { "dapple-pb", 1, false, false },
        { "interleaved", 2, true, false }, { "zb-h1", 1, true, false },  { "zb-h2", 1, false, false },
        { "zb-v", 2, true, false },        { "v-half", 2, true, false }, { "v-min", 2, true, false },
        { "lsps-a", 1, false, false },     { "lsps-b", 1, true, true },  { "lsps-c", 1, true, true },
    };
    for (size_t i = 0; i < sizeof orders / sizeof orders[0]; i++) {
        uint32_t count = 0, lone = 0, all = 0;
        for (int p = 2; p <= 4; p += 2) {
            struct run run;
            run_format(&run,
                       MODEL "\"gpus\":%d,\"software\":\"megatron\",\"training\":{\"global_batch\":%d},"
                             "\"parallel\":{\"pipeline\":%d,\"pipeline_order\":\"%s\",\"virtual_stages\":%d}}",
                       p, 3 * p, p, orders[i].name, orders[i].virtual_stages);
            for (uint32_t s = 0; run.timed && s < run.schedule.rank_count; s++) {
                struct awaited found = awaited(&run.schedule, s);
                count += found.exchanges;
                lone += found.lone;
                all += sends(&run.schedule, s);
            }
            run_free(&run);
        }
        printf("  %s: %u of %u sends in exchanges, %u awaited alone\n", orders[i].name, count, all, lone);
        EXPECT_INT(count > 0, orders[i].batches);
        EXPECT_INT(lone, orders[i].lone ? all - count : 0);
    }
}

/* Built apart the ranks of a stage exchange as the one that stands for them. */
static void test_unfolded(void)
{
    for (int scatter = 0; scatter < 2; scatter++) {
        struct run run;
        run_format(&run,
                   MODEL "\"gpus\":8,\"software\":\"megatron\",\"training\":{\"global_batch\":10},\"fold\":false,"
                         "\"parallel\":{\"pipeline\":2,\"tensor\":2,\"data\":2,\"sequence_parallel\":%s}}",
                   scatter ? "false" : "true");
        for (uint32_t s = 0; run.timed && s < run.schedule.rank_count; s++) {
            EXPECT_INT(awaited(&run.schedule, s).exchanges, 5 - 1);
        }
        run_free(&run);
    }
}

TEST_MAIN(TEST(test_1f1b), TEST(test_orders), TEST(test_unfolded))
