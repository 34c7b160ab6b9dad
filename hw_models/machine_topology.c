/* Parts and links of a machine file. Groups are written compactly and expanded here:
 *   an id "gpu[0-7]" is eight parts; in a link, a list whose length divides the other's takes equal consecutive blocks of it
 *   ("a": "plx[0-3]", "b": "gpu[0-7]" is plx0-gpu0, plx0-gpu1, plx1-gpu2 ...), "pairing": "all" joins everything with everything, and
 *   "pairs": ["gpu0-gpu3", ...] lists single links. */
#include "hw_models/machine_read.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/array.h"
#include "sim/base/check.h"
#include "sim/base/units.h"

enum { ID_BYTES = 48, ID_BEFORE_BYTES = 24, ID_AFTER_BYTES = 8 }; /* before + ten digits + after fit */

static const char *const PART_WORDS[] = {
#define X(name, word) word,
    MACHINE_PART_TABLE(X)
#undef X
};
static const char *const LINK_WORDS[] = {
#define X(name, word) word,
    MACHINE_LINK_TABLE(X)
#undef X
};

const char *machine_part_word(enum machine_part_kind kind)
{
    CHECK((unsigned)kind < PART_KIND_COUNT);
    return PART_WORDS[kind];
}

const char *machine_link_word(enum machine_link_kind kind)
{
    CHECK((unsigned)kind < LINK_KIND_COUNT);
    return LINK_WORDS[kind];
}

struct part_list {
    struct machine_part *items;
    size_t count, capacity;
};
struct link_list {
    struct machine_link *items;
    size_t count, capacity;
};
struct index_list {
    uint32_t *items;
    size_t count, capacity;
};

/* "gpu[0-7]" taken apart; a plain id has first == last and no number. */
struct id_range {
    char before[ID_BEFORE_BYTES], after[ID_AFTER_BYTES];
    uint32_t first, last;
    bool numbered;
};

static bool id_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.';
}

static bool read_number(const char **text, uint32_t *number)
{
    uint64_t value = 0;
    size_t digits = 0;
    for (; **text >= '0' && **text <= '9' && digits < 6; (*text)++, digits++) {
        value = value * 10 + (uint64_t)(**text - '0');
    }
    *number = (uint32_t)value;
    return digits > 0;
}

static enum status parse_range(const struct json *at, const char *text, struct id_range *range, struct error *error)
{
    *range = (struct id_range){ 0 };
    size_t length = 0;
    const char *p = text;
    for (; id_char(*p); p++) {
        if (length + 1 >= ID_BEFORE_BYTES) {
            return json_error(at, error, "id \"%.40s\" is longer than %d characters", text, ID_BEFORE_BYTES - 1);
        }
        range->before[length++] = *p;
    }
    if (*p == '[') {
        p++;
        bool good = read_number(&p, &range->first) && *p == '-';
        p += good ? 1 : 0;
        good = good && read_number(&p, &range->last) && *p == ']';
        p += good ? 1 : 0;
        if (!good || range->first > range->last || range->last - range->first >= MACHINE_PARTS_MAX) {
            return json_error(at, error, "bad range in \"%.60s\"; a group is written name[first-last], as in gpu[0-7]",
                              text);
        }
        range->numbered = true;
        for (length = 0; id_char(*p) && length + 1 < ID_AFTER_BYTES; p++) {
            range->after[length++] = *p;
        }
    }
    if (*p != '\0' || (range->before[0] == '\0' && !range->numbered)) {
        return json_error(at, error, "bad id \"%.60s\": letters, digits, '_' and '.' only, or a group as in gpu[0-7]",
                          text);
    }
    return STATUS_OK;
}

static uint32_t range_count(const struct id_range *range)
{
    return range->last - range->first + 1;
}

static void range_id(const struct id_range *range, uint32_t index, char id[static ID_BYTES])
{
    if (range->numbered) {
        snprintf(id, ID_BYTES, "%s%u%s", range->before, range->first + index, range->after);
    } else {
        snprintf(id, ID_BYTES, "%s", range->before);
    }
}

/* ---- parts ---- */

static const char *const PART_KEYS[PART_KIND_COUNT][8] = {
    [PART_CPU] = { "id", "kind", "source", "estimated", "cores" },
    [PART_DRAM] = { "id", "kind", "source", "estimated", "capacity_GiB" },
    [PART_PCIE_SWITCH] = { "id", "kind", "source", "estimated" },
    [PART_GPU] = { "id", "kind", "source", "estimated" },
    [PART_NIC] = { "id", "kind", "source", "estimated", "Gbps", "compute" },
    [PART_NVME] = { "id", "kind", "source", "estimated", "capacity_GB", "read_GBps", "write_GBps" },
    [PART_NVSWITCH] = { "id", "kind", "source", "estimated", "chips" },
};

static size_t key_count(const char *const *keys, size_t most)
{
    size_t count = 0;
    while (count < most && keys[count] != NULL) {
        count++;
    }
    return count;
}

/* "source" and "estimated" of one group, filed under parts.KIND or links.KIND. */
static enum status note_group_source(struct machine *machine, const struct json *group, const char *array,
                                     const char *word, struct error *error)
{
    const char *source;
    bool estimated;
    TRY(json_string_or(group, "source", NULL, &source, error));
    TRY(json_bool_or(group, "estimated", false, &estimated, error));
    if (source == NULL) {
        return STATUS_OK;
    }
    char *field = arena_printf(&machine->arena, "%s.%s", array, word);
    return field == NULL ? machine_out_of_memory(error) : machine_add_source(machine, field, source, estimated, error);
}

static enum status read_part(const struct json *at, enum machine_part_kind kind, struct machine_part *part,
                             struct error *error)
{
    int64_t whole;
    double value;
    *part = (struct machine_part){ .kind = kind };
    switch (kind) {
    case PART_CPU:
        TRY(json_int(at, "cores", 1, 4096, &whole, error));
        part->cores = (uint32_t)whole;
        break;
    case PART_DRAM:
        TRY(json_real(at, "capacity_GiB", 1e-3, 1e7, &value, error));
        part->capacity_bytes = value * GIB;
        break;
    case PART_NIC:
        TRY(json_real(at, "Gbps", 1e-3, 1e5, &value, error));
        part->line_bytes_per_s = value * 1e9 / 8.0;
        TRY(json_bool_or(at, "compute", true, &part->compute_fabric, error));
        break;
    case PART_NVME:
        TRY(json_real(at, "capacity_GB", 1e-3, 1e9, &value, error));
        part->capacity_bytes = value * 1e9;
        TRY(json_real(at, "read_GBps", 1e-3, 1e4, &value, error));
        part->read_bytes_per_s = value * 1e9;
        TRY(json_real(at, "write_GBps", 1e-3, 1e4, &value, error));
        part->write_bytes_per_s = value * 1e9;
        break;
    case PART_NVSWITCH:
        TRY(json_int_or(at, "chips", 1, 1024, 1, &whole, error));
        part->chips = (uint32_t)whole;
        break;
    case PART_PCIE_SWITCH:
    case PART_GPU:
    case PART_KIND_COUNT: break;
    }
    return STATUS_OK;
}

static enum status read_parts(struct machine *machine, const struct json *array, struct part_list *parts,
                              struct error *error)
{
    uint32_t counts[PART_KIND_COUNT] = { 0 };
    for (size_t i = 0; i < json_count(array); i++) {
        struct json at;
        struct machine_part part;
        struct id_range range;
        size_t kind;
        const char *text;
        json_item(array, i, &at);
        TRY(json_word(&at, "kind", PART_WORDS, PART_KIND_COUNT, &kind, error));
        TRY(json_known_keys(&at, PART_KEYS[kind], key_count(PART_KEYS[kind], 8), error));
        TRY(json_string(&at, "id", &text, error));
        TRY(parse_range(&at, text, &range, error));
        TRY(read_part(&at, (enum machine_part_kind)kind, &part, error));
        if (parts->count + range_count(&range) > MACHINE_PARTS_MAX) {
            return json_error(&at, error, "more than %d parts", MACHINE_PARTS_MAX);
        }
        TRY(array_reserve(parts, range_count(&range), error));
        for (uint32_t k = 0; k < range_count(&range); k++) {
            char id[ID_BYTES];
            range_id(&range, k, id);
            TRY(machine_text(machine, id, &part.id, error));
            part.index = counts[kind]++;
            parts->items[parts->count++] = part;
        }
        TRY(note_group_source(machine, &at, "parts", PART_WORDS[kind], error));
    }
    return STATUS_OK;
}

/* ---- looking ids up ---- */

struct directory {
    const struct machine_part *parts;
    uint32_t *order; /* part indices by id */
    uint32_t count;
};

static int compare_entries(const void *a, const void *b)
{
    const struct machine_part *const *x = a, *const *y = b;
    return strcmp((*x)->id, (*y)->id);
}

static enum status directory_build(struct machine *machine, const struct json *at, struct directory *directory,
                                   struct error *error)
{
    const struct machine_part **sorted = malloc((machine->part_count + 1) * sizeof(const struct machine_part *));
    directory->order = malloc((machine->part_count + 1) * sizeof *directory->order);
    directory->parts = machine->parts;
    directory->count = machine->part_count;
    if (sorted == NULL || directory->order == NULL) {
        free(sorted);
        return machine_out_of_memory(error);
    }
    for (uint32_t i = 0; i < machine->part_count; i++) {
        sorted[i] = &machine->parts[i];
    }
    qsort((void *)sorted, machine->part_count, sizeof(const struct machine_part *), compare_entries);
    enum status status = STATUS_OK;
    for (uint32_t i = 0; i < machine->part_count; i++) {
        directory->order[i] = (uint32_t)(sorted[i] - machine->parts);
        if (i > 0 && strcmp(sorted[i]->id, sorted[i - 1]->id) == 0) {
            status = json_error(at, error, "two parts have the id \"%s\"", sorted[i]->id);
            break;
        }
    }
    free(sorted);
    return status;
}

static enum status directory_find(const struct directory *directory, const struct json *at, const char *id,
                                  uint32_t *part, struct error *error)
{
    uint32_t low = 0, high = directory->count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        int order = strcmp(directory->parts[directory->order[middle]].id, id);
        if (order == 0) {
            *part = directory->order[middle];
            return STATUS_OK;
        }
        low = order < 0 ? middle + 1 : low;
        high = order < 0 ? high : middle;
    }
    const char **words = malloc((directory->count + 1) * sizeof *words);
    if (words == NULL) {
        return machine_out_of_memory(error);
    }
    for (uint32_t i = 0; i < directory->count; i++) {
        words[i] = directory->parts[i].id;
    }
    const char *nearest = nearest_word(id, words, directory->count);
    free(words);
    if (nearest != NULL) {
        return json_error(at, error, "no part has the id \"%s\"; the nearest is \"%s\"", id, nearest);
    }
    return json_error(at, error, "no part has the id \"%s\"", id);
}

static enum status expand(const struct directory *directory, const struct json *at, const char *text,
                          struct index_list *list, struct error *error)
{
    struct id_range range;
    TRY(parse_range(at, text, &range, error));
    TRY(array_reserve(list, range_count(&range), error));
    for (uint32_t k = 0; k < range_count(&range); k++) {
        char id[ID_BYTES];
        range_id(&range, k, id);
        TRY(directory_find(directory, at, id, &list->items[list->count], error));
        list->count++;
    }
    return STATUS_OK;
}

/* ---- links ---- */

static const char *const LINK_KEYS[] = { "kind",       "a",      "b",         "pairing",   "pairs",
                                         "lanes",      "GBps",   "back_GBps", "peak_GBps", "both_GBps",
                                         "latency_us", "source", "estimated" };
static const char *const PAIRING_WORDS[] = { "blocks", "all" };

#define PAIR(x, y) ((1u << (x)) | (1u << (y)))

/* Which kinds of part a kind of link may join. */
static bool link_may_join(enum machine_link_kind link, enum machine_part_kind a, enum machine_part_kind b)
{
    unsigned pair = PAIR(a, b);
    unsigned pcie = PAIR(PART_CPU, PART_PCIE_SWITCH) | PAIR(PART_GPU, PART_NIC) | PAIR(PART_NVME, PART_NVME);
    switch (link) {
    case LINK_PCIE: return (pair & ~pcie) == 0 && pair != PAIR(PART_CPU, PART_CPU);
    case LINK_NVLINK:
        return pair == PAIR(PART_GPU, PART_GPU) || pair == PAIR(PART_GPU, PART_NVSWITCH) ||
               pair == PAIR(PART_NVSWITCH, PART_NVSWITCH) || pair == PAIR(PART_CPU, PART_GPU);
    case LINK_XGMI: return pair == PAIR(PART_GPU, PART_GPU) || pair == PAIR(PART_CPU, PART_GPU);
    case LINK_DDR: return pair == PAIR(PART_DRAM, PART_CPU);
    case LINK_SOCKET: return pair == PAIR(PART_CPU, PART_CPU);
    case LINK_C2C: return pair == PAIR(PART_CPU, PART_GPU);
    case LINK_NETWORK:
    case LINK_KIND_COUNT: return false;
    }
    return false;
}

static enum status read_link_rates(const struct json *at, struct machine_link *link, struct error *error)
{
    double value, back, peak, both;
    int64_t lanes;
    TRY(json_int_or(at, "lanes", 1, 4096, 1, &lanes, error));
    TRY(json_real(at, "GBps", 1e-6, 1e6, &value, error));
    TRY(json_real_or(at, "back_GBps", 1e-6, 1e6, value, &back, error));
    TRY(json_real_or(at, "peak_GBps", 1e-6, 1e6, value > back ? value : back, &peak, error));
    bool half_duplex = link->kind == LINK_DDR;
    TRY(json_real_or(at, "both_GBps", 1e-6, 2e6, half_duplex ? value : value + back, &both, error));
    TRY(json_real_or(at, "latency_us", 0.0, 1e6, 0.0, &link->latency_s, error));
    if (value > peak || back > peak) {
        return json_error(at, error, "GBps (%.6g) exceeds peak_GBps (%.6g): a link cannot carry more than its peak",
                          value > back ? value : back, peak);
    }
    if (both < value || both < back || both > value + back) {
        return json_error(at, error,
                          "both_GBps is %.6g; it must lie between one direction (%.6g) and the sum of both (%.6g)",
                          both, value > back ? value : back, value + back);
    }
    link->lanes = (uint32_t)lanes;
    link->bytes_per_s = value * 1e9;
    link->back_bytes_per_s = back * 1e9;
    link->peak_bytes_per_s = peak * 1e9;
    link->both_bytes_per_s = both * 1e9;
    link->latency_s *= 1e-6;
    return STATUS_OK;
}

static enum status add_link(const struct machine *machine, const struct json *at, struct machine_link link,
                            struct link_list *links, struct error *error)
{
    const struct machine_part *a = &machine->parts[link.a], *b = &machine->parts[link.b];
    if (link.a == link.b) {
        return json_error(at, error, "\"%s\" is linked to itself", a->id);
    }
    if (!link_may_join(link.kind, a->kind, b->kind)) {
        return json_error(at, error, "a %s link cannot join %s \"%s\" and %s \"%s\"", LINK_WORDS[link.kind],
                          PART_WORDS[a->kind], a->id, PART_WORDS[b->kind], b->id);
    }
    if (links->count >= MACHINE_LINKS_MAX) {
        return json_error(at, error, "more than %d links", MACHINE_LINKS_MAX);
    }
    TRY(array_reserve(links, 1, error));
    links->items[links->count++] = link;
    return STATUS_OK;
}

static enum status add_pairs(const struct machine *machine, const struct directory *directory, const struct json *pairs,
                             struct machine_link link, struct link_list *links, struct error *error)
{
    for (size_t i = 0; i < json_count(pairs); i++) {
        struct json at;
        const char *text;
        json_item(pairs, i, &at);
        TRY(json_as_string(&at, &text, error));
        const char *dash = strchr(text, '-');
        char first[ID_BYTES];
        if (dash == NULL || dash == text || (size_t)(dash - text) >= sizeof first || strchr(text, '[') != NULL) {
            return json_error(&at, error, "\"%.60s\" is not a pair of ids as in \"gpu0-gpu3\"", text);
        }
        memcpy(first, text, (size_t)(dash - text));
        first[dash - text] = '\0';
        TRY(directory_find(directory, &at, first, &link.a, error));
        TRY(directory_find(directory, &at, dash + 1, &link.b, error));
        TRY(add_link(machine, &at, link, links, error));
    }
    return STATUS_OK;
}

static enum status add_blocks(const struct machine *machine, const struct json *at, const struct index_list *a,
                              const struct index_list *b, struct machine_link link, struct link_list *links,
                              struct error *error)
{
    size_t longer = a->count > b->count ? a->count : b->count, shorter = a->count > b->count ? b->count : a->count;
    if (longer % shorter != 0) {
        return json_error(
            at, error, "\"a\" names %zu parts and \"b\" %zu: one must divide the other, or give \"pairing\": \"all\"",
            a->count, b->count);
    }
    for (size_t k = 0; k < longer; k++) {
        link.a = a->items[k / (longer / a->count)];
        link.b = b->items[k / (longer / b->count)];
        TRY(add_link(machine, at, link, links, error));
    }
    return STATUS_OK;
}

static enum status add_all(const struct machine *machine, const struct json *at, const struct index_list *a,
                           const struct index_list *b, struct machine_link link, struct link_list *links,
                           struct error *error)
{
    bool mesh = a->count == b->count && memcmp(a->items, b->items, a->count * sizeof *a->items) == 0;
    for (size_t i = 0; i < a->count; i++) {
        for (size_t k = mesh ? i + 1 : 0; k < b->count; k++) {
            link.a = a->items[i];
            link.b = b->items[k];
            TRY(add_link(machine, at, link, links, error));
        }
    }
    return STATUS_OK;
}

static enum status read_link_group(struct machine *machine, const struct directory *directory, const struct json *at,
                                   struct link_list *links, struct error *error)
{
    struct machine_link link = { 0 };
    struct index_list a = { 0 }, b = { 0 };
    struct json pairs;
    size_t kind, pairing;
    const char *text;
    enum status status = STATUS_OK;
    TRY(json_known_keys(at, LINK_KEYS, sizeof LINK_KEYS / sizeof LINK_KEYS[0], error));
    TRY(json_word(at, "kind", LINK_WORDS, LINK_NETWORK, &kind, error));
    link.kind = (enum machine_link_kind)kind;
    TRY(read_link_rates(at, &link, error));
    TRY(note_group_source(machine, at, "links", LINK_WORDS[kind], error));
    TRY(json_array_optional(at, "pairs", &pairs, error));
    if (pairs.node != NULL) {
        if (json_has(at, "a") || json_has(at, "b") || json_has(at, "pairing")) {
            return json_error(at, error, "\"pairs\" goes without \"a\", \"b\" and \"pairing\"");
        }
        return add_pairs(machine, directory, &pairs, link, links, error);
    }
    TRY(json_word_or(at, "pairing", PAIRING_WORDS, 2, 0, &pairing, error));
    TRY_OR_FAIL(json_string(at, "a", &text, error));
    TRY_OR_FAIL(expand(directory, at, text, &a, error));
    TRY_OR_FAIL(json_string(at, "b", &text, error));
    TRY_OR_FAIL(expand(directory, at, text, &b, error));
    TRY_OR_FAIL((pairing == 0 ? add_blocks : add_all)(machine, at, &a, &b, link, links, error));
fail:
    array_free(&a);
    array_free(&b);
    return status;
}

static int compare_links(const void *a, const void *b)
{
    const struct machine_link *x = a, *y = b;
    uint32_t x1 = x->a < x->b ? x->a : x->b, x2 = x->a < x->b ? x->b : x->a;
    uint32_t y1 = y->a < y->b ? y->a : y->b, y2 = y->a < y->b ? y->b : y->a;
    if (x1 != y1) {
        return x1 < y1 ? -1 : 1;
    }
    if (x2 != y2) {
        return x2 < y2 ? -1 : 1;
    }
    return x->kind == y->kind ? 0 : (x->kind < y->kind ? -1 : 1);
}

static enum status check_duplicate_links(const struct machine *machine, const struct json *at, struct error *error)
{
    struct machine_link *sorted = malloc((machine->link_count + 1) * sizeof *sorted);
    if (sorted == NULL) {
        return machine_out_of_memory(error);
    }
    if (machine->link_count > 0) {
        memcpy(sorted, machine->links, machine->link_count * sizeof *sorted);
    }
    qsort(sorted, machine->link_count, sizeof *sorted, compare_links);
    enum status status = STATUS_OK;
    for (uint32_t i = 1; i < machine->link_count && status == STATUS_OK; i++) {
        if (compare_links(&sorted[i - 1], &sorted[i]) == 0) {
            status =
                json_error(at, error, "two %s links between \"%s\" and \"%s\"; give one with \"lanes\"",
                           LINK_WORDS[sorted[i].kind], machine->parts[sorted[i].a].id, machine->parts[sorted[i].b].id);
        }
    }
    free(sorted);
    return status;
}

static enum status read_links(struct machine *machine, const struct json *array, struct error *error)
{
    struct directory directory = { 0 };
    struct link_list links = { 0 };
    enum status status;
    TRY_OR_FAIL(directory_build(machine, array, &directory, error));
    for (size_t i = 0; i < json_count(array); i++) {
        struct json at;
        json_item(array, i, &at);
        TRY_OR_FAIL(read_link_group(machine, &directory, &at, &links, error));
    }
    machine->links = arena_array(&machine->arena, struct machine_link, links.count);
    if (machine->links == NULL) {
        status = machine_out_of_memory(error);
        goto fail;
    }
    if (links.count > 0) {
        memcpy(machine->links, links.items, links.count * sizeof *links.items);
    }
    machine->link_count = (uint32_t)links.count;
    TRY_OR_FAIL(check_duplicate_links(machine, array, error));
fail:
    free(directory.order);
    array_free(&links);
    return status;
}

/* A DRAM's rate is its DDR link's. */
static void settle_dram(struct machine *machine)
{
    machine->dram_bytes = 0.0;
    for (uint32_t i = 0; i < machine->part_count; i++) {
        machine->dram_bytes += machine->parts[i].kind == PART_DRAM ? machine->parts[i].capacity_bytes : 0.0;
    }
    for (uint32_t i = 0; i < machine->link_count; i++) {
        const struct machine_link *link = &machine->links[i];
        if (link->kind == LINK_DDR) {
            struct machine_part *dram = &machine->parts[machine->parts[link->a].kind == PART_DRAM ? link->a : link->b];
            dram->read_bytes_per_s = dram->write_bytes_per_s = link->bytes_per_s;
        }
    }
}

enum status machine_read_topology(struct machine *machine, const struct json *root, bool partial, struct error *error)
{
    struct json parts_at, links_at;
    struct part_list parts = { 0 };
    enum status status = STATUS_OK;
    TRY(json_array_optional(root, "parts", &parts_at, error));
    if (parts_at.node != NULL || !partial) {
        TRY(json_array(root, "parts", &parts_at, error));
        TRY(json_array(root, "links", &links_at, error));
        TRY_OR_FAIL(read_parts(machine, &parts_at, &parts, error));
        machine->parts = arena_array(&machine->arena, struct machine_part, parts.count);
        if (machine->parts == NULL) {
            status = machine_out_of_memory(error);
            goto fail;
        }
        if (parts.count > 0) {
            memcpy(machine->parts, parts.items, parts.count * sizeof *parts.items);
        }
        machine->part_count = (uint32_t)parts.count;
        machine->link_count = 0;
    }
    TRY_OR_FAIL(json_array_optional(root, "links", &links_at, error));
    if (links_at.node != NULL) {
        TRY_OR_FAIL(read_links(machine, &links_at, error));
    }
    settle_dram(machine);
fail:
    array_free(&parts);
    return status;
}
