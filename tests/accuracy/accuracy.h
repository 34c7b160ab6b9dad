/* Running a scenario text through the whole library, and error statistics: shared by the accuracy programs. */
#ifndef MEMWALL_TESTS_ACCURACY_H
#define MEMWALL_TESTS_ACCURACY_H

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "sim/base/units.h"
#include "sim/exec.h"
#include "sim/plan/lower.h"
#include "sim/plan/scenario.h"
#include "sim/report/result.h"

struct simulated {
    bool ran;
    double step_s;
    double peak_bytes; /* of the fullest device */
    double peak_reserved_bytes;
    double first_class_bytes[BUFFER_CLASS_COUNT]; /* at the peak of the first device */
    double mfu, hfu;
    double exposed_s[TIME_CLASS_COUNT]; /* of the first rank */
};

static inline void simulated_memory(struct simulated *out, const struct schedule *s, const struct timeline *timeline)
{
    bool first = true;
    for (uint32_t i = 0; i < s->space_count; i++) {
        if (s->spaces[i].kind != SPACE_DEVICE) {
            continue;
        }
        const struct space_use *use = &timeline->spaces[i];
        out->peak_bytes = fmax(out->peak_bytes, (double)use->peak_bytes);
        out->peak_reserved_bytes = fmax(out->peak_reserved_bytes, (double)use->peak_reserved_bytes);
        for (uint32_t c = 0; first && c < BUFFER_CLASS_COUNT; c++) {
            out->first_class_bytes[c] = (double)use->at_peak_bytes[c];
        }
        first = false;
    }
}

/* What else a program wants to know of a simulated step; both are borrowed for the call. */
typedef void simulated_visit(void *context, const struct schedule *schedule, const struct timeline *timeline);

/* Leaves ran false, and the reason in `complaint`, when the scenario cannot be simulated. A step that does not fit counts as run with its memory figures and step_s 0. */
static inline struct simulated simulate_or_complain(const char *text, simulated_visit *visit, void *context,
                                                    struct error *complaint)
{
    struct simulated out = { 0 };
    struct json_document *document = NULL;
    struct json root;
    struct scenario scenario = { 0 };
    struct schedule schedule = { 0 };
    struct timeline timeline = { 0 };
    struct result result = { 0 };
    bool loaded = false, scheduled = false, timed = false;
    enum status status = json_parse(&document, text, strlen(text), "accuracy row", complaint);
    if (status == STATUS_OK) {
        json_root(document, &root);
        status = scenario_from_json(&scenario, &root, complaint);
        loaded = status == STATUS_OK;
    }
    if (status == STATUS_OK) {
        struct lower_request request = {
            .model = &scenario.model,
            .cluster = &scenario.cluster,
            .software = &scenario.software,
            .plan = &scenario.plan,
        };
        status = lower_schedule(&request, &schedule, complaint);
        scheduled = status == STATUS_OK;
    }
    if (status == STATUS_OK) {
        struct exec_options options = { .cluster = &scenario.cluster, .software = &scenario.software, .audit = true };
        status = exec_sim.run(&schedule, &options, &timeline, complaint);
        timed = status == STATUS_OK;
    }
    if (status == STATUS_OK) {
        struct result_input input = { .name = "row",
                                      .schedule = &schedule,
                                      .timeline = &timeline,
                                      .cluster = &scenario.cluster,
                                      .software = &scenario.software,
                                      .precision = scenario.plan.precision };
        status = result_compute(&result, &input, complaint);
    }
    if (status == STATUS_OK) {
        out.ran = true;
        out.step_s = result.fits ? result.step_time_s : 0;
        out.mfu = result.mfu;
        out.hfu = result.hfu;
        simulated_memory(&out, &schedule, &timeline);
        for (uint32_t c = 0; result.stage_count > 0 && c < TIME_CLASS_COUNT; c++) {
            out.exposed_s[c] = result.stages[0].exposed_s[c];
        }
        result_free(&result);
        if (visit != NULL) {
            visit(context, &schedule, &timeline);
        }
    }
    if (timed) {
        timeline_free(&timeline);
    }
    if (scheduled) {
        schedule_free(&schedule);
    }
    if (loaded) {
        scenario_free(&scenario);
    }
    json_free(document);
    return out;
}

/* The same; prints the complaint. */
static inline struct simulated simulate_and_visit(const char *text, simulated_visit *visit, void *context)
{
    struct error error = { 0 };
    struct simulated out = simulate_or_complain(text, visit, context, &error);
    if (!out.ran) {
        char message[2048];
        printf("cannot simulate: %s\n  %s\n", error_text(&error, message, sizeof message), text);
    }
    return out;
}

static inline struct simulated simulate(const char *text)
{
    return simulate_and_visit(text, NULL, NULL);
}

/* Relative errors of a set of rows. */
struct errors {
    const char *name;
    double sum, signed_sum, worst;
    uint32_t count;
};

static inline double errors_add(struct errors *errors, double simulated, double measured)
{
    double error = simulated / measured - 1;
    errors->sum += fabs(error);
    errors->signed_sum += error;
    errors->worst = fmax(errors->worst, fabs(error));
    errors->count++;
    return error;
}

/* One line of the table; returns 1 when the mean is above `limit` (or no row counted), else 0. SHOWN_ONLY judges nothing: sets whose source does not print all inputs. */
#define SHOWN_ONLY INFINITY
static inline int errors_print(const struct errors *errors, double limit)
{
    double mean = errors->count > 0 ? errors->sum / errors->count : 1;
    double bias = errors->count > 0 ? errors->signed_sum / errors->count : 0;
    bool bad = errors->count == 0 || mean > limit;
    char verdict[64] = "shown, not judged";
    if (isfinite(limit)) {
        snprintf(verdict, sizeof verdict, "allowed %4.1f %%  %s", 100 * limit, bad ? "TOO FAR" : "ok");
    }
    printf("%-52s %5u rows  mean error %5.2f %%  bias %+6.2f %%  worst %6.2f %%  %s\n", errors->name, errors->count,
           100 * mean, 100 * bias, 100 * errors->worst, verdict);
    return bad ? 1 : 0;
}

#endif
