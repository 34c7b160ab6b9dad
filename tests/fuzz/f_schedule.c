/* Fuzz the schedule's loaders and the verifier: printed random schedules mutated by lines, words and bytes, and schedules mutated in their arrays. What loads must print
 * and load back to itself; what sched_verify accepts must hash, print in both forms and come back equal; nothing may crash or hang (run under ASan and UBSan). */
#include "sim/ir/schedule_text.h"
#include "sim/ir/verify.h"
#include "tests/fuzz/fuzz.h"
#include "tests/schedule_gen.h"

typedef void (*printer)(const struct schedule *, struct strbuf *);
typedef enum status (*loader)(struct schedule *, const char *, size_t, const char *, struct error *);

static void check_round_trip(const struct schedule *s, printer print, loader load)
{
    struct strbuf first = { 0 }, second = { 0 };
    struct schedule again = { 0 };
    struct error error = { 0 };
    print(s, &first);
    if (load(&again, first.text, first.length, "again", &error) != STATUS_OK) {
        TEST_FAIL_("what was printed does not load: %s %s", error.path, error.message);
    } else {
        print(&again, &second);
        struct hash a = schedule_hash(s), b = schedule_hash(&again);
        EXPECT(first.length == second.length && memcmp(first.text, second.text, first.length) == 0);
        EXPECT(a.a == b.a && a.b == b.b);
    }
    schedule_free(&again);
    strbuf_free(&first);
    strbuf_free(&second);
}

/* Bytes, words and lines out of place. */
static void mutate_text(struct strbuf *text, uint64_t *random)
{
    static const char *const words[] = { "0",     "1",          "4294967295", "4294967296", "9007199254740992",
                                         "-1",    "1e308",      "nan",        "b0",         "q1",
                                         "w2",    "0..1048575", "\"",         "\\u0041",    "acquire",
                                         "after", "null",       "[",          "{}",         "\"\xff\"",
                                         "mb" };
    for (uint64_t changes = 1 + test_below(random, 3); changes > 0 && text->length > 2; changes--) {
        size_t at = test_below(random, text->length);
        switch (test_below(random, 5)) {
        case 0: text->text[at] = (char)test_below(random, 256); break;
        case 1: text->text[at] = text->text[test_below(random, text->length)]; break;
        case 2: { /* a word */
            const char *word = words[test_below(random, sizeof words / sizeof words[0])];
            size_t length = strlen(word) < text->length - at ? strlen(word) : text->length - at;
            memcpy(text->text + at, word, length);
            break;
        }
        case 3: { /* a stretch from elsewhere */
            size_t from = test_below(random, text->length), longest = text->length - (at > from ? at : from);
            memmove(text->text + at, text->text + from, test_below(random, (longest < 60 ? longest : 60) + 1));
            break;
        }
        default: /* cut */
            if (test_below(random, 4) == 0) {
                text->length = at + 1;
            } else {
                size_t cut = test_below(random, text->length - at < 40 ? text->length - at : 40);
                memmove(text->text + at, text->text + at + cut, text->length - at - cut);
                text->length -= cut;
            }
        }
    }
}

static void fuzz_text(const struct schedule *s, printer print, loader load, uint64_t *random)
{
    struct strbuf text = { 0 };
    struct schedule loaded = { 0 };
    struct error error = { 0 };
    print(s, &text);
    mutate_text(&text, random);
    /* An exact copy, so that reading past the end is seen. */
    char *exact = malloc(text.length + 1);
    memcpy(exact, text.text, text.length);
    exact = realloc(exact, text.length == 0 ? 1 : text.length);
    if (load(&loaded, exact, text.length, "fuzz", &error) == STATUS_OK) {
        if (sched_verify(&loaded, &error) == STATUS_OK) {
            check_round_trip(&loaded, schedule_print_text, schedule_parse_text);
            check_round_trip(&loaded, schedule_print_json, schedule_parse_json);
        }
    } else {
        EXPECT(error.message[0] != '\0');
    }
    schedule_free(&loaded);
    free(exact);
    strbuf_free(&text);
}

static uint32_t odd_value(uint64_t *random)
{
    static const uint32_t values[] = { 0, 1, 2, 3, 7, 64, 255, 65535, 65536, 0x7fffffff, 0x80000000, 0xffffffff };
    return test_below(random, 3) == 0 ? (uint32_t)test_random(random)
                                      : values[test_below(random, sizeof values / sizeof values[0])];
}

/* Four bytes (or one) of any record become something else. */
static void mutate_arrays(struct schedule *s, uint64_t *random)
{
    struct {
        void *items;
        size_t bytes;
    } arrays[] = { { s->ranks, s->rank_count * sizeof *s->ranks },
                   { s->queues, s->queue_count * sizeof *s->queues },
                   { s->spaces, s->space_count * sizeof *s->spaces },
                   { s->buffers, s->buffer_count * sizeof *s->buffers },
                   { s->ops, s->op_count * sizeof *s->ops },
                   { s->ops, s->op_count * sizeof *s->ops },
                   { s->works, s->work_count * sizeof *s->works },
                   { s->work_items, s->work_item_count * sizeof *s->work_items },
                   { s->kernels, s->kernel_count * sizeof *s->kernels },
                   { s->groups, s->group_count * sizeof *s->groups },
                   { s->matches, s->match_count * sizeof *s->matches },
                   { s->devices, s->device_count * sizeof *s->devices },
                   { s->group_members, s->group_member_count * sizeof *s->group_members },
                   { s->operands, s->operand_count * sizeof *s->operands },
                   { s->operands, s->operand_count * sizeof *s->operands },
                   { s->dependencies, s->dependency_count * sizeof *s->dependencies } };
    size_t which = test_below(random, sizeof arrays / sizeof arrays[0]);
    char *bytes = arrays[which].items;
    if (arrays[which].bytes == 0) {
        return;
    }
    uint32_t value = odd_value(random);
    if (test_below(random, 2) == 0) { /* a neighbour's value: more often right */
        memcpy(&value, bytes + 4 * test_below(random, arrays[which].bytes / 4), 4);
    }
    size_t width = test_below(random, 3) == 0 ? 1 : 4;
    memcpy(bytes + width * test_below(random, arrays[which].bytes / width), &value, width);
}

static void fuzz_arrays(struct schedule *s, uint64_t *random)
{
    struct error error = { 0 };
    for (uint64_t changes = 1 + test_below(random, 3); changes > 0; changes--) {
        mutate_arrays(s, random);
    }
    enum status status = sched_verify(s, &error);
    EXPECT(status == STATUS_OK || status == STATUS_BAD_SCHEDULE || status == STATUS_DOES_NOT_FIT);
    if (status == STATUS_OK) {
        (void)schedule_hash(s);
        check_round_trip(s, schedule_print_text, schedule_parse_text);
        check_round_trip(s, schedule_print_json, schedule_parse_json);
    }
}

static void fuzz_round(uint64_t seed)
{
    uint64_t random = seed;
    struct schedule_gen gen = { .ranks = 1 + (uint32_t)test_below(&random, 4),
                                .events = 1 + (uint32_t)test_below(&random, 12),
                                .devices_per_rank = 1 + (uint32_t)test_below(&random, 3),
                                .tight = test_below(&random, 2) == 0 };
    struct schedule s;
    schedule_gen(&gen, test_random(&random), &s);
    for (unsigned i = 0; i < 4; i++) {
        fuzz_text(&s, schedule_print_text, schedule_parse_text, &random);
    }
    fuzz_text(&s, schedule_print_json, schedule_parse_json, &random);
    fuzz_arrays(&s, &random);
    schedule_free(&s);
}

int main(int argc, char **argv)
{
    return fuzz_run(fuzz_round, argc, argv);
}
