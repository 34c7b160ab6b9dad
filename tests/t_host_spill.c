/* Host memory by socket: what spills, and what copies and Adam take across the link between the sockets. */
#include "sim/base/units.h"
#include "sim/engine/cost_table.h"
#include "sim/engine/host_spill.h"
#include "sim/report/host_memory.h"
#include "tests/zero_run.h"

#define PCIE_BYTES_PER_S      10e9
#define LINK_BYTES_PER_S      2e9
#define ADAM_PARAMETERS_PER_S 1e9 /* 10 cores of a socket, one GPU on it */
#define SOCKET_BYTES          (0.2 * 1024 * 1024 * 1024)
#define STATE_BYTES           14.0 /* of a parameter, in the paper's form */
/* Times are whole picoseconds; copies here take some microseconds at least. */
#define ROUNDING 1e-6

/* The toy machine with two sockets of a GPU each. */
static const char MACHINE[] =
    "{\"base\": \"toy-2gpu\", \"parts\": [{\"id\": \"cpu[0-1]\", \"kind\": \"cpu_socket\", \"cores\": 10},"
    " {\"id\": \"dram[0-1]\", \"kind\": \"host_dram\", \"capacity_GiB\": 0.2},"
    " {\"id\": \"gpu[0-1]\", \"kind\": \"gpu\"}, {\"id\": \"nic0\", \"kind\": \"nic\", \"Gbps\": 80}],"
    " \"links\": [{\"kind\": \"ddr\", \"a\": \"cpu0\", \"b\": \"dram0\", \"GBps\": 100},"
    " {\"kind\": \"ddr\", \"a\": \"cpu1\", \"b\": \"dram1\", \"GBps\": 100},"
    " {\"kind\": \"socket\", \"a\": \"cpu0\", \"b\": \"cpu1\", \"GBps\": 2},"
    " {\"kind\": \"pcie\", \"a\": \"cpu0\", \"b\": \"gpu0\", \"lanes\": 16, \"GBps\": 10},"
    " {\"kind\": \"pcie\", \"a\": \"cpu1\", \"b\": \"gpu1\", \"lanes\": 16, \"GBps\": 10},"
    " {\"kind\": \"pcie\", \"a\": \"cpu0\", \"b\": \"nic0\", \"lanes\": 16, \"GBps\": 10},"
    " {\"kind\": \"nvlink\", \"a\": \"gpu0\", \"b\": \"gpu1\", \"lanes\": 4, \"GBps\": 100}]}";

static bool run_on_gpus(struct report_run *run, int gpus)
{
    const struct zero_case c = { gpus, gpus > 1 ? 2 : 0, 1, "{\"name\": \"zero-offload\", \"preset\": \"paper\"}", "" };
    return zero_run_on(run, &c, MACHINE);
}

/* Every copy and every update of the schedule, alone. */
static void expect_times(const struct report_run *run, double s_per_copied_byte, double s_per_parameter)
{
    const struct schedule *s = &run->schedule;
    uint32_t copies = 0, updates = 0;
    for (uint32_t i = 0; i < s->op_count; i++) {
        const struct sched_work *work = &s->works[s->ops[i].work];
        double alone_s = s_from_ps(run->timeline.ops[i].alone_ps);
        if (s->ops[i].opcode == OP_COPY_H2D || s->ops[i].opcode == OP_COPY_D2H) {
            EXPECT_REAL(alone_s, work->bytes * s_per_copied_byte, ROUNDING);
            copies++;
        } else if (s->ops[i].opcode == OP_HOST_OPTIMIZER) {
            EXPECT_REAL(alone_s, work->parameters * s_per_parameter, ROUNDING);
            updates++;
        }
    }
    EXPECT(copies > 0 && updates > 0);
}

static void test_one_socket_spills(void)
{
    static struct report_run run;
    if (run_on_gpus(&run, 1)) {
        double wanted = STATE_BYTES * (double)model_parameters(&run.scenario.model);
        double share = (wanted - SOCKET_BYTES) / wanted;
        const struct host_socket *sockets = run.result.sockets;
        EXPECT_INT(run.result.socket_count, 2);
        EXPECT(share > 0.1 && share < 0.5);
        EXPECT_INT(sockets[0].users, 1);
        EXPECT_INT(sockets[1].users, 0);
        EXPECT_INT(sockets[0].other, 1);
        EXPECT_REAL(sockets[0].wanted_bytes, wanted, 0);
        EXPECT_REAL(sockets[0].spilled_share, share, 1e-7); /* the capacity is whole bytes */
        EXPECT_REAL(sockets[1].taken_bytes, host_socket_spilled_bytes(&sockets[0]), 1e-12);
        EXPECT_REAL(sockets[1].spilled_share, 0, 0);
        /* Parts of a copy go one after the other; of Adam's 28 bytes 16 come across the link, which is slower than its cores. */
        double by_link = share * 16 / LINK_BYTES_PER_S;
        EXPECT(by_link > 1 / ADAM_PARAMETERS_PER_S);
        expect_times(&run, (1 - share) / PCIE_BYTES_PER_S + share / LINK_BYTES_PER_S, by_link);
        struct strbuf text = { 0 };
        host_memory_text(&run.result, &run.input, &text);
        EXPECT(text.text != NULL && strstr(text.text, "lie on socket 1") != NULL);
        strbuf_free(&text);
    }
    report_run_free(&run);
}

/* As many bytes, but on both sockets. */
static void test_both_sockets_hold(void)
{
    static struct report_run run;
    if (run_on_gpus(&run, 2)) {
        double wanted = STATE_BYTES * (double)model_parameters(&run.scenario.model);
        EXPECT(wanted > SOCKET_BYTES);
        for (int i = 0; i < 2; i++) {
            EXPECT_INT(run.result.sockets[i].users, 1);
            EXPECT_REAL(run.result.sockets[i].wanted_bytes, wanted / 2, 1e-6);
            EXPECT_REAL(run.result.sockets[i].spilled_share, 0, 0);
        }
        expect_times(&run, 1 / PCIE_BYTES_PER_S, 1 / ADAM_PARAMETERS_PER_S);
        struct strbuf text = { 0 };
        host_memory_text(&run.result, &run.input, &text);
        EXPECT_INT(text.length, 0);
        strbuf_free(&text);
    }
    report_run_free(&run);
}

TEST_MAIN(TEST(test_one_socket_spills), TEST(test_both_sockets_hold))
