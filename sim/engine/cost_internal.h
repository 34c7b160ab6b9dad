/* Making cost records: shared by cost_table.c (the table of all), cost_find.c (which record an op has), cost_record.c (one in the making), cost_work.c (kernels, collectives, host optimizer) and cost_route.c (copies).
 *
 * A record is made between cost_begin and cost_end: amounts are what the whole work moves over each resource; cost_end finds the shortest time in which
 * no capacity is exceeded, at least `alone_s`, and turns amounts into coefficients. Fixed uses (SMs, cores) are held at the same level however long the work
 * takes; they must come first. */
#ifndef MEMWALL_ENGINE_COST_INTERNAL_H
#define MEMWALL_ENGINE_COST_INTERNAL_H

#include "hw_models/cluster.h"
#include "sim/engine/cost_table.h"
#include "sim/engine/host_spill.h"
#include "sim/engine/kernel_cost.h"
#include "sim/ir/schedule.h"

/* What a record depends on. Fields that do not matter for a kind are SCHED_NONE. */
struct cost_key {
    uint32_t work, opcode, rank, other;
};
struct cost_key_slot {
    struct cost_key key;
    uint32_t index; /* of the record, plus one; 0: empty */
};

struct cost_builder {
    struct cost_table *table;
    const struct schedule *schedule;
    const struct cluster *cluster;
    const struct software *software; /* or NULL */
    struct error *error;
    struct {
        struct op_cost *items;
        size_t count, capacity;
    } costs;
    struct {
        struct maxmin_use *items;
        size_t count, capacity;
    } uses;
    /* the record in the making */
    struct maxmin_use *pending; /* [resource_count] */
    uint32_t *places;           /* [resource_count]: place in pending + 1; 0: not there */
    uint32_t pending_count, fixed_count;
    /* what rank a GPU represents, for peers and members; SCHED_NONE for phantoms and strangers */
    uint32_t *gpu_ranks; /* [cluster gpus] */
    uint32_t *ports;     /* [rank_count]: resource, or SCHED_NONE for ranks that copy nothing to or from the host */
    struct host_socket *sockets; /* [nodes * sockets] */
    struct kernel_cost *kernels; /* [kernel_count]: tiles 0 until asked */
    uint32_t *work_records;      /* [work_count]: a record of the same kernels on some rank, plus one; 0: none */
    struct resource_use *ring;   /* scratch */
    uint32_t ring_max;
    struct cost_key_slot *table_slots; /* records found so far, by key */
    uint32_t table_mask;
    struct cost_key_slot *latest; /* [work_count]: the record found last for each work */
};

void cost_begin(struct cost_builder *b);
/* Held at `level` all the time; before any amount; each resource once. */
void cost_fixed(struct cost_builder *b, uint32_t resource, double level);
void cost_amount(struct cost_builder *b, uint32_t resource, double amount);
/* Devices on the host (machine.gpu.on_host): the work is that of so many threads, on the cores of the device's socket. Held like SMs, after these. Returns how many times
 * longer the work takes than with a core for each; that must be its weight too, so that every thread gets as much of a core. */
double cost_threads(struct cost_builder *b, uint32_t gpu, double threads);
/* How many of a rank's devices are in the server of its first one and nearest to that one's socket. */
uint32_t cost_sharers(const struct cost_builder *b, uint32_t rank);
/* Whether the record uses the resource already. */
bool cost_uses(const struct cost_builder *b, uint32_t resource);
/* Close: `latency_s`, then the work; `bytes` of it for fairness (weight = time / bytes), 0: weigh as one that fills an HBM. On the host all weigh the same:
 * cores go round by threads. */
enum status cost_end(struct cost_builder *b, struct op_cost *cost, double latency_s, double alone_s, double bytes);
/* Weight of an op of the host after cost_end: its work takes `stretch` times longer for its threads being more than cores. Threads of queues that copy and communicate ask for short slices
 * (sim/engine/thread_slices.h). */
void cost_weigh_threads(const struct cost_builder *b, struct op_cost *cost, double stretch);

/* When all records are in the table: find the lanes. */
enum status cost_make_lanes(struct cost_table *table, const struct cluster *cluster, struct arena *scratch,
                            struct error *error);

/* The record of an op, and of a collective's work: made on first use. Not between cost_begin and cost_end unless it exists already. */
enum status cost_find_op(struct cost_builder *b, uint32_t op, uint32_t *index);
enum status cost_find_collective(struct cost_builder *b, enum opcode opcode, uint32_t work, uint32_t *index);

/* Each fills `cost` and its uses for one op that stands for all equal ones. */
enum status cost_of_kernels(struct cost_builder *b, const struct sched_work *work, uint32_t rank, struct op_cost *cost);
enum status cost_of_collective(struct cost_builder *b, enum opcode opcode, const struct sched_work *work,
                               struct op_cost *cost);
enum status cost_of_pair(struct cost_builder *b, const struct sched_work *work, uint32_t group, struct op_cost *cost);
enum status cost_of_host_optimizer(struct cost_builder *b, const struct sched_work *work, uint32_t rank,
                                   struct op_cost *cost);
/* `fresh`: into a block of host memory that is new, whose pages the copying core makes. */
enum status cost_of_host_copy(struct cost_builder *b, const struct sched_work *work, uint32_t rank, bool to_device,
                              bool fresh, struct op_cost *cost);
enum status cost_of_peer_copy(struct cost_builder *b, const struct sched_work *work, uint32_t rank, uint32_t peer_gpu,
                              bool to_peer, struct op_cost *cost);
enum status cost_of_storage(struct cost_builder *b, const struct sched_work *work, uint32_t rank, bool read,
                            struct op_cost *cost);

#endif
