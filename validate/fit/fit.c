/* fit_points: the machine as the draft knows it, then one kind of points after the other; and what all fits share. */
#include "validate/fit/fit.h"

#include <ctype.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "sim/base/check.h"
#include "validate/fit/fit_internal.h"
#include "validate/fit/least_squares.h"

enum { LEFT_OUT_EVERY = 5, LEFT_OUT_ABOVE = 40 };
static const double REFUSED_FACTOR = 3;

/* ---- choosing points ---- */

bool fit_is_left_out(const struct point *point)
{
    char text[160];
    uint32_t hash = 2166136261u; /* FNV-1a */
    point_text(point, text, sizeof text);
    for (const char *at = text; *at != '\0'; at++) {
        hash = (hash ^ (uint8_t)*at) * 16777619u;
    }
    return hash % LEFT_OUT_EVERY == 0;
}

static enum status put_left_out_last(const struct fitter *fitter, struct fit_set *set)
{
    set->fitted = set->count;
    if (set->count <= LEFT_OUT_ABOVE) {
        return STATUS_OK;
    }
    const struct point **ordered = malloc(set->count * sizeof(void *));
    if (ordered == NULL) {
        fit_set_free(set);
        return error_set(fitter->error, STATUS_NO_MEMORY, "out of memory choosing points");
    }
    uint32_t count = 0;
    for (int left_out = 0; left_out < 2; left_out++) {
        for (uint32_t i = 0; i < set->count; i++) {
            if (fit_is_left_out(set->items[i]) == (left_out == 1)) {
                ordered[count++] = set->items[i];
            }
        }
        set->fitted = left_out == 0 ? count : set->fitted;
    }
    free(set->items);
    set->items = ordered;
    set->capacity = count;
    return STATUS_OK;
}

enum status fit_select(const struct fitter *fitter, fit_wanted *wanted, const void *key, struct fit_set *set)
{
    *set = (struct fit_set){ 0 };
    for (uint32_t i = 0; i < fitter->points->count; i++) {
        const struct point *point = &fitter->points->items[i];
        if (!wanted(point, key)) {
            continue;
        }
        if (set->count == set->capacity) {
            uint32_t capacity = set->capacity == 0 ? 64 : 2 * set->capacity;
            const struct point **grown = realloc(set->items, capacity * sizeof(void *));
            if (grown == NULL) {
                fit_set_free(set);
                return error_set(fitter->error, STATUS_NO_MEMORY, "out of memory choosing points");
            }
            set->items = grown;
            set->capacity = capacity;
        }
        set->items[set->count++] = point;
    }
    return put_left_out_last(fitter, set);
}

void fit_set_free(struct fit_set *set)
{
    free(set->items);
    *set = (struct fit_set){ 0 };
}

void fit_set_prefer_sure(struct fit_set *set)
{
    if (fit_set_in_doubt(set)) {
        return;
    }
    uint32_t kept = 0, fitted = 0;
    for (uint32_t i = 0; i < set->count; i++) {
        if (!set->items[i]->in_doubt) {
            fitted += i < set->fitted;
            set->items[kept++] = set->items[i];
        }
    }
    set->count = kept;
    set->fitted = fitted;
}

const char *fit_set_sources(const struct fit_set *set, char buffer[FIT_SOURCES_BYTES])
{
    size_t used = 0;
    buffer[0] = '\0';
    for (uint32_t i = 0; i < set->count; i++) {
        const char *source = set->items[i]->source;
        bool seen = source[0] == '\0';
        for (uint32_t k = 0; k < i && !seen; k++) {
            seen = strcmp(set->items[k]->source, source) == 0;
        }
        size_t needed = strlen(source) + 2;
        if (!seen && used + needed < FIT_SOURCES_BYTES) {
            used += (size_t)snprintf(buffer + used, FIT_SOURCES_BYTES - used, "%s%s", used > 0 ? "; " : "", source);
        }
    }
    return buffer;
}

bool fit_set_in_doubt(const struct fit_set *set)
{
    for (uint32_t i = 0; i < set->count; i++) {
        if (!set->items[i]->in_doubt) {
            return false;
        }
    }
    return set->count > 0;
}

enum status fit_open_draft(const struct fitter *fitter, struct json_document **document)
{
    struct strbuf text = { 0 };
    enum status status = draft_print(fitter->draft, &text, fitter->error);
    if (status == STATUS_OK) {
        status = json_parse(document, text.text, text.length, "draft", fitter->error);
    }
    strbuf_free(&text);
    return status;
}

/* ---- telling ---- */

void fit_tally_add(struct fit_tally *tally, const struct fit_set *set, uint32_t index, double model_s)
{
    const struct point *point = set->items[index];
    double error = fabs(model_s / point->seconds - 1);
    if (index >= set->fitted) {
        tally->left_out_sum += error;
        tally->left_out++;
        return;
    }
    tally->sum += error;
    tally->log_sum += fabs(log(model_s / point->seconds));
    tally->points++;
    if (error >= tally->worst) {
        tally->worst = error;
        tally->worst_point = point;
    }
}

enum status fit_tally_close(struct fitter *fitter, const char *what, const struct fit_set *set,
                            const struct fit_tally *tally)
{
    char sources[FIT_SOURCES_BYTES];
    struct fit_report *report = fitter->report;
    CHECK(tally->points > 0);
    double mean = tally->sum / tally->points;
    double left_out = tally->left_out > 0 ? tally->left_out_sum / tally->left_out : NAN;
    if (!(tally->log_sum / tally->points <= log(REFUSED_FACTOR))) {
        return fit_refuse(
            fitter, tally->worst_point,
            "no constants explain the %u points of %s: they are off by a factor of %.3g on the mean, worst here",
            tally->points, what, exp(tally->log_sum / tally->points));
    }
    if (report->line_count < FIT_LINES_MAX) {
        struct fit_line *line = &report->lines[report->line_count++];
        *line = (struct fit_line){ .points = tally->points,
                                   .left_out = tally->left_out,
                                   .mean_error = mean,
                                   .worst_error = tally->worst,
                                   .left_out_mean_error = left_out };
        (void)snprintf(line->what, sizeof line->what, "%s", what);
    }
    draft_residual(fitter->draft, what, fit_set_sources(set, sources), tally->points, tally->left_out, mean,
                   tally->worst, left_out);
    return STATUS_OK;
}

void fit_settle(struct fitter *fitter, const char *path, double value, double standard_error, const struct fit_set *set)
{
    char sources[FIT_SOURCES_BYTES], text[32];
    if (!(standard_error > 0)) { /* a figure as measured: no more digits than such have */
        (void)snprintf(text, sizeof text, "%.5g", value);
        value = strtod(text, NULL);
    }
    draft_number(fitter->draft, path, value, standard_error, fit_set_sources(set, sources), fit_set_in_doubt(set));
    fitter->settled++;
}

void fit_missing(struct fitter *fitter, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    strbuf_vprintf(&fitter->report->missing, format, arguments);
    va_end(arguments);
    strbuf_char(&fitter->report->missing, '\n');
}

enum status fit_refuse(const struct fitter *fitter, const struct point *point, const char *format, ...)
{
    char name[160], why[512];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(why, sizeof why, format, arguments);
    va_end(arguments);
    return error_set(fitter->error, STATUS_BAD_INPUT, "%s, %.4g s%s%s: %s", point_text(point, name, sizeof name),
                     point->seconds, point->source[0] != '\0' ? ", " : "", point->source, why);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double fit_median(double *values, uint32_t count)
{
    CHECK(count > 0);
    qsort(values, count, sizeof *values, by_value);
    return (values[(count - 1) / 2] + values[count / 2]) / 2;
}

/* ---- one way: latency and rate ---- */

struct way {
    const struct fit_set *set;
    double (*amount)(const struct point *);
    double latency_s, rate;
};

static void way_set(void *context, const double *values)
{
    struct way *way = context;
    way->latency_s = values[0];
    way->rate = values[1];
}

static double way_residual(void *context, uint32_t index)
{
    const struct way *way = context;
    const struct point *point = way->set->items[index];
    return log((way->latency_s + way->amount(point) / way->rate) / point->seconds);
}

/* A latency below this share of a time is not taken off: published rates keep their digits. */
static const double LATENCY_COUNTS = 0.01;

/* Rates of the larger half of the amounts, in the middle. */
static enum status rate_alone(const struct fitter *fitter, struct way *way, double latency_s,
                              struct fit_line_constants *constants)
{
    CHECK(way->set->count > 0);
    double greatest = 0, *rates = malloc(way->set->count * sizeof *rates);
    uint32_t count = 0;
    if (rates == NULL) {
        return error_set(fitter->error, STATUS_NO_MEMORY, "out of memory fitting %u points", way->set->count);
    }
    for (uint32_t i = 0; i < way->set->count; i++) {
        greatest = fmax(greatest, way->amount(way->set->items[i]));
    }
    for (uint32_t i = 0; i < way->set->count; i++) {
        const struct point *point = way->set->items[i];
        double amount = way->amount(point);
        if (amount >= greatest / 2) {
            double taken_s = latency_s > LATENCY_COUNTS * point->seconds ? latency_s : 0;
            rates[count++] = amount / fmax(point->seconds - taken_s, point->seconds / 2);
        }
    }
    *constants = (struct fit_line_constants){ .latency_s = latency_s, .rate = fit_median(rates, count) };
    free(rates);
    return STATUS_OK;
}

enum status fit_way(const struct fitter *fitter, const struct fit_set *set, double (*amount)(const struct point *),
                    double latency_s, struct fit_line_constants *constants)
{
    struct way way = { .set = set, .amount = amount };
    double least_s = INFINITY, least = INFINITY, greatest = 0, best_rate = 0;
    for (uint32_t i = 0; i < set->count; i++) {
        double of = amount(set->items[i]);
        least_s = fmin(least_s, set->items[i]->seconds);
        least = fmin(least, of);
        greatest = fmax(greatest, of);
        best_rate = fmax(best_rate, of / set->items[i]->seconds);
    }
    if (set->count < FIT_POINTS_LEAST || greatest < 4 * least) {
        return rate_alone(fitter, &way, latency_s, constants);
    }
    /* Weak priors about what the shortest and the fastest point say: a factor of seven and of two. */
    struct lsq_constant both[2] = {
        { .start = fmax(1e-9, 0.8 * least_s), .least = 1e-12, .greatest = 1e6, .prior_width = 2 },
        { .start = best_rate, .least = 1e-3, .greatest = 1e18, .prior_width = 0.7 },
    };
    struct lsq_problem problem = { .constants = both,
                                   .constant_count = 2,
                                   .point_count = set->fitted,
                                   .starts = 3,
                                   .set = way_set,
                                   .residual = way_residual,
                                   .context = &way };
    enum status status = lsq_fit(&problem, fitter->error);
    *constants = (struct fit_line_constants){ .latency_s = both[0].value,
                                              .rate = both[1].value,
                                              .latency_error_s = both[0].standard_error,
                                              .rate_error = both[1].standard_error,
                                              .latency_known = both[0].certainty < 0.5 };
    return status;
}

/* ---- the whole ---- */

static void read_gemm_constants(const struct draft *draft, struct machine_gpu *gpu, enum dtype dtype)
{
    static const char *const KEYS[GEMM_CONSTANT_COUNT] = {
#define X(name, key, least, greatest, meaning) [name] = key,
        GEMM_CONSTANT_TABLE(X)
#undef X
    };
    char path[96];
    bool all = true;
    for (int c = 0; c < GEMM_CONSTANT_COUNT; c++) {
        (void)snprintf(path, sizeof path, "kernel_model.gemm.%s.%s", dtype_word(dtype), KEYS[c]);
        gpu->gemm[dtype].values[c] = draft_get(draft, path, gemm_constant_can_lack((enum gemm_constant)c) ? 0 : NAN);
        all = all && !isnan(gpu->gemm[dtype].values[c]);
    }
    gpu->gemm[dtype].present = all;
    gpu->gemm[dtype].peak_flops = gpu->peak_flops[dtype];
}

/* What draft_get cannot tell: flags. A base's are its own business: the draft's document alone is looked at. */
static enum status read_flags(struct fitter *fitter)
{
    struct json_document *document = NULL;
    struct json root, section;
    TRY(fit_open_draft(fitter, &document));
    json_root(document, &root);
    if (json_object_optional(&root, "gpu", &section, NULL) == STATUS_OK && section.node != NULL) {
        (void)json_bool_or(&section, "on_host", false, &fitter->on_host, NULL);
    }
    if (json_object_optional(&root, "nccl", &section, NULL) == STATUS_OK && section.node != NULL) {
        (void)json_bool_or(&section, "in_switch_reduction", false, &fitter->in_switch, NULL);
    }
    json_free(document);
    return STATUS_OK;
}

static void read_gpu(struct fitter *fitter)
{
    const struct draft *draft = fitter->draft;
    struct machine_gpu *gpu = &fitter->gpu;
    char path[96];
    fitter->gpu_count = (uint32_t)draft_get(draft, "gpu_count", 1);
    fitter->cores = (uint32_t)draft_get(draft, "parts.cpu_socket.cores", 1);
    gpu->sm_count = (uint32_t)fmax(1, draft_get(draft, "gpu.sm_count", 1));
    gpu->hbm_bytes_per_s = 1e9 * draft_get(draft, "gpu.hbm_GBps", 0.86 * draft_get(draft, "gpu.hbm_peak_GBps", 0));
    gpu->kernel_floor_s = 1e-6 * draft_get(draft, "latency.kernel_floor_us", 2);
    for (int d = 0; d < DTYPE_COUNT; d++) {
        (void)snprintf(path, sizeof path, "gpu.peak_TFLOPS.%s", dtype_word((enum dtype)d));
        gpu->peak_flops[d] = 1e12 * draft_get(draft, path, 0);
        read_gemm_constants(draft, gpu, (enum dtype)d);
    }
    for (int c = 0; c < KERNEL_CLASS_COUNT; c++) {
        (void)snprintf(path, sizeof path, "kernel_model.class_efficiency.%s", kernel_class_word((enum kernel_class)c));
        gpu->class_efficiency[c] = draft_get(draft, path, 1);
    }
    gpu->attention_forward_efficiency = draft_get(draft, "kernel_model.attention_forward_efficiency", 0.55);
    gpu->attention_backward_efficiency = draft_get(draft, "kernel_model.attention_backward_efficiency", 0.45);
    gpu->attention_forward_tail = draft_get(draft, "kernel_model.attention_forward_tail", 0.8);
    gpu->attention_backward_tail = draft_get(draft, "kernel_model.attention_backward_tail", 0.4);
    gpu->attention_tile = draft_get(draft, "kernel_model.attention_tile", 0);
}

/* ---- boards ---- */

/* Whether `text` has `word` as a word of its own or at the start of one, ignoring case: "SXM4" has sxm. */
static bool has_word(const char *text, const char *word)
{
    size_t length = strlen(word);
    for (const char *at = text; *at != '\0'; at++) {
        if (strncasecmp(at, word, length) == 0 && (at == text || !isalnum((unsigned char)at[-1]))) {
            return true;
        }
    }
    return false;
}

/* A source that names another board of GPU than the machine's (as a table's "a100_pcie" for a machine of SXM modules) is in doubt. */
static enum status doubt_other_boards(const struct fitter *fitter, struct points *points)
{
    static const char *const BOARDS[] = { "pcie", "sxm", "nvl" };
    struct json_document *document = NULL;
    struct json root, gpu;
    const char *model = "";
    TRY(fit_open_draft(fitter, &document));
    json_root(document, &root);
    if (json_object_optional(&root, "gpu", &gpu, NULL) == STATUS_OK && gpu.node != NULL) {
        (void)json_string_or(&gpu, "model", "", &model, NULL);
    }
    bool own = false;
    for (size_t b = 0; b < sizeof BOARDS / sizeof BOARDS[0]; b++) {
        own = own || has_word(model, BOARDS[b]);
    }
    for (uint32_t i = 0; own && i < points->count; i++) {
        struct point *point = &points->items[i];
        for (size_t b = 0; b < sizeof BOARDS / sizeof BOARDS[0] && point->kind == POINT_KERNEL; b++) {
            point->in_doubt = point->in_doubt || (has_word(point->source, BOARDS[b]) && !has_word(model, BOARDS[b]));
        }
    }
    json_free(document);
    return STATUS_OK;
}

/* ---- all of it ---- */

static enum status fit_parts(struct fitter *fitter)
{
    static enum status (*const PARTS[])(struct fitter *) = { fit_peaks,       fit_streams,   fit_gemms,
                                                             fit_attentions,  fit_copies,    fit_storage,
                                                             fit_collectives, fit_cores,     fit_host_optimizer,
                                                             fit_issue,       fit_allocation };
    const struct strbuf *missing = &fitter->report->missing;
    for (uint32_t i = 0; i < fitter->points->count; i++) {
        const struct point *point = &fitter->points->items[i];
        if (!(point->seconds > 0) || !isfinite(point->seconds)) {
            return fit_refuse(fitter, point, "a time must be above zero");
        }
    }
    TRY(read_flags(fitter));
    read_gpu(fitter);
    for (size_t p = 0; p < sizeof PARTS / sizeof PARTS[0]; p++) {
        TRY(PARTS[p](fitter));
    }
    if (fitter->settled == 0) {
        return error_set(fitter->error, STATUS_BAD_INPUT, "%u points tell nothing that can be fitted; missing:\n%s",
                         fitter->points->count, missing->text != NULL ? missing->text : "");
    }
    return missing->failed ? error_set(fitter->error, STATUS_NO_MEMORY, "out of memory reporting a fit") : STATUS_OK;
}

enum status fit_points(struct draft *draft, const struct points *points, struct fit_report *report, struct error *error)
{
    struct points own = { .items = malloc((points->count + 1) * sizeof *own.items), .count = points->count };
    struct fitter fitter = { .draft = draft, .points = &own, .report = report, .error = error, .cores_together = 1 };
    *report = (struct fit_report){ 0 };
    if (own.items == NULL) {
        return error_set(error, STATUS_NO_MEMORY, "out of memory fitting %u points", points->count);
    }
    if (points->count > 0) {
        memcpy(own.items, points->items, points->count * sizeof *own.items);
    }
    enum status status = doubt_other_boards(&fitter, &own);
    if (status == STATUS_OK) {
        status = fit_parts(&fitter);
    }
    free(own.items);
    return status;
}

void fit_report_free(struct fit_report *report)
{
    strbuf_free(&report->missing);
    *report = (struct fit_report){ 0 };
}

void fit_report_print(const struct fit_report *report, struct strbuf *out)
{
    strbuf_printf(out, "%-40s %7s %10s %10s %9s %13s\n", "fitted", "points", "mean error", "worst", "left out",
                  "their error");
    for (uint32_t i = 0; i < report->line_count; i++) {
        const struct fit_line *line = &report->lines[i];
        strbuf_printf(out, "%-40s %7u %8.2f %% %8.2f %% %9u", line->what, line->points, 100 * line->mean_error,
                      100 * line->worst_error, line->left_out);
        if (isnan(line->left_out_mean_error)) {
            strbuf_printf(out, " %13s\n", "-");
        } else {
            strbuf_printf(out, " %11.2f %%\n", 100 * line->left_out_mean_error);
        }
    }
    if (report->missing.length > 0) {
        strbuf_printf(out, "kept as they were, for want of points:\n%s", report->missing.text);
    }
}
