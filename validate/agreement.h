/* Agreement of two runs of one schedule: simulated against measured.
 *
 *     TRY(agreement_begin(&collector, &schedule, error));
 *     ... for each measured step: agreement_step(collector, timeline, error);
 *     TRY(agreement_finish(collector, &simulated, AGREEMENT_FLOOR_S, &agreement, error));     // frees the collector, also on error
 *     agreement_print(&agreement, &schedule, &out);  agreement_free(&agreement);
 *
 * Repeats. Of an op and of the step the median over the measured steps counts (nearest rank: sim/core/quantile.h), so that one disturbed step says nothing. How far
 * the steps scatter is told beside the error: `noise` is about a 95 % interval of the median, 1.96 * sqrt(pi/2) * 1.4826 * MAD / sqrt(n), relative (sqrt(pi/2) sigma / sqrt(n) is the
 * standard error of the median of normal values, 1.4826 MAD their robust sigma); of fewer than five steps, too few for a MAD, half of their range. An error within the noise is none.
 *
 * Errors of ops are |simulated - measured| / measured of their durations (end - start, alone or not), but never over less than the floor: below it, it is the clock and
 * the thread switch that is measured. Marks take no time and are left out.
 *
 * A schedule may hold several training steps, of which the settled one counts (timeline_step): the step is its length, in each timeline by its own times, and errors are those of the ops that
 * begin in it in the simulation. Peaks are those of all.
 *
 * Peaks should be equal to the byte. Where a schedule leaves it to timing what lives beside what (copies beside compute), two true runs can differ: beside the peaks stands the range that
 * any timing can give (sim/ir/peak_range.h). A peak outside of it is no matter of timing but a fault of the executor. */
#ifndef MEMWALL_VALIDATE_AGREEMENT_H
#define MEMWALL_VALIDATE_AGREEMENT_H

#include "hw_models/machine.h"
#include "hw_models/software.h"
#include "sim/base/strbuf.h"
#include "sim/ir/schedule.h"
#include "sim/ir/timeline.h"

enum { AGREEMENT_WORST = 10, AGREEMENT_STEPS_MAX = 1024 };

/* What dispatching one op may take on a real executor (2 us, the bound that the host executor is held to): shorter ops are judged by their absolute error over this. */
#define AGREEMENT_FLOOR_S 2e-6

struct agreement_group { /* ops of one opcode or phase, or all */
    uint32_t ops;
    double median_error, p90_error;
    double bias;                    /* signed, of the sums: (simulated - measured) / measured */
    double simulated_s, measured_s; /* sums of durations */
};

struct agreement_op {
    uint32_t op;
    double simulated_s, measured_s, error;
};

/* Peaks. Measured: the highest of all steps. Least and most: whatever the timing, when agreement.ranges_known. */
struct agreement_space {
    uint32_t space;
    uint64_t simulated_peak_bytes, measured_peak_bytes, simulated_reserved_bytes, measured_reserved_bytes;
    uint64_t least_peak_bytes, most_peak_bytes;
};

struct agreement {
    char executor[16];
    struct hash schedule_hash;
    bool emulated;
    bool memory_equal; /* peak_bytes of every space, to the byte */
    bool ranges_known; /* false: the schedule is too large for it */
    double simulated_step_s;
    double steps_s[AGREEMENT_STEPS_MAX]; /* each measured step, in the order they ran */
    uint32_t step_count;
    uint32_t training_steps; /* that the schedule holds: more than one, and the last but one counts */
    double median_step_s, min_step_s, max_step_s;
    double spread;     /* median absolute deviation over median */
    double noise;      /* of the median, relative; see above. NaN: one step says nothing about it */
    double step_error; /* |simulated - median| / median */
    double signed_step_error;
    double floor_s;
    struct agreement_group all, by_opcode[OPCODE_COUNT], by_phase[PHASE_COUNT];
    struct agreement_op worst[AGREEMENT_WORST]; /* by error, falling; equal ones in the schedule's order */
    uint32_t worst_count;
    struct agreement_space *spaces; /* [space_count], owned */
    uint32_t space_count;
    double *op_simulated_s, *op_measured_s; /* [op_count], owned; measured: the median over steps */
    bool *op_inside;                        /* [op_count], owned: begins within the step */
    uint32_t op_count;
};

/* Collects measured steps; each must be of the same schedule, which is borrowed until agreement_finish. */
struct agreement_collector; /* private */
enum status agreement_begin(struct agreement_collector **collector, const struct schedule *schedule,
                            struct error *error);
/* STATUS_BAD_INPUT: another hash (both are printed), a step that did not end. STATUS_LIMIT: more than AGREEMENT_STEPS_MAX. */
enum status agreement_step(struct agreement_collector *collector, const struct timeline *measured, struct error *error);
uint32_t agreement_step_count(const struct agreement_collector *collector);
/* Compare with the simulated timeline and free the collector. STATUS_BAD_INPUT when hashes differ or nothing was measured. floor_s > 0. */
enum status agreement_finish(struct agreement_collector *collector, const struct timeline *simulated, double floor_s,
                             struct agreement *agreement, struct error *error);
void agreement_abandon(struct agreement_collector *collector); /* NULL is fine */
void agreement_free(struct agreement *agreement);

/* Spaces whose measured peak no timing of the schedule gives: a fault of the executor. 0 when the ranges are not known. */
uint32_t agreement_impossible(const struct agreement *agreement);
/* The error of one duration, as above. */
double agreement_error(double simulated_s, double measured_s, double floor_s);

/* Text for people; JSON "memwall.validation/1" (DESIGN.md section 6). `notes`: what should be known of the comparison, a line each, or "". */
void agreement_print(const struct agreement *agreement, const struct schedule *schedule, const char *notes,
                     struct strbuf *out);
void agreement_print_json(const struct agreement *agreement, const struct schedule *schedule, const char *notes,
                          struct strbuf *out);
/* One row an op: what it is, both durations, the error. */
void agreement_print_csv(const struct agreement *agreement, const struct schedule *schedule, struct strbuf *out);

/* The software model under which an executor's own run is simulated: lowering (kernels, numbers, communication, allocator) as it is, but no framework on the host: launches,
 * copies and collectives cost what the machine's bare latencies say, and nothing else does. */
void agreement_software(const struct machine *machine, struct software *software);

#endif
