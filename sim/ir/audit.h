/* timeline_audit: run after every simulation. Independent of the engine: it sees only schedule and timeline.
 *
 * No op before its cause (queue order, dependencies, matches, issue order); matched ops run together; no space above its capacity at any instant and peaks equal to the
 * recorded ones; memory returns to its start; no resource above its capacity at any instant and amounts moved equal amounts asked (`uses` per op given by the caller's cost table; NULL skips it). STATUS_BAD_TIMELINE names
 * what is wrong. */
#ifndef MEMWALL_IR_AUDIT_H
#define MEMWALL_IR_AUDIT_H

#include "sim/ir/timeline.h"

/* What an op asks of resources in all, for the resource part of the audit: filled by the executor's owner. */
struct audit_resources {
    const double *capacity; /* [resource_count] */
    const double
        *asked; /* [resource_count]: the sum over ops of amounts; must equal timeline amounts within 1e-6 relative */
    uint32_t resource_count;
};

/* `hash`: schedule_hash(schedule), which the caller has at hand; the timeline must carry it. */
enum status timeline_audit(const struct schedule *schedule, struct hash hash, const struct timeline *timeline,
                           const struct audit_resources *resources, struct error *error);

#endif
