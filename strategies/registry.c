/* The plug-ins that are linked in. One line each. */
#include "strategies/registry.h"

#include <string.h>

#include "strategies/orders/orders.h"
#include "strategies/policies/policies.h"

enum { LIST_BYTES = 512 };

static const struct pipeline_order *const ORDERS[] = {
    &order_gpipe,         &order_1f1b,   &order_dapple_pb, &order_interleaved, &order_zb_h1,    &order_zb_h2,
    &order_zb_v,          &order_v_half, &order_v_min,     &order_chimera,     &order_dualpipe, &order_pipedream,
    &order_pipedream_2bw, &order_lsps_a, &order_lsps_b,    &order_lsps_c,
};

static const struct memory_policy *const POLICIES[] = {
    &policy_resident,      &policy_optimizer_on_host, &policy_patrickstar, &policy_zero_offload,
    &policy_zero3_offload, &policy_zero_infinity,     &policy_vdnn,        &policy_superneurons,
    &policy_capuchin,      &policy_swapadvisor,       &policy_dtr,         &policy_mpress,
};

enum {
    ORDER_COUNT = sizeof ORDERS / sizeof ORDERS[0],
    POLICY_COUNT = sizeof POLICIES / sizeof POLICIES[0],
};

const struct pipeline_order *const *registry_orders(uint32_t *count)
{
    *count = ORDER_COUNT;
    return ORDERS;
}

const struct memory_policy *const *registry_policies(uint32_t *count)
{
    *count = POLICY_COUNT;
    return POLICIES;
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
    const char *names[ORDER_COUNT];
    for (uint32_t i = 0; i < ORDER_COUNT; i++) {
        names[i] = ORDERS[i]->name;
    }
    uint32_t index = find("pipeline order", name, names, ORDER_COUNT, error);
    return index == ORDER_COUNT ? NULL : ORDERS[index];
}

const struct memory_policy *registry_policy(const char *name, struct error *error)
{
    const char *names[POLICY_COUNT];
    for (uint32_t i = 0; i < POLICY_COUNT; i++) {
        names[i] = POLICIES[i]->name;
    }
    uint32_t index = find("memory policy", name, names, POLICY_COUNT, error);
    return index == POLICY_COUNT ? NULL : POLICIES[index];
}
