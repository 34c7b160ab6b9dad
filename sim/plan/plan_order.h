/* The pipeline order of a plan: one of the registered ones with its parameters, or steps of one's own. `parallel.pipeline_order` takes
 *
 *     "1f1b"                                                     a registered order; as an object with its parameters
 *     {"name": "file", "path": "mine.txt"}                       steps from a file (sim/plan/order_table.h)
 *     {"name": "steps", "stages": ["F0 F1 B0 B1", "F0 B0 F1 B1"]}  the same, written down here; what plan files have
 *     {"name": "auto", "forward": [1, 2], "backward": [2, 4]}    steps that a scheduler makes (sim/plan/order_auto.h)
 *
 * `auto` takes for each stage, one number or a list: "forward", "backward", "weight_gradient" (given: backwards are split), in any unit; "limits", the most activations that a stage may keep
 * (default: any number); and "hop". With virtual_stages its chunks share a stage's times equally, and "placement" says where they are: "loop" (as interleaved; default) or "v" (as zb-v). Absent forwards are 1 a layer of the stage (over the replicas that cut it), backwards 2, or 1 when they are split. */
#ifndef MEMWALL_PLAN_PLAN_ORDER_H
#define MEMWALL_PLAN_PLAN_ORDER_H

#include "sim/base/json_write.h"
#include "sim/plan/order.h"
#include "sim/plan/plan.h"

/* NULL with an error when the name is not known. Borrowed from the plan, or static. */
const struct pipeline_order *plan_order(const struct plan *plan, struct error *error);
/* What the order is asked for: the plan's stages, micro-batches of one step, chunks, parameters. */
struct order_request plan_order_request(const struct plan *plan);

/* Steps that a schedule of the order holds. An asynchronous order is never flushed: simulated from its beginning are steps that fill it, one to be measured, and one behind it (timeline_step). Else 1. */
uint32_t plan_order_steps(const struct pipeline_order *order, const struct plan *plan);

/* What the order is asked for over all of these steps. */
struct order_request plan_order_stream(const struct pipeline_order *order, const struct plan *plan);

/* Make a registered order the plan's, with its default parameters. */
void plan_order_use(struct plan *plan, const struct pipeline_order *order);

/* Reads "pipeline_order" of the object `parallel` (its node may be NULL): name, parameters, own steps. `arena` owns them. The steps of `auto` come with plan_order_schedule. */
enum status plan_order_read(struct plan *plan, const struct json *parallel, struct arena *arena, struct error *error);
/* The steps of a plan whose order is `auto`, once stages, their layers and micro-batches are known. */
enum status plan_order_schedule(struct plan *plan, const struct json *parallel, struct arena *arena,
                                struct error *error);
/* Whether the plan is of the size that its own steps are for; STATUS_BAD_INPUT names the key to change, and how. */
enum status plan_order_check_size(const struct plan *plan, struct error *error);
/* As "pipeline_order" of the open object. */
void plan_order_print(const struct plan *plan, struct json_writer *writer);

#endif
