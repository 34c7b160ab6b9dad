/* What binds: how the step time answers to more or less of each resource, by re-simulation.
 *
 * For each resource (sensitivity_scale.h) three steps are simulated: at twice the resource, and a hundredth above and below (factors 1.01 and 1/1.01; whole cores: one more and one less where a
 * hundredth is less than that). From these
 *   change       step time at twice the resource over that of the machine, less 1
 *   elasticity   d ln(step time) / d ln(resource), the central difference of the two small ones: -1 where the step waits for it all the time, 0 where never. The derivative of the step
 *                time is elasticity * step time / amount of the resource
 * The plan stays: schedules are built anew, so a policy that looks at memory sizes may choose otherwise; a step that waits for memory may jump. */
#ifndef MEMWALL_REPORT_SENSITIVITY_H
#define MEMWALL_REPORT_SENSITIVITY_H

#include "sim/base/json_write.h"
#include "sim/report/sensitivity_scale.h"
#include "sim/report/sensitivity_trial.h"

#define SENSITIVITY_STEP 0.01

struct sensitivity_item {
    enum scaled_resource resource;
    bool present;  /* the machine has it; else the rest is 0 */
    double factor; /* 2, or what whole cores make of it */
    struct trial_result doubled, more, less;
    double more_factor, less_factor;
    double change; /* holds when doubled.ran */
    double elasticity;
    bool has_elasticity; /* both small steps ran */
};

struct sensitivity {
    struct trial_result base;
    struct sensitivity_item items[SCALED_RESOURCE_COUNT]; /* by worth: the largest gain first; absent ones last */
};

/* `threads`: 0 for all cores. `progress` may be NULL. */
enum status sensitivity_compute(struct sensitivity *sensitivity, const struct scenario *scenario, uint32_t threads,
                                void (*progress)(void *context, uint32_t done, uint32_t total), void *progress_context,
                                struct error *error);

/* Member "sensitivity"; a table for people. */
void sensitivity_json(const struct sensitivity *sensitivity, struct json_writer *w);
void sensitivity_text(const struct sensitivity *sensitivity, struct strbuf *out);

#endif
