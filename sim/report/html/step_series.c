#include "sim/report/html/step_series.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/array.h"
#include "sim/base/check.h"
#include "sim/base/units.h"
#include "sim/report/html/csv_read.h"

/* 2^53 ps are 2.5 hours; a step of a million seconds is beyond all use. */
#define TIME_MOST_US 1e12
#define BYTES_MOST   1.8e19

enum { RANKS_MAX = 1 << 24 };

struct ops_reader {
    struct csv_reader csv;
    uint32_t rank, rank_name, queue, opcode, phase, micro_batch, chunk, start, end;
    struct {
        struct box_op *items;
        size_t count, capacity;
    } ops;
    struct {
        const char **items;
        size_t count, capacity;
    } names;
};

static enum status find_columns(struct ops_reader *r, struct error *error)
{
    TRY(csv_read_column(&r->csv, "rank", &r->rank, error));
    TRY(csv_read_column(&r->csv, "rank_name", &r->rank_name, error));
    TRY(csv_read_column(&r->csv, "queue", &r->queue, error));
    TRY(csv_read_column(&r->csv, "opcode", &r->opcode, error));
    TRY(csv_read_column(&r->csv, "phase", &r->phase, error));
    TRY(csv_read_column(&r->csv, "micro_batch", &r->micro_batch, error));
    TRY(csv_read_column(&r->csv, "chunk", &r->chunk, error));
    TRY(csv_read_column(&r->csv, "start_us", &r->start, error));
    return csv_read_column(&r->csv, "end_us", &r->end, error);
}

static enum op_phase phase_of(const char *word)
{
    for (uint32_t p = 0; p < PHASE_COUNT; p++) {
        if (strcmp(word, op_phase_word((enum op_phase)p)) == 0) {
            return (enum op_phase)p;
        }
    }
    return PHASE_OTHER;
}

/* Ops that began but have no end keep end_ps < 0 here. */
static enum status read_op(struct ops_reader *r, struct error *error)
{
    double rank, micro_batch, chunk, start_us, end_us;
    TRY(csv_read_number(&r->csv, r->rank, RANKS_MAX - 1, -1, &rank, error));
    TRY(csv_read_number(&r->csv, r->micro_batch, OP_TAG_NONE, OP_TAG_NONE, &micro_batch, error));
    TRY(csv_read_number(&r->csv, r->chunk, OP_TAG_NONE, OP_TAG_NONE, &chunk, error));
    TRY(csv_read_number(&r->csv, r->start, TIME_MOST_US, INFINITY, &start_us, error));
    TRY(csv_read_number(&r->csv, r->end, TIME_MOST_US, INFINITY, &end_us, error));
    if ((size_t)rank > r->names.count) {
        return error_at(error, STATUS_BAD_INPUT, r->csv.file, NULL, "line %u: rank %.0f comes before rank %zu",
                        r->csv.line, rank, r->names.count);
    }
    if ((size_t)rank == r->names.count) {
        TRY(array_reserve(&r->names, 1, error));
        r->names.items[r->names.count++] = r->csv.cells[r->rank_name];
    }
    if (isinf(start_us) || !(end_us > start_us)) {
        return STATUS_OK;
    }
    const char *opcode = r->csv.cells[r->opcode];
    bool main_row = strcmp(r->csv.cells[r->queue], "compute") == 0 || strcmp(opcode, opcode_word(OP_COMPUTE)) == 0 ||
                    strcmp(opcode, opcode_word(OP_DELAY)) == 0;
    TRY(array_reserve(&r->ops, 1, error));
    r->ops.items[r->ops.count++] = (struct box_op){
        .start_ps = llround(start_us * (double)PS_PER_US),
        .end_ps = isinf(end_us) ? -1 : llround(end_us * (double)PS_PER_US),
        .rank = (uint32_t)rank,
        .micro_batch = (uint16_t)micro_batch,
        .chunk = (uint16_t)chunk,
        .phase = (uint8_t)phase_of(r->csv.cells[r->phase]),
        .strip = !main_row,
    };
    return STATUS_OK;
}

/* Ops that stopped in the middle last until the end. */
static void finish_ops(struct step_series *series, struct ops_reader *r)
{
    size_t kept = 0;
    for (size_t i = 0; i < r->ops.count; i++) {
        const struct box_op *op = &r->ops.items[i];
        int64_t last_ps = op->end_ps > 0 ? op->end_ps : op->start_ps;
        series->end_ps = last_ps > series->end_ps ? last_ps : series->end_ps;
    }
    for (size_t i = 0; i < r->ops.count; i++) {
        struct box_op op = r->ops.items[i];
        op.end_ps = op.end_ps > 0 ? op.end_ps : series->end_ps;
        if (op.end_ps > op.start_ps) {
            r->ops.items[kept++] = op;
        }
    }
    series->ops = r->ops.items;
    series->op_count = kept;
    series->rank_names = r->names.items;
    series->rank_count = (uint32_t)r->names.count;
}

static enum status read_ops(struct step_series *series, char *text, const char *file, struct error *error)
{
    struct ops_reader r = { 0 };
    bool found = false;
    enum status status;
    TRY(csv_read_header(&r.csv, text, file, error));
    TRY(find_columns(&r, error));
    TRY_OR_FAIL(csv_read_row(&r.csv, &found, error));
    while (found) {
        TRY_OR_FAIL(read_op(&r, error));
        TRY_OR_FAIL(csv_read_row(&r.csv, &found, error));
    }
    finish_ops(series, &r);
    return STATUS_OK;
fail:
    array_free(&r.ops);
    array_free(&r.names);
    return status;
}

struct memory_reader {
    struct csv_reader csv;
    uint32_t space, kind, time, classes[BUFFER_CLASS_COUNT];
    struct {
        int64_t *items;
        size_t count, capacity;
    } times;
    struct {
        uint64_t *items;
        size_t count, capacity;
    } bytes;
    struct {
        struct series_space *items;
        size_t count, capacity;
    } spaces;
};

static enum status find_memory_columns(struct memory_reader *r, struct error *error)
{
    TRY(csv_read_column(&r->csv, "space", &r->space, error));
    TRY(csv_read_column(&r->csv, "kind", &r->kind, error));
    TRY(csv_read_column(&r->csv, "time_us", &r->time, error));
    for (uint32_t c = 0; c < BUFFER_CLASS_COUNT; c++) {
        char name[64];
        snprintf(name, sizeof name, "%s_bytes", buffer_class_word((enum buffer_class)c));
        TRY(csv_read_column(&r->csv, name, &r->classes[c], error));
    }
    return STATUS_OK;
}

static enum status read_moment(struct memory_reader *r, struct error *error)
{
    double time_us, bytes;
    uint64_t total = 0;
    const char *name = r->csv.cells[r->space];
    TRY(csv_read_number(&r->csv, r->time, TIME_MOST_US, -1, &time_us, error));
    int64_t time_ps = llround(time_us * (double)PS_PER_US);
    struct series_space *space = r->spaces.count > 0 ? &r->spaces.items[r->spaces.count - 1] : NULL;
    if (space == NULL || strcmp(space->name, name) != 0) {
        TRY(array_reserve(&r->spaces, 1, error));
        space = &r->spaces.items[r->spaces.count];
        *space = (struct series_space){ .name = name, .kind = r->csv.cells[r->kind] };
        space->series.space = (uint32_t)r->spaces.count++;
    } else if (time_ps <= r->times.items[r->times.count - 1]) {
        return error_at(error, STATUS_BAD_INPUT, r->csv.file, NULL, "line %u: times of %.80s do not rise", r->csv.line,
                        name);
    }
    TRY(array_reserve(&r->times, 1, error));
    TRY(array_reserve(&r->bytes, BUFFER_CLASS_COUNT, error));
    r->times.items[r->times.count++] = time_ps;
    for (uint32_t c = 0; c < BUFFER_CLASS_COUNT; c++) {
        TRY(csv_read_number(&r->csv, r->classes[c], BYTES_MOST, -1, &bytes, error));
        r->bytes.items[r->bytes.count++] = (uint64_t)bytes;
        total += (uint64_t)bytes;
    }
    space->series.count++;
    space->peak_bytes = total > space->peak_bytes ? total : space->peak_bytes;
    return STATUS_OK;
}

static enum status read_memory(struct step_series *series, char *text, const char *file, struct error *error)
{
    struct memory_reader r = { 0 };
    bool found = false;
    enum status status;
    size_t at = 0;
    TRY(csv_read_header(&r.csv, text, file, error));
    TRY(find_memory_columns(&r, error));
    TRY_OR_FAIL(csv_read_row(&r.csv, &found, error));
    while (found) {
        TRY_OR_FAIL(read_moment(&r, error));
        TRY_OR_FAIL(csv_read_row(&r.csv, &found, error));
    }
    for (size_t i = 0; i < r.spaces.count; i++) {
        r.spaces.items[i].series.times_ps = r.times.items + at;
        r.spaces.items[i].series.bytes = r.bytes.items + at * BUFFER_CLASS_COUNT;
        at += r.spaces.items[i].series.count;
    }
    series->times_ps = r.times.items;
    series->bytes = r.bytes.items;
    series->spaces = r.spaces.items;
    series->space_count = (uint32_t)r.spaces.count;
    return STATUS_OK;
fail:
    array_free(&r.times);
    array_free(&r.bytes);
    array_free(&r.spaces);
    return status;
}

enum status step_series_read(struct step_series *series, char *ops_text, const char *ops_file, char *memory_text,
                             const char *memory_file, struct error *error)
{
    *series = (struct step_series){ 0 };
    enum status status = read_ops(series, ops_text, ops_file, error);
    if (status == STATUS_OK) {
        status = read_memory(series, memory_text, memory_file, error);
    }
    if (status != STATUS_OK) {
        step_series_free(series);
    }
    return status;
}

void step_series_free(struct step_series *series)
{
    free(series->ops);
    free(series->rank_names);
    free(series->spaces);
    free(series->times_ps);
    free(series->bytes);
    *series = (struct step_series){ 0 };
}
