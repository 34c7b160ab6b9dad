/* memwall calibrate: measure this computer, or read what others measured, and write a machine file. */
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "hw_models/cluster.h"
#include "hw_models/software.h"
#include "sim/base/check.h"
#include "sim/base/file.h"
#include "sim/base/file_place.h"
#include "sim/base/json.h"
#include "sim/base/json_write.h"
#include "sim/base/units.h"
#include "sim/cli/cli.h"
#include "sim/cli/executors.h"
#include "sim/cli/flag_files.h"
#include "sim/cli/interrupt.h"
#include "validate/calibrate/draft.h"
#include "validate/calibrate/import.h"
#include "validate/calibrate/measure.h"
#include "validate/calibrate/topology.h"
#include "validate/fit/fit.h"

static enum exit_code run(int argc, char **argv);

const struct cli_command command_calibrate = {
    .name = "calibrate",
    .out_file = "write the machine into FILE",
    .usage = "--out MACHINE.json [--executor host|cuda] [--from FILE ...] [flags]",
    .summary = "measure this computer, or read what others measured, and write a machine file",
    .help =
        "Measures copies, kernels, collectives, the CPU's optimizer and storage by running small schedules on an\n"
        "executor, fits the constants of the simulator to them, and writes a machine file for scenarios. Every\n"
        "constant keeps its source and standard error, every set of points its errors.\n"
        "\n"
        "  memwall calibrate --executor host --out here.json\n"
        "      this computer, its threads as eight devices. Then: memwall validate S.json --set machine=here.json\n"
        "  memwall calibrate --executor cuda --out server.json\n"
        "      its GPUs. Numbers that cannot be measured come from the library machine with the same GPU, or --base\n"
        "  memwall calibrate --from all_reduce.log --from bandwidth.txt --base dgx-a100-80gb --out mine.json\n"
        "      what people paste: nccl-tests, nvbandwidth, bandwidthTest, nvidia-smi topo -m, tables of measurements\n"
        "  memwall calibrate --from table.csv --system a100_pcie --base dgx-a100-80gb --out a100.json\n"
        "      one machine of a table that has several\n"
        "  memwall calibrate --executor host --from here.jsonl --out here.json\n"
        "      measured and imported points together\n"
        "\n"
        "--out is the machine file here, not a folder. What was measured is kept beside it, in\n"
        "MACHINE.json.points.jsonl: interrupt a calibration at any time, the same command goes on from there.\n"
        "Exit: 0 written; 1 bad input, or points that tell nothing; 3 interrupted or failed, what was measured is "
        "kept.\n",
    .positional_min = 0,
    .positional_max = 0,
    .executor = "host",
    .run = run,
};

enum { FROM_MAX = 64, DEFAULT_DEVICES = 8, DEVICES_MAX = 64, LEFT_OUT_MAX = 64 };
static const double DEFAULT_SECONDS = 60, SECONDS_MAX = 86400;

/* Of the memory there is, for benchmarks: a device's, the host's. */
static const double DEVICE_SHARE = 0.5, HOST_SHARE = 0.25;
static const double DEVICE_BYTES_MAX = 8 * GIB, HOST_BYTES_MAX = 32 * GIB;

struct left_out {
    struct point point;
    char why[160];
};

struct calibration {
    struct cli_flags flags;
    /* flags as given */
    const char *name, *base, *devices_text, *seconds_text, *storage, *points_path, *fresh, *system, *last_from;
    const char *from[FROM_MAX];
    uint32_t from_count;
    /* what they mean */
    bool measures;
    double seconds;
    uint32_t devices; /* 0: as many as there are, or DEFAULT_DEVICES */
    char own_name[MACHINE_NAME_BYTES], points_file[PATH_MAX];
    const struct executor *executor;
    /* what is made */
    struct machine machine; /* sim, cuda: the base */
    struct cluster cluster;
    bool has_machine, has_cluster;
    struct software software;
    struct topology topology;
    struct draft *draft;
    struct points plan, measured, all;
    struct measure_options options;
    FILE *file; /* of points */
    struct fit_report report;
    struct left_out left_out[LEFT_OUT_MAX];
    uint32_t left_out_count;
    struct strbuf notes;
    /* progress */
    bool terminal;
    double shown_s;
    uint32_t shown_tenth;
};

static enum status flag_error(struct error *error, const char *flag, const char *message)
{
    return error_at(error, STATUS_BAD_INPUT, flag, NULL, "%s", message);
}

/* ---- flags ---- */

/* cli_parse keeps a flag's last value; --from may come several times. Before it, for it puts argv in order. */
static bool collect_from(struct calibration *c, int argc, char **argv)
{
    for (int i = 1; i < argc && argv[i] != NULL && strcmp(argv[i], "--") != 0; i++) {
        const char *equals = strchr(argv[i], '=');
        size_t length = equals != NULL ? (size_t)(equals - argv[i]) : strlen(argv[i]);
        bool from = (length == strlen("--from") && strncmp(argv[i], "--from", length) == 0) ||
                    (length == strlen("--fro") && strncmp(argv[i], "--fro", length) == 0);
        const char *value = equals != NULL ? equals + 1 : i + 1 < argc ? argv[i + 1] : NULL;
        if (!from || value == NULL) {
            continue;
        }
        if (c->from_count == FROM_MAX) {
            fprintf(stderr, "memwall calibrate: more than %d --from files\n", FROM_MAX);
            return false;
        }
        c->from[c->from_count++] = value;
        i += equals == NULL;
    }
    return true;
}

/* "dir/here.json" is called "here". */
static void name_of_file(const char *path, char name[MACHINE_NAME_BYTES])
{
    const char *slash = strrchr(path, '/'), *bare = slash != NULL ? slash + 1 : path;
    size_t length = strlen(bare);
    if (length > 5 && strcmp(bare + length - 5, ".json") == 0) {
        length -= 5;
    }
    if (length >= MACHINE_NAME_BYTES) {
        length = MACHINE_NAME_BYTES - 1;
        while (((unsigned char)bare[length] & 0xc0) == 0x80) { /* no character is cut in two */
            length--;
        }
    }
    (void)snprintf(name, MACHINE_NAME_BYTES, "%.*s", (int)length, bare);
}

/* Before an hour of measuring, not after it: are the files and the name what they must be? */
static enum status check_files(const struct calibration *c, struct error *error)
{
    struct error why;
    for (uint32_t i = 0; i < c->from_count; i++) {
        TRY(flag_input_file("--from", c->from[i], error));
    }
    if (c->points_path != NULL && file_place_check(c->points_path, &why) != STATUS_OK) {
        return error_at(error, STATUS_BAD_INPUT, "--points", NULL, "%s", why.message);
    }
    if (c->storage != NULL) {
        TRY(flag_scratch_folder("--storage", c->storage, error));
    }
    if (draft_check_name(c->name, &why) != STATUS_OK) {
        return error_at(error, STATUS_BAD_INPUT, "--name", NULL, "%s%s", why.message,
                        c->name == c->own_name ? " (it is taken from --out)" : "");
    }
    return STATUS_OK;
}

/* Flags that only measuring heeds. */
static enum status check_measuring_flags(const struct calibration *c, struct error *error)
{
    const struct {
        const char *flag, *value;
    } only[] = { { "--devices", c->devices_text },
                 { "--seconds", c->seconds_text },
                 { "--storage", c->storage },
                 { "--points", c->points_path },
                 { "--fresh", c->fresh } };
    for (size_t i = 0; i < sizeof only / sizeof only[0] && !c->measures; i++) {
        if (only[i].value != NULL) {
            return flag_error(error, only[i].flag,
                              "nothing is measured with --from alone: add --executor host or cuda");
        }
    }
    if (c->from_count == 0 && c->system != NULL) {
        return flag_error(error, "--system", "chooses a machine of a table read with --from; there is no --from");
    }
    return STATUS_OK;
}

static enum status read_flags(struct calibration *c, struct error *error)
{
    /* The default's own pointer: no --executor was given. */
    c->measures = c->from_count == 0 || c->flags.executor != command_calibrate.executor;
    if (c->from_count == 0 && c->last_from != NULL) {
        c->from[c->from_count++] = c->last_from;
    }
    if (c->flags.out == NULL) {
        return flag_error(error, "--out", "is missing: the machine file to write, e.g. --out here.json");
    }
    TRY(check_measuring_flags(c, error));
    double devices = 0;
    c->seconds = DEFAULT_SECONDS;
    TRY(cli_read_number("--seconds", c->seconds_text, 1, SECONDS_MAX, false, &c->seconds, error));
    TRY(cli_read_number("--devices", c->devices_text, 1, DEVICES_MAX, true, &devices, error));
    c->devices = (uint32_t)devices;
    name_of_file(c->flags.out, c->own_name);
    c->name = c->name != NULL ? c->name : c->own_name;
    TRY(check_files(c, error));
    int length = c->points_path != NULL
                     ? snprintf(c->points_file, sizeof c->points_file, "%s", c->points_path)
                     : snprintf(c->points_file, sizeof c->points_file, "%s.points.jsonl", c->flags.out);
    return length < (int)sizeof c->points_file ? STATUS_OK : flag_error(error, "--points", "the path is too long");
}

/* ---- what is measured: the machine, and a draft of its file ---- */

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
        return flag_error(error, "--base", "a host is what it is found to be: --base is for cuda, sim and --from");
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
        return flag_error(error, "--base", "is missing: the machine that the simulator shall be, e.g. toy-2gpu");
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

static enum status prepare(struct calibration *c, struct error *error)
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

/* ---- the file of points ---- */

/* Where the whole lines of the file end; 0: it has none. */
static enum status whole_lines(const struct calibration *c, size_t *length, struct error *error)
{
    char *text = NULL;
    TRY(file_read(c->points_file, JSON_BYTES_MAX, &text, length, error));
    while (*length > 0 && text[*length - 1] != '\n') {
        (*length)--;
    }
    free(text);
    return STATUS_OK;
}

/* Before anything in it is cut or appended to: is the file missing, empty, or one of points? Anything else is somebody's. */
static enum status check_points_file(const struct calibration *c, struct error *error)
{
    static const char begin[] = "{\"schema\":\"memwall.points/1\"";
    struct stat points, out;
    if (strcmp(c->points_file, c->flags.out) == 0) {
        return error_at(
            error, STATUS_BAD_INPUT, "--points", NULL,
            "\"%.200s\" is the machine file of --out, which would take the place of the points: give another",
            c->points_file);
    }
    if (stat(c->points_file, &points) != 0) {
        return STATUS_OK; /* will be made */
    }
    if (!S_ISREG(points.st_mode)) {
        return error_at(error, STATUS_BAD_INPUT, "--points", NULL,
                        "\"%.200s\" is not a regular file: points are kept in one", c->points_file);
    }
    if (stat(c->flags.out, &out) == 0 && out.st_dev == points.st_dev && out.st_ino == points.st_ino) {
        return error_at(error, STATUS_BAD_INPUT, "--points", NULL, "\"%.200s\" is the same file as --out: give another",
                        c->points_file);
    }
    char *text = NULL;
    size_t length = 0;
    TRY(file_read(c->points_file, JSON_BYTES_MAX, &text, &length, error));
    size_t compared =
        length < sizeof begin - 1 ? length : sizeof begin - 1; /* a killed run may have cut the first line */
    bool ours = strncmp(text, begin, compared) == 0;
    free(text);
    return ours ? STATUS_OK
                : error_at(error, STATUS_BAD_INPUT, c->points_file, NULL,
                           "does not begin as a file of points does (%s}...): give another --points, or remove it",
                           begin);
}

/* What an earlier run measured. */
static enum status take_up(struct calibration *c, struct error *error)
{
    char machine[64], executor[64];
    TRY(points_load(&c->measured, c->points_file, machine, executor, NULL, error));
    if (strcmp(machine, c->name) != 0 || strcmp(executor, c->executor->name) != 0) {
        return error_at(error, STATUS_BAD_INPUT, c->points_file, NULL,
                        "holds points of machine \"%s\" by executor %s, not of \"%s\" by %s: give another --points, or "
                        "--fresh to measure anew",
                        machine, executor, c->name, c->executor->name);
    }
    return STATUS_OK;
}

/* Opens the file for appending, as this process's alone, and takes up what is in it. A line that was cut short is cut off; killed at any instant, whole lines stay. */
static enum status open_points(struct calibration *c, struct error *error)
{
    size_t length = 0;
    TRY(check_points_file(c, error));
    c->file = fopen(c->points_file, "a");
    if (c->file == NULL) {
        return error_at(error, STATUS_IO, c->points_file, NULL, "cannot be written: %s", strerror(errno));
    }
    if (flock(fileno(c->file), LOCK_EX | LOCK_NB) != 0) {
        return error_at(error, STATUS_EXECUTION, c->points_file, NULL, "another calibration is writing it");
    }
    if (c->fresh == NULL) {
        TRY(whole_lines(c, &length, error));
    }
    if (length > 0) {
        TRY(take_up(c, error));
    }
    if (c->measured.count > 0 && !c->flags.quiet) {
        fprintf(stderr, "memwall: %u points measured before are in %s (--fresh measures anew)\n", c->measured.count,
                c->points_file);
    }
    if (ftruncate(fileno(c->file), (off_t)length) != 0) {
        return error_at(error, STATUS_IO, c->points_file, NULL, "cannot be cut to its whole lines: %s",
                        strerror(errno));
    }
    return length > 0 ? STATUS_OK : points_begin(c->file, c->name, c->executor->name, error);
}

/* ---- measuring ---- */

static double clock_s(void)
{
    struct timespec now = { 0 };
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* A bar on a terminal; else a line each tenth of the way. */
static void show(struct calibration *c, uint32_t done, uint32_t total, double seconds_left, const struct point *point)
{
    char what[96], bar[21], left[32];
    double share = total > 0 ? (double)done / total : 1, now_s = clock_s();
    uint32_t tenth = (uint32_t)(10 * share);
    if (c->terminal ? now_s - c->shown_s < 0.1 && done < total : tenth <= c->shown_tenth) {
        return;
    }
    c->shown_s = now_s;
    c->shown_tenth = tenth;
    for (int i = 0; i < 20; i++) {
        bar[i] = share * 20 > i ? '#' : '.';
    }
    bar[20] = '\0';
    text_time_ps(ps_nearest_s(seconds_left), left, sizeof left);
    fprintf(stderr, "%s[%s] %3.0f %%  about %s left  %s%s", c->terminal ? "\r\033[K" : "", bar, 100 * share, left,
            point_text(point, what, sizeof what), c->terminal ? "" : "\n");
}

static bool progress(void *context, uint32_t done, uint32_t total, double seconds_left, const struct point *point)
{
    struct calibration *c = context;
    if (!c->flags.quiet) {
        show(c, done, total, seconds_left, point);
    }
    return !interrupt_seen();
}

static void note_left_out(void *context, const struct point *point, const char *why)
{
    struct calibration *c = context;
    if (c->left_out_count < LEFT_OUT_MAX) {
        struct left_out *left = &c->left_out[c->left_out_count];
        left->point = *point;
        (void)snprintf(left->why, sizeof left->why, "%s", why);
    }
    c->left_out_count++;
}

/* Sets *stopped when a signal came. */
static enum status measure(struct calibration *c, bool *stopped, struct error *error)
{
    char source[POINT_SOURCE_BYTES];
    (void)snprintf(source, sizeof source, "measured on %s by executor %s", c->name, c->executor->name);
    c->options.source = source;
    c->options.progress = progress;
    c->options.left_out = note_left_out;
    c->options.progress_context = c;
    c->terminal = isatty(STDERR_FILENO) == 1;
    enum status status = measure_plan(&c->options, &c->plan, error);
    if (status == STATUS_OK) {
        interrupt_catch(); /* the point that is being measured is finished and kept */
        status = measure_points(&c->options, &c->plan, &c->measured, c->file, stopped, error);
        interrupt_release();
    }
    if (!c->flags.quiet && c->terminal) {
        fputs("\r\033[K", stderr);
    }
    if (status == STATUS_OK && !*stopped && c->measured.count == 0) {
        status = error_set(error, STATUS_EXECUTION, "nothing could be measured: %s",
                           c->left_out_count > 0 ? c->left_out[0].why : "the plan is empty");
    }
    return status;
}

/* Says on standard error how an unfinished calibration stands. */
static void tell_kept(const struct calibration *c)
{
    fprintf(stderr, "memwall: %u of %u points are kept in %s; the same command goes on from there\n", c->measured.count,
            c->plan.count, c->points_file);
}

/* ---- importing and fitting ---- */

/* In the plan's order, whatever interruptions did to the file's: the same points give the same fit. */
static enum status take_measured(struct calibration *c, struct error *error)
{
    for (uint32_t i = 0; i < c->plan.count; i++) {
        const struct point *found = points_find(&c->measured, &c->plan.items[i]);
        if (found != NULL) {
            TRY(points_add(&c->all, found, error));
        }
    }
    for (uint32_t i = 0; i < c->measured.count; i++) { /* measured under other flags */
        if (points_find(&c->plan, &c->measured.items[i]) == NULL) {
            TRY(points_add(&c->all, &c->measured.items[i], error));
        }
    }
    return STATUS_OK;
}

static enum status import_all(struct calibration *c, struct error *error)
{
    if (c->draft == NULL) {
        TRY(draft_new(&c->draft, c->name, c->base, error));
    }
    TRY(take_measured(c, error));
    for (uint32_t i = 0; i < c->from_count; i++) {
        struct import_result result = { 0 };
        enum status status = import_file(c->from[i], c->system, &c->all, c->draft, &result, error);
        if (status == STATUS_OK) {
            strbuf_printf(&c->notes, "%s: %u points, %u rows passed over\n", c->from[i], result.points, result.skipped);
            strbuf_append(&c->notes, result.notes.text != NULL ? result.notes.text : "");
        }
        import_result_free(&result);
        TRY(status);
    }
    return STATUS_OK;
}

/* A file that brought its topology only (nvidia-smi topo -m) has nothing to fit. */
static enum status fit(struct calibration *c, struct error *error)
{
    if (c->all.count > 0) {
        TRY(fit_points(c->draft, &c->all, &c->report, error));
    } else if (c->from_count == 0) {
        return error_set(error, STATUS_BAD_INPUT, "there is nothing to fit from");
    }
    return draft_write(c->draft, c->flags.out, error);
}

/* ---- the answer ---- */

static void print_left_out(const struct calibration *c, struct strbuf *out)
{
    char what[96];
    if (c->left_out_count == 0) {
        return;
    }
    strbuf_printf(out, "%u points were left out", c->left_out_count);
    uint32_t shown = c->left_out_count < 5 ? c->left_out_count : 5;
    for (uint32_t i = 0; i < shown; i++) {
        strbuf_printf(out, "%s\n  %s: %s", i == 0 ? ":" : "", point_text(&c->left_out[i].point, what, sizeof what),
                      c->left_out[i].why);
    }
    strbuf_append(out, c->left_out_count > shown ? "\n  ...\n" : "\n");
}

/* The constants that have one, as they are in the file. */
static void print_constants(const struct calibration *c, const struct machine *written, struct strbuf *out)
{
    strbuf_printf(out, "\n%-46s %14s %14s\n", "constant, in the unit of its name", "value", "standard error");
    for (uint32_t i = 0; i < written->standard_error_count; i++) {
        const struct machine_standard_error *one = &written->standard_errors[i];
        strbuf_printf(out, "%-46s %14.6g %14.2g\n", one->field, draft_get(c->draft, one->field, NAN), one->value);
    }
}

static void answer_text(const struct calibration *c, const struct machine *written, struct strbuf *out)
{
    strbuf_append(out, c->notes.text != NULL ? c->notes.text : "");
    if (c->report.line_count > 0) {
        fit_report_print(&c->report, out);
        print_constants(c, written, out);
    }
    print_left_out(c, out);
    strbuf_printf(out, "\nWritten: %s, machine \"%s\", from %u points. Simulate with --set machine=%s\n", c->flags.out,
                  c->name, c->all.count, c->flags.out);
}

static void answer_lines(const struct calibration *c, struct json_writer *w)
{
    jw_array(w, "residuals");
    for (uint32_t i = 0; i < c->report.line_count; i++) {
        const struct fit_line *line = &c->report.lines[i];
        jw_object(w, NULL);
        jw_string(w, "what", line->what);
        jw_uint(w, "points", line->points);
        jw_uint(w, "left_out", line->left_out);
        jw_real(w, "mean_error", line->mean_error);
        jw_real(w, "worst_error", line->worst_error);
        if (isnan(line->left_out_mean_error)) {
            jw_null(w, "left_out_mean_error");
        } else {
            jw_real(w, "left_out_mean_error", line->left_out_mean_error);
        }
        jw_end(w);
    }
    jw_end(w);
}

/* Each line of a text as a string. */
static void answer_text_lines(struct json_writer *w, const char *key, const char *text)
{
    char line[512];
    jw_array(w, key);
    while (text != NULL && *text != '\0') {
        size_t length = strcspn(text, "\n");
        (void)snprintf(line, sizeof line, "%.*s", (int)(length < sizeof line ? length : sizeof line - 1), text);
        jw_string(w, NULL, line);
        text += length + (text[length] == '\n');
    }
    jw_end(w);
}

static void answer_json(const struct calibration *c, const struct machine *written, struct strbuf *out)
{
    char what[96];
    struct json_writer w = { .out = out };
    jw_object(&w, NULL);
    jw_string(&w, "schema", "memwall.calibration/1");
    jw_string(&w, "machine", c->name);
    jw_string(&w, "file", c->flags.out);
    jw_string(&w, "executor", c->measures ? c->executor->name : NULL);
    jw_string(&w, "points_file", c->measures ? c->points_file : NULL);
    jw_uint(&w, "points", c->all.count);
    jw_array(&w, "constants");
    for (uint32_t i = 0; i < written->standard_error_count; i++) {
        const struct machine_standard_error *one = &written->standard_errors[i];
        jw_object(&w, NULL);
        jw_string(&w, "field", one->field);
        jw_real(&w, "value", draft_get(c->draft, one->field, 0));
        jw_real(&w, "standard_error", one->value);
        jw_end(&w);
    }
    jw_end(&w);
    answer_lines(c, &w);
    answer_text_lines(&w, "missing", c->report.missing.text);
    answer_text_lines(&w, "notes", c->notes.text);
    jw_array(&w, "left_out");
    for (uint32_t i = 0; i < c->left_out_count && i < LEFT_OUT_MAX; i++) {
        jw_object(&w, NULL);
        jw_string(&w, "point", point_text(&c->left_out[i].point, what, sizeof what));
        jw_string(&w, "why", c->left_out[i].why);
        jw_end(&w);
    }
    jw_end(&w);
    jw_end(&w);
    strbuf_char(out, '\n');
}

static enum exit_code answer(const struct calibration *c, struct error *error)
{
    struct machine written;
    struct strbuf out = { 0 };
    char path[PATH_MAX];
    (void)snprintf(path, sizeof path, "%s%s", strchr(c->flags.out, '/') == NULL ? "./" : "", c->flags.out);
    if (machine_load(&written, path, error) != STATUS_OK) {
        return cli_complain(error);
    }
    if (c->flags.json) {
        answer_json(c, &written, &out);
    } else {
        answer_text(c, &written, &out);
    }
    machine_free(&written);
    return cli_print(&out, EXIT_DONE);
}

/* A fit refuses points by name. Kept points would be refused again: how to be rid of one that a busy computer spoilt. */
static enum exit_code refused(const struct calibration *c, const struct error *error)
{
    enum exit_code code = cli_complain(error);
    if (c->measures && error->status == STATUS_BAD_INPUT) {
        fprintf(stderr,
                "memwall: if that was measured here, beside other work: take its line out of %s and give the same "
                "command again, which measures it anew (--fresh: everything)\n",
                c->points_file);
    }
    return code;
}

static enum exit_code calibrate(struct calibration *c)
{
    struct error error = { 0 };
    bool stopped = false;
    enum status status = read_flags(c, &error);
    if (status == STATUS_OK && c->measures) {
        status = prepare(c, &error);
        if (status == STATUS_OK) {
            status = open_points(c, &error);
        }
        if (status == STATUS_OK) {
            status = measure(c, &stopped, &error);
            if (status != STATUS_OK || stopped) {
                if (status != STATUS_OK) {
                    cli_complain(&error);
                }
                tell_kept(c);
                return EXIT_FAILED;
            }
        }
    }
    if (status == STATUS_OK) {
        status = import_all(c, &error);
    }
    if (status != STATUS_OK) {
        return cli_complain(&error);
    }
    return fit(c, &error) == STATUS_OK ? answer(c, &error) : refused(c, &error);
}

static void calibration_free(struct calibration *c)
{
    if (c->file != NULL) {
        (void)fclose(c->file); /* each line was flushed and checked when it was written */
    }
    if (c->has_cluster) {
        cluster_free(&c->cluster);
    }
    if (c->has_machine) {
        machine_free(&c->machine);
    }
    draft_free(c->draft);
    points_free(&c->plan);
    points_free(&c->measured);
    points_free(&c->all);
    fit_report_free(&c->report);
    strbuf_free(&c->notes);
    free(c);
}

static enum exit_code run(int argc, char **argv)
{
    enum exit_code code = EXIT_BAD_INPUT;
    struct calibration *c = calloc(1, sizeof *c);
    if (c == NULL) {
        fprintf(stderr, "memwall: out of memory\n");
        return EXIT_FAILED;
    }
    const struct cli_flag more[] = {
        { "from", "FILE", "points or topology that somebody measured (repeatable)", &c->last_from },
        { "system", "NAME", "which machine of a table read with --from", &c->system },
        { "base", "MACHINE", "library machine or file that gives what is not measured", &c->base },
        { "name", "NAME", "the machine's name (default: of the file)", &c->name },
        { "devices", "N", "host: threads that are devices (default 8); cuda: GPUs to use", &c->devices_text },
        { "seconds", "S", "how long to measure, roughly (default 60)", &c->seconds_text },
        { "storage", "DIR", "measure storage too, with files in DIR", &c->storage },
        { "points", "FILE", "where measured points are kept (default MACHINE.json.points.jsonl)", &c->points_path },
        { "fresh", NULL, "measure anew, whatever is kept", &c->fresh },
    };
    if (collect_from(c, argc, argv) &&
        cli_parse(&command_calibrate, argc, argv, &c->flags, more, sizeof more / sizeof more[0], &code)) {
        code = calibrate(c);
    }
    calibration_free(c);
    return code;
}
