/* Between deepspeed_config.c, which reads what matters, and deepspeed_config_keys.c, which lists what does not. */
#ifndef MEMWALL_PLAN_DEEPSPEED_CONFIG_INTERNAL_H
#define MEMWALL_PLAN_DEEPSPEED_CONFIG_INTERNAL_H

#include "sim/plan/deepspeed_config.h"

enum { DEEPSPEED_USED_MAX = 64 };

/* Keys that were read, by their JSON node. */
struct deepspeed_used {
    const struct cJSON *nodes[DEEPSPEED_USED_MAX];
    uint32_t count;
};

/* List every key below `root` that is not in `used`, whole sections once. */
enum status deepspeed_list_ignored(struct deepspeed_reading *reading, const struct json *root,
                                   const struct deepspeed_used *used, struct error *error);

#endif
