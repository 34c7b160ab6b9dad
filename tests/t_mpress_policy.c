/* The policy mpress: plan.moves carried out, stage_places, reading and refusing. Every schedule is verified, every timeline audited (report_run, zero_run.h's sums). */
#include "sim/base/units.h"
#include "sim/plan/plan_moves.h"
#include "tests/zero_run.h"

enum { LAYERS = 16, MICRO_BATCHES = 16 };

/* GPT of 16 equal layers on 8 V100, two layers a stage; `policy`: its name, or an object; `plan`: members of the section "plan". */
static bool run_on(struct report_run *run, const char *machine, const char *order, const char *policy, const char *plan)
{
    char text[4096], quoted[64];
    memset(run, 0, sizeof *run);
    snprintf(quoted, sizeof quoted, "\"%s\"", policy);
    snprintf(text, sizeof text,
             "{\"schema\": \"memwall.scenario/1\", \"machine\": \"%s\", \"gpus\": 8, \"software\": \"ideal\","
             " \"model\": {\"family\": \"gpt\", \"layers\": %d, \"hidden\": 1024, \"heads\": 16, \"ffn\": 4096,"
             " \"vocab\": 1000, \"max_sequence\": 512},"
             " \"training\": {\"micro_batch\": 2, \"global_batch\": %d},"
             " \"parallel\": {\"pipeline\": 8, \"pipeline_order\": \"%s\"}, \"memory_policy\": %s, \"plan\": {%s}}",
             machine, LAYERS, 2 * MICRO_BATCHES, order, *policy == '{' ? policy : quoted, plan);
    bool ran = report_run(run, text);
    if (!ran) {
        printf("  %s\n", text);
    } else {
        EXPECT_INT(run->timeline.outcome, TIMELINE_DONE);
    }
    return ran;
}

static bool run_plan(struct report_run *run, const char *plan)
{
    return run_on(run, "dgx1-v100-32gb", "1f1b", strstr(plan, "moves") != NULL ? "mpress" : "resident", plan);
}

static const struct space_use *use_of(const struct report_run *run, uint32_t device)
{
    for (uint32_t i = 0; i < run->schedule.space_count; i++) {
        const struct sched_space *space = &run->schedule.spaces[i];
        if (space->kind == SPACE_DEVICE && space->location == device) {
            return &run->timeline.spaces[i];
        }
    }
    EXPECT(false);
    return NULL;
}

static double activations_at_peak(const struct report_run *run, uint32_t device)
{
    return (double)use_of(run, device)->at_peak_bytes[BUFFER_ACTIVATION];
}

/* Bytes that copies between devices bring to (or take from) the device of another rank. */
static double peer_bytes(const struct report_run *run, uint32_t device, bool to)
{
    const struct schedule *s = &run->schedule;
    double bytes = 0;
    for (uint32_t i = 0; i < s->op_count; i++) {
        const struct sched_op *op = &s->ops[i];
        if (op->opcode == OP_COPY_P2P) {
            uint32_t buffer = to ? sched_writes(s, op)[0] : sched_reads(s, op)[0];
            uint32_t own = s->devices[s->ranks[sched_op_rank(s, op)].first_device];
            uint32_t at = s->spaces[s->buffers[buffer].space].location;
            bytes += at == device && at != own ? s->works[op->work].bytes : 0;
        }
    }
    return bytes;
}

/* Stage 0's savings over links of 2, 2 and 1 lanes to stages 3, 4 and 1: shares of their lanes, so that all stripes take the same time; every byte comes back; the owner's peak falls, the lenders' rise
 * by no more than what they hold. */
static void test_stripes(void)
{
    static struct report_run resident, run;
    const char *moves = "\"moves\": [{\"tensor\": \"activation\", \"layers\": [0, 1], \"to\": \"devices\", \"stripes\":"
                        " [{\"stage\": 3, \"share\": 2}, {\"stage\": 4, \"share\": 2}, {\"stage\": 1, \"share\": 1}]}]";
    if (run_plan(&resident, "") && run_plan(&run, moves)) {
        double out = peer_bytes(&run, 3, true) + peer_bytes(&run, 4, true) + peer_bytes(&run, 1, true);
        EXPECT(out > 0);
        EXPECT_REAL(zero_total(&run, OP_COPY_P2P), 2 * out, 0);
        for (uint32_t device = 1; device <= 4; device++) {
            EXPECT_REAL(peer_bytes(&run, device, true), peer_bytes(&run, device, false), 0);
        }
        EXPECT_REAL(peer_bytes(&run, 3, true), 0.4 * out, 1e-6 * out);
        EXPECT_REAL(peer_bytes(&run, 1, true), 0.2 * out, 1e-6 * out);
        double shortest = 1e300, longest = 0;
        for (uint32_t i = 0; i < run.schedule.op_count; i++) {
            if (run.schedule.ops[i].opcode == OP_COPY_P2P) {
                double alone = (double)run.timeline.ops[i].alone_ps;
                shortest = fmin(shortest, alone);
                longest = fmax(longest, alone);
            }
        }
        EXPECT_REAL(longest / shortest, 1, 0.01); /* 48.3 GB/s on two lanes, 24.2 on one */
        EXPECT(use_of(&run, 0)->peak_bytes < use_of(&resident, 0)->peak_bytes);
        EXPECT(use_of(&run, 3)->peak_bytes > use_of(&resident, 3)->peak_bytes);
        double lent = activations_at_peak(&run, 3) - activations_at_peak(&resident, 3);
        printf("gpu 0: %.4g of %.4g MB; gpu 3 lends %.4g MB at its peak; step %.4g of %.4g ms\n",
               (double)use_of(&run, 0)->peak_bytes * 1e-6, (double)use_of(&resident, 0)->peak_bytes * 1e-6, lent * 1e-6,
               (double)run.timeline.end_ps * 1e-9, (double)resident.timeline.end_ps * 1e-9);
        EXPECT(lent > 0 && lent <= 0.4 * activations_at_peak(&resident, 0));
        EXPECT_INT(use_of(&run, 2)->peak_bytes, use_of(&resident, 2)->peak_bytes); /* lends nothing */
    }
    report_run_free(&resident);
    report_run_free(&run);
}

/* Links of the peers carry what is moved: one lane takes twice the time of two; stage 5's device has no direct link with stage 0's, and its copies cross PCIe. */
static void test_links(void)
{
    static const struct {
        int stage;
        double rate; /* bytes/s of hw_models/machines/dgx1-v100-32gb.json */
    } cases[] = { { 1, 24.2e9 }, { 3, 48.3e9 } };
    static struct report_run run;
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        char moves[256];
        snprintf(moves, sizeof moves,
                 "\"moves\": [{\"tensor\": \"activation\", \"layers\": [0, 0], \"to\": \"devices\","
                 " \"stripes\": [{\"stage\": %d}]}]",
                 cases[c].stage);
        if (run_plan(&run, moves)) {
            uint32_t copy = zero_last(&run, OP_COPY_P2P, PHASE_OFFLOAD);
            double seconds = (double)run.timeline.ops[copy].alone_ps * 1e-12;
            double bytes = run.schedule.works[run.schedule.ops[copy].work].bytes;
            EXPECT_REAL(bytes / seconds / cases[c].rate, 1, 0.01); /* and a latency of 1.9 us */
        }
        report_run_free(&run);
    }
}

/* All orders, with split backwards and chunks. */
static void test_orders(void)
{
    static const char *const orders[] = { "1f1b", "gpipe", "dapple-pb", "zb-h1", "zb-h2", "zb-v" };
    static struct report_run run;
    for (size_t i = 0; i < sizeof orders / sizeof orders[0]; i++) {
        const char *moves =
            "\"moves\": [{\"tensor\": \"activation\", \"layers\": [0, 0], \"to\": \"devices\", \"stripes\":"
            " [{\"stage\": 3}, {\"stage\": 4}], \"lag\": 1, \"lead\": 1},"
            " {\"tensor\": \"activation\", \"layers\": [1, 3], \"to\": \"host\", \"lag\": 1, \"lead\": 3},"
            " {\"tensor\": \"activation\", \"layers\": [4, 5], \"to\": \"recompute\"}]";
        if (run_on(&run, "dgx1-v100-32gb", orders[i], "mpress", moves)) {
            EXPECT(zero_total(&run, OP_COPY_P2P) > 0);
            EXPECT_REAL(zero_total(&run, OP_COPY_H2D), zero_total(&run, OP_COPY_D2H), 0);
            EXPECT(zero_last(&run, OP_COMPUTE, PHASE_RECOMPUTE) != SCHED_NONE);
        }
        report_run_free(&run);
    }
}

/* Optimizer states elsewhere: bytes held there all step long, moved both ways once; on the host's cores gradients go down and weights up. */
static void test_states(void)
{
    static struct report_run resident, run;
    const char *moves =
        "\"moves\": [{\"tensor\": \"optimizer\", \"layers\": [0, 1], \"to\": \"devices\", \"stripes\": [{\"stage\": 3},"
        " {\"stage\": 4, \"share\": 3}]}, {\"tensor\": \"optimizer\", \"layers\": [2, 3], \"to\": \"host\"},"
        " {\"tensor\": \"optimizer\", \"layers\": [4, 5], \"to\": \"cpu\"},"
        " {\"tensor\": \"optimizer\", \"layers\": \"embedding\", \"to\": \"host\"}]";
    if (run_plan(&resident, "") && run_plan(&run, moves)) {
        double layer = 12.0 * 1024 * 1024 + 13 * 1024; /* parameters: 12 h^2 + 13 h */
        double embedding = (1024 + 512) * 1024.0;      /* vocabulary padded to 1024, positions */
        double state = run.scenario.software.master_bytes + run.scenario.software.moments_bytes;
        EXPECT_REAL(zero_total(&run, OP_COPY_P2P), 2 * 2 * layer * state, 1);
        EXPECT_REAL(peer_bytes(&run, 3, true), 0.25 * 2 * layer * state, 2);
        EXPECT_REAL(zero_total(&run, OP_COPY_H2D),
                    (2 * layer + embedding) * state + 2 * layer * run.scenario.software.weight_bytes, 1);
        EXPECT_REAL(zero_total(&run, OP_HOST_OPTIMIZER), 2 * layer, 0);
        EXPECT_REAL(zero_held(&run, SPACE_PINNED, BUFFER_OPTIMIZER), (4 * layer + embedding) * state, 1);
        EXPECT_REAL(zero_held(&run, SPACE_DEVICE, BUFFER_OPTIMIZER),
                    zero_held(&resident, SPACE_DEVICE, BUFFER_OPTIMIZER) - (4 * layer + embedding) * state, 1);
        EXPECT(use_of(&run, 1)->peak_bytes < use_of(&resident, 1)->peak_bytes);
        EXPECT(use_of(&run, 4)->peak_bytes > use_of(&resident, 4)->peak_bytes);
    }
    report_run_free(&resident);
    report_run_free(&run);
}

/* ---- asynchronous orders: a stream of passes with weight versions ---- */

static double held_weights(const struct report_run *run, uint32_t device)
{
    return (double)use_of(run, device)->at_peak_bytes[BUFFER_WEIGHT];
}

/* Activations move as in orders with a flush, in every step of the stream; versions are counted, and stay. An empty list moves nothing. */
static void test_streams(void)
{
    static const struct {
        const char *order;
        double versions; /* of stage 0 */
    } cases[] = { { "pipedream", 8 }, { "pipedream-2bw", 2 } };
    static struct report_run flushed, resident, empty, run;
    const char *moves = "\"moves\": [{\"tensor\": \"activation\", \"layers\": [0, 0], \"to\": \"devices\", \"stripes\":"
                        " [{\"stage\": 3}, {\"stage\": 4}]}, {\"tensor\": \"activation\", \"layers\": [1, 3],"
                        " \"to\": \"host\"}, {\"tensor\": \"activation\", \"layers\": [4, 5], \"to\": \"recompute\"}]";
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *order = cases[i].order;
        if (run_on(&flushed, "dgx1-v100-32gb", "1f1b", "mpress", moves) &&
            run_on(&resident, "dgx1-v100-32gb", order, "resident", "") &&
            run_on(&empty, "dgx1-v100-32gb", order, "mpress", "\"moves\": []") &&
            run_on(&run, "dgx1-v100-32gb", order, "mpress", moves)) {
            double steps = run.result.steps;
            EXPECT_REAL(steps, 3, 0); /* one that fills, one measured, one behind it */
            EXPECT_INT(empty.timeline.end_ps, resident.timeline.end_ps);
            EXPECT_REAL(zero_total(&run, OP_COPY_D2H), zero_total(&run, OP_COPY_H2D), 0);
            /* the few whose idle interval is too short stay: at both ends of each step, or of the stream */
            EXPECT(zero_total(&run, OP_COPY_D2H) >= steps * zero_total(&flushed, OP_COPY_D2H));
            EXPECT(zero_total(&run, OP_COPY_P2P) >= steps * zero_total(&flushed, OP_COPY_P2P));
            EXPECT(zero_last(&run, OP_COMPUTE, PHASE_RECOMPUTE) != SCHED_NONE);
            for (uint32_t device = 0; device < 3; device++) {
                EXPECT(use_of(&run, device)->peak_bytes < use_of(&resident, device)->peak_bytes);
                EXPECT_REAL(held_weights(&run, device), held_weights(&resident, device), 0);
            }
            EXPECT_REAL(held_weights(&run, 0), cases[i].versions * held_weights(&flushed, 0), 8);
        }
        report_run_free(&flushed);
        report_run_free(&resident);
        report_run_free(&empty);
        report_run_free(&run);
    }
}

/* The first op of a rank after `after` with this opcode, or op_count. */
static uint32_t next_of(const struct schedule *s, uint32_t after, enum opcode opcode)
{
    uint32_t rank = sched_op_rank(s, &s->ops[after]), i = after + 1;
    while (i < s->op_count && (s->ops[i].opcode != opcode || sched_op_rank(s, &s->ops[i]) != rank)) {
        i++;
    }
    return i;
}

/* States visit for every update, each visit after the last has ended; what runs behind an update by the host has the new weights. */
static void test_stream_states(void)
{
    static const struct {
        const char *order;
        double updates; /* of the whole stream */
    } cases[] = { { "pipedream", 3 * MICRO_BATCHES }, { "pipedream-2bw", 3 } };
    static struct report_run run;
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        if (run_on(
                &run, "dgx1-v100-32gb", cases[c].order, "mpress",
                "\"moves\": [{\"tensor\": \"optimizer\", \"layers\": [0, 0], \"to\": \"devices\", \"stripes\":"
                " [{\"stage\": 3}, {\"stage\": 4}]}, {\"tensor\": \"optimizer\", \"layers\": [2, 2], \"to\": \"host\"},"
                " {\"tensor\": \"optimizer\", \"layers\": [4, 5], \"to\": \"cpu\"}]")) {
            const struct schedule *s = &run.schedule;
            const struct op_times *times = run.timeline.ops;
            double layer = 12.0 * 1024 * 1024 + 13 * 1024;
            double state = run.scenario.software.master_bytes + run.scenario.software.moments_bytes;
            int64_t back_ps = 0;
            uint32_t uploads = 0;
            EXPECT_REAL(zero_total(&run, OP_COPY_P2P), cases[c].updates * 2 * layer * state, 4 * cases[c].updates);
            EXPECT_REAL(zero_total(&run, OP_HOST_OPTIMIZER), cases[c].updates * 2 * layer, 0);
            for (uint32_t i = 0; i < s->op_count; i++) {
                uint32_t stage = s->ranks[sched_op_rank(s, &s->ops[i])].stage;
                if (stage == 1 && s->ops[i].opcode == OP_COPY_H2D) {
                    EXPECT(times[i].start_ps >= back_ps);
                } else if (stage == 1 && s->ops[i].opcode == OP_COPY_D2H) {
                    back_ps = times[i].end_ps;
                } else if (stage == 2 && s->ops[i].opcode == OP_COPY_H2D) {
                    uint32_t next = next_of(s, i, OP_COMPUTE);
                    EXPECT(next < s->op_count && times[next].start_ps >= times[i].end_ps);
                    uploads++;
                }
            }
            EXPECT_REAL(uploads, 2 * cases[c].updates, 0);
            EXPECT(back_ps > 0);
        }
        report_run_free(&run);
    }
}

/* The other policies of activations choose by a budget, of which versions take their part: with that of the resident step nothing moves, with less the peak is less. */
static void test_stream_policies(void)
{
    static const char *const policies[] = { "superneurons", "capuchin", "swapadvisor", "dtr" };
    static struct report_run resident, roomy, tight;
    char text[128];
    if (run_on(&resident, "dgx1-v100-32gb", "pipedream", "resident", "")) {
        double peak = (double)use_of(&resident, 0)->peak_bytes;
        for (size_t i = 0; i < sizeof policies / sizeof policies[0]; i++) {
            bool recomputes = strcmp(policies[i], "dtr") == 0;
            if (run_on(&roomy, "dgx1-v100-32gb", "pipedream", policies[i], "")) {
                EXPECT_REAL(zero_total(&roomy, OP_COPY_D2H), 0, 0);
                EXPECT(strcmp(policies[i], "superneurons") == 0 ||
                       (double)use_of(&roomy, 0)->peak_bytes == peak); /* which always recomputes what is cheap */
            }
            snprintf(text, sizeof text, "{\"name\": \"%s\", \"budget_gib\": %.6f}", policies[i], 0.9 * peak / GIB);
            if (run_on(&tight, "dgx1-v100-32gb", "pipedream", text, "")) {
                EXPECT((double)use_of(&tight, 0)->peak_bytes < peak);
                EXPECT(recomputes ? zero_last(&tight, OP_COMPUTE, PHASE_RECOMPUTE) != SCHED_NONE
                                  : strcmp(policies[i], "superneurons") == 0 || zero_total(&tight, OP_COPY_D2H) > 0 ||
                                        zero_last(&tight, OP_COMPUTE, PHASE_RECOMPUTE) != SCHED_NONE);
            }
            report_run_free(&roomy);
            report_run_free(&tight);
        }
    }
    report_run_free(&resident);
}

/* Places put stages on other devices and change nothing else: device 2 holds what stage 0 held. An empty list of moves is the resident policy. */
static void test_places(void)
{
    static const uint32_t places[8] = { 2, 5, 4, 7, 3, 0, 1, 6 };
    static struct report_run resident, placed, empty;
    if (run_plan(&resident, "") && run_plan(&placed, "\"stage_places\": [2, 5, 4, 7, 3, 0, 1, 6]") &&
        run_plan(&empty, "\"moves\": []")) {
        for (uint32_t s = 0; s < 8; s++) {
            const struct space_use *here = use_of(&placed, places[s]), *there = use_of(&resident, s);
            EXPECT_INT(here->at_peak_bytes[BUFFER_WEIGHT], there->at_peak_bytes[BUFFER_WEIGHT]);
            /* a transfer may arrive earlier or later: one boundary tensor, 2 x 512 x 1024 x 2 bytes */
            EXPECT_REAL((double)here->peak_bytes, (double)there->peak_bytes, 2 * 512 * 1024 * 2);
            EXPECT_INT(use_of(&empty, s)->peak_bytes, use_of(&resident, s)->peak_bytes);
        }
        EXPECT_INT(empty.timeline.end_ps, resident.timeline.end_ps);
        EXPECT(placed.timeline.end_ps != resident.timeline.end_ps); /* stages 0 and 1 have no direct link now */
    }
    report_run_free(&resident);
    report_run_free(&placed);
    report_run_free(&empty);
}

/* A plan's text reads back to the same text. */
static void test_round_trip(void)
{
    static struct report_run run;
    const char *moves = "\"stage_places\": [2, 5, 4, 7, 3, 0, 1, 6], \"moves\": [{\"tensor\": \"activation\","
                        " \"layers\": [0, 1], \"to\": \"devices\", \"stripes\": [{\"stage\": 3, \"share\": 0.3}],"
                        " \"lag\": 3, \"lead\": 4, \"when\": \"w\", \"over\": \"o\", \"why\": \"y\"},"
                        " {\"tensor\": \"optimizer\", \"layers\": \"head\", \"to\": \"cpu\"}]";
    if (run_plan(&run, moves)) {
        struct strbuf first = { 0 }, second = { 0 };
        struct error error = { 0 };
        struct json_document *document = NULL;
        struct json root;
        struct plan plan;
        plan_print_json(&run.scenario.plan, &run.scenario.model, &first);
        EXPECT_PART(first.text, "\"stripes\"");
        EXPECT_INT(json_parse(&document, first.text, first.length, "plan", &error), STATUS_OK);
        json_root(document, &root);
        EXPECT_INT(plan_from_json(&plan, &run.scenario.model, &root, &run.scenario.arena, &error), STATUS_OK);
        plan_print_json(&plan, &run.scenario.model, &second);
        EXPECT_TEXT(second.text, first.text);
        json_free(document);
        strbuf_free(&first);
        strbuf_free(&second);
    }
    report_run_free(&run);
}

/* Loads, and lowers when it can be loaded. */
static void refuse(const char *policy, const char *rest, const char *part)
{
    static struct scenario scenario;
    struct schedule schedule = { 0 };
    struct error error = { 0 };
    char text[2048], message[2048];
    snprintf(
        text, sizeof text,
        "{\"schema\": \"memwall.scenario/1\", \"machine\": \"dgx1-v100-32gb\", \"gpus\": 8, \"software\": \"ideal\","
        " \"model\": {\"family\": \"gpt\", \"layers\": 8, \"hidden\": 256, \"heads\": 4, \"ffn\": 1024,"
        " \"vocab\": 1000, \"max_sequence\": 64}, \"memory_policy\": \"%s\", %s}",
        policy, rest);
    enum status status = scenario_parse(&scenario, text, "test", NULL, 0, &error);
    if (status == STATUS_OK) {
        const struct lower_request request = { .model = &scenario.model,
                                               .cluster = &scenario.cluster,
                                               .software = &scenario.software,
                                               .plan = &scenario.plan,
                                               .order = registry_order(scenario.plan.order, &error),
                                               .policy = registry_policy(policy, &error) };
        status = lower_schedule(&request, &schedule, &error);
        EXPECT(status != STATUS_OK);
        scenario_free(&scenario);
    }
    EXPECT_PART(error_text(&error, message, sizeof message), part);
}

#define PIPE       "\"parallel\": {\"pipeline\": 8}, \"plan\": "
#define MOVE(rest) "\"moves\": [{\"tensor\": " rest "}]}"

static void test_refusals(void)
{
    refuse("mpress", "\"parallel\": {\"pipeline\": 8}", "let `memwall plan SCENARIO --planner mpress");
    refuse("resident", PIPE "{" MOVE("\"activation\", \"layers\": [0, 0], \"to\": \"host\""),
           "$.plan.moves: memory_policy \"resident\" does not carry out plan.moves: \"mpress\" does");
    refuse("mpress", PIPE "{" MOVE("\"activation\", \"layers\": [0, 8], \"to\": \"host\""), "7");
    refuse("mpress", PIPE "{" MOVE("\"activation\", \"layers\": \"head\", \"to\": \"host\""),
           "only transformer layers' activations move");
    refuse("mpress", PIPE "{" MOVE("\"activation\", \"layers\": [0, 0], \"to\": \"cpu\""),
           "an activation cannot go to \"cpu\": allowed are host, devices, recompute");
    refuse("mpress", PIPE "{" MOVE("\"optimizer\", \"layers\": [0, 0], \"to\": \"recompute\""),
           "allowed are host, devices, cpu");
    refuse("mpress", PIPE "{" MOVE("\"optimizer\", \"layers\": [0, 0], \"to\": \"host\", \"lead\": 2"),
           "\"lead\" is of tensors that come back pass by pass");
    refuse("mpress", PIPE "{" MOVE("\"activation\", \"layers\": [0, 0], \"to\": \"recompute\", \"lag\": 2"),
           "\"lag\" is of tensors that come back pass by pass");
    refuse("mpress", PIPE "{" MOVE("\"activation\", \"layers\": [0, 0], \"to\": \"devices\""), "needs at least one");
    refuse("mpress",
           PIPE "{" MOVE("\"activation\", \"layers\": [0, 0], \"to\": \"devices\", \"stripes\": [{\"stage\": 8}]"),
           "7");
    refuse("mpress",
           PIPE "{" MOVE("\"activation\", \"layers\": [1, 1], \"to\": \"devices\", \"stripes\": [{\"stage\": 1}]"),
           "a stripe of layers 1 to 1 lies on stage 1, which holds these layers itself");
    refuse("mpress",
           PIPE
           "{" MOVE("\"optimizer\", \"layers\": \"embedding\", \"to\": \"devices\", \"stripes\": [{\"stage\": 0}]"),
           "a stripe of the embedding lies on stage 0, which holds it itself");
    refuse("mpress",
           PIPE "{" MOVE("\"activation\", \"layers\": [0, 3], \"to\": \"host\"}, {\"tensor\": \"activation\","
                         " \"layers\": [3, 4], \"to\": \"recompute\""),
           "moves 0 and 1 both speak of the activation of a layer");
    refuse("mpress", PIPE "{\"stage_places\": [0, 1, 2, 3, 4, 5, 6, 6]}", "stages 6 and 7 both take place 6");
    refuse("mpress", PIPE "{\"stage_places\": [0, 1]}", "2 places: parallel.pipeline makes 8 stages");
    refuse("mpress",
           "\"parallel\": {\"pipeline\": 4}, \"plan\": {" MOVE(
               "\"activation\", \"layers\": [0, 0], \"to\": \"devices\", \"stripes\": [{\"stage\": 1}]"),
           "fold: false");
    refuse("mpress", "\"parallel\": {\"zero_stage\": 1}, \"plan\": {\"moves\": []}", "allowed is zero_stage 0");
}

/* Several devices a stage, each rank by itself: each pipeline's copies on its own links. */
static void test_unfolded(void)
{
    static struct report_run run;
    char text[2048];
    memset(&run, 0, sizeof run);
    snprintf(
        text, sizeof text,
        "{\"schema\": \"memwall.scenario/1\", \"machine\": \"dgx1-v100-32gb\", \"gpus\": 8, \"software\": \"ideal\","
        " \"model\": {\"family\": \"gpt\", \"layers\": 8, \"hidden\": 256, \"heads\": 4, \"ffn\": 1024,"
        " \"vocab\": 1000, \"max_sequence\": 64}, \"training\": {\"global_batch\": 16},"
        " \"parallel\": {\"pipeline\": 4, \"data\": 2}, \"fold\": false, \"memory_policy\": \"mpress\","
        " \"plan\": {\"moves\": [{\"tensor\": \"activation\", \"layers\": [0, 1], \"to\": \"devices\","
        " \"stripes\": [{\"stage\": 1}]}]}}");
    if (report_run(&run, text)) {
        EXPECT_INT(run.timeline.outcome, TIMELINE_DONE);
        EXPECT(peer_bytes(&run, 2, true) > 0);
        EXPECT_REAL(peer_bytes(&run, 2, true), peer_bytes(&run, 3, true), 0);
        EXPECT_REAL(peer_bytes(&run, 1, true), 0, 0);
    }
    report_run_free(&run);
}

TEST_MAIN(TEST(test_stripes), TEST(test_links), TEST(test_orders), TEST(test_states), TEST(test_streams),
          TEST(test_stream_states), TEST(test_stream_policies), TEST(test_places), TEST(test_round_trip),
          TEST(test_refusals), TEST(test_unfolded))
