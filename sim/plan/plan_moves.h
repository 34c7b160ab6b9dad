/* Which tensors leave their device, in a plan: `plan.moves`, for the policy `mpress`; and which devices the stages take: `plan.stage_places`.
 *
 *     "plan": { "stage_places": [2, 5, 4, 7, 3, 0, 1, 6],
 *               "moves": [ { "tensor": "activation", "layers": [0, 3], "to": "devices", "stripes": [ { "stage": 5, "share": 2 }, { "stage": 7, "share": 1 } ], "lag": 2, "lead": 3 },
 *                          { "tensor": "activation", "layers": [4, 5], "to": "recompute" },
 *                          { "tensor": "optimizer", "layers": "embedding", "to": "cpu" },
 *                          { "tensor": "version", "layers": [0, 5], "to": "host", "lead": 2 } ] }
 *
 * A move speaks of the layers first .. last (both included), or of the embedding or the head; what no move speaks of stays. What an activation's move means is said of one layer and micro-batch: it
 * leaves after its forward, is gone `lag` passes later at the latest (the stage's compute waits otherwise), and begins to come back `lead` passes before its backward; where there is no
 * pass in between, it stays. Optimizer states live where they are moved to, and visit their device for the update ("cpu": they are updated where they are). Older weight versions (of an order that
 * stashes them: "pipedream") leave after the last forward that takes them and before the update that follows, and begin to come back `lead` passes before each backward that needs them.
 *
 * "when", "over", "why" are a planner's words for people; nothing reads them. Knows no time. */
#ifndef MEMWALL_PLAN_PLAN_MOVES_H
#define MEMWALL_PLAN_PLAN_MOVES_H

#include "sim/plan/plan.h"

enum tensor_move_what { MOVE_ACTIVATION, MOVE_OPTIMIZER, MOVE_VERSION, MOVE_TENSOR_COUNT };
enum tensor_move_target {
    MOVE_TO_HOST,      /* its server's pinned memory */
    MOVE_TO_DEVICES,   /* memory of other stages' devices, in stripes */
    MOVE_TO_CPU,       /* optimizer: pinned memory, updated by the host's cores */
    MOVE_TO_RECOMPUTE, /* activation: freed, computed again from the layer's input */
    MOVE_TARGET_COUNT
};

enum { MOVE_STRIPES_MAX = 16, MOVE_PASSES_MAX = 1 << 20, MOVE_LAG = 2, MOVE_LEAD = 2 };

struct tensor_stripe {
    int64_t stage; /* whose device holds it; another than the layer's */
    double share;  /* > 0, relative to the other stripes */
};

struct tensor_move {
    enum tensor_move_what tensor;
    enum tensor_move_target target;
    /* Positions in the model: 0 the embedding, 1 + i transformer layer i, 1 + layers the head. */
    int64_t first, last;
    struct tensor_stripe stripes[MOVE_STRIPES_MAX];
    uint32_t stripe_count;         /* 0 unless to devices */
    int64_t lag, lead;             /* passes; activations to host or devices, versions (lead alone), else 0 */
    const char *when, *over, *why; /* or NULL */
};

/* The move that speaks of a tensor of the layer at `position`, or NULL. */
const struct tensor_move *plan_moves_find(const struct plan *plan, enum tensor_move_what tensor, int64_t position);

/* Whether moves and places are whole: positions exist and are spoken of once for each tensor, targets suit the tensor, stripes lie on other stages; places are a permutation. STATUS_BAD_INPUT with
 * the path of the key. */
enum status plan_moves_check(const struct plan *plan, const struct model *model, struct error *error);

/* Of the section "plan" of a scenario or plan file, once the degrees are read. Arrays and words are made in `arena`. */
enum status plan_moves_read(struct plan *plan, const struct model *model, const struct json *section,
                            struct arena *arena, struct error *error);
/* Into the open object "plan"; nothing where there is nothing to say. */
void plan_moves_print(const struct plan *plan, const struct model *model, struct json_writer *writer);
/* A deep copy of both (the words are shared) into `arena`. */
enum status plan_moves_copy(struct plan *copy, const struct plan *plan, struct arena *arena, struct error *error);

#endif
