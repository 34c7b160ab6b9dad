/* Time of a simulation with chunks: 68B on eight A100, ranks built apart, every op: from the scenario's text to the result.
 *
 *   scenario, walk, lowering, engine, figures     <= 0.5 s of processor time */
#include "tests/bench/bench.h"
#include "tests/report_run.h"

static const double LIMIT_S = 0.5;

static const char SCENARIO[] =
    "{\"schema\": \"memwall.scenario/1\", \"model\": \"gpt_ds_68b\", \"machine\": \"superpod-a100-40gb\", \"gpus\": 8,"
    " \"software\": \"deepspeed\", \"training\": {\"micro_batch\": 8}, \"recompute\": \"full\","
    " \"memory_policy\": \"patrickstar\", \"detail\": \"op\", \"fold\": false}";

int main(void)
{
    double seconds[BENCH_ROUNDS];
    uint32_t ops = 0;
    bench_header("b_patrickstar");
    for (unsigned i = 0; i < BENCH_ROUNDS; i++) {
        struct report_run run = { 0 };
        double start = bench_now_s();
        if (!report_run(&run, SCENARIO) || run.timeline.outcome != TIMELINE_DONE) {
            return 1;
        }
        seconds[i] = bench_now_s() - start;
        ops = run.schedule.op_count;
        report_run_free(&run);
    }
    double median = bench_median(seconds, BENCH_ROUNDS);
    printf("  68B on eight A100, %u ops, audit included   %.3f s (at most %g)%s\n", ops, median, LIMIT_S,
           median <= LIMIT_S ? "" : "  TOO MUCH");
    return median > LIMIT_S;
}
