#include "sim/report/uncertainty.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/check.h"
#include "sim/base/units.h"
#include "sim/core/quantile.h"

/* Parts of a machine file (and the software) that a step's time rests on. */
static const char *const GROUPS[] = {
    "gpu.hbm_GBps",
    "kernel_model.gemm",
    "kernel_model.attention",
    "kernel_model.class_efficiency",
    "latency",
    "links",
    "collectives",
    "nccl",
    "network",
    "host",
    "software",
};
_Static_assert(sizeof GROUPS / sizeof GROUPS[0] <= UNCERTAINTY_GROUPS_MAX, "raise UNCERTAINTY_GROUPS_MAX");

/* The fraction of the square root of the k-th prime, from 2. */
static double root_of_prime(uint32_t k)
{
    uint32_t prime = 2;
    for (uint32_t found = 0;; prime++) {
        bool divides = false;
        for (uint32_t d = 2; d * d <= prime && !divides; d++) {
            divides = prime % d == 0;
        }
        found += !divides;
        if (found == k + 1) {
            break;
        }
    }
    double whole;
    return modf(sqrt(prime), &whole);
}

static double point_of(double root, uint32_t i)
{
    double whole;
    return modf(0.5 + (i + 1.0) * root, &whole);
}

double uncertainty_point(uint32_t k, uint32_t i)
{
    return point_of(root_of_prime(k), i);
}

double uncertainty_normal(double p)
{
    double low = -40, high = 40;
    CHECK(p > 0 && p < 1);
    for (int i = 0; i < 100; i++) {
        double x = (low + high) / 2;
        if (0.5 * erfc(-x * sqrt(0.5)) < p) {
            low = x;
        } else {
            high = x;
        }
    }
    return (low + high) / 2;
}

struct draws {
    const struct scenario *scenario;
    uint32_t *errors; /* of known fields: places in the machine's standard_errors */
    double *roots;    /* root_of_prime of each dimension */
    uint32_t dimensions;
    struct trial_result *results; /* [1 + draws]: first the machine as it is */
    enum status *statuses;
};

static void draw_one(void *context, uint32_t index)
{
    const struct draws *d = context;
    const struct scenario *scenario = d->scenario;
    struct scaled_machine copy;
    enum status status = machine_copy(&copy, &scenario->machine, &scenario->software, NULL);
    if (status == STATUS_OK) {
        for (uint32_t k = 0; index > 0 && k < d->dimensions; k++) {
            double u = fmax(0x1p-53, point_of(d->roots[k], index - 1));
            const struct machine_standard_error *known = &scenario->machine.standard_errors[d->errors[k]];
            (void)uncertainty_shift(&copy.machine, known->field, uncertainty_normal(u) * known->value);
        }
        status = trial_run(&d->results[index], scenario, &copy.machine, &copy.software, NULL);
        scaled_machine_free(&copy);
    }
    d->statuses[index] = status;
}

static void name_certain(struct uncertainty *u, const struct machine *machine)
{
    for (size_t g = 0; g < sizeof GROUPS / sizeof GROUPS[0]; g++) {
        bool known = false;
        for (uint32_t i = 0; i < machine->standard_error_count && !known; i++) {
            known = strncmp(machine->standard_errors[i].field, GROUPS[g], strlen(GROUPS[g])) == 0;
        }
        if (!known) {
            u->certain[u->certain_count++] = GROUPS[g];
        }
    }
}

static enum status list_fields(struct draws *d, struct uncertainty *u, struct error *error)
{
    const struct machine *machine = &d->scenario->machine;
    struct scaled_machine copy;
    TRY(machine_copy(&copy, machine, &d->scenario->software, error));
    for (uint32_t i = 0; i < machine->standard_error_count; i++) {
        if (uncertainty_shift(&copy.machine, machine->standard_errors[i].field, 0)) {
            d->errors[d->dimensions++] = i;
        } else {
            u->unused++;
        }
    }
    scaled_machine_free(&copy);
    u->constants = d->dimensions;
    return d->dimensions > 0
               ? STATUS_OK
               : error_set(error, STATUS_BAD_INPUT,
                           "machine \"%s\" has no standard_errors: nothing says how sure its constants are. "
                           "memwall calibrate writes them; dgx-a100-80gb, dgx-h100, dgx-b200 have some",
                           machine->name);
}

static enum status sum_up(struct uncertainty *u, const struct draws *d, struct error *error)
{
    double *steps = calloc(u->draws, sizeof *steps), sum = 0, square = 0;
    if (steps == NULL) {
        return error_set(error, STATUS_NO_MEMORY, "out of memory");
    }
    for (uint32_t i = 1; i <= u->draws; i++) {
        if (d->results[i].ran) {
            steps[u->ran++] = s_from_ps(d->results[i].step_ps);
            u->fits += d->results[i].fits;
        }
    }
    u->base_s = s_from_ps(d->results[0].step_ps);
    if (!d->results[0].ran || u->ran == 0) {
        free(steps);
        return error_set(error, STATUS_BAD_INPUT, "the step cannot be simulated: %s", d->results[0].reason);
    }
    quantile_sort(steps, u->ran);
    u->low_s = quantile_of(steps, u->ran, 0.05);
    u->median_s = quantile_of(steps, u->ran, 0.5);
    u->high_s = quantile_of(steps, u->ran, 0.95);
    for (uint32_t i = 0; i < u->ran; i++) {
        sum += steps[i];
    }
    u->mean_s = sum / u->ran;
    for (uint32_t i = 0; i < u->ran; i++) {
        square += (steps[i] - u->mean_s) * (steps[i] - u->mean_s);
    }
    u->deviation_s = u->ran > 1 ? sqrt(square / (u->ran - 1.0)) : 0;
    free(steps);
    return STATUS_OK;
}

enum status uncertainty_compute(struct uncertainty *u, const struct scenario *scenario, uint32_t count,
                                uint32_t threads, void (*progress)(void *context, uint32_t done, uint32_t total),
                                void *progress_context, struct error *error)
{
    struct draws d = { .scenario = scenario };
    struct arena arena = { 0 };
    enum status status = STATUS_OK;
    *u = (struct uncertainty){ .draws = count };
    if (count < UNCERTAINTY_DRAWS_MIN || count > UNCERTAINTY_DRAWS_MAX) {
        return error_set(error, STATUS_BAD_INPUT, "%u draws; from %d to %d are allowed", count, UNCERTAINTY_DRAWS_MIN,
                         UNCERTAINTY_DRAWS_MAX);
    }
    d.errors = arena_array(&arena, uint32_t, scenario->machine.standard_error_count + (size_t)1);
    d.roots = arena_array(&arena, double, scenario->machine.standard_error_count + (size_t)1);
    d.results = arena_array(&arena, struct trial_result, count + (size_t)1);
    d.statuses = arena_array(&arena, enum status, count + (size_t)1);
    if (d.errors == NULL || d.roots == NULL || d.results == NULL || d.statuses == NULL) {
        status = error_set(error, STATUS_NO_MEMORY, "out of memory: %u draws", count);
        goto fail;
    }
    TRY_OR_FAIL(list_fields(&d, u, error));
    for (uint32_t k = 0; k < d.dimensions; k++) {
        d.roots[k] = root_of_prime(k);
    }
    name_certain(u, &scenario->machine);
    trials_parallel(threads, count + 1, draw_one, &d, progress, progress_context);
    for (uint32_t i = 0; i <= count; i++) {
        if (d.statuses[i] != STATUS_OK) {
            status = error_set(error, d.statuses[i], "draw %u: %s", i, status_word(d.statuses[i]));
            goto fail;
        }
    }
    TRY_OR_FAIL(sum_up(u, &d, error));
fail:
    arena_free(&arena);
    return status;
}

void uncertainty_json(const struct uncertainty *u, struct json_writer *w)
{
    jw_object(w, "uncertainty");
    jw_uint(w, "draws", u->draws);
    jw_uint(w, "ran", u->ran);
    jw_uint(w, "fit", u->fits);
    jw_uint(w, "constants", u->constants);
    jw_uint(w, "errors_not_used", u->unused);
    jw_real(w, "step_time_s", u->base_s);
    jw_object(w, "step_time_interval_s");
    jw_real(w, "p5", u->low_s);
    jw_real(w, "p50", u->median_s);
    jw_real(w, "p95", u->high_s);
    jw_end(w);
    jw_real(w, "mean_s", u->mean_s);
    jw_real(w, "standard_deviation_s", u->deviation_s);
    jw_array(w, "without_known_error");
    for (uint32_t i = 0; i < u->certain_count; i++) {
        jw_string(w, NULL, u->certain[i]);
    }
    jw_end(w);
    jw_end(w);
}

void uncertainty_interval_json(const char *key, double low, double high, struct json_writer *w)
{
    jw_object(w, key);
    jw_real(w, "p5", low);
    jw_real(w, "p95", high);
    jw_end(w);
}

void uncertainty_text(const struct uncertainty *u, struct strbuf *out)
{
    char a[32], b[32];
    strbuf_printf(out, "\nUncertainty: %s to %s (5 to 95 %% of %u draws of %u constants), %+.2f %% to %+.2f %%\n",
                  text_time_ps(ps_nearest_s(u->low_s), a, sizeof a), text_time_ps(ps_nearest_s(u->high_s), b, sizeof b),
                  u->ran, u->constants, 100 * (u->low_s / u->base_s - 1), 100 * (u->high_s / u->base_s - 1));
    strbuf_append(out, "  taken as certain, no error known:");
    for (uint32_t i = 0; i < u->certain_count; i++) {
        strbuf_printf(out, "%s %s", i > 0 ? "," : "", u->certain[i]);
    }
    strbuf_append(out, "\n  constants are drawn independently; what the model leaves out is not in it\n");
    if (u->unused > 0) {
        strbuf_printf(out, "  %u further errors of the file are of single links and not drawn\n", u->unused);
    }
}
