#include "sim/cli/ticker.h"

#include <stdio.h>
#include <unistd.h>

static double seconds_since(const struct timespec *from)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)(now.tv_sec - from->tv_sec) + 1e-9 * (double)(now.tv_nsec - from->tv_nsec);
}

void ticker_start(struct ticker *ticker, bool quiet)
{
    *ticker = (struct ticker){ .quiet = quiet, .terminal = isatty(STDERR_FILENO) };
    (void)clock_gettime(CLOCK_MONOTONIC, &ticker->start);
    ticker->last = ticker->start;
}

double ticker_elapsed_s(const struct ticker *ticker)
{
    return seconds_since(&ticker->start);
}

bool ticker_due(struct ticker *ticker)
{
    if (ticker->quiet || seconds_since(&ticker->start) <= 1 ||
        seconds_since(&ticker->last) <= (ticker->terminal ? 0.2 : 2)) {
        return false;
    }
    (void)clock_gettime(CLOCK_MONOTONIC, &ticker->last);
    ticker->shown = true;
    return true;
}

const char *ticker_begin(const struct ticker *ticker)
{
    return ticker->terminal ? "\r" : "";
}

const char *ticker_finish(const struct ticker *ticker)
{
    return ticker->terminal ? "\033[K" : "\n";
}

void ticker_end(const struct ticker *ticker)
{
    if (ticker->shown && ticker->terminal) {
        fputs("\r\033[K", stderr);
    }
}
