/* Bare pipelines against the closed forms of facts/mpress-hippie-pipelines.md C: makespan, span bubble, per-stage peaks, hop laws; exact, over the whole ranges given there.
 *
 * The times come from the simulator, and beside it from a plain twin (tests/pipeline_twin.h): both must say the same of every op. */
#include "sim/plan/bare_pipeline.h"

#include "tests/pipeline_run.h"
#include "tests/pipeline_twin.h"

/* ---- requests ---- */

static struct bare_pipeline_request request_of(const char *name, uint32_t p, uint32_t v, uint32_t m, double forward,
                                               double backward, double hop)
{
    struct bare_pipeline_request request = pipeline_request(name, p, v, m, forward, backward);
    request.hop = hop;
    return request;
}

static void expect_equal(const struct timeline *simulated, const struct timeline *twin)
{
    EXPECT_INT(simulated->outcome, TIMELINE_DONE);
    EXPECT_INT(simulated->op_count, twin->op_count);
    EXPECT_INT(simulated->end_ps, twin->end_ps);
    for (uint32_t i = 0; i < twin->op_count; i++) {
        if (simulated->ops[i].start_ps != twin->ops[i].start_ps || simulated->ops[i].end_ps != twin->ops[i].end_ps) {
            TEST_FAIL_("op %u runs from %" PRId64 " to %" PRId64 ", the twin says %" PRId64 " to %" PRId64, i,
                       simulated->ops[i].start_ps, simulated->ops[i].end_ps, twin->ops[i].start_ps,
                       twin->ops[i].end_ps);
            return;
        }
    }
    for (uint32_t i = 0; i < twin->space_count; i++) {
        EXPECT_INT(simulated->spaces[i].peak_bytes, twin->spaces[i].peak_bytes);
    }
}

/* Every run goes through the simulator; where costly invariants are on (sanitizer builds), one in many, the others through the twin alone. */
#ifdef MEMWALL_DEBUG_CHECKS
enum { SIMULATE_EVERY = 37 };
#else
enum { SIMULATE_EVERY = 1 };
#endif
static unsigned run_count;

/* The caller frees the result. */
static struct bare_pipeline_result run(const struct bare_pipeline_request *request)
{
    struct error error = { 0 };
    struct schedule schedule;
    struct timeline timeline;
    struct bare_pipeline_result result = { 0 };
    if (bare_pipeline_schedule(request, &schedule, &error) != STATUS_OK) {
        printf("%s: %s\n", request->order->name, error.message);
        exit(1);
    }
    struct timeline twin;
    const struct exec_options options = { .audit = true };
    twin_run(&schedule, &twin);
    timeline = twin;
    if (run_count++ % SIMULATE_EVERY == 0) {
        if (exec_sim.run(&schedule, &options, &timeline, &error) != STATUS_OK) {
            printf("%s: %s\n", request->order->name, error.message);
            exit(1);
        }
        expect_equal(&timeline, &twin);
        timeline_free(&twin);
    }
    if (bare_pipeline_measure(request, &schedule, &timeline, &result, &error) != STATUS_OK) {
        printf("%s: %s\n", request->order->name, error.message);
        exit(1);
    }
    EXPECT_REAL((double)timeline.end_ps / (double)BARE_UNIT_PS, result.makespan, 0);
    timeline_free(&timeline);
    schedule_free(&schedule);
    return result;
}

static double makespan_of_request(const struct bare_pipeline_request *request)
{
    struct bare_pipeline_result result = run(request);
    double makespan = result.makespan;
    bare_pipeline_result_free(&result);
    return makespan;
}

static double makespan_of(const char *name, uint32_t p, uint32_t v, uint32_t m, double forward, double backward,
                          double hop)
{
    struct bare_pipeline_request request = request_of(name, p, v, m, forward, backward, hop);
    return makespan_of_request(&request);
}

static uint32_t smaller(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static const double RATIOS[][2] = { { 1, 2 }, { 1, 1 }, { 2, 1 }, { 3, 4 } };

/* ---- closed forms ---- */

/* GPipe in both orders of its backwards. */
static void test_flushed_orders(void)
{
    static const char *const names[] = { "gpipe", "1f1b", "dapple-pb", "gpipe" };
    unsigned runs = 0;
    for (size_t n = 0; n < 4; n++) {
        for (uint32_t p = 1; p <= 8; p++) {
            for (uint32_t m = 1; m <= 24; m++) {
                for (size_t r = 0; r < 4; r++) {
                    double unit = RATIOS[r][0] + RATIOS[r][1];
                    struct bare_pipeline_request request = request_of(names[n], p, 1, m, RATIOS[r][0], RATIOS[r][1], 0);
                    request.order_request.parameters.value[0] = n == 3; /* backwards first in, first out */
                    struct bare_pipeline_result result = run(&request);
                    EXPECT_REAL(result.makespan, (m + p - 1) * unit, 0);
                    EXPECT_REAL(result.span_bubble, (p - 1) * unit, 0);
                    for (uint32_t s = 0; s < p; s++) {
                        uint32_t peak = n == 1 ? p - s : n == 2 ? 2 * (p - s) - 1 : m;
                        EXPECT_REAL(result.stages[s].peak_activations, smaller(peak, m), 0);
                        EXPECT_INT(result.stages[s].weight_versions, 1);
                        EXPECT_REAL(result.stages[s].work, m * unit, 0);
                    }
                    bare_pipeline_result_free(&result);
                    runs++;
                }
            }
        }
    }
    printf("%u runs\n", runs);
    EXPECT_INT(runs, 2304 + 768);
}

static void test_interleaved(void)
{
    unsigned runs = 0;
    for (uint32_t p = 2; p <= 6; p++) {
        for (uint32_t v = 1; v <= 4; v++) {
            for (uint32_t k = 1; k <= 4; k++) {
                for (size_t r = 0; r < 4; r++) {
                    uint32_t m = k * p;
                    double unit = RATIOS[r][0] + RATIOS[r][1];
                    struct bare_pipeline_request request =
                        request_of("interleaved", p, v, m, RATIOS[r][0], RATIOS[r][1], 0);
                    struct bare_pipeline_result result = run(&request);
                    EXPECT_REAL(result.makespan, (m * unit * v + (p - 1) * unit) / v, 0);
                    EXPECT_REAL(result.span_bubble, (p - 1) * unit / v, 0);
                    for (uint32_t s = 0; s < p; s++) {
                        uint32_t chunks = smaller(2 * (p - s - 1) + (v - 1) * p + 1, m * v);
                        EXPECT_REAL(result.stages[s].peak_activations, (double)chunks / v, 0);
                    }
                    bare_pipeline_result_free(&result);
                    runs++;
                }
            }
        }
    }
    printf("%u runs\n", runs);
    EXPECT_INT(runs, 320);
}

/* Early Megatron-LM's special case: all forwards first when m == p, so p * v chunks (p shares) on every device. */
static void test_interleaved_all_forwards(void)
{
    unsigned runs = 0;
    for (uint32_t p = 2; p <= 6; p++) {
        for (uint32_t v = 1; v <= 4; v++) {
            struct bare_pipeline_request request = request_of("interleaved", p, v, p, 1, 2, 0);
            request.order_request.parameters.value[0] = 1;
            struct bare_pipeline_result result = run(&request);
            for (uint32_t s = 0; s < p; s++) {
                EXPECT_REAL(result.stages[s].peak_activations, p, 0);
            }
            bare_pipeline_result_free(&result);
            runs++;
        }
    }
    printf("%u runs\n", runs);
    EXPECT_INT(runs, 20);
}

/* C.7: v chunks send v times as much as one, and a hop more from each chunk to the next. */
static void test_interleaved_messages(void)
{
    for (uint32_t p = 2; p <= 6; p++) {
        for (uint32_t v = 1; v <= 4; v++) {
            struct bare_pipeline_request request = request_of("interleaved", p, v, 2 * p, 1, 2, 0);
            struct schedule schedule;
            uint32_t sent = 0;
            EXPECT_INT(bare_pipeline_schedule(&request, &schedule, NULL), STATUS_OK);
            for (uint32_t i = 0; i < schedule.op_count; i++) {
                sent += schedule.ops[i].opcode == OP_SEND;
            }
            EXPECT_INT(sent, 2 * 2 * p * (v * p - 1));
            schedule_free(&schedule);
        }
    }
}

/* C.2, C.3: GPipe pays 2(p-1)c; 1F1B 2c[(p-1) + floor((m-1)(p-1)/p)]; PB 2(p-1)c as long as 2c <= tF + tB. Also for c > tF + tB. */
static void test_hops(void)
{
    static const double hops[] = { 0.125, 0.5, 1.0, 1.5, 2.5, 4.0, 7.5 };
    unsigned cases = 0, hidden = 0, longer = 0;
    for (uint32_t p = 1; p <= 8; p++) {
        for (uint32_t m = 1; m <= 30; m++) {
            for (size_t i = 0; i < 4 * sizeof hops / sizeof hops[0]; i++) {
                const double *times = RATIOS[i % 4], c = hops[i / 4];
                double unit = times[0] + times[1], base = (m + p - 1) * unit;
                uint32_t exposed = (p - 1) + (m - 1) * (p - 1) / p;
                EXPECT_REAL(makespan_of("1f1b", p, 1, m, times[0], times[1], c), base + 2 * c * exposed, 0);
                struct bare_pipeline_request gpipe = request_of("gpipe", p, 1, m, times[0], times[1], c);
                gpipe.order_request.parameters.value[0] = m % 2; /* backwards in either order */
                EXPECT_REAL(makespan_of_request(&gpipe), base + 2 * c * (p - 1), 0);
                if (2 * c <= unit) {
                    EXPECT_REAL(makespan_of("dapple-pb", p, 1, m, times[0], times[1], c), base + 2 * c * (p - 1), 0);
                    hidden++;
                }
                longer += c > unit;
                cases++;
            }
        }
    }
    printf("%u cases, %u of them with 2c <= tF + tB, %u with c > tF + tB\n", cases, hidden, longer);
    EXPECT_INT(cases, 6720);
    EXPECT_INT(hidden, 3840);
    EXPECT_INT(longer, 1920);
}

/* C.10: p = 4, m = 8, tF = 1, tB = 2. */
static void test_table(void)
{
    EXPECT_REAL(makespan_of("gpipe", 4, 1, 8, 1, 2, 0), 33, 0);
    EXPECT_REAL(makespan_of("1f1b", 4, 1, 8, 1, 2, 0), 33, 0);
    EXPECT_REAL(makespan_of("interleaved", 4, 2, 8, 1, 2, 0), 28.5, 0);
    EXPECT_REAL(makespan_of("1f1b", 4, 1, 8, 1, 2, 0.5), 41, 0);
    EXPECT_REAL(makespan_of("gpipe", 4, 1, 8, 1, 2, 0.5), 36, 0);
    static const struct {
        const char *name;
        uint32_t v;
        double peaks[4];
    } rows[] = { { "interleaved", 2, { 5.5, 4.5, 3.5, 2.5 } },
                 { "1f1b", 1, { 4, 3, 2, 1 } },
                 { "gpipe", 1, { 8, 8, 8, 8 } },
                 { "dapple-pb", 1, { 7, 5, 3, 1 } } };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct bare_pipeline_request request = request_of(rows[i].name, 4, rows[i].v, 8, 1, 2, 0);
        struct bare_pipeline_result result = run(&request);
        for (uint32_t s = 0; s < 4; s++) {
            EXPECT_REAL(result.stages[s].peak_activations, rows[i].peaks[s], 0);
        }
        bare_pipeline_result_free(&result);
    }
}

/* ---- the rest ---- */

static void test_weight_gradient(void)
{
    /* An order that does not split adds the weight part to its backward. */
    struct bare_pipeline_request request = request_of("1f1b", 4, 1, 8, 1, 1, 0);
    request.has_weight_gradient = true;
    request.weight_gradient = 1;
    struct bare_pipeline_result result = run(&request);
    EXPECT_REAL(result.makespan, 33, 0);
    bare_pipeline_result_free(&result);
}

/* Many chunks share the queues between two stages; many hops are under way at once; two stages are neighbours on both sides. */
static void test_wide(void)
{
    EXPECT_REAL(makespan_of("interleaved", 4, 16, 8, 1, 2, 0), 8 * 3 + 3 * 3.0 / 16, 0);
    EXPECT_REAL(makespan_of("interleaved", 2, 8, 8, 1, 2, 0), 8 * 3 + 3.0 / 8, 0);
    EXPECT_REAL(makespan_of("gpipe", 4, 1, 60, 1, 2, 40), 63 * 3 + 2 * 3 * 40, 0);
    EXPECT_REAL(makespan_of("gpipe", 4, 1, 8, 1, 2, 5000), 11 * 3 + 2 * 3 * 5000.0, 0);
    EXPECT_REAL(makespan_of("1f1b", 8, 1, 30, 1, 1, 100), 37 * 2 + 2 * 100.0 * (7 + 29 * 7 / 8), 0);
}

static void test_order_text_and_json(void)
{
    struct bare_pipeline_request request = request_of("interleaved", 2, 2, 2, 1, 2, 0);
    struct bare_pipeline_result result = run(&request);
    EXPECT_TEXT(result.stages[0].order, "F0.0 F1.0 F0.2 F1.2 B0.2 B1.2 B0.0 B1.0");
    struct strbuf out = { 0 };
    bare_pipeline_print_json(&result, &out);
    EXPECT(!out.failed);
    struct json_document *document = NULL;
    struct json root, stages, stage;
    struct error error = { 0 };
    double makespan = 0;
    EXPECT_INT(json_parse(&document, out.text, out.length, "result", &error), STATUS_OK);
    json_root(document, &root);
    EXPECT_INT(json_real(&root, "makespan", 0, 1e9, &makespan, &error), STATUS_OK);
    EXPECT_REAL(makespan, 7.5, 0);
    EXPECT_INT(json_array(&root, "stages", &stages, &error), STATUS_OK);
    EXPECT_INT(json_count(&stages), 2);
    json_item(&stages, 1, &stage);
    EXPECT(json_has(&stage, "order") && json_has(&stage, "peak_activations") && json_has(&stage, "weight_versions"));
    json_free(document);
    strbuf_free(&out);
    bare_pipeline_result_free(&result);
}

static void test_schedule_is_reproducible(void)
{
    static const char *const names[] = { "gpipe", "1f1b", "dapple-pb", "interleaved" };
    for (size_t n = 0; n < 4; n++) {
        struct bare_pipeline_request request = request_of(names[n], 4, n == 3 ? 3 : 1, 8, 1, 2, 2.5);
        struct schedule first, second;
        struct error error = { 0 };
        EXPECT_INT(bare_pipeline_schedule(&request, &first, &error), STATUS_OK);
        EXPECT_INT(bare_pipeline_schedule(&request, &second, &error), STATUS_OK);
        struct hash a = schedule_hash(&first), b = schedule_hash(&second);
        EXPECT(memcmp(&a, &b, sizeof a) == 0);
        schedule_free(&first);
        schedule_free(&second);
    }
}

static void expect_refused(struct bare_pipeline_request request, const char *part)
{
    struct schedule schedule;
    struct error error = { 0 };
    EXPECT(bare_pipeline_schedule(&request, &schedule, &error) != STATUS_OK);
    EXPECT_PART(error.message, part);
}

static void test_refusals(void)
{
    struct bare_pipeline_request good = request_of("1f1b", 4, 1, 8, 1, 2, 0), bad = good;
    bad.forward = 0;
    expect_refused(bad, "forward is 0: allowed is 0.0001 to 1e+06");
    bad = good;
    bad.backward = (double)NAN;
    expect_refused(bad, "backward is");
    bad = good;
    bad.hop = -1;
    expect_refused(bad, "hop is -1: allowed is 0, or 0.0001 to 1e+06");
    bad = good;
    bad.forward = 1e300;
    expect_refused(bad, "forward is 1e+300");
    bad = good;
    bad.order_request.stages = 4096;
    bad.order_request.micro_batches = 65534;
    expect_refused(bad, "a bare pipeline may have");
    bad = request_of("gpipe", 4, 1, 100, 1, 2, 80);
    expect_refused(bad, "hop is 80, so too many hops are under way at once: allowed with these passes is 0 to 63");
    bad = request_of("interleaved", 4, 2, 6, 1, 2, 0);
    expect_refused(bad, "the nearest are 4 and 8");
}

TEST_MAIN(TEST(test_flushed_orders), TEST(test_interleaved), TEST(test_interleaved_all_forwards),
          TEST(test_interleaved_messages), TEST(test_hops), TEST(test_table), TEST(test_wide),
          TEST(test_weight_gradient), TEST(test_order_text_and_json), TEST(test_schedule_is_reproducible),
          TEST(test_refusals))
