/* The smallest budget that would do, found out by searching at it: a plan that fits into a budget is no proof that the search with this budget comes by it. */
#include <math.h>

#include "sim/base/check.h"
#include "sim/base/units.h"
#include "strategies/planners/mpress_attempts.h"

enum { TRIES_MAX = 4 };
#define STEP_UP 1.01 /* from one try to the next, twice as much each time */

static double as_printed(double bytes)
{
    return planner_enough_gib(bytes) * GIB;
}

static double peak_of(const struct mpress_case *c, const struct mpress_view *view)
{
    double most = 0;
    for (uint32_t s = 0; s < c->stages; s++) {
        most = fmax(most, view->peak_bytes[s]);
    }
    return most;
}

/* Whether the starts find a plan there. */
static enum status try_budget(const struct mpress_search *search, double bytes, bool *found, struct error *error)
{
    struct mpress_search trial = { .request = search->request, .answer = search->answer, .c = search->c };
    mpress_set_budget(&trial.c, bytes);
    enum status status = mpress_fits(&trial.c.unsaved) ? STATUS_OK : mpress_run_starts(&trial, error);
    const struct mpress_attempt *best = mpress_best_attempt(&trial, CLASS_COUNT);
    *found = mpress_fits(&trial.c.unsaved) || (best != NULL && mpress_fits(&best->view));
    mpress_attempts_free(&trial);
    return status;
}

/* What every search comes to in the end, and what it takes. */
static enum status try_all_away(const struct mpress_search *search, bool *host_fits, double *bytes, struct error *error)
{
    struct mpress_search trial = { .request = search->request, .answer = search->answer, .c = search->c };
    enum status status = mpress_run_all_away(&trial, error);
    if (status == STATUS_OK) {
        *host_fits = trial.attempts[0].view.result.host_fits;
        *bytes = as_printed(peak_of(&trial.c, &trial.attempts[0].view));
    }
    mpress_attempts_free(&trial);
    return status;
}

enum status mpress_smallest_budget(const struct mpress_search *search, double at_least, double *bytes,
                                   struct error *error)
{
    double most, next = as_printed(at_least), step = STEP_UP - 1;
    bool found = false, host_fits;
    *bytes = 0;
    TRY(try_all_away(search, &host_fits, &most, error));
    for (int i = 0; i < TRIES_MAX && !found && next < most && !search->answer->interrupted; i++) {
        TRY(try_budget(search, next, &found, error));
        *bytes = found ? next : 0;
        next = as_printed(next * (1 + step));
        step *= 2;
    }
    if (!found && host_fits && !search->answer->interrupted) {
        *bytes = most;
    }
    return STATUS_OK;
}
