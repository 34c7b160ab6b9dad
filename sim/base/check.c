#include "sim/base/check.h"

#include <stdio.h>
#include <stdlib.h>

_Noreturn void check_failed(const char *expression, const char *file, int line)
{
    (void)fprintf(stderr, "%s:%d: internal error, please report: check failed: %s\n", file, line, expression);
    abort();
}
