/* Fuzz expressions: random token strings. What parses evaluates to a value or an error with a reason, twice the same; numbers are finite. Nothing may crash (run under ASan and UBSan). */
#include "sim/sweep/expression.h"
#include "tests/fuzz/fuzz.h"

static const char *const tokens[] = { "a",     "b",    "c.d", "zz",  "1",     "0",    "2.5",     "1e300", "'x'",
                                      "\"",    "(",    ")",   ",",   "+",     "-",    "*",       "/",     "%",
                                      "==",    "!=",   "<",   "<=",  ">",     ">=",   "and",     "or",    "not",
                                      "in",    "if",   "min", "max", "floor", "pow",  "divides", "log2",  "true",
                                      "false", "null", "&&",  "||",  "=",     "\xc3", "." };
enum { TOKEN_COUNT = sizeof tokens / sizeof tokens[0], LENGTH_MAX = 24 };

static enum status find(void *context, const char *name, uint32_t *index, struct error *error)
{
    (void)context;
    *index = name[0] == 'a' ? 0 : name[0] == 'b' ? 1 : 2;
    return name[0] == 'z' ? error_set(error, STATUS_BAD_INPUT, "no such name") : STATUS_OK;
}

static void one(uint64_t seed)
{
    uint64_t state = seed;
    const struct expression_value values[] = { { .kind = VALUE_NUMBER, .number = (double)test_below(&state, 9) - 4 },
                                               { .kind = VALUE_TEXT, .text = "x" },
                                               { .kind = VALUE_JSON, .text = "[1]" } };
    char text[1024] = "";
    size_t count = test_below(&state, LENGTH_MAX) + 1, length = 0;
    for (size_t i = 0; i < count; i++) {
        length += (size_t)snprintf(text + length, sizeof text - length, "%s%s", tokens[test_below(&state, TOKEN_COUNT)],
                                   test_below(&state, 4) == 0 ? "" : " ");
    }
    struct expression e;
    struct error error = { 0 };
    if (expression_parse(&e, text, find, NULL, &error) != STATUS_OK) {
        EXPECT(error.message[0] != '\0');
        return;
    }
    struct expression_value first = { 0 }, second = { 0 };
    enum status status = expression_evaluate(&e, values, &first, &error);
    EXPECT_INT(expression_evaluate(&e, values, &second, &error), status);
    if (status == STATUS_OK) {
        EXPECT(expression_value_equal(&first, &second));
        EXPECT(first.kind != VALUE_NUMBER || isfinite(first.number));
    } else {
        EXPECT(error.message[0] != '\0');
    }
    expression_free(&e);
}

static void round_of(uint64_t seed)
{
    for (uint64_t i = 0; i < 1000 && test_failures == 0; i++) {
        one(seed * 1000 + i);
    }
}

int main(int argc, char **argv)
{
    return fuzz_run(round_of, argc, argv);
}
