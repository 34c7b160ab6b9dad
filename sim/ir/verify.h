/* sched_verify: run before every execution, in every build. Linear in the schedule.
 *
 * Checks: indices in range; opcode, queue class, work kind and match agree; queue order, dependencies and matches acyclic together (else the cycle is
 * printed by names); each buffer acquired before use, released once, live flags honest, no use after release (along the partial order of queues, dependencies
 * and matches); sends meet receives of equal size; every member of a group meets its collectives in one order; groups hold their ranks' devices, instances are disjoint; capacities hold the buffers that are live at start.
 * STATUS_BAD_SCHEDULE names op, buffer and rule. STATUS_DOES_NOT_FIT: all is right but a capacity is below what is live at start (an outcome for the caller to report).
 * STATUS_LIMIT: an order between two ops of a rank holds only by way of so many ops of other ranks that finding it would not be linear; a dependency helps. */
#ifndef MEMWALL_IR_VERIFY_H
#define MEMWALL_IR_VERIFY_H

#include "sim/ir/schedule.h"

enum status sched_verify(const struct schedule *schedule, struct error *error);

#endif
