/* Measured collectives and the kernel model of a machine file. */
#include "hw_models/machine_read.h"

#include <stdlib.h>
#include <string.h>

#include "sim/base/check.h"

static const char *const COLLECTIVE_WORDS[] = {
#define X(name, word) word,
    COLLECTIVE_TABLE(X)
#undef X
};
static const char *const DTYPE_WORDS[] = {
#define X(name, word, bytes) word,
    DTYPE_TABLE(X)
#undef X
};
static const char *const CLASS_WORDS[] = {
#define X(name, word, help) word,
    KERNEL_CLASS_TABLE(X)
#undef X
};

static const struct {
    const char *key;
    double least, most;
} CONSTANTS[] = {
#define X(name, key, least, most, meaning) { key, least, most },
    GEMM_CONSTANT_TABLE(X)
#undef X
};
static const char *const CONSTANT_KEYS[] = {
#define X(name, key, least, most, meaning) key,
    GEMM_CONSTANT_TABLE(X)
#undef X
};
_Static_assert((int)GEMM_CONSTANT_COUNT <= (int)KERNEL_CONSTANTS_MAX, "raise KERNEL_CONSTANTS_MAX");

const char *collective_word(enum collective_kind kind)
{
    CHECK((unsigned)kind < COLLECTIVE_KIND_COUNT);
    return COLLECTIVE_WORDS[kind];
}

const struct machine_collective_curve *machine_curve(const struct machine *machine, enum collective_kind kind,
                                                     uint32_t ranks, uint32_t nodes)
{
    for (uint32_t i = 0; i < machine->curve_count; i++) {
        const struct machine_collective_curve *curve = &machine->curves[i];
        if (curve->kind == kind && curve->ranks == ranks && curve->nodes == nodes) {
            return curve;
        }
    }
    return NULL;
}

/* "bytes_GBps": [[32768, 1.31], [65536, 2.45], ...] by rising bytes into x (bytes) and y (bytes/s). */
static enum status read_points(const struct json *at, double *x, double *y, size_t *count, struct error *error)
{
    struct json points;
    TRY(json_array(at, "bytes_GBps", &points, error));
    *count = json_count(&points);
    if (*count == 0 || *count > MACHINE_POINTS_MAX) {
        return json_error(&points, error, "%zu points; from 1 to %d are allowed", *count, MACHINE_POINTS_MAX);
    }
    for (size_t i = 0; i < *count; i++) {
        struct json point, value;
        json_item(&points, i, &point);
        if (json_type(&point) != JSON_ARRAY || json_count(&point) != 2) {
            return json_error(&point, error, "a point is [bytes, GB/s]");
        }
        json_item(&point, 0, &value);
        TRY(json_as_real(&value, 1.0, 1e15, &x[i], error));
        if (i > 0 && !(x[i] > x[i - 1])) {
            return json_error(&value, error, "bytes must rise from point to point: %.17g after %.17g", x[i], x[i - 1]);
        }
        json_item(&point, 1, &value);
        TRY(json_as_real(&value, 1e-6, 1e6, &y[i], error));
        y[i] *= 1e9;
    }
    return STATUS_OK;
}

static enum status read_curve(struct machine *machine, const struct json *at, bool store,
                              struct machine_collective_curve *curve, struct error *error)
{
    static const char *const KEYS[] = { "kind", "ranks", "nodes", "bytes_GBps", "source", "estimated" };
    double x[MACHINE_POINTS_MAX], y[MACHINE_POINTS_MAX];
    size_t kind, count;
    int64_t ranks, nodes;
    bool estimated;
    TRY(json_known_keys(at, KEYS, sizeof KEYS / sizeof KEYS[0], error));
    TRY(json_word(at, "kind", COLLECTIVE_WORDS, COLLECTIVE_KIND_COUNT, &kind, error));
    TRY(json_int(at, "ranks", 2, 1000000, &ranks, error));
    TRY(json_int_or(at, "nodes", 1, 100000, 1, &nodes, error));
    TRY(json_string_or(at, "source", "", &curve->source, error));
    TRY(json_bool_or(at, "estimated", false, &estimated, error));
    TRY(read_points(at, x, y, &count, error));
    curve->kind = (enum collective_kind)kind;
    curve->ranks = (uint32_t)ranks;
    curve->nodes = (uint32_t)nodes;
    if (!store) {
        return STATUS_OK;
    }
    if (ranks > nodes * (int64_t)machine->gpu_count) {
        return json_error(at, error, "%lld ranks on %lld nodes of %u GPUs", (long long)ranks, (long long)nodes,
                          machine->gpu_count);
    }
    TRY(machine_text(machine, curve->source, &curve->source, error));
    TRY(curve_make(&curve->curve, &machine->arena, x, y, count, CURVE_LOG_LOG, CURVE_EXTEND, CURVE_HOLD, error));
    if (curve->source[0] != '\0') {
        char *field = arena_printf(&machine->arena, "collectives.%s.%u", COLLECTIVE_WORDS[kind], curve->ranks);
        if (field == NULL) {
            return machine_out_of_memory(error);
        }
        TRY(machine_add_source(machine, field, curve->source, estimated, error));
    }
    return STATUS_OK;
}

enum status machine_read_curves(struct machine *machine, const struct json *root, bool partial, struct error *error)
{
    struct json array;
    TRY(json_array_optional(root, "collectives", &array, error));
    if (array.node == NULL) {
        return STATUS_OK;
    }
    uint32_t inherited = partial ? machine->curve_count : 0;
    size_t room = json_count(&array);
    if (room > 4096) {
        return json_error(&array, error, "more than 4096 curves");
    }
    struct machine_collective_curve *curves =
        arena_array(&machine->arena, struct machine_collective_curve, inherited + room);
    if (curves == NULL) {
        return machine_out_of_memory(error);
    }
    if (inherited > 0) {
        memcpy(curves, machine->curves, inherited * sizeof *curves);
    }
    machine->curves = curves;
    machine->curve_count = inherited;
    for (size_t i = 0; i < room; i++) {
        struct json at;
        struct machine_collective_curve curve = { 0 };
        json_item(&array, i, &at);
        TRY(read_curve(machine, &at, true, &curve, error));
        const struct machine_collective_curve *same = machine_curve(machine, curve.kind, curve.ranks, curve.nodes);
        if (same == NULL) {
            curves[machine->curve_count++] = curve;
            continue;
        }
        uint32_t place = (uint32_t)(same - curves);
        if (place >= inherited) {
            return json_error(&at, error, "a second %s curve of %u ranks on %u nodes; keep others under \"measured\"",
                              COLLECTIVE_WORDS[curve.kind], curve.ranks, curve.nodes);
        }
        curves[place] = curve;
    }
    return STATUS_OK;
}

static enum status read_gemm(struct machine *machine, const struct json *model, struct error *error)
{
    struct json gemm;
    TRY(json_object_optional(model, "gemm", &gemm, error));
    if (gemm.node == NULL) {
        return STATUS_OK;
    }
    TRY(json_known_keys(&gemm, DTYPE_WORDS, DTYPE_COUNT, error));
    for (int d = 0; d < DTYPE_COUNT; d++) {
        struct json at;
        struct machine_gemm_constants *constants = &machine->gpu.gemm[d];
        TRY(json_object_optional(&gemm, DTYPE_WORDS[d], &at, error));
        if (at.node == NULL) {
            continue;
        }
        if (!(machine->gpu.peak_flops[d] > 0.0)) {
            return json_error(&at, error, "constants for %s, but gpu.peak_TFLOPS gives no %s peak", DTYPE_WORDS[d],
                              DTYPE_WORDS[d]);
        }
        TRY(json_known_keys(&at, CONSTANT_KEYS, GEMM_CONSTANT_COUNT, error));
        for (int i = 0; i < GEMM_CONSTANT_COUNT; i++) {
            double *value = &constants->values[i];
            bool can_stay = constants->present || gemm_constant_can_lack((enum gemm_constant)i);
            if (can_stay) {
                TRY(json_real_or(&at, CONSTANTS[i].key, CONSTANTS[i].least, CONSTANTS[i].most, *value, value, error));
            } else {
                TRY(json_real(&at, CONSTANTS[i].key, CONSTANTS[i].least, CONSTANTS[i].most, value, error));
            }
        }
        constants->present = true;
    }
    return STATUS_OK;
}

enum status machine_read_kernel_model(struct machine *machine, const struct json *root, bool partial,
                                      struct error *error)
{
    static const char *const KEYS[] = { "gemm",
                                        "attention_forward_efficiency",
                                        "attention_backward_efficiency",
                                        "class_efficiency",
                                        "attention_forward_tail",
                                        "attention_backward_tail",
                                        "attention_tile" };
    struct machine_gpu *gpu = &machine->gpu;
    struct json model, classes;
    if (!partial) {
        for (int i = 0; i < KERNEL_CLASS_COUNT; i++) {
            gpu->class_efficiency[i] = 1.0;
        }
        TRY(json_object(root, "kernel_model", &model, error));
    } else {
        TRY(json_object_optional(root, "kernel_model", &model, error));
    }
    if (model.node != NULL) {
        TRY(json_known_keys(&model, KEYS, sizeof KEYS / sizeof KEYS[0], error));
        TRY(read_gemm(machine, &model, error));
        double forward = partial ? gpu->attention_forward_efficiency : 0.55;
        double backward = partial ? gpu->attention_backward_efficiency : 0.45;
        TRY(json_real_or(&model, KEYS[1], 0.01, 1.0, forward, &gpu->attention_forward_efficiency, error));
        TRY(json_real_or(&model, KEYS[2], 0.01, 1.0, backward, &gpu->attention_backward_efficiency, error));
        forward = partial ? gpu->attention_forward_tail : 0.8;
        backward = partial ? gpu->attention_backward_tail : 0.4;
        TRY(json_real_or(&model, KEYS[4], 0, 10.0, forward, &gpu->attention_forward_tail, error));
        TRY(json_real_or(&model, KEYS[5], 0, 10.0, backward, &gpu->attention_backward_tail, error));
        TRY(json_real_or(&model, KEYS[6], 0, 65536, partial ? gpu->attention_tile : 0, &gpu->attention_tile, error));
        TRY(json_object_optional(&model, "class_efficiency", &classes, error));
        if (classes.node != NULL) {
            TRY(json_known_keys(&classes, CLASS_WORDS, KERNEL_CLASS_COUNT, error));
            for (int i = 0; i < KERNEL_CLASS_COUNT; i++) {
                double *value = &gpu->class_efficiency[i];
                TRY(json_real_or(&classes, CLASS_WORDS[i], 0.01, 1.5, *value, value, error));
            }
        }
    }
    for (int d = 0; d < DTYPE_COUNT; d++) {
        gpu->gemm[d].peak_flops = gpu->peak_flops[d];
    }
    return STATUS_OK;
}

/* Reference points that the simulator does not read: checked so that a mistyped file is refused, and kept for tests and for `explain`. */
enum status machine_read_measured(const struct json *root, struct error *error)
{
    static const char *const KEYS[] = { "gemm", "collectives", "values", "source" };
    static const char *const GEMM_KEYS[] = { "dtype", "source", "m_n_k_TFLOPS" };
    struct json measured, array;
    TRY(json_object_optional(root, "measured", &measured, error));
    if (measured.node == NULL) {
        return STATUS_OK;
    }
    TRY(json_known_keys(&measured, KEYS, sizeof KEYS / sizeof KEYS[0], error));
    TRY(json_array_optional(&measured, "collectives", &array, error));
    for (size_t i = 0; array.node != NULL && i < json_count(&array); i++) {
        struct json at;
        struct machine_collective_curve curve = { 0 };
        json_item(&array, i, &at);
        TRY(read_curve(NULL, &at, false, &curve, error));
    }
    TRY(json_array_optional(&measured, "gemm", &array, error));
    for (size_t i = 0; array.node != NULL && i < json_count(&array); i++) {
        struct json at, rows;
        size_t dtype;
        json_item(&array, i, &at);
        TRY(json_known_keys(&at, GEMM_KEYS, sizeof GEMM_KEYS / sizeof GEMM_KEYS[0], error));
        TRY(json_word(&at, "dtype", DTYPE_WORDS, DTYPE_COUNT, &dtype, error));
        TRY(json_array(&at, "m_n_k_TFLOPS", &rows, error));
        for (size_t r = 0; r < json_count(&rows); r++) {
            struct json row;
            json_item(&rows, r, &row);
            if (json_type(&row) != JSON_ARRAY || json_count(&row) != 4) {
                return json_error(&row, error, "a row is [m, n, k, TFLOP/s]");
            }
            for (size_t k = 0; k < 4; k++) {
                struct json cell;
                double value;
                json_item(&row, k, &cell);
                TRY(json_as_real(&cell, 1e-6, 1e9, &value, error));
            }
        }
    }
    return STATUS_OK;
}
