/* Hidden gradient reductions: closed forms against pipelines worked out op by op, in whole numbers, so equal means equal. Recomputation of chosen layers; memory efficiency. */
#include "sim/report/memory_efficiency.h"
#include "strategies/planners/hippie_hiding.h"
#include "strategies/planners/hippie_recompute.h"
#include "strategies/registry.h"
#include "tests/test.h"

enum { STAGES = 6, MICRO_BATCHES = 12, STEPS = 2 * MICRO_BATCHES, ITERATIONS = 2 * STAGES + 4, CASES = 1200 };

/* Ends of one iteration's ops, from when each stage may begin: orders as lists, every op when its inputs and its stage are ready. */
static void run_iteration(const struct pipeline_order *order, const struct order_request *request, int64_t forward,
                          int64_t backward, const int64_t *begin, int64_t *end)
{
    static struct order_step steps[STAGES][STEPS];
    int64_t done[2][STAGES][MICRO_BATCHES];
    uint32_t at[STAGES] = { 0 }, p = request->stages, m = request->micro_batches;
    memset(done, -1, sizeof done);
    for (uint32_t s = 0; s < p; s++) {
        EXPECT_INT(order->build(request, s, steps[s]), 2 * m);
        end[s] = begin[s];
    }
    for (uint32_t left = 2 * m * p, before = left + 1; left > 0 && left < before;) {
        before = left;
        for (uint32_t s = 0; s < p; s++) {
            while (at[s] < 2 * m) {
                const struct order_step *step = &steps[s][at[s]];
                bool back = step->kind == STEP_BACKWARD;
                bool first = back ? s + 1 == p : s == 0;
                int64_t input = first ? 0 : done[back][back ? s + 1 : s - 1][step->micro_batch];
                if (input < 0) {
                    break;
                }
                end[s] = (input > end[s] ? input : end[s]) + (back ? backward : forward);
                done[back][s][step->micro_batch] = end[s];
                at[s]++;
                left--;
            }
        }
        EXPECT(left < before);
    }
}

/* The time from one iteration to the next, once it has settled. */
static int64_t period(const struct pipeline_order *order, const struct order_request *request, int64_t forward,
                      int64_t backward, const int64_t *reduce, enum gradient_barrier barrier)
{
    int64_t begin[STAGES] = { 0 }, end[STAGES], last = 0, before = 0;
    for (int i = 0; i < ITERATIONS; i++) {
        int64_t all = 0;
        run_iteration(order, request, forward, backward, begin, end);
        if (barrier == BARRIER_BEFORE) {
            for (uint32_t s = 0; s < request->stages; s++) {
                all = end[s] > all ? end[s] : all;
            }
        }
        for (uint32_t s = 0; s < request->stages; s++) {
            begin[s] = (barrier == BARRIER_BEFORE ? all : end[s]) + reduce[s];
        }
        before = last;
        last = 0;
        for (uint32_t s = 0; s < request->stages; s++) {
            last = begin[s] > last ? begin[s] : last;
        }
        for (uint32_t s = 0; barrier != BARRIER_NONE && s < request->stages; s++) {
            begin[s] = last;
        }
        last = barrier == BARRIER_NONE ? begin[0] : last;
    }
    return last - before;
}

static void test_laws(void)
{
    static const char *const orders[] = { "1f1b", "gpipe" };
    uint64_t state = test_seed;
    unsigned less[BARRIER_COUNT] = { 0 }; /* cases in which a barrier exposes less than the one before it */
    for (int i = 0; i < CASES; i++) {
        int64_t forward = 1 + (int64_t)test_below(&state, 9), backward = 1 + (int64_t)test_below(&state, 18);
        const struct pipeline_order *order = registry_order(orders[i % 2], NULL);
        struct order_request request = { .stages = 1 + (uint32_t)test_below(&state, STAGES),
                                         .micro_batches = 1 + (uint32_t)test_below(&state, MICRO_BATCHES),
                                         .virtual_stages = 1 };
        int64_t reduce[STAGES];
        double reduce_s[STAGES], exposed = INFINITY;
        parameters_defaults(order->parameters, order->parameter_count, &request.parameters);
        for (uint32_t s = 0; s < request.stages; s++) {
            reduce[s] = (int64_t)test_below(&state, 120);
            reduce_s[s] = (double)reduce[s];
        }
        const struct hiding hiding = { .stages = request.stages,
                                       .micro_batches = request.micro_batches,
                                       .forward_s = (double)forward,
                                       .backward_s = (double)backward,
                                       .reduce_s = reduce_s };
        for (int barrier = 0; barrier < BARRIER_COUNT; barrier++) {
            int64_t seen = period(order, &request, forward, backward, reduce, (enum gradient_barrier)barrier);
            EXPECT_REAL((double)seen, hiding_iteration_s(&hiding, (enum gradient_barrier)barrier), 0);
            less[barrier] += hiding_exposed_s(&hiding, (enum gradient_barrier)barrier) < exposed;
            exposed = hiding_exposed_s(&hiding, (enum gradient_barrier)barrier);
        }
    }
    printf("%d cases, 3 barriers each; own starts hide more in %u, own updates in %u\n", CASES, less[BARRIER_AFTER],
           less[BARRIER_NONE]);
    EXPECT(less[BARRIER_AFTER] > 300 && less[BARRIER_NONE] > 100);
}

/* L buckets on one link, each ready tB / L after the one before: times L keep whole numbers. */
static void test_buckets(void)
{
    uint64_t state = test_seed;
    for (int i = 0; i < 1000; i++) {
        int64_t layers = 1 + (int64_t)test_below(&state, 8), bucket = (int64_t)test_below(&state, 20),
                each = 1 + (int64_t)test_below(&state, 20), link = 0;
        for (int64_t k = 1; k <= layers; k++) {
            link = (link > k * each ? link : k * each) + bucket;
        }
        EXPECT_REAL(hiding_bucketed_s((double)(bucket * layers), (double)(each * layers), (uint32_t)layers),
                    (double)(link - each * layers), 1e-12); /* (L - 1) / L is rounded */
    }
}

static void test_chosen_layers(void)
{
    /* freed a second: layer 0: 6; layer 1: 10 (selective 20, then 5); layer 2: 8 */
    const struct hippie_layer layers[] = { { { 8, 8, 2 }, { 0, 0, 1 } },
                                           { { 12, 8, 2 }, { 0, 0.2, 1.4 } },
                                           { { 10, 10, 2 }, { 0, 0, 1 } } };
    uint8_t modes[3];
    EXPECT_REAL(hippie_choose(layers, 3, 1, 100, modes), 0, 0); /* nothing to gain with one in flight */
    EXPECT(modes[0] == RECOMPUTE_NONE && modes[1] == RECOMPUTE_NONE && modes[2] == RECOMPUTE_NONE);
    EXPECT_REAL(hippie_choose(layers, 3, 3, 8, modes), 8, 0); /* 3 * 4 - 4 */
    EXPECT(modes[0] == RECOMPUTE_NONE && modes[1] == RECOMPUTE_SELECTIVE && modes[2] == RECOMPUTE_NONE);
    EXPECT_REAL(hippie_choose(layers, 3, 3, 9, modes), 3 * 12 - 8, 0);
    EXPECT(modes[0] == RECOMPUTE_NONE && modes[1] == RECOMPUTE_SELECTIVE && modes[2] == RECOMPUTE_FULL);
    EXPECT_REAL(hippie_choose(layers, 3, 3, 1e9, modes), 3 * 24 - 10, 0); /* all it can */
}

/* The abstract's own example: throughput 1.80 times, memory less by 57 %. */
static void test_memory_efficiency(void)
{
    double relative = memory_efficiency_relative(1.80, 1, 1 - 0.57, 1);
    printf("memory efficiency of the abstract: %.3f\n", relative);
    EXPECT(fabs(relative - 4.186) < 5e-4);
}

TEST_MAIN(TEST(test_laws), TEST(test_buckets), TEST(test_chosen_layers), TEST(test_memory_efficiency))
