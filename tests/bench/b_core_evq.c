/* hold(N): N pending events, each puts itself in again after an exponential(1) delay. Against a plain binary heap of
 * the same indexed kind (same keys, same positions, same cancel ability), pop then push. Fails when slower than the
 * twin by more than noise. */
#include <math.h>

#include "sim/base/check.h"
#include "sim/core/evq.h"
#include "tests/bench/bench.h"

enum { DELAYS = 4096, EVENTS = 1000000, SLOTS_MAX = 262144 };

static int64_t delays_ps[DELAYS];

/* -- the plain twin -- */

struct plain_key {
    int64_t at_ps;
    uint32_t sequence, slot;
};

struct plain {
    struct plain_key *keys; /* from 1 */
    uint32_t *position;
    uint32_t count, sequence;
};

static int plain_less(const struct plain_key *a, const struct plain_key *b)
{
    return a->at_ps < b->at_ps || (a->at_ps == b->at_ps && a->sequence < b->sequence);
}

static void plain_set(struct plain *heap, uint32_t i, struct plain_key key)
{
    heap->keys[i] = key;
    heap->position[key.slot] = i;
}

static void __attribute__((noinline)) plain_push(struct plain *heap, uint32_t slot, int64_t at_ps)
{
    struct plain_key key = { at_ps, heap->sequence++, slot };
    uint32_t i = ++heap->count;
    for (; i > 1 && plain_less(&key, &heap->keys[i / 2]); i /= 2) {
        plain_set(heap, i, heap->keys[i / 2]);
    }
    plain_set(heap, i, key);
}

static uint32_t __attribute__((noinline)) plain_pop(struct plain *heap, int64_t *at_ps)
{
    struct plain_key top = heap->keys[1], key = heap->keys[heap->count--];
    uint32_t i = 1;
    for (uint32_t child; (child = 2 * i) <= heap->count;) {
        if (child < heap->count && plain_less(&heap->keys[child + 1], &heap->keys[child])) {
            child++;
        }
        if (!plain_less(&heap->keys[child], &key)) {
            break;
        }
        plain_set(heap, i, heap->keys[child]);
        i = child;
    }
    plain_set(heap, i, key);
    heap->position[top.slot] = UINT32_MAX;
    *at_ps = top.at_ps;
    return top.slot;
}

static double run_plain(struct plain *heap, uint32_t n, uint64_t *sum)
{
    heap->count = 0;
    heap->sequence = 0;
    for (uint32_t s = 0; s < n; s++) {
        plain_push(heap, s, delays_ps[s % DELAYS]);
    }
    double start_s = bench_now_s();
    for (uint32_t i = 0; i < EVENTS; i++) {
        int64_t now_ps;
        uint32_t slot = plain_pop(heap, &now_ps);
        *sum = *sum * 31 + slot;
        plain_push(heap, slot, now_ps + delays_ps[i % DELAYS]);
    }
    return EVENTS / (bench_now_s() - start_s) * 1e-6;
}

static double run_evq(struct evq *queue, uint32_t n, unsigned moves, uint64_t *sum)
{
    evq_clear(queue);
    for (uint32_t s = 0; s < n; s++) {
        evq_put(queue, s, delays_ps[s % DELAYS]);
    }
    double start_s = bench_now_s();
    uint64_t random = 1;
    for (uint32_t i = 0; i < EVENTS; i++) {
        uint32_t slot;
        (void)evq_take(queue, &slot);
        *sum = *sum * 31 + slot;
        evq_put(queue, slot, queue->now_ps + delays_ps[i % DELAYS]);
        for (unsigned m = 0; m < moves; m++) {
            uint32_t other = (uint32_t)(bench_random(&random) % n);
            evq_move(queue, other, queue->now_ps + delays_ps[(i + m * 7) % DELAYS]);
        }
    }
    return EVENTS / (bench_now_s() - start_s) * 1e-6;
}

int main(void)
{
    static const uint32_t sizes[] = { 16, 64, 1024, 16384, 262144 };
    struct arena arena = { 0 };
    struct evq queue;
    struct plain plain = { .keys = malloc((SLOTS_MAX + 2) * sizeof *plain.keys),
                           .position = malloc(SLOTS_MAX * sizeof *plain.position) };
    uint64_t random = 1;
    int failures = 0;
    CHECK(evq_init(&queue, &arena, SLOTS_MAX, NULL) == STATUS_OK && plain.keys != NULL && plain.position != NULL);
    for (int i = 0; i < DELAYS; i++) {
        delays_ps[i] = 1 + (int64_t)(-log(1.0 - bench_unit(&random)) * 1e9);
    }
    bench_header("b_core_evq");
    printf("%8s %14s %14s %8s %22s\n", "hold N", "evq M/s", "plain M/s", "ratio", "evq + 4 moves M/s");
    for (size_t k = 0; k < sizeof sizes / sizeof sizes[0]; k++) {
        double fast[BENCH_ROUNDS], slow[BENCH_ROUNDS], ratio[BENCH_ROUNDS], moved[BENCH_ROUNDS];
        for (int r = 0; r < BENCH_ROUNDS; r++) {
            uint64_t sum_fast = 0, sum_slow = 0, sum_moved = 0;
            fast[r] = run_evq(&queue, sizes[k], 0, &sum_fast);
            slow[r] = run_plain(&plain, sizes[k], &sum_slow);
            ratio[r] = fast[r] / slow[r];
            moved[r] = run_evq(&queue, sizes[k], 4, &sum_moved);
            CHECK(sum_fast == sum_slow); /* both took the same events in the same order */
        }
        double median_ratio = bench_median(ratio, BENCH_ROUNDS);
        printf("%8u %14.1f %14.1f %8.2f %22.1f\n", sizes[k], bench_median(fast, BENCH_ROUNDS),
               bench_median(slow, BENCH_ROUNDS), median_ratio, bench_median(moved, BENCH_ROUNDS));
        failures += median_ratio < 0.97; /* "never slower": 3 % is this machine's noise within a round */
    }
    free(plain.keys);
    free(plain.position);
    arena_free(&arena);
    return failures == 0 ? 0 : 1;
}
