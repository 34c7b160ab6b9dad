/* Splits of single layers in plans: the rule of what moves, files, refusals. */
#include "sim/plan/plan_layers.h"
#include "tests/lower_run.h"

enum { LAYERS = 8 };

/* ---- the rule of plan_layers.h against sets of pieces ---- */

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

/* What every rank keeps it had and needs; the keepers of one tensor-parallel group together have all that it needs. */
static void check_move(const struct plan_layer *from, const struct plan_layer *to)
{
    int64_t ranks = from->tensor * from->data;
    struct plan_move move = plan_move_between(from, to);
    EXPECT_INT(move.kept * move.gathered, to->tensor);
    EXPECT_INT(move.sliced, move.kept < from->tensor);
    for (int64_t r = 0; r < ranks; r++) {
        int64_t kept = 0, needed = 0;
        for (int64_t piece = 0; piece < ranks; piece++) {
            bool keeps = plan_move_key(from, to, r) == plan_move_key(from, to, piece);
            kept += keeps;
            needed += partners(to, r, piece);
            if (keeps && !(partners(from, r, piece) && partners(to, r, piece))) {
                TEST_FAIL_("rank %d of %dx%d%s -> %dx%d%s keeps piece %d that it has not or needs not", (int)r,
                           (int)from->tensor, (int)from->data, from->data_consecutive ? "d" : "", (int)to->tensor,
                           (int)to->data, to->data_consecutive ? "d" : "", (int)piece);
            }
        }
        EXPECT_INT(kept, move.kept);
        EXPECT_INT(needed, to->tensor);
    }
}

/* Who is connected by either layout is in one exchange, and exchanges are equally large. */
static void check_exchange(const struct plan_layer *from, const struct plan_layer *to)
{
    int64_t ranks = from->tensor * from->data, size = plan_exchange_size(from, to);
    bool same = from->tensor == to->tensor && from->data_consecutive == to->data_consecutive;
    EXPECT_INT(size == 1, same);
    for (int64_t a = 0; a < ranks; a++) {
        int64_t members = 0;
        for (int64_t b = 0; b < ranks; b++) {
            bool together = plan_exchange_key(from, to, a) == plan_exchange_key(from, to, b);
            members += together;
            if (!same && !together && (partners(from, a, b) || partners(to, a, b))) {
                TEST_FAIL_("ranks %d and %d are partners in one of two layouts and do not exchange", (int)a, (int)b);
            }
        }
        EXPECT_INT(members, size);
    }
}

static void test_moves(void)
{
    static const int64_t sizes[] = { 1, 2, 4, 6, 8, 12, 16, 24, 36 };
    int pairs = 0;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        int64_t ranks = sizes[i];
        for (int64_t a = 1; a <= ranks; a++) {
            for (int64_t b = 1; b <= ranks; b++) {
                for (int flags = 0; flags < 4 && ranks % a == 0 && ranks % b == 0; flags++) {
                    struct plan_layer from = layer_of(a, ranks / a, flags & 1), to = layer_of(b, ranks / b, flags & 2);
                    check_move(&from, &to);
                    check_exchange(&from, &to);
                    for (int64_t r = 0; r < ranks; r++) {
                        EXPECT_INT(
                            plan_layer_rank(&from, plan_layer_data_index(&from, r), plan_layer_tensor_index(&from, r)),
                            r);
                    }
                    pairs++;
                }
            }
        }
    }
    printf("  %d pairs of layouts\n", pairs);
    /* nested: only what is missing; the other order: all but the own piece, as Galvatron charges it */
    struct plan_layer two = layer_of(2, 4, false), four = layer_of(4, 2, false), strided = layer_of(2, 4, true);
    EXPECT_INT(plan_move_between(&two, &four).kept, 2);
    EXPECT_INT(plan_move_between(&four, &two).gathered, 1);
    EXPECT_INT(plan_move_between(&two, &strided).kept, 1);
}

/* ---- files ---- */

static enum status read_plan(const char *text, const struct model *model, struct plan *plan, struct arena *arena,
                             struct error *error)
{
    struct json_document *document = NULL;
    struct json root;
    enum status status = json_parse(&document, text, strlen(text), "plan.json", error);
    if (status == STATUS_OK) {
        json_root(document, &root);
        status = plan_from_json(plan, model, &root, arena, error);
    }
    json_free(document);
    return status;
}

static void test_round_trip(void)
{
    struct run run;
    run_format(&run,
               "{\"model\":{\"family\":\"llama\",\"layers\":8,\"hidden\":1024,\"heads\":16,\"ffn\":4096,\"vocab\":"
               "51200,\"max_sequence\":1024,\"tied_head\":false},\"machine\":\"dgx-a100-80gb\",\"gpus\":8,\"training\":"
               "{\"global_batch\":16},\"recompute\":\"selective\",\"parallel\":{\"layers\":[{\"layers\":2,\"tensor\":2,"
               "\"zero_stage\":3,\"recompute\":\"full\"},{\"layers\":1,\"tensor\":2,\"zero_stage\":3,\"recompute\":"
               "\"none\"},{\"layers\":5,\"tensor\":4,\"consecutive\":\"data\"}],\"head\":{\"tensor\":8}}}");
    const struct plan *plan = &run.scenario.plan;
    static const uint8_t modes[LAYERS] = { 2, 2, 0, 1, 1, 1, 1, 1 };
    EXPECT(memcmp(plan->recompute, modes, sizeof modes) == 0);
    struct strbuf first = { 0 }, second = { 0 };
    struct arena arena = { 0 };
    struct plan again = { 0 };
    struct error error = { 0 };
    plan_print_json(plan, &run.scenario.model, &first);
    EXPECT(plan->layers[2].tensor == 2 && plan->layers[2].zero_stage == 3 && !plan->layers[2].data_consecutive);
    EXPECT(plan->layers[3].tensor == 4 && plan->layers[3].data == 2 && plan->layers[3].data_consecutive);
    EXPECT(plan->head.tensor == 8 && plan->head.data == 1 && plan->embedding.tensor == 0);
    EXPECT_PART(first.text, "\"layers\": [\n   {\n    \"layers\": 3,\n    \"tensor\": 2,\n");
    EXPECT_PART(first.text, "\"consecutive\": \"data\"\n   }\n  ],\n  \"head\": {\n   \"tensor\": 8,\n");
    EXPECT_INT(read_plan(first.text, &run.scenario.model, &again, &arena, &error), STATUS_OK);
    plan_print_json(&again, &run.scenario.model, &second);
    EXPECT_TEXT(second.text, first.text);
    struct hash a, b;
    EXPECT_INT(plan_hash(plan, &run.scenario.model, &a, &error), STATUS_OK);
    EXPECT_INT(plan_hash(&again, &run.scenario.model, &b, &error), STATUS_OK);
    EXPECT(memcmp(&a, &b, sizeof a) == 0);
    if (again.layers == NULL) {
        TEST_FAIL_("the list is gone");
        exit(1);
    }
    again.layers[7].data_consecutive = false;
    EXPECT_INT(plan_hash(&again, &run.scenario.model, &b, &error), STATUS_OK);
    EXPECT(memcmp(&a, &b, sizeof a) != 0);
    again.layers[7].data_consecutive = true;
    again.head.zero_stage = 2;
    EXPECT_INT(plan_hash(&again, &run.scenario.model, &b, &error), STATUS_OK);
    EXPECT(memcmp(&a, &b, sizeof a) != 0);
    strbuf_free(&first);
    strbuf_free(&second);
    arena_free(&arena);
    run_free(&run);
}

static void test_refusals(void)
{
    static const struct {
        const char *parallel, *more, *path, *part;
    } cases[] = {
        { "\"layers\":[{\"layers\":4,\"tensor\":2},{\"layers\":3,\"tensor\":4}]", "", "$.parallel.layers",
          "the list has 7 layers together, GPT-test has 8: 1 are missing" },
        { "\"layers\":[{\"layers\":4,\"tensor\":2},{\"layers\":5,\"tensor\":4}]", "", "$.parallel.layers[1]",
          "layers 4 to 8, but" },
        { "\"layers\":[{\"layers\":4,\"tensor\":2},{\"layers\":4,\"tensor\":3}]", "", "$.parallel.layers[1]",
          "tensor 3 does not divide the devices of a stage (8); the nearest that do are 2 and 4" },
        { "\"layers\":[{\"layers\":4,\"tensor\":2},{\"layers\":4,\"data\":5}]", "", "$.parallel.layers[1]",
          "data 5 does not divide the 8 devices of a stage" },
        { "\"layers\":[{\"layers\":8,\"tensor\":2,\"data\":2}]", "", "$.parallel.layers[0]",
          "with tensor 2 data must be 4" },
        { "\"tensor\":4,\"layers\":[{\"layers\":4},{\"layers\":4,\"tensor\":1}]", "", "$.parallel.layers[1]",
          "data 8 does not divide the 2 samples of a stage's micro-batch (training.micro_batch 1 x parallel.data 2); "
          "the nearest micro_batch that works is 4" },
        { "\"tensor\":2,\"layers\":[{\"layers\":4,\"tensor\":2},{\"layers\":4,\"tensor\":2,\"consecutive\":\"data\"}]",
          "", "$.parallel.layers",
          "between layer 3 and layer 4 samples go over in 8 equal parts, but a stage's micro-batch has 4 "
          "(training.micro_batch 1 x parallel.data 4); the nearest micro_batch that works is 2" },
        { "\"layers\":[{\"layers\":4,\"tensor\":2,\"zero_stage\":4},{\"layers\":4}]", "",
          "$.parallel.layers[0].zero_stage", "" },
        { "\"layers\":[{\"layers\":4,\"tensor\":2,\"consecutive\":\"both\"},{\"layers\":4}]", "",
          "$.parallel.layers[0].consecutive", "tensor" },
        { "\"layers\":[{\"layers\":4,\"tensr\":2},{\"layers\":4}]", "", "$.parallel.layers[0].tensr", "\"tensor\"" },
        { "\"layers\":[{\"tensor\":2}]", "", "$.parallel.layers[0].layers", "layers" },
        { "\"layers\":{\"layers\":8}", "", "$.parallel.layers", "an array" },
        { "\"layers\":[{\"layers\":8,\"recompute\":\"some\"}]", "", "$.parallel.layers[0].recompute",
          "allowed are none, selective, full" },
        { "\"layers\":[{\"layers\":8,\"recompute\":\"full\"}]",
          ",\"recompute\":[\"none\",\"none\",\"none\",\"none\",\"none\",\"none\",\"none\",\"none\"]",
          "$.parallel.layers[0].recompute", "say it in one place" },
        { "\"layers\":[{\"layers\":8,\"tensor\":2}],\"head\":{\"tensor\":4}", "", "$.parallel.head",
          "shares the embedding's weights" },
        { "\"embedding\":{\"tensor\":3}", "", "$.parallel.embedding", "the embedding: tensor 3 does not divide" },
        { "\"embedding\":{\"tensor\":2,\"recompute\":\"full\"}", "", "$.parallel.embedding.recompute", "recompute" },
        { "\"layers\":[{\"layers\":4,\"tensor\":2},{\"layers\":4}]", ",\"memory_policy\":\"optimizer-on-host\"",
          "$.memory_policy", "go with \"resident\"" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct scenario scenario;
        struct error error = { 0 };
        char text[2048];
        snprintf(text, sizeof text,
                 "{\"model\":{\"name\":\"GPT-test\",\"family\":\"gpt\",\"layers\":8,\"hidden\":1024,\"heads\":16,"
                 "\"ffn\":4096,\"vocab\":51200,\"max_sequence\":1024},\"machine\":\"dgx-a100-80gb\",\"gpus\":8,\n"
                 "\"training\":{\"global_batch\":32},\n\"parallel\":{%s}%s}",
                 cases[i].parallel, cases[i].more);
        if (scenario_parse(&scenario, text, "s.json", NULL, 0, &error) != STATUS_BAD_INPUT) {
            TEST_FAIL_("accepted: %s", text);
            scenario_free(&scenario);
            continue;
        }
        EXPECT_TEXT(error.path, cases[i].path);
        EXPECT_PART(error.message, cases[i].part);
        EXPECT_TEXT(error.file, "s.json");
        EXPECT_INT(error.line, 3);
    }
}

TEST_MAIN(TEST(test_moves), TEST(test_round_trip), TEST(test_refusals))
