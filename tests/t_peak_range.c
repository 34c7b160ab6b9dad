/* Ranges of peaks against all runs of small schedules, tried one by one; peaks of simulated runs lie in them; the shipped scenarios for real executors hang on no race. */
#include "sim/base/file.h"
#include "sim/ir/verify.h"
#include "tests/lower_run.h"
#include "tests/peak_check.h"
#include "tests/schedule_gen.h"

/* ---- the plain twin: every state that a run can be in ---- */

enum { TWIN_OPS_MAX = 14, TWIN_STATES = 1 << 20 }; /* two bits an op; a hash table */
enum { WAITS, BEGUN, RUNS /* time has passed since it began */, ENDED };

struct twin {
    const struct schedule *s;
    uint32_t space;
    uint64_t keys[TWIN_STATES]; /* state + 1 */
    uint64_t least[TWIN_STATES], most;
    uint32_t count;
};

static unsigned state_of(uint64_t state, uint32_t op)
{
    return (unsigned)(state >> (2 * op) & 3);
}

static uint64_t live_bytes(const struct twin *t, uint64_t state)
{
    uint64_t sum = 0;
    for (uint32_t b = 0; b < t->s->buffer_count; b++) {
        const struct sched_buffer *buffer = &t->s->buffers[b];
        bool lives = (buffer->flags & BUFFER_LIVE_AT_START) != 0;
        for (uint32_t i = 0; i < t->s->op_count; i++) {
            const struct sched_op *op = &t->s->ops[i];
            for (uint32_t k = 0; k < op->acquire_count; k++) {
                lives = lives || (sched_acquires(t->s, op)[k] == b && state_of(state, i) != WAITS);
            }
        }
        for (uint32_t i = 0; i < t->s->op_count; i++) {
            const struct sched_op *op = &t->s->ops[i];
            for (uint32_t k = 0; k < op->release_count; k++) {
                lives = lives && !(sched_releases(t->s, op)[k] == b && state_of(state, i) == ENDED);
            }
        }
        bool here = buffer->space == t->space || t->s->spaces[buffer->space].parent == t->space;
        sum += lives && here ? buffer->bytes * buffer->copies : 0;
    }
    return sum;
}

static bool causes_have_ended(const struct twin *t, uint64_t state, uint32_t op)
{
    const struct schedule *s = t->s;
    const struct sched_op *o = &s->ops[op];
    for (uint32_t i = 0; i < o->dependency_count; i++) {
        if (state_of(state, s->dependencies[o->first_dependency + i]) != ENDED) {
            return false;
        }
    }
    for (uint32_t i = s->ranks[sched_op_rank(s, o)].first_op; i < op; i++) {
        bool before = s->ops[i].queue == o->queue || (s->ops[i].flags & OP_FLAG_HOST_WAITS) != 0;
        if (before && state_of(state, i) != ENDED) {
            return false;
        }
    }
    return true;
}

static bool takes_time(const struct schedule *s, uint32_t op)
{
    uint32_t work = s->ops[op].work;
    return work != SCHED_NONE && (s->works[work].kind != WORK_FIXED || s->works[work].fixed_ps > 0);
}

/* The state in which `op` and all that it meets have begun or ended, or the same state when they cannot. */
static uint64_t move_on(const struct twin *t, uint64_t state, uint32_t op)
{
    uint64_t next = state;
    for (uint32_t i = 0; i < t->s->op_count; i++) {
        bool meets = i == op || (t->s->ops[op].match != SCHED_NONE && t->s->ops[i].match == t->s->ops[op].match);
        if (!meets) {
            continue;
        }
        unsigned is = state_of(state, i);
        if (is == ENDED || (is == BEGUN && takes_time(t->s, i)) || (is == WAITS && !causes_have_ended(t, state, i))) {
            return state;
        }
        unsigned becomes = is == WAITS ? BEGUN : ENDED;
        next += (uint64_t)(becomes - is) << (2 * i);
    }
    return next;
}

/* Time passes: all that has begun runs. */
static uint64_t pass_time(const struct twin *t, uint64_t state)
{
    for (uint32_t op = 0; op < t->s->op_count; op++) {
        state += (uint64_t)(state_of(state, op) == BEGUN) << (2 * op);
    }
    return state;
}

/* The smallest peak of what can follow a state. A peak is of moments at which time passes. */
static uint64_t explore(struct twin *t, uint64_t state)
{
    uint64_t at = state;
    for (at = test_random(&at) % TWIN_STATES; t->keys[at] != 0; at = (at + 1) % TWIN_STATES) {
        if (t->keys[at] == state + 1) {
            return t->least[at];
        }
    }
    if (++t->count >= TWIN_STATES / 2) {
        return 0; /* the caller looks at the count */
    }
    t->keys[at] = state + 1;
    uint64_t live = live_bytes(t, state), best = UINT64_MAX;
    t->most = live > t->most ? live : t->most;
    for (uint32_t op = 0; op < t->s->op_count; op++) {
        uint64_t next = move_on(t, state, op);
        if (next != state) {
            uint64_t least = explore(t, next);
            best = least < best ? least : best;
        }
    }
    uint64_t later = pass_time(t, state);
    if (later != state) {
        uint64_t least = explore(t, later);
        least = least > live ? least : live;
        best = least < best ? least : best;
    }
    t->least[at] = best == UINT64_MAX ? live : best; /* all has ended: the end is for good */
    return t->least[at];
}

static void test_twin(void)
{
    static struct twin twin;
    uint32_t compared = 0, exact = 0, racing = 0, fenced = 0;
    for (uint64_t seed = 0; seed < 600; seed++) {
        uint64_t random = test_seed + seed;
        struct schedule schedule;
        struct error error = { 0 };
        struct peak_range ranges[GEN_RANKS_MAX];
        const struct schedule_gen gen = { .ranks = 1 + (uint32_t)test_below(&random, 3),
                                          .events = 2 + (uint32_t)test_below(&random, 7),
                                          .devices_per_rank = 1 };
        schedule_gen(&gen, random, &schedule);
        EXPECT_INT(sched_verify(&schedule, &error), STATUS_OK);
        EXPECT_INT(peak_ranges(&schedule, ranges, &error), STATUS_OK);
        for (uint32_t i = 0; i < schedule.op_count; i++) {
            fenced += (schedule.ops[i].flags & OP_FLAG_HOST_WAITS) != 0;
        }
        for (uint32_t space = 0; space < schedule.space_count && schedule.op_count <= TWIN_OPS_MAX; space++) {
            memset(&twin, 0, sizeof twin);
            twin.s = &schedule;
            twin.space = space;
            uint64_t least = explore(&twin, 0), start = live_bytes(&twin, 0);
            least = start > least ? start : least; /* so is the start */
            if (twin.count >= TWIN_STATES / 2) {
                continue;
            }
            compared++;
            exact += ranges[space].least_bytes == least;
            racing += least != twin.most;
            if (ranges[space].most_bytes != twin.most || ranges[space].least_bytes > least) {
                TEST_FAIL_("seed %" PRIu64 ", space %u: %" PRIu64 " to %" PRIu64 ", tried %" PRIu64 " to %" PRIu64,
                           seed, space, ranges[space].least_bytes, ranges[space].most_bytes, least, twin.most);
            }
        }
        schedule_free(&schedule);
    }
    printf("  %u spaces compared, %u of them with races; the least was exact in %u; %u host waits\n", compared, racing,
           exact, fenced);
    EXPECT(compared >= 500 && racing >= 50 && fenced >= 50);
}

/* ---- whole steps ---- */

static void expect_in_range(const struct run *run, bool no_race, const char *what)
{
    EXPECT(run->timed);
    if (run->timed) {
        expect_possible_peaks(&run->schedule, &run->timeline, no_race, what);
    }
}

/* What real executors are held to, to the byte, must be decided by the schedule alone. */
static void test_shipped(void)
{
    static const char *const files[] = { "data", "offload", "pipeline", "recompute", "resident", "tensor" };
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        static struct run run;
        struct error error = { 0 };
        char path[128], *text = NULL;
        size_t length;
        snprintf(path, sizeof path, "validate/scenarios/%s.json", files[i]);
        EXPECT_INT(file_read(path, 1 << 20, &text, &length, &error), STATUS_OK);
        if (text != NULL) {
            run_scenario(&run, text);
            expect_in_range(&run, true, files[i]);
            run_free(&run);
        }
        free(text);
    }
}

static void test_policies(void)
{
    static const char *const policies[] = { "resident", "optimizer-on-host", "vdnn", "superneurons", "capuchin" };
    static const char *const orders[] = { "1f1b", "gpipe", "zb-h1", "interleaved" };
    for (int policy = 0; policy < 5; policy++) {
        for (int order = 0; order < 4; order++) {
            static struct run run;
            char what[64];
            snprintf(what, sizeof what, "%s, %s", policies[policy], orders[order]);
            run_format(&run,
                       "{\"schema\":\"memwall.scenario/1\",\"name\":\"range\",\"model\":{\"family\":\"gpt\","
                       "\"layers\":8,\"hidden\":256,\"heads\":8,\"ffn\":1024,\"vocab\":1000,\"max_sequence\":128},"
                       "\"machine\":\"dgx-a100-80gb\",\"software\":\"%s\",\"gpus\":4,"
                       "\"training\":{\"global_batch\":8},\"parallel\":{\"pipeline\":4,\"pipeline_order\":\"%s\","
                       "\"virtual_stages\":%d},\"memory_policy\":\"%s\"}",
                       policy % 2 == 0 ? "ideal" : "megatron", orders[order], order == 3 ? 2 : 1, policies[policy]);
            expect_in_range(&run, false, what);
            run_free(&run);
        }
    }
}

TEST_MAIN(TEST(test_twin), TEST(test_shipped), TEST(test_policies))
