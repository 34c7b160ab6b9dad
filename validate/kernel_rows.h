/* Measured kernels as (kernel, seconds) rows: the table simumax_measured_kernel_efficiency.csv (not ours: read from ../shared/data/measured). The importer of
 * calibrations (validate/calibrate/import_csv.c) makes points of them, tests/accuracy/a_kernels.c judges by them.
 *
 * Measured rates are of back-to-back launches, so one launch gap is taken off each time: the kernel cost model has none.
 *
 * Products came from a board whose power limit had acted already or not yet, which makes up to 1.5 of a rate on B200. The table keeps the order of measuring, and the tool
 * (MooreThreads/SimuMax simu_tools/efficency_test/test_gemm_efficiency.py, afe4ef57) says the rest: each shape is launched 25 times to warm up, then 75 times timed; the
 * products of a configuration follow each other, projections first and the language model head last; before the next one the tool computes for seconds and the board rests.
 * From that follows each row's load since rest, with every product taken to run at half the peak: from shapes alone, so that no row's measured time tells about any row. */
#ifndef MEMWALL_VALIDATE_KERNEL_ROWS_H
#define MEMWALL_VALIDATE_KERNEL_ROWS_H

#include <stddef.h>

#include "sim/base/status.h"
#include "sim/engine/kernel_cost.h"
#include "sim/ir/kernel.h"

enum { KERNEL_ROW_KEY_BYTES = 160 };

/* The gap between back-to-back launches of this table's machines: latency.kernel_gap_us of the shipped ones (facts/hardware.md C.5: 1 to 2 us). */
#define KERNEL_ROWS_LAUNCH_GAP_S 1.5e-6

/* Of each shape, in the measuring tool: those to warm up, and all. */
enum { KERNEL_ROWS_WARM_LAUNCHES = 25, KERNEL_ROWS_LAUNCHES = 100 };

struct kernel_row {
    struct kernel kernel;
    double measured_s;
    struct kernel_load load;        /* products: over the timed launches; attention: 0, 0, unknown */
    char key[KERNEL_ROW_KEY_BYTES]; /* the shape as the source writes it */
};

/* Append the rows of `system` and class (GEMM or the two attentions) to rows[*count...max). Attention rows whose query-key and value heads differ
 * stand with their mean head size. Errors: no such file, a line that is not a row. */
enum status kernel_rows_measured(const char *path, const char *system, enum kernel_class kernel_class, enum dtype dtype,
                                 double launch_gap_s, struct kernel_row *rows, size_t max, size_t *count,
                                 struct error *error);

#endif
