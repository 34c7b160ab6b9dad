/* States of tensors and chunks (PatrickStar, core/const.py, chunk_data.py) and every transition between them.
 *
 *   event                        fp16 tensors: old -> new
 *   STATE_REGISTER               -                          FREE
 *   STATE_FILL, _FILLED          FREE -> COMPUTE -> HOLD    weights are copied into a local chunk
 *   STATE_FORWARD_BEGIN          any -> COMPUTE             the slice is zeroed if it was FREE
 *   STATE_FORWARD_END            COMPUTE -> HOLD_AFTER_FORWARD
 *   STATE_ALL_FORWARD_END        HOLD, HOLD_AFTER_FORWARD -> HOLD     so that recomputation frees nothing by accident
 *   STATE_BACKWARD_BEGIN         any -> COMPUTE
 *   STATE_BACKWARD_END           COMPUTE -> HOLD_AFTER_BACKWARD       the gradient lies in the slice now
 *   STATE_ADAM                   HOLD_AFTER_BACKWARD stays  the slice holds the new parameter; COMPUTE (no post hook) -> HOLD_AFTER_BACKWARD
 *   STATE_GATHER                 any -> HOLD                a remote chunk arrives
 *   STATE_RELEASE                any but COMPUTE -> FREE    a remote chunk's payload is freed
 *   STATE_UPDATE_BEGIN, _END     FREE, HOLD -> COMPUTE -> HOLD        fp32-type lists, once a step
 */
#ifndef MEMWALL_STRATEGIES_CHUNK_STATES_H
#define MEMWALL_STRATEGIES_CHUNK_STATES_H

#include <stdbool.h>
#include <stdint.h>

#define TENSOR_STATE_TABLE(X)                                                                                          \
    X(TENSOR_FREE, "free")                                                                                             \
    X(TENSOR_COMPUTE, "compute")                                                                                       \
    X(TENSOR_HOLD, "hold")                                                                                             \
    X(TENSOR_HOLD_AFTER_FORWARD, "hold_after_forward")                                                                 \
    X(TENSOR_HOLD_AFTER_BACKWARD, "hold_after_backward")

#define X(name, word) name,
enum tensor_state { TENSOR_STATE_TABLE(X) TENSOR_STATE_COUNT };
#undef X

enum chunk_state {
    CHUNK_RELEASED, /* no payload */
    CHUNK_COMPUTE,  /* not movable */
    CHUNK_HOLD,
    CHUNK_HOLD_AFTER_FORWARD,
    CHUNK_HOLD_AFTER_BACKWARD,
    CHUNK_FREE
};

enum state_event {
    STATE_REGISTER,
    STATE_FILL,
    STATE_FILLED,
    STATE_FORWARD_BEGIN,
    STATE_FORWARD_END,
    STATE_ALL_FORWARD_END,
    STATE_BACKWARD_BEGIN,
    STATE_BACKWARD_END,
    STATE_ADAM,
    STATE_GATHER,
    STATE_RELEASE,
    STATE_UPDATE_BEGIN,
    STATE_UPDATE_END,
    STATE_EVENT_COUNT
};

/* The new state; false when the event cannot meet a tensor in this state (a bug of the caller). `zeroed`: the slice's content is meaningless and is set to 0; may be NULL. */
bool tensor_transition(enum state_event event, enum tensor_state old, enum tensor_state *next, bool *zeroed);

/* Tensors of one chunk, counted by state. */
struct chunk_tensors {
    uint32_t counts[TENSOR_STATE_COUNT];
    uint32_t unused; /* that were HOLD when the whole forward ended: never-used parameters */
};

/* First match wins: no payload; any COMPUTE; any HOLD; any HOLD_AFTER_FORWARD; any HOLD_AFTER_BACKWARD; else FREE. */
enum chunk_state chunk_state_of(const struct chunk_tensors *tensors, bool has_payload);
/* "All tensors are in `state`": FREE ones and never-used parameters are ignored, and there is at least one. */
bool chunk_all_in(const struct chunk_tensors *tensors, enum tensor_state state);
/* Move `count` tensors from their state by an event; asserts that it is allowed. */
void chunk_tensors_move(struct chunk_tensors *tensors, enum state_event event, enum tensor_state old, uint32_t count);
/* The event meets every tensor of the chunk that it applies to (STATE_ALL_FORWARD_END, STATE_GATHER, STATE_RELEASE). */
void chunk_tensors_all(struct chunk_tensors *tensors, enum state_event event);

const char *tensor_state_word(enum tensor_state state);

#endif
