/* memwall pipeline: a bare pipeline order in abstract time units. It teaches, and it is where closed forms are tested. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plots/pipeline_picture.h"
#include "sim/base/check.h"
#include "sim/base/file.h"
#include "sim/cli/cli.h"
#include "sim/cli/pipeline_text.h"
#include "sim/exec.h"
#include "strategies/registry.h"

static enum exit_code run(int argc, char **argv);

const struct cli_command command_pipeline = {
    .name = "pipeline",
    .usage = "--order NAME|auto | --compare A,B,C  --stages P --microbatches M [--forward TF] [--backward TB] [flags]\n"
             "       memwall pipeline --schedule-file FILE [flags]",
    .summary = "run a bare pipeline order in abstract time units: bubbles, activations, a picture",
    .help =
        "Times are a device's whole share of one micro-batch, in any unit; chunks divide them equally. --backward is "
        "the whole\nbackward, or its input-gradient part when --weight-grad is given; without that, orders that split "
        "backwards (W split\nin memwall list orders) cut it into halves, and auto does not split it.\n"
        "An activation, in peaks and in --limit, is what a device keeps of one micro-batch. Peaks count micro-batches "
        "in\nflight, recomputed or not.\n"
        "A schedule file has one line a stage: F3 is the forward of micro-batch 3, B3 its backward, W3 its weight "
        "part if\nbackwards are split, F3.5 names virtual stage 5 where devices hold several; # begins a comment. "
        "Stages and "
        "micro-batches\ncount from 0, the positions of steps on a line, in messages, from 1.\n"
        "Small pipelines are drawn: one row a stage, time to the right; F3 is the forward of micro-batch 3, B its "
        "backward,\nW its weight gradient, R its recomputation, \"F3.5\" the forward of micro-batch 3 through "
        "virtual stage 5.\n",
    .positional_min = 0,
    .positional_max = 0,
    .run = run,
};

enum { SCHEDULE_BYTES_MAX = 64 << 20 };

struct arguments {
    const char *order, *compare, *stages, *micro_batches, *forward, *backward, *weight, *hop, *virtual_stages,
        *parameters, *svg, *recompute, *keep_last, *file, *limit, *replicas, *sharing;
    uint32_t *replica_counts; /* of --replicas */
    double *stage_times[4];   /* of --forward, --backward, --weight-grad, --limit when they list stages; else NULL */
};

/* ---- the command ---- */

static bool take_count(const char *flag, const char *text, double maximum, uint32_t *value)
{
    double number;
    if (!cli_whole(flag, text, 1, maximum, &number)) {
        return false;
    }
    *value = (uint32_t)number;
    return true;
}

/* A time; the library checks its own range too, this one keeps the message at the flag. */
static bool take_time(const char *flag, const char *text, double minimum, double *value)
{
    return text == NULL || cli_number(flag, text, minimum, BARE_TIME_MAX, value);
}

/* One time for all stages, or a comma list of one each into *stages (malloc'ed). */
static bool take_times(const char *flag, const char *text, uint32_t stage_count, double *value, double **stages)
{
    if (text == NULL || strchr(text, ',') == NULL) {
        return take_time(flag, text, 0, value);
    }
    uint32_t count = 0;
    char *copy = strdup(text), *rest = copy;
    *stages = calloc(stage_count, sizeof **stages);
    bool good = copy != NULL && *stages != NULL;
    for (char *item; good && (item = strsep(&rest, ",")) != NULL; count++) {
        good = count >= stage_count || cli_number(flag, item, 0, BARE_TIME_MAX, &(*stages)[count]);
    }
    free(copy);
    if (good && count != stage_count) {
        fprintf(stderr, "memwall: --%s: %u %s for %u stages: give one for all, or one each\n", flag, count,
                strcmp(flag, "replicas") == 0 ? "numbers" : "times", stage_count);
        good = false;
    }
    return good;
}

/* The numbers of --replicas, one each: read once for all orders. */
static bool read_replicas(struct arguments *a, uint32_t stages)
{
    double *numbers = NULL, one = 0;
    if (a->replica_counts != NULL) {
        return true;
    }
    bool good = take_times("replicas", a->replicas, stages, &one, &numbers);
    a->replica_counts = good ? calloc(stages, sizeof *a->replica_counts) : NULL;
    for (uint32_t s = 0; a->replica_counts != NULL && good && s < stages; s++) {
        double number = numbers != NULL ? numbers[s] : one;
        good = number >= 1 && number <= ORDER_STAGES_MAX && floor(number) >= number;
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
static bool take_replicas(struct arguments *a, struct bare_pipeline_request *request)
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

static bool take_recompute(const struct arguments *a, struct bare_pipeline_request *request)
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
    struct error error = { 0 };
    request->order = registry_order(order, &error);
    if (request->order == NULL) {
        cli_complain(&error);
    }
    return request->order != NULL;
}

static bool read_request(struct arguments *a, struct bare_pipeline_request *request)
{
    struct order_request *o = &request->order_request;
    o->virtual_stages = request->order->virtual_stages > 0 ? request->order->virtual_stages : 1;
    parameters_defaults(request->order->parameters, request->order->parameter_count, &o->parameters);
    return take_count("stages", a->stages, ORDER_STAGES_MAX, &o->stages) &&
           take_count("microbatches", a->micro_batches, ORDER_MICRO_BATCHES_MAX, &o->micro_batches) &&
           (a->virtual_stages == NULL ||
            (a->compare != NULL && request->order->virtual_stages != 0) || /* what an order fixes is not asked */
            take_count("virtual", a->virtual_stages, ORDER_VIRTUAL_STAGES_MAX, &o->virtual_stages)) &&
           (a->parameters == NULL || take_parameters(a->parameters, request)) && take_replicas(a, request) &&
           take_time("hop", a->hop, 0, &request->hop) && take_recompute(a, request);
}

/* The times of all orders are the same: lists are read once. */
static bool read_times(struct arguments *a, struct bare_pipeline_request *request)
{
    const struct {
        const char *flag, *text;
        double *value;
        const double **stages;
    } times[3] = { { "forward", a->forward, &request->forward, &request->stage_forward },
                   { "backward", a->backward, &request->backward, &request->stage_backward },
                   { "weight-grad", a->weight, &request->weight_gradient, &request->stage_weight } };
    for (int i = 0; i < 3; i++) {
        if (a->stage_times[i] == NULL && !take_times(times[i].flag, times[i].text, request->order_request.stages,
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

static bool read_file(struct arguments *a, struct pipeline_run *run)
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
    return take_time("hop", a->hop, 0, &run->request.hop) && take_recompute(a, &run->request) &&
           read_times(a, &run->request);
}

/* One number for each stage. */
static double *spread(const double *stages, double otherwise, uint32_t count)
{
    double *all = calloc(count, sizeof *all);
    for (uint32_t s = 0; all != NULL && s < count; s++) {
        all[s] = stages != NULL ? stages[s] : otherwise;
    }
    return all;
}

/* Let the scheduler make the order from the times. */
static bool schedule(struct arguments *a, struct pipeline_run *run)
{
    struct bare_pipeline_request *r = &run->request;
    struct error error = { 0 };
    uint32_t p = r->order_request.stages;
    double limit = 0;
    if (!take_times("limit", a->limit, p, &limit, &a->stage_times[3])) {
        return false;
    }
    double *forward = spread(r->stage_forward, r->forward, p), *backward = spread(r->stage_backward, r->backward, p),
           *weight = spread(r->stage_weight, r->weight_gradient, p), *limits = spread(a->stage_times[3], limit, p);
    for (uint32_t s = 0; forward != NULL && backward != NULL && r->recompute == BARE_RECOMPUTE_LAZY && s < p; s++) {
        backward[s] +=
            r->last_stage_keeps && s == p - 1 ? 0 : forward[s]; /* one after the other, as a longer backward */
    }
    const struct order_auto_request request = {
        .stages = p,
        .micro_batches = r->order_request.micro_batches,
        .forward = forward,
        .backward = backward,
        .weight = a->weight != NULL ? weight : NULL,
        .hop = r->hop,
        .limits = a->limit != NULL ? limits : NULL,
    };
    enum status status = forward == NULL || backward == NULL || weight == NULL || limits == NULL
                             ? error_set(&error, STATUS_NO_MEMORY, "out of memory")
                             : order_auto(&request, &run->table, &run->scheduled, &error);
    free(forward);
    free(backward);
    free(weight);
    free(limits);
    if (status != STATUS_OK) {
        cli_complain(&error);
        return false;
    }
    use_table(run, "auto");
    return true;
}

static bool read_order(struct arguments *a, const char *name, struct pipeline_run *run)
{
    bool automatic = strcmp(name, "auto") == 0;
    run->request =
        (struct bare_pipeline_request){ .forward = 1, .backward = 2, .has_weight_gradient = a->weight != NULL };
    if (a->file != NULL) {
        return read_file(a, run);
    }
    return find_order(automatic ? "1f1b" : name, &run->request) && read_request(a, &run->request) &&
           read_times(a, &run->request) && (!automatic || schedule(a, run));
}

/* ---- running ---- */

enum { COMPARE_MAX = 16 };

static enum status execute(struct pipeline_run *run, struct error *error)
{
    const struct exec_options options = { .audit = true };
    TRY(bare_pipeline_schedule(&run->request, &run->schedule, error));
    TRY(exec_sim.run(&run->schedule, &options, &run->timeline, error));
    return bare_pipeline_measure(&run->request, &run->schedule, &run->timeline, &run->result, error);
}

static void free_runs(struct pipeline_run *runs, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        bare_pipeline_result_free(&runs[i].result);
        timeline_free(&runs[i].timeline);
        schedule_free(&runs[i].schedule);
        order_table_free(&runs[i].table);
    }
}

static enum status write_picture(const struct pipeline_run *runs, uint32_t count, const char *path, struct error *error)
{
    struct pipeline_panel panels[COMPARE_MAX];
    struct strbuf svg = { 0 };
    for (uint32_t i = 0; i < count; i++) {
        panels[i] = (struct pipeline_panel){ &runs[i].request, &runs[i].schedule, &runs[i].timeline, &runs[i].result };
    }
    enum status status = pipeline_picture_svg(panels, count, &svg, error);
    if (status == STATUS_OK) {
        status = file_write(path, svg.text, svg.length, error);
    }
    strbuf_free(&svg);
    return status;
}

static void print_runs(const struct pipeline_run *runs, uint32_t count, const struct arguments *a, bool json,
                       struct strbuf *out)
{
    if (json && a->compare != NULL) {
        strbuf_append(out, "[");
    } else if (!json && a->compare != NULL) {
        pipeline_text_table(runs, count, out);
    }
    for (uint32_t i = 0; i < count; i++) {
        if (json && a->compare != NULL) {
            strbuf_printf(out, "%s{\"order\": \"%s\", \"pipeline\": ", i > 0 ? ", " : "", runs[i].request.order->name);
        }
        if (json) {
            bare_pipeline_print_json(&runs[i].result, out);
        } else {
            pipeline_text(&runs[i], out);
            strbuf_append(out, i + 1 < count ? "\n" : "");
        }
        strbuf_append(out, json && a->compare != NULL ? "}" : "");
    }
    strbuf_append(out, json && a->compare != NULL ? "]" : "");
    if (json && out->length > 0 && out->text[out->length - 1] != '\n') {
        strbuf_char(out, '\n');
    }
}

/* The orders asked for: --order's, or those of --compare. */
static bool read_runs(struct arguments *a, struct pipeline_run *runs, uint32_t *count)
{
    char names[1024];
    const char *list = a->file != NULL ? "" : a->compare != NULL ? a->compare : a->order;
    if (strlen(list) >= sizeof names) {
        fprintf(stderr, "memwall: --compare: the list is too long\n");
        return false;
    }
    memcpy(names, list, strlen(list) + 1);
    char *rest = names;
    for (char *name; (name = strsep(&rest, a->compare != NULL ? "," : "\n")) != NULL;) {
        if (*count == COMPARE_MAX) {
            fprintf(stderr, "memwall: --compare: at most %d orders\n", COMPARE_MAX);
            return false;
        }
        (*count)++;
        if (!read_order(a, name, &runs[*count - 1])) {
            return false;
        }
    }
    return true;
}

static enum exit_code run_pipelines(struct arguments *a, const struct cli_flags *flags)
{
    struct pipeline_run runs[COMPARE_MAX] = { 0 };
    uint32_t count = 0;
    struct error error = { 0 };
    struct strbuf out = { 0 };
    if (!read_runs(a, runs, &count)) {
        free_runs(runs, count);
        return EXIT_BAD_INPUT;
    }
    enum status status = STATUS_OK;
    for (uint32_t i = 0; i < count && status == STATUS_OK; i++) {
        status = execute(&runs[i], &error);
    }
    if (status == STATUS_OK && a->svg != NULL) {
        status = write_picture(runs, count, a->svg, &error);
    }
    enum exit_code code;
    if (status != STATUS_OK) {
        code = cli_complain(&error);
    } else {
        print_runs(runs, count, a, flags->json, &out);
        code = cli_answer(flags, "pipeline", &out, EXIT_DONE);
    }
    free_runs(runs, count);
    return code;
}

static bool has_all(const struct arguments *a)
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
    if (a->replicas != NULL && (a->file != NULL || (a->order != NULL && strcmp(a->order, "auto") == 0) ||
                                (a->compare != NULL && strstr(a->compare, "auto") != NULL))) {
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
    if (a->virtual_stages != NULL && a->order != NULL && strcmp(a->order, "auto") == 0) {
        fprintf(stderr, "memwall pipeline: --virtual: auto gives each device one chunk: leave it out\n");
        return false;
    }
    if (a->limit != NULL && (a->order == NULL || strcmp(a->order, "auto") != 0) &&
        (a->compare == NULL || strstr(a->compare, "auto") == NULL)) {
        fprintf(stderr, "memwall pipeline: --limit is for --order auto: hand-made orders keep what they keep\n");
        return false;
    }
    return true;
}

static enum exit_code run(int argc, char **argv)
{
    struct cli_flags flags;
    enum exit_code code;
    struct arguments a = { 0 };
    const struct cli_flag more[] = {
        { "order", "NAME",
          "pipeline order (memwall list orders), or auto: a scheduler makes one from the times and --limit", &a.order },
        { "schedule-file", "FILE", "your own order: one line a stage, like F0 F1 B0 B1; see --help", &a.file },
        { "limit", "N", "most activations a stage may keep, for --order auto; or a list (default: no limit)",
          &a.limit },
        { "compare", "A,B,C", "several orders under each other, instead of --order", &a.compare },
        { "stages", "P", "pipeline stages", &a.stages },
        { "microbatches", "M", "micro-batches of the step", &a.micro_batches },
        { "forward", "TF", "time of a forward (default 1); a list like 1,2,1 gives each stage its own", &a.forward },
        { "backward", "TB", "time of a backward, or of its input-gradient part (default 2); or a list", &a.backward },
        { "weight-grad", "TW", "time of the weight-gradient part (default: in --backward); or a list", &a.weight },
        { "recompute", "WHEN",
          "repeat the forward before each backward: none, lazy (when the gradient is there), eager", &a.recompute },
        { "keep-last", NULL, "no recomputation on the last stage", &a.keep_last },
        { "hop", "C", "time between neighbouring stages (default 0)", &a.hop },
        { "virtual", "V", "chunks of each device (default: what the order needs)", &a.virtual_stages },
        { "replicas", "R", "replicas of every stage, or a list like 4,2,1; they share its micro-batches", &a.replicas },
        { "sharing", "HOW", "deal: whole micro-batches in turns (asynchronous orders); cut: slices of each (others)",
          &a.sharing },
        { "parameters", "K=V,..", "the order's own parameters: memwall list orders", &a.parameters },
        { "svg", "FILE", "draw stages against time, and the activations kept beneath", &a.svg },
    };
    if (!cli_parse(&command_pipeline, argc, argv, &flags, more, sizeof more / sizeof more[0], &code)) {
        return code;
    }
    code = cli_can_write("svg", a.svg) && has_all(&a) ? run_pipelines(&a, &flags) : EXIT_BAD_INPUT;
    for (int i = 0; i < 4; i++) {
        free(a.stage_times[i]);
    }
    free(a.replica_counts);
    return code;
}
