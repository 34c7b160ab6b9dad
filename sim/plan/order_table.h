/* An order given step by step: a file of one's own, or what a scheduler made. One line a stage, steps in the order of their running, '#' begins a comment:
 *
 *     F0 F1 F2 B0 F3 B1 B2 B3      # stage 0
 *     F0 B0 F1 B1 F2 B2 F3 B3      # stage 1
 *
 * F3 is the forward of micro-batch 3, B3 its backward, or the input part of it when the file has W3, the weight part. With several chunks a device each step names its virtual
 * stage: F3.5. Which stage holds which virtual stage follows from the lines. */
#ifndef MEMWALL_PLAN_ORDER_TABLE_H
#define MEMWALL_PLAN_ORDER_TABLE_H

#include <stddef.h>

#include "sim/base/strbuf.h"
#include "sim/plan/order.h"

struct order_table {
    uint32_t stages, micro_batches, virtual_stages;
    bool splits_backward;
    struct order_step **steps; /* [stages][counts[stage]] */
    uint32_t *counts;
    uint32_t *placement; /* [stages * virtual_stages]: the virtual stage of (stage, chunk) */
    struct arena arena;
};

/* Read and check. STATUS_BAD_INPUT says stage and position (from 1) and the shortest mend: what is no step, stands twice, is missing, comes before what it needs, or makes the pipeline
 * wait for itself. `file` is only for messages. */
enum status order_table_parse(struct order_table *table, const char *text, size_t length, const char *file,
                              struct error *error);
void order_table_free(struct order_table *table);
/* A copy whose arrays are in `arena`: not to be freed. False: out of memory. */
bool order_table_copy(struct order_table *copy, const struct order_table *table, struct arena *arena);
void order_table_print(const struct order_table *table, struct strbuf *out);

/* Whether it can run at all: names the wait that closes the circle. Parse has done it. */
enum status order_table_check(const struct order_table *table, const char *file, struct error *error);

/* Whether a schedule of it can run too: between two stages messages of one direction keep their order, so both must run their steps in one. STATUS_BAD_INPUT names the message that two stages wait
 * for. The table has passed order_table_check. A bare pipeline, which has no messages, does without. */
enum status order_table_check_transfers(const struct order_table *table, const char *file, struct error *error);

/* The table as an order plug-in named `name` (borrowed), whose requests must carry `table` (order_request.table). */
struct pipeline_order order_table_order(const struct order_table *table, const char *name);

#endif
