/* Reads every number of the lessons' text a second way. usage: lessons_check MEMWALL LESSONS DATABASES SCRATCH NAME...
 *
 * LESSONS holds NAME.lesson.json and README.md, DATABASES holds NAME.db. Nothing is shared with the maker (make.c) but the lesson's file: figures are asked of the database in SQL, which has its own
 * evaluator (columns widened to REAL, so that 1 / 2 is a half); the README's paragraph is matched word by word against the lesson's lines, and where {name} stands the number printed there must be
 * the figure, to half of its last digit. And the rows that figures come from are simulated once more by `memwall run`, whose result must equal them. Exit 1 with what differs. */
#include <ctype.h>
#include <math.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "sim/base/check.h"
#include "sim/base/file.h"
#include "sim/base/json.h"
#include "sim/base/strbuf.h"

enum { NAMES_MAX = 48, TEXT_BYTES_MAX = 4 << 20 };

struct checker {
    const char *memwall, *folder, *databases, *scratch, *name;
    sqlite3 *database;
    const char *figures[NAMES_MAX];
    double values[NAMES_MAX];
    uint32_t figure_count;
    unsigned numbers, rows, failures;
};

#define FAIL(c, ...)                                                                                                   \
    do {                                                                                                               \
        printf("FAIL %s: ", (c)->name);                                                                                \
        printf(__VA_ARGS__);                                                                                           \
        printf("\n");                                                                                                  \
        (c)->failures++;                                                                                               \
    } while (0)

/* --- SQL */

/* traffic.pcie -> the value of that key in the JSON text of column traffic. */
static void put_expression(struct strbuf *sql, const char *text)
{
    static const char TRAFFIC[] = "traffic.";
    const char *at;
    while ((at = strstr(text, TRAFFIC)) != NULL) {
        size_t kind = strspn(at + sizeof TRAFFIC - 1, "abcdefghijklmnopqrstuvwxyz0123456789_");
        strbuf_append_n(sql, text, (size_t)(at - text));
        strbuf_printf(sql, "coalesce(json_extract(traffic,'$.%.*s'),0.0)", (int)kind, at + sizeof TRAFFIC - 1);
        text = at + sizeof TRAFFIC - 1 + kind;
    }
    strbuf_append(sql, text);
}

static bool ask(struct checker *c, const char *sql, double *value, int *rows)
{
    sqlite3_stmt *statement = NULL;
    *rows = 0;
    if (sqlite3_prepare_v2(c->database, sql, -1, &statement, NULL) != SQLITE_OK) {
        FAIL(c, "%s: %s", sql, sqlite3_errmsg(c->database));
        return false;
    }
    while (sqlite3_step(statement) == SQLITE_ROW) {
        *value = sqlite3_column_double(statement, 0);
        (*rows)++;
    }
    (void)sqlite3_finalize(statement);
    return true;
}

static bool open_database(struct checker *c)
{
    char path[1024];
    struct strbuf sql = { 0 };
    sqlite3_stmt *statement = NULL;
    snprintf(path, sizeof path, "%s/%s.db", c->databases, c->name);
    if (sqlite3_open_v2(path, &c->database, SQLITE_OPEN_READWRITE, NULL) != SQLITE_OK ||
        sqlite3_prepare_v2(c->database, "SELECT name FROM pragma_table_info('sweep_1')", -1, &statement, NULL) !=
            SQLITE_OK) {
        FAIL(c, "%s: %s", path, sqlite3_errmsg(c->database));
        return false;
    }
    strbuf_append(&sql, "CREATE TEMP VIEW lesson AS SELECT ");
    for (bool first = true; sqlite3_step(statement) == SQLITE_ROW; first = false) {
        const char *column = (const char *)sqlite3_column_text(statement, 0);
        strbuf_printf(&sql, "%sCASE typeof(\"%s\") WHEN 'integer' THEN CAST(\"%s\" AS REAL) ELSE \"%s\" END AS \"%s\"",
                      first ? "" : ",", column, column, column, column);
    }
    (void)sqlite3_finalize(statement);
    strbuf_append(&sql, " FROM sweep_1");
    bool done = sqlite3_exec(c->database, sql.text, NULL, NULL, NULL) == SQLITE_OK;
    if (!done) {
        FAIL(c, "%s: %s", path, sqlite3_errmsg(c->database));
    }
    strbuf_free(&sql);
    return done;
}

/* --- a row once more */

static double number(const struct json *object, const char *key)
{
    double value = NAN;
    return json_real(object, key, -HUGE_VAL, HUGE_VAL, &value, NULL) == STATUS_OK ? value : NAN;
}

static void same(struct checker *c, sqlite3_stmt *row, const char *column, double value)
{
    for (int i = 0; i < sqlite3_column_count(row); i++) {
        if (strcmp(sqlite3_column_name(row, i), column) == 0) {
            double there = sqlite3_column_double(row, i);
            /* means over stages are summed in another order: rounding of up to 128 terms */
            if (!(fabs(there - value) <= 128 * 0x1p-52 * fabs(there))) {
                FAIL(c, "%s is %.17g in the database, %.17g by memwall run", column, there, value);
            }
            return;
        }
    }
    FAIL(c, "no column %s", column);
}

static void same_memory(struct checker *c, sqlite3_stmt *row, const struct json *result)
{
    static const char *const CLASSES[] = { "weight",   "gradient",  "optimizer",     "activation",
                                           "boundary", "workspace", "communication", "runtime" };
    double most = 0, least = INFINITY, host = 0, at_peak[8] = { 0 };
    struct json devices;
    if (json_array(result, "devices", &devices, NULL) != STATUS_OK) {
        FAIL(c, "memwall run says no devices");
        return;
    }
    for (size_t i = 0; i < json_count(&devices); i++) {
        struct json device, classes;
        const char *space = "";
        json_item(&devices, i, &device);
        double peak = number(&device, "peak_bytes");
        (void)json_string(&device, "space", &space, NULL);
        if (strcmp(space, "host") == 0) {
            host = fmax(host, peak);
        } else if (strcmp(space, "device") == 0) {
            least = fmin(least, peak);
            for (int k = 0; k < 8 && peak > most && json_object(&device, "at_peak", &classes, NULL) == STATUS_OK; k++) {
                at_peak[k] = number(&classes, CLASSES[k]);
            }
            most = fmax(most, peak);
        }
    }
    same(c, row, "peak_bytes", most);
    same(c, row, "least_peak_bytes", least);
    same(c, row, "host_peak_bytes", host);
    for (int k = 0; k < 8; k++) {
        char column[64];
        snprintf(column, sizeof column, "peak_%s_bytes", CLASSES[k]);
        same(c, row, column, at_peak[k]);
    }
}

static void same_times(struct checker *c, sqlite3_stmt *row, const struct json *result)
{
    static const char *const FIGURES[] = { "step_time_s",          "samples_per_s", "tokens_per_s",
                                           "tokens_per_s_per_gpu", "mfu",           "hfu" };
    static const char *const CLASSES[] = { "compute", "recompute", "tensor_comm", "pipeline_comm", "data_comm",
                                           "offload", "optimizer", "bubble",      "memory_wait",   "host_issue" };
    struct json stages, stage, exposed;
    for (size_t i = 0; i < sizeof FIGURES / sizeof FIGURES[0]; i++) {
        same(c, row, FIGURES[i], number(result, FIGURES[i]));
    }
    if (json_array(result, "time_breakdown", &stages, NULL) != STATUS_OK) {
        FAIL(c, "memwall run says no times");
        return;
    }
    for (size_t k = 0; k < sizeof CLASSES / sizeof CLASSES[0]; k++) {
        double sum = 0;
        char column[64];
        for (size_t i = 0; i < json_count(&stages); i++) {
            json_item(&stages, i, &stage);
            sum += json_object(&stage, "exposed", &exposed, NULL) == STATUS_OK ? number(&exposed, CLASSES[k]) : NAN;
        }
        snprintf(column, sizeof column, "time_%s_s", CLASSES[k]);
        same(c, row, column, sum / (double)json_count(&stages));
    }
}

static const char *text_of(sqlite3_stmt *row, const char *column)
{
    for (int i = 0; i < sqlite3_column_count(row); i++) {
        if (strcmp(sqlite3_column_name(row, i), column) == 0) {
            return (const char *)sqlite3_column_text(row, i);
        }
    }
    return "";
}

static void run_again(struct checker *c, sqlite3_stmt *row)
{
    char scenario[1024], answer[1024], command[4096];
    struct json_document *document = NULL;
    struct json root;
    struct error error = { 0 };
    const char *text = text_of(row, "scenario");
    snprintf(scenario, sizeof scenario, "%s/one.json", c->scratch);
    snprintf(answer, sizeof answer, "%s/answer.json", c->scratch);
    snprintf(command, sizeof command, "'%s' run '%s' --json --quiet >'%s' 2>'%s.err'", c->memwall, scenario, answer,
             answer);
    int code = file_write(scenario, text, strlen(text), &error) == STATUS_OK ? system(command) : -1;
    bool has_figures = sqlite3_column_type(row, 0) != SQLITE_NULL, fits = false;
    c->rows++;
    if (code != -1 && WEXITSTATUS(code) == 2 && !has_figures) {
        return; /* does not fit and never would: no result there either */
    }
    if (code == -1 || json_load(&document, answer, JSON_BYTES_MAX, &error) != STATUS_OK) {
        FAIL(c, "memwall run: %s", error.message);
        return;
    }
    json_root(document, &root);
    (void)json_bool(&root, "fits", &fits, NULL);
    if (fits != (strcmp(text_of(row, "status"), "done") == 0)) {
        FAIL(c, "memwall run does not agree on whether it fits: %s", text);
    }
    same_times(c, row, &root);
    same_memory(c, row, &root);
    json_free(document);
}

/* Every row that a figure was taken from, each once in a lesson. */
static void run_rows(struct checker *c, const struct strbuf *conditions)
{
    sqlite3_stmt *row = NULL;
    struct strbuf sql = { 0 };
    strbuf_printf(&sql, "SELECT step_time_s, * FROM lesson WHERE %s", conditions->text);
    if (sqlite3_prepare_v2(c->database, sql.text, -1, &row, NULL) != SQLITE_OK) {
        FAIL(c, "%s: %s", sql.text, sqlite3_errmsg(c->database));
    }
    while (sqlite3_step(row) == SQLITE_ROW) {
        run_again(c, row);
    }
    (void)sqlite3_finalize(row);
    strbuf_free(&sql);
}

/* --- figures */

static void read_figure(struct checker *c, const char *name, const struct json *at, struct strbuf *conditions)
{
    const char *value = "1", *where = NULL, *take = "one";
    struct strbuf sql = { 0 };
    int rows = 0;
    double figure = NAN;
    (void)json_string_or(at, "value", "1", &value, NULL);
    (void)json_string_or(at, "where", NULL, &where, NULL);
    (void)json_string_or(at, "take", "one", &take, NULL);
    strbuf_printf(&sql, "SELECT %s(",
                  strcmp(take, "most") == 0    ? "max"
                  : strcmp(take, "least") == 0 ? "min"
                  : strcmp(take, "count") == 0 ? "count"
                                               : "");
    put_expression(&sql, value);
    strbuf_append(&sql, ") FROM ");
    if (where != NULL) {
        strbuf_append(&sql, "lesson WHERE ");
        put_expression(&sql, where);
        strbuf_append(conditions, conditions->length > 0 ? " OR (" : "(");
        put_expression(conditions, where);
        strbuf_char(conditions, ')');
    } else {
        strbuf_append(&sql, "(SELECT 0 AS _");
        for (uint32_t i = 0; i < c->figure_count; i++) {
            strbuf_printf(&sql, ", CAST(%.17g AS REAL) AS \"%s\"", c->values[i], c->figures[i]);
        }
        strbuf_char(&sql, ')');
    }
    if (ask(c, sql.text, &figure, &rows) && rows != 1) {
        FAIL(c, "%s: %d rows answer", sql.text, rows);
    }
    strbuf_free(&sql);
    if (c->figure_count < NAMES_MAX) {
        c->figures[c->figure_count] = name;
        c->values[c->figure_count++] = figure;
    }
}

/* --- text */

/* Past the number at `page`, which must be the figure of that name. */
static const char *match_number(struct checker *c, const char *name, const char *page)
{
    uint32_t i = 0;
    char printed[64];
    size_t length = page[0] == '-', decimals = 0;
    length += strspn(page + length, "0123456789");
    if (page[length] == '.' && isdigit((unsigned char)page[length + 1])) {
        decimals = strspn(page + length + 1, "0123456789");
        length += 1 + decimals;
    }
    while (i < c->figure_count && strcmp(c->figures[i], name) != 0) {
        i++;
    }
    if (i == c->figure_count || length == 0 || length >= sizeof printed) {
        FAIL(c, "where {%s} stands, the README has \"%.30s\"", name, page);
        return page + length;
    }
    snprintf(printed, sizeof printed, "%.*s", (int)length, page);
    double half = 0.5 * pow(10, -(double)decimals);
    if (!(fabs(strtod(printed, NULL) - c->values[i]) <= half * (1 + 1e-9))) {
        FAIL(c, "{%s} is %.10g, the README says %s", name, c->values[i], printed);
    }
    c->numbers++;
    return page + length;
}

static const char *match_line(struct checker *c, const char *line, const char *page)
{
    while (*line != '\0') {
        if (*line == '{') {
            char name[64];
            size_t length = strcspn(line, "}");
            snprintf(name, sizeof name, "%.*s", (int)length - 1, line + 1);
            page = match_number(c, name, page);
            line += length + (line[length] == '}');
        } else if (*line++ != *page++) {
            FAIL(c, "the README says \"%.40s\", the lesson \"%.40s\"", page - 1, line - 1);
            return page;
        }
    }
    return page;
}

static void match_text(struct checker *c, const struct json *root, const char *readme)
{
    char picture[256];
    struct json lines, at;
    snprintf(picture, sizeof picture, "(%s.svg)\n\n", c->name);
    const char *page = strstr(readme, picture);
    if (page == NULL || json_array(root, "text", &lines, NULL) != STATUS_OK) {
        FAIL(c, "not in the README");
        return;
    }
    page += strlen(picture);
    for (size_t i = 0; i < json_count(&lines) && c->failures == 0; i++) {
        const char *line = "";
        json_item(&lines, i, &at);
        (void)json_as_string(&at, &line, NULL);
        page = match_line(c, line, page);
        if (*page++ != '\n') {
            FAIL(c, "the README goes on with \"%.40s\"", page - 1);
        }
    }
}

static void check_lesson(struct checker *c, const char *readme)
{
    char path[1024];
    struct json_document *document = NULL;
    struct json root, figures, at;
    struct strbuf conditions = { 0 };
    struct error error = { 0 };
    snprintf(path, sizeof path, "%s/%s.lesson.json", c->folder, c->name);
    if (json_load(&document, path, JSON_BYTES_MAX, &error) != STATUS_OK) {
        FAIL(c, "%s", error.message);
        return;
    }
    json_root(document, &root);
    if (open_database(c) && json_object(&root, "figures", &figures, &error) == STATUS_OK) {
        for (size_t i = 0; i < json_count(&figures); i++) {
            const char *name;
            json_member(&figures, i, &name, &at);
            read_figure(c, name, &at, &conditions);
        }
        match_text(c, &root, readme);
        run_rows(c, &conditions);
    }
    if (c->numbers == 0) {
        FAIL(c, "its text has no number");
    }
    strbuf_free(&conditions);
    (void)sqlite3_close(c->database);
    json_free(document);
    printf("%s %s: %u numbers of the text, %u rows simulated again\n", c->failures == 0 ? "ok  " : "FAIL", c->name,
           c->numbers, c->rows);
}

int main(int argc, char **argv)
{
    char path[1024], *readme = NULL;
    size_t length;
    unsigned failures = 0;
    if (argc < 6) {
        fprintf(stderr, "usage: lessons_check MEMWALL LESSONS DATABASES SCRATCH NAME...\n");
        return 1;
    }
    snprintf(path, sizeof path, "%s/README.md", argv[2]);
    if (file_read(path, TEXT_BYTES_MAX, &readme, &length, NULL) != STATUS_OK) {
        fprintf(stderr, "lessons: %s cannot be read\n", path);
        return 1;
    }
    for (int i = 5; i < argc; i++) {
        struct checker c = {
            .memwall = argv[1], .folder = argv[2], .databases = argv[3], .scratch = argv[4], .name = argv[i]
        };
        check_lesson(&c, readme);
        failures += c.failures;
    }
    free(readme);
    return failures == 0 ? 0 : 1;
}
