/* Who started this process: a launcher of MPI programs, Slurm, or nobody. What launchers leave in the environment (Open MPI's mpirun, PMI-2, PMIx under srun; srun(1)). */
#ifndef MEMWALL_CLI_LAUNCHER_H
#define MEMWALL_CLI_LAUNCHER_H

#include <stdbool.h>
#include <stdint.h>

/* A launcher of MPI programs started this process, with others. */
bool launcher_has_ranks(void);
/* Ranks on this computer that share its cores, this one among them; at least 1. */
uint32_t launcher_local_ranks(void);
/* Tasks that srun started without MPI (no --mpi=pmix), this one among them: each is alone. 0: not so started. */
uint32_t launcher_lone_tasks(void);

#endif
