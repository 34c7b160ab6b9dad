/* Fluid activities against progressive filling done anew at every event: crowds on one resource that open and close stations, with caps that bind now and then and
 * activities that also use something else. */
#include "sim/base/units.h"
#include "sim/engine/fluid.h"
#include "tests/test.h"

enum { SLOTS = 48, RUNS = 12, RESOURCES = 4, USES = 3, ACTIVITIES = SLOTS * RUNS };

struct plan_item {
    struct fluid_activity activity;
    struct maxmin_use uses[USES];
    int64_t gap_ps; /* after the end of the one before in its slot */
};

/* 0: the link; 1: a side of it that cannot be full before it; 2: what some use besides; 3: of its own. */
static const double CAPACITIES[RESOURCES] = { 20e9, 50e9, 30e9, 1e9 };
static const uint32_t ROOTS[RESOURCES] = { 0, 0, 2, 3 };

struct simulation {
    struct plan_item items[ACTIVITIES];
    uint32_t next[SLOTS];     /* runs begun */
    int64_t start_ps[SLOTS];  /* of the one to come, or TIME_NEVER_PS */
    int64_t end_ps[SLOTS];    /* of the one that runs, or TIME_NEVER_PS */
    int64_t ends[ACTIVITIES]; /* the outcome */
    bool runs[SLOTS];
    uint32_t station_events;
};

static void make_item(struct plan_item *item, uint64_t *random, uint32_t rare)
{
    double rate = 1e9 * (double)(1 + test_below(random, 5)), bytes = 1e6 * (1 + test_unit(random));
    int64_t work_ps = ps_from_s(bytes / rate);
    *item = (struct plan_item){ .uses = { { 0, rate }, { 1, 0.4 * rate }, { 3, 1e6 } },
                                .gap_ps = (int64_t)test_below(random, 3) * 50000000 };
    item->activity = (struct fluid_activity){ .uses = item->uses,
                                              .use_count = 2,
                                              .solved_count = 1,
                                              .weight = 2e12 / rate,
                                              .beside_rate = 1,
                                              .work_ps = work_ps,
                                              .work_s = s_from_ps(work_ps),
                                              .span_ps = work_ps };
    if (test_below(random, 100) == 0) { /* held back by its host: a cap of its own */
        item->activity.span_ps += (int64_t)test_below(random, 8) * work_ps;
    }
    if (rare != 0 && test_below(random, rare) == 0) { /* uses something else as well */
        item->uses[1] = (struct maxmin_use){ 2, rate };
        item->uses[2] = (struct maxmin_use){ 1, 0.4 * rate };
        item->activity.use_count = 3;
        item->activity.solved_count = 2;
    }
}

static struct plan_item *begin_item(struct simulation *s, uint32_t slot)
{
    s->runs[slot] = true;
    s->start_ps[slot] = TIME_NEVER_PS;
    return &s->items[slot * RUNS + s->next[slot]++];
}

static void end_item(struct simulation *s, uint32_t slot, int64_t now_ps)
{
    s->runs[slot] = false;
    s->end_ps[slot] = TIME_NEVER_PS;
    s->ends[slot * RUNS + s->next[slot] - 1] = now_ps;
    s->start_ps[slot] = s->next[slot] == RUNS ? TIME_NEVER_PS : now_ps + s->items[slot * RUNS + s->next[slot]].gap_ps;
}

static void begin_all(struct simulation *s)
{
    for (uint32_t i = 0; i < SLOTS; i++) {
        s->next[i] = 0;
        s->start_ps[i] = s->items[i * RUNS].gap_ps;
        s->end_ps[i] = TIME_NEVER_PS;
    }
}

static int64_t next_of(const struct simulation *s)
{
    int64_t next = TIME_NEVER_PS;
    for (uint32_t i = 0; i < SLOTS; i++) {
        next = s->start_ps[i] < next ? s->start_ps[i] : next;
        next = s->end_ps[i] < next ? s->end_ps[i] : next;
    }
    return next;
}

static void with_fluid(struct simulation *s, double *peaks, double *amounts)
{
    struct arena arena = { 0 };
    struct error error = { 0 };
    struct fluid fluid;
    uint32_t uses[SLOTS], slot;
    int64_t stations_ps[FLUID_STATIONS_MAX], now_ps = 0;
    for (uint32_t i = 0; i < SLOTS; i++) {
        uses[i] = 2;
    }
    const struct fluid_sizes sizes = { CAPACITIES, ROOTS, uses, RESOURCES, SLOTS };
    EXPECT_INT(fluid_init(&fluid, &arena, &sizes, &error), STATUS_OK);
    for (uint32_t i = 0; i < fluid.station_count; i++) {
        stations_ps[i] = TIME_NEVER_PS;
    }
    begin_all(s);
    for (;;) {
        int64_t next_ps = next_of(s);
        for (uint32_t i = 0; i < fluid.station_count; i++) {
            next_ps = stations_ps[i] < next_ps ? stations_ps[i] : next_ps;
        }
        if (next_ps == TIME_NEVER_PS) {
            break;
        }
        now_ps = next_ps;
        for (uint32_t i = 0; i < fluid.station_count; i++) {
            while (stations_ps[i] == now_ps && fluid_take(&fluid, i, now_ps, &slot)) {
                end_item(s, slot, now_ps);
                s->station_events++;
            }
        }
        for (uint32_t i = 0; i < SLOTS; i++) {
            if (s->end_ps[i] == now_ps) {
                fluid_end(&fluid, i, now_ps);
                end_item(s, i, now_ps);
            }
        }
        for (uint32_t i = 0; i < SLOTS; i++) {
            if (s->start_ps[i] == now_ps) {
                fluid_start(&fluid, i, &begin_item(s, i)->activity, now_ps);
            }
        }
        uint32_t changes = fluid_settle(&fluid, now_ps);
        for (uint32_t i = 0; i < changes; i++) {
            const struct fluid_change *change = &fluid.changes[i];
            *(change->slot < SLOTS ? &s->end_ps[change->slot] : &stations_ps[change->slot - SLOTS]) = change->end_ps;
        }
    }
    for (uint32_t r = 0; r < RESOURCES; r++) {
        struct resource_traffic traffic = fluid_traffic(&fluid, r, now_ps);
        peaks[r] = traffic.peak_use;
        amounts[r] = traffic.amount;
    }
    arena_free(&arena);
}

/* Rates of all that run: raise all levels together until a cap or a resource stops somebody. */
static void fill(const struct simulation *s, double *rates)
{
    bool open[SLOTS];
    double used[RESOURCES] = { 0 };
    for (uint32_t i = 0; i < SLOTS; i++) {
        open[i] = s->runs[i];
        rates[i] = 0;
    }
    for (;;) {
        double level = INFINITY, wanted[RESOURCES] = { 0 };
        uint32_t full = RESOURCES, stops = SLOTS;
        for (uint32_t i = 0; i < SLOTS; i++) {
            const struct fluid_activity *a = &s->items[i * RUNS + s->next[i] - (s->next[i] > 0)].activity;
            double ratio = (double)a->work_ps / (double)a->span_ps / a->weight;
            if (open[i] && ratio < level) {
                level = ratio;
                stops = i;
            }
            for (uint32_t u = 0; open[i] && u < a->use_count; u++) {
                wanted[a->uses[u].resource] += a->uses[u].coefficient * a->weight;
            }
        }
        if (stops == SLOTS) {
            return;
        }
        for (uint32_t r = 0; r < RESOURCES; r++) {
            if (wanted[r] > 0 && (CAPACITIES[r] * (1 + 1e-12) - used[r]) / wanted[r] < level) {
                level = (CAPACITIES[r] * (1 + 1e-12) - used[r]) / wanted[r];
                full = r;
            }
        }
        for (uint32_t i = 0; i < SLOTS; i++) {
            const struct fluid_activity *a = &s->items[i * RUNS + s->next[i] - (s->next[i] > 0)].activity;
            bool stopped = full == RESOURCES && i == stops;
            for (uint32_t u = 0; u < a->use_count; u++) {
                stopped = stopped || a->uses[u].resource == full;
            }
            if (open[i] && stopped) {
                open[i] = false;
                rates[i] = level * a->weight;
                for (uint32_t u = 0; u < a->use_count; u++) {
                    used[a->uses[u].resource] += rates[i] * a->uses[u].coefficient;
                }
            }
        }
    }
}

static void plainly(struct simulation *s, double *peaks)
{
    double left_ps[SLOTS], rates[SLOTS] = { 0 }; /* left at rate 1 */
    int64_t now_ps = 0, last_ps = 0;
    begin_all(s);
    for (; (now_ps = next_of(s)) != TIME_NEVER_PS; last_ps = now_ps) {
        for (uint32_t i = 0; i < SLOTS; i++) {
            left_ps[i] = s->runs[i] ? left_ps[i] - rates[i] * (double)(now_ps - last_ps) : 0;
            if (s->end_ps[i] == now_ps) {
                end_item(s, i, now_ps);
            }
        }
        for (uint32_t i = 0; i < SLOTS; i++) {
            if (s->start_ps[i] == now_ps) {
                left_ps[i] = (double)begin_item(s, i)->activity.work_ps;
            }
        }
        double used[RESOURCES] = { 0 };
        fill(s, rates);
        for (uint32_t i = 0; i < SLOTS; i++) {
            const struct fluid_activity *a = &s->items[i * RUNS + s->next[i] - (s->next[i] > 0)].activity;
            for (uint32_t u = 0; s->runs[i] && u < a->use_count; u++) {
                used[a->uses[u].resource] += rates[i] * a->uses[u].coefficient;
            }
            /* 1e-6 ps of rounding must not make it a picosecond late */
            s->end_ps[i] = s->runs[i] ? now_ps + (int64_t)ceil(fmax(0, left_ps[i]) / rates[i] - 1e-6) : TIME_NEVER_PS;
        }
        for (uint32_t r = 0; r < RESOURCES; r++) {
            peaks[r] = fmax(peaks[r], used[r]);
        }
    }
}

/* One in `rare` uses something else besides; 0: none. */
static void compare(uint32_t rare, uint32_t rounds, uint32_t at_least)
{
    static struct simulation fast, slow;
    int64_t worst_ps = 0;
    uint32_t station_events = 0;
    for (uint64_t seed = test_seed * 100; seed < test_seed * 100 + rounds; seed++) {
        uint64_t random = seed;
        double peaks[RESOURCES] = { 0 }, amounts[RESOURCES] = { 0 }, plain_peaks[RESOURCES] = { 0 };
        double asked[RESOURCES] = { 0 };
        fast = slow = (struct simulation){ 0 };
        for (uint32_t i = 0; i < ACTIVITIES; i++) {
            uint64_t again = random;
            make_item(&fast.items[i], &random, rare);
            make_item(&slow.items[i], &again, rare);
            const struct fluid_activity *a = &fast.items[i].activity;
            for (uint32_t u = 0; u < a->use_count; u++) {
                asked[a->uses[u].resource] += a->uses[u].coefficient * a->work_s;
            }
        }
        with_fluid(&fast, peaks, amounts);
        plainly(&slow, plain_peaks);
        for (uint32_t i = 0; i < ACTIVITIES; i++) {
            int64_t gap = fast.ends[i] > slow.ends[i] ? fast.ends[i] - slow.ends[i] : slow.ends[i] - fast.ends[i];
            worst_ps = gap > worst_ps ? gap : worst_ps;
        }
        for (uint32_t r = 0; r < RESOURCES; r++) {
            EXPECT(fabs(peaks[r] - plain_peaks[r]) <= 1e-9 * CAPACITIES[r]);
            EXPECT(fabs(amounts[r] - asked[r]) <= 1e-9 * asked[r]);
        }
        station_events += fast.station_events;
    }
    printf("one in %u uses something else: %u of %u ends in stations, worst difference %lld ps\n", rare, station_events,
           rounds * ACTIVITIES, (long long)worst_ps);
    /* An end rounded up to the other picosecond shifts what follows in its slot by one, RUNS times at most, and others by their share of that. */
    EXPECT(worst_ps <= RUNS);
    EXPECT(station_events >= at_least);
}

static void test_crowd(void)
{
    compare(0, 20, 20 * ACTIVITIES / 4);
}

static void test_now_and_then(void)
{
    compare(60, 20, 20 * ACTIVITIES / 10);
}

static void test_mixed(void)
{
    compare(20, 20, 1);
}

TEST_MAIN(TEST(test_crowd), TEST(test_now_and_then), TEST(test_mixed))
