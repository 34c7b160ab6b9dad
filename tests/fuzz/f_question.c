/* Fuzz the loader of questions: a valid one with pieces exchanged and bytes changed. What loads has candidates whose scenario texts are JSON, prices and terms in range; what is refused says why.
 * Nothing may crash (run under ASan and UBSan). */
#include "sim/buy/buy.h"
#include "tests/fuzz/fuzz.h"

static const char seed_text[] =
    "{\"schema\":\"memwall.question/1\",\"name\":\"t\",\"model\":\"gpt2\",\"software\":\"megatron\",\"training\":{"
    "\"sequence_length\":512,\"global_batch\":8,\"precision\":\"fp16\"},\"tokens\":1e9,\"deadline_days\":30,"
    "\"budget_usd\":1000,\"goal\":\"cost\",\"pay\":\"cheaper\",\"electricity_usd_per_kwh\":0.12,\"carbon_g_per_kwh\":"
    "350,\"pue\":1.2,\"amortise_years\":4,\"utilisation\":0.8,\"goodput\":0.9,\"planner\":\"exhaustive\","
    "\"planner_parameters\":{\"simulate\":2},\"machines\":[{\"machine\":\"toy-2gpu\",\"nodes\":[1,2],\"name\":\"x\"},"
    "{\"machine\":\"dgx-a100-80gb\",\"nodes\":2,\"gpus\":12,\"usd_per_gpu_hour\":1.5,\"system_usd\":100000,\"system_"
    "W\":"
    "6000}]}";

static const char *const pieces[] = { "\"nodes\"",
                                      "\"gpus\"",
                                      "\"machine\"",
                                      "\"machines\"",
                                      "\"tokens\"",
                                      "\"training\"",
                                      "\"global_batch\"",
                                      "\"planner\"",
                                      "\"pay\"",
                                      "\"rent\"",
                                      "\"own\"",
                                      "\"time\"",
                                      "\"galvatron-bmw\"",
                                      "\"dgx1-v100-32gb\"",
                                      "\"bf16\"",
                                      "1e308",
                                      "1e18",
                                      "1048576",
                                      "-1",
                                      "0",
                                      "0.5",
                                      "null",
                                      "[]",
                                      "{}",
                                      "[1,2,3]",
                                      "{\"base\":\"toy-2gpu\"}",
                                      "true" };
enum { PIECE_COUNT = sizeof pieces / sizeof pieces[0], TEXT_MAX = 4096 };

/* A value (a word in quotes, or a digit) from some place on gives way to a piece. */
static void exchange(char *text, uint64_t *state)
{
    size_t at = test_below(state, strlen(text));
    const char *piece = pieces[test_below(state, PIECE_COUNT)];
    while (text[at] != '\0' && text[at] != '"' && (text[at] < '0' || text[at] > '9')) {
        at++;
    }
    if (text[at] == '\0') {
        return;
    }
    size_t end = at + 1;
    if (text[at] == '"') {
        end += strcspn(text + end, "\"");
        end += text[end] == '"';
    } else {
        end += strspn(text + end, "0123456789.e");
    }
    char rest[TEXT_MAX];
    snprintf(rest, sizeof rest, "%s", text + end);
    snprintf(text + at, TEXT_MAX - at, "%s%s", piece, rest);
}

static void check_loaded(const struct question *q)
{
    EXPECT(q->candidate_count > 0 && q->candidate_count <= QUESTION_CANDIDATES_MAX);
    EXPECT(q->tokens > 0 && q->global_batch > 0 && q->planner != NULL);
    EXPECT(q->terms.utilisation > 0 && q->terms.utilisation <= 1 && q->terms.amortise_years > 0 && q->terms.pue >= 1);
    EXPECT(q->goodput > 0 && q->goodput <= 1);
    for (uint32_t i = 0; i < q->candidate_count; i++) {
        const struct candidate *candidate = &q->candidates[i];
        struct strbuf text = { 0 };
        struct json_document *document = NULL;
        struct error error = { 0 };
        EXPECT(candidate->gpus > 0 && candidate->nodes > 0 && candidate->gpus >= candidate->nodes);
        EXPECT(candidate->prices.system_usd.value >= 0 && candidate->prices.usd_per_gpu_hour.value >= 0);
        if (i < 4) {
            question_scenario(q, candidate, &text);
            EXPECT_INT(json_parse(&document, text.text, text.length, "scenario", &error), STATUS_OK);
            json_free(document);
        }
        strbuf_free(&text);
    }
}

/* Rows with figures at random: costs and changes stay finite, the ranking is by verdict, and both printers end. */
static void check_order(const struct question *q, uint64_t *state)
{
    struct buy_answer answer = { .question = q, .row_count = q->candidate_count };
    struct strbuf json = { 0 }, text = { 0 };
    answer.rows = arena_array(&answer.arena, struct buy_row, answer.row_count);
    for (uint32_t i = 0; answer.rows != NULL && i < answer.row_count; i++) {
        struct buy_row *row = &answer.rows[i];
        double step = (double)(1 + test_below(state, 100000)) / 1000;
        row->candidate = &q->candidates[i];
        row->verdict = BUY_DOES_NOT_FIT;
        if (test_below(state, 4) > 0) {
            row->figures.figures[FIGURE_step_time_s] = step;
            row->figures.figures[FIGURE_tokens_per_s] = 4096 / step;
            row->has_figures = true;
            buy_cost_row(q, row);
        }
    }
    buy_order(&answer);
    for (uint32_t i = 0; i < answer.row_count; i++) {
        EXPECT(i == 0 || answer.rows[i - 1].verdict <= answer.rows[i].verdict);
        for (int k = 0; k < BUY_CHANGE_COUNT; k++) {
            EXPECT(isfinite(answer.rows[i].changes[k].then) && isfinite(answer.rows[i].changes[k].now));
        }
    }
    buy_json(&answer, &json);
    buy_text(&answer, &text);
    struct json_document *document = NULL;
    struct error error = { 0 };
    EXPECT_INT(json_parse(&document, json.text, json.length, "answer", &error), STATUS_OK);
    json_free(document);
    strbuf_free(&json);
    strbuf_free(&text);
    buy_free(&answer);
}

static void round_of(uint64_t seed)
{
    uint64_t state = seed;
    for (int i = 0; i < 4 && test_failures == 0; i++) {
        char text[TEXT_MAX];
        struct question q;
        struct error error = { 0 };
        snprintf(text, sizeof text, "%s", seed_text);
        for (uint64_t n = test_below(&state, 4); n-- > 0;) {
            exchange(text, &state);
        }
        if (test_below(&state, 4) == 0) {
            text[test_below(&state, strlen(text))] = (char)(1 + test_below(&state, 255));
        }
        if (question_parse(&q, text, "f.json", &error) != STATUS_OK) {
            EXPECT(error.message[0] != '\0');
            continue;
        }
        check_loaded(&q);
        check_order(&q, &state);
        question_free(&q);
    }
}

int main(int argc, char **argv)
{
    return fuzz_run(round_of, argc, argv);
}
