/* memwall plan: search for the best split of a scenario. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/check.h"
#include "sim/base/cores.h"
#include "sim/base/units.h"
#include "sim/cli/cli.h"
#include "sim/cli/flag_files.h"
#include "sim/cli/interrupt.h"
#include "sim/cli/job.h"
#include "sim/cli/plan_files.h"
#include "sim/cli/plan_profile.h"
#include "sim/cli/plan_progress.h"
#include "sim/cli/plan_text.h"

static enum exit_code run(int argc, char **argv);

const struct cli_command command_plan = {
    .name = "plan",
    .out_file = "write the best plan into FILE",
    .usage = "SCENARIO.json [--planner NAME] [--budget-gib 8,12,16,20] [--out plan.json] [flags]\n"
             "       memwall plan --planner pipedream|dapple --profile FILE --workers N --bandwidth GBPS [flags]",
    .summary = "search for the fastest split that fits a memory budget; memwall run --plan runs it",
    .help =
        "Takes model, machine, GPUs, sequence, precision and global batch from the scenario and searches how to split "
        "the\n"
        "step: pipeline, tensor and data degrees, ZeRO, recomputation, micro-batches, stage boundaries, as far as the\n"
        "planner can (memwall list planners). The degrees that the scenario itself says are the starting point only,\n"
        "and may be left out (as they must where they do not divide the layers).\n"
        "The best few are simulated, and the answer says where cost model and simulator disagree, what bound the "
        "choice,\n"
        "and what the next best would have cost.\n"
        "  --budget-gib   device memory in GiB that a plan may use, context and communicators included; several, with\n"
        "                 commas: an answer for each, in JSON an array (default: all that the GPU has); the galvatron\n"
        "                 planners then have for each what they found for smaller ones, too\n"
        "  --preset       whose cost model (galvatron planners): v1, g2, head, memwall\n"
        "  --space        which dimensions may be used: full dp sdp tp pp 3d dp+tp dp+pp\n"
        "  --variant      further parameters of the planner: NAME=VALUE,NAME=VALUE (memwall list planners)\n"
        "  --out FILE     writes the best plan, schema memwall.plan/1; edit it by hand if you like, then\n"
        "                 memwall run SCENARIO.json --plan FILE. With several budgets: FILE-8gib.json, ...\n"
        "Layers stand as pipeline-tensor-data: 2-2*-4f-c is 2 stages, tensor 2 on consecutive GPUs (2*-4; 2-4*: data "
        "is), data 4,\n"
        "ZeRO-3 (f), recomputed (c; s: selectively; of mpress h: activations to the host, d: to other devices). Where "
        "they\n"
        "differ the plan file has them under parallel.layers, in "
        "runs:\n"
        "[{\"layers\": 12, \"tensor\": 2, \"zero_stage\": 3}, ...]; a scenario may say the same (memwall list "
        "parameters).\n"
        "  --galvatron-profile  measured profiles of Galvatron, with commas between: hardware, computation, memory; "
        "for the\n"
        "                 presets v1, g2 and head (without: what they would measure on our model and machine)\n"
        "  --galvatron FILE  writes the best plan as Galvatron's own searched plan (galvatron_config_*.json) too\n"
        "  --profile      instead of a scenario a measured chain of layers, which pipedream or dapple divide over "
        "workers\n"
        "                 as published, each stage with its own number of replicas:\n"
        "                 {\"schema\": \"memwall.profile/1\", \"name\": \"mine\", \"layers\": [{\"forward_s\": 0.01, "
        "\"backward_s\": 0.02,\n"
        "                 \"activation_bytes\": 1e6, \"parameter_bytes\": 4e6}, ...]}\n"
        "  --svg FILE     draws the balance of the best plan: stages against time and memory, before and after, with\n"
        "                 alpha_t and alpha_m: 1 - largest / sum of the stages' times and memory; 1 - 1/stages when "
        "all "
        "are alike\n"
        "Ctrl-C ends the search; the best plan so far is the answer (exit 3).\n"
        "Exit: 0 a plan fits (of several budgets: at least one), 2 none does (the answer names the smallest budget "
        "that\n"
        "would do), 1 bad input, 3 interrupted.\n"
        "In --json samples_per_s, step_time_s and peak_bytes are the cost model's; what the simulator says stands "
        "under\n"
        "\"simulated\".\n",
    .positional_min = 0,
    .positional_max = 1,
    .takes_scenario = true,
    .run = run,
};

struct texts {
    const char *planner, *preset, *space, *variant, *budgets, *top, *threads, *profiles, *galvatron, *svg;
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
    if (planner->parameter_count == 0) {
        return error_at(error, STATUS_BAD_INPUT, flag, NULL, "planner %s has no parameters, found \"%.64s\"",
                        planner->name, name);
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
        if (end == at || (*end != ',' && *end != '\0') || !isfinite(gib * GIB) || gib <= 0) {
            return error_at(error, STATUS_BAD_INPUT, "--budget-gib", NULL,
                            "expected GiB with commas between (8,12,16), found \"%.64s\"", text);
        }
        if (*count == PLANNER_BUDGETS_MAX) {
            return error_at(error, STATUS_BAD_INPUT, "--budget-gib", NULL, "at most %d budgets", PLANNER_BUDGETS_MAX);
        }
        for (uint32_t i = 0; i < *count; i++) {
            char one[PLAN_BUDGET_BYTES], other[PLAN_BUDGET_BYTES];
            if (strcmp(plan_budget_name(budgets[i], one), plan_budget_name(gib * GIB, other)) == 0) {
                return error_at(error, STATUS_BAD_INPUT, "--budget-gib", NULL,
                                "%s GiB twice (in six digits, as files are named) in \"%.64s\": leave one out", one,
                                text);
            }
        }
        budgets[(*count)++] = gib * GIB;
        if (*end == '\0') {
            return STATUS_OK;
        }
        at = end + 1;
    }
}

/* ---- the command ---- */

struct asked {
    const struct planner *planner;
    struct parameter_values parameters;
    double budgets[PLANNER_BUDGETS_MAX];
    uint32_t budget_count, top, threads;
    char profiles[4096]; /* their names, taken apart */
    const char *profile_names[PLANNER_PROFILES_MAX];
    uint32_t profile_count;
};

static enum status read_profiles(const char *text, struct asked *asked, struct error *error)
{
    if (text == NULL) {
        return STATUS_OK;
    }
    if (strlen(text) >= sizeof asked->profiles) {
        return error_at(error, STATUS_BAD_INPUT, "--galvatron-profile", NULL, "names of more than %zu characters",
                        sizeof asked->profiles - 1);
    }
    snprintf(asked->profiles, sizeof asked->profiles, "%s", text);
    for (char *at = asked->profiles; at != NULL; asked->profile_count++) {
        if (asked->profile_count == PLANNER_PROFILES_MAX || *at == '\0' || *at == ',') {
            return error_at(error, STATUS_BAD_INPUT, "--galvatron-profile", NULL,
                            "expected up to %d file names with commas between, found \"%.64s\"", PLANNER_PROFILES_MAX,
                            text);
        }
        asked->profile_names[asked->profile_count] = at;
        at = strchr(at, ',');
        if (at != NULL) {
            *at++ = '\0';
        }
    }
    return STATUS_OK;
}

static enum status read_request(const struct texts *texts, const struct scenario *scenario, struct asked *asked,
                                struct error *error)
{
    double number = 5;
    asked->planner = planner_find(texts->planner != NULL ? texts->planner : "exhaustive", error);
    if (asked->planner == NULL) {
        return STATUS_NOT_FOUND;
    }
    TRY(read_parameters(asked->planner, texts, &asked->parameters, error));
    TRY(read_profiles(texts->profiles, asked, error));
    TRY(read_budgets(texts->budgets, scenario->machine.gpu.usable_bytes, asked->budgets, &asked->budget_count, error));
    if (texts->top != NULL && !cli_whole("top", texts->top, 0, PLANNER_TOP_MAX, &number)) {
        return error_at(error, STATUS_BAD_INPUT, "--top", NULL, "how many runners-up");
    }
    asked->top = (uint32_t)number;
    number = cores_allowed();
    if (texts->threads != NULL && !cli_whole("threads", texts->threads, 1, 256, &number)) {
        return error_at(error, STATUS_BAD_INPUT, "--threads", NULL, "how many threads");
    }
    asked->threads = number > 256 ? 256 : (uint32_t)number;
    return STATUS_OK;
}

static enum status search(const struct asked *asked, const struct scenario *scenario, bool quiet,
                          struct planner_answer *answer, double *seconds, struct error *error)
{
    struct plan_progress progress;
    const struct planner_request request = { .scenario = scenario,
                                             .budgets_bytes = asked->budgets,
                                             .budget_count = asked->budget_count,
                                             .parameters = asked->parameters,
                                             .profiles = asked->profile_names,
                                             .profile_count = asked->profile_count,
                                             .threads = asked->threads,
                                             .top = asked->top,
                                             .progress = plan_progress_show,
                                             .progress_context = &progress };
    plan_progress_start(&progress, quiet);
    interrupt_catch();
    enum status status = planner_search(asked->planner, &request, answer, error);
    interrupt_release();
    *seconds = plan_progress_end(&progress);
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
    const struct flag_file files[] = { { "--out", flags->out },
                                       { "--galvatron", texts->galvatron },
                                       { "--svg", texts->svg },
                                       { "the scenario", flags->positional_count > 0 ? flags->positionals[0] : NULL } };
    return flag_files_differ(files, sizeof files / sizeof files[0], 3, error);
}

static enum exit_code run_profile(const struct cli_flags *flags, const struct texts *texts)
{
    struct error error = { 0 };
    struct strbuf out = { 0 };
    struct parameter_values values = { 0 };
    double budgets[PLANNER_BUDGETS_MAX] = { 0 };
    uint32_t budget_count = 0;
    bool found = false;
    const struct planner *planner = planner_find(texts->planner != NULL ? texts->planner : "pipedream", &error);
    enum status status = planner != NULL ? read_parameters(planner, texts, &values, &error) : STATUS_NOT_FOUND;
    if (status == STATUS_OK) {
        status = read_budgets(texts->budgets, 0, budgets, &budget_count, &error);
    }
    if (status == STATUS_OK && budget_count > 1) {
        status = error_at(&error, STATUS_BAD_INPUT, "--budget-gib", NULL, "%u budgets: with --profile one is allowed",
                          budget_count);
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
        { "galvatron-profile", "A,B,C", "files of Galvatron's profiler, for the presets v1, g2 and head",
          &texts.profiles },
        { "galvatron", "FILE", "write the best plan in Galvatron's own format", &texts.galvatron },
        { "svg", "FILE", "draw stages against time and memory, before and after balancing", &texts.svg },
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
    if (!cli_can_write("galvatron", texts.galvatron) || !cli_can_write("svg", texts.svg)) {
        return EXIT_BAD_INPUT;
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
    bool is_answered = status == STATUS_OK;
    if (status == STATUS_OK && flags.out != NULL) {
        status = plan_files_write(&input, flags.out, false, flags.quiet, &error);
    }
    if (status == STATUS_OK && texts.galvatron != NULL) {
        status = plan_files_write(&input, texts.galvatron, true, flags.quiet, &error);
    }
    if (status == STATUS_OK && texts.svg != NULL) {
        status = plan_pictures_write(&input, texts.svg, flags.quiet, &error);
    }
    code = status != STATUS_OK ? cli_complain(&error) : code_of(&answer);
    if (is_answered) { /* a file that cannot be written takes nothing from a search of an hour */
        struct strbuf out = { 0 };
        (flags.json ? plan_answer_json : plan_text)(&input, &out);
        code = cli_print(&out, code);
    }
    planner_answer_free(&answer);
    job_free(&job);
    return code;
}
