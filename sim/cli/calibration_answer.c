/* memwall calibrate: what it says when the machine file is written. */
#include <math.h>
#include <string.h>

#include "sim/base/json_write.h"
#include "sim/cli/calibration.h"

static void print_left_out(const struct calibration *c, struct strbuf *out)
{
    char what[96];
    if (c->left_out_count == 0) {
        return;
    }
    strbuf_printf(out, "%u points were left out", c->left_out_count);
    uint32_t shown = c->left_out_count < 5 ? c->left_out_count : 5;
    for (uint32_t i = 0; i < shown; i++) {
        strbuf_printf(out, "%s\n  %s: %s", i == 0 ? ":" : "", point_text(&c->left_out[i].point, what, sizeof what),
                      c->left_out[i].why);
    }
    strbuf_append(out, c->left_out_count > shown ? "\n  ...\n" : "\n");
}

/* The constants that have one, as they are in the file. */
static void print_constants(const struct calibration *c, const struct machine *written, struct strbuf *out)
{
    strbuf_printf(out, "\n%-46s %14s %14s\n", "constant, in the unit of its name", "value", "standard error");
    for (uint32_t i = 0; i < written->standard_error_count; i++) {
        const struct machine_standard_error *one = &written->standard_errors[i];
        strbuf_printf(out, "%-46s %14.6g %14.2g\n", one->field, draft_get(c->draft, one->field, NAN), one->value);
    }
}

static void answer_text(const struct calibration *c, const struct machine *written, struct strbuf *out)
{
    strbuf_append(out, c->notes.text != NULL ? c->notes.text : "");
    if (c->report.line_count > 0) {
        fit_report_print(&c->report, out);
        print_constants(c, written, out);
    }
    print_left_out(c, out);
    strbuf_printf(out, "\nWritten: %s, machine \"%s\", from %u points. Simulate with --set machine=%s\n", c->flags.out,
                  c->name, c->all.count, c->flags.out);
}

static void answer_lines(const struct calibration *c, struct json_writer *w)
{
    jw_array(w, "residuals");
    for (uint32_t i = 0; i < c->report.line_count; i++) {
        const struct fit_line *line = &c->report.lines[i];
        const struct machine_residual residual = { .what = line->what,
                                                   .points = line->points,
                                                   .left_out = line->left_out,
                                                   .mean_error = line->mean_error,
                                                   .worst_error = line->worst_error,
                                                   .left_out_mean_error = line->left_out_mean_error };
        machine_residual_print(&residual, w);
    }
    jw_end(w);
}

/* Each line of a text as a string. */
static void answer_text_lines(struct json_writer *w, const char *key, const char *text)
{
    char line[512];
    jw_array(w, key);
    while (text != NULL && *text != '\0') {
        size_t length = strcspn(text, "\n");
        (void)snprintf(line, sizeof line, "%.*s", (int)(length < sizeof line ? length : sizeof line - 1), text);
        jw_string(w, NULL, line);
        text += length + (text[length] == '\n');
    }
    jw_end(w);
}

static void answer_json(const struct calibration *c, const struct machine *written, struct strbuf *out)
{
    char what[96];
    struct json_writer w = { .out = out };
    jw_object(&w, NULL);
    jw_string(&w, "schema", "memwall.calibration/1");
    jw_string(&w, "machine", c->name);
    jw_string(&w, "file", c->flags.out);
    jw_string(&w, "executor", c->measures ? c->executor->name : NULL);
    jw_string(&w, "points_file", c->measures ? c->points_file : NULL);
    jw_uint(&w, "points", c->all.count);
    jw_array(&w, "constants");
    for (uint32_t i = 0; i < written->standard_error_count; i++) {
        const struct machine_standard_error *one = &written->standard_errors[i];
        jw_object(&w, NULL);
        jw_string(&w, "field", one->field);
        jw_real(&w, "value", draft_get(c->draft, one->field, 0));
        jw_real(&w, "standard_error", one->value);
        jw_end(&w);
    }
    jw_end(&w);
    answer_lines(c, &w);
    answer_text_lines(&w, "missing", c->report.missing.text);
    answer_text_lines(&w, "notes", c->notes.text);
    jw_array(&w, "left_out");
    for (uint32_t i = 0; i < c->left_out_count && i < CALIBRATION_LEFT_OUT_MAX; i++) {
        jw_object(&w, NULL);
        jw_string(&w, "point", point_text(&c->left_out[i].point, what, sizeof what));
        jw_string(&w, "why", c->left_out[i].why);
        jw_end(&w);
    }
    jw_end(&w);
    jw_end(&w);
    strbuf_char(out, '\n');
}

enum exit_code calibration_answer(const struct calibration *c, struct error *error)
{
    struct machine written;
    struct strbuf out = { 0 };
    char path[PATH_MAX];
    (void)snprintf(path, sizeof path, "%s%s", strchr(c->flags.out, '/') == NULL ? "./" : "", c->flags.out);
    if (machine_load(&written, path, error) != STATUS_OK) {
        return cli_complain(error);
    }
    if (c->flags.json) {
        answer_json(c, &written, &out);
    } else {
        answer_text(c, &written, &out);
    }
    machine_free(&written);
    return cli_print(&out, EXIT_DONE);
}
