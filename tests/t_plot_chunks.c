/* The chunk picture's data: every chunk of every list is somewhere all step long, a payload moves as the schedule says, and schedules without chunks have no such picture. */
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sim/report/files.h"
#include "tests/report_run.h"

enum { LISTS = 4, BLUE = 0x0072B2 };

static bool write_files(struct report_run *run, const char *policy, const char *folder)
{
    char text[512];
    struct error error = { 0 };
    snprintf(text, sizeof text,
             "{\"machine\": \"yard-v100\", \"gpus\": 1, \"software\": \"deepspeed\", \"model\": \"gpt3_12b\","
             " \"training\": {\"micro_batch\": 8}, \"recompute\": \"full\", \"memory_policy\": \"%s\"}",
             policy);
    if (!report_run(run, text)) {
        TEST_FAIL_("%s does not run", policy);
        return false;
    }
    const struct files_options options = { .folder = folder, .ranks = "0" };
    EXPECT_INT(files_write(&run->result, &run->input, &options, &error), STATUS_OK);
    return true;
}

static uint32_t copies_of_chunks(const struct schedule *s)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < s->op_count; i++) {
        const struct sched_op *op = &s->ops[i];
        count += op->acquire_count > 0 &&
                 strstr(sched_label(s, s->buffers[sched_acquires(s, op)[0]].label), " chunk ") != NULL;
    }
    return count;
}

static bool there(const char *folder, const char *name)
{
    char path[256];
    struct stat about;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return stat(path, &about) == 0;
}

struct interval {
    double from, to;
    uint32_t list, chunk;
};

static int by_chunk(const void *a, const void *b)
{
    const struct interval *x = a, *y = b;
    if (x->list != y->list || x->chunk != y->chunk) {
        return x->list != y->list ? (x->list < y->list ? -1 : 1) : (x->chunk < y->chunk ? -1 : 1);
    }
    return x->from < y->from ? -1 : x->from > y->from;
}

static void test_every_chunk_is_somewhere(void)
{
    static struct report_run run;
    static struct interval stays[8192];
    char folder[] = "/tmp/memwall-chunks-XXXXXX", path[128], line[256], command[128];
    uint32_t count = 0, list = 0, gaps = 0, device = 0, ends = 0, moves = 0;
    EXPECT(mkdtemp(folder) != NULL);
    if (!write_files(&run, "patrickstar", folder)) {
        return;
    }
    EXPECT(there(folder, "plots/chunks.gp"));
    snprintf(path, sizeof path, "%s/plots/chunks.dat", folder);
    FILE *in = fopen(path, "r");
    for (bool blank = false; in != NULL && fgets(line, sizeof line, in) != NULL && count < 8192;) {
        double x, y, from, to, low, high, colour;
        if (sscanf(line, "%lf %lf %lf %lf %lf %lf %lf", &x, &y, &from, &to, &low, &high, &colour) == 7) {
            stays[count++] = (struct interval){ from, to, list, (uint32_t)y };
            device += (uint32_t)colour == BLUE;
            blank = false;
        } else {
            list += blank; /* two empty lines end a list */
            blank = !blank;
        }
    }
    EXPECT(in != NULL && count > 0 && device > 0 && device < count);
    EXPECT_INT(list, LISTS);
    qsort(stays, count, sizeof stays[0], by_chunk);
    double end = (double)run.timeline.end_ps * 1e-12, rounding = 1e-5 * end;
    for (uint32_t i = 0; i < count; i++) { /* %.7g rounds; a chunk is in both places while it is copied */
        bool first = i == 0 || stays[i].list != stays[i - 1].list || stays[i].chunk != stays[i - 1].chunk;
        bool last = i + 1 == count || stays[i].list != stays[i + 1].list || stays[i].chunk != stays[i + 1].chunk;
        moves += !first;
        gaps += first ? stays[i].from > 0 : stays[i].from > stays[i - 1].to + rounding;
        ends += last && stays[i].to < end - rounding;
    }
    EXPECT_INT(gaps, 0);
    EXPECT_INT(ends, 0);
    EXPECT(moves > 0);
    EXPECT_INT(moves, copies_of_chunks(&run.schedule));
    if (in != NULL) {
        fclose(in);
    }
    report_run_free(&run);
    if (write_files(&run, "zero-offload", folder)) { /* the earlier picture goes */
        EXPECT(!there(folder, "plots/chunks.gp") && !there(folder, "chunks.svg"));
    }
    report_run_free(&run);
    snprintf(command, sizeof command, "rm -r '%s'", folder);
    EXPECT_INT(system(command), 0);
}

TEST_MAIN(TEST(test_every_chunk_is_somewhere))
