/* Collectives against measurements (shared data, read only here): one table, one line a set, with the thresholds that hold.
 *
 *   A100 all-reduce   vTrain's NCCL table, every MiB up to 1 GiB, 2-8 ranks. The machine file's curves are fitted to four fifths of it (validate/published/calibrate.sh); "sizes left out" is
 *                     the rest (fit_is_left_out); "held out" rows use only its 2-, 4- and 8-rank curves for 3, 5, 6, 7 ranks. "no curve": closed form alone.
 *   V100 all-reduce   the same on a DGX-1: every rank count with all curves taken away but the 8-rank one (if any): what the topology says
 *   SimAI             measured share of line rate, all-gather over 1 to 128 servers of 8 GPUs with a 400 Gb/s NIC each (48.5 GB/s usable)
 *   figures           single rows of links_and_collectives.csv
 *   Galvatron         two servers of eight: strided groups share NICs */
#include "hw_models/cluster.h"
#include "hw_models/machine.h"
#include "sim/base/units.h"
#include "sim/engine/collective_cost.h"
#include "validate/fit/fit.h"
#include "../test.h"

struct score {
    double sum, worst, worst_bytes;
    uint32_t rows;
};

static const char *shared_path(const char *name)
{
    static char path[512];
    const char *root = getenv("MEMWALL_SHARED");
    snprintf(path, sizeof path, "%s/data/measured/%s", root != NULL ? root : "../shared", name);
    return path;
}

static void score_add(struct score *score, double simulated, double measured, double bytes)
{
    double error = fabs(simulated / measured - 1);
    score->sum += error;
    score->rows++;
    if (error > score->worst) {
        score->worst = error;
        score->worst_bytes = bytes;
    }
}

static void score_print(const char *set, const struct score *score, double mean_limit)
{
    printf("  %-58s %6u rows  mean %6.2f %%  max %6.2f %% at %.0f KiB\n", set, score->rows,
           100 * score->sum / score->rows, 100 * score->worst, score->worst_bytes / 1024);
    EXPECT(score->rows > 0);
    EXPECT(score->sum / score->rows <= mean_limit);
}

static double cost_s(const struct cluster *cluster, enum collective_kind kind, double bytes, const uint32_t *members,
                     uint32_t count, uint32_t instances)
{
    static struct resource_use uses[65536];
    struct collective_cost cost;
    struct error error;
    struct collective_request request = { kind, bytes, members, count, instances, true };
    enum status status = collective_cost(cluster, &request, uses, 65536, &cost, &error);
    if (status != STATUS_OK) {
        printf("%s\n", error.message);
    }
    EXPECT_INT(status, STATUS_OK);
    return cost.alone_s;
}

/* Keep only all-reduce curves of these rank counts (bit r: r ranks). */
static void keep_curves(struct machine *machine, uint32_t ranks)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < machine->curve_count; i++) {
        if (machine->curves[i].ranks < 32 && (ranks >> machine->curves[i].ranks & 1u) != 0) {
            machine->curves[kept++] = machine->curves[i];
        }
    }
    machine->curve_count = kept;
}

static bool load(struct machine *machine, const char *name)
{
    struct error error;
    char text[2048];
    enum status status = machine_load(machine, name, &error);
    EXPECT_INT(status, STATUS_OK);
    if (status != STATUS_OK) {
        printf("%s\n", error_text(&error, text, sizeof text));
    }
    return status == STATUS_OK;
}

/* Whether the fit of the machine file's curves left this row out. */
static bool is_left_out(unsigned ranks, double bytes)
{
    const struct point point = {
        .kind = POINT_COLLECTIVE, .collective = COLLECTIVE_ALL_REDUCE, .ranks = ranks, .nodes = 1, .bytes = bytes
    };
    return fit_is_left_out(&point);
}

static bool read_table(const struct cluster *cluster, const char *gpu, bool only_left_out, struct score scores[9])
{
    static const uint32_t MEMBERS[8] = { 0, 1, 2, 3, 4, 5, 6, 7 };
    FILE *file = fopen(shared_path("vtrain_nccl_allreduce_lut.csv"), "r");
    char line[256], name[16];
    memset(scores, 0, 9 * sizeof *scores);
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        unsigned ranks = 0;
        double bytes = 0, us = 0;
        if (sscanf(line, "%15[^,],%u,%lf,%lf", name, &ranks, &bytes, &us) != 4 || strcmp(name, gpu) != 0 || ranks < 2 ||
            ranks > 8) {
            continue;
        }
        if (only_left_out && !is_left_out(ranks, bytes)) {
            continue;
        }
        score_add(&scores[ranks], cost_s(cluster, COLLECTIVE_ALL_REDUCE, bytes, MEMBERS, ranks, 1), us * 1e-6, bytes);
    }
    if (file != NULL) {
        fclose(file);
    }
    return file != NULL;
}

static struct score merged(const struct score scores[9], uint32_t ranks)
{
    struct score all = { 0 };
    for (uint32_t r = 0; r < 9; r++) {
        if ((ranks >> r & 1u) == 0) {
            continue;
        }
        all.sum += scores[r].sum;
        all.rows += scores[r].rows;
        if (scores[r].worst > all.worst) {
            all.worst = scores[r].worst;
            all.worst_bytes = scores[r].worst_bytes;
        }
    }
    return all;
}

static void table_case(const char *machine_name, const char *gpu, uint32_t curves, uint32_t rows, bool only_left_out,
                       const char *set, double mean_limit)
{
    struct machine machine;
    struct cluster cluster;
    struct score scores[9], all;
    struct error error;
    if (!load(&machine, machine_name)) {
        return;
    }
    keep_curves(&machine, curves);
    EXPECT_INT(cluster_build(&cluster, &machine, 1, 0, &error), STATUS_OK);
    read_table(&cluster, gpu, only_left_out, scores);
    all = merged(scores, rows);
    score_print(set, &all, mean_limit);
    if (getenv("MEMWALL_VERBOSE") != NULL) {
        for (uint32_t r = 2; r < 9; r++) {
            printf("      %u ranks: mean %.2f %%, max %.2f %% at %.0f MiB\n", r, 100 * scores[r].sum / scores[r].rows,
                   100 * scores[r].worst, scores[r].worst_bytes / MIB);
        }
    }
    cluster_free(&cluster);
    machine_free(&machine);
}

static void test_a100(void)
{
    const uint32_t ALL = 0x1fc, POWERS = 1u << 2 | 1u << 4 | 1u << 8;
    table_case("dgx-a100-80gb", "a100", 0xffffffff, ALL, false, "A100 all-reduce, 2-8 ranks", 0.015);
    table_case("dgx-a100-80gb", "a100", 0xffffffff, ALL, true, "A100 all-reduce, 2-8 ranks, sizes left out", 0.015);
    table_case("dgx-a100-80gb", "a100", POWERS, ALL & ~POWERS, false, "A100 all-reduce, 3, 5, 6, 7 ranks held out",
               0.015);
    table_case("dgx-a100-80gb", "a100", 1u << 8, ALL & ~(1u << 8), false,
               "A100 all-reduce, 2-7 ranks from the 8-rank curve", 0.07);
    table_case("dgx-a100-80gb", "a100", 0, ALL, false, "A100 all-reduce, 2-8 ranks, no curve", 0.07);
}

static void test_v100(void)
{
    const uint32_t ALL = 0x1fc;
    table_case("dgx1-v100-32gb", "v100", 0xffffffff, ALL, false, "V100 DGX-1 all-reduce, 2-8 ranks", 0.01);
    table_case("dgx1-v100-32gb", "v100", 0xffffffff, ALL, true, "V100 DGX-1 all-reduce, 2-8 ranks, sizes left out",
               0.01);
    table_case("dgx1-v100-32gb", "v100", 1u << 8, ALL & ~(1u << 8), false,
               "V100 DGX-1 all-reduce, 2-7 ranks from the 8-rank curve", 0.04);
    table_case("dgx1-v100-32gb", "v100", 0, ALL, false, "V100 DGX-1 all-reduce, 2-8 ranks, no curve", 0.04);
}

/* Rows "table,bytes,columnNode-...(NIC),ratio": ring all-gather, all GPUs of all servers. Ratio of 8 NICs of 48.5 GB/s. */
static void simai_case(uint32_t nodes, const char *column, double mean_limit)
{
    struct machine machine;
    struct cluster cluster;
    struct error error;
    struct score score = { 0 };
    uint32_t *members = calloc(nodes * 8, sizeof *members);
    char line[256], table[16], name[64], set[80];
    if (!load(&machine, "dgx-h100")) {
        free(members);
        return;
    }
    FILE *file = fopen(shared_path("simai_busbw_ratio.csv"), "r");
    EXPECT_INT(cluster_build(&cluster, &machine, nodes, 0, &error), STATUS_OK);
    for (uint32_t i = 0; i < nodes * 8; i++) {
        members[i] = i;
    }
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        double bytes = 0, ratio = 0;
        if (sscanf(line, "%15[^,],%lf,%63[^,],%lf", table, &bytes, name, &ratio) == 4 && strcmp(table, "nic") == 0 &&
            strncmp(name, column, strlen(column)) == 0) {
            double measured_s = bytes * (nodes * 8.0 - 1) / (nodes * 8.0) / (ratio * 8 * 48.5e9);
            score_add(&score, cost_s(&cluster, COLLECTIVE_ALL_GATHER, bytes, members, nodes * 8, 1), measured_s, bytes);
            if (getenv("MEMWALL_VERBOSE") != NULL) {
                printf("      %s %.0f MiB: %.0f us, measured %.0f us\n", name, bytes / MIB,
                       1e6 * cost_s(&cluster, COLLECTIVE_ALL_GATHER, bytes, members, nodes * 8, 1), 1e6 * measured_s);
            }
        }
    }
    if (file != NULL) {
        fclose(file);
    }
    snprintf(set, sizeof set, "SimAI all-gather, %s GPUs", column);
    score_print(set, &score, mean_limit);
    free(members);
    cluster_free(&cluster);
    machine_free(&machine);
}

static void test_simai(void)
{
    simai_case(2, "2Node-16", 0.05);
    simai_case(4, "4Node-32", 0.06);
    simai_case(8, "8Node-64", 0.07);
    simai_case(16, "16Node-128", 0.13);
    simai_case(32, "32Node-256", 0.14);
    simai_case(64, "64Node-512", 0.13);
    simai_case(128, "128Node-1024", 0.18);
}

/* Single figures of links_and_collectives.csv: rows whose id begins with `id`, all-reduce over eight GPUs or one copy between `from` and `to`. */
static void figure_case(const char *machine_name, const char *id, bool all_reduce, struct endpoint from,
                        struct endpoint to, double mean_limit)
{
    static const uint32_t MEMBERS[8] = { 0, 1, 2, 3, 4, 5, 6, 7 };
    struct machine machine;
    struct cluster cluster;
    struct error error;
    struct score score = { 0 };
    char line[512], set[80];
    if (!load(&machine, machine_name)) {
        return;
    }
    FILE *file = fopen(shared_path("links_and_collectives.csv"), "r");
    EXPECT_INT(cluster_build(&cluster, &machine, 1, 0, &error), STATUS_OK);
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        double bytes = 0, rate = 0;
        const char *gpus = strstr(line, all_reduce ? ",device,8," : ",GB/s,");
        if (strncmp(line, id, strlen(id)) != 0 || gpus == NULL) {
            continue;
        }
        if (all_reduce && sscanf(gpus, ",device,8,%lf,%lf", &bytes, &rate) == 2) {
            score_add(&score, cost_s(&cluster, COLLECTIVE_ALL_REDUCE, bytes, MEMBERS, 8, 1),
                      bytes * 1.75 / (rate * 1e9), bytes);
        } else if (!all_reduce) {
            while (gpus > line && gpus[-1] != ',') {
                gpus--;
            }
            struct route route;
            EXPECT_INT(cluster_route(&cluster, from, to, false, &route, &error), STATUS_OK);
            score_add(&score, route.rate_cap_bytes_per_s, strtod(gpus, NULL) * 1e9, 0);
        }
    }
    if (file != NULL) {
        fclose(file);
    }
    snprintf(set, sizeof set, "%s on %s", id, machine_name);
    score_print(set, &score, mean_limit);
    cluster_free(&cluster);
    machine_free(&machine);
}

static void test_figures(void)
{
    struct endpoint host = { ENDPOINT_HOST, 0 }, first = { ENDPOINT_GPU, 0 }, second = { ENDPOINT_GPU, 1 };
    figure_case("dgx-a100-80gb", "nvb11_h2d,", false, host, first, 0.03);
    figure_case("dgx-a100-80gb", "nvb11_d2h,", false, first, host, 0.03);
    figure_case("dgx-h100", "h100_p2p_uni", false, first, second, 0.03);
    figure_case("dgx-a100-80gb", "a100_ar8", true, host, first, 0.15); /* another maker's board: 200 of 229 GB/s */
    figure_case("dgx-h100", "h100_ar8_nvls", true, host, first, 0.02);
    figure_case(
        "dgx-h100", "mooncake_ar8", true, host, first,
        0.60); /* for information: GPU not named; the curve in the machine file (Azure VM) itself takes 33 us at 32 KiB, this box 19 */
}

/* Measured once for the whole buffer; the all-reduce tests of 2023 and 2024 differ by half for size 8. Only the shape is judged: node totals. */
static void test_galvatron(void)
{
    static const uint32_t SIZES[4] = { 2, 4, 8, 16 };
    static const double MEASURED_2023[4] = { 8.13007, 16.22, 20.7724, 44.682 },
                        MEASURED_2024[4] = { 9.28218, 19.2516, 32.111, 45.6885 };
    struct machine machine;
    struct cluster cluster;
    struct error error;
    double bus[4];
    if (!load(&machine, "dgx-a100-80gb")) {
        return;
    }
    for (uint32_t i = 0; i < machine.part_count;
         i++) { /* NICs such that a strided pair gets what was measured: 8 x 8.13 = 65 GB/s a server */
        machine.parts[i].line_bytes_per_s *=
            machine.parts[i].compute_fabric ? 8.13007e9 / (machine.network_efficiency * 25e9) : 1;
    }
    EXPECT_INT(cluster_build(&cluster, &machine, 2, 0, &error), STATUS_OK);
    for (uint32_t s = 0; s < 4; s++) {
        uint32_t size = SIZES[s], groups = 16 / size, members[16];
        for (uint32_t g = 0; g < groups; g++) {
            for (uint32_t i = 0; i < size; i++) {
                members[g * size + i] = g + i * groups;
            }
        }
        double bytes = 64 * MIB;
        bus[s] = bytes * 2 * (size - 1) / size / cost_s(&cluster, COLLECTIVE_ALL_REDUCE, bytes, members, size, groups) *
                 1e-9;
        printf("  Galvatron 2x8, strided groups of %2u: %6.2f GB/s, measured %6.2f (2023), %6.2f (2024)\n", size,
               bus[s], MEASURED_2023[s], MEASURED_2024[s]);
    }
    EXPECT_REAL(bus[1] / bus[0], MEASURED_2023[1] / MEASURED_2023[0], 0.1);
    EXPECT_REAL(bus[2] / bus[0], MEASURED_2024[2] / MEASURED_2024[0], 0.15);
    EXPECT(bus[3] > bus[2] && bus[2] > bus[1] && bus[1] > bus[0]);
    cluster_free(&cluster);
    machine_free(&machine);
}

static const struct test_case CASES[] = { TEST(test_a100), TEST(test_v100), TEST(test_simai), TEST(test_figures),
                                          TEST(test_galvatron) };

int main(int argc, char **argv)
{
    FILE *file = fopen(shared_path("vtrain_nccl_allreduce_lut.csv"), "r");
    if (file == NULL) {
        printf("skipped: no data\n");
        return 77;
    }
    fclose(file);
    return test_run(CASES, sizeof CASES / sizeof CASES[0], argc, argv);
}
