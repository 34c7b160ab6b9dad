#include "strategies/policies/chunk_budget.h"

static double larger(double a, double b)
{
    return a > b ? a : b;
}

double chunk_device_budget(const struct chunk_budget *budget, enum chunk_stage stage, bool warmup, double now,
                           double next)
{
    double chunk = 2 * budget->chunk_elements;
    double remote = budget->memory_saving ? 1 : budget->ranks;
    if (stage == STAGE_ADAM) {
        return budget->gpu_bytes - CHUNK_ADAM_FP32_BYTES * budget->chunk_elements;
    }
    if (warmup || budget->static_partition) {
        return budget->warmup_ratio * budget->gpu_bytes;
    }
    if (stage == STAGE_BACKWARD && budget->preset == CHUNK_CODE) {
        remote *= remote;
    }
    return budget->gpu_bytes - larger(now, next) - remote * chunk;
}

double chunk_host_budget(const struct chunk_budget *budget, enum chunk_stage stage, bool warmup)
{
    if (warmup || stage == STAGE_ADAM) {
        return budget->cpu_bytes;
    }
    double shared = budget->preset == CHUNK_CODE ? budget->local_ranks : 1;
    return budget->cpu_bytes - budget->max_host_bytes / shared;
}

double chunk_margin(const struct chunk_budget *budget, uint32_t fp16_chunks, double max_device_bytes)
{
    double chunk = 2 * budget->chunk_elements;
    double parameters = chunk * fp16_chunks / budget->ranks * (budget->gradient_chunks ? 2 : 1);
    parameters += chunk * (budget->memory_saving ? 1 : budget->ranks - 1);
    return (budget->gpu_bytes - max_device_bytes - parameters) / (12 * budget->chunk_elements) * CHUNK_MARGIN_USE;
}

static double others(uint32_t ranks)
{
    return (double)(ranks - 1) / ranks;
}

double chunk_volume_gathered(double parameters, uint32_t ranks)
{
    return (2 + 2 + 2) * others(ranks) * parameters;
}

double chunk_volume_broadcast(double parameters, uint32_t ranks)
{
    return (4 + 4 + 2) * others(ranks) * parameters;
}

double chunk_volume_replicated(double parameters, uint32_t ranks)
{
    return 2 * 2 * others(ranks) * parameters;
}
