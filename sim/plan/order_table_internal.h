/* Shared by the order_table*.c files only. */
#ifndef MEMWALL_PLAN_ORDER_TABLE_INTERNAL_H
#define MEMWALL_PLAN_ORDER_TABLE_INTERNAL_H

#include "sim/plan/order_table.h"

enum { ORDER_WORD_BYTES = 32 };

/* A step as the file writes it: "B3", with several chunks a device "B3.5". */
void order_table_word(const struct order_table *table, uint32_t kind, uint32_t micro_batch, uint32_t virtual_stage,
                      char text[ORDER_WORD_BYTES]);

#endif
