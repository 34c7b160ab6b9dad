/* The processes of a run. One, unless mpirun started several (a build with MPI): then each runs an equal share of the ranks, in device order, on the GPUs it sees;
 * with one process a node, groups that span nodes meet through NCCL. world_single.c and world_mpi.c implement it; exactly one is built. */
#ifndef MEMWALL_EXEC_CUDA_WORLD_H
#define MEMWALL_EXEC_CUDA_WORLD_H

#include <stddef.h>
#include <stdint.h>

#include "sim/base/status.h"

struct world {
    uint32_t process, process_count;
};

enum status world_open(struct world *world, struct error *error);
/* `failed`: this process gives up; the others are ended too, for they would wait for it. */
void world_close(struct world *world, int failed);
enum status world_barrier(const struct world *world, struct error *error);
/* `bytes` from process `from` to all. */
enum status world_broadcast(const struct world *world, uint32_t from, void *memory, size_t bytes, struct error *error);
/* STATUS_OK only if all processes bring STATUS_OK: call it where one's failure must stop all. Else `own`, or STATUS_EXECUTION. */
enum status world_agree(const struct world *world, enum status own, struct error *error);

#endif
