/* Fits: from measured points to the constants of a machine file (DESIGN.md section 4), by robust nonlinear least squares (GSL), with standard errors and residuals.
 *
 * What the points cannot tell is not fitted: the draft keeps what it had, and the report says what is missing ("no peer copies: links between devices kept"). Too few
 * points, points that no constants explain, times of zero or beyond physics are refused by name (STATUS_BAD_INPUT).
 *
 * Every fit leaves out a documented part (every fifth point by the hash of what it measures, sets above 40 points) and judges it apart. */
#ifndef MEMWALL_VALIDATE_FIT_H
#define MEMWALL_VALIDATE_FIT_H

#include "sim/base/strbuf.h"
#include "validate/calibrate/draft.h"
#include "validate/calibrate/points.h"

struct fit_line {
    char what[64]; /* "gemm fp16", "copy h2d", "all_reduce 8 ranks" */
    uint32_t points, left_out;
    double mean_error, worst_error; /* relative, of the fitted points */
    double left_out_mean_error;     /* NAN: none left out */
};

enum { FIT_LINES_MAX = 64 };
struct fit_report {
    struct fit_line lines[FIT_LINES_MAX];
    uint32_t line_count;
    struct strbuf missing; /* one line for each constant that the points could not tell */
};

/* Fit all that the points allow into `draft`, whose gpu section (or base) must already give sm_count, peak_TFLOPS and hbm_GBps or points to find them from. */
enum status fit_points(struct draft *draft, const struct points *points, struct fit_report *report,
                       struct error *error);
/* Whether a set of more than 40 points leaves this one out: by the hash of what it measures (point_text), so that a table's split never changes. */
bool fit_is_left_out(const struct point *point);
/* Seconds that the cost model gives the kernel of a point, under the load since rest that it was timed at (of points that do not tell: a usual benchmark's). */
double fit_kernel_s(const struct machine_gpu *gpu, const struct point *point);
void fit_report_free(struct fit_report *report);
void fit_report_print(const struct fit_report *report, struct strbuf *out); /* as a table with units */

#endif
