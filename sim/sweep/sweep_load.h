/* Parts of the sweep loader: for sim/sweep/sweep_*.c alone. Errors say where in the file. */
#ifndef MEMWALL_SWEEP_SWEEP_LOAD_H
#define MEMWALL_SWEEP_SWEEP_LOAD_H

#include "sim/sweep/sweep.h"

/* sweep_values.c: the values that "values", "range" or "log_range" of an axis say (exactly one of them), in `arena`. */
enum status sweep_axis_values(const struct json *axis, struct arena *arena, struct expression_value **values,
                              uint32_t *count, struct error *error);

/* sweep_axes.c: "axes", then "conditions", of the file's `root`; names in expressions are axes or keys of the base. */
enum status sweep_read_axes(struct sweep *sweep, const struct json *root, struct json_document *base_document,
                            struct error *error);
enum status sweep_read_conditions(struct sweep *sweep, const struct json *root, struct json_document *base_document,
                                  struct error *error);

/* sweep_count.c, in this order: which linked value follows which (a circle is refused) and from which depth on expressions are known; how many points there are (too many, or none, are refused);
 * whether the first can stand: values that no scenario takes are the sweep's fault, not a point's. */
enum status sweep_order_links(struct sweep *sweep, const struct json *root, struct error *error);
enum status sweep_count_points(struct sweep *sweep, const struct json *root, struct error *error);
enum status sweep_try_first(struct sweep *sweep, const struct json *root, struct error *error);

enum status sweep_no_memory(struct error *error);

#endif
