/* Routes, rings and the sharing that follows from them. Check values: hardware.md C.1-C.4 and E, galvatron-bmw.md "NIC sharing". */
#include <time.h>

#include "cluster_machines.h"
#include "hw_models/cluster.h"
#include "test.h"

/* Plain progressive filling: all rates rise together, a flow stops when one of its resources is full or at its cap. */
enum { FLOWS_MAX = 64 };
struct flow {
    struct route route;
    double rate;
    bool stopped;
};

static void share(const struct cluster *cluster, struct flow *flows, uint32_t count)
{
    double *left = calloc(cluster->resource_count, sizeof *left),
           *asked = calloc(cluster->resource_count, sizeof *asked);
    for (uint32_t r = 0; r < cluster->resource_count; r++) {
        left[r] = cluster->resources[r].capacity;
    }
    for (uint32_t round = 0; round < count; round++) {
        double step = INFINITY;
        memset(asked, 0, cluster->resource_count * sizeof *asked);
        for (uint32_t f = 0; f < count; f++) {
            if (flows[f].stopped) {
                continue;
            }
            step = fmin(step, flows[f].route.rate_cap_bytes_per_s - flows[f].rate);
            for (uint32_t u = 0; u < flows[f].route.use_count; u++) {
                asked[flows[f].route.uses[u].resource] += flows[f].route.uses[u].coefficient;
            }
        }
        for (uint32_t r = 0; r < cluster->resource_count; r++) {
            step = asked[r] > 0 ? fmin(step, left[r] / asked[r]) : step;
        }
        if (isinf(step)) {
            break;
        }
        for (uint32_t r = 0; r < cluster->resource_count; r++) {
            left[r] -= step * asked[r];
        }
        for (uint32_t f = 0; f < count; f++) {
            if (flows[f].stopped) {
                continue;
            }
            flows[f].rate += step;
            flows[f].stopped = flows[f].rate >= flows[f].route.rate_cap_bytes_per_s * (1 - 1e-12);
            for (uint32_t u = 0; u < flows[f].route.use_count; u++) {
                uint32_t r = flows[f].route.uses[u].resource;
                flows[f].stopped = flows[f].stopped || left[r] <= 1e-12 * cluster->resources[r].capacity;
            }
        }
    }
    free(left);
    free(asked);
}

static struct hand_machine made;
static struct cluster cluster;
static struct error error;

static void build(void (*make)(struct hand_machine *), uint32_t nodes)
{
    make(&made);
    EXPECT_INT(cluster_build(&cluster, &made.machine, nodes, 0, &error), STATUS_OK);
}

static struct route way(enum endpoint_kind from_kind, uint32_t from, enum endpoint_kind to_kind, uint32_t to,
                        bool pageable)
{
    struct route route;
    struct endpoint a = { from_kind, from }, b = { to_kind, to };
    EXPECT_INT(cluster_route(&cluster, a, b, pageable, &route, &error), STATUS_OK);
    return route;
}

static double coefficient(const struct resource_use *uses, uint32_t count, const char *name)
{
    char buffer[64];
    for (uint32_t i = 0; i < count; i++) {
        if (strcmp(cluster_resource_name(&cluster, uses[i].resource, buffer, sizeof buffer), name) == 0) {
            return uses[i].coefficient;
        }
    }
    return 0;
}

static void test_names_and_ids(void)
{
    char buffer[64];
    build(hand_dgx_a100, 3);
    EXPECT_INT(cluster.gpus, 24);
    EXPECT_INT(cluster.nics, 8);
    EXPECT_INT(cluster.drives, 8);
    EXPECT_TEXT(cluster_resource_name(&cluster, cluster_sm(&cluster, 9), buffer, sizeof buffer), "node1/gpu1 sm");
    EXPECT_TEXT(cluster_resource_name(&cluster, cluster_hbm(&cluster, 23), buffer, sizeof buffer), "node2/gpu7 hbm");
    EXPECT_TEXT(cluster_resource_name(&cluster, cluster_dram(&cluster, 1, 1), buffer, sizeof buffer),
                "node1/cpu1 dram");
    EXPECT_TEXT(cluster_resource_name(&cluster, cluster_cores(&cluster, 0, 1), buffer, sizeof buffer),
                "node0/cpu1 cores");
    EXPECT_INT(cluster_gpu_socket(&cluster, 3), 0);
    EXPECT_INT(cluster_gpu_socket(&cluster, 12), 1);
    EXPECT_INT(cluster_gpu_host(&cluster, 3).kind, ENDPOINT_HOST);
    EXPECT_INT(cluster_gpu_host(&cluster, 3).index, 0);
    EXPECT_INT(cluster_gpu_host(&cluster, 12).index, 12 / cluster.gpus_per_node * cluster.sockets + 1);
    EXPECT_REAL(cluster.resources[cluster_cores(&cluster, 0, 1)].capacity, 64, 0);
    cluster_free(&cluster);
}

static void test_host_copy(void)
{
    build(hand_dgx_a100, 1);
    struct route down = way(ENDPOINT_HOST, 0, ENDPOINT_GPU, 1, false);
    EXPECT_REAL(down.rate_cap_bytes_per_s, 25.5e9, 1e-12);
    EXPECT_REAL(coefficient(down.uses, down.use_count, "node0/cpu0>plx0"), 1, 0);
    EXPECT_REAL(coefficient(down.uses, down.use_count, "node0/plx0>gpu1"), 1, 0);
    EXPECT_REAL(coefficient(down.uses, down.use_count, "node0/gpu1>plx0"), 0, 0);
    EXPECT_REAL(coefficient(down.uses, down.use_count, "node0/cpu0 dram"), 1, 0);
    EXPECT_REAL(coefficient(down.uses, down.use_count, "node0/gpu1 hbm"), 1, 0);
    EXPECT_REAL(down.latency_s, 1.4e-6, 1e-12);
    struct route pageable = way(ENDPOINT_GPU, 1, ENDPOINT_HOST, 0, true);
    EXPECT_REAL(coefficient(pageable.uses, pageable.use_count, "node0/cpu0 dram"), 3, 0);
    EXPECT_REAL(pageable.rate_cap_bytes_per_s, 9e9, 0);
    EXPECT_REAL(coefficient(pageable.uses, pageable.use_count, "node0/cpu0 cores") * pageable.rate_cap_bytes_per_s, 1,
                1e-12);
    struct route remote = way(ENDPOINT_GPU, 7, ENDPOINT_HOST, 0, false);
    EXPECT_REAL(coefficient(remote.uses, remote.use_count, "node0/cpu1>cpu0"), 1, 0);
    EXPECT_REAL(coefficient(remote.uses, remote.use_count, "node0/cpu1 dram"), 0, 0);
    cluster_free(&cluster);
}

/* E.1: 37 GB/s of both directions, 18.5 each; E.2: two GPUs behind one switch get half each; different switches do not meet. */
static void test_pcie_sharing(void)
{
    build(hand_dgx_a100, 1);
    struct flow both[2] = { { .route = way(ENDPOINT_HOST, 0, ENDPOINT_GPU, 0, false) },
                            { .route = way(ENDPOINT_GPU, 0, ENDPOINT_HOST, 0, false) } };
    share(&cluster, both, 2);
    EXPECT_REAL(both[0].rate, 18.5e9, 1e-9);
    EXPECT_REAL(both[1].rate, 18.5e9, 1e-9);
    struct flow pair[2] = { { .route = way(ENDPOINT_HOST, 0, ENDPOINT_GPU, 0, false) },
                            { .route = way(ENDPOINT_HOST, 0, ENDPOINT_GPU, 1, false) } };
    share(&cluster, pair, 2);
    EXPECT_REAL(pair[0].rate, 12.75e9, 1e-9);
    struct flow apart[2] = { { .route = way(ENDPOINT_HOST, 0, ENDPOINT_GPU, 0, false) },
                             { .route = way(ENDPOINT_HOST, 0, ENDPOINT_GPU, 2, false) } };
    share(&cluster, apart, 2);
    EXPECT_REAL(apart[1].rate, 25.5e9, 1e-9);
    struct flow all[8];
    double total = 0;
    memset(all, 0, sizeof all);
    for (uint32_t g = 0; g < 8; g++) {
        all[g].route = way(ENDPOINT_HOST, g / 4, ENDPOINT_GPU, g, false);
    }
    share(&cluster, all, 8);
    for (uint32_t g = 0; g < 8; g++) {
        total += all[g].rate;
    }
    EXPECT_REAL(total, 102e9, 1e-9); /* C.1: DGX A100, all eight: about 4 x 25.5 */
    cluster_free(&cluster);
}

/* C.1, E.2: sixteen at once on a DGX-2 get 3 GB/s of 12. */
static void test_dgx2_uplinks(void)
{
    struct flow all[16];
    memset(all, 0, sizeof all);
    build(hand_dgx2, 1);
    EXPECT_REAL(way(ENDPOINT_HOST, 0, ENDPOINT_GPU, 0, false).rate_cap_bytes_per_s, 12.2e9, 1e-12);
    for (uint32_t g = 0; g < 16; g++) {
        all[g].route = way(ENDPOINT_HOST, g / 8, ENDPOINT_GPU, g, false);
    }
    share(&cluster, all, 16);
    for (uint32_t g = 0; g < 16; g++) {
        EXPECT_REAL(all[g].rate, 12.2e9 / 4, 1e-9);
    }
    cluster_free(&cluster);
}

/* C.1: on an H100 server eight copies would take 440 GB/s; the DRAM of each socket, half duplex, lets 245 through one way and half of that each way. */
static void test_h100_dram(void)
{
    struct flow all[16];
    double total = 0;
    memset(all, 0, sizeof all);
    build(hand_dgx_h100, 1);
    made.machine.parts[1].read_bytes_per_s = made.machine.parts[3].read_bytes_per_s = 200e9; /* below 4 x 55 */
    cluster_free(&cluster);
    EXPECT_INT(cluster_build(&cluster, &made.machine, 1, 0, &error), STATUS_OK);
    for (uint32_t g = 0; g < 8; g++) {
        all[g].route = way(ENDPOINT_HOST, g / 4, ENDPOINT_GPU, g, false);
        all[8 + g].route = way(ENDPOINT_GPU, g, ENDPOINT_HOST, g / 4, false);
    }
    share(&cluster, all, 8);
    for (uint32_t g = 0; g < 8; g++) {
        total += all[g].rate;
        all[g].rate = 0;
        all[g].stopped = false;
    }
    EXPECT_REAL(total, 400e9, 1e-9);
    share(&cluster, all, 16);
    EXPECT_REAL(all[0].rate, 25e9, 1e-9); /* 200 GB/s over 8 streams of a socket */
    cluster_free(&cluster);
}

static void test_peer_routes(void)
{
    build(hand_dgx_a100, 2);
    struct route peer = way(ENDPOINT_GPU, 0, ENDPOINT_GPU, 5, false);
    EXPECT_REAL(peer.rate_cap_bytes_per_s, 276e9, 1e-12); /* C.2 */
    EXPECT_REAL(coefficient(peer.uses, peer.use_count, "node0/gpu0>fabric"), 1, 0);
    EXPECT_REAL(coefficient(peer.uses, peer.use_count, "node0/fabric>gpu5"), 1, 0);
    struct route far = way(ENDPOINT_GPU, 1, ENDPOINT_GPU, 8 + 6, false);
    EXPECT_REAL(far.rate_cap_bytes_per_s, 25e9 * 0.93, 1e-12);
    EXPECT_REAL(coefficient(far.uses, far.use_count, "node0/nic1>network"), 1, 0);
    EXPECT_REAL(coefficient(far.uses, far.use_count, "node1/network>nic6"), 1, 0);
    EXPECT_REAL(coefficient(far.uses, far.use_count, "node0/gpu1>plx0"), 1, 0);
    EXPECT_REAL(coefficient(far.uses, far.use_count, "node0/cpu0 dram"), 0,
                0); /* under one switch: straight to the NIC */
    struct route local = way(ENDPOINT_GPU, 3, ENDPOINT_GPU, 3, false);
    EXPECT_REAL(local.rate_cap_bytes_per_s, 850e9, 1e-12);
    cluster_free(&cluster);

    build(hand_dgx1, 1);
    EXPECT_REAL(way(ENDPOINT_GPU, 0, ENDPOINT_GPU, 1, false).rate_cap_bytes_per_s, 24e9, 1e-12);
    EXPECT_REAL(way(ENDPOINT_GPU, 4, ENDPOINT_GPU, 0, false).rate_cap_bytes_per_s, 48e9, 1e-12);
    struct route bounced = way(ENDPOINT_GPU, 0, ENDPOINT_GPU, 7, false); /* no link: through both sockets */
    EXPECT_REAL(coefficient(bounced.uses, bounced.use_count, "node0/cpu0>cpu1"), 1, 0);
    EXPECT_REAL(coefficient(bounced.uses, bounced.use_count, "node0/cpu0 dram"), 2, 0);
    EXPECT(bounced.rate_cap_bytes_per_s < 12.2e9);
    cluster_free(&cluster);

    build(hand_pcie_box, 1);
    struct route host = way(ENDPOINT_GPU, 0, ENDPOINT_GPU, 1, false);
    EXPECT_REAL(coefficient(host.uses, host.use_count, "node0/cpu0 dram"), 2, 0);
    made.machine.gpu.pcie_peer = true;
    struct route direct = way(ENDPOINT_GPU, 0, ENDPOINT_GPU, 1, false);
    EXPECT_REAL(coefficient(direct.uses, direct.use_count, "node0/cpu0 dram"), 0, 0);
    EXPECT_REAL(direct.rate_cap_bytes_per_s, 25.5e9, 1e-12);
    cluster_free(&cluster);
}

static void test_storage(void)
{
    build(hand_dgx_a100, 1);
    struct route read = way(ENDPOINT_STORAGE, 2, ENDPOINT_HOST, 0, false),
                 write = way(ENDPOINT_HOST, 0, ENDPOINT_STORAGE, 2, false);
    EXPECT_REAL(read.rate_cap_bytes_per_s, 6.38e9, 1e-12); /* its four lanes */
    EXPECT_REAL(write.rate_cap_bytes_per_s, 3.5e9, 1e-12);
    EXPECT_REAL(coefficient(read.uses, read.use_count, "node0/cpu0 dram"), 1, 0);
    struct route route;
    struct endpoint drive = { ENDPOINT_STORAGE, 0 }, gpu = { ENDPOINT_GPU, 0 };
    EXPECT_INT(cluster_route(&cluster, drive, gpu, false, &route, &error), STATUS_UNSUPPORTED);
    EXPECT_PART(error.message, "host memory");
    cluster_free(&cluster);
}

static double ring_cap(const uint32_t *members, uint32_t count, struct resource_use *uses, uint32_t *use_count)
{
    double cap = 0;
    *use_count = 0;
    EXPECT_INT(cluster_ring(&cluster, members, count, false, uses, 1024, use_count, &cap, &error), STATUS_OK);
    return cap;
}

/* The V100 table of vTrain as a topology test: 22.6, 45.1, 85.4, 37.2, 45.7, 87.0, 134.5 GB/s on the first 2 to 8 GPUs of a DGX-1: 1, 2, 4, one relayed pair, 2, 4, 6 rings. */
static void test_dgx1_rings(void)
{
    static const double RINGS[9] = { 0, 0, 1, 2, 4, 2 * 0.82, 2, 4, 6 };
    static const uint32_t MEMBERS[8] = { 0, 1, 2, 3, 4, 5, 6, 7 }, NV2[2] = { 0, 3 };
    struct resource_use uses[1024];
    uint32_t count = 0;
    build(hand_dgx1, 1);
    for (uint32_t n = 2; n <= 8; n++) {
        EXPECT_REAL(ring_cap(MEMBERS, n, uses, &count), RINGS[n] * 22.4e9, 1e-9);
    }
    EXPECT_REAL(ring_cap(NV2, 2, uses, &count), 2 * 22.4e9, 1e-9);
    /* eight ranks: each GPU sends one bus byte over its links, and every link is used in proportion to its lanes */
    ring_cap(MEMBERS, 8, uses, &count);
    EXPECT_REAL(coefficient(uses, count, "node0/gpu0>gpu3"), 2.0 / 6, 1e-12);
    EXPECT_REAL(coefficient(uses, count, "node0/gpu3>gpu0"), 2.0 / 6, 1e-12);
    EXPECT_REAL(coefficient(uses, count, "node0/gpu0>gpu1"), 1.0 / 6, 1e-12);
    EXPECT_INT(count, 32);
    cluster_free(&cluster);
}

/* MI300X: one lane to each of seven others. Eight GPUs close seven one-way rings (measured 312.9 GB/s at 4 GiB), two GPUs one (47.7) [hardware.md C.3]. */
static void test_full_mesh_rings(void)
{
    static const uint32_t MEMBERS[8] = { 0, 1, 2, 3, 4, 5, 6, 7 };
    struct resource_use uses[1024];
    uint32_t count = 0, first;
    hand_pcie_box(&made);
    first = made.machine.part_count - 9; /* eight GPUs, then a NIC */
    for (uint32_t a = 0; a < 8; a++) {
        for (uint32_t b = a + 1; b < 8; b++) {
            hand_link(&made, LINK_XGMI, first + a, first + b, 48e9, 0, 1);
        }
    }
    made.machine.nvlink_collective_bytes_per_s = 312.9e9;
    EXPECT_INT(cluster_build(&cluster, &made.machine, 1, 0, &error), STATUS_OK);
    EXPECT_REAL(ring_cap(MEMBERS, 8, uses, &count), 312.9e9, 1e-9);
    EXPECT_INT(count, 56); /* every direction of every link, alike */
    for (uint32_t i = 0; i < count; i++) {
        EXPECT_REAL(uses[i].coefficient, 1.0 / 7, 1e-12);
    }
    EXPECT_REAL(ring_cap(MEMBERS, 2, uses, &count), 47.7e9, 0.07);
    EXPECT_REAL(ring_cap(MEMBERS, 5, uses, &count), 4 * 44.7e9, 1e-9);
    cluster_free(&cluster);
}

static void test_rings(void)
{
    static const uint32_t MEMBERS[8] = { 0, 1, 2, 3, 4, 5, 6, 7 };
    struct resource_use uses[1024];
    uint32_t count = 0;
    build(hand_dgx_a100, 1);
    EXPECT_REAL(ring_cap(MEMBERS, 8, uses, &count), 235e9, 1e-12);
    EXPECT_INT(count, 16);
    EXPECT_REAL(coefficient(uses, count, "node0/fabric>gpu3"), 1, 0);
    EXPECT(isinf(ring_cap(MEMBERS, 1, uses, &count)));
    EXPECT_INT(count, 0);
    cluster_free(&cluster);

    /* Host-bounced: both directions of each GPU's link at once, 37/2: 4x RTX 4090 measured 18 [C.3] */
    build(hand_pcie_box, 1);
    EXPECT_REAL(ring_cap(MEMBERS, 4, uses, &count), 18.5e9, 1e-9);
    EXPECT_REAL(coefficient(uses, count, "node0/cpu0 dram"), 8, 1e-12); /* four hops of 2 B */
    double eight = ring_cap(MEMBERS, 8, uses, &count);
    EXPECT(eight > 10e9 && eight <= 18.5e9); /* two hops cross the sockets, one each way: 16 GB/s */
    EXPECT_REAL(coefficient(uses, count, "node0/cpu0>cpu1"), 1, 1e-12);
    cluster_free(&cluster);
}

static void test_network_rings(void)
{
    uint32_t members[16], strided[2] = { 0, 8 }, four[4] = { 0, 1, 8, 9 };
    struct resource_use uses[1024];
    uint32_t count = 0;
    for (uint32_t i = 0; i < 16; i++) {
        members[i] = i;
    }
    build(hand_dgx_a100, 2);
    double line = 25e9 * 0.93;
    EXPECT_REAL(ring_cap(strided, 2, uses, &count), line, 1e-12); /* one NIC a member */
    EXPECT_REAL(coefficient(uses, count, "node0/nic0>network"), 1, 0);
    EXPECT_REAL(coefficient(uses, count, "node0/gpu0>fabric"), 0, 0);
    EXPECT_REAL(ring_cap(four, 4, uses, &count), 2 * line, 1e-12);
    EXPECT_REAL(coefficient(uses, count, "node1/network>nic1"), 0.5, 0);
    EXPECT_REAL(coefficient(uses, count, "node1/gpu1>fabric"), 0.5, 0);
    EXPECT_REAL(ring_cap(members, 16, uses, &count), 8 * line, 1e-12);
    EXPECT_REAL(coefficient(uses, count, "node0/gpu7>fabric"), 7.0 / 8, 1e-12);
    uint32_t first_count = 0, all_count = count;
    double cap = 0;
    EXPECT_INT(cluster_ring(&cluster, members, 16, true, uses, 1024, &first_count, &cap, &error), STATUS_OK);
    EXPECT_INT(2 * first_count, all_count);
    EXPECT_REAL(cap, 8 * line, 1e-12);
    uint32_t few = 0;
    EXPECT_INT(cluster_ring(&cluster, members, 16, true, uses, 5, &few, &cap, &error), STATUS_LIMIT);
    EXPECT_INT(few, 0);
    cluster_free(&cluster);
}

static void test_group_span(void)
{
    static const uint32_t MIXED[6] = { 9, 0, 1, 8, 17, 2 };
    uint32_t nodes = 0, most = 0, use_count = 0;
    struct resource_use uses[1024];
    build(hand_dgx_a100, 3);
    cluster_group_span(&cluster, MIXED, 6, &nodes, &most);
    EXPECT_INT(nodes, 3);
    EXPECT_INT(most, 3);
    ring_cap(MIXED, 6, uses, &use_count);
    EXPECT_REAL(coefficient(uses, use_count, "node0/nic2>network"), 1.0 / 3, 1e-12);
    EXPECT_REAL(coefficient(uses, use_count, "node1/nic0>network"), 0.5, 1e-12);
    EXPECT_REAL(coefficient(uses, use_count, "node2/nic1>network"), 1, 1e-12);
    cluster_free(&cluster);
}

static void test_errors(void)
{
    hand_dgx_a100(&made);
    EXPECT_INT(cluster_build(&cluster, &made.machine, 2, 17, &error), STATUS_BAD_INPUT);
    EXPECT_PART(error.message, "17 GPUs");
    EXPECT_INT(cluster_build(&cluster, &made.machine, 0, 0, &error), STATUS_BAD_INPUT);
    for (uint32_t i = 0; i < made.machine.part_count; i++) {
        made.parts[i].compute_fabric = false;
    }
    EXPECT_INT(cluster_build(&cluster, &made.machine, 2, 0, &error), STATUS_BAD_INPUT);
    EXPECT_PART(error.message, "nic");
    EXPECT_INT(cluster_build(&cluster, &made.machine, 1, 0, &error), STATUS_OK);
    cluster_free(&cluster);
    hand_pcie_box(&made);
    made.machine.link_count = 3; /* the GPUs' links are gone */
    EXPECT_INT(cluster_build(&cluster, &made.machine, 1, 0, &error), STATUS_BAD_INPUT);
    EXPECT_PART(error.message, "gpu0");
}

/* Ten thousand GPUs: few megabytes, few milliseconds (the best of five: the first pays for fresh pages). */
static void test_large(void)
{
    double best_ms = INFINITY;
    hand_dgx_a100(&made);
    for (int round = 0; round < 5; round++) {
        struct timespec start, end;
        clock_gettime(CLOCK_MONOTONIC, &start);
        EXPECT_INT(cluster_build(&cluster, &made.machine, 1250, 0, &error), STATUS_OK);
        clock_gettime(CLOCK_MONOTONIC, &end);
        best_ms =
            fmin(best_ms, (double)(end.tv_sec - start.tv_sec) * 1e3 + (double)(end.tv_nsec - start.tv_nsec) * 1e-6);
        EXPECT_INT(cluster.gpus, 10000);
        EXPECT(cluster.arena.total_bytes < 20000000);
        if (round == 0) {
            printf("10,000 GPUs: %u resources, %.1f MB", cluster.resource_count,
                   (double)cluster.arena.total_bytes * 1e-6);
        }
        cluster_free(&cluster);
    }
    printf(", %.2f ms\n", best_ms);
    EXPECT(best_ms < 60); /* 5 ms is the aim; sanitizers and loaded machines take longer */
}

/* Every machine of the library: routes between all neighbours of socket, GPU and drive, rings of every prefix, on one server and on two. */
static void test_library(void)
{
    static uint32_t members[512];
    static struct resource_use uses[16384];
    for (uint32_t m = 0; m < machine_library_count(); m++) {
        struct machine machine;
        EXPECT_INT(machine_load(&machine, machine_library_name(m), &error), STATUS_OK);
        uint32_t nodes = cluster_build(&cluster, &machine, 2, 0, &error) == STATUS_OK ? 2 : 1;
        if (nodes == 1) {
            EXPECT_INT(cluster_build(&cluster, &machine, 1, 0, &error), STATUS_OK);
        }
        uint32_t gpus = cluster.gpus;
        for (uint32_t g = 0; g < gpus; g++) {
            members[g] = g;
            uint32_t socket = g / cluster.gpus_per_node * cluster.sockets + cluster_gpu_socket(&cluster, g);
            EXPECT(way(ENDPOINT_HOST, socket, ENDPOINT_GPU, g, false).rate_cap_bytes_per_s > 1e9);
            EXPECT(way(ENDPOINT_GPU, g, ENDPOINT_HOST, socket, true).rate_cap_bytes_per_s > 1e9);
            EXPECT(way(ENDPOINT_GPU, g, ENDPOINT_GPU, (g + 1) % gpus, false).rate_cap_bytes_per_s > 1e8);
        }
        for (uint32_t d = 0; d < cluster.drives * nodes; d++) {
            uint32_t socket = d / cluster.drives * cluster.sockets;
            EXPECT(way(ENDPOINT_STORAGE, d, ENDPOINT_HOST, socket, false).rate_cap_bytes_per_s > 1e8);
        }
        for (uint32_t n = 2; n <= gpus; n++) {
            uint32_t count = 0;
            double cap = 0, sent = 0;
            EXPECT_INT(cluster_ring(&cluster, members, n, false, uses, 16384, &count, &cap, &error), STATUS_OK);
            EXPECT(cap > 1e8 && isfinite(cap));
            for (uint32_t i = 0; i < count; i++) {
                EXPECT(uses[i].coefficient > 0);
                EXPECT(cap * uses[i].coefficient <= cluster.resources[uses[i].resource].capacity * (1 + 1e-9));
                sent += cluster.resources[uses[i].resource].kind == RESOURCE_NIC ? uses[i].coefficient : 0;
            }
            if (n > cluster.gpus_per_node) { /* one bus byte leaves and one enters each of the two servers */
                EXPECT_REAL(sent, 4, 1e-9);
            }
        }
        cluster_free(&cluster);
        machine_free(&machine);
    }
}

TEST_MAIN(TEST(test_names_and_ids), TEST(test_host_copy), TEST(test_pcie_sharing), TEST(test_dgx2_uplinks),
          TEST(test_h100_dram), TEST(test_peer_routes), TEST(test_storage), TEST(test_dgx1_rings),
          TEST(test_full_mesh_rings), TEST(test_rings), TEST(test_network_rings), TEST(test_group_span),
          TEST(test_errors), TEST(test_large), TEST(test_library))
