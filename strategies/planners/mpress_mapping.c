#include "strategies/planners/mpress_mapping.h"

#include <math.h>

#include "sim/base/check.h"

/* Stages that have something over, most first. */
struct borrowers {
    uint32_t stage[MPRESS_DEVICES_MAX];
    uint32_t count;
};

static struct borrowers find_borrowers(const struct mpress_mapping_case *input)
{
    struct borrowers borrowers = { 0 };
    for (uint32_t s = 0; s < input->devices; s++) {
        if (input->over_bytes[s] <= 0) {
            continue;
        }
        uint32_t place = borrowers.count++;
        for (; place > 0 && input->over_bytes[borrowers.stage[place - 1]] < input->over_bytes[s]; place--) {
            borrowers.stage[place] = borrowers.stage[place - 1];
        }
        borrowers.stage[place] = s;
    }
    return borrowers;
}

static uint64_t consecutive_links(const struct mpress_mapping_case *input, const uint32_t *device_of_stage)
{
    uint64_t links = 0;
    for (uint32_t s = 0; s + 1 < input->devices; s++) {
        links += input->links[device_of_stage[s] * input->devices + device_of_stage[s + 1]];
    }
    return links;
}

static struct mpress_mapping_key rate(const struct mpress_mapping_case *input, const struct borrowers *borrowers,
                                      const uint32_t *device_of_stage)
{
    const uint32_t n = input->devices;
    double spare[MPRESS_DEVICES_MAX], shares[MPRESS_DEVICES_MAX];
    double unserved = 0, worst = 0, sum = 0;
    for (uint32_t s = 0; s < n; s++) {
        spare[device_of_stage[s]] = input->spare_bytes[s];
    }
    for (uint32_t i = 0; i < borrowers->count; i++) {
        const uint32_t stage = borrowers->stage[i], from = device_of_stage[stage];
        struct mpress_peer peers[MPRESS_DEVICES_MAX];
        for (uint32_t g = 0; g < n; g++) {
            const uint32_t links = g == from ? 0 : input->links[from * n + g];
            peers[g] = (struct mpress_peer){ .links = spare[g] > 0 ? links : 0, .spare_bytes = spare[g] };
        }
        const struct mpress_stripes stripes = mpress_stripe(input->over_bytes[stage], peers, n, shares);
        for (uint32_t g = 0; g < n; g++) {
            spare[g] = fmax(0, spare[g] - shares[g]);
        }
        unserved += input->over_bytes[stage] - stripes.placed_bytes;
        worst = fmax(worst, stripes.bytes_per_link);
        sum += stripes.bytes_per_link;
    }
    return (struct mpress_mapping_key){ .unserved_bytes = (uint64_t)llround(unserved),
                                        .worst_bytes_per_link = (uint64_t)llround(worst),
                                        .sum_bytes_per_link = (uint64_t)llround(sum),
                                        .consecutive_links = consecutive_links(input, device_of_stage) };
}

/* < 0: a is better. Of the first three figures. */
static int compare_moves(const struct mpress_mapping_key *a, const struct mpress_mapping_key *b)
{
    if (a->unserved_bytes != b->unserved_bytes) {
        return a->unserved_bytes < b->unserved_bytes ? -1 : 1;
    }
    if (a->worst_bytes_per_link != b->worst_bytes_per_link) {
        return a->worst_bytes_per_link < b->worst_bytes_per_link ? -1 : 1;
    }
    if (a->sum_bytes_per_link != b->sum_bytes_per_link) {
        return a->sum_bytes_per_link < b->sum_bytes_per_link ? -1 : 1;
    }
    return 0;
}

/* The next permutation in dictionary order; false after the last. */
static bool next_mapping(uint32_t *mapping, uint32_t count)
{
    uint32_t i = count - 1;
    while (i > 0 && mapping[i - 1] > mapping[i]) {
        i--;
    }
    if (i == 0) {
        return false;
    }
    uint32_t j = count - 1;
    while (mapping[j] < mapping[i - 1]) {
        j--;
    }
    const uint32_t swap = mapping[i - 1];
    mapping[i - 1] = mapping[j];
    mapping[j] = swap;
    for (uint32_t low = i, high = count - 1; low < high; low++, high--) {
        const uint32_t other = mapping[low];
        mapping[low] = mapping[high];
        mapping[high] = other;
    }
    return true;
}

/* Counts the mapping, and takes it as the best when it is. True when it was taken. */
static bool consider(struct mpress_mapping *best, const struct mpress_mapping_case *input,
                     const struct mpress_mapping_key *key, const uint32_t *mapping)
{
    const int order = best->examined++ == 0 ? -1 : compare_moves(key, &best->key);
    if (order > 0) {
        return false;
    }
    best->equals = order < 0 ? 1 : best->equals + 1;
    if (order == 0 && key->consecutive_links <= best->key.consecutive_links) {
        return false;
    }
    best->key = *key;
    for (uint32_t s = 0; s < input->devices; s++) {
        best->device_of_stage[s] = mapping[s];
    }
    return true;
}

static bool is_uniform(const struct mpress_mapping_case *input)
{
    const uint32_t n = input->devices, links = n > 1 ? input->links[1] : 0;
    for (uint32_t i = 0; i < n * n; i++) {
        if (i / n != i % n && input->links[i] != links) {
            return false;
        }
    }
    return true;
}

static void climb(struct mpress_mapping *best, const struct mpress_mapping_case *input,
                  const struct borrowers *borrowers)
{
    for (bool helped = true; helped;) {
        helped = false;
        for (uint32_t a = 0; a < input->devices; a++) {
            for (uint32_t b = a + 1; b < input->devices; b++) {
                uint32_t mapping[MPRESS_DEVICES_MAX];
                for (uint32_t s = 0; s < input->devices; s++) {
                    mapping[s] = best->device_of_stage[s == a ? b : s == b ? a : s];
                }
                const struct mpress_mapping_key key = rate(input, borrowers, mapping);
                helped |= consider(best, input, &key, mapping);
            }
        }
    }
}

struct mpress_mapping_key mpress_mapping_rate(const struct mpress_mapping_case *input, const uint32_t *device_of_stage)
{
    const struct borrowers borrowers = find_borrowers(input);
    return rate(input, &borrowers, device_of_stage);
}

struct mpress_mapping mpress_mapping_search(const struct mpress_mapping_case *input)
{
    CHECK(input->devices >= 1 && input->devices <= MPRESS_DEVICES_MAX);
    const struct borrowers borrowers = find_borrowers(input);
    struct mpress_mapping best = { 0 };
    uint32_t mapping[MPRESS_DEVICES_MAX];
    for (uint32_t s = 0; s < input->devices; s++) {
        mapping[s] = s;
    }
    struct mpress_mapping_key key = rate(input, &borrowers, mapping);
    (void)consider(&best, input, &key, mapping);
    if (is_uniform(input)) {
        best.is_best = true;
        return best;
    }
    if (input->devices > MPRESS_EXHAUSTIVE_MAX) {
        climb(&best, input, &borrowers);
        return best;
    }
    while (next_mapping(mapping, input->devices)) {
        key = rate(input, &borrowers, mapping);
        (void)consider(&best, input, &key, mapping);
    }
    best.is_best = true;
    return best;
}
