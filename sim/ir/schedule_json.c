/* Writing the JSON form: an object of arrays in the order of the text form; what has its default is not written. */
#include "sim/base/json_write.h"
#include "sim/ir/schedule_load.h"
#include "sim/ir/schedule_text.h"

/* One record a line. */
static void record_begin(struct json_writer *w)
{
    jw_object(w, NULL);
    w->compact = true;
}

static void record_end(struct json_writer *w)
{
    jw_end(w);
    w->compact = false;
}

static void write_numbers(struct json_writer *w, const char *key, const uint32_t *items, uint32_t count)
{
    bool compact = w->compact;
    jw_array(w, key);
    w->compact = true;
    for (uint32_t i = 0; i < count; i++) {
        jw_uint(w, NULL, items[i]);
    }
    jw_end(w);
    w->compact = compact;
}

static void write_flags(struct json_writer *w, enum vocabulary_of words, uint32_t flags)
{
    if (flags != 0) {
        jw_array(w, "flags");
        for (size_t i = 0; flags >> i != 0; i++) {
            if ((flags >> i & 1u) != 0) {
                jw_string(w, NULL, vocabulary(words).words[i]);
            }
        }
        jw_end(w);
    }
}

static void write_places(struct json_writer *w, const struct schedule *s)
{
    jw_array(w, "spaces");
    for (uint32_t i = 0; i < s->space_count; i++) {
        const struct sched_space *x = &s->spaces[i];
        record_begin(w);
        jw_string(w, "kind", space_kind_word((enum space_kind)x->kind));
        jw_uint(w, "location", x->location);
        if (x->capacity_bytes != UINT64_MAX) {
            jw_uint(w, "capacity_bytes", x->capacity_bytes);
        }
        if (x->parent != SCHED_NONE) {
            jw_uint(w, "parent", x->parent);
        }
        if (x->exact_blocks) {
            jw_bool(w, "exact_blocks", true);
        }
        jw_string(w, "label", sched_label(s, x->label));
        record_end(w);
    }
    jw_end(w);
    jw_array(w, "groups");
    for (uint32_t i = 0; i < s->group_count; i++) {
        const struct sched_group *x = &s->groups[i];
        record_begin(w);
        jw_uint(w, "instances", x->instance_count);
        write_numbers(w, "members", s->group_members + x->first_member, x->member_count * x->instance_count);
        jw_string(w, "label", sched_label(s, x->label));
        record_end(w);
    }
    jw_end(w);
}

static void write_kernels(struct json_writer *w, const struct schedule *s)
{
    jw_array(w, "kernels");
    for (uint32_t i = 0; i < s->kernel_count; i++) {
        const struct kernel *k = &s->kernels[i];
        record_begin(w);
        jw_string(w, "class", kernel_class_word((enum kernel_class)k->kernel_class));
        jw_string(w, "dtype", dtype_word((enum dtype)k->dtype));
        if (k->kernel_class == KERNEL_GEMM) {
            jw_string(w, "layout", vocabulary(WORDS_LAYOUT).words[k->layout]);
        }
        jw_uint(w, "launches", k->launches);
        jw_uint(w, "batch", k->batch);
        jw_uint(w, "m", k->m);
        jw_uint(w, "n", k->n);
        jw_uint(w, "k", k->k);
        jw_real(w, "flops", k->flops + 0.0); /* -0 + 0 is 0 */
        jw_real(w, "bytes_read", k->bytes_read + 0.0);
        jw_real(w, "bytes_written", k->bytes_written + 0.0);
        write_flags(w, WORDS_KERNEL_FLAG, k->flags);
        record_end(w);
    }
    jw_end(w);
}

static void write_work(struct json_writer *w, const struct schedule *s, const struct sched_work *x)
{
    record_begin(w);
    jw_string(w, "kind", work_kind_word((enum work_kind)x->kind));
    switch ((enum work_kind)x->kind) {
    case WORK_KERNELS:
        jw_array(w, "items");
        for (uint32_t i = 0; i < x->item_count; i++) {
            const struct work_item *item = &s->work_items[x->first_item + i];
            jw_object(w, NULL);
            jw_uint(w, item->kind == ITEM_KERNEL ? "kernel" : "collective", item->index);
            if (item->kind != ITEM_KERNEL) {
                jw_string(w, "op", opcode_word((enum opcode)item->passes));
                if (item->kind == ITEM_COLLECTIVE_BESIDE) {
                    jw_bool(w, "beside", true);
                }
            } else if (item->passes != 0) {
                jw_uint(w, "passes", item->passes);
            }
            jw_end(w);
        }
        jw_end(w);
        break;
    case WORK_COLLECTIVE:
        jw_uint(w, "group", x->group);
        jw_string(w, "dtype", dtype_word((enum dtype)x->dtype));
        jw_real(w, "bytes", x->bytes + 0.0);
        break;
    case WORK_TRANSFER:
        jw_real(w, "bytes", x->bytes + 0.0);
        if (x->pageable != 0) {
            jw_bool(w, "pageable", true);
        }
        break;
    case WORK_HOST_OPTIMIZER: jw_real(w, "parameters", x->parameters + 0.0); break;
    case WORK_FIXED: jw_int(w, "fixed_ps", x->fixed_ps); break;
    case WORK_NONE:
    case WORK_KIND_COUNT: break;
    }
    record_end(w);
}

static void write_buffers(struct json_writer *w, const struct schedule *s)
{
    jw_array(w, "matches");
    for (uint32_t i = 0; i < s->match_count; i++) {
        record_begin(w);
        jw_uint(w, "group", s->matches[i].group);
        jw_uint(w, "op_count", s->matches[i].op_count);
        record_end(w);
    }
    jw_end(w);
    jw_array(w, "buffers");
    for (uint32_t i = 0; i < s->buffer_count; i++) {
        const struct sched_buffer *x = &s->buffers[i];
        record_begin(w);
        jw_uint(w, "space", x->space);
        jw_string(w, "class", buffer_class_word((enum buffer_class)x->buffer_class));
        jw_uint(w, "bytes", x->bytes);
        if (x->copies != 1) {
            jw_uint(w, "copies", x->copies);
        }
        write_flags(w, WORDS_BUFFER_FLAG, x->flags);
        jw_string(w, "label", sched_label(s, x->label));
        record_end(w);
    }
    jw_end(w);
}

static void write_tag(struct json_writer *w, const char *key, uint16_t tag)
{
    if (tag != OP_TAG_NONE) {
        jw_uint(w, key, tag);
    }
}

static void write_op(struct json_writer *w, const struct schedule *s, const struct sched_op *op)
{
    const uint32_t *lists[LIST_COUNT] = { sched_acquires(s, op), sched_releases(s, op), sched_reads(s, op),
                                          sched_writes(s, op), s->dependencies + op->first_dependency };
    const uint32_t counts[LIST_COUNT] = { op->acquire_count, op->release_count, op->read_count, op->write_count,
                                          op->dependency_count };
    record_begin(w);
    jw_string(w, "op", opcode_word((enum opcode)op->opcode));
    jw_uint(w, "queue", op->queue);
    jw_string(w, "phase", op_phase_word((enum op_phase)op->phase));
    if (op->work != SCHED_NONE) {
        jw_uint(w, "work", op->work);
    }
    if (op->match != SCHED_NONE) {
        jw_uint(w, "match", op->match);
    }
    write_tag(w, "micro_batch", op->micro_batch);
    write_tag(w, "chunk", op->chunk);
    write_tag(w, "layer", op->layer);
    write_flags(w, WORDS_OP_FLAG, op->flags);
    for (unsigned i = 0; i < LIST_COUNT; i++) {
        if (counts[i] != 0) {
            write_numbers(w, operand_list_key((enum operand_list)i), lists[i], counts[i]);
        }
    }
    record_end(w);
}

static void write_ranks(struct json_writer *w, const struct schedule *s)
{
    jw_array(w, "ranks");
    for (uint32_t r = 0, queue = 0; r < s->rank_count; r++) {
        const struct sched_rank *x = &s->ranks[r];
        jw_object(w, NULL);
        jw_string(w, "label", sched_label(s, x->label));
        if (x->stage != SCHED_NONE) {
            jw_uint(w, "stage", x->stage);
        }
        write_numbers(w, "devices", s->devices + x->first_device, x->device_count);
        jw_array(w, "queues");
        for (; queue < s->queue_count && s->queues[queue].rank == r; queue++) {
            record_begin(w);
            jw_string(w, "class", queue_class_word((enum queue_class)s->queues[queue].queue_class));
            jw_string(w, "label", sched_label(s, s->queues[queue].label));
            record_end(w);
        }
        jw_end(w);
        jw_array(w, "ops");
        for (uint32_t i = 0; i < x->op_count; i++) {
            write_op(w, s, &s->ops[x->first_op + i]);
        }
        jw_end(w);
        jw_end(w);
    }
    jw_end(w);
}

void schedule_print_json(const struct schedule *schedule, struct strbuf *out)
{
    struct json_writer w = { .out = out };
    jw_object(&w, NULL);
    jw_string(&w, "schema", SCHEDULE_SCHEMA);
    jw_uint(&w, "gpu_count", schedule->gpu_count);
    jw_real(&w, "model_flops", schedule->model_flops + 0.0);
    jw_real(&w, "samples", schedule->samples + 0.0);
    jw_real(&w, "tokens", schedule->tokens + 0.0);
    write_places(&w, schedule);
    write_kernels(&w, schedule);
    jw_array(&w, "works");
    for (uint32_t i = 0; i < schedule->work_count; i++) {
        write_work(&w, schedule, &schedule->works[i]);
    }
    jw_end(&w);
    write_buffers(&w, schedule);
    write_ranks(&w, schedule);
    jw_end(&w);
    strbuf_char(out, '\n');
}
