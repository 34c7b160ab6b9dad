/* Runs of the CUDA executor on the emulation, and what every one of them must leave behind: nothing. */
#ifndef MEMWALL_TESTS_CUDA_TEST_H
#define MEMWALL_TESTS_CUDA_TEST_H

#include "sim/exec.h"
#include "sim/ir/audit.h"
#include "tests/cuda/emulation/emulation.h"
#include "tests/schedule_gen.h"

const struct executor *memwall_executor(void);

static inline void expect_nothing_left(void)
{
    struct emulation_left left = emulation_left();
    EXPECT_INT(left.device_bytes, 0);
    EXPECT_INT(left.pinned_bytes, 0);
    EXPECT_INT(left.allocations, 0);
    EXPECT_INT(left.streams, 0);
    EXPECT_INT(left.events, 0);
    EXPECT_INT(left.handles, 0);
    EXPECT_INT(left.communicators, 0);
    EXPECT_INT(left.misuses, 0);
    EXPECT_TEXT(emulation_first_misuse(), "");
}

/* Runs and frees; the outcome of a run that ended well, else TIMELINE_DEADLOCK. */
static inline enum status cuda_test_run(const struct schedule *schedule, const struct exec_options *options,
                                        enum timeline_outcome *outcome, struct error *error)
{
    struct timeline timeline;
    *error = (struct error){ 0 };
    enum status status = memwall_executor()->run(schedule, options, &timeline, error);
    if (outcome != NULL) {
        *outcome = status == STATUS_OK ? timeline.outcome : TIMELINE_DEADLOCK;
    }
    timeline_free(&timeline);
    expect_nothing_left();
    return status;
}

/* fp8 products and sums are refused; turn them into bf16. The schedule stays valid: kernels and works are the same number. */
static inline void cuda_test_avoid_fp8(struct schedule *schedule)
{
    for (uint32_t i = 0; i < schedule->kernel_count; i++) {
        if (schedule->kernels[i].kernel_class <= KERNEL_ATTENTION_BACKWARD && schedule->kernels[i].dtype == DTYPE_FP8) {
            schedule->kernels[i].dtype = DTYPE_BF16;
        }
    }
}

#endif
