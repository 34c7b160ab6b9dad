/* Variants by name: their rules, and which searches a request stands for. */
#include <stdio.h>
#include <string.h>

#include "sim/base/check.h"
#include "sim/base/json.h"
#include "strategies/planners/galvatron_internal.h"

static const char *const VARIANT_NAMES[] = {
#define X(name, word, summary) word,
    GALVATRON_VARIANT_TABLE(X)
#undef X
};

const char *galvatron_variant_name(enum galvatron_variant variant)
{
    CHECK(variant < GALVATRON_VARIANT_COUNT);
    return VARIANT_NAMES[variant];
}

enum status galvatron_variant_find(const char *name, enum galvatron_variant *variant, struct error *error)
{
    for (uint32_t i = 0; i < GALVATRON_VARIANT_COUNT; i++) {
        if (strcmp(name, VARIANT_NAMES[i]) == 0) {
            *variant = (enum galvatron_variant)i;
            return STATUS_OK;
        }
    }
    const char *near = nearest_word(name, VARIANT_NAMES, GALVATRON_VARIANT_COUNT);
    return error_set(error, STATUS_NOT_FOUND,
                     "unknown variant \"%s\"%s%s%s; known: galvatron, galvatron-base, 1f1b-biobj, galvatron-bmw", name,
                     near != NULL ? " (did you mean \"" : "", near != NULL ? near : "", near != NULL ? "\"?)" : "");
}

static void set_variant(struct galvatron_request *request, enum galvatron_variant variant)
{
    bool balanced = variant == GALVATRON_VARIANT_BIOBJ || variant == GALVATRON_VARIANT_BMW;
    request->recompute = variant == GALVATRON_VARIANT_BASE || variant == GALVATRON_VARIANT_BMW;
    request->one_f_one_b = balanced;
    request->partition = balanced ? GALVATRON_PARTITION_BIOBJECTIVE : GALVATRON_PARTITION_V1;
    request->include_variants = variant == GALVATRON_VARIANT_BMW;
}

void galvatron_request_init(struct galvatron_request *request, const struct galvatron_source *source,
                            enum galvatron_variant variant)
{
    *request = (struct galvatron_request){ .source = source, .batch_first = 8, .batch_step = 8 };
    request->order = source->form == GALVATRON_FORM_V1 ? GALVATRON_ORDER_V1 : GALVATRON_ORDER_G2;
    set_variant(request, variant);
}

/* A variant's word; in a space "<variant> in <space>", and the space alone for its plain rules, as the papers name it; "... with ZeRO-2". */
static void add_search(const struct galvatron_request *rules, struct galvatron_variant_search *list, uint32_t *count)
{
    enum galvatron_variant variant = rules->one_f_one_b
                                         ? (rules->recompute ? GALVATRON_VARIANT_BMW : GALVATRON_VARIANT_BIOBJ)
                                         : (rules->recompute ? GALVATRON_VARIANT_BASE : GALVATRON_VARIANT_V1);
    bool full = rules->space == GALVATRON_SPACE_FULL, plain = variant == GALVATRON_VARIANT_V1;
    CHECK(*count < GALVATRON_SEARCHES_MAX);
    struct galvatron_variant_search *one = &list[(*count)++];
    one->rules = *rules;
    one->rules.include_variants = false;
    one->rules.either_zero = false;
    snprintf(one->name, sizeof one->name, "%s%s%s%s", full || !plain ? VARIANT_NAMES[variant] : "",
             full || plain ? "" : " in ", full ? "" : galvatron_space_name(rules->space),
             rules->zero2 ? " with ZeRO-2" : "");
}

/* In the full space both ways where asked: the others leave sharding out, or have ZeRO-3. */
static void add_both(const struct galvatron_request *rules, struct galvatron_variant_search *list, uint32_t *count)
{
    struct galvatron_request one = *rules;
    if (rules->either_zero && rules->space == GALVATRON_SPACE_FULL) {
        one.zero2 = true;
        add_search(&one, list, count);
        one.zero2 = false;
    }
    add_search(&one, list, count);
}

uint32_t galvatron_list_variants(const struct galvatron_request *request, struct galvatron_variant_search *list)
{
    uint32_t count = 0;
    if (!request->include_variants) {
        add_both(request, list, &count);
        return count;
    }
    bool any_space = request->space == GALVATRON_SPACE_FULL;
    struct galvatron_request rules = *request;
    for (uint32_t space = GALVATRON_SPACE_FULL + 1; any_space && space < GALVATRON_SPACE_COUNT; space++) {
        rules.space = (enum galvatron_space)space;
        for (uint32_t variant = 0; variant < GALVATRON_VARIANT_COUNT; variant++) {
            set_variant(&rules, (enum galvatron_variant)variant);
            add_search(&rules, list, &count);
        }
    }
    rules.space = request->space;
    for (uint32_t variant = 0; variant < GALVATRON_VARIANT_COUNT; variant++) {
        set_variant(&rules, (enum galvatron_variant)variant);
        add_both(&rules, list, &count);
    }
    return count;
}

void galvatron_request_only(struct galvatron_request *request, const char *found_by)
{
    struct galvatron_variant_search list[GALVATRON_SEARCHES_MAX];
    uint32_t count = galvatron_list_variants(request, list);
    for (uint32_t i = 0; i < count; i++) {
        if (strcmp(found_by, list[i].name) == 0) {
            *request = list[i].rules;
        }
    }
}
