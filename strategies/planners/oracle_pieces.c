/* Pieces of a step, alone. */
#include "strategies/planners/oracle_pieces.h"

#include <math.h>
#include <stdlib.h>

#include "sim/base/array.h"
#include "sim/base/check.h"
#include "sim/engine/collective_cost.h"
#include "sim/engine/kernel_cost.h"
#include "sim/plan/plan_layers.h"

enum { USES_MAX = 4096 };

struct layers_memo {
    struct piece_group tensor;
    int64_t micro_batch;
    bool sequence_parallel;
    struct piece_layers *layers; /* in the arena */
};

struct collective_memo {
    struct piece_group group;
    enum collective_kind kind;
    double bytes, time_s;
};

struct pieces {
    const struct scenario *scenario;
    struct arena arena;
    struct {
        struct layers_memo *items;
        size_t count, capacity;
    } layers;
    struct { /* open addressing; a free slot has kind COLLECTIVE_KIND_COUNT */
        struct collective_memo *items;
        uint32_t count, capacity; /* a power of two */
    } collectives;
    struct resource_use uses[USES_MAX];
};

enum status pieces_open(struct pieces **pieces, const struct scenario *scenario, struct error *error)
{
    *pieces = calloc(1, sizeof **pieces);
    if (*pieces == NULL) {
        return error_set(error, STATUS_NO_MEMORY, "out of memory for a cost model");
    }
    (*pieces)->scenario = scenario;
    return STATUS_OK;
}

void pieces_close(struct pieces *pieces)
{
    if (pieces != NULL) {
        arena_free(&pieces->arena);
        array_free(&pieces->layers);
        free(pieces->collectives.items);
        free(pieces);
    }
}

/* ---- collectives ---- */

static bool same_group(const struct piece_group *a, const struct piece_group *b)
{
    return a->first == b->first && a->count == b->count && a->stride == b->stride &&
           a->instance_count == b->instance_count && a->instance_stride == b->instance_stride;
}

static uint32_t collective_slot(const struct pieces *p, enum collective_kind kind, const struct piece_group *group,
                                double bytes)
{
    uint32_t mask = p->collectives.capacity - 1;
    uint64_t mix = (uint64_t)bytes * 0x9e3779b97f4a7c15u;
    mix ^= ((uint64_t)group->count << 32 | group->stride) * 0xbf58476d1ce4e5b9u;
    mix ^= ((uint64_t)group->instance_count << 32 | (uint64_t)group->first << 8 | kind) * 0x94d049bb133111ebu;
    uint32_t slot = (uint32_t)(mix >> 29) & mask;
    for (;; slot = (slot + 1) & mask) {
        const struct collective_memo *memo = &p->collectives.items[slot];
        bool same = memo->kind == kind && !(memo->bytes < bytes) && !(memo->bytes > bytes);
        if (memo->kind == COLLECTIVE_KIND_COUNT || (same && same_group(&memo->group, group))) {
            return slot;
        }
    }
}

static enum status grow_collectives(struct pieces *p, struct error *error)
{
    if (2 * (p->collectives.count + 1) <= p->collectives.capacity) {
        return STATUS_OK;
    }
    uint32_t old_capacity = p->collectives.capacity;
    uint32_t capacity = old_capacity == 0 ? 256 : 2 * old_capacity;
    struct collective_memo *old = p->collectives.items, *grown = malloc(capacity * sizeof *grown);
    if (grown == NULL) {
        return error_set(error, STATUS_NO_MEMORY, "out of memory for a cost model");
    }
    for (uint32_t i = 0; i < capacity; i++) {
        grown[i] = (struct collective_memo){ .kind = COLLECTIVE_KIND_COUNT };
    }
    p->collectives.items = grown;
    p->collectives.capacity = capacity;
    for (uint32_t i = 0; i < old_capacity; i++) {
        if (old[i].kind != COLLECTIVE_KIND_COUNT) {
            grown[collective_slot(p, old[i].kind, &old[i].group, old[i].bytes)] = old[i];
        }
    }
    free(old);
    return STATUS_OK;
}

static enum status collective_alone(struct pieces *p, enum collective_kind kind, const struct piece_group *group,
                                    double bytes, double *time_s, struct error *error)
{
    size_t total = (size_t)group->count * group->instance_count;
    uint32_t *members = malloc(total * sizeof *members);
    if (members == NULL) {
        return error_set(error, STATUS_NO_MEMORY, "out of memory for a cost model");
    }
    for (uint32_t i = 0; i < group->instance_count; i++) {
        for (uint32_t m = 0; m < group->count; m++) {
            members[(size_t)i * group->count + m] = group->first + i * group->instance_stride + m * group->stride;
        }
    }
    const struct collective_request request = { .kind = kind,
                                                .bytes = bytes,
                                                .members = members,
                                                .member_count = group->count,
                                                .instance_count = group->instance_count,
                                                .first_node_only = true };
    struct collective_cost cost;
    enum status status = collective_cost(&p->scenario->cluster, &request, p->uses, USES_MAX, &cost, error);
    *time_s = cost.alone_s;
    free(members);
    return status;
}

enum status pieces_collective(struct pieces *p, enum collective_kind kind, const struct piece_group *group,
                              double bytes, double *time_s, struct error *error)
{
    *time_s = 0;
    if (group->count < 2 || !(bytes > 0)) {
        return STATUS_OK;
    }
    TRY(grow_collectives(p, error));
    struct collective_memo *memo = &p->collectives.items[collective_slot(p, kind, group, bytes)];
    if (memo->kind == COLLECTIVE_KIND_COUNT) {
        double alone_s = 0;
        TRY(collective_alone(p, kind, group, bytes, &alone_s, error));
        *memo = (struct collective_memo){ *group, kind, bytes, alone_s };
        p->collectives.count++;
    }
    *time_s = memo->time_s;
    return STATUS_OK;
}

enum status pieces_buckets(struct pieces *p, enum collective_kind kind, const struct piece_group *group, double bytes,
                           double bucket_bytes, double *time_s, struct error *error)
{
    double rounds = bucket_bytes > 0 ? fmax(1, ceil(bytes / bucket_bytes)) : 1;
    TRY(pieces_collective(p, kind, group, bytes / rounds, time_s, error));
    *time_s *= rounds;
    return STATUS_OK;
}

/* ---- groups ---- */

struct piece_group piece_tensor_group(const struct cluster *cluster, int64_t tensor)
{
    /* Sisters share links only inside a server. */
    uint32_t t = (uint32_t)tensor,
             here = cluster->gpus < cluster->gpus_per_node ? cluster->gpus : cluster->gpus_per_node;
    return (
        struct piece_group){ .count = t, .stride = 1, .instance_count = t < here ? here / t : 1, .instance_stride = t };
}

struct piece_group piece_data_group(int64_t tensor, int64_t data)
{
    return (struct piece_group){
        .count = (uint32_t)data, .stride = (uint32_t)tensor, .instance_count = (uint32_t)tensor, .instance_stride = 1
    };
}

struct piece_group piece_pair(const struct cluster *cluster, int64_t tensor, int64_t data)
{
    uint32_t stride = (uint32_t)(tensor * data), per_node = cluster->gpus_per_node, first = 0;
    if (stride < per_node && cluster->gpus > per_node) {
        first =
            (per_node - 1) / stride * stride; /* the stage that holds the server's last GPU, or its last whole one */
        first = first + 2 * stride <= cluster->gpus ? first : 0;
    }
    uint32_t sisters = stride < per_node ? stride : per_node;
    return (struct piece_group){
        .first = first, .count = 2, .stride = stride, .instance_count = sisters, .instance_stride = 1
    };
}

/* ---- layers ---- */

bool piece_tensor_divides(const struct model *model, int64_t tensor)
{
    return model->heads % tensor == 0 && model->ffn % tensor == 0 &&
           (model->kv_heads % tensor == 0 || tensor % model->kv_heads == 0);
}

static enum collective_kind kind_of(enum layer_collective collective)
{
    return collective == LAYER_ALL_GATHER       ? COLLECTIVE_ALL_GATHER
           : collective == LAYER_REDUCE_SCATTER ? COLLECTIVE_REDUCE_SCATTER
                                                : COLLECTIVE_ALL_REDUCE;
}

double pieces_stream_s(const struct pieces *p, enum kernel_class kernel_class, double bytes_read, double bytes_written,
                       uint32_t launches)
{
    const struct machine_gpu *gpu = &p->scenario->machine.gpu;
    const struct kernel kernel = kernel_of_traffic(kernel_class, bytes_read, bytes_written, launches);
    struct kernel_cost cost;
    kernel_cost(gpu, &kernel, &cost);
    return cost.alone_s + kernel.launches * gpu->launch_gap_s;
}

/* A run of a layer's ops being added up. */
struct run {
    double device_s, host_s, comm_s;
    double beside_s; /* a collective that the next kernel runs beside */
};

static void close_beside(struct run *run)
{
    run->device_s += run->beside_s;
    run->comm_s += run->beside_s;
    run->beside_s = 0;
}

static enum status add_op(struct pieces *p, struct run *run, const struct layer_op *op,
                          const struct piece_group *tensor, struct error *error)
{
    const struct software *software = &p->scenario->software;
    if (op->collective != LAYER_NO_COLLECTIVE) {
        double alone_s;
        if (tensor->count == 1) {
            return STATUS_OK;
        }
        close_beside(run);
        TRY(pieces_collective(p, kind_of(op->collective), tensor, op->collective_bytes, &alone_s, error));
        run->beside_s = alone_s;
        if (!op->overlappable || !software->overlap_tensor_parallel) {
            close_beside(run);
        }
        run->host_s += software_collective_host_s(software, tensor->count);
        return STATUS_OK;
    }
    struct kernel_cost cost;
    kernel_cost(&p->scenario->machine.gpu, &op->kernel, &cost);
    double alone_s = cost.alone_s + op->kernel.launches * p->scenario->machine.gpu.launch_gap_s;
    run->comm_s += fmax(0, run->beside_s - alone_s);
    run->device_s += fmax(alone_s, run->beside_s);
    run->beside_s = 0;
    run->host_s += op->kernel.launches * software->launch_host_s;
    return STATUS_OK;
}

enum part { PART_FORWARD, PART_CORE, PART_BACKWARD };

static enum status add_part(struct pieces *p, const struct layer_graph *graph, enum part part,
                            const struct piece_group *tensor, struct run *run, struct error *error)
{
    *run = (struct run){ 0 };
    for (uint32_t i = 0; i < graph->op_count; i++) {
        bool forward = i < graph->forward_count;
        bool taken =
            part == PART_BACKWARD ? !forward : forward && (part == PART_FORWARD || graph->ops[i].attention_core);
        if (taken) {
            TRY(add_op(p, run, &graph->ops[i], tensor, error));
        }
    }
    close_beside(run);
    if (part != PART_BACKWARD && graph->op_count > 0 && run->device_s > 0) {
        run->host_s += p->scenario->software.pass_host_s;
    }
    return STATUS_OK;
}

static double peak_sum(const struct layer_peak *peak)
{
    double sum = 0;
    for (uint32_t i = 0; i < peak->count; i++) {
        sum += peak->bytes[i];
    }
    return sum;
}

/* As the lowering sizes them (sim/plan/lower_pass.c). */
static void size_layer(const struct pieces *p, const struct layer_graph *graph, struct piece_layer *layer)
{
    bool block = graph->kind == LAYER_TRANSFORMER;
    double forward = block ? graph->forward_transient_bytes : peak_sum(&graph->forward_peak);
    double backward = block ? graph->backward_transient_bytes : peak_sum(&graph->backward_peak);
    layer->saved_bytes[RECOMPUTE_NONE] = graph->saved_bytes_none;
    layer->saved_bytes[RECOMPUTE_SELECTIVE] = graph->saved_bytes_selective;
    layer->saved_bytes[RECOMPUTE_FULL] = graph->saved_bytes_full;
    layer->forward_scratch_bytes[RECOMPUTE_NONE] = forward;
    layer->forward_scratch_bytes[RECOMPUTE_SELECTIVE] = block ? graph->forward_selective_peak_bytes : forward;
    layer->forward_scratch_bytes[RECOMPUTE_FULL] = block ? graph->forward_unsaved_peak_bytes : forward;
    for (int mode = 0; mode < RECOMPUTE_MODE_COUNT; mode++) {
        bool whole = mode == RECOMPUTE_FULL || p->scenario->software.selective_ops;
        double again = graph->saved_bytes_none - layer->saved_bytes[mode];
        layer->backward_scratch_bytes[mode] =
            mode == RECOMPUTE_NONE ? backward : again + fmax(backward, whole ? graph->forward_transient_bytes : 0);
    }
    layer->parameters = graph->parameters;
    layer->tied_parameters = graph->tied_parameters;
    layer->boundary_bytes = graph->boundary_bytes;
    layer->module_buffer_bytes = graph->module_buffer_bytes;
    layer->backward_flow_bytes = graph->backward_flow_bytes;
}

static enum status make_layer(struct pieces *p, const struct layer_graph *graph, const struct piece_group *tensor,
                              struct piece_layer *layer, struct error *error)
{
    struct run forward, core, backward;
    TRY(add_part(p, graph, PART_FORWARD, tensor, &forward, error));
    TRY(add_part(p, graph, PART_CORE, tensor, &core, error));
    TRY(add_part(p, graph, PART_BACKWARD, tensor, &backward, error));
    *layer = (struct piece_layer){ .forward_s = forward.device_s,
                                   .backward_s = backward.device_s,
                                   .forward_host_s = forward.host_s,
                                   .backward_host_s = backward.host_s,
                                   .tensor_comm_s = forward.comm_s + backward.comm_s };
    layer->recompute_s[RECOMPUTE_SELECTIVE] = core.device_s;
    layer->recompute_host_s[RECOMPUTE_SELECTIVE] = core.host_s;
    layer->recompute_s[RECOMPUTE_FULL] = forward.device_s;
    layer->recompute_host_s[RECOMPUTE_FULL] = forward.host_s;
    size_layer(p, graph, layer);
    return STATUS_OK;
}

/* The variant counts for transformer layers. */
static enum status make_layer_of(struct pieces *p, const struct layer_shape *shape, enum layer_kind kind,
                                 uint32_t variant, const struct piece_group *tensor, struct piece_layer *layer,
                                 struct error *error)
{
    struct arena arena = { 0 };
    struct layer_shape own = *shape;
    struct layer_graph graph;
    own.variant = variant;
    enum status status = layer_graph_build(&graph, &p->scenario->model, kind, &own, &arena, error);
    if (status == STATUS_OK) {
        status = make_layer(p, &graph, tensor, layer, error);
    }
    arena_free(&arena);
    return status;
}

static enum status make_layers(struct pieces *p, const struct layer_shape *shape, const struct piece_group *tensor,
                               struct piece_layers *layers, struct error *error)
{
    uint32_t variants = model_variant_count(&p->scenario->model);
    TRY(make_layer_of(p, shape, LAYER_EMBEDDING, 0, tensor, &layers->embedding, error));
    for (uint32_t v = 0; v < variants; v++) {
        TRY(make_layer_of(p, shape, LAYER_TRANSFORMER, v, tensor, &layers->blocks[v], error));
    }
    return make_layer_of(p, shape, LAYER_HEAD, 0, tensor, &layers->head, error);
}

const struct piece_layer *piece_layer_of(const struct piece_layers *layers, enum layer_kind kind, uint32_t variant)
{
    return kind == LAYER_TRANSFORMER ? &layers->blocks[variant]
           : kind == LAYER_HEAD      ? &layers->head
                                     : &layers->embedding;
}

enum status pieces_layers_in(struct pieces *p, const struct piece_group *tensor, bool sequence_parallel,
                             int64_t micro_batch, const struct piece_layers **layers, struct error *error)
{
    sequence_parallel = sequence_parallel && tensor->count > 1;
    for (size_t i = 0; i < p->layers.count; i++) {
        const struct layers_memo *memo = &p->layers.items[i];
        if (same_group(&memo->tensor, tensor) && memo->micro_batch == micro_batch &&
            memo->sequence_parallel == sequence_parallel) {
            *layers = memo->layers;
            return STATUS_OK;
        }
    }
    const struct scenario *scenario = p->scenario;
    const struct plan_layer split = { .tensor = tensor->count, .data = 1 };
    struct layer_shape shape = plan_layer_shape(&scenario->plan, &scenario->model, &scenario->software, &split, false);
    shape.micro_batch = micro_batch;
    shape.sequence_parallel = sequence_parallel;
    shape.context = 1;
    TRY(array_reserve(&p->layers, 1, error));
    struct piece_layers *made = arena_array(&p->arena, struct piece_layers, 1);
    if (made == NULL) {
        return error_set(error, STATUS_NO_MEMORY, "out of memory for a cost model");
    }
    TRY(make_layers(p, &shape, tensor, made, error));
    p->layers.items[p->layers.count++] = (struct layers_memo){ *tensor, micro_batch, sequence_parallel, made };
    *layers = made;
    return STATUS_OK;
}

enum status pieces_layers(struct pieces *p, int64_t tensor, bool sequence_parallel, int64_t micro_batch,
                          const struct piece_layers **layers, struct error *error)
{
    const struct piece_group group = piece_tensor_group(&p->scenario->cluster, tensor);
    return pieces_layers_in(p, &group, sequence_parallel, micro_batch, layers, error);
}
