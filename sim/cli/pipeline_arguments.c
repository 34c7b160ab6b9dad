/* From the flags of `memwall pipeline` to requests. */
#include "sim/cli/pipeline_arguments.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/file.h"
#include "sim/cli/cli.h"
#include "strategies/registry.h"

enum { SCHEDULE_BYTES_MAX = 64 << 20 };

/* Whether auto is the order, or among those to compare. */
static bool has_auto(const struct pipeline_arguments *a)
{
    bool found = a->order != NULL && strcmp(a->order, "auto") == 0;
    for (const char *at = a->compare; at != NULL && !found;) {
        size_t length = strcspn(at, ",");
        found = length == 4 && strncmp(at, "auto", 4) == 0;
        at = at[length] == ',' ? at + length + 1 : NULL;
    }
    return found;
}

bool pipeline_arguments_agree(const struct pipeline_arguments *a)
{
    const struct {
        const char *flag, *value;
    } needed[] = { { "order", a->compare != NULL ? a->compare : a->order },
                   { "stages", a->stages },
                   { "microbatches", a->micro_batches } };
    for (int i = 0; i < 3 && a->file == NULL; i++) {
        if (needed[i].value == NULL) {
            fprintf(stderr, "memwall pipeline: --%s is missing\nmemwall pipeline --help says more\n", needed[i].flag);
            return false;
        }
    }
    if (a->compare != NULL && (a->order != NULL || a->parameters != NULL)) {
        fprintf(stderr, "memwall pipeline: --compare lists orders itself, each with its defaults: it does not go with "
                        "--order or --parameters\n");
        return false;
    }
    if (a->file != NULL && (a->order != NULL || a->compare != NULL || a->stages != NULL || a->micro_batches != NULL ||
                            a->virtual_stages != NULL || a->parameters != NULL)) {
        fprintf(stderr, "memwall pipeline: --schedule-file says order, stages, micro-batches and chunks itself: leave "
                        "their flags out\n");
        return false;
    }
    if (a->replicas != NULL && (a->file != NULL || has_auto(a))) {
        fprintf(stderr, "memwall pipeline: --replicas is for named orders: a schedule file and auto say what each "
                        "device does\n");
        return false;
    }
    if (a->sharing != NULL &&
        (a->replicas == NULL || (strcmp(a->sharing, "deal") != 0 && strcmp(a->sharing, "cut") != 0))) {
        fprintf(stderr, "memwall pipeline: --sharing: %s\n",
                a->replicas == NULL ? "says how the replicas of --replicas share micro-batches: give both"
                                    : "allowed are deal and cut");
        return false;
    }
    if (a->parameters != NULL && has_auto(a)) {
        fprintf(stderr, "memwall pipeline: --parameters: auto has none: its scheduler takes the times and --limit\n");
        return false;
    }
    if (a->keep_last != NULL && a->recompute == NULL) {
        fprintf(stderr, "memwall pipeline: --keep-last says where nothing is recomputed: give --recompute too\n");
        return false;
    }
    if (a->placement != NULL && (!has_auto(a) || a->virtual_stages == NULL)) {
        fprintf(stderr, "memwall pipeline: --placement says where auto has the chunks of --virtual: %s\n",
                has_auto(a) ? "give their number too" : "other orders say it themselves");
        return false;
    }
    if (a->limit != NULL && !has_auto(a)) {
        fprintf(stderr, "memwall pipeline: --limit is for --order auto: hand-made orders keep what they keep\n");
        return false;
    }
    return true;
}

/* ---- flags ---- */

static bool take_count(const char *flag, const char *text, double maximum, uint32_t *value)
{
    double number;
    if (!cli_whole(flag, text, 1, maximum, &number)) {
        return false;
    }
    *value = (uint32_t)number;
    return true;
}

/* A flag that takes one number for all stages, or a comma list of one each. */
struct stage_flag {
    const char *name, *what;
    double minimum, maximum; /* the library checks its own ranges too, these keep the message at the flag */
};

static const struct stage_flag FORWARD = { "forward", "times", 0, BARE_TIME_MAX },
                               BACKWARD = { "backward", "times", 0, BARE_TIME_MAX },
                               WEIGHT = { "weight-grad", "times", 0, BARE_TIME_MAX },
                               LIMIT = { "limit", "limits", 1, BARE_TIME_MAX },
                               REPLICAS = { "replicas", "numbers", 1, ORDER_STAGES_MAX };

/* Into *value, or a list into *stages (malloc'ed). */
static bool take_stages(const struct stage_flag *flag, const char *text, uint32_t stage_count, double *value,
                        double **stages)
{
    if (text == NULL || strchr(text, ',') == NULL) {
        return text == NULL || cli_number(flag->name, text, flag->minimum, flag->maximum, value);
    }
    uint32_t count = 0;
    char *copy = strdup(text), *rest = copy, at[48];
    *stages = calloc(stage_count, sizeof **stages);
    bool good = copy != NULL && *stages != NULL;
    for (char *item; good && (item = strsep(&rest, ",")) != NULL; count++) {
        (void)snprintf(at, sizeof at, "%s, stage %u", flag->name, count);
        good = count >= stage_count || cli_number(at, item, flag->minimum, flag->maximum, &(*stages)[count]);
    }
    free(copy);
    if (good && count != stage_count) {
        fprintf(stderr, "memwall: --%s: %u %s for %u stages: give one for all, or one each\n", flag->name, count,
                flag->what, stage_count);
        good = false;
    }
    return good;
}

/* The numbers of --replicas, one each: read once for all orders. */
static bool read_replicas(struct pipeline_arguments *a, uint32_t stages)
{
    double *numbers = NULL, one = 0;
    if (a->replica_counts != NULL) {
        return true;
    }
    bool good = take_stages(&REPLICAS, a->replicas, stages, &one, &numbers);
    a->replica_counts = good ? calloc(stages, sizeof *a->replica_counts) : NULL;
    for (uint32_t s = 0; a->replica_counts != NULL && good && s < stages; s++) {
        double number = numbers != NULL ? numbers[s] : one;
        good = floor(number) >= number;
        if (good) {
            a->replica_counts[s] = (uint32_t)number;
        } else {
            fprintf(stderr, "memwall: --replicas: stage %u has %g: allowed is a whole number, 1 to %d\n", s, number,
                    ORDER_STAGES_MAX);
        }
    }
    free(numbers);
    return good && a->replica_counts != NULL;
}

/* Dealt to, or cut over; see sim/plan/plan_replicas.h. */
static bool take_replicas(struct pipeline_arguments *a, struct bare_pipeline_request *request)
{
    bool deals = a->sharing != NULL ? strcmp(a->sharing, "deal") == 0 : request->order->asynchronous;
    if (a->replicas == NULL) {
        return true;
    }
    if (!read_replicas(a, request->order_request.stages)) {
        return false;
    }
    *(deals ? &request->order_request.replicas : &request->cut_replicas) = a->replica_counts;
    return true;
}

static bool take_hop(const struct pipeline_arguments *a, struct bare_pipeline_request *request)
{
    return a->hop == NULL || cli_number("hop", a->hop, 0, BARE_TIME_MAX, &request->hop);
}

static bool take_recompute(const struct pipeline_arguments *a, struct bare_pipeline_request *request)
{
    static const char *const WORDS[] = { "none", "lazy", "eager" };
    request->last_stage_keeps = a->keep_last != NULL;
    for (int i = 0; a->recompute != NULL && i < 3; i++) {
        if (strcmp(a->recompute, WORDS[i]) == 0) {
            request->recompute = (enum bare_recompute)i;
            return true;
        }
    }
    if (a->recompute != NULL) {
        struct error error = { 0 };
        (void)error_at(&error, STATUS_BAD_INPUT, "--recompute", NULL, "\"%.64s\" is none of none, lazy, eager",
                       a->recompute);
        (void)cli_complain(&error);
    }
    return a->recompute == NULL;
}

/* "NAME=VALUE,..." as the keys of an order's own parameters. */
static bool take_parameters(const char *text, struct bare_pipeline_request *request)
{
    struct strbuf json = { 0 };
    struct error error = { 0 };
    strbuf_char(&json, '{');
    for (const char *at = text; at != NULL && *at != '\0';) {
        size_t length = strcspn(at, ","), name = strcspn(at, "=,");
        const char *value = at + name + 1;
        size_t value_length = length > name ? length - name - 1 : 0;
        bool bare = value_length > 0 && (strchr("-0123456789", *value) != NULL || strncmp(value, "true", 4) == 0 ||
                                         strncmp(value, "false", 5) == 0);
        strbuf_printf(&json, "%s\"%.*s\":%s%.*s%s", json.length > 1 ? "," : "", (int)name, at, bare ? "" : "\"",
                      (int)value_length, value, bare ? "" : "\"");
        at += length + (at[length] == ',');
    }
    strbuf_char(&json, '}');
    struct json_document *document = NULL;
    struct json root;
    enum status status = json_parse(&document, json.text, json.length, "--parameters", &error);
    if (status == STATUS_OK) {
        json_root(document, &root);
        status = parameters_read(request->order->parameters, request->order->parameter_count, &root, NULL,
                                 &request->order_request.parameters, &error);
        json_free(document);
    }
    strbuf_free(&json);
    if (status != STATUS_OK) {
        cli_complain(&error);
    }
    return status == STATUS_OK;
}

static bool find_order(const char *order, struct bare_pipeline_request *request)
{
    struct error inner = { 0 }, error = { 0 };
    request->order = registry_order(order, &inner);
    if (request->order == NULL) {
        (void)error_set(&error, STATUS_NOT_FOUND,
                        "%s; or auto, which a scheduler makes from the times, or your own steps: --schedule-file FILE",
                        inner.message);
        (void)cli_complain(&error);
    }
    return request->order != NULL;
}

/* The chunks asked for. Of several orders that are compared, those that fix them keep their own. */
static bool take_chunks(struct pipeline_arguments *a, bool automatic, struct bare_pipeline_request *request)
{
    bool fixed = a->compare != NULL && !automatic && request->order->virtual_stages != 0;
    if (a->virtual_stages == NULL) {
        return true;
    }
    if (!take_count("virtual", a->virtual_stages, ORDER_VIRTUAL_STAGES_MAX, &a->chunks)) {
        return false;
    }
    request->order_request.virtual_stages = fixed ? request->order->virtual_stages : a->chunks;
    return true;
}

static bool read_request(struct pipeline_arguments *a, struct bare_pipeline_request *request, bool automatic)
{
    struct order_request *o = &request->order_request;
    o->virtual_stages = request->order->virtual_stages > 0 ? request->order->virtual_stages : 1;
    parameters_defaults(request->order->parameters, request->order->parameter_count, &o->parameters);
    return take_count("stages", a->stages, ORDER_STAGES_MAX, &o->stages) &&
           take_count("microbatches", a->micro_batches, ORDER_MICRO_BATCHES_MAX, &o->micro_batches) &&
           take_chunks(a, automatic, request) && (a->parameters == NULL || take_parameters(a->parameters, request)) &&
           take_replicas(a, request) && take_hop(a, request) && take_recompute(a, request);
}

/* The times of all orders are the same: lists are read once. */
static bool read_times(struct pipeline_arguments *a, struct bare_pipeline_request *request)
{
    const struct {
        const struct stage_flag *flag;
        const char *text;
        double *value;
        const double **stages;
    } times[3] = { { &FORWARD, a->forward, &request->forward, &request->stage_forward },
                   { &BACKWARD, a->backward, &request->backward, &request->stage_backward },
                   { &WEIGHT, a->weight, &request->weight_gradient, &request->stage_weight } };
    for (int i = 0; i < 3; i++) {
        if (a->stage_times[i] == NULL && !take_stages(times[i].flag, times[i].text, request->order_request.stages,
                                                      times[i].value, &a->stage_times[i])) {
            return false;
        }
        *times[i].stages = a->stage_times[i];
    }
    return true;
}

/* ---- orders that are no plug-in ---- */

static void use_table(struct pipeline_run *run, const char *name)
{
    struct order_request *o = &run->request.order_request;
    run->table_order = order_table_order(&run->table, name);
    run->request.order = &run->table_order;
    *o = (struct order_request){ .stages = run->table.stages,
                                 .micro_batches = run->table.micro_batches,
                                 .virtual_stages = run->table.virtual_stages,
                                 .table = &run->table };
}

static bool read_file(struct pipeline_arguments *a, struct pipeline_run *run)
{
    char *text = NULL;
    size_t length;
    struct error error = { 0 };
    enum status status = file_read(a->file, SCHEDULE_BYTES_MAX, &text, &length, &error);
    if (status == STATUS_OK) {
        status = order_table_parse(&run->table, text, length, a->file, &error);
        free(text);
    }
    if (status != STATUS_OK) {
        cli_complain(&error);
        return false;
    }
    use_table(run, "schedule file");
    return take_hop(a, &run->request) && take_recompute(a, &run->request) && read_times(a, &run->request);
}

/* Of each virtual stage: its part of what its stage has in all. */
static double *spread(const struct order_auto_request *request, const double *stages, double otherwise)
{
    uint32_t count = request->stages * request->virtual_stages;
    double *all = calloc(count, sizeof *all);
    for (uint32_t v = 0; all != NULL && v < count; v++) {
        all[v] = (stages != NULL ? stages[order_auto_holder(request, v)] : otherwise) / request->virtual_stages;
    }
    return all;
}

static double *spread_limits(const struct pipeline_arguments *a, double otherwise, uint32_t count)
{
    double *all = calloc(count, sizeof *all);
    for (uint32_t s = 0; all != NULL && s < count; s++) {
        all[s] = a->stage_times[3] != NULL ? a->stage_times[3][s] : otherwise;
    }
    return all;
}

static bool take_placement(const struct pipeline_arguments *a, enum auto_placement *placement)
{
    struct error error = { 0 };
    if (a->placement == NULL || order_auto_placement(a->placement, placement)) {
        return true;
    }
    (void)error_at(&error, STATUS_BAD_INPUT, "--placement", NULL, "\"%.64s\" is none of loop, v", a->placement);
    (void)cli_complain(&error);
    return false;
}

/* Let the scheduler make the order from the times. */
static bool schedule(struct pipeline_arguments *a, struct pipeline_run *run)
{
    struct bare_pipeline_request *r = &run->request;
    struct error error = { 0 };
    uint32_t p = r->order_request.stages;
    double limit = 0;
    struct order_auto_request request = { .stages = p,
                                          .micro_batches = r->order_request.micro_batches,
                                          .virtual_stages = r->order_request.virtual_stages,
                                          .recompute_eagerly = r->recompute == BARE_RECOMPUTE_EAGER,
                                          .hop = r->hop };
    if (!take_placement(a, &request.placement) || !take_stages(&LIMIT, a->limit, p, &limit, &a->stage_times[3])) {
        return false;
    }
    double *forward = spread(&request, r->stage_forward, r->forward),
           *backward = spread(&request, r->stage_backward, r->backward),
           *weight = spread(&request, r->stage_weight, r->weight_gradient),
           *again = spread(&request, r->stage_forward, r->forward), *limits = spread_limits(a, limit, p);
    for (uint32_t v = 0; again != NULL && r->last_stage_keeps && v < p * request.virtual_stages; v++) {
        again[v] = order_auto_holder(&request, v) == p - 1 ? 0 : again[v];
    }
    request.forward = forward;
    request.backward = backward;
    request.weight = a->weight != NULL ? weight : NULL;
    request.recompute = r->recompute != BARE_KEEP ? again : NULL;
    request.limits = a->limit != NULL ? limits : NULL;
    enum status status = forward == NULL || backward == NULL || weight == NULL || again == NULL || limits == NULL
                             ? error_set(&error, STATUS_NO_MEMORY, "out of memory")
                             : order_auto(&request, &run->table, &run->scheduled, &error);
    free(forward);
    free(backward);
    free(weight);
    free(again);
    free(limits);
    if (status != STATUS_OK) {
        cli_complain(&error);
        return false;
    }
    use_table(run, "auto");
    return true;
}

bool pipeline_read_order(struct pipeline_arguments *a, const char *name, struct pipeline_run *run)
{
    bool automatic = strcmp(name, "auto") == 0;
    run->request =
        (struct bare_pipeline_request){ .forward = 1, .backward = 2, .has_weight_gradient = a->weight != NULL };
    if (a->file != NULL) {
        return read_file(a, run);
    }
    return find_order(automatic ? "1f1b" : name, &run->request) && read_request(a, &run->request, automatic) &&
           read_times(a, &run->request) && (!automatic || schedule(a, run));
}

void pipeline_arguments_free(struct pipeline_arguments *a)
{
    for (int i = 0; i < 4; i++) {
        free(a->stage_times[i]);
    }
    free(a->replica_counts);
}
