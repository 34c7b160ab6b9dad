#include "sim/cli/plan_text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "sim/base/units.h"
#include "sim/plan/plan_layers.h"
#include "sim/plan/plan_replicas.h"
#include "sim/report/text_table.h"

enum { RUNS_BYTES = 160, SPLIT_WIDTH = 40, FRONT_ROWS_MAX = 12, BAR_WIDTH = 24, STAGES_DRAWN = 16 };

static const char *time_text(double seconds, char *buffer, size_t size)
{
    return text_time_ps(ps_nearest_s(seconds), buffer, size);
}

/* "2-1-4 x12 2-1-4f x4": the strategies of layers first .. first + count - 1. */
static void run_lengths(const struct planner_choice *choice, int64_t first, int64_t count, char *text, size_t size)
{
    text[0] = '\0';
    for (int64_t i = first; i < first + count && i < (int64_t)choice->layer_count;) {
        int64_t end = i + 1;
        while (end < first + count && end < (int64_t)choice->layer_count &&
               strcmp(choice->layers[end], choice->layers[i]) == 0) {
            end++;
        }
        size_t length = strlen(text);
        snprintf(text + length, size - length, "%s%s x%" PRId64, length > 0 ? " " : "", choice->layers[i], end - i);
        i = end;
    }
}

/* Stages that are alike stand once. */
static void stage_table(const struct planner_choice *choice, struct strbuf *out)
{
    struct text_table table = { .column_count = 6, .right = 0x1e, .last_width = 60 };
    text_table_cell(&table, "stage");
    text_table_cell(&table, "layers");
    text_table_cell(&table, "est. time a micro-batch");
    text_table_cell(&table, "est. GiB");
    text_table_cell(&table, "left GiB");
    text_table_cell(&table, "split (pipeline-tensor-data) x layers");
    int64_t layer = 0;
    for (uint32_t i = 0; i < choice->stage_count;) {
        const struct planner_stage *stage = &choice->stages[i];
        char runs[RUNS_BYTES], other[RUNS_BYTES], time[32];
        run_lengths(choice, layer, stage->layers, runs, sizeof runs);
        int64_t at = layer + stage->layers;
        uint32_t end = i + 1;
        for (; end < choice->stage_count; end++) {
            const struct planner_stage *next = &choice->stages[end];
            run_lengths(choice, at, next->layers, other, sizeof other);
            double memory = next->memory_bytes - stage->memory_bytes, time_s = next->time_s - stage->time_s;
            bool alike = memory < 1e-3 * stage->memory_bytes && -memory < 1e-3 * stage->memory_bytes &&
                         time_s < 1e-3 * stage->time_s && -time_s < 1e-3 * stage->time_s;
            if (next->layers != stage->layers || strcmp(runs, other) != 0 || !alike) {
                break;
            }
            at += next->layers;
        }
        if (end - i > 1) {
            text_table_cell(&table, "%u - %u", i, end - 1);
        } else {
            text_table_cell(&table, "%u", i);
        }
        text_table_cell(&table, "%" PRId64, stage->layers);
        text_table_cell(&table, "%s", time_text(stage->time_s, time, sizeof time));
        text_table_cell(&table, "%.2f", stage->memory_bytes / GIB);
        text_table_cell(&table, "%.2f", stage->leftover_bytes / GIB);
        text_table_cell(&table, "%s", runs);
        layer = at;
        i = end;
    }
    text_table_print(&table, 2, true, out);
    text_table_free(&table);
}

static void bar(struct strbuf *out, double value, double most)
{
    int length = most > 0 ? (int)(BAR_WIDTH * value / most + 0.5) : 0;
    for (int i = 0; i < BAR_WIDTH; i++) {
        strbuf_char(out, i < length ? '#' : '.');
    }
}

/* Stages against time and memory, so that one sees what is out of balance. */
static void draw_stages(const char *title, const struct planner_stage *stages, uint32_t count, struct strbuf *out)
{
    double time = 0, memory = 0;
    for (uint32_t i = 0; i < count; i++) {
        time = stages[i].time_s > time ? stages[i].time_s : time;
        memory = stages[i].memory_bytes > memory ? stages[i].memory_bytes : memory;
    }
    strbuf_printf(out, "  %-14s time                      memory\n", title);
    for (uint32_t i = 0; i < count && i < STAGES_DRAWN; i++) {
        strbuf_printf(out, "  stage %-3u      ", i);
        bar(out, stages[i].time_s, time);
        strbuf_append(out, "  ");
        bar(out, stages[i].memory_bytes, memory);
        strbuf_char(out, '\n');
    }
    strbuf_char(out, '\n');
}

static void add_words(char *text, const struct strbuf *words)
{
    size_t length = strlen(text);
    if (words->text != NULL && length + words->length < SPLIT_WIDTH) {
        memcpy(text + length, words->text, words->length + 1);
    }
}

/* " (3 5)": how many layers the stages have, where not equally many; " gpipe": the order, where not that of the best plan. Each as far as there is room. */
static void stage_words(const struct planner_choice *choice, const struct planner_choice *best, char *text)
{
    const struct plan *plan = &choice->plan;
    struct strbuf layers = { 0 };
    bool even = true;
    if (!choice->has_plan || plan->pipeline < 2) {
        return;
    }
    for (int64_t i = 0; i < plan->pipeline && plan->virtual_stages == 1; i++) {
        even = even && plan->stage_layers[i] == plan->stage_layers[0];
        strbuf_printf(&layers, "%s%" PRId64, i == 0 ? " (" : " ", plan->stage_layers[i]);
    }
    strbuf_char(&layers, ')');
    if (!even) {
        add_words(text, &layers);
    }
    if (strcmp(plan->order, best->plan.order) != 0) {
        struct strbuf order = { 0 };
        strbuf_printf(&order, " %s", plan->order);
        add_words(text, &order);
        strbuf_free(&order);
    }
    strbuf_free(&layers);
}

/* The strategies in model order, without how many layers each has: "2-1-4 2-2-2f", cut where it gets long. */
static const char *splits(const struct planner_choice *choice, const struct planner_choice *best, char *text)
{
    size_t length = 0;
    text[0] = '\0';
    for (uint32_t i = 0; i < choice->layer_count; i++) {
        const char *layer = choice->layers[i];
        if (i > 0 && strcmp(layer, choice->layers[i - 1]) == 0) {
            continue;
        }
        if (length + strlen(layer) + 5 > SPLIT_WIDTH) {
            snprintf(text + length, SPLIT_WIDTH - length, " ..");
            break;
        }
        length += (size_t)snprintf(text + length, SPLIT_WIDTH - length, "%s%s", length > 0 ? " " : "", layer);
    }
    stage_words(choice, best, text);
    return choice->layer_count > 0 ? text : "-";
}

/* "4", or "2-8" where layers differ. */
static void range_cell(struct text_table *table, int64_t least, int64_t most)
{
    if (least == most) {
        text_table_cell(table, "%" PRId64, least);
    } else {
        text_table_cell(table, "%" PRId64 "-%" PRId64, least, most);
    }
}

/* Samples of a device's micro-batch, chunks, ZeRO stages, sequence parallelism. */
static void plan_cells(struct text_table *table, const struct planner_choice *choice)
{
    const struct plan *plan = &choice->plan;
    const struct plan_layer of_plan = { .tensor = plan->tensor, .data = plan->data, .zero_stage = plan->zero_stage };
    const struct plan_layer *layers = plan->layers != NULL ? plan->layers : &of_plan;
    uint32_t count = plan->layers != NULL ? choice->layer_count : 1;
    int64_t samples = plan->micro_batch * plan->data, fewest = samples, most = 0, zero_least = 3, zero_most = 0;
    bool tensor = false;
    for (uint32_t i = 0; i < count; i++) {
        int64_t own = samples / layers[i].data, zero = layers[i].zero_stage;
        fewest = own < fewest ? own : fewest;
        most = own > most ? own : most;
        zero_least = zero < zero_least ? zero : zero_least;
        zero_most = zero > zero_most ? zero : zero_most;
        tensor = tensor || layers[i].tensor > 1;
    }
    for (int64_t s = 0; plan->stage_replicas != NULL && s < plan->pipeline; s++) {
        const struct plan_layer split = { .tensor = plan->tensor, .data = plan_stage_data(plan, s) };
        int64_t own = plan_layer_samples(plan, &split);
        fewest = s == 0 || own < fewest ? own : fewest;
        most = s == 0 || own > most ? own : most;
    }
    range_cell(table, fewest, most);
    text_table_cell(table, "%" PRId64, plan->micro_batches);
    text_table_cell(table, "%" PRId64, plan->virtual_stages);
    range_cell(table, zero_least, zero_most);
    text_table_cell(table, "%s", !tensor ? "-" : plan->sequence_parallel ? "yes" : "no");
}

static bool is_over(const struct planner_result *result, const struct planner_choice *choice)
{
    return choice->is_simulated && choice->simulated.verdict == ORACLE_RAN &&
           !oracle_fits(&choice->simulated, result->budget_bytes);
}

static void choice_row(struct text_table *table, const char *what, const struct planner_result *result,
                       const struct planner_choice *choice)
{
    char text[SPLIT_WIDTH], time[32];
    text_table_cell(table, "%s", what);
    text_table_cell(table, "%s", splits(choice, &result->best, text));
    if (choice->has_plan) {
        plan_cells(table, choice);
    } else {
        for (int i = 0; i < 5; i++) {
            text_table_cell(table, "-");
        }
    }
    text_table_cell(table, "%" PRId64, choice->global_batch);
    text_table_cell(table, "%s", time_text(choice->step_time_s, time, sizeof time));
    text_table_cell(table, "%.2f", choice->peak_bytes / GIB);
    if (choice->is_simulated && choice->simulated.verdict == ORACLE_RAN) {
        text_table_cell(table, "%s", time_text(choice->simulated.step_time_s, time, sizeof time));
        text_table_cell(table, "%s%.2f", is_over(result, choice) ? "! " : "",
                        (double)choice->simulated.peak_bytes / GIB);
        text_table_cell(table, "%.4g", choice->simulated.samples_per_s);
    } else {
        text_table_cell(table, "-");
        text_table_cell(table, "-");
        text_table_cell(table, "%.4g", choice->samples_per_s);
    }
}

/* What the columns of choice_table are. */
static void choice_legend(const struct planner_result *result, struct strbuf *out)
{
    strbuf_append(
        out, "\n  split: pipeline-tensor-data, c recomputed, s selectively, f ZeRO-3, * behind that of tensor and "
             "data whose groups are\n  consecutive GPUs; in brackets the layers of each stage, where they differ; "
             "then the order, where not the best plan's;\n  micro-batch: samples of a GPU at a time (from-to where "
             "layers or stages differ), count: how many a step; chunks: of a GPU's layers;\n  seq.: sequence "
             "parallel; batch: samples a step; est.: by the cost model; GiB: the peak of the fullest GPU;\n"
             "  of mpress: h activations to the host, d to other devices\n");
    bool over = is_over(result, &result->best);
    for (uint32_t i = 0; i < result->runner_up_count; i++) {
        over = over || is_over(result, &result->runners_up[i]);
    }
    if (over) {
        strbuf_append(out, "  !: more than the budget by the simulator\n");
    }
    if (result->front_count > 1) {
        strbuf_append(out, "  front: slower, but with less memory than all above it\n");
    }
}

static void choice_table(const struct planner_result *result, struct strbuf *out)
{
    static const char *const head[] = { "",          "split",    "micro-batch",    "count",
                                        "chunks",    "ZeRO",     "seq.",           "batch",
                                        "est. step", "est. GiB", "simulated step", "simulated GiB",
                                        "samples/s" };
    struct text_table table = { .column_count = 13, .right = 0x1ffc };
    for (uint32_t i = 0; i < table.column_count; i++) {
        text_table_cell(&table, "%s", head[i]);
    }
    choice_row(&table, "best", result, &result->best);
    for (uint32_t i = 0; i < result->runner_up_count; i++) {
        char name[32];
        snprintf(name, sizeof name, "%u", i + 2);
        choice_row(&table, name, result, &result->runners_up[i]);
    }
    for (uint32_t i = 1; i < result->front_count && i <= FRONT_ROWS_MAX; i++) {
        choice_row(&table, "front", result, &result->front[i]);
    }
    text_table_print(&table, 2, true, out);
    text_table_free(&table);
    choice_legend(result, out);
}

static void balance_lines(const struct planner_result *result, struct strbuf *out)
{
    const struct planner_choice *best = &result->best;
    if (best->stage_count < 2) {
        return;
    }
    strbuf_printf(
        out,
        "  balance of stages   time alpha_t %.3f, memory alpha_m %.3f (1 - largest stage / sum of all; at best "
        "%.3f)\n",
        best->alpha_t, best->alpha_m, 1 - 1.0 / best->stage_count);
    if (result->unbalanced != NULL) {
        char time[32];
        bool ran = result->unbalanced_simulated.verdict == ORACLE_RAN;
        strbuf_printf(out, "  before balancing    time alpha_t %.3f, memory alpha_m %.3f, %s a step%s; layers",
                      result->unbalanced_alpha_t, result->unbalanced_alpha_m,
                      time_text(ran ? result->unbalanced_simulated.step_time_s : result->unbalanced_step_time_s, time,
                                sizeof time),
                      ran ? " simulated" : "");
        for (uint32_t i = 0; i < result->unbalanced_count; i++) {
            strbuf_printf(out, " %" PRId64, result->unbalanced[i].layers);
        }
        strbuf_char(out, '\n');
    }
}

static void one_result(const struct planner_result *result, struct strbuf *out)
{
    char time[32];
    strbuf_printf(out, "\nBudget %.6g GiB a device\n", result->budget_bytes / GIB);
    if (!result->found) {
        strbuf_append(out, "  DOES NOT FIT");
        if (result->smallest_budget_bytes > 0) {
            strbuf_printf(out, ": the smallest budget that would do is %.6g GiB a device",
                          planner_enough_gib(result->smallest_budget_bytes));
        }
        strbuf_char(out, '\n');
    } else {
        const struct planner_choice *best = &result->best;
        bool ran = best->is_simulated && best->simulated.verdict == ORACLE_RAN;
        strbuf_printf(out, "  step time           %s, %.5g samples/s (global batch %" PRId64 ")%s\n",
                      time_text(ran ? best->simulated.step_time_s : best->step_time_s, time, sizeof time),
                      ran ? best->simulated.samples_per_s : best->samples_per_s, best->global_batch,
                      ran ? ", simulated" : ", by the cost model");
        if (ran && best->step_time_s > 0) {
            strbuf_printf(out, "  by the cost model   %s (%+.1f %%)\n", time_text(best->step_time_s, time, sizeof time),
                          100 * (best->step_time_s / best->simulated.step_time_s - 1));
        }
        balance_lines(result, out);
        strbuf_char(out, '\n');
        if (best->stage_count > 0) {
            stage_table(best, out);
            strbuf_char(out, '\n');
        }
        if (best->stage_count > 1) {
            if (result->unbalanced != NULL) {
                draw_stages("before", result->unbalanced, result->unbalanced_count, out);
            }
            draw_stages(result->unbalanced != NULL ? "after" : "the plan", best->stages, best->stage_count, out);
        }
        choice_table(result, out);
    }
    strbuf_char(out, '\n');
    for (uint32_t i = 0; i < result->reason_count; i++) {
        strbuf_printf(out, "  - %s\n", result->reasons[i]);
    }
}

void plan_text(const struct plan_answer_input *input, struct strbuf *out)
{
    const struct planner_answer *answer = input->answer;
    strbuf_printf(out, "%s on %u GPUs of %s, planner %s\n", input->scenario->model.name, input->scenario->cluster.gpus,
                  input->scenario->machine.name, input->planner->name);
    strbuf_printf(out, "%" PRIu64 " splits: %" PRIu64 " refused, %" PRIu64 " too big by closed form, ",
                  answer->configurations, answer->refused, answer->pruned);
    if (answer->outrun > 0) {
        strbuf_printf(out, "%" PRIu64 " too slow to win, ", answer->outrun);
    }
    strbuf_printf(out, "%" PRIu64 " simulated, in %.2f s%s\n", answer->simulated, input->seconds,
                  answer->interrupted ? "; INTERRUPTED: the best so far" : "");
    strbuf_printf(out, "costs: %s\n", answer->cost_model);
    for (uint32_t i = 0; i < answer->result_count; i++) {
        one_result(&answer->results[i], out);
    }
}
