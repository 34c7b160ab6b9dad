/* The Perfetto trace: read back and compared with the timeline; and the fast number printer against printf. */
#include <stdlib.h>
#include <unistd.h>
#include <zlib.h>

#include "sim/base/units.h"
#include "tests/report_run.h"
#include "traces/number_text.h"
#include "traces/perfetto.h"

static void expect_number(uint64_t value)
{
    struct strbuf out = { 0 };
    char wanted[64];
    put_unsigned(&out, value);
    strbuf_char(&out, ' ');
    put_millionths(&out, value);
    snprintf(wanted, sizeof wanted, "%" PRIu64 " %" PRIu64 ".%06" PRIu64, value, value / 1000000, value % 1000000);
    EXPECT_TEXT(out.text, wanted);
    strbuf_free(&out);
}

static void test_numbers(void)
{
    uint64_t state = test_seed;
    static const uint64_t edges[] = { 0, 1, 9, 10, 999999, 1000000, 1000001, INT64_MAX, UINT64_MAX };
    for (size_t i = 0; i < sizeof edges / sizeof edges[0]; i++) {
        expect_number(edges[i]);
    }
    for (uint32_t i = 0; i < 10000; i++) {
        expect_number(test_random(&state) >> test_below(&state, 64));
    }
}

/* Writes a trace, unpacks and parses it. NULL after a failure, which is printed. */
static struct json_document *trace_of(const struct perfetto_input *input)
{
    char path[] = "/tmp/memwall-trace-XXXXXX";
    struct error error = { 0 };
    struct json_document *document = NULL;
    int descriptor = mkstemp(path);
    EXPECT(descriptor >= 0);
    close(descriptor);
    EXPECT_INT(perfetto_write(path, input, &error), STATUS_OK);
    enum { TEXT_MAX = 4 << 20 };
    char *text = malloc(TEXT_MAX);
    gzFile file = gzopen(path, "rb");
    int length = file != NULL && text != NULL ? gzread(file, text, TEXT_MAX) : -1;
    EXPECT(length > 0);
    if (length > 0) {
        EXPECT_INT(json_parse(&document, text, (size_t)length, "trace", &error), STATUS_OK);
    }
    gzclose(file);
    free(text);
    unlink(path);
    return document;
}

struct counts {
    uint32_t slices, starts, ends, counters;
    double last_end_us;
};

static struct counts count_events(struct json_document *document)
{
    struct counts counts = { 0 };
    struct json root, events, event;
    struct error error = { 0 };
    json_root(document, &root);
    EXPECT_INT(json_array(&root, "traceEvents", &events, &error), STATUS_OK);
    for (size_t i = 0; i < json_count(&events); i++) {
        const char *kind = "";
        double start = 0, length = 0;
        json_item(&events, i, &event);
        EXPECT_INT(json_string(&event, "ph", &kind, &error), STATUS_OK);
        counts.slices += kind[0] == 'X';
        counts.starts += kind[0] == 's';
        counts.ends += kind[0] == 'f';
        counts.counters += kind[0] == 'C';
        if (kind[0] == 'X') {
            EXPECT_INT(json_real(&event, "ts", 0, 1e12, &start, &error), STATUS_OK);
            EXPECT_INT(json_real(&event, "dur", 0, 1e12, &length, &error), STATUS_OK);
            counts.last_end_us = start + length > counts.last_end_us ? start + length : counts.last_end_us;
        }
    }
    return counts;
}

/* 3 stages, 4 micro-batches: 24 passes, 2 x 2 x 4 hops, each a send and a receive. */
static void test_bare_pipeline(void)
{
    struct schedule schedule = { 0 };
    struct timeline timeline = { 0 };
    if (bare_run(3, 4, &schedule, &timeline)) {
        static const char *const series[] = { "a", "b" };
        const int64_t times[] = { 0, 5 };
        const double values[] = { 1, 0.5, 2.25, 0 };
        const struct trace_counter counters[] = {
            { .rank = 0,
              .name = "memory",
              .series = series,
              .times_ps = times,
              .values = values,
              .count = 2,
              .series_count = 2 },
            { .rank = SCHED_NONE,
              .name = "a \"link\"",
              .series = series,
              .times_ps = times,
              .values = values,
              .count = 1,
              .series_count = 1 },
        };
        struct perfetto_input input = {
            .schedule = &schedule, .timeline = &timeline, .counters = counters, .counter_count = 2
        };
        struct json_document *document = trace_of(&input);
        struct counts counts = count_events(document);
        EXPECT_INT(counts.slices, 24 + 2 * 16);
        EXPECT_INT(counts.starts, 16);
        EXPECT_INT(counts.ends, 16);
        EXPECT_INT(counts.counters, 3);
        EXPECT_REAL(counts.last_end_us, (double)timeline.end_ps / (double)PS_PER_US, 1e-15);
        json_free(document);
        /* The middle stage alone: no arrow has both ends, its counters go, links stay. */
        const bool wanted[] = { false, true, false };
        input.rank_wanted = wanted;
        document = trace_of(&input);
        counts = count_events(document);
        EXPECT_INT(counts.slices, 8 + 16);
        EXPECT_INT(counts.starts + counts.ends, 0);
        EXPECT_INT(counts.counters, 1);
        json_free(document);
    }
    timeline_free(&timeline);
    schedule_free(&schedule);
}

/* Collectives that a pass contains are told of in its arguments, times only where they are known. */
static void test_merged_collectives(void)
{
    struct report_run *run = calloc(1, sizeof *run);
    if (report_run(
            run,
            "{\"model\": \"gpt2\", \"machine\": \"dgx-a100-80gb\", \"gpus\": 4, \"training\": {\"global_batch\": 1}, "
            "\"parallel\": {\"tensor\": 4}}")) {
        const struct schedule *s = &run->schedule;
        uint32_t in_schedule = 0;
        for (uint32_t i = 0; i < s->op_count; i++) {
            for (uint32_t k = 0; s->ops[i].opcode == OP_COMPUTE && k < s->works[s->ops[i].work].item_count; k++) {
                in_schedule += s->work_items[s->works[s->ops[i].work].first_item + k].kind != ITEM_KERNEL;
            }
        }
        int64_t *merged_ps = malloc(s->op_count * sizeof *merged_ps);
        for (uint32_t i = 0; i < s->op_count; i++) {
            merged_ps[i] = (int64_t)i * PS_PER_US;
        }
        struct perfetto_input input = { .schedule = s, .timeline = &run->timeline, .merged_ps = merged_ps };
        for (int known = 1; known >= 0; known--) {
            struct json_document *document = trace_of(&input);
            struct json root, events, event, args;
            struct error error = { 0 };
            uint32_t told = 0;
            json_root(document, &root);
            EXPECT_INT(json_array(&root, "traceEvents", &events, &error), STATUS_OK);
            for (size_t i = 0; i < json_count(&events); i++) {
                json_item(&events, i, &event);
                EXPECT_INT(json_object(&event, "args", &args, &error), STATUS_OK);
                int64_t op = 0, count = 0;
                double alone_us = 0;
                if (json_has(&args, "merged_collectives")) {
                    EXPECT_INT(json_int(&args, "merged_collectives", 1, 100, &count, &error), STATUS_OK);
                    EXPECT_INT(json_int(&args, "op", 0, INT32_MAX, &op, &error), STATUS_OK);
                    EXPECT_INT(json_has(&args, "merged_collectives_alone_us"), known);
                    if (known) {
                        EXPECT_INT(json_real(&args, "merged_collectives_alone_us", 0, 1e9, &alone_us, &error),
                                   STATUS_OK);
                        EXPECT_REAL(alone_us, (double)op, 1e-12);
                    }
                }
                told += (uint32_t)count;
            }
            EXPECT(in_schedule > 0);
            EXPECT_INT(told, in_schedule);
            json_free(document);
            input.merged_ps = NULL;
        }
        free(merged_ps);
    }
    report_run_free(run);
    free(run);
}

static void test_bad_path(void)
{
    struct schedule schedule = { 0 };
    struct timeline timeline = { 0 };
    struct error error = { 0 };
    if (bare_run(1, 1, &schedule, &timeline)) {
        const struct perfetto_input input = { .schedule = &schedule, .timeline = &timeline };
        EXPECT_INT(perfetto_write("/nowhere/at/all.gz", &input, &error), STATUS_IO);
        EXPECT_PART(error.file, "/nowhere/at/all.gz");
    }
    timeline_free(&timeline);
    schedule_free(&schedule);
}

TEST_MAIN(TEST(test_numbers), TEST(test_bare_pipeline), TEST(test_merged_collectives), TEST(test_bad_path))
