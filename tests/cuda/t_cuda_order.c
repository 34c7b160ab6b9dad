/* Random schedules on the emulated GPUs: order, data, timelines; what every run leaves behind. */
#include "tests/cuda/cuda_test.h"

static const struct emulation_options machine = { .device_count = 4,
                                                  .device_bytes = UINT64_C(64) << 20,
                                                  .moves_data = true };

static void run_random(uint32_t ranks, uint32_t events, uint64_t seed, bool check, bool emulate, uint64_t delay_ns)
{
    struct schedule_gen gen = { .ranks = ranks, .events = events, .devices_per_rank = 1 };
    struct schedule schedule;
    struct error error;
    enum timeline_outcome outcome;
    struct emulation_options options = machine;
    options.seed = seed;
    options.delay_ns = delay_ns;
    options.moves_data = check; /* unchecked, ops that share a buffer may overlap: order only */
    options.device_count = emulate ? 1 + (int)(seed % 2) : 4;
    options.device_bytes *= emulate ? 4 : 1;
    emulation_reset(&options);
    schedule_gen(&gen, seed, &schedule);
    cuda_test_avoid_fp8(&schedule);
    struct exec_options exec = { .audit = true, .check = check, .emulate = emulate, .steps = 2, .patience_s = 20 };
    enum status status = cuda_test_run(&schedule, &exec, &outcome, &error);
    if (status != STATUS_OK || outcome != TIMELINE_DONE) {
        TEST_FAIL_("seed %" PRIu64 ", %u ranks, check %d, emulate %d: %s", seed, ranks, check, emulate, error.message);
    }
    schedule_free(&schedule);
}

static void test_random_schedules(void)
{
    for (uint64_t seed = test_seed; seed < test_seed + 12; seed++) {
        run_random(1 + (uint32_t)(seed % 4), 16, seed, false, false, 200000);
    }
}

static void test_data_is_right(void)
{
    for (uint64_t seed = test_seed; seed < test_seed + 8; seed++) {
        run_random(1 + (uint32_t)(seed % 4), 8, seed, true, false, 0);
    }
}

static void test_emulated_ranks(void)
{
    for (uint64_t seed = test_seed; seed < test_seed + 8; seed++) {
        run_random(2 + (uint32_t)(seed % 3), 8, seed, true, true, 0);
        run_random(2 + (uint32_t)(seed % 3), 12, seed, false, true, 100000);
    }
}

TEST_MAIN(TEST(test_random_schedules), TEST(test_data_is_right), TEST(test_emulated_ranks))
