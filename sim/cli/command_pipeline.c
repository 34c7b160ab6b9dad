/* memwall pipeline: a bare pipeline order in abstract time units. It teaches, and it is where closed forms are tested. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/cli/cli.h"
#include "sim/exec.h"
#include "sim/plan/bare_pipeline.h"
#include "strategies/registry.h"

static enum exit_code run(int argc, char **argv);

const struct cli_command command_pipeline = {
    .name = "pipeline",
    .usage = "--order NAME --stages P --microbatches M [--forward TF] [--backward TB] [flags]",
    .summary = "run a bare pipeline order in abstract time units: bubbles, activations, a picture",
    .help = "Times are a device's whole share of one micro-batch; chunks divide them equally. --backward is the whole "
            "backward,\nor its input-gradient part when --weight-grad is given. Peak activations count whole shares.\n"
            "Small pipelines are drawn: one row a stage, time to the right; F3 is the forward of micro-batch 3, B its "
            "backward,\nW its weight gradient, \"F3.5\" the forward of micro-batch 3 through virtual stage 5.\n",
    .positional_min = 0,
    .positional_max = 0,
    .run = run,
};

enum { GRID_WIDTH_MAX = 160, GRID_COLUMNS_MAX = 4096, CELL_BYTES = 24 };

struct arguments {
    const char *order, *stages, *micro_batches, *forward, *backward, *weight, *hop, *virtual_stages;
};

/* ---- the picture ---- */

/* The longest time that divides every start and end: the width of a column. 0: none that is wide enough. */
static int64_t grid_step(const struct schedule *s, const struct timeline *timeline)
{
    int64_t step = 0;
    for (uint32_t i = 0; i < s->op_count; i++) {
        if (s->ops[i].opcode != OP_DELAY) {
            continue;
        }
        const int64_t times[] = { timeline->ops[i].start_ps, timeline->ops[i].end_ps };
        for (int k = 0; k < 2; k++) {
            int64_t a = step, b = times[k];
            while (b != 0) {
                int64_t rest = a % b;
                a = b;
                b = rest;
            }
            step = a;
        }
    }
    return step > 0 && timeline->end_ps / step <= GRID_COLUMNS_MAX ? step : 0;
}

static void cell_text(const struct bare_pipeline_request *request, const struct schedule *s, uint32_t op,
                      char text[CELL_BYTES])
{
    const struct sched_op *o = &s->ops[op];
    const struct order_step step = {
        .kind = o->phase == PHASE_FORWARD  ? STEP_FORWARD
                : o->phase == PHASE_WEIGHT ? STEP_BACKWARD_WEIGHT
                                           : STEP_BACKWARD,
        .chunk = o->chunk == OP_TAG_NONE ? 0 : o->chunk,
        .micro_batch = o->micro_batch,
    };
    order_step_text(request->order, &request->order_request, s->ranks[sched_op_rank(s, o)].stage, &step, text,
                    CELL_BYTES);
}

/* One row a stage; nothing when it would not fit the terminal. */
static void print_grid(const struct bare_pipeline_request *request, const struct schedule *s,
                       const struct timeline *timeline, struct strbuf *out)
{
    int64_t step = grid_step(s, timeline);
    size_t columns = step > 0 ? (size_t)(timeline->end_ps / step) : 0, width = 2;
    char text[CELL_BYTES];
    /* A pass of several columns may be written over all of them. */
    for (uint32_t i = 0; step > 0 && i < s->op_count; i++) {
        const struct op_times *t = &timeline->ops[i];
        if (s->ops[i].opcode == OP_DELAY && t->end_ps > t->start_ps) {
            cell_text(request, s, i, text);
            size_t over = (size_t)((t->end_ps - t->start_ps) / step), need = (strlen(text) + 1 + over - 1) / over;
            width = need > width ? need : width;
        }
    }
    if (columns == 0 || columns * width > GRID_WIDTH_MAX) {
        strbuf_append(out, "\n(too long to draw: --json has the order of every stage)\n");
        return;
    }
    char row[GRID_WIDTH_MAX + 1];
    strbuf_printf(out, "\nOne column of %zu characters is %g; \".\" is idle\n", width,
                  (double)step / (double)BARE_UNIT_PS);
    for (uint32_t r = 0; r < s->rank_count; r++) {
        memset(row, ' ', columns * width);
        for (size_t c = 0; c < columns; c++) {
            row[c * width] = '.';
        }
        for (uint32_t i = s->ranks[r].first_op; i < s->ranks[r].first_op + s->ranks[r].op_count; i++) {
            const struct op_times *t = &timeline->ops[i];
            if (s->ops[i].opcode != OP_DELAY || t->end_ps <= t->start_ps) {
                continue;
            }
            size_t first = (size_t)(t->start_ps / step) * width, end = (size_t)(t->end_ps / step) * width;
            cell_text(request, s, i, text);
            size_t length = strlen(text);
            memset(row + first, '-', end - first);
            memcpy(row + first, text, length < end - first ? length : end - first);
            row[end - 1] = ' ';
        }
        row[columns * width] = '\0';
        strbuf_printf(out, "  stage %-3u |%s|\n", s->ranks[r].stage, row);
    }
}

/* ---- text ---- */

static void print_text(const struct bare_pipeline_request *request, const struct schedule *s,
                       const struct timeline *timeline, const struct bare_pipeline_result *result, struct strbuf *out)
{
    const struct order_request *o = &request->order_request;
    double work = 0;
    for (uint32_t i = 0; i < result->stage_count; i++) {
        work += result->stages[i].work;
    }
    strbuf_printf(out, "%s: %u stages, %u micro-batches", request->order->name, o->stages, o->micro_batches);
    if (o->virtual_stages > 1) {
        strbuf_printf(out, ", %u chunks a device", o->virtual_stages);
    }
    strbuf_printf(out, "; forward %g, backward %g", request->forward, request->backward);
    if (request->has_weight_gradient) {
        strbuf_printf(out, ", weight gradient %g", request->weight_gradient);
    }
    strbuf_printf(out, ", hop %g\n\n", request->hop);
    strbuf_printf(out, "  makespan      %g\n", result->makespan);
    strbuf_printf(out, "  span bubble   %g (most idle time between a stage's first start and last end)\n",
                  result->span_bubble);
    double mean = work / result->stage_count;
    strbuf_printf(out, "  idle share    %.4g %% of the makespan, bubble to work %.4g\n\n",
                  100 * (1 - mean / result->makespan), result->makespan / mean - 1);
    strbuf_append(out, "  stage  peak activations  weight versions   work  first start  last end\n");
    for (uint32_t i = 0; i < result->stage_count; i++) {
        const struct bare_stage *stage = &result->stages[i];
        strbuf_printf(out, "  %5u  %16.4g  %15u  %5g  %11g  %8g\n", i, stage->peak_activations, stage->weight_versions,
                      stage->work, stage->first_start, stage->last_end);
    }
    print_grid(request, s, timeline, out);
}

/* ---- the command ---- */

static bool take_count(const char *flag, const char *text, double maximum, uint32_t *value)
{
    double number;
    if (!cli_number(flag, text, 1, maximum, &number)) {
        return false;
    }
    if (floor(number) < number) {
        fprintf(stderr, "memwall: --%s: \"%s\" is not a whole number\n", flag, text);
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

static bool read_request(const struct arguments *a, struct bare_pipeline_request *request)
{
    struct error error = { 0 };
    const struct {
        const char *flag, *value;
    } needed[] = { { "order", a->order }, { "stages", a->stages }, { "microbatches", a->micro_batches } };
    for (int i = 0; i < 3; i++) {
        if (needed[i].value == NULL) {
            fprintf(stderr, "memwall pipeline: --%s is missing\nmemwall pipeline --help says more\n", needed[i].flag);
            return false;
        }
    }
    *request = (struct bare_pipeline_request){
        .order = registry_order(a->order, &error), .forward = 1, .backward = 2, .has_weight_gradient = a->weight != NULL
    };
    if (request->order == NULL) {
        cli_complain(&error);
        return false;
    }
    struct order_request *o = &request->order_request;
    o->virtual_stages = request->order->virtual_stages > 0 ? request->order->virtual_stages : 1;
    parameters_defaults(request->order->parameters, request->order->parameter_count, &o->parameters);
    return take_count("stages", a->stages, ORDER_STAGES_MAX, &o->stages) &&
           take_count("microbatches", a->micro_batches, ORDER_MICRO_BATCHES_MAX, &o->micro_batches) &&
           (a->virtual_stages == NULL ||
            take_count("virtual", a->virtual_stages, ORDER_VIRTUAL_STAGES_MAX, &o->virtual_stages)) &&
           take_time("forward", a->forward, 0, &request->forward) &&
           take_time("backward", a->backward, 0, &request->backward) &&
           take_time("weight-grad", a->weight, 0, &request->weight_gradient) &&
           take_time("hop", a->hop, 0, &request->hop);
}

static enum exit_code run_pipeline(const struct bare_pipeline_request *request, const struct cli_flags *flags)
{
    struct schedule schedule = { 0 };
    struct timeline timeline = { 0 };
    struct bare_pipeline_result result = { 0 };
    struct error error = { 0 };
    struct strbuf out = { 0 };
    const struct exec_options options = { .audit = true };
    enum status status = bare_pipeline_schedule(request, &schedule, &error);
    if (status == STATUS_OK) {
        status = exec_sim.run(&schedule, &options, &timeline, &error);
    }
    if (status == STATUS_OK) {
        status = bare_pipeline_measure(request, &schedule, &timeline, &result, &error);
    }
    enum exit_code code;
    if (status != STATUS_OK) {
        code = cli_complain(&error);
    } else {
        if (flags->json) {
            bare_pipeline_print_json(&result, &out);
            if (out.length > 0 && out.text[out.length - 1] != '\n') {
                strbuf_char(&out, '\n');
            }
        } else {
            print_text(request, &schedule, &timeline, &result, &out);
        }
        code = cli_answer(flags, "pipeline", &out, EXIT_DONE);
    }
    bare_pipeline_result_free(&result);
    timeline_free(&timeline);
    schedule_free(&schedule);
    return code;
}

static enum exit_code run(int argc, char **argv)
{
    struct cli_flags flags;
    enum exit_code code;
    struct arguments a = { 0 };
    const struct cli_flag more[] = {
        { "order", "NAME", "pipeline order: memwall list orders", &a.order },
        { "stages", "P", "pipeline stages", &a.stages },
        { "microbatches", "M", "micro-batches of the step", &a.micro_batches },
        { "forward", "TF", "time of a forward (default 1)", &a.forward },
        { "backward", "TB", "time of a backward, or of its input-gradient part (default 2)", &a.backward },
        { "weight-grad", "TW", "time of the weight-gradient part", &a.weight },
        { "hop", "C", "time between neighbouring stages (default 0)", &a.hop },
        { "virtual", "V", "chunks of each device (default: what the order needs)", &a.virtual_stages },
    };
    if (!cli_parse(&command_pipeline, argc, argv, &flags, more, sizeof more / sizeof more[0], &code)) {
        return code;
    }
    struct bare_pipeline_request request;
    if (!read_request(&a, &request)) {
        return EXIT_BAD_INPUT;
    }
    return run_pipeline(&request, &flags);
}
