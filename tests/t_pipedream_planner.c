/* PipeDream's partitioning: published profile, brute force, memory test, transfers, files; the planner. */
#include <float.h>

#include "sim/ir/schedule.h"
#include "sim/ir/timeline.h"
#include "strategies/planners/pipedream_search.h"
#include "strategies/planners/planner.h"
#include "tests/test.h"
#include "tests/vgg16_profile.h"

static struct pipedream_answer searched(const struct pipedream_request *request, struct arena *arena)
{
    struct error error = { 0 };
    struct pipedream_answer answer = { 0 };
    EXPECT_INT(pipedream_search(request, &answer, arena, &error), STATUS_OK);
    return answer;
}

/* facts/mpress-hippie-pipelines.md B.5: 0.6725 s in all; figures given to 1 us, so within half of that. */
static void test_vgg16(void)
{
    static const struct {
        uint32_t workers;
        double gigabytes_per_s, bottleneck_ms, data_parallel_ms;
    } cases[] = { { 16, 1.25, 46.587, 145.802 },
                  { 16, 3.125, 45.477, 83.541 },
                  { 16, 12.5, 43.023, 52.410 },
                  { 16, 25, 42.715, 47.222 },
                  { 4, 1.25, 174.498, 0 } };
    struct profile_layer layers[VGG16_LAYERS];
    struct pipeline_profile profile = vgg16_profile(layers);
    EXPECT(fabs(pipeline_profile_sum(&profile, 0, profile.count).compute_s - 0.6725) < 5e-5);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct arena arena = { 0 };
        const struct pipedream_request request = { .profile = &profile,
                                                   .workers = cases[i].workers,
                                                   .bandwidth_bytes_per_s = cases[i].gigabytes_per_s * 1e9 };
        struct pipedream_answer answer = searched(&request, &arena);
        const struct pipeline_stage all = { 0, profile.count, cases[i].workers };
        double data_parallel_ms = pipedream_stage_s(&request, &all) * 1e3;
        printf("VGG16, %2u workers at %6g GB/s: bottleneck %.3f ms (facts: %.3f), data parallel %.3f ms\n",
               cases[i].workers, cases[i].gigabytes_per_s, answer.bottleneck_s * 1e3, cases[i].bottleneck_ms,
               data_parallel_ms);
        EXPECT(fabs(answer.bottleneck_s * 1e3 - cases[i].bottleneck_ms) <= 5.001e-4);
        EXPECT(cases[i].data_parallel_ms <= 0 || fabs(data_parallel_ms - cases[i].data_parallel_ms) <= 5.001e-4);
        if (cases[i].workers == 4) {
            EXPECT_INT(answer.split.stage_count, 2);
            EXPECT_INT(answer.split.stages[0].replicas, 3);
            EXPECT_INT(answer.split.stages[1].replicas, 1);
        }
        arena_free(&arena);
    }
}

static struct pipeline_profile random_profile(uint64_t *state, struct profile_layer *layers, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        double bytes = (double)test_below(state, 100);
        layers[i] =
            (struct profile_layer){ "",    (double)(1 + test_below(state, 9)), (double)test_below(state, 18), bytes,
                                    bytes, (double)test_below(state, 100) };
    }
    return (struct pipeline_profile){ "random", layers, count };
}

/* Every partition with every number of replicas, plainly. `reached`: slowest so far. */
static double brute(const struct pipedream_request *request, uint32_t first, uint32_t left, double reached)
{
    const struct pipeline_profile *profile = request->profile;
    double best = DBL_MAX;
    for (uint32_t count = 1; first + count <= profile->count; count++) {
        bool last = first + count == profile->count;
        for (uint32_t r = last ? left : 1; r <= left; r++) {
            const struct pipeline_stage stage = { first, count, r };
            struct profile_sum sum = pipeline_profile_sum(profile, first, count);
            double slowest = fmax(reached, pipedream_stage_s(request, &stage));
            double stashed = ceil((double)(left - r) / r) * (sum.activation_bytes + sum.parameter_bytes);
            if ((request->replicas > 0 && r != request->replicas) ||
                (request->shared > 0 && request->shared % r != 0) ||
                (request->memory_bytes > 0 && stashed > request->memory_bytes)) {
                continue;
            }
            if (request->compression > 0 && first > 0) {
                double each = 2 / (request->bandwidth_bytes_per_s * r * request->compression);
                slowest = fmax(slowest, profile->layers[first - 1].activation_bytes * each);
                slowest = fmax(slowest, last ? 0 : profile->layers[first + count - 1].activation_bytes * each);
            }
            best = fmin(best, last ? slowest : r < left ? brute(request, first + count, left - r, slowest) : DBL_MAX);
        }
    }
    return best;
}

static void test_brute_force(void)
{
    uint64_t state = test_seed;
    unsigned unfit = 0;
    for (int i = 0; i < 1000; i++) {
        struct arena arena = { 0 };
        struct profile_layer layers[8];
        struct pipeline_profile profile = random_profile(&state, layers, 1 + (uint32_t)test_below(&state, 7));
        struct pipedream_request request = { .profile = &profile,
                                             .workers = 1 + (uint32_t)test_below(&state, 6),
                                             .bandwidth_bytes_per_s = (double)(1 + test_below(&state, 40)) };
        request.memory_bytes = i % 2 == 0 ? 0 : (double)(50 + test_below(&state, 400));
        request.compression = i % 3 == 0 ? (double)(1 + test_below(&state, 3)) : 0;
        request.replicas = i % 5 == 0 && request.workers % 2 == 0 ? 2 : 0;
        request.shared = i % 7 == 0 ? 1 + (uint32_t)test_below(&state, 12) : 0;
        struct pipedream_answer answer = searched(&request, &arena);
        double best = brute(&request, 0, request.workers, 0);
        EXPECT_INT(answer.found, best < DBL_MAX);
        unfit += !answer.found;
        if (answer.found) {
            uint32_t workers = 0, next = 0;
            EXPECT_REAL(answer.bottleneck_s, best, 1e-12); /* sums of a few integers, divided: some roundings apart */
            for (uint32_t s = 0; s < answer.split.stage_count; s++) {
                EXPECT_INT(answer.split.stages[s].first, next);
                next += answer.split.stages[s].count;
                workers += answer.split.stages[s].replicas;
            }
            EXPECT_INT(next, profile.count);
            EXPECT_INT(workers, request.workers);
        }
        arena_free(&arena);
    }
    printf("1000 random chains, %u without a plan\n", unfit);
    EXPECT(unfit > 10 && unfit < 500);
}

static void expect_refused(const char *text, const char *part)
{
    struct error error = { 0 };
    struct json_document *document = NULL;
    struct json root;
    struct arena arena = { 0 };
    struct pipeline_profile profile;
    enum status status = json_parse(&document, text, strlen(text), "profile.json", &error);
    if (status == STATUS_OK) {
        json_root(document, &root);
        status = pipeline_profile_read(&profile, &root, &arena, &error);
    }
    char message[2048];
    EXPECT(status == (part == NULL ? STATUS_OK : STATUS_BAD_INPUT));
    if (part != NULL) {
        EXPECT_PART(error_text(&error, message, sizeof message), part);
    } else if (status == STATUS_OK) {
        EXPECT_INT(profile.count, 1);
        EXPECT_REAL(profile.layers[0].saved_bytes, 7, 0);
    }
    json_free(document);
    arena_free(&arena);
}

#define LAYER(more)     "{\"forward_s\": 1, \"backward_s\": 2, \"activation_bytes\": 7, \"parameter_bytes\": 9" more "}"
#define PROFILE(layers) "{\"schema\": \"memwall.profile/1\", \"layers\": [" layers "]}"

static void test_files(void)
{
    expect_refused(PROFILE(LAYER("")), NULL);
    expect_refused(PROFILE(""), "allowed are 1 to");
    expect_refused(PROFILE(LAYER(", \"fwd\": 1")), "fwd");
    expect_refused(PROFILE("{\"forward_s\": -1}"), "forward_s");
    expect_refused(PROFILE("{\"forward_s\": 1}"), "backward_s");
    expect_refused("{\"schema\": \"memwall.profile/2\", \"layers\": []}", "memwall.profile/1");
    expect_refused(PROFILE("{\"forward_s\": 0, \"backward_s\": 0, \"activation_bytes\": 0, \"parameter_bytes\": 0}"),
                   "at least one layer must take time");
}

static void test_refused(void)
{
    struct profile_layer layers[VGG16_LAYERS];
    struct pipeline_profile profile = vgg16_profile(layers);
    struct arena arena = { 0 };
    struct error error = { 0 };
    struct pipedream_answer answer;
    struct pipedream_request request = { .profile = &profile, .workers = 0, .bandwidth_bytes_per_s = 1e9 };
    EXPECT_INT(pipedream_search(&request, &answer, &arena, &error), STATUS_BAD_INPUT);
    EXPECT_PART(error.message, "0 workers");
    request.workers = 4;
    request.bandwidth_bytes_per_s = 0;
    EXPECT_INT(pipedream_search(&request, &answer, &arena, &error), STATUS_BAD_INPUT);
    request.bandwidth_bytes_per_s = 1e9;
    request.replicas = 3;
    EXPECT_INT(pipedream_search(&request, &answer, &arena, &error), STATUS_BAD_INPUT);
    EXPECT_PART(error.message, "must divide");
    arena_free(&arena);
}

/* All four planners over chains on one scenario: an answer within its budget that the simulator confirms, the same on any number of threads; recomputation appears as budgets shrink. */
static void test_planners(void)
{
    static const char *const names[] = { "pipedream", "dapple", "hippie", "checkmate" };
    static struct scenario scenario;
    struct error error = { 0 };
    const char *text = "{\"model\": \"bert-huge-32\", \"machine\": \"box-8x-titan-rtx\","
                       " \"training\": {\"global_batch\": 64, \"micro_batch\": 8}}";
    EXPECT_INT(scenario_parse(&scenario, text, "test", NULL, 0, &error), STATUS_OK);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const double budgets[] = { 20 * 0x1p30, 7 * 0x1p30 };
        const struct planner *planner = planner_find(names[i], &error);
        struct planner_request request = {
            .scenario = &scenario, .budgets_bytes = budgets, .budget_count = 2, .top = 2
        };
        struct planner_answer answers[2];
        parameters_defaults(planner->parameters, planner->parameter_count, &request.parameters);
        for (uint32_t t = 0; t < 2; t++) {
            request.threads = t + 1;
            EXPECT_INT(planner_search(planner, &request, &answers[t], &error), STATUS_OK);
        }
        for (uint32_t b = 0; b < 2; b++) {
            const struct planner_result *result = &answers[0].results[b];
            bool recomputes = i >= 2;
            EXPECT_INT(result->found, recomputes || b == 0);
            EXPECT_REAL(answers[1].results[b].best.step_time_s, result->best.step_time_s, 0);
            if (result->found) {
                unsigned again = 0;
                for (int64_t l = 0; l < scenario.model.layers; l++) {
                    again += result->best.plan.recompute[l] != RECOMPUTE_NONE;
                }
                printf("%s, %g GiB: %u stages, %.4g GiB, %.4g s, %u layers recomputed\n", names[i], budgets[b] / 0x1p30,
                       result->best.stage_count, (double)result->best.simulated.peak_bytes / 0x1p30,
                       result->best.simulated.step_time_s, again);
                EXPECT((double)result->best.simulated.peak_bytes <= budgets[b]);
                EXPECT((again > 0) == (b == 1));
            } else {
                EXPECT(result->smallest_budget_bytes > budgets[b]);
            }
        }
        planner_answer_free(&answers[0]);
        planner_answer_free(&answers[1]);
    }
    scenario_free(&scenario);
}

/* Memory of the stages as the order of the plan has it: what the simulator finds on the fullest device is that and what is not counted, runtime and short-lived tensors: less than a further micro-batch, or the three older versions of four stages, would add. With recomputation the layer being repeated is among the short-lived; counting it down twice would be 4 GiB off and more. */
static void test_memory_by_order(void)
{
    static const struct {
        const char *planner, *order, *recompute;
        uint32_t parameter;
        double word;
    } cases[] = {
        { "pipedream", "1f1b", "none", 2, 0 },          { "pipedream", "pipedream", "none", 2, 1 },
        { "pipedream", "pipedream-2bw", "none", 2, 2 }, { "hippie", "lsps-a", "none", 0, 0 },
        { "hippie", "lsps-b", "none", 0, 1 },           { "dapple", "1f1b", "none", 0, 0 },
        { "pipedream", "pipedream", "full", 2, 1 },     { "dapple", "1f1b", "full", 0, 0 },
        { "dapple", "1f1b", "selective", 0, 0 },        { "hippie", "lsps-a", "full", 0, 0 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        static struct scenario scenario;
        struct error error = { 0 };
        const struct planner *planner = planner_find(cases[i].planner, &error);
        char text[256];
        snprintf(text, sizeof text,
                 "{\"model\": \"bert-huge-32\", \"machine\": \"dgx-a100-80gb\", \"gpus\": 4, \"recompute\": \"%s\","
                 " \"training\": {\"global_batch\": 256, \"micro_batch\": 8}}",
                 cases[i].recompute);
        EXPECT_INT(scenario_parse(&scenario, text, "test", NULL, 0, &error), STATUS_OK);
        const double budget = scenario.machine.gpu.usable_bytes;
        struct planner_request request = {
            .scenario = &scenario, .budgets_bytes = &budget, .budget_count = 1, .threads = 1, .top = 4
        };
        struct planner_answer answer;
        parameters_defaults(planner->parameters, planner->parameter_count, &request.parameters);
        if (cases[i].word > 0 || strcmp(cases[i].planner, "hippie") == 0) {
            request.parameters.value[cases[i].parameter] = cases[i].word;
        }
        EXPECT_INT(planner_search(planner, &request, &answer, &error), STATUS_OK);
        const struct planner_result *result = &answer.results[0];
        for (uint32_t k = 0; k <= result->runner_up_count; k++) {
            const struct planner_choice *choice = k == 0 ? &result->best : &result->runners_up[k - 1];
            double most = 0, peak = (double)choice->simulated.peak_bytes;
            for (uint32_t s = 0; s < choice->stage_count; s++) {
                most = fmax(most, choice->stages[s].memory_bytes);
            }
            printf("%s, %s, recompute %s, %u stages: %.4g GiB counted, %.4g simulated\n", cases[i].planner,
                   choice->plan.order, cases[i].recompute, choice->stage_count, most / 0x1p30, peak / 0x1p30);
            EXPECT_TEXT(choice->plan.order, cases[i].order);
            EXPECT(peak >= most && peak - most < 0x1p30);
        }
        planner_answer_free(&answer);
        scenario_free(&scenario);
    }
}

/* Each stage's memory in an answer is what the simulator finds there but for a pass's short-lived tensors (the logits are half of a 16-bit table), the last one's with its own copy of a tied table: forgotten, that
 * would be 18 bytes a parameter, nine tables. */
static void test_memory_of_stages(void)
{
    static struct scenario scenario;
    struct error error = { 0 };
    const struct planner *planner = planner_find("hippie", &error);
    const char *text = "{\"model\": {\"family\": \"gpt\", \"layers\": 8, \"hidden\": 1024, \"heads\": 16, \"vocab\": "
                       "200000, \"max_sequence\": 512}, \"machine\": \"dgx-a100-80gb\", \"gpus\": 4, \"training\": "
                       "{\"global_batch\": 16, \"micro_batch\": 1}}";
    EXPECT_INT(scenario_parse(&scenario, text, "test", NULL, 0, &error), STATUS_OK);
    const double budget = scenario.machine.gpu.usable_bytes;
    struct planner_request request = {
        .scenario = &scenario, .budgets_bytes = &budget, .budget_count = 1, .threads = 1, .top = 4
    };
    struct planner_answer answer;
    parameters_defaults(planner->parameters, planner->parameter_count, &request.parameters);
    EXPECT_INT(planner_search(planner, &request, &answer, &error), STATUS_OK);
    const struct planner_result *result = &answer.results[0];
    const double table_bytes = 2.0 * 200000 * 1024;
    uint32_t compared = 0;
    for (uint32_t k = 0; k <= result->runner_up_count; k++) {
        const struct planner_choice *choice = k == 0 ? &result->best : &result->runners_up[k - 1];
        struct schedule schedule = { 0 };
        struct timeline timeline = { 0 };
        EXPECT_INT(oracle_simulate(&scenario, &scenario.software, &choice->plan, NULL, &schedule, &timeline, &error),
                   STATUS_OK);
        for (uint32_t r = 0; r < schedule.rank_count; r++) {
            double counted = choice->stages[schedule.ranks[r].stage].memory_bytes, peak = 0;
            for (uint32_t i = 0; i < schedule.space_count; i++) {
                if (schedule.spaces[i].kind == SPACE_DEVICE &&
                    schedule.spaces[i].location == schedule.devices[schedule.ranks[r].first_device]) {
                    peak = (double)timeline.spaces[i].peak_bytes;
                }
            }
            printf("stage %u of %u: %.4g GiB counted, %.4g simulated\n", schedule.ranks[r].stage, choice->stage_count,
                   counted / 0x1p30, peak / 0x1p30);
            EXPECT(peak >= counted && peak - counted < table_bytes);
            compared++;
        }
        timeline_free(&timeline);
        schedule_free(&schedule);
    }
    EXPECT(compared >= 6); /* 2 and 4 stages */
    planner_answer_free(&answer);
    scenario_free(&scenario);
}

static void test_no_depth(void)
{
    static struct scenario scenario;
    struct error error = { 0 };
    const char *text = "{\"model\": \"bert-huge-32\", \"machine\": \"box-8x-titan-rtx\", \"parallel\": {\"tensor\": 8},"
                       " \"training\": {\"global_batch\": 3, \"micro_batch\": 1}}";
    EXPECT_INT(scenario_parse(&scenario, text, "test", NULL, 0, &error), STATUS_OK);
    scenario.plan.micro_batch = 2; /* as a planner might meet it */
    const struct planner *planner = planner_find("pipedream", &error);
    const double budget = 20 * 0x1p30;
    struct planner_request request = {
        .scenario = &scenario, .budgets_bytes = &budget, .budget_count = 1, .threads = 1
    };
    struct planner_answer answer;
    parameters_defaults(planner->parameters, planner->parameter_count, &request.parameters);
    EXPECT_INT(planner_search(planner, &request, &answer, &error), STATUS_BAD_INPUT);
    EXPECT_PART(error.message, "do not divide a global batch of 3");
    scenario_free(&scenario);
}

TEST_MAIN(TEST(test_planners), TEST(test_memory_by_order), TEST(test_memory_of_stages), TEST(test_no_depth),
          TEST(test_vgg16), TEST(test_brute_force), TEST(test_files), TEST(test_refused))
