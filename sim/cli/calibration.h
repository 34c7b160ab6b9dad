/* What the parts of `memwall calibrate` share: one calibration from its flags to its answer. The command (command_calibrate.c) reads the flags, measures, imports and fits; the
 * parts below find the machine, keep the file of points and print. Private to sim/cli. */
#ifndef MEMWALL_CLI_CALIBRATION_H
#define MEMWALL_CLI_CALIBRATION_H

#include <limits.h>
#include <stdio.h>

#include "hw_models/cluster.h"
#include "hw_models/software.h"
#include "sim/cli/cli.h"
#include "validate/calibrate/draft.h"
#include "validate/calibrate/measure.h"
#include "validate/calibrate/topology.h"
#include "validate/fit/fit.h"

enum { CALIBRATION_FROM_MAX = 64, CALIBRATION_LEFT_OUT_MAX = 64 };

struct left_out {
    struct point point;
    char why[160];
};

struct calibration {
    struct cli_flags flags;
    /* flags as given */
    const char *name, *base, *devices_text, *seconds_text, *storage, *points_path, *fresh, *system, *last_from;
    const char *from[CALIBRATION_FROM_MAX];
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
    bool has_machine, has_cluster, has_topology; /* a --from file brought parts and links */
    struct software software;
    struct topology topology;
    struct draft *draft;
    struct points plan, measured, all;
    struct measure_options options;
    FILE *file; /* of points */
    struct fit_report report;
    struct left_out left_out[CALIBRATION_LEFT_OUT_MAX];
    uint32_t left_out_count;
    struct strbuf notes;
    /* progress */
    bool terminal;
    double shown_s;
    uint32_t shown_tenth;
};

/* A flag's value is bad: STATUS_BAD_INPUT that names the flag. */
enum status calibration_flag_error(struct error *error, const char *flag, const char *message);

/* What is measured: opens flags.executor, finds the machine, and begins a draft of its file and the options of measuring. */
enum status calibration_prepare(struct calibration *c, struct error *error);

/* Opens points_file for appending, as this process's alone, and takes up what is in it. A line that was cut short is cut off; killed at any instant, whole lines stay. */
enum status calibration_open_points(struct calibration *c, struct error *error);

/* Prints the answer of a calibration whose machine file is written: constants, residuals, what was left out; as JSON when asked for. */
enum exit_code calibration_answer(const struct calibration *c, struct error *error);

#endif
