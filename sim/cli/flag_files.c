#include "sim/cli/flag_files.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sim/base/check.h"
#include "sim/base/file_place.h"

/* How much of a path a message shows. */
#define SHOWN "\"%.200s\""

static enum status refuse_empty(const char *flag, const char *path, const char *wanted, struct error *error)
{
    return path[0] != '\0' ? STATUS_OK
                           : error_at(error, STATUS_BAD_INPUT, flag, NULL, "the name is empty (\"\"): give %s", wanted);
}

enum status flag_input_file(const char *flag, const char *path, struct error *error)
{
    struct stat found;
    if (strcmp(path, "-") == 0) {
        return STATUS_OK;
    }
    TRY(refuse_empty(flag, path, "a file, or - for standard input", error));
    if (stat(path, &found) != 0) {
        return error_at(error, STATUS_BAD_INPUT, flag, NULL, SHOWN " cannot be read: %s", path, strerror(errno));
    }
    if (!S_ISREG(found.st_mode)) {
        return error_at(error, STATUS_BAD_INPUT, flag, NULL,
                        SHOWN " is %s; give a regular file, or - for standard input", path,
                        S_ISDIR(found.st_mode)    ? "a folder"
                        : S_ISFIFO(found.st_mode) ? "a pipe"
                                                  : "no regular file");
    }
    if (access(path, R_OK) != 0) {
        return error_at(error, STATUS_BAD_INPUT, flag, NULL, SHOWN " cannot be read: %s", path, strerror(errno));
    }
    return STATUS_OK;
}

enum status flag_scratch_folder(const char *flag, const char *path, struct error *error)
{
    struct error why = { 0 };
    TRY(refuse_empty(flag, path, "a folder that files can be written in", error));
    return folder_ready_check(path, &why) == STATUS_OK
               ? STATUS_OK
               : error_at(error, STATUS_BAD_INPUT, flag, NULL, "%s; give a folder that files can be written in",
                          why.message);
}

static bool same_file(const char *a, const char *b)
{
    struct stat one, other;
    bool there = stat(a, &one) == 0;
    if (there && !S_ISREG(one.st_mode)) {
        return false;
    }
    return strcmp(a, b) == 0 ||
           (there && stat(b, &other) == 0 && one.st_dev == other.st_dev && one.st_ino == other.st_ino);
}

enum status flag_files_differ(const struct flag_file *files, int count, int written, struct error *error)
{
    for (int i = 0; i < written; i++) {
        for (int k = i + 1; k < count && files[i].path != NULL; k++) {
            if (files[k].path != NULL && same_file(files[i].path, files[k].path)) {
                return error_at(error, STATUS_BAD_INPUT, files[i].flag, NULL,
                                SHOWN " is the file of %s, too, and would be written over: give another name",
                                files[i].path, files[k].flag);
            }
        }
    }
    return STATUS_OK;
}
