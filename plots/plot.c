/* Writing pictures: scripts, data, and gnuplot run without a shell. */
#include "plots/plot.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "plots/plot_internal.h"
#include "sim/base/check.h"
#include "sim/base/file.h"

extern char **environ; /* handed on to gnuplot, not read */

enum { PATH_BYTES = 4352 };

struct time_unit plot_time_unit(double longest_s)
{
    return longest_s >= 1      ? (struct time_unit){ 1, "s" }
           : longest_s >= 1e-3 ? (struct time_unit){ 1e3, "ms" }
                               : (struct time_unit){ 1e6, "us" };
}

double plot_rank_margin(const struct schedule *schedule, uint32_t ranks, double width)
{
    size_t longest = 8;
    for (uint32_t r = 0; r < ranks && r < schedule->rank_count; r++) {
        size_t length = strlen(sched_label(schedule, schedule->ranks[r].label));
        longest = length > longest ? length : longest;
    }
    double margin = (28 + 7.6 * (double)longest) / width; /* 13-point sans: 7 to 8 pixels a letter */
    return margin < 0.3 ? margin : 0.3;
}

void plot_quoted(struct strbuf *out, const char *text)
{
    strbuf_char(out, '"');
    for (; *text != '\0'; text++) {
        if (*text == '"' || *text == '\\') {
            strbuf_char(out, '\\');
        }
        strbuf_char(out, (unsigned char)*text < ' ' ? ' ' : *text);
    }
    strbuf_char(out, '"');
}

/* The script draws twice, as SVG and as PNG; paths are relative to the result's folder. */
static void whole_script(const struct picture *picture, struct strbuf *out)
{
    strbuf_printf(
        out,
        "# memwall: %s. From the folder above this one: gnuplot plots/%s.gp\n"
        "data = \"plots/%s.dat\"\n"
        "do for [form in \"svg png\"] {\n"
        "if (form eq \"svg\") {\n"
        "set terminal svg size %.0f,%.0f noenhanced font \"Helvetica,Arial,sans-serif,13\" background \"white\"\n"
        "} else {\n"
        "set terminal pngcairo size %.0f,%.0f noenhanced font \"Sans,11\" fontscale 1.75 linewidth 1.6\n"
        "}\n"
        "set output \"%s.\".form.\".tmp\"\n",
        picture->name, picture->name, picture->name, picture->width, picture->height, 2 * picture->width,
        2 * picture->height, picture->name);
    strbuf_append_n(out, picture->script.text, picture->script.length);
    strbuf_append(out, "unset output\nreset\n}\n");
}

static void note(const struct plot_input *input, const char *text)
{
    if (input->note != NULL && input->note_bytes > 0) {
        snprintf(input->note, input->note_bytes, "%s", text);
    }
}

/* Starts gnuplot in the folder. Returns its process, or -1 when it could not be started. */
static int start_gnuplot(const char *folder, char *script)
{
    char name[] = "gnuplot";
    char *const arguments[] = { name, script, NULL };
    posix_spawn_file_actions_t actions;
    pid_t child;
    int failed = posix_spawn_file_actions_init(&actions);
    if (failed != 0) {
        return -1;
    }
    failed = posix_spawn_file_actions_addchdir_np(&actions, folder);
    failed = failed != 0 ? failed : posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    failed = failed != 0 ? failed : posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
    failed = failed != 0 ? failed
                         : posix_spawn_file_actions_addopen(&actions, 2, "plots/gnuplot.log",
                                                            O_WRONLY | O_CREAT | O_APPEND, 0666);
    failed = failed != 0 ? failed : posix_spawnp(&child, name, &actions, NULL, arguments, environ);
    posix_spawn_file_actions_destroy(&actions);
    return failed != 0 ? -1 : child;
}

/* gnuplot wrote to temporary names: a picture appears whole or not at all. */
static bool keep_outputs(const struct plot_input *input, const char *name, bool keep)
{
    static const char *const forms[] = { "svg", "png" };
    bool ok = keep;
    for (int i = 0; i < 2; i++) {
        char path[PATH_BYTES], temporary[PATH_BYTES + 8];
        snprintf(path, sizeof path, "%s/%s.%s", input->folder, name, forms[i]);
        snprintf(temporary, sizeof temporary, "%s.tmp", path);
        if (!keep || rename(temporary, path) != 0) {
            unlink(temporary);
            ok = false;
        }
    }
    return ok;
}

static enum status write_picture(const struct plot_input *input, const struct picture *picture, struct error *error)
{
    char path[PATH_BYTES];
    struct strbuf text = { 0 };
    whole_script(picture, &text);
    enum status status = STATUS_OK;
    if (text.failed || picture->data.failed || picture->script.failed) {
        status = error_set(error, STATUS_NO_MEMORY, "out of memory for the %s plot", picture->name);
    }
    snprintf(path, sizeof path, "%s/plots/%s.dat", input->folder, picture->name);
    if (status == STATUS_OK) {
        status = file_write(path, picture->data.text, picture->data.length, error);
    }
    snprintf(path, sizeof path, "%s/plots/%s.gp", input->folder, picture->name);
    if (status == STATUS_OK) {
        status = file_write(path, text.text, text.length, error);
    }
    strbuf_free(&text);
    return status;
}

static void draw(struct plots *plots)
{
    char path[PATH_BYTES], script[64];
    const struct plot_input *input = plots->input;
    snprintf(path, sizeof path, "%s/plots/gnuplot.log", input->folder);
    unlink(path); /* of an earlier run */
    for (uint32_t i = 0; i < plots->count; i++) {
        snprintf(script, sizeof script, "plots/%s.gp", plots->names[i]);
        plots->children[i] = start_gnuplot(input->folder, script);
        if (plots->children[i] < 0) {
            note(input,
                 "gnuplot cannot be started (is it installed?): plots/ has scripts and data, no pictures are drawn");
        }
    }
}

enum status plots_start(struct plots *plots, const struct plot_input *input, struct error *error)
{
    static enum status (*const makers[PLOT_COUNT])(const struct plot_input *, struct picture *,
                                                   struct error *) = { plot_timeline, plot_memory, plot_links,
                                                                       plot_breakdown };
    static const char *const names[PLOT_COUNT] = { "timeline", "memory", "links", "breakdown" };
    char path[PATH_BYTES];
    enum status status = STATUS_OK;
    *plots = (struct plots){ .input = input };
    snprintf(path, sizeof path, "%s/plots", input->folder);
    TRY(folder_make(path, error));
    for (int i = 0; i < PLOT_COUNT && status == STATUS_OK; i++) {
        struct picture picture = { .name = names[i] };
        status = makers[i](input, &picture, error);
        if (status == STATUS_OK && picture.script.length > 0) {
            status = write_picture(input, &picture, error);
            plots->names[plots->count++] = names[i];
        }
        strbuf_free(&picture.data);
        strbuf_free(&picture.script);
    }
    if (status == STATUS_OK) {
        draw(plots);
    }
    return status;
}

void plots_finish(struct plots *plots)
{
    for (uint32_t i = 0; i < plots->count; i++) {
        int status = -1;
        if (plots->children[i] < 0) {
            continue;
        }
        while (waitpid(plots->children[i], &status, 0) < 0 && errno == EINTR) {
        }
        bool done = WIFEXITED(status) && WEXITSTATUS(status) == 0;
        if (!keep_outputs(plots->input, plots->names[i], done)) {
            note(plots->input, "gnuplot failed on a plot: plots/gnuplot.log says why");
        }
    }
    plots->count = 0;
}
