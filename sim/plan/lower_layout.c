/* The different splits of a plan's layers, and what moves between neighbours that are split differently (the rule is in plan_layers.h). */
#include "sim/base/check.h"
#include "sim/model/variant.h"
#include "sim/plan/lower_internal.h"

static enum status no_memory(struct lowering *l)
{
    return error_set(l->error, STATUS_NO_MEMORY, "out of memory while lowering");
}

static uint32_t last_position(const struct lowering *l)
{
    return (uint32_t)l->request->model->layers + 1;
}

static enum layer_kind kind_at(const struct lowering *l, uint32_t position)
{
    return plan_position_kind(l->request->model, position);
}

/* Of the layer at a position; of the next one at an end. */
static uint32_t variant_at(const struct lowering *l, uint32_t position)
{
    const struct model *model = l->request->model;
    int64_t layer = position == 0 ? 0 : (int64_t)position - 1;
    return model_layer_variant(model, layer < model->layers ? layer : model->layers - 1);
}

/* The layout of a position: an old one, or the next. */
static uint32_t find_layout(struct lowering *l, uint32_t position)
{
    const struct plan *plan = l->request->plan;
    struct plan_layer split = plan_layer_at(plan, l->request->model, position);
    uint32_t i = 0, variant = variant_at(l, position);
    while (i < l->layout_count &&
           (l->layouts[i].variant != variant || !plan_layer_equal(&l->layouts[i].split, &split))) {
        i++;
    }
    if (i == l->layout_count) {
        l->layouts[l->layout_count++] = (struct layout){ .split = split,
                                                         .variant = variant,
                                                         .tensor = (uint32_t)split.tensor,
                                                         .replicas = (uint32_t)split.data * l->context,
                                                         .zero_stage = (uint32_t)split.zero_stage };
    }
    return i;
}

static enum status build_graphs(struct lowering *l, struct layout *layout)
{
    const struct lower_request *request = l->request;
    layout->shape = plan_layer_shape(request->plan, request->model, request->software, &layout->split,
                                     request->order->splits_backward);
    layout->shape.variant = layout->variant;
    layout->built[LAYER_TRANSFORMER] = true;
    for (uint32_t kind = 0; kind < LAYER_KIND_COUNT; kind++) {
        if (layout->built[kind]) {
            TRY(layer_graph_build(&layout->graphs[kind], request->model, (enum layer_kind)kind, &layout->shape,
                                  &l->arena, l->error));
        }
    }
    return STATUS_OK;
}

enum status lowering_layouts(struct lowering *l)
{
    const struct lower_request *request = l->request;
    uint32_t positions = last_position(l) + 1;
    l->mixed = plan_is_mixed(request->plan, request->model);
    if (l->mixed) {
        /* a plan made by hand may come unchecked; the groups below rely on it */
        TRY(plan_layers_check(request->plan, request->model, l->error));
    }
    l->layout_at = arena_array(&l->arena, uint32_t, positions);
    bool differ = l->mixed || l->unequal || !model_is_uniform(request->model);
    l->layouts = arena_array(&l->arena, struct layout, differ ? positions : 1);
    if (l->layout_at == NULL || l->layouts == NULL) {
        return no_memory(l);
    }
    for (uint32_t i = 0; i < positions; i++) {
        l->layout_at[i] = find_layout(l, i);
        l->layouts[l->layout_at[i]].built[kind_at(l, i)] = true;
    }
    for (uint32_t i = 0; i < l->layout_count; i++) {
        TRY(build_graphs(l, &l->layouts[i]));
    }
    return STATUS_OK;
}

const struct layout *lowering_layout(const struct lowering *l, const struct lower_layer *layer)
{
    return &l->layouts[layer->layout];
}

struct rank_layout *lowering_rank_layout(const struct lowering *l, const struct lower_layer *layer)
{
    return &l->rank->layouts[layer->layout];
}

struct rank_layout *lowering_alike(const struct lowering *l, const struct lower_layer *layer)
{
    return lowering_rank_layout(l, layer)->alike;
}

uint32_t lowering_position(const struct lowering *l, const struct lower_layer *layer)
{
    return (uint32_t)plan_position_of(l->request->model, layer->kind, layer->model_index);
}

uint32_t lowering_first_position(const struct lowering *l, uint32_t virtual_stage)
{
    uint32_t stage = order_model_stage(l->request->order, &l->order_request, virtual_stage);
    uint32_t position = stage == 0 ? 0 : 1;
    for (uint32_t v = 0; v < stage; v++) {
        position += (uint32_t)l->request->plan->stage_layers[v];
    }
    return position;
}

uint32_t lowering_last_position(const struct lowering *l, uint32_t virtual_stage)
{
    return lowering_is_last(l, virtual_stage) ? last_position(l) : lowering_first_position(l, virtual_stage + 1) - 1;
}

bool lowering_stays(const struct lowering *l, uint32_t from_layout, uint32_t to_layout)
{
    const struct plan_layer *from = &l->layouts[from_layout].split, *to = &l->layouts[to_layout].split;
    return from->tensor == to->tensor && from->data_consecutive == to->data_consecutive;
}

/* ---- moves ---- */

/* The layer that takes in what lies between two neighbours, in the direction of the forward. */
static int64_t taking_layer(uint32_t from, uint32_t to)
{
    return (int64_t)(from > to ? from : to) - 1;
}

double lowering_crossing_bytes(const struct lowering *l, const struct layout *layout, uint32_t from, uint32_t to)
{
    return layer_crossing_bytes(l->request->model, &layout->shape, taking_layer(from, to));
}

double lowering_passing_bytes(const struct lowering *l, uint32_t to)
{
    return layer_passing_bytes(l->request->model, &l->layouts[l->layout_at[to]].shape, taking_layer(to - 1, to));
}

/* What goes from one position to its neighbour. */
struct move {
    const struct layout *from, *to;
    bool stays, exchange; /* exchange: sequence parallelism */
    struct plan_move pieces;
    double from_bytes, to_bytes; /* of all of it on a device, before and after */
    double piece_bytes;          /* 1/G of the micro-batch */
    uint32_t group;
    uint16_t layer; /* for the tag: of the taking layer */
};

static struct move move_between(const struct lowering *l, uint32_t from, uint32_t to)
{
    uint32_t a = l->layout_at[from], b = l->layout_at[to];
    struct move move = { .from = &l->layouts[a],
                         .to = &l->layouts[b],
                         .stays = lowering_stays(l, a, b),
                         .exchange = l->request->plan->sequence_parallel,
                         .group = SCHED_NONE,
                         .layer = kind_at(l, to) == LAYER_TRANSFORMER ? (uint16_t)(to - 1) : OP_TAG_NONE };
    move.from_bytes = lowering_crossing_bytes(l, move.from, from, to);
    move.to_bytes = a == b ? move.from_bytes : lowering_crossing_bytes(l, move.to, from, to);
    if (move.stays) {
        return move;
    }
    move.pieces = plan_move_between(&move.from->split, &move.to->split);
    move.piece_bytes = move.exchange ? move.from_bytes : move.from_bytes / move.from->tensor;
    move.group = l->rank->groups.moves[(size_t)a * l->layout_count + b];
    return move;
}

static uint32_t boundary_buffer(struct lowering *l, double bytes, const char *label)
{
    return lower_buffer(l, SPACE_DEVICE, bytes, BUFFER_BOUNDARY, 0, label);
}

static void tag(struct lowering *l, const struct move *move, uint32_t chunk, uint32_t micro_batch)
{
    builder_tag(l->builder, (uint16_t)micro_batch, (uint16_t)chunk, move->layer);
}

/* Copies out the pieces that are kept, into a buffer that it acquires, and releases `source`. Returns the buffer. */
static uint32_t slice(struct lowering *l, const struct move *move, uint32_t source, bool backward, uint32_t chunk,
                      uint32_t micro_batch)
{
    double bytes = move->piece_bytes * (double)move->pieces.kept;
    uint32_t part = boundary_buffer(l, bytes, "slice for the next layout");
    lower_next_acquires(l, part);
    lowering_memory_kernel(l, KERNEL_ELEMENTWISE, bytes, bytes, 1, backward ? PHASE_BACKWARD : PHASE_FORWARD);
    builder_release(l->builder, source);
    tag(l, move, chunk, micro_batch);
    return part;
}

/* The all-gather, or the exchange, on the compute queue as tensor-parallel collectives are. */
static void collect(struct lowering *l, const struct move *move, enum op_phase phase, uint32_t chunk,
                    uint32_t micro_batch)
{
    uint32_t size =
        (uint32_t)(move->exchange ? plan_exchange_size(&move->from->split, &move->to->split) : move->pieces.gathered);
    lowering_collective(l, move->exchange ? OP_ALL_TO_ALL : OP_ALL_GATHER, l->rank->queues[QUEUE_COMPUTE], move->group,
                        l->fold ? 1 : size, move->to_bytes, l->request->plan->precision, phase);
    tag(l, move, chunk, micro_batch);
}

/* What the layer at `from` made is no buffer of its own (the taking layer's saved input counts it): it is one for as long as it moves. */
void lowering_redistribute(struct lowering *l, uint32_t from, uint32_t to, uint32_t chunk, uint32_t micro_batch)
{
    struct move move = move_between(l, from, to);
    if (move.stays) {
        return;
    }
    uint32_t held = boundary_buffer(l, move.from_bytes, "output in the layout before");
    lower_next_acquires(l, held);
    if (!move.exchange && move.pieces.sliced) {
        held = slice(l, &move, held, from > to, chunk, micro_batch);
    }
    if (move.group != SCHED_NONE) {
        uint32_t whole = boundary_buffer(l, move.to_bytes, "input in the next layout");
        lower_next_acquires(l, whole);
        collect(l, &move, PHASE_TENSOR_COMM, chunk, micro_batch);
        builder_release(l->builder, whole);
    }
    builder_release(l->builder, held);
}

/* The whole block of the taking layer: what is missing is gathered in place; what is exchanged has as many bytes before. */
double lowering_arriving_bytes(const struct lowering *l, uint32_t from, uint32_t to)
{
    return lowering_crossing_bytes(l, &l->layouts[l->layout_at[to]], from, to);
}

double lowering_sent_bytes(const struct lowering *l, uint32_t from, uint32_t to)
{
    struct move move = move_between(l, from, to);
    if (l->scatters || (move.exchange && !move.stays)) {
        return l->scatters ? move.from_bytes / move.from->tensor : move.from_bytes;
    }
    return move.stays ? move.from_bytes : move.piece_bytes * (double)move.pieces.kept;
}

void lowering_slice_output(struct lowering *l, uint32_t from, uint32_t to, uint32_t chunk, uint32_t micro_batch)
{
    struct move move = move_between(l, from, to);
    if (!move.stays && !move.exchange && !l->scatters && move.pieces.sliced) {
        l->rank->output = slice(l, &move, l->rank->output, from > to, chunk, micro_batch);
    }
}

uint32_t lowering_complete(struct lowering *l, uint32_t buffer, uint32_t from, uint32_t to, uint32_t chunk,
                           uint32_t micro_batch)
{
    struct move move = move_between(l, from, to);
    struct rank_layout *own = &l->rank->layouts[l->layout_at[to]];
    if (l->scatters && own->tensor != SCHED_NONE) {
        /* scatter/gather optimization (Narayanan et al. 2021, section 4.1): each tensor rank got 1/t, NVLink puts it together */
        lowering_collective(l, OP_ALL_GATHER, l->rank->queues[QUEUE_COMPUTE], own->tensor, own->tensor_present,
                            move.to_bytes, l->request->plan->precision, PHASE_PIPELINE_COMM);
    } else if (!l->scatters && move.group != SCHED_NONE && !move.exchange) {
        collect(l, &move, PHASE_TENSOR_COMM, chunk, micro_batch); /* in place */
    } else if (move.group != SCHED_NONE && move.exchange) {
        uint32_t whole = lower_buffer(l, SPACE_DEVICE, move.to_bytes, from > to ? BUFFER_BOUNDARY : BUFFER_ACTIVATION,
                                      0, "exchanged");
        lower_next_acquires(l, whole);
        collect(l, &move, PHASE_TENSOR_COMM, chunk, micro_batch);
        builder_release(l->builder, buffer);
        return whole;
    }
    return buffer;
}
