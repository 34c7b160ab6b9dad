/* Fuzz the reader of results and the page: the texts of a true run with bytes and words exchanged, cut, mixed. What is read must make a page that is XML with nothing from outside; what is refused
 * says why. Nothing may crash (run under ASan and UBSan). */
#include "sim/report/files.h"
#include "sim/report/html/step_page.h"
#include "tests/fuzz/fuzz.h"
#include "tests/html_check.h"
#include "tests/report_run.h"

static const char SCENARIO[] =
    "{\"schema\":\"memwall.scenario/1\",\"name\":\"t\",\"model\":{\"family\":\"gpt\",\"layers\":2,\"hidden\":128,"
    "\"heads\":4,\"ffn\":512,\"vocab\":100,\"max_sequence\":64},\"machine\":\"toy-2gpu\",\"software\":\"ideal\","
    "\"training\":{\"sequence_length\":64,\"micro_batch\":1,\"global_batch\":4},\"parallel\":{\"pipeline\":2,"
    "\"data\":1}}";

static const char STUDIES[] =
    ",\"money\":{\"total_usd\":1e6,\"parts\":[{\"gpu_usd\":3}]},\"uncertainty\":{\"step_time_interval_s\":{\"p5\":1,"
    "\"p95\":2}},\"sensitivity\":[{\"resource\":\"pcie\",\"factor\":2,\"change\":-0.1,\"step_time_s\":1}],"
    "\"critical_path\":{\"causes\":[{\"cause\":\"forward\",\"time_s\":1,\"share\":1}]}}\n";

static const char *const PIECES[] = { "null",
                                      "-1",
                                      "1e308",
                                      "0",
                                      "\"\"",
                                      "[]",
                                      "{}",
                                      "true",
                                      "1e-300",
                                      "\"<\"",
                                      "\"&\"",
                                      "\"\\u0001\"",
                                      "18446744073709551615",
                                      ",",
                                      "\n",
                                      "\"" };
enum { PIECE_COUNT = sizeof PIECES / sizeof PIECES[0] };

static struct strbuf seeds[STEP_TEXT_COUNT];

static void make_seeds(void)
{
    struct report_run run = { 0 };
    struct error error = { 0 };
    struct explanation explanation;
    if (!report_run(&run, SCENARIO)) {
        return;
    }
    const struct explain_input input = { .scenario = &run.scenario, .result = &run.result, .input = &run.input };
    result_print_json(&run.result, &run.input, &seeds[STEP_RESULT]);
    seeds[STEP_RESULT].length -= 3; /* "\n}\n" */
    strbuf_append(&seeds[STEP_RESULT], STUDIES);
    EXPECT_INT(explain_scenario(&explanation, &input, &error), STATUS_OK);
    explanation_print_json(&explanation, &seeds[STEP_EXPLAIN]);
    explanation_free(&explanation);
    EXPECT_INT(
        files_series(&run.result, &run.input, &seeds[STEP_OPS], &seeds[STEP_MEMORY], &seeds[STEP_TRAFFIC], &error),
        STATUS_OK);
    report_run_free(&run);
}

/* A value (after a colon, a comma or a bracket) gives way to a piece. */
static void exchange(struct strbuf *text, uint64_t *state)
{
    size_t at = test_below(state, text->length + 1);
    while (at < text->length && strchr(":,[", text->text[at]) == NULL) {
        at++;
    }
    at += at < text->length;
    size_t end = at;
    while (end < text->length && strchr(",]}\n", text->text[end]) == NULL) {
        end++;
    }
    struct strbuf made = { 0 };
    strbuf_append_n(&made, text->text, at);
    strbuf_append(&made, PIECES[test_below(state, PIECE_COUNT)]);
    strbuf_append_n(&made, text->text + end, text->length - end);
    strbuf_free(text);
    *text = made;
}

static void spoil(struct strbuf *text, uint64_t *state)
{
    for (uint64_t n = test_below(state, 3); n-- > 0;) {
        exchange(text, state);
    }
    if (test_below(state, 6) == 0 && text->length > 0) {
        text->text[test_below(state, text->length)] = (char)(1 + test_below(state, 255));
    }
    if (test_below(state, 12) == 0 && text->length > 0) {
        text->length = test_below(state, text->length);
        text->text[text->length] = '\0';
    }
}

static void one(uint64_t *state)
{
    struct strbuf texts[STEP_TEXT_COUNT] = { 0 };
    struct step_texts given = { 0 };
    struct step_source source;
    struct error error = { 0 };
    static const char *const words[] = { "memwall", "run" };
    uint64_t target = test_below(state, STEP_TEXT_COUNT + 1); /* one of them is spoilt, or none */
    for (int i = 0; i < STEP_TEXT_COUNT; i++) {
        if (i == STEP_RUN) {
            const struct run_record record = {
                .version = "1", .words = words, .word_count = 2, .result_text = texts[STEP_RESULT].text
            };
            run_record_json(&record, &texts[i]); /* fits the result as spoilt */
        } else {
            strbuf_append_n(&texts[i], seeds[i].text, seeds[i].length);
        }
        if ((uint64_t)i == target) {
            spoil(&texts[i], state);
        }
        if (i == STEP_RESULT || test_below(state, 10) > 0) {
            given.texts[i] = texts[i].text;
            given.lengths[i] = texts[i].length;
        } else {
            strbuf_free(&texts[i]);
        }
    }
    if (step_source_read(&source, &given, &error) == STATUS_OK) {
        struct strbuf page = { 0 };
        EXPECT_INT(step_page_print(&source, "1", "memwall report", &page, &error), STATUS_OK);
        EXPECT(html_check(page.text) > 20);
        strbuf_free(&page);
        step_source_free(&source);
    } else {
        EXPECT(target < STEP_TEXT_COUNT);
        EXPECT(error.message[0] != '\0');
    }
}

static void round_of(uint64_t seed)
{
    uint64_t state = seed;
    for (int i = 0; i < 10 && test_failures == 0; i++) {
        one(&state);
    }
}

int main(int argc, char **argv)
{
    make_seeds();
    int code = test_failures == 0 ? fuzz_run(round_of, argc, argv) : 1;
    for (int i = 0; i < STEP_TEXT_COUNT; i++) {
        strbuf_free(&seeds[i]);
    }
    return code;
}
