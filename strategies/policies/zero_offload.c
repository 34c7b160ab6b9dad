/* The policy `zero-offload` (Ren et al., USENIX ATC 2021): weights stay on the device, gradients leave it in buckets during the backward pass, Adam runs on the host's cores over
 * states in host memory, new weights come up. Optionally the update runs a step late beside the next forward and backward, or a part of the parameters is updated on the device.
 *
 * Several devices are ZeRO-1 or 2: each updates its share, the lowering gathers the new weights. */
#include "sim/base/check.h"
#include "strategies/policies/policies.h"
#include "strategies/policies/zero_offload_state.h"
#include "strategies/policies/zero_parameters.h"

enum { TILE_ELEMENTS = ZERO_SHARED_COUNT, UPLOAD, DELAYED, UPLOADED_BYTES, SCRATCH_BYTES };
static const char *const UPLOAD_WORDS[] = { "preset", "tiled", "serial", NULL };
enum { UPLOAD_PRESET, UPLOAD_TILED, UPLOAD_SERIAL };

static const struct parameter PARAMETERS[] = {
    ZERO_SHARED_PARAMETERS,
    { .name = "tile_elements",
      .type = PARAMETER_INT,
      .unit = "parameters",
      .minimum = 1,
      .maximum = 1e12,
      .fallback = 134217728,
      .help = "Adam updates so many parameters at a time; tiled, they go up while the next are updated" },
    { .name = "upload",
      .type = PARAMETER_WORD,
      .unit = "",
      .fallback = UPLOAD_PRESET,
      .words = UPLOAD_WORDS,
      .help =
          "new weights go up tile by tile beside Adam, or all after it; preset: tiled in `paper`, serial in `code`" },
    { .name = "delayed",
      .type = PARAMETER_BOOL,
      .unit = "",
      .fallback = 0,
      .help = "one-step delayed update: Adam over the gradients of the step before runs beside this step's forward and "
              "backward" },
    { .name = "uploaded_bytes",
      .type = PARAMETER_INT,
      .unit = "bytes",
      .minimum = 2,
      .maximum = 4,
      .fallback = 2,
      .help = "of a parameter's new weight on its way up: 2; 4: fp32, cast on the device, as DeepSpeed's code of 2020 "
              "(tiled) and of 2024 (serial)" },
    { .name = "scratch_bytes",
      .type = PARAMETER_REAL,
      .unit = "bytes",
      .minimum = 0,
      .maximum = 16,
      .fallback = ZERO_SCRATCH_BYTES,
      .help = "preset code: of a parameter, in host memory from unscaling to the end of Adam beside all that is kept; "
              "10 as measured in 2025, 0 as before: 70B of 2021 on a DGX-2 leave no room for them" },
};
enum { PARAMETER_COUNT = sizeof PARAMETERS / sizeof PARAMETERS[0] };

static struct zero_options options_of(const double *values)
{
    struct zero_options options = zero_shared_options(values);
    options.tiled =
        values[UPLOAD] == UPLOAD_PRESET ? !options.code : values[UPLOAD] == UPLOAD_TILED; /* words are small integers */
    options.tile_elements = values[TILE_ELEMENTS];
    options.delayed = values[DELAYED] > 0.5;
    options.uploaded_bytes = values[UPLOADED_BYTES];
    options.scratch_bytes = values[SCRATCH_BYTES];
    options.weights = SPACE_DEVICE;
    return options;
}

static struct zero_options options(const struct lowering *lowering)
{
    return options_of(lower_input(lowering)->plan->policy_parameters.value);
}

static enum status check(const struct lower_request *request, struct error *error)
{
    const struct plan *plan = request->plan;
    const struct zero_options o = options_of(plan->policy_parameters.value);
    TRY(zero_check_shared(request, "zero-offload", error));
    if (o.uploaded_bytes > 2 && (o.uploaded_bytes < 4 || o.delayed)) {
        return error_at(error, STATUS_BAD_INPUT, NULL, "$.memory_policy.uploaded_bytes",
                        "%g bytes of a new weight%s: allowed are 2, or 4 without a delayed update", o.uploaded_bytes,
                        o.delayed ? " of a delayed update" : "");
    }
    if (plan->zero_stage == 3) {
        return error_at(error, STATUS_BAD_INPUT, NULL, "$.parallel.zero_stage",
                        "zero-offload keeps whole weights on every device: with zero_stage 3 take the policy "
                        "zero3-offload, or set zero_stage 2");
    }
    if (plan->data * plan->context > 1 && plan->zero_stage == 0) {
        return error_at(error, STATUS_BAD_INPUT, NULL, "$.parallel.zero_stage",
                        "zero-offload on several data-parallel devices shards the update: set zero_stage 1 or 2 (2 as "
                        "in the paper)");
    }
    if (o.delayed && plan->micro_batches > 1) {
        return error_at(error, STATUS_BAD_INPUT, NULL, "$.memory_policy.delayed",
                        "a delayed update is defined for one micro-batch a step, found %lld: which of them would miss "
                        "it? Set training.global_batch to micro_batch x data, or delayed to false",
                        (long long)plan->micro_batches);
    }
    if (o.delayed && o.cpu_ratio < 1) {
        return error_at(error, STATUS_BAD_INPUT, NULL, "$.memory_policy.delayed",
                        "with cpu_ratio %g one part of the weights would be a step older than the other: set cpu_ratio "
                        "to 1, or delayed to false",
                        o.cpu_ratio);
    }
    return STATUS_OK;
}

static enum space_kind place(struct lowering *lowering, const struct lower_layer *layer, enum buffer_class buffer_class)
{
    const struct zero_options o = options(lowering);
    return zero_place(lowering, &o, layer, buffer_class);
}

static void begin_rank(struct lowering *lowering)
{
    const struct zero_options o = options(lowering);
    zero_begin_rank(lowering, &o);
}

static void before_pass(struct lowering *lowering, const struct lower_pass *pass)
{
    zero_update_begin(lowering);
    zero_gradients_before_pass(lowering, pass);
    if (!pass->skipped) {
        zero_checkpoint_before_pass(lowering, pass);
    }
}

static void after_pass(struct lowering *lowering, const struct lower_pass *pass)
{
    if (!pass->skipped) {
        zero_checkpoint_after_pass(lowering, pass);
    }
    zero_gradients_after_pass(lowering, pass);
}

const struct memory_policy policy_zero_offload = {
    .abi = MEMORY_POLICY_ABI,
    .name = "zero-offload",
    .summary =
        "ZeRO-Offload: gradients to host memory during backward, Adam on the host, new weights up; delayed update",
    .paper = "Ren et al., ZeRO-Offload, USENIX ATC 2021",
    .parameters = PARAMETERS,
    .parameter_count = PARAMETER_COUNT,
    .check = check,
    .begin_rank = begin_rank,
    .place = place,
    .before_pass = before_pass,
    .after_pass = after_pass,
    .gradient_ready = zero_gradient_ready,
    .optimizer = zero_update,
    .skips_layers = true,
};
