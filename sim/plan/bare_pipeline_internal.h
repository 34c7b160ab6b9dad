/* A bare pipeline while it is built: between bare_pipeline.c (times, ranks), bare_pipeline_links.c (what goes between ranks) and bare_pipeline_bound.c (what no order beats). */
#ifndef MEMWALL_PLAN_BARE_PIPELINE_INTERNAL_H
#define MEMWALL_PLAN_BARE_PIPELINE_INTERNAL_H

#include "sim/ir/builder.h"
#include "sim/plan/bare_pipeline.h"

/* A device: a stage, or one of the replicas that its micro-batches are dealt to. */
struct row {
    uint32_t stage, replica;
};

/* One direction over the boundary between virtual stages `boundary` and `boundary + 1`. */
struct channel {
    uint32_t *message; /* [micro_batches]: which message of the link; SCHED_NONE: not sent */
    uint32_t *link;    /* [micro_batches]; SCHED_NONE: both ends are on the same stage */
};

/* All messages from one row to another, in the sender's order, on both sides. Receives wait for nothing but their message, so no order of chunks can block another. */
struct link {
    uint32_t from, to, first_message, message_count;
    uint32_t group;
    uint32_t received; /* messages taken so far */
};

struct message {
    uint32_t match, receive_op;
    uint16_t micro_batch, chunk; /* chunk: of the receiver */
};

/* Passes of a stage: durations of one chunk, and the works that stand for them. */
struct pass_times {
    int64_t ps[STEP_KIND_COUNT];
    uint32_t works[STEP_KIND_COUNT];
};

struct bare {
    const struct bare_pipeline_request *request;
    const struct pipeline_order *order;
    const struct order_request *shape;
    struct builder *builder;
    struct arena arena;
    uint32_t virtual_count; /* of all stages */
    struct row *rows;
    uint32_t row_count, *first_rows; /* first_rows: of each stage */
    uint32_t lanes;
    struct pass_times *passes; /* [stages] */
    int64_t hop_ps, apart_ps;
    uint32_t hop_work;
    struct order_step **steps; /* [row_count][step_counts[row]] */
    uint32_t *step_counts;
    struct channel *channels; /* [virtual_count][DIRECTION_COUNT] by lower boundary */
    uint32_t *holder;         /* stage of each virtual stage */
    uint32_t *held_as;        /* and which chunk it is there */
    struct link *links;
    uint32_t link_count;
    struct message *messages;
    uint32_t *send_queues, *receive_queues; /* [link_count][lanes] */
    /* of the rank being built, by chunk * micro_batches + micro_batch */
    uint32_t *forward_op, *backward_op, *activation;
};

/* Durations of a stage's passes through one chunk, backward whole where the order does not split it; and of a hop. The request has been checked. */
void bare_pass_times(const struct bare_pipeline_request *request, uint32_t stage, int64_t ps[STEP_KIND_COUNT]);
int64_t bare_hop_ps(const struct bare_pipeline_request *request);
/* Whether the stage repeats its forwards. */
bool bare_recomputes(const struct bare_pipeline_request *request, uint32_t stage);
/* holder, channels and links: which rows the boundaries join. Rows, steps and step counts are there. */
enum status bare_build_links(struct bare *bare, struct error *error);
/* The messages of every link, in the order in which its sender makes them. */
enum status bare_build_messages(struct bare *bare, struct error *error);
/* A rank may have only so many queues: STATUS_LIMIT says which hop would do. */
enum status bare_check_lanes(const struct bare *bare, struct error *error);
/* The channel by which a step sends its result, or NULL at the ends of the model; and that by which its input comes, or NULL. */
struct channel *bare_channel_out(struct bare *bare, uint32_t stage, const struct order_step *step);
struct channel *bare_channel_in(struct bare *bare, uint32_t stage, const struct order_step *step);
/* Queues that a link has on either side. */
uint32_t bare_link_lanes(const struct bare *bare, const struct link *link);

#endif
