#include "sim/base/schema.h"

#include <stdio.h>
#include <string.h>

#include "sim/base/check.h"

/* Every kind of document there is, and what takes it. */
static const struct {
    const char *kind, *noun, *taken_by;
} KINDS[] = {
    { "scenario", "a scenario", "memwall run FILE" },
    { "sweep", "a sweep", "memwall sweep FILE" },
    { "question", "a question", "memwall buy FILE" },
    { "machine", "a machine", "--set machine=FILE" },
    { "software", "a software stack", "--set software=FILE" },
    { "plan", "a plan", "memwall run SCENARIO.json --plan FILE" },
    { "profile", "a measured chain of layers", "memwall plan --profile FILE" },
    { "result", "a result", "memwall report FILE and memwall compare FILE OTHER" },
    { "points", "measured points", "memwall calibrate --from FILE" },
    { "schedule", "a schedule", NULL },
    { "run", "the record of a run", "memwall report, with the folder it lies in" },
    { "explain", "an explanation", "memwall report, with the folder it lies in" },
    { "compare", "a comparison", NULL },
    { "fit", "an answer of memwall fit", NULL },
    { "planning", "an answer of memwall plan", NULL },
    { "partition", "an answer of memwall plan", NULL },
    { "buy", "an answer of memwall buy", NULL },
    { "calibration", "an answer of memwall calibrate", NULL },
    { "validation", "an answer of memwall validate", NULL },
    { "report", "an answer of memwall report", NULL },
    { "list", "an answer of memwall list", NULL },
};
enum { KIND_COUNT = sizeof KINDS / sizeof KINDS[0], UNKNOWN = KIND_COUNT, LIST_BYTES = ERROR_MESSAGE_BYTES - 128 };

/* The index in KINDS of "memwall.KIND/..."; UNKNOWN. */
static size_t kind_of(const char *schema)
{
    static const char begin[] = "memwall.";
    for (size_t i = 0; strncmp(schema, begin, strlen(begin)) == 0 && i < KIND_COUNT; i++) {
        const char *kind = schema + strlen(begin);
        size_t length = strlen(KINDS[i].kind);
        if (strncmp(kind, KINDS[i].kind, length) == 0 && kind[length] == '/') {
            return i;
        }
    }
    return UNKNOWN;
}

const char *schema_of(const struct json *root)
{
    struct json at;
    const char *schema = "";
    if (json_type(root) == JSON_OBJECT && json_any_optional(root, "schema", &at, NULL) == STATUS_OK &&
        at.node != NULL) {
        (void)json_as_string(&at, &schema, NULL);
    }
    return schema;
}

enum status schema_name(const struct json *root, const char *fallback, size_t bytes_max, const char **name,
                        struct error *error)
{
    struct json at;
    TRY(json_string_or(root, "name", fallback, name, error));
    TRY(json_any_optional(root, "name", &at, error));
    if (*name != NULL && strlen(*name) > bytes_max) { /* cutting could split a character */
        return json_error(at.node != NULL ? &at : root, error, "the name has %zu bytes: at most %zu are allowed",
                          strlen(*name), bytes_max);
    }
    if (at.node != NULL && *name != NULL && strpbrk(*name, "\t\r\n") != NULL) {
        return json_error(&at, error, "a name is one line: it must not hold tabs or line ends");
    }
    return STATUS_OK;
}

enum status schema_none(const struct json *root, const char *wanted, struct error *error)
{
    const char *found = schema_of(root);
    const size_t kind = kind_of(found);
    struct json at;
    if (kind == UNKNOWN) {
        return STATUS_OK;
    }
    TRY(json_any(root, "schema", &at, error));
    return json_error(&at, error, "this is %s (\"%.64s\"), expected %s", KINDS[kind].noun, found, wanted);
}

enum status schema_check(const struct json *root, const char *schema, bool required, struct error *error)
{
    const size_t wanted = kind_of(schema);
    const char *found;
    struct json at;
    CHECK(wanted != UNKNOWN);
    if (json_type(root) != JSON_OBJECT) {
        return json_error(root, error, "expected %s (an object), found %s", KINDS[wanted].noun,
                          json_type_word(json_type(root)));
    }
    TRY(json_any_optional(root, "schema", &at, error));
    if (at.node == NULL) {
        return required ? json_error(root, error, "missing key \"schema\": %s has \"%s\"", KINDS[wanted].noun, schema)
                        : STATUS_OK;
    }
    TRY(json_as_string(&at, &found, error));
    size_t kind = kind_of(found);
    if (strcmp(found, schema) == 0) {
        return STATUS_OK;
    }
    if (kind == wanted) {
        return json_error(&at, error, "\"%.64s\" is %s of another memwall: this one reads \"%s\"", found,
                          KINDS[kind].noun, schema);
    }
    if (kind == UNKNOWN) {
        return json_error(&at, error, "unknown schema \"%.64s\": expected \"%s\", %s", found, schema,
                          KINDS[wanted].noun);
    }
    return json_error(&at, error, "this is %s (\"%.64s\"), expected %s (\"%s\")%s%s%s", KINDS[kind].noun, found,
                      KINDS[wanted].noun, schema, KINDS[kind].taken_by != NULL ? ". " : "",
                      KINDS[kind].taken_by != NULL ? KINDS[kind].taken_by : "",
                      KINDS[kind].taken_by != NULL ? " takes it" : "");
}

/* Whether a value stands at the path; one step into an object at most. What is no object is found wrong by who reads it. */
static bool is_there(const struct json *root, const char *path)
{
    const char *dot = strchr(path, '.');
    char section[64];
    struct json object, at;
    (void)snprintf(section, sizeof section, "%.*s", dot != NULL ? (int)(dot - path) : (int)strlen(path), path);
    if (json_any_optional(root, section, &object, NULL) != STATUS_OK || object.node == NULL) {
        return false;
    }
    return dot == NULL || json_type(&object) != JSON_OBJECT ||
           (json_any_optional(&object, dot + 1, &at, NULL) == STATUS_OK && at.node != NULL);
}

enum status schema_need(const struct json *root, const char *const *paths, size_t count, struct error *error)
{
    char list[LIST_BYTES] = "";
    size_t used = 0, missing = 0;
    for (size_t i = 0; i < count; i++) {
        if (!is_there(root, paths[i])) {
            int wanted = snprintf(list + used, sizeof list - used, "%s%s", missing > 0 ? ", " : "", paths[i]);
            CHECK(wanted > 0 && used + (size_t)wanted < sizeof list); /* a loader's own table */
            used += (size_t)wanted;
            missing++;
        }
    }
    return missing < 2 ? STATUS_OK : json_error(root, error, "missing keys: %s", list);
}
