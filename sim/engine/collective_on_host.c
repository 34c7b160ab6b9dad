#include "sim/engine/collective_on_host.h"

#include <math.h>

#include "sim/base/check.h"
#include "sim/engine/collective_cost.h"

/* Of any time so much is transfer, which others can slow down. */
static const double TRANSFER_LEAST = 0.05;

static void split(double total_s, double latency_s, double *latency, double *transfer)
{
    *latency = fmin(latency_s, (1 - TRANSFER_LEAST) * total_s);
    *transfer = total_s - *latency;
}

/* Threads on the fullest socket for each of its cores, at least 1. `members` NULL: the first `count` devices. */
static double crowding(const struct cluster *cluster, const uint32_t *members, uint32_t count)
{
    double most = 1;
    for (uint32_t socket = 0; socket < cluster->sockets; socket++) {
        uint32_t threads = 0;
        for (uint32_t i = 0; i < count; i++) {
            threads += cluster_gpu_socket(cluster, members != NULL ? members[i] : i) == socket;
        }
        most = fmax(most, threads / cluster->resources[cluster_cores(cluster, 0, socket)].capacity);
    }
    return most;
}

/* The curves next to `ranks`, at or below and at or above; NULL where there is none. */
static void neighbours(const struct machine *machine, enum collective_kind kind, uint32_t ranks,
                       const struct machine_collective_curve *found[2])
{
    found[0] = found[1] = NULL;
    for (uint32_t i = 0; i < machine->curve_count; i++) {
        const struct machine_collective_curve *curve = &machine->curves[i];
        if (curve->kind != kind || curve->nodes != 1) {
            continue;
        }
        if (curve->ranks <= ranks && (found[0] == NULL || curve->ranks > found[0]->ranks)) {
            found[0] = curve;
        }
        if (curve->ranks >= ranks && (found[1] == NULL || curve->ranks < found[1]->ranks)) {
            found[1] = curve;
        }
    }
}

/* Seconds of the curve's smallest message. */
static double first_s(const struct machine_collective_curve *curve)
{
    double bytes = exp(curve->curve.x[0]);
    return bytes * collective_bus_factor(curve->kind, curve->ranks) / curve_at(&curve->curve, bytes);
}

/* A message below the curve's first point takes no longer than that one, whatever the slope of the first two says. */
static double rate_at(const struct machine_collective_curve *curve, double bytes)
{
    double first = exp(curve->curve.x[0]);
    double rate = curve_at(&curve->curve, bytes);
    return bytes < first ? fmax(rate, curve_at(&curve->curve, first) * bytes / first) : rate;
}

void collective_time_on_host(const struct cluster *cluster, enum collective_kind kind, const uint32_t *members,
                             uint32_t member_count, double bytes, double *latency_s, double *transfer_s)
{
    const struct machine *machine = cluster->machine;
    const struct machine_collective_curve *found[2];
    CHECK(kind != COLLECTIVE_SEND_RECV && member_count > 1 && bytes > 0);
    neighbours(machine, kind, member_count, found);
    if (found[0] == NULL && found[1] == NULL && kind != COLLECTIVE_ALL_TO_ALL) {
        neighbours(machine, COLLECTIVE_ALL_REDUCE, member_count, found);
    }
    double crowd = crowding(cluster, members, member_count);
    double rate = machine->nvlink_collective_bytes_per_s / crowd, latency = machine->collective_latency_s;
    if (found[0] != NULL && found[1] != NULL && found[0] != found[1]) {
        double part = log((double)member_count / found[0]->ranks) / log((double)found[1]->ranks / found[0]->ranks);
        rate = pow(rate_at(found[0], bytes), 1 - part) * pow(rate_at(found[1], bytes), part);
        latency = fmin(latency, first_s(found[0]) * (1 - part) + first_s(found[1]) * part);
    } else if (found[0] != NULL || found[1] != NULL) {
        const struct machine_collective_curve *nearest = found[0] != NULL ? found[0] : found[1];
        double less = nearest->ranks == member_count ? 1 : crowding(cluster, NULL, nearest->ranks) / crowd;
        rate = rate_at(nearest, bytes) * less;
        latency = fmin(latency, first_s(nearest));
    }
    double bus_bytes = bytes * collective_bus_factor(kind, member_count);
    split(fmax(bus_bytes / rate, latency), latency, latency_s, transfer_s);
}

enum status collective_pair_on_host(const struct cluster *cluster, const uint32_t *ends, double bytes,
                                    double *latency_s, double *transfer_s, struct error *error)
{
    const struct machine_collective_curve *curve = machine_curve(cluster->machine, COLLECTIVE_SEND_RECV, 2, 1);
    struct route route;
    struct endpoint from = { ENDPOINT_GPU, ends[0] }, to = { ENDPOINT_GPU, ends[1] };
    CHECK(bytes > 0);
    TRY(cluster_route(cluster, from, to, false, &route, error));
    if (curve == NULL) {
        *latency_s = route.latency_s;
        *transfer_s = bytes / route.rate_cap_bytes_per_s;
        return STATUS_OK;
    }
    double latency = fmin(route.latency_s, first_s(curve));
    split(fmax(bytes / rate_at(curve, bytes), latency), latency, latency_s, transfer_s);
    return STATUS_OK;
}
