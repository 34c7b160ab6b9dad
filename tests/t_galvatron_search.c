/* The Galvatron search: rows of its goldens, variants against each other on generated models, partitions, formulas, interruption, refusals. */
#include "strategies/planners/galvatron_cost.h"
#include "strategies/planners/galvatron_internal.h"
#include "strategies/planners/galvatron_search.h"
#include "tests/test.h"

struct setup {
    struct galvatron_model_profile model;
    struct galvatron_hardware_profile hardware;
    struct galvatron_preset preset;
    struct galvatron_source source;
};

static void finish_setup(struct setup *s, enum galvatron_preset_kind kind)
{
    struct error error = { 0 };
    if (galvatron_preset_init(&s->preset, kind, &s->model, &s->hardware, &error) != STATUS_OK) {
        TEST_FAIL_("%s", error.message);
        exit(1);
    }
    galvatron_preset_source(&s->preset, &s->source);
}

static void table_setup(struct setup *s, const char *model)
{
    struct error error = { 0 };
    galvatron_table_titan(&s->hardware);
    EXPECT_INT(galvatron_table_model(model, &s->model, &error), STATUS_OK);
    finish_setup(s, GALVATRON_V1);
}

/* facts/galvatron-bmw.md D.3, "full": the four plans that the authors shipped, and an out-of-memory row. */
static void test_shipped_rows(void)
{
    static const struct {
        const char *model;
        double gib, samples_per_s, batch;
        const char *plan;
    } ROWS[] = {
        { "bert-huge-32", 8, 9.369, 8, "2-2*-2 x15 2-2*-2f x1 2-2*-2 x15 2-2*-2f x1" },
        { "bert-huge-32", 12, 13.237, 16, "1-2*-4 x16 1-2*-4f x16" },
        { "swin-huge-32", 8, 34.105, 48, "1-1-8f x4 1-2*-4f x24 1-1-8f x2 1-4*-2f x2" },
        { "swin-huge-32", 12, 44.749, 64, "2-1-4 x11 2-2-2* x1 2-1-4 x17 2-1-4f x1 2-4-1 x2" },
        { "bert-huge-48", 8, 0, 0, NULL },
    };
    for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++) {
        struct setup s;
        struct galvatron_request request;
        struct galvatron_result result;
        struct error error = { 0 };
        table_setup(&s, ROWS[i].model);
        galvatron_request_init(&request, &s.source, GALVATRON_VARIANT_V1);
        request.budget_mib = ROWS[i].gib * 1024;
        EXPECT_INT(galvatron_search(&request, &result, &error), STATUS_OK);
        EXPECT_INT(result.found, ROWS[i].plan != NULL);
        if (result.found && ROWS[i].plan != NULL) {
            char *text = galvatron_plan_text(&result.best);
            EXPECT_TEXT(text, ROWS[i].plan);
            EXPECT(fabs(result.best.samples_per_s - ROWS[i].samples_per_s) <= 0.0005);
            EXPECT_REAL(result.best.batch, ROWS[i].batch, 0);
            free(text);
        } else {
            /* With what it asks for it fits; with one MiB less it does not. */
            double needs = result.smallest_budget_mib;
            galvatron_result_free(&result);
            request.budget_mib = needs;
            EXPECT_INT(galvatron_search(&request, &result, &error), STATUS_OK);
            EXPECT(result.found);
            galvatron_result_free(&result);
            request.budget_mib = needs - 1;
            EXPECT_INT(galvatron_search(&request, &result, &error), STATUS_OK);
            EXPECT(!result.found);
        }
        galvatron_result_free(&result);
        galvatron_preset_free(&s.preset);
    }
}

/* A model and machine by chance: 4 or 8 devices, one to three kinds of layers. */
static void generate(struct setup *s, uint64_t *seed)
{
    s->hardware = (struct galvatron_hardware_profile){ .name = "generated",
                                                       .gpus = 4u << (test_random(seed) % 2),
                                                       .overlap = 1.1 + 0.3 * test_unit(seed) };
    double slow = test_random(seed) % 2 == 0 ? 1 : 10; /* one-tenth as fast: pipelines pay */
    for (uint32_t k = 1; k <= 3; k++) {
        s->hardware.all_reduce[0][k][0] = slow * (0.005 + 0.3 * test_unit(seed));
        s->hardware.all_reduce[0][k][1] = slow * (0.005 + 0.3 * test_unit(seed));
        s->hardware.p2p[k] = 0.005 + 0.1 * test_unit(seed);
    }
    s->model = (struct galvatron_model_profile){ .name = "generated", .mixed = test_random(seed) % 2 == 0 };
    s->model.kind_count = 1 + (uint32_t)(test_random(seed) % 3);
    for (uint32_t k = 0; k < s->model.kind_count; k++) {
        struct galvatron_layer_profile *layer = &s->model.kinds[k];
        double activation = 10 + 150 * test_unit(seed);
        layer->count = 2 + (uint32_t)(test_random(seed) % 6);
        layer->parameter_mib = 10 + 300 * test_unit(seed);
        layer->forward_ms = 0.3 + 4 * test_unit(seed);
        layer->sequence = 512;
        layer->hidden = 1024;
        layer->recompute_mib = activation / 10;
        for (uint32_t d = 0; d <= 3; d++) {
            layer->activation_mib[d] = activation * (0.1 + 0.9 / (1u << d));
        }
    }
    s->model.other = (struct galvatron_other_profile){ 500 + 2000 * test_unit(seed), 100 * test_unit(seed) };
    s->model.first = s->model.last = s->model.other;
    s->model.last.activation_mib *= 2;
    finish_setup(s, GALVATRON_G2);
}

static double speed_of(const struct setup *s, enum galvatron_variant variant, enum galvatron_space space, double budget,
                       struct galvatron_result *result)
{
    struct galvatron_request request;
    struct error error = { 0 };
    galvatron_request_init(&request, &s->source, variant);
    request.space = space;
    request.budget_mib = budget;
    request.batch_max = 64;
    EXPECT_INT(galvatron_search(&request, result, &error), STATUS_OK);
    return result->found ? result->best.samples_per_s : 0;
}

static void check_plan(const struct setup *s, const struct galvatron_plan *plan, double budget)
{
    uint32_t layers = 0;
    for (uint32_t i = 0; i < plan->pipeline; i++) {
        layers += plan->stages[i].layers;
        EXPECT(plan->stages[i].layers >= 1);
        EXPECT(plan->stages[i].leftover_mib >= 0);
        EXPECT_REAL(plan->stages[i].memory_mib + plan->stages[i].leftover_mib, floor(budget), 1e-12);
    }
    EXPECT_INT(layers, s->source.layer_count);
    EXPECT(plan->alpha_t >= 0 && plan->alpha_t <= 1 - 1.0 / plan->pipeline + 1e-12);
    EXPECT(plan->alpha_m >= 0 && plan->alpha_m <= 1 - 1.0 / plan->pipeline + 1e-12);
    EXPECT_REAL(plan->samples_per_s, plan->batch / plan->step_s, 1e-12);
}

/* galvatron-bmw is never worse than any variant in any space, by cost model. */
static void test_bmw_never_worse(void)
{
    uint64_t seed = test_seed;
    unsigned compared = 0, better = 0, balanced = 0;
    for (int round = 0; round < 100; round++) {
        struct setup s;
        struct galvatron_result bmw, other;
        generate(&s, &seed);
        double budget = 3000 + 14000 * test_unit(&seed), best_other = 0;
        double speed = speed_of(&s, GALVATRON_VARIANT_BMW, GALVATRON_SPACE_FULL, budget, &bmw);
        /* Its own rules in a smaller space, too: there the embedding may be charged less. */
        for (uint32_t variant = 0; variant < GALVATRON_VARIANT_COUNT; variant++) {
            for (uint32_t space = variant == GALVATRON_VARIANT_BMW; space < GALVATRON_SPACE_COUNT; space++) {
                best_other = fmax(best_other, speed_of(&s, (enum galvatron_variant)variant, (enum galvatron_space)space,
                                                       budget, &other));
                galvatron_result_free(&other);
            }
        }
        if (!(speed >= best_other)) {
            TEST_FAIL_("round %d: bmw %.17g samples/s, best variant %.17g", round, speed, best_other);
        }
        compared += best_other > 0;
        better += speed > best_other;
        if (bmw.found) {
            check_plan(&s, &bmw.best, budget);
            balanced += bmw.has_unbalanced && bmw.unbalanced.step_s > bmw.best.step_s;
        }
        galvatron_result_free(&bmw);
        galvatron_preset_free(&s.preset);
    }
    printf("  of 100: %u feasible for a variant, bmw strictly better in %u, balance moves mattered in %u\n", compared,
           better, balanced);
    EXPECT(compared >= 50);
    EXPECT(better >= 1);
}

/* Hand-worked: C = 2 4 3, T = 3 4 9, m = 4 (C.4). */
static void test_formulas(void)
{
    const double c[3] = { 2, 4, 3 }, t[3] = { 3, 4, 9 };
    EXPECT_REAL(galvatron_pipeline_s(GALVATRON_FORM_G2, c, t, 3, 4), 6 * 4 + 1, 1e-15); /* tails 1, -2, 0 */
    EXPECT_REAL(galvatron_pipeline_s(GALVATRON_FORM_SYNC, c, t, 3, 4), 16 + 3 * 4, 1e-15);
    /* X = max(9 + 9, max(4/3, 7/3) + max(8/3, 14/3) + 2 * 2) = 18, tail 1 */
    EXPECT_REAL(galvatron_pipeline_s(GALVATRON_FORM_HEAD, c, t, 3, 4), 19, 1e-15);
    EXPECT_REAL(galvatron_pipeline_s(GALVATRON_FORM_G2, c, t, 1, 1), 3, 1e-15);   /* one stage: its T */
    const struct galvatron_setting setting = { 8, 4, 64, 8, true, false, false }; /* 32 samples a device, pieces of 4 */
    EXPECT_REAL(galvatron_live_share(&setting, 0), 0.5, 0);
    EXPECT_REAL(galvatron_live_share(&setting, 3), 0.125, 0);
}

/* Switches of the presets, each by itself, against figures worked by hand: 8 devices, one kind of layer, 64 samples. */
static void test_switches(void)
{
    struct setup s = { .hardware = { .name = "8", .gpus = 8, .overlap = 1.3 },
                       .model = { .name = "alike", .kind_count = 1 } };
    s.model.kinds[0] = (struct galvatron_layer_profile){
        .count = 16, .parameter_mib = 50, .forward_ms = 2, .recompute_mib = 1, .sequence = 512, .hidden = 1024
    };
    for (uint32_t k = 0; k <= 3; k++) {
        s.model.kinds[0].activation_mib[k] = 10;
        s.hardware.all_reduce[0][k][0] = s.hardware.all_reduce[0][k][1] = 0.1;
    }
    s.model.other = s.model.first = s.model.last = (struct galvatron_other_profile){ 100, 1 };
    const struct galvatron_strategy stage = { .pipeline = 8, .tensor = 1, .data = 1, .tensor_consecutive = true };
    struct galvatron_strategy again = stage;
    const struct galvatron_setting setting = { 8, 8, 64, 16, true, true, false }; /* micro-batches of 4 samples */
    struct galvatron_layer_cost cost;
    again.recompute = true;

    /* g2: 3 forward passes of 4 x 2 ms, and half a one more where the layer is recomputed; a whole one as head has it. */
    finish_setup(&s, GALVATRON_G2);
    s.source.layer(s.source.context, 0, &stage, &setting, &cost);
    EXPECT_REAL(cost.compute_s, 3 * 8e-3, 1e-12);
    s.source.layer(s.source.context, 0, &again, &setting, &cost);
    EXPECT_REAL(cost.compute_s, 3.5 * 8e-3, 1e-12);
    s.preset.recompute_forward = 1;
    s.source.layer(s.source.context, 0, &again, &setting, &cost);
    EXPECT_REAL(cost.compute_s, 4 * 8e-3, 1e-12);
    /* One whole layer of what the last stage holds, 10 MiB x 64 samples x 1/16, on every stage. */
    double with = s.source.other_mib(s.source.context, 3, &stage, &setting);
    s.preset.recompute_peak = false;
    EXPECT_REAL(with - s.source.other_mib(s.source.context, 3, &stage, &setting), 40, 1e-12);
    galvatron_preset_free(&s.preset);

    /* 8 stages of two layers. g2 cuts 64 samples into 8 micro-batches: C = T = 96 ms, of which every formula takes 15. v1 has 16 inside its own formula, 48 ms each, of which it takes 23; under another
     * formula it is as g2, but for its factor. */
    static const struct {
        enum galvatron_preset_kind kind;
        enum galvatron_form form;
        double step_s;
    } CASES[] = {
        { GALVATRON_G2, GALVATRON_FORM_G2, 15 * 0.096 },         { GALVATRON_G2, GALVATRON_FORM_SYNC, 15 * 0.096 },
        { GALVATRON_G2, GALVATRON_FORM_HEAD, 15 * 0.096 },       { GALVATRON_G2, GALVATRON_FORM_V1, 15 * 0.096 },
        { GALVATRON_V1, GALVATRON_FORM_V1, 23 * 0.048 * 1.1 },   { GALVATRON_V1, GALVATRON_FORM_G2, 15 * 0.096 * 1.1 },
        { GALVATRON_V1, GALVATRON_FORM_SYNC, 15 * 0.096 * 1.1 },
    };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        struct galvatron_request request;
        struct galvatron_result result;
        struct error error = { 0 };
        finish_setup(&s, CASES[i].kind);
        s.preset.form = CASES[i].form;
        galvatron_preset_source(&s.preset, &s.source);
        galvatron_request_init(&request, &s.source, GALVATRON_VARIANT_V1);
        request.space = GALVATRON_SPACE_PP;
        request.budget_mib = 100000;
        request.batch_first = request.batch_max = 64;
        EXPECT_INT(galvatron_search(&request, &result, &error), STATUS_OK);
        EXPECT(result.found);
        EXPECT_REAL(result.best.step_s, CASES[i].step_s, 1e-12);
        galvatron_result_free(&result);
        galvatron_preset_free(&s.preset);
    }
    /* Formula 1 where reduction is left over: (P+m-1)/P C + (T - C). */
    const struct galvatron_setting two = { 8, 2, 64, 3, true, false, false };
    EXPECT_REAL(galvatron_share_s(6, 10, &two), 4.0 / 2 * 6 + 4, 1e-15);
}

static unsigned bounded; /* partitions held against the bound */

/* No partition, at whatever budget, is faster than the bound. */
static void check_bound(struct galvatron_case *c, uint64_t *seed)
{
    struct arena arena = { 0 };
    struct galvatron_trial trial;
    struct error error = { 0 };
    double bound = 0;
    EXPECT_INT(galvatron_trial_init(c, &trial, &arena, &error), STATUS_OK);
    for (int round = 0; round < 20; round++) {
        c->budget_mib = 2000 + (int64_t)(test_random(seed) % 12000);
        bound = galvatron_case_bound_s(c);
        for (uint32_t i = 0; i < 4; i++) {
            trial.partition[i] = 1;
        }
        for (uint32_t l = 4; l < c->source->layer_count; l++) {
            trial.partition[test_random(seed) % 4]++;
        }
        EXPECT_INT(galvatron_case_try(c, &trial, &error), STATUS_OK);
        if (trial.fits && !(trial.step_s >= bound * (1 - 1e-12))) {
            TEST_FAIL_("step %.17g s below the bound %.17g s", trial.step_s, bound);
        }
        bounded += trial.fits && bound > 0;
    }
    arena_free(&arena);
}

static void test_partitions(void)
{
    uint64_t seed = test_seed;
    for (int round = 0; round < 50; round++) {
        struct setup s;
        struct error error = { 0 };
        generate(&s, &seed);
        struct galvatron_case c = { .setting = { s.hardware.gpus, 4, 64, 4, true, false, false } };
        const struct galvatron_space_limits limits = { .gpus = s.hardware.gpus };
        c.strategy_count = galvatron_strategies(&limits, 4, c.strategies);
        EXPECT_INT(galvatron_case_init(&c, &s.source, 100000, &error), STATUS_OK);
        uint32_t layers = s.source.layer_count, cuts[4];
        if (layers >= 4) {
            EXPECT_INT(galvatron_partition_balanced(&c, GALVATRON_WEIGHT_MEMORY, cuts, &error), STATUS_OK);
            double most = galvatron_reference_mib(&c, cuts);
            /* No partition at all is better balanced. */
            for (uint32_t a = 1; a < layers; a++) {
                for (uint32_t b = 1; a + b < layers; b++) {
                    for (uint32_t d = 1; a + b + d < layers; d++) {
                        const uint32_t any[4] = { a, b, d, layers - a - b - d };
                        EXPECT(galvatron_reference_mib(&c, any) >= most);
                    }
                }
            }
            uint32_t greedy[4], sum = 0;
            check_bound(&c, &seed);
            if (galvatron_partition_g2(&c, greedy)) {
                sum = greedy[0] + greedy[1] + greedy[2] + greedy[3];
                EXPECT_INT(sum, layers);
            }
            if (galvatron_partition_v1(&c, greedy)) {
                sum = greedy[0] + greedy[1] + greedy[2] + greedy[3];
                EXPECT_INT(sum, layers);
            }
        }
        galvatron_case_free(&c);
        galvatron_preset_free(&s.preset);
    }
    EXPECT(bounded >= 100);
}

struct stop {
    unsigned calls, stop_at;
    double best;
};

static bool stop_after(void *context, const struct galvatron_progress *progress)
{
    struct stop *stop = context;
    stop->best = progress->best_samples_per_s;
    return ++stop->calls < stop->stop_at;
}

static void test_interrupt(void)
{
    struct setup s;
    struct galvatron_request request;
    struct galvatron_result result;
    struct error error = { 0 };
    struct stop stop = { .stop_at = 6 };
    table_setup(&s, "bert-huge-32");
    galvatron_request_init(&request, &s.source, GALVATRON_VARIANT_V1);
    request.budget_mib = 20 * 1024;
    request.progress = stop_after;
    request.progress_context = &stop;
    EXPECT_INT(galvatron_search(&request, &result, &error), STATUS_OK);
    EXPECT(result.interrupted);
    EXPECT(result.found);
    EXPECT_INT(stop.calls, 6);
    EXPECT_REAL(result.best.samples_per_s, stop.best, 0);
    EXPECT(result.best.batch <= 16);
    galvatron_result_free(&result);
    galvatron_preset_free(&s.preset);
}

struct heard {
    unsigned calls;
    double share, best;
};

static bool hear(void *context, const struct galvatron_progress *progress)
{
    struct heard *heard = context;
    heard->calls++;
    if (!(progress->share >= heard->share && progress->share <= 1 + 1e-9)) {
        TEST_FAIL_("call %u: share %.17g after %.17g", heard->calls, progress->share, heard->share);
    }
    EXPECT(progress->best_samples_per_s >= heard->best);
    heard->share = progress->share;
    heard->best = progress->best_samples_per_s;
    return true;
}

/* The share rises to the whole, whatever was left out on the way; it is not known where no batch is the largest. */
static void test_progress(void)
{
    uint64_t seed = test_seed;
    for (int round = 0; round < 8; round++) {
        struct setup s;
        struct galvatron_request request;
        struct galvatron_result result;
        struct error error = { 0 };
        struct heard heard = { 0 };
        generate(&s, &seed);
        galvatron_request_init(&request, &s.source, round % 2 == 0 ? GALVATRON_VARIANT_BMW : GALVATRON_VARIANT_BASE);
        request.budget_mib = round < 4 ? 20000 : 4000;
        request.batch_max = 64;
        static const enum galvatron_micro_search searches[] = { GALVATRON_MICRO_OF_SOURCE, GALVATRON_MICRO_DIVISORS,
                                                                GALVATRON_MICRO_ALL };
        request.micro = searches[round % 3];
        request.progress = hear;
        request.progress_context = &heard;
        EXPECT_INT(galvatron_search(&request, &result, &error), STATUS_OK);
        EXPECT(heard.calls >= 3 && heard.share > 0);
        EXPECT_REAL(heard.best, result.found ? result.best.samples_per_s : 0, 0);
        galvatron_result_free(&result);
        heard = (struct heard){ 0 };
        request.batch_max = 0;
        request.micro = GALVATRON_MICRO_OF_SOURCE;
        request.budget_mib = 4000;
        EXPECT_INT(galvatron_search(&request, &result, &error), STATUS_OK);
        EXPECT_REAL(heard.share, 0, 0);
        galvatron_result_free(&result);
        galvatron_preset_free(&s.preset);
    }
}

static void test_nothing_tried(void)
{
    struct setup s;
    struct galvatron_request request;
    struct galvatron_result result;
    struct error error = { 0 };
    table_setup(&s, "bert-huge-32");
    galvatron_request_init(&request, &s.source, GALVATRON_VARIANT_BASE);
    request.budget_mib = 20 * 1024;
    request.batch_first = request.batch_max = 7; /* for 8 devices, in as many micro-batches as stages */
    request.whole_batches = true;
    request.micro = GALVATRON_MICRO_DIVISORS;
    EXPECT_INT(galvatron_search(&request, &result, &error), STATUS_OK);
    EXPECT(!result.found && result.nothing_tried && result.searches == 0);
    galvatron_result_free(&result);
    request.batch_max = 8;
    request.batch_step = 1;
    EXPECT_INT(galvatron_search(&request, &result, &error), STATUS_OK);
    EXPECT(result.found && !result.nothing_tried);
    galvatron_result_free(&result);
    request.budget_mib = 1200; /* tried, and too small */
    EXPECT_INT(galvatron_search(&request, &result, &error), STATUS_OK);
    EXPECT(!result.found && !result.nothing_tried && result.smallest_budget_mib > 1200);
    galvatron_result_free(&result);
    galvatron_preset_free(&s.preset);
}

/* With the budget that a search names something fits, with a MiB less nothing. */
static void test_smallest_budget(void)
{
    uint64_t seed = test_seed;
    for (int round = 0; round < 40; round++) {
        static const enum galvatron_variant variants[] = { GALVATRON_VARIANT_BMW, GALVATRON_VARIANT_BIOBJ,
                                                           GALVATRON_VARIANT_BASE, GALVATRON_VARIANT_V1 };
        struct setup s;
        struct galvatron_result result;
        generate(&s, &seed);
        (void)speed_of(&s, variants[round % 4], GALVATRON_SPACE_FULL, 10, &result);
        double needs = result.smallest_budget_mib;
        EXPECT(!result.found && needs > 10);
        galvatron_result_free(&result);
        (void)speed_of(&s, variants[round % 4], GALVATRON_SPACE_FULL, needs, &result);
        EXPECT(result.found);
        galvatron_result_free(&result);
        (void)speed_of(&s, variants[round % 4], GALVATRON_SPACE_FULL, needs - 1, &result);
        EXPECT(!result.found);
        EXPECT_REAL(result.smallest_budget_mib, needs, 1e-12);
        galvatron_result_free(&result);
        galvatron_preset_free(&s.preset);
    }
}

static void test_refusals(void)
{
    struct setup s;
    struct galvatron_request request;
    struct galvatron_result result;
    struct galvatron_preset broken;
    struct error error = { 0 };
    enum galvatron_variant variant;
    table_setup(&s, "bert-huge-32");
    galvatron_request_init(&request, &s.source, GALVATRON_VARIANT_V1);
    EXPECT_INT(galvatron_search(&request, &result, &error), STATUS_BAD_INPUT); /* no budget */
    request.budget_mib = 1024;
    request.batch_step = 0;
    EXPECT_INT(galvatron_search(&request, &result, &error), STATUS_BAD_INPUT);
    request.batch_step = 8;
    request.tensor_max = 16;
    EXPECT_INT(galvatron_search(&request, &result, &error), STATUS_BAD_INPUT);
    EXPECT_PART(error.message, "max_tensor is 16: there are 8 GPUs");
    request.tensor_max = 0;
    request.pipeline_max = 9;
    EXPECT_INT(galvatron_search(&request, &result, &error), STATUS_BAD_INPUT);
    EXPECT_PART(error.message, "max_pipeline is 9");
    request.pipeline_max = 0;
    s.source.gpus = 6;
    request.batch_step = 8;
    EXPECT_INT(galvatron_search(&request, &result, &error), STATUS_BAD_INPUT);
    galvatron_preset_free(&s.preset);
    s.model.kinds[0].forward_ms = 0;
    EXPECT_INT(galvatron_preset_init(&broken, GALVATRON_V1, &s.model, &s.hardware, &error), STATUS_BAD_INPUT);
    EXPECT(strstr(error.message, "forward time") != NULL);
    s.model.kinds[0].forward_ms = 1;
    s.hardware.all_reduce[0][1][0] = 0;
    EXPECT_INT(galvatron_preset_init(&broken, GALVATRON_V1, &s.model, &s.hardware, &error), STATUS_BAD_INPUT);
    EXPECT(strstr(error.message, "strided groups of 2") != NULL);
    EXPECT_INT(galvatron_table_model("bert-hug-32", &s.model, &error), STATUS_NOT_FOUND);
    EXPECT(strstr(error.message, "bert-huge-32") != NULL);
    EXPECT_INT(galvatron_variant_find("galvatron-bwm", &variant, &error), STATUS_NOT_FOUND);
}

TEST_MAIN(TEST(test_shipped_rows), TEST(test_bmw_never_worse), TEST(test_formulas), TEST(test_switches),
          TEST(test_partitions), TEST(test_interrupt), TEST(test_progress), TEST(test_nothing_tried),
          TEST(test_smallest_budget), TEST(test_refusals))
