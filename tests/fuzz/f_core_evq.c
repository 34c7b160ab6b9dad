/* The event queue against a plain list that is searched from end to end. */
#include "sim/core/evq.h"
#include "tests/fuzz/fuzz.h"

enum { SLOTS_MAX = 300 };

/* The twin: every pending event with the moment it was put; the next is the least (time, moment). */
struct twin {
    int64_t at_ps[SLOTS_MAX];
    uint64_t moment[SLOTS_MAX];
    bool pending[SLOTS_MAX];
    uint64_t moments;
};

static uint32_t twin_next(const struct twin *twin, uint32_t slots)
{
    uint32_t next = UINT32_MAX;
    for (uint32_t s = 0; s < slots; s++) {
        if (twin->pending[s] && (next == UINT32_MAX || twin->at_ps[s] < twin->at_ps[next] ||
                                 (twin->at_ps[s] == twin->at_ps[next] && twin->moment[s] < twin->moment[next]))) {
            next = s;
        }
    }
    return next;
}

static void twin_put(struct twin *twin, uint32_t slot, int64_t at_ps)
{
    twin->pending[slot] = true;
    twin->at_ps[slot] = at_ps;
    twin->moment[slot] = twin->moments++;
}

static void compare_all(const struct evq *queue, const struct twin *twin, uint32_t slots)
{
    uint32_t count = 0;
    for (uint32_t s = 0; s < slots; s++) {
        EXPECT_INT(evq_is_pending(queue, s), twin->pending[s]);
        if (twin->pending[s]) {
            EXPECT_INT(evq_time_ps(queue, s), twin->at_ps[s]);
            count++;
        }
    }
    EXPECT_INT(evq_count(queue), count);
}

static void round_of(uint64_t seed)
{
    static struct twin twin;
    struct arena arena = { 0 };
    struct evq queue;
    uint64_t random = seed;
    uint32_t slots = 1 + (uint32_t)test_below(&random, SLOTS_MAX);
    uint64_t spread = 1 + test_below(&random, test_below(&random, 2) == 0 ? 4 : 100000);
    uint64_t fill = 1 + test_below(&random, 10);
    memset(&twin, 0, sizeof twin);
    EXPECT_INT(evq_init(&queue, &arena, slots, NULL), STATUS_OK);
    if (test_below(&random, 4) == 0) {
        queue.heap.sequence = UINT32_MAX - (uint32_t)test_below(&random, 1000); /* the numbers run out on the way */
    }
    for (unsigned step = 0; step < 3000 && test_failures == 0; step++) {
        uint32_t slot = (uint32_t)test_below(&random, slots);
        int64_t at_ps = queue.now_ps + (int64_t)test_below(&random, spread);
        uint64_t what = test_below(&random, 10 + fill);
        if (what < 5) {
            uint32_t expected = twin_next(&twin, slots), got = UINT32_MAX;
            EXPECT_INT(evq_next_ps(&queue), expected == UINT32_MAX ? TIME_NEVER_PS : twin.at_ps[expected]);
            EXPECT_INT(evq_take(&queue, &got), expected != UINT32_MAX);
            EXPECT_INT(got, expected);
            if (expected != UINT32_MAX) {
                EXPECT_INT(queue.now_ps, twin.at_ps[expected]);
                twin.pending[expected] = false;
            }
        } else if (what < 7) {
            evq_cancel(&queue, slot);
            twin.pending[slot] = false;
        } else if (what < 9) {
            evq_move(&queue, slot, at_ps);
            twin_put(&twin, slot, at_ps);
        } else if (!twin.pending[slot]) {
            evq_put(&queue, slot, at_ps);
            twin_put(&twin, slot, at_ps);
        }
        if (step % 64 == 0) {
            compare_all(&queue, &twin, slots);
        }
    }
    evq_clear(&queue);
    EXPECT_INT(evq_count(&queue), 0);
    for (uint32_t s = 0; s < slots; s++) {
        EXPECT(!evq_is_pending(&queue, s));
    }
    arena_free(&arena);
}

int main(int argc, char **argv)
{
    return fuzz_run(round_of, argc, argv);
}
