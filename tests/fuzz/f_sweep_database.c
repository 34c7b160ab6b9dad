/* Fuzz the readers of a sweep's database (--top, --pareto, --csv, --json, memwall report, and the sweep that goes on in it): a valid file with bytes changed or its end lost, and one where another
 * client has written what no sweep writes. Each reader answers or says why not; tables and pages are closed documents; nothing may crash (run under ASan and UBSan). */
#include <sqlite3.h>
#include <unistd.h>

#include "sim/base/file.h"
#include "sim/base/json.h"
#include "sim/base/json_write.h"
#include "sim/sweep/sweep.h"
#include "sim/sweep/sweep_page.h"
#include "sim/sweep/sweep_query.h"
#include "tests/fuzz/fuzz.h"

static const char sweep_text[] =
    "{\"schema\":\"memwall.sweep/1\",\"name\":\"t\",\"base\":{\"model\":\"gpt2\",\"machine\":\"toy-2gpu\",\"gpus\":2},"
    "\"axes\":[{\"path\":\"parallel.tensor\",\"values\":[1,2]},{\"path\":\"training.micro_batch\",\"values\":[1,2,4,8,"
    "16]},{\"name\":\"word\",\"values\":[\"a\",null]}]}";

enum { ROWS = 20 };
static char file[64];
static char *good;
static size_t good_bytes;

static void make_database(void)
{
    struct sweep sweep;
    struct sweep_database *database;
    struct error error = { 0 };
    struct sweep_row row;
    int64_t id = 0;
    memset(&row, 0, sizeof row);
    EXPECT_INT(sweep_parse(&sweep, sweep_text, "f.json", &error), STATUS_OK);
    EXPECT_INT(sweep_database_open(&database, file, "fuzz", &error), STATUS_OK);
    EXPECT_INT(sweep_database_enter(database, &sweep, &id, &error), STATUS_OK);
    for (uint64_t i = 0; i < ROWS; i++) {
        char hash[24];
        snprintf(hash, sizeof hash, "%" PRIu64, i);
        row.status = i % 5 == 4 ? SWEEP_DOES_NOT_FIT : SWEEP_DONE;
        snprintf(row.reason, sizeof row.reason, "%s", i % 5 == 4 ? "does not fit: 9 bytes\nheld by nobody" : "");
        for (int k = 0; k < SWEEP_FIGURE_COUNT; k++) {
            row.has[k] = i % 7 != 6;
            row.figures[k] = (double)(i + 1);
        }
        EXPECT_INT(sweep_database_put_row(database, hash, "{}", &row, &error), STATUS_OK);
        EXPECT_INT(sweep_database_put_point(database, id, i, hash, i % 2 == 0 ? "{\"tensor\":1,\"word\":\"a\"}" : "{}",
                                            &error),
                   STATUS_OK);
    }
    sweep_database_close(database);
    sweep_free(&sweep);
}

/* --- what may stand in a file */

static void change_bytes(uint64_t *state)
{
    struct error error = { 0 };
    char *bytes = malloc(good_bytes);
    EXPECT(bytes != NULL);
    if (bytes == NULL) {
        return;
    }
    memcpy(bytes, good, good_bytes);
    for (uint64_t n = 1 + test_below(state, 8); n-- > 0;) {
        size_t reach = test_below(state, 2) == 0 ? 200 : good_bytes;
        bytes[test_below(state, reach)] = (char)test_below(state, 256);
    }
    size_t kept = test_below(state, 4) == 0 ? test_below(state, good_bytes) : good_bytes;
    EXPECT_INT(file_write(file, bytes, kept, &error), STATUS_OK);
    free(bytes);
}

static const char *const values[] = { "NULL",
                                      "''",
                                      "'<script>\"&'",
                                      "'{\"tensor\":1e999}'",
                                      "'{'",
                                      "'[1]'",
                                      "'{\"tensor\":{\"a\":[1]},\"word\":\"\\u0000<\"}'",
                                      "0",
                                      "-1",
                                      "1e300",
                                      "9e999",
                                      "-9e999",
                                      "9223372036854775807",
                                      "-9223372036854775808",
                                      "x'00ff'",
                                      "CAST(x'41ff4200c3' AS TEXT)",
                                      "hex(zeroblob(3000))",
                                      "5e-324",
                                      "'done'",
                                      "'fuzz'" };
enum { VALUE_COUNT = sizeof values / sizeof values[0] };

/* One column of one table gets a value; a refusal by the schema is as good. */
static void write_value(sqlite3 *sqlite, uint64_t *state)
{
    static const char *const columns[][2] = {
        { "sweeps", "id" },         { "sweeps", "name" },      { "sweeps", "definition" }, { "sweeps", "hash" },
        { "points", "sweep" },      { "points", "point" },     { "points", "version" },    { "points", "hash" },
        { "points", "axes" },       { "results", "version" },  { "results", "hash" },      { "results", "status" },
        { "results", "reason" },    { "results", "scenario" }, { "results", "bound" },     { "results", "traffic" },
        { "results", "error_kind" }
    };
    enum { COLUMN_COUNT = sizeof columns / sizeof columns[0] };
    uint64_t which = test_below(state, COLUMN_COUNT + SWEEP_FIGURE_COUNT);
    const char *table = which < COLUMN_COUNT ? columns[which][0] : "results";
    const char *column = which < COLUMN_COUNT ? columns[which][1] : sweep_figures[which - COLUMN_COUNT].name;
    char sql[512];
    snprintf(sql, sizeof sql, "UPDATE OR REPLACE %s SET %s = %s WHERE %" PRIu64 " = 0 OR hash = '%" PRIu64 "'", table,
             column, values[test_below(state, VALUE_COUNT)], test_below(state, 3), test_below(state, ROWS));
    (void)sqlite3_exec(sqlite, sql, NULL, NULL, NULL);
}

static void change_tables(sqlite3 *sqlite, uint64_t *state)
{
    static const char *const changes[] = {
        "DROP TABLE sweeps",
        "DROP TABLE points",
        "DROP TABLE results",
        "DROP VIEW sweep_1",
        "DELETE FROM sweeps",
        "DELETE FROM points",
        "DELETE FROM results",
        "DROP VIEW sweep_1; CREATE VIEW sweep_1 AS SELECT 1",
        "DROP VIEW sweep_1; CREATE VIEW sweep_1 AS SELECT p.point AS point, r.* FROM points p, results r",
        "DROP VIEW sweep_1; CREATE VIEW sweep_1 AS SELECT 1 AS point, 2 AS \"a\"\"b<i>\", 3 AS '', r.* FROM results r",
        "DROP VIEW sweep_1; CREATE VIEW sweep_1 AS SELECT * FROM sweep_1",
        "DROP VIEW sweep_1; CREATE TABLE sweep_1(point, version, status)",
        "ALTER TABLE results DROP COLUMN mfu",
        "ALTER TABLE results RENAME COLUMN step_time_s TO x",
        "DROP TABLE results; CREATE TABLE results(version, hash, status, reason)",
        "INSERT INTO sweeps(id, name, definition, hash) VALUES(2, 'b', '{}', 'h')",
        "PRAGMA application_id = 7",
        "PRAGMA user_version = 7",
        "PRAGMA encoding = 'UTF-16'",
        "CREATE TABLE pareto(hash)",
        "CREATE TRIGGER t BEFORE INSERT ON results BEGIN SELECT RAISE(ABORT, 'no'); END",
    };
    (void)sqlite3_exec(sqlite, changes[test_below(state, sizeof changes / sizeof changes[0])], NULL, NULL, NULL);
}

static void change_rows(uint64_t *state)
{
    struct error error = { 0 };
    sqlite3 *sqlite = NULL;
    EXPECT_INT(file_write(file, good, good_bytes, &error), STATUS_OK);
    EXPECT_INT(sqlite3_open_v2(file, &sqlite, SQLITE_OPEN_READWRITE, NULL), SQLITE_OK);
    (void)sqlite3_exec(sqlite, "PRAGMA ignore_check_constraints = 1; PRAGMA journal_mode = DELETE", NULL, NULL, NULL);
    for (uint64_t n = test_below(state, 4); n-- > 0;) {
        write_value(sqlite, state);
    }
    if (test_below(state, 3) == 0) {
        change_tables(sqlite, state);
    }
    (void)sqlite3_close(sqlite);
}

/* --- the readers */

static bool ends_with(const struct strbuf *text, const char *end)
{
    size_t length = strlen(end);
    return text->length >= length && strcmp(text->text + text->length - length, end) == 0;
}

static void query(struct sweep_database *database, uint64_t *state)
{
    struct strbuf out = { 0 }, notes = { 0 };
    struct error error = { 0 };
    struct json_document *document = NULL;
    uint64_t rows = 0;
    const struct sweep_query query = { .top = test_below(state, 2) * 5,
                                       .by = test_below(state, 2) == 0 ? NULL : "step_time_s",
                                       .pareto = test_below(state, 2) == 0 ? NULL : "step_time_s,peak_bytes,cost",
                                       .where = test_below(state, 3) == 0 ? "tensor = 1 or mfu > 0.1" : NULL,
                                       .sweep = (int64_t)test_below(state, 3),
                                       .format = (enum sweep_format)test_below(state, 3) };
    if (sweep_query_print(database, &query, &out, &rows, &notes, &error) != STATUS_OK) {
        EXPECT(error.message[0] != '\0');
    } else if (query.format == SWEEP_JSON) {
        enum status status = json_parse(&document, out.text, out.length, "rows", &error);
        EXPECT_INT(status, STATUS_OK);
        if (status != STATUS_OK) {
            printf("%s\n%s\n", error.message, out.text);
        }
        json_free(document);
    }
    strbuf_free(&out);
    strbuf_free(&notes);
}

static void print_page(struct sweep_database *database, uint64_t *state)
{
    struct strbuf out = { 0 };
    struct error error = { 0 };
    const struct sweep_page_request request = { file, "memwall report", (int64_t)test_below(state, 2) };
    bool fits = false;
    if (sweep_page_print(database, &request, &out, &fits, &error) != STATUS_OK) {
        EXPECT(error.message[0] != '\0');
    } else {
        EXPECT(ends_with(&out, "</html>\n"));
        EXPECT(strstr(out.text, "<script>\"") == NULL && strstr(out.text, "<i>") == NULL);
        EXPECT(strstr(out.text, "nan") == NULL && strstr(out.text, "inf\"") == NULL);
    }
    strbuf_free(&out);
}

static void go_on(void)
{
    struct sweep_database *database;
    struct error error = { 0 };
    struct sweep sweep;
    struct sweep_row row;
    int64_t id = 0;
    bool found;
    enum sweep_status status;
    double figure;
    memset(&row, 0, sizeof row);
    if (sweep_database_open(&database, file, "fuzz", &error) != STATUS_OK) {
        EXPECT(error.message[0] != '\0');
        return;
    }
    EXPECT_INT(sweep_parse(&sweep, sweep_text, "f.json", &error), STATUS_OK);
    if (sweep_database_enter(database, &sweep, &id, &error) != STATUS_OK ||
        sweep_database_find(database, "3", FIGURE_step_time_s, &found, &status, &figure, &error) != STATUS_OK ||
        sweep_database_put_row(database, "3", "{}", &row, &error) != STATUS_OK ||
        sweep_database_put_point(database, id, 3, "3", "{}", &error) != STATUS_OK) {
        EXPECT(error.message[0] != '\0');
    }
    sweep_database_close(database);
    sweep_free(&sweep);
}

static void round_of(uint64_t seed)
{
    uint64_t state = seed;
    struct sweep_database *database;
    struct error error = { 0 };
    if (test_below(&state, 2) == 0) {
        change_bytes(&state);
    } else {
        change_rows(&state);
    }
    if (sweep_database_open_to_read(&database, file, "fuzz", &error) == STATUS_OK) {
        query(database, &state);
        query(database, &state);
        print_page(database, &state);
        sweep_database_close(database);
    } else {
        EXPECT(error.message[0] != '\0');
    }
    if (test_below(&state, 4) == 0) {
        go_on();
    }
    static const char *const parts[] = { "", "-wal", "-shm", "-journal" };
    for (int i = 0; i < 4; i++) {
        char part[80];
        snprintf(part, sizeof part, "%s%s", file, parts[i]);
        (void)unlink(part);
    }
}

int main(int argc, char **argv)
{
    struct error error = { 0 };
    snprintf(file, sizeof file, "/tmp/f_sweep_database_%d.db", (int)getpid());
    make_database();
    EXPECT_INT(file_read(file, 1 << 24, &good, &good_bytes, &error), STATUS_OK);
    int code = test_failures == 0 ? fuzz_run(round_of, argc, argv) : 1;
    free(good);
    return code;
}
