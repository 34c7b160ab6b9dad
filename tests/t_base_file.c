/* file. */
#include <sys/stat.h>
#include <unistd.h>

#include "sim/base/file.h"
#include "sim/base/file_place.h"
#include "tests/test.h"

static char folder[64];

static const char *at(const char *name)
{
    static char path[256];
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static void test_round_trip(void)
{
    struct error error = { 0 };
    char *text = NULL;
    size_t length = 0;
    EXPECT_INT(file_write(at("a.txt"), "abc\0d", 5, &error), STATUS_OK);
    EXPECT_INT(file_write(at("a.txt"), "abc\0de", 6, &error), STATUS_OK); /* replaces */
    EXPECT_INT(file_read(at("a.txt"), 6, &text, &length, &error), STATUS_OK);
    EXPECT_INT(length, 6);
    EXPECT(memcmp(text, "abc\0de", 7) == 0);
    free(text);
    EXPECT(file_exists(at("a.txt")));
    EXPECT(!file_exists(at("b.txt")));
    struct stat info;
    EXPECT(stat(at("a.txt"), &info) == 0 && (info.st_mode & 0400) != 0);
}

static void test_refusals(void)
{
    struct error error = { 0 };
    char *text = NULL, message[1600];
    size_t length;
    EXPECT_INT(file_read(at("a.txt"), 5, &text, &length, &error), STATUS_LIMIT);
    EXPECT_PART(error_text(&error, message, sizeof message), "larger than the 5 bytes");
    EXPECT_INT(file_read(at("none"), 5, &text, &length, &error), STATUS_NOT_FOUND);
    EXPECT_PART(error_text(&error, message, sizeof message), "none: cannot open");
    EXPECT_INT(file_read(folder, 5, &text, &length, &error), STATUS_BAD_INPUT);
    EXPECT_PART(error.message, "folder");
    EXPECT_INT(file_read("/dev/zero", 100000, &text, &length, &error), STATUS_LIMIT);
    EXPECT(text == NULL);
    EXPECT_INT(file_read("", 5, &text, &length, &error), STATUS_BAD_INPUT);
    EXPECT_PART(error_text(&error, message, sizeof message), "the name of a file is empty");
    EXPECT_INT(file_write("", "x", 1, &error), STATUS_BAD_INPUT);
    EXPECT_INT(file_write(at("no/such"), "x", 1, &error), STATUS_IO);
    EXPECT_INT(file_write(folder, "x", 1, &error), STATUS_IO);
    EXPECT_INT(file_write("/dev/null", "x", 1, &error), STATUS_OK);
    EXPECT_INT(file_write("/dev/full", "x", 1, &error), STATUS_IO);
}

static void test_folders(void)
{
    struct error error = { 0 };
    EXPECT_INT(folder_make(at("x/y/z"), &error), STATUS_OK);
    EXPECT_INT(folder_make(at("x/y/z/"), &error), STATUS_OK);
    EXPECT(file_exists(at("x/y/z")));
    EXPECT_INT(folder_make(at("a.txt/b"), &error), STATUS_IO);
    EXPECT_INT(folder_make(at("a.txt"), &error), STATUS_IO);
    EXPECT_INT(rmdir(at("x/y/z")) + rmdir(at("x/y")) + rmdir(at("x")), 0);
    EXPECT_INT(unlink(at("a.txt")), 0);
    EXPECT_INT(rmdir(folder), 0); /* nothing was left behind */
}

/* What is told before the work is what writing would meet after it. */
static void test_places(void)
{
    struct error error = { 0 };
    EXPECT_INT(file_write(at("c.txt"), "a", 1, &error), STATUS_OK);
    EXPECT_INT(folder_make(at("x"), &error), STATUS_OK);
    const struct {
        const char *path, *file, *files_in; /* parts of the messages; NULL: fine */
    } cases[] = {
        { "c.txt", NULL, "is no folder" },
        { "b.txt", NULL, NULL },
        { "x", "is a folder, expected the name of a file", NULL },
        { "x/", "is a folder", NULL },
        { "x//y", NULL, NULL },
        { "c.txt/b", "no file can be written in", "can be made: Not a directory" },
        { "none/b", "there is no such folder", NULL },
        { "none/such/", "is a folder", NULL },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char path[300];
        snprintf(path, sizeof path, "%s", at(cases[i].path));
        EXPECT_INT(file_place_check(path, &error), cases[i].file == NULL ? STATUS_OK : STATUS_BAD_INPUT);
        if (cases[i].file != NULL) {
            EXPECT_PART(error.message, cases[i].file);
        }
        EXPECT_INT(folder_place_check(path, &error), cases[i].files_in == NULL ? STATUS_OK : STATUS_BAD_INPUT);
        if (cases[i].files_in != NULL) {
            EXPECT_PART(error.message, cases[i].files_in);
        }
    }
    EXPECT_INT(file_place_check("/proc/none", &error), STATUS_BAD_INPUT); /* root, too, can make no file there */
    EXPECT_INT(folder_place_check("/proc/none/such", &error), STATUS_BAD_INPUT);
    EXPECT_PART(error.message, "no file can be written in \"/proc\"");
    EXPECT_INT(folder_ready_check("/proc", &error), STATUS_BAD_INPUT);
    EXPECT_INT(folder_ready_check(folder, &error), STATUS_OK);
    EXPECT_INT(folder_ready_check(at("none"), &error), STATUS_BAD_INPUT);
    EXPECT_PART(error.message, "there is no such folder");
    EXPECT_INT(folder_ready_check(at("c.txt"), &error), STATUS_BAD_INPUT);
    EXPECT_PART(error.message, "not a folder");
    EXPECT_INT(file_place_check("/dev/null", &error), STATUS_OK);
    char previous[512], longest[8192];
    EXPECT(getcwd(previous, sizeof previous) != NULL && chdir(folder) == 0);
    EXPECT_INT(file_place_check("b.txt", &error), STATUS_OK);
    EXPECT_INT(folder_place_check("new/deep", &error), STATUS_OK);
    EXPECT_INT(folder_place_check(".", &error), STATUS_OK);
    EXPECT_INT(chdir(previous), 0);
    memset(longest, 'a', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    EXPECT_INT(file_place_check(longest, &error), STATUS_BAD_INPUT);
    EXPECT_INT(folder_place_check(longest, &error), STATUS_BAD_INPUT);
    EXPECT_INT(folder_ready_check(longest, &error), STATUS_BAD_INPUT);
    EXPECT_INT(rmdir(at("x")), 0); /* nothing was left in it */
    EXPECT_INT(unlink(at("c.txt")), 0);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = { TEST(test_round_trip), TEST(test_refusals), TEST(test_places),
                                              TEST(test_folders) };
    (void)snprintf(folder, sizeof folder, "/tmp/memwall-t_base_file-XXXXXX");
    if (mkdtemp(folder) == NULL) {
        printf("cannot make a folder below /tmp\n");
        return 1;
    }
    return test_run(cases, sizeof cases / sizeof cases[0], argc, argv);
}
