/* memwall calibrate: measure this computer, or read what others measured, and write a machine file. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "sim/base/check.h"
#include "sim/base/file_place.h"
#include "sim/base/units.h"
#include "sim/cli/calibration.h"
#include "sim/cli/flag_files.h"
#include "sim/cli/interrupt.h"
#include "validate/calibrate/import.h"

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

enum { DEVICES_MAX = 64 };
static const double DEFAULT_SECONDS = 60, SECONDS_MAX = 86400;

enum status calibration_flag_error(struct error *error, const char *flag, const char *message)
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
        if (c->from_count == CALIBRATION_FROM_MAX) {
            fprintf(stderr, "memwall calibrate: more than %d --from files\n", CALIBRATION_FROM_MAX);
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
    struct stat out;
    if (stat(c->flags.out, &out) == 0 && !S_ISREG(out.st_mode)) {
        return error_at(error, STATUS_BAD_INPUT, "--out", NULL,
                        "\"%.200s\" is not a regular file: the machine is read back from it", c->flags.out);
    }
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

/* What somebody measured is not written over by what is made of it. */
static enum status check_written(const struct calibration *c, struct error *error)
{
    for (uint32_t i = 0; i < c->from_count; i++) {
        const struct flag_file files[] = { { "--out", c->flags.out },
                                           { "--points", c->measures ? c->points_file : NULL },
                                           { "--from", c->from[i] } };
        TRY(flag_files_differ(files, 3, 2, error));
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
            return calibration_flag_error(error, only[i].flag,
                                          "nothing is measured with --from alone: add --executor host or cuda");
        }
    }
    if (c->from_count == 0 && c->system != NULL) {
        return calibration_flag_error(error, "--system",
                                      "chooses a machine of a table read with --from; there is no --from");
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
        return calibration_flag_error(error, "--out", "is missing: the machine file to write, e.g. --out here.json");
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
    return length < (int)sizeof c->points_file ? check_written(c, error)
                                               : calibration_flag_error(error, "--points", "the path is too long");
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
    if (c->left_out_count < CALIBRATION_LEFT_OUT_MAX) {
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
            c->has_topology = c->has_topology || result.format == IMPORT_TOPOLOGY;
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
    } else if (!c->has_topology) {
        fputs(c->notes.text != NULL ? c->notes.text : "", stderr);
        return error_set(error, STATUS_BAD_INPUT, "there is nothing to fit from: no row was taken as a point");
    }
    return draft_write(c->draft, c->flags.out, error);
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
    } else if (!c->measures && c->base == NULL && error->status == STATUS_BAD_INPUT) {
        fprintf(stderr, "memwall: there is no --base: the library machine most like this one (memwall list machines) "
                        "gives what was not measured, and the links that copies are of\n");
    }
    return code;
}

static enum exit_code calibrate(struct calibration *c)
{
    struct error error = { 0 };
    bool stopped = false;
    enum status status = read_flags(c, &error);
    if (status == STATUS_OK && c->measures) {
        status = calibration_prepare(c, &error);
        if (status == STATUS_OK) {
            status = calibration_open_points(c, &error);
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
    return fit(c, &error) == STATUS_OK ? calibration_answer(c, &error) : refused(c, &error);
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
