/* What PatrickStar tells `explain`: the published layout of GPT3_8B on four ranks (facts A.1), and sums that hold between the facts. */
#include "sim/plan/lower.h"
#include "sim/plan/scenario.h"
#include "strategies/registry.h"
#include "tests/test.h"

static double fact(const struct policy_facts *facts, const char *name)
{
    for (uint32_t i = 0; i < facts->count; i++) {
        if (strcmp(facts->items[i].name, name) == 0) {
            return facts->items[i].value;
        }
    }
    TEST_FAIL_("no fact \"%s\"", name);
    return NAN;
}

static bool lower(const char *text, struct policy_facts *facts, bool ask)
{
    struct scenario scenario;
    struct schedule schedule = { 0 };
    struct error error = { 0 };
    *facts = (struct policy_facts){ 0 };
    enum status status = scenario_parse(&scenario, text, "test", NULL, 0, &error);
    EXPECT_TEXT(error.message, "");
    if (status != STATUS_OK) {
        return false;
    }
    const struct lower_request request = { .model = &scenario.model,
                                           .cluster = &scenario.cluster,
                                           .software = &scenario.software,
                                           .plan = &scenario.plan,
                                           .order = registry_order(scenario.plan.order, &error),
                                           .policy = registry_policy(scenario.plan.policy, &error),
                                           .facts = ask ? facts : NULL };
    status = lower_schedule(&request, &schedule, &error);
    EXPECT_TEXT(error.message, "");
    schedule_free(&schedule);
    scenario_free(&scenario);
    return status == STATUS_OK;
}

#define EIGHT(more, tail)                                                                                              \
    "{\"model\": \"gpt3_8b\", \"machine\": \"yard-v100\", \"gpus\": 4, \"software\": \"deepspeed\","                   \
    " \"training\": {\"micro_batch\": 4}, \"recompute\": \"full\", \"memory_policy\": {\"name\": \"patrickstar\","     \
    " \"chunk_elements\": 67108864" more "}" tail "}"

static void test_layout_and_margin(void)
{
    static const char *const texts[] = { EIGHT("", ""), EIGHT(", \"memory_saving_communication\": false", ""),
                                         EIGHT(", \"device_adam\": false", "") };
    static struct policy_facts facts;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        if (!lower(texts[i], &facts, true)) {
            continue;
        }
        double s = fact(&facts, "chunk"), chunks = fact(&facts, "fp16 chunks"),
               own = fact(&facts, "chunks of each fp32 list, of this rank");
        EXPECT_REAL(s, 67108864, 0);
        if (i == 0) { /* as in the authors' chunk-location figure: t_chunk_layout.c has how it is read */
            EXPECT_INT((int)own, 37);
        }
        EXPECT(fact(&facts, "utilisation") > 0.8 && fact(&facts, "utilisation") < 0.9); /* 83 % by hand */
        EXPECT_REAL(fact(&facts, "chunks updated on the device") + fact(&facts, "chunks updated on the host"), own, 0);
        double g = fact(&facts, "GPU bytes for chunks and non-model data (G)"),
               most = fact(&facts, "non-model data at most"), away = i == 1 ? 3 : 1, margin = fact(&facts, "margin");
        EXPECT_REAL(margin, (g - most - 2 * s * (chunks / 4 + away)) / (12 * s) * 0.8, 1e-9);
        EXPECT_REAL(fact(&facts, "GPU bytes for chunks in the fullest forward"), g - most - 2 * s * (i == 1 ? 4 : 1),
                    1e-9);
        double device = margin > 1 ? ceil(margin) - 1 : 0; /* chunk k with k < margin */
        EXPECT_REAL(fact(&facts, "chunks updated on the device"), i == 2 ? 0 : fmin(device, own), 0);
    }
}

/* A warm-up whose Adam was skipped is named, and the key that every optimizer state has then. */
static void test_warmup_without_adam(void)
{
    static struct policy_facts complete, without;
    if (lower(EIGHT("", ""), &complete, true) && lower(EIGHT(", \"warmup\": \"without_adam\"", ""), &without, true)) {
        EXPECT_INT(without.count, complete.count + 1);
        /* GPT3_8B: 72 blocks, embedding and head, forward and backward */
        EXPECT_REAL(fact(&without, "next use of optimizer states"), 2 * 2 * (72 + 2), 0);
    }
}

/* GPT3_6B, whose backward lacks room for one fp16 chunk beside the p x p it reserves. With all moments known an fp16 chunk whose backward is over leaves until the next step, 2 S; without Adam's an fp32
 * chunk that Adam needs at once, 4 S. */
static void test_cost_of_warmup_without_adam(void)
{
    static const char *const words[] = { "complete", "without_adam" };
    static struct policy_facts facts;
    for (int i = 0; i < 2; i++) {
        char text[512];
        snprintf(text, sizeof text,
                 "{\"model\": \"gpt3_6b\", \"machine\": \"yard-v100\", \"gpus\": 4, \"software\": \"deepspeed\","
                 " \"training\": {\"micro_batch\": 24}, \"recompute\": \"full\", \"memory_policy\": {\"name\": "
                 "\"patrickstar\", \"chunk_elements\": 100663296, \"pinned_rounding\": false,"
                 " \"memory_saving_communication\": false, \"warmup\": \"%s\"}}",
                 words[i]);
        if (lower(text, &facts, true)) {
            double s = fact(&facts, "chunk");
            EXPECT_REAL(fact(&facts, "chunks move up"), i == 0 ? 2 * s : 4 * s, 0);
            EXPECT_REAL(fact(&facts, "chunks move down"), i == 0 ? 2 * s : 4 * s, 0);
        }
    }
}

/* Ranks built apart tell once; who does not ask is told nothing. */
static void test_told_once(void)
{
    static struct policy_facts folded, apart, none;
    if (lower(EIGHT("", ""), &folded, true) && lower(EIGHT("", ", \"fold\": false"), &apart, true)) {
        EXPECT_INT(apart.count, folded.count);
    }
    lower(EIGHT("", ""), &none, false);
    EXPECT_INT(none.count, 0);
}

TEST_MAIN(TEST(test_layout_and_margin), TEST(test_warmup_without_adam), TEST(test_cost_of_warmup_without_adam),
          TEST(test_told_once))
