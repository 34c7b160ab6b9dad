/* Links by kind. */
#include "sim/report/link_kind.h"

#include <stdbool.h>
#include <string.h>

#include "hw_models/machine.h"

#define NO_PART UINT32_MAX

/* The part that `length` characters name, or NO_PART. */
static uint32_t part_named(const struct machine *machine, const char *id, size_t length)
{
    for (uint32_t i = 0; i < machine->part_count; i++) {
        if (strlen(machine->parts[i].id) == length && strncmp(machine->parts[i].id, id, length) == 0) {
            return i;
        }
    }
    return NO_PART;
}

static bool joins(const struct machine *machine, const struct machine_link *link, uint32_t a, uint32_t b)
{
    if (b == NO_PART) { /* a GPU's port into the fabric: any of its links to an NVSwitch */
        return (link->a == a && machine->parts[link->b].kind == PART_NVSWITCH) ||
               (link->b == a && machine->parts[link->a].kind == PART_NVSWITCH);
    }
    return (link->a == a && link->b == b) || (link->a == b && link->b == a);
}

/* The cluster names a direction of a link "a>b", of a port "gpu0>fabric" or "fabric>gpu0". */
const char *link_kind_word(const struct cluster *cluster, uint32_t resource)
{
    const struct resource *r = &cluster->resources[resource];
    const struct machine *machine = cluster->machine;
    if (r->kind == RESOURCE_NIC) {
        return machine_link_word(LINK_NETWORK);
    }
    if (r->kind == RESOURCE_DRAM) {
        return "dram";
    }
    if (r->kind == RESOURCE_DRIVE) {
        return "storage";
    }
    const char *to = strchr(r->name, '>');
    if ((r->kind != RESOURCE_LINK && r->kind != RESOURCE_FABRIC) || to == NULL) {
        return "other";
    }
    uint32_t a = part_named(machine, r->name, (size_t)(to - r->name)), b = part_named(machine, to + 1, strlen(to + 1));
    if (r->kind == RESOURCE_FABRIC) {
        a = a == NO_PART ? b : a;
        b = NO_PART;
    }
    for (uint32_t i = 0; i < machine->link_count && a != NO_PART; i++) {
        if (joins(machine, &machine->links[i], a, b)) {
            return machine_link_word(machine->links[i].kind);
        }
    }
    return "other";
}
