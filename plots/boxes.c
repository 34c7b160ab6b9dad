#include "plots/boxes.h"

#include <stdlib.h>
#include <string.h>

#include "sim/base/array.h"
#include "sim/base/check.h"

enum { CROWDED_PIXELS = 13, ROWS_LEAST = 4 };

static uint8_t direction(enum op_phase phase)
{
    switch (phase) {
    case PHASE_FORWARD: return 0;
    case PHASE_BACKWARD:
    case PHASE_RECOMPUTE: return 1;
    case PHASE_WEIGHT:
    case PHASE_TENSOR_COMM:
    case PHASE_PIPELINE_COMM:
    case PHASE_DATA_COMM:
    case PHASE_OFFLOAD:
    case PHASE_OPTIMIZER:
    case PHASE_OTHER:
    case PHASE_COUNT: break;
    }
    return (uint8_t)(2 + phase);
}

enum op_phase box_phase(const struct box *r)
{
    uint32_t best = 0;
    for (uint32_t p = 1; p < PHASE_COUNT; p++) {
        best = r->phase_ps[p] > r->phase_ps[best] ? p : best;
    }
    return (enum op_phase)best;
}

/* May `next` be drawn as part of `last`? Only where a gap or a change between them would be finer than a pixel. */
static bool melts(const struct box *last, const struct box *next, int64_t pixel_ps)
{
    if (last->row != next->row || last->strip != next->strip || next->from_ps - last->to_ps > pixel_ps) {
        return false;
    }
    bool same =
        last->micro_batch == next->micro_batch && last->chunk == next->chunk && last->direction == next->direction;
    enum op_phase a = box_phase(last), b = box_phase(next);
    if (last->strip) {
        return a == b || last->to_ps - last->from_ps < pixel_ps || next->to_ps - next->from_ps < pixel_ps;
    }
    if (same && a == b) {
        return true;
    }
    bool tiny = last->to_ps - last->from_ps < 2 * pixel_ps || next->to_ps - next->from_ps < 2 * pixel_ps;
    bool pass = a <= PHASE_RECOMPUTE && b <= PHASE_RECOMPUTE;
    /* Passes of different micro-batches melt only when even whole passes are finer than a pixel. */
    return tiny &&
           (same || !pass || (last->to_ps - last->from_ps < pixel_ps && next->to_ps - next->from_ps < pixel_ps));
}

static void melt(struct box *last, const struct box *next)
{
    last->to_ps = next->to_ps > last->to_ps ? next->to_ps : last->to_ps;
    for (uint32_t p = 0; p < PHASE_COUNT; p++) {
        last->phase_ps[p] += next->phase_ps[p];
    }
}

static int by_place(const void *a, const void *b)
{
    const struct box *x = a, *y = b;
    if (x->row != y->row) {
        return x->row < y->row ? -1 : 1;
    }
    if (x->strip != y->strip) {
        return x->strip ? 1 : -1;
    }
    if (x->from_ps != y->from_ps) {
        return x->from_ps < y->from_ps ? -1 : 1;
    }
    return x->to_ps < y->to_ps ? -1 : x->to_ps > y->to_ps;
}

static void merge(struct boxes *all, int64_t pixel_ps)
{
    size_t kept = 0;
    for (size_t i = 0; i < all->count; i++) {
        if (kept > 0 && melts(&all->items[kept - 1], &all->items[i], pixel_ps)) {
            melt(&all->items[kept - 1], &all->items[i]);
        } else {
            all->items[kept++] = all->items[i];
        }
    }
    all->count = kept;
}

/* What cannot be seen anyway goes first, then detail: an SVG of this many boxes has about half a megabyte. */
static void bound(struct boxes *all, int64_t pixel_ps)
{
    if (all->count > BOXES_MAX) {
        size_t kept = 0;
        for (size_t i = 0; i < all->count; i++) {
            if (!all->items[i].strip || all->items[i].to_ps - all->items[i].from_ps >= pixel_ps) {
                all->items[kept++] = all->items[i];
            }
        }
        all->count = kept;
    }
    for (int64_t coarse_ps = pixel_ps + pixel_ps / 2; all->count > BOXES_MAX; coarse_ps += coarse_ps / 2 + 1) {
        merge(all, coarse_ps);
    }
}

/* Everything that the rows do in [from, to), unmerged. */
static enum status collect(const struct boxes_picture *picture, const uint32_t *row_of_rank, const struct box_op *ops,
                           size_t op_count, int64_t from_ps, int64_t to_ps, struct boxes *all, struct error *error)
{
    all->count = 0;
    for (size_t i = 0; i < op_count; i++) {
        const struct box_op *op = &ops[i];
        uint32_t row = row_of_rank[op->rank];
        if (row >= picture->row_count || op->start_ps >= to_ps || op->end_ps <= from_ps) {
            continue;
        }
        TRY(array_reserve(all, 1, error));
        struct box r = {
            .from_ps = op->start_ps > from_ps ? op->start_ps : from_ps,
            .to_ps = op->end_ps < to_ps ? op->end_ps : to_ps,
            .row = row,
            .micro_batch = op->micro_batch,
            .chunk = op->chunk,
            .direction = direction((enum op_phase)op->phase),
            .strip = op->strip,
        };
        r.phase_ps[op->phase] = (double)(r.to_ps - r.from_ps);
        all->items[all->count++] = r;
    }
    if (all->count > 0) {
        qsort(all->items, all->count, sizeof *all->items, by_place);
    }
    return STATUS_OK;
}

/* Merged for a panel in which one pixel lasts pixel_ps. */
static void refine(struct boxes *all, int64_t pixel_ps)
{
    merge(all, pixel_ps);
    merge(all, pixel_ps); /* what grew may now take in a neighbour that was finer */
    bound(all, pixel_ps);
}

/* `count` ranks, evenly spaced, the first and the last among them. */
static void choose_rows(struct boxes_picture *picture, uint32_t *row_of_rank, uint32_t rank_count, uint32_t count)
{
    uint32_t rows = count < rank_count ? count : rank_count;
    picture->row_count = rows;
    for (uint32_t r = 0; r < rank_count; r++) {
        row_of_rank[r] = UINT32_MAX;
    }
    for (uint32_t i = 0; i < rows; i++) {
        picture->ranks[i] = rows > 1 ? (uint32_t)((uint64_t)i * (rank_count - 1) / (rows - 1)) : 0;
        row_of_rank[picture->ranks[i]] = i;
    }
}

double box_shade(const struct box *r, uint32_t chunk_count)
{
    enum op_phase phase = box_phase(r);
    if (phase > PHASE_RECOMPUTE || r->micro_batch == OP_TAG_NONE) {
        return 0;
    }
    if (chunk_count > 1 && r->chunk != OP_TAG_NONE) {
        return 0.45 * r->chunk / (chunk_count - 1);
    }
    return r->micro_batch % 2 == 0 ? 0 : 0.28;
}

size_t box_pass_end(const struct boxes *all, size_t first)
{
    const struct box *r = &all->items[first];
    size_t end = first + 1;
    while (end < all->count && !all->items[end].strip && all->items[end].row == r->row &&
           all->items[end].micro_batch == r->micro_batch && all->items[end].chunk == r->chunk &&
           all->items[end].direction == r->direction) {
        end++;
    }
    return end;
}

bool box_is_pass(const struct box *r)
{
    return !r->strip && box_phase(r) <= PHASE_RECOMPUTE && r->micro_batch != OP_TAG_NONE;
}

static int compare_lengths(const void *a, const void *b)
{
    const double *x = a, *y = b;
    return *x < *y ? -1 : *x > *y;
}

/* Lower quartile of the lengths of passes (a forward, mostly): what a reader wants to tell apart; and how many passes there are. */
static double short_pass_ps(const struct boxes *all, size_t *pass_count)
{
    double *lengths = calloc(all->count + 1, sizeof *lengths);
    size_t count = 0;
    for (size_t i = 0, end; lengths != NULL && i < all->count; i = end) {
        end = i + 1;
        if (box_is_pass(&all->items[i])) {
            end = box_pass_end(all, i);
            lengths[count++] = (double)(all->items[end - 1].to_ps - all->items[i].from_ps);
        }
    }
    double quartile = 0;
    if (count > 0) {
        qsort(lengths, count, sizeof *lengths, compare_lengths);
        quartile = lengths[count / 4];
    }
    free(lengths);
    *pass_count = count;
    return quartile;
}

/* The second panel: the beginning, enlarged so that a pass is wide enough for its number. */
static void enlarge(const struct boxes *all, double pass_ps, int64_t end_ps, struct boxes_panel *panel)
{
    int64_t window_ps = (int64_t)(pass_ps * BOXES_PIXELS / (1.4 * BOX_LABEL_PIXELS));
    for (size_t i = 0; i < all->count; i++) {
        if (box_is_pass(&all->items[i]) && all->items[i].row == 0) {
            panel->from_ps = all->items[i].from_ps;
            break;
        }
    }
    panel->to_ps = panel->from_ps + window_ps < end_ps ? panel->from_ps + window_ps : end_ps;
}

static void note_ops(struct boxes_picture *picture, const struct box_op *ops, size_t op_count)
{
    picture->chunk_count = 1;
    for (size_t i = 0; i < op_count; i++) {
        if (ops[i].chunk != OP_TAG_NONE && ops[i].chunk + 1u > picture->chunk_count) {
            picture->chunk_count = ops[i].chunk + 1u;
        }
    }
}

static void note_phases(struct boxes_picture *picture, const struct boxes *all)
{
    for (size_t i = 0; i < all->count; i++) {
        picture->phases[box_phase(&all->items[i])] = true;
    }
}

enum status boxes_plan(struct boxes_picture *picture, const struct box_op *ops, size_t op_count, uint32_t rank_count,
                       int64_t end_ps, struct error *error)
{
    *picture = (struct boxes_picture){ .panels = { { .to_ps = end_ps } }, .panel_count = 1 };
    struct boxes *all = &picture->panels[0].boxes;
    int64_t pixel_ps = end_ps / BOXES_PIXELS + 1;
    size_t passes = 0;
    enum status status;
    uint32_t *row_of_rank = calloc((size_t)rank_count + 1, sizeof *row_of_rank);
    if (row_of_rank == NULL) {
        return error_set(error, STATUS_NO_MEMORY, "out of memory for the timeline picture");
    }
    note_ops(picture, ops, op_count);
    choose_rows(picture, row_of_rank, rank_count, BOXES_ROWS_MAX);
    TRY_OR_FAIL(collect(picture, row_of_rank, ops, op_count, 0, end_ps, all, error));
    double pass_ps = short_pass_ps(all, &passes);
    if (passes > BOXES_MAX && picture->row_count > ROWS_LEAST) { /* fewer rows rather than less detail */
        uint32_t fit = (uint32_t)(picture->row_count * (double)BOXES_MAX / (double)passes);
        choose_rows(picture, row_of_rank, rank_count, fit > ROWS_LEAST ? fit : ROWS_LEAST);
        TRY_OR_FAIL(collect(picture, row_of_rank, ops, op_count, 0, end_ps, all, error));
    }
    if (pass_ps > 0 && pass_ps < CROWDED_PIXELS * (double)pixel_ps) {
        picture->panel_count = 2;
        enlarge(all, pass_ps, end_ps, &picture->panels[1]);
    }
    for (uint32_t i = 0; i < picture->panel_count; i++) {
        struct boxes_panel *panel = &picture->panels[i];
        TRY_OR_FAIL(collect(picture, row_of_rank, ops, op_count, panel->from_ps, panel->to_ps, &panel->boxes, error));
        refine(&panel->boxes, (panel->to_ps - panel->from_ps) / BOXES_PIXELS + 1);
        note_phases(picture, &panel->boxes);
    }
fail:
    free(row_of_rank);
    if (status != STATUS_OK) {
        boxes_free(picture);
    }
    return status;
}

void boxes_free(struct boxes_picture *picture)
{
    for (size_t i = 0; i < 2; i++) {
        array_free(&picture->panels[i].boxes);
    }
}
