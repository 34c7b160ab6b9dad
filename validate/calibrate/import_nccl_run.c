/* The end of a run of nccl-tests: which collective, how many ranks, whether the rows hold together, and their points. */
#include "validate/calibrate/import_nccl.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/check.h"

/* Longer names first: a file name is searched for them. */
static const struct nccl_program PROGRAMS[] = {
    { "reducescatter", "reduce_scatter", true, COLLECTIVE_REDUCE_SCATTER },
    { "alltoallv", "alltoallv", false, COLLECTIVE_ALL_TO_ALL },
    { "allreduce", "all_reduce", true, COLLECTIVE_ALL_REDUCE },
    { "allgather", "all_gather", true, COLLECTIVE_ALL_GATHER },
    { "broadcast", "broadcast", true, COLLECTIVE_BROADCAST },
    { "hypercube", "hypercube", false, COLLECTIVE_ALL_GATHER },
    { "alltoall", "alltoall", true, COLLECTIVE_ALL_TO_ALL },
    { "sendrecv", "sendrecv", true, COLLECTIVE_SEND_RECV },
    { "scatter", "scatter", false, COLLECTIVE_BROADCAST },
    { "gather", "gather", false, COLLECTIVE_ALL_GATHER },
    { "reduce", "reduce", false, COLLECTIVE_ALL_REDUCE },
};
enum { PROGRAM_COUNT = sizeof PROGRAMS / sizeof PROGRAMS[0] };

void nccl_run_clear(struct nccl_run *run)
{
    free(run->host_names);
    free(run->seen);
    free(run->rows);
    *run = (struct nccl_run){ .average = -1 };
}

/* ---- names ---- */

const struct nccl_program *nccl_program_of_word(struct import_word word)
{
    char copy[NCCL_WORD_BYTES * 4], squeezed[NCCL_WORD_BYTES * 4];
    const char *start = word.at;
    for (const char *c = word.at; c < word.at + word.length; c++) {
        start = *c == '/' ? c + 1 : start;
    }
    size_t length = (size_t)(word.at + word.length - start);
    if (length == 0 || length >= sizeof copy) {
        return NULL;
    }
    memcpy(copy, start, length);
    copy[length] = '\0';
    char *suffix = strstr(copy, "_perf");
    suffix = suffix != NULL ? suffix : strstr(copy, "_test");
    if (suffix == NULL || (suffix[5] != '\0' && strcmp(suffix + 5, "_mpi") != 0 && strcmp(suffix + 5, ".exe") != 0)) {
        return NULL;
    }
    import_squeeze(copy, (size_t)(suffix - copy), squeezed, sizeof squeezed);
    for (size_t i = 0; i < PROGRAM_COUNT; i++) {
        if (strcmp(squeezed, PROGRAMS[i].squeezed) == 0) {
            return &PROGRAMS[i];
        }
    }
    return NULL;
}

static const struct nccl_program *program_of_file(const char *name)
{
    char squeezed[256];
    import_squeeze(name, strlen(name), squeezed, sizeof squeezed);
    for (size_t i = 0; i < PROGRAM_COUNT; i++) {
        if (strlen(PROGRAMS[i].squeezed) > 7 && strstr(squeezed, PROGRAMS[i].squeezed) != NULL) {
            return &PROGRAMS[i];
        }
    }
    return NULL;
}

/* ---- a run's end ---- */

static int compare_rows(const void *a, const void *b)
{
    const struct nccl_row *x = a, *y = b;
    if (x->bytes != y->bytes) {
        return x->bytes < y->bytes ? -1 : 1;
    }
    return x->seconds < y->seconds ? -1 : x->seconds > y->seconds;
}

static int compare_reals(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double ratio_of_rows(const struct nccl_run *run, uint32_t *used)
{
    double algbw = 0, busbw = 0;
    *used = 0;
    for (uint32_t i = 0; i < run->count; i++) {
        if (run->rows[i].timed && run->rows[i].algbw >= 0.5) { /* two decimals: 1 % */
            algbw += run->rows[i].algbw;
            busbw += run->rows[i].busbw;
            (*used)++;
        }
    }
    return *used > 0 ? busbw / algbw : 0;
}

/* The count of ranks whose factor the ratio is, or 0: not told apart. */
static uint32_t ranks_of_ratio(enum collective_kind kind, double ratio)
{
    enum { TOLD_APART_MAX = 16 };
    for (uint32_t n = 2; n <= TOLD_APART_MAX; n++) {
        double factor = import_bus_factor(kind, n);
        if (factor != import_bus_factor(kind, n + 1) && fabs(ratio - factor) < 0.003 * factor) {
            return n;
        }
    }
    return 0;
}

static bool ratio_fits(const struct nccl_run *run, double ratio, uint32_t ranks)
{
    double factor = import_bus_factor(run->program->kind, ranks);
    bool both_bus = run->old_columns &&
                    (run->program->kind == COLLECTIVE_ALL_GATHER || run->program->kind == COLLECTIVE_REDUCE_SCATTER);
    return fabs(ratio - factor) <= 0.02 * factor || (both_bus && fabs(ratio - 1) <= 0.02);
}

static enum status find_ranks(const struct nccl_parser *parser, uint32_t *ranks, struct error *error)
{
    const struct nccl_run *run = &parser->run;
    struct import_source *source = parser->source;
    uint32_t used;
    double ratio = ratio_of_rows(run, &used);
    *ranks = run->ranks > 0 ? run->ranks : run->in_header;
    if (run->ranks == 0 && used > 0 && (*ranks < 2 || !ratio_fits(run, ratio, *ranks))) {
        uint32_t derived = ranks_of_ratio(run->program->kind, ratio);
        *ranks = derived > 0 ? derived : *ranks;
        if (derived > 0) {
            import_note(source, "no \"Rank\" lines: %u ranks by busbw/algbw = %.4g, taken as one node", *ranks, ratio);
        }
    } else if (run->ranks == 0 && *ranks >= 2) {
        import_note(source, "no \"Rank\" lines: %u ranks by nThread x nGpus, taken as one node", *ranks);
    }
    if (*ranks < 2) {
        return import_error(source, run->line, error,
                            "%s by %s: paste the \"#  Rank 0 ...\" lines too; a collective has at least 2 ranks",
                            run->program->name, *ranks == 1 ? "one rank" : "an unknown number of ranks");
    }
    if (used > 0 && !ratio_fits(run, ratio, *ranks)) {
        return import_error(source, run->line, error,
                            "busbw is %.4g of algbw, but %s of %u ranks has %.4g: another collective, or ranks missing "
                            "from the paste",
                            ratio, run->program->name, *ranks, import_bus_factor(run->program->kind, *ranks));
    }
    return STATUS_OK;
}

/* Whether size/time agrees with the algbw printed beside it, within its two decimals and the digits of the time. */
static bool row_agrees(const struct nccl_run *run, const struct nccl_row *row, uint32_t ranks)
{
    double tolerance = 0.005 + row->rounding, rate = row->bytes / row->seconds * 1e-9;
    double share = run->old_columns ? (ranks - 1.0) / ranks : 1.0;
    return fabs(rate - row->algbw) <= tolerance * rate + 0.006 ||
           fabs(rate * share - row->algbw) <= tolerance * rate + 0.006;
}

/* Leaves the usable rows of the first type and op at the front. */
static void keep_usable(struct nccl_parser *parser, uint32_t ranks)
{
    struct nccl_run *run = &parser->run;
    struct import_source *source = parser->source;
    uint32_t kept = 0, empty = 0, others = 0;
    for (uint32_t i = 0; i < run->count; i++) {
        const struct nccl_row *row = &run->rows[i];
        if (!row->timed || row->bytes == 0 || row->seconds == 0) {
            empty++;
        } else if (row->wrong) {
            import_skip(source, row->line, 1, "wrong results: row refused");
        } else if (!row_agrees(run, row, ranks)) {
            import_skip(source, row->line, 1, "algbw %.4g is not size/time (%.4g GB/s; host times of -C?): row refused",
                        row->algbw, row->bytes / row->seconds * 1e-9);
        } else if (kept > 0 && (strcmp(row->type, run->rows[0].type) != 0 || strcmp(row->op, run->rows[0].op) != 0)) {
            others++;
        } else {
            run->rows[kept++] = *row;
        }
    }
    if (empty > 0) {
        import_skip(source, 0, empty, "%u rows of size or time zero passed over", empty);
    }
    if (others > 0) {
        import_skip(source, 0, others, "%u rows passed over: only type %s, op %s is taken", others, run->rows[0].type,
                    run->rows[0].op[0] != '\0' ? run->rows[0].op : "none");
    }
    run->count = kept;
}

static void check_average(struct import_source *source, const struct nccl_run *run)
{
    double sum = 0;
    uint32_t count = 0;
    for (uint32_t i = 0; i < run->count; i++) {
        if (run->rows[i].timed) {
            sum += run->rows[i].busbw;
            count++;
        }
        if (run->rows[i].in_place_busbw >= 0) {
            sum += run->rows[i].in_place_busbw;
            count++;
        }
    }
    double mean = count > 0 ? sum / count : 0;
    if (run->average < 0 && !run->milliseconds) {
        import_note(source, "no \"Avg bus bandwidth\" line after line %u: the run may have been cut short",
                    run->header_line);
    } else if (run->average >= 0 && fabs(mean - run->average) > 0.01 + 0.005 * run->average) {
        import_note(source, "\"Avg bus bandwidth\" says %.4g, the rows give %.4g: rows are missing or changed",
                    run->average, mean);
    }
}

/* The median of the rows [from, to) of one size, sorted by time. */
static enum status add_size(struct nccl_parser *parser, uint32_t from, uint32_t to, uint32_t ranks, uint32_t nodes,
                            struct error *error)
{
    const struct nccl_row *rows = parser->run.rows;
    uint32_t count = to - from, middle = from + count / 2;
    double median = count % 2 == 1 ? rows[middle].seconds : (rows[middle - 1].seconds + rows[middle].seconds) / 2;
    double spread = 0;
    if (count > 1) {
        double *deviations = malloc(count * sizeof *deviations);
        if (deviations == NULL) {
            return error_set(error, STATUS_NO_MEMORY, "out of memory: %u rows", count);
        }
        for (uint32_t i = 0; i < count; i++) {
            deviations[i] = fabs(rows[from + i].seconds - median);
        }
        qsort(deviations, count, sizeof *deviations, compare_reals);
        spread = count % 2 == 1 ? deviations[count / 2] : (deviations[count / 2 - 1] + deviations[count / 2]) / 2;
        free(deviations);
    }
    struct point point = {
        .kind = POINT_COLLECTIVE,
        .collective = parser->run.program->kind,
        .ranks = ranks,
        .nodes = nodes,
        .bytes = rows[from].bytes,
        .seconds = median,
        .spread_s = spread,
        .repeats = count > 1 ? count : 0,
    };
    if (point.collective == COLLECTIVE_SEND_RECV && ranks > 2) {
        point.ranks = 2; /* each sends to the next and receives from the one before: pairs, all at once */
        point.in_doubt = true;
    }
    return import_add(parser->source, rows[from].line, &point, error);
}

static enum status add_points(struct nccl_parser *parser, uint32_t ranks, struct error *error)
{
    struct nccl_run *run = &parser->run;
    struct import_source *source = parser->source;
    uint32_t nodes = run->hosts > 0 ? run->hosts : 1, rows = run->count, before = source->result->points;
    if (run->program->kind == COLLECTIVE_SEND_RECV && ranks > 2 && nodes > 1) {
        import_skip(source, run->line, rows,
                    "sendrecv of %u ranks on %u nodes is a ring of pairs, near and far at once: passed over", ranks,
                    nodes);
        return STATUS_OK;
    }
    (void)snprintf(source->label, sizeof source->label, "nccl-tests %s, %u ranks on %u node%s, %s", run->program->name,
                   ranks, nodes, nodes == 1 ? "" : "s", source->name);
    if (rows > 0) {
        qsort(run->rows, rows, sizeof *run->rows, compare_rows);
    }
    for (uint32_t from = 0, to; from < rows; from = to) {
        for (to = from + 1; to < rows && run->rows[to].bytes == run->rows[from].bytes;) {
            to++;
        }
        TRY(add_size(parser, from, to, ranks, nodes, error));
    }
    import_note(source, "%s of %u ranks on %u node%s: %u sizes from %u rows, out-of-place times", run->program->name,
                ranks, nodes, nodes == 1 ? "" : "s", source->result->points - before, rows);
    return STATUS_OK;
}

enum status nccl_run_finish(struct nccl_parser *parser, struct error *error)
{
    struct nccl_run *run = &parser->run;
    struct import_source *source = parser->source;
    uint32_t ranks;
    if (run->count == 0) {
        if (run->header_line != 0) {
            return import_error(source, run->header_line, error, "no row under these columns: the file is cut short");
        }
        nccl_run_clear(run);
        return STATUS_OK;
    }
    if (run->program == NULL) {
        run->program = program_of_file(source->name);
    }
    if (run->program == NULL) {
        return import_error(source, run->line, error,
                            "which collective was run is not said: keep the command line or the \"# Collective test "
                            "starting\" line, or name the file after it (all_reduce, all_gather, reduce_scatter, "
                            "broadcast, alltoall, sendrecv)");
    }
    if (!run->program->known) {
        import_skip(source, run->line, run->count, "%s: memwall has no such collective, %u rows passed over",
                    run->program->name, run->count);
    } else {
        TRY(find_ranks(parser, &ranks, error));
        check_average(source, run);
        keep_usable(parser, ranks);
        TRY(add_points(parser, ranks, error));
    }
    parser->runs++;
    nccl_run_clear(run);
    return STATUS_OK;
}
