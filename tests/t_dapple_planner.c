/* DAPPLE's length and its search: by hand, brute force, limits. */
#include <float.h>

#include "strategies/planners/dapple_search.h"
#include "tests/test.h"
#include "tests/vgg16_profile.h"

static struct dapple_answer searched(const struct dapple_request *request, struct arena *arena)
{
    struct error error = { 0 };
    struct dapple_answer answer = { 0 };
    EXPECT_INT(dapple_search(request, &answer, arena, &error), STATUS_OK);
    return answer;
}

/* Two layers, three workers: block 3 of (6 / 2, 3 / 1); 3 * 3 + 9 + 10 / 5 + max(0, 2 * 1/2 * 32 / 8) = 24. */
static void test_by_hand(void)
{
    struct profile_layer layers[] = { { "", 2, 4, 10, 10, 32 }, { "", 1, 2, 7, 7, 1000 } };
    const struct pipeline_profile profile = { "", layers, 2 };
    const struct dapple_request request = {
        .profile = &profile, .workers = 3, .micro_batches = 4, .transfer_bytes_per_s = 5, .reduce_bytes_per_s = 8
    };
    struct pipeline_stage stages[] = { { 0, 1, 2 }, { 1, 1, 1 } };
    const struct pipeline_split split = { stages, 2 };
    struct dapple_answer length = dapple_length(&request, &split);
    EXPECT_REAL(length.block_s, 3, 0);
    EXPECT_REAL(length.transfers_s, 2, 0);
    EXPECT_REAL(length.exposed_reduce_s, 4, 0);
    EXPECT_REAL(length.length_s, 24, 0);
    struct arena arena = { 0 };
    struct dapple_answer best = searched(&request, &arena);
    EXPECT_INT(best.split.stage_count, 2);
    EXPECT_REAL(best.length_s, 24, 0);
    arena_free(&arena);
}

/* All partitions, all numbers of replicas. */
static double brute(const struct dapple_request *request, struct pipeline_stage *stages, uint32_t placed,
                    uint32_t first, uint32_t left)
{
    double best = DBL_MAX;
    for (uint32_t count = 1; first + count <= request->profile->count; count++) {
        bool last = first + count == request->profile->count;
        for (uint32_t r = last ? left : 1; r <= left; r++) {
            stages[placed] = (struct pipeline_stage){ first, count, r };
            const struct pipeline_split split = { stages, placed + 1 };
            if ((request->replicas > 0 && r != request->replicas) ||
                (request->shared > 0 && request->shared % r != 0)) {
                continue;
            }
            best = fmin(best, last       ? dapple_length(request, &split).length_s
                              : r < left ? brute(request, stages, placed + 1, first + count, left - r)
                                         : DBL_MAX);
        }
    }
    return best;
}

static void test_brute_force(void)
{
    uint64_t state = test_seed;
    unsigned exposed = 0, several = 0;
    for (int i = 0; i < 1000; i++) {
        struct arena arena = { 0 };
        struct profile_layer layers[8];
        struct pipeline_stage stages[8];
        uint32_t count = 1 + (uint32_t)test_below(&state, 7);
        for (uint32_t k = 0; k < count; k++) {
            layers[k] = (struct profile_layer){ "",
                                                (double)(1 + test_below(&state, 9)),
                                                (double)test_below(&state, 18),
                                                (double)test_below(&state, 100),
                                                0,
                                                (double)test_below(&state, 300) };
        }
        const struct pipeline_profile profile = { "", layers, count };
        struct dapple_request request = { .profile = &profile,
                                          .workers = 1 + (uint32_t)test_below(&state, 6),
                                          .micro_batches = 1 + (uint32_t)test_below(&state, 8),
                                          .transfer_bytes_per_s = (double)(1 + test_below(&state, 60)),
                                          .reduce_bytes_per_s = (double)(1 + test_below(&state, 60)) };
        request.replicas = i % 5 == 0 && request.workers % 2 == 0 ? 2 : 0;
        request.shared = i % 7 == 0 ? 1 + (uint32_t)test_below(&state, 12) : 0;
        struct dapple_answer answer = searched(&request, &arena);
        double best = brute(&request, stages, 0, 0, request.workers);
        EXPECT_INT(answer.found, best < DBL_MAX);
        if (answer.found) {
            EXPECT_REAL(answer.length_s, best, 1e-12); /* sums of integers, divided: some roundings apart */
            exposed += answer.exposed_reduce_s > 0;
            several += answer.split.stage_count > 1;
        }
        arena_free(&arena);
    }
    printf("1000 random chains: %u plans with exposed reduction, %u with several stages\n", exposed, several);
    EXPECT(exposed > 50 && several > 200);
}

/* VGG16 on 16 workers of 1.25 GB/s, 8 micro-batches of 128: heavy, reduction-bound layers end in a stage of their own. Not slower than what PipeDream's split gives. */
static void test_vgg16(void)
{
    struct profile_layer layers[VGG16_LAYERS];
    const struct pipeline_profile profile = vgg16_profile(layers);
    const struct dapple_request request = { .profile = &profile,
                                            .workers = 16,
                                            .micro_batches = 8,
                                            .transfer_bytes_per_s = 1.25e9,
                                            .reduce_bytes_per_s = 1.25e9 };
    struct arena arena = { 0 };
    struct dapple_answer best = searched(&request, &arena);
    struct pipeline_stage stages[] = { { 0, VGG16_LAYERS - 5, 15 }, { VGG16_LAYERS - 5, 5, 1 } };
    const struct pipeline_split shipped = { stages, 2 };
    printf("VGG16 on 16: %.6g s in %u stages; 15+1 before the first classifier layer: %.6g s\n", best.length_s,
           best.split.stage_count, dapple_length(&request, &shipped).length_s);
    EXPECT(best.length_s <= dapple_length(&request, &shipped).length_s);
    arena_free(&arena);
}

static void test_refused(void)
{
    struct profile_layer layer = { "", 1, 1, 1, 1, 1 };
    const struct pipeline_profile profile = { "", &layer, 1 };
    struct dapple_request request = {
        .profile = &profile, .workers = 2, .micro_batches = 0, .transfer_bytes_per_s = 1, .reduce_bytes_per_s = 1
    };
    struct error error = { 0 };
    struct dapple_answer answer;
    struct arena arena = { 0 };
    EXPECT_INT(dapple_search(&request, &answer, &arena, &error), STATUS_BAD_INPUT);
    EXPECT_PART(error.message, "micro-batches");
    request.micro_batches = 1;
    request.reduce_bytes_per_s = NAN;
    EXPECT_INT(dapple_search(&request, &answer, &arena, &error), STATUS_BAD_INPUT);
    request.reduce_bytes_per_s = 1;
    request.replicas = 1;
    EXPECT_INT(dapple_search(&request, &answer, &arena, &error), STATUS_OK);
    EXPECT_INT(answer.found, false); /* one layer, two stages */
    arena_free(&arena);
}

TEST_MAIN(TEST(test_by_hand), TEST(test_brute_force), TEST(test_vgg16), TEST(test_refused))
