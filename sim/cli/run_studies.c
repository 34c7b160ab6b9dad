#include "sim/cli/run_studies.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sim/base/check.h"
#include "sim/base/units.h"
#include "sim/report/memory_pressure.h"

void run_studies_flags(struct run_studies *studies, struct cli_flag flags[STUDY_FLAG_COUNT])
{
    const struct cli_flag all[STUDY_FLAG_COUNT - MONEY_FLAG_COUNT] = {
        { "sensitivity", NULL,
          "what binds: the step re-simulated with each resource doubled and 1 % up and down; memory",
          &studies->sensitivity },
        { "critical-path", NULL, "what the step's length is made of: one cause at every instant",
          &studies->critical_path },
        { "uncertainty", "N",
          "5 to 95 % interval of the step time from N draws of the machine's fitted constants (20 to 100000)",
          &studies->uncertainty },
        { "mtbf-hours", "H", "failures: mean hours between failures of one GPU with its share of the server",
          &studies->mtbf },
        { "checkpoint-GBps", "B",
          "with --mtbf-hours: storage bandwidth of the whole job, GB/s (default: the drives in use)",
          &studies->storage },
        { "checkpoint-GB", "S", "with --mtbf-hours: a checkpoint's size, GB (default: weights, master copy, moments)",
          &studies->checkpoint },
        { "restart-s", "T", "with --mtbf-hours: seconds to restart, without reading the checkpoint back (default 300)",
          &studies->restart },
    };
    memcpy(flags, all, sizeof all);
    run_money_flags(&studies->money, flags + sizeof all / sizeof all[0]);
}

bool run_studies_any(const struct run_studies *studies)
{
    return studies->sensitivity != NULL || studies->critical_path != NULL || studies->uncertainty != NULL ||
           studies->mtbf != NULL || run_money_any(&studies->money);
}

static enum status read_number(const char *flag, const char *text, double least, double most, double *value,
                               struct error *error)
{
    if (text == NULL) {
        return STATUS_OK;
    }
    char *end;
    double number = strtod(text, &end);
    if (end == text || *end != '\0' || !(number >= least && number <= most)) {
        return error_at(error, STATUS_BAD_INPUT, flag, NULL, "expected a number from %g to %g, found \"%.64s\"", least,
                        most, text);
    }
    *value = number;
    return STATUS_OK;
}

/* To notice, to find other servers and to start processes: our choice. */
static const double RESTART_S = 300;

enum status run_studies_read(struct run_studies *studies, const struct executor *executor, struct error *error)
{
    struct failures_input *f = &studies->failure_input;
    double draws = 0, hours = 0, rate = 0, size = 0, restart = RESTART_S;
    TRY(read_number("--uncertainty", studies->uncertainty, UNCERTAINTY_DRAWS_MIN, UNCERTAINTY_DRAWS_MAX, &draws,
                    error));
    TRY(read_number("--mtbf-hours", studies->mtbf, 1e-3, 1e12, &hours, error));
    TRY(read_number("--checkpoint-GBps", studies->storage, 1e-6, 1e9, &rate, error));
    TRY(read_number("--checkpoint-GB", studies->checkpoint, 1e-9, 1e9, &size, error));
    TRY(read_number("--restart-s", studies->restart, 0, 1e7, &restart, error));
    TRY(run_money_read(&studies->money, error));
    if (floor(draws) < draws) {
        return error_at(error, STATUS_BAD_INPUT, "--uncertainty", NULL,
                        "expected a whole number of draws, found \"%.64s\"", studies->uncertainty);
    }
    if (studies->mtbf == NULL &&
        (studies->storage != NULL || studies->checkpoint != NULL || studies->restart != NULL)) {
        return error_at(error, STATUS_BAD_INPUT,
                        studies->storage != NULL      ? "--checkpoint-GBps"
                        : studies->checkpoint != NULL ? "--checkpoint-GB"
                                                      : "--restart-s",
                        NULL, "is about failures: it needs --mtbf-hours H");
    }
    const char *simulating = studies->sensitivity != NULL     ? "--sensitivity"
                             : studies->critical_path != NULL ? "--critical-path"
                             : studies->uncertainty != NULL   ? "--uncertainty"
                             : run_money_any(&studies->money) ? "--tokens, --days"
                                                              : NULL;
    if (simulating != NULL && executor != &exec_sim) {
        return error_at(error, STATUS_BAD_INPUT, simulating, NULL,
                        "is about simulated steps; the executor %s measures one. Leave --executor out", executor->name);
    }
    studies->draws = (uint32_t)draws;
    f->device_mtbf_s = hours * 3600;
    f->storage_bytes_per_s = rate * 1e9;
    f->checkpoint_bytes = size * 1e9;
    f->restart_s = restart;
    return STATUS_OK;
}

static void show_progress(void *context, uint32_t done, uint32_t total)
{
    const char *what = context;
    if (isatty(STDERR_FILENO)) {
        fprintf(stderr, "\r%s: %u of %u steps simulated ", what, done, total);
        if (done == total) {
            fputs("\r\033[K", stderr);
        }
    } else if (total >= 10 && done % (total / 10) == 0) {
        fprintf(stderr, "%s: %u of %u steps simulated\n", what, done, total);
    }
}

/* What the model keeps from step to step, and the drives of the servers in use. */
static enum status compute_failures(struct run_studies *studies, const struct job *job, struct error *error)
{
    struct failures_input f = studies->failure_input;
    const struct scenario *scenario = &job->scenario;
    const struct software *software = &scenario->software;
    const struct cluster *cluster = &scenario->cluster;
    f.devices = job->schedule.gpu_count;
    f.step_s = job->result.step_time_s;
    f.storage_source = "--checkpoint-GBps";
    if (!(f.checkpoint_bytes > 0)) {
        f.checkpoint_bytes = (double)model_parameters(&scenario->model) *
                             (software->weight_bytes + software->master_bytes + software->moments_bytes);
    }
    if (!(f.storage_bytes_per_s > 0)) {
        double server = 0;
        for (uint32_t i = 0; i < scenario->machine.part_count; i++) {
            const struct machine_part *part = &scenario->machine.parts[i];
            server += part->kind == PART_NVME ? part->write_bytes_per_s : 0;
        }
        f.storage_bytes_per_s = server * ceil((double)cluster->gpus / cluster->gpus_per_node);
        f.storage_source = "drives of the servers in use";
        if (!(server > 0)) {
            return error_at(error, STATUS_BAD_INPUT, "--mtbf-hours", NULL,
                            "machine \"%s\" has no drives: say with --checkpoint-GBps how fast a checkpoint is written",
                            scenario->machine.name);
        }
    }
    return failures_compute(&studies->failing, &f, error);
}

enum status run_studies_compute(struct run_studies *studies, const struct job *job, bool quiet, struct error *error)
{
    void (*progress)(void *, uint32_t, uint32_t) = quiet ? NULL : show_progress;
    char sensitivity[] = "sensitivity", uncertainty[] = "uncertainty";
    if (run_studies_any(studies) && !job->result.complete) {
        fputs("memwall: the step does not end: no studies of it\n", stderr);
        return STATUS_OK;
    }
    if (studies->critical_path != NULL) {
        TRY(critical_path_find(&studies->path, &job->input, error));
        studies->has_critical_path = true;
    }
    if (studies->sensitivity != NULL) {
        TRY(sensitivity_compute(&studies->bound_by, &job->scenario, 0, progress, sensitivity, error));
        studies->has_sensitivity = true;
    }
    if (studies->uncertainty != NULL) {
        TRY(uncertainty_compute(&studies->sure, &job->scenario, studies->draws, 0, progress, uncertainty, error));
        studies->has_uncertainty = true;
    }
    if (studies->mtbf != NULL) {
        TRY(compute_failures(studies, job, error));
        studies->has_failures = true;
    }
    return run_money_compute(&studies->money, job, studies->has_failures ? &studies->failing : NULL,
                             studies->has_uncertainty ? &studies->sure : NULL, error);
}

void run_studies_add_json(const struct run_studies *studies, const struct job *job, struct strbuf *out)
{
    static const char end[] = "\n}\n";
    size_t length = strlen(end);
    struct strbuf list = { 0 };
    struct json_writer w = { .out = &list };
    if (out->failed || !(studies->has_sensitivity || studies->has_critical_path || studies->has_uncertainty ||
                         studies->has_failures || studies->money.has_money)) {
        return;
    }
    CHECK(out->length > length && strcmp(out->text + out->length - length, end) == 0);
    jw_object(&w, NULL);
    if (studies->has_sensitivity) {
        sensitivity_json(&studies->bound_by, &w);
        memory_pressure_json(&job->input, &w);
    }
    if (studies->has_critical_path) {
        critical_path_json(&studies->path, &job->input, &w);
    }
    if (studies->has_uncertainty) {
        uncertainty_json(&studies->sure, &w);
    }
    if (studies->has_failures) {
        failures_json(&studies->failing, &w);
    }
    if (studies->money.has_money) {
        run_money_json(&studies->money, &w);
    }
    jw_end(&w);
    if (list.failed) {
        out->failed = true;
    } else { /* its members, in place of the document's end */
        out->length -= length;
        strbuf_printf(out, ",%s\n", list.text + 1);
    }
    strbuf_free(&list);
}

void run_studies_add_text(const struct run_studies *studies, const struct job *job, struct strbuf *out)
{
    if (studies->has_sensitivity) {
        sensitivity_text(&studies->bound_by, out);
        memory_pressure_text(&job->input, out);
    }
    if (studies->has_critical_path) {
        critical_path_text(&studies->path, &job->input, out);
    }
    if (studies->has_uncertainty) {
        uncertainty_text(&studies->sure, out);
    }
    if (studies->has_failures) {
        failures_text(&studies->failing, out);
    }
    if (studies->money.has_money) {
        run_money_text(&studies->money, out);
    }
}

void run_studies_free(struct run_studies *studies)
{
    critical_path_free(&studies->path);
}
