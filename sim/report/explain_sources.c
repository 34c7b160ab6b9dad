/* Where the numbers of machine and software come from. */
#include <math.h>
#include <stdio.h>

#include "sim/engine/kernel_cost.h"
#include "sim/report/explain_internal.h"

static const char *const SOURCE_COLUMNS[] = { "field", "value", "kind", "source", NULL };

static void source_row(struct explainer *e, const char *path, const char *text, double value, const char *source,
                       bool estimated)
{
    explain_cell_text(e, path);
    explain_cell_text(e, text != NULL ? text : explain_text(e, "%.7g", value));
    explain_cell_text(e, source == NULL ? "default" : estimated ? "estimated" : "published");
    explain_cell_text(e, source == NULL ? "not said in the file: the format's default" : source);
}

/* Of calibrated machines: how sure the constants are, and how well they say what was measured. */
static void explain_fit(struct explainer *e, const struct machine *m)
{
    static const char *const errors[] = { "field", "standard error", NULL };
    static const char *const residuals[] = { "what",       "points",      "left out",
                                             "mean error", "worst error", "left out mean error",
                                             "source",     NULL };
    if (m->standard_error_count > 0) {
        explain_table(e, "Standard errors of fitted constants, in the unit of their name", errors);
    }
    for (uint32_t i = 0; i < m->standard_error_count; i++) {
        explain_cell_text(e, m->standard_errors[i].field);
        explain_cell_number(e, m->standard_errors[i].value);
    }
    if (m->residual_count > 0) {
        explain_table(e, "What the constants were fitted to, and their relative errors there", residuals);
    }
    for (uint32_t i = 0; i < m->residual_count; i++) {
        const struct machine_residual *line = &m->residuals[i];
        explain_cell_text(e, line->what);
        explain_cell_number(e, line->points);
        explain_cell_number(e, line->left_out);
        explain_cell_number(e, line->mean_error);
        explain_cell_number(e, line->worst_error);
        if (isnan(line->left_out_mean_error)) {
            explain_cell_text(e, "-");
        } else {
            explain_cell_number(e, line->left_out_mean_error);
        }
        explain_cell_text(e, line->source);
    }
}

void explain_machine(struct explainer *e)
{
    const struct machine *m = &e->from->scenario->machine;
    explain_section(e, "machine", "Machine: numbers and their sources",
                    "estimated: recalled or derived by analogy; published: read in the source named.");
    explain_word(e, "machine", explain_text(e, "%s: %s", m->name, m->title), NULL);
    explain_table(e, "Fields, in the unit of their name", SOURCE_COLUMNS);
    for (uint32_t i = 0; i < machine_field_count(); i++) {
        struct machine_field_value field;
        machine_field_get(m, i, &field);
        const char *path = field.section[0] != '\0' ? explain_text(e, "%s.%s", field.section, field.key) : field.key;
        const struct machine_source *source = machine_source_of(m, path);
        source_row(e, path, field.text, field.value, source != NULL ? source->source : NULL,
                   source != NULL && source->estimated);
    }
    static const char *const others[] = { "field", "kind", "source", NULL };
    explain_table(e, "Everything the file gives a source for (links, parts, curves, kernel constants)", others);
    for (uint32_t i = 0; i < m->source_count; i++) {
        explain_cell_text(e, m->sources[i].field);
        explain_cell_text(e, m->sources[i].estimated ? "estimated" : "published");
        explain_cell_text(e, m->sources[i].source);
    }
    if (kernel_cost_is_plain(&m->gpu)) {
        explain_cell_text(e, "kernel_model.gemm");
        explain_cell_text(e, "estimated");
        explain_cell_text(e, EXPLAIN_PLAIN_PRODUCTS);
    }
    explain_fit(e, m);
    static const char *const curves[] = { "collective", "ranks", "servers", "source", NULL };
    explain_table(e, "Measured collective curves", curves);
    for (uint32_t i = 0; i < m->curve_count; i++) {
        explain_cell_text(e, collective_word(m->curves[i].kind));
        explain_cell_number(e, m->curves[i].ranks);
        explain_cell_number(e, m->curves[i].nodes);
        explain_cell_text(e, m->curves[i].source != NULL ? m->curves[i].source : "");
    }
}

void explain_software(struct explainer *e)
{
    const struct software *s = &e->from->scenario->software;
    explain_section(e, "software", "Software stack: numbers and their sources", NULL);
    explain_word(e, "software", explain_text(e, "%s: %s", s->name, s->title), NULL);
    explain_table(e, "Fields, in the unit of their name (0 and 1: no and yes)", SOURCE_COLUMNS);
    for (uint32_t i = 0; i < software_field_count(); i++) {
        struct software_field_value field;
        software_field_get(s, i, &field);
        const char *path = field.section[0] != '\0' ? explain_text(e, "%s.%s", field.section, field.key) : field.key;
        const struct software_source *source = software_source_of(s, path);
        source_row(e, path, field.text, field.value, source != NULL ? source->source : NULL,
                   source != NULL && source->estimated);
    }
}
