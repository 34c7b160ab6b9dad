/* Importers against spoiled fixtures: every input ends in points or in a message with nothing left behind, never a crash, a hang or a leak (run under the sanitizers).
 * Points that come out keep the promises of points.h, and a topology that is taken makes a machine that loads. */
#include "validate/calibrate/import.h"

#include <dirent.h>
#include <unistd.h>

#include "hw_models/machine.h"
#include "sim/base/file.h"
#include "tests/fuzz/fuzz.h"

enum { FIXTURES_MAX = 64, TEXT_MAX = 1 << 15 };

static struct {
    char *text;
    size_t length;
} fixtures[FIXTURES_MAX];
static size_t fixture_count;
static uint64_t state, accepted, refused;

static const char *const WORDS[] = { "0",
                                     "-1",
                                     "1e300",
                                     "1e-300",
                                     "NaN",
                                     "inf",
                                     "N/A",
                                     "99999999999999999999",
                                     "0x10",
                                     "#",
                                     "\n",
                                     "\t",
                                     " ",
                                     ",",
                                     "\"",
                                     "\x1b[4m",
                                     "[1,0]<stdout>:",
                                     "[1,0]<stderr>:",
                                     "0: ",
                                     "GPU0",
                                     "GPU1",
                                     "NV12",
                                     "NV255",
                                     "PIX",
                                     "PXB",
                                     "PHB",
                                     "NODE",
                                     "SYS",
                                     " X ",
                                     "NIC0",
                                     "Rank 3",
                                     "Rank 65536",
                                     "nThread 65536 nGpus 65536",
                                     "# nThread 1 nGpus 2\n",
                                     "time",
                                     "algbw",
                                     "size",
                                     "#wrong",
                                     "SUM a 1",
                                     "Running host_to_device_memcpy_ce.\n",
                                     "nvbandwidth Version: v0.2\n",
                                     " -b 18446744073709551615",
                                     "Device(s)",
                                     "Bandwidth,",
                                     "Avg bus bandwidth    : 1\n",
                                     "all_reduce_perf",
                                     "sendrecv_perf",
                                     "0-65535,0-65535",
                                     "2026-01-01 00:00:00",
                                     "\xef\xbb\xbf",
                                     "\xff\xfe" };

static void load_fixtures(void)
{
    DIR *folder = opendir("tests/import");
    const struct dirent *entry;
    EXPECT(folder != NULL);
    while (folder != NULL && (entry = readdir(folder)) != NULL && fixture_count < FIXTURES_MAX) {
        char path[512];
        (void)snprintf(path, sizeof path, "tests/import/%s", entry->d_name);
        if (entry->d_name[0] != '.') {
            EXPECT_INT(file_read(path, TEXT_MAX, &fixtures[fixture_count].text, &fixtures[fixture_count].length, NULL),
                       STATUS_OK);
            fixture_count++;
        }
    }
    if (folder != NULL) {
        (void)closedir(folder);
    }
    EXPECT(fixture_count > 10);
}

static size_t put(char *text, size_t length, size_t at, const char *what, size_t size)
{
    if (length + size >= TEXT_MAX) {
        return length;
    }
    memmove(text + at + size, text + at, length - at);
    memcpy(text + at, what, size);
    return length + size;
}

static size_t line_at(const char *text, size_t at)
{
    while (at > 0 && text[at - 1] != '\n') {
        at--;
    }
    return at;
}

static size_t remove_span(char *text, size_t length, size_t from, size_t to)
{
    memmove(text + from, text + to, length - to);
    return length - (to - from);
}

static size_t mutate(char *text, size_t length)
{
    size_t at = test_below(&state, length + 1), from = line_at(text, at), to = at;
    const char *word = WORDS[test_below(&state, sizeof WORDS / sizeof WORDS[0])];
    size_t other = test_below(&state, fixture_count), size;
    while (to < length && text[to] != '\n') {
        to++;
    }
    to += to < length;
    switch (test_below(&state, 9)) {
    case 0: /* flip a bit */
        if (at < length) {
            text[at] = (char)(text[at] ^ (1 << test_below(&state, 8)));
        }
        return length;
    case 1: return at;                                              /* cut the end */
    case 2: return put(text, length, at, word, strlen(word));       /* insert a word */
    case 3: return put(text, length, from, word, strlen(word));     /* before a line */
    case 4: return remove_span(text, length, from, to);             /* a line is missing */
    case 5: return put(text, length, from, text + from, to - from); /* a line twice */
    case 6:                                                         /* a piece of another file */
        size = 1 + test_below(&state, fixtures[other].length - 1);
        size = size > 400 ? 400 : size;
        return put(text, length, from, fixtures[other].text + test_below(&state, fixtures[other].length - size), size);
    case 7: /* a number or word becomes another */
        for (from = at; from < length && text[from] > ' '; from++) {
        }
        return put(text, remove_span(text, length, at, from), at, word, strlen(word));
    default: /* a digit becomes another */
        for (size_t i = at; i < length; i++) {
            if (text[i] >= '0' && text[i] <= '9') {
                text[i] = (char)('0' + test_below(&state, 10));
                break;
            }
        }
        return length;
    }
}

static void check_points(const struct points *points)
{
    struct points again = { 0 };
    for (uint32_t i = 0; i < points->count; i++) {
        char name[128];
        EXPECT_INT(points_add(&again, &points->items[i], NULL), STATUS_OK);
        EXPECT(points->items[i].source[0] != '\0' && point_text(&points->items[i], name, sizeof name)[0] != '\0');
    }
    points_free(&again);
}

static void check_draft(const struct draft *draft, const char *path)
{
    struct error error = { 0 };
    struct machine machine;
    EXPECT_INT(draft_write(draft, path, &error), STATUS_OK);
    EXPECT_INT(machine_load(&machine, path, &error), STATUS_OK);
    EXPECT_TEXT(error.message, "");
    if (error.message[0] == '\0') {
        machine_free(&machine);
    }
    (void)unlink(path);
}

static void round_of(uint64_t seed)
{
    static const char *const systems[] = { NULL, "a100", "a100_pcie", "A100", "b200" };
    static char text[TEXT_MAX];
    char path[64], machine_path[64];
    struct points points = { 0 };
    struct draft *draft = NULL;
    struct import_result result;
    struct error error = { 0 };
    state = seed;
    size_t chosen = test_below(&state, fixture_count), length = fixtures[chosen].length;
    memcpy(text, fixtures[chosen].text, length);
    for (uint64_t k = test_below(&state, 4); k > 0; k--) {
        length = mutate(text, length);
    }
    (void)snprintf(path, sizeof path, "/tmp/memwall_fuzz_%d_%s", (int)getpid(),
                   test_below(&state, 4) == 0 ? "all-reduce.txt" : "paste.txt");
    (void)snprintf(machine_path, sizeof machine_path, "/tmp/memwall_fuzz_%d.json", (int)getpid());
    FILE *file = fopen(path, "wb");
    EXPECT(file != NULL && fwrite(text, 1, length, file) == length);
    if (file != NULL) {
        (void)fclose(file);
    }
    bool topology = strstr(fixtures[chosen].text, "Legend:") != NULL; /* a base makes it whole, but costs time */
    EXPECT_INT(draft_new(&draft, "fuzz", topology ? "dgx-a100-80gb" : NULL, &error), STATUS_OK);
    enum status status = import_file(path, systems[test_below(&state, 5)], &points, draft, &result, &error);
    if (status == STATUS_OK) {
        EXPECT_INT(result.points, points.count);
        check_points(&points);
        if (topology && result.format == IMPORT_TOPOLOGY) {
            check_draft(draft, machine_path);
        }
    } else {
        EXPECT(error.message[0] != '\0' && error.file[0] != '\0');
        EXPECT_INT(points.count, 0);
    }
    accepted += status == STATUS_OK;
    refused += status != STATUS_OK;
    if (test_failures > 0) {
        printf("input: %.*s\n", (int)length, text);
    }
    (void)unlink(path);
    import_result_free(&result);
    points_free(&points);
    draft_free(draft);
}

int main(int argc, char **argv)
{
    load_fixtures();
    int status = fuzz_run(round_of, argc, argv);
    printf("%llu accepted, %llu refused\n", (unsigned long long)accepted, (unsigned long long)refused);
    for (size_t i = 0; i < fixture_count; i++) {
        free(fixtures[i].text);
    }
    return status;
}
