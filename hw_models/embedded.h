/* Files built into the library, so that it needs no installation path and no environment: hw_models/embed.cmake turns a folder of JSON files into one
 * C file at build time. Nothing is parsed before it is asked for. */
#ifndef MEMWALL_HW_MODELS_EMBEDDED_H
#define MEMWALL_HW_MODELS_EMBEDDED_H

#include <stddef.h>
#include <stdint.h>

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

#endif
