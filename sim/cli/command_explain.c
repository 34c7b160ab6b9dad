/* memwall explain: every term of memory and time with its formula, its numbers and its source. */
#include <math.h>
#include <string.h>

#include "sim/cli/cli.h"
#include "sim/cli/job.h"
#include "sim/report/deepspeed_estimator.h"
#include "sim/report/explain.h"

static enum exit_code run(int argc, char **argv);

const struct cli_command command_explain = {
    .name = "explain",
    .usage = "SCENARIO.json [--moves] [--estimator deepspeed] [--json] [flags]",
    .summary = "print every term of memory and time with its formula, its numbers and its source",
    .help =
        "Runs the scenario and then takes it apart: parameters, bytes per parameter, activations by tensor, FLOPs, "
        "the\n"
        "kernels of one layer, collectives, the pipeline's bubble, host time; each with its formula, the numbers put\n"
        "in, and where the machine's and the software's numbers come from.\n"
        "What moves is summed up by direction and by kind, with when it happens and beside which kernels; with "
        "--moves\n"
        "each copy, transfer and collective has a row: which chunk or layer, bytes, when.\n"
        "With --estimator deepspeed it prints instead what DeepSpeed's own planning tool says of the model's memory "
        "on\n"
        "as many GPUs, for every choice of offloading, beside the simulated peaks.\n",
    .positional_min = 1,
    .positional_max = 1,
    .takes_scenario = true,
    .run = run,
};

/* What DeepSpeed says, beside what was simulated. */
static void print_estimates(const struct job *job, bool json, struct strbuf *out)
{
    const struct scenario *scenario = &job->scenario;
    const struct cluster *cluster = &scenario->cluster;
    uint32_t per_node = cluster->gpus < cluster->gpus_per_node ? cluster->gpus : cluster->gpus_per_node;
    const struct deepspeed_estimate_input input = {
        .parameters = (double)model_parameters(&scenario->model),
        .largest_layer = deepspeed_largest_layer(&scenario->model),
        .gpus_per_node = per_node,
        .nodes = (cluster->gpus + per_node - 1) / per_node,
    };
    struct deepspeed_simulated simulated = { .name = scenario->name,
                                             .policy = scenario->plan.policy,
                                             .zero_stage = scenario->plan.zero_stage };
    for (uint32_t i = 0; i < job->schedule.space_count; i++) {
        double peak = (double)job->timeline.spaces[i].peak_bytes;
        if (job->schedule.spaces[i].kind == SPACE_DEVICE) {
            simulated.gpu_peak_bytes = fmax(simulated.gpu_peak_bytes, peak);
        } else if (job->schedule.spaces[i].kind == SPACE_HOST) {
            simulated.host_peak_bytes = fmax(simulated.host_peak_bytes, peak);
        }
    }
    if (json) {
        deepspeed_estimates_print_json(&input, &simulated, out);
    } else {
        deepspeed_estimates_print_text(&input, &simulated, out);
    }
}

static enum status print_explanation(const struct job *job, bool moves, bool json, struct strbuf *out,
                                     struct error *error)
{
    struct explanation explanation = { 0 };
    const struct explain_input input = {
        .scenario = &job->scenario,
        .result = &job->result,
        .input = &job->input,
        .facts = &job->facts,
        .list_moves = moves,
    };
    enum status status = explain_scenario(&explanation, &input, error);
    if (status == STATUS_OK && json) {
        explanation_print_json(&explanation, out);
    } else if (status == STATUS_OK) {
        explanation_print_text(&explanation, out);
    }
    explanation_free(&explanation);
    return status;
}

static enum exit_code run(int argc, char **argv)
{
    struct cli_flags flags;
    enum exit_code code;
    const char *estimator = NULL, *plan = NULL, *moves = NULL;
    const struct cli_flag more[] = { { "moves", NULL, "a row of each copy, transfer and collective", &moves },
                                     { "estimator", "deepspeed",
                                       "what another tool's estimator says of this model and machine", &estimator },
                                     CLI_PLAN_FLAG(&plan) };
    if (!cli_parse(&command_explain, argc, argv, &flags, more, sizeof more / sizeof more[0], &code)) {
        return code;
    }
    flags.plan = plan;
    struct job job = { 0 };
    struct error error = { 0 };
    struct strbuf out = { 0 };
    enum status status = STATUS_OK;
    if (estimator != NULL && strcmp(estimator, "deepspeed") != 0) {
        status = error_at(&error, STATUS_BAD_INPUT, "--estimator", NULL,
                          "unknown estimator \"%.64s\": known is deepspeed", estimator);
    }
    if (status == STATUS_OK) {
        status = job_load(&job, &flags, &error);
    }
    if (status == STATUS_OK) {
        status = job_lower(&job, &error);
    }
    if (status == STATUS_OK) {
        status = job_execute(&job, &flags, &exec_sim, NULL, &error);
    }
    if (status == STATUS_OK && estimator != NULL) {
        print_estimates(&job, flags.json, &out);
    } else if (status == STATUS_OK) {
        status = print_explanation(&job, moves != NULL, flags.json, &out, &error);
    }
    if (job.refused) {
        status = job_find_remedies(&job, &flags, status, &error);
    }
    if (job.refused) {
        job_print_refusal(&job, exec_sim.name, flags.json, &error, &out);
        code = cli_answer(&flags, "explain", &out, EXIT_DOES_NOT_FIT);
    } else if (status != STATUS_OK) {
        strbuf_free(&out);
        code = cli_complain(&error);
    } else {
        code = cli_answer(&flags, estimator != NULL ? "deepspeed-estimate" : "explain", &out,
                          job.result.fits ? EXIT_DONE : EXIT_DOES_NOT_FIT);
    }
    job_free(&job);
    return code;
}
