/* Asynchronous pipelines: 1F1B without a flush.
 *
 * PipeDream (Narayanan et al., SOSP 2019) changes the weights after every backward and keeps the version with which each micro-batch in flight went forward: p - s of them. Period tF + tB.
 * PipeDream-2BW (Narayanan et al., ICML 2021) accumulates a batch and keeps two versions. What steps from one flush to the next costs is the fill; with N micro-batches the makespan is
 * (N + p - 1)(tF + tB). */
#include "sim/plan/order.h"
#include "sim/plan/plan_replicas.h"
#include "strategies/orders/orders.h"

enum { VERTICAL_SYNC };
static const struct parameter PARAMETERS[] = {
    { .name = "vertical_sync",
      .type = PARAMETER_BOOL,
      .unit = "",
      .minimum = 0,
      .maximum = 1,
      .fallback = 0,
      .help = "a micro-batch meets at every stage the version that it met at the first one: every stage keeps p "
              "versions" },
};

static uint32_t build(const struct order_request *request, uint32_t stage, struct order_step *steps)
{
    return order_one_f_one_b(order_share(request, stage), order_warm_up(request, stage), steps);
}

/* Stage s has made i updates when it runs forward i + p-1-s. Without vertical sync that forward takes version i, and those in flight have taken the p-1-s before it. With it the forward takes what the
 * first stage had, version i+p-1-s - (p-1) = i - s, and the oldest in flight has i - (p-1): p versions everywhere, up to the newest.
 * Replicas of a stage update together, each after one micro-batch of its own: a replica keeps what its own micro-batches in flight took. */
static uint32_t stashed_versions(const struct order_request *request, uint32_t stage)
{
    return request->parameters.value[VERTICAL_SYNC] > 0.5 ? request->stages : order_warm_up(request, stage) + 1;
}

static bool unequal(const struct order_request *request)
{
    for (uint32_t s = 1; s < request->stages; s++) {
        if (order_replicas(request, s) != order_replicas(request, 0)) {
            return true;
        }
    }
    return false;
}

static enum status check_pipedream(const struct order_request *request, struct error *error)
{
    if (request->parameters.value[VERTICAL_SYNC] > 0.5 && unequal(request)) {
        return error_set(error, STATUS_BAD_INPUT,
                         "vertical_sync with stages of different replicas: a stage updates once for as many "
                         "micro-batches as it has replicas, so no version of one stage is another's; leave "
                         "vertical_sync out, or give every stage as many replicas");
    }
    return STATUS_OK;
}

static uint32_t two_versions(const struct order_request *request, uint32_t stage)
{
    (void)request;
    (void)stage;
    return 2;
}

static enum status check_2bw(const struct order_request *request, struct error *error)
{
    uint32_t in_flight = (order_warm_up(request, 0) + 1) * order_replicas(request, 0);
    if (request->micro_batches < in_flight) {
        bool dealt = request->replicas != NULL;
        /* not 0: it divides the micro-batches */
        uint32_t turn = dealt ? (uint32_t)plan_replicas_multiple(request->replicas, request->stages) : 1;
        return error_set(error, STATUS_BAD_INPUT,
                         "%u micro-batches in %u stages: pipedream-2bw needs at least as many micro-batches as %s, or "
                         "two versions are not enough; the nearest is %u",
                         request->micro_batches, request->stages, dealt ? "are in flight" : "stages",
                         (in_flight + turn - 1) / turn * turn);
    }
    return STATUS_OK;
}

const struct pipeline_order order_pipedream = {
    .abi = PIPELINE_ORDER_ABI,
    .name = "pipedream",
    .summary = "asynchronous 1F1B: no flush, p - s versions of the weights",
    .paper = "Narayanan et al., PipeDream, SOSP 2019",
    .parameters = PARAMETERS,
    .parameter_count = sizeof PARAMETERS / sizeof PARAMETERS[0],
    .asynchronous = true,
    .virtual_stages = 1,
    .model_replicas = 1,
    .deals = true,
    .check = check_pipedream,
    .build = build,
    .weight_versions = stashed_versions,
};

const struct pipeline_order order_pipedream_2bw = {
    .abi = PIPELINE_ORDER_ABI,
    .name = "pipedream-2bw",
    .summary = "asynchronous 1F1B, gradients accumulated over a batch: two versions of the weights",
    .paper = "Narayanan et al., Memory-Efficient Pipeline-Parallel DNN Training, ICML 2021",
    .asynchronous = true,
    .accumulates = true,
    .virtual_stages = 1,
    .model_replicas = 1,
    .deals = true,
    .check = check_2bw,
    .build = build,
    .weight_versions = two_versions,
};
