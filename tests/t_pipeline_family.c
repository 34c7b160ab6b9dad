/* Split, bidirectional, V-shaped and asynchronous orders against facts/mpress-hippie-pipelines.md C: exact, over the whole ranges given there. (That no order beats the lower bound is t_pipeline_bound's.) */
#include "tests/pipeline_run.h"

struct shape {
    const char *order;
    uint32_t stages, micro_batches;
    double forward, backward, weight; /* weight < 0: none given */
};

static const double RATIOS[][2] = { { 1, 2 }, { 1, 1 }, { 2, 1 }, { 3, 4 } };

static struct bare_pipeline_request request_of(const struct shape *shape)
{
    struct bare_pipeline_request request =
        pipeline_request(shape->order, shape->stages, 0, shape->micro_batches, shape->forward, shape->backward);
    request.has_weight_gradient = shape->weight >= 0;
    request.weight_gradient = shape->weight < 0 ? 0 : shape->weight;
    return request;
}

static struct bare_pipeline_result run(const struct shape *shape)
{
    struct bare_pipeline_request request = request_of(shape);
    struct bare_pipeline_result result = pipeline_run(&request);
    double weight = shape->weight < 0 ? 0 : shape->weight;
    for (uint32_t s = 0; s < result.stage_count; s++) {
        EXPECT_REAL(result.stages[s].work, shape->micro_batches * (shape->forward + shape->backward + weight), 1e-9);
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

/* Times 1..4 of F, B and W. */
static void zero_bubble_times(uint32_t times, double *f, double *b, double *w)
{
    *f = 1 + times % 4;
    *b = 1 + times / 4 % 4;
    *w = 1 + times / 16;
}
enum { ZERO_BUBBLE_TIMES = 64 };

/* p 1..8, m 1..24. (With W > B and F > B the fixed order is late: a scheduler is for that.) */
static void test_zb_h1(void)
{
    uint32_t runs = 0;
    for (uint32_t p = 1; p <= 8; p++) {
        for (uint32_t m = 1; m <= 24; m++) {
            for (uint32_t times = 0; times < ZERO_BUBBLE_TIMES; times++) {
                double f, b, w;
                zero_bubble_times(times, &f, &b, &w);
                if (w > b && f > b) {
                    continue;
                }
                const struct shape shape = { "zb-h1", p, m, f, b, w };
                expect_makespan(&shape, m * (f + b + w) + (p - 1) * (f + b) - least(m - 1, p - 1) * lesser(f, w));
                runs++;
            }
        }
    }
    printf("zb-h1: %u runs\n", runs);
    EXPECT_INT(runs, 9600);
}

static void test_zb_h2(void)
{
    uint32_t runs = 0;
    for (uint32_t p = 1; p <= 5; p++) {
        for (uint32_t m = 1; m <= 15; m++) {
            for (uint32_t times = 0; times < ZERO_BUBBLE_TIMES; times++) {
                double f, b, w;
                zero_bubble_times(times, &f, &b, &w);
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
    printf("zb-h2: %u runs\n", runs);
    EXPECT_INT(runs, 2475);
}

/* Per-chunk times: a device's share is two chunks. Where W < B < F the order ends sooner than the law of C.1, 2(p-1)(max(F,B) - W), by what is less of F - B and B - W: once, not for each stage. */
static void test_zb_v(void)
{
    uint32_t inside = 0, sooner = 0, few = 0;
    for (uint32_t p = 2; p <= 5; p++) {
        for (uint32_t m = 1; m <= 20; m++) {
            for (uint32_t times = 0; times < ZERO_BUBBLE_TIMES; times++) {
                double f, b, w, bubble = 2 * (2 * p - 1 - (double)m);
                zero_bubble_times(times, &f, &b, &w);
                if (m >= 2 * p - 1 && w <= lesser(f, b)) {
                    double less = greater(0, lesser(f - b, b - w));
                    bubble = 2 * (p - 1) * (greater(f, b) - w) - less;
                    sooner += less > 0;
                    inside++;
                } else if (m < 2 * p - 1 && times == 0) { /* F = B = W */
                    few++;
                } else {
                    continue;
                }
                const struct shape shape = { "zb-v", p, m, 2 * f, 2 * b, 2 * w };
                struct bare_pipeline_result result = run(&shape);
                EXPECT_REAL(result.span_bubble, bubble, 1e-9);
                for (uint32_t s = 0; s < p && m >= 2 * p; s++) {
                    EXPECT_REAL(result.stages[s].peak_activations, p, 0);
                }
                bare_pipeline_result_free(&result);
            }
        }
    }
    printf("zb-v: %u runs with m >= 2p - 1, %u of them sooner than C.1; %u with less\n", inside, sooner, few);
    EXPECT_INT(inside, 1800);
    EXPECT_INT(sooner, 240);
    EXPECT_INT(few, 20);
}

/* The most bytes that an order keeps on a stage: `before_b` of a micro-batch from its F to its B, then `for_w` until its W. */
static uint32_t peak_bytes(const char *name, uint32_t p, uint32_t m, uint32_t stage, uint32_t before_b, uint32_t for_w)
{
    const struct bare_pipeline_request request = pipeline_request(name, p, 0, m, 1, 1);
    struct order_step steps[3 * 32];
    uint32_t count = 0, now = 0, peak = 0;
    EXPECT(order_step_count(request.order, &request.order_request) <= sizeof steps / sizeof steps[0]);
    EXPECT_INT(order_steps(request.order, &request.order_request, stage, steps, &count, NULL), STATUS_OK);
    for (uint32_t i = 0; i < count; i++) {
        now += steps[i].kind == STEP_FORWARD ? before_b : 0;
        peak = now > peak ? now : peak;
        now -= steps[i].kind == STEP_BACKWARD ? before_b - for_w : steps[i].kind == STEP_BACKWARD_WEIGHT ? for_w : 0;
    }
    EXPECT_INT(now, 0);
    return peak;
}

/* C.8: m >= 2p, M_W <= M_B. M_W = M_B = 1 counts whole activations, M_W = 0 those before their B. */
static void test_split_peaks(void)
{
    uint32_t cases = 0;
    for (uint32_t p = 1; p <= 8; p++) {
        for (uint32_t m = 2 * p; m <= 24; m++) {
            for (uint32_t bytes = 0; bytes < 16; bytes++) {
                uint32_t b = 1 + bytes % 4, w = bytes / 4;
                for (uint32_t s = 0; s < p && w <= b; s++) {
                    EXPECT_INT(peak_bytes("zb-h1", p, m, s, b, w), (p - s) * b + s * w);
                    EXPECT_INT(peak_bytes("zb-h2", p, m, s, b, w), (2 * p - 2 * s - 1) * b + 2 * s * w);
                    cases++;
                }
            }
        }
    }
    printf("bytes of split orders: %u cases\n", cases);
    EXPECT_INT(cases, 13 * (1 * 23 + 2 * 21 + 3 * 19 + 4 * 17 + 5 * 15 + 6 * 13 + 7 * 11 + 8 * 9));
    for (uint32_t p = 1; p <= 8; p++) {
        const struct shape h1 = { "zb-h1", p, 2 * p, 1, 1, 1 }, h2 = { "zb-h2", p, 3 * p, 1, 1, 1 };
        struct bare_pipeline_result a = run(&h1), b = run(&h2);
        for (uint32_t s = 0; s < p; s++) {
            EXPECT_REAL(a.stages[s].peak_activations, p, 0);
            EXPECT_REAL(b.stages[s].peak_activations, 2 * p - 1, 0);
        }
        bare_pipeline_result_free(&a);
        bare_pipeline_result_free(&b);
    }
}

static void test_chimera(void)
{
    uint32_t runs = 0;
    for (uint32_t d = 2; d <= 8; d += 2) {
        for (uint32_t k = 1; k <= 3; k++) {
            for (uint32_t f = 1; f <= 4; f++) {
                for (uint32_t b = f; b <= 4; b++) {
                    const struct shape shape = { "chimera", d, k * d, f, b, -1 };
                    struct bare_pipeline_result result = run(&shape);
                    EXPECT_REAL(result.makespan, d * f + (2 * d - 2) * b + (k - 1) * (d * (f + b) + (d - 2) * (b - f)),
                                1e-9);
                    if (f == b) {
                        EXPECT_REAL(result.makespan, (2 * k * d + d - 2) * f, 1e-9);
                    }
                    for (uint32_t w = 0; w < d; w++) {
                        EXPECT_REAL(result.stages[w].peak_activations, d / 2 + 1 + least(w, d - 1 - w), 0);
                        EXPECT_INT(result.stages[w].weight_versions, 1);
                    }
                    bare_pipeline_result_free(&result);
                    runs++;
                }
            }
        }
    }
    printf("chimera: %u runs\n", runs);
    EXPECT_INT(runs, 120);
}

/* C.6: every device runs its passes in the order of their slots, and no slot is taken twice. */
static void test_chimera_slots(void)
{
    for (uint32_t d = 2; d <= 8; d += 2) {
        for (uint32_t k = 1; k <= 3; k++) {
            const struct bare_pipeline_request request = pipeline_request("chimera", d, 0, k * d, 1, 1);
            for (uint32_t w = 0; w < d; w++) {
                struct order_step steps[2 * 3 * 8];
                uint32_t count = 0;
                int64_t slot = -1;
                EXPECT_INT(order_steps(request.order, &request.order_request, w, steps, &count, NULL), STATUS_OK);
                EXPECT_INT(count, 2 * k * d);
                for (uint32_t i = 0; i < count; i++) {
                    uint32_t in_block = steps[i].micro_batch % d, j = in_block % (d / 2);
                    uint32_t stage = in_block < d / 2 ? w : d - 1 - w; /* going down, or up */
                    int64_t next = 2 * (int64_t)d * (steps[i].micro_batch / d) + 2 * j +
                                   (steps[i].kind == STEP_FORWARD ? stage : d + (d - 1 - stage));
                    EXPECT(next > slot);
                    slot = next;
                }
            }
        }
    }
}

/* B.3. Inputs queue before the last stage of lsps-a: of those that come every tF, it takes one every tF + tB, and when the last one comes all others but those taken wait. */
static void test_lsps(void)
{
    uint32_t cases = 0;
    for (uint32_t p = 1; p <= 8; p++) {
        for (uint32_t m = 1; m <= 24; m++) {
            for (uint32_t times = 0; times < 4; times++) {
                double f = RATIOS[times][0], b = RATIOS[times][1];
                const struct shape shape_a = { "lsps-a", p, m, f, b, -1 }, shape_b = { "lsps-b", p, m, f, b, -1 };
                struct bare_pipeline_request request = request_of(&shape_a);
                struct schedule schedule = { 0 };
                struct timeline timeline = { 0 };
                struct bare_pipeline_result at = pipeline_run_whole(&request, &schedule, &timeline), bt = run(&shape_b);
                EXPECT_REAL(at.makespan, (m + p - 1) * (f + b), 1e-9);
                EXPECT_REAL(bt.makespan, (m + p - 1) * (f + b), 1e-9);
                for (uint32_t s = 0; s < p; s++) {
                    EXPECT_REAL(at.stages[s].peak_activations, s == p - 1 ? 1 : m, 0);
                    EXPECT_REAL(bt.stages[s].peak_activations, least(p - s, m), 0);
                    EXPECT_INT(at.stages[s].weight_versions, 1);
                }
                uint32_t taken = 0;
                int64_t arrived_ps = llround((p - 2 + (double)m) * f * (double)BARE_UNIT_PS);
                const struct sched_rank *last = &schedule.ranks[p - 1];
                for (uint32_t i = last->first_op; i < last->first_op + last->op_count; i++) {
                    taken += schedule.ops[i].phase == PHASE_FORWARD && timeline.ops[i].start_ps <= arrived_ps;
                }
                if (p > 1) {
                    EXPECT_INT(m - taken, ceil((m - 1) * b / (f + b)));
                }
                bare_pipeline_result_free(&at);
                bare_pipeline_result_free(&bt);
                timeline_free(&timeline);
                schedule_free(&schedule);
                cases++;
            }
        }
    }
    printf("lsps: %u cases\n", cases);
    EXPECT_INT(cases, 768);
}

/* Whether every stage ends a backward once a period, exactly. */
static void expect_period(const struct bare_pipeline_request *request, double period)
{
    struct schedule schedule = { 0 };
    struct timeline timeline = { 0 };
    struct bare_pipeline_result result = pipeline_run_whole(request, &schedule, &timeline);
    for (uint32_t r = 0; r < schedule.rank_count; r++) {
        int64_t before_ps = -1;
        for (uint32_t i = schedule.ranks[r].first_op; i < schedule.ranks[r].first_op + schedule.ranks[r].op_count;
             i++) {
            if (schedule.ops[i].phase == PHASE_BACKWARD) {
                if (before_ps >= 0) {
                    EXPECT_INT(timeline.ops[i].end_ps - before_ps, llround(period * (double)BARE_UNIT_PS));
                }
                before_ps = timeline.ops[i].end_ps;
            }
        }
    }
    bare_pipeline_result_free(&result);
    timeline_free(&timeline);
    schedule_free(&schedule);
}

/* C.4, C.5: the same steps as 1F1B; p - s versions, p with vertical sync; two with 2BW, which needs m >= p. */
static void test_pipedream(void)
{
    uint32_t cases = 0, accumulated = 0;
    for (uint32_t p = 1; p <= 8; p++) {
        for (uint32_t m = 1; m <= 24; m++) {
            for (uint32_t times = 0; times < 4; times++) {
                double f = RATIOS[times][0], b = RATIOS[times][1];
                const struct shape stash = { "pipedream", p, m, f, b, -1 }, two = { "pipedream-2bw", p, m, f, b, -1 };
                struct bare_pipeline_request synced = request_of(&stash);
                expect_period(&synced, f + b);
                synced.order_request.parameters.value[0] = 1; /* vertical_sync */
                struct bare_pipeline_result rs = run(&stash), rv = pipeline_run(&synced), rt = { 0 };
                if (m >= p) {
                    rt = run(&two);
                    EXPECT_REAL(rt.makespan, (m + p - 1) * (f + b), 1e-9);
                    accumulated++;
                }
                EXPECT_REAL(rs.makespan, (m + p - 1) * (f + b), 1e-9);
                EXPECT_REAL(rv.makespan, rs.makespan, 0);
                for (uint32_t s = 0; s < p; s++) {
                    EXPECT_REAL(rs.stages[s].peak_activations, least(p - s, m), 0);
                    EXPECT_INT(rs.stages[s].weight_versions, p - s);
                    EXPECT_INT(rv.stages[s].weight_versions, p);
                    if (m >= p) {
                        EXPECT_REAL(rt.stages[s].peak_activations, p - s, 0);
                        EXPECT_INT(rt.stages[s].weight_versions, 2);
                    }
                }
                bare_pipeline_result_free(&rs);
                bare_pipeline_result_free(&rv);
                bare_pipeline_result_free(&rt);
                cases++;
            }
        }
    }
    printf("pipedream: %u cases, 2bw: %u\n", cases, accumulated);
    EXPECT_INT(cases, 768);
    EXPECT_INT(accumulated, 656);
}

/* C.10: p = 4, m = 8, F = B = W = 1, tB = 2; what is not in t_pipeline's table. */
static void test_table(void)
{
    static const struct {
        struct shape shape;
        double makespan, span_bubble, peaks[4];
    } rows[] = {
        { { "zb-h1", 4, 8, 1, 1, 1 }, 27, 3, { 4, 4, 4, 4 } },
        { { "zb-h2", 4, 8, 1, 1, 1 }, 27, 0, { 7, 7, 7, 7 } },
        { { "zb-v", 4, 8, 1, 1, 1 }, 25.5, 0, { 4, 4, 4, 4 } },
        { { "chimera", 4, 8, 1, 2, -1 }, 30, 6, { 3, 4, 4, 3 } },
        { { "chimera", 4, 4, 1, 2, -1 }, 16, 4, { 3, 4, 4, 3 } },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct bare_pipeline_result result = run(&rows[i].shape);
        EXPECT_REAL(result.makespan, rows[i].makespan, 0);
        EXPECT_REAL(result.span_bubble, rows[i].span_bubble, 0);
        for (uint32_t s = 0; s < 4; s++) {
            EXPECT_REAL(result.stages[s].peak_activations, rows[i].peaks[s], 0);
        }
        bare_pipeline_result_free(&result);
    }
    for (uint32_t s = 0; s < 4; s++) {
        EXPECT_INT(peak_bytes("zb-h1", 4, 8, s, 1, 0), 4 - s);
        EXPECT_INT(peak_bytes("zb-h2", 4, 8, s, 1, 0), 7 - 2 * s);
    }
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
    uint32_t runs = 0;
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
            runs++;
        }
    }
    EXPECT_INT(runs, 162);
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
          TEST(test_chimera), TEST(test_chimera_slots), TEST(test_lsps), TEST(test_pipedream), TEST(test_table),
          TEST(test_controllable_memory), TEST(test_dualpipe), TEST(test_refusals))
