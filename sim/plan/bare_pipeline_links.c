/* What goes between the rows of a bare pipeline: channels over boundaries, links between rows, their messages and lanes. */
#include <stdio.h>

#include "sim/base/check.h"
#include "sim/plan/bare_pipeline_internal.h"

enum { FORWARD, BACKWARD, DIRECTION_COUNT };

static enum status no_memory(struct error *error)
{
    return error_set(error, STATUS_NO_MEMORY, "out of memory building a bare pipeline");
}

/* Whose pass of a virtual stage a micro-batch takes. */
static uint32_t row_at(const struct bare *bare, uint32_t virtual_stage, uint32_t micro_batch)
{
    uint32_t stage = bare->holder[virtual_stage];
    return bare->first_rows[stage] + micro_batch % order_replicas(bare->shape, stage);
}

static struct channel *channel_of(struct bare *bare, uint32_t boundary, int direction)
{
    CHECK(boundary < bare->virtual_count);
    return &bare->channels[(size_t)boundary * DIRECTION_COUNT + (size_t)direction];
}

struct channel *bare_channel_out(struct bare *bare, uint32_t stage, const struct order_step *step)
{
    uint32_t first, last, virtual_stage = order_virtual_stage(bare->order, bare->shape, stage, step->chunk);
    order_route(bare->order, bare->shape, step->micro_batch, &first, &last);
    if (step->kind == STEP_FORWARD && virtual_stage < last) {
        return channel_of(bare, virtual_stage, FORWARD);
    }
    if (step->kind == STEP_BACKWARD && virtual_stage > first) {
        return channel_of(bare, virtual_stage - 1, BACKWARD);
    }
    return NULL;
}

struct channel *bare_channel_in(struct bare *bare, uint32_t stage, const struct order_step *step)
{
    uint32_t first, last, virtual_stage = order_virtual_stage(bare->order, bare->shape, stage, step->chunk);
    order_route(bare->order, bare->shape, step->micro_batch, &first, &last);
    if (step->kind == STEP_FORWARD && virtual_stage > first) {
        return channel_of(bare, virtual_stage - 1, FORWARD);
    }
    if (step->kind == STEP_BACKWARD && virtual_stage < last) {
        return channel_of(bare, virtual_stage, BACKWARD);
    }
    return NULL;
}

/* The link between two rows, made at first use. A row has links to its few neighbours; those of one sender stand near the end of the list when they are looked for. */
static uint32_t link_between(struct bare *bare, uint32_t from, uint32_t to)
{
    for (uint32_t i = bare->link_count; i > 0 && bare->links[i - 1].from == from; i--) {
        if (bare->links[i - 1].to == to) {
            return i - 1;
        }
    }
    bare->links[bare->link_count] = (struct link){ .from = from, .to = to };
    return bare->link_count++;
}

/* The links of a row: to the rows that take the micro-batches of its steps. */
static void link_row(struct bare *bare, uint32_t row)
{
    for (uint32_t i = 0; i < bare->step_counts[row]; i++) {
        const struct order_step *step = &bare->steps[row][i];
        struct channel *channel = bare_channel_out(bare, bare->rows[row].stage, step);
        if (channel == NULL) {
            continue;
        }
        uint32_t v = order_virtual_stage(bare->order, bare->shape, bare->rows[row].stage, step->chunk);
        uint32_t to = row_at(bare, step->kind == STEP_FORWARD ? v + 1 : v - 1, step->micro_batch);
        channel->link[step->micro_batch] = to == row ? SCHED_NONE : link_between(bare, row, to);
    }
}

/* Most links that there can be: of each boundary, each way. */
static size_t links_max(const struct bare *bare)
{
    size_t most = 0;
    for (uint32_t v = 0; v + 1 < bare->virtual_count; v++) {
        most +=
            (size_t)2 * order_replicas(bare->shape, bare->holder[v]) * order_replicas(bare->shape, bare->holder[v + 1]);
    }
    return most;
}

enum status bare_build_links(struct bare *bare, struct error *error)
{
    uint32_t m = bare->shape->micro_batches, ends = bare->virtual_count * DIRECTION_COUNT;
    bare->holder = arena_array(&bare->arena, uint32_t, bare->virtual_count);
    bare->held_as = arena_array(&bare->arena, uint32_t, bare->virtual_count);
    if (bare->holder == NULL || bare->held_as == NULL) {
        return no_memory(error);
    }
    for (uint32_t s = 0; s < bare->shape->stages; s++) {
        for (uint32_t c = 0; c < bare->shape->virtual_stages; c++) {
            uint32_t v = order_virtual_stage(bare->order, bare->shape, s, c);
            bare->holder[v] = s;
            bare->held_as[v] = c;
        }
    }
    bare->channels = arena_array(&bare->arena, struct channel, ends);
    bare->links = arena_array(&bare->arena, struct link, links_max(bare));
    if (bare->channels == NULL || bare->links == NULL) {
        return no_memory(error);
    }
    for (uint32_t i = 0; i < ends; i++) {
        struct channel *channel = &bare->channels[i];
        channel->link = arena_array(&bare->arena, uint32_t, m);
        channel->message = arena_array(&bare->arena, uint32_t, m);
        if (channel->link == NULL || channel->message == NULL) {
            return no_memory(error);
        }
        for (uint32_t k = 0; k < m; k++) {
            channel->link[k] = channel->message[k] = SCHED_NONE;
        }
    }
    /* Sender by sender, so that link_between finds what it made. */
    for (uint32_t row = 0; row < bare->row_count; row++) {
        link_row(bare, row);
    }
    return STATUS_OK;
}

enum status bare_build_messages(struct bare *bare, struct error *error)
{
    uint32_t count = 0;
    for (uint32_t row = 0; row < bare->row_count; row++) {
        count += bare->step_counts[row];
    }
    bare->messages = arena_array(&bare->arena, struct message, count);
    if (bare->messages == NULL) {
        return no_memory(error);
    }
    for (int counting = 1; counting >= 0; counting--) {
        for (uint32_t row = 0; row < bare->row_count; row++) {
            uint32_t s = bare->rows[row].stage;
            for (uint32_t i = 0; i < bare->step_counts[row]; i++) {
                const struct order_step *step = &bare->steps[row][i];
                struct channel *channel = bare_channel_out(bare, s, step);
                if (channel == NULL || channel->link[step->micro_batch] == SCHED_NONE) {
                    continue;
                }
                struct link *link = &bare->links[channel->link[step->micro_batch]];
                uint32_t number = link->message_count++;
                if (!counting) {
                    uint32_t v = order_virtual_stage(bare->order, bare->shape, s, step->chunk);
                    uint32_t chunk = bare->held_as[step->kind == STEP_FORWARD ? v + 1 : v - 1];
                    channel->message[step->micro_batch] = number;
                    bare->messages[link->first_message + number] =
                        (struct message){ .match = builder_match(bare->builder, link->group, 2),
                                          .receive_op = SCHED_NONE,
                                          .micro_batch = (uint16_t)step->micro_batch,
                                          .chunk = (uint16_t)chunk };
                }
            }
        }
        for (uint32_t i = 0, first = 0; counting && i < bare->link_count; i++) {
            struct link *link = &bare->links[i];
            uint32_t pair[2] = { link->from, link->to };
            char label[48];
            snprintf(label, sizeof label, "stage %u>%u", link->from, link->to);
            link->group = builder_group(bare->builder, pair, 2, 1, label);
            link->first_message = first;
            first += link->message_count;
            link->message_count = 0;
        }
    }
    return STATUS_OK;
}

uint32_t bare_link_lanes(const struct bare *bare, const struct link *link)
{
    return bare->lanes < link->message_count ? bare->lanes : link->message_count;
}

enum status bare_check_lanes(const struct bare *bare, struct error *error)
{
    for (uint32_t row = 0; row < bare->row_count; row++) {
        uint32_t queues = 1, ends = 0;
        for (uint32_t i = 0; i < bare->link_count; i++) {
            const struct link *link = &bare->links[i];
            if (link->from == row || link->to == row) {
                queues += bare_link_lanes(bare, link);
                ends++;
            }
        }
        if (queues > SCHED_RANK_QUEUES_MAX) {
            uint32_t most = (SCHED_RANK_QUEUES_MAX - 1) / ends;
            double allowed = most * (double)bare->apart_ps / (double)BARE_UNIT_PS;
            return error_set(error, STATUS_LIMIT,
                             "hop is %g, so too many hops are under way at once: allowed with these passes is 0 to %g",
                             bare->request->hop, allowed);
        }
    }
    return STATUS_OK;
}
