#include "sim/report/html/step_source.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "sim/base/check.h"
#include "sim/base/file.h"
#include "sim/base/hash.h"
#include "sim/base/json_write.h"

/* Op by op a large job's table has tens of millions of bytes. */
#define TABLE_BYTES_MAX ((size_t)1 << 30)

const char *step_text_name(enum step_text which)
{
    static const char *const names[STEP_TEXT_COUNT] = { "result.json", "run.json",   "explain.json",
                                                        "ops.csv",     "memory.csv", "traffic.csv" };
    return names[which];
}

/* --- run.json */

void run_record_json(const struct run_record *record, struct strbuf *out)
{
    struct json_writer w = { .out = out };
    struct hash hash = hash_start();
    char text[HASH_TEXT_BYTES];
    hash_bytes(&hash, record->result_text, strlen(record->result_text));
    jw_object(&w, NULL);
    jw_string(&w, "schema", "memwall.run/1");
    jw_string(&w, "version", record->version);
    jw_array(&w, "command");
    for (uint32_t i = 0; i < record->word_count; i++) {
        jw_string(&w, NULL, record->words[i]);
    }
    jw_end(&w);
    jw_string(&w, "scenario_file", record->scenario_file);
    jw_string(&w, "scenario_hash", record->scenario_hash);
    jw_string(&w, "result_hash", hash_text(&hash, text));
    if (record->scenario != NULL) {
        jw_raw(&w, "scenario", record->scenario);
    } else {
        jw_null(&w, "scenario");
    }
    jw_end(&w);
    strbuf_char(out, '\n');
}

static enum status read_run(struct step_run *run, const struct json *root, struct error *error)
{
    static const char *const schemas[] = { "memwall.run/1" };
    struct json words, item;
    size_t schema;
    TRY(json_word(root, "schema", schemas, 1, &schema, error));
    TRY(json_string(root, "version", &run->version, error));
    TRY(json_string_or(root, "scenario_file", NULL, &run->scenario_file, error));
    TRY(json_string_or(root, "scenario_hash", NULL, &run->scenario_hash, error));
    TRY(json_string(root, "result_hash", &run->result_hash, error));
    TRY(json_array(root, "command", &words, error));
    for (size_t i = 0; i < json_count(&words) && i < RUN_WORDS_MAX; i++) {
        json_item(&words, i, &item);
        TRY(json_as_string(&item, &run->words[run->word_count], error));
        run->word_count++;
    }
    TRY(json_object_optional(root, "scenario", &item, error));
    if (item.node != NULL) {
        json_print_pretty(&item, &run->scenario);
    }
    return run->scenario.failed ? error_set(error, STATUS_NO_MEMORY, "out of memory") : STATUS_OK;
}

/* --- together */

static enum status parse(struct step_source *source, enum step_text which, struct json *root, struct error *error)
{
    TRY(json_parse(&source->documents[which], source->texts.texts[which], source->texts.lengths[which],
                   step_text_name(which), error));
    json_root(source->documents[which], root);
    return json_type(root) == JSON_OBJECT
               ? STATUS_OK
               : json_error(root, error, "expected an object, found %s", json_type_word(json_type(root)));
}

static bool has(const struct step_source *source, enum step_text which)
{
    return source->texts.texts[which] != NULL;
}

/* What stands beside a result is only of use when it was made with it: run.json says which result that was. */
static enum status read_neighbours(struct step_source *source, struct error *error)
{
    struct json root;
    char hash[HASH_TEXT_BYTES];
    if (!has(source, STEP_RUN)) {
        strbuf_append(&source->notes, "Only the result itself is there: no pictures over time, no sources of the "
                                      "machine's constants. `memwall run SCENARIO --out DIR` writes all of it, "
                                      "`memwall report DIR` reads it.\n");
        return STATUS_OK;
    }
    TRY(parse(source, STEP_RUN, &root, error));
    TRY(read_run(&source->run, &root, error));
    if (strcmp(source->run.result_hash, hash_text(&source->result_hash, hash)) != 0) {
        strbuf_append(&source->notes, "The files beside this result belong to another one (run.json says so) and are "
                                      "left out.\n");
        return STATUS_OK;
    }
    source->has_run = true;
    if (has(source, STEP_EXPLAIN)) {
        TRY(parse(source, STEP_EXPLAIN, &root, error));
        TRY(explanation_read(&source->explanation, &root, error));
        source->has_explanation = true;
    }
    if (has(source, STEP_OPS) && has(source, STEP_MEMORY)) {
        TRY(step_series_read(&source->series, source->texts.texts[STEP_OPS], step_text_name(STEP_OPS),
                             source->texts.texts[STEP_MEMORY], step_text_name(STEP_MEMORY), error));
        source->has_series = true;
    } else {
        strbuf_append(&source->notes, "ops.csv or memory.csv is missing: no pictures over time.\n");
    }
    if (has(source, STEP_TRAFFIC)) {
        TRY(step_traffic_read(&source->traffic, source->texts.texts[STEP_TRAFFIC], step_text_name(STEP_TRAFFIC),
                              error));
        source->has_traffic = true;
    } else {
        strbuf_append(&source->notes, "traffic.csv is missing: no pictures of links over time.\n");
    }
    return STATUS_OK;
}

enum status step_source_read(struct step_source *source, struct step_texts *texts, struct error *error)
{
    struct json root;
    enum status status;
    *source = (struct step_source){ .texts = *texts, .result_hash = hash_start() };
    *texts = (struct step_texts){ 0 };
    CHECK(has(source, STEP_RESULT));
    hash_bytes(&source->result_hash, source->texts.texts[STEP_RESULT], source->texts.lengths[STEP_RESULT]);
    TRY_OR_FAIL(parse(source, STEP_RESULT, &root, error));
    TRY_OR_FAIL(step_result_read(&source->result, &root, error));
    TRY_OR_FAIL(read_neighbours(source, error));
    if (source->result.sensitivity_count == 0 && source->result.step_time_s > 0) {
        strbuf_append(&source->notes,
                      "The result has no study of what binds: `memwall run --sensitivity --critical-path` adds it.\n");
    }
    return STATUS_OK;
fail:
    step_source_free(source);
    return status;
}

/* --- files */

static enum status load(struct step_texts *texts, enum step_text which, const char *path, struct error *error)
{
    size_t most = which >= STEP_OPS ? TABLE_BYTES_MAX : JSON_BYTES_MAX;
    return file_read(path, most, &texts->texts[which], &texts->lengths[which], error);
}

static enum status load_neighbours(struct step_texts *texts, const char *path, size_t folder_length,
                                   struct error *error)
{
    char name[4096];
    enum status status = STATUS_OK;
    for (int i = STEP_RUN; i < STEP_TEXT_COUNT && status == STATUS_OK; i++) {
        snprintf(name, sizeof name, "%.*s%s", (int)folder_length, path, step_text_name((enum step_text)i));
        status = file_exists(name) ? load(texts, (enum step_text)i, name, error) : STATUS_OK;
    }
    return status;
}

enum status step_source_load(struct step_source *source, const char *path, struct error *error)
{
    struct step_texts texts = { 0 };
    struct stat about;
    char file[4096];
    *source = (struct step_source){ 0 };
    bool folder = stat(path, &about) == 0 && S_ISDIR(about.st_mode);
    if (strlen(path) + 32 > sizeof file) {
        return error_set(error, STATUS_BAD_INPUT, "the file's name is longer than %zu characters", sizeof file - 32);
    }
    snprintf(file, sizeof file, "%s%s%s", path, folder ? "/" : "", folder ? step_text_name(STEP_RESULT) : "");
    if (folder && !file_exists(file)) {
        return error_at(error, STATUS_NOT_FOUND, path, NULL,
                        "there is no result.json in this folder: `memwall run SCENARIO --out DIR` writes one");
    }
    const char *slash = strrchr(file, '/');
    enum status status = load(&texts, STEP_RESULT, file, error);
    if (status == STATUS_OK) {
        status = load_neighbours(&texts, file, slash != NULL ? (size_t)(slash - file) + 1 : 0, error);
    }
    if (status == STATUS_OK) {
        status = step_source_read(source, &texts, error);
        if (status != STATUS_OK && error != NULL && folder && error->file[0] != '\0') {
            char name[ERROR_FILE_BYTES];
            snprintf(name, sizeof name, "%s", error->file);
            snprintf(error->file, sizeof error->file, "%.200s/%.50s", path, name);
        }
    }
    for (int i = 0; i < STEP_TEXT_COUNT; i++) {
        free(texts.texts[i]);
    }
    return status;
}

void step_source_free(struct step_source *source)
{
    step_result_free(&source->result);
    strbuf_free(&source->run.scenario);
    explanation_free(&source->explanation);
    step_series_free(&source->series);
    step_traffic_free(&source->traffic);
    strbuf_free(&source->notes);
    for (int i = 0; i < STEP_OPS; i++) {
        json_free(source->documents[i]);
    }
    for (int i = 0; i < STEP_TEXT_COUNT; i++) {
        free(source->texts.texts[i]);
    }
    *source = (struct step_source){ 0 };
}
