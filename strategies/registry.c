/* The plug-ins that are linked in, one line each, and those that were added at start-up behind them. Zero ends a list. */
#include "strategies/registry.h"

#include <string.h>

#include "sim/base/check.h"
#include "strategies/orders/orders.h"
#include "strategies/policies/policies.h"

enum { LIST_BYTES = 512, REGISTRY_BUILT_IN_MAX = 32 };
#define LENGTH(array) (sizeof(array) / sizeof(array)[0])

static const struct pipeline_order *orders[REGISTRY_BUILT_IN_MAX + REGISTRY_ADDED_MAX + 1] = {
    &order_gpipe,         &order_1f1b,   &order_dapple_pb, &order_interleaved, &order_zb_h1,    &order_zb_h2,
    &order_zb_v,          &order_v_half, &order_v_min,     &order_chimera,     &order_dualpipe, &order_pipedream,
    &order_pipedream_2bw, &order_lsps_a, &order_lsps_b,    &order_lsps_c,
};

static const struct memory_policy *policies[REGISTRY_BUILT_IN_MAX + REGISTRY_ADDED_MAX + 1] = {
    &policy_resident,      &policy_optimizer_on_host, &policy_patrickstar, &policy_zero_offload,
    &policy_zero3_offload, &policy_zero_infinity,     &policy_vdnn,        &policy_superneurons,
    &policy_capuchin,      &policy_swapadvisor,       &policy_dtr,         &policy_mpress,
};

const struct pipeline_order *const *registry_orders(uint32_t *count)
{
    for (*count = 0; orders[*count] != NULL; (*count)++) {
    }
    return orders;
}

const struct memory_policy *const *registry_policies(uint32_t *count)
{
    for (*count = 0; policies[*count] != NULL; (*count)++) {
    }
    return policies;
}

bool registry_has_room(uint32_t more_orders, uint32_t more_policies)
{
    uint32_t order_count, policy_count;
    (void)registry_orders(&order_count);
    (void)registry_policies(&policy_count);
    return more_orders <= REGISTRY_ADDED_MAX && order_count + more_orders < LENGTH(orders) &&
           more_policies <= REGISTRY_ADDED_MAX && policy_count + more_policies < LENGTH(policies);
}

void registry_add_order(const struct pipeline_order *order)
{
    uint32_t count;
    (void)registry_orders(&count);
    CHECK(count + 1 < LENGTH(orders));
    orders[count] = order;
}

void registry_add_policy(const struct memory_policy *policy)
{
    uint32_t count;
    (void)registry_policies(&count);
    CHECK(count + 1 < LENGTH(policies));
    policies[count] = policy;
}

/* The index of `name`, or `count` with an error that names the nearest and lists all. */
static uint32_t find(const char *what, const char *name, const char *const *names, uint32_t count, struct error *error)
{
    char list[LIST_BYTES] = "";
    for (uint32_t i = 0; i < count; i++) {
        if (strcmp(names[i], name) == 0) {
            return i;
        }
        strncat(list, i == 0 ? "" : ", ", sizeof list - strlen(list) - 1);
        strncat(list, names[i], sizeof list - strlen(list) - 1);
    }
    const char *nearest = nearest_word(name, names, count);
    if (nearest != NULL) {
        error_set(error, STATUS_NOT_FOUND, "unknown %s \"%.64s\": did you mean \"%s\"? Known: %s", what, name, nearest,
                  list);
    } else {
        error_set(error, STATUS_NOT_FOUND, "unknown %s \"%.64s\". Known: %s", what, name, list);
    }
    return count;
}

const struct pipeline_order *registry_order(const char *name, struct error *error)
{
    const char *names[LENGTH(orders)];
    uint32_t count;
    (void)registry_orders(&count);
    for (uint32_t i = 0; i < count; i++) {
        names[i] = orders[i]->name;
    }
    uint32_t index = find("pipeline order", name, names, count, error);
    return index == count ? NULL : orders[index];
}

const struct memory_policy *registry_policy(const char *name, struct error *error)
{
    const char *names[LENGTH(policies)];
    uint32_t count;
    (void)registry_policies(&count);
    for (uint32_t i = 0; i < count; i++) {
        names[i] = policies[i]->name;
    }
    uint32_t index = find("memory policy", name, names, count, error);
    if (index == count && strcmp(name, "checkmate") == 0) { /* looked for beside the other rules of its kind */
        (void)error_set(error, STATUS_NOT_FOUND,
                        "memory policy \"checkmate\": its choice of what to recompute is made before the step: let "
                        "`memwall plan SCENARIO --planner checkmate --out plan.json` make it, then `memwall run "
                        "SCENARIO --plan plan.json`");
    }
    return index == count ? NULL : policies[index];
}
