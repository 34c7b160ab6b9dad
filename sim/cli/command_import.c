/* memwall import: files of other programs as ours. */
#include <stdio.h>
#include <string.h>

#include "sim/base/check.h"
#include "sim/base/file.h"
#include "sim/cli/cli.h"
#include "sim/plan/scenario.h"
#include "strategies/planners/galvatron_exchange.h"
#include "strategies/planners/plan_answer.h"

static enum exit_code run(int argc, char **argv);

const struct cli_command command_import = {
    .name = "import",
    .out_file = "write the plan or machine into FILE",
    .usage = "galvatron FILE... --scenario SCENARIO.json [--out FILE] [flags]",
    .summary = "take over what another program has written: Galvatron's plans and measured bandwidths",
    .help =
        "galvatron, a searched plan (galvatron_config_*.json): the plan of the scenario's model and machine, schema\n"
        "  memwall.plan/1, for memwall run SCENARIO.json --plan FILE. Layers, stages and micro-batches are the\n"
        "  file's, sequence length and precision the scenario's.\n"
        "galvatron, hardware profiles (allreduce_bandwidth_*.json, sp_time_*.json): a machine file, the scenario's\n"
        "  machine with these collectives; for --set machine=FILE.\n"
        "Profiles of a model (computation_profiling_*, memory_profiling_*) are costs, not a model: give them to\n"
        "memwall plan --preset g2 --galvatron-profile. The way back is memwall plan --galvatron FILE.\n",
    .positional_min = 2,
    .positional_max = POSITIONALS_MAX,
    .takes_scenario = true,
    .run = run,
};

/* The first key tells: plans have pp_deg. */
static enum status is_plan(const char *path, bool *plan, struct error *error)
{
    struct json_document *document = NULL;
    struct json root;
    TRY(json_load(&document, path, (size_t)4 << 20, error));
    json_root(document, &root);
    *plan = json_type(&root) == JSON_OBJECT && (json_has(&root, "pp_deg") || json_has(&root, "tp_sizes_enc"));
    json_free(document);
    return STATUS_OK;
}

static enum status import_plan(const struct scenario *scenario, const char *path, struct arena *arena,
                               struct strbuf *out, struct error *error)
{
    struct galvatron_plan_file file;
    struct plan plan;
    char from[512];
    const char *reasons[] = { from };
    const struct plan_origin origin = { .planner = "galvatron", .reasons = reasons, .reason_count = 1 };
    snprintf(from, sizeof from, "taken over from %s by memwall import", path);
    TRY(galvatron_plan_file_load(&file, path, scenario->cluster.gpus, (uint32_t)scenario->model.layers, arena, error));
    enum status status = galvatron_import_plan(scenario, &file, &plan, arena, error);
    if (status != STATUS_OK) {
        if (error->file[0] == '\0') {
            snprintf(error->file, sizeof error->file, "%.*s", (int)sizeof error->file - 1, path);
        }
        return status;
    }
    plan_file_print(scenario, &plan, &origin, out);
    return STATUS_OK;
}

static enum status import_hardware(const struct scenario *scenario, const char *const *paths, uint32_t count,
                                   struct arena *arena, struct strbuf *out, struct error *error)
{
    struct galvatron_file files[POSITIONALS_MAX];
    for (uint32_t i = 0; i < count; i++) {
        TRY(galvatron_file_load(&files[i], paths[i], arena, error));
        if (files[i].kind != GALVATRON_FILE_HARDWARE) {
            return error_at(error, STATUS_BAD_INPUT, paths[i], NULL,
                            "a %s profile is the cost of a model, not a machine and not a plan: memwall plan --preset "
                            "g2 --galvatron-profile %s searches with it",
                            galvatron_file_kind_word(files[i].kind), paths[i]);
        }
    }
    TRY(galvatron_machine_from_files(files, count, &scenario->machine, out, error));
    strbuf_char(out, '\n');
    return STATUS_OK;
}

static enum status import(const struct cli_flags *flags, const struct scenario *scenario, struct arena *arena,
                          struct strbuf *out, struct error *error)
{
    const char *const *paths = flags->positionals + 1;
    uint32_t count = flags->positional_count - 1;
    bool plan = false, any = false;
    for (uint32_t i = 0; i < count; i++) {
        TRY(is_plan(paths[i], &plan, error));
        if (plan && count > 1) {
            return error_at(error, STATUS_BAD_INPUT, paths[i], NULL, "a plan is taken over by itself: one file");
        }
        any = any || plan;
    }
    TRY(any ? import_plan(scenario, paths[0], arena, out, error)
            : import_hardware(scenario, paths, count, arena, out, error));
    return out->failed ? error_set(error, STATUS_NO_MEMORY, "out of memory") : STATUS_OK;
}

static enum exit_code run(int argc, char **argv)
{
    struct cli_flags flags;
    enum exit_code code;
    const char *file = NULL;
    const struct cli_flag more[] = { { "scenario", "FILE", "whose model, machine and GPUs the files are for", &file } };
    if (!cli_parse(&command_import, argc, argv, &flags, more, 1, &code)) {
        return code;
    }
    struct error error = { 0 };
    struct scenario scenario = { 0 };
    struct arena arena = { 0 };
    struct strbuf out = { 0 };
    enum status status = STATUS_OK;
    if (strcmp(flags.positionals[0], "galvatron") != 0) {
        status = error_set(&error, STATUS_BAD_INPUT, "files of \"%.64s\" cannot be taken over; known: galvatron",
                           flags.positionals[0]);
    } else if (file == NULL) {
        status =
            error_set(&error, STATUS_BAD_INPUT, "--scenario is missing: whose model and machine are the files for?");
    }
    if (status == STATUS_OK) {
        status = scenario_load(&scenario, file, flags.sets, flags.set_count, &error);
    }
    if (status == STATUS_OK) {
        status = import(&flags, &scenario, &arena, &out, &error);
    }
    if (status == STATUS_OK && flags.out != NULL) {
        status = file_write(flags.out, out.text, out.length, &error);
    }
    if (status != STATUS_OK) {
        code = cli_complain(&error);
    } else if (flags.out != NULL) {
        if (!flags.quiet) {
            fprintf(stderr, "memwall: written to %s\n", flags.out);
        }
        code = EXIT_DONE;
    } else {
        code = cli_print(&out, EXIT_DONE);
    }
    strbuf_free(&out);
    arena_free(&arena);
    scenario_free(&scenario);
    return code;
}
