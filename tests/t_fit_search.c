/* The search for the largest that fits: against trying everything, on random ladders; then over simulations. */
#include <unistd.h>

#include "sim/report/fit.h"
#include "sim/report/result.h"
#include "tests/test.h"

/* ---- the search alone ---- */

enum { RUNGS_MAX = 64 };

struct ladder {
    enum fit_verdict verdicts[RUNGS_MAX];
    uint32_t asked[RUNGS_MAX];
    uint32_t fails_at; /* an error there; RUNGS_MAX: none */
};

static enum status look(void *context, uint32_t candidate, enum fit_verdict *verdict, struct error *error)
{
    struct ladder *ladder = context;
    ladder->asked[candidate]++;
    *verdict = ladder->verdicts[candidate];
    return candidate == ladder->fails_at ? error_set(error, STATUS_EXECUTION, "broken") : STATUS_OK;
}

static struct fit_outcome climb(struct ladder *ladder, uint32_t count, bool all)
{
    struct fit_search search = { .count = count, .all = all, .oracle = look, .context = ladder };
    struct fit_outcome outcome;
    struct error error = { 0 };
    EXPECT_INT(fit_search_run(&search, &outcome, &error), STATUS_OK);
    return outcome;
}

/* The largest that fits, by trying all; `count` when none does. */
static uint32_t plain_largest(const struct ladder *ladder, uint32_t count)
{
    uint32_t largest = count;
    for (uint32_t i = 0; i < count; i++) {
        largest = ladder->verdicts[i] == FIT_FITS ? i : largest;
    }
    return largest;
}

/* Monotone ladders of any length, any border, any pattern of refusals. */
static void test_random_ladders(void)
{
    uint64_t random = test_seed;
    for (int round = 0; round < 4000; round++) {
        struct ladder ladder = { .fails_at = RUNGS_MAX };
        uint32_t count = 1 + (uint32_t)test_below(&random, RUNGS_MAX);
        uint32_t border = (uint32_t)test_below(&random, count + 1); /* the first too big */
        uint32_t refusals = (uint32_t)test_below(&random, 3), refused = 0, asked = 0;
        for (uint32_t i = 0; i < count; i++) {
            bool refuse = refusals > 0 && test_below(&random, refusals == 1 ? 8 : 2) == 0;
            ladder.verdicts[i] = refuse ? FIT_REFUSED : i < border ? FIT_FITS : FIT_TOO_BIG;
            refused += refuse;
        }
        uint32_t largest = plain_largest(&ladder, count);
        struct fit_outcome found = climb(&ladder, count, false);
        EXPECT_INT(found.all_refused, refused == count);
        EXPECT_INT(found.any, largest < count);
        EXPECT(!found.not_monotone);
        if (found.any) {
            EXPECT_INT(found.largest, largest);
        }
        uint32_t next = count;
        for (uint32_t i = count; i-- > 0;) {
            next = ladder.verdicts[i] == FIT_TOO_BIG ? i : next;
            EXPECT(ladder.asked[i] <= 1);
            asked += ladder.asked[i];
        }
        EXPECT_INT(found.has_next, next < count);
        if (found.has_next) {
            EXPECT_INT(found.next, next);
        }
        EXPECT_INT(found.trials, asked);
        if (refused == 0 && found.any) { /* the ends, then halving: 2 + ceil(log2(count - 1)) */
            EXPECT(found.trials <= 2 + (uint32_t)ceil(log2(count > 1 ? count - 1 : 1)));
        }
        if (test_failures > 0) {
            printf("round %d, %u rungs, border %u\n", round, count, border);
            return;
        }
    }
}

/* Where the smallest does not fit, bisection knows nothing: all are tried. */
static void test_not_monotone(void)
{
    struct ladder ladder = { .verdicts = { FIT_TOO_BIG, FIT_FITS, FIT_TOO_BIG, FIT_FITS, FIT_TOO_BIG },
                             .fails_at = RUNGS_MAX };
    struct fit_outcome found = climb(&ladder, 5, false);
    EXPECT(found.any && found.not_monotone);
    EXPECT_INT(found.largest, 3);
    EXPECT_INT(found.next, 4);
    EXPECT_INT(found.trials, 5);
    /* Hidden in the middle: only all show it. */
    struct ladder hidden = { .verdicts = { FIT_FITS, FIT_FITS, FIT_FITS, FIT_TOO_BIG, FIT_FITS, FIT_TOO_BIG,
                                           FIT_TOO_BIG },
                             .fails_at = RUNGS_MAX };
    found = climb(&hidden, 7, true);
    EXPECT(found.not_monotone && found.trials == 7);
    EXPECT_INT(found.largest, 4);
    EXPECT_INT(found.next, 5);
}

static void test_gallop(void)
{
    for (uint32_t border = 0; border <= RUNGS_MAX; border++) {
        struct ladder ladder = { .fails_at = RUNGS_MAX };
        for (uint32_t i = 0; i < RUNGS_MAX; i++) {
            ladder.verdicts[i] = i < border ? FIT_FITS : FIT_TOO_BIG;
        }
        struct fit_search search = { .count = RUNGS_MAX, .gallop = true, .oracle = look, .context = &ladder };
        struct fit_outcome found;
        struct error error = { 0 };
        EXPECT_INT(fit_search_run(&search, &found, &error), STATUS_OK);
        EXPECT_INT(found.any, border > 0);
        EXPECT_INT(found.any ? found.largest : 0, border > 0 ? border - 1 : 0);
        EXPECT_INT(found.has_next, border < RUNGS_MAX);
        EXPECT_INT(found.has_next ? found.next : 0, border < RUNGS_MAX ? border : 0);
        for (uint32_t i = 2 * border + 2; i < RUNGS_MAX; i++) {
            EXPECT_INT(ladder.asked[i], 0); /* never far beyond the border: such trials cost most */
        }
    }
}

/* In a gallop what is refused ends the range, and is no proof that something is full. */
static void test_gallop_refused(void)
{
    struct ladder ladder = { .fails_at = RUNGS_MAX };
    for (uint32_t i = 0; i < RUNGS_MAX; i++) {
        ladder.verdicts[i] = i < 21 ? FIT_FITS : FIT_REFUSED;
    }
    struct fit_search search = { .count = RUNGS_MAX, .gallop = true, .oracle = look, .context = &ladder };
    struct fit_outcome found;
    struct error error = { 0 };
    EXPECT_INT(fit_search_run(&search, &found, &error), STATUS_OK);
    EXPECT(found.any && !found.has_next);
    EXPECT_INT(found.largest, 20);
    ladder.verdicts[0] = FIT_REFUSED;
    EXPECT_INT(fit_search_run(&search, &found, &error), STATUS_OK);
    EXPECT(found.all_refused && !found.any);
}

static void test_errors_end_the_search(void)
{
    struct ladder ladder = { .verdicts = { FIT_FITS, FIT_FITS, FIT_TOO_BIG }, .fails_at = 1 };
    struct fit_search search = { .count = 3, .oracle = look, .context = &ladder };
    struct fit_outcome found;
    struct error error = { 0 };
    EXPECT_INT(fit_search_run(&search, &found, &error), STATUS_EXECUTION);
    EXPECT_TEXT(error.message, "broken");
}

/* ---- over simulations ---- */

static const char *scenario_file(const char *text)
{
    static char path[64];
    snprintf(path, sizeof path, "/tmp/memwall_t_fit_%d.json", (int)getpid());
    FILE *out = fopen(path, "w");
    EXPECT(out != NULL);
    fputs(text, out);
    fclose(out);
    return path;
}

#define ONE_V100                                                                                                       \
    "{\"model\":\"gpt2_1b\",\"machine\":\"yard-v100\",\"gpus\":1,\"software\":\"pytorch-eager\",\"recompute\":"        \
    "\"full\"}"

/* PatrickStar's figure: PyTorch alone trains 1B on a V100 of 32 GB and not 2B. By hand: fp32 weights, gradients and two moments are at least 16 bytes a parameter, 33.3 GB for
 * 2.08e9, and the GPU has 34.1 GB less context and activations. */
static void test_models_on_a_v100(void)
{
    const struct fit_request request = { .file = scenario_file(ONE_V100),
                                         .models = (const char *const[]){ "gpt3_8b", "gpt2_1b", "gpt2_2b", "gpt_ds_20b",
                                                                          "gpt2_4b", "gpt2_2b" },
                                         .model_count = 6 };
    struct fit_report report;
    struct error error = { 0 };
    EXPECT_INT(fit_models(&request, &report, &error), STATUS_OK);
    EXPECT_INT(report.candidates, 5); /* one was named twice */
    EXPECT(report.outcome.any && report.outcome.has_next && !report.outcome.not_monotone);
    const struct fit_trial *best = fit_report_trial(&report, report.outcome.largest);
    const struct fit_trial *next = fit_report_trial(&report, report.outcome.next);
    EXPECT_TEXT(best->name, "gpt2_1b");
    EXPECT(best->simulated && best->tokens_per_s > 0 && best->mfu > 0 && best->mfu < 1);
    EXPECT_REAL(best->tokens_per_s * best->step_time_s, 1024, 1e-9); /* one sequence a step */
    EXPECT_TEXT(next->name, "gpt2_2b");
    EXPECT(next->full.present && next->full.kind == SPACE_DEVICE);
    EXPECT_TEXT(next->full.name, "gpu 0");
    EXPECT(next->full.peak_bytes > next->full.capacity_bytes);
    uint64_t sum = 0;
    for (uint32_t c = 0; c < BUFFER_CLASS_COUNT; c++) {
        sum += next->full.by_class[c];
    }
    EXPECT_INT(sum, next->full.peak_bytes);
    EXPECT(next->full.by_class[BUFFER_WEIGHT] + next->full.by_class[BUFFER_GRADIENT] +
               next->full.by_class[BUFFER_OPTIMIZER] >=
           16 * (uint64_t)next->parameters);
    fit_free(&report);
}

/* A policy that refuses before anything is simulated says what it counted: PatrickStar's rule for the host, its walk for a device, its warm-up share. */
static void test_refused_by_policy(void)
{
    static const struct {
        const char *scenario, *small, *large, *name;
        enum space_kind kind;
    } cases[] = {
        { "{\"machine\":\"yard-v100\",\"gpus\":2,\"software\":\"deepspeed\",\"recompute\":\"full\",\"memory_policy\":{"
          "\"name\":\"patrickstar\",\"chunk_rule\":\"require\"}}",
          "gpt3_13b", "gpt3_15b", "host and warm-up share of GPUs for chunks", SPACE_HOST },
        { "{\"machine\":\"superpod-a100-40gb\",\"gpus\":4,\"software\":\"deepspeed\",\"recompute\":\"full\","
          "\"training\":{\"micro_batch\":4},\"memory_policy\":\"patrickstar\"}",
          "gpt_ds_50b", "gpt_ds_60b", "GPU memory for chunks", SPACE_DEVICE },
        { "{\"machine\":\"yard-v100\",\"gpus\":1,\"software\":\"deepspeed\",\"recompute\":\"full\",\"memory_policy\":{"
          "\"name\":\"patrickstar\",\"chunk_elements\":134217728,\"warmup_ratio\":0.01}}",
          "gpt2_1b", "gpt2_2b", "warm-up share of a GPU for chunks", SPACE_DEVICE },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct fit_request request = { .file = scenario_file(cases[i].scenario),
                                             .models = (const char *const[]){ cases[i].small, cases[i].large },
                                             .model_count = 2 };
        struct fit_report report;
        struct error error = { 0 };
        EXPECT_INT(fit_models(&request, &report, &error), STATUS_OK);
        EXPECT(report.outcome.any == (i < 2) && report.outcome.has_next);
        const struct fit_trial *next = fit_report_trial(&report, report.outcome.next);
        EXPECT(!next->simulated && next->full.present);
        EXPECT_INT(next->full.kind, cases[i].kind);
        EXPECT_TEXT(next->full.name, cases[i].name);
        EXPECT(next->needed_bytes == next->full.peak_bytes && next->needed_bytes > next->full.capacity_bytes);
        struct strbuf out = { 0 };
        fit_report_text(&report, &out);
        EXPECT_PART(out.text, "does not fit: ");
        EXPECT_PART(out.text, "chunks");
        strbuf_free(&out);
        fit_free(&report);
    }
}

struct runs {
    uint32_t count;
    char names[32][64];
};

static void note(void *context, const struct fit_trial *trial)
{
    struct runs *runs = context;
    snprintf(runs->names[runs->count++], sizeof runs->names[0], "%.63s", trial->name);
}

/* By bisection and by trying all: the same answer; the ends come first. */
static void test_all_agrees(void)
{
    struct arena arena = { 0 };
    struct error error = { 0 };
    struct runs few = { 0 }, all = { 0 };
    struct fit_report report;
    struct fit_request request = { .file = scenario_file(ONE_V100), .tried = note, .context = &few };
    const char *const sets[] = { "memory_policy=optimizer-on-host", "gpus=1" };
    request.sets = sets;
    request.set_count = 2;
    EXPECT_INT(fit_list_models("patrickstar-ladder", &arena, &request.models, &request.model_count, &error), STATUS_OK);
    EXPECT_INT(request.model_count, 18);
    EXPECT_INT(fit_models(&request, &report, &error), STATUS_OK);
    EXPECT(report.outcome.any);
    uint32_t largest = report.outcome.largest, next = report.outcome.next;
    fit_free(&report);
    EXPECT_TEXT(few.names[0], "gpt2_1b");
    EXPECT_TEXT(few.names[1], "gpt_175b");
    EXPECT(few.count < 8);
    request.all = true;
    request.context = &all;
    EXPECT_INT(fit_models(&request, &report, &error), STATUS_OK);
    EXPECT_INT(report.outcome.largest, largest);
    EXPECT_INT(report.outcome.next, next);
    EXPECT_INT(all.count, 18);
    EXPECT_INT(report.trial_count, 18);
    for (uint32_t i = 0; i + 1 < report.trial_count; i++) {
        EXPECT(report.trials[i].parameters < report.trials[i + 1].parameters);
    }
    fit_free(&report);
    arena_free(&arena);
}

/* The largest batch fits, one more does not; found the hard way too. */
static void test_batch(void)
{
    const char *const sets[] = { "gpus=2", "training.micro_batch=1", "training.global_batch=6" };
    struct fit_request request = { .file = scenario_file(ONE_V100), .sets = sets, .set_count = 3 };
    struct fit_report report;
    struct error error = { 0 };
    EXPECT_INT(fit_batch(&request, &report, &error), STATUS_OK);
    EXPECT(report.outcome.any && report.outcome.has_next);
    EXPECT_INT(report.outcome.next, report.outcome.largest + 1);
    const struct fit_trial *best = fit_report_trial(&report, report.outcome.largest);
    EXPECT_INT(best->micro_batch, report.outcome.largest + 1);
    EXPECT_INT(best->global_batch, best->micro_batch * 2 * 3); /* two replicas, three micro-batches */
    for (int64_t more = 0; more < 2; more++) {
        char micro[64], global[64];
        snprintf(micro, sizeof micro, "training.micro_batch=%" PRId64, best->micro_batch + more);
        snprintf(global, sizeof global, "training.global_batch=%" PRId64, (best->micro_batch + more) * 6);
        const char *const one[] = { "gpus=2", micro, global };
        struct fit_trial trial;
        EXPECT_INT(fit_trial_run(&trial, request.file, one, 3, false, &error), STATUS_OK);
        EXPECT_INT(trial.verdict, more == 0 ? FIT_FITS : FIT_TOO_BIG);
    }
    fit_free(&report);
}

/* Pinned blocks are rounded up to powers of two: what is live fits, what is held does not. */
static void test_reserved(void)
{
    const char *const sets[] = { "gpus=8", "memory_policy=optimizer-on-host", "machine.base=yard-v100",
                                 "machine.dram_GiB=130" };
    struct fit_trial live, held;
    struct error error = { 0 };
    const char *file = scenario_file(ONE_V100);
    EXPECT_INT(fit_trial_run(&live, file, sets, 4, false, &error), STATUS_OK);
    EXPECT_INT(fit_trial_run(&held, file, sets, 4, true, &error), STATUS_OK);
    EXPECT_INT(live.verdict, FIT_FITS);
    EXPECT_INT(held.verdict, FIT_TOO_BIG);
    EXPECT(!live.full.present && held.full.present && held.full.kind == SPACE_HOST);
    EXPECT(held.full.peak_bytes <= held.full.capacity_bytes && held.needed_bytes > held.full.capacity_bytes);
    EXPECT_INT(held.needed_bytes, live.fullest[SPACE_HOST].peak_reserved_bytes);
    EXPECT_PART(held.reason, "fragmentation of host memory of server 0");
}

/* What one scenario refuses says nothing of the others; when all are refused the reason is the error. */
static void test_refusals(void)
{
    const char *const sets[] = { "gpus=4", "parallel.pipeline=4", "training.global_batch=8" };
    const struct fit_request request = {
        .file = scenario_file(ONE_V100),
        .sets = sets,
        .set_count = 3,
        .models = (const char *const[]){ "gpt2_1b", "gpt3_10b", "gpt2_2b" }, /* 50 layers make no four stages */
        .model_count = 3,
    };
    struct fit_report report;
    struct error error = { 0 };
    struct strbuf out = { 0 };
    EXPECT_INT(fit_models(&request, &report, &error), STATUS_OK);
    EXPECT_TEXT(fit_report_trial(&report, report.outcome.largest)->name, "gpt2_2b");
    EXPECT(!report.outcome.has_next);
    EXPECT_INT(report.trials[2].verdict, FIT_REFUSED);
    fit_report_text(&report, &out);
    EXPECT_PART(out.text, "gpt3_10b (10.22 billion parameters) was refused");
    EXPECT_PART(out.text, "do not divide evenly");
    strbuf_free(&out);
    fit_free(&report);
    const char *const bad[] = { "parallel.tensr=2" };
    struct fit_request wrong = request;
    wrong.sets = bad;
    wrong.set_count = 1;
    EXPECT_INT(fit_models(&wrong, &report, &error), STATUS_BAD_INPUT);
    EXPECT_PART(error.message, "tensr");
    EXPECT_INT(fit_batch(&wrong, &report, &error), STATUS_BAD_INPUT);
    const struct fit_request unknown = { .file = request.file,
                                         .models = (const char *const[]){ "gpt2_1b", "gpt3_9b" },
                                         .model_count = 2 };
    EXPECT_INT(fit_models(&unknown, &report, &error), STATUS_BAD_INPUT);
    EXPECT_PART(error.message, "gpt3_9b");
}

static void test_nothing_fits(void)
{
    const struct fit_request request = { .file = scenario_file(ONE_V100),
                                         .models = (const char *const[]){ "gpt3_8b", "gpt2_4b" },
                                         .model_count = 2 };
    struct fit_report report;
    struct error error = { 0 };
    struct strbuf text = { 0 }, json = { 0 };
    EXPECT_INT(fit_models(&request, &report, &error), STATUS_OK);
    EXPECT(!report.outcome.any && report.outcome.has_next);
    EXPECT_TEXT(fit_report_trial(&report, report.outcome.next)->name, "gpt2_4b");
    fit_report_text(&report, &text);
    EXPECT_PART(text.text, "None of 2 models fits.");
    EXPECT_PART(text.text, "gpu 0 would need");
    fit_report_json(&report, &json);
    EXPECT_PART(json.text, "\"largest\": null");
    strbuf_free(&text);
    strbuf_free(&json);
    fit_free(&report);
}

static void test_list(void)
{
    struct arena arena = { 0 };
    struct error error = { 0 };
    const char *const *models;
    uint32_t count;
    EXPECT_INT(fit_list_models(" a , b b,sc21-ladder", &arena, &models, &count, &error), STATUS_OK);
    EXPECT_INT(count, 12);
    EXPECT_TEXT(models[0], "a");
    EXPECT_TEXT(models[1], "b b");
    EXPECT_TEXT(models[2], "gpt3-1.7b");
    static const char *const bad[] = { "", ",", "a,", ",a", "a,,b", "a, ,b" };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        EXPECT_INT(fit_list_models(bad[i], &arena, &models, &count, &error), STATUS_BAD_INPUT);
    }
    char many[4096] = "a";
    for (int i = 0; i < 1024; i++) {
        strcat(many, ",a");
    }
    EXPECT_INT(fit_list_models(many, &arena, &models, &count, &error), STATUS_LIMIT);
    arena_free(&arena);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        TEST(test_random_ladders),
        TEST(test_not_monotone),
        TEST(test_gallop),
        TEST(test_gallop_refused),
        TEST(test_errors_end_the_search),
        TEST(test_models_on_a_v100),
        TEST(test_refused_by_policy),
        TEST(test_all_agrees),
        TEST(test_batch),
        TEST(test_refusals),
        TEST(test_nothing_fits),
        TEST(test_list),
        TEST(test_reserved),
    };
    int code = test_run(cases, sizeof cases / sizeof cases[0], argc, argv);
    unlink(scenario_file("{}"));
    return code;
}
