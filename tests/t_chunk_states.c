/* States of tensors and chunks: the whole transition table of A.2, the derivation of a chunk's state, the test "all in a state". */
#include "strategies/policies/chunk_states.h"
#include "tests/test.h"

/* What the facts' table says, row by row: '-' cannot meet, else the first letter of the new state (F, C, H, f = HOLD_AFTER_FORWARD, b = HOLD_AFTER_BACKWARD), for tensors that are FREE, COMPUTE, HOLD, HOLD_AFTER_FORWARD,
 * HOLD_AFTER_BACKWARD. */
static const struct {
    enum state_event event;
    const char *row;
} TABLE[] = {
    { STATE_REGISTER, "F----" },       { STATE_FILL, "C----" },         { STATE_FILLED, "-H---" },
    { STATE_FORWARD_BEGIN, "CCCCC" },  { STATE_FORWARD_END, "-f---" },  { STATE_ALL_FORWARD_END, "--HH-" },
    { STATE_BACKWARD_BEGIN, "CCCCC" }, { STATE_BACKWARD_END, "-b---" }, { STATE_ADAM, "-b--b" },
    { STATE_GATHER, "HHHHH" },         { STATE_RELEASE, "F-FFF" },      { STATE_UPDATE_BEGIN, "C-C--" },
    { STATE_UPDATE_END, "-H---" },
};

static char letter(enum tensor_state state)
{
    return "FCHfb"[state];
}

static void test_transitions(void)
{
    EXPECT_INT(sizeof TABLE / sizeof TABLE[0], STATE_EVENT_COUNT);
    for (uint32_t i = 0; i < STATE_EVENT_COUNT; i++) {
        for (uint32_t old = 0; old < TENSOR_STATE_COUNT; old++) {
            enum tensor_state next = TENSOR_STATE_COUNT;
            bool zeroed = false;
            bool allowed = tensor_transition(TABLE[i].event, (enum tensor_state)old, &next, &zeroed);
            char found = allowed ? letter(next) : '-';
            if (found != TABLE[i].row[old]) {
                TEST_FAIL_("event %u, %s: %c, expected %c", (unsigned)TABLE[i].event,
                           tensor_state_word((enum tensor_state)old), found, TABLE[i].row[old]);
            }
            /* content without meaning is cleared when it is first computed with */
            EXPECT_INT(zeroed, allowed && old == TENSOR_FREE && next == TENSOR_COMPUTE);
        }
    }
}

/* First match wins: no payload, COMPUTE, HOLD, HOLD_AFTER_FORWARD, HOLD_AFTER_BACKWARD, FREE; over all sets of present states. */
static void test_derivation(void)
{
    for (uint32_t set = 0; set < 1u << TENSOR_STATE_COUNT; set++) {
        struct chunk_tensors tensors = { 0 };
        for (uint32_t s = 0; s < TENSOR_STATE_COUNT; s++) {
            tensors.counts[s] = (set >> s & 1u) * (1 + s);
        }
        enum chunk_state expected = CHUNK_FREE;
        if (set & 1u << TENSOR_HOLD_AFTER_BACKWARD) {
            expected = CHUNK_HOLD_AFTER_BACKWARD;
        }
        if (set & 1u << TENSOR_HOLD_AFTER_FORWARD) {
            expected = CHUNK_HOLD_AFTER_FORWARD;
        }
        if (set & 1u << TENSOR_HOLD) {
            expected = CHUNK_HOLD;
        }
        if (set & 1u << TENSOR_COMPUTE) {
            expected = CHUNK_COMPUTE;
        }
        EXPECT_INT(chunk_state_of(&tensors, true), expected);
        EXPECT_INT(chunk_state_of(&tensors, false), CHUNK_RELEASED);
        for (uint32_t s = TENSOR_HOLD; s < TENSOR_STATE_COUNT; s++) {
            bool only = (set & ~(1u << TENSOR_FREE)) == 1u << s;
            EXPECT_INT(chunk_all_in(&tensors, (enum tensor_state)s), only);
        }
    }
}

/* One chunk of three tensors, one of which the model never uses, through an iteration. */
static void test_iteration(void)
{
    struct chunk_tensors chunk = { .counts = { [TENSOR_FREE] = 3 } };
    EXPECT_INT(chunk_state_of(&chunk, false), CHUNK_RELEASED);
    EXPECT_INT(chunk_state_of(&chunk, true), CHUNK_FREE);
    chunk_tensors_all(&chunk, STATE_FILL);
    EXPECT_INT(chunk_state_of(&chunk, true), CHUNK_COMPUTE);
    chunk_tensors_all(&chunk, STATE_FILLED);
    for (int i = 0; i < 2; i++) {
        chunk_tensors_move(&chunk, STATE_FORWARD_BEGIN, TENSOR_HOLD, 1);
        EXPECT_INT(chunk_state_of(&chunk, true), CHUNK_COMPUTE);
        chunk_tensors_move(&chunk, STATE_FORWARD_END, TENSOR_COMPUTE, 1);
        EXPECT_INT(chunk_state_of(&chunk, true), CHUNK_HOLD);
    }
    EXPECT(!chunk_all_in(&chunk, TENSOR_HOLD_AFTER_FORWARD)); /* nobody knows yet that the third is never used */
    chunk_tensors_all(&chunk, STATE_ALL_FORWARD_END);
    EXPECT_INT(chunk.counts[TENSOR_HOLD], 3);
    EXPECT_INT(chunk.unused, 1);
    chunk_tensors_move(&chunk, STATE_BACKWARD_BEGIN, TENSOR_HOLD, 2);
    EXPECT(!chunk_all_in(&chunk, TENSOR_HOLD_AFTER_BACKWARD));
    chunk_tensors_move(&chunk, STATE_BACKWARD_END, TENSOR_COMPUTE, 2);
    EXPECT(chunk_all_in(&chunk, TENSOR_HOLD_AFTER_BACKWARD));
    EXPECT_INT(chunk_state_of(&chunk, true),
               CHUNK_HOLD); /* the unused one: it may be evicted, the release test ignores it */
    chunk_tensors_all(&chunk, STATE_RELEASE);
    EXPECT_INT(chunk.counts[TENSOR_FREE], 3);
    EXPECT(!chunk_all_in(&chunk, TENSOR_HOLD_AFTER_BACKWARD));
}

TEST_MAIN(TEST(test_transitions), TEST(test_derivation), TEST(test_iteration))
