/* The report of a sweep: what it reads from the database, and the page. */
#include "sim/sweep/sweep_page.h"
#include "sim/sweep/sweep_page_data.h"
#include "tests/html_check.h"

static const char SWEEP[] =
    "{\"schema\":\"memwall.sweep/1\",\"name\":\"a <b> & c\",\"base\":{\"model\":\"gpt2\",\"machine\":\"toy-2gpu\","
    "\"gpus\":2},\"axes\":[{\"path\":\"parallel.tensor\",\"values\":[1,2]},{\"path\":\"training.micro_batch\","
    "\"values\":[1,2,4]},{\"path\":\"recompute\",\"values\":[\"none\"]}]}";

static void fill(struct sweep_row *row, double step_s, double tokens, double peak)
{
    const struct {
        enum sweep_figure figure;
        double value;
    } values[] = { { FIGURE_step_time_s, step_s }, { FIGURE_tokens_per_s, tokens }, { FIGURE_peak_bytes, peak } };
    memset(row, 0, sizeof *row);
    for (int i = 0; i < 3; i++) {
        row->has[values[i].figure] = true;
        row->figures[values[i].figure] = values[i].value;
    }
}

/* tensor 1: 100, 400 tokens/s and one that does not fit; tensor 2: 200, 800 and an error. Peaks fall as steps grow, but for the second row, which the fifth beats. */
static void put_rows(struct sweep_database *database, int64_t id)
{
    static const struct {
        int tensor, micro_batch;
        double step_s, tokens, peak;
    } rows[] = { { 1, 1, 8, 100, 1e9 }, { 1, 2, 2, 400, 9e9 }, { 1, 4, 1, 900, 3e11 },
                 { 2, 1, 4, 200, 2e9 }, { 2, 2, 1, 800, 5e9 }, { 2, 4, 0, 0, 0 } };
    struct error error = { 0 };
    for (uint64_t i = 0; i < 6; i++) {
        struct sweep_row row;
        char hash[16], axes[96];
        fill(&row, rows[i].step_s, rows[i].tokens, rows[i].peak);
        if (i == 2) {
            row.status = SWEEP_DOES_NOT_FIT;
            snprintf(row.reason, sizeof row.reason, "gpu 0 needs 300 GB of <80>");
        } else if (i == 5) {
            memset(&row, 0, sizeof row);
            row.status = SWEEP_ERROR;
            row.error = STATUS_BAD_INPUT;
            snprintf(row.reason, sizeof row.reason, "no such thing");
        }
        snprintf(hash, sizeof hash, "h%d", (int)i);
        snprintf(axes, sizeof axes, "{\"tensor\":%d,\"micro_batch\":%d,\"recompute\":\"none\"}", rows[i].tensor,
                 rows[i].micro_batch);
        EXPECT_INT(sweep_database_put_row(database, hash, "{\"model\":\"gpt2\"}", &row, &error), STATUS_OK);
        EXPECT_INT(sweep_database_put_point(database, id, i, hash, axes, &error), STATUS_OK);
    }
}

static struct sweep_database *make(const char *version, bool with_rows)
{
    struct sweep sweep;
    struct sweep_database *database = NULL;
    struct error error = { 0 };
    int64_t id = 0;
    EXPECT_INT(sweep_parse(&sweep, SWEEP, "s.json", &error), STATUS_OK);
    EXPECT_INT(sweep_database_open(&database, NULL, version, &error), STATUS_OK);
    EXPECT_INT(sweep_database_enter(database, &sweep, &id, &error), STATUS_OK);
    if (with_rows) {
        put_rows(database, id);
    }
    sweep_free(&sweep);
    return database;
}

static void test_data(void)
{
    struct sweep_database *database = make("1", true);
    struct sweep_page_data *data = calloc(1, sizeof *data);
    struct error error = { 0 };
    struct json rows, row;
    int64_t point = -1;
    if (data == NULL || sweep_page_data_read(data, database, 0, &error) != STATUS_OK) {
        TEST_FAIL_("%s", error.message);
        return;
    }
    EXPECT_TEXT(data->name, "a <b> & c");
    EXPECT_INT(data->rows, 6);
    EXPECT_INT(data->counts[SWEEP_DONE], 4);
    EXPECT_INT(data->counts[SWEEP_DOES_NOT_FIT], 1);
    EXPECT_INT(data->counts[SWEEP_ERROR], 1);
    EXPECT_INT(data->points.count, 4);
    EXPECT_INT(data->axis_count, 3);
    const struct sweep_axis_effects *tensor = &data->axes[0];
    EXPECT_TEXT(tensor->name, "tensor");
    EXPECT_INT(tensor->values, 2);
    EXPECT_TEXT(tensor->effects[1].value, "2");
    EXPECT_INT(tensor->effects[0].rows, 3);
    EXPECT_INT(tensor->effects[0].done, 2);
    EXPECT_REAL(tensor->effects[0].least, 100, 0);
    EXPECT_REAL(tensor->effects[0].median, 100, 0); /* the lower of two */
    EXPECT_REAL(tensor->effects[1].best, 800, 0);
    EXPECT_REAL(tensor->effects[0].peak_least, 1e9, 0);
    /* log2 of tokens/s over 100: tensor 1: 0, 2; tensor 2: 1, 3. Mean 1.5, squares (2.25 + 0.25) 2 = 5; between 2 (0.5^2) 2 = 1. micro-batches 1: 0, 1; 2: 2, 3: between 4 */
    EXPECT_REAL(tensor->explained, 1.0 / 5, 1e-9);
    EXPECT_REAL(data->axes[1].explained, 4.0 / 5, 1e-9);
    EXPECT_REAL(data->axes[2].explained, 0, 1e-9);
    json_root(data->front, &rows);
    EXPECT_INT(json_count(&rows), 3); /* steps of 1, 4, 8 s; that of 2 s needs more than that of 1 s */
    json_item(&rows, 0, &row);
    EXPECT_INT(json_int(&row, "point", 0, 9, &point, &error), STATUS_OK);
    EXPECT_INT(point, 4);
    json_root(data->leanest, &rows);
    json_item(&rows, 0, &row);
    EXPECT_INT(json_int(&row, "point", 0, 9, &point, &error), STATUS_OK);
    EXPECT_INT(point, 0);
    sweep_page_data_free(data);
    free(data);
    sweep_database_close(database);
}

/* Reasons that differ in numbers alone are one; of other words, or another status, another. */
static void test_reasons(void)
{
    static const char *const reasons[] = { "needs 12 GiB, has 80", "needs 7 GiB, has 80", "needs 7 MiB, has 80",
                                           "needs 123456 GiB, has 1\nheld by others" };
    struct sweep_database *database = make("1", false);
    struct sweep_page_data *data = calloc(1, sizeof *data);
    struct error error = { 0 };
    for (uint64_t i = 0; i < 4; i++) {
        struct sweep_row row = { .status = SWEEP_DOES_NOT_FIT };
        char hash[16];
        snprintf(hash, sizeof hash, "h%d", (int)i);
        snprintf(row.reason, sizeof row.reason, "%s", reasons[i]);
        EXPECT_INT(sweep_database_put_row(database, hash, "{}", &row, &error), STATUS_OK);
        EXPECT_INT(sweep_database_put_point(database, 1, i, hash, "{\"tensor\":1}", &error), STATUS_OK);
    }
    if (data != NULL && sweep_page_data_read(data, database, 1, &error) == STATUS_OK) {
        EXPECT_INT(data->reasons.count, 2);
        EXPECT_INT(data->reasons.items[0].count, 3);
        EXPECT_TEXT(data->reasons.items[0].text, reasons[0]);
        EXPECT_TEXT(data->reasons.items[1].text, reasons[2]);
        EXPECT_INT(data->points.count, 0);
        EXPECT(isnan(data->axes[0].explained) && isnan(data->axes[0].effects[0].best));
        sweep_page_data_free(data);
    } else {
        TEST_FAIL_("%s", error.message);
    }
    free(data);
    sweep_database_close(database);
}

static enum status print(struct sweep_database *database, int64_t id, struct strbuf *page, bool *fits,
                         struct error *error)
{
    const struct sweep_page_request request = { .file = "s.db", .command = "memwall report s.db", .sweep = id };
    return sweep_page_print(database, &request, page, fits, error);
}

static void test_page(void)
{
    struct sweep_database *database = make("1", true);
    struct strbuf page = { 0 };
    struct error error = { 0 };
    bool fits = false;
    EXPECT_INT(print(database, 0, &page, &fits, &error), STATUS_OK);
    EXPECT(fits);
    EXPECT(html_check(page.text) > 200);
    EXPECT_PART(page.text, "<h1>a &lt;b&gt; &amp; c</h1>");
    EXPECT_PART(page.text, "gpu 0 needs 300 GB of &lt;80&gt;");
    EXPECT_PART(page.text, "<data value=\"800\">800</data>");
    EXPECT_PART(page.text, "tensor = 2, micro_batch = 2");
    EXPECT(strstr(page.text, "recompute = none") == NULL); /* does not vary */
    EXPECT_PART(page.text, "<section id=\"pareto\"");
    strbuf_free(&page);
    sweep_database_close(database);
}

/* Any client may have written to the file. */
static void test_infinite_figures(void)
{
    struct sweep_database *database = make("1", false);
    struct strbuf page = { 0 };
    struct error error = { 0 };
    struct sweep_row row;
    bool fits = false;
    static const double figures[][3] = {
        { 1, INFINITY, 1e9 }, { INFINITY, 2, 1e9 }, { 2, 3, INFINITY }, { 3, 4, 1e9 }
    };
    for (uint64_t i = 0; i < sizeof figures / sizeof figures[0]; i++) {
        char hash[16], axes[96];
        fill(&row, figures[i][0], figures[i][1], figures[i][2]);
        snprintf(hash, sizeof hash, "h%d", (int)i);
        snprintf(axes, sizeof axes, "{\"tensor\":1,\"micro_batch\":%d,\"recompute\":\"none\"}", (int)i + 1);
        EXPECT_INT(sweep_database_put_row(database, hash, "{\"model\":\"gpt2\"}", &row, &error), STATUS_OK);
        EXPECT_INT(sweep_database_put_point(database, 1, i, hash, axes, &error), STATUS_OK);
    }
    EXPECT_INT(print(database, 0, &page, &fits, &error), STATUS_OK);
    EXPECT(html_check(page.text) > 100);
    strbuf_free(&page);
    sweep_database_close(database);
}

static void expect_refused(struct sweep_database *database, int64_t id, const char *part)
{
    struct strbuf page = { 0 };
    struct error error = { 0 };
    char message[2048];
    bool fits;
    EXPECT_INT(print(database, id, &page, &fits, &error), STATUS_BAD_INPUT);
    EXPECT_PART(error_text(&error, message, sizeof message), part);
    EXPECT_INT(page.length, 0);
    strbuf_free(&page);
}

static void test_refusals(void)
{
    struct sweep_database *database = make("1", false);
    struct sweep sweep;
    struct error error = { 0 };
    int64_t id = 0;
    char other[sizeof SWEEP];
    expect_refused(database, 0, "has no rows yet");
    expect_refused(database, 7, "there is no sweep 7 in this database; it holds 1 (a <b> & c)");
    snprintf(other, sizeof other, "%s", SWEEP);
    strstr(other, "[1,2,4]")[5] = '8';
    EXPECT_INT(sweep_parse(&sweep, other, "s.json", &error), STATUS_OK);
    EXPECT_INT(sweep_database_enter(database, &sweep, &id, &error), STATUS_OK);
    expect_refused(database, 0, "choose with --sweep ID from 1 (a <b> & c), 2 (a <b> & c)");
    sweep_free(&sweep);
    sweep_database_close(database);
    EXPECT_INT(sweep_database_open(&database, NULL, "1", &error), STATUS_OK);
    expect_refused(database, 0, "no sweep has written");
    sweep_database_close(database);
}

TEST_MAIN(TEST(test_data), TEST(test_reasons), TEST(test_page), TEST(test_infinite_figures), TEST(test_refusals))
