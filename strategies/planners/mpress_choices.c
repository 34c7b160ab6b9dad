/* Choices as moves. */
#include <string.h>

#include "strategies/planners/mpress_internal.h"

enum status mpress_choices_new(const struct mpress_case *c, struct mpress_choices *choices, struct arena *arena,
                               struct error *error)
{
    choices->of = arena_array(arena, struct mpress_choice, c->positions);
    choices->lag = arena_alloc(arena, c->stages, sizeof *choices->lag);
    choices->lead = arena_alloc(arena, c->stages, sizeof *choices->lead);
    if (choices->of == NULL || choices->lag == NULL || choices->lead == NULL) {
        return error_set(error, STATUS_NO_MEMORY, "out of memory planning");
    }
    for (uint32_t i = 0; i < c->positions; i++) {
        for (int what = 0; what < MOVE_TENSOR_COUNT; what++) {
            choices->of[i].target[what] = MOVE_TARGET_COUNT;
        }
    }
    for (uint32_t s = 0; s < c->stages; s++) {
        choices->place[s] = s;
        for (int way = 0; way < WAY_COUNT; way++) {
            choices->lag[s][way] = choices->lead[s][way] = 1;
        }
    }
    return STATUS_OK;
}

void mpress_choices_assign(const struct mpress_case *c, struct mpress_choices *to, const struct mpress_choices *from)
{
    memcpy(to->of, from->of, c->positions * sizeof *to->of);
    memcpy(to->lag, from->lag, c->stages * sizeof *to->lag);
    memcpy(to->lead, from->lead, c->stages * sizeof *to->lead);
    memcpy(to->place, from->place, sizeof to->place);
}

/* Whether activations or versions of the stage go that way: lag and lead of a way that nothing goes are in no plan. */
static bool copies_any(const struct mpress_case *c, const struct mpress_choices *choices, uint32_t stage,
                       enum mpress_way way)
{
    uint8_t target = way == WAY_HOST ? MOVE_TO_HOST : MOVE_TO_DEVICES;
    for (uint32_t i = 0; i < c->positions; i++) {
        const uint8_t *goes = choices->of[i].target;
        if (c->layers[i].stage == stage && (goes[MOVE_ACTIVATION] == target || goes[MOVE_VERSION] == target)) {
            return true;
        }
    }
    return false;
}

struct hash mpress_choices_hash(const struct mpress_case *c, const struct mpress_choices *choices)
{
    struct hash hash = hash_start();
    for (uint32_t i = 0; i < c->positions; i++) {
        const struct mpress_choice *choice = &choices->of[i];
        for (int what = 0; what < MOVE_TENSOR_COUNT; what++) {
            hash_u64(&hash, choice->target[what] | (uint64_t)choice->stripe_count[what] << 8);
            for (uint32_t k = 0; k < choice->stripe_count[what]; k++) {
                hash_u64(&hash, (uint64_t)choice->stripes[what][k].stage);
                hash_double(&hash, choice->stripes[what][k].share);
            }
        }
    }
    for (uint32_t s = 0; s < c->stages; s++) {
        hash_u64(&hash, (uint64_t)choices->place[s]);
        for (int way = 0; way < WAY_COUNT; way++) {
            bool any = copies_any(c, choices, s, (enum mpress_way)way);
            hash_u64(&hash, any ? (uint64_t)choices->lag[s][way] : 0);
            hash_u64(&hash, any ? (uint64_t)choices->lead[s][way] : 0);
        }
    }
    return hash;
}

bool mpress_is_block(const struct mpress_case *c, uint32_t position)
{
    return position > 0 && position + 1 < c->positions;
}

bool mpress_stays(const struct mpress_choices *choices, uint32_t position, enum tensor_move_what what)
{
    return choices->of[position].target[what] == MOVE_TARGET_COUNT;
}

double mpress_tensor_bytes(const struct mpress_case *c, uint32_t position, enum tensor_move_what what)
{
    const struct mpress_layer *layer = &c->layers[position];
    return what == MOVE_ACTIVATION  ? layer->saved_bytes
           : what == MOVE_OPTIMIZER ? layer->state_bytes
                                    : (c->versions[layer->stage] > 0 ? layer->weight_bytes : 0);
}

/* Whether the tensors of two neighbours go the same way, so that one move says both. */
static bool same(const struct mpress_case *c, const struct mpress_choices *choices, uint32_t a, uint32_t b,
                 enum tensor_move_what what)
{
    const struct mpress_choice *x = &choices->of[a], *y = &choices->of[b];
    if (!mpress_is_block(c, a) || !mpress_is_block(c, b) || c->layers[a].stage != c->layers[b].stage ||
        x->target[what] != y->target[what] || x->stripe_count[what] != y->stripe_count[what]) {
        return false;
    }
    for (uint32_t i = 0; i < x->stripe_count[what]; i++) {
        if (x->stripes[what][i].stage != y->stripes[what][i].stage ||
            x->stripes[what][i].share != y->stripes[what][i].share) {
            return false;
        }
    }
    return true;
}

static void add_moves(const struct mpress_case *c, const struct mpress_choices *choices, struct plan *plan,
                      enum tensor_move_what what)
{
    for (uint32_t i = 0; i < c->positions; i++) {
        const struct mpress_choice *choice = &choices->of[i];
        if (mpress_stays(choices, i, what)) {
            continue;
        }
        if (i > 0 && !mpress_stays(choices, i - 1, what) && same(c, choices, i - 1, i, what)) {
            plan->moves[plan->move_count - 1].last = i;
            continue;
        }
        struct tensor_move *move = &plan->moves[plan->move_count++];
        *move = (struct tensor_move){ .tensor = what,
                                      .target = (enum tensor_move_target)choice->target[what],
                                      .first = i,
                                      .last = i,
                                      .stripe_count = choice->stripe_count[what] };
        memcpy(move->stripes, choice->stripes[what], sizeof move->stripes);
        if (what != MOVE_OPTIMIZER && move->target != MOVE_TO_RECOMPUTE) {
            enum mpress_way way = move->target == MOVE_TO_HOST ? WAY_HOST : WAY_DEVICES;
            move->lag = what == MOVE_ACTIVATION ? choices->lag[c->layers[i].stage][way] : 0;
            move->lead = choices->lead[c->layers[i].stage][way];
        }
    }
}

enum status mpress_choices_plan(const struct mpress_case *c, const struct mpress_choices *choices, struct plan *plan,
                                struct arena *arena, struct error *error)
{
    *plan = c->base;
    plan->moves = arena_array(arena, struct tensor_move, MOVE_TENSOR_COUNT * (size_t)c->positions);
    if (plan->moves == NULL) {
        return error_set(error, STATUS_NO_MEMORY, "out of memory planning");
    }
    add_moves(c, choices, plan, MOVE_ACTIVATION);
    add_moves(c, choices, plan, MOVE_OPTIMIZER);
    add_moves(c, choices, plan, MOVE_VERSION);
    for (uint32_t s = 0; s < c->stages; s++) {
        if (choices->place[s] != (int64_t)s && plan->stage_places == NULL) {
            plan->stage_places = arena_array(arena, int64_t, c->stages);
            if (plan->stage_places == NULL) {
                return error_set(error, STATUS_NO_MEMORY, "out of memory planning");
            }
            memcpy(plan->stage_places, choices->place, c->stages * sizeof *plan->stage_places);
        }
    }
    return STATUS_OK;
}
