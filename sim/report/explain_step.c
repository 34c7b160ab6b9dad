/* Explaining the pipeline's bubble, and where the step's time goes. */
#include <string.h>

#include "sim/report/explain_internal.h"
#include "sim/report/memory_efficiency.h"

/* ---- the pipeline ---- */

void explain_pipeline(struct explainer *e)
{
    const struct result *r = e->from->result;
    const struct schedule *s = e->from->input->schedule;
    double p = e->order_request.stages, m = e->order_request.micro_batches, v = e->order_request.virtual_stages;
    explain_section(e, "pipeline", "Pipeline", NULL);
    if (p < 2) {
        explain_word(e, "bubble", "none: one stage", NULL);
        return;
    }
    static const char *const flushed[] = { "1f1b", "gpipe", "interleaved", "dapple-pb", "lsps-a", "lsps-b", "lsps-c" };
    bool known = e->order->asynchronous;
    for (size_t i = 0; i < sizeof flushed / sizeof flushed[0]; i++) {
        known = known || strcmp(e->order->name, flushed[i]) == 0;
    }
    double ideal = e->order->asynchronous ? 0 : (p - 1) / (v * m);
    if (e->order->asynchronous) {
        explain_value(e, "bubble / work of equal stages", ideal, NULL, "0: the pipeline is filled once, never flushed",
                      NULL, e->order->paper);
    } else if (known) {
        explain_value(e, "bubble / work of equal stages", ideal, NULL, "(p - 1) / (v m)",
                      explain_text(e, "(%g - 1) / (%g x %g)", p, v, m), "Narayanan et al. 2021 (SC21), section 2.2");
    } else {
        explain_word(e, "bubble", "no closed form is known here for this order; `memwall pipeline` measures it",
                     e->order->paper);
    }
    double work = 0, bubble = 0;
    for (uint32_t i = 0; i < r->stage_count; i++) {
        const double *x = r->stages[i].exposed_s;
        work += x[TIME_COMPUTE] + x[TIME_RECOMPUTE] + x[TIME_TENSOR_COMM] + x[TIME_HOST_ISSUE];
        bubble += x[TIME_BUBBLE] + x[TIME_PIPELINE_COMM];
    }
    if (r->stage_count > 0 && work > 0) {
        explain_value(e, "bubble / work, simulated", bubble / work, NULL,
                      "(bubble + exposed pipeline transfers) / (compute + recompute + exposed tensor collectives + "
                      "exposed host), all ranks",
                      explain_text(e, "%.6g s / %.6g s", bubble, work), NULL);
    }
    if (known && r->fits && r->stage_count > 0) {
        /* The slowest stage paces the step: everybody else waits for it. */
        double most = 0, rest = 0;
        const char *slowest = "";
        for (uint32_t i = 0; i < r->stage_count; i++) {
            const double *x = r->stages[i].exposed_s;
            double stage = x[TIME_COMPUTE] + x[TIME_RECOMPUTE] + x[TIME_TENSOR_COMM] + x[TIME_HOST_ISSUE];
            if (stage > most) {
                most = stage;
                rest = x[TIME_OPTIMIZER] + x[TIME_DATA_COMM] + x[TIME_OFFLOAD] + x[TIME_MEMORY_WAIT];
                slowest = sched_label(s, s->ranks[r->stages[i].rank].label);
            }
        }
        explain_value(e, "first-order step time", most * (1 + ideal) + rest, "s",
                      "work of the slowest stage x (1 + bubble/work) + its optimizer, data-parallel and offload time",
                      explain_text(e, "%.6g x (1 + %.6g) + %.6g  (%s)", most, ideal, rest, slowest), NULL);
        explain_value(e, "simulated step time", r->step_time_s, "s", NULL, NULL, NULL);
    }
}

/* ---- the step ---- */

void explain_step(struct explainer *e)
{
    const struct result *r = e->from->result;
    const struct schedule *s = e->from->input->schedule;
    static const char *const helps[] = {
#define X(name, key, help) help,
        TIME_CLASS_TABLE(X)
#undef X
    };
    explain_section(e, "step", "The step",
                    "Every instant of a rank's compute queue has one cause: exposed times sum to the step. Busy counts "
                    "hidden work too.");
    if (!r->fits) {
        explain_word(e, "outcome", r->outcome.text != NULL ? r->outcome.text : "does not fit", NULL);
        return;
    }
    explain_value(e, "step time", r->step_time_s, "s",
                  r->steps > 1
                      ? explain_text(e, "from the beginning of step %u of %u in the schedule to that of the next",
                                     r->steps - 1, r->steps)
                      : "end of the last operation",
                  NULL, NULL);
    explain_value(e, "throughput", r->tokens_per_s, "tokens/s", "tokens of a step / step time",
                  explain_text(e, "%.10g / %.6g", s->tokens, r->step_time_s), NULL);
    const struct memory_efficiency efficiency = memory_efficiency_of(s, e->from->input->timeline, r->samples_per_s);
    const char *source =
        "the index of Hippie (Ye et al., ICPP 2021); its abstract's 1.80 / (1 - 0.57) = 4.186 shows the ratio";
    explain_value(e, "memory efficiency", efficiency.of_max, "samples/s/GiB",
                  "samples per second / peak of the fullest device", NULL, source);
    explain_value(e, "by the mean of all devices", efficiency.of_mean, "samples/s/GiB", NULL, NULL, NULL);
    explain_value(e, "by their sum", efficiency.of_sum, "samples/s/GiB", NULL, NULL, NULL);
    static const char *const meanings[] = { "cause", "what it is", NULL };
    explain_table(e, "Causes", meanings);
    for (uint32_t c = 0; c < TIME_CLASS_COUNT; c++) {
        explain_cell_text(e, time_class_word((enum time_class)c));
        explain_cell_text(e, helps[c]);
    }
    static const char *const columns[] = { "rank",
#define X(name, key, help) key,
                                           TIME_CLASS_TABLE(X)
#undef X
                                               "sum",
                                           NULL };
    for (uint32_t busy = 0; busy < 2; busy++) {
        explain_table(e, busy ? "Busy (s): all queues, hidden or not" : "Exposed (s): sums to the step time", columns);
        for (uint32_t i = 0; i < r->stage_count; i++) {
            const struct stage_times *times = &r->stages[i];
            double sum = 0;
            explain_cell_text(e, sched_label(s, s->ranks[times->rank].label));
            for (uint32_t c = 0; c < TIME_CLASS_COUNT; c++) {
                double value = busy ? times->busy_s[c] : times->exposed_s[c];
                sum += value;
                explain_cell_number(e, value);
            }
            explain_cell_number(e, sum);
        }
    }
}
