/* What `memwall pipeline` says of bare pipelines that have run, for people. */
#ifndef MEMWALL_CLI_PIPELINE_TEXT_H
#define MEMWALL_CLI_PIPELINE_TEXT_H

#include "sim/plan/bare_pipeline.h"
#include "sim/plan/order_auto.h"

struct pipeline_run {
    struct bare_pipeline_request request;
    struct order_table table; /* of --schedule-file and of `auto` */
    struct pipeline_order table_order;
    struct order_auto_result scheduled; /* `auto`; rule NULL else */
    struct schedule schedule;
    struct timeline timeline;
    struct bare_pipeline_result result;
};

/* Figures of the whole and of each stage, and a grid of passes where it fits a terminal. */
void pipeline_text(const struct pipeline_run *run, struct strbuf *out);
/* A line for each. */
void pipeline_text_table(const struct pipeline_run *runs, uint32_t count, struct strbuf *out);

#endif
