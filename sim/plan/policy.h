/* A memory policy as a plug-in: where each class of tensor lives, and what moves when.
 *
 * The lowering walks each rank's passes in issue order and asks the policy at fixed points; the policy answers by emitting ops through the kit in sim/plan/lower.h. Every hook
 * is optional: a policy without any is `resident` (everything on the device, Adam on the device). State lives in the lowering's arena, reached through lower_policy_state.
 *
 * To add one: one file in strategies/policies/ with a `const struct memory_policy`, its name in strategies/policies/policies.h and strategies/registry.c, one test.
 * A policy that moves something (any hook but check and choose_recompute) takes part in orders with a flush and one copy of the model, with `streams` in asynchronous ones too, and in plans that
 * split all layers alike: others are refused before a hook is called. An activation can be taken from after_pass of its LOWER_FORWARD on, and is given back in before_pass of its LOWER_BACKWARD at the latest.
 *
 * strategies/policies/resident.c is the smallest; strategies/policies/optimizer_on_host.c the smallest that moves something, tests/t_policy_optimizer_on_host.c its test. */
#ifndef MEMWALL_PLAN_POLICY_H
#define MEMWALL_PLAN_POLICY_H

#include "sim/ir/schedule.h"
#include "sim/plan/lower.h"
#include "sim/plan/parameter.h"

enum { MEMORY_POLICY_ABI = 1 };

struct memory_policy {
    uint32_t abi;
    const char *name, *summary, *paper;
    const struct parameter *parameters;
    uint32_t parameter_count;

    /* Refuse what cannot be combined, with the reason and what would do. NULL: nothing more is refused. */
    enum status (*check)(const struct lower_request *request, struct error *error);
    /* A rank opens: its layers are known, nothing is emitted yet. NULL: nothing to prepare. */
    void (*begin_rank)(struct lowering *lowering);
    /* Change what layers recompute: modes[layers of the rank] (enum recompute_mode) come in as the plan has them; lower_layers has everything but the buffers. Before begin_rank. NULL: as the plan
     * has it. */
    void (*choose_recompute)(struct lowering *lowering, uint8_t *modes);
    /* The space that holds a layer's weights, gradients or optimizer states for the whole step (BUFFER_WEIGHT, BUFFER_GRADIENT, BUFFER_OPTIMIZER). NULL: SPACE_DEVICE.
     * SPACE_STORAGE and SPACE_HOST are pageable, SPACE_PINNED is page-locked. Asked before begin_rank. The lowering only charges the space: what kernels need of it on the device,
     * the policy copies there (before_pass, after_pass); nobody notices when it does not. Gradients that lie on the host need a device buffer in each pass (lower_buffer, lower_next_acquires), a copy
     * down behind the layer's last weight pass (gradient_ready tells; of ZeRO the owned share), and an optimizer that waits for it; their norm is still taken on the device. SPACE_KIND_COUNT: the lowering charges nothing, the policy makes the buffers itself (on other devices). */
    enum space_kind (*place)(struct lowering *lowering, const struct lower_layer *layer,
                             enum buffer_class buffer_class);
    /* Whether the policy itself keeps the layer's older weight versions, of an asynchronous order that stashes some: the lowering charges nothing then. Asked before begin_rank. NULL: they stay on
     * the device. */
    bool (*moves_versions)(struct lowering *lowering, const struct lower_layer *layer);
    /* Around each layer pass (forward; backward with its recomputation; weight part). NULL: nothing. */
    void (*before_pass)(struct lowering *lowering, const struct lower_pass *pass);
    void (*after_pass)(struct lowering *lowering, const struct lower_pass *pass);
    /* The gradient of `layer` is final for this step (reduced over the data-parallel group if there is one, a tied embedding's summed with its copy on another stage) once `after_op`
     * has ended. Called once a step for each layer that has parameters, mostly the last layer first, in the middle of the backward passes; under sequence parallelism the sum of the few
     * elements that tensor ranks hold alike (norms) comes later. NULL: nothing. */
    void (*gradient_ready)(struct lowering *lowering, const struct lower_layer *layer, uint32_t after_op);
    /* Update the parameters: called once a rank, after all gradients are final (and the gradient norm is known) once `after_op` has ended. Returns the op after which the weights on
     * the device are new; under ZeRO 1 and 2 the lowering then gathers them. NULL: fused Adam on the device (lower_device_optimizer). */
    uint32_t (*optimizer)(struct lowering *lowering, uint32_t after_op);
    /* The policy holds the model's data itself, in units of its own, and moves, gathers, reduces and updates it: the lowering makes no buffers for weights, gradients and optimizer states (place,
     * gradient_ready are not called), emits no gather or cast of weights, no clearing, reduction or norm of gradients. `optimizer` is called after the last pass and is required. */
    bool owns_model_data;
    /* The policy carries out the plan's moves (sim/plan/plan_moves.h). */
    bool takes_moves;
    /* The policy goes with asynchronous orders. They are one stream of passes, all steps of the schedule, whose micro-batches are numbered through (lower_order_request): `gradient_ready` and
     * `optimizer` are called for each update amid the stream, after_op being SCHED_NONE where the last pass is all that there is to wait for, and there is no norm of gradients. The compute op after
     * `optimizer` clears the gradients, and those behind it use the new weights. */
    bool streams;
    /* The policy goes with training.layer_drop: it takes passes as they come. Those of a skipped layer (lower_pass.skipped) do not run; of the last micro-batch's backward the hooks are called all the
     * same, around the clearing of a gradient: only the gradient is to be dealt with. */
    bool skips_layers;
};

#endif
