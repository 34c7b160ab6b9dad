/* Files of points: mutated texts are read or refused with a line, never crash; what is read passes points_add again and goes through a file unchanged. */
#include "validate/calibrate/points.h"

#include <unistd.h>

#include "sim/base/file.h"
#include "tests/fuzz/fuzz.h"

enum { TEXT_MAX = 6000 };

static const char SEED[] =
    "{\"schema\":\"memwall.points/1\",\"machine\":\"m\",\"executor\":\"host\"}\n"
    "{\"kind\":\"kernel\",\"class\":\"gemm\",\"dtype\":\"fp32\",\"layout\":\"tn\",\"launches\":1,\"batch\":1,\"m\":64,"
    "\"n\":32,"
    "\"k\":16,\"flops\":65536,\"bytes_read\":6144,\"bytes_written\":8192,\"at_once\":2,\"seconds\":1e-5,\"spread_s\":"
    "1e-7,"
    "\"repeats\":9,\"source\":\"measured\"}\n"
    "{\"kind\":\"kernel\",\"class\":\"norm\",\"dtype\":\"bf16\",\"launches\":3,\"batch\":1,\"m\":64,\"n\":32,\"k\":1,"
    "\"flops\":0,\"bytes_read\":6144,\"bytes_written\":8192,\"causal\":true,\"at_once\":1,\"seconds\":2,\"source\":"
    "\"\"}\n"
    "{\"kind\":\"copy\",\"way\":\"peer\",\"from\":0,\"to\":1,\"bytes\":4096,\"at_once\":1,\"seconds\":1e-6,\"source\":"
    "\"a\"}\n"
    "{\"kind\":\"copy\",\"way\":\"both\",\"pageable\":true,\"to\":1,\"bytes\":4096,\"at_once\":4,\"seconds\":1e-6,"
    "\"in_doubt\":true,\"source\":\"a\"}\n"
    "{\"kind\":\"collective\",\"collective\":\"all_reduce\",\"ranks\":8,\"nodes\":2,\"bytes\":1e6,\"seconds\":1e-3,"
    "\"source\":\"nccl\"}\n"
    "{\"kind\":\"host_optimizer\",\"parameters\":1e6,\"at_once\":1,\"seconds\":1e-3,\"source\":\"\"}\n"
    "{\"kind\":\"storage\",\"way\":\"read\",\"bytes\":1e6,\"seconds\":1e-3,\"source\":\"\"}\n"
    "{\"kind\":\"issue\",\"issue\":\"wake\",\"seconds\":1e-6,\"source\":\"\"}\n"
    "{\"kind\":\"allocation\",\"bytes\":1e6,\"seconds\":1e-3,\"source\":\"\"}\n";

static const char *const PIECES[] = {
    "0",         "-1",   "1e999", "9007199254740993", "null",       "NaN",    "\n",       "\"",       "{",         "}",
    ",\"to\":1", "\x80", "\x01",  "\"gemm\"",         "4294967296", "1e-320", "\"peer\"", "\"read\"", "\"kind\":", "0.5"
};

static size_t mutate(char *text, size_t length, uint64_t *random)
{
    for (uint64_t edits = test_below(random, 5); edits > 0; edits--) {
        size_t at = test_below(random, length + 1), cut = test_below(random, 3) == 0 ? test_below(random, 40) : 0;
        cut = cut > length - at ? length - at : cut;
        const char *piece = PIECES[test_below(random, sizeof PIECES / sizeof PIECES[0])];
        size_t size = test_below(random, 4) == 0 ? 0 : strlen(piece);
        if (test_below(random, 2) == 0) { /* in place of a number: mostly still JSON */
            while (at < length && (text[at] < '0' || text[at] > '9')) {
                at++;
            }
            for (cut = 0; at + cut < length && strchr("0123456789.e-", text[at + cut]) != NULL; cut++) {
            }
        }
        if (length - cut + size > TEXT_MAX) {
            continue;
        }
        memmove(text + at + size, text + at + cut, length - at - cut);
        memcpy(text + at, piece, size);
        length = length - cut + size;
    }
    return length;
}

static char path[64], again_path[64];

static void go_round(const struct points *points)
{
    struct points again = { 0 };
    struct error error = { 0 };
    char text[128];
    FILE *file = fopen(again_path, "w");
    EXPECT(file != NULL);
    EXPECT_INT(points_begin(file, "m", "e", &error), STATUS_OK);
    for (uint32_t i = 0; i < points->count; i++) {
        struct points one = { 0 };
        EXPECT_INT(points_add(&one, &points->items[i], &error), STATUS_OK);
        points_free(&one);
        EXPECT(strlen(point_text(&points->items[i], text, sizeof text)) > 0);
        EXPECT(points_find(points, &points->items[i]) != NULL);
        EXPECT_INT(points_write(file, &points->items[i], &error), STATUS_OK);
    }
    fclose(file);
    EXPECT_INT(points_load(&again, again_path, NULL, NULL, NULL, &error), STATUS_OK);
    EXPECT_INT(again.count, points->count);
    for (uint32_t i = 0; i < again.count && i < points->count; i++) {
        EXPECT_INT(points_find(&again, &points->items[i]) != NULL, 1);
        EXPECT_REAL(again.items[i].seconds, points->items[i].seconds, 0);
        EXPECT_TEXT(again.items[i].source, points->items[i].source);
    }
    points_free(&again);
}

static void round_of(uint64_t seed)
{
    char text[TEXT_MAX + 1], machine[64], executor[64];
    uint64_t random = seed;
    struct points points = { 0 };
    struct error error = { 0 };
    bool was_cut;
    memcpy(text, SEED, sizeof SEED);
    size_t length = mutate(text, sizeof SEED - 1, &random);
    EXPECT_INT(file_write(path, text, length, &error), STATUS_OK);
    enum status status = points_load(&points, path, machine, executor, &was_cut, &error);
    if (status == STATUS_OK) {
        go_round(&points);
    } else {
        EXPECT(error.message[0] != '\0');
        EXPECT_TEXT(error.file, path);
        EXPECT_INT(points.count, 0);
    }
    points_free(&points);
}

int main(int argc, char **argv)
{
    snprintf(path, sizeof path, "/tmp/f_points_%d.jsonl", (int)getpid());
    snprintf(again_path, sizeof again_path, "/tmp/f_points_%d_again.jsonl", (int)getpid());
    int code = fuzz_run(round_of, argc, argv);
    unlink(path);
    unlink(again_path);
    return code;
}
