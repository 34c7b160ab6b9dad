/* Before an hour of work, not after it: can the answer be written there? A probe file is made and removed, so a read-only file system and missing rights are found by root as well. */
#ifndef MEMWALL_BASE_FILE_PLACE_H
#define MEMWALL_BASE_FILE_PLACE_H

#include "sim/base/status.h"

/* Whether file_write could make or replace `path`: STATUS_BAD_INPUT when it is a folder, or its folder is missing, is none, or takes no files. A pipe or device only has to allow writing. */
enum status file_place_check(const char *path, struct error *error);
/* The same for files in the folder `path`, which folder_make would make where it is missing: nothing is made here. */
enum status folder_place_check(const char *path, struct error *error);
/* Whether files can be made in a folder that is there already. */
enum status folder_ready_check(const char *folder, struct error *error);

#endif
