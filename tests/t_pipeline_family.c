/* Split, bidirectional, V-shaped and asynchronous orders against facts/mpress-hippie-pipelines.md C: exact over the ranges given there. And no order beats the bounds that hold for all. */
#include "sim/exec.h"
#include "sim/plan/bare_pipeline.h"
#include "strategies/registry.h"
#include "tests/test.h"

struct shape {
    const char *order;
    uint32_t stages, micro_batches;
    double forward, backward, weight; /* weight < 0: none given */
};

static struct bare_pipeline_request request_of(const struct shape *shape)
{
    struct error error = { 0 };
    struct bare_pipeline_request request = { .order = registry_order(shape->order, &error),
                                             .forward = shape->forward,
                                             .backward = shape->backward,
                                             .has_weight_gradient = shape->weight >= 0,
                                             .weight_gradient = shape->weight < 0 ? 0 : shape->weight };
    EXPECT(request.order != NULL);
    request.order_request.stages = shape->stages;
    request.order_request.micro_batches = shape->micro_batches;
    request.order_request.virtual_stages = request.order->virtual_stages;
    parameters_defaults(request.order->parameters, request.order->parameter_count, &request.order_request.parameters);
    return request;
}

/* What no order can beat: every device does its share of all micro-batches, and a micro-batch passes the whole model forward and its input gradients all the way back. */
static void expect_above_bounds(const struct shape *shape, const struct bare_pipeline_result *result)
{
    double weight = shape->weight < 0 ? 0 : shape->weight;
    double work = shape->micro_batches * (shape->forward + shape->backward + weight);
    bool splits = registry_order(shape->order, NULL)->splits_backward;
    double input = splits && shape->weight < 0 ? shape->backward / 2 : shape->backward;
    for (uint32_t s = 0; s < result->stage_count; s++) {
        EXPECT(result->stages[s].work <= result->stages[s].last_end - result->stages[s].first_start + 1e-9);
        EXPECT_REAL(result->stages[s].work, work, 1e-9);
    }
    EXPECT(result->makespan >= shape->stages * (shape->forward + input) - 1e-9);
}

static struct bare_pipeline_result run(const struct shape *shape)
{
    struct bare_pipeline_request request = request_of(shape);
    struct schedule schedule = { 0 };
    struct timeline timeline = { 0 };
    struct bare_pipeline_result result = { 0 };
    struct error error = { 0 };
    const struct exec_options options = { .audit = true };
    enum status status = bare_pipeline_schedule(&request, &schedule, &error);
    if (status == STATUS_OK) {
        status = exec_sim.run(&schedule, &options, &timeline, &error);
    }
    if (status == STATUS_OK) {
        status = bare_pipeline_measure(&request, &schedule, &timeline, &result, &error);
    }
    if (status != STATUS_OK) {
        printf("%s p %u m %u: %s\n", shape->order, shape->stages, shape->micro_batches, error.message);
    }
    EXPECT_INT(status, STATUS_OK);
    timeline_free(&timeline);
    schedule_free(&schedule);
    if (status == STATUS_OK) {
        expect_above_bounds(shape, &result);
    }
    return result;
}

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static double lesser(double a, double b)
{
    return a < b ? a : b;
}

static double greater(double a, double b)
{
    return a < b ? b : a;
}

static void expect_makespan(const struct shape *shape, double makespan)
{
    struct bare_pipeline_result result = run(shape);
    EXPECT_REAL(result.makespan, makespan, 1e-9);
    bare_pipeline_result_free(&result);
}

static void expect_order(const struct shape *shape, uint32_t stage, const char *order)
{
    struct bare_pipeline_result result = run(shape);
    EXPECT_TEXT(result.stages[stage].order, order);
    bare_pipeline_result_free(&result);
}

static void test_printed_examples(void)
{
    const struct shape h1 = { "zb-h1", 3, 4, 1, 1, 1 };
    expect_order(&h1, 0, "F0 F1 F2 B0 W0 F3 B1 W1 B2 W2 B3 W3");
    expect_order(&h1, 1, "F0 F1 B0 F2 B1 W0 F3 B2 W1 B3 W2 W3");
    expect_order(&h1, 2, "F0 B0 F1 B1 F2 B2 W0 F3 B3 W1 W2 W3");
    /* down F0 .. is virtual stage i, up is 4 + its stage: device w holds up stage 3 - w */
    const struct shape chimera = { "chimera", 4, 4, 1, 2, -1 };
    expect_order(&chimera, 0, "F0.0 F1.0 F2.7 B2.7 F3.7 B3.7 B0.0 B1.0");
    expect_order(&chimera, 1, "F0.1 F2.6 F1.1 F3.6 B2.6 B0.1 B3.6 B1.1");
    expect_order(&chimera, 2, "F2.5 F0.2 F3.5 F1.2 B0.2 B2.5 B1.2 B3.5");
    expect_order(&chimera, 3, "F2.4 F3.4 F0.3 B0.3 F1.3 B1.3 B2.4 B3.4");
    const struct shape lsps = { "lsps-a", 2, 3, 1, 2, -1 };
    expect_order(&lsps, 0, "F0 F1 F2 B0 B1 B2");
    expect_order(&lsps, 1, "F0 B0 F1 B1 F2 B2");
}

/* p 1..8, m 1..24, W <= B of times 1..4: 7680 runs. (With W > B and F > B the fixed order is late: a scheduler is for that.) */
static void test_zb_h1(void)
{
    for (uint32_t p = 1; p <= 8; p++) {
        for (uint32_t m = 1; m <= 24; m++) {
            for (uint32_t times = 0; times < 64; times++) {
                double f = 1 + times % 4, b = 1 + times / 4 % 4, w = 1 + times / 16;
                if (w > b) {
                    continue;
                }
                const struct shape shape = { "zb-h1", p, m, f, b, w };
                expect_makespan(&shape, m * (f + b + w) + (p - 1) * (f + b) - least(m - 1, p - 1) * lesser(f, w));
            }
        }
    }
}

static void test_zb_h2(void)
{
    uint32_t runs = 0;
    for (uint32_t p = 1; p <= 5; p++) {
        for (uint32_t m = 1; m <= 15; m++) {
            for (uint32_t times = 0; times < 64; times++) {
                double f = 1 + times % 4, b = 1 + times / 4 % 4, w = 1 + times / 16;
                if (w > f || 2 * w > f + b) {
                    continue;
                }
                const struct shape shape = { "zb-h2", p, m, f, b, w };
                struct bare_pipeline_result result = run(&shape);
                EXPECT_REAL(result.span_bubble, (p - 1) * (f + b) - least(m - 1, 2 * p - 2) * w, 1e-9);
                bare_pipeline_result_free(&result);
                runs++;
            }
        }
    }
    EXPECT(runs > 1000);
}

static void test_zb_v(void)
{
    uint32_t runs = 0;
    for (uint32_t p = 2; p <= 5; p++) {
        for (uint32_t m = 1; m <= 20; m++) {
            for (uint32_t times = 0; times < 64; times++) {
                /* per-chunk times: a device's share is two chunks */
                double f = 1 + times % 4, b = 1 + times / 4 % 4, w = 1 + times / 16;
                const struct shape shape = { "zb-v", p, m, 2 * f, 2 * b, 2 * w };
                bool inside = m >= 2 * p - 1 && w <= lesser(f, b), equal = f == b && b == w;
                if (!inside && !equal) {
                    continue;
                }
                struct bare_pipeline_result result = run(&shape);
                double bubble = inside ? 2 * (p - 1) * (greater(f, b) - w) : 2 * (2 * p - 1 - m) * f;
                if (f > b && b > w) { /* the order does better than the law */
                    EXPECT(result.span_bubble < bubble && result.span_bubble > 0.7 * bubble);
                } else {
                    EXPECT_REAL(result.span_bubble, bubble, 1e-9);
                }
                bare_pipeline_result_free(&result);
                runs++;
            }
        }
    }
    EXPECT(runs > 1000);
}

/* Peaks for m >= 2p. */
static void test_split_peaks(void)
{
    for (uint32_t p = 1; p <= 8; p++) {
        const struct shape h1 = { "zb-h1", p, 2 * p, 1, 1, 1 }, h2 = { "zb-h2", p, 3 * p, 1, 1, 1 },
                           v = { "zb-v", p, 3 * p, 1, 1, 1 };
        struct bare_pipeline_result a = run(&h1), b = run(&h2), c = run(&v);
        for (uint32_t s = 0; s < p; s++) {
            EXPECT_REAL(a.stages[s].peak_activations, p, 0);
            EXPECT_REAL(b.stages[s].peak_activations, 2 * p - 1, 0);
            EXPECT_REAL(c.stages[s].peak_activations, p, 0);
        }
        bare_pipeline_result_free(&a);
        bare_pipeline_result_free(&b);
        bare_pipeline_result_free(&c);
    }
}

static void test_chimera(void)
{
    for (uint32_t d = 2; d <= 8; d += 2) {
        for (uint32_t k = 1; k <= 3; k++) {
            const struct shape even = { "chimera", d, k * d, 1, 1, -1 };
            expect_makespan(&even, 2 * k * d + d - 2);
            for (uint32_t f = 1; f <= 3; f++) {
                for (uint32_t b = f; b <= 4; b++) {
                    const struct shape shape = { "chimera", d, k * d, f, b, -1 };
                    expect_makespan(&shape, d * f + (2 * d - 2) * b +
                                                (double)(k - 1) * (double)(d * (f + b) + (d - 2) * (b - f)));
                }
            }
            struct bare_pipeline_result result = run(&even);
            for (uint32_t w = 0; w < d; w++) {
                EXPECT_REAL(result.stages[w].peak_activations, d / 2 + 1 + least(w, d - 1 - w), 0);
            }
            bare_pipeline_result_free(&result);
        }
    }
}

static void test_lsps_and_pipedream(void)
{
    for (uint32_t p = 1; p <= 6; p++) {
        for (uint32_t m = p; m <= 12; m++) {
            for (uint32_t times = 0; times < 4; times++) {
                double f = 1 + times % 2, b = 1 + times / 2, flushed = (m + p - 1) * (f + b);
                const struct shape a = { "lsps-a", p, m, f, b, -1 }, bb = { "lsps-b", p, m, f, b, -1 },
                                   stash = { "pipedream", p, m, f, b, -1 }, two = { "pipedream-2bw", p, m, f, b, -1 };
                struct bare_pipeline_result ra = run(&a), rb = run(&bb), rs = run(&stash), rt = run(&two);
                EXPECT_REAL(ra.makespan, flushed, 1e-9);
                EXPECT_REAL(rb.makespan, flushed, 1e-9);
                EXPECT_REAL(rs.makespan, flushed, 1e-9);
                for (uint32_t s = 0; s < p; s++) {
                    EXPECT_REAL(ra.stages[s].peak_activations, s == p - 1 ? 1 : m, 0);
                    EXPECT_REAL(rb.stages[s].peak_activations, least(p - s, m), 0);
                    EXPECT_REAL(rs.stages[s].peak_activations, least(p - s, m), 0);
                    EXPECT_INT(rs.stages[s].weight_versions, p - s);
                    EXPECT_INT(rt.stages[s].weight_versions, 2);
                    EXPECT_INT(ra.stages[s].weight_versions, 1);
                }
                bare_pipeline_result_free(&ra);
                bare_pipeline_result_free(&rb);
                bare_pipeline_result_free(&rs);
                bare_pipeline_result_free(&rt);
            }
        }
    }
}

/* C.10: p = 4, m = 8, F = B = W = 1. */
static void test_table(void)
{
    const struct shape h1 = { "zb-h1", 4, 8, 1, 1, 1 }, h2 = { "zb-h2", 4, 8, 1, 1, 1 }, v = { "zb-v", 4, 8, 1, 1, 1 },
                       c8 = { "chimera", 4, 8, 1, 2, -1 }, c4 = { "chimera", 4, 4, 1, 2, -1 };
    expect_makespan(&h1, 27);
    expect_makespan(&h2, 27);
    expect_makespan(&v, 25.5);
    expect_makespan(&c8, 30);
    expect_makespan(&c4, 16);
    struct bare_pipeline_result result = run(&h2);
    EXPECT_REAL(result.span_bubble, 0, 0);
    bare_pipeline_result_free(&result);
}

/* Published: bubbles about a half and two thirds of 1F1B's, activations a half and about a third. With F = B = W and many micro-batches. */
static void test_controllable_memory(void)
{
    for (uint32_t p = 4; p <= 32; p += 2) {
        const struct shape half = { "v-half", p, 6 * p, 1, 1, 1 }, min = { "v-min", p, 6 * p, 1, 1, 1 };
        struct bare_pipeline_result h = run(&half), m = run(&min);
        double of_1f1b = 3.0 * (p - 1), work = 3.0 * 6 * p;
        double half_bubble = (h.makespan - work) / of_1f1b, min_bubble = (m.makespan - work) / of_1f1b;
        EXPECT(half_bubble > 0.5 && half_bubble < 0.62);
        EXPECT(min_bubble > 0.6 && min_bubble < 0.71);
        EXPECT_REAL(h.stages[0].peak_activations, p / 2 + 1, 0);
        EXPECT_REAL(m.stages[0].peak_activations, p / 3 + 1, 0);
        bare_pipeline_result_free(&h);
        bare_pipeline_result_free(&m);
    }
}

/* One pass at a time (no fused forward-backward), so the published (p/2 - 1)(FB + B - 3W), with FB = F + B + W and B + W for its B, is an upper bound; for F = B our order has (p/2 - 1)(F + B - W). */
static void test_dualpipe(void)
{
    for (uint32_t p = 2; p <= 12; p += 2) {
        for (uint32_t times = 0; times < 27; times++) {
            double f = 1 + times % 3, b = 1 + times / 3 % 3, w = 1 + times / 9;
            const struct shape shape = { "dualpipe", p, 4 * p, f, b, w };
            struct bare_pipeline_result result = run(&shape);
            double bubble = result.makespan - 4 * p * (f + b + w);
            if (w <= lesser(f, b)) {
                EXPECT(bubble <= (p / 2.0 - 1) * (f + 2 * b - w) + 1e-9);
            }
            if (w <= f && f <= b && b <= f) {
                EXPECT_REAL(bubble, (p / 2.0 - 1) * (f + b - w), 1e-9);
            }
            for (uint32_t s = 0; s < p; s++) {
                EXPECT_REAL(result.stages[s].peak_activations, p + 1, 0);
            }
            bare_pipeline_result_free(&result);
        }
    }
}

/* ---- stages that differ, and recomputation ---- */

static double makespan_of(struct bare_pipeline_request *request)
{
    struct schedule schedule = { 0 };
    struct timeline timeline = { 0 };
    struct bare_pipeline_result result = { 0 };
    struct error error = { 0 };
    const struct exec_options options = { .audit = true };
    EXPECT_INT(bare_pipeline_schedule(request, &schedule, &error), STATUS_OK);
    EXPECT_INT(exec_sim.run(&schedule, &options, &timeline, &error), STATUS_OK);
    EXPECT_INT(bare_pipeline_measure(request, &schedule, &timeline, &result, &error), STATUS_OK);
    double makespan = result.makespan;
    bare_pipeline_result_free(&result);
    timeline_free(&timeline);
    schedule_free(&schedule);
    return makespan;
}

static double on_stages(const char *order, uint32_t p, uint32_t m, const double *f, const double *b)
{
    const struct shape shape = { order, p, m, 1, 1, -1 };
    struct bare_pipeline_request request = request_of(&shape);
    request.stage_forward = f;
    request.stage_backward = b;
    return makespan_of(&request);
}

/* C.2, C.3: 1,500 random cases. */
static void test_uneven_stages(void)
{
    uint32_t random = 12345;
    for (uint32_t i = 0; i < 1500; i++) {
        uint32_t p = 1 + i % 7, m = 1 + i / 7 % 13;
        double f[8], b[8], sum = 0, f_max = 0, b_max = 0, bound = 0;
        for (uint32_t s = 0; s < p; s++) {
            random = random * 1664525 + 1013904223;
            f[s] = 1 + (random >> 16) % 9;
            b[s] = 1 + (random >> 24) % 17;
            bound = greater(bound, sum + m * (f[s] + b[s]));
            sum += f[s] + b[s];
            f_max = greater(f_max, f[s]);
            b_max = greater(b_max, b[s]);
        }
        double gpipe = on_stages("gpipe", p, m, f, b), one = on_stages("1f1b", p, m, f, b);
        EXPECT_REAL(gpipe, sum + (m - 1) * (f_max + b_max), 1e-9);
        EXPECT(one <= gpipe + 1e-9 && one >= bound - 1e-9);
    }
}

static double recomputed(const char *order, uint32_t p, uint32_t m, double f, double b, enum bare_recompute when,
                         bool last_keeps)
{
    const struct shape shape = { order, p, m, f, b, -1 };
    struct bare_pipeline_request request = request_of(&shape);
    request.recompute = when;
    request.last_stage_keeps = last_keeps;
    return makespan_of(&request);
}

/* C.9. */
static void test_recompute(void)
{
    for (uint32_t p = 2; p <= 8; p++) {
        for (uint32_t m = 2; m <= 24; m += 1 + m / 8) {
            for (uint32_t times = 0; times < 4; times++) {
                double f = 1 + times % 2, b = f * (1 + times / 2), all = (m + p - 1) * (2 * f + b);
                double eager = m * (2 * f + b) + (p - 1) * (f + b);
                EXPECT_REAL(recomputed("gpipe", p, m, f, b, BARE_RECOMPUTE_LAZY, false), all, 1e-9);
                EXPECT_REAL(recomputed("1f1b", p, m, f, b, BARE_RECOMPUTE_LAZY, false), all, 1e-9);
                EXPECT_REAL(recomputed("gpipe", p, m, f, b, BARE_RECOMPUTE_EAGER, false), eager, 1e-9);
                EXPECT_REAL(recomputed("1f1b", p, m, f, b, BARE_RECOMPUTE_EAGER, false), eager, 1e-9);
                EXPECT_REAL(recomputed("1f1b", p, m, f, b, BARE_RECOMPUTE_LAZY, true), all - 2 * f, 1e-9);
                EXPECT_REAL(recomputed("lsps-c", p, m, f, b, BARE_RECOMPUTE_LAZY, false), all - 2 * f, 1e-9);
                EXPECT_REAL(recomputed("gpipe", p, m, f, b, BARE_RECOMPUTE_LAZY, true), all - f, 1e-9);
                EXPECT_REAL(recomputed("1f1b", p, m, f, b, BARE_RECOMPUTE_EAGER, true), eager - 2 * f, 1e-9);
            }
        }
    }
}

static void expect_refused(const char *order, uint32_t stages, uint32_t micro_batches, const char *part)
{
    const struct shape shape = { order, stages, micro_batches, 1, 1, 1 };
    struct bare_pipeline_request request = request_of(&shape);
    struct schedule schedule;
    struct error error = { 0 };
    EXPECT_INT(bare_pipeline_schedule(&request, &schedule, &error), STATUS_BAD_INPUT);
    EXPECT_PART(error.message, part);
}

static void test_refusals(void)
{
    expect_refused("chimera", 3, 6, "needs an even number; the nearest are 2 and 4");
    expect_refused("chimera", 4, 6, "needs a multiple of 4; the nearest is 8");
    expect_refused("chimera", 4, 9, "the nearest is 8");
    expect_refused("dualpipe", 4, 6, "of at least 8; the nearest is 8");
    expect_refused("dualpipe", 5, 20, "the nearest are 4 and 6");
    expect_refused("pipedream-2bw", 4, 3, "the nearest is 4");
}

TEST_MAIN(TEST(test_printed_examples), TEST(test_zb_h1), TEST(test_zb_h2), TEST(test_zb_v), TEST(test_split_peaks),
          TEST(test_chimera), TEST(test_lsps_and_pipedream), TEST(test_table), TEST(test_controllable_memory),
          TEST(test_dualpipe), TEST(test_uneven_stages), TEST(test_recompute), TEST(test_refusals))
