/* Inside exhaustive_screen*.c only: a point of the space being costed, and what its stages hold. */
#ifndef MEMWALL_STRATEGIES_PLANNERS_EXHAUSTIVE_SCREEN_INTERNAL_H
#define MEMWALL_STRATEGIES_PLANNERS_EXHAUSTIVE_SCREEN_INTERNAL_H

#include "sim/plan/order.h"
#include "strategies/planners/exhaustive_screen.h"
#include "strategies/planners/oracle_pieces.h"

/* (micro-batch, chunk) pairs between forward and backward on a stage, at the instant when they are most. */
struct in_flight {
    uint32_t stages, micro_batches, virtual_stages, stage;
    uint32_t pairs, first_chunk, last_chunk; /* of all chunks; of chunk 0; of the last chunk */
};

struct screen {
    const struct scenario *scenario;
    struct pieces *pieces;
    struct {
        struct in_flight *items;
        size_t count, capacity;
    } flights;
    struct {
        struct order_step *items;
        size_t count, capacity;
    } steps;
};

/* A point being costed. */
struct point {
    const struct screen_point *at;
    const struct model *model;
    const struct piece_layers *layers;
    struct piece_group data;
    int64_t micro_batches, per_stage; /* layers of a small stage */
    int64_t larger_from;              /* the first stage with one layer more; pipeline: none */
    double hop_s;                     /* between stages; the mean where boundaries differ */
    double boundary_bytes;            /* the largest */
    bool gathers_once;                /* ZeRO-3 whose weights stay gathered all step long */
    uint32_t variants;                /* shapes of transformer layers */
    double gather_s[MODEL_VARIANTS_MAX], scatter_s[MODEL_VARIANTS_MAX]; /* of one layer, in every micro-batch */
};

/* Which ends of the model a stage has. */
struct ends {
    bool embedding, head;
};
struct ends screen_stage_ends(const struct point *point, int64_t stage);
int64_t screen_stage_layers(const struct point *point, int64_t stage);
/* The first layer of a stage. Chunks only divide layers of one shape. */
int64_t screen_first_layer(const struct point *point, int64_t stage);

/* How many layers of each variant there are: in [first, first + count), which of one shape need not be exact; on a stage. */
struct blocks {
    double of[MODEL_VARIANTS_MAX];
};
struct blocks screen_blocks_in(const struct point *point, int64_t first, int64_t count);
struct blocks screen_stage_blocks(const struct point *point, int64_t stage);

/* On a device of the stage: of all, and of its transformer layers. */
double screen_stage_parameters(const struct point *point, int64_t stage);
double screen_block_parameters(const struct point *point, int64_t stage);

/* Bytes of a device: what certainly is there at one instant, and the estimated peak. */
enum status screen_stage_memory(struct screen *screen, const struct point *point, int64_t stage, double *least,
                                double *peak, struct error *error);

#endif
