/* One scenario taken to its figures. */
#include "sim/sweep/sweep_row.h"

#include <stdio.h>
#include <string.h>

#include "sim/base/check.h"
#include "sim/base/json_write.h"
#include "sim/engine/cost_table.h"
#include "sim/engine/exec_sim_spare.h"
#include "sim/exec.h"
#include "sim/plan/lower.h"
#include "sim/plan/scenario.h"
#include "sim/report/link_kind.h"
#include "sim/report/memory_efficiency.h"
#include "sim/report/money.h"
#include "sim/report/result.h"

const struct sweep_figure_info sweep_figures[SWEEP_FIGURE_COUNT] = {
#define X(name, better, whole, help) { #name, help, better, whole },
    SWEEP_FIGURE_TABLE(X)
#undef X
};

const char *sweep_status_word(enum sweep_status status)
{
    static const char *const words[] = {
#define X(name, word) word,
        SWEEP_STATUS_TABLE(X)
#undef X
    };
    return words[status];
}

bool sweep_row_is_final(const struct sweep_row *row)
{
    return row->status != SWEEP_ERROR ||
           (row->error != STATUS_NO_MEMORY && row->error != STATUS_IO && row->error != STATUS_EXECUTION);
}

/* What a row owns while it is computed. */
struct work {
    struct scenario scenario;
    struct schedule schedule;
    struct timeline timeline;
    struct cost_table costs;
    struct result result;
    struct strbuf does_not_fit;
};

static void work_free(struct work *work)
{
    result_free(&work->result);
    strbuf_free(&work->does_not_fit);
    cost_table_free(&work->costs);
    timeline_free(&work->timeline);
    schedule_free(&work->schedule);
    scenario_free(&work->scenario);
}

static void set(struct sweep_row *row, enum sweep_figure figure, double value)
{
    row->has[figure] = true;
    row->figures[figure] = value;
}

static enum status lower(struct work *work, struct error *error)
{
    const struct scenario *scenario = &work->scenario;
    struct lower_request request = {
        .model = &scenario->model,
        .cluster = &scenario->cluster,
        .software = &scenario->software,
        .plan = &scenario->plan,
    };
    return lower_schedule(&request, &work->schedule, error);
}

/* As `memwall run`: what does not fit is run again with memory to spare; the hash stays that of the machine's capacities. */
static enum status simulate(struct work *work, struct error *error)
{
    struct schedule *s = &work->schedule;
    const struct exec_options options = {
        .cluster = &work->scenario.cluster, .software = &work->scenario.software, .audit = true, .costs = &work->costs
    };
    TRY(exec_sim.run(s, &options, &work->timeline, error));
    if (work->timeline.outcome != TIMELINE_DOES_NOT_FIT) {
        return STATUS_OK;
    }
    return exec_sim_again(s, &options, &work->timeline, &work->does_not_fit, error);
}

_Static_assert(FIGURE_peak_runtime_bytes - FIGURE_peak_weight_bytes + 1 == BUFFER_CLASS_COUNT &&
                   BUFFER_RUNTIME + 1 == BUFFER_CLASS_COUNT && BUFFER_WEIGHT == 0,
               "a figure a buffer class, in their order");

static void take_device(struct sweep_row *row, const struct space_use *use, bool fullest)
{
    double peak = (double)use->peak_bytes, reserved = (double)use->peak_reserved_bytes;
    for (int c = 0; c < BUFFER_CLASS_COUNT && fullest; c++) {
        set(row, (enum sweep_figure)(FIGURE_peak_weight_bytes + c), (double)use->at_peak_bytes[c]);
    }
    if (!row->has[FIGURE_least_peak_bytes] || peak < row->figures[FIGURE_least_peak_bytes]) {
        set(row, FIGURE_least_peak_bytes, peak);
    }
    if (!row->has[FIGURE_peak_reserved_bytes] || reserved > row->figures[FIGURE_peak_reserved_bytes]) {
        set(row, FIGURE_peak_reserved_bytes, reserved);
    }
}

static void take_spaces(struct sweep_row *row, const struct work *work)
{
    static const enum sweep_figure peaks[SPACE_KIND_COUNT] = {
        [SPACE_DEVICE] = FIGURE_peak_bytes,
        [SPACE_HOST] = FIGURE_host_peak_bytes,
        [SPACE_STORAGE] = FIGURE_storage_peak_bytes,
        [SPACE_PINNED] = SWEEP_FIGURE_COUNT,
    };
    for (uint32_t i = 0; i < work->schedule.space_count; i++) {
        const struct sched_space *space = &work->schedule.spaces[i];
        const struct space_use *use = &work->timeline.spaces[i];
        enum sweep_figure figure = peaks[space->kind];
        if (figure == SWEEP_FIGURE_COUNT) {
            continue; /* lies within host memory */
        }
        bool fullest = !row->has[figure] || (double)use->peak_bytes > row->figures[figure];
        if (space->kind == SPACE_DEVICE) {
            take_device(row, use, fullest);
            set(row, FIGURE_capacity_bytes, (double)space->capacity_bytes);
        }
        if (fullest) {
            set(row, figure, (double)use->peak_bytes);
        }
    }
}

static void take_times(struct sweep_row *row, const struct result *result)
{
    for (uint32_t c = 0; c < TIME_CLASS_COUNT; c++) {
        double sum = 0;
        for (uint32_t i = 0; i < result->stage_count; i++) {
            sum += result->stages[i].exposed_s[c];
        }
        set(row, (enum sweep_figure)(FIGURE_time_compute_s + c),
            result->stage_count > 0 ? sum / result->stage_count : 0);
    }
    if (result->bound_count > 0) {
        snprintf(row->bound, sizeof row->bound, "%s", result->bounds[0].what);
        set(row, FIGURE_bound_share, result->bounds[0].share);
    }
}

/* Bytes by kind of link, kinds in the order of their first link. */
static void take_traffic(struct sweep_row *row, const struct work *work)
{
    enum { KINDS_MAX = 16 };
    const char *kinds[KINDS_MAX];
    double bytes[KINDS_MAX] = { 0 };
    uint32_t count = 0;
    struct strbuf text = { 0 };
    struct json_writer w = { .out = &text, .compact = true };
    for (uint32_t i = 0; i < work->result.link_count; i++) {
        const char *kind = link_kind_word(&work->scenario.cluster, work->result.links[i].resource);
        uint32_t k = 0;
        while (k < count && strcmp(kinds[k], kind) != 0) {
            k++;
        }
        if (k == count && count < KINDS_MAX) {
            kinds[count++] = kind;
        }
        if (k < KINDS_MAX) {
            bytes[k] += work->result.links[i].bytes;
        }
    }
    jw_object(&w, NULL);
    for (uint32_t k = 0; k < count; k++) {
        jw_real(&w, kinds[k], bytes[k]);
    }
    jw_end(&w);
    if (!text.failed && text.length < sizeof row->traffic) {
        memcpy(row->traffic, text.text, text.length + 1);
    }
    strbuf_free(&text);
}

/* Of one step, rented. */
static void take_cost(struct sweep_row *row, const struct work *work)
{
    const struct money_job job = {
        .gpus = work->scenario.cluster.gpus,
        .servers = work->scenario.cluster.nodes,
        .step_s = work->result.step_time_s,
        .tokens_per_step = work->schedule.tokens,
        .goodput = 1,
        .tokens = work->schedule.tokens,
    };
    const struct money_terms terms = money_terms_default();
    struct money_prices prices;
    struct money money;
    money_prices_of(&prices, &work->scenario.machine);
    if (job.step_s > 0 && job.tokens > 0 && money_compute(&money, &job, &prices, &terms, NULL) == STATUS_OK &&
        money.rented.missing == 0) {
        set(row, FIGURE_cost_usd, money.rented.usd);
        set(row, FIGURE_cost_usd_per_trillion_tokens, money.rented.usd_per_trillion_tokens);
    }
}

static void take_figures(struct sweep_row *row, const struct work *work)
{
    const struct result *result = &work->result;
    set(row, FIGURE_gpus, work->scenario.cluster.gpus);
    set(row, FIGURE_nodes, work->scenario.cluster.nodes);
    set(row, FIGURE_global_batch, (double)work->scenario.plan.global_batch);
    set(row, FIGURE_ops, work->schedule.op_count);
    snprintf(row->schedule_hash, sizeof row->schedule_hash, "%s",
             hash_text(&result->schedule_hash, (char[HASH_TEXT_BYTES]){ 0 }));
    if (!result->complete) {
        return; /* a deadlock, or not even memory to spare helps */
    }
    set(row, FIGURE_step_time_s, result->step_time_s);
    set(row, FIGURE_samples_per_s, result->samples_per_s);
    set(row, FIGURE_tokens_per_s, result->tokens_per_s);
    set(row, FIGURE_tokens_per_s_per_gpu, result->tokens_per_s_per_gpu);
    set(row, FIGURE_model_tflops_per_gpu, result->model_tflops_per_gpu);
    set(row, FIGURE_hardware_tflops_per_gpu, result->hardware_tflops_per_gpu);
    set(row, FIGURE_mfu, result->mfu);
    set(row, FIGURE_hfu, result->hfu);
    set(row, FIGURE_samples_per_s_per_gib,
        memory_efficiency_of(&work->schedule, &work->timeline, result->samples_per_s).of_max);
    take_spaces(row, work);
    take_times(row, result);
    take_traffic(row, work);
    take_cost(row, work);
}

static enum status compute(struct sweep_row *row, struct work *work, const char *text, const char *name,
                           struct error *error)
{
    TRY(scenario_parse(&work->scenario, text, name, NULL, 0, error));
    TRY(lower(work, error));
    TRY(simulate(work, error));
    const struct result_input input = {
        .name = work->scenario.name,
        .schedule = &work->schedule,
        .timeline = &work->timeline,
        .cluster = &work->scenario.cluster,
        .software = &work->scenario.software,
        .costs = &work->costs,
        .precision = work->scenario.plan.precision,
        .does_not_fit = work->does_not_fit.length > 0 ? work->does_not_fit.text : NULL,
    };
    TRY(result_compute(&work->result, &input, error));
    take_figures(row, work);
    if (work->timeline.outcome == TIMELINE_DEADLOCK) {
        return error_set(error, STATUS_DEADLOCK, "%s",
                         work->result.outcome.text != NULL ? work->result.outcome.text : "deadlock");
    }
    row->status = work->result.fits ? SWEEP_DONE : SWEEP_DOES_NOT_FIT;
    if (!work->result.fits) {
        snprintf(row->reason, sizeof row->reason, "%s",
                 work->result.outcome.text != NULL ? work->result.outcome.text : "does not fit");
    }
    return STATUS_OK;
}

/* Cut texts may end within a character: drop the broken one. */
static void trim(char *text)
{
    size_t length = strlen(text);
    while (length > 0 && text[length - 1] == '\n') {
        text[--length] = '\0';
    }
    size_t at = length;
    while (at > 0 && ((unsigned char)text[at - 1] & 0xC0) == 0x80) {
        at--;
    }
    if (at > 0 && (unsigned char)text[at - 1] >= 0xC0) {
        unsigned char lead = (unsigned char)text[at - 1];
        size_t wanted = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
        if (length - (at - 1) < wanted) {
            text[at - 1] = '\0';
        }
    }
}

void sweep_row_compute(struct sweep_row *row, const char *text, const char *name)
{
    struct work work;
    struct error error = { 0 };
    char what[ERROR_MESSAGE_BYTES + ERROR_FILE_BYTES + ERROR_PATH_BYTES];
    memset(&work, 0, sizeof work);
    memset(row, 0, sizeof *row);
    enum status status = compute(row, &work, text, name, &error);
    if (status != STATUS_OK) {
        error.file[0] = '\0'; /* the same scenario of another sweep is the same row */
        error.line = 0;
        row->status = status == STATUS_DOES_NOT_FIT ? SWEEP_DOES_NOT_FIT : SWEEP_ERROR;
        row->error = status;
        snprintf(row->reason, sizeof row->reason, "%s", error_text(&error, what, sizeof what));
    }
    trim(row->reason);
    trim(row->bound);
    work_free(&work);
}
