/* Stages with different numbers of replicas, as the planners of PipeDream and DAPPLE choose them: `parallel.stage_replicas`.
 *
 *     "parallel": { "tensor": 2, "stage_replicas": [4, 2, 1], "pipeline_order": "pipedream" }      14 GPUs
 *
 * A stage of r replicas has r * tensor consecutive GPUs, stage after stage: GPU = (replicas of the stages before + replica) * tensor + t. A step has micro_batches = global_batch / micro_batch of
 * them, each of micro_batch samples, and every one passes every stage. `parallel.replica_sharing` says how the replicas of a stage share them:
 *
 *     deal   whole micro-batches in turns, micro-batch i to replica i mod r (PipeDream's 1F1B-RR, Narayanan et al., SOSP 2019). Every r divides micro_batches. Between stages a whole micro-batch
 *            goes from one GPU to one. Asynchronous orders (their default); gpipe and 1f1b.
 *     cut    each micro-batch in r equal slices of samples (DAPPLE, Fan et al., PPoPP 2021). Every r divides micro_batch. Between stages each GPU sends to those whose samples it has, and only
 *            those. Orders with a flush and one chunk a device (their default).
 *
 * Warm-up is PipeDream's, ceil(replicas behind / own). Where these divide, a chain without updates runs at the pace of its slowest stage over its replicas; else it may be slower, [3, 2, 1] of equal
 * load 5/4 of that. Asynchronous replicas also update together, so each waits for the others' micro-batches of the round: a plan's step may be longer than PipeDream's planner says (tests/t_replicas.c).
 *
 * Gradients of a stage are reduced over its own replicas: dealt and asynchronous at every update (one micro-batch of each replica, a step with pipedream-2bw), else once a step. ZeRO shards over
 * them. A tied embedding, where both ends are apart, sums its gradients over the replicas of both ends; where they update at different rates, whenever both have seen the same micro-batches: our
 * rule. Nothing is folded: every GPU is simulated. */
#ifndef MEMWALL_PLAN_PLAN_REPLICAS_H
#define MEMWALL_PLAN_PLAN_REPLICAS_H

#include "sim/base/json_write.h"
#include "sim/plan/plan.h"

const char *replica_sharing_word(enum replica_sharing sharing);

/* GPUs that the plan takes. Degrees are at most PLAN_DEGREE_MAX. */
int64_t plan_gpus(const struct plan *plan);
/* Data-parallel replicas of a stage: stage_replicas, or data. */
int64_t plan_stage_data(const struct plan *plan, int64_t stage);
/* The stage of a transformer layer where stages have replicas of their own: one chunk a device. */
int64_t plan_stage_of_layer(const struct plan *plan, int64_t layer);

/* "stage_replicas" and "replica_sharing" of the open object `parallel` (its node may be NULL). The order is read; `stage_replicas` stays NULL when the key is absent. */
enum status plan_replicas_read(struct plan *plan, const struct json *parallel, struct arena *arena,
                               struct error *error);
/* Whether order, policy, batch and the other degrees go with them; STATUS_BAD_INPUT names the nearest that would. Asks for no stage_layers. */
enum status plan_replicas_check(const struct plan *plan, struct error *error);
/* Whether they take as many GPUs as there are; path "$.parallel.stage_replicas". */
enum status plan_replicas_check_gpus(const struct plan *plan, int64_t gpus, struct error *error);
/* The least common multiple of numbers of replicas, each at least 1; 0: more than PLAN_DEGREE_MAX. */
int64_t plan_replicas_multiple(const uint32_t *replicas, int64_t count);
void plan_replicas_print(const struct plan *plan, struct json_writer *w);
enum status plan_replicas_copy(struct plan *copy, const struct plan *plan, struct arena *arena, struct error *error);

#endif
