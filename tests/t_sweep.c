/* Sweeps: points against a plain count, refusals, rows against a run of their own, resuming, threads, the database. */
#include <math.h>
#include <unistd.h>

#include "sim/base/file.h"
#include "sim/base/json_write.h"
#include "sim/sweep/sweep.h"
#include "sim/sweep/sweep_query.h"
#include "sim/sweep/sweep_run.h"
#include "sim/sweep/sweep_scenario.h"
#include "tests/test.h"

#define BASE "\"base\":{\"model\":\"gpt2\",\"machine\":\"toy-2gpu\",\"gpus\":2,\"training\":{\"global_batch\":8}}"
#define SWEEP(axes, conditions)                                                                                        \
    "{\"schema\":\"memwall.sweep/1\",\"name\":\"t\"," BASE ",\"axes\":[" axes "],\"conditions\":[" conditions "]}"

static const char SMALL[] =
    SWEEP("{\"path\":\"parallel.tensor\",\"values\":[1,2]},{\"path\":\"parallel.pipeline\",\"values\":[1,2]},"
          "{\"path\":\"training.micro_batch\",\"log_range\":{\"from\":1,\"to\":8,\"factor\":2}},"
          "{\"name\":\"ways\",\"path\":\"parallel.data\",\"expression\":\"gpus / (tensor * pipeline)\"}",
          "\"tensor * pipeline * ways == gpus\",\"ways >= 1\"");

/* Three nested loops say which points there are. */
static void test_points(void)
{
    struct sweep sweep;
    struct error error = { 0 };
    EXPECT_INT(sweep_parse(&sweep, SMALL, "t.json", &error), STATUS_OK);
    EXPECT_INT(sweep.combinations, 16);
    struct sweep_walk walk;
    uint64_t count = 0;
    sweep_walk_start(&walk, &sweep);
    for (int tensor = 1; tensor <= 2; tensor++) {
        for (int pipeline = 1; pipeline <= 2; pipeline++) {
            for (int micro = 1; micro <= 8; micro *= 2) {
                if (2 / (tensor * pipeline) < 1) {
                    continue;
                }
                EXPECT(sweep_walk_next(&walk));
                EXPECT(walk.fault.expression == NULL);
                EXPECT_INT(walk.point, count++);
                EXPECT_REAL(walk.values[0].number, tensor, 0);
                EXPECT_REAL(walk.values[1].number, pipeline, 0);
                EXPECT_REAL(walk.values[2].number, micro, 0);
                EXPECT_REAL(walk.values[3].number, 2.0 / (tensor * pipeline), 0);
            }
        }
    }
    EXPECT(!sweep_walk_next(&walk));
    EXPECT_INT(sweep.points, count);
    sweep_free(&sweep);
}

/* Steps add up to the numbers that people write. */
static void test_range(void)
{
    static const double written[] = { 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7 };
    struct sweep sweep;
    struct error error = { 0 };
    EXPECT_INT(sweep_parse(&sweep, SWEEP("{\"name\":\"x\",\"range\":{\"from\":0.1,\"to\":0.7,\"step\":0.1}}", ""),
                           "t.json", &error),
               STATUS_OK);
    EXPECT_INT(sweep.points, 7);
    for (size_t i = 0; i < 7; i++) {
        EXPECT_REAL(sweep.axes[0].values[i].number, written[i], 0);
    }
    sweep_free(&sweep);
}

/* Logarithmic values by count fall on the numbers that people mean: micro-batches 1, 2, 4, 8 are whole. */
static void test_log_count(void)
{
    struct sweep sweep;
    struct error error = { 0 };
    EXPECT_INT(sweep_parse(&sweep,
                           SWEEP("{\"path\":\"training.micro_batch\",\"log_range\":{\"from\":1,\"to\":8,"
                                 "\"count\":4}}",
                                 ""),
                           "t.json", &error),
               STATUS_OK);
    EXPECT_INT(sweep.points, 4);
    for (size_t i = 0; i < 4; i++) {
        EXPECT_REAL(sweep.axes[0].values[i].number, (double)(1 << i), 0);
    }
    sweep_free(&sweep);
}

/* A key that is no integer. */
static void test_real_key(void)
{
    struct sweep sweep;
    struct error error = { 0 };
    EXPECT_INT(
        sweep_parse(&sweep, SWEEP("{\"path\":\"training.layer_drop\",\"values\":[0,0.3]}", ""), "t.json", &error),
        STATUS_OK);
    EXPECT_INT(sweep.points, 2);
    sweep_free(&sweep);
}

static void test_refused(void)
{
    static const struct {
        const char *text, *part;
    } cases[] = {
        { SWEEP("{\"path\":\"nodes\",\"range\":{\"from\":1,\"to\":1000000}},{\"name\":\"x\",\"range\":{\"from\":1,"
                "\"to\":1000000}}",
                ""),
          "1000000 x 1000000 = 1000000000000 combinations" },
        { SWEEP("{\"path\":\"nodes\",\"range\":{\"from\":1,\"to\":1e12}}", ""), "1000000000000 values" },
        { SWEEP("{\"path\":\"nodes\",\"values\":[1]},{\"name\":\"x\",\"expression\":\"y + "
                "1\"},{\"name\":\"y\",\"expression\":\"x + 1\"}",
                ""),
          "in a circle: x = y + 1, y = x + 1" },
        { SWEEP("{\"path\":\"parallel.tensor\",\"values\":[[1,2]]}", ""),
          "value 1 of the axis is [1,2]: parallel.tensor takes integer" },
        { SWEEP("{\"path\":\"parallel.tensr\",\"values\":[1]}", ""), "did you mean \"parallel.tensor\"" },
        { SWEEP("{\"path\":\"parallel.tensor.x\",\"values\":[1]}", ""), "holds nothing" },
        { SWEEP("{\"path\":\"parallel.tensor\",\"values\":[]}", ""), "the axis is empty" },
        { SWEEP("{\"path\":\"parallel.tensor\",\"values\":[1.5]}", ""), "takes integer" },
        { SWEEP("{\"path\":\"parallel.tensor\",\"values\":[\"two\"]}", ""), "takes integer" },
        { SWEEP("", ""), "no axes" },
        { SWEEP("{\"path\":\"nodes\",\"range\":{\"from\":2,\"to\":1}}", ""), "the range is empty" },
        { SWEEP("{\"path\":\"nodes\",\"range\":{\"from\":1,\"to\":2,\"step\":0}}", ""), "the range is empty" },
        { SWEEP("{\"path\":\"nodes\",\"log_range\":{\"from\":1,\"to\":8,\"factor\":1}}", ""), "the range is empty" },
        { SWEEP("{\"path\":\"nodes\",\"values\":[1,2,3]}", "\"nodes > 2\",\"nodes < 2\""),
          "none of 3 combinations meets all 2 conditions" },
        { SWEEP("{\"path\":\"nodes\",\"values\":[1]},{\"path\":\"nodes\",\"name\":\"n\",\"values\":[1]}", ""),
          "two axes set \"nodes\"" },
        { SWEEP("{\"path\":\"parallel.tensor\",\"values\":[1,2]},{\"path\":\"parallel\",\"values\":[{}]}", ""),
          "also of \"parallel.tensor\", which an axis before it sets" },
        { SWEEP("{\"path\":\"nodes\",\"values\":[1]},{\"name\":\"Nodes\",\"values\":[1]}", ""), "two axes are called" },
        { SWEEP("{\"path\":\"nodes\",\"values\":[1]}", "\"nods == 1\""), "did you mean \"nodes\"" },
        { SWEEP("{\"path\":\"nodes\",\"values\":[1]}", "\"nodes\""), "must be true or false" },
        { SWEEP("{\"path\":\"nodes\",\"values\":[0]}", "\"1 / nodes > 0\""),
          "no point can be computed: \"1 / nodes > 0\"" },
        { SWEEP("{\"path\":\"nodes\",\"values\":[1]}", "\"training == 1\""), "wants one value" },
        { SWEEP("{\"zip\":[{\"path\":\"nodes\",\"values\":[1]},{\"path\":\"gpus\",\"values\":[1,2]}]}", ""),
          "equally many" },
        { SWEEP("{\"name\":\"x\",\"expression\":\"1\"}", ""), "no axis has values" },
        { SWEEP("{\"path\":\"recompute\",\"values\":[\"ful\"]}", ""), "takes none | selective | full" },
        { SWEEP("{\"path\":\"recompute.3\",\"name\":\"r\",\"values\":[\"full\"]}", ""),
          "$.recompute: expected none, selective" },
        { SWEEP("{\"path\":\"machine.no_such_key\",\"values\":[1,2]}", ""), "no_such_key" },
        { "{\"schema\":\"memwall.sweep/2\"}", "of another memwall" },
        { "{\"schema\":\"memwall.sweep/1\",\"base\":3,\"axes\":[]}", "expected the path of a scenario" },
        { "[]", "expected a sweep (an object)" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct sweep sweep;
        struct error error = { 0 };
        char text[4096];
        enum status status = sweep_parse(&sweep, cases[i].text, "t.json", &error);
        EXPECT_INT(status, STATUS_BAD_INPUT);
        EXPECT_PART(error_text(&error, text, sizeof text), cases[i].part);
        if (status == STATUS_OK) {
            sweep_free(&sweep);
        }
    }
}

/* The name of a scenario does not count, its values do; canonical text sorts keys and drops comments. */
static void test_hash(void)
{
    static const char *const texts[] = { "{\"a\":1,\"machine\":\"toy-2gpu\"}",
                                         "{\"a\":1,\"machine\":\"toy-2gpu\",\"name\":\"x\"}",
                                         "{\"a\":2,\"machine\":\"toy-2gpu\"}", "{\"a\":1,\"machine\":\"toy-2gpus\"}" };
    struct hash hashes[4];
    struct error error = { 0 };
    for (int i = 0; i < 4; i++) {
        EXPECT_INT(sweep_scenario_hash(texts[i], &hashes[i], &error), STATUS_OK);
    }
    EXPECT(hashes[0].a == hashes[1].a && hashes[0].b == hashes[1].b);
    EXPECT(hashes[0].a != hashes[2].a || hashes[0].b != hashes[2].b);
    EXPECT(hashes[0].a != hashes[3].a || hashes[0].b != hashes[3].b);
    struct json_document *document;
    struct json root;
    struct strbuf out = { 0 };
    EXPECT_INT(json_parse(&document, "{\"b\":[1,{\"z\":1,\"_comment\":2,\"y\":null}],\"a\":\"t\"}", 47, "t", &error),
               STATUS_OK);
    json_root(document, &root);
    sweep_canonical(&root, &out);
    EXPECT_TEXT(out.text, "{\"a\":\"t\",\"b\":[1,{\"y\":null,\"z\":1}]}");
    strbuf_free(&out);
    json_free(document);
}

static bool stop_after(void *context, const struct sweep_progress *progress)
{
    const uint64_t *limit = context;
    return progress->finished < *limit;
}

/* Everything in the database of `file` after a run, as JSON. */
static void run_into(const char *file, uint32_t threads, uint64_t stop, uint64_t expected_found, struct strbuf *out)
{
    struct sweep sweep;
    struct sweep_database *database;
    struct sweep_progress progress;
    struct error error = { 0 };
    struct strbuf notes = { 0 };
    uint64_t rows;
    int64_t id = 0;
    EXPECT_INT(sweep_parse(&sweep, SMALL, "t.json", &error), STATUS_OK);
    EXPECT_INT(sweep_database_open(&database, file, "test", &error), STATUS_OK);
    EXPECT_INT(sweep_database_enter(database, &sweep, &id, &error), STATUS_OK);
    EXPECT_INT(id, 1);
    const struct sweep_options options = { .threads = threads,
                                           .listen = stop > 0 ? stop_after : NULL,
                                           .context = &stop };
    EXPECT_INT(sweep_run(&sweep, database, id, &options, &progress, &error), STATUS_OK);
    EXPECT_TEXT(error.message, "");
    if (stop == 0) {
        EXPECT_INT(progress.finished, sweep.points);
        EXPECT(!progress.interrupted);
    }
    if (expected_found != UINT64_MAX) {
        EXPECT_INT(progress.found, expected_found);
    }
    const struct sweep_query query = { .sweep = id, .format = SWEEP_JSON };
    EXPECT_INT(sweep_query_print(database, &query, out, &rows, &notes, &error), STATUS_OK);
    sweep_database_close(database);
    sweep_free(&sweep);
    strbuf_free(&notes);
}

static void test_threads_and_resume(void)
{
    struct strbuf one = { 0 }, four = { 0 }, part = { 0 }, resumed = { 0 }, again = { 0 };
    char file[64];
    snprintf(file, sizeof file, "/tmp/t_sweep_%d.db", (int)getpid());
    run_into(NULL, 1, 0, 0, &one);
    run_into(NULL, 4, 0, 0, &four);
    EXPECT_TEXT(four.text, one.text);
    run_into(file, 2, 1, UINT64_MAX, &part);
    run_into(file, 2, 0, UINT64_MAX, &resumed);
    EXPECT_TEXT(resumed.text, one.text);
    run_into(file, 2, 0, 12, &again); /* all found, none computed */
    EXPECT_TEXT(again.text, one.text);
    EXPECT_PART(one.text, "\"step_time_s\"");
    strbuf_free(&one);
    strbuf_free(&four);
    strbuf_free(&part);
    strbuf_free(&resumed);
    strbuf_free(&again);
    char other[80];
    unlink(file);
    snprintf(other, sizeof other, "%s-wal", file);
    unlink(other);
    snprintf(other, sizeof other, "%s-shm", file);
    unlink(other);
}

/* What is wrong with a scenario is a row. */
static void test_error_rows(void)
{
    struct sweep_row row;
    sweep_row_compute(&row, "{\"model\":\"gpt2\",\"machine\":\"toy-2gpu\",\"parallel\":{\"tensor\":5}}", "t");
    EXPECT_INT(row.status, SWEEP_ERROR);
    EXPECT_PART(row.reason, "tensor");
    EXPECT(sweep_row_is_final(&row));
    sweep_row_compute(&row, "{", "t");
    EXPECT_INT(row.status, SWEEP_ERROR);
    sweep_row_compute(&row, "{\"model\":\"gpt3-175b\",\"machine\":\"toy-2gpu\"}", "t");
    EXPECT_INT(row.status, SWEEP_DOES_NOT_FIT);
    EXPECT(row.reason[0] != '\0');
    EXPECT(row.figures[FIGURE_peak_bytes] > row.figures[FIGURE_capacity_bytes]);
    EXPECT(row.figures[FIGURE_step_time_s] > 0);
}

/* Where a link or a condition cannot be computed the point is a row that says so; a condition that can be computed refuses it all the same. */
static void test_fault_rows(void)
{
    static const char text[] = SWEEP(
        "{\"path\":\"training.micro_batch\",\"values\":[0,1,2,4]},{\"name\":\"n\",\"values\":[1,2]},"
        "{\"name\":\"inverse\",\"expression\":\"4 / micro_batch\"},{\"name\":\"twice\",\"expression\":\"2 * inverse\"}",
        "\"n == 1 or micro_batch == 0\",\"micro_batch == 4 or twice >= 4\",\"1 / (micro_batch - 4) < 1\"");
    struct sweep sweep;
    struct sweep_database *database;
    struct sweep_progress progress;
    struct error error = { 0 };
    struct strbuf out = { 0 }, notes = { 0 };
    int64_t id = 0;
    uint64_t rows;
    EXPECT_INT(sweep_parse(&sweep, text, "t.json", &error), STATUS_OK);
    EXPECT_TEXT(error.message, "");
    EXPECT_INT(sweep.points, 5); /* micro-batch 0 with n = 1 and 2; 1, 2 and 4 with n = 1 */
    EXPECT_INT(sweep_database_open(&database, NULL, "test", &error), STATUS_OK);
    EXPECT_INT(sweep_database_enter(database, &sweep, &id, &error), STATUS_OK);
    const struct sweep_options options = { .threads = 2 };
    for (int round = 0; round < 2; round++) { /* the second finds all of them */
        EXPECT_INT(sweep_run(&sweep, database, id, &options, &progress, &error), STATUS_OK);
        EXPECT_INT(progress.finished, 5);
        EXPECT_INT(progress.found, 5 * round);
        EXPECT_INT(progress.counts[SWEEP_ERROR], 3);
        EXPECT_INT(progress.counts[SWEEP_DONE], 2);
    }
    const struct sweep_query query = { .sweep = id, .where = "status = 'error'", .format = SWEEP_CSV };
    EXPECT_INT(sweep_query_print(database, &query, &out, &rows, &notes, &error), STATUS_OK);
    EXPECT_INT(rows, 3);
    EXPECT_PART(out.text, "0,0,1,,,test");
    EXPECT_PART(out.text, "\"\"4 / micro_batch\"\": / gives no finite number at micro_batch = 0\"");
    EXPECT_PART(out.text, "4,4,1,1,2,test");
    EXPECT_PART(out.text, "\"\"1 / (micro_batch - 4) < 1\"\": / gives no finite number at micro_batch = 4\"");
    strbuf_free(&out);
    strbuf_free(&notes);
    sweep_database_close(database);
    sweep_free(&sweep);
}

/* What fills the fullest device adds up; the first stage of 1F1B keeps two micro-batches, the last one. */
static void test_memory_columns(void)
{
    struct sweep_row row;
    double sum = 0;
    sweep_row_compute(&row,
                      "{\"model\":\"gpt2\",\"machine\":\"toy-2gpu\",\"parallel\":{\"pipeline\":2},"
                      "\"training\":{\"global_batch\":8}}",
                      "t");
    EXPECT_INT(row.status, SWEEP_DONE);
    for (int i = FIGURE_peak_weight_bytes; i <= FIGURE_peak_runtime_bytes; i++) {
        EXPECT(row.has[i]);
        sum += row.figures[i];
    }
    EXPECT_REAL(sum, row.figures[FIGURE_peak_bytes], 0);
    EXPECT(row.figures[FIGURE_peak_activation_bytes] > 0);
    EXPECT(row.figures[FIGURE_least_peak_bytes] > 0);
    EXPECT(row.figures[FIGURE_least_peak_bytes] < row.figures[FIGURE_peak_bytes]);
}

static void put(struct sweep_database *database, const char *hash, double step, double peak)
{
    struct sweep_row row;
    struct error error = { 0 };
    memset(&row, 0, sizeof row);
    row.has[FIGURE_step_time_s] = row.has[FIGURE_peak_bytes] = row.has[FIGURE_tokens_per_s] = true;
    row.figures[FIGURE_step_time_s] = step;
    row.figures[FIGURE_peak_bytes] = peak;
    row.figures[FIGURE_tokens_per_s] = 1 / step;
    EXPECT_INT(sweep_database_put_row(database, hash, "{}", &row, &error), STATUS_OK);
}

static enum status ask(struct sweep_database *database, const char *where, const char *pareto, const char *by,
                       uint64_t top, uint64_t *rows, char text[8192])
{
    struct strbuf out = { 0 }, notes = { 0 };
    struct error error = { 0 };
    const struct sweep_query query = { .where = where, .pareto = pareto, .by = by, .top = top, .format = SWEEP_CSV };
    enum status status = sweep_query_print(database, &query, &out, rows, &notes, &error);
    snprintf(text, 8192, "%s%s%s", out.text != NULL ? out.text : "", notes.text != NULL ? notes.text : "",
             error.message);
    strbuf_free(&out);
    strbuf_free(&notes);
    return status;
}

/* What another client has written is printed as far as JSON can say it. */
static void test_infinite_figure(void)
{
    struct sweep_database *database;
    struct error error = { 0 };
    struct strbuf out = { 0 }, notes = { 0 };
    const struct sweep_query query = { .format = SWEEP_JSON };
    uint64_t rows;
    EXPECT_INT(sweep_database_open(&database, NULL, "test", &error), STATUS_OK);
    put(database, "00000001", INFINITY, 1);
    EXPECT_INT(sweep_query_print(database, &query, &out, &rows, &notes, &error), STATUS_OK);
    EXPECT_PART(out.text, "\"step_time_s\": null");
    strbuf_free(&out);
    strbuf_free(&notes);
    sweep_database_close(database);
}

/* The front against the definition, on random rows with ties. */
static void test_pareto(void)
{
    enum { ROWS = 60 };
    struct sweep_database *database;
    struct error error = { 0 };
    double step[ROWS], peak[ROWS];
    uint64_t state = test_seed, rows, expected = 0;
    char text[8192];
    EXPECT_INT(sweep_database_open(&database, NULL, "test", &error), STATUS_OK);
    for (int i = 0; i < ROWS; i++) {
        char hash[16];
        snprintf(hash, sizeof hash, "%08d", i);
        step[i] = 1 + (double)test_below(&state, 12);
        peak[i] = 1 + (double)test_below(&state, 12);
        put(database, hash, step[i], peak[i]);
    }
    for (int i = 0; i < ROWS; i++) {
        bool beaten = false;
        for (int k = 0; k < ROWS; k++) {
            beaten = beaten || (step[k] <= step[i] && peak[k] <= peak[i] && (step[k] < step[i] || peak[k] < peak[i]));
        }
        expected += !beaten;
    }
    EXPECT_INT(ask(database, NULL, "step_time_s,peak_bytes,cost", NULL, 0, &rows, text), STATUS_OK);
    EXPECT_INT(rows, expected);
    EXPECT_PART(text, "no row has cost_usd_per_trillion_tokens");
    EXPECT_INT(ask(database, "step_time_s <= 3", NULL, NULL, 2, &rows, text), STATUS_OK);
    EXPECT(rows <= 2);
    EXPECT_INT(ask(database, "nonsense > 1", NULL, NULL, 0, &rows, text), STATUS_BAD_INPUT);
    EXPECT_PART(text, "nonsense");
    EXPECT_INT(ask(database, "1); DROP TABLE results; --", NULL, NULL, 0, &rows, text), STATUS_BAD_INPUT);
    EXPECT_INT(ask(database, "step_time_s > 3) OR (1", NULL, NULL, 0, &rows, text), STATUS_BAD_INPUT);
    EXPECT_INT(ask(database, "1 LIMIT 1", NULL, NULL, 0, &rows, text), STATUS_BAD_INPUT);
    EXPECT_INT(ask(database, "\"stp_time_s\" = 3", NULL, NULL, 0, &rows, text), STATUS_BAD_INPUT);
    EXPECT_PART(text, "no such column");
    EXPECT_INT(ask(database, "step_time_s = :wanted", NULL, NULL, 0, &rows, text), STATUS_BAD_INPUT);
    EXPECT_PART(text, "\":wanted\" has no value here");
    EXPECT_INT(ask(database, NULL, "step_tim_s", NULL, 0, &rows, text), STATUS_BAD_INPUT);
    EXPECT_PART(text, "did you mean \"step_time_s\"");
    EXPECT_INT(ask(database, NULL, NULL, "ops", 1, &rows, text), STATUS_BAD_INPUT);
    EXPECT_INT(ask(database, NULL, NULL, NULL, 0, &rows, text), STATUS_OK);
    EXPECT_INT(rows, ROWS);
    sweep_database_close(database);
}

/* Figures that overflow when two are divided drew charts without an end. */
static void test_absurd_figures(void)
{
    static const double steps[] = { 5e-324, 1e-101, 1e101, -1, INFINITY, 0, 1e-12, 1e12 };
    char file[64];
    snprintf(file, sizeof file, "/tmp/t_sweep_%d.db", (int)getpid());
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        struct sweep_database *database;
        struct error error = { 0 };
        EXPECT_INT(sweep_database_open(&database, file, "test", &error), STATUS_OK);
        struct sweep_row row;
        memset(&row, 0, sizeof row);
        row.has[FIGURE_step_time_s] = true;
        row.figures[FIGURE_step_time_s] = steps[i];
        EXPECT_INT(sweep_database_put_row(database, "1", "{}", &row, &error), STATUS_OK);
        sweep_database_close(database);
        EXPECT_INT(sweep_database_open_to_read(&database, file, "test", &error), i < 5 ? STATUS_BAD_INPUT : STATUS_OK);
        EXPECT((i < 5) == (strstr(error.message, "figures that no simulation gives") != NULL));
        if (i >= 5) {
            sweep_database_close(database);
        }
        unlink(file);
    }
}

static void test_bad_files(void)
{
    struct sweep_database *database;
    struct error error = { 0 };
    char file[64];
    snprintf(file, sizeof file, "/tmp/t_sweep_%d.txt", (int)getpid());
    EXPECT_INT(file_write(file,
                          "This is no database, but long enough to look like a header of "
                          "one........................................................................",
                          130, &error),
               STATUS_OK);
    EXPECT_INT(sweep_database_open(&database, file, "test", &error), STATUS_BAD_INPUT);
    EXPECT_PART(error.message, "no database");
    EXPECT_INT(sweep_database_open_to_read(&database, file, "test", &error), STATUS_BAD_INPUT);
    unlink(file);
    EXPECT_INT(sweep_database_open_to_read(&database, file, "test", &error), STATUS_NOT_FOUND);
    EXPECT_INT(sweep_database_open(&database, "/tmp", "test", &error), STATUS_BAD_INPUT);
    EXPECT_INT(sweep_database_open(&database, "", "test", &error), STATUS_BAD_INPUT);
    EXPECT_PART(error.message, "names no file");
    EXPECT_INT(sweep_database_open(&database, ":memory:", "test", &error), STATUS_BAD_INPUT);
    EXPECT_INT(sweep_database_open_to_read(&database, "", "test", &error), STATUS_BAD_INPUT);
}

TEST_MAIN(TEST(test_points), TEST(test_range), TEST(test_log_count), TEST(test_real_key), TEST(test_refused),
          TEST(test_hash), TEST(test_threads_and_resume), TEST(test_error_rows), TEST(test_fault_rows),
          TEST(test_memory_columns), TEST(test_pareto), TEST(test_infinite_figure), TEST(test_absurd_figures),
          TEST(test_bad_files))
