#include "sim/report/remedy.h"

#include <stdlib.h>
#include <string.h>

#include "sim/base/check.h"
#include "sim/base/units.h"
#include "sim/report/fit_trial.h"
#include "sim/report/remedy_ladder.h"

/* A search is to take seconds: the simulator does some millions of ops a second. */
enum { TRIALS_MAX = 400, OPS_MAX = 20 * 1000 * 1000 };

struct search {
    const struct remedy_request *request;
    struct remedies *found;
    struct remedy_ladder ladder; /* scratch */
    uint64_t ops;
    struct error *error;
};

/* ---- one trial ---- */

struct load_context {
    const struct remedy_request *request;
    const struct remedy_sets *sets;
};

static enum status load(void *context, struct scenario *scenario, struct error *error)
{
    const struct load_context *from = context;
    const char *sets[REMEDY_SETS_MAX];
    for (uint32_t i = 0; i < from->sets->count; i++) {
        sets[i] = from->sets->items[i];
    }
    return from->request->load(from->request->context, scenario, sets, from->sets->count, error);
}

/* Keeps the fastest, fastest first; of equal ones the one found first. */
static void keep(struct remedies *found, const struct remedy *remedy)
{
    uint32_t at = 0;
    while (at < found->count && found->items[at].samples_per_s >= remedy->samples_per_s) {
        at++;
    }
    if (at == REMEDIES_MAX) {
        return;
    }
    found->count += found->count < REMEDIES_MAX;
    memmove(&found->items[at + 1], &found->items[at], (found->count - at - 1) * sizeof found->items[0]);
    found->items[at] = *remedy;
}

static enum status try_sets(struct search *s, const struct remedy_sets *base, const struct remedy_sets *more,
                            struct remedy *remedy, bool *fits)
{
    struct fit_trial *trial;
    *fits = false;
    if (s->found->tried >= TRIALS_MAX || s->ops >= OPS_MAX) {
        s->found->stopped = true;
        return STATUS_OK;
    }
    if ((trial = malloc(sizeof *trial)) == NULL) {
        return error_set(s->error, STATUS_NO_MEMORY, "out of memory looking for what would do");
    }
    remedy->sets = *base;
    remedy_add(&remedy->sets, more);
    struct load_context context = { s->request, &remedy->sets };
    enum status status = fit_trial_run_loaded(trial, load, &context, false, s->error);
    s->found->tried++;
    s->ops += trial->ops;
    *fits = status == STATUS_OK && trial->verdict == FIT_FITS;
    remedy->step_time_s = trial->step_time_s;
    remedy->samples_per_s = trial->samples_per_s;
    free(trial);
    return status;
}

/* The mildest rung of s->ladder that fits. Where even the strongest does not, the others are not tried, unless the ladder is uneven. */
static enum status climb(struct search *s, const struct remedy_sets *base, struct remedy *mildest, bool *fits)
{
    const struct remedy_ladder *ladder = &s->ladder;
    *fits = false;
    if (ladder->count > 1 && !ladder->uneven) {
        TRY(try_sets(s, base, &ladder->rungs[ladder->count - 1], mildest, fits));
        if (!*fits) {
            return STATUS_OK;
        }
    }
    *fits = false;
    for (uint32_t i = 0; i < ladder->count && !*fits; i++) {
        TRY(try_sets(s, base, &ladder->rungs[i], mildest, fits));
    }
    return STATUS_OK;
}

static enum status climb_and_keep(struct search *s, const struct remedy_sets *base)
{
    struct remedy mildest;
    bool fits;
    TRY(climb(s, base, &mildest, &fits));
    if (fits) {
        keep(s->found, &mildest);
    }
    return STATUS_OK;
}

/* ---- levels ---- */

/* The scenario with `sets`, from which ladders are made; false where it cannot be. */
static bool open_base(struct search *s, const struct remedy_sets *sets, struct scenario *scenario)
{
    struct load_context context = { s->request, sets };
    return load(&context, scenario, NULL) == STATUS_OK;
}

/* One change on top of `base`. */
static enum status change_once(struct search *s, const struct remedy_sets *base)
{
    struct scenario scenario;
    if (!open_base(s, base, &scenario)) {
        return STATUS_OK;
    }
    remedy_ladder_recompute(&scenario, &s->ladder);
    enum status status = climb_and_keep(s, base);
    remedy_ladder_micro_batch(&scenario, false, &s->ladder);
    status = status == STATUS_OK ? climb_and_keep(s, base) : status;
    for (uint32_t i = 0; status == STATUS_OK && remedy_ladder_setting(&scenario, i, false, &s->ladder); i++) {
        status = climb_and_keep(s, base);
    }
    scenario_free(&scenario);
    return status;
}

/* A ladder of one kind on top of `base`. */
static enum status change_by(struct search *s, const struct remedy_sets *base,
                             void (*make)(const struct scenario *scenario, struct remedy_ladder *ladder))
{
    struct scenario scenario;
    if (!open_base(s, base, &scenario)) {
        return STATUS_OK;
    }
    make(&scenario, &s->ladder);
    scenario_free(&scenario);
    return climb_and_keep(s, base);
}

static void fewer_samples(const struct scenario *scenario, struct remedy_ladder *ladder)
{
    remedy_ladder_micro_batch(scenario, true, ladder);
}

/* ---- several changes at once ---- */

/* Ladders that go together, each at a rung; 0: left as it is. The first are those that cost most. */
enum { SEVERAL_MAX = 32 };
struct several {
    struct remedy_ladder ladders[SEVERAL_MAX];
    uint32_t rungs[SEVERAL_MAX], count;
};

static void add_ladder(struct several *several, const struct remedy_ladder *ladder)
{
    if (ladder->count > 0 && several->count < SEVERAL_MAX) {
        several->rungs[several->count] = ladder->count;
        several->ladders[several->count++] = *ladder;
    }
}

static void sets_of(const struct several *several, struct remedy_sets *sets)
{
    sets->count = 0;
    for (uint32_t i = 0; i < several->count; i++) {
        if (several->rungs[i] > 0) {
            remedy_add(sets, &several->ladders[i].rungs[several->rungs[i] - 1]);
        }
    }
}

/* All at their strongest; one after the other goes back as far as the others allow. */
static enum status reduce(struct search *s, const struct remedy_sets *base, struct several *several)
{
    struct remedy_sets sets;
    struct remedy remedy;
    bool fits;
    sets_of(several, &sets);
    TRY(try_sets(s, base, &sets, &remedy, &fits));
    if (!fits) {
        return STATUS_OK;
    }
    struct remedy best = remedy;
    for (uint32_t i = 0; i < several->count; i++) {
        uint32_t strongest = several->rungs[i];
        for (several->rungs[i] = 0; several->rungs[i] < strongest; several->rungs[i]++) {
            sets_of(several, &sets);
            TRY(try_sets(s, base, &sets, &remedy, &fits));
            if (fits) {
                best = remedy;
                break;
            }
        }
    }
    keep(s->found, &best);
    return STATUS_OK;
}

/* `more`: a further ladder, or NULL. */
static enum status change_several(struct search *s, const struct remedy_sets *base,
                                  void (*more)(const struct scenario *scenario, struct remedy_ladder *ladder))
{
    struct scenario scenario;
    struct several *several = calloc(1, sizeof *several);
    if (several == NULL) {
        return error_set(s->error, STATUS_NO_MEMORY, "out of memory looking for what would do");
    }
    if (!open_base(s, base, &scenario)) {
        free(several);
        return STATUS_OK;
    }
    if (more != NULL) {
        more(&scenario, &s->ladder);
        add_ladder(several, &s->ladder);
    }
    remedy_ladder_recompute(&scenario, &s->ladder);
    add_ladder(several, &s->ladder);
    remedy_ladder_micro_batch(&scenario, false, &s->ladder);
    add_ladder(several, &s->ladder);
    for (uint32_t i = 0; remedy_ladder_setting(&scenario, i, true, &s->ladder); i++) {
        add_ladder(several, &s->ladder);
    }
    scenario_free(&scenario);
    enum status status = reduce(s, base, several);
    free(several);
    return status;
}

/* ---- all levels ---- */

/* The next policies' sets, mild to strong; how many. */
static uint32_t next_policies(struct search *s, struct remedy_sets policies[REMEDY_RUNGS_MAX])
{
    struct scenario scenario;
    const struct remedy_sets none = { .count = 0 };
    if (!open_base(s, &none, &scenario)) {
        return 0;
    }
    remedy_ladder_policy(&scenario, &s->ladder);
    scenario_free(&scenario);
    memcpy(policies, s->ladder.rungs, sizeof s->ladder.rungs);
    return s->ladder.count;
}

static enum status one_change(struct search *s, const struct remedy_sets *none)
{
    if (s->request->said[0] != '\0') {
        s->ladder = (struct remedy_ladder){ .count = 1 };
        remedy_set(&s->ladder.rungs[0], "%s", s->request->said);
        TRY(climb_and_keep(s, none));
    }
    return change_once(s, none);
}

static enum status search_levels(struct search *s)
{
    const struct remedy_sets none = { .count = 0 };
    struct remedy_sets policies[REMEDY_RUNGS_MAX];
    const struct remedies *found = s->found;
    TRY(one_change(s, &none));
    if (found->count == 0) {
        TRY(change_by(s, &none, fewer_samples));
    }
    if (found->count == 0) {
        TRY(change_several(s, &none, NULL));
        TRY(change_by(s, &none, remedy_ladder_policy));
    }
    uint32_t policy_count = found->count == 0 ? next_policies(s, policies) : 0;
    for (uint32_t i = 0; i < policy_count && found->count == 0; i++) {
        TRY(change_several(s, &policies[i], NULL));
    }
    if (found->count == 0) {
        TRY(change_by(s, &none, remedy_ladder_gpus));
    }
    if (found->count == 0) {
        TRY(change_several(s, &none, remedy_ladder_gpus));
    }
    for (uint32_t i = 0; i < policy_count && found->count == 0; i++) {
        TRY(change_several(s, &policies[i], remedy_ladder_gpus));
    }
    return STATUS_OK;
}

enum status remedies_find(const struct remedy_request *request, struct remedies *remedies, struct error *error)
{
    struct search *s = malloc(sizeof *s);
    *remedies = (struct remedies){ .has_looked = true };
    if (s == NULL) {
        return error_set(error, STATUS_NO_MEMORY, "out of memory looking for what would do");
    }
    *s = (struct search){ .request = request, .found = remedies, .error = error };
    enum status status = search_levels(s);
    free(s);
    return status;
}

/* ---- words ---- */

void remedies_text(const struct remedies *remedies, struct strbuf *out)
{
    if (!remedies->has_looked) {
        return;
    }
    if (remedies->count == 0) {
        strbuf_printf(
            out,
            "\nWhat would do: none of %u changes tried%s (settings of the policy, recomputation, micro-batch, "
            "policy, GPUs);\n  memwall plan searches other splits of the model, memwall fit the largest model "
            "or batch\n",
            remedies->tried, remedies->stopped ? ", when the search was stopped" : "");
        return;
    }
    strbuf_printf(out, "\nWhat would do (nearest of %u changes simulated, each to be added to the command line)\n",
                  remedies->tried);
    for (uint32_t i = 0; i < remedies->count; i++) {
        const struct remedy *remedy = &remedies->items[i];
        char time[32], rate[32];
        strbuf_append(out, " ");
        for (uint32_t k = 0; k < remedy->sets.count; k++) {
            strbuf_printf(out, " --set %s", remedy->sets.items[k]);
        }
        strbuf_printf(out, "\n      %s a step, %s samples/s\n",
                      text_time_ps(ps_nearest_s(remedy->step_time_s), time, sizeof time),
                      text_number(remedy->samples_per_s, 4, rate, sizeof rate));
    }
}

void remedies_json(const struct remedies *remedies, struct json_writer *w)
{
    if (!remedies->has_looked) {
        return;
    }
    jw_array(w, "would_do");
    for (uint32_t i = 0; i < remedies->count; i++) {
        const struct remedy *remedy = &remedies->items[i];
        jw_object(w, NULL);
        jw_array(w, "set");
        for (uint32_t k = 0; k < remedy->sets.count; k++) {
            jw_string(w, NULL, remedy->sets.items[k]);
        }
        jw_end(w);
        jw_real(w, "step_time_s", remedy->step_time_s);
        jw_real(w, "samples_per_s", remedy->samples_per_s);
        jw_end(w);
    }
    jw_end(w);
    jw_uint(w, "would_do_tried", remedies->tried);
}
