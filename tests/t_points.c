/* Points and their files: every kind goes to a file and back, bad lines are refused with their line, a cut last line is forgiven. */
#include "validate/calibrate/points.h"

#include <unistd.h>

#include "sim/base/file.h"
#include "tests/test.h"

static char folder[64];

static const char *path_of(const char *name)
{
    static char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static const struct kernel GEMM = { .kernel_class = KERNEL_GEMM,
                                    .dtype = DTYPE_FP16,
                                    .layout = GEMM_NT,
                                    .flags = KERNEL_FLAG_ACCUMULATE,
                                    .launches = 1,
                                    .batch = 3,
                                    .m = 256,
                                    .n = 512,
                                    .k = 1024,
                                    .flops = 805306368,
                                    .bytes_read = 1.5e6 + 1.0 / 3,
                                    .bytes_written = 786432 };
static const struct kernel ATTENTION = { .kernel_class = KERNEL_ATTENTION_FORWARD,
                                         .dtype = DTYPE_BF16,
                                         .flags = KERNEL_FLAG_CAUSAL,
                                         .launches = 1,
                                         .batch = 8,
                                         .m = 512,
                                         .n = 512,
                                         .k = 64,
                                         .flops = 1e9 };

/* One of each kind and way. */
static uint32_t samples(struct point items[16])
{
    const struct point all[] = {
        { .kind = POINT_KERNEL,
          .kernel = GEMM,
          .at_once = 2,
          .seconds = 0.001,
          .load_from_s = 0.025,
          .load_to_s = 0.1,
          .source = "a \"quoted\"\nsource" },
        { .kind = POINT_KERNEL, .kernel = ATTENTION, .at_once = 1, .seconds = 0.1, .repeats = 9, .spread_s = 1e-7 },
        { .kind = POINT_COPY,
          .way = COPY_H2D,
          .pageable = true,
          .to = 3,
          .at_once = 4,
          .bytes = 4096,
          .seconds = 1e-5 },
        { .kind = POINT_COPY, .way = COPY_D2H, .at_once = 1, .bytes = 1, .seconds = 1e-5, .in_doubt = true },
        { .kind = POINT_COPY, .way = COPY_BOTH, .at_once = 1, .bytes = 0x1p28, .seconds = 1 },
        { .kind = POINT_COPY, .way = COPY_PEER, .from = 1, .to = 0, .at_once = 1, .bytes = 1e6, .seconds = 2e-4 },
        { .kind = POINT_COLLECTIVE,
          .collective = COLLECTIVE_ALL_TO_ALL,
          .ranks = 16,
          .nodes = 2,
          .bytes = 1e9,
          .seconds = 0.01 },
        { .kind = POINT_HOST_OPTIMIZER, .parameters = 1e7, .at_once = 2, .seconds = 0.05 },
        { .kind = POINT_STORAGE, .way = COPY_WRITE, .bytes = 1 << 20, .seconds = 0.001 },
        { .kind = POINT_ISSUE, .issue = ISSUE_WAKE, .seconds = 3e-6 },
        { .kind = POINT_ALLOCATION, .bytes = 1 << 20, .seconds = 1e-4 },
    };
    memcpy(items, all, sizeof all);
    return sizeof all / sizeof all[0];
}

static void write_samples(const char *path)
{
    struct point items[16];
    uint32_t count = samples(items);
    struct error error = { 0 };
    FILE *file = fopen(path, "w");
    EXPECT(file != NULL);
    EXPECT_INT(points_begin(file, "my box", "host", &error), STATUS_OK);
    for (uint32_t i = 0; i < count; i++) {
        EXPECT_INT(points_write(file, &items[i], &error), STATUS_OK);
    }
    fclose(file);
}

static void test_round_trip(void)
{
    struct point items[16];
    uint32_t count = samples(items);
    struct points points = { 0 };
    struct error error = { 0 };
    char machine[64], executor[64];
    bool was_cut = true;
    const char *path = path_of("all.jsonl");
    write_samples(path);
    EXPECT_INT(points_load(&points, path, machine, executor, &was_cut, &error), STATUS_OK);
    EXPECT_TEXT(error.message, "");
    EXPECT_TEXT(machine, "my box");
    EXPECT_TEXT(executor, "host");
    EXPECT(!was_cut);
    EXPECT_INT(points.count, count);
    for (uint32_t i = 0; i < count && i < points.count; i++) {
        const struct point *a = &items[i], *b = &points.items[i];
        EXPECT_INT(memcmp(&a->kernel, &b->kernel, sizeof a->kernel), 0);
        EXPECT(a->kind == b->kind && a->way == b->way && a->pageable == b->pageable && a->from == b->from &&
               a->to == b->to && a->at_once == b->at_once && a->collective == b->collective && a->ranks == b->ranks &&
               a->nodes == b->nodes && a->issue == b->issue && a->repeats == b->repeats && a->in_doubt == b->in_doubt);
        EXPECT_REAL(b->bytes, a->bytes, 0);
        EXPECT_REAL(b->parameters, a->parameters, 0);
        EXPECT_REAL(b->seconds, a->seconds, 0);
        EXPECT_REAL(b->spread_s, a->spread_s, 0);
        EXPECT_REAL(b->load_from_s, a->load_from_s, 0);
        EXPECT_REAL(b->load_to_s, a->load_to_s, 0);
        EXPECT_TEXT(b->source, a->source);
        EXPECT_INT(points_find(&points, a) - points.items, i);
    }
    points_free(&points);
}

/* What was measured decides, not how long it took. */
static void test_find(void)
{
    struct point items[16];
    uint32_t count = samples(items);
    struct points points = { 0 };
    struct error error = { 0 };
    for (uint32_t i = 0; i < count; i++) {
        EXPECT(points_find(&points, &items[i]) == NULL);
        EXPECT_INT(points_add(&points, &items[i], &error), STATUS_OK);
        struct point other = items[i];
        other.seconds = 7;
        other.repeats = 100;
        snprintf(other.source, sizeof other.source, "another day");
        EXPECT_INT(points_find(&points, &other) - points.items, i);
    }
    struct point other = items[0];
    other.kernel.m++;
    EXPECT(points_find(&points, &other) == NULL);
    other = items[0];
    other.at_once++;
    EXPECT(points_find(&points, &other) == NULL);
    other = items[2];
    other.pageable = false;
    EXPECT(points_find(&points, &other) == NULL);
    other = items[5];
    other.from = 2;
    EXPECT(points_find(&points, &other) == NULL);
    other = items[6];
    other.nodes = 1;
    EXPECT(points_find(&points, &other) == NULL);
    points_free(&points);
}

static void refused(const struct point *point, const char *why)
{
    struct points points = { 0 };
    struct error error = { 0 };
    EXPECT_INT(points_add(&points, point, &error), STATUS_BAD_INPUT);
    EXPECT_PART(error.message, why);
    EXPECT_INT(points.count, 0);
    points_free(&points);
}

static void test_checks(void)
{
    struct point items[16], p;
    samples(items);
    const double bad_seconds[] = { 0, -1, NAN, INFINITY, 2e6 };
    for (size_t i = 0; i < sizeof bad_seconds / sizeof bad_seconds[0]; i++) {
        p = items[0];
        p.seconds = bad_seconds[i];
        refused(&p, "\"seconds\" must be above 0");
    }
    p = items[0], p.spread_s = NAN, refused(&p, "spread_s");
    p = items[0], p.kernel.k = 0, refused(&p, "\"k\" must be from 1");
    p = items[0], p.kernel.launches = 0, refused(&p, "launches");
    p = items[0], p.kernel.bytes_read = NAN, refused(&p, "bytes_read");
    p = items[1], p.kernel.layout = GEMM_NT, refused(&p, "layout");
    p = items[0], p.at_once = 0, refused(&p, "at_once");
    p = items[0], p.load_from_s = -1, refused(&p, "load_from_s");
    p = items[0], p.load_to_s = p.load_from_s, refused(&p, "above load_from_s");
    p = items[0], p.load_to_s = NAN, refused(&p, "above load_from_s");
    p = items[2], p.bytes = 0, refused(&p, "\"bytes\"");
    p = items[2], p.way = COPY_READ, refused(&p, "h2d, d2h, both or peer");
    p = items[5], p.to = p.from, refused(&p, "another device");
    p = items[6], p.ranks = 1, refused(&p, "ranks");
    p = items[6], p.nodes = 17, refused(&p, "nodes");
    p = items[6], p.collective = COLLECTIVE_SEND_RECV, refused(&p, "2 for send_recv");
    p = items[7], p.parameters = 0.5, refused(&p, "parameters");
    p = items[8], p.way = COPY_BOTH, refused(&p, "read and write");
    p = items[10], p.bytes = INFINITY, refused(&p, "\"bytes\"");
    p = items[10], memset(p.source, 'x', sizeof p.source), refused(&p, "source");
    struct points plan = { 0 };
    struct error error = { 0 };
    p = items[0], p.seconds = 0;
    EXPECT_INT(points_want(&plan, &p, &error), STATUS_OK);
    EXPECT_INT(plan.count, 1);
    points_free(&plan);
}

static const char HEADER[] = "{\"schema\":\"memwall.points/1\",\"machine\":\"m\",\"executor\":\"host\"}\n";
static const char GOOD[] = "{\"kind\":\"issue\",\"issue\":\"op\",\"seconds\":1e-6,\"source\":\"s\"}\n";

static enum status load_text(const char *text, struct points *points, bool *was_cut, struct error *error)
{
    const char *path = path_of("text.jsonl");
    EXPECT_INT(file_write(path, text, strlen(text), error), STATUS_OK);
    return points_load(points, path, NULL, NULL, was_cut, error);
}

/* HEADER, GOOD, then this line: refused at line 3, and what was there before stays alone. */
static void line_refused(const char *line, const char *why)
{
    char text[2048], shown[2048];
    struct points points = { 0 };
    struct error error = { 0 };
    struct point items[16];
    samples(items);
    EXPECT_INT(points_add(&points, &items[0], &error), STATUS_OK);
    snprintf(text, sizeof text, "%s%s%s\n%s", HEADER, GOOD, line, GOOD);
    enum status status = load_text(text, &points, NULL, &error);
    EXPECT(status == STATUS_BAD_INPUT || status == STATUS_LIMIT);
    EXPECT_INT(error.line, 3);
    EXPECT_PART(error_text(&error, shown, sizeof shown), "text.jsonl:3: ");
    EXPECT_PART(error_text(&error, shown, sizeof shown), why);
    EXPECT_INT(points.count, 1);
    points_free(&points);
}

static void test_bad_lines(void)
{
    line_refused("", "");
    line_refused("[1]", "each line is an object");
    line_refused("{\"kind\":\"isue\",\"issue\":\"op\",\"seconds\":1,\"source\":\"\"}", "kind");
    line_refused("{\"kind\":\"issue\",\"issue\":\"op\",\"seconds\":1,\"sorce\":\"\"}", "source");
    line_refused("{\"kind\":\"issue\",\"issue\":\"op\",\"seconds\":0,\"source\":\"\"}", "seconds");
    line_refused("{\"kind\":\"issue\",\"issue\":\"op\",\"seconds\":NaN,\"source\":\"\"}", "column");
    line_refused("{\"kind\":\"issue\",\"issue\":\"op\",\"seconds\":-1,\"source\":\"\"}", "$.seconds");
    line_refused("{\"kind\":\"issue\",\"issue\":\"op\",\"seconds\":1e999,\"source\":\"\"}", "column");
    line_refused("{\"kind\":\"issue\",\"issue\":\"op\",\"seconds\":1,\"seconds\":1,\"source\":\"\"}", "seconds");
    line_refused("{\"kind\":\"issue\",\"issue\":\"op\",\"seconds\":1,\"source\":\"\",\"bytes\":1}", "bytes");
    line_refused("{\"kind\":\"issue\",\"issue\":\"op\",\"seconds\":1,\"source\":\"\"} {}", "column");
    line_refused("{\"kind\":\"copy\",\"way\":\"h2d\",\"from\":1,\"to\":0,\"bytes\":1,\"at_once\":1,\"seconds\":1,"
                 "\"source\":\"\"}",
                 "only peer copies");
    line_refused(
        "{\"kind\":\"copy\",\"way\":\"read\",\"to\":0,\"bytes\":1,\"at_once\":1,\"seconds\":1,\"source\":\"\"}",
        "storage");
    line_refused(
        "{\"kind\":\"collective\",\"collective\":\"all_reduce\",\"ranks\":2,\"nodes\":3,\"bytes\":1,\"seconds\":1,"
        "\"source\":\"\"}",
        "$.nodes");
    line_refused(
        "{\"kind\":\"kernel\",\"class\":\"norm\",\"dtype\":\"fp32\",\"layout\":\"nn\",\"launches\":1,\"batch\":1,"
        "\"m\":1,\"n\":1,\"k\":1,\"flops\":0,\"bytes_read\":1,\"bytes_written\":1,\"at_once\":1,\"seconds\":1,"
        "\"source\":\"\"}",
        "only gemm kernels");
    line_refused("{\"kind\":\"kernel\",\"class\":\"norm\",\"dtype\":\"fp32\",\"launches\":1,\"batch\":1.5,"
                 "\"m\":1,\"n\":1,\"k\":1,\"flops\":0,\"bytes_read\":1,\"bytes_written\":1,\"at_once\":1,\"seconds\":1,"
                 "\"source\":\"\"}",
                 "$.batch");
    char line[512], source[300];
    memset(source, 'x', sizeof source - 1);
    source[sizeof source - 1] = '\0';
    snprintf(line, sizeof line, "{\"kind\":\"issue\",\"issue\":\"op\",\"seconds\":1,\"source\":\"%s\"}", source);
    line_refused(line, "at most 191");
}

static void header_refused(const char *text, const char *why)
{
    struct points points = { 0 };
    struct error error = { 0 };
    char shown[2048];
    EXPECT_INT(load_text(text, &points, NULL, &error), STATUS_BAD_INPUT);
    EXPECT_PART(error_text(&error, shown, sizeof shown), why);
    points_free(&points);
}

static void test_headers(void)
{
    header_refused("", "first line is missing");
    header_refused("{\"schema\":\"memwall.points/1\"", "first line is missing");
    header_refused("{\"schema\":\"memwall.points/2\",\"machine\":\"m\",\"executor\":\"host\"}\n", "memwall.points/1");
    header_refused("{\"schema\":\"memwall.points/1\",\"machine\":\"m\"}\n", "executor");
    header_refused("{\"schema\":\"memwall.points/1\",\"machine\":\"m\",\"executor\":\"e\",\"more\":1}\n", "more");
    header_refused(GOOD, "schema");
    struct points points = { 0 };
    struct error error = { 0 };
    EXPECT_INT(points_load(&points, path_of("absent"), NULL, NULL, NULL, &error), STATUS_NOT_FOUND);
}

/* Cut at every byte: what stands in whole lines is there, no more, no less. */
static void test_cut(void)
{
    char *text, part[8192];
    size_t length;
    struct error error = { 0 };
    write_samples(path_of("whole.jsonl"));
    EXPECT_INT(file_read(path_of("whole.jsonl"), sizeof part - 1, &text, &length, &error), STATUS_OK);
    size_t header = (size_t)(strchr(text, '\n') - text) + 1;
    uint32_t lines = 0;
    for (size_t cut = header; cut <= length; cut++) {
        memcpy(part, text, cut);
        part[cut] = '\0';
        lines += cut > header && text[cut - 1] == '\n';
        struct points points = { 0 };
        bool was_cut = false;
        EXPECT_INT(load_text(part, &points, &was_cut, &error), STATUS_OK);
        EXPECT_INT(points.count, lines);
        EXPECT_INT(was_cut, text[cut - 1] != '\n');
        points_free(&points);
    }
    free(text);
}

static void test_write_fails(void)
{
    struct error error = { 0 };
    FILE *file = fopen("/dev/full", "w");
    if (file != NULL) {
        EXPECT_INT(points_begin(file, "m", "host", &error), STATUS_IO);
        EXPECT_PART(error.message, "points file");
        fclose(file);
    }
}

static void test_text(void)
{
    static const char *const wanted[] = { "gemm fp16 3 of 256x512x1024 NT accumulating, 2 at once",
                                          "attention_forward bf16 8 of 512x512, head size 64, causal",
                                          "copy h2d pageable 4.00 KiB, device 3, 4 at once",
                                          "copy d2h 1 B, device 0",
                                          "copy both 256 MiB, device 0",
                                          "copy peer 977 KiB, device 1 to 0",
                                          "all_to_all 954 MiB, 16 ranks on several nodes",
                                          "host optimizer, 1e+07 parameters, 2 at once",
                                          "storage write 1.00 MiB",
                                          "issue of one wake",
                                          "first touch of 1.00 MiB" };
    struct point items[16];
    char text[128], small[8];
    uint32_t count = samples(items);
    for (uint32_t i = 0; i < count; i++) {
        EXPECT_TEXT(point_text(&items[i], text, sizeof text), wanted[i]);
        EXPECT_INT(strlen(point_text(&items[i], small, sizeof small)), sizeof small - 1);
    }
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = { TEST(test_round_trip),  TEST(test_find),    TEST(test_checks),
                                              TEST(test_bad_lines),   TEST(test_headers), TEST(test_cut),
                                              TEST(test_write_fails), TEST(test_text) };
    snprintf(folder, sizeof folder, "/tmp/t_points_XXXXXX");
    if (mkdtemp(folder) == NULL) {
        return 1;
    }
    int code = test_run(cases, sizeof cases / sizeof cases[0], argc, argv);
    static const char *const files[] = { "all.jsonl", "text.jsonl", "whole.jsonl" };
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        unlink(path_of(files[i]));
    }
    rmdir(folder);
    return code;
}
