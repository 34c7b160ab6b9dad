/* The walk over a step, against a checker that replays its actions and knows none of its rules: chunks are where passes need them, budgets hold, bytes are those that moved, the placement at the end is that of the start. Random
 * models, machines and options. */
#include "strategies/policies/patrickstar_walk.h"
#include "tests/test.h"

enum { LAYERS_MAX = 12, UNITS_MAX = 48, SLOTS_MAX = 1024, MICRO_BATCHES_MAX = 3 };

struct walk_case {
    struct chunk_unit items[UNITS_MAX];
    struct chunk_units units;
    struct chunk_layout layout;
    struct walk_pass passes[2 * LAYERS_MAX * MICRO_BATCHES_MAX];
    struct walk_input input;
    uint32_t layers, micro_batches;
};

/* A model of `layers` layers; capacities in elements of 1000. */
static bool random_case(struct walk_case *c, uint64_t *seed, struct arena *arena)
{
    struct error error = { 0 };
    *c = (struct walk_case){ .layers = 2 + (uint32_t)test_below(seed, LAYERS_MAX - 1) };
    c->units.items = c->items;
    for (uint32_t layer = 0; layer < c->layers; layer++) {
        uint32_t count = (uint32_t)test_below(seed, 4);
        for (uint32_t i = 0; i < count; i++) {
            c->items[c->units.count++] = (struct chunk_unit){
                .name = "unit", .layer = layer, .tensor_count = 1, .elements = { 1 + test_below(seed, 1000) }
            };
        }
    }
    static const uint32_t ranks[] = { 1, 1, 2, 3, 4 };
    uint32_t p = ranks[test_below(seed, 5)];
    EXPECT_INT(chunk_layout_build(&c->layout, &c->units, 1000 + test_below(seed, 1500), p, false, arena, &error),
               STATUS_OK);
    double chunk = 2.0 * (double)c->layout.capacity, most = 0;
    for (uint32_t i = 0; i < c->layers; i++) {
        double bytes = test_unit(seed) * 3 * chunk, more = bytes + test_unit(seed) * chunk;
        c->passes[i] = (struct walk_pass){ .layer = i, .nonmodel_bytes = bytes };
        c->passes[2 * c->layers - 1 - i] = (struct walk_pass){
            .layer = i, .backward = true, .recomputes = test_below(seed, 2) != 0, .nonmodel_bytes = more
        };
        most = more > most ? more : most;
    }
    bool gradient_chunks = test_below(seed, 3) == 0;
    c->micro_batches = gradient_chunks ? 1 + (uint32_t)test_below(seed, MICRO_BATCHES_MAX) : 1;
    for (uint32_t i = 2 * c->layers; i < 2 * c->layers * c->micro_batches; i++) {
        c->passes[i] = c->passes[i - 2 * c->layers];
    }
    bool saving = test_below(seed, 2) != 0;
    double own = chunk_layout_bytes(&c->layout) / p;
    c->input = (struct walk_input){
        .units = &c->units,
        .layout = &c->layout,
        .rank = (uint32_t)test_below(seed, p),
        .passes = c->passes,
        .pass_count = 2 * c->layers * c->micro_batches,
        .gradient_chunks = gradient_chunks,
        .eviction = (enum chunk_eviction)test_below(seed, CHUNK_EVICTION_COUNT),
        .lookahead = 1 + (uint32_t)test_below(seed, 5),
        .seed = test_random(seed),
        .prefetch = (uint32_t)test_below(seed, 4),
        .prefetch_gathers = test_below(seed, 2) != 0,
        .device_adam = test_below(seed, 4) != 0,
        .warmup_without_adam = test_below(seed, 4) == 0,
        .rounds_pinned = test_below(seed, 2) != 0,
        .stored = test_below(seed, 3) == 0 ? (uint32_t)test_below(seed, 3) : 0,
        .tied_unit = CHUNK_NONE,
    };
    if (c->units.count > 0 && c->items[0].layer + 1 < c->layers && test_below(seed, 3) == 0) {
        c->input.tied_unit = 0;
    }
    /* Roomy enough for a layer: four units, each with its group, and non-model data. */
    c->input.budget = (struct chunk_budget){
        .gpu_bytes = most + (0.3 + test_unit(seed) * 2) * (saving ? 6 : 5 * p) * chunk + (saving ? 0 : p * p * chunk) +
                     (gradient_chunks ? 4 : 0) * chunk + 16.0 * (double)c->layout.capacity,
        .cpu_bytes = own * (gradient_chunks ? 8.0 / 7 : 1) * (0.4 + test_unit(seed)) + 5 * chunk,
        .warmup_ratio = 0.1,
        .chunk_elements = (double)c->layout.capacity,
        .ranks = p,
        .local_ranks = p,
        .memory_saving = saving,
        .static_partition = test_below(seed, 6) == 0,
        .gradient_chunks = gradient_chunks,
        .preset = (enum chunk_preset)test_below(seed, 2),
    };
    return true;
}

struct replay {
    const struct walk_case *c;
    uint8_t place[SLOTS_MAX];
    bool filled[SLOTS_MAX];
    uint32_t gathers[SLOTS_MAX], reduces[SLOTS_MAX], updates[SLOTS_MAX];
    double used[PLACE_COUNT], up, down, freed_down; /* freed_down: remote chunks that ended on the host */
};

static double bytes_of(const struct replay *r, uint32_t slot)
{
    return walk_slot_bytes(&r->c->layout, slot);
}

/* A block of a power of two of bytes, found by doubling. */
static double taken(const struct replay *r, uint32_t slot, enum chunk_place place)
{
    double bytes = bytes_of(r, slot), block = 1;
    while (block < bytes) {
        block *= 2;
    }
    return place == PLACE_HOST && r->c->input.rounds_pinned ? block : bytes;
}

static void go(struct replay *r, uint32_t slot, enum chunk_place from, enum chunk_place to)
{
    EXPECT_INT(r->place[slot], from);
    r->place[slot] = (uint8_t)to;
    if (from != PLACE_NONE) {
        r->used[from] -= taken(r, slot, from);
    }
    if (to != PLACE_NONE) {
        r->used[to] += taken(r, slot, to);
    }
}

static bool has_gradient(const struct walk_case *c, uint32_t chunk)
{
    return c->input.gradient_chunks && chunk < c->layout.chunk_count && chunk_owner(&c->layout, chunk) == c->input.rank;
}

static void expect_gradient(const struct replay *r, const struct walk_action *action)
{
    uint32_t chunk = action->slot / 2;
    uint32_t from = has_gradient(r->c, chunk) ? walk_slot(&r->c->layout, WALK_GRADIENT, chunk) : action->slot;
    EXPECT((enum chunk_place)r->place[from] != PLACE_NONE);
    EXPECT_INT(action->gradient_on_device, r->place[from] == PLACE_DEVICE);
}

static void apply(struct replay *r, const struct walk_action *action)
{
    const struct walk_input *input = &r->c->input;
    uint32_t slot = action->slot, size = input->budget.memory_saving ? 1 : r->c->layout.ranks, chunk;
    switch ((enum walk_kind)action->kind) {
    case WALK_UP:
        go(r, slot, PLACE_HOST, PLACE_DEVICE);
        r->up += bytes_of(r, slot);
        return;
    case WALK_DOWN:
        go(r, slot, PLACE_DEVICE, PLACE_HOST);
        r->down += bytes_of(r, slot);
        return;
    case WALK_ALLOCATE:
        if (walk_slot_list(&r->c->layout, input->rank, slot, &chunk) == WALK_GRADIENT) {
            EXPECT(input->gradient_chunks && chunk_owner(&r->c->layout, chunk) == input->rank);
            EXPECT_INT(slot, walk_slot(&r->c->layout, WALK_GRADIENT, chunk));
        } else {
            EXPECT_INT(walk_slot_list(&r->c->layout, input->rank, slot, &chunk), WALK_FP16);
            EXPECT(chunk_owner(&r->c->layout, chunk) != input->rank);
        }
        go(r, slot, PLACE_NONE, PLACE_DEVICE);
        r->filled[slot] = false;
        return;
    case WALK_FREE:
        r->freed_down += (enum chunk_place)r->place[slot] == PLACE_HOST ? bytes_of(r, slot) : 0;
        go(r, slot, (enum chunk_place)r->place[slot], PLACE_NONE);
        return;
    case WALK_GATHER:
    case WALK_REDUCE:
        EXPECT(slot / 2 % size == 0);
        for (uint32_t i = 0; i < size; i++) {
            bool sums = action->kind == WALK_REDUCE && has_gradient(r->c, slot / 2 + i);
            EXPECT_INT(r->place[sums ? walk_slot(&r->c->layout, WALK_GRADIENT, slot / 2 + i) : slot + 2 * i],
                       PLACE_DEVICE);
            r->filled[slot + 2 * i] = true;
            r->gathers[slot + 2 * i] += action->kind == WALK_GATHER;
            r->reduces[slot + 2 * i] += action->kind == WALK_REDUCE;
        }
        return;
    case WALK_ADAM_STORED:
        r->updates[slot]++;
        expect_gradient(r, action);
        EXPECT_INT(action->on_device, r->place[slot] == PLACE_DEVICE);
        EXPECT(slot / 2 / r->c->layout.ranks + input->stored >= chunk_layout_owned(&r->c->layout, input->rank));
        for (uint32_t list = WALK_FP32; list <= WALK_VARIANCE; list++) {
            EXPECT_INT(r->place[walk_slot(&r->c->layout, (enum walk_list)list, slot / 2)], PLACE_NONE);
        }
        return;
    case WALK_ADAM_HOST:
    case WALK_ADAM_DEVICE:
        r->updates[slot]++;
        expect_gradient(r, action);
        EXPECT_INT(action->on_device, r->place[slot] == PLACE_DEVICE);
        for (uint32_t list = WALK_FP32; list <= WALK_VARIANCE; list++) {
            uint32_t state = walk_slot(&r->c->layout, (enum walk_list)list, slot / 2);
            EXPECT_INT(r->place[state], action->kind == WALK_ADAM_HOST ? PLACE_HOST : PLACE_DEVICE);
            EXPECT_INT(walk_slot_list(&r->c->layout, input->rank, state, &chunk), (int)list);
            EXPECT_INT(chunk, slot / 2);
        }
        return;
    }
}

/* Before a pass runs: its chunks are there and filled, and everything fits. */
static void expect_ready(const struct replay *r, uint32_t moment)
{
    const struct walk_case *c = r->c;
    const struct walk_pass *pass = &c->passes[moment];
    for (uint32_t u = 0; u < c->units.count; u++) {
        bool tied = u == c->input.tied_unit && pass->layer == c->layers - 1;
        uint32_t slot = walk_slot_fp16(c->layout.unit_chunk[u]);
        if (c->items[u].layer == pass->layer || tied) {
            EXPECT_INT(r->place[slot], PLACE_DEVICE);
            EXPECT(c->layout.ranks == 1 || r->filled[slot] || chunk_owner(&c->layout, slot / 2) == c->input.rank);
            if (pass->backward && has_gradient(c, slot / 2)) {
                EXPECT_INT(r->place[walk_slot(&c->layout, WALK_GRADIENT, slot / 2)], PLACE_DEVICE);
            }
        }
    }
    EXPECT(r->used[PLACE_DEVICE] + pass->nonmodel_bytes <= c->input.budget.gpu_bytes);
    EXPECT(r->used[PLACE_HOST] <= c->input.budget.cpu_bytes);
}

static void expect_step(const struct walk_case *c, const struct walk_result *result)
{
    static struct replay r;
    r = (struct replay){ .c = c };
    for (uint32_t s = 0; s < result->slot_count; s++) {
        r.place[s] = result->start_place[s];
        EXPECT((enum chunk_place)r.place[s] == PLACE_NONE || s % 2 != 0 || s >= 2 * c->layout.padded_count ||
               chunk_owner(&c->layout, s / 2) == c->input.rank);
        if ((enum chunk_place)r.place[s] != PLACE_NONE) {
            r.used[r.place[s]] += taken(&r, s, (enum chunk_place)r.place[s]);
        }
    }
    uint32_t a = 0;
    for (uint32_t moment = 0; moment < c->input.pass_count; moment++) {
        for (; a < result->action_count && result->actions[a].moment == moment && !result->actions[a].after; a++) {
            apply(&r, &result->actions[a]);
        }
        expect_ready(&r, moment);
        for (; a < result->action_count && result->actions[a].moment == moment; a++) {
            EXPECT(result->actions[a].after);
            apply(&r, &result->actions[a]);
        }
    }
    for (; a < result->action_count; a++) {
        EXPECT_INT(result->actions[a].moment, c->input.pass_count);
        apply(&r, &result->actions[a]);
        EXPECT(r.used[PLACE_DEVICE] <= c->input.budget.gpu_bytes || !result->repeats);
    }
    for (uint32_t s = 0; s < result->slot_count; s++) {
        EXPECT_INT(r.place[s], result->start_place[s]);
    }
    EXPECT_REAL(r.up, result->up_bytes, 0);
    EXPECT_REAL(r.down, result->down_bytes, 0);
    EXPECT_REAL(r.up + r.freed_down, r.down, 0); /* what is at home over a step went as often as it came */
    for (uint32_t chunk = 0; chunk < c->layout.padded_count; chunk++) {
        bool own = chunk_owner(&c->layout, chunk) == c->input.rank, real = chunk < c->layout.chunk_count;
        uint32_t slot = walk_slot_fp16(chunk);
        EXPECT_INT(r.updates[slot], own && real);
        bool whole = real || !c->input.budget.memory_saving; /* dummies come with their groups */
        EXPECT_INT(r.reduces[slot], c->layout.ranks > 1 && whole ? c->micro_batches : 0);
        EXPECT(c->layout.ranks == 1 ? r.gathers[slot] == 0 : !whole || r.gathers[slot] >= c->micro_batches);
    }
}

static void test_invariants(void)
{
    uint64_t seed = test_seed;
    uint32_t fits = 0, repeats = 0, distributed = 0;
    for (int round = 0; round < 3000; round++) {
        struct arena arena = { 0 };
        static struct walk_case c;
        struct walk_result result;
        struct error error = { 0 };
        unsigned before = test_failures;
        random_case(&c, &seed, &arena);
        enum status status = walk_run(&c.input, &result, &arena, &error);
        EXPECT(status == STATUS_OK || status == STATUS_DOES_NOT_FIT);
        if (status == STATUS_OK) {
            EXPECT(result.slot_count <= SLOTS_MAX);
            expect_step(&c, &result);
            fits++;
            repeats += result.repeats;
            distributed += c.layout.ranks > 1;
        } else {
            EXPECT(error.message[0] != '\0');
        }
        arena_free(&arena);
        if (test_failures != before) {
            printf("  round %d\n", round);
            break;
        }
    }
    printf("%u of 3000 fit, %u of these repeat, %u are distributed\n", fits, repeats, distributed);
    EXPECT(fits > 1500 && repeats > fits / 2 && distributed > fits / 4 && fits < 3000);
}

/* One GPU, four layers of one chunk each, room for three chunks: next-use by hand. Forward 0 1 2 3, backward 3 2 1 0: what was up at the turn stays. */
static void test_by_hand(void)
{
    struct arena arena = { 0 };
    struct walk_case c = { .layers = 4 };
    struct walk_result result;
    struct error error = { 0 };
    c.units = (struct chunk_units){ c.items, 4 };
    for (uint32_t i = 0; i < 4; i++) {
        c.items[i] = (struct chunk_unit){ .name = "unit", .layer = i, .tensor_count = 1, .elements = { 100 } };
        c.passes[i] = (struct walk_pass){ .layer = i };
        c.passes[7 - i] = (struct walk_pass){ .layer = i, .backward = true };
    }
    EXPECT_INT(chunk_layout_build(&c.layout, &c.units, 100, 1, false, &arena, &error), STATUS_OK);
    c.input = (struct walk_input){
        .units = &c.units, .layout = &c.layout, .passes = c.passes, .pass_count = 8, .tied_unit = CHUNK_NONE
    };
    /* 200 B a chunk; one of four is reserved; Adam keeps 16 x 100 B free, so all states stay on the host */
    c.input.budget = (struct chunk_budget){
        .gpu_bytes = 800, .cpu_bytes = 1e6, .warmup_ratio = 0.5, .chunk_elements = 100, .ranks = 1, .local_ranks = 1
    };
    EXPECT_INT(walk_run(&c.input, &result, &arena, &error), STATUS_OK);
    EXPECT(result.repeats);
    /* Forward must bring one chunk that is down and backward one: the fewest moves of a sweep up and down with one chunk too many. */
    EXPECT_REAL(result.up_bytes, 2 * 200, 0);
    EXPECT_REAL(result.down_bytes, 2 * 200, 0);
    EXPECT_REAL(result.peak_bytes[PLACE_DEVICE], 600, 0);
    c.input.eviction =
        EVICT_LRU; /* of a sweep, the least recently used is what the turn needs last, too: the same here */
    EXPECT_INT(walk_run(&c.input, &result, &arena, &error), STATUS_OK);
    EXPECT(result.up_bytes >= 400);
    c.input.eviction = EVICT_NEXT_USE;
    c.input.budget.gpu_bytes = 1000; /* room for all four */
    EXPECT_INT(walk_run(&c.input, &result, &arena, &error), STATUS_OK);
    EXPECT_REAL(result.up_bytes, 0, 0);
    arena_free(&arena);
}

/* Volumes of A.6 with p ranks: what a rank sends and receives in gathers and reductions, in units of (p-1)/p M, dummies included; with memory saving in broadcasts and reductions of single chunks, of which dummies have none. */
static void test_volume(void)
{
    const double broadcast_share = 2; /* of a large message: a scatter and an all-gather */
    uint64_t seed = test_seed + 1;
    for (int round = 0; round < 200; round++) {
        struct arena arena = { 0 };
        static struct walk_case c;
        struct walk_result result;
        struct error error = { 0 };
        random_case(&c, &seed, &arena);
        c.input.tied_unit = CHUNK_NONE;
        c.input.budget.preset = CHUNK_PAPER;
        c.input.budget.cpu_bytes = 1e12;
        bool saving = c.input.budget.memory_saving = round % 2 == 1;
        c.input.budget.gpu_bytes *= 8;
        EXPECT_INT(walk_run(&c.input, &result, &arena, &error), STATUS_OK);
        double bytes = 0, p = c.layout.ranks;
        for (uint32_t a = 0; a < result.action_count; a++) {
            bool gather = result.actions[a].kind == WALK_GATHER, reduce = result.actions[a].kind == WALK_REDUCE;
            double moved = (saving ? (p - 1) / p : p - 1) * walk_slot_bytes(&c.layout, 0);
            bytes += gather ? (saving ? broadcast_share : 1) * moved : reduce ? moved : 0;
        }
        double parameters = (double)c.layout.capacity * (saving ? c.layout.chunk_count : c.layout.padded_count);
        /* The group at the turn from forward to backward is released and comes again, as every other. */
        EXPECT_REAL(bytes,
                    c.micro_batches *
                        (saving ? chunk_volume_broadcast : chunk_volume_gathered)(parameters, c.layout.ranks),
                    1e-12);
        arena_free(&arena);
    }
}

/* Two micro-batches over four layers of one chunk, with room for all: the gradients come to the device with the first backward, stay, and are gone after Adam. 14 bytes an element become 16. */
static void test_gradients_by_hand(void)
{
    struct arena arena = { 0 };
    struct walk_case c = { .layers = 4, .micro_batches = 2 };
    struct walk_result result;
    struct error error = { 0 };
    c.units = (struct chunk_units){ c.items, 4 };
    for (uint32_t i = 0; i < 4; i++) {
        c.items[i] = (struct chunk_unit){ .name = "unit", .layer = i, .tensor_count = 1, .elements = { 100 } };
        for (uint32_t m = 0; m < 2; m++) {
            c.passes[8 * m + i] = (struct walk_pass){ .layer = i };
            c.passes[8 * m + 7 - i] = (struct walk_pass){ .layer = i, .backward = true };
        }
    }
    EXPECT_INT(chunk_layout_build(&c.layout, &c.units, 100, 1, false, &arena, &error), STATUS_OK);
    EXPECT_REAL(chunk_layout_bytes(&c.layout) + chunk_layout_gradient_bytes(&c.layout), 16 * 400.0, 0);
    c.input = (struct walk_input){ .units = &c.units,
                                   .layout = &c.layout,
                                   .passes = c.passes,
                                   .pass_count = 16,
                                   .gradient_chunks = true,
                                   .tied_unit = CHUNK_NONE };
    c.input.budget = (struct chunk_budget){ .gpu_bytes = 16 * 400 + 16 * 100,
                                            .cpu_bytes = 1e6,
                                            .warmup_ratio = 0.5,
                                            .chunk_elements = 100,
                                            .ranks = 1,
                                            .local_ranks = 1,
                                            .gradient_chunks = true };
    EXPECT_INT(walk_run(&c.input, &result, &arena, &error), STATUS_OK);
    expect_step(&c, &result);
    EXPECT_REAL(result.up_bytes + result.down_bytes, 0, 0);
    EXPECT_REAL(result.peak_bytes[PLACE_DEVICE], 2 * 2 * 400, 0); /* parameters and gradients; Adam is on the host */
    uint32_t allocated = 0, freed = 0;
    for (uint32_t a = 0; a < result.action_count; a++) {
        const struct walk_action *action = &result.actions[a];
        allocated += action->kind == WALK_ALLOCATE && action->moment >= 4 && action->moment < 8;
        freed += action->kind == WALK_FREE && action->moment == 16;
    }
    EXPECT_INT(allocated, 4);
    EXPECT_INT(freed, 4);
    c.input.gradient_chunks = c.input.budget.gradient_chunks = false;
    EXPECT_INT(walk_run(&c.input, &result, &arena, &error), STATUS_OK);
    EXPECT_REAL(result.peak_bytes[PLACE_DEVICE], 2 * 400, 0);
    arena_free(&arena);
}

/* Adam's moment is in no list: no optimizer state has a use on any place, passes' chunks keep theirs. */
static void expect_no_adam(const struct walk_case *c, const struct walk_result *complete,
                           const struct walk_result *without)
{
    uint32_t passes = c->input.pass_count;
    EXPECT_INT(complete->moments.moment_count, passes + 1);
    EXPECT_INT(without->moments.moment_count, passes);
    for (uint32_t slot = 0; slot < without->slot_count; slot++) {
        uint32_t chunk;
        enum walk_list list = walk_slot_list(&c->layout, c->input.rank, slot, &chunk);
        bool state = list != WALK_FP16 && list != WALK_GRADIENT;
        for (uint32_t place = 0; place < PLACE_COUNT; place++) {
            for (uint32_t now = 0; now <= passes; now++) {
                uint64_t key = chunk_next_use(&without->moments, slot, (enum chunk_place)place, now);
                uint64_t known = chunk_next_use(&complete->moments, slot, (enum chunk_place)place, now);
                if (state || known == 2 * (uint64_t)(passes + 1)) {
                    EXPECT_INT(key, 2 * (uint64_t)passes);
                } else {
                    EXPECT_INT(key, known > passes ? known - 1 : known); /* the next step begins a moment earlier */
                }
            }
        }
    }
}

/* Warm-up without Adam: keys of every list, and moves over random walks. Unequal chunks and Adam's unrecorded use of fp16 chunks let a wrong key save moves too: both are counted. */
static void test_warmup_without_adam(void)
{
    uint64_t seed = test_seed + 7;
    uint32_t more = 0, fewer = 0, same = 0, lost = 0;
    for (int round = 0; round < 3000; round++) {
        struct arena arena = { 0 };
        static struct walk_case c;
        struct walk_result complete, without;
        struct error error = { 0 };
        unsigned before = test_failures;
        random_case(&c, &seed, &arena);
        c.input.eviction = EVICT_NEXT_USE;
        c.input.warmup_without_adam = false;
        enum status known = walk_run(&c.input, &complete, &arena, &error);
        c.input.warmup_without_adam = true;
        enum status unknown = walk_run(&c.input, &without, &arena, &error);
        if (known == STATUS_OK && unknown == STATUS_OK) {
            double moved = complete.up_bytes + complete.down_bytes, now = without.up_bytes + without.down_bytes;
            expect_no_adam(&c, &complete, &without);
            EXPECT_REAL(complete.margin, without.margin, 0); /* it comes from passes alone */
            more += now > moved;
            fewer += now < moved;
            same += now == moved;
        }
        lost += known == STATUS_OK && unknown == STATUS_DOES_NOT_FIT;
        arena_free(&arena);
        if (test_failures != before) {
            printf("  round %d\n", round);
            break;
        }
    }
    printf("warm-up without Adam: %u walks move more, %u fewer, %u as much; %u no longer fit\n", more, fewer, same,
           lost);
    EXPECT(more > fewer && same > 0);
}

TEST_MAIN(TEST(test_warmup_without_adam), TEST(test_invariants), TEST(test_by_hand), TEST(test_gradients_by_hand),
          TEST(test_volume))
