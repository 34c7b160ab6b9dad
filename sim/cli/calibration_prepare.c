/* memwall calibrate: the machine that is measured, and a draft of its file. */
#include <errno.h>
#include <math.h>
#include <string.h>
#include <sys/statvfs.h>

#include "sim/base/check.h"
#include "sim/base/units.h"
#include "sim/cli/calibration.h"
#include "sim/cli/executors.h"

enum { DEFAULT_DEVICES = 8 };

/* Of the memory there is, for benchmarks: a device's, the host's. */
static const double DEVICE_SHARE = 0.5, HOST_SHARE = 0.25;
static const double DEVICE_BYTES_MAX = 8 * GIB, HOST_BYTES_MAX = 32 * GIB;

static void set_memory(struct calibration *c, double device_bytes, double dram_bytes)
{
    c->options.device_bytes = (uint64_t)fmin(DEVICE_BYTES_MAX, DEVICE_SHARE * device_bytes);
    c->options.host_bytes = (uint64_t)fmin(HOST_BYTES_MAX, HOST_SHARE * dram_bytes);
}

static double dram_of(const struct topology *topology)
{
    double bytes = 0;
    for (uint32_t i = 0; i < topology->socket_count; i++) {
        bytes += topology->sockets[i].dram_bytes;
    }
    return bytes;
}

static enum status prepare_host(struct calibration *c, struct error *error)
{
    double storage_bytes = 0;
    struct statvfs volume;
    if (c->base != NULL) {
        return calibration_flag_error(error, "--base",
                                      "a host is what it is found to be: --base is for cuda, sim and --from");
    }
    if (c->storage != NULL) {
        if (statvfs(c->storage, &volume) != 0) {
            return error_at(error, STATUS_BAD_INPUT, "--storage", NULL, "\"%.200s\": %s", c->storage, strerror(errno));
        }
        storage_bytes = (double)volume.f_blocks * (double)volume.f_frsize;
    }
    TRY(topology_find(&c->topology, NULL, error));
    c->devices = c->devices > 0 ? c->devices : DEFAULT_DEVICES;
    TRY(draft_new(&c->draft, c->name, NULL, error));
    TRY(topology_draft_host(&c->topology, c->devices, storage_bytes, c->draft, error));
    c->options.cores = c->topology.sockets[0].cores;
    c->options.on_host = true;
    set_memory(c, draft_get(c->draft, "gpu.usable_MiB", 0) * MIB, dram_of(&c->topology));
    return STATUS_OK;
}

/* Products of the dtypes that the GPU has a peak for. */
static uint32_t dtypes_of(const struct machine *machine)
{
    uint32_t dtypes = 0;
    for (int d = 0; d < DTYPE_COUNT; d++) {
        dtypes |= machine->gpu.peak_flops[d] > 0 ? 1u << d : 0;
    }
    return dtypes;
}

static enum status load_base(struct calibration *c, const char *base, struct error *error)
{
    TRY(machine_load(&c->machine, base, error));
    c->has_machine = true;
    c->options.dtypes = dtypes_of(&c->machine);
    return draft_new(&c->draft, c->name, base, error);
}

/* The GPUs of this computer. A machine given is taken at its word for its parts; else they are what is found. */
static enum status prepare_cuda(struct calibration *c, struct error *error)
{
    TRY(topology_find(&c->topology, NULL, error));
    uint32_t found = c->topology.gpu_count;
    if (found == 0) {
        return error_set(error, STATUS_EXECUTION,
                         "there is no NVIDIA GPU here that hwloc or NVML can see: is the driver loaded (nvidia-smi)?");
    }
    const char *base = c->base != NULL ? c->base : topology_library_machine(&c->topology);
    if (base == NULL) {
        return error_at(error, STATUS_BAD_INPUT, "--base", NULL,
                        "no library machine has this GPU (%.80s): give the nearest one, or a file that says its "
                        "multiprocessors, clock and peaks (memwall list machines)",
                        c->topology.gpus[0].name);
    }
    c->devices = c->devices > 0 ? c->devices : found;
    if (c->devices > found) {
        return error_at(error, STATUS_BAD_INPUT, "--devices", NULL, "%u wanted; this computer has %u GPUs", c->devices,
                        found);
    }
    TRY(load_base(c, base, error));
    if (c->base == NULL) {
        TRY(topology_draft_gpus(&c->topology, c->devices, c->draft, error));
    }
    c->options.cores = c->topology.sockets[0].cores;
    double bytes =
        c->topology.gpus[0].memory_bytes > 0 ? c->topology.gpus[0].memory_bytes : c->machine.gpu.usable_bytes;
    set_memory(c, bytes, dram_of(&c->topology));
    return STATUS_OK;
}

/* A machine of the library measured in the simulator: a check of calibration itself. */
static enum status prepare_sim(struct calibration *c, struct error *error)
{
    if (c->base == NULL) {
        return calibration_flag_error(error, "--base",
                                      "is missing: the machine that the simulator shall be, e.g. toy-2gpu");
    }
    TRY(load_base(c, c->base, error));
    TRY(cluster_build(&c->cluster, &c->machine, 1, c->devices, error));
    c->has_cluster = true;
    TRY(software_load(&c->software, "ideal", error));
    c->devices = c->cluster.gpus;
    c->options.cores = c->machine.parts[machine_part_at(&c->machine, PART_CPU, 0)].cores;
    c->options.on_host = c->machine.gpu.on_host;
    c->options.exec.cluster = &c->cluster;
    c->options.exec.software = &c->software;
    set_memory(c, c->machine.gpu.usable_bytes, c->machine.dram_bytes);
    return STATUS_OK;
}

enum status calibration_prepare(struct calibration *c, struct error *error)
{
    TRY(executor_open(c->flags.executor, &c->executor, error));
    bool sim = c->executor == &exec_sim, cuda = strcmp(c->executor->name, "cuda") == 0;
    TRY(sim ? prepare_sim(c, error) : cuda ? prepare_cuda(c, error) : prepare_host(c, error));
    c->options.executor = c->executor;
    c->options.devices = c->devices;
    c->options.seconds = c->seconds;
    c->options.storage = c->storage != NULL || (sim && c->cluster.drives > 0);
    c->options.exec.scratch_folder = c->storage;
    return STATUS_OK;
}
