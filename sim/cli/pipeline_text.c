/* Bare pipelines for people: figures, a table of several, a grid of characters. */
#include "sim/cli/pipeline_text.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "sim/plan/plan.h"

enum { GRID_WIDTH_MAX = 160, GRID_COLUMNS_MAX = 4096, CELL_BYTES = 24 };

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
            if (times[k] > 0) {
                step = step > 0 ? plan_gcd(step, times[k]) : times[k];
            }
        }
    }
    return step > 0 && timeline->end_ps / step <= GRID_COLUMNS_MAX ? step : 0;
}

static void cell_text(const struct bare_pipeline_request *request, const struct schedule *s, uint32_t op,
                      char text[CELL_BYTES])
{
    const struct sched_op *o = &s->ops[op];
    if (o->phase == PHASE_RECOMPUTE) {
        snprintf(text, CELL_BYTES, "R%u", o->micro_batch);
        return;
    }
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

/* One row a stage (or replica); nothing when it would not fit the terminal. */
static void print_grid(const struct bare_pipeline_request *request, const struct schedule *s,
                       const struct timeline *timeline, const struct bare_pipeline_result *result, struct strbuf *out)
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
        strbuf_append(out, "\n(too long for text: --svg draws it, --json has the order of every stage)\n");
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
        char name[BARE_ROW_TEXT_BYTES];
        strbuf_printf(out, "  stage %-3s |%s|\n", bare_pipeline_row_text(result, r, name), row);
    }
}

/* ---- text ---- */

static void print_times(struct strbuf *out, const char *what, const double *stages, double otherwise, uint32_t count)
{
    strbuf_append(out, what);
    for (uint32_t i = 0; stages != NULL && i < count; i++) {
        strbuf_printf(out, "%c%g", i == 0 ? ' ' : ',', stages[i]);
    }
    if (stages == NULL) {
        strbuf_printf(out, " %g", otherwise);
    }
}

/* In percent of the bound; 0: it is as short as any. */
/* Whether the bound counts all of its stage's work; else that of the passes which no micro-batch reaches early. */
static bool bound_is_of_all(const struct bare_pipeline_result *result)
{
    for (uint32_t i = 0; i < result->stage_count; i++) {
        const struct bare_stage *stage = &result->stages[i];
        if (stage->stage == result->bound.stage && stage->work > result->bound.work * (1 + 1e-9)) {
            return false;
        }
    }
    return true;
}

static double over_bound(const struct bare_pipeline_result *result)
{
    return 100 * (result->makespan / result->bound.makespan - 1);
}

void pipeline_text(const struct pipeline_run *run, struct strbuf *out)
{
    const struct bare_pipeline_request *request = &run->request;
    const struct bare_pipeline_result *result = &run->result;
    const struct order_request *o = &request->order_request;
    double work = 0;
    for (uint32_t i = 0; i < result->stage_count; i++) {
        work += result->stages[i].work;
    }
    strbuf_printf(out, "%s: %u stages, %u micro-batches", request->order->name, o->stages, o->micro_batches);
    if (o->virtual_stages > 1) {
        strbuf_printf(out, ", %u chunks a device", o->virtual_stages);
    }
    bare_pipeline_replicas_words(request, out);
    print_times(out, "; forward", request->stage_forward, request->forward, o->stages);
    print_times(out, ", backward", request->stage_backward, request->backward, o->stages);
    if (request->has_weight_gradient) {
        print_times(out, ", weight gradient", request->stage_weight, request->weight_gradient, o->stages);
    }
    strbuf_printf(out, ", hop %g%s%s\n\n", request->hop,
                  request->recompute == BARE_KEEP             ? ""
                  : request->recompute == BARE_RECOMPUTE_LAZY ? ", recomputed lazily"
                                                              : ", recomputed eagerly",
                  request->recompute != BARE_KEEP && request->last_stage_keeps ? " but on the last stage" : "");
    strbuf_printf(out, "  makespan      %g\n", result->makespan);
    strbuf_printf(out,
                  "  lower bound   %g for every order: %g before %sstage %u can begin, %g of its work, %g after it; ",
                  result->bound.makespan, result->bound.before, bound_is_of_all(result) ? "" : "the later passes of ",
                  result->bound.stage, result->bound.work, result->bound.after);
    if (over_bound(result) > 0) {
        strbuf_printf(out, "this one is %.4g %% over it%s\n", over_bound(result),
                      run->scheduled.rule != NULL ? " (which knows no limit of memory)" : "");
    } else {
        strbuf_append(out, "this one reaches it\n");
    }
    if (run->scheduled.rule != NULL) {
        strbuf_printf(out, "  rule          %s\n", run->scheduled.rule);
    }
    strbuf_printf(out, "  span bubble   %g (most idle time between a stage's first start and last end)\n",
                  result->span_bubble);
    double mean = work / result->stage_count;
    strbuf_printf(out, "  idle share    %.4g %% of the makespan, bubble to work %.4g\n\n",
                  100 * (1 - mean / result->makespan), result->makespan / mean - 1);
    strbuf_append(out, "  stage  peak activations  weight versions   work  first start  last end\n");
    for (uint32_t i = 0; i < result->stage_count; i++) {
        const struct bare_stage *stage = &result->stages[i];
        char name[BARE_ROW_TEXT_BYTES];
        strbuf_printf(out, "  %5s  %16.4g  %15u  %5g  %11g  %8g\n", bare_pipeline_row_text(result, i, name),
                      stage->peak_activations, stage->weight_versions, stage->work, stage->first_start,
                      stage->last_end);
    }
    print_grid(request, &run->schedule, &run->timeline, result, out);
}

/* Chimera and DualPipe: a device holds stages of both copies, so that its weights are twice those of others. */
static void put_copies(const struct bare_pipeline_request *request, struct strbuf *out)
{
    if (order_copies(request->order) > 1) {
        strbuf_printf(out, ", of each of %u copies of the model", order_copies(request->order));
    }
}

void pipeline_text_table(const struct pipeline_run *runs, uint32_t count, struct strbuf *out)
{
    strbuf_append(out,
                  "order            makespan  over bound %  span bubble  idle %  most activations  weight versions\n");
    for (uint32_t i = 0; i < count; i++) {
        const struct bare_pipeline_result *r = &runs[i].result;
        double work = 0, peak = 0;
        uint32_t versions = 0;
        for (uint32_t s = 0; s < r->stage_count; s++) {
            work += r->stages[s].work / r->stage_count;
            peak = fmax(peak, r->stages[s].peak_activations);
            versions = r->stages[s].weight_versions > versions ? r->stages[s].weight_versions : versions;
        }
        strbuf_printf(out, "%-15s %9.6g  %12.2f  %11.6g  %6.2f  %16.4g  %15u", runs[i].request.order->name, r->makespan,
                      over_bound(r), r->span_bubble, 100 * (1 - work / r->makespan), peak, versions);
        put_copies(&runs[i].request, out);
        strbuf_char(out, '\n');
    }
    strbuf_char(out, '\n');
}
