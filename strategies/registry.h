/* The one explicit list of plug-ins: pipeline orders, memory policies (planners have theirs on a higher floor). */
#ifndef MEMWALL_STRATEGIES_REGISTRY_H
#define MEMWALL_STRATEGIES_REGISTRY_H

#include "sim/plan/order.h"
#include "sim/plan/policy.h"

const struct pipeline_order *const *registry_orders(uint32_t *count);
const struct memory_policy *const *registry_policies(uint32_t *count);
/* NULL when unknown; the error names the nearest and lists all. */
const struct pipeline_order *registry_order(const char *name, struct error *error);
const struct memory_policy *registry_policy(const char *name, struct error *error);

#endif
