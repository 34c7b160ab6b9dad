/* Lanes: classes of resources that fill up together. Two resources are of one class when the same records use them, each taking the same share of their
 * capacities, and they are of one kind. Found by hashing each resource's list of (record, share), then comparing lists.
 *
 * Roots. A lane of which every record that uses it takes no greater share than of another lane can never be full before that one (a GPU's own link behind the
 * uplink it shares): it need not be solved for, only accounted. That other lane, or what is full before it in turn, is its root. */
#include <string.h>

#include "sim/base/check.h"
#include "sim/engine/cost_internal.h"

struct share {
    uint32_t cost;
    uint64_t part_bits; /* of coefficient / capacity: compared as a whole, nothing is computed from it */
};

struct lane_finder {
    struct cost_table *table;
    const struct cluster *cluster;
    uint32_t *first; /* [resource_count + 1] into shares */
    struct share *shares;
    uint64_t *hashes;  /* [resource_count] */
    uint32_t *buckets; /* resource that made the lane, or SCHED_NONE */
    uint32_t bucket_mask;
    uint32_t *lane_makers; /* [lane_count]: resource */
};

static uint64_t mix(uint64_t hash, uint64_t word)
{
    hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
    return hash ^ hash >> 29;
}

static enum status prepare(struct lane_finder *f, struct arena *scratch, struct error *error)
{
    struct cost_table *table = f->table;
    uint32_t resources = table->resource_count, buckets = 16, used = 0;
    f->first = arena_array(scratch, uint32_t, (size_t)resources + 1);
    f->shares = arena_array(scratch, struct share, table->use_count);
    f->hashes = arena_array(scratch, uint64_t, resources);
    f->lane_makers = arena_array(scratch, uint32_t, resources);
    table->lanes = arena_array(&table->arena, uint32_t, resources);
    table->lane_scales = arena_array(&table->arena, double, resources);
    if (f->first == NULL || f->shares == NULL || f->hashes == NULL || f->lane_makers == NULL || table->lanes == NULL ||
        table->lane_scales == NULL) {
        return error_set(error, STATUS_NO_MEMORY, "no memory for the lanes of %u resources", resources);
    }
    for (uint32_t u = 0; u < table->use_count; u++) {
        used += f->first[table->uses[u].resource + 1]++ == 0;
    }
    for (uint32_t r = 0; r < resources; r++) {
        f->first[r + 1] += f->first[r];
    }
    while (buckets < 2 * used) {
        buckets *= 2;
    }
    f->bucket_mask = buckets - 1;
    f->buckets = arena_array(scratch, uint32_t, buckets);
    if (f->buckets == NULL) {
        return error_set(error, STATUS_NO_MEMORY, "no memory for the lanes of %u resources", resources);
    }
    memset(f->buckets, 0xff, buckets * sizeof *f->buckets);
    return STATUS_OK;
}

/* Turn records' uses into resources' shares. */
static enum status list_shares(struct lane_finder *f, struct arena *scratch, struct error *error)
{
    const struct cost_table *table = f->table;
    uint32_t *next = arena_array(scratch, uint32_t, table->resource_count);
    if (next == NULL) {
        return error_set(error, STATUS_NO_MEMORY, "no memory for the lanes of %u resources", table->resource_count);
    }
    for (uint32_t c = 0; c < table->cost_count; c++) {
        const struct op_cost *cost = &table->costs[c];
        for (uint32_t u = cost->first_use; u < cost->first_use + cost->use_count; u++) {
            uint32_t r = table->uses[u].resource;
            struct share *share = &f->shares[f->first[r] + next[r]++];
            double part = table->uses[u].coefficient / table->capacities[r];
            share->cost = c;
            memcpy(&share->part_bits, &part, sizeof part);
            f->hashes[r] = mix(mix(f->hashes[r], c), share->part_bits);
        }
    }
    return STATUS_OK;
}

/* Ports are not the cluster's. */
static enum resource_kind kind_of(const struct lane_finder *f, uint32_t resource)
{
    return resource < f->cluster->resource_count ? f->cluster->resources[resource].kind : RESOURCE_KIND_COUNT;
}

static bool fill_together(const struct lane_finder *f, uint32_t a, uint32_t b)
{
    uint32_t count = f->first[a + 1] - f->first[a];
    if (f->hashes[a] != f->hashes[b] || count != f->first[b + 1] - f->first[b] || kind_of(f, a) != kind_of(f, b)) {
        return false;
    }
    for (uint32_t i = 0; i < count; i++) {
        const struct share *x = &f->shares[f->first[a] + i], *y = &f->shares[f->first[b] + i];
        if (x->cost != y->cost || x->part_bits != y->part_bits) {
            return false;
        }
    }
    return true;
}

static void classify(struct lane_finder *f)
{
    struct cost_table *table = f->table;
    CHECK(f->buckets != NULL);
    for (uint32_t r = 0; r < table->resource_count; r++) {
        table->lanes[r] = SCHED_NONE;
        if (f->first[r + 1] == f->first[r]) {
            continue;
        }
        uint32_t at = (uint32_t)f->hashes[r] & f->bucket_mask;
        while (f->buckets[at] != SCHED_NONE && !fill_together(f, f->buckets[at], r)) {
            at = (at + 1) & f->bucket_mask;
        }
        if (f->buckets[at] == SCHED_NONE) {
            f->buckets[at] = r;
            f->lane_makers[table->lane_count] = r;
            table->lanes[r] = table->lane_count++;
        }
        uint32_t maker = f->buckets[at];
        table->lanes[r] = table->lanes[maker];
        table->lane_scales[r] = table->capacities[r] / table->capacities[maker];
    }
}

/* Records in lanes: only the uses of lane makers are left. */
static enum status list_lane_uses(struct lane_finder *f, struct error *error)
{
    struct cost_table *table = f->table;
    table->lane_uses = arena_array(&table->arena, struct maxmin_use, table->use_count);
    table->lane_capacities = arena_array(&table->arena, double, table->lane_count);
    if (table->lane_uses == NULL || table->lane_capacities == NULL) {
        return error_set(error, STATUS_NO_MEMORY, "no memory for %u lanes", table->lane_count);
    }
    for (uint32_t l = 0; l < table->lane_count; l++) {
        table->lane_capacities[l] = table->capacities[f->lane_makers[l]];
    }
    for (uint32_t c = 0; c < table->cost_count; c++) {
        struct op_cost *cost = &table->costs[c];
        cost->first_lane_use = table->lane_use_count;
        for (uint32_t u = 0; u < cost->use_count; u++) {
            struct maxmin_use use = table->uses[cost->first_use + u];
            if (f->lane_makers[table->lanes[use.resource]] == use.resource) {
                use.resource = table->lanes[use.resource];
                table->lane_uses[table->lane_use_count++] = use;
                cost->lane_use_count++;
                cost->lane_resident_count += u < cost->resident_count;
            }
        }
    }
    return STATUS_OK;
}

/* Records' first uses, which are the ones looked at: a bound on the work, not on what is right. */
enum { ROOT_USES_MAX = 64 };

struct root_finder {
    const struct cost_table *table;
    double *parts;    /* [lane_count]: of the record looked at last */
    uint32_t *stamps; /* [lane_count]: that record + 1 */
    uint32_t candidates[ROOT_USES_MAX], count;
    bool equal[ROOT_USES_MAX]; /* the candidate's shares are the lane's own so far */
};

static void look_at(struct root_finder *r, uint32_t cost)
{
    const struct op_cost *at = &r->table->costs[cost];
    uint32_t count = at->lane_use_count < ROOT_USES_MAX ? at->lane_use_count : ROOT_USES_MAX;
    for (uint32_t u = 0; u < count; u++) {
        const struct maxmin_use *use = &r->table->lane_uses[at->first_lane_use + u];
        r->parts[use->resource] = use->coefficient / r->table->lane_capacities[use->resource];
        r->stamps[use->resource] = cost + 1;
    }
}

/* Keep the candidates that this record takes as great a share of as of the lane. */
static void filter(struct root_finder *r, uint32_t cost, double part)
{
    uint32_t kept = 0;
    look_at(r, cost);
    for (uint32_t i = 0; i < r->count; i++) {
        uint32_t lane = r->candidates[i];
        if (r->stamps[lane] == cost + 1 && r->parts[lane] >= part) {
            r->equal[kept] = r->equal[i] && r->parts[lane] <= part;
            r->candidates[kept++] = lane;
        }
    }
    r->count = kept;
}

static uint32_t share_count(const struct lane_finder *f, uint32_t lane)
{
    return f->first[f->lane_makers[lane] + 1] - f->first[f->lane_makers[lane]];
}

/* A lane that is full whenever `lane` is, or `lane` itself. Of two that are full together the first stands. */
static uint32_t find_root(const struct lane_finder *f, struct root_finder *r, uint32_t lane)
{
    const struct share *shares = f->shares + f->first[f->lane_makers[lane]];
    const struct op_cost *first = &r->table->costs[shares[0].cost];
    r->count = 0;
    for (uint32_t u = 0; u < first->lane_use_count && u < ROOT_USES_MAX; u++) {
        uint32_t other = r->table->lane_uses[first->first_lane_use + u].resource;
        if (other != lane) {
            r->equal[r->count] = true;
            r->candidates[r->count++] = other;
        }
    }
    for (uint32_t i = 0; i < share_count(f, lane) && r->count != 0; i++) {
        double part;
        memcpy(&part, &shares[i].part_bits, sizeof part);
        filter(r, shares[i].cost, part);
    }
    for (uint32_t i = 0; i < r->count; i++) {
        bool together = r->equal[i] && share_count(f, r->candidates[i]) == share_count(f, lane);
        if (!together || r->candidates[i] < lane) {
            return r->candidates[i];
        }
    }
    return lane;
}

/* SMs are always solved for: who is resident on them matters beyond their capacity. */
static enum status find_roots(struct lane_finder *f, struct arena *scratch, struct error *error)
{
    struct cost_table *table = f->table;
    struct root_finder finder = { .table = table,
                                  .parts = arena_array(scratch, double, table->lane_count),
                                  .stamps = arena_array(scratch, uint32_t, table->lane_count) };
    table->lane_roots = arena_array(&table->arena, uint32_t, table->lane_count);
    if (finder.parts == NULL || finder.stamps == NULL || table->lane_roots == NULL) {
        return error_set(error, STATUS_NO_MEMORY, "no memory for %u lanes", table->lane_count);
    }
    for (uint32_t l = 0; l < table->lane_count; l++) {
        bool solved = kind_of(f, f->lane_makers[l]) == RESOURCE_SM;
        table->lane_roots[l] = solved ? l : find_root(f, &finder, l);
    }
    for (uint32_t l = 0; l < table->lane_count;
         l++) { /* no circles: shares only grow, and of equals the first stands */
        while (table->lane_roots[table->lane_roots[l]] != table->lane_roots[l]) {
            table->lane_roots[l] = table->lane_roots[table->lane_roots[l]];
        }
    }
    return STATUS_OK;
}

/* Uses to be solved for go first, in their order; `rest` has room for the others of one record. */
static void solved_first(struct cost_table *table, struct maxmin_use *rest)
{
    for (uint32_t c = 0; c < table->cost_count; c++) {
        struct op_cost *cost = &table->costs[c];
        struct maxmin_use *uses = table->lane_uses + cost->first_lane_use;
        uint32_t others = 0;
        for (uint32_t u = 0; u < cost->lane_use_count; u++) {
            if (table->lane_roots[uses[u].resource] == uses[u].resource) {
                uses[cost->lane_solved_count++] = uses[u];
            } else {
                rest[others++] = uses[u];
            }
        }
        if (others != 0) {
            memcpy(uses + cost->lane_solved_count, rest, others * sizeof *rest);
        }
    }
}

enum status cost_make_lanes(struct cost_table *table, const struct cluster *cluster, struct arena *scratch,
                            struct error *error)
{
    struct lane_finder finder = { .table = table, .cluster = cluster };
    TRY(prepare(&finder, scratch, error));
    TRY(list_shares(&finder, scratch, error));
    classify(&finder);
    TRY(list_lane_uses(&finder, error));
    struct maxmin_use *rest = arena_array(scratch, struct maxmin_use, table->lane_count);
    if (rest == NULL) {
        return error_set(error, STATUS_NO_MEMORY, "no memory for %u lanes", table->lane_count);
    }
    TRY(find_roots(&finder, scratch, error));
    solved_first(table, rest);
    return STATUS_OK;
}
