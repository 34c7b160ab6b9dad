/* What mechanisms cost and free (our rule after the cost model of facts/mpress-hippie-pipelines.md A.4). Exposed time is what the copies of a micro-batch cycle take beyond the cycle: links carry in
 * both directions at once, so one direction decides. Emulation has the last word. */
#include <math.h>
#include <string.h>

#include "strategies/planners/mpress_internal.h"

/* The way between a stage's device and the memory of its nearest socket. False: there is none. */
static bool host_route(const struct mpress_case *c, const struct mpress_choices *choices, uint32_t stage, bool to_host,
                       struct route *route)
{
    const struct cluster *cluster = &c->scenario->cluster;
    uint32_t gpu = (uint32_t)choices->place[stage];
    const struct endpoint device = { ENDPOINT_GPU, gpu };
    const struct endpoint host = cluster_gpu_host(cluster, gpu);
    return cluster_route(cluster, to_host ? device : host, to_host ? host : device, false, route, NULL) == STATUS_OK;
}

static bool uses_host(const struct mpress_case *c, const struct mpress_choices *choices, uint32_t stage)
{
    for (uint32_t i = 0; i < c->positions; i++) {
        const uint8_t *target = choices->of[i].target;
        for (int what = 0; what < MOVE_TENSOR_COUNT && c->layers[i].stage == stage; what++) {
            if (target[what] == MOVE_TO_HOST) {
                return true;
            }
        }
    }
    return false;
}

static double coefficient_in(const struct route *route, uint32_t resource)
{
    for (uint32_t i = 0; i < route->use_count; i++) {
        if (route->uses[i].resource == resource) {
            return route->uses[i].coefficient;
        }
    }
    return 0;
}

/* Resources are shared with the other stages that swap to the host. */
double mpress_host_s(const struct mpress_case *c, const struct mpress_choices *choices, uint32_t stage, double bytes,
                     bool to_host)
{
    const struct cluster *cluster = &c->scenario->cluster;
    struct route own, other;
    double users[ROUTE_USES_MAX];
    if (!host_route(c, choices, stage, to_host, &own)) {
        return INFINITY;
    }
    for (uint32_t i = 0; i < own.use_count; i++) {
        users[i] = own.uses[i].coefficient;
    }
    for (uint32_t s = 0; s < c->stages; s++) {
        if (s == stage || !uses_host(c, choices, s) || !host_route(c, choices, s, to_host, &other)) {
            continue;
        }
        for (uint32_t i = 0; i < own.use_count; i++) {
            users[i] += coefficient_in(&other, own.uses[i].resource);
        }
    }
    double rate = own.rate_cap_bytes_per_s;
    for (uint32_t i = 0; i < own.use_count; i++) {
        rate = fmin(rate, cluster->resources[own.uses[i].resource].capacity / users[i]);
    }
    return bytes / rate;
}

double mpress_stripes_s(const struct mpress_case *c, const struct mpress_choices *choices, uint32_t stage,
                        const struct tensor_stripe *stripes, uint32_t count, double bytes)
{
    const struct cluster *cluster = &c->scenario->cluster;
    struct resource_use sums[MOVE_STRIPES_MAX * ROUTE_USES_MAX];
    uint32_t sum_count = 0;
    double shares = 0, seconds = 0;
    for (uint32_t i = 0; i < count; i++) {
        shares += stripes[i].share;
    }
    for (uint32_t i = 0; i < count; i++) {
        const struct endpoint from = { ENDPOINT_GPU, (uint32_t)choices->place[stage] };
        const struct endpoint to = { ENDPOINT_GPU, (uint32_t)choices->place[stripes[i].stage] };
        struct route route;
        double part = bytes * stripes[i].share / shares;
        if (cluster_route(cluster, from, to, false, &route, NULL) != STATUS_OK) {
            return INFINITY;
        }
        seconds = fmax(seconds, part / route.rate_cap_bytes_per_s);
        for (uint32_t u = 0; u < route.use_count; u++) {
            uint32_t at = 0;
            while (at < sum_count && sums[at].resource != route.uses[u].resource) {
                at++;
            }
            if (at == sum_count) {
                sums[sum_count++] = (struct resource_use){ route.uses[u].resource, 0 };
            }
            sums[at].coefficient += part * route.uses[u].coefficient;
        }
    }
    for (uint32_t i = 0; i < sum_count; i++) {
        seconds = fmax(seconds, sums[i].coefficient / cluster->resources[sums[i].resource].capacity);
    }
    return seconds;
}

/* ---- idle intervals ---- */

static int64_t passes_ps(const struct mpress_case *c, uint32_t stage, int64_t passes)
{
    return (int64_t)(c->pass_s[stage] * 1e12 * (double)passes);
}

uint32_t mpress_away_at(const struct mpress_case *c, const struct mpress_choices *choices,
                        const struct mpress_view *view, uint32_t position, enum mpress_way way, int64_t at_ps)
{
    uint32_t stage = c->layers[position].stage, away = 0;
    int64_t lag = passes_ps(c, stage, choices->lag[stage][way]), lead = passes_ps(c, stage, choices->lead[stage][way]);
    for (uint32_t m = 0; m < c->instances; m++) {
        size_t at = (size_t)position * c->instances + m;
        away += view->forward_end_ps[at] + lag <= at_ps && at_ps < view->backward_start_ps[at] - lead;
    }
    return away;
}

static uint32_t in_flight_at(const struct mpress_case *c, const struct mpress_view *view, uint32_t position,
                             int64_t at_ps)
{
    uint32_t count = 0;
    for (uint32_t m = 0; m < c->instances; m++) {
        size_t at = (size_t)position * c->instances + m;
        count += view->forward_end_ps[at] <= at_ps && at_ps < view->backward_start_ps[at];
    }
    return count;
}

uint32_t mpress_away_most(const struct mpress_case *c, const struct mpress_choices *choices,
                          const struct mpress_view *view, uint32_t position, enum mpress_way way)
{
    uint32_t stage = c->layers[position].stage, most = 0;
    int64_t both = passes_ps(c, stage, choices->lag[stage][way] + choices->lead[stage][way]);
    for (uint32_t m = 0; m < c->instances; m++) {
        size_t at = (size_t)position * c->instances + m;
        uint32_t together = 0;
        for (uint32_t k = 0; k < c->instances; k++) { /* on another device from its forward's end to its backward */
            size_t other = (size_t)position * c->instances + k;
            together += view->forward_end_ps[other] <= view->forward_end_ps[at] &&
                        view->forward_end_ps[at] < view->backward_start_ps[other] &&
                        view->backward_start_ps[other] - view->forward_end_ps[other] > both;
        }
        most = together > most ? together : most;
    }
    return most;
}

/* One is back from `lead` passes before each backward that needs it to that backward's end. */
uint32_t mpress_versions_away(const struct mpress_case *c, const struct mpress_choices *choices,
                              const struct mpress_view *view, uint32_t position, enum mpress_way way, int64_t at_ps)
{
    uint32_t stage = c->layers[position].stage, back = 0;
    int64_t lead = passes_ps(c, stage, choices->lead[stage][way]), pass = passes_ps(c, stage, 1);
    for (uint32_t m = 0; m < c->instances; m++) {
        int64_t backward = view->backward_start_ps[(size_t)position * c->instances + m];
        back += backward - lead <= at_ps && at_ps < backward + pass;
    }
    return back < c->versions[stage] ? c->versions[stage] - back : 0;
}

/* ---- picks ---- */

static uint32_t layers_of(const struct mpress_case *c, uint32_t stage)
{
    uint32_t layers = 0;
    for (uint32_t i = 0; i < c->positions; i++) {
        layers += c->layers[i].stage == stage;
    }
    return layers;
}

/* Passes until a copy has ended, and one more: copies of a burst (a micro-batch's passes in one direction) that takes less time than they do queue up. */
static int64_t passes_of(const struct mpress_case *c, uint32_t stage, double copy_s, double all_copies_s)
{
    uint32_t layers = layers_of(c, stage);
    double queue_s = fmax(0, all_copies_s - layers * c->pass_s[stage]);
    double passes = ceil((copy_s + queue_s) / c->pass_s[stage]) + 1;
    return passes < MOVE_PASSES_MAX ? (int64_t)passes : MOVE_PASSES_MAX;
}

void mpress_spare(const struct mpress_case *c, const struct mpress_view *view, double *spare_bytes)
{
    for (uint32_t s = 0; s < c->stages; s++) {
        spare_bytes[s] = fmax(0, c->budget_bytes - view->peak_bytes[s]);
    }
}

/* Stripes of `bytes` over the neighbours, each of which must hold `instances` of its stripe. False: they have no room. */
static bool stripe(const struct mpress_case *c, const struct mpress_choices *choices, const double *spare_bytes,
                   uint32_t stage, double bytes, uint32_t instances, struct mpress_pick *pick)
{
    struct mpress_peer peers[MPRESS_DEVICES_MAX];
    double shares[MPRESS_DEVICES_MAX];
    uint32_t own = (uint32_t)choices->place[stage], lenders = 0;
    for (uint32_t s = 0; s < c->stages; s++) {
        uint32_t links = s == stage ? 0 : c->links[own * c->stages + (uint32_t)choices->place[s]];
        bool lends = links > 0 && spare_bytes[s] > 0 && lenders < MOVE_STRIPES_MAX;
        lenders += lends;
        peers[s] = (struct mpress_peer){ .links = lends ? links : 0, .spare_bytes = spare_bytes[s] / instances };
    }
    if (mpress_stripe(bytes, peers, c->stages, shares).placed_bytes < bytes) {
        return false;
    }
    pick->stripe_count = 0;
    for (uint32_t s = 0; s < c->stages; s++) {
        double share = peers[s].links > 0 ? round(1000 * shares[s] / bytes) / 1000 : 0; /* readable, and alike */
        if (share > 0) {
            pick->stripes[pick->stripe_count++] = (struct tensor_stripe){ .stage = s, .share = share };
        }
    }
    return pick->stripe_count > 0;
}

/* Seconds of one direction that the stage's moved activations and versions take a cycle, this way. */
static double cycle_copies_s(const struct mpress_case *c, const struct mpress_choices *choices, uint32_t stage,
                             enum mpress_way way)
{
    double seconds = 0, host_bytes = 0;
    for (uint32_t i = 0; i < c->positions; i++) {
        const struct mpress_choice *choice = &choices->of[i];
        if (c->layers[i].stage != stage) {
            continue;
        }
        for (int k = 0; k < 2; k++) {
            enum tensor_move_what what = k == 0 ? MOVE_ACTIVATION : MOVE_VERSION;
            double bytes = mpress_tensor_bytes(c, i, what);
            if (way == WAY_HOST && choice->target[what] == MOVE_TO_HOST) {
                host_bytes += bytes;
            } else if (way == WAY_DEVICES && choice->target[what] == MOVE_TO_DEVICES) {
                seconds +=
                    mpress_stripes_s(c, choices, stage, choice->stripes[what], choice->stripe_count[what], bytes);
            }
        }
    }
    return host_bytes > 0 ? seconds + mpress_host_s(c, choices, stage, host_bytes, true) : seconds;
}

/* Of one tensor, how many a lender must hold at once. */
static uint32_t instances_of(const struct mpress_case *c, const struct mpress_choices *choices,
                             const struct mpress_view *view, uint32_t position, enum tensor_move_what what)
{
    return what == MOVE_ACTIVATION  ? mpress_away_most(c, choices, view, position, WAY_DEVICES)
           : what == MOVE_OPTIMIZER ? 1
                                    : c->versions[c->layers[position].stage];
}

static bool rate_swap(const struct mpress_case *c, const struct mpress_choices *choices, const struct mpress_view *view,
                      const double *spare_bytes, struct mpress_pick *pick)
{
    const struct mpress_layer *layer = &c->layers[pick->position];
    enum mpress_way way = pick->target == MOVE_TO_HOST ? WAY_HOST : WAY_DEVICES;
    double copy_s, bytes = mpress_tensor_bytes(c, pick->position, pick->what);
    int64_t peak_ps = view->peak_ps[layer->stage];
    if (way == WAY_DEVICES) {
        uint32_t instances = instances_of(c, choices, view, pick->position, pick->what);
        if (instances == 0 || !stripe(c, choices, spare_bytes, layer->stage, bytes, instances, pick)) {
            return false;
        }
        copy_s = mpress_stripes_s(c, choices, layer->stage, pick->stripes, pick->stripe_count, bytes);
    } else {
        copy_s = mpress_host_s(c, choices, layer->stage, bytes, true);
    }
    if (!isfinite(copy_s)) {
        return false;
    }
    double before = cycle_copies_s(c, choices, layer->stage, way);
    pick->cost_s = c->micro_batches * (fmax(0, before + copy_s - c->cycle_s) - fmax(0, before - c->cycle_s));
    pick->freed_bytes =
        bytes * (pick->what == MOVE_VERSION ? mpress_versions_away(c, choices, view, pick->position, way, peak_ps)
                                            : mpress_away_at(c, choices, view, pick->position, way, peak_ps));
    return pick->freed_bytes > 0;
}

static bool rate_states(const struct mpress_case *c, const struct mpress_choices *choices, const double *spare_bytes,
                        struct mpress_pick *pick)
{
    const struct machine *machine = &c->scenario->machine;
    const struct cluster *cluster = &c->scenario->cluster;
    const struct mpress_layer *layer = &c->layers[pick->position];
    pick->freed_bytes = layer->state_bytes;
    if (pick->target == MOVE_TO_CPU) {
        uint32_t gpu = (uint32_t)choices->place[layer->stage];
        double cores = cluster_core_count(cluster, gpu / cluster->gpus_per_node, cluster_gpu_socket(cluster, gpu)) *
                       cluster->sockets / cluster->gpus_per_node;
        pick->cost_s = layer->parameters / (machine->cpu_adam_parameters_per_s_core * cores);
    } else if (pick->target == MOVE_TO_HOST) {
        pick->cost_s = mpress_host_s(c, choices, layer->stage, layer->state_bytes, false);
    } else {
        if (!stripe(c, choices, spare_bytes, layer->stage, layer->state_bytes, 1, pick)) {
            return false;
        }
        pick->cost_s =
            mpress_stripes_s(c, choices, layer->stage, pick->stripes, pick->stripe_count, layer->state_bytes);
    }
    pick->cost_s *= c->updates;
    return layer->state_bytes > 0 && isfinite(pick->cost_s);
}

bool mpress_rate(const struct mpress_case *c, const struct mpress_choices *choices, const struct mpress_view *view,
                 const double *spare_bytes, struct mpress_pick *pick)
{
    const struct mpress_layer *layer = &c->layers[pick->position];
    pick->stripe_count = 0;
    if (pick->what == MOVE_OPTIMIZER) {
        return rate_states(c, choices, spare_bytes, pick);
    }
    if (pick->target != MOVE_TO_RECOMPUTE) {
        return rate_swap(c, choices, view, spare_bytes, pick);
    }
    pick->cost_s = layer->recompute_s * c->micro_batches;
    pick->freed_bytes =
        (layer->saved_bytes - layer->kept_bytes) * in_flight_at(c, view, pick->position, view->peak_ps[layer->stage]);
    return pick->freed_bytes > 0;
}

void mpress_take(const struct mpress_case *c, struct mpress_choices *choices, const struct mpress_view *view,
                 double *spare_bytes, const struct mpress_pick *pick)
{
    const struct mpress_layer *layer = &c->layers[pick->position];
    struct mpress_choice *choice = &choices->of[pick->position];
    uint32_t stage = layer->stage;
    double bytes = mpress_tensor_bytes(c, pick->position, pick->what);
    choice->target[pick->what] = (uint8_t)pick->target;
    choice->stripe_count[pick->what] = pick->stripe_count;
    memcpy(choice->stripes[pick->what], pick->stripes, sizeof pick->stripes);
    if (pick->target == MOVE_TO_DEVICES) {
        uint32_t instances = instances_of(c, choices, view, pick->position, pick->what);
        double shares = 0;
        for (uint32_t i = 0; i < pick->stripe_count; i++) {
            shares += pick->stripes[i].share;
        }
        for (uint32_t i = 0; i < pick->stripe_count; i++) {
            double *spare = &spare_bytes[pick->stripes[i].stage];
            *spare = fmax(0, *spare - instances * bytes * pick->stripes[i].share / shares);
        }
    }
    if (pick->what == MOVE_OPTIMIZER || pick->target == MOVE_TO_RECOMPUTE) {
        return;
    }
    enum mpress_way way = pick->target == MOVE_TO_HOST ? WAY_HOST : WAY_DEVICES;
    bool host = way == WAY_HOST;
    double out = host ? mpress_host_s(c, choices, stage, bytes, true)
                      : mpress_stripes_s(c, choices, stage, pick->stripes, pick->stripe_count, bytes);
    double in = host ? mpress_host_s(c, choices, stage, bytes, false) : out;
    double all = cycle_copies_s(c, choices, stage, way);
    int64_t lag = passes_of(c, stage, out, all), lead = passes_of(c, stage, in, all);
    if (pick->what == MOVE_ACTIVATION) { /* a version is gone before the update */
        choices->lag[stage][way] = lag > choices->lag[stage][way] ? lag : choices->lag[stage][way];
    } else { /* one comes for every backward: what queues up for more than a micro-batch's passes queues up whatever the lead is */
        int64_t cycle = 2 * (int64_t)layers_of(c, stage);
        lead = lead < cycle ? lead : cycle;
    }
    choices->lead[stage][way] = lead > choices->lead[stage][way] ? lead : choices->lead[stage][way];
}
