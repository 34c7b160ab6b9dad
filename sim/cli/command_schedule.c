/* memwall schedule: print what the machine would be told to do. */
#include "sim/cli/cli.h"
#include "sim/cli/job.h"
#include "sim/ir/schedule_text.h"
#include "sim/ir/verify.h"

static enum exit_code run(int argc, char **argv);

const struct cli_command command_schedule = {
    .name = "schedule",
    .usage = "SCENARIO.json [--json] [flags]",
    .summary = "print the schedule of a scenario: ranks, queues, buffers, ops",
    .help = "The text is canonical: equal schedules print equal bytes, and the text can be read back. --ops explains "
            "the opcodes.\n",
    .positional_min = 0,
    .positional_max = 1,
    .takes_scenario = true,
    .run = run,
};

static void print_ops(struct strbuf *out)
{
    for (uint32_t i = 0; i < OPCODE_COUNT; i++) {
        strbuf_printf(out, "%-16s %s\n", opcode_word((enum opcode)i), opcode_summary((enum opcode)i));
        strbuf_append(out, "                 queues:");
        for (uint32_t q = 0; q < QUEUE_CLASS_COUNT; q++) {
            if (opcode_allows_queue((enum opcode)i, (enum queue_class)q)) {
                strbuf_printf(out, " %s", queue_class_word((enum queue_class)q));
            }
        }
        strbuf_printf(out, "; work: %s\n", work_kind_word(opcode_work((enum opcode)i)));
    }
}

static enum exit_code run(int argc, char **argv)
{
    struct cli_flags flags;
    enum exit_code code;
    const char *ops = NULL, *plan = NULL;
    const struct cli_flag more[] = { { "ops", NULL, "explain every opcode and stop", &ops }, CLI_PLAN_FLAG(&plan) };
    if (!cli_parse(&command_schedule, argc, argv, &flags, more, 2, &code)) {
        return code;
    }
    flags.plan = plan;
    struct strbuf out = { 0 };
    if (ops != NULL) {
        print_ops(&out);
        return cli_answer(&flags, "opcodes", &out, EXIT_DONE);
    }
    struct job job = { 0 };
    struct error error = { 0 };
    enum status status = STATUS_OK;
    if (flags.positional_count == 0) {
        status = error_set(&error, STATUS_BAD_INPUT, "schedule needs a scenario file (or --ops)");
    }
    if (status == STATUS_OK) {
        status = job_load(&job, &flags, &error);
    }
    if (status == STATUS_OK) {
        status = job_lower(&job, &error);
    }
    if (status == STATUS_OK) {
        status = sched_verify(&job.schedule, &error);
    }
    status = job_find_remedies(&job, &flags, status, &error);
    if (job.refused) {
        job_print_refusal(&job, exec_sim.name, flags.json, &error, &out);
        code = cli_answer(&flags, "schedule", &out, EXIT_DOES_NOT_FIT);
    } else if (status != STATUS_OK) {
        code = cli_complain(&error);
    } else {
        if (flags.json) {
            schedule_print_json(&job.schedule, &out);
        } else {
            schedule_print_text(&job.schedule, &out);
        }
        code = cli_answer(&flags, "schedule", &out, EXIT_DONE);
    }
    strbuf_free(&out);
    job_free(&job);
    return code;
}
