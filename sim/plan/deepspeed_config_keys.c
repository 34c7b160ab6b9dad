/* Keys of DeepSpeed's configuration that change nothing here, and why. */
#include <string.h>

#include "sim/base/array.h"
#include "sim/base/check.h"
#include "sim/plan/deepspeed_config_internal.h"

static const char GENERAL[] = "no effect on the simulation";

static const struct {
    const char *path, *reason;
} REASONS[] = {
    { "$.gradient_clipping", "the gradient norm is always computed" },
    { "$.scheduler", "one step is simulated" },
    { "$.optimizer.params", "Adam's numbers change neither time nor memory" },
    { "$.zero_optimization.allgather_bucket_size", "new weights are gathered in one collective" },
    { "$.zero_optimization.allgather_partitions", "new weights are gathered in one collective" },
    { "$.zero_optimization.contiguous_gradients", "gradients always leave in buckets" },
    { "$.zero_optimization.reduce_scatter", "gradients are always reduced to their owners" },
    { "$.zero_optimization.round_robin_gradients", "copies of all ranks run at once, as with it" },
    { "$.zero_optimization.offload_optimizer.nvme_path", "the drives of a server are one striped set" },
    { "$.zero_optimization.offload_param.nvme_path", "the drives of a server are one striped set" },
    { "$.zero_optimization.offload_optimizer.buffer_count", "a sub-group takes one buffer of each state" },
    { "$.zero_optimization.offload_param.max_in_cpu", "weights on drives stay there between passes" },
    { "$.activation_checkpointing.cpu_checkpointing", "without offload_optimizer checkpoints stay on the device" },
    { "$.activation_checkpointing.partition_activations", "parallel.sequence_parallel divides them" },
};

static const char *reason_of(const char *path)
{
    for (size_t i = 0; i < sizeof REASONS / sizeof REASONS[0]; i++) {
        if (strcmp(path, REASONS[i].path) == 0) {
            return REASONS[i].reason;
        }
    }
    return GENERAL;
}

static bool is_used(const struct deepspeed_used *used, const struct json *at)
{
    for (uint32_t i = 0; i < used->count; i++) {
        if (used->nodes[i] == at->node) {
            return true;
        }
    }
    return false;
}

/* Something below an object was read. */
static bool holds_used(const struct deepspeed_used *used, const struct json *at)
{
    if (json_type(at) != JSON_OBJECT) {
        return false;
    }
    for (size_t i = 0; i < json_count(at); i++) {
        const char *key;
        struct json child;
        json_member(at, i, &key, &child);
        if (is_used(used, &child) || holds_used(used, &child)) {
            return true;
        }
    }
    return false;
}

static enum status add(struct deepspeed_reading *reading, const struct json *at, struct error *error)
{
    char path[ERROR_PATH_BYTES];
    struct deepspeed_ignored_list *list = &reading->ignored;
    const char *kept = arena_text(&reading->arena, json_path(at, path, sizeof path));
    if (kept == NULL) {
        return error_set(error, STATUS_NO_MEMORY, "out of memory reading a DeepSpeed configuration");
    }
    TRY(array_reserve(list, 1, error));
    list->items[list->count++] = (struct deepspeed_ignored){ kept, reason_of(kept) };
    return STATUS_OK;
}

enum status deepspeed_list_ignored(struct deepspeed_reading *reading, const struct json *root,
                                   const struct deepspeed_used *used, struct error *error)
{
    for (size_t i = 0; i < json_count(root); i++) {
        const char *key;
        struct json child;
        json_member(root, i, &key, &child);
        bool read = is_used(used, &child), section = json_type(&child) == JSON_OBJECT;
        if ((read && !section) || strncmp(key, "_comment", strlen("_comment")) == 0) {
            continue;
        }
        if (read || holds_used(used, &child)) {
            TRY(deepspeed_list_ignored(reading, &child, used, error));
        } else {
            TRY(add(reading, &child, error));
        }
    }
    return STATUS_OK;
}

void deepspeed_reading_free(struct deepspeed_reading *reading)
{
    strbuf_free(&reading->scenario);
    array_free(&reading->ignored);
    arena_free(&reading->arena);
    *reading = (struct deepspeed_reading){ 0 };
}
