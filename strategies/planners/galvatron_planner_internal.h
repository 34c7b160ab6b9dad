/* Between the galvatron_planner_*.c files: a planner's call, a scenario's profile for the presets, plans from what the search found, the answer. */
#ifndef MEMWALL_STRATEGIES_PLANNERS_GALVATRON_PLANNER_INTERNAL_H
#define MEMWALL_STRATEGIES_PLANNERS_GALVATRON_PLANNER_INTERNAL_H

#include <stdatomic.h>

#include "strategies/planners/galvatron_planner_costs.h"
#include "strategies/planners/galvatron_search.h"
#include "strategies/planners/planner.h"

enum galvatron_planner_preset { PRESET_MEMWALL, PRESET_V1, PRESET_G2, PRESET_HEAD };

/* Searches again with less memory, for a variant and for a budget (galvatron_planner_list.c). */
enum {
    GALVATRON_TIGHTER_MAX = 4,
    GALVATRON_AGAIN_MAX = (GALVATRON_TIGHTER_MAX + 1) * (GALVATRON_SPACE_COUNT + 1) * GALVATRON_VARIANT_COUNT
};

struct galvatron_planning;

/* One budget's search: everything that a thread needs of its own. */
struct galvatron_task {
    struct galvatron_model_profile model;
    struct galvatron_hardware_profile hardware;
    struct galvatron_preset preset;
    struct memwall_source memwall;
    struct galvatron_source source;
    struct galvatron_request request;
    struct galvatron_result result;
    struct galvatron_result again[GALVATRON_AGAIN_MAX];
    uint32_t again_count;
    struct galvatron_planning *planning;
    atomic_uint_least64_t searches; /* how far it is, for the thread that waits: dynamic programmes, ... */
    _Atomic double share, best_samples_per_s;
    struct error error;
};

/* One call of a planner. */
struct galvatron_planning {
    const struct planner_request *request;
    struct planner_answer *answer;
    enum galvatron_variant variant;
    enum galvatron_planner_preset preset;
    const char *preset_name;
    uint32_t simulations_max;     /* of each budget */
    struct galvatron_task *tasks; /* [budget_count] */
    atomic_bool stop;
    /* The answer goes from the smallest budget to the largest, each with the best of the one before: of `carried_bytes`; NULL: none. */
    const struct galvatron_pick *carried;
    double carried_bytes;
};

/* Tells the caller how far it is; false: stop. */
bool galvatron_planner_look(const struct planner_request *request, const struct planner_progress *progress);

/* Fills the answer from the tasks' results. With preset memwall the candidates of all variants and degrees are simulated and the fastest that fits the budget is the best; other presets stand for what
 * the authors' search would say, whose choice is simulated but stays. */
enum status galvatron_planner_answer(struct galvatron_planning *s, struct error *error);

enum { GALVATRON_WHY_BYTES = 256 };

/* One plan of a budget. */
struct galvatron_pick {
    const struct galvatron_candidate *candidate; /* NULL: of a preset, whose choice is not ours */
    const struct galvatron_plan *found;
    double budget_mib; /* that the search had */
    bool is_carried;   /* the best of a smaller budget */
    struct planner_choice choice;
    char why[GALVATRON_WHY_BYTES]; /* there is no plan of ours; "" where there is */
};

struct galvatron_shortlist {
    struct galvatron_pick *entries; /* [count] of at most `most` */
    uint32_t count, most;
    const struct galvatron_pick **order; /* [kept]: best first, each schedule once */
    uint32_t kept;
    double budget_bytes;
};

/* What was found for a task's budget, simulated and in order. */
enum status galvatron_shortlist_make(struct galvatron_planning *s, struct galvatron_task *task, struct oracle *oracle,
                                     struct galvatron_shortlist *list, struct error *error);
enum status galvatron_pick_fill(struct galvatron_planning *s, const struct galvatron_plan *found,
                                struct galvatron_pick *entry, struct error *error);
/* Why the first of the list: result->best. */
enum status galvatron_add_reasons(struct galvatron_planning *s, const struct galvatron_task *task,
                                  struct planner_result *result, const struct galvatron_shortlist *list,
                                  struct error *error);

/* The smallest budget from `from_bytes` up that gives the task, with preset memwall, a plan which fits by simulation; *confirmed false: none was met in a few attempts, and *bytes is where they ended.
 * *below_bytes: the largest budget known to give none, 0: that `from_bytes` is the least of the cost model; afterwards with those that were tried. The true smallest lies between. */
enum status galvatron_smallest_budget(struct galvatron_planning *s, const struct galvatron_task *task,
                                      struct oracle *oracle, double from_bytes, double *bytes, double *below_bytes,
                                      bool *confirmed, struct error *error);

/* What Galvatron's profiler would have measured on the scenario, from its model graph and machine: for the presets v1, g2 and head where no table of the authors exists. Activations are those of the
 * scenario's software, times those of micro-batches of 8, links those of a 64 MiB all-reduce. STATUS_BAD_INPUT: GPUs that are not a power of two. */
enum status galvatron_profile_of_scenario(const struct scenario *scenario, struct galvatron_model_profile *model,
                                          struct galvatron_hardware_profile *hardware, struct error *error);

/* The plan that the lowering takes for what was found; plain data parallelism becomes ZeRO stage `plain_zero`. *possible false: it has something that a plan cannot say, and `why` says what. Arrays in `arena`; passes plan_check. */
enum status galvatron_to_plan(const struct scenario *scenario, const struct galvatron_plan *found, int64_t plain_zero,
                              struct plan *plan, bool *possible, char *why, size_t why_size, struct arena *arena,
                              struct error *error);

#endif
