/* Variants by name: their rules, and which searches a request stands for. */
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

void galvatron_request_only(struct galvatron_request *request, const char *found_by)
{
    request->include_variants = false;
    for (uint32_t space = GALVATRON_SPACE_FULL + 1; space < GALVATRON_SPACE_COUNT; space++) {
        if (strcmp(found_by, galvatron_space_name((enum galvatron_space)space)) == 0) {
            set_variant(request, GALVATRON_VARIANT_V1);
            request->space = (enum galvatron_space)space;
        }
    }
    for (uint32_t variant = 0; variant < GALVATRON_VARIANT_BMW; variant++) {
        if (strcmp(found_by, VARIANT_NAMES[variant]) == 0) {
            set_variant(request, (enum galvatron_variant)variant);
        }
    }
}

uint32_t galvatron_list_variants(const struct galvatron_request *request, struct galvatron_variant_search *list)
{
    uint32_t count = 0;
    bool any_space = request->include_variants && request->space == GALVATRON_SPACE_FULL;
    for (uint32_t space = GALVATRON_SPACE_FULL + 1; any_space && space < GALVATRON_SPACE_COUNT; space++) {
        struct galvatron_variant_search *one = &list[count++];
        *one = (struct galvatron_variant_search){ *request, galvatron_space_name((enum galvatron_space)space) };
        set_variant(&one->rules, GALVATRON_VARIANT_V1);
        one->rules.space = (enum galvatron_space)space;
    }
    for (uint32_t variant = 0; request->include_variants && variant < GALVATRON_VARIANT_BMW; variant++) {
        struct galvatron_variant_search *one = &list[count++];
        *one = (struct galvatron_variant_search){ *request, VARIANT_NAMES[variant] };
        set_variant(&one->rules, (enum galvatron_variant)variant);
    }
    bool bmw = request->include_variants || (request->one_f_one_b && request->recompute);
    list[count++] =
        (struct galvatron_variant_search){ *request, bmw ? VARIANT_NAMES[GALVATRON_VARIANT_BMW]
                                                     : request->space != GALVATRON_SPACE_FULL
                                                         ? galvatron_space_name(request->space)
                                                     : request->one_f_one_b ? VARIANT_NAMES[GALVATRON_VARIANT_BIOBJ]
                                                     : request->recompute   ? VARIANT_NAMES[GALVATRON_VARIANT_BASE]
                                                                            : VARIANT_NAMES[GALVATRON_VARIANT_V1] };
    return count;
}
