/* Random schedules on random machines under random software through engine, audit and plain twin; the bytes the allocator model reserves are never fewer than
 * what is live. */
#include "hw_models/machine.h"
#include "sim/engine/reserved.h"
#include "tests/engine_compare.h"
#include "tests/fuzz/fuzz.h"

static void check_reserved(const struct schedule_gen *gen, uint64_t seed)
{
    struct schedule schedule;
    struct error error = { 0 };
    schedule_gen(gen, seed, &schedule);
    struct space_use *spaces = calloc(schedule.space_count + 1, sizeof *spaces);
    for (int kind = ALLOCATOR_EXACT; kind <= ALLOCATOR_CACHING; kind++) {
        const struct software software = { .allocator = (enum software_allocator)kind };
        uint64_t exact = 0;
        EXPECT_INT(reserved_fill(&schedule, &software, spaces, &error), STATUS_OK);
        for (uint32_t s = 0; s < schedule.space_count; s++) {
            if (schedule.spaces[s].kind == SPACE_DEVICE) {
                exact += spaces[s].peak_reserved_bytes;
            }
        }
        static uint64_t least;
        least = kind == ALLOCATOR_EXACT ? exact : least;
        EXPECT(exact >= least);
    }
    free(spaces);
    schedule_free(&schedule);
}

static void round_of(uint64_t seed)
{
    uint64_t random = seed * 7919;
    struct machine machine;
    struct cluster cluster;
    struct error error = { 0 };
    struct compare_counts counts = { 0 };
    const char *name = machine_library_name((uint32_t)test_below(&random, machine_library_count()));
    if (machine_load(&machine, name, &error) != STATUS_OK) {
        TEST_FAIL_("%s", error.message);
        return;
    }
    machine.cpu_adam_parameters_per_s_core = 1e5; /* optimizers as short as the copies around them are long */
    uint32_t fold = machine.gpu_count >= 4 && test_below(&random, 3) == 0 ? 2 : 1;
    uint32_t most = machine.gpu_count / fold < 8 ? machine.gpu_count / fold : 8;
    struct schedule_gen gen = {
        .ranks = 1 + (uint32_t)test_below(&random, most),
        .events = 2 + (uint32_t)test_below(&random, 12),
        .devices_per_rank = fold,
        .tight = test_below(&random, 3) == 0,
    };
    const struct software software = {
        .launch_host_s = 8e-6 * test_unit(&random),
        .collective_host_s = 2e-5 * test_unit(&random),
        .copy_host_s = 1e-5 * test_unit(&random),
        .pass_host_s = 1e-4 * test_unit(&random),
        .micro_batch_host_s = 1e-4,
        .step_host_s = 1e-3,
        .launch_ahead = (uint32_t)test_below(&random, 12),
    };
    if (cluster_build(&cluster, &machine, 1, 0, &error) == STATUS_OK) {
        compare_with_twin(&gen, seed, &cluster, test_below(&random, 3) == 0 ? NULL : &software, false, &counts);
        cluster_free(&cluster);
    } else {
        TEST_FAIL_("%s", error.message);
    }
    gen.fixed_only = true;
    gen.events = 2 + (uint32_t)test_below(&random, 40);
    compare_with_twin(&gen, seed, NULL, NULL, true, &counts);
    check_reserved(&gen, seed);
    machine_free(&machine);
}

int main(int argc, char **argv)
{
    return fuzz_run(round_of, argc, argv);
}
