/* Units of FSDP: when shards of gradients come and go, and what a step of two layers holds at its fullest, by hand. */
#include "tests/lower_run.h"

/* Two devices, two layers, no table of positions worth mentioning. */
#define MODEL                                                                                                          \
    "{\"family\":\"gpt\",\"layers\":2,\"hidden\":512,\"heads\":8,\"ffn\":2048,\"vocab\":1000,\"max_sequence\":128,"    \
    "\"dropout\":0,\"attention_dropout\":0,\"tied_head\":false}"
#define HEAD                                                                                                           \
    "{\"schema\":\"memwall.scenario/1\",\"name\":\"units\",\"model\":" MODEL ",\"machine\":\"dgx-a100-80gb\","         \
    "\"gpus\":2,"

/* The op that acquires the index-th buffer of that label on a device, and the one that releases it; SCHED_NONE where none does. */
struct life {
    uint32_t buffer, acquired, released, acquires;
};

static struct life life_of(const struct schedule *s, uint32_t buffer)
{
    struct life life = { .buffer = buffer, .acquired = SCHED_NONE, .released = SCHED_NONE };
    for (uint32_t i = 0; i < s->op_count; i++) {
        const struct sched_op *op = &s->ops[i];
        for (uint32_t k = 0; k < op->acquire_count; k++) {
            if (sched_acquires(s, op)[k] == buffer) {
                life.acquired = i;
                life.acquires++;
            }
        }
        for (uint32_t k = 0; k < op->release_count; k++) {
            life.released = sched_releases(s, op)[k] == buffer ? i : life.released;
        }
    }
    return life;
}

static bool is_shard(const struct schedule *s, uint32_t buffer)
{
    const char *label = sched_label(s, s->buffers[buffer].label);
    return s->buffers[buffer].buffer_class == BUFFER_GRADIENT && strstr(label, "before") == NULL &&
           strstr(label, "flat") == NULL;
}

/* Each shard begins with a reduction of the first micro-batch and ends behind the last of the optimizer, whatever is accumulated or repeated. */
static void test_shards_are_made_by_the_reduction(void)
{
    for (int zero = 2; zero <= 3; zero++) {
        for (int micro_batches = 1; micro_batches <= 3; micro_batches += 2) {
            for (int full = 0; full < 2; full++) {
                struct run run;
                run_format(&run,
                           HEAD "\"software\":{\"base\":\"deepspeed\",\"memory\":{\"gradients_as_made\":true},"
                                "\"communication\":{\"bucket_MB\":0}},\"training\":{\"global_batch\":%d},"
                                "\"parallel\":{\"data\":2,\"zero_stage\":%d},\"recompute\":\"%s\"}",
                           2 * micro_batches, zero, full ? "full" : "none");
                const struct schedule *s = &run.schedule;
                uint32_t shards = 0, last_backward = 0;
                for (uint32_t i = 0; i < s->op_count; i++) {
                    last_backward = s->ops[i].phase == PHASE_BACKWARD ? i : last_backward;
                }
                for (uint32_t b = 0; b < s->buffer_count; b++) {
                    if (!is_shard(s, b)) {
                        continue;
                    }
                    struct life life = life_of(s, b);
                    EXPECT_INT(s->buffers[b].flags, 0);
                    EXPECT_INT(life.acquires, 1);
                    EXPECT(life.acquired != SCHED_NONE && life.released != SCHED_NONE);
                    EXPECT_INT(s->ops[life.acquired].opcode, OP_REDUCE_SCATTER);
                    EXPECT(micro_batches == 1 || life.acquired < last_backward); /* of the first micro-batch */
                    EXPECT_INT(s->ops[life.released].phase, PHASE_OPTIMIZER);
                    shards++;
                }
                EXPECT_INT(shards, 4); /* embedding, two layers, head */
                run_free(&run);
            }
        }
    }
}

/* What is not reduced over replicas, or by software that keeps its shards, is there all step long. */
static void test_other_gradients_stay(void)
{
    static const struct {
        const char *software, *parallel;
    } rows[] = {
        { "\"deepspeed\"", "\"data\":2,\"zero_stage\":3" },
        { "\"torchtitan\"", "\"data\":2,\"zero_stage\":1" },
        { "\"torchtitan\"", "\"data\":1,\"tensor\":2,\"zero_stage\":3" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct run run;
        run_format(&run, HEAD "\"software\":%s,\"training\":{\"global_batch\":4},\"parallel\":{%s}}", rows[i].software,
                   rows[i].parallel);
        uint32_t shards = 0;
        for (uint32_t b = 0; b < run.schedule.buffer_count; b++) {
            if (is_shard(&run.schedule, b)) {
                EXPECT_INT(run.schedule.buffers[b].flags, BUFFER_LIVE_AT_START | BUFFER_LIVE_AT_END);
                shards++;
            }
        }
        EXPECT(shards >= 4);
        run_free(&run);
    }
}

TEST_MAIN(TEST(test_shards_are_made_by_the_reduction), TEST(test_other_gradients_stay))
