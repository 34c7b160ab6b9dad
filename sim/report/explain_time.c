/* Explaining seconds: FLOPs, the kernels of a layer, collectives, the host. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "sim/base/units.h"
#include "sim/engine/collective_cost.h"
#include "sim/engine/kernel_cost.h"
#include "sim/model/variant.h"
#include "sim/report/breakdown.h"
#include "sim/report/explain_internal.h"

enum { COLLECTIVE_ROWS_MAX = 64, FOOTPRINT_MAX = 4096 /* resources of one server */ };

/* ---- FLOPs ---- */

void explain_flops(struct explainer *e)
{
    const struct model *m = &e->from->scenario->model;
    const struct plan *p = &e->from->scenario->plan;
    const struct machine_gpu *gpu = &e->from->scenario->machine.gpu;
    const struct layer_graph *g = &e->graphs[LAYER_TRANSFORMER];
    const struct result *r = e->from->result;
    double step = model_step_flops(m, (double)p->global_batch, (double)p->sequence_length);
    explain_section(e, "flops", "FLOPs", "A multiply-add counts two.");
    explain_value(e, "layer forward, one device", g->forward_flops, "FLOPs",
                  "sum of its kernels: see the kernels table", NULL, NULL);
    explain_value(e, "layer backward, one device", g->backward_flops, "FLOPs", "input gradients + weight gradients",
                  NULL, NULL);
    explain_value(
        e, "model FLOPs of a step", step, "FLOPs",
        m->family == MODEL_GPT ? "72 B s l h^2 (1 + s/(6h) + V/(12 l h))" : "three times the forward matrix products",
        explain_text(e, "B %lld, s %lld, l %lld, h %lld, V %lld", (long long)p->global_batch,
                     (long long)p->sequence_length, (long long)m->layers, (long long)m->hidden, (long long)m->vocab),
        "Narayanan et al. 2021 (SC21), eq. 3; Korthikanti et al. 2022, eq. 7");
    if (p->layer_drop > 0) {
        step = e->from->input->schedule->model_flops;
        explain_value(e, "model FLOPs of the layers that ran", step, "FLOPs",
                      "those of a step without the layers that micro-batches skip",
                      explain_text(e, "layer_drop %g, seed %lld", p->layer_drop, (long long)p->layer_drop_seed), NULL);
    }
    if (m->causal && e->from->scenario->software.flash_attention) {
        explain_word(e, "causal attention",
                     "model FLOPs count the whole square of scores, as Megatron does; fused causal kernels execute "
                     "half of it, so that hardware FLOPs can be below model FLOPs",
                     NULL);
    }
    const char *field = explain_text(e, "gpu.peak_TFLOPS.%s", dtype_word(p->precision));
    const struct machine_source *source = machine_source_of(&e->from->scenario->machine, field);
    explain_value(e, "peak of one GPU", gpu->peak_flops[p->precision], "FLOP/s", NULL, field,
                  source != NULL ? source->source : NULL);
    if (r->fits && gpu->peak_flops[p->precision] > 0) {
        explain_value(e, "model FLOP utilisation", r->mfu, NULL, "model FLOPs / (step time x GPUs x peak)",
                      explain_text(e, "%.6g / (%.6g x %u x %.6g)", step, r->step_time_s,
                                   e->from->input->schedule->gpu_count, gpu->peak_flops[p->precision]),
                      NULL);
    }
}

/* ---- kernels ---- */

/* What holds a kernel back when it runs alone. */
static const char *kernel_bound(const struct explainer *e, const struct kernel *kernel, const struct kernel_cost *cost)
{
    double host = kernel->launches * e->from->scenario->software.launch_host_s;
    if (host > cost->alone_s) {
        return "launch (host)";
    }
    if (cost->floor_s > cost->flop_s && cost->floor_s > cost->memory_s) {
        return "launch (device)";
    }
    return cost->flop_s > cost->memory_s ? "arithmetic" : "memory";
}

/* "8 x 2048 x 512 x 12288": batch only where there is one. */
static const char *kernel_shape(struct explainer *e, const struct kernel *k)
{
    if (k->m <= 1 && k->n <= 1 && k->k <= 1) {
        return "-";
    }
    if (k->batch > 1) {
        return explain_text(e, "%" PRIu64 " x %" PRIu64 "x%" PRIu64 "x%" PRIu64, k->batch, k->m, k->n, k->k);
    }
    return explain_text(e, "%" PRIu64 "x%" PRIu64 "x%" PRIu64, k->m, k->n, k->k);
}

struct pass_sum {
    double device_s, host_s, launches;
};

static void kernel_rows(struct explainer *e, const struct layer_graph *g, const char *split, struct pass_sum sums[2])
{
    static const char *const columns[] = { "pass",          "kernel",    "class",    "shape (batch x MxNxK)",
                                           "launches",      "GFLOPs",    "MB moved", "alone us",
                                           "arithmetic us", "memory us", "bound by", NULL };
    explain_table(
        e, explain_text(e, "Kernels of one %s layer and micro-batch on one device%s", layer_kind_word(g->kind), split),
        columns);
    for (uint32_t i = 0; i < g->op_count; i++) {
        const struct layer_op *op = &g->ops[i];
        if (op->collective != LAYER_NO_COLLECTIVE) {
            continue;
        }
        struct kernel_cost cost;
        struct pass_sum *sum = &sums[i < g->forward_count ? 0 : 1];
        kernel_cost(&e->from->scenario->machine.gpu, &op->kernel, &cost);
        sum->device_s += cost.alone_s;
        sum->launches += op->kernel.launches;
        sum->host_s += op->kernel.launches * e->from->scenario->software.launch_host_s;
        explain_cell_text(e, layer_pass_word(op->pass));
        explain_cell_text(e, op->name);
        explain_cell_text(e, kernel_class_word((enum kernel_class)op->kernel.kernel_class));
        explain_cell_text(e, kernel_shape(e, &op->kernel));
        explain_cell_number(e, op->kernel.launches);
        explain_cell_number(e, op->kernel.flops / 1e9);
        explain_cell_number(e, (op->kernel.bytes_read + op->kernel.bytes_written) / 1e6);
        explain_cell_number(e, cost.alone_s * 1e6);
        explain_cell_number(e, cost.flop_s * 1e6);
        explain_cell_number(e, cost.memory_s * 1e6);
        explain_cell_text(e, kernel_bound(e, &op->kernel, &cost));
    }
}

/* ", tensor 2 x data 4": nothing where all layers are split alike. */
static const char *split_text(struct explainer *e, uint32_t split)
{
    const struct model *model = &e->from->scenario->model;
    char text[PLAN_LAYER_TEXT_BYTES];
    if (!e->mixed) {
        return "";
    }
    const char *degrees = plan_layer_text(&e->splits[split].split, text);
    return model_is_uniform(model)
               ? explain_text(e, ", %s", degrees)
               : explain_text(e, ", %s, %s", model_variant_word(model, e->splits[split].variant), degrees);
}

/* The first layer's kernels are shown, and each other pair of degrees' and shape's once. */
static bool is_first_of_degrees(const struct explainer *e, uint32_t split)
{
    const struct explain_split *own = &e->splits[split];
    if (own->split.tensor == explain_split_at(e, 1)->tensor && own->variant == e->splits[e->split_at[1]].variant) {
        return false;
    }
    for (uint32_t i = 0; i < split; i++) {
        if (e->splits[i].built[LAYER_TRANSFORMER] && e->splits[i].split.tensor == own->split.tensor &&
            e->splits[i].variant == own->variant) {
            return false;
        }
    }
    return true;
}

void explain_kernels(struct explainer *e)
{
    const struct software *sw = &e->from->scenario->software;
    const struct machine *machine = &e->from->scenario->machine;
    const struct machine_source *known = machine_source_of(machine, "kernel_model");
    const char *source = kernel_cost_is_plain(&machine->gpu) ? EXPLAIN_PLAIN_PRODUCTS
                         : known != NULL                     ? known->source
                                                             : NULL;
    const struct software_source *launch = software_source_of(sw, "host.launch_us");
    explain_section(e, "kernels", "Kernels",
                    "alone = floor + max(arithmetic, memory), the maximum rounded; GEMMs by tiles and waves "
                    "(sim/engine/kernel_cost.h), others bytes over achieved bandwidth.");
    struct pass_sum sums[2] = { { 0, 0, 0 }, { 0, 0, 0 } };
    kernel_rows(e, &e->graphs[LAYER_TRANSFORMER], split_text(e, e->split_at[1]), sums);
    static const char *const names[] = { "layer forward", "layer backward" };
    for (uint32_t i = 0; i < 2; i++) {
        explain_value(e, explain_text(e, "%s, kernels alone", names[i]), sums[i].device_s, "s",
                      "sum of the alone times below", NULL, source);
        explain_value(e, explain_text(e, "%s, host", names[i]), sums[i].host_s + sw->pass_host_s, "s",
                      "launches x launch cost + cost of a pass",
                      explain_text(e, "%.0f x %.3g us + %.3g us", sums[i].launches, sw->launch_host_s * 1e6,
                                   sw->pass_host_s * 1e6),
                      launch != NULL ? launch->source : NULL);
    }
    struct pass_sum other[2] = { { 0, 0, 0 }, { 0, 0, 0 } };
    for (uint32_t i = 0; i < e->split_count; i++) {
        if (e->splits[i].built[LAYER_TRANSFORMER] && is_first_of_degrees(e, i)) {
            kernel_rows(e, &e->splits[i].graphs[LAYER_TRANSFORMER], split_text(e, i), other);
        }
    }
    kernel_rows(e, &e->graphs[LAYER_EMBEDDING], split_text(e, e->split_at[0]), other);
    kernel_rows(e, &e->graphs[LAYER_HEAD], split_text(e, e->split_at[e->from->scenario->model.layers + 1]), other);
}

/* ---- collectives and transfers ---- */

/* One kind of collective, send or copy, as an op or merged into a sequence of kernels: the same on several ranks stands once. */
struct traffic_row {
    uint32_t work, match;
    enum opcode opcode;
    enum op_phase phase;
    int64_t alone_ps; /* not collectives: as simulated */
    uint32_t rank, rank_count, last_rank, count, least,
        most; /* `count` on last_rank so far; least and most over ranks done */
};

struct traffic_rows {
    struct traffic_row rows[COLLECTIVE_ROWS_MAX];
    uint32_t count;
    uint32_t *row_of_work; /* [work_count]: the row that the work was last counted in */
};

static enum collective_kind collective_of(enum opcode opcode)
{
    return opcode == OP_ALL_GATHER       ? COLLECTIVE_ALL_GATHER
           : opcode == OP_REDUCE_SCATTER ? COLLECTIVE_REDUCE_SCATTER
           : opcode == OP_BROADCAST      ? COLLECTIVE_BROADCAST
           : opcode == OP_ALL_TO_ALL     ? COLLECTIVE_ALL_TO_ALL
           : opcode == OP_SEND           ? COLLECTIVE_SEND_RECV
                                         : COLLECTIVE_ALL_REDUCE;
}

static bool is_collective(enum opcode opcode)
{
    return opcode == OP_ALL_REDUCE || opcode == OP_ALL_GATHER || opcode == OP_REDUCE_SCATTER ||
           opcode == OP_BROADCAST || opcode == OP_ALL_TO_ALL;
}

static bool same_kind(const struct explainer *e, const struct traffic_row *a, const struct traffic_row *b)
{
    const struct schedule *s = e->from->input->schedule;
    const struct sched_work *v = &s->works[a->work], *w = &s->works[b->work];
    if (a->opcode != b->opcode || a->phase != b->phase || a->alone_ps != b->alone_ps) {
        return false;
    }
    if (a->work == b->work) {
        return true;
    }
    if (v->bytes < w->bytes || v->bytes > w->bytes || (v->group == SCHED_NONE) != (w->group == SCHED_NONE)) {
        return false;
    }
    if (v->group == SCHED_NONE) {
        return true;
    }
    const struct sched_group *g = &s->groups[v->group], *h = &s->groups[w->group];
    uint32_t nodes_of_g, nodes_of_h, most_of_g, most_of_h;
    if (g->label != h->label || g->member_count != h->member_count || g->instance_count != h->instance_count) {
        return false;
    }
    cluster_group_span(e->from->input->cluster, s->group_members + g->first_member, g->member_count, &nodes_of_g,
                       &most_of_g);
    cluster_group_span(e->from->input->cluster, s->group_members + h->first_member, h->member_count, &nodes_of_h,
                       &most_of_h);
    return nodes_of_g == nodes_of_h && most_of_g == most_of_h;
}

static void close_rank(struct traffic_row *row)
{
    row->least = row->rank_count == 1 || row->count < row->least ? row->count : row->least;
    row->most = row->count > row->most ? row->count : row->most;
}

static void count_one(const struct explainer *e, struct traffic_rows *all, const struct traffic_row *one)
{
    uint32_t at = all->row_of_work[one->work];
    if (at >= all->count || !same_kind(e, &all->rows[at], one)) {
        for (at = 0; at < all->count && !same_kind(e, &all->rows[at], one);) {
            at++;
        }
        if (at == COLLECTIVE_ROWS_MAX) {
            return;
        }
        if (at == all->count) {
            all->rows[all->count++] = *one;
        }
        all->row_of_work[one->work] = at;
    }
    struct traffic_row *row = &all->rows[at];
    if (row->rank_count == 0 || row->last_rank != one->rank) {
        if (row->rank_count > 0) {
            close_rank(row);
        }
        row->rank_count++;
        row->last_rank = one->rank;
        row->count = 0;
    }
    row->count++;
}

/* Kinds in order of first use. */
static void collect_traffic(const struct explainer *e, struct traffic_rows *all)
{
    const struct schedule *s = e->from->input->schedule;
    for (uint32_t i = 0; i < s->op_count; i++) {
        const struct sched_op *op = &s->ops[i];
        struct traffic_row one = { .work = op->work,
                                   .match = op->match,
                                   .opcode = (enum opcode)op->opcode,
                                   .phase = (enum op_phase)op->phase,
                                   .rank = sched_op_rank(s, op) };
        if (is_collective(one.opcode)) {
            count_one(e, all, &one);
        } else if (one.opcode == OP_SEND || one.opcode == OP_COPY_H2D || one.opcode == OP_COPY_D2H) {
            one.alone_ps = e->from->input->timeline->ops[i].alone_ps;
            count_one(e, all, &one);
        } else if (one.opcode == OP_COMPUTE) {
            const struct sched_work *work = &s->works[op->work];
            one.phase = PHASE_TENSOR_COMM; /* no other collective is merged into passes */
            for (uint32_t k = 0; k < work->item_count; k++) {
                const struct work_item *item = &s->work_items[work->first_item + k];
                if (item->kind != ITEM_KERNEL) {
                    one.work = item->index;
                    one.opcode = (enum opcode)item->passes;
                    count_one(e, all, &one);
                }
            }
        }
    }
    for (uint32_t i = 0; i < all->count; i++) {
        close_rank(&all->rows[i]);
    }
}

static const char *algorithm_word(enum collective_algorithm algorithm)
{
    switch (algorithm) {
    case COLLECTIVE_RING: return "ring";
    case COLLECTIVE_TREE: return "tree";
    case COLLECTIVE_IN_SWITCH: return "in switch";
    case COLLECTIVE_DIRECT: return "direct";
    }
    return "";
}

/* "12 GB/s (ring; measured curve ...)" of a collective, and its time alone. */
static const char *collective_text(struct explainer *e, const struct sched_work *work, enum opcode opcode,
                                   double *alone_s)
{
    const struct schedule *s = e->from->input->schedule;
    const struct cluster *cluster = e->from->input->cluster;
    const struct sched_group *group = &s->groups[work->group];
    struct collective_cost cost;
    struct resource_use uses[FOOTPRINT_MAX];
    const struct collective_request request = {
        .kind = collective_of(opcode),
        .bytes = work->bytes,
        .members = s->group_members + group->first_member,
        .member_count = group->member_count,
        .instance_count = group->instance_count,
        .first_node_only = true,
    };
    if (collective_cost(cluster, &request, uses, FOOTPRINT_MAX, &cost, NULL) != STATUS_OK) {
        return "-";
    }
    *alone_s = cost.alone_s;
    uint32_t nodes, most;
    cluster_group_span(cluster, request.members, request.member_count, &nodes, &most);
    const struct machine_collective_curve *curve =
        machine_curve(cluster->machine, request.kind, request.member_count, nodes);
    return explain_text(e, "%.4g GB/s bus, %s; %s", cost.alone_s > 0 ? cost.bus_bytes / cost.alone_s / 1e9 : 0,
                        algorithm_word(cost.algorithm),
                        curve != NULL && curve->source != NULL ? curve->source
                                                               : "NCCL closed form, corrected by the nearest curve");
}

static void collective_row(struct explainer *e, const struct traffic_row *row)
{
    const struct schedule *s = e->from->input->schedule;
    const struct sched_work *work = &s->works[row->work];
    bool collective = is_collective(row->opcode);
    uint32_t group = collective ? work->group : row->match != SCHED_NONE ? s->matches[row->match].group : SCHED_NONE;
    double alone_s = s_from_ps(row->alone_ps);
    const char *how = collective    ? collective_text(e, work, row->opcode, &alone_s)
                      : alone_s > 0 ? explain_text(e, "%.4g GB/s on its route", work->bytes / alone_s / 1e9)
                                    : "-";
    const char *rank = sched_label(s, s->ranks[row->rank].label);
    explain_cell_text(e, row->rank_count > 1 ? explain_text(e, "%s and %u more", rank, row->rank_count - 1) : rank);
    explain_cell_text(e, opcode_word(row->opcode));
    explain_cell_text(e, op_phase_word(row->phase));
    explain_cell_text(e, group != SCHED_NONE ? sched_label(s, s->groups[group].label) : "-");
    explain_cell_number(e, group != SCHED_NONE ? s->groups[group].member_count : 1);
    explain_cell_number(e, work->bytes);
    explain_cell_text(e, row->least < row->most ? explain_text(e, "%u to %u", row->least, row->most)
                                                : explain_text(e, "%u", row->most));
    explain_cell_number(e, alone_s * 1e6);
    explain_cell_text(e, how);
}

void explain_collectives(struct explainer *e)
{
    struct traffic_rows all = { .row_of_work =
                                    arena_array(&e->to->arena, uint32_t, e->from->input->schedule->work_count) };
    if (all.row_of_work == NULL) {
        e->to->failed = true;
        return;
    }
    collect_traffic(e, &all);
    explain_section(e, "collectives", "Collectives and transfers",
                    "alone: nobody else on the links. Bus bytes = bytes x 2(n-1)/n for all-reduce, (n-1)/n for "
                    "all-gather and reduce-scatter, 1 for a send.");
    static const char *const columns[] = { "rank",  "what",         "why",      "group",           "members",
                                           "bytes", "times a step", "alone us", "rate and source", NULL };
    uint32_t steps = e->from->result->steps;
    explain_table(e,
                  steps > 1 ? explain_text(e, "Each kind that the schedule issues, in all of its %u steps", steps)
                            : "Each kind that the schedule issues; times a step: on one rank",
                  columns);
    for (uint32_t i = 0; i < all.count; i++) {
        collective_row(e, &all.rows[i]);
    }
    if (all.count == COLLECTIVE_ROWS_MAX) {
        explain_word(e, "further kinds", "are left out", NULL);
    }
}

/* ---- the host ---- */

struct issue_counts {
    double launches, passes, collectives, pairs, copies; /* pairs: sends and receives */
    double collective_s;                                 /* host time of collectives and pairs, each by its members */
};

static struct issue_counts issue_counts(const struct schedule *s, const struct software *sw,
                                        const struct sched_rank *rank)
{
    struct issue_counts c = { 0 };
    for (uint32_t i = rank->first_op; i < rank->first_op + rank->op_count; i++) {
        const struct sched_op *op = &s->ops[i];
        if (op->work == SCHED_NONE) {
            continue;
        }
        const struct sched_work *work = &s->works[op->work];
        bool pair = work->kind == WORK_TRANSFER && op->match != SCHED_NONE;
        c.copies += work->kind == WORK_TRANSFER && !pair;
        c.pairs += pair;
        c.collective_s += pair ? software_collective_host_s(sw, 1) : 0;
        if (work->kind == WORK_COLLECTIVE) {
            c.collectives++;
            c.collective_s += software_collective_host_s(sw, s->groups[work->group].member_count);
        }
        for (uint32_t k = 0; work->kind == WORK_KERNELS && k < work->item_count; k++) {
            const struct work_item *item = &s->work_items[work->first_item + k];
            c.passes += item->kind == ITEM_KERNEL ? item->passes : 0;
            c.launches += item->kind == ITEM_KERNEL ? s->kernels[item->index].launches : 0;
            if (item->kind != ITEM_KERNEL) {
                c.collectives++;
                c.collective_s += software_collective_host_s(sw, s->groups[s->works[item->index].group].member_count);
            }
        }
    }
    return c;
}

/* A collective of each group size of the schedule: issue, and waiting for the last member. */
static void collective_host_terms(struct explainer *e)
{
    const struct schedule *s = e->from->input->schedule;
    const struct software *sw = &e->from->scenario->software;
    for (uint32_t i = 0; i < s->group_count; i++) {
        uint32_t members = s->groups[i].member_count;
        bool seen = members < 2;
        for (uint32_t k = 0; k < i && !seen; k++) {
            seen = s->groups[k].member_count == members;
        }
        if (!seen) {
            explain_value(e, explain_text(e, "host time of a collective of %u", members),
                          software_collective_host_s(sw, members), "s",
                          "issue + wait for the last member beyond the mean (hw_models/software.h); a send or receive: "
                          "issue alone",
                          explain_text(e, "%.4g us + %.4g us", sw->collective_host_s * 1e6,
                                       software_collective_wait_s(sw, members) * 1e6),
                          NULL);
        }
    }
}

void explain_host(struct explainer *e)
{
    const struct schedule *s = e->from->input->schedule;
    const struct software *sw = &e->from->scenario->software;
    const struct result *r = e->from->result;
    explain_section(e, "host", "Host: issuing the work",
                    "One thread a GPU issues everything in order; where it needs longer than the device, the step is "
                    "bound by launches.");
    const struct {
        const char *name, *field;
        double value_s;
    } costs[] = { { "host time of a launch", "host.launch_us", sw->launch_host_s },
                  { "host time of a collective", "host.collective_us", sw->collective_host_s },
                  { "delay of a member at a collective", "host.collective_jitter_us", sw->collective_jitter_s },
                  { "host time of a copy", "host.copy_us", sw->copy_host_s },
                  { "host time of a layer pass", "host.pass_us", sw->pass_host_s },
                  { "host time of a micro-batch", "host.micro_batch_us", sw->micro_batch_host_s },
                  { "host time of a step", "host.step_us", sw->step_host_s } };
    for (uint32_t i = 0; i < sizeof costs / sizeof costs[0]; i++) {
        const struct software_source *source = software_source_of(sw, costs[i].field);
        explain_value(e, costs[i].name, costs[i].value_s, "s", NULL, NULL, source != NULL ? source->source : NULL);
    }
    collective_host_terms(e);
    static const char *const columns[] = { "rank",   "launches", "passes",   "collectives",   "sends, receives",
                                           "copies", "host s",   "device s", "host / device", "exposed in step s",
                                           NULL };
    explain_table(
        e,
        "By rank: host = launches x launch + passes x pass + collectives, sends and receives by their members "
        "+ copies, micro-batches, step",
        columns);
    for (uint32_t i = 0; i < r->stage_count; i++) {
        const struct stage_times *times = &r->stages[i];
        struct issue_counts c = issue_counts(s, sw, &s->ranks[times->rank]);
        double host = (c.launches * sw->launch_host_s + c.passes * sw->pass_host_s + c.collective_s +
                       c.copies * sw->copy_host_s) /
                          r->steps +
                      e->order_request.micro_batches * sw->micro_batch_host_s + sw->step_host_s;
        double device = times->busy_s[TIME_COMPUTE] + times->busy_s[TIME_RECOMPUTE] + times->busy_s[TIME_OPTIMIZER];
        explain_cell_text(e, sched_label(s, s->ranks[times->rank].label));
        explain_cell_number(e, c.launches / r->steps);
        explain_cell_number(e, c.passes / r->steps);
        explain_cell_number(e, c.collectives / r->steps);
        explain_cell_number(e, c.pairs / r->steps);
        explain_cell_number(e, c.copies / r->steps);
        explain_cell_number(e, host);
        explain_cell_number(e, device);
        explain_cell_number(e, device > 0 ? host / device : 0);
        explain_cell_number(e, times->exposed_s[TIME_HOST_ISSUE]);
    }
}
