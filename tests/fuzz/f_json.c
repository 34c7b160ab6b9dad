/* JSON: random and mutated texts must be refused with a place or read, never crash; what is read must print and read
 * back to the same text; the strict scan must refuse whatever cJSON refuses (else a bad text would be reported as
 * lack of memory). */
#include "sim/base/json.h"
#include "sim/base/json_scan.h"
#include "tests/fuzz/fuzz.h"

enum { TEXT_MAX = 4000 };

static const char *const seeds[] = {
    "{\"schema\":\"x/1\",\"gpus\":64,\"training\":{\"micro_batch\":1,\"x\":[1,2.5e-3,-0,true,false,null]}}",
    "[[[[{\"a\":{\"b\":{\"c\":[1e300,1E-300,\"\\u00e9\\ud83d\\ude00\\n\\\"\\\\\"]}}}]]]]",
    "{\"\":0,\" \":\"\xf0\x9f\x98\x80\",\"\\u0041\":1,\"B\":[ ],\"C\":{ }}",
    "12345678901234567890.123456789e-200",
    "\xef\xbb\xbf [ \"tab\\t\", 0.1 ] \n",
};

/* Splice pieces that matter in JSON. */
static size_t mutate(char *text, size_t length, uint64_t *random)
{
    static const char *const pieces[] = { "{",     "}",      "[",    "]",       ",",        ":",
                                          "\"",    "\\",     "\\u",  "\\ud83d", "0",        "-",
                                          "1e999", "1e-999", ".",    "\x80",    "\xc0\x80", "\xed\xa0\x80",
                                          "\n",    " ",      "null", "NaN",     "\"a\":1,", "[[[[[[[[",
                                          "\x01" };
    for (uint64_t edits = test_below(random, 6); edits > 0; edits--) {
        size_t at = test_below(random, length + 1), cut = test_below(random, 4);
        cut = cut > length - at ? length - at : cut;
        const char *piece = pieces[test_below(random, sizeof pieces / sizeof pieces[0])];
        char byte[2] = { (char)test_random(random), '\0' };
        size_t piece_length = strlen(piece);
        if (test_below(random, 3) == 0) {
            piece = byte;
            piece_length = 1;
        }
        if (length - cut + piece_length > TEXT_MAX) {
            continue;
        }
        memmove(text + at + piece_length, text + at + cut, length - at - cut);
        memcpy(text + at, piece, piece_length);
        length = length - cut + piece_length;
        if (test_below(random, 8) == 0 && 2 * length <= TEXT_MAX) { /* deeper and longer */
            memmove(text + length, text, length);
            length *= 2;
        }
    }
    return length;
}

/* Walks everything through the cursors; the count of values. */
static size_t walk(const struct json *at, unsigned depth)
{
    size_t count = 1;
    char path[300];
    EXPECT(depth <= JSON_DEPTH_MAX);
    EXPECT(json_path(at, path, sizeof path)[0] == '$');
    EXPECT(json_line(at) >= 1);
    if (json_type(at) == JSON_ARRAY || json_type(at) == JSON_OBJECT) {
        for (size_t i = 0; i < json_count(at); i++) {
            struct json child;
            const char *key;
            if (json_type(at) == JSON_OBJECT) {
                json_member(at, i, &key, &child);
                EXPECT(json_has(at, key));
            } else {
                json_item(at, i, &child);
            }
            count += walk(&child, depth + 1);
        }
    }
    return count;
}

static void read_back(struct json_document *document)
{
    struct json root, again_root;
    struct strbuf first = { 0 }, second = { 0 };
    struct json_document *again = NULL;
    struct error error = { 0 };
    json_root(document, &root);
    json_print(&root, &first);
    EXPECT_INT(json_parse(&again, first.text, first.length, "again", &error), STATUS_OK);
    if (again != NULL) {
        json_root(again, &again_root);
        json_print(&again_root, &second);
        EXPECT_TEXT(second.text, first.text);
    }
    json_free(again);
    strbuf_free(&first);
    strbuf_free(&second);
}

static void set_something(struct json_document *document, uint64_t *random)
{
    static const char *const paths[] = {
        "a", "training.x.0", "training.micro_batch", "0.0.0.0.a", "a.b.c.d", "", ".", "x..y", "0", "9"
    };
    static const char *const values[] = { "1", "word", "[1,{\"a\":2}]",     "{",    "\"",
                                          "",  "null", "{\"a\":1,\"a\":2}", "1e400" };
    struct error error = { 0 };
    struct json root;
    struct strbuf out = { 0 };
    enum status status = json_set(document, paths[test_below(random, sizeof paths / sizeof paths[0])],
                                  values[test_below(random, sizeof values / sizeof values[0])], &error);
    EXPECT(status == STATUS_OK || (status == STATUS_BAD_INPUT && error.message[0] != '\0'));
    json_root(document, &root);
    json_print(&root, &out);
    EXPECT(!out.failed);
    strbuf_free(&out);
}

static void round_of(uint64_t seed)
{
    /* Exactly the text's bytes on the heap, so that a sanitizer sees the first one read beyond. */
    static char buffer[2 * TEXT_MAX];
    uint64_t random = seed;
    const char *start = seeds[test_below(&random, sizeof seeds / sizeof seeds[0])];
    size_t length = strlen(start);
    memcpy(buffer, start, length);
    length = mutate(buffer, length, &random);
    char *text = malloc(length == 0 ? 1 : length);
    struct json_document *document = NULL;
    struct error error = { 0 };
    uint32_t *lines = NULL;
    size_t count = 0;
    if (text == NULL) {
        return;
    }
    memcpy(text, buffer, length);
    bool scanned = json_scan(text, length, "f", &lines, &count, &error) == STATUS_OK;
    free(lines);
    if (scanned) {
        struct json root;
        EXPECT_INT(json_parse(&document, text, length, "f", &error), STATUS_OK);
        if (document != NULL) {
            json_root(document, &root);
            EXPECT_INT(walk(&root, 0), count);
            read_back(document);
            set_something(document, &random);
        }
    } else {
        EXPECT(error.status == STATUS_BAD_INPUT && error.message[0] != '\0');
        EXPECT(strncmp(error.path, "line ", 5) == 0);
        EXPECT(json_parse(&document, text, length, "f", &error) != STATUS_OK);
    }
    json_free(document);
    free(text);
}

int main(int argc, char **argv)
{
    return fuzz_run(round_of, argc, argv);
}
