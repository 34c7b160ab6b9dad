/* The headline of a plan. */
#include "sim/plan/plan_words.h"

#include <inttypes.h>

#include "sim/plan/plan_layers.h"
#include "sim/plan/plan_replicas.h"

enum { REPLICAS_SHOWN = 16 };

static void put_zero(const struct plan *plan, struct strbuf *out)
{
    if (plan->zero_stage > 0) {
        strbuf_printf(out, " (ZeRO-%" PRId64 ")", plan->zero_stage);
    }
}

/* "4, 2, 1 replicas (ZeRO-1), micro-batches dealt" */
static void put_replicas(const struct plan *plan, struct strbuf *out)
{
    for (int64_t s = 0; s < plan->pipeline && s < REPLICAS_SHOWN; s++) {
        strbuf_printf(out, "%s%" PRIu32, s == 0 ? "" : ", ", plan->stage_replicas[s]);
    }
    strbuf_printf(out, "%s replicas", plan->pipeline > REPLICAS_SHOWN ? " ..." : "");
    put_zero(plan, out);
    strbuf_printf(out, ", micro-batches %s", plan->replica_sharing == SHARING_CUT ? "cut" : "dealt");
}

/* Layers that are split as the degrees of the plan do not say. */
static int64_t count_others(const struct plan *plan, const struct model *model)
{
    const struct plan_layer plain = { .tensor = plan->tensor, .data = plan->data, .zero_stage = plan->zero_stage };
    int64_t count = 0;
    for (int64_t i = 0; plan->layers != NULL && i < model->layers; i++) {
        const struct plan_layer layer = plan_layer_of(plan, model, LAYER_TRANSFORMER, i);
        count += !plan_layer_equal(&layer, &plain);
    }
    return count;
}

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
        if (plan->stage_replicas != NULL) {
            strbuf_append(out, " of ");
            put_replicas(plan, out);
        }
        strbuf_printf(out, " (%s)", plan->order);
    } else if (plan->stage_replicas != NULL) {
        strbuf_append(out, out->length > start ? ", " : "");
        put_replicas(plan, out);
    }
    if (plan->data > 1) { /* 1 with stage_replicas */
        strbuf_printf(out, "%sdata %" PRId64, out->length > start ? ", " : "", plan->data);
        put_zero(plan, out);
    }
    if (out->length == start) {
        strbuf_append(out, "not split");
    }
    int64_t others = count_others(plan, model);
    if (others > 0) {
        strbuf_printf(out, ", %" PRId64 " of %" PRId64 " layers otherwise", others, model->layers);
    } else if (plan_is_mixed(plan, model)) {
        strbuf_append(out, ", embedding or head otherwise");
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
    strbuf_printf(out, "%s, %s, %" PRId64 " sample%s a step: ", model->name, dtype_word(plan->precision),
                  plan->global_batch, plan->global_batch == 1 ? "" : "s");
    put_degrees(plan, model, out);
    strbuf_printf(out, "; %" PRId64 " micro-batch%s of %" PRId64 "%s", plan->micro_batches,
                  plan->micro_batches == 1 ? "" : "es", plan->micro_batch, plan->data > 1 ? " in each replica" : "");
    put_recompute(plan, model, out);
    if (plan->layer_drop > 0) {
        strbuf_printf(out, "; %g %% of layers dropped", 100 * plan->layer_drop);
    }
    strbuf_printf(out, "; memory policy %s", plan->policy);
}
