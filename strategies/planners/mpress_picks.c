/* Picks: from all resident to what fits (our rule after facts/mpress-hippie-pipelines.md A.8). Of a stage that has too much, the tensor goes first whose mechanism costs least per byte freed at the
 * stage's peak instant; a candidate that frees nothing there has no value. After the estimate says enough, the emulator looks, and picks go on where it is not. */
#include "sim/base/check.h"
#include "strategies/planners/mpress_internal.h"

enum { ROUNDS_MAX = 64 };

/* Swapped layers stand as far apart as they can, so that each copy has passes of others to hide behind; recomputed ones from the end, whose idle intervals are shortest. */
static bool next_block(const struct mpress_case *c, const struct mpress_choices *choices, uint32_t stage,
                       enum tensor_move_target target, uint32_t *position)
{
    uint32_t best_distance = 0;
    bool found = false;
    for (uint32_t i = 1; i + 1 < c->positions; i++) {
        if (c->layers[i].stage != stage || !mpress_stays(choices, i, MOVE_ACTIVATION)) {
            continue;
        }
        uint32_t distance = c->positions;
        for (uint32_t k = 1; k + 1 < c->positions; k++) {
            uint8_t other = choices->of[k].target[MOVE_ACTIVATION];
            if (c->layers[k].stage == stage && (other == MOVE_TO_HOST || other == MOVE_TO_DEVICES)) {
                uint32_t apart = k > i ? k - i : i - k;
                distance = apart < distance ? apart : distance;
            }
        }
        if (!found || target == MOVE_TO_RECOMPUTE || distance > best_distance) {
            found = true;
            best_distance = distance;
            *position = i;
        }
    }
    return found;
}

/* States or versions: the largest that stay. */
static bool next_largest(const struct mpress_case *c, const struct mpress_choices *choices, uint32_t stage,
                         enum tensor_move_what what, uint32_t *position)
{
    double most = 0;
    for (uint32_t i = 0; i < c->positions; i++) {
        double bytes = mpress_tensor_bytes(c, i, what);
        if (c->layers[i].stage == stage && mpress_stays(choices, i, what) && bytes > most) {
            most = bytes;
            *position = i;
        }
    }
    return most > 0;
}

static bool is_cheaper(const struct mpress_pick *a, const struct mpress_pick *b)
{
    double x = a->cost_s * b->freed_bytes, y = b->cost_s * a->freed_bytes;
    return x != y ? x < y : a->freed_bytes > b->freed_bytes;
}

bool mpress_cheapest(const struct mpress_case *c, const struct mpress_choices *choices, const struct mpress_view *view,
                     const double *spare_bytes, uint32_t stage, uint32_t mechanisms, struct mpress_pick *best)
{
    static const struct {
        enum tensor_move_what what;
        enum tensor_move_target target;
        uint32_t mechanism;
    } kinds[] = {
        { MOVE_OPTIMIZER, MOVE_TO_HOST, MPRESS_STATES },
        { MOVE_OPTIMIZER, MOVE_TO_CPU, MPRESS_CPU },
        { MOVE_OPTIMIZER, MOVE_TO_DEVICES, MPRESS_DEVICES },
        { MOVE_ACTIVATION, MOVE_TO_HOST, MPRESS_HOST },
        { MOVE_ACTIVATION, MOVE_TO_DEVICES, MPRESS_DEVICES },
        { MOVE_ACTIVATION, MOVE_TO_RECOMPUTE, MPRESS_RECOMPUTE },
        { MOVE_VERSION, MOVE_TO_HOST, MPRESS_VERSIONS | MPRESS_HOST },
        { MOVE_VERSION, MOVE_TO_DEVICES, MPRESS_VERSIONS | MPRESS_DEVICES },
    };
    bool found = false;
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
        struct mpress_pick pick = { .what = kinds[k].what, .target = kinds[k].target };
        if ((mechanisms & kinds[k].mechanism) != kinds[k].mechanism ||
            !(pick.what == MOVE_ACTIVATION ? next_block(c, choices, stage, pick.target, &pick.position)
                                           : next_largest(c, choices, stage, pick.what, &pick.position))) {
            continue;
        }
        if (mpress_rate(c, choices, view, spare_bytes, &pick) && (!found || is_cheaper(&pick, best))) {
            *best = pick;
            found = true;
        }
    }
    return found;
}

/* Nothing more frees anything because copies have too much time: with half of it compute waits for them, but tensors are away longer. False: they have none left. */
static bool hurry(struct mpress_choices *choices, uint32_t stage)
{
    bool hurried = false;
    for (int way = 0; way < WAY_COUNT; way++) {
        int64_t *lag = &choices->lag[stage][way], *lead = &choices->lead[stage][way];
        hurried = hurried || *lag > 1 || *lead > 1;
        *lag = (*lag + 1) / 2;
        *lead = (*lead + 1) / 2;
    }
    return hurried;
}

enum status mpress_pick_until_fits(struct mpress_case *c, struct mpress_choices *choices, struct mpress_view *view,
                                   uint32_t mechanisms, struct error *error)
{
    double spare[MPRESS_DEVICES_MAX];
    struct hash emulated = mpress_choices_hash(c, choices);
    for (int round = 0; round < ROUNDS_MAX && !mpress_fits(view); round++) {
        bool picked = false;
        mpress_spare(c, view, spare);
        for (uint32_t s = c->stages; s-- > 0;) { /* the last stages keep least: what they need they take first */
            double over = view->peak_bytes[s] - c->budget_bytes;
            struct mpress_pick pick;
            bool more = over > 0 && mpress_cheapest(c, choices, view, spare, s, mechanisms, &pick);
            bool hurried = over > 0 && !more && hurry(choices, s);
            picked = picked || more || hurried;
            while (more) {
                mpress_take(c, choices, view, spare, &pick);
                over -= pick.freed_bytes;
                more = over > 0 && mpress_cheapest(c, choices, view, spare, s, mechanisms, &pick);
            }
        }
        if (!picked) {
            break;
        }
        const struct hash hash = mpress_choices_hash(c, choices);
        if (!hash_equal(&hash, &emulated)) { /* else all that changed is the time of copies that there are none of */
            TRY(mpress_emulate(c, choices, view, error));
            emulated = hash;
        }
    }
    return STATUS_OK;
}
