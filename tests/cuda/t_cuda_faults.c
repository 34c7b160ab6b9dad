/* Faults: every call that can fail does, once; collectives hang; data is wrong; disks are full. Each run ends with a message and leaves nothing behind. */
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include "tests/cuda/cuda_schedules.h"
#include "tests/cuda/cuda_test.h"

static const struct emulation_options machine = { .device_count = 2,
                                                  .device_bytes = UINT64_C(64) << 20,
                                                  .moves_data = true };

static enum status run_everything(const struct exec_options *options, struct error *error)
{
    struct schedule schedule;
    everything_build(&schedule);
    enum status status = cuda_test_run(&schedule, options, NULL, error);
    schedule_free(&schedule);
    return status;
}

static void test_everything_runs(void)
{
    for (int i = 0; i < 4; i++) {
        struct exec_options options = { .audit = true, .check = i % 2 == 1, .emulate = i / 2 == 1, .steps = 2 };
        struct error error;
        emulation_reset(&machine);
        EXPECT_INT(run_everything(&options, &error), STATUS_OK);
        EXPECT_TEXT(error.message, "");
    }
}

/* -- every call -- */

/* Failures of these are survived by design (memory is asked for again, or more modestly), or come when all is over. */
static bool may_be_survived(const char *function)
{
    static const char *const functions[] = { "cudaMalloc",           "cudaHostAlloc",        "cudaMemGetInfo",
                                             "cudaGetDevice",        "cudaSetDevice",        "cudaFree",
                                             "cudaFreeHost",         "cudaStreamDestroy",    "cudaEventDestroy",
                                             "cublasDestroy_v2",     "ncclCommDestroy",      "ncclCommAbort",
                                             "ncclCommFinalize",     "cudaDriverGetVersion", "cudaRuntimeGetVersion",
                                             "cudaStreamSynchronize" };
    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++) {
        if (strcmp(functions[i], function) == 0) {
            return true;
        }
    }
    return false;
}

/* An error of its library: cudaErrorLaunchFailure, CUBLAS_STATUS_EXECUTION_FAILED, ncclSystemError. */
static int error_of(const char *function)
{
    return strncmp(function, "cublas", 6) == 0 ? 13 : strncmp(function, "nccl", 4) == 0 ? 2 : 719;
}

static void fail_call(const char *function, uint32_t nth, const struct exec_options *options)
{
    struct error error;
    emulation_reset(&machine);
    emulation_fail(function, nth, error_of(function));
    unsigned before = test_failures;
    enum status status = run_everything(options, &error);
    bool polls = strcmp(function, "cudaEventQuery") == 0 || strcmp(function, "ncclCommGetAsyncError") == 0;
    if (status == STATUS_OK && (polls ? nth > 1 : emulation_calls(function) < nth)) {
        return; /* how often ends are polled for depends on the clock: this time not so often, or all was over */
    }
    if (status == STATUS_OK ? !may_be_survived(function) : status != STATUS_EXECUTION && status != STATUS_UNSUPPORTED) {
        TEST_FAIL_("call %u of %s: %s %s", nth, function, status_word(status), error.message);
    }
    if (status != STATUS_OK && strlen(error.message) < 12) {
        TEST_FAIL_("call %u of %s says no more than \"%s\"", nth, function, error.message);
    }
    if (test_failures != before) {
        printf("... in call %u of %s: \"%s\"\n", nth, function, error.message);
    }
}

static void fail_every_call(const struct exec_options *options)
{
    struct {
        const char *name;
        uint32_t calls;
    } functions[96];
    struct error error;
    emulation_reset(&machine);
    EXPECT_INT(run_everything(options, &error), STATUS_OK);
    uint32_t count = emulation_function_count();
    for (uint32_t i = 0; i < count; i++) {
        functions[i].name = emulation_function(i);
        functions[i].calls = emulation_calls(functions[i].name);
    }
    EXPECT(count > 25);
    for (uint32_t i = 0; i < count; i++) {
        fail_call(functions[i].name, 1, options);
        if (functions[i].calls > 2) {
            fail_call(functions[i].name, functions[i].calls / 2, options);
        }
    }
}

static void test_every_call_fails(void)
{
    const struct exec_options plain = { .patience_s = 10 },
                              checked = { .check = true, .emulate = true, .patience_s = 10 };
    fail_every_call(&plain);
    fail_every_call(&checked);
}

static void test_an_error_in_a_step_names_rank_and_op(void)
{
    const struct exec_options options = { .steps = 1 };
    struct error error;
    emulation_reset(&machine);
    emulation_fail("cudaMemcpyPeerAsync", 1, 719);
    EXPECT_INT(run_everything(&options, &error), STATUS_EXECUTION);
    EXPECT_PART(error.message, "rank");
    EXPECT_PART(error.message, "p2p");
    EXPECT_PART(error.message, "cudaErrorLaunchFailure");
}

/* -- collectives -- */

static bool tell_async_error(void *context, uint32_t done, uint32_t total)
{
    (void)context;
    (void)done;
    (void)total;
    emulation_async_error(2);
    return true;
}

static bool give_up(void *context, uint32_t done, uint32_t total)
{
    (void)context;
    (void)done;
    (void)total;
    return false;
}

/* The third command: each of two ranks has warmed up its communicator. */
enum { FIRST_COLLECTIVE = 3 };

static void test_a_hung_collective_is_found(void)
{
    struct exec_options options = { .patience_s = 0.3 };
    struct error error;
    emulation_reset(&machine);
    emulation_hang_collective(FIRST_COLLECTIVE);
    EXPECT_INT(run_everything(&options, &error), STATUS_EXECUTION);
    EXPECT_PART(error.message, "rank ");
    EXPECT_PART(error.message, "all_reduce");
    EXPECT_PART(error.message, "hangs");
}

static void test_a_lost_partner_is_told(void)
{
    struct exec_options options = { .patience_s = 20, .progress = tell_async_error };
    struct error error;
    emulation_reset(&machine);
    emulation_hang_collective(FIRST_COLLECTIVE);
    EXPECT_INT(run_everything(&options, &error), STATUS_EXECUTION);
    EXPECT_PART(error.message, "NCCL: unhandled system error");
    EXPECT_PART(error.message, "rank ");
}

static void test_a_hung_run_can_be_cancelled(void)
{
    struct exec_options options = { .patience_s = 20, .progress = give_up };
    struct error error;
    emulation_reset(&machine);
    emulation_hang_collective(FIRST_COLLECTIVE);
    EXPECT_INT(run_everything(&options, &error), STATUS_EXECUTION);
    EXPECT_PART(error.message, "cancelled");
}

static void test_a_partner_that_never_came(void)
{
    struct exec_options options = { .patience_s = 0.3 };
    struct error error;
    emulation_reset(&machine);
    emulation_hang_collective(1);
    EXPECT_INT(run_everything(&options, &error), STATUS_EXECUTION);
    EXPECT_PART(error.message, "the first collective of GPU");
}

/* -- wrong data -- */

static void test_wrong_data_is_found(void)
{
    for (int emulate = 0; emulate < 2; emulate++) {
        struct exec_options options = { .check = true, .emulate = emulate };
        struct error error;
        for (uint32_t nth = 1; nth <= 6; nth++) {
            emulation_reset(&machine);
            emulation_corrupt_copy(nth);
            EXPECT_INT(run_everything(&options, &error), STATUS_EXECUTION);
            EXPECT_PART(error.message, "check: ");
            EXPECT_PART(error.message, "rank ");
        }
        emulation_reset(&machine);
        emulation_corrupt_sum(emulate ? 1 : 2); /* NCCL's first is the warm-up's */
        EXPECT_INT(run_everything(&options, &error), STATUS_EXECUTION);
        EXPECT_PART(error.message, "check: ");
        EXPECT_PART(error.message, "all_reduce");
    }
}

/* -- storage -- */

static void test_a_full_disk(void)
{
    struct exec_options options = { .steps = 1 };
    struct rlimit before, small;
    struct error error;
    emulation_reset(&machine);
    (void)signal(SIGXFSZ, SIG_IGN);
    EXPECT_INT(getrlimit(RLIMIT_FSIZE, &before), 0);
    small = before;
    small.rlim_cur = 8192;
    EXPECT_INT(setrlimit(RLIMIT_FSIZE, &small), 0);
    enum status status = run_everything(&options, &error);
    EXPECT_INT(setrlimit(RLIMIT_FSIZE, &before), 0);
    EXPECT_INT(status, STATUS_EXECUTION);
    EXPECT_PART(error.message, "storage_write");
    EXPECT_PART(error.message, "stands for storage");
}

static void test_no_scratch_folder(void)
{
    struct exec_options options = { .scratch_folder = "/nowhere/at/all" };
    struct error error;
    emulation_reset(&machine);
    EXPECT_INT(run_everything(&options, &error), STATUS_IO);
    EXPECT_PART(error.message, "/nowhere/at/all");
}

TEST_MAIN(TEST(test_everything_runs), TEST(test_every_call_fails), TEST(test_an_error_in_a_step_names_rank_and_op),
          TEST(test_a_hung_collective_is_found), TEST(test_a_lost_partner_is_told),
          TEST(test_a_hung_run_can_be_cancelled), TEST(test_a_partner_that_never_came), TEST(test_wrong_data_is_found),
          TEST(test_a_full_disk), TEST(test_no_scratch_folder))
