/* Reading, checking and printing parallel.stage_replicas. */
#include "sim/plan/plan_replicas.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "sim/base/check.h"
#include "sim/plan/order.h"
#include "sim/plan/plan_order.h"

#define REFUSE(error, path, ...) error_at(error, STATUS_BAD_INPUT, NULL, path, __VA_ARGS__)
static const char REPLICAS[] = "$.parallel.stage_replicas", SHARING[] = "$.parallel.replica_sharing";

const char *replica_sharing_word(enum replica_sharing sharing)
{
    static const char *const words[SHARING_COUNT] = { "deal", "cut" };
    CHECK((unsigned)sharing < SHARING_COUNT);
    return words[sharing];
}

int64_t plan_stage_data(const struct plan *plan, int64_t stage)
{
    CHECK(stage >= 0 && stage < plan->pipeline);
    return plan->stage_replicas != NULL ? (int64_t)plan->stage_replicas[stage] : plan->data;
}

static int64_t replicas_together(const struct plan *plan)
{
    int64_t sum = 0;
    for (int64_t s = 0; s < plan->pipeline; s++) {
        sum += plan_stage_data(plan, s);
    }
    return sum;
}

int64_t plan_gpus(const struct plan *plan)
{
    return plan->tensor * plan->context *
           (plan->stage_replicas != NULL ? replicas_together(plan) : plan->pipeline * plan->data);
}

int64_t plan_stage_of_layer(const struct plan *plan, int64_t layer)
{
    int64_t stage = 0, before = 0;
    while (stage + 1 < plan->pipeline && before + plan->stage_layers[stage] <= layer) {
        before += plan->stage_layers[stage++];
    }
    return stage;
}

int64_t plan_replicas_multiple(const uint32_t *replicas, int64_t count)
{
    int64_t multiple = 1;
    for (int64_t s = 0; s < count; s++) {
        multiple = multiple / plan_gcd(multiple, replicas[s]) * replicas[s]; /* both at most 2^20 */
        if (multiple > PLAN_DEGREE_MAX) {
            return 0;
        }
    }
    return multiple;
}

/* ---- reading ---- */

enum status plan_replicas_read(struct plan *plan, const struct json *parallel, struct arena *arena, struct error *error)
{
    const char *const words[SHARING_COUNT] = { replica_sharing_word(SHARING_DEAL), replica_sharing_word(SHARING_CUT) };
    const struct pipeline_order *order = plan_order(plan, NULL);
    bool asynchronous = order != NULL && order->asynchronous;
    struct json list, item, at;
    size_t sharing;
    TRY(json_array_optional(parallel, "stage_replicas", &list, error));
    TRY(json_any_optional(parallel, "replica_sharing", &at, error));
    if (list.node == NULL) {
        return at.node == NULL ? STATUS_OK
                               : json_error(&at, error,
                                            "says how the replicas of parallel.stage_replicas share micro-batches: "
                                            "without that key leave it out");
    }
    TRY(json_word_or(parallel, "replica_sharing", words, SHARING_COUNT, asynchronous ? SHARING_DEAL : SHARING_CUT,
                     &sharing, error));
    plan->replica_sharing = (enum replica_sharing)sharing;
    if (json_count(&list) < 1 || json_count(&list) > ORDER_STAGES_MAX) {
        return json_error(&list, error, "%zu stages: allowed are 1 to %d", json_count(&list), ORDER_STAGES_MAX);
    }
    if (!json_has(parallel, "pipeline")) {
        plan->pipeline = (int64_t)json_count(&list);
    }
    if (json_count(&list) != (size_t)plan->pipeline) {
        return json_error(&list, error,
                          "replicas of %zu stages, but parallel.pipeline is %" PRId64
                          ": give one number for each stage",
                          json_count(&list), plan->pipeline);
    }
    plan->stage_replicas = arena_array(arena, uint32_t, (size_t)plan->pipeline);
    if (plan->stage_replicas == NULL) {
        return error_set(error, STATUS_NO_MEMORY, "out of memory reading a plan");
    }
    for (size_t s = 0; s < json_count(&list); s++) {
        int64_t replicas;
        json_item(&list, s, &item);
        TRY(json_as_int(&item, 1, PLAN_DEGREE_MAX, &replicas, error));
        plan->stage_replicas[s] = (uint32_t)replicas;
    }
    return STATUS_OK;
}

/* ---- checks ---- */

/* "[4,2,1]" as the nearest list of the wanted sum: the largest entry takes the difference. */
static const char *nearest_list(const struct plan *plan, int64_t sum, char *text, size_t size)
{
    int64_t largest = 0, over = replicas_together(plan) - sum;
    struct strbuf list = { 0 };
    for (int64_t s = 1; s < plan->pipeline; s++) {
        largest = plan->stage_replicas[s] > plan->stage_replicas[largest] ? s : largest;
    }
    if (plan->stage_replicas[largest] - over < 1 || plan->pipeline > 16) {
        return "";
    }
    for (int64_t s = 0; s < plan->pipeline; s++) {
        strbuf_printf(&list, "%s%" PRId64, s == 0 ? "" : ",", plan->stage_replicas[s] - (s == largest ? over : 0));
    }
    snprintf(text, size, "; [%s] would do", list.text != NULL ? list.text : "");
    strbuf_free(&list);
    return text;
}

enum status plan_replicas_check_gpus(const struct plan *plan, int64_t gpus, struct error *error)
{
    char nearest[256];
    int64_t together = replicas_together(plan), each = plan->tensor * plan->context;
    if (plan->stage_replicas == NULL || together * each == gpus) {
        return STATUS_OK;
    }
    return REFUSE(error, REPLICAS,
                  "%" PRId64 " replicas together x tensor %" PRId64 " = %" PRId64 " GPUs, but there are %" PRId64 "%s",
                  together, plan->tensor, together * each, gpus,
                  gpus % each == 0 ? nearest_list(plan, gpus / each, nearest, sizeof nearest) : "");
}

static enum status check_order(const struct plan *plan, const struct pipeline_order *order, struct error *error)
{
    bool cut = plan->replica_sharing == SHARING_CUT;
    if (plan->virtual_stages != 1) {
        return REFUSE(error, "$.parallel.virtual_stages",
                      "virtual_stages is %" PRId64 ": stages with replicas of their own hold one chunk of the model; "
                      "use an order of one chunk a device, like \"1f1b\", or leave stage_replicas out",
                      plan->virtual_stages);
    }
    if (order->model_replicas > 1) {
        return REFUSE(error, REPLICAS,
                      "pipeline_order \"%s\" keeps two copies of the model on mirrored stages: use "
                      "\"1f1b\", or leave stage_replicas out",
                      order->name);
    }
    if (cut && order->asynchronous) {
        return REFUSE(error, SHARING,
                      "\"cut\": pipeline_order \"%s\" gives whole micro-batches to its replicas; use \"deal\"",
                      order->name);
    }
    if (!cut && !order->deals) {
        return REFUSE(error, SHARING,
                      "\"deal\": pipeline_order \"%s\" cannot give whole micro-batches to replicas in turns; gpipe, "
                      "1f1b, pipedream and pipedream-2bw can; or use \"cut\"",
                      order->name);
    }
    return STATUS_OK;
}

static enum status check_shares(const struct plan *plan, struct error *error)
{
    bool cut = plan->replica_sharing == SHARING_CUT;
    int64_t whole = cut ? plan->micro_batch : plan->micro_batches,
            multiple = plan_replicas_multiple(plan->stage_replicas, plan->pipeline);
    if (multiple == 0 || multiple > ORDER_MICRO_BATCHES_MAX) {
        return REFUSE(error, REPLICAS, "their least common multiple is more than %d: no micro-batch can be shared so",
                      ORDER_MICRO_BATCHES_MAX);
    }
    if (whole % multiple == 0 || plan->global_batch % plan->micro_batch != 0) {
        return STATUS_OK; /* plan_check tells of a batch that micro-batches do not divide */
    }
    int64_t below = whole / multiple * multiple, unit = cut ? 1 : plan->micro_batch;
    char nearest[96];
    if (below > 0) {
        snprintf(nearest, sizeof nearest, "the nearest are %" PRId64 " and %" PRId64, below * unit,
                 (below + multiple) * unit);
    } else {
        snprintf(nearest, sizeof nearest, "the smallest is %" PRId64, multiple * unit);
    }
    if (cut) {
        return REFUSE(error, "$.training.micro_batch",
                      "micro_batch %" PRId64 " cannot be cut into equal slices for every stage: stage_replicas need a "
                      "multiple of %" PRId64 "; %s",
                      plan->micro_batch, multiple, nearest);
    }
    return REFUSE(error, "$.training.global_batch",
                  "%" PRId64 " micro-batches cannot be dealt so that the replicas of every stage get equally many: "
                  "stage_replicas need a multiple of %" PRId64 "; of global_batch %s",
                  plan->micro_batches, multiple, nearest);
}

enum status plan_replicas_check(const struct plan *plan, struct error *error)
{
    const struct pipeline_order *order = plan_order(plan, NULL);
    if (plan->stage_replicas == NULL || order == NULL) {
        return STATUS_OK;
    }
    for (int64_t s = 0; s < plan->pipeline; s++) {
        if (plan->stage_replicas[s] < 1 || plan->stage_replicas[s] > PLAN_DEGREE_MAX) {
            return REFUSE(error, REPLICAS, "stage %" PRId64 " has %" PRIu32 ": allowed is 1 to %" PRId64, s,
                          plan->stage_replicas[s], PLAN_DEGREE_MAX);
        }
    }
    if (plan->data != 1) {
        return REFUSE(error, "$.parallel.data",
                      "data is %" PRId64 ": stage_replicas say the replicas of every stage; leave data out",
                      plan->data);
    }
    if (plan->layers != NULL || plan->embedding.tensor != 0 || plan->head.tensor != 0) {
        return REFUSE(
            error, "$.parallel.layers",
            "layers of a stage that are split differently do not go with stage_replicas: leave one of them out");
    }
    if (plan->stage_places != NULL || plan->moves != NULL) {
        return REFUSE(error, "$.plan",
                      "plan.stage_places and plan.moves are for stages of equally many GPUs: leave them or "
                      "parallel.stage_replicas out");
    }
    if (strcmp(plan->policy, "resident") != 0) {
        return REFUSE(error, "$.memory_policy",
                      "memory policy \"%s\" takes stages of equally many GPUs: use \"resident\", or leave "
                      "parallel.stage_replicas out",
                      plan->policy);
    }
    TRY(check_order(plan, order, error));
    return check_shares(plan, error);
}

/* ---- printing, copying ---- */

void plan_replicas_print(const struct plan *plan, struct json_writer *w)
{
    if (plan->stage_replicas == NULL) {
        return;
    }
    jw_array(w, "stage_replicas");
    for (int64_t s = 0; s < plan->pipeline; s++) {
        jw_int(w, NULL, plan->stage_replicas[s]);
    }
    jw_end(w);
    jw_string(w, "replica_sharing", replica_sharing_word(plan->replica_sharing));
}

enum status plan_replicas_copy(struct plan *copy, const struct plan *plan, struct arena *arena, struct error *error)
{
    if (plan->stage_replicas == NULL) {
        return STATUS_OK;
    }
    size_t stages = (size_t)plan->pipeline;
    copy->stage_replicas = arena_array(arena, uint32_t, stages);
    if (copy->stage_replicas == NULL) {
        return error_set(error, STATUS_NO_MEMORY, "out of memory copying a plan");
    }
    memcpy(copy->stage_replicas, plan->stage_replicas, stages * sizeof *copy->stage_replicas);
    return STATUS_OK;
}
