/* Machines: the whole library loads, carries its sources and shows the check values of facts/hardware.md; overrides; bad input. */
#include "hw_models/kernel_constants.h"
#include "hw_models/machine.h"

#include "sim/base/units.h"
#include "tests/test.h"

static enum status load_text(struct machine *machine, const char *text, struct error *error)
{
    struct json_document *document;
    struct json root;
    enum status status = json_parse(&document, text, strlen(text), "test.json", error);
    if (status != STATUS_OK) {
        *machine = (struct machine){ 0 };
        return status;
    }
    json_root(document, &root);
    status = machine_from_json(machine, &root, error);
    json_free(document);
    return status;
}

/* The library machine, or a test failure. */
static bool load(struct machine *machine, const char *name)
{
    struct error error = { 0 };
    char text[2048];
    if (machine_load(machine, name, &error) != STATUS_OK) {
        TEST_FAIL_("%s: %s", name, error_text(&error, text, sizeof text));
        return false;
    }
    return true;
}

static const struct machine_link *link_between(const struct machine *machine, const char *first, const char *second)
{
    uint32_t a = machine_part_find(machine, first), b = machine_part_find(machine, second);
    for (uint32_t i = 0; i < machine->link_count; i++) {
        const struct machine_link *link = &machine->links[i];
        if ((link->a == a && link->b == b) || (link->a == b && link->b == a)) {
            return link;
        }
    }
    return NULL;
}

static uint32_t lanes_at(const struct machine *machine, const char *id, enum machine_link_kind kind)
{
    uint32_t part = machine_part_find(machine, id), lanes = 0;
    for (uint32_t i = 0; i < machine->link_count; i++) {
        const struct machine_link *link = &machine->links[i];
        lanes += link->kind == kind && (link->a == part || link->b == part) ? link->lanes : 0;
    }
    return lanes;
}

static const struct {
    const char *name;
    uint32_t gpus, sockets, nics, nvmes, links;
    double dram_GiB;
} LIBRARY[] = {
    /* links: DDR, sockets, PCIe and GPU links together, counted from facts/hardware.md B */
    { "a100-80gb-hdr800", 8, 2, 5, 8, 36, 2048 },
    { "aws-g5-48xlarge-a10g", 8, 2, 1, 2, 14, 768 },
    { "box-8x-l40s", 8, 2, 1, 2, 16, 1024 },
    { "box-8x-rtx3090", 8, 2, 1, 2, 18, 512 },
    { "box-8x-rtx4090", 8, 2, 1, 2, 14, 512 },
    { "box-8x-titan-rtx", 8, 2, 1, 2, 20, 384 },
    { "dgx-a100-40gb", 8, 2, 9, 4, 36, 1024 },
    { "dgx-a100-80gb", 8, 2, 9, 8, 40, 2048 },
    { "dgx-b200", 8, 2, 8, 8, 43, 2048 },
    { "dgx-h100", 8, 2, 8, 8, 43, 2048 },
    { "dgx1-v100-32gb", 8, 2, 4, 0, 35, 512 },
    { "dgx2-v100", 16, 2, 8, 8, 64, 1536 },
    { "example-host", 8, 1, 0, 0, 9, 11.586914062500 }, /* whose memory was what the calibration found */
    { "gb200-nvl72", 72, 36, 72, 0, 270, 17280 },
    { "gh200-1gpu", 1, 1, 1, 1, 4, 480 },
    { "h100-96gb-hbm2e", 8, 2, 8, 8, 43, 2048 },
    { "hgx-h200", 8, 2, 8, 8, 43, 2048 },
    { "mi250x-frontier-node", 8, 1, 4, 2, 27, 512 },
    { "mi300x-8gpu", 8, 2, 8, 8, 63, 2304 },
    { "superpod-a100-40gb", 8, 2, 9, 4, 36, 1024 },
    { "titan-rtx-8-galvatron", 8, 2, 1, 2, 16, 384 },
    { "toy-2gpu", 2, 1, 1, 1, 6, 128 },
    { "workstation-rtx4090-128gb", 1, 1, 1, 1, 4, 128 },
    { "yard-v100", 8, 2, 4, 0, 35, 223.517 },
};
enum { LIBRARY_COUNT = sizeof LIBRARY / sizeof LIBRARY[0] };

static void test_library_loads(void)
{
    EXPECT_INT(machine_library_count(), LIBRARY_COUNT);
    for (uint32_t i = 0; i < machine_library_count() && i < LIBRARY_COUNT; i++) {
        struct machine machine;
        EXPECT_TEXT(machine_library_name(i), LIBRARY[i].name);
        if (!load(&machine, machine_library_name(i))) {
            continue;
        }
        EXPECT_TEXT(machine.name, LIBRARY[i].name);
        EXPECT_INT(machine.gpu_count, LIBRARY[i].gpus);
        EXPECT_INT(machine_part_kind_count(&machine, PART_CPU), LIBRARY[i].sockets);
        EXPECT_INT(machine_part_kind_count(&machine, PART_NIC), LIBRARY[i].nics);
        EXPECT_INT(machine_part_kind_count(&machine, PART_NVME), LIBRARY[i].nvmes);
        EXPECT_INT(machine.link_count, LIBRARY[i].links);
        EXPECT_REAL(machine.dram_bytes, LIBRARY[i].dram_GiB * GIB, 1e-12);
        EXPECT(machine.title[0] != '\0' && machine.gpu.model[0] != '\0');
        EXPECT(machine.gpu.gemm[DTYPE_FP16].present || machine.gpu.gemm[DTYPE_BF16].present);
        machine_free(&machine);
    }
}

static void expect_source(const struct machine *machine, const char *field)
{
    const struct machine_source *source = machine_source_of(machine, field);
    if (source == NULL || source->source[0] == '\0') {
        TEST_FAIL_("%s: no source for %s", machine->name, field);
    }
}

/* Every number of every library file has a source. */
static void test_provenance(void)
{
    for (uint32_t i = 0; i < machine_library_count(); i++) {
        struct machine machine;
        char field[128];
        if (!load(&machine, machine_library_name(i))) {
            continue;
        }
        for (uint32_t k = 0; k < machine_field_count(); k++) {
            struct machine_field_value value;
            machine_field_get(&machine, k, &value);
            bool unknown_money =
                (strcmp(value.section, "price") == 0 || strcmp(value.section, "power") == 0) && !(value.value > 0.0);
            if (value.section[0] != '\0' && value.text == NULL && !unknown_money) {
                snprintf(field, sizeof field, "%s.%s", value.section, value.key);
                expect_source(&machine, field);
            }
        }
        for (uint32_t k = 0; k < machine.link_count; k++) {
            static const char *const KEYS[] = { "lanes", "GBps", "back_GBps", "peak_GBps", "both_GBps", "latency_us" };
            for (size_t key = 0; key < sizeof KEYS / sizeof KEYS[0]; key++) {
                snprintf(field, sizeof field, "links.%s.%s", machine_link_word(machine.links[k].kind), KEYS[key]);
                expect_source(&machine, field);
            }
        }
        for (uint32_t k = 0; k < machine.part_count; k++) {
            snprintf(field, sizeof field, "parts.%s", machine_part_word(machine.parts[k].kind));
            expect_source(&machine, field);
        }
        for (uint32_t k = 0; k < machine.curve_count; k++) {
            EXPECT(machine.curves[k].source[0] != '\0');
        }
        static const char *const CONSTANTS[] = {
#define X(name, key, least, greatest, meaning) key,
            GEMM_CONSTANT_TABLE(X)
#undef X
        };
        for (size_t k = 0; k < GEMM_CONSTANT_COUNT; k++) {
            snprintf(field, sizeof field, "kernel_model.gemm.fp16.%s", CONSTANTS[k]);
            expect_source(&machine, field);
        }
        machine_free(&machine);
    }
}

static void test_source_of(void)
{
    struct machine machine;
    if (!load(&machine, "dgx-a100-40gb")) {
        return;
    }
    EXPECT_PART(machine_source_of(&machine, "gpu.usable_MiB")->source, "bottlerocket");
    EXPECT(machine_source_of(&machine, "gpu.hbm_GBps")->estimated);
    EXPECT_PART(machine_source_of(&machine, "gpu.clock_MHz")->source, "ml-engineering"); /* of the base */
    EXPECT(machine_source_of(&machine, "gpus") == NULL);
    machine_free(&machine);
}

/* facts/hardware.md A.1, B.3, C.1, C.2, C.3 */
static void test_dgx_a100(void)
{
    struct machine machine;
    if (!load(&machine, "dgx-a100-80gb")) {
        return;
    }
    EXPECT_REAL(machine.gpu.usable_bytes, 79.15 * GIB, 1e-4);
    EXPECT_REAL(machine.gpu.hbm_bytes_per_s, 1.7e12, 0.0);
    EXPECT_REAL(machine.gpu.peak_flops[DTYPE_FP16], 312e12, 0.0);
    EXPECT_REAL(machine.gpu.peak_flops[DTYPE_FP8], 0.0, 0.0);
    EXPECT_INT(machine.gpu.sm_count, 108);
    EXPECT_INT(lanes_at(&machine, "gpu0", LINK_NVLINK), 12);
    for (uint32_t gpu = 0; gpu < 8; gpu++) {
        char id[16], plx[16], nic[16];
        snprintf(id, sizeof id, "gpu%u", gpu);
        snprintf(nic, sizeof nic, "nic%u", gpu);
        snprintf(plx, sizeof plx, "plx%u", gpu / 2);
        const struct machine_link *link = link_between(&machine, plx, id);
        EXPECT(link != NULL && link_between(&machine, plx, nic) != NULL);
        EXPECT(link->a == machine_part_find(&machine, plx)); /* a -> b is host to device */
        EXPECT(link->bytes_per_s >= 25.9e9 && link->bytes_per_s <= 26.2e9);
        EXPECT(link->back_bytes_per_s >= 25e9 && link->back_bytes_per_s <= 26e9);
        EXPECT_REAL(link->both_bytes_per_s, 2 * 18.56e9, 0.01);
        link = link_between(&machine, id, "nvswitch");
        EXPECT(link != NULL && link->bytes_per_s >= 271e9 && link->bytes_per_s <= 277e9);
        EXPECT(link_between(&machine, gpu < 4 ? "cpu0" : "cpu1", plx) != NULL);
    }
    EXPECT(!machine.parts[machine_part_find(&machine, "nic8")].compute_fabric);
    EXPECT_REAL(machine.parts[machine_part_find(&machine, "nic0")].line_bytes_per_s, 25e9, 0.0);
    EXPECT_REAL(machine.parts[machine_part_find(&machine, "dram1")].read_bytes_per_s, 165e9, 0.0);
    const struct machine_collective_curve *curve = machine_curve(&machine, COLLECTIVE_ALL_REDUCE, 8, 1);
    EXPECT(curve != NULL);
    /* smoothed: as near as left-out sizes are on the mean (0.63 %, printed by a_collectives) */
    EXPECT_REAL(curve_at(&curve->curve, 1024.0 * MIB), 229.35e9, 0.0063);
    EXPECT_REAL(curve_at(&curve->curve, 32.0 * 1024.0), 1.31e9, 1e-9);
    EXPECT(machine_curve(&machine, COLLECTIVE_ALL_REDUCE, 9, 1) == NULL);
    machine_free(&machine);
}

/* facts/hardware.md B.1, typed from the matrix there */
static void test_dgx1_cube_mesh(void)
{
    static const int NVLINKS[8][8] = {
        { 0, 1, 1, 2, 2, 0, 0, 0 }, { 1, 0, 2, 1, 0, 2, 0, 0 }, { 1, 2, 0, 2, 0, 0, 1, 0 }, { 2, 1, 2, 0, 0, 0, 0, 1 },
        { 2, 0, 0, 0, 0, 1, 1, 2 }, { 0, 2, 0, 0, 1, 0, 2, 1 }, { 0, 0, 1, 0, 1, 2, 0, 2 }, { 0, 0, 0, 1, 2, 1, 2, 0 },
    };
    struct machine machine;
    if (!load(&machine, "dgx1-v100-32gb")) {
        return;
    }
    for (int i = 0; i < 8; i++) {
        char a[32], b[32];
        snprintf(a, sizeof a, "gpu%d", i);
        EXPECT_INT(lanes_at(&machine, a, LINK_NVLINK), 6);
        for (int k = 0; k < 8; k++) {
            snprintf(b, sizeof b, "gpu%d", k);
            const struct machine_link *link = link_between(&machine, a, b);
            EXPECT_INT(link == NULL ? 0 : (int)link->lanes, NVLINKS[i][k]);
        }
    }
    EXPECT_REAL(link_between(&machine, "plx1", "gpu3")->bytes_per_s, 12.2e9, 0.0);
    EXPECT(link_between(&machine, "plx2", "nic2") != NULL && link_between(&machine, "cpu1", "plx2") != NULL);
    machine_free(&machine);
}

/* DGX-2: a root port serves two switches, four GPUs and two NICs (facts B.2). */
static void test_dgx2_roots(void)
{
    struct machine machine;
    if (!load(&machine, "dgx2-v100")) {
        return;
    }
    for (uint32_t gpu = 0; gpu < 16; gpu++) {
        char id[16], plx[16], root[16], board[16];
        snprintf(id, sizeof id, "gpu%u", gpu);
        snprintf(plx, sizeof plx, "plx%u", gpu / 2);
        snprintf(root, sizeof root, "root%u", gpu / 4);
        snprintf(board, sizeof board, "nvswitch%u", gpu / 8);
        EXPECT(link_between(&machine, plx, id) != NULL && link_between(&machine, root, plx) != NULL);
        EXPECT(link_between(&machine, gpu < 8 ? "cpu0" : "cpu1", root) != NULL);
        EXPECT(link_between(&machine, id, board) != NULL);
        EXPECT_INT(lanes_at(&machine, id, LINK_NVLINK), 6);
    }
    EXPECT_REAL(link_between(&machine, "nvswitch0", "nvswitch1")->peak_bytes_per_s, 8 * 150e9, 0.0);
    machine_free(&machine);
}

static void test_other_check_values(void)
{
    struct machine machine;
    if (load(&machine, "dgx-h100")) {
        const struct machine_link *link = link_between(&machine, "plx5", "gpu5");
        EXPECT_REAL(link->bytes_per_s, 55.4e9, 0.0);
        EXPECT_REAL(link->back_bytes_per_s, 55.1e9, 0.0);
        EXPECT(link_between(&machine, "plx5", "nic5") != NULL && link_between(&machine, "plx5", "gpu4") == NULL);
        EXPECT_REAL(curve_at(&machine_curve(&machine, COLLECTIVE_ALL_REDUCE, 8, 1)->curve, 64.0 * MIB), 361.78e9, 1e-9);
        EXPECT_REAL(curve_at(&machine_curve(&machine, COLLECTIVE_ALL_GATHER, 8, 1)->curve, 2048.0 * MIB), 352e9, 0.01);
        EXPECT_REAL(curve_at(&machine_curve(&machine, COLLECTIVE_REDUCE_SCATTER, 8, 1)->curve, 2048.0 * MIB), 329e9,
                    0.01);
        EXPECT(machine.in_switch_reduction);
        EXPECT_INT(lanes_at(&machine, "gpu7", LINK_NVLINK), 18);
        machine_free(&machine);
    }
    if (load(&machine, "hgx-h200")) {
        EXPECT_REAL(curve_at(&machine_curve(&machine, COLLECTIVE_ALL_REDUCE, 8, 1)->curve, 1024.0 * MIB), 467.58e9,
                    1e-9);
        EXPECT(machine_curve(&machine, COLLECTIVE_ALL_TO_ALL, 2, 1) != NULL); /* of the base */
        EXPECT_REAL(link_between(&machine, "gpu0", "nvswitch")->bytes_per_s, 396.4e9, 0.0);
        machine_free(&machine);
    }
    if (load(&machine, "gh200-1gpu")) {
        const struct machine_link *link = link_between(&machine, "cpu0", "gpu0");
        EXPECT_REAL(link->bytes_per_s, 346e9, 0.0);
        EXPECT_REAL(link->back_bytes_per_s, 297e9, 0.0);
        EXPECT_REAL(link->both_bytes_per_s, 380e9, 0.0);
        machine_free(&machine);
    }
    if (load(&machine, "gb200-nvl72")) {
        EXPECT_INT(lanes_at(&machine, "gpu71", LINK_NVLINK), 18);
        EXPECT(link_between(&machine, "cpu35", "gpu71") != NULL && link_between(&machine, "cpu34", "gpu71") == NULL);
        EXPECT(link_between(&machine, "cpu1", "cpu2") == NULL && link_between(&machine, "cpu2", "cpu3") != NULL);
        EXPECT_REAL(curve_at(&machine_curve(&machine, COLLECTIVE_ALL_REDUCE, 72, 1)->curve, 2048.0 * MIB), 757.78e9,
                    1e-9);
        machine_free(&machine);
    }
    if (load(&machine, "mi300x-8gpu")) {
        for (uint32_t i = 0; i < 8; i++) {
            char id[8];
            snprintf(id, sizeof id, "gpu%u", i);
            EXPECT_INT(lanes_at(&machine, id, LINK_XGMI), 7);
        }
        machine_free(&machine);
    }
    if (load(&machine, "mi250x-frontier-node")) {
        EXPECT(link_between(&machine, "gpu3", "nic1") != NULL);
        EXPECT_REAL(link_between(&machine, "gpu0", "gpu1")->peak_bytes_per_s, 200e9, 0.0);
        EXPECT(link_between(&machine, "gpu0", "gpu7") == NULL);
        machine_free(&machine);
    }
    if (load(&machine, "aws-g5-48xlarge-a10g")) {
        EXPECT(link_between(&machine, "cpu1", "nic0") != NULL && link_between(&machine, "cpu0", "gpu3") != NULL);
        EXPECT(!machine.gpu.pcie_peer);
        machine_free(&machine);
    }
}

/* "nics": 4 keeps one NIC at each switch: 100 GB/s a node, 12.5 a GPU. */
static void test_overrides(void)
{
    struct machine machine;
    struct error error = { 0 };
    if (load(&machine, "a100-80gb-hdr800")) {
        double line = 0.0;
        for (uint32_t i = 0; i < machine.part_count; i++) {
            line += machine.parts[i].compute_fabric ? machine.parts[i].line_bytes_per_s : 0.0;
        }
        EXPECT_REAL(line / 8.0, 12.5e9, 1e-12);
        for (uint32_t k = 0; k < 4; k++) {
            char plx[8], nic[8];
            snprintf(plx, sizeof plx, "plx%u", k);
            snprintf(nic, sizeof nic, "nic%u", 2 * k);
            EXPECT(link_between(&machine, plx, nic) != NULL);
            EXPECT_INT(machine.parts[machine_part_at(&machine, PART_NIC, k)].index, k);
        }
        EXPECT_INT(machine_part_find(&machine, "nic1"), UINT32_MAX);
        machine_free(&machine);
    }
    EXPECT_INT(
        load_text(
            &machine,
            "{\"base\":\"dgx-a100-80gb\",\"gpu\":{\"memory_GiB\":40},\"dram_GiB\":512,\"nic_Gbps\":400,\"nvmes\":0,"
            "\"kernel_model\":{\"attention_forward_efficiency\":0.5}}",
            &error),
        STATUS_OK);
    EXPECT_TEXT(machine.name, "dgx-a100-80gb*");
    EXPECT_REAL(machine.gpu.memory_bytes, 40 * GIB, 0.0);
    EXPECT_REAL(machine.gpu.usable_bytes, 81050 * MIB / 2, 1e-12);
    EXPECT_REAL(machine.gpu.hbm_bytes_per_s, 1.7e12, 0.0);
    EXPECT_REAL(machine.dram_bytes, 512 * GIB, 0.0);
    EXPECT_REAL(machine.parts[machine_part_find(&machine, "nic3")].line_bytes_per_s, 50e9, 0.0);
    EXPECT_REAL(machine.parts[machine_part_find(&machine, "nic8")].line_bytes_per_s, 25e9, 0.0); /* storage */
    EXPECT_INT(machine_part_kind_count(&machine, PART_NVME), 0);
    EXPECT_REAL(machine.gpu.attention_forward_efficiency, 0.5, 0.0);
    EXPECT_PART(machine_source_of(&machine, "gpu.memory_GiB")->source, "changed from dgx-a100-80gb in test.json");
    machine_free(&machine);
    EXPECT_INT(load_text(&machine, "\"toy-2gpu\"", &error), STATUS_OK);
    EXPECT_REAL(link_between(&machine, "gpu0", "gpu1")->both_bytes_per_s, 200e9, 0.0);
    EXPECT_REAL(link_between(&machine, "cpu0", "dram0")->both_bytes_per_s, 100e9, 0.0); /* half duplex */
    machine_free(&machine);
    for (uint32_t keep = 0; keep <= 8; keep++) {
        char text[64];
        snprintf(text, sizeof text, "{\"base\":\"dgx-h100\",\"nics\":%u}", keep);
        EXPECT_INT(load_text(&machine, text, &error), STATUS_OK);
        EXPECT_INT(machine_part_kind_count(&machine, PART_NIC), keep);
        EXPECT_INT(machine.link_count, 43 - (8 - keep));
        machine_free(&machine);
    }
}

/* A toy machine whose devices are the host's threads, with standard errors and residuals. */
#define ON_HOST                                                                                                        \
    "\"gpu_count\":4,\"gpu\":{\"on_host\":true,\"sm_count\":1,\"hbm_GBps\":10,\"memory_GiB\":16},"                     \
    "\"nccl\":{\"sms\":0},"                                                                                            \
    "\"parts\":[{\"id\":\"cpu0\",\"kind\":\"cpu_socket\",\"cores\":2},"                                                \
    "{\"id\":\"dram0\",\"kind\":\"host_dram\",\"capacity_GiB\":8},{\"id\":\"gpu[0-3]\",\"kind\":\"gpu\"}],"            \
    "\"links\":[{\"kind\":\"ddr\",\"a\":\"cpu0\",\"b\":\"dram0\",\"GBps\":16},"                                        \
    "{\"kind\":\"pcie\",\"a\":\"cpu0\",\"b\":\"gpu[0-1]\",\"GBps\":5,\"latency_us\":1},"                               \
    "{\"kind\":\"pcie\",\"a\":\"cpu0\",\"b\":\"gpu[2-3]\",\"GBps\":6,\"latency_us\":1}],"                              \
    "\"kernel_model\":{\"attention_forward_efficiency\":0.5,\"class_efficiency\":{\"norm\":0.5}}"
#define STANDARD_ERRORS                                                                                                \
    "\"standard_errors\":{\"gpu.hbm_GBps\":0.25,\"gpu.memory_GiB\":0,\"links.pcie.GBps\":0.5,\"links.2.GBps\":0.125,"  \
    "\"kernel_model.attention_forward_efficiency\":0.02,\"kernel_model.class_efficiency.norm\":0.03}"
#define RESIDUAL(what, points)                                                                                         \
    "{\"what\":\"" what "\",\"source\":\"sgemm\",\"points\":" #points ",\"left_out\":1,"                               \
    "\"mean_error\":0.01,\"worst_error\":0.05,\"left_out_mean_error\":0.02}"

static enum status load_changed(struct machine *machine, const char *path, const char *change)
{
    char text[1024], message[2048];
    struct error error = { 0 };
    snprintf(text, sizeof text, "{\"base\":\"%s\"%s%s}", path, change[0] != '\0' ? "," : "", change);
    enum status status = load_text(machine, text, &error);
    if (status != STATUS_OK) {
        TEST_FAIL_("%s", error_text(&error, message, sizeof message));
    }
    return status;
}

/* Loaded, looked up, kept by changes except of what changes. */
static void test_standard_errors_and_residuals(void)
{
    struct machine machine;
    char path[] = "/tmp/memwall_t_machine_XXXXXX.json";
    int file = mkstemps(path, 5);
    EXPECT(file >= 0);
    FILE *out = fdopen(file, "w");
    fputs("{\"base\":\"toy-2gpu\"," ON_HOST "," STANDARD_ERRORS ",\"residuals\":[" RESIDUAL(
              "gemm fp32", 9) ","
                              "{\"what\":\"copies\",\"source\":\"\",\"points\":3,\"mean_error\":0,\"worst_error\":0,"
                              "\"left_out_mean_error\":null}]}",
          out);
    fclose(out);
    if (load(&machine, path)) {
        EXPECT(machine.gpu.on_host);
        EXPECT_INT(machine.standard_error_count, 6);
        EXPECT_REAL(machine_standard_error_of(&machine, "gpu.hbm_GBps"), 0.25, 0);
        EXPECT_REAL(machine_standard_error_of(&machine, "links.pcie.GBps"), 0.5, 0);
        EXPECT_REAL(machine_standard_error_of(&machine, "links.2.GBps"), 0.125, 0);
        EXPECT_REAL(machine_standard_error_of(&machine, "gpu.clock_MHz"), 0, 0);
        EXPECT_INT(machine.residual_count, 2);
        EXPECT_TEXT(machine.residuals[0].what, "gemm fp32");
        EXPECT_INT(machine.residuals[0].points, 9);
        EXPECT_INT(machine.residuals[0].left_out, 1);
        EXPECT_REAL(machine.residuals[0].worst_error, 0.05, 0);
        EXPECT_REAL(machine.residuals[0].left_out_mean_error, 0.02, 0);
        EXPECT(isnan(machine.residuals[1].left_out_mean_error));
        machine_free(&machine);
    }
    static const struct {
        const char *change, *lost[4];
    } CHANGES[] = {
        { "", { NULL } },
        { "\"gpu\":{\"hbm_GBps\":9}", { "gpu.hbm_GBps" } },
        { "\"gpu\":{\"hbm_peak_GBps\":900}", { "gpu.hbm_GBps" } }, /* it follows */
        { "\"gpu\":{\"clock_MHz\":900}", { NULL } },
        { "\"gpu_memory_GiB\":4", { "gpu.memory_GiB" } },
        { "\"links\":[{\"kind\":\"ddr\",\"a\":\"cpu0\",\"b\":\"dram0\",\"GBps\":16},"
          "{\"kind\":\"pcie\",\"a\":\"cpu0\",\"b\":\"gpu[0-3]\",\"GBps\":5}]",
          { "links.pcie.GBps", "links.2.GBps" } },
        { "\"kernel_model\":{\"class_efficiency\":{\"norm\":0.6}}", { "kernel_model.class_efficiency.norm" } },
        { "\"kernel_model\":{\"class_efficiency\":{\"softmax\":0.6}}", { NULL } },
    };
    for (size_t i = 0; i < sizeof CHANGES / sizeof CHANGES[0]; i++) {
        uint32_t lost = 0;
        if (load_changed(&machine, path, CHANGES[i].change) != STATUS_OK) {
            continue;
        }
        for (; lost < 4 && CHANGES[i].lost[lost] != NULL; lost++) {
            EXPECT_REAL(machine_standard_error_of(&machine, CHANGES[i].lost[lost]), 0, 0);
        }
        EXPECT_INT(machine.standard_error_count, 6 - lost);
        EXPECT_INT(machine.residual_count, 2);
        machine_free(&machine);
    }
    if (load_changed(&machine, path,
                     "\"gpu\":{\"hbm_GBps\":9},\"standard_errors\":{\"gpu.hbm_GBps\":0.5},\"residuals\":[" RESIDUAL(
                         "gemm fp32", 20) "," RESIDUAL("gemm fp16", 30) "]") == STATUS_OK) {
        EXPECT_REAL(machine_standard_error_of(&machine, "gpu.hbm_GBps"), 0.5, 0);
        EXPECT_INT(machine.residual_count, 3);
        EXPECT_TEXT(machine.residuals[0].what, "copies");
        EXPECT_INT(machine.residuals[1].points, 20);
        machine_free(&machine);
    }
    remove(path);
}

#define TOY(change) "{\"base\":\"toy-2gpu\"," change "}"
#define PART_CPU0   "{\"id\":\"cpu0\",\"kind\":\"cpu_socket\",\"cores\":4}"
#define PART_DRAM0  "{\"id\":\"dram0\",\"kind\":\"host_dram\",\"capacity_GiB\":64}"
#define LINK_DDR0   "{\"kind\":\"ddr\",\"a\":\"cpu0\",\"b\":\"dram0\",\"GBps\":50}"
#define TOPOLOGY(parts, links)                                                                                         \
    TOY("\"parts\":[" PART_CPU0 "," PART_DRAM0 "," parts "],\"links\":[" LINK_DDR0 "," links "]")
#define GPUS      "{\"id\":\"gpu[0-1]\",\"kind\":\"gpu\"}"
#define LINK_GPUS "{\"kind\":\"pcie\",\"a\":\"cpu0\",\"b\":\"gpu[0-1]\",\"GBps\":10}"

/* Each bad machine and what its message must say. */
static const struct {
    const char *text, *part;
} BAD[] = {
    { "[]", "expected a machine (an object), found an array" },
    { "{\"schema\":\"memwall.scenario/1\"}", "this is a scenario (\"memwall.scenario/1\"), expected a machine" },
    { "{}", "name" },
    { "{\"name\":\"x\"}", "gpu" },
    { "{\"name\":\"x\",\"nics\":2}", "\"nics\" changes a base machine" },
    { "\"dgx-a100-80gbb\"", "did you mean \"dgx-a100-80gb\"" },
    { "\"no-such-thing-at-all\"", "no machine is called \"no-such-thing-at-all\"" },
    { "{\"base\":\"dgx-a10\"}", "no machine is called \"dgx-a10\"" },
    { TOY("\"price\":null"), "$.price: null takes nothing away from the base" },
    { TOY("\"collectives\":null"), "$.collectives: null takes nothing away" },
    { TOY("\"nic_Gbps\":null"), "$.nic_Gbps: null takes nothing away" },
    { TOY("\"price\":{\"system_usd\":null}"), "$.price.system_usd: expected a number" },
    { TOY("\"standard_errors\":[]"), "$.standard_errors: expected an object" },
    { TOY("\"standard_errors\":{\"gpu.hbm_GBps\":1}"), "this file gives no number at \"gpu.hbm_GBps\"" },
    { TOY(ON_HOST ",\"standard_errors\":{\"gpu.hbm_GBps\":-1}"), "$.standard_errors[\"gpu.hbm_GBps\"]" },
    { TOY(ON_HOST ",\"standard_errors\":{\"gpu.hbm_GBps\":\"1\"}"), "expected a number of at least 0" },
    { TOY(ON_HOST ",\"standard_errors\":{\"gpu.on_host\":1}"), "no number at \"gpu.on_host\"" },
    { TOY(ON_HOST ",\"standard_errors\":{\"gpu\":1}"), "no number at \"gpu\"" },
    { TOY(ON_HOST ",\"standard_errors\":{\"gpu.\":1}"), "no number at \"gpu.\"" },
    { TOY(ON_HOST ",\"standard_errors\":{\"\":1}"), "no number at \"\"" },
    { TOY(ON_HOST ",\"standard_errors\":{\"links.nvlink.GBps\":1}"), "no number at \"links.nvlink.GBps\"" },
    { TOY(ON_HOST ",\"standard_errors\":{\"links.3.GBps\":1}"), "no number at \"links.3.GBps\"" },
    { TOY("\"residuals\":{}"), "$.residuals: expected an array" },
    { TOY("\"residuals\":[1]"), "$.residuals[0]: expected an object" },
    { TOY("\"residuals\":[{\"what\":\"\",\"source\":\"\"}]"), "\"what\" is empty" },
    { TOY("\"residuals\":[{\"what\":\"x\",\"source\":\"\",\"points\":-1}]"), "$.residuals[0].points" },
    { TOY("\"residuals\":[{\"what\":\"x\",\"source\":\"\",\"points\":1,\"mean\":1}]"), "unknown key \"mean\"" },
    { TOY("\"residuals\":[{\"what\":\"x\",\"source\":\"\",\"points\":1,\"mean_error\":0.2,\"worst_error\":0.1}]"),
      "worst_error (0.1) is below mean_error (0.2)" },
    { TOY("\"residuals\":[{\"what\":\"x\",\"source\":\"\",\"points\":1,\"mean_error\":0.1,\"worst_error\":0.1,"
          "\"left_out_mean_error\":0.1}]"),
      "no points were left out" },
    { TOY("\"gpu\":{\"on_host\":1}"), "$.gpu.on_host" },
    { TOY("\"gpu\":{\"on_host\":true}"), "gpu.on_host is true and \"parts\" has the nic \"nic0\"" },
    { TOPOLOGY(GPUS, LINK_GPUS ",{\"kind\":\"nvlink\",\"a\":\"gpu0\",\"b\":\"gpu1\",\"GBps\":9}],"
                               "\"gpu\":{\"on_host\":true},\"notes\":["),
      "a nvlink link joins \"gpu0\" and \"gpu1\"; a device on the host has one pcie link" },
    { TOPOLOGY("{\"id\":\"cpu1\",\"kind\":\"cpu_socket\",\"cores\":2},"
               "{\"id\":\"dram1\",\"kind\":\"host_dram\",\"capacity_GiB\":8}," GPUS,
               "{\"kind\":\"ddr\",\"a\":\"cpu1\",\"b\":\"dram1\",\"GBps\":9},"
               "{\"kind\":\"pcie\",\"a\":\"cpu1\",\"b\":\"gpu1\",\"GBps\":9}," LINK_GPUS
               "],\"gpu\":{\"on_host\":true},\"notes\":["),
      "\"gpu1\" has 2 links" },
    { TOY("\"gpuu\":{}"), "did you mean \"gpu\"" },
    { TOY("\"gpu\":{\"clock_Mhz\":1}"), "did you mean \"clock_MHz\"" },
    { TOY("\"gpu\":{\"sm_count\":\"many\"}"), "$.gpu.sm_count" },
    { TOY("\"gpu\":{\"sm_count\":0}"), "$.gpu.sm_count" },
    { TOY("\"gpu\":{\"sm_count\":1.5}"), "$.gpu.sm_count" },
    { TOY("\"gpu\":{\"memory_GiB\":-1}"), "$.gpu.memory_GiB" },
    { TOY("\"gpu\":{\"memory_GiB\":1e300}"), "$.gpu.memory_GiB" },
    { TOY("\"gpu\":{\"usable_MiB\":20000}"), "usable_MiB (20000 MiB) exceeds memory_GiB (16 GiB)" },
    { TOY("\"gpu\":{\"hbm_GBps\":1001}"), "hbm_GBps (1001) exceeds hbm_peak_GBps (1000)" },
    { TOY("\"gpu\":{\"peak_TFLOPS\":{\"fp12\":1}}"), "$.gpu.peak_TFLOPS" },
    { TOY("\"gpu\":{\"peak_TFLOPS\":{\"fp32\":0}}"), "every GPU computes in fp32" },
    { TOY("\"gpu\":[]"), "$.gpu" },
    { TOY("\"network\":{\"efficiency\":1.5}"), "$.network.efficiency" },
    { TOY("\"gpu_count\":3"), "gpu_count is 3, but \"parts\" has 2" },
    { TOY("\"nics\":2"), "$.nics" },
    { TOY("\"parts\":[]"), "links" },
    { TOY("\"parts\":[],\"links\":[]"), "\"parts\" has 0 of kind \"gpu\"" },
    { TOPOLOGY("{\"id\":\"gpu[0-1]\",\"kind\":\"gpo\"}", LINK_GPUS), "gpo" },
    { TOPOLOGY("{\"id\":\"gpu[0-1]\",\"kind\":\"gpu\",\"cores\":3}", LINK_GPUS), "cores" },
    { TOPOLOGY("{\"id\":\"gpu[1-0]\",\"kind\":\"gpu\"}", LINK_GPUS), "bad range in \"gpu[1-0]\"" },
    { TOPOLOGY("{\"id\":\"gpu[0-99999]\",\"kind\":\"gpu\"}", LINK_GPUS), "bad range" },
    { TOPOLOGY("{\"id\":\"gpu 0\",\"kind\":\"gpu\"}", LINK_GPUS), "bad id \"gpu 0\"" },
    { TOPOLOGY("{\"id\":\"\",\"kind\":\"gpu\"}", LINK_GPUS), "bad id" },
    { TOPOLOGY(GPUS "," GPUS, LINK_GPUS), "two parts have the id \"gpu0\"" },
    { TOPOLOGY(GPUS, "{\"kind\":\"pcie\",\"a\":\"cpu0\",\"b\":\"gpu[0-2]\",\"GBps\":10}"),
      "no part has the id \"gpu2\"; the nearest is \"gpu" },
    { TOPOLOGY(GPUS, "{\"kind\":\"pcie\",\"a\":\"cpu0\",\"b\":\"gpu0\",\"GBps\":10}"),
      "gpu \"gpu1\" reaches no cpu_socket" },
    { TOPOLOGY(GPUS, "{\"kind\":\"nvlink\",\"a\":\"gpu0\",\"b\":\"gpu1\",\"GBps\":10}"),
      "gpu \"gpu0\" reaches no cpu_socket" },
    { TOPOLOGY(GPUS, LINK_GPUS "," LINK_GPUS), "two pcie links between \"cpu0\" and \"gpu0\"" },
    { TOPOLOGY(GPUS, "{\"kind\":\"pcie\",\"a\":\"gpu0\",\"b\":\"gpu0\",\"GBps\":10}"), "\"gpu0\" is linked to itself" },
    { TOPOLOGY(GPUS, "{\"kind\":\"ddr\",\"a\":\"cpu0\",\"b\":\"gpu0\",\"GBps\":10}"),
      "a ddr link cannot join cpu_socket \"cpu0\" and gpu \"gpu0\"" },
    { TOPOLOGY(GPUS, "{\"kind\":\"network\",\"a\":\"cpu0\",\"b\":\"gpu0\",\"GBps\":10}"), "network" },
    { TOPOLOGY(GPUS, "{\"kind\":\"pcie\",\"a\":\"cpu0\",\"b\":\"gpu0\"}"), "GBps" },
    { TOPOLOGY(GPUS, "{\"kind\":\"pcie\",\"a\":\"cpu0\",\"b\":\"gpu0\",\"GBps\":0}"), "GBps" },
    { TOPOLOGY(GPUS, "{\"kind\":\"pcie\",\"a\":\"cpu0\",\"b\":\"gpu0\",\"GBps\":30,\"peak_GBps\":20}"),
      "GBps (30) exceeds peak_GBps (20)" },
    { TOPOLOGY(GPUS, "{\"kind\":\"pcie\",\"a\":\"cpu0\",\"b\":\"gpu0\",\"GBps\":30,\"both_GBps\":61}"),
      "both_GBps is 61; it must lie between" },
    { TOPOLOGY(GPUS, "{\"kind\":\"pcie\",\"pairs\":[\"cpu0gpu0\"],\"GBps\":10}"), "is not a pair of ids" },
    { TOPOLOGY(GPUS, "{\"kind\":\"pcie\",\"pairs\":[\"cpu0-gpu0\"],\"a\":\"cpu0\",\"GBps\":10}"),
      "\"pairs\" goes without" },
    { TOPOLOGY("{\"id\":\"gpu[0-1]\",\"kind\":\"gpu\"},{\"id\":\"plx[0-2]\",\"kind\":\"pcie_switch\"}",
               "{\"kind\":\"pcie\",\"a\":\"plx[0-2]\",\"b\":\"gpu[0-1]\",\"GBps\":10}"),
      "one must divide the other" },
    { TOPOLOGY(GPUS ",{\"id\":\"nic0\",\"kind\":\"nic\",\"Gbps\":100}", LINK_GPUS), "nic \"nic0\" has no link" },
    { TOPOLOGY(GPUS ",{\"id\":\"cpu1\",\"kind\":\"cpu_socket\",\"cores\":1}", LINK_GPUS),
      "cpu_socket \"cpu1\" has 0 host_dram" },
    { TOPOLOGY(GPUS ",{\"id\":\"plx0\",\"kind\":\"pcie_switch\"}", LINK_GPUS),
      "pcie_switch \"plx0\" reaches no cpu_socket" },
    { TOY("\"collectives\":[{\"kind\":\"all_reduc\",\"ranks\":2,\"bytes_GBps\":[[1,1]]}]"), "all_reduc" },
    { TOY("\"collectives\":[{\"kind\":\"all_reduce\",\"ranks\":3,\"bytes_GBps\":[[1,1]]}]"),
      "3 ranks on 1 nodes of 2 GPUs" },
    { TOY("\"collectives\":[{\"kind\":\"all_reduce\",\"ranks\":2,\"bytes_GBps\":[]}]"), "0 points; from 1 to 256" },
    { TOY("\"collectives\":[{\"kind\":\"all_reduce\",\"ranks\":2,\"bytes_GBps\":[[2,1],[2,3]]}]"), "bytes must rise" },
    { TOY("\"collectives\":[{\"kind\":\"all_reduce\",\"ranks\":2,\"bytes_GBps\":[[2]]}]"), "a point is [bytes, GB/s]" },
    { TOY("\"collectives\":[{\"kind\":\"all_reduce\",\"ranks\":2,\"bytes_GBps\":[[2,1]]},"
          "{\"kind\":\"all_reduce\",\"ranks\":2,\"bytes_GBps\":[[2,1]]}]"),
      "a second all_reduce curve of 2 ranks" },
    { TOY("\"kernel_model\":{\"gemm\":{\"tf33\":{}}}"), "tf33" },
    { TOY("\"kernel_model\":{\"gemm\":{\"bf16\":{\"sm_efficency\":0.5}}}"), "did you mean \"sm_efficiency\"" },
    { TOY("\"kernel_model\":{\"gemm\":{\"bf16\":{}}}"), "$.kernel_model.gemm.bf16" },
    { TOY("\"kernel_model\":{\"class_efficiency\":{\"norm\":0}}"), "$.kernel_model.class_efficiency.norm" },
    { TOY("\"measured\":{\"gemm\":[{\"dtype\":\"fp16\",\"m_n_k_TFLOPS\":[[1,2,3]]}]}"), "a row is [m, n, k, TFLOP/s]" },
    { TOY("\"provenance\":[{\"source\":\"x\"}]"), "fields" },
    { "{\"base\":\"toy-2gpu\",\"base\":\"dgx-h100\"}", "base" },
    { TOY("\"gpu\":{\"l2_MB\":NaN}"), "test.json" },
};

static void test_bad_input(void)
{
    for (size_t i = 0; i < sizeof BAD / sizeof BAD[0]; i++) {
        struct machine machine;
        struct error error = { 0 };
        char text[4096];
        enum status status = load_text(&machine, BAD[i].text, &error);
        error_text(&error, text, sizeof text);
        if (status != STATUS_BAD_INPUT && status != STATUS_NOT_FOUND) {
            TEST_FAIL_("accepted or wrong status %d: %s", (int)status, BAD[i].text);
        }
        if (strstr(text, BAD[i].part) == NULL) {
            TEST_FAIL_("%s\n    says \"%s\"\n    expected it to contain \"%s\"", BAD[i].text, text, BAD[i].part);
        }
        EXPECT(machine.arena.blocks == NULL); /* nothing stays allocated */
        machine_free(&machine);
    }
    printf("%zu bad machines\n", sizeof BAD / sizeof BAD[0]);
}

static void test_base_chain_ends(void)
{
    struct machine machine;
    struct error error = { 0 };
    char path[] = "/tmp/memwall_t_machine_XXXXXX";
    int file = mkstemp(path);
    EXPECT(file >= 0);
    FILE *out = fdopen(file, "w");
    fprintf(out, "{\"base\": \"%s\"}", path);
    fclose(out);
    EXPECT_INT(machine_load(&machine, path, &error), STATUS_BAD_INPUT);
    EXPECT_PART(error.message, "bases on top of each other");
    remove(path);
    EXPECT(machine_load(&machine, path, &error) != STATUS_OK);
    EXPECT_PART(error.file[0] != '\0' ? error.file : error.message, path);
}

TEST_MAIN(TEST(test_library_loads), TEST(test_provenance), TEST(test_source_of), TEST(test_dgx_a100),
          TEST(test_dgx1_cube_mesh), TEST(test_dgx2_roots), TEST(test_other_check_values), TEST(test_overrides),
          TEST(test_standard_errors_and_residuals), TEST(test_bad_input), TEST(test_base_chain_ends))
