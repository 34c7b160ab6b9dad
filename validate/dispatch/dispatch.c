#include "validate/dispatch/dispatch.h"

#include <time.h>

int64_t dispatch_clock_ps(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return ((int64_t)now.tv_sec * 1000000000 + now.tv_nsec) * 1000;
}
