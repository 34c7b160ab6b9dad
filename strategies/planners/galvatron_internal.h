/* Between the files of the Galvatron search: one (batch, pipeline degree, micro-batch count) with its tables, and how a partition of it is costed. Not for others. */
#ifndef MEMWALL_STRATEGIES_PLANNERS_GALVATRON_INTERNAL_H
#define MEMWALL_STRATEGIES_PLANNERS_GALVATRON_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>

#include "strategies/planners/galvatron_dp.h"
#include "strategies/planners/galvatron_search.h"

/* A stage that was solved. */
struct galvatron_solved {
    uint32_t first, count;
    double live_share;
    int64_t budget_mib;
    double search_s, compute_s, full_s; /* without other_s; search_s INFINITY: doesn't fit */
    int64_t left_mib, memory_mib;       /* memory of the layers */
    uint8_t *choice;                    /* [count], in the case's arena */
    struct galvatron_solved *next;
};

struct galvatron_case {
    const struct galvatron_source *source;
    struct galvatron_setting setting;
    struct galvatron_strategy strategies[GALVATRON_STRATEGIES_MAX];
    uint32_t strategy_count;
    struct galvatron_layer_cost *costs;   /* [kind][strategy] */
    double *search_s, *change_search_s;   /* [kind][strategy], [kind][from][to] */
    double *change_micro_s;               /* [kind][from][to] */
    double *stage_other_mib, *stage_live; /* [pipeline] */
    int64_t budget_mib;
    struct galvatron_solved *solved;
    uint64_t searches;
    struct arena arena; /* owns everything above */
};

/* A costed partition; arrays are the caller's, [pipeline] and [layers]. */
struct galvatron_trial {
    uint32_t *partition;
    struct galvatron_stage *stages;
    uint8_t *choice;
    bool fits;
    double step_s;
};

/* Tables of the case; `setting` and `strategies` are filled. */
enum status galvatron_case_init(struct galvatron_case *c, const struct galvatron_source *source, int64_t budget_mib,
                                struct error *error);
void galvatron_case_free(struct galvatron_case *c);
/* No partition has a step time below this; INFINITY when none fits (galvatron_bound.c). */
double galvatron_case_bound_s(const struct galvatron_case *c);
/* Every stage of `partition` fits with its least memory. */
bool galvatron_case_fits(const struct galvatron_case *c, const uint32_t *partition);
/* Least budget, MiB, under which `partition` fits. */
double galvatron_case_needs_mib(const struct galvatron_case *c, const uint32_t *partition);
/* Memory of a layer, MiB, under strategy `s` in a stage whose live share is `live`: whole MiB. */
uint32_t galvatron_layer_mib(const struct galvatron_layer_cost *cost, double live);
/* Solves every stage of trial->partition and costs the whole. */
enum status galvatron_case_try(struct galvatron_case *c, struct galvatron_trial *trial, struct error *error);
enum status galvatron_trial_init(const struct galvatron_case *c, struct galvatron_trial *trial, struct arena *arena,
                                 struct error *error);
void galvatron_trial_copy(const struct galvatron_case *c, struct galvatron_trial *to,
                          const struct galvatron_trial *from);

/* The rules of B.6 into partition[pipeline]. False: a stage would be empty. */
bool galvatron_partition_even(const struct galvatron_case *c, uint32_t *partition);
bool galvatron_partition_v1(const struct galvatron_case *c, uint32_t *partition);
bool galvatron_partition_g2(const struct galvatron_case *c, uint32_t *partition);
/* The anchors of B.5: the contiguous partition whose largest stage weight is least. Weights are of the reference strategy (the first of the degree): its memory in that stage (live share and `other` included), or its compute time. */
enum galvatron_weight { GALVATRON_WEIGHT_MEMORY, GALVATRON_WEIGHT_TIME };
enum status galvatron_partition_balanced(const struct galvatron_case *c, enum galvatron_weight weight,
                                         uint32_t *partition, struct error *error);
/* Largest stage memory of the reference strategy, MiB. */
double galvatron_reference_mib(const struct galvatron_case *c, const uint32_t *partition);
/* The bi-objective search (galvatron_balance.c): best trial, and the memory-balanced anchor's. */
enum status galvatron_balance(struct galvatron_case *c, struct galvatron_trial *best, struct galvatron_trial *anchor,
                              struct error *error);

/* ---- variants (galvatron_variants.c) ---- */

enum { GALVATRON_SEARCHES_MAX = (GALVATRON_SPACE_COUNT + 1) * GALVATRON_VARIANT_COUNT };
struct galvatron_variant_search {
    struct galvatron_request rules;
    char name[GALVATRON_NAME_BYTES];
};
/* The searches of a request in their order: all that galvatron-bmw must not be worse than, every variant in every space (a space may do better than the full one that holds it: what is no layer, the embedding, is charged as the first strategy of the space splits it), and last its own. Fills
 * list[GALVATRON_SEARCHES_MAX], returns how many. */
uint32_t galvatron_list_variants(const struct galvatron_request *request, struct galvatron_variant_search *list);

/* ---- how much there is to do (galvatron_work.c) ---- */

/* Of one case, in comparisons of two strategies: their number squared, once for each stage where boundaries are moved. */
double galvatron_case_work(const struct galvatron_request *rules, uint32_t pipeline);
/* The least number of micro-batches that is tried, and whether a batch is split into so many (GALVATRON_MICRO_DIVISORS, GALVATRON_MICRO_ALL). */
uint32_t galvatron_micro_first(const struct galvatron_request *rules, uint32_t pipeline);
bool galvatron_micro_is_tried(const struct galvatron_request *rules, uint32_t batch, uint32_t pipeline,
                              uint32_t micro_batches);
/* Of all batches and degrees, as if every batch fitted; 0: not known (no largest batch, or too many to count). */
double galvatron_variant_work(const struct galvatron_request *rules);

#endif
