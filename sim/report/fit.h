/* The largest model of a list, or the largest batch, that a machine holds under a scenario: fit_search over simulations (fit_trial).
 *
 *     const struct fit_request request = { .file = "yard.json", .models = names, .model_count = 17 };
 *     TRY(fit_models(&request, &report, error));
 *     fit_report_text(&report, &out);
 *     fit_free(&report);
 *
 * Errors: those of the scenario (when no candidate could be tried: of the smallest), of an unknown model, and whatever ends a search. */
#ifndef MEMWALL_REPORT_FIT_H
#define MEMWALL_REPORT_FIT_H

#include "sim/base/arena.h"
#include "sim/report/fit_report.h"

struct fit_request {
    const char *file; /* of the scenario; read once a candidate: not "-" */
    const char *const *sets;
    uint32_t set_count;        /* <= FIT_SETS_MAX */
    const char *const *models; /* names or paths, in any order; tried by rising parameters, equal names once */
    uint32_t model_count;
    bool all;      /* try every model */
    bool reserved; /* what the allocator model holds must fit too (fit_trial_run) */
    void (*tried)(void *context, const struct fit_trial *trial); /* after each; NULL: nobody listens */
    void *context;
};

enum { FIT_SETS_MAX = 256, FIT_MODELS_MAX = 1024 };

/* "a,b,ladder": names of models, and ladders for all of theirs. The pointers live in `arena`. Models are not looked up yet. */
enum status fit_list_models(const char *text, struct arena *arena, const char *const **models, uint32_t *count,
                            struct error *error);

/* The largest model of request->models. */
enum status fit_models(const struct fit_request *request, struct fit_report *report, struct error *error);
/* The largest micro-batch of the scenario's model; the number of micro-batches stays, so the global batch grows with it. */
enum status fit_batch(const struct fit_request *request, struct fit_report *report, struct error *error);
void fit_free(struct fit_report *report);

#endif
