/* The parameter table of a plug-in: each is listed once, and yields parsing, checks, defaults, `--help` and docs. */
#ifndef MEMWALL_PLAN_PARAMETER_H
#define MEMWALL_PLAN_PARAMETER_H

#include <stdbool.h>
#include <stdint.h>

#include "sim/base/json.h"
#include "sim/base/json_write.h"

enum parameter_type { PARAMETER_INT, PARAMETER_REAL, PARAMETER_BOOL, PARAMETER_WORD };

enum { PARAMETERS_MAX = 32 };

struct parameter {
    const char *name;
    enum parameter_type type;
    const char *unit;         /* "bytes", "layers", "" */
    double minimum, maximum;  /* int, real; inclusive */
    double fallback;          /* default; bool: 0/1; word: index into words */
    const char *const *words; /* word: allowed values, NULL-terminated */
    const char *help;
};

/* Values in the order of the table. */
struct parameter_values {
    double value[PARAMETERS_MAX];
};

/* A plug-in is a name, or an object of "name" and parameters. Sets *name, the cursor where it stands and that of the object (node NULL when only a name). Absent: `fallback`, no nodes. */
enum status parameters_read_plug_in(const struct json *parent, const char *key, const char *fallback, const char **name,
                                    struct json *object, struct json *name_at, struct error *error);
/* Read every key of `object` except those in `ignore` (NULL-terminated, may be NULL) against the table; absent ones take their default; unknown ones are errors with the nearest name. `object->node` may be NULL: all defaults. */
enum status parameters_read(const struct parameter *table, uint32_t count, const struct json *object,
                            const char *const *ignore, struct parameter_values *values, struct error *error);
/* All at their defaults. */
void parameters_defaults(const struct parameter *table, uint32_t count, struct parameter_values *values);
/* Each as a key of the open object, in the order of the table. */
void parameters_print(const struct parameter *table, uint32_t count, const struct parameter_values *values,
                      struct json_writer *writer);

#endif
