/* Cost, verdict, rank; and what would change the order. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "sim/base/check.h"
#include "sim/buy/break_even.h"
#include "sim/buy/buy.h"

/* ---- money of a row ---- */

static bool may_rent(const struct question *q, const struct money *money)
{
    return q->pay != PAY_OWN && money->rented.missing == 0;
}

static bool may_own(const struct question *q, const struct money *money)
{
    return q->pay != PAY_RENT && money->owned.missing == 0;
}

static void choose_way(const struct question *q, struct buy_row *row)
{
    const struct money_way *way = money_cheaper(&row->money, q->pay != PAY_OWN, q->pay != PAY_RENT, &row->way);
    row->usd = way != NULL ? way->usd : 0;
}

enum status buy_money_at(const struct question *q, const struct buy_row *row, double step_s, struct money *money,
                         struct error *error)
{
    const double *figures = row->figures.figures;
    const struct money_job job = {
        .gpus = row->candidate->gpus,
        .servers = row->candidate->nodes,
        .step_s = step_s,
        .tokens_per_step = nearbyint(figures[FIGURE_tokens_per_s] * figures[FIGURE_step_time_s]),
        .goodput = q->goodput,
        .tokens = q->tokens,
    };
    return money_compute(money, &job, &row->candidate->prices, &q->terms, error);
}

void buy_cost_row(const struct question *q, struct buy_row *row)
{
    struct error error = { 0 };
    row->has_money = buy_money_at(q, row, row->figures.figures[FIGURE_step_time_s], &row->money, &error) == STATUS_OK;
    row->reason[0] = '\0';
    if (!row->has_money) {
        row->verdict = BUY_REFUSED;
        (void)snprintf(row->reason, sizeof row->reason, "%.480s", error.message);
        return;
    }
    choose_way(q, row);
    if (q->deadline_days > 0 && row->money.days > q->deadline_days) {
        row->verdict = BUY_LATE;
    } else if (row->way == NULL && (q->goal == GOAL_COST || q->budget_usd > 0)) {
        row->verdict = BUY_UNPRICED;
    } else if (q->budget_usd > 0 && row->usd > q->budget_usd) {
        row->verdict = BUY_DEAR;
    } else {
        row->verdict = BUY_MEETS;
    }
}

/* ---- rank ---- */

/* Whether `a` comes before `b`. Ties: the question's order. */
static bool comes_before(const struct question *q, const struct buy_row *a, const struct buy_row *b)
{
    if (a->verdict != b->verdict) {
        return a->verdict < b->verdict;
    }
    if (a->has_money && b->has_money) {
        double cost_a = a->way != NULL ? a->usd : INFINITY, cost_b = b->way != NULL ? b->usd : INFINITY;
        double first_a = q->goal == GOAL_COST ? cost_a : a->money.days,
               first_b = q->goal == GOAL_COST ? cost_b : b->money.days,
               then_a = q->goal == GOAL_COST ? a->money.days : cost_a,
               then_b = q->goal == GOAL_COST ? b->money.days : cost_b;
        if (first_a < first_b || first_b < first_a) {
            return first_a < first_b;
        }
        if (then_a < then_b || then_b < then_a) {
            return then_a < then_b;
        }
    }
    return a->candidate < b->candidate;
}

static void sort_rows(struct buy_answer *answer)
{
    for (uint32_t i = 1; i < answer->row_count; i++) {
        struct buy_row row = answer->rows[i];
        uint32_t at = i;
        while (at > 0 && comes_before(answer->question, &row, &answer->rows[at - 1])) {
            answer->rows[at] = answer->rows[at - 1];
            at--;
        }
        answer->rows[at] = row;
    }
}

/* ---- what would change the order ---- */

static void change(struct buy_row *row, enum buy_change_kind kind, double now, double then)
{
    if (isfinite(then) && then > 0) {
        row->changes[kind] = (struct buy_change){ .now = isfinite(now) ? now : 0, .then = then, .known = true };
    }
}

static double gpu_hours(const struct buy_row *row)
{
    return row->money.job.gpus * row->money.days * 24;
}

/* What of a server's price this job bears. */
static double server_shares(const struct buy_row *row)
{
    return row->money.owned.missing == 0
               ? row->money.owned.hardware_usd / row->money.prices.system_usd.value
               : row->money.job.servers * row->money.days / money_life_days(&row->money.terms);
}

/* The row's own prices at which it costs `target`. */
static void own_prices(const struct question *q, struct buy_row *row, double target)
{
    const struct money *m = &row->money;
    double rent = target / gpu_hours(row), now = m->prices.usd_per_gpu_hour.value;
    if (q->pay != PAY_OWN && (!(now > 0) || rent < now)) {
        change(row, CHANGE_GPU_HOUR, now, rent);
    }
    double electricity = m->energy_kwh * m->terms.electricity_usd_per_kwh; /* not a number: not known */
    double server = (target - electricity) / server_shares(row);
    now = m->prices.system_usd.value;
    if (q->pay != PAY_RENT && (!(now > 0) || server < now)) {
        change(row, CHANGE_SYSTEM_USD, now, server);
    }
}

/* The price of the first at which it costs as much as `row`: where it cannot change to its other way below that. */
static void prices_of_first(const struct question *q, struct buy_row *row, const struct buy_row *first)
{
    const struct money *m = &first->money;
    bool rented = strcmp(first->way, "rented") == 0;
    if (rented && !(may_own(q, m) && m->owned.usd < row->usd)) {
        change(row, CHANGE_FIRST_GPU_HOUR, m->prices.usd_per_gpu_hour.value, row->usd / gpu_hours(first));
    }
    if (!rented && !(may_rent(q, m) && m->rented.usd < row->usd)) {
        change(row, CHANGE_FIRST_SYSTEM_USD, m->prices.system_usd.value,
               (row->usd - m->owned.electricity_usd) / server_shares(first));
    }
}

static struct cost_ways ways_of(const struct question *q, const struct buy_row *row, enum buy_change_kind kind)
{
    const struct money *m = &row->money;
    struct cost_ways ways = { 0 };
    if (may_rent(q, m)) {
        ways.lines[ways.count++] = (struct cost_line){ m->rented.usd, 0 };
    }
    if (may_own(q, m)) { /* hardware goes with 1 / utilisation */
        ways.lines[ways.count++] =
            kind == CHANGE_ELECTRICITY
                ? (struct cost_line){ m->owned.hardware_usd, m->energy_kwh }
                : (struct cost_line){ m->owned.electricity_usd, m->owned.hardware_usd * m->terms.utilisation };
    }
    return ways;
}

/* Electricity and utilisation, which are the same for all. */
static void common_terms(const struct question *q, struct buy_row *row, const struct cost_ways *first_electricity,
                         const struct cost_ways *first_utilisation)
{
    const struct money_range kwh = money_range_of(MONEY_LIMIT_ELECTRICITY),
                             share = money_range_of(MONEY_LIMIT_UTILISATION);
    double x, now = row->money.terms.electricity_usd_per_kwh, busy = row->money.terms.utilisation;
    struct cost_ways ways = ways_of(q, row, CHANGE_ELECTRICITY);
    if (!isnan(now) && break_even(first_electricity, &ways, now, kwh.least, kwh.most, &x)) {
        change(row, CHANGE_ELECTRICITY, now, x);
    }
    ways = ways_of(q, row, CHANGE_UTILISATION);
    if (break_even(first_utilisation, &ways, 1 / busy, 1 / share.most, 1 / share.least, &x)) {
        change(row, CHANGE_UTILISATION, busy, 1 / x);
    }
}

static void find_changes(const struct buy_answer *answer, struct buy_row *row, const struct buy_row *first)
{
    const struct question *q = answer->question;
    double step = row->money.job.step_s, days = row->money.days;
    const struct cost_ways budget = { .lines = { { q->budget_usd, 0 } }, .count = 1 };
    switch (row->verdict) {
    case BUY_MEETS:
        CHECK(first != NULL); /* one that meets the need is the first */
        if (q->goal == GOAL_TIME) {
            change(row, CHANGE_STEP, step, step * first->money.days / days);
        } else {
            struct cost_ways electricity = ways_of(q, first, CHANGE_ELECTRICITY),
                             utilisation = ways_of(q, first, CHANGE_UTILISATION);
            own_prices(q, row, first->usd);
            prices_of_first(q, row, first);
            common_terms(q, row, &electricity, &utilisation);
            change(row, CHANGE_STEP, step, step * first->usd / row->usd);
        }
        break;
    case BUY_LATE:
        change(row, CHANGE_DEADLINE, q->deadline_days, days);
        change(row, CHANGE_STEP, step, step * q->deadline_days / days);
        break;
    case BUY_DEAR:
        own_prices(q, row, q->budget_usd);
        common_terms(q, row, &budget, &budget);
        change(row, CHANGE_STEP, step, step * q->budget_usd / row->usd);
        change(row, CHANGE_BUDGET, q->budget_usd, row->usd);
        break;
    case BUY_UNPRICED:
        if (first != NULL && q->goal == GOAL_COST) {
            own_prices(q, row, first->usd);
        } else if (q->budget_usd > 0) {
            own_prices(q, row, q->budget_usd);
        }
        break;
    case BUY_DOES_NOT_FIT:
    case BUY_REFUSED:
    case BUY_NOT_REACHED:
    case BUY_VERDICT_COUNT: break;
    }
}

/* ---- reasons ---- */

static void reason_of_meeting(const struct buy_answer *answer, struct buy_row *row, const struct buy_row *first)
{
    const struct question *q = answer->question;
    if (row == first) {
        (void)snprintf(row->reason, sizeof row->reason, "%s of %u that meet%s the need",
                       q->goal == GOAL_COST ? "the cheapest" : "the fastest", answer->meeting,
                       answer->meeting == 1 ? "s" : "");
    } else if (row->usd == first->usd && row->money.days == first->money.days) {
        (void)snprintf(row->reason, sizeof row->reason,
                       "costs and takes as much as number 1, which the question has first");
    } else if (q->goal == GOAL_TIME) {
        (void)snprintf(row->reason, sizeof row->reason, "takes %.3g times as long as number 1",
                       row->money.days / first->money.days);
    } else {
        double hours = gpu_hours(row) / gpu_hours(first), cost = row->usd / first->usd;
        (void)snprintf(row->reason, sizeof row->reason,
                       "costs %.3g times as much as number 1: %.3g times the GPU-hours at %.3g times the cost of one",
                       cost, hours, cost / hours);
    }
}

static void unpriced_reason(const struct question *q, struct buy_row *row)
{
    const struct money *m = &row->money;
    char rent[64], own[160]; /* three keys at most */
    (void)money_missing_text(m->rented.missing, true, rent, sizeof rent);
    (void)money_missing_text(m->owned.missing, true, own, sizeof own);
    if (q->pay == PAY_CHEAPER) {
        (void)snprintf(row->reason, sizeof row->reason, "%s has no price: to rent it say %s; to own it %s",
                       m->prices.machine, rent, own);
    } else {
        (void)snprintf(row->reason, sizeof row->reason, "%s has no price: say %s", m->prices.machine,
                       q->pay == PAY_RENT ? rent : own);
    }
}

static void give_reason(const struct buy_answer *answer, struct buy_row *row, const struct buy_row *first)
{
    const struct question *q = answer->question;
    char a[48], b[48];
    switch (row->verdict) {
    case BUY_MEETS:
        CHECK(first != NULL);
        reason_of_meeting(answer, row, first);
        break;
    case BUY_LATE:
        (void)snprintf(row->reason, sizeof row->reason, "%s, wanted in %s%s",
                       money_days_text(row->money.days, a, sizeof a), money_days_text(q->deadline_days, b, sizeof b),
                       first != NULL && first->way != NULL && row->way != NULL && row->usd < first->usd
                           ? "; it would cost less than number 1"
                           : "");
        break;
    case BUY_DEAR:
        (void)snprintf(row->reason, sizeof row->reason, "%s, %s are there", money_usd_text(row->usd, a, sizeof a),
                       money_usd_text(q->budget_usd, b, sizeof b));
        break;
    case BUY_UNPRICED: unpriced_reason(q, row); break;
    case BUY_DOES_NOT_FIT:
    case BUY_REFUSED:
    case BUY_NOT_REACHED:
    case BUY_VERDICT_COUNT: break;
    }
}

void buy_order(struct buy_answer *answer)
{
    sort_rows(answer);
    answer->meeting = 0;
    while (answer->meeting < answer->row_count && answer->rows[answer->meeting].verdict == BUY_MEETS) {
        answer->meeting++;
    }
    const struct buy_row *first = answer->meeting > 0 ? &answer->rows[0] : NULL;
    for (uint32_t i = 0; i < answer->row_count; i++) {
        struct buy_row *row = &answer->rows[i];
        memset(row->changes, 0, sizeof row->changes);
        give_reason(answer, row, first);
        if (row != first && row->has_money) {
            find_changes(answer, row, first);
        }
    }
}
