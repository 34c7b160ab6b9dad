/* Checking, reading and printing plan.moves and plan.stage_places. */
#include "sim/plan/plan_moves.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "sim/base/check.h"
#include "sim/plan/order.h"
#include "sim/plan/policy.h"
#include "sim/plan/scenario_keys.h"
#include "strategies/registry.h"

static const char *const TENSORS[MOVE_TENSOR_COUNT] = { "activation", "optimizer", "version" };
static const char *const TARGETS[MOVE_TARGET_COUNT] = { "host", "devices", "cpu", "recompute" };

static enum status no_memory(struct error *error)
{
    return error_set(error, STATUS_NO_MEMORY, "out of memory reading a plan");
}

const struct tensor_move *plan_moves_find(const struct plan *plan, enum tensor_move_what tensor, int64_t position)
{
    for (uint32_t i = 0; i < plan->move_count; i++) {
        const struct tensor_move *move = &plan->moves[i];
        if (move->tensor == tensor && move->first <= position && position <= move->last) {
            return move;
        }
    }
    return NULL;
}

/* ---- checks ---- */

#define REFUSE(error, path, ...) error_at(error, STATUS_BAD_INPUT, NULL, path, __VA_ARGS__)

static enum status check_places(const struct plan *plan, struct error *error)
{
    for (int64_t s = 0; plan->stage_places != NULL && s < plan->pipeline; s++) {
        int64_t place = plan->stage_places[s];
        for (int64_t before = 0; before < s; before++) {
            if (plan->stage_places[before] == place) {
                return REFUSE(error, "$.plan.stage_places",
                              "stages %" PRId64 " and %" PRId64 " both take place %" PRId64 ": each of 0 to %" PRId64
                              " must stand once",
                              before, s, place, plan->pipeline - 1);
            }
        }
        if (place < 0 || place >= plan->pipeline) {
            return REFUSE(error, "$.plan.stage_places",
                          "stage %" PRId64 " takes place %" PRId64 ": allowed is 0 to %" PRId64, s, place,
                          plan->pipeline - 1);
        }
    }
    return STATUS_OK;
}

static enum status check_stripes(const struct plan *plan, const struct tensor_move *move, const char *path,
                                 struct error *error)
{
    if ((move->target == MOVE_TO_DEVICES) != (move->stripe_count > 0)) {
        return REFUSE(error, path, "\"stripes\" says which stages' devices hold it: %s",
                      move->stripe_count > 0 ? "only \"to\": \"devices\" has them"
                                             : "\"to\": \"devices\" needs at least one");
    }
    for (uint32_t i = 0; i < move->stripe_count; i++) {
        if (move->stripes[i].stage >= plan->pipeline) {
            return REFUSE(error, path, "a stripe on stage %" PRId64 ": parallel.pipeline makes stages 0 to %" PRId64,
                          move->stripes[i].stage, plan->pipeline - 1);
        }
        for (uint32_t before = 0; before < i; before++) {
            if (move->stripes[before].stage == move->stripes[i].stage) {
                return REFUSE(error, path, "two stripes on stage %" PRId64 ": say one with both shares",
                              move->stripes[i].stage);
            }
        }
    }
    return STATUS_OK;
}

static enum status check_move(const struct plan *plan, const struct model *model, uint32_t index, struct error *error)
{
    const struct tensor_move *move = &plan->moves[index];
    char path[64];
    snprintf(path, sizeof path, "$.plan.moves[%" PRIu32 "]", index);
    bool ends = move->first < 1 || move->last > model->layers;
    if (move->tensor == MOVE_ACTIVATION && ends) {
        return REFUSE(error, path, "only transformer layers' activations move: give \"layers\": [first, last]");
    }
    if ((move->tensor != MOVE_OPTIMIZER && move->target == MOVE_TO_CPU) ||
        (move->tensor != MOVE_ACTIVATION && move->target == MOVE_TO_RECOMPUTE)) {
        static const char *const more[MOVE_TENSOR_COUNT] = { ", recompute", ", cpu", "" };
        return REFUSE(error, path, "%s %s cannot go to \"%s\": allowed are host, devices%s",
                      move->tensor == MOVE_VERSION ? "a" : "an", TENSORS[move->tensor], TARGETS[move->target],
                      more[move->tensor]);
    }
    for (uint32_t before = 0; before < index; before++) {
        const struct tensor_move *other = &plan->moves[before];
        if (other->tensor == move->tensor && other->first <= move->last && move->first <= other->last) {
            return REFUSE(error, path, "moves %" PRIu32 " and %" PRIu32 " both speak of the %s of a layer", before,
                          index, TENSORS[move->tensor]);
        }
    }
    return check_stripes(plan, move, path, error);
}

enum status plan_moves_check(const struct plan *plan, const struct model *model, struct error *error)
{
    const struct memory_policy *policy = registry_policy(plan->policy, error);
    TRY(check_places(plan, error));
    if (plan->moves == NULL) {
        return STATUS_OK;
    }
    if (policy == NULL || !policy->takes_moves) {
        return REFUSE(error, "$.plan.moves", "memory_policy \"%s\" does not carry out plan.moves: \"mpress\" does",
                      plan->policy);
    }
    for (uint32_t i = 0; i < plan->move_count; i++) {
        TRY(check_move(plan, model, i, error));
    }
    return STATUS_OK;
}

/* ---- reading ---- */

static enum status read_layers(struct tensor_move *move, const struct model *model, const struct json *item,
                               struct error *error)
{
    static const char *const ends[] = { "embedding", "head" };
    struct json at, first, last;
    TRY(json_any(item, "layers", &at, error));
    if (json_type(&at) == JSON_STRING) {
        size_t end;
        TRY(json_word(item, "layers", ends, 2, &end, error));
        move->first = move->last = end == 0 ? 0 : model->layers + 1;
        return STATUS_OK;
    }
    if (json_type(&at) != JSON_ARRAY || json_count(&at) != 2) {
        return json_error(
            &at, error, "expected [first, last] of the transformer layers 0 to %" PRId64 ", \"embedding\" or \"head\"",
            model->layers - 1);
    }
    json_item(&at, 0, &first);
    json_item(&at, 1, &last);
    TRY(json_as_int(&first, 0, model->layers - 1, &move->first, error));
    TRY(json_as_int(&last, move->first, model->layers - 1, &move->last, error));
    move->first++;
    move->last++;
    return STATUS_OK;
}

static enum status read_stripes(const struct plan *plan, struct tensor_move *move, const struct json *item,
                                struct error *error)
{
    static const char *const keys[] = { "stage", "share" };
    struct json list, stripe;
    TRY(json_array_optional(item, "stripes", &list, error));
    size_t count = list.node == NULL ? 0 : json_count(&list);
    if (count > MOVE_STRIPES_MAX) {
        return json_error(&list, error, "%zu stripes: allowed are up to %d", count, MOVE_STRIPES_MAX);
    }
    for (size_t i = 0; i < count; i++) {
        json_item(&list, i, &stripe);
        TRY(json_known_keys(&stripe, keys, 2, error));
        TRY(json_int(&stripe, "stage", 0, plan->pipeline - 1, &move->stripes[i].stage, error));
        TRY(json_real_or(&stripe, "share", 1e-9, 1e9, 1, &move->stripes[i].share, error));
    }
    move->stripe_count = (uint32_t)count;
    return STATUS_OK;
}

static enum status read_word(const struct json *item, const char *key, const char **word, struct arena *arena,
                             struct error *error)
{
    struct json at;
    *word = NULL;
    TRY(json_any_optional(item, key, &at, error));
    if (at.node == NULL) {
        return STATUS_OK;
    }
    const char *text;
    TRY(json_as_string(&at, &text, error));
    *word = arena_text(arena, text);
    return *word == NULL ? no_memory(error) : STATUS_OK;
}

/* "lag" or "lead"; 0 where such a move knows none, and the key is refused. */
static enum status read_passes(const struct json *item, const char *key, bool known, int64_t usual, int64_t *passes,
                               struct error *error)
{
    *passes = 0;
    if (!known && json_has(item, key)) {
        return json_error(item, error, "\"%s\" is of tensors that come back pass by pass (%s): leave it out here", key,
                          strcmp(key, "lag") == 0 ? "activations to the host or devices"
                                                  : "activations to the host or devices, and weight versions");
    }
    return known ? json_int_or(item, key, 1, MOVE_PASSES_MAX, usual, passes, error) : STATUS_OK;
}

static enum status read_move(const struct plan *plan, const struct model *model, const struct json *item,
                             struct tensor_move *move, struct arena *arena, struct error *error)
{
    size_t tensor, target;
    TRY(scenario_known_keys(item, "plan.moves[]", error));
    TRY(json_word(item, "tensor", TENSORS, MOVE_TENSOR_COUNT, &tensor, error));
    TRY(json_word(item, "to", TARGETS, MOVE_TARGET_COUNT, &target, error));
    move->tensor = (enum tensor_move_what)tensor;
    move->target = (enum tensor_move_target)target;
    TRY(read_layers(move, model, item, error));
    TRY(read_stripes(plan, move, item, error));
    TRY(read_passes(item, "lag", move->tensor == MOVE_ACTIVATION && move->target != MOVE_TO_RECOMPUTE, MOVE_LAG,
                    &move->lag, error));
    TRY(read_passes(item, "lead", move->tensor != MOVE_OPTIMIZER && move->target != MOVE_TO_RECOMPUTE, MOVE_LEAD,
                    &move->lead, error));
    TRY(read_word(item, "when", &move->when, arena, error));
    TRY(read_word(item, "over", &move->over, arena, error));
    return read_word(item, "why", &move->why, arena, error);
}

static enum status read_places(struct plan *plan, const struct json *list, struct arena *arena, struct error *error)
{
    struct json item;
    if (json_count(list) != (size_t)plan->pipeline) {
        return json_error(list, error, "%zu places: parallel.pipeline makes %" PRId64 " stages", json_count(list),
                          plan->pipeline);
    }
    plan->stage_places = arena_array(arena, int64_t, (size_t)plan->pipeline);
    if (plan->stage_places == NULL) {
        return no_memory(error);
    }
    for (size_t s = 0; s < (size_t)plan->pipeline; s++) {
        json_item(list, s, &item);
        TRY(json_as_int(&item, 0, plan->pipeline - 1, &plan->stage_places[s], error));
    }
    return STATUS_OK;
}

enum status plan_moves_read(struct plan *plan, const struct model *model, const struct json *section,
                            struct arena *arena, struct error *error)
{
    struct json list, item;
    TRY(json_array_optional(section, "stage_places", &list, error));
    if (list.node != NULL) {
        TRY(read_places(plan, &list, arena, error));
    }
    TRY(json_array_optional(section, "moves", &list, error));
    if (list.node == NULL) {
        return STATUS_OK;
    }
    plan->move_count = (uint32_t)json_count(&list);
    plan->moves = arena_array(arena, struct tensor_move, (size_t)plan->move_count + 1); /* an empty list is one, too */
    if (plan->moves == NULL) {
        return no_memory(error);
    }
    for (uint32_t i = 0; i < plan->move_count; i++) {
        json_item(&list, i, &item);
        TRY(read_move(plan, model, &item, &plan->moves[i], arena, error));
    }
    return STATUS_OK;
}

/* ---- printing ---- */

static void print_move(const struct tensor_move *move, const struct model *model, struct json_writer *w)
{
    jw_object(w, NULL);
    jw_string(w, "tensor", TENSORS[move->tensor]);
    if (move->first == 0 || move->first > model->layers) {
        jw_string(w, "layers", move->first == 0 ? "embedding" : "head");
    } else {
        jw_array(w, "layers");
        jw_int(w, NULL, move->first - 1);
        jw_int(w, NULL, move->last - 1);
        jw_end(w);
    }
    jw_string(w, "to", TARGETS[move->target]);
    if (move->stripe_count > 0) {
        jw_array(w, "stripes");
        for (uint32_t i = 0; i < move->stripe_count; i++) {
            jw_object(w, NULL);
            jw_int(w, "stage", move->stripes[i].stage);
            jw_real(w, "share", move->stripes[i].share);
            jw_end(w);
        }
        jw_end(w);
    }
    if (move->lag > 0) {
        jw_int(w, "lag", move->lag);
    }
    if (move->lead > 0) {
        jw_int(w, "lead", move->lead);
    }
    const char *const words[3][2] = { { "when", move->when }, { "over", move->over }, { "why", move->why } };
    for (int i = 0; i < 3; i++) {
        if (words[i][1] != NULL) {
            jw_string(w, words[i][0], words[i][1]);
        }
    }
    jw_end(w);
}

void plan_moves_print(const struct plan *plan, const struct model *model, struct json_writer *w)
{
    if (plan->stage_places != NULL) {
        jw_array(w, "stage_places");
        for (int64_t s = 0; s < plan->pipeline; s++) {
            jw_int(w, NULL, plan->stage_places[s]);
        }
        jw_end(w);
    }
    if (plan->moves == NULL) {
        return;
    }
    jw_array(w, "moves");
    for (uint32_t i = 0; i < plan->move_count; i++) {
        print_move(&plan->moves[i], model, w);
    }
    jw_end(w);
}

enum status plan_moves_copy(struct plan *copy, const struct plan *plan, struct arena *arena, struct error *error)
{
    if (plan->stage_places != NULL) {
        copy->stage_places = arena_array(arena, int64_t, (size_t)plan->pipeline);
        if (copy->stage_places == NULL) {
            return no_memory(error);
        }
        memcpy(copy->stage_places, plan->stage_places, (size_t)plan->pipeline * sizeof *plan->stage_places);
    }
    if (plan->moves != NULL) {
        copy->moves = arena_array(arena, struct tensor_move, (size_t)plan->move_count + 1);
        if (copy->moves == NULL) {
            return no_memory(error);
        }
        memcpy(copy->moves, plan->moves, plan->move_count * sizeof *plan->moves);
    }
    return STATUS_OK;
}
