/* The boxes of a timeline picture: what ranks do against time, merged to what can be seen. Shared by the gnuplot picture and the report's SVG; where the ops come from (a schedule with its
 * timeline, a file of them) is the caller's.
 *
 *     struct boxes_picture picture;
 *     TRY(boxes_plan(&picture, ops, count, rank_count, end_ps, error));
 *     for each of picture.panels: for each of its boxes: draw;  boxes_free(&picture);
 *
 * Up to BOXES_ROWS_MAX ranks, evenly chosen; where passes are too narrow to be told apart a second panel shows the beginning enlarged. At most BOXES_MAX boxes a panel. */
#ifndef MEMWALL_PLOTS_BOXES_H
#define MEMWALL_PLOTS_BOXES_H

#include <stdbool.h>

#include "sim/base/status.h"
#include "sim/ir/schedule.h"

enum { BOXES_ROWS_MAX = 32, BOXES_MAX = 5000, BOXES_PIXELS = 1100 /* wide, a panel */, BOX_LABEL_PIXELS = 17 };

/* One op: [start_ps, end_ps), not empty. */
struct box_op {
    int64_t start_ps, end_ps;
    uint32_t rank;
    uint16_t micro_batch, chunk; /* or OP_TAG_NONE */
    uint8_t phase;               /* enum op_phase */
    bool strip;                  /* beside the compute queue: in a strip below the row */
};

struct box {
    int64_t from_ps, to_ps;
    double phase_ps[PHASE_COUNT]; /* merged time by phase: the greatest names it */
    uint32_t row;
    uint16_t micro_batch, chunk;
    uint8_t direction; /* 0 forward, 1 backward with all that belongs to it, 2 others */
    bool strip;
};

struct boxes {
    struct box *items; /* by row, the strip last, then by time */
    size_t count, capacity;
};

struct boxes_panel {
    int64_t from_ps, to_ps;
    struct boxes boxes;
};

struct boxes_picture {
    uint32_t ranks[BOXES_ROWS_MAX], row_count; /* that are drawn, top to bottom */
    struct boxes_panel panels[2];              /* the whole step; its beginning, enlarged */
    uint32_t panel_count, chunk_count;
    bool phases[PHASE_COUNT]; /* that are seen */
};

/* `ops` of one rank stand in the order of its queue. end_ps > 0. On error nothing stays allocated. */
enum status boxes_plan(struct boxes_picture *picture, const struct box_op *ops, size_t op_count, uint32_t rank_count,
                       int64_t end_ps, struct error *error);
void boxes_free(struct boxes_picture *picture);

/* The phase with most of its time. */
enum op_phase box_phase(const struct box *r);
/* How much lighter it is drawn, 0 to 0.45: chunks differ in shade, or else neighbouring micro-batches. */
double box_shade(const struct box *r, uint32_t chunk_count);
/* Whether it is (part of) a pass of one micro-batch; the boxes of one pass (a backward is striped by its recomputation) are [first, box_pass_end). */
bool box_is_pass(const struct box *r);
size_t box_pass_end(const struct boxes *all, size_t first);

#endif
