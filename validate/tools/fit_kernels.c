/* fit_kernels: fits the GEMM constants of hw_models/kernel_constants.h to measured shapes and prints them with their errors.
 *
 *     fit_kernels GROUP MEASURED.csv [worst N] [fix KEY=VALUE]... [start KEY=VALUE]...
 *
 * A developer's program: what it prints is typed into hw_models/machines with its source. GROUP is a family of systems that share all constants
 * but the plateau (sm_efficiency): the tiles are the generation's, the power limit is the board's. MEASURED.csv is
 * simumax_measured_kernel_efficiency.csv; further points come from validate/published/gemm_points.h. Every fifth shape of a system
 * (validate/kernel_rows.h) is left out of the fit and judged apart. The fit is robust nonlinear least squares (GSL
 * multifit_nlinear, Levenberg-Marquardt) of log(model time / measured time) under a pseudo-Huber loss of width 5 %, over the logarithm of each
 * constant; wave_share runs through a logistic. */
#include <gsl/gsl_blas.h>
#include <gsl/gsl_multifit_nlinear.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/engine/kernel_cost.h"
#include "validate/kernel_rows.h"

enum { ROWS_MAX = 2048, SYSTEMS_MAX = 4, STARTS = 60 };

/* Device figures: facts/hardware.md A.1. Rates are of back-to-back launches: the gap between them is not the kernel's. */
static const struct system {
    const char *group, *name;
    enum dtype dtype;
    uint32_t sm_count;
    double peak_flops, hbm_bytes_per_s, launch_gap_s;
} SYSTEMS[] = {
    { "a100", "a100_pcie", DTYPE_BF16, 108, 312e12, 1600e9, 1.5e-6 },
    { "a100", "a100_sxm", DTYPE_FP16, 108, 312e12, 1700e9, 1.5e-6 },
    { "b200", "b200_bf16_ceperm", DTYPE_BF16, 148, 2250e12, 7000e9, 1.5e-6 },
    { "h100", "h100_sxm", DTYPE_BF16, 132, 989e12, 2970e9, 1.5e-6 },
    { "h100-fp8", "h100_sxm", DTYPE_FP8, 132, 1979e12, 2970e9, 1.5e-6 },
    { "h100-fp8", "h200_sxm", DTYPE_FP8, 132, 1979e12, 4150e9, 1.5e-6 },
    { "rtx4090", "rtx4090", DTYPE_BF16, 128, 165.2e12, 920e9, 1.5e-6 },
    { "rtx4090", "rtx4090", DTYPE_FP8, 128, 330.3e12, 920e9, 1.5e-6 },
};

/* Where a fit begins and what it does not move, by group ("" = all). What the shapes at hand cannot tell is held, with the reason. */
static const struct setting {
    const char *group;
    enum gemm_constant constant;
    double value;
    bool held;
} SETTINGS[] = {
    { "", GEMM_SM_EFFICIENCY, 0.8, false },
    { "", GEMM_BOOST, 1, true }, /* only B200 was measured hot and cold */
    { "", GEMM_BOOST_S, 0, true },
    { "", GEMM_SHARPNESS, 4, false },
    { "", GEMM_TILE_LOSS, 0.2, false },
    { "", GEMM_TILE_S, 3e-7,
      true }, /* fits pull it to 0, where small K would cost nothing: about 400 cycles of load latency */
    { "", GEMM_OUTPUT_EXPOSED, 0.5, false },
    { "", GEMM_WAVE_SHARE, 0.7, false },
    { "", GEMM_SPLIT_S, 1e-5, false },
    { "", GEMM_TN_FACTOR, 1, false },
    { "", GEMM_NT_FACTOR, 1, false },
    { "", GEMM_FLOOR_S, 3e-6, false },
    { "a100", GEMM_FLOOR_S, 2.5e-6, true }, /* no shape below 16 us */
    { "h100", GEMM_TN_FACTOR, 1, true },    /* one layout measured */
    { "h100", GEMM_NT_FACTOR, 1, true },
    { "h100", GEMM_WAVE_SHARE, 0.9, true }, /* flat towards 1 */
    /* Shapes end at 4096^3 and 180 us. Long launches reach 794.5 TFLOP/s at best (facts A.2), 0.803 of the peak: the sustained rate. */
    { "h100", GEMM_SM_EFFICIENCY, 0.80, true },
    { "h100", GEMM_BOOST, 1.2, false },
    { "h100", GEMM_BOOST_S, 3e-4, true }, /* B200's order of magnitude; nothing published shows it for H100 */
    { "b200", GEMM_BOOST, 1.4, false },
    { "b200", GEMM_BOOST_S, 1e-4, false },
    { "b200", GEMM_SHARPNESS, 3, true }, /* H100's: alone it goes to 1.4 without gain */
    { "b200", GEMM_TILE_LOSS, 0.2, true },
    { "b200", GEMM_FLOOR_S, 3e-6, true },
    /* Eleven and three large cubes tell the plateau and the floor; the rest is H100's. */
    { "h100-fp8", GEMM_SHARPNESS, 3.2, true },
    { "h100-fp8", GEMM_OUTPUT_EXPOSED, 0.54, true },
    { "h100-fp8", GEMM_TILE_LOSS, 0.2, true },
    { "h100-fp8", GEMM_WAVE_SHARE, 0.9, true },
    { "h100-fp8", GEMM_SPLIT_S, 1.2e-6, true },
    { "h100-fp8", GEMM_TN_FACTOR, 1, true },
    { "h100-fp8", GEMM_NT_FACTOR, 1, true },
    { "rtx4090", GEMM_SHARPNESS, 2.6, true },
    { "rtx4090", GEMM_OUTPUT_EXPOSED, 0.6, true },
    { "rtx4090", GEMM_TILE_LOSS, 0.2, true },
    { "rtx4090", GEMM_WAVE_SHARE, 0.5, true },
    { "rtx4090", GEMM_SPLIT_S, 1e-5, true },
    { "rtx4090", GEMM_TN_FACTOR, 1, true },
    { "rtx4090", GEMM_NT_FACTOR, 1, true },
    { "rtx4090", GEMM_FLOOR_S, 3e-6, true },
};

struct row {
    struct kernel_row of;
    size_t system;
};

struct problem {
    struct machine_gpu gpu[SYSTEMS_MAX];
    const struct system *systems[SYSTEMS_MAX];
    size_t system_count;
    struct row rows[ROWS_MAX];
    size_t row_count;
    int slot[SYSTEMS_MAX][GEMM_CONSTANT_COUNT]; /* position in the parameter vector, or -1: fixed */
    size_t parameter_count;
};

static const char *const KEYS[GEMM_CONSTANT_COUNT] = {
#define X(name, key, least, greatest, meaning) [name] = key,
    GEMM_CONSTANT_TABLE(X)
#undef X
};
static const double LEAST[GEMM_CONSTANT_COUNT] = {
#define X(name, key, least, greatest, meaning) [name] = least,
    GEMM_CONSTANT_TABLE(X)
#undef X
};
static const double GREATEST[GEMM_CONSTANT_COUNT] = {
#define X(name, key, least, greatest, meaning) [name] = greatest,
    GEMM_CONSTANT_TABLE(X)
#undef X
};

static void read_rows(struct problem *problem, const char *path)
{
    static struct kernel_row rows[ROWS_MAX];
    for (size_t i = 0; i < problem->system_count; i++) {
        const struct system *of = problem->systems[i];
        struct error error = { 0 };
        char text[ERROR_MESSAGE_BYTES];
        size_t count = 0;
        if (kernel_rows_measured(path, of->name, KERNEL_GEMM, of->dtype, of->launch_gap_s, rows, ROWS_MAX, &count,
                                 &error) != STATUS_OK) {
            fprintf(stderr, "fit_kernels: %s\n", error_text(&error, text, sizeof text));
            exit(1);
        }
        kernel_rows_published(of->name, of->dtype, of->launch_gap_s, rows, ROWS_MAX, &count);
        for (size_t r = 0; r < count && problem->row_count < ROWS_MAX; r++) {
            problem->rows[problem->row_count++] = (struct row){ .of = rows[r], .system = i };
        }
    }
}

static double to_free(int constant, double value)
{
    return constant == GEMM_WAVE_SHARE ? log(value / (1 - value)) : log(value);
}

static double from_free(int constant, double x)
{
    double value = constant == GEMM_WAVE_SHARE ? 1 / (1 + exp(-x)) : exp(x);
    return fmin(GREATEST[constant], fmax(LEAST[constant], value));
}

static void set_parameters(struct problem *problem, const gsl_vector *x)
{
    for (size_t i = 0; i < problem->system_count; i++) {
        for (int c = 0; c < GEMM_CONSTANT_COUNT; c++) {
            if (problem->slot[i][c] >= 0) {
                double value = from_free(c, gsl_vector_get(x, (size_t)problem->slot[i][c]));
                problem->gpu[i].gemm[problem->systems[i]->dtype].values[c] = value;
            }
        }
    }
}

static double log_error(const struct problem *problem, const struct row *row)
{
    struct kernel_cost cost;
    kernel_cost(&problem->gpu[row->system], &row->of.kernel, &cost);
    return log(cost.alone_s / row->of.measured_s);
}

static int residuals(const gsl_vector *x, void *context, gsl_vector *f)
{
    struct problem *problem = context;
    const double width = 0.05;
    size_t at = 0;
    set_parameters(problem, x);
    for (size_t i = 0; i < problem->row_count; i++) {
        if (!problem->rows[i].of.left_out) {
            double e = log_error(problem, &problem->rows[i]) / width;
            gsl_vector_set(f, at++, copysign(sqrt(2 * (sqrt(1 + e * e) - 1)), e));
        }
    }
    return GSL_SUCCESS;
}

static void print_constants(const struct problem *problem, const gsl_vector *errors)
{
    for (size_t i = 0; i < problem->system_count; i++) {
        printf("%s:", problem->systems[i]->name);
        for (int c = 0; c < GEMM_CONSTANT_COUNT; c++) {
            printf(" \"%s\": %.4g,", KEYS[c], problem->gpu[i].gemm[problem->systems[i]->dtype].values[c]);
        }
        printf("\n  relative standard errors:");
        for (int c = 0; c < GEMM_CONSTANT_COUNT; c++) {
            if (problem->slot[i][c] >= 0) {
                printf(" %s %.1f %%", KEYS[c], 100 * gsl_vector_get(errors, (size_t)problem->slot[i][c]));
            }
        }
        printf("\n");
    }
}

static void get_parameters(const struct problem *problem, gsl_vector *x)
{
    for (size_t i = 0; i < problem->system_count; i++) {
        for (int c = 0; c < GEMM_CONSTANT_COUNT; c++) {
            if (problem->slot[i][c] >= 0) {
                double value = problem->gpu[i].gemm[problem->systems[i]->dtype].values[c];
                gsl_vector_set(x, (size_t)problem->slot[i][c], to_free(c, value));
            }
        }
    }
}

/* Every parameter moves some residual. */
static bool has_slope(const gsl_matrix *jacobian)
{
    for (size_t column = 0; column < jacobian->size2; column++) {
        gsl_vector_const_view view = gsl_matrix_const_column(jacobian, column);
        if (!(gsl_blas_dasum(&view.vector) > 0)) {
            return false;
        }
    }
    return true;
}

/* From STARTS points about the given one, a fixed sequence: the loss has several valleys, for which tile wins is a choice. The best is kept. */
static void fit(struct problem *problem)
{
    size_t used = 0, parameters = problem->parameter_count;
    for (size_t i = 0; i < problem->row_count; i++) {
        used += !problem->rows[i].of.left_out;
    }
    gsl_multifit_nlinear_parameters settings = gsl_multifit_nlinear_default_parameters();
    settings.h_df =
        1e-4; /* the model has kinks where the best tile changes: differences over a wider step see past them */
    gsl_multifit_nlinear_fdf fdf = { .f = residuals, .n = used, .p = parameters, .params = problem };
    gsl_multifit_nlinear_workspace *workspace =
        gsl_multifit_nlinear_alloc(gsl_multifit_nlinear_trust, &settings, used, parameters);
    gsl_vector *start = gsl_vector_alloc(parameters), *x = gsl_vector_alloc(parameters),
               *best = gsl_vector_alloc(parameters);
    gsl_matrix *covariance = gsl_matrix_alloc(parameters, parameters);
    gsl_vector *errors = gsl_vector_calloc(parameters);
    get_parameters(problem, start);
    double best_loss = INFINITY;
    gsl_set_error_handler_off();
    uint32_t state = 1;
    for (int round = 0; round < STARTS; round++) {
        for (size_t j = 0; j < parameters; j++) {
            state = state * 1664525u + 1013904223u;
            double offset = round == 0 ? 0 : 1.2 * ((double)(state >> 8) / 0x1p23 - 1);
            gsl_vector_set(x, j, gsl_vector_get(start, j) + offset);
        }
        int info;
        double loss;
        /* A start outside the ranges has no slope at all: GSL refuses it, and so do we. */
        if (gsl_multifit_nlinear_init(x, &fdf, workspace) != GSL_SUCCESS ||
            !has_slope(gsl_multifit_nlinear_jac(workspace))) {
            continue;
        }
        gsl_multifit_nlinear_driver(300, 1e-6, 1e-8, 1e-8, NULL, NULL, &info, workspace);
        gsl_blas_ddot(workspace->f, workspace->f, &loss);
        if (loss < best_loss) {
            best_loss = loss;
            gsl_vector_memcpy(best, workspace->x);
            gsl_multifit_nlinear_covar(workspace->J, 0, covariance);
            for (size_t j = 0; j < parameters; j++) {
                gsl_vector_set(errors, j, sqrt(loss / (double)(used - parameters) * gsl_matrix_get(covariance, j, j)));
            }
        }
    }
    set_parameters(problem, best);
    printf("loss %.4f\n", best_loss);
    print_constants(problem, errors);
    gsl_vector_free(errors);
    gsl_matrix_free(covariance);
    gsl_vector_free(start);
    gsl_vector_free(x);
    gsl_vector_free(best);
    gsl_multifit_nlinear_free(workspace);
}

static void report(const struct problem *problem, size_t system, bool left_out)
{
    double sum = 0, sum_signed = 0, worst = 0;
    size_t count = 0;
    for (size_t i = 0; i < problem->row_count; i++) {
        if (problem->rows[i].system == system && problem->rows[i].of.left_out == left_out) {
            double e = expm1(log_error(problem, &problem->rows[i]));
            sum += fabs(e);
            sum_signed += e;
            worst = fmax(worst, fabs(e));
            count++;
        }
    }
    if (count > 0) {
        printf("%s, %s: %zu shapes, mean error %.2f %%, bias %+.2f %%, worst %.1f %%\n", problem->systems[system]->name,
               left_out ? "left out" : "fitted", count, 100 * sum / (double)count, 100 * sum_signed / (double)count,
               100 * worst);
    }
}

static void print_worst(struct problem *problem, size_t count)
{
    for (size_t shown = 0; shown < count && shown < problem->row_count; shown++) {
        for (size_t i = shown + 1; i < problem->row_count; i++) {
            if (fabs(log_error(problem, &problem->rows[i])) > fabs(log_error(problem, &problem->rows[shown]))) {
                struct row swap = problem->rows[i];
                problem->rows[i] = problem->rows[shown];
                problem->rows[shown] = swap;
            }
        }
        struct row *row = &problem->rows[shown];
        printf("%+6.1f %% %9.1f us  %s %s%s\n", 100 * expm1(log_error(problem, row)), 1e6 * row->of.measured_s,
               problem->systems[row->system]->name, row->of.key, row->of.left_out ? "  (left out)" : "");
    }
}

/* The constants of every system of the group, and which of them the fit may move. */
static void set_up(struct problem *problem, const char *group, int argc, char **argv)
{
    for (size_t i = 0; i < sizeof SYSTEMS / sizeof SYSTEMS[0]; i++) {
        if (strcmp(SYSTEMS[i].group, group) == 0) {
            const struct system *of = problem->systems[problem->system_count] = &SYSTEMS[i];
            struct machine_gpu *gpu = &problem->gpu[problem->system_count++];
            *gpu = (struct machine_gpu){ .sm_count = of->sm_count, .hbm_bytes_per_s = of->hbm_bytes_per_s };
            gpu->peak_flops[of->dtype] = gpu->gemm[of->dtype].peak_flops = of->peak_flops;
            gpu->gemm[of->dtype].present = true;
        }
    }
    for (int c = 0; c < GEMM_CONSTANT_COUNT; c++) {
        double value = 0;
        bool fixed = true;
        for (size_t i = 0; i < sizeof SETTINGS / sizeof SETTINGS[0]; i++) {
            if ((int)SETTINGS[i].constant == c &&
                (SETTINGS[i].group[0] == '\0' || strcmp(SETTINGS[i].group, group) == 0)) {
                value = SETTINGS[i].value;
                fixed = SETTINGS[i].held;
            }
        }
        for (int a = 3; a + 1 < argc; a += 2) {
            size_t length = strlen(KEYS[c]);
            if (strncmp(argv[a + 1], KEYS[c], length) == 0 && argv[a + 1][length] == '=') {
                value = strtod(argv[a + 1] + length + 1, NULL);
                fixed = strcmp(argv[a], "fix") == 0;
            }
        }
        bool own = c == GEMM_SM_EFFICIENCY;
        for (size_t i = 0; i < problem->system_count; i++) {
            problem->gpu[i].gemm[problem->systems[i]->dtype].values[c] = value;
            problem->slot[i][c] = fixed ? -1 : own || i == 0 ? (int)problem->parameter_count++ : problem->slot[0][c];
        }
    }
}

int main(int argc, char **argv)
{
    static struct problem problem;
    if (argc < 3) {
        fprintf(stderr, "usage: fit_kernels GROUP MEASURED.csv [worst N] [fix KEY=VALUE]... [start KEY=VALUE]...\n");
        return 1;
    }
    set_up(&problem, argv[1], argc, argv);
    read_rows(&problem, argv[2]);
    if (problem.system_count == 0 || problem.row_count <= problem.parameter_count) {
        fprintf(stderr, "fit_kernels: %zu shapes of group %s are too few\n", problem.row_count, argv[1]);
        return 1;
    }
    fit(&problem);
    for (size_t i = 0; i < problem.system_count; i++) {
        report(&problem, i, false);
        report(&problem, i, true);
    }
    for (int a = 3; a + 1 < argc; a += 2) {
        if (strcmp(argv[a], "worst") == 0) {
            print_worst(&problem, strtoul(argv[a + 1], NULL, 10));
        }
    }
    return 0;
}
