/* How fast a simulation is, part by part: the main job (GPT-3 175B, TP 8, PP 8, interleaved), the same on 1,024 GPUs (data parallel 16, folded), and
 * 128 and 1,024 copy queues that share one link. Processor time, ops per second of each part and of all of them; limits: 2 M
 * ops/s for what exec_sim does, 1.2 for the folded job against the small one. Run from the root of the repository. */
#include <math.h>

#include "hw_models/machine.h"
#include "sim/core/psq.h"
#include "sim/engine/engine.h"
#include "sim/engine/reserved.h"
#include "sim/ir/audit.h"
#include "sim/ir/builder.h"
#include "sim/ir/verify.h"
#include "sim/plan/lower.h"
#include "sim/base/heap.h"
#include "sim/plan/scenario.h"
#include "tests/bench/bench.h"
#include "tests/cluster_machines.h"

enum { VERIFY, COST, ENGINE, RESERVED, HASH, SIMULATION, AUDIT, PARTS };
static const char *const PART_NAMES[PARTS] = { "verify", "cost table", "engine", "reserved",
                                               "hash",   "simulation", "audit" };

static struct error error;
static int failures;

static void check(enum status status)
{
    if (status != STATUS_OK) {
        char text[2048];
        printf("%s\n", error_text(&error, text, sizeof text));
        exit(1);
    }
}

/* One run; seconds of each part. */
static uint64_t run(const struct schedule *schedule, const struct cluster *cluster, const struct software *software,
                    double *seconds)
{
    struct cost_table table;
    struct timeline timeline = { 0 };
    double at[AUDIT + 2] = { bench_now_s() };
    check(sched_verify(schedule, &error));
    at[COST] = bench_now_s();
    check(cost_table_build(&table, schedule, cluster, software, &error));
    at[ENGINE] = bench_now_s();
    check(engine_run(schedule, &table, &(struct engine_options){ 0 }, &timeline, &error));
    at[RESERVED] = bench_now_s();
    check(reserved_fill(schedule, software, timeline.spaces, &error));
    at[HASH] = bench_now_s();
    timeline.schedule_hash = schedule_hash(schedule);
    at[SIMULATION] = at[AUDIT] = bench_now_s();
    const struct audit_resources resources = { table.capacities, table.asked, table.resource_count };
    check(timeline_audit(schedule, schedule_hash(schedule), &timeline, &resources, &error));
    at[AUDIT + 1] = bench_now_s();
    for (int part = 0; part < PARTS; part++) {
        seconds[part] = at[part + 1] - at[part];
    }
    seconds[SIMULATION] = at[SIMULATION] - at[VERIFY];
    uint64_t events = timeline.event_count;
    timeline_free(&timeline);
    cost_table_free(&table);
    return events;
}

struct job {
    const char *name;
    const struct schedule *schedule;
    const struct cluster *cluster;
    const struct software *software;
    double samples[PARTS][BENCH_ROUNDS];
    uint64_t events;
};

static void round_of(struct job *job, int round)
{
    double seconds[PARTS];
    job->events = run(job->schedule, job->cluster, job->software, seconds);
    for (int part = 0; part < PARTS; part++) {
        job->samples[part][round] = seconds[part];
    }
}

static void print_job(struct job *job)
{
    printf("%s: %u ops, %u dependencies, %llu events\n", job->name, job->schedule->op_count,
           job->schedule->dependency_count, (unsigned long long)job->events);
    for (int part = 0; part < PARTS; part++) {
        double s = bench_median(job->samples[part], BENCH_ROUNDS);
        printf("  %-10s %8.2f ms  %7.2f M ops/s\n", PART_NAMES[part], 1e3 * s,
               (double)job->schedule->op_count / s / 1e6);
    }
}

static void expect_rate(struct job *job)
{
    double rate = (double)job->schedule->op_count / bench_median(job->samples[SIMULATION], BENCH_ROUNDS);
    if (rate < 2e6) {
        printf("FAIL: %s: %.2f M ops/s, 2 are wanted\n", job->name, rate / 1e6);
        failures++;
    }
}

static void lower_job(struct scenario *scenario, const char *const *sets, uint32_t set_count, struct schedule *schedule)
{
    check(scenario_load(scenario, "scenarios/gpt3-175b-dgx-a100.json", sets, set_count, &error));
    const struct lower_request request = {
        .model = &scenario->model,
        .cluster = &scenario->cluster,
        .software = &scenario->software,
        .plan = &scenario->plan,
    };
    check(lower_schedule(&request, schedule, &error));
}

/* The main job as `memwall run` does it, the same on 1,024 GPUs, and op by op. */
enum { MAIN_JOB, FOLDED_JOB, OP_JOB, JOBS };

/* All jobs in turn, so that the machine's drift meets them alike; the ratio is the median of the rounds' ratios. */
static void bench_jobs(void)
{
    static const char *const folded_sets[] = { "nodes=128", "gpus=1024", "parallel.data=16",
                                               "training.global_batch=1024" };
    static const char *const op_sets[] = { "detail=op" };
    static const char *const names[] = { "GPT-3 175B on 64 GPUs", "GPT-3 175B on 1,024 GPUs",
                                         "GPT-3 175B on 64 GPUs, op by op" };
    static struct scenario scenarios[JOBS];
    static struct job jobs[JOBS];
    struct schedule schedules[JOBS];
    double ratios[BENCH_ROUNDS];
    for (int i = 0; i < JOBS; i++) {
        lower_job(&scenarios[i], i == FOLDED_JOB ? folded_sets : op_sets,
                  i == FOLDED_JOB ? 4
                  : i == OP_JOB   ? 1
                                  : 0,
                  &schedules[i]);
        jobs[i] = (struct job){ .name = names[i],
                                .schedule = &schedules[i],
                                .cluster = &scenarios[i].cluster,
                                .software = &scenarios[i].software };
    }
    for (int round = 0; round < BENCH_ROUNDS; round++) {
        for (int i = 0; i < JOBS; i++) {
            round_of(&jobs[i], round);
        }
        ratios[round] = jobs[FOLDED_JOB].samples[SIMULATION][round] / jobs[MAIN_JOB].samples[SIMULATION][round];
    }
    for (int i = 0; i < JOBS; i++) {
        print_job(&jobs[i]);
    }
    expect_rate(&jobs[OP_JOB]);
    double main_s = bench_median(jobs[MAIN_JOB].samples[SIMULATION], BENCH_ROUNDS);
    double ratio = bench_median(ratios, BENCH_ROUNDS);
    printf("the main job: %.1f ms (100 wanted); 1,024 against 64 GPUs: x%.3f (1.2 wanted)\n", 1e3 * main_s, ratio);
    if (ratio > 1.2 || main_s > 0.1) {
        printf("FAIL: above the limit\n");
        failures++;
    }
    for (int i = 0; i < JOBS; i++) {
        schedule_free(&schedules[i]);
        scenario_free(&scenarios[i]);
    }
}

/* Completions a second of processor sharing alone, each flow followed by another. */
static double psq_alone(uint32_t flows)
{
    enum { ENDS = 200000 };
    struct arena arena = { 0 };
    struct psq queue;
    uint32_t slot;
    check(psq_init(&queue, &arena, flows, 25.5e9, INFINITY, &error));
    double start_s = bench_now_s();
    for (uint32_t i = 0; i < flows; i++) {
        psq_add(&queue, 0, i, 1e6 + 1000.0 * (double)(i * 7919 % 1000), 1);
    }
    for (uint32_t i = 0; i < ENDS; i++) {
        int64_t now_ps = psq_next_ps(&queue);
        if (!psq_take(&queue, now_ps, &slot)) {
            printf("FAIL: nothing ends\n");
            failures++;
            break;
        }
        psq_add(&queue, now_ps, slot, 1e6 + 1000.0 * (double)(i * 7919 % 1000), 1);
    }
    double seconds = bench_now_s() - start_s;
    arena_free(&arena);
    return ENDS / seconds;
}

/* Many copies at once on one link: the root port that 16 GPUs share, or two of them (64 queues a rank are the most). The engine's worst case without virtual time, for
 * then every end re-rates all. */
static void bench_flows(uint32_t gpus, uint32_t copies, const char *name, double target)
{
    enum { QUEUES = 64 };
    static struct hand_machine made;
    static struct cluster cluster;
    static struct job job;
    struct schedule schedule;
    struct builder *b = builder_new();
    hand_host(&made, "root-port", 165e9, 70e9);
    uint32_t plx = hand_part(&made, PART_PCIE_SWITCH);
    hand_link(&made, LINK_PCIE, 0, plx, 25.5e9, 37e9, 16);
    for (uint32_t gpu = 0; gpu < 16; gpu++) {
        hand_link(&made, LINK_PCIE, plx, hand_part(&made, PART_GPU), 25.5e9, 37e9, 16);
    }
    check(cluster_build(&cluster, &made.machine, 1, 0, &error));
    for (uint32_t gpu = 0; gpu < gpus; gpu++) {
        builder_rank(b, &gpu, 1, SCHED_NONE, "rank");
        for (uint32_t q = 0; q < QUEUES; q++) {
            uint32_t queue = builder_queue(b, QUEUE_H2D, "copy");
            for (uint32_t k = 0; k < copies; k++) {
                double bytes = 1e6 + 1000.0 * (double)((q * 7919 + k * 104729) % 1000);
                builder_op(b, OP_COPY_H2D, queue, builder_work_transfer(b, bytes, false), PHASE_OFFLOAD);
            }
        }
    }
    check(builder_finish(b, &schedule, &error));
    job = (struct job){ .name = name, .schedule = &schedule, .cluster = &cluster };
    for (int round = 0; round < BENCH_ROUNDS; round++) {
        round_of(&job, round);
    }
    print_job(&job);
    double rate = (double)schedule.op_count / bench_median(job.samples[ENGINE], BENCH_ROUNDS);
    printf("  %.2f M completions/s through the engine (%.2f wanted), %.2f M of processor sharing alone\n", rate / 1e6,
           target / 1e6, psq_alone(gpus * QUEUES) / 1e6);
    if (rate < target) {
        printf("FAIL: %s\n", name);
        failures++;
    }
    schedule_free(&schedule);
    cluster_free(&cluster);
}

int main(void)
{
    heap_prepare(); /* as the command line does */
    bench_header("engine");
    bench_jobs();
    bench_flows(2, 32, "128 copy queues on one link", 1e6);
    bench_flows(16, 16, "1,024 copy queues on one link", 1e6);
    return failures == 0 ? 0 : 1;
}
