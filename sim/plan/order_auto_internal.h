/* Shared by the order_auto*.c files only: one pipeline being played, again and again. */
#ifndef MEMWALL_PLAN_ORDER_AUTO_INTERNAL_H
#define MEMWALL_PLAN_ORDER_AUTO_INTERNAL_H

#include "sim/plan/order_auto.h"

/* How to prefer, beyond what all rules share. */
struct auto_rule {
    const char *name;
    double patience; /* a weight part waits when a backward arrives within so much of its time */
    double depth; /* at most so many round trips' forwards, and `ahead` more, have not come back; INFINITY: no bound */
    uint32_t ahead;
    bool weight_before_forward; /* once the stage has begun backwards */
};

/* What a stage would do next, and when. */
struct auto_choice {
    double at;
    struct order_step step;
};

struct auto_stage {
    double free_at;
    uint32_t held, most, room; /* chunks' activations: kept now, kept at most so far, and allowed */
    uint32_t freed;            /* so far */
    bool crowded;              /* no room for all chunks of one more micro-batch beside those that have entered */
    uint32_t taken[2][2], sent[2][2]; /* [F, B][from which neighbour]: messages taken, and sent to it */
};

struct auto_play {
    const struct order_auto_request *r;
    struct order_table *draft; /* the order being made */
    const struct auto_rule *rule;
    const uint32_t *ranks; /* [passes * kinds], in place of a rule: the lowest goes first; or NULL */
    /* The first `burst` micro-batches and one more enter as soon as they can, those behind them no sooner than `pace` after each other; 0: all as soon as they can. */
    double pace;
    uint32_t burst;
    /* A micro-batch enters only where every stage has room for all its chunks: then no message is in the way of another. */
    bool reserves;
    uint32_t crowded;                  /* stages that have not */
    uint32_t kinds, last;              /* of passes: 2 or 3; the last virtual stage */
    uint32_t *holders;                 /* [virtual stages] */
    struct auto_stage *stages;         /* [stages] */
    uint32_t (*next)[STEP_KIND_COUNT]; /* [virtual stages]: micro-batch whose pass of that kind is next */
    double *
        arrivals[2]; /* [virtual stages * micro_batches]: when the input of F, of B is there; INFINITY: not yet known */
    uint32_t *numbers[2];        /* the same: which message it is of those that one stage sends another */
    uint32_t leaves;             /* a power of two, at least 2 and `stages` */
    struct auto_choice *choices; /* [leaves] */
    uint32_t *first; /* [2 * leaves]: tree over them, its root at 1: the stage below each node that begins first */
    uint32_t *cursors, *awake; /* [stages]: of steps that are being timed */
    bool *listed;
};

/* What repeating the forward adds to the backward; 0: it is kept. */
double auto_recompute(const struct order_auto_request *request, uint32_t virtual_stage);
/* Of one micro-batch, a backward with what is repeated for it. */
double auto_time(const struct order_auto_request *request, uint32_t virtual_stage, uint32_t kind);
uint32_t auto_virtual_stage(const struct auto_play *play, uint32_t stage, uint32_t chunk);
size_t auto_pass(const struct auto_play *play, uint32_t virtual_stage, uint32_t kind, uint32_t micro_batch);
/* Back to the beginning. */
void auto_play_reset(struct auto_play *play);
/* Runs the step, and returns the stage that waits for what it makes, or its own. */
uint32_t auto_run_step(struct auto_play *play, uint32_t stage, struct order_step step);
/* When the step could begin at the earliest if its stage were free from `now` on. */
double auto_earliest(const struct auto_play *play, uint32_t stage, struct order_step step, double now);

/* Makes the draft under the rule, or by ranks; returns when it ends. */
double auto_play_greedily(struct auto_play *play);

/* The registered order as a draft: its weight parts are dropped where backwards are whole, and follow their backwards at once where it has none. False: it is not for this pipeline. */
enum status auto_given_order(struct auto_play *play, const struct pipeline_order *order, bool *usable,
                             struct error *error);
/* When the draft ends with every step as soon as possible; INFINITY: it keeps more than allowed, or waits for ever. */
double auto_time_draft(struct auto_play *play);

#endif
