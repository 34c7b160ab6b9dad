/* The executors by name. `sim` is part of the program; those that measure are shared objects, opened when they are named: simulating loads no BLAS and no CUDA.
 *
 * They are looked for beside the program (build tree) and in ../lib/memwall (installed). They stay loaded until the program ends. */
#ifndef MEMWALL_CLI_EXECUTORS_H
#define MEMWALL_CLI_EXECUTORS_H

#include "sim/base/strbuf.h"
#include "sim/cli/cli.h"
#include "sim/exec.h"

/* name, how it comes to be: said when it is missing */
#define EXECUTOR_TABLE(X)                                                                                              \
    X("sim", "")                                                                                                       \
    X("host", "needs OpenBLAS when memwall is built: apt install libopenblas-dev, then build again")                   \
    X("cuda", "needs the CUDA toolkit (nvcc, cuBLAS; NCCL and MPI when there) when memwall is built: apt install "     \
              "nvidia-cuda-toolkit or NVIDIA's packages, then build again")

/* STATUS_BAD_INPUT with the nearest name when there is no such executor. */
enum status executor_check_name(const char *name, struct error *error);

/* STATUS_BAD_INPUT: no such executor. STATUS_UNSUPPORTED: it is not built. STATUS_EXECUTION: it cannot be loaded here, or was built for another memwall. The message
 * says what is missing. The executor is the program's: nothing to free. */
enum status executor_open(const char *name, const struct executor **executor, struct error *error);

/* The flags of commands that run executors which measure: their texts, for cli_parse. */
struct executor_flags {
    const char *steps, *warmup, *patience, *scratch, *emulate, *check;
};
enum { EXECUTOR_FLAG_COUNT = 6, EXECUTOR_STEPS_MAX = 1024 };
/* `steps_help` says the default: "measured steps (default 3)". */
void executor_flags_list(struct executor_flags *texts, const char *steps_help,
                         struct cli_flag list[EXECUTOR_FLAG_COUNT]);
/* Into the fields of real executors. STATUS_BAD_INPUT: no number, out of range, or a flag that `executor` does not heed. */
enum status executor_flags_read(const struct executor_flags *texts, const struct executor *executor,
                                uint32_t default_steps, struct exec_options *options, struct error *error);

/* For --version: one line an executor, what it is or why it cannot be used; then what they were built with. */
void executors_print(struct strbuf *out);

#endif
