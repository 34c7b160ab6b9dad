/* NCCL communicators: one for each group whose members meet on GPUs of their own, made and warmed up before the first step. Private to comms.c and collectives.c. */
#ifndef MEMWALL_EXEC_CUDA_COMMS_H
#define MEMWALL_EXEC_CUDA_COMMS_H

#ifdef MEMWALL_HAVE_NCCL

#include <nccl.h>

#include "validate/exec_cuda/cuda_run.h"

struct comm {
    ncclComm_t handle; /* NULL: the member is in another process, or the communicator was ended */
};

struct comms {
    uint32_t *first; /* [group_count]: into members, or SCHED_NONE: the group needs none */
    struct comm *members;
    uint32_t member_count;
    void **scratch; /* [gpu_count]: device memory for warming up */
};

/* Of member `member` of a group. */
ncclComm_t comms_get(const struct cuda_run *run, uint32_t group, uint32_t member);

enum status nccl_status(ncclResult_t result, const char *call, struct error *error); /* in-progress is fine */
#define NCCL_TRY(function, arguments, error) TRY(nccl_status(function arguments, #function, (error)))

/* Until what was begun on a communicator that does not block has been handed to its stream. STATUS_EXECUTION: it failed, the run was cancelled, or patience is over. */
enum status comms_settle(struct cuda_run *run, ncclComm_t comm, struct error *error);

#endif

#endif
