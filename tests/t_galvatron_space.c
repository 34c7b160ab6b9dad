/* Strategies of Galvatron's search: the exact counts of facts/galvatron-bmw.md A.3, the order of B.2, texts. */
#include "strategies/planners/galvatron_space.h"
#include "tests/test.h"

/* A.3: totals without and with the third takeaway; recomputation doubles both. */
static void test_counts(void)
{
    static const struct {
        uint32_t gpus, all, pruned;
    } TOTALS[] = { { 2, 4, 4 }, { 4, 13, 11 }, { 8, 34, 22 }, { 16, 73, 37 }, { 32, 136, 56 }, { 64, 229, 79 } };
    for (size_t i = 0; i < sizeof TOTALS / sizeof *TOTALS; i++) {
        uint32_t gpus = TOTALS[i].gpus, listed[2] = { 0, 0 };
        EXPECT_INT(galvatron_count_space(gpus, false, false), TOTALS[i].all);
        EXPECT_INT(galvatron_count_space(gpus, true, false), TOTALS[i].pruned);
        EXPECT_INT(galvatron_count_space(gpus, false, true), 2 * TOTALS[i].all);
        EXPECT_INT(galvatron_count_space(gpus, true, true), 2 * TOTALS[i].pruned);
        for (uint32_t recompute = 0; recompute < 2; recompute++) {
            const struct galvatron_space_limits limits = { .gpus = gpus, .recompute = recompute != 0 };
            for (uint32_t pipeline = 1; pipeline <= gpus; pipeline *= 2) {
                struct galvatron_strategy list[GALVATRON_STRATEGIES_MAX];
                uint32_t count = galvatron_strategies(&limits, pipeline, list);
                EXPECT_INT(count, (recompute + 1) * galvatron_count_nestings(gpus / pipeline, true));
                listed[recompute] += count;
                for (uint32_t a = 0; a < count; a++) {
                    EXPECT_INT(list[a].pipeline * list[a].tensor * list[a].data, gpus);
                    for (uint32_t b = 0; b < a; b++) {
                        EXPECT(!galvatron_strategy_equal(&list[a], &list[b]));
                    }
                }
            }
        }
        EXPECT_INT(listed[0], TOTALS[i].pruned);
        EXPECT_INT(listed[1], 2 * TOTALS[i].pruned);
    }
    /* Per degree, N = 8: 21, 9, 3, 1 and 11, 7, 3, 1. */
    static const uint32_t ALL[] = { 21, 9, 3, 1 }, PRUNED[] = { 11, 7, 3, 1 };
    for (uint32_t k = 0; k < 4; k++) {
        EXPECT_INT(galvatron_count_nestings(8u >> k, false), ALL[k]);
        EXPECT_INT(galvatron_count_nestings(8u >> k, true), PRUNED[k]);
    }
}

/* 16 devices with degrees up to 8: 35 strategies, 70 with recomputation (A.3). */
static void test_limits(void)
{
    const struct galvatron_space_limits limits = { .gpus = 16, .recompute = true, .tensor_max = 8, .pipeline_max = 8 };
    uint32_t count = 0;
    for (uint32_t pipeline = 1; pipeline <= 16; pipeline *= 2) {
        struct galvatron_strategy list[GALVATRON_STRATEGIES_MAX];
        count += galvatron_strategies(&limits, pipeline, list);
    }
    EXPECT_INT(count, 70);
}

static void expect_list(enum galvatron_space space, enum galvatron_order order, uint32_t gpus, const char *wanted)
{
    const struct galvatron_space_limits limits = { .gpus = gpus, .space = space, .order = order };
    char text[1024] = "", one[GALVATRON_STRATEGY_TEXT_BYTES];
    for (uint32_t pipeline = 1; pipeline <= gpus; pipeline *= 2) {
        struct galvatron_strategy list[GALVATRON_STRATEGIES_MAX];
        uint32_t count = galvatron_strategies(&limits, pipeline, list);
        for (uint32_t i = 0; i < count; i++) {
            size_t used = strlen(text);
            (void)snprintf(text + used, sizeof text - used, "%s%s", used > 0 ? " " : "",
                           galvatron_strategy_text(&list[i], one));
        }
    }
    EXPECT_TEXT(text, wanted);
}

static void test_order_and_spaces(void)
{
    expect_list(GALVATRON_SPACE_FULL, GALVATRON_ORDER_V1, 4,
                "1-1-4 1-1-4f 1-2-2* 1-2*-2 1-2-2f* 1-2*-2f 1-4-1 2-1-2 2-1-2f 2-2-1 4-1-1");
    expect_list(GALVATRON_SPACE_FULL, GALVATRON_ORDER_G2, 4,
                "1-1-4 1-1-4f 1-2-2* 1-2-2f* 1-2*-2 1-2*-2f 1-4-1 2-1-2 2-1-2f 2-2-1 4-1-1");
    expect_list(GALVATRON_SPACE_DP, GALVATRON_ORDER_V1, 8, "1-1-8");
    expect_list(GALVATRON_SPACE_SDP, GALVATRON_ORDER_V1, 8, "1-1-8f");
    expect_list(GALVATRON_SPACE_TP, GALVATRON_ORDER_V1, 8, "1-8-1");
    expect_list(GALVATRON_SPACE_PP, GALVATRON_ORDER_V1, 8, "8-1-1");
    expect_list(GALVATRON_SPACE_3D, GALVATRON_ORDER_V1, 8, "2-2*-2");
    expect_list(GALVATRON_SPACE_DP_TP, GALVATRON_ORDER_V1, 8, "1-1-8 1-2-4* 1-2*-4 1-4-2* 1-4*-2 1-8-1");
    expect_list(GALVATRON_SPACE_DP_PP, GALVATRON_ORDER_V1, 8, "1-1-8 2-1-4 4-1-2 8-1-1");
    expect_list(GALVATRON_SPACE_SDP, GALVATRON_ORDER_V1, 1, "1-1-1");
}

static void test_text(void)
{
    const struct galvatron_space_limits limits = { .gpus = 64, .recompute = true };
    for (uint32_t pipeline = 1; pipeline <= 64; pipeline *= 2) {
        struct galvatron_strategy list[GALVATRON_STRATEGIES_MAX], back;
        uint32_t count = galvatron_strategies(&limits, pipeline, list);
        for (uint32_t i = 0; i < count; i++) {
            char text[GALVATRON_STRATEGY_TEXT_BYTES];
            struct error error = { 0 };
            EXPECT_INT(galvatron_strategy_parse(galvatron_strategy_text(&list[i], text), &back, &error), STATUS_OK);
            EXPECT(galvatron_strategy_equal(&list[i], &back));
        }
    }
    static const char *const BAD[] = { "",       "1-2",    "1-2-4",  "1-3-2*",  "1-2*-4*", "1-1-8*", "8-1-1f",
                                       "1-1-8x", "-1-1-8", "1-1-8-", "1-1-8-d", "0-1-8",   "1*-1-8", "1-1-8192" };
    for (size_t i = 0; i < sizeof BAD / sizeof *BAD; i++) {
        struct galvatron_strategy strategy;
        struct error error = { 0 };
        if (galvatron_strategy_parse(BAD[i], &strategy, &error) != STATUS_BAD_INPUT || error.message[0] == '\0') {
            TEST_FAIL_("\"%s\" was taken", BAD[i]);
        }
    }
}

static void test_refusals(void)
{
    struct error error = { 0 };
    enum galvatron_space space;
    EXPECT_INT(galvatron_check_gpus(7, &error), STATUS_BAD_INPUT);
    EXPECT(strstr(error.message, "7") != NULL && strstr(error.message, "4") != NULL);
    EXPECT_INT(galvatron_check_gpus(0, &error), STATUS_BAD_INPUT);
    EXPECT_INT(galvatron_check_gpus(8192, &error), STATUS_BAD_INPUT);
    EXPECT_INT(galvatron_check_gpus(64, &error), STATUS_OK);
    EXPECT_INT(galvatron_space_find("dp+tpp", &space, &error), STATUS_NOT_FOUND);
    EXPECT_INT(galvatron_space_find("dp+tp", &space, &error), STATUS_OK);
    EXPECT_INT(space, GALVATRON_SPACE_DP_TP);
}

TEST_MAIN(TEST(test_counts), TEST(test_limits), TEST(test_order_and_spaces), TEST(test_text), TEST(test_refusals))
