/* Bare pipelines against closed forms (facts/mpress-hippie-pipelines.md C): GPipe and 1F1B with p stages, m micro-batches, forward f, backward b take
 * (m + p - 1)(f + b) when a hop is free; with a hop of c, GPipe takes (m + p - 1)(f + b) + 2(p - 1)c as long as hops hide behind compute. */
#include "tests/engine_run.h"

struct stage {
    uint32_t rank, compute, send_forward, recv_forward, send_backward, recv_backward;
};

enum { STAGES_MAX = 16, BATCHES_MAX = 64 };

struct pipeline {
    uint32_t stages, batches;
    int64_t forward_ps, backward_ps, hop_ps;
    bool one_forward_one_backward;
};

struct made {
    struct builder *b;
    const struct pipeline *p;
    uint32_t forward_matches[STAGES_MAX][BATCHES_MAX], backward_matches[STAGES_MAX][BATCHES_MAX];
    uint32_t forward_work, backward_work, hop_work, activation[BATCHES_MAX];
};

/* One stage's step for micro-batch i, with its hops on queues of their own. */
static void add_step(struct made *made, uint32_t stage, const uint32_t *queues, uint32_t i, bool forward)
{
    struct builder *b = made->b;
    uint32_t last = made->p->stages - 1, before = SCHED_NONE;
    bool receives = forward ? stage > 0 : stage < last, sends = forward ? stage < last : stage > 0;
    if (receives) {
        before = builder_op(b, OP_RECV, queues[forward ? 1 : 2], made->hop_work, PHASE_PIPELINE_COMM);
        builder_set_match(b, forward ? made->forward_matches[stage - 1][i] : made->backward_matches[stage + 1][i]);
        builder_tag(b, (uint16_t)i, 0, OP_TAG_NONE);
    }
    uint32_t op = builder_op(b, OP_DELAY, queues[0], forward ? made->forward_work : made->backward_work,
                             forward ? PHASE_FORWARD : PHASE_BACKWARD);
    builder_tag(b, (uint16_t)i, 0, OP_TAG_NONE);
    builder_depends(b, before);
    if (forward) {
        builder_acquire(b, made->activation[i]);
    } else {
        builder_release(b, made->activation[i]);
    }
    if (sends) {
        builder_op(b, OP_SEND, queues[forward ? 3 : 4], made->hop_work, PHASE_PIPELINE_COMM);
        builder_set_match(b, forward ? made->forward_matches[stage][i] : made->backward_matches[stage][i]);
        builder_tag(b, (uint16_t)i, 0, OP_TAG_NONE);
        builder_depends(b, op);
    }
}

static void add_stage(struct made *made, uint32_t stage)
{
    static const char *const names[] = { "compute", "recv forward", "recv backward", "send forward", "send backward" };
    struct builder *b = made->b;
    const struct pipeline *p = made->p;
    uint32_t queues[5], m = p->batches;
    uint32_t space = builder_space(b, SPACE_DEVICE, stage, UINT64_MAX, SCHED_NONE, "device");
    for (uint32_t i = 0; i < m; i++) {
        made->activation[i] = builder_buffer(b, space, 1, 1, BUFFER_ACTIVATION, 0, builder_label(b, "activation"));
    }
    builder_rank(b, &stage, 1, stage, "stage");
    for (uint32_t q = 0; q < 5; q++) {
        queues[q] = builder_queue(b, q == 0 ? QUEUE_COMPUTE : QUEUE_P2P, names[q]);
    }
    uint32_t warm = p->one_forward_one_backward ? p->stages - stage : m, forwards = 0, backwards = 0;
    warm = warm < m ? warm : m;
    while (forwards < warm) {
        add_step(made, stage, queues, forwards++, true);
    }
    while (backwards < m) {
        add_step(made, stage, queues, backwards++, false);
        if (forwards < m) {
            add_step(made, stage, queues, forwards++, true);
        }
    }
}

static bool build_pipeline(const struct pipeline *p, struct schedule *schedule)
{
    struct made made = { .b = builder_new(), .p = p };
    made.forward_work = builder_work_fixed(made.b, p->forward_ps);
    made.backward_work = builder_work_fixed(made.b, p->backward_ps);
    made.hop_work = builder_work_fixed(made.b, p->hop_ps);
    for (uint32_t s = 0; s < p->stages; s++) {
        uint32_t down[2] = { s, s + 1 }, up[2] = { s, s - 1 };
        uint32_t down_group = s + 1 < p->stages ? builder_group(made.b, down, 2, 1, "down") : 0;
        uint32_t up_group = s > 0 ? builder_group(made.b, up, 2, 1, "up") : 0;
        for (uint32_t i = 0; i < p->batches; i++) {
            if (s + 1 < p->stages) {
                made.forward_matches[s][i] = builder_match(made.b, down_group, 2);
            }
            if (s > 0) {
                made.backward_matches[s][i] = builder_match(made.b, up_group, 2);
            }
        }
    }
    for (uint32_t s = 0; s < p->stages; s++) {
        add_stage(&made, s);
    }
    return finish_builder(made.b, schedule);
}

static void expect_pipeline(const struct pipeline *p, int64_t makespan_ps)
{
    struct schedule schedule;
    struct cost_table table;
    struct timeline timeline;
    if (build_pipeline(p, &schedule)) {
        if (run_schedule(&schedule, NULL, NULL, false, &table, &timeline)) {
            EXPECT_INT(timeline.outcome, TIMELINE_DONE);
            EXPECT_INT(timeline.end_ps, makespan_ps);
            for (uint32_t s = 0; s < p->stages; s++) {
                uint32_t most = p->one_forward_one_backward && p->stages - s < p->batches ? p->stages - s : p->batches;
                EXPECT_INT(timeline.spaces[s].peak_bytes, most);
            }
        }
        timeline_free(&timeline);
        cost_table_free(&table);
        schedule_free(&schedule);
    }
}

static void test_free_hops(void)
{
    for (uint32_t stages = 1; stages <= 9; stages += 2) {
        for (uint32_t batches = 1; batches <= 33; batches += 8) {
            int64_t makespan = (int64_t)(batches + stages - 1) * (1000 + 2000);
            expect_pipeline(&(struct pipeline){ stages, batches, 1000, 2000, 0, false }, makespan);
            if (batches >= stages) { /* with fewer, 1F1B is GPipe in another order; the same span */
                expect_pipeline(&(struct pipeline){ stages, batches, 1000, 2000, 0, true }, makespan);
            }
        }
    }
}

static void test_gpipe_with_hops(void)
{
    for (uint32_t stages = 2; stages <= 8; stages += 3) {
        for (uint32_t batches = 1; batches <= 16; batches += 5) {
            int64_t makespan = (int64_t)(batches + stages - 1) * 3000 + 2 * (int64_t)(stages - 1) * 300;
            expect_pipeline(&(struct pipeline){ stages, batches, 1000, 2000, 300, false }, makespan);
        }
    }
}

TEST_MAIN(TEST(test_free_hops), TEST(test_gpipe_with_hops))
