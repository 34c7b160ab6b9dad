/* When, over which links, why: a planner's words for the moves of its answer. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "sim/base/units.h"
#include "strategies/planners/mpress_internal.h"

enum { WORDS_BYTES = 512 };

static enum mpress_way way_of(const struct tensor_move *move)
{
    return move->target == MOVE_TO_DEVICES ? WAY_DEVICES : WAY_HOST;
}

static double bytes_of(const struct mpress_case *c, const struct tensor_move *move)
{
    return mpress_tensor_bytes(c, (uint32_t)move->first, move->tensor);
}

static double copy_s(const struct mpress_case *c, const struct mpress_choices *choices, const struct tensor_move *move,
                     double bytes)
{
    uint32_t stage = c->layers[move->first].stage;
    return move->target == MOVE_TO_DEVICES
               ? mpress_stripes_s(c, choices, stage, move->stripes, move->stripe_count, bytes)
               : mpress_host_s(c, choices, stage, bytes, true);
}

/* The shortest idle interval of the instances that leave; not a number where the layer has no backward of its own. */
static double idle_s(const struct mpress_case *c, const struct mpress_view *view, const struct tensor_move *move)
{
    double least = INFINITY;
    double both = c->pass_s[c->layers[move->first].stage] * (double)(move->lag + move->lead);
    for (uint32_t m = c->settled; m < c->settled + c->micro_batches; m++) {
        size_t at = (size_t)move->first * c->instances + m;
        if (view->backward_start_ps[at] == INT64_MAX) {
            return NAN;
        }
        double idle = s_from_ps(view->backward_start_ps[at] - view->forward_end_ps[at]);
        least = idle > both ? fmin(least, idle) : least;
    }
    return least;
}

static const char *when(const struct mpress_case *c, const struct mpress_choices *choices,
                        const struct mpress_view *view, const struct tensor_move *move, struct arena *arena)
{
    double seconds = copy_s(c, choices, move, bytes_of(c, move));
    if (move->target == MOVE_TO_RECOMPUTE) {
        return arena_printf(arena, "freed after its forward, computed again before its backward: %.3g ms",
                            c->layers[move->first].recompute_s * 1e3);
    }
    if (move->target == MOVE_TO_CPU) {
        return arena_printf(arena, "the gradient goes down when it is final, the new weights come up");
    }
    if (move->tensor == MOVE_OPTIMIZER) {
        return arena_printf(arena, "on its device for the update only: a copy each way takes %.3g ms", seconds * 1e3);
    }
    double idle = idle_s(c, view, move);
    char text[64] = "idle too shortly to leave";
    if (isnan(idle)) {
        snprintf(text, sizeof text, "idle until a later layer's backward");
    } else if (isfinite(idle)) {
        snprintf(text, sizeof text, "idle %.3g ms at least", idle * 1e3);
    }
    if (move->tensor == MOVE_VERSION) {
        return arena_printf(arena,
                            "out after the last forward that takes it and before the update that follows, back from "
                            "%" PRId64 " passes before each backward that needs it; %s, a copy takes %.3g ms",
                            move->lead, text, seconds * 1e3);
    }
    return arena_printf(arena,
                        "out after its forward, gone within %" PRId64 " passes, back from %" PRId64
                        " passes before its backward; %s, a copy takes %.3g ms",
                        move->lag, move->lead, text, seconds * 1e3);
}

static const char *over(const struct mpress_case *c, const struct mpress_choices *choices,
                        const struct tensor_move *move, struct arena *arena)
{
    uint32_t stage = c->layers[move->first].stage, own = (uint32_t)choices->place[stage];
    char text[WORDS_BYTES] = "";
    double bytes = bytes_of(c, move);
    if (move->target == MOVE_TO_RECOMPUTE) {
        return NULL;
    }
    if (move->target != MOVE_TO_DEVICES) {
        return arena_printf(arena, "gpu %u and its socket's memory, %.3g GB/s each way with those who share it", own,
                            bytes / mpress_host_s(c, choices, stage, bytes, true) * 1e-9);
    }
    for (uint32_t i = 0; i < move->stripe_count; i++) {
        uint32_t peer = (uint32_t)choices->place[move->stripes[i].stage];
        size_t length = strlen(text);
        snprintf(text + length, sizeof text - length, "%sgpu %u > gpu %u of stage %" PRId64 " (%u links)",
                 i > 0 ? ", " : "", own, peer, move->stripes[i].stage, c->links[own * c->stages + peer]);
    }
    return arena_printf(arena, "%s: %.3g GB/s together", text, bytes / copy_s(c, choices, move, bytes) * 1e-9);
}

bool mpress_holds(const struct mpress_case *c, const struct plan *plan, uint32_t stage, uint32_t owner)
{
    for (uint32_t m = 0; m < plan->move_count; m++) {
        const struct tensor_move *move = &plan->moves[m];
        for (uint32_t k = 0; k < move->stripe_count; k++) {
            for (int64_t at = move->first; at <= move->last && move->stripes[k].stage == stage; at++) {
                if (c->layers[at].stage == owner) {
                    return true;
                }
            }
        }
    }
    return false;
}

/* Then it needs room that its own tensors do not explain. */
static bool has_guests(const struct mpress_case *c, const struct plan *plan, uint32_t stage)
{
    for (uint32_t owner = 0; owner < c->stages; owner++) {
        if (mpress_holds(c, plan, stage, owner)) {
            return true;
        }
    }
    return false;
}

static const char *why(const struct mpress_case *c, const struct mpress_choices *choices,
                       const struct mpress_view *view, const struct plan *plan, const struct tensor_move *move,
                       struct arena *arena)
{
    const struct mpress_layer *layer = &c->layers[move->first];
    const char *guests = has_guests(c, plan, layer->stage) ? " and holds tensors of other stages" : "";
    char freed[160];
    if (move->tensor == MOVE_VERSION) {
        uint32_t away = mpress_versions_away(c, choices, view, (uint32_t)move->first, way_of(move),
                                             c->unsaved.peak_ps[layer->stage]);
        snprintf(freed, sizeof freed,
                 "each layer has %u older weight versions of %.3g MiB, of which %u are away at the peak",
                 c->versions[layer->stage], bytes_of(c, move) / MIB, away);
    } else if (move->tensor == MOVE_OPTIMIZER) {
        snprintf(freed, sizeof freed, "a layer's states take %.3g GiB all step long", layer->state_bytes / GIB);
    } else if (move->target == MOVE_TO_RECOMPUTE) {
        const struct mpress_layer *last = &c->layers[move->last]; /* a stage's first keeps no input of its own */
        snprintf(freed, sizeof freed, "a layer keeps %.3g instead of %.3g MiB of a micro-batch", last->kept_bytes / MIB,
                 last->saved_bytes / MIB);
    } else {
        uint32_t away =
            mpress_away_at(c, choices, view, (uint32_t)move->first, way_of(move), c->unsaved.peak_ps[layer->stage]);
        snprintf(freed, sizeof freed, "of a layer %u micro-batches of %.3g MiB are away at the peak", away,
                 layer->saved_bytes / MIB);
    }
    if (move->tensor == MOVE_ACTIVATION && move->target != MOVE_TO_RECOMPUTE) {
        return arena_printf(arena,
                            "stage %u would take %.4g GiB of %.4g%s; %s; recomputing one would cost %.3g ms, the host "
                            "copy takes %.3g ms",
                            layer->stage, c->unsaved.peak_bytes[layer->stage] / GIB, c->budget_bytes / GIB, guests,
                            freed, layer->recompute_s * 1e3,
                            mpress_host_s(c, choices, layer->stage, layer->saved_bytes, true) * 1e3);
    }
    return arena_printf(arena, "stage %u would take %.4g GiB of %.4g%s; %s", layer->stage,
                        c->unsaved.peak_bytes[layer->stage] / GIB, c->budget_bytes / GIB, guests, freed);
}

enum status mpress_words(const struct mpress_case *c, const struct mpress_choices *choices,
                         const struct mpress_view *view, struct plan *plan, struct arena *arena, struct error *error)
{
    for (uint32_t i = 0; i < plan->move_count; i++) {
        struct tensor_move *move = &plan->moves[i];
        move->when = when(c, choices, view, move, arena);
        move->over = over(c, choices, move, arena);
        move->why = why(c, choices, view, plan, move, arena);
        if (move->when == NULL || move->why == NULL || (move->over == NULL && move->target != MOVE_TO_RECOMPUTE)) {
            return error_set(error, STATUS_NO_MEMORY, "out of memory planning");
        }
    }
    return STATUS_OK;
}
