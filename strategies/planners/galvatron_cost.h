/* Where a Galvatron search gets times and memories from: one struct of functions, so that the search knows no model.
 *
 * Three sources are built in, the presets v1, g2 and head (whose formulas are those of its releases); others (preset memwall) fill a struct galvatron_source of their own.
 *
 *     struct galvatron_preset preset;
 *     galvatron_preset_init(&preset, GALVATRON_V1, &model, &hardware);
 *     struct galvatron_source source;
 *     galvatron_preset_source(&preset, &source);   // borrows preset, model, hardware */
#ifndef MEMWALL_STRATEGIES_PLANNERS_GALVATRON_COST_H
#define MEMWALL_STRATEGIES_PLANNERS_GALVATRON_COST_H

#include <stdbool.h>
#include <stdint.h>

#include "strategies/planners/galvatron_profile.h"
#include "strategies/planners/galvatron_space.h"

/* What is the same for all layers while one partition is costed. */
struct galvatron_setting {
    uint32_t gpus, pipeline;
    double batch;           /* samples of an iteration, all devices */
    uint32_t micro_batches; /* m >= 1 */
    bool one_f_one_b;       /* else GPipe */
    bool recompute;         /* the space has recomputed strategies */
    bool zero2;             /* plain data parallelism is ZeRO-2; the presets have a switch of their own instead */
};

/* One layer under one strategy. */
struct galvatron_layer_cost {
    double state_mib; /* weights, gradients, optimizer */
    double
        activation_mib; /* kept for the backward pass, of a device's whole local batch; the search takes the live share of it (B.7) */
    double compute_s; /* C: one micro-batch, without gradient reduction */
    double full_s;    /* T: one micro-batch, with gradient reduction */
    double search_s;  /* what the dynamic programme sums; C and T unless the preset has its own rule (v1) */
};

/* Between neighbouring layers of one stage. */
struct galvatron_change {
    double search_s; /* in the dynamic programme, ordering bias included */
    double micro_s;  /* in C and T of the stage, of a micro-batch */
};

/* Pipeline formulas of C.4. */
#define GALVATRON_FORM_TABLE(X)                                                                                        \
    X(GALVATRON_FORM_V1, "v1", "sum over layers of v1's per-layer pipeline share")                                     \
    X(GALVATRON_FORM_G2, "g2", "(m-1+P) max C + max(0, max (T_i - sum of C up to i))")                                 \
    X(GALVATRON_FORM_SYNC, "sync", "sum T + (m-1) max C")                                                              \
    X(GALVATRON_FORM_HEAD, "head", "slowest of last-stage and first-stage chains, then the reduction tail of g2")
enum galvatron_form {
#define X(name, word, summary) name,
    GALVATRON_FORM_TABLE(X)
#undef X
        GALVATRON_FORM_COUNT
};

/* All borrowed. Functions are pure: same input, same answer, whatever the thread. */
struct galvatron_source {
    const char *name;
    const void *context;
    uint32_t gpus, layer_count;
    uint32_t kind_count;   /* <= GALVATRON_KINDS_MAX */
    const uint32_t *kinds; /* [layer_count] < kind_count: layers of one kind cost the same */
    enum galvatron_form form;
    bool
        shares; /* form v1: layer() gives shares of the step, as v1's own code has them; else the search makes them of C and T (galvatron_share_s) */
    void (*layer)(const void *context, uint32_t kind, const struct galvatron_strategy *strategy,
                  const struct galvatron_setting *setting, struct galvatron_layer_cost *cost);
    /* From the layer before, of strategy `from`, to a layer of `kind` and strategy `to`. */
    void (*change)(const void *context, uint32_t kind, const struct galvatron_strategy *from,
                   const struct galvatron_strategy *to, const struct galvatron_setting *setting,
                   struct galvatron_change *change);
    /* Context, embedding, head, transient peaks of stage `stage`; `first` is the first strategy of this pipeline degree. */
    double (*other_mib)(const void *context, uint32_t stage, const struct galvatron_strategy *first,
                        const struct galvatron_setting *setting);
    /* Micro-batches of `batch` samples over `pipeline` stages; 0: this batch can't be split so. */
    uint32_t (*micro_batches)(const void *context, double batch, uint32_t pipeline);
    /* Time of embedding and head added to C and T of a stage, one micro-batch; NULL: none. */
    double (*other_s)(const void *context, uint32_t stage, const struct galvatron_setting *setting);
};

#define GALVATRON_PRESET_TABLE(X)                                                                                      \
    X(GALVATRON_V1, "v1")                                                                                              \
    X(GALVATRON_G2, "g2")                                                                                              \
    X(GALVATRON_HEAD, "head")
enum galvatron_preset_kind {
#define X(name, word) name,
    GALVATRON_PRESET_TABLE(X)
#undef X
        GALVATRON_PRESET_COUNT
};

/* A preset and its switches; init sets them as the public code has them. */
struct galvatron_preset {
    enum galvatron_preset_kind kind;
    enum galvatron_form
        form; /* its own; v1 under another one charges C and T of micro-batches of `micro_size` samples, without its micro-batch rules by model */
    const struct galvatron_model_profile *model;
    const struct galvatron_hardware_profile *hardware;
    uint32_t *kinds;           /* [layers] */
    bool zero2;                /* plain DP is ZeRO-2 (g2, head) */
    bool async_reduce;         /* gradients are reduced once an iteration, beside the backward pass (g2) */
    double recompute_forward;  /* extra forward passes charged for a recomputed layer: 0.5 (g2), 1 (head) */
    double time_factor;        /* 1.1 (v1), 1 */
    double sharded_bias;       /* 0.025 (v1, 8 devices), 0.003 */
    double change_bias_s;      /* 1e-4 (v1), 1e-3 (g2) */
    double change_mib;         /* 2 MiB a sample whatever the model (v1, g2); 0: s * h (head) */
    double head_change_factor; /* seconds per byte and ms/MiB: 1e-7 as coded (head); 1e-9 is what units ask for */
    bool recompute_peak;       /* a stage pays one layer's whole activation when recomputation is allowed at all (g2) */
    uint32_t micro_size, micro_max; /* 4 and 8 */
};

/* STATUS_NO_MEMORY, or what galvatron_check_profiles refuses. */
enum status galvatron_preset_init(struct galvatron_preset *preset, enum galvatron_preset_kind kind,
                                  const struct galvatron_model_profile *model,
                                  const struct galvatron_hardware_profile *hardware, struct error *error);
void galvatron_preset_free(struct galvatron_preset *preset);
void galvatron_preset_source(const struct galvatron_preset *preset, struct galvatron_source *source);
const char *galvatron_preset_name(enum galvatron_preset_kind kind);

/* Step time, s, by formula `form` from C and T of the stages (C.4). For form v1 T is the stage's share of the step, and the answer their sum. */
double galvatron_pipeline_s(enum galvatron_form form, const double *compute_s, const double *full_s, uint32_t stages,
                            uint32_t micro_batches);
/* Formula 1 of C.4 from C and T: the layer's share of the step where its stage is one of `pipeline`, (P+m-1)/P C + (T - C). */
double galvatron_share_s(double compute_s, double full_s, const struct galvatron_setting *setting);
/* Share of a device's local batch whose activations stage `stage` of `pipeline` holds at its peak (B.7): 1 for GPipe. `samples` = batch / devices of a stage. */
double galvatron_live_share(const struct galvatron_setting *setting, uint32_t stage);

#endif
