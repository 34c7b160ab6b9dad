#include "sim/engine/host_spill.h"

#include <math.h>

static bool stands_on_host(const struct schedule *s, const struct sched_buffer *buffer)
{
    const uint8_t both = BUFFER_LIVE_AT_START | BUFFER_LIVE_AT_END;
    enum space_kind kind = (enum space_kind)s->spaces[buffer->space].kind;
    return (buffer->flags & both) == both && (kind == SPACE_HOST || kind == SPACE_PINNED);
}

/* Users and wanted bytes; these are, until all are known, the whole server's on its first socket. */
static void count(const struct schedule *s, const struct cluster *cluster, struct host_socket *sockets)
{
    for (uint32_t i = 0; i < s->device_count; i++) {
        uint32_t node = s->devices[i] / cluster->gpus_per_node;
        sockets[node * cluster->sockets + cluster_gpu_socket(cluster, s->devices[i])].users++;
    }
    for (uint32_t i = 0; i < s->buffer_count; i++) {
        const struct sched_buffer *buffer = &s->buffers[i];
        if (stands_on_host(s, buffer)) {
            sockets[s->spaces[buffer->space].location * cluster->sockets].wanted_bytes +=
                (double)buffer->bytes * buffer->copies;
        }
    }
}

static void share_out(const struct cluster *cluster, struct host_socket *server)
{
    double bytes = server[0].wanted_bytes;
    uint32_t users = 0;
    for (uint32_t i = 0; i < cluster->sockets; i++) {
        users += server[i].users;
    }
    for (uint32_t i = 0; i < cluster->sockets; i++) {
        server[i].wanted_bytes = users > 0 ? bytes * server[i].users / users : 0;
        server[i].capacity_bytes = cluster_socket_bytes(cluster, i);
    }
}

static void spill(const struct cluster *cluster, struct host_socket *server, uint32_t socket)
{
    struct host_socket *own = &server[socket];
    double over = own->wanted_bytes - own->capacity_bytes, most = 0;
    uint32_t other = socket;
    for (uint32_t i = 0; i < cluster->sockets; i++) {
        double room = server[i].capacity_bytes - server[i].wanted_bytes - server[i].taken_bytes;
        if (i != socket && room > most) {
            most = room;
            other = i;
        }
    }
    if (over > 0 && most > 0) {
        double bytes = fmin(over, most);
        own->other = other;
        own->spilled_share = bytes / own->wanted_bytes;
        server[other].taken_bytes += bytes;
    }
}

double host_socket_spilled_bytes(const struct host_socket *socket)
{
    return socket->wanted_bytes * socket->spilled_share;
}

void host_spill(const struct schedule *s, const struct cluster *cluster, struct host_socket *sockets)
{
    for (uint32_t i = 0; i < cluster->nodes * cluster->sockets; i++) {
        sockets[i] = (struct host_socket){ .other = i % cluster->sockets };
    }
    count(s, cluster, sockets);
    for (uint32_t node = 0; node < cluster->nodes; node++) {
        struct host_socket *server = sockets + (size_t)node * cluster->sockets;
        share_out(cluster, server);
        for (uint32_t i = 0; i < cluster->sockets && !cluster->machine->gpu.on_host; i++) {
            spill(cluster, server, i);
        }
    }
}
