/* The simulator as an oracle for planners: what does this plan cost under this scenario?
 *
 * A plan is simulated with memory to spare, so one simulation serves every budget: it fits a budget when its peak does. (A step of a policy that can wait for memory may fit in less:
 * `memwall run --plan` tells.) Results are remembered by the plan's hash; many plans are simulated in parallel, and the results are the same whatever the number of threads.
 *
 *     TRY(oracle_open(&oracle, &scenario, threads, error));
 *     TRY(oracle_ask(oracle, plans, count, results, listen, context, error));
 *     oracle_close(oracle); */
#ifndef MEMWALL_STRATEGIES_PLANNERS_ORACLE_H
#define MEMWALL_STRATEGIES_PLANNERS_ORACLE_H

#include <stdbool.h>
#include <stdint.h>

#include "sim/plan/scenario.h"

struct oracle;
struct timeline_watch;
struct schedule;
struct timeline;

enum oracle_verdict {
    ORACLE_UNKNOWN, /* the search was stopped before its turn */
    ORACLE_RAN,
    ORACLE_REFUSED /* the lowering or a policy refuses the plan: `reason` */
};

enum { ORACLE_REASON_BYTES = 256 };

struct oracle_result {
    enum oracle_verdict verdict;
    double step_time_s, samples_per_s;
    uint64_t peak_bytes;          /* live, of the fullest device */
    uint64_t peak_reserved_bytes; /* by the allocator model, of the same device */
    uint64_t capacity_bytes;      /* of that device */
    bool host_fits;               /* host memory and storage hold what the plan puts there */
    struct hash schedule_hash;
    char reason[ORACLE_REASON_BYTES];
};

/* The scenario must outlive the oracle and stay as it is. Plans are simulated on its cluster and software, each at its own detail. */
enum status oracle_open(struct oracle **oracle, const struct scenario *scenario, uint32_t threads, struct error *error);
void oracle_close(struct oracle *oracle);

/* Fills results[i] for plans[i]; each distinct plan is simulated once in the oracle's life. `listen` (may be NULL) is called from the calling thread with how many are done; false: stop,
 * what has not run stays ORACLE_UNKNOWN. Errors: memory, faults of the simulator; what is wrong with a plan is a result. */
enum status oracle_ask(struct oracle *oracle, const struct plan *const *plans, uint32_t count,
                       struct oracle_result *results, bool (*listen)(void *context, uint32_t done, uint32_t total),
                       void *context, struct error *error);

/* One plan, checked, lowered and run with memory to spare, for who wants more than figures. `software`: the scenario's, or a variation. `watch` may end it (sim/ir/timeline.h), NULL: nobody does. The caller frees schedule and timeline, also after an error; both come zeroed. */
enum status oracle_simulate(const struct scenario *scenario, const struct software *software, const struct plan *plan,
                            const struct timeline_watch *watch, struct schedule *schedule, struct timeline *timeline,
                            struct error *error);
/* Its figures; `result` comes zeroed. */
void oracle_figures(const struct schedule *schedule, const struct timeline *timeline, struct oracle_result *result);

/* Whether a simulated plan takes no more than `budget_bytes` of any device, and the host holds its part. False of what has not run. */
bool oracle_fits(const struct oracle_result *result, double budget_bytes);

uint64_t oracle_simulations(const struct oracle *oracle); /* so far; answers from memory not counted */

/* count calls of work(context, index) on `threads` threads. The calling thread runs idle(context) between looks, about ten times a second; false: no further indices are begun. Returns
 * how many were begun: 0 .. begun - 1. Order of calls is by index, order of ends is not: work must write only to what belongs to its index. */
uint32_t oracle_parallel(uint32_t threads, uint32_t count, void (*work)(void *context, uint32_t index), void *context,
                         bool (*idle)(void *context, uint32_t done, uint32_t total), void *idle_context);

#endif
