/* Taking a plug-in in. */
#ifndef MEMWALL_STRATEGIES_PLUGIN_ADD_H
#define MEMWALL_STRATEGIES_PLUGIN_ADD_H

#include "strategies/plugin/plugin.h"

/* What MEMWALL_HEADERS must be: of this program. */
extern const char plugin_headers[];

/* Adds all that `plugin` has to the registries, or nothing. For start-up: before another thread looks anything up. `file` is for messages. STATUS_BAD_INPUT: it was compiled with other headers, is empty,
 * or has an entry that is incomplete or takes a name that is known; STATUS_LIMIT: too many. */
enum status plugin_add(const struct memwall_plugin *plugin, const char *file, struct error *error);

#endif
