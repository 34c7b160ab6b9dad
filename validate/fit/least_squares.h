/* Robust nonlinear least squares (GSL multifit_nlinear, Levenberg-Marquardt) of relative errors over constants that are positive.
 *
 * A constant moves as its logarithm, or through a logistic where it lies in (0, 1). The residual of a point is log(model / measured). The loss is pseudo-Huber: quadratic
 * up to about `width`, linear beyond, so that a wild point pulls no harder than a bad one; the width follows the scatter of the residuals (1.5 robust standard deviations).
 * Each constant has a weak prior: a normal distribution about where it starts, `prior_width` wide on its own scale, which keeps what the points cannot tell near that start.
 *
 * Standard errors: with r the residuals, J their slopes on the constants' scale, psi and psi' the loss' first two derivatives,
 *     s^2 = (sum psi(r)^2 / (n - p)) / mean(psi'(r))^2        (Huber 1981, section 7.6)
 *     covariance = (J'J / s^2 + diag(1 / prior_width^2))^-1
 * and the square roots of its diagonal, brought back from the scale by its slope. */
#ifndef MEMWALL_VALIDATE_LEAST_SQUARES_H
#define MEMWALL_VALIDATE_LEAST_SQUARES_H

#include <stdbool.h>
#include <stdint.h>

#include "sim/base/status.h"

enum lsq_scale { LSQ_LOG, LSQ_LOGISTIC };

struct lsq_constant {
    double start, least, greatest; /* 0 < least <= start <= greatest; LSQ_LOGISTIC: below 1 */
    enum lsq_scale scale;
    double prior_width; /* > 0, on the scale: LSQ_LOG 0.5 is "within a factor of 1.6" */
    bool held;          /* stays at start */
    /* results */
    double value, standard_error; /* of held ones: start, 0 */
    double certainty;             /* standard error on the scale over prior_width: 1 is "nothing learned" */
};

enum { LSQ_CONSTANTS_MAX = 32 };

struct lsq_problem {
    struct lsq_constant *constants;
    uint32_t constant_count; /* at most LSQ_CONSTANTS_MAX */
    uint32_t point_count;    /* residuals 0 .. point_count-1; at least as many as constants not held */
    uint32_t starts; /* >= 1: the first from the starts, the others about them, a fixed sequence; the best is kept */
    void (*set)(void *context, const double *values);  /* all constants' values, before the residuals at them */
    double (*residual)(void *context, uint32_t point); /* log(model / measured); finite */
    void *context;
    double width; /* result */
};

/* On return the constants are set (problem->set was called last with the result). STATUS_BAD_INPUT: fewer points than constants; STATUS_NO_MEMORY. A fit that does not
 * converge returns its best. */
enum status lsq_fit(struct lsq_problem *problem, struct error *error);

#endif
