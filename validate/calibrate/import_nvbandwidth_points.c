/* nvbandwidth's matrices as points: which of a test's two engines counts, which tests belong together (import_nvbandwidth.c says what the tests run). */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "sim/base/check.h"
#include "sim/base/units.h"
#include "validate/calibrate/import_nvbandwidth.h"

const char *nvbandwidth_word(enum nvbandwidth_role role)
{
    static const char *const WORDS[] = {
#define X(name, word) [name] = word,
        NVBANDWIDTH_ROLE_TABLE(X)
#undef X
    };
    return WORDS[role];
}

void nvbandwidth_matrix_free(struct nvbandwidth_matrix *matrix)
{
    free(matrix->values);
    *matrix = (struct nvbandwidth_matrix){ 0 };
}

static double cell(const struct nvbandwidth_matrix *matrix, uint32_t row, uint32_t column)
{
    double value = matrix->values[(size_t)row * matrix->columns + column];
    return value > 0 ? value * 1e9 : 0; /* bytes/s; NAN is 0 too */
}

static void label(struct nvbandwidth *parser, enum nvbandwidth_role role, int engine)
{
    struct import_source *source = parser->source;
    (void)snprintf(source->label, sizeof source->label, "nvbandwidth%s%s %s_%s, %s",
                   parser->version[0] != '\0' ? " " : "", parser->version, nvbandwidth_word(role),
                   engine == NVB_ENGINE_CE ? "ce" : "sm", source->name);
}

/* The copy engine's matrix of a role, or the kernel copies' for want of it; NULL: none. */
static const struct nvbandwidth_matrix *pick(const struct nvbandwidth *parser, enum nvbandwidth_role role, int *engine)
{
    for (*engine = 0; *engine < NVB_ENGINE_COUNT; (*engine)++) {
        if (parser->slots[role][*engine].values != NULL) {
            return &parser->slots[role][*engine];
        }
    }
    return NULL;
}

static struct point copy_point(const struct nvbandwidth *parser, enum copy_way way, uint32_t to, int engine,
                               double seconds)
{
    return (struct point){
        .kind = POINT_COPY,
        .way = way,
        .to = to,
        .at_once = 1,
        .bytes = parser->bytes,
        .seconds = seconds,
        .in_doubt = engine == NVB_ENGINE_SM,
    };
}

static void note_kernel_copies(struct nvbandwidth *parser, enum nvbandwidth_role role, int engine)
{
    if (engine == NVB_ENGINE_SM) {
        import_note(parser->source, "%s_sm: kernel copies, for want of the copy engine's; marked in doubt",
                    nvbandwidth_word(role));
    }
}

static enum status one_way(struct nvbandwidth *parser, enum nvbandwidth_role role, enum copy_way way,
                           struct error *error)
{
    int engine;
    const struct nvbandwidth_matrix *matrix = pick(parser, role, &engine);
    if (matrix == NULL) {
        return STATUS_OK;
    }
    label(parser, role, engine);
    note_kernel_copies(parser, role, engine);
    for (uint32_t g = 0; g < matrix->columns; g++) {
        double rate = cell(matrix, 0, g);
        if (rate > 0) {
            struct point point = copy_point(parser, way, g, engine, parser->bytes / rate);
            TRY(import_add(parser->source, matrix->line, &point, error));
        }
    }
    return STATUS_OK;
}

/* All GPUs at once; with one GPU the test is the one-way test again. */
static enum status all_one_way(struct nvbandwidth *parser, enum nvbandwidth_role role, enum copy_way way,
                               struct error *error)
{
    int engine;
    const struct nvbandwidth_matrix *matrix = pick(parser, role, &engine);
    double slowest = INFINITY;
    uint32_t gpus = 0;
    for (uint32_t g = 0; matrix != NULL && g < matrix->columns; g++) {
        double rate = cell(matrix, 0, g);
        slowest = rate > 0 ? fmin(slowest, rate) : slowest;
        gpus += rate > 0;
    }
    if (gpus < 2) {
        return STATUS_OK;
    }
    label(parser, role, engine);
    note_kernel_copies(parser, role, engine);
    struct point point = copy_point(parser, way, 0, engine, parser->bytes / slowest);
    point.at_once = gpus;
    return import_add(parser->source, matrix->line, &point, error);
}

/* The two directions' tests together. `all`: one point of all GPUs instead of one each. */
static enum status both_ways(struct nvbandwidth *parser, enum nvbandwidth_role down, enum nvbandwidth_role up, bool all,
                             struct error *error)
{
    int engine, other;
    const struct nvbandwidth_matrix *h2d = pick(parser, down, &engine), *d2h = pick(parser, up, &other);
    if (h2d == NULL && d2h == NULL) {
        return STATUS_OK;
    }
    if (h2d == NULL || d2h == NULL || engine != other || h2d->columns != d2h->columns) {
        import_skip(parser->source, h2d != NULL ? h2d->line : d2h->line, 1,
                    "%s and %s belong together: one alone does not say what a link carries both ways",
                    nvbandwidth_word(down), nvbandwidth_word(up));
        return STATUS_OK;
    }
    label(parser, down, engine);
    double slowest = INFINITY;
    uint32_t gpus = 0;
    for (uint32_t g = 0; g < h2d->columns; g++) {
        double rate_down = cell(h2d, 0, g), rate_up = cell(d2h, 0, g);
        if (rate_down <= 0 || rate_up <= 0) {
            continue;
        }
        gpus++;
        slowest = fmin(slowest, rate_down + rate_up);
        if (!all) {
            struct point point = copy_point(parser, COPY_BOTH, g, engine, 2 * parser->bytes / (rate_down + rate_up));
            TRY(import_add(parser->source, h2d->line, &point, error));
        }
    }
    if (all && gpus >= 2) {
        struct point point = copy_point(parser, COPY_BOTH, 0, engine, 2 * parser->bytes / slowest);
        point.at_once = gpus;
        TRY(import_add(parser->source, h2d->line, &point, error));
    }
    return STATUS_OK;
}

/* A peer copy is the receiver's: reads are taken, writes for want of them. */
static enum status peers(struct nvbandwidth *parser, struct error *error)
{
    int read_engine, write_engine;
    const struct nvbandwidth_matrix *reads = pick(parser, NVB_PEER_READ, &read_engine);
    const struct nvbandwidth_matrix *writes = pick(parser, NVB_PEER_WRITE, &write_engine);
    bool read = reads != NULL && (writes == NULL || read_engine <= write_engine);
    const struct nvbandwidth_matrix *matrix = read ? reads : writes;
    int engine = read ? read_engine : write_engine;
    if (matrix == NULL) {
        return STATUS_OK;
    }
    if (reads != NULL && writes != NULL) {
        import_note(parser->source, "peer copies: %s are taken, %s passed over", read ? "reads" : "writes",
                    read ? "writes" : "reads");
    }
    label(parser, read ? NVB_PEER_READ : NVB_PEER_WRITE, engine);
    note_kernel_copies(parser, read ? NVB_PEER_READ : NVB_PEER_WRITE, engine);
    for (uint32_t r = 0; r < matrix->rows; r++) {
        for (uint32_t c = 0; c < matrix->columns; c++) {
            double rate = cell(matrix, r, c);
            if (r == c || rate <= 0) {
                continue;
            }
            struct point point = copy_point(parser, COPY_PEER, read ? r : c, engine, parser->bytes / rate);
            point.from = read ? c : r;
            TRY(import_add(parser->source, matrix->line, &point, error));
        }
    }
    return STATUS_OK;
}

enum status nvbandwidth_flush(struct nvbandwidth *parser, struct error *error)
{
    uint32_t before = parser->source->result->points;
    char size[32];
    TRY(one_way(parser, NVB_H2D, COPY_H2D, error));
    TRY(one_way(parser, NVB_D2H, COPY_D2H, error));
    TRY(both_ways(parser, NVB_H2D_BOTH, NVB_D2H_BOTH, false, error));
    TRY(all_one_way(parser, NVB_ALL_H2D, COPY_H2D, error));
    TRY(all_one_way(parser, NVB_ALL_D2H, COPY_D2H, error));
    TRY(both_ways(parser, NVB_ALL_H2D_BOTH, NVB_ALL_D2H_BOTH, true, error));
    TRY(peers(parser, error));
    if (parser->source->result->points > before) {
        import_note(parser->source, "%u copies of %s%s", parser->source->result->points - before,
                    text_bytes(parser->bytes, size, sizeof size),
                    parser->said ? "" : " (the size is not said: today's default)");
    }
    for (int r = 0; r < NVB_COUNT; r++) {
        for (int e = 0; e < NVB_ENGINE_COUNT; e++) {
            nvbandwidth_matrix_free(&parser->slots[r][e]);
        }
    }
    return STATUS_OK;
}
