/* What the ZeRO offload policies share: their options, and what is known of a rank's layers while it is lowered. For strategies/policies/zero_*.c alone.
 *
 * A step of a rank in a few flows, each in a file of its own:
 *   zero_fetch.c      weights up ahead of each pass (ZeRO-3), from host memory or drives
 *   zero_gradients.c  gradients down in buckets while earlier layers still run backward
 *   zero_checkpoint.c optionally, saved activations down and up again
 *   zero_update.c     Adam on the host's cores over what came down, new weights up
 * and zero_memory.c says where everything lives. Presets: `paper` is what the papers describe, `code` what DeepSpeed does (stage_1_and_2.py, stage3.py):
 *
 *                                   paper                      code
 *   gradient down, host copy        2 bytes a parameter        4: cast to fp32 on the device
 *   before Adam                     -                          a pass of the host over all gradients: unscale, clip
 *   new weights                     up tile by tile while      cast by the host into a pinned 16-bit copy when all are
 *                                   Adam goes on               updated, then up
 *   host memory while Adam runs     14                         28 in all (DeepSpeed issue 7693)
 *   pinned blocks                   as asked for               rounded up to powers of two (PyTorch) */
#ifndef MEMWALL_STRATEGIES_ZERO_OFFLOAD_STATE_H
#define MEMWALL_STRATEGIES_ZERO_OFFLOAD_STATE_H

#include "sim/plan/policy.h"

/* An issue of DeepSpeed measures 28 bytes of host memory a parameter in all of today's ZeRO-2 offload, 18 itemised as states, gradient and staging, 4 as the product of unscaling, the rest as the
 * Adam call's (DeepSpeed issue 7693). */
#define ZERO_SCRATCH_BYTES (28 - 18)

struct zero_options {
    bool code;                       /* preset */
    double sent_gradient_bytes;      /* of a parameter, of the final gradient on its way down and in host memory */
    double bucket_elements;          /* gradients leave when so many are ready */
    bool overlap_gradients;          /* backward goes on while a bucket leaves */
    bool tiled;                      /* new weights go up while Adam goes on */
    double tile_elements;            /* parameters of one update op; 0: all */
    double scratch_bytes;            /* host memory of a parameter while it is unscaled, clipped and updated (code) */
    double scratch_elements;         /* clipped and updated at once, with temporaries; 0: all */
    bool delayed;                    /* one-step delayed update */
    double cpu_ratio;                /* of the parameters updated on the host; the rest on the device (Twin-Flow) */
    bool rounds_pinned;              /* page-locked blocks take powers of two */
    double initialise_bytes;         /* of a parameter of the whole model, on each rank, before the states exist */
    bool initialised_on_device;      /* the rank's 16-bit share stands on the device before the step begins */
    bool checkpoints_on_host;        /* saved activations of layers wait for their backward there */
    enum space_kind states, weights; /* where optimizer states and weights live */
    enum space_kind gradients;       /* of host memory that takes them: SPACE_PINNED, or pageable SPACE_HOST */
    double uploaded_bytes;           /* of a parameter's new weight on its way up: 2, or 4 and cast on the device */
    bool
        casts_in_pages; /* new 16-bit weights that live on the device pass through pageable memory, tile_elements at a time; else through a page-locked copy of all */
    /* fetching weights (ZeRO-3) */
    double prefetch_elements, persistent_elements, live_elements, reuse_elements;
    /* drives */
    double weight_stage_elements; /* of one staging buffer */
    uint32_t weight_stages;
    bool pipeline_read, pipeline_write; /* states of the next sub-group are read, of the last written, beside Adam */
};

struct zero_layer {
    bool on_device;    /* updated there (Twin-Flow) */
    double persistent; /* elements that stay on every device */
    uint32_t gradient; /* device buffer of the gradient on its way, or SCHED_NONE */
    uint32_t arrival;  /* the latest copy of its gradient to the host, or SCHED_NONE */
    uint32_t weights;  /* fetched weights on the device: of the pass that runs, or kept for the next; SCHED_NONE */
};

/* Layers whose gradients leave together. */
struct zero_bucket {
    uint32_t *layers, count; /* indices */
    double elements;
    uint32_t after_op; /* the op that makes or reduces the last of them */
};

enum { ZERO_PASS_ENDS = 64, ZERO_STAGES_MAX = 64 };

struct zero_state {
    struct zero_options options;
    struct zero_layer *layers; /* [layers of the rank] */
    uint32_t layer_count;
    double held_on_host;                       /* bytes that live there all step long, drives apart */
    double host_parameters, device_parameters; /* owned, by where they are updated */
    bool begun;
    /* gradients */
    struct zero_bucket bucket;
    uint32_t *made, made_count; /* layers of an earlier micro-batch whose reduction is not seen yet */
    uint32_t seen_data_op;
    bool last_micro_batch; /* of the latest pass that made gradients */
    uint32_t last_down;    /* latest copy down, or SCHED_NONE */
    uint32_t flat_buckets; /* of this backward, or SCHED_NONE */
    /* fetching */
    uint32_t pass_ends[ZERO_PASS_ENDS]; /* newest first */
    double pass_elements[ZERO_PASS_ENDS], kept_elements;
    uint32_t stages[ZERO_STAGES_MAX], next_stage; /* the copy up that empties each staging buffer for weights */
    uint32_t read_queue, write_queue;             /* of drives; SCHED_NONE until used */
    /* activations: by layer and micro-batch */
    struct zero_checkpoint {
        uint32_t host, down;
    } * checkpoints;
    uint32_t last_checkpoint; /* latest copy down, or SCHED_NONE */
    uint32_t compute_ends[2]; /* of the latest passes, newest first */
    /* update */
    uint32_t last_update, last_upload;
    uint32_t new_weights, persistent_weights; /* buffers that uploads read and write, or SCHED_NONE */
};

static inline struct zero_state *zero_state_of(struct lowering *lowering)
{
    return *lower_policy_state(lowering);
}

/* Whether weights are sharded and fetched, the optimizer's states are on drives. */
static inline bool zero_fetches(const struct zero_options *options)
{
    return options->weights != SPACE_DEVICE;
}
static inline bool zero_states_on_drives(const struct zero_options *options)
{
    return options->states == SPACE_STORAGE;
}
/* New weights come up as fp32. */
static inline bool zero_casts_on_device(const struct zero_options *options)
{
    return options->uploaded_bytes > 2;
}
/* Gradients of a pass leave the device, each micro-batch anew. Under ZeRO-1 with several devices they are summed there. */
bool zero_gradients_leave(struct lowering *lowering);
/* A pass that makes gradients: the whole backward, or its weight part. */
bool zero_makes_gradients(const struct lowering *lowering, const struct lower_pass *pass);

/* zero_memory.c */
void zero_begin_rank(struct lowering *lowering, const struct zero_options *options);
enum space_kind zero_place(struct lowering *lowering, const struct zero_options *options,
                           const struct lower_layer *layer, enum buffer_class buffer_class);
/* The host goes over `bytes` of its memory. */
uint32_t zero_host_pass(struct lowering *lowering, double bytes, uint32_t after_op);
/* A transfer between drives and host memory, on a queue of its direction; `acquire` and `release` as the kit's copies. */
uint32_t zero_drive_transfer(struct lowering *lowering, bool read, double bytes, uint32_t after_op, uint32_t acquire,
                             uint32_t release);

/* zero_fetch.c */
void zero_fetch_before_pass(struct lowering *lowering, const struct lower_pass *pass);
void zero_fetch_after_pass(struct lowering *lowering, const struct lower_pass *pass);

/* zero_checkpoint.c */
void zero_checkpoint_before_pass(struct lowering *lowering, const struct lower_pass *pass);
void zero_checkpoint_after_pass(struct lowering *lowering, const struct lower_pass *pass);

/* zero_gradients.c */
void zero_gradients_before_pass(struct lowering *lowering, const struct lower_pass *pass);
void zero_gradients_after_pass(struct lowering *lowering, const struct lower_pass *pass);
void zero_gradient_ready(struct lowering *lowering, const struct lower_layer *layer, uint32_t after_op);
void zero_gradients_flush(struct lowering *lowering);

/* zero_update.c */
void zero_update_begin(struct lowering *lowering); /* the delayed update of the step before */
/* DeepSpeed's delayed update: the layers' new weights go up once their gradients came down by `down`. */
void zero_update_upload(struct lowering *lowering, double parameters, uint32_t down);
uint32_t zero_update(struct lowering *lowering, uint32_t after_op);

#endif
