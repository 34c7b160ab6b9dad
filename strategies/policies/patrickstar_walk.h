/* PatrickStar's iteration without time: one rank walks the passes of a step, first as warm-up, then until the placement of chunks repeats, and writes down what happens to chunks in the steady one.
 *
 * A moment is one pass of one layer, in place of a module's hook: all chunks of a layer are held while it runs. Before pass k its chunks are accessed under the budget of moment k, then the moment
 * advances and what exceeds the device beside the pass's own data leaves (client.adjust_chunk_layout). After it the states of its tensors change, and chunks that all ranks are done with are released or
 * reduced. The last moment is Adam.
 *
 * With gradient_chunks (ours, not the authors': see patrickstar.c) an own chunk's gradient has a payload on the device from its first backward of the step, moves as any chunk does, takes part in its
 * group's reduction in place of the fp16 chunk, and is freed after its Adam. Remote chunks' gradients overwrite their parameters all the same: these are released behind the reduction.
 *
 * Slots number the chunks of all lists in their order of creation: fp16 chunk c is slot 2c, its fp32 parameters 2c + 1; momentum and variance of the rank's j-th own chunk follow after all of these, then
 * its gradients. */
#ifndef MEMWALL_STRATEGIES_PATRICKSTAR_WALK_H
#define MEMWALL_STRATEGIES_PATRICKSTAR_WALK_H

#include "strategies/policies/chunk_budget.h"
#include "strategies/policies/chunk_layout.h"
#include "strategies/policies/chunk_residency.h"

struct walk_pass {
    uint32_t layer; /* of the units */
    bool backward;
    bool recomputes; /* the whole forward, before its backward */
    double nonmodel_bytes;
};

/* Borrowed for the walk. */
struct walk_input {
    const struct chunk_units *units;
    const struct chunk_layout *layout;
    uint32_t rank;
    const struct walk_pass *passes; /* of each micro-batch the forward passes, then the backward passes */
    uint32_t pass_count;
    struct chunk_budget budget;
    enum chunk_eviction eviction;
    uint32_t lookahead; /* moments */
    uint64_t seed;
    uint32_t prefetch;        /* moments ahead that chunks are brought up; 0: the authors' */
    bool prefetch_gathers;    /* and that groups are gathered ahead: all ranks must decide alike */
    bool device_adam;         /* device-aware placement of Adam; false: all on the host */
    bool warmup_without_adam; /* an overflow: warm-up skips Adam, whose moment and accesses no list holds */
    bool gradient_chunks;     /* a fifth list, of own chunks' gradients: they do not overwrite the fp16 parameters */
    uint32_t stored;          /* optimizer states of so many of the last own chunks lie on a drive, in no slot */
    bool rounds_pinned;       /* host payloads are page-locked blocks of a power of two of bytes */
    uint32_t tied_unit;       /* the word table when the last layer's passes use it too; CHUNK_NONE: they do not */
};

enum walk_kind {
    WALK_UP,          /* slot: host -> device */
    WALK_DOWN,        /* slot: device -> host */
    WALK_ALLOCATE,    /* slot: a remote chunk's payload on the device, which the next gather fills */
    WALK_FREE,        /* slot: a remote chunk's payload is gone */
    WALK_GATHER,      /* slot: first chunk of a group (all-gather), or with memory saving the one chunk (broadcast) */
    WALK_REDUCE,      /* same, gradients to their owner */
    WALK_ADAM_HOST,   /* slot: fp16 chunk */
    WALK_ADAM_DEVICE, /* slot: fp16 chunk */
    WALK_ADAM_STORED, /* slot: fp16 chunk; on the host, its states come from a drive and go back */
};

struct walk_action {
    uint8_t kind;
    bool after;              /* the pass, else before it */
    bool prefetched;         /* not for the pass it stands before: that one does not wait */
    bool on_device;          /* Adam: where the fp16 chunk lies */
    bool gradient_on_device; /* Adam: where the gradient lies: the same, but with gradient_chunks */
    uint32_t slot, moment;
};

/* In the arena of walk_run. */
struct walk_result {
    struct walk_action *actions;
    uint32_t action_count;
    uint8_t *start_place; /* enum chunk_place by slot */
    uint32_t slot_count;
    uint32_t iterations; /* steady ones until the placement repeated */
    bool repeats;        /* false: it did not, and the last actions restore the start */
    double margin;       /* chunks */
    double start_bytes[PLACE_COUNT], peak_bytes[PLACE_COUNT]; /* of chunks, in the steady iteration */
    double up_bytes, down_bytes;                              /* moved, of the steady iteration, restoring included */
    struct chunk_moments moments;
    struct chunk_lack lack; /* of a walk that does not fit */
};

/* STATUS_DOES_NOT_FIT: budgets are too small for the chunks; the message and result->lack say where. */
enum status walk_run(const struct walk_input *input, struct walk_result *result, struct arena *arena,
                     struct error *error);

/* Slots. */
static inline uint32_t walk_slot_fp16(uint32_t chunk)
{
    return 2 * chunk;
}
enum walk_list { WALK_FP16, WALK_FP32, WALK_MOMENTUM, WALK_VARIANCE, WALK_GRADIENT };
uint32_t walk_slot(const struct chunk_layout *layout, enum walk_list list, uint32_t chunk);
/* The slot of a chunk's gradient; CHUNK_NONE: it has none of its own. */
uint32_t walk_gradient_slot(const struct walk_input *input, uint32_t chunk);
/* The list and the chunk (of the fp16 list) of a slot of `rank`. */
enum walk_list walk_slot_list(const struct chunk_layout *layout, uint32_t rank, uint32_t slot, uint32_t *chunk);
double walk_slot_bytes(const struct chunk_layout *layout, uint32_t slot);
/* What a payload of so many bytes takes of the host. */
double walk_host_bytes(const struct walk_input *input, double bytes);
const char *walk_list_word(enum walk_list list);

#endif
