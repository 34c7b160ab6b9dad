/* How much there is to do, for who waits: an estimate. */
#include <math.h>

#include "strategies/planners/galvatron_internal.h"

/* Counting must not take as long as a search does. */
static const double COUNTED_MAX = 1e7;

double galvatron_case_work(const struct galvatron_request *rules, uint32_t pipeline)
{
    struct galvatron_strategy strategies[GALVATRON_STRATEGIES_MAX];
    const struct galvatron_space_limits limits = { rules->source->gpus, rules->space,      rules->order,
                                                   rules->recompute,    rules->tensor_max, rules->pipeline_max };
    double count = galvatron_strategies(&limits, pipeline, strategies);
    bool balanced = rules->partition == GALVATRON_PARTITION_BIOBJECTIVE;
    return count * count * (balanced ? pipeline : 1);
}

uint32_t galvatron_micro_first(const struct galvatron_request *rules, uint32_t pipeline)
{
    return rules->micro == GALVATRON_MICRO_ALL ? 1 : pipeline;
}

bool galvatron_micro_is_tried(const struct galvatron_request *rules, uint32_t batch, uint32_t pipeline,
                              uint32_t micro_batches)
{
    /* Each device's samples must make whole pieces at the least. */
    return batch % micro_batches == 0 && (double)batch * pipeline / rules->source->gpus >= micro_batches;
}

static double degree_work(const struct galvatron_request *rules, uint32_t batch, uint32_t pipeline)
{
    if (rules->whole_batches && batch % (rules->source->gpus / pipeline) != 0) {
        return 0;
    }
    if (rules->micro == GALVATRON_MICRO_OF_SOURCE) {
        return 1;
    }
    double cases = 0;
    for (uint32_t m = galvatron_micro_first(rules, pipeline); m <= batch; m++) {
        cases += galvatron_micro_is_tried(rules, batch, pipeline, m) ? 1 : 0;
    }
    return cases;
}

double galvatron_variant_work(const struct galvatron_request *rules)
{
    double batches = rules->batch_max < rules->batch_first
                         ? 0
                         : 1 + floor((double)(rules->batch_max - rules->batch_first) / rules->batch_step);
    if (batches < 1 || batches * rules->batch_max > COUNTED_MAX) {
        return 0;
    }
    double work = 0;
    for (uint32_t pipeline = 1; pipeline <= rules->source->gpus; pipeline *= 2) {
        double each = galvatron_case_work(rules, pipeline);
        for (uint64_t batch = rules->batch_first; each > 0 && batch <= rules->batch_max; batch += rules->batch_step) {
            work += each * degree_work(rules, (uint32_t)batch, pipeline);
        }
    }
    return work;
}
