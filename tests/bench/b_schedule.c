/* What the schedule costs: build, verify, hash of a GPT-3-like step (8 stages, 64 micro-batches, 12 layers a stage, collectives on their own queue), in ns an op. */
#include <time.h>

#include "sim/ir/builder.h"
#include "sim/ir/verify.h"
#include "tests/test.h"

enum { STAGES = 8, MICRO_BATCHES = 64, LAYERS = 12, STEPS = 4, TP = 8 };

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

struct stage {
    uint32_t space, compute, comm, send, recv, activations[MICRO_BATCHES][LAYERS], group;
};

/* One layer: kernels and a collective, in turns; each waits for the other. */
static void layer(struct builder *b, struct stage *stage, uint16_t micro_batch, uint16_t index, bool forward,
                  uint32_t label, uint32_t work_label)
{
    enum op_phase phase = forward ? PHASE_FORWARD : PHASE_BACKWARD;
    uint32_t collective = SCHED_NONE;
    for (uint32_t i = 0; i < STEPS; i++) {
        struct kernel k = { .kernel_class = KERNEL_GEMM,
                            .launches = 1,
                            .batch = 1,
                            .m = 2048,
                            .n = 1536 + i,
                            .k = 12288,
                            .flops = 1e10,
                            .bytes_read = 1e7,
                            .bytes_written = 1e6 };
        struct work_item item = { builder_kernel(b, &k), ITEM_KERNEL, 1 };
        uint32_t scratch = builder_buffer(b, stage->space, 1000 + i, 1, BUFFER_WORKSPACE, 0, work_label);
        uint32_t op = builder_op(b, OP_COMPUTE, stage->compute, builder_work_kernels(b, &item, 1), phase);
        builder_tag(b, micro_batch, 0, index);
        builder_depends(b, collective);
        builder_acquire(b, scratch);
        uint32_t *activation = &stage->activations[micro_batch][index];
        if (forward && i == 0) {
            *activation = builder_buffer(b, stage->space, 5000, 1, BUFFER_ACTIVATION, 0, label);
            builder_acquire(b, *activation);
            builder_write(b, *activation);
        } else if (!forward && i == STEPS - 1) {
            builder_read(b, *activation);
            builder_release(b, *activation);
        }
        collective = builder_op(b, i % 2 == 0 ? OP_ALL_GATHER : OP_REDUCE_SCATTER, stage->comm,
                                builder_work_collective(b, stage->group, 5e7, DTYPE_FP16), PHASE_TENSOR_COMM);
        builder_tag(b, micro_batch, 0, index);
        builder_set_match(b, builder_match(b, stage->group, 1));
        builder_depends(b, op);
        builder_read(b, scratch);
        builder_release(b, scratch);
    }
}

static struct builder *build(void)
{
    struct builder *b = builder_new();
    static struct stage stages[STAGES];
    uint32_t sends[2][STAGES][MICRO_BATCHES], devices[STAGES][TP], pairs[2 * TP];
    for (uint32_t p = 0; p < STAGES; p++) {
        for (uint32_t i = 0; i < TP; i++) {
            devices[p][i] = p * TP + i;
        }
        stages[p].group = builder_group(b, devices[p], TP, 1, "tensor");
    }
    for (uint32_t direction = 0; direction < 2; direction++) {
        for (uint32_t p = 0; p + 1 < STAGES; p++) {
            for (uint32_t i = 0; i < TP; i++) {
                pairs[2 * i] = devices[p + direction][i];
                pairs[2 * i + 1] = devices[p + 1 - direction][i];
            }
            uint32_t group = builder_group(b, pairs, 2, TP, "pipeline");
            for (uint32_t m = 0; m < MICRO_BATCHES; m++) {
                sends[direction][p][m] = builder_match(b, group, 2);
            }
        }
    }
    uint32_t payload = builder_work_transfer(b, 5e7, false);
    for (uint32_t p = 0; p < STAGES; p++) {
        struct stage *s = &stages[p];
        s->space = builder_space(b, SPACE_DEVICE, p * TP, 80000000000, SCHED_NONE, "gpu");
        builder_rank(b, devices[p], TP, p, "stage");
        s->compute = builder_queue(b, QUEUE_COMPUTE, "compute");
        s->comm = builder_queue(b, QUEUE_COMM, "comm");
        s->send = builder_queue(b, QUEUE_P2P, "send");
        s->recv = builder_queue(b, QUEUE_P2P, "recv");
        uint32_t labels[LAYERS], work_label = builder_label(b, "workspace");
        for (uint32_t l = 0; l < LAYERS; l++) {
            labels[l] = builder_label_format(b, "layer %u", p * LAYERS + l);
        }
        uint32_t warm = STAGES - p < MICRO_BATCHES ? STAGES - p : MICRO_BATCHES;
        for (uint32_t step = 0, f = 0, k = 0; step < 2 * MICRO_BATCHES; step++) { /* 1F1B */
            bool forward = f < MICRO_BATCHES && f < k + warm;
            uint32_t m = forward ? f++ : k++;
            uint32_t got = SCHED_NONE;
            if (forward ? p > 0 : p + 1 < STAGES) {
                got = builder_op(b, OP_RECV, s->recv, payload, PHASE_PIPELINE_COMM);
                builder_set_match(b, sends[forward ? 0 : 1][forward ? p - 1 : p][m]);
                builder_tag(b, (uint16_t)m, 0, OP_TAG_NONE);
            }
            for (uint32_t l = 0; l < LAYERS; l++) {
                layer(b, s, (uint16_t)m, (uint16_t)l, forward, labels[l], work_label);
                if (l == 0 && got != SCHED_NONE) {
                    /* The last op is the collective: it waits for the boundary too. */
                    builder_depends(b, got);
                }
            }
            if (forward ? p + 1 < STAGES : p > 0) {
                uint32_t last = builder_op_count(b) - 1;
                builder_op(b, OP_SEND, s->send, payload, PHASE_PIPELINE_COMM);
                builder_set_match(b, sends[forward ? 0 : 1][forward ? p : p - 1][m]);
                builder_tag(b, (uint16_t)m, 0, OP_TAG_NONE);
                builder_depends(b, last);
            }
        }
    }
    return b;
}

int main(void)
{
    double best[4] = { 1, 1, 1, 1 };
    uint32_t ops = 0;
    for (unsigned round = 0; round < 7; round++) {
        struct schedule s;
        struct error error = { 0 };
        double t[5];
        t[0] = seconds();
        struct builder *b = build();
        t[1] = seconds();
        if (b == NULL || builder_finish(b, &s, &error) != STATUS_OK) {
            printf("%s\n", error.message);
            return 1;
        }
        t[2] = seconds();
        if (sched_verify(&s, &error) != STATUS_OK) {
            printf("%s\n", error.message);
            return 1;
        }
        t[3] = seconds();
        struct hash hash = schedule_hash(&s);
        t[4] = seconds();
        (void)hash;
        ops = s.op_count;
        for (unsigned i = 0; i < 4; i++) {
            best[i] = t[i + 1] - t[i] < best[i] ? t[i + 1] - t[i] : best[i];
        }
        schedule_free(&s);
    }
    double n = 1e9 / ops;
    printf("schedule of %u ops: append %.0f, finish %.0f, verify %.0f, hash %.0f, together %.0f ns an op (best of 7)\n",
           ops, best[0] * n, best[1] * n, best[2] * n, best[3] * n, (best[0] + best[1] + best[2] + best[3]) * n);
    return 0;
}
