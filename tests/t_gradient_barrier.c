/* Hidden gradient reductions through the lowering: parallel.gradient_barrier. The laws of facts/mpress-hippie-pipelines.md B.2 hold for stages alike and free hops (t_hiding proves them against a replay
 * of the order); here the same replay gets what passes, reductions and updates of each stage take in the timeline. It says no more than the step when hops are free, and no less when each takes as long
 * as the longest. */
#include "sim/base/units.h"
#include "tests/lower_run.h"

enum { STAGES = 4, MICRO_BATCHES = 6, STEPS = 2 * MICRO_BATCHES, ITERATIONS = 12 };

/* Two layers on the last stage, one on the others: it has twice as much to reduce. Few tokens: reductions are long beside passes. */
#define TEXT                                                                                                           \
    "{\"schema\":\"memwall.scenario/1\",\"name\":\"barrier\",\"machine\":\"dgx-a100-80gb\",\"gpus\":8,\"model\":{"     \
    "\"family\":\"gpt\",\"layers\":5,\"hidden\":4096,\"heads\":32,\"vocab\":256,\"max_sequence\":128,\"tied_head\":"   \
    "false},\"training\":{\"sequence_length\":64,\"micro_batch\":1,\"global_batch\":12},\"software\":{\"base\":"       \
    "\"ideal\",\"name\":\"late\",\"communication\":{\"overlap_gradient_reduce\":%s,\"bucket_MB\":0}},\"parallel\":{"   \
    "\"pipeline\":4,\"data\":2,\"pipeline_order\":\"1f1b\",\"zero_stage\":%d,\"gradient_barrier\":\"%s\"},\"plan\":{"  \
    "\"stage_layers\":[1,1,1,2]},\"fold\":%s}"

/* Seconds of a micro-batch's passes and of what follows them, by stage. */
struct figures {
    double forward[STAGES], backward[STAGES], reduce[STAGES];
    double update[3][STAGES]; /* clearing before the step; norm; Adam */
};

enum { KINDS = 6, STEPS_MAX = 8 };

/* Contention differs from step to step: the least and the most of all steps. */
static void figures_of(const struct run *run, struct figures *least, struct figures *most, double *hop, double *step_s)
{
    const struct schedule *s = &run->schedule;
    const struct step_window window = timeline_step(s, &run->timeline);
    double sums[KINDS][STAGES][STEPS_MAX] = { 0 };
    uint32_t kernels[STAGES] = { 0 }, reductions[STAGES] = { 0 };
    *step_s = s_from_ps(window.to_ps - window.from_ps);
    *hop = 0;
    EXPECT(window.steps <= STEPS_MAX);
    for (uint32_t i = 0; i < s->op_count && window.steps <= STEPS_MAX; i++) {
        const struct sched_op *op = &s->ops[i];
        uint32_t stage = s->ranks[sched_op_rank(s, op)].stage;
        double ran_s = s_from_ps(run->timeline.ops[i].end_ps - run->timeline.ops[i].start_ps);
        if (op->phase == PHASE_FORWARD || op->phase == PHASE_BACKWARD) {
            sums[op->phase == PHASE_BACKWARD][stage][op->micro_batch / MICRO_BATCHES] += ran_s / MICRO_BATCHES;
        } else if (op->phase == PHASE_DATA_COMM && s->works[op->work].bytes > 4) {
            sums[2][stage][reductions[stage]++] += ran_s;
        } else if (op->phase == PHASE_OPTIMIZER && op->opcode == OP_COMPUTE) {
            sums[3 + kernels[stage] % 3][stage][kernels[stage] / 3] += ran_s;
            kernels[stage]++;
        } else if (op->opcode == OP_RECV) {
            *hop = fmax(*hop, ran_s);
        }
    }
    for (uint32_t stage = 0; stage < STAGES; stage++) {
        for (int k = 0; k < KINDS; k++) {
            double low = INFINITY, high = 0;
            for (uint32_t i = 0; i < window.steps; i++) {
                low = fmin(low, sums[k][stage][i]);
                high = fmax(high, sums[k][stage][i]);
            }
            for (int which = 0; which < 2; which++) {
                struct figures *f = which == 0 ? least : most;
                double *to = k == 0 ? f->forward : k == 1 ? f->backward : k == 2 ? f->reduce : f->update[k - 3];
                to[stage] = which == 0 ? low : high;
            }
        }
    }
}

/* A step of 1F1B: with a barrier all stages begin and end it together; without, the time from one to the next once it has settled. */
static double replay(const struct figures *f, double hop, enum gradient_barrier barrier)
{
    static struct order_step steps[STAGES][STEPS];
    const struct order_request request = { .stages = STAGES, .micro_batches = MICRO_BATCHES, .virtual_stages = 1 };
    double begin[STAGES], end[STAGES], before = 0, last = 0;
    for (uint32_t s = 0; s < STAGES; s++) {
        registry_order("1f1b", NULL)->build(&request, s, steps[s]);
        begin[s] = f->update[0][s];
    }
    for (int i = 0; i < ITERATIONS; i++) {
        double done[2][STAGES][MICRO_BATCHES], all = 0;
        uint32_t at[STAGES] = { 0 };
        memset(done, 0, sizeof done);
        memcpy(end, begin, sizeof end);
        for (int round = 0; round < STAGES * STEPS; round++) {
            for (uint32_t s = 0; s < STAGES; s++) {
                const struct order_step *step = &steps[s][at[s]];
                bool back = at[s] < STEPS && step->kind == STEP_BACKWARD, first = back ? s + 1 == STAGES : s == 0;
                double input = at[s] == STEPS || first ? 0 : done[back][back ? s + 1 : s - 1][step->micro_batch];
                if (at[s] == STEPS || (!first && input <= 0)) {
                    continue;
                }
                end[s] = fmax(end[s], first ? 0 : input + hop) + (back ? f->backward[s] : f->forward[s]);
                done[back][s][step->micro_batch] = end[s];
                at[s]++;
            }
        }
        for (uint32_t s = 0; s < STAGES; s++) {
            EXPECT_INT(at[s], STEPS);
            all = fmax(all, end[s]);
        }
        for (uint32_t s = 0; s < STAGES; s++) {
            end[s] = (barrier == BARRIER_BEFORE ? all : end[s]) + f->reduce[s];
        }
        all = 0;
        for (uint32_t s = 0; s < STAGES; s++) {
            end[s] += f->update[1][s];
            all = fmax(all, end[s]);
        }
        before = last;
        last = 0;
        for (uint32_t s = 0; s < STAGES; s++) {
            double updated = (barrier == BARRIER_NONE ? end[s] : all) + f->update[2][s];
            begin[s] = updated + f->update[0][s];
            last = fmax(last, updated);
        }
        if (barrier != BARRIER_NONE) {
            return last;
        }
        last = begin[0];
    }
    return last - before;
}

static void test_steps(void)
{
    double steps[BARRIER_COUNT], width = 0;
    for (int b = 0; b < BARRIER_COUNT; b++) {
        enum gradient_barrier barrier = (enum gradient_barrier)b;
        struct run run;
        run_format(&run, TEXT, "false", 0, gradient_barrier_word(barrier), "true");
        struct figures least, most;
        double hop, step;
        figures_of(&run, &least, &most, &hop, &step);
        /* the norm's own little reductions, and the barrier's, are waited for; `none` has none of them */
        double meets = 0;
        for (uint32_t i = 0; run.timed && i < run.schedule.op_count; i++) {
            const struct sched_op *op = &run.schedule.ops[i];
            if (op->opcode == OP_ALL_REDUCE && run.schedule.works[op->work].bytes < 5) {
                meets = fmax(meets, s_from_ps(run.timeline.ops[i].end_ps - run.timeline.ops[i].start_ps));
            }
        }
        EXPECT((meets > 0) == (barrier != BARRIER_NONE));
        double low = replay(&least, 0, barrier), high = replay(&most, hop, barrier) + 2 * meets;
        if (!(step >= low * (1 - 1e-9) && step <= high * (1 + 1e-9))) {
            TEST_FAIL_("%s: %.9g s, expected %.9g to %.9g", gradient_barrier_word(barrier), step, low, high);
        }
        steps[b] = step;
        width = fmax(width, high - low);
        run_free(&run);
    }
    printf("steps %.4f, %.4f, %.4f ms; known within %.4f ms\n", 1e3 * steps[0], 1e3 * steps[1], 1e3 * steps[2],
           1e3 * width);
    EXPECT(steps[BARRIER_AFTER] < steps[BARRIER_BEFORE] - width);
    EXPECT(steps[BARRIER_NONE] < steps[BARRIER_AFTER] - width);
}

/* With buckets in the last backward, `before` still keeps every reduction behind all backwards. */
static void test_before_is_before(void)
{
    for (int early = 0; early < 2; early++) {
        struct run run;
        run_format(&run, TEXT, early ? "true" : "false", 1, "before", "true");
        int64_t last_backward_ps = 0, first_reduction_ps = INT64_MAX;
        for (uint32_t i = 0; run.timed && i < run.schedule.op_count; i++) {
            const struct sched_op *op = &run.schedule.ops[i];
            const struct op_times *t = &run.timeline.ops[i];
            if (op->phase == PHASE_BACKWARD) {
                last_backward_ps = t->end_ps > last_backward_ps ? t->end_ps : last_backward_ps;
            } else if (op->opcode == OP_REDUCE_SCATTER) {
                first_reduction_ps = t->start_ps < first_reduction_ps ? t->start_ps : first_reduction_ps;
            }
        }
        EXPECT(first_reduction_ps >= last_backward_ps && first_reduction_ps < INT64_MAX);
        run_free(&run);
    }
}

static void test_folding(void)
{
    for (int b = 0; b < BARRIER_COUNT; b++) {
        struct run folded, whole;
        run_format(&folded, TEXT, "true", 1, gradient_barrier_word((enum gradient_barrier)b), "true");
        run_format(&whole, TEXT, "true", 1, gradient_barrier_word((enum gradient_barrier)b), "false");
        EXPECT_REAL((double)whole.timeline.end_ps, (double)folded.timeline.end_ps, 1e-9);
        run_free(&folded);
        run_free(&whole);
    }
}

static void expect_refused(const char *parallel, const char *rest, const char *part)
{
    char text[2048], message[2048];
    struct run run;
    snprintf(
        text, sizeof text,
        "{\"schema\":\"memwall.scenario/1\",\"name\":\"barrier\",\"machine\":\"dgx-a100-80gb\",\"gpus\":8,\"model\":"
        "\"gpt2\",\"training\":{\"global_batch\":8},\"parallel\":{\"pipeline\":4,%s}%s}",
        parallel, rest);
    run_scenario(&run, text);
    EXPECT_INT(run.status, STATUS_BAD_INPUT);
    EXPECT_PART(error_text(&run.error, message, sizeof message), part);
    run_free(&run);
}

static void test_refusals(void)
{
    expect_refused("\"gradient_barrier\":\"nun\"", "", "before, after, none");
    expect_refused("\"gradient_barrier\":\"none\",\"pipeline_order\":\"pipedream\"", "", "leave the key out");
    expect_refused("\"gradient_barrier\":\"before\",\"zero_stage\":2", "", "allowed are zero_stage 0 and 1");
    expect_refused("\"gradient_barrier\":\"none\"", ",\"memory_policy\":\"optimizer-on-host\"",
                   "the policy \"resident\"");
}

TEST_MAIN(TEST(test_steps), TEST(test_before_is_before), TEST(test_folding), TEST(test_refusals))
