/* memwall plan: search for the best split of a scenario. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "sim/base/check.h"
#include "sim/base/file.h"
#include "sim/base/units.h"
#include "sim/cli/cli.h"
#include "sim/cli/interrupt.h"
#include "sim/cli/job.h"
#include "sim/cli/plan_profile.h"
#include "sim/cli/plan_text.h"

static enum exit_code run(int argc, char **argv);

const struct cli_command command_plan = {
    .name = "plan",
    .usage = "SCENARIO.json [--planner NAME] [--budget-gib 8,12,16,20] [--out plan.json] [flags]\n"
             "       memwall plan --planner pipedream|dapple --profile FILE --workers N --bandwidth GBPS [flags]",
    .summary = "search for the fastest split that fits a memory budget; memwall run --plan runs it",
    .help =
        "Takes model, machine, GPUs, sequence, precision and global batch from the scenario and searches how to split "
        "the\n"
        "step: pipeline, tensor and data degrees, ZeRO, recomputation, micro-batches, stage boundaries, as far as the\n"
        "planner can (memwall list planners). The degrees that the scenario itself says are the starting point only.\n"
        "The best few are simulated, and the answer says where cost model and simulator disagree, what bound the "
        "choice,\n"
        "and what the next best would have cost.\n"
        "  --budget-gib   device memory in GiB that a plan may use, context and communicators included; several, with\n"
        "                 commas: an answer for each, in JSON an array (default: all that the GPU has)\n"
        "  --preset       whose cost model (galvatron planners): v1, g2, head, memwall\n"
        "  --space        which dimensions may be used: full dp sdp tp pp 3d dp+tp dp+pp\n"
        "  --variant      further parameters of the planner: NAME=VALUE,NAME=VALUE (memwall list planners)\n"
        "  --out FILE     writes the best plan, schema memwall.plan/1; edit it by hand if you like, then\n"
        "                 memwall run SCENARIO.json --plan FILE. With several budgets: FILE-8gib.json, ...\n"
        "  --profile      instead of a scenario a measured chain of layers, which pipedream or dapple divide over "
        "workers\n"
        "                 as published, each stage with its own number of replicas:\n"
        "                 {\"schema\": \"memwall.profile/1\", \"name\": \"mine\", \"layers\": [{\"forward_s\": 0.01, "
        "\"backward_s\": 0.02,\n"
        "                 \"activation_bytes\": 1e6, \"parameter_bytes\": 4e6}, ...]}\n"
        "Ctrl-C ends the search; the best plan so far is the answer (exit 3).\n"
        "Exit: 0 a plan fits (of several budgets: at least one), 2 none does (the answer names the smallest budget "
        "that\n"
        "would do), 1 bad input, 3 interrupted.\n",
    .positional_min = 0,
    .positional_max = 1,
    .takes_scenario = true,
    .run = run,
};

struct texts {
    const char *planner, *preset, *space, *variant, *budgets, *top, *threads;
    struct plan_profile_flags chain;
};

/* ---- flags ---- */

static enum status set_parameter(struct json_document *document, const struct planner *planner, const char *flag,
                                 const char *name, const char *value, struct error *error)
{
    for (uint32_t i = 0; i < planner->parameter_count; i++) {
        if (strcmp(planner->parameters[i].name, name) == 0) {
            return json_set(document, name, value, error);
        }
    }
    const char *names[PARAMETERS_MAX];
    char all[512] = "";
    for (uint32_t i = 0; i < planner->parameter_count; i++) {
        size_t length = strlen(all);
        names[i] = planner->parameters[i].name;
        snprintf(all + length, sizeof all - length, "%s%s", i > 0 ? ", " : "", names[i]);
    }
    const char *near = nearest_word(name, names, planner->parameter_count);
    return error_at(error, STATUS_BAD_INPUT, flag, NULL, "planner %s has no parameter \"%.64s\"%s%s%s; it has %s",
                    planner->name, name, near != NULL ? "; did you mean \"" : "", near != NULL ? near : "",
                    near != NULL ? "\"?" : "", all);
}

static enum status set_variant(struct json_document *document, const struct planner *planner, const char *text,
                               struct error *error)
{
    while (*text != '\0') {
        size_t length = strcspn(text, ",");
        char item[256];
        if (length >= sizeof item) {
            return error_at(error, STATUS_BAD_INPUT, "--variant", NULL, "a parameter of more than %zu characters",
                            sizeof item - 1);
        }
        snprintf(item, sizeof item, "%.*s", (int)length, text);
        char *equals = strchr(item, '=');
        if (equals == NULL || equals == item) {
            return error_at(error, STATUS_BAD_INPUT, "--variant", NULL, "expected NAME=VALUE,..., found \"%s\"", item);
        }
        *equals = '\0';
        TRY(set_parameter(document, planner, "--variant", item, equals + 1, error));
        text += length + (text[length] == ',');
    }
    return STATUS_OK;
}

static enum status read_parameters(const struct planner *planner, const struct texts *texts,
                                   struct parameter_values *values, struct error *error)
{
    struct json_document *document = NULL;
    struct json root;
    TRY(json_parse(&document, "{}", 2, "--variant", error));
    enum status status = STATUS_OK;
    if (texts->preset != NULL) {
        status = set_parameter(document, planner, "--preset", "preset", texts->preset, error);
    }
    if (status == STATUS_OK && texts->space != NULL) {
        status = set_parameter(document, planner, "--space", "space", texts->space, error);
    }
    if (status == STATUS_OK && texts->variant != NULL) {
        status = set_variant(document, planner, texts->variant, error);
    }
    if (status == STATUS_OK) {
        json_root(document, &root);
        status = parameters_read(planner->parameters, planner->parameter_count, &root, NULL, values, error);
    }
    json_free(document);
    return status;
}

static enum status read_budgets(const char *text, double fallback, double *budgets, uint32_t *count,
                                struct error *error)
{
    *count = 0;
    if (text == NULL) {
        budgets[(*count)++] = fallback;
        return STATUS_OK;
    }
    for (const char *at = text;;) {
        char *end;
        double gib = strtod(at, &end);
        if (end == at || (*end != ',' && *end != '\0') || !isfinite(gib) || gib <= 0) {
            return error_at(error, STATUS_BAD_INPUT, "--budget-gib", NULL,
                            "expected GiB with commas between (8,12,16), found \"%.64s\"", text);
        }
        if (*count == PLANNER_BUDGETS_MAX) {
            return error_at(error, STATUS_BAD_INPUT, "--budget-gib", NULL, "at most %d budgets", PLANNER_BUDGETS_MAX);
        }
        budgets[(*count)++] = gib * GIB;
        if (*end == '\0') {
            return STATUS_OK;
        }
        at = end + 1;
    }
}

/* ---- progress ---- */

struct progress {
    struct timespec start, last;
    bool quiet, terminal, shown;
};

static double seconds_since(const struct timespec *start)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)(now.tv_sec - start->tv_sec) + 1e-9 * (double)(now.tv_nsec - start->tv_nsec);
}

static bool show(void *context, const struct planner_progress *at)
{
    struct progress *progress = context;
    double elapsed = seconds_since(&progress->start);
    if (!progress->quiet && elapsed > 1 && seconds_since(&progress->last) > (progress->terminal ? 0.2 : 2)) {
        double share = at->total > 0 ? (double)at->done / (double)at->total : 0;
        fprintf(stderr, "%smemwall: %s: %" PRIu64, progress->terminal ? "\r" : "", at->doing, at->done);
        if (at->total > 0) {
            fprintf(stderr, " of %" PRIu64 " (%.0f %%)", at->total, 100 * share);
        }
        fprintf(stderr, ", %.0f s so far", elapsed);
        if (share > 0.02) {
            fprintf(stderr, ", about %.0f s left of this", elapsed * (1 - share) / share);
        }
        if (at->best_samples_per_s > 0) {
            fprintf(stderr, ", best %.5g samples/s", at->best_samples_per_s);
        }
        fputs(progress->terminal ? "   " : "\n", stderr);
        clock_gettime(CLOCK_MONOTONIC, &progress->last);
        progress->shown = true;
    }
    return !interrupt_seen();
}

/* ---- files ---- */

/* "plan.json" and 12 GiB: "plan-12gib.json" */
static void file_name(const char *out, double budget_bytes, bool is_list, char *name, size_t size)
{
    const char *dot = strrchr(out, '.'), *slash = strrchr(out, '/');
    if (!is_list) {
        snprintf(name, size, "%s", out);
        return;
    }
    int stem = dot != NULL && (slash == NULL || dot > slash) ? (int)(dot - out) : (int)strlen(out);
    snprintf(name, size, "%.*s-%.6ggib%s", stem, out, budget_bytes / GIB, out + stem);
}

static enum status write_plans(const struct plan_answer_input *input, const char *out, bool quiet, struct error *error)
{
    for (uint32_t i = 0; i < input->answer->result_count; i++) {
        const struct planner_result *result = &input->answer->results[i];
        char name[4096];
        if (!result->found || !result->best.has_plan) {
            if (!quiet) {
                fprintf(stderr, "memwall: no plan to write for %.6g GiB\n", result->budget_bytes / GIB);
            }
            continue;
        }
        struct strbuf text = { 0 };
        plan_answer_file(input, result, &text);
        file_name(out, result->budget_bytes, input->is_list, name, sizeof name);
        enum status status = text.failed ? error_set(error, STATUS_NO_MEMORY, "out of memory writing a plan")
                                         : file_write(name, text.text, text.length, error);
        strbuf_free(&text);
        TRY(status);
        if (!quiet) {
            fprintf(stderr, "memwall: plan written to %s\n", name);
        }
    }
    return STATUS_OK;
}

/* ---- the command ---- */

struct asked {
    const struct planner *planner;
    struct parameter_values parameters;
    double budgets[PLANNER_BUDGETS_MAX];
    uint32_t budget_count, top, threads;
};

static enum status read_request(const struct texts *texts, const struct scenario *scenario, struct asked *asked,
                                struct error *error)
{
    double number = 5;
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    asked->planner = planner_find(texts->planner != NULL ? texts->planner : "exhaustive", error);
    if (asked->planner == NULL) {
        return STATUS_NOT_FOUND;
    }
    TRY(read_parameters(asked->planner, texts, &asked->parameters, error));
    TRY(read_budgets(texts->budgets, scenario->machine.gpu.usable_bytes, asked->budgets, &asked->budget_count, error));
    if (texts->top != NULL && !cli_number("top", texts->top, 0, PLANNER_TOP_MAX, &number)) {
        return error_at(error, STATUS_BAD_INPUT, "--top", NULL, "how many runners-up");
    }
    asked->top = (uint32_t)number;
    number = processors > 0 ? (double)processors : 1;
    if (texts->threads != NULL && !cli_number("threads", texts->threads, 1, 256, &number)) {
        return error_at(error, STATUS_BAD_INPUT, "--threads", NULL, "how many threads");
    }
    asked->threads = number > 256 ? 256 : (uint32_t)number;
    return STATUS_OK;
}

static enum status search(const struct asked *asked, const struct scenario *scenario, bool quiet,
                          struct planner_answer *answer, double *seconds, struct error *error)
{
    struct progress progress = { .quiet = quiet, .terminal = isatty(STDERR_FILENO) };
    const struct planner_request request = { .scenario = scenario,
                                             .budgets_bytes = asked->budgets,
                                             .budget_count = asked->budget_count,
                                             .parameters = asked->parameters,
                                             .threads = asked->threads,
                                             .top = asked->top,
                                             .progress = show,
                                             .progress_context = &progress };
    clock_gettime(CLOCK_MONOTONIC, &progress.start);
    progress.last = progress.start;
    interrupt_catch();
    enum status status = planner_search(asked->planner, &request, answer, error);
    interrupt_release();
    *seconds = seconds_since(&progress.start);
    if (progress.shown && progress.terminal) {
        fputs("\r\033[K", stderr);
    }
    return status;
}

static enum exit_code code_of(const struct planner_answer *answer)
{
    bool any = false;
    for (uint32_t i = 0; i < answer->result_count; i++) {
        any = any || answer->results[i].found;
    }
    return answer->interrupted ? EXIT_FAILED : any ? EXIT_DONE : EXIT_DOES_NOT_FIT;
}

/* A scenario, or a profile with what belongs to it. */
static enum status check_input(const struct cli_flags *flags, const struct texts *texts, struct error *error)
{
    const struct plan_profile_flags *chain = &texts->chain;
    if (chain->profile != NULL && (flags->positional_count > 0 || flags->set_count > 0 || flags->out != NULL)) {
        return error_at(error, STATUS_BAD_INPUT, "--profile", NULL,
                        "stands in place of a scenario: leave out the scenario, --set and --out");
    }
    if (chain->profile == NULL && flags->positional_count == 0) {
        return error_at(error, STATUS_BAD_INPUT, "memwall plan", NULL,
                        "needs a scenario, or --profile FILE; memwall plan --help says more");
    }
    if (chain->profile == NULL && (chain->workers != NULL || chain->bandwidth != NULL || chain->micro_batches != NULL ||
                                   chain->replicas != NULL)) {
        return error_at(error, STATUS_BAD_INPUT, "memwall plan", NULL,
                        "--workers, --bandwidth, --microbatches and --replicas go with --profile; a scenario says them "
                        "itself");
    }
    return STATUS_OK;
}

static enum exit_code run_profile(const struct cli_flags *flags, const struct texts *texts)
{
    struct error error = { 0 };
    struct strbuf out = { 0 };
    struct parameter_values values = { 0 };
    double budgets[PLANNER_BUDGETS_MAX] = { 0 };
    uint32_t budget_count;
    bool found = false;
    const struct planner *planner = planner_find(texts->planner != NULL ? texts->planner : "pipedream", &error);
    enum status status = planner != NULL ? read_parameters(planner, texts, &values, &error) : STATUS_NOT_FOUND;
    if (status == STATUS_OK) {
        status = read_budgets(texts->budgets, 0, budgets, &budget_count, &error);
    }
    if (status == STATUS_OK) {
        status = plan_profile(&texts->chain, planner, &values, budgets[0], flags->json, &out, &found, &error);
    }
    if (status != STATUS_OK) {
        strbuf_free(&out);
        return cli_complain(&error);
    }
    return cli_print(&out, found ? EXIT_DONE : EXIT_DOES_NOT_FIT);
}

static enum exit_code run(int argc, char **argv)
{
    struct cli_flags flags;
    enum exit_code code;
    struct texts texts = { 0 };
    const struct cli_flag more[] = {
        { "planner", "NAME", "who searches (default exhaustive)", &texts.planner },
        { "budget-gib", "A,B,C", "GiB of device memory a plan may use (default: what the GPU has)", &texts.budgets },
        { "preset", "NAME", "whose cost model: v1, g2, head, memwall", &texts.preset },
        { "space", "NAME", "full, dp, sdp, tp, pp, 3d, dp+tp or dp+pp", &texts.space },
        { "variant", "NAME=VALUE,...", "further parameters of the planner", &texts.variant },
        { "top", "N", "runners-up in the answer (default 5)", &texts.top },
        { "threads", "N", "threads of the search (default: all processors)", &texts.threads },
        { "profile", "FILE", "a measured chain of layers in place of a scenario", &texts.chain.profile },
        { "workers", "N", "with --profile: equal devices, all used", &texts.chain.workers },
        { "bandwidth", "GBPS", "with --profile: GB/s between any two of them", &texts.chain.bandwidth },
        { "microbatches", "M", "with --profile, planner dapple: micro-batches of a step", &texts.chain.micro_batches },
        { "replicas", "R", "with --profile: on every stage (default: each its own number)", &texts.chain.replicas },
    };
    if (!cli_parse(&command_plan, argc, argv, &flags, more, sizeof more / sizeof more[0], &code)) {
        return code;
    }
    struct job job = { 0 };
    struct error error = { 0 };
    if (check_input(&flags, &texts, &error) != STATUS_OK) {
        return cli_complain(&error);
    }
    if (texts.chain.profile != NULL) {
        return run_profile(&flags, &texts);
    }
    struct asked asked = { 0 };
    struct planner_answer answer = { 0 };
    struct plan_answer_input input = { .scenario = &job.scenario, .parameters = &asked.parameters, .answer = &answer };
    enum status status = job_load(&job, &flags, &error);
    if (status == STATUS_OK) {
        status = read_request(&texts, &job.scenario, &asked, &error);
    }
    if (status == STATUS_OK) {
        status = search(&asked, &job.scenario, flags.quiet, &answer, &input.seconds, &error);
    }
    input.planner = asked.planner;
    input.is_list = texts.budgets != NULL && strchr(texts.budgets, ',') != NULL;
    if (status == STATUS_OK && flags.out != NULL) {
        status = write_plans(&input, flags.out, flags.quiet, &error);
    }
    if (status != STATUS_OK) {
        code = cli_complain(&error);
    } else {
        struct strbuf out = { 0 };
        (flags.json ? plan_answer_json : plan_text)(&input, &out);
        code = cli_print(&out, code_of(&answer));
    }
    planner_answer_free(&answer);
    job_free(&job);
    return code;
}
