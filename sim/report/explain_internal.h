/* How the explain_*.c files fill an explanation. Functions never fail by themselves: running out of memory shows in explanation.failed. */
#ifndef MEMWALL_REPORT_EXPLAIN_INTERNAL_H
#define MEMWALL_REPORT_EXPLAIN_INTERNAL_H

#include "sim/model/layer.h"
#include "sim/plan/order.h"
#include "sim/plan/plan_layers.h"
#include "sim/report/explain.h"

/* Source of the constants of products where the machine file gives none (kernel_cost_is_plain). */
#define EXPLAIN_PLAIN_PRODUCTS                                                                                         \
    "estimated: the file gives none, so the middle of A100's, H100's and B200's (sim/engine/kernel_cost.c)"

/* One of the different splits of layers in the plan, for layers of one variant (sim/model/variant.h), and the graphs of the kinds that have it. */
struct explain_split {
    struct plan_layer split;
    uint32_t variant;
    bool built[LAYER_KIND_COUNT];
    struct layer_graph graphs[LAYER_KIND_COUNT];
};

struct explainer {
    struct explanation *to;
    const struct explain_input *from;
    const struct pipeline_order *order;
    struct order_request order_request;
    struct layer_graph
        graphs[LAYER_KIND_COUNT]; /* on one device, as lowered: the embedding, the first layer, the head */
    struct explain_split *splits;
    uint32_t split_count, *split_at; /* by position in the model: embedding, layers, head */
    bool mixed; /* layers are split differently or have several shapes: graphs are not all there is */
};

/* A new section; terms and tables that follow belong to it. */
void explain_section(struct explainer *e, const char *id, const char *title, const char *note);
/* A number with its unit, formula, numbers put in, source; each of the last four may be NULL. */
void explain_value(struct explainer *e, const char *name, double value, const char *unit, const char *formula,
                   const char *numbers, const char *source);
void explain_word(struct explainer *e, const char *name, const char *text, const char *source);
/* A new table with the column names in `columns`, NULL-terminated; cells follow row after row. */
void explain_table(struct explainer *e, const char *title, const char *const *columns);
void explain_cell_number(struct explainer *e, double value);
void explain_cell_text(struct explainer *e, const char *text);
/* printf into the explanation; never NULL. */
const char *explain_text(struct explainer *e, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* explain_layers.c; position: as in sim/plan/plan_layers.h */
enum status explain_build_graphs(struct explainer *e, struct error *error);
const struct layer_graph *explain_graph(const struct explainer *e, int64_t position);
const struct plan_layer *explain_split_at(const struct explainer *e, int64_t position);
void explain_splits(struct explainer *e); /* a table, where layers are split differently or have several shapes */
/* explain_memory.c */
void explain_model(struct explainer *e);
void explain_plan(struct explainer *e);
void explain_states(struct explainer *e);
void explain_activations(struct explainer *e);
void explain_memory(struct explainer *e);
/* explain_offload.c */
void explain_policy(struct explainer *e);
/* No section where nothing of the optimizer runs on the host. */
void explain_host_optimizer(struct explainer *e);
/* Into the section of memory; nothing where a server has one socket or holds nothing. */
void explain_host_sockets(struct explainer *e);
/* A table of a plug-in's parameters; none where it has none. */
void explain_parameters(struct explainer *e, const char *title, const struct parameter *table, uint32_t count,
                        const struct parameter_values *values);
/* explain_moves.c; no section where nothing moves */
void explain_moves(struct explainer *e);
/* explain_time.c */
void explain_flops(struct explainer *e);
void explain_kernels(struct explainer *e);
void explain_collectives(struct explainer *e);
void explain_host(struct explainer *e);
/* explain_step.c */
void explain_pipeline(struct explainer *e);
void explain_step(struct explainer *e);
/* explain_sources.c */
void explain_machine(struct explainer *e);
void explain_software(struct explainer *e);

#endif
