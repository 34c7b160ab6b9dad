/* Passes, Adam, iterations until the placement repeats. */
#include "sim/base/array.h"
#include "sim/base/check.h"
#include "strategies/policies/patrickstar_walk_internal.h"

enum { STEADY_ITERATIONS_MAX = 12 };

/* ---- passes ---- */

static bool is_tied(const struct walk *w, uint32_t layer, uint32_t unit)
{
    return unit == w->input->tied_unit && layer + 1 == w->layers;
}

/* Device bytes that a pass's chunks take together, with the others of their groups where these come along. */
static double pass_chunk_bytes(const struct walk *w, const struct walk_pass *pass)
{
    uint32_t layer = pass->layer;
    uint32_t size = w->input->budget.memory_saving ? 1 : w->ranks, previous = CHUNK_NONE;
    double bytes = 0;
    for (uint32_t i = 0; i < walk_unit_count(w, layer); i++) {
        uint32_t chunk = w->layout->unit_chunk[walk_unit(w, layer, i)];
        if (chunk != CHUNK_NONE && chunk / size != previous) {
            bool gradient = w->input->gradient_chunks && pass->backward && (size > 1 || walk_is_local(w, chunk));
            previous = chunk / size;
            bytes += (size + gradient) * 2.0 * (double)w->layout->capacity;
        }
    }
    return bytes;
}

static double nonmodel(const struct walk *w, uint32_t pass)
{
    return pass < w->input->pass_count ? w->input->passes[pass].nonmodel_bytes : 0;
}

static enum chunk_stage stage_of(const struct walk *w, uint32_t moment)
{
    return moment >= w->input->pass_count      ? STAGE_ADAM
           : w->input->passes[moment].backward ? STAGE_BACKWARD
                                               : STAGE_FORWARD;
}

static double device_budget(const struct walk *w, uint32_t moment)
{
    double before = moment > 0 ? nonmodel(w, moment - 1) : 0;
    enum chunk_stage stage = stage_of(w, moment);
    double budget = chunk_device_budget(&w->input->budget, stage, w->warmup, before, nonmodel(w, moment));
    if (stage != STAGE_ADAM && (w->warmup || w->input->budget.static_partition)) {
        /* The warm-up share is meant for the modules of a layer one after the other: it grants them all at once. */
        double layer = pass_chunk_bytes(w, &w->input->passes[moment]);
        return layer > budget ? layer : budget;
    }
    return budget;
}

static void set_budgets(struct walk *w, uint32_t moment)
{
    w->residency.now = moment;
    w->residency.budget[PLACE_DEVICE] = device_budget(w, moment);
    w->residency.budget[PLACE_HOST] = chunk_host_budget(&w->input->budget, stage_of(w, moment), w->warmup);
}

/* Room for a later pass, as long as what leaves is needed later than it. */
static bool make_room_ahead(struct walk *w, double bytes, uint32_t pass, double budget)
{
    struct chunk_residency *r = &w->residency;
    r->budget[PLACE_DEVICE] = budget;
    while (bytes > budget - r->used[PLACE_DEVICE]) {
        uint32_t leaving = chunk_victim(r, PLACE_DEVICE);
        if (leaving == r->chunk_count || chunk_next_use(&w->moments, leaving, PLACE_DEVICE, r->now) <= pass ||
            r->chunks[leaving].bytes[PLACE_HOST] > r->budget[PLACE_HOST] - r->used[PLACE_HOST]) {
            return false;
        }
        chunk_move_to(r, leaving, PLACE_HOST);
    }
    return true;
}

static bool prefetch_slot(struct walk *w, uint32_t slot, uint32_t pass, double budget)
{
    const struct resident_chunk *c = &w->residency.chunks[slot];
    if ((enum chunk_place)c->place != PLACE_HOST) {
        return true;
    }
    if (!make_room_ahead(w, c->bytes[PLACE_DEVICE], pass, budget)) {
        return false;
    }
    chunk_move_to(&w->residency, slot, PLACE_DEVICE);
    return true;
}

/* The chunk's group (memory saving: the chunk), if its own part is up and all that is missing has no payload. */
static bool prefetch_gather(struct walk *w, uint32_t chunk, uint32_t pass, double budget)
{
    bool saving = w->input->budget.memory_saving;
    uint32_t size = saving ? 1 : w->ranks, first = chunk / size * size, absent = 0;
    for (uint32_t i = first; i < first + size; i++) {
        enum chunk_place place = (enum chunk_place)walk_fp16(w, i)->place;
        absent += place == PLACE_NONE;
        if (place == PLACE_HOST) {
            return true;
        }
    }
    if (saving ? w->fetched[chunk] != 0 : absent == 0) {
        return true;
    }
    if (!make_room_ahead(w, absent * walk_slot_bytes(w->layout, walk_slot_fp16(first)), pass, budget)) {
        return false;
    }
    for (uint32_t i = first; i < first + size; i++) {
        if ((enum chunk_place)walk_fp16(w, i)->place == PLACE_NONE) {
            chunk_move_to(&w->residency, walk_slot_fp16(i), PLACE_DEVICE);
        }
        walk_move_chunk(w, i, STATE_GATHER);
        w->fetched[i] = saving;
    }
    walk_record(w, WALK_GATHER, walk_slot_fp16(first), true);
    return true;
}

static void prefetch(struct walk *w, uint32_t pass)
{
    double budget = w->residency.budget[PLACE_DEVICE];
    w->prefetching = true;
    bool room = true;
    for (uint32_t ahead = 1; ahead <= w->input->prefetch && pass + ahead < w->input->pass_count && room; ahead++) {
        double then = device_budget(w, pass + ahead);
        uint32_t layer = w->input->passes[pass + ahead].layer;
        budget = then < budget ? then : budget;
        for (uint32_t i = 0; i < walk_unit_count(w, layer) && room; i++) {
            uint32_t unit = walk_unit(w, layer, i), own = walk_own_chunk(w, unit);
            uint32_t chunk = w->layout->unit_chunk[unit];
            uint32_t gradient = w->input->passes[pass + ahead].backward && chunk != CHUNK_NONE
                                    ? walk_gradient_slot(w->input, chunk)
                                    : CHUNK_NONE;
            room = own == CHUNK_NONE || prefetch_slot(w, walk_slot_fp16(own), pass + ahead, budget);
            room = room && (gradient == CHUNK_NONE || prefetch_slot(w, gradient, pass + ahead, budget));
            if (room && w->input->prefetch_gathers && w->ranks > 1 && chunk != CHUNK_NONE) {
                room = prefetch_gather(w, chunk, pass + ahead, budget);
            }
        }
    }
    w->prefetching = false;
}

static enum status access_layer(struct walk *w, const struct walk_pass *pass)
{
    uint32_t count = walk_unit_count(w, pass->layer);
    enum state_event event = pass->backward ? STATE_BACKWARD_BEGIN : STATE_FORWARD_BEGIN;
    for (uint32_t i = 0; i < count; i++) {
        TRY(walk_access_unit(w, walk_unit(w, pass->layer, pass->backward ? count - 1 - i : i), event));
    }
    if (pass->backward && pass->recomputes && w->ranks > 1 && w->input->budget.preset == CHUNK_CODE) {
        return walk_gather_again(w, pass->layer);
    }
    return STATUS_OK;
}

static enum status release_layer(struct walk *w, uint32_t layer, enum tensor_state state)
{
    uint32_t previous = CHUNK_NONE;
    for (uint32_t i = 0; i < walk_unit_count(w, layer); i++) {
        uint32_t chunk = w->layout->unit_chunk[walk_unit(w, layer, i)];
        if (chunk != CHUNK_NONE && chunk != previous) {
            TRY(walk_release_chunk(w, chunk, state));
        }
        previous = chunk;
    }
    return STATUS_OK;
}

static enum status run_pass(struct walk *w, uint32_t moment)
{
    const struct walk_pass *pass = &w->input->passes[moment];
    w->after = false;
    set_budgets(w, moment);
    TRY(access_layer(w, pass));
    if (!w->warmup) {
        double beside = w->input->budget.gpu_bytes - pass->nonmodel_bytes;
        if (w->residency.used[PLACE_DEVICE] > beside) {
            w->residency.budget[PLACE_DEVICE] = beside;
            TRY(chunk_make_room(&w->residency, PLACE_DEVICE, 0, w->error));
        }
        if (w->input->prefetch > 0) {
            prefetch(w, moment);
        }
    }
    set_budgets(w, moment);
    w->after = true;
    for (uint32_t i = 0; i < walk_unit_count(w, pass->layer); i++) {
        uint32_t unit = walk_unit(w, pass->layer, i);
        /* a table's last backward is the embedding's */
        enum state_event backward = is_tied(w, pass->layer, unit) ? STATE_FILLED : STATE_BACKWARD_END;
        if (w->layout->unit_chunk[unit] != CHUNK_NONE) {
            walk_move_unit(w, unit, pass->backward ? backward : STATE_FORWARD_END);
            uint32_t gradient = walk_gradient_slot(w->input, w->layout->unit_chunk[unit]);
            if (gradient != CHUNK_NONE && pass->backward) {
                chunk_tensors_all(&w->residency.chunks[gradient].tensors, STATE_UPDATE_END);
            }
        }
    }
    return release_layer(w, pass->layer, pass->backward ? TENSOR_HOLD_AFTER_BACKWARD : TENSOR_HOLD_AFTER_FORWARD);
}

static void end_forward(struct walk *w)
{
    for (uint32_t c = 0; c < w->layout->padded_count; c++) {
        if ((enum chunk_place)walk_fp16(w, c)->place != PLACE_NONE) {
            walk_move_chunk(w, c, STATE_ALL_FORWARD_END);
            walk_fp16(w, c)->tensors.unused =
                0; /* every module of these models is used; one that waits here came again with a tied table */
        }
    }
}

/* ---- Adam ---- */

static void record_update(struct walk *w, enum walk_kind kind, uint32_t chunk)
{
    uint32_t gradient = walk_gradient_slot(w->input, chunk);
    const struct resident_chunk *fp16 = walk_fp16(w, chunk);
    const struct resident_chunk *from = gradient != CHUNK_NONE ? &w->residency.chunks[gradient] : fp16;
    walk_record(w, kind, walk_slot_fp16(chunk), (enum chunk_place)fp16->place == PLACE_DEVICE);
    if (w->status == STATUS_OK) {
        w->actions.items[w->actions.count - 1].gradient_on_device = (enum chunk_place)from->place == PLACE_DEVICE;
    }
}

/* A gradient of its own is used up. */
static void end_update(struct walk *w, uint32_t chunk)
{
    uint32_t gradient = walk_gradient_slot(w->input, chunk);
    walk_move_chunk(w, chunk, STATE_ADAM);
    if (gradient != CHUNK_NONE) {
        chunk_tensors_all(&w->residency.chunks[gradient].tensors, STATE_RELEASE);
        chunk_release_payload(&w->residency, gradient);
    }
}

static enum status update_chunk(struct walk *w, uint32_t chunk, enum chunk_place place)
{
    static const enum walk_list lists[] = { WALK_FP32, WALK_MOMENTUM, WALK_VARIANCE };
    for (uint32_t i = 0; i < 3; i++) {
        uint32_t slot = walk_slot(w->layout, lists[i], chunk);
        struct chunk_tensors *tensors = &w->residency.chunks[slot].tensors;
        TRY(chunk_access_at(&w->residency, slot, place, w->error));
        chunk_tensors_all(tensors, STATE_UPDATE_BEGIN);
    }
    record_update(w, place == PLACE_DEVICE ? WALK_ADAM_DEVICE : WALK_ADAM_HOST, chunk);
    for (uint32_t i = 0; i < 3; i++) {
        chunk_tensors_all(&w->residency.chunks[walk_slot(w->layout, lists[i], chunk)].tensors, STATE_UPDATE_END);
    }
    end_update(w, chunk);
    return STATUS_OK;
}

static enum status run_adam(struct walk *w)
{
    uint32_t number = 0;
    w->after = false;
    set_budgets(w, w->input->pass_count);
    for (uint32_t c = w->rank; c < w->layout->chunk_count; c += w->ranks) {
        enum chunk_place place = walk_adam_place(w, ++number);
        if (!walk_is_stored(w, c)) {
            TRY(update_chunk(w, c, place));
            continue;
        }
        record_update(w, WALK_ADAM_STORED, c);
        end_update(w, c);
    }
    return STATUS_OK;
}

/* An overflow in warm-up: gradients are dropped where Adam would have used them up. */
static void skip_adam(struct walk *w)
{
    for (uint32_t c = w->rank; c < w->layout->chunk_count; c += w->ranks) {
        end_update(w, c);
    }
}

static enum status run_iteration(struct walk *w)
{
    for (uint32_t k = 0; k < w->input->pass_count; k++) {
        if (k > 0 && w->input->passes[k].backward && !w->input->passes[k - 1].backward) {
            end_forward(w);
        }
        TRY(run_pass(w, k));
    }
    if (w->warmup && w->input->warmup_without_adam) {
        skip_adam(w);
        return w->status;
    }
    TRY(run_adam(w));
    return w->status;
}

/* ---- the steady iteration ---- */

static bool same_places(const struct walk *w, const uint8_t *places)
{
    for (uint32_t s = 0; s < w->residency.chunk_count; s++) {
        if (w->residency.chunks[s].place != places[s]) {
            return false;
        }
    }
    return true;
}

/* Chunks go back to where they were at the start: down first, so that there is room. */
static void restore(struct walk *w, const uint8_t *places)
{
    struct chunk_residency *r = &w->residency;
    for (uint32_t place = PLACE_COUNT; place-- > 0;) {
        for (uint32_t s = 0; s < r->chunk_count; s++) {
            if (r->chunks[s].place != places[s] && places[s] == place) {
                r->budget[PLACE_DEVICE] = r->budget[PLACE_HOST] = (double)UINT64_MAX;
                chunk_move_to(r, s, (enum chunk_place)place);
            }
        }
    }
}

static enum status steady(struct walk *w, struct walk_result *result)
{
    struct chunk_residency *r = &w->residency;
    w->warmup = false;
    do {
        w->actions.count = 0;
        r->moved_bytes[PLACE_DEVICE] = r->moved_bytes[PLACE_HOST] = 0;
        r->evictor.draws = 0;
        for (uint32_t s = 0; s < r->chunk_count; s++) {
            result->start_place[s] = r->chunks[s].place;
        }
        for (uint32_t place = 0; place < PLACE_COUNT; place++) {
            result->start_bytes[place] = w->peak_bytes[place] = r->used[place];
        }
        TRY(run_iteration(w));
        result->iterations++;
        result->repeats = same_places(w, result->start_place);
    } while (!result->repeats && result->iterations < STEADY_ITERATIONS_MAX);
    if (!result->repeats) {
        restore(w, result->start_place);
    }
    return w->status;
}

static enum status copy_actions(const struct walk *w, struct walk_result *result, struct arena *arena)
{
    result->action_count = (uint32_t)w->actions.count;
    result->actions = arena_array(arena, struct walk_action, result->action_count);
    if (result->actions == NULL) {
        return error_set(w->error, STATUS_NO_MEMORY, "out of memory for the moves of a step");
    }
    for (uint32_t i = 0; i < result->action_count; i++) {
        result->actions[i] = w->actions.items[i];
    }
    result->slot_count = w->residency.chunk_count;
    result->margin = w->margin;
    result->up_bytes = w->residency.moved_bytes[PLACE_DEVICE];
    result->down_bytes = w->residency.moved_bytes[PLACE_HOST];
    result->moments = w->moments;
    for (uint32_t place = 0; place < PLACE_COUNT; place++) {
        result->peak_bytes[place] = w->peak_bytes[place];
    }
    return STATUS_OK;
}

enum status walk_run(const struct walk_input *input, struct walk_result *result, struct arena *arena,
                     struct error *error)
{
    struct walk w = { .input = input,
                      .units = input->units,
                      .layout = input->layout,
                      .ranks = input->layout->ranks,
                      .rank = input->rank,
                      .warmup = true,
                      .error = error };
    *result = (struct walk_result){ 0 };
    for (uint32_t k = 0; k < input->pass_count; k++) {
        double bytes = input->passes[k].nonmodel_bytes;
        w.max_nonmodel = bytes > w.max_nonmodel ? bytes : w.max_nonmodel;
    }
    w.margin = chunk_margin(&input->budget, w.layout->padded_count, w.max_nonmodel);
    enum status status = walk_prepare(&w, arena);
    w.residency.changed = walk_place_changed;
    w.residency.context = &w;
    w.residency.evictor =
        (struct chunk_evictor){ .policy = input->eviction, .lookahead = input->lookahead, .seed = input->seed };
    status = status == STATUS_OK ? run_iteration(&w) : status;
    w.residency.evictor.moments = &w.moments;
    result->start_place = arena_array(arena, uint8_t, w.residency.chunk_count);
    if (status == STATUS_OK && result->start_place == NULL) {
        status = error_set(error, STATUS_NO_MEMORY, "out of memory for %u chunks", w.residency.chunk_count);
    }
    status = status == STATUS_OK ? steady(&w, result) : status;
    status = status == STATUS_OK ? copy_actions(&w, result, arena) : status;
    result->lack = w.residency.lack;
    array_free(&w.actions);
    return status;
}
