/* "explain shows each byte and each move; the trace shows chunks moving" (issue 4): what the schedule of an offload policy moves is, op by op and byte by byte, in the trace; its sums are explain's (text and JSON) and the trace's;
 * explain's classes at a peak are run's. */
#include <unistd.h>
#include <zlib.h>

#include "sim/base/units.h"
#include "sim/report/explain.h"
#include "tests/moves_run.h"
#include "traces/perfetto.h"

enum { TEXT_MAX = 16 << 20 };

/* ---- the trace ---- */

static struct json_document *trace_of(const struct report_run *run)
{
    char path[] = "/tmp/memwall-moves-XXXXXX";
    struct error error = { 0 };
    struct json_document *document = NULL;
    const struct perfetto_input input = { .schedule = &run->schedule, .timeline = &run->timeline };
    int descriptor = mkstemp(path);
    EXPECT(descriptor >= 0);
    close(descriptor);
    EXPECT_INT(perfetto_write(path, &input, &error), STATUS_OK);
    char *text = malloc(TEXT_MAX);
    gzFile file = gzopen(path, "rb");
    int length = file != NULL && text != NULL ? gzread(file, text, TEXT_MAX) : -1;
    EXPECT(length > 0 && length < TEXT_MAX);
    EXPECT_INT(json_parse(&document, text, (size_t)length, "trace", &error), STATUS_OK);
    gzclose(file);
    free(text);
    unlink(path);
    return document;
}

static void expect_event(const struct report_run *run, const struct json *event, const struct json *args, uint32_t op)
{
    const struct schedule *s = &run->schedule;
    const struct op_times *t = &run->timeline.ops[op];
    const char *name, *moves;
    double bytes, devices, start, length;
    uint32_t count;
    EXPECT_INT(json_string(event, "name", &name, NULL), STATUS_OK);
    EXPECT_INT(json_real(args, "bytes", 0, 1e15, &bytes, NULL), STATUS_OK);
    EXPECT_INT(json_real_or(args, "devices", 2, 1e6, 1, &devices, NULL), STATUS_OK);
    EXPECT_INT(json_real(event, "ts", 0, 1e12, &start, NULL), STATUS_OK);
    EXPECT_INT(json_real(event, "dur", 0, 1e12, &length, NULL), STATUS_OK);
    EXPECT_REAL(bytes, s->works[s->ops[op].work].bytes, 0); /* whole bytes in these cases */
    EXPECT_REAL(devices, moves_devices(s, &s->ops[op]), 0);
    EXPECT_REAL(start, (double)t->start_ps * 1e-6, 1e-12);
    EXPECT_REAL(length, (double)(t->end_ps - t->start_ps) * 1e-6, 1e-12);
    EXPECT(strncmp(name, opcode_word(s->ops[op].opcode), strlen(opcode_word(s->ops[op].opcode))) == 0);
    EXPECT_INT(json_string_or(args, "moves", "", &moves, NULL), STATUS_OK);
    const uint32_t *buffers = sched_moved_buffers(s, &s->ops[op], &count);
    /* Only the sum of the gradients' norm, four bytes, has no buffer of its own. */
    EXPECT(count > 0 || (s->ops[op].opcode == OP_ALL_REDUCE && bytes <= 8));
    if (count > 0) {
        const char *label = sched_label(s, s->buffers[buffers[0]].label);
        EXPECT(strncmp(moves, label, strlen(label)) == 0);
        EXPECT(s->ops[op].micro_batch != OP_TAG_NONE || strstr(name, label) != NULL);
    }
}

/* Every move is one slice of the trace and nothing else is. Fills the bytes of all devices by opcode. */
static void expect_trace(const struct report_run *run, double bytes[OPCODE_COUNT])
{
    const struct schedule *s = &run->schedule;
    struct json root, events, event, args;
    struct json_document *document = trace_of(run);
    uint8_t *seen = calloc(s->op_count, 1);
    json_root(document, &root);
    EXPECT_INT(json_array(&root, "traceEvents", &events, NULL), STATUS_OK);
    for (size_t i = 0; i < json_count(&events); i++) {
        const char *kind = "";
        int64_t op;
        json_item(&events, i, &event);
        EXPECT_INT(json_string(&event, "ph", &kind, NULL), STATUS_OK);
        if (kind[0] != 'X') {
            continue;
        }
        EXPECT_INT(json_object(&event, "args", &args, NULL), STATUS_OK);
        EXPECT_INT(json_int(&args, "op", 0, s->op_count - 1, &op, NULL), STATUS_OK);
        EXPECT_INT(json_has(&args, "bytes"), sched_op_moves(s, &s->ops[op]));
        EXPECT_INT(seen[op]++, 0);
        if (json_has(&args, "bytes")) {
            double one, devices;
            expect_event(run, &event, &args, (uint32_t)op);
            (void)json_real(&args, "bytes", 0, 1e15, &one, NULL);
            (void)json_real_or(&args, "devices", 2, 1e6, 1, &devices, NULL);
            bytes[s->ops[op].opcode] += one * devices;
        }
    }
    for (uint32_t i = 0; i < s->op_count; i++) {
        EXPECT(seen[i] == 1 || !sched_op_moves(s, &s->ops[i]));
    }
    free(seen);
    json_free(document);
}

/* ---- explain ---- */

static const char *direction(enum opcode opcode)
{
    return opcode == OP_COPY_H2D        ? "host to device"
           : opcode == OP_COPY_D2H      ? "device to host"
           : opcode == OP_STORAGE_READ  ? "drives to host"
           : opcode == OP_STORAGE_WRITE ? "host to drives"
                                        : opcode_word(opcode);
}

static const struct explain_table *table_of(const struct explanation *x, const char *section, const char *title)
{
    for (size_t i = 0; i < x->sections.count; i++) {
        const struct explain_section *at = &x->sections.items[i];
        for (size_t k = 0; strcmp(at->id, section) == 0 && k < at->tables.count; k++) {
            if (strncmp(at->tables.items[k].title, title, strlen(title)) == 0) {
                return &at->tables.items[k];
            }
        }
    }
    TEST_FAIL_("no table \"%s\" in \"%s\"", title, section);
    return NULL;
}

/* The row of a table whose `column` has this text, or NULL. */
static const struct explain_cell *row_where(const struct explain_table *table, uint32_t column, const char *text)
{
    for (size_t k = 0; table != NULL && k < table->cells.count; k += table->column_count) {
        const struct explain_cell *row = &table->cells.items[k];
        if (row[column].text != NULL && strcmp(row[column].text, text) == 0) {
            return row;
        }
    }
    return NULL;
}

/* Sums of one column over the rows of a direction. */
static double column_sum(const struct explain_table *table, uint32_t of, const char *text, uint32_t column)
{
    double sum = 0;
    for (size_t k = 0; table != NULL && k < table->cells.count; k += table->column_count) {
        const struct explain_cell *row = &table->cells.items[k];
        sum += strcmp(row[of].text, text) == 0 ? row[column].value : 0;
    }
    return sum;
}

/* What people read: the third cell of the row "  host to device   8   16678912   ..." */
static double bytes_in_text(const char *text, const char *word)
{
    const char *section = strstr(text, "\n  By direction, a step\n");
    char head[64];
    double count, bytes = 0;
    snprintf(head, sizeof head, "\n    %s ", word);
    const char *row = section != NULL ? strstr(section, head) : NULL;
    return row != NULL && sscanf(row + strlen(head), "%lf %lf", &count, &bytes) == 2 ? bytes : 0;
}

/* A plain twin of explain's "beside": every kernel of the rank against every move. */
static double beside_s(const struct report_run *run, enum opcode opcode, bool forward)
{
    const struct schedule *s = &run->schedule;
    double sum = 0;
    for (uint32_t i = 0; i < s->op_count; i++) {
        for (uint32_t k = 0; s->ops[i].opcode == opcode && sched_op_moves(s, &s->ops[i]) && k < s->op_count; k++) {
            const struct sched_op *op = &s->ops[k];
            const struct op_times *a = &run->timeline.ops[i], *b = &run->timeline.ops[k];
            bool backward = op->phase == PHASE_BACKWARD || op->phase == PHASE_WEIGHT || op->phase == PHASE_RECOMPUTE;
            if (op->opcode == OP_COMPUTE && sched_op_rank(s, op) == sched_op_rank(s, &s->ops[i]) &&
                (forward ? op->phase == PHASE_FORWARD : backward)) {
                int64_t from = a->start_ps > b->start_ps ? a->start_ps : b->start_ps;
                int64_t to = a->end_ps < b->end_ps ? a->end_ps : b->end_ps;
                sum += to > from ? s_from_ps(to - from) : 0;
            }
        }
    }
    return sum;
}

static void expect_kinds(const struct report_run *run, const struct explanation *x)
{
    enum { WHAT = 1, DIRECTION = 3, COUNT, BYTES, ALONE, RUNS, FIRST, LAST, FORWARD, BACKWARD, UPDATE, NONE };
    const struct explain_table *kinds = table_of(x, "moves", "By what moves"),
                               *each = table_of(x, "moves", "Each move");
    for (size_t k = 0; kinds != NULL && k < kinds->cells.count; k += kinds->column_count) {
        const struct explain_cell *row = &kinds->cells.items[k];
        EXPECT_REAL(row[FORWARD].value + row[BACKWARD].value + row[UPDATE].value + row[NONE].value, row[RUNS].value,
                    1e-9);
        EXPECT(row[FIRST].value < row[LAST].value && row[RUNS].value >= row[ALONE].value * (1 - 1e-9));
    }
    uint32_t moves = 0;
    for (uint32_t i = 0; i < run->schedule.op_count; i++) {
        moves += sched_op_moves(&run->schedule, &run->schedule.ops[i]);
    }
    EXPECT_INT(each == NULL ? 0 : each->cells.count / each->column_count, moves);
    for (uint32_t opcode = 0; opcode < OPCODE_COUNT; opcode++) {
        const char *word = direction(opcode);
        EXPECT_REAL(column_sum(kinds, DIRECTION, word, FORWARD), beside_s(run, opcode, true), 1e-9);
        EXPECT_REAL(column_sum(kinds, DIRECTION, word, BACKWARD), beside_s(run, opcode, false), 1e-9);
        EXPECT_REAL(column_sum(each, 5, word, 6), column_sum(kinds, DIRECTION, word, BYTES), 0);
    }
}

static const struct json *device_of(const struct json *devices, const char *name, struct json *device)
{
    const char *found = "";
    for (size_t i = 0; i < json_count(devices); i++) {
        json_item(devices, i, device);
        if (json_string(device, "name", &found, NULL) == STATUS_OK && strcmp(found, name) == 0) {
            return device;
        }
    }
    return NULL;
}

/* Live bytes and each class, of each space: explain's GiB are run's bytes exactly (a power of two between them). */
static void expect_peaks(const struct report_run *run, const struct explanation *x, const struct json *result)
{
    const struct explain_table *table = table_of(x, "memory", "By memory space");
    struct json devices, device, at_peak;
    EXPECT_INT(json_array(result, "devices", &devices, NULL), STATUS_OK);
    for (uint32_t i = 0; i < run->schedule.space_count; i++) {
        const struct space_use *use = &run->timeline.spaces[i];
        const char *name = sched_label(&run->schedule, run->schedule.spaces[i].label);
        const struct explain_cell *row = row_where(table, 0, name);
        if (use->peak_bytes == 0) {
            EXPECT(row == NULL);
            continue;
        }
        bool told = row != NULL && device_of(&devices, name, &device) != NULL;
        EXPECT(told);
        double peak = 0, sum = 0;
        EXPECT_INT(told ? json_real(&device, "peak_bytes", 0, 1e15, &peak, NULL) : STATUS_NOT_FOUND, STATUS_OK);
        EXPECT_INT(told ? json_object(&device, "at_peak", &at_peak, NULL) : STATUS_NOT_FOUND, STATUS_OK);
        EXPECT_REAL(row[1].value * GIB, peak, 0);
        EXPECT_REAL(peak, (double)use->peak_bytes, 0);
        for (uint32_t c = 0; c < BUFFER_CLASS_COUNT; c++) {
            double bytes = -1;
            EXPECT_INT(json_real(&at_peak, buffer_class_word(c), 0, 1e15, &bytes, NULL), STATUS_OK);
            EXPECT_REAL(row[4 + c].value * GIB, bytes, 0);
            EXPECT_REAL(bytes, (double)use->at_peak_bytes[c], 0);
            sum += bytes;
        }
        EXPECT_REAL(sum, peak, 0);
    }
}

static void expect_explained(const struct report_run *run, const double traced[OPCODE_COUNT], const struct json *result)
{
    const struct explain_input input = {
        .scenario = &run->scenario, .result = &run->result, .input = &run->input, .list_moves = true
    };
    struct explanation made = { 0 }, read = { 0 };
    struct error error = { 0 };
    struct strbuf text = { 0 }, json = { 0 };
    struct json_document *document = NULL;
    struct json root;
    EXPECT_INT(explain_scenario(&made, &input, &error), STATUS_OK);
    explanation_print_text(&made, &text);
    explanation_print_json(&made, &json);
    EXPECT_INT(json_parse(&document, json.text, json.length, "explanation", &error), STATUS_OK);
    json_root(document, &root);
    EXPECT_INT(explanation_read(&read, &root, &error), STATUS_OK);
    const struct explain_table *table = table_of(&read, "moves", "By direction");
    for (uint32_t opcode = 0; opcode < OPCODE_COUNT; opcode++) {
        double moved = moves_total(&run->schedule, opcode);
        const struct explain_cell *row = row_where(table, 0, direction(opcode));
        EXPECT_REAL(row != NULL ? row[2].value : 0, moved, 0);
        EXPECT_REAL(bytes_in_text(text.text, direction(opcode)), moved, 0);
        EXPECT_REAL(traced[opcode], moved, 0);
    }
    expect_kinds(run, &read);
    expect_peaks(run, &read, result);
    explanation_free(&read);
    explanation_free(&made);
    json_free(document);
    strbuf_free(&text);
    strbuf_free(&json);
}

static void test_each_move_is_told_everywhere(void)
{
    for (uint32_t i = 0; i < MOVES_CASE_COUNT; i++) {
        static struct report_run run;
        double traced[OPCODE_COUNT] = { 0 };
        struct strbuf text = { 0 };
        struct json_document *document = NULL;
        struct json root;
        if (moves_run(&run, &MOVES_CASES[i]) && moves_result(&run, &text, &document, &root)) {
            EXPECT(moves_total(&run.schedule, OP_COPY_H2D) > 0 && moves_total(&run.schedule, OP_COPY_D2H) > 0);
            bool drives = strstr(MOVES_CASES[i].policy, "nvme\": true") || strstr(MOVES_CASES[i].policy, "infinity");
            EXPECT_INT(moves_total(&run.schedule, OP_STORAGE_READ) > 0, drives);
            EXPECT_INT(moves_total(&run.schedule, OP_STORAGE_WRITE) > 0, drives);
            expect_trace(&run, traced);
            expect_explained(&run, traced, &root);
        }
        json_free(document);
        strbuf_free(&text);
        report_run_free(&run);
    }
}

TEST_MAIN(TEST(test_each_move_is_told_everywhere))
