/* Shared by the files of the planner `mpress` only (mpress_plan.c says what it does).
 *
 *     mpress_emulate.c   one simulated iteration of a set of choices: step, peaks, idle intervals
 *     mpress_choices.c   choices as a plan's moves and places
 *     mpress_costs.c     what a mechanism costs and frees
 *     mpress_picks.c     from all resident to what fits
 *     mpress_refine.c    changes that the emulator finds faster
 *     mpress_words.c     when, over which links, why
 *     mpress_crew.c      threads that have nothing to do
 *     mpress_attempts.c  starts, refinements, mapping
 *     mpress_smallest.c  the smallest budget that would do
 *     mpress_answer.c    the answer
 *     mpress_plan.c      the planner */
#ifndef MEMWALL_STRATEGIES_PLANNERS_MPRESS_INTERNAL_H
#define MEMWALL_STRATEGIES_PLANNERS_MPRESS_INTERNAL_H

#include <stdatomic.h>

#include "sim/plan/plan_moves.h"
#include "strategies/planners/mpress_mapping.h"
#include "strategies/planners/planner.h"

/* Mechanisms that a search may use, as a mask. Activations: RECOMPUTE, HOST. Older weight versions: VERSIONS with HOST or DEVICES. States in host memory: STATES visit their device for the update, with CPU the host's cores update them. DEVICES: all of them. */
enum {
    MPRESS_RECOMPUTE = 1,
    MPRESS_HOST = 2,
    MPRESS_STATES = 4,
    MPRESS_CPU = 8,
    MPRESS_DEVICES = 16,
    MPRESS_VERSIONS = 32
};

struct mpress_crew;

/* What a plan does with the tensors of the layer at a position (sim/plan/plan_moves.h counts them); MOVE_TARGET_COUNT: they stay. */
struct mpress_choice {
    uint8_t target[MOVE_TENSOR_COUNT]; /* enum tensor_move_target */
    struct tensor_stripe stripes[MOVE_TENSOR_COUNT][MOVE_STRIPES_MAX];
    uint32_t stripe_count[MOVE_TENSOR_COUNT];
};

enum mpress_way { WAY_HOST, WAY_DEVICES, WAY_COUNT };

struct mpress_choices {
    struct mpress_choice *of;          /* [positions] */
    int64_t (*lag)[WAY_COUNT];         /* [stages] passes */
    int64_t (*lead)[WAY_COUNT];        /* [stages] */
    int64_t place[MPRESS_DEVICES_MAX]; /* device of each stage */
};

/* One emulated iteration. */
struct mpress_view {
    struct oracle_result result;
    double over_bytes;                           /* beyond the budget, all devices together, and beyond host memory */
    double *peak_bytes;                          /* [stages] */
    int64_t *peak_ps;                            /* [stages] */
    int64_t *forward_end_ps, *backward_start_ps; /* [positions * instances] */
};

/* What the profile says of the layer at a position. */
struct mpress_layer {
    uint32_t stage;
    double saved_bytes, kept_bytes; /* of one micro-batch: saved; saved when recomputed */
    double recompute_s, state_bytes, parameters, weight_bytes;
};

struct mpress_case {
    const struct scenario *scenario;
    struct plan base; /* one device a stage, nothing moves */
    uint32_t stages, positions;
    uint32_t micro_batches; /* of a step */
    uint32_t instances,
        settled; /* micro-batches of all steps of the schedule, and the first of the step that is measured (an asynchronous order fills up before it) */
    uint32_t updates; /* of a step */
    uint32_t allowed; /* mechanisms */
    double budget_bytes;
    struct mpress_layer *layers; /* [positions] */
    double *pass_s;              /* [stages] mean length of a layer's pass */
    double cycle_s;              /* of a micro-batch on the slowest stage */
    uint32_t *versions;          /* [stages] older ones of the weights that can leave */
    double *
        floor_bytes; /* [stages] what no choice moves: weights with versions that cannot leave, gradients, the runtime's */
    uint32_t *links; /* [stages * stages] of devices: direct links; on a switch, those to it */
    struct mpress_view unsaved;
    uint64_t emulations, ops; /* so far: iterations, and the ops of their schedules together */
    struct arena *arena;      /* for what lives as long as the case */
};

/* ---- mpress_choices.c ---- */
enum status mpress_choices_new(const struct mpress_case *c, struct mpress_choices *choices, struct arena *arena,
                               struct error *error);
/* Of the plan that carries them out: equal plans, equal hash. */
struct hash mpress_choices_hash(const struct mpress_case *c, const struct mpress_choices *choices);
void mpress_choices_assign(const struct mpress_case *c, struct mpress_choices *to, const struct mpress_choices *from);
/* The plan that carries them out; its arrays are in `arena`. */
enum status mpress_choices_plan(const struct mpress_case *c, const struct mpress_choices *choices, struct plan *plan,
                                struct arena *arena, struct error *error);
bool mpress_is_block(const struct mpress_case *c, uint32_t position); /* a transformer layer */
bool mpress_stays(const struct mpress_choices *choices, uint32_t position, enum tensor_move_what what);
/* Of one instance: an activation of a micro-batch, a version. 0: there is nothing to move. */
double mpress_tensor_bytes(const struct mpress_case *c, uint32_t position, enum tensor_move_what what);

/* ---- mpress_emulate.c ---- */
enum status mpress_view_new(const struct mpress_case *c, struct mpress_view *view, struct error *error);
void mpress_view_assign(const struct mpress_case *c, struct mpress_view *to, const struct mpress_view *from);
enum status mpress_emulate(struct mpress_case *c, const struct mpress_choices *choices, struct mpress_view *view,
                           struct error *error);
bool mpress_fits(const struct mpress_view *view);
/* From now on the budget is this one; `unsaved` is held to it. */
void mpress_set_budget(struct mpress_case *c, double budget_bytes);
/* Fits better, or is faster. */
bool mpress_better(const struct mpress_view *a, const struct mpress_view *b);
/* Whether the choices are better than what `best` is of. The iteration ends as soon as they cannot be any more: `view` is theirs only when they are. */
enum status mpress_emulate_against(struct mpress_case *c, const struct mpress_choices *choices,
                                   const struct mpress_view *best, struct mpress_view *view, bool *better,
                                   struct error *error);
/* Fills layers, pass_s, cycle_s, versions, floor_bytes, links, unsaved from two iterations: nothing saved, and all recomputed. */
enum status mpress_profile(struct mpress_case *c, struct error *error);

/* A stage whose floor, with older weight versions or without, is beyond the budget, so that nothing ever fits; `stages`: there is none. */
uint32_t mpress_hopeless_stage(const struct mpress_case *c, bool versions_stay);

/* ---- mpress_costs.c ---- */
struct mpress_pick {
    uint32_t position;
    enum tensor_move_what what;
    enum tensor_move_target target;
    double freed_bytes; /* at the stage's peak instant */
    double cost_s;      /* of a step, exposed */
    struct tensor_stripe stripes[MOVE_STRIPES_MAX];
    uint32_t stripe_count;
};
/* Seconds of a copy of `bytes` one way alone: to the host; in these stripes. INFINITY: there is no way. */
double mpress_host_s(const struct mpress_case *c, const struct mpress_choices *choices, uint32_t stage, double bytes,
                     bool to_host);
double mpress_stripes_s(const struct mpress_case *c, const struct mpress_choices *choices, uint32_t stage,
                        const struct tensor_stripe *stripes, uint32_t count, double bytes);
/* How many instances of a saving are away at once, at most; and at an instant. */
uint32_t mpress_away_most(const struct mpress_case *c, const struct mpress_choices *choices,
                          const struct mpress_view *view, uint32_t position, enum mpress_way way);
uint32_t mpress_away_at(const struct mpress_case *c, const struct mpress_choices *choices,
                        const struct mpress_view *view, uint32_t position, enum mpress_way way, int64_t at_ps);
/* How many older versions of a layer's weights are not on its device at an instant, if they move. */
uint32_t mpress_versions_away(const struct mpress_case *c, const struct mpress_choices *choices,
                              const struct mpress_view *view, uint32_t position, enum mpress_way way, int64_t at_ps);
/* Fills freed, cost and stripes of a pick whose position, what and target are set. `spare_bytes` [stages]: what devices can lend. False: it frees nothing or has no way. */
bool mpress_rate(const struct mpress_case *c, const struct mpress_choices *choices, const struct mpress_view *view,
                 const double *spare_bytes, struct mpress_pick *pick);
/* Takes the pick, and from `spare_bytes` what it occupies. Lag and lead grow with its copies. */
void mpress_take(const struct mpress_case *c, struct mpress_choices *choices, const struct mpress_view *view,
                 double *spare_bytes, const struct mpress_pick *pick);
void mpress_spare(const struct mpress_case *c, const struct mpress_view *view, double *spare_bytes);

/* ---- mpress_picks.c: from `choices` on until it fits; `view` is of them before and after ---- */
enum status mpress_pick_until_fits(struct mpress_case *c, struct mpress_choices *choices, struct mpress_view *view,
                                   uint32_t mechanisms, struct error *error);
/* The cheapest pick of a stage per byte that it frees; false: nothing is left. */
bool mpress_cheapest(const struct mpress_case *c, const struct mpress_choices *choices, const struct mpress_view *view,
                     const double *spare_bytes, uint32_t stage, uint32_t mechanisms, struct mpress_pick *best);

/* ---- mpress_refine.c: at most `emulations` changes are tried, fewer where schedules are long; `choices` and `view` become those of the best, the same whatever the crew lends; none is tried once it stops ---- */
enum status mpress_refine(struct mpress_case *c, struct mpress_choices *choices, struct mpress_view *view,
                          uint32_t mechanisms, uint32_t emulations, struct mpress_crew *crew, struct error *error);

/* ---- mpress_crew.c: threads of the search that have nothing to do ---- */
struct mpress_crew {
    atomic_uint unfinished; /* attempts under way and to come */
    atomic_uint idle;
    atomic_bool stops; /* the user has enough: attempts end with what they have */
    uint32_t threads;
};
void mpress_crew_begin(struct mpress_crew *crew, uint32_t threads, uint32_t attempts);
/* An attempt is over: its thread takes the next one, or is idle from now on. */
void mpress_crew_attempt_ended(struct mpress_crew *crew);
/* How many of up to `most` the caller may have beside its own; it gives them back. */
uint32_t mpress_crew_borrow(struct mpress_crew *crew, uint32_t most);
void mpress_crew_return(struct mpress_crew *crew, uint32_t count);

/* ---- mpress_words.c ---- */
/* Whether stripes of the tensors of stage `owner` lie on the device of `stage`. */
bool mpress_holds(const struct mpress_case *c, const struct plan *plan, uint32_t stage, uint32_t owner);
enum status mpress_words(const struct mpress_case *c, const struct mpress_choices *choices,
                         const struct mpress_view *view, struct plan *plan, struct arena *arena, struct error *error);

#endif
