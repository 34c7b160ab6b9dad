/* memwall sweep: many scenarios, one database. */
#include <dlfcn.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "sim/base/check.h"
#include "sim/base/cores.h"
#include "sim/base/file.h"
#include "sim/base/json_write.h"
#include "sim/base/printable.h"
#include "sim/cli/cli.h"
#include "sim/cli/interrupt.h"
#include "sim/cli/launcher.h"
#include "sim/cli/plugins.h"
#include "sim/sweep/sweep_query.h"
#include "sim/sweep/sweep_reasons.h"
#include "sim/sweep/sweep_run.h"

static enum exit_code run(int argc, char **argv);

const struct cli_command command_sweep = {
    .name = "sweep",
    .usage = "SWEEP.json [--db FILE] [flags] | --db FILE [--where SQL] [--top N] [--pareto A,B] [flags]",
    .summary = "simulate many scenarios into one database, and ask it",
    .help =
        "SWEEP.json (\"memwall.sweep/1\") has a base scenario and axes: any path of it, with values, a range, a\n"
        "log_range, zipped axes, or an expression of other axes; and conditions. For example\n"
        "  { \"schema\": \"memwall.sweep/1\", \"base\": \"scenarios/gpt3-175b-1024-a100.json\",\n"
        "    \"axes\": [ { \"path\": \"parallel.tensor\", \"values\": [4, 8] },\n"
        "              { \"path\": \"parallel.pipeline\", \"range\": { \"from\": 8, \"to\": 16, \"step\": 8 } },\n"
        "              { \"path\": \"training.micro_batch\", \"log_range\": { \"from\": 1, \"to\": 4, \"factor\": 2 } "
        "},\n"
        "              { \"zip\": [ { \"path\": \"recompute\", \"values\": [\"none\", \"full\"] },\n"
        "                       { \"path\": \"parallel.zero_stage\", \"values\": [1, 0] } ] },\n"
        "              { \"path\": \"parallel.data\", \"expression\": \"1024 / (tensor * pipeline)\" } ],\n"
        "    \"conditions\": [ \"data * micro_batch <= 64\" ] }\n"
        "Each value of one axis is met with each of every other; zipped axes step together, an expression follows.\n"
        "Expressions: or and not == != < <= > >= in + - * / %, min max floor ceil round sqrt log2 pow if divides;\n"
        "names are axes (by name or path) or keys of the base; texts stand in ' '.\n"
        "Every point is simulated in full. What fails or does not fit is a row with its reason. With --db the rows go\n"
        "into an SQLite file as they finish: a sweep that was interrupted goes on where it was, rows that are there\n"
        "are not computed again, several sweeps may share the file. Without --db nothing is kept.\n"
        "  results   one row a scenario: version, hash, status (done, does_not_fit, error), reason, every figure\n"
        "  sweep_1   a view a sweep: its axes as columns beside those of results (axis_gpus where those have gpus)\n"
        "--schema documents all tables; any SQLite client may read the file. Sweeps to start from: scenarios/sweeps, "
        "and\n"
        "traces/lessons, which explains ten.\n"
        "Under mpirun (mpirun -n 4 memwall sweep ...) all ranks compute, rank 0 owns the database; under Slurm either\n"
        "mpirun in a batch script (sbatch --ntasks=64) or srun --mpi=pmix. A job that ended early: submit it again.\n"
        "cost in the figures is rent, in USD per 1e12 tokens (NULL without a price); memwall buy weighs owning as "
        "well.\n"
        "Prints the ten best unless --where, --top, --pareto or --csv ask for more. --where is an SQL expression, as\n"
        "in --where \"tensor = 8 and peak_bytes < 60e9\"; ranks by tokens_per_s unless --by names another figure.\n"
        "Exit: 0 all points are in the database, 1 bad input, 2 nothing fits, 3 interrupted or failed.\n",
    .positional_min = 0,
    .positional_max = 1,
    .run = run,
};

enum { DEFAULT_TOP = 10 };

struct texts {
    const char *db, *threads, *csv, *where, *top, *by, *pareto, *sweep, *schema;
};

/* --- progress */

struct show {
    struct timespec start;
    double last_s;
    bool terminal, quiet, shown;
    uint64_t at_start; /* found before anything was computed */
};

static double elapsed_s(const struct show *show)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)(now.tv_sec - show->start.tv_sec) + 1e-9 * (double)(now.tv_nsec - show->start.tv_nsec);
}

/* {"model":"gpt2","tensor":4} as "model=gpt2 tensor=4". */
static void append_axes(struct strbuf *line, const char *json)
{
    for (; *json != '\0'; json++) {
        if (strchr("{}\"", *json) == NULL) {
            strbuf_char(line, *json == ':' ? '=' : *json == ',' ? ' ' : *json);
        }
    }
}

/* A line that is longer than the terminal is wide would not be overwritten by the next. */
static int room_on_terminal(void)
{
    struct winsize size = { 0 };
    enum { USUAL = 80 };
    bool known = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
    return (known ? size.ws_col : USUAL) - 1;
}

static bool listen(void *context, const struct sweep_progress *p)
{
    enum { BAR = 10 };
    struct show *show = context;
    struct strbuf line = { 0 };
    double elapsed = elapsed_s(show), computed = (double)(p->finished - p->found);
    if (show->quiet || elapsed - show->last_s < (show->terminal ? 0.2 : 10.0)) {
        return !interrupt_seen();
    }
    show->last_s = elapsed;
    show->shown = true;
    double rate = elapsed > 0 ? computed / elapsed : 0;
    strbuf_char(&line, '[');
    for (int i = 0; i < BAR; i++) {
        strbuf_char(&line, (double)i * (double)p->total < (double)BAR * (double)p->finished ? '#' : '.');
    }
    strbuf_printf(&line, "] %" PRIu64 " of %" PRIu64 ", %.1f/s", p->finished, p->total, rate);
    if (rate > 0) {
        strbuf_printf(&line, ", %.0f s left", (double)(p->total - p->finished) / rate);
    }
    if (p->has_best) {
        strbuf_printf(&line, p->best >= 1000 ? ", best %.0f tokens/s: " : ", best %.4g tokens/s: ", p->best);
        append_axes(&line, p->best_axes);
    }
    if (!line.failed && show->terminal) {
        fprintf(stderr, "\r%.*s\033[K", room_on_terminal(), line.text);
    } else if (!line.failed) {
        fprintf(stderr, "memwall: %s\n", line.text);
    }
    strbuf_free(&line);
    return !interrupt_seen();
}

/* --- ranks */

static enum status open_transport(const struct sweep_transport **transport, struct error *error)
{
    static const char *const places[] = { "", "/../lib/memwall" };
    char folder[PATH_MAX], path[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", folder, sizeof folder - 1);
    folder[length > 0 ? length : 0] = '\0';
    char *slash = strrchr(folder, '/');
    *(slash != NULL ? slash : folder) = '\0';
    void *object = NULL;
    for (size_t i = 0; i < 2 && object == NULL; i++) {
        if (snprintf(path, sizeof path, "%s%s/memwall_sweep_mpi.so", folder, places[i]) < (int)sizeof path) {
            object = dlopen(path, RTLD_NOW | RTLD_GLOBAL); /* OpenMPI's own modules look its symbols up */
        }
    }
    sweep_transport_entry *entry = NULL;
    void *symbol = object != NULL ? dlsym(object, SWEEP_TRANSPORT_ENTRY) : NULL;
    _Static_assert(sizeof entry == sizeof symbol, "dlsym returns functions");
    memcpy(&entry, &symbol, sizeof entry);
    *transport = entry != NULL ? entry() : NULL;
    if (*transport == NULL || (*transport)->abi != SWEEP_TRANSPORT_ABI) {
        const char *why = object == NULL ? dlerror() : "it is of another build";
        return error_set(error, STATUS_EXECUTION,
                         "started as one of several MPI ranks, but memwall_sweep_mpi.so cannot be used: %.300s. Build "
                         "memwall with OpenMPI installed (libopenmpi-dev), or run it without mpirun",
                         why != NULL ? why : "no reason given");
    }
    return STATUS_OK;
}

/* --- what is asked */

static bool read_query(const struct texts *texts, bool json, struct sweep_query *query)
{
    double top = 0, sweep = 0;
    if (texts->top != NULL && !cli_whole("top", texts->top, 1, 1e9, &top)) {
        return false;
    }
    if (texts->sweep != NULL && !cli_whole("sweep", texts->sweep, 1, 1e9, &sweep)) {
        return false;
    }
    bool asks = texts->where != NULL || texts->pareto != NULL || texts->csv != NULL || json;
    *query = (struct sweep_query){
        .where = texts->where,
        .by = texts->by,
        .pareto = texts->pareto,
        .sweep = (int64_t)sweep,
        .top = texts->top == NULL && !asks ? DEFAULT_TOP : (uint64_t)top,
        .format = json                 ? SWEEP_JSON
                  : texts->csv != NULL ? SWEEP_CSV
                                       : SWEEP_TEXT,
    };
    return true;
}

static void print_reasons(const struct sweep_reasons *reasons, struct json_writer *w)
{
    jw_array(w, "reasons");
    for (uint32_t i = 0; i < reasons->count; i++) {
        const struct sweep_reason *reason = &reasons->items[i];
        jw_object(w, NULL);
        jw_int(w, "points", reason->count);
        jw_string(w, "status", reason->status);
        jw_string(w, "reason", reason->text);
        jw_int(w, "first_point", reason->point);
        jw_end(w);
    }
    jw_end(w);
}

static void print_progress(const struct sweep_progress *p, const struct sweep *sweep, double seconds,
                           const struct sweep_reasons *reasons, struct json_writer *w)
{
    jw_object(w, "sweep");
    jw_string(w, "name", sweep->name);
    jw_uint(w, "combinations", sweep->combinations);
    jw_uint(w, "points", p->total);
    jw_uint(w, "found", p->found);
    jw_uint(w, "computed", p->finished - p->found);
    for (int i = 0; i < SWEEP_STATUS_COUNT; i++) {
        jw_uint(w, sweep_status_word((enum sweep_status)i), p->counts[i]);
    }
    jw_uint(w, "ranks", p->ranks);
    jw_bool(w, "interrupted", p->interrupted);
    jw_real(w, "wall_s", seconds);
    print_reasons(reasons, w);
    jw_end(w);
}

/* What is known of one call: the sweep that ran, if one did. */
struct call {
    struct cli_flags flags;
    struct texts texts;
    struct sweep sweep;
    struct sweep_progress progress;
    struct sweep_database *database;
    struct sweep_reasons reasons; /* of its points that do not fit or failed */
    struct arena arena;
    bool ran;
    double seconds;
};

/* The commonest reasons, one line each. */
static void print_why(const struct sweep_reasons *reasons, struct strbuf *out)
{
    enum { SHOWN = 3 };
    int64_t others = reasons->others;
    char why[400];
    for (uint32_t i = 0; i < reasons->count; i++) {
        const struct sweep_reason *reason = &reasons->items[i];
        if (i >= SHOWN) {
            others += reason->count;
            continue;
        }
        snprintf(why, sizeof why, "%s", reason->text);
        make_printable(why, true);
        bool failed = strcmp(reason->status, sweep_status_word(SWEEP_ERROR)) == 0;
        const char *word = failed                                  ? "failed: "
                           : strncmp(why, "does not fit", 12) == 0 ? "" /* says so itself */
                                                                   : "do not fit: ";
        strbuf_printf(out, "%6" PRId64 "  %s%s\n", reason->count, word, why[0] != '\0' ? why : "no reason given");
    }
    if (others > 0) {
        strbuf_printf(out, "%6" PRId64 " for rarer reasons: column reason of the database, or memwall report\n",
                      others);
    }
    if (reasons->count > 0) {
        strbuf_append(out, "(reasons that differ in numbers alone are counted together, with those of the first)\n");
    }
}

static void print_head(const struct call *call, struct strbuf *out)
{
    const struct sweep_progress *p = &call->progress;
    if (call->ran) {
        strbuf_printf(out,
                      "%s: %" PRIu64 " points of %" PRIu64 " combinations; %" PRIu64 " done, %" PRIu64
                      " do not fit, %" PRIu64 " failed\n%" PRIu64 " found in the database, %" PRIu64
                      " computed in %.1f s (%.1f a second, %u rank%s)%s\n",
                      call->sweep.name, p->total, call->sweep.combinations, p->counts[SWEEP_DONE],
                      p->counts[SWEEP_DOES_NOT_FIT], p->counts[SWEEP_ERROR], p->found, p->finished - p->found,
                      call->seconds, (double)(p->finished - p->found) / fmax(call->seconds, 1e-9), p->ranks,
                      p->ranks == 1 ? "" : "s", p->interrupted ? "; interrupted: run it again to go on" : "");
        print_why(&call->reasons, out);
        strbuf_char(out, '\n');
    }
}

static enum exit_code answer(struct call *call, struct sweep_query *query)
{
    struct error error = { 0 };
    struct strbuf out = { 0 }, rows_text = { 0 }, notes = { 0 };
    uint64_t rows = 0;
    enum status status = sweep_query_print(call->database, query, &rows_text, &rows, &notes, &error);
    if (notes.length > 0 && !call->flags.quiet) {
        fprintf(stderr, "memwall: %s", notes.text);
    }
    strbuf_free(&notes);
    if (status != STATUS_OK) {
        strbuf_free(&rows_text);
        return cli_complain(&error);
    }
    if (query->format == SWEEP_JSON) {
        struct json_writer w = { .out = &out };
        jw_object(&w, NULL);
        jw_string(&w, "schema", "memwall.sweep-result/1");
        if (call->ran) {
            print_progress(&call->progress, &call->sweep, call->seconds, &call->reasons, &w);
        }
        jw_raw(&w, "rows", rows_text.text != NULL ? rows_text.text : "[]");
        jw_end(&w);
        strbuf_char(&out, '\n');
    } else {
        if (query->format == SWEEP_TEXT) {
            print_head(call, &out);
            strbuf_append(&out, rows == 0 ? "No row answers.\n" : "");
            if (rows == 0 && call->ran && query->where == NULL) {
                strbuf_append(&out, "--where \"status <> 'done'\" lists what did not run, with its reasons.\n");
            }
        }
        strbuf_append(&out, rows_text.text != NULL ? rows_text.text : "");
    }
    strbuf_free(&rows_text);
    bool none = call->ran ? call->progress.counts[SWEEP_DONE] == 0 : rows == 0;
    enum exit_code code = call->ran && call->progress.interrupted ? EXIT_FAILED : none ? EXIT_DOES_NOT_FIT : EXIT_DONE;
    return cli_answer(&call->flags, "sweep", &out, code);
}

/* --- running */

static enum status run_sweep(struct call *call, struct sweep_query *query, const struct sweep_options *given,
                             struct error *error)
{
    struct show show = { .terminal = isatty(STDERR_FILENO), .quiet = call->flags.quiet };
    struct sweep_options options = *given;
    int64_t id;
    options.listen = listen;
    options.context = &show;
    TRY(sweep_load(&call->sweep, call->flags.positionals[0], error));
    TRY(sweep_database_open(&call->database, call->texts.db, plugins_results_version(), error));
    TRY(sweep_database_enter(call->database, &call->sweep, &id, error));
    query->sweep = id;
    (void)clock_gettime(CLOCK_MONOTONIC, &show.start);
    interrupt_catch();
    enum status status = sweep_run(&call->sweep, call->database, id, &options, &call->progress, error);
    interrupt_release();
    call->seconds = elapsed_s(&show);
    if (show.shown && show.terminal) {
        fputs("\r\033[K", stderr);
    }
    call->ran = status == STATUS_OK;
    return call->ran ? sweep_reasons_read(&call->reasons, call->database, id, &call->arena, error) : status;
}

static enum exit_code run_and_answer(struct call *call, struct sweep_query *query, const struct sweep_options *options)
{
    struct error error = { 0 };
    enum status status;
    if (call->flags.positional_count > 0) {
        status = run_sweep(call, query, options, &error);
    } else {
        status = sweep_database_open_to_read(&call->database, call->texts.db, plugins_results_version(), &error);
    }
    enum exit_code code = status == STATUS_OK ? answer(call, query) : cli_complain(&error);
    sweep_database_close(call->database);
    sweep_free(&call->sweep);
    arena_free(&call->arena);
    return code;
}

/* Rank 0 answers; the others compute what it sends. */
static enum exit_code run_ranks(struct call *call, struct sweep_query *query, struct sweep_options *options)
{
    struct error error = { 0 };
    char why[256] = "";
    uint32_t rank = 0;
    if (open_transport(&options->transport, &error) != STATUS_OK || options->transport == NULL) {
        return cli_complain(&error);
    }
    const struct sweep_transport *transport = options->transport;
    if (!transport->open(&rank, &options->ranks, why, sizeof why)) {
        (void)error_set(&error, STATUS_EXECUTION, "MPI cannot start: %s", why);
        return cli_complain(&error);
    }
    if (rank > 0) {
        enum status status = sweep_serve(transport, options->threads, &error);
        transport->close();
        return status == STATUS_OK ? EXIT_DONE : cli_complain(&error);
    }
    enum exit_code code = run_and_answer(call, query, options);
    (void)fflush(stdout);
    if (!sweep_dismiss(transport, options->ranks)) {
        fputs("memwall: a rank was lost on the way: what it was computing was computed again\n", stderr);
        _exit((int)code); /* MPI would wait for it */
    }
    transport->close();
    return code;
}

static enum exit_code print_schema(void)
{
    struct strbuf out = { 0 };
    sweep_database_schema(&out);
    return cli_print(&out, EXIT_DONE);
}

static enum exit_code run(int argc, char **argv)
{
    struct call call = { 0 };
    struct texts *texts = &call.texts;
    const struct cli_flag more[] = {
        { "db", "FILE", "the SQLite file that results go into and are read from", &texts->db },
        { "threads", "N", "threads of this process (default: all cores, shared by the ranks of a computer)",
          &texts->threads },
        { "where", "SQL", "only rows for which this SQL expression holds", &texts->where },
        { "top", "N", "the N best that fit", &texts->top },
        { "by", "FIGURE", "what best means (default tokens_per_s)", &texts->by },
        { "pareto", "A,B,C", "only rows that no other beats in all of these figures, as step_time_s,peak_bytes,cost",
          &texts->pareto },
        { "csv", NULL, "all columns as CSV", &texts->csv },
        { "sweep", "ID", "read back: one sweep of several in the file (table sweeps)", &texts->sweep },
        { "schema", NULL, "print the tables and views with what each column is", &texts->schema },
    };
    enum exit_code code;
    double threads;
    struct sweep_query query;
    if (!cli_parse(&command_sweep, argc, argv, &call.flags, more, sizeof more / sizeof more[0], &code)) {
        return code;
    }
    if (texts->schema != NULL) {
        return print_schema();
    }
    if (call.flags.positional_count == 0 && texts->db == NULL) {
        fputs(
            "memwall sweep: say what to run (SWEEP.json) or what to read (--db FILE)\nmemwall sweep --help says more\n",
            stderr);
        return EXIT_BAD_INPUT;
    }
    if (texts->csv != NULL && call.flags.json) {
        fputs("memwall sweep: --csv and --json exclude each other\n", stderr);
        return EXIT_BAD_INPUT;
    }
    uint32_t lone = launcher_lone_tasks();
    if (lone > 0 && call.flags.positional_count > 0 && !call.flags.quiet) {
        fprintf(stderr,
                "memwall: srun started %u tasks without MPI, and each runs the whole sweep: srun --mpi=pmix (or mpirun "
                "in a batch script) shares it among them\n",
                lone);
    }
    threads = fmax(1, floor((double)cores_allowed() / launcher_local_ranks()));
    if ((texts->threads != NULL && !cli_whole("threads", texts->threads, 1, SWEEP_THREADS_MAX, &threads)) ||
        !read_query(texts, call.flags.json, &query)) {
        return EXIT_BAD_INPUT;
    }
    struct sweep_options options = { .threads = (uint32_t)threads, .ranks = 1 };
    return launcher_has_ranks() && call.flags.positional_count > 0 ? run_ranks(&call, &query, &options)
                                                                   : run_and_answer(&call, &query, &options);
}
