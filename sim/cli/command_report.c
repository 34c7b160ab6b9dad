/* memwall report: a step or a sweep as one HTML file. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "sim/base/check.h"
#include "sim/base/file.h"
#include "sim/base/json.h"
#include "sim/base/json_write.h"
#include "sim/base/schema.h"
#include "sim/cli/cli.h"
#include "sim/cli/job.h"
#include "sim/cli/plugins.h"
#include "sim/cli/run_studies.h"
#include "sim/cli/run_texts.h"
#include "sim/report/html/step_page.h"
#include "sim/sweep/sweep_page.h"

static enum exit_code run(int argc, char **argv);

const struct cli_command command_report = {
    .name = "report",
    .out_file = "write the page into FILE, or as report.html into a folder",
    .out_either = true,
    .usage = "SCENARIO.json|RESULT|SWEEP.db [--out report.html] [flags]",
    .summary = "one HTML file to decide by: the answer, pictures, what binds, sources, how to repeat it",
    .help =
        "From\n"
        "  a scenario     simulated here, with what binds and the critical path; --uncertainty, --mtbf-hours and so "
        "on\n"
        "                 add more, as in memwall run\n"
        "  a result       the folder that memwall run --out wrote, or a result.json (memwall run --json)\n"
        "  a database     of memwall sweep --db: the best rows, step time against memory, what failed and why, what\n"
        "                 each axis does\n"
        "The file needs nothing else: no network, no script to be read, light and dark, on a telephone and on paper.\n"
        "Without --out it goes to standard output. For example\n"
        "  memwall report scenarios/gpt3-175b-dgx-a100.json --out report.html\n"
        "Exit: 0 written, 2 written and the step does not fit (of a sweep: nothing fits), 1 bad input.\n",
    .positional_min = 1,
    .positional_max = 1,
    .takes_scenario = true,
    .run = run,
};

/* The first bytes of every SQLite 3 file (its file format, section 1.3). */
static const char SQLITE_MAGIC[] = "SQLite format 3";

struct call {
    struct cli_flags flags;
    struct run_studies studies;
    const char *sweep, *quick, *plan;
    int argc;
    char **argv;
    struct strbuf command, page;
    const char *kind; /* what it is a report of */
    bool fits;
};

/* --- a step */

static enum status print_step(struct call *call, const struct step_source *source, struct error *error)
{
    call->fits = source->result.fits;
    return step_page_print(source, MEMWALL_VERSION, call->command.text, &call->page, error);
}

static enum status report_result(struct call *call, struct error *error)
{
    struct step_source source;
    TRY(step_source_load(&source, call->flags.positionals[0], error));
    enum status status = print_step(call, &source, error);
    step_source_free(&source);
    return status;
}

/* Standard input and pipes are read once: the result stands alone. */
static enum status report_piped(struct call *call, const char *text, size_t length, struct error *error)
{
    struct step_texts texts = { 0 };
    struct step_source source;
    texts.texts[STEP_RESULT] = malloc(length + 1);
    if (texts.texts[STEP_RESULT] == NULL) {
        return error_set(error, STATUS_NO_MEMORY, "out of memory for the report");
    }
    memcpy(texts.texts[STEP_RESULT], text, length + 1);
    texts.lengths[STEP_RESULT] = length;
    TRY(step_source_read(&source, &texts, error));
    enum status status = print_step(call, &source, error);
    step_source_free(&source);
    return status;
}

static void hand_over(struct step_texts *texts, enum step_text which, struct strbuf *from)
{
    texts->texts[which] = from->text;
    texts->lengths[which] = from->length;
    *from = (struct strbuf){ 0 };
}

static enum status print_job(struct call *call, const struct job *job, struct error *error)
{
    struct run_texts record = { 0 };
    struct step_texts texts = { 0 };
    struct step_source source;
    struct strbuf ops = { 0 }, memory = { 0 }, traffic = { 0 };
    result_print_json(&job->result, &job->input, &record.result);
    run_studies_add_json(&call->studies, job, &record.result);
    enum status status = run_texts_make(&record, job, &call->flags, call->argc, call->argv, error);
    if (status == STATUS_OK) {
        status = files_series(&job->result, &job->input, &ops, &memory, &traffic, error);
    }
    if (status == STATUS_OK) {
        hand_over(&texts, STEP_RESULT, &record.result);
        hand_over(&texts, STEP_RUN, &record.run);
        hand_over(&texts, STEP_EXPLAIN, &record.explain);
        hand_over(&texts, STEP_OPS, &ops);
        hand_over(&texts, STEP_MEMORY, &memory);
        hand_over(&texts, STEP_TRAFFIC, &traffic);
        status = step_source_read(&source, &texts, error);
    }
    run_texts_free(&record);
    strbuf_free(&ops);
    strbuf_free(&memory);
    strbuf_free(&traffic);
    if (status == STATUS_OK) {
        status = print_step(call, &source, error);
        step_source_free(&source);
    }
    return status;
}

static enum status report_scenario(struct call *call, const char *text, struct error *error)
{
    struct job job = { 0 };
    call->kind = "scenario";
    call->flags.scenario = text;
    call->studies.sensitivity = call->quick != NULL ? NULL : "1";
    call->studies.critical_path = "1";
    enum status status = run_studies_read(&call->studies, &exec_sim, error);
    if (status == STATUS_OK) {
        status = job_load(&job, &call->flags, error);
    }
    if (status == STATUS_OK) {
        status = job_lower(&job, error);
    }
    if (status == STATUS_OK) {
        status = job_execute(&job, &call->flags, &exec_sim, NULL, error);
    }
    if (status == STATUS_OK) {
        status = run_studies_compute(&call->studies, &job, call->flags.quiet, error);
    }
    if (status == STATUS_OK) {
        status = print_job(call, &job, error);
    }
    run_studies_free(&call->studies);
    job_free(&job);
    return status;
}

/* --- a sweep */

static enum status report_sweep(struct call *call, struct error *error)
{
    struct sweep_database *database;
    double id = 0;
    call->kind = "sweep";
    if (call->sweep != NULL && !cli_whole("sweep", call->sweep, 1, 1e9, &id)) {
        return error_set(error, STATUS_BAD_INPUT, "--sweep needs the number of a sweep of the database");
    }
    TRY(sweep_database_open_to_read(&database, call->flags.positionals[0], plugins_results_version(), error));
    const struct sweep_page_request request = {
        .file = call->flags.positionals[0],
        .command = call->command.text,
        .sweep = (int64_t)id,
    };
    enum status status = sweep_page_print(database, &request, &call->page, &call->fits, error);
    sweep_database_close(database);
    return status;
}

/* --- which of them */

/* What changes or studies a scenario means nothing to what was simulated before. */
static enum status refuse_flags(const struct call *call, const char *what, bool is_sweep, struct error *error)
{
    const struct cli_flags *flags = &call->flags;
    const char *flag = flags->set_count > 0               ? "--set"
                       : flags->detail != NULL            ? "--detail"
                       : flags->no_fold                   ? "--no-fold"
                       : call->quick != NULL              ? "--quick"
                       : run_studies_any(&call->studies)  ? "a study"
                       : call->sweep != NULL && !is_sweep ? "--sweep"
                                                          : NULL;
    return flag == NULL
               ? STATUS_OK
               : error_at(error, STATUS_BAD_INPUT, flags->positionals[0], NULL, "holds %s: %s is for %s", what, flag,
                          call->sweep != NULL && !is_sweep
                              ? "databases of sweeps"
                              : "scenarios, which are simulated; give the scenario instead");
}

static enum status report_text(struct call *call, const char *text, size_t length, bool is_file, struct error *error)
{
    struct json_document *document = NULL;
    struct json root;
    const char *file = call->flags.positionals[0];
    TRY(json_parse(&document, text, length, file, error));
    json_root(document, &root);
    const char *schema = schema_of(&root);
    bool result = strncmp(schema, "memwall.result/", strlen("memwall.result/")) == 0;
    bool scenario = strncmp(schema, "memwall.scenario/", strlen("memwall.scenario/")) == 0 || schema[0] == '\0';
    enum status status = STATUS_OK;
    if (result) {
        status = refuse_flags(call, "a result", false, error);
    } else if (strncmp(schema, "memwall.sweep/", strlen("memwall.sweep/")) == 0) {
        status = json_error(&root, error,
                            "this is a sweep that has yet to run: memwall sweep %.200s --db FILE.db, then memwall "
                            "report FILE.db",
                            file);
    } else if (!scenario) {
        status = json_error(&root, error,
                            "found \"%.64s\"; allowed are \"memwall.scenario/1\", \"memwall.result/1\" and databases "
                            "of memwall sweep",
                            schema);
    } else if (call->sweep != NULL) {
        status = refuse_flags(call, "a scenario", false, error);
    }
    json_free(document);
    TRY(status);
    return !result   ? report_scenario(call, text, error)
           : is_file ? report_result(call, error)
                     : report_piped(call, text, length, error);
}

static enum status report(struct call *call, struct error *error)
{
    const char *file = call->flags.positionals[0];
    struct stat about;
    char *text = NULL;
    size_t length = 0;
    call->kind = "result";
    bool known = strcmp(file, "-") != 0 && stat(file, &about) == 0; /* "-" is standard input, whatever lies here */
    if (known && S_ISDIR(about.st_mode)) {
        TRY(refuse_flags(call, "a result", false, error));
        return report_result(call, error);
    }
    char start[sizeof SQLITE_MAGIC] = "";
    FILE *stream = known && S_ISREG(about.st_mode) ? fopen(file, "rb") : NULL;
    if (stream != NULL) {
        size_t got = fread(start, 1, sizeof start - 1, stream);
        start[got] = '\0';
        (void)fclose(stream);
    }
    if (strcmp(start, SQLITE_MAGIC) == 0) {
        TRY(refuse_flags(call, "a sweep's results", true, error));
        return report_sweep(call, error);
    }
    TRY(file_read(file, JSON_BYTES_MAX, &text, &length, error));
    enum status status = report_text(call, text, length, known && S_ISREG(about.st_mode), error);
    free(text);
    return status;
}

/* --- the answer */

/* --out names the file; an existing folder gets report.html. */
static enum status write_page(const struct call *call, char *path, size_t size, struct error *error)
{
    struct stat about;
    bool folder = stat(call->flags.out, &about) == 0 && S_ISDIR(about.st_mode);
    if (snprintf(path, size, "%s%s", call->flags.out, folder ? "/report.html" : "") >= (int)size) {
        return error_set(error, STATUS_IO, "--out: the path is too long");
    }
    return file_write(path, call->page.text, call->page.length, error);
}

static enum exit_code answer(struct call *call, enum exit_code code)
{
    struct strbuf out = { 0 };
    struct error error = { 0 };
    char path[4096] = "";
    if (call->flags.out == NULL) {
        return cli_print(&call->page, code);
    }
    if (write_page(call, path, sizeof path, &error) != STATUS_OK) {
        return cli_complain(&error);
    }
    if (call->flags.json) {
        struct json_writer w = { .out = &out };
        jw_object(&w, NULL);
        jw_string(&w, "schema", "memwall.report/1");
        jw_string(&w, "of", call->kind);
        jw_string(&w, "file", path);
        jw_uint(&w, "bytes", call->page.length);
        jw_bool(&w, "fits", call->fits);
        jw_end(&w);
        strbuf_char(&out, '\n');
    } else {
        strbuf_printf(&out, "Written to %s (%zu kB): a report of the %s\n", path, (call->page.length + 999) / 1000,
                      call->kind);
    }
    return cli_print(&out, code);
}

static enum exit_code run(int argc, char **argv)
{
    struct call call = { .argc = argc, .argv = argv };
    enum { OWN = 3 };
    struct cli_flag more[OWN + STUDY_FLAG_COUNT] = {
        { "sweep", "ID", "of a database with several sweeps: which", &call.sweep },
        { "quick", NULL, "of a scenario: leave out the re-simulations that show what binds", &call.quick },
        { "plan", "FILE", "of a scenario: a plan in place of its own split", &call.plan },
    };
    struct error error = { 0 };
    enum exit_code code;
    run_studies_flags(&call.studies, more + OWN);
    if (!cli_parse(&command_report, argc, argv, &call.flags, more, OWN + STUDY_FLAG_COUNT, &code)) {
        return code;
    }
    if (call.flags.json && call.flags.out == NULL) {
        (void)error_at(&error, STATUS_BAD_INPUT, "--json", NULL, "says what was written: it needs --out FILE");
        return cli_complain(&error);
    }
    call.flags.plan = call.plan;
    const char *words[256] = { "memwall" };
    uint32_t count = 1;
    for (int i = 0; i < argc && count < 256; i++) {
        words[count++] = argv[i];
    }
    page_command(words, count, &call.command);
    enum status status = report(&call, &error);
    if (status == STATUS_OK && (call.page.failed || call.command.failed)) {
        status = error_set(&error, STATUS_NO_MEMORY, "out of memory for the report");
    }
    code = status == STATUS_OK ? answer(&call, call.fits ? EXIT_DONE : EXIT_DOES_NOT_FIT) : cli_complain(&error);
    strbuf_free(&call.page);
    strbuf_free(&call.command);
    return code;
}
