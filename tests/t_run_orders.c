/* Every pipeline order through the lowering: what facts/mpress-hippie-pipelines.md C says of times, activations, weight copies and versions, on a model whose stages are nearly alike.
 *
 * Makespans. Start as early as you can on fixed orders: a makespan only grows when a pass grows. So a step lies between the closed form with the shortest forward and backward that any stage has and
 * that with the longest, plus the hops on the longest path; both are read off the timeline, and lie a few percent apart (the ends of the model, NVLink). */
#include "sim/base/units.h"
#include "tests/lower_run.h"

#define MODEL                                                                                                          \
    "{\"family\":\"gpt\",\"layers\":16,\"hidden\":2048,\"heads\":16,\"ffn\":8192,\"vocab\":256,\"max_sequence\":1024," \
    "\"tied_head\":false}"
#define HEAD                                                                                                           \
    "{\"schema\":\"memwall.scenario/1\",\"name\":\"orders\",\"model\":" MODEL                                          \
    ",\"machine\":\"dgx-a100-80gb\",\"software\":\"ideal\","

struct shape {
    const char *order;
    uint32_t stages, micro_batches, chunks, copies;
};

static void run_shape(struct run *run, const struct shape *shape, const char *more)
{
    run_format(run,
               HEAD "\"gpus\":%u,\"training\":{\"micro_batch\":2,\"global_batch\":%u},\"parallel\":{\"pipeline\":%u,"
                    "\"pipeline_order\":%s,\"virtual_stages\":%u}%s}",
               shape->stages, 2 * shape->micro_batches, shape->stages, shape->order, shape->chunks, more);
}

/* A device's whole share of one micro-batch, least and most of all stages; hops. Seconds. */
struct times {
    double least[3], most[3]; /* forward, backward, weight part */
    double hop_least, hop_most;
    double makespan;                /* of the passes */
    double bottleneck, update_most; /* most of forward + backward + weight part + update on one stage; update */
};

static int kind_of(const struct sched_op *op)
{
    return op->opcode != OP_COMPUTE       ? -1
           : op->phase == PHASE_FORWARD   ? 0
           : op->phase == PHASE_BACKWARD  ? 1
           : op->phase == PHASE_WEIGHT    ? 2
           : op->phase == PHASE_OPTIMIZER ? 3
                                          : -1;
}

static struct times times_of(const struct run *run, uint32_t micro_batches, uint32_t updates)
{
    const struct schedule *s = &run->schedule;
    struct times t = { .least = { INFINITY, INFINITY, INFINITY }, .hop_least = INFINITY };
    int64_t first_ps = INT64_MAX, last_ps = 0;
    for (uint32_t r = 0; r < s->rank_count; r++) {
        double sums[4] = { 0 };
        bool begun = false; /* the clearing before the first pass belongs to no update */
        for (uint32_t i = s->ranks[r].first_op; i < s->ranks[r].first_op + s->ranks[r].op_count; i++) {
            const struct op_times *at = &run->timeline.ops[i];
            double ran_s = s_from_ps(at->end_ps - at->start_ps);
            int kind = kind_of(&s->ops[i]);
            begun = begun || (kind >= 0 && kind < 3);
            if (kind >= 0 && begun) {
                sums[kind] += ran_s;
            }
            if (kind >= 0 && kind < 3) {
                first_ps = at->start_ps < first_ps ? at->start_ps : first_ps;
                last_ps = at->end_ps > last_ps ? at->end_ps : last_ps;
            } else if (s->ops[i].opcode == OP_RECV) {
                t.hop_least = fmin(t.hop_least, ran_s);
                t.hop_most = fmax(t.hop_most, ran_s);
            }
        }
        for (int k = 0; k < 3; k++) {
            t.least[k] = fmin(t.least[k], sums[k] / micro_batches);
            t.most[k] = fmax(t.most[k], sums[k] / micro_batches);
        }
        double of_updates = sums[3] / updates;
        t.update_most = fmax(t.update_most, of_updates);
        t.bottleneck = fmax(t.bottleneck, (sums[0] + sums[1] + sums[2] + sums[3]) / micro_batches);
    }
    t.makespan = s_from_ps(last_ps - first_ps);
    return t;
}

static double least(double a, double b)
{
    return a < b ? a : b;
}

/* The closed form of C for a micro-batch's forward f, backward b (input part where the order splits), weight part w. */
static double law(const struct shape *shape, double f, double b, double w)
{
    double p = shape->stages, m = shape->micro_batches;
    if (strstr(shape->order, "interleaved") != NULL) {
        return m * (f + b) + (p - 1) * (f + b) / shape->chunks;
    }
    if (strstr(shape->order, "chimera") != NULL) {
        return p * f + (2 * p - 2) * b + (m / p - 1) * (p * (f + b) + (p - 2) * (b - f));
    }
    if (strstr(shape->order, "zb-h1") != NULL) {
        return m * (f + b + w) + (p - 1) * (f + b) - least(m - 1, p - 1) * least(f, w);
    }
    return (m + p - 1) * (f + b);
}

/* Hops on the longest path, at most: each pass of the last device to end can be behind one, and the way to it and back. C.2 and C.3 have exact counts. */
static double hops(const struct shape *shape)
{
    double p = shape->stages, m = shape->micro_batches;
    if (strstr(shape->order, "gpipe") != NULL || strstr(shape->order, "dapple-pb") != NULL) {
        return 2 * (p - 1);
    }
    if (strstr(shape->order, "1f1b") != NULL || strstr(shape->order, "lsps-b") != NULL) {
        return 2 * (p - 1 + floor((m - 1) * (p - 1) / p));
    }
    return 2 * (m + p - 1) * shape->chunks;
}

static void test_makespans(void)
{
    static const struct shape shapes[] = {
        { "\"gpipe\"", 4, 8, 1, 1 },       { "{\"name\":\"gpipe\",\"backward_order\":\"fifo\"}", 4, 6, 1, 1 },
        { "\"1f1b\"", 4, 8, 1, 1 },        { "\"1f1b\"", 8, 5, 1, 1 },
        { "\"dapple-pb\"", 4, 8, 1, 1 },   { "\"interleaved\"", 4, 8, 2, 1 },
        { "\"interleaved\"", 2, 6, 4, 1 }, { "\"lsps-a\"", 4, 8, 1, 1 },
        { "\"lsps-b\"", 4, 8, 1, 1 },      { "\"lsps-c\"", 4, 8, 1, 1 },
        { "\"zb-h1\"", 4, 8, 1, 1 },       { "\"zb-h1\"", 4, 2, 1, 1 },
        { "\"chimera\"", 4, 4, 2, 2 },     { "\"chimera\"", 4, 12, 2, 2 },
        { "\"chimera\"", 8, 8, 2, 2 },
    };
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        const struct shape *shape = &shapes[i];
        struct run run;
        run_shape(&run, shape, "");
        if (run.timed) {
            struct times t = times_of(&run, shape->micro_batches, 1);
            double low = law(shape, t.least[0], t.least[1], t.least[2]) +
                         (strstr(shape->order, "gpipe") != NULL ? hops(shape) * t.hop_least : 0);
            double high = law(shape, t.most[0], t.most[1], t.most[2]) + hops(shape) * t.hop_most;
            if (!(t.makespan >= low * (1 - 1e-9) && t.makespan <= high * (1 + 1e-9))) {
                TEST_FAIL_("%s p %u m %u: %.9g s, expected %.9g to %.9g", shape->order, shape->stages,
                           shape->micro_batches, t.makespan, low, high);
            }
            EXPECT(high < 1.08 * low);
        }
        run_free(&run);
    }
}

/* ---- what is kept ---- */

/* Highest number of activations of transformer layers on a rank, counted along its ops. */
static uint32_t peak_activations(const struct schedule *s, uint32_t rank)
{
    uint32_t live = 0, peak = 0;
    for (uint32_t i = s->ranks[rank].first_op; i < s->ranks[rank].first_op + s->ranks[rank].op_count; i++) {
        const uint32_t *operands = sched_acquires(s, &s->ops[i]);
        for (uint32_t k = 0; k < (uint32_t)s->ops[i].acquire_count + s->ops[i].release_count; k++) {
            const struct sched_buffer *buffer = &s->buffers[operands[k]];
            if (buffer->buffer_class == BUFFER_ACTIVATION &&
                strcmp(sched_label(s, buffer->label), "saved for backward") == 0) {
                live += k < s->ops[i].acquire_count ? 1 : UINT32_MAX;
                peak = live > peak ? live : peak;
            }
        }
    }
    EXPECT_INT(live, 0);
    return peak;
}

/* In chunks: C.1. */
static uint32_t wanted_peak(const struct shape *shape, uint32_t s)
{
    uint32_t p = shape->stages, m = shape->micro_batches, v = shape->chunks, peak = p - s;
    if (strstr(shape->order, "gpipe") != NULL) {
        peak = m;
    } else if (strstr(shape->order, "dapple-pb") != NULL) {
        peak = 2 * (p - s) - 1;
    } else if (strstr(shape->order, "interleaved") != NULL) {
        peak = 2 * (p - s - 1) + (v - 1) * p + 1;
    } else if (strstr(shape->order, "lsps-a") != NULL) {
        peak = s == p - 1 ? 1 : m;
    } else if (strstr(shape->order, "chimera") != NULL) {
        peak = p / 2 + 1 + (s < p - 1 - s ? s : p - 1 - s);
    } else if (strstr(shape->order, "zb-h1") != NULL) {
        peak = p;
    } else if (strstr(shape->order, "zb-h2") != NULL) {
        peak = 2 * p - 1;
    } else if (strstr(shape->order, "zb-v") != NULL) {
        peak = 2 * p;
    } else if (strstr(shape->order, "dualpipe") != NULL) {
        peak = p + 1;
    }
    return peak < m * v / shape->copies ? peak : m * v / shape->copies;
}

static void test_activations(void)
{
    static const struct shape shapes[] = {
        { "\"gpipe\"", 4, 8, 1, 1 },       { "\"1f1b\"", 4, 8, 1, 1 },      { "\"1f1b\"", 8, 3, 1, 1 },
        { "\"dapple-pb\"", 4, 8, 1, 1 },   { "\"pipedream\"", 4, 8, 1, 1 }, { "\"pipedream-2bw\"", 4, 8, 1, 1 },
        { "\"interleaved\"", 4, 8, 2, 1 }, { "\"lsps-a\"", 4, 8, 1, 1 },    { "\"lsps-b\"", 4, 8, 1, 1 },
        { "\"zb-h1\"", 4, 8, 1, 1 },       { "\"zb-h2\"", 4, 12, 1, 1 },    { "\"zb-v\"", 4, 12, 2, 1 },
        { "\"chimera\"", 8, 16, 2, 2 },    { "\"dualpipe\"", 4, 16, 2, 2 },
    };
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        const struct shape *shape = &shapes[i];
        struct run run;
        run_shape(&run, shape, "");
        uint32_t layers = 16 * shape->copies / (shape->stages * shape->chunks);
        for (uint32_t s = 0; run.timed && s < shape->stages; s++) {
            uint32_t got = peak_activations(&run.schedule, s), wanted = layers * wanted_peak(shape, s);
            if (got != wanted) {
                TEST_FAIL_("%s stage %u: %u activations, expected %u", shape->order, s, got, wanted);
            }
        }
        run_free(&run);
    }
}

/* Bytes of a class that a device holds all step long. */
static double held(const struct run *run, uint32_t device, enum buffer_class buffer_class)
{
    double bytes = 0;
    for (uint32_t b = 0; run->timed && b < run->schedule.buffer_count; b++) {
        const struct sched_buffer *buffer = &run->schedule.buffers[b];
        bool counts = buffer->buffer_class == buffer_class && (buffer->flags & BUFFER_LIVE_AT_START);
        bytes += counts && buffer->space == device_space(&run->schedule, device) ? (double)buffer->bytes : 0;
    }
    return bytes;
}

static void test_versions_and_copies(void)
{
    const struct shape plain = { "\"1f1b\"", 4, 8, 1, 1 }, stash = { "\"pipedream\"", 4, 8, 1, 1 },
                       sync = { "{\"name\":\"pipedream\",\"vertical_sync\":true}", 4, 8, 1, 1 },
                       two = { "\"pipedream-2bw\"", 4, 8, 1, 1 }, chimera = { "\"chimera\"", 4, 8, 2, 2 },
                       dual = { "\"dualpipe\"", 4, 8, 2, 2 };
    const struct shape *const shapes[] = { &plain, &stash, &sync, &two, &chimera, &dual };
    struct run runs[6];
    for (int i = 0; i < 6; i++) {
        run_shape(&runs[i], shapes[i], "");
    }
    for (uint32_t s = 0; s < 4; s++) {
        double weights = held(&runs[0], s, BUFFER_WEIGHT);
        EXPECT(weights > 0);
        EXPECT_REAL(held(&runs[1], s, BUFFER_WEIGHT), (4 - s) * weights, 0);
        EXPECT_REAL(held(&runs[2], s, BUFFER_WEIGHT), 4 * weights, 0);
        EXPECT_REAL(held(&runs[3], s, BUFFER_WEIGHT), 2 * weights, 0);
        for (int i = 1; i < 4; i++) {
            EXPECT_REAL(held(&runs[i], s, BUFFER_OPTIMIZER), held(&runs[0], s, BUFFER_OPTIMIZER), 0);
            EXPECT_REAL(held(&runs[i], s, BUFFER_GRADIENT), held(&runs[0], s, BUFFER_GRADIENT), 0);
        }
        for (int i = 4; i < 6; i++) { /* stage s of one copy, stage 3 - s of the other */
            for (enum buffer_class c = BUFFER_WEIGHT; c <= BUFFER_OPTIMIZER; c++) {
                EXPECT_REAL(held(&runs[i], s, c), held(&runs[0], s, c) + held(&runs[0], 3 - s, c), 0);
            }
        }
    }
    for (int i = 0; i < 6; i++) {
        run_free(&runs[i]);
    }
}

/* Play the stream: the versions that a stage still needs. A micro-batch's version at the first stage is known by its number. */
static void test_versions_by_counting(void)
{
    const struct pipeline_order *order = registry_order("pipedream", NULL);
    for (uint32_t p = 1; p <= 6; p++) {
        for (int sync = 0; sync < 2; sync++) {
            enum { STREAM = 40 };
            struct order_request request = { .stages = p, .micro_batches = STREAM, .virtual_stages = 1 };
            request.parameters.value[0] = sync;
            for (uint32_t s = 0; s < p; s++) {
                struct order_step steps[2 * STREAM];
                uint32_t count = order->build(&request, s, steps), updates = 0, oldest_unread = 0, most = 0;
                uint32_t used[STREAM] = { 0 }, first_back = 0;
                for (uint32_t i = 0; i < count; i++) {
                    uint32_t b = steps[i].micro_batch;
                    if (steps[i].kind == STEP_FORWARD) {
                        uint32_t at_first = b >= p - 1 ? b - (p - 1) : 0; /* the first stage has updated so often */
                        used[b] = sync ? at_first : updates;
                        oldest_unread = sync ? (b + 1 >= p - 1 ? b + 1 - (p - 1) : 0) : updates;
                        EXPECT(used[b] <= updates);
                    }
                    /* needed: from the oldest that a backward or a coming forward takes, up to the newest */
                    uint32_t from = oldest_unread;
                    for (uint32_t k = first_back; k < STREAM && k <= b; k++) {
                        bool in_flight = steps[i].kind == STEP_FORWARD ? k <= b : k >= b;
                        from = in_flight && used[k] < from ? used[k] : from;
                    }
                    uint32_t distinct = updates - from + 1;
                    most = distinct > most ? distinct : most;
                    if (steps[i].kind == STEP_BACKWARD) {
                        first_back = b + 1;
                        updates++;
                    }
                }
                EXPECT_INT(most, order_weight_versions(order, &request, s));
            }
        }
    }
}

/* ---- without a flush ---- */

/* A settled step of m micro-batches takes m times what the busiest stage does for one, and the hops that are exposed: 2 (p-1)/p a period (C.3). */
static void test_settled_steps(void)
{
    static const struct shape shapes[] = { { "\"pipedream\"", 4, 8, 1, 1 },
                                           { "\"pipedream\"", 4, 1, 1, 1 },
                                           { "\"pipedream\"", 8, 3, 1, 1 },
                                           { "\"pipedream-2bw\"", 4, 8, 1, 1 },
                                           { "\"pipedream-2bw\"", 4, 4, 1, 1 } };
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        const struct shape *shape = &shapes[i];
        struct run run;
        run_shape(&run, shape, "");
        if (run.timed) {
            const struct step_window window = timeline_step(&run.schedule, &run.timeline);
            uint32_t stream = window.steps * shape->micro_batches;
            bool each = i < 3;
            struct times t = times_of(&run, stream, each ? stream : window.steps);
            double step = s_from_ps(window.to_ps - window.from_ps), m = shape->micro_batches, p = shape->stages;
            double low = m * t.bottleneck;
            /* the update of each stage comes at another time: it delays those behind it at most once */
            double high = low + m * 2 * t.hop_most * (p - 1) / p + (each ? 0 : t.update_most) +
                          m * (t.most[0] - t.least[0] + t.most[1] - t.least[1]);
            if (!(step >= low * (1 - 1e-9) && step <= high * (1 + 1e-9))) {
                TEST_FAIL_("%s p %u m %u: a step of %.9g s, expected %.9g to %.9g", shape->order, shape->stages,
                           shape->micro_batches, step, low, high);
            }
            EXPECT(high < 1.1 * low);
        }
        run_free(&run);
    }
}

/* ---- two copies ---- */

/* Both copies of a stage sum their gradients: every device reduces both of its stages, with the device that has the others. */
static void test_copies_sum_gradients(void)
{
    static const char *const orders[] = { "\"chimera\"", "\"dualpipe\"" };
    for (int i = 0; i < 2; i++) {
        const struct shape shape = { orders[i], 4, 8, 2, 2 };
        struct run run;
        run_shape(&run, &shape, "");
        const struct schedule *s = &run.schedule;
        for (uint32_t r = 0; run.timed && r < 4; r++) {
            double bytes = 0;
            for (uint32_t k = s->ranks[r].first_op; k < s->ranks[r].first_op + s->ranks[r].op_count; k++) {
                const struct sched_op *op = &s->ops[k];
                if (op->opcode != OP_ALL_REDUCE || op->phase != PHASE_DATA_COMM) {
                    continue;
                }
                const struct sched_group *group = &s->groups[s->works[op->work].group];
                bytes += s->works[op->work].bytes;
                EXPECT_INT(group->member_count, 2);
                EXPECT_INT(s->group_members[group->first_member], r < 2 ? r : 3 - r);
                EXPECT_INT(s->group_members[group->first_member + 1], r < 2 ? 3 - r : r);
            }
            EXPECT_REAL(bytes, held(&run, r, BUFFER_GRADIENT), 1e-6); /* `ideal` keeps and reduces 2 bytes each */
        }
        run_free(&run);
    }
}

static void test_folding(void)
{
    static const char *const rows[] = {
        "\"pipeline\":2,\"pipeline_order\":\"chimera\",\"virtual_stages\":2",
        "\"pipeline\":4,\"pipeline_order\":\"chimera\",\"zero_stage\":1",
        "\"pipeline\":2,\"pipeline_order\":\"dualpipe\",\"tensor\":2",
        "\"pipeline\":4,\"pipeline_order\":\"pipedream\"",
        "\"pipeline\":2,\"pipeline_order\":\"pipedream\",\"tensor\":2",
        "\"pipeline\":2,\"pipeline_order\":\"pipedream-2bw\",\"tensor\":2",
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        for (int tied = 0; tied < 2; tied++) {
            char text[2048];
            snprintf(
                text, sizeof text,
                "{\"schema\":\"memwall.scenario/1\",\"name\":\"orders\",\"model\":{\"family\":\"gpt\",\"layers\":8,"
                "\"hidden\":1024,\"heads\":16,\"vocab\":5120,\"max_sequence\":512,\"tied_head\":%s},\"machine\":"
                "\"dgx-a100-80gb\",\"gpus\":8,\"software\":\"megatron-core\",\"training\":{\"global_batch\":32},"
                "\"parallel\":{%s}",
                tied ? "true" : "false", rows[i]);
            compare_folding(text);
        }
    }
}

/* ---- steps of one's own ---- */

static void test_own_steps(void)
{
    const struct shape plain = { "\"1f1b\"", 2, 4, 1, 1 },
                       steps = { "{\"name\":\"steps\",\"stages\":[\"F0 F1 B0 F2 B1 F3 B2 B3\",\"F0 B0 F1 B1 F2 B2 F3 "
                                 "B3\"]}",
                                 2, 4, 1, 1 },
                       chosen = { "\"auto\"", 2, 4, 1, 1 },
                       split = { "{\"name\":\"auto\",\"weight_gradient\":1}", 2, 4, 1, 1 };
    struct run a, b, c, d;
    run_shape(&a, &plain, "");
    run_shape(&b, &steps, "");
    run_shape(&c, &chosen, "");
    run_shape(&d, &split, "");
    EXPECT(memcmp(&a.timeline.schedule_hash, &b.timeline.schedule_hash, sizeof(struct hash)) ==
           0); /* the same orders, the same schedule */
    EXPECT(c.timeline.end_ps <= a.timeline.end_ps);
    EXPECT(d.timeline.end_ps < a.timeline.end_ps); /* weight parts fill the bubble */
    /* A plan's text holds the steps, and reads back to itself. */
    struct strbuf text = { 0 }, again = { 0 };
    struct arena arena = { 0 };
    struct plan plan;
    struct json_document *document = NULL;
    struct json root;
    struct error error = { 0 };
    plan_print_json(&d.scenario.plan, &d.scenario.model, &text);
    EXPECT_PART(text.text, "\"steps\"");
    EXPECT_INT(json_parse(&document, text.text, text.length, "plan", &error), STATUS_OK);
    json_root(document, &root);
    EXPECT_INT(plan_from_json(&plan, &d.scenario.model, &root, &arena, &error), STATUS_OK);
    plan_print_json(&plan, &d.scenario.model, &again);
    EXPECT_TEXT(again.text, text.text);
    json_free(document);
    arena_free(&arena);
    strbuf_free(&text);
    strbuf_free(&again);
    run_free(&a);
    run_free(&b);
    run_free(&c);
    run_free(&d);
}

static void expect_refused(const char *parallel, const char *rest, const char *path, const char *part)
{
    struct run run;
    char text[2048], message[2048];
    snprintf(text, sizeof text, HEAD "\"gpus\":4,\"training\":{\"global_batch\":8},\"parallel\":{%s}%s}", parallel,
             rest);
    run_scenario(&run, text);
    EXPECT_INT(run.status, STATUS_BAD_INPUT);
    EXPECT_TEXT(run.error.path, path);
    EXPECT_PART(error_text(&run.error, message, sizeof message), part);
    run_free(&run);
}

static void test_refusals(void)
{
#define P4 "\"pipeline\":4,\"pipeline_order\":"
    expect_refused(P4 "\"pipedream\",\"zero_stage\":1", "", "$.parallel.zero_stage", "allowed is 0");
    expect_refused(P4 "\"chimera\",\"zero_stage\":2", "", "$.parallel.zero_stage", "allowed is 0 or 1");
    expect_refused(P4 "\"dualpipe\"", ",\"memory_policy\":\"zero-offload\"", "$.memory_policy", "use \"resident\"");
    expect_refused(P4 "{\"name\":\"steps\",\"stages\":[\"F0 B0\",\"F0 B0\"]}", "", "$.parallel.pipeline",
                   "the steps of pipeline_order \"steps\" are for 2 stages");
    expect_refused(
        P4 "\"pipedream\"", ",\"memory_policy\":\"zero-offload\"", "$.memory_policy",
        "use \"resident\", one that moves pass by pass, like \"mpress\" or \"capuchin\", or an order with a flush");
    expect_refused("\"pipeline\":2,\"data\":2,\"pipeline_order\":{\"name\":\"steps\",\"stages\":[\"F0 B0\",\"F0 B0\"]}",
                   "", "$.training.global_batch", "global_batch 2 makes as many");
    expect_refused(P4 "{\"name\":\"steps\",\"stages\":[\"F0 F1 B0\",\"F0 B0 F1 B1\"]}", "", "stage 0, position 3",
                   "the stage never runs B1: add it");
    expect_refused(P4 "{\"name\":\"steps\",\"stages\":[\"F0 B0 F1 B1\",\"F1 F0 B0 B1\"]}", "", "stage 0, position 2",
                   "move F1 of stage 0 in front of position 2");
    expect_refused(P4 "{\"name\":\"auto\",\"limits\":[1,2]}", "", "$.parallel.pipeline_order.limits",
                   "2 numbers for 4 stages");
    expect_refused(P4 "\"file\"", "", "$.parallel.pipeline_order", "\"path\"");
#undef P4
}

TEST_MAIN(TEST(test_makespans), TEST(test_activations), TEST(test_versions_and_copies), TEST(test_versions_by_counting),
          TEST(test_settled_steps), TEST(test_copies_sum_gradients), TEST(test_folding), TEST(test_own_steps),
          TEST(test_refusals))
