/* What would do where a step does not fit (sim/report/remedy.h), over random models, machines and ZeRO policies: every change named, applied to the scenario, runs; the next milder one does not; and a change of
 * a further level is named only where none of the nearer kinds would do. Whether something runs is asked of the simulator here, not of the search's own trials. argv[1] seeds. */
#include "sim/report/remedy_ladder.h"
#include "tests/report_run.h"

enum { ROUNDS = 70, TEXT_BYTES = 2048 };

static const char *pick(uint64_t *random, const char *const *words, size_t count)
{
    return words[test_below(random, count)];
}
#define PICK(random, ...)                                                                                              \
    pick((random), (const char *const[]){ __VA_ARGS__ }, sizeof((const char *const[]){ __VA_ARGS__ }) / sizeof(char *))

static enum status load(void *context, struct scenario *scenario, const char *const *sets, uint32_t set_count,
                        struct error *error)
{
    return scenario_parse(scenario, context, "test", sets, set_count, error);
}

enum outcome { RUNS, TOO_BIG, REFUSED };

/* The scenario with these sets, as `memwall run` would. */
static enum outcome outcome_of(const char *text, const char *const *sets, uint32_t set_count)
{
    struct scenario scenario;
    struct schedule schedule = { 0 };
    struct timeline timeline = { 0 };
    struct error error = { 0 };
    enum status status = scenario_parse(&scenario, text, "test", sets, set_count, &error);
    if (status != STATUS_OK) {
        return REFUSED;
    }
    const struct lower_request request = {
        .model = &scenario.model,
        .cluster = &scenario.cluster,
        .software = &scenario.software,
        .plan = &scenario.plan,
    };
    const struct exec_options options = { .cluster = &scenario.cluster, .software = &scenario.software, .audit = true };
    status = lower_schedule(&request, &schedule, &error);
    status = status == STATUS_OK ? exec_sim.run(&schedule, &options, &timeline, &error) : status;
    bool ran = status == STATUS_OK && timeline.outcome == TIMELINE_DONE;
    bool too_big = status == STATUS_DOES_NOT_FIT || (status == STATUS_OK && timeline.outcome == TIMELINE_DOES_NOT_FIT);
    timeline_free(&timeline);
    schedule_free(&schedule);
    scenario_free(&scenario);
    return ran ? RUNS : too_big ? TOO_BIG : REFUSED;
}

static enum outcome outcome_of_remedy(const char *text, const struct remedy_sets *sets)
{
    const char *list[REMEDY_SETS_MAX];
    for (uint32_t i = 0; i < sets->count; i++) {
        list[i] = sets->items[i];
    }
    return outcome_of(text, list, sets->count);
}

struct random_case {
    char text[TEXT_BYTES];
    int micro_batch, global_batch;
};

/* A model of up to half a billion parameters on a server whose memories are too small for it, mostly. */
static void make_case(struct random_case *c, uint64_t *random)
{
    static const int HIDDEN[] = { 512, 1024, 1536 };
    const char *name = PICK(random, "zero-offload", "zero3-offload", "zero-infinity", "optimizer-on-host", "resident");
    int gpus = 1 + (int)test_below(random, 2), hidden = HIDDEN[test_below(random, 3)];
    bool zero3 = strncmp(name, "zero3", 5) == 0 || strcmp(name, "zero-infinity") == 0;
    bool zero = strncmp(name, "zero", 4) == 0;
    bool drives = strcmp(name, "zero-infinity") == 0 || test_below(random, 3) > 0;
    c->micro_batch = 1 << test_below(random, 6);
    c->global_batch = c->micro_batch * gpus * (1 + (int)test_below(random, 2));
    snprintf(c->text, sizeof c->text,
             "{\"machine\": {\"base\": \"toy-2gpu\", \"gpu_memory_GiB\": %s, \"dram_GiB\": %s%s}, \"gpus\": %d,"
             " \"software\": \"deepspeed\", \"model\": {\"family\": \"gpt\", \"layers\": %d, \"hidden\": %d,"
             " \"heads\": 8, \"ffn\": %d, \"vocab\": 1000, \"max_sequence\": 512}, \"training\": {\"micro_batch\": %d,"
             " \"global_batch\": %d}, \"parallel\": {\"zero_stage\": %d}, \"recompute\": \"%s\","
             " \"memory_policy\": {\"name\": \"%s\"%s%s}}",
             PICK(random, "0.8", "1", "2", "4"), PICK(random, "1", "2", "4", "16", "64"),
             drives ? "" : ", \"nvmes\": 0", gpus, 4 + 4 * (int)test_below(random, 4), hidden, 4 * hidden,
             c->micro_batch, c->global_batch,
             zero3              ? 3
             : zero && gpus > 1 ? 2
                                : 0,
             PICK(random, "none", "full"), name,
             zero ? PICK(random, ", \"bucket_elements\": 50000000", ", \"checkpoints_on_host\": true",
                         ", \"preset\": \"paper\"")
                  : "",
             zero3 ? PICK(random, ", \"parameters_on\": \"device\"", ", \"optimizer_on\": \"host\"", "") : "");
}

/* The number that a set gives a key, or 0. */
static long long value_of(const struct remedy_sets *sets, const char *key)
{
    size_t length = strlen(key);
    for (uint32_t i = 0; i < sets->count; i++) {
        if (strncmp(sets->items[i], key, length) == 0 && sets->items[i][length] == '=') {
            return strtoll(sets->items[i] + length + 1, NULL, 10);
        }
    }
    return 0;
}

/* A remedy of a smaller micro-batch alone: the next larger one would not do. */
static void expect_mildest(const struct random_case *c, const struct remedy *remedy)
{
    long long micro_batch = value_of(&remedy->sets, "training.micro_batch");
    if (remedy->sets.count != 2 || micro_batch == 0 || 2 * micro_batch >= c->micro_batch) {
        return;
    }
    char micro[64], global[64];
    const char *sets[] = { micro, global };
    long long fewer = value_of(&remedy->sets, "training.global_batch") == c->global_batch ? 1 : 2;
    snprintf(micro, sizeof micro, "training.micro_batch=%lld", 2 * micro_batch);
    snprintf(global, sizeof global, "training.global_batch=%lld",
             fewer * value_of(&remedy->sets, "training.global_batch"));
    EXPECT(outcome_of(c->text, sets, 2) != RUNS);
}

static bool changes(const struct remedy_sets *sets, const char *key)
{
    for (uint32_t i = 0; i < sets->count; i++) {
        if (strncmp(sets->items[i], key, strlen(key)) == 0) {
            return true;
        }
    }
    return false;
}

/* Other policies and more GPUs are named only where neither recomputation nor a micro-batch of one would do, GPUs where not both of them would, and where the next policy would not. */
static void expect_nearest(const struct random_case *c, const struct remedy_sets *sets)
{
    char global[64];
    const char *both[] = { "recompute=full", "training.micro_batch=1", global };
    snprintf(global, sizeof global, "training.global_batch=%d", c->global_batch);
    if (changes(sets, "memory_policy.name") || changes(sets, "gpus")) {
        EXPECT(outcome_of(c->text, both, 1) != RUNS);
        EXPECT(outcome_of(c->text, both + 1, 2) != RUNS);
    }
    if (changes(sets, "gpus")) {
        EXPECT(outcome_of(c->text, both, 3) != RUNS);
        const char *next[] = { "memory_policy.name=zero3-offload", "parallel.zero_stage=3" };
        EXPECT(strstr(c->text, "\"zero-offload\"") == NULL || outcome_of(c->text, next, 2) != RUNS);
    }
}

static void test_scenarios(void)
{
    uint64_t random = test_seed;
    int too_big = 0, found = 0, settings = 0, batches = 0, policies = 0, gpus = 0;
    for (int i = 0; i < ROUNDS && test_failures == 0; i++) {
        static struct random_case c;
        struct remedies remedies;
        struct error error = { 0 };
        make_case(&c, &random);
        enum outcome as_is = outcome_of(c.text, NULL, 0);
        if (as_is != TOO_BIG) {
            EXPECT(as_is == RUNS);
            continue;
        }
        const struct remedy_request request = { .load = load, .context = c.text, .said = "" };
        EXPECT_INT(remedies_find(&request, &remedies, &error), STATUS_OK);
        too_big++;
        found += remedies.count > 0;
        for (uint32_t r = 0; r < remedies.count; r++) {
            const struct remedy *remedy = &remedies.items[r];
            EXPECT(outcome_of_remedy(c.text, &remedy->sets) == RUNS);
            EXPECT(r == 0 || remedy->samples_per_s <= remedies.items[r - 1].samples_per_s);
            expect_mildest(&c, remedy);
            expect_nearest(&c, &remedy->sets);
            gpus += changes(&remedy->sets, "gpus");
            policies += changes(&remedy->sets, "memory_policy.name");
            batches += changes(&remedy->sets, "training.micro_batch");
            settings += remedy->sets.count == 1 && changes(&remedy->sets, "memory_policy.");
        }
        if (test_failures != 0) {
            printf("  round %d: %s\n", i, c.text);
        }
    }
    printf("  of %d scenarios %d did not fit, for %d something would do: %d settings, %d micro-batches, %d policies, "
           "%d times more GPUs\n",
           ROUNDS, too_big, found, settings, batches, policies, gpus);
    EXPECT(too_big > ROUNDS / 5);
    EXPECT(found > too_big * 3 / 4);
    EXPECT(settings > 0 && batches > 0 && policies > 0);
}

/* Where even all changes at once on thousands of GPUs do not do, none is named; a policy's own word is taken up where it holds, and is passed over where it does not. */
static void test_said_and_none(void)
{
    struct remedies remedies;
    struct error error = { 0 };
    char small[] =
        "{\"machine\": {\"base\": \"toy-2gpu\", \"gpu_memory_GiB\": 0.1}, \"model\": \"gpt3-175b\", \"gpus\": 1,"
        " \"memory_policy\": \"zero3-offload\", \"parallel\": {\"zero_stage\": 3}, \"software\":"
        " \"deepspeed\"}";
    struct remedy_request request = { .load = load, .context = small, .said = "training.micro_batch=1" };
    EXPECT_INT(remedies_find(&request, &remedies, &error), STATUS_OK);
    EXPECT_INT(remedies.count, 0);
    EXPECT(!remedies.stopped);
    struct strbuf text = { 0 };
    remedies_text(&remedies, &text);
    EXPECT_PART(text.text, "What would do: none of ");
    strbuf_free(&text);

    char large[] =
        "{\"machine\": \"toy-2gpu\", \"gpus\": 1, \"model\": {\"family\": \"gpt\", \"layers\": 8, \"hidden\": 2048,"
        " \"heads\": 8, \"ffn\": 8192, \"vocab\": 1000, \"max_sequence\": 512}, \"training\":"
        " {\"micro_batch\": 64}, \"software\": \"deepspeed\"}";
    request = (struct remedy_request){ .load = load, .context = large, .said = "training.micro_batch=3" };
    EXPECT(outcome_of(large, NULL, 0) == TOO_BIG);
    EXPECT_INT(remedies_find(&request, &remedies, &error), STATUS_OK);
    bool taken = false;
    for (uint32_t i = 0; i < remedies.count; i++) {
        taken = taken || strcmp(remedies.items[i].sets.items[0], request.said) == 0;
    }
    EXPECT(taken);
    remedies_text(&remedies, &text);
    EXPECT_PART(text.text, "  --set training.micro_batch=3\n");
    strbuf_free(&text);
}

/* No drives, and a host that holds the states of one server's share only. */
static void test_gpus(void)
{
    struct remedies remedies;
    struct error error = { 0 };
    char text[] =
        "{\"machine\": {\"base\": \"toy-2gpu\", \"dram_GiB\": 16, \"nvmes\": 0}, \"model\": \"gpt2-xl\", "
        "\"recompute\": \"full\","
        " \"memory_policy\": \"zero3-offload\", \"parallel\": {\"zero_stage\": 3}, \"software\": \"deepspeed\","
        " \"training\": {\"micro_batch\": 1, \"global_batch\": 2}}";
    const struct remedy_request request = { .load = load, .context = text, .said = "" };
    EXPECT_INT(remedies_find(&request, &remedies, &error), STATUS_OK);
    EXPECT(remedies.count > 0);
    for (uint32_t i = 0; i < remedies.count; i++) {
        EXPECT(changes(&remedies.items[i].sets, "gpus") && changes(&remedies.items[i].sets, "nodes"));
        EXPECT(outcome_of_remedy(text, &remedies.items[i].sets) == RUNS);
    }
}

/* Pieces are halved as long as they are no small part of the model: a search over tiny ones would take all memory. */
static void test_no_tiny_pieces(void)
{
    static const char *const policies[] = { "zero-offload", "zero3-offload", "zero-infinity" };
    static struct scenario scenario;
    static struct remedy_ladder ladder;
    uint32_t halved = 0;
    for (size_t p = 0; p < sizeof policies / sizeof policies[0]; p++) {
        char text[256];
        struct error error = { 0 };
        snprintf(text, sizeof text,
                 "{\"model\": \"llama-3-8b\", \"machine\": \"toy-2gpu\", \"gpus\": 1, \"memory_policy\": {\"name\": "
                 "\"%s\", \"%s\": 10000000}}",
                 policies[p], p == 0 ? "tile_elements" : "sub_group_elements");
        EXPECT_INT(scenario_parse(&scenario, text, "test", NULL, 0, &error), STATUS_OK);
        double least = (double)model_parameters(&scenario.model) / 4096;
        for (uint32_t i = 0; remedy_ladder_setting(&scenario, i, false, &ladder); i++) {
            for (uint32_t r = 0; r < ladder.count; r++) {
                const char *set = ladder.rungs[r].items[0], *value = strchr(set, '=') + 1;
                if (strstr(set, "_elements=") != NULL) {
                    EXPECT(atof(value) >= floor(least));
                    halved++;
                }
            }
        }
        scenario_free(&scenario);
    }
    EXPECT(halved > 10);
}

TEST_MAIN(TEST(test_scenarios), TEST(test_gpus), TEST(test_said_and_none), TEST(test_no_tiny_pieces))
