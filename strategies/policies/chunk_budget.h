/* How many bytes of a device and of its host chunks may take, stage by stage, and what else PatrickStar computes from its measurements (core/memtracer.py).
 *
 * All bytes are of one rank. "Non-model data" are activations, temporaries and module gradients: measured by moment in the warm-up iteration, never managed. Presets: `code` is the repository's
 * arithmetic, quirks included (E.4: the backward reserves p * p chunks; non-model host bytes are divided by the local ranks twice); `paper` reserves p and divides once. */
#ifndef MEMWALL_STRATEGIES_CHUNK_BUDGET_H
#define MEMWALL_STRATEGIES_CHUNK_BUDGET_H

#include <stdbool.h>
#include <stdint.h>

enum chunk_preset { CHUNK_PAPER, CHUNK_CODE };
enum chunk_stage { STAGE_FORWARD, STAGE_BACKWARD, STAGE_ADAM };

/* The repository's fixed numbers. */
#define CHUNK_WARMUP_RATIO    0.1 /* of the GPU budget during warm-up passes; 0.2 without a configuration */
#define CHUNK_MARGIN_USE      0.8 /* of the margin that Adam on the device may take */
#define CHUNK_ADAM_FP32_BYTES 16  /* 4 buffers of 4 bytes an element kept free during Adam */

struct chunk_budget {
    double gpu_bytes, cpu_bytes; /* G and C: after their ratios; C is this rank's share */
    double warmup_ratio;
    double chunk_elements; /* S */
    uint32_t ranks, local_ranks;
    bool memory_saving;    /* one remote chunk at a time, not p */
    bool static_partition; /* the warm-up share in steady passes too */
    bool gradient_chunks;  /* own chunks' gradients have a list: as many bytes as the own fp16 chunks */
    enum chunk_preset preset;
    double max_host_bytes; /* non-model data on the host: the largest over the step */
};

/* `now`, `next`: non-model device bytes at moments t and t + 1. */
double chunk_device_budget(const struct chunk_budget *budget, enum chunk_stage stage, bool warmup, double now,
                           double next);
double chunk_host_budget(const struct chunk_budget *budget, enum chunk_stage stage, bool warmup);

/* Chunks of optimizer states that fit the device beside parameters and non-model data: chunk k = 1, 2, ... of the local list is updated on the device iff k < margin.
 * `fp16_chunks`: of the whole list, dummies included. May be negative. */
double chunk_margin(const struct chunk_budget *budget, uint32_t fp16_chunks, double max_device_bytes);

/* Bytes a rank moves over links in one step, for `parameters` in fp16 over p ranks with ring algorithms. */
double chunk_volume_gathered(double parameters,
                             uint32_t ranks); /* PatrickStar: two all-gathers, one reduce-scatter: 6 (p-1)/p M */
double chunk_volume_broadcast(double parameters,
                              uint32_t ranks); /* parameters by broadcasts (2 all-gathers each): 10 (p-1)/p M */
double chunk_volume_replicated(double parameters,
                               uint32_t ranks); /* data parallelism: all-reduce of gradients: 4 (p-1)/p M */

/* Bytes of model data, all devices together. */
#define CHUNK_BYTES_PATRICKSTAR                                                                                        \
    14 /* fp16 parameter (its slot holds the gradient later), fp32 parameter, momentum, variance */
#define CHUNK_BYTES_ZERO      16 /* ZeRO's account: 2 + 2 + 12 */
#define CHUNK_BYTES_DEEPSPEED 18 /* 2 + 4 (fp32 gradient) + 4 + 8, as its memory page counts */

#endif
