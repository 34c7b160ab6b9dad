/* Layers that are split differently: what each holds, what moves between them, and that folding, details, orders and stacks still hold. */
#include "sim/ir/verify.h"
#include "sim/plan/plan_layers.h"
#include "tests/lower_run.h"

/* ---- closed forms ---- */

enum { H = 1024, S = 1024, A = 16, LAYERS = 8 };

#define GPT                                                                                                            \
    "{\"family\":\"gpt\",\"layers\":8,\"hidden\":1024,\"heads\":16,\"ffn\":4096,\"vocab\":51200,\"max_sequence\":"     \
    "1024}"
#define HEAD "{\"schema\":\"memwall.scenario/1\",\"name\":\"test\",\"model\":" GPT ",\"machine\":\"dgx-a100-80gb\","

/* Matrices, and biases of column-parallel ones, are divided; norms and biases of row-parallel ones are on every rank. */
static double layer_parameters(double tensor)
{
    double h = H;
    return 12 * h * h / tensor + 7 * h / tensor + 2 * h + 4 * h;
}

static double buffer_named(const struct run *run, const char *label)
{
    const struct schedule *s = &run->schedule;
    double bytes = 0;
    for (uint32_t b = 0; b < s->buffer_count; b++) {
        bytes += strcmp(sched_label(s, s->buffers[b].label), label) == 0 ? (double)s->buffers[b].bytes : 0;
    }
    return bytes;
}

/* The one buffer of a label that ops of a layer acquire. */
static double acquired_by_layer(const struct run *run, int layer, const char *label)
{
    const struct schedule *s = &run->schedule;
    double bytes = 0;
    for (uint32_t i = 0; i < s->op_count; i++) {
        const uint32_t *acquired = sched_acquires(s, &s->ops[i]);
        for (uint32_t k = 0; k < s->ops[i].acquire_count; k++) {
            const struct sched_buffer *buffer = &s->buffers[acquired[k]];
            bool wanted = s->ops[i].layer == layer && strcmp(sched_label(s, buffer->label), label) == 0;
            bytes += wanted ? (double)buffer->bytes : 0;
        }
    }
    return bytes;
}

/* 16 bytes a parameter (2 weights, 2 gradients, 12 optimizer), each divided by tensor and, from its ZeRO stage on, by data; Korthikanti's activations of M / d samples. */
static void test_bytes_by_layer(void)
{
    static const struct {
        int tensor, data, zero;
    } runs[] = { { 1, 8, 3 }, { 2, 4, 0 }, { 4, 2, 2 }, { 8, 1, 0 } };
    struct run run;
    run_format(&run, HEAD "\"software\":\"deepspeed\",\"gpus\":8,\"training\":{\"global_batch\":8},\"parallel\":{"
                          "\"layers\":[{\"layers\":2,\"tensor\":1,\"zero_stage\":3},{\"layers\":2,\"data\":4},"
                          "{\"layers\":2,\"tensor\":4,\"data\":2,\"zero_stage\":2,\"consecutive\":\"data\"},"
                          "{\"layers\":2,\"tensor\":8}]}}");
    EXPECT_INT(run.schedule.rank_count, 1);
    for (int i = 0; i < LAYERS; i++) {
        int t = runs[i / 2].tensor, d = runs[i / 2].data, zero = runs[i / 2].zero;
        double parameters = layer_parameters(t);
        char label[64];
        snprintf(label, sizeof label, "layer %d weight", i);
        EXPECT_REAL(buffer_named(&run, label), ceil(2 * parameters / (zero >= 3 ? d : 1)), 0);
        snprintf(label, sizeof label, "layer %d gradient", i);
        EXPECT_REAL(buffer_named(&run, label), ceil(2 * parameters / (zero >= 2 ? d : 1)), 0);
        snprintf(label, sizeof label, "layer %d optimizer", i);
        EXPECT_REAL(buffer_named(&run, label), ceil(12 * parameters / (zero >= 1 ? d : 1)), 0);
        double sbh = 8.0 / d * S * H;
        double saved = sbh * (10 + 24.0 / t + 5.0 * A * S / (H * (double)t));
        EXPECT_REAL(acquired_by_layer(&run, i, "saved for backward"), saved, 0);
        EXPECT_REAL(acquired_by_layer(&run, i, "gathered weights"), zero >= 3 ? 2 * 2 * parameters : 0, 0);
    }
    run_free(&run);
}

/* ---- collectives, counted ---- */

/* Ops of an opcode on groups of `members`, with exactly these bytes. */
static int count_collectives(const struct schedule *s, enum opcode opcode, const char *group, uint32_t members,
                             double bytes)
{
    int count = 0;
    for (uint32_t i = 0; i < s->op_count; i++) {
        const struct sched_op *op = &s->ops[i];
        if (op->opcode != opcode) {
            continue;
        }
        const struct sched_work *work = &s->works[op->work];
        count += strcmp(sched_label(s, s->groups[work->group].label), group) == 0 &&
                 s->groups[work->group].member_count == members && work->bytes >= bytes && work->bytes <= bytes;
    }
    return count;
}

static int count_all(const struct schedule *s)
{
    int count = 0;
    for (uint32_t i = 0; i < s->op_count; i++) {
        count += s->ops[i].opcode == OP_ALL_REDUCE || s->ops[i].opcode == OP_ALL_GATHER ||
                 s->ops[i].opcode == OP_REDUCE_SCATTER || s->ops[i].opcode == OP_ALL_TO_ALL ||
                 s->ops[i].opcode == OP_BROADCAST;
    }
    return count;
}

/* Four GPUs, two layers, one micro-batch of 4 samples: layer 0 data parallel with ZeRO-3, layer 1 tensor parallel. The head is tied, so both ends are as layer 0. */
static void test_two_layers(void)
{
    struct run run;
    run_format(&run,
               "{\"model\":{\"family\":\"gpt\",\"layers\":2,\"hidden\":1024,\"heads\":16,\"ffn\":4096,\"vocab\":51200,"
               "\"max_sequence\":1024},\"machine\":\"dgx-a100-80gb\",\"gpus\":4,\"software\":\"deepspeed\","
               "\"detail\":\"op\",\"training\":{\"global_batch\":4},\"parallel\":{\"layers\":[{\"layers\":1,\"tensor\":"
               "1,\"zero_stage\":3},{\"layers\":1,\"tensor\":4}]}}");
    const struct schedule *s = &run.schedule;
    double whole = 4.0 * S * H * 2; /* the micro-batch's activation, fp16 */
    /* forward 0 -> 1 and backward head -> 1 gather four parts; 1 -> head and 1 -> 0 slice */
    EXPECT_INT(count_collectives(s, OP_ALL_GATHER, "redistribution", 4, whole), 2);
    EXPECT_INT(count_collectives(s, OP_ALL_REDUCE, "tensor", 4, whole), 4);
    /* ZeRO-3: layer, embedding and final norm are gathered in forward and in backward, their gradients scattered once */
    double layer = layer_parameters(1), embedding = (51200.0 + 1024) * H, norm = 2 * H;
    EXPECT_INT(count_collectives(s, OP_ALL_GATHER, "data", 4, 2 * layer), 2);
    EXPECT_INT(count_collectives(s, OP_ALL_GATHER, "data", 4, 2 * embedding), 2);
    EXPECT_INT(count_collectives(s, OP_ALL_GATHER, "data", 4, 2 * norm), 2);
    double scattered = 0;
    int scatters = 0;
    for (uint32_t i = 0; i < s->op_count; i++) {
        if (s->ops[i].opcode == OP_REDUCE_SCATTER) {
            scattered += s->works[s->ops[i].work].bytes;
            scatters++;
        }
    }
    EXPECT_REAL(scattered, 2 * (layer + embedding + norm), 0);
    EXPECT_INT(count_collectives(s, OP_ALL_REDUCE, "model", 4, 4), 1); /* the gradient norm */
    EXPECT_INT(count_all(s), 2 + 4 + 6 + scatters + 1);
    run_free(&run);
}

/* Between stages the sender slices and the receiver gathers; a transfer carries what is kept. */
static void test_between_stages(void)
{
    static const struct {
        const char *software, *first, *second;
        int tensor_first, tensor_second;
        double forward_share, backward_share; /* of the whole micro-batch, a device's send */
        int gather_forward, gather_backward;  /* ranks; 1: none */
    } cases[] = {
        { "deepspeed", "1", "4", 1, 4, 1.0 / 4, 1.0 / 4, 4, 1 },
        { "deepspeed", "4", "2", 4, 2, 1.0 / 2, 1.0 / 2, 1, 2 },
        { "deepspeed", "2", "2,\"consecutive\":\"data\"", 2, 2, 1.0 / 4, 1.0 / 4, 2, 2 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct run run;
        run_format(&run,
                   "{\"model\":{\"family\":\"llama\",\"layers\":2,\"hidden\":1024,\"heads\":16,\"ffn\":4096,\"vocab\":"
                   "51200,\"max_sequence\":1024,\"tied_head\":false},\"machine\":\"dgx-a100-80gb\",\"gpus\":8,"
                   "\"software\":\"%s\",\"training\":{\"global_batch\":4},\"parallel\":{\"pipeline\":2,\"layers\":[{"
                   "\"layers\":1,\"tensor\":%s},{\"layers\":1,\"tensor\":%s}]}}",
                   cases[i].software, cases[i].first, cases[i].second);
        const struct schedule *s = &run.schedule;
        double whole = 4.0 * S * H * 2;
        for (uint32_t k = 0; k < s->op_count; k++) {
            if (s->ops[k].opcode == OP_SEND) {
                bool forward = s->ranks[sched_op_rank(s, &s->ops[k])].stage == 0;
                EXPECT_REAL(s->works[s->ops[k].work].bytes,
                            whole * (forward ? cases[i].forward_share : cases[i].backward_share), 0);
            }
        }
        double second = whole * cases[i].tensor_second / 4, first = whole * cases[i].tensor_first / 4;
        /* with equal sizes both directions are one kind */
        bool alike = cases[i].gather_forward == cases[i].gather_backward && first <= second && first >= second;
        int forward = cases[i].gather_forward > 1, backward = cases[i].gather_backward > 1, all = 0;
        EXPECT_INT(count_collectives(s, OP_ALL_GATHER, "redistribution", (uint32_t)cases[i].gather_forward, second),
                   alike ? forward + backward : forward);
        EXPECT_INT(count_collectives(s, OP_ALL_GATHER, "redistribution", (uint32_t)cases[i].gather_backward, first),
                   alike ? forward + backward : backward);
        for (uint32_t k = 0; k < s->op_count; k++) {
            all += s->ops[k].opcode == OP_ALL_GATHER;
        }
        EXPECT_INT(all, forward + backward);
        run_free(&run);
    }
}

static struct plan_layer layer_of(int64_t tensor, int64_t data, bool data_consecutive)
{
    return (struct plan_layer){ .tensor = tensor,
                                .data = data,
                                .data_consecutive = data_consecutive && tensor > 1 && data > 1 };
}

static bool partners(const struct plan_layer *layer, int64_t a, int64_t b)
{
    return plan_layer_data_index(layer, a) == plan_layer_data_index(layer, b);
}

/* The lowered groups of moves: every rank once, and the ranks of a gather keep pieces that together are what each of them needs. */
static void test_groups_of_moves(void)
{
    struct run run;
    run_format(&run, HEAD "\"gpus\":8,\"training\":{\"global_batch\":8},\"parallel\":{\"layers\":["
                          "{\"layers\":4,\"tensor\":2},{\"layers\":4,\"tensor\":4,\"consecutive\":\"data\"}]}}");
    struct plan_layer two = layer_of(2, 4, false), four = layer_of(4, 2, true);
    const struct schedule *s = &run.schedule;
    int seen = 0;
    for (uint32_t g = 0; g < s->group_count; g++) {
        const struct sched_group *group = &s->groups[g];
        if (strcmp(sched_label(s, group->label), "redistribution") != 0) {
            continue;
        }
        bool grows = group->member_count == plan_move_between(&two, &four).gathered;
        const struct plan_layer *from = grows ? &two : &four, *to = grows ? &four : &two;
        const uint32_t *members = s->group_members + group->first_member;
        uint32_t times[8] = { 0 };
        EXPECT_INT(members[0], 0);
        EXPECT_INT(group->member_count * group->instance_count, 8);
        for (uint32_t i = 0; i < group->instance_count; i++) {
            const uint32_t *own = members + (size_t)i * group->member_count;
            for (int64_t piece = 0; piece < 8; piece++) {
                int holders = 0;
                for (uint32_t m = 0; m < group->member_count; m++) {
                    holders += plan_move_key(from, to, own[m]) == plan_move_key(from, to, piece);
                }
                EXPECT_INT(holders, partners(to, own[0], piece));
            }
            for (uint32_t m = 0; m < group->member_count; m++) {
                times[own[m]]++;
            }
        }
        for (int r = 0; r < 8; r++) {
            EXPECT_INT(times[r], 1);
        }
        seen++;
    }
    EXPECT_INT(seen, 2);
    run_free(&run);
}

/* Tensor groups of neighbours stay inside a server, strided ones go across: the links that a plan uses are its groups'. */
static void test_strided_groups_cross_servers(void)
{
    double step[2];
    for (int i = 0; i < 2; i++) {
        struct run run;
        run_format(&run,
                   HEAD "\"nodes\":2,\"software\":\"ideal\",\"training\":{\"global_batch\":16},\"parallel\":{"
                        "\"layers\":[{\"layers\":8,"
                        "\"tensor\":2,\"consecutive\":\"%s\"}]}}",
                   i == 0 ? "tensor" : "data");
        const struct schedule *s = &run.schedule;
        for (uint32_t g = 0; g < s->group_count; g++) {
            if (strcmp(sched_label(s, s->groups[g].label), "tensor") == 0) {
                EXPECT_INT(s->group_members[s->groups[g].first_member + 1], i == 0 ? 1 : 8);
            }
        }
        step[i] = (double)run.timeline.end_ps;
        run_free(&run);
    }
    printf("  %.0f ps with tensor groups of neighbours, %.0f across servers\n", step[0], step[1]);
    EXPECT(step[1] > step[0]);
}

/* ---- equal splits ---- */

static enum status lower_plan(const struct scenario *scenario, const struct plan *plan, struct hash *hash,
                              struct error *error)
{
    struct schedule schedule;
    const struct lower_request request = {
        .model = &scenario->model,
        .cluster = &scenario->cluster,
        .software = &scenario->software,
        .plan = plan,
    };
    enum status status = lower_schedule(&request, &schedule, error);
    if (status == STATUS_OK) {
        *hash = schedule_hash(&schedule);
        schedule_free(&schedule);
    }
    return status;
}

static void parse_parallel(struct scenario *scenario, const char *parallel)
{
    struct error error = { 0 };
    char text[2048];
    snprintf(text, sizeof text, HEAD "\"gpus\":8,\"training\":{\"global_batch\":8},\"parallel\":{%s,\"pipeline\":2}}",
             parallel);
    EXPECT_INT(scenario_parse(scenario, text, "s.json", NULL, 0, &error), STATUS_OK);
}

/* A list of equal layers is the plan without a list, and an array of equal layers makes the same schedule. */
static void test_uniform_list(void)
{
    struct scenario plain, listed;
    struct error error = { 0 };
    parse_parallel(&plain, "\"tensor\":2,\"zero_stage\":1");
    parse_parallel(&listed, "\"tensor\":2,\"layers\":[{\"layers\":3,\"zero_stage\":1},{\"layers\":5,\"data\":2,"
                            "\"zero_stage\":1,\"consecutive\":\"tensor\"}]");
    EXPECT(listed.plan.layers == NULL);
    struct hash a, b;
    EXPECT_INT(plan_hash(&plain.plan, &plain.model, &a, &error), STATUS_OK);
    EXPECT_INT(plan_hash(&listed.plan, &listed.model, &b, &error), STATUS_OK);
    EXPECT(memcmp(&a, &b, sizeof a) == 0);
    struct plan by_hand = plain.plan;
    struct plan_layer layers[LAYERS];
    for (int i = 0; i < LAYERS; i++) {
        layers[i] = (struct plan_layer){ .tensor = 2, .data = 2, .zero_stage = 1 };
    }
    by_hand.layers = layers;
    EXPECT_INT(lower_plan(&plain, &plain.plan, &a, &error), STATUS_OK);
    EXPECT_INT(lower_plan(&plain, &by_hand, &b, &error), STATUS_OK);
    EXPECT(memcmp(&a, &b, sizeof a) == 0);
    layers[7].zero_stage = 0;
    EXPECT_INT(lower_plan(&plain, &by_hand, &b, &error), STATUS_OK);
    EXPECT(memcmp(&a, &b, sizeof a) != 0);
    scenario_free(&plain);
    scenario_free(&listed);
    /* other degrees than the scalars' stay a list: micro_batch and data go on meaning what the file says */
    parse_parallel(&listed, "\"layers\":[{\"layers\":8,\"tensor\":4}]");
    EXPECT_INT(listed.plan.data, 4);
    EXPECT(listed.plan.layers != NULL && plan_is_mixed(&listed.plan, &listed.model));
    scenario_free(&listed);
}

/* A plan made by hand is checked where it is lowered. */
static void test_unchecked_plan(void)
{
    struct run run;
    run_format(&run, HEAD "\"gpus\":8,\"training\":{\"global_batch\":8},\"parallel\":{\"layers\":[{\"layers\":4,"
                          "\"tensor\":2},{\"layers\":4,\"tensor\":4}]}}");
    struct plan plan = run.scenario.plan;
    struct hash hash;
    struct error error = { 0 };
    plan.layers[5].data = 3;
    EXPECT_INT(lower_plan(&run.scenario, &plan, &hash, &error), STATUS_BAD_INPUT);
    EXPECT_PART(error.message, "layer 5: tensor 4 x data 3 = 12, but a stage has 8 devices");
    run_free(&run);
}

/* ---- folding, details, random plans ---- */

static void test_folding(void)
{
    static const char *const plans[] = {
        "\"gpus\":8,\"training\":{\"global_batch\":16},\"parallel\":{\"layers\":[{\"layers\":3,\"tensor\":1,\"zero_"
        "stage\":3},{\"layers\":2,\"tensor\":4,\"consecutive\":\"data\"},{\"layers\":3,\"tensor\":2,\"zero_stage\":2}]"
        "}",
        "\"gpus\":8,\"software\":\"torchtitan\",\"training\":{\"global_batch\":16},\"parallel\":{\"layers\":[{"
        "\"layers\":3,\"tensor\":1,\"zero_stage\":3},{\"layers\":5,\"tensor\":2,\"zero_stage\":3}]}",
        "\"gpus\":8,\"software\":\"deepspeed\",\"training\":{\"global_batch\":16},\"parallel\":{\"pipeline\":2,"
        "\"layers\":[{\"layers\":2,\"tensor\":1,\"zero_stage\":2},{\"layers\":2,\"tensor\":4},{\"layers\":4,\"tensor\":"
        "2,\"zero_stage\":1}]},\"plan\":{\"stage_layers\":[3,5]}",
        "\"gpus\":8,\"training\":{\"global_batch\":16},\"parallel\":{\"sequence_parallel\":true,\"layers\":[{"
        "\"layers\":4,\"tensor\":2},{\"layers\":4,\"tensor\":8}]}",
        "\"nodes\":2,\"training\":{\"global_batch\":32},\"parallel\":{\"pipeline\":2,\"layers\":[{\"layers\":5,"
        "\"tensor\":4},{\"layers\":3,\"tensor\":2,\"consecutive\":\"data\",\"zero_stage\":3}]}",
    };
    for (size_t i = 0; i < sizeof plans / sizeof plans[0]; i++) {
        char text[2048];
        snprintf(text, sizeof text, HEAD "%s", plans[i]);
        compare_folding(text);
    }
}

/* One op or many: the same bytes and, where nothing contends, the same time (tests/t_lower.c). */
static void test_detail(void)
{
    static const char *const details[] = { "op", "layer", "stage" };
    double end_ps = 0, peak = 0;
    for (int d = 0; d < 3; d++) {
        struct run run;
        run_format(&run,
                   HEAD "\"software\":\"ideal\",\"gpus\":4,\"training\":{\"global_batch\":8},\"detail\":\"%s\","
                        "\"parallel\":{\"layers\":[{\"layers\":3,\"tensor\":1},{\"layers\":5,\"tensor\":4}]}}",
                   details[d]);
        end_ps = d == 0 ? (double)run.timeline.end_ps : end_ps;
        peak = d == 0 ? (double)peak_of(&run, 0) : peak;
        EXPECT_REAL((double)run.timeline.end_ps, end_ps, 1e-3);
        EXPECT_REAL((double)peak_of(&run, 0), peak, 0);
        run_free(&run);
    }
}

static int pick(uint64_t *random, int count)
{
    return (int)test_below(random, (uint64_t)count);
}

static void random_layers(uint64_t *random, int group, char *text, size_t size)
{
    static const char *const modes[] = { "none", "selective", "full" };
    snprintf(text, size, "[");
    for (int left = LAYERS; left > 0;) {
        int run = 1 + pick(random, left), tensor = 1 << pick(random, 4);
        tensor = tensor > group ? group : tensor;
        size_t length = strlen(text);
        snprintf(text + length, size - length,
                 "%s{\"layers\":%d,\"tensor\":%d,\"zero_stage\":%d,\"consecutive\":\"%s\",\"recompute\":\"%s\"}",
                 left < LAYERS ? "," : "", run, tensor, pick(random, 4), pick(random, 2) ? "data" : "tensor",
                 modes[pick(random, 3)]);
        left -= run;
    }
    size_t length = strlen(text);
    snprintf(text + length, size - length, "]");
}

/* Without the closing brace, so that "fold" can follow. Returns the number of GPUs. */
static int random_scenario(uint64_t *random, char *text, size_t size)
{
    static const char *const models[] = {
        "{\"family\":\"gpt\",\"layers\":8,\"hidden\":256,\"heads\":8,\"ffn\":1024,\"vocab\":1000,\"max_sequence\":128}",
        "{\"family\":\"llama\",\"layers\":8,\"hidden\":256,\"heads\":8,\"kv_heads\":4,\"ffn\":512,\"vocab\":1000,"
        "\"max_sequence\":128}",
        "{\"family\":\"bert\",\"layers\":8,\"hidden\":256,\"heads\":8,\"ffn\":1024,\"vocab\":1000,\"max_sequence\":"
        "128}",
    };
    static const char *const orders[] = { "1f1b", "gpipe", "dapple-pb", "interleaved", "zb-h1", "zb-v" };
    static const char *const details[] = { "op", "layer", "stage" };
    static const char *const stacks[] = { "megatron",      "megatron-flash", "deepspeed",
                                          "pytorch-eager", "torchtitan",     "torchtitan-compile",
                                          "ideal",         "megatron-core",  "galvatron" };
    int model = pick(random, 3), group = 1 << (1 + pick(random, 3)), pipeline = 1 << pick(random, 3);
    int order = pipeline == 1 ? pick(random, 2) : pick(random, 6), gpus = group * pipeline;
    char layers[2048];
    random_layers(random, group, layers, sizeof layers);
    snprintf(text, size,
             "{\"schema\":\"memwall.scenario/1\",\"name\":\"random\",\"model\":%s,\"machine\":\"dgx-a100-80gb\","
             "\"nodes\":%d,\"gpus\":%d,\"software\":\"%s\",\"training\":{\"global_batch\":%d},\"parallel\":{\"layers\":"
             "%s,\"sequence_parallel\":%s,\"pipeline\":%d,\"pipeline_order\":\"%s\",\"virtual_stages\":%d%s},"
             "\"detail\":\"%s\"",
             models[model], (gpus + 7) / 8, gpus, stacks[pick(random, 9)], group * pipeline * (1 + pick(random, 3)),
             layers, pick(random, 2) ? "true" : "false", pipeline, orders[order], order == 3 || order == 5 ? 2 : 1,
             model != 0 || pick(random, 3) ? "" : ",\"embedding\":{\"tensor\":2}", details[pick(random, 3)]);
    return gpus;
}

/* Every schedule verifies, every timeline passes its audit (exec_sim does both), and folding holds. */
static void test_random_plans(void)
{
    uint64_t random = test_seed;
    int mixed = 0;
    for (int i = 0; i < 300; i++) {
        char text[4096], message[2048];
        struct run run;
        int gpus = random_scenario(&random, text, sizeof text);
        if (gpus <= 8 && strstr(text, "\"detail\":\"op\"") != NULL) {
            compare_folding(text);
        }
        size_t length = strlen(text);
        snprintf(text + length, sizeof text - length, ",\"fold\":%s}", pick(&random, 2) ? "true" : "false");
        run_scenario(&run, text);
        if (run.status != STATUS_OK || run.timeline.outcome != TIMELINE_DONE) {
            TEST_FAIL_("%s\n  %s",
                       run.status == STATUS_OK ? "not done" : error_text(&run.error, message, sizeof message), text);
        }
        mixed += run.loaded && plan_is_mixed(&run.scenario.plan, &run.scenario.model);
        run_free(&run);
    }
    printf("  %d of 300 with layers split differently\n", mixed);
    EXPECT(mixed >= 200);
}

TEST_MAIN(TEST(test_bytes_by_layer), TEST(test_two_layers), TEST(test_between_stages), TEST(test_groups_of_moves),
          TEST(test_strided_groups_cross_servers), TEST(test_uniform_list), TEST(test_unchecked_plan),
          TEST(test_folding), TEST(test_detail), TEST(test_random_plans))
