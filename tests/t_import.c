/* Importers: fixtures of every format and version (typed by hand from the formats; figures of ../shared/facts/hardware.md), spoiled and cut texts, and the shared tables
 * where they are. */
#include "validate/calibrate/import.h"

#include <unistd.h>

#include "hw_models/machine.h"
#include "sim/base/file.h"
#include "tests/test.h"
#include "validate/kernel_rows.h"

static struct points points;
static struct draft *draft;
static struct import_result result;
static struct error error;
static enum status status;

static void setup(const char *base)
{
    points_free(&points);
    draft_free(draft);
    draft = NULL;
    import_result_free(&result);
    result = (struct import_result){ 0 };
    error = (struct error){ 0 };
    EXPECT_INT(draft_new(&draft, "imported", base, &error), STATUS_OK);
}

static void also(const char *path, const char *system)
{
    import_result_free(&result);
    error = (struct error){ 0 };
    status = import_file(path, system, &points, draft, &result, &error);
}

/* A fixture alone, into an empty draft. */
static void fixture(const char *name, const char *system)
{
    char path[256];
    snprintf(path, sizeof path, "tests/import/%s", name);
    setup(NULL);
    also(path, system);
}

/* A text as a file whose name ends as given. */
static void text_named(const char *text, size_t length, const char *name)
{
    char path[256];
    snprintf(path, sizeof path, "/tmp/memwall_import_%d_%s", (int)getpid(), name);
    FILE *file = fopen(path, "wb");
    EXPECT(file != NULL && fwrite(text, 1, length, file) == length && fclose(file) == 0);
    setup(NULL);
    also(path, NULL);
    (void)unlink(path);
}

static void text(const char *text_of_file)
{
    text_named(text_of_file, strlen(text_of_file), "paste.txt");
}

static void expect_ok(enum import_format format, uint32_t count, uint32_t skipped)
{
    if (status != STATUS_OK) {
        char buffer[2048];
        TEST_FAIL_("%s", error_text(&error, buffer, sizeof buffer));
        return;
    }
    EXPECT_INT(result.format, format);
    EXPECT_INT(result.points, count);
    EXPECT_INT(points.count, count);
    EXPECT_INT(result.skipped, skipped);
}

/* Refused at this line, and nothing left behind. */
static void expect_bad(unsigned line, const char *part)
{
    EXPECT_INT(status, STATUS_BAD_INPUT);
    EXPECT_PART(error.message, part);
    EXPECT_INT(error.line, line);
    EXPECT(error.file[0] != '\0');
    EXPECT_INT(points.count, 0);
    EXPECT_INT(result.points, 0);
}

static const struct point *collective(enum collective_kind kind, uint32_t ranks, uint32_t nodes, double bytes)
{
    struct point like = {
        .kind = POINT_COLLECTIVE, .collective = kind, .ranks = ranks, .nodes = nodes, .bytes = bytes, .at_once = 1
    };
    static const struct point none;
    const struct point *found = points_find(&points, &like);
    EXPECT(found != NULL);
    return found != NULL ? found : &none;
}

static const struct point *copy(enum copy_way way, bool pageable, uint32_t from, uint32_t to, uint32_t at_once,
                                double bytes)
{
    struct point like = {
        .kind = POINT_COPY, .way = way, .pageable = pageable, .from = from, .to = to, .at_once = at_once, .bytes = bytes
    };
    static const struct point none;
    const struct point *found = points_find(&points, &like);
    EXPECT(found != NULL);
    return found != NULL ? found : &none;
}

/* ---- nccl-tests ---- */

static const double MIB_BYTES = 1048576.0;

static void test_nccl_new_columns(void)
{
    fixture("nccl_all_reduce_a100.txt", NULL);
    expect_ok(IMPORT_NCCL_TESTS, 10, 0);
    const struct point *p = collective(COLLECTIVE_ALL_REDUCE, 8, 1, 1024 * MIB_BYTES);
    EXPECT_REAL(p->seconds, 8205.45e-6, 1e-12);
    EXPECT_REAL(p->bytes * 1.75 / p->seconds * 1e-9, 229.0, 1e-4); /* facts C.3 */
    EXPECT_REAL(collective(COLLECTIVE_ALL_REDUCE, 8, 1, 32768)->seconds, 43.77e-6, 1e-12);
    EXPECT_INT(p->repeats, 0);
    EXPECT(!p->in_doubt);
    EXPECT_TEXT(p->source, "nccl-tests all_reduce, 8 ranks on 1 node, nccl_all_reduce_a100.txt");
    EXPECT_PART(result.notes.text, "out-of-place");
    EXPECT(draft_has(draft, "gpu.model"));
    EXPECT(strstr(result.notes.text, "Avg") == NULL);
}

static void test_nccl_old_columns(void)
{
    fixture("nccl_old_all_gather_v100.log", NULL); /* named by its file; both bandwidths are bus bandwidths */
    expect_ok(IMPORT_NCCL_TESTS, 1, 0);
    const struct point *p = collective(COLLECTIVE_ALL_GATHER, 4, 1, 256 * MIB_BYTES);
    EXPECT_REAL(p->bytes * 0.75 / p->seconds * 1e-9, 129.0, 1e-3); /* NCCL issue 2218 */
    fixture("nccl1_milliseconds.txt", NULL);
    expect_ok(IMPORT_NCCL_TESTS, 1, 1);
    EXPECT_REAL(collective(COLLECTIVE_ALL_REDUCE, 4, 1, 1e7)->seconds, 2e-3, 1e-12);
    /* nccl-tests 2.0 without validation: rows begin with '#' too */
    text(
        "# nThread 1 nGpus 2 minBytes 1 maxBytes 1000000 step: 2(factor) warmup iters: 5 iters: 20 validation: 0\n"
        "$ build/all_reduce_perf -b 1 -e 1M -f 2 -g 2 -c 0\n"
        "#   Rank  0 on       ncrh device  0 [0x05] GeForce RTX 2080 Ti\n"
        "#   Rank  1 on       ncrh device  1 [0x06] GeForce RTX 2080 Ti\n\n"
        "#      bytes             N    type      op     time  algbw  busbw      res     time  algbw  busbw      res\n"
        "#           0             0   float     sum    0.009   0.00   0.00       N/A    0.010   0.00   0.00      N/A\n"
        "#     1000000        250000   float     sum    0.125   8.00   8.00       N/A    0.125   8.00   8.00      "
        "N/A\n");
    expect_ok(IMPORT_NCCL_TESTS, 1, 1);
    EXPECT_REAL(collective(COLLECTIVE_ALL_REDUCE, 2, 1, 1e6)->seconds, 125e-6, 1e-12);
}

static void test_nccl_two_nodes(void)
{
    fixture("nccl_218_mpirun_two_nodes.out", NULL);
    expect_ok(IMPORT_NCCL_TESTS, 4, 2);
    const struct point *p = collective(COLLECTIVE_REDUCE_SCATTER, 16, 2, 64 * MIB_BYTES);
    EXPECT_REAL(p->seconds, 510e-6, 1e-12); /* median of 500, 520 and 510 */
    EXPECT_REAL(p->spread_s, 10e-6, 1e-9);
    EXPECT_INT(p->repeats, 3);
    EXPECT_REAL(collective(COLLECTIVE_REDUCE_SCATTER, 16, 2, MIB_BYTES)->seconds, 60e-6, 1e-12);
    EXPECT_PART(result.notes.text, "line 33: wrong results");
    EXPECT_PART(result.notes.text, "1 rows of size or time zero");
}

static void test_nccl_several_runs(void)
{
    fixture("nccl_three_runs_srun.txt", NULL);
    expect_ok(IMPORT_NCCL_TESTS, 6, 0);
    EXPECT_REAL(collective(COLLECTIVE_BROADCAST, 4, 1, 64 * MIB_BYTES)->seconds, 400e-6, 1e-12);
    EXPECT_REAL(collective(COLLECTIVE_ALL_TO_ALL, 4, 1, 64 * MIB_BYTES)->seconds, 450e-6, 1e-12);
    EXPECT_REAL(collective(COLLECTIVE_SEND_RECV, 2, 1, MIB_BYTES)->seconds, 30e-6, 1e-12);
}

#define COLUMNS "#  size  count  type  redop  root  time  algbw  busbw  #wrong  time  algbw  busbw  #wrong\n"
#define RANKS2                                                                                                         \
    "#  Rank  0 Group  0 Pid 10 on host device  0 [0x01] GPU\n#  Rank  1 Group  0 Pid 10 on host device  1 [0x02] "    \
    "GPU\n"
#define ROW     "  1000000  250000  float  sum  -1  100.0  10.00  10.00  0  100.0  10.00  10.00  0\n"
#define AVERAGE "# Avg bus bandwidth    : 10\n"

static void test_nccl_names_and_ranks(void)
{
    text(RANKS2 COLUMNS ROW AVERAGE); /* paste.txt names nothing */
    expect_bad(1, "which collective");
    text("$ ./all_reduce_perf -g 2\n" RANKS2 COLUMNS ROW AVERAGE);
    expect_ok(IMPORT_NCCL_TESTS, 1, 0);
    text("$ ./reduce_perf -g 2\n" RANKS2 COLUMNS ROW AVERAGE);
    expect_ok(IMPORT_NCCL_TESTS, 0, 1);
    EXPECT_PART(result.notes.text, "no such collective");
    text("$ ./all_gather_perf -g 2\n" RANKS2 COLUMNS ROW AVERAGE); /* its bus factor is 1/2 */
    expect_bad(2, "another collective, or ranks missing");
    text_named(ROW, strlen(ROW), "AllReduce-2gpus.log"); /* a row alone: 2 ranks by the ratio of the bandwidths */
    expect_ok(IMPORT_NCCL_TESTS, 1, 0);
    EXPECT_INT(points.items[0].ranks, 2);
    EXPECT_PART(result.notes.text, "2 ranks by busbw/algbw");
    text("$ all_reduce_perf\n# nThread 1 nGpus 2 minBytes 8\n" COLUMNS ROW AVERAGE);
    expect_ok(IMPORT_NCCL_TESTS, 1, 0);
    EXPECT_PART(result.notes.text, "nThread x nGpus");
    text("$ sendrecv_perf\n# nThread 1 nGpus 1\n" COLUMNS ROW AVERAGE);
    expect_bad(2, "one rank");
    text("$ all_reduce_perf\n#   Rank  0 Pid 1 on a device  0 [0x00] V100\n#   Rank  0 Pid 2 on b device  0 [0x00] "
         "V100\n");
    expect_bad(3, "without MPI");
    text("$ all_reduce_perf\n#  Rank  0 Group  0 Pid 1 on a device 0 [0] G\n#  Rank  1 Group  1 Pid 2 on a device 1 "
         "[1] G\n");
    expect_bad(3, "several groups");
    text("$ sendrecv_perf\n" RANKS2 "#  Rank  2 Group  0 Pid 10 on host device  2 [0x03] GPU\n" COLUMNS ROW AVERAGE);
    expect_ok(IMPORT_NCCL_TESTS, 1, 0); /* a ring of three: a pair, in doubt */
    EXPECT_INT(points.items[0].ranks, 2);
    EXPECT(points.items[0].in_doubt);
}

#define RUN(rows) "$ all_reduce_perf\n" RANKS2 COLUMNS rows

static void test_nccl_rows(void)
{
    text(RUN("  1000000  250000  float  sum  -1  100.0  10.00  10.00  0  100.0  10.00\n"));
    expect_bad(5, "cut short in its last line");
    text(RUN("  1000000  250000  float  sum  -1  100.0  10.00 host:1:2 [0] NCCL INFO Channel\n" ROW));
    expect_bad(5, "NCCL_DEBUG_FILE");
    text(RUN("  1000000  250000  float  sum  -1  100.0  ten  10.00  0  100.0  10.00  10.00  0\n" ROW));
    expect_bad(5, "not a whole row");
    text(RUN("  1000000\n"));
    expect_bad(5, "not a whole row");
    text(RUN(""));
    expect_bad(4, "no row under these columns");
    text("$ all_reduce_perf\n# nThread 1 nGpus 2\n" RANKS2);
    expect_bad(4, "cut short");
    text(RUN(ROW "# Avg bus bandwidth    : 12\n"));
    expect_ok(IMPORT_NCCL_TESTS, 1, 0);
    EXPECT_PART(result.notes.text, "rows are missing or changed");
    text(RUN(ROW));
    expect_ok(IMPORT_NCCL_TESTS, 1, 0);
    EXPECT_PART(result.notes.text, "may have been cut short");
    text(RUN(ROW "# Avg bus bandwidth\n"));
    expect_bad(6, "NUMBER");
    /* host times: 250 us beside an algbw of 10 GB/s; an old error above the threshold; another op */
    text(RUN(ROW "  2000000  500000  float  sum  -1  250.0  10.00  10.00  0  100.0  10.00  10.00  0\n"
                 "  3000000  500000  float  max  -1  300.0  10.00  10.00  0  300.0  10.00  10.00  0\n"
                 "  4000000  500000  float  sum  -1    0.00   0.00   0.00  0  300.0  10.00  10.00  0\n"
                 "  5000000  500000  float  sum  -1    N/A    N/A    N/A  N/A  300.0  10.00  10.00  N/A\n" AVERAGE));
    expect_ok(IMPORT_NCCL_TESTS, 1, 4);
    EXPECT_PART(result.notes.text, "line 6: algbw 10 is not size/time (8 GB/s");
    text("$ all_reduce_perf\n" RANKS2 "#  size count type redop time algbw busbw error time algbw busbw error\n"
         "  1000000  250000  float  sum  100.0  10.00  10.00  5e-01*  100.0  10.00  10.00  0e+00\n"
         "  2000000  250000  float  sum  200.0  10.00  10.00  5e-07  200.0  10.00  10.00  0e+00\n" AVERAGE);
    expect_ok(IMPORT_NCCL_TESTS, 1, 1);
    text("$ all_reduce_perf\n" RANKS2 "# size time algbw busbw\n 1000000 100.0 10.00 10.00\n");
    expect_bad(4, "columns not known");
}

/* ---- copies ---- */

static void test_nvbandwidth(void)
{
    const double bytes = 512 * MIB_BYTES;
    fixture("nvbandwidth_v08_a100.txt", NULL);
    expect_ok(IMPORT_NVBANDWIDTH, 27, 0);
    EXPECT_REAL(copy(COPY_H2D, false, 0, 1, 1, bytes)->seconds, bytes / 25.94e9, 1e-12);
    EXPECT_REAL(copy(COPY_D2H, false, 0, 2, 1, bytes)->seconds, bytes / 25.4e9, 1e-12);
    EXPECT_REAL(copy(COPY_BOTH, false, 0, 0, 1, bytes)->seconds, 2 * bytes / 37e9, 1e-12); /* 18.56 + 18.44 */
    EXPECT_REAL(copy(COPY_H2D, false, 0, 0, 4, bytes)->seconds, bytes / 13e9, 1e-12);
    EXPECT_REAL(copy(COPY_D2H, false, 0, 0, 4, bytes)->seconds, bytes / 12.75e9, 1e-12); /* the slowest */
    EXPECT_REAL(copy(COPY_BOTH, false, 0, 0, 4, bytes)->seconds, 2 * bytes / 17.25e9, 1e-12);
    /* reads: row 2, column 1 is from 1 to 2 */
    EXPECT_REAL(copy(COPY_PEER, false, 1, 2, 1, bytes)->seconds, bytes / 278.1e9, 1e-12);
    EXPECT_PART(result.notes.text, "not used: device_to_device_bidirectional_memcpy_read_ce, all_to_one_write_ce, "
                                   "host_device_latency_sm");
    EXPECT_PART(result.notes.text, "waived");
    EXPECT(strstr(result.notes.text, "was changed") == NULL);
    EXPECT_TEXT(points.items[0].source, "nvbandwidth v0.8 host_to_device_memcpy_ce, nvbandwidth_v08_a100.txt");
}

static void test_nvbandwidth_versions(void)
{
    fixture("nvbandwidth_v04_two_runs.txt", NULL);
    expect_ok(IMPORT_NVBANDWIDTH, 4, 0);
    const struct point *p = copy(COPY_H2D, false, 0, 1, 1, 1024 * MIB_BYTES); /* --bufferSize=1024; kernel copies */
    EXPECT_REAL(p->seconds, 1024 * MIB_BYTES / 35.25e9, 1e-12);
    EXPECT(p->in_doubt);
    EXPECT_REAL(copy(COPY_D2H, false, 0, 0, 1, 64 * MIB_BYTES)->seconds, 64 * MIB_BYTES / 55.1e9, 1e-12);
    fixture("nvbandwidth_paste_peer.txt", NULL); /* the test is named after its matrix */
    expect_ok(IMPORT_NVBANDWIDTH, 6, 0);
    EXPECT_REAL(copy(COPY_PEER, false, 0, 2, 1, 512 * MIB_BYTES)->seconds, 512 * MIB_BYTES / 21.82e9, 1e-12);
}

#define H2D     "Running host_to_device_memcpy_ce.\n"
#define HEADING "memcpy CE CPU(row) -> GPU(column) bandwidth (GB/s)\n"

static void test_nvbandwidth_spoiled(void)
{
    text(H2D);
    expect_bad(1, "has no matrix");
    text(H2D HEADING);
    expect_bad(2, "columns");
    text(H2D HEADING "  0  1\n");
    expect_bad(3, "no row");
    text(H2D HEADING "  0  1\n0  25.00\n");
    expect_bad(4, "row 0 of 1 values; expected row 0 of 2");
    text(H2D HEADING "  0  1\n0  25.00  2");
    expect_bad(4, "two decimals");
    text(H2D HEADING "  0  2\n0  25.00  25.00\n");
    expect_bad(3, "0 1 2");
    text(H2D HEADING "  0  1\n0  25.00  fast\n");
    expect_bad(4, "\"fast\" is no bandwidth");
    text(HEADING "  0  1\n0  25.00  25.00\n");
    expect_bad(1, "without");
    text("Running device_to_device_memcpy_read_ce.\nmemcpy CE GPU(row) -> GPU(column) bandwidth (GB/s)\n  0  1\n0  N/A "
         " 25.00\n");
    expect_bad(2, "cut short");
    text(H2D HEADING "  0  1\n0  25.00  25.00\nSUM host_to_device_memcpy_ce 60.00\n");
    expect_ok(IMPORT_NVBANDWIDTH, 2, 0);
    EXPECT_PART(result.notes.text, "the matrix was changed");
    text(H2D HEADING "  0\n0  25.00\nRunning host_to_device_bidirectional_memcpy_ce.\n" HEADING "  0\n0  18.00\n");
    expect_ok(IMPORT_NVBANDWIDTH, 1, 1); /* one direction of a pair says nothing */
    EXPECT_PART(result.notes.text, "belong together");
}

static void test_bandwidth_test(void)
{
    fixture("bandwidth_test_quick.txt", NULL);
    expect_ok(IMPORT_BANDWIDTH_TEST, 2, 1);
    EXPECT_REAL(copy(COPY_H2D, false, 0, 0, 1, 32e6)->seconds, 32e6 / 25.5e9, 1e-12);
    EXPECT_REAL(copy(COPY_D2H, false, 0, 0, 1, 32e6)->seconds, 32e6 / 25.0e9, 1e-12);
    fixture("bandwidth_test_old_range.txt", NULL);
    expect_ok(IMPORT_BANDWIDTH_TEST, 3, 0);
    EXPECT_REAL(copy(COPY_H2D, true, 0, 1, 1, 33554432)->seconds, 33554432 / (6000 * 1.024e6), 1e-12);
    EXPECT_REAL(copy(COPY_H2D, true, 0, 1, 1, 1024)->seconds, 4e-6, 1e-12);
    EXPECT_REAL(copy(COPY_D2H, false, 0, 0, 1, 33554432)->seconds, 33554432 / (12500 * 1.024e6), 1e-12);
    fixture("bandwidth_test.csv.txt", NULL);
    expect_ok(IMPORT_BANDWIDTH_TEST, 2, 1);
    EXPECT_REAL(copy(COPY_H2D, false, 0, 0, 1, 32e6)->seconds, 32e6 / 55.4e9, 1e-12);
    EXPECT_REAL(copy(COPY_D2H, true, 0, 0, 1, 32e6)->seconds, 32e6 / 12.5e9, 1e-12);
}

#define SECTION " Host to Device Bandwidth, 1 Device(s)\n PINNED Memory Transfers\n"
#define TABLE   "   Transfer Size (Bytes)\tBandwidth(GB/s)\n"

static void test_bandwidth_test_spoiled(void)
{
    text(SECTION TABLE);
    expect_bad(1, "cut short");
    text(SECTION TABLE "   32000000\t\t\t");
    expect_bad(4, "cut short");
    text(SECTION TABLE "   32000000\t\t\t25.");
    expect_bad(4, "not a row");
    text(SECTION "   Transfer Size (Bytes)\tBandwidth\n   32000000\t25.0\n");
    expect_bad(3, "unit");
    text(" Host to Device Bandwidth, 1 Device(s)\n" TABLE "   32000000\t25.0\n");
    expect_bad(2, "PINNED");
    text(" Host to Device Bandwidth, 0 Device(s)\n");
    expect_bad(1, "N Device(s)");
    text("bandwidthTest-H2D-Pinned, Bandwidth = 55.4 GB/s, Time = 0.00058 s, Size = 320000");
    expect_bad(1, "not a whole csv line");
    text(SECTION TABLE "   32000000\t\t\t0.0\n\n" SECTION TABLE "   64000000\t\t\t25.0\n");
    expect_ok(IMPORT_BANDWIDTH_TEST, 1, 1);
    text(SECTION TABLE "   64000000\t\t\t25.0\n\nResult = FAIL\n");
    expect_ok(IMPORT_BANDWIDTH_TEST, 1, 0);
    EXPECT_PART(result.notes.text, "line 6: the test says of itself that it failed");
}

/* ---- topology ---- */

/* The draft as a machine: what topo does not know comes from `base`. */
static bool machine_of_path(const char *path, const char *base, struct machine *machine)
{
    char out[64];
    snprintf(out, sizeof out, "/tmp/memwall_import_%d.json", (int)getpid());
    setup(base);
    also(path, NULL);
    if (status == STATUS_OK) {
        status = draft_write(draft, out, &error);
    }
    if (status == STATUS_OK) {
        status = machine_load(machine, out, &error);
    }
    (void)unlink(out);
    if (status != STATUS_OK) {
        char buffer[2048];
        TEST_FAIL_("%s: %s", path, error_text(&error, buffer, sizeof buffer));
    }
    return status == STATUS_OK;
}

static bool machine_of(const char *name, const char *base, struct machine *machine)
{
    char path[256];
    snprintf(path, sizeof path, "tests/import/%s", name);
    return machine_of_path(path, base, machine);
}

/* The link that joins two parts, or NULL. */
static const struct machine_link *link_of(const struct machine *machine, const char *a, const char *b)
{
    uint32_t from = machine_part_find(machine, a), to = machine_part_find(machine, b);
    for (uint32_t i = 0; i < machine->link_count; i++) {
        const struct machine_link *link = &machine->links[i];
        if ((link->a == from && link->b == to) || (link->a == to && link->b == from)) {
            return link;
        }
    }
    return NULL;
}

static const struct machine_part *part_named(const struct machine *machine, const char *id)
{
    static const struct machine_part none;
    uint32_t part = machine_part_find(machine, id);
    EXPECT(machine->parts != NULL && part < machine->part_count);
    return machine->parts != NULL && part < machine->part_count ? &machine->parts[part] : &none;
}

static double link_rate(const struct machine *machine, const char *a, const char *b)
{
    const struct machine_link *link = link_of(machine, a, b);
    return link == NULL ? 0 : link->bytes_per_s;
}

static void expect_counts(const struct machine *machine, uint32_t sockets, uint32_t switches, uint32_t gpus,
                          uint32_t nics, uint32_t nvswitches)
{
    EXPECT_INT(machine_part_kind_count(machine, PART_CPU), sockets);
    EXPECT_INT(machine_part_kind_count(machine, PART_DRAM), sockets);
    EXPECT_INT(machine_part_kind_count(machine, PART_PCIE_SWITCH), switches);
    EXPECT_INT(machine_part_kind_count(machine, PART_GPU), gpus);
    EXPECT_INT(machine_part_kind_count(machine, PART_NIC), nics);
    EXPECT_INT(machine_part_kind_count(machine, PART_NVSWITCH), nvswitches);
}

static void test_topology_dgx_a100(void)
{
    struct machine machine = { 0 };
    if (!machine_of("topo_dgx_a100.txt", "dgx-a100-80gb", &machine)) {
        return;
    }
    EXPECT_INT(result.format, IMPORT_TOPOLOGY);
    EXPECT_PART(result.notes.text, "NIC8 shares no PCIe switch with a GPU");
    EXPECT_PART(result.notes.text, "replaced");
    expect_counts(&machine, 4, 5, 8, 10, 1); /* four NUMA nodes with GPUs; the storage card is a switch of its own */
    EXPECT(link_of(&machine, "plx1", "gpu2") != NULL && link_of(&machine, "plx1", "gpu3") != NULL);
    EXPECT(link_of(&machine, "plx1", "nic2") != NULL && link_of(&machine, "plx1", "nic3") != NULL);
    const struct machine_link *nvlink = link_of(&machine, "gpu5", "nvswitch");
    EXPECT(nvlink != NULL && nvlink->lanes == 12);
    EXPECT_REAL(nvlink == NULL ? 0 : nvlink->bytes_per_s, 276e9, 1e-12); /* facts C.2 */
    EXPECT(!part_named(&machine, "nic9")->compute_fabric);
    EXPECT(part_named(&machine, "nic0")->compute_fabric);
    EXPECT_INT(part_named(&machine, "cpu3")->cores, 16);
    const struct machine_source *source = machine_source_of(&machine, "links.pcie.GBps");
    EXPECT(source != NULL && source->estimated);
    source = machine_source_of(&machine, "parts.gpu");
    EXPECT(source != NULL && !source->estimated);
    machine_free(&machine);
}

static void test_topology_dgx1(void)
{
    struct machine machine = { 0 }, library = { 0 };
    if (!machine_of("topo_dgx1_old.txt", "dgx1-v100-32gb", &machine)) {
        return;
    }
    EXPECT_INT(machine_load(&library, "dgx1-v100-32gb", &error), STATUS_OK);
    expect_counts(&machine, 2, 4, 8, 4, 0);
    for (uint32_t i = 0; i < 8; i++) { /* the same cube mesh as the library's */
        for (uint32_t j = 0; j < i; j++) {
            char a[16], b[16];
            snprintf(a, sizeof a, "gpu%u", i);
            snprintf(b, sizeof b, "gpu%u", j);
            const struct machine_link *ours = link_of(&machine, a, b), *theirs = link_of(&library, a, b);
            EXPECT_INT(ours == NULL ? 0 : ours->lanes, theirs == NULL ? 0 : theirs->lanes);
            EXPECT_REAL(ours == NULL ? 1 : ours->bytes_per_s, theirs == NULL ? 1 : theirs->bytes_per_s, 0.005);
        }
    }
    EXPECT(link_of(&machine, "cpu0", "plx1") != NULL && link_of(&machine, "cpu1", "plx2") != NULL);
    EXPECT_REAL(link_rate(&machine, "plx3", "gpu7"), 12.2e9, 1e-12);
    EXPECT_INT(machine.curve_count, library.curve_count); /* as many GPUs as before: its curves stay */
    machine_free(&machine);
    machine_free(&library);
}

static void test_topology_others(void)
{
    struct machine machine = { 0 };
    if (machine_of("topo_dgx2.txt", "dgx2-v100", &machine)) {
        expect_counts(&machine, 2, 12, 16, 8, 1); /* four root ports, eight leaf switches */
        EXPECT(link_of(&machine, "cpu0", "plx0") != NULL && link_of(&machine, "plx0", "plx2") != NULL);
        EXPECT(link_of(&machine, "plx2", "gpu3") != NULL && link_of(&machine, "plx2", "nic1") != NULL);
        EXPECT_REAL(link_rate(&machine, "gpu15", "nvswitch"), 6 * 24.2e9, 1e-12);
        machine_free(&machine);
    }
    if (machine_of("topo_h100.txt", "dgx-h100", &machine)) {
        expect_counts(&machine, 2, 8, 8, 8, 1);
        EXPECT_PART(result.notes.text, "by the GPU's name");
        EXPECT_REAL(link_rate(&machine, "plx0", "gpu0"), 55.4e9, 1e-12);
        EXPECT_INT(part_named(&machine, "cpu1")->cores, 56);
        machine_free(&machine);
    }
    if (machine_of("topo_two_gpus.txt", "dgx-a100-80gb", &machine)) {
        expect_counts(&machine, 1, 0, 2, 0, 0);
        EXPECT_INT(machine.curve_count, 0);
        EXPECT_PART(result.notes.text, "curves that it had are dropped");
        machine_free(&machine);
    }
}

static void test_topology_rates_from_copies(void)
{
    struct strbuf out = { 0 };
    setup("dgx-a100-80gb");
    also("tests/import/nvbandwidth_v08_a100.txt", NULL);
    also("tests/import/topo_dgx_a100.txt", NULL);
    EXPECT_INT(status, STATUS_OK);
    EXPECT_INT(points.count, 27);
    EXPECT_INT(draft_print(draft, &out, &error), STATUS_OK);
    EXPECT_PART(out.text, "\"GBps\": 26.03, \"back_GBps\": 25.5, \"peak_GBps\": 31.5, \"both_GBps\": 37");
    EXPECT_PART(out.text, "\"GBps\": 279.2, \"peak_GBps\": 300");
    strbuf_free(&out);
}

/* A topology as text, on the DGX A100. */
static bool machine_of_text(const char *table, struct machine *machine)
{
    char path[64];
    snprintf(path, sizeof path, "/tmp/memwall_import_%d_topo.txt", (int)getpid());
    EXPECT_INT(file_write(path, table, strlen(table), &error), STATUS_OK);
    bool good = machine_of_path(path, "dgx-a100-80gb", machine);
    (void)unlink(path);
    return good;
}

/* What the affinities say of sockets, and what they do not. */
static void test_topology_affinities(void)
{
    struct machine machine = { 0 };
    /* interleaved CPUs, of which nvidia-smi prints six: which socket, but not how many cores it has */
    if (machine_of_text("\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\n"
                        "GPU0\t X \tSYS\t0,2,4,6,8,10\t0\t\tN/A\nGPU1\tSYS\t X \t1,3,5,7,9,11\t1\t\tN/A\n",
                        &machine)) {
        expect_counts(&machine, 2, 0, 2, 0, 0);
        EXPECT_INT(part_named(&machine, "cpu1")->cores, 32);
        machine_free(&machine);
    }
    /* none at all, NVLinks between all: no eight sockets */
    if (machine_of_text("\tGPU0\tGPU1\tGPU2\tGPU3\nGPU0\t X \tNV18\tNV18\tNV18\nGPU1\tNV18\t X \tNV18\tNV18\n"
                        "GPU2\tNV18\tNV18\t X \tNV18\nGPU3\tNV18\tNV18\tNV18\t X \n",
                        &machine)) {
        expect_counts(&machine, 1, 0, 4, 0, 1);
        EXPECT_PART(result.notes.text, "4 GPUs have no CPU or NUMA affinity");
        machine_free(&machine);
    }
    /* a list of nodes and the same CPUs; a job without CPUs near the first two, whose node stands alone in its row */
    if (machine_of_text("\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\n"
                        "GPU0\t X \tNV4\t0-63\t0-1\t\tN/A\nGPU1\tNV4\t X \t0-63\t0-1\t\tN/A\n",
                        &machine)) {
        expect_counts(&machine, 1, 0, 2, 0, 0);
        EXPECT_INT(part_named(&machine, "cpu0")->cores, 64);
        machine_free(&machine);
    }
    if (machine_of_text("\tGPU0\tGPU1\tGPU2\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\n"
                        "GPU0\t X \tNV4\tNV4\t\t0\t\tN/A\nGPU1\tNV4\t X \tNV4\t\t0\t\tN/A\n"
                        "GPU2\tNV4\tNV4\t X \t56-63\t1\t\tN/A\n",
                        &machine)) {
        expect_counts(&machine, 2, 0, 3, 0, 0);
        EXPECT_INT(part_named(&machine, "cpu0")->cores, 32);
        EXPECT_INT(part_named(&machine, "cpu1")->cores, 8);
        machine_free(&machine);
    }
}

static void test_topology_spoiled(void)
{
    text("\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tNV4\t0-7\n");
    expect_bad(2, "before the row of GPU1");
    text("\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tNV4\t0-7\nGPU1\tNV4\n");
    expect_bad(3, "cut short");
    text("\tGPU0\tGPU1\nGPU0\t X \tNV4\nGPU1\tSYS\t X \n");
    expect_bad(3, "symmetric");
    text("\tGPU0\tGPU1\nGPU0\t X \tFAR\nGPU1\tFAR\t X \n");
    expect_bad(2, "\"FAR\"");
    text("\tGPU0\tGPU1\nGPU1\t X \tSYS\n");
    expect_bad(2, "expected the row of GPU0");
    text("\tGPU0\tGPU1\nGPU0\tSYS\tSYS\nGPU1\tSYS\t X \n");
    expect_bad(2, "cannot be");
    text("\tGPU0\tNIC0\nGPU0\t X \tNV4\nNIC0\tNV4\t X \n");
    expect_bad(2, "cannot be");
    text("\tGPU0\tGPU1\nGPU0\t X \tNV99\nGPU1\tNV99\t X \n");
    expect_bad(2, "NV99");
    text("\tGPU0\tbnxt_re0\tCPU Affinity\nGPU0\t X \tPHB\t0-7\nbnxt_re0\tPHB\t X \n\tGPU0\tCPU Affinity\nGPU0\t X "
         "\t0-7\n");
    expect_ok(IMPORT_TOPOLOGY, 0, 0);
    EXPECT_PART(result.notes.text, "line 4: another table");
}

/* ---- tables ---- */

/* The load of each row since the board rested, from the order of the rows: after a head a configuration is done, sorted rows follow each other. */
static void test_loads_of_a_table(void)
{
    static const char HEADER[] = "system,op,peak_tflops,shape_key,efficiency\n";
    struct strbuf table = { 0 };
    struct kernel_row rows[64];
    size_t count = 0;
    char path[64];
    strbuf_printf(&table, "%s", HEADER);
    static const uint32_t widths[] = { 4096, 128256, 8192, 64128,
                                       2048 }; /* a projection, a head, and again; a projection */
    for (size_t i = 0; i < 5; i++) {
        strbuf_printf(&table,
                      "box,matmul,200,\"b=1, m=5000, k=1000, n=%u, layout=TN, accumulate=False, out_dtype=bf16\",0.4\n",
                      widths[i]);
    }
    for (unsigned i = 0; i < 20; i++) { /* in the order of their names, a head among them */
        strbuf_printf(
            &table, "box,matmul,200,\"b=1, m=20%02u, k=1000, n=%u, layout=TN, accumulate=False, out_dtype=bf16\",0.4\n",
            i, i == 5 ? 128256 : 1000);
    }
    (void)snprintf(path, sizeof path, "/tmp/memwall_import_%d.csv", (int)getpid());
    EXPECT_INT(file_write(path, table.text, table.length, &error), STATUS_OK);
    EXPECT_INT(kernel_rows_measured(path, "box", KERNEL_GEMM, DTYPE_BF16, 0, rows, 64, &count, &error), STATUS_OK);
    EXPECT_INT(count, 25);
    /* 100 launches of 2 * 5000 * 1000 * n at half of 200 TFLOP/s: 10 us for each of n. */
    double first = 4096 * 1e-5, head = 128256 * 1e-5;
    EXPECT_REAL(rows[0].load.from_s, first / 4, 1e-12);
    EXPECT_REAL(rows[0].load.to_s, first, 1e-12);
    EXPECT_REAL(rows[1].load.from_s, first + head / 4, 1e-12);
    EXPECT_REAL(rows[1].load.to_s, first + head, 1e-12);
    EXPECT_REAL(rows[2].load.from_s, 8192 * 1e-5 / 4, 1e-12);
    EXPECT_REAL(rows[4].load.to_s, 2048 * 1e-5, 1e-12);
    double before = 0;
    for (unsigned i = 0; i < 20; i++) {
        before += 100 * rows[5 + i].kernel.flops / 100e12;
        EXPECT_REAL(rows[5 + i].load.to_s, before, 1e-12);
    }
    strbuf_free(&table);
    (void)unlink(path);
}

static void test_tables(void)
{
    fixture("kernel_table.csv", NULL);
    expect_bad(0, "a100_pcie; b200");
    fixture("kernel_table.csv", "h100");
    expect_bad(0, "no rows of \"h100\"");
    fixture("kernel_table.csv", "a100_pcie");
    expect_ok(IMPORT_KERNEL_CSV, 4, 2);
    EXPECT_REAL(points.items[0].seconds, 2 * 4096.0 * 4096 * 4096 / (0.75 * 312e12) - KERNEL_ROWS_LAUNCH_GAP_S, 1e-12);
    EXPECT_INT(points.items[1].kernel.flags, KERNEL_FLAG_ACCUMULATE);
    EXPECT_INT(points.items[3].kernel.kernel_class, KERNEL_ATTENTION_BACKWARD);
    fixture("all_reduce_table.csv", "a100");
    expect_ok(IMPORT_ALL_REDUCE_CSV, 2, 1);
    EXPECT_REAL(collective(COLLECTIVE_ALL_REDUCE, 8, 1, 1073741824)->seconds, 8192e-6, 1e-12);
    fixture("links_table.csv", NULL);
    expect_bad(0, "HGX H100 SXM");
    fixture("links_table.csv", "a100");
    expect_ok(IMPORT_LINKS_CSV, 5, 4);
    EXPECT_REAL(copy(COPY_BOTH, false, 0, 0, 1, 64 * MIB_BYTES)->seconds, 2 * 64 * MIB_BYTES / 36.5e9, 1e-12);
    EXPECT(copy(COPY_D2H, true, 0, 0, 1, 33554432)->in_doubt);
    EXPECT_REAL(collective(COLLECTIVE_ALL_REDUCE, 24, 3, 134217728)->seconds, 1300.5e-6, 1e-12);
    EXPECT_REAL(collective(COLLECTIVE_ALL_REDUCE, 8, 1, 1073741824)->seconds, 1073741824 * 1.75 / 200e9, 1e-12);
    fixture("links_table.csv", "HGX");
    expect_ok(IMPORT_LINKS_CSV, 1, 8);
    EXPECT_REAL(copy(COPY_PEER, false, 0, 1, 1, 4e7)->seconds, 4e7 / 380e9, 1e-12);
}

#define ALL_REDUCE "gpu,ranks,size_bytes,out_of_place_us,out_of_place_busbw_GBps,in_place_us,in_place_busbw_GBps\n"
#define KERNELS    "system,op,peak_tflops,shape_key,efficiency\n"
#define LINKS      "id,source,verified,hardware,op,direction,memory_kind,ranks,size_bytes,value,unit,notes\n"

static void test_tables_spoiled(void)
{
    text(ALL_REDUCE "a100,2,1048576,44.0,23.83,45.0");
    expect_bad(2, "6 fields, expected 7");
    text(ALL_REDUCE "a100,2,1048576,44.0,99.0,45.0,23.30\n");
    expect_bad(2, "give 23.83");
    text(ALL_REDUCE "\"a100\",2,\"1048576\",44.0,23.83,45.0,23.30\n"); /* as spreadsheets save it */
    expect_ok(IMPORT_ALL_REDUCE_CSV, 1, 0);
    text(ALL_REDUCE "a100,2,many,44.0,23.83,45.0,23.30\n");
    expect_bad(2, "size_bytes is \"many\"");
    text(KERNELS "a,matmul,312,\"b=1, m=4096, k=4096, n=none, layout=TN\",0.5\n");
    expect_bad(2, "is no shape of matmul");
    text(KERNELS "a,matmul,312,\"b=1, m=4096, k=4096, n=4096, layout=TN\",-1\n");
    expect_bad(2, "efficiency is \"-1\"");
    text(KERNELS "a,matmul,312,\"b=1, m=4096, k=40");
    expect_bad(2, "quoted field without its end");
    text(LINKS "x,y,yes,A100,memcpy_ce,H2D,pinned,1,,25.0,GB/s\n");
    expect_bad(2, "11 fields, expected 12");
    text(LINKS "x,y,yes,A100,memcpy_ce,H2D,pinned,1,,25-26,GB/s,\n");
    expect_bad(0, "none of the 1 rows");
}

static void test_points_file(void)
{
    char path[64];
    snprintf(path, sizeof path, "/tmp/memwall_import_%d.points", (int)getpid());
    FILE *file = fopen(path, "w");
    struct point point = { .kind = POINT_COPY, .way = COPY_D2H, .to = 3, .at_once = 1, .bytes = 4096, .seconds = 1e-6 };
    EXPECT(file != NULL);
    EXPECT_INT(points_begin(file, "box", "host", &error), STATUS_OK);
    EXPECT_INT(points_write(file, &point, &error), STATUS_OK);
    (void)fclose(file);
    setup(NULL);
    also(path, NULL);
    expect_ok(IMPORT_POINTS, 1, 0);
    EXPECT_PART(result.notes.text, "1 points of \"box\"");
    EXPECT_REAL(copy(COPY_D2H, false, 0, 3, 1, 4096)->seconds, 1e-6, 1e-12);
    (void)unlink(path);
}

/* ---- any file ---- */

static void test_any_text(void)
{
    static const char nul[] = SECTION TABLE "   32000000\t\0\t25.0\n";
    text("");
    expect_bad(0, "no known format");
    text("hello\n");
    expect_bad(0, "no known format");
    text_named(nul, sizeof nul - 1, "nul.txt");
    expect_bad(4, "NUL");
    text_named("\xff\xfe"
               "G\0",
               4, "utf16.txt");
    expect_bad(1, "UTF-16");
    text("\xef\xbb\xbf" SECTION "   Transfer Size (Bytes)\tBandwidth(GB/s)\r\n   32000000\t\t\t25.0\r\n");
    expect_ok(IMPORT_BANDWIDTH_TEST, 1, 0);
    char *longest = malloc(70000);
    memset(longest, 'x', 70000);
    longest[69998] = '\n';
    longest[69999] = '\0';
    text(longest);
    expect_bad(1, "a line of 69998 bytes");
    free(longest);
    setup(NULL);
    also("tests/import/no_such_file", NULL);
    EXPECT_INT(status, STATUS_NOT_FOUND);
    /* two formats in one paste: the first is read, the other named */
    text(SECTION TABLE "   32000000\t\t\t25.0\n\n\tGPU0\tGPU1\nGPU0\t X \tSYS\nGPU1\tSYS\t X \n");
    expect_ok(IMPORT_BANDWIDTH_TEST, 1, 0);
    EXPECT_PART(result.notes.text, "also holds output of topo");
}

/* Every fixture cut after every byte is read, or refused with a message, and leaves nothing behind when refused. */
static void test_every_cut(void)
{
    static const char *const names[] = { "nccl_old_all_gather_v100.log",
                                         "nvbandwidth_v04_two_runs.txt",
                                         "bandwidth_test_old_range.txt",
                                         "topo_two_gpus.txt",
                                         "all_reduce_table.csv",
                                         "kernel_table.csv",
                                         "links_table.csv" };
    for (size_t n = 0; n < sizeof names / sizeof names[0]; n++) {
        char path[256], cut_path[256];
        char *whole;
        size_t length;
        snprintf(path, sizeof path, "tests/import/%s", names[n]);
        snprintf(cut_path, sizeof cut_path, "/tmp/memwall_import_%d_%s", (int)getpid(), names[n]);
        EXPECT_INT(file_read(path, 1 << 20, &whole, &length, NULL), STATUS_OK);
        for (size_t cut = 0; cut < length; cut += 1 + cut / 64) {
            FILE *file = fopen(cut_path, "wb");
            (void)fwrite(whole, 1, cut, file);
            (void)fclose(file);
            setup(NULL);
            also(cut_path, NULL);
            EXPECT(status == STATUS_OK || (error.message[0] != '\0' && points.count == 0));
        }
        (void)unlink(cut_path);
        free(whole);
    }
}

/* ---- the shared tables ---- */

static void test_shared_tables(void)
{
    static const struct {
        const char *name, *system;
        uint32_t points, skipped;
    } tables[] = {
        { "simumax_measured_kernel_efficiency.csv", "a100_pcie", 183 + 12 + 12, 12 + 514 + 108 + 64 },
        { "simumax_measured_kernel_efficiency.csv", "b200_bf16_ceperm", 514 + 32 + 32, 108 + 183 + 36 },
        { "vtrain_nccl_allreduce_lut.csv", "a100", 7 * 1024, 7 * 1024 },
        { "vtrain_nccl_allreduce_lut.csv", "v100", 7 * 1024, 7 * 1024 },
        { "links_and_collectives.csv", "Mooncake", 0, 0 },
        { "links_and_collectives.csv", "P100-PCIE-16GB", 4, 0 },
    };
    const char *root = getenv("MEMWALL_SHARED");
    for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++) {
        char path[512];
        snprintf(path, sizeof path, "%s/data/measured/%s", root == NULL ? "../shared" : root, tables[i].name);
        if (!file_exists(path)) {
            printf("%s: not here, passed over\n", path);
            continue;
        }
        setup(NULL);
        also(path, tables[i].system);
        if (tables[i].points == 0) {
            EXPECT_INT(status, STATUS_BAD_INPUT); /* no such hardware */
        } else {
            EXPECT_INT(status, STATUS_OK);
            EXPECT_INT(result.points, tables[i].points);
            EXPECT(tables[i].skipped == 0 || result.skipped == tables[i].skipped);
        }
    }
}

static void test_end(void)
{
    points_free(&points);
    draft_free(draft);
    import_result_free(&result);
}

TEST_MAIN(TEST(test_nccl_new_columns), TEST(test_nccl_old_columns), TEST(test_nccl_two_nodes),
          TEST(test_nccl_several_runs), TEST(test_nccl_names_and_ranks), TEST(test_nccl_rows), TEST(test_nvbandwidth),
          TEST(test_nvbandwidth_versions), TEST(test_nvbandwidth_spoiled), TEST(test_bandwidth_test),
          TEST(test_bandwidth_test_spoiled), TEST(test_topology_dgx_a100), TEST(test_topology_dgx1),
          TEST(test_topology_others), TEST(test_topology_rates_from_copies), TEST(test_topology_affinities),
          TEST(test_topology_spoiled), TEST(test_loads_of_a_table), TEST(test_tables), TEST(test_tables_spoiled),
          TEST(test_points_file), TEST(test_any_text), TEST(test_every_cut), TEST(test_shared_tables), TEST(test_end))
