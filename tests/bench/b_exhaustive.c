/* Planner exhaustive on Megatron 530B and 2,520 GPUs: the screen alone, then with the event simulation of the best 200. Targets: 5 s and 60 s on two cores, 8,000 splits or more. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "sim/base/units.h"
#include "strategies/planners/exhaustive_space.h"
#include "strategies/planners/planner.h"

static double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void fail(const struct error *error)
{
    printf("failed: %s\n", error->message);
    exit(1);
}

int main(void)
{
    struct scenario scenario;
    struct error error = { 0 };
    struct space space;
    struct planner_answer answer;
    if (scenario_parse(&scenario,
                       "{\"model\":\"megatron-530b\",\"machine\":\"dgx-a100-80gb\",\"nodes\":315,"
                       "\"training\":{\"global_batch\":2520}}",
                       "b_exhaustive", NULL, 0, &error) != STATUS_OK) {
        fail(&error);
    }
    const struct space_request space_request = { .scenario = &scenario, .zero_max = 3, .uneven = true, .threads = 2 };
    double start = now_s();
    if (space_build(&space_request, &space, NULL, NULL, &error) != STATUS_OK) {
        fail(&error);
    }
    double screen_s = now_s() - start;
    printf("screen: %zu splits in %.2f s, %.0f a second (target: 8000 or more in 5 s)\n", space.count, screen_s,
           (double)space.count / screen_s);
    space_free(&space);

    const struct planner *planner = planner_find("exhaustive", &error);
    const double budget = scenario.machine.gpu.usable_bytes;
    struct planner_request request = {
        .scenario = &scenario, .budgets_bytes = &budget, .budget_count = 1, .threads = 2, .top = 5
    };
    parameters_defaults(planner->parameters, planner->parameter_count, &request.parameters);
    for (uint32_t i = 0; i < planner->parameter_count; i++) {
        if (strcmp(planner->parameters[i].name, "simulate") == 0) {
            request.parameters.value[i] = 200;
        }
    }
    start = now_s();
    clock_t processor = clock();
    if (planner_search(planner, &request, &answer, &error) != STATUS_OK) {
        fail(&error);
    }
    printf("with simulation of the best 200 and the front: %llu simulated, %.2f s in all (target: 60 s), %.2f s of "
           "processor time on all threads\n",
           (unsigned long long)answer.simulated, now_s() - start, (double)(clock() - processor) / CLOCKS_PER_SEC);
    for (uint32_t i = 0; i < answer.results[0].reason_count; i++) {
        printf("  %s\n", answer.results[0].reasons[i]);
    }
    planner_answer_free(&answer);
    scenario_free(&scenario);
    return 0;
}
