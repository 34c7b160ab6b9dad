#include "strategies/policies/chunk_search.h"

#include <math.h>

#include "sim/base/check.h"
#include "strategies/policies/chunk_budget.h"

/* PatrickStar's candidates, in Mi elements. */
enum { SEARCH_FROM_MI = 312, SEARCH_TO_MI = 64, SEARCH_STEP_MI = 32, ROUNDED_FROM_MI = 1024 };

bool chunk_size_feasible(const struct chunk_layout *layout, const struct chunk_machine *machine)
{
    double gpu = machine->gpu_bytes * machine->gpu_ratio * machine->warmup_ratio;
    double chunks =
        2.0 * (double)layout->capacity * layout->padded_count + 4.0 * (double)layout->capacity * layout->chunk_count;
    int each = machine->gradient_chunks ? CHUNK_BYTES_ZERO : CHUNK_BYTES_PATRICKSTAR;
    return gpu >= 2.0 * (double)layout->capacity &&
           chunks / 6 * each <=
               machine->gpu_count * gpu + machine->server_count * machine->cpu_bytes * machine->cpu_ratio;
}

struct search {
    const struct chunk_units *units;
    const struct chunk_machine *machine;
    struct arena *arena;
    struct chunk_choice *choice;
    uint32_t ranks;
    bool embedding_outside;
    bool rounded; /* footprint in blocks of a power of two */
};

static double block_bytes(double bytes)
{
    return exp2(ceil(log2(bytes)));
}

/* All lists, as payloads or as page-locked blocks. */
static double footprint(const struct search *s, const struct chunk_layout *layout)
{
    double capacity = (double)layout->capacity;
    bool gradients = s->machine->gradient_chunks;
    if (!s->rounded || s->machine->exact_blocks) {
        return chunk_layout_bytes(layout) + (gradients ? chunk_layout_gradient_bytes(layout) : 0);
    }
    uint32_t fp16 = layout->padded_count + (gradients ? layout->chunk_count : 0);
    return block_bytes(2 * capacity) * fp16 + 3 * block_bytes(4 * capacity) * layout->chunk_count;
}

/* Weighs one candidate, which holds the largest unit. */
static enum status try_size(const struct search *s, uint64_t capacity, struct error *error)
{
    struct chunk_layout layout;
    struct chunk_choice *best = s->choice;
    TRY(chunk_layout_build(&layout, s->units, capacity, s->ranks, s->embedding_outside, s->arena, error));
    double share = s->machine->gpu_bytes * s->machine->gpu_ratio * s->machine->warmup_ratio;
    bool holds_two = !s->rounded || share >= 4.0 * (double)capacity;
    bool feasible = holds_two && chunk_size_feasible(&layout, s->machine);
    double bytes = footprint(s, &layout);
    /* feasible before merely holding two chunks before neither; then the fewest bytes, of equal ones the first */
    int grade = feasible + holds_two, best_grade = best->feasible + best->holds_two;
    if (best->tried == 0 || grade > best_grade || (grade == best_grade && bytes < best->bytes)) {
        best->capacity = capacity;
        best->bytes = bytes;
        best->utilisation = chunk_layout_utilisation(&layout);
        best->feasible = feasible;
        best->holds_two = holds_two;
    }
    best->tried++;
    return STATUS_OK;
}

/* From above in steps, as far as the largest unit allows. */
static enum status try_sizes(const struct search *s, uint64_t from, uint64_t to, struct error *error)
{
    const struct chunk_unit *largest = chunk_units_largest(s->units, s->embedding_outside);
    uint64_t least = largest == NULL ? 1 : chunk_unit_elements(largest), step = SEARCH_STEP_MI * CHUNK_MEBI;
    *s->choice = (struct chunk_choice){ 0 };
    if (least > from) {
        uint64_t first = (least + step - 1) / step * step;
        from = first + (from - to) / step * step;
        to = first;
    }
    for (uint64_t capacity = from; capacity >= to; capacity -= step) {
        if (capacity >= least) {
            TRY(try_size(s, capacity, error));
        }
    }
    return STATUS_OK;
}

enum status chunk_search_patrickstar(const struct chunk_units *units, uint32_t ranks, bool embedding_outside,
                                     const struct chunk_machine *machine, struct arena *arena,
                                     struct chunk_choice *choice, struct error *error)
{
    const struct search search = { units, machine, arena, choice, ranks, embedding_outside, false };
    return try_sizes(&search, SEARCH_FROM_MI * CHUNK_MEBI, SEARCH_TO_MI * CHUNK_MEBI, error);
}

enum status chunk_search_rounded(const struct chunk_units *units, uint32_t ranks, bool embedding_outside,
                                 const struct chunk_machine *machine, struct arena *arena, struct chunk_choice *choice,
                                 struct error *error)
{
    const struct search search = { units, machine, arena, choice, ranks, embedding_outside, true };
    return try_sizes(&search, ROUNDED_FROM_MI * CHUNK_MEBI, SEARCH_TO_MI * CHUNK_MEBI, error);
}

/* ---- Gemini ---- */

/* Calls `visit` for every tensor that the search looks at. */
struct tensor_walk {
    const struct chunk_units *units;
    bool embedding_outside;
    uint64_t limit; /* larger tensors are left out */
};

static uint64_t wasted(const struct tensor_walk *walk, uint64_t capacity)
{
    uint64_t waste = 0, left = 0;
    for (uint32_t u = 0; u < walk->units->count; u++) {
        const struct chunk_unit *unit = &walk->units->items[u];
        for (uint32_t t = 0; t < unit->tensor_count && !(unit->embedding && walk->embedding_outside); t++) {
            uint64_t elements = unit->elements[t];
            if (elements > walk->limit) {
                continue;
            }
            if (elements > left) {
                waste += left;
                left = capacity;
            }
            left -= elements;
        }
    }
    return waste + left;
}

static void tensor_sizes(const struct tensor_walk *walk, double *mean, double *deviation, uint64_t *largest)
{
    double sum = 0, squares = 0, count = 0;
    *largest = 0;
    for (uint32_t u = 0; u < walk->units->count; u++) {
        const struct chunk_unit *unit = &walk->units->items[u];
        for (uint32_t t = 0; t < unit->tensor_count && !(unit->embedding && walk->embedding_outside); t++) {
            double elements = (double)unit->elements[t];
            sum += elements;
            squares += elements * elements;
            count++;
            *largest = unit->elements[t] > *largest ? unit->elements[t] : *largest;
        }
    }
    *mean = count > 0 ? sum / count : 0;
    *deviation = count > 0 ? sqrt(fmax(0, squares / count - *mean * *mean)) : 0;
}

enum status chunk_search_gemini(const struct chunk_units *units, bool embedding_outside, uint64_t minimum,
                                uint64_t range, uint64_t interval, struct chunk_choice *choice, struct error *error)
{
    *choice = (struct chunk_choice){ .feasible = true };
    if (interval == 0) {
        return error_set(error, STATUS_BAD_INPUT, "the interval between chunk sizes is 0: allowed is 1 or more");
    }
    struct tensor_walk walk = { .units = units, .embedding_outside = embedding_outside };
    double mean, deviation;
    uint64_t largest;
    tensor_sizes(&walk, &mean, &deviation, &largest);
    walk.limit = (uint64_t)(mean + 3 * deviation);
    uint64_t start = minimum > largest ? minimum : largest;
    start = (start + interval - 1) / interval * interval;
    for (uint64_t capacity = start; capacity <= start + range; capacity += interval) {
        double waste = (double)wasted(&walk, capacity);
        if (choice->tried == 0 || waste < choice->bytes) {
            choice->capacity = capacity;
            choice->bytes = waste;
        }
        choice->tried++;
    }
    return STATUS_OK;
}
