/* memwall explain: every term of memory and time with its formula, its numbers and its source. */
#include "sim/cli/cli.h"
#include "sim/cli/job.h"
#include "sim/report/explain.h"

static enum exit_code run(int argc, char **argv);

const struct cli_command command_explain = {
    .name = "explain",
    .usage = "SCENARIO.json [--json] [flags]",
    .summary = "print every term of memory and time with its formula, its numbers and its source",
    .help =
        "Runs the scenario and then takes it apart: parameters, bytes per parameter, activations by tensor, FLOPs, "
        "the\n"
        "kernels of one layer, collectives, the pipeline's bubble, host time; each with its formula, the numbers put\n"
        "in, and where the machine's and the software's numbers come from.\n",
    .positional_min = 1,
    .positional_max = 1,
    .takes_scenario = true,
    .run = run,
};

static enum exit_code run(int argc, char **argv)
{
    struct cli_flags flags;
    enum exit_code code;
    if (!cli_parse(&command_explain, argc, argv, &flags, NULL, 0, &code)) {
        return code;
    }
    struct job job = { 0 };
    struct explanation explanation = { 0 };
    struct error error = { 0 };
    enum status status = job_load(&job, &flags, &error);
    if (status == STATUS_OK) {
        status = job_lower(&job, &error);
    }
    if (status == STATUS_OK) {
        status = job_execute(&job, &flags, &error);
    }
    if (status == STATUS_OK) {
        const struct explain_input input = { .scenario = &job.scenario, .result = &job.result, .input = &job.input };
        status = explain_scenario(&explanation, &input, &error);
    }
    if (status != STATUS_OK) {
        code = cli_complain(&error);
    } else {
        struct strbuf out = { 0 };
        if (flags.json) {
            explanation_print_json(&explanation, &out);
        } else {
            explanation_print_text(&explanation, &out);
        }
        code = cli_answer(&flags, "explain", &out, job.result.fits ? EXIT_DONE : EXIT_DOES_NOT_FIT);
    }
    explanation_free(&explanation);
    job_free(&job);
    return code;
}
