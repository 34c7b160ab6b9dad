/* Names and paths of library files. The files themselves are in generated code. */
#include "hw_models/embedded.h"

#include <stdio.h>
#include <string.h>

enum { NAMES_MAX = 256, LABEL_BYTES = 128 };

static bool is_path(const char *name)
{
    size_t length = strlen(name);
    return strchr(name, '/') != NULL || strcmp(name, "-") == 0 ||
           (length > 5 && strcmp(name + length - 5, ".json") == 0);
}

enum status embedded_open(const struct embedded_library *library, const char *name, struct json_document **document,
                          struct error *error)
{
    if (is_path(name)) {
        return json_load(document, name, library->bytes_max, error);
    }
    const char *names[NAMES_MAX];
    uint32_t count = *library->count < NAMES_MAX ? *library->count : NAMES_MAX;
    for (uint32_t i = 0; i < count; i++) {
        const struct embedded_file *file = &library->files[i];
        names[i] = file->name;
        if (strcmp(file->name, name) == 0) {
            char label[LABEL_BYTES];
            snprintf(label, sizeof label, "hw_models/%s/%.60s.json", library->folder, name);
            return json_parse(document, (const char *)file->text, file->length, label, error);
        }
    }
    const char *nearest = nearest_word(name, names, count);
    return error_set(error, STATUS_NOT_FOUND, "no %s is called \"%.60s\"%s%s%s (memwall list %s; a path has a '/')",
                     library->noun, name, nearest != NULL ? "; did you mean \"" : "", nearest != NULL ? nearest : "",
                     nearest != NULL ? "\"?" : "", library->folder);
}

enum status embedded_answer(const struct json *value, enum status status, const struct error *inner,
                            struct error *error)
{
    if (status == STATUS_NOT_FOUND) {
        return json_error(value, error, "%s%s%s", inner->file, inner->file[0] != '\0' ? ": " : "", inner->message);
    }
    if (status != STATUS_OK && error != NULL) {
        *error = *inner;
    }
    return status;
}
