/* Which machine to buy or rent: every candidate of a question with its best plan, what it takes and costs, ranked, with what would change the order.
 *
 * A candidate's plan is the planner's; the scenario made of it is then simulated in full (as `memwall run` would), so that every row can be repeated from its scenario. Rows are ranked: first those
 * that meet the need, by cost (or by time), then those that are late, above the budget, without a price, and last those that do not fit or are refused; each has its reason. Answers are the same
 * whatever the number of threads.
 *
 *     TRY(question_load(&question, "question.json", error));
 *     TRY(buy_run(&answer, &question, &options, error));
 *     buy_text(&answer, &out);
 *     buy_free(&answer);  question_free(&question); */
#ifndef MEMWALL_BUY_BUY_H
#define MEMWALL_BUY_BUY_H

#include "sim/buy/question.h"
#include "sim/sweep/sweep_row.h"

/* name, JSON word, for people; in the order of the ranking */
#define BUY_VERDICT_TABLE(X)                                                                                           \
    X(BUY_MEETS, "meets", "meets the need")                                                                            \
    X(BUY_LATE, "late", "late")                                                                                        \
    X(BUY_DEAR, "above_budget", "above the budget")                                                                    \
    X(BUY_UNPRICED, "unpriced", "no price")                                                                            \
    X(BUY_DOES_NOT_FIT, "does_not_fit", "does not fit")                                                                \
    X(BUY_REFUSED, "refused", "refused")                                                                               \
    X(BUY_NOT_REACHED, "not_reached", "not reached")

enum buy_verdict {
#define X(name, word, text) name,
    BUY_VERDICT_TABLE(X)
#undef X
        BUY_VERDICT_COUNT
};

/* What would change the order. name, JSON word, unit; what follows the figure for people, where that has its USD itself: NULL: the unit */
#define BUY_CHANGE_TABLE(X)                                                                                            \
    X(CHANGE_GPU_HOUR, "usd_per_gpu_hour", "USD a GPU-hour", NULL)                                                     \
    X(CHANGE_SYSTEM_USD, "system_usd", "USD a server", " a server")                                                    \
    X(CHANGE_FIRST_GPU_HOUR, "first_usd_per_gpu_hour", "USD a GPU-hour of number 1", NULL)                             \
    X(CHANGE_FIRST_SYSTEM_USD, "first_system_usd", "USD a server of number 1", " a server of number 1")                \
    X(CHANGE_ELECTRICITY, "electricity_usd_per_kwh", "USD a kWh", NULL)                                                \
    X(CHANGE_UTILISATION, "utilisation", "of the life of owned servers", NULL)                                         \
    X(CHANGE_STEP, "step_time_s", "s a step", NULL)                                                                    \
    X(CHANGE_DEADLINE, "deadline_days", "days", NULL)                                                                  \
    X(CHANGE_BUDGET, "budget_usd", "USD", "")

enum buy_change_kind {
#define X(name, word, unit, after) name,
    BUY_CHANGE_TABLE(X)
#undef X
        BUY_CHANGE_COUNT
};

struct buy_change {
    double now, then; /* 0 in `now`: not known today */
    bool
        known; /* it exists: with `then`, all else equal, this row would be number 1 (late rows and those above the budget: would meet the need) */
};

enum { BUY_REASON_BYTES = 512 };

struct buy_row {
    const struct candidate *candidate;
    enum buy_verdict verdict;
    char reason[BUY_REASON_BYTES];
    bool has_figures, has_money; /* it was simulated; it was costed */
    char plan[64];               /* strategy of the first layer, "8-8-1-s" (pipeline-tensor-data, planner.h) */
    int64_t micro_batch;
    struct sweep_row figures; /* of the scenario, as a sweep would have them */
    struct money money;
    const char *way; /* "rented", "owned": what it is ranked by; NULL: no price is known */
    double usd;
    char *scenario; /* text, owned by the answer */
    /* At the 5th and 95th percentile of the step time; has_interval: draws were asked for, the machine's constants carry standard errors, and a way of paying is known */
    bool has_interval, lacks_errors; /* lacks_errors: draws were asked for, and no constant of the machine has one */
    double low_days, high_days, low_usd, high_usd;
    struct buy_change changes[BUY_CHANGE_COUNT];
};

struct buy_answer {
    const struct question *question; /* borrowed */
    struct buy_row *rows;            /* [row_count], ranked */
    uint32_t row_count, meeting;     /* that meet the need: the first ones */
    bool interrupted;
    struct arena arena;
};

struct buy_options {
    uint32_t threads; /* >= 1 */
    uint32_t draws;   /* of uncertain constants (uncertainty.h), for an interval on time and cost; 0: none */
    /* From the calling thread: candidate `index` of `count` is at `planning` (NULL: about to begin). False: stop. NULL: nobody listens. */
    bool (*progress)(void *context, uint32_t index, uint32_t count, const struct candidate *candidate,
                     const struct planner_progress *planning);
    void *context;
};

/* Errors: lack of memory and faults of the program; what is wrong with a candidate is its row. */
enum status buy_run(struct buy_answer *answer, const struct question *question, const struct buy_options *options,
                    struct error *error);
void buy_free(struct buy_answer *answer);

/* buy_order.c: cost, verdict, rank, reasons and changes of rows whose figures and scenarios are known. */
void buy_order(struct buy_answer *answer);
/* Money of a row at another step time than its own. */
enum status buy_money_at(const struct question *question, const struct buy_row *row, double step_s, struct money *money,
                         struct error *error);
/* Money and verdict of one row with figures: reads step time and tokens a second. */
void buy_cost_row(const struct question *question, struct buy_row *row);

/* One JSON document ("memwall.buy/1"), text for people. */
void buy_json(const struct buy_answer *answer, struct strbuf *out);
void buy_text(const struct buy_answer *answer, struct strbuf *out);

#endif
