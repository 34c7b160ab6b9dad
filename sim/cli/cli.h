/* The command line: the only place that reads arguments and environment, and prints.
 *
 * Standard output is the answer, standard error progress and complaints. Exit codes: see enum exit_code.
 *
 * To add a command: one file command_NAME.c with a `const struct cli_command`, declared below, a line in main.c, a golden test. sim/cli/command_schedule.c is the smallest: it shows cli_parse, job.h and
 * cli_answer. What can be said without printing belongs to a lower floor (sim/report). */
#ifndef MEMWALL_CLI_CLI_H
#define MEMWALL_CLI_CLI_H

#include <stdbool.h>
#include <stdint.h>

#include "sim/base/status.h"
#include "sim/base/strbuf.h"

enum exit_code { EXIT_DONE = 0, EXIT_BAD_INPUT = 1, EXIT_DOES_NOT_FIT = 2, EXIT_FAILED = 3 };

enum { SETS_MAX = 64, POSITIONALS_MAX = 8 };

/* The flags that several commands share. */
struct cli_flags {
    const char *positionals[POSITIONALS_MAX];
    uint32_t positional_count;
    const char *sets[SETS_MAX]; /* --set PATH=VALUE */
    uint32_t set_count;
    const char *out;      /* --out DIR, or NULL */
    const char *executor; /* --executor, or the command's default */
    const char *detail;   /* --detail, or NULL */
    const char *scenario; /* text made from other input, which positionals[0] names; NULL: that is the file */
    const char *plan;     /* a plan file in place of the scenario's own split, or NULL */
    bool json, quiet, no_fold;
};

/* One more flag of a command: `value` gets the text (or "1" for flags without a value). */
struct cli_flag {
    const char *name;     /* without dashes */
    const char *argument; /* its name in --help; NULL: no value */
    const char *help;
    const char **value;
};

/* What --plan says of itself, wherever a command takes one. */
#define CLI_PLAN_FLAG(value)                                                                                           \
    {                                                                                                                  \
        "plan", "FILE", "a plan (memwall plan --out, or written by hand) in place of the scenario's split", value      \
    }

struct cli_command {
    const char *name, *usage, *summary, *help;
    uint32_t positional_min, positional_max;
    bool takes_scenario;  /* --set, --detail, --no-fold */
    const char *executor; /* the default of --executor; NULL: the command simulates or runs nothing */
    const char *out_file; /* --help of --out where that names a file; NULL: a folder */
    bool out_either;      /* --out may name a file or an existing folder */
    enum exit_code (*run)(int argc, char **argv);
};

extern const struct cli_command command_run, command_explain, command_schedule, command_pipeline, command_list,
    command_validate, command_calibrate, command_compare, command_fit, command_plan, command_sweep, command_import,
    command_report, command_buy;

/* Parses argv[1..] for `command`; prints help, the version or the complaint. Returns false when the command shall end
 * with *code. A flag that the command would not heed is refused, never passed over in silence; so is --out where
 * nothing can be written. */
bool cli_parse(const struct cli_command *command, int argc, char **argv, struct cli_flags *flags,
               const struct cli_flag *more, uint32_t more_count, enum exit_code *code);

/* Before the work: whether the file that a flag of the command names (NULL: none) can be written; complains and returns false when not. */
bool cli_can_write(const char *flag, const char *path);
/* Complain on standard error and return the exit code of the error. */
enum exit_code cli_complain(const struct error *error);
/* "memwall 0.1 ...", and its executors. */
void cli_print_version(void);
/* The answer of a command: with --out also into DIR/NAME.json or .txt; then as cli_print. */
enum exit_code cli_answer(const struct cli_flags *flags, const char *name, struct strbuf *out, enum exit_code code);
/* Print to standard output and free; a short write is an error. */
enum exit_code cli_print(struct strbuf *out, enum exit_code code);
/* A number of a flag; complains and returns false when it is none or out of range. */
bool cli_number(const char *flag, const char *text, double minimum, double maximum, double *value);
/* The same of a count: 1.5 is none. */
bool cli_whole(const char *flag, const char *text, double minimum, double maximum, double *value);
/* A number of a flag ("--steps"); `text` NULL: *value stays. STATUS_BAD_INPUT names the flag and the range. */
enum status cli_read_number(const char *flag, const char *text, double minimum, double maximum, bool whole,
                            double *value, struct error *error);

#endif
