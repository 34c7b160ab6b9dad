/* Where a model is cut into stages: even, the greedy rules of the public code, and the two anchors (facts/galvatron-bmw.md B.5, B.6). */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/check.h"
#include "strategies/planners/galvatron_internal.h"

bool galvatron_partition_even(const struct galvatron_case *c, uint32_t *partition)
{
    uint32_t stages = c->setting.pipeline, layers = c->source->layer_count;
    CHECK(stages >= 1);
    for (uint32_t i = 0; i < stages; i++) {
        partition[i] = layers / stages;
    }
    partition[stages - 1] += layers % stages;
    return layers >= stages;
}

/* v1's weight: least memory over all strategies, GPipe. */
static double least_mib(const struct galvatron_case *c, uint32_t layer)
{
    double least = INFINITY;
    for (uint32_t s = 0; s < c->strategy_count; s++) {
        const struct galvatron_layer_cost *cost = &c->costs[(size_t)c->source->kinds[layer] * c->strategy_count + s];
        least = fmin(least, cost->state_mib + cost->activation_mib);
    }
    return least;
}

static bool none_empty(const uint32_t *partition, uint32_t stages)
{
    for (uint32_t i = 0; i < stages; i++) {
        if (partition[i] == 0) {
            return false;
        }
    }
    return true;
}

bool galvatron_partition_v1(const struct galvatron_case *c, uint32_t *partition)
{
    uint32_t stages = c->setting.pipeline, layers = c->source->layer_count;
    if (c->source->kind_count == 1) {
        return galvatron_partition_even(c, partition);
    }
    /* As the golden files have it: `other` of an unsplit pipeline, whatever the degree. */
    struct galvatron_setting unsplit = c->setting;
    const struct galvatron_strategy first = { 1, 1, c->setting.gpus, true, false, false };
    unsplit.pipeline = 1;
    double sum = 0, other = c->source->other_mib(c->source->context, 0, &first, &unsplit);
    for (uint32_t l = 0; l < layers; l++) {
        sum += least_mib(c, l);
    }
    double mean = (sum + other) / stages;
    memset(partition, 0, stages * sizeof *partition);
    uint32_t left = layers;
    for (uint32_t i = stages; i-- > 0;) {
        double filled = i == 0 ? other : 0;
        while (left > 0) {
            double weight = least_mib(c, left - 1);
            if (i > 0 && mean - filled < 0.5 * weight) {
                break;
            }
            filled += weight;
            left--;
            partition[i]++;
        }
    }
    if (stages > 1 && partition[0] == 0 && partition[1] > 0) {
        partition[0]++;
        partition[1]--;
    }
    return none_empty(partition, stages);
}

/* Memory of a layer under the reference strategy: the first of this degree, plain data parallelism. */
static double reference_mib(const struct galvatron_case *c, uint32_t layer, double live)
{
    const struct galvatron_layer_cost *cost = &c->costs[(size_t)c->source->kinds[layer] * c->strategy_count];
    return cost->state_mib + cost->activation_mib * live;
}

static void g2_fill(const struct galvatron_case *c, uint32_t *partition, double mean)
{
    uint32_t stages = c->setting.pipeline, left = c->source->layer_count;
    for (uint32_t i = stages; i-- > 0;) {
        double filled = c->stage_other_mib[i];
        while (left > 0) {
            double weight = reference_mib(c, left - 1, c->stage_live[i]);
            if (i > 0 && mean - filled < 0.5 * weight) {
                break;
            }
            filled += weight;
            left--;
            partition[i]++;
        }
    }
}

/* (a) While a stage holds more than 1.3 times the mean its last layer goes to the next; (b) no stage stays empty. */
static void g2_repair(const struct galvatron_case *c, uint32_t *partition, double mean)
{
    uint32_t stages = c->setting.pipeline;
    for (uint32_t i = 0, first = 0; i + 1 < stages; first += partition[i++]) {
        double filled = c->stage_other_mib[i];
        for (uint32_t l = first; l < first + partition[i]; l++) {
            filled += reference_mib(c, l, c->stage_live[i]);
        }
        while (partition[i] > 0 && filled > 1.3 * mean) {
            filled -= reference_mib(c, first + partition[i] - 1, c->stage_live[i]);
            partition[i]--;
            partition[i + 1]++;
        }
    }
    for (uint32_t i = 0; i + 1 < stages; i++) {
        if (partition[i] == 0 && partition[i + 1] > 0) {
            partition[i]++;
            partition[i + 1]--;
        }
    }
    for (uint32_t i = stages; i-- > 1;) {
        if (partition[i] == 0 && partition[i - 1] > 0) {
            partition[i]++;
            partition[i - 1]--;
        }
    }
}

bool galvatron_partition_g2(const struct galvatron_case *c, uint32_t *partition)
{
    uint32_t stages = c->setting.pipeline;
    if (c->source->kind_count == 1) {
        return galvatron_partition_even(c, partition);
    }
    double sum = 0, live = 0;
    for (uint32_t i = 0; i < stages; i++) {
        sum += c->stage_other_mib[i];
        live += c->stage_live[i] / stages;
    }
    for (uint32_t l = 0; l < c->source->layer_count; l++) {
        sum += reference_mib(c, l, live);
    }
    memset(partition, 0, stages * sizeof *partition);
    g2_fill(c, partition, sum / stages);
    g2_repair(c, partition, sum / stages);
    return none_empty(partition, stages);
}

static double weight_of(const struct galvatron_case *c, enum galvatron_weight weight, uint32_t layer, uint32_t stage)
{
    return weight == GALVATRON_WEIGHT_MEMORY ? reference_mib(c, layer, c->stage_live[stage])
                                             : c->costs[(size_t)c->source->kinds[layer] * c->strategy_count].compute_s;
}

static double stage_weight(const struct galvatron_case *c, enum galvatron_weight weight, uint32_t stage)
{
    if (weight == GALVATRON_WEIGHT_MEMORY) {
        return c->stage_other_mib[stage];
    }
    return c->source->other_s != NULL ? c->source->other_s(c->source->context, stage, &c->setting) : 0;
}

/* least[i][l]: the least largest weight of stages 0..i over the first l layers. O(P L^2). */
enum status galvatron_partition_balanced(const struct galvatron_case *c, enum galvatron_weight weight,
                                         uint32_t *partition, struct error *error)
{
    uint32_t stages = c->setting.pipeline, layers = c->source->layer_count, columns = layers + 1;
    double *least = malloc((size_t)stages * columns * sizeof *least);
    uint32_t *cut = malloc((size_t)stages * columns * sizeof *cut);
    if (least == NULL || cut == NULL) {
        free(least);
        free(cut);
        return error_set(error, STATUS_NO_MEMORY, "no memory for %u stages of %u layers", stages, layers);
    }
    for (uint32_t i = 0; i < stages; i++) {
        for (uint32_t l = 0; l < columns; l++) {
            double best = INFINITY, mine = stage_weight(c, weight, i);
            uint32_t from = 0;
            for (uint32_t start = l; start-- > i;) { /* layers start .. l-1 in stage i */
                mine += weight_of(c, weight, start, i);
                double before = i == 0 ? (start == 0 ? 0 : INFINITY) : least[(size_t)(i - 1) * columns + start];
                double most = fmax(before, mine);
                if (most < best) {
                    best = most;
                    from = start;
                }
            }
            least[(size_t)i * columns + l] = best;
            cut[(size_t)i * columns + l] = from;
        }
    }
    uint32_t end = layers;
    for (uint32_t i = stages; i-- > 0;) {
        uint32_t start = cut[(size_t)i * columns + end];
        partition[i] = end - start;
        end = start;
    }
    free(least);
    free(cut);
    return STATUS_OK;
}

double galvatron_reference_mib(const struct galvatron_case *c, const uint32_t *partition)
{
    double most = 0;
    for (uint32_t i = 0, first = 0; i < c->setting.pipeline; first += partition[i++]) {
        double mine = c->stage_other_mib[i];
        for (uint32_t l = first; l < first + partition[i]; l++) {
            mine += reference_mib(c, l, c->stage_live[i]);
        }
        most = fmax(most, mine);
    }
    return most;
}
