/* Parts of the sweep loader: for sim/sweep/sweep_*.c alone. */
#ifndef MEMWALL_SWEEP_SWEEP_LOAD_H
#define MEMWALL_SWEEP_SWEEP_LOAD_H

#include "sim/base/json.h"
#include "sim/sweep/expression.h"

/* The values that "values", "range" or "log_range" of an axis say (exactly one of them), in `arena`. */
enum status sweep_axis_values(const struct json *axis, struct arena *arena, struct expression_value **values,
                              uint32_t *count, struct error *error);

#endif
