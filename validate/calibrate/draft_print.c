#include "validate/calibrate/draft_print.h"

#include "sim/base/json_write.h"

enum { LINE_COLUMNS = 118, INDENT_COLUMNS = 2 };

static bool is_container(const struct json *at)
{
    return json_type(at) == JSON_ARRAY || json_type(at) == JSON_OBJECT;
}

static void child_at(const struct json *at, size_t index, const char **key, struct json *child)
{
    *key = NULL;
    if (json_type(at) == JSON_OBJECT) {
        json_member(at, index, key, child);
    } else {
        json_item(at, index, child);
    }
}

static void print_key(const char *key, struct strbuf *out)
{
    if (key != NULL) {
        strbuf_json_string(out, key);
        strbuf_append(out, ": ");
    }
}

/* The value on one line. */
static void print_flat(const struct json *at, struct strbuf *out)
{
    size_t count = json_count(at);
    bool object = json_type(at) == JSON_OBJECT;
    if (!is_container(at) || count == 0) {
        json_print(at, out);
        return;
    }
    strbuf_append(out, object ? "{ " : "[");
    for (size_t i = 0; i < count; i++) {
        const char *key;
        struct json child;
        child_at(at, i, &key, &child);
        strbuf_append(out, i > 0 ? ", " : "");
        print_key(key, out);
        print_flat(&child, out);
    }
    strbuf_append(out, object ? " }" : "]");
}

static void new_line(size_t indent, struct strbuf *out)
{
    strbuf_char(out, '\n');
    for (size_t i = 0; i < indent; i++) {
        strbuf_char(out, ' ');
    }
}

/* A container over several lines: scalars, and arrays within arrays, fill lines (but for the outermost object, which has a line for each key). `column`: where the
 * container's own line ends. */
static void print_broken(const struct json *at, size_t indent, struct strbuf *out)
{
    bool object = json_type(at) == JSON_OBJECT, filling = false;
    size_t column = 0, count = json_count(at);
    strbuf_char(out, object ? '{' : '[');
    for (size_t i = 0; i < count; i++) {
        const char *key;
        struct json child;
        struct strbuf flat = { 0 };
        child_at(at, i, &key, &child);
        print_key(key, &flat);
        size_t key_length = flat.length;
        print_flat(&child, &flat);
        out->failed = out->failed || flat.failed;
        bool fills = at->up != NULL && (!is_container(&child) || (!object && json_type(&child) == JSON_ARRAY));
        strbuf_append(out, i > 0 ? "," : "");
        if (filling && fills && column + 2 + flat.length <= LINE_COLUMNS) {
            strbuf_char(out, ' ');
            column += 2;
        } else {
            new_line(indent + INDENT_COLUMNS, out);
            column = indent + INDENT_COLUMNS;
        }
        if (is_container(&child) && json_count(&child) > 0 && column + flat.length > LINE_COLUMNS) {
            strbuf_append_n(out, flat.text == NULL ? "" : flat.text, flat.failed ? 0 : key_length);
            print_broken(&child, indent + INDENT_COLUMNS, out);
        } else {
            strbuf_append_n(out, flat.text == NULL ? "" : flat.text, flat.failed ? 0 : flat.length);
        }
        column += flat.length;
        filling = fills;
        strbuf_free(&flat);
    }
    new_line(indent, out);
    strbuf_char(out, object ? '}' : ']');
}

void draft_print_json(const struct json *root, struct strbuf *out)
{
    if (is_container(root) && json_count(root) > 0) {
        print_broken(root, 0, out);
    } else {
        print_flat(root, out);
    }
    strbuf_char(out, '\n');
}
