/* A rank: its devices, queues, spaces, layers, and the buffers that live all step long. */
#include <math.h>
#include <stdio.h>

#include "sim/base/check.h"
#include "sim/plan/lower_internal.h"

static void no_memory(struct lowering *l)
{
    lower_fail(l, STATUS_NO_MEMORY, "out of memory while lowering");
}

/* The folded devices of the rank: all (d, c, t) of its stage, the representative first. */
static uint32_t *rank_devices(struct lowering *l, const struct rank_state *rank, uint32_t *count)
{
    *count = l->fold ? l->stage_devices : 1;
    uint32_t *devices = arena_array(&l->arena, uint32_t, *count);
    if (devices == NULL) {
        no_memory(l);
        return NULL;
    }
    for (uint32_t i = 0; i < *count; i++) {
        devices[i] = rank->device + i; /* (d, c, t) are contiguous within a stage */
    }
    return devices;
}

static void clear_ids(uint32_t *ids, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        ids[i] = SCHED_NONE;
    }
}

/* The space of a kind that serves a device, made at first use. */
static uint32_t space_of(struct lowering *l, enum space_kind kind, uint32_t device)
{
    const struct cluster *cluster = l->request->cluster;
    const struct machine *machine = cluster->machine;
    uint32_t node = device / cluster->gpus_per_node;
    uint32_t *known = kind == SPACE_DEVICE ? &l->device_spaces[device] : &l->host_spaces[kind][node];
    if (*known == SCHED_NONE) {
        char label[64];
        double capacity = machine->gpu.usable_bytes;
        uint32_t location = node, parent = SCHED_NONE;
        switch (kind) {
        case SPACE_DEVICE:
            location = device;
            snprintf(label, sizeof label, "gpu %u", device);
            break;
        case SPACE_HOST:
            capacity = machine->dram_bytes;
            snprintf(label, sizeof label, "host memory of server %u", node);
            break;
        case SPACE_PINNED:
            capacity = machine->dram_bytes;
            parent = lower_space(l, SPACE_HOST);
            snprintf(label, sizeof label, "pinned memory of server %u", node);
            break;
        case SPACE_STORAGE:
            capacity = 0;
            for (uint32_t i = 0; i < machine->part_count; i++) {
                capacity += machine->parts[i].kind == PART_NVME ? machine->parts[i].capacity_bytes : 0;
            }
            snprintf(label, sizeof label, "storage of server %u", node);
            break;
        case SPACE_KIND_COUNT: check_failed("a space kind", __FILE__, __LINE__); break;
        }
        *known = builder_space(l->builder, kind, location, (uint64_t)capacity, parent, label);
    }
    return *known;
}

uint32_t lower_space(struct lowering *l, enum space_kind kind)
{
    uint32_t *own = &l->rank->spaces[kind];
    if (*own == SCHED_NONE) {
        *own = space_of(l, kind, l->rank->device);
    }
    return *own;
}

void lower_exact_blocks(struct lowering *l)
{
    builder_exact_blocks(l->builder, lower_space(l, SPACE_PINNED));
}

uint32_t lower_queue(struct lowering *l, enum queue_class queue_class)
{
    uint32_t *queue = &l->rank->queues[queue_class];
    if (*queue == SCHED_NONE) {
        *queue = builder_queue(l->builder, queue_class, queue_class_word(queue_class));
    }
    return *queue;
}

/* All buffers of a schedule together have less than 2^63 bytes (sched_verify): half of it keeps a rounded sum below. */
#define BUFFER_BYTES_MAX 0x1p62

static void refuse_bytes(struct lowering *l, const char *label, double bytes)
{
    if (l->status == STATUS_OK) {
        l->status = error_at(l->error, STATUS_LIMIT, NULL, "$.training",
                             "buffer \"%s\" of %.4g bytes, %.4g bytes in all buffers of a step: allowed are less than "
                             "2^53 (9.007e+15) in one and 2^62 (4.612e+18) in all; lower training.micro_batch, "
                             "training.sequence_length or training.global_batch",
                             label, bytes, l->buffer_bytes);
    }
}

static uint32_t buffer_in(struct lowering *l, uint32_t space, uint32_t copies, double bytes,
                          enum buffer_class buffer_class, uint8_t flags, const char *label)
{
    bytes = ceil(bytes);
    l->buffer_bytes += bytes * copies;
    if (bytes > (double)SCHED_INTEGER_MAX || l->buffer_bytes > BUFFER_BYTES_MAX) {
        refuse_bytes(l, label, bytes);
        bytes = 0; /* nobody reads the schedule, but (uint64_t) of more is undefined */
    }
    return builder_buffer(l->builder, space, (uint64_t)bytes, copies, buffer_class, flags,
                          builder_label(l->builder, label));
}

uint32_t lower_buffer(struct lowering *l, enum space_kind kind, double bytes, enum buffer_class buffer_class,
                      uint8_t flags, const char *label)
{
    uint32_t copies = kind == SPACE_DEVICE ? 1 : l->rank->host_copies;
    return buffer_in(l, lower_space(l, kind), copies, bytes, buffer_class, flags, label);
}

uint32_t lower_peer_buffer(struct lowering *l, uint32_t stage, double bytes, enum buffer_class buffer_class,
                           uint8_t flags, const char *label)
{
    const struct rank_state *rank = l->rank;
    for (uint32_t s = 0; s < l->stages; s++) { /* spaces stand in the order of the stages */
        space_of(l, SPACE_DEVICE, lowering_gpu(l, s, rank->d, rank->c, rank->t));
    }
    uint32_t space = space_of(l, SPACE_DEVICE, lowering_gpu(l, stage, rank->d, rank->c, rank->t));
    return buffer_in(l, space, 1, bytes, buffer_class, flags, label);
}

static void split_layer(const struct lowering *l, struct rank_state *rank, struct lower_layer *layer)
{
    layer->layout = l->layout_at[lowering_position(l, layer)];
    const struct layout *layout = &l->layouts[layer->layout];
    layer->tensor = layout->tensor;
    layer->replicas = layout->replicas * l->copies;
    layer->zero_stage = layout->zero_stage;
    layer->graph = &layout->graphs[layer->kind];
    rank->layouts[layer->layout].used = true;
    rank->replicated = rank->replicated || layer->replicas > 1;
    rank->gathers = rank->gathers || (layer->replicas > 1 && layout->zero_stage >= 2);
}

/* Layers of the rank: for each chunk, its transformer layers in model order, the embedding before the first virtual stage, the head after the last. */
static enum status list_layers(struct lowering *l, struct rank_state *rank)
{
    const struct plan *plan = l->request->plan;
    const struct pipeline_order *order = l->request->order;
    uint32_t last = l->model_stages - 1, total = 0;
    rank->chunk_first_layer = arena_array(&l->arena, uint32_t, l->virtual_stages);
    rank->chunk_layer_count = arena_array(&l->arena, uint32_t, l->virtual_stages);
    rank->weight_passes_done = arena_array(&l->arena, uint32_t, l->virtual_stages);
    rank->weight_passes = arena_array(&l->arena, uint32_t, l->virtual_stages);
    for (uint32_t chunk = 0; chunk < l->virtual_stages; chunk++) {
        uint32_t v = lowering_model_stage(l, rank->stage, chunk);
        total += (uint32_t)plan->stage_layers[v] + (v == 0) + (v == last);
    }
    rank->layers = arena_array(&l->arena, struct lower_layer, total);
    rank->layouts = arena_array(&l->arena, struct rank_layout, l->layout_count);
    if (rank->layouts == NULL || rank->chunk_first_layer == NULL || rank->chunk_layer_count == NULL ||
        rank->weight_passes_done == NULL || rank->weight_passes == NULL || rank->layers == NULL) {
        no_memory(l);
        return l->status;
    }
    for (uint32_t chunk = 0; chunk < l->virtual_stages; chunk++) {
        uint32_t v = lowering_model_stage(l, rank->stage, chunk);
        uint32_t model_index = v == 0 ? 0 : lowering_first_position(l, v) - 1;
        uint32_t count = (uint32_t)plan->stage_layers[v] + (v == 0) + (v == last);
        rank->chunk_first_layer[chunk] = rank->layer_count;
        rank->chunk_layer_count[chunk] = count;
        for (uint32_t i = 0; i < count; i++) {
            struct lower_layer *layer = &rank->layers[rank->layer_count];
            bool embedding = v == 0 && i == 0;
            bool head = v == last && i == count - 1;
            layer->kind = embedding ? LAYER_EMBEDDING : head ? LAYER_HEAD : LAYER_TRANSFORMER;
            layer->index = rank->layer_count++;
            layer->chunk = chunk;
            layer->model_index = SCHED_NONE;
            layer->recompute = RECOMPUTE_NONE;
            if (layer->kind == LAYER_TRANSFORMER) {
                layer->model_index = model_index++;
                bool keeps = v == last && order->last_stage_keeps;
                layer->recompute = keeps ? RECOMPUTE_NONE : (enum recompute_mode)plan->recompute[layer->model_index];
            }
            split_layer(l, rank, layer);
        }
    }
    return STATUS_OK;
}

/* Bytes per parameter come from the software model; ZeRO divides optimizer (1), gradients (2), weights (3) over the data-parallel group. */
static void size_layer(const struct lowering *l, struct lower_layer *layer)
{
    const struct software *software = l->request->software;
    uint32_t zero = layer->zero_stage;
    double share = 1.0 / layer->replicas;
    layer->parameters = layer->graph->parameters;
    if (l->tied_apart) {
        /* The device of the head keeps its own copy of a tied embedding (Megatron), with its own gradient and optimizer state. */
        layer->parameters += layer->graph->tied_parameters;
    }
    layer->owned_parameters = layer->parameters * (zero >= 1 ? share : 1);
    layer->weight_bytes = (uint64_t)ceil(layer->parameters * (zero >= 3 ? share : 1) * software->weight_bytes);
    layer->gradient_bytes = (uint64_t)ceil(layer->parameters * (zero >= 2 ? share : 1) * software->gradient_bytes);
    layer->optimizer_bytes =
        (uint64_t)ceil(layer->owned_parameters * (software->master_bytes + software->moments_bytes));
    layer->gathered_bytes = zero >= 3 && layer->replicas > 1 && !l->request->policy->owns_model_data
                                ? (uint64_t)ceil(layer->parameters * software->gathered_bytes)
                                : 0;
}

static uint32_t place_buffer(struct lowering *l, const struct lower_layer *layer, enum buffer_class buffer_class,
                             uint64_t bytes, uint8_t flags)
{
    if (bytes == 0) {
        return SCHED_NONE;
    }
    const struct memory_policy *policy = l->request->policy;
    if (policy->owns_model_data) {
        return SCHED_NONE;
    }
    enum space_kind kind = policy->place == NULL ? SPACE_DEVICE : policy->place(l, layer, buffer_class);
    if (kind == SPACE_KIND_COUNT) {
        return SCHED_NONE;
    }
    char label[96];
    if (layer->kind == LAYER_TRANSFORMER) {
        snprintf(label, sizeof label, "layer %u %s", layer->model_index, buffer_class_word(buffer_class));
    } else {
        snprintf(label, sizeof label, "%s %s", layer_kind_word(layer->kind), buffer_class_word(buffer_class));
    }
    return lower_buffer(l, kind, (double)bytes, buffer_class, flags, label);
}

bool lower_makes_gradients(const struct software *software, const struct memory_policy *policy,
                           const struct pipeline_order *order, uint32_t zero_stage, double replicas)
{
    return software->gradients_as_made && zero_stage >= 2 && (replicas > 1 || software->flat_units) &&
           policy->place == NULL && !policy->owns_model_data && !order->asynchronous;
}

/* Older versions of the weights, with which micro-batches in flight went forward (PipeDream). A stage always keeps as many, unless the policy moves them. */
static void stash_buffer(struct lowering *l, const struct lower_layer *layer)
{
    const struct memory_policy *policy = l->request->policy;
    uint32_t versions = order_weight_versions(l->request->order, &l->order_request, l->rank->stage);
    if (versions > 1 && layer->weight_bytes > 0 &&
        (policy->moves_versions == NULL || !policy->moves_versions(l, layer))) {
        lower_buffer(l, SPACE_DEVICE, (double)layer->weight_bytes * (versions - 1), BUFFER_WEIGHT,
                     BUFFER_LIVE_AT_START | BUFFER_LIVE_AT_END, "stashed weight versions");
    }
}

/* PyTorch DDP: gradients are copied into buckets, reduced there, and copied back. */
static void bucket_buffer(struct lowering *l, const struct rank_state *rank)
{
    const struct software *software = l->request->software;
    double bytes = 0;
    for (uint32_t i = 0; i < rank->layer_count; i++) {
        const struct lower_layer *layer = &rank->layers[i];
        bytes += layer->replicas > 1 && layer->zero_stage == 0 ? layer->parameters * software->reduce_bytes : 0;
    }
    if (software->bucket_copies && bytes > 0 && !l->request->policy->owns_model_data) {
        lower_buffer(l, SPACE_DEVICE, bytes, BUFFER_COMMUNICATION, BUFFER_LIVE_AT_START | BUFFER_LIVE_AT_END,
                     "gradient buckets");
    }
}

/* Different groups of the rank's layers and of the moves between them, and the pipeline's. */
static uint32_t communicators(const struct lowering *l, const struct rank_state *rank)
{
    uint32_t count = l->stages > 1 ? 1 : 0, layouts = l->layout_count;
    for (uint32_t i = 0; i < layouts; i++) {
        const struct rank_layout *own = &rank->layouts[i];
        bool new_tensor = own->tensor != SCHED_NONE, new_data = own->data != SCHED_NONE;
        for (uint32_t before = 0; before < i; before++) {
            new_tensor = new_tensor && rank->layouts[before].tensor != own->tensor;
            new_data = new_data && rank->layouts[before].data != own->data;
        }
        count += (new_tensor ? 1u : 0u) + (new_data ? 1u : 0u);
    }
    for (uint32_t i = 0; l->mixed && i < layouts * layouts; i++) {
        bool is_new = rank->groups.moves[i] != SCHED_NONE;
        for (uint32_t before = 0; before < i && is_new; before++) {
            is_new = rank->groups.moves[before] != rank->groups.moves[i];
        }
        count += is_new ? 1 : 0;
    }
    return count;
}

static void runtime_buffer(struct lowering *l, const struct rank_state *rank)
{
    double bytes = software_runtime_bytes(l->request->software, l->request->cluster->machine, communicators(l, rank));
    if (bytes > 0) {
        lower_buffer(l, SPACE_DEVICE, bytes, BUFFER_RUNTIME, BUFFER_LIVE_AT_START | BUFFER_LIVE_AT_END,
                     "context, communicators, workspaces");
    }
}

/* The modules' one buffer (software.memory.module_buffer). */
static void module_buffer(struct lowering *l, const struct rank_state *rank)
{
    double bytes = 0;
    for (uint32_t i = 0; i < rank->layer_count; i++) {
        bytes = fmax(bytes, rank->layers[i].graph->module_buffer_bytes);
    }
    if (bytes > 0) {
        lower_buffer(l, SPACE_DEVICE, bytes, BUFFER_WORKSPACE, BUFFER_LIVE_AT_START | BUFFER_LIVE_AT_END,
                     "modules' buffer");
    }
}

/* Layouts of one split share its bucket and its gathered ends. */
static void join_alike(const struct lowering *l, struct rank_state *rank)
{
    for (uint32_t i = 0; i < l->layout_count; i++) {
        uint32_t k = 0;
        while (k < i && (!rank->layouts[k].used || !plan_layer_equal(&l->layouts[k].split, &l->layouts[i].split))) {
            k++;
        }
        rank->layouts[i].alike = &rank->layouts[k];
    }
}

static enum status rank_arrays(struct lowering *l, struct rank_state *rank)
{
    rank->replicas_dealt = order_replicas(&l->order_request, rank->stage);
    rank->slots = l->micro_batches / rank->replicas_dealt; /* divides: order_check */
    size_t activations = (size_t)rank->layer_count * rank->slots;
    rank->activations = arena_array(&l->arena, struct activation, activations);
    rank->boundary_in = arena_array(&l->arena, uint32_t, (size_t)l->virtual_stages * rank->slots);
    rank->merged_items = arena_alloc(&l->arena, l->virtual_stages, sizeof *rank->merged_items);
    rank->merged_works = arena_alloc(&l->arena, l->virtual_stages, sizeof *rank->merged_works);
    bool buckets = true;
    join_alike(l, rank);
    for (uint32_t i = 0; i < l->layout_count; i++) {
        struct rank_layout *own = &rank->layouts[i];
        if (own->used) {
            own->bucket.layers = arena_array(&l->arena, uint32_t, rank->layer_count);
            own->bucket.buffers = arena_array(&l->arena, uint32_t, rank->layer_count);
            buckets = buckets && own->bucket.layers != NULL && own->bucket.buffers != NULL;
        }
    }
    rank->full_gradient = arena_array(&l->arena, uint32_t, rank->layer_count);
    rank->kept_gather = arena_array(&l->arena, uint32_t, rank->layer_count);
    if (rank->merged_items == NULL || rank->merged_works == NULL || rank->activations == NULL ||
        rank->boundary_in == NULL || !buckets || rank->full_gradient == NULL || rank->kept_gather == NULL) {
        no_memory(l);
        return l->status;
    }
    for (size_t i = 0; i < activations; i++) {
        rank->activations[i] = (struct activation){ SCHED_NONE, SCHED_NONE, SCHED_NONE, SCHED_NONE };
    }
    clear_ids(rank->boundary_in, (size_t)l->virtual_stages * rank->slots);
    clear_ids(rank->full_gradient, rank->layer_count);
    clear_ids(rank->kept_gather, rank->layer_count);
    return STATUS_OK;
}

/* Folded devices of this rank that share the representative's server. */
static uint32_t devices_in_server(const struct lowering *l, const uint32_t *devices, uint32_t count)
{
    uint32_t per_node = l->request->cluster->gpus_per_node, here = 0;
    for (uint32_t i = 0; i < count; i++) {
        here += devices[i] / per_node == devices[0] / per_node;
    }
    return here;
}

/* Recomputation as the policy wants it. */
static enum status ask_recompute(struct lowering *l, struct rank_state *rank)
{
    const struct memory_policy *policy = l->request->policy;
    uint8_t *modes = arena_array(&l->arena, uint8_t, rank->layer_count);
    if (policy->choose_recompute == NULL) {
        return STATUS_OK;
    }
    if (modes == NULL) {
        no_memory(l);
        return l->status;
    }
    for (uint32_t i = 0; i < rank->layer_count; i++) {
        modes[i] = (uint8_t)rank->layers[i].recompute;
    }
    policy->choose_recompute(l, modes);
    for (uint32_t i = 0; i < rank->layer_count; i++) {
        rank->layers[i].recompute = (enum recompute_mode)modes[i];
    }
    return l->status;
}

enum status lowering_open_rank(struct lowering *l, uint32_t stage, uint32_t d, uint32_t c, uint32_t t)
{
    struct rank_state *rank = arena_array(&l->arena, struct rank_state, 1);
    if (rank == NULL) {
        no_memory(l);
        return l->status;
    }
    *rank = (struct rank_state){ .stage = stage, .d = d, .c = c, .t = t, .device = lowering_gpu(l, stage, d, c, t) };
    rank->last_compute = SCHED_NONE;
    rank->last_data = SCHED_NONE;
    rank->small_tables = SCHED_NONE;
    rank->ahead_layer = rank->ahead_weights = rank->ahead_op = SCHED_NONE;
    rank->last_send = SCHED_NONE;
    rank->exchanged = SCHED_NONE;
    rank->lone_send = SCHED_NONE;
    rank->output = SCHED_NONE;
    rank->passing = SCHED_NONE;
    rank->tied_layer = SCHED_NONE;
    rank->gather_stage = SCHED_NONE;
    rank->reduce_stage = SCHED_NONE;
    rank->reduce_op = SCHED_NONE;
    clear_ids(rank->queues, QUEUE_CLASS_COUNT);
    clear_ids(rank->spaces, SPACE_KIND_COUNT);
    clear_ids(rank->pass_ends, PASS_ENDS);
    l->rank = rank;
    if (!l->fold) {
        clear_ids(l->pair_groups, (size_t)l->stages * l->stages);
    }
    for (uint32_t i = 0; i < l->group_sequence_capacity; i++) {
        l->group_sequence[i] = 0; /* each rank counts its collectives anew */
    }
    uint32_t count;
    uint32_t *devices = rank_devices(l, rank, &count);
    if (devices == NULL) {
        return l->status;
    }
    rank->host_copies = devices_in_server(l, devices, count);
    char label[64];
    if (l->fold) {
        snprintf(label, sizeof label, "stage %u", stage);
    } else if (l->mixed) {
        snprintf(label, sizeof label, "stage %u rank %u", stage, (d * l->context + c) * l->tensor + t);
    } else {
        snprintf(label, sizeof label, "stage %u data %u tensor %u", stage, d * l->context + c, t);
    }
    builder_rank(l->builder, devices, count, stage, label);
    TRY(list_layers(l, rank));
    rank->first = &rank->layouts[rank->layers[0].layout];
    bool tensor = false;
    for (uint32_t i = 0; i < rank->layer_count; i++) {
        tensor = tensor || rank->layers[i].tensor > 1;
    }
    rank->queues[QUEUE_COMPUTE] = builder_queue(l->builder, QUEUE_COMPUTE, "compute");
    rank->tensor_queue = tensor ? builder_queue(l->builder, QUEUE_COMM, "tensor") : SCHED_NONE;
    rank->data_queue = l->stages > 1 || l->stage_devices > 1 || l->unequal
                           ? builder_queue(l->builder, QUEUE_COMM, "data")
                           : SCHED_NONE;
    TRY(lowering_groups(l, rank));
    rank->tied_queue = l->request->order->asynchronous && rank->groups.embedding != SCHED_NONE
                           ? builder_queue(l->builder, QUEUE_COMM, "tied gradients")
                           : SCHED_NONE;
    TRY(lowering_templates(l, rank));
    TRY(rank_arrays(l, rank));
    const uint8_t always = BUFFER_LIVE_AT_START | BUFFER_LIVE_AT_END;
    for (uint32_t i = 0; i < rank->layer_count; i++) {
        struct lower_layer *layer = &rank->layers[i];
        size_layer(l, layer);
        layer->weight = place_buffer(l, layer, BUFFER_WEIGHT, layer->weight_bytes, always);
        stash_buffer(l, layer);
        bool made = lower_makes_gradients(l->request->software, l->request->policy, l->request->order,
                                          layer->zero_stage, layer->replicas);
        layer->gradient_life = made ? GRADIENT_TO_COME : GRADIENT_STAYS;
        layer->gradient = place_buffer(l, layer, BUFFER_GRADIENT, layer->gradient_bytes,
                                       layer->gradient_life == GRADIENT_STAYS ? always : 0);
        layer->optimizer = place_buffer(l, layer, BUFFER_OPTIMIZER, layer->optimizer_bytes, always);
    }
    TRY(ask_recompute(l, rank));
    bucket_buffer(l, rank);
    module_buffer(l, rank);
    runtime_buffer(l, rank);
    return l->status;
}
