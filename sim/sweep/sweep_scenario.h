/* From the values of a point to its scenario's text, its name in the database (a hash), and back from text to values. */
#ifndef MEMWALL_SWEEP_SWEEP_SCENARIO_H
#define MEMWALL_SWEEP_SWEEP_SCENARIO_H

#include "sim/base/hash.h"
#include "sim/base/json.h"
#include "sim/base/strbuf.h"
#include "sim/sweep/sweep.h"

/* Compact text with keys sorted and comments left out, so that equal scenarios have equal text. */
void sweep_canonical(const struct json *value, struct strbuf *out);

/* The scenario of the point that `walk` stands at: canonical text of the base with the axes' values set. STATUS_BAD_INPUT when a value cannot be put there. */
enum status sweep_scenario_text(const struct sweep_walk *walk, struct strbuf *text, struct error *error);

/* Hash of a canonical text, of the library files and files of the disk that it names: a changed machine file is another scenario. The scenario's "name" does not count. */
enum status sweep_scenario_hash(const char *text, struct hash *hash, struct error *error);

/* The axes' values of the point as a JSON object. */
void sweep_axes_json(const struct sweep_walk *walk, struct strbuf *out);

/* A JSON value as an expression's; texts go into `arena`. */
enum status sweep_value_from_json(const struct json *at, struct arena *arena, struct expression_value *value,
                                  struct error *error);

/* Refuses values of a type that no scenario takes at `path`, and paths that no scenario has, with the nearest key. */
enum status sweep_path_check(const struct json *at, const char *path, const struct expression_value *values,
                             uint32_t count, struct error *error);

#endif
