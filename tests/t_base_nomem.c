/* Failing the n-th allocation, for every n until it succeeds: JSON (whose tree comes from cJSON and malloc). Arenas'
 * users do it in their own tests through arena.fail_after. */
#include <cjson/cJSON.h>

#include "sim/base/json.h"
#include "tests/test.h"

static uint64_t calls, fail_at; /* fail_at 0: never */

static void *counted_malloc(size_t size)
{
    return ++calls == fail_at ? NULL : malloc(size);
}

static const char text[] = "{\"a\":[1,2,{\"b\":\"text\",\"c\":null}],\"d\":{\"e\":1.5},\"f\":\"g\"}";

static void test_parse(void)
{
    cJSON_Hooks hooks = { counted_malloc, free };
    cJSON_InitHooks(&hooks);
    unsigned failed = 0;
    for (fail_at = 1;; fail_at++) {
        struct json_document *document = NULL;
        struct error error = { 0 };
        calls = 0;
        enum status status = json_parse(&document, text, strlen(text), "f", &error);
        if (status == STATUS_OK) {
            json_free(document);
            break;
        }
        EXPECT_INT(status, STATUS_NO_MEMORY);
        EXPECT_PART(error.message, "out of memory");
        EXPECT(document == NULL);
        failed++;
    }
    EXPECT(failed >= 15); /* ten values, keys and strings beside */
    cJSON_InitHooks(NULL);
}

static void test_set(void)
{
    cJSON_Hooks hooks = { counted_malloc, free };
    cJSON_InitHooks(&hooks);
    unsigned failed = 0;
    for (uint64_t n = 1;; n++) {
        struct json_document *document = NULL;
        struct error error = { 0 };
        struct json root;
        struct strbuf out = { 0 };
        fail_at = 0;
        EXPECT_INT(json_parse(&document, text, strlen(text), "f", &error), STATUS_OK);
        calls = 0;
        fail_at = n;
        enum status status = json_set(document, "d.x.y", "[1,\"two\",{\"z\":3}]", &error);
        fail_at = 0;
        json_root(document, &root);
        json_print(&root, &out); /* still a whole document */
        EXPECT(out.length >= strlen(text));
        strbuf_free(&out);
        json_free(document);
        if (status == STATUS_OK) {
            break;
        }
        EXPECT_INT(status, STATUS_NO_MEMORY);
        failed++;
    }
    EXPECT(failed >= 8);
    cJSON_InitHooks(NULL);
}

TEST_MAIN(TEST(test_parse), TEST(test_set))
