/* memwall: dispatch to the commands. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "sim/base/heap.h"
#include "sim/base/json.h"
#include "sim/base/printable.h"
#include "sim/cli/cli.h"

static const struct cli_command *const COMMANDS[] = { &command_run,      &command_explain,  &command_schedule,
                                                      &command_pipeline, &command_validate, &command_calibrate,
                                                      &command_compare,  &command_fit,      &command_plan,
                                                      &command_sweep,    &command_buy,      &command_report,
                                                      &command_import,   &command_list };
enum { COMMAND_COUNT = sizeof COMMANDS / sizeof COMMANDS[0] };

static void print_help(FILE *stream)
{
    fputs("memwall - what one training step of a large model costs on a machine, before you buy it\n\n"
          "usage: memwall COMMAND [arguments]\n\n"
          "commands:\n",
          stream);
    for (int i = 0; i < COMMAND_COUNT; i++) {
        fprintf(stream, "  %-10s %s\n", COMMANDS[i]->name, COMMANDS[i]->summary);
    }
    fputs("\nstart with:  memwall list scenarios\n"
          "             memwall run scenarios/gpt3-175b-dgx-a100.json\n"
          "             memwall COMMAND --help\n\n"
          "your own orders, policies and planners, from a shared object: --plugin FILE.so with any command\n\n"
          "exit codes: 0 done and it fits, 1 bad input or usage, 2 does not fit (the result is still printed), 3 "
          "execution failed\n",
          stream);
}

/* A standard stream that was closed would be the next file opened: results would land in it. For reading only, so that printing still fails. */
static void fill_standard_streams(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        if (fcntl(fd, F_GETFD) == -1) {
            (void)open("/dev/null", O_RDONLY); /* takes the lowest free number: this one */
        }
    }
}

/* Help and versions go through stdio: what did not reach the reader is not done. */
static int finish(enum exit_code code)
{
    return fflush(stdout) != 0 || ferror(stdout) ? (int)EXIT_FAILED : (int)code;
}

int main(int argc, char **argv)
{
    fill_standard_streams();
    (void)signal(SIGXFSZ, SIG_IGN); /* a file too large for its limit (ulimit -f) is a failed write with a message */
    heap_prepare();
    if (argc < 2) {
        print_help(stderr);
        return EXIT_BAD_INPUT;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 || strcmp(argv[1], "help") == 0) {
        print_help(stdout);
        return finish(EXIT_DONE);
    }
    if (strcmp(argv[1], "--version") == 0) {
        cli_print_version();
        return finish(EXIT_DONE);
    }
    const char *names[COMMAND_COUNT];
    for (int i = 0; i < COMMAND_COUNT; i++) {
        names[i] = COMMANDS[i]->name;
        if (strcmp(argv[1], names[i]) == 0) {
            return finish(COMMANDS[i]->run(argc - 1, argv + 1));
        }
    }
    const char *near = nearest_word(argv[1], names, COMMAND_COUNT);
    make_printable(argv[1], true);
    fprintf(stderr, "memwall: unknown command \"%s\"%s%s%s\nmemwall --help lists the commands\n", argv[1],
            near != NULL ? "; did you mean \"" : "", near != NULL ? near : "", near != NULL ? "\"?" : "");
    return EXIT_BAD_INPUT;
}
