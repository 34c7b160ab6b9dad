#include "strategies/policies/zero_parameters.h"

const char *const ZERO_PRESET_WORDS[] = { "paper", "code", NULL };
const char *const ZERO_ROUND_WORDS[] = { "preset", "none", "power_of_two", NULL };
enum { ROUND_PRESET, ROUND_NONE, ROUND_POWER_OF_TWO };

static int word(double value)
{
    return (int)value;
}

struct zero_options zero_shared_options(const double *values)
{
    bool code = word(values[ZERO_PRESET]) == ZERO_PRESET_CODE;
    double preset_bytes = code ? 4 : 2;
    return (struct zero_options){
        .code = code,
        .sent_gradient_bytes = values[ZERO_GRADIENT_BYTES] > 0 ? values[ZERO_GRADIENT_BYTES] : preset_bytes,
        .bucket_elements = values[ZERO_BUCKET_ELEMENTS],
        .overlap_gradients = values[ZERO_OVERLAP_GRADIENTS] > 0.5,
        .cpu_ratio = values[ZERO_CPU_RATIO],
        .rounds_pinned = word(values[ZERO_ROUND_PINNED]) == ROUND_PRESET
                             ? code
                             : word(values[ZERO_ROUND_PINNED]) == ROUND_POWER_OF_TWO,
        .initialise_bytes = values[ZERO_INITIALISE_BYTES],
        .checkpoints_on_host = values[ZERO_CHECKPOINTS_ON_HOST] > 0.5,
        .states = values[ZERO_PINNED_STATES] > 0.5 ? SPACE_PINNED : SPACE_HOST,
        .weights = SPACE_DEVICE,
        .gradients = SPACE_PINNED,
        .uploaded_bytes = 2,
        .scratch_bytes = ZERO_SCRATCH_BYTES,
    };
}

enum status zero_check_shared(const struct lower_request *request, const char *policy, struct error *error)
{
    const struct plan *plan = request->plan;
    const struct software *software = request->software;
    double sent = plan->policy_parameters.value[ZERO_GRADIENT_BYTES];
    if ((sent > 0 && sent < 2) || (sent > 2 && sent < 4)) {
        return error_at(error, STATUS_BAD_INPUT, NULL, "$.memory_policy.gradient_bytes",
                        "%g bytes of a gradient: allowed are 2, 4, or 0 for the preset's", sent);
    }
    if (plan->pipeline > 1) {
        return error_at(error, STATUS_UNSUPPORTED, NULL, "$.parallel.pipeline",
                        "%s sends gradients away as they are made, a pipeline stage has to add them up over its "
                        "micro-batches (DeepSpeed refuses ZeRO-2 and 3 with a pipeline too): set pipeline 1, or take "
                        "the policy optimizer-on-host",
                        policy);
    }
    if (!(software->master_bytes > 0) || software->weight_bytes > 2 || software->gradient_bytes > 2) {
        return error_at(error, STATUS_UNSUPPORTED, NULL, "$.software",
                        "%s keeps 16-bit weights and gradients on the device and fp32 master weights on the host; "
                        "software \"%s\" has %g, %g and %g bytes of them: take deepspeed or ideal, or the policy "
                        "optimizer-on-host",
                        policy, software->name, software->weight_bytes, software->gradient_bytes,
                        software->master_bytes);
    }
    if (software->keeps_gathered) {
        return error_at(error, STATUS_UNSUPPORTED, NULL, "$.software.communication.keeps_gathered",
                        "%s drops gathered weights after each pass; software \"%s\" keeps them", policy,
                        software->name);
    }
    return STATUS_OK;
}
