/* memwall calibrate: the file of measured points, from which an interrupted calibration goes on. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sim/base/check.h"
#include "sim/base/file.h"
#include "sim/base/json.h"
#include "sim/cli/calibration.h"

/* Where the whole lines of the file end; 0: it has none. */
static enum status whole_lines(const struct calibration *c, size_t *length, struct error *error)
{
    char *text = NULL;
    TRY(file_read(c->points_file, JSON_BYTES_MAX, &text, length, error));
    while (*length > 0 && text[*length - 1] != '\n') {
        (*length)--;
    }
    free(text);
    return STATUS_OK;
}

/* Before anything in it is cut or appended to: is the file missing, empty, or one of points? Anything else is somebody's. */
static enum status check_points_file(const struct calibration *c, struct error *error)
{
    static const char begin[] = "{\"schema\":\"memwall.points/1\"";
    struct stat points, out;
    if (strcmp(c->points_file, c->flags.out) == 0) {
        return error_at(
            error, STATUS_BAD_INPUT, "--points", NULL,
            "\"%.200s\" is the machine file of --out, which would take the place of the points: give another",
            c->points_file);
    }
    if (stat(c->points_file, &points) != 0) {
        return STATUS_OK; /* will be made */
    }
    if (!S_ISREG(points.st_mode)) {
        return error_at(error, STATUS_BAD_INPUT, "--points", NULL,
                        "\"%.200s\" is not a regular file: points are kept in one", c->points_file);
    }
    if (stat(c->flags.out, &out) == 0 && out.st_dev == points.st_dev && out.st_ino == points.st_ino) {
        return error_at(error, STATUS_BAD_INPUT, "--points", NULL, "\"%.200s\" is the same file as --out: give another",
                        c->points_file);
    }
    char *text = NULL;
    size_t length = 0;
    TRY(file_read(c->points_file, JSON_BYTES_MAX, &text, &length, error));
    size_t compared =
        length < sizeof begin - 1 ? length : sizeof begin - 1; /* a killed run may have cut the first line */
    bool ours = strncmp(text, begin, compared) == 0;
    free(text);
    return ours ? STATUS_OK
                : error_at(error, STATUS_BAD_INPUT, c->points_file, NULL,
                           "does not begin as a file of points does (%s}...): give another --points, or remove it",
                           begin);
}

/* What an earlier run measured. */
static enum status take_up(struct calibration *c, struct error *error)
{
    char machine[64], executor[64];
    TRY(points_load(&c->measured, c->points_file, machine, executor, NULL, error));
    if (strcmp(machine, c->name) != 0 || strcmp(executor, c->executor->name) != 0) {
        return error_at(error, STATUS_BAD_INPUT, c->points_file, NULL,
                        "holds points of machine \"%s\" by executor %s, not of \"%s\" by %s: give another --points, or "
                        "--fresh to measure anew",
                        machine, executor, c->name, c->executor->name);
    }
    return STATUS_OK;
}

enum status calibration_open_points(struct calibration *c, struct error *error)
{
    size_t length = 0;
    TRY(check_points_file(c, error));
    c->file = fopen(c->points_file, "a");
    if (c->file == NULL) {
        return error_at(error, STATUS_IO, c->points_file, NULL, "cannot be written: %s", strerror(errno));
    }
    if (flock(fileno(c->file), LOCK_EX | LOCK_NB) != 0) {
        return error_at(error, STATUS_EXECUTION, c->points_file, NULL, "another calibration is writing it");
    }
    if (c->fresh == NULL) {
        TRY(whole_lines(c, &length, error));
    }
    if (length > 0) {
        TRY(take_up(c, error));
    }
    if (c->measured.count > 0 && !c->flags.quiet) {
        fprintf(stderr, "memwall: %u points measured before are in %s (--fresh measures anew)\n", c->measured.count,
                c->points_file);
    }
    if (ftruncate(fileno(c->file), (off_t)length) != 0) {
        return error_at(error, STATUS_IO, c->points_file, NULL, "cannot be cut to its whole lines: %s",
                        strerror(errno));
    }
    return length > 0 ? STATUS_OK : points_begin(c->file, c->name, c->executor->name, error);
}
