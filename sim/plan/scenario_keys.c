/* The one list of scenario keys. */
#include "sim/plan/scenario_keys.h"

#include <string.h>

#include "sim/base/check.h"
#include "sim/plan/scenario.h"

static const struct scenario_key KEYS[] = {
    { "schema", "text", "memwall.scenario/1", "format of the file" },
    { "name", "text", "the file's name", "what to call it in reports" },
    { "model", "name, path or object", "required",
      "a library model, a Hugging Face config.json, or {\"family\": ..., \"layers\": ...}" },
    { "machine", "name, path or object", "required",
      "a library server, a file, or an object (with \"base\": changes of a library one)" },
    { "nodes", "integer", "1", "servers of this kind" },
    { "gpus", "integer", "all of the nodes", "GPUs in use" },
    { "software", "name, path or object", "megatron", "the software stack's habits" },
    { "training", "object", "{}", "sequence, batch, precision, optimizer" },
    { "training.sequence_length", "integer", "the model's max_sequence", "tokens of a sequence" },
    { "training.micro_batch", "integer", "1", "sequences of one micro-batch on one replica" },
    { "training.global_batch", "integer", "micro_batch x data x pipeline",
      "sequences of a step; a multiple of micro_batch x data" },
    { "training.precision", "fp32 | tf32 | fp16 | bf16 | fp8", "fp16", "type of weights and activations in kernels" },
    { "training.optimizer", "adam", "adam", "mixed-precision Adam with fp32 master weights and moments" },
    { "training.layer_drop", "number", "0",
      "probability that a micro-batch skips a transformer layer (LayerDrop): other layers run every time; all replicas "
      "skip the same" },
    { "training.layer_drop_seed", "integer", "1", "of layer_drop's draws" },
    { "parallel", "object", "{}", "degrees; tensor x context x pipeline x data = gpus" },
    { "parallel.tensor", "integer", "1", "tensor-parallel degree; divides heads and ffn" },
    { "parallel.sequence_parallel", "true | false", "false",
      "shard norms and dropout along the sequence too; needs tensor > 1 to change anything" },
    { "parallel.context", "integer", "1", "context-parallel degree" },
    { "parallel.expert", "integer", "1", "expert-parallel degree" },
    { "parallel.pipeline", "integer", "1", "pipeline stages" },
    { "parallel.pipeline_order", "name or object", "1f1b",
      "pipeline order (memwall list orders); an object adds parameters beside \"name\"; or steps of your own: "
      "{\"name\": \"file\", \"path\": ...}, {\"name\": \"steps\", \"stages\": [\"F0 B0\", ...]}, \"auto\" (a "
      "scheduler's)" },
    { "parallel.virtual_stages", "integer", "what the order needs, else 1", "model chunks of each device" },
    { "parallel.data", "integer", "gpus / (tensor x context x pipeline)", "data-parallel replicas" },
    { "parallel.stage_replicas", "list of integers", "data of every stage",
      "replicas of each stage, instead of data: [4, 2, 1]; tensor x their sum = gpus" },
    { "parallel.replica_sharing", "deal | cut", "deal in asynchronous orders, else cut",
      "stage_replicas: micro-batches in turns (PipeDream), or each cut over the replicas (DAPPLE)" },
    { "parallel.zero_stage", "0 to 3", "0", "ZeRO: 1 shards optimizer states, 2 gradients too, 3 weights too" },
    { "parallel.gradient_barrier", "before | after | none", "after",
      "what a stage waits for: before it reduces gradients, for all stages; after, for the norm of all; none: it "
      "reduces, "
      "updates and goes on by itself" },
    { "parallel.layers", "list of objects", "all layers as above",
      "runs of layers that are split alike, in model order: [{\"layers\": 16, \"tensor\": 2, \"zero_stage\": 3}, "
      "...]" },
    { "parallel.layers[].layers", "integer", "required", "transformer layers of the run; the list has the model's" },
    { "parallel.layers[].tensor", "integer", "parallel.tensor, or what data leaves",
      "tensor-parallel degree of these layers; tensor x data is that of \"parallel\"" },
    { "parallel.layers[].data", "integer", "parallel.data, or what tensor leaves",
      "data-parallel degree; divides parallel.data x training.micro_batch, the samples of a stage's micro-batch" },
    { "parallel.layers[].zero_stage", "0 to 3", "parallel.zero_stage", "ZeRO over the data degree of these layers" },
    { "parallel.layers[].consecutive", "tensor | data", "tensor",
      "whose partners are consecutive ranks; those of the other are strided" },
    { "parallel.layers[].recompute", "none | selective | full", "recompute", "of these layers" },
    { "parallel.embedding", "object", "as the first layer", "tensor, data, zero_stage, consecutive of the embedding" },
    { "parallel.head", "object", "as the last layer; tied: as the embedding", "the same of the head" },
    { "recompute", "none | selective | full, or one for each layer", "none",
      "activations to compute again in backward" },
    { "memory_policy", "name or object", "resident",
      "memory policy (memwall list policies); an object adds parameters beside \"name\"" },
    { "plan", "object", "{}", "choices that a planner makes" },
    { "plan.stage_layers", "list of integers", "equal stages",
      "transformer layers of each virtual stage, in model order" },
    { "plan.stage_places", "list of integers", "in order",
      "which block of tensor x context x data devices each stage takes" },
    { "plan.moves", "list of objects", "none",
      "tensors that leave their device, for memory_policy mpress: [{\"tensor\": \"activation\", \"layers\": [0, 3], "
      "\"to\": \"host\"}, ...]" },
    { "plan.moves[].tensor", "activation | optimizer | version", "required",
      "what the layers keep that moves; version: older weights, of pipeline_order pipedream" },
    { "plan.moves[].layers", "[first, last], embedding or head", "required",
      "transformer layers, both included; embedding and head have no activations that move" },
    { "plan.moves[].to", "host | devices | cpu | recompute", "required",
      "host memory; other stages' devices; optimizer: host memory, updated by its cores; activation: computed again" },
    { "plan.moves[].stripes", "list of objects", "required for devices",
      "whose devices hold it: [{\"stage\": 5, \"share\": 2}, ...]; shares are relative to each other" },
    { "plan.moves[].lag", "integer", "2", "passes after its forward by which an activation is gone" },
    { "plan.moves[].lead", "integer", "2",
      "passes before its backward at which an activation or version begins to come back" },
    { "plan.moves[].when", "text", "none", "a planner's words: when it moves" },
    { "plan.moves[].over", "text", "none", "a planner's words: over which links" },
    { "plan.moves[].why", "text", "none", "a planner's words: why" },
    { "detail", "op | layer | stage", "layer", "how finely passes become operations of the schedule" },
    { "fold", "true | false", "true", "build ranks that are equal by symmetry once" },
};

enum { KEY_COUNT = sizeof KEYS / sizeof KEYS[0] };

const struct scenario_key *scenario_keys(uint32_t *count)
{
    *count = KEY_COUNT;
    return KEYS;
}

enum status scenario_known_keys(const struct json *object, const char *section, struct error *error)
{
    const char *known[KEY_COUNT];
    size_t count = 0, length = strlen(section);
    for (size_t i = 0; i < KEY_COUNT; i++) {
        const char *path = KEYS[i].path;
        if (length > 0) {
            if (strncmp(path, section, length) != 0 || path[length] != '.') {
                continue;
            }
            path += length + 1;
        }
        if (strchr(path, '.') == NULL) {
            known[count++] = path;
        }
    }
    CHECK(count > 0);
    return json_known_keys(object, known, count, error);
}
