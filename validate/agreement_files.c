#include "validate/agreement_files.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "plots/agreement.h"
#include "sim/base/check.h"
#include "sim/base/file.h"
#include "sim/report/files.h"

enum { PATH_BYTES = 4096, NAME_ROOM = 64 };

static const char *path_of(const struct agreement_files *files, const char *name, char path[PATH_BYTES])
{
    snprintf(path, PATH_BYTES, "%s/%s", files->folder, name);
    return path;
}

/* Writes and frees `text`. */
static enum status write_text(const struct agreement_files *files, const char *name, struct strbuf *text,
                              struct error *error)
{
    char path[PATH_BYTES];
    enum status status = text->failed ? error_set(error, STATUS_NO_MEMORY, "out of memory for %s", name)
                                      : file_write(path_of(files, name, path), text->text, text->length, error);
    strbuf_free(text);
    *text = (struct strbuf){ 0 };
    return status;
}

static enum status draw(const struct agreement_files *files, struct error *error)
{
    const struct agreement *a = files->agreement;
    char title[400], subtitle[200];
    snprintf(title, sizeof title, "%s: simulated against measured, %s executor%s", files->simulated->name, a->executor,
             a->emulated ? " (emulated)" : "");
    snprintf(subtitle, sizeof subtitle, "%u ops, median error %.1f %%, 90 %% below %.1f %%; the step %+.1f %%",
             a->all.ops, 100 * a->all.median_error, 100 * a->all.p90_error, 100 * a->signed_step_error);
    const struct agreement_plot plot = {
        .schedule = files->simulated->schedule,
        .simulated_s = a->op_simulated_s,
        .measured_s = a->op_measured_s,
        .title = title,
        .subtitle = subtitle,
        .folder = files->folder,
        .note = files->note,
        .note_bytes = files->note_bytes,
    };
    return plot_agreement(&plot, error);
}

enum status agreement_files_write(const struct agreement_files *files, struct error *error)
{
    struct strbuf out = { 0 };
    char path[PATH_BYTES];
    if (strlen(files->folder) + NAME_ROOM > PATH_BYTES) {
        return error_set(error, STATUS_IO, "the folder's name is longer than %d characters", PATH_BYTES - NAME_ROOM);
    }
    TRY(folder_make(files->folder, error));
    agreement_print_json(files->agreement, files->simulated->schedule, files->notes, &out);
    TRY(write_text(files, "validation.json", &out, error));
    agreement_print_csv(files->agreement, files->simulated->schedule, &out);
    TRY(write_text(files, "ops.csv", &out, error));
    TRY(files_trace(path_of(files, "trace.simulated.json.gz", path), files->simulated, error));
    (void)path_of(files, "trace.measured.json.gz", path);
    if (files->measured == NULL) {
        (void)unlink(path); /* an earlier run's would pass for this one's */
    } else {
        struct result_input measured = *files->simulated;
        measured.timeline = files->measured;
        TRY(files_trace(path, &measured, error));
    }
    return draw(files, error);
}
