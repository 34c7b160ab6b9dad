/* One iteration in the simulator, with memory to spare: what fits has no wait for memory in it, and runs the same on the real capacity. */
#include <math.h>
#include <string.h>

#include "sim/base/check.h"
#include "sim/base/units.h"
#include "sim/ir/timeline.h"
#include "sim/plan/plan_order.h"
#include "strategies/planners/mpress_internal.h"
#include "strategies/policies/mpress_versions.h"

static enum status no_memory(struct error *error)
{
    return error_set(error, STATUS_NO_MEMORY, "out of memory planning");
}

enum status mpress_view_new(const struct mpress_case *c, struct mpress_view *view, struct error *error)
{
    size_t intervals = (size_t)c->positions * c->instances;
    view->peak_bytes = arena_array(c->arena, double, c->stages);
    view->peak_ps = arena_array(c->arena, int64_t, c->stages);
    view->forward_end_ps = arena_array(c->arena, int64_t, intervals);
    view->backward_start_ps = arena_array(c->arena, int64_t, intervals);
    return view->peak_bytes == NULL || view->peak_ps == NULL || view->forward_end_ps == NULL ||
                   view->backward_start_ps == NULL
               ? no_memory(error)
               : STATUS_OK;
}

void mpress_view_assign(const struct mpress_case *c, struct mpress_view *to, const struct mpress_view *from)
{
    size_t intervals = (size_t)c->positions * c->instances;
    to->result = from->result;
    to->over_bytes = from->over_bytes;
    memcpy(to->peak_bytes, from->peak_bytes, c->stages * sizeof *to->peak_bytes);
    memcpy(to->peak_ps, from->peak_ps, c->stages * sizeof *to->peak_ps);
    memcpy(to->forward_end_ps, from->forward_end_ps, intervals * sizeof *to->forward_end_ps);
    memcpy(to->backward_start_ps, from->backward_start_ps, intervals * sizeof *to->backward_start_ps);
}

bool mpress_fits(const struct mpress_view *view)
{
    return view->result.verdict == ORACLE_RAN && !(view->over_bytes > 0);
}

void mpress_set_budget(struct mpress_case *c, double budget_bytes)
{
    c->budget_bytes = budget_bytes;
    c->unsaved.over_bytes = 0; /* nothing lies on the host */
    for (uint32_t s = 0; s < c->stages; s++) {
        c->unsaved.over_bytes += fmax(0, c->unsaved.peak_bytes[s] - budget_bytes);
    }
}

bool mpress_better(const struct mpress_view *a, const struct mpress_view *b)
{
    if (a->result.verdict != ORACLE_RAN || b->result.verdict != ORACLE_RAN) {
        return a->result.verdict == ORACLE_RAN && b->result.verdict != ORACLE_RAN;
    }
    return a->over_bytes != b->over_bytes ? a->over_bytes < b->over_bytes
                                          : a->result.step_time_s < b->result.step_time_s;
}

static void read_intervals(const struct mpress_case *c, const struct schedule *s, const struct timeline *timeline,
                           struct mpress_view *view)
{
    for (size_t i = 0; i < (size_t)c->positions * c->instances; i++) {
        view->forward_end_ps[i] = 0;
        view->backward_start_ps[i] = INT64_MAX;
    }
    for (uint32_t i = 0; i < s->op_count; i++) {
        const struct sched_op *op = &s->ops[i];
        if (op->layer == OP_TAG_NONE || op->micro_batch == OP_TAG_NONE || op->opcode != OP_COMPUTE) {
            continue;
        }
        size_t at = ((size_t)op->layer + 1) * c->instances + op->micro_batch;
        CHECK(at < (size_t)c->positions * c->instances);
        const struct op_times *times = &timeline->ops[i];
        if (op->phase == PHASE_FORWARD && times->end_ps > view->forward_end_ps[at]) {
            view->forward_end_ps[at] = times->end_ps;
        } else if ((op->phase == PHASE_BACKWARD || op->phase == PHASE_RECOMPUTE) &&
                   times->start_ps < view->backward_start_ps[at]) {
            view->backward_start_ps[at] = times->start_ps;
        }
    }
}

static uint32_t stage_on(const struct mpress_case *c, const struct plan *plan, uint32_t device)
{
    for (uint32_t s = 0; s < c->stages && plan->stage_places != NULL; s++) {
        if (plan->stage_places[s] == (int64_t)device) {
            return s;
        }
    }
    return device;
}

static void read_memory(const struct mpress_case *c, const struct plan *plan, const struct schedule *s,
                        const struct timeline *timeline, struct mpress_view *view)
{
    view->over_bytes = 0;
    for (uint32_t i = 0; i < s->space_count; i++) {
        const struct space_use *use = &timeline->spaces[i];
        double budget = (double)s->spaces[i].capacity_bytes;
        if (s->spaces[i].kind == SPACE_DEVICE) {
            uint32_t stage = stage_on(c, plan, s->spaces[i].location);
            budget = c->budget_bytes;
            view->peak_bytes[stage] = (double)use->peak_bytes;
            view->peak_ps[stage] = use->peak_time_ps;
        }
        view->over_bytes += fmax(0, (double)use->peak_bytes - budget);
    }
}

struct emulation {
    struct arena arena;
    struct plan plan;
    struct schedule schedule;
    struct timeline timeline;
};

static void emulation_free(struct emulation *e)
{
    timeline_free(&e->timeline);
    schedule_free(&e->schedule);
    arena_free(&e->arena);
}

/* Without a model of the allocator: it decides nothing here, and is asked about the answer (mpress_answer.c). The caller frees it, also after an error. */
static enum status emulate(struct mpress_case *c, const struct mpress_choices *choices,
                           const struct timeline_watch *watch, struct emulation *e, struct error *error)
{
    struct software software = c->scenario->software;
    software.allocator = ALLOCATOR_EXACT;
    c->emulations++;
    TRY(mpress_choices_plan(c, choices, &e->plan, &e->arena, error));
    enum status status = oracle_simulate(c->scenario, &software, &e->plan, watch, &e->schedule, &e->timeline, error);
    c->ops += e->schedule.op_count;
    return status;
}

static void read_view(const struct mpress_case *c, const struct emulation *e, struct mpress_view *view)
{
    oracle_figures(&e->schedule, &e->timeline, &view->result);
    read_memory(c, &e->plan, &e->schedule, &e->timeline, view);
    read_intervals(c, &e->schedule, &e->timeline, view);
}

enum status mpress_emulate(struct mpress_case *c, const struct mpress_choices *choices, struct mpress_view *view,
                           struct error *error)
{
    struct emulation e = { 0 };
    view->result = (struct oracle_result){ 0 };
    enum status status = emulate(c, choices, NULL, &e, error);
    if (status == STATUS_OK) {
        read_view(c, &e, view);
    }
    emulation_free(&e);
    return status;
}

/* ---- against the best so far ---- */

enum { LOOK_EVERY = 32 }; /* instants: a look costs about what an instant does */

/* What the watch of an iteration knows. */
struct rivalry {
    const struct mpress_case *c;
    const struct schedule *schedule;
    const struct mpress_view *best;
    uint32_t instants, first,
        last; /* ops that begin the steps between which is measured; SCHED_NONE: from 0 to the end */
    bool beaten;
};

/* The two that timeline_step goes by, as soon as the schedule is there. */
static void find_window(struct rivalry *r)
{
    const struct schedule *s = r->schedule;
    const struct sched_rank *rank = &s->ranks[0];
    r->first = r->last = SCHED_NONE;
    for (uint32_t op = rank->first_op; op < rank->first_op + rank->op_count; op++) {
        if (s->ops[op].flags & OP_FLAG_STEP) {
            r->first = r->last;
            r->last = op;
        }
    }
}

/* Peaks and the measured step only grow, so what is beyond the best now stays beyond it. Of host memory nothing is known here (its capacity is lent), which errs towards going on. */
static bool may_be_better(void *context, int64_t now_ps, const struct timeline *so_far)
{
    struct rivalry *r = context;
    if (r->instants == 0) {
        find_window(r);
    }
    if (r->instants++ % LOOK_EVERY != 0) {
        return true;
    }
    double over = 0, step_s = 0;
    for (uint32_t i = 0; i < r->schedule->space_count; i++) {
        if (r->schedule->spaces[i].kind == SPACE_DEVICE) {
            over += fmax(0, (double)so_far->spaces[i].peak_bytes - r->c->budget_bytes);
        }
    }
    if (r->first == SCHED_NONE) {
        step_s = s_from_ps(now_ps);
    } else if (so_far->ops[r->first].start_ps > 0) {
        int64_t last_ps = so_far->ops[r->last].start_ps;
        step_s = s_from_ps((last_ps > 0 ? last_ps : now_ps) - so_far->ops[r->first].start_ps);
    }
    r->beaten = over > r->best->over_bytes || (over == r->best->over_bytes && step_s >= r->best->result.step_time_s);
    return !r->beaten;
}

enum status mpress_emulate_against(struct mpress_case *c, const struct mpress_choices *choices,
                                   const struct mpress_view *best, struct mpress_view *view, bool *better,
                                   struct error *error)
{
    struct emulation e = { 0 };
    struct rivalry rivalry = { .c = c, .schedule = &e.schedule, .best = best };
    const struct timeline_watch watch = { may_be_better, &rivalry };
    CHECK(best->result.verdict == ORACLE_RAN);
    *better = false;
    view->result = (struct oracle_result){ 0 };
    enum status status = emulate(c, choices, &watch, &e, error);
    if (status == STATUS_OK) {
        read_view(c, &e, view);
        *better = mpress_better(view, best);
    } else if (rivalry.beaten) {
        error->status = status = STATUS_OK;
    }
    emulation_free(&e);
    return status;
}

/* ---- profile ---- */

static enum status find_versions(struct mpress_case *c, struct error *error)
{
    const struct pipeline_order *order = plan_order(&c->base, NULL);
    const struct order_request request = plan_order_request(&c->base);
    c->versions = arena_array(c->arena, uint32_t, c->stages);
    if (c->versions == NULL) {
        return no_memory(error);
    }
    for (uint32_t s = 0; s < c->stages; s++) {
        bool may = (c->allowed & MPRESS_VERSIONS) != 0;
        c->versions[s] = may ? mpress_versions_moving(order, &request, s) : 0;
    }
    return STATUS_OK;
}

/* Positions of each stage in the order of its rank's layers. */
static void find_stages(const struct mpress_case *c)
{
    const struct pipeline_order *order = plan_order(&c->base, NULL);
    const struct order_request request = plan_order_request(&c->base);
    uint32_t count = c->stages * (uint32_t)c->base.virtual_stages, position = 0, chunk;
    for (uint32_t v = 0; v < count; v++) {
        int64_t layers = c->base.stage_layers[v] + (v == 0) + (v + 1 == count);
        for (int64_t i = 0; i < layers; i++) {
            order_holder(order, &request, v, &c->layers[position++].stage, &chunk);
        }
    }
    CHECK(position == c->positions);
}

/* A pass of the step that is measured. */
static bool is_settled(const struct mpress_case *c, const struct sched_op *op)
{
    return op->micro_batch != OP_TAG_NONE && op->micro_batch >= c->settled &&
           op->micro_batch < c->settled + c->micro_batches;
}

/* Activations that a layer's forward takes for one micro-batch, by position. */
static void read_saved(const struct mpress_case *c, const struct schedule *s, bool recomputed)
{
    CHECK(s->operands != NULL && s->buffers != NULL);
    for (uint32_t i = 0; i < s->op_count; i++) {
        const struct sched_op *op = &s->ops[i];
        if (op->layer == OP_TAG_NONE || op->micro_batch != c->settled || op->opcode != OP_COMPUTE ||
            op->phase != PHASE_FORWARD) {
            continue;
        }
        struct mpress_layer *layer = &c->layers[op->layer + 1];
        for (uint32_t k = 0; k < op->acquire_count; k++) {
            const struct sched_buffer *buffer = &s->buffers[sched_acquires(s, op)[k]];
            if (buffer->buffer_class == BUFFER_ACTIVATION) {
                *(recomputed ? &layer->kept_bytes : &layer->saved_bytes) += (double)buffer->bytes;
            }
        }
    }
}

static void read_recompute(const struct mpress_case *c, const struct schedule *s, const struct timeline *timeline)
{
    CHECK(timeline->ops != NULL);
    for (uint32_t i = 0; i < s->op_count; i++) {
        const struct sched_op *op = &s->ops[i];
        if (is_settled(c, op) && op->layer != OP_TAG_NONE && op->phase == PHASE_RECOMPUTE) {
            c->layers[op->layer + 1].recompute_s +=
                s_from_ps(timeline->ops[i].end_ps - timeline->ops[i].start_ps) / c->micro_batches;
        }
    }
}

/* A rank makes its layers' buffers one after the other: its n-th optimizer buffer is that of its n-th layer. Chunks of a stage follow each other in the model's order. */
static void read_states(const struct mpress_case *c, const struct schedule *s)
{
    const struct software *software = &c->scenario->software;
    for (uint32_t stage = 0; stage < c->stages; stage++) {
        uint32_t position = 0;
        for (uint32_t i = 0; i < s->buffer_count; i++) {
            const struct sched_buffer *buffer = &s->buffers[i];
            const struct sched_space *space = &s->spaces[buffer->space];
            if (buffer->buffer_class != BUFFER_OPTIMIZER || space->kind != SPACE_DEVICE || space->location != stage) {
                continue;
            }
            while (position < c->positions && c->layers[position].stage != stage) {
                position++;
            }
            CHECK(position < c->positions);
            struct mpress_layer *layer = &c->layers[position++];
            layer->state_bytes = (double)buffer->bytes;
            layer->parameters = (double)buffer->bytes / (software->master_bytes + software->moments_bytes);
            layer->weight_bytes = ceil(layer->parameters * software->weight_bytes);
        }
    }
}

/* What lives all the time, and is neither state nor activation nor a version that can leave. */
static enum status read_floor(struct mpress_case *c, const struct schedule *s, struct error *error)
{
    c->floor_bytes = arena_array(c->arena, double, c->stages);
    if (c->floor_bytes == NULL) {
        return no_memory(error);
    }
    for (uint32_t i = 0; i < s->buffer_count; i++) {
        const struct sched_buffer *buffer = &s->buffers[i];
        const struct sched_space *space = &s->spaces[buffer->space];
        bool moves = buffer->buffer_class == BUFFER_OPTIMIZER || buffer->buffer_class == BUFFER_ACTIVATION;
        if (space->kind == SPACE_DEVICE && !moves && buffer->flags == (BUFFER_LIVE_AT_START | BUFFER_LIVE_AT_END)) {
            c->floor_bytes[space->location] += (double)buffer->bytes * buffer->copies;
        }
    }
    for (uint32_t i = 0; i < c->positions; i++) {
        const struct mpress_layer *layer = &c->layers[i];
        c->floor_bytes[layer->stage] -= layer->weight_bytes * c->versions[layer->stage];
    }
    return STATUS_OK;
}

uint32_t mpress_hopeless_stage(const struct mpress_case *c, bool versions_stay)
{
    for (uint32_t stage = 0; stage < c->stages; stage++) {
        double bytes = c->floor_bytes[stage];
        for (uint32_t i = 0; i < c->positions && versions_stay; i++) {
            bytes += c->layers[i].stage == stage ? c->layers[i].weight_bytes * c->versions[stage] : 0;
        }
        if (bytes > c->budget_bytes) {
            return stage;
        }
    }
    return c->stages;
}

static enum status find_passes(struct mpress_case *c, const struct schedule *s, const struct timeline *timeline,
                               struct error *error)
{
    uint32_t *counts = arena_array(c->arena, uint32_t, c->stages);
    c->pass_s = arena_array(c->arena, double, c->stages);
    if (counts == NULL || c->pass_s == NULL) {
        return no_memory(error);
    }
    CHECK(timeline->ops != NULL);
    for (uint32_t i = 0; i < s->op_count; i++) {
        const struct sched_op *op = &s->ops[i];
        if (is_settled(c, op) && op->opcode == OP_COMPUTE &&
            (op->phase == PHASE_FORWARD || op->phase == PHASE_BACKWARD)) {
            uint32_t stage = s->ranks[sched_op_rank(s, op)].stage;
            c->pass_s[stage] += s_from_ps(timeline->ops[i].end_ps - timeline->ops[i].start_ps);
        }
    }
    for (uint32_t i = 0; i < c->positions; i++) {
        counts[c->layers[i].stage] += 2 * c->micro_batches;
    }
    for (uint32_t stage = 0; stage < c->stages; stage++) {
        c->cycle_s = fmax(c->cycle_s, c->pass_s[stage] / c->micro_batches);
        c->pass_s[stage] /= counts[stage];
    }
    return STATUS_OK;
}

/* Direct links between devices of one server; on a switch, the links to it: any peer is then as near as any other. */
static enum status find_links(struct mpress_case *c, struct error *error)
{
    const struct machine *machine = &c->scenario->machine;
    uint32_t *to_switch = arena_array(c->arena, uint32_t, c->stages), n = c->stages;
    c->links = arena_array(c->arena, uint32_t, (size_t)n * n);
    if (c->links == NULL || to_switch == NULL) {
        return no_memory(error);
    }
    uint32_t per_node = c->scenario->cluster.gpus_per_node;
    for (uint32_t i = 0; i < machine->link_count; i++) {
        const struct machine_link *link = &machine->links[i];
        const struct machine_part *a = &machine->parts[link->a], *b = &machine->parts[link->b];
        uint32_t lanes = link->lanes > 0 ? link->lanes : 1;
        for (uint32_t g = 0; g < n; g++) {
            bool is_a = a->kind == PART_GPU && a->index == g % per_node;
            bool is_b = b->kind == PART_GPU && b->index == g % per_node;
            to_switch[g] += (is_a && b->kind == PART_NVSWITCH) || (is_b && a->kind == PART_NVSWITCH) ? lanes : 0;
            for (uint32_t h = 0; h < n && is_a && b->kind == PART_GPU; h++) {
                if (h / per_node == g / per_node && b->index == h % per_node) {
                    c->links[g * n + h] += lanes;
                    c->links[h * n + g] += lanes;
                }
            }
        }
    }
    for (uint32_t g = 0; g < n; g++) {
        for (uint32_t h = 0; h < n; h++) {
            if (g != h && g / per_node == h / per_node && c->links[g * n + h] == 0 && to_switch[g] > 0) {
                c->links[g * n + h] = to_switch[h];
            }
        }
    }
    return STATUS_OK;
}

/* One iteration in which all that may is recomputed, or nothing moves; of the latter the view, too. */
static enum status profile_once(struct mpress_case *c, const struct mpress_choices *choices, bool recomputed,
                                struct error *error)
{
    struct emulation e = { 0 };
    enum status status = emulate(c, choices, NULL, &e, error);
    if (status == STATUS_OK) {
        read_saved(c, &e.schedule, recomputed);
        if (recomputed) {
            read_recompute(c, &e.schedule, &e.timeline);
        } else {
            read_view(c, &e, &c->unsaved);
            read_states(c, &e.schedule);
            status = find_passes(c, &e.schedule, &e.timeline, error);
            status = status == STATUS_OK ? read_floor(c, &e.schedule, error) : status;
        }
    }
    emulation_free(&e);
    return status;
}

enum status mpress_profile(struct mpress_case *c, struct error *error)
{
    struct mpress_choices nothing, all;
    c->layers = arena_array(c->arena, struct mpress_layer, c->positions);
    if (c->layers == NULL) {
        return no_memory(error);
    }
    TRY(mpress_choices_new(c, &nothing, c->arena, error));
    TRY(mpress_choices_new(c, &all, c->arena, error));
    TRY(mpress_view_new(c, &c->unsaved, error));
    for (uint32_t i = 1; i + 1 < c->positions; i++) {
        all.of[i].target[MOVE_ACTIVATION] = MOVE_TO_RECOMPUTE;
    }
    find_stages(c);
    TRY(find_versions(c, error));
    TRY(find_links(c, error));
    TRY(profile_once(c, &nothing, false, error));
    return profile_once(c, &all, true, error);
}
