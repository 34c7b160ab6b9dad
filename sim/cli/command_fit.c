/* memwall fit: the largest model of a family, or the largest batch, that a machine holds. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "sim/base/check.h"
#include "sim/base/units.h"
#include "sim/cli/cli.h"
#include "sim/model/ladder.h"
#include "sim/report/fit.h"

static enum exit_code run(int argc, char **argv);

const struct cli_command command_fit = {
    .name = "fit",
    .usage = "SCENARIO.json --models A,B,C | --batch [flags]",
    .summary = "the largest model of a family, or the largest batch, that fits a machine",
    .help =
        "Simulates the scenario with one candidate after the other, by bisection, and says which is the largest that\n"
        "fits, and what is full on the next one up.\n"
        "--models takes names of the library (memwall list models), paths of Hugging Face config.json files, and\n"
        "ladders: patrickstar-ladder, sc21-ladder. They are tried by their parameter counts; a model that the\n"
        "scenario cannot train (its heads do not divide, ...) is passed over.\n"
        "--batch raises training.micro_batch; the number of micro-batches stays as the scenario has it, so the\n"
        "global batch grows with it.\n"
        "Exit: 0 something fits, 2 nothing does (the answer is still printed), 1 bad input.\n",
    .positional_min = 1,
    .positional_max = 1,
    .takes_scenario = true,
    .run = run,
};

static void tell(void *context, const struct fit_trial *trial)
{
    const bool *batch = context;
    if (trial->verdict == FIT_REFUSED) {
        return; /* the answer says why */
    }
    if (*batch) {
        fprintf(stderr, "memwall: micro-batch %" PRId64, trial->micro_batch);
    } else {
        fprintf(stderr, "memwall: %s", trial->name);
    }
    if (trial->verdict == FIT_FITS) {
        char time[32];
        fprintf(stderr, " fits: %s a step, %.4g tokens/s\n",
                text_time_ps(ps_nearest_s(trial->step_time_s), time, sizeof time), trial->tokens_per_s);
    } else if (trial->verdict == FIT_TOO_BIG && trial->full.present) {
        char needed[32], capacity[32];
        fprintf(stderr, " does not fit: %s, %s of %s\n", trial->full.name,
                text_bytes((double)trial->needed_bytes, needed, sizeof needed),
                text_bytes((double)trial->full.capacity_bytes, capacity, sizeof capacity));
    } else {
        fprintf(stderr, ": %s\n", fit_verdict_word(trial->verdict));
    }
}

/* What was asked for, as sets of the scenario: --detail and --no-fold are keys like any other. */
static uint32_t list_sets(const struct cli_flags *flags, char detail[64], const char *sets[SETS_MAX + 2])
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < flags->set_count; i++) {
        sets[count++] = flags->sets[i];
    }
    if (flags->detail != NULL) {
        snprintf(detail, 64, "detail=%s", flags->detail);
        sets[count++] = detail;
    }
    if (flags->no_fold) {
        sets[count++] = "fold=false";
    }
    return count;
}

static enum status check(const struct cli_flags *flags, const char *models, const char *batch, const char *all,
                         struct error *error)
{
    if ((models != NULL) == (batch != NULL)) {
        return error_at(error, STATUS_BAD_INPUT, "memwall fit", NULL,
                        models != NULL ? "--models and --batch exclude each other: fit the model first, then its batch "
                                         "with --set model=NAME --batch"
                                       : "say what shall grow: --models A,B,C (or a ladder), or --batch");
    }
    if (all != NULL && batch != NULL) {
        return error_at(error, STATUS_BAD_INPUT, "memwall fit", NULL, "--all is for --models: batches have no end");
    }
    if (strcmp(flags->positionals[0], "-") == 0) {
        return error_at(error, STATUS_BAD_INPUT, "memwall fit", NULL,
                        "the scenario is read once a candidate: give a file, not standard input");
    }
    return STATUS_OK;
}

/* Names of ladders belong to the answer when a model is not known. */
static enum status with_ladders(enum status status, struct error *error)
{
    size_t length = strlen(error->message);
    if (error->path[0] == '\0' && strstr(error->message, "library name") != NULL) {
        snprintf(error->message + length, sizeof error->message - length, "; or a ladder:");
        for (uint32_t i = 0; i < model_ladder_count(); i++) {
            length = strlen(error->message);
            snprintf(error->message + length, sizeof error->message - length, "%s %s", i > 0 ? "," : "",
                     model_ladder_get(i)->name);
        }
    }
    return status;
}

static enum exit_code run(int argc, char **argv)
{
    struct cli_flags flags;
    enum exit_code code;
    const char *models = NULL, *batch = NULL, *all = NULL, *reserved = NULL, *sets[SETS_MAX + 2];
    char detail[64];
    const struct cli_flag more[] = {
        { "models", "A,B,C", "the models to choose from, or a ladder of the library", &models },
        { "batch", NULL, "find the largest micro-batch of the scenario's model", &batch },
        { "all", NULL, "try every model, not by bisection", &all },
        { "reserved", NULL, "what the allocator model holds must fit, not only what is live", &reserved },
    };
    if (!cli_parse(&command_fit, argc, argv, &flags, more, sizeof more / sizeof more[0], &code)) {
        return code;
    }
    struct error error = { 0 };
    struct arena arena = { 0 };
    struct fit_report report = { 0 };
    bool is_batch = batch != NULL;
    struct fit_request request = { .file = flags.positionals[0],
                                   .sets = sets,
                                   .set_count = list_sets(&flags, detail, sets),
                                   .all = all != NULL,
                                   .reserved = reserved != NULL,
                                   .tried = flags.quiet ? NULL : tell,
                                   .context = &is_batch };
    enum status status = check(&flags, models, batch, all, &error);
    if (status == STATUS_OK && models != NULL) {
        status = fit_list_models(models, &arena, &request.models, &request.model_count, &error);
    }
    if (status == STATUS_OK) {
        status = is_batch ? fit_batch(&request, &report, &error)
                          : with_ladders(fit_models(&request, &report, &error), &error);
    }
    if (status != STATUS_OK) {
        code = cli_complain(&error);
    } else {
        struct strbuf out = { 0 };
        (flags.json ? fit_report_json : fit_report_text)(&report, &out);
        code = cli_answer(&flags, "fit", &out, report.outcome.any ? EXIT_DONE : EXIT_DOES_NOT_FIT);
    }
    fit_free(&report);
    arena_free(&arena);
    return code;
}
