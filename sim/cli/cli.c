/* Flags, help, complaints: shared by all commands. */
#include "sim/cli/cli.h"

#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "sim/base/check.h"
#include "sim/base/file.h"
#include "sim/base/file_place.h"
#include "sim/base/json.h"
#include "sim/base/printable.h"
#include "sim/cli/executors.h"
#include "sim/cli/plugins.h"

enum common_flag {
    FLAG_SET = 1000,
    FLAG_JSON,
    FLAG_OUT,
    FLAG_EXECUTOR,
    FLAG_DETAIL,
    FLAG_NO_FOLD,
    FLAG_QUIET,
    FLAG_PLUGIN,
    FLAG_HELP,
    FLAG_VERSION,
    FLAG_FIRST_OWN
};

struct common {
    const char *name, *argument, *help;
    enum common_flag code;
};

static const struct common COMMON[] = {
    { "set", "PATH=VALUE", "change a key of the scenario, e.g. --set parallel.tensor=4 (repeatable)", FLAG_SET },
    { "json", NULL, "print one JSON document instead of text", FLAG_JSON },
    { "out", "DIR", "write the answer into files in DIR", FLAG_OUT },
    { "executor", "sim|host|cuda", "what runs it: the simulator, threads of this computer, or its GPUs",
      FLAG_EXECUTOR },
    { "detail", "op|layer|stage", "how finely the schedule is cut (default layer; op: every kernel and collective)",
      FLAG_DETAIL },
    { "no-fold", NULL, "build every rank, not one for all equal ones", FLAG_NO_FOLD },
    { "quiet", NULL, "no progress on standard error", FLAG_QUIET },
    { "plugin", "FILE.so", "add the strategies of a shared object (strategies/plugin/plugin.h; repeatable)",
      FLAG_PLUGIN },
    { "help", NULL, "this text", FLAG_HELP },
    { "version", NULL, "the version", FLAG_VERSION },
};
enum { COMMON_COUNT = sizeof COMMON / sizeof COMMON[0], FLAGS_MAX = 48 };

/* `fallback`: what the flag is when it is not given, or NULL. */
static void print_flag(const char *name, const char *argument, const char *help, const char *fallback)
{
    char left[64];
    snprintf(left, sizeof left, "--%s%s%s", name, argument != NULL ? " " : "", argument != NULL ? argument : "");
    printf("  %-28s %s%s%s%s\n", left, help, fallback != NULL ? " (default " : "", fallback != NULL ? fallback : "",
           fallback != NULL ? ")" : "");
}

/* Whether a common flag means anything to the command. */
static bool heeds(const struct cli_command *command, enum common_flag code)
{
    switch (code) {
    case FLAG_SET:
    case FLAG_DETAIL:
    case FLAG_NO_FOLD: return command->takes_scenario;
    case FLAG_EXECUTOR:
    case FLAG_OUT:
    case FLAG_JSON:
    case FLAG_QUIET:
    case FLAG_PLUGIN:
    case FLAG_HELP:
    case FLAG_VERSION:
    case FLAG_FIRST_OWN: break;
    }
    return true;
}

static void print_command_help(const struct cli_command *command, const struct cli_flag *more, uint32_t more_count)
{
    printf("memwall %s - %s\n\nusage: memwall %s %s\n\n%s\nflags:\n", command->name, command->summary, command->name,
           command->usage, command->help);
    for (uint32_t i = 0; i < more_count; i++) {
        print_flag(more[i].name, more[i].argument, more[i].help, NULL);
    }
    for (int i = 0; i < COMMON_COUNT; i++) {
        if (heeds(command, COMMON[i].code) && (COMMON[i].code != FLAG_EXECUTOR || command->executor != NULL)) {
            bool to_file = COMMON[i].code == FLAG_OUT && command->out_file != NULL;
            print_flag(COMMON[i].name, to_file ? "FILE" : COMMON[i].argument,
                       to_file ? command->out_file : COMMON[i].help,
                       COMMON[i].code == FLAG_EXECUTOR ? command->executor : NULL);
        }
    }
}

static enum exit_code usage_error(const struct cli_command *command, const char *what, const char *which)
{
    char shown[2 * ERROR_MESSAGE_BYTES];
    snprintf(shown, sizeof shown, "%s%s", what, which);
    make_printable(shown, true);
    fprintf(stderr, "memwall %s: %s\nusage: memwall %s %s\nmemwall %s --help says more\n", command->name, shown,
            command->name, command->usage, command->name);
    return EXIT_BAD_INPUT;
}

/* What getopt_long refused: `flag` is the argument it looked at last, `option` the value of the option when it knew it. */
static enum exit_code unknown_flag(const struct cli_command *command, const char *flag, int option,
                                   const struct option *options, int count)
{
    const char *names[FLAGS_MAX];
    for (int i = 0; i < count; i++) {
        names[i] = options[i].name;
        if (option >= FLAG_SET && options[i].val == option) {
            char known[96];
            bool wants = options[i].has_arg == required_argument;
            snprintf(known, sizeof known, "--%s %s", options[i].name, wants ? "needs a value" : "takes no value");
            return usage_error(command, known, "");
        }
    }
    if (option > 0 && option < FLAG_SET) {
        const char letter[] = { '-', (char)option, '\0' };
        return usage_error(command, "unknown flag ", letter);
    }
    const char *word = flag;
    while (*word == '-') {
        word++;
    }
    char bare[64];
    snprintf(bare, sizeof bare, "%.*s", (int)strcspn(word, "="), word);
    const char *near = nearest_word(bare, names, (size_t)count);
    char message[160];
    snprintf(message, sizeof message, "%s%s%s%s", bare, near != NULL ? "; did you mean --" : "",
             near != NULL ? near : "", near != NULL ? "?" : "");
    return usage_error(command, "unknown flag --", message);
}

/* Takes a common flag; false: usage error. */
static bool take_common(struct cli_flags *flags, int code)
{
    switch ((enum common_flag)code) {
    case FLAG_SET:
        if (flags->set_count == SETS_MAX) {
            return false;
        }
        flags->sets[flags->set_count++] = optarg;
        break;
    case FLAG_JSON: flags->json = true; break;
    case FLAG_OUT: flags->out = optarg; break;
    case FLAG_EXECUTOR: flags->executor = optarg; break;
    case FLAG_DETAIL: flags->detail = optarg; break;
    case FLAG_NO_FOLD: flags->no_fold = true; break;
    case FLAG_QUIET: flags->quiet = true; break;
    case FLAG_PLUGIN:
    case FLAG_HELP:
    case FLAG_VERSION:
    case FLAG_FIRST_OWN: break;
    }
    return true;
}

static bool can_write(const char *flag, const char *path, bool folder)
{
    struct error error = { 0 };
    enum status status = folder ? folder_place_check(path, &error) : file_place_check(path, &error);
    if (status != STATUS_OK) {
        (void)snprintf(error.file, sizeof error.file, "--%s", flag);
        (void)cli_complain(&error);
    }
    return status == STATUS_OK;
}

bool cli_can_write(const char *flag, const char *path)
{
    return path == NULL || can_write(flag, path, false);
}

static bool check_out(const struct cli_command *command, const char *out)
{
    struct stat about;
    return out == NULL || can_write("out", out,
                                    command->out_file == NULL ||
                                        (command->out_either && stat(out, &about) == 0 && S_ISDIR(about.st_mode)));
}

/* Values that are wrong whatever the command does with them. */
static bool check_common(const struct cli_command *command, const struct cli_flags *flags, enum exit_code *code)
{
    if (flags->out != NULL && flags->out[0] == '\0') {
        *code = usage_error(command, "--out needs the name of a ",
                            command->out_file == NULL ? "folder, found \"\"" : "file, found \"\"");
        return false;
    }
    struct error error = { 0 };
    if (executor_check_name(flags->executor, &error) != STATUS_OK) {
        *code = usage_error(command, "--executor: ", error.message);
        return false;
    }
    if (strcmp(flags->executor, exec_sim.name) != 0 && command->executor == NULL) {
        char message[160];
        snprintf(message, sizeof message, "this command runs nothing: --executor %s is for run, validate and calibrate",
                 flags->executor);
        *code = usage_error(command, message, "");
        return false;
    }
    return true;
}

void cli_print_version(void)
{
    struct strbuf executors = { 0 };
    executors_print(&executors);
    printf("memwall %s (rows of sweeps: %s)\n%s", MEMWALL_VERSION, plugins_results_version(),
           executors.text != NULL ? executors.text : "");
    strbuf_free(&executors);
}

bool cli_parse(const struct cli_command *command, int argc, char **argv, struct cli_flags *flags,
               const struct cli_flag *more, uint32_t more_count, enum exit_code *code)
{
    struct option options[FLAGS_MAX] = { 0 };
    int count = 0;
    CHECK(more_count + COMMON_COUNT < FLAGS_MAX);
    for (int i = 0; i < COMMON_COUNT; i++) {
        options[count++] =
            (struct option){ COMMON[i].name, COMMON[i].argument != NULL ? required_argument : no_argument, NULL,
                             (int)COMMON[i].code };
    }
    for (uint32_t i = 0; i < more_count; i++) {
        options[count++] = (struct option){ more[i].name, more[i].argument != NULL ? required_argument : no_argument,
                                            NULL, (int)(FLAG_FIRST_OWN + i) };
    }
    *flags = (struct cli_flags){ .executor = command->executor != NULL ? command->executor : exec_sim.name };
    *code = EXIT_BAD_INPUT;
    optind = 1;
    opterr = 0;
    for (;;) {
        int found = getopt_long(argc, argv, "h", options, NULL);
        if (found == -1) {
            break;
        }
        if (found == 'h' || found == FLAG_HELP) {
            print_command_help(command, more, more_count);
            *code = EXIT_DONE;
            return false;
        }
        if (found == FLAG_VERSION) {
            cli_print_version();
            *code = EXIT_DONE;
            return false;
        }
        if (found == '?') {
            *code = unknown_flag(command, argv[optind - 1], optopt, options, count);
            return false;
        }
        if (found < FLAG_FIRST_OWN && !heeds(command, (enum common_flag)found)) {
            *code = usage_error(command, "this command has no use for --", COMMON[found - FLAG_SET].name);
            return false;
        }
        if (found == FLAG_PLUGIN) {
            struct error error = { 0 };
            if (plugins_open(optarg, &error) != STATUS_OK) {
                *code = cli_complain(&error);
                return false;
            }
        } else if (found >= FLAG_FIRST_OWN) {
            *more[found - FLAG_FIRST_OWN].value = optarg != NULL ? optarg : "1";
        } else if (!take_common(flags, found)) {
            *code = usage_error(command, "too many --set flags", "");
            return false;
        }
    }
    for (int i = optind; i < argc; i++) {
        if (flags->positional_count == POSITIONALS_MAX || flags->positional_count == command->positional_max) {
            *code = usage_error(command, "unexpected argument ", argv[i]);
            return false;
        }
        flags->positionals[flags->positional_count++] = argv[i];
    }
    if (flags->positional_count < command->positional_min) {
        *code = usage_error(command, "an argument is missing", "");
        return false;
    }
    return check_common(command, flags, code) && check_out(command, flags->out);
}

enum exit_code cli_complain(const struct error *error)
{
    char text[ERROR_MESSAGE_BYTES + ERROR_FILE_BYTES + ERROR_PATH_BYTES];
    (void)error_text(error, text, sizeof text);
    make_printable(text, false); /* it may quote what a file holds */
    fprintf(stderr, "memwall: %s\n", text);
    switch (error->status) {
    case STATUS_BAD_INPUT:
    case STATUS_NOT_FOUND:
    case STATUS_UNSUPPORTED:
    case STATUS_LIMIT: return EXIT_BAD_INPUT;
    case STATUS_DOES_NOT_FIT: return EXIT_DOES_NOT_FIT;
    case STATUS_OK:
    case STATUS_NO_MEMORY:
    case STATUS_IO:
    case STATUS_DEADLOCK:
    case STATUS_BAD_SCHEDULE:
    case STATUS_BAD_TIMELINE:
    case STATUS_EXECUTION:
    case STATUS_COUNT: break;
    }
    return EXIT_FAILED;
}

enum exit_code cli_answer(const struct cli_flags *flags, const char *name, struct strbuf *out, enum exit_code code)
{
    if (flags->out != NULL && !out->failed) {
        char path[PATH_MAX];
        struct error error = { 0 };
        enum status status = folder_make(flags->out, &error);
        if (status == STATUS_OK && snprintf(path, sizeof path, "%s/%s.%s", flags->out, name,
                                            flags->json ? "json" : "txt") >= (int)sizeof path) {
            status = error_set(&error, STATUS_IO, "--out: the path is too long");
        }
        if (status == STATUS_OK) {
            status = file_write(path, out->text != NULL ? out->text : "", out->length, &error);
        }
        if (status != STATUS_OK) {
            strbuf_free(out);
            return cli_complain(&error);
        }
    }
    return cli_print(out, code);
}

enum exit_code cli_print(struct strbuf *out, enum exit_code code)
{
    bool failed = out->failed;
    if (!failed && out->length > 0) {
        failed = fwrite(out->text, 1, out->length, stdout) != out->length || fflush(stdout) != 0;
    }
    strbuf_free(out);
    if (failed) {
        fprintf(stderr, "memwall: standard output: %s\n", errno != 0 ? strerror(errno) : "out of memory");
        return EXIT_FAILED;
    }
    return code;
}

enum status cli_read_number(const char *flag, const char *text, double minimum, double maximum, bool whole,
                            double *value, struct error *error)
{
    char *end = NULL;
    if (text == NULL) {
        return STATUS_OK;
    }
    double found = strtod(text, &end);
    if (end == text || *end != '\0' || !(found >= minimum && found <= maximum) || (whole && floor(found) < found)) {
        return error_at(error, STATUS_BAD_INPUT, flag, NULL, "\"%.64s\" is not a %snumber from %g to %g", text,
                        whole ? "whole " : "", minimum, maximum);
    }
    *value = found;
    return STATUS_OK;
}

static bool take_number(const char *flag, const char *text, double minimum, double maximum, bool whole, double *value)
{
    char name[64];
    struct error error = { 0 };
    (void)snprintf(name, sizeof name, "--%s", flag);
    if (cli_read_number(name, text, minimum, maximum, whole, value, &error) != STATUS_OK) {
        (void)cli_complain(&error);
        return false;
    }
    return true;
}

bool cli_number(const char *flag, const char *text, double minimum, double maximum, double *value)
{
    return take_number(flag, text, minimum, maximum, false, value);
}

bool cli_whole(const char *flag, const char *text, double minimum, double maximum, double *value)
{
    return take_number(flag, text, minimum, maximum, true, value);
}
