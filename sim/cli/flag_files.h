/* Files to read and folders to work in that flags name, looked at before any long work by the rules of sim/base/file_place.h; files to write: cli_can_write (cli.h). All return STATUS_BAD_INPUT with the flag, what was found and what is allowed; what passes may still fail later (a full disk, another's
 * hand). `flag` with its dashes. */
#ifndef MEMWALL_CLI_FLAG_FILES_H
#define MEMWALL_CLI_FLAG_FILES_H

#include "sim/base/status.h"

/* A file to read: "-" (standard input) or a regular file that can be read. No pipe: opened by name it may wait for ever. */
enum status flag_input_file(const char *flag, const char *path, struct error *error);
/* A folder that is there, for files that come and go. */
enum status flag_scratch_folder(const char *flag, const char *path, struct error *error);

struct flag_file {
    const char *flag, *path; /* path NULL: not given */
};
/* No two of count files, the first `written` of which will be written, are one: by name, or on the disk. Devices and pipes may stand several times. */
enum status flag_files_differ(const struct flag_file *files, int count, int written, struct error *error);

#endif
