/* What the accuracy tests of the Galvatron search share: rows of comma-separated values, and plans of equal cost.
 *
 * Golden plans were found by another program. Where two plans cost the same to the last digit but rounding, which one a search returns is chance; `golden_is_tied` proves that by costing the golden plan with our own source. */
#ifndef MEMWALL_TESTS_GALVATRON_GOLDEN_H
#define MEMWALL_TESTS_GALVATRON_GOLDEN_H

#include "strategies/planners/galvatron_search.h"
#include "../test.h"

enum { GOLDEN_FIELDS = 16, GOLDEN_LINE_BYTES = 4096, GOLDEN_LAYERS = 256 };

static inline const char *golden_path(const char *name)
{
    static char path[512];
    const char *root = getenv("MEMWALL_SHARED");
    snprintf(path, sizeof path, "%s/data/galvatron/%s", root != NULL ? root : "../shared", name);
    return path;
}

/* Skips the test when the data isn't there. */
static inline FILE *golden_open(const char *name)
{
    FILE *file = fopen(golden_path(name), "r");
    if (file == NULL) {
        printf("no shared data at %s\n", golden_path(name));
        exit(77);
    }
    return file;
}

/* Splits a line of comma-separated values in place; quotes around a value are dropped. Returns the number of fields. */
static inline unsigned golden_split(char *line, char **fields)
{
    unsigned count = 0;
    line[strcspn(line, "\r\n")] = '\0';
    for (char *at = line; count < GOLDEN_FIELDS;) {
        bool quoted = *at == '"';
        at += quoted;
        fields[count++] = at;
        at += strcspn(at, quoted ? "\"" : ",");
        if (quoted && *at == '"') {
            *at++ = '\0';
        }
        if (*at == '\0') {
            break;
        }
        *at++ = '\0';
    }
    return count;
}

/* "1-2*-4 x16 1-2*-4f x16" into layers; returns how many. */
static inline uint32_t golden_layers(const char *text, struct galvatron_strategy *layers)
{
    uint32_t count = 0;
    int used = 0;
    unsigned run = 0;
    char name[GALVATRON_STRATEGY_TEXT_BYTES];
    for (; sscanf(text, " %31s x%u%n", name, &run, &used) == 2; text += used) {
        struct error error = { 0 };
        struct galvatron_strategy strategy = { 0 };
        EXPECT_INT(galvatron_strategy_parse(name, &strategy, &error), STATUS_OK);
        for (unsigned i = 0; i < run && count < GOLDEN_LAYERS; i++) {
            layers[count++] = strategy;
        }
    }
    return count;
}

/* What the dynamic programmes of all stages would sum for these layers. */
static inline double golden_cost_s(const struct galvatron_source *source, const struct galvatron_plan *plan,
                                   const struct galvatron_strategy *layers)
{
    const struct galvatron_setting setting = { source->gpus,      plan->pipeline, plan->batch, plan->micro_batches,
                                               plan->one_f_one_b, true,           false };
    double sum = 0;
    for (uint32_t i = 0, l = 0; i < plan->pipeline; i++) {
        for (uint32_t k = 0; k < plan->stages[i].layers; k++, l++) {
            struct galvatron_layer_cost cost;
            struct galvatron_change change = { 0 };
            source->layer(source->context, source->kinds[l], &layers[l], &setting, &cost);
            if (k > 0) {
                source->change(source->context, source->kinds[l], &layers[l - 1], &layers[l], &setting, &change);
            }
            sum += cost.search_s + change.search_s;
        }
    }
    return sum;
}

/* Does the golden plan cost what ours does? 1e-12: thousands of additions round by less. */
static inline bool golden_is_tied(const struct galvatron_source *source, const struct galvatron_plan *plan,
                                  const char *text)
{
    struct galvatron_strategy layers[GOLDEN_LAYERS];
    if (golden_layers(text, layers) != plan->layer_count) {
        return false;
    }
    double golden = golden_cost_s(source, plan, layers), ours = golden_cost_s(source, plan, plan->layers);
    return fabs(golden / ours - 1) <= 1e-12;
}

#endif
