/* Planner: searches for a plan; may run the simulator as an oracle (the third kind of strategy, beside pipeline orders and memory policies).
 *
 * One interface for all of them. A request is a scenario (what it says of the split is the starting point, not the answer), budgets of device memory, and the planner's own parameters.
 * The answer holds a result for each budget: the best plan found, what it costs, why it and not the next one, and what else was near. Everything lives in the answer's arena.
 *
 *     const struct planner *planner = planner_find("exhaustive", &error);
 *     const struct planner_request request = { .scenario = &scenario, .budgets_bytes = &budget, .budget_count = 1, .threads = 2, ... };
 *     TRY(planner_search(planner, &request, &answer, &error));
 *     ... answer.results[0].best.plan ...
 *     planner_answer_free(&answer);
 *
 * That no plan fits is a result (found false, smallest_budget_bytes says what would do), not an error. Answers are the same whatever the number of threads.
 *
 * What `search` finds and must leave: the answer comes zeroed, with results[budget_count] made and their budget_bytes set. For each result it sets found and, if so, best; `cost_model`; and the counts
 * of configurations. A plan whose degrees it changes needs micro_batches = global_batch / (data * micro_batch) and, with another pipeline, stage_layers anew; plan_check tells whether it may be
 * asked of the oracle. planner_copy_plan, planner_label_layers, planner_balance and planner_reason below are the kit, TRY and CHECK are of sim/base/check.h (a plug-in includes it beside memwall.h).
 * strategies/planners/max_batch.c is a small one that simulates.
 *
 * To add one: a file with a `const struct planner`, its name in planners.h and in registry.c of this folder, a test. */
#ifndef MEMWALL_STRATEGIES_PLANNERS_PLANNER_H
#define MEMWALL_STRATEGIES_PLANNERS_PLANNER_H

#include <stdbool.h>
#include <stdint.h>

#include "sim/base/arena.h"
#include "sim/plan/parameter.h"
#include "sim/plan/scenario.h"
#include "strategies/planners/oracle.h"

enum { PLANNER_ABI = 1, PLANNER_BUDGETS_MAX = 64, PLANNER_TOP_MAX = 1000, PLANNER_PROFILES_MAX = 16 };

/* A search under way. */
struct planner_progress {
    const char *doing;         /* "screening", "simulating" */
    uint64_t done, total;      /* total 0: not known */
    double best_samples_per_s; /* so far; 0: none */
    double share;              /* of an estimate of the work, 0 .. 1; 0: none but done / total */
};
/* How far it is, 0 .. 1; 0: not known. */
double planner_progress_share(const struct planner_progress *progress);

/* Everything is borrowed for the call. */
struct planner_request {
    const struct scenario *scenario;
    const double *budgets_bytes;        /* of one device, everything included (context, communicators); rising or not */
    uint32_t budget_count;              /* 1 .. PLANNER_BUDGETS_MAX */
    struct parameter_values parameters; /* of the planner's table */
    const char *const *profiles;        /* [profile_count] files of measured profiles, for planners that take some */
    uint32_t profile_count;             /* 0 .. PLANNER_PROFILES_MAX */
    uint32_t threads;                   /* >= 1 */
    uint32_t top;                       /* runners-up wanted, 0 .. PLANNER_TOP_MAX */
    /* Called now and then from the calling thread, with best_samples_per_s as far as it is known; false: stop, the answer is the best so far. NULL: nobody listens. */
    bool (*progress)(void *context, const struct planner_progress *progress);
    void *progress_context;
};

/* A pipeline stage of a plan. */
struct planner_stage {
    int64_t layers;
    double time_s;         /* of one micro-batch, forward and backward, by the cost model */
    double memory_bytes;   /* at its peak, by the cost model */
    double leftover_bytes; /* of the budget */
};

/* A plan and what it costs. */
struct planner_choice {
    bool has_plan;
    struct plan plan;
    const char *
        *layers; /* [layer_count]: strategy of each layer as pipeline-tensor-data: "2-1-4f" (galvatron-bmw.md A.4) */
    uint32_t layer_count;
    struct planner_stage *stages;
    uint32_t stage_count;
    int64_t global_batch, pipeline;
    double step_time_s, samples_per_s, peak_bytes; /* by the planner's cost model */
    /* How evenly the stages share time and memory: 1 - max/sum, at best 1 - 1/stages (galvatron-bmw.md B.5). */
    double alpha_t, alpha_m;
    bool is_simulated;
    struct oracle_result simulated;
};

struct planner_result {
    double budget_bytes;
    bool found;
    struct planner_choice best;
    struct planner_choice *runners_up, *front; /* next best; Pareto front of step time against peak memory */
    uint32_t runner_up_count, front_count;
    struct planner_stage *unbalanced; /* the stages before balancing; NULL: nothing was balanced */
    uint32_t unbalanced_count;
    double unbalanced_alpha_t, unbalanced_alpha_m, unbalanced_step_time_s;
    struct oracle_result unbalanced_simulated; /* verdict ORACLE_UNKNOWN: not simulated */
    const char **reasons;                      /* sentences: what bound it, what the next best would have cost */
    uint32_t reason_count;
    double smallest_budget_bytes; /* when not found: what would do; 0: not known */
};

struct planner_answer {
    struct planner_result *results; /* [result_count], in the order of the budgets */
    uint32_t result_count;
    uint64_t configurations; /* in the space */
    uint64_t refused, pruned, outrun, screened,
        simulated; /* of these: not allowed; too big by closed form; too slow to win by a bound; timed by the cost model; simulated */
    const char *cost_model; /* one sentence: where times and bytes of the search come from */
    bool interrupted;
    struct arena arena;
};

struct planner {
    uint32_t abi;
    const char *name, *summary, *paper;
    const struct parameter *parameters;
    uint32_t parameter_count;
    bool takes_profiles;
    /* Allocates in answer->arena. On error planner_search empties the answer. */
    enum status (*search)(const struct planner_request *request, struct planner_answer *answer, struct error *error);
};

/* In the order of `memwall list planners`. */
const struct planner *const *planner_list(uint32_t *count);
/* NULL when unknown; the error names the nearest and lists all. */
const struct planner *planner_find(const char *name, struct error *error);

/* Checks the request, searches. On error the answer is empty. STATUS_BAD_INPUT: a budget beyond the device's memory or below the runtime line, and whatever the planner refuses. */
enum status planner_search(const struct planner *planner, const struct planner_request *request,
                           struct planner_answer *answer, struct error *error);
void planner_answer_free(struct planner_answer *answer);

/* What no plan can do without: context, libraries' workspaces. A budget below it is refused. */
double planner_runtime_bytes(const struct scenario *scenario);
/* So many bytes as GiB to be printed by %.6g: rounded up, so that who asks for what is printed has enough. */
double planner_enough_gib(double bytes);
/* What no plan can do without, and the communicators of a device with neighbours in these directions. */
double planner_device_bytes(const struct scenario *scenario, bool tensor, bool data, bool pipeline);

/* For planners: 1 - max/sum of times and memory of the choice's stages. */
void planner_balance(struct planner_choice *choice);
/* One more reason (printf); grows the list. */
enum status planner_reason(struct planner_answer *answer, struct planner_result *result, struct error *error,
                           const char *format, ...) __attribute__((format(printf, 4, 5)));
/* The reason of a result without a plan whose search was stopped: that nothing fits is not known then. */
enum status planner_reason_stopped(struct planner_answer *answer, struct planner_result *result, struct error *error);
/* A deep copy of a plan into `arena`. */
enum status planner_copy_plan(struct plan *copy, const struct plan *plan, const struct model *model,
                              struct arena *arena, struct error *error);
/* Layers of virtual stage `index` of `stages` when `layers` do not divide evenly: the remainder goes one each to the last stages but the very last, which has the head (our rule). */
int64_t planner_stage_layers(int64_t layers, int64_t stages, int64_t index);
/* "2-1-4" for every layer of a plan whose degrees are the same everywhere; 'f' for ZeRO-3, '-c' where a layer is recomputed, '-s' where selectively. */
enum status planner_label_layers(struct planner_choice *choice, const struct model *model, struct arena *arena,
                                 struct error *error);

#endif
