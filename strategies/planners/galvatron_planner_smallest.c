/* When nothing fits: the smallest budget that would do, tried out. The cost model's figure alone may be too small by what it leaves out, so the search is run again with that much, and more, until a plan that it finds
 * fits by simulation. The figure is rounded up as it is printed before it is tried: who asks for it gets that plan. */
#include <math.h>
#include <stdlib.h>

#include "sim/base/check.h"
#include "sim/base/units.h"
#include "strategies/planners/galvatron_dp.h"
#include "strategies/planners/galvatron_planner_internal.h"

enum { RISES_MAX = 6, CUTS_MAX = 10 };
static const double RISE_LEAST = 1.01,
                    CLOSE_ENOUGH = 1.01; /* each time; of two budgets, one that does and one that does not */

/* A budget that was tried. */
struct attempt {
    double budget_bytes;
    bool fits;
    double next_bytes; /* what the leanest of its plans takes, or would by the cost model where there is none */
};

static double as_printed(double bytes)
{
    return planner_enough_gib(bytes) * GIB;
}

static enum status attempt_budget(struct galvatron_planning *s, const struct galvatron_task *task,
                                  struct oracle *oracle, double bytes, struct attempt *attempt, struct error *error)
{
    struct galvatron_task *again = calloc(1, sizeof *again);
    struct galvatron_shortlist list = { .budget_bytes = bytes };
    if (again == NULL) {
        return error_set(error, STATUS_NO_MEMORY, "out of memory planning");
    }
    *attempt = (struct attempt){ .budget_bytes = bytes };
    again->request = task->request;
    again->request.budget_mib = bytes / MIB;
    enum status status = galvatron_search(&again->request, &again->result, error);
    if (status == STATUS_OK && again->result.found) {
        status = galvatron_shortlist_make(s, again, oracle, &list, error);
    } else if (status == STATUS_OK) {
        attempt->next_bytes = again->result.smallest_budget_mib * MIB;
    }
    double least = INFINITY;
    for (uint32_t i = 0; status == STATUS_OK && i < list.count; i++) {
        const struct oracle_result *one = &list.entries[i].choice.simulated;
        attempt->fits = attempt->fits || oracle_fits(one, bytes);
        least = one->verdict == ORACLE_RAN ? fmin(least, (double)one->peak_bytes) : least;
    }
    attempt->next_bytes = isfinite(least) ? least : attempt->next_bytes;
    galvatron_result_free(&again->result);
    for (uint32_t k = 0; k < again->again_count; k++) {
        galvatron_result_free(&again->again[k]);
    }
    free(again);
    return status;
}

enum status galvatron_smallest_budget(struct galvatron_planning *s, const struct galvatron_task *task,
                                      struct oracle *oracle, double from_bytes, double *bytes, double *below_bytes,
                                      bool *confirmed, struct error *error)
{
    struct attempt attempt = { 0 };
    const double most_bytes = GALVATRON_DP_NO_FIT_MIB * MIB;
    double below = *below_bytes; /* the largest that did not do */
    *bytes = as_printed(from_bytes);
    *confirmed = false;
    for (int rise = 0; rise < RISES_MAX && !*confirmed && *bytes < most_bytes && !atomic_load(&s->stop); rise++) {
        TRY(attempt_budget(s, task, oracle, *bytes, &attempt, error));
        *confirmed = attempt.fits;
        if (!attempt.fits) {
            below = *bytes;
            *bytes = as_printed(fmax(attempt.next_bytes, *bytes * RISE_LEAST));
        }
    }
    double leaner = attempt.next_bytes; /* a plan of the budget that does takes no more */
    for (int cut = 0; cut < CUTS_MAX && *confirmed && below > 0 && *bytes > below * CLOSE_ENOUGH; cut++) {
        double half_way = (below + *bytes) / 2, next = leaner > below ? fmin(leaner, half_way) : half_way;
        TRY(attempt_budget(s, task, oracle, as_printed(next), &attempt, error));
        if (atomic_load(&s->stop)) {
            break;
        }
        *(attempt.fits ? bytes : &below) = attempt.budget_bytes;
        leaner = attempt.fits ? attempt.next_bytes : leaner;
    }
    *below_bytes = below;
    return STATUS_OK;
}
