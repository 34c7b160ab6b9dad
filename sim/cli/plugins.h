/* Shared objects with further strategies (strategies/plugin/plugin.h), opened by --plugin. They stay loaded until the program ends. */
#ifndef MEMWALL_CLI_PLUGINS_H
#define MEMWALL_CLI_PLUGINS_H

#include "sim/base/status.h"

/* Opens `file` (a path, not a name to be looked for) and adds what it has to the registries. STATUS_BAD_INPUT or STATUS_NOT_FOUND says what is wrong with it. */
enum status plugins_open(const char *file, struct error *error);

/* What decides the results of a sweep: sweep_results_version, and a digest of each plug-in that is loaded. Lives as long as the program. */
const char *plugins_results_version(void);

#endif
