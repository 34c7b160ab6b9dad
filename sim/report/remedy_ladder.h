/* What may be changed of a scenario that does not fit, each as a ladder of sets from mild to strong. For sim/report/remedy.c alone. */
#ifndef MEMWALL_REPORT_REMEDY_LADDER_H
#define MEMWALL_REPORT_REMEDY_LADDER_H

#include "sim/report/remedy.h"

enum { REMEDY_RUNGS_MAX = 12 };

struct remedy_ladder {
    struct remedy_sets rungs[REMEDY_RUNGS_MAX];
    uint32_t count; /* 0: nothing of the kind can be changed */
    bool uneven;    /* a stronger rung may fail where a milder one does: all are tried */
};

/* The `index`-th setting of the policy that has to do with memory, then the buckets of the software and the ZeRO stage; false: there are no more. Policies without it have an empty ladder. With `lean` only those whose rungs never take more of any
 * memory: they go together. */
bool remedy_ladder_setting(const struct scenario *scenario, uint32_t index, bool lean, struct remedy_ladder *ladder);
/* More recomputation, where all layers are recomputed alike. */
void remedy_ladder_recompute(const struct scenario *scenario, struct remedy_ladder *ladder);
/* Smaller micro-batches: more of them, or, with `fewer_samples`, as many. */
void remedy_ladder_micro_batch(const struct scenario *scenario, bool fewer_samples, struct remedy_ladder *ladder);
/* The policies that keep less on the device and host, each with what it needs of the scenario; at the end of them, all on drives. */
void remedy_ladder_policy(const struct scenario *scenario, struct remedy_ladder *ladder);
/* More replicas, on more GPUs: of the servers in use, then on twice as many servers and so on. */
void remedy_ladder_gpus(const struct scenario *scenario, struct remedy_ladder *ladder);

/* One more set (printf) on the list. */
void remedy_set(struct remedy_sets *sets, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* All of `more` behind those of `sets`. */
void remedy_add(struct remedy_sets *sets, const struct remedy_sets *more);

#endif
