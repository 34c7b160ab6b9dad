/* The dynamic programme of Galvatron's stages against brute force and against its plain twin. */
#include "strategies/planners/galvatron_dp.h"
#include "tests/test.h"

enum { LAYERS = 64, KINDS = 3, STRATEGIES = 12 };

struct instance {
    struct galvatron_dp dp;
    uint32_t kinds[LAYERS], mib[KINDS * STRATEGIES];
    double cost_s[KINDS * STRATEGIES], change_s[KINDS * STRATEGIES * STRATEGIES];
};

/* Costs in steps of `grain` seconds so that ties happen; changes like Galvatron's, mostly zero. */
static void generate(struct instance *in, uint32_t layers, uint32_t strategies, uint32_t mib_max, double grain,
                     uint64_t *seed)
{
    uint32_t kind_count = 1 + (uint32_t)(test_random(seed) % KINDS);
    int64_t most = 0;
    for (uint32_t i = 0; i < kind_count * strategies; i++) {
        in->mib[i] = 1 + (uint32_t)(test_random(seed) % mib_max);
        in->cost_s[i] = grain * (double)(1 + test_random(seed) % 40);
    }
    for (uint32_t i = 0; i < kind_count * strategies * strategies; i++) {
        in->change_s[i] = test_random(seed) % 3 == 0 ? grain * (double)(test_random(seed) % 12) : 0;
    }
    for (uint32_t l = 0; l < layers; l++) {
        in->kinds[l] = l == 0                       ? 0
                       : test_random(seed) % 4 == 0 ? (uint32_t)(test_random(seed) % kind_count)
                                                    : in->kinds[l - 1];
        most += mib_max;
    }
    in->dp = (struct galvatron_dp){ layers,  kind_count, strategies,   in->kinds,
                                    in->mib, in->cost_s, in->change_s, (int64_t)(test_random(seed) % (uint64_t)most) };
}

static double cost_of(const struct galvatron_dp *dp, const uint8_t *choice, int64_t *mib)
{
    double sum = 0;
    size_t n = dp->strategy_count;
    *mib = 0;
    for (uint32_t l = 0; l < dp->layer_count; l++) {
        size_t kind = dp->kinds[l];
        sum += dp->cost_s[kind * n + choice[l]];
        sum += l > 0 ? dp->change_s[(kind * n + choice[l - 1]) * n + choice[l]] : 0;
        *mib += dp->mib[kind * n + choice[l]];
    }
    return sum;
}

static double brute_force(const struct galvatron_dp *dp)
{
    uint8_t choice[LAYERS] = { 0 };
    double best = INFINITY;
    for (;;) {
        int64_t mib = 0;
        double cost = cost_of(dp, choice, &mib);
        best = mib <= dp->budget_mib && cost < best ? cost : best;
        uint32_t l = 0;
        while (l < dp->layer_count && ++choice[l] == dp->strategy_count) {
            choice[l++] = 0;
        }
        if (l == dp->layer_count) {
            return best;
        }
    }
}

static bool close_to(double a, double b)
{
    return (isinf(a) && isinf(b)) || fabs(a - b) <= 1e-12 * fabs(b);
}

static void test_brute_force(void)
{
    uint64_t seed = test_seed;
    unsigned fitting = 0;
    for (int round = 0; round < 200; round++) {
        struct instance in;
        uint8_t choice[LAYERS];
        struct galvatron_dp_answer answer = { .choice = choice };
        struct error error = { 0 };
        generate(&in, 1 + (uint32_t)(test_random(&seed) % 6), 1 + (uint32_t)(test_random(&seed) % 5), 12, 0.125, &seed);
        double best = brute_force(&in.dp);
        EXPECT_INT(galvatron_dp(&in.dp, &answer, &error), STATUS_OK);
        if (!close_to(answer.cost_s, best)) {
            TEST_FAIL_("round %d: %.17g, brute force %.17g", round, answer.cost_s, best);
        }
        if (isfinite(best)) {
            int64_t mib = 0;
            EXPECT(close_to(cost_of(&in.dp, choice, &mib), best));
            EXPECT_INT(answer.left_mib, in.dp.budget_mib - mib);
            EXPECT(answer.left_mib >= 0);
            fitting++;
        }
    }
    printf("  %u of 200 fit\n", fitting);
    EXPECT(fitting > 50 && fitting < 200);
}

/* Same plan, ties included, as the form that drops nothing and visits every budget. */
static void test_twin(void)
{
    uint64_t seed = test_seed + 1;
    for (int round = 0; round < 200; round++) {
        struct instance in;
        uint8_t choice[LAYERS] = { 0 }, plain_choice[LAYERS] = { 0 };
        struct galvatron_dp_answer answer = { .choice = choice }, plain = { .choice = plain_choice };
        struct error error = { 0 };
        uint32_t layers = 1 + (uint32_t)(test_random(&seed) % LAYERS);
        generate(&in, layers, 2 + (uint32_t)(test_random(&seed) % (STRATEGIES - 1)), 40, 0.125, &seed);
        EXPECT_INT(galvatron_dp(&in.dp, &answer, &error), STATUS_OK);
        EXPECT_INT(galvatron_dp_plain(&in.dp, &plain, &error), STATUS_OK);
        if (!(answer.cost_s == plain.cost_s) ||
            (isfinite(plain.cost_s) &&
             (answer.left_mib != plain.left_mib || memcmp(choice, plain_choice, layers) != 0))) {
            TEST_FAIL_("round %d: %.17g left %lld, plain %.17g left %lld", round, answer.cost_s,
                       (long long)answer.left_mib, plain.cost_s, (long long)plain.left_mib);
        }
    }
}

static void test_edges(void)
{
    const uint32_t kinds[2] = { 0, 0 }, mib[2] = { 5, GALVATRON_DP_NO_FIT_MIB };
    const double cost[2] = { 1, 0 }, change[4] = { 0 };
    uint8_t choice[2] = { 9, 9 };
    struct error error = { 0 };
    struct galvatron_dp dp = { 2, 1, 2, kinds, mib, cost, change, 10 };
    struct galvatron_dp_answer answer = { .choice = choice };
    EXPECT_INT(galvatron_dp(&dp, &answer, &error), STATUS_OK);
    EXPECT_REAL(answer.cost_s, 2, 0);
    EXPECT_INT(answer.left_mib, 0);
    EXPECT_INT(choice[0], 0);
    dp.budget_mib = 9; /* one short */
    EXPECT_INT(galvatron_dp(&dp, &answer, &error), STATUS_OK);
    EXPECT(isinf(answer.cost_s));
    dp.budget_mib = -3;
    EXPECT_INT(galvatron_dp(&dp, &answer, &error), STATUS_OK);
    EXPECT(isinf(answer.cost_s));
    dp.layer_count = 0;
    dp.budget_mib = 3;
    EXPECT_INT(galvatron_dp(&dp, &answer, &error), STATUS_OK);
    EXPECT_REAL(answer.cost_s, 0, 0);
}

TEST_MAIN(TEST(test_brute_force), TEST(test_twin), TEST(test_edges))
