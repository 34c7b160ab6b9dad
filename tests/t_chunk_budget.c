/* Budgets by stage and preset (A.3), the margin of Adam on the device (A.5), volumes (A.6) and footprints (A.1): each against the facts' formula, written out again here. */
#include "strategies/policies/chunk_budget.h"
#include "strategies/policies/chunk_layout.h"
#include "tests/test.h"

static struct chunk_budget budget_of(enum chunk_preset preset, bool saving, uint32_t ranks)
{
    return (struct chunk_budget){ .gpu_bytes = 0.9 * 32e9,
                                  .cpu_bytes = 0.9 * 240e9 / 4,
                                  .warmup_ratio = 0.1,
                                  .chunk_elements = 64 * 1048576.0,
                                  .ranks = ranks,
                                  .local_ranks = 4,
                                  .memory_saving = saving,
                                  .preset = preset,
                                  .max_host_bytes = 8e9 };
}

static void test_budgets(void)
{
    const double chunk = 2 * 64 * 1048576.0, all = 0.9 * 32e9, host = 0.9 * 240e9 / 4;
    for (uint32_t ranks = 1; ranks <= 8; ranks *= 2) {
        for (int saving = 0; saving < 2; saving++) {
            for (int preset = CHUNK_PAPER; preset <= CHUNK_CODE; preset++) {
                struct chunk_budget b = budget_of((enum chunk_preset)preset, saving != 0, ranks);
                double m = saving ? 1 : ranks, twice = preset == CHUNK_CODE ? m * m : m;
                EXPECT_REAL(chunk_device_budget(&b, STAGE_FORWARD, true, 5e9, 6e9), 0.1 * all, 1e-15);
                EXPECT_REAL(chunk_device_budget(&b, STAGE_BACKWARD, true, 5e9, 6e9), 0.1 * all, 1e-15);
                EXPECT_REAL(chunk_device_budget(&b, STAGE_FORWARD, false, 5e9, 6e9), all - 6e9 - m * chunk, 1e-15);
                EXPECT_REAL(chunk_device_budget(&b, STAGE_FORWARD, false, 7e9, 6e9), all - 7e9 - m * chunk, 1e-15);
                EXPECT_REAL(chunk_device_budget(&b, STAGE_BACKWARD, false, 5e9, 6e9), all - 6e9 - twice * chunk, 1e-15);
                EXPECT_REAL(chunk_device_budget(&b, STAGE_ADAM, true, 5e9, 6e9), all - 4 * 2 * chunk, 1e-15);
                EXPECT_REAL(chunk_device_budget(&b, STAGE_ADAM, false, 5e9, 6e9), all - 4 * 2 * chunk, 1e-15);
                EXPECT_REAL(chunk_host_budget(&b, STAGE_FORWARD, true), host, 1e-15);
                EXPECT_REAL(chunk_host_budget(&b, STAGE_ADAM, false), host, 1e-15);
                EXPECT_REAL(chunk_host_budget(&b, STAGE_BACKWARD, false), host - (preset == CHUNK_CODE ? 2e9 : 8e9),
                            1e-15);
                b.static_partition = true;
                EXPECT_REAL(chunk_device_budget(&b, STAGE_FORWARD, false, 5e9, 6e9), 0.1 * all, 1e-15);
                EXPECT_REAL(chunk_device_budget(&b, STAGE_ADAM, false, 5e9, 6e9), all - 4 * 2 * chunk, 1e-15);
            }
        }
    }
    /* A.3: for p = 8 and 64 Mi the repository's backward reserves 8.6 GB. */
    struct chunk_budget b = budget_of(CHUNK_CODE, false, 8);
    EXPECT_REAL(chunk_device_budget(&b, STAGE_FORWARD, false, 0, 0) -
                    chunk_device_budget(&b, STAGE_BACKWARD, false, 0, 0),
                (64 - 8) * chunk, 1e-15);
    EXPECT(fabs(64 * chunk - 8.6e9) < 0.05e9);
}

/* GPT3_8B on 4 V100, 148 fp16 chunks: margins by hand. */
static void test_margin(void)
{
    const double s = 64 * 1048576.0;
    struct chunk_budget b = budget_of(CHUNK_CODE, true, 4);
    double own = 148 * s * 2 / 4;
    EXPECT_REAL(chunk_margin(&b, 148, 6e9), (28.8e9 - 6e9 - (own + 2 * s)) / (12 * s) * 0.8, 1e-15);
    b.memory_saving = false;
    EXPECT_REAL(chunk_margin(&b, 148, 6e9), (28.8e9 - 6e9 - (own + 3 * 2 * s)) / (12 * s) * 0.8, 1e-15);
    EXPECT(chunk_margin(&b, 1480, 6e9) < 0);
    b.gradient_chunks = true; /* as many bytes as the own fp16 chunks once more */
    EXPECT_REAL(chunk_margin(&b, 148, 6e9), (28.8e9 - 6e9 - (2 * own + 3 * 2 * s)) / (12 * s) * 0.8, 1e-15);
    b.gradient_chunks = false;
    b.ranks = 1;
    EXPECT_REAL(chunk_margin(&b, 148, 6e9), (28.8e9 - 6e9 - 148 * s * 2) / (12 * s) * 0.8, 1e-15);
}

static void test_volumes(void)
{
    for (uint32_t p = 1; p <= 64; p *= 2) {
        double share = (p - 1.0) / p, parameters = 8.26e9;
        EXPECT_REAL(chunk_volume_gathered(parameters, p), 6 * share * parameters, 1e-15);
        EXPECT_REAL(chunk_volume_broadcast(parameters, p), 10 * share * parameters, 1e-15);
        EXPECT_REAL(chunk_volume_replicated(parameters, p), 4 * share * parameters, 1e-15);
    }
}

/* 14 bytes a parameter in the four lists of a layout without waste; 16 and 18 as others count. B.9 prints 14 N of its ladder. */
static void test_footprint(void)
{
    struct arena arena = { 0 };
    struct chunk_unit items[8];
    struct chunk_units units = { items, 8 };
    struct chunk_layout layout;
    struct error error = { 0 };
    for (uint32_t i = 0; i < 8; i++) {
        items[i] = (struct chunk_unit){ .name = "full", .tensor_count = 2, .elements = { 96, 4 } };
    }
    EXPECT_INT(chunk_layout_build(&layout, &units, 100, 4, false, &arena, &error), STATUS_OK);
    EXPECT_REAL(chunk_layout_utilisation(&layout), 1, 0);
    EXPECT_REAL(chunk_layout_bytes(&layout), CHUNK_BYTES_PATRICKSTAR * 800, 0);
    EXPECT_INT(CHUNK_BYTES_PATRICKSTAR, 2 + 4 + 4 + 4);
    EXPECT_INT(CHUNK_BYTES_ZERO, 2 + 2 + 12);
    EXPECT_INT(CHUNK_BYTES_DEEPSPEED, 2 + 4 + 4 + 8);
    arena_free(&arena);
    static const struct {
        const char *name;
        double gigabytes;
    } LADDER[] = { { "gpt2small", 10 },   { "gpt2_1b", 15 },     { "gpt2_2b", 29 },     { "gpt2_4b", 58 },
                   { "gpt3_6b", 86 },     { "gpt3_8b", 116 },    { "gpt3_10b", 143 },   { "gpt3_11b", 157 },
                   { "gpt3_12b", 171 },   { "gpt3_13b", 185 },   { "gpt3_15b", 222 },   { "gpt3_18b", 256 },
                   { "gpt_ds_20b", 286 }, { "gpt_ds_40b", 568 }, { "gpt_ds_50b", 704 }, { "gpt_ds_60b", 850 },
                   { "gpt_ds_68b", 947 }, { "gpt_175b", 2443 } };
    for (uint32_t i = 0; i < sizeof LADDER / sizeof LADDER[0]; i++) {
        struct model model;
        EXPECT(model_library_find(LADDER[i].name, &model));
        double gigabytes = CHUNK_BYTES_PATRICKSTAR * (double)model_parameters(&model) * 1e-9;
        EXPECT(fabs(gigabytes - LADDER[i].gigabytes) <=
               0.5 + 1e-3 * LADDER[i].gigabytes); /* as printed; N was rounded to three digits */
    }
}

TEST_MAIN(TEST(test_budgets), TEST(test_margin), TEST(test_volumes), TEST(test_footprint))
