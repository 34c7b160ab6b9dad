/* The transport of sweeps over MPI: built as memwall_sweep_mpi.so and opened under mpirun alone, so that a plain memwall loads no MPI. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/sweep/sweep_transport.h"

enum { TAG = 77 };

/* Messages under way; one MPI world a process, so one list. */
struct sending {
    MPI_Request request;
    void *bytes;
    struct sending *next;
};
static struct sending *sendings;

const struct sweep_transport *memwall_sweep_transport(void);

static bool open_world(uint32_t *rank, uint32_t *size, char *why, size_t why_size)
{
    int provided, world_rank, world_size;
    if (MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &provided) != MPI_SUCCESS || provided < MPI_THREAD_FUNNELED) {
        snprintf(why, why_size, "MPI_Init_thread offers no MPI_THREAD_FUNNELED");
        return false;
    }
    /* A lost partner must not end this process. */
    (void)MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    (void)MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
    (void)MPI_Comm_size(MPI_COMM_WORLD, &world_size);
    *rank = (uint32_t)world_rank;
    *size = (uint32_t)world_size;
    return true;
}

/* Frees what has arrived. */
static void tidy(void)
{
    for (struct sending **at = &sendings; *at != NULL;) {
        struct sending *sending = *at;
        int done = 0;
        if (MPI_Test(&sending->request, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS || done) {
            *at = sending->next;
            free(sending->bytes);
            free(sending);
        } else {
            at = &sending->next;
        }
    }
}

static bool send_bytes(uint32_t to, const void *bytes, size_t length)
{
    struct sending *sending = calloc(1, sizeof *sending);
    void *copy = malloc(length + 1);
    tidy();
    if (sending == NULL || copy == NULL) {
        free(sending);
        free(copy);
        return false;
    }
    memcpy(copy, bytes, length);
    sending->bytes = copy;
    if (MPI_Isend(copy, (int)length, MPI_BYTE, (int)to, TAG, MPI_COMM_WORLD, &sending->request) != MPI_SUCCESS) {
        free(copy);
        free(sending);
        return false; /* NOLINT(clang-analyzer-optin.mpi.MPI-Checker): what was not sent has no request; the others are tested in tidy() */
    }
    sending->next = sendings;
    sendings = sending;
    return true;
}

static bool receive_bytes(uint32_t *from, void **bytes, size_t *length)
{
    int there = 0, count = 0;
    MPI_Status status;
    tidy();
    if (MPI_Iprobe(MPI_ANY_SOURCE, TAG, MPI_COMM_WORLD, &there, &status) != MPI_SUCCESS || !there) {
        return false;
    }
    (void)MPI_Get_count(&status, MPI_BYTE, &count);
    *bytes = malloc((size_t)count + 1);
    if (*bytes == NULL) {
        return false; /* it stays where it is */
    }
    *from = (uint32_t)status.MPI_SOURCE;
    *length = (size_t)count;
    if (MPI_Recv(*bytes, count, MPI_BYTE, status.MPI_SOURCE, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE) != MPI_SUCCESS) {
        free(*bytes);
        return false;
    }
    return true;
}

static void close_world(void)
{
    (void)MPI_Finalize();
}

const struct sweep_transport *memwall_sweep_transport(void)
{
    static const struct sweep_transport transport = {
        .abi = SWEEP_TRANSPORT_ABI,
        .open = open_world,
        .send = send_bytes,
        .receive = receive_bytes,
        .close = close_world,
    };
    return &transport;
}
