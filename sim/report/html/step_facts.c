#include "sim/report/html/step_facts.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "sim/base/check.h"
#include "sim/base/units.h"

/* Endings of keys that say the unit, the longest first where one ends another. */
static const char *const UNITS[] = {
    "bytes_per_s", "usd_per_kwh", "g_per_kwh", "usd_per_hour", "W",      "bytes", "seconds",  "hours", "days", "years",
    "kwh",         "mwh",         "usd",       "kg",           "tonnes", "share", "fraction", "w",     "s"
};
enum { UNIT_COUNT = sizeof UNITS / sizeof UNITS[0] };

/* The unit that ends `key`, or stands in it ("owned_usd_per_trillion_tokens"), "" when there is none. */
static const char *unit_of(const char *key)
{
    size_t length = strlen(key);
    for (size_t i = 0; i < UNIT_COUNT; i++) {
        size_t bytes = strlen(UNITS[i]);
        bool ends = length >= bytes && strcmp(key + length - bytes, UNITS[i]) == 0;
        if (ends && (length == bytes || key[length - bytes - 1] == '_')) {
            return UNITS[i];
        }
    }
    return strstr(key, "usd_per_") != NULL ? "usd" : strncmp(key, "goodput", 7) == 0 ? "share" : "";
}

/* Whether a member without a unit of its own has that of what it is in: {"step_time_interval_s": {"p5": ...}}. */
static bool inherits(const char *key)
{
    static const char *const keys[] = { "value", "p5", "p50", "p95", "min", "max", "median", "mean" };
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        if (strcmp(key, keys[i]) == 0) {
            return true;
        }
    }
    return false;
}

/* "interval_daly_s" as "interval daly". NULL when memory is out. */
static const char *words_of(const char *key, const char *unit, struct arena *arena)
{
    size_t length = strlen(key), bytes = strlen(unit);
    if (bytes > 0 && length > bytes + 1 && strcmp(key + length - bytes, unit) == 0) {
        length -= bytes + 1;
    }
    char *words = arena_text_n(arena, key, length);
    for (char *c = words; c != NULL && *c != '\0'; c++) {
        *c = *c == '_' ? ' ' : *c;
    }
    return words;
}

struct facts_reader {
    struct step_facts *facts;
    struct arena *arena;
};

static enum status read_value(struct facts_reader *r, const struct json *at, const char *group, const char *unit,
                              const char *key, unsigned depth, struct error *error);

static enum status read_container(struct facts_reader *r, const struct json *at, const char *group, const char *unit,
                                  unsigned depth, struct error *error)
{
    bool list = json_type(at) == JSON_ARRAY;
    size_t count = depth < STEP_FACT_DEPTH_MAX ? json_count(at) : 0;
    for (size_t i = 0; i < count && r->facts->count < STEP_FACTS_MAX; i++) {
        struct json child;
        const char *key;
        if (list) {
            json_item(at, i, &child);
            key = arena_printf(r->arena, "%zu", i + 1);
        } else {
            json_member(at, i, &key, &child);
        }
        if (key == NULL) {
            return error_set(error, STATUS_NO_MEMORY, "out of memory for the result");
        }
        TRY(read_value(r, &child, group, unit, key, depth + 1, error));
    }
    return STATUS_OK;
}

/* `unit`: of the member it is in, for keys that have none ("p5" in "step_time_interval_s"). */
static enum status read_value(struct facts_reader *r, const struct json *at, const char *group, const char *unit,
                              const char *key, unsigned depth, struct error *error)
{
    enum json_type type = json_type(at);
    bool container = type == JSON_OBJECT || type == JSON_ARRAY;
    const char *own = unit_of(key);
    bool told_apart = container && (strcmp(own, "usd") == 0 || strcmp(own, "W") == 0); /* "system_usd", "system_W" */
    const char *words = words_of(key, told_apart ? "" : own, r->arena);
    const char *of = own[0] != '\0' ? own : container || inherits(key) ? unit : "";
    if (words == NULL) {
        return error_set(error, STATUS_NO_MEMORY, "out of memory for the result");
    }
    if (container) {
        const char *inner = group[0] != '\0' ? arena_printf(r->arena, "%s, %s", group, words) : words;
        return inner == NULL ? error_set(error, STATUS_NO_MEMORY, "out of memory for the result")
                             : read_container(r, at, inner, of, depth, error);
    }
    if (type == JSON_NULL || r->facts->count == STEP_FACTS_MAX) {
        return STATUS_OK;
    }
    struct step_fact *fact = &r->facts->items[r->facts->count++];
    *fact = (struct step_fact){ .group = group, .name = words, .unit = of, .value = NAN };
    if (type == JSON_NUMBER) {
        return json_as_real(at, -HUGE_VAL, HUGE_VAL, &fact->value, error);
    }
    bool yes = false;
    if (type == JSON_BOOL) {
        TRY(json_as_bool(at, &yes, error));
        fact->text = yes ? "yes" : "no";
        return STATUS_OK;
    }
    return json_as_string(at, &fact->text, error);
}

enum status step_facts_read(struct step_facts *facts, const struct json *object, const char *key, struct arena *arena,
                            struct error *error)
{
    struct json member;
    *facts = (struct step_facts){ 0 };
    TRY(json_object_optional(object, key, &member, error));
    if (member.node == NULL) {
        return STATUS_OK;
    }
    facts->items = arena_array(arena, struct step_fact, STEP_FACTS_MAX);
    if (facts->items == NULL) {
        return error_set(error, STATUS_NO_MEMORY, "out of memory for the result");
    }
    struct facts_reader r = { facts, arena };
    return read_container(&r, &member, "", "", 0, error);
}

static bool has_word(const struct step_fact *fact, const char *word)
{
    return strstr(fact->name, word) != NULL || strstr(fact->group, word) != NULL || strstr(fact->unit, word) != NULL;
}

const struct step_fact *step_facts_find(const struct step_facts *facts, const char *first, const char *second)
{
    for (uint32_t i = 0; i < facts->count; i++) {
        const struct step_fact *fact = &facts->items[i];
        if (fact->text == NULL && has_word(fact, first) && (second == NULL || has_word(fact, second))) {
            return fact;
        }
    }
    return NULL;
}

const struct step_fact *step_facts_named(const struct step_facts *facts, const char *group, const char *name)
{
    for (uint32_t i = 0; i < facts->count; i++) {
        if (strcmp(facts->items[i].group, group) == 0 && strcmp(facts->items[i].name, name) == 0) {
            return &facts->items[i];
        }
    }
    return NULL;
}

const char *step_number_text(double value, char *buffer, size_t size)
{
    char digits[64];
    if (!(fabs(value) >= 999.5 && fabs(value) < 1e18)) {
        snprintf(buffer, size, "%.3g", value);
        return buffer;
    }
    int length = snprintf(digits, sizeof digits, "%.0f", fabs(value));
    size_t at = (size_t)snprintf(buffer, size, "%s", value < 0 ? "-" : "");
    for (int i = 0; i < length && at + 2 < size; i++) {
        if (i > 0 && (length - i) % 3 == 0) {
            buffer[at++] = ',';
        }
        buffer[at++] = digits[i];
    }
    buffer[at] = '\0';
    return buffer;
}

const char *step_share_text(double share, char *buffer, size_t size)
{
    double percent = 100 * share, magnitude = fabs(percent);
    if (magnitude > 0 && magnitude < 0.005) {
        snprintf(buffer, size, "< 0.01 %%");
    } else {
        snprintf(buffer, size, "%.*f %%",
                 magnitude == 0 || magnitude >= 99.95 ? 0
                 : magnitude >= 9.995                 ? 1
                                                      : 2,
                 percent);
    }
    return buffer;
}

static const char *text_usd(double usd, char *buffer, size_t size)
{
    char number[64];
    snprintf(buffer, size, "%s$%s", usd < 0 ? "-" : "", step_number_text(fabs(usd), number, sizeof number));
    return buffer;
}

const char *step_fact_text(const struct step_fact *fact, char *buffer, size_t size)
{
    static const struct {
        const char *unit, *word;
    } plain[] = { { "hours", "h" }, { "kwh", "kWh" },           { "mwh", "MWh" },         { "tonnes", "t" },
                  { "w", "W" },     { "usd_per_kwh", "$/kWh" }, { "g_per_kwh", "g/kWh" }, { "usd_per_hour", "$/h" } };
    char number[64];
    const char *unit = fact->unit;
    double v = fact->value;
    if (fact->text != NULL) {
        snprintf(buffer, size, "%s", fact->text);
    } else if (strcmp(fact->name, "year") == 0) {
        snprintf(buffer, size, "%.0f", v);
    } else if ((strcmp(unit, "s") == 0 || strcmp(unit, "seconds") == 0) && v >= 0 && v < 1e5) {
        text_time_ps(ps_nearest_s(v), buffer, size);
    } else if ((strcmp(unit, "s") == 0 || strcmp(unit, "seconds") == 0) && v >= 1e5) {
        snprintf(buffer, size, "%s days", step_number_text(v / 86400, number, sizeof number));
    } else if (strcmp(unit, "bytes") == 0) {
        text_bytes(v, buffer, size);
    } else if (strcmp(unit, "bytes_per_s") == 0) {
        text_bytes_per_s(v, buffer, size);
    } else if (strcmp(unit, "share") == 0 || strcmp(unit, "fraction") == 0) {
        (void)step_share_text(v, buffer, size);
    } else if (strcmp(unit, "usd") == 0) {
        text_usd(v, buffer, size);
    } else {
        const char *word = unit;
        for (size_t i = 0; i < sizeof plain / sizeof plain[0]; i++) {
            word = strcmp(unit, plain[i].unit) == 0 ? plain[i].word : word;
        }
        snprintf(buffer, size, "%s%s%s", step_number_text(v, number, sizeof number), word[0] != '\0' ? " " : "", word);
    }
    return buffer;
}
