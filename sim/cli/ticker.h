/* When a long command tells how far it is, on standard error: nothing in the first second, then a line that is written over on a terminal, or one every two seconds into a file.
 *
 *     struct ticker ticker;
 *     ticker_start(&ticker, flags.quiet);
 *     ... if (ticker_due(&ticker)) { fprintf(stderr, "%s%u of %u%s", ticker_begin(&ticker), done, total, ticker_finish(&ticker)); } ...
 *     ticker_end(&ticker); */
#ifndef MEMWALL_CLI_TICKER_H
#define MEMWALL_CLI_TICKER_H

#include <stdbool.h>
#include <time.h>

struct ticker {
    struct timespec start, last;
    bool quiet, terminal, shown;
};

void ticker_start(struct ticker *ticker, bool quiet);
double ticker_elapsed_s(const struct ticker *ticker);
/* Whether a line is due; it counts as written then. */
bool ticker_due(struct ticker *ticker);
/* What a line begins with, and ends with: the rest of an older one is wiped. */
const char *ticker_begin(const struct ticker *ticker);
const char *ticker_finish(const struct ticker *ticker);
/* Wipes the last line from a terminal. */
void ticker_end(const struct ticker *ticker);

#endif
