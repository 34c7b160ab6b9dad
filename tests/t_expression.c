/* The expressions of sweeps. */
#include "sim/sweep/expression.h"
#include "tests/test.h"

static const char *const names[] = { "a", "b", "order", "flag", "training.global_batch" };
static const struct expression_value values[] = { { .kind = VALUE_NUMBER, .number = 12 },
                                                  { .kind = VALUE_NUMBER, .number = 5 },
                                                  { .kind = VALUE_TEXT, .text = "gpipe" },
                                                  { .kind = VALUE_BOOL, .boolean = true },
                                                  { .kind = VALUE_NUMBER, .number = 64 } };

static enum status find(void *context, const char *name, uint32_t *index, struct error *error)
{
    (void)context;
    for (uint32_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(names[i], name) == 0) {
            *index = i;
            return STATUS_OK;
        }
    }
    return error_set(error, STATUS_BAD_INPUT, "no name %s", name);
}

static enum status evaluate(const char *text, struct expression_value *value, struct error *error)
{
    struct expression e;
    enum status status = expression_parse(&e, text, find, NULL, error);
    if (status == STATUS_OK) {
        status = expression_evaluate(&e, values, value, error);
        expression_free(&e);
    }
    return status;
}

static void test_numbers(void)
{
    static const struct {
        const char *text;
        double value;
    } cases[] = { { "1 + 2 * 3", 7 },
                  { "(1 + 2) * 3", 9 },
                  { "2 - 3 - 4", -5 },
                  { "a / b", 2.4 },
                  { "a % b", 2 },
                  { "-a % b", -2 },
                  { "--3", 3 },
                  { "2 * -3", -6 },
                  { "min(3, a, b)", 3 },
                  { "max(3, a, b)", 12 },
                  { "floor(a / b) + ceil(a / b)", 5 },
                  { "round(2.5) + round(-2.5)", 0 },
                  { "sqrt(16) + log2(8) + pow(2, 10)", 1031 },
                  { "if(order == 'gpipe', 1, 2)", 1 },
                  { "if(a < b, 1 / 0, 7)", 7 },
                  { "training.global_batch / 2", 32 },
                  { "1e3 + .5", 1000.5 } };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct expression_value value = { 0 };
        struct error error = { 0 };
        EXPECT_INT(evaluate(cases[i].text, &value, &error), STATUS_OK);
        EXPECT_INT(value.kind, VALUE_NUMBER);
        EXPECT_REAL(value.number, cases[i].value, 0);
    }
}

static void test_truth(void)
{
    static const struct {
        const char *text;
        bool value;
    } cases[] = { { "a * b == 60", true },
                  { "a == 12 and b != 5", false },
                  { "a == 12 or 1 / 0 == 1", true },
                  { "a == 13 and 1 / 0 == 1", false },
                  { "not a == 13", true },
                  { "not flag or a == 12", true },
                  { "order in ('1f1b', \"gpipe\")", true },
                  { "a in (1, 2, b)", false },
                  { "divides(3, a) and not divides(5, a)", true },
                  { "divides(0, a)", false },
                  { "order == 5", false },
                  { "flag == true", true },
                  { "null == null", true },
                  { "a <= 12 and a >= 12 and not a < 12 and not a > 12", true },
                  { "a == 12 || b == 0 && false", true } };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct expression_value value = { 0 };
        struct error error = { 0 };
        EXPECT_INT(evaluate(cases[i].text, &value, &error), STATUS_OK);
        EXPECT_INT(value.kind, VALUE_BOOL);
        EXPECT_INT(value.boolean, cases[i].value);
    }
}

static void test_refused(void)
{
    static const struct {
        const char *text, *part;
    } cases[] = { { "", "ends where a value is expected" },
                  { "1 +", "ends where a value is expected" },
                  { "(1", "expected )" },
                  { "1 2", "column 3" },
                  { "1 < 2 < 3", "do not chain" },
                  { "c + 1", "no name c" },
                  { "minn(1, 2)", "did you mean min" },
                  { "pow(1)", "takes 2 to 2 arguments" },
                  { "'open", "closing" },
                  { "a in 3", "a list after in" },
                  { "1 / 0", "no finite number" },
                  { "0 % 0", "no finite number" },
                  { "sqrt(0 - 1)", "no finite number" },
                  { "order + 1", "wants a number, found a text" },
                  { "a and true", "wants true or false, found a number" },
                  { "0x10", "not a number" },
                  { "1e999", "not a number" },
                  { "!flag", "expected a number, a 'text', a name or (" },
                  { "a = 3", "column 3" } };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct expression_value value;
        struct error error = { 0 };
        EXPECT_INT(evaluate(cases[i].text, &value, &error), STATUS_BAD_INPUT);
        EXPECT_PART(error.message, cases[i].part);
    }
}

/* Deep and long texts end with an error, or a value, not with the stack. */
static void test_limits(void)
{
    char text[EXPRESSION_BYTES_MAX + 16];
    struct expression_value value;
    struct error error = { 0 };
    memset(text, '(', 1000);
    text[1000] = '\0';
    EXPECT_INT(evaluate(text, &value, &error), STATUS_BAD_INPUT);
    EXPECT_PART(error.message, "nested deeper");
    memset(text, '-', 1000);
    EXPECT_INT(evaluate(text, &value, &error), STATUS_BAD_INPUT);
    for (size_t i = 0; i < 1999; i++) {
        memcpy(text + 2 * i, "1+", 3);
    }
    strcpy(text + 2 * 1999, "1");
    EXPECT_INT(evaluate(text, &value, &error), STATUS_OK);
    EXPECT_REAL(value.number, 2000, 0);
    memset(text, ' ', EXPRESSION_BYTES_MAX + 1);
    text[EXPRESSION_BYTES_MAX + 1] = '\0';
    EXPECT_INT(evaluate(text, &value, &error), STATUS_LIMIT);
}

TEST_MAIN(TEST(test_numbers), TEST(test_truth), TEST(test_refused), TEST(test_limits))
