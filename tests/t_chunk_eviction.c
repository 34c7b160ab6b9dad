/* Eviction: PatrickStar's own behaviour test, the keys of next-use, and Belady: over 1,000 random traces of equal chunks next-use moves the fewest bytes of all policies, and exactly as many as the best
 * schedule of any kind, which a search over all sets of resident chunks finds. */
#include "strategies/policies/chunk_residency.h"
#include "tests/test.h"

enum { CHUNKS_MAX = 8, LENGTH_MAX = 60 };

struct trace {
    uint32_t chunks, length, capacity; /* chunks that the device holds */
    uint32_t access[LENGTH_MAX];       /* the chunk of moment t */
};

static bool moments_of(const struct trace *trace, struct chunk_moments *moments, struct arena *arena)
{
    struct chunk_access accesses[LENGTH_MAX];
    struct error error = { 0 };
    for (uint32_t t = 0; t < trace->length; t++) {
        accesses[t] = (struct chunk_access){ trace->access[t], t, PLACE_DEVICE };
    }
    return chunk_moments_build(moments, trace->chunks, trace->length, accesses, trace->length, arena, &error) ==
           STATUS_OK;
}

/* unitest/test_eviction_policy.py: two chunks accessed at moments 0 and 1. */
static void test_behaviour(void)
{
    struct arena arena = { 0 };
    struct trace trace = { 2, 2, 1, { 0, 1 } };
    struct chunk_moments moments;
    struct chunk_residency r;
    struct error error = { 0 };
    EXPECT(moments_of(&trace, &moments, &arena));
    EXPECT_INT(chunk_residency_init(&r, 2, &arena, &error), STATUS_OK);
    r.budget[PLACE_DEVICE] = r.budget[PLACE_HOST] = 100;
    for (uint32_t i = 0; i < 2; i++) {
        r.chunks[i].payload_bytes = r.chunks[i].bytes[PLACE_DEVICE] = r.chunks[i].bytes[PLACE_HOST] = 10;
        r.chunks[i].tensors.counts[TENSOR_HOLD] = 1;
        EXPECT_INT(chunk_access_at(&r, i, PLACE_DEVICE, &error), STATUS_OK);
    }
    EXPECT_INT(chunk_victim(&r, PLACE_DEVICE), 0); /* warm-up: the lowest id */
    r.now = 1;
    EXPECT_INT(chunk_victim(&r, PLACE_DEVICE), 0);
    r.evictor.moments = &moments;
    r.now = 0;
    EXPECT_INT(chunk_victim(&r, PLACE_DEVICE), 0);
    r.now = 1;
    EXPECT_INT(chunk_victim(&r, PLACE_DEVICE), 1);
    EXPECT_INT(chunk_victim(&r, PLACE_HOST), 2); /* nobody there */
    r.chunks[1].pinned = true;
    EXPECT_INT(chunk_victim(&r, PLACE_DEVICE), 0);
    r.chunks[0].tensors.counts[TENSOR_COMPUTE] = 1;
    EXPECT_INT(chunk_victim(&r, PLACE_DEVICE), 2);
    arena_free(&arena);
}

/* The key of next-use: later in this iteration, wrapped into the next, or never there. */
static void test_keys(void)
{
    struct arena arena = { 0 };
    const struct chunk_access accesses[] = {
        { 0, 1, PLACE_DEVICE }, { 0, 4, PLACE_DEVICE }, { 1, 4, PLACE_HOST }, { 0, 7, PLACE_DEVICE }
    };
    struct chunk_moments moments;
    struct error error = { 0 };
    EXPECT_INT(chunk_moments_build(&moments, 2, 10, accesses, 4, &arena, &error), STATUS_OK);
    static const uint64_t expected[10] = { 1, 4, 4, 4, 7, 7, 7, 11, 11, 11 };
    for (uint32_t now = 0; now < 10; now++) {
        EXPECT_INT(chunk_next_use(&moments, 0, PLACE_DEVICE, now), expected[now]);
        EXPECT_INT(chunk_next_use(&moments, 1, PLACE_DEVICE, now), 20); /* never on the device */
        EXPECT_INT(chunk_next_use(&moments, 1, PLACE_HOST, now), now < 4 ? 4 : 14);
    }
    arena_free(&arena);
}

/* Bytes moved when all chunks start on the host and the trace runs once. */
static double moved(const struct trace *trace, enum chunk_eviction policy, uint32_t lookahead, uint64_t seed)
{
    struct arena arena = { 0 };
    struct chunk_moments moments;
    struct chunk_residency r;
    struct error error = { 0 };
    EXPECT(moments_of(trace, &moments, &arena));
    EXPECT_INT(chunk_residency_init(&r, trace->chunks, &arena, &error), STATUS_OK);
    r.budget[PLACE_DEVICE] = trace->capacity;
    r.budget[PLACE_HOST] = trace->chunks;
    r.evictor = (struct chunk_evictor){ .policy = policy, .lookahead = lookahead, .seed = seed, .moments = &moments };
    for (uint32_t i = 0; i < trace->chunks; i++) {
        r.chunks[i].payload_bytes = r.chunks[i].bytes[PLACE_DEVICE] = r.chunks[i].bytes[PLACE_HOST] = 1;
        r.chunks[i].tensors.counts[TENSOR_HOLD] = 1;
        EXPECT_INT(chunk_access_at(&r, i, PLACE_HOST, &error), STATUS_OK);
    }
    for (uint32_t t = 0; t < trace->length; t++) {
        r.now = t;
        EXPECT_INT(chunk_access_at(&r, trace->access[t], PLACE_DEVICE, &error), STATUS_OK);
        EXPECT(r.used[PLACE_DEVICE] <= trace->capacity);
        EXPECT(r.used[PLACE_DEVICE] + r.used[PLACE_HOST] == trace->chunks);
    }
    EXPECT_REAL(r.moved_bytes[PLACE_HOST], (double)r.evictions, 0);
    double sum = r.moved_bytes[PLACE_DEVICE] + r.moved_bytes[PLACE_HOST];
    arena_free(&arena);
    return sum;
}

/* The fewest moves of any schedule, which may also load early or evict more than it must: dynamic programming over sets of resident chunks. Between accesses every set may become every other of at most `capacity`, each chunk
 * that comes or goes costing 1. */
static double optimum(const struct trace *trace)
{
    enum { SETS = 1 << CHUNKS_MAX };
    static double cost[SETS], next[SETS];
    uint32_t sets = 1u << trace->chunks;
    for (uint32_t s = 0; s < sets; s++) {
        cost[s] = s == 0 ? 0 : INFINITY;
    }
    for (uint32_t t = 0; t < trace->length; t++) {
        /* relax single changes until nothing gets cheaper: two sweeps of removals and additions reach every set */
        for (uint32_t s = 0; s < sets; s++) {
            next[s] = cost[s];
        }
        for (uint32_t bit = 0; bit < trace->chunks; bit++) {
            for (uint32_t s = 0; s < sets; s++) {
                double other = next[s ^ 1u << bit] + 1;
                next[s] = other < next[s] ? other : next[s];
            }
        }
        for (uint32_t s = 0; s < sets; s++) {
            bool allowed = (s >> trace->access[t] & 1u) != 0 && (uint32_t)__builtin_popcount(s) <= trace->capacity;
            cost[s] = allowed ? next[s] : INFINITY;
        }
    }
    double best = INFINITY;
    for (uint32_t s = 0; s < sets; s++) {
        best = cost[s] < best ? cost[s] : best;
    }
    return best;
}

static void test_belady(void)
{
    uint64_t seed = test_seed;
    double sums[CHUNK_EVICTION_COUNT] = { 0 };
    uint32_t strictly[CHUNK_EVICTION_COUNT] = { 0 };
    for (int round = 0; round < 1000; round++) {
        struct trace trace = { .chunks = 2 + (uint32_t)test_below(&seed, CHUNKS_MAX - 1) };
        trace.capacity = 1 + (uint32_t)test_below(&seed, trace.chunks);
        trace.length = 1 + (uint32_t)test_below(&seed, LENGTH_MAX);
        bool sweeps = test_below(&seed, 3) == 0; /* as layers are walked: up and down */
        for (uint32_t t = 0; t < trace.length; t++) {
            uint32_t turn = 2 * trace.chunks, at = t % turn;
            trace.access[t] =
                sweeps ? (at < trace.chunks ? at : turn - 1 - at) : (uint32_t)test_below(&seed, trace.chunks);
        }
        double best = optimum(&trace);
        for (uint32_t policy = 0; policy < CHUNK_EVICTION_COUNT; policy++) {
            double bytes = moved(&trace, (enum chunk_eviction)policy, 3, seed);
            sums[policy] += bytes;
            strictly[policy] += bytes > best;
            EXPECT(bytes >= best);
            if (policy == EVICT_NEXT_USE && bytes != best) {
                TEST_FAIL_("round %d: next-use moves %g, the optimum is %g", round, bytes, best);
            }
        }
        EXPECT_REAL(moved(&trace, EVICT_LOOKAHEAD, LENGTH_MAX, seed), best, 0); /* seeing everything is next-use */
    }
    for (uint32_t policy = 0; policy < CHUNK_EVICTION_COUNT; policy++) {
        printf("policy %u: %.0f chunks moved, more than the optimum in %u of 1000 traces\n", policy, sums[policy],
               strictly[policy]);
        EXPECT(policy == EVICT_NEXT_USE ? strictly[policy] == 0 : strictly[policy] > 0);
    }
}

/* Room, failures, release. */
static void test_limits(void)
{
    struct arena arena = { 0 };
    struct chunk_residency r;
    struct error error = { 0 };
    EXPECT_INT(chunk_residency_init(&r, 3, &arena, &error), STATUS_OK);
    r.budget[PLACE_DEVICE] = 20e9;
    r.budget[PLACE_HOST] = 10e9;
    for (uint32_t i = 0; i < 3; i++) {
        r.chunks[i].payload_bytes = r.chunks[i].bytes[PLACE_DEVICE] = r.chunks[i].bytes[PLACE_HOST] = 10e9;
        r.chunks[i].tensors.counts[TENSOR_HOLD] = 1;
    }
    EXPECT_INT(chunk_access_at(&r, 0, PLACE_DEVICE, &error), STATUS_OK);
    EXPECT_INT(chunk_access_at(&r, 1, PLACE_DEVICE, &error), STATUS_OK);
    EXPECT_INT(chunk_access_at(&r, 2, PLACE_DEVICE, &error), STATUS_OK); /* 0 leaves for the host */
    EXPECT_INT(r.chunks[0].place, PLACE_HOST);
    EXPECT_INT(chunk_access_at(&r, 0, PLACE_DEVICE, &error), STATUS_DOES_NOT_FIT); /* a full host cannot take another */
    EXPECT_PART(error.message, "host and device together are too small");
    chunk_release_payload(&r, 1);
    EXPECT_INT(r.chunks[1].place, PLACE_NONE);
    EXPECT_INT(chunk_access_at(&r, 0, PLACE_DEVICE, &error), STATUS_OK);
    r.chunks[0].tensors.counts[TENSOR_COMPUTE] = r.chunks[2].tensors.counts[TENSOR_COMPUTE] = 1;
    EXPECT_INT(chunk_access_at(&r, 1, PLACE_DEVICE, &error), STATUS_DOES_NOT_FIT);
    EXPECT_PART(error.message, "none of them may leave");
    EXPECT_REAL(r.used[PLACE_DEVICE], 20e9, 0);
    EXPECT_REAL(r.used[PLACE_HOST], 0, 0);
    arena_free(&arena);
}

TEST_MAIN(TEST(test_behaviour), TEST(test_keys), TEST(test_belady), TEST(test_limits))
