#include "sim/report/deepspeed_estimator.h"

#include <math.h>

#include "sim/base/check.h"
#include "sim/base/json_write.h"
#include "sim/model/variant.h"
#include "sim/report/text_table.h"

/* Its additional_buffer_factor. */
static const double BUFFER_FACTOR = 1.5;
static const double GIB = 1024.0 * 1024 * 1024;

static void zero2(const struct deepspeed_estimate_input *in, enum deepspeed_preset preset, struct deepspeed_estimate *e)
{
    double p = in->parameters, g = (double)in->gpus_per_node, t = g * (double)in->nodes;
    bool docs = preset == DEEPSPEED_DOCS;
    if (e->offload_optimizer) {
        e->gpu_bytes = 2 * p;
        e->gpu_formula = "2P";
        e->host_bytes = p * fmax(4 * (docs ? g : t), 16) * BUFFER_FACTOR;
        e->host_formula = docs ? "P max(4g, 16) 1.5" : "P max(4T, 16) 1.5";
        return;
    }
    e->gpu_bytes = docs ? 4 * p + trunc(16 * p / t) : 2 * p + trunc(18 * p / t);
    e->gpu_formula = docs ? "4P + 16P/T" : "2P + 18P/T";
    e->host_bytes = p * 4 * g * BUFFER_FACTOR;
    e->host_formula = "4P g 1.5";
}

static void zero3(const struct deepspeed_estimate_input *in, struct deepspeed_estimate *e)
{
    double p = in->parameters, g = (double)in->gpus_per_node, n = (double)in->nodes, layer = 4 * in->largest_layer;
    if (!e->offload_optimizer) {
        e->gpu_bytes = layer + trunc(18 * p / (g * n));
        e->gpu_formula = "4L + 18P/T";
        e->host_bytes = (e->zero_init ? in->largest_layer : p) * 4 * g * BUFFER_FACTOR;
        e->host_formula = e->zero_init ? "4L g 1.5" : "4P g 1.5";
        return;
    }
    double states = e->offload_parameters ? 18 : 16, factor = 1 / n; /* in the order of its own products: it cuts */
    e->gpu_bytes = layer + (e->offload_parameters ? 0 : trunc(2 * p / (g * n)));
    e->gpu_formula = e->offload_parameters ? "4L" : "4L + 2P/T";
    e->host_bytes = (e->zero_init ? p * states * factor : p * fmax(4 * g, states * factor)) * BUFFER_FACTOR;
    if (e->offload_parameters) {
        e->host_formula = e->zero_init ? "18P/n 1.5" : "P max(4g, 18/n) 1.5";
    } else {
        e->host_formula = e->zero_init ? "16P/n 1.5" : "P max(4g, 16/n) 1.5";
    }
}

void deepspeed_estimate(const struct deepspeed_estimate_input *input, uint32_t row, enum deepspeed_preset preset,
                        struct deepspeed_estimate *estimate)
{
    CHECK(row < DEEPSPEED_ESTIMATES && input->gpus_per_node >= 1 && input->nodes >= 1);
    uint32_t of_three = row - 2; /* in the order of DeepSpeed's tables */
    bool three = row >= 2;
    *estimate = (struct deepspeed_estimate){
        .stage = three ? 3 : 2,
        .offload_parameters = three && of_three < 2,
        .offload_optimizer = three ? of_three < 4 : row == 0,
        .zero_init = three && of_three % 2 == 0,
    };
    if (three) {
        zero3(input, estimate);
    } else {
        zero2(input, preset, estimate);
    }
    estimate->host_bytes = trunc(estimate->host_bytes);
    estimate->gpu_bytes = trunc(estimate->gpu_bytes);
}

double deepspeed_largest_layer(const struct model *model)
{
    const struct model widest = model_at_variant(model, model_variant_count(model) - 1), *m = &widest;
    double hidden = (double)m->hidden, ffn = (double)m->ffn, heads = (double)(m->heads * m->head_size);
    double qkv = (double)((m->heads + 2 * m->kv_heads) * m->head_size);
    const double modules[] = {
        (double)m->vocab * hidden,
        hidden * qkv + (m->qkv_bias ? qkv : 0),
        heads * hidden + (m->projection_bias ? hidden : 0),
        hidden * ffn + (m->ffn_bias ? ffn : 0),
    };
    double largest = 0;
    for (size_t i = 0; i < sizeof modules / sizeof modules[0]; i++) {
        largest = fmax(largest, modules[i]);
    }
    return largest;
}

/* ---- printing ---- */

static const char *device_word(bool offloaded)
{
    return offloaded ? "cpu" : "none";
}

static const char *preset_word(enum deepspeed_preset preset)
{
    return preset == DEEPSPEED_CODE ? "code" : "docs";
}

static void add_row(struct text_table *table, const struct deepspeed_estimate *e, enum deepspeed_preset preset)
{
    text_table_cell(table, "ZeRO-%d", e->stage);
    text_table_cell(table, "%s", e->stage == 3 ? device_word(e->offload_parameters) : "-");
    text_table_cell(table, "%s", device_word(e->offload_optimizer));
    text_table_cell(table, "%s", e->stage == 3 ? (e->zero_init ? "1" : "0") : "-");
    text_table_cell(table, "%s", e->stage == 3 ? "both" : preset_word(preset));
    text_table_cell(table, "%.2f", e->host_bytes / GIB);
    text_table_cell(table, "%.2f", e->gpu_bytes / GIB);
    text_table_cell(table, "%s", e->host_formula);
    text_table_cell(table, "%s", e->gpu_formula);
}

void deepspeed_estimates_print_text(const struct deepspeed_estimate_input *input,
                                    const struct deepspeed_simulated *simulated, struct strbuf *out)
{
    static const char *const head[] = { "stage", "offload_param", "offload_optimizer", "zero_init",
                                        "of",    "server GiB",    "GPU GiB",           "server",
                                        "GPU" };
    enum { COLUMNS = sizeof head / sizeof head[0], NUMBERS = 1u << 5 | 1u << 6 };
    struct text_table table = { .column_count = COLUMNS, .right = NUMBERS };
    strbuf_printf(
        out,
        "%s: DeepSpeed's estimate for params, optimizer states and gradients, without activations\n"
        "P = %.0fM parameters, L = %.0fM in the largest layer, n = %lld servers of g = %lld GPUs, T = g n\n\n",
        simulated->name, input->parameters / 1e6, input->largest_layer / 1e6, (long long)input->nodes,
        (long long)input->gpus_per_node);
    for (int i = 0; i < COLUMNS; i++) {
        text_table_cell(&table, "%s", head[i]);
    }
    for (uint32_t row = 0; row < DEEPSPEED_ESTIMATES; row++) {
        struct deepspeed_estimate e;
        for (int preset = DEEPSPEED_CODE; preset <= DEEPSPEED_DOCS; preset++) {
            deepspeed_estimate(input, row, (enum deepspeed_preset)preset, &e);
            if (e.stage == 2 || preset == DEEPSPEED_CODE) {
                add_row(&table, &e, (enum deepspeed_preset)preset);
            }
        }
    }
    text_table_print(&table, 2, true, out);
    text_table_free(&table);
    strbuf_printf(out, "\nSimulated, all of it: ZeRO-%lld, policy %s: GPU %.2f GiB, server %.2f GiB at their peaks\n",
                  (long long)simulated->zero_stage, simulated->policy, simulated->gpu_peak_bytes / GIB,
                  simulated->host_peak_bytes / GIB);
}

static void print_row(struct json_writer *w, const struct deepspeed_estimate *e, enum deepspeed_preset preset)
{
    jw_object(w, NULL);
    jw_int(w, "stage", e->stage);
    jw_string(w, "preset", preset_word(preset));
    jw_string(w, "offload_param", device_word(e->offload_parameters));
    jw_string(w, "offload_optimizer", device_word(e->offload_optimizer));
    if (e->stage == 3) {
        jw_bool(w, "zero_init", e->zero_init);
    }
    jw_real(w, "server_bytes", e->host_bytes);
    jw_real(w, "gpu_bytes", e->gpu_bytes);
    jw_string(w, "server_formula", e->host_formula);
    jw_string(w, "gpu_formula", e->gpu_formula);
    jw_end(w);
}

void deepspeed_estimates_print_json(const struct deepspeed_estimate_input *input,
                                    const struct deepspeed_simulated *simulated, struct strbuf *out)
{
    struct json_writer w = { .out = out };
    jw_object(&w, NULL);
    jw_string(&w, "schema", "memwall.deepspeed-estimate/1");
    jw_string(&w, "name", simulated->name);
    jw_real(&w, "parameters", input->parameters);
    jw_real(&w, "largest_layer_parameters", input->largest_layer);
    jw_int(&w, "gpus_per_node", input->gpus_per_node);
    jw_int(&w, "nodes", input->nodes);
    jw_array(&w, "estimates");
    for (int preset = DEEPSPEED_CODE; preset <= DEEPSPEED_DOCS; preset++) {
        for (uint32_t row = 0; row < DEEPSPEED_ESTIMATES; row++) {
            struct deepspeed_estimate e;
            deepspeed_estimate(input, row, (enum deepspeed_preset)preset, &e);
            print_row(&w, &e, (enum deepspeed_preset)preset);
        }
    }
    jw_end(&w);
    jw_object(&w, "simulated");
    jw_string(&w, "policy", simulated->policy);
    jw_int(&w, "zero_stage", simulated->zero_stage);
    jw_real(&w, "gpu_peak_bytes", simulated->gpu_peak_bytes);
    jw_real(&w, "server_peak_bytes", simulated->host_peak_bytes);
    jw_end(&w);
    jw_end(&w);
    strbuf_char(out, '\n');
}
