/* The ZeRO offload policies over random plans and parameters: every schedule verifies, every timeline passes its audit and ends, gradients go down and weights come up once from their owners,
 * and building every rank gives the same step as building one for all. argv[1] seeds. */
#include "tests/zero_run.h"

enum { ROUNDS = 120 };

static const char *pick(uint64_t *random, const char *const *words, size_t count)
{
    return words[test_below(random, count)];
}
#define PICK(random, ...)                                                                                              \
    pick((random), (const char *const[]){ __VA_ARGS__ }, sizeof((const char *const[]){ __VA_ARGS__ }) / sizeof(char *))

struct random_case {
    char policy[768], parallel[160];
    const char *name, *machine;
    int gpus, accumulation, zero_stage;
    double sent_bytes; /* of a gradient */
    bool sums;         /* stored sums of micro-batches in host memory */
};

static void make_policy(struct random_case *c, uint64_t *random)
{
    bool code = test_below(random, 2) == 0;
    c->sent_bytes = code ? 4 : 2;
    int length = snprintf(c->policy, sizeof c->policy,
                          "{\"name\": \"%s\", \"preset\": \"%s\", \"bucket_elements\": %s, \"overlap_gradients\": %s,"
                          " \"pinned_states\": %s, \"initialise_bytes\": %s, \"checkpoints_on_host\": %s",
                          c->name, code ? "code" : "paper", PICK(random, "1", "3000000", "500000000"),
                          PICK(random, "true", "false"), PICK(random, "true", "false"), PICK(random, "0", "6"),
                          PICK(random, "true", "false"));
    char *at = c->policy + length;
    size_t room = sizeof c->policy - (size_t)length;
    if (strcmp(c->name, "zero-offload") == 0) {
        snprintf(at, room, ", \"upload\": \"%s\", \"tile_elements\": %s, \"delayed\": %s}",
                 PICK(random, "preset", "tiled", "serial"), PICK(random, "700000", "134217728"),
                 c->accumulation == 1 ? PICK(random, "true", "false") : "false");
        return;
    }
    snprintf(at, room,
             ", \"parameters_on\": \"%s\", \"optimizer_on\": \"%s\", \"prefetch_elements\": %s,"
             " \"persistence_threshold\": %s, \"max_live_parameters\": %s, \"max_reuse_distance\": %s,"
             " \"sub_group_elements\": %s, \"buffer_count\": %s, \"buffer_elements\": %s, \"pipeline_read\": %s,"
             " \"pipeline_write\": %s}",
             PICK(random, "device", "host", "nvme"), PICK(random, "host", "nvme"), PICK(random, "0", "50000000"),
             PICK(random, "0", "1000", "10000000"), PICK(random, "1", "5000000", "1000000000"),
             PICK(random, "0", "5000000", "1000000000"), PICK(random, "900000", "1000000000"),
             PICK(random, "1", "2", "5"), PICK(random, "300000", "100000000"), PICK(random, "true", "false"),
             PICK(random, "true", "false"));
}

static void make_case(struct random_case *c, uint64_t *random)
{
    bool toy = test_below(random, 2) == 0;
    c->machine = toy ? "toy-2gpu" : "dgx-a100-40gb";
    c->name = PICK(random, "zero-offload", "zero3-offload", "zero-infinity");
    int tensor = toy ? 1 : 1 << test_below(random, 3), data = toy ? 1 + (int)test_below(random, 2) : 8 / tensor;
    c->gpus = tensor * data;
    c->accumulation = 1 + (int)test_below(random, 3);
    c->zero_stage = strcmp(c->name, "zero-offload") != 0 ? 3 : 1 + (int)test_below(random, 2);
    c->sums = c->accumulation > 1 && (data == 1 || c->zero_stage >= 2);
    snprintf(c->parallel, sizeof c->parallel, "{\"tensor\": %d, \"zero_stage\": %d}", tensor, c->zero_stage);
    make_policy(c, random);
}

static bool run_case(struct report_run *run, const struct random_case *c, const char *recompute, bool fold)
{
    char text[2048];
    int data = c->gpus;
    sscanf(c->parallel, "{\"tensor\": %d", &data);
    data = c->gpus / data;
    memset(run, 0, sizeof *run);
    snprintf(text, sizeof text,
             "{\"machine\": \"%s\", \"gpus\": %d, \"software\": \"deepspeed\", \"model\": {\"family\": \"gpt\","
             " \"layers\": 4, \"hidden\": 512, \"heads\": 8, \"ffn\": 2048, \"vocab\": 1000, \"max_sequence\": 256},"
             " \"training\": {\"micro_batch\": 1, \"global_batch\": %d}, \"parallel\": %s, \"recompute\": \"%s\","
             " \"memory_policy\": %s, \"fold\": %s}",
             c->machine, c->gpus, data * c->accumulation, c->parallel, recompute, c->policy, fold ? "true" : "false");
    bool ran = report_run(run, text);
    if (!ran || run->timeline.outcome != TIMELINE_DONE) {
        TEST_FAIL_("did not end: %s", text);
    }
    return ran;
}

/* Gradients and host updates belong to their owners: their sum is the model's, whatever moves them. */
static void expect_sums(const struct report_run *run, const struct random_case *c, bool activations)
{
    double owned = zero_held(run, SPACE_HOST, BUFFER_OPTIMIZER) + zero_held(run, SPACE_PINNED, BUFFER_OPTIMIZER) +
                   zero_held(run, SPACE_STORAGE, BUFFER_OPTIMIZER);
    double down = owned / 12 * (c->sent_bytes + (c->sums ? 2 * (c->accumulation - 1) : 0));
    double last_byte = 1e-4; /* shares of parameters need not be whole bytes: 8 ranks of 6 layers */
    if (activations) {
        EXPECT(zero_total(run, OP_COPY_D2H) >= down * (1 - last_byte));
    } else {
        EXPECT_REAL(zero_total(run, OP_COPY_D2H), down, last_byte);
    }
}

static void test_plans(void)
{
    static struct report_run once, apart;
    uint64_t random = test_seed;
    for (int i = 0; i < ROUNDS && test_failures == 0; i++) {
        struct random_case c;
        make_case(&c, &random);
        const char *recompute = PICK(&random, "none", "full");
        if (run_case(&once, &c, recompute, true)) {
            expect_sums(&once, &c, strstr(c.policy, "\"checkpoints_on_host\": true") != NULL);
            if (run_case(&apart, &c, recompute, false)) {
                EXPECT_REAL(apart.result.step_time_s, once.result.step_time_s, 1e-9);
                EXPECT_REAL(zero_total(&apart, OP_COPY_H2D), zero_total(&once, OP_COPY_H2D), 1e-12);
                EXPECT_REAL((double)zero_use(&apart, SPACE_HOST)->peak_bytes,
                            (double)zero_use(&once, SPACE_HOST)->peak_bytes, 1e-3);
            }
            report_run_free(&apart);
        }
        report_run_free(&once);
        if (test_failures != 0) {
            printf("  round %d: %s on %s, %s, accumulation %d, recompute %s\n", i, c.parallel, c.machine, c.policy,
                   c.accumulation, recompute);
        }
    }
}

TEST_MAIN(TEST(test_plans))
