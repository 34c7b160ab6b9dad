/* Explaining the memory policy: its parameters, what it copies between device and host, and Adam on the host's cores. */
#include <math.h>
#include <stdio.h>

#include "sim/base/units.h"
#include "sim/engine/cost_table.h"
#include "sim/report/explain_internal.h"
#include "strategies/registry.h"

static const char *value_text(struct explainer *e, const struct parameter *parameter, double value)
{
    switch (parameter->type) {
    case PARAMETER_BOOL: return value > 0.5 ? "true" : "false";
    case PARAMETER_WORD: return parameter->words[(size_t)value];
    case PARAMETER_INT: return explain_text(e, "%.0f", value);
    case PARAMETER_REAL: break;
    }
    return explain_text(e, "%.6g", value);
}

void explain_parameters(struct explainer *e, const char *title, const struct parameter *table, uint32_t count,
                        const struct parameter_values *values)
{
    static const char *const columns[] = { "parameter", "value", "default", "what it is", NULL };
    struct parameter_values defaults;
    if (count == 0) {
        return;
    }
    parameters_defaults(table, count, &defaults);
    explain_table(e, title, columns);
    for (uint32_t i = 0; i < count; i++) {
        explain_cell_text(e, table[i].name);
        explain_cell_text(e, value_text(e, &table[i], values->value[i]));
        explain_cell_text(e, value_text(e, &table[i], defaults.value[i]));
        explain_cell_text(e, table[i].help);
    }
}

/* ---- copies ---- */

struct copy_sum {
    double count, bytes, alone_s;
};

static struct copy_sum copies_of(const struct explainer *e, const struct sched_rank *rank, enum opcode opcode,
                                 bool pageable)
{
    const struct schedule *s = e->from->input->schedule;
    struct copy_sum sum = { 0 };
    for (uint32_t i = rank->first_op; i < rank->first_op + rank->op_count; i++) {
        const struct sched_op *op = &s->ops[i];
        if (op->opcode == opcode && (s->works[op->work].pageable != 0) == pageable) {
            sum.count++;
            sum.bytes += s->works[op->work].bytes;
            sum.alone_s += s_from_ps(e->from->input->timeline->ops[i].alone_ps);
        }
    }
    return sum;
}

static uint32_t node_of(const struct cluster *cluster, uint32_t gpu)
{
    return gpu / cluster->gpus_per_node;
}

/* The rate of the route, and its resources by name, those of the device's own memory left out. */
static const char *route_text(struct explainer *e, uint32_t gpu, bool to_device, bool pageable, double *bytes_per_s)
{
    const struct cluster *cluster = e->from->input->cluster;
    struct endpoint device = { ENDPOINT_GPU, gpu };
    struct endpoint host = cluster_gpu_host(cluster, gpu);
    struct route route;
    if (cluster_route(cluster, to_device ? host : device, to_device ? device : host, pageable, &route, NULL) !=
        STATUS_OK) {
        *bytes_per_s = 0;
        return "-";
    }
    *bytes_per_s = route.rate_cap_bytes_per_s;
    const char *text = "";
    for (uint32_t i = 0; i < route.use_count; i++) {
        char name[96];
        if (route.uses[i].resource != cluster_hbm(cluster, gpu)) {
            cluster_resource_name(cluster, route.uses[i].resource, name, sizeof name);
            text = explain_text(e, "%s%s%s", text, text[0] != '\0' ? ", " : "", name);
        }
    }
    return text;
}

static void copies_table(struct explainer *e)
{
    const struct schedule *s = e->from->input->schedule;
    static const char *const columns[] = { "rank",       "what",  "host side", "times a step", "bytes", "alone s",
                                           "GB/s alone", "route", NULL };
    bool open = false;
    for (uint32_t k = 0; k < 4 * s->rank_count; k++) {
        const struct sched_rank *rank = &s->ranks[k / 4];
        enum opcode opcode = (k & 2) != 0 ? OP_COPY_H2D : OP_COPY_D2H;
        bool pageable = (k & 1) != 0;
        struct copy_sum sum = copies_of(e, rank, opcode, pageable);
        if (sum.count < 1) {
            continue;
        }
        if (!open) {
            explain_table(e, "Copies between a device and its host, of one device", columns);
            open = true;
        }
        double bytes_per_s;
        const char *route =
            route_text(e, s->devices[rank->first_device], opcode == OP_COPY_H2D, pageable, &bytes_per_s);
        explain_cell_text(e, sched_label(s, rank->label));
        explain_cell_text(e, opcode == OP_COPY_H2D ? "host to device" : "device to host");
        explain_cell_text(e, pageable ? "pageable" : "pinned");
        explain_cell_number(e, sum.count);
        explain_cell_number(e, sum.bytes);
        explain_cell_number(e, sum.alone_s);
        explain_cell_number(e, bytes_per_s / 1e9);
        explain_cell_text(e, route);
    }
    if (!open) {
        explain_word(e, "copies between device and host", "none", NULL);
    }
}

/* Between host memory and drives. */
static void drives_table(struct explainer *e)
{
    const struct schedule *s = e->from->input->schedule;
    static const char *const columns[] = { "rank", "what", "times a step", "bytes", "alone s", "GB/s alone", NULL };
    bool open = false;
    for (uint32_t k = 0; k < 2 * s->rank_count; k++) {
        bool write = (k & 1) != 0;
        struct copy_sum sum = copies_of(e, &s->ranks[k / 2], write ? OP_STORAGE_WRITE : OP_STORAGE_READ, false);
        if (sum.count < 1) {
            continue;
        }
        if (!open) {
            explain_table(e, "Transfers between host memory and drives, of one device", columns);
            open = true;
        }
        explain_cell_text(e, sched_label(s, s->ranks[k / 2].label));
        explain_cell_text(e, write ? "host to drives" : "drives to host");
        explain_cell_number(e, sum.count);
        explain_cell_number(e, sum.bytes);
        explain_cell_number(e, sum.alone_s);
        explain_cell_number(e, sum.alone_s > 0 ? sum.bytes / sum.alone_s / 1e9 : 0);
    }
}

static const char *text_or_none(struct explainer *e, const char *text)
{
    return text[0] != '\0' ? explain_text(e, "%s", text) : NULL;
}

/* What the policy told while it was lowered, of the first rank. */
static void facts_of_policy(struct explainer *e)
{
    const struct policy_facts *facts = e->from->facts;
    for (uint32_t i = 0; facts != NULL && i < facts->count; i++) {
        const struct policy_fact *fact = &facts->items[i];
        explain_value(e, explain_text(e, "%s", fact->name), fact->value, text_or_none(e, fact->unit),
                      text_or_none(e, fact->formula), text_or_none(e, fact->numbers), text_or_none(e, fact->source));
    }
}

void explain_policy(struct explainer *e)
{
    const struct plan *plan = &e->from->scenario->plan;
    const struct memory_policy *policy = registry_policy(plan->policy, NULL);
    explain_section(e, "policy", "Memory policy", NULL);
    explain_word(e, "memory policy", plan->policy,
                 policy != NULL && policy->paper != NULL && policy->paper[0] != '\0' ? policy->paper : NULL);
    if (policy == NULL) {
        return;
    }
    explain_word(e, "what it does", policy->summary, NULL);
    explain_parameters(e, "Its parameters", policy->parameters, policy->parameter_count, &plan->policy_parameters);
    facts_of_policy(e);
    copies_table(e);
    drives_table(e);
}

/* ---- host memory by socket ---- */

void explain_host_sockets(struct explainer *e)
{
    static const char *const columns[] = { "server",         "socket",        "GPUs",      "wanted bytes",
                                           "capacity bytes", "spilled bytes", "on socket", NULL };
    const struct result *result = e->from->result;
    uint32_t sockets = e->from->input->cluster->sockets;
    bool open = false;
    for (uint32_t i = 0; i < result->socket_count && sockets > 1; i++) {
        const struct host_socket *socket = &result->sockets[i];
        uint32_t node = i / sockets;
        if (!(socket->wanted_bytes > 0)) {
            continue;
        }
        if (!open) {
            explain_table(e, "What stands in host memory all step long, by the socket of its ranks", columns);
            open = true;
        }
        explain_cell_number(e, node);
        explain_cell_number(e, i % sockets);
        explain_cell_number(e, socket->users);
        explain_cell_number(e, socket->wanted_bytes);
        explain_cell_number(e, socket->capacity_bytes);
        explain_cell_number(e, host_socket_spilled_bytes(socket));
        explain_cell_number(e, socket->other);
    }
}

/* ---- Adam on the host ---- */

struct host_adam {
    double updates, parameters, alone_s, busy_s;
};

static struct host_adam host_adam_of(const struct explainer *e, const struct sched_rank *rank)
{
    const struct schedule *s = e->from->input->schedule;
    struct host_adam sum = { 0 };
    for (uint32_t i = rank->first_op; i < rank->first_op + rank->op_count; i++) {
        const struct sched_op *op = &s->ops[i];
        const struct op_times *t = &e->from->input->timeline->ops[i];
        if (op->opcode == OP_HOST_OPTIMIZER) {
            sum.updates++;
            sum.parameters += s->works[op->work].parameters;
            sum.alone_s += s_from_ps(t->alone_ps);
            sum.busy_s += t->end_ps != TIME_NEVER_PS ? s_from_ps(t->end_ps - t->start_ps) : 0;
        }
    }
    return sum;
}

/* GPUs in use on the socket of `gpu`, and how many of them are this rank's own. */
static void socket_users(const struct explainer *e, const struct sched_rank *rank, uint32_t *users, uint32_t *own)
{
    const struct schedule *s = e->from->input->schedule;
    const struct cluster *cluster = e->from->input->cluster;
    uint32_t gpu = s->devices[rank->first_device];
    *users = *own = 0;
    for (uint32_t i = 0; i < s->device_count; i++) {
        bool here = node_of(cluster, s->devices[i]) == node_of(cluster, gpu) &&
                    cluster_gpu_socket(cluster, s->devices[i]) == cluster_gpu_socket(cluster, gpu);
        *users += here;
        *own += here && i >= rank->first_device && i < rank->first_device + rank->device_count;
    }
}

/* Of times in whole picoseconds, of updates that take a microsecond or more. */
#define ALONE_ROUNDING 1e-6

static void host_adam_row(struct explainer *e, const struct sched_rank *rank, const struct host_adam *sum)
{
    const struct schedule *s = e->from->input->schedule;
    const struct cluster *cluster = e->from->input->cluster;
    uint32_t gpu = s->devices[rank->first_device], node = node_of(cluster, gpu), users, own;
    uint32_t socket = cluster_gpu_socket(cluster, gpu);
    socket_users(e, rank, &users, &own);
    double cores = cluster_core_count(cluster, node, socket) / users;
    cores = cluster->machine->gpu.on_host ? fmax(1, floor(cores)) : cores; /* whole threads */
    double worth = cluster->resources[cluster_cores(cluster, node, socket)].capacity / users;
    double by_cores = fmin(cores, worth) * cluster->machine->cpu_adam_parameters_per_s_core;
    double dram = cluster->resources[cluster_dram(cluster, node, socket)].capacity;
    double by_memory = dram / (HOST_OPTIMIZER_BYTES_PER_PARAMETER * own);
    explain_cell_text(e, sched_label(s, rank->label));
    explain_cell_number(e, sum->updates);
    explain_cell_number(e, sum->parameters);
    explain_cell_number(e, sum->parameters * HOST_OPTIMIZER_BYTES_PER_PARAMETER);
    explain_cell_number(e, cores);
    explain_cell_number(e, by_cores / 1e9);
    explain_cell_number(e, by_memory / 1e9);
    bool by_other_socket = e->from->result->sockets[node * cluster->sockets + socket].spilled_share > 0 &&
                           sum->alone_s * fmin(by_cores, by_memory) > sum->parameters * (1 + ALONE_ROUNDING);
    explain_cell_text(e, by_other_socket ? "other socket" : by_cores < by_memory ? "cores" : "host memory");
    explain_cell_number(e, sum->alone_s);
    explain_cell_number(e, sum->busy_s);
}

void explain_host_optimizer(struct explainer *e)
{
    const struct schedule *s = e->from->input->schedule;
    const struct machine *m = &e->from->scenario->machine;
    static const char *const columns[] = { "rank",          "updates",  "parameters",
                                           "DRAM bytes",    "cores",    "by cores G/s",
                                           "by memory G/s", "bound by", "alone s",
                                           "simulated s",   NULL };
    bool open = false;
    for (uint32_t r = 0; r < s->rank_count; r++) {
        const struct host_adam sum = host_adam_of(e, &s->ranks[r]);
        if (sum.updates < 1) {
            continue;
        }
        if (!open) {
            const struct machine_source *source = machine_source_of(m, "host.adam_Gparameters_per_s_core");
            explain_section(e, "host_optimizer", "Adam on the host",
                            "time = parameters / min(cores of a GPU x rate of a core, DRAM bandwidth / DRAM bytes a "
                            "parameter / GPUs of the rank on the socket). The cores of a socket are shared equally by "
                            "the GPUs in use there. What has spilled onto another socket (section memory) goes across "
                            "the link between them.");
            explain_value(e, "DRAM traffic of a parameter", HOST_OPTIMIZER_BYTES_PER_PARAMETER, "bytes",
                          "7 fp32 numbers: reads parameter, m, v, gradient; writes parameter, m, v", "7 x 4",
                          "the least that fp32 Adam can move (sim/engine/cost_table.h)");
            explain_value(e, "rate of one core", m->cpu_adam_parameters_per_s_core, "parameters/s", NULL,
                          "host.adam_Gparameters_per_s_core", source != NULL ? source->source : NULL);
            explain_table(e, "By rank, of one device and step; rates in 1e9 parameters/s", columns);
            open = true;
        }
        host_adam_row(e, &s->ranks[r], &sum);
    }
}
