/* Host memory by socket. A rank runs on the cores nearest to its device (numactl, DeepSpeed's --bind_cores_to_rank), and Linux gives it pages of that socket's memory; once this is full, of another's. What has spilled
 * is read and written across the link between the sockets.
 *
 * Counted are the bytes that stand all step long, in pages that were made before it: what comes and goes is mostly small beside them. Ranks of one server are taken to hold equal parts (exact where they are alike).
 * What spills goes to one other socket, that with the most room left; sockets spill in order of their numbers. The share of a rank's host traffic that crosses the link is that of its bytes. */
#ifndef MEMWALL_ENGINE_HOST_SPILL_H
#define MEMWALL_ENGINE_HOST_SPILL_H

#include "hw_models/cluster.h"
#include "sim/ir/schedule.h"

struct host_socket {
    uint32_t users; /* devices of the schedule nearest to it */
    double wanted_bytes, capacity_bytes;
    double taken_bytes;   /* spilled here by others */
    double spilled_share; /* of wanted_bytes; 0: all fits, or there is no other socket with room */
    uint32_t other;       /* socket of the same server that takes it; itself where nothing spills */
};

double host_socket_spilled_bytes(const struct host_socket *socket);
/* Fills sockets[nodes * sockets of the cluster]. Devices that are threads of the host (machine.gpu.on_host) spill nothing: their machine is measured as it is. */
void host_spill(const struct schedule *schedule, const struct cluster *cluster, struct host_socket *sockets);

#endif
