/* The memory part of timeline_audit: for sim/ir/audit.c alone.
 *
 * Replays every acquisition and release in time order. Within one instant the executor chose an order that the timeline does not tell, so a recorded peak must lie
 * between the peak of the values after each instant and the peak if each instant's acquisitions all came before its releases; the two agree but for
 * ops that start where others end. */
#ifndef MEMWALL_IR_AUDIT_MEMORY_H
#define MEMWALL_IR_AUDIT_MEMORY_H

#include "sim/ir/timeline.h"

enum status audit_memory(const struct schedule *schedule, const struct timeline *timeline, struct arena *scratch,
                         struct error *error);

#endif
