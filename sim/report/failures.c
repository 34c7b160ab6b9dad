#include "sim/report/failures.h"

#include <math.h>
#include <stdio.h>

#include "sim/base/check.h"
#include "sim/base/units.h"

enum { CYCLES = 50000, SEED = 1 };

/* ln(10^6): see failures_compute. */
static const double HOPELESS = 13.8;

double failures_first_order_s(double mtbf_s, double checkpoint_s)
{
    return sqrt(2 * checkpoint_s * mtbf_s) - checkpoint_s;
}

double failures_daly_s(double mtbf_s, double checkpoint_s)
{
    double half = checkpoint_s / (2 * mtbf_s);
    return half < 1 ? sqrt(2 * checkpoint_s * mtbf_s) * (1 + sqrt(half) / 3 + half / 9) - checkpoint_s : mtbf_s;
}

/* d/dx of (e^(x + d) - 1) / x is 0 where e^(x + d) (1 - x) = 1, with x = tau/M, d = delta/M: 0 < x < 1. By bisection on g(x) = x + d + ln(1 - x), which falls. */
double failures_exact_s(double mtbf_s, double checkpoint_s)
{
    double low = 0, high = 1, d = checkpoint_s / mtbf_s;
    for (int i = 0; i < 200; i++) {
        double x = (low + high) / 2;
        if (x + d + log1p(-x) > 0) {
            low = x;
        } else {
            high = x;
        }
    }
    return mtbf_s * low;
}

double failures_goodput(double mtbf_s, double checkpoint_s, double restart_s, double interval_s)
{
    return interval_s / (mtbf_s * exp(restart_s / mtbf_s) * expm1((interval_s + checkpoint_s) / mtbf_s));
}

static enum status check(const char *what, double value, const char *unit, struct error *error)
{
    if (!(value > 0) || !(value < 1e30)) {
        return error_set(error, STATUS_BAD_INPUT, "%s is %g %s; it must be above 0", what, value, unit);
    }
    return STATUS_OK;
}

enum status failures_compute(struct failures *failures, const struct failures_input *input, struct error *error)
{
    *failures = (struct failures){ .input = *input };
    TRY(check("the mean time between failures of a device", input->device_mtbf_s, "s", error));
    TRY(check("the count of devices", input->devices, "devices", error));
    TRY(check("the size of a checkpoint", input->checkpoint_bytes, "B", error));
    TRY(check("the storage bandwidth", input->storage_bytes_per_s, "B/s", error));
    TRY(check("the step time", input->step_s, "s", error));
    double mtbf = input->device_mtbf_s / input->devices, delta = input->checkpoint_bytes / input->storage_bytes_per_s;
    failures->mtbf_s = mtbf;
    failures->checkpoint_s = delta;
    failures->restart_s = input->restart_s + delta;
    failures->young_s = sqrt(2 * delta * mtbf);
    failures->first_order_s = failures_first_order_s(mtbf, delta);
    failures->daly_s = failures_daly_s(mtbf, delta);
    failures->exact_s = failures_exact_s(mtbf, delta);
    if (failures->daly_s + delta > HOPELESS * mtbf || failures->restart_s > HOPELESS * mtbf) {
        return error_set(
            error, STATUS_BAD_INPUT,
            "the job fails every %.3g s, and a checkpoint takes %.3g s, a restart %.3g s: it would hardly ever "
            "finish one; devices that fail less often, fewer of them, or faster storage would help",
            mtbf, delta, failures->restart_s);
    }
    double tau = failures->daly_s, restart = failures->restart_s;
    failures->goodput = failures_goodput(mtbf, delta, restart, tau);
    failures->checkpoint_share = failures->goodput * delta / tau;
    failures->lost_share = 1 - failures->goodput - failures->checkpoint_share;
    struct failures_run run = failures_simulate(mtbf, delta, restart, tau, CYCLES, SEED);
    failures->simulated_goodput = 1 / run.time_per_work;
    failures->simulated_failures = run.failures;
    failures->simulated_s = failures_simulated_optimum_s(mtbf, delta, restart, tau, CYCLES, SEED);
    return STATUS_OK;
}

void failures_json(const struct failures *f, struct json_writer *w)
{
    jw_object(w, "failures");
    jw_real(w, "device_mtbf_hours", f->input.device_mtbf_s / 3600);
    jw_uint(w, "devices", f->input.devices);
    jw_real(w, "mtbf_s", f->mtbf_s);
    jw_real(w, "checkpoint_bytes", f->input.checkpoint_bytes);
    jw_real(w, "storage_bytes_per_s", f->input.storage_bytes_per_s);
    jw_string(w, "storage_source", f->input.storage_source);
    jw_real(w, "checkpoint_s", f->checkpoint_s);
    jw_real(w, "restart_s", f->restart_s);
    jw_real(w, "interval_young_s", f->young_s);
    jw_real(w, "interval_first_order_s", f->first_order_s);
    jw_real(w, "interval_daly_s", f->daly_s);
    jw_real(w, "interval_exact_s", f->exact_s);
    jw_real(w, "interval_simulated_s", f->simulated_s);
    jw_real(w, "interval_steps", f->daly_s / f->input.step_s);
    jw_real(w, "goodput", f->goodput);
    jw_real(w, "goodput_simulated", f->simulated_goodput);
    jw_real(w, "checkpoint_share", f->checkpoint_share);
    jw_real(w, "lost_share", f->lost_share);
    jw_end(w);
}

/* Times of machines that hardly ever fail are beyond picoseconds. */
static const char *seconds_text(double seconds, char *text, size_t size)
{
    if (seconds < 86400) {
        return text_time_ps(ps_nearest_s(seconds), text, size);
    }
    char number[32];
    (void)snprintf(text, size, "%s days", text_number(seconds / 86400, 3, number, sizeof number));
    return text;
}

void failures_text(const struct failures *f, struct strbuf *out)
{
    char a[32], b[32], c[32];
    strbuf_printf(out, "\nFailures: one device in %s h, so the job every %s (%u device%s, independent)\n",
                  text_number(f->input.device_mtbf_s / 3600, 4, b, sizeof b), seconds_text(f->mtbf_s, a, sizeof a),
                  f->input.devices, f->input.devices == 1 ? "" : "s");
    strbuf_printf(out, "  checkpoint            %s at %s (%s): %s\n",
                  text_bytes(f->input.checkpoint_bytes, a, sizeof a),
                  text_bytes_per_s(f->input.storage_bytes_per_s, b, sizeof b), f->input.storage_source,
                  seconds_text(f->checkpoint_s, c, sizeof c));
    strbuf_printf(out, "  restart               %s, the checkpoint read back in it\n",
                  seconds_text(f->restart_s, a, sizeof a));
    strbuf_printf(out, "  best interval         %s of work, %s steps (Daly 2006, higher order)\n",
                  seconds_text(f->daly_s, a, sizeof a), text_number(f->daly_s / f->input.step_s, 4, b, sizeof b));
    strbuf_printf(out, "  beside it             %s first order, %s exact, %s simulated\n",
                  seconds_text(f->first_order_s, a, sizeof a), seconds_text(f->exact_s, b, sizeof b),
                  seconds_text(f->simulated_s, c, sizeof c));
    strbuf_printf(out,
                  "  goodput               %.2f %% (%.2f %% simulated over %llu failures); %.2f %% writes checkpoints, "
                  "%.2f %% is lost\n",
                  100 * f->goodput, 100 * f->simulated_goodput, (unsigned long long)f->simulated_failures,
                  100 * f->checkpoint_share, 100 * f->lost_share);
}
