/* Stages with replicas of their own (sim/plan/plan_replicas.h): dealt micro-batches against the exact period of their event graph and against PipeDream's planner, cut ones against plain data parallelism, and what
 * may not be asked.
 *
 * The period. With all passes of a stage alike, replica and micro-batch number may be forgotten: F_s before F_{s+1} and B_{s+1} before B_s of the same micro-batch, F_s(i) before B_s(i - w_s r_s), B_s(i) before
 * F_s(i + (w_s + 1) r_s), where w_s is the warm-up. Its simple cycles are a replica's own (C_s a micro-batch of r_s) and, for s < t, forwards s to t and backwards t to s, which gain (w_s + 1) r_s - w_t r_t
 * micro-batches in sum of C_k. The steady period of a micro-batch is the largest ratio of them. */
#include <sys/resource.h>

#include "sim/base/check.h"
#include "sim/base/units.h"
#include "sim/plan/bare_pipeline.h"
#include "sim/plan/plan_replicas.h"
#include "strategies/planners/dapple_search.h"
#include "strategies/planners/plan_answer.h"
#include "strategies/planners/pipedream_search.h"
#include "tests/lower_run.h"

enum { STAGES_MAX = 5 };

struct chain {
    uint32_t stages, replicas[STAGES_MAX];
    double forward[STAGES_MAX], backward[STAGES_MAX];
};

static struct bare_pipeline_result run_chain(const struct chain *chain, const char *order, uint32_t micro_batches)
{
    struct error error = { 0 };
    struct schedule schedule;
    struct timeline timeline;
    struct bare_pipeline_result result = { 0 };
    const struct exec_options options = { .audit = true };
    struct bare_pipeline_request request = { .order = registry_order(order, &error),
                                             .order_request = { .stages = chain->stages,
                                                                .micro_batches = micro_batches,
                                                                .virtual_stages = 1,
                                                                .replicas = chain->replicas },
                                             .stage_forward = chain->forward,
                                             .stage_backward = chain->backward };
    parameters_defaults(request.order->parameters, request.order->parameter_count, &request.order_request.parameters);
    if (bare_pipeline_schedule(&request, &schedule, &error) != STATUS_OK ||
        exec_sim.run(&schedule, &options, &timeline, &error) != STATUS_OK ||
        bare_pipeline_measure(&request, &schedule, &timeline, &result, &error) != STATUS_OK) {
        printf("%s\n", error.message);
        exit(1);
    }
    timeline_free(&timeline);
    schedule_free(&schedule);
    return result;
}

static uint32_t warm_up(const struct chain *chain, uint32_t s)
{
    uint32_t later = 0;
    for (uint32_t t = s + 1; t < chain->stages; t++) {
        later += chain->replicas[t];
    }
    return (later + chain->replicas[s] - 1) / chain->replicas[s];
}

static double work_of(const struct chain *chain, uint32_t from, uint32_t to)
{
    double sum = 0;
    for (uint32_t s = from; s <= to; s++) {
        sum += chain->forward[s] + chain->backward[s];
    }
    return sum;
}

static uint32_t gcd(uint32_t a, uint32_t b)
{
    while (b != 0) {
        uint32_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* The period, and after how many micro-batches every time repeats: the least common multiple of the slowest cycles' gains. */
static double period_of(const struct chain *chain, uint32_t *cyclicity)
{
    double period = 0;
    *cyclicity = 1;
    for (uint32_t s = 0; s < chain->stages; s++) {
        for (uint32_t t = s; t < chain->stages; t++) {
            uint32_t r = chain->replicas[s];
            uint32_t gain = t == s ? r : (warm_up(chain, s) + 1) * r - warm_up(chain, t) * chain->replicas[t];
            double ratio = work_of(chain, s, t) / gain;
            if (ratio > period * (1 + 1e-12)) {
                period = ratio;
                *cyclicity = gain;
            } else if (ratio > period * (1 - 1e-12)) {
                *cyclicity = *cyclicity / gcd(*cyclicity, gain) * gain;
            }
        }
    }
    return period;
}

static uint32_t multiple_of(const struct chain *chain)
{
    uint32_t multiple = 1;
    for (uint32_t s = 0; s < chain->stages; s++) {
        multiple = multiple / gcd(multiple, chain->replicas[s]) * chain->replicas[s];
    }
    return multiple;
}

/* Longer runs last a period a micro-batch more, once the pipeline has filled and settled: exactly, over the cyclicity. */
static void expect_period(const struct chain *chain)
{
    uint32_t cyclicity, multiple = multiple_of(chain);
    double period = period_of(chain, &cyclicity);
    uint32_t unit = cyclicity / gcd(cyclicity, multiple) * multiple;
    uint32_t before = (400 / unit + 1) * unit;
    struct bare_pipeline_result shorter = run_chain(chain, "pipedream", before);
    struct bare_pipeline_result longer = run_chain(chain, "pipedream", before + unit);
    /* every pass is a whole number of picoseconds, so both makespans are exact; their difference is read in doubles of some 1e4 units */
    double got = (longer.makespan - shorter.makespan) / unit;
    if (!(fabs(got - period) <= 1e-9 * period)) {
        TEST_FAIL_("period %.12g, expected %.12g (cyclicity %u): replicas %u %u %u %u %u, work %g %g %g %g %g", got,
                   period, cyclicity, chain->replicas[0], chain->replicas[1], chain->replicas[2], chain->replicas[3],
                   chain->replicas[4], work_of(chain, 0, 0), work_of(chain, 1, 1), work_of(chain, 2, 2),
                   work_of(chain, 3, 3), work_of(chain, 4, 4));
    }
    for (uint32_t row = 0; row < longer.stage_count; row++) { /* A.9: a weight version an activation in flight */
        uint32_t in_flight = warm_up(chain, longer.stages[row].stage) + 1;
        EXPECT_INT(longer.stages[row].weight_versions, in_flight);
        EXPECT_REAL(longer.stages[row].peak_activations, in_flight, 0);
    }
    bare_pipeline_result_free(&shorter);
    bare_pipeline_result_free(&longer);
}

static void test_period(void)
{
    uint64_t state = test_seed;
    for (int i = 0; i < 200; i++) {
        struct chain chain = { .stages = 1 + (uint32_t)test_below(&state, STAGES_MAX) };
        for (uint32_t s = 0; s < chain.stages; s++) {
            chain.replicas[s] = 1 + (uint32_t)test_below(&state, 4);
            chain.forward[s] = 1 + (double)test_below(&state, 5);
            chain.backward[s] = 1 + (double)test_below(&state, 5);
        }
        expect_period(&chain);
    }
}

/* As the planner sees it: layers without parameters. */
static double planned_s(const struct chain *chain, bool chosen_replicas)
{
    struct profile_layer layers[STAGES_MAX] = { 0 };
    uint32_t workers = 0;
    double slowest = 0;
    for (uint32_t s = 0; s < chain->stages; s++) {
        layers[s] =
            (struct profile_layer){ .name = "stage", .forward_s = chain->forward[s], .backward_s = chain->backward[s] };
        workers += chain->replicas[s];
    }
    const struct pipeline_profile profile = { "chain", layers, chain->stages };
    const struct pipedream_request request = { .profile = &profile, .workers = workers, .bandwidth_bytes_per_s = 1e9 };
    if (chosen_replicas) {
        struct arena arena = { 0 };
        struct error error = { 0 };
        struct pipedream_answer answer;
        EXPECT_INT(pipedream_search(&request, &answer, &arena, &error), STATUS_OK);
        slowest = answer.bottleneck_s;
        arena_free(&arena);
        return slowest;
    }
    for (uint32_t s = 0; s < chain->stages; s++) {
        const struct pipeline_stage stage = { s, 1, chain->replicas[s] };
        slowest = fmax(slowest, pipedream_stage_s(&request, &stage));
    }
    return slowest;
}

/* Where every stage's replicas divide those behind it, the warm-up is exactly enough: throughput is the slowest stage over its replicas, as the planner says. No plan beats what it says is best. */
static void test_planner_time(void)
{
    uint64_t state = test_seed;
    for (int i = 0; i < 100; i++) {
        struct chain chain = { .stages = 1 + (uint32_t)test_below(&state, STAGES_MAX) };
        for (uint32_t s = chain.stages, later = 0; s-- > 0;) {
            uint32_t r = 1 + (uint32_t)test_below(&state, 4);
            while (later % r != 0) {
                r--;
            }
            chain.replicas[s] = r;
            later += r;
            chain.forward[s] = 1 + (double)test_below(&state, 5);
            chain.backward[s] = 1 + (double)test_below(&state, 5);
        }
        uint32_t cyclicity;
        EXPECT_REAL(period_of(&chain, &cyclicity), planned_s(&chain, false), 1e-12);
        EXPECT(period_of(&chain, &cyclicity) >= planned_s(&chain, true) * (1 - 1e-12));
        expect_period(&chain);
    }
    /* Else it may fall short: 3 replicas before 2 before 1 of equal load. Stage 1 takes 2 ahead on each of 2 replicas, so of the 6 in flight on stage 0 only 4 turn around its work and stage 1's, 5 units. */
    const struct chain short_of = { 3, { 3, 2, 1 }, { 1.5, 1, 0.5 }, { 1.5, 1, 0.5 } };
    uint32_t cyclicity;
    EXPECT_REAL(period_of(&short_of, &cyclicity), 1.25 * planned_s(&short_of, false), 1e-12);
    expect_period(&short_of);
}

/* With a flush: all stages of equal load, cut: they are equal stages, C.1. DAPPLE's length for it counts the first micro-batch as if one device ran it. */
static void test_cut_makespan(void)
{
    uint64_t state = test_seed;
    for (int i = 0; i < 50; i++) {
        uint32_t p = 1 + (uint32_t)test_below(&state, STAGES_MAX), m = 1 + (uint32_t)test_below(&state, 12);
        struct error error = { 0 };
        struct chain chain = { .stages = p };
        struct profile_layer layers[STAGES_MAX] = { 0 };
        struct pipeline_stage stages[STAGES_MAX];
        double total = 0;
        for (uint32_t s = 0; s < p; s++) {
            chain.replicas[s] = 1 + (uint32_t)test_below(&state, 4);
            chain.forward[s] = chain.replicas[s];
            chain.backward[s] = 2 * chain.replicas[s];
            layers[s] = (struct profile_layer){ .forward_s = chain.forward[s], .backward_s = chain.backward[s] };
            stages[s] = (struct pipeline_stage){ s, 1, chain.replicas[s] };
            total += chain.forward[s] + chain.backward[s];
        }
        struct bare_pipeline_request request = { .order = registry_order("1f1b", &error),
                                                 .order_request = { p, m, 1, .replicas = NULL },
                                                 .stage_forward = chain.forward,
                                                 .stage_backward = chain.backward,
                                                 .cut_replicas = chain.replicas };
        struct schedule schedule;
        struct timeline timeline;
        struct bare_pipeline_result result = { 0 };
        const struct exec_options options = { .audit = true };
        EXPECT_INT(bare_pipeline_schedule(&request, &schedule, &error), STATUS_OK);
        EXPECT_INT(exec_sim.run(&schedule, &options, &timeline, &error), STATUS_OK);
        EXPECT_INT(bare_pipeline_measure(&request, &schedule, &timeline, &result, &error), STATUS_OK);
        EXPECT_REAL(result.makespan, 3.0 * (m + p - 1), 1e-12);
        const struct pipeline_profile profile = { "chain", layers, p };
        const struct dapple_request asked = { .profile = &profile,
                                              .workers = 1,
                                              .micro_batches = m,
                                              .transfer_bytes_per_s = 1e9,
                                              .reduce_bytes_per_s = 1e9 };
        const struct pipeline_split split = { stages, p };
        EXPECT_REAL(dapple_length(&asked, &split).length_s, 3.0 * (m - 1) + total, 1e-12);
        EXPECT(result.makespan <= dapple_length(&asked, &split).length_s * (1 + 1e-12));
        bare_pipeline_result_free(&result);
        timeline_free(&timeline);
        schedule_free(&schedule);
    }
}

/* ---- through the lowering ---- */

#define MODEL                                                                                                          \
    "{\"family\":\"gpt\",\"layers\":7,\"hidden\":1024,\"heads\":16,\"ffn\":4096,\"vocab\":512,\"max_sequence\":512,"   \
    "\"tied_head\":%s}"
#define HEAD                                                                                                           \
    "{\"schema\":\"memwall.scenario/1\",\"name\":\"replicas\",\"model\":" MODEL                                        \
    ",\"machine\":\"dgx-a100-80gb\",\"software\":\"%s\",\"gpus\":%u,"

/* Times of the passes, bytes sent each way, and compute ops of each rank. */
struct passes {
    int64_t first_ps, last_ps;
    double forward_bytes, backward_bytes;
};

static struct passes passes_of(const struct run *run)
{
    const struct schedule *s = &run->schedule;
    struct passes p = { .first_ps = INT64_MAX };
    for (uint32_t i = 0; i < s->op_count; i++) {
        const struct sched_op *op = &s->ops[i];
        if (op->opcode == OP_COMPUTE && (op->phase == PHASE_FORWARD || op->phase == PHASE_BACKWARD)) {
            p.first_ps = run->timeline.ops[i].start_ps < p.first_ps ? run->timeline.ops[i].start_ps : p.first_ps;
            p.last_ps = run->timeline.ops[i].end_ps > p.last_ps ? run->timeline.ops[i].end_ps : p.last_ps;
        } else if (op->opcode == OP_SEND) {
            bool forward = strcmp(sched_label(s, s->queues[op->queue].label), "send forward") == 0;
            *(forward ? &p.forward_bytes : &p.backward_bytes) += s->works[op->work].bytes;
        }
    }
    return p;
}

/* Two replicas of each of two stages are two pipelines, dealt or cut. */
static void test_equal_replicas(void)
{
    struct run plain, dealt, cut;
    const char *rest = "\"plan\":{\"stage_layers\":[4,3]},\"fold\":false}";
    for (int tensor = 1; tensor <= 2; tensor++) {
        run_format(&plain,
                   HEAD
                   "\"training\":{\"micro_batch\":2,\"global_batch\":32},\"parallel\":{\"tensor\":%d,\"pipeline\":2,"
                   "\"data\":2},%s",
                   "false", "ideal", 4 * tensor, tensor, rest);
        run_format(&dealt,
                   HEAD "\"training\":{\"micro_batch\":2,\"global_batch\":32},\"parallel\":{\"tensor\":%d,"
                        "\"stage_replicas\":[2,2],\"replica_sharing\":\"deal\"},%s",
                   "false", "ideal", 4 * tensor, tensor, rest);
        run_format(&cut,
                   HEAD "\"training\":{\"micro_batch\":4,\"global_batch\":32},\"parallel\":{\"tensor\":%d,"
                        "\"stage_replicas\":[2,2]},%s",
                   "false", "ideal", 4 * tensor, tensor, rest);
        struct passes p = passes_of(&plain), d = passes_of(&dealt), c = passes_of(&cut);
        EXPECT_INT(d.last_ps - d.first_ps, p.last_ps - p.first_ps);
        EXPECT_INT(c.last_ps - c.first_ps, p.last_ps - p.first_ps);
        EXPECT_REAL(d.forward_bytes, p.forward_bytes, 0);
        EXPECT_REAL(c.backward_bytes, p.backward_bytes, 0);
        for (uint32_t device = 0; device < 4 * (uint32_t)tensor; device++) {
            EXPECT_INT(peak_of(&dealt, device), peak_of(&plain, device));
            EXPECT_INT(peak_of(&cut, device), peak_of(&plain, device));
        }
        run_free(&plain);
        run_free(&dealt);
        run_free(&cut);
    }
}

/* The same on a stack whose sends and receives are batched and waited for (lower_exchange.c): a replica's peer never changes, so they are here as well. Each pass of each replica starts and ends when it does in
 * the two pipelines, in every order and way of sharing. */
static void test_equal_replicas_exchange(void)
{
    static const struct {
        const char *order, *sharing;
    } cases[] = { { "gpipe", "deal" }, { "1f1b", "deal" }, { "pipedream", "deal" }, { "pipedream-2bw", "deal" },
                  { "gpipe", "cut" },  { "1f1b", "cut" },  { "dapple-pb", "cut" },  { "zb-h1", "cut" } };
    const char *rest = "\"plan\":{\"stage_layers\":[3,2,2]},\"fold\":false}";
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct run plain, own;
        run_format(&plain,
                   HEAD "\"training\":{\"micro_batch\":2,\"global_batch\":32},\"parallel\":{\"pipeline\":3,\"data\":2,"
                        "\"pipeline_order\":\"%s\"},%s",
                   "false", "megatron", 6, cases[i].order, rest);
        run_format(&own,
                   HEAD
                   "\"training\":{\"micro_batch\":%u,\"global_batch\":32},\"parallel\":{\"stage_replicas\":[2,2,2],"
                   "\"pipeline_order\":\"%s\",\"replica_sharing\":\"%s\"},%s",
                   "false", "megatron", 6, strcmp(cases[i].sharing, "cut") == 0 ? 4 : 2, cases[i].order,
                   cases[i].sharing, rest);
        struct passes p = passes_of(&plain), o = passes_of(&own);
        printf("  %s, %s: passes of %.6g s, of two pipelines %.6g s\n", cases[i].order, cases[i].sharing,
               s_from_ps(o.last_ps - o.first_ps), s_from_ps(p.last_ps - p.first_ps));
        EXPECT_INT(o.last_ps - o.first_ps, p.last_ps - p.first_ps);
        for (uint32_t device = 0; device < 6; device++) {
            EXPECT_INT(peak_of(&own, device), peak_of(&plain, device));
        }
        run_free(&plain);
        run_free(&own);
    }
}

static uint64_t most_resident_bytes(void)
{
    struct rusage usage;
    CHECK(getrusage(RUSAGE_SELF, &usage) == 0);
    return (uint64_t)usage.ru_maxrss * 1024;
}

/* 2,048 replicas of both stages, one micro-batch each: lowering takes less memory than a place for every micro-batch on every replica would alone (one number each for the 7 layers' activations, where four are kept): what each of
 * them never runs takes no room there. */
static void test_many_replicas(void)
{
    enum { REPLICAS = 2048 };
    const uint64_t before = most_resident_bytes(), places = (uint64_t)REPLICAS * REPLICAS * 7 * 4 * sizeof(uint32_t);
    struct run run = { 0 };
    struct json_document *document = NULL;
    struct json root;
    char text[2048];
    snprintf(
        text, sizeof text,
        HEAD
        "\"nodes\":%d,\"training\":{\"micro_batch\":1,\"global_batch\":%d},\"parallel\":{\"stage_replicas\":[%d,%d],"
        "\"replica_sharing\":\"deal\"},\"plan\":{\"stage_layers\":[4,3]}}",
        "false", "megatron", 2 * REPLICAS, REPLICAS / 4, REPLICAS, REPLICAS, REPLICAS);
    EXPECT_INT(json_parse(&document, text, strlen(text), "scenario", &run.error), STATUS_OK);
    json_root(document, &root);
    EXPECT_INT(scenario_from_json(&run.scenario, &root, &run.error), STATUS_OK);
    json_free(document);
    struct lower_request request = {
        .model = &run.scenario.model,
        .cluster = &run.scenario.cluster,
        .software = &run.scenario.software,
        .plan = &run.scenario.plan,
    };
    EXPECT_INT(lower_schedule(&request, &run.schedule, &run.error), STATUS_OK);
    EXPECT_INT(run.schedule.rank_count, 2 * REPLICAS);
    printf("  %d replicas: %.3g MB more, places for all micro-batches %.3g MB\n", REPLICAS,
           (double)(most_resident_bytes() - before) / 1e6, (double)places / 1e6);
    EXPECT(most_resident_bytes() - before < places);
    schedule_free(&run.schedule);
    scenario_free(&run.scenario);
}

/* What crosses a boundary is every micro-batch once each way, however it is shared; GPUs are numbered stage after stage; gradients are reduced over the stage's own replicas. */
static void test_traffic(void)
{
    static const struct {
        const char *order, *sharing;
    } cases[] = { { "1f1b", "deal" }, { "1f1b", "cut" },      { "gpipe", "deal" },         { "gpipe", "cut" },
                  { "zb-h1", "cut" }, { "dapple-pb", "cut" }, { "pipedream-2bw", "deal" }, { "pipedream", "deal" } };
    static const uint32_t lists[][3] = { { 4, 2, 1 }, { 1, 4, 2 }, { 3, 2, 1 }, { 1, 1, 6 }, { 2, 3, 2 } };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        for (size_t k = 0; k < sizeof lists / sizeof lists[0]; k++) {
            const uint32_t *r = lists[k];
            uint32_t gpus = r[0] + r[1] + r[2];
            struct run run;
            run_format(
                &run,
                HEAD
                "\"training\":{\"micro_batch\":12,\"global_batch\":144},\"parallel\":{\"stage_replicas\":[%u,%u,%u],"
                "\"pipeline_order\":\"%s\",\"replica_sharing\":\"%s\",\"zero_stage\":%d},\"plan\":{\"stage_layers\":"
                "[3,2,2]}}",
                "true", "megatron", gpus, r[0], r[1], r[2], cases[i].order, cases[i].sharing,
                strncmp(cases[i].order, "pipedream", 9) == 0 ? 0 : (int)(k % 2));
            const struct schedule *s = &run.schedule;
            double steps = (double)timeline_step(s, &run.timeline).steps;
            double boundary = 2.0 * 512 * 1024 * 144 * steps; /* fp16, both boundaries: */
            struct passes p = passes_of(&run);
            EXPECT_REAL(p.forward_bytes, 2 * boundary, 1e-12);
            EXPECT_REAL(p.backward_bytes, 2 * boundary, 1e-12);
            EXPECT_INT(s->rank_count, gpus);
            for (uint32_t rank = 0; rank < s->rank_count; rank++) {
                EXPECT_INT(s->devices[s->ranks[rank].first_device], rank);
                EXPECT_INT(s->ranks[rank].stage, rank < r[0] ? 0 : rank < r[0] + r[1] ? 1 : 2);
            }
            for (uint32_t g = 0; g < s->group_count; g++) {
                if (strcmp(sched_label(s, s->groups[g].label), "data") == 0) {
                    uint32_t first = s->group_members[s->groups[g].first_member];
                    uint32_t stage = first == 0 ? 0 : first == r[0] ? 1 : 2;
                    EXPECT_INT(s->groups[g].member_count, r[stage]);
                }
            }
            run_free(&run);
        }
    }
}

/* A plain twin of PipeDream with replicas that update together: all of a round (one micro-batch on each replica) have gone back before any of them takes its next forward. */
enum { TWIN_MICRO_BATCHES_MAX = 256 };
struct twin {
    const struct chain *chain;
    uint32_t micro_batches;
    double end[2][3][TWIN_MICRO_BATCHES_MAX]; /* forward, backward; 0: not known yet */
};

static double twin_end(struct twin *twin, int backward, uint32_t s, uint32_t i);

/* Every replica's k-th backward. */
static double twin_round(struct twin *twin, uint32_t s, uint32_t k)
{
    double end = 0;
    for (uint32_t j = 0; j < twin->chain->replicas[s]; j++) {
        end = fmax(end, twin_end(twin, 1, s, k * twin->chain->replicas[s] + j));
    }
    return end;
}

static double twin_end(struct twin *twin, int backward, uint32_t s, uint32_t i)
{
    const struct chain *c = twin->chain;
    double *end = &twin->end[backward][s][i], ready = 0;
    if (*end > 0) {
        return *end;
    }
    uint32_t r = c->replicas[s], w = warm_up(c, s), k = i / r;
    if (!backward) {
        ready = s > 0 ? twin_end(twin, 0, s - 1, i) : 0;
        ready = fmax(ready, k > w ? twin_round(twin, s, k - w - 1) : k > 0 ? twin_end(twin, 0, s, i - r) : 0);
        return *end = ready + c->forward[s];
    }
    ready = s + 1 < c->stages ? twin_end(twin, 1, s + 1, i) : twin_end(twin, 0, s, i);
    ready = fmax(ready, i + w * r < twin->micro_batches ? twin_end(twin, 0, s, i + w * r)
                        : k > 0                         ? twin_round(twin, s, k - 1)
                                                        : 0);
    return *end = ready + c->backward[s];
}

/* From the first forward of the last step but one to that of the last. */
static double twin_step(const struct chain *chain, uint32_t a_step, uint32_t steps)
{
    static struct twin twin;
    memset(&twin, 0, sizeof twin);
    twin.chain = chain;
    twin.micro_batches = a_step * steps;
    CHECK(twin.micro_batches <= TWIN_MICRO_BATCHES_MAX && chain->stages == 3);
    return twin_end(&twin, 0, 0, a_step * (steps - 1)) - twin_end(&twin, 0, 0, a_step * (steps - 2));
}

/* Least and most time of a stage's forward or backward pass, updates and reductions with the longest backwards. */
static void pass_times(const struct run *run, const struct chain *shape, struct chain *least, struct chain *most,
                       double *hop)
{
    const struct schedule *s = &run->schedule;
    *least = *most = *shape;
    *hop = 0;
    for (uint32_t r = 0; r < s->rank_count; r++) {
        uint32_t stage = s->ranks[r].stage;
        double forward = 0, backward = 0, updates = 0;
        double passes = 16.0 * timeline_step(s, &run->timeline).steps / shape->replicas[stage];
        for (uint32_t i = s->ranks[r].first_op; i < s->ranks[r].first_op + s->ranks[r].op_count; i++) {
            const struct sched_op *op = &s->ops[i];
            double ran = s_from_ps(run->timeline.ops[i].end_ps - run->timeline.ops[i].start_ps);
            bool computes = op->opcode == OP_COMPUTE;
            forward += computes && op->phase == PHASE_FORWARD ? ran : 0;
            backward += computes && op->phase == PHASE_BACKWARD ? ran : 0;
            updates += (computes && op->phase == PHASE_OPTIMIZER) || op->opcode == OP_ALL_REDUCE ? ran : 0;
            *hop = op->opcode == OP_RECV ? fmax(*hop, ran) : *hop;
        }
        bool first = !(least->forward[stage] > 0);
        least->forward[stage] = first ? forward / passes : fmin(least->forward[stage], forward / passes);
        least->backward[stage] = first ? backward / passes : fmin(least->backward[stage], backward / passes);
        most->forward[stage] = fmax(most->forward[stage], forward / passes);
        most->backward[stage] = fmax(most->backward[stage], (backward + updates) / passes);
    }
}

/* A step of PipeDream's plan lies between the twin's with the shortest passes and that with the longest, a hop before each. The slowest stage over its replicas alone may be less: replicas wait for each other. */
static void test_step_time(void)
{
    static const uint32_t lists[][3] = { { 4, 2, 1 }, { 1, 2, 4 }, { 2, 2, 2 }, { 4, 1, 2 } };
    for (size_t k = 0; k < sizeof lists / sizeof lists[0]; k++) {
        struct chain shape = { .stages = 3, .replicas = { lists[k][0], lists[k][1], lists[k][2] } }, least, most;
        struct run run;
        double hop;
        run_format(&run,
                   HEAD
                   "\"training\":{\"micro_batch\":8,\"global_batch\":128},\"parallel\":{\"stage_replicas\":[%u,%u,%u],"
                   "\"pipeline_order\":\"pipedream\"},\"plan\":{\"stage_layers\":[4,2,1]}}",
                   "false", "ideal", lists[k][0] + lists[k][1] + lists[k][2], lists[k][0], lists[k][1], lists[k][2]);
        const struct step_window window = timeline_step(&run.schedule, &run.timeline);
        pass_times(&run, &shape, &least, &most, &hop);
        for (uint32_t s = 0; s < 3; s++) {
            most.forward[s] += hop;
            most.backward[s] += hop;
        }
        double step_s = s_from_ps(window.to_ps - window.from_ps);
        double low = twin_step(&least, 16, window.steps), high = twin_step(&most, 16, window.steps);
        printf("  replicas %u,%u,%u: step %.6g s, twin %.6g to %.6g s, the slowest stage alone %.6g s\n", lists[k][0],
               lists[k][1], lists[k][2], step_s, low, high, 16 * planned_s(&least, false));
        EXPECT(step_s >= low * (1 - 1e-6));
        EXPECT(step_s <= high * (1 + 1e-6));
        run_free(&run);
    }
}

static struct hash hash_of(const struct run *run)
{
    return schedule_hash(&run->schedule);
}

/* Equal text, equal schedule; and the plan's own JSON says the same. */
static void test_hash(void)
{
    struct run first, second, other;
    const char *const text =
        HEAD "\"training\":{\"micro_batch\":4,\"global_batch\":64},\"parallel\":{\"stage_replicas\":[4,2,1],"
             "\"pipeline_order\":\"%s\"},\"plan\":{\"stage_layers\":[4,2,1]}}";
    for (int i = 0; i < 2; i++) {
        const char *order = i == 0 ? "pipedream" : "1f1b";
        run_format(&first, text, "true", "megatron", 7, order);
        run_format(&second, text, "true", "megatron", 7, order);
        struct hash a = hash_of(&first), b = hash_of(&second);
        EXPECT(memcmp(&a, &b, sizeof a) == 0);
        EXPECT_INT(first.timeline.end_ps, second.timeline.end_ps);
        struct strbuf json = { 0 };
        struct json_document *document = NULL;
        struct json root;
        struct arena arena = { 0 };
        struct error error = { 0 };
        struct plan again;
        plan_print_json(&first.scenario.plan, &first.scenario.model, &json);
        EXPECT_INT(json_parse(&document, json.text, json.length, "plan", &error), STATUS_OK);
        json_root(document, &root);
        EXPECT_INT(plan_from_json(&again, &first.scenario.model, &root, &arena, &error), STATUS_OK);
        EXPECT_INT(plan_gpus(&again), 7);
        EXPECT_INT(again.replica_sharing, i == 0 ? SHARING_DEAL : SHARING_CUT);
        struct lower_request request = {
            .model = &first.scenario.model,
            .cluster = &first.scenario.cluster,
            .software = &first.scenario.software,
            .plan = &again,
        };
        struct schedule schedule;
        EXPECT_INT(lower_schedule(&request, &schedule, &error), STATUS_OK);
        struct hash c = schedule_hash(&schedule);
        EXPECT(memcmp(&a, &c, sizeof a) == 0);
        schedule_free(&schedule);
        json_free(document);
        strbuf_free(&json);
        arena_free(&arena);
        run_free(&first);
        run_free(&second);
    }
    run_format(&first, text, "true", "megatron", 7, "1f1b");
    run_format(&other, text, "true", "megatron", 7, "gpipe");
    struct hash a = hash_of(&first), b = hash_of(&other);
    EXPECT(memcmp(&a, &b, sizeof a) != 0);
    run_free(&first);
    run_free(&other);
}

/* What the planners choose where stages may differ (7 layers with large ends on 8 GPUs) runs as they simulated it, through a plan file. */
static void test_planners(void)
{
    static const char *const names[] = { "pipedream", "dapple" };
    for (int i = 0; i < 2; i++) {
        struct run loaded;
        struct error error = { 0 };
        const struct planner *planner = planner_find(names[i], &error);
        double budget = 30e9;
        struct planner_request request = { .budgets_bytes = &budget, .budget_count = 1, .top = 3, .threads = 1 };
        struct planner_answer answer = { 0 };
        run_format(
            &loaded,
            "{\"schema\":\"memwall.scenario/"
            "1\",\"name\":\"planned\",\"model\":{\"family\":\"gpt\",\"layers\":7,\"hidden\":"
            "1024,\"heads\":16,\"ffn\":4096,\"vocab\":50257,\"max_sequence\":512,\"tied_head\":false},\"machine\":"
            "\"dgx1-v100-32gb\",\"training\":{\"micro_batch\":4,\"global_batch\":96}}");
        request.scenario = &loaded.scenario;
        parameters_defaults(planner->parameters, planner->parameter_count, &request.parameters);
        EXPECT_INT(planner_search(planner, &request, &answer, &error), STATUS_OK);
        uint32_t own = 0;
        for (uint32_t k = 0; k <= answer.results[0].runner_up_count; k++) {
            const struct planner_choice *choice =
                k == 0 ? &answer.results[0].best : &answer.results[0].runners_up[k - 1];
            if (choice->plan.stage_replicas == NULL) {
                continue;
            }
            own++;
            EXPECT_INT(plan_gpus(&choice->plan), 8);
            EXPECT_INT(choice->plan.replica_sharing, i == 0 ? SHARING_DEAL : SHARING_CUT);
            struct lower_request lower = {
                .model = &loaded.scenario.model,
                .cluster = &loaded.scenario.cluster,
                .software = &loaded.scenario.software,
                .plan = &choice->plan,
            };
            const struct exec_options options = { .cluster = &loaded.scenario.cluster,
                                                  .software = &loaded.scenario.software,
                                                  .audit = true };
            struct schedule schedule;
            struct timeline timeline;
            EXPECT_INT(lower_schedule(&lower, &schedule, &error), STATUS_OK);
            EXPECT_INT(exec_sim.run(&schedule, &options, &timeline, &error), STATUS_OK);
            const struct step_window window = timeline_step(&schedule, &timeline);
            EXPECT_REAL(s_from_ps(window.to_ps - window.from_ps), choice->simulated.step_time_s, 1e-12);
            timeline_free(&timeline);
            schedule_free(&schedule);
        }
        EXPECT_INT(own, 1);
        planner_answer_free(&answer);
        run_free(&loaded);
    }
}

static void expect_refused(const char *training, const char *parallel, const char *more, const char *path,
                           const char *part)
{
    struct run run;
    char text[2048];
    snprintf(text, sizeof text, HEAD "\"training\":{%s},\"parallel\":{%s}%s}", "true", "megatron", 7, training,
             parallel, more);
    run_scenario(&run, text);
    EXPECT_INT(run.status, STATUS_BAD_INPUT);
    EXPECT_TEXT(run.error.path, path);
    EXPECT_PART(run.error.message, part);
    run_free(&run);
}

static void test_refusals(void)
{
    const char *good = "\"micro_batch\":4,\"global_batch\":32", *layers = ",\"plan\":{\"stage_layers\":[4,2,1]}";
    expect_refused(good, "\"stage_replicas\":[4,2,2]", layers, "$.parallel.stage_replicas",
                   "8 replicas together x tensor 1 = 8 GPUs, but there are 7; [3,2,2] would do");
    expect_refused(good, "\"stage_replicas\":[4,2],\"pipeline\":3", layers, "$.parallel.stage_replicas",
                   "replicas of 2 stages, but parallel.pipeline is 3");
    expect_refused(good, "\"stage_replicas\":[4,2,0]", layers, "$.parallel.stage_replicas[2]", "0");
    expect_refused(good, "\"stage_replicas\":[4,2,1],\"data\":7", layers, "$.parallel.data", "leave data out");
    expect_refused(good, "\"replica_sharing\":\"cut\"", layers, "$.parallel.replica_sharing", "without that key");
    expect_refused(good, "\"stage_replicas\":[4,2,1],\"replica_sharing\":\"split\"", layers,
                   "$.parallel.replica_sharing", "cut");
    expect_refused("\"micro_batch\":6,\"global_batch\":24", "\"stage_replicas\":[4,2,1]", layers,
                   "$.training.micro_batch", "a multiple of 4; the nearest are 4 and 8");
    expect_refused("\"micro_batch\":2,\"global_batch\":20",
                   "\"stage_replicas\":[4,2,1],\"pipeline_order\":\"pipedream\"", layers, "$.training.global_batch",
                   "a multiple of 4; of global_batch the nearest are 16 and 24");
    expect_refused(good, "\"stage_replicas\":[4,2,1],\"pipeline_order\":\"pipedream\",\"replica_sharing\":\"cut\"",
                   layers, "$.parallel.replica_sharing", "use \"deal\"");
    expect_refused(good, "\"stage_replicas\":[4,2,1],\"pipeline_order\":\"zb-h1\",\"replica_sharing\":\"deal\"", layers,
                   "$.parallel.replica_sharing", "gpipe, 1f1b, pipedream and pipedream-2bw can");
    expect_refused(good, "\"stage_replicas\":[4,3],\"pipeline_order\":\"chimera\"", "", "$.parallel.virtual_stages",
                   "one chunk of the model");
    expect_refused(good,
                   "\"stage_replicas\":[4,2,1],\"pipeline_order\":{\"name\":\"pipedream\",\"vertical_sync\":true}",
                   layers, "$.parallel.pipeline_order", "leave vertical_sync out");
    expect_refused("\"micro_batch\":4,\"global_batch\":16",
                   "\"stage_replicas\":[4,2,1],\"pipeline_order\":\"pipedream-2bw\"", layers,
                   "$.parallel.pipeline_order", "the nearest is 8: training.global_batch 32 would do");
    expect_refused("\"micro_batch\":4,\"global_batch\":12",
                   "\"stage_replicas\":[1,3,3],\"pipeline_order\":\"pipedream-2bw\"", layers,
                   "$.parallel.pipeline_order", "as many micro-batches as are in flight");
    expect_refused("\"micro_batch\":4,\"global_batch\":24",
                   "\"stage_replicas\":[1,3,3],\"pipeline_order\":\"pipedream-2bw\"", layers,
                   "$.parallel.pipeline_order", "the nearest is 9: training.global_batch 36 would do");
    expect_refused(good, "\"stage_replicas\":[4,2,1]",
                   ",\"memory_policy\":\"zero-offload\",\"plan\":{\"stage_layers\":[4,2,1]}", "$.memory_policy",
                   "use \"resident\"");
    expect_refused(good, "\"stage_replicas\":[4,2,1],\"layers\":[{\"layers\":7,\"tensor\":1}]", layers,
                   "$.parallel.layers", "do not go with stage_replicas");
    expect_refused(good, "\"stage_replicas\":[4,2,1]", ",\"plan\":{\"stage_layers\":[4,2,1],\"stage_places\":[2,1,0]}",
                   "$.plan", "equally many GPUs");
}

/* The scheduler's own times are what a device has of a stage's layers: of a stage that cuts them over two, half. */
static void test_auto(void)
{
    static const char *const orders[] = { "\"auto\"", "{\"name\":\"auto\",\"forward\":1,\"backward\":2}",
                                          "{\"name\":\"auto\",\"forward\":[4,2,1],\"backward\":[8,4,2]}" };
    struct hash hashes[3];
    for (int i = 0; i < 3; i++) {
        struct run run;
        run_format(&run,
                   HEAD "\"training\":{\"micro_batch\":4,\"global_batch\":32},\"parallel\":{\"stage_replicas\":[4,2,1],"
                        "\"pipeline_order\":%s},\"plan\":{\"stage_layers\":[4,2,1]}}",
                   "true", "megatron", 7, orders[i]);
        hashes[i] = hash_of(&run);
        run_free(&run);
    }
    EXPECT(memcmp(&hashes[0], &hashes[1], sizeof hashes[0]) == 0);
    EXPECT(memcmp(&hashes[0], &hashes[2], sizeof hashes[0]) != 0);
}

/* One GPU may have so many peers only: refused, whether the pieces of one message or the queues of all of them are too many. */
static void test_too_many_peers(void)
{
    static const uint32_t others[] = { 103, 199 };
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        struct run run;
        char text[1024];
        snprintf(text, sizeof text,
                 HEAD "\"nodes\":25,\"training\":{\"micro_batch\":%u,\"global_batch\":%u},\"parallel\":{"
                      "\"stage_replicas\":[1,%u]},\"plan\":{\"stage_layers\":[4,3]}}",
                 "false", "megatron", 1 + others[i], others[i], 2 * others[i], others[i]);
        run_scenario(&run, text);
        EXPECT_INT(run.status, STATUS_LIMIT);
        EXPECT_PART(run.error.message, "give neighbouring stages replicas that differ less");
        run_free(&run);
    }
}

TEST_MAIN(TEST(test_period), TEST(test_planner_time), TEST(test_cut_makespan), TEST(test_equal_replicas),
          TEST(test_equal_replicas_exchange), TEST(test_many_replicas), TEST(test_traffic), TEST(test_step_time),
          TEST(test_hash), TEST(test_planners), TEST(test_refusals), TEST(test_auto), TEST(test_too_many_peers))
