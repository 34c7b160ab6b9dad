/* fit_kernels: fits the GEMM constants of hw_models/kernel_constants.h to measured shapes and prints them with their errors.
 *
 *     fit_kernels GROUP MEASURED.csv [worst N] [fix KEY=VALUE]... [start KEY=VALUE]...
 *
 * A developer's program: what it prints is typed into hw_models/machines with its source. GROUP is a family of systems that share all constants
 * but the plateau (sm_efficiency): the tiles are the generation's, the power limit is the board's. MEASURED.csv is
 * simumax_measured_kernel_efficiency.csv; further points come from validate/published/gemm_points.h. Of systems with more than 40 shapes every
 * fifth, chosen by the FNV-1a hash of its text, is left out of the fit and judged apart. The fit is robust nonlinear least squares (GSL
 * multifit_nlinear, Levenberg-Marquardt) of log(model time / measured time) under a pseudo-Huber loss of width 5 %, over the logarithm of each
 * constant; wave_share runs through a logistic. */
#include <gsl/gsl_blas.h>
#include <gsl/gsl_multifit_nlinear.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/engine/kernel_cost.h"
#include "validate/published/gemm_points.h"

enum { ROWS_MAX = 2048, SYSTEMS_MAX = 4, LEFT_OUT_EVERY = 5, LEFT_OUT_LEAST = 40, STARTS = 60 };

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
    { "rtx4090-fp8", "rtx4090", DTYPE_FP8, 128, 330.3e12, 920e9, 1.5e-6 },
};

struct row {
    struct kernel kernel;
    double measured_s;
    size_t system;
    bool left_out;
    char key[128];
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

static uint32_t text_hash(const char *text)
{
    uint32_t hash = 2166136261u;
    for (; *text != '\0'; text++) {
        hash = (hash ^ (uint8_t)*text) * 16777619u;
    }
    return hash;
}

static double field(const char *key, const char *name)
{
    const char *at = strstr(key, name);
    return at == NULL ? 0 : strtod(at + strlen(name), NULL);
}

/* "b=1, m=4096, k=5120, n=1536, layout=TN, accumulate=False, out_dtype=bf16" */
static struct row *add_row(struct problem *problem, size_t system, const char *key, double flops_per_s)
{
    const struct system *of = problem->systems[system];
    double b = field(key, "b="), m = field(key, " m="), n = field(key, " n="), k = field(key, " k=");
    bool wide = strstr(key, "out_dtype=fp32") != NULL, accumulate = strstr(key, "accumulate=True") != NULL;
    double bytes = dtype_bytes(of->dtype), output = b * m * n * (wide ? 4 : 2);
    struct row *row = &problem->rows[problem->row_count++];
    *row = (struct row){
        .kernel = { .kernel_class = KERNEL_GEMM,
                    .dtype = (uint8_t)of->dtype,
                    .layout = strstr(key, "layout=TN")   ? GEMM_TN
                              : strstr(key, "layout=NT") ? GEMM_NT
                                                         : GEMM_NN,
                    .flags = accumulate ? KERNEL_FLAG_ACCUMULATE : 0,
                    .launches = 1,
                    .batch = (uint64_t)b,
                    .m = (uint64_t)m,
                    .n = (uint64_t)n,
                    .k = (uint64_t)k,
                    .flops = 2 * b * m * n * k,
                    .bytes_read = b * k * (m + n) * bytes + (accumulate ? output : 0),
                    .bytes_written = output },
        .measured_s = 2 * b * m * n * k / flops_per_s - of->launch_gap_s,
        .system = system,
    };
    snprintf(row->key, sizeof row->key, "%s", key);
    return row;
}

static void read_measured(struct problem *problem, const char *path)
{
    FILE *file = fopen(path, "r");
    if (file == NULL) {
        perror(path);
        exit(1);
    }
    char line[512], prefix[64];
    while (fgets(line, sizeof line, file) != NULL && problem->row_count < ROWS_MAX) {
        char *open = strchr(line, '"'), *close = strrchr(line, '"');
        for (size_t i = 0; i < problem->system_count && open != NULL && close > open; i++) {
            snprintf(prefix, sizeof prefix, "%s,matmul,", problem->systems[i]->name);
            if (strncmp(line, prefix, strlen(prefix)) == 0) {
                double peak = 1e12 * strtod(line + strlen(prefix), NULL);
                *close = '\0';
                add_row(problem, i, open + 1, strtod(close + 2, NULL) * peak);
                break;
            }
        }
    }
    fclose(file);
}

static void add_published(struct problem *problem)
{
    for (size_t p = 0; p < GEMM_POINT_COUNT; p++) {
        const struct gemm_point *point = &GEMM_POINTS[p];
        for (size_t i = 0; i < problem->system_count; i++) {
            if (strcmp(point->system, problem->systems[i]->name) == 0 && point->dtype == problem->systems[i]->dtype) {
                char key[128];
                snprintf(key, sizeof key, "b=1, m=%u, k=%u, n=%u, layout=NN", point->m, point->k, point->n);
                add_row(problem, i, key, point->tflops * 1e12);
            }
        }
    }
}

static void split_rows(struct problem *problem)
{
    size_t counts[SYSTEMS_MAX] = { 0 };
    for (size_t i = 0; i < problem->row_count; i++) {
        counts[problem->rows[i].system]++;
    }
    for (size_t i = 0; i < problem->row_count; i++) {
        struct row *row = &problem->rows[i];
        row->left_out = counts[row->system] > LEFT_OUT_LEAST && text_hash(row->key) % LEFT_OUT_EVERY == 0;
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
    kernel_cost(&problem->gpu[row->system], &row->kernel, &cost);
    return log(cost.alone_s / row->measured_s);
}

static int residuals(const gsl_vector *x, void *context, gsl_vector *f)
{
    struct problem *problem = context;
    const double width = 0.05;
    size_t at = 0;
    set_parameters(problem, x);
    for (size_t i = 0; i < problem->row_count; i++) {
        if (!problem->rows[i].left_out) {
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

/* From STARTS points about the given one, a fixed sequence: the loss has several valleys, for which tile wins is a choice. The best is kept. */
static void fit(struct problem *problem)
{
    size_t used = 0, parameters = problem->parameter_count;
    for (size_t i = 0; i < problem->row_count; i++) {
        used += !problem->rows[i].left_out;
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
    uint32_t state = 1;
    for (int round = 0; round < STARTS; round++) {
        for (size_t j = 0; j < parameters; j++) {
            state = state * 1664525u + 1013904223u;
            double offset = round == 0 ? 0 : 1.2 * ((double)(state >> 8) / 0x1p23 - 1);
            gsl_vector_set(x, j, gsl_vector_get(start, j) + offset);
        }
        int info;
        double loss;
        gsl_multifit_nlinear_init(x, &fdf, workspace);
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
        if (problem->rows[i].system == system && problem->rows[i].left_out == left_out) {
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
        printf("%+6.1f %% %9.1f us  %s %s%s\n", 100 * expm1(log_error(problem, row)), 1e6 * row->measured_s,
               problem->systems[row->system]->name, row->key, row->left_out ? "  (left out)" : "");
    }
}

/* The constants of every system of the group, and which of them the fit may move. */
static void set_up(struct problem *problem, const char *group, int argc, char **argv)
{
    static const double START[GEMM_CONSTANT_COUNT] = { 0.8, 1, 0, 4, 0.2, 1e-6, 0.5, 0.7, 1e-5, 1, 1, 3e-6 };
    for (size_t i = 0; i < sizeof SYSTEMS / sizeof SYSTEMS[0]; i++) {
        if (strcmp(SYSTEMS[i].group, group) == 0) {
            const struct system *of = problem->systems[problem->system_count] = &SYSTEMS[i];
            struct machine_gpu *gpu = &problem->gpu[problem->system_count++];
            *gpu = (struct machine_gpu){ .sm_count = of->sm_count, .hbm_bytes_per_s = of->hbm_bytes_per_s };
            gpu->peak_flops[of->dtype] = gpu->gemm[of->dtype].peak_flops = of->peak_flops;
            gpu->gemm[of->dtype].present = true;
            memcpy(gpu->gemm[of->dtype].values, START, sizeof START);
        }
    }
    for (int c = 0; c < GEMM_CONSTANT_COUNT; c++) {
        double value = START[c];
        bool fixed = c == GEMM_BOOST || c == GEMM_BOOST_S;
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
    read_measured(&problem, argv[2]);
    add_published(&problem);
    split_rows(&problem);
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
