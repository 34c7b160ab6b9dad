/* What is known about the values of a machine file, beside them: where each comes from, how sure it is, how well the fits did. Fields are named as in the file's
 * "provenance" ("gpu.hbm_GBps", "links.pcie.GBps"); one covers what is inside it.
 *
 *     struct provenance all = { 0 };
 *     TRY(provenance_read(&all, &root, error));                     // of a checked machine file
 *     provenance_source(&all, "gpu.hbm_GBps", "stream", false, false);
 *     provenance_print(&all, &w);
 *     provenance_free(&all);
 *
 * Texts are copied. All that can go wrong is STATUS_NO_MEMORY. */
#ifndef MEMWALL_VALIDATE_PROVENANCE_H
#define MEMWALL_VALIDATE_PROVENANCE_H

#include <stdbool.h>
#include <stdint.h>

#include "sim/base/json.h"
#include "sim/base/json_write.h"

struct provenance_residual {
    char *what, *source; /* owned by the list */
    uint32_t points, left_out;
    double mean_error, worst_error, left_out_mean_error; /* relative; the last NAN: none left out */
    bool inherited;                                      /* of the base: a new line of the same name replaces it */
};

struct provenance {
    struct {
        struct provenance_source {
            char *field, *source;
            bool estimated;
        } * items; /* at most one of a field */
        size_t count, capacity;
    } sources;
    struct {
        struct provenance_error {
            char *field;
            double value;
        } * items;
        size_t count, capacity;
    } standard_errors; /* in the unit of the field */
    struct {
        struct provenance_residual *items;
        size_t count, capacity;
    } residuals;
};

/* The field's source; what said something of it alone goes, or (`inside`) of anything in it. No source (NULL or ""): nothing covers it any more but wider ones. */
enum status provenance_source(struct provenance *all, const char *field, const char *source, bool estimated,
                              bool inside);
/* The same of its standard error; 0: not known. */
enum status provenance_standard_error(struct provenance *all, const char *field, double value, bool inside);
/* A line of residuals; the numbers of `line` alone are read, and whether it is inherited. One that is not replaces inherited ones of its name, and an earlier one of its name and source. */
enum status provenance_residual(struct provenance *all, const char *what, const char *source,
                                const struct provenance_residual *line);
/* Adds what a machine file says; its residuals as inherited. The file has been checked by the machine loader. */
enum status provenance_read(struct provenance *all, const struct json *root, struct error *error);
/* The members "standard_errors", "residuals" and "provenance" of the object that `w` is in; each only when it has something. */
void provenance_print(const struct provenance *all, struct json_writer *w);
void provenance_free(struct provenance *all);

#endif
