/* What the host executor itself costs and reaches: microseconds of one empty op from end to end (limit 2), on one queue and handed from queue to queue; products in GFLOP/s, each with
 * cold operands; copies in GB/s by one and two threads. Opens the shared object that lies beside the build's binaries, as `memwall --executor host` does. */
#include <dlfcn.h>
#include <unistd.h>

#include "sim/exec.h"
#include "sim/ir/builder.h"
#include "tests/bench/bench.h"

static const double EMPTY_US_MAX = 2; /* issue 3 */

static struct error error;

static const struct executor *open_executor(void)
{
    char binary[4096], path[4200];
    ssize_t length = readlink("/proc/self/exe", binary, sizeof binary - 1);
    binary[length > 0 ? length : 0] = '\0';
    char *name = strrchr(binary, '/');
    (void)snprintf(path, sizeof path, "%.*s/../memwall_exec_host.so", name == NULL ? 0 : (int)(name - binary), binary);
    void *object = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (object == NULL) {
        printf("%s\nbuild target memwall_exec_host first\n", dlerror());
        exit(77);
    }
    executor_entry *entry;
    *(void **)&entry = dlsym(object, EXECUTOR_ENTRY);
    return entry();
}

/* Step time in seconds: the median of five. */
static double step_s(const struct executor *executor, struct builder *b)
{
    struct schedule schedule;
    struct timeline timeline = { 0 };
    const struct exec_options options = { .warmup_steps = 1, .steps = 5 };
    enum status status = builder_finish(b, &schedule, &error);
    status = status == STATUS_OK ? executor->run(&schedule, &options, &timeline, &error) : status;
    if (status != STATUS_OK) {
        printf("%s\n", error.message);
        exit(1);
    }
    double seconds = (double)timeline.end_ps * 1e-12;
    timeline_free(&timeline);
    schedule_free(&schedule);
    return seconds;
}

static double empty_us(const struct executor *executor, uint32_t queues, bool handed_on)
{
    enum { OPS = 20000 };
    struct builder *b = builder_new();
    const uint32_t device = 0;
    uint32_t queue[8], last = SCHED_NONE;
    builder_rank(b, &device, 1, 0, "rank");
    for (uint32_t q = 0; q < queues; q++) {
        queue[q] = builder_queue(b, QUEUE_COMPUTE, "compute");
    }
    for (uint32_t i = 0; i < OPS; i++) {
        uint32_t op = builder_op(b, OP_DELAY, queue[i % queues], builder_work_fixed(b, 0), PHASE_OTHER);
        builder_depends(b, handed_on ? last : SCHED_NONE);
        last = op;
    }
    return step_s(executor, b) / OPS * 1e6;
}

static double gemm_gflops(const struct executor *executor, uint64_t size, uint32_t ranks)
{
    uint32_t repeats = size > 512 ? 6 : 40;
    struct builder *b = builder_new();
    const struct kernel kernel = {
        .kernel_class = KERNEL_GEMM, .launches = 1, .batch = 1, .m = size, .n = size, .k = size
    };
    for (uint32_t r = 0; r < ranks; r++) {
        builder_rank(b, &r, 1, r, "rank");
        uint32_t queue = builder_queue(b, QUEUE_COMPUTE, "compute");
        const struct work_item item = { builder_kernel(b, &kernel), ITEM_KERNEL, 0 };
        for (uint32_t i = 0; i < repeats; i++) {
            builder_op(b, OP_COMPUTE, queue, builder_work_kernels(b, &item, 1), PHASE_FORWARD);
        }
    }
    double n = (double)size;
    return ranks * repeats * 2 * n * n * n / step_s(executor, b) * 1e-9;
}

static double copy_gbs(const struct executor *executor, uint32_t ranks)
{
    enum { BYTES = 64 << 20, REPEATS = 8 };
    const uint8_t stays = BUFFER_LIVE_AT_START | BUFFER_LIVE_AT_END;
    struct builder *b = builder_new();
    uint32_t host = builder_space(b, SPACE_HOST, 0, UINT64_MAX, SCHED_NONE, "host");
    for (uint32_t r = 0; r < ranks; r++) {
        uint32_t space = builder_space(b, SPACE_DEVICE, r, UINT64_MAX, SCHED_NONE, "gpu");
        builder_rank(b, &r, 1, r, "rank");
        uint32_t queue = builder_queue(b, QUEUE_H2D, "h2d");
        uint32_t from = builder_buffer(b, host, BYTES, 1, BUFFER_OPTIMIZER, stays, builder_label(b, "from"));
        uint32_t to = builder_buffer(b, space, BYTES, 1, BUFFER_WEIGHT, stays, builder_label(b, "to"));
        for (uint32_t i = 0; i < REPEATS; i++) {
            builder_op(b, OP_COPY_H2D, queue, builder_work_transfer(b, BYTES, false), PHASE_OFFLOAD);
            builder_read(b, from);
            builder_write(b, to);
        }
    }
    return ranks * REPEATS * (double)BYTES / step_s(executor, b) * 1e-9;
}

int main(void)
{
    const struct executor *executor = open_executor();
    double alone = empty_us(executor, 1, false);
    printf("empty op, one queue              %8.2f us   (limit %g)\n", alone, EMPTY_US_MAX);
    printf("empty op, two queues             %8.2f us\n", empty_us(executor, 2, false));
    printf("empty op, handed from two to two %8.2f us\n", empty_us(executor, 2, true));
    for (uint64_t size = 256; size <= 1024; size *= 2) {
        printf("product of %4llu                  %8.1f GFLOP/s by one thread, %.1f by two\n", (unsigned long long)size,
               gemm_gflops(executor, size, 1), gemm_gflops(executor, size, 2));
    }
    printf("copies of 64 MiB                 %8.2f GB/s by one thread, %.2f by two\n", copy_gbs(executor, 1),
           copy_gbs(executor, 2));
    return alone <= EMPTY_US_MAX ? 0 : 1;
}
