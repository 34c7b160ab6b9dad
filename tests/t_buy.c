/* Buying: break-even points by hand and against re-costing, ranking, questions that are refused, and the whole way on small machines. */
#include "sim/buy/break_even.h"
#include "sim/buy/buy.h"
#include "sim/plan/scenario.h"
#include "tests/test.h"

/* ---- break-even ---- */

static void test_break_even_by_hand(void)
{
    double x = 0;
    /* 100 against 60 + 10 x: today x = 8 and the other costs 140; it is cheaper below x = 4. */
    const struct cost_ways rent = { { { 100, 0 } }, 1 }, own = { { { 60, 10 } }, 1 };
    EXPECT(break_even(&rent, &own, 8, 0, 100, &x));
    EXPECT_REAL(x, 4, 1e-12);
    /* The other way round: owned at x = 1 (70), rented (100) wins above 4. */
    EXPECT(break_even(&own, &rent, 1, 0, 100, &x));
    EXPECT_REAL(x, 4, 1e-12);
    EXPECT(!break_even(&own, &rent, 1, 0, 3, &x)); /* beyond what may be said */
    /* Owned against owned: 20 + 10 x at x = 1 before 50 + 4 x; equal at 5. */
    const struct cost_ways hot = { { { 20, 10 } }, 1 }, cool = { { { 50, 4 } }, 1 };
    EXPECT(break_even(&hot, &cool, 1, 0, 100, &x));
    EXPECT_REAL(x, 5, 1e-12);
    /* But where the first can rent for 60 it never pays more, and the other (70 at x = 5) never wins. */
    const struct cost_ways both = { { { 20, 10 }, { 60, 0 } }, 2 };
    EXPECT(!break_even(&both, &cool, 1, 0, 100, &x));
    /* Dearer at every x. */
    const struct cost_ways dear = { { { 120, 20 } }, 1 };
    EXPECT(!break_even(&own, &dear, 1, 0, 100, &x));
    EXPECT_REAL(cost_at(&both, 3), 50, 0);
    EXPECT_REAL(cost_at(&both, 30), 60, 0);
}

/* Lines drawn at random: what is found is a crossing, and none lies nearer (looked for on a grid). */
static void test_break_even_against_grid(void)
{
    uint64_t state = test_seed;
    uint32_t found = 0;
    for (int round = 0; round < 2000; round++) {
        struct cost_ways w[2] = { 0 };
        for (int i = 0; i < 2; i++) {
            w[i].count = 1 + (uint32_t)test_below(&state, 2);
            for (uint32_t k = 0; k < w[i].count; k++) {
                w[i].lines[k] =
                    (struct cost_line){ (double)(1 + test_below(&state, 100)), (double)test_below(&state, 10) };
            }
        }
        const double now = 5, most = 20;
        bool swap = cost_at(&w[1], now) < cost_at(&w[0], now);
        const struct cost_ways *first = &w[swap], *other = &w[!swap];
        double x = 0, nearest = INFINITY;
        for (int i = 0; i <= 20000; i++) {
            double at = most * i / 20000;
            if (cost_at(other, at) < cost_at(first, at) && fabs(at - now) < fabs(nearest - now)) {
                nearest = at;
            }
        }
        bool has = break_even(first, other, now, 0, most, &x);
        if (has && fabs(x - most) > 1e-3 && fabs(x) > 1e-3) { /* at the very ends the grid sees nothing beyond */
            found++;
            EXPECT_REAL(cost_at(first, x), cost_at(other, x), 1e-9);
            EXPECT(fabs(nearest - x) <= 1.1e-3);
        } else if (!has) {
            EXPECT(isinf(nearest) || fabs(nearest - now) <= 1.1e-3);
        }
    }
    printf("%u break-even points of 2000 pairs\n", found);
    EXPECT(found > 200);
}

/* ---- ranking of rows whose figures are given ---- */

static const char TWO[] =
    "{\"model\":\"gpt2\",\"training\":{\"global_batch\":8},\"tokens\":1e9,\"electricity_usd_per_kwh\":0.2,"
    "\"utilisation\":0.5,"
    "\"machines\":[{\"name\":\"a\",\"machine\":\"toy-2gpu\",\"usd_per_gpu_hour\":2,\"system_usd\":70128,\"system_W\":"
    "2000},"
    "{\"name\":\"b\",\"machine\":\"toy-2gpu\",\"nodes\":2,\"usd_per_gpu_hour\":1.5,\"system_usd\":50000,"
    "\"system_W\":1500},"
    "{\"name\":\"c\",\"machine\":\"dgx-a100-80gb\",\"usd_per_gpu_hour\":1,\"system_usd\":1e6,\"system_W\":6000}]}";

static void load(struct question *q, const char *text)
{
    struct error error = { 0 };
    char message[2048];
    if (question_parse(q, text, "test", &error) != STATUS_OK) {
        TEST_FAIL_("question: %s", error_text(&error, message, sizeof message));
        exit(1);
    }
}

/* Rows as a simulation would leave them: step times of 1, 0.6, 0.4 s for 8192 tokens. */
static void fill(struct buy_answer *answer, const struct question *q)
{
    static const double STEPS[] = { 1, 0.6, 0.4 };
    *answer = (struct buy_answer){ .question = q, .row_count = q->candidate_count };
    answer->rows = arena_array(&answer->arena, struct buy_row, answer->row_count);
    for (uint32_t i = 0; i < answer->row_count; i++) {
        struct buy_row *row = &answer->rows[i];
        double step = STEPS[i % 3];
        row->candidate = &q->candidates[i];
        row->figures.figures[FIGURE_step_time_s] = step;
        row->figures.figures[FIGURE_tokens_per_s] = 8192 / step;
        row->has_figures = true;
        buy_cost_row(q, row);
    }
    buy_order(answer);
}

static const struct buy_row *row_of(const struct buy_answer *answer, const char *label, uint32_t *rank)
{
    for (uint32_t i = 0; i < answer->row_count; i++) {
        if (strcmp(answer->rows[i].candidate->label, label) == 0) {
            if (rank != NULL) {
                *rank = i + 1;
            }
            return &answer->rows[i];
        }
    }
    TEST_FAIL_("no row %s", label);
    exit(1);
}

static void test_rank_by_hand(void)
{
    struct question q;
    struct buy_answer answer;
    load(&q, TWO);
    fill(&answer, &q);
    /* 1e9 / 8192 = 122070.3: 122071 steps, so hours a, b, c: 33.9086, 20.3452, 13.5634 */
    double hours = 122071 / 3600.0;
    const struct buy_row *a = row_of(&answer, "a", NULL), *b = row_of(&answer, "b", NULL),
                         *c = row_of(&answer, "c", NULL);
    EXPECT_REAL(a->money.rented.usd, 2 * 2 * hours, 1e-12);
    EXPECT_REAL(b->money.rented.usd, 4 * 1.5 * hours * 0.6, 1e-12);
    EXPECT_REAL(c->money.rented.usd, 8 * 1 * hours * 0.4, 1e-12);
    /* 70128 USD over 4 years of 8766 h, half of them busy: 4 USD an hour; 2 kW at 0.2: 0.4 */
    EXPECT_REAL(a->money.owned.usd, 4.4 * hours, 1e-9);
    EXPECT_TEXT(a->way, "rented"); /* 4 an hour */
    /* 3.2 hours of c are the least, then b at 3.6, then a at 4 */
    EXPECT(&answer.rows[0] == c && &answer.rows[1] == b && &answer.rows[2] == a);
    EXPECT_INT(answer.meeting, 3);
    EXPECT_PART(c->reason, "the cheapest of 3 that meet the need");
    EXPECT_PART(b->reason,
                "costs 1.12 times as much as number 1: 0.75 times the GPU-hours at 1.5 times the cost of one");
    /* b costs 3.2 hours at 3.2 / 2.4 USD; number 1 costs as much at 1 * 3.6 / 3.2, but it may be owned: 1e6 USD / 17532 h + 1.2 = 58 an hour, so no. */
    EXPECT(b->changes[CHANGE_GPU_HOUR].known);
    EXPECT_REAL(b->changes[CHANGE_GPU_HOUR].then, 3.2 / 2.4, 1e-9);
    EXPECT_REAL(b->changes[CHANGE_GPU_HOUR].now, 1.5, 0);
    EXPECT_REAL(b->changes[CHANGE_FIRST_GPU_HOUR].then, 3.6 / 3.2, 1e-9);
    EXPECT(!b->changes[CHANGE_FIRST_SYSTEM_USD].known);
    EXPECT_REAL(b->changes[CHANGE_STEP].then, 0.6 * 3.2 / 3.6, 1e-9);
    /* b owned: 2 servers, 0.6 of the hours: (2 S / 17532 + 3 kW * 0.2) 0.6 = 3.2 */
    EXPECT_REAL(b->changes[CHANGE_SYSTEM_USD].then, (3.2 / 0.6 - 0.6) * 17532 / 2, 1e-9);
    buy_free(&answer);
    question_free(&q);
}

/* Rows that cost the same stay in the question's order, and say so. */
static void test_tie(void)
{
    static const char text[] = "{\"model\":\"gpt2\",\"training\":{\"global_batch\":8},\"tokens\":1e9,\"machines\":["
                               "{\"name\":\"a\",\"machine\":\"toy-2gpu\"},"
                               "{\"name\":\"b\",\"machine\":\"toy-2gpu\",\"usd_per_gpu_hour\":99},"
                               "{\"name\":\"c\",\"machine\":\"toy-2gpu\",\"usd_per_gpu_hour\":99},"
                               "{\"name\":\"d\",\"machine\":\"toy-2gpu\"}]}";
    struct question q;
    struct buy_answer answer;
    load(&q, text);
    fill(&answer, &q);
    EXPECT(row_of(&answer, "a", NULL) == &answer.rows[0] && row_of(&answer, "d", NULL) == &answer.rows[1]);
    EXPECT_TEXT(answer.rows[1].reason, "costs and takes as much as number 1, which the question has first");
    buy_free(&answer);
    question_free(&q);
}

/* The question with the change made to it. */
static void apply(struct question *q, struct buy_answer *answer, const char *label, enum buy_change_kind kind,
                  double then)
{
    const char *first = answer->rows[0].candidate->label;
    for (uint32_t i = 0; i < q->candidate_count; i++) {
        struct candidate *candidate = &q->candidates[i];
        bool own = strcmp(candidate->label, label) == 0, other = strcmp(candidate->label, first) == 0;
        switch (kind) {
        case CHANGE_GPU_HOUR:
            candidate->prices.usd_per_gpu_hour.value = own ? then : candidate->prices.usd_per_gpu_hour.value;
            break;
        case CHANGE_SYSTEM_USD:
            candidate->prices.system_usd.value = own ? then : candidate->prices.system_usd.value;
            break;
        case CHANGE_FIRST_GPU_HOUR:
            candidate->prices.usd_per_gpu_hour.value = other ? then : candidate->prices.usd_per_gpu_hour.value;
            break;
        case CHANGE_FIRST_SYSTEM_USD:
            candidate->prices.system_usd.value = other ? then : candidate->prices.system_usd.value;
            break;
        case CHANGE_ELECTRICITY: q->terms.electricity_usd_per_kwh = then; break;
        case CHANGE_UTILISATION: q->terms.utilisation = then; break;
        case CHANGE_DEADLINE: q->deadline_days = then; break;
        case CHANGE_BUDGET: q->budget_usd = then; break;
        case CHANGE_STEP:
        case BUY_CHANGE_COUNT: break;
        }
    }
}

/* Every change, made a little more than said, puts the row before the first (late, dear ones: into the need); made a little less, it does not. */
static uint32_t check_changes(const char *text, uint32_t seen[BUY_CHANGE_COUNT])
{
    struct question q;
    struct buy_answer before, after;
    uint32_t checked = 0;
    load(&q, text);
    fill(&before, &q);
    for (uint32_t i = 0; i < before.row_count; i++) {
        for (int k = 0; k < BUY_CHANGE_COUNT; k++) {
            const struct buy_row *row = &before.rows[i];
            const struct buy_change *c = &row->changes[k];
            if (!c->known || k == CHANGE_STEP) {
                continue;
            }
            for (int beyond = 0; beyond < 2; beyond++) {
                struct question changed;
                double slack = (c->then < c->now ? -1e-6 : 1e-6) * (beyond ? 1 : -1);
                if (!(c->now > 0)) {
                    slack = beyond ? -1e-6 : 1e-6;
                }
                load(&changed, text);
                apply(&changed, &before, row->candidate->label, (enum buy_change_kind)k, c->then * (1 + slack));
                fill(&after, &changed);
                uint32_t own = 0, first = 0;
                const struct buy_row *now = row_of(&after, row->candidate->label, &own);
                (void)row_of(&after, before.rows[0].candidate->label, &first);
                bool wins = row->verdict == BUY_MEETS || row->verdict == BUY_UNPRICED
                                ? now->verdict == BUY_MEETS && own < first
                                : now->verdict == BUY_MEETS;
                if (wins != (beyond == 1)) {
                    TEST_FAIL_("%s of %s: %g then %g (%s): rank %u, number 1 at %u", text, row->candidate->label,
                               c->now, c->then, beyond ? "beyond" : "short of it", own, first);
                }
                buy_free(&after);
                question_free(&changed);
            }
            seen[k]++;
            checked++;
        }
    }
    buy_free(&before);
    question_free(&q);
    return checked;
}

#define NEED(need, a, b, c)                                                                                            \
    "{\"model\":\"gpt2\",\"training\":{\"global_batch\":8},\"tokens\":1e9," need "\"machines\":[{\"name\":\"a\","      \
    "\"machine\":\"toy-2gpu\"," a "},{\"name\":\"b\",\"machine\":\"toy-2gpu\",\"nodes\":2," b "},{\"name\":\"c\","     \
    "\"machine\":\"dgx-a100-80gb\"," c "}]}"

static void test_changes_hold(void)
{
    static const char *const QUESTIONS[] = {
        TWO,
        /* owned, and near each other */
        NEED("\"electricity_usd_per_kwh\":0.5,\"utilisation\":0.8,\"pay\":\"own\",",
             "\"system_usd\":20000,\"system_W\":3000", "\"system_usd\":18000,\"system_W\":1000",
             "\"system_usd\":60000,\"system_W\":4000"),
        NEED("\"electricity_usd_per_kwh\":0.1,", "\"system_usd\":30000,\"usd_per_gpu_hour\":0.6",
             "\"system_usd\":20000,\"usd_per_gpu_hour\":0.7", "\"system_usd\":90000,\"usd_per_gpu_hour\":0.5"),
        /* deadline and budget */
        NEED("\"electricity_usd_per_kwh\":0.3,\"deadline_days\":0.9,\"budget_usd\":60,", "\"usd_per_gpu_hour\":1",
             "\"usd_per_gpu_hour\":0.9,\"system_usd\":80000", "\"usd_per_gpu_hour\":0.6,\"system_usd\":300000"),
        NEED("\"budget_usd\":50,\"electricity_usd_per_kwh\":0.3,", "\"usd_per_gpu_hour\":0.7",
             "\"usd_per_gpu_hour\":0.9,\"system_usd\":50000", "\"usd_per_gpu_hour\":0.6,\"system_usd\":200000"),
        NEED("\"pay\":\"rent\",", "\"usd_per_gpu_hour\":0.7", "\"usd_per_gpu_hour\":0.9", "\"usd_per_gpu_hour\":0.6"),
    };
    uint32_t seen[BUY_CHANGE_COUNT] = { 0 }, checked = 0;
    for (size_t i = 0; i < sizeof QUESTIONS / sizeof QUESTIONS[0]; i++) {
        checked += check_changes(QUESTIONS[i], seen);
    }
    printf("%u changes made;", checked);
    for (int k = 0; k < BUY_CHANGE_COUNT; k++) {
        printf(" %u", seen[k]);
        EXPECT(seen[k] > 0 || k == CHANGE_STEP);
    }
    printf("\n");
}

static void test_verdicts(void)
{
    struct question q;
    struct buy_answer answer;
    uint32_t rank;
    /* b is dear, a late; both still rank behind c. Then nobody has a price. */
    load(&q, NEED("\"deadline_days\":1,\"budget_usd\":60,\"goal\":\"time\",", "\"usd_per_gpu_hour\":1",
                  "\"usd_per_gpu_hour\":2", "\"usd_per_gpu_hour\":0.5"));
    fill(&answer, &q);
    EXPECT_INT(row_of(&answer, "c", &rank)->verdict, BUY_MEETS);
    EXPECT_INT(rank, 1);
    EXPECT_PART(answer.rows[0].reason, "the fastest of 1 that meets the need");
    EXPECT_INT(row_of(&answer, "a", &rank)->verdict, BUY_LATE);
    EXPECT_PART(answer.rows[rank - 1].reason, "33.9 hours, wanted in 24 hours");
    EXPECT_INT(row_of(&answer, "b", &rank)->verdict, BUY_DEAR);
    EXPECT_PART(answer.rows[rank - 1].reason, "162.76 USD, 60.00 USD are there");
    buy_free(&answer);
    question_free(&q);
    load(&q, NEED("", "\"gpus\":2", "\"gpus\":4", "\"gpus\":8"));
    for (uint32_t i = 0; i < q.candidate_count; i++) {
        q.candidates[i].prices.usd_per_gpu_hour.value = 0;
    }
    fill(&answer, &q);
    EXPECT_INT(answer.meeting, 0);
    EXPECT_INT(answer.rows[0].verdict, BUY_UNPRICED);
    EXPECT_PART(answer.rows[0].reason, "to rent it say \"usd_per_gpu_hour\"; to own it ");
    buy_free(&answer);
    question_free(&q);
    /* Time alone needs no price. */
    load(&q, NEED("\"goal\":\"time\",", "\"gpus\":2", "\"gpus\":4", "\"gpus\":8"));
    for (uint32_t i = 0; i < q.candidate_count; i++) {
        q.candidates[i].prices.usd_per_gpu_hour.value = 0;
    }
    fill(&answer, &q);
    EXPECT_INT(answer.meeting, 3);
    EXPECT_TEXT(answer.rows[0].candidate->label, "c");
    buy_free(&answer);
    question_free(&q);
}

/* ---- the whole way ---- */

static const char SMALL[] =
    "{\"name\":\"small\",\"model\":{\"family\":\"gpt\",\"layers\":8,\"hidden\":1024,\"heads\":16,\"ffn\":4096,"
    "\"vocab\":50257,\"max_sequence\":512},\"training\":{\"global_batch\":24,\"precision\":\"bf16\"},\"tokens\":1e9,"
    "\"planner_parameters\":{\"simulate\":4},"
    "\"machines\":[{\"machine\":\"toy-2gpu\",\"nodes\":[1]},{\"machine\":\"dgx-a100-80gb\",\"gpus\":6},"
    "{\"machine\":\"dgx1-v100-32gb\"},{\"machine\":{\"base\":\"toy-2gpu\",\"gpu_memory_GiB\":1},\"name\":\"tiny\"}]}";

static void answer_json(const struct question *q, uint32_t threads, struct strbuf *out)
{
    struct buy_answer answer;
    struct error error = { 0 };
    const struct buy_options options = { .threads = threads };
    EXPECT_INT(buy_run(&answer, q, &options, &error), STATUS_OK);
    buy_json(&answer, out);
    buy_free(&answer);
}

static void test_whole_way(void)
{
    struct question q;
    struct buy_answer answer;
    struct error error = { 0 };
    const struct buy_options options = { .threads = 2 };
    uint32_t rank;
    load(&q, SMALL);
    EXPECT_INT(buy_run(&answer, &q, &options, &error), STATUS_OK);
    buy_free(&answer);
    EXPECT_INT(buy_run(&answer, &q, &options, &error), STATUS_OK);
    const struct buy_row *row = row_of(&answer, "dgx-a100-80gb", &rank);
    EXPECT_INT(row->verdict, BUY_MEETS);
    EXPECT_INT(row->candidate->gpus, 6);
    /* The scenario of the row loads, has the question's batch, and takes as long again. */
    struct scenario scenario;
    struct sweep_row again;
    EXPECT_INT(scenario_parse(&scenario, row->scenario, "row", NULL, 0, &error), STATUS_OK);
    EXPECT_INT(scenario.plan.global_batch, 24);
    EXPECT_INT(scenario.cluster.gpus, 6);
    scenario_free(&scenario);
    sweep_row_compute(&again, row->scenario, "row");
    EXPECT_REAL(again.figures[FIGURE_step_time_s], row->money.job.step_s, 0);
    EXPECT_PART(row_of(&answer, "dgx1-v100-32gb", NULL)->reason, "does not compute in bf16");
    EXPECT_INT(row_of(&answer, "tiny", NULL)->verdict, BUY_DOES_NOT_FIT);
    buy_free(&answer);
    struct strbuf one = { 0 }, two = { 0 };
    answer_json(&q, 1, &one);
    answer_json(&q, 2, &two);
    EXPECT_TEXT(one.text, two.text);
    strbuf_free(&one);
    strbuf_free(&two);
    question_free(&q);
}

static bool stop_at_second(void *context, uint32_t index, uint32_t count, const struct candidate *candidate,
                           const struct planner_progress *planning)
{
    (void)context;
    (void)count;
    (void)candidate;
    (void)planning;
    return index < 1;
}

static void test_interrupted(void)
{
    struct question q;
    struct buy_answer answer;
    struct error error = { 0 };
    const struct buy_options options = { .threads = 1, .progress = stop_at_second };
    load(&q, SMALL);
    EXPECT_INT(buy_run(&answer, &q, &options, &error), STATUS_OK);
    EXPECT(answer.interrupted);
    EXPECT_INT(answer.rows[0].has_figures, 1);
    EXPECT_INT(answer.rows[answer.row_count - 1].verdict, BUY_NOT_REACHED);
    buy_free(&answer);
    question_free(&q);
}

/* ---- refused ---- */

#define HEAD_OK "\"model\":\"gpt2\",\"training\":{\"global_batch\":8},\"tokens\":1e9"
#define TOY     "\"machines\":[{\"machine\":\"toy-2gpu\"}]"

static void test_refused(void)
{
    static const struct {
        const char *text, *part;
    } CASES[] = {
        { "{" HEAD_OK "}", "machines" },
        { "{" HEAD_OK ",\"machines\":[]}", "0 machines: 1 to 64" },
        { "{" HEAD_OK ",\"machines\":[{\"machine\":\"dgx-a100-80g\"}]}", "did you mean \"dgx-a100-80gb\"" },
        { "{" HEAD_OK ",\"machines\":[{\"machine\":\"toy-2gpu\",\"usd_per_hour\":1}]}",
          "did you mean \"usd_per_gpu_hour\"" },
        { "{" HEAD_OK ",\"machines\":[{\"machine\":\"toy-2gpu\",\"nodes\":[]}]}", "0 numbers of servers" },
        { "{" HEAD_OK ",\"machines\":[{\"machine\":\"toy-2gpu\",\"nodes\":[1,0]}]}", "nodes[1]" },
        { "{" HEAD_OK ",\"machines\":[{\"machine\":\"toy-2gpu\",\"nodes\":[1,2],\"gpus\":2}]}",
          "goes with one number" },
        { "{" HEAD_OK ",\"machines\":[{\"machine\":\"toy-2gpu\",\"nodes\":3,\"gpus\":2}]}", "5 to 6 would use each" },
        { "{" HEAD_OK ",\"machines\":[{\"machine\":\"toy-2gpu\",\"system_usd\":-1}]}", "system_usd" },
        { "{" HEAD_OK ",\"machines\":[{\"machine\":\"toy-2gpu\",\"name\":\"\"}]}", "\"name\" must have" },
        { "{\"training\":{\"global_batch\":8},\"tokens\":1," TOY "}", "model" },
        { "{\"model\":\"gpt22\",\"training\":{\"global_batch\":8},\"tokens\":1e9," TOY "}", "gpt2" },
        { "{\"model\":\"gpt2\",\"training\":{},\"tokens\":1e9," TOY "}", "global_batch" },
        { "{\"model\":\"gpt2\",\"training\":{\"global_batch\":8,\"micro_batch\":2},\"tokens\":1e9," TOY "}",
          "the planner chooses the micro-batch" },
        { "{\"model\":\"gpt2\",\"training\":{\"global_batch\":8,\"sequence_length\":4096},\"tokens\":1e9," TOY "}",
          "$.training.sequence_length" },
        { "{\"model\":\"gpt2\",\"training\":{\"global_batch\":8,\"precision\":\"fp17\"},\"tokens\":1e9," TOY "}",
          "$.training.precision" },
        { "{\"model\":\"gpt2\",\"training\":{\"global_batch\":8},\"tokens\":8191," TOY "}", "less than one step" },
        { "{\"model\":\"gpt2\",\"training\":{\"global_batch\":8},\"tokens\":1e19," TOY "}", "$.tokens" },
        { "{" HEAD_OK ",\"deadline_days\":0," TOY "}", "$.deadline_days" },
        { "{" HEAD_OK ",\"budget_usd\":0," TOY "}", "$.budget_usd" },
        { "{" HEAD_OK ",\"pay\":\"rent\",\"amortise_years\":3," TOY "}", "but \"pay\" is \"rent\"" },
        { "{" HEAD_OK ",\"pay\":\"own\"," TOY "}", "needs \"electricity_usd_per_kwh\"" },
        { "{" HEAD_OK ",\"pay\":\"lease\"," TOY "}", "rent" },
        { "{" HEAD_OK ",\"goal\":\"fame\"," TOY "}", "cost" },
        { "{" HEAD_OK ",\"planner\":\"exhaustiv\"," TOY "}", "exhaustive" },
        { "{" HEAD_OK ",\"planner_parameters\":{\"simulat\":3}," TOY "}", "simulate" },
        { "{" HEAD_OK ",\"deadline_day\":3," TOY "}", "did you mean \"deadline_days\"" },
        { "{" HEAD_OK ",\"schema\":\"memwall.scenario/1\"," TOY "}", "expected a question (\"memwall.question/1\")" },
        { "[1]", "object" },
    };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        struct question q;
        struct error error = { 0 };
        char message[2048];
        if (question_parse(&q, CASES[i].text, "q.json", &error) == STATUS_OK) {
            TEST_FAIL_("accepted: %s", CASES[i].text);
            question_free(&q);
            continue;
        }
        EXPECT_PART(error_text(&error, message, sizeof message), CASES[i].part);
    }
    printf("%zu questions refused\n", sizeof CASES / sizeof CASES[0]);
}

TEST_MAIN(TEST(test_break_even_by_hand), TEST(test_break_even_against_grid), TEST(test_rank_by_hand), TEST(test_tie),
          TEST(test_changes_hold), TEST(test_verdicts), TEST(test_whole_way), TEST(test_interrupted),
          TEST(test_refused))
