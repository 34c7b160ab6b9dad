/* Failing the n-th allocation, for every n until none fails, from a scenario's text to the JSON of its result: no crash, no leak, always STATUS_NO_MEMORY. The program
 * puts itself in front of malloc, so that no allocation of the library, of cJSON or of libc escapes. */
#include "tests/report_run.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define HAS_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define HAS_SANITIZER 1
#endif
#endif

#if defined(HAS_SANITIZER) || !defined(__GLIBC__)

int main(void)
{
    printf("skipped: somebody else is in front of malloc\n");
    return 77;
}

#else

static uint64_t calls, fail_at; /* fail_at 0: never */
static int64_t outstanding;

/* Reserved names, but glibc's documented way: these are what its malloc family is built on. */
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *memory, size_t size);
void __libc_free(void *memory);

static bool fails(void)
{
    return ++calls == fail_at;
}

static void *counted(void *memory)
{
    outstanding += memory != NULL;
    return memory;
}

void *malloc(size_t size)
{
    return fails() ? NULL : counted(__libc_malloc(size));
}

void *calloc(size_t count, size_t size)
{
    return fails() ? NULL : counted(__libc_calloc(count, size));
}

void *realloc(void *memory, size_t size)
{
    if (fails()) {
        return NULL;
    }
    void *moved = __libc_realloc(memory, size);
    return memory == NULL ? counted(moved) : moved;
}

void free(void *memory)
{
    outstanding -= memory != NULL;
    __libc_free(memory);
}

static enum status read_scenario(struct scenario *scenario, const char *text, struct error *error)
{
    struct json_document *document = NULL;
    struct json root;
    enum status status = json_parse(&document, text, strlen(text), "test", error);
    if (status == STATUS_OK) {
        json_root(document, &root);
        status = scenario_from_json(scenario, &root, error);
    }
    json_free(document);
    return status;
}

static enum status lower(struct report_run *run, struct error *error)
{
    const struct lower_request request = {
        .model = &run->scenario.model,
        .cluster = &run->scenario.cluster,
        .software = &run->scenario.software,
        .plan = &run->scenario.plan,
    };
    return lower_schedule(&request, &run->schedule, error);
}

static enum status report(struct report_run *run, struct strbuf *out, struct error *error)
{
    run->input = (struct result_input){ .name = "test",
                                        .schedule = &run->schedule,
                                        .timeline = &run->timeline,
                                        .cluster = &run->scenario.cluster,
                                        .software = &run->scenario.software,
                                        .precision = run->scenario.plan.precision };
    enum status status = result_compute(&run->result, &run->input, error);
    if (status == STATUS_OK) {
        result_print_json(&run->result, &run->input, out);
        result_print_summary(&run->result, &run->input, out);
        status = out->failed || run->result.outcome.failed ? STATUS_NO_MEMORY : STATUS_OK;
    }
    return status;
}

enum stage { READ, LOWER, EXECUTE, REPORT, STAGES };
static const char *const STAGE_NAMES[STAGES] = { "reading", "lowering", "executing", "reporting" };

/* One run; returns how far it came. */
static enum status attempt(const char *text, enum stage *stage, bool *fits)
{
    static struct report_run run;
    struct error error = { 0 };
    struct strbuf out = { 0 };
    run = (struct report_run){ 0 };
    *stage = READ;
    enum status status = read_scenario(&run.scenario, text, &error);
    if (status == STATUS_OK) {
        *stage = LOWER;
        status = lower(&run, &error);
    }
    if (status == STATUS_OK) {
        const struct exec_options options = {
            .cluster = &run.scenario.cluster, .software = &run.scenario.software, .record_rates = true, .audit = true
        };
        *stage = EXECUTE;
        status = exec_sim.run(&run.schedule, &options, &run.timeline, &error);
    }
    if (status == STATUS_OK) {
        *stage = REPORT;
        status = report(&run, &out, &error);
    }
    *fits = run.result.fits;
    strbuf_free(&out);
    report_run_free(&run);
    return status;
}

static void try_all(const char *text, bool expected_to_fit)
{
    bool fits;
    unsigned failed[STAGES] = { 0 };
    enum stage stage;
    EXPECT_INT(attempt(text, &stage, &fits), STATUS_OK); /* libc takes its own buffers once */
    EXPECT_INT(fits, expected_to_fit);
    for (uint64_t n = 1; test_failures == 0; n++) {
        int64_t before = outstanding;
        calls = 0;
        fail_at = n;
        enum status status = attempt(text, &stage, &fits);
        fail_at = 0;
        bool over = calls < n;
        int64_t leaked = outstanding - before;
        if (leaked != 0) {
            TEST_FAIL_("allocation %llu fails while %s: %lld blocks leak", (unsigned long long)n, STAGE_NAMES[stage],
                       (long long)leaked);
        }
        if (over) {
            EXPECT_INT(status, STATUS_OK);
            break;
        }
        if (status != STATUS_NO_MEMORY && status != STATUS_OK) {
            TEST_FAIL_("allocation %llu fails while %s: status \"%s\"", (unsigned long long)n, STAGE_NAMES[stage],
                       status_word(status));
        }
        failed[stage] += status == STATUS_NO_MEMORY;
    }
    for (int i = 0; i < STAGES; i++) {
        printf("%u allocations failed while %s\n", failed[i], STAGE_NAMES[i]);
        EXPECT(failed[i] > 0);
    }
}

static void test_fits(void)
{
    try_all("{\"schema\":\"memwall.scenario/1\",\"model\":{\"family\":\"gpt\",\"layers\":4,\"hidden\":256,\"heads\":4,"
            "\"ffn\":1024,\"vocab\":512,\"max_sequence\":128},\"machine\":\"dgx-a100-80gb\",\"gpus\":4,"
            "\"training\":{\"sequence_length\":128,\"micro_batch\":2,\"global_batch\":16},"
            "\"parallel\":{\"pipeline\":2,\"data\":2,\"zero_stage\":1}}",
            true);
}

static void test_does_not_fit(void)
{
    try_all("{\"schema\":\"memwall.scenario/1\",\"model\":\"gpt3-18.4b\",\"machine\":\"dgx-a100-80gb\",\"gpus\":2,"
            "\"training\":{\"micro_batch\":1,\"global_batch\":4},\"parallel\":{\"tensor\":2}}",
            false);
}

TEST_MAIN(TEST(test_fits), TEST(test_does_not_fit))

#endif
