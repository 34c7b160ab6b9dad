/* How long collectives and pairs take among devices that are threads of the host (machine.gpu.on_host), from the machine's measured curves alone: NCCL's forms say nothing of
 * them.
 *
 *   time      bus bytes / rate, and never less than the latency. rate: the curves of this kind (else of all-reduce) for the nearest numbers of ranks, interpolated over
 *             log(ranks); beyond them as the nearest, slower or faster as there are fewer or more cores for each thread; smaller messages than a curve's first take no longer than that. No curve: nccl.bus_GBps with a core for each.
 *   latency   nccl.latency_us, or what the nearest curve's first point takes where that is less; at most 95 % of the time. During it nobody holds a core.
 *   pairs     the curve of send_recv for 2 ranks, else the route of a copy (its rate and latency); a copy from device to device is the same.
 *
 * Seconds alone = latency_s + transfer_s, threads that share cores with each other included. Complexity: curves. */
#ifndef MEMWALL_ENGINE_COLLECTIVE_ON_HOST_H
#define MEMWALL_ENGINE_COLLECTIVE_ON_HOST_H

#include "hw_models/cluster.h"

/* `bytes` > 0 as nccl-tests counts; member_count > 1; kind other than send/recv. */
void collective_time_on_host(const struct cluster *cluster, enum collective_kind kind, const uint32_t *members,
                             uint32_t member_count, double bytes, double *latency_s, double *transfer_s);
/* From ends[0] to ends[1], which may be the same. STATUS_UNSUPPORTED: no way. */
enum status collective_pair_on_host(const struct cluster *cluster, const uint32_t *ends, double bytes,
                                    double *latency_s, double *transfer_s, struct error *error);

#endif
