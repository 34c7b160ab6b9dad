/* Reading, checking, printing and drawing training.layer_drop. */
#include "sim/plan/layer_drop.h"

#include "sim/base/check.h"
#include "sim/base/splitmix.h"

#define LAYER_DROP_MAX 0.99 /* some layer has to run */

enum status layer_drop_read(struct plan *plan, const struct json *training, struct error *error)
{
    struct json seed;
    TRY(json_real_or(training, "layer_drop", 0, LAYER_DROP_MAX, 0, &plan->layer_drop, error));
    TRY(json_any_optional(training, "layer_drop_seed", &seed, error));
    if (seed.node != NULL && !(plan->layer_drop > 0)) {
        return json_error(&seed, error, "seeds training.layer_drop, which is 0: leave the key out");
    }
    return json_int_or(training, "layer_drop_seed", 0, (int64_t)1 << 40, 1, &plan->layer_drop_seed, error);
}

enum status layer_drop_check(const struct plan *plan, const struct model *model, struct error *error)
{
    if (!(plan->layer_drop > 0)) {
        return STATUS_OK;
    }
    if (!model_is_uniform(model)) {
        return error_at(error, STATUS_BAD_INPUT, NULL, "$.training.layer_drop",
                        "layer_drop %g: the layers of %s differ, and what one hands to the next is not modelled "
                        "without one of them; take a model of equal layers, or set layer_drop to 0",
                        plan->layer_drop, model->name);
    }
    if (plan->pipeline > 1 || plan->virtual_stages > 1) {
        return error_at(error, STATUS_BAD_INPUT, NULL, "$.training.layer_drop",
                        "layer_drop %g: stages of a pipeline would have different work in every micro-batch, which is "
                        "not modelled; set parallel.pipeline to 1, or layer_drop to 0",
                        plan->layer_drop);
    }
    if (plan->layers != NULL) {
        return error_at(error, STATUS_BAD_INPUT, NULL, "$.training.layer_drop",
                        "layer_drop %g: what lies between layers that are split differently is not modelled without "
                        "one of them; leave parallel.layers out, or set layer_drop to 0",
                        plan->layer_drop);
    }
    return STATUS_OK;
}

void layer_drop_print(const struct plan *plan, struct json_writer *w)
{
    if (plan->layer_drop > 0) {
        jw_real(w, "layer_drop", plan->layer_drop);
        jw_int(w, "layer_drop_seed", plan->layer_drop_seed);
    }
}

bool layer_drop_skips(const struct plan *plan, uint32_t layer, uint32_t micro_batch)
{
    if (!(plan->layer_drop > 0)) {
        return false;
    }
    uint64_t state = (uint64_t)plan->layer_drop_seed;
    state = splitmix_next(&state) ^ micro_batch;
    state = splitmix_next(&state) ^ layer;
    return splitmix_unit(&state) < plan->layer_drop;
}
