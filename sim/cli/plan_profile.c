#include "sim/cli/plan_profile.h"

#include <string.h>

#include "sim/base/check.h"
#include "sim/base/json_write.h"
#include "sim/cli/cli.h"
#include "strategies/planners/dapple_search.h"
#include "strategies/planners/pipedream_search.h"

struct asked {
    struct pipeline_profile profile;
    double workers, bandwidth, micro_batches, replicas; /* bandwidth in bytes/s */
};

/* What both programmes answer. */
struct answer {
    bool found;
    struct pipeline_split split;
    double step_s;          /* pipedream: of the slowest stage, a minibatch; dapple: of a step */
    double data_parallel_s; /* the same of one stage on all workers */
};

/* `fallback` below 0: the flag is needed. */
static enum status read_number(const char *flag, const char *text, double least, double most, bool whole,
                               double fallback, double *value, struct error *error)
{
    *value = fallback;
    if (text == NULL && fallback < 0) {
        return error_at(error, STATUS_BAD_INPUT, flag, NULL, "is missing: --profile needs it");
    }
    return cli_read_number(flag, text, least, most, whole, value, error);
}

static double parameter(const struct planner *planner, const struct parameter_values *values, const char *name)
{
    for (uint32_t i = 0; i < planner->parameter_count; i++) {
        if (strcmp(planner->parameters[i].name, name) == 0) {
            return values->value[i];
        }
    }
    return 0;
}

/* What this planner would not look at, or what it needs and has not. */
static enum status check_flags(const struct plan_profile_flags *flags, bool stashes, bool tests_memory,
                               double budget_bytes, struct error *error)
{
    if (stashes && flags->micro_batches != NULL) {
        return error_at(error, STATUS_BAD_INPUT, "--microbatches", NULL,
                        "planner pipedream has no step, minibatches follow each other: leave it out; --planner dapple "
                        "takes it");
    }
    if (tests_memory != (budget_bytes > 0)) {
        return error_at(error, STATUS_BAD_INPUT, "--budget-gib", NULL,
                        "with --profile only the memory test of planner pipedream looks at it: give both --budget-gib "
                        "and --variant memory_test=true, or neither");
    }
    return STATUS_OK;
}

static enum status search_pipedream(const struct asked *asked, const struct planner *planner,
                                    const struct parameter_values *values, double budget_bytes, struct answer *answer,
                                    struct arena *arena, struct error *error)
{
    const struct pipedream_request request = {
        .profile = &asked->profile,
        .workers = (uint32_t)asked->workers,
        .bandwidth_bytes_per_s = asked->bandwidth,
        .memory_bytes = parameter(planner, values, "memory_test") > 0.5 ? budget_bytes : 0,
        .compression = parameter(planner, values, "compression"),
        .replicas = (uint32_t)asked->replicas,
    };
    const struct pipeline_stage all = { 0, asked->profile.count, request.workers };
    struct pipedream_answer best;
    TRY(pipedream_search(&request, &best, arena, error));
    *answer = (struct answer){ best.found, best.split, best.bottleneck_s, pipedream_stage_s(&request, &all) };
    return STATUS_OK;
}

static enum status search_dapple(const struct asked *asked, struct answer *answer, struct arena *arena,
                                 struct error *error)
{
    const struct dapple_request request = {
        .profile = &asked->profile,
        .workers = (uint32_t)asked->workers,
        .micro_batches = (uint32_t)asked->micro_batches,
        .transfer_bytes_per_s = asked->bandwidth,
        .reduce_bytes_per_s = asked->bandwidth,
        .replicas = (uint32_t)asked->replicas,
    };
    struct pipeline_stage all = { 0, asked->profile.count, request.workers };
    const struct pipeline_split one = { &all, 1 };
    struct dapple_answer best;
    TRY(dapple_search(&request, &best, arena, error));
    *answer = (struct answer){ best.found, best.split, best.length_s, dapple_length(&request, &one).length_s };
    return STATUS_OK;
}

/* Minibatches in flight on each replica of a stage when the pipeline has no flush, the one at work included: its runtime's floor((N - 1 - workers before) / replicas) forwards of warm-up, and one. As many versions of
 * the weights (facts/mpress-hippie-pipelines.md C.4). */
static uint32_t in_flight(const struct answer *answer, uint32_t workers, uint32_t stage)
{
    uint32_t before = 0;
    for (uint32_t s = 0; s < stage; s++) {
        before += answer->split.stages[s].replicas;
    }
    return (workers - 1 - before) / answer->split.stages[stage].replicas + 1;
}

static void print_json(const struct asked *asked, const struct planner *planner, const struct answer *answer,
                       bool stashes, struct strbuf *out)
{
    struct json_writer w = { .out = out };
    jw_object(&w, NULL);
    jw_string(&w, "schema", "memwall.partition/1");
    jw_string(&w, "planner", planner->name);
    jw_string(&w, "profile", asked->profile.name);
    jw_uint(&w, "workers", (uint64_t)asked->workers);
    jw_real(&w, "bandwidth_bytes_per_s", asked->bandwidth);
    jw_bool(&w, "found", answer->found);
    jw_real(&w, stashes ? "data_parallel_minibatch_s" : "data_parallel_step_s", answer->data_parallel_s);
    if (answer->found) {
        jw_real(&w, stashes ? "minibatch_s" : "step_s", answer->step_s);
    }
    jw_array(&w, "stages");
    for (uint32_t i = 0; answer->found && i < answer->split.stage_count; i++) {
        const struct pipeline_stage *stage = &answer->split.stages[i];
        struct profile_sum sum = pipeline_profile_sum(&asked->profile, stage->first, stage->count);
        jw_object(&w, NULL);
        jw_uint(&w, "first_layer", stage->first);
        jw_uint(&w, "layers", stage->count);
        jw_uint(&w, "replicas", stage->replicas);
        jw_real(&w, "compute_s", sum.compute_s);
        jw_real(&w, "parameter_bytes", sum.parameter_bytes);
        if (stashes) {
            jw_uint(&w, "in_flight", in_flight(answer, (uint32_t)asked->workers, i));
            jw_uint(&w, "weight_versions", in_flight(answer, (uint32_t)asked->workers, i));
        }
        jw_end(&w);
    }
    jw_end(&w);
    jw_end(&w);
    strbuf_char(out, '\n');
}

static void print_text(const struct asked *asked, const struct planner *planner, const struct answer *answer,
                       bool stashes, struct strbuf *out)
{
    const char *what = stashes ? "a minibatch" : "a step";
    strbuf_printf(out, "%s: %u layers on %g workers at %g GB/s, planner %s\n\n",
                  asked->profile.name[0] != '\0' ? asked->profile.name : "profile", asked->profile.count,
                  asked->workers, asked->bandwidth / 1e9, planner->name);
    if (!answer->found) {
        strbuf_append(out, "  no partition passes the memory test\n");
        return;
    }
    strbuf_printf(out, "  %-22s %.3f ms %s\n", stashes ? "slowest stage" : "step", answer->step_s * 1e3, what);
    strbuf_printf(out, "  %-22s %.3f ms %s: %.2f times as long\n\n", "pure data parallel",
                  answer->data_parallel_s * 1e3, what, answer->data_parallel_s / answer->step_s);
    strbuf_printf(out, "  stage  layers      replicas  compute ms  parameters MB%s\n",
                  stashes ? "  in flight on a replica, weight versions" : "");
    for (uint32_t i = 0; i < answer->split.stage_count; i++) {
        const struct pipeline_stage *stage = &answer->split.stages[i];
        struct profile_sum sum = pipeline_profile_sum(&asked->profile, stage->first, stage->count);
        strbuf_printf(out, "  %5u  %4u .. %-4u  %7u  %10.3f  %13.3f", i, stage->first, stage->first + stage->count - 1,
                      stage->replicas, sum.compute_s * 1e3, sum.parameter_bytes / 1e6);
        if (stashes) {
            strbuf_printf(out, "  %u", in_flight(answer, (uint32_t)asked->workers, i));
        }
        strbuf_char(out, '\n');
    }
}

enum status plan_profile(const struct plan_profile_flags *flags, const struct planner *planner,
                         const struct parameter_values *parameters, double budget_bytes, bool json, struct strbuf *out,
                         bool *found, struct error *error)
{
    struct arena arena = { 0 };
    struct asked asked = { 0 };
    struct answer answer = { 0 };
    bool stashes = strcmp(planner->name, "pipedream") == 0;
    if (!stashes && strcmp(planner->name, "dapple") != 0) {
        return error_at(error, STATUS_BAD_INPUT, "--profile", NULL,
                        "planner %s plans scenarios; profiles are for the planners pipedream and dapple",
                        planner->name);
    }
    TRY(check_flags(flags, stashes, parameter(planner, parameters, "memory_test") > 0.5, budget_bytes, error));
    TRY(read_number("--workers", flags->workers, 1, PIPELINE_WORKERS_MAX, true, -1, &asked.workers, error));
    TRY(read_number("--bandwidth", flags->bandwidth, 1e-6, 1e6, false, -1, &asked.bandwidth, error));
    TRY(read_number("--microbatches", flags->micro_batches, 1, 1e6, true, stashes ? 1 : -1, &asked.micro_batches,
                    error));
    TRY(read_number("--replicas", flags->replicas, 1, PIPELINE_WORKERS_MAX, true, 0, &asked.replicas, error));
    asked.bandwidth *= 1e9;
    enum status status = pipeline_profile_load(&asked.profile, flags->profile, &arena, error);
    if (status == STATUS_OK) {
        status = stashes ? search_pipedream(&asked, planner, parameters, budget_bytes, &answer, &arena, error)
                         : search_dapple(&asked, &answer, &arena, error);
    }
    if (status == STATUS_OK) {
        *found = answer.found;
        (json ? print_json : print_text)(&asked, planner, &answer, stashes, out);
    }
    arena_free(&arena);
    return status;
}
