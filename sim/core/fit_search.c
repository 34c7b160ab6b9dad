/* Bisection over an oracle. */
#include "sim/core/fit_search.h"

#include <stdlib.h>

#include "sim/base/check.h"

/* A search under way: what is known of each candidate. */
struct state {
    const struct fit_search *search;
    uint8_t *verdicts; /* enum fit_verdict [count] */
    uint32_t trials;
    struct error *error;
};

const char *fit_verdict_word(enum fit_verdict verdict)
{
    static const char *const words[] = {
        [FIT_UNTRIED] = "untried", [FIT_FITS] = "fits", [FIT_TOO_BIG] = "does not fit", [FIT_REFUSED] = "refused"
    };
    return words[verdict];
}

static enum status ask(struct state *s, uint32_t candidate, enum fit_verdict *verdict)
{
    *verdict = (enum fit_verdict)s->verdicts[candidate];
    if (*verdict == FIT_UNTRIED) {
        TRY(s->search->oracle(s->search->context, candidate, verdict, s->error));
        CHECK(*verdict != FIT_UNTRIED);
        s->verdicts[candidate] = (uint8_t)*verdict;
        s->trials++;
    }
    return STATUS_OK;
}

/* The nearest candidate to `start` within [low, high] that is not refused, upward first, then downward; *found is false when there is none. */
static enum status ask_near(struct state *s, uint32_t low, uint32_t high, uint32_t start, uint32_t *candidate,
                            bool *found, enum fit_verdict *verdict)
{
    *found = false;
    for (uint32_t i = start; i <= high && !*found; i++) {
        TRY(ask(s, i, verdict));
        *found = *verdict != FIT_REFUSED;
        *candidate = i;
    }
    for (uint32_t i = start; i > low && !*found; i--) {
        TRY(ask(s, i - 1, verdict));
        *found = *verdict != FIT_REFUSED;
        *candidate = i - 1;
    }
    return STATUS_OK;
}

static enum status scan(struct state *s)
{
    enum fit_verdict verdict;
    for (uint32_t i = 0; i < s->search->count; i++) {
        TRY(ask(s, i, &verdict));
    }
    return STATUS_OK;
}

/* `low` fits, `high` does not: narrow until only refused ones lie between. */
static enum status bisect(struct state *s, uint32_t low, uint32_t high)
{
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        enum fit_verdict verdict;
        bool found;
        TRY(ask_near(s, low + 1, high - 1, middle, &middle, &found, &verdict));
        if (!found) {
            break;
        }
        if (verdict == FIT_FITS) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return STATUS_OK;
}

static enum status search_list(struct state *s)
{
    uint32_t count = s->search->count, first = 0, last = 0;
    enum fit_verdict low, high;
    bool found;
    if (s->search->all) {
        return scan(s);
    }
    TRY(ask_near(s, 0, count - 1, 0, &first, &found, &low));
    if (!found) {
        return STATUS_OK;
    }
    do { /* from above down to `first`, which is not refused */
        last = last == 0 ? count - 1 : last - 1;
        TRY(ask(s, last, &high));
    } while (high == FIT_REFUSED);
    if (low == FIT_FITS && high == FIT_TOO_BIG) {
        return bisect(s, first, last);
    }
    return low == FIT_TOO_BIG ? scan(s) : STATUS_OK;
}

/* Doubling steps; a refused candidate is the end of the range. */
static enum status search_gallop(struct state *s)
{
    uint32_t low = 0, next = 0, count = s->search->count;
    enum fit_verdict verdict = FIT_FITS;
    TRY(ask(s, 0, &verdict));
    while (verdict == FIT_FITS && low + 1 < count) {
        next = low < count / 2 ? 2 * low + 1 : count - 1;
        TRY(ask(s, next, &verdict));
        low = verdict == FIT_FITS ? next : low;
    }
    while (verdict != FIT_FITS && next - low > 1) { /* `low` fits, `next` does not or is beyond the range */
        uint32_t middle = low + (next - low) / 2;
        enum fit_verdict at;
        TRY(ask(s, middle, &at));
        *(at == FIT_FITS ? &low : &next) = middle;
    }
    return STATUS_OK;
}

static void conclude(const struct state *s, struct fit_outcome *outcome)
{
    const struct fit_search *search = s->search;
    outcome->trials = s->trials;
    outcome->all_refused = true;
    for (uint32_t i = 0; i < search->count; i++) {
        if (s->verdicts[i] == FIT_FITS) {
            outcome->any = true;
            outcome->largest = i;
        }
        outcome->all_refused = outcome->all_refused && (s->verdicts[i] == FIT_REFUSED || s->verdicts[i] == FIT_UNTRIED);
    }
    for (uint32_t i = search->count; i-- > 0;) {
        if (s->verdicts[i] == FIT_TOO_BIG && (!outcome->any || i > outcome->largest)) {
            outcome->has_next = true;
            outcome->next = i;
        }
        outcome->not_monotone =
            outcome->not_monotone || (s->verdicts[i] == FIT_TOO_BIG && outcome->any && i < outcome->largest);
    }
}

enum status fit_search_run(const struct fit_search *search, struct fit_outcome *outcome, struct error *error)
{
    CHECK(search->count > 0 && search->count <= FIT_CANDIDATES_MAX && search->oracle != NULL);
    struct state state = { .search = search, .error = error };
    *outcome = (struct fit_outcome){ 0 };
    state.verdicts = calloc(search->count, sizeof *state.verdicts);
    if (state.verdicts == NULL) {
        return error_set(error, STATUS_NO_MEMORY, "out of memory searching what fits");
    }
    enum status status = search->gallop ? search_gallop(&state) : search_list(&state);
    conclude(&state, outcome);
    free(state.verdicts);
    return status;
}
