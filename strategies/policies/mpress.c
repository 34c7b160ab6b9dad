/* The policy `mpress`: carries out plan.moves (sim/plan/plan_moves.h). The mechanisms are MPress's (HPCA 2023: recomputation, swap to the host, device-to-device swap in stripes over several
 * links); what is read of them in public is the abstract, so the rules of when and how are ours. `memwall plan --planner mpress` finds the moves.
 *
 * Under asynchronous orders activations move as passes go, in every step of the stream; optimizer states visit for each update; older weight versions leave after the last forward that takes them
 * and come back for their backwards (mpress_versions.h).
 *
 * One device a stage, or unfolded ranks: then every copy is an op of its own rank, on the links that it takes. ZeRO is not combined with it: MPress is compared with it. */
#include "sim/plan/plan_order.h"
#include "strategies/policies/activation_kit.h"
#include "strategies/policies/mpress_states.h"
#include "strategies/policies/mpress_versions.h"
#include "strategies/policies/policies.h"

/* What a rank has beside its activations. */
struct mpress_rank {
    struct mpress_states states;
    struct mpress_versions versions;
};

static enum status check_versions(const struct lower_request *request, struct error *error)
{
    const struct plan *plan = request->plan;
    const struct order_request order_request = plan_order_request(plan);
    for (uint32_t i = 0; i < plan->move_count; i++) {
        if (plan->moves[i].tensor == MOVE_VERSION && mpress_versions_moving(request->order, &order_request, 0) == 0) {
            return error_at(error, STATUS_UNSUPPORTED, NULL, "$.plan.moves",
                            "moves[%u] speaks of older weight versions, and pipeline_order \"%s\" has none that could "
                            "leave: allowed is \"pipedream\" without vertical_sync, with two stages or more",
                            i, request->order->name);
        }
    }
    return STATUS_OK;
}

static enum status check(const struct lower_request *request, struct error *error)
{
    const struct plan *plan = request->plan;
    if (plan->moves == NULL) {
        return error_at(
            error, STATUS_BAD_INPUT, NULL, "$.memory_policy",
            "mpress carries out plan.moves, and there are none: let `memwall plan SCENARIO --planner mpress "
            "--out plan.json` find them and `memwall run SCENARIO --plan plan.json` run them, or say "
            "plan.moves (an empty list moves nothing)");
    }
    if (plan->zero_stage > 0) {
        return error_at(error, STATUS_UNSUPPORTED, NULL, "$.parallel.zero_stage",
                        "mpress is not combined with ZeRO: allowed is zero_stage 0");
    }
    for (uint32_t i = 0; i < plan->move_count; i++) {
        if (plan->moves[i].target == MOVE_TO_DEVICES && plan->fold && plan->tensor * plan->data * plan->context > 1) {
            return error_at(error, STATUS_UNSUPPORTED, NULL, "$.fold",
                            "a device-to-device swap with several devices a stage needs every rank by itself: say "
                            "fold: false");
        }
    }
    return check_versions(request, error);
}

static struct mpress_rank *own_of(struct lowering *lowering)
{
    const struct activation_rank *rank = *lower_policy_state(lowering);
    return rank->own;
}

static void choose_recompute(struct lowering *lowering, uint8_t *modes)
{
    uint32_t count;
    const struct lower_layer *layers = lower_layers(lowering, &count);
    for (uint32_t i = 0; i < count; i++) {
        const struct tensor_move *move =
            plan_moves_find(lower_input(lowering)->plan, MOVE_ACTIVATION, mpress_position(lowering, &layers[i]));
        if (move != NULL && move->target == MOVE_TO_RECOMPUTE) {
            modes[i] = RECOMPUTE_FULL;
        }
    }
}

static enum space_kind place(struct lowering *lowering, const struct lower_layer *layer, enum buffer_class buffer_class)
{
    const struct tensor_move *move =
        plan_moves_find(lower_input(lowering)->plan, MOVE_OPTIMIZER, mpress_position(lowering, layer));
    if (buffer_class != BUFFER_OPTIMIZER || move == NULL) {
        return SPACE_DEVICE;
    }
    return move->target == MOVE_TO_DEVICES ? SPACE_KIND_COUNT : SPACE_PINNED;
}

static bool cut(struct lowering *lowering, const struct tensor_move *move, struct activation_saving *saving)
{
    if (move->stripe_count == 0) {
        return true;
    }
    saving->stripes = arena_array(lower_arena(lowering), struct activation_stripe, move->stripe_count);
    if (saving->stripes == NULL) {
        lower_fail(lowering, STATUS_NO_MEMORY, "out of memory for the activations of a rank");
        return false;
    }
    for (uint32_t i = 0; i < move->stripe_count; i++) {
        saving->stripes[i] = (struct activation_stripe){ .stage = (uint32_t)move->stripes[i].stage,
                                                         .bytes = mpress_stripe_bytes(move, saving->bytes, i) };
    }
    saving->stripe_count = move->stripe_count;
    return true;
}

/* All savings of a layer. One whose idle interval has no pass between its lag and its lead stays. */
static bool move_layer(struct lowering *lowering, struct activation_rank *rank, uint32_t layer,
                       const struct tensor_move *move)
{
    uint32_t lag = (uint32_t)move->lag, lead = (uint32_t)move->lead;
    for (uint32_t m = 0; m < rank->micro_batches; m++) {
        struct activation_saving *saving = activation_saving_of(rank, layer, m);
        if (!(saving->bytes > 0) || saving->backward <= saving->forward + lag + lead) {
            continue;
        }
        saving->moves = true;
        saving->trigger = saving->backward - lead;
        saving->gone = saving->gone_by = saving->forward + lag;
        if (!cut(lowering, move, saving)) {
            return false;
        }
    }
    return mpress_check_stripes(lowering, move);
}

static bool moves_versions(struct lowering *lowering, const struct lower_layer *layer)
{
    return mpress_versions_leave(lowering, layer);
}

static void begin_rank(struct lowering *lowering)
{
    struct activation_rank *rank = activation_begin(lowering);
    struct mpress_rank *own = arena_array(lower_arena(lowering), struct mpress_rank, 1);
    if (rank == NULL || own == NULL) {
        lower_fail(lowering, STATUS_NO_MEMORY, "out of memory for a rank");
        return;
    }
    rank->own = own;
    if (!mpress_states_begin(lowering, &own->states) || !mpress_versions_begin(lowering, &own->versions, rank)) {
        return;
    }
    for (uint32_t i = 0; i < rank->layer_count; i++) {
        const struct tensor_move *move =
            plan_moves_find(lower_input(lowering)->plan, MOVE_ACTIVATION, mpress_position(lowering, &rank->layers[i]));
        if (move != NULL && move->target != MOVE_TO_RECOMPUTE && !move_layer(lowering, rank, i, move)) {
            return;
        }
    }
    activation_ready(lowering, rank);
}

static void before_pass(struct lowering *lowering, const struct lower_pass *pass)
{
    const struct activation_rank *rank = *lower_policy_state(lowering);
    mpress_versions_before_pass(lowering, &own_of(lowering)->versions, rank, pass);
    activation_before_pass(lowering, pass);
}

static void after_pass(struct lowering *lowering, const struct lower_pass *pass)
{
    const struct activation_rank *rank = *lower_policy_state(lowering);
    mpress_versions_after_pass(lowering, &own_of(lowering)->versions, rank, pass);
    activation_after_pass(lowering, pass);
}

static void gradient_ready(struct lowering *lowering, const struct lower_layer *layer, uint32_t after_op)
{
    mpress_states_gradient(lowering, &own_of(lowering)->states, layer, after_op);
}

/* Nothing writes new weights before the versions that they replace have left. */
static uint32_t optimizer(struct lowering *lowering, uint32_t after_op)
{
    const struct mpress_rank *own = own_of(lowering);
    return mpress_states_update(lowering, &own->states, after_op, own->versions.gone);
}

const struct memory_policy policy_mpress = {
    .abi = MEMORY_POLICY_ABI,
    .name = "mpress",
    .summary = "carries out plan.moves: activations, optimizer states and older weight versions to the host, to other "
               "stages' devices in stripes over several links, or computed again (memwall plan --planner mpress finds "
               "them)",
    .paper = "the ideas of MPress, HPCA 2023; our rules",
    .check = check,
    .begin_rank = begin_rank,
    .choose_recompute = choose_recompute,
    .place = place,
    .moves_versions = moves_versions,
    .before_pass = before_pass,
    .after_pass = after_pass,
    .gradient_ready = gradient_ready,
    .optimizer = optimizer,
    .takes_moves = true,
    .streams = true,
};
