/* The real module on a real GPU: argv[1] is memwall_exec_cuda.so. Skipped (77) where it says that there is no GPU to run on. */
#include <dlfcn.h>

#include "sim/exec.h"
#include "tests/schedule_gen.h"

static const struct executor *executor;
static bool skipped;

static void run_one(uint32_t ranks, uint64_t seed, bool check)
{
    struct schedule_gen gen = { .ranks = ranks, .events = 12, .devices_per_rank = 1 };
    struct schedule schedule;
    struct timeline timeline;
    struct error error = { 0 };
    schedule_gen(&gen, seed, &schedule);
    for (uint32_t i = 0; i < schedule.kernel_count; i++) { /* products of fp8 are refused */
        schedule.kernels[i].dtype = schedule.kernels[i].dtype == DTYPE_FP8 ? DTYPE_FP16 : schedule.kernels[i].dtype;
    }
    struct exec_options options = {
        .audit = true, .check = check, .emulate = ranks > 1, .warmup_steps = 1, .steps = 2
    };
    enum status status = executor->run(&schedule, &options, &timeline, &error);
    if (status == STATUS_UNSUPPORTED) {
        printf("skipped: %s\n", error.message);
        skipped = true;
    } else if (status != STATUS_OK || timeline.outcome != TIMELINE_DONE) {
        TEST_FAIL_("seed %" PRIu64 ": %s", seed, error.message);
    }
    timeline_free(&timeline);
    schedule_free(&schedule);
}

int main(int argc, char **argv)
{
    void *module = argc > 1 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
    executor_entry *entry = NULL;
    if (module == NULL) {
        printf("skipped: %s\n", argc > 1 ? dlerror() : "no module given");
        return 77;
    }
    *(void **)&entry = dlsym(module, EXECUTOR_ENTRY);
    executor = entry == NULL ? NULL : entry();
    EXPECT(executor != NULL && executor->abi == EXECUTOR_ABI);
    for (uint64_t seed = 1; executor != NULL && !skipped && seed <= 4; seed++) {
        run_one(1, seed, false);
        run_one(1, seed, true);
        run_one(2, seed, true); /* two emulated ranks */
    }
    return skipped ? 77 : test_failures == 0 ? 0 : 1;
}
