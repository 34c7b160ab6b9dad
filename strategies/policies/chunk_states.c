#include "strategies/policies/chunk_states.h"

#include "sim/base/check.h"

const char *tensor_state_word(enum tensor_state state)
{
#define X(name, word) word,
    static const char *const words[] = { TENSOR_STATE_TABLE(X) };
#undef X
    CHECK((unsigned)state < TENSOR_STATE_COUNT);
    return words[state];
}

#define ANY       ((1u << TENSOR_STATE_COUNT) - 1)
#define IN(state) (1u << (state))

/* Per event: the states it may meet (by state), and the state it leads to. */
static const struct {
    uint32_t from;
    enum tensor_state to;
} TRANSITIONS[STATE_EVENT_COUNT] = {
    [STATE_REGISTER] = { IN(TENSOR_FREE), TENSOR_FREE },
    [STATE_FILL] = { IN(TENSOR_FREE), TENSOR_COMPUTE },
    [STATE_FILLED] = { IN(TENSOR_COMPUTE), TENSOR_HOLD },
    [STATE_FORWARD_BEGIN] = { ANY, TENSOR_COMPUTE },
    [STATE_FORWARD_END] = { IN(TENSOR_COMPUTE), TENSOR_HOLD_AFTER_FORWARD },
    [STATE_ALL_FORWARD_END] = { IN(TENSOR_HOLD) | IN(TENSOR_HOLD_AFTER_FORWARD), TENSOR_HOLD },
    [STATE_BACKWARD_BEGIN] = { ANY, TENSOR_COMPUTE },
    [STATE_BACKWARD_END] = { IN(TENSOR_COMPUTE), TENSOR_HOLD_AFTER_BACKWARD },
    [STATE_ADAM] = { IN(TENSOR_COMPUTE) | IN(TENSOR_HOLD_AFTER_BACKWARD), TENSOR_HOLD_AFTER_BACKWARD },
    [STATE_GATHER] = { ANY, TENSOR_HOLD },
    [STATE_RELEASE] = { ANY & ~IN(TENSOR_COMPUTE), TENSOR_FREE },
    [STATE_UPDATE_BEGIN] = { IN(TENSOR_FREE) | IN(TENSOR_HOLD), TENSOR_COMPUTE },
    [STATE_UPDATE_END] = { IN(TENSOR_COMPUTE), TENSOR_HOLD },
};

bool tensor_transition(enum state_event event, enum tensor_state old, enum tensor_state *next, bool *zeroed)
{
    CHECK((unsigned)event < STATE_EVENT_COUNT && (unsigned)old < TENSOR_STATE_COUNT);
    if ((TRANSITIONS[event].from & IN(old)) == 0) {
        return false;
    }
    *next = TRANSITIONS[event].to;
    if (zeroed != NULL) {
        *zeroed = old == TENSOR_FREE && *next == TENSOR_COMPUTE;
    }
    return true;
}

enum chunk_state chunk_state_of(const struct chunk_tensors *tensors, bool has_payload)
{
    static const struct {
        enum tensor_state any;
        enum chunk_state is;
    } ORDER[] = {
        { TENSOR_COMPUTE, CHUNK_COMPUTE },
        { TENSOR_HOLD, CHUNK_HOLD },
        { TENSOR_HOLD_AFTER_FORWARD, CHUNK_HOLD_AFTER_FORWARD },
        { TENSOR_HOLD_AFTER_BACKWARD, CHUNK_HOLD_AFTER_BACKWARD },
    };
    if (!has_payload) {
        return CHUNK_RELEASED;
    }
    for (uint32_t i = 0; i < sizeof ORDER / sizeof ORDER[0]; i++) {
        if (tensors->counts[ORDER[i].any] > 0) {
            return ORDER[i].is;
        }
    }
    return CHUNK_FREE;
}

bool chunk_all_in(const struct chunk_tensors *tensors, enum tensor_state state)
{
    uint32_t others = 0;
    for (uint32_t i = 0; i < TENSOR_STATE_COUNT; i++) {
        others += i != TENSOR_FREE && i != (uint32_t)state ? tensors->counts[i] : 0;
    }
    uint32_t idle = tensors->counts[TENSOR_HOLD] < tensors->unused ? tensors->counts[TENSOR_HOLD] : tensors->unused;
    others -= state != TENSOR_HOLD ? idle : 0;
    return others == 0 && tensors->counts[state] > 0;
}

void chunk_tensors_move(struct chunk_tensors *tensors, enum state_event event, enum tensor_state old, uint32_t count)
{
    enum tensor_state next = old;
    bool allowed = tensor_transition(event, old, &next, NULL);
    CHECK(allowed && tensors->counts[old] >= count);
    tensors->counts[old] -= count;
    tensors->counts[next] += count;
}

void chunk_tensors_all(struct chunk_tensors *tensors, enum state_event event)
{
    if (event == STATE_ALL_FORWARD_END) {
        tensors->unused = tensors->counts[TENSOR_HOLD];
    }
    uint32_t moved = 0;
    for (uint32_t i = 0; i < TENSOR_STATE_COUNT; i++) {
        if ((TRANSITIONS[event].from & IN(i)) != 0) {
            moved += tensors->counts[i];
            tensors->counts[i] = 0;
        }
    }
    tensors->counts[TRANSITIONS[event].to] += moved;
}
