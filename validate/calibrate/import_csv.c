/* The measured tables of ../shared/data/measured. A column says which machine a row is of; `system` chooses.
 *   kernel efficiencies   system,op,peak_tflops,shape_key,efficiency: GEMMs and attention, read by validate/kernel_rows.c. Rates are those of back-to-back
 *                         launches: one launch gap is taken off each time
 *   all-reduce            gpu,ranks,size_bytes,out_of_place_us,out_of_place_busbw_GBps,in_place_us,in_place_busbw_GBps
 *   links, collectives    id,source,verified,hardware,op,direction,memory_kind,ranks,size_bytes,value,unit,notes: rows that say one figure of one copy or
 *                         collective; `verified` other than "yes" is in doubt */
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "sim/base/check.h"
#include "sim/base/units.h"
#include "validate/calibrate/import_text.h"
#include "validate/kernel_rows.h"

enum { FIELDS_MAX = 16, SYSTEMS_MAX = 48, SYSTEM_BYTES = 112 };

static const char *const KERNEL_COLUMNS[] = { "system", "op", "peak_tflops", "shape_key", "efficiency", NULL };
static const char *const ALL_REDUCE_COLUMNS[] = {
    "gpu", "ranks", "size_bytes", "out_of_place_us", "out_of_place_busbw_GBps", "in_place_us", "in_place_busbw_GBps",
    NULL
};
static const char *const LINKS_COLUMNS[] = { "id",        "source",      "verified", "hardware",   "op",
                                             "direction", "memory_kind", "ranks",    "size_bytes", "value",
                                             "unit",      "notes",       NULL };

/* ---- rows and systems ---- */

static uint32_t count_columns(const char *const *columns)
{
    uint32_t count = 0;
    while (columns[count] != NULL) {
        count++;
    }
    return count;
}

/* Cut line `index` (from 0) into its fields; *blank: it has none. */
static enum status cut(struct import_source *source, uint32_t index, const char *const *columns, char **fields,
                       bool *blank, struct error *error)
{
    uint32_t wanted = count_columns(columns);
    *blank = import_blank(source->lines[index]);
    if (*blank) {
        return STATUS_OK;
    }
    uint32_t count = import_fields(source->lines[index], fields, FIELDS_MAX);
    if (count == UINT32_MAX) {
        return import_error(source, index + 1, error, "a quoted field without its end, or more than %d fields",
                            FIELDS_MAX);
    }
    if (count != wanted) {
        return import_error(source, index + 1, error, "%u fields, expected %u, the first \"%s\", the last \"%s\"%s",
                            count, wanted, columns[0], columns[wanted - 1],
                            index + 1 == source->count ? " (the file is cut short)" : "");
    }
    return STATUS_OK;
}

static enum status number_in(const struct import_source *source, uint32_t index, const char *const *columns,
                             char *const *fields, uint32_t column, double least, double most, double *value,
                             struct error *error)
{
    char shown[IMPORT_QUOTE_BYTES];
    const char *text = fields[column];
    if (!import_number_text(text, value) || !(*value >= least && *value <= most)) {
        return import_error(source, index + 1, error, "%s is \"%s\"; expected a number from %g to %g", columns[column],
                            import_quote(text, strlen(text), shown), least, most);
    }
    return STATUS_OK;
}

struct systems {
    char names[SYSTEMS_MAX][SYSTEM_BYTES];
    uint32_t count;
    bool more;
};

static void systems_add(struct systems *systems, const char *name)
{
    for (uint32_t i = 0; i < systems->count; i++) {
        if (strncmp(systems->names[i], name, SYSTEM_BYTES - 1) == 0) {
            return;
        }
    }
    if (systems->count == SYSTEMS_MAX) {
        systems->more = true;
        return;
    }
    (void)snprintf(systems->names[systems->count++], SYSTEM_BYTES, "%s", name);
}

static bool part_of(const char *text, const char *part)
{
    size_t length = strlen(part);
    for (; *text != '\0'; text++) {
        if (strncasecmp(text, part, length) == 0) {
            return true;
        }
    }
    return length == 0;
}

static bool is_system(const char *name, const char *system, bool loosely)
{
    return loosely ? part_of(name, system) : strcmp(name, system) == 0;
}

/* The system asked for, or the only one. `loosely`: a part of the name is enough. */
static enum status choose(const struct import_source *source, const struct systems *systems, bool loosely,
                          const char **system, struct error *error)
{
    *system = source->system;
    if (*system == NULL && systems->count == 1 && !systems->more) {
        *system = systems->names[0];
        return STATUS_OK;
    }
    for (uint32_t i = 0; *system != NULL && i < systems->count; i++) {
        if (is_system(systems->names[i], *system, loosely)) {
            return STATUS_OK;
        }
    }
    struct strbuf list = { 0 };
    for (uint32_t i = 0; i < systems->count; i++) {
        char shown[IMPORT_QUOTE_BYTES];
        strbuf_printf(&list, "%s%s", i > 0 ? "; " : "",
                      import_quote(systems->names[i], strlen(systems->names[i]), shown));
    }
    const char *has = list.text == NULL ? "no rows" : list.text, *more = systems->more ? " and more" : "";
    enum status status =
        *system == NULL
            ? import_error(source, 0, error, "say which system; this table has: %s%s", has, more)
            : import_error(source, 0, error, "no rows of \"%.60s\"; this table has: %s%s", *system, has, more);
    strbuf_free(&list);
    return status;
}

static void note_others(struct import_source *source, const char *system, uint32_t others)
{
    if (others > 0) {
        import_skip(source, 0, others, "%u rows of other systems than \"%.60s\" passed over", others, system);
    }
}

/* ---- kernel efficiencies ---- */

static bool key_has(const char *key, const char *name)
{
    const char *at = strstr(key, name);
    char *end;
    if (at == NULL || !isdigit((unsigned char)at[strlen(name)])) {
        return false;
    }
    double value = strtod(at + strlen(name), &end);
    return value >= 1 && value <= 1e9 && (*end == ',' || *end == '\0');
}

static bool shape_good(const char *op, const char *key)
{
    static const char *const gemm[] = { "b=", " m=", " n=", " k=", NULL };
    static const char *const attention[] = { "batch=",       "seq_len=",    " head_num=", "kv_head_num=",
                                             "qk_head_dim=", "v_head_dim=", NULL };
    bool is_gemm = strcmp(op, "matmul") == 0;
    for (const char *const *name = is_gemm ? gemm : attention; *name != NULL; name++) {
        if (!key_has(key, *name)) {
            return false;
        }
    }
    return strlen(key) < KERNEL_ROW_KEY_BYTES && (!is_gemm || strstr(key, "layout=TN") != NULL ||
                                                  strstr(key, "layout=NT") != NULL || strstr(key, "layout=NN") != NULL);
}

static bool kernel_op(const char *op)
{
    return strcmp(op, "matmul") == 0 || strcmp(op, "sdp_fwd") == 0 || strcmp(op, "sdp_bwd") == 0;
}

/* Check every row (kernel_rows.c only reads those it looks for) and count what it will find of each system. */
static enum status check_kernel_rows(struct import_source *source, struct systems *systems, struct error *error)
{
    char *fields[FIELDS_MAX];
    for (uint32_t i = 1; i < source->count; i++) {
        bool blank;
        double ignored;
        TRY(cut(source, i, KERNEL_COLUMNS, fields, &blank, error));
        if (blank) {
            continue;
        }
        TRY(number_in(source, i, KERNEL_COLUMNS, fields, 2, 1e-3, 1e6, &ignored, error));
        TRY(number_in(source, i, KERNEL_COLUMNS, fields, 4, 1e-6, 2, &ignored, error));
        if (kernel_op(fields[1]) && !shape_good(fields[1], fields[3])) {
            char shown[IMPORT_QUOTE_BYTES];
            return import_error(
                source, i + 1, error,
                "\"%s\" is no shape of %s; expected its sizes as in \"b=1, m=4096, k=5120, n=1536, layout=TN, ...\"",
                import_quote(fields[3], strlen(fields[3]), shown), fields[1]);
        }
        systems_add(systems, fields[0]);
    }
    return STATUS_OK;
}

static enum status add_kernel_rows(struct import_source *source, const char *system, enum kernel_class kernel_class,
                                   struct kernel_row *rows, size_t max, struct error *error)
{
    size_t count = 0;
    TRY(kernel_rows_measured(source->path, system, kernel_class, DTYPE_BF16, KERNEL_ROWS_LAUNCH_GAP_S, rows, max,
                             &count, error));
    for (size_t i = 0; i < count; i++) {
        struct point point = {
            .kind = POINT_KERNEL,
            .kernel = rows[i].kernel,
            .at_once = 1,
            .seconds = rows[i].measured_s,
            .load_from_s = rows[i].load.from_s,
            .load_to_s = rows[i].load.to_s,
        };
        TRY(import_add(source, 0, &point, error));
    }
    return STATUS_OK;
}

enum status import_kernel_csv(struct import_source *source, struct error *error)
{
    enum { PREFIX_MAX = 40 };
    struct systems systems = { 0 };
    const char *system;
    struct kernel_row *rows = NULL;
    enum status status;
    if (strcmp(source->path, "-") == 0) {
        return import_error(source, 0, error, "kernel tables are read twice: give a file, not standard input");
    }
    TRY(check_kernel_rows(source, &systems, error));
    TRY(choose(source, &systems, false, &system, error));
    if (strlen(system) > PREFIX_MAX) {
        return import_error(source, 0, error, "a system's name is at most %d characters long", PREFIX_MAX);
    }
    rows = malloc(source->count * sizeof *rows);
    if (rows == NULL) {
        return error_set(error, STATUS_NO_MEMORY, "out of memory: %u rows", source->count);
    }
    (void)snprintf(source->label, sizeof source->label, "kernel table, %s, %s", system, source->name);
    TRY_OR_FAIL(add_kernel_rows(source, system, KERNEL_GEMM, rows, source->count, error));
    TRY_OR_FAIL(add_kernel_rows(source, system, KERNEL_ATTENTION_FORWARD, rows, source->count, error));
    TRY_OR_FAIL(add_kernel_rows(source, system, KERNEL_ATTENTION_BACKWARD, rows, source->count, error));
    uint32_t others = source->count - 1 - source->result->points;
    import_skip(source, 0, others,
                "%u kernels of %s, a launch gap taken off each; %u rows of other systems and of grouped products "
                "passed over",
                source->result->points, system, others);
    if (source->result->points == 0) {
        status = import_error(source, 0, error, "no row of matmul, sdp_fwd or sdp_bwd of %s", system);
    }
fail:
    free(rows);
    return status;
}

/* ---- all-reduce ---- */

static enum status all_reduce_row(struct import_source *source, uint32_t index, char *const *fields,
                                  struct error *error)
{
    const char *const *columns = ALL_REDUCE_COLUMNS;
    double ranks, bytes, us, busbw;
    TRY(number_in(source, index, columns, fields, 1, 2, 65536, &ranks, error));
    TRY(number_in(source, index, columns, fields, 2, 1, 1e15, &bytes, error));
    TRY(number_in(source, index, columns, fields, 3, 0, 1e12, &us, error));
    TRY(number_in(source, index, columns, fields, 4, 0, 1e6, &busbw, error));
    if (us == 0) {
        import_skip(source, index + 1, 1, "time zero: row passed over");
        return STATUS_OK;
    }
    double expected = bytes / us * 1e-3 * import_bus_factor(COLLECTIVE_ALL_REDUCE, (uint32_t)ranks);
    if (fabs(expected - busbw) > 0.01 + 0.01 * busbw) {
        return import_error(source, index + 1, error, "bus bandwidth %.6g GB/s, but size, time and ranks give %.6g",
                            busbw, expected);
    }
    struct point point = {
        .kind = POINT_COLLECTIVE,
        .collective = COLLECTIVE_ALL_REDUCE,
        .ranks = (uint32_t)ranks,
        .nodes = 1,
        .bytes = bytes,
        .seconds = us * 1e-6,
    };
    return import_add(source, index + 1, &point, error);
}

enum status import_all_reduce_csv(struct import_source *source, struct error *error)
{
    struct systems systems = { 0 };
    const char *system;
    char *fields[FIELDS_MAX];
    uint32_t others = 0;
    bool blank;
    for (uint32_t i = 1; i < source->count; i++) { /* the first field only: the second pass cuts the lines */
        char name[SYSTEM_BYTES];
        const char *first = source->lines[i] + (source->lines[i][0] == '"');
        (void)snprintf(name, sizeof name, "%.*s", (int)fmin((double)strcspn(first, ",\""), SYSTEM_BYTES - 1), first);
        if (!import_blank(source->lines[i])) {
            systems_add(&systems, name);
        }
    }
    TRY(choose(source, &systems, false, &system, error));
    (void)snprintf(source->label, sizeof source->label, "all-reduce table, %.60s, %s", system, source->name);
    for (uint32_t i = 1; i < source->count; i++) {
        TRY(cut(source, i, ALL_REDUCE_COLUMNS, fields, &blank, error));
        if (blank) {
            continue;
        }
        if (strcmp(fields[0], system) != 0) {
            others++;
            continue;
        }
        TRY(all_reduce_row(source, i, fields, error));
    }
    note_others(source, system, others);
    import_note(source, "%u all-reduces of %.60s, out-of-place times", source->result->points, system);
    return STATUS_OK;
}

/* ---- links and collectives ---- */

/* Where a table does not say the size of a copy: nvbandwidth's buffer of those days; cuda-samples' p2pBandwidthLatencyTest copies ten million ints. */
static const double COPY_BYTES = 64 * MIB, PEER_BYTES = 4e7;

struct link_row {
    char *fields[FIELDS_MAX];
    uint32_t index;
};
enum {
    LINK_SOURCE = 1,
    LINK_VERIFIED,
    LINK_HARDWARE,
    LINK_OP,
    LINK_DIRECTION,
    LINK_MEMORY,
    LINK_RANKS,
    LINK_SIZE,
    LINK_VALUE,
    LINK_UNIT,
    LINK_NOTES
};

static bool is_both_ways(const struct link_row *row, const char *direction)
{
    return part_of(row->fields[LINK_OP], "bidirectional") && !part_of(row->fields[LINK_OP], "_all_") &&
           strcmp(row->fields[LINK_DIRECTION], direction) == 0;
}

/* "3 nodes x8 A100", "2x DGX Spark" */
static uint32_t nodes_of(const char *hardware)
{
    for (const char *at = hardware; *at != '\0'; at++) {
        if (isdigit((unsigned char)*at) && (at == hardware || !isalnum((unsigned char)at[-1]))) {
            char *end;
            unsigned long number = strtoul(at, &end, 10);
            if (number >= 1 && number <= 65536 && (strncmp(end, " nodes", 6) == 0 || strncmp(end, "x DGX", 5) == 0)) {
                return (uint32_t)number;
            }
        }
    }
    return 1;
}

/* Why a row gives no point, or NULL. */
static const char *collective_of(const struct link_row *row, double value, struct point *point)
{
    double ranks, bytes, us;
    for (int k = 0; k < COLLECTIVE_KIND_COUNT; k++) {
        const char *word = collective_word((enum collective_kind)k);
        if (strncmp(row->fields[LINK_OP], word, strlen(word)) != 0 || !part_of(row->fields[LINK_OP], "busbw")) {
            continue;
        }
        if (!import_number_text(row->fields[LINK_RANKS], &ranks) || ranks < 2 || ranks > 65536 ||
            !import_number_text(row->fields[LINK_SIZE], &bytes) || bytes < 1) {
            return "a collective without its ranks or size";
        }
        point->kind = POINT_COLLECTIVE;
        point->collective = (enum collective_kind)k;
        point->ranks = (uint32_t)ranks;
        point->nodes = nodes_of(row->fields[LINK_HARDWARE]);
        point->bytes = bytes;
        point->seconds = bytes * import_bus_factor(point->collective, point->ranks) / (value * 1e9);
        struct import_word words[2];
        if (import_words(row->fields[LINK_NOTES], words, 2) == 2 && import_number(words[0], &us) && us > 0 &&
            strncmp(words[1].at, "us", 2) == 0) {
            point->seconds = us * 1e-6; /* the time itself stands in the notes */
        }
        return point->nodes > point->ranks ? "fewer ranks than nodes" : NULL;
    }
    return "no copy or collective that memwall has";
}

static const char *copy_of(const struct link_row *row, double value, struct point *point)
{
    char *const *fields = row->fields;
    const char *op = fields[LINK_OP];
    double bytes;
    bool sized = import_number_text(fields[LINK_SIZE], &bytes) && bytes >= 1;
    bool down = strcmp(fields[LINK_DIRECTION], "H2D") == 0, up = strcmp(fields[LINK_DIRECTION], "D2H") == 0;
    if (strcmp(fields[LINK_DIRECTION], "P2P uni") == 0) {
        point->way = COPY_PEER;
        point->to = 1;
        point->bytes = sized ? bytes : PEER_BYTES;
    } else if ((down || up) && strcmp(fields[LINK_RANKS], "1") == 0 &&
               (strcmp(op, "memcpy_ce") == 0 || strcmp(op, "bandwidthTest") == 0 ||
                strcmp(op, "cudaMemcpyAsync") == 0)) {
        point->way = down ? COPY_H2D : COPY_D2H;
        point->pageable = strcmp(fields[LINK_MEMORY], "pageable") == 0;
        point->bytes = sized ? bytes : COPY_BYTES;
    } else {
        return collective_of(row, value, point);
    }
    point->kind = POINT_COPY;
    point->at_once = 1;
    point->seconds = point->bytes / (value * 1e9);
    return NULL;
}

/* The bidirectional rows of one source belong together: their sum is what the link carries. */
static const char *both_of(const struct link_row *rows, uint32_t count, uint32_t at, double value, struct point *point)
{
    double other;
    if (is_both_ways(&rows[at], "D2H")) {
        return "with its H2D row";
    }
    for (uint32_t i = 0; i < count; i++) {
        if (is_both_ways(&rows[i], "D2H") && strcmp(rows[i].fields[LINK_SOURCE], rows[at].fields[LINK_SOURCE]) == 0 &&
            import_number_text(rows[i].fields[LINK_VALUE], &other) && other > 0) {
            point->kind = POINT_COPY;
            point->way = COPY_BOTH;
            point->at_once = 1;
            point->bytes = COPY_BYTES;
            point->seconds = 2 * COPY_BYTES / ((value + other) * 1e9);
            return NULL;
        }
    }
    return "no D2H row of the same source beside it";
}

static enum status link_row(struct import_source *source, const struct link_row *rows, uint32_t count, uint32_t at,
                            struct error *error)
{
    const struct link_row *row = &rows[at];
    struct point point = { 0 };
    double value;
    const char *why;
    if (strcmp(row->fields[LINK_UNIT], "GB/s") != 0) {
        why = "unit is not GB/s";
    } else if (!import_number_text(row->fields[LINK_VALUE], &value) || !(value > 0)) {
        why = "value is not one figure";
    } else if (is_both_ways(row, "H2D") || is_both_ways(row, "D2H")) {
        why = both_of(rows, count, at, value, &point);
    } else {
        why = copy_of(row, value, &point);
    }
    if (why != NULL) {
        char shown[IMPORT_QUOTE_BYTES];
        import_skip(source, row->index + 1, 1, "%s: %s", import_quote(row->fields[0], strlen(row->fields[0]), shown),
                    why);
        return STATUS_OK;
    }
    char shown[IMPORT_QUOTE_BYTES];
    point.in_doubt = strcmp(row->fields[LINK_VERIFIED], "yes") != 0;
    (void)snprintf(source->label, sizeof source->label, "%s, %s",
                   import_quote(row->fields[LINK_SOURCE], strlen(row->fields[LINK_SOURCE]), shown), source->name);
    return import_add(source, row->index + 1, &point, error);
}

static enum status read_link_rows(struct import_source *source, struct link_row *rows, uint32_t *count,
                                  struct systems *systems, struct error *error)
{
    for (uint32_t i = 1; i < source->count; i++) {
        bool blank;
        TRY(cut(source, i, LINKS_COLUMNS, rows[*count].fields, &blank, error));
        if (!blank) {
            rows[*count].index = i;
            systems_add(systems, rows[*count].fields[LINK_HARDWARE]);
            (*count)++;
        }
    }
    return STATUS_OK;
}

enum status import_links_csv(struct import_source *source, struct error *error)
{
    struct systems systems = { 0 };
    const char *system;
    uint32_t count = 0, kept = 0;
    struct link_row *rows = malloc(source->count * sizeof *rows);
    enum status status = STATUS_OK;
    if (rows == NULL) {
        return error_set(error, STATUS_NO_MEMORY, "out of memory: %u rows", source->count);
    }
    TRY_OR_FAIL(read_link_rows(source, rows, &count, &systems, error));
    TRY_OR_FAIL(choose(source, &systems, true, &system, error));
    for (uint32_t i = 0; i < count; i++) {
        if (part_of(rows[i].fields[LINK_HARDWARE], system)) {
            rows[kept++] = rows[i];
        }
    }
    for (uint32_t i = 0; i < kept; i++) {
        TRY_OR_FAIL(link_row(source, rows, kept, i, error));
    }
    note_others(source, system, count - kept);
    if (source->result->points == 0) {
        status = import_error(source, 0, error, "none of the %u rows of \"%.60s\" is a single copy or a collective",
                              kept, system);
    }
fail:
    free(rows);
    return status;
}
