/* Enumerating the strategies of a layer, counting them the long way, and their text. */
#include "strategies/planners/galvatron_space.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/check.h"
#include "sim/base/json.h"

static const char *const SPACE_NAMES[] = {
#define X(name, word) word,
    GALVATRON_SPACE_TABLE(X)
#undef X
};

const char *galvatron_space_name(enum galvatron_space space)
{
    CHECK(space < GALVATRON_SPACE_COUNT);
    return SPACE_NAMES[space];
}

enum status galvatron_space_find(const char *name, enum galvatron_space *space, struct error *error)
{
    for (uint32_t i = 0; i < GALVATRON_SPACE_COUNT; i++) {
        if (strcmp(name, SPACE_NAMES[i]) == 0) {
            *space = (enum galvatron_space)i;
            return STATUS_OK;
        }
    }
    const char *near = nearest_word(name, SPACE_NAMES, GALVATRON_SPACE_COUNT);
    return error_set(error, STATUS_NOT_FOUND,
                     "unknown space \"%s\"%s%s%s; known: full, dp, sdp, tp, pp, 3d, dp+tp, dp+pp", name,
                     near != NULL ? " (did you mean \"" : "", near != NULL ? near : "", near != NULL ? "\"?)" : "");
}

uint32_t galvatron_log2(uint32_t value)
{
    uint32_t k = 0;
    while (value > 1) {
        value >>= 1;
        k++;
    }
    return k;
}

enum status galvatron_check_gpus(uint32_t gpus, struct error *error)
{
    if (gpus >= 1 && gpus <= GALVATRON_GPUS_MAX && (gpus & (gpus - 1)) == 0) {
        return STATUS_OK;
    }
    uint32_t below = gpus < 1 ? 1 : gpus > GALVATRON_GPUS_MAX ? GALVATRON_GPUS_MAX : 1u << galvatron_log2(gpus);
    return error_set(
        error, STATUS_BAD_INPUT,
        "Galvatron's search splits by powers of two only, up to %d devices: %u isn't one; %u would do%s, or "
        "use the planner exhaustive",
        GALVATRON_GPUS_MAX, gpus, below, below < GALVATRON_GPUS_MAX ? " (or twice that)" : "");
}

/* Tensor degree of the fixed 3D strategy: the largest power of two whose square does not exceed the stage's devices. */
static uint32_t tensor_of_3d(uint32_t group)
{
    uint32_t tensor = 1;
    while (tensor * 2 * tensor * 2 <= group) {
        tensor *= 2;
    }
    return tensor;
}

static bool in_space(const struct galvatron_space_limits *limits, const struct galvatron_strategy *s)
{
    uint32_t gpus = limits->gpus;
    bool sharded_or_alone = s->sharded || gpus == 1;
    switch (limits->space) {
    case GALVATRON_SPACE_FULL: return true;
    case GALVATRON_SPACE_DP: return s->pipeline == 1 && s->tensor == 1 && !s->sharded;
    case GALVATRON_SPACE_SDP: return s->pipeline == 1 && s->tensor == 1 && sharded_or_alone;
    case GALVATRON_SPACE_TP: return s->pipeline == 1 && s->tensor == gpus;
    case GALVATRON_SPACE_PP: return s->pipeline == gpus;
    case GALVATRON_SPACE_3D:
        return s->pipeline == 2 && s->tensor == tensor_of_3d(gpus / 2) && s->tensor_consecutive && !s->sharded;
    case GALVATRON_SPACE_DP_TP: return s->pipeline == 1 && !s->sharded;
    case GALVATRON_SPACE_DP_PP: return s->tensor == 1 && !s->sharded;
    case GALVATRON_SPACE_COUNT: break;
    }
    return false;
}

uint32_t galvatron_strategies(const struct galvatron_space_limits *limits, uint32_t pipeline,
                              struct galvatron_strategy *strategies)
{
    uint32_t count = 0, group = limits->gpus / pipeline;
    if (pipeline > limits->gpus || (limits->pipeline_max != 0 && pipeline > limits->pipeline_max)) {
        return 0;
    }
    for (uint32_t tensor = 1; tensor <= group; tensor *= 2) {
        if (limits->tensor_max != 0 && tensor > limits->tensor_max) {
            break;
        }
        uint32_t data = group / tensor;
        bool ordered = tensor > 1 && data > 1;
        for (uint32_t i = 0; i < 4; i++) {
            bool first_bit = (i & 2) != 0, second_bit = (i & 1) != 0;
            struct galvatron_strategy s = { pipeline, tensor, data, true, false, false };
            s.sharded = limits->order == GALVATRON_ORDER_V1 ? first_bit : second_bit;
            bool consecutive = limits->order == GALVATRON_ORDER_V1 ? second_bit : first_bit;
            s.tensor_consecutive = consecutive;
            if ((!ordered && !consecutive) || (s.sharded && data == 1) || !in_space(limits, &s)) {
                continue;
            }
            CHECK(count < GALVATRON_STRATEGIES_MAX);
            strategies[count++] = s;
        }
    }
    uint32_t plain = count;
    for (uint32_t i = 0; limits->recompute && i < plain; i++) {
        CHECK(count < GALVATRON_STRATEGIES_MAX);
        strategies[count] = strategies[i];
        strategies[count++].recompute = true;
    }
    return count;
}

enum { NEST_DP = 1, NEST_SDP = 2, NEST_TP = 4 };

/* Sequences of dimensions not in `used` whose degrees, each at least two, multiply to 2^power. */
static uint32_t count_from(uint32_t power, unsigned used, bool pruned)
{
    if (power == 0) {
        return 1;
    }
    uint32_t count = 0;
    for (unsigned dimension = NEST_DP; dimension <= NEST_TP; dimension *= 2) {
        unsigned together = used | dimension;
        if ((used & dimension) != 0 ||
            (pruned && (together & (NEST_DP | NEST_SDP)) == (unsigned)(NEST_DP | NEST_SDP))) {
            continue;
        }
        for (uint32_t k = 1; k <= power; k++) {
            count += count_from(power - k, together, pruned);
        }
    }
    return count;
}

uint32_t galvatron_count_nestings(uint32_t group, bool pruned)
{
    return count_from(galvatron_log2(group), 0, pruned);
}

uint32_t galvatron_count_space(uint32_t gpus, bool pruned, bool recompute)
{
    uint32_t count = 0;
    for (uint32_t pipeline = 1; pipeline <= gpus; pipeline *= 2) {
        count += galvatron_count_nestings(gpus / pipeline, pruned);
    }
    return recompute ? 2 * count : count;
}

const char *galvatron_strategy_text(const struct galvatron_strategy *s, char *text)
{
    bool ordered = s->tensor > 1 && s->data > 1;
    (void)snprintf(text, GALVATRON_STRATEGY_TEXT_BYTES, "%u-%u%s-%u%s%s%s", s->pipeline, s->tensor,
                   ordered && s->tensor_consecutive ? "*" : "", s->data, s->sharded ? "f" : "",
                   ordered && !s->tensor_consecutive ? "*" : "", s->recompute ? "-c" : "");
    return text;
}

static bool parse_degree(const char **at, uint32_t *degree)
{
    if (!isdigit((unsigned char)**at)) {
        return false;
    }
    char *end = NULL;
    unsigned long value = strtoul(*at, &end, 10);
    *at = end;
    *degree = (uint32_t)value;
    return value >= 1 && value <= GALVATRON_GPUS_MAX && (value & (value - 1)) == 0;
}

static bool parse_char(const char **at, char wanted)
{
    bool found = **at == wanted;
    *at += found;
    return found;
}

enum status galvatron_strategy_parse(const char *text, struct galvatron_strategy *strategy, struct error *error)
{
    const char *at = text;
    struct galvatron_strategy s = { 0 };
    bool good = parse_degree(&at, &s.pipeline) && parse_char(&at, '-') && parse_degree(&at, &s.tensor);
    bool tensor_star = good && parse_char(&at, '*');
    good = good && parse_char(&at, '-') && parse_degree(&at, &s.data);
    s.sharded = good && parse_char(&at, 'f');
    bool data_star = good && parse_char(&at, '*');
    if (good && at[0] == '-' && at[1] == 'c') {
        s.recompute = true;
        at += 2;
    }
    bool ordered = s.tensor > 1 && s.data > 1;
    s.tensor_consecutive = !data_star;
    if (!good || *at != '\0' || (s.sharded && s.data == 1) ||
        (ordered ? tensor_star == data_star : tensor_star || data_star)) {
        return error_set(
            error, STATUS_BAD_INPUT,
            "\"%s\" isn't a layer strategy: pipeline-tensor-data in powers of two, 'f' for ZeRO-3, '*' after "
            "the consecutive one where tensor and data both exceed 1, '-c' for recomputation: \"2-1-4f\", "
            "\"1-2*-4f-c\"",
            text);
    }
    *strategy = s;
    return STATUS_OK;
}

bool galvatron_strategy_equal(const struct galvatron_strategy *a, const struct galvatron_strategy *b)
{
    return a->pipeline == b->pipeline && a->tensor == b->tensor && a->data == b->data &&
           a->tensor_consecutive == b->tensor_consecutive && a->sharded == b->sharded && a->recompute == b->recompute;
}
