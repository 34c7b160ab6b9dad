/* The topics of `memwall list` that have files of their own: each prints its rows as JSON or into a table. */
#ifndef MEMWALL_CLI_LIST_TOPICS_H
#define MEMWALL_CLI_LIST_TOPICS_H

#include "sim/base/json_write.h"
#include "sim/base/status.h"
#include "sim/report/text_table.h"

/* What a topic's printer works with: one of `json` and `table` is set. */
struct lister {
    struct json_writer *json;
    struct text_table *table;
    const char *folder; /* of scenarios */
    struct error *error;
};

/* Sets `count` columns; bits of `right`: those that stand to the right. */
void list_head(struct text_table *table, uint32_t count, uint32_t right, const char *const *names);

/* list_hardware.c */
enum status list_machines(struct lister *l);
enum status list_software(struct lister *l);
/* list_plugins.c */
enum status list_orders(struct lister *l);
enum status list_policies(struct lister *l);
enum status list_planners(struct lister *l);

#endif
