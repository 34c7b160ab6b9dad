/* What a report of a step is made from: the texts that `memwall run --out DIR` writes (files.h). A report of a scenario hands over the same texts without files between.
 *
 *   result.json    needed                                          memwall.result/1
 *   run.json       how it was made: for "how to repeat it"         memwall.run/1
 *   explain.json   every term with its source: for "assumptions"   memwall.explain/1
 *   ops.csv, memory.csv   for the pictures over time
 *   traffic.csv    for those of links over time
 *
 * What is not there, or does not belong to the result, leaves its part of the report out; `notes` says so, and how to get it. */
#ifndef MEMWALL_REPORT_HTML_STEP_SOURCE_H
#define MEMWALL_REPORT_HTML_STEP_SOURCE_H

#include "sim/report/explain.h"
#include "sim/report/html/step_result.h"
#include "sim/report/html/step_series.h"
#include "sim/report/html/step_traffic.h"

enum { RUN_WORDS_MAX = 256 };

/* run.json: who made the result and how. Texts borrow from the document; NULL: not said. */
struct step_run {
    const char *version, *scenario_file, *scenario_hash, *result_hash;
    const char *words[RUN_WORDS_MAX]; /* of the command, the first is "memwall" */
    uint32_t word_count;
    struct strbuf scenario; /* JSON, with everything that the command changed */
};

/* Texts made with malloc, or NULL. `file`s name them in messages and stay the caller's. */
enum step_text { STEP_RESULT, STEP_RUN, STEP_EXPLAIN, STEP_OPS, STEP_MEMORY, STEP_TRAFFIC, STEP_TEXT_COUNT };
struct step_texts {
    char *texts[STEP_TEXT_COUNT];
    size_t lengths[STEP_TEXT_COUNT];
};

struct step_source {
    struct step_result result;
    struct step_run run;
    struct explanation explanation;
    struct step_series series;
    struct step_traffic traffic;
    bool has_run, has_explanation, has_series, has_traffic;
    struct hash result_hash; /* of the bytes of result.json */
    struct strbuf notes;     /* a line each */
    struct step_texts texts; /* owned */
    struct json_document *documents[STEP_OPS];
};

/* "result.json" and so on. */
const char *step_text_name(enum step_text which);

/* Takes over the texts, also on error. STATUS_BAD_INPUT names what is wrong in which text: no result, another format, broken tables. On error nothing stays allocated. */
enum status step_source_read(struct step_source *source, struct step_texts *texts, struct error *error);
/* From a folder that `memwall run --out` wrote, or a result's file: with its neighbours when they belong to it. */
enum status step_source_load(struct step_source *source, const char *path, struct error *error);
void step_source_free(struct step_source *source);

/* run.json. `words`: of the command line, words[0] is "memwall". `scenario`: JSON text. `scenario`, its hash NULL: not known. result_text: of result.json, for its hash. */
struct run_record {
    const char *version;
    const char *const *words;
    uint32_t word_count;
    const char *scenario_file, *scenario, *scenario_hash, *result_text;
};
void run_record_json(const struct run_record *record, struct strbuf *out);

#endif
