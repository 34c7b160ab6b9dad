/* For the tests of what the offload policies move (t_policy_moves.c, t_policy_traffic.c): patrickstar, zero-offload, zero3-offload and zero-infinity under several settings: one to eight GPUs, folded and not, accumulation,
 * drives, activations on the host, pageable memory. */
#ifndef MEMWALL_TESTS_MOVES_RUN_H
#define MEMWALL_TESTS_MOVES_RUN_H

#include "tests/report_run.h"

/* One socket, so that no memory spills; small enough that PatrickStar's chunks must leave. */
#define MOVES_TOY "{\"base\": \"toy-2gpu\", \"gpu\": {\"memory_GiB\": 1}}"
#define MOVES_SMALL_HOST                                                                                               \
    "{\"base\": \"toy-2gpu\", \"gpu\": {\"memory_GiB\": 1}, \"parts\": ["                                              \
    "{\"id\": \"cpu0\", \"kind\": \"cpu_socket\", \"cores\": 10},"                                                     \
    "{\"id\": \"dram0\", \"kind\": \"host_dram\", \"capacity_GiB\": 1.3},"                                             \
    "{\"id\": \"gpu[0-1]\", \"kind\": \"gpu\"}, {\"id\": \"nic0\", \"kind\": \"nic\", \"Gbps\": 80},"                  \
    "{\"id\": \"nvme0\", \"kind\": \"nvme\", \"capacity_GB\": 1000, \"read_GBps\": 2.0, \"write_GBps\": 1.0}],"        \
    "\"links\": [{\"kind\": \"ddr\", \"a\": \"cpu0\", \"b\": \"dram0\", \"GBps\": 100},"                               \
    "{\"kind\": \"pcie\", \"a\": \"cpu0\", \"b\": \"gpu[0-1]\", \"lanes\": 16, \"GBps\": 10},"                         \
    "{\"kind\": \"pcie\", \"a\": \"cpu0\", \"b\": \"nic0\", \"lanes\": 16, \"GBps\": 10},"                             \
    "{\"kind\": \"pcie\", \"a\": \"cpu0\", \"b\": \"nvme0\", \"lanes\": 4, \"GBps\": 4}]}"
#define MOVES_SERVER "{\"base\": \"dgx-a100-40gb\", \"gpu\": {\"memory_GiB\": 3}}"

struct moves_case {
    const char *machine;
    int gpus, zero_stage, accumulation;
    const char *policy, *more;
};

static const struct moves_case MOVES_CASES[] = {
    { MOVES_TOY, 1, 0, 1, "\"patrickstar\", \"chunk_elements\": 5242880", "" },
    { MOVES_TOY, 2, 0, 2, "\"patrickstar\", \"chunk_elements\": 5242880", "" },
    { MOVES_TOY, 2, 0, 1, "\"patrickstar\", \"chunk_elements\": 5242880, \"memory_saving_communication\": false",
      ", \"fold\": false" },
    { MOVES_TOY, 2, 0, 1,
      "\"patrickstar\", \"chunk_elements\": 5242880, \"preset\": \"paper\", \"asynchronous_copies\": true", "" },
    { MOVES_TOY, 1, 0, 1, "\"patrickstar\", \"chunk_elements\": 5242880, \"activation_offload\": true", "" },
    { MOVES_SERVER, 4, 0, 1, "\"patrickstar\", \"chunk_elements\": 5242880, \"memory_saving_communication\": false",
      "" },
    { MOVES_SMALL_HOST, 1, 0, 1,
      "\"patrickstar\", \"chunk_elements\": 5242880, \"gpu_ratio\": 0.28, \"warmup_ratio\": 0.3, \"cpu_ratio\": 0.8,"
      " \"pinned_rounding\": false, \"nvme\": true",
      "" },
    { "\"toy-2gpu\"", 1, 2, 1, "\"zero-offload\"", "" },
    { "\"toy-2gpu\"", 2, 2, 3, "\"zero-offload\"", "" },
    { "\"toy-2gpu\"", 2, 2, 2, "\"zero-offload\", \"preset\": \"paper\", \"checkpoints_on_host\": true",
      ", \"fold\": false" },
    { "\"dgx-a100-40gb\"", 8, 2, 1, "\"zero-offload\"", "" },
    { "\"toy-2gpu\"", 1, 3, 1, "\"zero3-offload\"", "" },
    { "\"toy-2gpu\"", 2, 3, 2, "\"zero3-offload\", \"pinned_weights\": false, \"pinned_gradients\": false", "" },
    { "\"dgx-a100-40gb\"", 4, 3, 1, "\"zero3-offload\", \"checkpoints_on_host\": true", ", \"fold\": false" },
    { "\"toy-2gpu\"", 1, 3, 1, "\"zero-infinity\", \"buffer_elements\": 1000000", "" },
    { "\"toy-2gpu\"", 2, 3, 2, "\"zero-infinity\", \"pipeline_read\": true", "" },
    { "\"dgx-a100-40gb\"", 8, 3, 1, "\"zero-infinity\", \"optimizer_on\": \"host\"", "" },
};
enum { MOVES_CASE_COUNT = sizeof MOVES_CASES / sizeof MOVES_CASES[0] };

static inline bool moves_run(struct report_run *run, const struct moves_case *c)
{
    char text[4096];
    memset(run, 0, sizeof *run);
    snprintf(
        text, sizeof text,
        "{\"schema\": \"memwall.scenario/1\", \"machine\": %s, \"gpus\": %d, \"software\": \"ideal\","
        " \"model\": {\"family\": \"gpt\", \"layers\": 8, \"hidden\": 1024, \"heads\": 16, \"ffn\": 4096,"
        " \"vocab\": 5000, \"max_sequence\": 256},"
        " \"training\": {\"micro_batch\": 2, \"global_batch\": %d, \"precision\": \"fp16\"}, \"recompute\": \"full\","
        " \"parallel\": {\"data\": %d, \"zero_stage\": %d}, \"memory_policy\": {\"name\": %s}%s}",
        c->machine, c->gpus, 2 * c->gpus * c->accumulation, c->gpus, c->zero_stage, c->policy, c->more);
    if (!report_run(run, text)) {
        printf("  %s\n", text);
        return false;
    }
    EXPECT_INT(run->timeline.outcome, TIMELINE_DONE);
    return true;
}

static inline uint32_t moves_devices(const struct schedule *s, const struct sched_op *op)
{
    return s->ranks[sched_op_rank(s, op)].device_count;
}

static inline double moves_total(const struct schedule *s, enum opcode opcode)
{
    double bytes = 0;
    for (uint32_t i = 0; i < s->op_count; i++) {
        if (s->ops[i].opcode == opcode && sched_op_moves(s, &s->ops[i])) {
            bytes += s->works[s->ops[i].work].bytes * moves_devices(s, &s->ops[i]);
        }
    }
    return bytes;
}

/* What run --json prints, parsed: `root` lives as long as `document` and `text`. */
static inline bool moves_result(const struct report_run *run, struct strbuf *text, struct json_document **document,
                                struct json *root)
{
    struct error error = { 0 };
    result_print_json(&run->result, &run->input, text);
    bool parsed = json_parse(document, text->text, text->length, "result", &error) == STATUS_OK;
    EXPECT(parsed);
    json_root(*document, root);
    return parsed;
}

#endif
