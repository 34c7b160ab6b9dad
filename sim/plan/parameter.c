/* Reading and printing the parameters of plug-ins by their tables. */
#include "sim/plan/parameter.h"

#include <string.h>

#include "sim/base/check.h"

enum { IGNORE_MAX = 8 };

void parameters_defaults(const struct parameter *table, uint32_t count, struct parameter_values *values)
{
    CHECK(count <= PARAMETERS_MAX);
    *values = (struct parameter_values){ 0 };
    for (uint32_t i = 0; i < count; i++) {
        values->value[i] = table[i].fallback;
    }
}

enum status parameters_read_plug_in(const struct json *parent, const char *key, const char *fallback, const char **name,
                                    struct json *object, struct json *name_at, struct error *error)
{
    *name = fallback;
    *object = (struct json){ 0 };
    TRY(json_any_optional(parent, key, name_at, error));
    if (name_at->node == NULL) {
        return STATUS_OK;
    }
    if (json_type(name_at) == JSON_STRING) {
        return json_as_string(name_at, name, error);
    }
    if (json_type(name_at) != JSON_OBJECT) {
        return json_error(name_at, error, "expected a name, or an object with \"name\" and parameters; found %s",
                          json_type_word(json_type(name_at)));
    }
    *object = *name_at;
    return json_string(object, "name", name, error);
}

static enum status read_word(const struct parameter *parameter, const struct json *object, double *value,
                             struct error *error)
{
    size_t word_count = 0, index = (size_t)parameter->fallback;
    while (parameter->words[word_count] != NULL) {
        word_count++;
    }
    TRY(json_word_or(object, parameter->name, parameter->words, word_count, index, &index, error));
    *value = (double)index;
    return STATUS_OK;
}

static enum status read_one(const struct parameter *parameter, const struct json *object, double *value,
                            struct error *error)
{
    int64_t integer = 0;
    bool flag = false;
    switch (parameter->type) {
    case PARAMETER_INT:
        TRY(json_int_or(object, parameter->name, (int64_t)parameter->minimum, (int64_t)parameter->maximum,
                        (int64_t)parameter->fallback, &integer, error));
        *value = (double)integer;
        return STATUS_OK;
    case PARAMETER_REAL:
        return json_real_or(object, parameter->name, parameter->minimum, parameter->maximum, parameter->fallback, value,
                            error);
    case PARAMETER_BOOL:
        TRY(json_bool_or(object, parameter->name, parameter->fallback > 0.5, &flag, error));
        *value = flag ? 1.0 : 0.0;
        return STATUS_OK;
    case PARAMETER_WORD: return read_word(parameter, object, value, error);
    }
    check_failed("a parameter type of the enum", __FILE__, __LINE__);
}

enum status parameters_read(const struct parameter *table, uint32_t count, const struct json *object,
                            const char *const *ignore, struct parameter_values *values, struct error *error)
{
    parameters_defaults(table, count, values);
    if (object->node == NULL) {
        return STATUS_OK;
    }
    const char *known[PARAMETERS_MAX + IGNORE_MAX];
    size_t known_count = 0;
    for (; ignore != NULL && ignore[known_count] != NULL; known_count++) {
        CHECK(known_count < IGNORE_MAX);
        known[known_count] = ignore[known_count];
    }
    for (uint32_t i = 0; i < count; i++) {
        known[known_count++] = table[i].name;
    }
    TRY(json_known_keys(object, known, known_count, error));
    for (uint32_t i = 0; i < count; i++) {
        TRY(read_one(&table[i], object, &values->value[i], error));
    }
    return STATUS_OK;
}

void parameters_print(const struct parameter *table, uint32_t count, const struct parameter_values *values,
                      struct json_writer *writer)
{
    CHECK(count <= PARAMETERS_MAX);
    for (uint32_t i = 0; i < count; i++) {
        const struct parameter *parameter = &table[i];
        double value = values->value[i];
        switch (parameter->type) {
        case PARAMETER_INT: jw_int(writer, parameter->name, (int64_t)value); break;
        case PARAMETER_REAL: jw_real(writer, parameter->name, value); break;
        case PARAMETER_BOOL: jw_bool(writer, parameter->name, value > 0.5); break;
        case PARAMETER_WORD: jw_string(writer, parameter->name, parameter->words[(size_t)value]); break;
        }
    }
}
