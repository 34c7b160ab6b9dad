/* Sweeps of GPT-3 175B-class scenarios: seconds for 10,000, full event simulation and database included, on one thread and on two. usage: b_sweep [points] */
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "sim/base/heap.h"
#include "sim/sweep/sweep_run.h"

/* 192 splits of two machines times sequence lengths: 9,984 points at 52 lengths. */
#define BENCH_TEXT                                                                                                     \
    "{\"schema\":\"memwall.sweep/"                                                                                     \
    "1\",\"name\":\"bench\",\"base\":{\"model\":\"gpt3-175b\",\"machine\":\"dgx-a100-80gb\",\"nodes\":16,"             \
    "\"gpus\":128,\"software\":\"megatron\",\"detail\":\"stage\",\"parallel\":{\"sequence_parallel\":true},"           \
    "\"training\":{\"global_batch\":64}},"                                                                             \
    "\"axes\":[{\"path\":\"training.sequence_length\",\"range\":{\"from\":%d,\"to\":2048,\"step\":32}},"               \
    "{\"path\":\"machine\",\"values\":[\"dgx-a100-80gb\",\"dgx-h100\"]},{\"path\":\"parallel.tensor\",\"values\":[4,"  \
    "8]},"                                                                                                             \
    "{\"path\":\"parallel.pipeline\",\"values\":[8,16]},{\"path\":\"parallel.data\",\"expression\":\"gpus / (tensor "  \
    "* pipeline)\"},"                                                                                                  \
    "{\"path\":\"training.micro_batch\",\"values\":[1,2]},{\"path\":\"recompute\",\"values\":[\"selective\",\"full\"]" \
    "},"                                                                                                               \
    "{\"path\":\"parallel.zero_stage\",\"values\":[0,1]},{\"zip\":[{\"name\":\"order\",\"path\":\"parallel.pipeline_"  \
    "order\","                                                                                                         \
    "\"values\":[\"1f1b\",\"interleaved\",\"interleaved\"]},{\"path\":\"parallel.virtual_stages\",\"values\":[1,2,3]}" \
    "]}],"                                                                                                             \
    "\"conditions\":[\"training.global_batch / (micro_batch * data) %% pipeline == 0\"]}"

static double now_s(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static double run(const char *text, uint32_t threads, struct sweep_progress *progress)
{
    struct sweep sweep;
    struct sweep_database *database;
    struct error error = { 0 };
    int64_t id;
    char file[64];
    snprintf(file, sizeof file, "/tmp/b_sweep_%d_%u.db", (int)getpid(), threads);
    const struct sweep_options options = { .threads = threads };
    double begin = now_s();
    if (sweep_parse(&sweep, text, "bench", &error) != STATUS_OK ||
        sweep_database_open(&database, file, "bench", &error) != STATUS_OK ||
        sweep_database_enter(database, &sweep, &id, &error) != STATUS_OK ||
        sweep_run(&sweep, database, id, &options, progress, &error) != STATUS_OK) {
        fprintf(stderr, "b_sweep: %s\n", error.message);
        exit(1);
    }
    sweep_database_close(database);
    sweep_free(&sweep);
    double seconds = now_s() - begin;
    (void)unlink(file);
    return seconds;
}

static double processor_s(struct rusage *usage)
{
    (void)getrusage(RUSAGE_SELF, usage);
    return (double)usage->ru_utime.tv_sec + (double)usage->ru_stime.tv_sec +
           1e-6 * (double)(usage->ru_utime.tv_usec + usage->ru_stime.tv_usec);
}

int main(int argc, char **argv)
{
    int points = argc > 1 ? atoi(argv[1]) : 10000, lengths = points / 192;
    char text[4096];
    struct sweep_progress p;
    struct rusage usage;
    heap_prepare();
    lengths = lengths < 1 ? 1 : lengths > 60 ? 60 : lengths;
    snprintf(text, sizeof text, BENCH_TEXT, 2048 - 32 * (lengths - 1));
    for (uint32_t threads = 1; threads <= 2; threads++) {
        double before_s = processor_s(&usage), seconds = run(text, threads, &p),
               used_s = processor_s(&usage) - before_s, count = (double)p.finished;
        printf(
            "%u threads: %.0f scenarios (%llu fit, %llu do not, %llu errors) in %.1f s: 10,000 in %.0f s; %.1f ms of "
            "processor each; at most %ld MiB\n",
            threads, count, (unsigned long long)p.counts[SWEEP_DONE], (unsigned long long)p.counts[SWEEP_DOES_NOT_FIT],
            (unsigned long long)p.counts[SWEEP_ERROR], seconds, seconds * 10000 / count, 1e3 * used_s / count,
            usage.ru_maxrss / 1024);
    }
    return 0;
}
