/* Listing and screening, one (tensor, pipeline) pair a task. */
#include "strategies/planners/exhaustive_space.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/array.h"
#include "sim/base/check.h"
#include "sim/plan/order.h"
#include "strategies/planners/oracle.h"
#include "strategies/planners/oracle_pieces.h"

/* One (tensor, pipeline) pair. */
struct block {
    int64_t tensor, pipeline;
    struct space_candidate *items;
    size_t count, capacity;
    uint64_t refused;
    struct error error;
};

struct build {
    const struct space_request *request;
    struct {
        struct block *items;
        size_t count, capacity;
    } blocks;
};

static int64_t gpus_of(const struct space_request *request)
{
    return request->scenario->cluster.gpus;
}

static bool space_allows(const struct space_request *request, int64_t tensor, int64_t pipeline)
{
    int64_t gpus = gpus_of(request), data = gpus / (tensor * pipeline);
    switch (request->space) {
    case SPACE_FULL: return true;
    case SPACE_DP:
    case SPACE_SDP: return tensor == 1 && pipeline == 1;
    case SPACE_TP: return data == 1 && pipeline == 1;
    case SPACE_PP: return data == 1 && tensor == 1;
    case SPACE_3D: return data > 1 && tensor > 1 && pipeline > 1;
    case SPACE_DP_TP: return pipeline == 1;
    case SPACE_DP_PP: return tensor == 1;
    }
    return false;
}

/* ZeRO stages that a space allows. */
static void zero_range(const struct space_request *request, int64_t data, int64_t *first, int64_t *last)
{
    bool plain = request->space != SPACE_FULL && request->space != SPACE_SDP;
    *first = request->space == SPACE_SDP ? 3 : 0;
    *last = plain || data == 1 ? 0 : request->zero_max;
    *first = *first > *last ? *last : *first;
}

static enum status add(struct screen *screen, struct block *block, const struct screen_point *point,
                       struct error *error)
{
    struct space_candidate candidate = { .point = *point };
    TRY(screen_cost(screen, point, &candidate.cost, NULL, error));
    TRY(array_reserve(block, 1, error));
    block->items[block->count++] = candidate;
    return STATUS_OK;
}

/* All choices that leave order and batch alone. */
static enum status add_choices(struct screen *screen, const struct space_request *request, struct block *block,
                               struct screen_point point, struct error *error)
{
    int64_t first, last;
    zero_range(request, point.data, &first, &last);
    for (int mode = 0; mode < RECOMPUTE_MODE_COUNT; mode++) {
        for (int64_t zero = first; zero <= last; zero++) {
            point.recompute = (uint8_t)mode;
            point.zero_stage = zero;
            TRY(add(screen, block, &point, error));
        }
    }
    return STATUS_OK;
}

/* Whether order, batch, sequence and model take the point: the plan's own checks. */
static enum status check_point(const struct scenario *scenario, const struct screen_point *point, struct error *error)
{
    struct arena arena = { 0 };
    struct plan plan;
    enum status status = screen_plan(scenario, point, &plan, &arena, error);
    if (status == STATUS_OK) {
        status = plan_check(&plan, &scenario->model, error);
    }
    arena_free(&arena);
    return status;
}

static enum status add_order(struct screen *screen, const struct space_request *request, struct block *block,
                             const struct screen_point *point, struct error *error)
{
    struct error refusal;
    enum status status = check_point(request->scenario, point, &refusal);
    if (status == STATUS_NO_MEMORY) {
        return error_set(error, status, "out of memory planning");
    }
    if (status != STATUS_OK) {
        block->refused++;
        return STATUS_OK;
    }
    return add_choices(screen, request, block, *point, error);
}

static enum status add_chunks(struct screen *screen, const struct space_request *request, struct block *block,
                              struct screen_point point, struct error *error)
{
    int64_t layers = request->scenario->model.layers, per_stage = layers / point.pipeline;
    point.virtual_stages = 1;
    if (layers % point.pipeline == 0 || request->uneven) {
        TRY(add_order(screen, request, block, &point, error));
    }
    int64_t most = request->virtual_stages_max > 0 ? request->virtual_stages_max : per_stage;
    bool alike = model_is_uniform(&request->scenario->model);
    for (int64_t v = 2; alike && point.pipeline > 1 && v <= per_stage && v <= most; v++) {
        if (layers % (point.pipeline * v) == 0) {
            point.virtual_stages = v;
            TRY(add_order(screen, request, block, &point, error));
        }
    }
    return STATUS_OK;
}

static enum status fill_block(const struct space_request *request, struct block *block, struct error *error)
{
    struct screen *screen;
    struct screen_point point = { .tensor = block->tensor, .pipeline = block->pipeline };
    int64_t batch = request->scenario->plan.global_batch;
    point.data = gpus_of(request) / (point.tensor * point.pipeline);
    if (batch % point.data != 0) {
        block->refused++;
        return STATUS_OK;
    }
    TRY(screen_open(&screen, request->scenario, error));
    enum status status = STATUS_OK;
    int64_t own = batch / point.data;
    bool off = request->sequence_parallel != SEQUENCE_PARALLEL_ON || point.tensor == 1;
    bool on = request->sequence_parallel != SEQUENCE_PARALLEL_OFF && point.tensor > 1;
    for (point.micro_batch = 1; point.micro_batch <= own && status == STATUS_OK; point.micro_batch++) {
        if (own % point.micro_batch != 0) {
            continue;
        }
        for (int parallel = off ? 0 : 1; parallel <= (on ? 1 : 0) && status == STATUS_OK; parallel++) {
            point.sequence_parallel = parallel != 0;
            status = add_chunks(screen, request, block, point, error);
        }
    }
    screen_close(screen);
    return status;
}

static void run_block(void *context, uint32_t index)
{
    struct build *build = context;
    struct block *block = &build->blocks.items[index];
    block->error.status = fill_block(build->request, block, &block->error);
}

static enum status list_blocks(struct build *build, struct error *error)
{
    const struct space_request *request = build->request;
    const struct model *model = &request->scenario->model;
    int64_t gpus = gpus_of(request), most = request->tensor_max > 0 ? request->tensor_max : gpus;
    for (int64_t tensor = 1; tensor <= gpus && tensor <= most; tensor++) {
        if (gpus % tensor != 0 || !piece_tensor_divides(model, tensor)) {
            continue;
        }
        int64_t rest = gpus / tensor;
        for (int64_t pipeline = 1; pipeline <= rest && pipeline <= model->layers && pipeline <= ORDER_STAGES_MAX;
             pipeline++) {
            if (rest % pipeline == 0 && space_allows(request, tensor, pipeline)) {
                TRY(array_reserve(&build->blocks, 1, error));
                build->blocks.items[build->blocks.count++] = (struct block){ .tensor = tensor, .pipeline = pipeline };
            }
        }
    }
    return STATUS_OK;
}

static enum status join(struct build *build, struct space *space, struct error *error)
{
    for (size_t i = 0; i < build->blocks.count; i++) {
        struct block *block = &build->blocks.items[i];
        if (block->error.status != STATUS_OK) {
            if (error != NULL) {
                *error = block->error;
            }
            return block->error.status;
        }
        if (space->count + block->count > SPACE_CANDIDATES_MAX) {
            return error_set(error, STATUS_LIMIT,
                             "more than %d splits: narrow the space (--space, or max_tensor, max_zero, "
                             "max_virtual_stages of --variant)",
                             SPACE_CANDIDATES_MAX);
        }
        space->refused += block->refused;
        if (block->count > 0) {
            TRY(array_reserve(space, block->count, error));
            memcpy(space->items + space->count, block->items, block->count * sizeof *space->items);
            space->count += block->count;
        }
    }
    return STATUS_OK;
}

static enum status refuse_empty(const struct space_request *request, uint64_t refused, struct error *error)
{
    const struct scenario *scenario = request->scenario;
    static const char *const words[] = {
#define X(name, word) word,
        EXHAUSTIVE_SPACE_TABLE(X)
#undef X
    };
    return error_at(error, STATUS_BAD_INPUT, NULL, "$.training.global_batch",
                    "no split of %" PRIu32 " GPUs in space \"%s\" takes %s with a global batch of %" PRId64 ": %s",
                    scenario->cluster.gpus, words[request->space], scenario->model.name, scenario->plan.global_batch,
                    refused > 0 ? "the batch does not divide over the replicas; a multiple of the number of GPUs does"
                                : "the degrees it would need do not divide heads, feed-forward or layers");
}

enum status space_build(const struct space_request *request, struct space *space,
                        bool (*idle)(void *context, uint32_t done, uint32_t total), void *idle_context,
                        struct error *error)
{
    struct build build = { .request = request };
    *space = (struct space){ 0 };
    enum status status = list_blocks(&build, error);
    if (status == STATUS_OK) {
        uint32_t count = (uint32_t)build.blocks.count;
        space->interrupted = oracle_parallel(request->threads, count, run_block, &build, idle, idle_context) < count;
        status = join(&build, space, error);
    }
    for (size_t i = 0; i < build.blocks.count; i++) {
        free(build.blocks.items[i].items);
    }
    array_free(&build.blocks);
    if (status == STATUS_OK && space->count == 0 && !space->interrupted) {
        status = refuse_empty(request, space->refused, error);
    }
    if (status != STATUS_OK) {
        space_free(space);
    }
    return status;
}

void space_free(struct space *space)
{
    array_free(space);
}
