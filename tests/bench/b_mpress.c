/* MPress: the search over all 40,320 mappings of eight stages on DGX-1 V100. Target: 0.2 s. */
#include "bench.h"

#include "tests/mpress_machines.h"
#include "strategies/planners/mpress_mapping.h"

int main(void)
{
    static const double OVER[8] = { 14e9, 10e9, 6e9, 2e9, 0, 0, 0, 0 };
    static const double SPARE[8] = { 0, 0, 0, 0, 2e9, 6e9, 10e9, 14e9 };
    const struct mpress_mapping_case input = {
        .devices = 8, .links = DGX1_LINKS, .over_bytes = OVER, .spare_bytes = SPARE
    };
    double samples[BENCH_ROUNDS];
    uint64_t equals = 0;
    bench_header("b_mpress");
    for (unsigned round = 0; round < BENCH_ROUNDS; round++) {
        const double start = bench_now_s();
        equals = mpress_mapping_search(&input).equals;
        samples[round] = bench_now_s() - start;
    }
    printf("mapping search: %.4f s of processor time (median of %d; target 0.2 s), best reached by %llu mappings\n",
           bench_median(samples, BENCH_ROUNDS), BENCH_ROUNDS, (unsigned long long)equals);
    return 0;
}
