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

static void put_note(char *note, size_t note_bytes, const char *text)
{
    if (note != NULL && note_bytes > 0) {
        snprintf(note, note_bytes, "%s", text);
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

/* gnuplot does not look whether its writes reached the disk, and exits with 0: does the picture end as its form does? */
static bool is_whole(const char *path, const char *end)
{
    char last[12];
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        return false;
    }
    bool whole = fseek(file, -(long)sizeof last, SEEK_END) == 0 && fread(last, 1, sizeof last, file) == sizeof last &&
                 memmem(last, sizeof last, end, strlen(end)) != NULL;
    (void)fclose(file); /* was only read */
    return whole;
}

/* gnuplot wrote to temporary names: a picture appears whole or not at all. */
static bool keep_outputs(const char *folder, const char *name, bool keep)
{
    static const struct {
        const char *name, *end; /* PNG: the type of the last chunk and its CRC */
    } forms[] = { { "svg", "</svg>" }, { "png", "IEND\xae\x42\x60\x82" } };
    bool ok = keep;
    for (int i = 0; i < 2; i++) {
        char path[PATH_BYTES], temporary[PATH_BYTES + 8];
        snprintf(path, sizeof path, "%s/%s.%s", folder, name, forms[i].name);
        snprintf(temporary, sizeof temporary, "%s.tmp", path);
        if (!keep || !is_whole(temporary, forms[i].end) || rename(temporary, path) != 0) {
            unlink(temporary);
            ok = false;
        }
    }
    return ok;
}

static enum status write_picture(const char *folder, const struct picture *picture, struct error *error)
{
    char path[PATH_BYTES];
    struct strbuf text = { 0 };
    whole_script(picture, &text);
    enum status status = STATUS_OK;
    if (text.failed || picture->data.failed || picture->script.failed) {
        status = error_set(error, STATUS_NO_MEMORY, "out of memory for the %s plot", picture->name);
    }
    snprintf(path, sizeof path, "%s/plots/%s.dat", folder, picture->name);
    if (status == STATUS_OK) {
        status = file_write(path, picture->data.text, picture->data.length, error);
    }
    snprintf(path, sizeof path, "%s/plots/%s.gp", folder, picture->name);
    if (status == STATUS_OK) {
        status = file_write(path, text.text, text.length, error);
    }
    strbuf_free(&text);
    return status;
}

/* A picture that this result does not have must not be that of an earlier one. */
static void forget_picture(const char *folder, const char *name)
{
    static const struct {
        const char *folder, *ending;
    } files[] = { { "", "svg" }, { "", "png" }, { "plots/", "gp" }, { "plots/", "dat" } };
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        char path[PATH_BYTES];
        snprintf(path, sizeof path, "%s/%s%s.%s", folder, files[i].folder, name, files[i].ending);
        unlink(path);
    }
}

/* plots/, without what an earlier run's gnuplot complained of. */
static enum status prepare_folder(const char *folder, struct error *error)
{
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "%s/plots", folder);
    TRY(folder_make(path, error));
    snprintf(path, sizeof path, "%s/plots/gnuplot.log", folder);
    unlink(path);
    return STATUS_OK;
}

/* The process that draws a picture, or -1 and a note. */
static int draw(const char *folder, const char *name, char *note, size_t note_bytes)
{
    char script[64];
    snprintf(script, sizeof script, "plots/%s.gp", name);
    int child = start_gnuplot(folder, script);
    if (child < 0) {
        put_note(note, note_bytes,
                 "gnuplot cannot be started (is it installed?): plots/ has scripts and data, no pictures are drawn");
    }
    return child;
}

/* Waits for it and gives the picture its names. */
static void finish(int child, const char *folder, const char *name, char *note, size_t note_bytes)
{
    int status = -1;
    if (child < 0) {
        return;
    }
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    if (!keep_outputs(folder, name, WIFEXITED(status) && WEXITSTATUS(status) == 0)) {
        put_note(note, note_bytes,
                 "gnuplot failed on a plot: plots/gnuplot.log says why; if it says nothing, the disk is full");
    }
}

enum status plot_draw_one(const char *folder, const struct picture *picture, char *note, size_t note_bytes,
                          struct error *error)
{
    TRY(prepare_folder(folder, error));
    TRY(write_picture(folder, picture, error));
    finish(draw(folder, picture->name, note, note_bytes), folder, picture->name, note, note_bytes);
    return STATUS_OK;
}

enum status plots_start(struct plots *plots, const struct plot_input *input, struct error *error)
{
    static enum status (*const makers[PLOT_COUNT])(const struct plot_input *, struct picture *,
                                                   struct error *) = { plot_timeline, plot_memory, plot_links,
                                                                       plot_breakdown, plot_chunks };
    static const char *const names[PLOT_COUNT] = { "timeline", "memory", "links", "breakdown", "chunks" };
    enum status status = STATUS_OK;
    *plots = (struct plots){ .input = input };
    TRY(prepare_folder(input->folder, error));
    for (int i = 0; i < PLOT_COUNT && status == STATUS_OK; i++) {
        struct picture picture = { .name = names[i] };
        status = makers[i](input, &picture, error);
        if (status == STATUS_OK && picture.script.length > 0) {
            status = write_picture(input->folder, &picture, error);
            plots->names[plots->count++] = names[i];
        } else if (status == STATUS_OK) {
            forget_picture(input->folder, names[i]);
        }
        strbuf_free(&picture.data);
        strbuf_free(&picture.script);
    }
    for (uint32_t i = 0; status == STATUS_OK && i < plots->count; i++) {
        plots->children[i] = draw(input->folder, plots->names[i], input->note, input->note_bytes);
    }
    return status;
}

void plots_finish(struct plots *plots)
{
    const struct plot_input *input = plots->input;
    for (uint32_t i = 0; i < plots->count; i++) {
        finish(plots->children[i], input->folder, plots->names[i], input->note, input->note_bytes);
    }
    plots->count = 0;
}
