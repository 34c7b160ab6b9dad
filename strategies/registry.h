/* The one explicit list of plug-ins: pipeline orders, memory policies (planners have theirs on a higher floor).
 *
 * The lists are built in; only what a shared object brings (strategies/plugin/plugin_add.h) is added to them, at start-up, before a second thread runs. */
#ifndef MEMWALL_STRATEGIES_REGISTRY_H
#define MEMWALL_STRATEGIES_REGISTRY_H

#include "sim/plan/order.h"
#include "sim/plan/policy.h"

enum { REGISTRY_ADDED_MAX = 32 };

const struct pipeline_order *const *registry_orders(uint32_t *count);
const struct memory_policy *const *registry_policies(uint32_t *count);
/* NULL when unknown; the error names the nearest and lists all. */
const struct pipeline_order *registry_order(const char *name, struct error *error);
const struct memory_policy *registry_policy(const char *name, struct error *error);

/* Whether so many more can be added; adding one that was checked. */
bool registry_has_room(uint32_t more_orders, uint32_t more_policies);
void registry_add_order(const struct pipeline_order *order);
void registry_add_policy(const struct memory_policy *policy);

#endif
