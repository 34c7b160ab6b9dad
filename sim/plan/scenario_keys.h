/* The keys of a scenario, listed once: scenario_keys shows them, and the readers of scenario and plan refuse others by this table. */
#ifndef MEMWALL_PLAN_SCENARIO_KEYS_H
#define MEMWALL_PLAN_SCENARIO_KEYS_H

#include "sim/base/json.h"

/* Refuse keys of `object` that are not listed under `section` ("" for the top, "parallel" for "parallel.*"). */
enum status scenario_known_keys(const struct json *object, const char *section, struct error *error);

#endif
