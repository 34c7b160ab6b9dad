/* The plan: the declarative choice of how a model is split and where its memory lives. A scenario says it, a planner searches it, a person may edit it.
 *
 * Plain data; knows no time. `plan_print_json` writes it (schema "memwall.plan/1"), `plan_from_json` reads it back; the hash covers model, degrees and choices. */
#ifndef MEMWALL_PLAN_PLAN_H
#define MEMWALL_PLAN_PLAN_H

#include <stdbool.h>
#include <stdint.h>

#include "sim/base/arena.h"
#include "sim/base/hash.h"
#include "sim/base/json.h"
#include "sim/base/strbuf.h"
#include "sim/ir/kernel.h"
#include "sim/model/model.h"
#include "sim/plan/parameter.h"

struct order_table;
struct pipeline_order;

enum recompute_mode { RECOMPUTE_NONE, RECOMPUTE_SELECTIVE, RECOMPUTE_FULL, RECOMPUTE_MODE_COUNT };
enum plan_detail { DETAIL_OP, DETAIL_LAYER, DETAIL_STAGE };

/* What gradient reductions of stages wait for, and their updates (our three forms of the gradient hiding of Hippie, Ye et al., ICPP 2021). */
enum gradient_barrier {
    BARRIER_BEFORE, /* nobody reduces before the backwards of all stages have ended */
    BARRIER_AFTER, /* each stage reduces when its own have; all wait for the norm of all gradients before they update */
    BARRIER_NONE,  /* each reduces and updates for itself, and begins its next step: no norm over stages */
    BARRIER_COUNT
};

/* Which part of the micro-batches each of a stage's own replicas runs (sim/plan/plan_replicas.h). */
enum replica_sharing { SHARING_DEAL, SHARING_CUT, SHARING_COUNT };

enum { PLAN_WORD_BYTES = 64 };

/* How the devices of a stage split one layer; sim/plan/plan_layers.h says what follows from it. */
struct plan_layer {
    int64_t tensor,
        data; /* degrees: tensor * data == the plan's tensor * data; tensor 0: not given (only of plan.embedding and plan.head) */
    int64_t zero_stage;
    bool
        data_consecutive; /* false: tensor-parallel partners are consecutive ranks, data-parallel ones strided; true: the other way round */
};

struct plan {
    /* training */
    int64_t sequence_length, micro_batch, global_batch;
    enum dtype precision;
    /* degrees: tensor * context * pipeline * data == gpus (expert divides data). Where layers differ these are the defaults, and still say the devices of a stage (tensor * data) and the
     * samples of a micro-batch on them (micro_batch * data). */
    int64_t tensor, context, expert, pipeline, virtual_stages, data, zero_stage;
    bool sequence_parallel;
    enum gradient_barrier gradient_barrier; /* BARRIER_AFTER unless said otherwise */
    /* derived: global_batch / (data * micro_batch) */
    int64_t micro_batches;
    /* that a micro-batch skips a transformer layer (sim/plan/layer_drop.h) */
    double layer_drop;
    int64_t layer_drop_seed;
    char order[PLAN_WORD_BYTES];
    struct parameter_values order_parameters;
    /* Of steps of one's own (sim/plan/plan_order.h): as a table and as an order; else NULL. In the arena of the plan. */
    const struct order_table *own_table;
    const struct pipeline_order *own_order;
    /* boundaries: transformer layers of each virtual stage, in model order [pipeline * virtual_stages]; the embedding belongs to the first, the head to the last */
    int64_t *stage_layers;
    /* replicas of each stage [pipeline], and how they share its micro-batches; or NULL: `data` of every stage, each with micro-batches of its own. Then data and context are 1, and
     * micro_batches = global_batch / micro_batch */
    uint32_t *stage_replicas;
    enum replica_sharing replica_sharing;
    /* which block of tensor * context * data devices each stage takes [pipeline], or NULL: in order */
    int64_t *stage_places;
    /* tensors that leave their device, for policies that carry it out (sim/plan/plan_moves.h) [move_count], or NULL: not said */
    struct tensor_move *moves;
    uint32_t move_count;
    /* per transformer layer [model.layers] */
    uint8_t *recompute;
    /* per transformer layer [model.layers], or NULL: all are split as tensor, data and zero_stage say, tensor-parallel partners consecutive */
    struct plan_layer *layers;
    struct plan_layer embedding, head; /* tensor 0: as the first and the last layer (a tied head: as the embedding) */
    char policy[PLAN_WORD_BYTES];
    struct parameter_values policy_parameters;
    enum plan_detail detail;
    bool fold; /* equal ranks once */
};

/* Largest degrees and batches: far beyond any cluster, small enough that no product of them overflows. */
#define PLAN_DEGREE_MAX ((int64_t)1 << 20)
#define PLAN_BATCH_MAX  ((int64_t)1 << 31)

/* Everything that can be said of a plan for a model without knowing the machine: degrees divide heads, feed-forward, layers and batch; the order and the policy exist
 * and take their parameters; stages hold layers; the sequence is one the model has. STATUS_BAD_INPUT with the JSON path of the key ("$.parallel.tensor") that a scenario
 * and a plan share. */
enum status plan_check(const struct plan *plan, const struct model *model, struct error *error);

/* The part of it that speaks of stage_layers: every stage holds layers, all together those of the model. */
enum status plan_check_stages(const struct plan *plan, const struct model *model, struct error *error);

/* A degree that does not divide: refused with the nearest that do. */
enum status plan_refuse_divisor(const char *path, const char *what, int64_t degree, const char *whole_name,
                                int64_t whole, struct error *error);
/* The greatest common divisor of two numbers, each at least 1. */
int64_t plan_gcd(int64_t a, int64_t b);

/* Stages of the model that boundaries divide: pipeline * virtual_stages, of one model copy. */
int64_t plan_model_stages(const struct plan *plan);

/* Text for people and for files: the keys of a scenario with every default filled in, so that a plan can be pasted into a scenario. */
void plan_print_json(const struct plan *plan, const struct model *model, struct strbuf *out);
/* Arrays are allocated in `arena`. Absent keys take the defaults of a scenario (data: 1); ends with plan_check. A key "origin" is passed over: who made the file, for whom (strategies/planners/plan_answer.h). */
enum status plan_from_json(struct plan *plan, const struct model *model, const struct json *value, struct arena *arena,
                           struct error *error);

/* The same from an open document that also holds other keys (a scenario). `gpus` > 0: what the degrees must multiply to, and what the default of data comes from. */
enum status plan_read(struct plan *plan, const struct model *model, const struct json *root, int64_t gpus,
                      struct arena *arena, struct error *error);

/* Content hash of the choices, for caches and sweeps: equal text, equal hash. */
enum status plan_hash(const struct plan *plan, const struct model *model, struct hash *hash, struct error *error);

/* What a model is, whatever its name: models of one name may differ (inline objects). */
void plan_hash_model(const struct model *model, struct hash *hash);

const char *recompute_word(enum recompute_mode mode);
const char *gradient_barrier_word(enum gradient_barrier barrier);
const char *plan_detail_word(enum plan_detail detail);

#endif
