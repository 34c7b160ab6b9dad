/* Topology: hwloc's descriptions and an NVML made up here become sockets, GPUs and machine files that load. */
#include "validate/calibrate/topology.h"

#include "hw_models/cluster.h"
#include "hw_models/machine.h"
#include "sim/base/units.h"
#include "tests/test.h"
#include "validate/calibrate/topology_nvml.h"

static bool find(struct topology *topology, const char *description)
{
    struct error error = { 0 };
    char text[2048];
    if (topology_find(topology, description, &error) != STATUS_OK) {
        TEST_FAIL_("%s", error_text(&error, text, sizeof text));
        return false;
    }
    return true;
}

/* This computer, whatever it is. */
static void test_here(void)
{
    static struct topology t;
    if (!find(&t, NULL)) {
        return;
    }
    struct strbuf out = { 0 };
    topology_print(&t, &out);
    printf("%s", out.text);
    EXPECT(t.socket_count >= 1 && t.sockets[0].cores >= 1 && t.sockets[0].dram_bytes > 1e8);
    EXPECT_PART(out.text, "socket 0: ");
    strbuf_free(&out);
}

static void test_sockets(void)
{
    static struct topology t;
    struct error error = { 0 };
    if (find(&t, "pack:2 [numa(memory=64GiB)] l3:1(size=32MiB) core:6 pu:2")) {
        EXPECT_INT(t.socket_count, 2);
        EXPECT_INT(t.sockets[0].cores, 6);
        EXPECT_INT(t.sockets[1].cores, 6);
        EXPECT_REAL(t.sockets[0].dram_bytes, 64 * GIB, 0);
        EXPECT_REAL(t.sockets[1].dram_bytes, 64 * GIB, 0);
        EXPECT_REAL(t.cache_bytes, 32 * MIB, 0);
        EXPECT_INT(t.gpu_count, 0);
    }
    if (find(&t, "[numa(memory=100GiB)] pack:2 core:4 pu:1")) { /* one node for both */
        EXPECT_INT(t.socket_count, 2);
        EXPECT_REAL(t.sockets[0].dram_bytes + t.sockets[1].dram_bytes, 100 * GIB, 0);
        EXPECT_REAL(t.sockets[0].dram_bytes, 50 * GIB, 0);
    }
    if (find(&t, "pack:1 [numa(memory=8GiB)] [numa(memory=8GiB)] core:2 pu:1")) {
        EXPECT_INT(t.socket_count, 1);
        EXPECT_REAL(t.sockets[0].dram_bytes, 16 * GIB, 0);
    }
    EXPECT_INT(topology_find(&t, "no such thing", &error), STATUS_EXECUTION);
    EXPECT_PART(error.message, "hwloc");
    EXPECT_INT(topology_find(&t, "pack:17 core:1 pu:1", &error), STATUS_LIMIT);
    EXPECT_PART(error.message, "17 sockets");
}

/* ---- threads as devices ---- */

/* The draft as a file would be, loaded. */
static bool load(struct draft *draft, struct machine *machine)
{
    struct strbuf text = { 0 };
    struct error error = { 0 };
    struct json_document *document = NULL;
    struct json root;
    char shown[2048];
    enum status status = draft_print(draft, &text, &error);
    if (status == STATUS_OK) {
        status = json_parse(&document, text.text, text.length, "draft", &error);
    }
    if (status == STATUS_OK) {
        json_root(document, &root);
        status = machine_from_json(machine, &root, &error);
    }
    if (status != STATUS_OK) {
        TEST_FAIL_("%s\n%s", error_text(&error, shown, sizeof shown), text.text != NULL ? text.text : "");
    }
    json_free(document);
    strbuf_free(&text);
    return status == STATUS_OK;
}

/* What a fit of nothing but kernels would add. */
static void add_rates(struct draft *draft)
{
    draft_number(draft, "gpu.hbm_peak_GBps", 12, 0, "test", false);
    draft_number(draft, "gpu.hbm_GBps", 10, 0, "test", false);
    draft_json(draft, "gpu.peak_TFLOPS", "{\"fp32\":0.1}", "test", false);
}

static void test_host_draft(void)
{
    static struct topology t;
    struct error error = { 0 };
    struct draft *draft = NULL;
    struct machine machine;
    struct cluster cluster;
    if (!find(&t, "pack:2 [numa(memory=64GiB)] core:6 pu:2")) {
        return;
    }
    EXPECT_INT(draft_new(&draft, "box", NULL, &error), STATUS_OK);
    EXPECT_INT(topology_draft_host(&t, 5, 1e12, draft, &error), STATUS_OK);
    add_rates(draft);
    if (load(draft, &machine)) {
        EXPECT_TEXT(machine.name, "box");
        EXPECT_INT(machine.gpu_count, 5);
        EXPECT(machine.gpu.on_host);
        EXPECT_INT(machine.gpu.sm_count, 1);
        /* Sockets hold devices 0 to 2 and 3 to 4: three share 64 GiB. */
        EXPECT_REAL(machine.gpu.usable_bytes, floor(0.9 * 64 * 1024 / 3) * MIB, 1e-12);
        EXPECT_REAL(machine.gpu.memory_bytes, machine.gpu.usable_bytes, 1e-12);
        EXPECT_REAL(machine.context_bytes + machine.nccl_first_bytes + machine.blas_workspace_bytes, 0, 0);
        EXPECT_INT(machine_part_kind_count(&machine, PART_CPU), 2);
        EXPECT_INT(machine_part_kind_count(&machine, PART_NVME), 1);
        EXPECT_REAL(machine.dram_bytes, 128 * GIB, 1e-12);
        EXPECT_INT(cluster_build(&cluster, &machine, 1, 0, &error), STATUS_OK);
        for (uint32_t d = 0; d < 5; d++) {
            EXPECT_INT(cluster_gpu_socket(&cluster, d), d >= 3);
        }
        EXPECT_REAL(cluster.resources[cluster_cores(&cluster, 0, 1)].capacity, 6, 0);
        cluster_free(&cluster);
        machine_free(&machine);
    }
    draft_free(draft);
    EXPECT_INT(draft_new(&draft, "box", NULL, &error), STATUS_OK);
    EXPECT_INT(topology_draft_host(&t, 1, 0, draft, &error), STATUS_OK);
    add_rates(draft);
    if (load(draft, &machine)) {
        EXPECT_INT(machine.gpu_count, 1);
        EXPECT_INT(machine_part_kind_count(&machine, PART_NVME), 0);
        machine_free(&machine);
    }
    draft_free(draft);
    EXPECT_INT(draft_new(&draft, "box", NULL, &error), STATUS_OK);
    t.sockets[0].dram_bytes = t.sockets[1].dram_bytes = 2 * MIB;
    EXPECT_INT(topology_draft_host(&t, 100, 0, draft, &error), STATUS_BAD_INPUT);
    EXPECT_PART(error.message, "fewer --devices");
    draft_free(draft);
}

/* ---- GPUs ---- */

/* Two sockets; on the first two GPUs and an HCA behind one switch (root port, upstream port, downstream ports) and a drive straight on a root port; on the second a GPU alone. */
#define BRIDGE(index, bus, range)                                                                                      \
    "<object type=\"Bridge\" gp_index=\"" index "\" bridge_type=\"1-1\" depth=\"1\" bridge_pci=\"0000:[" range "]\" "  \
    "pci_busid=\"0000:" bus "\" pci_type=\"0604 [10b5:8747] [10b5:8747] ca\" pci_link_speed=\"31.5\">"
#define DEVICE(index, bus, type, more)                                                                                 \
    "<object type=\"PCIDev\" gp_index=\"" index "\" pci_busid=\"0000:" bus "\" pci_type=\"" type "\" "                 \
    "pci_link_speed=\"31.507692\">" more "</object>"
#define GPU_TYPE "0302 [10de:20b2] [10de:1463] a1"
#define GPU_NAME "<info name=\"PCIVendor\" value=\"NVIDIA\"/><info name=\"PCIDevice\" value=\"GA100\"/>"
#define END      "</object>"
#define CORE(index, set)                                                                                               \
    "<object type=\"Core\" os_index=\"" index "\" cpuset=\"" set "\" complete_cpuset=\"" set                           \
    "\" nodeset=\"0x00000003\" "                                                                                       \
    "complete_nodeset=\"0x00000003\" gp_index=\"4" index "\"><object type=\"PU\" os_index=\"" index "\" cpuset=\"" set \
    "\" complete_cpuset=\"" set "\" nodeset=\"0x00000003\" complete_nodeset=\"0x00000003\" gp_index=\"5" index         \
    "\"/>" END
#define PACKAGE(index, set, node, more)                                                                                \
    "<object type=\"Package\" os_index=\"" index "\" cpuset=\"" set "\" complete_cpuset=\"" set "\" nodeset=\"" node   \
    "\" complete_nodeset=\"" node "\" gp_index=\"6" index "\"><info name=\"CPUModel\" value=\"EPYC of the test\"/>"    \
    "<object type=\"NUMANode\" os_index=\"" index "\" cpuset=\"" set "\" complete_cpuset=\"" set "\" nodeset=\"" node  \
    "\" complete_nodeset=\"" node "\" gp_index=\"7" index "\" local_memory=\"1073741824000\"/>" more END

/* clang-format off */
static const char SERVER[] =
    "<?xml version=\"1.0\" encoding=\"UTF-8\"?><!DOCTYPE topology SYSTEM \"hwloc2.dtd\"><topology version=\"2.0\">"
    "<object type=\"Machine\" os_index=\"0\" cpuset=\"0x00000003\" complete_cpuset=\"0x00000003\" "
    "allowed_cpuset=\"0x00000003\" nodeset=\"0x00000003\" complete_nodeset=\"0x00000003\" "
    "allowed_nodeset=\"0x00000003\" gp_index=\"1\">"
    PACKAGE("0", "0x00000001", "0x00000001", CORE("0", "0x00000001")
        "<object type=\"Bridge\" gp_index=\"10\" bridge_type=\"0-1\" depth=\"0\" bridge_pci=\"0000:[00-2f]\">"
            BRIDGE("11", "00:01.1", "01-08")
                BRIDGE("12", "01:00.0", "02-08")
                    BRIDGE("13", "02:00.0", "07-07") DEVICE("14", "07:00.0", GPU_TYPE, GPU_NAME) END
                    BRIDGE("15", "02:10.0", "08-08") DEVICE("16", "08:00.0", GPU_TYPE, GPU_NAME) END
                    BRIDGE("17", "02:11.0", "06-06")
                        DEVICE("18", "06:00.0", "0207 [15b3:101b] [15b3:0007] 00",
                               "<object type=\"OSDev\" gp_index=\"19\" name=\"ib0\" osdev_type=\"2\"/>"
                               "<object type=\"OSDev\" gp_index=\"20\" name=\"mlx5_0\" osdev_type=\"3\"/>")
                    END
                END
            END
            BRIDGE("21", "00:03.1", "20-20")
                DEVICE("22", "20:00.0", "0108 [144d:a824] [144d:a801] 00",
                       "<object type=\"OSDev\" gp_index=\"23\" name=\"nvme0n1\" osdev_type=\"0\">"
                       "<info name=\"Size\" value=\"3750738264\"/></object>")
            END
        END)
    PACKAGE("1", "0x00000002", "0x00000002", CORE("1", "0x00000002")
        "<object type=\"Bridge\" gp_index=\"30\" bridge_type=\"0-1\" depth=\"0\" bridge_pci=\"0000:[80-8f]\">"
            BRIDGE("31", "80:01.1", "87-87") DEVICE("32", "87:00.0", GPU_TYPE, GPU_NAME) END
        END)
    "</object></topology>";
/* clang-format on */

/* The NVML of this server: GPUs in another order than the bus; NVLinks between the first two directly and from all to a switch. */
static const unsigned BUSES[] = { 0x08, 0x07, 0x87 };
static unsigned nvml_calls;
static int fake_count(unsigned *count)
{
    *count = 3;
    return 0;
}
static int fake_handle(unsigned index, nvml_device *device)
{
    static char places[3];
    *device = (nvml_device)(void *)&places[index];
    nvml_calls = 0;
    return 0;
}
static unsigned index_of(nvml_device device)
{
    nvml_device first;
    fake_handle(0, &first);
    return (unsigned)((char *)device - (char *)first);
}
static int fake_name(nvml_device device, char *name, unsigned size)
{
    (void)device;
    snprintf(name, size, "NVIDIA A100-SXM4-80GB");
    return 0;
}
static int fake_memory(nvml_device device, struct nvml_memory *memory)
{
    (void)device;
    *memory = (struct nvml_memory){ .total = 85899345920ull, .free = 1, .used = 2 };
    return 0;
}
static int fake_pci(nvml_device device, struct nvml_pci *pci)
{
    *pci = (struct nvml_pci){ .bus = BUSES[index_of(device)] };
    return 0;
}
static int fake_generation(nvml_device device, unsigned *generation)
{
    *generation = index_of(device) == 2 ? 3 : 4;
    return 0;
}
static int fake_width(nvml_device device, unsigned *width)
{
    (void)device;
    *width = 16;
    return 0;
}
static int fake_state(nvml_device device, unsigned link, unsigned *active)
{
    (void)device;
    *active = link < 3;
    return link < 12 ? 0 : 2;
}
static int fake_version(nvml_device device, unsigned link, unsigned *version)
{
    (void)device;
    (void)link;
    *version = 3;
    return 0;
}
static int fake_remote(nvml_device device, unsigned link, struct nvml_pci *pci)
{
    unsigned index = index_of(device);
    *pci = (struct nvml_pci){ .bus = link < 2 && index < 2 ? BUSES[1 - index] : 0xc0 };
    return 0;
}
static const struct nvml FAKE = { .count = fake_count,
                                  .handle = fake_handle,
                                  .name = fake_name,
                                  .memory = fake_memory,
                                  .pci = fake_pci,
                                  .pcie_generation = fake_generation,
                                  .pcie_width = fake_width,
                                  .nvlink_state = fake_state,
                                  .nvlink_version = fake_version,
                                  .nvlink_remote = fake_remote };

static void test_server(void)
{
    static struct topology t;
    if (!find(&t, SERVER)) {
        return;
    }
    EXPECT_INT(t.socket_count, 2);
    EXPECT_TEXT(t.cpu, "EPYC of the test");
    EXPECT_INT(t.gpu_count, 3);
    EXPECT_INT(t.switch_count, 1);
    EXPECT_INT(t.gpus[0].place.pcie_switch, 0);
    EXPECT_INT(t.gpus[1].place.pcie_switch, 0);
    EXPECT_INT(t.gpus[2].place.pcie_switch, TOPOLOGY_NONE);
    EXPECT_INT(t.gpus[2].place.socket, 1);
    EXPECT_INT(t.gpus[1].place.socket, 0);
    EXPECT_REAL(t.gpus[0].place.link_bytes_per_s, 31.5e9, 1e-3);
    EXPECT_INT(t.nic_count, 1);
    EXPECT_TEXT(t.nics[0].name, "mlx5_0"); /* the adapter, not its network interface */
    EXPECT_INT(t.nics[0].place.pcie_switch, 0);
    EXPECT_INT(t.drive_count, 1);
    EXPECT_REAL(t.drives[0].capacity_bytes, 3750738264.0 * 1024, 0);
    topology_ask_nvml(&t, &FAKE);
    EXPECT(t.has_nvml);
    EXPECT_INT(t.gpu_count, 3);
    for (uint32_t i = 0; i < 3; i++) {
        EXPECT_TEXT(t.gpus[i].name, "A100-SXM4-80GB");
        EXPECT_REAL(t.gpus[i].memory_bytes, 85899345920.0, 0);
        EXPECT_INT(t.gpus[i].nvlinks_to_switch, i == 2 ? 3 : 1);
        EXPECT_REAL(t.gpus[i].nvlink_bytes_per_s, 25e9, 0);
    }
    EXPECT_INT(t.gpus[0].nvlinks_to[1], 2);
    EXPECT_INT(t.gpus[1].nvlinks_to[0], 2);
    EXPECT_INT(t.gpus[0].nvlinks_to[0] + t.gpus[0].nvlinks_to[2], 0);
    EXPECT_REAL(t.gpus[2].place.link_bytes_per_s, 16 * 0.985e9, 0);
    EXPECT_REAL(t.gpus[0].place.link_bytes_per_s, 16 * 1.969e9, 0);
}

/* Where hwloc sees no PCIe (containers), NVML's GPUs stand alone; without any of its functions nothing changes. */
static void test_nvml_alone(void)
{
    static struct topology t;
    static const struct nvml none = { 0 };
    if (!find(&t, "pack:1 core:4 pu:1")) {
        return;
    }
    topology_ask_nvml(&t, &none);
    EXPECT_INT(t.gpu_count, 0);
    topology_ask_nvml(&t, &FAKE);
    EXPECT_INT(t.gpu_count, 3);
    EXPECT_INT(t.gpus[0].nvlinks_to[1], 2);
}

static void test_gpu_draft(void)
{
    static struct topology t;
    struct error error = { 0 };
    struct draft *draft = NULL;
    struct machine machine;
    if (!find(&t, SERVER)) {
        return;
    }
    topology_ask_nvml(&t, &FAKE);
    const char *library = topology_library_machine(&t);
    EXPECT(library != NULL);
    EXPECT_INT(machine_load(&machine, library != NULL ? library : "toy-2gpu", &error), STATUS_OK);
    EXPECT_TEXT(machine.gpu.model, "A100-SXM4-80GB");
    machine_free(&machine);
    EXPECT_INT(draft_new(&draft, "my-server", "dgx-a100-80gb", &error), STATUS_OK);
    EXPECT_INT(topology_draft_gpus(&t, 4, draft, &error), STATUS_BAD_INPUT);
    EXPECT_PART(error.message, "has 3 GPUs");
    EXPECT_INT(topology_draft_gpus(&t, 3, draft, &error), STATUS_OK);
    if (load(draft, &machine)) {
        EXPECT_INT(machine.gpu_count, 3);
        EXPECT_INT(machine.gpu.sm_count, 108); /* from the base */
        EXPECT_INT(machine_part_kind_count(&machine, PART_PCIE_SWITCH), 1);
        EXPECT_INT(machine_part_kind_count(&machine, PART_NIC), 1);
        EXPECT_INT(machine_part_kind_count(&machine, PART_NVME), 1);
        EXPECT_INT(machine_part_kind_count(&machine, PART_NVSWITCH), 1);
        uint32_t nvlinks = 0, lanes = 0;
        for (uint32_t i = 0; i < machine.link_count; i++) {
            nvlinks += machine.links[i].kind == LINK_NVLINK;
            lanes += machine.links[i].kind == LINK_NVLINK ? machine.links[i].lanes : 0;
        }
        EXPECT_INT(nvlinks, 4); /* three to the switch, one between the first two */
        EXPECT_INT(lanes, 1 + 1 + 3 + 2);
        EXPECT_INT(machine.curve_count, 0); /* measured on the base's server, not on this one */
        EXPECT_REAL(machine.power_w + machine.price_usd, 0, 0);
        EXPECT_REAL(machine.gpu.usable_bytes, 85899345920.0, 0);
        const struct machine_source *source = machine_source_of(&machine, "links.pcie.GBps");
        EXPECT(source != NULL && source->estimated);
        machine_free(&machine);
    }
    draft_free(draft);
    snprintf(t.gpus[0].name, sizeof t.gpus[0].name, "a100 sxm4 80gb");
    EXPECT_TEXT(topology_library_machine(&t), library);
    snprintf(t.gpus[0].name, sizeof t.gpus[0].name, "Voodoo 2");
    EXPECT(topology_library_machine(&t) == NULL);
}

TEST_MAIN(TEST(test_here), TEST(test_sockets), TEST(test_host_draft), TEST(test_server), TEST(test_nvml_alone),
          TEST(test_gpu_draft))
