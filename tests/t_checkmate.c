/* Exact recomputation against every choice on short chains; the greedy rule is never better; rounding fits and is bounded. */
#include "strategies/planners/checkmate_search.h"
#include "tests/test.h"

enum { LAYERS = 8, LONG = 48 };

static void random_layers(uint64_t *state, struct hippie_layer *layers, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        double all = (double)(20 + test_below(state, 80));
        double some = (double)(10 + test_below(state, (uint64_t)all - 9)), input = (double)(1 + test_below(state, 10));
        double again = (double)(1 + test_below(state, 20));
        layers[i] =
            (struct hippie_layer){ { all, some, input }, { 0, (double)test_below(state, 10) / 10 * again, again } };
    }
}

/* Whole numbers of tenths: sums are exact to far below a tenth. */
static double brute(const struct hippie_layer *layers, uint32_t count, uint32_t in_flight, double budget)
{
    double best = INFINITY;
    uint8_t modes[LAYERS] = { 0 };
    for (;;) {
        double again = 0;
        for (uint32_t i = 0; i < count; i++) {
            again += layers[i].again_s[modes[i]];
        }
        if (again < best && checkmate_peak(layers, count, in_flight, modes) <= budget) {
            best = again;
        }
        uint32_t at = 0;
        while (at < count && ++modes[at] == RECOMPUTE_MODE_COUNT) {
            modes[at++] = 0;
        }
        if (at == count) {
            return best;
        }
    }
}

static double greedy(const struct hippie_layer *layers, uint32_t count, uint32_t in_flight, double budget)
{
    uint8_t modes[LAYERS] = { 0 };
    double again = 0, all = checkmate_peak(layers, count, in_flight, modes);
    hippie_choose(layers, count, in_flight, all - budget, modes);
    for (uint32_t i = 0; i < count; i++) {
        again += layers[i].again_s[modes[i]];
    }
    return checkmate_peak(layers, count, in_flight, modes) <= budget ? again : INFINITY;
}

static void test_brute_force(void)
{
    uint64_t state = test_seed;
    unsigned unfit = 0, better = 0;
    for (int i = 0; i < 300; i++) {
        struct hippie_layer layers[LAYERS];
        struct checkmate_answer answer;
        struct error error = { 0 };
        uint8_t modes[LAYERS] = { 0 };
        uint32_t count = 1 + (uint32_t)test_below(&state, LAYERS), in_flight = 1 + (uint32_t)test_below(&state, 4);
        random_layers(&state, layers, count);
        double budget = floor(checkmate_peak(layers, count, in_flight, modes) * (0.2 + 0.8 * test_unit(&state)));
        EXPECT_INT(checkmate_search(layers, count, in_flight, budget, modes, &answer, &error), STATUS_OK);
        double best = brute(layers, count, in_flight, budget);
        EXPECT_INT(answer.found, best < INFINITY);
        unfit += !answer.found;
        if (answer.found) {
            double rule = greedy(layers, count, in_flight, budget);
            EXPECT(answer.exact);
            EXPECT(answer.peak_bytes <= budget * (1 + 1e-9));
            EXPECT(fabs(answer.again_s - best) < 0.01);
            EXPECT(rule >= best - 0.01);
            better += rule > best + 0.01;
        }
    }
    printf("300 chains of at most %d: %u do not fit, %u where the greedy rule costs more\n", LAYERS, unfit, better);
    EXPECT(unfit > 5 && unfit < 250 && better > 5);
}

/* Rounding fits, and costs less than recomputing everything. */
static void test_rounding(void)
{
    uint64_t state = test_seed;
    for (int i = 0; i < 20; i++) {
        struct hippie_layer layers[LONG];
        struct checkmate_answer answer;
        uint8_t modes[LONG] = { 0 };
        double all = 0;
        random_layers(&state, layers, LONG);
        for (int k = 0; k < LONG; k++) {
            all += layers[k].again_s[RECOMPUTE_FULL];
        }
        double budget = checkmate_peak(layers, LONG, 3, modes) * 0.6;
        EXPECT_INT(checkmate_search(layers, LONG, 3, budget, modes, &answer, NULL), STATUS_OK);
        EXPECT(answer.found && !answer.exact);
        EXPECT(answer.peak_bytes <= budget);
        EXPECT(answer.again_s < all && answer.again_s > 0);
    }
}

TEST_MAIN(TEST(test_brute_force), TEST(test_rounding))
