/* memwall compare: two scenarios, or results of runs, side by side. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/check.h"
#include "sim/base/json.h"
#include "sim/base/schema.h"
#include "sim/cli/cli.h"
#include "sim/cli/job.h"
#include "sim/report/compare.h"

static enum exit_code run(int argc, char **argv);

const struct cli_command command_compare = {
    .name = "compare",
    .usage = "A.json B.json [flags]",
    .summary = "two runs side by side: time, memory by class, traffic, what binds",
    .help =
        "A and B are scenarios, which are simulated, or results that memwall run --json or --out wrote. Prints each\n"
        "figure of both and how many times A's figure B's is. The same file twice with --set-a and --set-b\n"
        "compares two settings:\n"
        "  memwall compare S.json S.json --set-b memory_policy=optimizer-on-host\n"
        "--set changes both scenarios, --set-a and --set-b one of them, after it; all are repeatable. Results stay\n"
        "as they are.\n"
        "Exit: 0 both fit, 2 one does not (the answer is still printed), 1 bad input.\n",
    .positional_min = 2,
    .positional_max = 2,
    .takes_scenario = true,
    .run = run,
};

/* One side while it is loaded. */
struct side {
    const char *file, *letter;
    const char *sets[SETS_MAX];
    uint32_t set_count;
    struct json_document *document; /* the result */
    struct json root;
    bool is_result; /* the file held one: nothing was simulated */
};

/* The flag library keeps the last of a command's own flags; these may be given often. */
static enum status collect_sets(struct side *side, int argc, char **argv, const char *flag, struct error *error)
{
    size_t length = strlen(flag);
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
        const char *value = NULL;
        if (strncmp(argv[i], flag, length) == 0 && argv[i][length] == '=') {
            value = argv[i] + length + 1;
        } else if (strcmp(argv[i], flag) == 0 && i + 1 < argc) {
            value = argv[++i];
        }
        if (value == NULL) {
            continue;
        }
        if (side->set_count == SETS_MAX) {
            return error_at(error, STATUS_LIMIT, "memwall compare", NULL, "too many %s flags: at most %d", flag,
                            SETS_MAX);
        }
        side->sets[side->set_count++] = value;
    }
    return STATUS_OK;
}

/* Runs the scenario and reads its result as it would be printed. */
static enum status simulate(struct side *side, const struct cli_flags *common, struct error *error)
{
    struct job job = { 0 };
    struct strbuf text = { 0 };
    struct cli_flags flags = *common;
    flags.positionals[0] = side->file;
    flags.out = NULL; /* the answer's, not the run's */
    for (uint32_t i = 0; i < side->set_count; i++) {
        if (flags.set_count == SETS_MAX) {
            return error_at(error, STATUS_LIMIT, "memwall compare", NULL,
                            "too many --set and --set-%s flags: at most %d together", side->letter, SETS_MAX);
        }
        flags.sets[flags.set_count++] = side->sets[i];
    }
    enum status status = job_load(&job, &flags, error);
    if (status == STATUS_OK) {
        status = job_lower(&job, error);
    }
    if (status == STATUS_OK) {
        status = job_execute(&job, &flags, &exec_sim, NULL, error);
    }
    if (status == STATUS_OK) {
        result_print_json(&job.result, &job.input, &text);
        status = text.failed ? error_set(error, STATUS_NO_MEMORY, "out of memory comparing")
                             : json_parse(&side->document, text.text, text.length, side->file, error);
    }
    strbuf_free(&text);
    job_free(&job);
    return status;
}

/* A result has its schema's name; anything else is a scenario or wrong, and loading it says which. */
static bool holds_result(const struct json *root)
{
    return strncmp(schema_of(root), "memwall.result/", strlen("memwall.result/")) == 0;
}

static enum status load_side(struct side *side, const struct cli_flags *flags, struct error *error)
{
    TRY(json_load(&side->document, side->file, JSON_BYTES_MAX, error));
    json_root(side->document, &side->root);
    side->is_result = holds_result(&side->root);
    if (side->is_result && side->set_count > 0) {
        return error_at(error, STATUS_BAD_INPUT, side->file, NULL,
                        "holds a result: --set-%s changes scenarios; give the scenario instead", side->letter);
    }
    if (!side->is_result) {
        if (strcmp(side->file, "-") == 0) {
            return error_at(error, STATUS_BAD_INPUT, "standard input", NULL,
                            "holds no result (schema \"memwall.result/1\"); a scenario must be a file");
        }
        json_free(side->document);
        side->document = NULL;
        TRY(simulate(side, flags, error));
        json_root(side->document, &side->root);
    }
    return STATUS_OK;
}

static enum status check_unheeded(const struct cli_flags *flags, const struct side *a, const struct side *b,
                                  struct error *error)
{
    bool changes = flags->set_count > 0 || flags->detail != NULL || flags->no_fold;
    if (a->is_result && b->is_result && changes) {
        return error_at(error, STATUS_BAD_INPUT, "memwall compare", NULL,
                        "both files hold results: --set, --detail and --no-fold change scenarios");
    }
    return STATUS_OK;
}

static enum status compare(struct comparison *comparison, struct side *a, struct side *b, const struct cli_flags *flags,
                           struct error *error)
{
    if (strcmp(a->file, "-") == 0 && strcmp(b->file, "-") == 0) {
        return error_at(error, STATUS_BAD_INPUT, "memwall compare", NULL, "only one of both can be standard input");
    }
    TRY(load_side(a, flags, error));
    TRY(load_side(b, flags, error));
    TRY(check_unheeded(flags, a, b, error));
    TRY(compare_read(&comparison->a, &a->root, error));
    return compare_read(&comparison->b, &b->root, error);
}

static enum exit_code run(int argc, char **argv)
{
    struct cli_flags flags;
    enum exit_code code;
    const char *set_a = NULL, *set_b = NULL;
    const struct cli_flag more[] = {
        { "set-a", "PATH=VALUE", "change a key of scenario A alone (repeatable)", &set_a },
        { "set-b", "PATH=VALUE", "change a key of scenario B alone (repeatable)", &set_b },
    };
    struct side a = { .letter = "a" }, b = { .letter = "b" };
    struct error error = { 0 };
    enum status status = collect_sets(&a, argc, argv, "--set-a", &error);
    if (status == STATUS_OK) {
        status = collect_sets(&b, argc, argv, "--set-b", &error);
    }
    if (!cli_parse(&command_compare, argc, argv, &flags, more, sizeof more / sizeof more[0], &code)) {
        return code;
    }
    a.file = flags.positionals[0];
    b.file = flags.positionals[1];
    struct comparison comparison = { 0 };
    if (status == STATUS_OK) {
        status = compare(&comparison, &a, &b, &flags, &error);
    }
    if (status != STATUS_OK) {
        code = cli_complain(&error);
    } else {
        struct strbuf out = { 0 };
        if (flags.json) {
            compare_json(&comparison, &a.root, &b.root, &out);
        } else {
            compare_text(&comparison, &out);
        }
        code =
            cli_answer(&flags, "compare", &out, comparison.a.fits && comparison.b.fits ? EXIT_DONE : EXIT_DOES_NOT_FIT);
    }
    json_free(a.document);
    json_free(b.document);
    return code;
}
