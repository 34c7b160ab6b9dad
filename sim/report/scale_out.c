#include "sim/report/scale_out.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "sim/base/check.h"
#include "sim/base/strbuf.h"
#include "sim/base/units.h"
#include "sim/report/sensitivity_trial.h"

enum { ROUNDS_MAX = 32, REFUSALS_NAMED = 12 };

static const double SECONDS_PER_DAY = 86400;

/* Replicas enough if nothing got slower by having more of them. */
static double fewest(const struct scale_need *need, double days)
{
    return fmax(1, ceil(days / need->days * (1 - 1e-12)));
}

static double days_of(const struct scale_need *need, double step_s, double tokens_per_step, double goodput)
{
    return ceil(need->tokens / tokens_per_step) * step_s / goodput / SECONDS_PER_DAY;
}

/* The per-layer degrees of a plan with `factor` times the replicas. */
static enum status widen_layers(struct plan *plan, const struct model *model, uint32_t factor, struct arena *arena,
                                struct error *error)
{
    plan->embedding.data *= factor;
    plan->head.data *= factor;
    if (plan->layers == NULL) {
        return STATUS_OK;
    }
    struct plan_layer *layers = arena_array(arena, struct plan_layer, (size_t)model->layers);
    if (layers == NULL) {
        return error_set(error, STATUS_NO_MEMORY, "out of memory");
    }
    for (int64_t i = 0; i < model->layers; i++) {
        layers[i] = plan->layers[i];
        layers[i].data *= factor;
    }
    plan->layers = layers;
    return STATUS_OK;
}

/* Simulates the scenario with `factor` times the replicas. */
static enum status try_factor(struct scale_option *option, const struct scenario *scenario,
                              const struct scale_need *need, uint32_t factor, bool grow, struct error *error)
{
    struct scenario wide = *scenario; /* borrows; nothing of it is freed */
    struct plan *plan = &wide.plan;
    struct arena arena = { 0 };
    struct trial_result result;
    plan->data *= factor;
    plan->fold = true; /* thousands of equal replicas: one of them says as much */
    if (grow) {
        plan->global_batch *= factor;
    } else {
        plan->micro_batches /= factor;
    }
    wide.cluster.gpus = scenario->cluster.gpus * factor;
    uint32_t servers = (wide.cluster.gpus + scenario->cluster.gpus_per_node - 1) / scenario->cluster.gpus_per_node;
    wide.cluster.nodes = servers > scenario->cluster.nodes ? servers : scenario->cluster.nodes;
    enum status status = widen_layers(plan, &wide.model, factor, &arena, error);
    if (status == STATUS_OK) {
        status = trial_run(&result, &wide, &wide.machine, &wide.software, error);
    }
    arena_free(&arena);
    if (status != STATUS_OK) {
        return status;
    }
    *option = (struct scale_option){ .factor = factor,
                                     .gpus = wide.cluster.gpus,
                                     .servers = wide.cluster.nodes,
                                     .data = plan->data,
                                     .global_batch = plan->global_batch };
    if (!result.ran || !result.fits) {
        (void)snprintf(option->reason, sizeof option->reason, "%u GPUs: %.200s", option->gpus,
                       result.ran ? "the step does not fit" : result.reason);
        return STATUS_OK;
    }
    option->simulated = true;
    option->step_s = s_from_ps(result.step_ps);
    option->goodput = need->goodput != NULL ? need->goodput(need->context, option->gpus) : 1;
    option->days = days_of(need, option->step_s, need->tokens_per_step * (grow ? factor : 1), option->goodput);
    option->meets = option->days <= need->days;
    return STATUS_OK;
}

static void too_many(struct scale_option *option, double gpus)
{
    (void)snprintf(option->reason, sizeof option->reason, "it would take about %.3g GPUs; up to %d are simulated", gpus,
                   SCALE_GPUS_MAX);
}

/* From below: each simulated step says how many replicas it would take at least. */
static enum status find_grown(struct scale_option *option, const struct scenario *scenario,
                              const struct scale_need *need, double days, struct error *error)
{
    double factor = fewest(need, days), gpus = scenario->cluster.gpus;
    for (int round = 0; round < ROUNDS_MAX; round++) {
        if (factor * gpus > SCALE_GPUS_MAX) {
            too_many(option, factor * gpus);
            return STATUS_OK;
        }
        TRY(try_factor(option, scenario, need, (uint32_t)factor, true, error));
        if (!option->simulated || option->meets) {
            return STATUS_OK;
        }
        factor = fmax(factor + 1, fewest(need, factor * option->days));
    }
    (void)snprintf(option->reason, sizeof option->reason, "more replicas hardly shorten it");
    return STATUS_OK;
}

/* Factors that do not run: why the first does not, and the GPUs of the others. */
struct refusals {
    char first[SCALE_REASON_BYTES];
    struct strbuf others; /* REFUSALS_NAMED of them */
    uint32_t count;       /* of the others */
};

static void note_refusal(struct refusals *refused, const struct scale_option *option)
{
    if (refused->first[0] == '\0') {
        memcpy(refused->first, option->reason, sizeof refused->first);
    } else if (refused->count++ < REFUSALS_NAMED) {
        strbuf_printf(&refused->others, "%s%u", refused->others.length > 0 ? ", " : "", option->gpus);
    }
}

static void tell_refusals(struct scale_option *best, const struct refusals *refused)
{
    char fastest[64] = "", more[32] = "";
    if (best->simulated) {
        (void)snprintf(fastest, sizeof fastest, "; the fastest that runs has %u GPUs", best->gpus);
    }
    if (refused->count > REFUSALS_NAMED) {
        (void)snprintf(more, sizeof more, " and %u more", refused->count - REFUSALS_NAMED);
    }
    bool others = refused->others.length > 0;
    (void)snprintf(best->reason, sizeof best->reason, "%.280s%s%.100s%s%s", refused->first,
                   others ? "; nor do these numbers of GPUs run: " : "", others ? refused->others.text : "", more,
                   fastest);
}

/* A factor that divides the micro-batches: the fastest is kept, the refusals too. */
static enum status try_divisor(struct scale_option *best, const struct scenario *scenario,
                               const struct scale_need *need, int64_t factor, struct refusals *refused,
                               struct error *error)
{
    struct scale_option option = { 0 };
    if (scenario->plan.micro_batches % factor != 0) {
        return STATUS_OK;
    }
    TRY(try_factor(&option, scenario, need, (uint32_t)factor, false, error));
    if (!option.simulated) {
        note_refusal(refused, &option);
    } else if (!best->simulated || option.days < best->days) {
        *best = option;
    }
    return STATUS_OK;
}

/* Divisors of the micro-batches, rising from `from`; then, where none runs, falling: how far it goes. */
static enum status try_divisors(struct scale_option *best, const struct scenario *scenario,
                                const struct scale_need *need, int64_t from, int64_t last, struct refusals *refused,
                                struct error *error)
{
    for (int64_t factor = from; factor <= last && !best->meets; factor++) {
        TRY(try_divisor(best, scenario, need, factor, refused, error));
    }
    for (int64_t factor = from - 1; factor >= 1 && !best->simulated; factor--) {
        TRY(try_divisor(best, scenario, need, factor, refused, error));
    }
    return STATUS_OK;
}

static enum status find_kept(struct scale_option *best, const struct scenario *scenario, const struct scale_need *need,
                             double days, struct error *error)
{
    int64_t micro_batches = scenario->plan.micro_batches, most = SCALE_GPUS_MAX / (int64_t)scenario->cluster.gpus;
    struct refusals refused = { 0 };
    int64_t last = 1;
    for (int64_t factor = 1; factor <= micro_batches && factor <= most; factor++) {
        last = micro_batches % factor == 0 ? factor : last;
    }
    int64_t from = (int64_t)fmin(fewest(need, days), (double)last);
    enum status status = try_divisors(best, scenario, need, from, last, &refused, error);
    if (status == STATUS_OK && !best->meets && refused.first[0] != '\0') {
        tell_refusals(best, &refused);
    } else if (status == STATUS_OK && !best->meets) {
        int64_t replicas = scenario->plan.data * last;
        (void)snprintf(best->reason, sizeof best->reason,
                       "a batch of %lld in micro-batches of %lld feeds at most %lld replica%s",
                       (long long)scenario->plan.global_batch, (long long)scenario->plan.micro_batch,
                       (long long)replicas, replicas == 1 ? "" : "s");
    }
    strbuf_free(&refused.others);
    return status;
}

enum status scale_out_find(struct scale_out *out, const struct scenario *scenario, const struct scale_need *need,
                           struct error *error)
{
    double goodput = need->goodput != NULL ? need->goodput(need->context, scenario->cluster.gpus) : 1;
    double days = days_of(need, need->step_s, need->tokens_per_step, goodput);
    *out = (struct scale_out){ 0 };
    if (scenario->plan.stage_replicas != NULL) {
        static const char REASON[] = "stages with replicas of their own (parallel.stage_replicas) are not scaled out";
        memcpy(out->grown.reason, REASON, sizeof REASON);
        memcpy(out->kept.reason, REASON, sizeof REASON);
        return STATUS_OK;
    }
    TRY(find_grown(&out->grown, scenario, need, days, error));
    return find_kept(&out->kept, scenario, need, days, error);
}
