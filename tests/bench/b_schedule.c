/* What the schedule costs: build, verify, hash, audit of a GPT-3-like step (8 stages, 64 micro-batches, 12 layers a stage, collectives on their own queue), in ns an op. */
#include <time.h>

#include "sim/ir/audit.h"
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

/* A timeline without limits, by passes over all ops until nothing moves. */
static bool run_plain(const struct schedule *s, struct timeline *t)
{
    struct error error = { 0 };
    *t = (struct timeline){ .op_count = s->op_count, .space_count = s->space_count, .executor = "sim" };
    t->schedule_hash = schedule_hash(s);
    t->ops = arena_array(&t->arena, struct op_times, s->op_count);
    t->spaces = arena_array(&t->arena, struct space_use, s->space_count);
    int64_t *match_ready = arena_array(&t->arena, int64_t, s->match_count);
    for (bool moved = true; moved;) {
        moved = false;
        for (uint32_t r = 0; r < s->rank_count; r++) {
            int64_t ends[8] = { 0 };
            for (uint32_t i = s->ranks[r].first_op; i < s->ranks[r].first_op + s->ranks[r].op_count; i++) {
                const struct sched_op *op = &s->ops[i];
                int64_t *end = &ends[op->queue % 4], ready = *end;
                for (uint32_t j = 0; j < op->dependency_count; j++) {
                    int64_t cause = t->ops[s->dependencies[op->first_dependency + j]].end_ps;
                    ready = cause > ready ? cause : ready;
                }
                int64_t start = ready;
                if (op->match != SCHED_NONE) {
                    start = match_ready[op->match] > ready ? match_ready[op->match] : ready;
                    match_ready[op->match] = start;
                }
                moved = moved || t->ops[i].start_ps != start || t->ops[i].end_ps == 0;
                t->ops[i] = (struct op_times){ 0, ready, start, start, start + 1000000 + op->work, 1000000 };
                *end = t->ops[i].end_ps;
                t->end_ps = *end > t->end_ps ? *end : t->end_ps;
            }
        }
    }
    for (uint32_t space = 0; space < s->space_count; space++) {
        int64_t *times;
        uint64_t *bytes;
        uint32_t count;
        if (timeline_memory_by_class(s, t, space, &t->arena, &times, &bytes, &count, &error) != STATUS_OK) {
            return false;
        }
        for (uint32_t i = 0; i < count; i++) {
            uint64_t sum = 0;
            for (uint32_t j = 0; j < BUFFER_CLASS_COUNT; j++) {
                sum += bytes[i * BUFFER_CLASS_COUNT + j];
            }
            if (i == 0 || sum > t->spaces[space].peak_bytes) {
                t->spaces[space].peak_bytes = sum;
                t->spaces[space].peak_op = SCHED_NONE;
                memcpy(t->spaces[space].at_peak_bytes, bytes + i * BUFFER_CLASS_COUNT,
                       sizeof t->spaces[space].at_peak_bytes);
            }
        }
    }
    return true;
}

int main(void)
{
    double best[5] = { 1, 1, 1, 1, 1 };
    uint32_t ops = 0;
    for (unsigned round = 0; round < 7; round++) {
        struct schedule s;
        struct error error = { 0 };
        double t[6];
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
        struct timeline timeline;
        if (!run_plain(&s, &timeline)) {
            return 1;
        }
        double before = seconds();
        if (timeline_audit(&s, schedule_hash(&s), &timeline, NULL, &error) != STATUS_OK) {
            printf("%s\n", error.message);
            return 1;
        }
        t[5] = t[4] + (seconds() - before);
        timeline_free(&timeline);
        ops = s.op_count;
        for (unsigned i = 0; i < 5; i++) {
            best[i] = t[i + 1] - t[i] < best[i] ? t[i + 1] - t[i] : best[i];
        }
        schedule_free(&s);
    }
    double n = 1e9 / ops;
    double built = best[0] + best[1] + best[2] + best[3];
    printf("schedule of %u ops: append %.0f, finish %.0f, verify %.0f, hash %.0f, together %.0f; audit %.0f ns an op "
           "(best of 7)\n",
           ops, best[0] * n, best[1] * n, best[2] * n, best[3] * n, built * n, best[4] * n);
    return 0;
}
