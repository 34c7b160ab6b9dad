#include "sim/report/sensitivity_scale.h"

#include <math.h>
#include <string.h>

#include "sim/base/check.h"

const char *scaled_resource_word(enum scaled_resource resource)
{
    static const char *const words[] = {
#define X(name, word, text) word,
        SCALED_RESOURCE_TABLE(X)
#undef X
    };
    return words[resource];
}

const char *scaled_resource_text(enum scaled_resource resource)
{
    static const char *const texts[] = {
#define X(name, word, text) text,
        SCALED_RESOURCE_TABLE(X)
#undef X
    };
    return texts[resource];
}

enum status machine_copy(struct scaled_machine *copy, const struct machine *machine, const struct software *software,
                         struct error *error)
{
    *copy = (struct scaled_machine){ .machine = *machine, .software = *software };
    struct machine *m = &copy->machine;
    m->arena = (struct arena){ 0 };
    m->parts = arena_array(&copy->arena, struct machine_part, m->part_count);
    m->links = arena_array(&copy->arena, struct machine_link, m->link_count);
    m->curves = arena_array(&copy->arena, struct machine_collective_curve, m->curve_count);
    bool failed = m->parts == NULL || m->links == NULL || m->curves == NULL;
    if (!failed) {
        memcpy(m->parts, machine->parts, m->part_count * sizeof *m->parts);
        memcpy(m->links, machine->links, m->link_count * sizeof *m->links);
    }
    for (uint32_t i = 0; !failed && i < m->curve_count; i++) {
        double *y = arena_array(&copy->arena, double, machine->curves[i].curve.count);
        failed = y == NULL;
        if (!failed) {
            m->curves[i] = machine->curves[i];
            memcpy(y, machine->curves[i].curve.y, machine->curves[i].curve.count * sizeof *y);
            m->curves[i].curve.y = y;
        }
    }
    if (failed) {
        scaled_machine_free(copy);
        return error_set(error, STATUS_NO_MEMORY, "out of memory: a copy of machine \"%s\"", machine->name);
    }
    return STATUS_OK;
}

void scaled_machine_free(struct scaled_machine *scaled)
{
    arena_free(&scaled->arena);
}

/* The resource that a link belongs to; SCALED_RESOURCE_COUNT: none (between sockets). */
static enum scaled_resource link_owner(const struct machine *m, const struct machine_link *link)
{
    enum machine_part_kind a = m->parts[link->a].kind, b = m->parts[link->b].kind;
    bool gpu_side_a = a == PART_GPU || a == PART_NVSWITCH, gpu_side_b = b == PART_GPU || b == PART_NVSWITCH;
    if (a == PART_DRAM || b == PART_DRAM) {
        return SCALE_DRAM_BANDWIDTH;
    }
    if (a == PART_NIC || b == PART_NIC) {
        return SCALE_NIC;
    }
    if (a == PART_NVME || b == PART_NVME) {
        return SCALE_NVME;
    }
    if (gpu_side_a && gpu_side_b) {
        return SCALE_NVLINK;
    }
    return a == PART_CPU && b == PART_CPU ? SCALED_RESOURCE_COUNT : SCALE_PCIE;
}

static enum scaled_resource collective_owner(const struct machine *m)
{
    if (m->gpu.on_host) {
        return SCALE_DRAM_BANDWIDTH;
    }
    for (uint32_t i = 0; i < m->link_count; i++) {
        if (link_owner(m, &m->links[i]) == SCALE_NVLINK) {
            return SCALE_NVLINK;
        }
    }
    return SCALE_PCIE;
}

/* In bandwidth, not in latency: see the header. The curve is on doubly logarithmic paper. */
static void scale_curve(struct curve *curve, double factor)
{
    double *y = (double *)(uintptr_t)curve->y; /* our own copy */
    double best = 0;
    CHECK(curve->scale == CURVE_LOG_LOG);
    for (size_t i = 0; i < curve->count; i++) {
        best = fmax(best, exp(y[i]));
    }
    for (size_t i = 0; i < curve->count; i++) {
        y[i] = -log(exp(-y[i]) - (1 - 1 / factor) / best);
    }
}

static bool scale_links(struct machine *m, enum scaled_resource resource, double factor)
{
    bool any = false;
    for (uint32_t i = 0; i < m->link_count; i++) {
        struct machine_link *link = &m->links[i];
        if (link_owner(m, link) == resource) {
            link->bytes_per_s *= factor;
            link->back_bytes_per_s *= factor;
            link->peak_bytes_per_s *= factor;
            link->both_bytes_per_s *= factor;
            any = true;
        }
    }
    if (collective_owner(m) == resource) {
        m->nvlink_collective_bytes_per_s *= factor;
    }
    for (uint32_t i = 0; i < m->curve_count; i++) {
        enum scaled_resource owner = m->curves[i].nodes > 1 ? SCALE_NIC : collective_owner(m);
        if (owner == resource) {
            scale_curve(&m->curves[i].curve, factor);
        }
    }
    return any;
}

static bool scale_parts(struct machine *m, enum scaled_resource resource, double factor, double *reached)
{
    bool any = false;
    for (uint32_t i = 0; i < m->part_count; i++) {
        struct machine_part *part = &m->parts[i];
        if (resource == SCALE_CORES && part->kind == PART_CPU) {
            double cores = fmax(1, rint(part->cores * factor));
            *reached = cores / part->cores; /* sockets of a machine are alike */
            part->cores = (uint32_t)cores;
            any = true;
        } else if (resource == SCALE_NIC && part->kind == PART_NIC) {
            part->line_bytes_per_s *= factor;
            any = true;
        } else if (resource == SCALE_NVME && part->kind == PART_NVME) {
            part->read_bytes_per_s *= factor;
            part->write_bytes_per_s *= factor;
            any = true;
        } else if (resource == SCALE_DRAM_BANDWIDTH && part->kind == PART_DRAM) {
            part->read_bytes_per_s *= factor;
            part->write_bytes_per_s *= factor;
            any = true;
        } else if (resource == SCALE_DRAM_SIZE && part->kind == PART_DRAM) {
            part->capacity_bytes *= factor;
            any = true;
        }
    }
    return any;
}

static bool scale_gpu(struct machine_gpu *gpu, enum scaled_resource resource, double factor)
{
    if (resource == SCALE_HBM_SIZE) {
        gpu->memory_bytes *= factor;
        gpu->usable_bytes *= factor;
        return true;
    }
    if (resource == SCALE_HBM_BANDWIDTH) {
        gpu->hbm_bytes_per_s *= factor;
        gpu->hbm_peak_bytes_per_s *= factor;
        return true;
    }
    if (resource != SCALE_MATRIX) {
        return false;
    }
    for (int i = 0; i < DTYPE_COUNT; i++) {
        gpu->peak_flops[i] *= factor;
        gpu->gemm[i].peak_flops *= factor;
    }
    return true;
}

static bool scale_software(struct software *s, double factor)
{
    double before = s->launch_host_s + s->collective_host_s + s->copy_host_s + s->pass_host_s + s->micro_batch_host_s +
                    s->step_host_s;
    s->launch_host_s /= factor;
    s->collective_host_s /= factor;
    s->copy_host_s /= factor;
    s->pass_host_s /= factor;
    s->micro_batch_host_s /= factor;
    s->step_host_s /= factor;
    return before > 0;
}

enum status machine_scale(struct scaled_machine *scaled, const struct machine *machine, const struct software *software,
                          enum scaled_resource resource, double factor, double *reached, struct error *error)
{
    CHECK(factor > 0 && resource < SCALED_RESOURCE_COUNT);
    TRY(machine_copy(scaled, machine, software, error));
    struct machine *m = &scaled->machine;
    double got = factor;
    bool any = scale_gpu(&m->gpu, resource, factor);
    any = scale_parts(m, resource, factor, &got) || any;
    any = scale_links(m, resource, factor) || any;
    if (resource == SCALE_DRAM_SIZE) {
        m->dram_bytes *= factor;
    }
    if (resource == SCALE_HOST_ISSUE) {
        any = scale_software(&scaled->software, factor);
    }
    *reached = any ? got : 1;
    return STATUS_OK;
}
