/* Kernels and works: ranges, canonical fields, and that each of them and each group stands once. */
#include <stdlib.h>
#include <string.h>

#include "sim/ir/builder_table.h"
#include "sim/ir/mix.h"
#include "sim/ir/verify_internal.h"

#define BAD(v, ...) error_set((v)->error, STATUS_BAD_SCHEDULE, __VA_ARGS__)

static enum status check_kernels(struct verifier *v)
{
    const struct schedule *s = v->s;
    for (uint32_t i = 0; i < s->kernel_count; i++) {
        const struct kernel *k = &s->kernels[i];
        if (k->kernel_class >= KERNEL_CLASS_COUNT || k->dtype >= DTYPE_COUNT || k->layout > GEMM_NT ||
            (k->layout != 0 && k->kernel_class != KERNEL_GEMM) ||
            (k->flags & ~(KERNEL_FLAG_CAUSAL | KERNEL_FLAG_ACCUMULATE)) != 0) {
            return BAD(v, "kernel %u: its class, dtype, layout or flags are out of range", i);
        }
        if (k->launches == 0 || k->batch > SCHED_INTEGER_MAX || k->m > SCHED_INTEGER_MAX || k->n > SCHED_INTEGER_MAX ||
            k->k > SCHED_INTEGER_MAX || !verify_quantity(k->flops) || !verify_quantity(k->bytes_read) ||
            !verify_quantity(k->bytes_written)) {
            return BAD(
                v, "kernel %u: launches start at 1, sizes end below 2^53, quantities are finite and not negative", i);
        }
    }
    return STATUS_OK;
}

static enum status check_items(struct verifier *v, uint32_t index)
{
    const struct schedule *s = v->s;
    const struct sched_work *w = &s->works[index];
    for (uint32_t i = 0; i < w->item_count; i++) {
        const struct work_item *item = &s->work_items[w->first_item + i];
        bool collective = item->kind == ITEM_COLLECTIVE || item->kind == ITEM_COLLECTIVE_BESIDE;
        bool right = item->kind == ITEM_KERNEL
                         ? item->index < s->kernel_count
                         : collective && item->index < index && s->works[item->index].kind == WORK_COLLECTIVE &&
                               item->passes < OPCODE_COUNT && opcode_match((enum opcode)item->passes) == MATCH_GROUP;
        if (item->kind == ITEM_COLLECTIVE_BESIDE) {
            right = right && i + 1 < w->item_count && item[1].kind == ITEM_KERNEL;
        }
        if (!right) {
            return BAD(v,
                       "work %u: item %u must be a kernel, or a collective work before it with its opcode (beside: a "
                       "kernel follows)",
                       index, i);
        }
    }
    return STATUS_OK;
}

/* Fields that its kind does not use are zero, so that equal works are equal bytes. */
static bool work_is_canonical(const struct sched_work *w)
{
    struct sched_work plain = { .kind = w->kind, .group = SCHED_NONE };
    switch ((enum work_kind)w->kind) {
    case WORK_KERNELS:
        plain.first_item = w->first_item;
        plain.item_count = w->item_count;
        break;
    case WORK_COLLECTIVE:
        plain.group = w->group;
        plain.dtype = w->dtype;
        plain.bytes = w->bytes;
        break;
    case WORK_TRANSFER:
        plain.pageable = w->pageable;
        plain.bytes = w->bytes;
        break;
    case WORK_HOST_OPTIMIZER: plain.parameters = w->parameters; break;
    case WORK_FIXED: plain.fixed_ps = w->fixed_ps; break;
    case WORK_NONE:
    case WORK_KIND_COUNT: return false;
    }
    return memcmp(&plain, w, sizeof plain) == 0;
}

static enum status check_works(struct verifier *v)
{
    const struct schedule *s = v->s;
    uint32_t items = 0;
    for (uint32_t i = 0; i < s->work_count; i++) {
        const struct sched_work *w = &s->works[i];
        if (w->kind == WORK_NONE || w->kind >= WORK_KIND_COUNT || !work_is_canonical(w)) {
            return BAD(v, "work %u: its kind is out of range, or it sets a field of another kind", i);
        }
        if (w->dtype >= DTYPE_COUNT || w->pageable > 1 || !verify_quantity(w->bytes) ||
            !verify_quantity(w->parameters) || w->fixed_ps < 0 || (uint64_t)w->fixed_ps > SCHED_INTEGER_MAX ||
            (w->kind == WORK_COLLECTIVE && w->group >= s->group_count)) {
            return BAD(v, "work %u (%s): its group, dtype or quantities are out of range", i,
                       work_kind_word((enum work_kind)w->kind));
        }
        if (w->item_count == 0 ? w->first_item != 0
                               : w->first_item != items || w->item_count > s->work_item_count - items) {
            return BAD(v, "work %u: its items must follow those of the work before", i);
        }
        items += w->item_count;
        TRY(check_items(v, i));
    }
    return items == s->work_item_count ? STATUS_OK : BAD(v, "work items that no work holds");
}

/* -- each stands once -- */

static bool same_kernel(const struct schedule *s, uint32_t a, uint32_t b)
{
    return memcmp(&s->kernels[a], &s->kernels[b], sizeof *s->kernels) == 0;
}

static bool same_work(const struct schedule *s, uint32_t a, uint32_t b)
{
    struct sched_work x = s->works[a], y = s->works[b];
    const struct work_item *x_items = s->work_items + x.first_item, *y_items = s->work_items + y.first_item;
    x.first_item = y.first_item = 0;
    return memcmp(&x, &y, sizeof x) == 0 && memcmp(x_items, y_items, x.item_count * sizeof *x_items) == 0;
}

static uint64_t work_hash(const struct schedule *s, uint32_t index)
{
    struct sched_work w = s->works[index];
    uint64_t items = mix_bytes(s->work_items + w.first_item, w.item_count * sizeof *s->work_items);
    w.first_item = 0;
    return items + mix_bytes(&w, sizeof w);
}

static bool same_group(const struct schedule *s, uint32_t a, uint32_t b)
{
    const struct sched_group *x = &s->groups[a], *y = &s->groups[b];
    size_t bytes = (size_t)x->member_count * x->instance_count * sizeof(uint32_t);
    return x->member_count == y->member_count && x->instance_count == y->instance_count &&
           strcmp(sched_label(s, x->label), sched_label(s, y->label)) == 0 &&
           memcmp(s->group_members + x->first_member, s->group_members + y->first_member, bytes) == 0;
}

static uint64_t group_hash(const struct schedule *s, uint32_t index)
{
    const struct sched_group *x = &s->groups[index];
    return mix_bytes(s->group_members + x->first_member,
                     (size_t)x->member_count * x->instance_count * sizeof(uint32_t)) +
           x->instance_count;
}

static uint64_t kernel_hash(const struct schedule *s, uint32_t index)
{
    return mix_bytes(&s->kernels[index], sizeof *s->kernels);
}

static enum status check_once(struct verifier *v, const char *what, uint32_t count,
                              uint64_t (*hash_of)(const struct schedule *s, uint32_t index),
                              bool (*same)(const struct schedule *s, uint32_t a, uint32_t b))
{
    struct builder_table table = { 0 };
    enum status status = STATUS_OK;
    for (uint32_t i = 0; i < count && status == STATUS_OK; i++) {
        if (!builder_table_reserve(&table)) {
            status = error_set(v->error, STATUS_NO_MEMORY, "out of memory: verifying %u %ss", count, what);
            break;
        }
        uint64_t hash = hash_of(v->s, i);
        uint32_t at = UINT32_MAX, index = 0;
        while (status == STATUS_OK && builder_table_next(&table, hash, &at, &index)) {
            if (same(v->s, index, i)) {
                status = BAD(v, "%s %u equals %s %u; each stands once", what, i, what, index);
            }
        }
        if (status == STATUS_OK) {
            builder_table_put(&table, hash, at, i);
        }
    }
    free(table.slots);
    return status;
}

enum status verify_works(struct verifier *v)
{
    TRY(check_kernels(v));
    return check_works(v);
}

enum status verify_each_once(struct verifier *v)
{
    TRY(check_once(v, "kernel", v->s->kernel_count, kernel_hash, same_kernel));
    TRY(check_once(v, "work", v->s->work_count, work_hash, same_work));
    return check_once(v, "group", v->s->group_count, group_hash, same_group);
}
