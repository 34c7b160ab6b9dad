/* What kind of document a file is, what it lacks, names; text on its way to a terminal. */
#include "sim/base/printable.h"
#include "sim/base/schema.h"
#include "tests/test.h"

static enum status parse(struct json_document **document, const char *text, struct json *root, struct error *error)
{
    enum status status = json_parse(document, text, strlen(text), "t.json", error);
    if (status == STATUS_OK) {
        json_root(*document, root);
    }
    return status;
}

static void test_kinds(void)
{
    static const struct {
        const char *text, *part; /* NULL: fine */
        bool required;
    } cases[] = {
        { "{}", NULL, false },
        { "{\"schema\": null}", NULL, false },
        { "{\"schema\": \"memwall.machine/1\"}", NULL, true },
        { "{}", "missing key \"schema\": a machine has \"memwall.machine/1\"", true },
        { "[]", "expected a machine (an object), found an array", false },
        { "{\"schema\": 1}", "$.schema: expected a string", false },
        { "{\"schema\": \"memwall.machine/2\"}",
          "$.schema: \"memwall.machine/2\" is a machine of another memwall: this one reads \"memwall.machine/1\"",
          false },
        { "{\"tokens\": 1, \"schema\": \"memwall.plan/1\"}",
          "$.schema: this is a plan (\"memwall.plan/1\"), expected a machine (\"memwall.machine/1\"). memwall run "
          "SCENARIO.json --plan FILE takes it",
          false },
        { "{\"schema\": \"memwall.fit/1\"}", "this is an answer of memwall fit (\"memwall.fit/1\"), expected a machine",
          false },
        { "{\"schema\": \"memwall.machines/1\"}", "unknown schema \"memwall.machines/1\": expected", false },
        { "{\"schema\": \"chakra\"}", "unknown schema \"chakra\": expected \"memwall.machine/1\", a machine", false },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct json_document *document = NULL;
        struct json root;
        struct error error = { 0 };
        char text[2048];
        EXPECT_INT(parse(&document, cases[i].text, &root, &error), STATUS_OK);
        enum status status = schema_check(&root, "memwall.machine/1", cases[i].required, &error);
        EXPECT_INT(status, cases[i].part == NULL ? STATUS_OK : STATUS_BAD_INPUT);
        if (cases[i].part != NULL) {
            EXPECT_PART(error_text(&error, text, sizeof text), cases[i].part);
        }
        json_free(document);
    }
}

static void test_missing(void)
{
    static const char *const needed[] = { "name", "gpu.model", "gpu.l2_MB", "links", "host.cores" };
    struct json_document *document = NULL;
    struct json root;
    struct error error = { 0 };
    EXPECT_INT(
        parse(&document, "{\"gpu\": {\"l2_MB\": 1, \"model\": null}, \"links\": [], \"host\": 3}", &root, &error),
        STATUS_OK);
    EXPECT_INT(schema_need(&root, needed, 5, &error), STATUS_BAD_INPUT);
    EXPECT_TEXT(error.message, "missing keys: name, gpu.model");      /* host is no object: who reads it says so */
    EXPECT_INT(schema_need(&root, needed + 1, 4, &error), STATUS_OK); /* one alone, too */
    EXPECT_TEXT(schema_of(&root), "");
    json_free(document);
    EXPECT_INT(parse(&document, "{\"schema\": \"memwall.fit/1\"}", &root, &error), STATUS_OK);
    EXPECT_TEXT(schema_of(&root), "memwall.fit/1");
    EXPECT_INT(schema_need(&root, needed, 5, &error), STATUS_BAD_INPUT);
    EXPECT_TEXT(error.message, "missing keys: name, gpu.model, gpu.l2_MB, links, host.cores");
    json_free(document);
}

static void test_names(void)
{
    static const struct {
        const char *text, *name; /* NULL: refused */
    } cases[] = {
        { "{\"name\": \"a b\"}", "a b" },      { "{}", "file" },
        { "{\"name\": null}", "file" },        { "{\"name\": \"12345678\"}", "12345678" },
        { "{\"name\": \"123456789\"}", NULL }, { "{\"name\": \"a\\nb\"}", NULL },
        { "{\"name\": \"a\\tb\"}", NULL },     { "{\"name\": 1}", NULL },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct json_document *document = NULL;
        struct json root;
        struct error error = { 0 };
        const char *name = "";
        EXPECT_INT(parse(&document, cases[i].text, &root, &error), STATUS_OK);
        EXPECT_INT(schema_name(&root, "file", 8, &name, &error), cases[i].name != NULL ? STATUS_OK : STATUS_BAD_INPUT);
        if (cases[i].name != NULL) {
            EXPECT_TEXT(name, cases[i].name);
        }
        json_free(document);
    }
}

/* A terminal must not obey what a file says. */
static void test_printable(void)
{
    static const struct {
        const char *from, *lines, *line;
    } cases[] = {
        { "plain \xc3\xa9\xe2\x82\xac", "plain \xc3\xa9\xe2\x82\xac", "plain \xc3\xa9\xe2\x82\xac" },
        { "\x1b[31mred\a\x7f", " [31mred  ", " [31mred  " },
        { "a\nb\tc\rd", "a\nb\tc d", "a b c d" },
        { "\xc2\x9b"
          "31m \xc2\xa0",
          "  31m \xc2\xa0", "  31m \xc2\xa0" },
        { "\xff\xc3(\xe2\x82",
          "?"
          "?(?"
          "?",
          "?"
          "?(?"
          "?" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[64];
        snprintf(text, sizeof text, "%s", cases[i].from);
        make_printable(text, false);
        EXPECT_TEXT(text, cases[i].lines);
        snprintf(text, sizeof text, "%s", cases[i].from);
        make_printable(text, true);
        EXPECT_TEXT(text, cases[i].line);
    }
}

static void test_documents(void)
{
    static const char *const refused[] = { "[\"\\u001b[31m\"]", "[\"\\b\"]",     "[\"\\f\"]",  "[\"\\u0001\"]",
                                           "[\"\\u007f\"]",     "[\"\\u009b\"]", "[\"\x7f\"]", "[\"\xc2\x9b\"]",
                                           "{\"\\u001b\": 1}",  "[\"\x1b\"]" };
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        struct json_document *document = NULL;
        struct json root;
        struct error error = { 0 };
        EXPECT_INT(parse(&document, refused[i], &root, &error), STATUS_BAD_INPUT);
        EXPECT_PART(error.message, "control character");
    }
    static const char *const allowed[] = { "[\"a\\nb\\tc\\rd\"]", "[\"\\u00a0\xc2\xa0\\u000a\"]" };
    for (size_t i = 0; i < sizeof allowed / sizeof allowed[0]; i++) {
        struct json_document *document = NULL;
        struct json root;
        struct error error = { 0 };
        EXPECT_INT(parse(&document, allowed[i], &root, &error), STATUS_OK);
        EXPECT_INT(json_set(document, "0", "\x1b[31m", &error), STATUS_BAD_INPUT);
        EXPECT_PART(error.message, "control characters");
        json_free(document);
    }
}

TEST_MAIN(TEST(test_kinds), TEST(test_missing), TEST(test_names), TEST(test_printable), TEST(test_documents))
