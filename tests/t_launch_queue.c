/* The host's queue of launches against pipeline orders: however short the queue and coarse the ops, every order that runs with an endless one runs. */
#include "sim/sweep/sweep_row.h"
#include "tests/test.h"

static void compute(struct sweep_row *row, const char *order, int stages, int chunks, int micro_batches,
                    const char *detail, int launch_ahead)
{
    char text[1024];
    snprintf(text, sizeof text,
             "{\"model\":\"gpt2-large\",\"machine\":\"dgx-a100-80gb\",\"gpus\":%d,\"detail\":\"%s\","
             "\"software\":{\"base\":\"megatron\",\"host\":{\"launch_ahead\":%d}},"
             "\"training\":{\"micro_batch\":1,\"global_batch\":%d},"
             "\"parallel\":{\"pipeline\":%d,\"pipeline_order\":\"%s\",\"virtual_stages\":%d}}",
             stages, detail, launch_ahead, micro_batches, stages, order, chunks);
    sweep_row_compute(row, text, "t");
}

/* Once a deadlock: an op of a whole stage holds the places of all its launches until it ends and so waits for an empty queue, which a send that waits for its receiver kept from becoming empty. */
static void test_every_order_ends(void)
{
    static const struct {
        const char *order;
        int chunks;
    } orders[] = { { "gpipe", 1 },       { "1f1b", 1 },        { "dapple-pb", 1 }, { "interleaved", 2 },
                   { "interleaved", 3 }, { "interleaved", 6 }, { "zb-h1", 1 },     { "zb-v", 2 } };
    static const char *const details[] = { "stage", "layer" };
    static const int queues[] = { 1, 16, 200, 1024 };
    struct sweep_row endless, row;
    for (size_t o = 0; o < sizeof orders / sizeof orders[0]; o++) {
        for (int stages = 2; stages <= 6; stages += stages == 2 ? 1 : 3) {
            for (int micro_batches = stages; micro_batches <= 4 * stages; micro_batches *= 2) {
                for (int d = 0; d < 2; d++) {
                    compute(&endless, orders[o].order, stages, orders[o].chunks, micro_batches, details[d], 0);
                    EXPECT_INT(endless.status, SWEEP_DONE);
                    EXPECT_TEXT(endless.reason, "");
                    for (int q = 0; q < 4; q++) {
                        compute(&row, orders[o].order, stages, orders[o].chunks, micro_batches, details[d], queues[q]);
                        if (row.status != SWEEP_DONE) {
                            printf("%s, %d stages of %d chunks, %d micro-batches, detail %s, queue of %d\n",
                                   orders[o].order, stages, orders[o].chunks, micro_batches, details[d], queues[q]);
                        }
                        EXPECT_TEXT(row.reason, "");
                    }
                }
            }
        }
    }
}

/* The case that was seen: GPT-3 175B, 2 stages of 2 chunks of 24 layers, 1024 launches ahead. */
static void test_gpt3(void)
{
    static const char text[] =
        "{\"detail\":\"stage\",\"gpus\":128,\"machine\":{\"base\":\"dgx-a100-80gb\",\"gpu_memory_GiB\":200},\"model\":"
        "\"gpt3-175b\",\"nodes\":16,"
        "\"parallel\":{\"pipeline\":2,\"pipeline_order\":\"interleaved\",\"sequence_parallel\":true,\"tensor\":8,"
        "\"virtual_stages\":2,\"zero_stage\":1},"
        "\"software\":\"megatron\",\"training\":{\"global_batch\":64,\"micro_batch\":1,\"sequence_length\":1024}}";
    struct sweep_row row;
    sweep_row_compute(&row, text, "t");
    EXPECT_TEXT(row.reason, "");
    EXPECT_INT(row.status, SWEEP_DONE);
}

TEST_MAIN(TEST(test_every_order_ends), TEST(test_gpt3))
