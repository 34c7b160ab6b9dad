/* json, json_write. */
#include <time.h>

#include "sim/base/json.h"
#include "sim/base/json_write.h"
#include "tests/test.h"

static char message[2048];

/* The complaint about a text, or "" when it is fine. */
static const char *complaint_n(const char *text, size_t length)
{
    struct json_document *document = NULL;
    struct error error = { 0 };
    message[0] = '\0';
    if (json_parse(&document, text, length, "f.json", &error) != STATUS_OK) {
        EXPECT(document == NULL);
        error_text(&error, message, sizeof message);
    }
    json_free(document);
    return message;
}

static const char *complaint(const char *text)
{
    return complaint_n(text, strlen(text));
}

static void test_syntax(void)
{
    static const char *const good[] = {
        "{}",
        " [ ] ",
        "1",
        "-0",
        "\"\"",
        "null",
        "[1,2.5,-3e-7,1E+2]",
        "{\"a\":{\"b\":[true,false,null]}}",
        "\xef\xbb\xbf{}",
        "[\"\\u00e9\\ud83d\\ude00\\n\\/\"]",
        "{\"a\":1,\"A\":2}",
        "[\"\xf0\x9f\x98\x80\"]",
    };
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        EXPECT_TEXT(complaint(good[i]), "");
    }
    EXPECT_TEXT(complaint("{\"a\": 1,\n \"b\" 2}"), "f.json: line 2 column 6: expected ':', found '2'");
    EXPECT_TEXT(complaint(""), "f.json: line 1 column 1: expected a value (object, array, string, number, true, false, "
                               "null), found the end of the text");
    EXPECT_PART(complaint("[1,]"), "line 1 column 4: expected a value");
    EXPECT_PART(complaint("{\"a\":1,}"), "expected a key in double quotes, found '}'");
    EXPECT_PART(complaint("[1 2]"), "expected ',' or ']', found '2'");
    EXPECT_PART(complaint("[1"), "expected ',' or ']', found the end of the text");
    EXPECT_PART(complaint("{} x"), "expected nothing after the document, found 'x'");
    EXPECT_PART(complaint("[01]"), "must not start with 0");
    EXPECT_PART(complaint("[+1]"), "expected a value");
    EXPECT_PART(complaint("[.5]"), "expected a value");
    EXPECT_PART(complaint("[5.]"), "digit after the decimal point");
    EXPECT_PART(complaint("[1e]"), "digit of the exponent");
    EXPECT_PART(complaint("[-]"), "expected a digit");
    EXPECT_PART(complaint("[NaN]"), "expected a value");
    EXPECT_PART(complaint("[Infinity]"), "expected a value");
    EXPECT_PART(complaint("[nul]"), "expected a value");
    EXPECT_PART(complaint("[1e309]"), "line 1 column 2: the number 1e309 is too large");
    EXPECT_PART(complaint("['a']"), "expected a value");
    EXPECT_PART(complaint("[\"a\nb\"]"), "does not end on its line");
    EXPECT_PART(complaint("[\"a\tb\"]"), "control character 0x09");
    EXPECT_PART(complaint("[\"abc"), "the string does not end");
    EXPECT_PART(complaint("[\"\\x\"]"), "unknown escape");
    EXPECT_PART(complaint("[\"\\u12g4\"]"), "four hex digits");
    EXPECT_PART(complaint("[\"\\u0000\"]"), "must not contain NUL");
    EXPECT_PART(complaint("[\"\\ud800\"]"), "half of a surrogate pair");
    EXPECT_PART(complaint("[\"\\udc00\\ud800\"]"), "half of a surrogate pair");
    EXPECT_PART(complaint("[\"\xc0\x80\"]"), "not valid UTF-8");
    EXPECT_PART(complaint("[\"\xed\xa0\x80\"]"), "not valid UTF-8");
    EXPECT_PART(complaint("[\"\xf5\x80\x80\x80\"]"), "not valid UTF-8");
    EXPECT_PART(complaint("[\"\xe2\x82\"]"), "not valid UTF-8");
    EXPECT_PART(complaint_n("[1]\0", 4), "expected nothing after the document, found byte 0x00");
}

static void test_duplicates(void)
{
    EXPECT_TEXT(complaint("{\"a\":1,\n\"b\":2,\n  \"a\":3}"),
                "f.json: line 3 column 3: the key \"a\" appears twice in its object");
    EXPECT_PART(complaint("{\"a\":1,\"\\u0061\":3}"), "appears twice");
    EXPECT_PART(complaint("{\"\\u00e9\":1,\"\xc3\xa9\":3}"), "appears twice");
    EXPECT_PART(complaint("{\"\\ud83d\\ude00\":1,\"\xf0\x9f\x98\x80\":3}"), "appears twice");
    EXPECT_PART(complaint("{\"x\":{\"a\":1},\"y\":[{\"a\":1},{\"b\":1,\"b\":2}]}"), "the key \"b\" appears twice");
    EXPECT_TEXT(complaint("{\"x\":{\"a\":1},\"y\":[{\"a\":1},{\"a\":1,\"b\":2}]}"), "");
    struct strbuf text = { 0 };
    for (int i = 0; i < 5000; i++) {
        strbuf_printf(&text, "%s\"k%d\":%d", i == 0 ? "{" : ",", i, i);
    }
    size_t length = text.length;
    strbuf_append(&text, "}");
    EXPECT_TEXT(complaint(text.text), "");
    text.length = length;
    strbuf_append(&text, ",\"k17\":0}");
    EXPECT_PART(complaint(text.text), "the key \"k17\" appears twice");
    strbuf_free(&text);
}

static void test_limits(void)
{
    char text[512] = "";
    for (int i = 0; i < 64; i++) {
        text[i] = '[';
        text[64 + i] = ']';
    }
    EXPECT_TEXT(complaint(text), "");
    memset(text, '[', 200);
    memset(text + 200, ']', 200);
    EXPECT_PART(complaint(text), "line 1 column 65: nested deeper than 64 levels");
    memset(text, 0, sizeof text);
    memset(text, '1', 61);
    EXPECT_PART(complaint(text), "has 61 characters");
}

static void test_large_file_is_refused_quickly(void)
{
    char path[] = "/tmp/memwall-t_base_json-XXXXXX";
    int fd = mkstemp(path);
    EXPECT(fd >= 0);
    FILE *file = fdopen(fd, "w");
    EXPECT_INT(fseek(file, 100 * 1000 * 1000, SEEK_SET), 0);
    (void)fputc('1', file);
    (void)fclose(file);
    struct json_document *document;
    struct error error = { 0 };
    clock_t start = clock();
    EXPECT_INT(json_load(&document, path, JSON_BYTES_MAX, &error), STATUS_LIMIT);
    EXPECT((double)(clock() - start) / CLOCKS_PER_SEC < 0.1);
    EXPECT_PART(error.message, "larger than");
    EXPECT(document == NULL);
    (void)remove(path);
}

static const char sample[] =
    "{\n \"gpu_count\": 8,\n \"gpu\": {\"name\": \"A100\", \"rate\": 2.5e12, \"on\": true},\n"
    " \"list\": [1, 2.5, \"x\", {\"big\": 9007199254740992,\n \"null\": null}],\n \"odd key\": 3\n}";

static void test_readers(void)
{
    struct json_document *document = NULL;
    struct json root, gpu, list, item, none;
    struct error error = { 0 };
    int64_t number = 0;
    double real = 0;
    bool flag = false;
    const char *text = NULL;
    EXPECT_INT(json_parse(&document, sample, strlen(sample), "m.json", &error), STATUS_OK);
    json_root(document, &root);
    EXPECT_INT(json_int(&root, "gpu_count", 1, 8, &number, &error), STATUS_OK);
    EXPECT_INT(number, 8);
    EXPECT_INT(json_int(&root, "gpu_count", 1, 7, &number, &error), STATUS_BAD_INPUT);
    EXPECT_TEXT(error_text(&error, message, sizeof message),
                "m.json:2: $.gpu_count: expected an integer from 1 to 7, found 8");
    EXPECT_INT(json_int(&root, "gpus", 1, INT64_MAX, &number, &error), STATUS_BAD_INPUT);
    EXPECT_TEXT(error_text(&error, message, sizeof message),
                "m.json:1: $.gpus: missing key \"gpus\" (an integer of at least 1)");
    EXPECT_INT(json_object(&root, "gpu", &gpu, &error), STATUS_OK);
    EXPECT_INT(json_real(&gpu, "rate", 0, INFINITY, &real, &error), STATUS_OK);
    EXPECT_REAL(real, 2.5e12, 0);
    EXPECT_INT(json_bool(&gpu, "on", &flag, &error), STATUS_OK);
    EXPECT(flag);
    EXPECT_INT(json_string(&gpu, "name", &text, &error), STATUS_OK);
    EXPECT_TEXT(text, "A100");
    EXPECT_INT(json_string(&gpu, "Name", &text, &error), STATUS_BAD_INPUT); /* exact case */
    EXPECT_INT(json_int(&gpu, "name", 0, 1, &number, &error), STATUS_BAD_INPUT);
    EXPECT_TEXT(error_text(&error, message, sizeof message),
                "m.json:3: $.gpu.name: expected an integer from 0 to 1, found the string \"A100\"");
    EXPECT_INT(json_array(&root, "list", &list, &error), STATUS_OK);
    EXPECT_INT(json_count(&list), 4);
    json_item(&list, 1, &item);
    EXPECT_INT(json_as_int(&item, 0, 9, &number, &error), STATUS_BAD_INPUT);
    EXPECT_TEXT(error_text(&error, message, sizeof message),
                "m.json:4: $.list[1]: expected an integer from 0 to 9, found 2.5");
    json_item(&list, 3, &item);
    EXPECT_INT(json_int(&item, "big", INT64_MIN, INT64_MAX, &number, &error), STATUS_BAD_INPUT);
    EXPECT_PART(error_text(&error, message, sizeof message), "m.json:4: $.list[3].big: ");
    EXPECT_PART(error.message, "below 2^53");
    EXPECT_INT(json_int_or(&item, "null", 0, 9, 5, &number, &error), STATUS_OK);
    EXPECT_INT(number, 5);
    EXPECT_INT(json_object_optional(&root, "none", &none, &error), STATUS_OK);
    EXPECT(none.node == NULL);
    EXPECT_INT(json_real_or(&none, "x", 0, 1, 0.25, &real, &error), STATUS_OK);
    EXPECT_REAL(real, 0.25, 0);
    EXPECT_INT(json_real(&none, "x", 0, 1, &real, &error), STATUS_BAD_INPUT);
    EXPECT_TEXT(error.path, "$.none.x");
    EXPECT_INT(json_string(&root, "odd key", &text, &error), STATUS_BAD_INPUT);
    EXPECT_TEXT(error.path, "$[\"odd key\"]");
    EXPECT_INT(error.line, 6);
    EXPECT_INT(json_object(&list, "x", &item, &error), STATUS_BAD_INPUT);
    EXPECT_TEXT(error.message, "expected an object, found an array");
    json_free(document);
}

static void test_words(void)
{
    static const char *const known[] = { "tensor", "pipeline", "data", "zero_stage" };
    struct json_document *document = NULL;
    struct json root;
    struct error error = { 0 };
    size_t index = 9;
    const char text[] = "{\"tensor\": \"pipelin\", \"_comment 1\": 0, \"tesnor\": 1, \"q\": \"data\"}";
    EXPECT_INT(json_parse(&document, text, strlen(text), "", &error), STATUS_OK);
    json_root(document, &root);
    EXPECT_INT(json_known_keys(&root, known, 4, &error), STATUS_BAD_INPUT);
    EXPECT_TEXT(error.message, "unknown key \"tesnor\"; did you mean \"tensor\"?");
    EXPECT_TEXT(error.path, "$.tesnor");
    EXPECT_INT(json_word(&root, "tensor", known, 4, &index, &error), STATUS_BAD_INPUT);
    EXPECT_PART(error.message, "did you mean \"pipeline\"? Allowed: tensor, pipeline, data, zero_stage");
    EXPECT_INT(json_word(&root, "q", known, 4, &index, &error), STATUS_OK);
    EXPECT_INT(index, 2);
    EXPECT_INT(json_word_or(&root, "no", known, 4, 3, &index, &error), STATUS_OK);
    EXPECT_INT(index, 3);
    EXPECT_INT(json_word(&root, "tesnor", known, 4, &index, &error), STATUS_BAD_INPUT);
    EXPECT_TEXT(nearest_word("ZERO-STAGE", known, 4), "zero_stage");
    EXPECT_TEXT(nearest_word("dta", known, 4), "data");
    EXPECT(nearest_word("q", known, 4) == NULL);
    EXPECT(nearest_word("something", known, 4) == NULL);
    json_free(document);
}

static void test_loops_are_linear_and_right(void)
{
    struct strbuf text = { 0 };
    strbuf_append(&text, "[");
    for (int i = 0; i < 20000; i++) {
        strbuf_printf(&text, "%s[%d,%d,{\"a\":%d,\"b\":%d}]", i == 0 ? "" : ",", i, i + 1, i + 2, i + 3);
    }
    strbuf_append(&text, "]");
    struct json_document *document = NULL;
    struct error error = { 0 };
    struct json root, row, item, member;
    const char *key;
    int64_t number = 0;
    EXPECT_INT(json_parse(&document, text.text, text.length, "", &error), STATUS_OK);
    json_root(document, &root);
    clock_t start = clock();
    for (size_t i = 0; i < json_count(&root); i++) {
        json_item(&root, i, &row);
        for (size_t k = 0; k < json_count(&row); k++) {
            json_item(&row, k, &item);
            if (k < 2) {
                EXPECT_INT(json_as_int(&item, 0, 100000, &number, &error), STATUS_OK);
            } else {
                json_member(&item, 1, &key, &member);
                EXPECT_TEXT(key, "b");
                EXPECT_INT(json_as_int(&member, 0, 100000, &number, &error), STATUS_OK);
                number--;
            }
            EXPECT_INT(number, i + k);
        }
    }
    EXPECT((double)(clock() - start) / CLOCKS_PER_SEC < 1.0); /* quadratic would take minutes */
    json_item(&root, 3, &row);                                /* and back again */
    json_item(&row, 0, &item);
    EXPECT_INT(json_as_int(&item, 0, 9, &number, &error), STATUS_OK);
    EXPECT_INT(number, 3);
    json_free(document);
    strbuf_free(&text);
}

static const char *after_set(const char *text, const char *path, const char *value)
{
    struct json_document *document = NULL;
    struct error error = { 0 };
    struct json root;
    struct strbuf out = { 0 };
    EXPECT_INT(json_parse(&document, text, strlen(text), "", &error), STATUS_OK);
    if (json_set(document, path, value, &error) == STATUS_OK) {
        json_root(document, &root);
        json_print(&root, &out);
        (void)snprintf(message, sizeof message, "%s", out.text);
    } else {
        error_text(&error, message, sizeof message);
    }
    strbuf_free(&out);
    json_free(document);
    return message;
}

static void test_set(void)
{
    EXPECT_TEXT(after_set("{\"a\":{\"b\":1},\"c\":2}", "a.b", "4"), "{\"a\":{\"b\":4},\"c\":2}");
    EXPECT_TEXT(after_set("{}", "x.y.z", "1f1b"), "{\"x\":{\"y\":{\"z\":\"1f1b\"}}}");
    EXPECT_TEXT(after_set("{\"l\":[1,{\"a\":2}]}", "l.1.a", "[true,{}]"), "{\"l\":[1,{\"a\":[true,{}]}]}");
    EXPECT_TEXT(after_set("{\"l\":[1,2]}", "l.1", "\"s\""), "{\"l\":[1,\"s\"]}");
    EXPECT_TEXT(after_set("{\"a\":0.1}", "b", "1e300"), "{\"a\":0.1,\"b\":1e+300}");
    EXPECT_TEXT(after_set("{\"a\":null}", "a.b", "null"), "{\"a\":{\"b\":null}}");
    EXPECT_PART(after_set("{\"a\":1}", "a.b", "2"), "--set: a.b: what should hold \"b\" is not an object");
    EXPECT_PART(after_set("{\"l\":[1]}", "l.7", "2"), "not an index into an array of 1 items");
    EXPECT_PART(after_set("{}", "a..b", "2"), "a key is empty");
    EXPECT_PART(after_set("{}", "a", "{\"x\":1,\"x\":2}"), "appears twice");
    EXPECT_PART(after_set("{}", "a", "[1"), "not valid JSON");
    char deep[200] = "a";
    for (int i = 0; i < 70; i++) {
        strcat(deep, ".b");
    }
    EXPECT_PART(after_set("{}", deep, "1"), "nested deeper");
    EXPECT_PART(after_set("{}", "name", "\xff"), "the value is not valid UTF-8");
    EXPECT_PART(after_set("{}", "name", "\"\xc3\""), "not valid UTF-8");
    EXPECT_PART(after_set("{}", "\xff", "1"), "the path is not valid UTF-8");
}

static void test_writer(void)
{
    struct strbuf out = { 0 };
    struct json_writer w = { .out = &out };
    jw_object(&w, NULL);
    jw_string(&w, "s", "a\"\\\n\x01");
    jw_array(&w, "list");
    jw_real(&w, NULL, 0.1);
    jw_int(&w, NULL, INT64_MIN);
    jw_uint(&w, NULL, UINT64_MAX);
    jw_object(&w, NULL);
    jw_end(&w);
    jw_end(&w);
    jw_bool(&w, "b", true);
    jw_null(&w, "n");
    jw_string(&w, "ns", NULL);
    jw_raw(&w, "r", "[1]");
    jw_end(&w);
    EXPECT_TEXT(out.text,
                "{\n \"s\": \"a\\\"\\\\\\n\\u0001\",\n \"list\": [\n  0.1,\n  -9223372036854775808,\n"
                "  18446744073709551615,\n  {}\n ],\n \"b\": true,\n \"n\": null,\n \"ns\": null,\n \"r\": [1]\n}");
    EXPECT_INT(w.depth, 0);
    strbuf_free(&out);
    struct json_writer compact = { .out = &out, .compact = true };
    jw_object(&compact, NULL);
    jw_array(&compact, "a");
    jw_int(&compact, NULL, 1);
    jw_int(&compact, NULL, 2);
    jw_end(&compact);
    jw_end(&compact);
    EXPECT_TEXT(out.text, "{\"a\":[1,2]}");
    strbuf_free(&out);
    /* File names and arguments may hold any bytes; what is not UTF-8 becomes the replacement character. */
    strbuf_json_string(&out, "\xff|a\xc3\xa9|\xf0\x9f\x8e\x89|\xed\xa0\x80|\xc3");
    EXPECT_TEXT(out.text, "\"\\ufffd|a\xc3\xa9|\xf0\x9f\x8e\x89|\\ufffd\\ufffd\\ufffd|\\ufffd\"");
    strbuf_free(&out);
}

static void test_reals_round_trip(void)
{
    static const struct {
        double value;
        const char *text;
    } samples[] = { { 0, "0" },
                    { -0.0, "-0" },
                    { 0.1, "0.1" },
                    { 1e15, "1e+15" },
                    { 5e-324, "5e-324" },
                    { 123456, "123456" },
                    { 1.0 / 3, "0.3333333333333333" },
                    { 0.30000000000000004, "0.30000000000000004" },
                    { 999999999999999, "999999999999999" } };
    char buffer[32];
    for (size_t i = 0; i < sizeof samples / sizeof samples[0]; i++) {
        EXPECT_TEXT(text_real(samples[i].value, buffer, sizeof buffer), samples[i].text);
    }
    uint64_t random = test_seed;
    for (int i = 0; i < 200000; i++) {
        uint64_t bits = test_random(&random);
        double value;
        memcpy(&value, &bits, sizeof value);
        if (isfinite(value)) {
            EXPECT(strtod(text_real(value, buffer, sizeof buffer), NULL) == value);
        }
    }
}

TEST_MAIN(TEST(test_syntax), TEST(test_duplicates), TEST(test_limits), TEST(test_large_file_is_refused_quickly),
          TEST(test_readers), TEST(test_words), TEST(test_loops_are_linear_and_right), TEST(test_set),
          TEST(test_writer), TEST(test_reals_round_trip))
