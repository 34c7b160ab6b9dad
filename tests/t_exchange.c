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

/* Ops of the compute queue that wait for a send; each must be one side of an exchange. */
static uint32_t exchanges(const struct schedule *s, uint32_t rank)
{
    uint32_t count = 0, end = s->ranks[rank].first_op + s->ranks[rank].op_count;
    for (uint32_t i = s->ranks[rank].first_op; i < end; i++) {
        uint32_t sent = dependency_of(s, i, OP_SEND), received = dependency_of(s, i, OP_RECV);
        if (sent == SCHED_NONE) {
            continue;
        }
        count++;
        EXPECT_INT(s->queues[s->ops[i].queue].queue_class, QUEUE_COMPUTE);
        EXPECT(received != SCHED_NONE);
        if (received == SCHED_NONE) {
            continue;
        }
        uint32_t their_receive = partner(s, sent), their_send = partner(s, received);
        EXPECT_INT(sched_op_rank(s, &s->ops[their_receive]), sched_op_rank(s, &s->ops[their_send]));
        EXPECT_INT(dependency_of(s, sent, OP_COMPUTE), dependency_of(s, received, OP_COMPUTE));
        bool mutual = false;
        for (uint32_t k = 0; k < s->op_count; k++) {
            mutual =
                mutual || (dependency_of(s, k, OP_SEND) == their_send && dependency_of(s, k, OP_RECV) == their_receive);
        }
        if (!mutual) {
            char text[256];
            TEST_FAIL_("the peer of op %u (%s) does not wait for both", i, sched_op_text(s, i, text, sizeof text));
        }
    }
    return count;
}

/* 1F1B: stage s runs w = min(p - 1 - s, m) forwards first. From then on it sends every activation of the other m - w together with a receive of a gradient
 * (send_forward_recv_backward), and the stage behind it does the mirror image. */
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
                    EXPECT_INT(exchanges(&run.schedule, (uint32_t)s), wanted[s]);
                }
                run_free(&run);
            }
        }
    }
}

/* Whatever order: nothing waits for a send whose receiver does not come at the same time. */
static void test_orders(void)
{
    static const struct {
        const char *name;
        int virtual_stages;
        bool batches; /* at least once in the cases below */
    } orders[] = {
        { "1f1b", 1, true },  { "gpipe", 1, false },  { "dapple-pb", 1, false }, { "interleaved", 2, true },
        { "zb-h1", 1, true }, { "zb-h2", 1, false },  { "zb-v", 2, true },       { "v-half", 2, true },
        { "v-min", 2, true }, { "lsps-a", 1, false }, { "lsps-b", 1, true },     { "lsps-c", 1, true },
    };
    for (size_t i = 0; i < sizeof orders / sizeof orders[0]; i++) {
        uint32_t count = 0;
        for (int p = 2; p <= 4; p += 2) {
            struct run run;
            run_format(&run,
                       MODEL "\"gpus\":%d,\"software\":\"megatron\",\"training\":{\"global_batch\":%d},"
                             "\"parallel\":{\"pipeline\":%d,\"pipeline_order\":\"%s\",\"virtual_stages\":%d}}",
                       p, 3 * p, p, orders[i].name, orders[i].virtual_stages);
            for (uint32_t s = 0; run.timed && s < run.schedule.rank_count; s++) {
                count += exchanges(&run.schedule, s);
            }
            run_free(&run);
        }
        printf("  %s: %u\n", orders[i].name, count);
        EXPECT_INT(count > 0, orders[i].batches);
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
            EXPECT_INT(exchanges(&run.schedule, s), 5 - 1);
        }
        run_free(&run);
    }
}

TEST_MAIN(TEST(test_1f1b), TEST(test_orders), TEST(test_unfolded))
