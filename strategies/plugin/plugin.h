/* Strategies in a shared object of one's own: `memwall COMMAND --plugin my.so` adds its pipeline orders, memory policies and planners to those that are built in.
 *
 * The whole of such a file (build/memwall need not be built again; strategies/plugin/example.c is a complete one):
 *
 *     #include <memwall.h>
 *     static const struct memory_policy mine = { .abi = MEMORY_POLICY_ABI, .name = "mine", .summary = "...", ... };
 *     static const struct memory_policy *const policies[] = { &mine };
 *     const struct memwall_plugin memwall_plugin = { .abi = MEMWALL_PLUGIN_ABI, .headers = MEMWALL_HEADERS, .policies = policies, .policy_count = 1 };
 *
 *     cc -std=c17 -shared -fPIC $(pkg-config --cflags memwall) my.c -o my.so
 *     memwall run S.json --plugin ./my.so --set memory_policy=mine
 *
 * <memwall.h> and memwall.pc come with `cmake --install build --prefix DIR`. What a plug-in calls is in the program: it links against nothing. strategies/plugin/exports.list (installed, with
 * example.c, under share/memwall/plugin) says which functions those are: the kits of sim/plan/lower.h, strategies/policies/activation_kit.h (include it behind <memwall.h>), sim/plan/order.h and strategies/planners/planner.h, and what they hand out. */
#ifndef MEMWALL_STRATEGIES_PLUGIN_H
#define MEMWALL_STRATEGIES_PLUGIN_H

#include "sim/plan/order.h"
#include "sim/plan/policy.h"
#include "strategies/planners/planner.h"

enum { MEMWALL_PLUGIN_ABI = 1 };
/* The symbol that a shared object exports: a `const struct memwall_plugin`. */
#define MEMWALL_PLUGIN_SYMBOL "memwall_plugin"

/* Everything lives as long as the program: the shared object stays loaded. */
struct memwall_plugin {
    uint32_t abi;        /* MEMWALL_PLUGIN_ABI */
    const char *headers; /* MEMWALL_HEADERS: which state of the headers it was compiled with */
    const struct pipeline_order *const *orders;
    uint32_t order_count;
    const struct memory_policy *const *policies;
    uint32_t policy_count;
    const struct planner *const *planners;
    uint32_t planner_count;
};

#endif
