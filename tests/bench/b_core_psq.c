/* 1,024 flows on one link, each starting again as it ends: completions a second, against settling every flow at
 * every completion. */
#include <math.h>

#include "sim/base/check.h"
#include "sim/core/psq.h"
#include "tests/bench/bench.h"

enum { FLOWS = 1024, WORKS = 4096, FAST_ENDS = 1000000, PLAIN_ENDS = 20000 };

static double works[WORKS];

static double run_psq(struct psq *queue, uint32_t ends, uint64_t *sum)
{
    int64_t now_ps = queue->last_ps;
    for (uint32_t f = 0; f < FLOWS; f++) {
        psq_add(queue, now_ps, f, works[f], 1.0);
    }
    double start_s = bench_now_s();
    for (uint32_t i = 0; i < ends; i++) {
        uint32_t slot = 0;
        now_ps = psq_next_ps(queue);
        CHECK(psq_take(queue, now_ps, &slot));
        *sum = *sum * 31 + slot;
        psq_add(queue, now_ps, slot, works[i % WORKS], 1.0);
    }
    double rate = ends / (bench_now_s() - start_s) * 1e-6;
    for (uint32_t f = 0; f < FLOWS; f++) {
        (void)psq_remove(queue, now_ps, f);
    }
    return rate;
}

/* Remaining work of every flow, brought up to date at every end. */
static double run_plain(double capacity, uint32_t ends, uint64_t *sum)
{
    static double left[FLOWS];
    for (uint32_t f = 0; f < FLOWS; f++) {
        left[f] = works[f];
    }
    double start_s = bench_now_s(), slope = capacity / FLOWS * 1e-12;
    for (uint32_t i = 0; i < ends; i++) {
        uint32_t next = 0;
        for (uint32_t f = 1; f < FLOWS; f++) {
            next = left[f] < left[next] ? f : next;
        }
        double wait_ps = left[next] > 0.0 ? ceil(left[next] / slope) : 0.0;
        for (uint32_t f = 0; f < FLOWS; f++) {
            left[f] -= wait_ps * slope;
        }
        *sum = *sum * 31 + next;
        left[next] = works[i % WORKS];
    }
    return ends / (bench_now_s() - start_s) * 1e-6;
}

int main(void)
{
    struct arena arena = { 0 };
    struct psq queue;
    uint64_t random = 1;
    double fast[BENCH_ROUNDS], slow[BENCH_ROUNDS], ratio[BENCH_ROUNDS];
    CHECK(psq_init(&queue, &arena, FLOWS, 25e9, INFINITY, NULL) == STATUS_OK);
    for (int i = 0; i < WORKS; i++) {
        works[i] = 1e6 * (0.1 + bench_unit(&random));
    }
    bench_header("b_core_psq");
    uint64_t sum_fast = 0, sum_slow = 0;
    (void)run_psq(&queue, PLAIN_ENDS, &sum_fast);
    (void)run_plain(25e9, PLAIN_ENDS, &sum_slow);
    CHECK(sum_fast == sum_slow); /* the same flows ended in the same order */
    for (int r = 0; r < BENCH_ROUNDS; r++) {
        fast[r] = run_psq(&queue, FAST_ENDS, &sum_fast);
        slow[r] = run_plain(25e9, PLAIN_ENDS, &sum_slow);
        ratio[r] = fast[r] / slow[r];
    }
    double median = bench_median(fast, BENCH_ROUNDS);
    printf("1024 flows on one link: %.2f M completions/s (target 1), settling all %.3f M/s, ratio %.0f\n", median,
           bench_median(slow, BENCH_ROUNDS), bench_median(ratio, BENCH_ROUNDS));
    arena_free(&arena);
    return median >= 1.0 ? 0 : 1;
}
