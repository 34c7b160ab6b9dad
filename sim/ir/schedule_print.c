/* The canonical text of a schedule: one record a line, each numbered, in the order of the arrays; ops under their rank. */
#include <inttypes.h>

#include "sim/base/json_write.h"
#include "sim/ir/schedule_load.h"
#include "sim/ir/schedule_text.h"

static void print_real(struct strbuf *out, const char *key, double value)
{
    char text[32];
    strbuf_printf(out, " %s %s", key, text_real(value + 0.0, text, sizeof text)); /* -0 + 0 is 0 */
}

static void print_label(const struct schedule *s, uint32_t label, struct strbuf *out)
{
    strbuf_char(out, ' ');
    strbuf_json_string(out, sched_label(s, label));
    strbuf_char(out, '\n');
}

static void print_flags(enum vocabulary_of words, uint32_t flags, struct strbuf *out)
{
    for (size_t i = 0; flags >> i != 0; i++) {
        if ((flags >> i & 1u) != 0) {
            strbuf_printf(out, " %s", vocabulary(words).words[i]);
        }
    }
}

/* Numbers, runs of three and more as first..last. */
static void print_numbers(const uint32_t *items, uint32_t count, struct strbuf *out)
{
    for (uint32_t i = 0, run; i < count; i += run) {
        run = 1;
        while (run < count - i && items[i + run] == items[i] + run) {
            run++;
        }
        if (run >= 3) {
            strbuf_printf(out, " %" PRIu32 "..%" PRIu32, items[i], items[i + run - 1]);
        } else {
            strbuf_printf(out, " %" PRIu32, items[i]);
            run = 1;
        }
    }
}

static void print_places(const struct schedule *s, struct strbuf *out)
{
    strbuf_append(out, "\n# spaces: kind, number of the device or server\n");
    for (uint32_t i = 0; i < s->space_count; i++) {
        const struct sched_space *x = &s->spaces[i];
        strbuf_printf(out, "space s%" PRIu32 " %s %" PRIu32 " capacity ", i, space_kind_word((enum space_kind)x->kind),
                      x->location);
        if (x->capacity_bytes == UINT64_MAX) {
            strbuf_append(out, "unlimited");
        } else {
            strbuf_printf(out, "%" PRIu64, x->capacity_bytes);
        }
        if (x->parent != SCHED_NONE) {
            strbuf_printf(out, " parent s%" PRIu32, x->parent);
        }
        strbuf_append(out, x->exact_blocks ? " exact" : "");
        print_label(s, x->label, out);
    }
    strbuf_append(out, "\n# groups: devices, instance after instance\n");
    for (uint32_t i = 0; i < s->group_count; i++) {
        const struct sched_group *x = &s->groups[i];
        strbuf_printf(out, "group g%" PRIu32 " instances %" PRIu32 " members", i, x->instance_count);
        print_numbers(s->group_members + x->first_member, x->member_count * x->instance_count, out);
        print_label(s, x->label, out);
    }
}

static void print_kernel(const struct schedule *s, uint32_t index, struct strbuf *out)
{
    const struct kernel *k = &s->kernels[index];
    strbuf_printf(out, "kernel k%" PRIu32 " %s %s", index, kernel_class_word((enum kernel_class)k->kernel_class),
                  dtype_word((enum dtype)k->dtype));
    if (k->kernel_class == KERNEL_GEMM) {
        strbuf_printf(out, " %s", vocabulary(WORDS_LAYOUT).words[k->layout]);
    }
    strbuf_printf(out, " launches %" PRIu32 " batch %" PRIu64 " m %" PRIu64 " n %" PRIu64 " k %" PRIu64, k->launches,
                  k->batch, k->m, k->n, k->k);
    print_real(out, "flops", k->flops);
    print_real(out, "read", k->bytes_read);
    print_real(out, "written", k->bytes_written);
    print_flags(WORDS_KERNEL_FLAG, k->flags, out);
    strbuf_char(out, '\n');
}

static void print_work(const struct schedule *s, uint32_t index, struct strbuf *out)
{
    const struct sched_work *w = &s->works[index];
    strbuf_printf(out, "work w%" PRIu32 " %s", index, work_kind_word((enum work_kind)w->kind));
    switch ((enum work_kind)w->kind) {
    case WORK_KERNELS:
        for (uint32_t i = 0; i < w->item_count; i++) {
            const struct work_item *item = &s->work_items[w->first_item + i];
            if (item->kind != ITEM_KERNEL) {
                strbuf_printf(out, " %c%" PRIu32 "/%s", item->kind == ITEM_COLLECTIVE ? 'w' : 'b', item->index,
                              opcode_word((enum opcode)item->passes));
            } else if (item->passes != 0) {
                strbuf_printf(out, " k%" PRIu32 "/%u", item->index, item->passes);
            } else {
                strbuf_printf(out, " k%" PRIu32, item->index);
            }
        }
        break;
    case WORK_COLLECTIVE:
        strbuf_printf(out, " g%" PRIu32 " %s", w->group, dtype_word((enum dtype)w->dtype));
        print_real(out, "bytes", w->bytes);
        break;
    case WORK_TRANSFER:
        print_real(out, "bytes", w->bytes);
        strbuf_append(out, w->pageable != 0 ? " pageable" : "");
        break;
    case WORK_HOST_OPTIMIZER: print_real(out, "parameters", w->parameters); break;
    case WORK_FIXED: strbuf_printf(out, " ps %" PRId64, w->fixed_ps); break;
    case WORK_NONE:
    case WORK_KIND_COUNT: break;
    }
    strbuf_char(out, '\n');
}

static void print_works(const struct schedule *s, struct strbuf *out)
{
    strbuf_append(out, "\n# kernels: sizes, flops, bytes of all launches\n");
    for (uint32_t i = 0; i < s->kernel_count; i++) {
        print_kernel(s, i, out);
    }
    strbuf_append(out, "\n# works: kernels k/layer passes that begin there, collectives w/opcode, in turn\n");
    for (uint32_t i = 0; i < s->work_count; i++) {
        print_work(s, i, out);
    }
    strbuf_append(out, "\n# matches: ops that meet over a group\n");
    for (uint32_t i = 0; i < s->match_count; i++) {
        strbuf_printf(out, "match m%" PRIu32 " g%" PRIu32 " ops %" PRIu32 "\n", i, s->matches[i].group,
                      s->matches[i].op_count);
    }
}

static void print_buffers(const struct schedule *s, struct strbuf *out)
{
    strbuf_append(out, "\n# buffers\n");
    for (uint32_t i = 0; i < s->buffer_count; i++) {
        const struct sched_buffer *x = &s->buffers[i];
        strbuf_printf(out, "buffer b%" PRIu32 " s%" PRIu32 " %s bytes %" PRIu64, i, x->space,
                      buffer_class_word((enum buffer_class)x->buffer_class), x->bytes);
        if (x->copies != 1) {
            strbuf_printf(out, " copies %" PRIu32, x->copies);
        }
        print_flags(WORDS_BUFFER_FLAG, x->flags, out);
        print_label(s, x->label, out);
    }
}

static void print_list(struct strbuf *out, const char *word, const char *prefix, const uint32_t *items, uint32_t count)
{
    if (count != 0) {
        strbuf_printf(out, " %s", word);
        for (uint32_t i = 0; i < count; i++) {
            strbuf_printf(out, " %s%" PRIu32, prefix, items[i]);
        }
    }
}

static void print_tag(struct strbuf *out, const char *word, uint16_t tag)
{
    if (tag != OP_TAG_NONE) {
        strbuf_printf(out, " %s %u", word, tag);
    }
}

static void print_op(const struct schedule *s, uint32_t index, struct strbuf *out)
{
    const struct sched_op *op = &s->ops[index];
    strbuf_printf(out, "  op %" PRIu32 " q%" PRIu32 " %s %s", index, op->queue, opcode_word((enum opcode)op->opcode),
                  op_phase_word((enum op_phase)op->phase));
    if (op->work != SCHED_NONE) {
        strbuf_printf(out, " w%" PRIu32, op->work);
    }
    if (op->match != SCHED_NONE) {
        strbuf_printf(out, " m%" PRIu32, op->match);
    }
    print_tag(out, "mb", op->micro_batch);
    print_tag(out, "chunk", op->chunk);
    print_tag(out, "layer", op->layer);
    if (op->flags != 0) {
        strbuf_append(out, " flags");
        print_flags(WORDS_OP_FLAG, op->flags, out);
    }
    print_list(out, "acquire", "b", sched_acquires(s, op), op->acquire_count);
    print_list(out, "release", "b", sched_releases(s, op), op->release_count);
    print_list(out, "read", "b", sched_reads(s, op), op->read_count);
    print_list(out, "write", "b", sched_writes(s, op), op->write_count);
    print_list(out, "after", "", s->dependencies + op->first_dependency, op->dependency_count);
    strbuf_char(out, '\n');
}

void schedule_print_text(const struct schedule *schedule, struct strbuf *out)
{
    const struct schedule *s = schedule;
    strbuf_printf(out, "%s\nstep gpus %" PRIu32, SCHEDULE_SCHEMA, s->gpu_count);
    print_real(out, "model_flops", s->model_flops);
    print_real(out, "samples", s->samples);
    print_real(out, "tokens", s->tokens);
    strbuf_char(out, '\n');
    print_places(s, out);
    print_works(s, out);
    print_buffers(s, out);
    for (uint32_t r = 0, queue = 0; r < s->rank_count; r++) {
        const struct sched_rank *x = &s->ranks[r];
        strbuf_printf(out, "\nrank %" PRIu32 " devices", r);
        print_numbers(s->devices + x->first_device, x->device_count, out);
        if (x->stage != SCHED_NONE) {
            strbuf_printf(out, " stage %" PRIu32, x->stage);
        }
        print_label(s, x->label, out);
        for (; queue < s->queue_count && s->queues[queue].rank == r; queue++) {
            strbuf_printf(out, "  queue q%" PRIu32 " %s", queue,
                          queue_class_word((enum queue_class)s->queues[queue].queue_class));
            print_label(s, s->queues[queue].label, out);
        }
        for (uint32_t i = 0; i < x->op_count; i++) {
            print_op(s, x->first_op + i, out);
        }
    }
    strbuf_printf(out, "\nend %" PRIu32 " ops\n", s->op_count);
}
