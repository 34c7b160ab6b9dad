#include "sim/report/refusal.h"

#include "sim/base/units.h"
#include "sim/report/fit_trial.h"
#include "sim/report/text_table.h"

enum { WIDTH = 110 };

void refusal_json(const struct refusal *refusal, struct strbuf *out)
{
    static const char *const unknown[] = {
        "step_time_s",          "samples_per_s",           "tokens_per_s", "tokens_per_s_per_gpu",
        "model_tflops_per_gpu", "hardware_tflops_per_gpu", "mfu",          "hfu",
        "schedule_hash"
    };
    static const char *const empty[] = { "devices", "time_breakdown", "traffic", "bounds" };
    struct json_writer w = { .out = out };
    struct fit_trial trial = { 0 };
    fit_trial_take_lack(&trial, &refusal->lack);
    jw_object(&w, NULL);
    jw_string(&w, "schema", "memwall.result/1");
    jw_string(&w, "name", refusal->name);
    jw_string(&w, "machine", refusal->machine);
    jw_string(&w, "plan", refusal->plan);
    jw_string(&w, "executor", refusal->executor);
    jw_bool(&w, "emulated", false);
    jw_bool(&w, "fits", false);
    jw_string(&w, "reason", refusal->reason);
    for (size_t i = 0; i < sizeof unknown / sizeof unknown[0]; i++) {
        jw_null(&w, unknown[i]);
    }
    jw_uint(&w, "gpus", refusal->gpus);
    fit_full_json(&w, &trial);
    for (size_t i = 0; i < sizeof empty / sizeof empty[0]; i++) {
        jw_array(&w, empty[i]);
        jw_end(&w);
    }
    if (refusal->remedies != NULL) {
        remedies_json(refusal->remedies, &w);
    }
    jw_end(&w);
    strbuf_char(out, '\n');
}

void refusal_text(const struct refusal *refusal, struct strbuf *out)
{
    strbuf_printf(out, "%s\n%u GPU%s of %s, memory policy %s\n\nDOES NOT FIT", refusal->name, refusal->gpus,
                  refusal->gpus == 1 ? "" : "s", refusal->machine, refusal->policy);
    if (refusal->lack.present) {
        char needed[32], has[32];
        strbuf_printf(out, ": %s would need %s and has %s", refusal->lack.what,
                      text_bytes(refusal->lack.needed_bytes, needed, sizeof needed),
                      text_bytes(refusal->lack.has_bytes, has, sizeof has));
    }
    strbuf_char(out, '\n');
    struct text_table table = { .column_count = 1, .last_width = WIDTH - 4 };
    text_table_cell(&table, "%s", refusal->reason);
    text_table_print(&table, 2, false, out);
    text_table_free(&table);
    if (refusal->remedies != NULL) {
        remedies_text(refusal->remedies, out);
    }
}
