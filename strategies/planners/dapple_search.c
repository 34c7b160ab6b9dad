/* DAPPLE's analytic length, minimised. */
#include "strategies/planners/dapple_search.h"

#include <math.h>
#include <stdlib.h>

#include "sim/base/array.h"
#include "sim/base/check.h"

enum { NONE = UINT32_MAX };

/* The stages up to one of them, under a given block. */
struct label {
    double transfers_s, exposed_s;
    uint32_t parent;    /* label of the stages before, or NONE */
    uint32_t next;      /* in its bucket */
    uint32_t end, used; /* layers and workers so far */
    uint32_t replicas;
    bool reached; /* one stage takes the whole block */
};

struct search {
    const struct dapple_request *request;
    double *compute_s, *parameter_bytes; /* [count + 1]: of layers 0 .. i - 1 */
    uint32_t *bucket;                    /* [count + 1][workers + 1]: labels of the level being filled */
    struct {
        struct label *items;
        size_t count, capacity;
    } labels;
    double block_s, best_s;
    uint32_t best;
};

static double reduce_s(const struct dapple_request *request, double bytes, uint32_t replicas)
{
    double r = (double)replicas * (request->copies > 0 ? request->copies : 1);
    return 2 * (r - 1) / r * bytes / request->reduce_bytes_per_s;
}

static double cut_s(const struct dapple_request *request, uint32_t end)
{
    return end < request->profile->count
               ? request->profile->layers[end - 1].activation_bytes / request->transfer_bytes_per_s
               : 0;
}

struct dapple_answer dapple_length(const struct dapple_request *request, const struct pipeline_split *split)
{
    const struct pipeline_profile *profile = request->profile;
    struct dapple_answer answer = { .found = true, .split = *split };
    for (uint32_t i = 0; i < split->stage_count; i++) {
        const struct pipeline_stage *stage = &split->stages[i];
        answer.block_s =
            fmax(answer.block_s, pipeline_profile_sum(profile, stage->first, stage->count).compute_s / stage->replicas);
        answer.transfers_s += cut_s(request, stage->first + stage->count);
    }
    for (uint32_t i = 0; i < split->stage_count; i++) {
        const struct pipeline_stage *stage = &split->stages[i];
        double bytes = pipeline_profile_sum(profile, stage->first, stage->count).parameter_bytes;
        answer.exposed_reduce_s =
            fmax(answer.exposed_reduce_s, reduce_s(request, bytes, stage->replicas) - i * answer.block_s);
    }
    answer.length_s = answer.block_s * (request->micro_batches - 1.0) +
                      pipeline_profile_sum(profile, 0, profile->count).compute_s + answer.transfers_s +
                      answer.exposed_reduce_s;
    return answer;
}

/* ---- one block ---- */

static double total_s(const struct search *search)
{
    return search->compute_s[search->request->profile->count];
}

static double least_s(const struct search *search)
{
    return search->block_s * (search->request->micro_batches - 1.0) + total_s(search);
}

static bool dominates(const struct label *a, const struct label *b)
{
    return a->transfers_s <= b->transfers_s && a->exposed_s <= b->exposed_s && (a->reached || !b->reached);
}

static enum status keep(struct search *search, const struct label *label, struct error *error)
{
    uint32_t *head = &search->bucket[(size_t)label->end * (search->request->workers + 1) + label->used];
    if (least_s(search) + label->transfers_s + label->exposed_s >= search->best_s) {
        return STATUS_OK;
    }
    const struct label *labels = search->labels.items;
    for (uint32_t at = *head; labels != NULL && at != NONE; at = labels[at].next) {
        if (dominates(&labels[at], label)) {
            return STATUS_OK;
        }
    }
    TRY(array_reserve(&search->labels, 1, error));
    uint32_t made = (uint32_t)search->labels.count++;
    search->labels.items[made] = *label;
    search->labels.items[made].next = *head;
    *head = made;
    return STATUS_OK;
}

/* Every next stage (the index-th) after `parent` (NONE: nothing is placed). */
static enum status extend(struct search *search, uint32_t parent, uint32_t index, struct error *error)
{
    const struct dapple_request *request = search->request;
    const struct label from =
        parent == NONE ? (struct label){ .end = 0 } : search->labels.items[parent]; /* the array may move */
    uint32_t left = request->workers - from.used, count = request->profile->count;
    uint32_t least = request->replicas > 0 ? request->replicas : 1;
    uint32_t most = request->replicas > 0 && request->replicas < left ? request->replicas : left;
    for (uint32_t end = from.end + 1; end <= count; end++) {
        double compute = search->compute_s[end] - search->compute_s[from.end];
        double bytes = search->parameter_bytes[end] - search->parameter_bytes[from.end];
        bool last = end == count;
        for (uint32_t r = last ? left : least; r >= least && r <= most; r++) {
            double time = compute / r;
            bool uneven = request->shared > 0 && request->shared % r != 0;
            if (uneven || time > search->block_s || (!last && r == left)) {
                continue;
            }
            struct label label = from;
            label.transfers_s += cut_s(request, end);
            label.exposed_s = fmax(from.exposed_s, reduce_s(request, bytes, r) - index * search->block_s);
            label.parent = parent;
            label.end = end;
            label.used = from.used + r;
            label.replicas = r;
            label.reached = from.reached || time >= search->block_s;
            TRY(keep(search, &label, error));
        }
    }
    return STATUS_OK;
}

static void take_best(struct search *search, uint32_t from)
{
    for (uint32_t at = from; at < search->labels.count; at++) {
        const struct label *label = &search->labels.items[at];
        double length = least_s(search) + label->transfers_s + label->exposed_s;
        if (label->end == search->request->profile->count && label->reached && length < search->best_s) {
            search->best_s = length;
            search->best = at;
        }
    }
}

static enum status try_block(struct search *search, struct error *error)
{
    const struct dapple_request *request = search->request;
    size_t buckets = ((size_t)request->profile->count + 1) * (request->workers + 1);
    search->labels.count = 0;
    search->best = NONE;
    uint32_t first = 0;
    for (uint32_t index = 0; index == 0 || first < search->labels.count; index++) {
        uint32_t end = (uint32_t)search->labels.count;
        for (size_t i = 0; i < buckets; i++) {
            search->bucket[i] = NONE;
        }
        if (index == 0) {
            TRY(extend(search, NONE, 0, error));
        }
        for (uint32_t at = first; at < end; at++) {
            if (search->labels.items[at].end < request->profile->count) {
                TRY(extend(search, at, index, error));
            }
        }
        take_best(search, end);
        first = end;
    }
    return STATUS_OK;
}

static enum status save_split(const struct search *search, struct pipeline_split *split, struct arena *arena,
                              struct error *error)
{
    uint32_t count = 0;
    for (uint32_t at = search->best; at != NONE; at = search->labels.items[at].parent) {
        count++;
    }
    split->stages = arena_array(arena, struct pipeline_stage, count);
    split->stage_count = count;
    if (split->stages == NULL) {
        return error_set(error, STATUS_NO_MEMORY, "out of memory partitioning");
    }
    for (uint32_t at = search->best; at != NONE; at = search->labels.items[at].parent) {
        const struct label *label = &search->labels.items[at];
        uint32_t first = label->parent == NONE ? 0 : search->labels.items[label->parent].end;
        split->stages[--count] = (struct pipeline_stage){ first, label->end - first, label->replicas };
    }
    return STATUS_OK;
}

/* ---- all blocks ---- */

static int rising(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The times that any stage may take, rising, each once. */
static enum status list_blocks(const struct search *search, double **blocks, size_t *count, struct error *error)
{
    const struct dapple_request *request = search->request;
    uint32_t layers = request->profile->count;
    CHECK(layers > 0);
    size_t numbers = request->replicas > 0 ? 1 : request->workers, filled = 0, kept = 0;
    *blocks = malloc((size_t)layers * (layers + 1) / 2 * numbers * sizeof **blocks);
    if (*blocks == NULL) {
        return error_set(error, STATUS_NO_MEMORY, "out of memory partitioning");
    }
    for (uint32_t first = 0; first < layers; first++) {
        for (uint32_t end = first + 1; end <= layers; end++) {
            double compute = search->compute_s[end] - search->compute_s[first];
            for (uint32_t r = 1; r <= numbers; r++) {
                (*blocks)[filled++] = compute / (request->replicas > 0 ? request->replicas : r);
            }
        }
    }
    qsort(*blocks, filled, sizeof **blocks, rising);
    for (size_t i = 0; i < filled; i++) {
        if (kept == 0 || (*blocks)[i] > (*blocks)[kept - 1]) {
            (*blocks)[kept++] = (*blocks)[i];
        }
    }
    *count = kept;
    return STATUS_OK;
}

static enum status try_all(struct search *search, struct dapple_answer *answer, struct arena *arena,
                           struct error *error)
{
    double *blocks = NULL;
    size_t count = 0;
    struct pipeline_split split = { 0 };
    enum status status = list_blocks(search, &blocks, &count, error);
    search->best_s = INFINITY;
    for (size_t i = 0; i < count && status == STATUS_OK; i++) {
        search->block_s = blocks[i];
        if (least_s(search) >= search->best_s) {
            break;
        }
        status = try_block(search, error);
        if (status == STATUS_OK && search->best != NONE) {
            status = save_split(search, &split, arena, error);
        }
    }
    free(blocks);
    *answer = (struct dapple_answer){ .found = split.stage_count > 0 };
    if (status == STATUS_OK && answer->found) {
        *answer = dapple_length(search->request, &split);
    }
    return status;
}

static enum status check(const struct dapple_request *request, struct error *error)
{
    static const double BANDWIDTH_MAX = 1e15;
    if (request->workers < 1 || request->workers > PIPELINE_WORKERS_MAX) {
        return error_set(error, STATUS_BAD_INPUT, "%u workers; allowed are 1 to %d", request->workers,
                         PIPELINE_WORKERS_MAX);
    }
    if (request->micro_batches < 1) {
        return error_set(error, STATUS_BAD_INPUT, "0 micro-batches; allowed is 1 or more");
    }
    if (!(request->transfer_bytes_per_s > 0) || request->transfer_bytes_per_s > BANDWIDTH_MAX ||
        !(request->reduce_bytes_per_s > 0) || request->reduce_bytes_per_s > BANDWIDTH_MAX) {
        return error_set(error, STATUS_BAD_INPUT,
                         "bandwidths of %g (transfers) and %g (reductions) bytes/s; allowed is more than 0, at most "
                         "1e15 bytes/s",
                         request->transfer_bytes_per_s, request->reduce_bytes_per_s);
    }
    if (request->replicas > 0 && request->workers % request->replicas != 0) {
        return error_set(error, STATUS_BAD_INPUT,
                         "%u workers in stages of %u replicas: the number must divide the workers", request->workers,
                         request->replicas);
    }
    double layers = request->profile->count, workers = request->workers, free_stages = request->replicas == 0;
    double steps =
        layers * layers * (request->replicas > 0 ? workers / request->replicas : workers * workers * workers);
    if (steps > 2e9) {
        return error_set(error, STATUS_LIMIT,
                         "a search of %.3g steps a block over %u layers and %u workers; 2e9 are allowed: %s", steps,
                         request->profile->count, request->workers,
                         free_stages > 0 ? "give the replicas of a stage" : "merge layers");
    }
    return STATUS_OK;
}

enum status dapple_search(const struct dapple_request *request, struct dapple_answer *answer, struct arena *arena,
                          struct error *error)
{
    TRY(check(request, error));
    size_t count = request->profile->count;
    struct search search = { .request = request,
                             .compute_s = calloc(count + 1, sizeof(double)),
                             .parameter_bytes = calloc(count + 1, sizeof(double)),
                             .bucket = malloc((count + 1) * (request->workers + 1) * sizeof(uint32_t)) };
    enum status status = STATUS_OK;
    if (search.compute_s == NULL || search.parameter_bytes == NULL || search.bucket == NULL) {
        status = error_set(error, STATUS_NO_MEMORY, "out of memory partitioning");
    } else {
        for (uint32_t i = 0; i < count; i++) {
            struct profile_sum one = pipeline_profile_sum(request->profile, i, 1);
            search.compute_s[i + 1] = search.compute_s[i] + one.compute_s;
            search.parameter_bytes[i + 1] = search.parameter_bytes[i] + one.parameter_bytes;
        }
        status = try_all(&search, answer, arena, error);
    }
    free(search.compute_s);
    free(search.parameter_bytes);
    free(search.bucket);
    array_free(&search.labels);
    return status;
}
