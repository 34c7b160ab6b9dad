/* The policy `swapadvisor` (Huang et al., ASPLOS 2020; rules of facts/mpress-hippie-pipelines.md D): where the budget is exceeded, what is needed furthest ahead goes to host memory (Belady), and
 * it comes up as soon as there is space. A chain of layers has one order and savings of one size: nothing is left for the genetic search over orders and allocations. */
#include "strategies/policies/activation_kit.h"
#include "strategies/policies/policies.h"

static const struct parameter PARAMETERS[] = { [ACTIVATION_BUDGET] = ACTIVATION_BUDGET_PARAMETER };

static bool needed_later(const struct activation_saving *a, const struct activation_saving *b)
{
    return a->backward > b->backward;
}

static void begin_rank(struct lowering *lowering)
{
    struct activation_rank *rank = activation_begin(lowering);
    if (rank != NULL) {
        activation_evict(rank, needed_later);
        activation_live(rank);
        activation_trigger_at_once(rank);
        activation_ready(lowering, rank);
    }
}

const struct memory_policy policy_swapadvisor = {
    .abi = MEMORY_POLICY_ABI,
    .name = "swapadvisor",
    .summary = "where memory runs out, what is needed furthest ahead goes to host memory; it comes up as soon as there "
               "is space",
    .paper = "Huang et al., ASPLOS 2020",
    .parameters = PARAMETERS,
    .parameter_count = sizeof PARAMETERS / sizeof PARAMETERS[0],
    .begin_rank = begin_rank,
    .before_pass = activation_before_pass,
    .after_pass = activation_after_pass,
    .streams = true,
};
