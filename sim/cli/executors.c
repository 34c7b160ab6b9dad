#include "sim/cli/executors.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sim/base/check.h"
#include "sim/base/file.h"
#include "sim/base/json.h"
#include "sim/cli/flag_files.h"

/* Written by the build of the CUDA executor: MEMWALL_EXECUTORS_BUILT, what each was built with. */
#if __has_include(<executors_built.h>)
#include <executors_built.h>
#endif

static const char *const NAMES[] = {
#define X(name, missing) name,
    EXECUTOR_TABLE(X)
#undef X
};
static const char *const MISSING[] = {
#define X(name, missing) missing,
    EXECUTOR_TABLE(X)
#undef X
};
enum { EXECUTOR_COUNT = sizeof NAMES / sizeof NAMES[0] };

static int index_of(const char *name)
{
    for (int i = 0; i < EXECUTOR_COUNT; i++) {
        if (strcmp(name, NAMES[i]) == 0) {
            return i;
        }
    }
    return -1;
}

enum status executor_check_name(const char *name, struct error *error)
{
    if (index_of(name) >= 0) {
        return STATUS_OK;
    }
    char known[128] = "";
    for (int i = 0; i < EXECUTOR_COUNT; i++) {
        size_t length = strlen(known);
        snprintf(known + length, sizeof known - length, "%s%s", i > 0 ? ", " : "", NAMES[i]);
    }
    const char *near = nearest_word(name, NAMES, EXECUTOR_COUNT);
    return error_at(error, STATUS_BAD_INPUT, "--executor", NULL, "there is no executor \"%.100s\"%s%s%s; executors: %s",
                    name, near != NULL ? "; did you mean \"" : "", near != NULL ? near : "", near != NULL ? "\"?" : "",
                    known);
}

/* The folder of the running program, without the last '/'. */
static enum status program_folder(char folder[PATH_MAX], struct error *error)
{
    ssize_t length = readlink("/proc/self/exe", folder, PATH_MAX - 1);
    if (length <= 0) {
        return error_set(error, STATUS_IO, "/proc/self/exe cannot be read: where executors lie is unknown");
    }
    folder[length] = '\0';
    char *slash = strrchr(folder, '/');
    if (slash != NULL) {
        *slash = '\0';
    }
    return STATUS_OK;
}

/* The shared object of an executor; STATUS_UNSUPPORTED when there is none. */
static enum status find_object(int index, char path[PATH_MAX], struct error *error)
{
    static const char *const places[] = { "", "/../lib/memwall" };
    char folder[PATH_MAX];
    TRY(program_folder(folder, error));
    for (int i = 0; i < (int)(sizeof places / sizeof places[0]); i++) {
        int length = snprintf(path, PATH_MAX, "%s%s/memwall_exec_%s.so", folder, places[i], NAMES[index]);
        if (length < PATH_MAX && file_exists(path)) {
            return STATUS_OK;
        }
    }
    return error_at(error, STATUS_UNSUPPORTED, "--executor", NULL,
                    "the executor %s is not built: there is no memwall_exec_%s.so in %.200s or %.200s/../lib/memwall. "
                    "It %s",
                    NAMES[index], NAMES[index], folder, folder, MISSING[index]);
}

enum status executor_open(const char *name, const struct executor **executor, struct error *error)
{
    *executor = NULL;
    TRY(executor_check_name(name, error));
    int index = index_of(name);
    if (strcmp(name, exec_sim.name) == 0) {
        *executor = &exec_sim;
        return STATUS_OK;
    }
    char path[PATH_MAX];
    TRY(find_object(index, path, error));
    /* OpenBLAS starts a thread for every core as it is loaded. The executor host, which has threads of its own, uses none of them, and with little memory they hang the program's end. */
    (void)setenv("OPENBLAS_NUM_THREADS", "1", 1);
    void *object = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (object == NULL) {
        const char *why = dlerror();
        return error_at(error, STATUS_EXECUTION, "--executor", NULL,
                        "the executor %s is built but cannot be loaded here: %.400s. A library that is missing must be "
                        "installed, or its folder named in LD_LIBRARY_PATH",
                        name, why != NULL ? why : "no reason given");
    }
    /* POSIX lets object pointers from dlsym stand for functions; ISO C has no cast for it. */
    executor_entry *entry = NULL;
    void *symbol = dlsym(object, EXECUTOR_ENTRY);
    _Static_assert(sizeof entry == sizeof symbol, "dlsym returns functions");
    memcpy(&entry, &symbol, sizeof entry);
    const struct executor *found = entry != NULL ? entry() : NULL;
    enum status status = STATUS_OK;
    if (found == NULL) {
        status = error_at(error, STATUS_EXECUTION, path, NULL, "is no executor: %s",
                          entry == NULL ? "it exports no " EXECUTOR_ENTRY : EXECUTOR_ENTRY "() returned none");
    } else if (found->abi != EXECUTOR_ABI) {
        status = error_at(error, STATUS_EXECUTION, path, NULL,
                          "was built for executor interface %u, this memwall has %u: build both from the same sources",
                          found->abi, (unsigned)EXECUTOR_ABI);
    }
    if (status != STATUS_OK) {
        (void)dlclose(object);
        return status;
    }
    *executor = found;
    return STATUS_OK;
}

void executor_flags_list(struct executor_flags *texts, const char *steps_help,
                         struct cli_flag list[EXECUTOR_FLAG_COUNT])
{
    const struct cli_flag flags[EXECUTOR_FLAG_COUNT] = {
        { "steps", "N", steps_help, &texts->steps },
        { "warmup", "N", "host, cuda: steps before them that are not measured (default 1)", &texts->warmup },
        { "patience", "SECONDS", "host, cuda: an op that runs or waits for partners longer is hung (default 60)",
          &texts->patience },
        { "scratch", "DIR", "host, cuda: where files that stand for storage go (default /tmp)", &texts->scratch },
        { "emulate", NULL, "cuda: ranks share GPUs; collectives between them are copies and sums", &texts->emulate },
        { "check", NULL, "host, cuda: verify what copies and collectives did; times then mean nothing", &texts->check },
    };
    memcpy(list, flags, sizeof flags);
}

enum status executor_flags_read(const struct executor_flags *texts, const struct executor *executor,
                                uint32_t default_steps, struct exec_options *options, struct error *error)
{
    const struct {
        const char *flag, *text;
        bool cuda_only;
    } given[] = { { "--steps", texts->steps, false },       { "--warmup", texts->warmup, false },
                  { "--patience", texts->patience, false }, { "--scratch", texts->scratch, false },
                  { "--check", texts->check, false },       { "--emulate", texts->emulate, true } };
    bool measures = (executor->capabilities & EXECUTOR_MEASURES) != 0;
    for (size_t i = 0; i < sizeof given / sizeof given[0]; i++) {
        if (given[i].text != NULL && !measures) {
            return error_at(error, STATUS_BAD_INPUT, given[i].flag, NULL,
                            "says how to measure; the executor %s computes the one time that the step takes. Add "
                            "--executor host or cuda",
                            executor->name);
        }
        if (given[i].text != NULL && given[i].cuda_only && strcmp(executor->name, "cuda") != 0) {
            return error_at(error, STATUS_BAD_INPUT, given[i].flag, NULL,
                            "lets ranks share GPUs; the executor %s has none: every rank has its own threads",
                            executor->name);
        }
    }
    double steps = default_steps, warmup = 1, patience_s = 60;
    TRY(cli_read_number("--steps", texts->steps, 1, EXECUTOR_STEPS_MAX, true, &steps, error));
    TRY(cli_read_number("--warmup", texts->warmup, 0, EXECUTOR_STEPS_MAX, true, &warmup, error));
    TRY(cli_read_number("--patience", texts->patience, 0.001, 86400, false, &patience_s, error));
    if (texts->scratch != NULL) {
        TRY(flag_scratch_folder("--scratch", texts->scratch, error));
    }
    options->steps = (uint32_t)steps;
    options->warmup_steps = (uint32_t)warmup;
    options->patience_s = patience_s;
    options->scratch_folder = texts->scratch;
    options->emulate = texts->emulate != NULL;
    options->check = texts->check != NULL;
    return STATUS_OK;
}

void executors_print(struct strbuf *out)
{
    strbuf_append(out, "executors:\n");
    for (int i = 0; i < EXECUTOR_COUNT; i++) {
        const struct executor *executor;
        struct error error = { 0 };
        enum status status = executor_open(NAMES[i], &executor, &error);
        strbuf_printf(out, "  %-5s ", NAMES[i]);
        if (executor != NULL) {
            strbuf_printf(out, "%s\n", executor->summary);
        } else if (status == STATUS_UNSUPPORTED) {
            strbuf_printf(out, "not built: it %s\n", MISSING[i]);
        } else {
            strbuf_printf(out, "not usable: %s\n", error.message);
        }
    }
#ifdef MEMWALL_EXECUTORS_BUILT
    strbuf_printf(out, "built with: %s\n", MEMWALL_EXECUTORS_BUILT);
#endif
}
