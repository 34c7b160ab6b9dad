/* Reading DeepSpeed's configuration ("ds_config.json"): each key that decides time or memory becomes a key of a scenario; of every other the reader says that it has no effect.
 *
 * Which model, which machine and how many GPUs such a file does not say: the request does. "auto", which Hugging Face's Trainer fills in, is refused where it matters, with what to write.
 * The batch triple is completed and checked as DeepSpeed does (runtime/config.py).
 *
 *     struct deepspeed_request request = { .model = "gpt2-xl", .machine = "dgx2-v100", .gpus = 16 };
 *     struct deepspeed_reading reading = { 0 };
 *     TRY(deepspeed_read(&reading, &root, &request, error));      // reading.scenario.text: "memwall.scenario/1"
 *     deepspeed_reading_free(&reading); */
#ifndef MEMWALL_PLAN_DEEPSPEED_CONFIG_H
#define MEMWALL_PLAN_DEEPSPEED_CONFIG_H

#include "sim/base/arena.h"
#include "sim/base/json.h"
#include "sim/base/strbuf.h"

struct deepspeed_request {
    const char *model, *machine; /* library names or paths */
    int64_t gpus;                /* >= 1 */
    int64_t model_parallel;      /* tensor x pipeline x context: gpus / this are data-parallel ranks; >= 1 */
};

/* A key of the file without effect on the simulation. */
struct deepspeed_ignored {
    const char *path, *reason; /* "$.zero_optimization.allgather_bucket_size"; reason: a clause */
};

struct deepspeed_reading {
    struct strbuf scenario; /* JSON */
    struct deepspeed_ignored_list {
        struct deepspeed_ignored *items;
        size_t count, capacity;
    } ignored;
    struct arena arena;
};

/* STATUS_BAD_INPUT where DeepSpeed itself would stop, STATUS_UNSUPPORTED for what is not simulated. On error the reading is empty. */
enum status deepspeed_read(struct deepspeed_reading *reading, const struct json *root,
                           const struct deepspeed_request *request, struct error *error);
void deepspeed_reading_free(struct deepspeed_reading *reading);

#endif
