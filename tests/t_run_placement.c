/* Split backwards with recomputation, and what follows the chunk that holds it: embedding, head, the copy of tied weights. Through the lowering. */
#include "tests/lower_run.h"

enum { STAGES = 4, LAYERS = 16, MICRO_BATCHES = 12 };

#define HEAD                                                                                                           \
    "{\"schema\":\"memwall.scenario/"                                                                                  \
    "1\",\"name\":\"placement\",\"machine\":\"dgx-a100-80gb\",\"gpus\":4,\"training\":{"                               \
    "\"global_batch\":12},\"model\":{\"family\":\"gpt\",\"layers\":16,\"hidden\":1024,\"heads\":16,\"vocab\":5120,"    \
    "\"max_sequence\":512,\"tied_head\":%s},\"software\":\"megatron\",\"parallel\":{\"pipeline\":4,\"pipeline_"        \
    "order\":%s}%s}"

struct life {
    uint32_t acquired, released; /* ops */
};

static struct life *lives(const struct schedule *s)
{
    struct life *all = calloc(s->buffer_count, sizeof *all);
    for (uint32_t i = 0; all != NULL && i < s->op_count; i++) {
        const uint32_t *operands = sched_acquires(s, &s->ops[i]);
        for (uint32_t k = 0; k < (uint32_t)s->ops[i].acquire_count + s->ops[i].release_count; k++) {
            *(k < s->ops[i].acquire_count ? &all[operands[k]].acquired : &all[operands[k]].released) = i;
        }
    }
    return all;
}

/* Recomputed tensors begin with the repeated forward, and end with the last part of the backward that reads them: B, or W where it is split off. */
static void check_recomputed(const char *order, bool splits, uint32_t *most_live)
{
    struct run run;
    run_format(&run, HEAD, "true", order, ",\"recompute\":\"full\"");
    const struct schedule *s = &run.schedule;
    struct life *all = run.timed ? lives(s) : NULL;
    uint32_t seen = 0, live[STAGES] = { 0 };
    memset(most_live, 0, STAGES * sizeof *most_live);
    for (uint32_t b = 0; all != NULL && b < s->buffer_count; b++) {
        if (strcmp(sched_label(s, s->buffers[b].label), "recomputed") != 0) {
            continue;
        }
        const struct sched_op *from = &s->ops[all[b].acquired], *to = &s->ops[all[b].released];
        EXPECT_INT(from->phase, PHASE_RECOMPUTE);
        EXPECT_INT(to->phase, splits ? PHASE_WEIGHT : PHASE_BACKWARD);
        EXPECT_INT(to->micro_batch, from->micro_batch);
        EXPECT_INT(to->layer, from->layer);
        seen++;
    }
    EXPECT_INT(seen, LAYERS * MICRO_BATCHES);
    for (uint32_t i = 0; all != NULL && i < s->op_count; i++) {
        const uint32_t *operands = sched_acquires(s, &s->ops[i]);
        for (uint32_t k = 0; k < (uint32_t)s->ops[i].acquire_count + s->ops[i].release_count; k++) {
            const struct sched_buffer *buffer = &s->buffers[operands[k]];
            if (strcmp(sched_label(s, buffer->label), "recomputed") == 0) {
                uint32_t stage = s->ranks[sched_op_rank(s, &s->ops[i])].stage;
                live[stage] += k < s->ops[i].acquire_count ? 1 : UINT32_MAX;
                most_live[stage] = live[stage] > most_live[stage] ? live[stage] : most_live[stage];
            }
        }
    }
    free(all);
    run_free(&run);
}

static void test_recomputed_live_until_weight(void)
{
    uint32_t most[STAGES];
    check_recomputed("\"1f1b\"", false, most);
    for (uint32_t s = 0; s < STAGES; s++) {
        EXPECT_INT(most[s], 1); /* a layer at a time */
    }
    /* ZB-H1: s micro-batches wait for their W while the next goes back. All their layers are there again: what recomputation saved is held s + 1 times. */
    check_recomputed("\"zb-h1\"", true, most);
    for (uint32_t s = 0; s < STAGES; s++) {
        EXPECT_INT(most[s], (s + 1) * LAYERS / STAGES);
    }
    check_recomputed("\"zb-h2\"", true, most);
    for (uint32_t s = 0; s < STAGES; s++) {
        EXPECT_INT(most[s], (2 * s + 1) * LAYERS / STAGES);
    }
}

/* The last stage of an order that says so recomputes nothing (lsps-c), whatever the plan says. */
static void test_last_stage_keeps(void)
{
    for (int keeps = 0; keeps < 2; keeps++) {
        struct run run;
        run_format(&run, HEAD, "true", keeps ? "\"lsps-c\"" : "\"lsps-b\"", ",\"recompute\":\"full\"");
        const struct schedule *s = &run.schedule;
        uint32_t repeated[STAGES] = { 0 };
        for (uint32_t i = 0; run.timed && i < s->op_count; i++) {
            repeated[s->ranks[sched_op_rank(s, &s->ops[i])].stage] += s->ops[i].phase == PHASE_RECOMPUTE;
        }
        EXPECT(repeated[0] > 0);
        EXPECT((repeated[STAGES - 1] == 0) == (keeps == 1));
        run_free(&run);
    }
}

/* ---- the ends of the model ---- */

/* Bytes of weights on a device whose label begins so. */
static double weights(const struct run *run, uint32_t device, const char *begins)
{
    const struct schedule *s = &run->schedule;
    double bytes = 0;
    for (uint32_t b = 0; run->timed && b < s->buffer_count; b++) {
        const struct sched_buffer *buffer = &s->buffers[b];
        if (buffer->buffer_class == BUFFER_WEIGHT && buffer->space == device_space(s, device) &&
            strncmp(sched_label(s, buffer->label), begins, strlen(begins)) == 0) {
            bytes += (double)buffer->bytes;
        }
    }
    return bytes;
}

/* All-reduces of tied gradients: between two devices that hold one end each. */
static uint32_t tied_sums(const struct run *run)
{
    const struct schedule *s = &run->schedule;
    uint32_t count = 0;
    for (uint32_t i = 0; run->timed && i < s->op_count; i++) {
        const struct sched_op *op = &s->ops[i];
        count += op->opcode == OP_ALL_REDUCE && op->phase == PHASE_DATA_COMM &&
                 strcmp(sched_label(s, s->groups[s->works[op->work].group].label), "embedding") == 0;
    }
    return count;
}

static void test_ends_follow_chunks(void)
{
    /* the devices of embedding and head; a 1 for each copy of the model */
    static const struct {
        const char *order;
        uint8_t embedding[STAGES], head[STAGES];
    } rows[] = {
        { "\"1f1b\"", { 1, 0, 0, 0 }, { 0, 0, 0, 1 } },
        { "\"pipedream\"", { 4, 0, 0, 0 }, { 0, 0, 0, 1 } }, /* and the versions of each */
        { "\"zb-v\"", { 1, 0, 0, 0 }, { 1, 0, 0, 0 } },
        { "\"v-half\"", { 1, 0, 0, 0 }, { 1, 0, 0, 0 } },
        { "\"chimera\"", { 1, 0, 0, 1 }, { 1, 0, 0, 1 } },
        { "\"dualpipe\"", { 1, 0, 0, 1 }, { 1, 0, 0, 1 } },
    };
    const double embedding = 2.0 * (5120 + 512) * 1024, word = 2.0 * 5120 * 1024;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        for (int tied = 0; tied < 2; tied++) {
            struct run run;
            run_format(&run, HEAD, tied ? "true" : "false", rows[i].order, "");
            bool apart = tied && rows[i].head[0] == 0; /* no device has both ends: each keeps a copy */
            for (uint32_t device = 0; device < STAGES; device++) {
                double stash = weights(&run, device, "stashed");
                bool first = rows[i].embedding[device] > 0, last = rows[i].head[device] > 0;
                EXPECT_REAL(weights(&run, device, "embedding"), first ? embedding : 0, 0);
                /* the final norm belongs to the head */
                EXPECT_REAL(weights(&run, device, "head"), last ? 2.0 * 2 * 1024 + (!tied || apart ? word : 0) : 0, 0);
                EXPECT((stash > 0) == (rows[i].embedding[0] == 4 && device + 1 < STAGES));
            }
            EXPECT_INT(tied_sums(&run) > 0, apart);
            run_free(&run);
        }
    }
}

/* A pipeline of one's own that begins on the last device. */
static void test_own_placement(void)
{
    struct run run;
    run_format(
        &run,
        "{\"schema\":\"memwall.scenario/1\",\"name\":\"placement\",\"machine\":\"dgx-a100-80gb\",\"gpus\":2,"
        "\"training\":{\"global_batch\":2},\"model\":{\"family\":\"gpt\",\"layers\":4,\"hidden\":1024,\"heads\":16,"
        "\"vocab\":5120,\"max_sequence\":512},\"parallel\":{\"pipeline\":2,\"virtual_stages\":2,\"pipeline_order\":"
        "{\"name\":\"steps\",\"stages\":[\"F0.1 F1.1 F0.3 B0.3 F1.3 B1.3 B0.1 B1.1\",\"F0.0 F1.0 F0.2 F1.2 B0.2 "
        "B1.2 B0.0 B1.0\"]}},\"plan\":{\"stage_layers\":[1,1,1,1]}}");
    EXPECT(weights(&run, 0, "embedding") == 0 && weights(&run, 1, "embedding") > 0);
    EXPECT(weights(&run, 0, "head") > 0 && weights(&run, 1, "head") == 0);
    EXPECT(weights(&run, 0, "layer 1") > 0 && weights(&run, 0, "layer 3") > 0 && weights(&run, 0, "layer 0") == 0);
    EXPECT(tied_sums(&run) > 0);
    run_free(&run);
}

TEST_MAIN(TEST(test_recomputed_live_until_weight), TEST(test_last_stage_keeps), TEST(test_ends_follow_chunks),
          TEST(test_own_placement))
