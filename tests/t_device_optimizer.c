/* Adam on the device, whole or in the parts that a policy updates: the same parameters take the same traffic and, where the software does not fuse them, as many launches. */
#include "tests/lower_run.h"

struct adam {
    double bytes, flops;
    uint32_t ops, launches;
};

/* The kernels of all updates: norms read only. */
static struct adam adam_of(const struct run *run)
{
    struct adam sum = { 0 };
    const struct schedule *s = &run->schedule;
    for (uint32_t i = 0; i < s->op_count; i++) {
        const struct sched_op *op = &s->ops[i];
        if (op->opcode != OP_COMPUTE || op->phase != PHASE_OPTIMIZER) {
            continue;
        }
        const struct sched_work *work = &s->works[op->work];
        for (uint32_t k = 0; k < work->item_count; k++) {
            const struct kernel *kernel = &s->kernels[s->work_items[work->first_item + k].index];
            if (kernel->kernel_class == KERNEL_OPTIMIZER && kernel->bytes_written > 0) {
                sum.bytes += kernel->bytes_read + kernel->bytes_written;
                sum.flops += kernel->flops;
                sum.launches += kernel->launches;
                sum.ops++;
            }
        }
    }
    return sum;
}

static struct adam run_policy(bool fused, const char *policy)
{
    struct run run;
    run_format(&run,
               "{\"schema\":\"memwall.scenario/"
               "1\",\"name\":\"adam\",\"model\":{\"family\":\"gpt\",\"layers\":8,\"hidden\":1024,"
               "\"heads\":16,\"ffn\":4096,\"vocab\":512,\"max_sequence\":512,\"tied_head\":false},\"machine\":\"dgx-"
               "a100-80gb\","
               "\"gpus\":1,\"software\":{\"base\":\"megatron\",\"kernels\":{\"fused_optimizer\":%s}},%s}",
               fused ? "true" : "false", policy);
    struct adam adam = adam_of(&run);
    run_free(&run);
    return adam;
}

static void test_parts(void)
{
    static const char *const policies[] = {
        "\"memory_policy\":\"resident\"",
        "\"memory_policy\":\"mpress\",\"plan\":{\"moves\":[{\"tensor\":\"optimizer\",\"layers\":[0,2],\"to\":\"host\"}]"
        "}",
        "\"memory_policy\":\"mpress\",\"plan\":{\"moves\":[{\"tensor\":\"optimizer\",\"layers\":[0,7],\"to\":\"host\"}]"
        "}",
    };
    const uint32_t parts[] = { 1, 4, 9 };
    const struct adam whole = run_policy(true, policies[0]);
    for (int i = 0; i < 3; i++) {
        for (int fused = 0; fused < 2; fused++) {
            const struct adam adam = run_policy(fused, policies[i]);
            EXPECT_INT(adam.ops, parts[i]);
            EXPECT_REAL(adam.bytes, whole.bytes, 1e-12);
            EXPECT_REAL(adam.flops, whole.flops, 1e-12);
            /* 4 launches each; not fused: 12 tensors of each of 10 layers, a part counts every tensor that it begins */
            uint32_t least = fused ? 4 * parts[i] : 4 * 12 * 10;
            EXPECT(adam.launches >= least && adam.launches <= (fused ? least : least + 4 * parts[i]));
        }
    }
}

TEST_MAIN(TEST(test_parts))
