/* Processes that mpirun started; the one file that knows MPI. Data between GPUs goes through NCCL; MPI carries communicator ids, clocks' zeros and times. */
#include <limits.h>
#include <mpi.h>
#include <stdbool.h>
#include <stdlib.h>

#include "sim/base/check.h"
#include "validate/exec_cuda/world.h"

/* Launchers announce themselves by the environment alone: PMIx (Open MPI), PMI (MPICH, Slurm). Without one MPI is left alone: starting it as a singleton would start
 * daemons. */
static bool was_launched(void)
{
    static const char *const signs[] = { "OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_RANK", "PMI_SIZE" };
    for (size_t i = 0; i < sizeof signs / sizeof signs[0]; i++) {
        if (getenv(signs[i]) != NULL) {
            return true;
        }
    }
    return false;
}

static enum status check(int result, const char *call, struct error *error)
{
    char text[MPI_MAX_ERROR_STRING];
    int length = 0;
    if (result == MPI_SUCCESS) {
        return STATUS_OK;
    }
    (void)MPI_Error_string(result, text, &length);
    return error_set(error, STATUS_EXECUTION, "%s: %.*s", call, length, text);
}
#define MPI_TRY(function, arguments, error) TRY(check(function arguments, #function, (error)))

/* MPI is one a process and ends with it, whatever the number of runs; a failed run must end the other processes too, but only after its message was printed. */
static bool run_failed;

static void end_mpi(void)
{
    int finalized = 0;
    if (MPI_Finalized(&finalized) == MPI_SUCCESS && !finalized) {
        (void)(run_failed ? MPI_Abort(MPI_COMM_WORLD, 3) : MPI_Finalize());
    }
}

enum status world_open(struct world *world, struct error *error)
{
    int initialized = 0, provided = 0, process = 0, count = 1;
    *world = (struct world){ .process = 0, .process_count = 1 };
    if (!was_launched()) {
        return STATUS_OK;
    }
    MPI_TRY(MPI_Initialized, (&initialized), error);
    if (!initialized) {
        MPI_TRY(MPI_Init_thread, (NULL, NULL, MPI_THREAD_SERIALIZED, &provided), error);
        if (provided < MPI_THREAD_SERIALIZED) {
            return error_set(error, STATUS_UNSUPPORTED,
                             "this MPI cannot be called from threads (MPI_THREAD_SERIALIZED)");
        }
        MPI_TRY(MPI_Comm_set_errhandler, (MPI_COMM_WORLD, MPI_ERRORS_RETURN), error);
        (void)atexit(end_mpi);
    }
    MPI_TRY(MPI_Comm_rank, (MPI_COMM_WORLD, &process), error);
    MPI_TRY(MPI_Comm_size, (MPI_COMM_WORLD, &count), error);
    *world = (struct world){ .process = (uint32_t)process, .process_count = (uint32_t)count };
    return STATUS_OK;
}

void world_close(struct world *world, int failed)
{
    run_failed = run_failed || (failed && world->process_count > 1);
}

enum status world_barrier(const struct world *world, struct error *error)
{
    if (world->process_count > 1) {
        MPI_TRY(MPI_Barrier, (MPI_COMM_WORLD), error);
    }
    return STATUS_OK;
}

/* MPI counts in int. */
enum { PART_BYTES = 1 << 30 };

enum status world_broadcast(const struct world *world, uint32_t from, void *memory, size_t bytes, struct error *error)
{
    for (size_t at = 0; world->process_count > 1 && at < bytes; at += PART_BYTES) {
        size_t part = bytes - at < PART_BYTES ? bytes - at : PART_BYTES;
        MPI_TRY(MPI_Bcast, ((char *)memory + at, (int)part, MPI_BYTE, (int)from, MPI_COMM_WORLD), error);
    }
    return STATUS_OK;
}

enum status world_agree(const struct world *world, enum status own, struct error *error)
{
    int bad = own != STATUS_OK, any = bad;
    if (world->process_count > 1) {
        MPI_TRY(MPI_Allreduce, (&bad, &any, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD), error);
    }
    return own != STATUS_OK || !any ? own
                                    : error_set(error, STATUS_EXECUTION, "another process failed; see its message");
}
