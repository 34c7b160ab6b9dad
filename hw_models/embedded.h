/* Files built into the library, so that it needs no installation path and no environment: hw_models/embed.cmake turns a folder of JSON files into one
 * C file at build time. Nothing is parsed before it is asked for. */
#ifndef MEMWALL_HW_MODELS_EMBEDDED_H
#define MEMWALL_HW_MODELS_EMBEDDED_H

#include <stddef.h>
#include <stdint.h>

#include "sim/base/json.h"

struct embedded_file {
    const char *name;          /* file name without ".json" */
    const unsigned char *text; /* NUL-terminated */
    size_t length;             /* without the terminator */
};

/* Sorted by name. */
extern const struct embedded_file embedded_machines[];
extern const uint32_t embedded_machine_count;
extern const struct embedded_file embedded_software[];
extern const uint32_t embedded_software_count;

/* A library of such files: how its names are looked up and missed. */
struct embedded_library {
    const struct embedded_file *files;
    const uint32_t *count;
    const char *folder; /* "machines": below hw_models/, for messages */
    const char *noun;   /* "machine" */
    size_t bytes_max;   /* of a file named by its path */
};

/* Open a library name, or a path (with '/', ending in ".json", or "-"). The caller frees the document. STATUS_NOT_FOUND suggests the nearest name. */
enum status embedded_open(const struct embedded_library *library, const char *name, struct json_document **document,
                          struct error *error);
/* What a loader of the name at `value` answered: when the name was not found, the error says where it stands. Returns the status for the caller. */
enum status embedded_answer(const struct json *value, enum status status, const struct error *inner,
                            struct error *error);

#endif
