/* The report of a step: writer, readers, and that the page says what the result says. */
#include "plots/link_bins.h"
#include "plots/memory_bins.h"
#include "sim/base/json_write.h"
#include "sim/base/units.h"
#include "sim/report/files.h"
#include "sim/report/html/csv_read.h"
#include "sim/report/html/html.h"
#include "sim/report/html/step_page.h"
#include "sim/report/link_kind.h"
#include "tests/html_check.h"
#include "tests/report_run.h"

/* --- the writer */

static void test_escaping(void)
{
    struct strbuf out = { 0 };
    struct html h = { .out = &out };
    html_open(&h, "p");
    html_attr(&h, "title", "a\"b<c>&d");
    html_text(&h, "x < y & z > \"q\" \r");
    html_text(&h, "\x01 \xff \xc3\xa9 \xed\xa0\x80 \xf0\x9f\x98\x80 \xc0\xaf \xef\xbf\xbf");
    html_close(&h, "p");
    html_finish(&h);
    /* surrogates, overlong forms and U+FFFF are three, two and three bytes that are no character */
    EXPECT_TEXT(out.text, "\n<p title=\"a&quot;b&lt;c&gt;&amp;d\">x &lt; y &amp; z &gt; &quot;q&quot; &#13;"
                          "\xef\xbf\xbd \xef\xbf\xbd \xc3\xa9 \xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd \xf0\x9f\x98\x80 "
                          "\xef\xbf\xbd\xef\xbf\xbd \xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd</p>");
    strbuf_free(&out);
}

static void test_elements(void)
{
    struct strbuf out = { 0 };
    struct html h = { .out = &out };
    html_open(&h, "i");
    html_open(&h, "rect");
    html_attr_real(&h, "x", 1.0 / 3);
    html_close(&h, "rect");
    html_open(&h, "rect");
    html_leaf(&h, "b", "c", "t");
    html_close(&h, "rect");
    html_open(&h, "b");
    html_close(&h, "b");
    html_data(&h, 0.1, "a tenth");
    html_close(&h, "i");
    html_finish(&h);
    EXPECT_TEXT(out.text, "<i><rect x=\"0.33\"/><rect><b class=\"c\">t</b></rect><b></b><data value=\"0.1\">a "
                          "tenth</data></i>");
    strbuf_free(&out);
}

static void test_grouped(void)
{
    static const char *const expected[][2] = {
        { "12288 x (24576 + 1234) = 1234567", "12,288 x (24,576 + 1234) = 1,234,567" },
        { "op 12345, of 84987084800 bytes", "op 12,345, of 84,987,084,800 bytes" },
        { "98765.43 s", "98,765.43 s" },
        { "arXiv 2205.05198, 10.1145/3458817, v100000, 20220101-a, 12345x",
          "arXiv 2205.05198, 10.1145/3458817, v100000, 20220101-a, 12345x" },
    };
    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++) {
        struct strbuf out = { 0 };
        struct html h = { .out = &out };
        html_text_grouped(&h, expected[i][0]);
        EXPECT_TEXT(out.text, expected[i][1]);
        strbuf_free(&out);
    }
}

static void test_shares(void)
{
    static const struct {
        double share;
        const char *text;
    } expected[] = { { 0, "0 %" },          { 1e-6, "< 0.01 %" }, { 0.0926, "9.26 %" }, { 0.0999, "9.99 %" },
                     { 0.09996, "10.0 %" }, { -0.34, "-34.0 %" }, { 0.9996, "100 %" },  { 2.5, "250 %" } };
    char text[32];
    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++) {
        EXPECT_TEXT(step_share_text(expected[i].share, text, sizeof text), expected[i].text);
    }
    EXPECT_TEXT(step_number_text(149.83, text, sizeof text), "150");
    EXPECT_TEXT(step_number_text(999.7, text, sizeof text), "1,000");
    EXPECT_TEXT(step_number_text(0.012345, text, sizeof text), "0.0123");
}

static void test_table(void)
{
    static const struct html_column columns[] = { { "what", false }, { "how much", true } };
    struct strbuf out = { 0 };
    struct html h = { .out = &out };
    html_table(&h, "A & B", columns, 2);
    html_row(&h);
    html_cell(&h, "gpu <0>");
    html_cell_data(&h, 2, "2 B");
    html_row_end(&h);
    html_row(&h); /* words among numbers stand where the numbers stand */
    html_cell(&h, "all");
    html_cell(&h, "yes");
    html_row_end(&h);
    html_row(&h);
    html_cell(&h, "rest");
    html_cell(&h, "more words than one line of a narrow column has");
    html_row_end(&h);
    html_table_end(&h);
    html_finish(&h);
    EXPECT_PART(out.text, "<th scope=\"row\" class=\"s\">all</th><td class=\"s r\">yes</td>");
    EXPECT_PART(out.text, "<td class=\"r\">more words");
    EXPECT_PART(out.text, "<caption id=\"t1\">A &amp; B</caption>");
    EXPECT_PART(out.text, "aria-labelledby=\"t1\"");
    EXPECT_PART(out.text, "<th scope=\"col\" class=\"n\">how much</th>");
    EXPECT_PART(out.text,
                "<th scope=\"row\" class=\"s\">gpu &lt;0&gt;</th><td class=\"n\"><data value=\"2\">2 B</data></td>");
    strbuf_free(&out);
}

/* The judge of pages itself. */
static void test_checker(void)
{
    static const char *const bad[] = {
        "<html></html>",
        "<!DOCTYPE html><p>",
        "<!DOCTYPE html><p></b></p>",
        "<!DOCTYPE html></p>",
        "<!DOCTYPE html><p a=1></p>",
        "<!DOCTYPE html><p a=\"1></p>",
        "<!DOCTYPE html><p>&nbsp;</p>",
        "<!DOCTYPE html><p>a & b</p>",
        "<!DOCTYPE html><p>\x01</p>",
        "<!DOCTYPE html><p>\xff</p>",
        "<!DOCTYPE html><p id=\"a\"></p><p id=\"a\"></p>",
        "<!DOCTYPE html><a href=\"#a\"></a>",
        "<!DOCTYPE html><a href=\"http://x\"></a>",
        "<!DOCTYPE html><img src=\"a.png\"/>",
        "<!DOCTYPE html><p onclick=\"f()\"></p>",
        "<!DOCTYPE html><p aria-labelledby=\"a b\"></p><p id=\"a\"></p>",
    };
    uint32_t elements;
    size_t at;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        if (html_complaint(bad[i], &elements, &at) == NULL) {
            TEST_FAIL_("no complaint of %s", bad[i]);
        }
    }
    EXPECT_INT(html_check("<!DOCTYPE html><p id=\"a\">&lt;\xc3\xa9<br/></p><a href=\"#a\"></a>"), 3);
}

/* --- the readers */

static void test_csv(void)
{
    char text[] = "a,\"b \"\"q\"\"\",c\r\n1,\"x,\ny\",\n2.5,,7";
    struct csv_reader reader;
    struct error error = { 0 };
    bool found = false;
    double value = 0;
    uint32_t column = 9;
    EXPECT_INT(csv_read_header(&reader, text, "t.csv", &error), STATUS_OK);
    EXPECT_INT(reader.columns, 3);
    EXPECT_TEXT(reader.names[1], "b \"q\"");
    EXPECT_INT(csv_read_column(&reader, "c", &column, &error), STATUS_OK);
    EXPECT_INT(column, 2);
    EXPECT_INT(csv_read_column(&reader, "d", &column, &error), STATUS_BAD_INPUT);
    EXPECT_INT(csv_read_row(&reader, &found, &error), STATUS_OK);
    EXPECT_TEXT(reader.cells[1], "x,\ny");
    EXPECT_INT(csv_read_number(&reader, 0, 1, -1, &value, &error), STATUS_OK);
    EXPECT_REAL(value, 1, 0);
    EXPECT_INT(csv_read_number(&reader, 2, 9, 5, &value, &error), STATUS_OK);
    EXPECT_REAL(value, 5, 0);
    EXPECT_INT(csv_read_number(&reader, 2, 9, -1, &value, &error), STATUS_BAD_INPUT);
    EXPECT_INT(csv_read_row(&reader, &found, &error), STATUS_OK);
    EXPECT_INT(csv_read_number(&reader, 0, 2, -1, &value, &error), STATUS_BAD_INPUT); /* above the most */
    EXPECT_PART(error.message, "from 0 to 2, found \"2.5\"");
    EXPECT_INT(csv_read_row(&reader, &found, &error), STATUS_OK);
    EXPECT(!found);
}

static void expect_bad_csv(const char *rows, const char *part)
{
    char text[64];
    struct csv_reader reader;
    struct error error = { 0 };
    bool found = true;
    snprintf(text, sizeof text, "%s", rows);
    enum status status = csv_read_header(&reader, text, "t.csv", &error);
    while (status == STATUS_OK && found) {
        status = csv_read_row(&reader, &found, &error);
    }
    EXPECT_INT(status, STATUS_BAD_INPUT);
    EXPECT_PART(error.message, part);
}

static void test_bad_csv(void)
{
    expect_bad_csv("", "column names");
    expect_bad_csv("a,b\n1\n", "as many cells");
    expect_bad_csv("a,b\n1,2,3\n", "as many cells");
    expect_bad_csv("a,b\n1,\"2\n", "does not end");
    expect_bad_csv("a,b\n\"1\"x,2\n", "does not end");
}

static enum status read_result(struct step_result *result, struct json_document **document, const char *text,
                               struct error *error)
{
    struct json root;
    EXPECT_INT(json_parse(document, text, strlen(text), "r.json", error), STATUS_OK);
    json_root(*document, &root);
    return step_result_read(result, &root, error);
}

static void expect_bad_result(const char *text, const char *part)
{
    struct step_result result;
    struct json_document *document = NULL;
    struct error error = { 0 };
    char message[2048];
    EXPECT_INT(read_result(&result, &document, text, &error), STATUS_BAD_INPUT);
    EXPECT_PART(error_text(&error, message, sizeof message), part);
    json_free(document);
}

static void test_bad_results(void)
{
    expect_bad_result("[]", "expected a result (an object)");
    expect_bad_result("{}", "schema");
    expect_bad_result("{\"schema\":\"memwall.scenario/1\"}", "expected a result (\"memwall.result/1\")");
    expect_bad_result("{\"schema\":\"memwall.result/2\"}", "a result of another memwall");
    expect_bad_result("{\"schema\":\"memwall.result/1\"}", "fits");
    expect_bad_result("{\"schema\":\"memwall.result/1\",\"fits\":true,\"step_time_s\":-1}", "$.step_time_s");
    expect_bad_result("{\"schema\":\"memwall.result/1\",\"fits\":true,\"step_time_s\":1,\"devices\":3}", "$.devices");
    expect_bad_result("{\"schema\":\"memwall.result/1\",\"fits\":true,\"step_time_s\":1,\"devices\":[3]}",
                      "$.devices[0]");
    expect_bad_result("{\"schema\":\"memwall.result/1\",\"fits\":true,\"step_time_s\":1,\"money\":3}", "$.money");
    expect_bad_result(
        "{\"schema\":\"memwall.result/1\",\"fits\":true,\"step_time_s\":1,\"critical_path\":{\"causes\":[{}]}}",
        "$.critical_path.causes[0]");
}

static void test_facts(void)
{
    static const char text[] =
        "{\"schema\":\"memwall.result/1\",\"fits\":true,\"step_time_s\":1,\"money\":{\"days\":2.5,\"energy_kwh\":2.5,"
        "\"note\":\"<b>\",\"rented\":{\"usd\":1234567,\"usd_per_trillion_tokens\":3.456,\"missing\":null},"
        "\"prices\":{\"system_W\":{\"value\":6500,\"estimated\":true,\"year\":2023}},\"parts\":[7],"
        "\"interval_s\":{\"p5\":60},\"interval\":{\"owned_usd_per_trillion_tokens\":{\"p5\":2000}}}}";
    static const char *const expected[][3] = { { "", "days", "2.5 days" },
                                               { "", "energy", "2.5 kWh" },
                                               { "", "note", "<b>" },
                                               { "rented", "usd", "$1,234,567" },
                                               { "rented", "usd per trillion tokens", "$3.46" },
                                               { "prices, system W", "value", "6,500 W" },
                                               { "prices, system W", "estimated", "yes" },
                                               { "prices, system W", "year", "2023" },
                                               { "parts", "1", "7" },
                                               { "interval", "p5", "60.0 s" },
                                               { "interval, owned usd per trillion tokens", "p5", "$2,000" } };
    enum { EXPECTED = sizeof expected / sizeof expected[0] };
    struct step_result result;
    struct json_document *document = NULL;
    struct error error = { 0 };
    char words[256];
    EXPECT_INT(read_result(&result, &document, text, &error), STATUS_OK);
    EXPECT_INT(result.money.count, EXPECTED);
    for (uint32_t i = 0; i < EXPECTED && i < result.money.count; i++) {
        EXPECT_TEXT(result.money.items[i].group, expected[i][0]);
        EXPECT_TEXT(result.money.items[i].name, expected[i][1]);
        EXPECT_TEXT(step_fact_text(&result.money.items[i], words, sizeof words), expected[i][2]);
    }
    const struct step_fact *fact = step_facts_find(&result.money, "usd", "trillion");
    EXPECT(fact != NULL && fact->value == 3.456);
    EXPECT(step_facts_find(&result.money, "usd", "hour") == NULL);
    step_result_free(&result);
    json_free(document);
}

static void test_memory_bins(void)
{
    /* the peak lasts a moment within a bin: it must not be lost */
    int64_t times[] = { 0, 100, 101, 500, 900 };
    uint64_t bytes[5 * BUFFER_CLASS_COUNT] = { 0 };
    static const uint64_t totals[] = { 10, 90, 20, 20, 5 };
    for (int i = 0; i < 5; i++) {
        bytes[i * BUFFER_CLASS_COUNT + BUFFER_ACTIVATION] = totals[i];
    }
    const struct memory_series series = { .times_ps = times, .bytes = bytes, .count = 5 };
    struct memory_bin bins[4];
    uint32_t count = memory_bins(&series, 1000, 4, bins);
    EXPECT_INT(count, 2);
    EXPECT_INT(bins[0].bytes[BUFFER_ACTIVATION], 90);
    EXPECT_INT(bins[1].bin, 1);
    EXPECT_INT(bins[1].bytes[BUFFER_ACTIVATION], 20); /* the last bin begins at 750 with 20: its greatest */
}

/* --- the page of a step */

static const char SCENARIO[] =
    "{\"schema\":\"memwall.scenario/1\",\"name\":\"t\",\"model\":{\"family\":\"gpt\",\"layers\":4,\"hidden\":512,"
    "\"heads\":8,\"ffn\":2048,\"vocab\":1000,\"max_sequence\":256},\"machine\":\"toy-2gpu\",\"software\":\"ideal\","
    "\"training\":{\"sequence_length\":256,\"micro_batch\":2,\"global_batch\":16},\"parallel\":{\"pipeline\":2,"
    "\"data\":1}}";

static void own(struct step_texts *texts, enum step_text which, struct strbuf *from)
{
    texts->texts[which] = from->text;
    texts->lengths[which] = from->length;
    *from = (struct strbuf){ 0 };
}

/* The texts of a run, with `name` as the scenario's. */
static bool make_texts(struct report_run *run, const char *name, struct step_texts *texts)
{
    struct strbuf result = { 0 }, record_text = { 0 }, explain = { 0 }, ops = { 0 }, memory = { 0 }, traffic = { 0 };
    struct error error = { 0 };
    if (!report_run(run, SCENARIO)) {
        return false;
    }
    run->result.name = run->input.name = name;
    result_print_json(&run->result, &run->input, &result);
    const char *const words[] = { "memwall", "run", "it's.json" };
    const struct run_record record = { .version = "9.9",
                                       .words = words,
                                       .word_count = 3,
                                       .scenario_file = "it's.json",
                                       .scenario = "{\"a\":[1,{\"b\":2}]}",
                                       .result_text = result.text };
    run_record_json(&record, &record_text);
    struct explanation explanation;
    const struct explain_input input = { .scenario = &run->scenario, .result = &run->result, .input = &run->input };
    EXPECT_INT(explain_scenario(&explanation, &input, &error), STATUS_OK);
    explanation_print_json(&explanation, &explain);
    explanation_free(&explanation);
    EXPECT_INT(files_series(&run->result, &run->input, &ops, &memory, &traffic, &error), STATUS_OK);
    own(texts, STEP_RESULT, &result);
    own(texts, STEP_RUN, &record_text);
    own(texts, STEP_EXPLAIN, &explain);
    own(texts, STEP_OPS, &ops);
    own(texts, STEP_MEMORY, &memory);
    own(texts, STEP_TRAFFIC, &traffic);
    return true;
}

static void expect_figure(const char *page, double value)
{
    char number[32], part[64];
    snprintf(part, sizeof part, "<data value=\"%s\">", text_real(value, number, sizeof number));
    if (strstr(page, part) == NULL) {
        TEST_FAIL_("the page has no %s", part);
    }
}

/* Every figure of the result, read from its JSON by a reader of its own. */
static void expect_figures(const char *page, const char *result_text)
{
    struct json_document *document = NULL;
    struct json root, list, item, exposed;
    double value;
    struct error error = { 0 };
    EXPECT_INT(json_parse(&document, result_text, strlen(result_text), "r", &error), STATUS_OK);
    json_root(document, &root);
    static const char *const keys[] = { "step_time_s", "tokens_per_s", "mfu" };
    for (int i = 0; i < 3; i++) {
        EXPECT_INT(json_real(&root, keys[i], 0, 1e30, &value, &error), STATUS_OK);
        expect_figure(page, value);
    }
    static const char *const lists[][4] = { { "devices", "peak_bytes", "peak_reserved_bytes", "peak_time_s" },
                                            { "traffic", "bytes", "capacity_bytes_per_s", "busy_fraction" },
                                            { "bounds", "share", "share", "share" } };
    for (int l = 0; l < 3; l++) {
        EXPECT_INT(json_array(&root, lists[l][0], &list, &error), STATUS_OK);
        EXPECT(json_count(&list) > 0);
        for (size_t i = 0; i < json_count(&list); i++) {
            json_item(&list, i, &item);
            for (int k = 1; k < 4; k++) {
                EXPECT_INT(json_real(&item, lists[l][k], 0, 1e30, &value, &error), STATUS_OK);
                if (l != 1 || i == 0) { /* links that move as much stand once */
                    expect_figure(page, value);
                }
            }
        }
    }
    EXPECT_INT(json_array(&root, "time_breakdown", &list, &error), STATUS_OK);
    EXPECT_INT(json_count(&list), 2);
    for (size_t i = 0; i < json_count(&list); i++) {
        json_item(&list, i, &item);
        EXPECT_INT(json_object(&item, "exposed", &exposed, &error), STATUS_OK);
        EXPECT_INT(json_real(&exposed, "compute", 0, 1e30, &value, &error), STATUS_OK);
        expect_figure(page, value);
    }
    json_free(document);
}

static uint32_t occurrences(const char *text, const char *part)
{
    uint32_t count = 0;
    for (const char *at = strstr(text, part); at != NULL; at = strstr(at + 1, part)) {
        count++;
    }
    return count;
}

static void test_page(void)
{
    struct report_run run = { 0 };
    struct step_texts texts = { 0 };
    struct step_source source;
    struct error error = { 0 };
    struct strbuf page = { 0 };
    if (make_texts(&run, "<script>alert(\"1\")</script> & 'co'", &texts)) {
        EXPECT_INT(step_source_read(&source, &texts, &error), STATUS_OK);
        EXPECT(source.has_run && source.has_explanation && source.has_series);
        EXPECT_INT(step_page_print(&source, "9.9", "memwall report x", &page, &error), STATUS_OK);
        EXPECT(html_check(page.text) > 500);
        expect_figures(page.text, source.texts.texts[STEP_RESULT]);
        EXPECT_INT(occurrences(page.text, "<script>"), 1); /* its own */
        EXPECT_PART(page.text, "<h1>&lt;script&gt;alert(&quot;1&quot;)&lt;/script&gt; &amp; 'co'</h1>");
        EXPECT_PART(page.text, "memwall run 'it'\\''s.json'");
        EXPECT_PART(page.text, source.result.schedule_hash);
        static const char *const sections[] = { "answer", "timeline", "memory",      "links",
                                                "causes", "binds",    "assumptions", "repeat" };
        const char *before = page.text;
        for (size_t i = 0; i < sizeof sections / sizeof sections[0] && before != NULL; i++) {
            char part[64];
            snprintf(part, sizeof part, "<section id=\"%s\"", sections[i]);
            before = strstr(before, part); /* in this order */
            EXPECT(before != NULL);
        }
        EXPECT(strstr(page.text, "id=\"cost\"") == NULL);
        EXPECT_INT(occurrences(page.text, "role=\"img\""), occurrences(page.text, "<title id="));
        EXPECT_INT(occurrences(page.text, "<table"), occurrences(page.text, "<caption"));
        step_source_free(&source);
    }
    strbuf_free(&page);
    report_run_free(&run);
}

/* A result alone: what cannot be told is left out, and the page says how to get it. */
static void test_result_alone(void)
{
    struct step_texts texts = { 0 };
    struct step_source source;
    struct error error = { 0 };
    struct strbuf page = { 0 }, result = { 0 };
    strbuf_append(
        &result,
        "{\"schema\":\"memwall.result/1\",\"name\":\"alone\",\"fits\":false,\"reason\":\"does not "
        "fit: <gpu 0>\",\"step_time_s\":0,\"money\":{\"rented\":{\"usd\":12.5,\"usd_per_trillion_tokens\":3}}}");
    own(&texts, STEP_RESULT, &result);
    EXPECT_INT(step_source_read(&source, &texts, &error), STATUS_OK);
    EXPECT_INT(step_page_print(&source, "9.9", "memwall report x", &page, &error), STATUS_OK);
    EXPECT(html_check(page.text) > 30);
    EXPECT_PART(page.text, "It does not fit.");
    EXPECT_PART(page.text, "does not fit: &lt;gpu 0&gt;");
    EXPECT_PART(page.text, "Only the result itself is there");
    EXPECT_PART(page.text, "<section id=\"cost\"");
    EXPECT_PART(page.text, "Cost, rented<b><data value=\"12.5\">$12.5</data></b><small>$3 per trillion tokens</small>");
    EXPECT(strstr(page.text, "<section id=\"timeline\"") == NULL);
    step_source_free(&source);
    strbuf_free(&page);
}

/* run.json names the result that it was made with: another's tables say nothing of this one. */
static void test_neighbours(void)
{
    struct report_run run = { 0 };
    struct step_texts texts = { 0 };
    struct step_source source;
    struct error error = { 0 };
    if (make_texts(&run, "t", &texts)) {
        char *digit = strstr(texts.texts[STEP_RESULT], "\"ops\": ");
        EXPECT(digit != NULL);
        if (digit != NULL) {
            digit[strlen("\"ops\": ")] = '9';
        }
        EXPECT_INT(step_source_read(&source, &texts, &error), STATUS_OK);
        EXPECT(!source.has_run && !source.has_series && !source.has_explanation);
        EXPECT_PART(source.notes.text, "belong to another one");
        step_source_free(&source);
    }
    report_run_free(&run);
}

/* Times, phases and bytes read back from the tables are those of the timeline. */
static void test_series(void)
{
    struct report_run run = { 0 };
    struct step_series series;
    struct error error = { 0 };
    struct strbuf ops = { 0 }, memory = { 0 }, traffic = { 0 };
    if (report_run(&run, SCENARIO) &&
        files_series(&run.result, &run.input, &ops, &memory, &traffic, &error) == STATUS_OK) {
        EXPECT_INT(step_series_read(&series, ops.text, "ops.csv", memory.text, "memory.csv", &error), STATUS_OK);
        EXPECT_INT(series.end_ps, run.timeline.end_ps);
        EXPECT_INT(series.rank_count, run.schedule.rank_count);
        size_t at = 0;
        for (uint32_t i = 0; i < run.schedule.op_count; i++) {
            const struct op_times *t = &run.timeline.ops[i];
            if (t->end_ps > t->start_ps && at < series.op_count) {
                const struct box_op *op = &series.ops[at++];
                EXPECT_INT(op->start_ps, t->start_ps);
                EXPECT_INT(op->end_ps, t->end_ps);
                EXPECT_INT(op->phase, run.schedule.ops[i].phase);
                EXPECT_INT(op->micro_batch, run.schedule.ops[i].micro_batch);
                EXPECT_INT(op->strip, run.schedule.queues[run.schedule.ops[i].queue].queue_class != QUEUE_COMPUTE);
            }
        }
        EXPECT_INT(at, series.op_count);
        for (uint32_t i = 0; i < series.space_count; i++) {
            bool found = false;
            for (uint32_t k = 0; k < run.schedule.space_count; k++) {
                found = found ||
                        (strcmp(series.spaces[i].name, sched_label(&run.schedule, run.schedule.spaces[k].label)) == 0 &&
                         series.spaces[i].peak_bytes == run.timeline.spaces[k].peak_bytes);
            }
            EXPECT(found);
        }
        step_series_free(&series);
    }
    strbuf_free(&ops);
    strbuf_free(&memory);
    strbuf_free(&traffic);
    report_run_free(&run);
}

/* Traffic read back from the table: over the step each link carries the bytes that the result says it moved, whole and in bins. */
static void test_traffic(void)
{
    struct report_run run = { 0 };
    struct step_traffic traffic;
    struct error error = { 0 };
    struct strbuf ops = { 0 }, memory = { 0 }, text = { 0 };
    if (report_run(&run, SCENARIO) &&
        files_series(&run.result, &run.input, &ops, &memory, &text, &error) == STATUS_OK) {
        EXPECT_INT(step_traffic_read(&traffic, text.text, "traffic.csv", &error), STATUS_OK);
        EXPECT(traffic.link_count > 0);
        for (uint32_t i = 0; i < traffic.link_count; i++) {
            const struct traffic_link *link = &traffic.links[i];
            double bins[50], moved = 0, in_bins = 0, said = NAN;
            char name[96];
            for (uint32_t k = 0; k < run.result.link_count; k++) {
                const uint32_t resource = run.result.links[k].resource;
                if (strcmp(cluster_resource_name(run.input.cluster, resource, name, sizeof name), link->name) == 0) {
                    said = run.result.links[k].bytes;
                    EXPECT_REAL(link->capacity_bytes_per_s, run.input.cluster->resources[resource].capacity, 0);
                    EXPECT_INT(link->series.alike, link_series_alike(&run.result, &run.input, k));
                    EXPECT_TEXT(link->kind, link_kind_word(run.input.cluster, resource));
                }
            }
            for (uint32_t k = 0; k + 1 < link->series.count; k++) {
                moved +=
                    link->series.bytes_per_s[k] * s_from_ps(link->series.times_ps[k + 1] - link->series.times_ps[k]);
            }
            link_bins(&link->series, 1, run.timeline.end_ps, 50, bins);
            for (uint32_t k = 0; k < 50; k++) {
                in_bins += bins[k] * s_from_ps(run.timeline.end_ps) / 50;
            }
            printf("%s: %.6g bytes, in bins %.6g, of the result %.6g\n", link->name, moved, in_bins, said);
            EXPECT_REAL(moved, said, 1e-6);
            EXPECT_REAL(in_bins, said, 1e-6);
        }
        step_traffic_free(&traffic);
        static const struct {
            const char *row, *part;
        } bad[] = { { "a,pcie,1,1e9,5,1\na,pcie,1,1e9,5,1\n", "line 3: times of a do not rise" },
                    { "a,pcie,1,1e9,5\n", "traffic.csv:2: this row has not as many cells" },
                    { "a,pcie,1,1e9,5,-1\n", "traffic.csv:2: expected a number" },
                    { "a,pcie,1,1e9,5,1e300\n", "traffic.csv:2: expected a number" } };
        for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
            char table[256], message[2048];
            snprintf(table, sizeof table, "link,kind,links_alike,capacity_bytes_per_s,time_us,bytes_per_s\n%s",
                     bad[i].row);
            EXPECT_INT(step_traffic_read(&traffic, table, "traffic.csv", &error), STATUS_BAD_INPUT);
            EXPECT_PART(error_text(&error, message, sizeof message), bad[i].part);
        }
    }
    strbuf_free(&ops);
    strbuf_free(&memory);
    strbuf_free(&text);
    report_run_free(&run);
}

/* Printed, read, printed: the same bytes. */
static void test_explanation(void)
{
    struct report_run run = { 0 };
    struct explanation made, read;
    struct json_document *document = NULL;
    struct json root;
    struct error error = { 0 };
    struct strbuf first = { 0 }, second = { 0 };
    if (report_run(&run, SCENARIO)) {
        const struct explain_input input = { .scenario = &run.scenario, .result = &run.result, .input = &run.input };
        EXPECT_INT(explain_scenario(&made, &input, &error), STATUS_OK);
        explanation_print_json(&made, &first);
        EXPECT_INT(json_parse(&document, first.text, first.length, "e", &error), STATUS_OK);
        json_root(document, &root);
        EXPECT_INT(explanation_read(&read, &root, &error), STATUS_OK);
        explanation_print_json(&read, &second);
        EXPECT_TEXT(second.text, first.text);
        explanation_free(&made);
        explanation_free(&read);
        json_free(document);
    }
    strbuf_free(&first);
    strbuf_free(&second);
    report_run_free(&run);
}

TEST_MAIN(TEST(test_escaping), TEST(test_elements), TEST(test_grouped), TEST(test_shares), TEST(test_table),
          TEST(test_checker), TEST(test_csv), TEST(test_bad_csv), TEST(test_bad_results), TEST(test_facts),
          TEST(test_memory_bins), TEST(test_page), TEST(test_result_alone), TEST(test_neighbours), TEST(test_series),
          TEST(test_traffic), TEST(test_explanation))
