/* Shares of the cores: disjoint, equal, only where there are enough. */
#include "validate/exec_host/host_cores.h"

#include <pthread.h>
#include <sched.h>

#include "tests/test.h"

struct binding {
    uint32_t rank, ranks;
    cpu_set_t before, after;
};

static void *bind(void *context)
{
    struct binding *binding = context;
    (void)sched_getaffinity(0, sizeof binding->before, &binding->before);
    host_cores_bind(binding->rank, binding->ranks);
    (void)sched_getaffinity(0, sizeof binding->after, &binding->after);
    return NULL;
}

/* In a thread of its own: the test's keeps its cores. */
static struct binding bound(uint32_t rank, uint32_t ranks)
{
    struct binding binding = { .rank = rank, .ranks = ranks };
    pthread_t thread;
    EXPECT_INT(pthread_create(&thread, NULL, bind, &binding), 0);
    (void)pthread_join(thread, NULL);
    return binding;
}

static void test_shares(void)
{
    uint32_t cores = host_cores();
    cpu_set_t seen;
    printf("  %u cores\n", cores);
    EXPECT(cores >= 1);
    for (uint32_t ranks = 1; ranks <= cores && ranks <= 4; ranks++) {
        CPU_ZERO(&seen);
        for (uint32_t rank = 0; rank < ranks; rank++) {
            struct binding binding = bound(rank, ranks);
            cpu_set_t both;
            EXPECT_INT(CPU_COUNT(&binding.before), cores);
            EXPECT_INT(CPU_COUNT(&binding.after), cores / ranks);
            CPU_AND(&both, &binding.after, &seen);
            EXPECT_INT(CPU_COUNT(&both), 0); /* nobody else's */
            CPU_AND(&both, &binding.after, &binding.before);
            EXPECT(CPU_EQUAL(&both, &binding.after) != 0); /* none that was not allowed */
            CPU_OR(&seen, &seen, &binding.after);
        }
    }
}

static void test_too_few(void)
{
    struct binding binding = bound(0, host_cores() + 1);
    EXPECT(CPU_EQUAL(&binding.before, &binding.after) != 0);
}

TEST_MAIN(TEST(test_shares), TEST(test_too_few))
