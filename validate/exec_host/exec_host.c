/* The host executor: a schedule run by threads of this computer. Real products (OpenBLAS, one thread each), real memory-bound loops, real copies between real buffers, real
 * reductions between ranks, real file input and output, memory from the same block allocators that the simulator runs dry.
 *
 * A shared object of its own (EXECUTOR_ENTRY); the only user of BLAS. What it adds to the schedule's memory: operands of kernels, slabs for buffers that
 * ops do not name, optimizer states (host_run.h), all counted before the run is accepted. */
#include <cblas.h>
#include <stdio.h>

#include "sim/base/check.h"
#include "sim/ir/verify.h"
#include "validate/dispatch/dispatch.h"
#include "validate/exec_host/host_run.h"

const struct executor *memwall_executor(void);

static enum status dispatch(struct host_run *run, struct timeline *timeline, struct error *error)
{
    const struct driver driver = { .context = run,
                                   .executor = "host",
                                   .enter = host_queue_enter,
                                   .leave = host_queue_leave,
                                   .begin_step = host_begin_step,
                                   .submit = host_submit,
                                   .cancel = host_cancel_run };
    return dispatch_run(run->schedule, &driver, run->pools, run->options, timeline, error);
}

enum status host_run_schedule(const struct schedule *schedule, const struct exec_options *options,
                              const struct host_tuning *tuning, struct timeline *timeline, struct error *error)
{
    struct host_run run = { .schedule = schedule, .options = options, .tuning = *tuning };
    *timeline = (struct timeline){ 0 };
    enum status status = sched_verify(schedule, error);
    if (status != STATUS_OK && status != STATUS_DOES_NOT_FIT) {
        return status;
    }
    if (status != STATUS_OK && error != NULL) {
        *error = (struct error){ 0 }; /* what lives at the start does not fit: an outcome, which the dispatcher tells */
    }
    openblas_set_num_threads(1);
    TRY_OR_FAIL(host_prepare(&run, error));
    TRY_OR_FAIL(host_make_spaces(&run, error));
    status = dispatch(&run, timeline, error);
fail:
    host_run_free(&run);
    if (status ==
        STATUS_DOES_NOT_FIT) { /* of the schedule's capacities that is an outcome; this is the computer's memory */
        char message[ERROR_MESSAGE_BYTES];
        (void)snprintf(message, sizeof message, "%s", error == NULL ? "" : error->message);
        return error_set(error, STATUS_EXECUTION, "%s", message);
    }
    return status;
}

static enum status run(const struct schedule *schedule, const struct exec_options *options, struct timeline *timeline,
                       struct error *error)
{
    return host_run_schedule(schedule, options, &(struct host_tuning){ 0 }, timeline, error);
}

static const struct executor exec_host = {
    .abi = EXECUTOR_ABI,
    .capabilities = EXECUTOR_MEASURES,
    .name = "host",
    .summary = "runs the step on threads of this computer",
    .supports = host_supports,
    .run = run,
};

const struct executor *memwall_executor(void)
{
    return &exec_host;
}
