/* The max-min solver, fed with changes, against textbook progressive filling over everything, in long double.
 *
 * Tolerance: both sides add some thousand terms of like size; double rounding gives 1e3 * 2^-53 = 1e-13 of a
 * capacity. A level is a remainder of a capacity over a remainder of weights; with weights and coefficients in [0.1,
 * 10] and at most 60 variables a remainder is at least 1e-4 / 60 of its whole, so rates agree to 1e-13 * 6e5 = 6e-8
 * in the very worst case and to 1e-9 in what random systems reach. Levels merged as equal add 1e-12 each. The wild
 * rounds, with twelve decades of weights, check feasibility and the max-min property itself instead. */
#include "sim/core/maxmin.h"
#include "tests/fuzz/fuzz.h"

enum { RESOURCES_MAX = 30, VARIABLES_MAX = 60, USES_MAX = 5 };

struct twin_variable {
    bool is_live;
    double weight, cap, reported;
    uint32_t use_count;
    struct maxmin_use uses[USES_MAX];
    long double rate;
};

static struct twin_variable twin[VARIABLES_MAX];
static double capacities[RESOURCES_MAX];

/* All levels rise together until a resource is full or a cap is met. */
static void twin_solve(uint32_t resources)
{
    long double left[RESOURCES_MAX], weights[RESOURCES_MAX], level = 0;
    bool active[VARIABLES_MAX];
    unsigned active_count = 0;
    for (uint32_t v = 0; v < VARIABLES_MAX; v++) {
        active[v] = twin[v].is_live;
        active_count += active[v];
        twin[v].rate = 0;
    }
    while (active_count > 0) {
        long double step = INFINITY;
        uint32_t full = UINT32_MAX, capped = UINT32_MAX;
        for (uint32_t r = 0; r < resources; r++) {
            left[r] = capacities[r];
            weights[r] = 0;
        }
        for (uint32_t v = 0; v < VARIABLES_MAX; v++) {
            for (uint32_t u = 0; twin[v].is_live && u < twin[v].use_count; u++) {
                const struct maxmin_use *use = &twin[v].uses[u];
                left[use->resource] -= use->coefficient * twin[v].rate;
                weights[use->resource] += active[v] ? (long double)use->coefficient * twin[v].weight : 0;
            }
        }
        for (uint32_t r = 0; r < resources; r++) {
            if (weights[r] > 0 && fmaxl(left[r], 0) / weights[r] < step) {
                step = fmaxl(left[r], 0) / weights[r];
                full = r;
            }
        }
        for (uint32_t v = 0; v < VARIABLES_MAX; v++) {
            if (active[v] && (long double)twin[v].cap / twin[v].weight - level < step) {
                step = (long double)twin[v].cap / twin[v].weight - level;
                capped = v;
            }
        }
        level += step;
        for (uint32_t v = 0; v < VARIABLES_MAX; v++) {
            if (!active[v]) {
                continue;
            }
            bool stops = v == capped;
            for (uint32_t u = 0; u < twin[v].use_count; u++) {
                stops = stops || (capped == UINT32_MAX && twin[v].uses[u].resource == full);
            }
            twin[v].rate = v == capped ? (long double)twin[v].cap : level * twin[v].weight;
            if (stops) {
                active[v] = false;
                active_count--;
            }
        }
    }
}

/* Feasible, and everybody is at the cap or on a full resource on which nobody has a higher level. */
static void check_property(const struct maxmin *solver, uint32_t resources)
{
    double used[RESOURCES_MAX] = { 0 }, level_max[RESOURCES_MAX] = { 0 };
    for (uint32_t v = 0; v < VARIABLES_MAX; v++) {
        for (uint32_t u = 0; twin[v].is_live && u < twin[v].use_count; u++) {
            double rate = maxmin_rate(solver, v);
            uint32_t r = twin[v].uses[u].resource;
            used[r] += twin[v].uses[u].coefficient * rate;
            level_max[r] = fmax(level_max[r], rate / twin[v].weight);
        }
    }
    for (uint32_t r = 0; r < resources; r++) {
        EXPECT(used[r] <= capacities[r] * (1 + 1e-9));
        EXPECT(fabs(used[r] - maxmin_used(solver, r)) <= 1e-9 * capacities[r]);
    }
    for (uint32_t v = 0; v < VARIABLES_MAX; v++) {
        if (!twin[v].is_live) {
            continue;
        }
        double rate = maxmin_rate(solver, v);
        uint32_t bottleneck = maxmin_bottleneck(solver, v);
        EXPECT(rate <= twin[v].cap);
        if (bottleneck == MAXMIN_NONE) {
            EXPECT_REAL(rate, twin[v].cap, 1e-11);
        } else {
            EXPECT(used[bottleneck] >= capacities[bottleneck] * (1 - 1e-9));
            EXPECT(rate / twin[v].weight >= level_max[bottleneck] * (1 - 1e-9));
        }
    }
}

static void check_changes(const struct maxmin *solver, uint32_t changed_count)
{
    bool changed[VARIABLES_MAX] = { false };
    for (uint32_t i = 0; i < changed_count; i++) {
        uint32_t v = solver->changed[i];
        EXPECT(v < VARIABLES_MAX && twin[v].is_live && !changed[v]);
        changed[v] = true;
    }
    for (uint32_t v = 0; v < VARIABLES_MAX; v++) {
        if (twin[v].is_live) {
            double rate = maxmin_rate(solver, v);
            EXPECT(changed[v] || !(twin[v].reported < rate || twin[v].reported > rate));
            twin[v].reported = rate;
        }
    }
}

static double random_size(uint64_t *random, double decades)
{
    return pow(10, (test_unit(random) - 0.5) * decades);
}

static uint32_t add_random(struct maxmin *solver, uint32_t resources, double decades, uint64_t *random)
{
    struct twin_variable made = { .is_live = true, .reported = NAN };
    bool few_sizes = test_below(random, 2) == 0; /* equal numbers make ties */
    made.use_count = (uint32_t)test_below(random, USES_MAX + 1);
    made.weight = few_sizes ? 1 : random_size(random, decades);
    made.cap = test_below(random, 3) == 0 || made.use_count == 0 ? random_size(random, decades + 1) : INFINITY;
    if (few_sizes && isfinite(made.cap)) {
        made.cap = (double)test_below(random, 4) / 4;
    }
    for (uint32_t u = 0; u < made.use_count; u++) {
        made.uses[u].resource = (uint32_t)test_below(random, resources);
        made.uses[u].coefficient = few_sizes ? 1 : random_size(random, decades);
    }
    uint32_t id = maxmin_add(solver, made.weight, made.cap, made.uses, made.use_count);
    EXPECT(id < VARIABLES_MAX && !twin[id].is_live);
    twin[id] = made;
    return id;
}

static void change(struct maxmin *solver, uint32_t resources, double decades, uint64_t *random)
{
    uint32_t v = (uint32_t)test_below(random, VARIABLES_MAX), r = (uint32_t)test_below(random, resources);
    switch (test_below(random, 8)) {
    case 0:
    case 1:
    case 2:
        if (maxmin_has_room(solver, USES_MAX)) {
            (void)add_random(solver, resources, decades, random);
        }
        break;
    case 3:
    case 4:
    case 5:
        if (twin[v].is_live) {
            maxmin_remove(solver, v);
            twin[v].is_live = false;
        }
        break;
    case 6:
        capacities[r] = test_below(random, 10) == 0 ? 0 : test_below(random, 2) == 0 ? 1 : random_size(random, decades);
        maxmin_set_capacity(solver, r, capacities[r]);
        break;
    default:
        if (twin[v].is_live) {
            twin[v].cap =
                twin[v].use_count > 0 && test_below(random, 3) == 0 ? INFINITY : random_size(random, decades + 1);
            maxmin_set_cap(solver, v, twin[v].cap);
        }
        break;
    }
}

static void round_of(uint64_t seed)
{
    struct arena arena = { 0 };
    struct maxmin solver;
    uint64_t random = seed;
    uint32_t resources = 1 + (uint32_t)test_below(&random, RESOURCES_MAX);
    struct maxmin_limits limits = { resources, VARIABLES_MAX,
                                    VARIABLES_MAX * USES_MAX / (1 + (uint32_t)test_below(&random, 3)) };
    bool wild = test_below(&random, 4) == 0;
    double decades = wild ? 12 : 2;
    memset(twin, 0, sizeof twin);
    EXPECT_INT(maxmin_init(&solver, &arena, &limits, NULL), STATUS_OK);
    if (test_below(&random, 8) == 0) {
        solver.epoch = UINT32_MAX - 3;
    }
    for (uint32_t r = 0; r < resources; r++) {
        capacities[r] = random_size(&random, decades);
        EXPECT_INT(maxmin_add_resource(&solver, capacities[r]), r);
    }
    for (unsigned step = 0; step < 150 && test_failures == 0; step++) {
        for (uint64_t changes = 1 + test_below(&random, 1 + test_below(&random, 8)); changes > 0; changes--) {
            change(&solver, resources, decades, &random);
        }
        check_changes(&solver, maxmin_solve(&solver));
        check_property(&solver, resources);
        if (!wild) {
            twin_solve(resources);
            for (uint32_t v = 0; v < VARIABLES_MAX; v++) {
                if (twin[v].is_live) {
                    EXPECT_REAL(maxmin_rate(&solver, v), (double)twin[v].rate, 1e-9);
                }
            }
        }
    }
    arena_free(&arena);
}

int main(int argc, char **argv)
{
    return fuzz_run(round_of, argc, argv);
}
