#include "sim/cli/launcher.h"

#include <stdlib.h>

enum { RANKS_MAX = 1 << 20 };

/* The number that a variable begins with ("2(x3)" under Slurm: 2); 0: not there. */
static uint32_t number_of(const char *variable)
{
    const char *text = getenv(variable);
    long count = text != NULL ? strtol(text, NULL, 10) : 0;
    return count > 0 && count <= RANKS_MAX ? (uint32_t)count : 0;
}

bool launcher_has_ranks(void)
{
    return number_of("OMPI_COMM_WORLD_SIZE") > 1 || number_of("PMI_SIZE") > 1 || number_of("MPI_LOCALNRANKS") > 1 ||
           (getenv("PMIX_RANK") != NULL && number_of("SLURM_NTASKS") > 1);
}

uint32_t launcher_local_ranks(void)
{
    uint32_t count = number_of("OMPI_COMM_WORLD_LOCAL_SIZE");
    if (count == 0 && getenv("PMIX_RANK") != NULL) {
        count = number_of("SLURM_STEP_TASKS_PER_NODE");
    }
    return count > 0 ? count : 1;
}

uint32_t launcher_lone_tasks(void)
{
    uint32_t tasks = number_of("SLURM_STEP_NUM_TASKS");
    return tasks > 1 && getenv("SLURM_STEP_ID") != NULL && getenv("PMIX_RANK") == NULL && !launcher_has_ranks() ? tasks
                                                                                                                : 0;
}
