/* Files and folders that flags name, looked at before any long work. All return STATUS_BAD_INPUT with the flag, what was found and what is allowed; what passes may still fail later (a full disk, another's
 * hand). `flag` with its dashes. */
#ifndef MEMWALL_CLI_FLAG_FILES_H
#define MEMWALL_CLI_FLAG_FILES_H

#include "sim/base/status.h"

/* A file to read: "-" (standard input) or a regular file that can be read. No pipe: opened by name it may wait for ever. */
enum status flag_input_file(const char *flag, const char *path, struct error *error);
/* A file to write, at once or renamed into place: no folder, and in a folder that takes files. `example`: a name for a file in a folder ("machine.json"). */
enum status flag_output_file(const char *flag, const char *path, const char *example, struct error *error);
/* A folder for files that come and go. */
enum status flag_scratch_folder(const char *flag, const char *path, struct error *error);

#endif
