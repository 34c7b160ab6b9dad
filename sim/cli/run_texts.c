#include "sim/cli/run_texts.h"

#include <stdio.h>
#include <string.h>

#include "sim/base/check.h"
#include "sim/report/explain.h"
#include "sim/report/html/step_source.h"
#include "sim/sweep/sweep_scenario.h"
#include "strategies/planners/plan_answer.h"

/* The scenario as it was run: the file with all that the flags changed. Stays empty where it cannot be read again. */
static enum status effective_scenario(const struct cli_flags *flags, struct strbuf *text, struct error *error)
{
    if (!job_can_load_again(flags)) {
        return STATUS_OK;
    }
    struct json_document *document = NULL;
    struct json root;
    char detail[64];
    enum status status = flags->scenario != NULL ? json_parse(&document, flags->scenario, strlen(flags->scenario),
                                                              flags->positionals[0], error)
                                                 : json_load(&document, flags->positionals[0], JSON_BYTES_MAX, error);
    for (uint32_t i = 0; i < flags->set_count && status == STATUS_OK; i++) {
        /* with a plan its keys change that, not the scenario */
        status = flags->plan != NULL && plan_answer_takes_set(flags->sets[i])
                     ? STATUS_OK
                     : scenario_set(document, flags->sets[i], error);
    }
    if (status == STATUS_OK && flags->detail != NULL) {
        snprintf(detail, sizeof detail, "detail=%s", flags->detail);
        status = scenario_set(document, detail, error);
    }
    if (status == STATUS_OK && flags->no_fold) {
        status = scenario_set(document, "fold=false", error);
    }
    if (status == STATUS_OK) {
        json_root(document, &root);
        sweep_canonical(&root, text);
        status = text->failed ? error_set(error, STATUS_NO_MEMORY, "out of memory") : STATUS_OK;
    }
    json_free(document);
    return status;
}

static enum status make_run(struct run_texts *texts, const struct cli_flags *flags, int argc, char *const *argv,
                            struct error *error)
{
    const char *words[RUN_WORDS_MAX] = { "memwall" };
    char text[HASH_TEXT_BYTES];
    struct strbuf scenario = { 0 };
    struct hash hash;
    uint32_t count = 1;
    for (int i = 0; i < argc && count < RUN_WORDS_MAX; i++) {
        words[count++] = argv[i];
    }
    enum status status = effective_scenario(flags, &scenario, error);
    if (status == STATUS_OK) {
        /* a plan file is no part of the scenario: no hash says all then */
        bool hashed = flags->plan == NULL && scenario.text != NULL &&
                      sweep_scenario_hash(scenario.text, &hash, NULL) == STATUS_OK;
        const struct run_record record = {
            .version = MEMWALL_VERSION,
            .words = words,
            .word_count = count,
            .scenario_file = flags->positionals[0],
            .scenario = scenario.text,
            .scenario_hash = hashed ? hash_text(&hash, text) : NULL,
            .result_text = texts->result.text,
        };
        run_record_json(&record, &texts->run);
    }
    strbuf_free(&scenario);
    return status;
}

static enum status make_explanation(struct run_texts *texts, const struct job *job, struct error *error)
{
    struct explanation explanation = { 0 };
    const struct explain_input input = {
        .scenario = &job->scenario, .result = &job->result, .input = &job->input, .facts = &job->facts
    };
    enum status status = explain_scenario(&explanation, &input, error);
    if (status == STATUS_OK) {
        explanation_print_json(&explanation, &texts->explain);
    }
    explanation_free(&explanation);
    return status;
}

enum status run_texts_make(struct run_texts *texts, const struct job *job, const struct cli_flags *flags, int argc,
                           char *const *argv, struct error *error)
{
    if (texts->result.failed) {
        return error_set(error, STATUS_NO_MEMORY, "out of memory for the result");
    }
    TRY(make_run(texts, flags, argc, argv, error));
    if (job->timeline.resources != NULL) {
        TRY(make_explanation(texts, job, error));
    }
    return texts->run.failed || texts->explain.failed ? error_set(error, STATUS_NO_MEMORY, "out of memory") : STATUS_OK;
}

void run_texts_files(const struct run_texts *texts, struct files_options *files)
{
    files->result_json = texts->result.text;
    files->run_json = texts->run.text;
    files->explain_json = texts->explain.text;
}

void run_texts_free(struct run_texts *texts)
{
    strbuf_free(&texts->result);
    strbuf_free(&texts->run);
    strbuf_free(&texts->explain);
}
