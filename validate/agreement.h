/* Agreement of two runs of one schedule: simulated against measured. */
#ifndef MEMWALL_VALIDATE_AGREEMENT_H
#define MEMWALL_VALIDATE_AGREEMENT_H

#include "hw_models/machine.h"
#include "hw_models/software.h"
#include "sim/base/strbuf.h"
#include "sim/ir/schedule.h"
#include "sim/ir/timeline.h"

enum { AGREEMENT_WORST = 10, AGREEMENT_STEPS_MAX = 1024 };

struct agreement_group { /* one opcode, or all */
    uint32_t ops;
    double median_error, p90_error, bias; /* of op durations: |sim - measured| / measured; bias signed, of the sums */
    double simulated_s, measured_s;       /* sums */
};

struct agreement_op {
    uint32_t op;
    double simulated_s, measured_s, error;
};

struct agreement_space {
    uint32_t space;
    uint64_t simulated_peak_bytes, measured_peak_bytes, simulated_reserved_bytes, measured_reserved_bytes;
};

struct agreement {
    char executor[16];
    struct hash schedule_hash;
    bool emulated, memory_equal;
    double simulated_step_s;
    double steps_s[AGREEMENT_STEPS_MAX]; /* each measured step, in the order they ran */
    uint32_t step_count;
    double median_step_s, min_step_s, max_step_s, spread; /* spread: median absolute deviation over median */
    double step_error;                                    /* |sim - median| / median; see `signed_step_error` */
    double signed_step_error;
    struct agreement_group all, by_opcode[OPCODE_COUNT];
    struct agreement_op worst[AGREEMENT_WORST];
    uint32_t worst_count;
    struct agreement_space *spaces; /* [space_count], owned */
    uint32_t space_count;
    double *op_simulated_s,
        *op_measured_s; /* [op_count], owned: alone or not, end - start; measured: the median over steps */
    uint32_t op_count;
};

/* Collects measured steps; each must be of the same schedule. */
struct agreement_collector; /* private */
enum status agreement_begin(struct agreement_collector **collector, const struct schedule *schedule,
                            struct error *error);
enum status agreement_step(struct agreement_collector *collector, const struct timeline *measured, struct error *error);
/* Compare with the simulated timeline and free the collector. STATUS_BAD_INPUT when hashes differ (both are printed) or nothing was measured. Ops shorter than `floor_s` in both are
 * counted but judged by absolute error over floor_s: their relative error is the clock's. */
enum status agreement_finish(struct agreement_collector *collector, const struct timeline *simulated, double floor_s,
                             struct agreement *agreement, struct error *error);
void agreement_abandon(struct agreement_collector *collector);
void agreement_free(struct agreement *agreement);

void agreement_print(const struct agreement *agreement, const struct schedule *schedule, struct strbuf *out);
void agreement_print_json(const struct agreement *agreement, const struct schedule *schedule, struct strbuf *out);

/* The software model under which an executor's own run is simulated: lowering (kernels, numbers, communication) as it is, but no framework on the host: launches, copies and
 * collectives cost what the machine's bare latencies say, and nothing else does. */
void agreement_software(const struct machine *machine, struct software *software);

#endif
