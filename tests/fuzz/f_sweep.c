/* Fuzz the sweep loader: valid sweeps with pieces exchanged and bytes changed. What loads must walk exactly as many points as
 * it counted, and the first of them must make a scenario text that can be hashed; what is refused says why. Nothing may crash (run under ASan and UBSan). */
#include "sim/base/json_write.h"
#include "sim/sweep/sweep.h"
#include "sim/sweep/sweep_scenario.h"
#include "tests/fuzz/fuzz.h"

static const char seed_text[] =
    "{\"schema\":\"memwall.sweep/"
    "1\",\"name\":\"t\",\"base\":{\"model\":\"gpt2\",\"machine\":\"toy-2gpu\",\"gpus\":2},\"axes\":["
    "{\"path\":\"parallel.tensor\",\"values\":[1,2,4]},{\"path\":\"parallel.pipeline\",\"range\":{\"from\":1,\"to\":4,"
    "\"step\":1}},"
    "{\"zip\":[{\"path\":\"recompute\",\"values\":[\"none\",\"full\"]},{\"path\":\"detail\",\"values\":[\"layer\","
    "\"stage\"]}]},"
    "{\"path\":\"training.micro_batch\",\"log_range\":{\"from\":1,\"to\":8,\"factor\":2}},"
    "{\"path\":\"parallel.data\",\"expression\":\"gpus / (tensor * pipeline)\"}],\"conditions\":[\"tensor * pipeline "
    "<= gpus\",\"data >= 1\"]}";

static const char *const pieces[] = { "\"values\"",
                                      "\"range\"",
                                      "\"expression\"",
                                      "\"log_range\"",
                                      "\"zip\"",
                                      "\"path\"",
                                      "\"name\"",
                                      "1e12",
                                      "-1",
                                      "0",
                                      "null",
                                      "[]",
                                      "{}",
                                      "[1,2]",
                                      "\"data + 1\"",
                                      "\"tensor\"",
                                      "\"parallel.x\"",
                                      "\"machine\"",
                                      "\"count\"",
                                      "\"whole\"",
                                      "\"x / 0\"",
                                      "1e308",
                                      "0.5",
                                      "true" };
enum { PIECE_COUNT = sizeof pieces / sizeof pieces[0], TEXT_MAX = 4096 };

/* A value (a word in quotes, or a digit) from some place on gives way to a piece. */
static void exchange(char *text, uint64_t *state)
{
    size_t length = strlen(text), at = test_below(state, length);
    const char *piece = pieces[test_below(state, PIECE_COUNT)];
    while (text[at] != '\0' && text[at] != '"' && (text[at] < '0' || text[at] > '9')) {
        at++;
    }
    if (text[at] == '\0') {
        return;
    }
    size_t end = at + 1;
    if (text[at] == '"') {
        end += strcspn(text + end, "\"");
        end += text[end] == '"';
    }
    char rest[TEXT_MAX];
    snprintf(rest, sizeof rest, "%s", text + end);
    snprintf(text + at, TEXT_MAX - at, "%s%s", piece, rest);
}

static void check_loaded(const struct sweep *sweep)
{
    struct sweep_walk walk;
    struct error error = { 0 };
    struct strbuf text = { 0 };
    uint64_t count = 0;
    uint64_t faults = 0;
    sweep_walk_start(&walk, sweep);
    while (sweep_walk_next(&walk) && test_failures == 0) {
        EXPECT_INT(walk.point, count++);
        if (walk.fault.expression != NULL) {
            EXPECT_INT(sweep_walk_why(&walk, &error), STATUS_BAD_INPUT);
            faults++;
            continue;
        }
        if (count < 4 && sweep_scenario_text(&walk, &text, &error) == STATUS_OK) {
            struct hash hash;
            EXPECT_INT(sweep_scenario_hash(text.text, &hash, &error), STATUS_OK);
        }
    }
    EXPECT_INT(count, sweep->points);
    EXPECT(faults < count);
    strbuf_free(&text);
}

static void loader_round(uint64_t *state)
{
    char text[TEXT_MAX];
    struct sweep sweep;
    struct error error = { 0 };
    snprintf(text, sizeof text, "%s", seed_text);
    for (uint64_t n = test_below(state, 4); n-- > 0;) {
        exchange(text, state);
    }
    if (test_below(state, 4) == 0) {
        text[test_below(state, strlen(text))] = (char)(1 + test_below(state, 255));
    }
    if (sweep_parse(&sweep, text, "f.json", &error) != STATUS_OK) {
        EXPECT(error.message[0] != '\0');
        return;
    }
    check_loaded(&sweep);
    sweep_free(&sweep);
}

static void round_of(uint64_t seed)
{
    uint64_t state = seed;
    for (int i = 0; i < 20 && test_failures == 0; i++) {
        loader_round(&state);
    }
}

int main(int argc, char **argv)
{
    return fuzz_run(round_of, argc, argv);
}
