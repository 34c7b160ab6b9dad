#include "sim/plan/order_table_internal.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/array.h"
#include "sim/base/check.h"

enum { TABLE_STEPS_MAX = 4 << 20, TABLE_VIRTUAL_MAX = 16 * ORDER_STAGES_MAX };

/* A step as the file writes it. */
struct word {
    uint8_t kind;
    uint32_t micro_batch, virtual_stage;
};

struct parse {
    const char *file;
    struct error *error;
    struct {
        struct word *items;
        size_t count, capacity;
    } words;
    struct {
        uint32_t *items; /* of each stage into words */
        size_t count, capacity;
    } firsts;
    bool dotted, plain, splits;
    uint32_t micro_batches, virtual_stages; /* of all stages */
};

static const char LETTERS[STEP_KIND_COUNT] = { 'F', 'B', 'W' };

void order_table_word(const struct order_table *t, uint32_t kind, uint32_t micro_batch, uint32_t virtual_stage,
                      char text[ORDER_WORD_BYTES])
{
    if (t->virtual_stages == 1) {
        snprintf(text, ORDER_WORD_BYTES, "%c%u", LETTERS[kind], micro_batch);
    } else {
        snprintf(text, ORDER_WORD_BYTES, "%c%u.%u", LETTERS[kind], micro_batch, virtual_stage);
    }
}

static enum status at(const struct parse *p, uint32_t stage, uint32_t position, const char *text)
{
    char path[64];
    snprintf(path, sizeof path, "stage %u, position %u", stage, position + 1);
    return error_at(p->error, STATUS_BAD_INPUT, p->file, path, "%s", text);
}

static bool read_number(const char **text, uint32_t limit, uint32_t *value)
{
    uint64_t number = 0;
    const char *from = *text;
    for (; isdigit((unsigned char)**text) && number <= limit; (*text)++) {
        number = number * 10 + (uint64_t)(**text - '0');
    }
    *value = (uint32_t)number;
    return *text != from && number < limit;
}

static enum status read_word(struct parse *p, const char *text, uint32_t stage, uint32_t position)
{
    struct word word = { 0 };
    const char *rest = text;
    const char *letter = *rest == '\0' ? NULL : memchr(LETTERS, toupper((unsigned char)*rest), sizeof LETTERS);
    bool good = letter != NULL;
    if (good) {
        word.kind = (uint8_t)(letter - LETTERS);
        rest++;
        good = read_number(&rest, ORDER_MICRO_BATCHES_MAX, &word.micro_batch);
    }
    if (good && *rest == '.') {
        rest++;
        p->dotted = true;
        good = read_number(&rest, TABLE_VIRTUAL_MAX, &word.virtual_stage);
    } else {
        p->plain = true;
        word.virtual_stage = stage;
    }
    if (!good || *rest != '\0') {
        char message[160];
        if (word.micro_batch >= ORDER_MICRO_BATCHES_MAX || word.virtual_stage >= TABLE_VIRTUAL_MAX) {
            snprintf(message, sizeof message, "\"%.32s\": micro-batches go up to %d, virtual stages up to %d", text,
                     ORDER_MICRO_BATCHES_MAX - 1, TABLE_VIRTUAL_MAX - 1);
        } else {
            snprintf(
                message, sizeof message,
                "\"%.32s\" is no step: F, B or W with a micro-batch (F3), and with chunks the virtual stage (F3.5)",
                text);
        }
        return at(p, stage, position, message);
    }
    if (p->dotted && p->plain) {
        return at(p, stage, position, "some steps name a virtual stage and some do not: name it on all or on none");
    }
    p->splits = p->splits || word.kind == STEP_BACKWARD_WEIGHT;
    p->micro_batches = word.micro_batch >= p->micro_batches ? word.micro_batch + 1 : p->micro_batches;
    p->virtual_stages = word.virtual_stage >= p->virtual_stages ? word.virtual_stage + 1 : p->virtual_stages;
    TRY(array_reserve(&p->words, 1, p->error));
    p->words.items[p->words.count++] = word;
    return STATUS_OK;
}

static enum status read_line(struct parse *p, char *line)
{
    uint32_t stage = (uint32_t)p->firsts.count, position = 0;
    char *rest = line;
    line[strcspn(line, "#")] = '\0';
    for (char *word; (word = strsep(&rest, " \t,")) != NULL;) {
        if (*word == '\0') {
            continue;
        }
        if (position == 0) {
            if (stage == ORDER_STAGES_MAX) {
                return error_at(p->error, STATUS_LIMIT, p->file, NULL, "more than %d stages", ORDER_STAGES_MAX);
            }
            TRY(array_reserve(&p->firsts, 1, p->error));
            p->firsts.items[p->firsts.count++] = (uint32_t)p->words.count;
        }
        if (p->words.count == TABLE_STEPS_MAX) {
            return error_at(p->error, STATUS_LIMIT, p->file, NULL, "more than %d steps", TABLE_STEPS_MAX);
        }
        TRY(read_word(p, word, stage, position++));
    }
    return STATUS_OK;
}

static enum status read_lines(struct parse *p, const char *text, size_t length)
{
    if (memchr(text, '\0', length) != NULL) {
        return error_at(p->error, STATUS_BAD_INPUT, p->file, NULL, "a NUL byte: this is no text file");
    }
    char *copy = strndup(text, length), *rest = copy;
    enum status status =
        copy == NULL ? error_set(p->error, STATUS_NO_MEMORY, "no memory for a schedule file") : STATUS_OK;
    for (char *line; status == STATUS_OK && (line = strsep(&rest, "\r\n")) != NULL;) {
        status = read_line(p, line);
    }
    free(copy);
    if (status == STATUS_OK && p->firsts.count == 0) {
        return error_at(p->error, STATUS_BAD_INPUT, p->file, NULL, "no step: one line a stage, like F0 F1 B0 B1");
    }
    return status;
}

/* ---- from words to a table ---- */

/* Virtual stages that do not divide: told at the first step of the highest. */
static enum status uneven(const struct parse *p)
{
    uint32_t stages = (uint32_t)p->firsts.count, fewer = p->virtual_stages / stages * stages, stage = 0;
    size_t i = 0;
    char text[160], below[48] = "";
    CHECK(p->words.items != NULL && p->firsts.items != NULL);
    while (p->words.items[i].virtual_stage + 1 < p->virtual_stages) {
        i++;
    }
    while (stage + 1 < stages && p->firsts.items[stage + 1] <= i) {
        stage++;
    }
    if (fewer > 0) {
        snprintf(below, sizeof below, ", or no further than %u", fewer - 1);
    }
    snprintf(text, sizeof text,
             "%u virtual stages on %u stages: every stage must hold equally many: name them up to %u%s",
             p->virtual_stages, stages, fewer + stages - 1, below);
    return at(p, stage, (uint32_t)i - p->firsts.items[stage], text);
}

static enum status allocate(struct order_table *t, const struct parse *p)
{
    uint32_t stages = (uint32_t)p->firsts.count;
    CHECK(stages > 0 && p->firsts.items != NULL && p->words.items != NULL);
    t->stages = stages;
    t->micro_batches = p->micro_batches;
    t->splits_backward = p->splits;
    t->virtual_stages = p->dotted ? p->virtual_stages / stages : 1;
    if (p->dotted && p->virtual_stages % stages != 0) {
        return uneven(p);
    }
    t->steps = arena_array(&t->arena, struct order_step *, stages);
    t->counts = arena_array(&t->arena, uint32_t, stages);
    t->placement = arena_array(&t->arena, uint32_t, (size_t)stages * t->virtual_stages);
    if (t->steps == NULL || t->counts == NULL || t->placement == NULL) {
        return error_set(p->error, STATUS_NO_MEMORY, "no memory for a schedule of %u stages", stages);
    }
    return STATUS_OK;
}

/* Each virtual stage belongs to the first line that names it; chunks of a stage rise. */
static enum status place(struct order_table *t, const struct parse *p, uint32_t *holders)
{
    CHECK(p->firsts.items != NULL && p->words.items != NULL);
    uint32_t all = t->stages * t->virtual_stages;
    for (uint32_t v = 0; v < all; v++) {
        holders[v] = UINT32_MAX;
    }
    for (uint32_t s = 0; s < t->stages; s++) {
        uint32_t end = s + 1 < t->stages ? p->firsts.items[s + 1] : (uint32_t)p->words.count;
        for (uint32_t i = p->firsts.items[s]; i < end; i++) {
            uint32_t *holder = &holders[p->words.items[i].virtual_stage];
            *holder = *holder == UINT32_MAX ? s : *holder;
            if (*holder != s) {
                char message[96];
                snprintf(message, sizeof message, "virtual stage %u is on stage %u already: it lives on one",
                         p->words.items[i].virtual_stage, *holder);
                return at(p, s, i - p->firsts.items[s], message);
            }
        }
    }
    for (uint32_t s = 0; s < t->stages; s++) {
        uint32_t chunk = 0;
        for (uint32_t v = 0; v < all; v++) {
            if (holders[v] == s && chunk < t->virtual_stages) {
                t->placement[s * t->virtual_stages + chunk] = v;
            }
            chunk += holders[v] == s;
        }
        if (chunk != t->virtual_stages) {
            char message[96];
            snprintf(message, sizeof message, "the stage holds %u virtual stages, every stage must hold %u", chunk,
                     t->virtual_stages);
            return at(p, s, 0, message);
        }
    }
    return STATUS_OK;
}

static uint32_t chunk_of(const struct order_table *t, uint32_t stage, uint32_t virtual_stage)
{
    uint32_t chunk = 0;
    while (t->placement[stage * t->virtual_stages + chunk] != virtual_stage) {
        chunk++;
    }
    return chunk;
}

/* Twice, missing, before what it needs. `positions` [chunks * micro-batches * kinds], 0: not there. */
static enum status check_stage(const struct order_table *t, const struct parse *p, uint32_t s, uint32_t *positions)
{
    uint32_t kinds = t->splits_backward ? 3 : 2;
    size_t cells = (size_t)t->virtual_stages * t->micro_batches * kinds;
    char word[ORDER_WORD_BYTES], before[ORDER_WORD_BYTES], message[160];
    memset(positions, 0, cells * sizeof *positions);
    for (uint32_t i = 0; i < t->counts[s]; i++) {
        const struct order_step *step = &t->steps[s][i];
        uint32_t v = t->placement[s * t->virtual_stages + step->chunk];
        uint32_t *cell = &positions[((size_t)step->chunk * t->micro_batches + step->micro_batch) * kinds + step->kind];
        order_table_word(t, step->kind, step->micro_batch, v, word);
        if (*cell != 0) {
            snprintf(message, sizeof message, "%s stands at position %u already: remove one", word, *cell);
            return at(p, s, i, message);
        }
        *cell = i + 1;
        if (step->kind > 0 && cell[-1] == 0) {
            order_table_word(t, step->kind - 1u, step->micro_batch, v, before);
            snprintf(message, sizeof message, "%s comes before %s: put %s in front of it", word, before, before);
            return at(p, s, i, message);
        }
    }
    for (size_t i = 0; i < cells; i++) {
        if (positions[i] == 0) {
            uint32_t chunk = (uint32_t)(i / kinds / t->micro_batches), kind = (uint32_t)(i % kinds);
            order_table_word(t, kind, (uint32_t)(i / kinds % t->micro_batches),
                             t->placement[s * t->virtual_stages + chunk], word);
            snprintf(message, sizeof message, "the stage never runs %s: add it", word);
            return at(p, s, kind > 0 ? positions[i - 1] : t->counts[s], message);
        }
    }
    return STATUS_OK;
}

static enum status build(struct order_table *t, const struct parse *p)
{
    TRY(allocate(t, p));
    uint32_t all = t->stages * t->virtual_stages;
    uint32_t *holders = arena_array(&t->arena, uint32_t, all);
    uint32_t *positions = arena_array(&t->arena, uint32_t, (size_t)t->virtual_stages * t->micro_batches * 3);
    if (holders == NULL || positions == NULL) {
        return error_set(p->error, STATUS_NO_MEMORY, "no memory for a schedule of %u stages", t->stages);
    }
    TRY(place(t, p, holders));
    CHECK(p->firsts.items != NULL && p->words.items != NULL);
    for (uint32_t s = 0; s < t->stages; s++) {
        uint32_t first = p->firsts.items[s];
        t->counts[s] = (s + 1 < t->stages ? p->firsts.items[s + 1] : (uint32_t)p->words.count) - first;
        t->steps[s] = arena_array(&t->arena, struct order_step, t->counts[s]);
        if (t->steps[s] == NULL) {
            return error_set(p->error, STATUS_NO_MEMORY, "no memory for a schedule of %u stages", t->stages);
        }
        for (uint32_t i = 0; i < t->counts[s]; i++) {
            const struct word *word = &p->words.items[first + i];
            t->steps[s][i] = (struct order_step){ .kind = word->kind,
                                                  .chunk = (uint16_t)chunk_of(t, s, word->virtual_stage),
                                                  .micro_batch = word->micro_batch };
        }
        TRY(check_stage(t, p, s, positions));
    }
    return order_table_check(t, p->file, p->error);
}

enum status order_table_parse(struct order_table *table, const char *text, size_t length, const char *file,
                              struct error *error)
{
    struct parse parse = { .file = file, .error = error };
    *table = (struct order_table){ 0 };
    enum status status = read_lines(&parse, text, length);
    if (status == STATUS_OK) {
        status = build(table, &parse);
    }
    array_free(&parse.words);
    array_free(&parse.firsts);
    if (status != STATUS_OK) {
        order_table_free(table);
    }
    return status;
}

void order_table_free(struct order_table *table)
{
    arena_free(&table->arena);
    *table = (struct order_table){ 0 };
}

bool order_table_copy(struct order_table *copy, const struct order_table *table, struct arena *arena)
{
    size_t chunks = (size_t)table->stages * table->virtual_stages;
    *copy = *table;
    copy->arena = (struct arena){ 0 };
    copy->steps = arena_array(arena, struct order_step *, table->stages);
    copy->counts = arena_array(arena, uint32_t, table->stages);
    copy->placement = arena_array(arena, uint32_t, chunks);
    if (copy->steps == NULL || copy->counts == NULL || copy->placement == NULL) {
        return false;
    }
    memcpy(copy->counts, table->counts, table->stages * sizeof *copy->counts);
    memcpy(copy->placement, table->placement, chunks * sizeof *copy->placement);
    for (uint32_t s = 0; s < table->stages; s++) {
        copy->steps[s] = arena_array(arena, struct order_step, table->counts[s]);
        if (copy->steps[s] == NULL) {
            return false;
        }
        memcpy(copy->steps[s], table->steps[s], table->counts[s] * sizeof *copy->steps[s]);
    }
    return true;
}

/* ---- printing, and as an order ---- */

void order_table_print(const struct order_table *t, struct strbuf *out)
{
    for (uint32_t s = 0; s < t->stages; s++) {
        for (uint32_t i = 0; i < t->counts[s]; i++) {
            const struct order_step *step = &t->steps[s][i];
            char word[ORDER_WORD_BYTES];
            order_table_word(t, step->kind, step->micro_batch, t->placement[s * t->virtual_stages + step->chunk], word);
            strbuf_printf(out, "%s%s", i > 0 ? " " : "", word);
        }
        strbuf_char(out, '\n');
    }
}

static enum status check(const struct order_request *request, struct error *error)
{
    const struct order_table *t = request->table;
    CHECK(t != NULL);
    if (request->stages != t->stages || request->micro_batches != t->micro_batches ||
        request->virtual_stages != t->virtual_stages) {
        return error_set(error, STATUS_BAD_INPUT,
                         "the schedule is for %u stages of %u chunks and %u micro-batches, not for %u of %u and %u",
                         t->stages, t->virtual_stages, t->micro_batches, request->stages, request->virtual_stages,
                         request->micro_batches);
    }
    return STATUS_OK;
}

static uint32_t placement(const struct order_request *request, uint32_t stage, uint32_t chunk)
{
    return request->table->placement[stage * request->virtual_stages + chunk];
}

static uint32_t build_steps(const struct order_request *request, uint32_t stage, struct order_step *steps)
{
    const struct order_table *t = request->table;
    memcpy(steps, t->steps[stage], t->counts[stage] * sizeof *steps);
    return t->counts[stage];
}

struct pipeline_order order_table_order(const struct order_table *table, const char *name)
{
    return (struct pipeline_order){ .abi = PIPELINE_ORDER_ABI,
                                    .name = name,
                                    .summary = "a schedule given step by step",
                                    .paper = "",
                                    .splits_backward = table->splits_backward,
                                    .virtual_stages = table->virtual_stages,
                                    .model_replicas = 1,
                                    .check = check,
                                    .placement = placement,
                                    .build = build_steps };
}
