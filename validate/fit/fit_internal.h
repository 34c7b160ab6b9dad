/* What the fits share: choosing points, leaving some out, telling how well it went. Private to validate/fit. */
#ifndef MEMWALL_VALIDATE_FIT_INTERNAL_H
#define MEMWALL_VALIDATE_FIT_INTERNAL_H

#include "sim/base/json.h"
#include "validate/fit/fit.h"

/* Fewer points than this tell no set of constants. */
enum { FIT_POINTS_LEAST = 5 };
enum { FIT_SOURCES_BYTES = 512, FIT_WHAT_BYTES = 64 };

struct fitter {
    struct draft *draft;
    const struct points *points;
    struct fit_report *report;
    struct error *error;
    struct machine_gpu gpu; /* what kernel_cost needs, from the draft; kept up to date by the fits */
    bool on_host;           /* the machine's GPUs are threads: nothing is known beforehand but what the points say */
    bool in_switch;         /* all-reduce in the NVSwitches: its bus bandwidth is no ring's */
    uint32_t gpu_count, cores;
    double cores_together; /* host.cores_together, once fitted */
    uint32_t settled;      /* constants that got a value */
};

/* Points chosen for one fit, borrowed: first those fitted to, then those left out (fit_is_left_out, in sets above 40), each in the order of the points. */
struct fit_set {
    const struct point **items;
    uint32_t fitted, count, capacity;
};

typedef bool fit_wanted(const struct point *point, const void *key);
enum status fit_select(const struct fitter *fitter, fit_wanted *wanted, const void *key, struct fit_set *set);
void fit_set_free(struct fit_set *set);
/* Points in doubt count only where there are no others. */
void fit_set_prefer_sure(struct fit_set *set);
/* The distinct sources, "; " between; whether all are in doubt. */
const char *fit_set_sources(const struct fit_set *set, char buffer[FIT_SOURCES_BYTES]);
bool fit_set_in_doubt(const struct fit_set *set);

/* Errors of a model at points. */
struct fit_tally {
    double sum, worst, left_out_sum, log_sum; /* log_sum: of |log(model / measured)| */
    uint32_t points, left_out;
    const struct point *worst_point;
};
void fit_tally_add(struct fit_tally *tally, const struct fit_set *set, uint32_t index, double model_s);
/* A line of the report and of the draft's residuals. STATUS_BAD_INPUT when the points are off by a factor of three on the (geometric) mean: no constants explain them. */
enum status fit_tally_close(struct fitter *fitter, const char *what, const struct fit_set *set,
                            const struct fit_tally *tally);

/* A constant that a set of points told. */
void fit_settle(struct fitter *fitter, const char *path, double value, double standard_error,
                const struct fit_set *set);
/* The draft as it stands, to look at what draft_get does not tell; the caller frees it. */
enum status fit_open_draft(const struct fitter *fitter, struct json_document **document);
/* A line of what the points could not tell. */
void fit_missing(struct fitter *fitter, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* STATUS_BAD_INPUT that begins with the point's name and source. */
enum status fit_refuse(const struct fitter *fitter, const struct point *point, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Median of values[0 .. count-1], which are put in order; count > 0. */
double fit_median(double *values, uint32_t count);

/* Time against amount over one way: latency + amount / rate, from at least FIT_POINTS_LEAST amounts; with fewer, the rate alone from the largest (latency_s as given,
 * standard errors 0). Amounts must be positive. */
struct fit_line_constants {
    double latency_s, rate, latency_error_s, rate_error;
    bool latency_known; /* the points told it */
};
enum status fit_way(const struct fitter *fitter, const struct fit_set *set, double (*amount)(const struct point *),
                    double latency_s, struct fit_line_constants *constants);

/* The parts of fit_points, in their order. */
enum status fit_peaks(struct fitter *fitter);
enum status fit_streams(struct fitter *fitter);
enum status fit_gemms(struct fitter *fitter);
enum status fit_attentions(struct fitter *fitter);
enum status fit_copies(struct fitter *fitter);
enum status fit_storage(struct fitter *fitter);
enum status fit_collectives(struct fitter *fitter);
enum status fit_cores(struct fitter *fitter);
enum status fit_host_optimizer(struct fitter *fitter);
enum status fit_issue(struct fitter *fitter);
enum status fit_allocation(struct fitter *fitter);

#endif
