#include "sim/cli/plan_progress.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "sim/cli/interrupt.h"

enum { BAR_CELLS = 20 };
static const double SHARE_LEAST = 0.02; /* below it a rest is a guess */

void plan_progress_start(struct plan_progress *progress, bool quiet)
{
    *progress = (struct plan_progress){ 0 };
    ticker_start(&progress->ticker, quiet);
}

static void print_line(const struct plan_progress *progress, const struct planner_progress *at)
{
    double elapsed_s = ticker_elapsed_s(&progress->ticker), share = planner_progress_share(at);
    if (share > 0) {
        char bar[BAR_CELLS + 1];
        for (int i = 0; i < BAR_CELLS; i++) {
            bar[i] = i < share * BAR_CELLS ? '#' : '.';
        }
        bar[BAR_CELLS] = '\0';
        fprintf(stderr, " [%s] %.0f %%", bar, 100 * share);
    }
    if (at->total > 0) {
        fprintf(stderr, ", %" PRIu64 " of %" PRIu64, at->done, at->total);
    } else if (!(share > 0)) {
        fprintf(stderr, " %" PRIu64, at->done);
    }
    fprintf(stderr, ", %.0f s so far", elapsed_s);
    if (share > SHARE_LEAST) {
        fprintf(stderr, ", about %.0f s left of this", (elapsed_s - progress->began_s) * (1 - share) / share);
    }
    if (at->best_samples_per_s > 0) {
        fprintf(stderr, ", best %.5g samples/s", at->best_samples_per_s);
    }
}

bool plan_progress_show(void *context, const struct planner_progress *at)
{
    struct plan_progress *progress = context;
    if (progress->doing == NULL || strcmp(progress->doing, at->doing) != 0) {
        progress->doing = at->doing;
        progress->began_s = ticker_elapsed_s(&progress->ticker);
    }
    if (ticker_due(&progress->ticker)) {
        fprintf(stderr, "%smemwall: %s", ticker_begin(&progress->ticker), at->doing);
        print_line(progress, at);
        fputs(ticker_finish(&progress->ticker), stderr);
    }
    return !interrupt_seen();
}

double plan_progress_end(struct plan_progress *progress)
{
    double seconds = ticker_elapsed_s(&progress->ticker);
    ticker_end(&progress->ticker);
    return seconds;
}
