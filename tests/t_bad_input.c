/* The bad-input suite: every file of tests/bad_input ends within a second with a message that says what, where, and what is allowed. expected.txt has a line for each file:
 *
 *     file | part of the message, as a person reads it ("file:line: path: message" without the folder)
 *
 * Files beginning with model_, machine_ and software_ go to those loaders, scenario_ to the whole. Sizes and depths that nobody wants to keep in a repository are made here. */
#include <dirent.h>
#include <time.h>
#include <unistd.h>

#include "sim/base/file.h"
#include "sim/plan/scenario.h"
#include "tests/test.h"

#define FOLDER "tests/bad_input/"

enum { FILES_MIN = 60, TEXT_BYTES = 2048, LINE_BYTES = 1024 };

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t); /* of this process: the machine may be busy with others */
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static enum status load(const char *file, const char *base, struct error *error)
{
    if (strncmp(base, "model_", 6) == 0) {
        struct model model;
        return model_load(&model, file, error);
    }
    if (strncmp(base, "machine_", 8) == 0) {
        struct machine machine;
        enum status status = machine_load(&machine, file, error);
        if (status == STATUS_OK) {
            machine_free(&machine);
        }
        return status;
    }
    if (strncmp(base, "software_", 9) == 0) {
        struct software software;
        return software_load(&software, file, error);
    }
    struct scenario scenario;
    enum status status = scenario_load(&scenario, file, NULL, 0, error);
    if (status == STATUS_OK) {
        scenario_free(&scenario);
    }
    return status;
}

/* Loads, and returns the message without the folder; "" when the file was accepted. A second is the limit of a whole command. */
static const char *message_of(const char *file, const char *base, char text[TEXT_BYTES])
{
    struct error error = { 0 };
    double before_s = now_s();
    enum status status = load(file, base, &error);
    double took_s = now_s() - before_s;
    if (took_s > 1.0) {
        TEST_FAIL_("%s took %.2f s", file, took_s);
    }
    text[0] = '\0';
    if (status != STATUS_OK) {
        EXPECT_INT(error.status, status);
        error_text(&error, text, TEXT_BYTES);
        size_t folder = strlen(FOLDER);
        if (strncmp(text, FOLDER, folder) == 0) {
            memmove(text, text + folder, strlen(text + folder) + 1);
        }
    }
    return text;
}

static void test_suite(void)
{
    FILE *list = fopen(FOLDER "expected.txt", "r");
    char line[LINE_BYTES], text[TEXT_BYTES], file[512];
    unsigned count = 0;
    if (list == NULL) {
        TEST_FAIL_("%sexpected.txt is missing (run from the repository root)", FOLDER);
        return;
    }
    while (fgets(line, sizeof line, list) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        char *part = strstr(line, " | ");
        if (line[0] == '#' || line[0] == '\0') {
            continue;
        }
        if (part == NULL || part[3] == '\0') {
            TEST_FAIL_("expected.txt: no expectation in \"%s\"", line);
            continue;
        }
        *part = '\0';
        snprintf(file, sizeof file, FOLDER "%.200s", line);
        EXPECT(file_exists(file));
        message_of(file, line, text);
        if (text[0] == '\0') {
            TEST_FAIL_("%s was accepted", line);
        } else if (strstr(text, part + 3) == NULL) {
            TEST_FAIL_("%s: \"%s\" does not contain \"%s\"", line, text, part + 3);
        }
        count++;
    }
    fclose(list);
    printf("%u files\n", count);
    EXPECT(count >= FILES_MIN);
}

/* No file without an expectation. */
static void test_every_file_is_listed(void)
{
    char *list = NULL;
    size_t length;
    struct error error = { 0 };
    EXPECT_INT(file_read(FOLDER "expected.txt", (size_t)1 << 20, &list, &length, &error), STATUS_OK);
    DIR *folder = opendir(FOLDER);
    EXPECT(folder != NULL);
    for (struct dirent *entry; list != NULL && folder != NULL && (entry = readdir(folder)) != NULL;) {
        char wanted[300];
        size_t name_length = strlen(entry->d_name);
        if (name_length > 5 && strcmp(entry->d_name + name_length - 5, ".json") == 0) {
            snprintf(wanted, sizeof wanted, "%s | ", entry->d_name);
            EXPECT_PART(list, wanted);
        }
    }
    if (folder != NULL) {
        closedir(folder);
    }
    free(list);
}

/* Writes `head`, then `count` times `part`, then `tail`; the name is the caller's to unlink. */
static void make_file(char *name, const char *head, const char *part, size_t count, const char *tail)
{
    int handle = mkstemp(name);
    FILE *file = handle < 0 ? NULL : fdopen(handle, "w");
    if (file == NULL) {
        printf("cannot make %s\n", name);
        exit(1);
    }
    fputs(head, file);
    for (size_t i = 0; i < count; i++) {
        fputs(part, file);
    }
    fputs(tail, file);
    fclose(file);
}

static void expect_made(const char *head, const char *part, size_t count, const char *tail, const char *wanted)
{
    static const char *const loaders[] = { "scenario_", "model_", "machine_", "software_" };
    char name[] = "/tmp/memwall_bad_input_XXXXXX", path[64], text[TEXT_BYTES];
    make_file(name, head, part, count, tail);
    snprintf(path, sizeof path, "%s.json", name); /* a path for the loaders that also take names */
    EXPECT(rename(name, path) == 0);
    for (size_t i = 0; i < sizeof loaders / sizeof loaders[0]; i++) {
        EXPECT_PART(message_of(path, loaders[i], text), wanted);
    }
    unlink(path);
}

static void test_large_and_deep(void)
{
    static char kilobyte[1025];
    memset(kilobyte, ' ', 1024);
    expect_made("{", kilobyte, 100 * 1024, "}", "bytes"); /* 100 MB */
    expect_made("", "[", 200, "", "64");                  /* 200-deep, unclosed */
    expect_made("{\"model\":", "{\"base\":", 200, "", "64");
    expect_made("", "[", 1000000, "", "64");
}

static void test_not_files(void)
{
    char text[TEXT_BYTES];
    EXPECT_PART(message_of("tests/bad_input/no_such_file.json", "scenario_", text), "no_such_file.json");
    EXPECT_PART(message_of("tests/bad_input", "scenario_", text), "tests/bad_input");
    EXPECT_PART(message_of("tests/bad_input/", "model_", text), "is a folder");
    EXPECT_PART(message_of("", "scenario_", text), "the name of a file is empty");
    EXPECT_PART(message_of("/dev/zero", "scenario_", text), "larger than"); /* within the second of message_of */
    EXPECT_PART(message_of("/dev/zero", "model_", text), "larger than");
}

/* Bytes that are not text. */
static void test_not_text(void)
{
    expect_made("{\"name\":\"\x01\"}", "", 0, "", "1");
    expect_made("{\"name\":\"\xff\xfe\"}", "", 0, "", "UTF-8");
    expect_made("\x7f"
                "ELF\x02\x01",
                "", 0, "", "line 1");
}

TEST_MAIN(TEST(test_suite), TEST(test_every_file_is_listed), TEST(test_large_and_deep), TEST(test_not_files),
          TEST(test_not_text))
