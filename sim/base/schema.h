/* What kind of document a file says it is, and what it lacks: checked before anything else in it, so that a plan given as a scenario is called a plan instead of failing on its first key.
 *
 *     TRY(schema_check(&root, "memwall.machine/1", false, error));
 *     static const char *const NEEDED[] = { "name", "gpu.model", "links" };
 *     TRY(schema_need(&root, NEEDED, 3, error));              // all that is missing, in one message */
#ifndef MEMWALL_BASE_SCHEMA_H
#define MEMWALL_BASE_SCHEMA_H

#include "sim/base/json.h"

/* Refuse a "schema" other than `schema` ("memwall.KIND/VERSION"), saying which kind of file it is and what takes one. An absent one is fine unless `required`. An object that is none is
 * STATUS_BAD_INPUT as well. */
enum status schema_check(const struct json *root, const char *schema, bool required, struct error *error);

/* For what has no schema of its own: refuse a document that says it is of one of ours, where `wanted` ("a model: ...") was expected. */
enum status schema_none(const struct json *root, const char *wanted, struct error *error);

/* Refuse when several keys are missing, naming all of them: one alone is left to who reads it and says what it should be. A key of an object within is "gpu.model", and counts as missing when the
 * object is. null is missing. */
enum status schema_need(const struct json *root, const char *const *paths, size_t count, struct error *error);

/* The "name" of a document, or `fallback`: one line of at most `bytes_max` bytes. Lives as long as the document. */
enum status schema_name(const struct json *root, const char *fallback, size_t bytes_max, const char **name,
                        struct error *error);

/* "memwall.plan/1" or another text in "schema"; "" when there is none, or no object. Lives as long as the document. */
const char *schema_of(const struct json *root);

#endif
