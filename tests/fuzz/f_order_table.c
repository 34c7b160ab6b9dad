/* Fuzz schedule files: valid ones with words swapped, dropped, doubled, and bytes changed. What parses can run to its end in the simulator, prints and reads back the same; what does not says where. */
#include "sim/exec.h"
#include "sim/plan/bare_pipeline.h"
#include "sim/plan/order_table.h"
#include "tests/fuzz/fuzz.h"

static const char *const seeds[] = {
    "F0 F1 F2 B0 F3 B1 B2 B3\nF0 F1 B0 F2 B1 F3 B2 B3 # middle\nF0 B0 F1 B1 F2 B2 F3 B3\n",
    "F0.0 F0.3 B0.3 W0.3 B0.0 W0.0\nF0.1 F0.2 B0.2 B0.1 W0.2 W0.1\n",
    "F0 F1 B0 W0 B1 W1\nF0 B0 F1 B1 W0 W1\n",
    "F0.0 F1.0 F0.2 F1.2 B0.2 B1.2 B0.0 B1.0\nF0.1 F1.1 F0.3 B0.3 F1.3 B1.3 B0.1 B1.1",
};

static void mutate(char *text, size_t *length, size_t max, uint64_t *state)
{
    static const char BYTES[] = "FBWfb0123456789. \n#,\r\tX-";
    size_t at = test_random(state) % (*length + 1);
    switch (test_random(state) % 5) {
    case 0: text[at] = BYTES[test_random(state) % (sizeof BYTES - 1)]; break;
    case 1: *length = at; break;
    case 2: /* swap two words of three bytes */
        if (*length > 8) {
            size_t a = test_random(state) % (*length - 4), b = test_random(state) % (*length - 4);
            for (int i = 0; i < 3; i++) {
                char c = text[a + (size_t)i];
                text[a + (size_t)i] = text[b + (size_t)i];
                text[b + (size_t)i] = c;
            }
        }
        break;
    case 3: /* leave bytes out */
        if (at + 3 < *length) {
            memmove(text + at, text + at + 3, *length - at - 3);
            *length -= 3;
        }
        break;
    default:
        if (*length + 3 < max && at + 3 <= *length) { /* double bytes */
            memmove(text + at + 3, text + at, *length - at);
            *length += 3;
        }
    }
}

static void run_it(const struct order_table *table)
{
    struct pipeline_order order = order_table_order(table, "fuzz");
    struct bare_pipeline_request request = { .order = &order,
                                             .order_request = { .stages = table->stages,
                                                                .micro_batches = table->micro_batches,
                                                                .virtual_stages = table->virtual_stages,
                                                                .table = table },
                                             .forward = 1,
                                             .backward = 2 };
    struct schedule schedule = { 0 };
    struct timeline timeline = { 0 };
    struct error error = { 0 };
    const struct exec_options options = { .audit = true };
    EXPECT_INT(bare_pipeline_schedule(&request, &schedule, &error), STATUS_OK);
    EXPECT_INT(exec_sim.run(&schedule, &options, &timeline, &error), STATUS_OK);
    EXPECT_INT(timeline.outcome, TIMELINE_DONE);
    timeline_free(&timeline);
    schedule_free(&schedule);
}

static void one_round(uint64_t seed)
{
    uint64_t state = seed * 2 + 1;
    char text[1024];
    const char *from = seeds[test_random(&state) % (sizeof seeds / sizeof seeds[0])];
    size_t length = strlen(from);
    memcpy(text, from, length + 1);
    for (uint64_t i = test_random(&state) % 4; i > 0; i--) {
        mutate(text, &length, sizeof text, &state);
    }
    struct order_table table, again;
    struct error error = { 0 };
    if (order_table_parse(&table, text, length, "fuzz", &error) != STATUS_OK) {
        EXPECT(error.message[0] != '\0');
        return;
    }
    struct strbuf first = { 0 }, second = { 0 };
    order_table_print(&table, &first);
    EXPECT_INT(order_table_parse(&again, first.text, first.length, "again", &error), STATUS_OK);
    order_table_print(&again, &second);
    EXPECT_TEXT(second.text, first.text);
    run_it(&table);
    strbuf_free(&first);
    strbuf_free(&second);
    order_table_free(&table);
    order_table_free(&again);
}

int main(int argc, char **argv)
{
    return fuzz_run(one_round, argc, argv);
}
