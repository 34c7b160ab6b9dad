/* The host executor as a whole: random schedules with every byte checked, storage, what is refused, what fails, and that nothing is left afterwards. */
#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sim/ir/verify.h"
#include "tests/peak_check.h"
#include "tests/schedule_gen.h"
#include "validate/exec_host/host_run.h"

const struct executor *memwall_executor(void);

static const struct host_tuning SMALL = { .operand_floats = 4096 };

static uint32_t entries(const char *folder)
{
    uint32_t count = 0;
    DIR *dir = opendir(folder);
    while (dir != NULL && readdir(dir) != NULL) {
        count++;
    }
    if (dir != NULL) {
        (void)closedir(dir);
    }
    return count;
}

static uint32_t lines(const char *path)
{
    uint32_t count = 0;
    FILE *file = fopen(path, "r");
    for (int c; file != NULL && (c = fgetc(file)) != EOF;) {
        count += c == '\n';
    }
    if (file != NULL) {
        (void)fclose(file);
    }
    return count;
}

struct things {
    uint32_t threads, files, maps;
};

static struct things things_now(void)
{
    struct things things = { entries("/proc/self/task"), entries("/proc/self/fd"), lines("/proc/self/maps") };
    return things;
}

/* A joined thread leaves the list a moment after pthread_join returns. */
static void expect_as_before(struct things before)
{
    struct things now = things_now();
    for (uint32_t i = 0; i < 200 && now.threads > before.threads; i++) {
        (void)usleep(5000);
        now = things_now();
    }
    EXPECT_INT(now.threads, before.threads);
    EXPECT_INT(now.files, before.files);
}

static enum status run(const struct schedule *schedule, const struct exec_options *options,
                       const struct host_tuning *tuning, struct timeline *timeline, struct error *error)
{
    struct things before = things_now();
    *error = (struct error){ 0 };
    enum status status = host_run_schedule(schedule, options, tuning, timeline, error);
    expect_as_before(before);
    return status;
}

static struct schedule random_schedule(uint64_t seed, uint32_t ranks, uint32_t events, bool tight)
{
    struct schedule schedule;
    const struct schedule_gen gen = { .ranks = ranks, .events = events, .devices_per_rank = 1, .tight = tight };
    schedule_gen(&gen, seed, &schedule);
    for (uint32_t i = 0; i < schedule.buffer_count; i++) {
        schedule.buffers[i].copies = 1;
    }
    for (uint32_t i = 0; i < schedule.kernel_count; i++) { /* quick ones */
        schedule.kernels[i].m /= 4;
        schedule.kernels[i].n = 48;
        schedule.kernels[i].k = 40;
        schedule.kernels[i].bytes_read /= 20;
    }
    return schedule;
}

static void expect_done(enum status status, const struct timeline *timeline, const struct error *error, uint64_t seed)
{
    if (status != STATUS_OK || timeline->outcome != TIMELINE_DONE) {
        TEST_FAIL_("schedule %" PRIu64 ": %s, outcome %d: %s", seed, status_word(status), (int)timeline->outcome,
                   error->message);
    }
}

static void test_random_checked(void)
{
    for (uint64_t seed = test_seed; seed < test_seed + 25; seed++) {
        struct schedule schedule = random_schedule(seed, 1 + (uint32_t)(seed % 5), 24, false);
        const struct exec_options options = { .check = true, .audit = true, .warmup_steps = 1, .steps = 2 };
        struct timeline timeline;
        struct error error;
        expect_done(run(&schedule, &options, &SMALL, &timeline, &error), &timeline, &error, seed);
        EXPECT_TEXT(timeline.executor, "host");
        timeline_free(&timeline);
        schedule_free(&schedule);
    }
}

#if defined(__SANITIZE_THREAD__)
static const bool RACES_ARE_ERRORS = true;
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
static const bool RACES_ARE_ERRORS = true;
#else
static const bool RACES_ARE_ERRORS = false;
#endif
#else
static const bool RACES_ARE_ERRORS = false;
#endif

/* Without checks nothing orders ops that the schedule does not order: the bytes of random schedules' buffers are anyone's. */
static void test_random_plain(void)
{
    for (uint64_t seed = test_seed; seed < test_seed + 20 && !RACES_ARE_ERRORS; seed++) {
        struct schedule schedule = random_schedule(seed, 1 + (uint32_t)(seed % 5), 24, false);
        struct software software = { .allocator = (enum software_allocator)(seed % 3) };
        const struct exec_options options = { .audit = true, .software = &software, .steps = 2 };
        struct timeline timeline;
        struct error error;
        expect_done(run(&schedule, &options, &SMALL, &timeline, &error), &timeline, &error, seed);
        if (timeline.outcome == TIMELINE_DONE) {
            expect_possible_peaks(&schedule, &timeline, false, "random schedule");
        }
        timeline_free(&timeline);
        schedule_free(&schedule);
    }
}

/* Little memory: ops wait for it; some steps end with an outcome, none with an error. */
static void test_tight(void)
{
    uint32_t done = 0, blocked = 0;
    for (uint64_t seed = test_seed; seed < test_seed + 20; seed++) {
        struct schedule schedule = random_schedule(seed, 2, 20, true);
        const struct exec_options options = { .check = true };
        struct timeline timeline;
        struct error error;
        EXPECT_INT(run(&schedule, &options, &SMALL, &timeline, &error), STATUS_OK);
        done += timeline.outcome == TIMELINE_DONE;
        blocked += timeline.outcome != TIMELINE_DONE;
        EXPECT_TEXT(error.message, "");
        timeline_free(&timeline);
        schedule_free(&schedule);
    }
    EXPECT(done > 0 && blocked + done == 20);
}

/* ---- a schedule of all opcodes whose data can be followed ---- */

struct made {
    struct schedule schedule;
    uint32_t weights, received, gathered; /* buffers of rank 0, rank 1 */
};

enum { BYTES = 5000 };

static uint32_t transfer_op(struct builder *b, enum opcode opcode, uint32_t queue, double bytes, uint32_t from,
                            uint32_t to, uint32_t after)
{
    uint32_t op = builder_op(b, opcode, queue, builder_work_transfer(b, bytes, false), PHASE_OFFLOAD);
    builder_depends(b, after);
    if (from != SCHED_NONE) {
        builder_read(b, from);
    }
    if (to != SCHED_NONE) {
        builder_write(b, to);
    }
    return op;
}

/* Two ranks. Each: computes, all-reduces a buffer in place, gathers into another, takes it to the host and to storage and back; rank 0 sends to rank 1; Adam on the host. */
static struct made all_opcodes(uint64_t bytes)
{
    struct made made = { .weights = SCHED_NONE };
    struct builder *b = builder_new();
    const uint32_t both[] = { 0, 1 };
    const uint8_t stays = BUFFER_LIVE_AT_START | BUFFER_LIVE_AT_END;
    uint32_t pinned = builder_space(b, SPACE_PINNED, 0, UINT64_MAX, SCHED_NONE, "pinned");
    uint32_t disk = builder_space(b, SPACE_STORAGE, 0, UINT64_MAX, SCHED_NONE, "drive");
    uint32_t group = builder_group(b, both, 2, 1, "pair"), matches[6];
    for (uint32_t i = 0; i < 6; i++) {
        matches[i] = builder_match(b, group, 2);
    }
    static const enum opcode kinds[] = { OP_ALL_REDUCE, OP_ALL_GATHER, OP_REDUCE_SCATTER, OP_BROADCAST, OP_ALL_TO_ALL };
    for (uint32_t r = 0; r < 2; r++) {
        uint32_t memory = builder_space(b, SPACE_DEVICE, r, 10000000, SCHED_NONE, r == 0 ? "gpu 0" : "gpu 1");
        builder_rank(b, &both[r], 1, r, r == 0 ? "stage 0" : "stage 1");
        uint32_t compute = builder_queue(b, QUEUE_COMPUTE, "compute"), comm = builder_queue(b, QUEUE_COMM, "comm");
        uint32_t p2p = builder_queue(b, QUEUE_P2P, "p2p"), h2d = builder_queue(b, QUEUE_H2D, "h2d");
        uint32_t d2h = builder_queue(b, QUEUE_D2H, "d2h"), host = builder_queue(b, QUEUE_HOST, "host");
        uint32_t drive = builder_queue(b, QUEUE_STORAGE, "storage");
        uint32_t weights = builder_buffer(b, memory, bytes, 1, BUFFER_WEIGHT, stays, builder_label(b, "weights"));
        uint32_t other = builder_buffer(b, memory, 2 * bytes, 1, BUFFER_GRADIENT, stays, builder_label(b, "other"));
        uint32_t on_host = builder_buffer(b, pinned, bytes - 7, 1, BUFFER_OPTIMIZER, stays, builder_label(b, "states"));
        uint32_t stored = builder_buffer(b, disk, bytes, 1, BUFFER_OPTIMIZER, stays, builder_label(b, "stored"));
        uint32_t fresh = builder_buffer(b, memory, bytes, 1, BUFFER_BOUNDARY, 0, builder_label(b, "boundary"));
        const struct kernel kernel = { .kernel_class = KERNEL_GEMM, .launches = 1, .batch = 1, .m = 8, .n = 8, .k = 8 };
        const struct work_item item = { builder_kernel(b, &kernel), ITEM_KERNEL, 0 };
        uint32_t last = builder_op(b, OP_COMPUTE, compute, builder_work_kernels(b, &item, 1), PHASE_FORWARD);
        builder_acquire(b, fresh);
        builder_write(b, weights);
        for (uint32_t i = 0; i < 5; i++) { /* on the same buffers or from one to the other */
            uint32_t op = builder_op(b, kinds[i], comm, builder_work_collective(b, group, (double)bytes, DTYPE_FP16),
                                     PHASE_DATA_COMM);
            builder_read(b, weights);
            builder_write(b, i == 0 || i == 2 ? weights : other);
            builder_set_match(b, matches[i]);
            builder_depends(b, last);
            last = op;
        }
        uint32_t sent = transfer_op(b, r == 0 ? OP_SEND : OP_RECV, p2p, (double)bytes + 13,
                                    r == 0 ? weights : SCHED_NONE, r == 0 ? SCHED_NONE : fresh, last);
        builder_set_match(b, matches[5]);
        last = transfer_op(b, OP_COPY_D2H, d2h, (double)bytes, weights, on_host, sent);
        last = transfer_op(b, OP_STORAGE_WRITE, drive, (double)bytes + 999, on_host, stored, last);
        last = transfer_op(b, OP_STORAGE_READ, drive, (double)bytes - 500, stored, on_host, last);
        uint32_t adam = builder_op(b, OP_HOST_OPTIMIZER, host, builder_work_host_optimizer(b, 300), PHASE_OPTIMIZER);
        builder_depends(b, last);
        builder_write(b, on_host);
        last = transfer_op(b, OP_COPY_H2D, h2d, (double)bytes * 2, on_host, other, adam);
        last = transfer_op(b, OP_COPY_P2P, p2p, (double)bytes, other, weights, last);
        builder_release(b, fresh);
        uint32_t wait = builder_op(b, OP_DELAY, compute, builder_work_fixed(b, 1000000), PHASE_OTHER);
        builder_depends(b, last);
        (void)wait;
        made.weights = r == 0 ? weights : made.weights;
        made.received = fresh;
    }
    struct error error = { 0 };
    EXPECT_INT(builder_finish(b, &made.schedule, &error), STATUS_OK);
    EXPECT_INT(sched_verify(&made.schedule, &error), STATUS_OK);
    EXPECT_TEXT(error.message, "");
    return made;
}

static void test_all_opcodes(void)
{
    static const uint64_t sizes[] = { 600, BYTES, 200000 };
    static const char *const folders[] = { NULL, "/dev/shm", "." };
    for (uint32_t i = 0; i < 3; i++) {
        for (uint32_t check = 0; check < 2; check++) {
            struct made made = all_opcodes(sizes[i]);
            const struct exec_options options = {
                .check = check == 1, .audit = true, .steps = 2, .scratch_folder = folders[i]
            };
            struct timeline timeline;
            struct error error;
            expect_done(run(&made.schedule, &options, &SMALL, &timeline, &error), &timeline, &error, i);
            timeline_free(&timeline);
            schedule_free(&made.schedule);
        }
    }
}

/* ---- faults ---- */

struct fault {
    uint32_t op;      /* fails, or corrupts before it begins */
    uint32_t corrupt; /* this buffer; SCHED_NONE: fails */
    rlim_t file_bytes;
    bool hit;
};

static enum status before(void *context, const struct wet_pools *pools, uint32_t op, struct error *error)
{
    struct fault *fault = context;
    if (op != fault->op) {
        return STATUS_OK;
    }
    fault->hit = true;
    if (fault->file_bytes > 0) {
        const struct rlimit limit = { fault->file_bytes, RLIM_INFINITY };
        return setrlimit(RLIMIT_FSIZE, &limit) == 0 ? STATUS_OK : STATUS_IO;
    }
    if (fault->corrupt == SCHED_NONE) {
        return error_set(error, STATUS_IO, "injected fault");
    }
    uint8_t *data = wet_pools_address(pools, fault->corrupt);
    data[1234] ^= 4;
    return STATUS_OK;
}

/* Every op fails once, in both modes: the error names it, its partners and all waiting threads come home. */
static void test_each_op_fails(void)
{
    struct made made = all_opcodes(BYTES);
    for (uint32_t op = 0; op < made.schedule.op_count; op++) {
        struct fault fault = { .op = op, .corrupt = SCHED_NONE };
        const struct host_tuning tuning = { .operand_floats = 4096, .before = before, .before_context = &fault };
        const struct exec_options options = { .check = op % 2 == 0 };
        struct timeline timeline;
        struct error error;
        char name[256];
        EXPECT_INT(run(&made.schedule, &options, &tuning, &timeline, &error), STATUS_EXECUTION);
        EXPECT(fault.hit);
        EXPECT_PART(error.message, "injected fault");
        EXPECT_PART(error.message, sched_op_text(&made.schedule, op, name, sizeof name));
        timeline_free(&timeline);
    }
    schedule_free(&made.schedule);
}

/* A flipped bit is found by the op that uses the buffer next. */
static void test_corruption(void)
{
    struct made made = all_opcodes(BYTES);
    uint32_t readers = 0;
    for (uint32_t op = 0; op < made.schedule.op_count; op++) {
        const struct sched_op *o = &made.schedule.ops[op];
        for (uint32_t i = 0; i < o->read_count; i++) {
            uint32_t buffer = sched_reads(&made.schedule, o)[i];
            if (made.schedule.spaces[made.schedule.buffers[buffer].space].kind == SPACE_STORAGE) {
                continue;
            }
            struct fault fault = { .op = op, .corrupt = buffer };
            const struct host_tuning tuning = { .operand_floats = 4096, .before = before, .before_context = &fault };
            const struct exec_options options = { .check = true };
            struct timeline timeline;
            struct error error;
            EXPECT_INT(run(&made.schedule, &options, &tuning, &timeline, &error), STATUS_EXECUTION);
            EXPECT_PART(error.message, "byte 1234");
            EXPECT_PART(error.message, sched_label(&made.schedule, made.schedule.buffers[buffer].label));
            timeline_free(&timeline);
            readers++;
        }
    }
    EXPECT(readers >= 16);
    schedule_free(&made.schedule);
}

/* Takes a buffer's life before op 1, as a fault of the dispatcher would. One queue: nobody else is at the pools. */
static enum status end_life(void *context, const struct wet_pools *pools, uint32_t op, struct error *error)
{
    (void)error;
    if (op == 1) {
        wet_pools_release((struct wet_pools *)(uintptr_t)pools, context, 1);
    }
    return STATUS_OK;
}

/* A use of a buffer outside of its life is found by --check, by name. */
static void test_outside_of_its_life(void)
{
    struct builder *b = builder_new();
    const uint32_t device = 0;
    struct schedule schedule;
    struct error error = { 0 };
    struct timeline timeline;
    uint32_t memory = builder_space(b, SPACE_DEVICE, 0, 10000000, SCHED_NONE, "gpu 0");
    builder_rank(b, &device, 1, 0, "rank");
    uint32_t queue = builder_queue(b, QUEUE_COMPUTE, "compute");
    uint32_t fresh = builder_buffer(b, memory, BYTES, 1, BUFFER_BOUNDARY, 0, builder_label(b, "boundary"));
    builder_op(b, OP_DELAY, queue, builder_work_fixed(b, 1000000), PHASE_FORWARD);
    builder_acquire(b, fresh);
    builder_write(b, fresh);
    builder_op(b, OP_DELAY, queue, builder_work_fixed(b, 1000000), PHASE_BACKWARD);
    builder_read(b, fresh);
    builder_release(b, fresh);
    EXPECT_INT(builder_finish(b, &schedule, &error), STATUS_OK);
    const struct exec_options options = { .check = true };
    EXPECT_INT(run(&schedule, &options, &SMALL, &timeline, &error), STATUS_OK);
    timeline_free(&timeline);
    const struct host_tuning tuning = { .operand_floats = 4096, .before = end_life, .before_context = &fresh };
    EXPECT_INT(run(&schedule, &options, &tuning, &timeline, &error), STATUS_EXECUTION);
    EXPECT_PART(error.message, "\"boundary\" in gpu 0 is used, but not live");
    EXPECT_PART(error.message, "rank 0");
    timeline_free(&timeline);
    schedule_free(&schedule);
}

/* ---- disks ---- */

static void test_file_limit(void)
{
    struct rlimit before_limit;
    struct timeline timeline;
    struct error error;
    struct made made = all_opcodes(400000);
    EXPECT_INT(getrlimit(RLIMIT_FSIZE, &before_limit), 0);
    (void)signal(SIGXFSZ, SIG_IGN);
    for (uint32_t op = 0; op < made.schedule.op_count; op++) { /* while it runs: the op is named */
        if (made.schedule.ops[op].opcode == OP_STORAGE_WRITE) {
            struct fault fault = { .op = op, .corrupt = SCHED_NONE, .file_bytes = 4096 };
            const struct host_tuning tuning = { .operand_floats = 4096, .before = before, .before_context = &fault };
            EXPECT_INT(run(&made.schedule, &(struct exec_options){ 0 }, &tuning, &timeline, &error), STATUS_EXECUTION);
            EXPECT_INT(setrlimit(RLIMIT_FSIZE, &before_limit), 0);
            EXPECT_PART(error.message, "/tmp");
            EXPECT_PART(error.message, "bytes of storage");
            EXPECT_PART(error.message, "storage_write offload"); /* this one, or the other rank's */
            timeline_free(&timeline);
        }
    }
    const struct rlimit little = { 4096, before_limit.rlim_max }; /* before it starts */
    EXPECT_INT(setrlimit(RLIMIT_FSIZE, &little), 0);
    EXPECT_INT(run(&made.schedule, &(struct exec_options){ 0 }, &SMALL, &timeline, &error), STATUS_EXECUTION);
    EXPECT_INT(setrlimit(RLIMIT_FSIZE, &before_limit), 0);
    EXPECT_PART(error.message, "no room for 800000 bytes of storage in /tmp");
    timeline_free(&timeline);
    schedule_free(&made.schedule);
}

static void test_full_disk(void)
{
    char folder[] = "/tmp/memwall-full-XXXXXX";
    EXPECT(mkdtemp(folder) != NULL);
    if (mount("none", folder, "tmpfs", 0, "size=256k") != 0) {
        printf("     (no small disk: mount needs rights)\n");
        EXPECT_INT(rmdir(folder), 0);
        return;
    }
    struct made made = all_opcodes(400000);
    struct timeline timeline;
    struct error error;
    const struct exec_options options = { .scratch_folder = folder };
    EXPECT_INT(run(&made.schedule, &options, &SMALL, &timeline, &error), STATUS_EXECUTION);
    EXPECT_PART(error.message, folder);
    EXPECT_PART(error.message, "No space left");
    EXPECT_INT(entries(folder), 2);
    timeline_free(&timeline);
    schedule_free(&made.schedule);
    EXPECT_INT(umount(folder), 0);
    EXPECT_INT(rmdir(folder), 0);
}

static void test_no_folder(void)
{
    struct made made = all_opcodes(BYTES);
    struct timeline timeline;
    struct error error;
    const struct exec_options options = { .scratch_folder = "/nonexistent/folder" };
    EXPECT_INT(run(&made.schedule, &options, &SMALL, &timeline, &error), STATUS_EXECUTION);
    EXPECT_PART(error.message, "/nonexistent/folder");
    timeline_free(&timeline);
    schedule_free(&made.schedule);
}

/* ---- what is refused ---- */

static void expect_refused(const struct schedule *schedule, const struct host_tuning *tuning, const char *why,
                           const char *advice)
{
    struct timeline timeline;
    struct error error;
    EXPECT_INT(run(schedule, &(struct exec_options){ 0 }, tuning, &timeline, &error), STATUS_UNSUPPORTED);
    EXPECT_PART(error.message, why);
    EXPECT_PART(error.message, advice);
    timeline_free(&timeline);
}

static void test_refused(void)
{
    struct schedule schedule;
    const struct schedule_gen folded = { .ranks = 2, .events = 5, .devices_per_rank = 3 };
    schedule_gen(&folded, test_seed, &schedule);
    expect_refused(&schedule, &SMALL, "stands for 3 devices", "--no-fold");
    schedule_free(&schedule);

    struct made made = all_opcodes(BYTES);
    made.schedule.buffers[0].copies = 4;
    expect_refused(&made.schedule, &SMALL, "4 copies", "--no-fold");
    made.schedule.buffers[0].copies = 1;
    struct host_tuning tuning = SMALL;
    tuning.free_bytes = 1 << 20;
    expect_refused(&made.schedule, &tuning, "this computer has 0.0 GiB free", "--executor sim");
    schedule_free(&made.schedule);

    struct builder *b = builder_new();
    struct error error = { 0 };
    for (uint32_t r = 0; r < 9; r++) {
        builder_rank(b, &r, 1, r, "rank");
        for (uint32_t q = 0; q < 120; q++) {
            (void)builder_queue(b, QUEUE_COMPUTE, "compute");
        }
        builder_op(b, OP_MARK, r * 120, SCHED_NONE, PHASE_OTHER);
    }
    EXPECT_INT(builder_finish(b, &schedule, &error), STATUS_OK);
    expect_refused(&schedule, &SMALL, "1080 queues", "--executor sim");
    schedule_free(&schedule);
}

/* A group of which only one member is a rank stands for phantoms. */
static void test_phantoms(void)
{
    struct builder *b = builder_new();
    const uint32_t members[] = { 0, 1 };
    struct schedule schedule;
    struct error error = { 0 };
    uint32_t group = builder_group(b, members, 2, 1, "data"), match = builder_match(b, group, 1);
    builder_rank(b, members, 1, 0, "rank");
    uint32_t queue = builder_queue(b, QUEUE_COMM, "comm");
    builder_op(b, OP_ALL_REDUCE, queue, builder_work_collective(b, group, 64, DTYPE_FP32), PHASE_DATA_COMM);
    builder_set_match(b, match);
    EXPECT_INT(builder_finish(b, &schedule, &error), STATUS_OK);
    expect_refused(&schedule, &SMALL, "group \"data\" has 2 members, of which 1 are ranks", "--no-fold");
    schedule_free(&schedule);
}

/* What lives at the start exceeds its space: an outcome. */
static void test_does_not_fit(void)
{
    struct made made = all_opcodes(BYTES);
    struct timeline timeline;
    struct error error;
    for (uint32_t i = 0; i < made.schedule.space_count; i++) {
        if (made.schedule.spaces[i].kind == SPACE_DEVICE) {
            made.schedule.spaces[i].capacity_bytes = 3000;
        }
    }
    EXPECT_INT(run(&made.schedule, &(struct exec_options){ 0 }, &SMALL, &timeline, &error), STATUS_OK);
    EXPECT_INT(timeline.outcome, TIMELINE_DOES_NOT_FIT);
    timeline_free(&timeline);
    schedule_free(&made.schedule);
}

/* ---- called off ---- */

static bool no_further(void *context, uint32_t done, uint32_t total)
{
    (void)context;
    return done == total;
}

static void test_called_off(void)
{
    struct builder *b = builder_new();
    const uint32_t device = 0;
    struct schedule schedule;
    struct error error = { 0 };
    struct timeline timeline;
    builder_rank(b, &device, 1, 0, "rank");
    uint32_t queue = builder_queue(b, QUEUE_COMPUTE, "compute"), host = builder_queue(b, QUEUE_HOST, "host");
    builder_op(b, OP_DELAY, queue, builder_work_fixed(b, INT64_C(100000000000000)), PHASE_OTHER); /* 100 s */
    builder_op(b, OP_HOST_OPTIMIZER, host, builder_work_host_optimizer(b, 1e13), PHASE_OPTIMIZER);
    EXPECT_INT(builder_finish(b, &schedule, &error), STATUS_OK);
    const struct exec_options options = { .progress = no_further };
    EXPECT_INT(run(&schedule, &options, &SMALL, &timeline, &error), STATUS_EXECUTION);
    EXPECT_PART(error.message, "cancelled");
    timeline_free(&timeline);
    const struct exec_options impatient = { .patience_s = 0.05 };
    EXPECT_INT(run(&schedule, &impatient, &SMALL, &timeline, &error), STATUS_EXECUTION);
    EXPECT_PART(error.message, "patience");
    timeline_free(&timeline);
    schedule_free(&schedule);
}

/* ---- the executor ---- */

static void test_vtable(void)
{
    const struct executor *executor = memwall_executor();
    struct made made = all_opcodes(BYTES);
    char why[256] = "";
    struct timeline timeline;
    struct error error = { 0 };
    EXPECT_INT(executor->abi, EXECUTOR_ABI);
    EXPECT_TEXT(executor->name, "host");
    EXPECT_INT(executor->capabilities, EXECUTOR_MEASURES);
    for (uint32_t op = 0; op < made.schedule.op_count; op++) {
        EXPECT(executor->supports(&made.schedule, op, why, sizeof why));
    }
    EXPECT(!executor->supports(&made.schedule, made.schedule.op_count, why, sizeof why));
    EXPECT_INT(executor->run(&made.schedule, &(struct exec_options){ 0 }, &timeline, &error), STATUS_OK);
    struct hash expected = schedule_hash(&made.schedule);
    EXPECT_INT(memcmp(&timeline.schedule_hash, &expected, sizeof expected), 0);
    EXPECT(timeline.end_ps > 1000000);
    timeline_free(&timeline);
    made.schedule.kernels[0].m = UINT64_C(1) << 40;
    EXPECT(!executor->supports(&made.schedule, 0, why, sizeof why));
    EXPECT_PART(why, "BLAS");
    made.schedule.ops[0].queue = 77; /* verified before all else */
    EXPECT_INT(executor->run(&made.schedule, &(struct exec_options){ 0 }, &timeline, &error), STATUS_BAD_SCHEDULE);
    timeline_free(&timeline);
    schedule_free(&made.schedule);
}

/* Mappings do not grow with runs, whatever their end (allocators of threads come and go at first). */
static void test_no_growth(void)
{
    struct made made = all_opcodes(BYTES);
    uint32_t before_maps = 0;
    for (uint32_t i = 0; i < 40; i++) {
        struct fault fault = { .op = i % made.schedule.op_count, .corrupt = SCHED_NONE };
        struct host_tuning tuning = { .operand_floats = 4096, .before_context = &fault };
        tuning.before = i % 2 == 0 ? before : NULL;
        const struct exec_options options = { .check = i % 3 == 0 };
        struct timeline timeline;
        struct error error;
        (void)run(&made.schedule, &options, &tuning, &timeline, &error);
        timeline_free(&timeline);
        before_maps = i == 19 ? things_now().maps : before_maps;
    }
    uint32_t now = things_now().maps;
    if (now > before_maps + 12) { /* 20 runs that each left one would show 20 */
        TEST_FAIL_("%u mappings after 20 runs, %u after 40", before_maps, now);
    }
    schedule_free(&made.schedule);
}

TEST_MAIN(TEST(test_random_checked), TEST(test_random_plain), TEST(test_tight), TEST(test_all_opcodes),
          TEST(test_each_op_fails), TEST(test_corruption), TEST(test_outside_of_its_life), TEST(test_file_limit),
          TEST(test_full_disk), TEST(test_no_folder), TEST(test_refused), TEST(test_phantoms), TEST(test_does_not_fit),
          TEST(test_called_off), TEST(test_vtable), TEST(test_no_growth))
