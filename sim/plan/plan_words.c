#include "sim/plan/plan_words.h"

#include <inttypes.h>

#include "sim/plan/plan_layers.h"

static void put_degrees(const struct plan *plan, const struct model *model, struct strbuf *out)
{
    size_t start = out->length;
    if (plan->tensor > 1) {
        strbuf_printf(out, "tensor %" PRId64 "%s", plan->tensor, plan->sequence_parallel ? " (sequence parallel)" : "");
    }
    if (plan->pipeline > 1) {
        strbuf_printf(out, "%spipeline %" PRId64, out->length > start ? ", " : "", plan->pipeline);
        if (plan->virtual_stages > 1) {
            strbuf_printf(out, " x %" PRId64 " chunks", plan->virtual_stages);
        }
        strbuf_printf(out, " (%s)", plan->order);
    }
    if (plan->data > 1) {
        strbuf_printf(out, "%sdata %" PRId64, out->length > start ? ", " : "", plan->data);
        if (plan->zero_stage > 0) {
            strbuf_printf(out, " (ZeRO-%" PRId64 ")", plan->zero_stage);
        }
    }
    if (out->length == start) {
        strbuf_append(out, "not split");
    }
    if (plan_is_mixed(plan, model)) {
        strbuf_append(out, ", some layers otherwise");
    }
}

static void put_recompute(const struct plan *plan, const struct model *model, struct strbuf *out)
{
    int64_t counts[RECOMPUTE_MODE_COUNT] = { 0 };
    for (int64_t i = 0; i < model->layers; i++) {
        counts[plan->recompute[i]]++;
    }
    if (counts[RECOMPUTE_NONE] == model->layers) {
        return;
    }
    const char *before = "; recompute ";
    for (int mode = RECOMPUTE_SELECTIVE; mode < RECOMPUTE_MODE_COUNT; mode++) {
        if (counts[mode] == model->layers) {
            strbuf_printf(out, "%s%s", before, recompute_word((enum recompute_mode)mode));
        } else if (counts[mode] > 0) {
            strbuf_printf(out, "%s%s in %" PRId64 " of %" PRId64 " layers", before,
                          recompute_word((enum recompute_mode)mode), counts[mode], model->layers);
            before = ", ";
        }
    }
}

void plan_words(const struct plan *plan, const struct model *model, struct strbuf *out)
{
    put_degrees(plan, model, out);
    strbuf_printf(out, "; %" PRId64 " micro-batch%s of %" PRId64 " sample%s, %s", plan->micro_batches,
                  plan->micro_batches == 1 ? "" : "es", plan->micro_batch, plan->micro_batch == 1 ? "" : "s",
                  dtype_word(plan->precision));
    put_recompute(plan, model, out);
    strbuf_printf(out, "; memory policy %s", plan->policy);
}
