/* `memwall explain`: every term of memory and time with its formula, the numbers put in, and the source.
 *
 * An explanation is a document: sections hold terms (a value and where it comes from) and tables. One maker fills it, two printers show it: text for people, JSON
 * ("memwall.explain/1") for programs:
 *
 *     { "schema", "name", "sections": [ { "id", "title", "terms": [ { "name", "value", "unit", "formula", "numbers", "source" } ],
 *                                         "tables": [ { "title", "columns": [], "rows": [ [] ] } ] } ] }
 *
 * Section ids: model, plan, policy, states, activations, memory, flops, kernels, collectives, moves (only where something moves), host, host_optimizer (only where Adam runs on the host), pipeline, step, machine,
 * software. Terms without a formula, numbers or source leave the key out. */
#ifndef MEMWALL_REPORT_EXPLAIN_H
#define MEMWALL_REPORT_EXPLAIN_H

#include "sim/plan/policy_facts.h"
#include "sim/plan/scenario.h"
#include "sim/report/result.h"

enum { EXPLAIN_COLUMNS_MAX = 16 };

struct explain_cell {
    const char *text; /* NULL: a number */
    double value;
};

struct explain_term {
    const char *name;
    struct explain_cell value;
    const char *unit;                       /* "bytes", "s", ... ; NULL: none */
    const char *formula, *numbers, *source; /* NULL: none */
};

struct explain_table {
    const char *title;
    const char *columns[EXPLAIN_COLUMNS_MAX]; /* names with units */
    uint32_t column_count;
    struct explain_cells {
        struct explain_cell *items;
        size_t count, capacity;
    } cells; /* row after row */
};

struct explain_section {
    const char *id, *title, *note; /* note: NULL, or a sentence for people */
    struct explain_terms {
        struct explain_term *items;
        size_t count, capacity;
    } terms;
    struct explain_tables {
        struct explain_table *items;
        size_t count, capacity;
    } tables;
};

struct explanation {
    const char *name; /* borrowed: of the scenario */
    struct explain_sections {
        struct explain_section *items;
        size_t count, capacity;
    } sections;
    bool failed; /* memory ran out while it was made */
    struct arena arena;
};

struct explain_input {
    const struct scenario *scenario;
    const struct result *result;
    const struct result_input *input; /* schedule and timeline of that scenario */
    const struct policy_facts *facts; /* of its lowering; NULL: none */
    bool list_moves;                  /* a row of each copy, transfer and collective, not only of each kind */
};

/* Explains a simulated scenario, also one that does not fit. Texts live in the explanation or belong to the scenario, which must outlive it. */
enum status explain_scenario(struct explanation *explanation, const struct explain_input *input, struct error *error);
void explanation_free(struct explanation *explanation);

void explanation_print_text(const struct explanation *explanation, struct strbuf *out);
void explanation_print_json(const struct explanation *explanation, struct strbuf *out);
/* What explanation_print_json printed; texts borrow from the document. STATUS_BAD_INPUT when it is something else. On error nothing stays allocated. */
enum status explanation_read(struct explanation *explanation, const struct json *root, struct error *error);

#endif
