/* The result for a terminal: what a buyer or a student reads first. */
#include "sim/base/units.h"
#include "sim/report/result.h"

static void headline(const struct result *result, const struct result_input *input, struct strbuf *out)
{
    char a[32], b[32];
    strbuf_printf(out, "%s\n", result->name);
    strbuf_printf(out, "%u GPUs of %s, %s executor, schedule of %u ops\n\n", input->schedule->gpu_count,
                  input->cluster->machine->name, input->timeline->executor, input->schedule->op_count);
    if (!result->fits) {
        strbuf_printf(out, "  DOES NOT FIT\n%s\n", result->outcome.text != NULL ? result->outcome.text : "");
        return;
    }
    strbuf_printf(out, "  step time          %s\n", text_time_ps(input->timeline->end_ps, a, sizeof a));
    strbuf_printf(out, "  throughput         %.4g samples/s, %.4g tokens/s (%.4g a GPU)\n", result->samples_per_s,
                  result->tokens_per_s, result->tokens_per_s_per_gpu);
    strbuf_printf(out, "  model FLOP rate    %s a GPU, MFU %.1f %%\n",
                  text_flops_per_s(result->model_tflops_per_gpu * 1e12, a, sizeof a), 100 * result->mfu);
    strbuf_printf(out, "  executed FLOP rate %s a GPU, HFU %.1f %% (with recomputation)\n\n",
                  text_flops_per_s(result->hardware_tflops_per_gpu * 1e12, b, sizeof b), 100 * result->hfu);
}

/* Percent of the step by cause, one line a rank; then what was hidden behind compute. */
static void where_time_goes(const struct result *result, const struct result_input *input, struct strbuf *out)
{
    strbuf_append(out, "Where the step goes (% of the step; communication counts only where it is exposed)\n");
    strbuf_printf(out, "  %-10s", "");
    static const char *const heads[] = { "compute", "recomp.", "tensor", "pipeline", "data",
                                         "offload", "optim.",  "bubble", "mem.wait", "host" };
    _Static_assert(sizeof heads / sizeof heads[0] == TIME_CLASS_COUNT, "one head a class");
    for (uint32_t c = 0; c < TIME_CLASS_COUNT; c++) {
        strbuf_printf(out, " %8s", heads[c]);
    }
    strbuf_char(out, '\n');
    for (uint32_t i = 0; i < result->stage_count; i++) {
        const struct stage_times *times = &result->stages[i];
        strbuf_printf(out, "  %-10s", sched_label(input->schedule, input->schedule->ranks[times->rank].label));
        for (uint32_t c = 0; c < TIME_CLASS_COUNT; c++) {
            double share = 100 * times->exposed_s[c] / result->step_time_s;
            if (times->exposed_s[c] > 0) {
                strbuf_printf(out, " %8.1f", share);
            } else {
                strbuf_printf(out, " %8s", "-");
            }
        }
        strbuf_char(out, '\n');
    }
    double hidden[TIME_CLASS_COUNT] = { 0 };
    for (uint32_t i = 0; i < result->stage_count; i++) {
        for (uint32_t c = 0; c < TIME_CLASS_COUNT; c++) {
            hidden[c] += (result->stages[i].busy_s[c] - result->stages[i].exposed_s[c]) / result->stage_count;
        }
    }
    bool any = false;
    for (uint32_t c = TIME_TENSOR_COMM; c <= TIME_OFFLOAD; c++) {
        if (hidden[c] > 0.001 * result->step_time_s) {
            char text[32];
            strbuf_printf(out, "%s %s %s",
                          any ? "," : "  hidden behind other work, a rank:", time_class_word((enum time_class)c),
                          text_time_ps(ps_from_s(hidden[c]), text, sizeof text));
            any = true;
        }
    }
    strbuf_append(out, any ? "\n\n" : "\n");
}

static void memory(const struct result_input *input, struct strbuf *out)
{
    const struct schedule *s = input->schedule;
    static const char *const heads[] = {
        "weights", "grads", "optim.", "activ.", "bound.", "worksp.", "comm.", "runtime"
    };
    _Static_assert(sizeof heads / sizeof heads[0] == BUFFER_CLASS_COUNT, "one head a class");
    strbuf_append(out, "Memory at its peak (GiB)\n");
    strbuf_printf(out, "  %-26s %7s %8s %8s", "", "peak", "reserved", "capacity");
    for (uint32_t c = 0; c < BUFFER_CLASS_COUNT; c++) {
        strbuf_printf(out, " %7s", heads[c]);
    }
    strbuf_char(out, '\n');
    for (uint32_t i = 0; i < s->space_count; i++) {
        const struct space_use *use = &input->timeline->spaces[i];
        if (use->peak_bytes == 0) {
            continue;
        }
        strbuf_printf(out, "  %-26s %7.2f %8.2f %8.2f", sched_label(s, s->spaces[i].label),
                      (double)use->peak_bytes / GIB, (double)use->peak_reserved_bytes / GIB,
                      (double)s->spaces[i].capacity_bytes / GIB);
        for (uint32_t c = 0; c < BUFFER_CLASS_COUNT; c++) {
            if (use->at_peak_bytes[c] > 0) {
                strbuf_printf(out, " %7.2f", (double)use->at_peak_bytes[c] / GIB);
            } else {
                strbuf_printf(out, " %7s", "-");
            }
        }
        strbuf_char(out, '\n');
    }
    uint32_t fullest = SCHED_NONE;
    for (uint32_t i = 0; i < s->space_count; i++) {
        if (s->spaces[i].kind == SPACE_DEVICE && input->timeline->spaces[i].peak_bytes > 0 &&
            (fullest == SCHED_NONE ||
             input->timeline->spaces[i].peak_bytes > input->timeline->spaces[fullest].peak_bytes)) {
            fullest = i;
        }
    }
    if (fullest != SCHED_NONE && input->timeline->spaces[fullest].peak_op != SCHED_NONE) {
        char text[160], when[32];
        const struct space_use *use = &input->timeline->spaces[fullest];
        strbuf_printf(out, "  the fullest, %s, peaks at %s: %s\n", sched_label(s, s->spaces[fullest].label),
                      text_time_ps(use->peak_time_ps, when, sizeof when),
                      sched_op_text(s, use->peak_op, text, sizeof text));
    }
    strbuf_char(out, '\n');
}

static void busiest_links(const struct result *result, const struct result_input *input, struct strbuf *out)
{
    if (result->link_count == 0) {
        return;
    }
    strbuf_append(out, "Busiest links\n");
    for (uint32_t i = 0, shown = 0; i < result->link_count && shown < 6; i++, shown++) {
        const struct link_traffic *link = &result->links[i];
        char name[96], bytes[32], capacity[32];
        strbuf_printf(out, "  %-34s %10s a step, busy %5.1f %% of it (capacity %s)\n",
                      cluster_resource_name(input->cluster, link->resource, name, sizeof name),
                      text_bytes(link->bytes, bytes, sizeof bytes), 100 * link->busy_fraction,
                      text_bytes_per_s(input->cluster->resources[link->resource].capacity, capacity, sizeof capacity));
    }
    strbuf_char(out, '\n');
}

void result_print_summary(const struct result *result, const struct result_input *input, struct strbuf *out)
{
    headline(result, input, out);
    if (result->fits) {
        where_time_goes(result, input, out);
    }
    memory(input, out);
    if (result->fits) {
        busiest_links(result, input, out);
        strbuf_append(out, "What binds\n");
        for (uint32_t i = 0; i < result->bound_count && i < 4; i++) {
            strbuf_printf(out, "  %4.1f %%  %-32s %s\n", 100 * result->bounds[i].share, result->bounds[i].what,
                          result->bounds[i].advice);
        }
    }
}
