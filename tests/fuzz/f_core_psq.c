/* Virtual-time processor sharing against a plain list in which every change settles every flow, in long double.
 *
 * Tolerance: the twin is told the queue's ends, and checks that at each of them the flow had its work done to within
 * what it does in two picoseconds (an end is a whole one) and rounding: of the tag and of the difference, 2^-53 of
 * each, and 2^-53 of every term that V is made of, together of V; four parts, and as much again for the level's own
 * rounding: 2^-50. So nothing adds up. */
#include "sim/core/psq.h"
#include "tests/fuzz/fuzz.h"

enum { SLOTS = 40, STEPS = 2000 };

static struct twin {
    bool is_here[SLOTS];
    long double left[SLOTS];
    double work[SLOTS], weight[SLOTS];
    double capacity, level_max;
    int64_t last_ps;
} twin;

static long double twin_level(void)
{
    long double sum = 0;
    for (unsigned s = 0; s < SLOTS; s++) {
        sum += twin.is_here[s] ? twin.weight[s] : 0;
    }
    return sum > 0 ? fminl(twin.capacity / sum, twin.level_max) / 1e12L : 0;
}

static void twin_advance(int64_t now_ps)
{
    long double level = twin_level();
    for (unsigned s = 0; s < SLOTS; s++) {
        if (twin.is_here[s]) {
            twin.left[s] -= level * twin.weight[s] * (long double)(now_ps - twin.last_ps);
        }
    }
    twin.last_ps = now_ps;
}

/* What flow s may be off by: two picoseconds, and rounding. */
static long double slack(const struct psq *queue, unsigned s)
{
    long double virtual_max = queue->virtual_units.high + twin.work[s] / twin.weight[s];
    return twin.weight[s] * (2 * twin_level() + 0x1p-50L * virtual_max);
}

static void check_all(const struct psq *queue, int64_t now_ps)
{
    unsigned count = 0;
    for (unsigned s = 0; s < SLOTS; s++) {
        EXPECT_INT(psq_has(queue, s), twin.is_here[s]);
        if (twin.is_here[s]) {
            count++;
            EXPECT_REAL(psq_rate(queue, s), (double)(twin_level() * twin.weight[s] * 1e12L), 1e-11);
            EXPECT(fabsl((long double)psq_left(queue, now_ps, s) - fmaxl(twin.left[s], 0)) <= slack(queue, s));
        }
    }
    EXPECT_INT(psq_count(queue), count);
}

static void take(struct psq *queue, int64_t due_ps)
{
    uint32_t slot = UINT32_MAX;
    twin_advance(due_ps);
    EXPECT(psq_take(queue, due_ps, &slot));
    EXPECT(slot < SLOTS && twin.is_here[slot]);
    if (slot < SLOTS) {
        EXPECT(fabsl(twin.left[slot]) <= slack(queue, slot));
        for (unsigned s = 0; s < SLOTS; s++) {
            EXPECT(!twin.is_here[s] || twin.left[s] >= -slack(queue, s));
        }
        twin.is_here[slot] = false;
    }
}

static void round_of(uint64_t seed)
{
    struct arena arena = { 0 };
    struct psq queue;
    uint64_t random = seed;
    int64_t now_ps = 0;
    double decades = (double)test_below(&random, 7), work_max = pow(10, 3 + (double)test_below(&random, 9));
    memset(&twin, 0, sizeof twin);
    twin.capacity = pow(10, 10 + (double)test_below(&random, 4));
    twin.level_max = test_below(&random, 2) == 0 ? INFINITY : twin.capacity * test_unit(&random);
    EXPECT_INT(psq_init(&queue, &arena, SLOTS, twin.capacity, twin.level_max, NULL), STATUS_OK);
    for (unsigned step = 0; step < STEPS && test_failures == 0; step++) {
        unsigned slot = (unsigned)test_below(&random, SLOTS);
        int64_t due_ps = psq_next_ps(&queue),
                later_ps = now_ps + (int64_t)test_below(&random, (uint64_t)(work_max / 4) + 2);
        if (due_ps <= later_ps || test_below(&random, 4) == 0) {
            if (due_ps != TIME_NEVER_PS) {
                now_ps = due_ps;
                take(&queue, due_ps);
            }
            continue;
        }
        now_ps = later_ps;
        twin_advance(now_ps);
        if (test_below(&random, 20) == 0) {
            twin.capacity = test_below(&random, 8) == 0 ? 0
                            : twin.capacity == 0        ? 1e12
                                                        : twin.capacity * (0.5 + test_unit(&random));
            psq_set_capacity(&queue, now_ps, twin.capacity);
        } else if (!twin.is_here[slot]) {
            twin.work[slot] =
                test_below(&random, 10) == 0 ? 0 : work_max * (test_below(&random, 2) == 0 ? 1 : test_unit(&random));
            twin.weight[slot] = test_below(&random, 2) == 0 ? 1 : pow(10, (test_unit(&random) - 0.5) * decades);
            twin.left[slot] = twin.work[slot];
            twin.is_here[slot] = true;
            psq_add(&queue, now_ps, slot, twin.work[slot], twin.weight[slot]);
        } else if (test_below(&random, 3) == 0) {
            long double left = psq_remove(&queue, now_ps, slot);
            EXPECT(fabsl(left - fmaxl(twin.left[slot], 0)) <= slack(&queue, slot));
            twin.is_here[slot] = false;
        }
        check_all(&queue, now_ps);
    }
    arena_free(&arena);
}

int main(int argc, char **argv)
{
    return fuzz_run(round_of, argc, argv);
}
