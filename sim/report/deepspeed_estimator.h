/* DeepSpeed's own estimates of the memory of model states, as a calculator of its own: what a user of its planning tool is told, to be read beside a simulated step.
 *
 * estimate_zero2_model_states_mem_needs (runtime/zero/stage_1_and_2.py) and estimate_zero3_model_states_mem_needs (stage3.py), as documented in docs/code-docs/source/memory.rst.
 * Bytes per server ("per CPU") and per GPU, without activations; whole numbers as Python's int() cuts them. DeepSpeed prints them in GiB under the name GB.
 *
 *     const struct deepspeed_estimate_input input = { .parameters = 2851e6, .largest_layer = 32e6, .gpus_per_node = 8, .nodes = 1 };
 *     struct deepspeed_estimate row;
 *     for (uint32_t i = 0; i < DEEPSPEED_ESTIMATES; i++) deepspeed_estimate(&input, i, DEEPSPEED_CODE, &row); */
#ifndef MEMWALL_REPORT_DEEPSPEED_ESTIMATOR_H
#define MEMWALL_REPORT_DEEPSPEED_ESTIMATOR_H

#include <stdbool.h>
#include <stdint.h>

#include "sim/base/strbuf.h"
#include "sim/model/model.h"

/* Where code and documentation differ, all in ZeRO-2: without offload 2P + 18P/T bytes a GPU in the code, 4P + 16P/T in the text; with it, host copies by all GPUs in the code, by those of
 * a server in the text. */
enum deepspeed_preset { DEEPSPEED_CODE, DEEPSPEED_DOCS };

struct deepspeed_estimate_input {
    double parameters, largest_layer; /* elements; the layer: direct parameters of one module */
    int64_t gpus_per_node, nodes;     /* >= 1 */
};

/* The rows of its tables: two of ZeRO-2, six of ZeRO-3. */
enum { DEEPSPEED_ESTIMATES = 8 };

struct deepspeed_estimate {
    int stage;
    bool offload_parameters, offload_optimizer;
    bool zero_init; /* stage 3: built under zero.Init */
    double host_bytes, gpu_bytes;
    const char *host_formula, *gpu_formula; /* P parameters, L largest layer, g GPUs of a server, n servers, T = g n */
};

void deepspeed_estimate(const struct deepspeed_estimate_input *input, uint32_t row, enum deepspeed_preset preset,
                        struct deepspeed_estimate *estimate);
/* The most parameters that one module of the model holds directly: a linear map, or an embedding table. */
double deepspeed_largest_layer(const struct model *model);

/* What was simulated, to stand beside: highest peaks; 0: none. */
struct deepspeed_simulated {
    const char *name, *policy;
    int64_t zero_stage;
    double gpu_peak_bytes, host_peak_bytes;
};

/* Both presets; text for people, JSON "memwall.deepspeed-estimate/1". */
void deepspeed_estimates_print_text(const struct deepspeed_estimate_input *input,
                                    const struct deepspeed_simulated *simulated, struct strbuf *out);
void deepspeed_estimates_print_json(const struct deepspeed_estimate_input *input,
                                    const struct deepspeed_simulated *simulated, struct strbuf *out);

#endif
