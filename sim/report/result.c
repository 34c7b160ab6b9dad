/* From a timeline to the figures people ask for. */
#include "sim/report/result.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/check.h"
#include "sim/base/units.h"
#include "sim/core/quantile.h"
#include "sim/engine/cost_table.h"
#include "sim/report/breakdown.h"

const char *time_class_word(enum time_class time_class)
{
    static const char *const words[] = {
#define X(name, key, help) key,
        TIME_CLASS_TABLE(X)
#undef X
    };
    return words[time_class];
}

struct measured_steps measured_steps(const double *steps_s, uint32_t count)
{
    CHECK(count > 0 && count <= MEASURED_STEPS_MAX);
    double sorted[MEASURED_STEPS_MAX];
    memcpy(sorted, steps_s, count * sizeof *sorted);
    quantile_sort(sorted, count);
    return (struct measured_steps){ count, quantile_of(sorted, count, 0.5), sorted[0], sorted[count - 1] };
}

/* FLOPs of the matrix kernels of each work, in their order. */
struct work_flops {
    uint32_t *first; /* [work_count + 1] into flops */
    double *flops;
};

static bool work_flops_list(const struct schedule *s, struct arena *arena, struct work_flops *list)
{
    uint32_t count = 0;
    list->first = arena_array(arena, uint32_t, (size_t)s->work_count + 1);
    list->flops = arena_array(arena, double, s->work_item_count);
    if (list->first == NULL || list->flops == NULL) {
        return false;
    }
    for (uint32_t w = 0; w < s->work_count; w++) {
        const struct sched_work *work = &s->works[w];
        for (uint32_t k = 0; k < work->item_count; k++) {
            const struct work_item *item = &s->work_items[work->first_item + k];
            if (item->kind == ITEM_KERNEL) {
                const struct kernel *kernel = &s->kernels[item->index];
                bool matrix = kernel->kernel_class == KERNEL_GEMM || kernel->kernel_class == KERNEL_ATTENTION_FORWARD ||
                              kernel->kernel_class == KERNEL_ATTENTION_BACKWARD;
                if (matrix) {
                    list->flops[count++] = kernel->flops;
                }
            }
        }
        list->first[w + 1] = count;
    }
    return true;
}

/* FLOPs that the devices really execute, recomputation included, phantoms counted. */
static double hardware_flops(const struct schedule *s, const struct work_flops *list)
{
    double sum = 0;
    for (uint32_t r = 0; r < s->rank_count; r++) {
        const struct sched_rank *rank = &s->ranks[r];
        double flops = 0;
        for (uint32_t i = rank->first_op; i < rank->first_op + rank->op_count; i++) {
            const struct sched_op *op = &s->ops[i];
            if (op->opcode != OP_COMPUTE || op->phase == PHASE_OPTIMIZER) {
                continue;
            }
            for (uint32_t k = list->first[op->work]; k < list->first[op->work + 1]; k++) {
                flops += list->flops[k];
            }
        }
        sum += flops * rank->device_count;
    }
    return sum;
}

const char *result_executed_words(double model_tflops, double hardware_tflops, bool recomputes)
{
    const char *more = recomputes ? "with recomputation" : "with the padding of the vocabulary";
    return hardware_tflops < model_tflops * (1 - 1e-9)
               ? "causal attention leaves out the masked half, which the model's FLOPs count"
           : hardware_tflops > model_tflops * (1 + 1e-9) ? more
                                                         : "as the model's FLOPs count them";
}

static enum status throughput(struct result *result, const struct result_input *input, struct error *error)
{
    const struct schedule *s = input->schedule;
    double step = result->step_time_s;
    struct work_flops list;
    if (!result->complete || step <= 0) {
        return STATUS_OK;
    }
    if (!work_flops_list(s, &result->arena, &list)) {
        return error_set(error, STATUS_NO_MEMORY, "out of memory for the report");
    }
    double gpus = s->gpu_count > 0 ? s->gpu_count : 1;
    double peak = input->cluster->machine->gpu.peak_flops[input->precision];
    result->samples_per_s = s->samples / step;
    result->tokens_per_s = s->tokens / step;
    result->tokens_per_s_per_gpu = result->tokens_per_s / gpus;
    result->model_tflops_per_gpu = s->model_flops / step / gpus / 1e12;
    result->hardware_tflops_per_gpu = hardware_flops(s, &list) / result->steps / step / gpus / 1e12;
    if (peak > 0 && !input->is_elsewhere) {
        result->mfu = result->model_tflops_per_gpu * 1e12 / peak;
        result->hfu = result->hardware_tflops_per_gpu * 1e12 / peak;
    }
    return STATUS_OK;
}

/* ---- traffic ---- */

static bool is_link(enum resource_kind kind)
{
    return kind == RESOURCE_LINK || kind == RESOURCE_FABRIC || kind == RESOURCE_NIC || kind == RESOURCE_DRAM;
}

static int by_bytes(const void *a, const void *b)
{
    const struct link_traffic *x = a, *y = b;
    if (x->bytes != y->bytes) {
        return x->bytes < y->bytes ? 1 : -1;
    }
    return x->resource < y->resource ? -1 : x->resource > y->resource;
}

/* Links that a sequence of kernels uses are those of the collectives merged into it; but where devices are threads of the host, the kernels themselves use its memory. */
static bool is_merged(const struct cluster *cluster, const struct sched_op *op)
{
    return op->opcode == OP_COMPUTE && !cluster->machine->gpu.on_host;
}

/* The time that an op keeps its links: all of it, but of a sequence of kernels only its merged collectives' part, stretched as the sequence was. */
static double link_time_s(bool merged, const struct op_times *times, const struct op_cost *cost)
{
    double ran_s = s_from_ps(times->end_ps - times->start_ps);
    return merged ? ran_s * ((double)cost->collective_ps / (double)cost->work_ps) : ran_s;
}

/* What one activity of a record carries over the links that are told. */
struct carried {
    uint32_t link; /* into result.links */
    double bytes;  /* of one step */
};

/* What the records carry: `first` [cost_count + 1] into `carried`. */
struct carriage {
    uint32_t *first;
    struct carried *carried;
};

static bool list_carriage(struct result *result, const struct cost_table *table, const uint32_t *slot,
                          uint32_t resource_count, struct carriage *list)
{
    uint32_t count = 0;
    list->first = arena_array(&result->arena, uint32_t, (size_t)table->cost_count + 1);
    list->carried = arena_array(&result->arena, struct carried, table->use_count);
    if (list->first == NULL || list->carried == NULL) {
        return false;
    }
    for (uint32_t c = 0; c < table->cost_count; c++) {
        const struct op_cost *cost = &table->costs[c];
        const double work_s = s_from_ps(cost->work_ps);
        for (uint32_t u = 0; u < cost->use_count; u++) {
            const struct maxmin_use *use = &table->uses[cost->first_use + u];
            /* behind the cluster's resources come the ports of ranks, which are no links */
            if (use->resource < resource_count && slot[use->resource] != SCHED_NONE) {
                list->carried[count++] =
                    (struct carried){ slot[use->resource], use->coefficient * work_s / result->steps };
            }
        }
        list->first[c + 1] = count;
    }
    return true;
}

/* The links with traffic; `slot` [resource_count]: which, or SCHED_NONE. */
static enum status list_links(struct result *result, const struct result_input *input, uint32_t *slot,
                              struct error *error)
{
    const struct cluster *cluster = input->cluster;
    const struct timeline *timeline = input->timeline;
    uint32_t count = 0;
    for (uint32_t r = 0; r < cluster->resource_count; r++) {
        bool used = is_link(cluster->resources[r].kind) && timeline->resources[r].amount > 0;
        slot[r] = used ? count++ : SCHED_NONE;
    }
    result->links = arena_array(&result->arena, struct link_traffic, count);
    if (result->links == NULL) {
        return error_set(error, STATUS_NO_MEMORY, "out of memory for the report");
    }
    result->link_count = count;
    for (uint32_t r = 0; r < cluster->resource_count; r++) {
        if (slot[r] != SCHED_NONE) {
            result->links[slot[r]] = (struct link_traffic){
                .resource = r,
                .bytes = timeline->resources[r].amount / result->steps,
                .busy_fraction =
                    result->step_time_s > 0 ? timeline->resources[r].busy_s / result->steps / result->step_time_s : 0,
            };
        }
    }
    return STATUS_OK;
}

/* Bytes by class come from what each op asks for; the audit has held their sum to what moved. */
static enum status traffic(struct result *result, const struct result_input *input, const struct cost_table *table,
                           struct error *error)
{
    const struct cluster *cluster = input->cluster;
    uint32_t *slot = arena_array(&result->arena, uint32_t, cluster->resource_count);
    struct carriage list;
    if (slot == NULL) {
        return error_set(error, STATUS_NO_MEMORY, "out of memory for the report");
    }
    TRY(list_links(result, input, slot, error));
    uint32_t count = result->link_count;
    uint8_t *counted = arena_array(&result->arena, uint8_t, (size_t)input->schedule->match_count + 1);
    double *busy_s = arena_array(&result->arena, double, count);
    bool *merged = arena_array(&result->arena, bool, count);
    if (counted == NULL || busy_s == NULL || merged == NULL ||
        !list_carriage(result, table, slot, cluster->resource_count, &list)) {
        return error_set(error, STATUS_NO_MEMORY, "out of memory for the report");
    }
    for (uint32_t i = 0; i < input->schedule->op_count; i++) {
        const struct sched_op *op = &input->schedule->ops[i];
        uint32_t record = table->op_costs[i];
        bool in_sequence = is_merged(cluster, op);
        enum time_class time_class = in_sequence ? TIME_TENSOR_COMM : op_time_class(op);
        if (op->match != SCHED_NONE && counted[op->match] != 0) {
            continue; /* matched ops are one activity */
        }
        if (op->match != SCHED_NONE) {
            counted[op->match] = 1;
        }
        const double kept_s = link_time_s(in_sequence, &input->timeline->ops[i], &table->costs[record]) / result->steps;
        for (uint32_t u = list.first[record]; u < list.first[record + 1]; u++) {
            uint32_t link = list.carried[u].link;
            result->links[link].class_bytes[time_class] += list.carried[u].bytes;
            busy_s[link] += kept_s;
            merged[link] = merged[link] || in_sequence;
        }
    }
    /* The engine spreads merged collectives over their sequence: to it the links are busy all along. */
    for (uint32_t l = 0; l < count && result->step_time_s > 0; l++) {
        double fraction = busy_s[l] / result->step_time_s;
        if (merged[l] && fraction < result->links[l].busy_fraction) {
            result->links[l].busy_fraction = fraction;
        }
    }
    qsort(result->links, count, sizeof *result->links, by_bytes);
    return STATUS_OK;
}

/* ---- what binds ---- */

/* The optimizer step on the device: dividing it helps where replicas repeat it. */
static const char *optimizer_advice(const struct schedule *s, const struct sched_rank *rank)
{
    bool on_host = false, replicas = false, divided = false;
    for (uint32_t i = rank->first_op; i < rank->first_op + rank->op_count; i++) {
        const struct sched_op *op = &s->ops[i];
        on_host = on_host || op->opcode == OP_HOST_OPTIMIZER;
        replicas = replicas || (op->phase == PHASE_DATA_COMM && op->match != SCHED_NONE);
        divided = divided || (op->phase == PHASE_DATA_COMM && op->opcode == OP_REDUCE_SCATTER);
    }
    return on_host ? "Adam on the host: more or faster cores, faster host memory, updates that overlap the backward"
           : replicas && !divided ? "ZeRO sharding of the optimizer, a larger global batch"
                                  : "a larger global batch: fewer updates a token";
}

static const char *advice(enum time_class time_class, const struct schedule *s, const struct sched_rank *rank)
{
    switch (time_class) {
    case TIME_COMPUTE: return "faster GPUs, lower precision, or kernels nearer to their peak";
    case TIME_RECOMPUTE:
        return "less recomputation: more memory a GPU, more pipeline or tensor parallelism, selective recomputation";
    case TIME_TENSOR_COMM: return "a smaller tensor-parallel degree, sequence parallelism, faster NVLink";
    case TIME_PIPELINE_COMM: return "overlapped sends, larger micro-batches, fewer virtual stages, faster network";
    case TIME_DATA_COMM: return "a larger global batch, overlapped reduction, faster network";
    case TIME_OFFLOAD: return "less offloading: more GPU memory, faster PCIe or host memory";
    case TIME_OPTIMIZER: return optimizer_advice(s, rank);
    case TIME_BUBBLE:
        return "more micro-batches, more virtual stages, an order with less of a bubble, fewer or better balanced "
               "stages";
    case TIME_MEMORY_WAIT: return "more memory a GPU, recomputation, smaller micro-batches";
    case TIME_HOST_ISSUE: return "larger micro-batches, fused kernels, CUDA graphs: the host cannot launch fast enough";
    case TIME_CLASS_COUNT: break;
    }
    return "";
}

static int by_share(const void *a, const void *b)
{
    const struct bound *x = a, *y = b;
    return x->share < y->share ? 1 : x->share > y->share ? -1 : 0;
}

/* Shares of the rank that does the most work: what would have to shrink for the step to shrink. */
static void bounds(struct result *result, const struct result_input *input)
{
    uint32_t busiest = 0;
    for (uint32_t i = 1; i < result->stage_count; i++) {
        if (result->stages[i].exposed_s[TIME_BUBBLE] < result->stages[busiest].exposed_s[TIME_BUBBLE]) {
            busiest = i;
        }
    }
    const char *rank = sched_label(input->schedule, input->schedule->ranks[busiest].label);
    for (uint32_t c = 0; c < TIME_CLASS_COUNT && result->stage_count > 0; c++) {
        double share = result->stages[busiest].exposed_s[c] / result->step_time_s;
        if (share >= 0.005 && result->bound_count < BOUNDS_MAX) {
            struct bound *bound = &result->bounds[result->bound_count++];
            bound->share = share;
            snprintf(bound->what, sizeof bound->what, "%s (%s)", time_class_word((enum time_class)c), rank);
            snprintf(bound->advice, sizeof bound->advice, "%s",
                     advice((enum time_class)c, input->schedule, &input->schedule->ranks[busiest]));
        }
    }
    qsort(result->bounds, result->bound_count, sizeof *result->bounds, by_share);
}

static enum status compute_done(struct result *result, const struct result_input *input, struct error *error)
{
    const struct schedule *s = input->schedule;
    TRY(throughput(result, input, error));
    result->stages = arena_array(&result->arena, struct stage_times, s->rank_count);
    if (result->stages == NULL) {
        return error_set(error, STATUS_NO_MEMORY, "out of memory for the report");
    }
    result->stage_count = s->rank_count;
    bool simulated = input->timeline->resources != NULL;
    const struct step_window window = timeline_step(s, input->timeline);
    struct cost_table own = { 0 };
    const struct cost_table *table = input->costs != NULL ? input->costs : &own;
    if (simulated && input->costs == NULL) {
        TRY(cost_table_build(&own, s, input->cluster, input->software, error));
    }
    for (uint32_t r = 0; r < s->rank_count; r++) {
        breakdown_rank(&result->stages[r], s, input->timeline, simulated ? table : NULL, &window, r);
    }
    enum status status = simulated ? traffic(result, input, table, error) : STATUS_OK;
    cost_table_free(&own);
    if (status == STATUS_OK && result->step_time_s > 0) {
        bounds(result, input);
    }
    return status;
}

static enum status host_memory(struct result *result, const struct result_input *input, struct error *error)
{
    const struct cluster *cluster = input->cluster;
    result->socket_count = cluster == NULL ? 0 : cluster->nodes * cluster->sockets;
    result->sockets = arena_array(&result->arena, struct host_socket, result->socket_count);
    if (result->sockets == NULL) {
        return error_set(error, STATUS_NO_MEMORY, "no memory for %u sockets", result->socket_count);
    }
    if (cluster != NULL) {
        host_spill(input->schedule, cluster, result->sockets);
    }
    return STATUS_OK;
}

enum status result_compute(struct result *result, const struct result_input *input, struct error *error)
{
    *result = (struct result){ .name = input->name, .schedule_hash = input->timeline->schedule_hash, .steps = 1 };
    result->complete = input->timeline->outcome == TIMELINE_DONE;
    result->fits = result->complete && input->does_not_fit == NULL;
    if (result->complete) { /* a step that got stuck takes no time */
        const struct step_window window = timeline_step(input->schedule, input->timeline);
        result->steps = window.steps;
        result->step_time_s = s_from_ps(window.to_ps - window.from_ps);
    }
    enum status status = host_memory(result, input, error);
    if (status == STATUS_OK && result->complete) {
        status = compute_done(result, input, error);
    } else if (status == STATUS_OK) {
        timeline_explain(input->schedule, input->timeline, &result->outcome);
    }
    if (input->does_not_fit != NULL) {
        strbuf_append(&result->outcome, input->does_not_fit);
    }
    if (status != STATUS_OK) {
        result_free(result);
    }
    return status;
}

void result_free(struct result *result)
{
    strbuf_free(&result->outcome);
    arena_free(&result->arena);
}
