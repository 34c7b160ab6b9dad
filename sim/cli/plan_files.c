#include "sim/cli/plan_files.h"

#include <stdio.h>
#include <string.h>

#include "plots/balance_picture.h"
#include "sim/base/check.h"
#include "sim/base/file.h"
#include "sim/base/units.h"
#include "strategies/planners/galvatron_exchange.h"

const char *plan_budget_name(double budget_bytes, char text[PLAN_BUDGET_BYTES])
{
    snprintf(text, PLAN_BUDGET_BYTES, "%.6g", budget_bytes / GIB);
    return text;
}

/* "plan.json" and 12 GiB: "plan-12gib.json" */
static void file_name(const char *out, double budget_bytes, bool is_list, char *name, size_t size)
{
    const char *dot = strrchr(out, '.'), *slash = strrchr(out, '/');
    if (!is_list) {
        snprintf(name, size, "%s", out);
        return;
    }
    int stem = dot != NULL && (slash == NULL || dot > slash) ? (int)(dot - out) : (int)strlen(out);
    char gib[PLAN_BUDGET_BYTES];
    snprintf(name, size, "%.*s-%sgib%s", stem, out, plan_budget_name(budget_bytes, gib), out + stem);
}

/* As memwall.plan/1. */
static enum status print_own(const struct plan_answer_input *input, const struct planner_result *result,
                             struct strbuf *text, struct error *error)
{
    plan_answer_file(input, result, text);
    return text->failed ? error_set(error, STATUS_NO_MEMORY, "out of memory writing a plan") : STATUS_OK;
}

/* As Galvatron's searched plan. */
static enum status print_galvatron(const struct plan_answer_input *input, const struct planner_result *result,
                                   struct strbuf *text, struct error *error)
{
    struct galvatron_plan_file file;
    struct arena arena = { 0 };
    enum status status = galvatron_export_plan(input->scenario, &result->best.plan, &file, &arena, error);
    if (status == STATUS_OK) {
        galvatron_plan_file_write(&file, text);
    }
    arena_free(&arena);
    return status == STATUS_OK && text->failed ? error_set(error, STATUS_NO_MEMORY, "out of memory writing a plan")
                                               : status;
}

static void fill_panel(struct balance_panel *panel, const struct planner_stage *stages, uint32_t count,
                       struct balance_stage *bars)
{
    for (uint32_t i = 0; i < count; i++) {
        bars[i] = (struct balance_stage){ stages[i].time_s, stages[i].memory_bytes, stages[i].layers };
    }
    panel->stages = bars;
    panel->count = count;
}

/* The best plan's stages, under those it had before balancing. */
static enum status draw_result(const struct plan_answer_input *input, const struct planner_result *result,
                               struct strbuf *out, struct error *error)
{
    (void)input;
    const struct planner_choice *best = &result->best;
    struct balance_panel panels[2] = { 0 };
    struct arena arena = { 0 };
    uint32_t count = 0, before = result->unbalanced_count;
    bool ran = best->is_simulated && best->simulated.verdict == ORACLE_RAN,
         ran_before = result->unbalanced_simulated.verdict == ORACLE_RAN;
    struct balance_stage *bars = arena_array(&arena, struct balance_stage, best->stage_count + before);
    if (bars == NULL) {
        return error_set(error, STATUS_NO_MEMORY, "out of memory drawing a plan");
    }
    if (result->unbalanced != NULL) {
        panels[count] = (struct balance_panel){ .title = "memory-balanced, before",
                                                .alpha_t = result->unbalanced_alpha_t,
                                                .alpha_m = result->unbalanced_alpha_m,
                                                .step_s = ran_before ? result->unbalanced_simulated.step_time_s
                                                                     : result->unbalanced_step_time_s };
        fill_panel(&panels[count++], result->unbalanced, before, bars);
    }
    panels[count] = (struct balance_panel){ .title = count > 0 ? "after balancing" : "the plan",
                                            .alpha_t = best->alpha_t,
                                            .alpha_m = best->alpha_m,
                                            .step_s = ran ? best->simulated.step_time_s : best->step_time_s };
    fill_panel(&panels[count++], best->stages, best->stage_count, bars + before);
    enum status status = balance_picture_svg(panels, count, result->budget_bytes, out, error);
    arena_free(&arena);
    return status;
}

/* What is written of a budget's result, and why there is nothing. */
typedef enum status print_result(const struct plan_answer_input *input, const struct planner_result *result,
                                 struct strbuf *text, struct error *error);
typedef const char *why_nothing(const struct planner_result *result);

/* A file a budget, of what `print` makes; `what`: "plan". */
static enum status write_each(const struct plan_answer_input *input, const char *out, bool quiet, const char *what,
                              why_nothing *why, print_result *print, struct error *error)
{
    for (uint32_t i = 0; i < input->answer->result_count; i++) {
        const struct planner_result *result = &input->answer->results[i];
        const char *nothing = why(result);
        char name[4096];
        struct strbuf text = { 0 };
        if (nothing != NULL) {
            if (!quiet) {
                fprintf(stderr, "memwall: no %s to write for %.6g GiB: %s\n", what, result->budget_bytes / GIB,
                        nothing);
            }
            continue;
        }
        file_name(out, result->budget_bytes, input->is_list, name, sizeof name);
        enum status status = print(input, result, &text, error);
        if (status == STATUS_OK) {
            status = file_write(name, text.text, text.length, error);
        }
        strbuf_free(&text);
        TRY(status);
        if (!quiet) {
            fprintf(stderr, "memwall: %s written to %s\n", what, name);
        }
    }
    return STATUS_OK;
}

static const char *why_no_plan(const struct planner_result *result)
{
    return !result->found ? "nothing fits" : !result->best.has_plan ? "this planner makes none" : NULL;
}

static const char *why_no_picture(const struct planner_result *result)
{
    return !result->found                  ? "nothing fits"
           : result->best.stage_count == 0 ? "this planner tells no stages, as max-batch does"
                                           : NULL;
}

enum status plan_files_write(const struct plan_answer_input *input, const char *out, bool galvatron, bool quiet,
                             struct error *error)
{
    return write_each(input, out, quiet, "plan", why_no_plan, galvatron ? print_galvatron : print_own, error);
}

enum status plan_pictures_write(const struct plan_answer_input *input, const char *file, bool quiet,
                                struct error *error)
{
    return write_each(input, file, quiet, "picture", why_no_picture, draw_result, error);
}
