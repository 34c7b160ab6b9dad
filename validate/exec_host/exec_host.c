/* The host executor. */
#include "sim/exec.h"

const struct executor *memwall_executor(void);

const struct executor *memwall_executor(void)
{
    return NULL;
}
