#include "strategies/plugin/plugin_add.h"

#include <string.h>

#include "sim/base/check.h"
#include "strategies/planners/planners.h"
#include "strategies/registry.h"

/* What the three kinds have in common. */
struct entry {
    const char *kind;
    uint32_t abi, abi_wanted;
    const char *name, *summary;
    uint32_t parameter_count;
    bool has_parameters, is_known, is_complete;
    const char *needs; /* what is_complete asks for */
};

/* Lower-case words with dashes: what scenarios and lists can show. */
static bool good_name(const char *name)
{
    return name != NULL && name[0] != '\0' && name[0] != '-' && strlen(name) < 64 &&
           strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-") == strlen(name);
}

static enum status check_entry(const struct entry *entry, const char *file, struct error *error)
{
    if (entry->abi != entry->abi_wanted) {
        return error_at(error, STATUS_BAD_INPUT, file, NULL, "a %s of ABI %u; this memwall has %u", entry->kind,
                        entry->abi, entry->abi_wanted);
    }
    if (!good_name(entry->name)) {
        return error_at(error, STATUS_BAD_INPUT, file, NULL,
                        "a %s without a usable name: lower-case letters, digits and dashes, fewer than 64",
                        entry->kind);
    }
    if (entry->summary == NULL || entry->parameter_count > PARAMETERS_MAX ||
        (entry->parameter_count > 0 && !entry->has_parameters)) {
        return error_at(error, STATUS_BAD_INPUT, file, NULL,
                        "the %s \"%s\" needs a summary and a table of at most %d parameters", entry->kind, entry->name,
                        PARAMETERS_MAX);
    }
    if (!entry->is_complete) {
        return error_at(error, STATUS_BAD_INPUT, file, NULL, "the %s \"%s\" lacks %s", entry->kind, entry->name,
                        entry->needs);
    }
    if (entry->is_known) {
        return error_at(error, STATUS_BAD_INPUT, file, NULL, "there is a %s \"%s\" already: choose another name",
                        entry->kind, entry->name);
    }
    return STATUS_OK;
}

static enum status no_entry(const char *kind, uint32_t index, const char *file, struct error *error)
{
    return error_at(error, STATUS_BAD_INPUT, file, NULL, "%s %u of its list is missing", kind, index);
}

static enum status check_order(const struct memwall_plugin *plugin, uint32_t index, const char *file,
                               struct error *error)
{
    const struct pipeline_order *order = plugin->orders != NULL ? plugin->orders[index] : NULL;
    if (order == NULL) {
        return no_entry("pipeline order", index, file, error);
    }
    bool known = order->name != NULL && registry_order(order->name, NULL) != NULL;
    for (uint32_t i = 0; i < index && order->name != NULL; i++) {
        known = known || strcmp(order->name, plugin->orders[i]->name) == 0;
    }
    const struct entry entry = {
        .kind = "pipeline order",
        .abi = order->abi,
        .abi_wanted = PIPELINE_ORDER_ABI,
        .name = order->name,
        .summary = order->summary,
        .parameter_count = order->parameter_count,
        .has_parameters = order->parameters != NULL,
        .is_known = known,
        .is_complete = order->build != NULL,
        .needs = "`build`",
    };
    return check_entry(&entry, file, error);
}

static enum status check_policy(const struct memwall_plugin *plugin, uint32_t index, const char *file,
                                struct error *error)
{
    const struct memory_policy *policy = plugin->policies != NULL ? plugin->policies[index] : NULL;
    if (policy == NULL) {
        return no_entry("memory policy", index, file, error);
    }
    bool known = policy->name != NULL && registry_policy(policy->name, NULL) != NULL;
    for (uint32_t i = 0; i < index && policy->name != NULL; i++) {
        known = known || strcmp(policy->name, plugin->policies[i]->name) == 0;
    }
    const struct entry entry = {
        .kind = "memory policy",
        .abi = policy->abi,
        .abi_wanted = MEMORY_POLICY_ABI,
        .name = policy->name,
        .summary = policy->summary,
        .parameter_count = policy->parameter_count,
        .has_parameters = policy->parameters != NULL,
        .is_known = known,
        .is_complete = !policy->owns_model_data || policy->optimizer != NULL,
        .needs = "`optimizer`, which a policy that owns the model's data must have",
    };
    return check_entry(&entry, file, error);
}

static enum status check_planner(const struct memwall_plugin *plugin, uint32_t index, const char *file,
                                 struct error *error)
{
    const struct planner *planner = plugin->planners != NULL ? plugin->planners[index] : NULL;
    if (planner == NULL) {
        return no_entry("planner", index, file, error);
    }
    bool known = planner->name != NULL && planner_find(planner->name, NULL) != NULL;
    for (uint32_t i = 0; i < index && planner->name != NULL; i++) {
        known = known || strcmp(planner->name, plugin->planners[i]->name) == 0;
    }
    const struct entry entry = {
        .kind = "planner",
        .abi = planner->abi,
        .abi_wanted = PLANNER_ABI,
        .name = planner->name,
        .summary = planner->summary,
        .parameter_count = planner->parameter_count,
        .has_parameters = planner->parameters != NULL,
        .is_known = known,
        .is_complete = planner->search != NULL,
        .needs = "`search`",
    };
    return check_entry(&entry, file, error);
}

static enum status check(const struct memwall_plugin *plugin, const char *file, struct error *error)
{
    if (plugin->abi != MEMWALL_PLUGIN_ABI || plugin->headers == NULL || strcmp(plugin->headers, plugin_headers) != 0) {
        return error_at(error, STATUS_BAD_INPUT, file, NULL,
                        "was compiled with the headers of another memwall (%.40s; this one has %s): install those of "
                        "this one (cmake --install build --prefix DIR) and compile it again with them",
                        plugin->abi == MEMWALL_PLUGIN_ABI && plugin->headers != NULL ? plugin->headers : "unknown",
                        plugin_headers);
    }
    if (plugin->order_count + plugin->policy_count + plugin->planner_count == 0) {
        return error_at(error, STATUS_BAD_INPUT, file, NULL, "has no order, no policy and no planner");
    }
    for (uint32_t i = 0; i < plugin->order_count; i++) {
        TRY(check_order(plugin, i, file, error));
    }
    for (uint32_t i = 0; i < plugin->policy_count; i++) {
        TRY(check_policy(plugin, i, file, error));
    }
    for (uint32_t i = 0; i < plugin->planner_count; i++) {
        TRY(check_planner(plugin, i, file, error));
    }
    return STATUS_OK;
}

enum status plugin_add(const struct memwall_plugin *plugin, const char *file, struct error *error)
{
    TRY(check(plugin, file, error));
    if (!registry_has_room(plugin->order_count, plugin->policy_count) || !planner_has_room(plugin->planner_count)) {
        return error_at(error, STATUS_LIMIT, file, NULL,
                        "too many: plug-ins may add %d orders, %d policies and %d planners", REGISTRY_ADDED_MAX,
                        REGISTRY_ADDED_MAX, PLANNERS_ADDED_MAX);
    }
    for (uint32_t i = 0; i < plugin->order_count; i++) {
        registry_add_order(plugin->orders[i]);
    }
    for (uint32_t i = 0; i < plugin->policy_count; i++) {
        registry_add_policy(plugin->policies[i]);
    }
    for (uint32_t i = 0; i < plugin->planner_count; i++) {
        planner_add(plugin->planners[i]);
    }
    return STATUS_OK;
}
