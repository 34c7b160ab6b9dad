/* fit_steps: fits the host-time constants of a software model to measured step times and prints them with their errors.
 *
 *     fit_steps a100_megatron_steps.csv [software NAME] [recompute MODE] [free KEY=START]... [set KEY=VALUE]... [rows]
 *
 * A developer's program: what it prints is typed into hw_models/software with its source. KEY is a constant of "host" (launch_us, pass_us ...) or a kernel class
 * of the machine's class_efficiency (softmax, elementwise ...). Without `free` nothing is fitted: errors of the shipped constants. Fitted to the
 * rows whose id hashes to the first half (validate/step_rows.h); the other half is printed and took no part.
 *
 * Nelder-Mead (GSL multimin) over the logarithms of the constants; the loss is the mean pseudo-Huber of simulated / measured - 1 of width 2 %: nearly the mean error. */
#include <gsl/gsl_errno.h>
#include <gsl/gsl_multimin.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "validate/step_rows.h"

enum { PARAMETERS_MAX = 12, KEY_BYTES = 48, ITERATIONS_MAX = 220 };
static const double LOSS_WIDTH = 0.02, START_STEP = 0.15, SIZE_ENOUGH = 2e-3;

struct parameter {
    char key[KEY_BYTES];
    double value;
    bool free;
};

struct fit {
    const char *software, *recompute;
    struct step_row rows[STEP_ROWS_MAX];
    size_t count;
    struct parameter parameters[PARAMETERS_MAX];
    size_t parameter_count;
    unsigned evaluations;
};

static bool is_host(const char *key)
{
    size_t length = strlen(key);
    return length > 3 && strcmp(key + length - 3, "_us") == 0;
}

/* {"base": "NAME", SECTION: {KEY: VALUE, ...}} of the constants of one kind; NULL when there are none. */
static const char *object_text(const struct fit *fit, const char *base, const char *before, bool host,
                               const char *after, char *text, size_t size)
{
    size_t length = 0, used = 0;
    for (size_t i = 0; i < fit->parameter_count; i++) {
        if (is_host(fit->parameters[i].key) == host) {
            int wrote = snprintf(text + length, size - length, "%s\"%s\":%.9g", used++ == 0 ? "" : ",",
                                 fit->parameters[i].key, fit->parameters[i].value);
            length += (size_t)wrote;
        }
    }
    if (used == 0) {
        return base;
    }
    char *inner = strdup(text);
    if (inner == NULL) {
        exit(1);
    }
    snprintf(text, size, "{\"base\":\"%s\",%s{%s}%s}", base, before, inner, after);
    free(inner);
    return text;
}

static double simulated_s(const struct fit *fit, const struct step_row *row)
{
    char software[512], machine[512], text[STEP_SCENARIO_BYTES], message[2048];
    struct step_setup setup = {
        .software = object_text(fit, fit->software, "\"host\":", true, "", software, sizeof software),
        .machine = object_text(fit, "a100-80gb-hdr800", "\"kernel_model\":{\"class_efficiency\":", false, "}", machine,
                               sizeof machine),
        .recompute = fit->recompute,
    };
    struct error error = { 0 };
    double step_s;
    step_scenario(row, &setup, text, sizeof text);
    if (step_simulate(text, &step_s, &error) != STATUS_OK || !(step_s > 0)) {
        fprintf(stderr, "%s\n%s\n", error_text(&error, message, sizeof message), text);
        exit(1);
    }
    return step_s;
}

static double loss(const gsl_vector *at, void *context)
{
    struct fit *fit = context;
    double sum = 0;
    size_t rows = 0, free_index = 0;
    for (size_t i = 0; i < fit->parameter_count; i++) {
        if (fit->parameters[i].free) {
            fit->parameters[i].value = exp(gsl_vector_get(at, free_index++));
        }
    }
    for (size_t i = 0; i < fit->count; i++) {
        if (!fit->rows[i].held_out) {
            double error = (simulated_s(fit, &fit->rows[i]) / fit->rows[i].measured_s - 1) / LOSS_WIDTH;
            sum += sqrt(1 + error * error) - 1;
            rows++;
        }
    }
    fit->evaluations++;
    return sum / (double)(rows > 0 ? rows : 1);
}

static void fit_run(struct fit *fit)
{
    size_t dimension = 0;
    for (size_t i = 0; i < fit->parameter_count; i++) {
        dimension += fit->parameters[i].free;
    }
    if (dimension == 0) {
        return;
    }
    gsl_vector *start = gsl_vector_alloc(dimension), *steps = gsl_vector_alloc(dimension);
    for (size_t i = 0, j = 0; i < fit->parameter_count; i++) {
        if (fit->parameters[i].free) {
            gsl_vector_set(start, j++, log(fit->parameters[i].value));
        }
    }
    gsl_vector_set_all(steps, START_STEP);
    gsl_multimin_function function = { .f = loss, .n = dimension, .params = fit };
    gsl_multimin_fminimizer *minimizer = gsl_multimin_fminimizer_alloc(gsl_multimin_fminimizer_nmsimplex2, dimension);
    gsl_multimin_fminimizer_set(minimizer, &function, start, steps);
    for (int i = 0; i < ITERATIONS_MAX && gsl_multimin_fminimizer_iterate(minimizer) == GSL_SUCCESS; i++) {
        if (gsl_multimin_fminimizer_size(minimizer) < SIZE_ENOUGH) {
            break;
        }
    }
    double best = loss(minimizer->x, fit); /* sets the constants to the best found */
    printf("loss %.5f after %u evaluations\n", best, fit->evaluations);
    gsl_multimin_fminimizer_free(minimizer);
    gsl_vector_free(start);
    gsl_vector_free(steps);
}

static void print_set(const struct fit *fit, const char *name, bool single_node, bool held_out, bool rows)
{
    double sum = 0, bias = 0, worst = 0;
    unsigned count = 0;
    for (size_t i = 0; i < fit->count; i++) {
        const struct step_row *row = &fit->rows[i];
        if (row->single_node != single_node || row->held_out != held_out) {
            continue;
        }
        double step_s = simulated_s(fit, row), error = step_s / row->measured_s - 1;
        if (rows) {
            printf("%-15s tp %u dp %u pp %u mb %u n %u L %u h %u  measured %9.2f ms  simulated %9.2f ms  %+6.1f %%\n",
                   row->id, row->tensor, row->data, row->pipeline, row->micro_batch,
                   row->global_batch / row->data / row->micro_batch, row->layers, row->hidden, 1e3 * row->measured_s,
                   1e3 * step_s, 100 * error);
        }
        sum += fabs(error);
        bias += error;
        worst = fmax(worst, fabs(error));
        count++;
    }
    printf("%-36s %4u rows  mean error %5.2f %%  bias %+6.2f %%  worst %6.2f %%\n", name, count,
           100 * sum / fmax(1, count), 100 * bias / fmax(1, count), 100 * worst);
}

static void add_parameter(struct fit *fit, const char *text, bool is_free)
{
    const char *equals = strchr(text, '=');
    if (equals == NULL || (size_t)(equals - text) >= KEY_BYTES || fit->parameter_count == PARAMETERS_MAX) {
        fprintf(stderr, "fit_steps: \"%s\" is not KEY=VALUE, or one too many\n", text);
        exit(1);
    }
    struct parameter *parameter = &fit->parameters[fit->parameter_count++];
    memcpy(parameter->key, text, (size_t)(equals - text));
    parameter->value = strtod(equals + 1, NULL);
    parameter->free = is_free;
}

int main(int argc, char **argv)
{
    static struct fit fit = { .software = "megatron", .recompute = "full" };
    struct error error = { 0 };
    char message[2048];
    bool rows = false;
    if (argc < 2 || step_rows_megatron(argv[1], fit.rows, STEP_ROWS_MAX, &fit.count, &error) != STATUS_OK) {
        fprintf(stderr,
                "usage: fit_steps a100_megatron_steps.csv [software NAME] [recompute MODE] [free KEY=START]... "
                "[set KEY=VALUE]... [rows]\n%s\n",
                argc < 2 ? "" : error_text(&error, message, sizeof message));
        return 1;
    }
    for (int i = 2; i < argc; i++) {
        bool more = i + 1 < argc;
        if (strcmp(argv[i], "rows") == 0) {
            rows = true;
        } else if (strcmp(argv[i], "software") == 0 && more) {
            fit.software = argv[++i];
        } else if (strcmp(argv[i], "recompute") == 0 && more) {
            fit.recompute = argv[++i];
        } else if ((strcmp(argv[i], "free") == 0 || strcmp(argv[i], "set") == 0) && more) {
            bool is_free = argv[i][0] == 'f';
            add_parameter(&fit, argv[++i], is_free);
        } else {
            fprintf(stderr, "fit_steps: unknown argument \"%s\"\n", argv[i]);
            return 1;
        }
    }
    gsl_set_error_handler_off();
    fit_run(&fit);
    for (size_t i = 0; i < fit.parameter_count; i++) {
        printf("%-24s %10.4g%s\n", fit.parameters[i].key, fit.parameters[i].value,
               fit.parameters[i].free ? "  fitted" : "  held");
    }
    print_set(&fit, "single node, fitted half", true, false, rows);
    print_set(&fit, "single node, held-out half", true, true, rows);
    print_set(&fit, "multi-node, fitted half", false, false, rows);
    print_set(&fit, "multi-node, held-out half", false, true, rows);
    return 0;
}
