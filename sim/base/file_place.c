#include "sim/base/file_place.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sim/base/check.h"

/* Room for the names of files in a folder. */
enum { NAME_ROOM = 64 };

static enum status too_long(struct error *error)
{
    return error_set(error, STATUS_BAD_INPUT, "the path has more than %d bytes", PATH_MAX - NAME_ROOM);
}

enum status folder_ready_check(const char *folder, struct error *error)
{
    struct stat about;
    char path[PATH_MAX + NAME_ROOM]; /* where the file system has no nameless files */
    const char *why = NULL;
    if (strlen(folder) > PATH_MAX - NAME_ROOM) {
        return too_long(error);
    }
    if (stat(folder, &about) != 0) {
        why = errno == ENOENT || errno == ENOTDIR ? "there is no such folder" : strerror(errno);
    } else if (!S_ISDIR(about.st_mode)) {
        why = "not a folder";
    } else {
        (void)snprintf(path, sizeof path, "%s/.memwall-%ld.tmp", folder, (long)getpid());
        int nameless = open(folder, O_WRONLY | O_TMPFILE | O_CLOEXEC, 0600); /* a kill at this instant leaves nothing */
        int fd = nameless >= 0 ? nameless : open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        if (fd >= 0) {
            (void)close(fd);
            if (nameless < 0) {
                (void)unlink(path);
            }
        } else if (errno != EEXIST) { /* there: somebody could write it */
            why = strerror(errno);
        }
    }
    return why == NULL ? STATUS_OK
                       : error_set(error, STATUS_BAD_INPUT, "no file can be written in \"%s\": %s", folder, why);
}

/* The part of `path` before its last slash: "." and "/" where there is none, or nothing before it. False: `path` has no parent. */
static bool parent_of(const char *path, char parent[PATH_MAX])
{
    size_t length = strlen(path);
    while (length > 1 && path[length - 1] == '/') {
        length--;
    }
    size_t end = length;
    while (end > 0 && path[end - 1] != '/') {
        end--;
    }
    if (end == 0) {
        (void)snprintf(parent, PATH_MAX, ".");
        return strcmp(path, ".") != 0;
    }
    while (end > 1 && path[end - 1] == '/') {
        end--;
    }
    (void)snprintf(parent, PATH_MAX, "%.*s", (int)end, path);
    return end < length;
}

enum status file_place_check(const char *path, struct error *error)
{
    struct stat about;
    char folder[PATH_MAX];
    size_t length = strlen(path);
    if (length > PATH_MAX - NAME_ROOM) {
        return too_long(error);
    }
    if (length == 0) {
        return error_set(error, STATUS_BAD_INPUT, "the name is empty (\"\"), expected that of a file to write");
    }
    bool exists = stat(path, &about) == 0;
    const char *slash = strrchr(path, '/');
    if (strlen(slash != NULL ? slash + 1 : path) > NAME_MAX - NAME_ROOM) {
        return error_set(error, STATUS_BAD_INPUT, "the name of the file has more than %d bytes", NAME_MAX - NAME_ROOM);
    }
    if (path[length - 1] == '/' || (exists && S_ISDIR(about.st_mode))) {
        return error_set(error, STATUS_BAD_INPUT, "\"%s\" is a folder, expected the name of a file to write", path);
    }
    if (exists && !S_ISREG(about.st_mode)) {
        return access(path, W_OK) == 0
                   ? STATUS_OK
                   : error_set(error, STATUS_BAD_INPUT, "cannot write \"%s\": %s", path, strerror(errno));
    }
    (void)parent_of(path, folder);
    return folder_ready_check(folder, error);
}

enum status folder_place_check(const char *path, struct error *error)
{
    struct stat about;
    char at[PATH_MAX], parent[PATH_MAX];
    if (strlen(path) > PATH_MAX - NAME_ROOM) {
        return too_long(error);
    }
    (void)snprintf(at, sizeof at, "%s", path);
    while (stat(at, &about) != 0) {
        if (errno != ENOENT || !parent_of(at, parent)) {
            return error_set(error, STATUS_BAD_INPUT, "no folder \"%s\" can be made: %s", path, strerror(errno));
        }
        (void)snprintf(at, sizeof at, "%s", parent);
    }
    if (!S_ISDIR(about.st_mode)) {
        return error_set(error, STATUS_BAD_INPUT, "\"%s\" is no folder%s%s%s", at,
                         strcmp(at, path) != 0 ? ": no \"" : "", strcmp(at, path) != 0 ? path : "",
                         strcmp(at, path) != 0 ? "\" can be made there" : "");
    }
    return folder_ready_check(at, error);
}
