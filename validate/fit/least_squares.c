#include "validate/fit/least_squares.h"

#include <gsl/gsl_blas.h>
#include <gsl/gsl_errno.h>
#include <gsl/gsl_linalg.h>
#include <gsl/gsl_multifit_nlinear.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/check.h"

/* The loss is first this wide, then follows the scatter, within these. */
static const double WIDTH_FIRST = 0.05, WIDTH_LEAST = 0.002, WIDTH_GREATEST = 0.25;
static const double WIDTH_SIGMAS = 1.5; /* width over the scatter's standard deviation */
static const double NORMAL_MAD =
    1.4826; /* standard deviation over median absolute deviation, of a normal distribution */
static const double SCATTER_LEAST = 1e-7; /* of exact points, so that their errors are not 0 */
static const double START_SPREAD = 1.2;   /* of further starts, in prior widths */
/* Slopes by differences this wide: tile models have kinks where another tile wins, and wide steps see past them. */
static const double DIFFERENCE = 1e-4;
enum { WIDTH_ROUNDS = 2, ITERATIONS_MAX = 200 };

struct work {
    struct lsq_problem *problem;
    uint32_t free[LSQ_CONSTANTS_MAX]; /* constants that move */
    uint32_t free_count;
    double *residuals; /* [point_count] */
    gsl_multifit_nlinear_fdf fdf;
    gsl_multifit_nlinear_workspace *solver;
    gsl_vector *start, *best;
};

static double to_scale(const struct lsq_constant *constant, double value)
{
    return constant->scale == LSQ_LOGISTIC ? log(value / (1 - value)) : log(value);
}

static double from_scale(const struct lsq_constant *constant, double x)
{
    double value = constant->scale == LSQ_LOGISTIC ? 1 / (1 + exp(-x)) : exp(x);
    return fmin(constant->greatest, fmax(constant->least, value));
}

static double slope_of(const struct lsq_constant *constant, double value)
{
    return constant->scale == LSQ_LOGISTIC ? value * (1 - value) : value;
}

static void residuals_at(struct work *work, const gsl_vector *x)
{
    struct lsq_problem *problem = work->problem;
    double values[LSQ_CONSTANTS_MAX];
    for (uint32_t c = 0; c < problem->constant_count; c++) {
        values[c] = problem->constants[c].start;
    }
    for (uint32_t j = 0; j < work->free_count; j++) {
        values[work->free[j]] = from_scale(&problem->constants[work->free[j]], gsl_vector_get(x, j));
    }
    problem->set(problem->context, values);
    for (uint32_t i = 0; i < problem->point_count; i++) {
        work->residuals[i] = problem->residual(problem->context, i);
    }
}

/* Points first, then a row for each prior. A residual of one standard deviation stands at 1 / WIDTH_SIGMAS, and so does a prior's. */
static int losses(const gsl_vector *x, void *context, gsl_vector *f)
{
    struct work *work = context;
    struct lsq_problem *problem = work->problem;
    residuals_at(work, x);
    for (uint32_t i = 0; i < problem->point_count; i++) {
        double e = work->residuals[i] / problem->width;
        gsl_vector_set(f, i, copysign(sqrt(2 * (sqrt(1 + e * e) - 1)), e));
    }
    for (uint32_t j = 0; j < work->free_count; j++) {
        const struct lsq_constant *constant = &problem->constants[work->free[j]];
        double off = (gsl_vector_get(x, j) - to_scale(constant, constant->start)) / constant->prior_width;
        gsl_vector_set(f, problem->point_count + j, off / WIDTH_SIGMAS);
    }
    return GSL_SUCCESS;
}

/* From x on; the better of it and *best is kept. Returns whether GSL could begin. */
static bool descend(struct work *work, gsl_vector *x, double *best_loss)
{
    int info;
    double loss;
    if (gsl_multifit_nlinear_init(x, &work->fdf, work->solver) != GSL_SUCCESS) {
        return false;
    }
    (void)gsl_multifit_nlinear_driver(ITERATIONS_MAX, 1e-7, 1e-9, 1e-9, NULL, NULL, &info, work->solver);
    gsl_blas_ddot(work->solver->f, work->solver->f, &loss);
    if (loss < *best_loss) {
        *best_loss = loss;
        gsl_vector_memcpy(work->best, work->solver->x);
    }
    return true;
}

static void descend_from_all(struct work *work)
{
    const struct lsq_problem *problem = work->problem;
    double best_loss = INFINITY;
    uint32_t state = 1;
    gsl_vector *x = gsl_vector_alloc(work->free_count);
    gsl_vector_memcpy(work->best, work->start);
    for (uint32_t round = 0; x != NULL && round < problem->starts; round++) {
        for (uint32_t j = 0; j < work->free_count; j++) {
            state = state * 1664525u + 1013904223u;
            double part = round == 0 ? 0 : (double)(state >> 8) / 0x1p23 - 1;
            double spread = START_SPREAD * problem->constants[work->free[j]].prior_width;
            gsl_vector_set(x, j, gsl_vector_get(work->start, j) + spread * part);
        }
        (void)descend(work, x, &best_loss);
    }
    gsl_vector_free(x);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The scatter of the residuals at `best`, without constants' share; 0 without memory. */
static double scatter(const struct work *work)
{
    uint32_t count = work->problem->point_count;
    double *sizes = malloc(count * sizeof *sizes), median = 0;
    if (sizes != NULL) {
        for (uint32_t i = 0; i < count; i++) {
            sizes[i] = fabs(work->residuals[i]);
        }
        qsort(sizes, count, sizeof *sizes, by_value);
        median = sizes[count / 2];
        free(sizes);
    }
    return NORMAL_MAD * median * sqrt((double)count / fmax(1, (double)count - work->free_count));
}

/* s of the header. */
static double deviation(const struct work *work)
{
    double width = work->problem->width, squares = 0, slopes = 0, count = work->problem->point_count;
    for (uint32_t i = 0; i < work->problem->point_count; i++) {
        double e = work->residuals[i] / width, root = sqrt(1 + e * e);
        squares += width * width * e * e / (root * root);
        slopes += 1 / (root * root * root);
    }
    double left = fmax(1, count - work->free_count);
    return fmax(SCATTER_LEAST, sqrt(squares / left) / (slopes / count));
}

/* J'J / s^2 + priors at `best`, then its inverse. */
static enum status covariance(struct work *work, gsl_matrix *matrix, struct error *error)
{
    const struct lsq_problem *problem = work->problem;
    uint32_t p = work->free_count, n = problem->point_count;
    gsl_matrix *slopes = gsl_matrix_alloc(n, p);
    gsl_vector *x = gsl_vector_alloc(p);
    enum status status = STATUS_OK;
    if (slopes == NULL || x == NULL) {
        status = error_set(error, STATUS_NO_MEMORY, "out of memory fitting %u points", n);
        goto done;
    }
    for (uint32_t j = 0; j < p; j++) {
        for (int side = -1; side <= 1; side += 2) {
            gsl_vector_memcpy(x, work->best);
            gsl_vector_set(x, j, gsl_vector_get(x, j) + side * DIFFERENCE);
            residuals_at(work, x);
            for (uint32_t i = 0; i < n; i++) {
                double before = side < 0 ? 0 : gsl_matrix_get(slopes, i, j);
                gsl_matrix_set(slopes, i, j, before + side * work->residuals[i] / (2 * DIFFERENCE));
            }
        }
    }
    residuals_at(work, work->best);
    double s = deviation(work);
    gsl_blas_dgemm(CblasTrans, CblasNoTrans, 1 / (s * s), slopes, slopes, 0, matrix);
    for (uint32_t j = 0; j < p; j++) {
        double prior = problem->constants[work->free[j]].prior_width;
        gsl_matrix_set(matrix, j, j, gsl_matrix_get(matrix, j, j) + 1 / (prior * prior));
    }
    /* Positive definite by its priors; rounding can still spoil it when points are exact. */
    if (gsl_linalg_cholesky_decomp1(matrix) != GSL_SUCCESS || gsl_linalg_cholesky_invert(matrix) != GSL_SUCCESS) {
        gsl_matrix_set_zero(matrix);
    }
done:
    gsl_matrix_free(slopes);
    gsl_vector_free(x);
    return status;
}

static enum status results(struct work *work, struct error *error)
{
    struct lsq_problem *problem = work->problem;
    for (uint32_t c = 0; c < problem->constant_count; c++) {
        struct lsq_constant *constant = &problem->constants[c];
        constant->value = constant->start;
        constant->standard_error = 0;
        constant->certainty = 1;
    }
    if (work->free_count == 0) {
        residuals_at(work, NULL);
        return STATUS_OK;
    }
    gsl_matrix *matrix = gsl_matrix_alloc(work->free_count, work->free_count);
    if (matrix == NULL) {
        return error_set(error, STATUS_NO_MEMORY, "out of memory fitting %u constants", work->free_count);
    }
    enum status status = covariance(work, matrix, error);
    for (uint32_t j = 0; status == STATUS_OK && j < work->free_count; j++) {
        struct lsq_constant *constant = &problem->constants[work->free[j]];
        double on_scale = sqrt(fmax(0, gsl_matrix_get(matrix, j, j)));
        constant->value = from_scale(constant, gsl_vector_get(work->best, j));
        constant->standard_error = on_scale * slope_of(constant, constant->value);
        constant->certainty = on_scale / constant->prior_width;
    }
    gsl_matrix_free(matrix);
    return status;
}

static enum status solve(struct work *work, struct error *error)
{
    struct lsq_problem *problem = work->problem;
    uint32_t rows = problem->point_count + work->free_count;
    gsl_multifit_nlinear_parameters settings = gsl_multifit_nlinear_default_parameters();
    settings.h_df = DIFFERENCE;
    work->fdf = (gsl_multifit_nlinear_fdf){ .f = losses, .n = rows, .p = work->free_count, .params = work };
    work->solver = gsl_multifit_nlinear_alloc(gsl_multifit_nlinear_trust, &settings, rows, work->free_count);
    work->start = gsl_vector_alloc(work->free_count);
    work->best = gsl_vector_alloc(work->free_count);
    if (work->solver == NULL || work->start == NULL || work->best == NULL) {
        return error_set(error, STATUS_NO_MEMORY, "out of memory fitting %u points", problem->point_count);
    }
    for (uint32_t j = 0; j < work->free_count; j++) {
        const struct lsq_constant *constant = &problem->constants[work->free[j]];
        gsl_vector_set(work->start, j, to_scale(constant, constant->start));
    }
    descend_from_all(work);
    for (int round = 0; round < WIDTH_ROUNDS; round++) {
        residuals_at(work, work->best);
        problem->width = fmin(WIDTH_GREATEST, fmax(WIDTH_LEAST, WIDTH_SIGMAS * scatter(work)));
        double best_loss = INFINITY;
        gsl_vector *x = gsl_vector_alloc(work->free_count);
        if (x != NULL) {
            gsl_vector_memcpy(x, work->best);
            (void)descend(work, x, &best_loss);
            gsl_vector_free(x);
        }
    }
    return STATUS_OK;
}

enum status lsq_fit(struct lsq_problem *problem, struct error *error)
{
    struct work work = { .problem = problem };
    enum status status = STATUS_OK;
    CHECK(problem->constant_count <= LSQ_CONSTANTS_MAX && problem->starts >= 1);
    problem->width = WIDTH_FIRST;
    for (uint32_t c = 0; c < problem->constant_count; c++) {
        const struct lsq_constant *constant = &problem->constants[c];
        CHECK(constant->held || (constant->start > 0 && constant->prior_width > 0 && constant->greatest > 0));
        if (!constant->held) {
            work.free[work.free_count++] = c;
        }
    }
    if (problem->point_count < work.free_count || problem->point_count == 0) {
        return error_set(error, STATUS_BAD_INPUT, "%u points cannot tell %u constants", problem->point_count,
                         work.free_count);
    }
    /* GSL's handler ends the process: switched off for as long as this lasts, its codes are looked at instead. */
    gsl_error_handler_t *handler = gsl_set_error_handler_off();
    work.residuals = malloc(problem->point_count * sizeof *work.residuals);
    if (work.residuals == NULL) {
        status = error_set(error, STATUS_NO_MEMORY, "out of memory fitting %u points", problem->point_count);
        goto fail;
    }
    if (work.free_count > 0) {
        TRY_OR_FAIL(solve(&work, error));
    }
    TRY_OR_FAIL(results(&work, error));
fail:
    free(work.residuals);
    gsl_multifit_nlinear_free(work.solver);
    gsl_vector_free(work.start);
    gsl_vector_free(work.best);
    (void)gsl_set_error_handler(handler);
    return status;
}
