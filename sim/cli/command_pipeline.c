/* memwall pipeline: a bare pipeline order in abstract time units. It teaches, and it is where closed forms are tested. */
#include <stdio.h>
#include <string.h>

#include "plots/pipeline_picture.h"
#include "sim/base/check.h"
#include "sim/base/file.h"
#include "sim/cli/cli.h"
#include "sim/cli/pipeline_arguments.h"
#include "sim/exec.h"

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
        "The lower bound holds for every order of the same passes on the same devices: a device is idle until a "
        "micro-batch\ncan reach it, does its work, and what it did last still has its way to the end. Nothing "
        "is shorter. It\nknows no --limit. The rule of auto is the candidate that won: a rule of play, or an order of "
        "memwall list orders,\nas it is or played again with its sequence as the preference.\n"
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

/* Compared orders that do not have the chunks that --virtual asks for. */
static void put_other_chunks(const struct pipeline_run *runs, uint32_t count, uint32_t chunks, struct strbuf *out)
{
    uint32_t told = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t own = runs[i].request.order_request.virtual_stages;
        if (chunks != 0 && own != chunks) {
            strbuf_printf(out, "%s always has %u %s a device, not the %u of --virtual\n", runs[i].request.order->name,
                          own, own == 1 ? "chunk" : "chunks", chunks);
            told++;
        }
    }
    strbuf_append(out, told > 0 ? "\n" : "");
}

static void print_runs(const struct pipeline_run *runs, uint32_t count, const struct pipeline_arguments *a, bool json,
                       struct strbuf *out)
{
    if (json && a->compare != NULL) {
        strbuf_append(out, "[");
    } else if (!json && a->compare != NULL) {
        pipeline_text_table(runs, count, out);
        put_other_chunks(runs, count, a->chunks, out);
    }
    for (uint32_t i = 0; i < count; i++) {
        if (json && a->compare != NULL) {
            strbuf_printf(out, "%s{\"order\": \"%s\", \"virtual_stages\": %u, \"pipeline\": ", i > 0 ? ", " : "",
                          runs[i].request.order->name, runs[i].request.order_request.virtual_stages);
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
static bool read_runs(struct pipeline_arguments *a, struct pipeline_run *runs, uint32_t *count)
{
    char names[1024];
    const char *list = a->file != NULL ? "" : a->compare != NULL ? a->compare : a->order;
    if (strlen(list) >= sizeof names) {
        fprintf(stderr, "memwall: --compare: the list is too long\n");
        return false;
    }
    memcpy(names, list, strlen(list) + 1);
    char *rest = names;
    uint32_t others = 0; /* that do not have the chunks asked for */
    for (char *name; (name = strsep(&rest, a->compare != NULL ? "," : "\n")) != NULL;) {
        if (*count == COMPARE_MAX) {
            fprintf(stderr, "memwall: --compare: at most %d orders\n", COMPARE_MAX);
            return false;
        }
        (*count)++;
        if (!pipeline_read_order(a, name, &runs[*count - 1])) {
            return false;
        }
        others += a->chunks != runs[*count - 1].request.order_request.virtual_stages;
    }
    if (a->chunks != 0 && others == *count) {
        fprintf(stderr, "memwall: --virtual: none of %s can have %u chunks a device: leave it out\n", a->compare,
                a->chunks);
        return false;
    }
    return true;
}

static enum exit_code run_pipelines(struct pipeline_arguments *a, const struct cli_flags *flags)
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

static enum exit_code run(int argc, char **argv)
{
    struct cli_flags flags;
    enum exit_code code;
    struct pipeline_arguments a = { 0 };
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
        { "virtual", "V", "chunks of each device (default: what the order needs, 1 for auto)", &a.virtual_stages },
        { "placement", "HOW",
          "where auto has them: loop (default), as interleaved; v, as zb-v: odd chunks run backwards", &a.placement },
        { "replicas", "R", "replicas of every stage, or a list like 4,2,1; they share its micro-batches", &a.replicas },
        { "sharing", "HOW", "deal: whole micro-batches in turns (asynchronous orders); cut: slices of each (others)",
          &a.sharing },
        { "parameters", "K=V,..", "the order's own parameters: memwall list orders", &a.parameters },
        { "svg", "FILE", "draw stages against time, and the activations kept beneath", &a.svg },
    };
    if (!cli_parse(&command_pipeline, argc, argv, &flags, more, sizeof more / sizeof more[0], &code)) {
        return code;
    }
    code = cli_can_write("svg", a.svg) && pipeline_arguments_agree(&a) ? run_pipelines(&a, &flags) : EXIT_BAD_INPUT;
    pipeline_arguments_free(&a);
    return code;
}
