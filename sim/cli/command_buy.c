/* memwall buy: which machine for a stated need. */
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "sim/base/check.h"
#include "sim/base/cores.h"
#include "sim/base/file.h"
#include "sim/buy/buy.h"
#include "sim/cli/cli.h"
#include "sim/cli/interrupt.h"
#include "sim/cli/ticker.h"
#include "sim/report/uncertainty.h"

static enum exit_code run(int argc, char **argv);

const struct cli_command command_buy = {
    .name = "buy",
    .usage = "QUESTION.json [--json] [--out DIR] [--uncertainty N] [--threads N] [--quiet]",
    .summary =
        "which machine to buy or rent for a stated need, each with its best plan, ranked, and what would change it",
    .help =
        "QUESTION.json (\"memwall.question/1\") states a need and the machines offered, for example\n"
        "  { \"model\": \"llama3-8b\", \"training\": { \"sequence_length\": 4096, \"global_batch\": 512, "
        "\"precision\": "
        "\"bf16\" },\n"
        "    \"tokens\": 300e9, \"deadline_days\": 60, \"electricity_usd_per_kwh\": 0.12,\n"
        "    \"machines\": [ { \"machine\": \"dgx-a100-80gb\", \"nodes\": [4, 8] },\n"
        "                  { \"name\": \"our cloud\", \"machine\": \"dgx-h100\", \"nodes\": 4, \"usd_per_gpu_hour\": "
        "2.2 } "
        "] }\n"
        "For every number of servers of every machine a planner searches the best split (\"planner\": exhaustive, the\n"
        "default, or any of memwall list planners, with \"planner_parameters\"); the scenario of that plan is "
        "simulated\n"
        "as memwall run would.\n"
        "Keys: name, model, software, training (as in a scenario; the planner chooses micro_batch), tokens,\n"
        "deadline_days, budget_usd, goal (cost, time; with a budget alone: time), pay (rent, own, cheaper),\n"
        "electricity_usd_per_kwh, carbon_g_per_kwh, pue, amortise_years (4), utilisation (1: share of an owned\n"
        "server's life that it works), goodput (1: share of the time that makes steps). Beside a machine: name, "
        "nodes,\n"
        "gpus, and prices in place of its own: usd_per_gpu_hour, system_usd, system_W.\n"
        "The answer ranks them: those that meet the need by cost (or time); then the late, those above the budget,\n"
        "those without a price, and what does not fit, each with its reason. Under each stands what would move it\n"
        "before number 1: its price, number 1's, electricity, utilisation, a shorter step; or into the need.\n"
        "With --out DIR it writes buy.txt (or buy.json), and row-N.json, the scenario of each row, for memwall run\n"
        "(row files of an earlier answer there go).\n"
        "Ctrl-C: the rows so far are the answer (exit 3).\n"
        "Exit: 0 something meets the need, 2 nothing does (the answer is still printed), 1 bad input, 3 interrupted.\n"
        "Try: memwall buy scenarios/questions/llama3-8b-in-60-days.json\n",
    .positional_min = 1,
    .positional_max = 1,
    .run = run,
};

static bool show(void *context, uint32_t index, uint32_t count, const struct candidate *candidate,
                 const struct planner_progress *planning)
{
    struct ticker *ticker = context;
    if (ticker_due(ticker)) {
        double elapsed = ticker_elapsed_s(ticker);
        fprintf(stderr, "%smemwall: %u of %u, %u x %s", ticker_begin(ticker), index + 1, count, candidate->nodes,
                candidate->label);
        if (planning != NULL && planner_progress_share(planning) > 0) {
            fprintf(stderr, ": %s %.0f %%", planning->doing, 100 * planner_progress_share(planning));
        }
        fprintf(stderr, ", %.0f s so far", elapsed);
        if (index > 0) {
            fprintf(stderr, ", about %.0f s left", elapsed * (count - index) / index);
        }
        fputs(ticker_finish(ticker), stderr);
    }
    return !interrupt_seen();
}

static enum status compare(struct buy_answer *answer, const struct question *question, uint32_t threads, uint32_t draws,
                           bool quiet, struct error *error)
{
    struct ticker ticker;
    const struct buy_options options = { .threads = threads, .draws = draws, .progress = show, .context = &ticker };
    ticker_start(&ticker, quiet);
    interrupt_catch();
    enum status status = buy_run(answer, question, &options, error);
    interrupt_release();
    ticker_end(&ticker);
    return status;
}

static bool row_path(char path[PATH_MAX], const char *folder, uint32_t row)
{
    return snprintf(path, PATH_MAX, "%s/row-%u.json", folder, row + 1) < PATH_MAX;
}

/* A scenario for every row that has one; files of an earlier answer in the same folder would pass for this one's and go. */
static enum status write_scenarios(const struct buy_answer *answer, const char *folder, struct error *error)
{
    char path[PATH_MAX];
    uint32_t row = 0;
    TRY(folder_make(folder, error));
    for (; row < answer->row_count; row++) {
        const char *text = answer->rows[row].scenario;
        if (!row_path(path, folder, row)) {
            return error_set(error, STATUS_IO, "--out: the path is too long");
        }
        if (text != NULL) {
            TRY(file_write(path, text, strlen(text), error));
        } else {
            (void)unlink(path);
        }
    }
    while (row_path(path, folder, row) && unlink(path) == 0) {
        row++;
    }
    return STATUS_OK;
}

static enum exit_code run(int argc, char **argv)
{
    struct cli_flags flags;
    enum exit_code code;
    const char *thread_text = NULL, *draw_text = NULL;
    const struct cli_flag more[] = {
        { "threads", "N", "threads of the search (default: all processors)", &thread_text },
        { "uncertainty", "N", "5 to 95 % interval of time and cost from N draws of the machine's fitted constants",
          &draw_text },
    };
    if (!cli_parse(&command_buy, argc, argv, &flags, more, sizeof more / sizeof more[0], &code)) {
        return code;
    }
    double threads = fmin(256, cores_allowed()), draws = 0;
    if ((thread_text != NULL && !cli_whole("threads", thread_text, 1, 256, &threads)) ||
        (draw_text != NULL &&
         !cli_whole("uncertainty", draw_text, UNCERTAINTY_DRAWS_MIN, UNCERTAINTY_DRAWS_MAX, &draws))) {
        return EXIT_BAD_INPUT;
    }
    struct question question = { 0 };
    struct buy_answer answer = { 0 };
    struct error error = { 0 };
    enum status status = question_load(&question, flags.positionals[0], &error);
    if (status == STATUS_OK) {
        status = compare(&answer, &question, (uint32_t)threads, (uint32_t)draws, flags.quiet, &error);
    }
    if (status == STATUS_OK && flags.out != NULL) {
        status = write_scenarios(&answer, flags.out, &error);
    }
    if (status != STATUS_OK) {
        code = cli_complain(&error);
    } else {
        struct strbuf out = { 0 };
        (flags.json ? buy_json : buy_text)(&answer, &out);
        code = cli_answer(&flags, "buy", &out,
                          answer.interrupted   ? EXIT_FAILED
                          : answer.meeting > 0 ? EXIT_DONE
                                               : EXIT_DOES_NOT_FIT);
    }
    buy_free(&answer);
    question_free(&question);
    return code;
}
