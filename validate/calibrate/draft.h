/* A machine file being made: a JSON document, started from nothing or from a library machine, filled field by field with value, standard error and source, checked
 * by the loader that will read it, written whole or not at all. */
#ifndef MEMWALL_VALIDATE_DRAFT_H
#define MEMWALL_VALIDATE_DRAFT_H

#include <stdbool.h>
#include <stdint.h>

#include "sim/base/status.h"
#include "sim/base/strbuf.h"

struct draft; /* private */

/* What may name a machine: 1 to MACHINE_NAME_BYTES - 1 bytes of UTF-8 without control characters. STATUS_BAD_INPUT says what is wrong, and where. */
enum status draft_check_name(const char *name, struct error *error);
/* `base`: a library machine or path whose whole file the draft starts from, or NULL: an empty one. `name`, checked, becomes its name. */
enum status draft_new(struct draft **draft, const char *name, const char *base, struct error *error);
void draft_free(struct draft *draft); /* NULL is fine */

/* Set a number by its path without "$." ("gpu.hbm_GBps", "kernel_model.gemm.fp32.floor_s"), in the unit of its name. `standard_error` in the same unit; 0: not
 * known. `source` joins the provenance of this very field, replacing what covered it alone (NULL: nothing is said). Errors are sticky: draft_write reports the first.
 *
 * An item of a list is named by its number ("links.2.GBps"); "links.pcie.GBps" and "parts.cpu_socket.cores" set every entry of that kind (draft_get: the first).
 * A value with a standard error is rounded to three digits of it, never to fewer than six of its own; one without stays as it is. */
void draft_number(struct draft *draft, const char *path, double value, double standard_error, const char *source,
                  bool estimated);
void draft_text(struct draft *draft, const char *path, const char *value, const char *source);
void draft_flag(struct draft *draft, const char *path, bool value, const char *source);
/* Say where the value of a field comes from that the file leaves to the loader. */
void draft_source(struct draft *draft, const char *path, const char *source, bool estimated);
/* Set any JSON value from its text (a list of parts, of links). Sources and standard errors of what it replaces are forgotten. */
void draft_json(struct draft *draft, const char *path, const char *json, const char *source, bool estimated);
/* Add or replace one collective curve: points are (bytes, bus GB/s), rising in bytes. */
void draft_curve(struct draft *draft, const char *kind, uint32_t ranks, uint32_t nodes, const double *bytes,
                 const double *bus_GBps, uint32_t count, const char *source);
/* A line of the residual table that travels in the file ("residuals"): relative errors of the model at the points of one set; left_out_mean_error NAN: none left
 * out. It replaces lines of that name that came with the base, and an earlier one of that name and source. */
void draft_residual(struct draft *draft, const char *what, const char *source, uint32_t points, uint32_t left_out,
                    double mean_error, double worst_error, double left_out_mean_error);
/* What is set, in the draft or in the bases that it stands on. */
bool draft_has(const struct draft *draft, const char *path);
double draft_get(const struct draft *draft, const char *path, double otherwise);

/* The file's text, laid out as hw_models/machines are; appended to `out`. */
enum status draft_print(const struct draft *draft, struct strbuf *out, struct error *error);
/* Checks by machine_from_json, then writes to a temporary name and renames. */
enum status draft_write(const struct draft *draft, const char *path, struct error *error);

#endif
