/* What Galvatron measures and its cost presets need: layers, the model around them, links (Galvatron-BMW, TKDE 2024, and its released code).
 *
 * Filled by galvatron_files.c from Galvatron's own JSON, or taken from the tables here (constants of the first version, with their source). Memory MiB, times ms, as its files have them.
 * Arrays by degree are indexed by its logarithm: [0] for 1, [3] for 8; 0 where nothing is known. */
#ifndef MEMWALL_STRATEGIES_PLANNERS_GALVATRON_PROFILE_H
#define MEMWALL_STRATEGIES_PLANNERS_GALVATRON_PROFILE_H

#include <stdbool.h>
#include <stdint.h>

#include "sim/base/status.h"
#include "strategies/planners/galvatron_space.h"

enum { GALVATRON_DEGREES = 13, GALVATRON_KINDS_MAX = 8, GALVATRON_NAME_BYTES = 64 };

/* A kind of layer. */
struct galvatron_layer_profile {
    char name[GALVATRON_NAME_BYTES];
    uint32_t count;                           /* such layers, one after the other */
    double parameter_mib;                     /* fp32, unsplit */
    double activation_mib[GALVATRON_DEGREES]; /* of a sample, by tensor degree */
    double recompute_mib;                     /* of a sample, of a recomputed layer; 0: cannot be recomputed */
    double forward_ms;                        /* of a sample, unsplit */
    uint32_t sequence, hidden;                /* tensor-parallel and stage-boundary messages: s * h values a sample */
    bool decoder;                             /* 6 all-reduces rather than 4, two thirds overlap (C.2) */
    double extra_ms;                          /* of strategies with data parallelism (T5 of v1: 60 ms / 24) */
};

/* Embedding, head and the like. */
struct galvatron_other_profile {
    double state_mib;      /* model states, unsplit */
    double activation_mib; /* of a sample */
};

/* How v1 chooses a micro-batch count (B.4). */
enum galvatron_micro_rule {
    GALVATRON_MICRO_SIZE, /* min(cap, ceil(samples of a device / size)): G2 */
    GALVATRON_MICRO_BERT,
    GALVATRON_MICRO_VIT,
    GALVATRON_MICRO_T5,
    GALVATRON_MICRO_SWIN,
};

struct galvatron_model_profile {
    char name[GALVATRON_NAME_BYTES];
    struct galvatron_layer_profile kinds[GALVATRON_KINDS_MAX];
    uint32_t kind_count;
    bool mixed;                                        /* bf16/fp16 messages, half as large; else fp32 */
    struct galvatron_other_profile other, first, last; /* without a pipeline; its first and last stage */
    double other_forward_ms;                           /* of a sample: embedding and head (C.5); 0: not known */
    enum galvatron_micro_rule micro_rule;
};

struct galvatron_hardware_profile {
    char name[GALVATRON_NAME_BYTES];
    uint32_t gpus;
    /* ms per MiB of bus volume of an all-reduce within groups: [log2 pipeline][log2 size][consecutive]. A group as large as the stage stands in both flags. */
    double all_reduce[GALVATRON_DEGREES][GALVATRON_DEGREES][2];
    double p2p[GALVATRON_DEGREES]; /* ms per MiB by log2 pipeline; 0: not charged */
    double overlap;                /* slowdown of both while computation and gradient reduction overlap */
};

/* The layers of all kinds. */
uint32_t galvatron_model_layers(const struct galvatron_model_profile *model);
/* Coefficient of a group, falling back to the same size at pipeline 1 where the file has only that (G2 files); 0 when missing. */
double galvatron_all_reduce_ms(const struct galvatron_hardware_profile *hardware, uint32_t pipeline, uint32_t size,
                               bool consecutive);

/* Tables of the first version's search on 8 x RTX TITAN: "bert-huge-32", "bert-huge-48", "vit-huge-32", "vit-huge-48", "t5-large-32", "t5-large-48", "swin-huge-32", "swin-huge-48". */
/* STATUS_NOT_FOUND names the nearest. */
enum status galvatron_table_model(const char *name, struct galvatron_model_profile *model, struct error *error);
/* "titan-rtx-8-galvatron": links as measured by the authors. */
void galvatron_table_titan(struct galvatron_hardware_profile *hardware);

/* Everything a search over `gpus` devices asks for is there? STATUS_BAD_INPUT names what is missing. */
enum status galvatron_check_profiles(const struct galvatron_model_profile *model,
                                     const struct galvatron_hardware_profile *hardware, struct error *error);

#endif
