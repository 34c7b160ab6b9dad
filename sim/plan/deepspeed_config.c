/* What of DeepSpeed's configuration decides time or memory. Defaults: deepspeed/runtime/config.py, runtime/zero/config.py, runtime/zero/offload_config.py. */
#include "sim/plan/deepspeed_config.h"

#include <inttypes.h>
#include <string.h>

#include "sim/base/check.h"
#include "sim/base/json_write.h"
#include "sim/plan/deepspeed_config_internal.h"

#define ELEMENTS_MAX ((int64_t)1 << 50)
#define BATCH_MAX    ((int64_t)1 << 31)

enum tier { TIER_NONE, TIER_CPU, TIER_NVME };
static const char *const TIER_WORDS[] = { "none", "cpu", "nvme" };

struct offload {
    enum tier tier;
    bool pin_memory, pipeline_read, pipeline_write;
    double ratio;
    int64_t buffer_count, buffer_size;
};

struct config {
    int64_t micro_batch, accumulation, global_batch;
    const char *precision;
    bool checkpointing, checkpoints_on_host;
    int64_t stage, reduce_bucket, sub_group, prefetch, persistence, live, reuse;
    bool overlap;
    struct offload parameters, optimizer;
    int64_t requests, request_bytes; /* to drives, in flight; 0: not given */
};

struct reader {
    const struct json *root;
    struct deepspeed_used used;
    struct error *error;
};

/* ---- values ---- */

static const struct {
    const char *key, *write;
} AUTO[] = {
    { "train_batch_size", "the global batch: micro-batch x accumulation x data-parallel GPUs" },
    { "train_micro_batch_size_per_gpu", "the Trainer's per_device_train_batch_size" },
    { "gradient_accumulation_steps", "the Trainer's gradient_accumulation_steps" },
    { "reduce_bucket_size", "hidden x hidden, as the Trainer does" },
    { "stage3_prefetch_bucket_size", "0.9 x hidden x hidden, as the Trainer does" },
    { "stage3_param_persistence_threshold", "10 x hidden, as the Trainer does" },
    { "enabled", "true or false, as the Trainer's --fp16 and --bf16 say" },
    { "type", "the optimizer, e.g. AdamW" },
};

static enum status refuse_auto(struct reader *r, const struct json *at, const char *key)
{
    const char *write = "the value itself";
    for (size_t i = 0; i < sizeof AUTO / sizeof AUTO[0]; i++) {
        write = strcmp(AUTO[i].key, key) == 0 ? AUTO[i].write : write;
    }
    return json_error(at, r->error,
                      "\"auto\" is filled in by Hugging Face's Trainer, which does not run here: write %s", write);
}

/* The child of a key, marked as read; node NULL when absent. */
static enum status take(struct reader *r, const struct json *object, const char *key, struct json *at)
{
    TRY(json_any_optional(object, key, at, r->error));
    if (at->node == NULL) {
        return STATUS_OK;
    }
    if (r->used.count < DEEPSPEED_USED_MAX) {
        r->used.nodes[r->used.count++] = at->node;
    }
    const char *text = "";
    if (json_type(at) == JSON_STRING && json_as_string(at, &text, NULL) == STATUS_OK && strcmp(text, "auto") == 0) {
        return refuse_auto(r, at, key);
    }
    return STATUS_OK;
}

static enum status take_int(struct reader *r, const struct json *object, const char *key, int64_t least, int64_t most,
                            int64_t *value)
{
    struct json at;
    TRY(take(r, object, key, &at));
    return at.node == NULL ? STATUS_OK : json_as_int(&at, least, most, value, r->error);
}

static enum status take_bool(struct reader *r, const struct json *object, const char *key, bool *value)
{
    struct json at;
    TRY(take(r, object, key, &at));
    return at.node == NULL ? STATUS_OK : json_as_bool(&at, value, r->error);
}

/* ---- batches ---- */

/* As DeepSpeed completes and checks the triple; `ranks` is its world size. */
static enum status complete_batches(struct reader *r, struct config *c, int64_t ranks)
{
    int64_t train = c->global_batch, micro = c->micro_batch, steps = c->accumulation;
    if (train == 0 && micro == 0) {
        return json_error(r->root, r->error, "either train_batch_size or train_micro_batch_size_per_gpu is needed");
    }
    if (train == 0) {
        steps = steps > 0 ? steps : 1;
        if (micro > BATCH_MAX / ranks / steps) {
            return json_error(r->root, r->error, "%" PRId64 " x %" PRId64 " x %" PRId64 " samples are too many", micro,
                              steps, ranks);
        }
        train = micro * steps * ranks;
    } else if (micro > 0 && steps == 0) {
        steps = train / micro / ranks;
    } else if (micro == 0) {
        steps = steps > 0 ? steps : 1;
        micro = train / ranks / steps;
    }
    bool adds_up = micro > 0 && steps > 0 && train % micro == 0 && train / micro == steps * ranks;
    if (!adds_up) {
        return json_error(r->root, r->error,
                          "train_batch_size %" PRId64 " is not train_micro_batch_size_per_gpu %" PRId64
                          " x gradient_accumulation_steps %" PRId64 " x data-parallel GPUs %" PRId64 " = %" PRId64
                          " (DeepSpeed refuses it too)",
                          train, micro, steps, ranks, micro * steps * ranks);
    }
    *c = (struct config){ .micro_batch = micro, .accumulation = steps, .global_batch = train };
    return STATUS_OK;
}

static enum status read_batches(struct reader *r, struct config *c, int64_t ranks)
{
    TRY(take_int(r, r->root, "train_batch_size", 1, BATCH_MAX, &c->global_batch));
    TRY(take_int(r, r->root, "train_micro_batch_size_per_gpu", 1, (int64_t)1 << 20, &c->micro_batch));
    TRY(take_int(r, r->root, "gradient_accumulation_steps", 1, (int64_t)1 << 20, &c->accumulation));
    return complete_batches(r, c, ranks);
}

/* ---- numbers, optimizer, checkpointing ---- */

static enum status read_enabled(struct reader *r, const char *section, bool *enabled)
{
    struct json at;
    *enabled = false;
    TRY(json_object_optional(r->root, section, &at, r->error));
    return at.node == NULL ? STATUS_OK : take_bool(r, &at, "enabled", enabled);
}

static enum status read_precision(struct reader *r, struct config *c)
{
    bool fp16, bf16, bfloat16;
    TRY(read_enabled(r, "fp16", &fp16));
    TRY(read_enabled(r, "bf16", &bf16));
    TRY(read_enabled(r, "bfloat16", &bfloat16));
    if (fp16 && (bf16 || bfloat16)) {
        return json_error(r->root, r->error, "fp16 and bf16 are both enabled: one of them");
    }
    c->precision = fp16 ? "fp16" : bf16 || bfloat16 ? "bf16" : "fp32";
    return STATUS_OK;
}

static enum status read_optimizer(struct reader *r)
{
    struct json section, at;
    const char *type;
    TRY(json_object_optional(r->root, "optimizer", &section, r->error));
    if (section.node == NULL) {
        return STATUS_OK;
    }
    TRY(take(r, &section, "type", &at));
    if (at.node == NULL) {
        return STATUS_OK;
    }
    TRY(json_as_string(&at, &type, r->error));
    if (strcmp(type, "Adam") != 0 && strcmp(type, "AdamW") != 0 && strcmp(type, "adam") != 0 &&
        strcmp(type, "adamw") != 0) {
        json_error(&at, r->error, "optimizer \"%.64s\" is not simulated: only Adam and AdamW, with two fp32 moments",
                   type);
        return r->error != NULL ? (r->error->status = STATUS_UNSUPPORTED) : STATUS_UNSUPPORTED;
    }
    return STATUS_OK;
}

static enum status read_checkpointing(struct reader *r, struct config *c)
{
    struct json section;
    TRY(json_object_optional(r->root, "activation_checkpointing", &section, r->error));
    c->checkpointing = section.node != NULL && json_count(&section) > 0; /* that it is there is what counts */
    return take(r, r->root, "activation_checkpointing", &section);
}

/* ---- ZeRO ---- */

static enum status read_offload(struct reader *r, const struct json *zero, const char *key, struct offload *offload)
{
    struct json section, at;
    size_t tier = TIER_NONE;
    *offload = (struct offload){ .ratio = 1, .buffer_count = 5, .buffer_size = 100000000 };
    TRY(json_object_optional(zero, key, &section, r->error));
    if (section.node == NULL) {
        return STATUS_OK;
    }
    TRY(take(r, &section, "device", &at));
    TRY(json_word_or(&section, "device", TIER_WORDS, sizeof TIER_WORDS / sizeof TIER_WORDS[0], TIER_NONE, &tier,
                     r->error));
    offload->tier = (enum tier)tier;
    if (offload->tier == TIER_NONE) {
        return STATUS_OK;
    }
    if (strcmp(key, "offload_optimizer") == 0) {
        TRY(take(r, &section, "ratio", &at));
        TRY(json_real_or(&section, "ratio", 0, 1, 1, &offload->ratio, r->error));
    }
    TRY(take_bool(r, &section, "pin_memory", &offload->pin_memory));
    if (offload->tier == TIER_NVME && strcmp(key, "offload_optimizer") == 0) {
        TRY(take_bool(r, &section, "pipeline_read", &offload->pipeline_read));
        TRY(take_bool(r, &section, "pipeline_write", &offload->pipeline_write));
    } else if (offload->tier == TIER_NVME) {
        TRY(take_int(r, &section, "buffer_count", 1, 64, &offload->buffer_count));
        TRY(take_int(r, &section, "buffer_size", 1, (int64_t)1e12, &offload->buffer_size));
    }
    return STATUS_OK;
}

/* A count that DeepSpeed knows with and without "stage3_". */
static enum status take_stage3(struct reader *r, const struct json *zero, const char *key, int64_t *value)
{
    TRY(take_int(r, zero, key + strlen("stage3_"), 0, ELEMENTS_MAX, value));
    return take_int(r, zero, key, 0, ELEMENTS_MAX, value);
}

static enum status read_stage3(struct reader *r, const struct json *zero, struct config *c)
{
    TRY(take_int(r, zero, "sub_group_size", 1, ELEMENTS_MAX, &c->sub_group));
    if (c->parameters.tier == TIER_NONE) {
        return STATUS_OK; /* without fetches from the host the software's prefetch_layers counts */
    }
    TRY(take_stage3(r, zero, "stage3_prefetch_bucket_size", &c->prefetch));
    TRY(take_stage3(r, zero, "stage3_param_persistence_threshold", &c->persistence));
    TRY(take_stage3(r, zero, "stage3_max_live_parameters", &c->live));
    return take_stage3(r, zero, "stage3_max_reuse_distance", &c->reuse);
}

/* Moved by the policies of offloading alone. */
static enum status read_checkpoints_on_host(struct reader *r, struct config *c)
{
    struct json section;
    TRY(json_object_optional(r->root, "activation_checkpointing", &section, r->error));
    return section.node == NULL || c->optimizer.tier == TIER_NONE
               ? STATUS_OK
               : take_bool(r, &section, "cpu_checkpointing", &c->checkpoints_on_host);
}

static enum status refuse_combination(struct reader *r, const struct json *zero, const char *what)
{
    return json_error(zero, r->error, "%s", what);
}

static enum status check_zero(struct reader *r, const struct json *zero, const struct config *c)
{
    if (c->optimizer.tier != TIER_NONE && c->stage == 0) {
        return refuse_combination(r, zero, "offload_optimizer needs stage 1, 2 or 3, found stage 0");
    }
    if (c->parameters.tier != TIER_NONE && c->stage != 3) {
        return refuse_combination(r, zero, "offload_param needs stage 3");
    }
    if (c->optimizer.tier == TIER_NVME && c->stage != 3) {
        return refuse_combination(r, zero, "offload_optimizer to nvme needs stage 3; stages 1 and 2 offload to cpu");
    }
    if (c->parameters.tier != TIER_NONE && c->optimizer.tier == TIER_NONE) {
        return refuse_combination(r, zero,
                                  "offload_param without offload_optimizer is not simulated: set "
                                  "offload_optimizer.device to cpu or nvme");
    }
    if (c->optimizer.ratio < 1 && c->stage != 3) {
        return refuse_combination(r, zero, "offload_optimizer.ratio below 1 needs stage 3 (DeepSpeed refuses it too)");
    }
    return STATUS_OK;
}

/* The keys of 2021 (up to 0.5), before offload_optimizer and offload_param. */
static enum status read_old_offload(struct reader *r, const struct json *zero, struct config *c)
{
    bool optimizer = false, parameters = false, pin_memory = false;
    TRY(take_bool(r, zero, "cpu_offload", &optimizer));
    if (optimizer && c->optimizer.tier == TIER_NONE) {
        c->optimizer.tier = TIER_CPU;
        TRY(take_bool(r, zero, "cpu_offload_params", &parameters));
        c->parameters.tier = parameters && c->parameters.tier == TIER_NONE ? TIER_CPU : c->parameters.tier;
        TRY(take_bool(r, zero, "cpu_offload_use_pin_memory", &pin_memory));
        c->optimizer.pin_memory = c->parameters.pin_memory = pin_memory;
    }
    return STATUS_OK;
}

static enum status read_zero(struct reader *r, struct config *c)
{
    struct json zero, at;
    c->reduce_bucket = 500000000;
    c->sub_group = c->live = c->reuse = 1000000000;
    c->prefetch = 50000000;
    c->persistence = 100000;
    TRY(json_object_optional(r->root, "zero_optimization", &zero, r->error));
    if (zero.node == NULL) {
        c->optimizer.ratio = 1;
        return STATUS_OK;
    }
    TRY(take_int(r, &zero, "stage", 0, 3, &c->stage));
    TRY(read_offload(r, &zero, "offload_param", &c->parameters));
    TRY(read_offload(r, &zero, "offload_optimizer", &c->optimizer));
    TRY(read_old_offload(r, &zero, c));
    c->overlap = c->stage == 3;
    TRY(json_any_optional(&zero, "overlap_comm", &at, r->error));
    if (c->stage > 0) {
        TRY(take_bool(r, &zero, "overlap_comm", &c->overlap));
        TRY(take_int(r, &zero, "reduce_bucket_size", 1, ELEMENTS_MAX, &c->reduce_bucket));
    }
    if (c->stage == 3) {
        TRY(read_stage3(r, &zero, c));
    }
    return check_zero(r, &zero, c);
}

/* Each thread has a queue of its own. */
static enum status read_aio(struct reader *r, struct config *c)
{
    struct json aio;
    int64_t depth = 8, threads = 1, block = 1048576; /* DeepSpeed's defaults */
    TRY(json_object_optional(r->root, "aio", &aio, r->error));
    if (aio.node == NULL) {
        return STATUS_OK;
    }
    TRY(take_int(r, &aio, "queue_depth", 1, 1000, &depth));
    TRY(take_int(r, &aio, "thread_count", 1, 1000, &threads));
    TRY(take_int(r, &aio, "block_size", 1024, (int64_t)1 << 30, &block));
    c->requests = depth * threads;
    c->request_bytes = block;
    return STATUS_OK;
}

/* ---- the scenario ---- */

static void write_software(struct json_writer *w, const struct config *c)
{
    bool whole = strcmp(c->precision, "fp32") == 0;
    double reduced = whole ? 4 : 2;
    jw_object(w, "software");
    jw_string(w, "base", "deepspeed");
    jw_object(w, "communication");
    if (c->stage > 0) {
        jw_real(w, "bucket_MB", (double)c->reduce_bucket * reduced / 1e6);
        jw_bool(w, "overlap_gradient_reduce", c->overlap);
    }
    jw_end(w);
    if (c->requests > 0) {
        jw_object(w, "storage");
        jw_int(w, "queue_depth", c->requests);
        jw_real(w, "block_KiB", (double)c->request_bytes / 1024);
        jw_end(w);
    }
    if (whole) { /* no 16-bit copy: the weights are the master */
        static const char *const names[] = { "weight", "gathered", "gradient", "reduce", "master", "moments" };
        static const int bytes[] = { 4, 4, 4, 4, 0, 8 };
        jw_object(w, "numbers");
        jw_string(w, "gradient_dtype", "fp32");
        jw_end(w);
        jw_object(w, "bytes_per_parameter");
        for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
            jw_int(w, names[i], bytes[i]);
        }
        jw_end(w);
    }
    jw_end(w);
}

static void write_stage3_policy(struct json_writer *w, const struct config *c)
{
    static const char *const words[] = { "device", "host", "nvme" };
    bool drives = c->parameters.tier == TIER_NVME || c->optimizer.tier == TIER_NVME;
    jw_string(w, "name", drives ? "zero-infinity" : "zero3-offload");
    jw_string(w, "parameters_on", words[c->parameters.tier]);
    jw_string(w, "optimizer_on", words[c->optimizer.tier]);
    jw_int(w, "prefetch_elements", c->prefetch);
    jw_int(w, "persistence_threshold", c->persistence);
    jw_int(w, "max_live_parameters", c->live > 0 ? c->live : 1);
    jw_int(w, "max_reuse_distance", c->reuse);
    jw_int(w, "sub_group_elements", c->sub_group);
    jw_int(w, "buffer_count", c->parameters.buffer_count);
    jw_int(w, "buffer_elements", c->parameters.buffer_size);
    jw_bool(w, "pipeline_read", c->optimizer.pipeline_read);
    jw_bool(w, "pipeline_write", c->optimizer.pipeline_write);
    jw_bool(w, "pinned_weights", c->parameters.pin_memory);
    jw_bool(w, "pinned_gradients", c->optimizer.pin_memory);
}

static void write_policy(struct json_writer *w, const struct config *c)
{
    jw_object(w, "memory_policy");
    if (c->optimizer.tier == TIER_NONE) {
        jw_string(w, "name", "resident");
        jw_end(w);
        return;
    }
    if (c->stage == 3) {
        write_stage3_policy(w, c);
    } else {
        jw_string(w, "name", "zero-offload");
    }
    jw_string(w, "preset", "code");
    jw_int(w, "bucket_elements", c->reduce_bucket <= (int64_t)1e12 ? c->reduce_bucket : (int64_t)1e12);
    jw_bool(w, "overlap_gradients", c->overlap);
    jw_real(w, "cpu_ratio", c->optimizer.ratio);
    jw_bool(w, "pinned_states", c->optimizer.pin_memory);
    jw_bool(w, "checkpoints_on_host", c->checkpoints_on_host);
    jw_end(w);
}

static void write_scenario(struct strbuf *out, const struct config *c, const struct deepspeed_request *request)
{
    struct json_writer w = { .out = out };
    jw_object(&w, NULL);
    jw_string(&w, "schema", "memwall.scenario/1");
    jw_string(&w, "model", request->model);
    jw_string(&w, "machine", request->machine);
    jw_int(&w, "gpus", request->gpus);
    write_software(&w, c);
    jw_object(&w, "training");
    jw_int(&w, "micro_batch", c->micro_batch);
    jw_int(&w, "global_batch", c->global_batch);
    jw_string(&w, "precision", c->precision);
    jw_end(&w);
    jw_object(&w, "parallel");
    jw_int(&w, "zero_stage", c->stage);
    jw_end(&w);
    jw_string(&w, "recompute", c->checkpointing ? "full" : "none");
    write_policy(&w, c);
    jw_end(&w);
    strbuf_char(out, '\n');
}

enum status deepspeed_read(struct deepspeed_reading *reading, const struct json *root,
                           const struct deepspeed_request *request, struct error *error)
{
    struct reader r = { .root = root, .error = error };
    struct config c = { 0 };
    enum status status = STATUS_OK;
    CHECK(request->gpus >= 1 && request->model_parallel >= 1);
    *reading = (struct deepspeed_reading){ 0 };
    if (json_type(root) != JSON_OBJECT) {
        return json_error(root, error, "expected DeepSpeed's configuration, an object; found %s",
                          json_type_word(json_type(root)));
    }
    if (request->gpus % request->model_parallel != 0) {
        return error_at(error, STATUS_BAD_INPUT, "--gpus", NULL,
                        "%" PRId64 " GPUs are not a multiple of tensor x pipeline = %" PRId64, request->gpus,
                        request->model_parallel);
    }
    TRY(read_batches(&r, &c, request->gpus / request->model_parallel));
    TRY(read_precision(&r, &c));
    TRY(read_optimizer(&r));
    TRY(read_checkpointing(&r, &c));
    TRY(read_zero(&r, &c));
    TRY(read_aio(&r, &c));
    TRY(read_checkpoints_on_host(&r, &c));
    write_scenario(&reading->scenario, &c, request);
    status = deepspeed_list_ignored(reading, root, &r.used, error);
    if (status == STATUS_OK && reading->scenario.failed) {
        status = error_set(error, STATUS_NO_MEMORY, "out of memory reading a DeepSpeed configuration");
    }
    if (status != STATUS_OK) {
        deepspeed_reading_free(reading);
    }
    return status;
}
