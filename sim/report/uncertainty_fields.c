/* Paths of a machine file that calibration gives errors to, and where they live in struct machine. */
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "sim/report/uncertainty.h"

static const char *const DTYPE_WORDS[DTYPE_COUNT] = {
#define X(name, word, bytes) word,
    DTYPE_TABLE(X)
#undef X
};
static const char *const CLASS_WORDS[KERNEL_CLASS_COUNT] = {
#define X(name, word, help) word,
    KERNEL_CLASS_TABLE(X)
#undef X
};
static const struct {
    const char *key;
    double least, most;
} GEMM_KEYS[GEMM_CONSTANT_COUNT] = {
#define X(name, key, least, most, meaning) { key, least, most },
    GEMM_CONSTANT_TABLE(X)
#undef X
};

/* Of attention, which are no scalars of machine_field_get; ranges as in hw_models/machine_curves.c. */
static const struct {
    const char *path;
    size_t offset;
    double least, most;
} ATTENTION[] = {
    { "kernel_model.attention_forward_efficiency", offsetof(struct machine_gpu, attention_forward_efficiency), 0.01,
      1 },
    { "kernel_model.attention_backward_efficiency", offsetof(struct machine_gpu, attention_backward_efficiency), 0.01,
      1 },
    { "kernel_model.attention_forward_tail", offsetof(struct machine_gpu, attention_forward_tail), 0, 10 },
    { "kernel_model.attention_backward_tail", offsetof(struct machine_gpu, attention_backward_tail), 0, 10 },
};

static void add(double *value, double by, double least, double most)
{
    *value = fmax(least, fmin(most, *value + by));
}

/* What follows `prefix` in `text`, or NULL. */
static const char *after(const char *text, const char *prefix)
{
    size_t length = strlen(prefix);
    return strncmp(text, prefix, length) == 0 ? text + length : NULL;
}

static bool shift_gemm(struct machine *machine, const char *rest, double by)
{
    for (int d = 0; d < DTYPE_COUNT; d++) {
        const char *key = after(rest, DTYPE_WORDS[d]);
        for (int i = 0; key != NULL && *key == '.' && i < GEMM_CONSTANT_COUNT; i++) {
            if (strcmp(key + 1, GEMM_KEYS[i].key) == 0) {
                add(&machine->gpu.gemm[d].values[i], by, GEMM_KEYS[i].least, GEMM_KEYS[i].most);
                return true;
            }
        }
    }
    return false;
}

static bool shift_class(struct machine *machine, const char *rest, double by)
{
    for (int i = 0; i < KERNEL_CLASS_COUNT; i++) {
        if (strcmp(rest, CLASS_WORDS[i]) == 0) {
            add(&machine->gpu.class_efficiency[i], by, 0.01, 1);
            return true;
        }
    }
    return false;
}

/* All links of a kind alike: "links.pcie.GBps". */
static bool shift_links(struct machine *machine, const char *rest, double by)
{
    bool any = false;
    for (uint32_t i = 0; i < machine->link_count; i++) {
        struct machine_link *link = &machine->links[i];
        const char *key = after(rest, machine_link_word(link->kind));
        if (key == NULL || *key != '.') {
            continue;
        }
        if (strcmp(key, ".GBps") == 0) {
            bool same = link->back_bytes_per_s >= link->bytes_per_s && link->back_bytes_per_s <= link->bytes_per_s;
            add(&link->bytes_per_s, 1e9 * by, 1e6, INFINITY);
            link->back_bytes_per_s = same ? link->bytes_per_s : link->back_bytes_per_s;
        } else if (strcmp(key, ".back_GBps") == 0) {
            add(&link->back_bytes_per_s, 1e9 * by, 1e6, INFINITY);
        } else if (strcmp(key, ".latency_us") == 0) {
            add(&link->latency_s, 1e-6 * by, 0, INFINITY);
        } else {
            continue;
        }
        any = true;
    }
    return any;
}

bool uncertainty_shift(struct machine *machine, const char *field, double by)
{
    const char *rest;
    if (machine_field_shift(machine, field, by)) {
        machine->gpu.hbm_bytes_per_s = fmin(machine->gpu.hbm_bytes_per_s, machine->gpu.hbm_peak_bytes_per_s);
        return true;
    }
    for (size_t i = 0; i < sizeof ATTENTION / sizeof ATTENTION[0]; i++) {
        if (strcmp(field, ATTENTION[i].path) == 0) {
            double *value = (double *)(void *)((char *)&machine->gpu + ATTENTION[i].offset);
            add(value, by, ATTENTION[i].least, ATTENTION[i].most);
            return true;
        }
    }
    if ((rest = after(field, "kernel_model.gemm.")) != NULL) {
        return shift_gemm(machine, rest, by);
    }
    if ((rest = after(field, "kernel_model.class_efficiency.")) != NULL) {
        return shift_class(machine, rest, by);
    }
    rest = after(field, "links.");
    return rest != NULL && shift_links(machine, rest, by);
}
