/* How the processes of one sweep talk: small messages between rank 0, which owns the database, and the others. The only implementation is MPI's, a shared object opened under mpirun alone
 * (memwall_sweep_mpi.so, sim/sweep/mpi); it exports `const struct sweep_transport *memwall_sweep_transport(void)`.
 *
 * All calls come from one thread. Messages of one sender arrive in order. A rank that has died just never answers. */
#ifndef MEMWALL_SWEEP_SWEEP_TRANSPORT_H
#define MEMWALL_SWEEP_SWEEP_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SWEEP_TRANSPORT_ABI = 1 };

struct sweep_transport {
    uint32_t abi;
    /* Joins; false with a reason in `why`. */
    bool (*open)(uint32_t *rank, uint32_t *size, char *why, size_t why_size);
    /* Copies `bytes` and returns at once. */
    bool (*send)(uint32_t to, const void *bytes, size_t length);
    /* The next message, if one has come: malloc'ed, the caller frees it. */
    bool (*receive)(uint32_t *from, void **bytes, size_t *length);
    /* Leaves, together with all others: never returns when one of them is lost. Then end the process without it. */
    void (*close)(void);
};

typedef const struct sweep_transport *sweep_transport_entry(void);
#define SWEEP_TRANSPORT_ENTRY "memwall_sweep_transport"

#endif
