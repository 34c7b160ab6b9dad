/* PipeDream's dynamic programme. */
#include "strategies/planners/pipedream_search.h"

#include <math.h>
#include <stdlib.h>

#include "sim/base/check.h"

/* The best plan of layers 0 .. j on n workers, and its last stage. */
struct cell {
    double bottleneck_s; /* INFINITY: none */
    uint32_t first, replicas;
};

struct search {
    const struct pipedream_request *request;
    struct profile_sum *before; /* [count + 1]: sums of layers 0 .. i - 1 */
    struct cell *cells;         /* [count][workers + 1] */
};

static double stage_s(const struct pipedream_request *request, double compute_s, double parameter_bytes,
                      uint32_t replicas)
{
    double r = replicas;
    return (compute_s + 4 * (r - 1) * parameter_bytes / (request->bandwidth_bytes_per_s * r)) / r;
}

double pipedream_stage_s(const struct pipedream_request *request, const struct pipeline_stage *stage)
{
    struct profile_sum sum = pipeline_profile_sum(request->profile, stage->first, stage->count);
    return stage_s(request, sum.compute_s, sum.parameter_bytes, stage->replicas);
}

static struct cell *cell_at(const struct search *search, uint32_t last, uint32_t workers)
{
    return &search->cells[(size_t)last * (search->request->workers + 1) + workers];
}

/* `used`: workers of this stage and those before it. */
static bool fits(const struct search *search, uint32_t first, uint32_t last, uint32_t replicas, uint32_t used)
{
    const struct pipedream_request *request = search->request;
    if (!(request->memory_bytes > 0)) {
        return true;
    }
    const struct profile_sum *from = &search->before[first], *to = &search->before[last + 1];
    double bytes = to->activation_bytes - from->activation_bytes + to->parameter_bytes - from->parameter_bytes;
    return ceil((double)(request->workers - used) / replicas) * bytes <= request->memory_bytes;
}

/* What sending into the stage and out of it costs when it counts. */
static double transfer_s(const struct search *search, uint32_t first, uint32_t last, uint32_t replicas)
{
    const struct pipedream_request *request = search->request;
    const struct pipeline_profile *profile = request->profile;
    if (!(request->compression > 0) || first == 0) {
        return 0;
    }
    double each = 2 / (request->bandwidth_bytes_per_s * replicas * request->compression);
    double in = profile->layers[first - 1].activation_bytes * each;
    double out = last + 1 < profile->count ? profile->layers[last].activation_bytes * each : 0;
    return fmax(in, out);
}

static void improve(const struct search *search, uint32_t first, uint32_t last, uint32_t workers, uint32_t replicas)
{
    if (search->request->shared > 0 && search->request->shared % replicas != 0) {
        return;
    }
    const struct profile_sum *from = &search->before[first], *to = &search->before[last + 1];
    double cost = stage_s(search->request, to->compute_s - from->compute_s, to->parameter_bytes - from->parameter_bytes,
                          replicas);
    if (first > 0) {
        cost = fmax(cost, cell_at(search, first - 1, workers - replicas)->bottleneck_s);
    }
    cost = fmax(cost, transfer_s(search, first, last, replicas));
    struct cell *best = cell_at(search, last, workers);
    if (cost < best->bottleneck_s && fits(search, first, last, replicas, workers)) {
        *best = (struct cell){ cost, first, replicas };
    }
}

static void fill(const struct search *search)
{
    const struct pipedream_request *request = search->request;
    uint32_t unit = request->replicas > 0 ? request->replicas : 1;
    for (uint32_t last = 0; last < request->profile->count; last++) {
        for (uint32_t workers = 0; workers <= request->workers; workers++) {
            cell_at(search, last, workers)->bottleneck_s = INFINITY;
        }
        for (uint32_t workers = unit; workers <= request->workers; workers += unit) {
            if (request->replicas == 0 || workers == unit) {
                improve(search, 0, last, workers, workers);
            }
            uint32_t most = request->replicas > 0 ? request->replicas : workers - 1;
            for (uint32_t first = 1; first <= last; first++) {
                for (uint32_t replicas = unit; replicas <= most && replicas < workers; replicas++) {
                    improve(search, first, last, workers, replicas);
                }
            }
        }
    }
}

static enum status trace(const struct search *search, struct pipedream_answer *answer, struct arena *arena,
                         struct error *error)
{
    uint32_t last = search->request->profile->count - 1, workers = search->request->workers, count = 0;
    const struct cell *cell = cell_at(search, last, workers);
    *answer = (struct pipedream_answer){ .found = cell->bottleneck_s < INFINITY };
    if (!answer->found) {
        return STATUS_OK;
    }
    answer->bottleneck_s = cell->bottleneck_s;
    answer->split.stages = arena_array(arena, struct pipeline_stage, (size_t)last + 1);
    if (answer->split.stages == NULL) {
        return error_set(error, STATUS_NO_MEMORY, "out of memory partitioning");
    }
    struct pipeline_stage *stages = answer->split.stages;
    for (;; cell = cell_at(search, last, workers)) { /* last stage first */
        stages[count++] = (struct pipeline_stage){ cell->first, last - cell->first + 1, cell->replicas };
        if (cell->first == 0) {
            break;
        }
        last = cell->first - 1;
        workers -= cell->replicas;
    }
    for (uint32_t i = 0; i < count / 2; i++) {
        struct pipeline_stage swap = stages[i];
        stages[i] = stages[count - 1 - i];
        stages[count - 1 - i] = swap;
    }
    answer->split.stage_count = count;
    return STATUS_OK;
}

static enum status check(const struct pipedream_request *request, struct error *error)
{
    if (request->workers < 1 || request->workers > PIPELINE_WORKERS_MAX) {
        return error_set(error, STATUS_BAD_INPUT, "%u workers; allowed are 1 to %d", request->workers,
                         PIPELINE_WORKERS_MAX);
    }
    if (!(request->bandwidth_bytes_per_s > 0) || request->bandwidth_bytes_per_s > 1e15) {
        return error_set(error, STATUS_BAD_INPUT,
                         "a bandwidth of %g bytes/s; allowed is more than 0, at most 1e15 bytes/s",
                         request->bandwidth_bytes_per_s);
    }
    if (request->replicas > 0 && request->workers % request->replicas != 0) {
        return error_set(error, STATUS_BAD_INPUT,
                         "%u workers in stages of %u replicas: the number must divide the workers", request->workers,
                         request->replicas);
    }
    double layers = request->profile->count, workers = request->workers;
    double steps = layers * layers * workers * (request->replicas > 0 ? 1 : workers) / 4;
    if (steps > 2e10) {
        return error_set(error, STATUS_LIMIT,
                         "a search of %.3g steps over %u layers and %u workers; 2e10 are allowed: give the replicas of "
                         "a stage, or merge layers",
                         steps, request->profile->count, request->workers);
    }
    return STATUS_OK;
}

enum status pipedream_search(const struct pipedream_request *request, struct pipedream_answer *answer,
                             struct arena *arena, struct error *error)
{
    TRY(check(request, error));
    uint32_t count = request->profile->count;
    struct search search = { .request = request,
                             .before = calloc((size_t)count + 1, sizeof *search.before),
                             .cells = calloc((size_t)count * (request->workers + 1), sizeof *search.cells) };
    enum status status = STATUS_OK;
    if (search.before == NULL || search.cells == NULL) {
        status = error_set(error, STATUS_NO_MEMORY, "out of memory partitioning");
    } else {
        for (uint32_t i = 0; i < count; i++) {
            struct profile_sum one = pipeline_profile_sum(request->profile, i, 1), *sum = &search.before[i + 1];
            *sum = search.before[i];
            sum->compute_s += one.compute_s;
            sum->activation_bytes += one.activation_bytes;
            sum->saved_bytes += one.saved_bytes;
            sum->parameter_bytes += one.parameter_bytes;
        }
        fill(&search);
        status = trace(&search, answer, arena, error);
    }
    free(search.before);
    free(search.cells);
    return status;
}
