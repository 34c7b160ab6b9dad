/* The programme, through GLPK. */
#include "strategies/planners/checkmate_search.h"

#include <glpk.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/check.h"

enum { MODES = RECOMPUTE_MODE_COUNT, NODES_MAX = 2000 };

double checkmate_peak(const struct hippie_layer *layers, uint32_t count, uint32_t in_flight, const uint8_t *modes)
{
    double kept = 0, largest = 0;
    for (uint32_t i = 0; i < count; i++) {
        kept += layers[i].saved_bytes[modes[i]];
        largest = fmax(largest, layers[i].saved_bytes[RECOMPUTE_NONE] - layers[i].saved_bytes[modes[i]]);
    }
    return in_flight * kept + largest;
}

static double again_of(const struct hippie_layer *layers, uint32_t count, const uint8_t *modes)
{
    double seconds = 0;
    for (uint32_t i = 0; i < count; i++) {
        seconds += layers[i].again_s[modes[i]];
    }
    return seconds;
}

static int column(uint32_t layer, int mode)
{
    return (int)layer * MODES + mode + 1;
}

/* Bytes are scaled by the budget: GLPK's tolerances are absolute. Memory rows are the first `count`, choice rows the next. */
static void fill(glp_prob *problem, const struct hippie_layer *layers, uint32_t count, uint32_t in_flight,
                 double budget_bytes, int *index, double *value)
{
    glp_set_obj_dir(problem, GLP_MIN);
    glp_add_rows(problem, 2 * (int)count);
    glp_add_cols(problem, MODES * (int)count);
    for (uint32_t i = 0; i < count; i++) {
        for (int mode = 0; mode < MODES; mode++) {
            glp_set_obj_coef(problem, column(i, mode), layers[i].again_s[mode]);
            glp_set_col_kind(problem, column(i, mode), GLP_BV);
        }
    }
    for (uint32_t row = 0; row < count; row++) {
        int length = 0;
        for (uint32_t i = 0; i < count; i++) {
            for (int mode = 0; mode < MODES; mode++) {
                double saved = layers[i].saved_bytes[mode], whole = layers[i].saved_bytes[RECOMPUTE_NONE];
                index[++length] = column(i, mode);
                value[length] = (in_flight * saved + (i == row ? whole - saved : 0)) / budget_bytes;
            }
        }
        glp_set_mat_row(problem, (int)row + 1, length, index, value);
        glp_set_row_bnds(problem, (int)row + 1, GLP_UP, 0, 1);
        for (int mode = 0; mode < MODES; mode++) {
            index[mode + 1] = column(row, mode);
            value[mode + 1] = 1;
        }
        glp_set_mat_row(problem, (int)(count + row) + 1, MODES, index, value);
        glp_set_row_bnds(problem, (int)(count + row) + 1, GLP_FX, 1, 1);
    }
}

/* Each layer's least-keeping mode that has a share, then back while it fits. */
static void round_modes(glp_prob *problem, const struct hippie_layer *layers, uint32_t count, uint32_t in_flight,
                        double budget_bytes, uint8_t *modes)
{
    static const double SHARE = 1e-6; /* GLPK's own feasibility tolerance is 1e-7 */
    for (uint32_t i = 0; i < count; i++) {
        modes[i] = RECOMPUTE_NONE;
        for (int mode = 0; mode < MODES; mode++) {
            bool less = layers[i].saved_bytes[mode] < layers[i].saved_bytes[modes[i]];
            if (glp_get_col_prim(problem, column(i, mode)) > SHARE &&
                (less || glp_get_col_prim(problem, column(i, modes[i])) <= SHARE)) {
                modes[i] = (uint8_t)mode;
            }
        }
    }
    for (uint32_t i = 0; i < count; i++) {
        for (int mode = 0; mode < MODES; mode++) {
            uint8_t before = modes[i];
            modes[i] = (uint8_t)mode;
            if (layers[i].again_s[mode] >= layers[i].again_s[before] ||
                checkmate_peak(layers, count, in_flight, modes) > budget_bytes) {
                modes[i] = before;
            }
        }
    }
}

static bool same_layer(const struct hippie_layer *a, const struct hippie_layer *b)
{
    return memcmp(a, b, sizeof *a) == 0;
}

/* Of equal neighbours the earlier one recomputes no less: otherwise every exchange of them is a solution of its own to be searched. */
static void order_equals(glp_prob *problem, const struct hippie_layer *layers, uint32_t count)
{
    for (uint32_t i = 1; i < count; i++) {
        int index[2 * MODES + 1];
        double value[2 * MODES + 1];
        if (!same_layer(&layers[i - 1], &layers[i])) {
            continue;
        }
        for (int mode = 0; mode < MODES; mode++) {
            index[1 + mode] = column(i - 1, mode);
            value[1 + mode] = mode;
            index[1 + MODES + mode] = column(i, mode);
            value[1 + MODES + mode] = -mode;
        }
        int row = glp_add_rows(problem, 1);
        glp_set_mat_row(problem, row, 2 * MODES, index, value);
        glp_set_row_bnds(problem, row, GLP_LO, 0, 0);
    }
}

/* A limit in nodes, not in seconds: the same answer on every computer. */
static void limit_nodes(glp_tree *tree, void *nodes)
{
    if (glp_ios_reason(tree) == GLP_ISELECT && ++*(int *)nodes > NODES_MAX) {
        glp_ios_terminate(tree);
    }
}

static void read_modes(glp_prob *problem, uint32_t count, uint8_t *modes)
{
    for (uint32_t i = 0; i < count; i++) {
        for (int mode = 0; mode < MODES; mode++) {
            if (glp_mip_col_val(problem, column(i, mode)) > 0.5) {
                modes[i] = (uint8_t)mode;
            }
        }
    }
}

static enum status solve(glp_prob *problem, const struct hippie_layer *layers, uint32_t count, uint32_t in_flight,
                         double budget_bytes, uint8_t *modes, struct checkmate_answer *answer, struct error *error)
{
    glp_smcp simplex;
    glp_iocp integer;
    glp_init_smcp(&simplex);
    glp_init_iocp(&integer);
    simplex.msg_lev = GLP_MSG_OFF;
    integer.msg_lev = GLP_MSG_OFF;
    if (glp_simplex(problem, &simplex) != 0 || glp_get_status(problem) != GLP_OPT) {
        return error_set(error, STATUS_EXECUTION, "GLPK solved no relaxation over %u layers", count);
    }
    round_modes(problem, layers, count, in_flight, budget_bytes, modes);
    if (count > CHECKMATE_EXACT_MAX) {
        return STATUS_OK;
    }
    int nodes = 0, failed;
    integer.cb_func = limit_nodes;
    integer.cb_info = &nodes;
    order_equals(problem, layers, count);
    failed = glp_simplex(problem, &simplex);
    failed = failed != 0 ? failed : glp_intopt(problem, &integer);
    if (failed != 0 && failed != GLP_ESTOP) {
        return error_set(error, STATUS_EXECUTION, "GLPK did not solve the programme over %u layers (code %d)", count,
                         failed);
    }
    answer->exact = failed == 0 && glp_mip_status(problem) == GLP_OPT;
    bool has_better = failed == GLP_ESTOP && glp_mip_status(problem) == GLP_FEAS &&
                      glp_mip_obj_val(problem) < again_of(layers, count, modes);
    if (answer->exact || has_better) {
        read_modes(problem, count, modes);
    }
    return STATUS_OK;
}

/* The modes that keep least: if these do not fit, none do. */
static bool least_fits(const struct hippie_layer *layers, uint32_t count, uint32_t in_flight, double budget_bytes)
{
    double kept = 0, rows = -INFINITY;
    for (uint32_t i = 0; i < count; i++) {
        double least = INFINITY;
        for (int mode = 0; mode < MODES; mode++) {
            least = fmin(least, layers[i].saved_bytes[mode]);
        }
        kept += least;
        /* with several in flight the least-keeping mode also makes the layer's own row least; with one its row does not depend on it */
        rows = fmax(rows, layers[i].saved_bytes[RECOMPUTE_NONE] - least);
    }
    return in_flight * kept + rows <= budget_bytes;
}

enum status checkmate_search(const struct hippie_layer *layers, uint32_t count, uint32_t in_flight, double budget_bytes,
                             uint8_t *modes, struct checkmate_answer *answer, struct error *error)
{
    *answer = (struct checkmate_answer){ 0 };
    CHECK(count > 0 && in_flight > 0);
    if (!(budget_bytes > 0) || !least_fits(layers, count, in_flight, budget_bytes)) {
        return STATUS_OK;
    }
    int *index = calloc((size_t)count * MODES + 1, sizeof *index);
    double *value = calloc((size_t)count * MODES + 1, sizeof *value);
    glp_prob *problem = glp_create_prob();
    enum status status = STATUS_OK;
    if (index == NULL || value == NULL) {
        status = error_set(error, STATUS_NO_MEMORY, "out of memory for a programme over %u layers", count);
    } else {
        fill(problem, layers, count, in_flight, budget_bytes, index, value);
        status = solve(problem, layers, count, in_flight, budget_bytes, modes, answer, error);
    }
    glp_delete_prob(problem);
    free(index);
    free(value);
    if (status == STATUS_OK) {
        answer->found = true;
        answer->again_s = again_of(layers, count, modes);
        answer->peak_bytes = checkmate_peak(layers, count, in_flight, modes);
    }
    return status;
}
