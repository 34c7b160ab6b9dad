/* Reading and writing Galvatron's profiles: one table of key patterns. */
#include "strategies/planners/galvatron_files.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "sim/base/check.h"
#include "sim/base/json_write.h"

/* Where a key stands. The first ones are the kinds of files. */
enum place {
    PLACE_HARDWARE,
    PLACE_COMPUTATION,
    PLACE_MEMORY,
    PLACE_HIDDEN,     /* times of a hidden size (first version) */
    PLACE_MEASURED,   /* triples of one strategy */
    PLACE_LAYER,      /* a layer type; its sequence lengths */
    PLACE_LAYER_AT,   /* one sequence length of a layer type */
    PLACE_ACTIVATION, /* by tensor degree */
    PLACE_OTHER,
    PLACE_OTHER_AT,
    PLACE_DEGREES,
    PLACE_NONE /* of a pattern's inside: a value */
};

struct pattern {
    enum place place, inside;
    const char *text, *unit;
    double min, max;
};

/* Ranges are those of any machine one could mean: a value in other units (bytes/s, seconds, bytes) falls outside. Differences of measured times may be negative. */
#define VALUE_TABLE(X)                                                                                                 \
    X(PLACE_HARDWARE, "#_#_#", "ms/MiB", 1e-5, 1e3)                                                                    \
    X(PLACE_HARDWARE, "pp_deg_#", "ms/MiB", 1e-5, 1e3)                                                                 \
    X(PLACE_HARDWARE, "allreduce_size_#_consec_#", "GB/s", 1e-3, 1e5)                                                  \
    X(PLACE_HARDWARE, "allreduce_size_#", "GB/s", 1e-3, 1e5)                                                           \
    X(PLACE_HARDWARE, "pp_size_#", "GB/s", 1e-3, 1e5)                                                                  \
    X(PLACE_HARDWARE, "overlap_coe", "x", 1, 10)                                                                       \
    X(PLACE_HARDWARE, "allreduce_size_#_#MB_time", "ms", 1e-4, 1e6)                                                    \
    X(PLACE_HARDWARE, "all2all_size_#_#MB_time", "ms", 1e-4, 1e6)                                                      \
    X(PLACE_COMPUTATION, "layernum@_bsz#", "ms", 1e-4, 1e7)                                                            \
    X(PLACE_COMPUTATION, "layernum@_bsz#_seq#", "ms", 1e-4, 1e7)                                                       \
    X(PLACE_COMPUTATION, "layernum@_bsz#_seq@", "ms", 1e-4, 1e7)                                                       \
    X(PLACE_COMPUTATION, "layertype_#", "ms", -1e4, 1e6)                                                               \
    X(PLACE_COMPUTATION, "layertype_#_bsz#", "ms", -1e4, 1e6)                                                          \
    X(PLACE_COMPUTATION, "layertype_#_bsz#_seq#", "ms", -1e4, 1e6)                                                     \
    X(PLACE_COMPUTATION, "layertype_other_bsz#_seq#", "ms", -1e4, 1e6)                                                 \
    X(PLACE_COMPUTATION, "layertype_other_bsz#_seq@", "ms", -1e4, 1e6)                                                 \
    X(PLACE_COMPUTATION, "layertype_other_#_bsz#", "ms", -1e4, 1e6)                                                    \
    X(PLACE_COMPUTATION, "layertype_other_#_bsz#_seq#", "ms", -1e4, 1e6)                                               \
    X(PLACE_COMPUTATION, "fwd_time_hidden_#", "ms", 1e-4, 1e6)                                                         \
    X(PLACE_HIDDEN, "layer_type_#", "ms", 1e-4, 1e6)                                                                   \
    X(PLACE_HIDDEN, "encoder", "ms", 1e-4, 1e6)                                                                        \
    X(PLACE_HIDDEN, "decoder", "ms", 1e-4, 1e6)                                                                        \
    X(PLACE_MEASURED, "layernum@_bsz#_rank#_ms", "MiB", 0, 1e7)                                                        \
    X(PLACE_MEASURED, "layernum@_bsz#_rank#_act", "MiB", -1e7, 1e7)                                                    \
    X(PLACE_MEASURED, "layernum@_bsz#_rank#_act_peak", "MiB", -1e7, 1e7)                                               \
    X(PLACE_MEASURED, "layernum@_bsz#_seq#_rank#_ms", "MiB", 0, 1e7)                                                   \
    X(PLACE_MEASURED, "layernum@_bsz#_seq#_rank#_act", "MiB", -1e7, 1e7)                                               \
    X(PLACE_MEASURED, "layernum@_bsz#_seq#_rank#_act_peak", "MiB", -1e7, 1e7)                                          \
    X(PLACE_MEASURED, "layernum@_bsz#_seq@_rank#_ms", "MiB", 0, 1e7)                                                   \
    X(PLACE_MEASURED, "layernum@_bsz#_seq@_rank#_act", "MiB", -1e7, 1e7)                                               \
    X(PLACE_MEASURED, "layernum@_bsz#_seq@_rank#_act_peak", "MiB", -1e7, 1e7)                                          \
    X(PLACE_LAYER, "parameter_size", "MiB", 0, 1e7)                                                                    \
    X(PLACE_LAYER_AT, "parameter_size", "MiB", 0, 1e7)                                                                 \
    X(PLACE_ACTIVATION, "#", "MiB", -1e7, 1e7)                                                                         \
    X(PLACE_ACTIVATION, "checkpoint", "MiB", -1e7, 1e7)                                                                \
    X(PLACE_OTHER, "model_states", "MiB", 0, 1e7)                                                                      \
    X(PLACE_OTHER, "activation", "MiB", -1e7, 1e7)                                                                     \
    X(PLACE_DEGREES, "#", "MiB", -1e7, 1e7)

#define GROUP_TABLE(X)                                                                                                 \
    X(PLACE_COMPUTATION, "fwd_time_hidden_#", PLACE_HIDDEN)                                                            \
    X(PLACE_COMPUTATION, "fwd_time_embed_dim_#", PLACE_HIDDEN)                                                         \
    X(PLACE_MEMORY, "#_#_#", PLACE_MEASURED)                                                                           \
    X(PLACE_MEMORY, "#_#_#_c", PLACE_MEASURED)                                                                         \
    X(PLACE_MEMORY, "#_#_#_sp", PLACE_MEASURED)                                                                        \
    X(PLACE_MEMORY, "#_#_#_c_sp", PLACE_MEASURED)                                                                      \
    X(PLACE_MEMORY, "#_#_#_vtp", PLACE_MEASURED)                                                                       \
    X(PLACE_MEMORY, "#_#_#_vtp_sp", PLACE_MEASURED)                                                                    \
    X(PLACE_MEMORY, "layertype_#", PLACE_LAYER)                                                                        \
    X(PLACE_MEMORY, "layertype_#_sp", PLACE_LAYER)                                                                     \
    X(PLACE_MEMORY, "other_memory_pp_off", PLACE_OTHER)                                                                \
    X(PLACE_MEMORY, "other_memory_pp_on_first", PLACE_OTHER)                                                           \
    X(PLACE_MEMORY, "other_memory_pp_on_last", PLACE_OTHER)                                                            \
    X(PLACE_MEMORY, "other_memory_pp_off_sp", PLACE_OTHER)                                                             \
    X(PLACE_MEMORY, "other_memory_pp_on_first_sp", PLACE_OTHER)                                                        \
    X(PLACE_MEMORY, "other_memory_pp_on_last_sp", PLACE_OTHER)                                                         \
    X(PLACE_LAYER, "#", PLACE_LAYER_AT)                                                                                \
    X(PLACE_LAYER, "tp_activation_per_bsz_dict", PLACE_ACTIVATION)                                                     \
    X(PLACE_LAYER_AT, "tp_activation_per_bsz_dict", PLACE_ACTIVATION)                                                  \
    X(PLACE_OTHER, "#", PLACE_OTHER_AT)                                                                                \
    X(PLACE_OTHER, "@", PLACE_OTHER_AT)                                                                                \
    X(PLACE_OTHER, "model_states", PLACE_DEGREES)                                                                      \
    X(PLACE_OTHER, "activation", PLACE_DEGREES)                                                                        \
    X(PLACE_OTHER_AT, "model_states", PLACE_DEGREES)                                                                   \
    X(PLACE_OTHER_AT, "activation", PLACE_DEGREES)

static const struct pattern patterns[] = {
#define X(place, text, unit, min, max) { place, PLACE_NONE, text, unit, min, max },
    VALUE_TABLE(X)
#undef X
#define X(place, text, inside) { place, inside, text, NULL, 0, 0 },
        GROUP_TABLE(X)
#undef X
};
enum { PATTERN_COUNT = sizeof patterns / sizeof patterns[0] };

const char *galvatron_file_kind_word(enum galvatron_file_kind kind)
{
    static const char *const words[] = { "hardware", "computation", "memory" };
    CHECK(kind < GALVATRON_FILE_KIND_COUNT);
    return words[kind];
}

/* ---- keys ---- */

/* A number as Python prints it: no sign, no leading zero, at most 9 digits. */
static bool take_number(const char **text, struct galvatron_entry *entry)
{
    const char *at = *text;
    uint32_t value = 0, digits = 0;
    for (; *at >= '0' && *at <= '9' && digits < 9; at++, digits++) {
        value = value * 10 + (uint32_t)(*at - '0');
    }
    if (digits == 0 || (digits > 1 && **text == '0') || (*at >= '0' && *at <= '9') ||
        entry->number_count == GALVATRON_KEY_NUMBERS) {
        return false;
    }
    entry->numbers[entry->number_count++] = value;
    *text = at;
    return true;
}

static bool take_list(const char **text, struct galvatron_entry *entry)
{
    if (*(*text)++ != '[' || entry->number_count == GALVATRON_KEY_NUMBERS) {
        return false;
    }
    uint32_t length_at = entry->number_count++;
    for (;;) {
        if (!take_number(text, entry)) {
            return false;
        }
        char next = *(*text)++;
        if (next == ']') {
            entry->numbers[length_at] = entry->number_count - length_at - 1;
            return true;
        }
        if (next != ',') {
            return false;
        }
    }
}

static bool match(const char *pattern, const char *key, struct galvatron_entry *entry)
{
    entry->number_count = 0;
    for (; *pattern != '\0'; pattern++) {
        if (*pattern == '#') {
            if (!take_number(&key, entry)) {
                return false;
            }
        } else if (*pattern == '@') {
            if (*key == '\0' || !take_list(&key, entry)) {
                return false;
            }
        } else if (*key++ != *pattern) {
            return false;
        }
    }
    return *key == '\0';
}

static void key_text(const struct galvatron_entry *entry, struct strbuf *out)
{
    uint32_t at = 0;
    for (const char *p = entry->pattern; *p != '\0'; p++) {
        if (*p == '#') {
            strbuf_printf(out, "%" PRIu32, entry->numbers[at++]);
        } else if (*p == '@') {
            uint32_t length = entry->numbers[at++];
            for (uint32_t i = 0; i < length; i++) {
                strbuf_printf(out, "%c%" PRIu32, i == 0 ? '[' : ',', entry->numbers[at++]);
            }
            strbuf_char(out, ']');
        } else {
            strbuf_char(out, *p);
        }
    }
}

static const struct pattern *find_pattern(enum place place, const char *key, bool is_group,
                                          struct galvatron_entry *entry)
{
    for (uint32_t i = 0; i < PATTERN_COUNT; i++) {
        const struct pattern *pattern = &patterns[i];
        if (pattern->place == place && (pattern->inside != PLACE_NONE) == is_group &&
            match(pattern->text, key, entry)) {
            return pattern;
        }
    }
    return NULL;
}

/* ---- reading ---- */

static uint32_t count_members(const struct json *object)
{
    uint32_t count = 0;
    for (size_t i = 0; i < json_count(object); i++) {
        const char *key;
        struct json child;
        json_member(object, i, &key, &child);
        count += 1 + (json_type(&child) == JSON_OBJECT ? count_members(&child) : 0);
    }
    return count;
}

static enum status unknown_key(enum place place, const struct json *at, const char *key, struct error *error)
{
    struct strbuf known = { 0 };
    for (uint32_t i = 0; i < PATTERN_COUNT; i++) {
        if (patterns[i].place == place && known.length < 600) {
            strbuf_printf(&known, "%s%s%s", known.length > 0 ? ", " : "", patterns[i].text,
                          patterns[i].inside == PLACE_NONE ? "" : " {}");
        }
    }
    enum status status =
        json_error(at, error, "no key \"%.80s\" with %s in Galvatron's files here. Known (# a number, @ a list): %s",
                   key, json_type_word(json_type(at)), known.text != NULL ? known.text : "");
    strbuf_free(&known);
    return status;
}

static enum status read_object(struct galvatron_file *file, const struct json *object, enum place place, uint32_t depth,
                               struct error *error)
{
    if (json_count(object) == 0) {
        return json_error(object, error, "nothing in it: measurements are missing");
    }
    for (size_t i = 0; i < json_count(object); i++) {
        const char *key;
        struct json child;
        json_member(object, i, &key, &child);
        bool is_group = json_type(&child) == JSON_OBJECT;
        struct galvatron_entry *entry = &file->entries[file->entry_count++];
        const struct pattern *pattern = find_pattern(place, key, is_group, entry);
        if (pattern == NULL) {
            return unknown_key(place, &child, key, error);
        }
        entry->pattern = pattern->text;
        entry->unit = pattern->unit;
        entry->depth = depth;
        if (is_group) {
            TRY(read_object(file, &child, pattern->inside, depth + 1, error));
            continue;
        }
        TRY(json_as_real(&child, -1e300, 1e300, &entry->value, error));
        if (entry->value < pattern->min || entry->value > pattern->max) {
            return json_error(&child, error, "found %g; allowed: %g to %g %s (is the unit another one?)", entry->value,
                              pattern->min, pattern->max, pattern->unit);
        }
    }
    return STATUS_OK;
}

/* Every measured strategy has its three parts. */
static enum status check_triples(const struct galvatron_file *file, const struct json *root, struct error *error)
{
    static const char *const stems[] = { "layernum@_bsz#_rank#", "layernum@_bsz#_seq#_rank#",
                                         "layernum@_bsz#_seq@_rank#" };
    static const char *const parts[] = { "_ms", "_act", "_act_peak" };
    uint32_t first = 0;
    for (uint32_t i = 0; i < file->entry_count; i++) {
        const struct galvatron_entry *entry = &file->entries[i];
        if (entry->depth == 0) {
            first = i + 1;
            continue;
        }
        for (uint32_t k = 0; k < 9; k++) {
            char pattern[64];
            size_t stem = strlen(stems[k / 3]);
            snprintf(pattern, sizeof pattern, "%s%s", stems[k / 3], parts[k % 3]);
            if (strncmp(entry->pattern, stems[k / 3], stem) != 0 ||
                !isnan(galvatron_file_value(file, first, 1, pattern, entry->numbers, entry->number_count))) {
                continue;
            }
            struct strbuf have = { 0 };
            key_text(entry, &have);
            enum status status =
                json_error(root, error, "beside \"%s\" its \"%s\" is missing: three parts are measured",
                           have.text != NULL ? have.text : "", parts[k % 3]);
            strbuf_free(&have);
            return status;
        }
    }
    return STATUS_OK;
}

enum status galvatron_file_read(struct galvatron_file *file, const struct json *root, struct arena *arena,
                                struct error *error)
{
    *file = (struct galvatron_file){ 0 };
    if (json_type(root) != JSON_OBJECT || json_count(root) == 0) {
        return json_error(root, error, "found %s; a profile of Galvatron is an object of measurements",
                          json_type_word(json_type(root)));
    }
    const char *key;
    struct json child;
    struct galvatron_entry scratch;
    json_member(root, 0, &key, &child);
    for (uint32_t kind = 0;; kind++) {
        if (kind == GALVATRON_FILE_KIND_COUNT) {
            return json_error(&child, error,
                              "\"%.80s\" is no key of a hardware, computation or memory profile of Galvatron", key);
        }
        if (find_pattern((enum place)kind, key, json_type(&child) == JSON_OBJECT, &scratch) != NULL) {
            file->kind = (enum galvatron_file_kind)kind;
            break;
        }
    }
    uint32_t count = count_members(root);
    if (count > GALVATRON_ENTRIES_MAX) {
        return json_error(root, error, "%" PRIu32 " keys; allowed: up to %d", count, GALVATRON_ENTRIES_MAX);
    }
    file->entries = arena_array(arena, struct galvatron_entry, count);
    if (file->entries == NULL) {
        return error_set(error, STATUS_NO_MEMORY, "out of memory reading a profile");
    }
    TRY(read_object(file, root, (enum place)file->kind, 0, error));
    return file->kind == GALVATRON_FILE_MEMORY ? check_triples(file, root, error) : STATUS_OK;
}

enum status galvatron_file_load(struct galvatron_file *file, const char *path, struct arena *arena, struct error *error)
{
    struct json_document *document = NULL;
    struct json root;
    TRY(json_load(&document, path, (size_t)4 << 20, error));
    json_root(document, &root);
    enum status status = galvatron_file_read(file, &root, arena, error);
    json_free(document);
    return status;
}

double galvatron_file_value(const struct galvatron_file *file, uint32_t first, uint32_t depth, const char *pattern,
                            const uint32_t *numbers, uint32_t number_count)
{
    for (uint32_t i = first; i < file->entry_count && file->entries[i].depth >= depth; i++) {
        const struct galvatron_entry *entry = &file->entries[i];
        if (entry->unit != NULL && entry->number_count == number_count && strcmp(entry->pattern, pattern) == 0 &&
            (number_count == 0 || memcmp(entry->numbers, numbers, number_count * sizeof *numbers) == 0)) {
            return entry->value;
        }
    }
    return NAN;
}

/* ---- writing ---- */

static void indent(struct strbuf *out, uint32_t levels)
{
    strbuf_printf(out, "\n%*s", (int)(4 * levels), "");
}

void galvatron_file_write(const struct galvatron_file *file, struct strbuf *out)
{
    uint32_t depth = 0;
    char number[32];
    strbuf_char(out, '{');
    for (uint32_t i = 0; i < file->entry_count; i++) {
        const struct galvatron_entry *entry = &file->entries[i];
        for (; depth > entry->depth; depth--) {
            indent(out, depth);
            strbuf_char(out, '}');
        }
        if (i > 0 && file->entries[i - 1].depth >= entry->depth) {
            strbuf_char(out, ',');
        }
        indent(out, entry->depth + 1);
        strbuf_char(out, '"');
        key_text(entry, out);
        strbuf_append(out, "\": ");
        if (entry->unit == NULL) {
            strbuf_char(out, '{');
            depth = entry->depth + 1;
        } else {
            strbuf_append(out, text_real(entry->value, number, sizeof number));
        }
    }
    for (; depth > 0; depth--) {
        indent(out, depth);
        strbuf_char(out, '}');
    }
    strbuf_append(out, "\n}");
}

/* ---- into a profile ---- */

static enum status degree(uint32_t value, uint32_t gpus, struct error *error)
{
    if (value == 0 || (value & (value - 1)) != 0 || value > gpus) {
        return error_set(error, STATUS_BAD_INPUT,
                         "the file has a group of %" PRIu32 " devices; allowed: powers of two up to %" PRIu32
                         ", the machine's devices",
                         value, gpus);
    }
    return STATUS_OK;
}

enum status galvatron_hardware_add(const struct galvatron_file *file, struct galvatron_hardware_profile *hardware,
                                   struct error *error)
{
    if (file->kind != GALVATRON_FILE_HARDWARE) {
        return error_set(error, STATUS_BAD_INPUT, "a %s profile where one of hardware is wanted",
                         galvatron_file_kind_word(file->kind));
    }
    TRY(galvatron_check_gpus(hardware->gpus, error));
    for (uint32_t i = 0; i < file->entry_count; i++) {
        const struct galvatron_entry *entry = &file->entries[i];
        const uint32_t *n = entry->numbers;
        bool three = strcmp(entry->pattern, "#_#_#") == 0;
        bool flagged = strcmp(entry->pattern, "allreduce_size_#_consec_#") == 0;
        if (strcmp(entry->pattern, "overlap_coe") == 0) {
            hardware->overlap = entry->value;
            continue;
        }
        TRY(degree(n[0], hardware->gpus, error));
        if (strncmp(entry->pattern, "pp_", 3) == 0) {
            hardware->p2p[galvatron_log2(n[0])] = strcmp(entry->unit, "GB/s") == 0 ? 1 / entry->value : entry->value;
        } else if (three || flagged || strcmp(entry->pattern, "allreduce_size_#") == 0) {
            uint32_t pipeline = three ? n[0] : 1, size = three ? n[1] : n[0], flag = three ? n[2] : flagged ? n[1] : 2;
            TRY(degree(size, hardware->gpus / pipeline, error));
            if (flag > 2 || (flag == 2 && entry->number_count != 1)) {
                return error_set(error, STATUS_BAD_INPUT, "a flag of consecutive ranks is %" PRIu32 "; allowed: 0, 1",
                                 flag);
            }
            double *both = hardware->all_reduce[galvatron_log2(pipeline)][galvatron_log2(size)];
            double ms = three ? entry->value : 1 / entry->value;
            bool whole = size == hardware->gpus / pipeline || flag == 2;
            both[0] = flag == 0 || whole ? ms : both[0];
            both[1] = flag == 1 || whole ? ms : both[1];
        } /* tables of latencies: not part of a profile */
    }
    return STATUS_OK;
}
