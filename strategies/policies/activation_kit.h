/* What the activation policies share (vdnn, superneurons, capuchin, swapadvisor, dtr): a rank's step as a list of passes with estimated times, the bytes of saved activations over it, and the
 * copies that carry out what a policy has chosen.
 *
 * The unit is what one transformer layer saves for one micro-batch (a *saving*). Times are estimates for choosing alone: each pass its kernels alone, one after the other, no waiting; copies at
 * the rate of the way to the host when nobody else uses it. The schedule that comes out is timed by the executor like any other.
 *
 * The smallest policy of this kind (a plug-in includes this header behind <memwall.h>): every second layer goes to the host, and comes back in time by estimate.
 *
 *     static void begin(struct lowering *lowering)
 *     {
 *         struct activation_rank *rank = activation_begin(lowering);
 *         for (uint32_t i = 0; rank != NULL && i < rank->layer_count * rank->micro_batches; i++) {
 *             struct activation_saving *saving = &rank->savings[i];
 *             if (saving->bytes > 0 && saving->layer % 2 == 1) {
 *                 activation_move(rank, saving);
 *             }
 *         }
 *         if (rank != NULL) {
 *             activation_trigger_in_time(rank);
 *             activation_ready(lowering, rank);
 *         }
 *     }
 *     ... .begin_rank = begin, .before_pass = activation_before_pass, .after_pass = activation_after_pass, .streams = true */
#ifndef MEMWALL_STRATEGIES_POLICIES_ACTIVATION_KIT_H
#define MEMWALL_STRATEGIES_POLICIES_ACTIVATION_KIT_H

#include "sim/plan/policy.h"

struct activation_pass {
    uint32_t layer, micro_batch;
    enum lower_pass_kind kind;
    double start_s, end_s; /* estimated, from the start of the step */
};

/* A stripe of a saving that goes to other stages' devices. */
struct activation_stripe {
    uint32_t stage;
    double bytes;
    uint32_t peer, down, up; /* buffer and ops while lowering */
};

/* One saving. Between `forward` and `last` (indices of passes, both included) it is on the device, unless it moves: then up to `gone` (the pass during which it goes down ends its stay)
 * and from `trigger` (the pass at whose start it begins to come up) on. */
struct activation_saving {
    uint32_t layer, micro_batch;
    uint32_t forward, backward, last; /* `last`: its weight part where the order splits backwards, else `backward` */
    double bytes;                     /* 0: nothing to move (embedding, head, recomputed away) */
    bool moves;
    uint32_t gone, trigger;
    uint32_t gone_by;        /* compute waits after this pass until it has gone; SCHED_NONE: it never does */
    uint32_t host, down, up; /* buffer and ops while lowering; `up` of stripes: what begins them */
    struct activation_stripe *stripes;
    uint32_t stripe_count; /* 0: it goes to the host */
};

struct activation_rank {
    const struct lower_layer *layers;
    uint32_t layer_count, micro_batches;
    uint8_t *modes; /* [layer_count] enum recompute_mode, as chosen */
    struct activation_pass *passes;
    uint32_t pass_count, at;           /* `at`: the pass being lowered */
    struct activation_saving *savings; /* [layer_count * micro_batches]: layer-major */
    double *live_bytes;                /* [pass_count] of savings: activation_live fills it */
    double *down_free_s;               /* [pass_count] when the copies down of forwards up to it have ended */
    uint32_t *wait_for
        [2]; /* [pass_count] while lowering: the copies that the pass waits for, to the host and to other devices */
    double budget_bytes; /* that savings may take together at any pass */
    double down_bytes_per_s, up_bytes_per_s;
    /* Savings that come up at the start of a pass, in order of their backwards: due[due_first[pass]] .. due[due_first[pass + 1] - 1] (activation_ready) */
    struct activation_saving **due;
    uint32_t *due_first; /* [pass_count + 1] */
    bool waits;          /* compute waits for each copy down before it goes on */
    void *own;           /* of a policy that has more to remember */
};

/* The parameter of policies that choose by a budget, first in their table. */
enum { ACTIVATION_BUDGET };
#define ACTIVATION_BUDGET_PARAMETER                                                                                    \
    {                                                                                                                  \
        .name = "budget_gib", .type = PARAMETER_REAL, .unit = "GiB", .minimum = 0, .maximum = 1e6, .fallback = 0,      \
        .help = "device memory that the step may take, everything included; 0: all that the GPU has",                  \
    }

/* The rank's passes, savings and budget with these modes. False after an error (recorded in the lowering). */
bool activation_open(struct lowering *lowering, const uint8_t *modes, struct activation_rank *rank);
struct activation_saving *activation_saving_of(const struct activation_rank *rank, uint32_t layer,
                                               uint32_t micro_batch);
/* Bytes that recomputing `layer` in full saves of one micro-batch, and the seconds it repeats. */
double activation_recompute_bytes(const struct activation_rank *rank, uint32_t layer);
double activation_recompute_s(const struct lowering *lowering, const struct activation_rank *rank, uint32_t layer);
/* Fills live_bytes; returns the pass of the peak. O(savings + passes). */
uint32_t activation_live(struct activation_rank *rank);
/* Seconds that a copy of the saving's bytes takes down, up. */
double activation_down_s(const struct activation_rank *rank, const struct activation_saving *saving);
double activation_up_s(const struct activation_rank *rank, const struct activation_saving *saving);
/* `saving` moves: gone once its copy has ended by estimate, copies going down one at a time; comes up during the pass before its backward. O(passes). */
void activation_move(struct activation_rank *rank, struct activation_saving *saving);
/* The first pass at or after `from` whose savings exceed the budget; fills live_bytes. */
bool activation_over(struct activation_rank *rank, uint32_t from, uint32_t *pass);
/* Whether moving the saving would take it off the device at that pass. */
bool activation_frees(const struct activation_rank *rank, const struct activation_saving *saving, uint32_t pass);
/* Walks the passes; wherever the budget is exceeded, moves the saving that goes `rather` than the others: of those that are gone in time by estimate, else of all, and then compute waits for
 * it. Until the budget holds or nothing is left to move. */
void activation_evict(struct activation_rank *rank,
                      bool (*rather)(const struct activation_saving *a, const struct activation_saving *b));
/* Triggers of all that move, so that each copy ends in time by estimate, one copy up at a time. */
void activation_trigger_in_time(struct activation_rank *rank);
/* Triggers as early as the budget allows. */
void activation_trigger_at_once(struct activation_rank *rank);

/* begin_rank for all: the rank is put in the policy's state; the modes are those of the layers now. */
struct activation_rank *activation_begin(struct lowering *lowering);
/* Once all is chosen, before the first pass. An error is recorded in the lowering. */
void activation_ready(struct lowering *lowering, struct activation_rank *rank);
/* before_pass and after_pass for all. */
void activation_before_pass(struct lowering *lowering, const struct lower_pass *pass);
void activation_after_pass(struct lowering *lowering, const struct lower_pass *pass);

#endif
