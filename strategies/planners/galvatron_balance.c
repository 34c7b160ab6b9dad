/* The bi-objective partition search of Galvatron-BMW (facts/galvatron-bmw.md B.5). The paper's exact rule is in no public code; this one is ours:
 *
 *   anchors     p_m, the memory-balanced partition, and p_t, the time-balanced one, both by the reference strategy (galvatron_partition_balanced)
 *   start       p_m; where p_m does not fit, p_t and the even partition are tried too
 *   a move      the slowest stage (largest C, the first of equals) gives its first layer to the stage on its left, or its last one to the stage on its right: two candidates, left first
 *   accepted    the largest C falls strictly, every stage fits, and the largest stage memory by the reference strategy stays within that of p_t
 *   order       first in, first out; no partition twice; at most layers * stages pops
 *
 * The best step time of all that were costed wins, the anchors and the even partition among them. */
#include <math.h>
#include <string.h>

#include "sim/base/check.h"
#include "strategies/planners/galvatron_internal.h"

enum { QUEUE_MAX = 1024 };

struct queue {
    struct arena arena;
    uint32_t *partitions[QUEUE_MAX];
    double slowest_s[QUEUE_MAX];
    uint32_t count, head; /* everything before head was popped; all of it counts as visited */
};

static double slowest_s(const struct galvatron_case *c, const struct galvatron_stage *stages, uint32_t *which)
{
    *which = 0;
    for (uint32_t i = 1; i < c->setting.pipeline; i++) {
        if (stages[i].compute_s > stages[*which].compute_s) {
            *which = i;
        }
    }
    return stages[*which].compute_s;
}

static bool visited(const struct galvatron_case *c, const struct queue *queue, const uint32_t *partition)
{
    for (uint32_t i = 0; i < queue->count; i++) {
        if (memcmp(queue->partitions[i], partition, c->setting.pipeline * sizeof *partition) == 0) {
            return true;
        }
    }
    return queue->count == QUEUE_MAX;
}

static enum status push(const struct galvatron_case *c, struct queue *queue, const struct galvatron_trial *trial,
                        struct error *error)
{
    uint32_t which = 0;
    uint32_t *copy = arena_array(&queue->arena, uint32_t, c->setting.pipeline);
    if (copy == NULL) {
        return error_set(error, STATUS_NO_MEMORY, "no memory for the queue of partitions");
    }
    memcpy(copy, trial->partition, c->setting.pipeline * sizeof *copy);
    queue->partitions[queue->count] = copy;
    queue->slowest_s[queue->count++] = slowest_s(c, trial->stages, &which);
    return STATUS_OK;
}

/* Costs the partition in `trial`, keeps it when best; the queue takes it when it fits. */
static enum status consider(struct galvatron_case *c, struct queue *queue, struct galvatron_trial *trial,
                            struct galvatron_trial *best, double slowest_max_s, struct error *error)
{
    if (visited(c, queue, trial->partition)) {
        return STATUS_OK;
    }
    TRY(galvatron_case_try(c, trial, error));
    if (!trial->fits) {
        return STATUS_OK;
    }
    if (!best->fits || trial->step_s < best->step_s) {
        galvatron_trial_copy(c, best, trial);
    }
    uint32_t which = 0;
    return slowest_s(c, trial->stages, &which) < slowest_max_s ? push(c, queue, trial, error) : STATUS_OK;
}

/* The candidates of the partition at the head of the queue. */
static enum status adjust(struct galvatron_case *c, struct queue *queue, struct galvatron_trial *trial,
                          struct galvatron_trial *best, double most_mib, struct error *error)
{
    uint32_t stages = c->setting.pipeline, which = 0;
    const uint32_t *parent = queue->partitions[queue->head];
    double slowest_max_s = queue->slowest_s[queue->head++];
    memcpy(trial->partition, parent, stages * sizeof *parent);
    TRY(galvatron_case_try(c, trial, error)); /* remembered: which stage is slowest */
    (void)slowest_s(c, trial->stages, &which);
    for (int side = -1; side <= 1; side += 2) {
        if ((side < 0 && which == 0) || (side > 0 && which + 1 == stages) || parent[which] <= 1) {
            continue;
        }
        memcpy(trial->partition, parent, stages * sizeof *parent);
        trial->partition[which]--;
        trial->partition[side < 0 ? which - 1 : which + 1]++;
        if (galvatron_reference_mib(c, trial->partition) <= most_mib) {
            TRY(consider(c, queue, trial, best, slowest_max_s, error));
        }
    }
    return STATUS_OK;
}

enum status galvatron_balance(struct galvatron_case *c, struct galvatron_trial *best, struct galvatron_trial *anchor,
                              struct error *error)
{
    struct queue queue = { 0 };
    struct galvatron_trial trial;
    uint32_t layers = c->source->layer_count, stages = c->setting.pipeline;
    enum status status = STATUS_OK;
    best->fits = anchor->fits = false;
    if (layers < stages) {
        return STATUS_OK;
    }
    TRY_OR_FAIL(galvatron_trial_init(c, &trial, &queue.arena, error));
    TRY_OR_FAIL(galvatron_partition_balanced(c, GALVATRON_WEIGHT_TIME, trial.partition, error));
    double most_mib = galvatron_reference_mib(c, trial.partition);
    TRY_OR_FAIL(galvatron_partition_balanced(c, GALVATRON_WEIGHT_MEMORY, trial.partition, error));
    TRY_OR_FAIL(consider(c, &queue, &trial, best, INFINITY, error));
    memcpy(anchor->partition, trial.partition, stages * sizeof *anchor->partition);
    if (best->fits) {
        galvatron_trial_copy(c, anchor, best);
    }
    for (uint64_t pops = 0; queue.head < queue.count && pops < (uint64_t)layers * stages; pops++) {
        TRY_OR_FAIL(adjust(c, &queue, &trial, best, most_mib, error));
    }
    TRY_OR_FAIL(galvatron_partition_balanced(c, GALVATRON_WEIGHT_TIME, trial.partition, error));
    TRY_OR_FAIL(consider(c, &queue, &trial, best, -INFINITY, error));
    (void)galvatron_partition_even(c, trial.partition);
    TRY_OR_FAIL(consider(c, &queue, &trial, best, -INFINITY, error));
fail:
    arena_free(&queue.arena);
    return status;
}
