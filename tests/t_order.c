/* Pipeline orders: the printed examples of facts/mpress-hippie-pipelines.md C, placement, refusals, and the verifier that guards every order. */
#include "sim/plan/order.h"

#include "strategies/registry.h"
#include "tests/test.h"

enum { TEXT_BYTES = 4096, STEPS_MAX = 4096 };

static const struct pipeline_order *order_named(const char *name)
{
    struct error error = { 0 };
    const struct pipeline_order *order = registry_order(name, &error);
    if (order == NULL) {
        printf("%s\n", error.message);
        exit(1);
    }
    return order;
}

static struct order_request request_of(const struct pipeline_order *order, uint32_t p, uint32_t v, uint32_t m)
{
    struct order_request request = { .stages = p, .micro_batches = m, .virtual_stages = v };
    parameters_defaults(order->parameters, order->parameter_count, &request.parameters);
    return request;
}

/* The order of a stage as text, verified on the way. */
static const char *order_text(const struct pipeline_order *order, const struct order_request *request, uint32_t stage)
{
    static char text[TEXT_BYTES];
    static struct order_step steps[STEPS_MAX];
    uint32_t count = 0;
    size_t length = 0;
    struct error error = { 0 };
    EXPECT_INT(order_check(order, request, &error), STATUS_OK);
    EXPECT(order_step_count(order, request) <= STEPS_MAX);
    if (order_steps(order, request, stage, steps, &count, &error) != STATUS_OK) {
        TEST_FAIL_("%s", error.message);
    }
    text[0] = '\0';
    for (uint32_t i = 0; i < count; i++) {
        char word[32];
        order_step_text(order, request, stage, &steps[i], word, sizeof word);
        length += (size_t)snprintf(text + length, sizeof text - length, "%s%s", i == 0 ? "" : " ", word);
    }
    return text;
}

static void test_gpipe(void)
{
    const struct pipeline_order *order = order_named("gpipe");
    struct order_request request = request_of(order, 3, 1, 4);
    EXPECT_TEXT(order_text(order, &request, 0), "F0 F1 F2 F3 B3 B2 B1 B0");
    request.parameters.value[0] = 1;
    EXPECT_TEXT(order_text(order, &request, 2), "F0 F1 F2 F3 B0 B1 B2 B3");
}

static void test_1f1b(void)
{
    const struct pipeline_order *order = order_named("1f1b");
    struct order_request request = request_of(order, 3, 1, 4);
    EXPECT_TEXT(order_text(order, &request, 0), "F0 F1 F2 B0 F3 B1 B2 B3");
    EXPECT_TEXT(order_text(order, &request, 1), "F0 F1 B0 F2 B1 F3 B2 B3");
    EXPECT_TEXT(order_text(order, &request, 2), "F0 B0 F1 B1 F2 B2 F3 B3");
    request.parameters.value[0] = 2; /* in_flight_max */
    EXPECT_TEXT(order_text(order, &request, 0), "F0 F1 B0 F2 B1 F3 B2 B3");
}

static void test_dapple_pb(void)
{
    const struct pipeline_order *order = order_named("dapple-pb");
    struct order_request request = request_of(order, 2, 1, 4);
    EXPECT_TEXT(order_text(order, &request, 0), "F0 F1 F2 B0 F3 B1 B2 B3");
    EXPECT_TEXT(order_text(order, &request, 1), "F0 B0 F1 B1 F2 B2 F3 B3");
}

static void test_interleaved(void)
{
    const struct pipeline_order *order = order_named("interleaved"), *pb = order_named("dapple-pb");
    struct order_request request = request_of(order, 2, 2, 4);
    EXPECT_TEXT(order_text(order, &request, 0),
                "F0.0 F1.0 F0.2 F1.2 F2.0 B0.2 F3.0 B1.2 F2.2 B0.0 F3.2 B1.0 B2.2 B3.2 B2.0 B3.0");
    /* With one chunk it is DAPPLE PB, op for op. */
    for (uint32_t p = 1; p <= 6; p++) {
        for (uint32_t k = 1; k <= 4; k++) {
            struct order_request one = request_of(order, p, 1, k * p), same = request_of(pb, p, 1, k * p);
            for (uint32_t s = 0; s < p; s++) {
                char text[TEXT_BYTES];
                snprintf(text, sizeof text, "%s", order_text(order, &one, s));
                EXPECT_TEXT(order_text(pb, &same, s), text);
            }
        }
    }
    /* Early Megatron-LM: as many micro-batches as stages, all forwards first. */
    struct order_request equal = request_of(order, 2, 2, 2);
    equal.parameters.value[0] = 1;
    EXPECT_TEXT(order_text(order, &equal, 1), "F0.1 F1.1 F0.3 F1.3 B0.3 B1.3 B0.1 B1.1");
}

static void test_placement(void)
{
    const struct pipeline_order *order = order_named("interleaved");
    struct order_request request = request_of(order, 4, 3, 8);
    for (uint32_t s = 0; s < 4; s++) {
        for (uint32_t c = 0; c < 3; c++) {
            uint32_t virtual_stage = order_virtual_stage(order, &request, s, c), stage, chunk;
            EXPECT_INT(virtual_stage, c * 4 + s);
            order_holder(order, &request, virtual_stage, &stage, &chunk);
            EXPECT_INT(stage, s);
            EXPECT_INT(chunk, c);
        }
    }
    uint32_t first, last;
    order_route(order, &request, 5, &first, &last);
    EXPECT_INT(first, 0);
    EXPECT_INT(last, 11);
}

static void test_every_order_verifies(void)
{
    static struct order_step steps[STEPS_MAX];
    uint32_t order_count;
    const struct pipeline_order *const *orders = registry_orders(&order_count);
    EXPECT(order_count >= 4);
    for (uint32_t i = 0; i < order_count; i++) {
        unsigned built = 0;
        for (uint32_t p = 1; p <= 8; p++) {
            for (uint32_t m = 1; m <= 24; m++) {
                for (uint32_t v = 1; v <= 4; v++) {
                    struct order_request request = request_of(orders[i], p, v, m);
                    struct error error = { 0 };
                    uint32_t count = 0;
                    if (order_check(orders[i], &request, &error) != STATUS_OK) {
                        EXPECT(error.message[0] != '\0');
                        continue;
                    }
                    for (uint32_t s = 0; s < p; s++) {
                        EXPECT_INT(order_steps(orders[i], &request, s, steps, &count, &error), STATUS_OK);
                        built++;
                    }
                }
            }
        }
        printf("%s: %u stages built\n", orders[i]->name, built);
        EXPECT(built >= 96); /* chimera: even stages, whole blocks */
    }
}

static void test_refusals(void)
{
    struct error error = { 0 };
    const struct pipeline_order *order = order_named("interleaved");
    struct order_request request = request_of(order, 4, 2, 10);
    EXPECT_INT(order_check(order, &request, &error), STATUS_BAD_INPUT);
    EXPECT_PART(error.message, "needs a multiple of 4; the nearest are 8 and 12");
    request = request_of(order, 8, 2, 6);
    EXPECT_INT(order_check(order, &request, &error), STATUS_BAD_INPUT);
    EXPECT_PART(error.message, "the nearest is 8");
    order = order_named("1f1b");
    request = request_of(order, 4, 2, 8);
    EXPECT_INT(order_check(order, &request, &error), STATUS_BAD_INPUT);
    EXPECT_PART(error.message, "virtual_stages is 2: pipeline order 1f1b needs 1");
    request = request_of(order, 0, 1, 8);
    EXPECT_INT(order_check(order, &request, &error), STATUS_BAD_INPUT);
    EXPECT_PART(error.message, "number of pipeline stages is 0: allowed is 1 to 4096");
    request = request_of(order, 1, 1, 65535);
    EXPECT_INT(order_check(order, &request, &error), STATUS_BAD_INPUT);
    EXPECT_PART(error.message, "allowed is 1 to 65534");
    const uint32_t replicas[] = { 1, 4 };
    request = request_of(order, 2, 1, 7);
    request.replicas = replicas;
    EXPECT_INT(order_check(order, &request, &error), STATUS_BAD_INPUT);
    EXPECT_PART(
        error.message,
        "cannot be dealt to the 4 replicas of stage 1: each must get as many as the others; the nearest number is 8");
    EXPECT(registry_order("interleave", &error) == NULL);
    EXPECT_PART(error.message, "did you mean \"interleaved\"?");
    EXPECT(registry_order("round-robin-of-mine", &error) == NULL);
    EXPECT_PART(error.message, "Known: gpipe, 1f1b");
    EXPECT_INT(error.status, STATUS_NOT_FOUND);
}

static void test_verify_catches(void)
{
    const struct pipeline_order *order = order_named("1f1b");
    struct order_request request = request_of(order, 1, 1, 2);
    struct order_step good[] = {
        { STEP_FORWARD, 0, 0 }, { STEP_FORWARD, 0, 1 }, { STEP_BACKWARD, 0, 0 }, { STEP_BACKWARD, 0, 1 }
    };
    struct error error = { 0 };
    EXPECT_INT(order_verify(order, &request, 0, good, 4, &error), STATUS_OK);
    struct order_step twice[] = { { STEP_FORWARD, 0, 0 }, { STEP_FORWARD, 0, 0 } };
    EXPECT_INT(order_verify(order, &request, 0, twice, 2, &error), STATUS_BAD_SCHEDULE);
    EXPECT_PART(error.message, "F0 appears twice");
    struct order_step early[] = { { STEP_BACKWARD, 0, 1 } };
    EXPECT_INT(order_verify(order, &request, 0, early, 1, &error), STATUS_BAD_SCHEDULE);
    EXPECT_PART(error.message, "B1 comes before what it needs");
    EXPECT_INT(order_verify(order, &request, 0, good, 3, &error), STATUS_BAD_SCHEDULE);
    EXPECT_PART(error.message, "micro-batch 1 of chunk 0 has 1 passes, 2 are needed");
    struct order_step outside[] = { { STEP_FORWARD, 1, 0 } };
    EXPECT_INT(order_verify(order, &request, 0, outside, 1, &error), STATUS_BAD_SCHEDULE);
    EXPECT_PART(error.message, "chunk 1 is out of range: there are kinds 0 to 1, micro-batches 0 to 1, chunks 0 to 0");
    struct order_step weight[] = { { STEP_BACKWARD_WEIGHT, 0, 0 } };
    EXPECT_INT(order_verify(order, &request, 0, weight, 1, &error), STATUS_BAD_SCHEDULE);
    EXPECT_PART(error.message, "out of range");
}

/* A build of a plug-in that counts wrongly is told so: it is no error of memwall's. */
static uint32_t claims_too_many(const struct order_request *request, uint32_t stage, struct order_step *steps)
{
    (void)stage;
    (void)steps;
    return 2 * request->micro_batches + 1;
}

static void test_build_past_its_room(void)
{
    static const struct pipeline_order order = { .abi = PIPELINE_ORDER_ABI,
                                                 .name = "wild",
                                                 .summary = "",
                                                 .virtual_stages = 1,
                                                 .model_replicas = 1,
                                                 .build = claims_too_many };
    struct order_request request = request_of(&order, 2, 1, 3);
    struct order_step steps[6];
    struct error error = { 0 };
    uint32_t count;
    EXPECT_INT(order_steps(&order, &request, 1, steps, &count, &error), STATUS_BAD_SCHEDULE);
    EXPECT_PART(error.message, "order wild, stage 1: its build says that it wrote 7 steps, where there is room for 6");
}

static void test_parameters(void)
{
    static const char text[] = "{\"name\": \"gpipe\", \"backward_order\": \"fifo\"}";
    static const char *const ignore[] = { "name", NULL };
    const struct pipeline_order *order = order_named("gpipe");
    struct json_document *document = NULL;
    struct json root;
    struct parameter_values values;
    struct error error = { 0 };
    EXPECT_INT(json_parse(&document, text, strlen(text), "test", &error), STATUS_OK);
    json_root(document, &root);
    EXPECT_INT(parameters_read(order->parameters, order->parameter_count, &root, ignore, &values, &error), STATUS_OK);
    EXPECT_REAL(values.value[0], 1.0, 0);
    EXPECT_INT(parameters_read(order->parameters, order->parameter_count, &root, NULL, &values, &error),
               STATUS_BAD_INPUT);
    EXPECT_PART(error.message, "name");
    json_free(document);

    static const char bad[] = "{\"backward_order\": \"filo\"}";
    EXPECT_INT(json_parse(&document, bad, strlen(bad), "test", &error), STATUS_OK);
    json_root(document, &root);
    EXPECT_INT(parameters_read(order->parameters, order->parameter_count, &root, NULL, &values, &error),
               STATUS_BAD_INPUT);
    EXPECT_PART(error.message, "lifo");
    json_free(document);
    struct json absent = { 0 };
    EXPECT_INT(parameters_read(order->parameters, order->parameter_count, &absent, NULL, &values, &error), STATUS_OK);
    EXPECT_REAL(values.value[0], 0.0, 0);

    struct strbuf out = { 0 };
    struct json_writer writer = { .out = &out, .compact = true };
    jw_object(&writer, NULL);
    parameters_print(order->parameters, order->parameter_count, &values, &writer);
    jw_end(&writer);
    EXPECT_PART(out.text, "\"backward_order\":\"lifo\"");
    strbuf_free(&out);
}

/* C.4: PipeDream's runtime admits floor((N - 1 - replicas of earlier stages) / its own) micro-batches first, of N workers, and keeps one version more. */
static void test_warm_up(void)
{
    const struct pipeline_order *order = order_named("pipedream");
    uint64_t state = test_seed;
    uint32_t cases = 0;
    for (; cases < 1000; cases++) {
        uint32_t replicas[12], p = 1 + (uint32_t)test_below(&state, 12), workers = 0, earlier = 0;
        for (uint32_t s = 0; s < p; s++) {
            replicas[s] = 1 + (uint32_t)test_below(&state, 8);
            workers += replicas[s];
        }
        struct order_request request = request_of(order, p, 1, 840);
        request.replicas = replicas;
        for (uint32_t s = 0; s < p; s++) {
            uint32_t warm_up = (workers - 1 - earlier) / replicas[s];
            EXPECT_INT(order_warm_up(&request, s), warm_up);
            EXPECT_INT(order_weight_versions(order, &request, s), warm_up + 1);
            earlier += replicas[s];
        }
    }
    printf("%u chains of replicas\n", cases);
    /* GNMT on 12 workers */
    static const uint32_t gnmt[] = { 1, 1, 1, 1, 1, 1, 1, 1, 3, 1 }, ahead[] = { 11, 10, 9, 8, 7, 6, 5, 4, 1, 0 };
    struct order_request request = request_of(order, 10, 1, 12);
    request.replicas = gnmt;
    for (uint32_t s = 0; s < 10; s++) {
        EXPECT_INT(order_warm_up(&request, s), ahead[s]);
    }
}

/* C.3: K_s = min(p - s, D) of PA, min(2(p - s) - 1, D) of PB: K_s - 1 forwards before the first backward, K_s in flight. */
static void test_dapple_limits(void)
{
    static const char *const names[] = { "1f1b", "dapple-pb" };
    uint32_t cases = 0;
    for (uint32_t n = 0; n < 2; n++) {
        const struct pipeline_order *order = order_named(names[n]);
        for (uint32_t p = 1; p <= 8; p++) {
            for (uint32_t d = 1; d <= 16; d++) {
                struct order_request request = request_of(order, p, 1, 24);
                request.parameters.value[0] = d; /* in_flight_max */
                for (uint32_t s = 0; s < p; s++) {
                    struct order_step steps[2 * 24];
                    uint32_t count, most, first = 0, k = n == 0 ? p - s : 2 * (p - s) - 1;
                    k = k < d ? k : d;
                    EXPECT_INT(order_steps(order, &request, s, steps, &count, NULL), STATUS_OK);
                    while (steps[first].kind == STEP_FORWARD) {
                        first++;
                    }
                    EXPECT_INT(first, k);
                    EXPECT_INT(order_in_flight(order, &request, s, &most, NULL), STATUS_OK);
                    EXPECT_INT(most, k);
                    cases++;
                }
            }
        }
    }
    printf("%u stages with limits\n", cases);
    EXPECT_INT(cases, 2 * 16 * 36);
}

/* Peaks of facts C.10 (p = 4, m = 8) and of the asynchronous orders; what an order with few micro-batches can keep. */
static void test_in_flight(void)
{
    static const struct {
        const char *name;
        uint32_t v, m, peaks[4];
    } cases[] = {
        { "gpipe", 1, 8, { 8, 8, 8, 8 } },     { "1f1b", 1, 8, { 4, 3, 2, 1 } },
        { "1f1b", 1, 2, { 2, 2, 2, 1 } },      { "dapple-pb", 1, 8, { 7, 5, 3, 1 } },
        { "lsps-a", 1, 8, { 8, 8, 8, 1 } },    { "interleaved", 2, 8, { 11, 9, 7, 5 } },
        { "zb-h1", 1, 8, { 4, 4, 4, 4 } },     { "zb-h2", 1, 8, { 7, 7, 7, 7 } },
        { "pipedream", 1, 8, { 4, 3, 2, 1 } }, { "pipedream-2bw", 1, 8, { 4, 3, 2, 1 } },
        { "zb-v", 2, 8, { 8, 8, 8, 8 } },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct pipeline_order *order = order_named(cases[i].name);
        const struct order_request request = request_of(order, 4, cases[i].v, cases[i].m);
        struct error error = { 0 };
        for (uint32_t s = 0; s < 4; s++) {
            uint32_t most;
            EXPECT_INT(order_in_flight(order, &request, s, &most, &error), STATUS_OK);
            if (most != cases[i].peaks[s]) {
                TEST_FAIL_("%s, stage %u: %u in flight, expected %u", cases[i].name, s, most, cases[i].peaks[s]);
            }
        }
    }
}

TEST_MAIN(TEST(test_in_flight), TEST(test_warm_up), TEST(test_dapple_limits), TEST(test_gpipe), TEST(test_1f1b),
          TEST(test_dapple_pb), TEST(test_interleaved), TEST(test_placement), TEST(test_every_order_verifies),
          TEST(test_refusals), TEST(test_verify_catches), TEST(test_build_past_its_room), TEST(test_parameters))
