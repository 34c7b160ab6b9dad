/* What every op of a schedule asks of a cluster when it runs alone: computed once, before the clock starts.
 *
 * An op is an activity: a latency during which it holds nothing, then work at a rate between 0 and 1 (1: as fast as alone) which takes
 * `coefficient * rate` of each resource it uses. Equal ops share one record: a record belongs to (work, opcode) and, where routes or resources depend on
 * it, to a rank, a group or a peer.
 *
 *   kernels         work = sum of the kernels' alone times and launch gaps; SMs, and HBM averaged over the sequence
 *   collective      sim/engine/collective_cost.h: latency, links of all members (of a folded group: in the representative's server, the others are its mirror images),
 *                   SMs and HBM of the members that are ranks
 *   copy            the route between rank and host (nearest socket of the server that the host buffer is in) or peer; phantoms of a folded rank count
 *                   where they use what the representative uses
 *   send, recv      the route of the pair, sister pairs counted likewise
 *   host optimizer  28 B of DRAM per parameter (hardware.md C.8), cores shared equally by the GPUs in use on the socket
 *   storage         the server's drives striped
 *   fixed           its time
 *
 * Ports. Host copies take from NVLink: while they fill a GPU's PCIe link, its collectives run at 0.9 (hardware.md E.5). So each rank that copies to or from its host
 * has one resource more than the cluster, of capacity 1, behind the cluster's: copies at full rate take 0.1 of it, collectives on NVLink as much as they come near to
 * the limit of their rings.
 *
 * Devices on the host (machine.gpu.on_host) are its threads: every activity also holds the cores that its threads run on, one for each (kernels and merged collectives: the
 * rank's own; a copy: one; a pair: the receiver's; a collective: one for each member, sisters and phantoms too; the host optimizer: whole threads, at least one), HBM is
 * the socket's DRAM, and there are no ports. More threads than cores share them, all alike. A collective merged to run beside a kernel runs before it: one thread does both.
 *
 * Coefficients never exceed a capacity: work that would is lengthened until it fits (so two folded GPUs behind one uplink take twice as long each).
 * Weights make max-min fair in bytes: one over the activity's own byte rate, for kernels one over the HBM's. On the host they make it fair in threads: one, or the threads for
 * each core where alone there are more.
 *
 * Lanes. Resources that the same records use in the same proportion to their capacities (the fabric ports of eight folded GPUs, the links of a chain) fill up
 * together, so one of them stands for all: a lane. The engine shares lanes; what a lane carried is told for each of its resources. A lane that cannot be full before another
 * one (its root) is not solved for. */
#ifndef MEMWALL_ENGINE_COST_TABLE_H
#define MEMWALL_ENGINE_COST_TABLE_H

#include "hw_models/cluster.h"
#include "hw_models/software.h"
#include "sim/core/maxmin.h"
#include "sim/ir/schedule.h"

/* DRAM traffic of one Adam step with fp32 state: reads p, m, v, g and writes p, m, v (hardware.md C.8). */
#define HOST_OPTIMIZER_BYTES_PER_PARAMETER 28.0
#define HOST_OPTIMIZER_READ_SHARE          (16 / HOST_OPTIMIZER_BYTES_PER_PARAMETER)

/* What host copies at the full rate of a GPU's PCIe link leave of NVLink to collectives: 129.0 -> 115.3 GB/s on 4 V100, 44.3 -> 40.7 on 2 (hardware.md E.5). */
#define COPY_PORT_SHARE 0.1

struct op_cost {
    int64_t latency_ps;
    int64_t work_ps;        /* at rate 1, after the latency */
    double work_s;          /* the same in seconds */
    int64_t issue_first_ps; /* host time until the first launch is issued, without the op's flags */
    int64_t issue_rest_ps;  /* host time from the first launch to the last */
    int64_t
        issue_tail_ps; /* the op ends no earlier than this after its first launch was issued: max over launches i of h_i + sum of d_j, j >= i */
    double weight;
    double beside_rate; /* kernels: highest rate while a collective holds SMs of the same GPU; 1 for others */
    uint32_t first_use; /* into cost_table.uses */
    uint32_t use_count;
    uint32_t resident_count; /* the first so many uses are SMs that the activity occupies (collectives) */
    uint32_t first_lane_use; /* into cost_table.lane_uses: the same in lanes */
    uint32_t lane_use_count, lane_resident_count;
    uint32_t
        lane_solved_count; /* the first so many lane uses can be what holds the activity back, the others only carry it */
    /* Places in the host's queue of launches until it ends. Sends and receives hold none: each waits on a stream of its own for a partner whose host may be stuck behind a full queue too. One that kept
     * the queue from becoming empty would hold up a coarse op, which has more launches than the queue has places, in a circle that no real step has. */
    uint32_t launches;
    int64_t collective_ps;         /* of merged collectives, alone */
    int64_t exposed_collective_ps; /* ... of work_ps, what no kernel of the sequence covers */
};

struct cost_table {
    struct op_cost *costs;
    struct maxmin_use *uses;      /* coefficient: of the resource's unit, at rate 1 */
    struct maxmin_use *lane_uses; /* resource: lane */
    double *lane_capacities;      /* [lane_count] */
    uint32_t *lane_roots; /* [lane_count]: the lane that is full whenever this one is; itself: it can be full alone */
    uint32_t *lanes;      /* [resource_count]: the lane, or SCHED_NONE where no record uses the resource */
    double *lane_scales;  /* [resource_count]: its capacity in the lane's */
    uint32_t *op_costs;   /* [op_count]: index into costs */
    double *capacities;   /* [resource_count] */
    double *asked;        /* [resource_count]: amounts that all activities together ask for, for the audit */
    int64_t micro_batch_ps, step_ps; /* host time of OP_FLAG_MICRO_BATCH, OP_FLAG_STEP */
    uint32_t launch_ahead;           /* 0: unlimited */
    uint32_t cost_count, use_count, lane_count, lane_use_count;
    uint32_t resource_count; /* the cluster's, then one for each rank that has a port */
    struct arena arena;
};

/* `cluster` may be NULL when the schedule has only fixed and no work, `software` when the host costs nothing. The schedule must have passed sched_verify.
 * Errors: a device that the cluster does not have, a way that does not exist (names the op), out of memory. The table refers to nothing afterwards. */
enum status cost_table_build(struct cost_table *table, const struct schedule *schedule, const struct cluster *cluster,
                             const struct software *software, struct error *error);
void cost_table_free(struct cost_table *table);

/* How much longer arithmetic takes on `sms` multiprocessors when a collective holds `taken` of them (hardware.md E.6): 1 / (1 - taken/sms) or the ratio of
 * waves of `tiles` thread blocks, whichever is greater, with a continuous ceiling; 1 when the tiles fit beside it. */
double cost_wave_slowdown(double tiles, double sms, double taken);

#endif
