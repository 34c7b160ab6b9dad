/* The dispatcher with ops that do nothing: microseconds an op for 1, 2, 4 queues side by side, and the latency from the end of an op to the start of one that waits for it on
 * another queue, beside what two threads need for a round with a bare mutex and condition variables in the same run.
 *
 * Wall time, not processor time: sleeping and waking is what it is about. */
#include <pthread.h>

#include "sim/base/check.h"
#include "sim/ir/builder.h"
#include "tests/bench/bench.h"
#include "validate/dispatch/dispatch.h"

enum { OPS = 20000, ROUNDS = 2000, QUEUES_MAX = 4 };

static enum status submit(void *context, const uint32_t *ops, uint32_t count, struct error *error)
{
    (void)context;
    (void)ops;
    (void)count;
    (void)error;
    return STATUS_OK;
}

/* OPS ops in all; `with_marks`: every second one of a queue is a mark. `across`: each waits for the one before, on another queue. */
static void make(struct schedule *schedule, uint32_t queue_count, bool with_marks, bool across)
{
    struct builder *b = builder_new();
    uint32_t device = 0, queues[QUEUES_MAX];
    CHECK(b != NULL);
    uint32_t work = builder_work_fixed(b, 0);
    builder_rank(b, &device, 1, SCHED_NONE, "");
    for (uint32_t q = 0; q < queue_count; q++) {
        queues[q] = builder_queue(b, QUEUE_COMPUTE, "");
    }
    for (uint32_t i = 0; i < (across ? 2 * ROUNDS : OPS); i++) {
        bool is_mark = with_marks && i / queue_count % 2 == 1;
        uint32_t op = builder_op(b, is_mark ? OP_MARK : OP_DELAY, queues[i % queue_count], is_mark ? SCHED_NONE : work,
                                 PHASE_OTHER);
        if (across && op > 0) {
            builder_depends(b, op - 1);
        }
    }
    CHECK(builder_finish(b, schedule, NULL) == STATUS_OK);
}

/* Microseconds of step time per op. */
static double run(uint32_t queue_count, bool with_marks, bool across)
{
    struct schedule schedule;
    struct wet_pools *pools;
    struct timeline timeline;
    const struct driver driver = { .executor = "bench", .submit = submit };
    const struct exec_options options = { .warmup_steps = 1, .steps = 1 };
    make(&schedule, queue_count, with_marks, across);
    CHECK(wet_pools_new(&pools, &schedule, NULL, NULL) == STATUS_OK);
    CHECK(dispatch_run(&schedule, &driver, pools, &options, &timeline, NULL) == STATUS_OK);
    double us = (double)timeline.end_ps / schedule.op_count * 1e-6;
    timeline_free(&timeline);
    wet_pools_free(pools);
    schedule_free(&schedule);
    return us;
}

/* -- the rival -- */

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed[2];
    int turn;
} table = { .lock = PTHREAD_MUTEX_INITIALIZER, .changed = { PTHREAD_COND_INITIALIZER, PTHREAD_COND_INITIALIZER } };

static void *play(void *argument)
{
    int me = *(const int *)argument;
    for (int i = 0; i < ROUNDS; i++) {
        (void)pthread_mutex_lock(&table.lock);
        while (table.turn != me) {
            (void)pthread_cond_wait(&table.changed[me], &table.lock);
        }
        table.turn = 1 - me;
        (void)pthread_cond_signal(&table.changed[1 - me]);
        (void)pthread_mutex_unlock(&table.lock);
    }
    return NULL;
}

static double run_ping_pong(void)
{
    pthread_t threads[2];
    const int names[] = { 0, 1 };
    int64_t start_ps = dispatch_clock_ps();
    for (int i = 0; i < 2; i++) {
        CHECK(pthread_create(&threads[i], NULL, play, (void *)(uintptr_t)&names[i]) == 0);
    }
    for (int i = 0; i < 2; i++) {
        (void)pthread_join(threads[i], NULL);
    }
    return (double)(dispatch_clock_ps() - start_ps) / (2.0 * ROUNDS) * 1e-6;
}

int main(void)
{
    static const uint32_t counts[] = { 1, 2, 4 };
    double marks[3][BENCH_ROUNDS], delays[3][BENCH_ROUNDS], across[BENCH_ROUNDS], bare[BENCH_ROUNDS];
    for (unsigned round = 0; round < BENCH_ROUNDS; round++) {
        for (unsigned i = 0; i < 3; i++) {
            marks[i][round] = run(counts[i], true, false);
            delays[i][round] = run(counts[i], false, false);
        }
        across[round] = run(2, false, true);
        bare[round] = run_ping_pong();
    }
    for (unsigned i = 0; i < 3; i++) {
        printf("%u queue%s  delay of 0 %6.3f us an op, delays and marks in turn %6.3f us an op\n", counts[i],
               i == 0 ? " " : "s", bench_median(delays[i], BENCH_ROUNDS), bench_median(marks[i], BENCH_ROUNDS));
    }
    double latency = bench_median(across, BENCH_ROUNDS), rival = bench_median(bare, BENCH_ROUNDS);
    printf("from queue to queue %6.2f us an op, bare mutex and condition %6.2f us a hand-over: %.2f of it\n", latency,
           rival, latency / rival);
    return 0;
}
