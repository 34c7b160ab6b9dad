/* Emulate and refine (our rule after facts/mpress-hippie-pipelines.md A.8): changes of one stage each are tried in a fixed order, kept when the emulated step is faster and fits (or exceeds by
 * less, as long as nothing fits), until a whole round helps nothing. Threads that nobody else needs try the next changes at the same time. */
#include "sim/base/check.h"
#include "strategies/planners/mpress_internal.h"

enum change {
    CHANGE_ALL_TO_DEVICES, /* swapped and recomputed activations, dearest first, as far as neighbours have room */
    CHANGE_HALF_TO_DEVICES,
    CHANGE_ONE_TO_DEVICES,
    CHANGE_STATES_TO_DEVICES,
    CHANGE_VERSIONS_TO_DEVICES,
    CHANGE_KEEP_RECOMPUTED, /* one stays again */
    CHANGE_KEEP_SWAPPED,
    CHANGE_KEEP_LENT,
    CHANGE_KEEP_STATES,
    CHANGE_KEEP_VERSIONS,
    CHANGE_SWAP_RECOMPUTED, /* one is swapped to the host instead */
    CHANGE_RECOMPUTE_SWAPPED,
    CHANGE_MORE_HOST_TIME, /* lag and lead */
    CHANGE_LESS_HOST_TIME,
    CHANGE_MORE_DEVICE_TIME,
    CHANGE_LESS_DEVICE_TIME,
    CHANGE_COUNT
};

static const uint32_t NEEDS[CHANGE_COUNT] = {
    [CHANGE_ALL_TO_DEVICES] = MPRESS_DEVICES,      [CHANGE_HALF_TO_DEVICES] = MPRESS_DEVICES,
    [CHANGE_ONE_TO_DEVICES] = MPRESS_DEVICES,      [CHANGE_STATES_TO_DEVICES] = MPRESS_DEVICES,
    [CHANGE_VERSIONS_TO_DEVICES] = MPRESS_DEVICES, [CHANGE_SWAP_RECOMPUTED] = MPRESS_HOST,
    [CHANGE_RECOMPUTE_SWAPPED] = MPRESS_RECOMPUTE,
};

/* The last position of a stage whose tensor goes to `target`, or 0: the embedding's activation never moves, its states are looked for by themselves. */
static bool find_last(const struct mpress_case *c, const struct mpress_choices *choices, uint32_t stage,
                      enum tensor_move_what what, uint8_t target, uint32_t *position)
{
    for (uint32_t i = c->positions; i-- > 0;) {
        if (c->layers[i].stage == stage && choices->of[i].target[what] == target) {
            *position = i;
            return true;
        }
    }
    return false;
}

/* ---- to other devices ---- */

static uint32_t count_in(const struct mpress_case *c, const struct mpress_choices *choices, uint32_t stage,
                         enum tensor_move_what what, uint8_t target)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < c->positions; i++) {
        count += c->layers[i].stage == stage && choices->of[i].target[what] == target;
    }
    return count;
}

/* Converts up to `most` picks of a kind. Returns how many. */
static uint32_t convert(const struct mpress_case *c, struct mpress_choices *choices, const struct mpress_view *view,
                        double *spare, uint32_t stage, enum tensor_move_what what, uint8_t from, uint32_t most)
{
    uint32_t done = 0;
    for (uint32_t i = 0; i < c->positions && done < most; i++) {
        struct mpress_choice *choice = &choices->of[i];
        if (c->layers[i].stage != stage || choice->target[what] != from) {
            continue;
        }
        struct mpress_pick pick = { .position = i, .what = what, .target = MOVE_TO_DEVICES };
        choice->target[what] = MOVE_TARGET_COUNT; /* it stays while it is rated */
        if (mpress_rate(c, choices, view, spare, &pick)) {
            mpress_take(c, choices, view, spare, &pick);
            done++;
        } else {
            choice->target[what] = from;
        }
    }
    return done;
}

static bool to_devices(const struct mpress_case *c, struct mpress_choices *choices, const struct mpress_view *view,
                       uint32_t stage, enum change change)
{
    double spare[MPRESS_DEVICES_MAX];
    mpress_spare(c, view, spare);
    if (change == CHANGE_STATES_TO_DEVICES) {
        uint32_t done = convert(c, choices, view, spare, stage, MOVE_OPTIMIZER, MOVE_TO_HOST, c->positions);
        return done + convert(c, choices, view, spare, stage, MOVE_OPTIMIZER, MOVE_TO_CPU, c->positions) > 0;
    }
    if (change == CHANGE_VERSIONS_TO_DEVICES) {
        return convert(c, choices, view, spare, stage, MOVE_VERSION, MOVE_TO_HOST, c->positions) > 0;
    }
    uint32_t recomputed = count_in(c, choices, stage, MOVE_ACTIVATION, MOVE_TO_RECOMPUTE);
    uint32_t swapped = count_in(c, choices, stage, MOVE_ACTIVATION, MOVE_TO_HOST);
    uint32_t most = change == CHANGE_ALL_TO_DEVICES    ? recomputed + swapped
                    : change == CHANGE_HALF_TO_DEVICES ? (recomputed + swapped) / 2
                                                       : 1;
    /* recomputation is always exposed, a swap may be hidden */
    uint32_t done = convert(c, choices, view, spare, stage, MOVE_ACTIVATION, MOVE_TO_RECOMPUTE, most);
    return done + convert(c, choices, view, spare, stage, MOVE_ACTIVATION, MOVE_TO_HOST, most - done) > 0;
}

/* ---- others ---- */

static bool retarget(const struct mpress_case *c, struct mpress_choices *choices, uint32_t stage,
                     enum tensor_move_what what, uint8_t from, uint8_t to)
{
    uint32_t position;
    if (!find_last(c, choices, stage, what, from, &position)) {
        return false;
    }
    choices->of[position].target[what] = to;
    choices->of[position].stripe_count[what] = 0;
    return true;
}

static bool swap_recomputed(const struct mpress_case *c, struct mpress_choices *choices, const struct mpress_view *view,
                            uint32_t stage)
{
    double spare[MPRESS_DEVICES_MAX] = { 0 };
    struct mpress_pick pick = { .what = MOVE_ACTIVATION, .target = MOVE_TO_HOST };
    if (!find_last(c, choices, stage, MOVE_ACTIVATION, MOVE_TO_RECOMPUTE, &pick.position)) {
        return false;
    }
    mpress_take(c, choices, view, spare, &pick);
    return true;
}

/* Whether the stage has room for one more of these to stay: otherwise nothing is emulated. */
static bool has_room(const struct mpress_case *c, const struct mpress_choices *choices, const struct mpress_view *view,
                     uint32_t stage, enum tensor_move_what what, uint8_t target)
{
    uint32_t position;
    if (!find_last(c, choices, stage, what, target, &position)) {
        return false;
    }
    double bytes = mpress_tensor_bytes(c, position, what);
    enum mpress_way way = target == MOVE_TO_HOST ? WAY_HOST : WAY_DEVICES;
    int64_t peak_ps = view->peak_ps[stage];
    if (what == MOVE_ACTIVATION && target == MOVE_TO_RECOMPUTE) {
        bytes = c->layers[position].saved_bytes - c->layers[position].kept_bytes;
    } else if (what == MOVE_ACTIVATION) {
        bytes *= mpress_away_at(c, choices, view, position, way, peak_ps);
    } else if (what == MOVE_VERSION) {
        bytes *= mpress_versions_away(c, choices, view, position, way, peak_ps);
    }
    return view->peak_bytes[stage] + bytes <= c->budget_bytes;
}

static bool keep_activation(const struct mpress_case *c, struct mpress_choices *choices, const struct mpress_view *view,
                            uint32_t stage, uint8_t target)
{
    return has_room(c, choices, view, stage, MOVE_ACTIVATION, target) &&
           retarget(c, choices, stage, MOVE_ACTIVATION, target, MOVE_TARGET_COUNT);
}

/* States or versions. */
static bool keep_any(const struct mpress_case *c, struct mpress_choices *choices, const struct mpress_view *view,
                     uint32_t stage, enum tensor_move_what what)
{
    static const uint8_t targets[] = { MOVE_TO_CPU, MOVE_TO_HOST, MOVE_TO_DEVICES };
    for (size_t i = 0; i < sizeof targets; i++) {
        if (has_room(c, choices, view, stage, what, targets[i])) {
            return retarget(c, choices, stage, what, targets[i], MOVE_TARGET_COUNT);
        }
    }
    return false;
}

static bool scale_time(const struct mpress_case *c, struct mpress_choices *choices, uint32_t stage, enum mpress_way way,
                       bool more)
{
    uint8_t target = way == WAY_HOST ? MOVE_TO_HOST : MOVE_TO_DEVICES;
    int64_t *lag = &choices->lag[stage][way], *lead = &choices->lead[stage][way];
    bool any = count_in(c, choices, stage, MOVE_ACTIVATION, target) > 0 ||
               count_in(c, choices, stage, MOVE_VERSION, target) > 0;
    if (!any || (more && *lag + *lead > MOVE_PASSES_MAX / 2) || (!more && *lag + *lead == 2)) {
        return false;
    }
    *lag = more ? 2 * *lag : (*lag + 1) / 2;
    *lead = more ? 2 * *lead : (*lead + 1) / 2;
    return true;
}

/* False: the stage has nothing that the change could change. */
static bool apply(const struct mpress_case *c, struct mpress_choices *choices, const struct mpress_view *view,
                  uint32_t stage, enum change change)
{
    switch (change) {
    case CHANGE_ALL_TO_DEVICES:
    case CHANGE_HALF_TO_DEVICES:
    case CHANGE_ONE_TO_DEVICES:
    case CHANGE_STATES_TO_DEVICES:
    case CHANGE_VERSIONS_TO_DEVICES: return to_devices(c, choices, view, stage, change);
    case CHANGE_KEEP_RECOMPUTED: return keep_activation(c, choices, view, stage, MOVE_TO_RECOMPUTE);
    case CHANGE_KEEP_SWAPPED: return keep_activation(c, choices, view, stage, MOVE_TO_HOST);
    case CHANGE_KEEP_LENT: return keep_activation(c, choices, view, stage, MOVE_TO_DEVICES);
    case CHANGE_KEEP_STATES: return keep_any(c, choices, view, stage, MOVE_OPTIMIZER);
    case CHANGE_KEEP_VERSIONS: return keep_any(c, choices, view, stage, MOVE_VERSION);
    case CHANGE_SWAP_RECOMPUTED: return swap_recomputed(c, choices, view, stage);
    case CHANGE_RECOMPUTE_SWAPPED: return retarget(c, choices, stage, MOVE_ACTIVATION, MOVE_TO_HOST, MOVE_TO_RECOMPUTE);
    case CHANGE_MORE_HOST_TIME: return scale_time(c, choices, stage, WAY_HOST, true);
    case CHANGE_LESS_HOST_TIME: return scale_time(c, choices, stage, WAY_HOST, false);
    case CHANGE_MORE_DEVICE_TIME: return scale_time(c, choices, stage, WAY_DEVICES, true);
    case CHANGE_LESS_DEVICE_TIME: return scale_time(c, choices, stage, WAY_DEVICES, false);
    case CHANGE_COUNT: break;
    }
    check_failed("a change", __FILE__, __LINE__);
}

/* ---- the search ---- */

enum { TRIALS_MAX = 16 };
/* What a try may take on average: with longer schedules (many layers, updates that states visit after each micro-batch) fewer are tried, so that a search takes seconds. */
enum { OPS_A_TRY = 10000 };

/* A change that is tried, on its own, so that several can be at the same time. */
struct trial {
    struct mpress_case c; /* a copy, for its count of emulations */
    struct mpress_choices choices;
    struct mpress_view view;
    struct hash hash;
    int change;
    uint32_t stage;
    bool known, helps;
    enum status status;
    struct error error;
};

struct refinement {
    struct mpress_case *c;
    struct mpress_choices *choices; /* the best so far */
    struct mpress_view *view;
    uint32_t mechanisms, tries, most;
    uint64_t ops, ops_most;
    struct hash *known; /* [known_count] of what is best now or was before, or is no better than that */
    uint32_t known_count;
    struct trial trials[TRIALS_MAX];
    uint32_t trial_count, trials_ready; /* of the batch; those that have memory */
    int change;                         /* the next to try: of a round, all changes of all stages */
    uint32_t stage;
};

static bool goes_on(const struct refinement *r)
{
    return r->tries < r->most && r->ops < r->ops_most;
}

static bool is_known(const struct refinement *r, const struct hash *hash)
{
    for (uint32_t i = 0; i < r->known_count; i++) {
        if (hash_equal(&r->known[i], hash)) {
            return true;
        }
    }
    for (uint32_t i = 0; i < r->trial_count; i++) {
        if (hash_equal(&r->trials[i].hash, hash)) {
            return true;
        }
    }
    return false;
}

/* What follows where nothing helps; CHANGE_COUNT: the round ends. */
static void step(struct refinement *r)
{
    r->stage++;
    while (r->change < CHANGE_COUNT && (r->stage == r->c->stages || (NEEDS[r->change] & ~r->mechanisms) != 0)) {
        r->stage = 0;
        r->change++;
    }
}

static void begin_round(struct refinement *r)
{
    r->change = -1;
    r->stage = r->c->stages - 1;
    step(r);
}

/* The next changes of the round, up to `width`. */
static enum status gather(struct refinement *r, uint32_t width, struct error *error)
{
    r->trial_count = 0;
    while (r->change < CHANGE_COUNT && r->trial_count < width && r->tries + r->trial_count < r->most) {
        struct trial *trial = &r->trials[r->trial_count];
        if (r->trial_count == r->trials_ready) {
            TRY(mpress_choices_new(r->c, &trial->choices, r->c->arena, error));
            TRY(mpress_view_new(r->c, &trial->view, error));
            r->trials_ready++;
        }
        mpress_choices_assign(r->c, &trial->choices, r->choices);
        if (apply(r->c, &trial->choices, r->view, r->stage, (enum change)r->change)) {
            trial->c = *r->c;
            trial->c.emulations = trial->c.ops = 0;
            trial->change = r->change;
            trial->stage = r->stage;
            trial->hash = mpress_choices_hash(r->c, &trial->choices);
            trial->known = is_known(r, &trial->hash);
            r->trial_count++;
        }
        step(r);
    }
    return STATUS_OK;
}

static void try_one(void *context, uint32_t index)
{
    struct refinement *r = context;
    struct trial *trial = &r->trials[index];
    trial->helps = false;
    trial->status = STATUS_OK;
    if (!trial->known) {
        trial->status =
            mpress_emulate_against(&trial->c, &trial->choices, r->view, &trial->view, &trial->helps, &trial->error);
    }
}

/* The first that helps is taken, and what stands behind it has not been tried: so the outcome is that of one after the other. */
static enum status take_first(struct refinement *r, bool *helped, struct error *error)
{
    *helped = false;
    for (uint32_t i = 0; i < r->trial_count && !*helped && goes_on(r); i++) {
        const struct trial *trial = &r->trials[i];
        if (trial->status != STATUS_OK) {
            *error = trial->error;
            return trial->status;
        }
        r->tries++;
        r->ops += trial->c.ops;
        r->known[r->known_count++] = trial->hash;
        r->c->emulations += trial->c.emulations;
        *helped = trial->helps;
        if (trial->helps) {
            mpress_choices_assign(r->c, r->choices, &trial->choices);
            mpress_view_assign(r->c, r->view, &trial->view);
            r->change = trial->change; /* what helped once may help again */
            r->stage = trial->stage;
        }
    }
    return STATUS_OK;
}

static enum status refine(struct refinement *r, struct mpress_crew *crew, struct error *error)
{
    for (bool any = true; any && goes_on(r) && !atomic_load(&crew->stops);) {
        any = false;
        begin_round(r);
        while (r->change < CHANGE_COUNT && goes_on(r) && !atomic_load(&crew->stops)) {
            bool helped;
            uint32_t lent = mpress_crew_borrow(crew, TRIALS_MAX - 1);
            enum status status = gather(r, 1 + lent, error);
            if (status == STATUS_OK && r->trial_count > 1) {
                oracle_parallel(r->trial_count, r->trial_count, try_one, r, NULL, NULL);
            } else if (status == STATUS_OK && r->trial_count == 1) {
                try_one(r, 0);
            }
            mpress_crew_return(crew, lent);
            TRY(status);
            TRY(take_first(r, &helped, error));
            any = any || helped;
        }
    }
    return STATUS_OK;
}

enum status mpress_refine(struct mpress_case *c, struct mpress_choices *choices, struct mpress_view *view,
                          uint32_t mechanisms, uint32_t emulations, struct mpress_crew *crew, struct error *error)
{
    struct refinement *r = arena_array(c->arena, struct refinement, 1);
    struct hash *known = arena_array(c->arena, struct hash, (size_t)emulations + 1);
    if (r == NULL || known == NULL) {
        return error_set(error, STATUS_NO_MEMORY, "out of memory planning");
    }
    *r = (struct refinement){ .c = c,
                              .choices = choices,
                              .view = view,
                              .mechanisms = mechanisms,
                              .most = emulations,
                              .ops_most = (uint64_t)emulations * OPS_A_TRY,
                              .known = known };
    r->known[r->known_count++] = mpress_choices_hash(c, choices);
    return refine(r, crew, error);
}
