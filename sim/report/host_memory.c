#include "sim/report/host_memory.h"

#include "sim/base/units.h"

void host_memory_text(const struct result *result, const struct result_input *input, struct strbuf *out)
{
    for (uint32_t i = 0; i < result->socket_count; i++) {
        const struct host_socket *socket = &result->sockets[i];
        if (socket->spilled_share > 0) {
            char spilled[32], wanted[32];
            uint32_t sockets = input->cluster->sockets;
            strbuf_printf(out, "  of %s for ranks on socket %u of server %u, %s lie on socket %u: this one is full\n",
                          text_bytes(socket->wanted_bytes, wanted, sizeof wanted), i % sockets, i / sockets,
                          text_bytes(host_socket_spilled_bytes(socket), spilled, sizeof spilled), socket->other);
        }
    }
}

void host_memory_json(const struct result *result, const struct result_input *input, struct json_writer *w)
{
    bool open = false;
    for (uint32_t i = 0; i < result->socket_count; i++) {
        const struct host_socket *socket = &result->sockets[i];
        if (socket->spilled_share > 0) {
            if (!open) {
                jw_array(w, "host_spill");
                open = true;
            }
            jw_object(w, NULL);
            jw_uint(w, "node", i / input->cluster->sockets);
            jw_uint(w, "socket", i % input->cluster->sockets);
            jw_uint(w, "onto_socket", socket->other);
            jw_real(w, "wanted_bytes", socket->wanted_bytes);
            jw_real(w, "capacity_bytes", socket->capacity_bytes);
            jw_real(w, "spilled_bytes", host_socket_spilled_bytes(socket));
            jw_end(w);
        }
    }
    if (open) {
        jw_end(w);
    }
}
