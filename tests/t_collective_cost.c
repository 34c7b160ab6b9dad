/* Collectives: closed forms, curves, sharing with sister groups, and that an activity made of the answer takes the time it says. */
#include "cluster_machines.h"
#include "hw_models/cluster.h"
#include "sim/base/units.h"
#include "sim/engine/collective_cost.h"
#include "test.h"

static struct hand_machine made;
static struct cluster cluster;
static struct error error;
static struct resource_use uses[32768];
static uint32_t members[4096];

static void build(void (*make)(struct hand_machine *), uint32_t nodes)
{
    make(&made);
    EXPECT_INT(cluster_build(&cluster, &made.machine, nodes, 0, &error), STATUS_OK);
    for (uint32_t i = 0; i < 4096; i++) {
        members[i] = i;
    }
}

static struct collective_cost cost_of(enum collective_kind kind, double bytes, uint32_t count, uint32_t instances,
                                      bool first_node_only)
{
    struct collective_cost cost;
    struct collective_request request = { kind, bytes, members, count, instances, first_node_only };
    enum status status = collective_cost(&cluster, &request, uses, 32768, &cost, &error);
    EXPECT_INT(status, STATUS_OK);
    if (status == STATUS_OK && cost.bus_bytes > 0) { /* no resource is asked for more than it has at the rate alone */
        for (uint32_t i = 0; i < cost.use_count; i++) {
            EXPECT(uses[i].coefficient * cost.bus_bytes / cost.transfer_s <=
                   cluster.resources[uses[i].resource].capacity * (1 + 1e-9));
        }
        EXPECT_REAL(cost.alone_s, cost.latency_s + cost.transfer_s, 1e-12);
        EXPECT(cost.transfer_s > 0 && cost.latency_s > 0 && isfinite(cost.alone_s));
    }
    return cost;
}

static double busbw(enum collective_kind kind, double bytes, uint32_t count)
{
    struct collective_cost cost = cost_of(kind, bytes, count, 1, false);
    return cost.bus_bytes / cost.alone_s;
}

static double coefficient(const struct collective_cost *cost, const char *name)
{
    char buffer[64];
    for (uint32_t i = 0; i < cost->use_count; i++) {
        if (strcmp(cluster_resource_name(&cluster, uses[i].resource, buffer, sizeof buffer), name) == 0) {
            return uses[i].coefficient;
        }
    }
    return 0;
}

static void test_definitions(void)
{
    build(hand_dgx_a100, 1);
    EXPECT_REAL(collective_bus_factor(COLLECTIVE_ALL_REDUCE, 8), 1.75, 0);
    EXPECT_REAL(collective_bus_factor(COLLECTIVE_ALL_GATHER, 8), 0.875, 0);
    EXPECT_REAL(collective_bus_factor(COLLECTIVE_BROADCAST, 8), 1, 0);
    EXPECT_REAL(cost_of(COLLECTIVE_ALL_REDUCE, 1e9, 1, 1, false).alone_s, 0, 0);
    EXPECT_REAL(cost_of(COLLECTIVE_ALL_REDUCE, 0, 8, 1, false).alone_s, 0, 0);
    struct collective_cost cost = cost_of(COLLECTIVE_ALL_REDUCE, 1e9, 8, 1, false);
    EXPECT_REAL(cost.bus_bytes, 1.75e9, 1e-12);
    EXPECT_REAL(cost.sm_fraction, 24.0 / 108, 1e-12);
    EXPECT_REAL(cost_of(COLLECTIVE_ALL_REDUCE, 65536, 8, 1, false).sm_fraction, 2.0 / 108, 1e-12);
    EXPECT(cost.hbm_bytes > 2 * cost.bus_bytes && cost.hbm_bytes <= 3 * cost.bus_bytes);
    EXPECT_REAL(cost_of(COLLECTIVE_ALL_REDUCE, 8, 8, 1, false).alone_s, 45e-6,
                1e-3); /* the machine's smallest collective */
    cluster_free(&cluster);
}

/* Longer messages never take less time, on any machine, group or kind; nor does twice the message take more than twice the time and a half. */
static void test_monotone(void)
{
    static void (*const MAKERS[])(struct hand_machine *) = { hand_dgx_a100, hand_dgx_h100, hand_dgx1, hand_dgx2,
                                                             hand_pcie_box };
    static const uint32_t COUNTS[] = { 2, 3, 8, 16, 32 };
    for (size_t m = 0; m < sizeof MAKERS / sizeof MAKERS[0]; m++) {
        build(MAKERS[m], 4);
        for (int kind = 0; kind < COLLECTIVE_KIND_COUNT; kind++) {
            for (size_t c = 0; c < sizeof COUNTS / sizeof COUNTS[0]; c++) {
                double last = 0;
                if (kind == COLLECTIVE_SEND_RECV && COUNTS[c] != 2) {
                    continue;
                }
                for (double bytes = 256; bytes < 1e10; bytes *= 1.19) {
                    double now = cost_of((enum collective_kind)kind, bytes, COUNTS[c], 1, true).alone_s;
                    if (!(now >= last * (1 - 1e-12))) {
                        TEST_FAIL_("%s, %s, %u ranks, %.0f bytes: %.9g s after %.9g s", made.machine.name,
                                   kind == 0 ? "all-reduce" : "other", COUNTS[c], bytes, now, last);
                    }
                    last = now;
                }
            }
        }
        cluster_free(&cluster);
    }
}

/* hardware.md C.3, C.4, without any curve: large messages. */
static void test_large_messages(void)
{
    build(hand_dgx_h100, 1);
    EXPECT_REAL(busbw(COLLECTIVE_ALL_REDUCE, 8 * GIB, 8), 479e9, 0.05); /* in the switches */
    EXPECT_REAL(busbw(COLLECTIVE_ALL_GATHER, 8 * GIB, 8), 360e9, 0.05);
    EXPECT_REAL(busbw(COLLECTIVE_ALL_TO_ALL, 2 * GIB, 8), 340e9, 0.05);
    struct collective_cost in_switch = cost_of(COLLECTIVE_ALL_REDUCE, 8 * GIB, 8, 1, false);
    EXPECT_INT(in_switch.algorithm, COLLECTIVE_IN_SWITCH);
    EXPECT_REAL(coefficient(&in_switch, "node0/gpu0>fabric"), 9.0 / 14, 1e-12);
    made.machine.in_switch_reduction = false;
    EXPECT_REAL(busbw(COLLECTIVE_ALL_REDUCE, 8 * GIB, 8), 368e9, 0.03);
    cluster_free(&cluster);

    build(hand_dgx_a100, 1);
    EXPECT_REAL(busbw(COLLECTIVE_ALL_REDUCE, 8 * GIB, 8), 234.6e9, 0.03);
    EXPECT_REAL(busbw(COLLECTIVE_SEND_RECV, GIB, 2), 195.1e9, 0.03);
    cluster_free(&cluster);

    build(hand_pcie_box, 1);
    EXPECT_REAL(busbw(COLLECTIVE_ALL_REDUCE, 8 * GIB, 4), 18e9, 0.05); /* 4x RTX 4090 through host memory */
    cluster_free(&cluster);

    static const double DGX1[9] = { 0, 0, 22.6, 45.1, 85.3, 37.1, 45.7, 86.6, 134.1 }; /* vTrain's table, 512 MiB */
    build(hand_dgx1, 1);
    for (uint32_t n = 2; n <= 8; n++) {
        EXPECT_REAL(busbw(COLLECTIVE_ALL_REDUCE, 8 * GIB, n), DGX1[n] * 1e9, 0.06);
    }
    cluster_free(&cluster);
}

static void add_curve(enum collective_kind kind, uint32_t ranks, const double *bytes, const double *rates, size_t count)
{
    static struct machine_collective_curve curves[8];
    made.machine.curves = curves;
    struct machine_collective_curve *curve = &curves[made.machine.curve_count++];
    *curve = (struct machine_collective_curve){ .kind = kind, .ranks = ranks, .nodes = 1 };
    EXPECT_INT(curve_make(&curve->curve, &made.machine.arena, bytes, rates, count, CURVE_LOG_LOG, CURVE_EXTEND,
                          CURVE_HOLD, &error),
               STATUS_OK);
}

static void test_curves(void)
{
    static const double BYTES[4] = { 1048576, 16777216, 268435456, 1073741824 },
                        EIGHT[4] = { 19.8e9, 126e9, 217e9, 229e9 }, TWO[4] = { 23.7e9, 127e9, 184e9, 197e9 };
    build(hand_dgx_a100, 2);
    add_curve(COLLECTIVE_ALL_REDUCE, 8, BYTES, EIGHT, 4);
    add_curve(COLLECTIVE_ALL_REDUCE, 2, BYTES, TWO, 4);
    for (int i = 0; i < 4; i++) {
        EXPECT_REAL(busbw(COLLECTIVE_ALL_REDUCE, BYTES[i], 8), EIGHT[i], 1e-9);
        EXPECT_REAL(busbw(COLLECTIVE_ALL_REDUCE, BYTES[i], 2), TWO[i], 1e-9);
    }
    double between = busbw(COLLECTIVE_ALL_REDUCE, GIB, 4);
    EXPECT(between > 197e9 && between < 229e9); /* 222 measured */
    EXPECT_REAL(busbw(COLLECTIVE_ALL_REDUCE, 8 * GIB, 8), 235e9, 0.04);
    EXPECT_REAL(cost_of(COLLECTIVE_ALL_REDUCE, 1024, 8, 1, false).alone_s, 45e-6,
                0.02);                                    /* the curve's correction has faded */
    double gather = busbw(COLLECTIVE_ALL_GATHER, GIB, 8); /* no curve of its own: the all-reduce's correction */
    EXPECT(gather > 200e9 && gather < 240e9);
    /* a curve a little above what the links are said to carry wins: the activity alone still runs as measured; one far above belongs to other links */
    static const double FAST[4] = { 20e9, 200e9, 280e9, 500e9 };
    made.machine.curve_count = 0;
    add_curve(COLLECTIVE_ALL_REDUCE, 8, BYTES, FAST, 4);
    EXPECT_REAL(busbw(COLLECTIVE_ALL_REDUCE, BYTES[2], 8), 280e9, 1e-9);
    EXPECT_REAL(busbw(COLLECTIVE_ALL_REDUCE, BYTES[3], 8), 1.25 * 235e9, 1e-9);
    arena_free(&made.machine.arena);
    cluster_free(&cluster);
}

/* galvatron-bmw.md "NIC sharing": two servers of eight, all strided groups of one size at once get 8.1, 16.2, 32.1 (2024) GB/s for sizes 2, 4, 8: a server's NICs over the
 * number of groups. The NICs here carry 65 GB/s a server. */
static void test_strided_groups(void)
{
    static const uint32_t SIZES[3] = { 2, 4, 8 };
    double rates[3];
    build(hand_dgx_a100, 2);
    for (uint32_t i = 0; i < made.machine.part_count; i++) {
        made.parts[i].line_bytes_per_s = made.parts[i].kind == PART_NIC ? 65e9 / 8 / 0.93 : 0;
    }
    cluster_free(&cluster);
    EXPECT_INT(cluster_build(&cluster, &made.machine, 2, 0, &error), STATUS_OK);
    for (int s = 0; s < 3; s++) {
        uint32_t groups = 16 / SIZES[s];
        for (uint32_t g = 0; g < groups; g++) {
            for (uint32_t i = 0; i < SIZES[s]; i++) {
                members[g * SIZES[s] + i] = g + i * groups;
            }
        }
        struct collective_cost cost = cost_of(COLLECTIVE_ALL_REDUCE, 8 * GIB, SIZES[s], groups, true);
        rates[s] = cost.bus_bytes / cost.alone_s;
    }
    EXPECT_REAL(rates[0], 8.13e9, 0.02);
    EXPECT_REAL(rates[1], 16.22e9, 0.02);
    EXPECT_REAL(rates[2], 32.1e9, 0.03);
    cluster_free(&cluster);
}

/* Two GPUs on each NIC (DGX-1): the sisters halve each other; alone a group has the NIC to itself. */
static void test_sisters_share_a_nic(void)
{
    build(hand_dgx1, 2);
    for (uint32_t g = 0; g < 8; g++) {
        members[2 * g] = g;
        members[2 * g + 1] = 8 + g;
    }
    struct collective_cost alone = cost_of(COLLECTIVE_ALL_REDUCE, GIB, 2, 1, true),
                           together = cost_of(COLLECTIVE_ALL_REDUCE, GIB, 2, 8, true);
    EXPECT_REAL(together.transfer_s / alone.transfer_s, 2, 1e-6);
    EXPECT_REAL(coefficient(&together, "node0/nic0>network"), 2, 1e-12);
    EXPECT_REAL(coefficient(&together, "node0/nic1>network"), 0, 0);
    struct collective_cost send = cost_of(COLLECTIVE_SEND_RECV, GIB, 2, 8, true);
    EXPECT_REAL(coefficient(&send, "node0/nic0>network"), 2, 1e-12);
    EXPECT_REAL(coefficient(&send, "node1/network>nic0"), 2, 1e-12);
    cluster_free(&cluster);
}

/* Listing one server or all says the same of time; the footprint of the first server is the same. */
static void test_folded(void)
{
    build(hand_dgx_a100, 8);
    struct collective_cost full = cost_of(COLLECTIVE_ALL_REDUCE, GIB, 64, 1, false);
    double nic = coefficient(&full, "node0/nic3>network"), far = coefficient(&full, "node7/nic3>network");
    struct collective_cost folded = cost_of(COLLECTIVE_ALL_REDUCE, GIB, 64, 1, true);
    EXPECT_REAL(folded.alone_s, full.alone_s, 0);
    EXPECT_REAL(coefficient(&folded, "node0/nic3>network"), nic, 0);
    EXPECT_REAL(far, nic, 0);
    EXPECT_REAL(coefficient(&folded, "node7/nic3>network"), 0, 0);
    EXPECT_INT(full.use_count, 8 * folded.use_count);
    cluster_free(&cluster);
}

/* Many servers: small all-reduces go by tree, logarithmic; all-gathers cannot. 3 servers of 8 A100 with 4 HDR NICs: 84.8 to 96 GB/s at 128 MiB [nccl-tests issue 119]. */
static void test_many_servers(void)
{
    build(hand_dgx_a100, 128);
    struct collective_cost small = cost_of(COLLECTIVE_ALL_REDUCE, 65536, 1024, 1, true);
    EXPECT_INT(small.algorithm, COLLECTIVE_TREE);
    EXPECT(small.alone_s < 250e-6);
    EXPECT(cost_of(COLLECTIVE_ALL_GATHER, 65536, 1024, 1, true).alone_s > 4 * small.alone_s);
    cluster_free(&cluster);
    build(hand_dgx_a100, 3);
    for (uint32_t i = 0; i < made.machine.part_count; i++) {
        made.parts[i].line_bytes_per_s /= 2;
    }
    cluster_free(&cluster);
    made.machine.network_efficiency = 0.96;
    EXPECT_INT(cluster_build(&cluster, &made.machine, 3, 0, &error), STATUS_OK);
    double rate = busbw(COLLECTIVE_ALL_REDUCE, 128 * MIB, 24);
    EXPECT(rate > 80e9 && rate < 96e9);
    cluster_free(&cluster);
}

/* Rings over more than 4,096 resources with sisters: two groups of four GPUs in each of 512 servers share the NICs (DGX-1: one for each two GPUs); groups that share nothing cost what one costs. The load on a NIC
 * is that of two rings, over four servers as over 512. */
static void test_sisters_on_many_resources(void)
{
    double shared[2];
    uint32_t resources[2];
    for (int large = 0; large < 2; large++) {
        uint32_t nodes = large ? 512 : 4;
        build(hand_dgx1, nodes);
        for (uint32_t i = 0; i < nodes * 8; i++) { /* even GPUs, then odd ones */
            members[i] = i < nodes * 4 ? 2 * i : 2 * (i - nodes * 4) + 1;
        }
        struct collective_cost alone = cost_of(COLLECTIVE_ALL_GATHER, GIB, nodes * 4, 1, false);
        double alone_on_nic = coefficient(&alone, "node0/nic0>network");
        struct collective_cost together = cost_of(COLLECTIVE_ALL_GATHER, GIB, nodes * 4, 2, false);
        shared[large] = coefficient(&together, "node0/nic0>network") / alone_on_nic;
        EXPECT(together.transfer_s > 1.5 * alone.transfer_s);
        resources[large] = together.use_count;
        EXPECT_INT(together.use_count, alone.use_count);
        if (large) {
            for (uint32_t i = 0; i < nodes * 8; i++) { /* the first half of the servers, then the second */
                members[i] = i;
            }
            alone = cost_of(COLLECTIVE_ALL_GATHER, GIB, nodes * 4, 1, false);
            together = cost_of(COLLECTIVE_ALL_GATHER, GIB, nodes * 4, 2, false);
            EXPECT_REAL(together.transfer_s, alone.transfer_s, 0);
        }
        cluster_free(&cluster);
    }
    printf("  %u and %u resources: %.3f and %.3f times the load on a NIC with a sister\n", resources[0], resources[1],
           shared[0], shared[1]);
    EXPECT(resources[1] > 4096);
    EXPECT_REAL(shared[0], 2, 1e-12);
    EXPECT_REAL(shared[1], 2, 1e-12);
}

TEST_MAIN(TEST(test_definitions), TEST(test_monotone), TEST(test_large_messages), TEST(test_curves),
          TEST(test_strided_groups), TEST(test_sisters_share_a_nic), TEST(test_folded), TEST(test_many_servers),
          TEST(test_sisters_on_many_resources))
